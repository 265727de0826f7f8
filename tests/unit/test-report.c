/* SPDX-License-Identifier: Apache-2.0 */
#include <lmtrace/lmtrace.h>

#include <string.h>

static char *
metrics_of (const LmtReport *report)
{
  GString *const text = g_string_new (NULL);
  LmtJsonWriter *const json = lmt_json_writer_new (text, LMT_JSON_STYLE_COMPACT);
  lmt_report_write_metrics (report, json);
  lmt_json_writer_free (json);
  return g_string_free (text, FALSE);
}

static char *
golden (const char *name)
{
  g_autofree char *path = g_build_filename (g_getenv ("LMT_TEST_DATA"), "cli", "injected", name, NULL);
  g_autoptr (GError) error = NULL;
  char *text = NULL;
  g_file_get_contents (path, &text, NULL, &error);
  g_assert_no_error (error);
  return text;
}

/* Table and JSON of replay-events, with given counts. */
static void
test_events (void)
{
  static const struct
  {
    const char *key;
    const char *label;
    gint64 value;
  } rows[] = {
    { "files", "Files", 2 },
    { "servers", "Servers", 3 },
    { "records", "Records", 14 },
    { "batches", "Batches delivered", 10 },
    { "applied", "Batches applied", 8 },
    { "duplicates", "Batches duplicate", 1 },
    { "stale", "Batches stale", 1 },
    { "starts", "Start marks", 3 },
    { "stops", "Stop marks", 1 },
    { "ended", "Streams cut without stop", 1 },
    { "skipped", "Records skipped", 0 },
  };
  g_autoptr (LmtReport) report = lmt_report_new ("Events Replay Result", LMT_REPORT_WIDTH);
  LmtSection *const overall = lmt_report_add_section (report, "overall", "Overall", TRUE);
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    lmt_section_add_int (overall, rows[i].key, rows[i].label, rows[i].value);
  lmt_section_add_rounded (overall, "duration", "Replay duration (s)", 0.7064999);

  g_autofree char *text = lmt_report_to_text (report);
  g_autofree char *wanted = golden ("events-report.table.txt");
  g_assert_cmpstr (text, ==, wanted);
  g_autofree char *metrics = metrics_of (report);
  g_autofree char *formatter = golden ("events-report.formatter.json");
  g_autoptr (LmtJson) whole = lmt_json_parse (formatter, -1, NULL);
  g_autofree char *wanted_metrics = lmt_json_to_text (lmt_json_get_member (whole, "metrics"), LMT_JSON_STYLE_COMPACT, FALSE);
  g_assert_cmpstr (metrics, ==, wanted_metrics);
}

/* cli.md 1.2: str.center() of LMCache, for odd and even widths. */
static void
test_centring (void)
{
  static const struct
  {
    const char *title;
    guint width;
    const char *line;
  } cases[] = {
    { "ab", 8, "== ab ==" },
    { "abc", 8, "= abc ==" },
    { "ab", 9, "=== ab ==" },
    { "abc", 9, "== abc ==" },
    { "abcdef", 8, " abcdef " },
    { "abcdefg", 8, " abcdefg " },
    { "\346\227\245", 6, "= \346\227\245 ==" },
  };
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autoptr (LmtReport) report = lmt_report_new (cases[i].title, cases[i].width);
      g_autofree char *text = lmt_report_to_text (report);
      g_auto (GStrv) lines = g_strsplit (text, "\n", -1);
      g_assert_cmpstr (lines[0], ==, cases[i].line);
      g_assert_cmpuint (strlen (lines[1]), ==, cases[i].width);
    }
}

static void
test_rounding (void)
{
  static const struct
  {
    double value;
    const char *text;
  } cases[] = {
    { 2.6551, "2.65" }, { 2.6750001, "2.67" }, { 0.0449999, "0.04" },
    { 0.0, "0.00" },    { 1.005, "1.00" },     { 1e9 + 0.125, "1000000000.12" },
  };
  char buffer[64];
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    g_assert_cmpstr (lmt_format_rounded (cases[i].value, buffer), ==, cases[i].text);
}

