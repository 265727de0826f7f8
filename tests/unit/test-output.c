/* SPDX-License-Identifier: Apache-2.0 */
#include <lmtrace/lmtrace.h>

#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char *
read_file (const char *path)
{
  char *text = NULL;
  g_autoptr (GError) error = NULL;
  g_file_get_contents (path, &text, NULL, &error);
  g_assert_no_error (error);
  return text;
}

static guint
count_entries (const char *folder)
{
  g_autoptr (GDir) dir = g_dir_open (folder, 0, NULL);
  guint n = 0;
  while (g_dir_read_name (dir) != NULL)
    n++;
  return n;
}

static char *
new_folder (void)
{
  g_autoptr (GError) error = NULL;
  char *const folder = g_dir_make_tmp ("lmt-output-XXXXXX", &error);
  g_assert_no_error (error);
  return folder;
}

static void
test_write_file (void)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *folder = new_folder ();
  g_autofree char *path = g_build_filename (folder, "report.json", NULL);
  g_autofree char *link_path = g_build_filename (folder, "link", NULL);
  struct stat st;

  const mode_t old = umask (027);
  g_assert_true (lmt_output_write_file (path, "first", -1, &error));
  umask (old);
  g_assert_cmpint (stat (path, &st), ==, 0);
  g_assert_cmpint (st.st_mode & 0777, ==, 0640);
  g_assert_cmpint (symlink ("report.json", link_path), ==, 0);
  g_assert_true (lmt_output_write_file (link_path, "second", -1, &error));
  g_assert_cmpint (lstat (link_path, &st), ==, 0);
  g_assert_true (S_ISLNK (st.st_mode));
  g_autofree char *text = read_file (path);
  g_assert_cmpstr (text, ==, "second");
  g_assert_cmpuint (count_entries (folder), ==, 2); /* no temporary name stays */

  g_assert_true (lmt_output_write_file ("/dev/null", "gone", -1, &error));
  g_assert_cmpint (stat ("/dev/null", &st), ==, 0);
  g_assert_true (S_ISCHR (st.st_mode));
  g_unlink (link_path);
  g_unlink (path);
  g_rmdir (folder);
}

static void
expect_refused (const char *path, const char *reason)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *message = g_strdup_printf ("%s: cannot write: %s", path, reason);
  g_assert_false (lmt_output_write_file (path, "x", -1, &error));
  g_assert_error (error, LMT_ERROR, LMT_ERROR_IO);
  g_assert_cmpstr (error->message, ==, message);
}

static void
test_refusals (void)
{
  g_autofree char *folder = new_folder ();
  g_autofree char *below_nothing = g_build_filename (folder, "absent", "x", NULL);
  g_autofree char *file = g_build_filename (folder, "file", NULL);
  g_autofree char *below_file = g_build_filename (file, "x", NULL);
  g_assert_true (g_file_set_contents (file, "", -1, NULL));
  expect_refused (folder, "Is a directory");
  expect_refused (below_nothing, "No such file or directory");
  expect_refused (below_file, "Not a directory");
  expect_refused ("/dev/full", "No space left on device");
  g_assert_cmpuint (count_entries (folder), ==, 1);
  g_unlink (file);
  g_rmdir (folder);
}

static LmtReport *
report_new (void)
{
  LmtReport *const report = lmt_report_new ("Title", LMT_REPORT_WIDTH);
  LmtSection *const section = lmt_report_add_section (report, "overall", "Overall", TRUE);
  lmt_section_add_int (section, "n", "Records", 3);
  return report;
}

/* --output writes what stdout would have had; -q leaves stdout alone. */
static void
test_report_to_path (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (LmtReport) report = report_new ();
  g_autoptr (LmtWarnings) warnings = lmt_warnings_new ();
  g_autofree char *folder = new_folder ();
  g_autofree char *path = g_build_filename (folder, "out", NULL);
  lmt_log_set_level (LMT_LOG_ERROR);
  lmt_warnings_add (warnings, "malformed", "record 3: \"bad\"");
  lmt_warnings_add (warnings, "malformed", "record 4");
  lmt_log_set_level (LMT_LOG_MESSAGE);

  g_autoptr (LmtOutput) json = lmt_output_new ("replay", LMT_FORMAT_JSON, path, TRUE, warnings);
  g_assert_true (lmt_output_check (json, &error));
  g_assert_cmpuint (count_entries (folder), ==, 0);
  g_assert_true (lmt_output_report (json, report, NULL, TRUE, 130, &error));
  g_autofree char *envelope = read_file (path);
  g_assert_cmpstr (envelope, ==,
                   "{\n  \"schema\": \"lmtrace/replay/1\",\n  \"title\": \"Title\",\n  \"metrics\": {\n    \"overall\": {\n"
                   "      \"n\": 3\n    }\n  },\n  \"warnings\": [\n    {\n      \"code\": \"malformed\",\n"
                   "      \"message\": \"record 3: \\\"bad\\\"\",\n      \"count\": 2\n    }\n  ],\n  \"partial\": true,\n"
                   "  \"exit\": 130\n}\n");

  g_autoptr (LmtOutput) csv = lmt_output_new ("replay", LMT_FORMAT_CSV, path, TRUE, warnings);
  g_assert_true (lmt_output_report (csv, report, "a,b\r\n", FALSE, 0, &error));
  g_autofree char *csv_text = read_file (path);
  g_assert_cmpstr (csv_text, ==, "a,b\r\n");
  g_assert_true (lmt_output_report (csv, report, NULL, FALSE, 0, &error));
  g_autofree char *general = read_file (path);
  g_assert_cmpstr (general, ==, "section,row,key,value\r\noverall,,n,3\r\n");
  g_assert_false (lmt_output_raw (csv, "T", "text", "{}", NULL, FALSE, 0, &error));
  g_assert_error (error, LMT_ERROR, LMT_ERROR_UNSUPPORTED);
  g_clear_error (&error);

  g_autoptr (LmtOutput) text = lmt_output_new ("info", LMT_FORMAT_TEXT, path, TRUE, NULL);
  g_assert_true (lmt_output_raw (text, "T", "Trace file: x\n", "{}", NULL, FALSE, 0, &error));
  g_autofree char *raw = read_file (path);
  g_assert_cmpstr (raw, ==, "Trace file: x\n");
  g_unlink (path);
  g_rmdir (folder);
}

