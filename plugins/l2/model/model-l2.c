/* SPDX-License-Identifier: Apache-2.0 */

/*
 * An adapter without data: which objects there are and how large, and when a device of given speed would be done with them. It
 * goes by the host's clock alone, so hours of trace pass in seconds on the virtual one. An operation takes effect when it is due.
 */
#include <lmtrace/lmt-hash.h>

#include "../dram/dram-index.h"
#include "../dram/dram-later.h"
#include "model-table.h"

#define GIB 1073741824.0

typedef struct
{
  double max_size_gb;
  double lookup_us;
  double delete_us;
  double latency_us;
  double bandwidth_gb;
  guint64 seed;
  char *table;
  guint64 depth;
} ModelConfig;

static const LmtOption model_options[] = {
  LMT_OPTION_FULL (DOUBLE, "max_size_gb", ModelConfig, max_size_gb, LMT_OPTION_CAPACITY, "0", "0..", "GIB",
                   "Hold at most this much, in GiB; 0 means no limit", NULL),
  LMT_OPTION (DOUBLE, "lookup_us", ModelConfig, lookup_us, "10", "0..1e9", "Take this long for a lookup, in us"),
  LMT_OPTION (DOUBLE, "delete_us", ModelConfig, delete_us, "10", "0..1e9", "Take this long for a delete, in us"),
  LMT_OPTION (DOUBLE, "latency_us", ModelConfig, latency_us, "100", "0..1e9", "Take this long for a store or load, in us"),
  LMT_OPTION (DOUBLE, "bandwidth_gb", ModelConfig, bandwidth_gb, "0", "0..",
              "Move at most this much a second, in GiB, one pipe per direction; 0 means no limit"),
  LMT_OPTION (UINT, "seed", ModelConfig, seed, "0", NULL, "Draw from the table by this seed"),
  LMT_OPTION_FULL (STRING, "table", ModelConfig, table, LMT_OPTION_NULLABLE, NULL, "nonempty", "FILE",
                   "Take times from this file of `bench-adapter --model-out` instead", NULL),
  LMT_OPTION (UINT, "depth", ModelConfig, depth, "256", "1..65536", "Take at most this many operations at a time"),
  LMT_OPTION_END,
};

typedef struct
{
  const LmtL2Host *host;
  DramIndex index;
  ModelTable *table; /* NULL: fixed times */
  double fixed_ns[LMT_L2_N_KINDS];
  double bytes_per_ns; /* 0: no limit */
  gint64 pipe_free[2]; /* in, out */
  guint64 seed;
  guint64 n_ops;
  guint64 n_repaired;
  guint64 bytes;
  DramLater later;
} Model;

static gboolean
model_check (gconstpointer config_, const char *type, GError **error)
{
  const ModelConfig *config = config_;
  if (config->bandwidth_gb != 0 && config->bandwidth_gb * GIB < 1)
    {
      g_set_error (error, LMT_ERROR, LMT_ERROR_OPTION, "bandwidth_gb: expected 0, or at least one byte a second, found %g",
                   config->bandwidth_gb);
      return FALSE;
    }
  if (config->table == NULL)
    return TRUE;
  ModelTable *table = model_table_read (config->table, error);
  model_table_free (table);
  return table != NULL;
}

static void
model_close (gpointer handle)
{
  Model *model = handle;
  dram_index_clear (&model->index);
  model_table_free (model->table);
  dram_later_clear (&model->later);
  g_free (model);
}

static gpointer
model_open (gconstpointer config_, const char *type, const LmtL2Host *host, LmtL2Info *info, GError **error)
{
  const ModelConfig *config = config_;
  Model *model = g_new0 (Model, 1);
  model->host = host;
  dram_index_init (&model->index);
  dram_later_init (&model->later, (guint32)config->depth);
  model->fixed_ns[LMT_L2_STORE] = model->fixed_ns[LMT_L2_LOAD] = config->latency_us * 1000;
  model->fixed_ns[LMT_L2_LOOKUP] = config->lookup_us * 1000;
  model->fixed_ns[LMT_L2_DELETE] = config->delete_us * 1000;
  model->bytes_per_ns = config->bandwidth_gb * GIB / 1e9;
  model->seed = config->seed;
  if (config->table != NULL)
    {
      model->table = model_table_read (config->table, error);
      if (model->table == NULL)
        {
          model_close (model);
          return NULL;
        }
    }
  info->depth = (guint32)config->depth;
  info->capabilities = LMT_L2_CAP_KEEP | LMT_L2_CAP_DELETE | LMT_L2_CAP_CAPACITY | LMT_L2_CAP_TAMPER;
  info->flags = LMT_L2_INFO_NO_WIRE | LMT_L2_INFO_NO_FILE;
  return model;
}

/* -------- time -------- */

/* Bytes that move: a present object isn't stored again, an absent one isn't loaded. */
static guint64
bytes_to_move (Model *model, const LmtL2Io *io)
{
  if (io->kind != LMT_L2_STORE && io->kind != LMT_L2_LOAD)
    return 0;
  const DramEntry *entry = dram_index_find (&model->index, io->key);
  gboolean same = entry != NULL && entry->bytes == io->buffer_bytes;
  return same == (io->kind == LMT_L2_LOAD) ? io->buffer_bytes : 0;
}

/* A device of a byte a second may need longer than the clock can count. */
static gint64
later (gint64 at, double ns)
{
  return ns < (double)(G_MAXINT64 - MAX (at, 0)) ? at + (gint64)ns : G_MAXINT64;
}

