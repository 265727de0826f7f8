/* SPDX-License-Identifier: Apache-2.0 */
#include "fs-uring.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

/* -------- what goes this way -------- */

static gboolean
is_aligned (Uring *uring, const LmtL2Io *io)
{
  Fs *fs = uring->fs;
  return io->buffer_bytes % fs->direct_offset == 0 && (guintptr)io->buffer % fs->direct_memory == 0;
}

gboolean
uring_is_plain (Uring *uring, const LmtL2Io *io)
{
  Fs *fs = uring->fs;
  if (io->kind == LMT_L2_LOOKUP)
    return TRUE;
  if (fs->threads_write && io->kind != LMT_L2_LOAD)
    return FALSE;
  if (io->kind == LMT_L2_DELETE)
    return !fs->read_only;
  /* An empty file and a pipe nobody writes to read alike. */
  if (io->buffer_bytes == 0 || io->buffer_bytes > URING_LARGEST || (fs->crc32c && io->buffer != NULL))
    return FALSE;
  if (io->buffer == NULL && io->buffer_bytes > URING_NOTHING)
    return FALSE;
  if (atomic_load (&fs->direct) && !is_aligned (uring, io))
    return FALSE;
  if (io->kind == LMT_L2_LOAD)
    return TRUE;
  /* A write over RLIMIT_FSIZE would signal us. A chain can't change a file's mode, and only a file without a name has a number
   * by which we could. */
  return io->kind == LMT_L2_STORE && !fs->read_only && !fs->size_limited
         && (atomic_load (&fs->use_tmpfile) || (!atomic_load (&fs->need_chmod) && !uring->no_flag));
}

/* -------- requests -------- */

static void
link_to_next (struct io_uring_sqe *sqe)
{
  sqe->flags |= IOSQE_IO_LINK;
}

/* What follows happens whatever comes of this one. */
static void
chain_to_next (struct io_uring_sqe *sqe)
{
  sqe->flags |= IOSQE_IO_HARDLINK;
}

static void
request_look (Uring *uring, UringSlot *slot)
{
  slot->stage = STAGE_LOOK;
  io_uring_prep_statx (uring_request (uring, slot, STEP_LOOK), uring->fs->dir, slot->io->key->file, AT_SYMLINK_NOFOLLOW,
                       STATX_TYPE | STATX_MODE | STATX_SIZE, &slot->st);
}

/* The number of the registered piece of memory the buffer lies in, or -1. */
static int
fixed_index (const Uring *uring, const LmtL2Io *io)
{
  guintptr at = (guintptr)io->buffer - (guintptr)uring->memory;
  if (uring->memory == NULL || io->buffer == NULL || at >= uring->memory_bytes || io->buffer_bytes > uring->memory_bytes - at)
    return -1;
  guintptr last = at + io->buffer_bytes - 1;
  return at >> URING_REGION == last >> URING_REGION ? (int)(at >> URING_REGION) : -1;
}

/* What wasn't moved yet. @fd: descriptor, or a slot's own file */
static struct io_uring_sqe *
request_move (Uring *uring, UringSlot *slot, int fd, gboolean own_file)
{
  LmtL2Io *io = slot->io;
  struct io_uring_sqe *sqe = uring_request (uring, slot, STEP_MOVE);
  int fixed = fixed_index (uring, io);
  guint64 from = slot->moved;
  unsigned bytes = (unsigned)(io->buffer_bytes - from);
  if (io->kind == LMT_L2_STORE)
    {
      const char *at = (const char *)(io->buffer != NULL ? io->buffer : uring->zeros) + from;
      if (fixed >= 0)
        io_uring_prep_write_fixed (sqe, fd, at, bytes, from, fixed);
      else
        io_uring_prep_write (sqe, fd, at, bytes, from);
    }
  else
    {
      char *at = (char *)(io->buffer != NULL ? io->buffer : uring->nowhere) + from;
      if (fixed >= 0)
        io_uring_prep_read_fixed (sqe, fd, at, bytes, from, fixed);
      else
        io_uring_prep_read (sqe, fd, at, bytes, from);
    }
  uring->n_fixed += fixed >= 0;
  if (own_file)
    sqe->flags |= IOSQE_FIXED_FILE;
  return sqe;
}

