// SPDX-License-Identifier: Apache-2.0
/* record: a described workload against a StorageManager, recorded; trace-format.md 10, cli.md 8.1. */
#include "work-command.h"

typedef struct
{
  char *workload;
  guint64 limit;
  gint64 duration_ns;
  guint64 seed;
  char *clock;
  guint64 threads;
  guint32 force;
  StorageFlags flags;
} RecordConfig;

static const LmtOption record_own[] = {
  LMT_OPTION_FULL (
      STRING, "workload", RecordConfig, workload, LMT_OPTION_REQUIRED, NULL, "nonempty", "FILE",
      "Do what this file describes (lmtrace/workload/1), or the preset of that name: chat, rag, agents, long-context", NULL),
  { "trace-output",
    LMT_OPTION_TYPE_STRING,
    LMT_OPTION_REQUIRED,
    (guint32)(G_STRUCT_OFFSET (RecordConfig, flags) + G_STRUCT_OFFSET (StorageFlags, trace_output)),
    'o',
    NULL,
    "nonempty",
    "OUT",
    "Write the trace to OUT; - is stdout; .gz and .zst compress",
    NULL,
    { 0, 0, 0 } },
  LMT_OPTION_FULL (BOOL, "force", RecordConfig, force, 0, NULL, NULL, NULL, "Overwrite OUT if it is there", NULL),
  LMT_OPTION_FULL (COUNT, "limit", RecordConfig, limit, 0, NULL, "1..", "N", "Begin at most N requests; else as the file says",
                   NULL),
  LMT_OPTION_FULL (DURATION, "duration", RecordConfig, duration_ns, 0, NULL, "(0..", "DURATION",
                   "Begin no request after this time; else as the file says", NULL),
  LMT_OPTION_FULL (UINT, "seed", RecordConfig, seed, 0, NULL, "0..9223372036854775807", "N",
                   "Draw by this seed; else by the file's", NULL),
  LMT_OPTION_FULL (
      CHOICE, "clock", RecordConfig, clock, 0, NULL, "virtual|real", "CLOCK",
      "Go by virtual time, as fast as the machine can and the same on each, or by the real one; else as the file says", NULL),
  LMT_OPTION_FULL (UINT, "threads", RecordConfig, threads, 0, NULL, "1..1024", "N",
                   "Serve N requests at a time; else as the file says", NULL),
  LMT_OPTION_END,
};

static void
take_line (WorkSpec *spec, const LmtCommandContext *context)
{
  const RecordConfig *config = context->config;

  if (lmt_options_is_set (context->options, "limit"))
    spec->requests = config->limit;
  if (lmt_options_is_set (context->options, "duration"))
    spec->duration_ns = config->duration_ns;
  if (lmt_options_is_set (context->options, "seed"))
    spec->seed = config->seed;
  if (lmt_options_is_set (context->options, "threads"))
    spec->threads = config->threads;
  if (config->clock != NULL)
    spec->real_clock = g_str_equal (config->clock, "real");
}

static gboolean
check_end (const WorkSpec *spec, GError **error)
{
  if (spec->requests > 0 || spec->duration_ns > 0)
    return TRUE;
  g_set_error (error, LMT_ERROR, LMT_ERROR_OPTION, "%s: expected duration or requests (or --duration, --limit), found neither",
               spec->shown);
  return FALSE;
}

