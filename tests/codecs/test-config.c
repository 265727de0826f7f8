// SPDX-License-Identifier: Apache-2.0
/* Flags -> configuration: LMCache's own tables row by row, and what lmtrace refuses on purpose (storage-manager.md 12, 15). */
#include <string.h>

#include "setup.h"

#include "storage-codecs.h"

static const LmtJson *
get (const LmtJson *json, const char *name)
{
  const LmtJson *value = lmt_json_get_member (json, name);
  g_assert_nonnull (value);
  return value;
}

static gint64
get_int (const LmtJson *json, const char *name)
{
  return lmt_json_get_int (get (json, name));
}

static void
check_eviction (const SmEviction *eviction, const LmtJson *expected)
{
  g_assert_cmpstr (lmt_evict_kind_to_text (eviction->policy), ==, lmt_json_get_string (get (expected, "policy")));
  g_assert_cmpfloat (eviction->watermark, ==, lmt_json_get_double (get (expected, "watermark")));
  g_assert_cmpfloat (eviction->ratio, ==, lmt_json_get_double (get (expected, "ratio")));
}

static void
check_config (const StorageConfig *config, const LmtJson *expected)
{
  const LmtJson *l1 = lmt_json_get_element (get (expected, "l1"), 0), *l2 = get (expected, "l2");
  g_assert_cmpstr (config->l1_tag, ==, lmt_json_get_string (get (l1, "tag")));
  g_assert_cmpint ((gint64)config->sm.size_bytes, ==, get_int (l1, "size_bytes"));
  g_assert_cmpint ((gint64)config->init_size_bytes, ==, get_int (l1, "init_size_bytes"));
  g_assert_cmpint ((gint64)config->sm.align_bytes, ==, get_int (l1, "align_bytes"));
  g_assert_cmpint (config->sm.write_ttl_s, ==, get_int (l1, "write_ttl_s"));
  g_assert_cmpint (config->sm.read_ttl_s, ==, get_int (l1, "read_ttl_s"));
  check_eviction (&config->sm.eviction, get (l1, "eviction"));
  g_assert_cmpstr (config->sm.store_policy == SM_STORE_SKIP_L1 ? "skip_l1" : "default", ==,
                   lmt_json_get_string (get (expected, "store_policy")));
  g_assert_cmpstr (config->sm.prefetch_policy == SM_PREFETCH_RETAIN ? "retain" : "default", ==,
                   lmt_json_get_string (get (expected, "prefetch_policy")));
  g_assert_cmpint (config->sm.prefetch_max_in_flight, ==, get_int (expected, "prefetch_max_in_flight"));
  g_assert_cmpint (config->notifier_interval_ms, ==, get_int (expected, "periodic_notifier_interval_ms"));
  g_assert_cmpuint (config->sm.n_l2, ==, lmt_json_get_length (l2));
  for (guint i = 0; i < config->sm.n_l2; i++)
    {
      const LmtJson *adapter = lmt_json_get_element (l2, i), *eviction = get (adapter, "eviction");
      g_assert_cmpstr (lmt_l2_config_get_type_name (config->l2[i]), ==, lmt_json_get_string (get (adapter, "type")));
      g_assert_cmpint (config->sm.l2_eviction[i].set, ==, lmt_json_get_type (eviction) == LMT_JSON_OBJECT);
      if (config->sm.l2_eviction[i].set)
        check_eviction (&config->sm.l2_eviction[i], eviction);
    }
}

/* Rows LMCache takes and lmtrace refuses: part of the command line -> why. */
static const struct
{
  const char *words;
  const char *why;
} refused[] = {
  { "\"GDS\"", "needs a GPU" },
  { "\"DEVDAX\"", "not supported" },
  { "--gds-l1-path", "needs a GPU" },
  { "--eviction-policy IsolatedLRU", "defect 1" },
  { "--l1-size-gb 0 ", "defect 16" },
  { "--l1-size-gb -1 ", "defect 16" },
  { "--eviction-trigger-watermark 7", "defect 16" },
  { "--eviction-ratio -3", "defect 16" },
  { "--l1-align-bytes 1000", "checked when the pool is made" },
  { "--l1-write-ttl-seconds 0", "defect 16" },
  { "--l1-read-ttl-seconds -1", "defect 16" },
  { "--l2-prefetch-max-in-flight 0", "defect 16" },
  { "--l1-size 1 ", "abbreviation" },
  { "\"tag\": \"b\"", "defect 17: one L1" },
  { "\"shared\": 1", "real booleans" },
  { "\"shared\": \"false\"", "real booleans" },
  { "\"persist_enabled\": 0", "real booleans" },
  { "\"trigger_watermark\": \"0.5\"", "a number" },
  { "\"extra\": 1", "unknown key" },
  { "\"unknown\": 1", "unknown key" },
  { "\"serde\"", "no plugin offers it" },
};

