// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <lmtrace/lmt-reader.h>

#include "events-batch.h"

G_BEGIN_DECLS

/**
 * EventsMerge: several events traces as one stream (events.md 5, R5). Order: k-way heap over (t_wall clamped so that it never
 * goes back inside a file, file, position): a file's own order is never changed. WALL_SORT: the reference's order (stable sort by
 * t_wall), for parity; it holds all records, as the reference does. Memory else: one buffer a file. What can't be read twice
 * (pipes, stdin) is spooled to a temporary file, so that two passes can be made (R7). Threads: one.
 */
typedef enum
{
  EVENTS_MERGE_CLAMP,
  EVENTS_MERGE_WALL_SORT,
} EventsMergeMode;

typedef struct _EventsMerge EventsMerge;

/**
 * EventsMergeConfig:
 * @allow_damaged: FALSE: a frame that is no record, or a gap in the framing, ends the pass with an error (B4). A torn tail never
 *   does
 * @allow_glued: FALSE: so does a second header (B5)
 * @skip_bad: a record whose text is no UTF-8, or whose args are no map of names, is left out (B2, B7); FALSE: it counts
 *   as damage
 * @max_frame: bytes; 0: 64 MiB (B6)
 * @interrupts: (nullable): ends waiting for a pipe
 * @warnings: (nullable): of the first pass: `damaged`, `bad`, `glued`, `tail`, `clock`, `schema`
 */
typedef struct
{
  EventsMergeMode mode;
  gboolean allow_damaged;
  gboolean allow_glued;
  gboolean skip_bad;
  guint64 max_frame;
  const volatile gint *interrupts;
  LmtWarnings *warnings;
} EventsMergeConfig;

/* @record: number and offset are those in its own file; its spans die with the next call. */
typedef struct
{
  guint32 file;    /* index */
  guint64 index;   /* from 0, in merged order */
  double due_wall; /* clamped t_wall: what pacing goes by; WALL_SORT: t_wall */
  LmtRecord record;
} EventsMergeItem;

/* What a file turned out to be once it was read to its end; before that, so far. @path: as it was named; @shown: fit to print. */
typedef struct
{
  const char *path;
  const char *shown;
  guint64 size; /* of the file as it is on disk or in the spool */
  guint64 records;
  guint64 clamped;
  double largest_step_back_s;
  guint64 damaged; /* frames that are no record, and gaps */
  guint64 glued;   /* further headers */
  guint64 bad;     /* left out by skip_bad */
  guint32 tail;    /* LmtTail */
  guint64 tail_offset, tail_bytes;
} EventsMergeFile;

/* Opens all files and checks every header (level, schema, cache_event_schema_version) before anything else (B1, R2). The error
 * is one line that names the file. */
EventsMerge *events_merge_new (const char *const *paths, const EventsMergeConfig *config, GError **error);
void events_merge_free (EventsMerge *merge);
guint events_merge_n_files (EventsMerge *merge);
const LmtHeader *events_merge_header (EventsMerge *merge, guint file);
/* Where the bytes of @file really are: its path, or the spool's. */
const char *events_merge_data_path (EventsMerge *merge, guint file);
/* 1: a record; 0: the end; -1: @error. The spans of @item die with the next call. */
int events_merge_next (EventsMerge *merge, EventsMergeItem *item, GError **error);
gboolean events_merge_rewind (EventsMerge *merge, GError **error);
const EventsMergeFile *events_merge_file (EventsMerge *merge, guint file);
/* Bytes read of all files, and their sum; for progress. */
void events_merge_progress (EventsMerge *merge, guint64 *position, guint64 *size);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (EventsMerge, events_merge_free)

G_END_DECLS
