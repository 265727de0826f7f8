// SPDX-License-Identifier: Apache-2.0
/* bench-adapter: figures of an adapter alone, to choose a depth by before a replay; cli.md 8.1 and 8.15. */
#include "kit-measure.h"
#include "kit-model.h"
#include "kit.h"

typedef struct
{
  guint64 size_bytes;
  guint64 depth;
  double read_share;
  guint64 working_set_bytes;
  gint64 time_ns;
  guint64 count;
  guint64 seed;
  guint32 keep;
  char *model_out;
} BenchConfig;

static const LmtOption bench_options[] = {
  LMT_OPTION_FULL (SIZE, "size", BenchConfig, size_bytes, 0, "1MiB", "1..", "SIZE", "Store and load objects of this size", NULL),
  LMT_OPTION_FULL (UINT, "depth", BenchConfig, depth, 0, "8", "1..4096", "N", "Keep this many operations in flight", NULL),
  LMT_OPTION_FULL (FRACTION, "read", BenchConfig, read_share, 0, "50%", "0..1", "PERCENT",
                   "Make this share of the operations loads", NULL),
  LMT_OPTION_FULL (
      SIZE, "working-set", BenchConfig, working_set_bytes, 0, "1GiB", "1..", "SIZE",
      "Keep objects of this many bytes together: stored before, when anything is loaded; the oldest goes for a new one", NULL),
  LMT_OPTION_FULL (DURATION, "time", BenchConfig, time_ns, 0, "10s", "(0..", "DURATION",
                   "Measure for this long; without effect beside --count", NULL),
  LMT_OPTION_FULL (COUNT, "count", BenchConfig, count, 0, NULL, "1..", "N", "Measure this many operations", NULL),
  LMT_OPTION_FULL (UINT, "seed", BenchConfig, seed, 0, "0", NULL, "N", "Draw contents, names and order by this seed", NULL),
  LMT_OPTION_FULL (BOOL, "keep", BenchConfig, keep, 0, NULL, NULL, NULL, "Leave the objects on the medium", NULL),
  LMT_OPTION_FULL (STRING, "model-out", BenchConfig, model_out, 0, NULL, "nonempty", "FILE",
                   "Measure sizes and depths up to the given ones and write the table of the model adapter", NULL),
  LMT_OPTION_END,
};

typedef struct
{
  const BenchConfig *config;
  const LmtCommandContext *context;
  KitBench *bench;
  guint depth;
  guint64 window;
  KitPhase prepare;
  KitPhase phase;
  guint64 errors;
  guint64 used_before; /* bytes on the medium when it was opened */
  guint64 left_bytes;  /* of objects that should not have stayed */
} Bench;

static void
on_message (gpointer data, const char *kind, const char *text)
{
  if (g_str_has_prefix (kind, "info"))
    g_info ("%s", text);
  else
    lmt_warnings_add (data, kind, text);
}

static void
on_more (gpointer data, const char *kind, guint64 n)
{
  lmt_warnings_add_count (data, kind, n);
}

/* -------- report -------- */

