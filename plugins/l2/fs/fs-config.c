/* SPDX-License-Identifier: Apache-2.0 */
#include "fs.h"

const LmtOption fs_options[] = {
  LMT_OPTION_FULL (STRING, "base_path", FsConfig, base_path, LMT_OPTION_REQUIRED, NULL, "nonempty", "DIR",
                   "Keep objects in this directory, made if missing", NULL),
  LMT_OPTION_FULL (STRING, "relative_tmp_dir", FsConfig, relative_tmp_dir, LMT_OPTION_NULLABLE, NULL, NULL, "DIR",
                   "Write unfinished objects below this directory of base_path", NULL),
  LMT_OPTION_FULL (UINT, "read_ahead_size", FsConfig, read_ahead_size, LMT_OPTION_NULLABLE, NULL, "1..", "BYTES",
                   "Tell the kernel to read loads ahead, buffered only; bytes of the first read in LMCache", NULL),
  LMT_OPTION (BOOL, "use_odirect", FsConfig, use_odirect, "false", NULL, "Go around the page cache (O_DIRECT)"),
  LMT_OPTION_FULL (DOUBLE, "max_capacity_gb", FsConfig, max_capacity_gb, LMT_OPTION_CAPACITY, "0", "0..", "GIB",
                   "Keep at most this much, in GiB; 0 means no limit", NULL),
  LMT_OPTION (CHOICE, "engine", FsConfig, engine, "auto", "auto|io_uring|threads|sync", "Choose who does the input and output"),
  LMT_OPTION (UINT, "depth", FsConfig, depth, "64", "1..1024", "Take at most this many operations at a time"),
  LMT_OPTION (UINT, "num_workers", FsConfig, num_workers, NULL, "1..1024",
              "Run at most this many threads; default: depth, at most 16, or with a ring 8 a processor, 16 to 32"),
  LMT_OPTION (UINT, "num_read_workers", FsConfig, num_read_workers, "256", "0..",
              "Have at most this many loads in flight; 0 means no limit"),
  LMT_OPTION_FULL (UINT, "read_max_bytes_in_flight", FsConfig, read_max_bytes_in_flight, 0, "536870912", "0..", "BYTES",
                   "Have at most this many bytes of loads in flight; 0 means 1536 MiB", NULL),
  LMT_OPTION (CHOICE, "sync", FsConfig, sync, "data", "none|data|full",
              "Make objects durable before they are seen: not at all, their bytes, their names too"),
  LMT_OPTION_FULL (UINT, "padded_align", FsConfig, padded_align, 0, "0", "0..65536", "BYTES",
                   "Accept files padded to a multiple of this, a power of two from 512; 0 means exact sizes only", NULL),
  LMT_OPTION (BOOL, "scan", FsConfig, scan, "true", NULL, "Look at what lies there at open; without it usage is unknown"),
  LMT_OPTION (BOOL, "clean_tmp", FsConfig, clean_tmp, "false", NULL, "Remove what a killed LMCache left unfinished"),
  LMT_OPTION (BOOL, "read_only", FsConfig, read_only, "false", NULL, "Create, change and delete nothing"),
  LMT_OPTION (BOOL, "preallocate", FsConfig, preallocate, "false", NULL, "Take the space of an object before writing it"),
  LMT_OPTION (BOOL, "drop_cache", FsConfig, drop_cache, "false", NULL,
              "Drop an object from the page cache after writing or reading it"),
  LMT_OPTION (CHOICE, "integrity", FsConfig, integrity, "none", "none|crc32c",
              "Keep a checksum in an extended attribute and check loads"),
  LMT_OPTION (STRING, "file_mode", FsConfig, file_mode, "0644", NULL, "Give files exactly this mode, octal, whatever the umask"),
  LMT_OPTION (DOUBLE, "close_timeout_s", FsConfig, close_timeout_s, "30", "0..3600", "Wait at close for what is in flight, in s"),
  LMT_OPTION_END,
};

gboolean
fs_parse_mode (const char *text, guint32 *mode)
{
  *mode = 0;
  gsize n = strlen (text);
  if (n == 0 || n > 5)
    return FALSE;
  for (const char *p = text; *p != '\0'; p++)
    {
      if (*p < '0' || *p > '7')
        return FALSE;
      *mode = *mode * 8 + (guint32)(*p - '0');
    }
  return *mode <= 0777;
}

static gboolean
check_tmp_dir (const char *dir, GError **error)
{
  if (dir == NULL || *dir == '\0')
    return TRUE;
  g_auto (GStrv) parts = g_strsplit (dir, "/", -1);
  if (*dir != '/' && !g_strv_contains ((const char *const *)parts, ".."))
    return TRUE;
  g_set_error (error, LMT_ERROR, LMT_ERROR_OPTION, "relative_tmp_dir: expected a path inside base_path, found \"%s\"", dir);
  return FALSE;
}

gboolean
fs_check (gconstpointer config_, const char *type, GError **error)
{
  const FsConfig *config = config_;
  guint32 mode;
  if (!check_tmp_dir (config->relative_tmp_dir, error))
    return FALSE;
  guint64 align = config->padded_align;
  if (align != 0 && (align < 512 || (align & (align - 1)) != 0))
    {
      g_set_error (error, LMT_ERROR, LMT_ERROR_OPTION,
                   "padded_align: expected 0 or a power of two, 512 to 65536, found %" G_GUINT64_FORMAT, align);
      return FALSE;
    }
  if (!fs_parse_mode (config->file_mode, &mode))
    {
      g_set_error (error, LMT_ERROR, LMT_ERROR_OPTION, "file_mode: expected an octal mode such as \"0644\", found \"%s\"",
                   config->file_mode);
      return FALSE;
    }
  if (!config->scan && config->max_capacity_gb > 0)
    {
      g_set_error_literal (error, LMT_ERROR, LMT_ERROR_OPTION,
                           "max_capacity_gb: expected scan to be true, found false: without it nobody knows what is used");
      return FALSE;
    }
  return TRUE;
}
