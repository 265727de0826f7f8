/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <lmtrace/lmt-evict.h>
#include <lmtrace/lmt-key.h>

#include "../storage-call.h"

G_BEGIN_DECLS

/**
 * SECTION: the StorageManager as a deterministic state machine (architecture.md 2.1, storage-manager.md 19). No thread, no clock,
 * no kernel, no random number: the same inputs give the same outputs. Inputs may not be given from inside one another. `now` is
 * in ns of the manager's clock; less than the last one counts as the last one.
 */
typedef struct _LmtSm LmtSm;

typedef enum
{
  SM_STORE_DEFAULT = 0,
  SM_STORE_SKIP_L1
} SmStorePolicy;
typedef enum
{
  SM_PREFETCH_DEFAULT = 0,
  SM_PREFETCH_RETAIN
} SmPrefetchPolicy;

typedef struct
{
  gboolean set; /* L2: an eviction is configured */
  LmtEvictKind policy;
  double watermark;
  double ratio;
} SmEviction;

typedef struct
{
  guint64 size_bytes;
  guint64 align_bytes; /* power of two */
  guint32 write_ttl_s; /* 0: locks that never hold */
  guint32 read_ttl_s;
  SmEviction eviction;
  guint n_l2;
  const SmEviction *l2_eviction; /* n_l2 */
  SmStorePolicy store_policy;
  SmPrefetchPolicy prefetch_policy;
  guint prefetch_max_in_flight;       /* 0: L2 prefetches never start */
  double prefetch_inflight_watermark; /* 0: off; the admission of 0.5.7rc3 on top (storage-manager.md 16) */
  gboolean skip_l1_retry;             /* 0.5.7rc3's retry of refused deletions; off = 0.5.6 */
  gint64 eviction_period_ns;          /* 0: passes only by lmt_sm_evict_l1/l2 */
  gint64 io_deadline_ns;              /* defect 12; 0 = off */
  gboolean explain_misses;
  gboolean collapse_passes; /* real time (storage-manager.md 19.3): due instants that were missed become one pass, at the last of
                               them */
} SmConfig;

/* Codes per key (storage-manager.md 4). */
typedef enum
{
  SM_SUCCESS = 0,
  SM_KEY_NOT_EXIST,
  SM_KEY_NOT_READABLE,
  SM_KEY_NOT_WRITABLE,
  SM_KEY_IN_WRONG_STATE,
  SM_KEY_IS_LOCKED,
  SM_OUT_OF_MEMORY,
} SmCode;
const char *sm_code_name (guint32 code); /* "SUCCESS", … */

/* Why a requested cell was not hit (storage-manager.md 18.13): the first that fits, in this order. */
typedef enum
{
  SM_MISS_WINDOW = 0,
  SM_MISS_LOAD_FAILED,
  SM_MISS_NO_MEMORY,
  SM_MISS_CONTENDED,
  SM_MISS_BROKEN_PREFIX,
  SM_MISS_NOT_YET_STORED,
  SM_MISS_EXPIRED,
  SM_MISS_EVICTED,
  SM_MISS_REMOVED,
  SM_MISS_NEVER_STORED,
  SM_MISS_FIRST_TOUCH,
  SM_MISS_UNKNOWN,
} SmMiss;
enum
{
  SM_N_MISS = 12
};
const char *sm_miss_name (guint32 miss); /* "window", "load failed", … */

/**
 * SmResult: of one call. `codes`, `addresses` are lent until the next input.
 * @value_error: (nullable): static text: the call was refused by value; nothing changed
 * @codes: per key in list order; keys listed twice: the later code in both
 * @addresses: RESERVE_WRITE: offset in the pool per key that got a buffer, G_MAXUINT64 else
 * @request: PREFETCH: its number, from 0
 * @immediate: PREFETCH: the result is there already
 * @good: READ_ENTER, UNSAFE_READ: all keys readable; @n_good: distinct keys
 */
typedef struct
{
  const char *value_error;
  const guint8 *codes;
  const guint64 *addresses;
  guint64 request;
  guint32 n;
  guint32 n_good;
  gboolean good;
  gboolean immediate;
  guint32 deleted, skipped; /* DELETE */
} SmResult;

