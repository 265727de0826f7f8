// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include "events-gate.h"

G_BEGIN_DECLS

/**
 * EventsViews: what a coordinator knows: key directory, usage, declared capacity, token bindings, least-recently-used order of L2
 * keys, pins and quotas (events.md 9), with the gate in front. One implementation, used by `coordinator`, by
 * `replay-events --dry-run` and by the tests. Memory: 1 M keys with two placements below 400 MiB (S3): keys, models, salts,
 * backends and instances are interned; stats and sums are kept up to date, not counted when asked. Threads: the caller's one.
 */
typedef struct _EventsViews EventsViews;

typedef struct
{
  EventsCompat compat;
  guint32 with_lru;      /* keep the order of L2 keys (only an eviction loop needs it) */
  guint32 with_blend;    /* index chunks for blend lookups */
  guint64 max_keys;      /* 0: none; above it admit says EVENTS_FULL */
  guint32 max_instances; /* 0: none; ids of gate and directory */
  guint32 chunk_size;    /* tokens; 256 */
  guint32 probe_stride;
} EventsViewsConfig;

typedef struct
{
  guint64 applied;
  guint64 duplicates;
  guint64 stale;
} EventsCounts;

EventsViews *events_views_new (const EventsViewsConfig *config);
void events_views_free (EventsViews *views);
void events_views_reset (EventsViews *views);
EventsGate *events_views_get_gate (EventsViews *views); /* its functions are the views' own: see below */

/* @fenced: after an instance's L1 placements went, @dropped of them, @kept of which usage still counts (D11: worth a warning).
 * Both may be NULL; they must not call back. */
typedef void (*EventsFencedFunc) (LmtSpan instance, guint64 dropped, guint64 kept, gpointer user_data);
void events_views_set_funcs (EventsViews *views, EventsFencedFunc fenced, EventsGapFunc gap, gpointer user_data);

/**
 * events_views_ingest: the gate and, if it lets them pass, the consumers in their order (usage, directory, configuration,
 * eviction).
 * Returns: FALSE: a table is full (507): batches before the one that didn't fit are applied and counted, the rest isn't looked at
 */
gboolean events_views_ingest (EventsViews *views, const EventsBatch *batches, guint32 n, gint64 now_ns, EventsCounts *counts);
/* Fence, forget the cursor, drop the capacity declaration (@declaration: DELETE does, 0.5.6's sweep doesn't). */
void events_views_depart (EventsViews *views, LmtSpan instance, gboolean declaration);
void events_views_register (EventsViews *views, LmtSpan instance);

/* ---- reading ---- */

typedef struct
{
  LmtSpan instance;
  gint64 incarnation;
  guint32 tier;
  guint32 shared;
  LmtSpan backend;
  gint64 size_bytes;
} EventsPlacement;

typedef struct
{
  guint64 num_keys;
  guint64 num_placements;
  guint64 count[EVENTS_N_TIERS]; /* placements */
  gint64 bytes[EVENTS_N_TIERS];
  guint64 num_contents, num_chunks, num_claims, num_namespaces, table_size; /* blend */
  guint64 num_bindings;
  guint64 usage_only; /* shared L1 placements a fence took from the directory but not from usage (D11): worth a warning */
  /* what entries said that a view of its own would not (since the start or the last reset): stores of a placement that was there
   * already; those of them that gave it size 0; deletes of one that was not there */
  guint64 stored_again, emptied, deleted_unknown;
} EventsStats;
void events_views_stats (EventsViews *views, EventsStats *stats); /* constant time */
/* `l1_keys_by_instance`, in the order the ids were first seen. */
void events_views_l1_keys (EventsViews *views, void (*func) (LmtSpan instance, guint64 keys, gpointer data), gpointer data);

/* One key as /directory/keys and lookups show it. Placements in list order; @tokens of the chunk's binding. */
typedef struct
{
  EventsKey key;
  guint64 access_count;
  double last_access;
  const EventsPlacement *placements; /* valid for the call */
  guint32 n_placements;
  guint32 n_tokens;
  const guint32 *tokens;
  gint64 token_offset;
  guint64 pin_count;
} EventsKeyView;
typedef void (*EventsKeyFunc) (const EventsKeyView *view, gpointer data);
/* Exact key; an unknown one is shown with no placements (its tokens may be there). */
void events_views_lookup (EventsViews *views, const EventsKey *key, EventsKeyFunc func, gpointer data);
/* (hash, model, rank, salt) in every object group, ascending, but for @except_group. */
void events_views_lookup_groups (EventsViews *views, const EventsKey *key, gint64 except_group, EventsKeyFunc func,
                                 gpointer data);

typedef struct
{
  guint32 has_tier, tier;
  LmtSpan instance; /* data NULL: any */
  LmtSpan backend;  /* data NULL: any */
} EventsKeyFilter;
/* Insertion order; keys with a matching placement, only matching placements shown. Returns the total that match. A cursor makes
 * paging cheap: work per call is bounded by @budget keys looked at; *@at goes on from call to call, starts at 0, G_MAXUINT64 at
 * the end. */
guint64 events_views_keys (EventsViews *views, const EventsKeyFilter *filter, guint64 *at, guint64 budget, EventsKeyFunc func,
                           gpointer data);

