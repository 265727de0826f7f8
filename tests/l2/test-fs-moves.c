// SPDX-License-Identifier: Apache-2.0

/* How bytes move: reads and writes that end early are continued where they ended, and registered memory is used, or refused and
 * done without. The program says so itself, in the place of the kernel: the plugin's calls come here first. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "l2-rig.h"

#ifdef HAVE_URING
#  include <liburing.h>
#endif

enum
{
  BYTES = 600 * 1024,
};

/* What the calls below do and see. */
static struct
{
  gboolean cut;    /* a half is moved at most */
  gboolean refuse; /* registered memory */
  char *ballast;   /* taken away before a write is continued */
  guint n_cut;
  guint n_continued;
  guint n_fixed;
  guint n_registered;
} calls;

ssize_t
pwrite64 (int fd, const void *buffer, size_t n, off_t offset)
{
  if (calls.cut && n >= 8192)
    {
      g_atomic_int_inc (&calls.n_cut);
      n = n / 2 / 4096 * 4096;
    }
  return syscall (SYS_pwrite64, fd, buffer, n, offset);
}

ssize_t
pread64 (int fd, void *buffer, size_t n, off_t offset)
{
  if (calls.cut && n >= 8192)
    {
      g_atomic_int_inc (&calls.n_cut);
      n = n / 2 / 4096 * 4096;
    }
  return syscall (SYS_pread64, fd, buffer, n, offset);
}

#ifdef HAVE_URING
/* The library's own, which came with the plugin. */
static void *
next_call (const char *name)
{
  void *library = dlopen ("liburing.so.2", RTLD_LAZY | RTLD_NOLOAD);
  g_assert_nonnull (library);
  void *call = dlsym (library, name);
  g_assert_nonnull (call);
  dlclose (library);
  return call;
}

static void
see_request (struct io_uring_sqe *sqe)
{
  gboolean reads = sqe->opcode == IORING_OP_READ || sqe->opcode == IORING_OP_READ_FIXED;
  gboolean writes = sqe->opcode == IORING_OP_WRITE || sqe->opcode == IORING_OP_WRITE_FIXED;
  if ((!reads && !writes) || sqe->len < 8192)
    return;
  calls.n_fixed += sqe->opcode == IORING_OP_READ_FIXED || sqe->opcode == IORING_OP_WRITE_FIXED;
  calls.n_continued += sqe->off > 0;
  if (writes && sqe->off > 0 && calls.ballast != NULL)
    g_assert_cmpint (unlink (calls.ballast), ==, 0);
  if (writes && sqe->off > 0)
    g_clear_pointer (&calls.ballast, g_free);
  /* Only reads: a shorter write would not break the chain behind it, as a write that ends early does. */
  if (calls.cut && reads)
    {
      calls.n_cut++;
      sqe->len = sqe->len / 2 / 4096 * 4096;
    }
}

int
io_uring_submit_and_get_events (struct io_uring *ring)
{
  static int (*next) (struct io_uring *);
  if (next == NULL)
    *(void **)&next = next_call ("io_uring_submit_and_get_events");
  for (unsigned at = ring->sq.sqe_head; at != ring->sq.sqe_tail; at++)
    see_request (&ring->sq.sqes[at & ring->sq.ring_mask]);
  return next (ring);
}

int
io_uring_register_buffers (struct io_uring *ring, const struct iovec *pieces, unsigned n)
{
  static int (*next) (struct io_uring *, const struct iovec *, unsigned);
  if (next == NULL)
    *(void **)&next = next_call ("io_uring_register_buffers");
  calls.n_registered += n;
  return calls.refuse ? -ENOMEM : next (ring, pieces, n);
}
#endif

static guint64
status_number (Rig *rig, const char *name)
{
  g_autofree char *text = rig_status (rig, name);
  g_assert_nonnull (text);
  return g_ascii_strtoull (text, NULL, 10);
}

/* The threads' calls, and the ring's reads, each cut into halves; direct and not. */
static void
test_short (gconstpointer data)
{
  static const char *const how[] = { "false", "true" };
  const char *engine = data;
  for (guint i = 0; i < G_N_ELEMENTS (how); i++)
    {
      g_autofree char *dir = make_temp_dir ();
      Rig rig;
      rig_open (&rig, "{\"type\":\"fs\",\"base_path\":\"%s\",\"engine\":\"%s\",\"sync\":\"none\",\"use_odirect\":%s}", dir,
                engine, how[i]);
      memset (&calls, 0, sizeof calls);
      calls.cut = TRUE;
      for (guint k = 0; k < 4; k++)
        {
          /* one whole number of blocks, others not */
          guint64 bytes = BYTES + k * 1000;
          LmtKey *key = rig_key (&rig, "m", k, "");
          g_assert_cmpint (rig_store_fill (&rig, key, k, bytes), ==, LMT_L2_OK);
          g_assert_cmpint (rig_load_fill (&rig, key, k, bytes), ==, LMT_L2_OK); /* which compares every byte */
          g_autofree char *path = g_build_filename (dir, lmt_key_file (key), NULL);
          struct stat st;
          g_assert_cmpint (stat (path, &st), ==, 0);
          g_assert_cmpuint (st.st_size, ==, bytes);
        }
      calls.cut = FALSE;
      g_assert_cmpuint (calls.n_cut, >, 8);
      /* a direct move of memory at any address is the threads' */
      if (strcmp (engine, "threads") != 0 && i == 0)
        g_assert_cmpuint (status_number (&rig, "continued_moves"), >, 0);
      rig_close (&rig);
      remove_tree (dir);
    }
}

