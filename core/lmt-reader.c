/* SPDX-License-Identifier: Apache-2.0 */
#include "lmt-reader-private.h"
#include "lmt-record-private.h"

#include <math.h>

enum
{
  BUFFER_BYTES = 256 * 1024,
};

static const char *const malformed_reasons[LMT_MALFORMED_REASONS]
    = { "empty-frame", "invalid-msgpack", "invalid-utf8", "trailing-bytes", "too-deep",  "not-a-map",
        "bad-key",     "header-frame",    "wrong-tag",    "missing-field",  "wrong-type" };

const char *
lmt_malformed_reason (guint reason)
{
  return reason < LMT_MALFORMED_REASONS ? malformed_reasons[reason] : NULL;
}

static LmtReader *
reader_new (const char *name, char *shown, LmtSource *source)
{
  LmtReader *reader = g_new0 (LmtReader, 1);

  reader->name = g_strdup (name);
  reader->shown = shown;
  reader->source = source;
  reader->shapes = lmt_shapes_new ();
  reader->max_frame = LMT_READER_MAX_FRAME;
  reader->capacity = BUFFER_BYTES;
  reader->buffer = g_malloc (BUFFER_BYTES);
  return reader;
}

LmtReader *
lmt_reader_open (const char *path, GError **error)
{
  g_autofree char *shown = NULL;
  LmtSource *source;

  g_return_val_if_fail (path != NULL, NULL);

  shown = g_filename_display_name (path);
  source = lmt_source_open (path, shown, error);
  return source != NULL ? reader_new (path, g_steal_pointer (&shown), source) : NULL;
}

LmtReader *
lmt_reader_new_for_bytes (gconstpointer data, gsize len, const char *name)
{
  g_return_val_if_fail (data != NULL || len == 0, NULL);
  g_return_val_if_fail (name != NULL, NULL);

  return reader_new (name, g_filename_display_name (name), lmt_source_new_for_bytes (data, len, name));
}

void
lmt_reader_free (LmtReader *reader)
{
  if (reader == NULL)
    return;
  lmt_source_free (reader->source);
  lmt_shapes_free (reader->shapes);
  g_clear_pointer (&reader->header, lmt_header_unref);
  g_free (reader->buffer);
  g_free (reader->shown);
  g_free (reader->name);
  g_free (reader);
}

void
lmt_reader_set_resync (LmtReader *reader, gboolean resync)
{
  reader->resync = resync;
}

void
lmt_reader_set_follow (LmtReader *reader, gboolean follow, gint64 idle_ns)
{
  lmt_source_set_follow (reader->source, follow, idle_ns);
}

void
lmt_reader_set_interrupts (LmtReader *reader, const volatile gint *interrupts)
{
  lmt_source_set_interrupts (reader->source, interrupts);
}

void
lmt_reader_set_max_frame (LmtReader *reader, guint64 bytes)
{
  reader->max_frame = MIN (bytes, G_MAXUINT32);
}

void
lmt_reader_set_fault_func (LmtReader *reader, LmtReaderFaultFunc func, gpointer user_data)
{
  reader->fault_func = func;
  reader->fault_data = user_data;
}

void
lmt_reader_set_args_walk (LmtReader *reader, LmtArgsWalk walk, gpointer user_data)
{
  reader->args_walk = walk;
  reader->args_data = user_data;
}

LmtHeader *
lmt_reader_get_header (LmtReader *reader)
{
  return reader->header;
}

const char *
lmt_reader_get_name (LmtReader *reader)
{
  return reader->name;
}

const char *
lmt_reader_get_shown_name (LmtReader *reader)
{
  return reader->shown;
}

guint64
lmt_reader_get_size (LmtReader *reader)
{
  return lmt_source_get_size (reader->source);
}

guint64
lmt_reader_get_position (LmtReader *reader)
{
  if (lmt_source_is_compressed (reader->source))
    return lmt_source_get_position (reader->source);
  return reader->offset;
}