/* Rows LMCache refuses and lmtrace takes. */
static const char *const accepted[] = { "\"affinity_tag\": \"x\"", "\"mock_bandwidth_gb\": 1}" };

static gboolean
is_refused (const char *line)
{
  for (guint i = 0; i < G_N_ELEMENTS (refused); i++)
    if (strstr (line, refused[i].words) != NULL)
      return TRUE;
  return FALSE;
}

static void
check_row (const LmtJson *row, gboolean compare_messages)
{
  g_auto (Setup) setup = { .options = NULL };
  g_autofree const char **argv = json_words (get (row, "argv"));
  g_autofree char *words = g_strjoinv (" ", (char **)argv);
  g_autofree char *line = g_strconcat (words, " ", NULL);
  g_autoptr (GError) error = NULL;
  const LmtJson *expect = get (row, "expect");
  const LmtJson *config_expected = lmt_json_get_member (expect, "config"), *raises = lmt_json_get_member (expect, "raises");
  g_test_message ("%s", line);
  g_autoptr (StorageConfig) config = setup_config (&setup, argv, NULL, &error);
  if (config_expected != NULL && !is_refused (line))
    {
      g_assert_no_error (error);
      check_config (config, config_expected);
      return;
    }
  if (raises != NULL && strstr (lmt_json_get_string (get (raises, "message")), "Unknown L1 affinity_tag") != NULL)
    {
      g_assert_true (strstr (line, accepted[0]) != NULL || strstr (line, accepted[1]) != NULL);
      g_assert_no_error (error);
      return;
    }
  assert_refused (error);
  g_assert_null (config);
  g_assert_null (strchr (error->message, '\n'));
  const char *message = raises != NULL ? lmt_json_get_string (get (raises, "message")) : NULL;
  /* The same words, but where the range of a flag, a JSON parser or a refused type speaks first. */
  if (compare_messages && message != NULL && strstr (line, "\"GDS\"") == NULL && strstr (line, "\"DEVDAX\"") == NULL
      && strstr (line, "--eviction-ratio 4") == NULL && strstr (message, "Expecting property name") == NULL)
    g_assert_nonnull (strstr (error->message, message));
}

static void
test_table (gconstpointer data)
{
  g_autoptr (LmtJson) json = load_json ("config", data);
  const LmtJson *cases = get (json, "cases");
  g_assert_cmpuint (lmt_json_get_length (cases), >, 25);
  for (guint i = 0; i < lmt_json_get_length (cases); i++)
    check_row (lmt_json_get_element (cases, i), g_str_equal (data, "config-l1-manager.json"));
}

/* -------- every option of LMCache is there, with its default -------- */

static const LmtOption *
find_option (const char *name)
{
  for (const LmtOption *option = storage_options; option->name != NULL; option++)
    if (g_str_equal (option->name, name))
      return option;
  return NULL;
}

/* Those core's own table of `replay` has. */
static const char *const core_options[]
    = { "verbose", "jsonl-out", "output-dir", "no-csv", "json", "format", "output", "quiet", NULL };

