/* SPDX-License-Identifier: Apache-2.0 */
#include "lmt-recorder.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "lmt-error.h"
#include "lmt-option.h"
#include "lmt-output.h"
#include "lmt-recorder-private.h"

#define NS_PER_S G_GINT64_CONSTANT (1000000000)

/* ---------------- opening ---------------- */

static gboolean
refuse (GError **error, const char *what, const char *expected)
{
  g_set_error (error, LMT_ERROR, LMT_ERROR_OPTION, "recording: %s: expected %s", what, expected);
  return FALSE;
}

static gboolean
check_level (const LmtTraceLevel *level, GError **error)
{
  if (level->struct_size < G_STRUCT_OFFSET (LmtTraceLevel, own) + sizeof (gpointer))
    return refuse (error, "level", "a table made by LMT_TRACE_LEVEL_INIT");
  if (level->name == NULL || level->name[0] == '\0' || !g_utf8_validate (level->name, -1, NULL))
    return refuse (error, "level", "a name");
  if (level->calls == NULL || level->n_calls == 0 || level->n_calls >= LMT_RING_SKIP)
    return refuse (error, level->name, "calls");
  for (guint32 i = 0; i < level->n_calls; i++)
    {
      const LmtTraceCall *call = &level->calls[i];

      if (call->qualname == NULL || call->qualname[0] == '\0' || !g_utf8_validate (call->qualname, -1, NULL))
        return refuse (error, level->name, "a qualname for each call");
      for (guint a = 0; call->arguments != NULL && call->arguments[a] != NULL; a++)
        if (!g_utf8_validate (call->arguments[a], -1, NULL))
          return refuse (error, call->qualname, "names of arguments in UTF-8");
    }
  return TRUE;
}

static gboolean
check_params (const LmtRecorderParams *params, GError **error)
{
  if (params->path == NULL || params->path[0] == '\0')
    return refuse (error, "path", "a file's name");
  if (params->schema > LMT_SCHEMA_KNOWN_MAX)
    return refuse (error, "schema", "1 or 2");
  if (params->rotate_bytes > 0 && strcmp (params->path, "-") == 0)
    return refuse (error, "rotate", "a file's name, found stdout");
  if (params->buffer_bytes > G_GUINT64_CONSTANT (1) << 40)
    return refuse (error, "buffer", "at most 1 TiB");
  return TRUE;
}

/* `qualname`, the name, `args`: the same in each record of a call. Made once and kept: the level lives as long as the process. */
static void
make_heads (LmtTraceLevel *level)
{
  LmtTraceHead *heads;

  if (level->own != NULL)
    return;
  heads = g_new0 (LmtTraceHead, level->n_calls);
  for (guint32 i = 0; i < level->n_calls; i++)
    {
      LmtPack pack;

      lmt_pack_init (&pack);
      LMT_PACK_LITERAL (&pack, "qualname");
      lmt_pack_str (&pack, level->calls[i].qualname, strlen (level->calls[i].qualname));
      LMT_PACK_LITERAL (&pack, "args");
      heads[i] = (LmtTraceHead){ pack.data, pack.len };
    }
  level->own = heads;
}

static gint64
read_ns (clockid_t clock)
{
  struct timespec ts;

  clock_gettime (clock, &ts);
  return (gint64)ts.tv_sec * NS_PER_S + ts.tv_nsec;
}

static gint64
wall_start_ns (double seconds)
{
  return (gint64)seconds * NS_PER_S + (gint64)llrint ((seconds - floor (seconds)) * 1e9);
}

/* trace-format.md 10: SOURCE_DATE_EPOCH, else what the caller gives with a clock of its own, else that clock, else the system's.
 */
static void
set_start (LmtRecorder *recorder, const LmtRecorderParams *params)
{
  const char *epoch = g_getenv ("SOURCE_DATE_EPOCH");
  guint64 seconds;
  gint64 wall_ns;

  recorder->clock = params->clock == lmt_clock_real () ? NULL : params->clock;
  recorder->start_ns = recorder->clock != NULL ? lmt_clock_now (recorder->clock) : read_ns (CLOCK_MONOTONIC);
  wall_ns = read_ns (CLOCK_REALTIME);
  recorder->wall_follows = TRUE;
  if (epoch != NULL && lmt_parse_uint (epoch, &seconds, NULL) && seconds < G_MAXINT64 / NS_PER_S)
    {
      recorder->t_mono_start = recorder->t_wall_start = (double)seconds;
      recorder->wall_offset_ns = (gint64)seconds * NS_PER_S - recorder->start_ns;
    }
  else if (recorder->clock != NULL && params->has_start)
    {
      recorder->t_mono_start = params->t_mono_start;
      recorder->t_wall_start = params->t_wall_start;
      recorder->wall_offset_ns = wall_start_ns (params->t_wall_start) - recorder->start_ns;
    }
  else if (recorder->clock != NULL)
    recorder->t_mono_start = recorder->t_wall_start = (double)recorder->start_ns / 1e9;
  else
    {
      recorder->t_mono_start = (double)recorder->start_ns / 1e9;
      recorder->t_wall_start = lmt_trace_seconds (wall_ns);
      recorder->wall_follows = FALSE;
    }
}

