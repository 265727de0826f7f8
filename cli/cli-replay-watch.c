/* SPDX-License-Identifier: Apache-2.0 */
#include "cli-replay.h"

#include <stdio.h>
#include <string.h>

/* Sorting the lags for a p99 takes milliseconds: seldom, or the figure makes itself worse. */
#define P99_PERIOD_NS (2 * G_GINT64_CONSTANT (1000000000))
#define DEFAULT_INTERVAL_NS (10 * G_GINT64_CONSTANT (1000000000))

#define FLUSH_BYTES 32768

/* -------- lines per record -------- */

/* A line a call of write() would be most of the run's time: they go out together, ten times a second at the latest. */
static void
flush_verbose (ReplayRun *run)
{
  if (run->verbose_lines == NULL || run->verbose_lines->len == 0)
    return;
  /* A reader that went away (`| head`) wants no more lines; the replay goes on. */
  if (!run->stdout_gone && !lmt_output_stdout (run->verbose_lines->str, (gssize)run->verbose_lines->len, NULL))
    run->stdout_gone = TRUE;
  g_string_truncate (run->verbose_lines, 0);
}

static void
on_line (const LmtReplayLine *loop_line, gpointer data)
{
  ReplayRun *run = data;
  CliReplayLine line;

  cli_replay_line_from_loop (&line, loop_line);
  line.file = run->n_runs > 1 ? run->index + 1 : 0;
  if (run->verbose_lines != NULL)
    {
      cli_replay_append_verbose (run->verbose_lines, &line, run->n_total, run->compat);
      if (run->verbose_lines->len >= FLUSH_BYTES)
        flush_verbose (run);
    }
  if (run->places->jsonl.file != NULL)
    {
      const LmtLevelOps *level = run->prepared->level;
      line.mark = level->mark != NULL ? level->mark (run->session) : NULL;
      g_string_truncate (run->line, 0);
      cli_replay_append_jsonl (run->line, &line, run->compat);
      replay_stream_write (&run->places->jsonl, run->line->str, run->line->len);
    }
}

/* -------- faults -------- */

static void
warn_fault (ReplayRun *run, const char *path, const char *kind, const LmtFault *fault, const char *error)
{
  g_autofree char *text = lmt_fault_to_string (fault);
  g_autofree char *line = error != NULL && fault->reason == NULL ? g_strdup_printf ("%s: %s: %s", path, text, error)
                                                                 : g_strdup_printf ("%s: %s", path, text);
  lmt_warnings_add (run->context->warnings, kind, line);
}

static void
on_record_fault (guint32 status, const LmtFault *fault, const char *error, gpointer data)
{
  ReplayRun *run = data;
  LmtFault placed = *fault;
  const char *path = run->merge != NULL ? replay_merge_get_place (run->merge, &placed.number) : run->file->shown;
  warn_fault (run, path, lmt_status_word (status), &placed, error);
}

static void
on_reader_fault (const LmtFault *fault, gpointer data)
{
  ReplayFile *file = data;
  ReplayRun *run = file->run;
  /* An interrupt ends a pipe in the middle of a frame: that is no damage. */
  if (lmt_reader_is_seekable (file->reader) || g_atomic_int_get (run->context->interrupts) == 0)
    warn_fault (run, file->shown, "malformed", fault, NULL);
}

/* -------- meanwhile -------- */

static void
show_interim_table (ReplayRun *run)
{
  CliReplayResult result;
  replay_result_init (&result, run);
  g_autoptr (LmtReport) report = cli_replay_report (&result);
  g_autofree char *text = lmt_report_to_text (report);
  fputs (text, stderr);
  fflush (stderr);
  replay_result_clear (&result);
}

static guint64
count_errors (const LmtReplayTotals *totals)
{
  return totals->status[LMT_STATUS_FAILED] + totals->status[LMT_STATUS_MISMATCH] + totals->status[LMT_STATUS_UNDECODABLE];
}

static gint64
lag_p99 (ReplayRun *run, gint64 now)
{
  LmtStats *lag = lmt_replay_get_totals (run->replay)->lag;
  if (lag != NULL && now >= run->p99_next_ns)
    {
      run->lag_p99_ns = lmt_stats_percentile (lag, 990, LMT_RANK_NEAREST);
      run->p99_next_ns = now + P99_PERIOD_NS;
    }
  return run->lag_p99_ns;
}

static void
draw_progress (ReplayRun *run, LmtReader *reader, guint64 done, gint64 lag_ns, gint64 now)
{
  const LmtLevelOps *level = run->prepared->level;
  char figure[64] = "";
  CliProgressState state = {
    .done = done,
    .total = run->n_total,
    .position = lmt_reader_get_position (reader),
    .size = lmt_reader_get_size (reader),
    .lag_ns = run->config->speed > 0 ? lag_ns : -1,
    .errors = count_errors (lmt_replay_get_totals (run->replay)),
    .figure = figure,
    .eta_s = -1,
  };
  if (state.lag_ns >= 0)
    state.lag_p99_ns = lag_p99 (run, now);
  if (level->progress != NULL)
    level->progress (run->session, figure);
  if (run->config->speed > 0 && run->file->span_s > 0 && run->merge == NULL && run->config->max_gap_ns == 0
      && run->config->loop == 1)
    state.eta_s = MAX (0, (run->file->span_s - lmt_reader_get_stats (reader)->last_time_s) / run->config->speed);
  cli_progress_draw (run->progress, &state);
}