static void
check_default (const LmtOption *option, const LmtJson *value)
{
  const char *text = option->default_text;
  switch (lmt_json_get_type (value))
    {
    case LMT_JSON_NULL:
      g_assert_null (text);
      break;
    case LMT_JSON_BOOL:
      g_assert_cmpint (option->type, ==, LMT_OPTION_TYPE_BOOL);
      g_assert_cmpint (g_strcmp0 (text, "true") == 0, ==, lmt_json_get_bool (value));
      break;
    case LMT_JSON_STRING:
      g_assert_cmpstr (text, ==, lmt_json_get_string (value));
      break;
    case LMT_JSON_ARRAY:
      g_assert_cmpint (option->type, ==, LMT_OPTION_TYPE_STRINGS);
      break;
    default:
      g_assert_cmpfloat (g_ascii_strtod (text, NULL), ==, lmt_json_get_double (value));
    }
}

static void
test_flags_056 (void)
{
  g_autoptr (LmtJson) json = load_json ("cli", "flags-0.5.6.json");
  const LmtJson *list = get (json, "replay");
  guint n = 0;
  for (guint i = 0; i < lmt_json_get_length (list); i++)
    {
      const LmtJson *row = lmt_json_get_element (list, i), *names = get (row, "options");
      const char *name = lmt_json_get_string (lmt_json_get_element (names, lmt_json_get_length (names) - 1));
      if (!g_str_has_prefix (name, "--"))
        continue;
      gboolean negatable = g_str_has_prefix (name, "--no-") && lmt_json_get_length (names) == 2;
      name += negatable ? strlen ("--no-") : strlen ("--");
      if (g_strv_contains (core_options, name))
        continue;
      const LmtOption *option = find_option (name);
      g_test_message ("--%s", name);
      g_assert_nonnull (option);
      g_assert_cmpint ((option->flags & LMT_OPTION_NEGATABLE) != 0, ==, negatable);
      g_assert_nonnull (option->help);
      g_assert_nonnull (option->group);
      check_default (option, get (row, "default"));
      const LmtJson *choices = get (row, "choices");
      for (guint c = 0; lmt_json_get_type (choices) == LMT_JSON_ARRAY && c < lmt_json_get_length (choices); c++)
        {
          g_auto (GStrv) words = g_strsplit (option->range, "|", -1);
          g_assert_true (g_strv_contains ((const char *const *)words, lmt_json_get_string (lmt_json_get_element (choices, c))));
        }
      n++;
    }
  g_assert_cmpuint (n, >=, 40);
}

static void
test_flags_057 (void)
{
  g_autoptr (LmtJson) list = load_json ("cli", "flags-0.5.7rc3.json");
  g_assert_cmpuint (lmt_json_get_length (list), >=, 50);
  for (guint i = 0; i < lmt_json_get_length (list); i++)
    {
      const LmtJson *names = get (lmt_json_get_element (list, i), "options");
      const char *name = lmt_json_get_string (lmt_json_get_element (names, lmt_json_get_length (names) - 1)) + 2;
      g_test_message ("--%s", name);
      g_assert_true (g_strv_contains (core_options, name) || find_option (name) != NULL);
    }
}

/* -------- lmtrace's own rules -------- */

#define PLAIN "--l1-size-gb 1 --eviction-policy LRU "

