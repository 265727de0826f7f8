/* SPDX-License-Identifier: Apache-2.0 */
/* Where a recorder's frames go: whole frames only, in whole compressed frames, one file after another. */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include "lmt-output-private.h"
#include "lmt-recorder-private.h"

enum
{
  /* trace-format.md 10: a killed file decodes up to the last whole one. */
  PACK_BYTES = 4 * 1024 * 1024,
  PACK_NS = 1000000000,
};

typedef enum
{
  PLAIN = 0,
  GZIP,
  ZSTD
} Packing;

struct _LmtTraceFile
{
  char *path; /* of the first */
  char **inputs;
  guint64 rotate_bytes;
  Packing packing;

  char *shown; /* of the one that is open */
  int fd;
  gboolean regular;
  guint64 offset; /* bytes in it, all of them whole frames */
  gboolean empty; /* nothing but a header in it */

  GByteArray *header;
  ZSTD_CCtx *zstd;
  LmtPack raw; /* frames of the compressed frame that is being gathered */
  guint64 raw_records;
  gint64 raw_since_ns;
  LmtPack packed;

  guint64 lost;
  LmtTraceFileFigures figures;
};

static gint64
now_ns (void)
{
  struct timespec ts;

  clock_gettime (CLOCK_MONOTONIC, &ts);
  return (gint64)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

/* Of rotation: PATH, PATH.1, PATH.2 … */
static gboolean
open_next (LmtTraceFile *file, GError **error)
{
  g_autofree char *path
      = file->figures.files == 0 ? g_strdup (file->path) : g_strdup_printf ("%s.%u", file->path, file->figures.files);
  struct stat st;

  g_free (file->shown);
  file->shown = g_filename_display_name (path);
  if (!lmt_output_check_inputs ("recording", path, (const char *const *)file->inputs, error))
    return FALSE;
  file->fd = strcmp (path, "-") == 0 ? fcntl (STDOUT_FILENO, F_DUPFD_CLOEXEC, 3)
                                     : open (path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file->fd < 0)
    {
      g_set_error (error, LMT_ERROR, LMT_ERROR_IO, "%s: cannot open for writing: %s", file->shown, g_strerror (errno));
      if (error != NULL)
        lmt_error_set_place (*error, path, -1);
      return FALSE;
    }
  file->regular = fstat (file->fd, &st) == 0 && S_ISREG (st.st_mode);
  file->offset = 0;
  file->empty = TRUE;
  file->figures.files++;
  return TRUE;
}

LmtTraceFile *
lmt_trace_file_new (const LmtRecorderParams *params, GError **error)
{
  LmtTraceFile *file = g_new0 (LmtTraceFile, 1);

  file->path = g_strdup (params->path);
  file->inputs = g_strdupv ((char **)params->inputs);
  file->rotate_bytes = params->rotate_bytes;
  file->fd = -1;
  lmt_pack_init (&file->raw);
  lmt_pack_init (&file->packed);
  if (g_str_has_suffix (params->path, ".zst"))
    {
      file->packing = ZSTD;
      file->zstd = ZSTD_createCCtx ();
      ZSTD_CCtx_setParameter (file->zstd, ZSTD_c_checksumFlag, 1);
    }
  else if (g_str_has_suffix (params->path, ".gz"))
    file->packing = GZIP;
  if (!open_next (file, error))
    g_clear_pointer (&file, lmt_trace_file_free);
  return file;
}

void
lmt_trace_file_free (LmtTraceFile *file)
{
  if (file == NULL)
    return;
  if (file->fd >= 0)
    close (file->fd);
  if (file->header != NULL)
    g_byte_array_unref (file->header);
  ZSTD_freeCCtx (file->zstd);
  lmt_pack_clear (&file->raw);
  lmt_pack_clear (&file->packed);
  g_strfreev (file->inputs);
  g_free (file->shown);
  g_free (file->path);
  g_free (file);
}

/* Bytes of whole frames in the first @len, and how many of them. */
static gsize
whole_frames (const guint8 *data, gsize len, guint64 *n)
{
  gsize at = 0;

  *n = 0;
  while (len - at >= LMT_FRAME_PREFIX_BYTES)
    {
      guint64 frame = LMT_FRAME_PREFIX_BYTES + (guint64)lmt_read_be32 (data + at);

      if (frame > len - at)
        break;
      at += frame;
      ++*n;
    }
  return at;
}

/* @written: (out): how much of it is in the file, where that is not all. One write, but for what the system cuts short. */
static gboolean
write_all (LmtTraceFile *file, const guint8 *data, gsize len, gsize *written, GError **error)
{
  *written = 0;
  while (*written < len)
    {
      gssize n = write (file->fd, data + *written, len - *written);

      if (n < 0 && errno == EINTR)
        continue;
      if (n <= 0)
        {
          const int number = n < 0 ? errno : ENOSPC;

          if (number == EPIPE && strcmp (file->path, "-") == 0)
            lmt_output_note_stdout_closed ();
          g_set_error (error, LMT_ERROR, LMT_ERROR_IO, "%s: cannot write: %s", file->shown, g_strerror (number));
          return FALSE;
        }
      *written += (gsize)n;
    }
  return TRUE;
}

/* Takes back the last @n bytes. What can't be taken back from a pipe stays in it. Where stdout is a file, ours may not begin at
 * its start, and somebody else may write behind it. */
static void
cut_back (LmtTraceFile *file, gsize n)
{
  off_t at = lseek (file->fd, 0, SEEK_CUR);
  struct stat st;

  if (!file->regular || n == 0 || at < (off_t)n || fstat (file->fd, &st) != 0 || st.st_size != at)
    return;
  if (ftruncate (file->fd, at - (off_t)n) == 0)
    lseek (file->fd, at - (off_t)n, SEEK_SET);
}

static void
add_figures (LmtTraceFile *file, guint64 records, guint64 bytes, guint64 file_bytes)
{
  file->figures.records += records;
  file->figures.bytes += bytes;
  file->figures.file_bytes += file_bytes;
  file->offset += file_bytes;
}

static gboolean
write_plain (LmtTraceFile *file, const guint8 *data, gsize len, guint64 n, gboolean is_header, GError **error)
{
  gsize written, kept;
  guint64 whole = 0;

  if (write_all (file, data, len, &written, error))
    {
      add_figures (file, n, len, len);
      return TRUE;
    }
  kept = whole_frames (data, written, &whole);
  add_figures (file, is_header ? 0 : whole, kept, kept);
  file->lost += is_header ? 0 : n - whole;
  cut_back (file, written - kept);
  return FALSE;
}

static gboolean
pack_gzip (LmtTraceFile *file, GError **error)
{
  z_stream z = { 0 };
  int code;

  if (deflateInit2 (&z, Z_DEFAULT_COMPRESSION, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK)
    {
      g_set_error (error, LMT_ERROR, LMT_ERROR_IO, "%s: gzip: out of memory", file->shown);
      return FALSE;
    }
  lmt_pack_ensure (&file->packed, deflateBound (&z, file->raw.len));
  z.next_in = file->raw.data;
  z.avail_in = (uInt)file->raw.len;
  z.next_out = file->packed.data;
  z.avail_out = (uInt)file->packed.max;
  code = deflate (&z, Z_FINISH);
  file->packed.len = z.total_out;
  deflateEnd (&z);
  if (code == Z_STREAM_END)
    return TRUE;
  g_set_error (error, LMT_ERROR, LMT_ERROR_IO, "%s: gzip: stream error", file->shown);
  return FALSE;
}

static gboolean
pack_zstd (LmtTraceFile *file, GError **error)
{
  gsize n;

  lmt_pack_ensure (&file->packed, ZSTD_compressBound (file->raw.len));
  n = ZSTD_compress2 (file->zstd, file->packed.data, file->packed.max, file->raw.data, file->raw.len);
  if (ZSTD_isError (n))
    {
      g_set_error (error, LMT_ERROR, LMT_ERROR_IO, "%s: zstd: %s", file->shown, ZSTD_getErrorName (n));
      return FALSE;
    }
  file->packed.len = n;
  return TRUE;
}

/* What was gathered becomes one compressed frame and one write. */
static gboolean
end_pack (LmtTraceFile *file, GError **error)
{
  gsize written = 0;
  gboolean ok;

  if (file->raw.len == 0)
    return TRUE;
  file->packed.len = 0;
  ok = file->packing == GZIP ? pack_gzip (file, error) : pack_zstd (file, error);
  ok = ok && write_all (file, file->packed.data, file->packed.len, &written, error);
  if (ok)
    add_figures (file, file->raw_records, file->raw.len, file->packed.len);
  else
    {
      file->lost += file->raw_records;
      cut_back (file, written);
    }
  file->raw.len = 0;
  file->raw_records = 0;
  return ok;
}

/* What is gathered for one compressed frame; less where files are to be smaller. */
static gsize
pack_bytes (const LmtTraceFile *file)
{
  return file->rotate_bytes > 0 ? MIN (file->rotate_bytes, (guint64)PACK_BYTES) : PACK_BYTES;
}

static gboolean
put (LmtTraceFile *file, const guint8 *data, gsize len, guint64 n, gboolean is_header, GError **error)
{
  if (file->packing == PLAIN)
    return write_plain (file, data, len, n, is_header, error);
  if (file->raw.len == 0)
    file->raw_since_ns = now_ns ();
  lmt_pack_raw (&file->raw, data, len);
  file->raw_records += n;
  return file->raw.len < pack_bytes (file) || end_pack (file, error);
}

static gboolean
end_file (LmtTraceFile *file, GError **error)
{
  gboolean ok = end_pack (file, error);

  if (ok && file->regular && fsync (file->fd) != 0)
    {
      g_set_error (error, LMT_ERROR, LMT_ERROR_IO, "%s: cannot write: %s", file->shown, g_strerror (errno));
      ok = FALSE;
    }
  if (close (file->fd) != 0 && ok)
    {
      g_set_error (error, LMT_ERROR, LMT_ERROR_IO, "%s: cannot close: %s", file->shown, g_strerror (errno));
      ok = FALSE;
    }
  file->fd = -1;
  return ok;
}

gboolean
lmt_trace_file_header (LmtTraceFile *file, const LmtHeaderFields *fields, GError **error)
{
  file->header = g_byte_array_new ();
  lmt_header_encode (fields, file->header);
  /* At once also where it is compressed: a file that is there can be read. */
  return put (file, file->header->data, file->header->len, 0, TRUE, error) && end_pack (file, error);
}

/* Is this file full? Compressed ones are looked at between their frames. */
static gboolean
is_full (const LmtTraceFile *file)
{
  return file->rotate_bytes > 0 && !file->empty && file->offset >= file->rotate_bytes && file->raw.len == 0;
}

gsize
lmt_trace_file_room (const LmtTraceFile *file)
{
  if (file->rotate_bytes == 0)
    return G_MAXSIZE;
  if (file->packing != PLAIN)
    return pack_bytes (file) - file->raw.len; /* more than that is never kept */
  if (file->offset >= file->rotate_bytes)
    return file->empty || file->header == NULL || file->header->len >= file->rotate_bytes
               ? 1
               : file->rotate_bytes - file->header->len;
  return file->rotate_bytes - file->offset;
}

gboolean
lmt_trace_file_write (LmtTraceFile *file, const LmtPack *frames, guint64 n, GError **error)
{
  if (is_full (file)
      && (!end_file (file, error) || !open_next (file, error)
          || !put (file, file->header->data, file->header->len, 0, TRUE, error)))
    {
      file->lost += n;
      return FALSE;
    }
  file->empty = FALSE;
  return put (file, frames->data, frames->len, n, FALSE, error);
}

gboolean
lmt_trace_file_settle (LmtTraceFile *file, gboolean now, GError **error)
{
  if (file->raw.len == 0 || (!now && now_ns () - file->raw_since_ns < PACK_NS))
    return TRUE;
  return end_pack (file, error);
}

gboolean
lmt_trace_file_close (LmtTraceFile *file, GError **error)
{
  return file->fd < 0 || end_file (file, error);
}

const LmtTraceFileFigures *
lmt_trace_file_get_figures (const LmtTraceFile *file)
{
  return &file->figures;
}

guint64
lmt_trace_file_get_lost (const LmtTraceFile *file)
{
  return file->lost;
}
