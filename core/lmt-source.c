/* SPDX-License-Identifier: Apache-2.0 */
#include "lmt-source.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

enum
{
  MAGIC_BYTES = 4,
  PACKED_BYTES = 64 * 1024,
  ZSTD_WINDOW_LOG_MAX = 23, /* 8 MiB */
  FOLLOW_STEP_MS = 20,
  PIPE_STEP_MS = 100, /* how late an interrupt is seen that came just before the wait */
};

typedef enum
{
  FORM_UNKNOWN = 0, /* nothing read yet */
  FORM_PLAIN,
  FORM_GZIP,
  FORM_ZSTD,
} Form;

struct _LmtSource
{
  char *shown;
  int fd; /* -1: memory */
  gboolean close_fd;
  gboolean seekable;
  gboolean regular;
  const guint8 *memory;
  gsize memory_len;
  guint64 position;

  gboolean follow;
  gint64 idle_ns;
  const volatile gint *interrupts;

  Form form;
  guint8 *packed; /* read, not yet unpacked */
  gsize packed_pos;
  gsize packed_end;
  gboolean raw_end;
  gboolean inside; /* a compressed stream has begun and not ended */
  gboolean ends_early;
  const char *damaged; /* gzip: reported once what came before it was handed out */
  char *error;
  z_stream zlib;
  ZSTD_DCtx *zstd;
};

static gboolean
interrupted (const LmtSource *source)
{
  return source->interrupts != NULL && *source->interrupts != 0;
}

static gssize
fail (LmtSource *source, const char *what, const char *why)
{
  g_clear_pointer (&source->error, g_free);
  source->error = g_strdup_printf ("%s: %s", what, why);
  return -1;
}

LmtSource *
lmt_source_open (const char *path, const char *shown, GError **error)
{
  LmtSource *source;
  struct stat st;
  int fd = STDIN_FILENO;
  gboolean is_stdin = strcmp (path, "-") == 0;

  /* Not blocking: a FIFO nobody writes yet is waited for in the first read, where an interrupt is seen. */
  if (!is_stdin)
    fd = open (path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0 || fstat (fd, &st) != 0)
    {
      g_set_error (error, LMT_ERROR, LMT_ERROR_IO, "%s: cannot open: %s", shown, g_strerror (errno));
      if (error != NULL)
        lmt_error_set_place (*error, path, -1);
      if (fd >= 0 && !is_stdin)
        close (fd);
      return NULL;
    }
  source = g_new0 (LmtSource, 1);
  source->shown = g_strdup (shown);
  source->fd = fd;
  source->close_fd = !is_stdin;
  source->regular = S_ISREG (st.st_mode);
  /* A redirected stdin may stand anywhere: only from its start it can be read again as a file. */
  source->seekable = lseek (fd, 0, SEEK_CUR) == 0;
  source->packed = g_malloc (PACKED_BYTES);
#ifdef POSIX_FADV_SEQUENTIAL
  posix_fadvise (fd, 0, 0, POSIX_FADV_SEQUENTIAL);
#endif
  return source;
}

LmtSource *
lmt_source_new_for_bytes (gconstpointer data, gsize len, const char *shown)
{
  LmtSource *source = g_new0 (LmtSource, 1);

  source->shown = g_strdup (shown);
  source->fd = -1;
  source->memory = data;
  source->memory_len = len;
  source->seekable = TRUE;
  source->packed = g_malloc (PACKED_BYTES);
  return source;
}

static void
end_unpacking (LmtSource *source)
{
  if (source->form == FORM_GZIP)
    inflateEnd (&source->zlib);
  if (source->form == FORM_ZSTD)
    g_clear_pointer (&source->zstd, ZSTD_freeDCtx);
  source->form = FORM_UNKNOWN;
}

void
lmt_source_free (LmtSource *source)
{
  if (source == NULL)
    return;
  end_unpacking (source);
  if (source->close_fd)
    close (source->fd);
  g_free (source->packed);
  g_free (source->error);
  g_free (source->shown);
  g_free (source);
}

void
lmt_source_set_follow (LmtSource *source, gboolean follow, gint64 idle_ns)
{
  source->follow = follow && source->regular; /* a pipe waits by itself, and ends when its last writer is gone */
  source->idle_ns = idle_ns;
}

void
lmt_source_set_interrupts (LmtSource *source, const volatile gint *interrupts)
{
  source->interrupts = interrupts;
}

