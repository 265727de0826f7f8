/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The way of a completion: inner -> spoiled -> (lost) -> (late) -> (window) -> leaving -> core. The inner is reaped whatever
 * happens to its completions here, so that its descriptor never stays readable for nothing.
 */
#include "fault.h"

#include <lmtrace/lmt-hash.h>

#define GOLDEN G_GUINT64_CONSTANT (0x9E3779B97F4A7C15)
/* How often an inner adapter with neither descriptor nor times is asked. */
#define POLL_NS (200 * G_GINT64_CONSTANT (1000))

FaultOp *
fault_list_take (FaultList *list)
{
  FaultOp *op = list->head;
  if (op == NULL)
    return NULL;
  list->head = op->next;
  if (list->head == NULL)
    list->tail = NULL;
  list->n--;
  return op;
}

void
fault_list_append (FaultList *list, FaultOp *op)
{
  op->next = NULL;
  if (list->tail != NULL)
    list->tail->next = op;
  else
    list->head = op;
  list->tail = op;
  list->n++;
}

static inline gint64
now_ns (Fault *fault)
{
  return fault->host->now_ns (fault->host->data);
}

static gboolean
is_stalled (Fault *fault, gint64 now)
{
  return now >= fault->stall_from && now < fault->stall_until;
}

/* -------- results -------- */

void
fault_spoil (Fault *fault, FaultOp *op)
{
  const FaultPlan *plan = &fault->plan;
  LmtL2Io *io = &op->io;
  const LmtKeyFields *key = &io->key->fields;

  if (op->reserved > 0 && io->code != LMT_L2_OK)
    fault->written -= op->reserved;
  op->reserved = 0;
  if (io->kind != LMT_L2_LOAD || io->code != LMT_L2_OK)
    return;
  FaultKind kind = fault_hits (plan, FAULT_LOAD, key)                            ? FAULT_LOAD
                   : fault_is_gap (plan, io->index, io->count)                   ? FAULT_GAP
                   : io->object_bytes > 0 && fault_hits (plan, FAULT_SHORT, key) ? FAULT_SHORT
                                                                                 : N_FAULTS;
  if (kind == FAULT_SHORT)
    {
      io->object_bytes--;
      io->done_bytes = MIN (io->done_bytes, io->object_bytes);
    }
  else if (kind != N_FAULTS)
    {
      io->code = plan->error;
      io->done_bytes = 0;
    }
  else if (io->buffer != NULL && io->buffer_bytes > 0 && fault_hits (plan, FAULT_CORRUPT, key))
    {
      guint64 bit = fault_draw (plan, FAULT_CORRUPT, key) / 1000000 % (io->buffer_bytes * 8);
      ((guint8 *)io->buffer)[bit / 8] ^= (guint8)(1 << bit % 8);
      kind = FAULT_CORRUPT;
    }
  if (kind != N_FAULTS)
    fault->counts[kind]++;
}

static void
copy_result (LmtL2Io *to, const LmtL2Io *from)
{
  to->code = from->code;
  to->os_error = from->os_error;
  to->done_bytes = from->done_bytes;
  to->object_bytes = from->object_bytes;
  to->service_start_ns = from->service_start_ns;
}

/* -------- late -------- */

static inline gboolean
is_before (const FaultOp *a, const FaultOp *b)
{
  return a->due != b->due ? a->due < b->due : a->number < b->number;
}

static void
late_add (Fault *fault, FaultOp *op)
{
  guint32 i = fault->n_late++;
  op->state = OP_LATE;
  for (; i > 0 && is_before (op, fault->late[(i - 1) / 2]); i = (i - 1) / 2)
    fault->late[i] = fault->late[(i - 1) / 2];
  fault->late[i] = op;
}

static FaultOp *
late_take (Fault *fault)
{
  FaultOp *first = fault->late[0], *last = fault->late[--fault->n_late];
  guint32 i = 0;
  for (guint32 child; (child = 2 * i + 1) < fault->n_late; i = child)
    {
      if (child + 1 < fault->n_late && is_before (fault->late[child + 1], fault->late[child]))
        child++;
      if (!is_before (fault->late[child], last))
        break;
      fault->late[i] = fault->late[child];
    }
  fault->late[i] = last;
  return first;
}

/* -------- leaving -------- */

static void
leave (Fault *fault, FaultOp *op)
{
  op->state = OP_LEAVING;
  fault_list_append (&fault->leaving, op);
}

static void
ready (Fault *fault, FaultOp *op)
{
  if (fault->plan.reorder == 0 || op->cancelled)
    {
      leave (fault, op);
      return;
    }
  op->state = OP_WINDOW;
  fault->window[fault->n_window++] = op;
}

/* A full window goes out shuffled; so does one that nothing more can join, or the run would wait for ever. */
static void
empty_window (Fault *fault)
{
  if (fault->n_window == 0 || (fault->n_window < fault->plan.reorder && fault->n_inner + fault->n_late > 0))
    return;
  guint64 latest = 0;
  while (fault->n_window > 0)
    {
      guint64 z = lmt_mix64 ((guint64)fault->plan.seed + ++fault->n_shuffles * GOLDEN);
      guint32 i = (guint32)(z % fault->n_window);
      FaultOp *op = fault->window[i];
      fault->window[i] = fault->window[--fault->n_window];
      if (op->number < latest)
        fault->counts[FAULT_REORDER]++;
      latest = MAX (latest, op->number);
      leave (fault, op);
    }
}