static void
test_sections (void)
{
  static const char *const columns[] = { "op", "%count", "note", NULL };
  static const char *const first[] = { "store", "12", NULL };
  static const char *const second[] = { "load \303\274", "3", "x" };
  g_autoptr (LmtReport) report = lmt_report_new ("T", 20);
  LmtSection *const plain = lmt_report_add_section (report, NULL, NULL, TRUE);
  lmt_section_add_string (plain, "name", "Name", NULL);
  lmt_section_add_bool (plain, "ok", "Ok", TRUE);
  lmt_section_add_double (plain, "d", "D", 1.005);
  lmt_section_add_size (plain, "bytes", "Size", 2048);
  lmt_section_add_string (plain, "long", "A label that is long", "value");
  LmtSection *const hidden = lmt_report_add_section (report, "hidden", "Hidden", FALSE);
  lmt_section_add_int (hidden, "i", "I", -1);
  lmt_section_add_json (hidden, "list", "[1, {\"a\": null}]");
  LmtSection *const table = lmt_report_add_table (report, "rows", NULL, columns);
  lmt_section_add_row (table, first);
  lmt_section_add_row (table, second);
  lmt_report_add_table (report, "none", "None", columns);
  lmt_report_add_foot (report, "* foot");

  g_autofree char *text = lmt_report_to_text (report);
  g_assert_cmpstr (text, ==,
                   "======== T =========\n"
                   "Name:            N/A\n"
                   "Ok:             True\n"
                   "D:              1.00\n"
                   "Size: 2048 (2.0 KiB)\n"
                   "A label that is long: value\n"
                   "op      count  note\n"
                   "-------------------\n"
                   "store      12\n"
                   "load \303\274      3  x\n"
                   "------- None -------\n"
                   "op  count  note\n"
                   "---------------\n"
                   "(none)\n"
                   "* foot\n"
                   "====================\n");
  g_autofree char *metrics = metrics_of (report);
  g_assert_cmpstr (
      metrics, ==,
      "{\"name\":null,\"ok\":true,\"d\":1.005,\"bytes\":2048,\"long\":\"value\",\"hidden\":{\"i\":-1,\"list\":[1,{\"a\":null}]},"
      "\"rows\":[{\"op\":\"store\",\"count\":12,\"note\":null},{\"op\":\"load "
      "\\u00fc\",\"count\":3,\"note\":\"x\"}],\"none\":[]}");
  g_autofree char *csv = lmt_report_to_csv (report);
  g_assert_true (g_str_has_prefix (csv, "section,row,key,value\r\n,,name,\r\n,,ok,true\r\n"));
  g_assert_nonnull (strstr (csv, "\r\nrows,2,op,load \303\274\r\n"));
}

/* Two entries of one key: in JSON the first's place and the last's value, in text both. */
static void
test_equal_keys (void)
{
  g_autoptr (LmtReport) report = lmt_report_new ("T", 20);
  LmtSection *const section = lmt_report_add_section (report, "ops", "Ops", TRUE);
  lmt_section_add_int (section, "a", "a", 1);
  lmt_section_add_int (section, "b", "b", 2);
  lmt_section_add_int (section, "a", "a", 3);
  g_autofree char *metrics = metrics_of (report);
  g_assert_cmpstr (metrics, ==, "{\"ops\":{\"a\":3,\"b\":2}}");
  g_autofree char *text = lmt_report_to_text (report);
  g_assert_nonnull (strstr (text, "a:                 1\nb:                 2\na:                 3\n"));
}

static void
test_csv_fields (void)
{
  static const char *const cases[][2] = {
    { "", "" },           { "plain", "plain" }, { "a b;c", "a b;c" }, { "a,b", "\"a,b\"" }, { "a\"b", "\"a\"\"b\"" },
    { "a\r", "\"a\r\"" }, { "\n", "\"\n\"" },   { "\"", "\"\"\"\"" },
  };
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autoptr (GString) out = g_string_new (NULL);
      lmt_csv_append (out, cases[i][0]);
      g_assert_cmpstr (out->str, ==, cases[i][1]);
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/report/events", test_events);
  g_test_add_func ("/report/centring", test_centring);
  g_test_add_func ("/report/rounding", test_rounding);
  g_test_add_func ("/report/sections", test_sections);
  g_test_add_func ("/report/equal-keys", test_equal_keys);
  g_test_add_func ("/report/csv-fields", test_csv_fields);
  return g_test_run ();
}
