/* SPDX-License-Identifier: Apache-2.0 */
#include <lmtrace/lmtrace.h>

#include <string.h>

typedef struct
{
  guint32 lazy;
  guint32 quiet;
  guint32 verbose;
  char *path;
  gint64 offset;
  guint64 depth;
  double ratio;
  guint64 size;
  gint64 timeout_ns;
  guint64 limit;
  double share;
  char *policy;
  char **adapters;
  char *time;
  char *object;
  char *json;
  guint64 port;
  char *token;
  guint32 gc;
} Config;

static const LmtOption table[] = {
  LMT_OPTION_FULL (BOOL, "l1-use-lazy", Config, lazy, LMT_OPTION_NEGATABLE, "true", NULL, NULL, "Grow memory lazily", "Memory"),
  { "quiet", LMT_OPTION_TYPE_BOOL, 0, G_STRUCT_OFFSET (Config, quiet), 'q', NULL, NULL, NULL, "Print no report", NULL, { 0 } },
  { "verbose",
    LMT_OPTION_TYPE_BOOL,
    LMT_OPTION_COUNTED,
    G_STRUCT_OFFSET (Config, verbose),
    'v',
    NULL,
    NULL,
    NULL,
    "Log more",
    NULL,
    { 0 } },
  { "path",
    LMT_OPTION_TYPE_STRING,
    0,
    G_STRUCT_OFFSET (Config, path),
    'p',
    NULL,
    "nonempty",
    "DIR",
    "Folder of objects",
    NULL,
    { 0 } },
  LMT_OPTION (INT, "offset", Config, offset, "-5", "-10..10", "Shift by this many keys"),
  LMT_OPTION (UINT, "depth", Config, depth, "64", "1..1024", "Keep this many operations in flight"),
  LMT_OPTION (DOUBLE, "ratio", Config, ratio, "0.5", "(0..1]", "Evict this share"),
  LMT_OPTION (SIZE, "l1-size", Config, size, "4KiB", "4KiB..", "Size of L1, in bytes"),
  LMT_OPTION (DURATION, "timeout", Config, timeout_ns, "30s", "..1h", "Wait so long, in seconds"),
  LMT_OPTION (COUNT, "limit", Config, limit, NULL, "[0..1M)", "Stop after so many records"),
  LMT_OPTION (FRACTION, "share", Config, share, NULL, NULL, "Take this share"),
  LMT_OPTION (CHOICE, "eviction-policy", Config, policy, "LRU", "LRU|ARC|noop", "Choose the victims"),
  LMT_OPTION (STRINGS, "l2-adapter", Config, adapters, NULL, NULL, "Add an adapter"),
  LMT_OPTION (RANGE, "time", Config, time, NULL, NULL, "Take records of this time"),
  LMT_OPTION_FULL (JSON, "eviction", Config, object, LMT_OPTION_NULLABLE, NULL, NULL, NULL, "Evict from L2", NULL),
  LMT_OPTION (OPT_STRING, "json", Config, json, NULL, NULL, "Report as JSON"),
  LMT_OPTION_FULL (UINT, "port", Config, port, LMT_OPTION_NO_EFFECT, "9090", NULL, NULL, "Serve metrics", NULL),
  LMT_OPTION_FULL (STRING, "token", Config, token, LMT_OPTION_SECRET, NULL, NULL, NULL, "Log in so", NULL),
  LMT_OPTION_FULL (BOOL, "gc", Config, gc, LMT_OPTION_NO_EFFECT | LMT_OPTION_SILENT, NULL, NULL, NULL, "Collect garbage", NULL),
  LMT_OPTION_END,
};

static LmtOptions *
options_new (Config *config)
{
  LmtOptions *const options = lmt_options_new ();
  memset (config, 0, sizeof *config);
  lmt_options_add_table (options, table, config);
  return options;
}

static gboolean
parse (LmtOptions *options, gboolean strict, char ***operands, GError **error, const char *line)
{
  g_auto (GStrv) words = g_strsplit (line, " ", -1);
  return lmt_options_parse_argv (options, (const char *const *)words, strict, operands, error);
}