static void
write_kind (LmtJsonWriter *json, const Bench *bench, guint kind)
{
  const KitPhase *phase = &bench->phase;
  const KitFigures *figures = &phase->kind[kind];
  const struct
  {
    const char *name;
    LmtStats *stats;
  } times[] = { { "completion", figures->completion }, { "service", figures->service }, { "queue", figures->queue } };
  const struct
  {
    const char *name;
    double value;
  } rates[] = { { "mib_per_s", kit_phase_mib_per_s (phase, kind) }, { "iops", kit_phase_iops (phase, kind) } };
  lmt_json_writer_begin_object (json);
  lmt_json_writer_key (json, "ops");
  lmt_json_writer_uint (json, figures->ops);
  lmt_json_writer_key (json, "bytes");
  lmt_json_writer_uint (json, figures->bytes);
  for (guint i = 0; i < G_N_ELEMENTS (rates); i++)
    {
      lmt_json_writer_key (json, rates[i].name);
      lmt_json_writer_double (json, rates[i].value);
    }
  for (guint i = 0; i < G_N_ELEMENTS (times); i++)
    {
      lmt_json_writer_key (json, times[i].name);
      lmt_json_writer_begin_object (json);
      lmt_json_writer_key (json, "count");
      lmt_json_writer_uint (json, lmt_stats_count (times[i].stats));
      lmt_json_writer_key (json, "p50_ms");
      lmt_json_writer_double (json, (double)lmt_stats_percentile (times[i].stats, 500, LMT_RANK_NEAREST) / 1e6);
      lmt_json_writer_key (json, "p99_ms");
      lmt_json_writer_double (json, (double)lmt_stats_percentile (times[i].stats, 990, LMT_RANK_NEAREST) / 1e6);
      lmt_json_writer_key (json, "p999_ms");
      lmt_json_writer_double (json, (double)lmt_stats_percentile (times[i].stats, 999, LMT_RANK_NEAREST) / 1e6);
      lmt_json_writer_key (json, "mean_ms");
      lmt_json_writer_double (json, lmt_stats_mean (times[i].stats) / 1e6);
      lmt_json_writer_end_object (json);
    }
  lmt_json_writer_key (json, "errors");
  lmt_json_writer_uint (json, kit_phase_errors (bench->bench, phase, kind));
  lmt_json_writer_key (json, "wrong_objects");
  lmt_json_writer_uint (json, figures->wrong);
  lmt_json_writer_key (json, "codes");
  lmt_json_writer_begin_object (json);
  for (guint code = 0; code < LMT_L2_N_CODES; code++)
    if (figures->codes[code] > 0)
      {
        lmt_json_writer_key (json, lmt_l2_code_name (code));
        lmt_json_writer_uint (json, figures->codes[code]);
      }
  lmt_json_writer_end_object (json);
  lmt_json_writer_end_object (json);
}

G_GNUC_PRINTF (4, 5)
static void
add_text (LmtSection *section, const char *key, const char *label, const char *format, ...)
{
  va_list args;
  va_start (args, format);
  g_autofree char *text = g_strdup_vprintf (format, args);
  va_end (args);
  lmt_section_add_string (section, key, label, text);
}

static double
milliseconds (LmtStats *stats, guint per_mille)
{
  return (double)lmt_stats_percentile (stats, per_mille, LMT_RANK_NEAREST) / 1e6;
}

static void
add_kind (LmtReport *report, LmtSection *all, const Bench *bench, guint kind, const char *label, gboolean *thin)
{
  const KitFigures *figures = &bench->phase.kind[kind];
  g_autoptr (GString) text = g_string_new (NULL);
  LmtJsonWriter *json = lmt_json_writer_new (text, LMT_JSON_STYLE_SPACED);
  write_kind (json, bench, kind);
  lmt_json_writer_free (json);
  lmt_section_add_json (all, lmt_l2_kind_name (kind), text->str);
  if (figures->ops == 0)
    return;
  guint64 n = lmt_stats_count (figures->completion);
  LmtSection *section = lmt_report_add_section (report, NULL, label, LMT_SECTION_TEXT_ONLY);
  add_text (section, "ops", "operations", "%" G_GUINT64_FORMAT, figures->ops);
  if (kind != LMT_L2_DELETE)
    add_text (section, "mib", "MiB/s", "%.1f", kit_phase_mib_per_s (&bench->phase, kind));
  add_text (section, "iops", "IOPS", "%.0f", kit_phase_iops (&bench->phase, kind));
  add_text (section, "p50", "completion p50 (ms)", "%.3f", milliseconds (figures->completion, 500));
  add_text (section, "p99", n < 100 ? "completion p99 (ms)*" : "completion p99 (ms)", "%.3f",
            milliseconds (figures->completion, 990));
  add_text (section, "p999", n < 1000 ? "completion p99.9 (ms)*" : "completion p99.9 (ms)", "%.3f",
            milliseconds (figures->completion, 999));
  add_text (section, "queue", "queue p50 (ms)", "%.3f", milliseconds (figures->queue, 500));
  add_text (section, "queue99", n < 100 ? "queue p99 (ms)*" : "queue p99 (ms)", "%.3f", milliseconds (figures->queue, 990));
  *thin |= n < 1000;
  add_text (section, "errors", "errors", "%" G_GUINT64_FORMAT, kit_phase_errors (bench->bench, &bench->phase, kind));
  for (guint code = 0; code < LMT_L2_N_CODES; code++)
    if (code != LMT_L2_OK && figures->codes[code] > 0)
      {
        g_autofree char *row = g_strdup_printf ("  %s", lmt_l2_code_name (code));
        add_text (section, lmt_l2_code_name (code), row, "%" G_GUINT64_FORMAT, figures->codes[code]);
      }
  if (figures->wrong > 0)
    add_text (section, "wrong", "loaded objects with wrong bytes", "%" G_GUINT64_FORMAT, figures->wrong);
}

