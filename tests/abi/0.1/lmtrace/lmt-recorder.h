/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "lmt-header.h"
#include "lmt-pack.h"
#include "lmt-pacer.h"

G_BEGIN_DECLS

/**
 * SECTION: recording calls into a trace file (trace-format.md 10).
 *
 * Path of a call: the gate, one relaxed load when nobody records. On: both clocks are read on the calling thread and the
 * arguments copied into that thread's ring; the drain thread of the recorder encodes them later and writes. Nothing blocks the
 * caller
 * (%LMT_RECORDER_BLOCK apart), nothing is allocated once a thread has its ring; what doesn't fit is dropped and counted.
 *
 *     if (lmt_trace_is_on (&my_level))
 *       lmt_recorder_publish (&my_level, MY_PUT, &arguments, sizeof arguments);
 *
 * Order in the file: a pass of the drain takes what the rings hold and writes it by (monotonic time in ns, number of the ring,
 * place in the ring). A thread that lost the CPU between clock and ring comes in a later pass, so the time may step back a little
 * between neighbours, as in LMCache's own files.
 *
 * Fork: in the child every gate is off; the parent's recording goes on.
 *
 * Since: 0.1
 */
typedef struct _LmtRecorder LmtRecorder;

/**
 * LmtTraceCall: one call of a level that can be recorded.
 * @qualname: UTF-8; what Record.qualname says
 * @arguments: (nullable): names up to NULL, for lmt_recorder_publish_values()
 * @encode: (nullable): writes the args map (parameter name to value) of a copy made by lmt_recorder_begin() or _publish() into
 *   @out, on the drain thread. @schema: the file's trace_schema_version. FALSE, or `out->failed`: the record is dropped and
 *   counted as an encode error. NULL: the copy is the args map in msgpack; it is checked
 *
 * Array entries never grow: reserved words.
 */
typedef struct
{
  const char *qualname;
  const char *const *arguments;
  gboolean (*encode) (gconstpointer copy, gsize len, guint32 schema, LmtPack *out);
  gpointer reserved[3];
} LmtTraceCall;

/**
 * LmtTraceLevel: a level whose calls can be recorded. Static, alive as long as the process; made by LMT_TRACE_LEVEL_INIT. Border
 * struct: append only.
 * @gate: one bit for each open recorder of the level; lmt_trace_is_on() is how to look at it
 * @name: what Header.level says
 * @own: the core's
 */
typedef struct
{
  guint32 struct_size;
  guint32 gate;
  const char *name;
  const LmtTraceCall *calls;
  guint32 n_calls;
  guint32 reserved;
  gpointer own;
} LmtTraceLevel;

#define LMT_TRACE_LEVEL_INIT(name_, calls_, n_calls_)                                                                            \
  {                                                                                                                              \
    sizeof (LmtTraceLevel), 0, name_, calls_, n_calls_, 0, NULL                                                                  \
  }

/* The gate: does anybody record this level? One relaxed atomic load. */
static inline gboolean
lmt_trace_is_on (const LmtTraceLevel *level)
{
  return __atomic_load_n (&level->gate, __ATOMIC_RELAXED) != 0;
}

/* The same as a function, for languages without C headers. */
gboolean lmt_trace_level_is_on (const LmtTraceLevel *level);

typedef enum
{
  LMT_RECORDER_BLOCK = 1 << 0, /* a full ring makes the caller wait instead of dropping the call */
} LmtRecorderFlags;

/**
 * LmtRecorderParams: zeroed but for struct_size and path is a sensible start.
 * @path: a file, or `-` for stdout; overwritten. `.zst` and `.gz` compress: one frame (member) per 4 MiB or second, so that a
 *   killed program's file decodes up to the last whole one
 * @flags: LmtRecorderFlags
 * @schema: trace_schema_version of the header, given to LmtTraceCall.encode; 0: 1
 * @buffer_bytes: ring of each thread, rounded up to a power of two, 64 KiB at least; 0: 1 MiB. A call larger than half of it is
 *   dropped
 * @rotate_bytes: once a file has this many bytes the next one is begun: PATH.1, PATH.2, … each with its own header, times going
 *   on from the first; 0: never
 * @clock: (nullable): NULL: CLOCK_MONOTONIC and CLOCK_REALTIME. Else both times of a call come from it, t_wall =
 *   t_wall_start + t_mono. Must live until close
 * @t_mono_start, @t_wall_start: of the header, with @clock: seconds; @has_start 0: what the clock says, for both
 * @level_meta: (nullable): an encoded map for the header, or empty
 * @inputs: (nullable): names up to NULL that must not be overwritten, compared by device and inode
 *
 * With SOURCE_DATE_EPOCH in the environment both start times are it, and t_wall = it + t_mono.
 */
typedef struct
{
  guint32 struct_size;
  guint32 flags;
  const char *path;
  guint32 schema;
  guint32 has_start;
  guint64 buffer_bytes;
  guint64 rotate_bytes;
  const LmtClock *clock;
  double t_mono_start;
  double t_wall_start;
  LmtSpan level_meta;
  const char *const *inputs;
} LmtRecorderParams;

/**
 * LmtRecorderStats: readable while running, from any thread.
 * @records: written; @bytes: of the files, headers included, uncompressed; @file_bytes: as written to the disk
 * @dropped: calls that found their ring full or were larger than it may hold
 * @encode_errors: calls whose arguments could not be encoded
 * @write_errors: records that were encoded but not written, because a write failed: recording ended there
 * @files: opened so far (rotation); @threads: that published so far; @waits: calls that had to wait (%LMT_RECORDER_BLOCK)
 */