static void
test_defaults (void)
{
  Config config;
  g_autoptr (LmtOptions) options = options_new (&config);
  g_assert_cmpuint (config.lazy, ==, 1);
  g_assert_cmpint (config.offset, ==, -5);
  g_assert_cmpuint (config.depth, ==, 64);
  g_assert_cmpfloat (config.ratio, ==, 0.5);
  g_assert_cmpuint (config.size, ==, 4096);
  g_assert_cmpint (config.timeout_ns, ==, 30 * G_GINT64_CONSTANT (1000000000));
  g_assert_cmpstr (config.policy, ==, "LRU");
  g_assert_null (config.adapters);
  g_assert_null (config.path);
  g_assert_false (lmt_options_is_set (options, "depth"));
  g_autofree char *depth = lmt_options_get_text (options, "depth");
  g_assert_cmpstr (depth, ==, "64");
  g_assert_null (lmt_options_get_text (options, "path"));
}

static void
test_line (void)
{
  Config config;
  g_autoptr (GError) error = NULL;
  g_autoptr (LmtOptions) options = options_new (&config);
  g_auto (GStrv) operands = NULL;
  g_assert_true (parse (options, TRUE, &operands, &error,
                        "a.lct --no-l1-use-lazy -qvv --depth=8 --ratio 1 -pDIR --l2-adapter x --l2-adapter=y --json b.lct "
                        "--json=OUT --time 1..2 --offset -3 -v - -- --depth -q"));
  g_assert_no_error (error);
  g_assert_cmpuint (config.lazy, ==, 0);
  g_assert_cmpuint (config.quiet, ==, 1);
  g_assert_cmpuint (config.verbose, ==, 3);
  g_assert_cmpuint (config.depth, ==, 8);
  g_assert_cmpfloat (config.ratio, ==, 1);
  g_assert_cmpint (config.offset, ==, -3);
  g_assert_cmpstr (config.path, ==, "DIR");
  g_assert_cmpstr (config.json, ==, "OUT");
  g_assert_cmpstr (config.adapters[0], ==, "x");
  g_assert_cmpstr (config.adapters[1], ==, "y");
  g_assert_null (config.adapters[2]);
  g_autofree char *joined = g_strjoinv (" ", operands);
  g_assert_cmpstr (joined, ==, "a.lct b.lct - --depth -q");
  g_assert_cmpint (lmt_options_get_origin (options, "depth"), ==, LMT_ORIGIN_COMMAND_LINE);
  g_autofree char *adapters = lmt_options_get_text (options, "l2-adapter");
  g_assert_cmpstr (adapters, ==, "x;y");
  g_autofree char *verbose = lmt_options_get_text (options, "verbose");
  g_assert_cmpstr (verbose, ==, "3");
}