static void
test_stdout (void)
{
  if (g_test_subprocess ())
    {
      g_autoptr (LmtReport) report = report_new ();
      g_autoptr (LmtOutput) output = lmt_output_new ("x", LMT_FORMAT_TEXT, "-", TRUE, NULL);
      g_assert_true (lmt_output_report (output, report, NULL, FALSE, 0, NULL));
      lmt_output_set_stdout_taken (output);
      g_assert_true (lmt_output_report (output, report, NULL, FALSE, 0, NULL));
      return;
    }
  g_test_trap_subprocess (NULL, 0, G_TEST_SUBPROCESS_DEFAULT);
  g_test_trap_assert_passed ();
  g_test_trap_assert_stdout ("*Records:*3\n===*");
  g_test_trap_assert_stderr ("*Records:*3\n===*");
}

static void
test_failure (void)
{
  if (g_test_subprocess ())
    {
      g_autoptr (GError) error = g_error_new (LMT_ERROR, LMT_ERROR_CORRUPT, "a: b.lct: record 17 at offset 10815: not-a-map");
      lmt_error_set_place (error, "a: b.lct", 10815);
      lmt_error_set_place (error, "whoever is farther away", 1);
      g_autoptr (LmtOutput) output = lmt_output_new ("info", LMT_FORMAT_JSON, NULL, FALSE, NULL);
      lmt_output_failure (output, error, 2);
      g_autoptr (LmtOutput) text = lmt_output_new ("info", LMT_FORMAT_TEXT, NULL, FALSE, NULL);
      lmt_output_failure (text, error, 2);
      return;
    }
  g_test_trap_subprocess (NULL, 0, G_TEST_SUBPROCESS_DEFAULT);
  g_test_trap_assert_passed ();
  g_test_trap_assert_stdout ("*\"schema\": \"lmtrace/info/1\",\n  \"error\": {\n    \"code\": \"corrupt\",\n"
                             "    \"message\": \"a: b.lct: record 17 at offset 10815: not-a-map\",\n    \"file\": \"a: b.lct\",\n"
                             "    \"offset\": 10815\n  },\n  \"warnings\": ?],\n  \"partial\": false,\n  \"exit\": 2\n}\n*");
  g_test_trap_assert_stdout_unmatched ("*metrics*");
}

/* `| head`: the first EPIPE ends all output, quietly. A full disk doesn't. */
static void
test_closed_stdout (void)
{
  int ends[2];
  g_autoptr (GError) error = NULL;
  const int saved = dup (STDOUT_FILENO);
  g_assert_cmpint (saved, >=, 0);
  signal (SIGPIPE, SIG_IGN);

  const int full = open ("/dev/full", O_WRONLY);
  g_assert_cmpint (full, >=, 0);
  fflush (stdout);
  dup2 (full, STDOUT_FILENO);
  const gboolean written = lmt_output_stdout ("x", -1, &error);
  const gboolean closed_by_full = lmt_output_stdout_closed ();
  g_assert_cmpint (pipe (ends), ==, 0);
  dup2 (ends[1], STDOUT_FILENO);
  close (ends[0]);
  const gboolean quiet = lmt_output_stdout ("x", -1, NULL) && lmt_output_stdout ("y", -1, NULL);
  const gboolean closed = lmt_output_stdout_closed ();
  dup2 (saved, STDOUT_FILENO);
  close (saved);
  close (ends[1]);
  close (full);

  g_assert_false (written);
  g_assert_error (error, LMT_ERROR, LMT_ERROR_IO);
  g_assert_cmpstr (error->message, ==, "stdout: cannot write: No space left on device");
  g_assert_false (closed_by_full);
  g_assert_true (quiet);
  g_assert_true (closed);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/output/write-file", test_write_file);
  g_test_add_func ("/output/refusals", test_refusals);
  g_test_add_func ("/output/report-to-path", test_report_to_path);
  g_test_add_func ("/output/stdout", test_stdout);
  g_test_add_func ("/output/failure", test_failure);
  g_test_add_func ("/output/closed-stdout", test_closed_stdout); /* last: closed stays closed */
  return g_test_run ();
}