static guint64
ring_size (guint64 wanted)
{
  guint64 bytes = LMT_RING_MIN_BYTES;

  if (wanted == 0)
    wanted = LMT_RING_DEFAULT_BYTES;
  while (bytes < wanted)
    bytes *= 2;
  return bytes;
}

static void
free_recorder (LmtRecorder *recorder)
{
  lmt_trace_file_free (recorder->file);
  lmt_pack_clear (&recorder->out);
  g_ptr_array_unref (recorder->rings);
  g_clear_error (&recorder->error);
  pthread_mutex_destroy (&recorder->close_lock);
  g_free (recorder->config_json);
  g_free (recorder->digest);
  g_free (recorder->level_meta);
  g_free (recorder->path);
  g_free (recorder);
}

/* A signal's handler on this thread would run with whatever the program has on its stack; SIGXFSZ and SIGPIPE, which a failing
 * write sends to the thread that writes, must not end the program. */
static gboolean
start_thread (LmtRecorder *recorder, GError **error)
{
  sigset_t all;
  sigset_t before;
  int code;

  sigfillset (&all);
  pthread_sigmask (SIG_SETMASK, &all, &before);
  code = pthread_create (&recorder->thread, NULL, lmt_recorder_drain, recorder);
  pthread_sigmask (SIG_SETMASK, &before, NULL);
  if (code != 0)
    g_set_error (error, LMT_ERROR, LMT_ERROR_IO, "recording: no thread: %s", g_strerror (code));
  else
    pthread_setname_np (recorder->thread, "lmt-recorder");
  return code == 0;
}

static LmtTraceSlot *
find_slot (LmtTraceHub *hub, GError **error)
{
  for (guint i = 0; i < LMT_TRACE_MAX_RECORDERS; i++)
    if (hub->slots[i].recorder == NULL)
      return &hub->slots[i];
  g_set_error (error, LMT_ERROR, LMT_ERROR_UNSUPPORTED, "recording: expected at most %d recorders at a time",
               LMT_TRACE_MAX_RECORDERS);
  return NULL;
}

/* Asked before a file is emptied for it. */
static gboolean
has_slot (GError **error)
{
  LmtTraceHub *hub = lmt_trace_hub ();
  gboolean any;

  pthread_mutex_lock (&hub->lock);
  any = find_slot (hub, error) != NULL;
  pthread_mutex_unlock (&hub->lock);
  return any;
}

/* Takes a bit of the gate. */
static gboolean
enter_hub (LmtRecorder *recorder, GError **error)
{
  LmtTraceHub *hub = lmt_trace_hub ();
  gboolean ok = FALSE;

  pthread_mutex_lock (&hub->lock);
  make_heads (recorder->level);
  recorder->slot = find_slot (hub, error);
  if (recorder->slot != NULL)
    {
      recorder->bit = (guint)(recorder->slot - hub->slots);
      recorder->generation = ++hub->last_generation;
      ok = start_thread (recorder, error);
    }
  if (ok)
    {
      recorder->slot->recorder = recorder;
      atomic_store_explicit (&recorder->slot->generation, recorder->generation, memory_order_relaxed);
      __atomic_fetch_or (&recorder->level->gate, 1u << recorder->bit, __ATOMIC_RELEASE);
    }
  pthread_mutex_unlock (&hub->lock);
  return ok;
}

LmtRecorder *
lmt_recorder_new (LmtTraceLevel *level, const LmtRecorderParams *given, GError **error)
{
  LmtRecorderParams params = { 0 };
  LmtRecorder *recorder;

  g_return_val_if_fail (level != NULL && given != NULL && given->struct_size > 0, NULL);

  memcpy (&params, given, MIN (given->struct_size, sizeof params));
  if (!check_level (level, error) || !check_params (&params, error) || !has_slot (error))
    return NULL;
  recorder = g_new0 (LmtRecorder, 1);
  recorder->level = level;
  recorder->pid = getpid ();
  recorder->forks = lmt_trace_hub ()->forks;
  recorder->path = g_strdup (params.path);
  recorder->schema = params.schema != 0 ? params.schema : 1;
  recorder->block = (params.flags & LMT_RECORDER_BLOCK) != 0;
  recorder->ring_bytes = ring_size (params.buffer_bytes);
  if (params.level_meta.len > 0)
    recorder->level_meta = g_memdup2 (params.level_meta.data, params.level_meta.len);
  recorder->level_meta_len = params.level_meta.len;
  recorder->rings = g_ptr_array_new ();
  lmt_pack_init (&recorder->out);
  pthread_mutex_init (&recorder->close_lock, NULL);
  set_start (recorder, &params);
  recorder->file = lmt_trace_file_new (&params, error);
  if (recorder->file == NULL || !enter_hub (recorder, error))
    g_clear_pointer (&recorder, free_recorder);
  return recorder;
}

