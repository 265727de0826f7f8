/* SPDX-License-Identifier: Apache-2.0 */
#include "fs.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

static const char crc_attribute[] = "user.lmt.crc32c";

gboolean
fs_size_fits (const Fs *fs, guint64 found, guint64 wanted)
{
  if (found == wanted)
    return TRUE;
  guint64 align = fs->padded_align;
  return align != 0 && found == (wanted + align - 1) / align * align;
}

static guint32
code_of_errno (int error)
{
  switch (error)
    {
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      return LMT_L2_NO_SPACE;
    case EACCES:
    case EPERM:
    case EROFS:
      return LMT_L2_DENIED;
    case ENAMETOOLONG:
      return LMT_L2_UNSUPPORTED;
    case EMFILE:
    case ENFILE:
      return LMT_L2_BUSY;
    default:
      return LMT_L2_IO;
    }
}

void
fs_fail (Fs *fs, LmtL2Io *io, int error, const char *what)
{
  io->os_error = error;
  io->code = code_of_errno (error);
  if (error > 0 && error < FS_MAX_ERRNO)
    atomic_fetch_add (&fs->errors[error], 1);
  if (io->code == LMT_L2_BUSY && atomic_exchange (&fs->few_descriptors, TRUE))
    return;
  if (io->code == LMT_L2_BUSY)
    fs_say (fs, "descriptors", "fs: %s: %s: fewer operations at a time from here on", fs->path, g_strerror (error));
  else
    fs_say (fs, what, "fs: %s/%s: %s: %s", fs->path, io->key->file, what, g_strerror (error));
}

void
fs_fail_missing (Fs *fs, LmtL2Io *io)
{
  if (fs_dir_vanished (fs))
    {
      io->code = LMT_L2_IO;
      io->os_error = ENOENT;
      atomic_fetch_add (&fs->errors[ENOENT], 1);
      return;
    }
  io->code = LMT_L2_NOT_FOUND;
}

/* A call on the object's own file: that there is none is an answer. */
static void
fail_on_file (Fs *fs, LmtL2Io *io, int error, const char *what)
{
  if (error == ENOENT)
    fs_fail_missing (fs, io);
  else
    fs_fail (fs, io, error, what);
}

static gboolean
is_writable (const Fs *fs, LmtL2Io *io)
{
  if (!fs->read_only)
    return TRUE;
  io->code = LMT_L2_DENIED; /* no errno: the configuration says so, not the system */
  return FALSE;
}

static const char *
kind_of_file (mode_t mode)
{
  return S_ISDIR (mode) ? "a directory" : S_ISLNK (mode) ? "a symbolic link" : S_ISFIFO (mode) ? "a pipe" : "a device or socket";
}

static void
say_no_file (Fs *fs, const LmtL2Io *io, mode_t mode)
{
  fs_say (fs, "no file", "fs: %s/%s: expected a file, found %s", fs->path, io->key->file, kind_of_file (mode));
}

static guint64
round_up (guint64 bytes, guint64 align)
{
  return (bytes + align - 1) / align * align;
}

static void
say_size (Fs *fs, const LmtL2Io *io, guint64 wanted, guint64 found)
{
  gboolean padding = fs->padded_align == 0 && found == round_up (wanted, 4096);
  atomic_fetch_add (&fs->n_damaged, 1);
  fs_say (fs, "wrong size", "fs: %s/%s: expected %" G_GUINT64_FORMAT " bytes, found %" G_GUINT64_FORMAT "%s", fs->path,
          io->key->file, wanted, found, padding ? " (padded to 4096? see padded_align)" : "");
}

/* -------- names -------- */

/* A model that holds the stand-in for '/' shares its files with another model (F6): such keys have no file. */
static gboolean
is_ambiguous (const LmtL2Key *key)
{
  if (memmem (key->fields.model, key->fields.model_len, "SEP", 3) == NULL)
    return FALSE;
  LmtKeyOwned back;
  if (!lmt_key_from_file (key->file, key->file_len, &back))
    return TRUE;
  gboolean same = lmt_key_fields_equal (&back.fields, &key->fields);
  lmt_key_owned_clear (&back);
  return !same;
}

