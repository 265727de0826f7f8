/* SPDX-License-Identifier: Apache-2.0 */
/* Gate, rings, drain, file: what a recorder does with the calls of a level of this test's own. */
#include <lmtrace/lmtrace.h>

#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum
{
  CALL_PUT = 0, /* copy: guint64 number, then bytes */
  CALL_RAW,
  CALL_VALUES,
};

static const char *const value_names[] = { "nil", "flag", "int", "uint", "float", "text", "bytes", "list", NULL };
static guint n_encoded;

static gboolean
encode_put (gconstpointer copy, gsize len, guint32 schema, LmtPack *out)
{
  guint64 number;

  __atomic_fetch_add (&n_encoded, 1, __ATOMIC_RELAXED);
  memcpy (&number, copy, sizeof number);
  if (number == 13) /* what this level can't say */
    return FALSE;
  lmt_pack_map (out, 3);
  LMT_PACK_LITERAL (out, "number");
  lmt_pack_uint (out, number);
  LMT_PACK_LITERAL (out, "rest");
  lmt_pack_bin (out, (const guint8 *)copy + sizeof number, len - sizeof number);
  LMT_PACK_LITERAL (out, "schema");
  lmt_pack_uint (out, schema);
  return TRUE;
}

static const LmtTraceCall calls[] = {
  { "test.put", NULL, encode_put, { NULL } },
  { "test.raw", NULL, NULL, { NULL } },
  { "test.values", value_names, NULL, { NULL } },
};
static LmtTraceLevel level = LMT_TRACE_LEVEL_INIT ("demo", calls, G_N_ELEMENTS (calls));
static LmtTraceLevel other = LMT_TRACE_LEVEL_INIT ("other", calls, G_N_ELEMENTS (calls));

/* ---------------- helpers ---------------- */

typedef struct
{
  char *dir;
  char *path;
} Folder;

static void
set_up (Folder *folder, gconstpointer data)
{
  folder->dir = g_dir_make_tmp ("lmt-recorder-XXXXXX", NULL);
  folder->path = g_build_filename (folder->dir, data != NULL ? data : "t.lct", NULL);
}

static void
tear_down (Folder *folder, gconstpointer data)
{
  g_autoptr (GDir) dir = g_dir_open (folder->dir, 0, NULL);
  const char *name;

  while ((name = g_dir_read_name (dir)) != NULL)
    {
      g_autofree char *path = g_build_filename (folder->dir, name, NULL);

      g_unlink (path);
    }
  g_rmdir (folder->dir);
  g_free (folder->path);
  g_free (folder->dir);
}

static LmtRecorder *
record_with (LmtTraceLevel *of, const LmtRecorderParams *params)
{
  g_autoptr (GError) error = NULL;
  LmtRecorder *recorder = lmt_recorder_new (of, params, &error);

  g_assert_no_error (error);
  g_assert_nonnull (recorder);
  return recorder;
}

static LmtRecorder *
record (const char *path)
{
  return record_with (&level, &(LmtRecorderParams){ .struct_size = sizeof (LmtRecorderParams), .path = path });
}

static void
put_of (LmtTraceLevel *of, guint64 number, gsize more)
{
  guint8 *room = lmt_recorder_begin (of, CALL_PUT, sizeof number + more);

  if (room == NULL)
    return;
  memcpy (room, &number, sizeof number);
  memset (room + sizeof number, 0x55, more);
  lmt_recorder_commit (of, sizeof number + more);
}

static void
put (guint64 number)
{
  put_of (&level, number, 0);
}

static void
close_well (LmtRecorder *recorder)
{
  g_autoptr (GError) error = NULL;

  g_assert_true (lmt_recorder_close (recorder, &error));
  g_assert_no_error (error);
  lmt_recorder_free (recorder);
}

static LmtRecorderStats
stats_of (LmtRecorder *recorder)
{
  LmtRecorderStats stats = { .struct_size = sizeof stats };

  lmt_recorder_get_stats (recorder, &stats);
  return stats;
}

/* What a file holds: the members of test.put in order. */
typedef struct
{
  GArray *numbers; /* of guint64 */
  GArray *times;   /* of double */
  guint n_others;
  guint32 tail;
  char *config;
  char *digest;
} Content;

static void
content_clear (Content *content)
{
  g_array_unref (content->numbers);
  g_array_unref (content->times);
  g_free (content->config);
  g_free (content->digest);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Content, content_clear)

static guint64
number_of (const LmtRecord *record)
{
  LmtCursor cursor;
  LmtSpan name;
  guint32 pairs;
  guint64 number = G_MAXUINT64;

  lmt_cursor_init (&cursor, record->args);
  g_assert_true (lmt_cursor_read_map (&cursor, &pairs));
  g_assert_cmpuint (pairs, ==, 3);
  g_assert_true (lmt_cursor_read_str (&cursor, &name));
  g_assert_true (LMT_SPAN_IS (name, "number"));
  g_assert_true (lmt_cursor_read_uint (&cursor, &number));
  return number;
}

