/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <lmtrace/lmt-plugin.h>

#include "manager/manager.h"

G_BEGIN_DECLS

/**
 * StorageState: what a run came to, as `--state-out` writes it (schema `lmtrace/state/1`) and as the outcome digest. Lists are
 * written to files as they grow and the digests of prefetches and victims are running hashes, so memory doesn't grow with the
 * trace.
 */
typedef struct _StorageState StorageState;

/* @path: (nullable): NULL: digest only. Opens a temporary file beside @path. */
StorageState *storage_state_new (const char *path, guint n_l2, GError **error);
void storage_state_free (StorageState *state); /* without finish: nothing stays */
gboolean storage_state_wants_flat (const StorageState *state);

/**
 * StorageStatePrefetch: one submit_prefetch_task record; bitmaps row-major, one byte a cell, NULL: all zero.
 * @state: `done`, `pending`, `failed`
 * @flat: (nullable): cell of the grid per key of the recorded flat list
 */
typedef struct
{
  const char *state;
  guint n_rows;
  guint n_columns;
  const guint8 *hit;
  const guint8 *l1_hit;
  const guint8 *l2_hit;
  const guint32 *flat;
  guint n_flat;
  gboolean has_flat;
} StorageStatePrefetch;
/* In the order of the file. */
void storage_state_add_prefetch (StorageState *state, const StorageStatePrefetch *prefetch);
/* In the order in which they went. @adapter: -1: L1. */
void storage_state_add_victim (StorageState *state, gint adapter, LmtKey *key);

typedef struct
{
  const char *kind;
  guint64 count;
} StorageStateAnomaly;

typedef struct
{
  guint64 ok;
  guint64 skipped;
  guint64 undecodable;
  guint64 failed;
  guint64 mismatch;
  guint64 malformed;
  gboolean settled;
  LmtSm *sm;
  gint64 now_ns; /* manager's clock */
  LmtL2 *const *l2;
  const StorageStateAnomaly *anomalies; /* sorted by kind; zero counts are left out */
  guint n_anomalies;
} StorageStateEnd;

/* Takes what the manager and the adapters hold, ends the file and renames it. @digest: (out) (transfer full): also on error */
gboolean storage_state_finish (StorageState *state, const StorageStateEnd *end, char **digest, GError **error);

G_END_DECLS
