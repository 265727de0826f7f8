// SPDX-License-Identifier: Apache-2.0
/* import: public request traces become traces of a StorageManager that serves them; trace-format.md 10, cli.md 8.1, 8.15. */
#include "work-command.h"
#include "work-import.h"

typedef struct
{
  char *model_shape;
  guint64 limit;
  char *clock;
  guint64 threads;
  char *max_errors;
  guint32 force;
  StorageFlags flags;
} ImportConfig;

static const LmtOption import_own[] = {
  LMT_OPTION_FULL (STRING, "model-shape", ImportConfig, model_shape, LMT_OPTION_REQUIRED, NULL, "nonempty", "FILE",
                   "Size objects by this model: a file as `model` of a workload, or the name of one that is installed", NULL),
  { "trace-output",
    LMT_OPTION_TYPE_STRING,
    LMT_OPTION_REQUIRED,
    (guint32)(G_STRUCT_OFFSET (ImportConfig, flags) + G_STRUCT_OFFSET (StorageFlags, trace_output)),
    'o',
    NULL,
    "nonempty",
    "OUT",
    "Write the trace to OUT; - is stdout; .gz and .zst compress",
    NULL,
    { 0, 0, 0 } },
  LMT_OPTION_FULL (BOOL, "force", ImportConfig, force, 0, NULL, NULL, NULL, "Overwrite OUT if it is there", NULL),
  LMT_OPTION_FULL (COUNT, "limit", ImportConfig, limit, 0, NULL, "1..", "N", "End after N requests", NULL),
  LMT_OPTION_FULL (STRING, "max-errors", ImportConfig, max_errors, 0, "0", "nonempty", "N[%]",
                   "Take up to N dropped rows, or this share of all, for a success", NULL),
  LMT_OPTION_FULL (CHOICE, "clock", ImportConfig, clock, 0, "virtual", "virtual|real", "CLOCK",
                   "Go by virtual time, as fast as the machine can and the same on each, or by the real one", NULL),
  LMT_OPTION_FULL (UINT, "threads", ImportConfig, threads, 0, "1", "1..1024", "N", "Serve N requests at a time", NULL),
  LMT_OPTION_END,
};

/* N or P%. */
static gboolean
read_max_errors (const char *text, guint64 *count, double *share, GError **error)
{
  *share = -1.0;
  *count = 0;
  if (g_str_has_suffix (text, "%") ? lmt_parse_fraction (text, share, NULL) && *share >= 0.0 && *share <= 1.0
                                   : lmt_parse_count (text, count, NULL))
    return TRUE;
  g_set_error (error, LMT_ERROR, LMT_ERROR_OPTION, "--max-errors: expected a count, or 0%% to 100%%, found \"%s\"", text);
  return FALSE;
}

static gboolean
too_many (const WorkImportFigures *figures, guint64 count, double share)
{
  return share >= 0.0 ? (double)figures->dropped > share * (double)figures->in : figures->dropped > count;
}

static char *
lines_of (const char *from, const char *to, const WorkImportFigures *figures)
{
  g_autofree char *shown_from = g_filename_display_name (from);
  g_autofree char *shown_to = g_filename_display_name (to);
  GString *text = g_string_new (NULL);

  g_string_append_printf (text, "%s -> %s: %" G_GUINT64_FORMAT " in, %" G_GUINT64_FORMAT " out, %" G_GUINT64_FORMAT " dropped\n",
                          shown_from, shown_to, figures->in, figures->out, figures->dropped);
  for (guint i = 0; i < figures->n_drops; i++)
    g_string_append_printf (text, "  %s: %" G_GUINT64_FORMAT ", first at line %" G_GUINT64_FORMAT "\n", figures->drops[i].reason,
                            figures->drops[i].count, figures->drops[i].first_line);
  return g_string_free (text, FALSE);
}

