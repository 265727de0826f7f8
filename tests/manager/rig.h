/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "manager/manager-private.h"

/**
 * SECTION: a manager with keys by number and adapters that do nothing by themselves: a test takes the I/O and answers it.
 */
enum
{
  RIG_KEYS = 512,
  RIG_MOST_L2 = 4,
};

typedef struct
{
  LmtKeyTable *table;
  LmtKey *keys[RIG_KEYS]; /* one reference each */
  LmtKey *extra[RIG_KEYS];
  guint n_extra;
  LmtSm *sm;
  gint64 now;
  SmEviction l2_eviction[RIG_MOST_L2];
  SmIo io; /* the last one taken */
} Rig;

#define RIG_S G_GINT64_CONSTANT (1000000000)

/* LRU, 4 KiB alignment, lifetimes 600 s and 300 s, 8 in flight, explained misses, passes by hand; l2_eviction is the rig's. */
SmConfig rig_config (guint64 size_bytes, guint n_l2);
void rig_init (Rig *rig, const SmConfig *config);
/* Frees the manager and checks that nothing holds a key any more. */
void rig_clear (Rig *rig);

/* Another key, the rig's too. */
LmtKey *rig_key (Rig *rig, guint64 rank, guint32 group, const char *salt, guint8 hash);

/* Calls on keys [first, first + n). */
SmResult rig_call (Rig *rig, guint op, guint first, guint n, guint32 value);
SmResult rig_reserve (Rig *rig, guint first, guint n, guint64 bytes, guint mode);
void rig_write (Rig *rig, guint first, guint n, guint64 bytes); /* reserve and finish, must succeed */
guint64 rig_prefetch (Rig *rig, guint first, guint n, guint64 bytes);
guint64 rig_prefetch_call (Rig *rig, SmCall *call);
SmPrefetchResult rig_result (Rig *rig, guint64 request); /* must be the next one */
void rig_no_result (Rig *rig);

/* Takes the next I/O, which must be of this kind for this adapter with n keys, and accepts it. */
guint32 rig_take (Rig *rig, guint kind, guint adapter, guint n);
void rig_take_nothing (Rig *rig);
/* All bits set, or as told: one character per key, `1` or `0`, `s` NO_SPACE. */
void rig_answer (Rig *rig, guint32 id, const char *bits);
void rig_stored (Rig *rig, guint adapter, guint first, guint n, guint64 bytes);

SmKeyView rig_view (Rig *rig, guint key);
guint8 rig_code (const SmResult *result, guint i);