static void
test_bad_lines (void)
{
  static const char *const cases[][2] = {
    { "--depth", "--depth: expected a whole number from 1 to 1024, found the end of the line" },
    { "--depth --quiet", "--depth: expected a whole number from 1 to 1024, found the option --quiet" },
    { "--depth 0", "--depth: expected a whole number from 1 to 1024, found \"0\"" },
    { "--depth 1025", "--depth: expected a whole number from 1 to 1024, found \"1025\"" },
    { "--depth 1_0", "--depth: expected a whole number from 1 to 1024, found \"1_0\"" },
    { "--depth=", "--depth: expected a whole number from 1 to 1024, found \"\"" },
    { "--ratio 0", "--ratio: expected a number above 0 and at most 1, found \"0\"" },
    { "--ratio nan", "--ratio: expected a number above 0 and at most 1, found \"nan\"" },
    { "--ratio inf", "--ratio: expected a number above 0 and at most 1, found \"inf\"" },
    { "--l1-size 1", "--l1-size: expected a size (4096, 4KiB, 4kB, 1.5GiB) of at least 4KiB, found \"1\"" },
    { "--timeout 2h", "--timeout: expected a duration (250ms, 1.5s, 1h30min; seconds without unit) of at most 1h, found \"2h\"" },
    { "--limit 1M", "--limit: expected a count (1000, 10k, 1M) of at least 0 and below 1M, found \"1M\"" },
    { "--share x", "--share: expected a fraction (0.05 or 5%), found \"x\"" },
    { "--eviction-policy lru", "--eviction-policy: expected one of LRU, ARC, noop, found \"lru\"" },
    { "--eviction-policy LRU|ARC", "--eviction-policy: expected one of LRU, ARC, noop, found \"LRU|ARC\"" },
    { "--time 5", "--time: expected a range (START..END, either may be empty), found \"5\"" },
    { "--eviction {", "--eviction: expected a JSON value, found \"{\"" },
    { "--path=", "--path: expected a text that is not empty, found \"\"" },
    { "--quiet=1", "--quiet: expected no value, found \"1\"" },
    { "--no-l1-use-lazy=x", "--no-l1-use-lazy: expected no value, found \"x\"" },
    { "--no-quiet", "--no-quiet: unknown option: --help lists the known ones" },
    { "--dept 3", "--dept: unknown option: abbreviations are not taken: write --depth" },
    { "--l1 3", "--l1: unknown option: abbreviations are not taken: write one of --l1-use-lazy, --l1-size" },
    { "--no-l1 3", "--no-l1: unknown option: abbreviations are not taken: write --no-l1-use-lazy" },
    { "--depht 3", "--depht: unknown option: did you mean --depth?" },
    { "--colour", "--colour: unknown option: --help lists the known ones" },
    { "--=x", "--: unknown option: --help lists the known ones" },
    { "-x", "-x: unknown option" },
    { "-5", "-5: unknown option: a name that begins with '-' stands behind --" },
    { "-p", "--path: expected a text that is not empty, found the end of the line" },
  };
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      Config config;
      g_autoptr (GError) error = NULL;
      g_autoptr (LmtOptions) options = options_new (&config);
      char **operands = NULL;
      g_assert_false (parse (options, TRUE, &operands, &error, cases[i][0]));
      g_assert_error (error, LMT_ERROR, LMT_ERROR_OPTION);
      g_assert_cmpstr (error->message, ==, cases[i][1]);
      g_assert_null (operands);
    }
}

/* The first pass knows some options only; what it set doesn't count twice. */
static void
test_two_passes (void)
{
  Config config;
  g_autoptr (GError) error = NULL;
  g_autoptr (LmtOptions) options = options_new (&config);
  g_auto (GStrv) first = NULL;
  g_auto (GStrv) second = NULL;
  static const char line[] = "--unknown 3 -v --l2-adapter x -Z f.lct";
  g_assert_true (parse (options, FALSE, &first, &error, line));
  g_assert_no_error (error);
  g_assert_cmpuint (config.verbose, ==, 1);
  g_autofree char *joined = g_strjoinv (" ", first);
  g_assert_cmpstr (joined, ==, "3 f.lct");
  g_assert_true (parse (options, TRUE, &second, &error, "-v --l2-adapter x f.lct"));
  g_assert_cmpuint (config.verbose, ==, 1);
  g_assert_cmpuint (g_strv_length (config.adapters), ==, 1);
  /* Two strict lines add up: options in front of the command and behind it. */
  g_assert_true (parse (options, TRUE, NULL, &error, "-v --l2-adapter y"));
  g_assert_cmpuint (config.verbose, ==, 2);
  g_assert_cmpuint (g_strv_length (config.adapters), ==, 2);
}

