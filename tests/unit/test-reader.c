/* SPDX-License-Identifier: Apache-2.0 */
#include <lmtrace/lmt-reader.h>

#include "lmt-encode-private.h"

#include <fcntl.h>
#include <glib/gstdio.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

/* -------- traces to read -------- */

static void
add_header (GByteArray *out)
{
  LmtHeaderFields fields = { .level = "demo", .trace_schema_version = 1, .sm_config_json = "", .sm_config_digest = "" };

  lmt_header_encode (&fields, out);
}

/* A record whose args hold @payload bytes. */
static void
add_record (GByteArray *out, guint n, guint payload)
{
  g_autoptr (GByteArray) args = g_byte_array_new ();
  g_autofree char *name = g_strdup_printf ("call_%u", n % 3);
  g_autofree guint8 *bytes = g_malloc0 (payload + 1);

  lmt_encode_map (args, 2);
  lmt_encode_str (args, "n", 1);
  lmt_encode_int (args, n);
  lmt_encode_str (args, "data", 4);
  lmt_encode_be (args, 0xc6, payload, 4);
  memset (bytes, (int)n, payload);
  g_byte_array_append (args, bytes, payload);
  lmt_record_encode (n * 0.001, 1e9 + n, (LmtSpan){ (const guint8 *)name, strlen (name) }, (LmtSpan){ args->data, args->len },
                     out);
}

static GByteArray *
make_trace (guint n_records, guint payload)
{
  GByteArray *out = g_byte_array_new ();

  add_header (out);
  for (guint i = 0; i < n_records; i++)
    add_record (out, i, payload);
  return out;
}

/* Offset of the length prefix of frame @n. */
static gsize
frame_offset (const GByteArray *trace, guint n)
{
  gsize at = 0;

  while (n-- > 0)
    at += 4 + lmt_read_be32 (trace->data + at);
  return at;
}

static void
put_be32 (GByteArray *trace, gsize at, guint32 value)
{
  value = GUINT32_TO_BE (value);
  memcpy (trace->data + at, &value, 4);
}

typedef struct
{
  GPtrArray *lines;
} Told;

static void
on_fault (const LmtFault *fault, gpointer data)
{
  g_ptr_array_add (((Told *)data)->lines, lmt_fault_to_string (fault));
}

/* Reads on to the end; every record must be the next one of its kind. */
static guint64
drain (LmtReader *reader)
{
  LmtRecord record;
  guint64 n = 0;

  while (lmt_reader_next (reader, &record) == LMT_READ_RECORD)
    g_assert_cmpuint (record.number, ==, ++n);
  g_assert_cmpint ((gint)lmt_reader_next (reader, &record), ==, LMT_READ_END);
  return n;
}

static LmtReader *
open_bytes (const GByteArray *trace)
{
  LmtReader *reader = lmt_reader_new_for_bytes (trace->data, trace->len, "t.lct");
  g_autoptr (GError) error = NULL;

  lmt_reader_read_header (reader, &error);
  g_assert_no_error (error);
  return reader;
}

static char *
temp_path (const char *name)
{
  g_autofree char *dir = g_dir_make_tmp ("lmt-reader-XXXXXX", NULL);

  return g_build_filename (dir, name, NULL);
}

static void
remove_path (char *path)
{
  g_autofree char *dir = g_path_get_dirname (path);

  g_unlink (path);
  g_rmdir (dir);
  g_free (path);
}

static char *
write_temp (const char *name, gconstpointer data, gsize len)
{
  char *path = temp_path (name);

  g_assert_true (g_file_set_contents (path, data, (gssize)len, NULL));
  return path;
}

/* -------- what is read -------- */

/* Frames that fit the buffer, that cross its end, and that are larger than it. */
static void
test_sizes (void)
{
  static const guint payloads[] = { 0, 100, 1000, 70000, 262144 - 100, 262144, 3000000 };

  for (guint i = 0; i < G_N_ELEMENTS (payloads); i++)
    {
      g_autoptr (GByteArray) trace = make_trace (7, payloads[i]);
      char *path = write_temp ("t.lct", trace->data, trace->len);
      g_autoptr (LmtReader) reader = lmt_reader_open (path, NULL);
      LmtRecord record;
      guint n = 0;

      g_assert_true (lmt_reader_read_header (reader, NULL));
      g_assert_cmpuint (lmt_reader_get_size (reader), ==, trace->len);
      while (lmt_reader_next (reader, &record) == LMT_READ_RECORD)
        {
          gsize offset = frame_offset (trace, ++n);

          g_assert_cmpuint (record.offset, ==, offset);
          g_assert_cmpuint (record.frame, ==, n);
          g_assert_cmpmem (record.body.data, record.body.len, trace->data + offset + 4, lmt_read_be32 (trace->data + offset));
          g_assert_cmpuint (lmt_reader_get_position (reader), ==, offset + 4 + record.body.len);
        }
      g_assert_cmpuint (n, ==, 7);
      g_assert_cmpuint (lmt_reader_get_stats (reader)->bytes, ==, trace->len);
      g_assert_true (lmt_reader_finish (reader, NULL));
      remove_path (path);
    }
}

