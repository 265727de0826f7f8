/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "lmt-header.h"
#include "lmt-record.h"

G_BEGIN_DECLS

/**
 * SECTION: trace files frame by frame: plain, gzip, zstd, files, pipes. Threads: one per reader. Lifetime: spans of a record die
 * with the next lmt_reader_next().
 *
 * Since: 0.1
 */

typedef struct _LmtReader LmtReader;

typedef enum
{
  LMT_READ_RECORD = 0,
  LMT_READ_END,
} LmtReadResult;

typedef enum
{
  LMT_TAIL_CLEAN = 0,    /* ends at a frame's border */
  LMT_TAIL_SHORT_PREFIX, /* 1-3 bytes left */
  LMT_TAIL_SHORT_BODY,   /* promised more than there is and nothing after it decodes: truncated */
  LMT_TAIL_CORRUPT,      /* the same, but a later offset resynchronises */
  LMT_TAIL_ZERO_FILL,    /* zero length frames to the end: one finding, every frame still counted */
  LMT_TAIL_STREAM_SHORT, /* the compressed stream ends early */
  LMT_TAIL_READ_ERROR,
} LmtTail;

enum
{
  LMT_MALFORMED_REASONS = 11
};

/**
 * LMT_READER_MAX_FRAME: longest body the reader takes unless told otherwise. The format allows 2^32 - 1; real ones have up to 20
 * kB. A longer one counts as a damaged length.
 */
#define LMT_READER_MAX_FRAME (256u * 1024 * 1024)

/**
 * LmtReaderStats: what the reader met so far. All counts.
 * @bytes: of whole frames, prefixes included, the header among them
 * @zero_fill_frames: frames of length 0 that run to the end; among @malformed, one finding
 * @tail_offset: of the length prefix where reading stopped (under `resync`: of the last damaged length)
 * @tail_promised, @tail_available: body bytes the length says, and bytes that are there; of %LMT_TAIL_SHORT_PREFIX bytes left
 * @resync_offset: where records go on (0: nowhere); @resync_records: how many there are, unless they are read under `resync`
 * @lost_bytes, @lost_ranges: stepped over under `resync`
 * @duration_s: largest finite t_mono, at least 0.0 (trace-format.md 3.1)
 */
typedef struct
{
  guint64 records;
  guint64 malformed;
  guint64 bytes;
  guint64 zero_fill_frames;
  guint64 second_headers;
  guint32 tail; /* LmtTail */
  guint64 tail_offset;
  guint64 tail_promised;
  guint64 tail_available;
  guint64 resync_offset;
  guint64 resync_records;
  guint64 lost_bytes;
  guint64 lost_ranges;
  guint64 time_non_finite;
  guint64 time_too_large; /* finite, 1e9 s or more */
  guint64 time_negative;
  guint64 time_backward;
  double duration_s;
  double last_time_s; /* of the last record with a usable time; below 0 counts as 0 */
} LmtReaderStats;

/**
 * LmtReaderFaultFunc: called for each malformed frame and for each damage of the framing, between two records.
 * @fault: borrowed for the call. number = frame, offset = its start, length = its body. Reasons: the words of
 *   lmt_malformed_reason(); `truncated`, `corrupt`, `zero-fill`, `compressed stream ends early` for what isn't a frame
 */
typedef void (*LmtReaderFaultFunc) (const LmtFault *fault, gpointer user_data);

/**
 * lmt_reader_open:
 * @path: a file, a FIFO, or `-` for stdin. gzip and zstd are recognised by their first bytes
 *
 * Opens and reads nothing but what the magic needs. Buffered read(), never mmap: a file that shrinks must not SIGBUS. Memory: one
 * buffer of 256 KiB that grows to the largest frame whose bytes are really there.
 */
LmtReader *lmt_reader_open (const char *path, GError **error);
/* @data stays the caller's and must outlive the reader. */
LmtReader *lmt_reader_new_for_bytes (gconstpointer data, gsize len, const char *name);
void lmt_reader_free (LmtReader *reader);

