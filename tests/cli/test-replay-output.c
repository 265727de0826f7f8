/* SPDX-License-Identifier: Apache-2.0 */
/* cli.md 9.2: fixed latencies through the writers; every byte as LMCache 0.5.6 and 0.5.7 print it. */
#include "../../cli/cli-replay-output.h"

#include <math.h>
#include <string.h>

typedef struct
{
  char *qualname;
  GArray *ms; /* of successes, as LMCache's doubles */
  LmtStats *stats;
  guint64 failed;
} Op;

typedef struct
{
  double duration_s;
  char *header_digest;
  char *replay_digest;
  GPtrArray *ops;
  GString *jsonl;
  guint64 replayed;
  guint64 failed;
} Input;

static void
op_free (gpointer data)
{
  Op *const op = data;
  g_free (op->qualname);
  g_array_unref (op->ms);
  lmt_stats_free (op->stats);
  g_free (op);
}

static char *
golden (const char *name, const char *suffix)
{
  g_autofree char *base = g_strconcat (name, suffix, NULL);
  g_autofree char *path = g_build_filename (g_getenv ("LMT_TEST_DATA"), "cli", "injected", base, NULL);
  char *text = NULL;
  return g_file_get_contents (path, &text, NULL, NULL) ? text : NULL;
}

/* Not every set has every file; @compared counts those there were. */
static void
compare (const char *name, const char *suffix, const char *text, guint *compared)
{
  g_autofree char *wanted = golden (name, suffix);
  if (wanted == NULL)
    return;
  g_assert_cmpstr (text, ==, wanted);
  ++*compared;
}

/* Files of a set but its input. */
static guint
count_files (const char *name)
{
  g_autofree char *folder = g_build_filename (g_getenv ("LMT_TEST_DATA"), "cli", "injected", NULL);
  g_autofree char *prefix = g_strconcat (name, ".", NULL);
  g_autoptr (GDir) dir = g_dir_open (folder, 0, NULL);
  const char *entry;
  guint n = 0;
  while ((entry = g_dir_read_name (dir)) != NULL)
    if (g_str_has_prefix (entry, prefix) && !g_str_has_suffix (entry, ".input.tsv"))
      n++;
  return n;
}

static Op *
input_op (Input *input, const char *qualname)
{
  for (guint i = 0; i < input->ops->len; i++)
    if (strcmp (((Op *)g_ptr_array_index (input->ops, i))->qualname, qualname) == 0)
      return g_ptr_array_index (input->ops, i);
  Op *const op = g_new0 (Op, 1);
  op->qualname = g_strdup (qualname);
  op->ms = g_array_new (FALSE, FALSE, sizeof (double));
  op->stats = lmt_stats_new ();
  g_ptr_array_add (input->ops, op);
  return op;
}

static void
input_load (Input *input, const char *name)
{
  g_autofree char *text = golden (name, ".input.tsv");
  g_auto (GStrv) lines = g_strsplit (text, "\n", -1);

  input->duration_s = g_ascii_strtod (strchr (lines[0], '\t') + 1, NULL);
  input->header_digest = g_strdup (strchr (lines[1], '\t') + 1);
  input->replay_digest = g_strdup (strchr (lines[2], '\t') + 1);
  input->ops = g_ptr_array_new_with_free_func (op_free);
  input->jsonl = g_string_new (NULL);
  for (guint i = 3; lines[i] != NULL && lines[i + 1] != NULL; i++)
    {
      g_auto (GStrv) cells = g_strsplit (lines[i], "\t", -1);
      g_assert_cmpuint (g_strv_length (cells), ==, 3);
      const double seconds = g_ascii_strtod (cells[1], NULL);
      const double ms = seconds * 1000.0;
      const gboolean failed = strcmp (cells[2], "1") == 0;
      const CliReplayLine line = { .number = i - 2,
                                   .qualname = cells[0],
                                   .qualname_len = strlen (cells[0]),
                                   .status = failed ? LMT_STATUS_FAILED : LMT_STATUS_OK,
                                   .latency_ms = ms };
      cli_replay_append_jsonl (input->jsonl, &line, 56);
      Op *const op = input_op (input, cells[0]);
      if (failed)
        {
          op->failed++;
          input->failed++;
          continue;
        }
      g_array_append_val (op->ms, ms);
      lmt_stats_add (op->stats, (gint64)llround (seconds * 1e9));
      input->replayed++;
    }
}

