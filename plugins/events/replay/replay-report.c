// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "replay.h"

/* The twelve rows of the reference, in its order and spelling (cli.md 4). */
LmtReport *
replay_report_new (ReplayFeed *feed, const ReplayCounts *counts, double duration_s)
{
  LmtReport *report = lmt_report_new ("Events Replay Result", LMT_REPORT_WIDTH);
  LmtSection *section = lmt_report_add_section (report, "overall", "Overall", TRUE);
  const struct
  {
    const char *key, *label;
    guint64 value;
  } rows[] = {
    { "files", "Files", events_merge_n_files (replay_feed_get_merge (feed)) },
    { "servers", "Servers", counts->servers },
    { "records", "Records", counts->records },
    { "batches", "Batches delivered", counts->batches },
    { "applied", "Batches applied", counts->applied },
    { "duplicates", "Batches duplicate", counts->duplicates },
    { "stale", "Batches stale", counts->stale },
    { "starts", "Start marks", counts->starts },
    { "stops", "Stop marks", counts->stops },
    { "ended", "Streams cut without stop", counts->ended },
    { "skipped", "Records skipped", counts->skipped },
  };
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    lmt_section_add_int (section, rows[i].key, rows[i].label, (gint64)rows[i].value);
  lmt_section_add_rounded (section, "duration", "Replay duration (s)", duration_s);
  return report;
}

/* -------- what a real run adds -------- */

static void
add_int (LmtSection *section, const char *key, const char *label, guint64 value)
{
  lmt_section_add_int (section, key, label, (gint64)value);
}

/* R9: only where the answers differ from what was predicted. */
static void
add_prediction (LmtReport *report, const ReplayOutcome *outcome)
{
  const ReplayComparison *comparison = &outcome->comparison;
  gboolean differs = comparison->mismatches > 0;
  LmtSection *section = lmt_report_add_section (report, "prediction", "Prediction", differs);
  lmt_section_add_string (section, "version", "Coordinator version", comparison->compat == EVENTS_COMPAT_056 ? "0.5.6" : "0.5.7");
  add_int (section, "applied", "Batches applied", comparison->predicted.applied);
  add_int (section, "duplicates", "Batches duplicate", comparison->predicted.duplicates);
  add_int (section, "stale", "Batches stale", comparison->predicted.stale);
  add_int (section, "replies", "Replies compared", comparison->replies);
  add_int (section, "mismatches", "Replies that differ", comparison->mismatches);
  if (differs)
    lmt_report_add_foot (report, comparison->first);
}

static void
add_pacing (LmtReport *report, const ReplayRun *run, const ReplayOutcome *outcome)
{
  gboolean paced = outcome->lag != NULL;
  double seconds = (double)outcome->duration_ns / 1e9;
  LmtSection *section = lmt_report_add_section (report, "pacing", "Pacing", paced && run->config->compat == NULL);
  lmt_section_add_double (section, "speed", "Speed asked for", run->config->speed);
  if (paced)
    {
      lmt_section_add_double (section, "achieved", "Speed achieved",
                              seconds > 0 ? (double)outcome->recorded_ns / 1e9 / seconds : 0.0);
      lmt_section_add_rounded (section, "lag_p50_ms", "Lag p50 (ms)",
                               (double)lmt_stats_percentile (outcome->lag, 500, LMT_RANK_NEAREST) / 1e6);
      lmt_section_add_rounded (section, "lag_p99_ms", "Lag p99 (ms)",
                               (double)lmt_stats_percentile (outcome->lag, 990, LMT_RANK_NEAREST) / 1e6);
      lmt_section_add_rounded (section, "lag_max_ms", "Lag max (ms)", (double)lmt_stats_max (outcome->lag) / 1e6);
    }
  lmt_section_add_double (section, "batches_per_s", "Batches per second",
                          seconds > 0 ? (double)outcome->counts.batches / seconds : 0.0);
}