/* A trace of no record is a success with zero counts (a file of header and one bad record likewise). */
static void
test_no_record (void)
{
  g_autoptr (GByteArray) trace = make_trace (0, 0);
  static const guint8 bad[] = { 0, 0, 0, 1, 0xc1 };

  {
    g_autoptr (LmtReader) reader = open_bytes (trace);

    g_assert_cmpuint (drain (reader), ==, 0);
    g_assert_cmpuint (lmt_reader_get_stats (reader)->tail, ==, LMT_TAIL_CLEAN);
  }
  g_byte_array_append (trace, bad, sizeof bad);
  {
    g_autoptr (LmtReader) reader = open_bytes (trace);

    g_assert_cmpuint (drain (reader), ==, 0);
    g_assert_cmpuint (lmt_reader_get_stats (reader)->malformed, ==, 1);
    g_assert_cmpuint (lmt_reader_get_stats (reader)->tail, ==, LMT_TAIL_CLEAN);
  }
}

/* One flipped byte: record number, where the frame starts, its length and the reason; all others are read. */
static void
test_flipped_byte (void)
{
  g_autoptr (GByteArray) trace = make_trace (100, 20);
  g_autoptr (GPtrArray) lines = g_ptr_array_new_with_free_func (g_free);
  Told told = { lines };
  gsize offset = frame_offset (trace, 50);
  g_autofree char *expected
      = g_strdup_printf ("record 50 at offset %" G_GSIZE_FORMAT " (%u bytes): invalid-msgpack: reserved byte c1 at byte 20",
                         offset, lmt_read_be32 (trace->data + offset));
  g_autoptr (LmtReader) reader = NULL;

  trace->data[offset + 4 + 1 + 5 + 7 + 7] = 0xc1; /* the head of t_mono's value */
  reader = open_bytes (trace);
  lmt_reader_set_fault_func (reader, on_fault, &told);
  g_assert_cmpuint (drain (reader), ==, 99);
  g_assert_cmpuint (lines->len, ==, 1);
  g_assert_true (g_str_has_prefix (lines->pdata[0], "record 50 at offset "));
  g_assert_cmpstr (lines->pdata[0], ==, expected);
}

/* -------- a damaged length in mid-file -------- */

typedef struct
{
  const char *what;
  guint32 value; /* of the prefix of frame 10, or */
  gint delta;    /* what is added to it */
  guint64 before, behind;
} Damage;

static const Damage damages[] = {
  { "huge", 0x7fffffff, 0, 9, 90 }, { "4gib", 0xffffffff, 0, 9, 90 },      { "3-short", 0, -3, 9, 90 },
  { "1-long", 0, 1, 9, 89 },        { "past-the-end", 9000000, 0, 9, 90 },
};

static GByteArray *
make_damaged (const Damage *damage, gsize *at)
{
  GByteArray *trace = make_trace (100, 20);

  *at = frame_offset (trace, 10);
  put_be32 (trace, *at, damage->value != 0 ? damage->value : lmt_read_be32 (trace->data + *at) + (guint32)damage->delta);
  return trace;
}

static void
test_damaged_length (gconstpointer data)
{
  const Damage *damage = data;
  gsize at;
  g_autoptr (GByteArray) trace = make_damaged (damage, &at);
  g_autoptr (GPtrArray) lines = g_ptr_array_new_with_free_func (g_free);
  Told told = { lines };
  const LmtReaderStats *stats;

  {
    g_autoptr (LmtReader) reader = open_bytes (trace);

    /* Stops there, and says that it is damage, not the end. A prefix that is a little wrong may first make a malformed frame. */
    lmt_reader_set_fault_func (reader, on_fault, &told);
    g_assert_cmpuint (drain (reader), ==, damage->before);
    stats = lmt_reader_get_stats (reader);
    g_assert_cmpuint (stats->tail, ==, LMT_TAIL_CORRUPT);
    g_assert_cmpuint (stats->resync_records, ==, damage->behind);
    g_assert_cmpuint (stats->resync_offset, >, at);
    g_assert_true (strstr (lines->pdata[lines->len - 1], ": corrupt: length ") != NULL);
    g_assert_true (lmt_reader_finish (reader, NULL));
  }
  {
    g_autoptr (LmtReader) reader = open_bytes (trace);

    lmt_reader_set_resync (reader, TRUE);
    g_assert_cmpuint (drain (reader), ==, damage->before + damage->behind);
    stats = lmt_reader_get_stats (reader);
    g_assert_cmpuint (stats->lost_ranges, ==, 1);
    g_assert_cmpuint (stats->bytes + stats->lost_bytes, ==, trace->len);
  }
}

