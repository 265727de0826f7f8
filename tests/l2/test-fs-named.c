// SPDX-License-Identifier: Apache-2.0

/* Where no file can be born without a name: the chain from a temporary name to the final one. This program says so itself, in the
 * place of the kernel: the plugin's probe calls our openat(). */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "l2-rig.h"

static guint n_refused;

int
openat (int dir, const char *path, int flags, ...)
{
  va_list args;
  va_start (args, flags);
  mode_t mode = (flags & (O_CREAT | __O_TMPFILE)) != 0 ? va_arg (args, mode_t) : 0;
  va_end (args);
  if ((flags & O_TMPFILE) == O_TMPFILE)
    {
      n_refused++;
      errno = EOPNOTSUPP;
      return -1;
    }
  return (int)syscall (SYS_openat, dir, path, flags, mode);
}

static void
check_modes (gconstpointer data)
{
  const char *more = data;
  gboolean by_ring_only = strstr (more, "threads") == NULL && rig_has_uring ();
  g_autofree char *dir = make_temp_dir ();
  Rig rig;
  n_refused = 0;
  rig_open (&rig, "{\"type\":\"fs\",\"base_path\":\"%s\"%s%s}", dir, more, by_ring_only ? ",\"engine\":\"io_uring\"" : "");
  g_assert_cmpuint (n_refused, >, 0);
  g_autofree char *engine = rig_status (&rig, "engine");
  LmtKey *keys[24];
  guint64 sizes[24];
  for (guint i = 0; i < G_N_ELEMENTS (keys); i++)
    {
      keys[i] = rig_key (&rig, "org/m", i, i % 2 != 0 ? "alice" : "");
      sizes[i] = i % 3 != 0 ? 65536 * (1 + i) : 1000 + i;
      g_assert_cmpint (rig_store_fill (&rig, keys[i], i, sizes[i]), ==, LMT_L2_OK);
      g_assert_cmpint (rig_store_fill (&rig, keys[i], i, sizes[i]), ==, LMT_L2_PRESENT);
    }
  g_autofree char *by_ring = rig_status (&rig, "ring_ops");
  g_assert_cmpstr (engine, ==, by_ring_only ? "io_uring" : "threads");
  if (by_ring_only)
    g_assert_cmpint (atoi (by_ring), >=, 16);
  /* Damaged behind our back: repaired. */
  g_autofree char *path = g_build_filename (dir, lmt_key_file (keys[1]), NULL);
  g_assert_cmpint (truncate (path, 4096), ==, 0);
  g_assert_cmpint (rig_load_fill (&rig, keys[1], 1, sizes[1]), ==, LMT_L2_DATA);
  g_assert_cmpint (rig_store_fill (&rig, keys[1], 1, sizes[1]), ==, LMT_L2_OK);
  g_assert_cmpuint (count_files (dir), ==, G_N_ELEMENTS (keys)); /* nothing temporary is left */
  for (guint i = 0; i < G_N_ELEMENTS (keys); i++)
    {
      g_autofree char *file = g_build_filename (dir, lmt_key_file (keys[i]), NULL);
      struct stat st;
      g_assert_cmpint (stat (file, &st), ==, 0);
      g_assert_cmpuint (st.st_size, ==, sizes[i]);
      g_assert_cmpuint (st.st_mode & 07777, ==, 0644);
      g_assert_cmpint (rig_load_fill (&rig, keys[i], i, sizes[i]), ==, LMT_L2_OK);
    }
  g_assert_cmpint (rig_delete (&rig, keys[0]), ==, LMT_L2_OK);
  g_assert_cmpint (rig_lookup (&rig, keys[0], 0), ==, LMT_L2_NOT_FOUND);
  rig_close (&rig);
  remove_tree (dir);
}

/* The chain breaks at its last step but one, since somebody took the place after we looked: a directory under the name. */
static void
test_broken (void)
{
  g_autofree char *dir = make_temp_dir ();
  Rig rig;
  rig_open (&rig, "{\"type\":\"fs\",\"base_path\":\"%s\",\"sync\":\"none\",\"engine\":\"%s\"}", dir,
            rig_has_uring () ? "io_uring" : "auto");
  LmtKey *key = rig_key (&rig, "m", 1, "");
  g_autofree char *path = g_build_filename (dir, lmt_key_file (key), NULL);
  g_assert_cmpint (chmod (dir, 0555), ==, 0);
  g_assert_cmpint (mkdir (path, 0755) == 0 || errno == EACCES, ==, TRUE);
  LmtL2Code code = rig_store_fill (&rig, key, 1, 65536);
  g_assert_true (code == LMT_L2_IO || code == LMT_L2_DENIED);
  g_assert_cmpint (chmod (dir, 0755), ==, 0);
  rmdir (path);
  g_assert_cmpint (rig_store_fill (&rig, key, 1, 65536), ==, LMT_L2_OK);
  rig_close (&rig);
  g_assert_cmpuint (count_files (dir), ==, 1);
  remove_tree (dir);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  umask (022);
  g_test_add_data_func ("/fs-named/plain", "", check_modes);
  g_test_add_data_func ("/fs-named/none", ",\"sync\":\"none\",\"depth\":1", check_modes);
  g_test_add_data_func ("/fs-named/full", ",\"sync\":\"full\",\"preallocate\":true,\"relative_tmp_dir\":\"\"", check_modes);
  g_test_add_data_func ("/fs-named/threads", ",\"engine\":\"threads\"", check_modes);
  g_test_add_func ("/fs-named/broken", test_broken);
  return g_test_run ();
}