static void
add_run (LmtReport *report, const Bench *bench)
{
  LmtL2 *l2 = kit_bench_get_l2 (bench->bench);
  LmtSection *section = lmt_report_add_section (report, "run", "Run", TRUE);
  lmt_section_add_string (section, "adapter", "adapter", lmt_l2_get_type_name (l2));
  lmt_section_add_size (section, "size_bytes", "object size", bench->config->size_bytes);
  lmt_section_add_int (section, "depth", "depth asked", bench->depth);
  lmt_section_add_int (section, "adapter_depth", "depth the adapter takes", lmt_l2_get_info (l2)->depth);
  lmt_section_add_int (section, "depth_max", "depth reached", bench->phase.depth_max);
  lmt_section_add_double (section, "depth_mean", "depth reached, mean while busy", bench->phase.depth_mean);
  lmt_section_add_double (section, "read_share", "share of loads", bench->config->read_share);
  lmt_section_add_size (section, "working_set_bytes", "working set", bench->window * bench->config->size_bytes);
  lmt_section_add_rounded (section, "elapsed_s", "measured (s)", (double)bench->phase.elapsed_ns / 1e9);
  lmt_section_add_rounded (section, "cpu_s", "CPU (s)", bench->phase.cpu_s);
  lmt_section_add_rounded (section, "cpu_s_per_gib", "CPU s per GiB", kit_phase_cpu_per_gib (&bench->phase));
  lmt_section_add_int (section, "protocol_errors", "protocol errors", (gint64)lmt_l2_get_figures (l2)->protocol_errors);
}

/* -------- run -------- */

static gboolean
open_bench (Bench *bench, const char *json, GError **error)
{
  const BenchConfig *config = bench->config;
  if (config->working_set_bytes < config->size_bytes)
    {
      g_set_error (error, LMT_ERROR, LMT_ERROR_OPTION,
                   "--working-set: expected at least one object of --size %" G_GUINT64_FORMAT ", found %" G_GUINT64_FORMAT,
                   config->size_bytes, config->working_set_bytes);
      return FALSE;
    }
  if (config->model_out != NULL && !lmt_output_check_path (config->model_out, error))
    return FALSE;
  const KitBenchParams params = { .largest_bytes = config->size_bytes,
                                  .depth_max = (guint)config->depth,
                                  .seed = config->seed,
                                  .interrupts = bench->context->interrupts,
                                  .message = on_message,
                                  .more = on_more,
                                  .message_data = bench->context->warnings };
  bench->bench = kit_bench_new (bench->context->registry, json, &params, error);
  if (bench->bench == NULL)
    return FALSE;
  LmtL2 *l2 = kit_bench_get_l2 (bench->bench);
  guint64 room = lmt_l2_get_capacity (l2), cost = MAX (config->size_bytes, lmt_l2_get_info (l2)->charge_bytes);
  bench->used_before = lmt_l2_get_used (l2);
  bench->depth = (guint)config->depth;
  bench->window = config->working_set_bytes / config->size_bytes;
  if (room > 0)
    {
      room -= MIN (room, lmt_l2_get_used (l2));
      guint64 fits = room / cost > 2 * bench->depth ? room / cost - 2 * bench->depth : 0;
      if (fits == 0)
        {
          g_set_error (error, LMT_ERROR, LMT_ERROR_OPTION,
                       "--working-set: expected room for more than %u objects of %" G_GUINT64_FORMAT
                       " bytes, found %" G_GUINT64_FORMAT " bytes free",
                       2 * bench->depth, cost, room);
          return FALSE;
        }
      if (fits < bench->window)
        {
          g_autofree char *text = g_strdup_printf ("--working-set: the adapter has room for %" G_GUINT64_FORMAT
                                                   " objects beside what is in flight, not for %" G_GUINT64_FORMAT,
                                                   fits, bench->window);
          lmt_warnings_add (bench->context->warnings, "working set", text);
          bench->window = fits;
        }
    }
  return TRUE;
}