static void
write_stats (ReplayRun *run, guint64 done, gint64 lag_ns, gint64 now)
{
  const LmtReplayTotals *totals = lmt_replay_get_totals (run->replay);
  g_autoptr (GString) out = g_string_new (NULL);
  LmtJsonWriter *json = lmt_json_writer_new (out, LMT_JSON_STYLE_SPACED);

  lmt_json_writer_begin_object (json);
  lmt_json_writer_key (json, "elapsed_s");
  lmt_json_writer_double (json, (double)(now - run->began_ns) / 1e9);
  lmt_json_writer_path (json, "file", run->file->path);
  lmt_json_writer_key (json, "n");
  lmt_json_writer_uint (json, done);
  lmt_json_writer_key (json, "total");
  if (run->n_total > 0)
    lmt_json_writer_uint (json, run->n_total);
  else
    lmt_json_writer_null (json);
  for (guint i = 0; i < LMT_N_STATUS; i++)
    {
      lmt_json_writer_key (json, lmt_status_word (i));
      lmt_json_writer_uint (json, totals->status[i]);
    }
  lmt_json_writer_key (json, "lag_ms");
  lmt_json_writer_double (json, (double)lag_ns / 1e6);
  lmt_json_writer_key (json, "lag_p99_ms");
  lmt_json_writer_double (json, (double)lag_p99 (run, now) / 1e6);
  lmt_json_writer_end_object (json);
  lmt_json_writer_free (json);
  g_string_append_c (out, '\n');
  replay_stream_write (&run->places->stats, out->str, out->len);
  replay_stream_flush (&run->places->stats);
}

static void
on_progress (LmtReplay *replay, LmtReader *reader, guint64 done, gint64 lag_ns, gpointer data)
{
  ReplayRun *run = data;
  gint64 now = lmt_clock_now (run->env.clock);

  if (cli_progress_is_due (run->progress))
    draw_progress (run, reader, done, lag_ns, now);
  if (run->context->table_requests != NULL && *run->context->table_requests != run->tables_shown)
    {
      run->tables_shown = *run->context->table_requests;
      show_interim_table (run);
    }
  if (run->places->stats.file != NULL && now >= run->stats_next_ns)
    {
      gint64 interval = run->config->interval_ns > 0 ? run->config->interval_ns : DEFAULT_INTERVAL_NS;
      while (run->stats_next_ns <= now)
        run->stats_next_ns += interval;
      write_stats (run, done, lag_ns, now);
    }
  /* What was said so far should be readable by whoever follows it. */
  replay_stream_flush (&run->places->jsonl);
  flush_verbose (run);
}

void
replay_watch_attach (ReplayRun *run)
{
  g_autofree char *label = run->merge != NULL ? g_strdup_printf ("replay %u files", run->files->len)
                                              : g_strdup_printf ("replay %s", run->file->shown);
  gint64 interval = run->config->interval_ns;

  run->line = g_string_sized_new (256);
  if (run->config->verbose)
    run->verbose_lines = g_string_sized_new (FLUSH_BYTES + 1024);
  run->began_ns = lmt_clock_now (run->env.clock);
  run->stats_next_ns = run->began_ns + (interval > 0 ? interval : DEFAULT_INTERVAL_NS);
  run->tables_shown = run->context->table_requests != NULL ? *run->context->table_requests : 0;
  run->progress = cli_progress_new (label, run->context->progress, run->context->quiet, interval);
  for (guint i = 0; i < run->files->len; i++)
    {
      ReplayFile *file = run->files->pdata[i];
      file->run = run;
      lmt_reader_set_fault_func (file->reader, on_reader_fault, file);
    }
  lmt_replay_set_fault_func (run->replay, on_record_fault, run);
  lmt_replay_set_progress (run->replay, on_progress, run);
  if (run->config->verbose || run->places->jsonl.file != NULL)
    lmt_replay_set_sink (run->replay, on_line, run);
}

void
replay_watch_detach (ReplayRun *run)
{
  /* The last figures, however short the run was. */
  if (run->places->stats.file != NULL)
    write_stats (run, lmt_replay_get_totals (run->replay)->records, 0, lmt_clock_now (run->env.clock));
  g_clear_pointer (&run->progress, cli_progress_free);
  flush_verbose (run);
  for (guint i = 0; i < run->files->len; i++)
    lmt_reader_set_fault_func (((ReplayFile *)run->files->pdata[i])->reader, NULL, NULL);
}