static Content
read_file (const char *path)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (LmtReader) reader = lmt_reader_open (path, &error);
  Content content
      = { g_array_new (FALSE, FALSE, sizeof (guint64)), g_array_new (FALSE, FALSE, sizeof (double)), 0, 0, NULL, NULL };
  LmtRecord record;

  g_assert_no_error (error);
  g_assert_true (lmt_reader_read_header (reader, &error));
  g_assert_no_error (error);
  content.config = g_strdup (lmt_header_get_config_json (lmt_reader_get_header (reader)));
  content.digest = g_strdup (lmt_header_get_config_digest (lmt_reader_get_header (reader)));
  while (lmt_reader_next (reader, &record) == LMT_READ_RECORD)
    {
      guint64 number;

      g_array_append_val (content.times, record.t_mono);
      if (!LMT_SPAN_IS (record.qualname, "test.put"))
        {
          content.n_others++;
          continue;
        }
      number = number_of (&record);
      g_array_append_val (content.numbers, number);
    }
  g_assert_cmpuint (lmt_reader_get_stats (reader)->malformed, ==, 0);
  content.tail = lmt_reader_get_stats (reader)->tail;
  return content;
}

static void
expect_numbers (const char *path, guint64 first, guint64 n)
{
  g_auto (Content) content = read_file (path);

  g_assert_cmpuint (content.tail, ==, LMT_TAIL_CLEAN);
  g_assert_cmpuint (content.numbers->len, ==, n);
  for (guint i = 0; i < content.numbers->len; i++)
    g_assert_cmpuint (g_array_index (content.numbers, guint64, i), ==, first + i);
}

/* ---------------- gate ---------------- */

static void
test_gate (Folder *folder, gconstpointer data)
{
  LmtRecorder *recorder;
  guint before = n_encoded;

  g_assert_false (lmt_trace_is_on (&level));
  g_assert_null (lmt_recorder_begin (&level, CALL_PUT, 8));
  put (1);
  recorder = record (folder->path);
  g_assert_true (lmt_trace_is_on (&level));
  g_assert_true (lmt_trace_level_is_on (&level));
  g_assert_false (lmt_trace_is_on (&other)); /* levels have gates of their own */
  put (2);
  put_of (&other, 3, 0);
  g_assert_true (lmt_recorder_close (recorder, NULL));
  g_assert_false (lmt_trace_is_on (&level));
  put (4); /* after close: nowhere */
  g_assert_true (lmt_recorder_close (recorder, NULL));
  g_assert_cmpuint (stats_of (recorder).records, ==, 1);
  lmt_recorder_free (recorder);
  g_assert_cmpuint (n_encoded - before, ==, 1);
  expect_numbers (folder->path, 2, 1);
}

static void
test_published_copy (Folder *folder, gconstpointer data)
{
  LmtRecorder *recorder = record (folder->path);
  guint64 number = 100;

  /* The caller changes what it passed, at once: the record has what was passed. */
  for (guint i = 0; i < 1000; i++)
    {
      lmt_recorder_publish (&level, CALL_PUT, &number, sizeof number);
      number++;
    }
  close_well (recorder);
  expect_numbers (folder->path, 100, 1000);
}

static void
test_values (Folder *folder, gconstpointer data)
{
  static const guint8 list[] = { 0x92, 0x01, 0x02 };
  static const char wanted[] = "{\"nil\":null,\"flag\":true,\"int\":-5,\"uint\":18446744073709551615,\"float\":0.5,\"text\":"
                               "\"h\\u00e4\",\"bytes\":\"0x00ff\","
                               "\"list\":[1,2]}";
  const LmtTraceValue values[] = {
    { .kind = LMT_TRACE_NIL },
    { .kind = LMT_TRACE_BOOL, .v.u = 1 },
    { .kind = LMT_TRACE_INT, .v.i = -5 },
    { .kind = LMT_TRACE_UINT, .v.u = G_MAXUINT64 },
    { .kind = LMT_TRACE_DOUBLE, .v.d = 0.5 },
    { .kind = LMT_TRACE_STR, .v.data = "h\xc3\xa4", .len = 3 },
    { .kind = LMT_TRACE_BIN, .v.data = "\0\xff", .len = 2 },
    { .kind = LMT_TRACE_RAW, .v.data = list, .len = sizeof list },
  };
  LmtRecorder *recorder = record (folder->path);
  g_autoptr (GString) json = g_string_new (NULL);
  g_autoptr (LmtReader) reader = NULL;
  LmtRecord one;

  lmt_recorder_publish_values (&level, CALL_VALUES, values, G_N_ELEMENTS (values));
  close_well (recorder);
  reader = lmt_reader_open (folder->path, NULL);
  g_assert_true (lmt_reader_read_header (reader, NULL));
  g_assert_cmpint (lmt_reader_next (reader, &one), ==, LMT_READ_RECORD);
  lmt_value_to_json (one.args, json);
  g_assert_cmpstr (json->str, ==, wanted);
  g_assert_true (LMT_SPAN_IS (one.qualname, "test.values"));
}

/* Commits of what wasn't begun, twice, too long, or of another level: refused, and nothing else is touched. */
static void
test_wrong_commits (Folder *folder, gconstpointer data)
{
  LmtRecorder *recorder = record (folder->path);
  guint64 number = 101;
  guint8 *room;

  put (100);
  for (guint i = 0; i < 4; i++)
    g_test_expect_message ("lmtrace", G_LOG_LEVEL_CRITICAL, "*is_begun*");
  lmt_recorder_commit (&level, 0);
  room = lmt_recorder_begin (&level, CALL_PUT, sizeof number);
  memcpy (room, &number, sizeof number);
  lmt_recorder_commit (&level, sizeof number + 1);
  lmt_recorder_commit (&other, sizeof number);
  lmt_recorder_commit (&level, sizeof number);
  lmt_recorder_commit (&level, sizeof number);
  g_test_assert_expected_messages ();
  close_well (recorder);
  expect_numbers (folder->path, 100, 2);
}

/* ---------------- header ---------------- */

