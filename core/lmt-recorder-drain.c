/* SPDX-License-Identifier: Apache-2.0 */
/* The drain thread: rings -> frames in order of publication -> file. */
#include <signal.h>
#include <time.h>

#include "lmt-cursor.h"
#include "lmt-recorder-private.h"

enum
{
  PERIOD_NS = 10000000,
  /* A pass is one write; one that is longer than this becomes several. */
  WRITE_BYTES = 4 * 1024 * 1024,
  /* A ring's space is given back in such steps: not with every event, which would take the line from the thread each time. */
  STEP_BYTES = 16 * 1024,
};

/* A ring within a pass: what it held at the start, and where the pass stands in it. */
typedef struct
{
  LmtRing *ring;
  guint64 at;
  guint64 end;
  guint64 given_back;
  gint64 mono_ns; /* of the event at `at` */
} Cursor;

/* ---------------- frames ---------------- */

/* {"type": "record", "t_mono": */
static const guint8 frame_head[] = "\0\0\0\0\x85\xa4type\xa6record\xa6t_mono\xcb";
static const guint8 wall_head[] = "\xa6t_wall\xcb";

static void
put_double (LmtPack *out, double value)
{
  guint64 bits;

  memcpy (&bits, &value, sizeof bits);
  bits = GUINT64_TO_BE (bits);
  lmt_pack_raw (out, &bits, sizeof bits);
}

static gboolean
put_args (const LmtTraceCall *call, const LmtRingEvent *event, guint32 schema, LmtPack *out)
{
  LmtSpan span = { (const guint8 *)(event + 1), event->len };
  LmtFault fault = { 0 };

  if (call->encode != NULL)
    return call->encode (event + 1, event->len, schema, out) && out->failed == 0;
  if (span.len == 0 || !((span.data[0] & 0xf0) == 0x80 || span.data[0] == 0xde || span.data[0] == 0xdf)
      || !lmt_cursor_check (span, &fault))
    return FALSE;
  lmt_pack_raw (out, span.data, span.len);
  return TRUE;
}

static void
encode (LmtRecorder *recorder, const LmtRingEvent *event)
{
  const LmtTraceHead *head = &lmt_trace_level_heads (recorder->level)[event->call];
  LmtPack *out = &recorder->out;
  gsize start = out->len;
  gint64 since_ns = MAX (event->mono_ns - recorder->start_ns, 0);
  guint32 length;

  lmt_pack_raw (out, frame_head, sizeof frame_head - 1);
  put_double (out, (double)since_ns / 1e9);
  lmt_pack_raw (out, wall_head, sizeof wall_head - 1);
  put_double (out, lmt_trace_seconds (event->wall_ns));
  lmt_pack_raw (out, head->bytes, head->len);
  if (!put_args (&recorder->level->calls[event->call], event, recorder->schema, out)
      || out->len - start - LMT_FRAME_PREFIX_BYTES > G_MAXUINT32)
    {
      out->len = start;
      out->failed = 0;
      atomic_fetch_add_explicit (&recorder->encode_errors, 1, memory_order_relaxed);
      return;
    }
  length = GUINT32_TO_BE ((guint32)(out->len - start - LMT_FRAME_PREFIX_BYTES));
  memcpy (out->data + start, &length, sizeof length);
  recorder->n_out++;
}

/* ---------------- writing ---------------- */

/* A write failed: nothing more is recorded. */
static void
stop (LmtRecorder *recorder, GError *error)
{
  LmtTraceSlot *slot = recorder->slot;

  recorder->stopped = TRUE;
  __atomic_fetch_and (&recorder->level->gate, ~(1u << recorder->bit), __ATOMIC_RELAXED);
  pthread_mutex_lock (&slot->lock);
  if (recorder->error == NULL)
    recorder->error = error;
  else
    g_error_free (error);
  pthread_mutex_unlock (&slot->lock);
}

static void
tell_figures (LmtRecorder *recorder)
{
  const LmtTraceFileFigures *figures = lmt_trace_file_get_figures (recorder->file);

  atomic_store_explicit (&recorder->records, figures->records, memory_order_relaxed);
  atomic_store_explicit (&recorder->bytes, figures->bytes, memory_order_relaxed);
  atomic_store_explicit (&recorder->file_bytes, figures->file_bytes, memory_order_relaxed);
  atomic_store_explicit (&recorder->files, figures->files, memory_order_relaxed);
}

