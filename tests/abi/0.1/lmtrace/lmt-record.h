/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "lmt-cursor.h"

G_BEGIN_DECLS

/**
 * SECTION: records of a trace. Threads: any; nothing is kept.
 *
 * Since: 0.1
 */

/**
 * LmtRecord:
 * @number: from 1, counts records that decoded (malformed frames aren't among them)
 * @frame: number of the frame, the header being 0
 * @offset: of the frame's length prefix, from the start of the (uncompressed) file
 * @t_mono: seconds since header.t_mono_start; any double, also NaN
 * @t_wall: seconds since the epoch
 * @qualname: which call
 * @args: one msgpack map, undecoded but already walked (bounds, UTF-8, depth)
 * @walked: by the LmtArgsWalk, and this is the last record it took
 *
 * Source: LMCache trace format version 1, struct Record. The spans die with the next lmt_reader_next().
 */
typedef struct
{
  guint64 number;
  guint64 frame;
  guint64 offset;
  double t_mono;
  double t_wall;
  LmtSpan qualname;
  LmtSpan args;
  LmtSpan body;
  guint32 walked;
  guint32 reserved;
} LmtRecord;

/**
 * lmt_record_split:
 * @body: a frame's body
 * @fault: reason one of empty-frame, invalid-msgpack, invalid-utf8, trailing-bytes, too-deep, not-a-map, bad-key, header-frame,
 *   wrong-tag, missing-field, wrong-type; the field's name or the place in @detail
 *
 * Checks the whole body and finds the five members, in any order, last one of equal keys counting.
 * Only the four value members of @record are set, and @walked.
 */
gboolean lmt_record_split (LmtSpan body, LmtRecord *record, LmtFault *fault);

/**
 * LmtArgsWalk: looks at a record's args in the stead of lmt_cursor_check_next(), for who has to look at them anyway: each byte is
 * read once instead of twice.
 * @data: the caller's
 * @args: their first byte; nothing there is checked yet
 * @end: of the record's body
 *
 * Must hold to what lmt_cursor_check_next() holds to, on the forms it knows: bounds, UTF-8, depth; a map whose keys are strings.
 * The record may still turn out to be none: what was seen counts only once lmt_reader_next() has handed the record out.
 * Returns: (nullable): the byte behind the args; %NULL: not a form it knows, they are looked at in the common way.
 */
typedef const guint8 *(*LmtArgsWalk) (gpointer data, LmtSpan qualname, const guint8 *args, const guint8 *end);

/* Appends the frame of one record, byte for byte as LMCache writes it; @args is an encoded map. */
void lmt_record_encode (double t_mono, double t_wall, LmtSpan qualname, LmtSpan args, GByteArray *out);

/* TRUE if t counts as a time: finite and below 1e9 s (trace-format.md 3.1). */
static inline gboolean
lmt_time_is_usable (double t)
{
  return t < 1e9 && t > -G_MAXDOUBLE && t == t;
}

G_END_DECLS