static void
test_header_attached (Folder *folder, gconstpointer data)
{
  LmtRecorder *recorder = record (folder->path);
  g_autoptr (GError) error = NULL;

  g_assert_true (lmt_recorder_attach (recorder, "{\"a\": 1}", NULL, &error));
  g_assert_no_error (error);
  {
    /* At once: the file is readable while nothing was published. */
    g_auto (Content) content = read_file (folder->path);
    g_autofree char *digest = g_compute_checksum_for_string (G_CHECKSUM_SHA256, "{\"a\": 1}", -1);

    g_assert_cmpstr (content.config, ==, "{\"a\": 1}");
    g_assert_cmpstr (content.digest, ==, digest);
  }
  g_assert_true (lmt_recorder_attach (recorder, "{\"b\": 2}", "00", &error)); /* again: ignored */
  put (0);
  close_well (recorder);
  {
    g_auto (Content) content = read_file (folder->path);

    g_assert_cmpstr (content.config, ==, "{\"a\": 1}");
    g_assert_cmpuint (content.numbers->len, ==, 1);
  }
}

static void
test_header_by_record (Folder *folder, gconstpointer data)
{
  LmtRecorder *recorder = record (folder->path);

  put (0);
  g_assert_true (lmt_recorder_flush (recorder, NULL));
  g_assert_true (lmt_recorder_attach (recorder, "{}", NULL, NULL)); /* too late: ignored */
  put (1);
  close_well (recorder);
  {
    g_auto (Content) content = read_file (folder->path);

    g_assert_cmpstr (content.config, ==, "");
    g_assert_cmpstr (content.digest, ==, "");
    g_assert_cmpuint (content.numbers->len, ==, 2);
  }
}

static void
test_header_by_close (Folder *folder, gconstpointer data)
{
  LmtRecorder *recorder = record (folder->path);

  close_well (recorder);
  {
    g_auto (Content) content = read_file (folder->path);

    g_assert_cmpuint (content.numbers->len, ==, 0);
    g_assert_cmpstr (content.config, ==, "");
  }
}

/* ---------------- errors of the caller ---------------- */

static void
refused (LmtTraceLevel *of, const LmtRecorderParams *params, gint code, const char *part)
{
  g_autoptr (GError) error = NULL;

  g_assert_null (lmt_recorder_new (of, params, &error));
  g_assert_error (error, LMT_ERROR, code);
  g_assert_nonnull (strstr (error->message, part));
}

static void
test_refused (Folder *folder, gconstpointer data)
{
  static const LmtTraceCall nameless[] = { { NULL } };
  LmtTraceLevel bad = LMT_TRACE_LEVEL_INIT ("bad", nameless, 1);
  LmtTraceLevel empty = LMT_TRACE_LEVEL_INIT ("empty", calls, 0);
  g_autofree char *missing = g_build_filename (folder->dir, "no", "t.lct", NULL);
  const char *const inputs[] = { folder->path, NULL };
  LmtRecorderParams params = { .struct_size = sizeof params, .path = folder->path };

  refused (&bad, &params, LMT_ERROR_OPTION, "qualname");
  refused (&empty, &params, LMT_ERROR_OPTION, "calls");
  params.schema = 3;
  refused (&level, &params, LMT_ERROR_OPTION, "schema: expected 1 or 2");
  params.schema = 0;
  params.path = "-";
  params.rotate_bytes = 8000;
  refused (&level, &params, LMT_ERROR_OPTION, "rotate: expected a file's name, found stdout");
  params.rotate_bytes = 0;
  params.path = missing;
  refused (&level, &params, LMT_ERROR_IO, "cannot open for writing");
  g_assert_true (g_file_set_contents (folder->path, "precious", -1, NULL));
  params.path = folder->path;
  params.inputs = inputs;
  refused (&level, &params, LMT_ERROR_OPTION, "expected a file of its own");
  {
    g_autofree char *kept = NULL;

    g_assert_true (g_file_get_contents (folder->path, &kept, NULL, NULL));
    g_assert_cmpstr (kept, ==, "precious");
  }
  g_assert_false (lmt_trace_is_on (&level));
}

static void
test_encode_errors (Folder *folder, gconstpointer data)
{
  static const guint8 no_map[] = { 0x91, 0x01 };
  static const guint8 broken[] = { 0x81, 0xa1, 'x' };
  static const guint8 bad_text[] = { 0x81, 0xa1, 'x', 0xa1, 0xff };
  static const guint8 fine[] = { 0x81, 0xa1, 'x', 0x01 };
  LmtRecorder *recorder = record (folder->path);

  for (guint i = 12; i <= 14; i++)
    put (i);
  lmt_recorder_publish (&level, CALL_RAW, no_map, sizeof no_map);
  lmt_recorder_publish (&level, CALL_RAW, broken, sizeof broken);
  lmt_recorder_publish (&level, CALL_RAW, bad_text, sizeof bad_text);
  lmt_recorder_publish (&level, CALL_RAW, NULL, 0);
  lmt_recorder_publish (&level, CALL_RAW, fine, sizeof fine);
  g_assert_true (lmt_recorder_flush (recorder, NULL));
  g_assert_cmpuint (stats_of (recorder).encode_errors, ==, 5); /* while it runs */
  g_assert_cmpuint (stats_of (recorder).records, ==, 3);
  g_test_expect_message ("lmtrace", G_LOG_LEVEL_WARNING,
                         "Recording is incomplete*3 records*0 dropped, 5 encode errors, 0 write errors");
  close_well (recorder);
  g_test_assert_expected_messages ();
}

/* ---------------- full rings ---------------- */

/* A drain that is held up: it encodes only while this is free. */
static pthread_mutex_t hold = PTHREAD_MUTEX_INITIALIZER;

