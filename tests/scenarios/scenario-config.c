/* SPDX-License-Identifier: Apache-2.0 */
#include "scenario.h"

#include <string.h>

#include "storage-config.h"

/*
 * Tables of configuration rows. Where LMCache accepts what lmtrace refuses on purpose (storage-manager.md 15), or the other way
 * round, the row stands here with its reason; any other row must come out as recorded. Texts of errors need not match.
 */
typedef struct
{
  const char *table;
  guint row;
  gboolean accepted; /* by lmtrace */
  const char *reason;
} OnPurpose;

static const OnPurpose on_purpose[] = {
  { "config-flags", 5, FALSE, "size 0 (defect 16)" },
  { "config-flags", 6, FALSE, "size below 0 (defect 16)" },
  { "config-flags", 11, FALSE, "IsolatedLRU for L1 (defect 1)" },
  { "config-flags", 13, FALSE, "watermark 7 (defect 16)" },
  { "config-flags", 14, FALSE, "ratio -3 (defect 16)" },
  { "config-flags", 17, FALSE, "alignment 1000: LMCache refuses it when the pool is made" },
  { "config-flags", 23, FALSE, "lifetime 0 (defect 16)" },
  { "config-flags", 24, FALSE, "lifetime -1 (defect 16)" },
  { "config-flags", 29, FALSE, "max in flight 0: no prefetch would ever start (12.3)" },
  { "config-flags", 34, FALSE, "GDS" },
  { "config-flags", 37, FALSE, "abbreviated flag" },
  { "config-l1-manager", 37, FALSE, "two L1 managers (defect 17)" },
  { "config-l1-manager", 39, FALSE, "DEVDAX" },
  { "config-l1-manager", 42, FALSE, "GDS" },
  { "config-l1-manager", 52, TRUE, "affinity_tag is accepted and ignored" },
  { "config-l2-adapter", 9, TRUE, "affinity_tag is accepted and ignored" },
  { "config-l2-adapter", 10, FALSE, "a number for a boolean" },
  { "config-l2-adapter", 11, FALSE, "a string for a boolean" },
  { "config-l2-adapter", 13, FALSE, "a number for a boolean" },
  { "config-l2-adapter", 17, FALSE, "a string for a number" },
  { "config-l2-adapter", 20, FALSE, "unknown key in eviction" },
  { "config-l2-adapter", 22, FALSE, "serde" },
  { "config-l2-adapter", 25, FALSE, "serde" },
  { "config-l2-adapter", 26, FALSE, "unknown key" },
};

static const OnPurpose *
find_on_purpose (const char *table, guint row)
{
  for (guint i = 0; i < G_N_ELEMENTS (on_purpose); i++)
    if (on_purpose[i].row == row && strcmp (on_purpose[i].table, table) == 0)
      return &on_purpose[i];
  return NULL;
}

/* ---- what came out, in the words of the tables ---- */

static void
write_eviction (LmtJsonWriter *writer, LmtEvictKind policy, double watermark, double ratio)
{
  lmt_json_writer_begin_object (writer);
  lmt_json_writer_key (writer, "policy");
  lmt_json_writer_string (writer, lmt_evict_kind_to_text (policy));
  lmt_json_writer_key (writer, "watermark");
  lmt_json_writer_double (writer, watermark);
  lmt_json_writer_key (writer, "ratio");
  lmt_json_writer_double (writer, ratio);
  lmt_json_writer_end_object (writer);
}

static void
write_l1 (LmtJsonWriter *writer, const StorageConfig *config)
{
  lmt_json_writer_begin_object (writer);
  lmt_json_writer_key (writer, "kind");
  lmt_json_writer_string (writer, "DRAM");
  lmt_json_writer_key (writer, "tag");
  lmt_json_writer_string (writer, config->l1_tag);
  lmt_json_writer_key (writer, "size_bytes");
  lmt_json_writer_uint (writer, config->sm.size_bytes);
  lmt_json_writer_key (writer, "align_bytes");
  lmt_json_writer_uint (writer, config->sm.align_bytes);
  lmt_json_writer_key (writer, "write_ttl_s");
  lmt_json_writer_uint (writer, config->sm.write_ttl_s);
  lmt_json_writer_key (writer, "read_ttl_s");
  lmt_json_writer_uint (writer, config->sm.read_ttl_s);
  lmt_json_writer_key (writer, "eviction");
  write_eviction (writer, config->sm.eviction.policy, config->sm.eviction.watermark, config->sm.eviction.ratio);
  lmt_json_writer_end_object (writer);
}