/* A pipe: FALSE: interrupted before there was something to read, or its end. */
static gboolean
wait_readable (LmtSource *source)
{
  struct pollfd wait = { source->fd, POLLIN, 0 };

  while (!interrupted (source))
    {
      int n = poll (&wait, 1, source->interrupts != NULL ? PIPE_STEP_MS : -1);

      if (n > 0 || (n < 0 && errno != EINTR))
        return TRUE; /* whatever is wrong, read() says it better */
    }
  return FALSE;
}

static gssize
read_descriptor (LmtSource *source, guint8 *data, gsize len)
{
  for (;;)
    {
      gssize n;

      if (interrupted (source) || (!source->regular && !wait_readable (source)))
        return 0;
      n = read (source->fd, data, len);
      if (n >= 0)
        return n;
      if (errno != EINTR && errno != EAGAIN)
        return fail (source, "cannot read", g_strerror (errno));
    }
}

/* Bytes of the file as they are; 0 only at the end for good. */
static gssize
read_raw (LmtSource *source, guint8 *data, gsize len)
{
  gint64 waited_ns = 0;

  if (source->fd < 0)
    {
      gsize n = MIN (len, source->memory_len - (gsize)source->position);

      memcpy (data, source->memory + source->position, n);
      source->position += n;
      return (gssize)n;
    }
  for (;;)
    {
      gssize n = read_descriptor (source, data, len);

      if (n != 0)
        {
          source->position += n > 0 ? (guint64)n : 0;
          return n;
        }
      if (!source->follow || interrupted (source) || (source->idle_ns > 0 && waited_ns >= source->idle_ns))
        return 0;
      g_usleep (FOLLOW_STEP_MS * 1000);
      waited_ns += FOLLOW_STEP_MS * G_GINT64_CONSTANT (1000000);
    }
}

/* More packed bytes behind those not yet taken. FALSE: error. At the end raw_end is set. */
static gboolean
fill_packed (LmtSource *source)
{
  gssize n;

  if (source->packed_pos > 0)
    {
      memmove (source->packed, source->packed + source->packed_pos, source->packed_end - source->packed_pos);
      source->packed_end -= source->packed_pos;
      source->packed_pos = 0;
    }
  n = read_raw (source, source->packed + source->packed_end, PACKED_BYTES - source->packed_end);
  if (n < 0)
    return FALSE;
  source->packed_end += (gsize)n;
  source->raw_end = n == 0;
  return TRUE;
}

static gboolean
find_form (LmtSource *source)
{
  const guint8 *m = source->packed;

  while (source->packed_end < MAGIC_BYTES && !source->raw_end)
    if (!fill_packed (source))
      return FALSE;
  source->form = FORM_PLAIN;
  if (source->packed_end >= 2 && m[0] == 0x1f && m[1] == 0x8b)
    {
      memset (&source->zlib, 0, sizeof source->zlib);
      if (inflateInit2 (&source->zlib, 15 + 16) != Z_OK)
        return fail (source, "gzip", "out of memory") == 0;
      source->form = FORM_GZIP;
      source->inside = TRUE;
    }
  else if (source->packed_end >= MAGIC_BYTES
           && ((m[0] == 0x28 && m[1] == 0xb5 && m[2] == 0x2f && m[3] == 0xfd)
               || ((m[0] & 0xf0) == 0x50 && m[1] == 0x2a && m[2] == 0x4d && m[3] == 0x18)))
    {
      source->zstd = ZSTD_createDCtx ();
      if (source->zstd == NULL)
        return fail (source, "zstd", "out of memory") == 0;
      ZSTD_DCtx_setParameter (source->zstd, ZSTD_d_windowLogMax, ZSTD_WINDOW_LOG_MAX);
      source->form = FORM_ZSTD;
    }
  return TRUE;
}

/* Behind a gzip member: another one, padding, or the end. FALSE: error. */
static gboolean
next_member (LmtSource *source)
{
  source->inside = FALSE;
  for (;;)
    {
      while (source->packed_pos < source->packed_end && source->packed[source->packed_pos] == 0)
        source->packed_pos++;
      if (source->packed_pos < source->packed_end)
        break;
      if (source->raw_end)
        return TRUE;
      if (!fill_packed (source))
        return FALSE;
    }
  if (source->packed[source->packed_pos] != 0x1f || inflateReset (&source->zlib) != Z_OK)
    source->damaged = "other bytes behind the compressed stream";
  source->inside = TRUE;
  return TRUE;
}

