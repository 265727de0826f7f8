/* SPDX-License-Identifier: Apache-2.0 */
#include "scenario.h"

#include <string.h>

/* The scripted adapter (storage-manager.md 15): in memory, takes and answers whole tasks, does what the scenario says. */

enum
{
  N_KINDS = 5
};

typedef struct
{
  guint8 *data;
  guint64 bytes;
} Object;

struct _Scripted
{
  World *world;
  guint number;
  guint64 capacity;
  guint64 used;
  GHashTable *objects; /* LmtKey, one reference -> Object */
  GHashTable *locks;   /* LmtKey, one reference -> count */
  gboolean held[N_KINDS];
  GArray *waiting[N_KINDS]; /* SmIo */
  gboolean refuse[N_KINDS];
  gboolean fail_store;
  GHashTable *fail_load;
};

guint
io_kind_from_text (const char *text)
{
  static const char *const names[] = { "store", "load", "lookup", "delete" };

  for (guint i = 0; i < G_N_ELEMENTS (names); i++)
    if (strcmp (names[i], text) == 0)
      return i;
  g_error ("no kind of task \"%s\"", text);
  return 0;
}

static void
object_free (gpointer data)
{
  Object *object = data;

  g_free (object->data);
  g_free (object);
}

Scripted *
scripted_new (World *world, guint number, guint64 capacity)
{
  Scripted *adapter = g_new0 (Scripted, 1);

  adapter->world = world;
  adapter->number = number;
  adapter->capacity = capacity;
  adapter->objects = g_hash_table_new_full (NULL, NULL, NULL, object_free);
  adapter->locks = g_hash_table_new (NULL, NULL);
  adapter->fail_load = g_hash_table_new (NULL, NULL);
  for (guint k = 0; k < N_KINDS; k++)
    adapter->waiting[k] = g_array_new (FALSE, FALSE, sizeof (SmIo));
  return adapter;
}

static void
unref_keys (Scripted *adapter, GHashTable *table)
{
  GHashTableIter iter;
  gpointer key;

  g_hash_table_iter_init (&iter, table);
  while (g_hash_table_iter_next (&iter, &key, NULL))
    lmt_key_unref (adapter->world->scenario->table, key);
}

void
scripted_free (Scripted *adapter)
{
  unref_keys (adapter, adapter->objects);
  unref_keys (adapter, adapter->locks);
  g_hash_table_unref (adapter->objects);
  g_hash_table_unref (adapter->locks);
  g_hash_table_unref (adapter->fail_load);
  for (guint k = 0; k < N_KINDS; k++)
    g_array_unref (adapter->waiting[k]);
  g_free (adapter);
}

/* ---- contents ---- */

static void
insert (Scripted *adapter, LmtKey *key, const guint8 *data, guint64 bytes)
{
  Object *object = g_new (Object, 1);

  object->data = g_memdup2 (data, bytes);
  object->bytes = bytes;
  g_hash_table_insert (adapter->objects, lmt_key_ref (key), object);
  adapter->used += bytes;
}

static gboolean
take_out (Scripted *adapter, LmtKey *key, guint64 *bytes)
{
  Object *object = g_hash_table_lookup (adapter->objects, key);

  if (object == NULL)
    return FALSE;
  *bytes = object->bytes;
  adapter->used -= object->bytes;
  g_hash_table_remove (adapter->objects, key);
  return TRUE; /* the reference is the caller's now */
}

static void
lock (Scripted *adapter, LmtKey *key, gint by)
{
  gint count = GPOINTER_TO_INT (g_hash_table_lookup (adapter->locks, key));

  if (by < 0 && count == 0)
    return;
  if (!g_hash_table_contains (adapter->locks, key))
    lmt_key_ref (key);
  g_hash_table_insert (adapter->locks, key, GINT_TO_POINTER (count + by));
}

/* ---- tasks ---- */

static void
add_event (Done *done, LmtKey *key, guint64 bytes)
{
  g_ptr_array_add (done->keys, lmt_key_ref (key));
  g_array_append_val (done->sizes, bytes);
}

