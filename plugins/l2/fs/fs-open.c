/* SPDX-License-Identifier: Apache-2.0 */
#include "fs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

gboolean fs_dio_align (int fd, guint64 *memory, guint64 *offset);

enum
{
  UNHEALTHY_AFTER = 3,
};

void
fs_say (Fs *fs, const char *kind, const char *format, ...)
{
  va_list args;
  va_start (args, format);
  g_autofree char *text = g_strdup_vprintf (format, args);
  va_end (args);
  fs->host->message (fs->host->data, kind, text);
}

/* `.lmt-<pid>-<random>-<n>.tmp`: no other writer has it, and whoever finds it can tell whether its owner lives. */
int
fs_temp_name (Fs *fs, char *name, gsize size)
{
  return g_snprintf (name, size, ".lmt-%d-%08x-%llu.tmp", (int)getpid (), fs->temp_random,
                     atomic_fetch_add (&fs->temp_number, 1));
}

/* -------- a directory that goes away -------- */

static int
open_dir (const char *path)
{
  return open (path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* The lock lies on the directory itself: nothing may lie in it but objects. By a description of its own: what requests of a ring
 * use is let go some time after the ring is closed or its process is killed, and a lock would stay as long.
 */
static gboolean
take_lock (Fs *fs, int dir)
{
  int how = fs->shared || fs->read_only ? LOCK_SH : LOCK_EX;
  if (fs->lock >= 0)
    close (fs->lock); /* first: it may be the same directory, where only the one for temporary files went */
  fs->lock = openat (dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  return fs->lock >= 0 && flock (fs->lock, how | LOCK_NB) == 0;
}

/* Under dir_mutex. The descriptor keeps its number, so nobody sees it change. */
static gboolean
look_again (Fs *fs)
{
  int dir = open_dir (fs->path);
  if (dir < 0)
    return FALSE;
  /* Somebody else's by now? Then nothing of ours may go there. */
  if (!take_lock (fs, dir) && errno == EWOULDBLOCK)
    {
      fs_say (fs, "directory", "fs: %s: the directory is back, and another lmtrace uses it", fs->path);
      close (dir);
      return FALSE;
    }
  gboolean good = dup3 (dir, fs->dir, O_CLOEXEC) >= 0;
  close (dir);
  if (good && fs->tmp_dir != fs->dir)
    {
      dir = openat (fs->dir, fs->tmp_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
      if (dir < 0 && mkdirat (fs->dir, fs->tmp_name, 0777) == 0)
        dir = openat (fs->dir, fs->tmp_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
      good = dir >= 0 && dup3 (dir, fs->tmp_dir, O_CLOEXEC) >= 0;
      if (dir >= 0)
        close (dir);
    }
  atomic_store (&fs->need_chmod, TRUE); /* another directory may have other rules */
  return good;
}

gboolean
fs_dir_vanished (Fs *fs)
{
  struct stat st, tmp;
  if (fstat (fs->dir, &st) == 0 && st.st_nlink > 0 && fstat (fs->tmp_dir, &tmp) == 0 && tmp.st_nlink > 0)
    return FALSE;
  pthread_mutex_lock (&fs->dir_mutex);
  guint before = atomic_fetch_add (&fs->vanished, 1);
  if (before == 0)
    fs_say (fs, "directory", "fs: %s: the directory is gone", fs->path);
  if (before + 1 >= UNHEALTHY_AFTER && !fs->unhealthy)
    {
      fs->unhealthy = TRUE;
      fs->retry_at = fs->host->now_ns (fs->host->data) + G_GINT64_CONSTANT (1000000000);
      fs_say (fs, "unhealthy", "fs: %s: unhealthy: %d operations in a row found no directory; tried again each second", fs->path,
              UNHEALTHY_AFTER);
    }
  pthread_mutex_unlock (&fs->dir_mutex);
  return TRUE;
}

gboolean
fs_dir_usable (Fs *fs)
{
  if (!atomic_load (&fs->unhealthy))
    return TRUE;
  gboolean good = FALSE;
  gint64 now = fs->host->now_ns (fs->host->data);
  pthread_mutex_lock (&fs->dir_mutex);
  if (!fs->unhealthy)
    good = TRUE;
  else if (now >= fs->retry_at)
    {
      good = look_again (fs);
      fs->retry_at = now + G_GINT64_CONSTANT (1000000000);
      if (good)
        {
          fs->unhealthy = FALSE;
          fs->vanished = 0;
          fs_say (fs, "info: healthy", "fs: %s: the directory is back", fs->path);
        }
    }
  pthread_mutex_unlock (&fs->dir_mutex);
  return good;
}

void
fs_dir_ok (Fs *fs)
{
  if (atomic_load (&fs->vanished) != 0)
    atomic_store (&fs->vanished, 0);
}

/* -------- open -------- */

static gboolean
refuse (GError **error, const char *key, const char *expected, const char *found)
{
  g_set_error (error, LMT_ERROR, LMT_ERROR_OPTION, "fs: %s: expected %s, found %s", key, expected, found);
  return FALSE;
}

static gboolean
open_base (Fs *fs, GError **error)
{
  struct stat st;
  if (stat (fs->path, &st) == 0 && !S_ISDIR (st.st_mode))
    {
      g_autofree char *found = g_strconcat ("a file: ", fs->path, NULL);
      return refuse (error, "base_path", "a directory", found);
    }
  if (!fs->read_only && g_mkdir_with_parents (fs->path, 0777) != 0)
    {
      g_set_error (error, LMT_L2_ERROR, LMT_L2_IO, "fs: base_path: %s: cannot be made: %s", fs->path, g_strerror (errno));
      return FALSE;
    }
  fs->dir = open_dir (fs->path);
  if (fs->dir < 0)
    {
      g_set_error (error, LMT_L2_ERROR, errno == EACCES ? LMT_L2_DENIED : LMT_L2_IO, "fs: base_path: %s: %s", fs->path,
                   g_strerror (errno));
      return FALSE;
    }
  fs->tmp_dir = fs->dir;
  if (!fs->read_only && faccessat (fs->dir, ".", W_OK | X_OK, AT_EACCESS) != 0)
    {
      g_autofree char *found = g_strdup_printf ("%s: %s", fs->path, g_strerror (errno));
      return refuse (error, "base_path", "a directory that can be written to, or read_only", found);
    }
  return TRUE;
}

/* Component by component, no link followed: it may not leave the base. */
static gboolean
open_tmp_dir (Fs *fs, GError **error)
{
  if (fs->tmp_name == NULL || fs->read_only)
    return TRUE;
  g_auto (GStrv) parts = g_strsplit (fs->tmp_name, "/", -1);
  int dir = fcntl (fs->dir, F_DUPFD_CLOEXEC, 0);
  for (guint i = 0; parts[i] != NULL && dir >= 0; i++)
    {
      if (*parts[i] == '\0' || strcmp (parts[i], ".") == 0)
        continue;
      if (mkdirat (dir, parts[i], 0777) != 0 && errno != EEXIST)
        {
          g_set_error (error, LMT_L2_ERROR, LMT_L2_IO, "fs: relative_tmp_dir: %s: cannot be made: %s", fs->tmp_name,
                       g_strerror (errno));
          close (dir);
          return FALSE;
        }
      int next = openat (dir, parts[i], O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
      if (next < 0)
        g_set_error (error, LMT_L2_ERROR, LMT_L2_IO, "fs: relative_tmp_dir: %s: %s", fs->tmp_name, g_strerror (errno));
      close (dir);
      dir = next;
    }
  if (dir < 0)
    {
      if (error != NULL && *error == NULL)
        g_set_error (error, LMT_L2_ERROR, LMT_L2_IO, "fs: relative_tmp_dir: %s: %s", fs->tmp_name, g_strerror (errno));
      return FALSE;
    }
  struct stat base, tmp;
  if (fstat (fs->dir, &base) != 0 || fstat (dir, &tmp) != 0 || base.st_dev != tmp.st_dev)
    {
      close (dir);
      return refuse (error, "relative_tmp_dir", "the file system of base_path", "another one: nothing can be renamed across");
    }
  fs->tmp_dir = dir;
  return TRUE;
}

static gboolean
lock_base (Fs *fs, GError **error)
{
  if (take_lock (fs, fs->dir))
    return TRUE;
  if (errno == EWOULDBLOCK)
    {
      g_set_error (error, LMT_L2_ERROR, LMT_L2_BUSY, "fs: %s: another lmtrace uses this directory: both need \"shared\": true",
                   fs->path);
      return FALSE;
    }
  fs_say (fs, "info: lock", "fs: %s: no lock on the directory: %s", fs->path, g_strerror (errno));
  return TRUE;
}

/* A file of the directory's file system without a name, or with one of ours that is taken away at once. */
static int
probe_file (Fs *fs)
{
  int fd = openat (fs->tmp_dir, ".", O_RDWR | O_CLOEXEC | O_TMPFILE, fs->mode | 0600);
  if (fd >= 0)
    {
      char self[64], name[64];
      g_snprintf (self, sizeof self, "/proc/self/fd/%d", fd);
      fs_temp_name (fs, name, sizeof name);
      /* The short way needs Linux 6.10 or a capability. */
      fs->link_empty = linkat (fd, "", fs->tmp_dir, name, AT_EMPTY_PATH) == 0;
      fs->use_tmpfile = fs->link_empty || linkat (AT_FDCWD, self, fs->tmp_dir, name, AT_SYMLINK_FOLLOW) == 0;
      unlinkat (fs->tmp_dir, name, 0);
      return fd;
    }
  char name[64];
  fs_temp_name (fs, name, sizeof name);
  fd = openat (fs->tmp_dir, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, fs->mode | 0600);
  if (fd >= 0)
    unlinkat (fs->tmp_dir, name, 0);
  return fd;
}

static gboolean
probe_crc (Fs *fs, int fd, GError **error)
{
  char text[16];
  int failed = fs->read_only ? fgetxattr (fd, "user.lmt.crc32c", text, sizeof text) < 0 && errno == EOPNOTSUPP
                             : fsetxattr (fd, "user.lmt.crc32c", "00000000", 8, 0) != 0;
  if (!failed)
    return TRUE;
  g_autofree char *found = g_strdup_printf ("%s: %s", fs->path, g_strerror (errno));
  return refuse (error, "integrity", "a file system with extended attributes", found);
}

static void
probe_direct (Fs *fs, int fd)
{
  fs->direct
      = fs_dio_align (fd, &fs->direct_memory, &fs->direct_offset) && fs->direct_offset <= 65536 && fs->direct_memory <= 65536;
  if (fs->direct)
    fs_say (fs, "info: direct", "fs: %s: O_DIRECT: addresses of %" G_GUINT64_FORMAT ", lengths of %" G_GUINT64_FORMAT, fs->path,
            fs->direct_memory, fs->direct_offset);
  else
    fs_say (fs, "use_odirect", "fs: %s: use_odirect: the file system has no direct input and output: buffered", fs->path);
}

static gboolean
probe (Fs *fs, const FsConfig *config, GError **error)
{
  int fd = fs->read_only ? fcntl (fs->dir, F_DUPFD_CLOEXEC, 0) : probe_file (fs);
  if (fd < 0)
    {
      g_set_error (error, LMT_L2_ERROR, errno == EACCES || errno == EROFS ? LMT_L2_DENIED : LMT_L2_IO,
                   "fs: %s: cannot create files: %s", fs->path, g_strerror (errno));
      return FALSE;
    }
  struct stat st;
  fs->need_chmod = fstat (fd, &st) != 0 || (st.st_mode & 07777) != (fs->mode | 0600) || (fs->mode & 0600) != 0600;
  gboolean good = !fs->crc32c || probe_crc (fs, fd, error);
  if (good && config->use_odirect)
    {
      if (!fs->read_only)
        probe_direct (fs, fd);
      else
        {
          /* Nothing may be created to ask: one block, and the first read will tell. */
          fs->direct = TRUE;
          fs->direct_memory = fs->direct_offset = 4096;
        }
    }
  close (fd);
  return good;
}

static gboolean
check_safety (Fs *fs, GError **error)
{
  if (fs->read_only || (!fs->host->eviction && fs->host->persist_enabled) || fs->host->may_destroy (fs->host->data, fs->path)
      || !fs_holds_objects (fs))
    return TRUE;
  g_set_error (error, LMT_L2_ERROR, LMT_L2_DENIED,
               "fs: %s: holds objects of before this run, and %s may delete them: say --yes-destroy %s if they may go", fs->path,
               fs->host->eviction ? "eviction" : "persist_enabled: false", fs->path);
  return FALSE;
}

static void
tell_limits (Fs *fs, const FsConfig *config)
{
  struct statvfs st;
  guint64 largest = fs->host->largest_object_bytes;
  if (config->max_capacity_gb > 0 && !fs->host->eviction)
    fs_say (fs, "capacity", "fs: %s: max_capacity_gb without eviction: stores fail when %g GiB are full", fs->path,
            config->max_capacity_gb);
  if (largest > 0 && !fs->read_only && fstatvfs (fs->dir, &st) == 0 && (guint64)st.f_bavail * st.f_frsize < largest)
    fs_say (fs, "space", "fs: %s: less free space than one object of %" G_GUINT64_FORMAT " bytes", fs->path, largest);
}

/* Why there is no io_uring, as it stands in a message. (transfer full) */
static char *
try_uring (Fs *fs, const char *engine)
{
#ifdef FS_WITH_URING
  g_autoptr (GError) refused = NULL;
  fs->engine_data = fs_engine_uring.open (fs, &refused);
  if (fs->engine_data != NULL)
    {
      fs->engine = &fs_engine_uring;
      fs->threads_write = strcmp (engine, "auto") == 0;
      /* More than the device needs at once: some are always at the names of their files, looking and linking. */
      if (!fs->workers_asked)
        fs->n_workers = MIN (fs->depth, CLAMP (8 * g_get_num_processors (), 16, 32));
      return NULL;
    }
  return g_strdup_printf ("io_uring: %s", refused->message);
#else
  return g_strdup ("io_uring: not built in");
#endif
}

static gboolean
choose_engine (Fs *fs, const FsConfig *config, GError **error)
{
  g_autofree char *why_not = NULL;
  gboolean is_auto = strcmp (config->engine, "auto") == 0;
  const char *why = is_auto ? "the kernel allows it; threads store" : "as asked";
  if (is_auto || strcmp (config->engine, "io_uring") == 0)
    {
      why_not = try_uring (fs, config->engine);
      if (why_not != NULL && !is_auto)
        return refuse (error, "engine", "auto, threads or sync", why_not);
      why = why_not != NULL ? why_not : why;
    }
  if (fs->engine_data == NULL)
    {
      fs->engine = strcmp (config->engine, "sync") == 0 ? &fs_engine_sync : &fs_engine_threads;
      fs->engine_data = fs->engine->open (fs, error);
    }
  if (fs->engine_data == NULL)
    return FALSE;
  fs_say (fs, "info: engine", "fs: %s: engine %s (%s), depth %u", fs->path, fs->engine->name, why, fs->depth);
  return TRUE;
}

static void
take_config (Fs *fs, const FsConfig *config)
{
  struct rlimit limit;
  fs->path = g_canonicalize_filename (config->base_path, NULL);
  fs->tmp_name
      = config->relative_tmp_dir != NULL && *config->relative_tmp_dir != '\0' ? g_strdup (config->relative_tmp_dir) : NULL;
  fs->depth = (guint32)config->depth;
  fs->n_workers = (guint32)(config->num_workers != 0 ? config->num_workers : MIN (config->depth, 16));
  fs->workers_asked = config->num_workers != 0;
  fs_parse_mode (config->file_mode, &fs->mode);
  fs->sync = strcmp (config->sync, "none") == 0 ? FS_SYNC_NONE : strcmp (config->sync, "full") == 0 ? FS_SYNC_FULL : FS_SYNC_DATA;
  fs->padded_align = config->padded_align;
  fs->read_ahead = config->read_ahead_size;
  fs->read_only = config->read_only;
  fs->preallocate = config->preallocate;
  fs->drop_cache = config->drop_cache;
  fs->crc32c = strcmp (config->integrity, "crc32c") == 0;
  fs->clean_tmp = config->clean_tmp;
  fs->no_scan = !config->scan;
  fs->loads_max = (guint32)MIN (config->num_read_workers, G_MAXUINT32);
  fs->load_bytes_max
      = config->read_max_bytes_in_flight != 0 ? config->read_max_bytes_in_flight : G_GUINT64_CONSTANT (1536) * 1024 * 1024;
  fs->size_limited = getrlimit (RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  fs->temp_random = g_random_int ();
}

gpointer
fs_open (gconstpointer config_, const char *type, const LmtL2Host *host, LmtL2Info *info, GError **error)
{
  const FsConfig *config = config_;
  Fs *fs = g_new0 (Fs, 1);
  fs->host = host;
  fs->dir = fs->tmp_dir = fs->lock = fs->wake_fd = -1;
  fs->shared = host->shared;
  pthread_mutex_init (&fs->dir_mutex, NULL);
  pthread_mutex_init (&fs->own_mutex, NULL);
  pthread_mutex_init (&fs->sync_mutex, NULL);
  pthread_cond_init (&fs->sync_cond, NULL);
  take_config (fs, config);
  if (fs->no_scan && host->eviction)
    {
      refuse (error, "scan", "true with eviction", "false: nobody would know what is used");
      fs_close (fs);
      return NULL;
    }
  if (!open_base (fs, error) || !lock_base (fs, error) || !open_tmp_dir (fs, error) || !probe (fs, config, error)
      || !check_safety (fs, error) || !choose_engine (fs, config, error))
    {
      fs_close (fs);
      return NULL;
    }
  long name_max = fpathconf (fs->dir, _PC_NAME_MAX);
  fs->name_max = name_max > 0 ? (guint32)name_max : 255;
  if (!host->persist_enabled && !fs->read_only)
    fs->own = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  tell_limits (fs, config);
  info->depth = fs->depth;
  info->capabilities = LMT_L2_CAP_KEEP | LMT_L2_CAP_DATA | LMT_L2_CAP_CAPACITY | LMT_L2_CAP_TAMPER | LMT_L2_CAP_DELETE
                       | (host->persist_enabled ? LMT_L2_CAP_PERSIST : 0) | (fs->direct ? LMT_L2_CAP_DIRECT : 0)
                       | (fs->engine->register_memory != NULL ? LMT_L2_CAP_REGISTER_MEMORY : 0);
  info->flags = LMT_L2_INFO_NO_WIRE | (fs->no_scan ? LMT_L2_INFO_NO_SCAN : 0);
  info->buffer_align = fs->direct ? fs->direct_memory : 0;
  info->length_align = fs->direct ? fs->direct_offset : 0;
  info->close_timeout_ns = MAX ((gint64)(config->close_timeout_s * 1e9), 1);
  return fs;
}

/* -------- close -------- */

static void
delete_own (Fs *fs)
{
  GHashTableIter iter;
  gpointer name;
  guint n = 0;
  g_hash_table_iter_init (&iter, fs->own);
  while (g_hash_table_iter_next (&iter, &name, NULL))
    n += unlinkat (fs->dir, name, 0) == 0;
  fs_say (fs, "info: persist", "fs: %s: persist_enabled is false: %u objects deleted", fs->path, n);
  g_hash_table_unref (fs->own);
}

void
fs_close (gpointer handle)
{
  Fs *fs = handle;
  if (fs->engine_data != NULL)
    fs->engine->close (fs->engine_data);
  if (fs->own != NULL)
    delete_own (fs);
  if (fs->tmp_dir >= 0 && fs->tmp_dir != fs->dir)
    close (fs->tmp_dir);
  if (fs->dir >= 0)
    close (fs->dir);
  if (fs->lock >= 0)
    close (fs->lock);
  pthread_mutex_destroy (&fs->dir_mutex);
  pthread_mutex_destroy (&fs->own_mutex);
  pthread_mutex_destroy (&fs->sync_mutex);
  pthread_cond_destroy (&fs->sync_cond);
  g_free (fs->path);
  g_free (fs->tmp_name);
  g_free (fs);
}