/* The same out of a pipe, which has no size and can't go back. */
typedef struct
{
  const char *path;
  const GByteArray *bytes;
} Feed;

static gpointer
feed_fifo (gpointer data)
{
  const Feed *feed = data;
  int fd = open (feed->path, O_WRONLY);

  for (gsize at = 0; at < feed->bytes->len;)
    {
      gsize step = MIN (1 + at % 5000, feed->bytes->len - at); /* pieces of odd sizes */
      gssize n = write (fd, feed->bytes->data + at, step);

      if (n <= 0)
        break;
      at += (gsize)n;
    }
  close (fd);
  return NULL;
}

static void
test_fifo (void)
{
  gsize at;
  g_autoptr (GByteArray) trace = make_damaged (&damages[1], &at);
  char *path = temp_path ("fifo");
  Feed feed = { path, trace };
  GThread *thread;
  g_autoptr (LmtReader) reader = NULL;
  const LmtReaderStats *stats;

  g_assert_cmpint (mkfifo (path, 0600), ==, 0);
  thread = g_thread_new ("feed", feed_fifo, &feed);
  reader = lmt_reader_open (path, NULL);
  g_assert_true (lmt_reader_read_header (reader, NULL));
  g_assert_false (lmt_reader_is_seekable (reader));
  g_assert_cmpuint (lmt_reader_get_size (reader), ==, 0);
  g_assert_cmpuint (drain (reader), ==, 9);
  stats = lmt_reader_get_stats (reader);
  g_assert_cmpuint (stats->resync_records, ==, 90);
  g_assert_cmpuint (stats->tail_available, ==, trace->len - at - 4);
  g_assert_false (lmt_reader_rewind (reader, NULL));
  g_thread_join (thread);
  remove_path (path);
}

/* Two places of damage: both are stepped over. */
static void
test_damaged_twice (void)
{
  g_autoptr (GByteArray) trace = make_trace (50, 20);
  g_autoptr (LmtReader) reader = NULL;

  put_be32 (trace, frame_offset (trace, 40), 0xffffffff);
  put_be32 (trace, frame_offset (trace, 10), 0x7fffffff);
  reader = open_bytes (trace);
  lmt_reader_set_resync (reader, TRUE);
  g_assert_cmpuint (drain (reader), ==, 48);
  g_assert_cmpuint (lmt_reader_get_stats (reader)->lost_ranges, ==, 2);
}

typedef struct
{
  guint asked;
  guint took;
} Walker;

/* Takes the args of every record but of `call_1`. */
static const guint8 *
walk_args (gpointer data, LmtSpan qualname, const guint8 *args, const guint8 *end)
{
  Walker *walker = data;
  LmtCursor cursor = { args, end };
  LmtFault fault;

  walker->asked++;
  if (LMT_SPAN_IS (qualname, "call_1") || !lmt_cursor_check_next (&cursor, &fault))
    return NULL;
  walker->took++;
  return cursor.pos;
}

/* Somebody else looks at the args: the same records come, marked where they were taken; one that is none isn't handed out. */
static void
test_args_walk (void)
{
  static const guint8 behind[] = { 0xc0 };
  g_autoptr (GByteArray) trace = make_trace (3, 10);
  gsize last = trace->len;
  g_autoptr (LmtReader) reader = NULL;
  Walker walker = { 0 };
  LmtRecord record;

  add_record (trace, 3, 10);
  g_byte_array_append (trace, behind, sizeof behind);
  put_be32 (trace, last, (guint32)(trace->len - last - 4));
  add_record (trace, 4, 10);
  add_record (trace, 5, 10);
  reader = open_bytes (trace);
  lmt_reader_set_args_walk (reader, walk_args, &walker);
  for (guint n = 0; n < 5; n++)
    {
      const guint call = n < 3 ? n : n + 1;

      g_assert_cmpint ((gint)lmt_reader_next (reader, &record), ==, LMT_READ_RECORD);
      g_assert_cmpuint (record.number, ==, n + 1);
      g_assert_cmpint (record.walked, ==, call % 3 != 1);
      g_assert_true (record.args.data + record.args.len == record.body.data + record.body.len);
      g_assert_cmpfloat (record.t_wall, ==, 1e9 + call);
    }
  g_assert_cmpint ((gint)lmt_reader_next (reader, &record), ==, LMT_READ_END);
  g_assert_cmpuint (walker.asked, ==, 6);
  g_assert_cmpuint (walker.took, ==, 4);
  g_assert_cmpuint (lmt_reader_get_malformed (reader, 3), ==, 1);
}