/* Open, read all, look whether there is more, close: by a file of the ring's own, in one go. The look is what says that the size
 * is right; at the end of a file it costs no I/O, and less than asking for the size of a file that has no number. */
static void
request_read (Uring *uring, UringSlot *slot)
{
  Fs *fs = uring->fs;
  LmtL2Io *io = slot->io;
  int index = (int)uring_index (uring, slot);
  slot->stage = STAGE_READ;
  slot->direct = atomic_load (&fs->direct) != 0;
  /* O_NONBLOCK: a pipe under an object's name must not hold us. */
  struct io_uring_sqe *sqe = uring_request (uring, slot, STEP_OPEN);
  io_uring_prep_openat_direct (sqe, fs->dir, io->key->file, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | (slot->direct ? O_DIRECT : 0), 0,
                               (unsigned)index);
  link_to_next (sqe);
  if (fs->read_ahead > 0 && !slot->direct)
    {
      sqe = uring_request (uring, slot, STEP_SPACE);
      io_uring_prep_fadvise (sqe, index, 0, (off_t)io->buffer_bytes, POSIX_FADV_WILLNEED);
      sqe->flags |= IOSQE_FIXED_FILE;
      chain_to_next (sqe);
    }
  chain_to_next (request_move (uring, slot, index, TRUE));
  sqe = uring_request (uring, slot, STEP_MORE);
  io_uring_prep_read (sqe, index, uring->sink, slot->direct ? (unsigned)fs->direct_offset : 1, io->buffer_bytes);
  sqe->flags |= IOSQE_FIXED_FILE;
  chain_to_next (sqe);
  if (fs->drop_cache)
    {
      sqe = uring_request (uring, slot, STEP_ADVICE);
      io_uring_prep_fadvise (sqe, index, 0, 0, POSIX_FADV_DONTNEED);
      sqe->flags |= IOSQE_FIXED_FILE;
      chain_to_next (sqe);
    }
  io_uring_prep_close_direct (uring_request (uring, slot, STEP_CLOSE), (unsigned)index);
}

/* What comes between a file that is open for writing and its name. */
static void
request_fill (Uring *uring, UringSlot *slot, int fd, gboolean own_file)
{
  Fs *fs = uring->fs;
  guint8 flags = own_file ? IOSQE_FIXED_FILE : 0;
  if (fs->preallocate)
    {
      struct io_uring_sqe *sqe = uring_request (uring, slot, STEP_SPACE);
      io_uring_prep_fallocate (sqe, fd, 0, 0, (off_t)slot->io->buffer_bytes);
      sqe->flags |= flags;
      link_to_next (sqe);
    }
  link_to_next (request_move (uring, slot, fd, own_file));
  if (fs->sync != FS_SYNC_NONE)
    {
      struct io_uring_sqe *sqe = uring_request (uring, slot, STEP_SYNC);
      io_uring_prep_fsync (sqe, fd, IORING_FSYNC_DATASYNC);
      sqe->flags |= flags;
      link_to_next (sqe);
    }
  if (fs->drop_cache)
    {
      struct io_uring_sqe *sqe = uring_request (uring, slot, STEP_ADVICE);
      io_uring_prep_fadvise (sqe, fd, 0, 0, POSIX_FADV_DONTNEED);
      sqe->flags |= flags;
      chain_to_next (sqe);
    }
}

/* The file without a name is open already: its number has to be known for the link. */
static void
request_write_unnamed (Uring *uring, UringSlot *slot)
{
  Fs *fs = uring->fs;
  slot->stage = STAGE_WRITE;
  request_fill (uring, slot, slot->fd, FALSE);
  struct io_uring_sqe *sqe = uring_request (uring, slot, STEP_NAME);
  io_uring_prep_linkat (sqe, AT_FDCWD, slot->name, fs->dir, slot->io->key->file, AT_SYMLINK_FOLLOW);
  link_to_next (sqe);
  io_uring_prep_close (uring_request (uring, slot, STEP_CLOSE), slot->fd);
}

