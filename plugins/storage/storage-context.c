// SPDX-License-Identifier: Apache-2.0
#include "storage-context.h"

#include <string.h>

#include <lmtrace/lmt-hash.h>

typedef struct
{
  StorageContext *head;
  StorageContext *tail;
} Bucket;

struct _StorageContexts
{
  LmtKeyTable *table;
  Bucket *buckets;
  guint n_buckets; /* power of two */
  guint n_open;
  StorageContext *oldest;
  StorageContext *newest;
  StorageContext *spare;
  StorageContext *lent; /* its keys are let go at the next step */
  guint32 *stamps;      /* by key id: last round in which it was seen */
  guint n_stamps;
  guint32 round;
};

StorageContexts *
storage_contexts_new (LmtKeyTable *keys)
{
  StorageContexts *contexts = g_new0 (StorageContexts, 1);

  contexts->table = keys;
  contexts->n_buckets = 64;
  contexts->buckets = g_new0 (Bucket, contexts->n_buckets);
  return contexts;
}

static void
context_let_go (StorageContexts *contexts, StorageContext *context)
{
  for (guint i = 0; i < context->n_keys; i++)
    lmt_key_unref (contexts->table, context->keys[i]);
  context->n_keys = 0;
}

static void
recycle_lent (StorageContexts *contexts)
{
  StorageContext *context = contexts->lent;

  if (context == NULL)
    return;
  contexts->lent = NULL;
  context_let_go (contexts, context);
  context->chain = contexts->spare;
  contexts->spare = context;
}

static void
context_free (StorageContext *context)
{
  g_free (context->keys);
  g_free (context->good_keys);
  g_free (context);
}

void
storage_contexts_free (StorageContexts *contexts)
{
  StorageContext *next;

  if (contexts == NULL)
    return;
  recycle_lent (contexts);
  for (StorageContext *context = contexts->oldest; context != NULL; context = next)
    {
      next = context->newer;
      context_let_go (contexts, context);
      context_free (context);
    }
  for (StorageContext *context = contexts->spare; context != NULL; context = next)
    {
      next = context->chain;
      context_free (context);
    }
  g_free (contexts->buckets);
  g_free (contexts->stamps);
  g_free (contexts);
}

static guint64
hash_of (LmtKey *const *keys, guint n)
{
  guint64 hash = lmt_mix64 (n + 1);

  for (guint i = 0; i < n; i++)
    hash = lmt_mix64 (hash ^ keys[i]->hash64) + i;
  return hash;
}

static void
bucket_append (Bucket *bucket, StorageContext *context)
{
  context->chain = NULL;
  if (bucket->tail != NULL)
    bucket->tail->chain = context;
  else
    bucket->head = context;
  bucket->tail = context;
}

static void
grow (StorageContexts *contexts)
{
  contexts->n_buckets *= 2;
  contexts->buckets = g_renew (Bucket, contexts->buckets, contexts->n_buckets);
  memset (contexts->buckets, 0, contexts->n_buckets * sizeof (Bucket));
  /* Oldest first, so that equal lists keep their order. */
  for (StorageContext *context = contexts->oldest; context != NULL; context = context->newer)
    bucket_append (&contexts->buckets[context->hash & (contexts->n_buckets - 1)], context);
}

static StorageContext *
take_context (StorageContexts *contexts, guint n)
{
  StorageContext *context = contexts->spare;

  if (context != NULL)
    contexts->spare = context->chain;
  else
    context = g_new0 (StorageContext, 1);
  if (context->cap < n)
    {
      context->cap = MAX (n, 2 * context->cap);
      context->keys = g_renew (LmtKey *, context->keys, context->cap);
      context->good_keys = g_renew (LmtKey *, context->good_keys, context->cap);
    }
  return context;
}

/* Upstream keeps the readable ones in a map: a key listed twice gives one lock back. */
static guint
distinct_readable (StorageContexts *contexts, LmtKey *const *keys, const guint8 *readable, guint n, LmtKey **out)
{
  guint n_out = 0;
  guint capacity = lmt_key_table_capacity (contexts->table);

  if (contexts->n_stamps < capacity)
    {
      guint old = contexts->n_stamps;

      contexts->n_stamps = MAX (capacity, 2 * old);
      contexts->stamps = g_renew (guint32, contexts->stamps, contexts->n_stamps);
      memset (contexts->stamps + old, 0, (contexts->n_stamps - old) * sizeof (guint32));
    }
  if (++contexts->round == 0)
    {
      memset (contexts->stamps, 0, contexts->n_stamps * sizeof (guint32));
      contexts->round = 1;
    }
  for (guint i = 0; i < n; i++)
    if (readable[i] && contexts->stamps[keys[i]->id] != contexts->round)
      {
        contexts->stamps[keys[i]->id] = contexts->round;
        out[n_out++] = keys[i];
      }
  return n_out;
}

void
storage_contexts_push (StorageContexts *contexts, LmtKey *const *keys, const guint8 *readable, guint n, guint64 record)
{
  StorageContext *context;

  recycle_lent (contexts);
  if (contexts->n_open >= contexts->n_buckets)
    grow (contexts);
  context = take_context (contexts, n);
  context->record = record;
  context->hash = hash_of (keys, n);
  context->n_keys = n;
  context->n_good = 0;
  context->good = readable == NULL;
  for (guint i = 0; i < n; i++)
    context->keys[i] = lmt_key_ref (keys[i]);
  if (readable != NULL)
    context->n_good = distinct_readable (contexts, keys, readable, n, context->good_keys);
  bucket_append (&contexts->buckets[context->hash & (contexts->n_buckets - 1)], context);
  context->newer = NULL;
  context->older = contexts->newest;
  if (contexts->newest != NULL)
    contexts->newest->newer = context;
  else
    contexts->oldest = context;
  contexts->newest = context;
  contexts->n_open++;
}

static void
take_out (StorageContexts *contexts, Bucket *bucket, StorageContext *before, StorageContext *context)
{
  if (before != NULL)
    before->chain = context->chain;
  else
    bucket->head = context->chain;
  if (bucket->tail == context)
    bucket->tail = before;
  if (context->older != NULL)
    context->older->newer = context->newer;
  else
    contexts->oldest = context->newer;
  if (context->newer != NULL)
    context->newer->older = context->older;
  else
    contexts->newest = context->older;
  contexts->n_open--;
  contexts->lent = context;
}

const StorageContext *
storage_contexts_pop (StorageContexts *contexts, LmtKey *const *keys, guint n)
{
  guint64 hash = hash_of (keys, n);
  Bucket *bucket;
  StorageContext *before = NULL;

  recycle_lent (contexts);
  bucket = &contexts->buckets[hash & (contexts->n_buckets - 1)];
  for (StorageContext *context = bucket->head; context != NULL; before = context, context = context->chain)
    if (context->hash == hash && context->n_keys == n && (n == 0 || memcmp (context->keys, keys, n * sizeof keys[0]) == 0))
      {
        take_out (contexts, bucket, before, context);
        return context;
      }
  return NULL;
}

const StorageContext *
storage_contexts_pop_oldest (StorageContexts *contexts)
{
  StorageContext *context = contexts->oldest;
  Bucket *bucket;
  StorageContext *before = NULL;

  recycle_lent (contexts);
  if (context == NULL)
    return NULL;
  bucket = &contexts->buckets[context->hash & (contexts->n_buckets - 1)];
  for (StorageContext *other = bucket->head; other != context; other = other->chain)
    before = other;
  take_out (contexts, bucket, before, context);
  return context;
}

guint
storage_contexts_n_open (const StorageContexts *contexts)
{
  return contexts->n_open;
}
