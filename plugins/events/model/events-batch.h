// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "events-json.h"

G_BEGIN_DECLS

/**
 * EventsBatch: one element of `batches` of POST /events, converted and valid (events.md 2, 2.1). The same struct comes from a
 * record's msgpack and from a request's JSON; rules and leniency stand once. Strings are spans into the source or the arena and
 * die with them. Enumerations are numbers.
 */
typedef enum
{
  EVENTS_STORE,
  EVENTS_DELETE,
  EVENTS_ACCESS,
  EVENTS_CONFIG,
  EVENTS_N_KINDS
} EventsKind;
typedef enum
{
  EVENTS_L1,
  EVENTS_L2,
  EVENTS_N_TIERS
} EventsTier;
extern const char *const events_kind_words[EVENTS_N_KINDS]; /* store delete access config */
extern const char *const events_tier_words[EVENTS_N_TIERS]; /* l1 l2 */

/* Identity of a key: all five members. @hash: bytes, not hex. */
typedef struct
{
  LmtSpan hash;
  LmtSpan model;
  gint64 kv_rank;
  gint64 group;
  LmtSpan salt;
  LmtSpan hash_text; /* as sent, for echoes */
} EventsKey;

/* Integers beyond gint64 are admitted by the reference: held as G_MAXINT64 or G_MININT64, @huge of the batch set. */
typedef struct
{
  EventsKey key;
  gint64 size_bytes;
  gint64 token_offset;
  const guint32 *token_ids; /* arena; NULL without tokens and where they aren't valid */
  guint32 n_tokens;         /* as sent */
  guint32 tokens_valid;     /* every one in 0 … 2^32-1; otherwise they are ignored */
} EventsEntry;

typedef struct
{
  LmtSpan instance;
  gint64 incarnation;
  gint64 seq;
  guint32 kind;
  guint32 tier;
  LmtSpan backend;
  guint32 shared;
  guint32 huge;
  const EventsEntry *entries; /* arena */
  guint32 n_entries;
  guint32 reserved;
  double ts;
  gint64 capacity_bytes;
  gint64 capacity_revision;
  gint64 dropped_events;
} EventsBatch;

/* Limits of B6; all options. Zero: no limit. */
typedef struct
{
  guint32 max_entries;       /* 1,000,000 a batch */
  guint32 max_tokens;        /* 1,000,000 an entry */
  guint32 max_string;        /* 1 MiB */
  guint32 max_depth;         /* 32 */
  guint32 no_dropped_events; /* LMCache 0.5.6: `dropped_events` is no field, whatever it holds */
} EventsLimits;
extern const EventsLimits events_limits_default;

/**
 * EventsProblem: one violation, in the terms of a 422 reply: `{"type", "loc", "msg", "input"}`; @type as the golden probes have
 * it
 * (`int_parsing`, `missing`, `value_error`, `string_type` …).
 * @loc: JSON text of the array: `["body","batches",0,"seq"]`
 * @input: JSON text of what was sent, cut to 1 KiB
 * @ctx: (nullable): JSON text of the object
 */
typedef struct
{
  const char *type;
  char *loc;
  char *msg;
  char *input;
  char *ctx;
} EventsProblem;
typedef struct
{
  GArray *items; /* EventsProblem */
  guint max;     /* no more than this many are kept: 100 */
  guint64 total;
} EventsProblems;
void events_problems_init (EventsProblems *problems, guint max);
void events_problems_clear (EventsProblems *problems);
void events_problems_reset (EventsProblems *problems); /* empty again, memory kept; the readers below begin with it */
/* A problem of one's own; all are copied but @type. @ctx: (nullable) */
void events_problems_add (EventsProblems *problems, const char *type, const char *loc, const char *msg, const char *input,
                          const char *ctx);
/* `batches.0.seq: Input should be a valid integer, found "x"`: the first one, for people. (transfer full) */
char *events_problems_describe (const EventsProblems *problems);

/**
 * events_batch_from_args: a record's `args`.
 * Returns: FALSE: @problems tells (loc begins with the field). No allocation outside the arena unless there is a problem.
 */
