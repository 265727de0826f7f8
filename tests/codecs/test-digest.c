// SPDX-License-Identifier: Apache-2.0
/* The configuration as text, its digest, and what the row of the report says. */
#include <string.h>

#include "setup.h"

static StorageConfig *
config_of (Setup *setup, const char *const *argv, const LmtHeader *header)
{
  g_autoptr (GError) error = NULL;
  StorageConfig *config = setup_config (setup, argv, header, &error);
  g_assert_no_error (error);
  return config;
}

static LmtHeader *
header_of (const char *json, const char *digest)
{
  g_autoptr (GByteArray) frame = g_byte_array_new ();
  g_autoptr (GError) error = NULL;
  LmtHeaderFields fields = { .level = "storage", .trace_schema_version = 1, .sm_config_json = json, .sm_config_digest = digest };
  lmt_header_encode (&fields, frame);
  LmtHeader *header = lmt_header_new_from_body ((LmtSpan){ frame->data + 4, frame->len - 4 }, "made.lct", &error);
  g_assert_no_error (error);
  return header;
}

/* What LMCache 0.5.6 writes for the same flags, byte for byte. */
static void
test_reference (void)
{
  g_autoptr (LmtJson) json = load_json ("config", "digest-0.5.6.json");
  const LmtJson *cases = lmt_json_get_member (json, "cases");
  g_assert_cmpuint (lmt_json_get_length (cases), >=, 6);
  for (guint i = 0; i < lmt_json_get_length (cases); i++)
    {
      g_auto (Setup) setup = { .options = NULL };
      const LmtJson *row = lmt_json_get_element (cases, i);
      g_autofree const char **argv = json_words (lmt_json_get_member (row, "argv"));
      g_autoptr (StorageConfig) config = config_of (&setup, argv, NULL);
      g_autofree char *text = storage_config_to_json (config, config->plain_flags ? "lmcache_l1_pool_7327" : NULL, 56);
      g_autofree char *digest = storage_config_digest (text);
      g_assert_cmpstr (text, ==, lmt_json_get_string (lmt_json_get_member (row, "json")));
      g_assert_cmpstr (digest, ==, lmt_json_get_string (lmt_json_get_member (row, "digest")));
    }
}

static const char *const four_gib[] = { "--l1-size-gb", "4", "--eviction-policy", "LRU", "--no-l1-use-lazy", NULL };

/* trace-format.md 6, worked examples. */
static void
test_worked_examples (void)
{
  g_auto (Setup) setup = { .options = NULL };
  g_autoptr (StorageConfig) config = config_of (&setup, four_gib, NULL);
  g_autofree char *old = storage_config_to_json (config, "", 44);
  g_autofree char *old_digest = storage_config_digest (old);
  g_autofree char *text = storage_config_to_json (config, "", 0);
  g_autofree char *digest = storage_config_digest (text);
  g_assert_cmpstr (old_digest, ==, "28620a379faa867e3e19825e155d8f5038f79a7ed05b447cac940192c94166fe");
  g_assert_cmpstr (digest, ==, "979930b5ae3e327c0644467e75e2724df1ebe51544a3df5081edca360f838c84");
}

static void
test_clean (void)
{
  static const char *const argv[]
      = { "--l1-manager", "{\"type\":\"DRAM\",\"tag\":\"_default\",\"size_gb\":0.0625,\"use_lazy\":false}", "--eviction-policy",
          "LRU", NULL };
  g_autofree char *path = g_build_filename (g_getenv ("LMT_TEST_DATA"), "config", "storage-clean.config.json", NULL);
  g_autofree char *expected = NULL;
  g_assert_true (g_file_get_contents (path, &expected, NULL, NULL));
  g_auto (Setup) setup = { .options = NULL };
  g_autoptr (StorageConfig) config = config_of (&setup, argv, NULL);
  g_autofree char *text = storage_config_to_json (config, NULL, 56);
  g_assert_cmpstr (text, ==, g_strchomp (expected));
  g_autofree char *digest = storage_config_digest (text);
  g_autoptr (LmtHeader) header = header_of (text, digest);
  g_autoptr (StorageDigest) same = storage_digest_new (config, header, 56);
  g_assert_cmpstr (same->row, ==, "match (b25ea611)");
}

