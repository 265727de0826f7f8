// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <lmtrace/lmt-plugin.h>

G_BEGIN_DECLS

/**
 * EventsJson: pull reader over one JSON text in memory, the shape of LmtCursor for JSON (events.md 13, R3). Plain struct on the
 * stack, no recursion, no allocation but for strings with escapes (they go to the arena). Accepts what the coordinator's JSON
 * reader accepts: RFC 8259 and the bare words NaN, Infinity, -Infinity; duplicate members are the caller's (last wins). Threads:
 * one per reader.
 */
typedef struct _EventsArena EventsArena; /* bump allocator of one request or record: freed or reset as a whole */

EventsArena *events_arena_new (gsize limit); /* @limit: bytes it may ever hold (0: none); reset keeps its blocks */
void events_arena_free (EventsArena *arena);
void events_arena_reset (EventsArena *arena);
gpointer events_arena_alloc (EventsArena *arena, gsize size); /* 16-byte aligned, not cleared; NULL above the limit */

typedef enum
{
  EVENTS_NONE = 0, /* only as "absent" */
  EVENTS_NULL,
  EVENTS_BOOL,
  EVENTS_INT,    /* fits gint64: i */
  EVENTS_UINT,   /* 2^63 … 2^64-1: u */
  EVENTS_BIGINT, /* beyond: text */
  EVENTS_FLOAT,  /* f; may be NaN or infinite */
  EVENTS_STRING, /* text: UTF-8; half surrogates of escapes as three bytes ED A0..BF xx, then @surrogate is set */
  EVENTS_BINARY, /* msgpack bin: never valid in a batch */
  EVENTS_ARRAY,
  EVENTS_OBJECT,
  EVENTS_ERROR,
} EventsType;

/* One value, of containers only the head. Also what a msgpack token becomes: the rules of 2.1 are written once, over this. */
typedef struct
{
  guint32 type;
  guint32 surrogate;
  union
  {
    gboolean b;
    gint64 i;
    guint64 u;
    double f;
  } v;
  LmtSpan text; /* STRING, BINARY, BIGINT: the bytes; ARRAY, OBJECT of a finished value: its source bytes, for error replies */
} EventsScalar;

typedef struct
{
  const char *pos;
  const char *end;
  const char *start;
  const char *last;   /* where the value read last begins */
  EventsArena *arena; /* NULL: strings with escapes stay as they are written */
  guint32 depth;
  guint32 max_depth; /* 32 (B6) */
  guint32 too_deep;  /* set: the text is nested deeper, or an integer has over 4,300 digits: answered 400, not 422 */
  guint32 fresh;     /* the innermost container was just opened */
  guint32 words;     /* NaN or Infinity was read: the text is no JSON for others */
  guint32 no_memory; /* set: the arena is at its limit: 413 */
  const char *fault; /* static text of what was expected; place is pos - start */
  guint64 stack[2];  /* open containers, a bit each */
} EventsJson;

gboolean events_utf8_valid (const char *text, gsize len); /* NUL is a character like others */

void events_json_init (EventsJson *json, const char *text, gsize len, EventsArena *arena, guint32 max_depth);
/* Next value: a scalar whole, of a container the head. EVENTS_ERROR: fault and pos tell. */
EventsType events_json_next (EventsJson *json, EventsScalar *value);
/* Inside an object: the next member's name, FALSE at its end or on an error (then fault is set). */
gboolean events_json_member (EventsJson *json, EventsScalar *name);
/* Inside an array: is there another element? FALSE at its end or on an error. */
gboolean events_json_element (EventsJson *json);
/* Steps over the value whose head was read last. @source: (out) (nullable): its text, as it was written. */
gboolean events_json_skip (EventsJson *json, const EventsScalar *head, LmtSpan *source);
gboolean events_json_at_end (EventsJson *json); /* only white space is left */

/**
 * events_json_from_msgpack: appends the JSON text of one msgpack value, compact, members in their order (R3): integers exact,
 * doubles shortest round-trip with at least one decimal, strings with only what JSON must escape (non-ASCII as \uXXXX like
 * LMCache's client sends or as UTF-8: both are the same JSON). Returns: FALSE for what JSON can't hold (NaN, infinity, bin, ext,
 * a map key that is no string): @reason (out, static), @out is cut back to where it was
 */
gboolean events_json_from_msgpack (LmtSpan value, GString *out, const char **reason);

G_END_DECLS
