/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <lmtrace/lmt-plugin.h>
#include <lmtrace/lmt-reader.h>

#include "storage-config.h"

G_BEGIN_DECLS

/**
 * StorageRecord: --trace-level, --trace-output: the replay recorded as a trace of its own: the calls that were made, with the
 * times at which this run made them and this run's configuration in the header.
 */
typedef struct _StorageRecord StorageRecord;

/* @path: (nullable): NULL: a name in the temporary folder, told by an info line. */
StorageRecord *storage_record_new (const char *path, const StorageConfig *config, const LmtClock *clock, GError **error);
void storage_record_call (StorageRecord *record, LmtSpan qualname, LmtSpan args);
/* FALSE: the first error of writing. */
gboolean storage_record_close (StorageRecord *record, GError **error);

G_END_DECLS
