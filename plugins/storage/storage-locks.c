// SPDX-License-Identifier: Apache-2.0
#include "storage-locks.h"

#include <string.h>

#include <lmtrace/lmt-pages.h>

#define NONE G_MAXUINT32

/* Locks one prefetch took on one key; of a key in the order in which they were taken. */
typedef struct
{
  guint64 record;
  guint32 left;
  guint32 next;
} Entry;

/* @key is held while anything is owed, so that its id means it. In a queue by the last lock, which moves the end of all of them.
 */
typedef struct
{
  LmtKey *key; /* NULL: nothing owed */
  gint64 expiry_ns;
  guint32 head;
  guint32 tail;
  guint32 earlier;
  guint32 later;
} Owed;

struct _StorageLocks
{
  LmtKeyTable *table;
  gint64 ttl_ns;
  Owed *owed; /* by key id */
  guint n_owed;
  Entry *entries;
  guint32 n_entries;
  guint32 cap_entries;
  guint32 spare;
  guint32 first; /* key id */
  guint32 last;
  guint64 expired;
};

StorageLocks *
storage_locks_new (LmtKeyTable *keys, gint64 read_ttl_ns)
{
  StorageLocks *locks = g_new0 (StorageLocks, 1);

  locks->table = keys;
  locks->ttl_ns = read_ttl_ns;
  locks->spare = locks->first = locks->last = NONE;
  return locks;
}

static void
queue_remove (StorageLocks *locks, guint32 id)
{
  Owed *owed = &locks->owed[id];

  if (owed->earlier != NONE)
    locks->owed[owed->earlier].later = owed->later;
  else
    locks->first = owed->later;
  if (owed->later != NONE)
    locks->owed[owed->later].earlier = owed->earlier;
  else
    locks->last = owed->earlier;
}

static void
queue_append (StorageLocks *locks, guint32 id)
{
  Owed *owed = &locks->owed[id];

  owed->earlier = locks->last;
  owed->later = NONE;
  if (locks->last != NONE)
    locks->owed[locks->last].later = id;
  else
    locks->first = id;
  locks->last = id;
}

static void
pop_entry (StorageLocks *locks, Owed *owed)
{
  guint32 index = owed->head;

  owed->head = locks->entries[index].next;
  locks->entries[index].next = locks->spare;
  locks->spare = index;
}

static void
forget_key (StorageLocks *locks, guint32 id)
{
  LmtKey *key = locks->owed[id].key;

  queue_remove (locks, id);
  locks->owed[id].key = NULL;
  lmt_key_unref (locks->table, key);
}

static void
expire_key (StorageLocks *locks, guint32 id)
{
  Owed *owed = &locks->owed[id];

  while (owed->head != NONE)
    {
      locks->expired += locks->entries[owed->head].left;
      pop_entry (locks, owed);
    }
  forget_key (locks, id);
}

void
storage_locks_free (StorageLocks *locks)
{
  if (locks == NULL)
    return;
  if (!lmt_key_table_is_retired (locks->table))
    for (guint32 id = locks->first; id != NONE; id = locks->owed[id].later)
      lmt_key_unref (locks->table, locks->owed[id].key);
  lmt_pages_free (locks->owed, locks->n_owed * sizeof (Owed));
  lmt_pages_free (locks->entries, locks->cap_entries * sizeof (Entry));
  g_free (locks);
}

static Owed *
find (StorageLocks *locks, const LmtKey *key)
{
  if (key->id >= locks->n_owed || locks->owed[key->id].key == NULL)
    return NULL;
  return &locks->owed[key->id];
}

static guint32
take_entry (StorageLocks *locks)
{
  guint32 index = locks->spare;

  if (index != NONE)
    {
      locks->spare = locks->entries[index].next;
      return index;
    }
  if (locks->n_entries == locks->cap_entries)
    {
      locks->cap_entries = MAX (256, 2 * locks->cap_entries);
      locks->entries = lmt_pages_renew (Entry, locks->entries, locks->n_entries, locks->cap_entries);
    }
  return locks->n_entries++;
}