/* ---------------- while it runs ---------------- */

static gboolean
is_ours (const LmtRecorder *recorder)
{
  return recorder->pid == getpid () && recorder->forks == lmt_trace_hub ()->forks;
}

/* Under the slot's lock. */
/* `| head` has seen enough: no failure (cli.md 8.3). */
static gboolean
reader_left (const LmtRecorder *recorder)
{
  return strcmp (recorder->path, "-") == 0 && lmt_output_stdout_closed ();
}

static gboolean
tell_error (LmtRecorder *recorder, GError **error)
{
  if (recorder->error == NULL)
    return TRUE;
  if (error != NULL)
    *error = g_error_copy (recorder->error);
  return FALSE;
}

/* Under the slot's lock: until the drain has looked at all that was asked and published before. */
static gboolean
await_drain (LmtRecorder *recorder, GError **error)
{
  LmtTraceSlot *slot = recorder->slot;
  guint64 wanted = ++recorder->flush_asked;

  pthread_cond_signal (&slot->wake);
  while (recorder->flush_done < wanted && !recorder->ended)
    pthread_cond_wait (&slot->done, &slot->lock);
  return tell_error (recorder, error);
}

gboolean
lmt_recorder_attach (LmtRecorder *recorder, const char *config_json, const char *digest, GError **error)
{
  LmtTraceSlot *slot;
  gboolean ok = TRUE;

  g_return_val_if_fail (recorder != NULL && config_json != NULL, FALSE);

  if (!is_ours (recorder))
    return TRUE;
  slot = recorder->slot;
  pthread_mutex_lock (&slot->lock);
  if (!recorder->header_asked && !recorder->header_done && !recorder->ended)
    {
      recorder->config_json = g_strdup (config_json);
      recorder->digest = digest != NULL ? g_strdup (digest) : g_compute_checksum_for_string (G_CHECKSUM_SHA256, config_json, -1);
      recorder->header_asked = TRUE;
      ok = await_drain (recorder, error);
    }
  pthread_mutex_unlock (&slot->lock);
  return ok;
}

gboolean
lmt_recorder_flush (LmtRecorder *recorder, GError **error)
{
  LmtTraceSlot *slot;
  gboolean ok;

  g_return_val_if_fail (recorder != NULL, FALSE);

  if (!is_ours (recorder))
    return TRUE;
  slot = recorder->slot;
  pthread_mutex_lock (&slot->lock);
  ok = await_drain (recorder, error);
  pthread_mutex_unlock (&slot->lock);
  return ok;
}

void
lmt_recorder_get_time (LmtRecorder *recorder, LmtTraceTime *time)
{
  g_return_if_fail (recorder != NULL && time != NULL);

  time->mono_ns = recorder->clock != NULL ? lmt_clock_now (recorder->clock) : read_ns (CLOCK_MONOTONIC);
  time->wall_ns = recorder->wall_follows ? time->mono_ns + recorder->wall_offset_ns : read_ns (CLOCK_REALTIME);
}

static void
add_rings (LmtRecorder *recorder, guint64 *dropped, guint64 *waits)
{
  *dropped = recorder->gone_dropped;
  *waits = recorder->gone_waits;
  for (guint i = 0; i < recorder->rings->len; i++)
    {
      const LmtRing *ring = recorder->rings->pdata[i];

      *dropped += atomic_load_explicit (&ring->dropped, memory_order_relaxed);
      *waits += atomic_load_explicit (&ring->waits, memory_order_relaxed);
    }
}

