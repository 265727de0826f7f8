/* SPDX-License-Identifier: Apache-2.0 */
#include "dram-index.h"

static void
put_bucket (DramIndex *index, guint64 hash, guint32 entry)
{
  guint32 mask = index->n_buckets - 1;
  guint32 i = (guint32)hash & mask;

  while (index->buckets[i].entry != 0)
    i = (i + 1) & mask;
  index->buckets[i] = (DramBucket){ (guint32)(hash >> 32), entry };
}

static void
set_buckets (DramIndex *index, guint32 n)
{
  g_free (index->buckets);
  index->buckets = g_new0 (DramBucket, n);
  index->n_buckets = n;
  for (guint32 i = 1; i < index->n_entries; i++)
    if (index->entries[i].key.struct_size != 0) /* else spare */
      put_bucket (index, index->entries[i].hash64, i);
}

void
dram_index_init (DramIndex *index)
{
  *index = (DramIndex){ .n_entries = 1, .size = 256 };
  index->entries = g_new0 (DramEntry, index->size);
  set_buckets (index, 256);
}

void
dram_index_clear (DramIndex *index)
{
  for (guint32 i = 1; i < index->n_entries; i++)
    g_free (index->entries[i].text);
  g_free (index->entries);
  g_free (index->buckets);
}

DramEntry *
dram_index_find (DramIndex *index, const LmtL2Key *key)
{
  guint32 mask = index->n_buckets - 1;
  guint32 tag = (guint32)(key->hash64 >> 32);

  for (guint32 i = (guint32)key->hash64 & mask; index->buckets[i].entry != 0; i = (i + 1) & mask)
    if (index->buckets[i].tag == tag)
      {
        DramEntry *entry = &index->entries[index->buckets[i].entry];
        if (entry->hash64 == key->hash64 && lmt_key_fields_equal (&entry->key, &key->fields))
          return entry;
      }
  return NULL;
}

static void
copy_key (DramEntry *entry, const LmtKeyFields *key)
{
  guint32 need = key->hash_len + key->model_len + key->salt_len;
  if (need > entry->text_size)
    {
      entry->text = g_realloc (entry->text, need);
      entry->text_size = need;
    }
  guint8 *at = entry->text;
  entry->key = *key;
  if (key->hash_len > 0)
    memcpy (at, key->hash, key->hash_len);
  entry->key.hash = at;
  at += key->hash_len;
  if (key->model_len > 0)
    memcpy (at, key->model, key->model_len);
  entry->key.model = (const char *)at;
  at += key->model_len;
  if (key->salt_len > 0)
    memcpy (at, key->salt, key->salt_len);
  entry->key.salt = (const char *)at;
  entry->key.struct_size = sizeof *key;
}

DramEntry *
dram_index_add (DramIndex *index, const LmtL2Key *key)
{
  guint32 i = index->spare;
  if (i != 0)
    index->spare = index->entries[i].next;
  else
    {
      if (index->n_entries == index->size)
        {
          index->entries = g_renew (DramEntry, index->entries, index->size * 2);
          memset (index->entries + index->size, 0, index->size * sizeof *index->entries);
          index->size *= 2;
        }
      i = index->n_entries++;
    }
  DramEntry *entry = &index->entries[i];
  copy_key (entry, &key->fields);
  entry->hash64 = key->hash64;
  entry->bytes = 0;
  entry->block = 0;
  if (++index->n > index->n_buckets / 2)
    set_buckets (index, index->n_buckets * 2); /* the new one among them */
  else
    put_bucket (index, entry->hash64, i);
  return entry;
}

/* Without tombstones: what stands behind the gap and may move up, moves up. */
void
dram_index_remove (DramIndex *index, DramEntry *entry)
{
  guint32 number = (guint32)(entry - index->entries);
  guint32 mask = index->n_buckets - 1;
  guint32 hole = (guint32)entry->hash64 & mask;

  while (index->buckets[hole].entry != number)
    hole = (hole + 1) & mask;
  for (guint32 i = (hole + 1) & mask; index->buckets[i].entry != 0; i = (i + 1) & mask)
    {
      guint32 home = (guint32)index->entries[index->buckets[i].entry].hash64 & mask;
      if (((i - home) & mask) < ((i - hole) & mask))
        continue;
      index->buckets[hole] = index->buckets[i];
      hole = i;
    }
  index->buckets[hole] = (DramBucket){ 0, 0 };
  entry->key.struct_size = 0;
  entry->next = index->spare;
  index->spare = number;
  index->n--;
}
