// SPDX-License-Identifier: Apache-2.0
#include "storage-prepare.h"

#include <string.h>

/* Keys of one task: enough to keep a deep queue busy. */
#define BATCH 64

/* What the first uses of an object say of it. */
typedef enum
{
  USE_NONE = 0,
  USE_ASKED,    /* by prefetches, nothing else yet */
  USE_EXPECTED, /* read before it was written here */
  USE_WRITTEN,
} Use;

typedef struct
{
  guint64 bytes; /* 0: not known */
  guint32 use;
} Entry;

struct _StoragePrepare
{
  LmtKeyTable *table;
  SmDecoder *decoder;
  GPtrArray *keys; /* LmtKey, in order of their first use; held */
  Entry *entries;  /* by key id: held keys keep theirs */
  guint n_entries;
  StoragePrepareFigures figures;
  /* The task at hand: the layer's while it waits for its end, so it lives as long as the layer. */
  LmtL2Task task;
  LmtKey *batch[BATCH];
  void *buffers[BATCH];
  guint64 sizes[BATCH];
  guint8 codes[BATCH];
};

StoragePrepare *
storage_prepare_new (LmtKeyTable *keys)
{
  StoragePrepare *prepare = g_new0 (StoragePrepare, 1);

  prepare->table = keys;
  prepare->decoder = sm_decoder_new (keys);
  prepare->keys = g_ptr_array_new ();
  return prepare;
}

static void
forget_keys (StoragePrepare *prepare)
{
  for (guint i = 0; i < prepare->keys->len; i++)
    lmt_key_unref (prepare->table, prepare->keys->pdata[i]);
  g_ptr_array_set_size (prepare->keys, 0);
  g_clear_pointer (&prepare->entries, g_free);
  g_clear_pointer (&prepare->decoder, sm_decoder_free);
  prepare->n_entries = 0;
}

void
storage_prepare_free (StoragePrepare *prepare)
{
  if (prepare == NULL)
    return;
  forget_keys (prepare);
  g_ptr_array_unref (prepare->keys);
  g_free (prepare);
}

void
storage_prepare_set_tenant (StoragePrepare *prepare, guint64 number)
{
  sm_decoder_set_tenant (prepare->decoder, number);
}

const StoragePrepareFigures *
storage_prepare_get_figures (const StoragePrepare *prepare)
{
  return &prepare->figures;
}

/* ---------------- the pass ---------------- */

static Entry *
entry_of (StoragePrepare *prepare, LmtKey *key)
{
  Entry *entry;

  if (key->id >= prepare->n_entries)
    {
      guint old = prepare->n_entries;

      prepare->n_entries = MAX (lmt_key_table_capacity (prepare->table), key->id + 1);
      prepare->entries = g_renew (Entry, prepare->entries, prepare->n_entries);
      memset (prepare->entries + old, 0, (prepare->n_entries - old) * sizeof (Entry));
    }
  entry = &prepare->entries[key->id];
  if (entry->use == USE_NONE)
    g_ptr_array_add (prepare->keys, lmt_key_ref (key));
  return entry;
}

static void
ask (StoragePrepare *prepare, const SmCall *call)
{
  for (guint32 r = 0; r < call->n_rows; r++)
    for (guint32 i = 0; i < call->rows[r].n; i++)
      {
        const SmRow *row = &call->rows[r];
        Entry *entry = entry_of (prepare, row->keys[i]);

        if (entry->use == USE_NONE)
          entry->use = USE_ASKED;
        if (entry->bytes == 0)
          entry->bytes = row->cell_bytes != NULL ? row->cell_bytes[i] : row->object_bytes;
      }
}

static void
use (StoragePrepare *prepare, const SmCall *call, Use next)
{
  for (guint32 i = 0; i < call->n_keys; i++)
    {
      Entry *entry = entry_of (prepare, call->keys[i]);

      if (entry->use < USE_EXPECTED)
        entry->use = next;
      if (entry->bytes == 0)
        entry->bytes = call->object_bytes;
    }
}

void
storage_prepare_record (StoragePrepare *prepare, const LmtRecord *record)
{
  guint32 op;
  gboolean missing = FALSE;
  LmtFault fault = { 0 };
  SmCall call = { 0 };

  /* What can't be used is told when it is replayed. */
  if (!storage_find_op (record->qualname, &op) || !sm_decoder_decode (prepare->decoder, op, record, &call, &missing, &fault))
    return;
  switch (op)
    {
    case SM_OP_PREFETCH:
      ask (prepare, &call);
      break;
    case SM_OP_READ_ENTER:
    case SM_OP_READ_EXIT:
    case SM_OP_FINISH_READ:
      use (prepare, &call, USE_EXPECTED);
      break;
    default:
      use (prepare, &call, USE_WRITTEN);
    }
}

/* ---------------- the objects ---------------- */

static gboolean
is_expected (const Entry *entry)
{
  return entry->use == USE_ASKED || entry->use == USE_EXPECTED;
}

static void
count (StoragePrepare *prepare)
{
  for (guint i = 0; i < prepare->keys->len; i++)
    {
      const LmtKey *key = prepare->keys->pdata[i];
      const Entry *entry = &prepare->entries[key->id];

      if (!is_expected (entry))
        continue;
      if (entry->bytes == 0)
        {
          prepare->figures.unknown_size++;
          continue;
        }
      prepare->figures.expected++;
      prepare->figures.bytes += entry->bytes;
    }
}