static void
input_clear (Input *input)
{
  g_free (input->header_digest);
  g_free (input->replay_digest);
  g_ptr_array_unref (input->ops);
  g_string_free (input->jsonl, TRUE);
}

static char *
digest_row (const Input *input)
{
  const char *const rec = input->header_digest;
  const char *const run = input->replay_digest;
  if (*rec != '\0' && *run != '\0' && strcmp (rec, run) != 0)
    return g_strdup_printf ("MISMATCH (rec=%.8s, run=%.8s)", rec, run);
  return *rec == '\0' ? NULL : g_strdup_printf ("match (%.8s)", rec);
}

static void
fill_result (const Input *input, guint32 compat, const char *digest, CliReplayRow *rows, CliReplayResult *result)
{
  *result = (CliReplayResult){ .compat = compat, .level = "storage", .digest_row = digest, .duration_s = input->duration_s };
  result->status[LMT_STATUS_OK] = input->replayed;
  result->status[LMT_STATUS_FAILED] = input->failed;
  result->records = input->replayed + input->failed;
  result->rows = rows;
  result->n_rows = input->ops->len;
  for (guint i = 0; i < input->ops->len; i++)
    {
      const Op *const op = g_ptr_array_index (input->ops, i);
      rows[i] = (CliReplayRow){ .qualname = op->qualname };
      rows[i].status[LMT_STATUS_OK] = op->ms->len;
      rows[i].status[LMT_STATUS_FAILED] = op->failed;
      g_autofree double *samples = g_memdup2 (op->ms->data, op->ms->len * sizeof (double));
      cli_figures_from_ms (&rows[i].call, samples, op->ms->len, cli_replay_rank (compat));
    }
}

static void
check_near (double found, double wanted)
{
  g_assert_cmpfloat (fabs (found - wanted), <=, 5.1e-7 + fabs (wanted) * 1e-15);
}

/* The path of production, integer nanoseconds: the same figures but for what rounding to a nanosecond takes. */
static void
check_stats_path (const Input *input, const CliReplayRow *rows, guint32 compat)
{
  for (guint i = 0; i < input->ops->len; i++)
    {
      CliFigures figures;
      cli_figures_from_stats (&figures, ((Op *)g_ptr_array_index (input->ops, i))->stats, cli_replay_rank (compat));
      g_assert_cmpuint (figures.count, ==, rows[i].call.count);
      check_near (figures.mean_ms, rows[i].call.mean_ms);
      check_near (figures.p50_ms, rows[i].call.p50_ms);
      check_near (figures.p90_ms, rows[i].call.p90_ms);
      check_near (figures.p99_ms, rows[i].call.p99_ms);
      check_near (figures.min_ms, rows[i].call.min_ms);
      check_near (figures.max_ms, rows[i].call.max_ms);
    }
}