/**
 * SmPrefetchResult: bitmaps row-major, one byte (0/1) per cell; lent until the next input after it was taken.
 */
typedef struct
{
  guint64 request;
  guint32 n_rows;
  guint32 n_columns;
  const guint8 *hit;
  const guint8 *l1_hit;
  const guint8 *l2_hit;
  const guint8 *found; /* (nullable): policy full */
  guint32 n_hit, n_l1_hit, n_l2_hit, n_found;
  guint32 hit_length; /* prefix: chunks */
  guint64 hit_bytes, l1_hit_bytes, l2_hit_bytes;
  guint32 misses[SM_N_MISS]; /* sum = cells - n_hit, if explain_misses */
  guint32 code;              /* 0, or 1: the request was aborted */
} SmPrefetchResult;

/* One task for an L2 adapter. Arrays are alive until completed()/refused(). */
typedef enum
{
  SM_IO_STORE = 0,
  SM_IO_LOAD,
  SM_IO_LOOKUP,
  SM_IO_DELETE,
  SM_IO_UNLOCK
} SmIoKind;
typedef struct
{
  guint32 id; /* rising, never 0 */
  guint32 adapter;
  guint32 kind;
  guint32 n;
  LmtKey *const *keys;
  const guint64 *sizes;     /* STORE, LOAD: unaligned object bytes; LOOKUP: expected bytes */
  const guint64 *addresses; /* STORE, LOAD: offsets in the pool */
  guint64 request;          /* LOOKUP, LOAD: number of the prefetch */
} SmIo;

/**
 * SmEvent: section 11. Only the members of its type are set. Lent for the call. Listeners must not call back into the manager.
 */
typedef enum
{
  SM_EV_L1_READ_RESERVED,
  SM_EV_L1_READ_FINISHED,
  SM_EV_L1_WRITE_RESERVED,
  SM_EV_L1_WRITE_FINISHED,
  SM_EV_L1_WRITE_FINISHED_AND_READ_RESERVED,
  SM_EV_L1_KEYS_EVICTED,
  SM_EV_L1_KEYS_ACCESSED,
  SM_EV_L1_LOOP_TICK,
  SM_EV_L1_ALLOCATION_FAILED,
  SM_EV_L1_READ_FAILED,
  SM_EV_WRITE_RESERVED,
  SM_EV_WRITE_FINISHED,
  SM_EV_READ_PREFETCHED_FINISHED,
  SM_EV_STORE_SUBMITTED,
  SM_EV_STORE_COMPLETED,
  SM_EV_LOOKUP_SUBMITTED,
  SM_EV_LOAD_TASK_SUBMITTED,
  SM_EV_LOAD_TASK_COMPLETED,
  SM_EV_LOAD_SUBMITTED,
  SM_EV_LOAD_COMPLETED,
  SM_EV_PREFETCH_FAILED,
  SM_EV_L2_KEYS_STORED,
  SM_EV_L2_KEYS_ACCESSED,
  SM_EV_L2_KEYS_DELETED,
  SM_EV_L2_KEYS_EVICTED,
} SmEventType;
const char *sm_event_name (guint32 type); /* "l1.read.reserved", … */

typedef struct
{
  guint32 type;
  guint32 adapter;
  LmtKey *const *keys; /* or succeeded_keys */
  guint32 n_keys;
  guint32 n_failed_keys;
  LmtKey *const *failed_keys;
  const guint64 *sizes;
  const char *tag;    /* "storage_manager", "prefetch:7" */
  const char *during; /* "l1_store", "l1_retrieve", "l2_store" */
  const char *reason; /* "not_found", "write_locked", "l1_oom", "l1_contended" */
  guint64 request;
  guint64 key_count;
  guint64 adapter_count;
  guint64 total_bytes;
  guint64 succeeded_count, failed_count;
  double usage, watermark;
  gboolean triggered;
} SmEvent;

typedef void (*SmListener) (const SmEvent *event, gpointer data);

/**
 * SmCounters: everything a report needs (storage-manager.md 11), and anomalies. Plain sums, read at any time.
 */