gboolean
lmt_reader_is_seekable (LmtReader *reader)
{
  return lmt_source_is_seekable (reader->source);
}

const LmtReaderStats *
lmt_reader_get_stats (LmtReader *reader)
{
  return &reader->stats;
}

guint64
lmt_reader_get_malformed (LmtReader *reader, guint reason)
{
  return reason < LMT_MALFORMED_REASONS ? reader->malformed[reason] : 0;
}

/* -------- bytes -------- */

gboolean
lmt_reader_fill (LmtReader *reader, guint64 need)
{
  while (lmt_reader_available (reader) < need && !reader->source_end)
    {
      gssize n;

      if (reader->start > 0 && (reader->start == reader->end || need > reader->capacity - reader->start))
        {
          memmove (reader->buffer, reader->buffer + reader->start, lmt_reader_available (reader));
          reader->end -= reader->start;
          reader->start = 0;
        }
      if (reader->end == reader->capacity)
        {
          /* Only a buffer full of bytes that are really there grows, whatever length the file claims. */
          reader->capacity = MAX (reader->capacity * 2, BUFFER_BYTES);
          reader->buffer = g_realloc (reader->buffer, reader->capacity);
        }
      n = lmt_source_read (reader->source, reader->buffer + reader->end, reader->capacity - reader->end);
      reader->source_end = n <= 0;
      reader->source_failed = n < 0;
      reader->end += n > 0 ? (gsize)n : 0;
    }
  return lmt_reader_available (reader) >= need;
}

gboolean
lmt_reader_fill_frame (LmtReader *reader, guint32 len)
{
  guint64 need = LMT_FRAME_PREFIX_BYTES + (guint64)len;
  guint64 size;

  if (lmt_reader_available (reader) >= need)
    return TRUE;
  if (len > reader->max_frame)
    return FALSE;
  if (need > BUFFER_BYTES && !lmt_source_is_compressed (reader->source) && !lmt_source_is_following (reader->source))
    {
      size = lmt_source_get_size (reader->source);
      if (size != 0 && need > size - MIN (size, reader->offset))
        return FALSE;
    }
  return lmt_reader_fill (reader, need);
}

/* -------- faults -------- */

static void
tell (LmtReader *reader, LmtFault *fault, guint64 frame, guint64 offset, guint64 length)
{
  fault->number = frame;
  fault->offset = offset;
  fault->length = length;
  if (reader->fault_func != NULL)
    reader->fault_func (fault, reader->fault_data);
}

static void
count_malformed (LmtReader *reader, LmtFault *fault, guint64 frame, guint64 offset, guint64 length)
{
  reader->stats.malformed++;
  for (guint i = 0; i < LMT_MALFORMED_REASONS; i++)
    if (strcmp (fault->reason, malformed_reasons[i]) == 0)
      {
        reader->malformed[i]++;
        break;
      }
  if (strcmp (fault->reason, "header-frame") == 0)
    reader->stats.second_headers++;
  tell (reader, fault, frame, offset, length);
}

/* Frames of length 0 that turned out to have something behind them: each is a malformed frame of its own. */
static void
tell_zero_run (LmtReader *reader)
{
  for (guint64 i = 0; i < reader->zero_count; i++)
    {
      LmtFault fault = { .reason = malformed_reasons[0] };

      count_malformed (reader, &fault, reader->zero_frame + i, reader->zero_offset + i * LMT_FRAME_PREFIX_BYTES, 0);
    }
  reader->zero_count = 0;
}

static void
add_zero_frame (LmtReader *reader)
{
  if (reader->zero_count++ == 0)
    {
      reader->zero_offset = reader->offset;
      reader->zero_frame = reader->frame;
    }
  reader->frame++;
  reader->stats.bytes += LMT_FRAME_PREFIX_BYTES;
  lmt_reader_advance (reader, LMT_FRAME_PREFIX_BYTES);
}

static void
set_tail (LmtReader *reader, LmtTail tail, guint64 offset)
{
  reader->stats.tail = tail;
  reader->stats.tail_offset = offset;
}