/* Rows that are there only if something is to be said. */
static void
add_trouble (LmtReport *report, const ReplayRun *run, const ReplayOutcome *outcome)
{
  const struct
  {
    const char *key, *label;
    guint64 value;
  } rows[] = {
    { "calls", "Calls made", 0 },
    { "retried", "Calls repeated", outcome->retried },
    { "unclear", "Replies with unclear counts", outcome->unclear },
    { "unaddressable", "Calls no path could hold", outcome->unaddressable },
    { "left_out", "Records left out by selection", replay_feed_get_left_out (run->feed) },
    { "bad", "Bad records left out", outcome->left_out_bad + outcome->unreadable },
    { "resumed_over", "Records sent by an earlier run", outcome->resumed_over },
    { "dropped", "Instances the coordinator dropped", outcome->dropped },
    { "heartbeats_failed", "Heartbeats without success", outcome->heartbeats_failed },
  };
  gboolean any = FALSE;
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    any = any || rows[i].value > 0;
  LmtSection *section = lmt_report_add_section (report, "delivery", "Delivery", any && run->config->compat == NULL);
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    if (i == 0 || rows[i].value > 0 || run->config->compat != NULL || !any)
      add_int (section, rows[i].key, rows[i].label, i == 0 ? outcome->calls : rows[i].value);
  add_int (section, "heartbeats", "Heartbeats sent", outcome->heartbeats);
  lmt_section_add_size (section, "body_bytes", "Bytes of bodies", outcome->bytes);
}

/* R16. */
static void
add_place (LmtReport *report, const ReplayRun *run, const ReplayOutcome *outcome)
{
  LmtSection *section = lmt_report_add_section (report, "stopped", "Stopped", TRUE);
  lmt_section_add_string (section, "why", "Reason",
                          outcome->failure == NULL ? "a signal"
                          : outcome->kafka         ? "a call failed, or a record was not delivered"
                                                   : "the coordinator failed a call");
  if (outcome->has_acked)
    {
      const EventsMergeFile *file = events_merge_file (replay_feed_get_merge (run->feed), outcome->acked_file);
      lmt_section_add_string (section, "file", "Last acknowledged: file", file->shown);
      add_int (section, "record", "Record", outcome->acked_number);
      add_int (section, "offset", "Offset", outcome->acked_offset);
      if (outcome->acked_instance != NULL)
        lmt_section_add_string (section, "instance", "Instance", outcome->acked_instance);
      if (outcome->acked_seq > 0)
        add_int (section, "seq", "Seq", (guint64)outcome->acked_seq);
    }
  else
    lmt_section_add_string (section, "file", "Last acknowledged: file", "none");
  guint64 total = run->survey->records * replay_feed_get_rounds (run->feed);
  guint64 done = outcome->counts.records + outcome->resumed_over + outcome->left_out_bad;
  add_int (section, "not_sent", "Records not acknowledged", total > done ? total - done : 0);
  if (outcome->abandoned > 0)
    add_int (section, "abandoned", "Of them on their way, unclear", outcome->abandoned);
  if (outcome->failure != NULL)
    lmt_report_add_foot (report, outcome->failure);
}

gboolean
replay_report_outcome (const ReplayRun *run, const ReplayOutcome *outcome, int exit_code, GError **error)
{
  gboolean partial = outcome->failure != NULL || outcome->interrupted;
  g_autoptr (LmtReport) report = replay_report_new (run->feed, &outcome->counts, (double)outcome->duration_ns / 1e9);
  if (partial)
    add_place (report, run, outcome);
  if (run->config->compat == NULL || lmt_output_get_format (run->context->output) != LMT_FORMAT_TEXT)
    {
      add_prediction (report, outcome);
      add_pacing (report, run, outcome);
      add_trouble (report, run, outcome);
    }
  if (outcome->kafka && run->config->compat == NULL)
    lmt_report_add_foot (report, "Kafka gives no counts: applied, duplicate and stale are as predicted");
  return lmt_output_report (run->context->output, report, NULL, partial, exit_code, error);
}