static gboolean
encode_held (gconstpointer copy, gsize len, guint32 schema, LmtPack *out)
{
  pthread_mutex_lock (&hold);
  pthread_mutex_unlock (&hold);
  return encode_put (copy, len, schema, out);
}

static const LmtTraceCall held_calls[] = { { "test.put", NULL, encode_held, { NULL } } };
static LmtTraceLevel held = LMT_TRACE_LEVEL_INIT ("held", held_calls, 1);

static void
test_dropped (Folder *folder, gconstpointer data)
{
  LmtRecorderParams params = { .struct_size = sizeof params, .path = folder->path, .buffer_bytes = 1 };
  LmtRecorder *recorder = record_with (&held, &params);
  guint64 dropped;

  pthread_mutex_lock (&hold);
  for (guint i = 0; i < 5000; i++)
    put_of (&held, 100 + i, 0);
  dropped = stats_of (recorder).dropped; /* readable while it runs */
  put_of (&held, 1, 40000);              /* more than half the ring */
  g_assert_cmpuint (stats_of (recorder).dropped, ==, dropped + 1);
  pthread_mutex_unlock (&hold);
  /* 64 KiB of heads of 32 and numbers of 8 bytes */
  g_assert_cmpuint (dropped, >=, 5000 - 64 * 1024 / 40 - 1);
  g_assert_cmpuint (dropped, <, 5000);
  g_test_expect_message ("lmtrace", G_LOG_LEVEL_WARNING, "Recording is incomplete*");
  g_assert_true (lmt_recorder_close (recorder, NULL)); /* drops are counted, no error */
  g_test_assert_expected_messages ();
  g_assert_cmpuint (stats_of (recorder).records + stats_of (recorder).dropped, ==, 5001);
  lmt_recorder_free (recorder);
  {
    g_auto (Content) content = read_file (folder->path);

    g_assert_cmpuint (content.numbers->len, ==, 5000 - dropped);
    for (guint i = 0; i < content.numbers->len; i++) /* the first ones stay, the newest are dropped */
      g_assert_cmpuint (g_array_index (content.numbers, guint64, i), ==, 100 + i);
  }
}

static void
test_block (Folder *folder, gconstpointer data)
{
  LmtRecorderParams params
      = { .struct_size = sizeof params, .path = folder->path, .buffer_bytes = 1, .flags = LMT_RECORDER_BLOCK };
  LmtRecorder *recorder = record_with (&level, &params);

  for (guint i = 100; i < 50100; i++)
    put_of (&level, i, i % 100);
  close_well (recorder);
  expect_numbers (folder->path, 100, 50000);
}

/* ---------------- several recorders, threads ---------------- */

static void
test_several (Folder *folder, gconstpointer data)
{
  g_autofree char *second_path = g_build_filename (folder->dir, "second.lct", NULL);
  LmtRecorderParams params = { .struct_size = sizeof params, .path = second_path, .schema = 2 };
  LmtRecorder *first = record (folder->path);
  LmtRecorder *second;

  put (100);
  second = record_with (&level, &params);
  for (guint i = 101; i < 200; i++)
    put_of (&level, i, i);
  g_assert_true (lmt_recorder_close (first, NULL));
  g_assert_true (lmt_trace_is_on (&level)); /* closing one leaves the other */
  put (200);
  close_well (second);
  lmt_recorder_free (first);
  expect_numbers (folder->path, 100, 100);
  expect_numbers (second_path, 101, 100);
}

static void
test_most (Folder *folder, gconstpointer data)
{
  LmtRecorder *recorders[32];
  LmtRecorderParams params = { .struct_size = sizeof params, .path = folder->path };
  g_autofree char *kept = NULL;

  for (guint i = 0; i < G_N_ELEMENTS (recorders); i++)
    {
      g_autofree char *path = g_strdup_printf ("%s.n%u", folder->path, i);

      recorders[i] = record (path);
    }
  g_assert_true (g_file_set_contents (folder->path, "precious", -1, NULL));
  refused (&level, &params, LMT_ERROR_UNSUPPORTED, "at most 32 recorders");
  g_assert_true (g_file_get_contents (folder->path, &kept, NULL, NULL));
  g_assert_cmpstr (kept, ==, "precious");
  put (5);
  for (guint i = 0; i < G_N_ELEMENTS (recorders); i++)
    {
      g_autofree char *path = g_strdup_printf ("%s.n%u", folder->path, i);

      close_well (recorders[i]);
      expect_numbers (path, 5, 1);
    }
}

enum
{
  THREADS = 4,
  PER_THREAD = 20000,
};

static void *
publish_many (void *data)
{
  guint64 base = (guint64)GPOINTER_TO_UINT (data) * 1000000 + 100;

  for (guint i = 0; i < PER_THREAD; i++)
    put_of (&level, base + i, i % 37);
  return NULL;
}

static void
test_threads (Folder *folder, gconstpointer data)
{
  LmtRecorderParams params
      = { .struct_size = sizeof params, .path = folder->path, .flags = LMT_RECORDER_BLOCK, .buffer_bytes = 1 };
  LmtRecorder *recorder = record_with (&level, &params);
  pthread_t threads[THREADS];
  guint64 next[THREADS] = { 0 };

  for (guint i = 0; i < THREADS; i++)
    pthread_create (&threads[i], NULL, publish_many, GUINT_TO_POINTER (i));
  while (stats_of (recorder).records < PER_THREAD) /* figures while they run */
    g_usleep (500);
  for (guint i = 0; i < THREADS; i++)
    pthread_join (threads[i], NULL);
  g_assert_true (lmt_recorder_flush (recorder, NULL));
  g_assert_cmpuint (stats_of (recorder).threads, ==, THREADS);
  close_well (recorder);
  {
    g_auto (Content) content = read_file (folder->path);

    g_assert_cmpuint (content.numbers->len, ==, THREADS * PER_THREAD);
    for (guint i = 0; i < content.numbers->len; i++)
      {
        guint64 number = g_array_index (content.numbers, guint64, i) - 100;

        /* each thread's calls in its order */
        g_assert_cmpuint (number % 1000000, ==, next[number / 1000000]);
        next[number / 1000000]++;
      }
  }
}