/* Every cut of a file is a clean end, a cut prefix or a cut body, never damage. */
static void
test_every_cut (void)
{
  g_autoptr (GByteArray) trace = make_trace (4, 10);
  gsize first = frame_offset (trace, 1);
  gsize border = first;
  guint whole = 0;

  for (gsize len = first; len <= trace->len; len++)
    {
      g_autofree guint8 *copy = g_memdup2 (trace->data, len);
      g_autoptr (LmtReader) reader = lmt_reader_new_for_bytes (copy, len, "cut.lct");
      const LmtReaderStats *stats = lmt_reader_get_stats (reader);

      if (whole < 4 && len == border + 4 + lmt_read_be32 (trace->data + border))
        border = len, whole++;
      g_assert_true (lmt_reader_read_header (reader, NULL));
      g_assert_cmpuint (drain (reader), ==, whole);
      g_assert_cmpuint (stats->tail, ==,
                        len == border      ? LMT_TAIL_CLEAN
                        : len - border < 4 ? LMT_TAIL_SHORT_PREFIX
                                           : LMT_TAIL_SHORT_BODY);
      if (len != border)
        {
          g_assert_cmpuint (stats->tail_offset, ==, border);
          g_assert_cmpuint (stats->tail_available, ==, len - border < 4 ? len - border : len - border - 4);
        }
    }
}

/* Made to look like a frame at every byte: the scan gives up in time that grows with the file, not with its square. */
static void
test_scan_effort (void)
{
  g_autoptr (GByteArray) trace = make_trace (1, 10);
  static const guint8 piece[] = { 0x00, 0x0f, 0x00, 0x00, 0x85, 0xa0 };
  g_autoptr (LmtReader) reader = NULL;

  g_byte_array_append (trace, (const guint8 *)"\xff\xff\xff\xff", 4);
  for (guint i = 0; i < 2000000 / sizeof piece; i++)
    g_byte_array_append (trace, piece, sizeof piece);
  reader = open_bytes (trace);
  g_assert_cmpuint (drain (reader), ==, 1);
  g_assert_cmpuint (lmt_reader_get_stats (reader)->tail, ==, LMT_TAIL_SHORT_BODY);
}

/* -------- zero fill, glued files -------- */

static void
test_zero_fill (void)
{
  static const guint8 zeros[4096];

  for (guint left = 0; left < 4; left++)
    {
      g_autoptr (GByteArray) trace = make_trace (3, 10);
      g_autoptr (GPtrArray) lines = g_ptr_array_new_with_free_func (g_free);
      Told told = { lines };
      g_autoptr (LmtReader) reader = NULL;
      gsize start = trace->len;
      const LmtReaderStats *stats;

      g_byte_array_append (trace, zeros, 400 + left);
      reader = open_bytes (trace);
      lmt_reader_set_fault_func (reader, on_fault, &told);
      g_assert_cmpuint (drain (reader), ==, 3);
      stats = lmt_reader_get_stats (reader);
      g_assert_cmpuint (stats->tail, ==, LMT_TAIL_ZERO_FILL);
      g_assert_cmpuint (stats->tail_offset, ==, start);
      g_assert_cmpuint (stats->zero_fill_frames, ==, 100);
      g_assert_cmpuint (stats->malformed, ==, 100);
      g_assert_cmpuint (lmt_reader_get_malformed (reader, 0), ==, 100);
      g_assert_cmpuint (lines->len, ==, 1);
    }
}