typedef struct
{
  guint64 calls[16]; /* by SmOp */
  guint64 value_errors;
  guint64 reserve_asked, reserve_ok, reserve_not_writable, reserve_oom, reserve_bytes;
  guint64 finish_asked, finish_admitted, finish_dropped, finish_unknown, finish_expired;
  guint64 prefetch_requests, prefetch_cells, prefetch_cells_bytes;
  guint64 hit_cells, hit_bytes, l1_hit_cells, l1_hit_bytes, l2_hit_cells, l2_hit_bytes;
  guint64 hit_chunks, asked_chunks; /* prefix: sums of hit lengths and of columns */
  guint64 requests_full, requests_partial, requests_none, requests_aborted;
  guint64 found_not_staged;
  guint64 failed_oom, failed_contended, failed_not_found;
  guint64 misses[SM_N_MISS];
  guint64 store_tasks, store_keys, store_bytes_submitted, store_bytes_moved, store_keys_failed;
  guint64 load_tasks, load_keys, load_bytes_submitted, load_bytes_moved, load_keys_failed;
  guint64 l1_passes, l1_passes_triggered, l1_passes_skipped, l1_evicted_keys, l1_evicted_bytes, l1_refused_victims;
  guint64 l2_passes, l2_passes_triggered, l2_evicted_keys, l2_evicted_bytes;
  guint64 skip_l1_kept;                                /* defect 6 */
  guint64 read_unknown, read_unlocked, read_too_early; /* anomalies */
  guint64 finish_read_unknown, finish_read_unlocked, finish_read_foreign;
  guint64 takeovers, expired_write_locks;
  guint64 io_unknown; /* completed for an id not in flight */
  guint64 peak_used_bytes, peak_staging_bytes;
  guint64 isolated_l1_dead;
} SmCounters;

/**
 * lmt_sm_new:
 * @keys: shared with the L2 layer; outlives the manager
 *
 * Ranges are the flags' business (storage-manager.md 12): the manager takes size 0, lifetime 0 and max in flight 0.
 * Errors: alignment no power of two.
 */
LmtSm *lmt_sm_new (const SmConfig *config, LmtKeyTable *keys, GError **error);
void lmt_sm_free (LmtSm *sm);
void lmt_sm_set_listener (LmtSm *sm, SmListener listener, gpointer data); /* NULL: no cost */

/* Told of each resident object an L1 pass really deleted, in order (not of other removals). Must not call back. NULL: no cost. */
typedef void (*SmVictim) (LmtKey *key, gpointer data);
void lmt_sm_set_victim_func (LmtSm *sm, SmVictim func, gpointer data);

/* ---- inputs ---- */
void lmt_sm_call (LmtSm *sm, gint64 now_ns, const SmCall *call, SmResult *result);
/* Next I/O of the queue, or FALSE. Answer with accepted() or refused() before the next take; UNLOCK needs no answer. */
gboolean lmt_sm_take (LmtSm *sm, SmIo *io);
void lmt_sm_accepted (LmtSm *sm, gint64 now_ns, guint32 id);
void lmt_sm_refused (LmtSm *sm, gint64 now_ns, guint32 id, guint32 code);
/* Always before the completed() of the task that caused it. @kind: 0 stored, 1 accessed, 2 deleted (LmtL2EventKind). */
void lmt_sm_l2_event (LmtSm *sm, gint64 now_ns, guint32 adapter, guint32 kind, LmtKey *const *keys, const guint64 *sizes,
                      guint n);
/* @codes: per key, LmtL2Code (0 OK, 11 PRESENT: the bit is set). Unknown ids are counted. */
void lmt_sm_completed (LmtSm *sm, gint64 now_ns, guint32 id, const guint8 *codes, guint64 bytes);
void lmt_sm_advance (LmtSm *sm, gint64 now_ns);
/* Next instant at which advance() has something to do, or G_MAXINT64: the next pass due; after one that deleted nothing, and with
 * no input since, the first due instant at or after the earliest end of a held lock's lifetime (19.3). The settled driver
 * advances from one of these to the next and settles in between. */
gint64 lmt_sm_next_due_ns (LmtSm *sm);
/* One pass now. @victims: (nullable) (element-type LmtKey*) (out): lent until the next input; with @codes (element-type guint8)
 * of their deletion. */
