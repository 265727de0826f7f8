/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/**
 * SECTION: what `replay` prints and writes (cli.md 3.3 to 3.7), from plain structs: no loop, no level, no clock in here.
 * cmd-replay.c fills the structs from LmtReplay; the conformance test fills them from fixed latencies.
 *
 * compat (everywhere): 0 = lmtrace's superset, 56 = LMCache 0.5.6, 57 = 0.5.7 (cli.md 8.14). With compat, undecodable counts as
 * skipped, but as failed where an argument is missing altogether; a mismatch counts as replayed.
 */
#include <lmtrace/lmtrace.h>

G_BEGIN_DECLS

/**
 * CliFigures: of one distribution, in ms. All 0 if count is 0.
 */
typedef struct
{
  guint64 count;
  double mean_ms;
  double p50_ms;
  double p90_ms;
  double p99_ms;
  double p999_ms;
  double min_ms;
  double max_ms;
  gboolean bucketed; /* percentiles carry the bucket error of LmtStats */
} CliFigures;

/* The rule of a compat mode: LMT_RANK_FLOOR for 56, else nearest. */
LmtRank cli_replay_rank (guint32 compat);
/* @stats: (nullable): integer ns; printed as ns / 1e6. */
void cli_figures_from_stats (CliFigures *figures, LmtStats *stats, LmtRank rank);
/* Samples that are doubles already, in ms; sorts them. The sum is exact, rounded once. */
void cli_figures_from_ms (CliFigures *figures, double *samples_ms, gsize n, LmtRank rank);

/**
 * CliReplayRow: one qualname.
 */
typedef struct
{
  const char *qualname;
  guint64 status[LMT_N_STATUS];
  guint64 missing_argument; /* how many of the undecodable ones */
  guint64 bytes;
  CliFigures call; /* of ok records */
  CliFigures done; /* completions */
  CliFigures lag;
} CliReplayRow;

/**
 * CliReplayResult: one run.
 * @digest_row: (nullable): value of the row "Config digest"; NULL: no row
 * @recorded_span_s, @speed, @lag, @late, @settled: section Pacing; not with compat
 * @rows: in any order; sorted by name where they are shown
 */
typedef struct
{
  guint32 compat;
  const char *level;
  const char *digest_row;
  double duration_s;
  guint64 status[LMT_N_STATUS];
  guint64 missing_argument;
  guint64 records; /* n: all of the above */
  guint64 malformed;
  guint64 left_out;
  guint64 not_reached;
  guint64 pairs_closed;
  guint64 copies;        /* 0 counts as 1 */
  gboolean with_tenants; /* --key-offset */
  guint64 first_tenant;
  guint64 late;
  double recorded_span_s;
  double speed;
  CliFigures lag;
  gboolean settled;
  const char *mark;       /* (nullable): member of the report, column and member of each line; not with compat */
  const char *clock_word; /* (nullable): row "Clock"; NULL: settled or real */
  const char *title;      /* (nullable): NULL: Trace Replay Result */
  guint64 lost_bytes;     /* stepped over behind a damaged length */
  gboolean partial;
  gboolean interrupted; /* by a signal: why it is partial */
  const CliReplayRow *rows;
  guint n_rows;
} CliReplayResult;

/* Fills status, figures and counts of @row from the loop's figures. Strings stay the loop's. */
void cli_replay_row_from_op (CliReplayRow *row, const LmtOpStats *op, guint32 compat);
/* status, records, late, lag, span, duration of @result from the loop's totals. */
void cli_replay_result_set_totals (CliReplayResult *result, const LmtReplayTotals *totals);

/**
 * cli_replay_report:
 * Returns: (transfer full): title, Overall, Per-Op Latency; without compat also Pacing, Completion (if a call had one), Status
 * (if a row isn't 0) and `per_op` (JSON). The level's own sections come behind, added by the caller with LmtLevelOps.report. The
 * foot line is there if it is needed.
 */
LmtReport *cli_replay_report (const CliReplayResult *result);

/* trace_replay_ops.csv: CR LF. (transfer full) */
char *cli_replay_csv (const CliReplayResult *result);

/**
 * cli_replay_summary_json: trace_replay_summary.json, keys sorted.
 * @extra: (nullable): an object whose members stand beside `duration_s` and `ops` (tiers, trace, …); not with compat
 * @warnings: (nullable): member `warnings`; not with compat
 * Returns: (transfer full)
 */
char *cli_replay_summary_json (const CliReplayResult *result, const LmtJson *extra, const LmtWarnings *warnings);

/**
 * CliReplayLine: one record as it is written. @done_ms below 0: the call has no completion.
 */
typedef struct
{
  guint64 number;
  const char *qualname;
  gsize qualname_len;
  guint32 status;
  guint32 missing_argument;
  double latency_ms;
  double t_mono_s;
  double lag_ms;
  double done_ms;
  guint64 bytes;
  const char *error;
  guint file;       /* from 1, with several FILEs; else 0 */
  const char *mark; /* (nullable): the run's */
} CliReplayLine;

void cli_replay_line_from_loop (CliReplayLine *line, const LmtReplayLine *loop_line);
/* One object and its newline. */
void cli_replay_append_jsonl (GString *out, const CliReplayLine *line, guint32 compat);
/* `  [i/N]  OK      0.326ms  QUALNAME` and its newline; @total 0: not known, `[i]`. */
void cli_replay_append_verbose (GString *out, const CliReplayLine *line, guint64 total, guint32 compat);
/* `OK` `SKIP` `UNDEC` `FAIL` `MISM`; compat: OK or FAIL. */
const char *cli_replay_status_text (guint32 status, guint32 compat);

G_END_DECLS
