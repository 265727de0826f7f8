// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "events-batch.h"

G_BEGIN_DECLS

/**
 * EventsMerge: several events traces as one stream (events.md 5, R5). Order: k-way heap over (t_wall clamped so that it never
 * goes back inside a file, file, position): a file's own order is never changed. WALL_SORT: the reference's order (stable sort by
 * t_wall), from an index of the records, for parity. Constant memory but for that index. Pipes are spooled to a temporary file so
 * that two passes can be made (R7).
 */
typedef enum
{
  EVENTS_MERGE_CLAMP,
  EVENTS_MERGE_WALL_SORT,
} EventsMergeMode;

typedef struct _EventsMerge EventsMerge;

typedef struct
{
  EventsMergeMode mode;
  gboolean allow_damaged; /* B4 */
  gboolean allow_glued;   /* B5 */
  gboolean allow_any_schema_words;
  guint64 max_frame; /* 64 MiB */
  const volatile gint *interrupts;
  LmtWarnings *warnings;
} EventsMergeConfig;

typedef struct
{
  guint32 file;    /* index */
  guint64 index;   /* from 0, in merged order */
  double due_wall; /* clamped t_wall: what pacing goes by */
  LmtRecord record;
} EventsMergeItem;

/* What a file turned out to be once it was read to its end. */
typedef struct
{
  const char *path;
  guint64 size;
  guint64 records;
  guint64 clamped;
  double largest_step_back_s;
  guint32 tail; /* LmtTail */
  guint64 tail_offset, tail_bytes;
} EventsMergeFile;

/* Opens all files and checks every header (level, schema, cache_event_schema_version) before anything else (B1, R2). */
EventsMerge *events_merge_new (const char *const *paths, const EventsMergeConfig *config, GError **error);
void events_merge_free (EventsMerge *merge);
guint events_merge_n_files (EventsMerge *merge);
const LmtHeader *events_merge_header (EventsMerge *merge, guint file);
/* 1: a record; 0: the end; -1: @error. The spans of @item die with the next call. */
int events_merge_next (EventsMerge *merge, EventsMergeItem *item, GError **error);
gboolean events_merge_rewind (EventsMerge *merge, GError **error);
const EventsMergeFile *events_merge_file (EventsMerge *merge, guint file);

G_END_DECLS