static void
write_l2 (LmtJsonWriter *writer, const LmtL2Config *config)
{
  const LmtL2Eviction *eviction = lmt_l2_config_get_eviction (config);

  lmt_json_writer_begin_object (writer);
  lmt_json_writer_key (writer, "type");
  lmt_json_writer_string (writer, lmt_l2_config_get_type_name (config));
  lmt_json_writer_key (writer, "shared");
  lmt_json_writer_bool (writer, lmt_l2_config_get_shared (config));
  lmt_json_writer_key (writer, "persist_enabled");
  lmt_json_writer_bool (writer, lmt_l2_config_get_persist (config));
  lmt_json_writer_key (writer, "eviction");
  if (eviction != NULL && eviction->set)
    write_eviction (writer, eviction->policy, eviction->watermark, eviction->ratio);
  else
    lmt_json_writer_null (writer);
  lmt_json_writer_end_object (writer);
}

static LmtJson *
describe (Scenario *scenario, const StorageConfig *config)
{
  LmtJsonWriter *writer;

  found_begin (scenario);
  writer = scenario->writer;
  lmt_json_writer_key (writer, "l1");
  lmt_json_writer_begin_array (writer);
  write_l1 (writer, config);
  lmt_json_writer_end_array (writer);
  lmt_json_writer_key (writer, "store_policy");
  lmt_json_writer_string (writer, config->sm.store_policy == SM_STORE_SKIP_L1 ? "skip_l1" : "default");
  lmt_json_writer_key (writer, "prefetch_policy");
  lmt_json_writer_string (writer, config->sm.prefetch_policy == SM_PREFETCH_RETAIN ? "retain" : "default");
  lmt_json_writer_key (writer, "prefetch_max_in_flight");
  lmt_json_writer_uint (writer, config->sm.prefetch_max_in_flight);
  lmt_json_writer_key (writer, "periodic_notifier_interval_ms");
  lmt_json_writer_int (writer, config->notifier_interval_ms);
  lmt_json_writer_key (writer, "l2");
  lmt_json_writer_begin_array (writer);
  for (guint i = 0; i < config->sm.n_l2; i++)
    write_l2 (writer, config->l2[i]);
  lmt_json_writer_end_array (writer);
  return found_end (scenario);
}

static gboolean
is_number (const LmtJson *json)
{
  LmtJsonType type = lmt_json_get_type (json);

  return type == LMT_JSON_INT || type == LMT_JSON_UINT || type == LMT_JSON_DOUBLE;
}

/* A flag's 1 is written as 1 in a recorded object and is 1.0 here. */
static gboolean
same (const LmtJson *ours, const LmtJson *theirs)
{
  if (theirs == NULL)
    return FALSE;
  if (is_number (ours) && is_number (theirs))
    return lmt_json_get_double (ours) == lmt_json_get_double (theirs);
  if (lmt_json_get_type (ours) != LMT_JSON_OBJECT || lmt_json_get_type (theirs) != LMT_JSON_OBJECT)
    return lmt_json_equal (ours, theirs);
  for (guint i = 0; i < lmt_json_get_length (ours); i++)
    if (!same (lmt_json_get_member_value (ours, i), lmt_json_get_member (theirs, lmt_json_get_member_name (ours, i))))
      return FALSE;
  return TRUE;
}