static char *
metrics_of (const ImportConfig *config, const char *const *operands, const WorkImportFigures *figures, WorkRun *run)
{
  g_autoptr (LmtReport) report = lmt_report_new ("Imported Requests", LMT_REPORT_WIDTH);
  LmtSection *section = lmt_report_add_section (report, "import", NULL, TRUE);
  static const char *const columns[] = { "reason", "%count", "%first_line", NULL };
  GString *text = g_string_new (NULL);
  LmtJsonWriter *json;

  lmt_section_add_string (section, "format", "", operands[0]);
  lmt_section_add_string (section, "input", "", operands[1]);
  lmt_section_add_string (section, "output", "", config->flags.trace_output);
  lmt_section_add_int (section, "rows_in", "", (gint64)figures->in);
  lmt_section_add_int (section, "rows_out", "", (gint64)figures->out);
  lmt_section_add_int (section, "rows_dropped", "", (gint64)figures->dropped);
  lmt_section_add_int (section, "rows_back_in_time", "", (gint64)figures->backward);
  lmt_section_add_int (section, "rows_short_of_ids", "", (gint64)figures->short_ids);
  lmt_section_add_int (section, "rows_surplus_ids", "", (gint64)figures->surplus_ids);
  section = lmt_report_add_table (report, "dropped", "", columns);
  for (guint i = 0; i < figures->n_drops; i++)
    {
      g_autofree char *count = g_strdup_printf ("%" G_GUINT64_FORMAT, figures->drops[i].count);
      g_autofree char *first = g_strdup_printf ("%" G_GUINT64_FORMAT, figures->drops[i].first_line);
      const char *const cells[] = { figures->drops[i].reason, count, first };

      lmt_section_add_row (section, cells);
    }
  work_run_report (run, report);
  json = lmt_json_writer_new (text, LMT_JSON_STYLE_SPACED);
  lmt_report_write_metrics (report, json);
  lmt_json_writer_free (json);
  return g_string_free (text, FALSE);
}

static void
warn_of (const LmtCommandContext *context, const char *shown, const char *kind, guint64 count, const char *what)
{
  if (count == 0)
    return;
  g_autofree char *text = g_strdup_printf ("%s: %" G_GUINT64_FORMAT " rows %s", shown, count, what);
  lmt_warnings_add (context->warnings, kind, text);
}

static int
report (const LmtCommandContext *context, WorkSource *source, WorkRun *run, GError **error)
{
  const ImportConfig *config = context->config;
  const WorkImportFigures *figures = work_import_get_figures (source);
  const char *file = context->operands[1];
  g_autofree char *shown = g_filename_display_name (file);
  g_autofree char *text = lines_of (file, config->flags.trace_output, figures);
  g_autofree char *metrics = metrics_of (config, context->operands, figures, run);
  const char *broken = work_import_get_error (source);
  gboolean interrupted = work_run_get_figures (run)->interrupted;
  int code = work_run_exit_code (run);
  guint64 count;
  double share;

  warn_of (context, shown, "back in time", figures->backward, "lie before the row above them: taken as of its time");
  warn_of (context, shown, "short of ids", figures->short_ids, "have fewer hash_ids than input_length has whole blocks");
  warn_of (context, shown, "surplus ids", figures->surplus_ids, "have more hash_ids than input_length has blocks");
  if (code == 0
      && (broken != NULL || (read_max_errors (config->max_errors, &count, &share, NULL) && too_many (figures, count, share))))
    code = 1;
  if (!lmt_output_raw (context->output, "Imported Requests", text, metrics, NULL, interrupted, code, error))
    return 1;
  if (broken != NULL)
    g_set_error_literal (error, LMT_ERROR, LMT_ERROR_IO, broken);
  return code;
}

