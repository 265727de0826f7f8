/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <lmtrace/lmt-key.h>

G_BEGIN_DECLS

/**
 * StorageContexts: read contexts that are open. A context is found again by its ordered list of keys (all five parts of each); of
 * equal lists the oldest is taken (trace-format.md 7.3). Contexts hold their keys; memory is reused, so a warm set allocates
 * nothing.
 */
typedef struct _StorageContexts StorageContexts;

/**
 * StorageContext: lent by storage_contexts_pop() until the next push.
 * @good: all keys were readable at the enter; else @keys are the distinct ones that were
 */
typedef struct _StorageContext StorageContext;
struct _StorageContext
{
  guint64 record; /* number of the enter */
  gboolean good;
  guint n_keys; /* as entered */
  guint n_good; /* distinct readable ones, at the front of `good_keys`; only if not `good` */
  LmtKey **keys;
  LmtKey **good_keys;
  /* own */
  guint64 hash;
  guint cap;
  StorageContext *chain;
  StorageContext *older;
  StorageContext *newer;
};

StorageContexts *storage_contexts_new (LmtKeyTable *keys);
void storage_contexts_free (StorageContexts *contexts);
/* @readable: (nullable): per key 1 or 0; NULL: all are. */
void storage_contexts_push (StorageContexts *contexts, LmtKey *const *keys, const guint8 *readable, guint n, guint64 record);
/* The oldest with this list, or NULL. Its keys are good until the next push or pop. */
const StorageContext *storage_contexts_pop (StorageContexts *contexts, LmtKey *const *keys, guint n);
const StorageContext *storage_contexts_pop_oldest (StorageContexts *contexts);
guint storage_contexts_n_open (const StorageContexts *contexts);

G_END_DECLS
