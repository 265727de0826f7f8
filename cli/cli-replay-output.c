/* SPDX-License-Identifier: Apache-2.0 */
#include "cli-replay-output.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum
{
  P99_SAMPLES = 100, /* fewer: the p99 is the largest sample */
  P999_SAMPLES = 1000,
};

/* -------- figures -------- */

LmtRank
cli_replay_rank (guint32 compat)
{
  return compat == 56 ? LMT_RANK_FLOOR : LMT_RANK_NEAREST;
}

void
cli_figures_from_stats (CliFigures *figures, LmtStats *stats, LmtRank rank)
{
  *figures = (CliFigures){ 0 };
  if (stats == NULL || lmt_stats_count (stats) == 0)
    return;
  figures->count = lmt_stats_count (stats);
  figures->mean_ms = lmt_stats_mean (stats) / 1e6;
  figures->p50_ms = (double)lmt_stats_percentile (stats, 500, rank) / 1e6;
  figures->p90_ms = (double)lmt_stats_percentile (stats, 900, rank) / 1e6;
  figures->p99_ms = (double)lmt_stats_percentile (stats, 990, rank) / 1e6;
  figures->p999_ms = (double)lmt_stats_percentile (stats, 999, rank) / 1e6;
  figures->min_ms = (double)lmt_stats_min (stats) / 1e6;
  figures->max_ms = (double)lmt_stats_max (stats) / 1e6;
  figures->bucketed = !lmt_stats_is_exact (stats);
}

