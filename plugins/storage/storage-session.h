/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <lmtrace/lmt-plugin.h>

#include "storage-codecs.h"
#include "storage-config.h"
#include "storage-context.h"
#include "storage-hashes.h"
#include "storage-locks.h"
#include "storage-pool.h"
#include "storage-record.h"
#include "storage-settle.h"
#include "storage-state.h"

G_BEGIN_DECLS

/* What went wrong with a call without its failing; names sorted, they are part of the outcome digest. */
typedef enum
{
  STORAGE_ANOMALY_ALLOCATION_FAILED = 0, /* reserve_write: calls that ran out of memory */
  STORAGE_ANOMALY_CONTEXT_LEFT_OPEN,     /* an enter without its exit */
  STORAGE_ANOMALY_EXIT_WITHOUT_ENTER,
  STORAGE_ANOMALY_FINISH_READ_ABSENT,         /* keys */
  STORAGE_ANOMALY_FINISH_READ_FOREIGN,        /* locks given back that no prefetch of the trace owed */
  STORAGE_ANOMALY_FINISH_READ_NOT_LOCKED,     /* keys */
  STORAGE_ANOMALY_FINISH_WRITE_ABSENT,        /* keys */
  STORAGE_ANOMALY_FINISH_WRITE_EXPIRED,       /* keys */
  STORAGE_ANOMALY_READ_OF_UNAVAILABLE_OBJECT, /* enters */
  STORAGE_ANOMALY_READ_TOO_EARLY,             /* enters whose prefetch was still running: real time only */
} StorageAnomaly;
enum
{
  STORAGE_N_ANOMALIES = 10
};
const char *storage_anomaly_name (guint anomaly);

/**
 * StoragePrefetches: prefetch records in file order whose line in the state isn't written yet: bounded by the requests in flight.
 */
typedef struct _StoragePrefetches StoragePrefetches;

/* storage-prepare.h */
typedef struct _StoragePrepare StoragePrepare;

/**
 * StorageSession: one replay of one file. Everything a handler needs.
 * @trace_ns: recorded time of the record at hand, gaps cut, rounds added; never goes back
 * @call: of the record at hand, while its handler runs
 */
typedef struct
{
  const LmtReplayEnv *env;
  const StorageFlags *flags;
  StorageConfig *config;
  StorageDigest *digest;
  SmDriveMode mode;
  gboolean started;
  gboolean finished;
  gboolean with_origin;
  gboolean surveyed;
  gboolean fill;         /* buffers are filled when they are reserved: an adapter wants data */
  gboolean fill_pattern; /* else zero */
  gint64 trace_ns;

  LmtKeyTable *keys;
  SmDecoder *decoder;
  LmtSm *sm;
  LmtL2 **l2;
  StoragePool pool;
  SmDriver *driver;
  StorageContexts *contexts;
  StorageLocks *locks;
  StoragePrefetches *prefetches;
  StorageState *state;
  StorageHashes *hashes;   /* (nullable) */
  StorageRecord *record;   /* (nullable) */
  LmtClock trace_clock;    /* of the record, where times are virtual */
  StoragePrepare *prepare; /* (nullable): --prepare, --prepare-only */
  guint8 *readable;        /* scratch of the enter handler */
  guint cap_readable;

  guint64 anomalies[STORAGE_N_ANOMALIES];
  guint64 anomaly_records[STORAGE_N_ANOMALIES]; /* number of the first record */

  /* storage-pairs.c */
  guint64 closed_contexts;
  guint64 closed_locks;        /* of prefetches */
  guint64 closed_reservations; /* keys */

  /* storage-watch.c */
  gboolean watching;
  gint64 next_look_ns;
  gint64 last_line_ns;
  /* what storage_progress() saw last: one of each adapter */
  struct
  {
    guint64 completed;
    gint64 since_ns; /* nothing completed since; 0: nothing in flight */
  } * stalls;
  guint64 last_in_bytes;
  guint64 last_out_bytes;
  struct _StorageMetrics *metrics;
  GString *metrics_text;

  /* at the end */
  guint64 base[LMT_N_STATUS]; /* what the loop had counted when this session began */
  guint64 base_malformed;
  char *outcome_digest;
  gboolean settled;
  gboolean failed;
  gboolean hit_rate_missed;
  guint ios_left;
  guint prefetches_left;
  guint stores_left;
  guint ios_abandoned;
  guint64 leaked_read_locks;
  guint64 leaked_reservations;
  StorageLockFigures lock_figures;
} StorageSession;

/* storage-handlers.c */
extern const LmtHandlerOps storage_handlers[];
extern const guint storage_n_handlers;
void storage_count_anomaly (StorageSession *session, StorageAnomaly anomaly, guint64 n, guint64 record);
/* What an engine would write into the buffers a reserve_write got, outside the timed call; only where an adapter moves it. */
void storage_fill_buffers (StorageSession *session, const SmCall *call, const SmResult *result);
/* Ends a context: what was open at the end goes through here too. */
void storage_exit_context (StorageSession *session, const StorageContext *context, guint64 record, LmtOutcome *outcome);

/* storage-prefetch.c */
StoragePrefetches *storage_prefetches_new (void);
void storage_prefetches_free (StoragePrefetches *prefetches, LmtKeyTable *keys);
guint32 storage_prefetch_handler (StorageSession *session, const LmtRecord *record, SmCall *call, LmtOutcome *outcome);
void storage_prefetch_result (const SmPrefetchResult *result, gboolean mismatch, gint64 done_ns, gpointer session);
/* After the drain: what has no result becomes `pending` in the state. Returns how many. */
guint storage_prefetches_flush (StorageSession *session);

/* storage-level.c */
extern const LmtLevelOps storage_level;

/* storage-pairs.c */
guint64 storage_close_pairs (gpointer session);

/* storage-info.c: what `lmtrace info` asks of the level. */
/* Which call a qualname is. FALSE: none of this level's. */
gboolean storage_find_op (LmtSpan qualname, guint32 *op);
gpointer storage_info_new (const LmtHeader *header);
void storage_info_free (gpointer user_data);
void storage_info_finish (gpointer user_data, const LmtInfoOut *out);
gboolean storage_info_visit (gpointer user_data, const LmtRecord *record, const LmtInfoVisitor *visitor);
gboolean storage_info_select (gpointer user_data, const LmtRecord *record, const LmtSelect *select);

/* storage-watch.c */
gboolean storage_watch_start (StorageSession *session, GError **error);
void storage_watch_look (StorageSession *session);
void storage_watch_stop (StorageSession *session);

/* storage-report.c */
void storage_report (StorageSession *session, LmtReport *report);
double storage_hit_rate (const StorageSession *session); /* 0..1; 1 if nothing was asked */

G_END_DECLS