/* cli.md 8.11: command line > environment > file > header > default. */
static void
test_precedence (void)
{
  static const LmtOrigin orders[][4] = {
    { LMT_ORIGIN_HEADER, LMT_ORIGIN_FILE, LMT_ORIGIN_ENVIRONMENT, LMT_ORIGIN_COMMAND_LINE },
    { LMT_ORIGIN_COMMAND_LINE, LMT_ORIGIN_ENVIRONMENT, LMT_ORIGIN_FILE, LMT_ORIGIN_HEADER },
    { LMT_ORIGIN_FILE, LMT_ORIGIN_COMMAND_LINE, LMT_ORIGIN_HEADER, LMT_ORIGIN_ENVIRONMENT },
  };
  for (guint i = 0; i < G_N_ELEMENTS (orders); i++)
    {
      Config config;
      g_autoptr (GError) error = NULL;
      g_autoptr (LmtOptions) options = options_new (&config);
      for (guint k = 0; k < 4; k++)
        {
          g_autofree char *number = g_strdup_printf ("%u", (guint)orders[i][k] + 10);
          g_assert_true (lmt_options_set (options, "depth", number, orders[i][k], &error));
          g_assert_true (lmt_options_set (options, "path", number, orders[i][k], &error));
          g_assert_true (lmt_options_set (options, "l2-adapter", number, orders[i][k], &error));
          g_assert_true (lmt_options_set (options, "l1-use-lazy", orders[i][k] == LMT_ORIGIN_COMMAND_LINE ? "false" : "true",
                                          orders[i][k], &error));
          g_assert_true (
              lmt_options_set (options, "verbose", orders[i][k] == LMT_ORIGIN_COMMAND_LINE ? "true" : "7", orders[i][k], &error));
        }
      g_assert_cmpuint (config.depth, ==, 14);
      g_assert_cmpstr (config.path, ==, "14");
      g_assert_cmpuint (g_strv_length (config.adapters), ==, 1);
      g_assert_cmpstr (config.adapters[0], ==, "14");
      g_assert_cmpuint (config.lazy, ==, 0);
      g_assert_cmpuint (config.verbose, ==, 1);
      g_assert_cmpint (lmt_options_get_origin (options, "path"), ==, LMT_ORIGIN_COMMAND_LINE);
      /* A lower origin may not bring nonsense either. */
      g_assert_false (lmt_options_set (options, "depth", "x", LMT_ORIGIN_FILE, &error));
      g_assert_cmpuint (config.depth, ==, 14);
    }
}

static void
test_key_file (void)
{
  static const struct
  {
    const char *text;
    const char *message;
  } bad[] = {
    { "[replay]\ndepth=0\n", "f.conf: [replay]: --depth: expected a whole number from 1 to 1024, found \"0\"" },
    { "[replay]\ndepht=1\n", "f.conf: [replay]: --depht: unknown option: did you mean --depth?" },
    { "[replay]\nquiet=yes\n", "f.conf: [replay]: --quiet: expected true or false, found \"yes\"" },
  };
  Config config;
  g_autoptr (GError) error = NULL;
  g_autoptr (LmtOptions) options = options_new (&config);
  g_autoptr (GKeyFile) file = g_key_file_new ();
  g_assert_true (g_key_file_load_from_data (
      file, "[replay]\ndepth=8\nl2-adapter=a;b\nl1-use-lazy=false\nratio=0.25\n[info]\ndepth=9\n", -1, G_KEY_FILE_NONE, NULL));
  g_assert_true (parse (options, TRUE, NULL, &error, "--ratio 0.75"));
  g_assert_true (lmt_options_parse_key_file (options, file, "replay", "f.conf", &error));
  g_assert_true (lmt_options_parse_key_file (options, file, "absent", "f.conf", &error));
  g_assert_cmpuint (config.depth, ==, 8);
  g_assert_cmpfloat (config.ratio, ==, 0.75);
  g_assert_cmpuint (config.lazy, ==, 0);
  g_assert_cmpuint (g_strv_length (config.adapters), ==, 2);
  g_assert_cmpint (lmt_options_get_origin (options, "depth"), ==, LMT_ORIGIN_FILE);

  for (guint i = 0; i < G_N_ELEMENTS (bad); i++)
    {
      g_autoptr (GError) refused = NULL;
      g_assert_true (g_key_file_load_from_data (file, bad[i].text, -1, G_KEY_FILE_NONE, NULL));
      g_assert_false (lmt_options_parse_key_file (options, file, "replay", "f.conf", &refused));
      g_assert_error (refused, LMT_ERROR, LMT_ERROR_OPTION);
      g_assert_cmpstr (refused->message, ==, bad[i].message);
    }
}