static int
report (const LmtCommandContext *context, const WorkSpec *spec, WorkSource *source, WorkRun *run, GError **error)
{
  g_autoptr (LmtReport) report = lmt_report_new ("Recorded Workload", LMT_REPORT_WIDTH);
  const WorkSynthFigures *synth = work_synth_get_figures (source);
  const RecordConfig *config = context->config;
  LmtSection *section = lmt_report_add_section (report, "workload", "Workload", TRUE);
  gboolean interrupted = work_run_get_figures (run)->interrupted;
  int code = work_run_exit_code (run);

  lmt_section_add_string (section, "workload", "Workload", spec->shown);
  lmt_section_add_string (section, "output", "Output", config->flags.trace_output);
  lmt_section_add_int (section, "seed", "Seed", (gint64)spec->seed);
  lmt_section_add_int (section, "threads", "Threads", (gint64)spec->threads);
  lmt_section_add_int (section, "sessions", "Sessions", (gint64)synth->sessions);
  lmt_section_add_int (section, "turned_away", "Sessions turned away", (gint64)synth->turned_away);
  lmt_section_add_int (section, "cut", "Sessions cut, too long", (gint64)synth->cut);
  work_run_report (run, report);
  return lmt_output_report (context->output, report, NULL, interrupted, code, error) ? code : 1;
}

static int
run_record (const LmtCommandContext *context, WorkLine *line, GError **error)
{
  const RecordConfig *config = context->config;
  const char *const inputs[] = { config->workload, NULL };
  g_autoptr (WorkSpec) spec = work_spec_load (config->workload, error);
  g_autofree char *label = g_strdup_printf ("record %s", config->workload);
  WorkParams params = { .context = context, .options = line->options, .flags = &line->flags, .inputs = inputs, .label = label };
  WorkRun *run;
  int code = 2;

  if (spec == NULL)
    return 2;
  take_line (spec, context);
  if (!check_end (spec, error) || !work_spec_set_options (spec, context->options, line->options, error))
    return 2;
  work_line_set_defaults (line);
  params.shape = &spec->shape;
  params.real_clock = spec->real_clock;
  params.threads = (guint)spec->threads;
  params.requests = spec->requests;
  params.duration_ns = spec->duration_ns;
  params.force = config->force != 0;
  params.source = work_synth_new (spec);
  run = work_run_new (&params, error);
  if (run != NULL && work_run_start (run, error))
    {
      work_run_all (run);
      code = report (context, spec, params.source, run, error);
    }
  work_run_free (run);
  work_source_free (params.source);
  return code;
}

static int
record_run (const LmtCommandContext *context, GError **error)
{
  const RecordConfig *config = context->config;
  WorkLine line;
  int code = 2;

  if (!lmt_options_check_required (context->options, error))
    return 2;
  if (g_str_equal (config->flags.trace_output, "-"))
    lmt_output_set_stdout_taken (context->output);
  work_line_init (&line, context->options, &config->flags);
  code = run_record (context, &line, error);
  work_line_clear (&line);
  return code;
}

static const char *const record_examples[] = {
  "lmtrace record --workload chat -o chat.lct",
  "lmtrace record --workload rag --seed 7 --limit 10k -o rag.lct.zst",
  "lmtrace record --workload mine.json --l1-size 8GiB --l2 model -o mine.lct",
  NULL,
};

const LmtCommandOps *
work_record_ops (void)
{
  static LmtCommandOps ops = {
    .struct_size = sizeof (LmtCommandOps),
    .config_size = sizeof (RecordConfig),
    .name = "record",
    .summary = "Drive a StorageManager with a described workload and record it",
    .synopsis = "[OPTIONS] --workload FILE -o OUT",
    .examples = record_examples,
    .run = record_run,
    .more_text
    = "A workload says who asks when for how much: users, turns, shared prefixes, documents, arrivals, lengths, a model's shape. "
      "Each request asks for its whole prefix, reads what was hit and stores the whole chunks behind it, through the doors a "
      "server's requests go through. The options of L1, L2 and eviction are those of replay; without any, L1 has 64 GiB and "
      "evicts by LRU, or as the workload's manager says.\n\n"
      "On the virtual clock the output is the same, byte for byte, on every run and machine. A first signal lets the requests "
      "under way end; a second one does not. doc/workloads.md describes the file.",
  };

  if (ops.options == NULL)
    ops.options = work_options_table (record_own, G_STRUCT_OFFSET (RecordConfig, flags));
  return &ops;
}
