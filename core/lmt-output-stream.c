/* SPDX-License-Identifier: Apache-2.0 */
#include "lmt-output.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

/* A stream of stdio whose bytes are packed on their way: whoever writes lines needs to know nothing about it. */
typedef struct
{
  int fd;
  z_stream zlib;
  gboolean is_gzip;
  ZSTD_CCtx *zstd;
  guint8 packed[64 * 1024];
} PackedStream;

static gboolean
write_all (int fd, const guint8 *data, gsize len)
{
  while (len > 0)
    {
      gssize n = write (fd, data, len);
      if (n < 0 && errno == EINTR)
        continue;
      if (n <= 0)
        return FALSE;
      data += n;
      len -= (gsize)n;
    }
  return TRUE;
}

static gboolean
pack_gzip (PackedStream *stream, const char *data, gsize len, gboolean end)
{
  z_stream *z = &stream->zlib;

  z->next_in = (Bytef *)(gpointer)data;
  z->avail_in = (uInt)len;
  do
    {
      z->next_out = stream->packed;
      z->avail_out = sizeof stream->packed;
      if (deflate (z, end ? Z_FINISH : Z_NO_FLUSH) == Z_STREAM_ERROR)
        {
          errno = EIO;
          return FALSE;
        }
      if (!write_all (stream->fd, stream->packed, sizeof stream->packed - z->avail_out))
        return FALSE;
    }
  while (z->avail_out == 0);
  return TRUE;
}

static gboolean
pack_zstd (PackedStream *stream, const char *data, gsize len, gboolean end)
{
  ZSTD_inBuffer in = { data, len, 0 };
  gsize left;

  do
    {
      ZSTD_outBuffer out = { stream->packed, sizeof stream->packed, 0 };
      left = ZSTD_compressStream2 (stream->zstd, &out, &in, end ? ZSTD_e_end : ZSTD_e_continue);
      if (ZSTD_isError (left))
        {
          errno = EIO;
          return FALSE;
        }
      if (!write_all (stream->fd, stream->packed, out.pos))
        return FALSE;
    }
  while (in.pos < in.size || (end && left > 0));
  return TRUE;
}

static gboolean
pack (PackedStream *stream, const char *data, gsize len, gboolean end)
{
  return stream->is_gzip ? pack_gzip (stream, data, len, end) : pack_zstd (stream, data, len, end);
}

static gssize
packed_write (void *cookie, const char *data, gsize len)
{
  gsize piece = MIN (len, 1u << 30);
  return pack (cookie, data, piece, FALSE) ? (gssize)piece : -1;
}

static int
packed_close (void *cookie)
{
  PackedStream *stream = cookie;
  gboolean good = pack (stream, NULL, 0, TRUE);
  int code = errno;

  if (close (stream->fd) != 0 && good)
    {
      good = FALSE;
      code = errno;
    }
  if (stream->is_gzip)
    deflateEnd (&stream->zlib);
  ZSTD_freeCCtx (stream->zstd);
  g_free (stream);
  errno = code;
  return good ? 0 : -1;
}

gboolean
lmt_output_is_packed (const char *path)
{
  return g_str_has_suffix (path, ".gz") || g_str_has_suffix (path, ".zst");
}

FILE *
lmt_output_open_stream (int fd, const char *path)
{
  cookie_io_functions_t functions = { .write = packed_write, .close = packed_close };
  PackedStream *stream;
  FILE *file;

  g_return_val_if_fail (fd >= 0 && path != NULL, NULL);
  if (!lmt_output_is_packed (path))
    return fdopen (fd, "w");
  stream = g_new0 (PackedStream, 1);
  stream->fd = fd;
  stream->is_gzip = g_str_has_suffix (path, ".gz");
  /* 15 + 16: the largest window, in a gzip frame */
  if (stream->is_gzip ? deflateInit2 (&stream->zlib, Z_DEFAULT_COMPRESSION, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK
                      : (stream->zstd = ZSTD_createCCtx ()) == NULL)
    {
      g_free (stream);
      errno = ENOMEM;
      return NULL;
    }
  file = fopencookie (stream, "w", functions);
  if (file == NULL)
    {
      int code = errno;
      if (stream->is_gzip)
        deflateEnd (&stream->zlib);
      ZSTD_freeCCtx (stream->zstd);
      g_free (stream);
      errno = code;
    }
  return file;
}
