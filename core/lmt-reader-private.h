/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "lmt-cursor-private.h"
#include "lmt-reader.h"
#include "lmt-shape-private.h"
#include "lmt-source.h"

G_BEGIN_DECLS

struct _LmtReader
{
  char *name;
  char *shown;
  LmtSource *source;
  LmtHeader *header;
  LmtShapes *shapes;
  LmtReaderFaultFunc fault_func;
  gpointer fault_data;
  LmtArgsWalk args_walk;
  gpointer args_data;
  gboolean resync;
  guint64 max_frame;

  /* Bytes start … end of the buffer are read and not yet taken; @offset is where start stands in the unpacked file. */
  guint8 *buffer;
  gsize capacity;
  gsize start;
  gsize end;
  guint64 offset;
  gboolean source_end;
  gboolean source_failed;
  gboolean done;

  double last_finite_s; /* what a step back is measured against */
  guint64 frame;        /* number of the next one */
  guint64 zero_offset;  /* a run of frames of length 0 that isn't told yet: it may be the end of the file */
  guint64 zero_frame;
  guint64 zero_count;
  LmtReaderStats stats;
  guint64 malformed[LMT_MALFORMED_REASONS];
};

static inline gsize
lmt_reader_available (const LmtReader *reader)
{
  return reader->end - reader->start;
}

static inline void
lmt_reader_advance (LmtReader *reader, gsize bytes)
{
  reader->start += bytes;
  reader->offset += bytes;
}

/* Makes @need bytes stand in the buffer. FALSE: the file ends before (what there is stays in the buffer). Moves the buffer's
 * bytes. */
gboolean lmt_reader_fill (LmtReader *reader, guint64 need);

/* Is a body of @len bytes to be had? Looks at the size first, where there is one, so that nothing is read for a wrong number. */
gboolean lmt_reader_fill_frame (LmtReader *reader, guint32 len);

/**
 * lmt_reader_scan: from the byte behind a damaged length on, looks for the first place where a length is followed by a body that
 * is a record. TRUE: the reader stands there. FALSE: at the end.
 */
gboolean lmt_reader_scan (LmtReader *reader);

/* Counts records to the end, or to the next damage, without telling anyone; then reads to the end of the file. */
void lmt_reader_count_rest (LmtReader *reader);

G_END_DECLS