static gint stop_publishing;

static void *
publish_until (void *data)
{
  guint64 number = 100;

  while (g_atomic_int_get (&stop_publishing) == 0)
    put_of (&level, number++, 16);
  return NULL;
}

/* Recorders come and go while others publish: no call lands in a file that isn't open for it, none is cut. */
static void
test_gate_flips (Folder *folder, gconstpointer data)
{
  pthread_t threads[2];

  g_atomic_int_set (&stop_publishing, 0);
  for (guint i = 0; i < G_N_ELEMENTS (threads); i++)
    pthread_create (&threads[i], NULL, publish_until, NULL);
  for (guint round = 0; round < 30; round++)
    {
      LmtTraceLevel *of = round % 3 == 2 ? &other : &level;
      LmtRecorderParams params = { .struct_size = sizeof params, .path = folder->path, .flags = LMT_RECORDER_BLOCK };
      LmtRecorder *recorder;

      params.buffer_bytes = round % 2 == 0 ? 0 : 256 * 1024;
      recorder = record_with (of, &params);
      g_usleep (2000);
      close_well (recorder);
      {
        g_auto (Content) content = read_file (folder->path);

        g_assert_cmpuint (content.tail, ==, LMT_TAIL_CLEAN);
        if (of == &other)
          g_assert_cmpuint (content.numbers->len, ==, 0);
      }
    }
  g_atomic_int_set (&stop_publishing, 1);
  for (guint i = 0; i < G_N_ELEMENTS (threads); i++)
    pthread_join (threads[i], NULL);
}

/* Rings of threads that are gone are drained, and memory doesn't grow with their number. */
static void *
publish_few (void *data)
{
  for (guint i = 0; i < 3; i++)
    put (100);
  return NULL;
}

static void
test_short_threads (Folder *folder, gconstpointer data)
{
  LmtRecorder *recorder = record (folder->path);

  for (guint i = 0; i < 300; i++)
    {
      pthread_t thread;

      pthread_create (&thread, NULL, publish_few, NULL);
      pthread_join (thread, NULL);
    }
  g_assert_true (lmt_recorder_flush (recorder, NULL));
  g_assert_cmpuint (stats_of (recorder).threads, ==, 300);
  g_assert_cmpuint (stats_of (recorder).records, ==, 900);
  close_well (recorder);
}

/* ---------------- order ---------------- */

static void
test_order (Folder *folder, gconstpointer data)
{
  LmtRecorder *recorder = record (folder->path);
  LmtTraceTime now;
  guint64 number;

  lmt_recorder_get_time (recorder, &now);
  /* One thread's ring keeps its order whatever the times say; equal times are no trouble. */
  for (number = 100; number < 110; number++)
    lmt_recorder_publish_at (&level, CALL_PUT, &now, &number, sizeof number);
  close_well (recorder);
  expect_numbers (folder->path, 100, 10);
  {
    g_auto (Content) content = read_file (folder->path);

    for (guint i = 1; i < 10; i++)
      g_assert_cmpfloat (g_array_index (content.times, double, i), ==, g_array_index (content.times, double, 0));
  }
}

/* ---------------- clocks ---------------- */

static void
record_virtually (const char *path, gboolean has_start)
{
  LmtClock *clock = lmt_clock_virtual_new (5000000000);
  LmtRecorderParams params = { .struct_size = sizeof params, .path = path, .clock = clock };
  LmtRecorder *recorder;

  params.has_start = has_start;
  params.t_mono_start = 77.5;
  params.t_wall_start = 1.75e9;
  recorder = record_with (&level, &params);
  lmt_recorder_attach (recorder, "{}", NULL, NULL);
  for (guint i = 0; i < 100; i++)
    {
      put (100 + i);
      clock->sleep_until_ns (clock->data, lmt_clock_now (clock) + 250000000, NULL, 0);
    }
  close_well (recorder);
  lmt_clock_virtual_free (clock);
}

static void
expect_start (const char *path, double mono, double wall, double last_wall)
{
  g_autoptr (LmtReader) reader = lmt_reader_open (path, NULL);
  double found_mono, found_wall;
  LmtRecord one;

  g_assert_true (lmt_reader_read_header (reader, NULL));
  g_assert_true (lmt_header_get_t_mono_start (lmt_reader_get_header (reader), &found_mono));
  g_assert_true (lmt_header_get_t_wall_start (lmt_reader_get_header (reader), &found_wall));
  g_assert_cmpfloat (found_mono, ==, mono);
  g_assert_cmpfloat (found_wall, ==, wall);
  for (guint i = 0; i < 100; i++)
    {
      g_assert_cmpint (lmt_reader_next (reader, &one), ==, LMT_READ_RECORD);
      g_assert_cmpfloat (one.t_mono, ==, i * 0.25);
    }
  g_assert_cmpfloat (one.t_wall, ==, last_wall);
}