static int
run_import (const LmtCommandContext *context, const WorkFormat *format, WorkShape *shape, WorkLine *line, GError **error)
{
  const ImportConfig *config = context->config;
  const char *const inputs[] = { context->operands[1], config->model_shape, NULL };
  g_autofree char *label = g_strdup_printf ("import %s", context->operands[1]);
  WorkParams params = { .context = context, .options = line->options, .flags = &line->flags, .inputs = inputs, .label = label };
  WorkRun *run = NULL;
  int code = 2;

  work_line_set_defaults (line);
  params.shape = shape;
  params.real_clock = g_str_equal (config->clock, "real");
  params.threads = (guint)config->threads;
  params.requests = config->limit;
  params.force = config->force != 0;
  params.source = work_import_new (format, context->operands[1], shape->chunk_tokens,
                                   WORK_CELLS_MAX / (shape->n_groups * shape->world), context->warnings, error);
  if (params.source != NULL)
    run = work_run_new (&params, error);
  if (run != NULL && work_run_start (run, error))
    {
      work_run_all (run);
      code = report (context, params.source, run, error);
    }
  work_run_free (run);
  work_source_free (params.source);
  return code;
}

static int
import_run (const LmtCommandContext *context, GError **error)
{
  const ImportConfig *config = context->config;
  const WorkFormat *format = work_format_find (context->operands[0]);
  WorkShape shape;
  WorkLine line;
  guint64 count;
  double share;
  int code = 2;

  if (format == NULL)
    {
      g_set_error (error, LMT_ERROR, LMT_ERROR_OPTION, "FORMAT: expected one of %s, found \"%s\"", work_format_names (),
                   context->operands[0]);
      return 2;
    }
  if (!lmt_options_check_required (context->options, error) || !read_max_errors (config->max_errors, &count, &share, error)
      || !work_shape_load (&shape, config->model_shape, error))
    return 2;
  if (g_str_equal (config->flags.trace_output, "-"))
    lmt_output_set_stdout_taken (context->output);
  work_line_init (&line, context->options, &config->flags);
  if (work_shape_finish (&shape, format->block_tokens > 0 ? format->block_tokens : 256, format->block_tokens > 0, error))
    code = run_import (context, format, &shape, &line, error);
  else
    g_prefix_error (error, "--model-shape: %s: ", config->model_shape);
  work_line_clear (&line);
  work_shape_clear (&shape);
  return code;
}

static const char *const import_examples[] = {
  "lmtrace import mooncake chats.jsonl --model-shape llama-3.1-8b -o chats.lct",
  "lmtrace import qwen-bailian a.jsonl --model-shape qwen2.5-7b -o a.lct.zst",
  "lmtrace import mooncake x.jsonl --model-shape m.json --max-errors 1% -o x.lct",
  NULL,
};

const LmtCommandOps *
work_import_ops (void)
{
  static LmtCommandOps ops = {
    .struct_size = sizeof (LmtCommandOps),
    .config_size = sizeof (ImportConfig),
    .name = "import",
    .summary = "Make a trace of a public request trace",
    .synopsis = "[OPTIONS] FORMAT FILE --model-shape FILE -o OUT",
    .examples = import_examples,
    .run = import_run,
    .min_operands = 2,
    .max_operands = 2,
    .more_text
    = "FORMAT is mooncake (blocks of 512 tokens, times in ms), qwen-bailian (16 tokens, seconds) or lookup-hashes (what LMCache "
      "and "
      "replay write with --lookup-hash-log-dir; blocks as the shape has them, seconds); FILE one JSON object a line, plain, gzip "
      "or zstd, or - for stdin. Each row is a request that asks for the whole blocks of its input, reads what was "
      "hit and "
      "stores the rest, as in `lmtrace record`; a block's id becomes a chunk's hash. Rows that can't be used are dropped and "
      "counted by reason. Without options L1 has 64 GiB and evicts by LRU.",
  };

  if (ops.options == NULL)
    ops.options = work_options_table (import_own, G_STRUCT_OFFSET (ImportConfig, flags));
  return &ops;
}
