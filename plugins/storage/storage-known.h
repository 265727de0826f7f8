/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <lmtrace/lmt-key.h>

G_BEGIN_DECLS

/**
 * SmKnown: the last lists of keys that were read, by their bytes. A request names the same list in each of its calls (reserve,
 * finish, prefetch, enter, exit, finish), and a later turn of a conversation begins with the list of the one before: equal bytes
 * are equal keys, so the second time is a comparison. Holds a reference on each key of its lists.
 */
enum
{
  SM_KNOWN_LISTS = 16,
  SM_KNOWN_BYTES = 128 * 1024, /* longer lists aren't kept */
};

typedef struct
{
  guint8 *bytes; /* of all elements, without the array's head */
  guint32 len;
  guint32 n;
  LmtKey **keys;
  guint32 *ends; /* per key, into `bytes` */
  guint32 n_grouped;
  guint32 n_salted;
  guint64 tenant; /* equal bytes are other keys for another */
  guint64 round;  /* that read or used it */
} SmKnownList;

typedef struct
{
  guint64 prints[SM_KNOWN_LISTS]; /* a part of the bytes that differs from list to list, for a first look */
  SmKnownList lists[SM_KNOWN_LISTS];
  guint32 max_len, max; /* bytes and keys there is room for in each list */
  guint newest;
  guint64 round;
} SmKnown;

void sm_known_clear (SmKnown *known, LmtKeyTable *table);
/* A new record begins: what it has used stays until the next round. */
static inline void
sm_known_next (SmKnown *known)
{
  known->round++;
}
/* The list of @n elements whose bytes are those at @data, at most @room of them. NULL: none; then @begins: (out) (nullable): one
 * that begins with the same key */
const SmKnownList *sm_known_find (SmKnown *known, guint64 tenant, const guint8 *data, gsize room, guint32 n,
                                  const SmKnownList **begins);
/* Takes over the references on @keys. FALSE: not kept, nothing taken. @ends: per key, from @data on; the last one is the length
 */
gboolean sm_known_add (SmKnown *known, LmtKeyTable *table, guint64 tenant, const guint8 *data, LmtKey *const *keys,
                       const guint32 *ends, guint32 n, guint32 n_grouped, guint32 n_salted);

G_END_DECLS