static void
test_injected (gconstpointer data)
{
  const char *const name = data;
  Input input = { 0 };

  input_load (&input, name);
  guint compared = 0;
  compare (name, ".records.jsonl", input.jsonl->str, &compared);
  g_autofree CliReplayRow *rows = g_new0 (CliReplayRow, input.ops->len + 1);
  g_autofree char *digest = digest_row (&input);
  for (guint32 compat = 56; compat <= 57; compat++)
    {
      const gboolean v056 = compat == 56;
      CliReplayResult result;
      fill_result (&input, compat, digest, rows, &result);
      g_autoptr (LmtReport) report = cli_replay_report (&result);
      g_autofree char *table = lmt_report_to_text (report);
      g_autofree char *csv = cli_replay_csv (&result);
      g_autofree char *summary = cli_replay_summary_json (&result, NULL, NULL);
      compare (name, v056 ? ".v056.table.txt" : ".v057.table.txt", table, &compared);
      compare (name, v056 ? ".v056.ops.csv" : ".v057.ops.csv", csv, &compared);
      compare (name, v056 ? ".v056.summary.json" : ".v057.summary.json", summary, &compared);
      check_stats_path (&input, rows, compat);
      if (!v056)
        continue;

      /* The JSON form of the same report: LMCache's keys and values; lmtrace's envelope stands around it. */
      g_autoptr (GString) text = g_string_new (NULL);
      LmtJsonWriter *const json = lmt_json_writer_new (text, LMT_JSON_STYLE_INDENT);
      lmt_json_writer_begin_object (json);
      lmt_json_writer_key (json, "title");
      lmt_json_writer_string (json, lmt_report_get_title (report));
      lmt_json_writer_key (json, "metrics");
      lmt_report_write_metrics (report, json);
      lmt_json_writer_end_object (json);
      lmt_json_writer_free (json);
      compare (name, ".v056.formatter.json", text->str, &compared);
    }
  g_assert_cmpuint (compared, ==, count_files (name));
  g_assert_cmpuint (compared, >=, 3);
  input_clear (&input);
}

/* Without compat: the same rows first, then more. */
static void
test_superset (gconstpointer data)
{
  const char *const name = data;
  Input input = { 0 };

  input_load (&input, name);
  g_autofree CliReplayRow *rows = g_new0 (CliReplayRow, input.ops->len + 1);
  g_autofree char *digest = digest_row (&input);
  CliReplayResult result;
  fill_result (&input, 0, digest, rows, &result);
  g_autoptr (LmtReport) report = cli_replay_report (&result);
  g_autofree char *table = lmt_report_to_text (report);
  g_autofree char *wanted = golden (name, ".v057.table.txt");
  g_auto (GStrv) lines = g_strsplit (table, "\n", -1);
  g_auto (GStrv) wanted_lines = g_strsplit (wanted, "\n", -1);
  gboolean marked = FALSE;
  guint i = 0;
  for (; wanted_lines[i + 2] != NULL; i++) /* all but the footer */
    {
      g_autofree char *plain = g_strdup (lines[i]);
      char *const mark = strstr (plain, " p99*:");
      if (mark != NULL)
        {
          /* The mark takes one of the blanks. */
          g_autofree char *tail = g_strdup (mark + strlen (" p99*:"));
          const gboolean at_the_edge = tail[0] == ' ' && tail[1] != ' ';
          g_assert_true (at_the_edge || g_str_has_prefix (tail, "  "));
          g_free (plain);
          plain = g_strdup_printf ("%.*s p99:%s%s", (int)(strstr (lines[i], " p99*:") - lines[i]), lines[i],
                                   at_the_edge ? "" : " ", tail);
          marked = TRUE;
        }
      g_assert_cmpstr (plain, ==, wanted_lines[i]);
    }
  g_assert_true (g_str_has_prefix (lines[i], "---"));
  g_assert_nonnull (strstr (lines[i], " Pacing "));
  g_assert_true ((strstr (table, "\n* fewer samples than the percentile needs\n") != NULL) == marked);

  g_autofree char *csv = cli_replay_csv (&result);
  g_assert_true (g_str_has_prefix (csv, "qualname,count,errors,mean_ms,p50_ms,p90_ms,p99_ms,min_ms,max_ms,skipped,undecodable,"
                                        "mismatch,p999_ms,lag_p99_ms,done_p50_ms,done_p99_ms,bytes\r\n"));
  g_autoptr (LmtJson) extra = lmt_json_parse ("{\"trace\": {\"z\": 1, \"a\": 2}, \"tiers\": {}}", -1, NULL);
  g_autoptr (LmtWarnings) warnings = lmt_warnings_new ();
  g_autofree char *summary = cli_replay_summary_json (&result, extra, warnings);
  g_autoptr (LmtJson) parsed = lmt_json_parse (summary, -1, NULL);
  g_assert_nonnull (parsed);
  static const char *const keys[] = { "duration_s", "lag", "ops", "pacing", "schema", "tiers", "trace", "warnings" };
  g_assert_cmpuint (lmt_json_get_length (parsed), ==, G_N_ELEMENTS (keys));
  for (guint k = 0; k < G_N_ELEMENTS (keys); k++)
    g_assert_cmpstr (lmt_json_get_member_name (parsed, k), ==, keys[k]);
  input_clear (&input);
}