typedef struct
{
  char *base_path;
  guint32 use_odirect;
  guint64 read_ahead_size;
  double max_capacity_gb;
  char *engine;
  char *eviction;
  guint64 bytes;
  gint64 close_ns;
  char **nodes;
} Adapter;

static const LmtOption adapter_table[] = {
  LMT_OPTION_FULL (STRING, "base_path", Adapter, base_path, LMT_OPTION_REQUIRED, NULL, "nonempty", NULL, "Folder", NULL),
  LMT_OPTION (BOOL, "use_odirect", Adapter, use_odirect, NULL, NULL, "Read past the cache"),
  LMT_OPTION_FULL (UINT, "read_ahead_size", Adapter, read_ahead_size, LMT_OPTION_NULLABLE, NULL, "1..", NULL, "Read ahead", NULL),
  LMT_OPTION (DOUBLE, "max_capacity_gb", Adapter, max_capacity_gb, "0", "0..", "Capacity, in GiB"),
  LMT_OPTION (CHOICE, "engine", Adapter, engine, "auto", "auto|sync", "Engine"),
  LMT_OPTION_FULL (JSON, "eviction", Adapter, eviction, LMT_OPTION_NULLABLE, NULL, NULL, NULL, "Eviction", NULL),
  LMT_OPTION (SIZE, "bytes", Adapter, bytes, NULL, NULL, "Bytes"),
  LMT_OPTION (DURATION, "close_timeout_s", Adapter, close_ns, "30", "0..1h", "Wait at close"),
  LMT_OPTION (STRINGS, "nodes", Adapter, nodes, NULL, NULL, "Nodes"),
  LMT_OPTION_END,
};

static gboolean
parse_adapter (const char *json, Adapter *adapter, LmtOptions **options, GError **error)
{
  static const char *const skip[] = { "type", "shared", NULL };
  memset (adapter, 0, sizeof *adapter);
  *options = lmt_options_new ();
  lmt_options_add_table (*options, adapter_table, adapter);
  return lmt_options_parse_json (*options, json, skip, "fs", error);
}

static void
test_json (void)
{
  Adapter adapter;
  g_autoptr (GError) error = NULL;
  g_autoptr (LmtOptions) options = NULL;
  g_assert_true (
      parse_adapter ("{\"type\": \"fs\", \"base_path\": \"\\u00fc/x\", \"use_odirect\": true, \"read_ahead_size\": null,"
                     " \"max_capacity_gb\": 1, \"eviction\": {\"b\": [1, 2.50]}, \"bytes\": 4096,"
                     " \"close_timeout_s\": 0.5, \"nodes\": [\"a\", \"b;c\"]}",
                     &adapter, &options, &error));
  g_assert_no_error (error);
  g_assert_cmpstr (adapter.base_path, ==, "\303\274/x");
  g_assert_cmpuint (adapter.use_odirect, ==, 1);
  g_assert_cmpuint (adapter.read_ahead_size, ==, 0);
  g_assert_cmpfloat (adapter.max_capacity_gb, ==, 1.0);
  g_assert_cmpstr (adapter.eviction, ==, "{\"b\": [1, 2.5]}");
  g_assert_cmpuint (adapter.bytes, ==, 4096);
  g_assert_cmpint (adapter.close_ns, ==, 500000000);
  g_assert_cmpuint (g_strv_length (adapter.nodes), ==, 2);
  g_assert_cmpstr (adapter.nodes[1], ==, "b;c");
}

