/* SPDX-License-Identifier: Apache-2.0 */
#include "lmt-reader.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

enum
{
  BUFFER_BYTES = 256 * 1024,
  PACKED_BYTES = 64 * 1024,
  /* A killed zstd file decodes up to its last whole frame (trace-format.md 10). */
  ZSTD_FRAME_BYTES = 4 * 1024 * 1024,
};

struct _LmtWriter
{
  char *shown;
  int fd;
  gboolean is_stdout;
  gboolean gzip;
  ZSTD_CCtx *zstd;
  gsize zstd_frame; /* bytes in the open zstd frame */
  z_stream zlib;
  GByteArray *pending;
  guint8 *packed;
  GError *error; /* the first; it sticks */
};

static gboolean
failed (LmtWriter *writer, gint code, const char *what, const char *why)
{
  if (writer->error == NULL)
    g_set_error (&writer->error, LMT_ERROR, code, "%s: %s: %s", writer->shown, what, why);
  return FALSE;
}

/* What went wrong first, each time again. */
static gboolean
result (LmtWriter *writer, GError **error)
{
  if (writer->error == NULL)
    return TRUE;
  if (error != NULL)
    *error = g_error_copy (writer->error);
  return FALSE;
}

LmtWriter *
lmt_writer_new (const char *path, GError **error)
{
  g_autofree char *shown = NULL;
  LmtWriter *writer;
  gboolean is_stdout;
  int fd = STDOUT_FILENO;

  g_return_val_if_fail (path != NULL, NULL);

  shown = g_filename_display_name (path);
  is_stdout = strcmp (path, "-") == 0;
  if (!is_stdout)
    fd = open (path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd < 0)
    {
      g_set_error (error, LMT_ERROR, LMT_ERROR_IO, "%s: cannot open for writing: %s", shown, g_strerror (errno));
      if (error != NULL)
        lmt_error_set_place (*error, path, -1);
      return NULL;
    }
  writer = g_new0 (LmtWriter, 1);
  writer->shown = g_steal_pointer (&shown);
  writer->fd = fd;
  writer->is_stdout = is_stdout;
  writer->pending = g_byte_array_sized_new (BUFFER_BYTES);
  writer->packed = g_malloc (PACKED_BYTES);
  if (g_str_has_suffix (path, ".gz"))
    {
      writer->gzip = deflateInit2 (&writer->zlib, Z_DEFAULT_COMPRESSION, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK;
      if (!writer->gzip)
        failed (writer, LMT_ERROR_IO, "gzip", "out of memory");
    }
  else if (g_str_has_suffix (path, ".zst"))
    {
      writer->zstd = ZSTD_createCCtx ();
      if (writer->zstd == NULL)
        failed (writer, LMT_ERROR_IO, "zstd", "out of memory");
      else
        ZSTD_CCtx_setParameter (writer->zstd, ZSTD_c_checksumFlag, 1);
    }
  return writer;
}

static gboolean
write_raw (LmtWriter *writer, const guint8 *data, gsize len)
{
  while (len > 0 && writer->error == NULL)
    {
      gssize n = write (writer->fd, data, len);

      if (n < 0 && errno == EINTR)
        continue;
      if (n <= 0)
        return failed (writer, LMT_ERROR_IO, "cannot write", g_strerror (n < 0 ? errno : ENOSPC));
      data += n;
      len -= (gsize)n;
    }
  return writer->error == NULL;
}

static gboolean
write_gzip (LmtWriter *writer, gboolean finish)
{
  z_stream *z = &writer->zlib;
  int code;

  z->next_in = writer->pending->data;
  z->avail_in = writer->pending->len;
  do
    {
      z->next_out = writer->packed;
      z->avail_out = PACKED_BYTES;
      code = deflate (z, finish ? Z_FINISH : Z_NO_FLUSH);
      if (code == Z_STREAM_ERROR)
        return failed (writer, LMT_ERROR_IO, "gzip", "stream error");
      if (!write_raw (writer, writer->packed, PACKED_BYTES - z->avail_out))
        return FALSE;
    }
  while (z->avail_out == 0 || (finish && code != Z_STREAM_END));
  return TRUE;
}

static gboolean
write_zstd (LmtWriter *writer, gboolean finish)
{
  ZSTD_inBuffer in = { writer->pending->data, writer->pending->len, 0 };
  gsize left;

  writer->zstd_frame += in.size;
  finish = finish || writer->zstd_frame >= ZSTD_FRAME_BYTES;
  do
    {
      ZSTD_outBuffer out = { writer->packed, PACKED_BYTES, 0 };

      left = ZSTD_compressStream2 (writer->zstd, &out, &in, finish ? ZSTD_e_end : ZSTD_e_continue);
      if (ZSTD_isError (left))
        return failed (writer, LMT_ERROR_IO, "zstd", ZSTD_getErrorName (left));
      if (!write_raw (writer, writer->packed, out.pos))
        return FALSE;
    }
  while (in.pos < in.size || (finish && left != 0));
  if (finish)
    writer->zstd_frame = 0;
  return TRUE;
}

static gboolean
flush (LmtWriter *writer, gboolean finish)
{
  gboolean ok;

  if (writer->error != NULL)
    return FALSE;
  if (writer->gzip)
    ok = write_gzip (writer, finish);
  else if (writer->zstd != NULL)
    ok = (writer->pending->len == 0 && writer->zstd_frame == 0) || write_zstd (writer, finish);
  else
    ok = write_raw (writer, writer->pending->data, writer->pending->len);
  g_byte_array_set_size (writer->pending, 0);
  return ok;
}

static gboolean
flush_if_full (LmtWriter *writer, GError **error)
{
  if (writer->pending->len >= BUFFER_BYTES)
    flush (writer, FALSE);
  return result (writer, error);
}

gboolean
lmt_writer_header (LmtWriter *writer, const LmtHeaderFields *fields, GError **error)
{
  g_return_val_if_fail (writer != NULL && fields != NULL, FALSE);

  lmt_header_encode (fields, writer->pending);
  return flush_if_full (writer, error);
}

gboolean
lmt_writer_frame (LmtWriter *writer, LmtSpan frame, GError **error)
{
  g_return_val_if_fail (writer != NULL, FALSE);
  g_return_val_if_fail (frame.len <= LMT_FRAME_PREFIX_BYTES + (gsize)G_MAXUINT32, FALSE);

  if (frame.len >= BUFFER_BYTES && !writer->gzip && writer->zstd == NULL)
    {
      /* No detour through the buffer for what is larger than it. */
      if (flush (writer, FALSE))
        write_raw (writer, frame.data, frame.len);
      return result (writer, error);
    }
  g_byte_array_append (writer->pending, frame.data, (guint)frame.len);
  return flush_if_full (writer, error);
}

gboolean
lmt_writer_record (LmtWriter *writer, double t_mono, double t_wall, LmtSpan qualname, LmtSpan args, GError **error)
{
  g_return_val_if_fail (writer != NULL, FALSE);

  lmt_record_encode (t_mono, t_wall, qualname, args, writer->pending);
  return flush_if_full (writer, error);
}

gboolean
lmt_writer_flush (LmtWriter *writer, GError **error)
{
  g_return_val_if_fail (writer != NULL, FALSE);

  flush (writer, writer->zstd != NULL);
  return result (writer, error);
}

gboolean
lmt_writer_close (LmtWriter *writer, GError **error)
{
  struct stat st;
  gboolean ok;

  g_return_val_if_fail (writer != NULL, FALSE);

  flush (writer, TRUE);
  if (writer->error == NULL && fstat (writer->fd, &st) == 0 && S_ISREG (st.st_mode) && fsync (writer->fd) != 0)
    failed (writer, LMT_ERROR_IO, "cannot write", g_strerror (errno));
  if (!writer->is_stdout && close (writer->fd) != 0)
    failed (writer, LMT_ERROR_IO, "cannot close", g_strerror (errno));
  ok = result (writer, error);

  if (writer->gzip)
    deflateEnd (&writer->zlib);
  if (writer->zstd != NULL)
    ZSTD_freeCCtx (writer->zstd);
  g_byte_array_unref (writer->pending);
  g_clear_error (&writer->error);
  g_free (writer->packed);
  g_free (writer->shown);
  g_free (writer);
  return ok;
}
