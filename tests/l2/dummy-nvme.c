// SPDX-License-Identifier: Apache-2.0
/*
 * What a raw NVMe adapter does at the border, without a device: slots of a fixed size (charge and capacity), registered memory by
 * region, commands of at most 504 KiB out of the core's buffers, one entry of the ring for a burst, completions out of order.
 * doc/l2-contract.md describes it; check-adapter runs on it.
 */
#include <lmtrace/lmt-plugin.h>

enum
{
  SECTOR = 4096,
  PIECE_MAX = 504 * 1024, /* what a drive with 128 KiB pages lists of 126 entries takes at once */
  N_REGIONS = 16,
};

typedef struct
{
  guint64 depth;
  guint64 slots;
  guint64 slot_bytes;
} NvmeConfig;

static const LmtOption nvme_options[] = {
  LMT_OPTION (UINT, "depth", NvmeConfig, depth, "16", "1..1024", "Take at most this many operations at a time"),
  LMT_OPTION (UINT, "slots", NvmeConfig, slots, "600", "1..", "Slots of the device"),
  LMT_OPTION (UINT, "slot_bytes", NvmeConfig, slot_bytes, "524288", "4096..", "Bytes of a slot"),
  LMT_OPTION_END,
};

/* A command of the device: one piece of one object. */
typedef struct
{
  LmtL2Io *io;
  guint32 id; /* user_data: the io's */
  guint64 offset;
  guint64 bytes; /* whole sectors */
} Command;

typedef struct
{
  guint8 *base;
  guint64 bytes;
} Region;

typedef struct
{
  guint8 *device;
  guint64 slots, slot_bytes;
  guint8 *bounce;       /* a piece: what isn't aligned or not registered goes through it */
  GHashTable *index;    /* wire key -> slot + 1 */
  guint64 *used_bytes;  /* per slot; G_MAXUINT64: free */
  GArray *queued;       /* Command: filled by submit, */
  GArray *device_queue; /* given to the device by flush */
  guint32 depth, in_flight;
  Region regions[N_REGIONS];
  guint64 direct, bounced, entries, commands, largest_piece;
} Nvme;

static gpointer
nvme_open (gconstpointer config, const char *type, const LmtL2Host *host, LmtL2Info *info, GError **error)
{
  const NvmeConfig *wanted = config;
  Nvme *nvme = g_new0 (Nvme, 1);
  nvme->slots = wanted->slots;
  nvme->slot_bytes = wanted->slot_bytes / SECTOR * SECTOR;
  nvme->depth = (guint32)wanted->depth;
  nvme->device = g_try_malloc0_n (nvme->slots, nvme->slot_bytes);
  if (nvme->device == NULL)
    {
      g_set_error (error, LMT_L2_ERROR, LMT_L2_NO_SPACE, "dummy-nvme: no memory for %" G_GUINT64_FORMAT " slots", nvme->slots);
      g_free (nvme);
      return NULL;
    }
  nvme->bounce = g_aligned_alloc0 (1, PIECE_MAX, SECTOR);
  nvme->index = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  nvme->used_bytes = g_new (guint64, nvme->slots);
  memset (nvme->used_bytes, 0xff, nvme->slots * sizeof *nvme->used_bytes);
  nvme->queued = g_array_new (FALSE, FALSE, sizeof (Command));
  nvme->device_queue = g_array_new (FALSE, FALSE, sizeof (Command));
  info->depth = nvme->depth;
  info->buffer_align = info->length_align = SECTOR;
  info->capacity_bytes = nvme->slots * nvme->slot_bytes;
  info->charge_bytes = nvme->slot_bytes;
  info->capabilities = LMT_L2_CAP_KEEP | LMT_L2_CAP_DATA | LMT_L2_CAP_DELETE | LMT_L2_CAP_CAPACITY | LMT_L2_CAP_DIRECT
                       | LMT_L2_CAP_REGISTER_MEMORY;
  info->flags = LMT_L2_INFO_NO_FILE;
  return nvme;
}

static void
nvme_close (gpointer handle)
{
  Nvme *nvme = handle;
  g_hash_table_unref (nvme->index);
  g_array_unref (nvme->queued);
  g_array_unref (nvme->device_queue);
  g_aligned_free (nvme->bounce);
  g_free (nvme->used_bytes);
  g_free (nvme->device);
  g_free (nvme);
}

