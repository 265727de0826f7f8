/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Objects in memory, lost at close, with a modelled delay if asked for. `mock` is the same under LMCache's name and keys.
 * An operation with a delay waits in a heap until its time by the host's clock and is carried out then, in the order of due
 * times: so an object is visible with its completion, never before.
 */
#include <stdio.h>
#include <sys/resource.h>

#include <lmtrace/lmt-plugin.h>

#include "dram-arena.h"
#include "dram-copier.h"
#include "dram-copy.h"
#include "dram-index.h"
#include "dram-later.h"

#define GIB 1073741824.0

enum
{
  COPY_AT_ONCE = 64 << 10, /* at most this is copied inside submit where there are threads for the rest */
};

typedef struct
{
  double max_size_gb;
  double bandwidth_gb;
  double mock_bandwidth_gb;
  double latency_us;
  char *bandwidth_model;
  char *jitter;
  guint32 data;
  guint32 huge_pages;
  gint64 numa;
  guint64 depth;
  guint64 threads;
} DramConfig;

static const LmtOption dram_options[] = {
  LMT_OPTION_FULL (DOUBLE, "max_size_gb", DramConfig, max_size_gb, LMT_OPTION_CAPACITY, "0", "0..", "GIB",
                   "Keep at most this much, in GiB; 0 means as much as there is memory; mock: required, above 0", NULL),
  LMT_OPTION (DOUBLE, "bandwidth_gb", DramConfig, bandwidth_gb, "0", "0..",
              "Move at most this much a second, in GiB; 0 means no limit"),
  LMT_OPTION (DOUBLE, "mock_bandwidth_gb", DramConfig, mock_bandwidth_gb, "0", "0..",
              "The same for mock: required there, above 0"),
  LMT_OPTION (CHOICE, "bandwidth_model", DramConfig, bandwidth_model, NULL, "shared|task",
              "One pipe per direction, or the whole bandwidth for each task; dram: shared, mock: task"),
  LMT_OPTION (DOUBLE, "latency_us", DramConfig, latency_us, "0", "0..1e9", "Delay each operation by this, in us"),
  LMT_OPTION (JSON, "jitter", DramConfig, jitter, NULL, NULL, "Vary delays: {\"seed\": INT, \"share\": 0..1}"),
  LMT_OPTION (BOOL, "data", DramConfig, data, "true", NULL, "Keep bytes; false keeps keys and sizes only"),
  LMT_OPTION (BOOL, "huge_pages", DramConfig, huge_pages, "false", NULL,
              "Take huge pages out of the system's pool, at open; transparent ones are asked for in any case"),
  LMT_OPTION_FULL (INT, "numa", DramConfig, numa, LMT_OPTION_NULLABLE, "-1", "-1..1023", "NODE",
                   "Bind the memory to this NUMA node; -1 or null means none", NULL),
  LMT_OPTION (UINT, "depth", DramConfig, depth, "256", "1..65536", "Take at most this many operations at a time"),
  LMT_OPTION (UINT, "threads", DramConfig, threads, "0", "0..256",
              "Copy objects above 64 KiB by this many threads; 0 copies all inside submit"),
  LMT_OPTION_END,
};

static const char *const dram_aliases[] = { "mock", NULL };

typedef struct
{
  guint32 task;
  gboolean used;
  gint64 free;
} TaskPipe;

enum
{
  N_TASK_PIPES = 256,
};

typedef struct
{
  const LmtL2Host *host;
  DramIndex index;
  DramArena *arena;   /* NULL: sizes only */
  DramCopier *copier; /* NULL: all is copied here */
  gboolean per_task;
  double bytes_per_ns; /* 0: no limit */
  double latency_ns;
  guint64 jitter_seed;
  double jitter_share;
  gint64 pipe_free[2]; /* towards memory, out of it */
  TaskPipe tasks[N_TASK_PIPES];
  guint64 n_ops;
  guint64 n_repaired;
  guint64 bytes;
  DramLater later;
} Dram;