static void
test_bad_json (void)
{
  static const char *const cases[][2] = {
    { "{", "fs: line 1 column 2: expected a member name in double quotes, found the end" },
    { "[]", "fs: expected an object, found an array" },
    { "{}", "fs: base_path: expected a non-empty string, found nothing: the key is required" },
    { "{\"base_path\": 3}", "fs: base_path: expected a non-empty string, found 3" },
    { "{\"base_path\": \"\"}", "fs: base_path: expected a non-empty string, found \"\"" },
    { "{\"base_path\": \"a\\u0000b\"}", "fs: base_path: expected a non-empty string, found \"a\\u0000b\"" },
    { "{\"base_path\": null}", "fs: base_path: expected a non-empty string, found null" },
    { "{\"base_path\": \"x\", \"use_odirect\": \"true\"}", "fs: use_odirect: expected a boolean, found \"true\"" },
    { "{\"base_path\": \"x\", \"use_odirect\": 1}", "fs: use_odirect: expected a boolean, found 1" },
    { "{\"base_path\": \"x\", \"read_ahead_size\": true}", "fs: read_ahead_size: expected an integer of at least 1, found true" },
    { "{\"base_path\": \"x\", \"read_ahead_size\": 0}", "fs: read_ahead_size: expected an integer of at least 1, found 0" },
    { "{\"base_path\": \"x\", \"read_ahead_size\": -1}", "fs: read_ahead_size: expected an integer of at least 1, found -1" },
    { "{\"base_path\": \"x\", \"read_ahead_size\": 4096.0}",
      "fs: read_ahead_size: expected an integer of at least 1, found 4096.0" },
    { "{\"base_path\": \"x\", \"read_ahead_size\": \"4096\"}",
      "fs: read_ahead_size: expected an integer of at least 1, found \"4096\"" },
    { "{\"base_path\": \"x\", \"max_capacity_gb\": true}", "fs: max_capacity_gb: expected a number of at least 0, found true" },
    { "{\"base_path\": \"x\", \"max_capacity_gb\": -0.5}", "fs: max_capacity_gb: expected a number of at least 0, found -0.5" },
    { "{\"base_path\": \"x\", \"max_capacity_gb\": NaN}", "fs: line 1 column 39: expected a JSON value, found 'N'" },
    { "{\"base_path\": \"x\", \"max_capacity_gb\": 1e999}",
      "fs: line 1 column 39: expected a number a double can hold, found '1'" },
    { "{\"base_path\": \"x\", \"max_capacity_gb\": {}}",
      "fs: max_capacity_gb: expected a number of at least 0, found an object" },
    { "{\"base_path\": \"x\", \"engine\": \"uring\"}", "fs: engine: expected one of auto, sync, found \"uring\"" },
    { "{\"base_path\": \"x\", \"close_timeout_s\": 3601}",
      "fs: close_timeout_s: expected a number (seconds) from 0 to 1h, found 3601" },
    { "{\"base_path\": \"x\", \"nodes\": \"a\"}", "fs: nodes: expected an array of strings, found \"a\"" },
    { "{\"base_path\": \"x\", \"nodes\": [1]}", "fs: nodes: expected an array of strings, found an array" },
    { "{\"base_path\": \"a\", \"base_path\": \"b\"}", "fs: base_path: expected the key once, found it twice" },
    { "{\"base_path\": \"a\", \"eviction\": {\"x\": 1, \"x\": 2}}", "fs: x: expected the key once, found it twice" },
    { "{\"base_path\": \"x\", \"base_pth\": \"y\"}",
      "fs: base_pth: expected one of the keys base_path, use_odirect, read_ahead_size, max_capacity_gb, engine, eviction, bytes, "
      "close_timeout_s, nodes, type, shared, found an unknown key: did you mean 'base_path'?" },
    { "{\"base_path\": \"x\", \"colour\": \"red\"}",
      "fs: colour: expected one of the keys base_path, use_odirect, read_ahead_size, max_capacity_gb, engine, eviction, bytes, "
      "close_timeout_s, nodes, type, shared, found an unknown key" },
  };
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      Adapter adapter;
      g_autoptr (GError) error = NULL;
      g_autoptr (LmtOptions) options = NULL;
      g_assert_false (parse_adapter (cases[i][0], &adapter, &options, &error));
      g_assert_nonnull (error);
      g_assert_cmpstr (error->message, ==, cases[i][1]);
    }
}

static void
count_warning (const char *kind, const char *first_message, guint64 count, gpointer data)
{
  g_assert_cmpstr (kind, ==, "no-effect");
  g_assert_cmpstr (first_message, ==, "--port: accepted for LMCache's sake, has no effect here");
  *(guint64 *)data += count;
}