/* The row, natively and as the reference computes it. */
static void
test_rows (void)
{
  static const char *const other[] = { "--l1-size-gb", "2", "--eviction-policy", "ARC", "--no-l1-use-lazy", NULL };
  g_auto (Setup) setup = { .options = NULL }, setup2 = { .options = NULL };
  g_autoptr (StorageConfig) config = config_of (&setup, four_gib, NULL);
  g_autoptr (StorageConfig) different = config_of (&setup2, other, NULL);
  g_autofree char *text = storage_config_to_json (config, "lmcache_l1_pool_1", 56);
  g_autofree char *digest = storage_config_digest (text);
  g_autoptr (LmtHeader) header = header_of (text, digest);
  g_autofree char *match = g_strdup_printf ("match (%.8s)", digest);
  g_autofree char *equal = g_strdup ("equal but for names (00000000)");

  g_autoptr (StorageDigest) row = storage_digest_new (config, header, 0);
  g_assert_cmpstr (row->row, ==, match);
  g_assert_false (row->mismatch);
  g_assert_cmpuint (row->diff->len, ==, 0);

  g_autoptr (StorageDigest) compat = storage_digest_new (config, header, 56);
  g_autofree char *start = g_strdup_printf ("MISMATCH (rec=%.8s, run=", digest);
  g_assert_true (g_str_has_prefix (compat->row, start));
  g_assert_true (compat->mismatch);

  g_autoptr (StorageDigest) wrong = storage_digest_new (different, header, 0);
  g_assert_true (g_str_has_prefix (wrong->row, start));
  g_assert_cmpuint (strlen (wrong->row), ==, strlen (start) + 9);
  static const char *const paths[] = { "eviction_config.eviction_policy",
                                       "l1_manager_config.eviction.eviction_policy",
                                       "l1_manager_config.memory_config.init_size_in_bytes",
                                       "l1_manager_config.memory_config.size_in_bytes",
                                       "l1_manager_configs[0].eviction.eviction_policy",
                                       "l1_manager_configs[0].memory_config.init_size_in_bytes",
                                       "l1_manager_configs[0].memory_config.size_in_bytes" };
  g_assert_cmpuint (wrong->diff->len, ==, G_N_ELEMENTS (paths));
  for (guint i = 0; i < G_N_ELEMENTS (paths); i++)
    g_assert_cmpstr (((StorageDiff *)wrong->diff->pdata[i])->path, ==, paths[i]);
  g_assert_cmpstr (((StorageDiff *)wrong->diff->pdata[0])->recorded, ==, "\"LRU\"");
  g_assert_cmpstr (((StorageDiff *)wrong->diff->pdata[0])->replay, ==, "\"ARC\"");

  g_autoptr (LmtHeader) edited = header_of (text, "0000000000000000000000000000000000000000000000000000000000000000");
  g_autoptr (StorageDigest) names = storage_digest_new (config, edited, 0);
  g_assert_cmpstr (names->row, ==, equal);

  g_autoptr (LmtHeader) none = header_of ("", "");
  g_autoptr (StorageDigest) absent = storage_digest_new (config, none, 0);
  g_assert_null (absent->row);
  g_autoptr (LmtHeader) bare = header_of ("{}", "0000000000000000000000000000000000000000000000000000000000000000");
  g_autoptr (StorageDigest) bad = storage_digest_new (config, bare, 0);
  g_assert_true (g_str_has_prefix (bad->row, "MISMATCH (rec=00000000, run="));
  g_assert_cmpuint (bad->diff->len, >, 0);
  g_autoptr (LmtHeader) broken = header_of ("{\"a\"", "short");
  g_autoptr (StorageDigest) unreadable = storage_digest_new (config, broken, 0);
  g_assert_true (g_str_has_prefix (unreadable->row, "MISMATCH (rec=short, run="));
}

