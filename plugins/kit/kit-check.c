// SPDX-License-Identifier: Apache-2.0
/* check-adapter: contract scenarios, then trials; cli.md 8.15. */
#include <fnmatch.h>

#include "kit-child.h"
#include "kit-trial.h"
#include "kit.h"

typedef struct
{
  char *scenarios;
  char *only;
  guint64 rounds;
  guint64 patience_s;
} CheckConfig;

static const LmtOption check_options[] = {
  LMT_OPTION_FULL (STRING, "scenarios", CheckConfig, scenarios, 0, NULL, "nonempty", "PATH",
                   "Run this scenario file or the files of this folder; default: those installed with lmtrace", NULL),
  LMT_OPTION_FULL (STRING, "only", CheckConfig, only, 0, NULL, "nonempty", "GLOB", "Run only what this name pattern matches",
                   NULL),
  LMT_OPTION_FULL (COUNT, "rounds", CheckConfig, rounds, 0, "5", "1..10000", "N",
                   "Kill and reopen so many times in crash-in-store", NULL),
  LMT_OPTION_FULL (COUNT, "patience", CheckConfig, patience_s, 0, "10", "1..86400", "SECONDS",
                   "Wait so long for a result before it counts as lost", NULL),
  LMT_OPTION_END,
};

typedef struct
{
  char *name;
  const char *kind; /* scenario, load, concurrency, crash, leak */
  KitVerdict verdict;
  char *why;
} Line;

typedef struct
{
  const LmtCommandContext *context;
  const CheckConfig *config;
  KitCheck *check;
  GArray *lines; /* Line */
  guint n[3];
} Session;

static void
line_clear (gpointer data)
{
  Line *line = data;
  g_free (line->name);
  g_free (line->why);
}

/* -------- what is run -------- */

static int
compare_paths (gconstpointer a, gconstpointer b)
{
  return strcmp (*(const char *const *)a, *(const char *const *)b);
}

static GPtrArray *
list_scenarios (const CheckConfig *config, GError **error)
{
  g_autofree char *path = config->scenarios != NULL ? g_strdup (config->scenarios) : kit_data_dir ("contract");
  g_autoptr (GPtrArray) paths = g_ptr_array_new_with_free_func (g_free);
  const char *name;
  if (!g_file_test (path, G_FILE_TEST_IS_DIR))
    {
      if (!g_file_test (path, G_FILE_TEST_EXISTS))
        {
          g_set_error (error, LMT_ERROR, LMT_ERROR_IO, "%s: expected scenario files, found nothing of that name", path);
          return NULL;
        }
      g_ptr_array_add (paths, g_steal_pointer (&path));
      return g_steal_pointer (&paths);
    }
  g_autoptr (GDir) dir = g_dir_open (path, 0, error);
  if (dir == NULL)
    return NULL;
  while ((name = g_dir_read_name (dir)) != NULL)
    if (g_str_has_suffix (name, ".json"))
      g_ptr_array_add (paths, g_build_filename (path, name, NULL));
  if (paths->len == 0)
    {
      g_set_error (error, LMT_ERROR, LMT_ERROR_IO, "%s: expected scenario files, found none", path);
      return NULL;
    }
  g_ptr_array_sort (paths, compare_paths);
  return g_steal_pointer (&paths);
}

static gboolean
is_wanted (const Session *session, const char *name)
{
  return (session->config->only == NULL || fnmatch (session->config->only, name, 0) == 0)
         && (session->context->interrupts == NULL || *session->context->interrupts == 0);
}

static void
add_line (Session *session, const char *name, const char *kind, KitVerdict verdict, char *why)
{
  Line line = { g_strdup (name), kind, verdict, why };
  session->n[verdict]++;
  g_array_append_val (session->lines, line);
}

typedef struct
{
  const KitTrial *trial;
  guint rounds;
} Trial;

static KitVerdict
run_trial (KitCheck *check, gpointer data, char **why)
{
  const Trial *one = data;
  return one->trial->run (check, one->rounds, why);
}