gboolean
fault_finish (Fault *fault, FaultOp *op, gboolean in_submit)
{
  const FaultPlan *plan = &fault->plan;
  const LmtKeyFields *key = &op->io.key->fields;

  fault_spoil (fault, op);
  op->number = ++fault->n_ops;
  op->twice = fault_hits (plan, FAULT_DUPLICATE, key);
  gboolean lost = !op->cancelled && fault_hits (plan, FAULT_HANG, key);
  gboolean late = !lost && !op->cancelled && fault_hits (plan, FAULT_DELAY, key);
  if (in_submit && !lost && !late && !op->twice && plan->reorder == 0
      && (fault->stall_from == G_MAXINT64 || !is_stalled (fault, now_ns (fault))))
    {
      copy_result (op->outer, &op->io);
      op->state = OP_FREE;
      fault_list_append (&fault->spare, op);
      return TRUE;
    }
  if (lost)
    {
      fault->counts[FAULT_HANG]++;
      op->state = OP_LOST;
    }
  else if (late)
    {
      fault->counts[FAULT_DELAY]++;
      op->due = now_ns (fault) + plan->delay_ns;
      late_add (fault, op);
    }
  else
    ready (fault, op);
  return FALSE;
}

void
fault_collect (Fault *fault)
{
  LmtL2Io *ios[64];
  guint32 n = 0;
  if (fault->n_inner > 0)
    do
      {
        n = fault->ops->reap (fault->handle, ios, G_N_ELEMENTS (ios));
        n = MIN (n, G_N_ELEMENTS (ios)); /* no more was asked for */
        for (guint32 i = 0; i < n; i++)
          {
            /* The address alone is looked at until it is known to be one of ours that the inner has. */
            guintptr at = (guintptr)ios[i] - (guintptr)fault->slab;
            FaultOp *op = (FaultOp *)(gpointer)ios[i];
            if (at >= fault->n_slab * sizeof *op || at % sizeof *op != 0 || op->state != OP_INNER)
              {
                if (fault->inner_strays++ == 0)
                  fault->host->message (fault->host->data, "protocol",
                                        "fault: the inner adapter handed back an operation that it did not have");
                continue;
              }
            fault->n_inner--;
            fault_finish (fault, op, FALSE);
          }
      }
    while (n == G_N_ELEMENTS (ios));
  if (fault->n_late > 0)
    {
      gint64 now = now_ns (fault);
      while (fault->n_late > 0 && fault->late[0]->due <= now)
        ready (fault, late_take (fault));
    }
  empty_window (fault);
}

guint32
fault_hand_back (Fault *fault, LmtL2Io **ios, guint32 max)
{
  guint32 n = 0;
  if (max == 0)
    return 0;
  if (fault->again != NULL)
    ios[n++] = g_steal_pointer (&fault->again);
  if (fault->leaving.head == NULL)
    return n;
  if (fault->stall_from != G_MAXINT64)
    {
      gint64 now = now_ns (fault);
      if (is_stalled (fault, now))
        {
          fault->counts[FAULT_STALL] = MAX (fault->counts[FAULT_STALL], fault->leaving.n);
          return n;
        }
      if (now >= fault->stall_until)
        fault->stall_from = G_MAXINT64;
    }
  while (n < max && fault->leaving.head != NULL)
    {
      FaultOp *op = fault_list_take (&fault->leaving);
      LmtL2Io *outer = op->outer;
      copy_result (outer, &op->io);
      op->state = OP_FREE;
      fault_list_append (&fault->spare, op);
      ios[n++] = outer;
      if (!op->twice)
        continue;
      fault->counts[FAULT_DUPLICATE]++;
      if (n == max)
        fault->again = outer;
      else
        ios[n++] = outer;
    }
  return n;
}

gint64
fault_next_due (Fault *fault)
{
  gint64 due = -1, late = -1;
  if (fault->n_inner > 0)
    {
      if (fault->ops->next_due_ns != NULL)
        due = fault->ops->next_due_ns (fault->handle);
      else if (fault->ops->get_fd == NULL)
        due = now_ns (fault) + POLL_NS;
    }
  if (fault->leaving.head != NULL || fault->again != NULL)
    {
      gint64 now = now_ns (fault);
      late = is_stalled (fault, now) ? fault->stall_until : now;
    }
  else if (fault->n_late > 0)
    late = fault->late[0]->due;
  return due < 0 ? late : late < 0 ? due : MIN (due, late);
}

/* -------- cancel -------- */

void
fault_cancel (Fault *fault, LmtL2Io *outer)
{
  FaultOp *op = NULL;
  for (guint32 i = 0; i < fault->n_slab && op == NULL; i++)
    if (fault->slab[i].state != OP_FREE && fault->slab[i].outer == outer)
      op = &fault->slab[i];
  if (op == NULL)
    return;
  op->cancelled = TRUE;
  switch (op->state)
    {
    case OP_INNER:
      if (fault->ops->cancel != NULL)
        fault->ops->cancel (fault->handle, &op->io);
      break;
    case OP_LOST:
      op->io.code = LMT_L2_CLOSED;
      leave (fault, op);
      break;
    case OP_LATE:
      /* Done, but too late: its completion is not waited for any more. */
      op->io.code = LMT_L2_CLOSED;
      op->due = 0;
      for (guint32 i = 0; i < fault->n_late; i++)
        if (fault->late[i] == op)
          {
            for (; i > 0; i = (i - 1) / 2)
              fault->late[i] = fault->late[(i - 1) / 2];
            fault->late[0] = op;
          }
      break;
    case OP_WINDOW:
      for (guint32 i = 0; i < fault->n_window; i++)
        if (fault->window[i] == op)
          {
            fault->window[i] = fault->window[--fault->n_window];
            break;
          }
      leave (fault, op);
      break;
    default:
      break;
    }
}
