// SPDX-License-Identifier: Apache-2.0
/* An adapter that keeps no rule: how it breaks them is its one key. The core and the kit must name it, count it and live on. */
#include <lmtrace/lmt-plugin.h>

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

typedef struct
{
  char *how;
} NaughtyConfig;

static const LmtOption naughty_options[] = {
  LMT_OPTION (CHOICE, "how", NaughtyConfig, how, "good",
              "good|late|twice|never|error|badcode|foreign|unsubmitted|short|toolong|past|wrongbytes|leak|forgets|strange|"
              "crash|abort|exit|hang|overrun|crashopen|crashclose|hangclose",
              "What it does wrong"),
  LMT_OPTION_END,
};

enum
{
  DEPTH = 32,
};

typedef struct
{
  const LmtL2Host *host;
  const char *how;
  GHashTable *objects;
  LmtL2Io *waiting[DEPTH];
  gint64 due[DEPTH];
  guint32 n;
  LmtL2Io *last; /* handed back before */
  LmtL2Io own;   /* nobody submitted it */
  gboolean loaded;
} Naughty;

#define IS(naughty, word) (strcmp ((naughty)->how, word) == 0)

static void
wait_for_ever (void)
{
  for (;;)
    pause ();
}

static gpointer
naughty_open (gconstpointer config, const char *type, const LmtL2Host *host, LmtL2Info *info, GError **error)
{
  Naughty *naughty = g_new0 (Naughty, 1);
  naughty->host = host;
  if (strcmp (((const NaughtyConfig *)config)->how, "crashopen") == 0)
    raise (SIGSEGV);
  naughty->how = g_intern_string (((const NaughtyConfig *)config)->how);
  naughty->objects = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, (GDestroyNotify)g_bytes_unref);
  info->depth = DEPTH;
  info->capabilities = LMT_L2_CAP_KEEP | LMT_L2_CAP_DATA | LMT_L2_CAP_DELETE;
  return naughty;
}

static void
naughty_close (gpointer handle)
{
  Naughty *naughty = handle;
  if (IS (naughty, "crashclose") && naughty->loaded)
    raise (SIGSEGV);
  if (IS (naughty, "hangclose"))
    wait_for_ever ();
  if (IS (naughty, "leak"))
    (void)!open ("/dev/null", O_RDONLY | O_CLOEXEC);
  g_hash_table_unref (naughty->objects);
  g_free (naughty);
}

static guint32
naughty_submit (gpointer handle, LmtL2Io *io)
{
  Naughty *naughty = handle;
  if (IS (naughty, "strange"))
    return 77; /* no LmtL2Submit */
  if (naughty->n == DEPTH)
    return LMT_L2_SUBMIT_BUSY;
  naughty->due[naughty->n] = naughty->host->now_ns (naughty->host->data) + (IS (naughty, "late") ? 150000000 : 0);
  naughty->waiting[naughty->n++] = io;
  return LMT_L2_SUBMIT_QUEUED;
}

static void
load (Naughty *naughty, LmtL2Io *io, GBytes *there)
{
  gsize bytes;
  const guint8 *data = g_bytes_get_data (there, &bytes);
  io->object_bytes = bytes;
  io->code = bytes == io->buffer_bytes ? LMT_L2_OK : LMT_L2_DATA;
  if (io->code != LMT_L2_OK)
    return;
  memcpy (io->buffer, data, bytes);
  io->done_bytes = IS (naughty, "short") ? bytes / 2 : IS (naughty, "toolong") ? bytes + 1 : bytes;
  if (IS (naughty, "past") && bytes % 4096 != 0)
    ((guint8 *)io->buffer)[bytes] = 0;
  if (IS (naughty, "wrongbytes"))
    ((guint8 *)io->buffer)[bytes / 2] ^= 1;
}

