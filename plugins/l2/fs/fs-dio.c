/* SPDX-License-Identifier: Apache-2.0 */

/* Alone in a file: the members stx_dio_* are in the kernel's header only (glibc 2.36 has none), and that header and <sys/stat.h>
 * can't be included together. */
#include <fcntl.h>
#include <linux/stat.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <glib.h>

gboolean fs_dio_align (int fd, guint64 *memory, guint64 *offset);

gboolean
fs_dio_align (int fd, guint64 *memory, guint64 *offset)
{
  struct statx st;
  memset (&st, 0, sizeof st);
#ifdef STATX_DIOALIGN
  if (syscall (SYS_statx, fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &st) == 0 && (st.stx_mask & STATX_DIOALIGN) != 0)
    {
      *memory = st.stx_dio_mem_align;
      *offset = st.stx_dio_offset_align;
      return *memory != 0 && *offset != 0;
    }
#endif
  /* An older kernel, or a file system that doesn't say: one block, 4096 at least, and the first write will tell. */
  if (syscall (SYS_statx, fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS, &st) != 0)
    return FALSE;
  *memory = *offset = st.stx_blksize >= 4096 && st.stx_blksize <= 65536 ? st.stx_blksize : 4096;
  int flags = fcntl (fd, F_GETFL);
  if (flags < 0 || fcntl (fd, F_SETFL, flags | O_DIRECT) != 0)
    return FALSE;
  fcntl (fd, F_SETFL, flags);
  return TRUE;
}