static gboolean
name_is_usable (Fs *fs, LmtL2Io *io)
{
  const LmtL2Key *key = io->key;
  if (is_ambiguous (key))
    {
      io->code = LMT_L2_UNSUPPORTED;
      fs_say (fs, "model name", "fs: model name \"%.*s\": \"-SEP-\" stands for \"/\" in file names", (int)key->fields.model_len,
              key->fields.model);
      return FALSE;
    }
  if (key->file_len > fs->name_max)
    {
      io->code = LMT_L2_UNSUPPORTED;
      io->os_error = ENAMETOOLONG;
      fs_say (fs, "name", "fs: %s: name of %u bytes, the file system takes %u", key->file, key->file_len, fs->name_max);
      return FALSE;
    }
  if (strlen (key->file) != key->file_len)
    {
      io->code = LMT_L2_UNSUPPORTED;
      fs_say (fs, "name", "fs: %s: model name with a NUL byte has no file name", key->file);
      return FALSE;
    }
  return TRUE;
}

/* -------- store -------- */

typedef struct
{
  int fd;
  gboolean direct;
  char name[64]; /* "": no name yet (O_TMPFILE) */
} Temp;

int
fs_open_unnamed (Fs *fs, gboolean direct)
{
  return openat (fs->tmp_dir, ".", O_WRONLY | O_CLOEXEC | O_TMPFILE | (direct ? O_DIRECT : 0), fs_create_mode (fs));
}

void
fs_worker_close_spare (FsWorker *worker)
{
  if (worker->spare > 0)
    close (worker->spare - 1);
  worker->spare = 0;
}

static int
temp_open (Fs *fs, FsWorker *worker, Temp *temp)
{
  temp->direct = atomic_load (&fs->direct);
  int flags = O_WRONLY | O_CLOEXEC | (temp->direct ? O_DIRECT : 0);
  mode_t mode = fs_create_mode (fs);
  temp->name[0] = '\0';
  if (worker->spare > 0 && worker->spare_direct == temp->direct)
    {
      temp->fd = worker->spare - 1;
      worker->spare = 0;
      return 0;
    }
  fs_worker_close_spare (worker);
  if (atomic_load (&fs->use_tmpfile))
    {
      temp->fd = fs_open_unnamed (fs, temp->direct);
      if (temp->fd >= 0)
        return 0;
      if (errno != EOPNOTSUPP && errno != EISDIR)
        return errno;
      atomic_store (&fs->use_tmpfile, FALSE);
    }
  fs_temp_name (fs, temp->name, sizeof temp->name);
  temp->fd = openat (fs->tmp_dir, temp->name, flags | O_CREAT | O_EXCL | O_NOFOLLOW, mode);
  return temp->fd >= 0 ? 0 : errno;
}

void
fs_worker_tidy (FsWorker *worker)
{
  if (worker->to_close > 0)
    close (worker->to_close - 1);
  worker->to_close = 0;
}

static void
temp_drop (Fs *fs, FsWorker *worker, Temp *temp)
{
  worker->to_close = temp->fd + 1;
  temp->fd = -1;
  if (temp->name[0] != '\0')
    unlinkat (fs->tmp_dir, temp->name, 0);
  temp->name[0] = '\0';
}

static int
temp_link (Fs *fs, Temp *temp, int dir, const char *name)
{
  char self[64];
  if (fs->link_empty)
    return linkat (temp->fd, "", dir, name, AT_EMPTY_PATH) == 0 ? 0 : errno;
  g_snprintf (self, sizeof self, "/proc/self/fd/%d", temp->fd);
  return linkat (AT_FDCWD, self, dir, name, AT_SYMLINK_FOLLOW) == 0 ? 0 : errno;
}

/* Under the final name, if nothing is there yet; EEXIST else. */
static int
publish_new (Fs *fs, Temp *temp, const char *name)
{
  if (temp->name[0] == '\0')
    return temp_link (fs, temp, fs->dir, name);
  if (renameat2 (fs->tmp_dir, temp->name, fs->dir, name, RENAME_NOREPLACE) == 0)
    {
      temp->name[0] = '\0';
      return 0;
    }
  if (errno != EINVAL && errno != ENOSYS)
    return errno;
  /* A file system without that flag: a link never replaces. temp_drop() takes the other name away. */
  return linkat (fs->tmp_dir, temp->name, fs->dir, name, 0) == 0 ? 0 : errno;
}