/* Every genuine trace: its own flags match its header, and --config-from-trace gives what the flags gave. */
static void
check_golden (const char *folder, const char *name)
{
  g_auto (Setup) setup = { .options = NULL }, setup2 = { .options = NULL };
  g_autofree char *base = g_strndup (name, strlen (name) - strlen (".lct"));
  g_autofree char *json_name = g_strconcat (base, ".json", NULL);
  g_autofree char *path = g_build_filename (g_getenv ("LMT_TEST_DATA"), folder, name, NULL);
  g_autoptr (LmtJson) json = load_json (folder, json_name);
  g_autofree const char **argv = json_words (lmt_json_get_member (lmt_json_get_member (json, "replay"), "flags"));
  g_autoptr (GError) error = NULL;
  g_autoptr (LmtReader) reader = lmt_reader_open (path, &error);
  g_assert_no_error (error);
  g_assert_true (lmt_reader_read_header (reader, &error));
  LmtHeader *header = lmt_reader_get_header (reader);
  g_autoptr (StorageConfig) config = config_of (&setup, argv, NULL);
  g_autoptr (StorageDigest) digest = storage_digest_new (config, header, 0);
  g_test_message ("%s/%s: %s", folder, name, digest->row);
  for (guint i = 0; i < digest->diff->len; i++)
    {
      const StorageDiff *diff = digest->diff->pdata[i];
      g_test_message ("  %s: %s, %s", diff->path, diff->recorded, diff->replay);
    }
  g_assert_true (g_str_has_prefix (digest->row, config->sm.n_l2 > 0 ? "equal but for names (" : "match ("));

  static const char *const from_trace[] = { "--config-from-trace", NULL };
  g_autoptr (StorageConfig) same = config_of (&setup2, from_trace, header);
  g_assert_cmpuint (same->sm.size_bytes, ==, config->sm.size_bytes);
  g_assert_cmpuint (same->sm.align_bytes, ==, config->sm.align_bytes);
  g_assert_cmpuint (same->sm.read_ttl_s, ==, config->sm.read_ttl_s);
  g_assert_cmpuint (same->sm.write_ttl_s, ==, config->sm.write_ttl_s);
  g_assert_cmpint (same->sm.eviction.policy, ==, config->sm.eviction.policy);
  g_assert_cmpint (same->sm.store_policy, ==, config->sm.store_policy);
  g_assert_cmpint (same->sm.prefetch_policy, ==, config->sm.prefetch_policy);
  g_assert_cmpint (same->use_lazy, ==, config->use_lazy);
  g_assert_cmpuint (lmt_warnings_count (setup2.warnings, "config"), ==, config->sm.n_l2 > 0 ? 1 : 0);
}

static void
test_golden (void)
{
  g_autofree char *root = g_build_filename (g_getenv ("LMT_TEST_DATA"), "storage", NULL);
  g_autoptr (GDir) releases = g_dir_open (root, 0, NULL);
  const char *release, *name;
  guint n = 0;
  while (releases != NULL && (release = g_dir_read_name (releases)) != NULL)
    {
      g_autofree char *path = g_build_filename (root, release, NULL);
      g_autofree char *folder = g_build_filename ("storage", release, NULL);
      g_autoptr (GDir) dir = g_str_equal (release, "malformed") ? NULL : g_dir_open (path, 0, NULL);
      while (dir != NULL && (name = g_dir_read_name (dir)) != NULL)
        if (g_str_has_suffix (name, ".lct"))
          {
            check_golden (folder, name);
            n++;
          }
    }
  g_assert_cmpuint (n, >=, 70);
}

