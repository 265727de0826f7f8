/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <lmtrace/lmt-plugin.h>

enum
{
  DRAM_HASH_BYTES = 32 /* longer hashes stand apart */
};

/* An object: one cache line. Entries are numbered and reused: a warm set allocates nothing. */
typedef struct
{
  guint64 bytes;
  guint64 rank;
  guint32 block; /* of the arena; 0: sizes only, or empty */
  guint32 group;
  guint32 name; /* 0: spare */
  guint32 tag;  /* of its bucket; spare: the next spare one */
  union
  {
    guint8 hash[DRAM_HASH_BYTES];
    guint8 *long_hash;
  };
} DramEntry;
G_STATIC_ASSERT (sizeof (DramEntry) == 64);

/* What many keys have in common. */
typedef struct
{
  char *text; /* model, then salt; NULL: free */
  guint32 model_len;
  guint32 salt_len;
  guint32 hash_len;
  guint32 refs; /* entries */
} DramName;

/* The tag, upper half of the key's hash, stands beside the number: looking for what isn't there touches no entry. */
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
  DramBucket *buckets; /* linear probing from the tag on, at most half full */
  guint32 n_buckets;
  guint32 n;
  GArray *names;      /* of DramName; number 0 is none */
  GArray *free_names; /* of guint32 */
  GHashTable *lookup; /* DramName (a copy) -> number */
  guint32 last_name;
  guint32 n_idle; /* names no entry has: kept for a while, as they mostly come back */
} DramIndex;

void dram_index_init (DramIndex *index);
void dram_index_clear (DramIndex *index);
/* NULL: not there. Valid until the next add. */
DramEntry *dram_index_find (DramIndex *index, const LmtL2Key *key);
/* The key must not be there. */
DramEntry *dram_index_add (DramIndex *index, const LmtL2Key *key);
void dram_index_remove (DramIndex *index, DramEntry *entry);