static gboolean
nvme_register (gpointer handle, void *base, guint64 bytes, guint32 region, GError **error)
{
  Nvme *nvme = handle;
  if (region >= N_REGIONS || (guintptr)base % SECTOR != 0)
    {
      g_set_error (error, LMT_L2_ERROR, LMT_L2_UNSUPPORTED, "expected aligned memory of region 0..%d", N_REGIONS - 1);
      return FALSE;
    }
  nvme->regions[region] = (Region){ base, bytes };
  return TRUE;
}

/* -------- submit -------- */

static gint64
free_slot (Nvme *nvme)
{
  for (guint64 i = 0; i < nvme->slots; i++)
    if (nvme->used_bytes[i] == G_MAXUINT64)
      return (gint64)i;
  return -1;
}

static guint32
done (LmtL2Io *io, guint32 code)
{
  io->code = code;
  return LMT_L2_SUBMIT_DONE;
}

/* Where the object's bytes go or come from: plugin[0] slot, plugin[1] pieces left. */
static guint32
queue_pieces (Nvme *nvme, LmtL2Io *io, guint64 slot)
{
  io->plugin[0] = slot;
  io->plugin[1] = 0;
  for (guint64 at = 0; at < io->buffer_bytes || io->plugin[1] == 0; at += PIECE_MAX)
    {
      guint64 left = io->buffer_bytes - at;
      Command command = { io, io->id, at, MIN ((left + SECTOR - 1) / SECTOR * SECTOR, PIECE_MAX) };
      g_array_append_val (nvme->queued, command);
      io->plugin[1]++;
      nvme->largest_piece = MAX (nvme->largest_piece, command.bytes);
    }
  nvme->in_flight++;
  return LMT_L2_SUBMIT_QUEUED;
}

static guint32
submit_store (Nvme *nvme, LmtL2Io *io, gint64 slot)
{
  io->object_bytes = io->buffer_bytes;
  if (slot >= 0 && nvme->used_bytes[slot] == io->buffer_bytes)
    return done (io, LMT_L2_PRESENT);
  if (io->buffer_bytes > nvme->slot_bytes)
    return done (io, LMT_L2_NO_SPACE);
  if (slot < 0)
    slot = free_slot (nvme);
  if (slot < 0)
    return done (io, LMT_L2_NO_SPACE);
  nvme->used_bytes[slot] = G_MAXUINT64 - 1; /* taken, no object yet */
  return queue_pieces (nvme, io, (guint64)slot);
}

static guint32
nvme_submit (gpointer handle, LmtL2Io *io)
{
  Nvme *nvme = handle;
  gint64 slot = (gint64)GPOINTER_TO_SIZE (g_hash_table_lookup (nvme->index, io->key->wire)) - 1;
  if (nvme->in_flight == nvme->depth)
    return LMT_L2_SUBMIT_BUSY;
  if (io->kind == LMT_L2_STORE)
    return submit_store (nvme, io, slot);
  if (slot < 0)
    return done (io, LMT_L2_NOT_FOUND);
  io->object_bytes = nvme->used_bytes[slot];
  if (io->kind == LMT_L2_LOOKUP)
    return done (io, LMT_L2_OK);
  if (io->kind == LMT_L2_LOAD)
    return io->object_bytes == io->buffer_bytes ? queue_pieces (nvme, io, (guint64)slot) : done (io, LMT_L2_DATA);
  nvme->used_bytes[slot] = G_MAXUINT64;
  g_hash_table_remove (nvme->index, io->key->wire);
  return done (io, LMT_L2_OK);
}

/* One io_uring_enter for the burst. */
static void
nvme_flush (gpointer handle)
{
  Nvme *nvme = handle;
  if (nvme->queued->len == 0)
    return;
  g_array_append_vals (nvme->device_queue, nvme->queued->data, nvme->queued->len);
  g_array_set_size (nvme->queued, 0);
  nvme->entries++;
}

/* -------- the device -------- */