/* A chain whose write ends early, as the disk is full, and goes on there, as it no longer is. */
static void
test_short_chain (void)
{
  if (unshare (CLONE_NEWNS) != 0 || mount ("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)
    {
      g_test_skip ("no mount namespace of our own");
      return;
    }
  g_autofree char *dir = make_temp_dir ();
  if (mount ("none", dir, "tmpfs", 0, "size=1m") != 0)
    {
      g_test_skip ("tmpfs can't be mounted");
      remove_tree (dir);
      return;
    }
  Rig rig;
  rig_open (&rig, "{\"type\":\"fs\",\"base_path\":\"%s/kv\",\"engine\":\"io_uring\",\"sync\":\"none\"}", dir);
  memset (&calls, 0, sizeof calls);
  calls.ballast = g_build_filename (dir, "ballast", NULL);
  g_autofree char *zeros = g_malloc0 (BYTES);
  g_assert_true (g_file_set_contents (calls.ballast, zeros, BYTES, NULL));
  LmtKey *key = rig_key (&rig, "m", 1, "");
  g_assert_cmpint (rig_store_fill (&rig, key, 1, BYTES), ==, LMT_L2_OK);
  g_assert_null (calls.ballast);
  g_assert_cmpuint (calls.n_continued, ==, 1);
  g_assert_cmpuint (status_number (&rig, "continued_moves"), ==, 1);
  g_assert_cmpuint (status_number (&rig, "thread_ops"), ==, 0);
  g_assert_cmpint (rig_load_fill (&rig, key, 1, BYTES), ==, LMT_L2_OK);
  rig_close (&rig);
  umount2 (dir, MNT_DETACH);
  rmdir (dir);
}

/* Loads and stores of a registered pool: by its number where the kernel took it, else as from any memory. */
static void
check_registered (gboolean refuse)
{
  enum
  {
    N = 4,
    SIZE = 64 * 1024,
  };
  g_autofree char *dir = make_temp_dir ();
  g_autofree char *json = g_strdup_printf (
      "{\"type\":\"fs\",\"base_path\":\"%s\",\"engine\":\"io_uring\",\"sync\":\"none\",\"use_odirect\":true}", dir);
  g_autoptr (GError) error = NULL;
  Rig rig;
  g_assert_true (rig_try_open (&rig, json, NULL, NULL, &error));
  lmt_l2_free (g_steal_pointer (&rig.l2));
  guint8 *memory = mmap (NULL, 2 * N * SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  g_assert_true (memory != MAP_FAILED);
  memset (&calls, 0, sizeof calls);
  calls.refuse = refuse;
  LmtL2Params params = { .struct_size = sizeof params,
                         .clock = rig.clock,
                         .keys = rig.keys,
                         .memory = memory,
                         .memory_bytes = 2 * N * SIZE,
                         .data_wanted = TRUE,
                         .message = rig_on_message,
                         .message_data = &rig };
  rig.l2 = lmt_l2_open (rig.config, &params, &error);
  g_assert_no_error (error);
  gboolean direct = (lmt_l2_get_info (rig.l2)->capabilities & LMT_L2_CAP_DIRECT) != 0;
  g_assert_cmpuint (calls.n_registered, ==, direct ? 1 : 0);
  for (guint i = 0; i < N; i++)
    {
      lmt_fill (i, memory + i * SIZE, SIZE);
      g_assert_cmpint (rig_store (&rig, rig_key (&rig, "m", i, ""), memory + i * SIZE, SIZE), ==, LMT_L2_OK);
      g_assert_cmpint (rig_load (&rig, rig_key (&rig, "m", i, ""), memory + (N + i) * SIZE, SIZE), ==, LMT_L2_OK);
    }
  g_assert_cmpmem (memory, N * SIZE, memory + N * SIZE, N * SIZE);
  g_assert_cmpuint (status_number (&rig, "registered_ops"), ==, direct && !refuse ? 2 * N : 0);
  g_assert_cmpuint (status_number (&rig, "registered_bytes"), ==, direct && !refuse ? 2 * N * SIZE : 0);
  g_assert_cmpuint (calls.n_fixed, ==, direct && !refuse ? 2 * N : 0);
  g_assert_cmpuint (status_number (&rig, "thread_ops"), ==, 0);
  if (direct && refuse)
    g_assert_true (rig_said (&rig, "RLIMIT_MEMLOCK"));
  rig_close (&rig);
  munmap (memory, 2 * N * SIZE);
  remove_tree (dir);
}

static void
test_registered (void)
{
  check_registered (FALSE);
}

static void
test_refused (void)
{
  check_registered (TRUE);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_data_func ("/fs-moves/short/threads", "threads", test_short);
#ifdef HAVE_URING
  if (rig_has_uring ())
    {
      g_test_add_data_func ("/fs-moves/short/auto", "auto", test_short);
      g_test_add_data_func ("/fs-moves/short/io_uring", "io_uring", test_short);
      g_test_add_func ("/fs-moves/registered", test_registered);
      g_test_add_func ("/fs-moves/refused", test_refused);
      g_test_add_func ("/fs-moves/short-chain", test_short_chain);
    }
#endif
  int failed = g_test_run ();
  g_object_unref (rig_registry ());
  return failed;
}