static void
measure (Bench *bench)
{
  const BenchConfig *config = bench->config;
  gboolean by_count = config->count > 0;
  if (config->read_share > 0)
    {
      const KitPhaseSpec fill = { .object_bytes = config->size_bytes, .depth = bench->depth, .count = bench->window };
      kit_bench_run (bench->bench, &fill, &bench->prepare);
      bench->errors += kit_phase_errors (bench->bench, &bench->prepare, LMT_L2_STORE);
    }
  gboolean go_on = !bench->prepare.stalled && !bench->prepare.interrupted;
  const KitPhaseSpec spec = { .object_bytes = config->size_bytes,
                              .depth = bench->depth,
                              .read_share = config->read_share,
                              .window = bench->window,
                              .count = config->count,
                              .time_ns = by_count ? 0 : config->time_ns,
                              .verify = TRUE };
  if (go_on)
    kit_bench_run (bench->bench, &spec, &bench->phase);
  else
    bench->phase = bench->prepare;
  for (guint kind = 0; kind < LMT_L2_N_KINDS; kind++)
    bench->errors += kit_phase_errors (bench->bench, &bench->phase, kind);
  if (config->keep == 0 && !bench->phase.stalled)
    {
      kit_bench_remove_all (bench->bench, bench->depth, NULL);
      guint64 used = lmt_l2_get_used (kit_bench_get_l2 (bench->bench));
      bench->left_bytes = used > bench->used_before ? used - bench->used_before : 0;
    }
}

static int
report (Bench *bench, GError **error)
{
  g_autoptr (LmtReport) report = lmt_report_new ("Adapter benchmark", LMT_REPORT_WIDTH);
  gboolean thin = FALSE;
  add_run (report, bench);
  LmtSection *all = lmt_report_add_section (report, NULL, NULL, FALSE);
  add_kind (report, all, bench, LMT_L2_STORE, "Store", &thin);
  add_kind (report, all, bench, LMT_L2_LOAD, "Load", &thin);
  add_kind (report, all, bench, LMT_L2_DELETE, "Delete (the oldest, for the working set)", &thin);
  if (thin)
    lmt_report_add_foot (report, "* fewer samples than the percentile needs");
  if (bench->phase.kind[LMT_L2_STORE].bytes > 0 && bench->phase.kind[LMT_L2_LOAD].bytes > 0)
    lmt_report_add_foot (report, "CPU s per GiB: of stores and loads together");
  if (bench->phase.stalled)
    lmt_warnings_add (bench->context->warnings, "stalled", "nothing came back for 30 s: the adapter lost operations");
  if (bench->left_bytes > 0)
    {
      gboolean deletes = (lmt_l2_get_info (kit_bench_get_l2 (bench->bench))->capabilities & LMT_L2_CAP_DELETE) != 0;
      g_autofree char *text
          = deletes
                ? g_strdup_printf ("%" G_GUINT64_FORMAT " bytes could not be deleted: they stay on the medium", bench->left_bytes)
                : g_strdup ("the adapter cannot delete: the objects stay on the medium");
      lmt_warnings_add (bench->context->warnings, "kept", text);
    }
  int code = bench->phase.interrupted ? 130 : bench->errors > 0 || bench->phase.stalled ? 1 : 0;
  return lmt_output_report (bench->context->output, report, NULL, bench->phase.interrupted, code, error) ? code : 1;
}

