/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <lmtrace/lmt-key.h>

G_BEGIN_DECLS

/**
 * StorageLocks: which read locks the trace owes, by the prefetch that took them (storage-manager.md 18.5). The manager counts one
 * number per object, as LMCache does; this tells apart what a finish gives back of its own, what it strips of others, and what
 * nobody gives back. Bounded by locks not yet expired: an entry goes when it is returned, when its key's locks have expired, or
 * when the key is found unlocked.
 */
typedef struct _StorageLocks StorageLocks;

StorageLocks *storage_locks_new (LmtKeyTable *keys, gint64 read_ttl_ns);
void storage_locks_free (StorageLocks *locks);
/* The prefetch of @record took @n locks on @key. */
void storage_locks_add (StorageLocks *locks, LmtKey *key, guint32 n, guint64 record, gint64 now_ns);
/* @n locks were given back; oldest prefetch first. Returns how many of them nobody owed. */
guint32 storage_locks_return (StorageLocks *locks, LmtKey *key, guint32 n, gint64 now_ns);
/* The key whose locks would expire first, and how many are owed: they count as returned. NULL: none are owed. (transfer full) */
LmtKey *storage_locks_take_oldest (StorageLocks *locks, gint64 now_ns, guint32 *n);
/* The key turned out to be unlocked or gone: what was owed has expired. */
void storage_locks_void (StorageLocks *locks, const LmtKey *key);

/**
 * StorageLockFigures:
 * @owed: locks never returned and not expired; @requests: prefetches they belong to; @oldest_record: the first of these, 0: none
 * @expired: locks that were owed when they ended by lifetime
 */
typedef struct
{
  guint64 owed;
  guint64 requests;
  guint64 oldest_record;
  guint64 expired;
} StorageLockFigures;
/* At the end: allocates. */
void storage_locks_get_figures (StorageLocks *locks, gint64 now_ns, StorageLockFigures *figures);

G_END_DECLS