/* Zeros with a record behind them are no fill: each is a malformed frame of its own. */
static void
test_zeros_inside (void)
{
  g_autoptr (GByteArray) trace = make_trace (3, 10);
  g_autoptr (GPtrArray) lines = g_ptr_array_new_with_free_func (g_free);
  Told told = { lines };
  g_autoptr (LmtReader) reader = NULL;
  gsize start = trace->len;
  g_autofree char *second = g_strdup_printf ("record 5 at offset %" G_GSIZE_FORMAT ": empty-frame", start + 4);

  g_byte_array_append (trace, (const guint8 *)"\0\0\0\0\0\0\0\0\0\0\0\0", 12);
  add_record (trace, 3, 10);
  reader = open_bytes (trace);
  lmt_reader_set_fault_func (reader, on_fault, &told);
  g_assert_cmpuint (drain (reader), ==, 4);
  g_assert_cmpuint (lmt_reader_get_stats (reader)->malformed, ==, 3);
  g_assert_cmpuint (lmt_reader_get_stats (reader)->tail, ==, LMT_TAIL_CLEAN);
  g_assert_cmpuint (lines->len, ==, 3);
  g_assert_cmpstr (lines->pdata[1], ==, second);
}

static void
test_glued (void)
{
  g_autoptr (GByteArray) trace = make_trace (5, 10);
  g_autoptr (GByteArray) other = make_trace (4, 30);
  g_autoptr (LmtReader) reader = NULL;
  const LmtReaderStats *stats;

  g_byte_array_append (trace, other->data, other->len);
  reader = open_bytes (trace);
  g_assert_cmpuint (drain (reader), ==, 9);
  stats = lmt_reader_get_stats (reader);
  g_assert_cmpuint (stats->second_headers, ==, 1);
  g_assert_cmpuint (stats->malformed, ==, 1);
  g_assert_cmpuint (stats->time_backward, ==, 1);
}

/* -------- packed files -------- */