/* Where files can't be born without a name: a file of the ring's own, from its opening to its closing one chain. */
static void
request_write_named (Uring *uring, UringSlot *slot)
{
  Fs *fs = uring->fs;
  int index = (int)uring_index (uring, slot);
  slot->stage = STAGE_WRITE;
  slot->direct = atomic_load (&fs->direct) != 0;
  fs_temp_name (fs, slot->name, sizeof slot->name);
  struct io_uring_sqe *sqe = uring_request (uring, slot, STEP_OPEN);
  io_uring_prep_openat_direct (sqe, fs->tmp_dir, slot->name,
                               O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | (slot->direct ? O_DIRECT : 0), fs_create_mode (fs),
                               (unsigned)index);
  link_to_next (sqe);
  request_fill (uring, slot, index, TRUE);
  sqe = uring_request (uring, slot, STEP_NAME);
  io_uring_prep_renameat (sqe, fs->tmp_dir, slot->name, fs->dir, slot->io->key->file, RENAME_NOREPLACE);
  link_to_next (sqe);
  io_uring_prep_close_direct (uring_request (uring, slot, STEP_CLOSE), (unsigned)index);
}

void
uring_begin_write (Uring *uring, UringSlot *slot)
{
  Fs *fs = uring->fs;
  if (!atomic_load (&fs->use_tmpfile))
    {
      if (uring_is_plain (uring, slot->io) && uring_has_room (uring))
        request_write_named (uring, slot);
      else
        uring_by_hand (uring, slot);
      return;
    }
  gboolean direct = atomic_load (&fs->direct) != 0;
  while (uring->n_spares > 0 && uring_has_room (uring))
    {
      UringSpare spare = uring->spares[--uring->n_spares];
      if (spare.direct == direct && (!atomic_load (&fs->need_chmod) || fchmod (spare.fd, fs->mode) == 0))
        {
          slot->fd = spare.fd;
          slot->direct = spare.direct != 0;
          g_snprintf (slot->name, sizeof slot->name, "/proc/self/fd/%d", spare.fd);
          request_write_unnamed (uring, slot);
          return;
        }
      close (spare.fd);
    }
  slot->stage = STAGE_WAIT;
  uring_list_add (uring, &uring->waiting, slot);
}

/* -------- at once -------- */

/* By a name the kernel has in memory, so that no disk is waited for; -EAGAIN: it hasn't. */
static int
open_cached (Uring *uring, const char *name, guint64 flags)
{
  struct open_how how = { .flags = flags | O_NOFOLLOW | O_CLOEXEC, .resolve = RESOLVE_CACHED };
  if (uring->no_cached)
    return -EAGAIN;
  int fd = (int)syscall (SYS_openat2, uring->fs->dir, name, &how, sizeof how);
  if (fd >= 0)
    return fd;
  if (errno != ENOSYS && errno != EPERM && !(errno == EINVAL && (flags & O_DIRECT) == 0))
    return -errno;
  uring->no_cached = TRUE; /* before 5.12, or forbidden */
  return -EAGAIN;
}

static UringNow
lookup_now (Uring *uring, LmtL2Io *io)
{
  struct stat st;
  int fd = open_cached (uring, io->key->file, O_PATH);
  if (fd == -ENOENT)
    {
      fs_fail_missing (uring->fs, io);
      return NOW_DONE;
    }
  if (fd < 0)
    return NOW_QUEUE;
  int failed = fstat (fd, &st);
  close (fd);
  if (failed != 0)
    return NOW_QUEUE;
  fs_lookup_found (uring->fs, io, st.st_mode, (guint64)st.st_size);
  return NOW_DONE;
}