static gint64
due_time (Model *model, const LmtL2Io *io, guint64 number, gint64 now)
{
  guint64 bytes = bytes_to_move (model, io);
  if (model->table != NULL && model_table_has (model->table, io->kind))
    {
      guint64 z = lmt_mix64 (model->seed + number + G_GUINT64_CONSTANT (0x9E3779B97F4A7C15));
      return now + model_table_draw (model->table, io->kind, bytes, model->later.n + 1, (double)z / 18446744073709551616.0);
    }
  gint64 start = now;
  if (model->bytes_per_ns > 0 && bytes > 0)
    {
      gint64 *pipe = &model->pipe_free[io->kind == LMT_L2_STORE ? 0 : 1];
      *pipe = later (MAX (*pipe, now), (double)bytes / model->bytes_per_ns);
      start = *pipe;
    }
  return later (start, model->fixed_ns[io->kind]);
}

/* -------- effect -------- */

static void
store (Model *model, LmtL2Io *io)
{
  DramEntry *entry = dram_index_find (&model->index, io->key);
  io->object_bytes = io->buffer_bytes;
  if (entry != NULL && entry->bytes == io->buffer_bytes)
    {
      io->code = LMT_L2_PRESENT;
      return;
    }
  if (entry != NULL)
    {
      model->bytes -= entry->bytes;
      model->n_repaired++;
    }
  else
    entry = dram_index_add (&model->index, io->key);
  entry->bytes = io->buffer_bytes;
  model->bytes += entry->bytes;
  io->done_bytes = io->buffer_bytes;
  io->code = LMT_L2_OK;
}

static void
perform (Model *model, LmtL2Io *io)
{
  if (io->kind == LMT_L2_STORE)
    {
      store (model, io);
      return;
    }
  DramEntry *entry = dram_index_find (&model->index, io->key);
  io->code = entry != NULL ? LMT_L2_OK : LMT_L2_NOT_FOUND;
  if (entry == NULL)
    return;
  io->object_bytes = entry->bytes;
  if (io->kind == LMT_L2_LOAD && entry->bytes == io->buffer_bytes)
    io->done_bytes = entry->bytes;
  if (io->kind != LMT_L2_DELETE)
    return;
  model->bytes -= entry->bytes;
  dram_index_remove (&model->index, entry);
}

/* -------- the border -------- */

static guint32
model_submit (gpointer handle, LmtL2Io *io)
{
  Model *model = handle;
  guint64 number = model->n_ops++;
  gint64 now = model->host->now_ns (model->host->data);
  gint64 due = due_time (model, io, number, now);
  if (due <= now)
    {
      perform (model, io);
      return LMT_L2_SUBMIT_DONE;
    }
  dram_later_add (&model->later, due, number, io);
  return LMT_L2_SUBMIT_QUEUED;
}

static guint32
model_reap (gpointer handle, LmtL2Io **ios, guint32 max)
{
  Model *model = handle;
  guint32 n = 0;
  if (model->later.n == 0)
    return 0;
  gint64 now = model->host->now_ns (model->host->data);
  for (LmtL2Io *io; n < max && (io = dram_later_take (&model->later, now)) != NULL;)
    {
      if (io->plugin[0] == DRAM_CANCELLED)
        io->code = LMT_L2_CLOSED;
      else
        perform (model, io);
      ios[n++] = io;
    }
  return n;
}

static gint64
model_next_due_ns (gpointer handle)
{
  const Model *model = handle;
  return dram_later_due (&model->later);
}

static void
model_cancel (gpointer handle, LmtL2Io *io)
{
  Model *model = handle;
  dram_later_cancel (&model->later, io);
}

static void
model_status (gpointer handle, LmtL2AddStatus add, gpointer data)
{
  const Model *model = handle;
  add (data, "is_healthy", "yes");
  dram_add_number (add, data, "objects", model->index.n);
  dram_add_number (add, data, "object_bytes", model->bytes);
  dram_add_number (add, data, "repaired", model->n_repaired);
  add (data, "data", "sizes only");
  add (data, "times", model->table != NULL ? "table" : "fixed");
}

static gint64
model_tamper (gpointer handle, const LmtL2Key *key, const char *action, guint64 bytes)
{
  Model *model = handle;
  if (strcmp (action, "debris") == 0)
    return 0;
  DramEntry *entry = dram_index_find (&model->index, key);
  if (entry == NULL)
    return -1;
  guint64 after = 0;
  if (strcmp (action, "truncate") == 0)
    after = bytes;
  else if (strcmp (action, "append") == 0)
    after = entry->bytes + bytes;
  else if (strcmp (action, "remove") != 0)
    return -1;
  model->bytes += after - entry->bytes;
  entry->bytes = after;
  if (strcmp (action, "remove") == 0)
    dram_index_remove (&model->index, entry);
  return 0;
}

static const LmtL2Ops model_ops = {
  .struct_size = sizeof (LmtL2Ops),
  .threads = LMT_THREADS_PER_HANDLE,
  .name = "model",
  .summary = "No data: presence, sizes and the times of a device",
  .options = model_options,
  .config_size = sizeof (ModelConfig),
  .open = model_open,
  .close = model_close,
  .submit = model_submit,
  .reap = model_reap,
  .next_due_ns = model_next_due_ns,
  .cancel = model_cancel,
  .status = model_status,
  .tamper = model_tamper,
  .check = model_check,
};

static gboolean
model_load (LmtRegistrar *registrar, GError **error)
{
  return lmt_registrar_add_l2 (registrar, &model_ops, error);
}

LMT_PLUGIN_DEFINE ("l2-model", "0.1.0", "Apache-2.0", "L2 adapter without data that takes the time of a device", model_load, NULL)
