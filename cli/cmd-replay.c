/* SPDX-License-Identifier: Apache-2.0 */
#include "cli-replay.h"

#include <string.h>

static const char *const examples[] = {
  "lmtrace replay run.lct --l1-size-gb 8 --eviction-policy LRU",
  "lmtrace replay run.lct --config-from-trace --speed 0 --l2 fs:base_path=/kv",
  "lmtrace replay run.lct.zst --config-from-trace --jsonl-out run.jsonl",
  NULL,
};

static const char more_text[]
    = "The level in FILE's header decides which plugin replays it; that plugin's flags are shown when FILE is named before "
      "--help, or "
      "with --help-all.\n\n"
      "Several FILEs are replayed one after another. Each has its own origin of time, its own session and its own report: one "
      "table per "
      "FILE, one object per FILE in `files` of --format json, trace_replay_ops.csv for the first and trace_replay_ops.2.csv and "
      "so on for "
      "the others (trace_replay_summary.json alike). With --merge they are one replay, ordered by wall time.\n\n"
      "--copies N makes N tenants out of one: at each record's time its call is made N times, and each call counts as a record, "
      "with a number of its own; --limit counts the records of the trace. Without --key-offset all tenants use the same keys. "
      "With it, tenant 0 has the keys as recorded, tenant T the same with another chunk hash (of a storage trace: its first 8 "
      "bytes exclusive-or a number derived from T), so that equal keys stay equal within a tenant and no two tenants share "
      "one. --key-offset=N begins with tenant N: several replays into one storage then keep apart, too.\n\n"
      "--close-pairs ends what the records so far opened, at the end of each round: open reads are left, locks that prefetches "
      "took and nobody gave back are given back, reserved objects are finished. The report counts them.\n\n"
      "A signal (INT, TERM, HUP) ends the run with complete reports marked partial and exit code 130; a second one stops waiting "
      "for "
      "what is in flight. USR1 prints an interim table on stderr.";

static int cmd_replay_run (const LmtCommandContext *context, GError **error);

const LmtCommandOps cmd_replay_ops = {
  .struct_size = sizeof (LmtCommandOps),
  .config_size = sizeof (ReplayConfig),
  .name = "replay",
  .summary = "Replay trace files at their recorded pace and report what happened",
  .synopsis = "[OPTIONS] FILE…",
  .examples = examples,
  .options = replay_options,
  .run = cmd_replay_run,
  .prepare = replay_prepare,
  .prepared_free = replay_prepared_free,
  .min_operands = 0, /* --print-config needs none */
  .max_operands = G_MAXUINT32,
  .more_text = more_text,
  .checks_output = 1,
};

/* -------- what the flags mean together -------- */

/* What the level has to offer for --copies and --close-pairs. @first_tenant: (out): the number in --key-offset. */
static gboolean
check_copies (const LmtCommandContext *context, const LmtLevelOps *level, guint64 *first_tenant, GError **error)
{
  const ReplayConfig *config = context->config;
  const char *missing = NULL;

  *first_tenant = 0;
  if (config->key_offset != NULL && level->set_tenant == NULL)
    missing = "--key-offset: expected a level with keys";
  else if (config->close_pairs && level->close_pairs == NULL)
    missing = "--close-pairs: expected a level with pairs";
  if (missing != NULL)
    {
      g_set_error (error, LMT_ERROR, LMT_ERROR_OPTION, "%s, found %s", missing, level->name);
      return FALSE;
    }
  if (config->key_offset == NULL || config->key_offset[0] == '\0')
    return TRUE;
  if (lmt_parse_count (config->key_offset, first_tenant, error) && *first_tenant <= G_MAXUINT64 - config->copies)
    return TRUE;
  if (*error == NULL)
    g_set_error (error, LMT_ERROR, LMT_ERROR_OPTION, "expected at most 2^64 - --copies, found %s", config->key_offset);
  g_prefix_error (error, "--key-offset: ");
  return FALSE;
}