/* -------- configuration -------- */

static gboolean
read_jitter (const char *text, guint64 *seed, double *share, GError **error)
{
  *seed = 0;
  *share = 0;
  if (text == NULL)
    return TRUE;
  g_autoptr (LmtJson) json = lmt_json_parse (text, -1, NULL);
  const char *expected = "an object with \"seed\" (integer, 0 or more) and \"share\" (number, 0 to 1)";
  gboolean good = json != NULL && lmt_json_get_type (json) == LMT_JSON_OBJECT && lmt_json_get_repeated (json) == NULL;
  for (guint i = 0; good && i < lmt_json_get_length (json); i++)
    {
      const char *name = lmt_json_get_member_name (json, i);
      const LmtJson *value = lmt_json_get_member_value (json, i);
      LmtJsonType type = lmt_json_get_type (value);
      gboolean integer = (type == LMT_JSON_INT && lmt_json_get_int (value) >= 0) || type == LMT_JSON_UINT;
      if (strcmp (name, "seed") == 0 && integer)
        *seed = type == LMT_JSON_UINT ? lmt_json_get_uint (value) : (guint64)lmt_json_get_int (value);
      else if (strcmp (name, "share") == 0 && (integer || type == LMT_JSON_DOUBLE))
        {
          *share = lmt_json_get_double (value);
          good = *share >= 0 && *share <= 1;
        }
      else
        good = FALSE;
    }
  if (!good)
    g_set_error (error, LMT_ERROR, LMT_ERROR_OPTION, "jitter: expected %s, found %.80s", expected, text);
  return good;
}

/* A bandwidth below a byte a second would never end. */
static gboolean
check_bandwidth (const char *key, double gb, gboolean required, GError **error)
{
  if (gb * GIB >= 1 || (gb == 0 && !required))
    return TRUE;
  g_set_error (error, LMT_ERROR, LMT_ERROR_OPTION, "%s: expected %s, found %g", key,
               gb == 0 ? "a number above 0: the key is required" : "at least one byte a second", gb);
  return FALSE;
}

static gboolean
dram_check (gconstpointer config_, const char *type, GError **error)
{
  const DramConfig *config = config_;
  guint64 seed;
  double share;
  if (!read_jitter (config->jitter, &seed, &share, error)
      || !check_bandwidth ("bandwidth_gb", config->bandwidth_gb, FALSE, error))
    return FALSE;
  if (strcmp (type, "mock") != 0)
    {
      if (config->mock_bandwidth_gb == 0)
        return TRUE;
      g_set_error_literal (error, LMT_ERROR, LMT_ERROR_OPTION,
                           "mock_bandwidth_gb: expected a key of dram, found one of mock: did you mean 'bandwidth_gb'?");
      return FALSE;
    }
  if (config->max_size_gb <= 0)
    {
      g_set_error (error, LMT_ERROR, LMT_ERROR_OPTION, "max_size_gb: expected a number above 0: the key is required, found %g",
                   config->max_size_gb);
      return FALSE;
    }
  if (config->bandwidth_gb != 0)
    {
      g_set_error_literal (error, LMT_ERROR, LMT_ERROR_OPTION,
                           "bandwidth_gb: expected a key of mock, found one of dram: did you mean 'mock_bandwidth_gb'?");
      return FALSE;
    }
  return check_bandwidth ("mock_bandwidth_gb", config->mock_bandwidth_gb, TRUE, error);
}

/* -------- memory -------- */

static guint64
read_number (const char *path, const char *name, guint64 unit)
{
  g_autofree char *text = NULL;
  if (!g_file_get_contents (path, &text, NULL, NULL))
    return G_MAXUINT64;
  const char *at = name != NULL ? strstr (text, name) : text;
  guint64 value;
  if (at == NULL || sscanf (at + (name != NULL ? strlen (name) : 0), "%" G_GUINT64_FORMAT, &value) != 1)
    return G_MAXUINT64; /* "max" */
  return value * unit;
}