/* Fewer than four bytes are left: the end, one way or the other. */
static LmtReadResult
end_of_file (LmtReader *reader)
{
  LmtFault fault = { 0 };
  gsize left = lmt_reader_available (reader);
  const guint8 *p = reader->buffer + reader->start;
  gboolean zeros = TRUE;

  reader->done = TRUE;
  for (gsize i = 0; i < left; i++)
    zeros = zeros && p[i] == 0;
  if (reader->zero_count > 0 && zeros && !reader->source_failed)
    {
      reader->stats.zero_fill_frames = reader->zero_count;
      reader->stats.malformed += reader->zero_count;
      reader->malformed[0] += reader->zero_count;
      set_tail (reader, LMT_TAIL_ZERO_FILL, reader->zero_offset);
      fault.reason = "zero-fill";
      g_snprintf (fault.detail, sizeof fault.detail, "%" G_GUINT64_FORMAT " frames of length 0 to the end", reader->zero_count);
      tell (reader, &fault, reader->zero_frame, reader->zero_offset, reader->zero_count * LMT_FRAME_PREFIX_BYTES + left);
      reader->zero_count = 0;
      return LMT_READ_END;
    }
  tell_zero_run (reader);
  reader->stats.tail_available = left;
  if (reader->source_failed)
    set_tail (reader, LMT_TAIL_READ_ERROR, reader->offset);
  else if (lmt_source_ends_early (reader->source))
    {
      set_tail (reader, LMT_TAIL_STREAM_SHORT, reader->offset);
      fault.reason = "compressed stream ends early";
      tell (reader, &fault, reader->frame, reader->offset, left);
    }
  else if (left > 0)
    {
      set_tail (reader, LMT_TAIL_SHORT_PREFIX, reader->offset);
      fault.reason = "truncated";
      g_snprintf (fault.detail, sizeof fault.detail, "expected a length of 4 bytes, found %zu", left);
      tell (reader, &fault, reader->frame, reader->offset, left);
    }
  return LMT_READ_END;
}

/*
 * The length at the reader's place promises more than there is. Cut, or damaged? Only what stands behind can tell. TRUE: reading
 * goes on there (`resync`).
 */
static gboolean
bad_length (LmtReader *reader)
{
  LmtReaderStats *stats = &reader->stats;
  LmtFault fault = { 0 };
  guint64 offset = reader->offset;
  guint32 promised = lmt_read_be32 (reader->buffer + reader->start);
  gboolean found;

  stats->tail_promised = promised;
  found = lmt_reader_scan (reader);
  stats->resync_offset = found ? reader->offset : 0;
  set_tail (reader, found ? LMT_TAIL_CORRUPT : LMT_TAIL_SHORT_BODY, offset);
  if (found)
    {
      fault.reason = "corrupt";
      g_snprintf (fault.detail, sizeof fault.detail, "length %u: frames go on at %" G_GUINT64_FORMAT, promised, reader->offset);
    }
  if (found && reader->resync)
    {
      stats->lost_bytes += reader->offset - offset;
      stats->lost_ranges++;
      tell (reader, &fault, reader->frame, offset, reader->offset - offset);
      reader->frame++;
      return TRUE;
    }
  if (found)
    lmt_reader_count_rest (reader);
  stats->tail_available = reader->offset - offset - LMT_FRAME_PREFIX_BYTES;
  if (reader->source_failed || lmt_source_ends_early (reader->source))
    {
      set_tail (reader, reader->source_failed ? LMT_TAIL_READ_ERROR : LMT_TAIL_STREAM_SHORT, offset);
      fault.reason = reader->source_failed ? NULL : "compressed stream ends early";
      fault.detail[0] = '\0';
    }
  else if (!found)
    {
      fault.reason = "truncated";
      g_snprintf (fault.detail, sizeof fault.detail, "expected %u body bytes, found %" G_GUINT64_FORMAT, promised,
                  stats->tail_available);
    }
  if (reader->resync)
    {
      stats->lost_bytes += reader->offset - offset;
      stats->lost_ranges++;
    }
  reader->done = TRUE;
  if (fault.reason != NULL)
    tell (reader, &fault, reader->frame, offset, reader->offset - offset);
  return FALSE;
}