/* Go on at the next frame that decodes after a damaged length; default off. */
void lmt_reader_set_resync (LmtReader *reader, gboolean resync);
/* Wait for more at the end, until nothing came for @idle_ns (0: for ever). */
void lmt_reader_set_follow (LmtReader *reader, gboolean follow, gint64 idle_ns);
/* Default %LMT_READER_MAX_FRAME. */
void lmt_reader_set_max_frame (LmtReader *reader, guint64 bytes);
/* A number that other than 0 ends waiting and reading like the end of the file (signals). Borrowed. */
void lmt_reader_set_interrupts (LmtReader *reader, const volatile gint *interrupts);
void lmt_reader_set_fault_func (LmtReader *reader, LmtReaderFaultFunc func, gpointer user_data);
/* Lets @walk look at the args of records in the usual form; what it doesn't take is looked at here. (nullable) */
void lmt_reader_set_args_walk (LmtReader *reader, LmtArgsWalk walk, gpointer user_data);

/**
 * lmt_reader_read_header: reads frame 0.
 * Errors: IO, TRUNCATED, CORRUPT, VERSION; one line that names file, place, expected and found.
 */
gboolean lmt_reader_read_header (LmtReader *reader, GError **error);
LmtHeader *lmt_reader_get_header (LmtReader *reader); /* (transfer none) (nullable) */
/* As it was given, and as it may be shown: valid UTF-8. */
const char *lmt_reader_get_name (LmtReader *reader);
const char *lmt_reader_get_shown_name (LmtReader *reader);
/* Size of the file in bytes, or 0 where it can't be known (pipe); bytes consumed of it so far, for progress. */
guint64 lmt_reader_get_size (LmtReader *reader);
guint64 lmt_reader_get_position (LmtReader *reader);
gboolean lmt_reader_is_seekable (LmtReader *reader);

/**
 * lmt_reader_next:
 * @record: (out caller-allocates): set on LMT_READ_RECORD; its spans point into the reader and die at the next call
 *
 * Reads one frame and splits it; `args` stays undecoded. Malformed frames are counted, told to the fault func and stepped over.
 * Threads: one per reader. Cost: no allocation once the buffer holds the largest frame.
 */
LmtReadResult lmt_reader_next (LmtReader *reader, LmtRecord *record);

/* FALSE only for a read error or a compressed stream that broke: a cut tail is a finding in the stats, not an error. */
gboolean lmt_reader_finish (LmtReader *reader, GError **error);
const LmtReaderStats *lmt_reader_get_stats (LmtReader *reader);
/* Counts per reason in the order of lmt_malformed_reason(). */
guint64 lmt_reader_get_malformed (LmtReader *reader, guint reason);
const char *lmt_malformed_reason (guint reason); /* NULL behind the last */

/* Starts again at the first record. Only where lmt_reader_is_seekable(). Stats go back to zero. */
gboolean lmt_reader_rewind (LmtReader *reader, GError **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LmtReader, lmt_reader_free)

/* -------- writing -------- */

typedef struct _LmtWriter LmtWriter;

/**
 * lmt_writer_new:
 * @path: a file, or `-` for stdout; `.gz` and `.zst` compress
 *
 * Writes header and records. Errors stick: the first is returned by lmt_writer_close().
 */
LmtWriter *lmt_writer_new (const char *path, GError **error);
gboolean lmt_writer_header (LmtWriter *writer, const LmtHeaderFields *fields, GError **error);
/* Any complete frame, prefix included: to copy one byte for byte. */
gboolean lmt_writer_frame (LmtWriter *writer, LmtSpan frame, GError **error);
gboolean lmt_writer_record (LmtWriter *writer, double t_mono, double t_wall, LmtSpan qualname, LmtSpan args, GError **error);
/* Hands what is buffered to the system; ends a zstd frame, so that a killed program's file decodes up to here. */
gboolean lmt_writer_flush (LmtWriter *writer, GError **error);
/* Flushes, fsyncs a file, closes. Frees the writer in any case. */
gboolean lmt_writer_close (LmtWriter *writer, GError **error);

G_END_DECLS