/* What the process may still take: the machine's, its group's, its own limits. */
static guint64
memory_free (void)
{
  guint64 free_bytes = read_number ("/proc/meminfo", "MemAvailable:", 1024);
  guint64 group_max = read_number ("/sys/fs/cgroup/memory.max", NULL, 1);
  guint64 group_now = read_number ("/sys/fs/cgroup/memory.current", NULL, 1);
  if (group_max != G_MAXUINT64 && group_now != G_MAXUINT64)
    free_bytes = MIN (free_bytes, group_max > group_now ? group_max - group_now : 0);
  static const int limits[] = { RLIMIT_AS, RLIMIT_DATA };
  for (guint i = 0; i < G_N_ELEMENTS (limits); i++)
    {
      struct rlimit limit;
      if (getrlimit (limits[i], &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
        free_bytes = MIN (free_bytes, (guint64)limit.rlim_cur);
    }
  return free_bytes;
}

static gboolean
make_arena (Dram *dram, const DramConfig *config, GError **error)
{
  guint64 free_bytes = memory_free (), pool = config->huge_pages ? dram_arena_pool_free () : 0;
  double asked = config->max_size_gb * GIB;
  /* The pool is no part of what counts as free. One that can't hold all is left alone. */
  if (pool > 0 && (double)pool < asked)
    pool = 0;
  if (asked > (double)MAX (free_bytes, pool))
    {
      g_set_error (error, LMT_L2_ERROR, LMT_L2_NO_SPACE, "dram: max_size_gb: %.4g GiB asked, %.4g GiB free", config->max_size_gb,
                   (double)free_bytes / GIB);
      return FALSE;
    }
  /* Twice the address space: what is cut up must not make a store fail that the capacity allows. Untouched pages cost nothing. */
  guint64 bytes = asked > 0 ? (guint64)asked * 2 + 1048576 : MAX (free_bytes, pool);
  struct rlimit limit;
  if (getrlimit (RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
    bytes = asked > 0 ? (guint64)asked + 1048576 : bytes / 2;
  dram->arena = dram_arena_new (bytes, asked > 0 ? MIN ((guint64)asked, pool) : pool, config->numa, error);
  if (dram->arena == NULL)
    return FALSE;
  if (config->huge_pages && dram_arena_reserved (dram->arena) == 0)
    dram->host->message (
        dram->host->data, "info: huge pages",
        "dram: huge_pages: the system's pool hasn't enough (vm.nr_hugepages): transparent ones, if there are any");
  return TRUE;
}

/* -------- objects -------- */

static void
drop_object (Dram *dram, DramEntry *entry)
{
  dram->bytes -= entry->bytes;
  if (dram->arena != NULL)
    dram_arena_give (dram->arena, entry->block);
  entry->block = 0;
}

/* The object becomes visible. */
static void
put_object (Dram *dram, LmtL2Io *io, DramEntry *entry, guint32 block)
{
  if (entry != NULL)
    {
      drop_object (dram, entry);
      dram->n_repaired++;
    }
  else
    entry = dram_index_add (&dram->index, io->key);
  entry->block = block;
  entry->bytes = io->buffer_bytes;
  dram->bytes += entry->bytes;
  io->done_bytes = io->buffer_bytes;
  io->code = LMT_L2_OK;
}

/* TRUE: the threads have it, finish_copy() does the rest. */
static gboolean
hand_over (Dram *dram, LmtL2Io *io, guint32 block)
{
  void *place = dram_arena_address (dram->arena, block);
  gboolean is_store = io->kind == LMT_L2_STORE;
  if (dram->copier == NULL || io->buffer_bytes <= COPY_AT_ONCE)
    return FALSE;
  io->plugin[0] = block;
  dram_copier_add (dram->copier, io, is_store ? place : io->buffer, is_store ? io->buffer : place, io->buffer_bytes);
  return TRUE;
}

/* The core lets nobody touch the key meanwhile, so its block was neither given back nor taken by another. */
static void
finish_copy (Dram *dram, LmtL2Io *io)
{
  if (io->kind == LMT_L2_STORE)
    put_object (dram, io, dram_index_find (&dram->index, io->key), (guint32)io->plugin[0]);
  else
    io->done_bytes = io->buffer_bytes;
}

static gboolean
store (Dram *dram, LmtL2Io *io)
{
  DramEntry *entry = dram_index_find (&dram->index, io->key);
  io->object_bytes = io->buffer_bytes;
  if (entry != NULL && entry->bytes == io->buffer_bytes)
    {
      io->code = LMT_L2_PRESENT;
      return FALSE;
    }
  guint32 block = 0;
  if (dram->arena != NULL && io->buffer != NULL && io->buffer_bytes > 0)
    {
      block = dram_arena_take (dram->arena, io->buffer_bytes);
      if (block == 0)
        {
          io->code = LMT_L2_NO_SPACE;
          return FALSE;
        }
      if (hand_over (dram, io, block))
        return TRUE;
      dram_copy_in (dram_arena_address (dram->arena, block), io->buffer, io->buffer_bytes);
    }
  put_object (dram, io, entry, block);
  return FALSE;
}

/* TRUE: the io comes back by the threads. */
static gboolean
perform (Dram *dram, LmtL2Io *io)
{
  if (io->kind == LMT_L2_STORE)
    return store (dram, io);
  DramEntry *entry = dram_index_find (&dram->index, io->key);
  io->code = entry != NULL ? LMT_L2_OK : LMT_L2_NOT_FOUND;
  if (entry == NULL)
    return FALSE;
  io->object_bytes = entry->bytes; /* the core compares it with what was expected, and says so */
  switch (io->kind)
    {
    case LMT_L2_LOAD:
      if (entry->bytes != io->buffer_bytes)
        break;
      if (entry->block != 0 && io->buffer != NULL)
        {
          if (hand_over (dram, io, entry->block))
            return TRUE;
          memcpy (io->buffer, dram_arena_address (dram->arena, entry->block), entry->bytes);
        }
      io->done_bytes = entry->bytes;
      break;
    case LMT_L2_DELETE:
      drop_object (dram, entry);
      dram_index_remove (&dram->index, entry);
      break;
    default:
      break;
    }
  return FALSE;
}

/* -------- delays -------- */

/* Bytes that will move: a present object isn't stored again, an absent one isn't loaded. */
static guint64
bytes_to_move (Dram *dram, const LmtL2Io *io)
{
  if (io->kind != LMT_L2_STORE && io->kind != LMT_L2_LOAD)
    return 0;
  const DramEntry *entry = dram_index_find (&dram->index, io->key);
  gboolean same = entry != NULL && entry->bytes == io->buffer_bytes;
  return same == (io->kind == LMT_L2_LOAD) ? io->buffer_bytes : 0;
}

static double
jitter_factor (const Dram *dram, guint64 number)
{
  if (dram->jitter_share == 0)
    return 1;
  guint64 z = lmt_mix64 (dram->jitter_seed + (number + 1) * G_GUINT64_CONSTANT (0x9E3779B97F4A7C15));
  return 1 + dram->jitter_share * (2 * ((double)z / 18446744073709551616.0) - 1);
}

/* Time of the completion; 0: now. */
static gint64
due_time (Dram *dram, const LmtL2Io *io, guint64 number)
{
  if (dram->bytes_per_ns == 0 && dram->latency_ns == 0)
    return 0;
  gint64 now = dram->host->now_ns (dram->host->data);
  double factor = jitter_factor (dram, number);
  gint64 due = now;
  guint64 bytes = dram->bytes_per_ns > 0 ? bytes_to_move (dram, io) : 0;
  if (bytes > 0)
    {
      gint64 takes = (gint64)((double)bytes / dram->bytes_per_ns * factor);
      TaskPipe *task = &dram->tasks[io->task % N_TASK_PIPES];
      gint64 *pipe = &dram->pipe_free[io->kind == LMT_L2_STORE ? 0 : 1];
      if (dram->per_task)
        {
          if (!task->used || task->task != io->task)
            *task = (TaskPipe){ io->task, TRUE, now };
          pipe = &task->free;
        }
      *pipe = MAX (*pipe, now) + takes;
      due = *pipe;
    }
  return due + (gint64)(dram->latency_ns * factor);
}

/* -------- the border -------- */

static void
dram_close (gpointer handle)
{
  Dram *dram = handle;
  dram_copier_free (dram->copier); /* first: it writes into the arena */
  dram_index_clear (&dram->index);
  dram_arena_free (dram->arena);
  dram_later_clear (&dram->later);
  g_free (dram);
}

/* With a modelled delay the copy is made when its time has come: then what is found depends on nothing but the model. */
static gboolean
make_copier (Dram *dram, const DramConfig *config, GError **error)
{
  if (config->threads == 0 || dram->arena == NULL || dram->bytes_per_ns > 0 || dram->latency_ns > 0)
    return TRUE;
  dram->copier = dram_copier_new ((guint32)config->threads, (guint32)config->depth, error);
  return dram->copier != NULL;
}

static gpointer
dram_open (gconstpointer config_, const char *type, const LmtL2Host *host, LmtL2Info *info, GError **error)
{
  const DramConfig *config = config_;
  Dram *dram = g_new0 (Dram, 1);
  gboolean is_mock = strcmp (type, "mock") == 0;
  double bandwidth = is_mock ? config->mock_bandwidth_gb : config->bandwidth_gb;
  gboolean data = config->data && host->data_wanted;
  dram->host = host;
  dram_index_init (&dram->index);
  dram_later_init (&dram->later, (guint32)config->depth);
  dram->per_task = config->bandwidth_model != NULL ? strcmp (config->bandwidth_model, "task") == 0 : is_mock;
  dram->bytes_per_ns = bandwidth * GIB / 1e9;
  dram->latency_ns = config->latency_us * 1000;
  if (!read_jitter (config->jitter, &dram->jitter_seed, &dram->jitter_share, error) || (data && !make_arena (dram, config, error))
      || !make_copier (dram, config, error))
    {
      dram_close (dram);
      return NULL;
    }
  info->depth = (guint32)config->depth;
  info->capabilities
      = LMT_L2_CAP_KEEP | LMT_L2_CAP_DELETE | LMT_L2_CAP_CAPACITY | LMT_L2_CAP_TAMPER | (data ? LMT_L2_CAP_DATA : 0);
  info->flags = LMT_L2_INFO_NO_WIRE | LMT_L2_INFO_NO_FILE;
  return dram;
}

static guint32
dram_submit (gpointer handle, LmtL2Io *io)
{
  Dram *dram = handle;
  guint64 number = dram->n_ops++;
  gint64 due = due_time (dram, io, number);
  if (due == 0)
    return perform (dram, io) ? LMT_L2_SUBMIT_QUEUED : LMT_L2_SUBMIT_DONE;
  dram_later_add (&dram->later, due, number, io);
  return LMT_L2_SUBMIT_QUEUED;
}

static void
dram_flush (gpointer handle)
{
  Dram *dram = handle;
  if (dram->copier != NULL)
    dram_copier_flush (dram->copier);
}

static int
dram_get_fd (gpointer handle)
{
  const Dram *dram = handle;
  return dram->copier != NULL ? dram_copier_fd (dram->copier) : -1;
}

static guint32
dram_reap (gpointer handle, LmtL2Io **ios, guint32 max)
{
  Dram *dram = handle;
  guint32 n = 0;
  if (dram->copier != NULL)
    {
      n = dram_copier_reap (dram->copier, ios, max);
      for (guint32 i = 0; i < n; i++)
        finish_copy (dram, ios[i]);
      return n;
    }
  if (dram->later.n == 0)
    return 0;
  gint64 now = dram->host->now_ns (dram->host->data);
  for (LmtL2Io *io; n < max && (io = dram_later_take (&dram->later, now)) != NULL;)
    {
      if (io->plugin[0] != DRAM_CANCELLED)
        perform (dram, io);
      else
        io->code = LMT_L2_CLOSED;
      ios[n++] = io;
    }
  return n;
}

static gint64
dram_next_due_ns (gpointer handle)
{
  const Dram *dram = handle;
  return dram_later_due (&dram->later);
}

/* What is asked to go goes at once, unperformed. */
static void
dram_cancel (gpointer handle, LmtL2Io *io)
{
  Dram *dram = handle;
  dram_later_cancel (&dram->later, io);
}

static void
dram_status (gpointer handle, LmtL2AddStatus add, gpointer data)
{
  const Dram *dram = handle;
  add (data, "is_healthy", "yes");
  dram_add_number (add, data, "objects", dram->index.n);
  dram_add_number (add, data, "object_bytes", dram->bytes);
  dram_add_number (add, data, "repaired", dram->n_repaired);
  add (data, "data", dram->arena != NULL ? "kept" : "sizes only");
  if (dram->arena != NULL)
    dram_add_number (add, data, "huge_pages_reserved_bytes", dram_arena_reserved (dram->arena));
}

/* Puts a block of @bytes under the object: front kept, what is new is 5A. */
static gboolean
resize (Dram *dram, DramEntry *entry, guint64 bytes)
{
  guint32 block = 0;
  if (dram->arena != NULL && bytes > 0)
    {
      block = dram_arena_take (dram->arena, bytes);
      if (block == 0)
        return FALSE;
      char *to = dram_arena_address (dram->arena, block);
      memset (to, 0x5a, bytes);
      if (entry->block != 0)
        memcpy (to, dram_arena_address (dram->arena, entry->block), MIN (bytes, entry->bytes));
    }
  drop_object (dram, entry);
  entry->block = block;
  entry->bytes = bytes;
  dram->bytes += bytes;
  return TRUE;
}

static gint64
dram_tamper (gpointer handle, const LmtL2Key *key, const char *action, guint64 bytes)
{
  Dram *dram = handle;
  if (strcmp (action, "debris") == 0)
    return 0;
  DramEntry *entry = dram_index_find (&dram->index, key);
  if (entry == NULL)
    return -1;
  if (strcmp (action, "truncate") == 0)
    return resize (dram, entry, bytes) ? 0 : -1;
  if (strcmp (action, "append") == 0)
    return resize (dram, entry, entry->bytes + bytes) ? 0 : -1;
  if (strcmp (action, "remove") != 0)
    return -1;
  drop_object (dram, entry);
  dram_index_remove (&dram->index, entry);
  return 0;
}

static const LmtL2Ops dram_ops = {
  .struct_size = sizeof (LmtL2Ops),
  .threads = LMT_THREADS_PER_HANDLE,
  .name = "dram",
  .summary = "Objects in memory, lost at close, with modelled delays",
  .aliases = dram_aliases,
  .options = dram_options,
  .config_size = sizeof (DramConfig),
  .open = dram_open,
  .close = dram_close,
  .submit = dram_submit,
  .flush = dram_flush,
  .get_fd = dram_get_fd,
  .reap = dram_reap,
  .next_due_ns = dram_next_due_ns,
  .cancel = dram_cancel,
  .status = dram_status,
  .tamper = dram_tamper,
  .check = dram_check,
};

static gboolean
dram_load (LmtRegistrar *registrar, GError **error)
{
  return lmt_registrar_add_l2 (registrar, &dram_ops, error);
}

LMT_PLUGIN_DEFINE ("l2-dram", "0.1.0", "Apache-2.0", "L2 adapter in memory; also LMCache's mock", dram_load, NULL)