/* Two streams on one stdout would be neither. */
static gboolean
check_stdout (const LmtCommandContext *context, const ReplayConfig *config, GError **error)
{
  /* The level's own options. */
  g_autofree char *trace = lmt_options_get_text (context->options, "trace-output");
  g_autofree char *state = lmt_options_get_text (context->options, "state-out");
  const gboolean records = lmt_options_is_set (context->options, "trace-level");
  const struct
  {
    const char *flag;
    gboolean wants;
    gboolean moves_report;
  } users[] = {
    { "--trace-output", records && g_strcmp0 (trace, "-") == 0, TRUE },
    { "--state-out", g_strcmp0 (state, "-") == 0, TRUE },
    { "--jsonl-out", g_strcmp0 (config->jsonl_out, "-") == 0, TRUE },
    { "--stats-out", g_strcmp0 (config->stats_out, "-") == 0, TRUE },
    { "--json", g_strcmp0 (config->json, "-") == 0, TRUE },
    { "--format", lmt_output_get_format (context->output) != LMT_FORMAT_TEXT && !context->quiet, FALSE },
    { "--verbose", config->verbose != 0, FALSE },
  };
  const char *taken = NULL;
  gboolean moves = FALSE;

  for (guint i = 0; i < G_N_ELEMENTS (users); i++)
    {
      if (!users[i].wants)
        continue;
      if (taken != NULL)
        {
          g_set_error (error, LMT_ERROR, LMT_ERROR_OPTION, "%s: stdout: expected it free, found it taken by %s", users[i].flag,
                       taken);
          return FALSE;
        }
      taken = users[i].flag;
      moves = users[i].moves_report;
    }
  if (moves)
    lmt_output_set_stdout_taken (context->output);
  return TRUE;
}

/**
 * Tolerance: `--max-errors N` or `N%`.
 */
typedef struct
{
  guint64 records;
  double share; /* below 0: @records counts */
} Tolerance;

static gboolean
parse_tolerance (const char *text, Tolerance *tolerance, GError **error)
{
  tolerance->share = -1;
  tolerance->records = 0;
  gboolean ok = g_str_has_suffix (text, "%") ? lmt_parse_fraction (text, &tolerance->share, error)
                                             : lmt_parse_count (text, &tolerance->records, error);
  if (!ok)
    g_prefix_error (error, "--max-errors: ");
  return ok;
}

static guint
compat_release (const ReplayConfig *config)
{
  if (config->compat == NULL || *config->compat == '\0')
    return 0;
  return strcmp (config->compat, "lmcache-0.5.7") == 0 ? 57 : 56;
}

static int
print_config (const LmtCommandContext *context, const ReplayPrepared *prepared, GError **error)
{
  const LmtLevelOps *level = prepared->level;
  if (level != NULL && prepared->first != NULL && level->header_options != NULL
      && !level->header_options (lmt_reader_get_header (prepared->first), prepared->options, error))
    return 2;
  g_autoptr (LmtReport) report = cli_options_report (context->options, "replay");
  return lmt_output_report (context->output, report, NULL, FALSE, 0, error) ? 0 : 1;
}

/* -------- one FILE -------- */

static void
run_free (gpointer data)
{
  ReplayRun *run = data;
  const LmtLevelOps *level = run->prepared->level;
  if (run->session != NULL && level->free != NULL)
    level->free (run->session);
  g_clear_object (&run->replay);
  lmt_select_free (run->select);
  replay_merge_free (run->merge);
  g_ptr_array_unref (run->files);
  g_free (run->headers);
  g_ptr_array_unref (run->all_paths);
  if (run->line != NULL)
    g_string_free (run->line, TRUE);
  if (run->verbose_lines != NULL)
    g_string_free (run->verbose_lines, TRUE);
  g_free (run->digest);
  g_free (run->title);
  g_free (run);
}

static guint32
can_rewind (ReplayRun *run)
{
  for (guint i = 0; i < run->files->len; i++)
    {
      const ReplayFile *file = run->files->pdata[i];
      if (file->follow || !lmt_reader_is_seekable (file->reader))
        return FALSE;
    }
  return TRUE;
}

static LmtReplayEnv
make_env (ReplayRun *run, guint n_runs)
{
  const ReplayConfig *config = run->config;
  return (LmtReplayEnv){
    .struct_size = sizeof (LmtReplayEnv),
    .n_headers = run->files->len,
    .registry = run->context->registry,
    .replay = run->replay,
    .headers = run->headers,
    .options = run->context->options,
    .config = run->prepared->level_config,
    .clock = lmt_clock_real (),
    .speed = config->speed,
    .dry_run = config->dry_run,
    .compat = run->compat,
    .seed = config->seed,
    .drain_timeout_ns = config->drain_timeout_ns,
    .quiet = run->context->quiet,
    .n_sessions = n_runs,
    .warnings = run->context->warnings,
    .yes_destroy = (const char *const *)config->yes_destroy,
    .interrupts = run->context->interrupts,
    .files = (const char *const *)run->all_paths->pdata,
    .can_rewind = can_rewind (run),
  };
}