void lmt_sm_evict_l1 (LmtSm *sm, gint64 now_ns, GPtrArray *victims, GArray *codes, gboolean *triggered);
/* @decisions: (nullable) (element-type SmL2Decision) in order of policy questions. */
typedef struct
{
  guint32 adapter;
  gint64 salt; /* -1: none asked */
  double ratio;
  guint32 first, n; /* in the victims array */
} SmL2Decision;
void lmt_sm_evict_l2 (LmtSm *sm, gint64 now_ns, GArray *decisions, GPtrArray *victims);
/* No new work; queued prefetches end without result; what is in flight is awaited by completed(), or given up by abandon(). */
void lmt_sm_close (LmtSm *sm, gint64 now_ns);
guint lmt_sm_abandon (LmtSm *sm); /* how many I/Os it left */

/* ---- L2 lookup locks: eviction asks. Scenario runner: NULL = not locked ---- */
typedef gboolean (*SmL2Locked) (guint32 adapter, const LmtKey *key, gpointer data);
void lmt_sm_set_l2_locked (LmtSm *sm, SmL2Locked func, gpointer data);
/* Capacity for the usage fraction of L2 passes; 0 = none: then only IsolatedLRU evicts. Before the adapter's first event. */
void lmt_sm_set_l2_capacity (LmtSm *sm, guint32 adapter, guint64 bytes);

/* ---- quotas: salt numbers of the key table ---- */
gboolean lmt_sm_set_quota (LmtSm *sm, guint32 salt, gint64 limit_bytes); /* FALSE: negative */
gboolean lmt_sm_delete_quota (LmtSm *sm, guint32 salt);

/* ---- outputs ---- */
/* The oldest result not taken yet, or FALSE. Immediate ones too. */
gboolean lmt_sm_next_result (LmtSm *sm, SmPrefetchResult *result);
const SmCounters *lmt_sm_get_counters (const LmtSm *sm);
/* No I/O is queued or unanswered: no store, no prefetch, no delete runs. Prefetches that can't start (max in flight 0) don't
 * count. */
gboolean lmt_sm_is_idle (const LmtSm *sm);
guint lmt_sm_ios_outstanding (const LmtSm *sm); /* queued or unanswered */
guint lmt_sm_prefetches_outstanding (const LmtSm *sm);
guint lmt_sm_stores_outstanding (const LmtSm *sm, guint32 adapter); /* G_MAXUINT32: all */
/* *ordered* mode: is a queued or running prefetch (a store task) naming this key? */
gboolean lmt_sm_key_in_prefetch (const LmtSm *sm, const LmtKey *key);
gboolean lmt_sm_key_in_store (const LmtSm *sm, const LmtKey *key);

guint64 lmt_sm_used_bytes (const LmtSm *sm);
guint64 lmt_sm_total_bytes (const LmtSm *sm);
guint64 lmt_sm_staging_bytes (const LmtSm *sm);

/* ---- looking inside: tests, --state-out, --verify-data ---- */
typedef struct
{
  gboolean resident;
  gboolean temporary;
  guint32 read_locks; /* 0 when not held at @now */
  guint64 bytes;
  guint64 address;
  guint32 n_staged;
} SmKeyView;
void lmt_sm_foreach (const LmtSm *sm, gint64 now_ns, void (*func) (LmtKey *key, const SmKeyView *view, gpointer data),
                     gpointer data);
gboolean lmt_sm_view (const LmtSm *sm, gint64 now_ns, const LmtKey *key, SmKeyView *view);
typedef struct
{
  char tag[32];
  gboolean write_locked;
  gboolean temporary;
  guint64 bytes;
  guint64 address;
} SmStageView;
gboolean lmt_sm_view_stage (const LmtSm *sm, gint64 now_ns, const LmtKey *key, guint i, SmStageView *view);
const LmtEvict *lmt_sm_peek_policy (const LmtSm *sm, gint adapter); /* -1: L1 */
/* Releases every held read lock and every reservation; counts them (storage-manager.md 18.6, after the state was taken). */
void lmt_sm_release_leaks (LmtSm *sm, gint64 now_ns, guint64 *read_locks, guint64 *reservations);

G_END_DECLS