/* A table on its way to stdout has it for itself. */
static int
report_model (Bench *bench, const KitModelDone *done, GError **error)
{
  if (strcmp (bench->config->model_out, "-") == 0)
    return 0;
  g_autoptr (LmtReport) report = lmt_report_new ("Adapter model", LMT_REPORT_WIDTH);
  LmtSection *section = lmt_report_add_section (report, "model", "Model", TRUE);
  lmt_section_add_string (section, "adapter", "adapter", lmt_l2_get_type_name (kit_bench_get_l2 (bench->bench)));
  lmt_section_add_string (section, "path", "table", bench->config->model_out);
  lmt_section_add_size (section, "largest_bytes", "largest objects", bench->config->size_bytes);
  lmt_section_add_int (section, "sizes", "size classes", done->sizes);
  lmt_section_add_int (section, "depths", "depths", done->depths);
  for (guint kind = 0; kind < LMT_L2_N_KINDS; kind++)
    {
      g_autofree char *key = g_strdup_printf ("%s_ops", lmt_l2_kind_name (kind));
      g_autofree char *label = g_strdup_printf ("%s operations", lmt_l2_kind_name (kind));
      lmt_section_add_int (section, key, label, (gint64)done->ops[kind]);
    }
  lmt_section_add_rounded (section, "measured_s", "measured (s)", (double)done->elapsed_ns / 1e9);
  return lmt_output_report (bench->context->output, report, NULL, FALSE, 0, error) ? 0 : 1;
}

static int
measure_model (Bench *bench, GError **error)
{
  const BenchConfig *config = bench->config;
  guint depth = MIN (bench->depth, MAX (lmt_l2_get_info (kit_bench_get_l2 (bench->bench))->depth, 1));
  const KitModelSpec spec = { .largest_bytes = config->size_bytes,
                              .working_set_bytes = bench->window * config->size_bytes,
                              .depth = depth,
                              .time_ns = config->time_ns,
                              .count = config->count };
  KitModelDone done;
  g_autofree char *table = kit_model_measure (bench->bench, &spec, &done, &bench->errors, error);
  if (table == NULL || !lmt_output_write_file (config->model_out, table, -1, error))
    return 1;
  if (bench->errors > 0)
    {
      g_set_error (error, LMT_L2_ERROR, LMT_L2_IO, "%s: written, but %" G_GUINT64_FORMAT " operations failed", config->model_out,
                   bench->errors);
      return 1;
    }
  return report_model (bench, &done, error);
}

static int
bench_run (const LmtCommandContext *context, GError **error)
{
  Bench bench = { .config = context->config, .context = context };
  int code = 2;
  if (open_bench (&bench, context->operands[0], error))
    {
      if (bench.config->model_out != NULL)
        code = measure_model (&bench, error);
      else
        {
          measure (&bench);
          code = report (&bench, error);
          if (bench.phase.kind[0].completion != bench.prepare.kind[0].completion)
            kit_phase_clear (&bench.prepare);
          kit_phase_clear (&bench.phase);
        }
      kit_bench_close (bench.bench, bench.phase.stalled ? 1000000000 : -1);
    }
  kit_bench_free (bench.bench);
  return code;
}

static const char *const bench_examples[] = {
  "lmtrace bench-adapter '{\"type\":\"dram\",\"max_size_gb\":2}'",
  "lmtrace bench-adapter --size 128KiB --depth 32 --read 100% \"$JSON\"",
  "lmtrace bench-adapter --model-out disk.json \"$JSON\"",
  NULL,
};

const LmtCommandOps kit_bench_ops = {
  .struct_size = sizeof (LmtCommandOps),
  .config_size = sizeof (BenchConfig),
  .name = "bench-adapter",
  .summary = "Measure an L2 adapter by itself",
  .synopsis = "[OPTIONS] JSON",
  .examples = bench_examples,
  .options = bench_options,
  .run = bench_run,
  .min_operands = 1,
  .max_operands = 1,
  .more_text
  = "JSON is an adapter's configuration, as for --l2-adapter of replay. Objects are stored and loaded by tasks of one key, a "
    "fixed number of them in flight, at random places of the working set. Completion is from the task's submission to its "
    "end; queue is the part of it in the core and in the adapter before the device (adapters that don't tell count "
    "as device). CPU is that of the whole process.\n\n"
    "--model-out writes a table (schema lmtrace/l2-model/1) of completion times by size class and depth, which the model adapter "
    "plays back on any machine. The page cache isn't dropped: a working set larger than memory, or an adapter with O_DIRECT, "
    "measures the device.",
};