static void
test_virtual_clock (Folder *folder, gconstpointer data)
{
  g_autofree char *again = g_build_filename (folder->dir, "again.lct", NULL);
  g_autofree char *a = NULL;
  g_autofree char *b = NULL;
  gsize a_len, b_len;

  record_virtually (folder->path, FALSE);
  expect_start (folder->path, 5.0, 5.0, 5.0 + 99 * 0.25);
  record_virtually (again, FALSE);
  g_assert_true (g_file_get_contents (folder->path, &a, &a_len, NULL));
  g_assert_true (g_file_get_contents (again, &b, &b_len, NULL));
  g_assert_cmpmem (a, a_len, b, b_len); /* the whole file */
  record_virtually (again, TRUE);
  expect_start (again, 77.5, 1.75e9, 1.75e9 + 99 * 0.25);
  g_setenv ("SOURCE_DATE_EPOCH", "1758400000", TRUE);
  record_virtually (again, TRUE);
  g_unsetenv ("SOURCE_DATE_EPOCH");
  expect_start (again, 1758400000.0, 1758400000.0, 1758400000.0 + 99 * 0.25);
}

static void
test_source_date (Folder *folder, gconstpointer data)
{
  LmtRecorder *recorder;
  double mono, wall;
  g_autoptr (LmtReader) reader = NULL;
  LmtRecord one;

  g_setenv ("SOURCE_DATE_EPOCH", "1758400000", TRUE);
  recorder = record (folder->path);
  g_unsetenv ("SOURCE_DATE_EPOCH");
  lmt_recorder_get_start (recorder, &mono, &wall);
  g_assert_cmpfloat (mono, ==, 1758400000.0);
  g_assert_cmpfloat (wall, ==, 1758400000.0);
  put (1);
  close_well (recorder);
  reader = lmt_reader_open (folder->path, NULL);
  g_assert_true (lmt_reader_read_header (reader, NULL));
  g_assert_cmpint (lmt_reader_next (reader, &one), ==, LMT_READ_RECORD);
  g_assert_cmpfloat (one.t_wall, ==, 1758400000.0 + one.t_mono);
}

/* ---------------- files ---------------- */

static void
test_rotate (Folder *folder, gconstpointer data)
{
  LmtRecorderParams params
      = { .struct_size = sizeof params, .path = folder->path, .rotate_bytes = 8000, .flags = LMT_RECORDER_BLOCK };
  LmtRecorder *recorder = record_with (&level, &params);
  guint64 next = 100;
  double last = 0.0;
  guint files;

  lmt_recorder_attach (recorder, "{\"a\": 1}", NULL, NULL);
  for (guint i = 100; i < 1100; i++)
    put_of (&level, i, 100);
  g_assert_true (lmt_recorder_close (recorder, NULL));
  files = stats_of (recorder).files;
  g_assert_cmpuint (files, >, 20);
  lmt_recorder_free (recorder);
  for (guint i = 0; i < files; i++)
    {
      g_autofree char *path = i == 0 ? g_strdup (folder->path) : g_strdup_printf ("%s.%u", folder->path, i);
      g_auto (Content) content = read_file (path);
      GStatBuf st;

      g_assert_cmpint (g_stat (path, &st), ==, 0);
      if (i + 1 < files)
        g_assert_cmpint (st.st_size, >=, 8000);
      g_assert_cmpint (st.st_size, <, 8000 + 300);
      g_assert_cmpstr (content.config, ==, "{\"a\": 1}");
      g_assert_cmpuint (content.numbers->len, >, 0);
      for (guint k = 0; k < content.numbers->len; k++)
        {
          g_assert_cmpuint (g_array_index (content.numbers, guint64, k), ==, next++);
          g_assert_cmpfloat (g_array_index (content.times, double, k), >=, last); /* times go on */
          last = g_array_index (content.times, double, k);
        }
    }
  g_assert_cmpuint (next, ==, 1100);
}

static void
test_packed (Folder *folder, gconstpointer data)
{
  LmtRecorderParams params = { .struct_size = sizeof params, .path = folder->path, .flags = LMT_RECORDER_BLOCK };
  LmtRecorder *recorder = record_with (&level, &params);
  GStatBuf st;

  lmt_recorder_attach (recorder, "{}", NULL, NULL);
  for (guint i = 100; i < 5100; i++)
    put (i);
  g_assert_true (lmt_recorder_flush (recorder, NULL));
  expect_numbers (folder->path, 100, 5000); /* what is flushed decodes, nothing closed yet */
  for (guint i = 5100; i < 60100; i++)
    put_of (&level, i, 100); /* several frames of 4 MiB */
  g_assert_true (lmt_recorder_close (recorder, NULL));
  g_assert_cmpint (g_stat (folder->path, &st), ==, 0);
  g_assert_cmpuint (stats_of (recorder).file_bytes, ==, st.st_size);
  g_assert_cmpuint (stats_of (recorder).bytes, >, 4 * (guint64)st.st_size);
  lmt_recorder_free (recorder);
  expect_numbers (folder->path, 100, 60000);
}