static void
test_no_effect (void)
{
  static const struct
  {
    const char *line;
    guint warnings;
  } cases[] = { { "--port 9091", 1 }, { "--port 9090", 0 }, { "--port 09090", 0 }, { "--gc", 0 }, { "", 0 } };
  lmt_log_set_level (LMT_LOG_ERROR);
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      Config config;
      g_autoptr (LmtOptions) options = options_new (&config);
      g_autoptr (LmtWarnings) warnings = lmt_warnings_new ();
      guint64 n = 0;
      g_assert_true (parse (options, TRUE, NULL, NULL, cases[i].line));
      lmt_options_warn_no_effect (options, warnings);
      lmt_warnings_foreach (warnings, count_warning, &n);
      g_assert_cmpuint (n, ==, cases[i].warnings);
    }
  lmt_log_set_level (LMT_LOG_MESSAGE);
}

static void
test_required_and_secret (void)
{
  static const LmtOption required[]
      = { LMT_OPTION_FULL (STRING, "coordinator-url", Config, path, LMT_OPTION_REQUIRED, NULL, NULL, NULL, "Deliver there", NULL),
          LMT_OPTION_END };
  Config config = { 0 };
  g_autoptr (GError) error = NULL;
  g_autoptr (LmtOptions) options = lmt_options_new ();
  lmt_options_add_table (options, required, &config);
  g_assert_false (lmt_options_check_required (options, &error));
  g_assert_cmpstr (error->message, ==, "--coordinator-url: expected a text, found nothing: the option is required");
  g_assert_true (lmt_options_set (options, "coordinator-url", "x", LMT_ORIGIN_FILE, NULL));
  g_assert_true (lmt_options_check_required (options, NULL));

  Config other;
  g_autoptr (LmtOptions) secret = options_new (&other);
  g_assert_true (lmt_options_set (secret, "token", "s3cr3t", LMT_ORIGIN_ENVIRONMENT, NULL));
  g_assert_cmpstr (other.token, ==, "s3cr3t");
  g_autofree char *shown = lmt_options_get_text (secret, "token");
  g_assert_null (strstr (shown, "s3cr3t"));
}

static void
test_help (void)
{
  Config config;
  g_autoptr (LmtOptions) options = options_new (&config);
  g_autofree char *help = lmt_options_help (options);
  g_auto (GStrv) lines = g_strsplit (help, "\n", -1);
  for (guint i = 0; lines[i] != NULL; i++)
    {
      g_assert_cmpint (g_utf8_strlen (lines[i], -1), <=, 80);
      g_assert_false (g_str_has_suffix (lines[i], " "));
    }
  static const char *const wanted[] = {
    "Memory:\n",
    "Options:\n",
    "--[no-]l1-use-lazy",
    "  -q, --quiet             Print no report\n",
    "  -p, --path DIR          Folder of objects\n",
    "      --depth N           Keep this many operations in flight (from 1 to 1024;\n                          default 64)\n",
    "      --l1-size SIZE      Size of L1, in bytes (at least 4KiB; default 4KiB)\n",
    "Choose the victims (LRU, ARC, noop; default LRU)",
    "--l2-adapter TEXT",
    "(repeatable)",
    "--json[=TEXT]",
    "(default 9090; no effect here)",
  };
  for (guint i = 0; i < G_N_ELEMENTS (wanted); i++)
    if (strstr (help, wanted[i]) == NULL)
      g_error ("help lacks \"%s\":\n%s", wanted[i], help);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/option/defaults", test_defaults);
  g_test_add_func ("/option/line", test_line);
  g_test_add_func ("/option/bad-lines", test_bad_lines);
  g_test_add_func ("/option/two-passes", test_two_passes);
  g_test_add_func ("/option/precedence", test_precedence);
  g_test_add_func ("/option/key-file", test_key_file);
  g_test_add_func ("/option/json", test_json);
  g_test_add_func ("/option/bad-json", test_bad_json);
  g_test_add_func ("/option/no-effect", test_no_effect);
  g_test_add_func ("/option/required-and-secret", test_required_and_secret);
  g_test_add_func ("/option/help", test_help);
  return g_test_run ();
}
