/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <lmtrace/lmt-recorder.h>

#include "manager/manager.h"
#include "storage-config.h"

G_BEGIN_DECLS

/**
 * StorageReporter: a manager's notifications -> the records of level events a server would send its coordinator (events.md 4):
 * consecutive entries of one kind in one batch, a flush when an event comes 1.0 s of the manager's clock after the last one and
 * at the end, all batches of a flush with one time, a declaration of capacities first, marks at start and stop. One thread, the
 * manager's.
 */
typedef struct _StorageReporter StorageReporter;

extern LmtTraceLevel storage_events_level;

typedef struct
{
  LmtRecorder *recorder; /* of storage_events_level; outlives the reporter */
  const StorageConfig *config;
  const char *instance_id;
  const char *ip; /* of the start mark */
  guint http_port;
  guint64 ring_bytes; /* of the recorder; a batch larger than a part of it is made several */
  gint64 (*manager_ns) (gpointer data);
  gpointer manager_data;
} StorageReporterParams;

StorageReporter *storage_reporter_new (const StorageReporterParams *params);
/* Start mark, declaration, listener. @l2_capacity: of each adapter, 0: none declared */
void storage_reporter_start (StorageReporter *reporter, LmtSm *sm, const guint64 *l2_capacity);
/* Listener off, last flush, stop mark. Again: nothing. */
void storage_reporter_stop (StorageReporter *reporter);
void storage_reporter_free (StorageReporter *reporter); /* (nullable) */

/* level_meta of the header. */
void storage_reporter_pack_meta (const char *instance_id, LmtPack *out);

G_END_DECLS
