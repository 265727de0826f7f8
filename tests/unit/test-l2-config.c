/* SPDX-License-Identifier: Apache-2.0 */

/* --l2-adapter and --l2: every row of the golden table whose type is built, and texts. */
#include <lmtrace/lmt-plugin.h>

static LmtRegistry *registry;

static const char *
get_text (const LmtJson *json, const char *name)
{
  const LmtJson *member = lmt_json_get_member (json, name);
  return member != NULL && lmt_json_get_type (member) == LMT_JSON_STRING ? lmt_json_get_string (member) : NULL;
}

/* Types whose plugin is here; rows of others end in `unknown adapter type`. */
static gboolean
is_built (const char *type)
{
  static const char *const built[] = { "null", "dram", "mock", "fs", "fs_native", "model", "fault", "fault_inject", NULL };
  return type != NULL && g_strv_contains (built, type);
}

static void
test_golden (void)
{
  g_autofree char *path = g_build_filename (g_getenv ("LMT_TEST_DATA"), "l2", "config.json", NULL);
  g_autofree char *text = NULL;
  g_autoptr (GError) error = NULL;
  g_assert_true (g_file_get_contents (path, &text, NULL, &error));
  g_autoptr (LmtJson) json = lmt_json_parse (text, -1, &error);
  g_assert_no_error (error);
  const LmtJson *cases = lmt_json_get_member (json, "cases");
  guint n_accepted = 0, n_refused = 0;
  for (guint i = 0; i < lmt_json_get_length (cases); i++)
    {
      const LmtJson *row = lmt_json_get_element (cases, i);
      const char *argument = get_text (row, "argument");
      g_autoptr (LmtJson) parsed = lmt_json_parse (argument, -1, NULL);
      const char *type = parsed != NULL && lmt_json_get_type (parsed) == LMT_JSON_OBJECT ? get_text (parsed, "type") : NULL;
      const LmtJson *serde = type != NULL ? lmt_json_get_member (parsed, "serde") : NULL;
      gboolean accept = g_str_has_prefix (get_text (row, "lmtrace"), "accept");
      g_autoptr (GError) why = NULL;
      if (accept && strstr (argument, "affinity_tag") != NULL)
        g_test_expect_message ("lmtrace", G_LOG_LEVEL_WARNING, "*affinity_tag: accepted, has no effect*");
      g_autoptr (LmtL2Config) config = lmt_l2_config_parse (registry, argument, 1, &why);
      g_test_assert_expected_messages ();
      g_test_message ("%s -> %s", argument, why != NULL ? why->message : "accepted");
      if (accept && !is_built (type))
        {
          g_assert_null (config);
          g_assert_nonnull (strstr (why->message, "unknown adapter type"));
          continue;
        }
      if (accept && serde != NULL && lmt_json_get_type (serde) == LMT_JSON_OBJECT)
        {
          g_autofree char *expected = g_strdup_printf (
              "--l2-adapter #1 (%s): serde: expected none, found \"%s\": no plugin offers it", type, get_text (serde, "type"));
          g_assert_cmpstr (why->message, ==, expected);
          continue;
        }
      if (accept != (config != NULL))
        g_error ("%s: expected %s, found %s", argument, get_text (row, "lmtrace"), why != NULL ? why->message : "accepted");
      accept ? n_accepted++ : n_refused++;
      if (!accept)
        g_assert_true (g_str_has_prefix (why->message, "--l2-adapter #1")
                       || g_str_has_prefix (why->message, "Invalid JSON for --l2-adapter #1: "));
    }
  g_assert_cmpuint (n_accepted, >, 12);
  g_assert_cmpuint (n_refused, >, 25);
}

typedef struct
{
  const char *argument;
  const char *message; /* NULL: accepted */
} Text;