static UringNow
open_now (Uring *uring, LmtL2Io *io, int *fd)
{
  Fs *fs = uring->fs;
  struct stat st;
  gboolean direct = atomic_load (&fs->direct) != 0;
  if (fs->drop_cache || (fs->read_ahead > 0 && !direct))
    return NOW_QUEUE;
  /* O_NONBLOCK: a pipe under an object's name must not hold us. */
  *fd = open_cached (uring, io->key->file, O_RDONLY | O_NONBLOCK | (direct ? O_DIRECT : 0));
  if (*fd == -ENOENT)
    {
      fs_fail_missing (fs, io);
      return NOW_DONE;
    }
  if (*fd < 0)
    /* A file of the ring's own needs none of our numbers. */
    return *fd == -EAGAIN || *fd == -EMFILE ? NOW_QUEUE : NOW_THREAD;
  if (fstat (*fd, &st) == 0 && S_ISREG (st.st_mode) && (guint64)st.st_size == io->buffer_bytes)
    return NOW_OPEN;
  close (*fd);
  return NOW_THREAD;
}

UringNow
uring_try_now (Uring *uring, LmtL2Io *io, int *fd)
{
  if (io->kind == LMT_L2_LOOKUP)
    return lookup_now (uring, io);
  return io->kind == LMT_L2_LOAD ? open_now (uring, io, fd) : NOW_QUEUE;
}

void
uring_begin_fill (Uring *uring, UringSlot *slot, int fd)
{
  slot->stage = STAGE_FILL;
  slot->fd = fd;
  slot->direct = atomic_load (&uring->fs->direct) != 0;
  request_move (uring, slot, fd, FALSE);
}

void
uring_begin (Uring *uring, UringSlot *slot)
{
  if (slot->io->kind == LMT_L2_LOAD)
    request_read (uring, slot);
  else
    request_look (uring, slot);
}

/* -------- ends -------- */

static void
end_ok (Uring *uring, UringSlot *slot)
{
  LmtL2Io *io = slot->io;
  io->code = LMT_L2_OK;
  uring->n_plain++;
  uring_finish (uring, slot);
}

static void
look_done (Uring *uring, UringSlot *slot)
{
  Fs *fs = uring->fs;
  LmtL2Io *io = slot->io;
  int res = slot->res[STEP_LOOK];
  gboolean is_file = res == 0 && S_ISREG (slot->st.stx_mode);
  if (slot->cancelled && io->kind != LMT_L2_LOOKUP)
    {
      io->code = LMT_L2_CLOSED;
      uring_finish (uring, slot);
    }
  else if (res == -ENOENT && io->kind == LMT_L2_STORE)
    uring_begin_write (uring, slot);
  else if (res == -ENOENT)
    {
      fs_fail_missing (fs, io);
      uring_finish (uring, slot);
    }
  else if (res == 0 && io->kind == LMT_L2_LOOKUP)
    {
      fs_lookup_found (fs, io, slot->st.stx_mode, slot->st.stx_size);
      uring_finish (uring, slot);
    }
  else if (is_file && io->kind == LMT_L2_STORE && fs_size_fits (fs, slot->st.stx_size, io->buffer_bytes))
    {
      io->object_bytes = io->buffer_bytes;
      io->code = LMT_L2_PRESENT;
      uring_finish (uring, slot);
    }
  else if (is_file && io->kind == LMT_L2_DELETE && uring_has_room (uring))
    {
      slot->stage = STAGE_UNLINK;
      io_uring_prep_unlinkat (uring_request (uring, slot, STEP_UNLINK), fs->dir, io->key->file, 0);
    }
  else
    uring_by_hand (uring, slot);
}

static void
unlink_done (Uring *uring, UringSlot *slot)
{
  LmtL2Io *io = slot->io;
  int res = slot->res[STEP_UNLINK];
  if (res == 0)
    {
      io->object_bytes = slot->st.stx_size;
      end_ok (uring, slot);
    }
  else if (res == -ENOENT)
    {
      fs_fail_missing (uring->fs, io);
      uring_finish (uring, slot);
    }
  else
    uring_by_hand (uring, slot);
}

static void
read_done (Uring *uring, UringSlot *slot)
{
  LmtL2Io *io = slot->io;
  if (slot->res[STEP_OPEN] == -ENOENT)
    {
      fs_fail_missing (uring->fs, io);
      uring_finish (uring, slot);
    }
  else if (slot->res[STEP_OPEN] >= 0 && slot->res[STEP_MOVE] == (gint32)io->buffer_bytes && slot->res[STEP_MORE] == 0)
    {
      io->object_bytes = io->done_bytes = io->buffer_bytes;
      end_ok (uring, slot);
    }
  else
    uring_by_hand (uring, slot);
}

