/* SPDX-License-Identifier: Apache-2.0 */
#include "lmt-reader-private.h"

/* Behind a damaged length: where do frames go on? (trace-format.md 1.1) */

enum
{
  /* The four members a record must have take more than this, names alone. */
  RECORD_BYTES_MIN = 32,
  /* A wrong length may claim anything: the scan believes only what a record is likely to have (the longest seen have 20 kB). */
  SCAN_FRAME_MAX = 1024 * 1024,
  /* Bytes looked at more than once, per byte of the file, so that a file made to look like frames at every byte ends, too. */
  SCAN_EFFORT = 16,
  SCAN_EFFORT_START = 64 * 1024 * 1024,
};

/* The cheap part: a plausible length, and a map whose first key is a str. */
static inline gboolean
may_be_frame (const guint8 *p)
{
  guint32 len = lmt_read_be32 (p);
  guint8 map = p[4];
  guint8 key = map == 0xde ? p[7] : map == 0xdf ? p[9] : p[5];

  if (len < RECORD_BYTES_MIN || len > SCAN_FRAME_MAX)
    return FALSE;
  if ((map & 0xf0) != 0x80 && map != 0xde && map != 0xdf)
    return FALSE;
  return (key & 0xe0) == 0xa0 || (key >= 0xd9 && key <= 0xdb);
}

gboolean
lmt_reader_scan (LmtReader *reader)
{
  guint64 effort = SCAN_EFFORT_START;

  lmt_reader_advance (reader, 1);
  while (lmt_reader_fill (reader, LMT_FRAME_PREFIX_BYTES + RECORD_BYTES_MIN))
    {
      const guint8 *p = reader->buffer + reader->start;

      effort += SCAN_EFFORT;
      if (may_be_frame (p))
        {
          guint32 len = lmt_read_be32 (p);
          LmtRecord record;
          LmtFault fault;

          if (effort >= len && lmt_reader_fill_frame (reader, len))
            {
              LmtSpan body = { reader->buffer + reader->start + LMT_FRAME_PREFIX_BYTES, len };

              if (lmt_record_split (body, &record, &fault))
                return TRUE;
              effort -= len;
            }
        }
      lmt_reader_advance (reader, 1);
    }
  lmt_reader_advance (reader, lmt_reader_available (reader));
  return FALSE;
}

void
lmt_reader_count_rest (LmtReader *reader)
{
  while (lmt_reader_fill (reader, LMT_FRAME_PREFIX_BYTES))
    {
      guint32 len = lmt_read_be32 (reader->buffer + reader->start);
      LmtRecord record;
      LmtFault fault;
      LmtSpan body;

      if (!lmt_reader_fill_frame (reader, len))
        break;
      body.data = reader->buffer + reader->start + LMT_FRAME_PREFIX_BYTES;
      body.len = len;
      if (lmt_shapes_match (reader->shapes, body, &record) || lmt_record_split (body, &record, &fault))
        reader->stats.resync_records++;
      lmt_reader_advance (reader, LMT_FRAME_PREFIX_BYTES + (gsize)len);
    }
  do
    lmt_reader_advance (reader, lmt_reader_available (reader));
  while (lmt_reader_fill (reader, 1));
}