static void
count_lost (LmtRecorder *recorder, guint64 n)
{
  atomic_fetch_add_explicit (&recorder->write_errors, n, memory_order_relaxed);
}

/* Writes what was encoded; whole frames all of it. */
static void
write_out (LmtRecorder *recorder)
{
  GError *error = NULL;
  guint64 lost;

  if (recorder->n_out == 0)
    return;
  lost = lmt_trace_file_get_lost (recorder->file);
  if (recorder->stopped)
    count_lost (recorder, recorder->n_out);
  else if (!lmt_trace_file_write (recorder->file, &recorder->out, recorder->n_out, &error))
    stop (recorder, error);
  count_lost (recorder, lmt_trace_file_get_lost (recorder->file) - lost);
  recorder->out.len = 0;
  recorder->n_out = 0;
}

static void
settle (LmtRecorder *recorder, gboolean now)
{
  GError *error = NULL;
  guint64 lost = lmt_trace_file_get_lost (recorder->file);

  if (!recorder->stopped && !lmt_trace_file_settle (recorder->file, now, &error))
    stop (recorder, error);
  count_lost (recorder, lmt_trace_file_get_lost (recorder->file) - lost);
}

/* Once: with the configuration that was attached, or without one. */
static void
write_header (LmtRecorder *recorder)
{
  LmtTraceSlot *slot = recorder->slot;
  LmtHeaderFields fields = { .level = recorder->level->name, .trace_schema_version = recorder->schema };
  g_autofree char *json = NULL;
  g_autofree char *digest = NULL;
  gboolean done;
  GError *error = NULL;

  pthread_mutex_lock (&slot->lock);
  done = recorder->header_done;
  recorder->header_done = TRUE;
  if (!done)
    {
      json = g_strdup (recorder->config_json != NULL ? recorder->config_json : "");
      digest = g_strdup (recorder->digest != NULL ? recorder->digest : "");
    }
  pthread_mutex_unlock (&slot->lock);
  if (done)
    return;
  fields.t_mono_start = recorder->t_mono_start;
  fields.t_wall_start = recorder->t_wall_start;
  fields.sm_config_json = json;
  fields.sm_config_digest = digest;
  fields.level_meta_msgpack = (LmtSpan){ recorder->level_meta, recorder->level_meta_len };
  if (!recorder->stopped && !lmt_trace_file_header (recorder->file, &fields, &error))
    stop (recorder, error);
  tell_figures (recorder);
}

/* ---------------- a pass ---------------- */

static void
give_back (Cursor *cursor)
{
  atomic_store_explicit (&cursor->ring->tail, cursor->at, memory_order_release);
  cursor->given_back = cursor->at;
}

/* The event at the cursor, skips passed over; NULL: that was all of it. */
static const LmtRingEvent *
look (Cursor *cursor)
{
  while (cursor->at != cursor->end)
    {
      const LmtRingEvent *event
          = (const LmtRingEvent *)(const void *)(cursor->ring->data + (cursor->at & (cursor->ring->bytes - 1)));

      if (event->call != LMT_RING_SKIP)
        {
          cursor->mono_ns = event->mono_ns;
          return event;
        }
      cursor->at += event->size;
    }
  give_back (cursor);
  return NULL;
}

/* What the rings hold now. Those whose thread is gone and that are empty leave. */
static void
take_rings (LmtRecorder *recorder)
{
  LmtTraceHub *hub = lmt_trace_hub ();

  g_array_set_size (recorder->cursors, 0);
  pthread_mutex_lock (&hub->lock);
  for (guint i = 0; i < recorder->rings->len; i++)
    {
      LmtRing *ring = recorder->rings->pdata[i];
      Cursor cursor = { .ring = ring, .at = atomic_load_explicit (&ring->tail, memory_order_relaxed) };

      cursor.end = atomic_load_explicit (&ring->head, memory_order_acquire);
      cursor.given_back = cursor.at;
      if (cursor.at != cursor.end)
        g_array_append_val (recorder->cursors, cursor);
      else if (ring->orphan)
        {
          recorder->gone_dropped += atomic_load_explicit (&ring->dropped, memory_order_relaxed);
          recorder->gone_waits += atomic_load_explicit (&ring->waits, memory_order_relaxed);
          g_ptr_array_remove_index (recorder->rings, i--);
          lmt_ring_free (ring);
        }
    }
  pthread_mutex_unlock (&hub->lock);
}