static void
serve (Naughty *naughty, LmtL2Io *io)
{
  GBytes *there = g_hash_table_lookup (naughty->objects, io->key->wire);
  naughty->loaded |= io->kind == LMT_L2_LOAD;
  if (io->kind == LMT_L2_LOAD && IS (naughty, "crash"))
    raise (SIGSEGV);
  if (io->kind == LMT_L2_LOAD && IS (naughty, "abort"))
    abort ();
  if (io->kind == LMT_L2_LOAD && IS (naughty, "exit"))
    exit (7);
  if (io->kind == LMT_L2_LOAD && IS (naughty, "hang"))
    wait_for_ever ();
  if (io->kind == LMT_L2_LOAD && IS (naughty, "overrun"))
    ((volatile guint8 *)io->buffer)[(MAX (io->buffer_bytes, 1) + 4095) / 4096 * 4096] = 0; /* the page behind */
  if (IS (naughty, "error"))
    io->code = LMT_L2_IO;
  else if (IS (naughty, "badcode"))
    io->code = 99;
  else if (io->kind == LMT_L2_STORE)
    {
      gboolean present = there != NULL && g_bytes_get_size (there) == io->buffer_bytes;
      if (!present && !IS (naughty, "forgets"))
        g_hash_table_replace (naughty->objects, g_strdup (io->key->wire), g_bytes_new (io->buffer, io->buffer_bytes));
      io->object_bytes = io->buffer_bytes;
      io->done_bytes = present ? 0 : io->buffer_bytes;
      io->code = present ? LMT_L2_PRESENT : LMT_L2_OK;
    }
  else if (there == NULL)
    io->code = LMT_L2_NOT_FOUND;
  else if (io->kind == LMT_L2_LOAD)
    load (naughty, io, there);
  else
    {
      io->object_bytes = g_bytes_get_size (there);
      io->code = LMT_L2_OK;
      if (io->kind == LMT_L2_DELETE)
        g_hash_table_remove (naughty->objects, io->key->wire);
    }
}

static guint32
naughty_reap (gpointer handle, LmtL2Io **ios, guint32 max)
{
  Naughty *naughty = handle;
  guint32 n = 0;
  if (IS (naughty, "never"))
    return 0;
  if (max >= 3 && naughty->n > 0 && naughty->due[0] <= naughty->host->now_ns (naughty->host->data))
    {
      LmtL2Io *io = naughty->waiting[0];
      naughty->n--;
      memmove (naughty->waiting, naughty->waiting + 1, naughty->n * sizeof *naughty->waiting);
      memmove (naughty->due, naughty->due + 1, naughty->n * sizeof *naughty->due);
      serve (naughty, io);
      ios[n++] = io;
      if (IS (naughty, "twice"))
        ios[n++] = io;
      if (IS (naughty, "foreign"))
        ios[n++] = &naughty->own;
      if (IS (naughty, "unsubmitted"))
        ios[n++] = io + 1; /* the core's, but nobody gave it to us */
      naughty->last = io;
    }
  return n;
}

static gint64
naughty_next_due (gpointer handle)
{
  const Naughty *naughty = handle;
  return naughty->n > 0 && !IS (naughty, "never") ? naughty->due[0] : -1;
}

static const LmtL2Ops naughty_ops = {
  .struct_size = sizeof (LmtL2Ops),
  .threads = LMT_THREADS_PER_HANDLE,
  .name = "naughty",
  .summary = "Breaks the rules of the border, for tests",
  .options = naughty_options,
  .config_size = sizeof (NaughtyConfig),
  .open = naughty_open,
  .close = naughty_close,
  .submit = naughty_submit,
  .reap = naughty_reap,
  .next_due_ns = naughty_next_due,
};

static gboolean
naughty_load (LmtRegistrar *registrar, GError **error)
{
  return lmt_registrar_add_l2 (registrar, &naughty_ops, error);
}

LMT_PLUGIN_DEFINE ("l2-naughty", "0.1.0", "Apache-2.0", "Test adapter: breaks rules", naughty_load, NULL)
