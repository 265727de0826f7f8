/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

G_BEGIN_DECLS

/**
 * SECTION: eviction policies. Threads: one per LmtEvict. Lifetime: arrays of keys are read during the call. Source: LMCache
 * 0.5.6, eviction policies LRU, ARC, IsolatedLRU and noop.
 *
 * Since: 0.1
 */

/**
 * LmtEvict: one eviction policy (storage-manager.md 9) over opaque handles. Used by the manager for L1 and L2 and by the adapter
 * check. A handle is a dense number (LmtKey.id); state is arrays indexed by it, so no hash, no allocation per call once warm.
 * Lists are processed back to front, except removed. Deterministic; no thread, no clock.
 */
typedef enum
{
  LMT_EVICT_LRU,
  LMT_EVICT_ARC,
  LMT_EVICT_ISOLATED_LRU,
  LMT_EVICT_NOOP,
} LmtEvictKind;

typedef struct _LmtEvict LmtEvict;

typedef struct
{
  guint32 key;
  guint32 salt;
} LmtEvictKey;

/**
 * LmtEvictHost: @hold is called when the policy begins to remember a key (ghosts and pending sets included), @drop when it
 * forgets it.
 */
typedef struct
{
  void (*hold) (guint32 key, gpointer data);
  void (*drop) (guint32 key, gpointer data);
  gpointer data;
} LmtEvictHost;

/* `LRU ARC IsolatedLRU noop` */
gboolean lmt_evict_kind_from_text (const char *text, LmtEvictKind *kind);
const char *lmt_evict_kind_to_text (LmtEvictKind kind);

LmtEvict *lmt_evict_new (LmtEvictKind kind, const LmtEvictHost *host); /* @host: (nullable), copied */
void lmt_evict_free (LmtEvict *evict);
/* NULL: nobody is told any more, of what lmt_evict_free() forgets neither. */
void lmt_evict_set_host (LmtEvict *evict, const LmtEvictHost *host);
LmtEvictKind lmt_evict_get_kind (const LmtEvict *evict);

void lmt_evict_reserved (LmtEvict *evict, const LmtEvictKey *keys, guint n);
void lmt_evict_created (LmtEvict *evict, const LmtEvictKey *keys, guint n);
void lmt_evict_touched (LmtEvict *evict, const LmtEvictKey *keys, guint n);
void lmt_evict_removed (LmtEvict *evict, const LmtEvictKey *keys, guint n);

typedef gboolean (*LmtEvictEligible) (guint32 key, gpointer data);

/**
 * lmt_evict_victims:
 * @salt: number of a salt; -1: none given (IsolatedLRU then refuses)
 * @victims: (element-type guint32): cleared, then filled in order
 *
 * Returns: FALSE only for IsolatedLRU without salt (a value error upstream)
 */
gboolean lmt_evict_victims (LmtEvict *evict, double ratio, gint64 salt, LmtEvictEligible eligible, gpointer data,
                            GArray *victims);

/* For tests and dumps: lists "order" (LRU; IsolatedLRU with @salt), "t1" "t2" "b1" "b2" "pending_admissions" "pending_evictions"
 * (ARC), oldest first (pending sets: in no order). */
void lmt_evict_foreach (const LmtEvict *evict, const char *list, gint64 salt, void (*func) (guint32 key, gpointer data),
                        gpointer data);
double lmt_evict_arc_p (const LmtEvict *evict);
guint lmt_evict_arc_capacity (const LmtEvict *evict);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LmtEvict, lmt_evict_free)

G_END_DECLS