static GByteArray *
pack_gzip (const guint8 *data, gsize len)
{
  GByteArray *out = g_byte_array_new ();
  z_stream z = { 0 };

  deflateInit2 (&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
  g_byte_array_set_size (out, (guint)deflateBound (&z, (uLong)len) + 64);
  z.next_in = (Bytef *)data;
  z.avail_in = (uInt)len;
  z.next_out = out->data;
  z.avail_out = out->len;
  g_assert_cmpint (deflate (&z, Z_FINISH), ==, Z_STREAM_END);
  g_byte_array_set_size (out, (guint)z.total_out);
  deflateEnd (&z);
  return out;
}

static GByteArray *
pack_zstd (const guint8 *data, gsize len)
{
  GByteArray *out = g_byte_array_new ();

  g_byte_array_set_size (out, (guint)ZSTD_compressBound (len));
  g_byte_array_set_size (out, (guint)ZSTD_compress (out->data, out->len, data, len, 3));
  return out;
}

typedef GByteArray *(*Pack) (const guint8 *data, gsize len);

static void
test_packed (gconstpointer data)
{
  Pack pack = *(const Pack *)data;
  g_autoptr (GByteArray) trace = make_trace (3000, 100);
  /* Two members, as `cat` and rotation make them; the border is in the middle of a frame. */
  g_autoptr (GByteArray) packed = pack (trace->data, 100000);
  g_autoptr (GByteArray) more = pack (trace->data + 100000, trace->len - 100000);
  char *path;
  const LmtReaderStats *stats;
  g_autoptr (GError) error = NULL;

  g_byte_array_append (packed, more->data, more->len);
  path = write_temp ("no-suffix", packed->data, packed->len); /* by magic, not by name */
  {
    g_autoptr (LmtReader) reader = lmt_reader_open (path, NULL);

    g_assert_true (lmt_reader_read_header (reader, NULL));
    g_assert_cmpuint (drain (reader), ==, 3000);
    g_assert_cmpuint (lmt_reader_get_stats (reader)->bytes, ==, trace->len);
    g_assert_cmpuint (lmt_reader_get_position (reader), ==, packed->len);
    g_assert_true (lmt_reader_finish (reader, NULL));
    g_assert_true (lmt_reader_rewind (reader, NULL));
    g_assert_cmpuint (drain (reader), ==, 3000);
  }
  remove_path (path);

  /* Cut: the stream is what ends early, not the trace, wherever in a frame that is. */
  for (gsize len = packed->len - more->len / 2; len < packed->len; len += 1 + more->len / 7)
    {
      g_autoptr (LmtReader) reader = lmt_reader_new_for_bytes (packed->data, len, "cut.gz");

      g_assert_true (lmt_reader_read_header (reader, NULL));
      g_assert_cmpuint (drain (reader), <, 3000);
      stats = lmt_reader_get_stats (reader);
      g_assert_cmpuint (stats->tail, ==, LMT_TAIL_STREAM_SHORT);
      g_assert_true (lmt_reader_finish (reader, NULL));
    }
  {
    g_autoptr (LmtReader) reader = lmt_reader_new_for_bytes (packed->data, 14, "cut.gz");

    g_assert_false (lmt_reader_read_header (reader, &error));
    g_assert_error (error, LMT_ERROR, LMT_ERROR_TRUNCATED);
    g_assert_true (strstr (error->message, "cut.gz: frame 0 at offset 0: compressed stream ends early") == error->message);
    g_clear_error (&error);
  }
  /* Damaged: an error, after what could be had. */
  memset (packed->data + packed->len - more->len / 2, 0xee, 64);
  {
    g_autoptr (LmtReader) reader = lmt_reader_new_for_bytes (packed->data, packed->len, "bad.gz");

    g_assert_true (lmt_reader_read_header (reader, NULL));
    g_assert_cmpuint (drain (reader), <, 3000);
    g_assert_false (lmt_reader_finish (reader, &error));
    g_assert_error (error, LMT_ERROR, LMT_ERROR_IO);
    g_assert_cmpuint (lmt_reader_get_stats (reader)->tail, ==, LMT_TAIL_READ_ERROR);
  }
}

/* What a zstd frame asks for in memory is a number in the file. */
static void
test_zstd_window (void)
{
  g_autoptr (GByteArray) trace = make_trace (10, 100);
  g_autoptr (GByteArray) packed = g_byte_array_new ();
  g_autoptr (LmtReader) reader = NULL;
  g_autoptr (GError) error = NULL;
  ZSTD_CCtx *zstd = ZSTD_createCCtx ();
  ZSTD_inBuffer in = { trace->data, trace->len, 0 };
  ZSTD_outBuffer out;

  g_byte_array_set_size (packed, 100000);
  out = (ZSTD_outBuffer){ packed->data, packed->len, 0 };
  ZSTD_CCtx_setParameter (zstd, ZSTD_c_windowLog, 27);
  ZSTD_compressStream2 (zstd, &out, &in, ZSTD_e_continue); /* streamed: the size of the content isn't written */
  ZSTD_compressStream2 (zstd, &out, &in, ZSTD_e_end);
  ZSTD_freeCCtx (zstd);
  reader = lmt_reader_new_for_bytes (packed->data, out.pos, "w.zst");
  g_assert_false (lmt_reader_read_header (reader, &error));
  g_assert_error (error, LMT_ERROR, LMT_ERROR_IO);
  g_assert_true (strstr (error->message, "window above 8 MiB") != NULL);
}

static void
test_garbage_behind_gzip (void)
{
  g_autoptr (GByteArray) trace = make_trace (10, 10);
  g_autoptr (GByteArray) packed = pack_gzip (trace->data, trace->len);
  static const guint8 zeros[512];

  g_byte_array_append (packed, zeros, sizeof zeros); /* padding of a tape or a block device is fine */
  {
    g_autoptr (LmtReader) reader = lmt_reader_new_for_bytes (packed->data, packed->len, "t.gz");

    g_assert_true (lmt_reader_read_header (reader, NULL));
    g_assert_cmpuint (drain (reader), ==, 10);
    g_assert_true (lmt_reader_finish (reader, NULL));
  }
  g_byte_array_append (packed, (const guint8 *)"text", 4);
  {
    g_autoptr (LmtReader) reader = lmt_reader_new_for_bytes (packed->data, packed->len, "t.gz");

    g_assert_true (lmt_reader_read_header (reader, NULL));
    drain (reader);
    g_assert_false (lmt_reader_finish (reader, NULL));
  }
}

/* -------- opening, following, going back -------- */

static void
test_refusals (void)
{
  static const struct
  {
    const char *bytes;
    gsize len;
    gint code;
    const char *line;
  } rows[] = {
    { "\0\0\0\x08\x81", 5, LMT_ERROR_TRUNCATED, "short.lct: frame 0 at offset 0: expected 8 body bytes, found 1" },
    { "", 0, LMT_ERROR_TRUNCATED, "short.lct: frame 0 at offset 0: expected a trace header, found an empty file" },
    { "\xff\xff\xff\xff", 4, LMT_ERROR_TRUNCATED, "short.lct: frame 0 at offset 0: expected 4294967295 body bytes, found 0" },
    { "\0\0\0\0\0\0\0\0", 8, LMT_ERROR_CORRUPT, "short.lct: frame 0 at offset 0: empty-frame" },
  };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autoptr (LmtReader) reader = lmt_reader_new_for_bytes (rows[i].bytes, rows[i].len, "short.lct");
      g_autoptr (GError) error = NULL;

      g_assert_false (lmt_reader_read_header (reader, &error));
      g_assert_error (error, LMT_ERROR, rows[i].code);
      g_assert_cmpstr (error->message, ==, rows[i].line);
      g_assert_null (lmt_reader_get_header (reader));
    }
}