void
lmt_recorder_get_stats (LmtRecorder *recorder, LmtRecorderStats *stats)
{
  LmtTraceHub *hub = lmt_trace_hub ();
  LmtRecorderStats now = { .struct_size = sizeof now };
  guint32 size;

  g_return_if_fail (recorder != NULL && stats != NULL);

  size = MIN (stats->struct_size, sizeof now);
  g_return_if_fail (size >= sizeof (guint32));
  if (is_ours (recorder))
    {
      pthread_mutex_lock (&hub->lock);
      add_rings (recorder, &now.dropped, &now.waits);
      now.threads = recorder->n_rings;
      pthread_mutex_unlock (&hub->lock);
    }
  now.records = atomic_load_explicit (&recorder->records, memory_order_relaxed);
  now.bytes = atomic_load_explicit (&recorder->bytes, memory_order_relaxed);
  now.file_bytes = atomic_load_explicit (&recorder->file_bytes, memory_order_relaxed);
  now.encode_errors = atomic_load_explicit (&recorder->encode_errors, memory_order_relaxed);
  now.write_errors = atomic_load_explicit (&recorder->write_errors, memory_order_relaxed);
  now.files = atomic_load_explicit (&recorder->files, memory_order_relaxed);
  now.struct_size = size;
  memcpy (stats, &now, size);
}

char *
lmt_recorder_describe (LmtRecorder *recorder)
{
  LmtRecorderStats stats = { .struct_size = sizeof stats };

  g_return_val_if_fail (recorder != NULL, NULL);

  lmt_recorder_get_stats (recorder, &stats);
  return g_strdup_printf ("%" G_GUINT64_FORMAT " records, %" G_GUINT64_FORMAT " bytes; %" G_GUINT64_FORMAT
                          " dropped, %" G_GUINT64_FORMAT " encode errors, %" G_GUINT64_FORMAT " write errors",
                          stats.records, stats.bytes, stats.dropped, stats.encode_errors, stats.write_errors);
}

const char *
lmt_recorder_get_path (LmtRecorder *recorder)
{
  g_return_val_if_fail (recorder != NULL, NULL);

  return recorder->path;
}

void
lmt_recorder_get_start (LmtRecorder *recorder, double *t_mono_start, double *t_wall_start)
{
  g_return_if_fail (recorder != NULL && t_mono_start != NULL && t_wall_start != NULL);

  *t_mono_start = recorder->t_mono_start;
  *t_wall_start = recorder->t_wall_start;
}

/* ---------------- the end ---------------- */

/* The rings stay with their threads; what they counted stays here. */
static void
leave_hub (LmtRecorder *recorder)
{
  LmtTraceHub *hub = lmt_trace_hub ();
  guint64 dropped;
  guint64 waits;

  pthread_mutex_lock (&hub->lock);
  add_rings (recorder, &dropped, &waits);
  recorder->gone_dropped = dropped;
  recorder->gone_waits = waits;
  for (guint i = 0; i < recorder->rings->len; i++)
    if (((LmtRing *)recorder->rings->pdata[i])->orphan)
      lmt_ring_free (recorder->rings->pdata[i]);
  g_ptr_array_set_size (recorder->rings, 0);
  atomic_store_explicit (&recorder->slot->generation, 0, memory_order_relaxed);
  recorder->slot->recorder = NULL;
  pthread_mutex_unlock (&hub->lock);
}

/* The one line at the end (trace-format.md 10). */
static void
tell_end (LmtRecorder *recorder)
{
  g_autofree char *line = lmt_recorder_describe (recorder);
  g_autofree char *shown = g_filename_display_name (recorder->path);
  LmtRecorderStats stats = { .struct_size = sizeof stats };

  lmt_recorder_get_stats (recorder, &stats);
  if (stats.dropped + stats.encode_errors + stats.write_errors > 0 && !reader_left (recorder))
    g_warning ("Recording is incomplete: file=\"%s\", %s", shown, line);
  else
    g_info ("Recorded: file=\"%s\", %s", shown, line);
}

gboolean
lmt_recorder_close (LmtRecorder *recorder, GError **error)
{
  LmtTraceSlot *slot;
  gboolean ok;

  g_return_val_if_fail (recorder != NULL, FALSE);

  if (!is_ours (recorder))
    return TRUE;
  pthread_mutex_lock (&recorder->close_lock);
  if (!recorder->closed)
    {
      slot = recorder->slot;
      __atomic_fetch_and (&recorder->level->gate, ~(1u << recorder->bit), __ATOMIC_RELAXED);
      pthread_mutex_lock (&slot->lock);
      recorder->closing = TRUE;
      pthread_cond_signal (&slot->wake);
      pthread_mutex_unlock (&slot->lock);
      pthread_join (recorder->thread, NULL);
      leave_hub (recorder);
      recorder->closed = TRUE;
      tell_end (recorder);
    }
  ok = reader_left (recorder) || tell_error (recorder, error);
  pthread_mutex_unlock (&recorder->close_lock);
  return ok;
}

void
lmt_recorder_free (LmtRecorder *recorder)
{
  if (recorder == NULL)
    return;
  lmt_recorder_close (recorder, NULL);
  free_recorder (recorder);
}
