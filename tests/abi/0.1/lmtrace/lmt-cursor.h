/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <string.h>

#include "lmt-error.h"
#include "lmt-frame.h"

G_BEGIN_DECLS

/**
 * SECTION: a pull reader over one span of msgpack: checks bounds, element counts against the bytes left, and nesting before
 * anything is believed. Threads: one per cursor; it owns nothing and allocates nothing. Lifetime: spans it hands out are of the
 * bytes it was given. Errors: FALSE, the cursor stays where it was; the caller fills an LmtFault. Source: the msgpack
 * specification.
 *
 * Since: 0.1
 */

/**
 * LMT_CURSOR_MAX_DEPTH:
 *
 * Nesting the reader takes (LMCache's own gives up at about 900; the format asks for at least 128). Never recursion.
 */
#define LMT_CURSOR_MAX_DEPTH 512u

typedef enum
{
  LMT_TYPE_NONE = 0, /* the span is used up */
  LMT_TYPE_NIL,
  LMT_TYPE_BOOL,
  LMT_TYPE_UINT,  /* u: 0 … 2^64-1 */
  LMT_TYPE_INT,   /* i: negative only */
  LMT_TYPE_FLOAT, /* f */
  LMT_TYPE_STR,   /* span */
  LMT_TYPE_BIN,   /* span */
  LMT_TYPE_ARRAY, /* count elements follow */
  LMT_TYPE_MAP,   /* count pairs follow */
  LMT_TYPE_EXT,   /* span; ext_type */
  LMT_TYPE_ERROR, /* the bytes are no msgpack value; the cursor stays where it was */
} LmtType;

/**
 * LmtToken:
 *
 * One msgpack value read off a cursor; of containers only the head. @span points into the cursor's bytes.
 */
typedef struct
{
  guint32 type;  /* LmtType */
  guint32 count; /* ARRAY: elements, MAP: pairs */
  union
  {
    guint64 u;
    gint64 i;
    double f;
    gboolean b;
  } v;
  LmtSpan span;
  gint8 ext_type;
} LmtToken;

/**
 * LmtCursor:
 *
 * Pull reader over one span of msgpack. Plain struct on the stack; no allocation, no recursion. Counts are compared with the
 * bytes left (an element takes at least one) before they are believed. Threads: one per cursor.
 */
typedef struct
{
  const guint8 *pos;
  const guint8 *end;
} LmtCursor;

static inline void
lmt_cursor_init (LmtCursor *cursor, LmtSpan span)
{
  cursor->pos = span.data;
  cursor->end = span.data + span.len;
}

/* Reads one token; of a map or array only its head, so the next call reads its first element. */
LmtType lmt_cursor_next (LmtCursor *cursor, LmtToken *token);
/* Type of the next value without moving. */
LmtType lmt_cursor_peek (const LmtCursor *cursor);
/* Steps over one whole value, nested or not. FALSE: broken bytes (cannot happen inside a record the reader accepted). */
gboolean lmt_cursor_skip (LmtCursor *cursor);
/* Steps over one whole value and lends its bytes. */
gboolean lmt_cursor_skip_span (LmtCursor *cursor, LmtSpan *value);
gboolean lmt_cursor_at_end (const LmtCursor *cursor);

/* Typed reads: TRUE and the value, or FALSE with the cursor where it was. */
gboolean lmt_cursor_read_map (LmtCursor *cursor, guint32 *pairs);
gboolean lmt_cursor_read_array (LmtCursor *cursor, guint32 *elements);
gboolean lmt_cursor_read_str (LmtCursor *cursor, LmtSpan *str);
gboolean lmt_cursor_read_bin (LmtCursor *cursor, LmtSpan *bin);
gboolean lmt_cursor_read_uint (LmtCursor *cursor, guint64 *value);
gboolean lmt_cursor_read_int (LmtCursor *cursor, gint64 *value); /* what fits gint64 */
gboolean lmt_cursor_read_bool (LmtCursor *cursor, gboolean *value);
gboolean lmt_cursor_read_nil (LmtCursor *cursor);
/* float32, float64 and integers (as the reference's decoder); not bool. */
gboolean lmt_cursor_read_double (LmtCursor *cursor, double *value);

/**
 * lmt_cursor_check:
 * @span: what should be exactly one msgpack value
 * @fault: (out): reason `invalid-msgpack`, `invalid-utf8`, `trailing-bytes`, `too-deep`, `empty-frame`; place as byte in @detail
 *
 * Walks the whole value: every count against the bytes left, every str as UTF-8, depth against %LMT_CURSOR_MAX_DEPTH. A map as
 * map key is refused like the reference does. Cost: one pass, no allocation.
 */
gboolean lmt_cursor_check (LmtSpan span, LmtFault *fault);

/**
 * lmt_cursor_check_next:
 * @fault: (out): as lmt_cursor_check() has it, but for `trailing-bytes`
 *
 * Steps over one whole value, nested or not, and looks at it as lmt_cursor_check() does. FALSE: the cursor stays where it was.
 */
gboolean lmt_cursor_check_next (LmtCursor *cursor, LmtFault *fault);

static inline gboolean
lmt_span_equal_str (LmtSpan span, const char *text, gsize len)
{
  return span.len == len && memcmp (span.data, text, len) == 0;
}
#define LMT_SPAN_IS(span, literal) lmt_span_equal_str ((span), "" literal, sizeof (literal) - 1)

G_END_DECLS