/* The system takes no more: the file ends with its last whole frame, nothing more is recorded, all is counted and told. */
static void
test_no_space (Folder *folder, gconstpointer data)
{
  struct rlimit before;
  struct rlimit limit;
  LmtRecorder *recorder;
  LmtRecorderStats stats;
  g_autoptr (GError) error = NULL;
  GStatBuf st;

  getrlimit (RLIMIT_FSIZE, &before);
  limit = before;
  limit.rlim_cur = g_str_has_suffix (folder->path, ".zst") ? 2000 : 100001;
  recorder = record (folder->path);
  lmt_recorder_attach (recorder, "{}", NULL, NULL);
  g_assert_cmpint (setrlimit (RLIMIT_FSIZE, &limit), ==, 0);
  for (guint i = 100; i < 2100; i++)
    put_of (&level, i, 1000);
  g_assert_false (lmt_recorder_flush (recorder, &error));
  setrlimit (RLIMIT_FSIZE, &before);
  g_assert_error (error, LMT_ERROR, LMT_ERROR_IO);
  g_assert_nonnull (strstr (error->message, "cannot write"));
  g_assert_false (lmt_trace_is_on (&level)); /* recording ended there */
  put (1);
  g_clear_error (&error);
  g_test_expect_message ("lmtrace", G_LOG_LEVEL_WARNING, "Recording is incomplete*write errors*");
  g_assert_false (lmt_recorder_close (recorder, &error));
  g_test_assert_expected_messages ();
  g_assert_error (error, LMT_ERROR, LMT_ERROR_IO);
  g_assert_false (lmt_recorder_close (recorder, NULL)); /* the same answer */
  stats = stats_of (recorder);
  lmt_recorder_free (recorder);
  g_assert_cmpint (g_stat (folder->path, &st), ==, 0);
  g_assert_cmpuint (stats.write_errors, >, 0);
  g_assert_cmpuint (stats.records + stats.write_errors + stats.dropped, <=, 2000); /* the rest found the gate off */
  if (g_str_has_suffix (folder->path, ".lct"))
    {
      g_assert_cmpint (st.st_size, >, 100001 - 1100);
      g_assert_cmpint (st.st_size, <=, 100001);
    }
  expect_numbers (folder->path, 100, stats.records);
}

/* The same where the file is stdout's, behind what somebody wrote before. */
static void
test_no_space_stdout (Folder *folder, gconstpointer data)
{
  static const char before_it[] = "before it";
  LmtRecorderParams params = { .struct_size = sizeof params, .path = "-" };
  struct rlimit before, limit;
  LmtRecorder *recorder;
  g_autofree char *content = NULL;
  gsize len, at = strlen (before_it);
  guint frames = 0;
  int kept = dup (STDOUT_FILENO);
  int fd = g_open (folder->path, O_WRONLY | O_CREAT, 0600);

  g_assert_cmpint (write (fd, before_it, at), ==, (gssize)at);
  fflush (stdout);
  dup2 (fd, STDOUT_FILENO);
  recorder = record_with (&level, &params);
  dup2 (kept, STDOUT_FILENO);
  close (kept);
  close (fd);
  lmt_recorder_attach (recorder, "{}", NULL, NULL);
  getrlimit (RLIMIT_FSIZE, &before);
  limit = before;
  limit.rlim_cur = 20001;
  g_assert_cmpint (setrlimit (RLIMIT_FSIZE, &limit), ==, 0);
  for (guint i = 100; i < 200; i++)
    put_of (&level, i, 1000);
  g_assert_false (lmt_recorder_flush (recorder, NULL));
  setrlimit (RLIMIT_FSIZE, &before);
  g_test_expect_message ("lmtrace", G_LOG_LEVEL_WARNING, "Recording is incomplete*");
  g_assert_false (lmt_recorder_close (recorder, NULL));
  g_test_assert_expected_messages ();
  g_assert_true (g_file_get_contents (folder->path, &content, &len, NULL));
  g_assert_cmpmem (content, at, before_it, at);
  for (; at + 4 <= len; frames++)
    at += 4 + (gsize)lmt_read_be32 ((const guint8 *)content + at);
  g_assert_cmpuint (at, ==, len);
  g_assert_cmpuint (frames, ==, stats_of (recorder).records + 1);
  lmt_recorder_free (recorder);
}

/* ---------------- closing beside others ---------------- */

typedef struct
{
  LmtRecorder *recorder;
  gint stop;
} Flusher;

static void *
flush_until (void *data)
{
  Flusher *flusher = data;

  while (g_atomic_int_get (&flusher->stop) == 0)
    {
      g_assert_true (lmt_recorder_flush (flusher->recorder, NULL));
      g_assert_true (lmt_recorder_attach (flusher->recorder, "{}", NULL, NULL));
    }
  return NULL;
}

/* Nobody waits for a drain that is gone. */
static void
test_flush_and_close (Folder *folder, gconstpointer data)
{
  for (guint round = 0; round < 200; round++)
    {
      Flusher flusher = { record (folder->path), 0 };
      pthread_t threads[2];

      for (guint i = 0; i < G_N_ELEMENTS (threads); i++)
        pthread_create (&threads[i], NULL, flush_until, &flusher);
      put (100);
      g_usleep (round % 4 * 100);
      g_assert_true (lmt_recorder_close (flusher.recorder, NULL));
      g_atomic_int_set (&flusher.stop, 1);
      for (guint i = 0; i < G_N_ELEMENTS (threads); i++)
        pthread_join (threads[i], NULL);
      lmt_recorder_free (flusher.recorder);
      expect_numbers (folder->path, 100, 1);
    }
}

/* ---------------- processes ---------------- */

static pid_t pretended;

/* Instead of the C library's: a pid that comes again can't be had otherwise. */
pid_t
getpid (void)
{
  return pretended != 0 ? pretended : (pid_t)syscall (SYS_getpid);
}

