/* SPDX-License-Identifier: Apache-2.0 */
#include "lmt-source.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum
{
  FIRST_BYTES = 4096,
  WRITER_PATIENCE_MS = 1000, /* of a pipe nobody writes to yet */
  WRITER_STEP_MS = 10,
};

/* What was read. Grows with what came, and leaves no copies behind: it may be a key or a token. */
typedef struct
{
  char *data;
  gsize len;
  gsize room;
} Text;

static void
text_free (Text *text)
{
  explicit_bzero (text->data, text->len);
  g_free (text->data);
}

static void
text_make_room (Text *text)
{
  Text more = { NULL, text->len, text->room * 2 };

  if (text->len + 1 < text->room)
    return;
  more.data = g_malloc (more.room);
  memcpy (more.data, text->data, text->len);
  text_free (text);
  *text = more;
}

static const char *
kind_of (mode_t mode)
{
  return S_ISDIR (mode) ? "a directory" : S_ISBLK (mode) ? "a block device" : "a socket";
}

/* Not blocking: a FIFO without a writer would hold us in open(). */
static int
open_whole (const char *path, const char *shown, gboolean *is_pipe, GError **error)
{
  const int fd = open (path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  struct stat st;

  if (fd < 0 || fstat (fd, &st) != 0)
    {
      g_set_error (error, LMT_ERROR, LMT_ERROR_IO, "%s: cannot open: %s", shown, g_strerror (errno));
      if (fd >= 0)
        close (fd);
      return -1;
    }
  *is_pipe = S_ISFIFO (st.st_mode);
  /* Character devices: /dev/null is how one says "none", and /dev/stdin may be a terminal. */
  if (S_ISREG (st.st_mode) || *is_pipe || S_ISCHR (st.st_mode))
    return fd;
  g_set_error (error, LMT_ERROR, LMT_ERROR_IO, "%s: expected a file or a pipe, found %s", shown, kind_of (st.st_mode));
  close (fd);
  return -1;
}

/* Bytes appended, 0: the end, -1: errno. */
static gssize
read_piece (int fd, Text *text)
{
  text_make_room (text);
  for (;;)
    {
      struct pollfd ready = { .fd = fd, .events = POLLIN };
      const gssize n = read (fd, text->data + text->len, text->room - text->len - 1);

      if (n > 0)
        text->len += (gsize)n;
      if (n >= 0 || (errno != EAGAIN && errno != EINTR))
        return n;
      /* An interrupt ends the wait for a writer that thinks. */
      if (errno == EAGAIN && poll (&ready, 1, -1) < 0)
        return -1;
    }
}

static gboolean
read_whole (int fd, gboolean is_pipe, gsize max, Text *text, const char *shown, GError **error)
{
  gssize n = 0;
  int waited = 0;

  do
    {
      n = read_piece (fd, text);
      if (n != 0 || !is_pipe || text->len > 0 || waited >= WRITER_PATIENCE_MS)
        continue;
      /* The end of a pipe looks like one that isn't written yet. */
      g_usleep (WRITER_STEP_MS * 1000);
      waited += WRITER_STEP_MS;
      n = 1;
    }
  while (n > 0 && text->len <= max);
  if (n < 0)
    g_set_error (error, LMT_ERROR, errno == EINTR ? LMT_ERROR_INTERRUPTED : LMT_ERROR_IO, "%s: cannot read: %s", shown,
                 g_strerror (errno));
  else if (text->len > max && max >= 1 << 20 && max % (1 << 20) == 0)
    g_set_error (error, LMT_ERROR, LMT_ERROR_IO, "%s: expected at most %zu MiB, found more", shown, max >> 20);
  else if (text->len > max)
    g_set_error (error, LMT_ERROR, LMT_ERROR_IO, "%s: expected at most %zu bytes, found more", shown, max);
  else if (is_pipe && text->len == 0)
    g_set_error (error, LMT_ERROR, LMT_ERROR_IO, "%s: expected a pipe somebody writes to, found none who did", shown);
  else
    return TRUE;
  return FALSE;
}

char *
lmt_source_read_whole (const char *path, gsize max, gsize *len, GError **error)
{
  g_return_val_if_fail (path != NULL && max > 0, NULL);

  g_autofree char *shown = g_filename_display_name (path);
  Text text = { g_malloc (FIRST_BYTES), 0, FIRST_BYTES };
  g_autoptr (GError) wrong = NULL;
  gboolean is_pipe = FALSE;
  const int fd = open_whole (path, shown, &is_pipe, &wrong);
  const gboolean good = fd >= 0 && read_whole (fd, is_pipe, max, &text, shown, &wrong);

  if (fd >= 0)
    close (fd);
  if (!good)
    {
      text_free (&text);
      lmt_error_set_place (wrong, path, -1);
      g_propagate_error (error, g_steal_pointer (&wrong));
      return NULL;
    }
  text.data[text.len] = '\0';
  if (len != NULL)
    *len = text.len;
  return text.data;
}