/* How the five words become LMCache's three. */
static void
test_compat_counts (void)
{
  CliReplayRow rows[3] = { { .qualname = "a.skipped" }, { .qualname = "b.undecodable" }, { .qualname = "c.mixed" } };
  rows[0].status[LMT_STATUS_SKIPPED] = 2;
  rows[1].status[LMT_STATUS_UNDECODABLE] = 3;
  rows[2].status[LMT_STATUS_OK] = 4;
  rows[2].status[LMT_STATUS_MISMATCH] = 1;
  rows[2].status[LMT_STATUS_UNDECODABLE] = 5;
  rows[2].missing_argument = 2;
  rows[2].status[LMT_STATUS_FAILED] = 1;
  CliReplayResult result = { .compat = 56, .level = "storage", .rows = rows, .n_rows = 3 };
  for (guint i = 0; i < 3; i++)
    for (guint s = 0; s < LMT_N_STATUS; s++)
      result.status[s] += rows[i].status[s];
  result.missing_argument = 2;
  result.records = 16;

  g_autofree char *csv = cli_replay_csv (&result);
  g_assert_cmpstr (csv, ==,
                   "qualname,count,errors,mean_ms,p50_ms,p90_ms,p99_ms,min_ms,max_ms\r\n"
                   "c.mixed,5,3,0.000000,0.000000,0.000000,0.000000,0.000000,0.000000\r\n");
  g_autoptr (LmtReport) report = cli_replay_report (&result);
  g_autofree char *table = lmt_report_to_text (report);
  g_assert_nonnull (strstr (table, "Records replayed:                                              5\n"));
  g_assert_nonnull (strstr (table, "Records skipped:                                               8\n"));
  g_assert_nonnull (strstr (table, "Records failed:                                                3\n"));
  g_assert_null (strstr (table, "undecodable"));

  result.compat = 0;
  result.malformed = 7;
  g_autofree char *own = cli_replay_csv (&result);
  g_assert_nonnull (strstr (own, "\r\na.skipped,0,0,0.000000,0.000000,0.000000,0.000000,0.000000,0.000000,2,0,0,"));
  g_assert_nonnull (strstr (own, "\r\nc.mixed,4,1,0.000000,0.000000,0.000000,0.000000,0.000000,0.000000,0,5,1,"));
  g_autoptr (LmtReport) own_report = cli_replay_report (&result);
  g_autofree char *own_table = lmt_report_to_text (own_report);
  g_assert_nonnull (strstr (own_table, "Records replayed:                                              4\n"));
  g_assert_nonnull (strstr (own_table, "Records undecodable:                                           8\n"));
  g_assert_nonnull (strstr (own_table, "Records mismatch:                                              1\n"));
  g_assert_nonnull (strstr (own_table, "Frames malformed:                                              7\n"));
  /* Names without a call have no rows. */
  g_assert_null (strstr (own_table, "skipped count:"));
  g_assert_null (strstr (own_table, "undecodable count:"));
}