/* Flags given win over the header; what the header has wrong is named. */
static void
test_from_trace (void)
{
  static const char *const argv[]
      = { "--config-from-trace", "--l1-size", "1MiB", "--eviction-policy", "noop", "--l2-store-policy", "default", NULL };
  static const char *const plain[] = { "--config-from-trace", NULL };
  static const char *const source[] = { "--l1-size-gb",
                                        "4",
                                        "--eviction-policy",
                                        "LRU",
                                        "--eviction-ratio",
                                        "0.5",
                                        "--l2-store-policy",
                                        "skip_l1",
                                        "--l1-read-ttl-seconds",
                                        "7",
                                        NULL };
  g_auto (Setup) setup = { .options = NULL }, setup2 = { .options = NULL };
  g_autoptr (StorageConfig) recorded = config_of (&setup, source, NULL);
  g_autofree char *text = storage_config_to_json (recorded, "", 57);
  g_autoptr (LmtHeader) header = header_of (text, "x");
  g_autoptr (StorageConfig) config = config_of (&setup2, argv, header);
  g_assert_cmpuint (config->sm.size_bytes, ==, 1024 * 1024);
  g_assert_cmpuint (config->init_size_bytes, ==, 1024 * 1024);
  g_assert_cmpint (config->sm.eviction.policy, ==, LMT_EVICT_NOOP);
  g_assert_cmpfloat (config->sm.eviction.ratio, ==, 0.5);
  g_assert_cmpint (config->sm.store_policy, ==, SM_STORE_DEFAULT);
  g_assert_cmpuint (config->sm.read_ttl_s, ==, 7);
  g_assert_cmpfloat (config->sm.prefetch_inflight_watermark, ==, 0.5); /* 0.5.7's admission was in force */

  static const struct
  {
    const char *from;
    const char *to;
    const char *message;
  } edits[] = {
    { "\"align_bytes\": 4096", "\"align_bytes\": 4095", "power of two" },
    { "\"size_in_bytes\": 4294967296", "\"size_in_bytes\": \"4\"", "size_in_bytes: expected an integer from 1" },
    { "\"eviction_ratio\": 0.5", "\"eviction_ratio\": 7", "eviction_ratio: expected a number from 0 to 1, found 7" },
    { "\"eviction_policy\": \"LRU\"", "\"eviction_policy\": \"IsolatedLRU\"", "IsolatedLRU can't serve L1" },
    { "\"store_policy\": \"skip_l1\"", "\"store_policy\": \"x\"", "store_policy: expected default|skip_l1, found \"x\"" },
    { "\"read_ttl_seconds\": 7", "\"read_ttl_seconds\": 0", "read_ttl_seconds: expected an integer from 1" },
    { "\"use_lazy\": false", "\"use_lazy\": 0", "use_lazy: expected true or false, found 0" },
    { "\"l1_manager_config\"", "\"l1\"", "l1_manager_config absent" },
    { "{\"eviction", "{{\"eviction", "sm_config_json: " },
  };
  for (guint i = 0; i < G_N_ELEMENTS (edits); i++)
    {
      g_auto (Setup) again = { .options = NULL };
      g_autoptr (GError) error = NULL;
      g_auto (GStrv) parts = g_strsplit (text, edits[i].from, -1);
      g_assert_cmpuint (g_strv_length (parts), >, 1);
      g_autofree char *edited = g_strjoinv (edits[i].to, parts);
      g_autoptr (LmtHeader) other = header_of (edited, "x");
      g_autoptr (StorageConfig) none = setup_config (&again, plain, other, &error);
      g_assert_null (none);
      assert_refused (error);
      g_assert_nonnull (strstr (error->message, edits[i].message));
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/digest/reference", test_reference);
  g_test_add_func ("/digest/worked-examples", test_worked_examples);
  g_test_add_func ("/digest/clean", test_clean);
  g_test_add_func ("/digest/rows", test_rows);
  g_test_add_func ("/digest/golden", test_golden);
  g_test_add_func ("/digest/from-trace", test_from_trace);
  return g_test_run ();
}
