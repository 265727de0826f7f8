/* SPDX-License-Identifier: Apache-2.0 */
/* Gate, header, rings, drain: what a recorder does with the calls of a level of this test's own. */
#include "recorder-rig.h"

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
  ADD ("flush-and-close", NULL, test_flush_and_close);
  return g_test_run ();
}