static const struct
{
  const char *name;
  const char *line;
  const char *error; /* NULL: accepted; else part of the message */
} rules[] = {
  { "size-unit", "--l1-size 64MiB --eviction-policy LRU", NULL },
  { "size-bare", "--l1-size 1 --eviction-policy LRU", "--l1-size-gb" },
  { "size-both", PLAIN "--l1-size 1GiB", "--l1-size: give either this or --l1-size-gb" },
  { "size-nothing", "--l1-size 0MiB --eviction-policy LRU", "--l1-size: expected a size from 1 byte" },
  { "size-below-a-byte", "--l1-size-gb 1e-12 --eviction-policy LRU", "--l1-size-gb: expected a size from 1 byte" },
  { "size-huge", "--l1-size-gb 1e300 --eviction-policy LRU", "--l1-size-gb: expected at most" },
  { "size-inf", "--l1-size-gb inf --eviction-policy LRU", "--l1-size-gb: expected" },
  { "align", PLAIN "--l1-align-bytes 3000", "--l1-align-bytes: expected a power of two, found 3000" },
  { "align-unit", PLAIN "--l1-align-bytes 4KiB", NULL },
  { "isolated", "--l1-size-gb 1 --eviction-policy IsolatedLRU", "--eviction-policy: IsolatedLRU can't serve L1" },
  { "devdax", PLAIN "--l1-devdax-path /dev/dax0.0", "--l1-devdax-path: L1 on a device-DAX node is not supported" },
  { "gds", PLAIN "--gds-l1-path /x", "--gds-l1-path: L1 through GPU direct storage needs a GPU" },
  { "tracing", PLAIN "--enable-tracing", "--enable-tracing: needs --otlp-endpoint" },
  { "tracing-endpoint", PLAIN "--enable-tracing --otlp-endpoint http://localhost:1", NULL },
  { "interval-zero", PLAIN "--extra-logging-interval 0", "--extra-logging-interval: expected" },
  { "rate-zero", PLAIN "--metrics-sample-rate 0", "--metrics-sample-rate: expected" },
  { "rate-two", PLAIN "--metrics-sample-rate 2", "--metrics-sample-rate: expected" },
  { "trace-level", PLAIN "--trace-level all", "--trace-level: expected" },
  { "quota", PLAIN "--l2-quota a=1GiB --l2-quota =5 --l2-quota x=y=1K", NULL },
  { "quota-no-size", PLAIN "--l2-quota a", "--l2-quota: expected SALT=SIZE" },
  { "quota-bad-size", PLAIN "--l2-quota a=b", "--l2-quota: " },
  { "quota-salt", PLAIN "--l2-quota a@b=1", "--l2-quota: cache_salt contains @" },
  { "settle-twice", PLAIN "--settle --no-settle", "--settle: can't be had together with --no-settle" },
  { "verify-zero", PLAIN "--verify-data --payload zero", "--verify-data: needs --payload pattern" },
  { "watermark-zero", PLAIN "--l2-prefetch-inflight-watermark 0", "--l2-prefetch-inflight-watermark: expected" },
  { "underscore", "--l1-size-gb 1_0 --eviction-policy LRU", "--l1-size-gb: expected" },
  { "short-form", PLAIN "--l2 mock:max_size_gb=1,mock_bandwidth_gb=1", NULL },
  { "adapter-unknown", PLAIN "--l2 nope", "nope" },
  { "no-header", "--config-from-trace", "--config-from-trace: the trace's header has no configuration" },
};

static void
test_rule (gconstpointer data)
{
  guint i = GPOINTER_TO_UINT (data);
  g_auto (Setup) setup = { .options = NULL };
  g_auto (GStrv) argv = g_strsplit (rules[i].line, " ", -1);
  g_autoptr (GError) error = NULL;
  guint n = g_strv_length (argv);
  if (n > 0 && *argv[n - 1] == '\0')
    g_clear_pointer (&argv[n - 1], g_free);
  g_autoptr (StorageConfig) config = setup_config (&setup, (const char *const *)argv, NULL, &error);
  if (rules[i].error == NULL)
    {
      g_assert_no_error (error);
      g_assert_nonnull (config);
      return;
    }
  assert_refused (error);
  g_assert_nonnull (strstr (error->message, rules[i].error));
}

