/* SPDX-License-Identifier: Apache-2.0 */

/* `fault`, and `fault_inject` for LMCache's configurations: any adapter, with faults on the way in and out. */
#include <stdio.h>

#include "fault.h"

static void
fault_close (gpointer handle)
{
  Fault *fault = handle;
  if (fault->handle != NULL)
    fault->ops->close (fault->handle);
  fault_plan_clear (&fault->plan);
  g_aligned_free (fault->slab);
  g_free (fault->late);
  g_free (fault->window);
  g_free (fault);
}

/* One line that says which faults are on, so that nobody takes the figures of the run for the adapter's. */
static void
announce (Fault *fault, const FaultConfig *config)
{
  g_autoptr (GString) text = g_string_new ("fault: results are made wrong on purpose:");
  const struct
  {
    const char *key;
    double value;
  } numbers[] = { { "rate", config->rate },
                  { "store_rate", config->store_rate },
                  { "lookup_rate", config->lookup_rate },
                  { "delete_rate", config->delete_rate },
                  { "delay_rate", config->delay_rate },
                  { "delay_ms", config->delay_ms },
                  { "hang_rate", config->hang_rate },
                  { "short_rate", config->short_rate },
                  { "corrupt_rate", config->corrupt_rate },
                  { "duplicate_rate", config->duplicate_rate },
                  { "reorder", (double)config->reorder },
                  { "stall_after_ms", config->stall_after_ms },
                  { "stall_ms", config->stall_ms } };
  for (guint i = 0; i < G_N_ELEMENTS (numbers); i++)
    if (numbers[i].value > 0)
      g_string_append_printf (text, " %s=%g", numbers[i].key, numbers[i].value);
  if (fault->plan.n_gap_indices > 0)
    g_string_append_printf (text, " gap_indices=%s", config->gap_indices);
  if (fault->plan.n_gap_ratios > 0)
    g_string_append_printf (text, " gap_tail_ratios=%s", config->gap_tail_ratios);
  if (config->error_key != NULL)
    g_string_append_printf (text, " error_key=%s", config->error_key);
  if (config->no_space_after_bytes >= 0)
    g_string_append_printf (text, " no_space_after_bytes=%" G_GINT64_FORMAT, config->no_space_after_bytes);
  g_string_append_printf (text, " seed=%" G_GINT64_FORMAT, config->seed);
  fault->host->message (fault->host->data, "faults", text->str);
}

static gpointer
fault_open (gconstpointer config_, const char *type, const LmtL2Host *host, LmtL2Info *info, GError **error)
{
  const FaultConfig *config = config_;
  Fault *fault = g_new0 (Fault, 1);
  fault->host = host;
  fault->stall_from = G_MAXINT64;
  fault_plan_init (&fault->plan, config);
  if (!host->open_inner (host->data, config->inner, &fault->ops, &fault->handle, info, error))
    {
      fault_close (fault);
      return NULL;
    }
  info->depth = MAX (info->depth, 1);
  G_STATIC_ASSERT (G_STRUCT_OFFSET (FaultOp, io) == 0 && sizeof (FaultOp) % 64 == 0);
  fault->n_slab = info->depth;
  fault->slab = g_aligned_alloc0 (fault->n_slab, sizeof (FaultOp), 64);
  fault->late = g_new0 (FaultOp *, fault->n_slab);
  fault->window = g_new0 (FaultOp *, fault->n_slab);
  for (guint32 i = 0; i < fault->n_slab; i++)
    fault_list_append (&fault->spare, &fault->slab[i]);
  if (fault->ops->scan == NULL)
    info->flags |= LMT_L2_INFO_NO_SCAN;
  if (fault->plan.error_key != NULL)
    info->flags &= ~(guint32)LMT_L2_INFO_NO_WIRE;
  if (fault->plan.stall_ns > 0)
    {
      fault->stall_from = host->now_ns (host->data) + fault->plan.stall_after_ns;
      fault->stall_until = fault->stall_from + fault->plan.stall_ns;
    }
  if (fault->plan.any)
    {
      info->flags |= LMT_L2_INFO_FAULTS;
      announce (fault, config);
    }
  return fault;
}

/* -------- in -------- */

static void
fail (LmtL2Io *io, guint32 code)
{
  io->code = code;
  io->os_error = 0;
  io->done_bytes = 0;
  io->object_bytes = 0;
}

/* Faults that keep an operation from the inner adapter. */
static gboolean
is_refused (Fault *fault, FaultOp *op)
{
  static const FaultKind by_kind[] = { FAULT_STORE, N_FAULTS, FAULT_LOOKUP, FAULT_DELETE };
  const FaultPlan *plan = &fault->plan;
  LmtL2Io *io = &op->io;
  FaultKind kind = by_kind[io->kind];
  if (plan->error_key != NULL && g_pattern_match_simple (plan->error_key, io->key->wire))
    {
      fail (io, plan->error);
      fault->counts[FAULT_KEY]++;
      return TRUE;
    }
  if (kind != N_FAULTS && fault_hits (plan, kind, &io->key->fields))
    {
      fail (io, kind == FAULT_LOOKUP ? LMT_L2_NOT_FOUND : plan->error);
      fault->counts[kind]++;
      return TRUE;
    }
  if (io->kind != LMT_L2_STORE || plan->no_space_after == G_MAXUINT64)
    return FALSE;
  if (fault->written > plan->no_space_after || io->buffer_bytes > plan->no_space_after - fault->written)
    {
      fail (io, LMT_L2_NO_SPACE);
      fault->counts[FAULT_NO_SPACE]++;
      return TRUE;
    }
  op->reserved = io->buffer_bytes;
  fault->written += op->reserved;
  return FALSE;
}