static void
move (Nvme *nvme, const Command *command)
{
  LmtL2Io *io = command->io;
  guint8 *medium = nvme->device + io->plugin[0] * nvme->slot_bytes + command->offset,
         *memory = (guint8 *)io->buffer + command->offset;
  guint64 wanted = MIN (command->bytes, io->buffer_bytes - command->offset);
  const Region *region = io->region >= 0 && io->region < N_REGIONS ? &nvme->regions[io->region] : NULL;
  gboolean fixed = region != NULL && region->base != NULL && memory >= region->base
                   && memory + command->bytes <= region->base + region->bytes;
  nvme->commands++;
  /* The device moves whole sectors: straight into the core's memory only where all of them are the object's. */
  if (fixed && wanted == command->bytes && (guintptr)memory % SECTOR == 0)
    {
      nvme->direct++;
      memcpy (io->kind == LMT_L2_STORE ? medium : memory, io->kind == LMT_L2_STORE ? memory : medium, command->bytes);
      return;
    }
  nvme->bounced++;
  if (io->kind == LMT_L2_STORE)
    {
      memcpy (nvme->bounce, memory, wanted);
      memset (nvme->bounce + wanted, 0, command->bytes - wanted);
      memcpy (medium, nvme->bounce, command->bytes);
    }
  else
    {
      memcpy (nvme->bounce, medium, command->bytes);
      memcpy (memory, nvme->bounce, wanted);
    }
}

static guint32
nvme_reap (gpointer handle, LmtL2Io **ios, guint32 max)
{
  Nvme *nvme = handle;
  guint32 n = 0;
  /* Last in, first out: completions come in no order. */
  while (n < max && nvme->device_queue->len > 0)
    {
      Command command = g_array_index (nvme->device_queue, Command, nvme->device_queue->len - 1);
      LmtL2Io *io = command.io;
      g_array_set_size (nvme->device_queue, nvme->device_queue->len - 1);
      g_assert (io->id == command.id);
      if (command.bytes > 0)
        move (nvme, &command);
      if (--io->plugin[1] > 0)
        continue;
      if (io->kind == LMT_L2_STORE)
        {
          nvme->used_bytes[io->plugin[0]] = io->buffer_bytes;
          g_hash_table_replace (nvme->index, g_strdup (io->key->wire), GSIZE_TO_POINTER (io->plugin[0] + 1));
        }
      io->done_bytes = io->buffer_bytes;
      io->code = LMT_L2_OK;
      nvme->in_flight--;
      ios[n++] = io;
    }
  return n;
}

static gint64
nvme_next_due (gpointer handle)
{
  return ((const Nvme *)handle)->device_queue->len > 0 ? 0 : -1;
}

static void
nvme_status (gpointer handle, LmtL2AddStatus add, gpointer data)
{
  const Nvme *nvme = handle;
  const struct
  {
    const char *key;
    guint64 value;
  } figures[] = { { "commands", nvme->commands },
                  { "direct", nvme->direct },
                  { "bounced", nvme->bounced },
                  { "entries", nvme->entries },
                  { "largest_piece_bytes", nvme->largest_piece } };
  for (guint i = 0; i < G_N_ELEMENTS (figures); i++)
    {
      char text[32];
      g_snprintf (text, sizeof text, "%" G_GUINT64_FORMAT, figures[i].value);
      add (data, figures[i].key, text);
    }
}

static const LmtL2Ops nvme_ops = {
  .struct_size = sizeof (LmtL2Ops),
  .threads = LMT_THREADS_PER_HANDLE,
  .name = "dummy-nvme",
  .summary = "Slots of a device that isn't there, for tests",
  .options = nvme_options,
  .config_size = sizeof (NvmeConfig),
  .open = nvme_open,
  .close = nvme_close,
  .submit = nvme_submit,
  .reap = nvme_reap,
  .flush = nvme_flush,
  .next_due_ns = nvme_next_due,
  .register_memory = nvme_register,
  .status = nvme_status,
};

static gboolean
nvme_load (LmtRegistrar *registrar, GError **error)
{
  return lmt_registrar_add_l2 (registrar, &nvme_ops, error);
}

LMT_PLUGIN_DEFINE ("l2-dummy-nvme", "0.1.0", "Apache-2.0", "Test adapter: registered memory and pieces", nvme_load, NULL)