static void
run_all (Session *session, GPtrArray *paths)
{
  for (guint i = 0; i < paths->len; i++)
    {
      g_autofree char *name = kit_scenario_name (paths->pdata[i]);
      g_autofree char *again = NULL;
      char *why = NULL;
      if (!is_wanted (session, name))
        continue;
      g_info ("Checking %s", name);
      guint failed = session->n[KIT_FAILED];
      KitVerdict verdict = kit_scenario_run (session->check, paths->pdata[i], &again, &why);
      add_line (session, name, "scenario", verdict, why);
      /* One that crashed cleaned nothing up. */
      if (session->n[KIT_FAILED] > failed)
        kit_check_wipe (session->check);
    }
  for (const KitTrial *trial = kit_trials; trial->name != NULL; trial++)
    {
      char *why = NULL;
      if (!is_wanted (session, trial->name))
        continue;
      g_info ("Checking %s", trial->name);
      g_autofree char *word = g_strndup (trial->name, strcspn (trial->name, "-"));
      Trial one = { trial, (guint)session->config->rounds };
      KitVerdict verdict = kit_child_run (session->check, run_trial, &one, &why);
      kit_check_wipe (session->check);
      add_line (session, trial->name, g_intern_string (word), verdict, why);
    }
}

/* -------- what is said -------- */

static char *
make_text (const Session *session)
{
  GString *text = g_string_new (NULL);
  for (guint i = 0; i < session->lines->len; i++)
    {
      const Line *line = &g_array_index (session->lines, Line, i);
      if (line->verdict == KIT_PASSED)
        g_string_append_printf (text, "ok %s\n", line->name);
      else if (line->verdict == KIT_FAILED)
        g_string_append_printf (text, "not ok %s: %s\n", line->name, line->why);
      else
        g_string_append_printf (text, "skip %s: needs %s\n", line->name, line->why);
    }
  g_string_append_printf (text, "%u passed, %u failed, %u not applicable\n", session->n[KIT_PASSED], session->n[KIT_FAILED],
                          session->n[KIT_SKIPPED]);
  return g_string_free (text, FALSE);
}

static void
write_text (LmtJsonWriter *json, const char *key, const char *value)
{
  lmt_json_writer_key (json, key);
  lmt_json_writer_string (json, value);
}

static void
write_uint (LmtJsonWriter *json, const char *key, guint64 value)
{
  lmt_json_writer_key (json, key);
  lmt_json_writer_uint (json, value);
}

static void
write_line (LmtJsonWriter *json, const Line *line)
{
  static const char *const words[] = { [KIT_PASSED] = "ok", [KIT_FAILED] = "not ok", [KIT_SKIPPED] = "skip" };
  unsigned int step;
  char op[32];
  int behind = 0;
  lmt_json_writer_begin_object (json);
  write_text (json, "name", line->name);
  write_text (json, "kind", line->kind);
  write_text (json, "result", words[line->verdict]);
  if (line->verdict == KIT_SKIPPED)
    write_text (json, "needs", line->why);
  else if (line->verdict == KIT_FAILED)
    {
      if (sscanf (line->why, "step %u (%31[a-z]): %n", &step, op, &behind) == 2 && behind > 0)
        {
          write_uint (json, "step", step);
          write_text (json, "op", op);
        }
      write_text (json, "message", line->why + behind);
    }
  lmt_json_writer_end_object (json);
}

static void
write_capabilities (LmtJsonWriter *json, guint32 capabilities)
{
  static const char *const names[] = { "keep", "data", "persist", "delete", "capacity", "tamper", "direct", "register-memory" };
  lmt_json_writer_key (json, "capabilities");
  lmt_json_writer_begin_array (json);
  for (guint i = 0; i < G_N_ELEMENTS (names); i++)
    if ((capabilities & (1u << i)) != 0)
      lmt_json_writer_string (json, names[i]);
  lmt_json_writer_end_array (json);
}

/* The summary a vendor can publish. */
static char *
make_metrics (const Session *session, const char *type)
{
  GString *text = g_string_new (NULL);
  LmtJsonWriter *json = lmt_json_writer_new (text, LMT_JSON_STYLE_SPACED);
  const LmtL2Info *info = kit_scenario_get_info (session->check);
  LmtPluginInfo *plugin = lmt_registry_get_owner (session->context->registry, "l2", type);
  lmt_json_writer_begin_object (json);
  write_text (json, "adapter", type);
  write_text (json, "lmtrace_version", LMT_VERSION);
  lmt_json_writer_key (json, "plugin");
  lmt_json_writer_begin_object (json);
  write_text (json, "name", plugin != NULL ? lmt_plugin_info_get_name (plugin) : NULL);
  write_text (json, "path", plugin != NULL ? lmt_plugin_info_get_path (plugin) : NULL);
  write_text (json, "version", plugin != NULL ? lmt_plugin_info_get_version (plugin) : NULL);
  write_text (json, "licence", plugin != NULL ? lmt_plugin_info_get_licence (plugin) : NULL);
  write_uint (json, "abi", plugin != NULL ? lmt_plugin_info_get_abi (plugin) : 0);
  lmt_json_writer_end_object (json);
  write_capabilities (json, info->capabilities);
  write_uint (json, "depth", info->depth);
  write_uint (json, "buffer_align_bytes", info->buffer_align);
  write_uint (json, "length_align_bytes", info->length_align);
  write_uint (json, "charge_bytes", info->charge_bytes);
  write_uint (json, "passed", session->n[KIT_PASSED]);
  write_uint (json, "failed", session->n[KIT_FAILED]);
  write_uint (json, "not_applicable", session->n[KIT_SKIPPED]);
  lmt_json_writer_key (json, "scenarios");
  lmt_json_writer_begin_array (json);
  for (guint i = 0; i < session->lines->len; i++)
    write_line (json, &g_array_index (session->lines, Line, i));
  lmt_json_writer_end_array (json);
  lmt_json_writer_end_object (json);
  lmt_json_writer_free (json);
  return g_string_free (text, FALSE);
}