static void
test_lines (void)
{
  static const struct
  {
    guint32 status;
    const char *jsonl;
    const char *compat;
    const char *verbose;
    const char *verbose_compat;
  } cases[] = {
    { LMT_STATUS_OK, "\"failed\": false, \"status\": \"ok\"", "\"failed\": false}", "]  OK    ", "]  OK    " },
    { LMT_STATUS_SKIPPED, "\"failed\": false, \"status\": \"skipped\"", "\"failed\": true}", "]  SKIP  ", "]  FAIL  " },
    { LMT_STATUS_UNDECODABLE, "\"failed\": false, \"status\": \"undecodable\"", "\"failed\": true}", "]  UNDEC  ", "]  FAIL  " },
    { LMT_STATUS_FAILED, "\"failed\": true, \"status\": \"failed\"", "\"failed\": true}", "]  FAIL  ", "]  FAIL  " },
    { LMT_STATUS_MISMATCH, "\"failed\": false, \"status\": \"mismatch\"", "\"failed\": false}", "]  MISM  ", "]  OK    " },
  };
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      const CliReplayLine line = { .number = 3,
                                   .qualname = "m.f\303\274r",
                                   .qualname_len = 6,
                                   .status = cases[i].status,
                                   .latency_ms = 0.32602,
                                   .t_mono_s = 1.5,
                                   .lag_ms = 0.001,
                                   .done_ms = i == 0 ? 12.5 : -1,
                                   .bytes = 4096,
                                   .error = cases[i].status == LMT_STATUS_FAILED ? "no \"memory\"" : NULL };
      g_autoptr (GString) jsonl = g_string_new (NULL);
      g_autoptr (GString) compat = g_string_new (NULL);
      g_autoptr (GString) verbose = g_string_new (NULL);
      g_autoptr (GString) verbose_compat = g_string_new (NULL);
      cli_replay_append_jsonl (jsonl, &line, 0);
      cli_replay_append_jsonl (compat, &line, 57);
      cli_replay_append_verbose (verbose, &line, 40, 0);
      cli_replay_append_verbose (verbose_compat, &line, 0, 56);
      g_autoptr (LmtJson) parsed = lmt_json_parse (jsonl->str, -1, NULL);
      g_assert_nonnull (parsed);
      g_assert_nonnull (strstr (jsonl->str, cases[i].jsonl));
      g_assert_nonnull (strstr (compat->str, cases[i].compat));
      g_assert_true (g_str_has_prefix (compat->str, "{\"qualname\": \"m.f\\u00fcr\", \"latency_ms\": 0.32602, \"failed\": "));
      g_assert_true (g_str_has_prefix (verbose->str, "  [3/40]"));
      g_assert_nonnull (strstr (verbose->str, cases[i].verbose));
      g_assert_true (g_str_has_suffix (verbose->str, "     0.326ms  m.f\303\274r\n"));
      g_assert_true (g_str_has_prefix (verbose_compat->str, "  [3]"));
      g_assert_nonnull (strstr (verbose_compat->str, cases[i].verbose_compat));
      g_assert_true ((lmt_json_get_member (parsed, "error") != NULL) == (line.error != NULL));
      g_assert_cmpint (lmt_json_get_type (lmt_json_get_member (parsed, "done_ms")), ==, i == 0 ? LMT_JSON_DOUBLE : LMT_JSON_NULL);
    }
}

static void
test_exact_sum (void)
{
  double samples[] = { 1e100, 1.0, -1e100, 1e-30, 3.0 };
  CliFigures figures;
  cli_figures_from_ms (&figures, samples, G_N_ELEMENTS (samples), LMT_RANK_NEAREST);
  g_assert_cmpfloat (figures.mean_ms, ==, 4.0 / 5);
  /* A plain loop gives 0.9999999999999999. */
  double tenths[] = { 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1 };
  cli_figures_from_ms (&figures, tenths, G_N_ELEMENTS (tenths), LMT_RANK_NEAREST);
  g_assert_cmpfloat (figures.mean_ms * 10, ==, 1.0);
}

int
main (int argc, char **argv)
{
  static const char *const names[] = { "names", "none", "one", "onlyfail", "pair", "ten", "hundred", "mixed" };

  g_test_init (&argc, &argv, NULL);
  for (guint i = 0; i < G_N_ELEMENTS (names); i++)
    {
      g_autofree char *test = g_strdup_printf ("/replay-output/injected/%s", names[i]);
      g_autofree char *superset = g_strdup_printf ("/replay-output/superset/%s", names[i]);
      g_test_add_data_func (test, names[i], test_injected);
      if (i < 6) /* of the larger sets there is only 0.5.6's table, whose percentiles are others */
        g_test_add_data_func (superset, names[i], test_superset);
    }
  g_test_add_func ("/replay-output/compat-counts", test_compat_counts);
  g_test_add_func ("/replay-output/lines", test_lines);
  g_test_add_func ("/replay-output/exact-sum", test_exact_sum);
  return g_test_run ();
}