static const Text texts[] = {
  { "[]", "--l2-adapter #3: expected a JSON object, got an array" },
  { "{}", "--l2-adapter #3: missing 'type' field" },
  { "{\"type\":\"fault\"}", "--l2-adapter #3 ('fault'): inner: expected a JSON value, found nothing: the key is required" },
  { "{\"type\":\"fault\",\"inner\":{}}", "--l2-adapter #3 ('fault'): inner: missing 'type' field" },
  { "{\"type\":\"fault\",\"inner\":[]}", "--l2-adapter #3 ('fault'): inner: expected a JSON object, got an array" },
  { "{\"type\":\"fault\",\"inner\":{\"type\":\"dram\",\"max_size_gb\":-1}}",
    "--l2-adapter #3 ('fault'): inner ('dram'): max_size_gb: expected a number of at least 0, found -1" },
  { "{\"type\":\"fault\",\"inner\":{\"type\":\"dram\",\"eviction\":{\"eviction_policy\":\"LRU\"}}}",
    "--l2-adapter #3 ('fault'): inner ('dram'): eviction: expected none, found one: only the outer adapter's acts" },
  { "{\"type\":\"fault\",\"inner\":{\"type\":\"fs\",\"base_path\":\"x\",\"serde\":{\"type\":\"fp8\"}}}",
    "--l2-adapter #3 ('fault'): inner ('fs'): serde: expected none, found one: only the outer adapter's acts" },
  { "{\"type\":\"fault\",\"inner\":{\"type\":\"dram\",\"io_timeout_s\":1}}",
    "--l2-adapter #3 ('fault'): inner ('dram'): io_timeout_s: expected none, found one: only the outer adapter's acts" },
  { "{\"type\":\"fault\",\"inner\":{\"type\":\"dram\",\"eviction\":null},\"eviction\":{\"eviction_policy\":\"LRU\"}}", NULL },
  { "{\"type\":\"fault\",\"inner\":{\"type\":\"dram\"},\"gap_indices\":[true]}",
    "--l2-adapter #3 ('fault'): gap_indices: expected a list of integers, 0 or more, found [true]" },
  { "{\"type\":\"fault\",\"inner\":{\"type\":\"dram\"},\"gap_tail_ratios\":[0,\"1\"]}",
    "--l2-adapter #3 ('fault'): gap_tail_ratios: expected a list of numbers from 0 to 1, found [0, \"1\"]" },
  { "{\"type\":\"fault\",\"inner\":{\"type\":\"dram\"},\"delay_ms\":5}",
    "--l2-adapter #3 ('fault'): delay_rate: expected a number above 0 with delay_ms, found 0" },
  { "{\"type\":\"null\",\"io_timeout_s\":\"1\"}",
    "--l2-adapter #3 ('null'): io_timeout_s: expected 0, or seconds from 1e-6 to 1e6, found \"1\"" },
  { "{\"type\":\"null\",\"io_timeout_s\":-1}",
    "--l2-adapter #3 ('null'): io_timeout_s: expected 0, or seconds from 1e-6 to 1e6, found -1" },
  { "{\"type\":\"null\",\"io_timeout_s\":0.5}", NULL },
  { "{\"type\":\"model\",\"bandwidth_gb\":1e-12}",
    "--l2-adapter #3 ('model'): bandwidth_gb: expected 0, or at least one byte a second, found 1e-12" },
  { "{\"type\":5}", "--l2-adapter #3: type: expected a string, found 5" },
  { "{\"type\":\"fs\",\"base_path\":\"x\",\"serde\":{\"type\":\"fp8\"}}",
    "--l2-adapter #3 (fs): serde: expected none, found \"fp8\": no plugin offers it" },
  { "{\"type\":\"plugin\",\"module_path\":\"m\",\"class_name\":\"C\"}",
    "--l2-adapter #3 ('plugin'): plugin: needs LMCache; lmtrace loads .so files, see --plugin" },
  { "{\"type\":\"null\",\"per_op_workers\":{\"store\":2}}", "--l2-adapter #3 ('null'): per_op_workers: expected the key absent, "
                                                            "found it: only LMCache's native connectors have workers per "
                                                            "operation" },
  { "{\"type\":\"null\",\"eviction\":{\"eviction_policy\":\"LRU\",\"trigger_watermark\":0}}",
    "--l2-adapter #3 ('null'): eviction.trigger_watermark: expected a number above 0, at most 1, found 0" },
  { "{\"type\":\"null\",\"eviction\":{\"eviction_policy\":\"LRU\",\"eviction_ratio\":true}}",
    "--l2-adapter #3 ('null'): eviction.eviction_ratio: expected a number above 0, at most 1, found true" },
  { "{\"type\":\"null\",\"eviction\":{}}", "--l2-adapter #3 ('null'): eviction.eviction_policy: expected LRU, ARC, IsolatedLRU "
                                           "or noop, found nothing: the key is required" },
  { "{\"type\":\"null\",\"eviction\":{\"eviction_polcy\":\"LRU\"}}",
    "--l2-adapter #3 ('null'): eviction.eviction_polcy: expected one of the keys eviction_policy, trigger_watermark, "
    "eviction_ratio, "
    "found an unknown key: did you mean 'eviction_policy'?" },
  { "{\"type\":\"fs\",\"base_path\":\"\"}", "--l2-adapter #3 ('fs'): base_path: expected a non-empty string, found \"\"" },
  { "{\"type\":\"fs\",\"base_path\":\"x\",\"relative_tmp_dir\":\"/tmp\"}",
    "--l2-adapter #3 ('fs'): relative_tmp_dir: expected a path inside base_path, found \"/tmp\"" },
  { "{\"type\":\"fs\",\"base_path\":\"x\",\"relative_tmp_dir\":null,\"read_ahead_size\":null}", NULL },
  { "{\"type\":\"fs\",\"base_path\":\"x\",\"padded_align\":1000}",
    "--l2-adapter #3 ('fs'): padded_align: expected 0 or a power of two, 512 to 65536, found 1000" },
  { "{\"type\":\"fs\",\"base_path\":\"x\",\"padded_align\":4096}", NULL },
  { "{\"type\":\"fs\",\"base_path\":\"x\",\"file_mode\":\"0888\"}",
    "--l2-adapter #3 ('fs'): file_mode: expected an octal mode such as \"0644\", found \"0888\"" },
  { "{\"type\":\"fs\",\"base_path\":\"x\",\"scan\":false,\"max_capacity_gb\":1}",
    "--l2-adapter #3 ('fs'): max_capacity_gb: expected scan to be true, found false: without it nobody knows what is used" },
  { "{\"type\":\"fs\",\"base_path\":\"x\",\"max_capacity_gb\":1e-12}",
    "--l2-adapter #3 ('fs'): max_capacity_gb: expected at least one byte, found 1e-12" },
  { "{\"type\":\"dram\",\"mock_bandwidth_gb\":1}",
    "--l2-adapter #3 ('dram'): mock_bandwidth_gb: expected a key of dram, found one of mock: did you mean 'bandwidth_gb'?" },
  { "{\"type\":\"mock\",\"max_size_gb\":1,\"mock_bandwidth_gb\":1e-12}",
    "--l2-adapter #3 ('mock'): mock_bandwidth_gb: expected at least one byte a second, found 1e-12" },
  { "{\"type\":\"dram\",\"jitter\":{\"seed\":1,\"share\":2}}",
    "--l2-adapter #3 ('dram'): jitter: expected an object with \"seed\" (integer, 0 or more) and \"share\" (number, 0 to 1), "
    "found "
    "{\"seed\": 1, \"share\": 2}" },
  { "{\"type\":\"dram\",\"jitter\":{\"seed\":18446744073709551615,\"share\":0.5},\"numa\":null}", NULL },
};