/* A percent in --time needs the span, so the file is read first. */
static gboolean
make_selection (ReplayRun *run, GError **error)
{
  const LmtSelectConfig *select = &run->prepared->select;
  if (lmt_select_wants_span (select) && run->merge == NULL && !replay_file_count (run->file, run->context->interrupts, error))
    return FALSE;
  run->select = lmt_select_new (select, run->headers[0], run->merge == NULL ? run->file->span_s : -1, error);
  return run->select != NULL;
}

/* One FILE of @files, or with --merge all. Checks all that can be checked without touching anything. */
static ReplayRun *
run_new (const LmtCommandContext *context, ReplayPrepared *prepared, GPtrArray *files, guint index, GError **error)
{
  const ReplayConfig *config = context->config;
  gboolean merge = config->merge && files->len > 1;
  ReplayRun *run = g_new0 (ReplayRun, 1);

  run->context = context;
  run->config = config;
  run->prepared = prepared;
  run->file = g_ptr_array_index (files, index);
  run->files = g_ptr_array_new ();
  for (guint i = merge ? 0 : index; i < (merge ? files->len : index + 1); i++)
    g_ptr_array_add (run->files, g_ptr_array_index (files, i));
  run->merge = merge ? replay_merge_new (run->files) : NULL;
  run->all_paths = g_ptr_array_new ();
  for (guint i = 0; i < files->len; i++)
    g_ptr_array_add (run->all_paths, ((ReplayFile *)files->pdata[i])->path);
  g_ptr_array_add (run->all_paths, NULL);
  run->headers = g_new0 (const LmtHeader *, run->files->len);
  for (guint i = 0; i < run->files->len; i++)
    run->headers[i] = lmt_reader_get_header (((ReplayFile *)run->files->pdata[i])->reader);
  run->index = index;
  run->n_runs = merge ? 1 : files->len;
  run->compat = compat_release (config);
  if (run->n_runs > 1)
    run->title = g_strdup_printf ("Trace Replay Result: %s", run->file->shown);
  run->replay = lmt_replay_new (context->registry, prepared->level);
  run->env = make_env (run, run->n_runs);
  lmt_replay_set_warnings (run->replay, context->warnings);

  if (check_copies (context, prepared->level, &run->first_tenant, error) && make_selection (run, error)
      && (run->session = prepared->level->configure (&run->env, error)) != NULL)
    return run;
  if (run->n_runs > 1)
    g_prefix_error (error, "%s: ", run->file->shown);
  run_free (run);
  return NULL;
}

static gboolean
run_start (ReplayRun *run, GError **error)
{
  const LmtLevelOps *level = run->prepared->level;
  if (level->start != NULL && !level->start (run->session, error))
    return FALSE;
  run->started = TRUE;
  return TRUE;
}

static void warn (ReplayRun *run, const char *kind, const char *format, ...) G_GNUC_PRINTF (3, 4);

static void
warn (ReplayRun *run, const char *kind, const char *format, ...)
{
  va_list args;
  va_start (args, format);
  g_autofree char *text = g_strdup_vprintf (format, args);
  va_end (args);
  lmt_warnings_add (run->context->warnings, kind, text);
}

static gboolean
is_damaged (ReplayRun *run)
{
  for (guint i = 0; i < run->files->len; i++)
    {
      const LmtReaderStats *stats = lmt_reader_get_stats (((ReplayFile *)run->files->pdata[i])->reader);
      if (stats->malformed > 0 || stats->tail != LMT_TAIL_CLEAN || stats->lost_bytes > 0)
        return TRUE;
    }
  return FALSE;
}

