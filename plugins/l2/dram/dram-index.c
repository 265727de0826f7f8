/* SPDX-License-Identifier: Apache-2.0 */
#include "dram-index.h"

enum
{
  FIRST = 256,
  MOST_IDLE = 64,
};

/* -------- names -------- */

#define NAME(index, i) (&g_array_index ((index)->names, DramName, (i)))

static guint
name_hash (gconstpointer key)
{
  const DramName *name = key;
  return (guint)lmt_hash_bytes (name->text, (gsize)name->model_len + name->salt_len, lmt_hash_seed () + name->hash_len);
}

static gboolean
name_equal (gconstpointer a, gconstpointer b)
{
  const DramName *x = a, *y = b;
  return x->model_len == y->model_len && x->salt_len == y->salt_len && x->hash_len == y->hash_len
         && memcmp (x->text, y->text, (gsize)x->model_len + x->salt_len) == 0;
}

static inline gboolean
name_is (const DramName *name, const LmtKeyFields *key)
{
  return name->model_len == key->model_len && name->salt_len == key->salt_len && name->hash_len == key->hash_len
         && memcmp (name->text, key->model, key->model_len) == 0
         && (key->salt_len == 0 || memcmp (name->text + key->model_len, key->salt, key->salt_len) == 0);
}

/* Names come with keys without end in some traces: the idle ones go together, many at a time. */
static void
drop_idle (DramIndex *index)
{
  for (guint32 i = 1; i < index->names->len; i++)
    {
      DramName *name = NAME (index, i);
      if (name->text == NULL || name->refs > 0)
        continue;
      g_hash_table_remove (index->lookup, name);
      g_clear_pointer (&name->text, g_free);
      g_array_append_val (index->free_names, i);
    }
  index->n_idle = 0;
}

static guint32
free_name (DramIndex *index)
{
  guint32 i;

  if (index->free_names->len > 0)
    {
      i = g_array_index (index->free_names, guint32, index->free_names->len - 1);
      g_array_set_size (index->free_names, index->free_names->len - 1);
      return i;
    }
  g_array_set_size (index->names, index->names->len + 1);
  return index->names->len - 1;
}

static guint32
new_name (DramIndex *index, const LmtKeyFields *key)
{
  gsize len = (gsize)key->model_len + key->salt_len;
  g_autofree char *text = g_malloc (len + 1);
  DramName name = { text, key->model_len, key->salt_len, key->hash_len, 0 };

  if (key->model_len > 0)
    memcpy (text, key->model, key->model_len);
  if (key->salt_len > 0)
    memcpy (text + key->model_len, key->salt, key->salt_len);
  guint32 i = GPOINTER_TO_UINT (g_hash_table_lookup (index->lookup, &name));
  if (i != 0)
    return i;
  if (index->n_idle >= MAX (MOST_IDLE, index->names->len / 4))
    drop_idle (index);
  i = free_name (index);
  *NAME (index, i) = name;
  g_hash_table_insert (index->lookup, g_memdup2 (&name, sizeof name), GUINT_TO_POINTER (i));
  index->n_idle++;
  g_steal_pointer (&text);
  return i;
}

static guint32
take_name (DramIndex *index, const LmtKeyFields *key)
{
  guint32 i = index->last_name;

  if (i == 0 || NAME (index, i)->text == NULL || !name_is (NAME (index, i), key))
    i = index->last_name = new_name (index, key);
  if (NAME (index, i)->refs++ == 0)
    index->n_idle--;
  return i;
}

static void
give_name (DramIndex *index, guint32 i)
{
  if (--NAME (index, i)->refs == 0)
    index->n_idle++;
}

/* -------- buckets -------- */

static inline guint32
tag_of (const LmtL2Key *key)
{
  return (guint32)(key->hash64 >> 32);
}

static inline void
put_bucket (DramIndex *index, guint32 tag, guint32 entry)
{
  guint32 mask = index->n_buckets - 1;
  guint32 i = tag & mask;

  while (index->buckets[i].entry != 0)
    i = (i + 1) & mask;
  index->buckets[i] = (DramBucket){ tag, entry };
}

static void
grow_buckets (DramIndex *index)
{
  DramBucket *old = index->buckets;
  guint32 n = index->n_buckets;

  index->n_buckets *= 2;
  index->buckets = lmt_pages_renew (DramBucket, NULL, 0, index->n_buckets);
  for (guint32 i = 0; i < n; i++)
    if (old[i].entry != 0)
      put_bucket (index, old[i].tag, old[i].entry);
  lmt_pages_free (old, n * sizeof *old);
}

/* -------- entries -------- */