/* -------- records -------- */

static inline void
account (LmtReader *reader, LmtRecord *record, gsize frame_bytes)
{
  LmtReaderStats *stats = &reader->stats;
  double t = record->t_mono;

  record->number = ++stats->records;
  record->frame = reader->frame++;
  record->offset = reader->offset;
  stats->bytes += frame_bytes;
  lmt_reader_advance (reader, frame_bytes);

  if (G_LIKELY (t >= reader->last_finite_s && t < 1e9))
    {
      stats->last_time_s = reader->last_finite_s = t;
      if (t > stats->duration_s)
        stats->duration_s = t;
      return;
    }
  if (!isfinite (t))
    {
      stats->time_non_finite++;
      return;
    }
  if (t > stats->duration_s)
    stats->duration_s = t;
  if (t < 0)
    {
      stats->time_negative++;
      t = 0;
    }
  if (t < reader->last_finite_s)
    stats->time_backward++;
  reader->last_finite_s = t;
  if (t >= 1e9)
    stats->time_too_large++;
  else
    stats->last_time_s = t;
}

LmtReadResult
lmt_reader_next (LmtReader *reader, LmtRecord *record)
{
  if (reader->done || reader->header == NULL)
    return LMT_READ_END;
  for (;;)
    {
      LmtFault fault = { 0 };
      LmtSpan body;
      guint32 len;

      if (lmt_reader_available (reader) < LMT_FRAME_PREFIX_BYTES && !lmt_reader_fill (reader, LMT_FRAME_PREFIX_BYTES))
        return end_of_file (reader);
      len = lmt_read_be32 (reader->buffer + reader->start);
      if (len == 0)
        {
          add_zero_frame (reader);
          continue;
        }
      if (reader->zero_count > 0)
        tell_zero_run (reader);
      if (lmt_reader_available (reader) < LMT_FRAME_PREFIX_BYTES + (guint64)len && !lmt_reader_fill_frame (reader, len))
        {
          if (bad_length (reader))
            continue;
          return LMT_READ_END;
        }
      body.data = reader->buffer + reader->start + LMT_FRAME_PREFIX_BYTES;
      body.len = len;
      /* Who looks at the args has no use for a shape that says they are good. */
      if (reader->args_walk == NULL && lmt_shapes_match (reader->shapes, body, record))
        {
          account (reader, record, LMT_FRAME_PREFIX_BYTES + (gsize)len);
          return LMT_READ_RECORD;
        }
      if (lmt_record_split_walking (body, record, reader->args_walk, reader->args_data, &fault))
        {
          if (reader->args_walk == NULL)
            lmt_shapes_learn (reader->shapes, body, record);
          account (reader, record, LMT_FRAME_PREFIX_BYTES + (gsize)len);
          return LMT_READ_RECORD;
        }
      count_malformed (reader, &fault, reader->frame, reader->offset, len);
      reader->frame++;
      reader->stats.bytes += LMT_FRAME_PREFIX_BYTES + (guint64)len;
      lmt_reader_advance (reader, LMT_FRAME_PREFIX_BYTES + (gsize)len);
    }
}

/* -------- header -------- */

static gboolean refuse_header (LmtReader *reader, gint code, GError **error, const char *format, ...) G_GNUC_PRINTF (4, 5);

