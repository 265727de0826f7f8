/* SPDX-License-Identifier: Apache-2.0 */
#include "manager-private.h"

#include <string.h>

/* Memory that is used again: arrays by powers of two, and scratch arrays that only grow. */

enum
{
  SMALLEST = 64
};

gpointer
sm_pool_take (SmPool *pool, gsize bytes, guint8 *size_class)
{
  gsize size = SMALLEST;
  guint8 c = 0;
  gpointer memory;

  for (; size < bytes; size *= 2)
    c++;
  *size_class = c;
  memory = pool->unused[c];
  if (memory == NULL)
    return g_malloc (size);
  pool->unused[c] = *(gpointer *)memory;
  return memory;
}

void
sm_pool_give (SmPool *pool, gpointer memory, guint8 size_class)
{
  *(gpointer *)memory = pool->unused[size_class];
  pool->unused[size_class] = memory;
}

void
sm_pool_clear (SmPool *pool)
{
  for (guint c = 0; c < SM_N_CLASSES; c++)
    while (pool->unused[c] != NULL)
      {
        gpointer memory = pool->unused[c];

        pool->unused[c] = *(gpointer *)memory;
        g_free (memory);
      }
}

void
sm_keys_grow (SmKeys *keys, guint wanted)
{
  keys->size = MAX (MAX (keys->size * 2, 64), wanted);
  keys->data = g_renew (LmtKey *, keys->data, keys->size);
}

void
sm_evict_keys_grow (SmEvictKeys *keys, guint wanted)
{
  keys->size = MAX (MAX (keys->size * 2, 64), wanted);
  keys->data = g_renew (LmtEvictKey, keys->data, keys->size);
}

gpointer
sm_scratch (SmScratch *scratch, gsize bytes)
{
  if (G_UNLIKELY (bytes > scratch->size || scratch->data == NULL))
    {
      scratch->size = MAX (MAX (scratch->size * 2, 256), bytes);
      g_free (scratch->data);
      scratch->data = g_malloc (scratch->size);
    }
  return scratch->data;
}

/* ---- partition ---- */

SmIdentity *
sm_partition_begin (SmPartition *partition, guint n)
{
  return sm_scratch (&partition->identities, n * sizeof (SmIdentity));
}

typedef struct
{
  SmIdentity identity;
  guint32 part; /* SM_NIL: empty */
} Slot;

static inline guint
slot_of (const SmIdentity *identity, guint mask)
{
  guint64 hash
      = (identity->a * G_GUINT64_CONSTANT (0x9E3779B97F4A7C15)) ^ (identity->b * G_GUINT64_CONSTANT (0xBF58476D1CE4E5B9));

  return (guint)(hash >> 32 ^ hash) & mask;
}

/* Neighbours mostly belong together; the table is built when a second group shows. */
static guint
number_parts (SmPartition *partition, const SmIdentity *identities, guint n, guint32 *part_of)
{
  guint size = 16, n_parts = 0;
  Slot *slots = NULL;

  for (guint i = 0; i < n; i++)
    {
      guint slot;

      if (i > 0 && identities[i].a == identities[i - 1].a && identities[i].b == identities[i - 1].b)
        {
          part_of[i] = part_of[i - 1];
          continue;
        }
      if (i == 0)
        {
          part_of[0] = n_parts++;
          continue;
        }
      if (slots == NULL)
        {
          while (size < 2 * n)
            size *= 2;
          slots = sm_scratch (&partition->slots, size * sizeof *slots);
          for (guint s = 0; s < size; s++)
            slots[s].part = SM_NIL;
          slots[slot_of (&identities[0], size - 1)] = (Slot){ identities[0], 0 };
        }
      slot = slot_of (&identities[i], size - 1);
      while (slots[slot].part != SM_NIL
             && (slots[slot].identity.a != identities[i].a || slots[slot].identity.b != identities[i].b))
        slot = (slot + 1) & (size - 1);
      if (slots[slot].part == SM_NIL)
        slots[slot] = (Slot){ identities[i], n_parts++ };
      part_of[i] = slots[slot].part;
    }
  return n_parts;
}

void
sm_partition_end (SmPartition *partition, guint n)
{
  guint32 *part_of = sm_scratch (&partition->part_of, n * sizeof *part_of);

  partition->n_parts = number_parts (partition, partition->identities.data, n, part_of);
  partition->order = sm_scratch (&partition->order_memory, n * sizeof (guint32));
  partition->starts = sm_scratch (&partition->starts_memory, (partition->n_parts + 2) * sizeof (guint32));
  memset (partition->starts, 0, (partition->n_parts + 2) * sizeof (guint32));
  for (guint i = 0; i < n; i++)
    partition->starts[part_of[i] + 2]++;
  for (guint part = 2; part < partition->n_parts + 2; part++)
    partition->starts[part] += partition->starts[part - 1];
  for (guint i = 0; i < n; i++)
    partition->order[partition->starts[part_of[i] + 1]++] = i;
}

void
sm_partition_clear (SmPartition *partition)
{
  g_free (partition->identities.data);
  g_free (partition->slots.data);
  g_free (partition->part_of.data);
  g_free (partition->order_memory.data);
  g_free (partition->starts_memory.data);
}
