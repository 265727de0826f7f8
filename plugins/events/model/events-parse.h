// SPDX-License-Identifier: Apache-2.0
#pragma once

/* Private to the readers of batches: one walk over JSON or msgpack, with what a 422 needs to know on the way. */
#include "events-batch.h"

#include <lmtrace/lmt-cursor.h>
#include <string.h>

G_BEGIN_DECLS

/* The first byte from @p on that ends a run of plain text: a quote, a backslash or a control character. */
static inline const char *
events_json_plain_run (const char *p, const char *end)
{
  const guint64 ones = G_GUINT64_CONSTANT (0x0101010101010101);

  while (end - p >= 8)
    {
      guint64 w;
      memcpy (&w, p, 8);
      w = GUINT64_FROM_LE (w);
      const guint64 quote = w ^ (ones * '"');
      const guint64 slash = w ^ (ones * '\\');
      /* The lowest high bit stands at the first byte that is below 0x20, a quote or a backslash; those behind it may be wrong. */
      const guint64 hit = (((quote - ones) & ~quote) | ((slash - ones) & ~slash) | ((w - ones * 0x20) & ~w)) & (ones << 7);
      if (hit != 0)
        return p + (__builtin_ctzll (hit) >> 3);
      p += 8;
    }
  while (p < end && *p != '"' && *p != '\\' && (guchar)*p >= 0x20)
    p++;
  return p;
}

enum
{
  EVENTS_PATH_DEPTH = 8,
  EVENTS_MAX_FIELDS = 32,
  EVENTS_SOURCE_DEPTH = 8, /* of what is walked here: batch, entries, entry, key */
};

/* A member's name, or an index where @name is NULL. */
typedef struct
{
  const char *name;
  guint64 index;
} EventsPathStep;

typedef struct
{
  gboolean is_json;
  EventsJson json;
  LmtCursor cursor;
  guint32 left[EVENTS_SOURCE_DEPTH]; /* msgpack: members or elements to come, of the open containers */
  guint32 depth;
  gboolean failed;   /* msgpack: broken */
  gboolean too_deep; /* msgpack */
  const guint8 *value_start;

  const EventsLimits *limits;
  EventsArena *arena;
  EventsProblems *problems;
  EventsPathStep path[EVENTS_PATH_DEPTH];
  guint n_path;

  gboolean bad_keys; /* some key can't be converted: LMCache finds out after everything else was found good */
  gboolean keep_all;
  gboolean dropped; /* values weren't kept since there are problems anyway */
  gboolean no_memory;
  /* Lists grow here and are copied when their length is known. */
  EventsEntry *entries;
  guint32 room_entries;
  guint32 *tokens;
  guint32 room_tokens;
} EventsParse;

/* The problems of one object's members, so that they stand in the order of its fields, and those of a repeated one go. */
typedef struct
{
  guint32 seen;
  guint32 bad;
  guint start; /* of the member being read */
  guint64 before;
  struct
  {
    guint from, to;
    guint64 total;
  } at[EVENTS_MAX_FIELDS];
} EventsLevel;

void events_parse_init_json (EventsParse *parse, const char *text, gsize len, const EventsLimits *limits, EventsArena *arena,
                             EventsProblems *problems);
void events_parse_init_msgpack (EventsParse *parse, LmtSpan value, const EventsLimits *limits, EventsArena *arena,
                                EventsProblems *problems);
/* Broken text, or no memory: nothing more can be read. */
gboolean events_parse_failed (const EventsParse *parse);
EventsType events_parse_next (EventsParse *parse, EventsScalar *value);
gboolean events_parse_member (EventsParse *parse, EventsScalar *name);
gboolean events_parse_element (EventsParse *parse);
/* Behind the value whose head was read; @source: as it stands there. */
gboolean events_parse_skip (EventsParse *parse, const EventsScalar *head, LmtSpan *source);
/* A whole value: of a container head and source. */
gboolean events_parse_whole (EventsParse *parse, EventsScalar *value, LmtSpan *source);
/* From @start, where an object began, to here. */
LmtSpan events_parse_since (const EventsParse *parse, const guint8 *start);
gpointer events_parse_alloc (EventsParse *parse, gsize size);

void events_parse_push (EventsParse *parse, const char *name, guint64 index);
void events_parse_pop (EventsParse *parse);
/* @field: (nullable): last step of the place. @source: what was sent. @ctx: (nullable): JSON text. */
void events_parse_problem (EventsParse *parse, const char *field, const char *type, const char *msg, LmtSpan source,
                           const char *ctx);
/* For what is no object where one is wanted. */
void events_parse_no_object (EventsParse *parse, const char *class_name, LmtSpan source);

void events_level_begin (EventsParse *parse, EventsLevel *level, guint field);
void events_level_end (EventsParse *parse, EventsLevel *level, guint field);
/* All members are read: the problems in the order of the fields. */
void events_level_sort (EventsParse *parse, EventsLevel *level, guint n_fields);

/* One key, one batch; FALSE only where nothing more can be read: what else is wrong is a problem. */
gboolean events_parse_key (EventsParse *parse, const EventsScalar *head, EventsKey *key, guint32 *huge);
gboolean events_parse_batch (EventsParse *parse, EventsBatch *batch);
/* (nullable): the first key of a good batch that can't be converted. */
const EventsKey *events_batch_bad_key (const EventsBatch *batch);
/* The one problem of a list of batches or keys that are good but for a key. */
void events_parse_key_problem (EventsParse *parse, const EventsKey *key, LmtSpan source);

/* JSON text of the array: @path and @field. */
char *events_path_to_json (const EventsPathStep *path, guint n, const char *field);
/* What was sent as JSON text, at most about 1 KiB of it. */
char *events_parse_input (EventsParse *parse, LmtSpan source);

EventsProblem *events_problems_push (EventsProblems *problems); /* (nullable): counted, not kept */

G_END_DECLS
