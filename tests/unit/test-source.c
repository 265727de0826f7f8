/* SPDX-License-Identifier: Apache-2.0 */
#include <lmtrace/lmt-source.h>

#include <fcntl.h>
#include <glib/gstdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

static char *folder;

static char *
file_of (const char *name, gsize n)
{
  char *path = g_build_filename (folder, name, NULL);
  g_autofree char *text = g_strnfill (n, 'x');
  g_assert_true (g_file_set_contents (path, text, (gssize)n, NULL));
  return path;
}

static void
expect_refused (const char *path, gsize max, const char *reason)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *message = g_strdup_printf ("%s: %s", path, reason);
  gsize len = 7;

  g_assert_null (lmt_source_read_whole (path, max, &len, &error));
  g_assert_error (error, LMT_ERROR, LMT_ERROR_IO);
  g_assert_cmpstr (error->message, ==, message);
  g_assert_cmpstr (lmt_error_get_file (error), ==, path);
  g_assert_cmpuint (len, ==, 7);
  g_assert_null (lmt_source_read_whole (path, max, NULL, NULL));
}

static void
test_sizes (void)
{
  static const gsize sizes[] = { 0, 1, 16383, 16384, 16385, 100000 };

  for (guint i = 0; i < G_N_ELEMENTS (sizes); i++)
    {
      g_autoptr (GError) error = NULL;
      g_autofree char *path = file_of ("file", sizes[i]);
      gsize len = 0;
      g_autofree char *text = lmt_source_read_whole (path, MAX (sizes[i], 1), &len, &error);
      g_assert_no_error (error);
      g_assert_cmpuint (len, ==, sizes[i]);
      g_assert_cmpuint (strlen (text), ==, sizes[i]);
      if (sizes[i] < 2)
        continue;
      g_autofree char *reason = g_strdup_printf ("expected at most %zu bytes, found more", sizes[i] - 1);
      expect_refused (path, sizes[i] - 1, reason);
    }
  g_autofree char *nul = g_build_filename (folder, "file", NULL);
  gsize len = 0;
  g_assert_true (g_file_set_contents (nul, "a\0b", 3, NULL));
  g_autofree char *text = lmt_source_read_whole (nul, 3, &len, NULL);
  g_assert_cmpmem (text, len + 1, "a\0b", 4);
}

static void
test_kinds (void)
{
  g_autofree char *none = g_build_filename (folder, "none", NULL);
  g_autofree char *path = g_build_filename (folder, "socket", NULL);
  struct sockaddr_un address = { .sun_family = AF_UNIX };
  gsize len = 7;

  g_autofree char *empty = lmt_source_read_whole ("/dev/null", 1, &len, NULL);
  g_assert_cmpstr (empty, ==, "");
  g_assert_cmpuint (len, ==, 0);
  expect_refused ("/dev/zero", 1000, "expected at most 1000 bytes, found more");
  expect_refused ("/dev/zero", 2 << 20, "expected at most 2 MiB, found more");
  expect_refused (folder, 1000, "expected a file or a pipe, found a directory");
  expect_refused (none, 1000, "cannot open: No such file or directory");
  const int fd = socket (AF_UNIX, SOCK_STREAM, 0);
  g_strlcpy (address.sun_path, path, sizeof address.sun_path);
  g_assert_cmpint (bind (fd, (struct sockaddr *)&address, sizeof address), ==, 0);
  expect_refused (path, 1000, "cannot open: No such device or address");
  close (fd);
}

/* In pieces, the first of them late. */
static gpointer
write_slowly (gpointer data)
{
  const int fd = open (data, O_WRONLY | O_CLOEXEC);
  g_assert_cmpint (fd, >=, 0);
  for (guint i = 0; i < 3; i++)
    {
      g_usleep (20000);
      g_assert_cmpint (write (fd, "abc", 3), ==, 3);
    }
  close (fd);
  return NULL;
}

static void
test_pipes (void)
{
  g_autofree char *fifo = g_build_filename (folder, "fifo", NULL);
  g_autoptr (GError) error = NULL;
  int ends[2];
  gsize len = 0;

  g_assert_cmpint (mkfifo (fifo, 0600), ==, 0);
  expect_refused (fifo, 1000, "expected a pipe somebody writes to, found none who did");
  GThread *writer = g_thread_new ("writer", write_slowly, fifo);
  g_autofree char *slow = lmt_source_read_whole (fifo, 9, &len, &error);
  g_thread_join (writer);
  g_assert_no_error (error);
  g_assert_cmpstr (slow, ==, "abcabcabc");
  g_assert_cmpuint (len, ==, 9);

  /* What a shell makes of <(command). */
  g_assert_cmpint (pipe (ends), ==, 0);
  g_autofree char *name = g_strdup_printf ("/dev/fd/%d", ends[0]);
  g_assert_cmpint (write (ends[1], "key=1\n", 6), ==, 6);
  close (ends[1]);
  g_autofree char *text = lmt_source_read_whole (name, 6, NULL, &error);
  g_assert_no_error (error);
  g_assert_cmpstr (text, ==, "key=1\n");
  close (ends[0]);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  folder = g_dir_make_tmp ("lmt-source-XXXXXX", NULL);
  g_assert_nonnull (folder);
  g_test_add_func ("/source/sizes", test_sizes);
  g_test_add_func ("/source/kinds", test_kinds);
  g_test_add_func ("/source/pipes", test_pipes);
  const int code = g_test_run ();
  static const char *const names[] = { "file", "socket", "fifo" };
  for (guint i = 0; i < G_N_ELEMENTS (names); i++)
    {
      g_autofree char *path = g_build_filename (folder, names[i], NULL);
      g_unlink (path);
    }
  g_rmdir (folder);
  g_free (folder);
  return code;
}
