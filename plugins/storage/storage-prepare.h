/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "storage-session.h"

G_BEGIN_DECLS

/**
 * StoragePrepare: what a trace expects to exist before its first record (--prepare), found in a pass over its records. An object
 * is expected if it is read (enter, finish_read) before it is first reserved, or asked for by a prefetch and never reserved. One
 * that is asked for and then reserved was missed when the trace was recorded: the engine computed it and stored it, so it did not
 * exist. Memory: one entry for each distinct key, until the objects are stored.
 */
StoragePrepare *storage_prepare_new (LmtKeyTable *keys);
void storage_prepare_free (StoragePrepare *prepare);
void storage_prepare_set_tenant (StoragePrepare *prepare, guint64 number);
void storage_prepare_record (StoragePrepare *prepare, const LmtRecord *record);

/**
 * StoragePrepareFigures: sums over the objects, and over objects and adapters.
 * @expected: objects, of @bytes; @unknown_size: others, of which no record says a size; @too_large: expected, but larger than L1
 * @stored, @present, @failed: per adapter: newly written, there already, refused
 */
typedef struct
{
  guint64 expected;
  guint64 bytes;
  guint64 unknown_size;
  guint64 too_large;
  guint64 stored;
  guint64 present;
  guint64 failed;
} StoragePrepareFigures;
const StoragePrepareFigures *storage_prepare_get_figures (const StoragePrepare *prepare);

/* The pass is over: counts, and stores into every adapter of a session that was started. FALSE: an adapter gave no answer. */
gboolean storage_prepare_finish (StorageSession *session, GError **error);
void storage_prepare_report (const StoragePrepare *prepare, LmtReport *report);

G_END_DECLS