/* cli.md 8.3: what the figures make of the exit code. */
static int
judge (ReplayRun *run, const Tolerance *tolerance)
{
  const LmtReplayTotals *totals = lmt_replay_get_totals (run->replay);
  const LmtLevelOps *level = run->prepared->level;
  guint64 bad = totals->status[LMT_STATUS_FAILED] + totals->status[LMT_STATUS_MISMATCH];
  guint64 replayed = totals->status[LMT_STATUS_OK] + totals->status[LMT_STATUS_MISMATCH];
  guint64 passed_over = totals->status[LMT_STATUS_SKIPPED] + totals->status[LMT_STATUS_UNDECODABLE];
  int code = run->broken ? 2 : 0;

  if (level->target_errors != NULL)
    {
      guint64 errors = level->target_errors (run->session);
      bad += errors;
      if (errors > 0)
        warn (run, "target-errors", "%s: %" G_GUINT64_FORMAT " operations failed beside the records' calls", run->file->shown,
              errors);
    }
  if (tolerance->share >= 0 ? (double)bad > tolerance->share * (double)totals->records : bad > tolerance->records)
    code = MAX (code, 1);
  if (passed_over > 0 && replayed == 0 && totals->status[LMT_STATUS_FAILED] == 0)
    {
      warn (run, "nothing-replayed", "%s: not one of %" G_GUINT64_FORMAT " records could be replayed", run->file->shown,
            totals->records);
      code = MAX (code, 1);
    }
  if (run->context->strict && (passed_over > 0 || is_damaged (run)))
    code = MAX (code, 1);
  if (run->config->max_lag_ns > 0 && totals->lag != NULL)
    {
      gint64 p99 = lmt_stats_percentile (totals->lag, 990, LMT_RANK_NEAREST);
      if (p99 > run->config->max_lag_ns)
        {
          warn (run, "max-lag", "%s: lag p99: expected at most %.3f ms, found %.3f ms", run->file->shown,
                (double)run->config->max_lag_ns / 1e6, (double)p99 / 1e6);
          code = MAX (code, 1);
        }
    }
  if (level->exit_code != NULL)
    code = MAX (code, level->exit_code (run->session));
  return totals->interrupted || g_atomic_int_get (run->context->interrupts) > 0 ? 130 : code;
}

/* The N of `[i/N]`, where it can be known first. */
static gboolean
count_records (ReplayRun *run, GError **error)
{
  gboolean all = TRUE;
  guint64 n = 0;

  for (guint i = 0; i < run->files->len; i++)
    {
      ReplayFile *file = run->files->pdata[i];
      if (!file->counted && !replay_file_count (file, run->context->interrupts, error))
        return FALSE;
      all = all && file->counted;
      n += file->n_records;
    }
  run->n_total = all ? n * run->config->loop * run->config->copies : 0;
  return TRUE;
}

static void
run_replay (ReplayRun *run, const Tolerance *tolerance)
{
  const ReplayConfig *config = run->config;
  g_autoptr (GError) error = NULL;
  LmtReplayPlan plan = {
    .speed = config->speed,
    .max_gap_ns = config->max_gap_ns,
    .limit = config->limit,
    .loops = config->loop,
    .in_order = run->compat != 0,
    .select = lmt_select_is_empty (run->select) ? NULL : run->select,
    .clock = run->env.clock,
    .interrupts = run->context->interrupts,
    .max_lag_ns = config->max_lag_ns,
    .copies = config->copies,
    .key_offset = config->key_offset != NULL,
    .first_tenant = run->first_tenant,
    .close_pairs = config->close_pairs != 0,
  };
  if (count_records (run, &error))
    {
      if (run->merge != NULL)
        lmt_replay_set_source (run->replay, replay_merge_get_source (run->merge));
      replay_watch_attach (run);
      lmt_replay_run (run->replay, run->file->reader, run->session, &plan, &error);
      replay_watch_detach (run);
    }
  if (run->merge != NULL && replay_merge_get_steps_back (run->merge) > 0)
    warn (run, "merge",
          "--merge: %" G_GUINT64_FORMAT " records step back in wall time inside their file: taken right after the one before",
          replay_merge_get_steps_back (run->merge));
  if (error != NULL)
    {
      lmt_log_failure (error->message);
      run->broken = TRUE;
    }
  run->exit_code = judge (run, tolerance);
}

gboolean
replay_run_is_partial (const ReplayRun *run)
{
  return run->broken || run->exit_code == 130 || lmt_replay_get_totals (run->replay)->interrupted;
}

/* -------- reports -------- */

/**
 * Report: what all FILEs together give to stdout and --output.
 */
