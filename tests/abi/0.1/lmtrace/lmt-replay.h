/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "lmt-level.h"
#include "lmt-reader.h"
#include "lmt-registry.h"
#include "lmt-select.h"
#include "lmt-stats.h"

G_BEGIN_DECLS

/**
 * SECTION: the loop over the records of one file. Threads: the one that runs it, unless a function says any.
 *
 * Since: 0.1
 */

/**
 * LmtReplay: core's loop over one file: pace, dispatch, count. Knows a level only by its table.
 */
#define LMT_TYPE_REPLAY (lmt_replay_get_type ())
G_DECLARE_FINAL_TYPE (LmtReplay, lmt_replay, LMT, REPLAY, GObject)

/**
 * LmtReplaySink: told of each record (--verbose, --jsonl-out). Called on the loop's thread; NULL costs nothing.
 * A record whose call goes on is told when its completion is known or the drain ended . With in_order it is told
 * when the call returns, with the completion if that is known by then: always so in settled runs. Nothing is held back for
 * others.
 */
typedef struct
{
  guint64 number;   /* i of [i/N]: each copy of a record counts */
  LmtSpan qualname; /* alive during the call */
  double t_mono;
  guint32 status;
  gint64 call_ns;
  gint64 lag_ns;
  gint64 done_ns; /* -1: the call has no completion */
  guint64 bytes;
  const char *error;
  guint32 missing_argument;
} LmtReplayLine;
typedef void (*LmtReplaySinkFunc) (const LmtReplayLine *line, gpointer user_data);

typedef struct
{
  double speed; /* 0: no pacing */
  gint64 max_gap_ns;
  guint64 limit;
  guint64 loops;
  gboolean in_order; /* sink lines strictly in record order */
  LmtSelect *select; /* (nullable) borrowed */
  const LmtClock *clock;
  const volatile gint *interrupts;
  gint64 max_lag_ns;
  guint64 copies;       /* of each record, one after another at its time; 0 counts as 1 */
  gboolean key_offset;  /* each copy is a tenant of its own */
  guint64 first_tenant; /* number of the first copy's */
  gboolean close_pairs;
} LmtReplayPlan;

/**
 * LmtOpStats: figures of one qualname, in order of first appearance (the report sorts).
 */
typedef struct
{
  char *qualname;
  gint handler; /* -1: no handler: skipped only */
  guint64 status[LMT_N_STATUS];
  guint64 missing_argument;
  guint64 bytes;
  LmtStats *call; /* of ok records */
  LmtStats *done; /* completion, of ok records that have one */
  LmtStats *lag;
} LmtOpStats;

typedef struct
{
  guint64 records; /* each copy counts; dispatched or skipped; after selection */
  guint64 status[LMT_N_STATUS];
  guint64 missing_argument;
  guint64 left_out;     /* by the selection */
  guint64 malformed;    /* frames that are no record, of all files so far; complete before the level's finish() is called */
  guint64 not_reached;  /* after an interrupt, where known */
  guint64 late;         /* records with lag above 1 ms */
  guint64 long_waits;   /* over an hour, announced once */
  guint64 pairs_closed; /* by --close-pairs */
  gint64 duration_ns;
  gint64 origin_ns;
  double recorded_span_s;
  gboolean interrupted;
  gboolean hit_limit;
  LmtStats *lag;
} LmtReplayTotals;

/**
 * LmtReplaySource: records that don't come from one reader: several files merged. Numbers count from 1 in the order given;
 * offsets are those in the record's own file. @next: as lmt_reader_next(). @malformed: frames that are no record, so far.
 */
typedef struct
{
  guint32 struct_size;
  guint32 can_rewind; /* from files: may be read on after an interrupt, to count what was not reached */
  gpointer data;
  LmtReadResult (*next) (gpointer data, LmtRecord *record);
  gboolean (*finish) (gpointer data, GError **error);
  gboolean (*rewind) (gpointer data, GError **error);
  guint64 (*malformed) (gpointer data);
} LmtReplaySource;

LmtReplay *lmt_replay_new (LmtRegistry *registry, const LmtLevelOps *level);
const LmtLevelOps *lmt_replay_get_level (LmtReplay *replay);
void lmt_replay_set_sink (LmtReplay *replay, LmtReplaySinkFunc func, gpointer user_data);
/* In place of the reader given to lmt_replay_run(), which then stands for progress only. Borrowed until the next run is over. */
void lmt_replay_set_source (LmtReplay *replay, const LmtReplaySource *source);
/* At most ten times a second, and at once when a signal came. */
typedef void (*LmtReplayProgressFunc) (LmtReplay *replay, LmtReader *reader, guint64 done, gint64 lag_ns, gpointer user_data);
void lmt_replay_set_progress (LmtReplay *replay, LmtReplayProgressFunc func, gpointer user_data);
/* For levels that sleep in wait(): shows progress if it is time. Costs a look at the clock. */
void lmt_replay_tick (LmtReplay *replay);
/* Told of every fault of a record (skipped: once per qualname; undecodable, failed, mismatch). @fault: number and offset are the
 * record's in its file; @error: (nullable): what the handler said. */
typedef void (*LmtReplayFaultFunc) (guint32 status, const LmtFault *fault, const char *error, gpointer user_data);
void lmt_replay_set_fault_func (LmtReplay *replay, LmtReplayFaultFunc func, gpointer user_data);

/**
 * lmt_replay_run: replays one file whose header was read: wait, select, call, then the level's finish(). The session was
 * configured and started by the caller, who frees it. May be called again for the next file with its own session: figures add up,
 * the origin of pacing and the numbers begin anew. Rounds: --loop N goes through the file N times; numbers and recorded time go
 * on. Copies: each of a record's has a number of its own; the limit counts records. Interrupts: looked at before each record; the
 * rest of a file that can be rewound is counted, not replayed, until the second one. Threads: the caller's. Cost per record: no
 * allocation once each qualname was met; two looks at the clock if the handler gives no times, else one. Errors: only a read
 * error or a rewind that failed; what a record does is in the figures.
 */
gboolean lmt_replay_run (LmtReplay *replay, LmtReader *reader, gpointer session, const LmtReplayPlan *plan, GError **error);

/* For levels: the call of record @number (as the handler got it) ended. @status may turn ok into failed or mismatch. Loop's
 * thread only. May come from inside the handler's call, which then sets LmtOutcome.pending all the same: that is how a settled
 * run gives its times. */
void lmt_replay_complete (LmtReplay *replay, guint64 number, gint64 end_ns, guint32 status, guint64 bytes, const char *error);
/* For levels: a warning with a kind; ten are shown, the rest counted. */
void lmt_replay_message (LmtReplay *replay, const char *kind, const char *text);
void lmt_replay_set_warnings (LmtReplay *replay, LmtWarnings *warnings);

guint lmt_replay_get_n_ops (LmtReplay *replay);
LmtOpStats *lmt_replay_get_op (LmtReplay *replay, guint i);
const LmtReplayTotals *lmt_replay_get_totals (LmtReplay *replay);

G_END_DECLS
