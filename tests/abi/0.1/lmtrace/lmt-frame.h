/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

G_BEGIN_DECLS

/**
 * SECTION: what a trace file is made of: spans of bytes and frames. No state: any thread.
 * Source: LMCache trace format version 1, framing.
 *
 * Since: 0.1
 */

/**
 * LmtSpan:
 *
 * Bytes somebody else owns. Until when they live, the function that hands them out says.
 */
typedef struct
{
  const guint8 *data;
  gsize len;
} LmtSpan;

#define LMT_SPAN_STR(span) (int)(span).len, (const char *)(span).data /* for "%.*s" */

static inline guint32
lmt_read_be32 (const guint8 *p)
{
  return ((guint32)p[0] << 24) | ((guint32)p[1] << 16) | ((guint32)p[2] << 8) | (guint32)p[3];
}

/* A frame is a big-endian u32 that counts the body's bytes, then the body: one msgpack map. trace-format: framing. */
#define LMT_FRAME_PREFIX_BYTES 4u

G_END_DECLS