typedef struct
{
  GString *text;
  GString *metrics; /* several FILEs: objects of a list */
  GString *csv;
  gboolean partial;
} Report;

static gboolean
write_files (ReplayRun *run, const CliReplayResult *result, const LmtReport *report, const char *csv, GError **error)
{
  ReplayPlaces *places = run->places;
  if (places->csv_path != NULL)
    {
      g_autofree char *path = replay_places_numbered (places->csv_path, run->index);
      if (!lmt_output_write_file (path, csv, -1, error))
        return FALSE;
    }
  if (places->summary_path != NULL)
    {
      g_autofree char *path = replay_places_numbered (places->summary_path, run->index);
      g_autofree char *summary = replay_summary_new (run, result, report);
      if (!lmt_output_write_file (path, summary, -1, error))
        return FALSE;
    }
  return TRUE;
}

/* One FILE: the report as it is. */
static gboolean
show_single (ReplayRun *run, const LmtReport *report, const char *csv, int exit_code, GError **error)
{
  return lmt_output_report (run->context->output, report, csv, replay_run_is_partial (run), exit_code, error);
}

/* Several: tables one after another, with a line between; one envelope with a list. */
static void
gather (ReplayRun *run, const LmtReport *report, const char *csv, Report *all)
{
  g_autofree char *text = lmt_report_to_text (report);
  LmtJsonWriter *json;

  if (all->text->len > 0)
    g_string_append_c (all->text, '\n');
  g_string_append (all->text, text);
  if (all->csv->len > 0)
    g_string_append (all->csv, "\r\n");
  g_string_append (all->csv, csv);
  if (all->metrics->len > 0)
    g_string_append (all->metrics, ", ");
  json = lmt_json_writer_new (all->metrics, LMT_JSON_STYLE_SPACED);
  lmt_json_writer_begin_object (json);
  lmt_json_writer_path (json, "file", run->file->path);
  lmt_json_writer_key (json, "exit");
  lmt_json_writer_int (json, run->exit_code);
  lmt_json_writer_key (json, "partial");
  lmt_json_writer_bool (json, replay_run_is_partial (run));
  lmt_json_writer_key (json, "metrics");
  lmt_report_write_metrics (report, json);
  lmt_json_writer_end_object (json);
  lmt_json_writer_free (json);
  all->partial = all->partial || replay_run_is_partial (run);
}

static gboolean
show_all (const LmtCommandContext *context, Report *all, int exit_code, GError **error)
{
  g_autofree char *metrics = g_strdup_printf ("{\"files\": [%s]}", all->metrics->str);
  return lmt_output_raw (context->output, "Trace Replay Result", all->text->str, metrics, all->csv->str, all->partial, exit_code,
                         error);
}

/* -------- the order of work -------- */

/* A failing write of a report is 1 with one line (cli.md 8.3). */
static void
told (GError **error, int *exit_code)
{
  lmt_log_failure ((*error)->message);
  g_clear_error (error);
  *exit_code = MAX (*exit_code, 1);
}

/* The report itself: in JSON the failure takes its place. */
static void
told_instead (const LmtCommandContext *context, GError **error, int *exit_code)
{
  lmt_output_failure (context->output, *error, MAX (*exit_code, 1));
  told (error, exit_code);
}

/* One FILE: its row. Merged ones: each different row once. */
static char *
digest_of (ReplayRun *run)
{
  const LmtLevelOps *level = run->prepared->level;
  g_autoptr (GPtrArray) rows = g_ptr_array_new_with_free_func (g_free);

  for (guint i = 0; level->digest_row != NULL && i < run->files->len; i++)
    {
      g_autofree char *row = level->digest_row (run->session, i);
      if (row != NULL && !g_ptr_array_find_with_equal_func (rows, row, g_str_equal, NULL))
        g_ptr_array_add (rows, g_steal_pointer (&row));
    }
  if (rows->len == 0)
    return NULL;
  g_ptr_array_add (rows, NULL);
  return g_strjoinv (", ", (char **)rows->pdata);
}

static void
run_report (ReplayRun *run, Report *all, int *exit_code)
{
  CliReplayResult result;
  GError *error = NULL;

  run->digest = digest_of (run);
  replay_result_init (&result, run);
  g_autoptr (LmtReport) report = replay_report_new (run, &result);
  g_autofree char *csv = cli_replay_csv (&result);
  if (!write_files (run, &result, report, csv, &error))
    told (&error, exit_code);
  if (run->n_runs > 1)
    gather (run, report, csv, all);
  else if (!show_single (run, report, csv, *exit_code, &error))
    told_instead (run->context, &error, exit_code);
  replay_result_clear (&result);
}