static int
publish_over (Fs *fs, Temp *temp, const char *name)
{
  if (temp->name[0] == '\0')
    {
      fs_temp_name (fs, temp->name, sizeof temp->name);
      int error = temp_link (fs, temp, fs->tmp_dir, temp->name);
      if (error != 0)
        {
          temp->name[0] = '\0';
          return error;
        }
    }
  if (renameat (fs->tmp_dir, temp->name, fs->dir, name) != 0)
    return errno;
  temp->name[0] = '\0';
  return 0;
}

/* What lies under the name. 0: nothing, 1: the object, 2: a file of another size, -1: io says why not. */
static int
look (Fs *fs, LmtL2Io *io, guint64 wanted)
{
  struct stat st;
  if (fstatat (fs->dir, io->key->file, &st, AT_SYMLINK_NOFOLLOW) != 0)
    {
      if (errno == ENOENT)
        return 0;
      fs_fail (fs, io, errno, "stat");
      return -1;
    }
  io->object_bytes = (guint64)st.st_size;
  if (!S_ISREG (st.st_mode))
    {
      io->code = LMT_L2_IO;
      io->os_error = S_ISDIR (st.st_mode) ? EISDIR : EEXIST;
      atomic_fetch_add (&fs->errors[io->os_error], 1);
      fs_say (fs, "store over no file", "fs: %s/%s: is %s", fs->path, io->key->file, kind_of_file (st.st_mode));
      return -1;
    }
  return fs_size_fits (fs, (guint64)st.st_size, wanted) ? 1 : 2;
}

/* sync: full. One fsync of the directory serves all whose names stood before it began. */
static int
sync_dir (Fs *fs)
{
  int error = 0;
  pthread_mutex_lock (&fs->sync_mutex);
  guint64 mine = ++fs->sync_asked;
  while (fs->sync_done < mine && fs->sync_running)
    pthread_cond_wait (&fs->sync_cond, &fs->sync_mutex);
  if (fs->sync_done < mine)
    {
      guint64 covers = fs->sync_asked;
      fs->sync_running = TRUE;
      pthread_mutex_unlock (&fs->sync_mutex);
      if (fsync (fs->dir) != 0)
        error = errno;
      pthread_mutex_lock (&fs->sync_mutex);
      fs->sync_running = FALSE;
      if (error == 0)
        fs->sync_done = MAX (fs->sync_done, covers);
      pthread_cond_broadcast (&fs->sync_cond);
    }
  pthread_mutex_unlock (&fs->sync_mutex);
  return error;
}

static int
fill_temp (Fs *fs, FsWorker *worker, const LmtL2Io *io, Temp *temp, const char **what)
{
  *what = "fallocate";
  if (fs->preallocate && io->buffer_bytes > 0 && fallocate (temp->fd, 0, 0, (off_t)io->buffer_bytes) != 0 && errno != EOPNOTSUPP)
    return errno;
  *what = "write";
  int error = fs_write_all (fs, worker, temp->fd, io->buffer, io->buffer_bytes, temp->direct);
  if (error != 0)
    return error;
  *what = "chmod";
  if (atomic_load (&fs->need_chmod) && fchmod (temp->fd, fs->mode) != 0)
    return errno;
  if (fs->crc32c && io->buffer != NULL)
    {
      char text[16];
      g_snprintf (text, sizeof text, "%08x", fs_crc32c (0, io->buffer, io->buffer_bytes));
      *what = "setxattr";
      if (fsetxattr (temp->fd, crc_attribute, text, 8, 0) != 0)
        return errno;
    }
  *what = "sync";
  if (fs->sync != FS_SYNC_NONE && fdatasync (temp->fd) != 0)
    return errno;
  if (fs->drop_cache)
    posix_fadvise (temp->fd, 0, 0, POSIX_FADV_DONTNEED);
  return 0;
}

void
fs_remember_own (Fs *fs, const char *name)
{
  if (fs->own == NULL)
    return;
  pthread_mutex_lock (&fs->own_mutex);
  g_hash_table_add (fs->own, g_strdup (name));
  pthread_mutex_unlock (&fs->own_mutex);
}

