/* SPDX-License-Identifier: Apache-2.0 */
#include "fs.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const fs_aliases[] = { "fs_native", NULL };

static guint32
fs_submit (gpointer handle, LmtL2Io *io)
{
  Fs *fs = handle;
  gboolean is_load = io->kind == LMT_L2_LOAD;
  if (is_load)
    {
      guint64 bytes = io->buffer_bytes;
      if (G_UNLIKELY (bytes > fs->load_bytes_max))
        {
          fs_say (fs, "bytes in flight", "fs: read_max_bytes_in_flight: raised to %" G_GUINT64_FORMAT ", the size of an object",
                  bytes);
          fs->load_bytes_max = bytes;
        }
      if (fs->load_bytes + bytes > fs->load_bytes_max || (fs->loads_max != 0 && fs->loads >= fs->loads_max))
        return LMT_L2_SUBMIT_BUSY;
      fs->load_bytes += bytes;
      fs->loads++;
    }
  guint32 answer = fs->engine->submit (fs->engine_data, io);
  if (is_load && answer != LMT_L2_SUBMIT_QUEUED)
    {
      fs->load_bytes -= io->buffer_bytes;
      fs->loads--;
    }
  return answer;
}

static guint32
fs_reap (gpointer handle, LmtL2Io **ios, guint32 max)
{
  Fs *fs = handle;
  guint32 n = fs->engine->reap (fs->engine_data, ios, max);
  for (guint32 i = 0; i < n; i++)
    if (ios[i]->kind == LMT_L2_LOAD)
      {
        fs->load_bytes -= ios[i]->buffer_bytes;
        fs->loads--;
      }
  return n;
}

static void
fs_flush (gpointer handle)
{
  Fs *fs = handle;
  fs->engine->flush (fs->engine_data);
}

static int
fs_get_fd (gpointer handle)
{
  Fs *fs = handle;
  return fs->engine->get_fd (fs->engine_data);
}

static void
fs_cancel (gpointer handle, LmtL2Io *io)
{
  Fs *fs = handle;
  fs->engine->cancel (fs->engine_data, io);
}

/* Engines that can't: nothing to be had from it, and nothing to say. */
static gboolean
fs_register_memory (gpointer handle, void *base, guint64 bytes, guint32 region, GError **error)
{
  Fs *fs = handle;
  return fs->engine->register_memory == NULL || fs->engine->register_memory (fs->engine_data, base, bytes, error);
}

static void
add_number (LmtL2AddStatus add, gpointer data, const char *key, guint64 value)
{
  char text[32];
  g_snprintf (text, sizeof text, "%" G_GUINT64_FORMAT, value);
  add (data, key, text);
}

static void
fs_status (gpointer handle, LmtL2AddStatus add, gpointer data)
{
  static const char *const syncs[] = { "none", "data", "full" };
  Fs *fs = handle;
  add (data, "path", fs->path);
  add (data, "engine", fs->engine->name);
  add (data, "sync", syncs[fs->sync]);
  add (data, "direct", fs->direct ? "yes" : "no");
  add (data, "is_healthy", fs->unhealthy ? "no" : "yes");
  add_number (add, data, "repaired", fs->n_repaired);
  add_number (add, data, "damaged", fs->n_damaged);
  add_number (add, data, "foreign_files", fs->n_foreign);
  add_number (add, data, "old_layout_files", fs->n_old_layout);
  add_number (add, data, "leftover_files", fs->n_leftovers);
  add_number (add, data, "leftover_bytes", fs->leftover_bytes);
  if (fs->engine->status != NULL)
    fs->engine->status (fs->engine_data, add, data);
  for (int error = 1; error < FS_MAX_ERRNO; error++)
    if (fs->errors[error] > 0)
      {
        const char *name = strerrorname_np (error);
        g_autofree char *key = g_strdup_printf ("errors_%s", name != NULL ? name : "unknown");
        add_number (add, data, key, fs->errors[error]);
      }
}

/* For the adapter check: changes a file behind the adapter's back. */
static gint64
fs_tamper (gpointer handle, const LmtL2Key *key, const char *action, guint64 bytes)
{
  Fs *fs = handle;
  if (strcmp (action, "debris") == 0)
    return fs_count_debris (fs);
  if (strcmp (action, "remove") == 0)
    return unlinkat (fs->dir, key->file, 0) == 0 ? 0 : -1;
  gboolean append = strcmp (action, "append") == 0;
  if (!append && strcmp (action, "truncate") != 0)
    return -1;
  int fd = openat (fs->dir, key->file, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
  struct stat st;
  if (fd < 0 || fstat (fd, &st) != 0)
    {
      if (fd >= 0)
        close (fd);
      return -1;
    }
  int failed = ftruncate (fd, append ? st.st_size + (off_t)bytes : (off_t)bytes);
  close (fd);
  return failed == 0 ? 0 : -1;
}

static const LmtL2Ops fs_ops = {
  .struct_size = sizeof (LmtL2Ops),
  .threads = LMT_THREADS_PER_HANDLE,
  .name = "fs",
  .summary = "Objects as files of one directory, as LMCache's fs and fs_native have them",
  .aliases = fs_aliases,
  .options = fs_options,
  .config_size = sizeof (FsConfig),
  .open = fs_open,
  .close = fs_close,
  .submit = fs_submit,
  .reap = fs_reap,
  .flush = fs_flush,
  .get_fd = fs_get_fd,
  .register_memory = fs_register_memory,
  .scan = fs_scan,
  .cancel = fs_cancel,
  .status = fs_status,
  .tamper = fs_tamper,
  .check = fs_check,
};

static gboolean
fs_load (LmtRegistrar *registrar, GError **error)
{
  return lmt_registrar_add_l2 (registrar, &fs_ops, error);
}

LMT_PLUGIN_DEFINE ("l2-fs", "0.1.0", "Apache-2.0", "L2 adapter on files; also LMCache's fs_native", fs_load, NULL)
