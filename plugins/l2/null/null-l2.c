/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The null adapter: takes every object and keeps none. It is the floor in benchmarks (what is left is the core's own cost) and
 * the template of a new adapter: copy the folder, rename, and fill in. What each member must do is in <lmtrace/lmt-l2.h>.
 */
#include <lmtrace/lmt-plugin.h>

/* What the configuration object says; filled from the table below before open() is called. */
typedef struct
{
  guint64 depth;
} NullConfig;

static const LmtOption null_options[] = {
  LMT_OPTION (UINT, "depth", NullConfig, depth, "64", "1..4096", "Take at most this many operations at a time"),
  LMT_OPTION_END,
};

/* One per adapter of the run; no mutable globals, two of a kind may be open. */
typedef struct
{
  guint64 stores;
  guint64 bytes;
} NullHandle;

static gpointer
null_open (gconstpointer config, const char *type, const LmtL2Host *host, LmtL2Info *info, GError **error)
{
  const NullConfig *null_config = config;
  info->depth = (guint32)null_config->depth;
  /* Neither keep nor data: nothing is found again. Neither text of the key is read, so the core needn't make them. */
  info->capabilities = 0;
  info->flags = LMT_L2_INFO_NO_WIRE | LMT_L2_INFO_NO_FILE;
  return g_new0 (NullHandle, 1);
}

static void
null_close (gpointer handle)
{
  g_free (handle);
}

/* Everything is decided at once: DONE says that the result is in the io and reap won't give it. An adapter that does I/O answers
 * QUEUED and hands the io back through reap; BUSY if it can't take one now. */
static guint32
null_submit (gpointer handle, LmtL2Io *io)
{
  NullHandle *null = handle;
  if (io->kind == LMT_L2_STORE)
    {
      null->stores++;
      null->bytes += io->buffer_bytes;
      io->done_bytes = io->object_bytes = io->buffer_bytes;
      io->code = LMT_L2_OK;
    }
  else
    io->code = LMT_L2_NOT_FOUND;
  return LMT_L2_SUBMIT_DONE;
}

static guint32
null_reap (gpointer handle, LmtL2Io **ios, guint32 max)
{
  return 0;
}

static void
null_status (gpointer handle, LmtL2AddStatus add, gpointer data)
{
  const NullHandle *null = handle;
  char text[32];
  add (data, "is_healthy", "yes");
  g_snprintf (text, sizeof text, "%" G_GUINT64_FORMAT, null->stores);
  add (data, "stores", text);
  g_snprintf (text, sizeof text, "%" G_GUINT64_FORMAT, null->bytes);
  add (data, "dropped_bytes", text);
}

static const LmtL2Ops null_ops = {
  .struct_size = sizeof (LmtL2Ops),
  .threads = LMT_THREADS_PER_HANDLE,
  .name = "null",
  .summary = "Takes every object and keeps none",
  .options = null_options,
  .config_size = sizeof (NullConfig),
  .open = null_open,
  .close = null_close,
  .submit = null_submit,
  .reap = null_reap,
  .status = null_status,
};

/* Registers and nothing else: no files, threads, sockets or options. */
static gboolean
null_load (LmtRegistrar *registrar, GError **error)
{
  return lmt_registrar_add_l2 (registrar, &null_ops, error);
}

LMT_PLUGIN_DEFINE ("l2-null", "0.1.0", "Apache-2.0", "L2 adapter that keeps nothing: the floor in benchmarks", null_load, NULL)