static void
execute_store (Scripted *adapter, const SmIo *io, Done *done)
{
  done->event = 0;
  for (guint i = 0; i < io->n; i++)
    {
      done->codes[i] = adapter->fail_store ? LMT_L2_IO : LMT_L2_OK;
      if (adapter->fail_store || g_hash_table_contains (adapter->objects, io->keys[i]))
        continue;
      if (adapter->capacity > 0 && adapter->used + io->sizes[i] > adapter->capacity)
        continue; /* in silence */
      insert (adapter, io->keys[i], adapter->world->memory + io->addresses[i], io->sizes[i]);
      done->bytes += io->sizes[i];
      add_event (done, io->keys[i], io->sizes[i]);
    }
}

static void
execute_load (Scripted *adapter, const SmIo *io, Done *done)
{
  done->event = 1;
  for (guint i = 0; i < io->n; i++)
    {
      const Object *object = g_hash_table_lookup (adapter->objects, io->keys[i]);

      done->codes[i] = LMT_L2_NOT_FOUND;
      if (object == NULL || g_hash_table_contains (adapter->fail_load, io->keys[i]))
        continue;
      memcpy (adapter->world->memory + io->addresses[i], object->data, MIN (object->bytes, io->sizes[i]));
      done->codes[i] = LMT_L2_OK;
      done->bytes += object->bytes;
      add_event (done, io->keys[i], object->bytes);
    }
}

static void
execute_lookup (Scripted *adapter, const SmIo *io, Done *done)
{
  for (guint i = 0; i < io->n; i++)
    {
      gboolean present = g_hash_table_contains (adapter->objects, io->keys[i]);

      done->codes[i] = present ? LMT_L2_OK : LMT_L2_NOT_FOUND;
      if (present)
        lock (adapter, io->keys[i], 1);
    }
}

static void
execute_delete (Scripted *adapter, const SmIo *io, Done *done)
{
  done->event = 2;
  for (guint i = 0; i < io->n; i++)
    {
      guint64 bytes;

      done->codes[i] = LMT_L2_NOT_FOUND;
      if (!take_out (adapter, io->keys[i], &bytes))
        continue;
      done->codes[i] = LMT_L2_OK;
      add_event (done, io->keys[i], bytes);
      lmt_key_unref (adapter->world->scenario->table, io->keys[i]);
    }
}

static void
execute (Scripted *adapter, const SmIo *io)
{
  Done done = { io->id, adapter->number, g_malloc0 (io->n + 1), 0, -1, g_ptr_array_new (), g_array_new (FALSE, FALSE, 8) };

  switch (io->kind)
    {
    case SM_IO_STORE:
      execute_store (adapter, io, &done);
      break;
    case SM_IO_LOAD:
      execute_load (adapter, io, &done);
      break;
    case SM_IO_LOOKUP:
      execute_lookup (adapter, io, &done);
      break;
    default:
      execute_delete (adapter, io, &done);
      break;
    }
  g_array_append_val (adapter->world->done, done);
}

gboolean
scripted_submit (Scripted *adapter, const SmIo *io)
{
  if (adapter->refuse[io->kind])
    return FALSE;
  if (adapter->held[io->kind])
    g_array_append_val (adapter->waiting[io->kind], *io);
  else
    execute (adapter, io);
  return TRUE;
}

void
scripted_unlock (Scripted *adapter, const SmIo *io)
{
  for (guint i = 0; i < io->n; i++)
    lock (adapter, io->keys[i], -1);
}

/* Hands over the oldest executed task: its event first. */
void
scripted_hand_over (World *world)
{
  Done done = g_array_index (world->done, Done, 0);

  g_array_remove_index (world->done, 0);
  if (done.event >= 0 && done.keys->len > 0)
    lmt_sm_l2_event (world->sm, world->now, done.adapter, (guint32)done.event, (LmtKey *const *)done.keys->pdata,
                     (const guint64 *)done.sizes->data, done.keys->len);
  lmt_sm_completed (world->sm, world->now, done.id, done.codes, done.bytes);
  for (guint i = 0; i < done.keys->len; i++)
    lmt_key_unref (world->scenario->table, done.keys->pdata[i]);
  g_free (done.codes);
  g_ptr_array_unref (done.keys);
  g_array_unref (done.sizes);
}

/* ---- what a scenario does to it ---- */