void
dram_index_init (DramIndex *index)
{
  *index = (DramIndex){ .n_entries = 1, .size = FIRST, .n_buckets = FIRST };
  index->entries = lmt_pages_renew (DramEntry, NULL, 0, FIRST);
  index->buckets = lmt_pages_renew (DramBucket, NULL, 0, FIRST);
  index->names = g_array_new (FALSE, TRUE, sizeof (DramName));
  g_array_set_size (index->names, 1);
  index->free_names = g_array_new (FALSE, FALSE, sizeof (guint32));
  index->lookup = g_hash_table_new_full (name_hash, name_equal, g_free, NULL);
}

void
dram_index_clear (DramIndex *index)
{
  gboolean any_long = FALSE;

  for (guint32 i = 1; i < index->names->len; i++)
    any_long |= NAME (index, i)->text != NULL && NAME (index, i)->hash_len > DRAM_HASH_BYTES;
  for (guint32 i = 1; i < index->n_entries && any_long; i++)
    if (index->entries[i].name != 0 && NAME (index, index->entries[i].name)->hash_len > DRAM_HASH_BYTES)
      g_free (index->entries[i].long_hash);
  g_hash_table_unref (index->lookup);
  for (guint32 i = 1; i < index->names->len; i++)
    g_free (NAME (index, i)->text);
  g_array_unref (index->names);
  g_array_unref (index->free_names);
  lmt_pages_free (index->entries, index->size * sizeof *index->entries);
  lmt_pages_free (index->buckets, index->n_buckets * sizeof *index->buckets);
}

static inline gboolean
entry_is (const DramIndex *index, const DramEntry *entry, const LmtKeyFields *key)
{
  if (entry->rank != key->rank || entry->group != key->group || !name_is (NAME (index, entry->name), key))
    return FALSE;
  if (key->hash_len == DRAM_HASH_BYTES)
    return memcmp (entry->hash, key->hash, DRAM_HASH_BYTES) == 0;
  return key->hash_len == 0
         || memcmp (key->hash_len > DRAM_HASH_BYTES ? entry->long_hash : entry->hash, key->hash, key->hash_len) == 0;
}

DramEntry *
dram_index_find (DramIndex *index, const LmtL2Key *key)
{
  guint32 mask = index->n_buckets - 1, tag = tag_of (key);

  for (guint32 i = tag & mask; index->buckets[i].entry != 0; i = (i + 1) & mask)
    if (index->buckets[i].tag == tag)
      {
        DramEntry *entry = &index->entries[index->buckets[i].entry];
        if (entry_is (index, entry, &key->fields))
          return entry;
      }
  return NULL;
}

static guint32
take_number (DramIndex *index)
{
  guint32 i = index->spare;

  if (i != 0)
    {
      index->spare = index->entries[i].tag;
      return i;
    }
  if (index->n_entries == index->size)
    {
      index->entries = lmt_pages_renew (DramEntry, index->entries, index->size, (gsize)index->size * 2);
      index->size *= 2;
    }
  return index->n_entries++;
}

DramEntry *
dram_index_add (DramIndex *index, const LmtL2Key *key)
{
  const LmtKeyFields *fields = &key->fields;
  guint32 i = take_number (index);
  DramEntry *entry = &index->entries[i];

  *entry = (DramEntry){ .rank = fields->rank, .group = fields->group, .tag = tag_of (key) };
  entry->name = take_name (index, fields);
  if (fields->hash_len > DRAM_HASH_BYTES)
    entry->long_hash = g_memdup2 (fields->hash, fields->hash_len);
  else if (fields->hash_len > 0)
    memcpy (entry->hash, fields->hash, fields->hash_len);
  if (++index->n > index->n_buckets / 2)
    grow_buckets (index);
  put_bucket (index, entry->tag, i);
  return entry;
}

/* Without tombstones: what stands behind the gap and may move up, moves up. */
void
dram_index_remove (DramIndex *index, DramEntry *entry)
{
  guint32 number = (guint32)(entry - index->entries);
  guint32 mask = index->n_buckets - 1;
  guint32 hole = entry->tag & mask;

  while (index->buckets[hole].entry != number)
    hole = (hole + 1) & mask;
  for (guint32 i = (hole + 1) & mask; index->buckets[i].entry != 0; i = (i + 1) & mask)
    {
      guint32 home = index->buckets[i].tag & mask;
      if (((i - home) & mask) < ((i - hole) & mask))
        continue;
      index->buckets[hole] = index->buckets[i];
      hole = i;
    }
  index->buckets[hole] = (DramBucket){ 0, 0 };
  if (NAME (index, entry->name)->hash_len > DRAM_HASH_BYTES)
    g_free (entry->long_hash);
  give_name (index, entry->name);
  entry->name = 0;
  entry->tag = index->spare;
  index->spare = number;
  index->n--;
}
