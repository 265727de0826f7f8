// @NAME@: an L2 adapter for lmtrace, begun from its template. Every line works; replace the map by your storage.
//
// What each member must do stands in <lmtrace/lmt-l2.h>; what the core does for you (tasks, locks, usage, capacity, one store
// per key at a time, events, drain): doc/adapter.md.
#include <lmtrace/lmt-plugin.h>

// What the configuration object says: {"type": "@NAME@", "depth": 32, "max_bytes": 1073741824}
typedef struct
{
  guint64 depth;
  guint64 max_bytes;
} @Name@Config;

static const LmtOption @name@_options[] = {
  LMT_OPTION (UINT, "depth", @Name@Config, depth, "64", "1..4096", "Take at most this many operations at a time"),
  LMT_OPTION_FULL (UINT, "max_bytes", @Name@Config, max_bytes, LMT_OPTION_CAPACITY, NULL, NULL, "BYTES", "Hold at most this many bytes", NULL),
  LMT_OPTION_END,
};

// One per adapter of the run: no mutable globals, two of a kind may be open.
typedef struct
{
  GHashTable *objects; // wire key -> GBytes
  LmtL2Io **waiting;   // taken by submit, not yet handed back: a ring
  guint32 depth;
  guint32 head;
  guint32 n_waiting;
} @Name@;

// Acquires: connections, files, threads, memory. May block. NULL with an error: the run does not start.
static gpointer
@name@_open (gconstpointer config, const char *type, const LmtL2Host *host, LmtL2Info *info, GError **error)
{
  const @Name@Config *wanted = config;
  @Name@ *self = g_new0 (@Name@, 1);

  self->depth = (guint32)wanted->depth;
  self->waiting = g_new0 (LmtL2Io *, self->depth);
  self->objects = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, (GDestroyNotify)g_bytes_unref);
  info->depth = self->depth;
  // Claim what is true: each capability brings its scenarios into check-adapter. PERSIST (objects outlive close) wants scan() too.
  info->capabilities = LMT_L2_CAP_KEEP | LMT_L2_CAP_DATA | LMT_L2_CAP_DELETE | LMT_L2_CAP_CAPACITY;
  info->flags = LMT_L2_INFO_NO_FILE; // LmtL2Key.file isn't read here, so the core need not make it
  return self;
}

static void
@name@_close (gpointer handle)
{
  @Name@ *self = handle;

  g_hash_table_unref (self->objects);
  g_free (self->waiting);
  g_free (self);
}

// Never blocks. QUEUED: yours until reap hands it back. BUSY: nothing was taken, it will be offered again.
static guint32
@name@_submit (gpointer handle, LmtL2Io *io)
{
  @Name@ *self = handle;

  if (self->n_waiting == self->depth)
    return LMT_L2_SUBMIT_BUSY;
  self->waiting[(self->head + self->n_waiting++) % self->depth] = io;
  return LMT_L2_SUBMIT_QUEUED;
}

static void
@name@_store (@Name@ *self, LmtL2Io *io, GBytes *there)
{
  // Look before you write: an object of the same size is the same object; another size is damage, repaired by replacing it.
  io->object_bytes = io->buffer_bytes;
  if (there != NULL && g_bytes_get_size (there) == io->buffer_bytes)
    {
      io->code = LMT_L2_PRESENT;
      return;
    }
  if (io->buffer == NULL) // a run without data: nothing to keep
    {
      io->code = LMT_L2_UNSUPPORTED;
      return;
    }
  g_hash_table_insert (self->objects, g_strdup (io->key->wire), g_bytes_new (io->buffer, io->buffer_bytes));
  io->done_bytes = io->buffer_bytes;
  io->code = LMT_L2_OK;
}

static void
@name@_load (LmtL2Io *io, GBytes *there)
{
  gsize bytes = 0;
  gconstpointer data = there != NULL ? g_bytes_get_data (there, &bytes) : NULL;

  if (there == NULL)
    {
      io->code = LMT_L2_NOT_FOUND;
      return;
    }
  io->object_bytes = bytes; // the truth: the core compares it with the buffer
  if (bytes != io->buffer_bytes)
    {
      io->code = LMT_L2_DATA;
      return;
    }
  if (io->buffer != NULL)
    memcpy (io->buffer, data, bytes);
  io->done_bytes = bytes;
  io->code = LMT_L2_OK;
}

// Your I/O. It may run on a thread of yours, which then hands the io over with lmt_l2_queue_push(); see doc/adapter.md.
static void
@name@_do (@Name@ *self, LmtL2Io *io)
{
  GBytes *there = g_hash_table_lookup (self->objects, io->key->wire);

  if (io->kind == LMT_L2_STORE)
    @name@_store (self, io, there);
  else if (io->kind == LMT_L2_LOAD)
    @name@_load (io, there);
  else
    {
      io->code = there != NULL ? LMT_L2_OK : LMT_L2_NOT_FOUND;
      io->object_bytes = there != NULL ? g_bytes_get_size (there) : 0;
      if (io->kind == LMT_L2_DELETE)
        g_hash_table_remove (self->objects, io->key->wire);
    }
}

// Never blocks. An io handed back is the core's again, buffer and key too: don't touch it afterwards.
static guint32
@name@_reap (gpointer handle, LmtL2Io **ios, guint32 max)
{
  @Name@ *self = handle;
  guint32 n = 0;

  for (; n < max && self->n_waiting > 0; n++)
    {
      ios[n] = self->waiting[self->head];
      self->head = (self->head + 1) % self->depth;
      self->n_waiting--;
      @name@_do (self, ios[n]);
    }
  return n;
}

// Without a descriptor (get_fd) the core asks reap at each turn; next_due_ns tells it not to sleep before.
static gint64
@name@_next_due (gpointer handle)
{
  const @Name@ *self = handle;

  return self->n_waiting > 0 ? 0 : -1;
}

static void
@name@_status (gpointer handle, LmtL2AddStatus add, gpointer data)
{
  const @Name@ *self = handle;
  char text[32];

  g_snprintf (text, sizeof text, "%u", g_hash_table_size (self->objects));
  add (data, "is_healthy", "yes");
  add (data, "objects", text);
}

static const LmtL2Ops @name@_ops = {
  .struct_size = sizeof (LmtL2Ops),
  .threads = LMT_THREADS_PER_HANDLE,
  .name = "@NAME@",
  .summary = "Objects in a map of this process",
  .options = @name@_options,
  .config_size = sizeof (@Name@Config),
  .open = @name@_open,
  .close = @name@_close,
  .submit = @name@_submit,
  .reap = @name@_reap,
  .next_due_ns = @name@_next_due,
  .status = @name@_status,
};

// Registers and nothing else: no files, threads, sockets or options.
static gboolean
@name@_load_plugin (LmtRegistrar *registrar, GError **error)
{
  return lmt_registrar_add_l2 (registrar, &@name@_ops, error);
}

LMT_PLUGIN_DEFINE ("l2-@NAME@", "0.1.0", "Apache-2.0", "L2 adapter @NAME@", @name@_load_plugin, NULL)
