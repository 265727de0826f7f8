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
} LmtRecord;

/**
 * lmt_record_split:
 * @body: a frame's body
 * @fault: reason one of empty-frame, invalid-msgpack, invalid-utf8, trailing-bytes, too-deep, not-a-map, bad-key, header-frame,
 *   wrong-tag, missing-field, wrong-type; the field's name or the place in @detail
 *
 * Checks the whole body and finds the five members, in any order, last one of equal keys counting.
 * Only the four value members of @record are set.
 */
gboolean lmt_record_split (LmtSpan body, LmtRecord *record, LmtFault *fault);

/* Appends the frame of one record, byte for byte as LMCache writes it; @args is an encoded map. */
void lmt_record_encode (double t_mono, double t_wall, LmtSpan qualname, LmtSpan args, GByteArray *out);

/* TRUE if t counts as a time: finite and below 1e9 s (trace-format.md 3.1). */
static inline gboolean
lmt_time_is_usable (double t)
{
  return t < 1e9 && t > -G_MAXDOUBLE && t == t;
}

G_END_DECLS