static gssize
read_gzip (LmtSource *source, guint8 *data, gsize len)
{
  z_stream *z = &source->zlib;

  z->next_out = data;
  z->avail_out = (uInt)MIN (len, G_MAXINT32);
  while (z->next_out == data)
    {
      int code;

      if (source->damaged != NULL)
        return fail (source, "gzip", source->damaged);
      if (source->packed_pos == source->packed_end && !source->raw_end && !fill_packed (source))
        return -1;
      if (source->packed_pos == source->packed_end)
        {
          source->ends_early = source->inside;
          return 0;
        }
      z->next_in = source->packed + source->packed_pos;
      z->avail_in = (uInt)(source->packed_end - source->packed_pos);
      code = inflate (z, Z_NO_FLUSH);
      source->packed_pos = source->packed_end - z->avail_in;
      if (code == Z_STREAM_END)
        {
          if (!next_member (source) && z->next_out == data)
            return -1;
          if (!source->inside)
            break;
        }
      else if (code != Z_OK && code != Z_BUF_ERROR)
        source->damaged = z->msg != NULL ? z->msg : "damaged";
    }
  return z->next_out - data;
}

static gssize
read_zstd (LmtSource *source, guint8 *data, gsize len)
{
  ZSTD_outBuffer out = { data, len, 0 };

  while (out.pos == 0)
    {
      ZSTD_inBuffer in = { source->packed, source->packed_end, source->packed_pos };
      gsize code;

      if (in.pos == in.size && !source->raw_end)
        {
          if (!fill_packed (source))
            return -1;
          continue;
        }
      code = ZSTD_decompressStream (source->zstd, &out, &in);
      if (ZSTD_isError (code))
        return ZSTD_getErrorCode (code) == ZSTD_error_frameParameter_windowTooLarge
                   ? fail (source, "zstd", "window above 8 MiB: compress again without --long and --ultra")
                   : fail (source, "zstd", ZSTD_getErrorName (code));
      if (in.pos > source->packed_pos || out.pos > 0)
        source->inside = code != 0;
      else if (in.pos == in.size)
        {
          source->ends_early = source->inside;
          return 0;
        }
      source->packed_pos = in.pos;
    }
  return (gssize)out.pos;
}

gssize
lmt_source_read (LmtSource *source, guint8 *data, gsize len)
{
  if (source->error != NULL)
    return -1;
  if (source->form == FORM_UNKNOWN && !find_form (source))
    return -1;
  switch (source->form)
    {
    case FORM_GZIP:
      return read_gzip (source, data, len);
    case FORM_ZSTD:
      return read_zstd (source, data, len);
    default:
      if (source->packed_pos < source->packed_end)
        {
          gsize n = MIN (len, source->packed_end - source->packed_pos);

          memcpy (data, source->packed + source->packed_pos, n);
          source->packed_pos += n;
          return (gssize)n;
        }
      return source->raw_end ? 0 : read_raw (source, data, len);
    }
}

gboolean
lmt_source_ends_early (const LmtSource *source)
{
  return source->ends_early;
}

const char *
lmt_source_get_error (const LmtSource *source)
{
  return source->error;
}

guint64
lmt_source_get_size (const LmtSource *source)
{
  struct stat st;

  if (source->fd < 0)
    return source->memory_len;
  if (!source->regular || fstat (source->fd, &st) != 0)
    return 0;
  return (guint64)st.st_size;
}

guint64
lmt_source_get_position (const LmtSource *source)
{
  return source->position - (source->packed_end - source->packed_pos);
}

gboolean
lmt_source_is_compressed (const LmtSource *source)
{
  return source->form == FORM_GZIP || source->form == FORM_ZSTD;
}

gboolean
lmt_source_is_following (const LmtSource *source)
{
  return source->follow;
}

gboolean
lmt_source_is_seekable (const LmtSource *source)
{
  return source->seekable;
}

gboolean
lmt_source_rewind (LmtSource *source, GError **error)
{
  if (!source->seekable || (source->fd >= 0 && lseek (source->fd, 0, SEEK_SET) != 0))
    {
      g_set_error (error, LMT_ERROR, LMT_ERROR_UNSUPPORTED, "%s: cannot go back to the start: not a file", source->shown);
      return FALSE;
    }
  end_unpacking (source);
  source->position = 0;
  source->packed_pos = source->packed_end = 0;
  source->raw_end = source->inside = source->ends_early = FALSE;
  source->damaged = NULL;
  g_clear_pointer (&source->error, g_free);
  return TRUE;
}