/* A later FILE whose session can't start is told and passed over. */
static void
run_one (ReplayRun *run, const Tolerance *tolerance, Report *all, int *exit_code)
{
  g_autoptr (GError) error = NULL;
  if (!run->started && !run_start (run, &error))
    {
      g_prefix_error (&error, "%s: ", run->file->shown);
      lmt_log_failure (error->message);
      *exit_code = MAX (*exit_code, 2);
      return;
    }
  run_replay (run, tolerance);
  *exit_code = MAX (*exit_code, run->exit_code);
  run_report (run, all, exit_code);
}

/* Outputs and the first session: FALSE leaves nothing behind. */
static ReplayPlaces *
begin (const LmtCommandContext *context, GPtrArray *files, GPtrArray *runs, GError **error)
{
  g_autoptr (ReplayPlaces) places = replay_places_open (context, context->config, files, error);
  if (places == NULL)
    return NULL;
  if (!run_start (g_ptr_array_index (runs, 0), error) || !replay_places_commit (places, error))
    {
      replay_places_undo (places);
      return NULL;
    }
  return g_steal_pointer (&places);
}

static gboolean
context_merges (const LmtCommandContext *context)
{
  return ((const ReplayConfig *)context->config)->merge != 0;
}

static int
replay_all (const LmtCommandContext *context, ReplayPrepared *prepared, GPtrArray *files, const Tolerance *tolerance,
            int exit_code, GError **error)
{
  g_autoptr (GPtrArray) runs = g_ptr_array_new_with_free_func (run_free);
  g_autoptr (GString) text = g_string_new (NULL);
  g_autoptr (GString) metrics = g_string_new (NULL);
  g_autoptr (GString) csv = g_string_new (NULL);
  Report all = { text, metrics, csv, FALSE };
  GError *local = NULL;

  for (guint i = 0; i < (context_merges (context) ? 1 : files->len); i++)
    {
      ReplayRun *run = run_new (context, prepared, files, i, error);
      if (run == NULL)
        return 2;
      g_ptr_array_add (runs, run);
    }
  g_autoptr (ReplayPlaces) places = begin (context, files, runs, error);
  if (places == NULL)
    return 2;
  lmt_options_warn_no_effect (context->options, context->warnings);
  for (guint i = 0; i < runs->len; i++)
    {
      ReplayRun *run = g_ptr_array_index (runs, i);
      run->places = places;
      run_one (run, tolerance, &all, &exit_code);
    }
  if (runs->len > 1 && !show_all (context, &all, exit_code, &local))
    told_instead (context, &local, &exit_code);
  if (!replay_places_close (places, &local))
    told (&local, &exit_code);
  return exit_code;
}

static int
cmd_replay_run (const LmtCommandContext *context, GError **error)
{
  const ReplayConfig *config = context->config;
  ReplayPrepared *prepared = lmt_command_context_get_prepared (context);
  Tolerance tolerance;
  int exit_code = 0;

  if (!parse_tolerance (config->max_errors, &tolerance, error))
    return 2;
  if (config->print_config)
    return print_config (context, prepared, error);
  if (context->operands[0] == NULL)
    {
      g_set_error_literal (error, LMT_ERROR, LMT_ERROR_OPTION,
                           "replay: expected at least 1 operand, found 0: usage: lmtrace replay [OPTIONS] FILE…");
      return 2;
    }
  if (!lmt_options_check_required (context->options, error))
    return 2;
  if (!check_stdout (context, config, error))
    return 2;
  g_autoptr (GPtrArray) files = replay_open_files (context, config, prepared, &exit_code, error);
  if (files == NULL)
    return g_error_matches (*error, LMT_ERROR, LMT_ERROR_INTERRUPTED) ? 130 : 2;
  if (prepared->level == NULL)
    {
      g_set_error (error, LMT_ERROR, LMT_ERROR_OPTION, "%s: became a trace file after the command line was read",
                   ((ReplayFile *)g_ptr_array_index (files, 0))->path);
      return 2;
    }
  return replay_all (context, prepared, files, &tolerance, exit_code, error);
}