static int
figures_compare (const void *a, const void *b)
{
  const double x = *(const double *)a;
  const double y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Adds without an error, as parts that don't overlap (Shewchuk 1997), and rounds once at the end. */
static double
figures_exact_sum (const double *samples, gsize n)
{
  g_autoptr (GArray) parts = g_array_new (FALSE, FALSE, sizeof (double));

  for (gsize i = 0; i < n; i++)
    {
      double x = samples[i];
      guint kept = 0;
      for (guint k = 0; k < parts->len; k++)
        {
          double y = g_array_index (parts, double, k);
          if (fabs (x) < fabs (y))
            {
              const double swap = x;
              x = y;
              y = swap;
            }
          const double high = x + y;
          const double low = y - (high - x);
          if (low != 0)
            g_array_index (parts, double, kept++) = low;
          x = high;
        }
      g_array_set_size (parts, kept);
      g_array_append_val (parts, x);
    }

  if (parts->len == 0)
    return 0;
  guint k = parts->len - 1;
  double sum = g_array_index (parts, double, k);
  double rest = 0;
  while (k > 0 && rest == 0)
    {
      const double x = sum;
      const double y = g_array_index (parts, double, --k);
      sum = x + y;
      rest = y - (sum - x);
    }
  /* Halfway cases: what lies below decides. */
  if (k > 0 && ((rest < 0 && g_array_index (parts, double, k - 1) < 0) || (rest > 0 && g_array_index (parts, double, k - 1) > 0)))
    {
      const double twice = rest * 2;
      const double moved = sum + twice;
      if (twice == moved - sum)
        sum = moved;
    }
  return sum;
}

void
cli_figures_from_ms (CliFigures *figures, double *samples_ms, gsize n, LmtRank rank)
{
  *figures = (CliFigures){ 0 };
  if (n == 0)
    return;
  qsort (samples_ms, n, sizeof (double), figures_compare);
  figures->count = n;
  figures->mean_ms = figures_exact_sum (samples_ms, n) / (double)n;
  figures->p50_ms = samples_ms[lmt_stats_rank_index (n, 500, rank)];
  figures->p90_ms = samples_ms[lmt_stats_rank_index (n, 900, rank)];
  figures->p99_ms = samples_ms[lmt_stats_rank_index (n, 990, rank)];
  figures->p999_ms = samples_ms[lmt_stats_rank_index (n, 999, rank)];
  figures->min_ms = samples_ms[0];
  figures->max_ms = samples_ms[n - 1];
}

/* -------- from the loop's structs -------- */

void
cli_replay_row_from_op (CliReplayRow *row, const LmtOpStats *op, guint32 compat)
{
  const LmtRank rank = cli_replay_rank (compat);

  *row = (CliReplayRow){ 0 };
  row->qualname = op->qualname;
  memcpy (row->status, op->status, sizeof row->status);
  row->missing_argument = op->missing_argument;
  row->bytes = op->bytes;
  cli_figures_from_stats (&row->call, op->call, rank);
  cli_figures_from_stats (&row->done, op->done, rank);
  cli_figures_from_stats (&row->lag, op->lag, rank);
}

void
cli_replay_result_set_totals (CliReplayResult *result, const LmtReplayTotals *totals)
{
  memcpy (result->status, totals->status, sizeof result->status);
  result->missing_argument = totals->missing_argument;
  result->records = totals->records;
  result->left_out = totals->left_out;
  result->not_reached = totals->not_reached;
  result->pairs_closed = totals->pairs_closed;
  result->late = totals->late;
  result->recorded_span_s = totals->recorded_span_s;
  result->duration_s = (double)totals->duration_ns / 1e9;
  result->malformed = totals->malformed;
  result->interrupted = totals->interrupted;
  result->partial = result->partial || totals->interrupted;
  cli_figures_from_stats (&result->lag, totals->lag, cli_replay_rank (result->compat));
}

/* -------- counts, seen as lmtrace or as LMCache -------- */

typedef struct
{
  guint64 replayed;
  guint64 skipped;
  guint64 failed;
} ReplayCounts;

static ReplayCounts
replay_counts (const guint64 status[LMT_N_STATUS], guint64 missing_argument, guint32 compat)
{
  ReplayCounts counts = {
    .replayed = status[LMT_STATUS_OK],
    .skipped = status[LMT_STATUS_SKIPPED],
    .failed = status[LMT_STATUS_FAILED],
  };
  if (compat != 0)
    {
      counts.replayed += status[LMT_STATUS_MISMATCH];
      counts.skipped += status[LMT_STATUS_UNDECODABLE] - missing_argument;
      counts.failed += missing_argument;
    }
  return counts;
}

/* Was the call made at least once? Others have no row in the table. */
static gboolean
replay_row_dispatched (const CliReplayRow *row, guint32 compat)
{
  const ReplayCounts counts = replay_counts (row->status, row->missing_argument, compat);
  return counts.replayed + counts.failed + row->status[LMT_STATUS_MISMATCH] > 0;
}

static gboolean
replay_row_shown_in_files (const CliReplayRow *row, guint32 compat)
{
  return compat == 0 || replay_row_dispatched (row, compat);
}

static int
replay_compare_rows (gconstpointer a, gconstpointer b)
{
  return strcmp ((*(const CliReplayRow *const *)a)->qualname, (*(const CliReplayRow *const *)b)->qualname);
}

static GPtrArray *
replay_sorted_rows (const CliReplayResult *result)
{
  GPtrArray *const rows = g_ptr_array_new ();
  for (guint i = 0; i < result->n_rows; i++)
    g_ptr_array_add (rows, (gpointer)&result->rows[i]);
  g_ptr_array_sort (rows, replay_compare_rows);
  return rows;
}

/* Last part of a qualname; `read.__enter__` is `read.enter`. (transfer full) */
static char *
replay_short_name (const char *qualname)
{
  const char *const dot = strrchr (qualname, '.');
  const char *const last = dot == NULL ? qualname : dot + 1;
  const gboolean enter = strcmp (last, "__enter__") == 0;

  if (dot == NULL || (!enter && strcmp (last, "__exit__") != 0))
    return g_strdup (last);
  const char *start = dot;
  while (start > qualname && start[-1] != '.')
    start--;
  return g_strdup_printf ("%.*s.%s", (int)(dot - start), start, enter ? "enter" : "exit");
}

/* -------- the table -------- */

static void
replay_add_overall (LmtReport *report, const CliReplayResult *result)
{
  const ReplayCounts counts = replay_counts (result->status, result->missing_argument, result->compat);
  LmtSection *const section = lmt_report_add_section (report, "overall", "Overall", TRUE);

  lmt_section_add_string (section, "level", "Trace level", result->level);
  lmt_section_add_int (section, "replayed", "Records replayed", (gint64)counts.replayed);
  lmt_section_add_int (section, "skipped", "Records skipped", (gint64)counts.skipped);
  lmt_section_add_int (section, "failed", "Records failed", (gint64)counts.failed);
  lmt_section_add_rounded (section, "duration", "Replay duration (s)", result->duration_s);
  if (result->digest_row != NULL)
    lmt_section_add_string (section, "digest", "Config digest", result->digest_row);
  if (result->compat != 0)
    return;

  const struct
  {
    const char *key;
    guint64 value;
  } more[] = {
    { "undecodable", result->status[LMT_STATUS_UNDECODABLE] },
    { "mismatch", result->status[LMT_STATUS_MISMATCH] },
    { "malformed", result->malformed },
    { "n", result->records },
    { "left_out", result->left_out },
    { "not_reached", result->not_reached },
  };
  if (result->mark != NULL)
    lmt_section_add_string (section, "mark", "Run with", result->mark);
  lmt_section_add_json (section, "settled", result->settled ? "true" : "false");
  for (guint i = 0; i < G_N_ELEMENTS (more); i++)
    {
      g_autofree char *text = g_strdup_printf ("%" G_GUINT64_FORMAT, more[i].value);
      lmt_section_add_json (section, more[i].key, text);
    }
}

static void
replay_add_op_entry (LmtSection *section, const char *name, const char *what, double value, gboolean thin)
{
  g_autofree char *key = g_strdup_printf ("%s_%s", name, what);
  g_autofree char *label = g_strdup_printf ("%s %s%s", name, what, thin ? "*" : "");
  lmt_section_add_rounded (section, key, label, value);
}

/* TRUE: a percentile is thin. */
static gboolean
replay_add_ops (LmtReport *report, const CliReplayResult *result, GPtrArray *rows)
{
  LmtSection *section = NULL;
  gboolean any_thin = FALSE;

  for (guint i = 0; i < rows->len; i++)
    {
      const CliReplayRow *const row = g_ptr_array_index (rows, i);
      if (!replay_row_dispatched (row, result->compat))
        continue;
      const gboolean thin = result->compat == 0 && row->call.count < P99_SAMPLES;
      const ReplayCounts counts = replay_counts (row->status, row->missing_argument, result->compat);
      g_autofree char *name = replay_short_name (row->qualname);
      g_autofree char *count_key = g_strdup_printf ("%s_count", name);
      g_autofree char *count_label = g_strdup_printf ("%s count", name);
      if (section == NULL)
        section = lmt_report_add_section (report, "ops", "Per-Op Latency (ms)", TRUE);
      lmt_section_add_int (section, count_key, count_label, (gint64)counts.replayed);
      replay_add_op_entry (section, name, "mean", row->call.mean_ms, FALSE);
      replay_add_op_entry (section, name, "p50", row->call.p50_ms, FALSE);
      replay_add_op_entry (section, name, "p99", row->call.p99_ms, thin);
      any_thin = any_thin || thin;
    }
  return any_thin;
}

static void
replay_write_figures (LmtJsonWriter *json, const char *key, const CliFigures *figures)
{
  const struct
  {
    const char *key;
    double value;
  } values[] = {
    { "mean_ms", figures->mean_ms }, { "p50_ms", figures->p50_ms }, { "p90_ms", figures->p90_ms }, { "p99_ms", figures->p99_ms },
    { "p999_ms", figures->p999_ms }, { "min_ms", figures->min_ms }, { "max_ms", figures->max_ms },
  };

  lmt_json_writer_key (json, key);
  lmt_json_writer_begin_object (json);
  lmt_json_writer_key (json, "count");
  lmt_json_writer_uint (json, figures->count);
  for (guint i = 0; i < G_N_ELEMENTS (values); i++)
    {
      lmt_json_writer_key (json, values[i].key);
      lmt_json_writer_double (json, values[i].value);
    }
  lmt_json_writer_key (json, "exact");
  lmt_json_writer_bool (json, !figures->bucketed);
  lmt_json_writer_end_object (json);
}

/* `per_op`: everything there is, a list of objects. */
static void
replay_add_per_op (LmtReport *report, GPtrArray *rows)
{
  g_autoptr (GString) text = g_string_new (NULL);
  LmtJsonWriter *const json = lmt_json_writer_new (text, LMT_JSON_STYLE_COMPACT);

  lmt_json_writer_begin_array (json);
  for (guint i = 0; i < rows->len; i++)
    {
      const CliReplayRow *const row = g_ptr_array_index (rows, i);
      lmt_json_writer_begin_object (json);
      lmt_json_writer_key (json, "qualname");
      lmt_json_writer_string (json, row->qualname);
      for (guint s = 0; s < LMT_N_STATUS; s++)
        {
          lmt_json_writer_key (json, lmt_status_word (s));
          lmt_json_writer_uint (json, row->status[s]);
        }
      lmt_json_writer_key (json, "bytes");
      lmt_json_writer_uint (json, row->bytes);
      replay_write_figures (json, "call", &row->call);
      replay_write_figures (json, "done", &row->done);
      replay_write_figures (json, "lag", &row->lag);
      lmt_json_writer_end_object (json);
    }
  lmt_json_writer_end_array (json);
  lmt_json_writer_free (json);

  LmtSection *const section = lmt_report_add_section (report, NULL, NULL, FALSE);
  lmt_section_add_json (section, "per_op", text->str);
}

static double
replay_late_share (const CliReplayResult *result)
{
  return result->lag.count == 0 ? 0 : (double)result->late / (double)result->lag.count;
}

static const char *
replay_clock_word (const CliReplayResult *result)
{
  return result->clock_word != NULL ? result->clock_word : result->settled ? "settled" : "real";
}

/* TRUE: a percentile is thin. */
static gboolean
replay_add_pacing (LmtReport *report, const CliReplayResult *result)
{
  LmtSection *const section = lmt_report_add_section (report, "pacing", "Pacing", TRUE);
  const gboolean has_lag = result->lag.count > 0;
  const gboolean thin = has_lag && result->lag.count < P99_SAMPLES;
  char json[32];

  lmt_section_add_string (section, "clock", "Clock", replay_clock_word (result));
  lmt_section_add_rounded (section, "recorded_span_s", "Recorded span (s)", result->recorded_span_s);
  lmt_section_add_double (section, "speed", "Speed", result->speed);
  if (result->copies > 1)
    lmt_section_add_int (section, "copies", "Copies of each record", (gint64)result->copies);
  if (result->with_tenants)
    lmt_section_add_int (section, "first_tenant", "Keys are those of tenants from",
                         (gint64)MIN (result->first_tenant, (guint64)G_MAXINT64));
  if (has_lag)
    {
      lmt_section_add_rounded (section, "lag_p50_ms", "Lag p50 (ms)", result->lag.p50_ms);
      lmt_section_add_rounded (section, "lag_p99_ms", thin ? "Lag p99 (ms)*" : "Lag p99 (ms)", result->lag.p99_ms);
      lmt_section_add_rounded (section, "lag_max_ms", "Lag max (ms)", result->lag.max_ms);
      lmt_section_add_double (section, "late_percent", "Late by over 1 ms (%)", 100.0 * replay_late_share (result));
      lmt_section_add_json (section, "late_share", lmt_json_format_double (replay_late_share (result), json));
    }
  return thin;
}

/* Call time and completion time apart, or waiting for what a call set off would be hidden. TRUE: a percentile is thin. */
static gboolean
replay_add_completion (LmtReport *report, GPtrArray *rows)
{
  LmtSection *section = NULL;
  gboolean any_thin = FALSE;

  for (guint i = 0; i < rows->len; i++)
    {
      const CliReplayRow *const row = g_ptr_array_index (rows, i);
      const CliFigures *const done = &row->done;
      if (done->count == 0)
        continue;
      g_autofree char *name = replay_short_name (row->qualname);
      g_autofree char *key = g_strdup_printf ("%s_count", name);
      g_autofree char *label = g_strdup_printf ("%s count", name);
      if (section == NULL)
        section = lmt_report_add_section (report, "completion", "Completion (ms)", TRUE);
      lmt_section_add_int (section, key, label, (gint64)done->count);
      replay_add_op_entry (section, name, "mean", done->mean_ms, FALSE);
      replay_add_op_entry (section, name, "p50", done->p50_ms, FALSE);
      replay_add_op_entry (section, name, "p99", done->p99_ms, done->count < P99_SAMPLES);
      replay_add_op_entry (section, name, "p99.9", done->p999_ms, done->count < P999_SAMPLES);
      replay_add_op_entry (section, name, "max", done->max_ms, FALSE);
      any_thin = any_thin || done->count < P999_SAMPLES;
    }
  return any_thin;
}

static void
replay_add_status (LmtReport *report, const CliReplayResult *result)
{
  const struct
  {
    const char *key;
    const char *label;
    guint64 value;
  } rows[] = {
    { "undecodable", "Records undecodable", result->status[LMT_STATUS_UNDECODABLE] },
    { "mismatch", "Records mismatch", result->status[LMT_STATUS_MISMATCH] },
    { "malformed", "Frames malformed", result->malformed },
    { "lost_bytes", "Bytes lost to damage", result->lost_bytes },
    { "left_out", "Records left out by selection", result->left_out },
    { "not_reached", "Records not reached", result->not_reached },
    { "pairs_closed", "Pairs ended by --close-pairs", result->pairs_closed },
  };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    if (rows[i].value > 0)
      lmt_section_add_int (lmt_report_ensure_section (report, "status", "Status"), rows[i].key, rows[i].label,
                           (gint64)rows[i].value);
}

LmtReport *
cli_replay_report (const CliReplayResult *result)
{
  g_return_val_if_fail (result != NULL, NULL);

  LmtReport *const report = lmt_report_new (result->title != NULL ? result->title : "Trace Replay Result", LMT_REPORT_WIDTH);
  g_autoptr (GPtrArray) rows = replay_sorted_rows (result);
  replay_add_overall (report, result);
  gboolean thin = replay_add_ops (report, result, rows);
  if (result->compat != 0)
    return report;
  replay_add_per_op (report, rows);
  thin = replay_add_pacing (report, result) || thin;
  thin = replay_add_completion (report, rows) || thin;
  replay_add_status (report, result);
  if (thin)
    lmt_report_add_foot (report, "* fewer samples than the percentile needs");
  if (result->partial)
    lmt_report_add_foot (report, result->interrupted ? "interrupted: the figures are partial"
                                                     : "not all could be read: the figures are partial");
  return report;
}

/* -------- CSV -------- */

static void
replay_csv_number (GString *out, double value)
{
  char text[400];
  g_string_append_c (out, ',');
  g_string_append (out, g_ascii_formatd (text, sizeof text, "%.6f", value));
}

char *
cli_replay_csv (const CliReplayResult *result)
{
  g_return_val_if_fail (result != NULL, NULL);

  GString *const out = g_string_new ("qualname,count,errors,mean_ms,p50_ms,p90_ms,p99_ms,min_ms,max_ms");
  g_autoptr (GPtrArray) rows = replay_sorted_rows (result);
  if (result->compat == 0)
    g_string_append (out, ",skipped,undecodable,mismatch,p999_ms,lag_p99_ms,done_p50_ms,done_p99_ms,bytes");
  const char *const mark = result->compat == 0 ? result->mark : NULL;
  if (mark != NULL)
    g_string_append (out, ",mark");
  g_string_append (out, "\r\n");
  for (guint i = 0; i < rows->len; i++)
    {
      const CliReplayRow *const row = g_ptr_array_index (rows, i);
      if (!replay_row_shown_in_files (row, result->compat))
        continue;
      const ReplayCounts counts = replay_counts (row->status, row->missing_argument, result->compat);
      lmt_csv_append (out, row->qualname);
      g_string_append_printf (out, ",%" G_GUINT64_FORMAT ",%" G_GUINT64_FORMAT, counts.replayed, counts.failed);
      replay_csv_number (out, row->call.mean_ms);
      replay_csv_number (out, row->call.p50_ms);
      replay_csv_number (out, row->call.p90_ms);
      replay_csv_number (out, row->call.p99_ms);
      replay_csv_number (out, row->call.min_ms);
      replay_csv_number (out, row->call.max_ms);
      if (result->compat == 0)
        {
          g_string_append_printf (out, ",%" G_GUINT64_FORMAT ",%" G_GUINT64_FORMAT ",%" G_GUINT64_FORMAT,
                                  row->status[LMT_STATUS_SKIPPED], row->status[LMT_STATUS_UNDECODABLE],
                                  row->status[LMT_STATUS_MISMATCH]);
          replay_csv_number (out, row->call.p999_ms);
          replay_csv_number (out, row->lag.p99_ms);
          replay_csv_number (out, row->done.p50_ms);
          replay_csv_number (out, row->done.p99_ms);
          g_string_append_printf (out, ",%" G_GUINT64_FORMAT, row->bytes);
        }
      if (mark != NULL)
        g_string_append_printf (out, ",%s", mark);
      g_string_append (out, "\r\n");
    }
  return g_string_free (out, FALSE);
}

/* -------- the summary -------- */

static void
replay_write_double (LmtJsonWriter *json, const char *key, double value)
{
  lmt_json_writer_key (json, key);
  lmt_json_writer_double (json, value);
}

static void
replay_write_uint (LmtJsonWriter *json, const char *key, guint64 value)
{
  lmt_json_writer_key (json, key);
  lmt_json_writer_uint (json, value);
}

/* Keys in sorted order, as everywhere in this file. */
static void
replay_write_summary_row (LmtJsonWriter *json, const CliReplayRow *row, guint32 compat)
{
  const ReplayCounts counts = replay_counts (row->status, row->missing_argument, compat);
  const gboolean all = compat == 0;

  lmt_json_writer_key (json, row->qualname);
  lmt_json_writer_begin_object (json);
  if (all)
    replay_write_uint (json, "bytes", row->bytes);
  replay_write_uint (json, "count", counts.replayed);
  if (all)
    {
      replay_write_uint (json, "done_count", row->done.count);
      replay_write_double (json, "done_p50_ms", row->done.p50_ms);
      replay_write_double (json, "done_p99_ms", row->done.p99_ms);
    }
  replay_write_uint (json, "errors", counts.failed);
  if (all)
    replay_write_double (json, "lag_p99_ms", row->lag.p99_ms);
  replay_write_double (json, "max_ms", row->call.max_ms);
  replay_write_double (json, "mean_ms", row->call.mean_ms);
  replay_write_double (json, "min_ms", row->call.min_ms);
  if (all)
    replay_write_uint (json, "mismatch", row->status[LMT_STATUS_MISMATCH]);
  replay_write_double (json, "p50_ms", row->call.p50_ms);
  replay_write_double (json, "p90_ms", row->call.p90_ms);
  if (all)
    replay_write_double (json, "p999_ms", row->call.p999_ms);
  replay_write_double (json, "p99_ms", row->call.p99_ms);
  if (all)
    {
      replay_write_uint (json, "skipped", row->status[LMT_STATUS_SKIPPED]);
      replay_write_uint (json, "undecodable", row->status[LMT_STATUS_UNDECODABLE]);
    }
  lmt_json_writer_end_object (json);
}

static void
replay_write_lag (LmtJsonWriter *json, const CliFigures *lag)
{
  replay_write_figures (json, "lag", lag);
}

static void
replay_write_pacing (LmtJsonWriter *json, const CliReplayResult *result)
{
  lmt_json_writer_key (json, "pacing");
  lmt_json_writer_begin_object (json);
  lmt_json_writer_key (json, "clock");
  lmt_json_writer_string (json, replay_clock_word (result));
  replay_write_double (json, "late_percent", 100.0 * replay_late_share (result));
  replay_write_double (json, "late_share", replay_late_share (result));
  replay_write_double (json, "recorded_span_s", result->recorded_span_s);
  replay_write_double (json, "speed", result->speed);
  lmt_json_writer_end_object (json);
}

static void
replay_write_warning (const char *kind, const char *first_message, guint64 count, gpointer data)
{
  LmtJsonWriter *const json = data;
  lmt_json_writer_begin_object (json);
  lmt_json_writer_key (json, "code");
  lmt_json_writer_string (json, kind);
  lmt_json_writer_key (json, "count");
  lmt_json_writer_uint (json, count);
  lmt_json_writer_key (json, "message");
  lmt_json_writer_string (json, first_message);
  lmt_json_writer_end_object (json);
}

char *
cli_replay_summary_json (const CliReplayResult *result, const LmtJson *extra, const LmtWarnings *warnings)
{
  g_return_val_if_fail (result != NULL, NULL);

  GString *const text = g_string_new (NULL);
  LmtJsonWriter *const json = lmt_json_writer_new (text, LMT_JSON_STYLE_INDENT);
  g_autoptr (GPtrArray) rows = replay_sorted_rows (result);

  lmt_json_writer_begin_object (json);
  replay_write_double (json, "duration_s", result->duration_s);
  if (result->compat == 0)
    replay_write_lag (json, &result->lag);
  lmt_json_writer_key (json, "ops");
  lmt_json_writer_begin_object (json);
  for (guint i = 0; i < rows->len; i++)
    {
      const CliReplayRow *const row = g_ptr_array_index (rows, i);
      if (replay_row_shown_in_files (row, result->compat))
        replay_write_summary_row (json, row, result->compat);
    }
  lmt_json_writer_end_object (json);
  if (result->compat == 0)
    {
      replay_write_pacing (json, result);
      lmt_json_writer_key (json, "schema");
      lmt_json_writer_string (json, "lmtrace/replay-summary/1");
      if (result->mark != NULL)
        {
          lmt_json_writer_key (json, "mark");
          lmt_json_writer_string (json, result->mark);
        }
      for (guint i = 0; extra != NULL && i < lmt_json_get_length (extra); i++)
        {
          lmt_json_writer_key (json, lmt_json_get_member_name (extra, i));
          lmt_json_writer_value (json, lmt_json_get_member_value (extra, i));
        }
      lmt_json_writer_key (json, "warnings");
      lmt_json_writer_begin_array (json);
      lmt_warnings_foreach (warnings, replay_write_warning, json);
      lmt_json_writer_end_array (json);
    }
  lmt_json_writer_end_object (json);
  lmt_json_writer_free (json);
  if (result->compat != 0)
    return g_string_free (text, FALSE);

  /* What the caller added goes to its place. */
  g_autoptr (LmtJson) whole = lmt_json_parse (text->str, (gssize)text->len, NULL);
  g_string_free (text, TRUE);
  g_return_val_if_fail (whole != NULL, NULL);
  return lmt_json_to_text (whole, LMT_JSON_STYLE_INDENT, TRUE);
}

/* -------- one record -------- */

void
cli_replay_line_from_loop (CliReplayLine *line, const LmtReplayLine *loop_line)
{
  *line = (CliReplayLine){
    .number = loop_line->number,
    .qualname = (const char *)loop_line->qualname.data,
    .qualname_len = loop_line->qualname.len,
    .status = loop_line->status,
    .missing_argument = loop_line->missing_argument,
    .latency_ms = (double)loop_line->call_ns / 1e6,
    .t_mono_s = loop_line->t_mono,
    .lag_ms = (double)loop_line->lag_ns / 1e6,
    .done_ms = loop_line->done_ns < 0 ? -1 : (double)loop_line->done_ns / 1e6,
    .bytes = loop_line->bytes,
    .error = loop_line->error,
  };
}

/* LMCache writes what it skipped as failed, and calls without an argument that is missing. */
static gboolean
replay_line_failed (const CliReplayLine *line, guint32 compat)
{
  if (compat == 0)
    return line->status == LMT_STATUS_FAILED;
  return line->status == LMT_STATUS_FAILED || line->status == LMT_STATUS_SKIPPED || line->status == LMT_STATUS_UNDECODABLE;
}

static void
replay_append_double (GString *out, double value)
{
  char text[32];
  g_string_append (out, lmt_json_format_double (value, text));
}

void
cli_replay_append_jsonl (GString *out, const CliReplayLine *line, guint32 compat)
{
  g_string_append (out, "{\"qualname\": \"");
  lmt_json_append_escaped (out, line->qualname, line->qualname_len);
  g_string_append (out, "\", \"latency_ms\": ");
  replay_append_double (out, line->latency_ms);
  g_string_append_printf (out, ", \"failed\": %s", replay_line_failed (line, compat) ? "true" : "false");
  if (compat == 0)
    {
      g_string_append_printf (out, ", \"status\": \"%s\", \"n\": %" G_GUINT64_FORMAT ", \"t_mono_s\": ",
                              lmt_status_word (line->status), line->number);
      replay_append_double (out, line->t_mono_s);
      g_string_append (out, ", \"lag_ms\": ");
      replay_append_double (out, line->lag_ms);
      g_string_append (out, ", \"done_ms\": ");
      replay_append_double (out, line->done_ms < 0 ? NAN : line->done_ms); /* null */
      g_string_append_printf (out, ", \"bytes\": %" G_GUINT64_FORMAT, line->bytes);
      if (line->error != NULL)
        {
          g_string_append (out, ", \"error\": \"");
          lmt_json_append_escaped (out, line->error, strlen (line->error));
          g_string_append_c (out, '"');
        }
      if (line->file > 0)
        g_string_append_printf (out, ", \"file\": %u", line->file);
      if (line->mark != NULL)
        g_string_append_printf (out, ", \"mark\": \"%s\"", line->mark);
    }
  g_string_append (out, "}\n");
}

const char *
cli_replay_status_text (guint32 status, guint32 compat)
{
  switch (status)
    {
    case LMT_STATUS_OK:
      return "OK";
    case LMT_STATUS_SKIPPED:
      return compat != 0 ? "FAIL" : "SKIP";
    case LMT_STATUS_UNDECODABLE:
      return compat != 0 ? "FAIL" : "UNDEC";
    case LMT_STATUS_MISMATCH:
      return compat != 0 ? "OK" : "MISM";
    case LMT_STATUS_FAILED:
    default:
      return "FAIL";
    }
}

void
cli_replay_append_verbose (GString *out, const CliReplayLine *line, guint64 total, guint32 compat)
{
  char number[400];

  g_string_append_printf (out, "  [%" G_GUINT64_FORMAT, line->number);
  if (total > 0)
    g_string_append_printf (out, "/%" G_GUINT64_FORMAT, total);
  g_ascii_formatd (number, sizeof number, "%.3f", line->latency_ms);
  g_string_append_printf (out, "]  %-4s  %8sms  ", cli_replay_status_text (line->status, compat), number);
  g_string_append_len (out, line->qualname, (gssize)line->qualname_len);
  g_string_append_c (out, '\n');
}
