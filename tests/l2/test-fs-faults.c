/* SPDX-License-Identifier: Apache-2.0 */

/* What goes wrong with directories: full, read-only, gone, shared, damaged, killed in the middle. */
#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "l2-rig.h"

static char *
path_of (const char *dir, LmtKey *key)
{
  return g_build_filename (dir, lmt_key_file (key), NULL);
}

/* A small file system of our own, seen by this process alone; NULL: not allowed here, the test is skipped. */
static char *
mount_small (const char *options)
{
  if (unshare (CLONE_NEWNS) != 0 || mount ("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)
    {
      g_test_skip ("no mount namespace of our own");
      return NULL;
    }
  char *dir = make_temp_dir ();
  if (mount ("none", dir, "tmpfs", 0, options) == 0)
    return dir;
  g_test_skip ("tmpfs can't be mounted");
  remove_tree (dir);
  g_free (dir);
  return NULL;
}

static void
unmount_small (char *dir)
{
  umount2 (dir, MNT_DETACH);
  rmdir (dir);
  g_free (dir);
}

static const char *const engines[] = { "auto", "threads", "sync", "io_uring" };

static void
test_disk_full (gconstpointer data)
{
  char *dir = mount_small ("size=1m");
  if (dir == NULL)
    return;
  Rig rig;
  rig_open (&rig, "{\"type\":\"fs\",\"base_path\":\"%s/kv\",\"engine\":\"%s\"}", dir, (const char *)data);
  LmtKey *a = rig_key (&rig, "m", 1, ""), *b = rig_key (&rig, "m", 2, ""), *c = rig_key (&rig, "m", 3, "");
  g_assert_cmpint (rig_store_fill (&rig, a, 1, 600000), ==, LMT_L2_OK);
  g_assert_cmpint (rig_store_fill (&rig, b, 2, 600000), ==, LMT_L2_NO_SPACE);
  g_assert_true (rig_said (&rig, "No space left on device"));
  g_assert_cmpint (rig_lookup (&rig, b, 0), ==, LMT_L2_NOT_FOUND);
  g_assert_cmpint (rig_store_fill (&rig, c, 3, 100000), ==, LMT_L2_OK); /* what the failure took is given back */
  g_assert_cmpint (rig_load_fill (&rig, a, 1, 600000), ==, LMT_L2_OK);
  g_assert_cmpuint (lmt_l2_get_used (rig.l2), ==, 700000);
  g_autofree char *errors = rig_status (&rig, "errors_ENOSPC");
  g_assert_cmpstr (errors, ==, "1");
  rig_close (&rig);
  g_autofree char *kv = g_build_filename (dir, "kv", NULL);
  g_assert_cmpuint (count_files (kv), ==, 2);
  unmount_small (dir);
}

/* The same without privileges: a limit on file sizes, whose signal must not end us. */
static void
test_file_limit (gconstpointer data)
{
  g_autofree char *dir = make_temp_dir ();
  struct rlimit before, small;
  g_assert_cmpint (getrlimit (RLIMIT_FSIZE, &before), ==, 0);
  small = before;
  small.rlim_cur = 65536;
  g_assert_cmpint (setrlimit (RLIMIT_FSIZE, &small), ==, 0);
  Rig rig;
  rig_open (&rig, "{\"type\":\"fs\",\"base_path\":\"%s\",\"engine\":\"%s\",\"sync\":\"none\"}", dir, (const char *)data);
  LmtKey *a = rig_key (&rig, "m", 1, ""), *b = rig_key (&rig, "m", 2, "");
  g_assert_cmpint (rig_store_fill (&rig, a, 1, 200000), ==, LMT_L2_NO_SPACE);
  g_assert_cmpint (rig_store_fill (&rig, b, 2, 65536), ==, LMT_L2_OK);
  rig_close (&rig);
  g_assert_cmpint (setrlimit (RLIMIT_FSIZE, &before), ==, 0);
  g_assert_cmpuint (count_files (dir), ==, 1);
  remove_tree (dir);
}

static void
test_becomes_read_only (void)
{
  char *dir = mount_small ("size=1m");
  if (dir == NULL)
    return;
  Rig rig;
  rig_open (&rig, "{\"type\":\"fs\",\"base_path\":\"%s\"}", dir);
  LmtKey *a = rig_key (&rig, "m", 1, ""), *b = rig_key (&rig, "m", 2, "");
  g_assert_cmpint (rig_store_fill (&rig, a, 1, 4096), ==, LMT_L2_OK);
  /* While stores come the ring keeps some files open for the next ones; some idle turns, and it lets go of them. */
  for (guint i = 0; i < 1000 && mount ("none", dir, "tmpfs", MS_REMOUNT | MS_RDONLY, NULL) != 0; i++)
    {
      g_assert_cmpint (errno, ==, EBUSY);
      lmt_l2_pump (rig.l2);
      g_usleep (1000);
    }
  g_assert_cmpint (rig_store_fill (&rig, b, 2, 4096), ==, LMT_L2_DENIED);
  g_assert_cmpint (rig_load_fill (&rig, a, 1, 4096), ==, LMT_L2_OK);
  g_assert_cmpint (rig_delete (&rig, a), ==, LMT_L2_DENIED);
  g_assert_true (rig_said (&rig, "Read-only file system"));
  g_autofree char *errors = rig_status (&rig, "errors_EROFS");
  g_assert_cmpstr (errors, ==, "2");
  rig_close (&rig);
  unmount_small (dir);
}

static void
test_read_only (void)
{
  g_autofree char *dir = make_temp_dir ();
  g_autoptr (GError) error = NULL;
  Rig rig;
  rig_open (&rig, "{\"type\":\"fs\",\"base_path\":\"%s\"}", dir);
  g_assert_cmpint (rig_store_fill (&rig, rig_key (&rig, "m", 1, ""), 1, 4096), ==, LMT_L2_OK);
  rig_close (&rig);
  rig_open (&rig, "{\"type\":\"fs\",\"base_path\":\"%s\",\"read_only\":true,\"use_odirect\":true,\"relative_tmp_dir\":\"tmp\"}",
            dir);
  LmtKey *a = rig_key (&rig, "m", 1, ""), *b = rig_key (&rig, "m", 2, "");
  g_assert_cmpint (rig_load_fill (&rig, a, 1, 4096), ==, LMT_L2_OK);
  g_assert_cmpint (rig_store_fill (&rig, b, 2, 4096), ==, LMT_L2_DENIED);
  g_assert_cmpint (rig_delete (&rig, a), ==, LMT_L2_DENIED);
  rig_close (&rig);
  g_assert_cmpuint (count_files (dir), ==, 1);
  g_autofree char *json = g_strdup_printf ("{\"type\":\"fs\",\"base_path\":\"%s/nothing\",\"read_only\":true}", dir);
  g_assert_false (rig_try_open (&rig, json, NULL, NULL, &error));
  g_assert_nonnull (strstr (error->message, "No such file"));
  g_assert_cmpuint (count_files (dir), ==, 1);
  remove_tree (dir);
}

/* Without a directory every operation fails, names it, and after three the adapter waits a second before it looks again. */
static void
test_vanishes (void)
{
  g_autofree char *top = make_temp_dir ();
  g_autofree char *dir = g_build_filename (top, "kv", NULL);
  g_autofree char *json
      = g_strdup_printf ("{\"type\":\"fs\",\"base_path\":\"%s\",\"engine\":\"sync\",\"relative_tmp_dir\":\"t\"}", dir);
  g_autoptr (GError) error = NULL;
  LmtClock *clock = lmt_clock_virtual_new (0);
  Rig rig;
  rig_try_open (&rig, json, NULL, clock, &error);
  g_assert_no_error (error);
  LmtKey *a = rig_key (&rig, "m", 1, ""), *b = rig_key (&rig, "m", 2, "");
  g_assert_cmpint (rig_store_fill (&rig, a, 1, 100), ==, LMT_L2_OK);
  remove_tree (dir);
  g_assert_cmpint (rig_load_fill (&rig, a, 1, 100), ==, LMT_L2_IO);
  g_autofree char *gone = g_strdup_printf ("fs: %s: the directory is gone\n", dir);
  g_assert_true (rig_said (&rig, gone));
  g_assert_cmpint (rig_store_fill (&rig, b, 2, 100), ==, LMT_L2_IO);
  g_autofree char *healthy = rig_status (&rig, "is_healthy");
  g_assert_cmpstr (healthy, ==, "yes");
  g_assert_cmpint (rig_lookup (&rig, b, 0), ==, LMT_L2_IO);
  g_autofree char *unhealthy = rig_status (&rig, "is_healthy");
  g_assert_cmpstr (unhealthy, ==, "no");
  g_assert_true (rig_said (&rig, "unhealthy: 3 operations in a row"));
  g_assert_cmpint (g_mkdir (dir, 0755), ==, 0);
  g_assert_cmpint (rig_lookup (&rig, b, 0), ==, LMT_L2_IO); /* the second isn't over */
  /* Another run was quicker: it is that one's directory as long as it lasts. */
  int other = open (dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  g_assert_cmpint (flock (other, LOCK_EX | LOCK_NB), ==, 0);
  clock->sleep_until_ns (clock->data, 1500000000, NULL, 0);
  g_assert_cmpint (rig_store_fill (&rig, b, 2, 100), ==, LMT_L2_IO);
  g_assert_true (rig_said (&rig, "is back, and another lmtrace uses it"));
  close (other);
  clock->sleep_until_ns (clock->data, 3000000000, NULL, 0);
  g_assert_cmpint (rig_lookup (&rig, b, 0), ==, LMT_L2_NOT_FOUND);
  g_assert_true (rig_said (&rig, "the directory is back\n"));
  g_assert_cmpint (rig_store_fill (&rig, b, 2, 100), ==, LMT_L2_OK);
  g_assert_cmpint (rig_load_fill (&rig, a, 1, 100), ==, LMT_L2_NOT_FOUND);
  g_assert_cmpint (rig_load_fill (&rig, b, 2, 100), ==, LMT_L2_OK);
  /* The folder for temporary files alone: the lock in the way is our own. */
  g_autofree char *temp = g_build_filename (dir, "t", NULL);
  remove_tree (temp);
  LmtKey *c = rig_key (&rig, "m", 3, "");
  for (guint i = 0; i < 3; i++)
    g_assert_cmpint (rig_store_fill (&rig, c, 3, 100), ==, LMT_L2_IO);
  clock->sleep_until_ns (clock->data, G_GINT64_CONSTANT (4500000000), NULL, 0);
  g_assert_cmpint (rig_store_fill (&rig, c, 3, 100), ==, LMT_L2_OK);
  rig_close (&rig);
  lmt_clock_virtual_free (clock);
  remove_tree (top);
}

/* A device that can't read part of what it holds: a loop device whose image was cut. I/O errors, counted; all other objects load.
 */
static void
test_unreadable (gconstpointer data)
{
  enum
  {
    OBJECTS = 24,
    BYTES = 1 << 20
  };
  char *top = mount_small ("size=80m");
  g_autofree char *mkfs = g_find_program_in_path ("mkfs.ext4");
  if (top == NULL)
    return;
  g_autofree char *image = g_build_filename (top, "image", NULL), *dir = g_build_filename (top, "mnt", NULL);
  g_autofree char *command
      = g_strdup_printf ("mkdir '%s' && truncate -s 64M '%s' && mkfs.ext4 -q -F -O ^has_journal '%s' >/dev/null 2>&1 && "
                         "mount -o loop '%s' '%s' 2>/dev/null",
                         dir, image, image, image, dir);
  if (mkfs == NULL || system (command) != 0)
    {
      g_test_skip ("no loop device with ext4");
      unmount_small (top);
      return;
    }
  Rig rig;
  rig_open (&rig, "{\"type\":\"fs\",\"base_path\":\"%s/kv\",\"engine\":\"%s\",\"drop_cache\":true}", dir, (const char *)data);
  for (guint i = 0; i < OBJECTS; i++)
    g_assert_cmpint (rig_store_fill (&rig, rig_key (&rig, "m", i, ""), i, BYTES), ==, LMT_L2_OK);
  g_assert_cmpint (truncate (image, 20 << 20), ==, 0);
  guint found[LMT_L2_N_CODES] = { 0 };
  for (guint i = 0; i < OBJECTS; i++)
    found[rig_load_fill (&rig, rig_key (&rig, "m", i, ""), i, BYTES)]++; /* which compares every byte */
  g_assert_cmpuint (found[LMT_L2_IO], >, 0);
  g_assert_cmpuint (found[LMT_L2_OK] + found[LMT_L2_IO], ==, OBJECTS);
  g_assert_true (rig_said (&rig, "Input/output error"));
  g_autofree char *errors = rig_status (&rig, "errors_EIO");
  g_assert_cmpint (atoi (errors), ==, (int)found[LMT_L2_IO]);
  g_assert_cmpuint (lmt_l2_get_figures (rig.l2)->codes[LMT_L2_LOAD][LMT_L2_IO], ==, found[LMT_L2_IO]);
  g_assert_cmpuint (lmt_l2_get_figures (rig.l2)->failures, ==, found[LMT_L2_IO]);
  rig_close (&rig);
  umount2 (dir, MNT_DETACH);
  unmount_small (top);
}

/* What is no file under an object's name: a miss, never followed, never removed. */
static void
test_no_file (void)
{
  g_autofree char *dir = make_temp_dir ();
  Rig rig;
  rig_open (&rig, "{\"type\":\"fs\",\"base_path\":\"%s\"}", dir);
  g_autofree char *elsewhere = g_build_filename (dir, "elsewhere", NULL);
  g_assert_true (g_file_set_contents (elsewhere, "secret..", 8, NULL));
  for (guint i = 0; i < 3; i++)
    {
      LmtKey *key = rig_key (&rig, "m", i, "");
      g_autofree char *path = path_of (dir, key);
      g_assert_cmpint (rig_store_fill (&rig, key, i, 8), ==, LMT_L2_OK);
      g_assert_cmpint (unlink (path), ==, 0);
      g_assert_cmpint (i == 0 ? g_mkdir (path, 0755) : i == 1 ? symlink (elsewhere, path) : mkfifo (path, 0600), ==, 0);
      g_assert_cmpint (rig_load_fill (&rig, key, i, 8), ==, LMT_L2_NOT_FOUND);
      g_assert_cmpint (rig_lookup (&rig, key, 8), ==, LMT_L2_NOT_FOUND);
      g_assert_cmpint (rig_store_fill (&rig, key, i, 8), ==, LMT_L2_IO);
      g_assert_cmpint (rig_delete (&rig, key), ==, LMT_L2_NOT_FOUND);
      struct stat st;
      g_assert_cmpint (lstat (path, &st), ==, 0);
    }
  g_assert_true (rig_said (&rig, ": is a directory\n"));
  g_assert_true (rig_said (&rig, ": is a symbolic link\n"));
  g_assert_true (rig_said (&rig, ": is a pipe\n"));
  g_assert_cmpuint (lmt_l2_get_used (rig.l2), ==, 0);
  rig_close (&rig);
  remove_tree (dir);
}

/* Cut, grown and emptied behind the adapter's back: a miss, then replaced. */
static void
test_repair (void)
{
  static const guint64 sizes[] = { 100, 5000, 0 };
  g_autofree char *dir = make_temp_dir ();
  Rig rig;
  rig_open (&rig, "{\"type\":\"fs\",\"base_path\":\"%s\"}", dir);
  LmtKey *key = rig_key (&rig, "m", 1, "");
  g_autofree char *path = path_of (dir, key);
  g_assert_cmpint (rig_store_fill (&rig, key, 1, 4096), ==, LMT_L2_OK);
  for (guint i = 0; i < G_N_ELEMENTS (sizes); i++)
    {
      g_assert_cmpint (truncate (path, (off_t)sizes[i]), ==, 0);
      g_assert_cmpint (rig_load_fill (&rig, key, 1, 4096), ==, LMT_L2_DATA);
      g_assert_cmpint (rig_lookup (&rig, key, 4096), ==, LMT_L2_DATA);
      g_assert_cmpint (rig_store_fill (&rig, key, 1, 4096), ==, LMT_L2_OK);
      g_assert_cmpint (rig_load_fill (&rig, key, 1, 4096), ==, LMT_L2_OK);
      g_assert_cmpuint (lmt_l2_get_used (rig.l2), ==, 4096);
    }
  rig_close (&rig);
  g_assert_cmpuint (count_files (dir), ==, 1);
  remove_tree (dir);
}

static void
test_integrity (void)
{
  g_autofree char *dir = make_temp_dir ();
  g_autofree char *json = g_strdup_printf ("{\"type\":\"fs\",\"base_path\":\"%s\",\"integrity\":\"crc32c\"}", dir);
  g_autoptr (GError) error = NULL;
  Rig rig;
  if (!rig_try_open (&rig, json, NULL, NULL, &error))
    {
      g_assert_nonnull (strstr (error->message, "fs: integrity: expected a file system with extended attributes"));
      g_test_skip ("no extended attributes here");
      remove_tree (dir);
      return;
    }
  LmtKey *key = rig_key (&rig, "m", 1, "");
  g_autofree char *path = path_of (dir, key);
  char text[16] = "";
  g_assert_cmpint (rig_store (&rig, key, "123456789", 9), ==, LMT_L2_OK);
  g_assert_cmpint (getxattr (path, "user.lmt.crc32c", text, sizeof text), ==, 8);
  g_assert_cmpstr (text, ==, "e3069283"); /* the check value of CRC-32C */
  char buffer[9];
  g_assert_cmpint (rig_load (&rig, key, buffer, 9), ==, LMT_L2_OK);
  int fd = open (path, O_WRONLY);
  g_assert_cmpint (pwrite (fd, "X", 1, 4), ==, 1);
  close (fd);
  g_assert_cmpint (rig_load (&rig, key, buffer, 9), ==, LMT_L2_DATA);
  g_assert_true (rig_said (&rig, "crc32c: expected e3069283, found "));
  g_assert_cmpint (removexattr (path, "user.lmt.crc32c"), ==, 0);
  g_assert_cmpint (rig_load (&rig, key, buffer, 9), ==, LMT_L2_OK); /* absent = not checked */
  rig_close (&rig);
  remove_tree (dir);
}

/* Every length and address, direct and buffered; files are exact. Where O_DIRECT is to be had depends on the folder. */
static void
check_direct (const char *dir, const char *engine)
{
  static const guint64 sizes[] = { 0, 1, 511, 512, 4095, 4096, 4097, 5000, 65536, 1048576, 1048577, 3 * 1048576 + 4097 };
  Rig rig;
  rig_open (&rig, "{\"type\":\"fs\",\"base_path\":\"%s\",\"use_odirect\":true,\"sync\":\"none\",\"engine\":\"%s\"}", dir, engine);
  g_autofree char *direct = rig_status (&rig, "direct");
  g_test_message ("direct: %s", direct);
  g_autofree guint8 *memory = g_malloc (3 * 1048576 + 65536 + 8192);
  guint8 *aligned = (guint8 *)(((guintptr)memory + 4095) / 4096 * 4096);
  guint number = 0;
  for (guint i = 0; i < G_N_ELEMENTS (sizes); i++)
    for (guint shift = 0; shift < 3; shift++)
      {
        guint8 *at = aligned + (shift == 0 ? 0 : shift == 1 ? 8 : 512);
        LmtKey *key = rig_key (&rig, "m", ++number, "");
        g_autofree char *path = path_of (dir, key);
        struct stat st;
        lmt_fill (number, at, sizes[i]);
        g_assert_cmpint (rig_store (&rig, key, at, sizes[i]), ==, LMT_L2_OK);
        g_assert_cmpint (stat (path, &st), ==, 0);
        g_assert_cmpuint (st.st_size, ==, sizes[i]);
        memset (at, 0xee, sizes[i] + 16);
        g_assert_cmpint (rig_load (&rig, key, at, sizes[i]), ==, LMT_L2_OK);
        g_assert_cmpint (lmt_fill_check (number, at, sizes[i]), ==, -1);
        for (guint k = 0; k < 16; k++)
          g_assert_cmpuint (at[sizes[i] + k], ==, 0xee);
      }
  rig_close (&rig);
}

static void
test_direct (gconstpointer data)
{
  g_autofree char *dir = make_temp_dir ();
  check_direct (dir, data);
  remove_tree (dir);
  char *small = mount_small ("size=64m");
  if (small == NULL)
    return;
  check_direct (small, data);
  unmount_small (small);
}

/* A loop device with XFS of 4 KiB sectors, where a write of 4097 bytes can't be direct. */
static void
test_direct_xfs (void)
{
  g_autofree char *mkfs = g_find_program_in_path ("mkfs.xfs");
  g_autofree char *top = make_temp_dir ();
  g_autofree char *image = g_build_filename (top, "image", NULL), *dir = g_build_filename (top, "mnt", NULL);
  if (mkfs == NULL || unshare (CLONE_NEWNS) != 0 || mount ("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)
    {
      g_test_skip ("needs mkfs.xfs and a mount namespace");
      remove_tree (top);
      return;
    }
  g_assert_cmpint (g_mkdir (dir, 0755), ==, 0);
  g_autofree char *command = g_strdup_printf (
      "truncate -s 400M '%s' && mkfs.xfs -q -s size=4096 '%s' >/dev/null 2>&1 && mount -o loop '%s' '%s' 2>/dev/null", image,
      image, image, dir);
  if (system (command) != 0)
    g_test_skip ("no loop device with XFS");
  else
    {
      check_direct (dir, "threads");
      umount2 (dir, MNT_DETACH);
    }
  remove_tree (top);
}

static void
test_mode (void)
{
  g_autofree char *dir = make_temp_dir ();
  mode_t before = umask (0777);
  Rig rig;
  rig_open (&rig, "{\"type\":\"fs\",\"base_path\":\"%s\",\"file_mode\":\"0646\"}", dir);
  LmtKey *key = rig_key (&rig, "m", 1, "");
  g_autofree char *path = path_of (dir, key);
  struct stat st;
  g_assert_cmpint (rig_store_fill (&rig, key, 1, 10), ==, LMT_L2_OK);
  umask (before);
  g_assert_cmpint (stat (path, &st), ==, 0);
  g_assert_cmpuint (st.st_mode & 07777, ==, 0646);
  rig_close (&rig);
  remove_tree (dir);
}

/* Own debris goes when its owner is gone; what isn't ours stays. */
static void
test_debris (void)
{
  g_autofree char *dir = make_temp_dir ();
  pid_t gone = fork ();
  if (gone == 0)
    _exit (0);
  waitpid (gone, NULL, 0);
  g_autofree char *own = g_strdup_printf ("%s/.lmt-%d-00000000-0.tmp", dir, (int)gone);
  g_autofree char *alive = g_strdup_printf ("%s/.lmt-%d-00000000-0.tmp", dir, (int)getppid ());
  g_autofree char *foreign = g_strdup_printf ("%s/x.tmp", dir);
  g_assert_true (g_file_set_contents (own, "x", 1, NULL));
  g_assert_true (g_file_set_contents (alive, "x", 1, NULL));
  g_assert_true (g_file_set_contents (foreign, "x", 1, NULL));
  Rig rig;
  rig_open (&rig, "{\"type\":\"fs\",\"base_path\":\"%s\",\"clean_tmp\":true,\"shared\":true}", dir);
  rig_close (&rig);
  g_assert_cmpuint (count_files (dir), ==, 3);
  rig_open (&rig, "{\"type\":\"fs\",\"base_path\":\"%s\",\"clean_tmp\":true}", dir);
  g_assert_true (rig_said (&rig, "1 unfinished of an earlier run removed"));
  rig_close (&rig);
  g_assert_false (g_file_test (own, G_FILE_TEST_EXISTS));
  g_assert_cmpuint (count_files (dir), ==, 2);
  remove_tree (dir);
}

static void
test_persist_and_safety (void)
{
  g_autofree char *dir = make_temp_dir ();
  g_autoptr (GError) error = NULL;
  Rig rig;
  g_autofree char *forget = g_strdup_printf ("{\"type\":\"fs\",\"base_path\":\"%s\",\"persist_enabled\":false}", dir);
  g_autofree char *evict = g_strdup_printf (
      "{\"type\":\"fs\",\"base_path\":\"%s\",\"max_capacity_gb\":1,\"eviction\":{\"eviction_policy\":\"LRU\"}}", dir);
  /* An empty folder needs no word. */
  g_assert_true (rig_try_open (&rig, forget, NULL, NULL, &error));
  g_assert_cmpint (rig_store_fill (&rig, rig_key (&rig, "m", 1, ""), 1, 10), ==, LMT_L2_OK);
  g_assert_cmpint (rig_store_fill (&rig, rig_key (&rig, "m", 2, ""), 2, 10), ==, LMT_L2_OK);
  lmt_l2_close (rig.l2, -1);
  g_autofree char *said = g_strdup_printf ("fs: %s: persist_enabled is false: 2 objects deleted\n", dir);
  g_assert_true (rig_said (&rig, said));
  rig_close (&rig);
  g_assert_cmpuint (count_files (dir), ==, 0);
  g_assert_true (rig_try_open (&rig, evict, NULL, NULL, &error));
  g_assert_cmpint (rig_store_fill (&rig, rig_key (&rig, "m", 1, ""), 1, 10), ==, LMT_L2_OK);
  rig_close (&rig);
  /* A filled one does, the very folder. */
  g_assert_false (rig_try_open (&rig, evict, "/elsewhere", NULL, &error));
  g_autofree char *why = g_strdup_printf (
      "fs: %s: holds objects of before this run, and eviction may delete them: say --yes-destroy %s if they may go", dir, dir);
  g_assert_cmpstr (error->message, ==, why);
  g_clear_error (&error);
  g_assert_false (rig_try_open (&rig, forget, NULL, NULL, &error));
  g_clear_error (&error);
  g_assert_true (rig_try_open (&rig, forget, dir, NULL, &error));
  g_assert_cmpint (rig_store_fill (&rig, rig_key (&rig, "m", 3, ""), 3, 10), ==, LMT_L2_OK);
  rig_close (&rig);
  g_assert_cmpuint (count_files (dir), ==, 1);                    /* own objects only */
  rig_open (&rig, "{\"type\":\"fs\",\"base_path\":\"%s\"}", dir); /* stores into a filled folder need no word */
  rig_close (&rig);
  remove_tree (dir);
}

typedef struct
{
  const char *keys; /* behind base_path */
  const char *message;
} Refusal;

static void
test_open_refused (void)
{
  static const Refusal refusals[] = {
    { "/file\"", "fs: base_path: expected a directory, found a file: " },
    { "/kv\",\"scan\":false,\"eviction\":{\"eviction_policy\":\"LRU\"}", "fs: scan: expected true with eviction, found false" },
    { "/link\",\"relative_tmp_dir\":\"out\"", "fs: relative_tmp_dir: out: " },
  };
  g_autofree char *dir = make_temp_dir ();
  g_autofree char *file = g_build_filename (dir, "file", NULL), *link = g_build_filename (dir, "link", NULL);
  g_autofree char *out = g_build_filename (link, "out", NULL);
  g_assert_true (g_file_set_contents (file, "x", 1, NULL));
  g_assert_cmpint (g_mkdir (link, 0755), ==, 0);
  g_assert_cmpint (symlink ("/tmp", out), ==, 0);
  for (guint i = 0; i < G_N_ELEMENTS (refusals); i++)
    {
      g_autoptr (GError) error = NULL;
      g_autofree char *json = g_strdup_printf ("{\"type\":\"fs\",\"base_path\":\"%s%s}", dir, refusals[i].keys);
      Rig rig;
      g_assert_false (rig_try_open (&rig, json, NULL, NULL, &error));
      g_test_message ("%s", error->message);
      g_assert_nonnull (strstr (error->message, refusals[i].message));
    }
  remove_tree (dir);
}

static void
test_tmp_dir_elsewhere (void)
{
  char *small = mount_small ("size=1m");
  if (small == NULL)
    return;
  g_autofree char *dir = make_temp_dir ();
  g_autofree char *tmp = g_build_filename (dir, "tmp", NULL);
  g_autofree char *json = g_strdup_printf ("{\"type\":\"fs\",\"base_path\":\"%s\",\"relative_tmp_dir\":\"tmp\"}", dir);
  g_autoptr (GError) error = NULL;
  Rig rig;
  g_assert_cmpint (g_mkdir (tmp, 0755), ==, 0);
  g_assert_cmpint (mount ("none", tmp, "tmpfs", 0, NULL), ==, 0);
  g_assert_false (rig_try_open (&rig, json, NULL, NULL, &error));
  g_assert_nonnull (strstr (error->message, "fs: relative_tmp_dir: expected the file system of base_path, found another one"));
  umount2 (tmp, MNT_DETACH);
  remove_tree (dir);
  unmount_small (small);
}

static void
test_lock (void)
{
  g_autofree char *dir = make_temp_dir ();
  g_autoptr (GError) error = NULL;
  g_autofree char *json = g_strdup_printf ("{\"type\":\"fs\",\"base_path\":\"%s\"}", dir);
  g_autofree char *shared = g_strdup_printf ("{\"type\":\"fs\",\"base_path\":\"%s\",\"shared\":true}", dir);
  Rig one, two;
  g_assert_true (rig_try_open (&one, json, NULL, NULL, &error));
  g_assert_false (rig_try_open (&two, json, NULL, NULL, &error));
  g_assert_nonnull (strstr (error->message, "another lmtrace uses this directory"));
  g_clear_error (&error);
  g_assert_false (rig_try_open (&two, shared, NULL, NULL, &error));
  g_clear_error (&error);
  rig_close (&one);
  g_assert_true (rig_try_open (&one, shared, NULL, NULL, &error));
  g_assert_true (rig_try_open (&two, shared, NULL, NULL, &error));
  LmtKey *a = rig_key (&one, "m", 1, ""), *b = rig_key (&two, "m", 1, "");
  g_assert_cmpint (rig_store_fill (&one, a, 1, 10), ==, LMT_L2_OK);
  g_assert_cmpint (rig_store_fill (&two, b, 1, 10), ==, LMT_L2_PRESENT);
  g_assert_cmpuint (lmt_l2_get_used (two.l2), ==, 10); /* learnt */
  g_assert_cmpint (rig_delete (&one, a), ==, LMT_L2_OK);
  g_assert_cmpint (rig_load_fill (&two, b, 1, 10), ==, LMT_L2_NOT_FOUND);
  g_assert_cmpuint (lmt_l2_get_used (two.l2), ==, 0);
  rig_close (&one);
  rig_close (&two);
  remove_tree (dir);
}

/* Run in a child; never returns. */
static void
store_in_child (const char *dir, guint from, guint n, guint64 bytes, guint64 second_bytes)
{
  Rig rig;
  rig_open (&rig, "{\"type\":\"fs\",\"base_path\":\"%s\",\"shared\":true,\"sync\":\"none\"}", dir);
  int failed = 0;
  for (guint i = from; i < from + n; i++)
    {
      LmtKey *key = rig_key (&rig, "m", i, "");
      LmtL2Code code = rig_store_fill (&rig, key, i, bytes);
      failed |= code != LMT_L2_OK && code != LMT_L2_PRESENT;
      if (second_bytes != 0)
        {
          code = rig_load_fill (&rig, key, i, bytes);
          failed |= code != LMT_L2_OK && code != LMT_L2_DATA;
          code = rig_store_fill (&rig, key, i, second_bytes);
          failed |= code != LMT_L2_OK && code != LMT_L2_PRESENT;
        }
    }
  rig_close (&rig);
  _exit (failed);
}

static void
test_killed (void)
{
  g_autofree char *dir = make_temp_dir ();
  pid_t child = fork ();
  if (child == 0)
    store_in_child (dir, 0, 100000, 300000, 0);
  while (count_files (dir) < 20)
    g_usleep (1000);
  kill (child, SIGKILL);
  waitpid (child, NULL, 0);
  Rig rig;
  rig_open (&rig, "{\"type\":\"fs\",\"base_path\":\"%s\"}", dir);
  guint n = count_files (dir);
  g_assert_cmpuint (n, >=, 20);
  g_assert_cmpuint (lmt_l2_get_used (rig.l2), ==, n * 300000); /* whole objects and nothing else */
  for (guint i = 0; i < n; i++)
    g_assert_cmpint (rig_load_fill (&rig, rig_key (&rig, "m", i, ""), i, 300000), ==, LMT_L2_OK);
  g_assert_cmpint (lmt_l2_get_ops (rig.l2)->tamper (lmt_l2_get_handle (rig.l2), NULL, "debris", 0), ==, 0);
  rig_close (&rig);
  remove_tree (dir);
}

/* Several processes, one directory, the same keys, also with two sizes: nobody fails, nothing is torn. */
static void
test_processes (gconstpointer data)
{
  guint64 second = GPOINTER_TO_SIZE (data);
  g_autofree char *dir = make_temp_dir ();
  pid_t children[4];
  for (guint i = 0; i < G_N_ELEMENTS (children); i++)
    {
      children[i] = fork ();
      if (children[i] == 0)
        store_in_child (dir, 0, 60, 100000, second);
    }
  for (guint i = 0; i < G_N_ELEMENTS (children); i++)
    {
      int status;
      g_assert_cmpint (waitpid (children[i], &status, 0), ==, children[i]);
      g_assert_cmpint (status, ==, 0);
    }
  g_assert_cmpuint (count_files (dir), ==, 60);
  Rig rig;
  rig_open (&rig, "{\"type\":\"fs\",\"base_path\":\"%s\"}", dir);
  for (guint i = 0; i < 60; i++)
    {
      LmtKey *key = rig_key (&rig, "m", i, "");
      LmtL2Code first = rig_load_fill (&rig, key, i, 100000);
      g_assert_true (first == LMT_L2_OK || (second != 0 && rig_load_fill (&rig, key, i, second) == LMT_L2_OK));
    }
  rig_close (&rig);
  remove_tree (dir);
}

/* Out of descriptors: said, tried again, and well again when there are some. */
static void
test_no_descriptors (void)
{
  g_autofree char *dir = make_temp_dir ();
  struct rlimit before, none;
  Rig rig;
  rig_open (&rig, "{\"type\":\"fs\",\"base_path\":\"%s\"}", dir);
  LmtKey *key = rig_key (&rig, "m", 1, "");
  g_assert_cmpint (getrlimit (RLIMIT_NOFILE, &before), ==, 0);
  none = before;
  none.rlim_cur = 3;
  g_assert_cmpint (setrlimit (RLIMIT_NOFILE, &none), ==, 0);
  LmtL2Code code = rig_store_fill (&rig, key, 1, 10);
  g_assert_cmpint (setrlimit (RLIMIT_NOFILE, &before), ==, 0);
  g_assert_cmpint (code, ==, LMT_L2_BUSY);
  g_assert_true (rig_said (&rig, "fewer operations at a time"));
  /* Once, though each try meets it again. */
  const char *said = strstr (rig.messages->str, "fewer operations at a time");
  g_assert_null (strstr (said + 1, "fewer operations at a time"));
  g_assert_cmpint (rig_store_fill (&rig, key, 1, 10), ==, LMT_L2_OK);
  rig_close (&rig);
  remove_tree (dir);
}

/* Bounds of loads in flight hold, and an object above them is loaded alone. */
static void
test_load_bounds (void)
{
  g_autofree char *dir = make_temp_dir ();
  Rig rig;
  enum
  {
    N = 40
  };
  rig_open (&rig, "{\"type\":\"fs_native\",\"base_path\":\"%s\",\"read_max_bytes_in_flight\":10000,\"num_read_workers\":3}", dir);
  LmtKey *keys[N];
  guint64 sizes[N];
  void *buffers[N];
  guint8 codes[N];
  for (guint i = 0; i < N; i++)
    {
      keys[i] = rig_key (&rig, "m", i, "");
      sizes[i] = i == 7 ? 20000 : 4000;
      buffers[i] = g_malloc (sizes[i]);
      g_assert_cmpint (rig_store_fill (&rig, keys[i], i, sizes[i]), ==, LMT_L2_OK);
    }
  LmtL2Task task = { .kind = LMT_L2_LOAD, .n = N, .keys = keys, .buffers = buffers, .sizes = sizes, .codes = codes };
  g_assert_true (lmt_l2_submit (rig.l2, &task, NULL));
  lmt_l2_flush (rig.l2);
  while (!lmt_l2_take (rig.l2, &task))
    g_usleep (100);
  g_assert_cmpuint (task.n_ok, ==, N);
  for (guint i = 0; i < N; i++)
    {
      g_assert_cmpint (lmt_fill_check (i, buffers[i], sizes[i]), ==, -1);
      g_free (buffers[i]);
    }
  g_assert_true (rig_said (&rig, "fs: read_max_bytes_in_flight: raised to 20000, the size of an object\n"));
  rig_close (&rig);
  remove_tree (dir);
}

/* A cancelled store leaves nothing behind; what runs is finished. */
static void
test_close_at_once (void)
{
  g_autofree char *dir = make_temp_dir ();
  Rig rig;
  enum
  {
    N = 64,
    SIZE = 1000000
  };
  rig_open (&rig, "{\"type\":\"fs\",\"base_path\":\"%s\",\"num_workers\":2,\"close_timeout_s\":0}", dir);
  LmtKey *keys[N];
  guint64 sizes[N];
  void *buffers[N];
  guint8 codes[N];
  g_autofree guint8 *data = g_malloc (SIZE);
  lmt_fill (1, data, SIZE);
  for (guint i = 0; i < N; i++)
    {
      keys[i] = rig_key (&rig, "m", i, "");
      sizes[i] = SIZE;
      buffers[i] = data;
    }
  LmtL2Task task = { .kind = LMT_L2_STORE, .n = N, .keys = keys, .buffers = buffers, .sizes = sizes, .codes = codes };
  g_assert_true (lmt_l2_submit (rig.l2, &task, NULL));
  lmt_l2_flush (rig.l2);
  guint lost = lmt_l2_close (rig.l2, -1);
  memset (data, 0x5a, SIZE); /* nobody reads it any more */
  g_assert_true (lmt_l2_reap (rig.l2) == &task);
  guint n_ok = 0;
  for (guint i = 0; i < N; i++)
    {
      g_assert_true (codes[i] == LMT_L2_OK || codes[i] == LMT_L2_CLOSED);
      n_ok += codes[i] == LMT_L2_OK;
    }
  g_assert_cmpuint (lost, >, 0);
  lmt_l2_free (rig.l2);
  rig.l2 = NULL;
  rig_close (&rig);
  guint n_files = count_files (dir);
  g_assert_cmpuint (n_files, >=, n_ok);
  rig_open (&rig, "{\"type\":\"fs\",\"base_path\":\"%s\"}", dir);
  g_assert_cmpuint (lmt_l2_get_used (rig.l2), ==, (guint64)n_files * SIZE);
  for (guint i = 0; i < N; i++)
    {
      LmtL2Code code = rig_load_fill (&rig, rig_key (&rig, "m", i, ""), 1, SIZE);
      g_assert_true (code == LMT_L2_OK || code == LMT_L2_NOT_FOUND);
    }
  rig_close (&rig);
  remove_tree (dir);
}

/* A run without data: files of the right sizes, buffers never touched. */
static void
test_sizes_only (void)
{
  g_autofree char *dir = make_temp_dir ();
  g_autofree char *json
      = g_strdup_printf ("{\"type\":\"fs\",\"base_path\":\"%s\",\"use_odirect\":true,\"engine\":\"sync\"}", dir);
  g_autoptr (GError) error = NULL;
  Rig rig;
  g_assert_true (rig_try_open (&rig, json, NULL, NULL, &error));
  lmt_l2_free (g_steal_pointer (&rig.l2));
  LmtL2Params params = { .struct_size = sizeof params, .clock = rig.clock, .keys = rig.keys, .data_wanted = FALSE };
  rig.l2 = lmt_l2_open (rig.config, &params, &error);
  g_assert_no_error (error);
  LmtKey *key = rig_key (&rig, "m", 1, "");
  g_autofree char *path = path_of (dir, key);
  guint64 bytes = 3000001;
  guint8 code;
  LmtL2Task task = { .kind = LMT_L2_STORE, .n = 1, .keys = &key, .sizes = &bytes, .codes = &code };
  for (guint i = 0; i < 2; i++)
    {
      task.kind = i == 0 ? LMT_L2_STORE : LMT_L2_LOAD;
      g_assert_true (lmt_l2_submit (rig.l2, &task, NULL));
      g_assert_true (lmt_l2_take (rig.l2, &task));
      g_assert_cmpuint (code, ==, LMT_L2_OK);
    }
  struct stat st;
  g_assert_cmpint (stat (path, &st), ==, 0);
  g_assert_cmpuint (st.st_size, ==, bytes);
  rig_close (&rig);
  remove_tree (dir);
}

static void
add_both (const char *path, GTestDataFunc func)
{
  for (guint i = 0; i < G_N_ELEMENTS (engines); i++)
    {
      if (strcmp (engines[i], "io_uring") == 0 && !rig_has_uring ())
        continue;
      g_autofree char *full = g_strdup_printf ("/fs-faults/%s/%s", path, engines[i]);
      g_test_add_data_func (full, engines[i], func);
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  add_both ("disk-full", test_disk_full);
  add_both ("file-limit", test_file_limit);
  add_both ("direct", test_direct);
  add_both ("unreadable", test_unreadable);
  g_test_add_func ("/fs-faults/direct-xfs", test_direct_xfs);
  g_test_add_func ("/fs-faults/becomes-read-only", test_becomes_read_only);
  g_test_add_func ("/fs-faults/read-only", test_read_only);
  g_test_add_func ("/fs-faults/vanishes", test_vanishes);
  g_test_add_func ("/fs-faults/no-file", test_no_file);
  g_test_add_func ("/fs-faults/repair", test_repair);
  g_test_add_func ("/fs-faults/integrity", test_integrity);
  g_test_add_func ("/fs-faults/mode", test_mode);
  g_test_add_func ("/fs-faults/debris", test_debris);
  g_test_add_func ("/fs-faults/persist-and-safety", test_persist_and_safety);
  g_test_add_func ("/fs-faults/open-refused", test_open_refused);
  g_test_add_func ("/fs-faults/tmp-dir-elsewhere", test_tmp_dir_elsewhere);
  g_test_add_func ("/fs-faults/lock", test_lock);
  g_test_add_func ("/fs-faults/killed", test_killed);
  g_test_add_data_func ("/fs-faults/processes/one-size", GSIZE_TO_POINTER (0), test_processes);
  g_test_add_data_func ("/fs-faults/processes/two-sizes", GSIZE_TO_POINTER (70000), test_processes);
  g_test_add_func ("/fs-faults/no-descriptors", test_no_descriptors);
  g_test_add_func ("/fs-faults/load-bounds", test_load_bounds);
  g_test_add_func ("/fs-faults/close-at-once", test_close_at_once);
  g_test_add_func ("/fs-faults/sizes-only", test_sizes_only);
  int failed = g_test_run ();
  g_object_unref (rig_registry ());
  return failed;
}