/* A move may end early, and the rest is another. FALSE: nothing moved, or no direct one can go on from there. */
static gboolean
may_continue (Uring *uring, UringSlot *slot)
{
  gint32 res = slot->res[STEP_MOVE];
  guint64 left = slot->io->buffer_bytes - slot->moved;
  if (res <= 0 || (guint64)res >= left || uring->closing || slot->cancelled || !uring_has_room (uring)
      || (slot->direct && (slot->moved + (guint32)res) % MAX (uring->fs->direct_offset, uring->fs->direct_memory) != 0))
    return FALSE;
  slot->moved += (guint32)res;
  uring->n_continued++;
  return TRUE;
}

static void
fill_done (Uring *uring, UringSlot *slot)
{
  LmtL2Io *io = slot->io;
  if (may_continue (uring, slot))
    {
      request_move (uring, slot, slot->fd, FALSE);
      return;
    }
  close (slot->fd);
  slot->fd = -1;
  if (slot->res[STEP_MOVE] < 0 || slot->moved + (guint64)slot->res[STEP_MOVE] != io->buffer_bytes)
    {
      uring_by_hand (uring, slot);
      return;
    }
  io->object_bytes = io->done_bytes = io->buffer_bytes;
  end_ok (uring, slot);
}

/* The chain broke before the name: what it opened goes, and its bytes with it. */
static void
drop_written (Uring *uring, UringSlot *slot)
{
  Fs *fs = uring->fs;
  if (slot->fd >= 0)
    {
      if (slot->res[STEP_CLOSE] < 0)
        close (slot->fd);
      return;
    }
  if (slot->res[STEP_OPEN] < 0)
    return;
  if (slot->res[STEP_NAME] < 0)
    unlinkat (fs->tmp_dir, slot->name, 0);
  if (slot->res[STEP_CLOSE] < 0)
    {
      int none = -1;
      io_uring_register_files_update (&uring->ring, uring_index (uring, slot), &none, 1);
    }
  uring->no_flag |= slot->res[STEP_NAME] == -EINVAL;
}

static void
write_done (Uring *uring, UringSlot *slot)
{
  Fs *fs = uring->fs;
  LmtL2Io *io = slot->io;
  /* A short write breaks the chain after it: what hangs on a number is still open. */
  if (slot->fd >= 0 && slot->res[STEP_NAME] == -ECANCELED && slot->res[STEP_CLOSE] == -ECANCELED && may_continue (uring, slot))
    {
      request_write_unnamed (uring, slot);
      return;
    }
  gboolean named = slot->res[STEP_NAME] == 0 && slot->res[STEP_MOVE] == (gint32)(io->buffer_bytes - slot->moved);
  if (!named || slot->res[STEP_CLOSE] < 0)
    drop_written (uring, slot);
  slot->fd = -1;
  if (!named)
    {
      uring_by_hand (uring, slot);
      return;
    }
  fs_remember_own (fs, io->key->file);
  io->done_bytes = io->object_bytes = io->buffer_bytes;
  if (fs->sync != FS_SYNC_FULL)
    {
      end_ok (uring, slot);
      return;
    }
  slot->stage = STAGE_SYNC;
  uring_list_add (uring, &uring->to_sync, slot);
  uring_sync_dir (uring);
}

void
uring_stage_done (Uring *uring, UringSlot *slot)
{
  switch (slot->stage)
    {
    case STAGE_LOOK:
      look_done (uring, slot);
      break;
    case STAGE_WRITE:
      write_done (uring, slot);
      break;
    case STAGE_READ:
      read_done (uring, slot);
      break;
    case STAGE_FILL:
      fill_done (uring, slot);
      break;
    case STAGE_UNLINK:
      unlink_done (uring, slot);
      break;
    default:
      break;
    }
}
