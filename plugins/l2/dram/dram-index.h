/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <lmtrace/lmt-plugin.h>

/* Which objects there are. Entries are numbered and reused with their key storage: a warm set allocates nothing. */
typedef struct
{
  LmtKeyFields key; /* points into `text` */
  guint64 hash64;
  guint64 bytes;
  guint32 block; /* of the arena; 0: sizes only, or empty */
  guint32 next;  /* in the free list */
  guint8 *text;
  guint32 text_size;
} DramEntry;

/* The tag stands beside the number: looking for what isn't there touches no entry. */
typedef struct
{
  guint32 tag;
  guint32 entry; /* 0: empty */
} DramBucket;

typedef struct
{
  DramEntry *entries; /* number 0 is none */
  guint32 n_entries;
  guint32 size;
  guint32 spare;
  DramBucket *buckets; /* linear probing, at most half full */
  guint32 n_buckets;
  guint32 n;
} DramIndex;

void dram_index_init (DramIndex *index);
void dram_index_clear (DramIndex *index);
/* NULL: not there. Valid until the next add. */
DramEntry *dram_index_find (DramIndex *index, const LmtL2Key *key);
/* The key must not be there. */
DramEntry *dram_index_add (DramIndex *index, const LmtL2Key *key);
void dram_index_remove (DramIndex *index, DramEntry *entry);