void
scripted_put (Scripted *adapter, LmtKey *const *keys, guint n, guint64 bytes)
{
  g_autofree guint8 *data = g_malloc (bytes + 1);
  g_autoptr (GPtrArray) fresh = g_ptr_array_new ();
  g_autoptr (GArray) sizes = g_array_new (FALSE, FALSE, 8);

  for (guint i = 0; i < n; i++)
    {
      if (g_hash_table_contains (adapter->objects, keys[i]))
        continue;
      memset (data, pattern_byte (keys[i]), bytes);
      insert (adapter, keys[i], data, bytes);
      g_ptr_array_add (fresh, keys[i]);
      g_array_append_val (sizes, bytes);
    }
  lmt_sm_l2_event (adapter->world->sm, adapter->world->now, adapter->number, 0, (LmtKey *const *)fresh->pdata,
                   (const guint64 *)sizes->data, fresh->len);
}

void
scripted_delete (Scripted *adapter, LmtKey *const *keys, guint n)
{
  g_autoptr (GPtrArray) gone = g_ptr_array_new ();
  g_autoptr (GArray) sizes = g_array_new (FALSE, FALSE, 8);

  for (guint i = 0; i < n; i++)
    {
      guint64 bytes;

      if (!take_out (adapter, keys[i], &bytes))
        continue;
      g_ptr_array_add (gone, keys[i]);
      g_array_append_val (sizes, bytes);
    }
  lmt_sm_l2_event (adapter->world->sm, adapter->world->now, adapter->number, 2, (LmtKey *const *)gone->pdata,
                   (const guint64 *)sizes->data, gone->len);
  for (guint i = 0; i < gone->len; i++)
    lmt_key_unref (adapter->world->scenario->table, gone->pdata[i]);
}

void
scripted_hold (Scripted *adapter, guint kind)
{
  adapter->held[kind] = TRUE;
}

void
scripted_release (Scripted *adapter, guint kind, gint64 count)
{
  GArray *waiting = adapter->waiting[kind];

  if (count < 0)
    adapter->held[kind] = FALSE;
  for (gint64 i = 0; waiting->len > 0 && (count < 0 || i < count); i++)
    {
      SmIo io = g_array_index (waiting, SmIo, 0);

      g_array_remove_index (waiting, 0);
      execute (adapter, &io);
    }
}

guint
scripted_held (const Scripted *adapter, guint kind)
{
  return adapter->waiting[kind]->len;
}

void
scripted_fail_store (Scripted *adapter, gboolean on)
{
  adapter->fail_store = on;
}

void
scripted_fail_load (Scripted *adapter, const GPtrArray *keys)
{
  g_hash_table_remove_all (adapter->fail_load);
  for (guint i = 0; i < keys->len; i++)
    g_hash_table_add (adapter->fail_load, keys->pdata[i]);
}

void
scripted_fail_submit (Scripted *adapter, guint kind, gboolean on)
{
  adapter->refuse[kind] = on;
}

void
scripted_write_state (Scripted *adapter)
{
  LmtJsonWriter *writer = adapter->world->scenario->writer;
  GHashTableIter iter;
  gpointer key, value;
  gboolean orphans = FALSE;

  lmt_json_writer_begin_object (writer);
  lmt_json_writer_key (writer, "keys");
  lmt_json_writer_begin_object (writer);
  g_hash_table_iter_init (&iter, adapter->objects);
  while (g_hash_table_iter_next (&iter, &key, NULL))
    {
      lmt_json_writer_key (writer, scenario_key_name (adapter->world->scenario, key));
      lmt_json_writer_int (writer, GPOINTER_TO_INT (g_hash_table_lookup (adapter->locks, key)));
    }
  lmt_json_writer_end_object (writer);
  lmt_json_writer_key (writer, "used");
  lmt_json_writer_uint (writer, adapter->used);
  g_hash_table_iter_init (&iter, adapter->locks);
  while (g_hash_table_iter_next (&iter, &key, &value))
    {
      if (GPOINTER_TO_INT (value) == 0 || g_hash_table_contains (adapter->objects, key))
        continue;
      if (!orphans)
        {
          lmt_json_writer_key (writer, "orphan_locks");
          lmt_json_writer_begin_object (writer);
        }
      orphans = TRUE;
      lmt_json_writer_key (writer, scenario_key_name (adapter->world->scenario, key));
      lmt_json_writer_int (writer, GPOINTER_TO_INT (value));
    }
  if (orphans)
    lmt_json_writer_end_object (writer);
  lmt_json_writer_end_object (writer);
}
