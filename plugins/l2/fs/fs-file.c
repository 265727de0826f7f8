/* SPDX-License-Identifier: Apache-2.0 */
#include "fs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

/* -------- CRC-32C (Castagnoli), eight bytes a step -------- */

static guint32 crc_table[8][256];
static pthread_once_t crc_once = PTHREAD_ONCE_INIT;

static void
crc_init (void)
{
  for (guint32 i = 0; i < 256; i++)
    {
      guint32 crc = i;
      for (guint bit = 0; bit < 8; bit++)
        crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82f63b78U : 0);
      crc_table[0][i] = crc;
    }
  for (guint32 i = 0; i < 256; i++)
    for (guint k = 1; k < 8; k++)
      crc_table[k][i] = (crc_table[k - 1][i] >> 8) ^ crc_table[0][crc_table[k - 1][i] & 0xff];
}

guint32
fs_crc32c (guint32 crc, const void *data, gsize bytes)
{
  pthread_once (&crc_once, crc_init);
  const guint8 *at = data;
  crc = ~crc;
  for (; bytes >= 8; bytes -= 8, at += 8)
    {
      guint64 word;
      memcpy (&word, at, 8);
      word = GUINT64_FROM_LE (word) ^ crc;
      crc = 0;
      for (guint k = 0; k < 8; k++)
        crc ^= crc_table[7 - k][(word >> (8 * k)) & 0xff];
    }
  for (; bytes > 0; bytes--, at++)
    crc = (crc >> 8) ^ crc_table[0][(crc ^ *at) & 0xff];
  return ~crc;
}

/* -------- bytes -------- */

/* FALSE: no memory. */
static gboolean
need_bounce (FsWorker *worker)
{
  if (worker->bounce == NULL && posix_memalign (&worker->bounce, 65536, FS_BOUNCE) != 0)
    worker->bounce = NULL;
  return worker->bounce != NULL;
}

void
fs_worker_clear (FsWorker *worker)
{
  free (worker->bounce);
  worker->bounce = NULL;
  fs_worker_close_spare (worker);
}

/* O_DIRECT was promised and refused: the rest, and all that follows, goes through the page cache. */
static void
give_up_direct (Fs *fs, int fd, const char *what)
{
  int flags = fcntl (fd, F_GETFL);
  if (flags >= 0)
    fcntl (fd, F_SETFL, flags & ~O_DIRECT);
  if (atomic_exchange (&fs->direct, FALSE))
    fs_say (fs, "use_odirect", "fs: %s: use_odirect: %s was refused, buffered from here on", fs->path, what);
}

/* One pwrite of as much as may go from @at: directly where address and length allow, else through the bounce buffer, which is
 * filled up with zeros to the alignment. @done: bytes of the object that went. */
static int
write_some (Fs *fs, FsWorker *worker, int fd, const char *at, guint64 left, guint64 offset, gboolean direct, guint64 *done)
{
  const void *from = at;
  guint64 n = MIN (left, G_GUINT64_CONSTANT (0x40000000));
  guint64 useful;
  gboolean straight = at != NULL && (!direct || ((guintptr)at % fs->direct_memory == 0 && n >= fs->direct_offset));
  if (straight)
    {
      if (direct)
        n -= n % fs->direct_offset;
      useful = n;
    }
  else
    {
      if (!need_bounce (worker))
        return ENOMEM;
      useful = n = MIN (n, FS_BOUNCE);
      if (direct)
        n = (n + fs->direct_offset - 1) / fs->direct_offset * fs->direct_offset;
      if (at != NULL)
        memcpy (worker->bounce, at, useful);
      memset ((char *)worker->bounce + (at != NULL ? useful : 0), 0, n - (at != NULL ? useful : 0));
      from = worker->bounce;
    }
  ssize_t written;
  do
    written = pwrite (fd, from, n, (off_t)offset);
  while (written < 0 && errno == EINTR);
  if (written < 0)
    return errno;
  if (written == 0)
    return ENOSPC;
  *done = MIN ((guint64)written, useful);
  return 0;
}

int
fs_write_all (Fs *fs, FsWorker *worker, int fd, const void *buffer, guint64 bytes, gboolean direct)
{
  guint64 offset = 0;
  gboolean padded = FALSE;
  while (offset < bytes)
    {
      /* What was cut in mid-block can't go on directly. */
      if (direct && offset % fs->direct_offset != 0)
        {
          give_up_direct (fs, fd, "a whole write");
          direct = FALSE;
        }
      guint64 done = 0;
      const char *at = buffer != NULL ? (const char *)buffer + offset : NULL;
      int error = write_some (fs, worker, fd, at, bytes - offset, offset, direct, &done);
      if (error == EINVAL && direct)
        {
          give_up_direct (fs, fd, "a write");
          direct = FALSE;
          continue;
        }
      if (error != 0)
        return error;
      padded |= direct;
      offset += done;
    }
  /* The last block may have been filled up: files stay exact. */
  if (padded && bytes % fs->direct_offset != 0 && ftruncate (fd, (off_t)bytes) != 0)
    return errno;
  return 0;
}

static int
read_some (Fs *fs, FsWorker *worker, int fd, char *at, guint64 left, guint64 offset, gboolean direct, guint64 *done)
{
  guint64 n = MIN (left, G_GUINT64_CONSTANT (0x40000000));
  guint64 useful = n;
  void *to = at;
  gboolean straight = at != NULL && (!direct || ((guintptr)at % fs->direct_memory == 0 && n >= fs->direct_offset));
  if (straight && direct)
    useful = n -= n % fs->direct_offset;
  else if (!straight)
    {
      if (!need_bounce (worker))
        return ENOMEM;
      useful = n = MIN (n, FS_BOUNCE);
      if (direct)
        n = (n + fs->direct_offset - 1) / fs->direct_offset * fs->direct_offset;
      to = worker->bounce;
    }
  ssize_t got;
  do
    got = pread (fd, to, n, (off_t)offset);
  while (got < 0 && errno == EINTR);
  if (got < 0)
    return errno;
  if (got == 0)
    return FS_SHORT;
  *done = MIN ((guint64)got, useful);
  if (!straight && at != NULL)
    memcpy (at, worker->bounce, *done);
  return 0;
}

int
fs_read_all (Fs *fs, FsWorker *worker, int fd, void *buffer, guint64 bytes, gboolean direct)
{
  guint64 offset = 0;
  while (offset < bytes)
    {
      if (direct && offset % fs->direct_offset != 0)
        {
          /* A read that ended in mid-block: the file ends there. */
          int flags = fcntl (fd, F_GETFL);
          if (flags < 0 || fcntl (fd, F_SETFL, flags & ~O_DIRECT) != 0)
            return errno;
          direct = FALSE;
        }
      guint64 done = 0;
      char *at = buffer != NULL ? (char *)buffer + offset : NULL;
      int error = read_some (fs, worker, fd, at, bytes - offset, offset, direct, &done);
      if (error == EINVAL && direct)
        {
          give_up_direct (fs, fd, "a read");
          direct = FALSE;
          continue;
        }
      if (error != 0)
        return error;
      offset += done;
    }
  return 0;
}