static void
test_text (gconstpointer data)
{
  const Text *text = data;
  g_autoptr (GError) error = NULL;
  g_autoptr (LmtL2Config) config = lmt_l2_config_parse (registry, text->argument, 3, &error);
  g_assert_cmpstr (error != NULL ? error->message : NULL, ==, text->message);
  g_assert_true ((config != NULL) == (text->message == NULL));
}

/* The unknown ones name what is known, and the closest. */
static void
test_unknown (void)
{
  g_autoptr (GError) error = NULL;
  g_assert_null (lmt_l2_config_parse (registry, "{\"type\":\"fs\",\"base_path\":\"x\",\"dept\":3}", 1, &error));
  g_assert_true (g_str_has_prefix (error->message, "--l2-adapter #1 ('fs'): dept: expected one of the keys base_path, "));
  g_assert_true (g_str_has_suffix (error->message, "found an unknown key: did you mean 'depth'?"));
  g_clear_error (&error);
  g_assert_null (lmt_l2_config_parse (registry, "{\"type\":\"fss\"}", 2, &error));
  g_assert_error (error, LMT_ERROR, LMT_ERROR_NO_ADAPTER);
  g_assert_true (g_str_has_prefix (error->message, "--l2-adapter #2: unknown adapter type 'fss'"));
  g_assert_nonnull (strstr (error->message, "mock"));
  g_clear_error (&error);
  g_assert_null (lmt_l2_config_parse (registry, "{\"type\":\"fs\\u0000\"}", 2, &error));
  g_assert_error (error, LMT_ERROR, LMT_ERROR_OPTION);
}

