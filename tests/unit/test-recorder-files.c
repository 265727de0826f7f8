/* SPDX-License-Identifier: Apache-2.0 */
/* What a recorder writes where: times, rotation, compression, full disks, processes that fork or are killed. */
#include "recorder-rig.h"

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
  gboolean is_plain = g_str_has_suffix (folder->path, ".lct");
  guint64 n = is_plain ? 1000 : 20000; /* packed, they are small */
  guint files;

  lmt_recorder_attach (recorder, "{\"a\": 1}", NULL, NULL);
  for (guint64 i = 100; i < 100 + n; i++)
    put_of (&level, i, 100);
  g_assert_true (lmt_recorder_close (recorder, NULL));
  files = stats_of (recorder).files;
  g_assert_cmpuint (files, >, is_plain ? 20 : 10);
  lmt_recorder_free (recorder);
  for (guint i = 0; i < files; i++)
    {
      g_autofree char *path = i == 0 ? g_strdup (folder->path) : g_strdup_printf ("%s.%u", folder->path, i);
      g_auto (Content) content = read_file (path);
      GStatBuf st;

      g_assert_cmpint (g_stat (path, &st), ==, 0);
      if (i + 1 < files)
        g_assert_cmpint (st.st_size, >=, 8000);
      g_assert_cmpint (st.st_size, <, is_plain ? 8000 + 300 : 16000);
      g_assert_cmpstr (content.config, ==, "{\"a\": 1}");
      g_assert_cmpuint (content.numbers->len, >, 0);
      for (guint k = 0; k < content.numbers->len; k++)
        {
          g_assert_cmpuint (g_array_index (content.numbers, guint64, k), ==, next++);
          g_assert_cmpfloat (g_array_index (content.times, double, k), >=, last); /* times go on */
          last = g_array_index (content.times, double, k);
        }
    }
  g_assert_cmpuint (next, ==, 100 + n);
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

/* ---------------- processes ---------------- */

static pid_t pretended;

/* Instead of the C library's: a pid that comes again can't be had otherwise. */
pid_t
getpid (void)
{
  return pretended != 0 ? pretended : (pid_t)syscall (SYS_getpid);
}

/* A sanitizer's allocator has locks that a fork() copies as they are: let the recorder's thread be past its start, where it
 * allocates. */
static void
let_it_start (LmtRecorder *recorder)
{
  g_assert_true (lmt_recorder_flush (recorder, NULL));
}

static void
test_same_pid (Folder *folder, gconstpointer data)
{
  LmtRecorder *recorder = record (folder->path);
  pid_t parent = getpid ();
  int status;
  pid_t pid;

  let_it_start (recorder);
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

  let_it_start (recorder);
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

#define ADD(path, data, func) g_test_add ("/recorder-files/" path, Folder, data, set_up, func, tear_down)

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_unsetenv ("SOURCE_DATE_EPOCH");
  ADD ("virtual-clock", NULL, test_virtual_clock);
  ADD ("source-date", NULL, test_source_date);
  ADD ("rotate/plain", NULL, test_rotate);
  ADD ("rotate/zst", "t.lct.zst", test_rotate);
  ADD ("packed/zst", "t.lct.zst", test_packed);
  ADD ("packed/gz", "t.lct.gz", test_packed);
  ADD ("no-space/plain", NULL, test_no_space);
  ADD ("no-space/zst", "t.lct.zst", test_no_space);
  ADD ("no-space/stdout", NULL, test_no_space_stdout);
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