static void
publish (Fs *fs, LmtL2Io *io, Temp *temp, gboolean over)
{
  int error = over ? publish_over (fs, temp, io->key->file) : publish_new (fs, temp, io->key->file);
  if (error == EEXIST)
    {
      /* Another process was faster, or left something else there. */
      int there = look (fs, io, io->buffer_bytes);
      if (there < 0)
        return;
      if (there == 1)
        {
          io->object_bytes = io->buffer_bytes;
          io->code = LMT_L2_PRESENT;
          return;
        }
      over = TRUE;
      error = publish_over (fs, temp, io->key->file);
    }
  if (error == 0 && fs->sync == FS_SYNC_FULL)
    error = sync_dir (fs);
  if (error != 0)
    {
      if (error == ENOENT)
        fs_fail_missing (fs, io);
      if (error != ENOENT || io->code == LMT_L2_NOT_FOUND)
        fs_fail (fs, io, error, "publish");
      return;
    }
  if (over)
    atomic_fetch_add (&fs->n_repaired, 1);
  fs_remember_own (fs, io->key->file);
  io->done_bytes = io->object_bytes = io->buffer_bytes;
  io->code = LMT_L2_OK;
}

static void
store (Fs *fs, FsWorker *worker, LmtL2Io *io)
{
  if (!is_writable (fs, io))
    return;
  int there = look (fs, io, io->buffer_bytes);
  if (there < 0)
    return;
  if (there == 1)
    {
      io->object_bytes = io->buffer_bytes;
      io->code = LMT_L2_PRESENT;
      return;
    }
  Temp temp = { .fd = -1 };
  const char *what = "create";
  int error = temp_open (fs, worker, &temp);
  if (error == 0)
    error = fill_temp (fs, worker, io, &temp, &what);
  if (error == 0)
    publish (fs, io, &temp, there == 2);
  else if (temp.fd < 0 && fs_dir_vanished (fs)) /* which error that gives is the file system's choice */
    {
      io->code = LMT_L2_IO;
      io->os_error = ENOENT;
      atomic_fetch_add (&fs->errors[ENOENT], 1);
    }
  else
    fs_fail (fs, io, error, what);
  temp_drop (fs, worker, &temp);
  /* What didn't become an object gives its space back before anybody hears of it. */
  if (io->code != LMT_L2_OK)
    fs_worker_tidy (worker);
}

/* -------- load -------- */

static gboolean
check_crc (Fs *fs, LmtL2Io *io, int fd)
{
  char text[16] = "";
  if (!fs->crc32c || io->buffer == NULL || fgetxattr (fd, crc_attribute, text, sizeof text - 1) != 8)
    return TRUE;
  char found[16];
  g_snprintf (found, sizeof found, "%08x", fs_crc32c (0, io->buffer, io->buffer_bytes));
  if (strcmp (text, found) == 0)
    return TRUE;
  atomic_fetch_add (&fs->n_damaged, 1);
  fs_say (fs, "checksum", "fs: %s/%s: crc32c: expected %s, found %s", fs->path, io->key->file, text, found);
  return FALSE;
}

static void
load_open_file (Fs *fs, FsWorker *worker, LmtL2Io *io, int fd, gboolean direct)
{
  struct stat st;
  if (fstat (fd, &st) != 0)
    {
      fs_fail (fs, io, errno, "stat");
      return;
    }
  if (!S_ISREG (st.st_mode))
    {
      say_no_file (fs, io, st.st_mode);
      io->code = LMT_L2_NOT_FOUND;
      return;
    }
  io->object_bytes = (guint64)st.st_size;
  io->code = LMT_L2_DATA;
  if (!fs_size_fits (fs, io->object_bytes, io->buffer_bytes))
    {
      say_size (fs, io, io->buffer_bytes, io->object_bytes);
      return;
    }
  if (fs->read_ahead > 0 && !direct)
    posix_fadvise (fd, 0, (off_t)io->buffer_bytes, POSIX_FADV_WILLNEED);
  int error = fs_read_all (fs, worker, fd, io->buffer, io->buffer_bytes, direct);
  if (error == FS_SHORT)
    {
      say_size (fs, io, io->buffer_bytes, 0);
      return;
    }
  if (error != 0)
    {
      fs_fail (fs, io, error, "read");
      return;
    }
  if (fs->drop_cache)
    posix_fadvise (fd, 0, 0, POSIX_FADV_DONTNEED);
  if (!check_crc (fs, io, fd))
    return;
  io->object_bytes = io->done_bytes = io->buffer_bytes;
  io->code = LMT_L2_OK;
}