/* ---- usage and capacity (9.2, 9.3) ---- */
typedef struct
{
  guint32 tier;
  guint32 shared;
  LmtSpan backend;
  gint64 used_bytes;
  gint64 capacity_bytes;
} EventsModule;
typedef void (*EventsModuleFunc) (const EventsModule *module, gpointer data);
/* Private modules of an instance, sorted by (tier, backend), declared ones with 0 bytes too. FALSE: nothing is known of it. */
gboolean events_views_modules (EventsViews *views, LmtSpan instance, gboolean *declared, EventsModuleFunc func, gpointer data);
void events_views_shared_modules (EventsViews *views, EventsModuleFunc func, gpointer data);
/* Ids that hold private bytes or have a declaration, sorted. */
void events_views_usage_instances (EventsViews *views, void (*func) (LmtSpan instance, gpointer data), gpointer data);
/* Salts with bytes on @tier, sorted by code point; and the sum. */
gint64 events_views_salts (EventsViews *views, EventsTier tier, void (*func) (LmtSpan salt, gint64 bytes, gpointer data),
                           gpointer data);

gint64 events_views_salt_bytes (EventsViews *views, EventsTier tier, LmtSpan salt);

/* ---- quotas, pins (9.5, 10) ---- */
/* Limits are whole bytes, as at the reference: what is read may be a little below what was set. */
gboolean events_views_get_quota (EventsViews *views, LmtSpan salt, double *limit_gb);
void events_views_set_quota (EventsViews *views, LmtSpan salt, double limit_gb);
gboolean events_views_remove_quota (EventsViews *views, LmtSpan salt);
void events_views_foreach_quota (EventsViews *views, void (*func) (LmtSpan salt, double limit_gb, gpointer data), gpointer data);
gboolean events_views_get_default_quota (EventsViews *views, double *limit_gb); /* FALSE: null */
void events_views_set_default_quota (EventsViews *views, gboolean set, double limit_gb);
void events_views_pin (EventsViews *views, const EventsKey *key, int delta); /* +1, -1; never below 0 */
guint64 events_views_pins (EventsViews *views, LmtSpan model, LmtSpan salt, EventsKeyFunc func,
                           gpointer data); /* data NULL: any */
/* The least recently used L2 keys of a salt without a pin, @ratio of them, for the eviction loop. */
void events_views_victims (EventsViews *views, LmtSpan salt, double ratio, EventsKeyFunc func, gpointer data);

/* ---- tokens ---- */
/* Chunk hashes (blake3) of complete chunks: out holds n_tokens / chunk_size * 32 bytes. */
void events_chunk_hashes (const guint32 *tokens, guint32 n_tokens, guint32 chunk_size, guint8 *out);
/* FALSE (409): bound to another size already or below the configured one (12). */
gboolean events_views_set_chunk_size (EventsViews *views, guint32 chunk_size);
guint32 events_views_get_chunk_size (EventsViews *views);
typedef void (*EventsBlendFunc) (LmtSpan hash, gint64 old_start, gint64 start, gpointer data);
void events_views_blend (EventsViews *views, const guint32 *tokens, guint32 n, LmtSpan model, LmtSpan salt, gint64 world_size,
                         EventsBlendFunc func, gpointer data);

/* ---- checkpoint (11): events-checkpoint.c ---- */
/* The reference's file, plus a section `lmtrace` of our own (departed streams). PATH.tmp, fsync, rename. @offsets: (nullable)
 * Kafka positions: array of EventsKafkaOffset. */
typedef struct
{
  char *topic;
  gint32 partition;
  gint64 offset; /* last one applied */
} EventsKafkaOffset;
gboolean events_checkpoint_write (EventsViews *views, GArray *offsets, const char *path, GError **error);
/**
 * EventsCheckpointChild: a process that writes the views as they were when it was started, while this one goes on: the pause is
 * that of a fork(), whatever the file and the disk take. One at a time for a path, and no events_checkpoint_write() beside it. It
 * ends with its parent's thread.
 */
typedef struct _EventsCheckpointChild EventsCheckpointChild;
/* In a process that was just forked: ends with its parent, and has no descriptor of it but @keep (above 2) and the first three.
 */
void events_child_begin (int keep, pid_t parent);
EventsCheckpointChild *events_checkpoint_start (EventsViews *views, GArray *offsets, const char *path); /* NULL: no process */
int events_checkpoint_child_fd (const EventsCheckpointChild *child); /* can be read as soon as it is done */
/* Waits for its end. Frees @child. */
gboolean events_checkpoint_finish (EventsCheckpointChild *child, GError **error);
void events_checkpoint_abandon (
    EventsCheckpointChild *child); /* (nullable): ends it; the file stays the former one, or is the new one */
/* Into views that hold nothing. Never fatal: FALSE = start cold, @note (out, transfer full, nullable) says why; a bad section is
 * skipped alone and noted. */
gboolean events_checkpoint_read (EventsViews *views, GArray *offsets, const char *path, char **note);
gboolean events_checkpoint_load (EventsViews *views, GArray *offsets, LmtSpan file, char **note); /* the same from memory */
/* Pins and quotas as the reference's metadata JSON (--metadata-path). */
gboolean events_metadata_write (EventsViews *views, const char *path, GError **error);
gboolean events_metadata_read (EventsViews *views, const char *path, char **note);

/* Every view in canonical order, for comparing two coordinators (GET /lmtrace/dump). */
void events_views_dump (EventsViews *views, LmtJsonWriter *out);

G_END_DECLS