static void
test_quota (void)
{
  static const char *const argv[]
      = { "--l1-size-gb", "1", "--eviction-policy", "LRU", "--l2-quota", "x=y=1KiB", "--l2-quota", "=5", NULL };
  g_auto (Setup) setup = { .options = NULL };
  g_autoptr (GError) error = NULL;
  g_autoptr (StorageConfig) config = setup_config (&setup, argv, NULL, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (config->quotas->len, ==, 2);
  g_assert_cmpstr (g_array_index (config->quotas, StorageQuota, 0).salt, ==, "x=y");
  g_assert_cmpuint (g_array_index (config->quotas, StorageQuota, 0).bytes, ==, 1024);
  g_assert_cmpstr (g_array_index (config->quotas, StorageQuota, 1).salt, ==, "");
}

static void
test_warnings (void)
{
  static const char *const argv[] = { "--l1-size-gb",
                                      "1",
                                      "--eviction-policy",
                                      "LRU",
                                      "--trace-output",
                                      "x.lct",
                                      "--gc-monitor-top-objects",
                                      "4",
                                      "--event-bus-queue-size",
                                      "10000",
                                      "--shm-name",
                                      "",
                                      "--disable-grpc-metrics",
                                      NULL };
  g_auto (Setup) setup = { .options = NULL };
  g_autoptr (GError) error = NULL;
  g_autoptr (StorageConfig) config = setup_config (&setup, argv, NULL, &error);
  g_assert_no_error (error);
  g_assert_nonnull (config);
  g_assert_cmpuint (lmt_warnings_count (setup.warnings, NULL), ==, 1); /* --trace-output */
  lmt_options_warn_no_effect (setup.options, setup.warnings);
  g_assert_cmpuint (lmt_warnings_count (setup.warnings, NULL), ==,
                    2); /* one more: the others have their defaults or are silent */
}

/* The admission of 0.5.7 acts only if asked for. */
static void
test_watermark (void)
{
  static const char *const plain[] = { "--l1-size-gb", "1", "--eviction-policy", "LRU", NULL };
  static const char *const given[]
      = { "--l1-size-gb", "1", "--eviction-policy", "LRU", "--l2-prefetch-inflight-watermark", "0.5", NULL };
  g_auto (Setup) setup = { .options = NULL };
  g_autoptr (StorageConfig) without = setup_config (&setup, plain, NULL, NULL);
  g_assert_cmpfloat (without->sm.prefetch_inflight_watermark, ==, 0);
  g_autoptr (StorageConfig) with = setup_config (&setup, given, NULL, NULL);
  g_assert_cmpfloat (with->sm.prefetch_inflight_watermark, ==, 0.5);
}

/* -------- tables of the codecs -------- */

static void
test_dtypes (void)
{
  g_autoptr (LmtJson) json = load_json ("config", "dtypes.json");
  const LmtJson *cases = get (json, "cases");
  guint n = 0;
  for (guint i = 0; i < lmt_json_get_length (cases); i++)
    {
      const LmtJson *row = lmt_json_get_element (cases, i), *names = get (row, "names");
      for (guint k = 0; k < lmt_json_get_length (names); k++, n++)
        {
          const char *name = lmt_json_get_string (lmt_json_get_element (names, k));
          g_autofree char *longer = g_strconcat (name, "x", NULL);
          g_assert_cmpuint (sm_dtype_bytes (name, strlen (name)), ==, get_int (row, "bytes"));
          g_assert_cmpuint (sm_dtype_bytes (longer, strlen (longer)), ==, 0);
          g_assert_cmpuint (sm_dtype_bytes (name, strlen (name) + 1), ==, 0); /* a NUL is no part of it */
        }
    }
  g_assert_cmpuint (n, >, 50);
  g_assert_cmpuint (sm_dtype_bytes ("torch.", 6), ==, 0);
  g_assert_cmpuint (sm_dtype_bytes ("", 0), ==, 0);
  g_assert_cmpuint (sm_dtype_bytes ("float16", 7), ==, 0);
}

int
main (int argc, char **argv)
{
  static const char *const tables[] = { "config-flags.json", "config-l1-manager.json", "config-l2-adapter.json" };
  g_test_init (&argc, &argv, NULL);
  g_log_set_always_fatal (G_LOG_FATAL_MASK | G_LOG_LEVEL_CRITICAL); /* warnings are part of what is tested */
  for (guint i = 0; i < G_N_ELEMENTS (tables); i++)
    {
      g_autofree char *title = g_strdup_printf ("/config/table/%s", tables[i]);
      g_test_add_data_func (title, tables[i], test_table);
    }
  for (guint i = 0; i < G_N_ELEMENTS (rules); i++)
    {
      g_autofree char *title = g_strdup_printf ("/config/rule/%s", rules[i].name);
      g_test_add_data_func (title, GUINT_TO_POINTER (i), test_rule);
    }
  g_test_add_func ("/config/flags/0.5.6", test_flags_056);
  g_test_add_func ("/config/flags/0.5.7rc3", test_flags_057);
  g_test_add_func ("/config/quota", test_quota);
  g_test_add_func ("/config/warnings", test_warnings);
  g_test_add_func ("/config/watermark", test_watermark);
  g_test_add_func ("/config/dtypes", test_dtypes);
  return g_test_run ();
}