typedef struct
{
  guint32 struct_size;
  guint32 files;
  guint64 records;
  guint64 bytes;
  guint64 file_bytes;
  guint64 dropped;
  guint64 encode_errors;
  guint64 write_errors;
  guint64 threads;
  guint64 waits;
} LmtRecorderStats;

/**
 * lmt_recorder_new:
 * @level: the level whose calls are recorded
 *
 * Opens the file, starts the drain thread, opens the gate. At most 32 recorders are open at a time in a process, each with its
 * own bit and rings: closing one leaves the others.
 * Returns: (transfer full): NULL: @error IO (`path: cannot open for writing: …`), OPTION (a bad table, schema or path)
 */
LmtRecorder *lmt_recorder_new (LmtTraceLevel *level, const LmtRecorderParams *params, GError **error);

/**
 * lmt_recorder_attach:
 * @config_json: what Header.sm_config_json says; @digest: (nullable): NULL: SHA-256 of it
 *
 * Writes the header at once. Without it the header is written before the first record with an empty configuration; exactly once
 * in either case: attaching later, or again, is ignored (TRUE). FALSE: the header could not be written.
 */
gboolean lmt_recorder_attach (LmtRecorder *recorder, const char *config_json, const char *digest, GError **error);

/* Waits until everything that was published before is written (compressed files: its frame is ended). FALSE: a write failed. */
gboolean lmt_recorder_flush (LmtRecorder *recorder, GError **error);

void lmt_recorder_get_stats (LmtRecorder *recorder, LmtRecorderStats *stats);
/* `3 records, 812 bytes; 0 dropped, 0 encode errors, 0 write errors` (transfer full) */
char *lmt_recorder_describe (LmtRecorder *recorder);
const char *lmt_recorder_get_path (LmtRecorder *recorder); /* (transfer none): of the first file */
/* What the header says of the start, seconds. */
void lmt_recorder_get_start (LmtRecorder *recorder, double *t_mono_start, double *t_wall_start);

/**
 * lmt_recorder_close: gate off, drains, writes the header if there is none, fsyncs.
 *
 * What was published before is in the file; calls that run at the same time may or may not be. Again is harmless and gives the
 * same answer. FALSE: the first error of writing; the file then ends with its last whole frame.
 * Of `-`, a reader that leaves is no error: lmt_output_stdout_closed() tells.
 * In a child after fork: frees what is the child's and touches no file.
 */
gboolean lmt_recorder_close (LmtRecorder *recorder, GError **error);
void lmt_recorder_free (LmtRecorder *recorder); /* closes; (nullable) */

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LmtRecorder, lmt_recorder_free)

/* -------- publishing: on the calling thread -------- */

/**
 * lmt_recorder_publish:
 * @call: index in level->calls
 * @copy: @len bytes, copied now; what they mean is LmtTraceCall.encode's business
 *
 * Threads: any. Not from signal handlers. Nothing happens when nobody records.
 */
void lmt_recorder_publish (LmtTraceLevel *level, guint32 call, gconstpointer copy, gsize len);

/**
 * lmt_recorder_begin, lmt_recorder_commit: the same without a detour: @bytes bytes in the ring (aligned to 8), to be filled, then
 * @used of them are published (0 … @bytes). NULL: nobody records, or dropped and counted: no commit then. Clocks are read at
 * begin. One at a time on a thread; a begin that is not committed leaves nothing.
 */
gpointer lmt_recorder_begin (LmtTraceLevel *level, guint32 call, gsize bytes);
void lmt_recorder_commit (LmtTraceLevel *level, gsize used);

/**
 * LmtTraceTime: both clocks, ns. lmt_recorder_get_time() reads those of a recorder; lmt_recorder_publish_at() publishes with
 * times taken before, so that several records bear the same.
 */
typedef struct
{
  gint64 mono_ns;
  gint64 wall_ns;
} LmtTraceTime;
/* A time in ns as the file has it: the double nearest to it (ns as one double are 256 apart today). */
static inline double
lmt_trace_seconds (gint64 ns)
{
  return (double)(ns / 1000000000) + (double)(ns % 1000000000) / 1e9;
}

void lmt_recorder_get_time (LmtRecorder *recorder, LmtTraceTime *time);
void lmt_recorder_publish_at (LmtTraceLevel *level, guint32 call, const LmtTraceTime *time, gconstpointer copy, gsize len);

typedef enum
{
  LMT_TRACE_NIL = 0,
  LMT_TRACE_BOOL, /* u: 0 or 1 */
  LMT_TRACE_INT,  /* i */
  LMT_TRACE_UINT, /* u */
  LMT_TRACE_DOUBLE,
  LMT_TRACE_STR, /* data, len: UTF-8 */
  LMT_TRACE_BIN, /* data, len */
  LMT_TRACE_RAW, /* data, len: one value in msgpack */
} LmtTraceKind;

/* LmtTraceValue: one argument. Array entry: never grows. */
typedef struct
{
  guint32 kind; /* LmtTraceKind */
  guint32 reserved;
  union
  {
    guint64 u;
    gint64 i;
    double d;
    gconstpointer data;
  } v;
  gsize len;
} LmtTraceValue;

/**
 * lmt_recorder_publish_values: for a call without `encode`: its `arguments` with these values, in that order
 */
void lmt_recorder_publish_values (LmtTraceLevel *level, guint32 call, const LmtTraceValue *values, guint32 n);

G_END_DECLS