static gboolean
refuse_header (LmtReader *reader, gint code, GError **error, const char *format, ...)
{
  va_list args;
  g_autofree char *text = NULL;

  reader->done = TRUE;
  if (reader->source_failed)
    {
      g_set_error (error, LMT_ERROR, LMT_ERROR_IO, "%s: %s", reader->shown, lmt_source_get_error (reader->source));
      if (error != NULL)
        lmt_error_set_place (*error, reader->name, -1);
      return FALSE;
    }
  va_start (args, format);
  text = g_strdup_vprintf (format, args);
  va_end (args);
  if (lmt_source_ends_early (reader->source))
    g_set_error (error, LMT_ERROR, LMT_ERROR_TRUNCATED, "%s: frame 0 at offset 0: compressed stream ends early: %s",
                 reader->shown, text);
  else
    g_set_error (error, LMT_ERROR, code, "%s: frame 0 at offset 0: %s", reader->shown, text);
  if (error != NULL)
    lmt_error_set_place (*error, reader->name, 0);
  return FALSE;
}

gboolean
lmt_reader_read_header (LmtReader *reader, GError **error)
{
  LmtSpan body;
  guint32 len;

  g_return_val_if_fail (reader != NULL && reader->header == NULL, FALSE);

  if (!lmt_reader_fill (reader, LMT_FRAME_PREFIX_BYTES))
    {
      gsize found = lmt_reader_available (reader);

      if (found == 0)
        return refuse_header (reader, LMT_ERROR_TRUNCATED, error, "expected a trace header, found an empty file");
      return refuse_header (reader, LMT_ERROR_TRUNCATED, error, "expected a length of 4 bytes, found %zu", found);
    }
  len = lmt_read_be32 (reader->buffer + reader->start);
  if (!lmt_reader_fill_frame (reader, len))
    {
      guint64 size = lmt_source_is_compressed (reader->source) ? 0 : lmt_source_get_size (reader->source);
      guint64 there = MAX (size, reader->end) - LMT_FRAME_PREFIX_BYTES;

      if (len > there)
        return refuse_header (reader, LMT_ERROR_TRUNCATED, error, "expected %u body bytes, found %" G_GUINT64_FORMAT, len, there);
      return refuse_header (reader, LMT_ERROR_CORRUPT, error, "expected at most %" G_GUINT64_FORMAT " body bytes, found %u",
                            reader->max_frame, len);
    }
  body.data = reader->buffer + reader->start + LMT_FRAME_PREFIX_BYTES;
  body.len = len;
  reader->header = lmt_header_new_from_body (body, reader->shown, error);
  if (reader->header == NULL)
    {
      reader->done = TRUE;
      if (error != NULL)
        lmt_error_set_place (*error, reader->name, 0);
      return FALSE;
    }
  reader->frame = 1;
  reader->stats.bytes = LMT_FRAME_PREFIX_BYTES + (guint64)len;
  lmt_reader_advance (reader, LMT_FRAME_PREFIX_BYTES + (gsize)len);
  return TRUE;
}

gboolean
lmt_reader_finish (LmtReader *reader, GError **error)
{
  if (!reader->source_failed)
    return TRUE;
  g_set_error (error, LMT_ERROR, LMT_ERROR_IO, "%s: record %" G_GUINT64_FORMAT " at offset %" G_GUINT64_FORMAT ": %s",
               reader->shown, reader->frame, reader->stats.tail_offset, lmt_source_get_error (reader->source));
  if (error != NULL)
    lmt_error_set_place (*error, reader->name, (gint64)reader->stats.tail_offset);
  return FALSE;
}

gboolean
lmt_reader_rewind (LmtReader *reader, GError **error)
{
  /* The header of the first time stays: whoever borrowed it still has it in hand. */
  LmtHeader *header = reader->header;
  gboolean ok;

  g_return_val_if_fail (header != NULL, FALSE);

  if (!lmt_source_rewind (reader->source, error))
    return FALSE;
  reader->header = NULL;
  reader->start = reader->end = 0;
  reader->offset = 0;
  reader->zero_count = 0;
  reader->last_finite_s = 0.0;
  reader->source_end = reader->source_failed = reader->done = FALSE;
  memset (&reader->stats, 0, sizeof reader->stats);
  memset (reader->malformed, 0, sizeof reader->malformed);
  ok = lmt_reader_read_header (reader, error);
  g_clear_pointer (&reader->header, lmt_header_unref);
  reader->header = header;
  return ok;
}