static void
test_values (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (LmtL2Config) config = lmt_l2_config_parse (
      registry,
      "{\"type\":\"mock\",\"max_size_gb\":0.5,\"mock_bandwidth_gb\":10,\"shared\":true,\"persist_enabled\":false,"
      "\"eviction\":{\"eviction_policy\":\"IsolatedLRU\",\"eviction_ratio\":1}}",
      1, &error);
  g_assert_no_error (error);
  g_assert_cmpstr (lmt_l2_config_get_type_name (config), ==, "mock");
  g_assert_cmpuint (lmt_l2_config_get_capacity (config), ==, 536870912);
  g_assert_true (lmt_l2_config_get_shared (config));
  g_assert_false (lmt_l2_config_get_persist (config));
  const LmtL2Eviction *eviction = lmt_l2_config_get_eviction (config);
  g_assert_true (eviction->set);
  g_assert_cmpint (eviction->policy, ==, LMT_EVICT_ISOLATED_LRU);
  g_assert_cmpfloat (eviction->watermark, ==, 0.8);
  g_assert_cmpfloat (eviction->ratio, ==, 1);
  g_autofree char *json = lmt_l2_config_with_capacity (config, 262144);
  g_autoptr (LmtL2Config) smaller = lmt_l2_config_parse (registry, json, 1, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (lmt_l2_config_get_capacity (smaller), ==, 262144);
}

static const Text shorts[] = {
  { "null", "{\"type\":\"null\"}" },
  { "fs:base_path=/x,depth=32", "{\"type\":\"fs\",\"base_path\":\"/x\",\"depth\":32}" },
  { "fs:base_path=/a\\,b=c,use_odirect=true,sync=none",
    "{\"type\":\"fs\",\"base_path\":\"/a,b=c\",\"use_odirect\":true,\"sync\":\"none\"}" },
  { "dram:max_size_gb=1.5,jitter={\"seed\":1,\"share\":0.5},data=false",
    "{\"type\":\"dram\",\"max_size_gb\":1.5,\"jitter\":{\"seed\":1,\"share\":0.5},\"data\":false}" },
  { "mock:max_size_gb=1,mock_bandwidth_gb=2,eviction=LRU,shared=true",
    "{\"type\":\"mock\",\"max_size_gb\":1,\"mock_bandwidth_gb\":2,\"eviction\":{\"eviction_policy\":\"LRU\"},\"shared\":true}" },
  { "fs:base_path=12", "{\"type\":\"fs\",\"base_path\":\"12\"}" },
  { "null:depth=many", "{\"type\":\"null\",\"depth\":\"many\"}" }, /* refused by name when it is read */
};

static void
test_short (gconstpointer data)
{
  const Text *text = data;
  g_autoptr (GError) error = NULL;
  g_autofree char *json = lmt_l2_short_form_to_json (registry, text->argument, &error);
  g_assert_no_error (error);
  g_assert_cmpstr (json, ==, text->message);
}

static void
test_short_wrong (void)
{
  static const char *const wrong[] = { "fs:depth", "fs:=3", "fs:base_path=/x,,depth=1", "nosuch:x=1", "", "plugin:x=1" };
  for (guint i = 0; i < G_N_ELEMENTS (wrong); i++)
    {
      g_autoptr (GError) error = NULL;
      g_assert_null (lmt_l2_short_form_to_json (registry, wrong[i], &error));
      g_assert_true (g_str_has_prefix (error->message, "--l2: "));
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  registry = lmt_registry_new ();
  g_test_add_func ("/l2-config/golden", test_golden);
  g_test_add_func ("/l2-config/unknown", test_unknown);
  g_test_add_func ("/l2-config/values", test_values);
  g_test_add_func ("/l2-config/short/wrong", test_short_wrong);
  for (guint i = 0; i < G_N_ELEMENTS (texts); i++)
    {
      g_autofree char *path = g_strdup_printf ("/l2-config/text/%u", i);
      g_test_add_data_func (path, &texts[i], test_text);
    }
  for (guint i = 0; i < G_N_ELEMENTS (shorts); i++)
    {
      g_autofree char *path = g_strdup_printf ("/l2-config/short/%u", i);
      g_test_add_data_func (path, &shorts[i], test_short);
    }
  int failed = g_test_run ();
  g_object_unref (registry);
  return failed;
}