static void
load (Fs *fs, FsWorker *worker, LmtL2Io *io)
{
  gboolean direct = atomic_load (&fs->direct);
  /* O_NONBLOCK: a pipe under an object's name must not hold us. */
  const int flags = O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
  int fd = openat (fs->dir, io->key->file, flags | (direct ? O_DIRECT : 0));
  if (fd < 0 && errno == EINVAL && direct)
    {
      direct = FALSE;
      fd = openat (fs->dir, io->key->file, flags);
    }
  if (fd < 0)
    {
      if (errno == ENOENT)
        fs_fail_missing (fs, io);
      else if (errno == ELOOP || errno == ENXIO)
        {
          say_no_file (fs, io, errno == ELOOP ? S_IFLNK : S_IFSOCK);
          io->code = LMT_L2_NOT_FOUND;
        }
      else
        fs_fail (fs, io, errno, "open");
      return;
    }
  load_open_file (fs, worker, io, fd, direct);
  close (fd);
}

/* -------- lookup, delete -------- */

void
fs_lookup_found (Fs *fs, LmtL2Io *io, guint32 mode, guint64 bytes)
{
  if (!S_ISREG (mode))
    {
      say_no_file (fs, io, mode);
      io->code = LMT_L2_NOT_FOUND;
      return;
    }
  io->object_bytes = bytes;
  io->code = LMT_L2_OK;
  if (io->expected_bytes == 0)
    return;
  if (fs_size_fits (fs, bytes, io->expected_bytes))
    io->object_bytes = io->expected_bytes;
  else
    {
      say_size (fs, io, io->expected_bytes, bytes);
      io->code = LMT_L2_DATA;
    }
}

static void
lookup (Fs *fs, LmtL2Io *io)
{
  struct stat st;
  if (fstatat (fs->dir, io->key->file, &st, AT_SYMLINK_NOFOLLOW) != 0)
    {
      fail_on_file (fs, io, errno, "stat");
      return;
    }
  fs_lookup_found (fs, io, st.st_mode, (guint64)st.st_size);
}

static void delete (Fs *fs, LmtL2Io *io)
{
  struct stat st;
  if (!is_writable (fs, io))
    return;
  if (fstatat (fs->dir, io->key->file, &st, AT_SYMLINK_NOFOLLOW) != 0)
    {
      fail_on_file (fs, io, errno, "stat");
      return;
    }
  if (!S_ISREG (st.st_mode))
    {
      say_no_file (fs, io, st.st_mode);
      io->code = LMT_L2_NOT_FOUND;
      return;
    }
  if (unlinkat (fs->dir, io->key->file, 0) != 0)
    {
      fail_on_file (fs, io, errno, "unlink");
      return;
    }
  io->object_bytes = (guint64)st.st_size;
  io->code = LMT_L2_OK;
}

static void
perform (Fs *fs, FsWorker *worker, LmtL2Io *io)
{
  switch (io->kind)
    {
    case LMT_L2_STORE:
      store (fs, worker, io);
      break;
    case LMT_L2_LOAD:
      load (fs, worker, io);
      break;
    case LMT_L2_LOOKUP:
      lookup (fs, io);
      break;
    case LMT_L2_DELETE:
      delete (fs, io);
      break;
    default:
      io->code = LMT_L2_UNSUPPORTED;
      break;
    }
}

gboolean
fs_admit (Fs *fs, LmtL2Io *io)
{
  io->service_start_ns = fs->host->now_ns (fs->host->data);
  if (!name_is_usable (fs, io))
    return FALSE;
  if (fs_dir_usable (fs))
    return TRUE;
  io->code = LMT_L2_IO;
  io->os_error = ENOENT;
  atomic_fetch_add (&fs->errors[ENOENT], 1);
  return FALSE;
}

void
fs_perform (Fs *fs, FsWorker *worker, LmtL2Io *io)
{
  if (!fs_admit (fs, io))
    return;
  perform (fs, worker, io);
  worker->stored = io->kind == LMT_L2_STORE && io->code == LMT_L2_OK;
  if (io->code != LMT_L2_IO)
    fs_dir_ok (fs);
}