static void
test_same_pid (Folder *folder, gconstpointer data)
{
  LmtRecorder *recorder = record (folder->path);
  pid_t parent = getpid ();
  int status;
  pid_t pid;

  put (100);
  pid = fork ();
  if (pid == 0)
    {
      pretended = parent; /* as a grandchild's may be once the parent is gone */
      alarm (20);
      if (!lmt_recorder_flush (recorder, NULL) || !lmt_recorder_close (recorder, NULL))
        _exit (2);
      lmt_recorder_free (recorder);
      _exit (0);
    }
  g_assert_cmpint (waitpid (pid, &status, 0), ==, pid);
  g_assert_cmpint (status, ==, 0);
  close_well (recorder);
  expect_numbers (folder->path, 100, 1);
}

static void
test_fork (Folder *folder, gconstpointer data)
{
  LmtRecorder *recorder = record (folder->path);
  g_autofree char *childs = g_build_filename (folder->dir, "child.lct", NULL);
  int status;
  pid_t pid;

  put (100);
  pid = fork ();
  if (pid == 0)
    {
      LmtRecorder *own;

      if (lmt_trace_is_on (&level))
        _exit (1);
      put (666);
      if (!lmt_recorder_flush (recorder, NULL) || !lmt_recorder_close (recorder, NULL))
        _exit (2);
      lmt_recorder_free (recorder); /* touches no file */
      own = record (childs);        /* and may record on its own */
      put (200);
      _exit (own != NULL && lmt_recorder_close (own, NULL) ? 0 : 3);
    }
  g_assert_cmpint (waitpid (pid, &status, 0), ==, pid);
  g_assert_cmpint (status, ==, 0);
  g_assert_true (lmt_trace_is_on (&level));
  put (101);
  close_well (recorder);
  expect_numbers (folder->path, 100, 2);
  expect_numbers (childs, 200, 1);
}

/* A child that is killed at any moment leaves whole frames, and a cut one at most at the end. */
static void
kill_one (const char *path, GRand *rand)
{
  pid_t pid = fork ();
  int status;
  guint n = 0;
  gint64 wanted;
  GStatBuf st;

  if (pid == 0)
    {
      LmtRecorderParams params = { .struct_size = sizeof params, .path = path, .flags = LMT_RECORDER_BLOCK };
      LmtRecorder *recorder = record_with (&level, &params);
      guint64 number = 100;

      lmt_recorder_attach (recorder, "{}", NULL, NULL);
      for (;;)
        {
          put_of (&level, number++, 200);
          if (number % 64 == 0 && g_str_has_suffix (path, ".lct"))
            g_usleep (50);
        }
    }
  /* By what is in the file, not by time: a slow machine has as much to be killed in. */
  wanted = g_rand_int_range (rand, -1, g_str_has_suffix (path, ".lct") ? 300000 : 20000);
  while ((g_stat (path, &st) != 0 || st.st_size <= wanted) && n++ < 200000)
    g_usleep (50);
  g_usleep ((gulong)g_rand_int_range (rand, 0, 1000));
  kill (pid, SIGKILL);
  g_assert_cmpint (waitpid (pid, &status, 0), ==, pid);
}

static void
test_kill (Folder *folder, gconstpointer data)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (20261129);
  guint with_records = 0;

  for (guint round = 0; round < 100; round++)
    {
      GStatBuf st;

      kill_one (folder->path, rand);
      if (g_stat (folder->path, &st) == 0 && st.st_size > 0)
        {
          g_auto (Content) content = read_file (folder->path);

          for (guint i = 0; i < content.numbers->len; i++)
            g_assert_cmpuint (g_array_index (content.numbers, guint64, i), ==, 100 + i);
          with_records += content.numbers->len > 0;
        }
      g_unlink (folder->path);
    }
  g_assert_cmpuint (with_records, >, 10);
}

#define ADD(path, data, func) g_test_add ("/recorder/" path, Folder, data, set_up, func, tear_down)

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_unsetenv ("SOURCE_DATE_EPOCH");
  ADD ("gate", NULL, test_gate);
  ADD ("copy", NULL, test_published_copy);
  ADD ("values", NULL, test_values);
  ADD ("wrong-commits", NULL, test_wrong_commits);
  ADD ("header/attached", NULL, test_header_attached);
  ADD ("header/by-record", NULL, test_header_by_record);
  ADD ("header/by-close", NULL, test_header_by_close);
  ADD ("refused", NULL, test_refused);
  ADD ("encode-errors", NULL, test_encode_errors);
  ADD ("dropped", NULL, test_dropped);
  ADD ("block", NULL, test_block);
  ADD ("several", NULL, test_several);
  ADD ("most", NULL, test_most);
  ADD ("threads", NULL, test_threads);
  ADD ("gate-flips", NULL, test_gate_flips);
  ADD ("short-threads", NULL, test_short_threads);
  ADD ("order", NULL, test_order);
  ADD ("virtual-clock", NULL, test_virtual_clock);
  ADD ("source-date", NULL, test_source_date);
  ADD ("rotate", NULL, test_rotate);
  ADD ("packed/zst", "t.lct.zst", test_packed);
  ADD ("packed/gz", "t.lct.gz", test_packed);
  ADD ("no-space/plain", NULL, test_no_space);
  ADD ("no-space/zst", "t.lct.zst", test_no_space);
  ADD ("no-space/stdout", NULL, test_no_space_stdout);
  ADD ("flush-and-close", NULL, test_flush_and_close);
  /* A process of several threads may not fork under the thread sanitizer. */
  if (g_getenv ("LMT_NO_FORK") == NULL)
    {
      ADD ("fork", NULL, test_fork);
      ADD ("same-pid", NULL, test_same_pid);
      ADD ("kill/plain", NULL, test_kill);
      ADD ("kill/zst", "t.lct.zst", test_kill);
    }
  return g_test_run ();
}