static void
test_open_errors (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (LmtReader) reader = lmt_reader_open ("/nonexistent/t.lct", &error);

  g_assert_null (reader);
  g_assert_error (error, LMT_ERROR, LMT_ERROR_IO);
  g_assert_cmpstr (error->message, ==, "/nonexistent/t.lct: cannot open: No such file or directory");
  g_clear_error (&error);
  reader = lmt_reader_open ("/", &error);
  g_assert_no_error (error);
  g_assert_false (lmt_reader_read_header (reader, &error));
  g_assert_error (error, LMT_ERROR, LMT_ERROR_IO);
  g_assert_cmpstr (error->message, ==, "/: cannot read: Is a directory");
}

static void
test_rewind (void)
{
  gsize at;
  g_autoptr (GByteArray) trace = make_damaged (&damages[0], &at);
  char *path = write_temp ("t.lct", trace->data, trace->len);
  g_autoptr (LmtReader) reader = lmt_reader_open (path, NULL);
  LmtReaderStats first;
  LmtHeader *header;

  g_assert_true (lmt_reader_read_header (reader, NULL));
  header = lmt_reader_get_header (reader);
  for (guint i = 0; i < 3; i++)
    {
      g_assert_cmpuint (drain (reader), ==, 9);
      if (i == 0)
        first = *lmt_reader_get_stats (reader);
      g_assert_cmpmem (&first, sizeof first, lmt_reader_get_stats (reader), sizeof first);
      g_assert_true (lmt_reader_rewind (reader, NULL));
      g_assert_true (lmt_reader_get_header (reader) == header); /* borrowed pointers stay good */
    }
  remove_path (path);
}

typedef struct
{
  const char *path;
  const GByteArray *trace;
} Growth;

static gpointer
grow_file (gpointer data)
{
  const Growth *growth = data;
  int fd = open (growth->path, O_WRONLY | O_APPEND);

  for (gsize at = 0; at < growth->trace->len; at += 97)
    {
      gsize len = MIN (97, growth->trace->len - at);

      g_assert_cmpint (write (fd, growth->trace->data + at, len), ==, (gssize)len);
      g_usleep (1000);
    }
  close (fd);
  return NULL;
}

static void
test_follow (void)
{
  g_autoptr (GByteArray) trace = make_trace (40, 20);
  char *path = write_temp ("t.lct", "", 0);
  Growth growth = { path, trace };
  g_autoptr (LmtReader) reader = lmt_reader_open (path, NULL);
  GThread *thread = g_thread_new ("grow", grow_file, &growth);

  lmt_reader_set_follow (reader, TRUE, 2 * G_GINT64_CONSTANT (1000000000));
  g_assert_true (lmt_reader_read_header (reader, NULL));
  g_assert_cmpuint (drain (reader), ==, 40);
  g_assert_cmpuint (lmt_reader_get_stats (reader)->tail, ==, LMT_TAIL_CLEAN);
  g_thread_join (thread);
  remove_path (path);
}

/* A signal ends waiting as the end of the file would. */
static void
test_interrupted (void)
{
  static volatile gint interrupts;
  g_autoptr (GByteArray) trace = make_trace (3, 20);
  char *path = write_temp ("t.lct", trace->data, trace->len);
  g_autoptr (LmtReader) reader = lmt_reader_open (path, NULL);
  LmtRecord record;

  lmt_reader_set_follow (reader, TRUE, 0);
  lmt_reader_set_interrupts (reader, &interrupts);
  g_assert_true (lmt_reader_read_header (reader, NULL));
  for (guint i = 0; i < 3; i++)
    g_assert_cmpint ((gint)lmt_reader_next (reader, &record), ==, LMT_READ_RECORD);
  g_atomic_int_set (&interrupts, 1);
  g_assert_cmpint ((gint)lmt_reader_next (reader, &record), ==, LMT_READ_END);
  remove_path (path);
}

static void
test_max_frame (void)
{
  g_autoptr (GByteArray) trace = make_trace (3, 1000);
  g_autoptr (LmtReader) reader = NULL;

  add_record (trace, 3, 300000);
  add_record (trace, 4, 1000);
  reader = open_bytes (trace);
  lmt_reader_set_max_frame (reader, 100000);
  g_assert_cmpuint (drain (reader), ==, 3);
  g_assert_cmpuint (lmt_reader_get_stats (reader)->tail, ==, LMT_TAIL_CORRUPT);
}