/* -------- the command -------- */

static int
check_run (const LmtCommandContext *context, GError **error)
{
  const char *json = context->operands[0];
  if (kit_crash_is_child ())
    return kit_crash_child (context->registry, json, (guint)((const CheckConfig *)context->config)->patience_s);
  Session session = { .context = context, .config = context->config };
  g_autoptr (LmtL2Config) config = lmt_l2_config_parse (context->registry, json, 1, error);
  g_autoptr (GPtrArray) paths = config != NULL ? list_scenarios (session.config, error) : NULL;
  g_autofree char *broken = NULL;
  g_autoptr (KitCheck) check
      = paths != NULL ? kit_scenario_new (context->registry, json, (guint)session.config->patience_s, &broken, error) : NULL;
  if (check == NULL)
    return 2;
  session.check = check;
  if ((kit_scenario_get_info (check)->flags & LMT_L2_INFO_FAULTS) != 0)
    lmt_warnings_add (context->warnings, "faults",
                      "the adapter makes results wrong on purpose: it is to be checked with every fault off");
  session.lines = g_array_new (FALSE, FALSE, sizeof (Line));
  g_array_set_clear_func (session.lines, line_clear);
  if (broken != NULL)
    add_line (&session, "open", "scenario", KIT_FAILED, g_steal_pointer (&broken));
  else
    run_all (&session, paths);
  gboolean partial = context->interrupts != NULL && *context->interrupts > 0;
  int code = partial ? 130 : session.n[KIT_FAILED] > 0 ? 1 : 0;
  g_autofree char *text = make_text (&session);
  g_autofree char *metrics = make_metrics (&session, lmt_l2_config_get_type_name (config));
  if (session.lines->len == 0 && !partial)
    {
      g_set_error (error, LMT_ERROR, LMT_ERROR_OPTION, "--only: expected the name of a scenario or trial, found \"%s\"",
                   session.config->only);
      code = 2;
    }
  else if (!lmt_output_raw (context->output, "Adapter check", text, metrics, NULL, partial, code, error))
    code = 1;
  g_array_unref (session.lines);
  return code;
}

static const char *const check_examples[] = {
  "lmtrace check-adapter '{\"type\":\"fs\",\"base_path\":\"/tmp/new\"}'",
  "lmtrace check-adapter --plugin-dir . --only 'evict-*' '{\"type\":\"mine\"}'",
  "lmtrace check-adapter --json --rounds 200 '{\"type\":\"mine\"}' >report.json",
  NULL,
};

const LmtCommandOps kit_check_ops = {
  .struct_size = sizeof (LmtCommandOps),
  .config_size = sizeof (CheckConfig),
  .name = "check-adapter",
  .summary = "Run the contract scenarios and trials against an L2 adapter",
  .synopsis = "[OPTIONS] JSON",
  .examples = check_examples,
  .options = check_options,
  .run = check_run,
  .min_operands = 1,
  .max_operands = 1,
  .more_text
  = "JSON is an adapter's configuration, as for --l2-adapter of replay. Its medium must hold no objects: what the check "
    "stores, it deletes. A wrapper that injects faults is checked with every fault off.\n\n"
    "Scenarios are files (schema lmtrace-l2-contract/1); trials are built in: load-*, concurrency-*, crash-in-store (a "
    "child is killed in mid-store, what was reported stored must be there and whole), leak-reopen. A line says ok, not ok "
    "with the step, what was expected and found, or skip with the capability the adapter doesn't claim. Each check runs in a "
    "process of its own: an adapter that crashes, exits or hangs fails that one, and the rest goes on. --json gives a "
    "summary to publish: adapter, plugin and its version, ABI, capabilities, each result.",
};