static void
give_back (Fault *fault, FaultOp *op)
{
  fault->written -= op->reserved;
  op->state = OP_FREE;
  fault_list_append (&fault->spare, op);
}

static guint32
fault_submit (gpointer handle, LmtL2Io *outer)
{
  Fault *fault = handle;
  FaultOp *op = fault_list_take (&fault->spare);
  if (op == NULL)
    return LMT_L2_SUBMIT_BUSY;
  op->io = *outer;
  op->outer = outer;
  op->reserved = 0;
  op->cancelled = op->twice = FALSE;
  if (G_UNLIKELY (fault->plan.any) && is_refused (fault, op))
    return fault_finish (fault, op, TRUE) ? LMT_L2_SUBMIT_DONE : LMT_L2_SUBMIT_QUEUED;
  op->state = OP_INNER;
  guint32 result = fault->ops->submit (fault->handle, &op->io);
  if (result == LMT_L2_SUBMIT_DONE)
    return fault_finish (fault, op, TRUE) ? LMT_L2_SUBMIT_DONE : LMT_L2_SUBMIT_QUEUED;
  if (result == LMT_L2_SUBMIT_QUEUED)
    fault->n_inner++;
  else
    give_back (fault, op);
  return result;
}

/* -------- out -------- */

static guint32
fault_reap (gpointer handle, LmtL2Io **ios, guint32 max)
{
  Fault *fault = handle;
  fault_collect (fault);
  return fault_hand_back (fault, ios, max);
}

static void
fault_flush (gpointer handle)
{
  Fault *fault = handle;
  if (fault->ops->flush != NULL)
    fault->ops->flush (fault->handle);
}

static int
fault_get_fd (gpointer handle)
{
  Fault *fault = handle;
  return fault->ops->get_fd != NULL ? fault->ops->get_fd (fault->handle) : -1;
}

static gint64
fault_get_due (gpointer handle)
{
  return fault_next_due (handle);
}

static void
fault_cancel_io (gpointer handle, LmtL2Io *io)
{
  fault_cancel (handle, io);
}

/* -------- handed through -------- */

static gboolean
fault_register_memory (gpointer handle, void *base, guint64 bytes, guint32 region, GError **error)
{
  Fault *fault = handle;
  return fault->ops->register_memory == NULL || fault->ops->register_memory (fault->handle, base, bytes, region, error);
}

static gboolean
fault_scan (gpointer handle, LmtL2Visit visit, gpointer data, GError **error)
{
  Fault *fault = handle;
  return fault->ops->scan (fault->handle, visit, data, error);
}

static gint64
fault_tamper (gpointer handle, const LmtL2Key *key, const char *action, guint64 bytes)
{
  Fault *fault = handle;
  return fault->ops->tamper != NULL ? fault->ops->tamper (fault->handle, key, action, bytes) : -1;
}

static void
add_number (LmtL2AddStatus add, gpointer data, const char *key, guint64 value)
{
  char text[32];
  g_snprintf (text, sizeof text, "%" G_GUINT64_FORMAT, value);
  add (data, key, text);
}

static void
fault_status (gpointer handle, LmtL2AddStatus add, gpointer data)
{
  Fault *fault = handle;
  if (fault->ops->status != NULL)
    fault->ops->status (fault->handle, add, data);
  else
    add (data, "is_healthy", "yes");
  add (data, "inner", fault->ops->name);
  if (fault->inner_strays > 0)
    add_number (add, data, "inner_protocol_errors", fault->inner_strays);
  add (data, "faults", fault->plan.any ? "on" : "off");
  for (guint kind = 0; fault->plan.any && kind < N_FAULTS; kind++)
    if (fault->counts[kind] > 0)
      {
        char key[32];
        g_snprintf (key, sizeof key, "fault_%s", fault_kind_name (kind));
        add_number (add, data, key, fault->counts[kind]);
      }
}

static const char *const fault_aliases[] = { "fault_inject", NULL };

static const LmtL2Ops fault_ops = {
  .struct_size = sizeof (LmtL2Ops),
  .threads = LMT_THREADS_PER_HANDLE,
  .name = "fault",
  .summary = "Wraps an adapter and makes it fail as asked",
  .aliases = fault_aliases,
  .options = fault_options,
  .config_size = sizeof (FaultConfig),
  .open = fault_open,
  .close = fault_close,
  .submit = fault_submit,
  .reap = fault_reap,
  .flush = fault_flush,
  .get_fd = fault_get_fd,
  .next_due_ns = fault_get_due,
  .register_memory = fault_register_memory,
  .scan = fault_scan,
  .cancel = fault_cancel_io,
  .status = fault_status,
  .tamper = fault_tamper,
  .check = fault_check,
};

static gboolean
fault_load (LmtRegistrar *registrar, GError **error)
{
  return lmt_registrar_add_l2 (registrar, &fault_ops, error);
}

LMT_PLUGIN_DEFINE ("l2-fault", "0.1.0", "Apache-2.0", "L2 adapter that makes another one fail as asked", fault_load, NULL)
