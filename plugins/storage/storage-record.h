/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <lmtrace/lmt-plugin.h>
#include <lmtrace/lmt-recorder.h>

#include "manager/manager.h"
#include "storage-config.h"

G_BEGIN_DECLS

/**
 * StorageRecord: --trace-level, --trace-output and what belongs to them: the calls a StorageManager gets (level storage,
 * storage-trace.h), or what it tells a coordinator (level events, storage-reporter.h), recorded as a trace of its own. The header
 * holds this run's configuration.
 */
typedef struct _StorageRecord StorageRecord;

/**
 * StorageRecordParams:
 * @clock: (nullable): NULL: the system's clocks. Else a virtual one, whose time is the trace's: calls wait for room in the ring
 *   then, as waiting costs it nothing
 * @header: (nullable): of the trace that is replayed: with a virtual clock both start times are its
 * @manager_ns: (nullable): level events: the manager's clock, for the flush rule and, with a virtual clock, for all times
 * @inputs: (nullable): files that must not be overwritten, up to NULL
 */
typedef struct
{
  const StorageFlags *flags;
  const StorageConfig *config;
  const LmtClock *clock;
  const LmtHeader *header;
  gint64 (*manager_ns) (gpointer data);
  gpointer manager_data;
  const char *const *inputs;
} StorageRecordParams;

/* NULL with no @error: --trace-level isn't given. */
StorageRecord *storage_record_new (const StorageRecordParams *params, GError **error);
/* Level events: the manager's listener is set; what its adapters hold already is told as it comes. @l2_capacity: of the adapters,
 * 0: none */
void storage_record_watch (StorageRecord *record, LmtSm *sm, const guint64 *l2_capacity);
/* Level storage: nothing is recorded from here on; events: nothing happens. (nullable) */
void storage_record_stop_calls (StorageRecord *record);
/* Level events: last flush, stop mark. Both: closes. FALSE: the first error of writing. Again: the same. (nullable) */
gboolean storage_record_close (StorageRecord *record, GError **error);
void storage_record_free (StorageRecord *record); /* (nullable) */
void storage_record_get_stats (StorageRecord *record, LmtRecorderStats *stats);
const char *storage_record_get_path (StorageRecord *record);

/* --trace-http: HOST:PORT, [HOST]:PORT, or :PORT. @host: (transfer full). FALSE: @error names what is wrong. */
gboolean storage_parse_http (const char *text, char **host, guint *port, GError **error);

G_END_DECLS