void
storage_locks_add (StorageLocks *locks, LmtKey *key, guint32 n, guint64 record, gint64 now_ns)
{
  Owed *owed;
  guint32 index;

  /* The queue is in order of expiry: at most what this call adds is swept, on average. */
  while (locks->first != NONE && locks->owed[locks->first].expiry_ns <= now_ns)
    expire_key (locks, locks->first);
  if (key->id >= locks->n_owed)
    {
      guint old = locks->n_owed;

      locks->n_owed = MAX (lmt_key_table_capacity (locks->table), MAX (2 * old, key->id + 1));
      locks->owed = lmt_pages_renew (Owed, locks->owed, old, locks->n_owed);
    }
  owed = &locks->owed[key->id];
  index = take_entry (locks);
  locks->entries[index] = (Entry){ record, n, NONE };
  if (owed->key == NULL)
    {
      owed->key = lmt_key_ref (key);
      owed->head = index;
    }
  else
    {
      queue_remove (locks, key->id);
      locks->entries[owed->tail].next = index;
    }
  owed->tail = index;
  owed->expiry_ns = now_ns > G_MAXINT64 - locks->ttl_ns ? G_MAXINT64 : now_ns + locks->ttl_ns;
  queue_append (locks, key->id);
}

guint32
storage_locks_return (StorageLocks *locks, LmtKey *key, guint32 n, gint64 now_ns)
{
  Owed *owed = find (locks, key);

  if (owed == NULL)
    return n;
  if (owed->expiry_ns <= now_ns)
    {
      expire_key (locks, key->id);
      return n;
    }
  while (n > 0 && owed->head != NONE)
    {
      Entry *entry = &locks->entries[owed->head];
      guint32 part = MIN (n, entry->left);

      entry->left -= part;
      n -= part;
      if (entry->left == 0)
        pop_entry (locks, owed);
    }
  if (owed->head == NONE)
    forget_key (locks, key->id);
  return n;
}

LmtKey *
storage_locks_take_oldest (StorageLocks *locks, gint64 now_ns, guint32 *n)
{
  Owed *owed;
  LmtKey *key;

  while (locks->first != NONE && locks->owed[locks->first].expiry_ns <= now_ns)
    expire_key (locks, locks->first);
  if (locks->first == NONE)
    return NULL;
  owed = &locks->owed[locks->first];
  key = lmt_key_ref (owed->key);
  *n = 0;
  while (owed->head != NONE)
    {
      *n += locks->entries[owed->head].left;
      pop_entry (locks, owed);
    }
  forget_key (locks, key->id);
  return key;
}

void
storage_locks_void (StorageLocks *locks, const LmtKey *key)
{
  if (find (locks, key) != NULL)
    expire_key (locks, key->id);
}

void
storage_locks_get_figures (StorageLocks *locks, gint64 now_ns, StorageLockFigures *figures)
{
  g_autoptr (GHashTable) records = g_hash_table_new_full (g_int64_hash, g_int64_equal, g_free, NULL);

  memset (figures, 0, sizeof *figures);
  for (guint32 id = locks->first; id != NONE; id = locks->owed[id].later)
    for (guint32 i = locks->owed[id].head; i != NONE; i = locks->entries[i].next)
      {
        const Entry *entry = &locks->entries[i];

        if (locks->owed[id].expiry_ns <= now_ns)
          {
            figures->expired += entry->left;
            continue;
          }
        figures->owed += entry->left;
        g_hash_table_add (records, g_memdup2 (&entry->record, sizeof entry->record));
        if (figures->oldest_record == 0 || entry->record < figures->oldest_record)
          figures->oldest_record = entry->record;
      }
  figures->expired += locks->expired;
  figures->requests = g_hash_table_size (records);
}