/* Of the recorded objects: what is left out of ours is what needs no saying (lazy pools, ignored tags, serde). */
static void
compare_config (Scenario *scenario, const char *where, const LmtJson *expected, const LmtJson *found)
{
  for (guint i = 0; i < lmt_json_get_length (found); i++)
    {
      const char *name = lmt_json_get_member_name (found, i);
      const LmtJson *want = lmt_json_get_member (expected, name), *have = lmt_json_get_member_value (found, i);
      g_autofree char *place = g_strdup_printf ("%s: %s", where, name);

      if (lmt_json_get_type (have) != LMT_JSON_ARRAY)
        {
          compare_exactly (scenario, place, want, have);
          continue;
        }
      if (want == NULL || lmt_json_get_length (want) != lmt_json_get_length (have))
        {
          fail (scenario, place, "as many entries as recorded", "another number");
          continue;
        }
      for (guint k = 0; k < lmt_json_get_length (have); k++)
        if (!same (lmt_json_get_element (have, k), lmt_json_get_element (want, k)))
          compare_exactly (scenario, place, lmt_json_get_element (want, k), lmt_json_get_element (have, k));
    }
}

/* ---- rows ---- */

static StorageConfig *
read_argv (LmtRegistry *registry, const LmtJson *argv, LmtOptions *options, StorageFlags *flags, LmtWarnings *warnings,
           GError **error)
{
  g_autoptr (GPtrArray) words = g_ptr_array_new ();
  g_auto (GStrv) operands = NULL;

  lmt_options_add_table (options, storage_options, flags);
  for (guint i = 0; i < lmt_json_get_length (argv); i++)
    {
      const char *word = lmt_json_get_string (lmt_json_get_element (argv, i));
      const char *before = words->len > 0 ? words->pdata[words->len - 1] : "";

      /* A negative number behind a flag is its value there; here it is written with an equals sign. */
      if (word[0] == '-' && g_ascii_isdigit (word[1]) && before[0] == '-')
        {
          char *joined = g_strconcat (before, "=", word, NULL);

          words->pdata[words->len - 1] = (gpointer)g_intern_string (joined);
          g_free (joined);
        }
      else
        g_ptr_array_add (words, (gpointer)word);
    }
  g_ptr_array_add (words, NULL);
  if (!lmt_options_parse_argv (options, (const char *const *)words->pdata, TRUE, &operands, error))
    return NULL;
  return storage_config_new (flags, options, registry, NULL, warnings, error);
}

static void
check_row (Scenario *scenario, LmtRegistry *registry, const LmtJson *row, guint number)
{
  const LmtJson *argv = lmt_json_get_member (row, "argv"), *expected = lmt_json_get_member (row, "expect");
  const OnPurpose *different = find_on_purpose (scenario->name, number);
  gboolean wanted = different != NULL ? different->accepted : lmt_json_get_member (expected, "config") != NULL;
  g_autofree char *where = g_strdup_printf ("case %u", number);
  g_autoptr (GError) error = NULL;
  g_autoptr (LmtOptions) options = lmt_options_new ();
  g_autoptr (LmtWarnings) warnings = lmt_warnings_new ();
  StorageFlags flags = { 0 };
  g_autoptr (StorageConfig) config = read_argv (registry, argv, options, &flags, warnings, &error);

  if (wanted && config == NULL)
    fail (scenario, where, "a configuration", error->message);
  else if (!wanted && config != NULL)
    fail (scenario, where, different != NULL ? different->reason : "a configuration error", "a configuration");
  else if (config != NULL && different == NULL)
    {
      g_autoptr (LmtJson) found = describe (scenario, config);

      compare_config (scenario, where, lmt_json_get_member (expected, "config"), found);
    }
}

void
run_config_table (Scenario *scenario)
{
  const LmtJson *cases = lmt_json_get_member (scenario->json, "cases");
  g_autoptr (LmtRegistry) registry = lmt_registry_new ();

  if (strcmp (scenario->name, "config-flags") != 0 && lmt_registry_get_l2 (registry, "mock", NULL) == NULL)
    {
      scenario->skip = g_strdup ("no adapter \"mock\": set LMTRACE_PLUGIN_PATH");
      return;
    }
  for (guint i = 0; i < lmt_json_get_length (cases); i++)
    check_row (scenario, registry, lmt_json_get_element (cases, i), i);
}