/* -------- memory -------- */

/* In a process of its own, with little memory: the numbers in these files are never asked for. */
static void
test_memory (void)
{
  static const guint8 bodies[][12] = {
    { 0, 0, 0, 5, 0xdd, 0xff, 0xff, 0xff, 0xff }, { 0, 0, 0, 5, 0xdf, 0xff, 0xff, 0xff, 0xff },
    { 0, 0, 0, 5, 0xc6, 0xff, 0xff, 0xff, 0xff }, { 0, 0, 0, 5, 0xdb, 0xff, 0xff, 0xff, 0xff },
    { 0, 0, 0, 5, 0xc9, 0xff, 0xff, 0xff, 0xff },
  };

  if (g_getenv ("LMT_SANITIZED") != NULL)
    {
      g_test_skip ("a sanitizer needs the address space");
      return;
    }
  if (g_test_subprocess ())
    {
      struct rlimit limit = { 96 * 1024 * 1024, 96 * 1024 * 1024 };
      g_autoptr (GByteArray) trace = make_trace (3, 10);
      g_autoptr (LmtReader) reader = NULL;
      g_autoptr (LmtReader) tiny = NULL;

      g_assert_cmpint (setrlimit (RLIMIT_AS, &limit), ==, 0);
      tiny = lmt_reader_new_for_bytes ("\xff\xff\xff\xff", 4, "tiny.lct");
      g_assert_false (lmt_reader_read_header (tiny, NULL));
      for (guint i = 0; i < G_N_ELEMENTS (bodies); i++)
        g_byte_array_append (trace, bodies[i], 9);
      g_byte_array_append (trace, (const guint8 *)"\0\x01\x86\xa0", 4);
      for (guint i = 0; i < 100000; i++)
        g_byte_array_append (trace, (const guint8 *)"\x91", 1);
      add_record (trace, 9, 10);
      g_byte_array_append (trace, (const guint8 *)"\xff\xff\xff\xff", 4);
      reader = open_bytes (trace);
      g_assert_cmpuint (drain (reader), ==, 4);
      g_assert_cmpuint (lmt_reader_get_stats (reader)->malformed, ==, 6);
      g_assert_cmpuint (lmt_reader_get_malformed (reader, 1), ==, 5);
      g_assert_cmpuint (lmt_reader_get_malformed (reader, 4), ==, 1);
      return;
    }
  g_test_trap_subprocess (NULL, 0, G_TEST_SUBPROCESS_DEFAULT);
  g_test_trap_assert_passed ();
}

int
main (int argc, char **argv)
{
  static const Pack packs[] = { pack_gzip, pack_zstd };

  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/reader/sizes", test_sizes);
  g_test_add_func ("/reader/no-record", test_no_record);
  g_test_add_func ("/reader/flipped-byte", test_flipped_byte);
  for (guint i = 0; i < G_N_ELEMENTS (damages); i++)
    {
      g_autofree char *path = g_strdup_printf ("/reader/damaged-length/%s", damages[i].what);

      g_test_add_data_func (path, &damages[i], test_damaged_length);
    }
  g_test_add_func ("/reader/fifo", test_fifo);
  g_test_add_func ("/reader/damaged-twice", test_damaged_twice);
  g_test_add_func ("/reader/args-walk", test_args_walk);
  g_test_add_func ("/reader/every-cut", test_every_cut);
  g_test_add_func ("/reader/scan-effort", test_scan_effort);
  g_test_add_func ("/reader/zero-fill", test_zero_fill);
  g_test_add_func ("/reader/zeros-inside", test_zeros_inside);
  g_test_add_func ("/reader/glued", test_glued);
  g_test_add_data_func ("/reader/packed/gzip", &packs[0], test_packed);
  g_test_add_data_func ("/reader/packed/zstd", &packs[1], test_packed);
  g_test_add_func ("/reader/zstd-window", test_zstd_window);
  g_test_add_func ("/reader/garbage-behind-gzip", test_garbage_behind_gzip);
  g_test_add_func ("/reader/refusals", test_refusals);
  g_test_add_func ("/reader/open-errors", test_open_errors);
  g_test_add_func ("/reader/rewind", test_rewind);
  g_test_add_func ("/reader/follow", test_follow);
  g_test_add_func ("/reader/interrupted", test_interrupted);
  g_test_add_func ("/reader/max-frame", test_max_frame);
  g_test_add_func ("/reader/memory", test_memory);
  return g_test_run ();
}