static void
fill (const StorageSession *session, LmtKey *key, guint8 *buffer, guint64 bytes)
{
  const char *wire;

  if (!session->fill_pattern)
    {
      memset (buffer, 0, bytes);
      return;
    }
  wire = lmt_key_wire (key);
  lmt_fill (lmt_fill_seed_for_wire_key (wire, lmt_key_wire_len (key)), buffer, bytes);
}

/* The next objects from *@at on, as many as a task takes and the pool, which nobody uses yet, has room for. Returns how many. */
static guint
take_batch (StorageSession *session, guint *at)
{
  StoragePrepare *prepare = session->prepare;
  guint64 align = session->config->sm.align_bytes;
  guint64 used = 0;
  guint n = 0;

  for (; *at < prepare->keys->len && n < BATCH; ++*at)
    {
      LmtKey *key = prepare->keys->pdata[*at];
      const Entry *entry = &prepare->entries[key->id];

      if (!is_expected (entry) || entry->bytes == 0)
        continue;
      if (entry->bytes > session->config->sm.size_bytes)
        {
          prepare->figures.too_large++;
          continue;
        }
      if (session->fill && entry->bytes > session->pool.bytes - used)
        break;
      if (session->fill)
        {
          prepare->buffers[n] = session->pool.base + used;
          fill (session, key, prepare->buffers[n], entry->bytes);
          used = MIN (session->pool.bytes, (used + entry->bytes + align - 1) & ~(align - 1));
        }
      prepare->batch[n] = key;
      prepare->sizes[n++] = entry->bytes;
    }
  return n;
}

static gboolean
store_batch (StorageSession *session, guint adapter, guint n, GError **error)
{
  StoragePrepare *prepare = session->prepare;
  StoragePrepareFigures *figures = &prepare->figures;
  const char *type = lmt_l2_get_type_name (session->l2[adapter]);
  LmtL2Code refused = LMT_L2_OK;

  prepare->task
      = (LmtL2Task){ .kind = LMT_L2_STORE, .n = n, .keys = prepare->batch, .sizes = prepare->sizes, .codes = prepare->codes };
  if (session->fill)
    prepare->task.buffers = prepare->buffers;
  switch (sm_driver_run_task (session->driver, adapter, &prepare->task, &refused))
    {
    case SM_TASK_DONE:
      break;
    case SM_TASK_REFUSED:
      g_set_error (error, LMT_ERROR, LMT_ERROR_IO, "--prepare: L2 %u (%s): refused: %s", adapter, type,
                   lmt_l2_code_name (refused));
      return FALSE;
    case SM_TASK_LATE:
    default:
      g_set_error (error, LMT_ERROR, LMT_ERROR_IO, "--prepare: L2 %u (%s): expected an answer within --drain-timeout, found none",
                   adapter, type);
      return FALSE;
    }
  for (guint i = 0; i < n; i++)
    {
      figures->stored += prepare->codes[i] == LMT_L2_OK;
      figures->present += prepare->codes[i] == LMT_L2_PRESENT;
      if (prepare->codes[i] == LMT_L2_OK || prepare->codes[i] == LMT_L2_PRESENT)
        continue;
      if (figures->failed++ == 0)
        {
          g_autofree char *text = g_strdup_printf ("--prepare: L2 %u (%s): %s: cannot store: %s", adapter, type,
                                                   lmt_key_wire (prepare->batch[i]), lmt_l2_code_name (prepare->codes[i]));

          lmt_replay_message (session->env->replay, "prepare", text);
        }
    }
  return TRUE;
}

static gboolean
store_all (StorageSession *session, GError **error)
{
  guint at = 0;
  guint n;

  while ((n = take_batch (session, &at)) > 0)
    {
      for (guint a = 0; a < session->config->sm.n_l2; a++)
        if (!store_batch (session, a, n, error))
          return FALSE;
      if (session->env->interrupts != NULL && g_atomic_int_get ((volatile gint *)session->env->interrupts) > 0)
        break;
    }
  return TRUE;
}

gboolean
storage_prepare_finish (StorageSession *session, GError **error)
{
  StoragePrepare *prepare = session->prepare;
  gboolean ok;

  count (prepare);
  ok = !session->started || store_all (session, error);
  session->failed = session->failed || prepare->figures.failed > 0;
  if (ok) /* else the layer may still have keys of ours in hand */
    forget_keys (prepare);
  return ok;
}

void
storage_prepare_report (const StoragePrepare *prepare, LmtReport *report)
{
  const StoragePrepareFigures *figures = &prepare->figures;
  LmtSection *section = lmt_report_add_section (report, "prepare", "Prepare", TRUE);
  const struct
  {
    const char *key;
    const char *label;
    guint64 value;
    gboolean always;
  } rows[] = {
    { "expected_objects", "Objects the trace expects", figures->expected, TRUE },
    { "expected_bytes", "  bytes", figures->bytes, TRUE },
    { "stored_objects", "Stored, all adapters", figures->stored, TRUE },
    { "present_objects", "There already, all adapters", figures->present, TRUE },
    { "failed_objects", "Not stored, all adapters", figures->failed, FALSE },
    { "too_large_objects", "Larger than L1", figures->too_large, FALSE },
    { "unknown_size_objects", "Of unknown size", figures->unknown_size, FALSE },
  };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    if (rows[i].always || rows[i].value > 0)
      lmt_section_add_int (section, rows[i].key, rows[i].label, (gint64)MIN (rows[i].value, (guint64)G_MAXINT64));
}