gboolean events_batch_from_args (LmtSpan args, const EventsLimits *limits, EventsArena *arena, EventsBatch *batch,
                                 EventsProblems *problems);

/* What became of a body. */
typedef enum
{
  EVENTS_BODY_OK = 0,
  EVENTS_BODY_INVALID, /* 422, @problems tells */
  EVENTS_BODY_BROKEN,  /* 400: not UTF-8, too deep */
  EVENTS_BODY_TOO_BIG, /* 413: doesn't fit the arena's limit */
} EventsBodyResult;

/**
 * events_batches_from_body: the whole of POST /events. Validation covers the whole body before anything is handed out.
 * @batches: (out): array in the arena
 */
EventsBodyResult events_batches_from_body (const char *body, gsize len, const EventsLimits *limits, EventsArena *arena,
                                           EventsBatch **batches, guint32 *n_batches, EventsProblems *problems);

/* ---- the same table for other bodies (registration, lookup, quota, pins): one field at a time ---- */

/**
 * EventsField: a member of an object and how it is taken. @type: what is wanted. @offset: in the caller's struct, of a gint64
 * (INT), double (FLOAT), gboolean (BOOL), LmtSpan (STRING), LmtSpan source text (RAW: any value, untouched).
 * @seen_offset: of a guint32 that tells absent (0), null (1, only if @nullable) and given (2); G_MAXUINT32: none
 */
typedef enum
{
  EVENTS_WANT_INT,
  EVENTS_WANT_FLOAT,
  EVENTS_WANT_BOOL,
  EVENTS_WANT_STRING,
  EVENTS_WANT_RAW,
} EventsWant;
typedef struct
{
  const char *name;
  guint32 want;
  guint32 required;
  guint32 nullable;
  guint32 trim; /* STRING: white space around is dropped before the checks */
  guint32 min_length;
  guint32 has_min, has_max;
  double min, max; /* INT, FLOAT: inclusive */
  gsize offset;
  guint32 seen_offset;
} EventsField;
/* @min, @max of an INT, and of a FLOAT, as the problem's `ctx` has them: 1, 0.0. Integers beyond gint64 count as its ends. */
EventsBodyResult events_object_from_body (const char *body, gsize len, const EventsField *fields, guint n_fields, gpointer values,
                                          EventsArena *arena, EventsProblems *problems);
/* A body whose content type isn't JSON: it isn't read, the 422 shows it as a string. */
void events_body_is_no_json (const char *body, gsize len, EventsProblems *problems);
/* One array of keys or integers out of a RAW member; @name for loc. Problems are added to those there are; @raw without data: no
 * elements. Limits: max_entries keys, max_tokens integers. Keys are converted and checked. */
gboolean events_keys_from_raw (LmtSpan raw, const char *name, const EventsLimits *limits, EventsArena *arena, EventsKey **keys,
                               guint32 *n, EventsProblems *problems);
gboolean events_ints_from_raw (LmtSpan raw, const char *name, const EventsLimits *limits, EventsArena *arena, gint64 **ints,
                               guint32 *n, EventsProblems *problems);
/* An object of strings out of a RAW member (a registration's `metadata`); the last of equal names counts. */
typedef struct
{
  LmtSpan name;
  LmtSpan value;
} EventsPair;
gboolean events_pairs_from_raw (LmtSpan raw, const char *name, const EventsLimits *limits, EventsArena *arena, EventsPair **pairs,
                                guint32 *n, EventsProblems *problems);
LmtSpan events_span_trim (LmtSpan text);       /* without Unicode white space around */
char *events_key_fault (const EventsKey *key); /* (nullable) (transfer full): why LMCache can't convert it: `Value error, …` */

/* The rules of 2.1 for one value, used by all of the above; FALSE: @type (static) and @msg (static). */
gboolean events_take_int (const EventsScalar *value, gint64 *out, gboolean *huge, const char **type, const char **msg);
gboolean events_take_float (const EventsScalar *value, double *out, const char **type, const char **msg);
gboolean events_take_bool (const EventsScalar *value, gboolean *out, const char **type, const char **msg);
gboolean events_take_string (const EventsScalar *value, LmtSpan *out, const char **type, const char **msg);

G_END_DECLS
