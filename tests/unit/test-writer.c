/* SPDX-License-Identifier: Apache-2.0 */
#include <lmtrace/lmt-reader.h>

#include <glib/gstdio.h>
#include <unistd.h>

typedef struct
{
  char *dir;
} Folder;

static void
set_up (Folder *folder, gconstpointer data)
{
  folder->dir = g_dir_make_tmp ("lmt-writer-XXXXXX", NULL);
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
  g_free (folder->dir);
}

static const LmtHeaderFields demo = { .level = "demo", .trace_schema_version = 1, .sm_config_json = "", .sm_config_digest = "" };

static LmtSpan
text (const char *s)
{
  return (LmtSpan){ (const guint8 *)s, strlen (s) };
}

/* Header, @n records, a frame copied as it is. */
static void
write_demo (LmtWriter *writer, guint n)
{
  static const guint8 frame[] = { 0, 0, 0, 1, 0xc0 };
  g_autoptr (GError) error = NULL;

  g_assert_true (lmt_writer_header (writer, &demo, &error));
  for (guint i = 0; i < n; i++)
    g_assert_true (lmt_writer_record (writer, i, 1.0, text ("call"), text ("\x80"), &error));
  g_assert_true (lmt_writer_frame (writer, (LmtSpan){ frame, sizeof frame }, &error));
  g_assert_no_error (error);
}

static guint64
count_records (const char *path, guint64 *bytes)
{
  g_autoptr (LmtReader) reader = lmt_reader_open (path, NULL);
  LmtRecord record;
  guint64 n = 0;

  g_assert_true (lmt_reader_read_header (reader, NULL));
  while (lmt_reader_next (reader, &record) == LMT_READ_RECORD)
    n++;
  g_assert_true (lmt_reader_finish (reader, NULL));
  g_assert_cmpuint (lmt_reader_get_stats (reader)->malformed, ==, 1);
  *bytes = lmt_reader_get_stats (reader)->bytes;
  return n;
}

static void
test_forms (Folder *folder, gconstpointer data)
{
  static const char *const names[] = { "a.lct", "a.lct.gz", "a.lct.zst" };
  static const guint8 magics[][4] = { { 0, 0, 0, 0 }, { 0x1f, 0x8b, 8, 0 }, { 0x28, 0xb5, 0x2f, 0xfd } };
  guint64 plain = 0;

  for (guint i = 0; i < G_N_ELEMENTS (names); i++)
    {
      g_autofree char *path = g_build_filename (folder->dir, names[i], NULL);
      g_autofree char *raw = NULL;
      g_autoptr (GError) error = NULL;
      LmtWriter *writer = lmt_writer_new (path, &error);
      guint64 bytes;

      g_assert_no_error (error);
      write_demo (writer, 100000); /* larger than the buffer, and than a zstd frame */
      g_assert_true (lmt_writer_close (writer, &error));
      g_assert_no_error (error);
      g_assert_cmpuint (count_records (path, &bytes), ==, 100000);
      if (i == 0)
        plain = bytes;
      g_assert_cmpuint (bytes, ==, plain);
      g_assert_true (g_file_get_contents (path, &raw, NULL, NULL));
      if (i > 0)
        g_assert_cmpmem (raw, i == 1 ? 3 : 4, magics[i], i == 1 ? 3 : 4);
    }
}

/* A program that is killed leaves a file that reads up to the last flush. */
static void
test_flush (Folder *folder, gconstpointer data)
{
  static const char *const names[] = { "a.lct", "a.lct.zst" };

  for (guint i = 0; i < G_N_ELEMENTS (names); i++)
    {
      g_autofree char *path = g_build_filename (folder->dir, names[i], NULL);
      LmtWriter *writer = lmt_writer_new (path, NULL);
      guint64 bytes;

      write_demo (writer, 10);
      g_assert_true (lmt_writer_flush (writer, NULL));
      g_assert_cmpuint (count_records (path, &bytes), ==, 10);
      g_assert_true (lmt_writer_close (writer, NULL));
    }
}

static void
test_large_frame (Folder *folder, gconstpointer data)
{
  g_autofree char *path = g_build_filename (folder->dir, "a.lct", NULL);
  g_autofree guint8 *frame = g_malloc0 (1000004);
  g_autofree char *raw = NULL;
  LmtWriter *writer = lmt_writer_new (path, NULL);
  gsize len;

  frame[1] = 0x0f;
  frame[2] = 0x42;
  frame[3] = 0x40;
  g_assert_true (lmt_writer_frame (writer, (LmtSpan){ (const guint8 *)"\0\0\0\x01\xc0", 5 }, NULL));
  g_assert_true (lmt_writer_frame (writer, (LmtSpan){ frame, 1000004 }, NULL));
  g_assert_true (lmt_writer_frame (writer, (LmtSpan){ (const guint8 *)"\0\0\0\x01\xc2", 5 }, NULL));
  g_assert_true (lmt_writer_close (writer, NULL));
  g_assert_true (g_file_get_contents (path, &raw, &len, NULL));
  g_assert_cmpuint (len, ==, 1000014);
  g_assert_cmpmem (raw + 5, 1000004, frame, 1000004);
  g_assert_cmpuint ((guint8)raw[len - 1], ==, 0xc2);
}

/* A full disk: the first error sticks, and close says it. */
static void
test_sticky_error (Folder *folder, gconstpointer data)
{
  g_autoptr (GError) first = NULL;
  g_autoptr (GError) last = NULL;
  LmtWriter *writer;
  gboolean ok = TRUE;

  if (!g_file_test ("/dev/full", G_FILE_TEST_EXISTS))
    {
      g_test_skip ("no /dev/full");
      return;
    }
  writer = lmt_writer_new ("/dev/full", NULL);
  g_assert_true (lmt_writer_header (writer, &demo, NULL));
  for (guint i = 0; i < 100000 && ok; i++)
    ok = lmt_writer_record (writer, i, 1.0, text ("call"), text ("\x80"), &first);
  g_assert_false (ok);
  g_assert_error (first, LMT_ERROR, LMT_ERROR_IO);
  g_assert_cmpstr (first->message, ==, "/dev/full: cannot write: No space left on device");
  g_assert_false (lmt_writer_record (writer, 0, 1.0, text ("call"), text ("\x80"), NULL));
  g_assert_false (lmt_writer_close (writer, &last));
  g_assert_cmpstr (last->message, ==, first->message);
}

static void
test_open_error (Folder *folder, gconstpointer data)
{
  g_autoptr (GError) error = NULL;

  g_assert_null (lmt_writer_new ("/nonexistent/a.lct", &error));
  g_assert_error (error, LMT_ERROR, LMT_ERROR_IO);
  g_assert_cmpstr (error->message, ==, "/nonexistent/a.lct: cannot open for writing: No such file or directory");
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add ("/writer/forms", Folder, NULL, set_up, test_forms, tear_down);
  g_test_add ("/writer/flush", Folder, NULL, set_up, test_flush, tear_down);
  g_test_add ("/writer/large-frame", Folder, NULL, set_up, test_large_frame, tear_down);
  g_test_add ("/writer/sticky-error", Folder, NULL, set_up, test_sticky_error, tear_down);
  g_test_add ("/writer/open-error", Folder, NULL, set_up, test_open_error, tear_down);
  return g_test_run ();
}