/* By time, then by number of the ring: cursors stand in order of numbers. */
static gboolean
is_before (const Cursor *a, const Cursor *b)
{
  return a->mono_ns != b->mono_ns ? a->mono_ns < b->mono_ns : a->ring->number < b->ring->number;
}

static void
sift_down (Cursor *heap, guint n, guint i)
{
  Cursor moved = heap[i];

  for (;;)
    {
      guint child = 2 * i + 1;

      if (child >= n)
        break;
      if (child + 1 < n && is_before (&heap[child + 1], &heap[child]))
        child++;
      if (!is_before (&heap[child], &moved))
        break;
      heap[i] = heap[child];
      i = child;
    }
  heap[i] = moved;
}

static void
take_event (LmtRecorder *recorder, Cursor *cursor, const LmtRingEvent *event)
{
  encode (recorder, event);
  cursor->at += event->size;
  if (cursor->at - cursor->given_back >= STEP_BYTES)
    give_back (cursor);
  if (recorder->out.len >= WRITE_BYTES || recorder->out.len >= lmt_trace_file_room (recorder->file))
    {
      write_header (recorder);
      write_out (recorder);
    }
}

static const LmtRingEvent *
peek (const Cursor *cursor)
{
  return (const LmtRingEvent *)(const void *)(cursor->ring->data + (cursor->at & (cursor->ring->bytes - 1)));
}

static void
pass (LmtRecorder *recorder)
{
  Cursor *heap;
  guint n;

  take_rings (recorder);
  heap = (Cursor *)(void *)recorder->cursors->data;
  n = recorder->cursors->len;
  for (guint i = 0; i < n; i++)
    if (look (&heap[i]) == NULL)
      heap[i--] = heap[--n];
  for (guint i = n / 2; i > 0; i--)
    sift_down (heap, n, i - 1);
  while (n > 0)
    {
      take_event (recorder, &heap[0], peek (&heap[0]));
      if (look (&heap[0]) == NULL)
        heap[0] = heap[--n];
      if (n > 1)
        sift_down (heap, n, 0);
    }
  if (recorder->n_out > 0)
    {
      write_header (recorder);
      write_out (recorder);
    }
}

/* ---------------- the thread ---------------- */

static void
wait_for_work (LmtRecorder *recorder)
{
  LmtTraceSlot *slot = recorder->slot;
  struct timespec until;

  clock_gettime (CLOCK_MONOTONIC, &until);
  until.tv_nsec += PERIOD_NS;
  if (until.tv_nsec >= 1000000000)
    {
      until.tv_sec++;
      until.tv_nsec -= 1000000000;
    }
  while (!slot->woken && !recorder->closing && recorder->flush_asked == recorder->flush_done
         && (!recorder->header_asked || recorder->header_done))
    if (pthread_cond_timedwait (&slot->wake, &slot->lock, &until) != 0)
      break;
  slot->woken = FALSE;
}

void *
lmt_recorder_drain (void *data)
{
  LmtRecorder *recorder = data;
  LmtTraceSlot *slot = recorder->slot;
  gboolean closing = FALSE;

  recorder->cursors = g_array_new (FALSE, FALSE, sizeof (Cursor));

  pthread_mutex_lock (&slot->lock);
  while (!closing)
    {
      guint64 flush;
      gboolean header;

      wait_for_work (recorder);
      atomic_store_explicit (&slot->wake_asked, 0, memory_order_relaxed);
      flush = recorder->flush_asked;
      header = recorder->header_asked;
      closing = recorder->closing;
      pthread_mutex_unlock (&slot->lock);

      if (header || closing)
        write_header (recorder);
      pass (recorder);
      settle (recorder, closing || flush != recorder->flush_done);
      tell_figures (recorder);

      pthread_mutex_lock (&slot->lock);
      recorder->flush_done = flush;
      recorder->ended = closing;
      pthread_cond_broadcast (&slot->done);
    }
  pthread_mutex_unlock (&slot->lock);
  g_array_unref (recorder->cursors);
  if (recorder->stopped)
    lmt_trace_file_close (recorder->file, NULL); /* what did get written shall last */
  else
    {
      GError *error = NULL;

      if (!lmt_trace_file_close (recorder->file, &error))
        stop (recorder, error);
      tell_figures (recorder);
    }
  return NULL;
}
