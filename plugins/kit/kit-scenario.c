/* SPDX-License-Identifier: Apache-2.0 */
#include "kit-child.h"

#include <fnmatch.h>
#include <lmtrace/lmt-source.h>

enum
{
  SCENARIO_MAX_BYTES = 16 << 20,
};

/* -------- one scenario -------- */

/* The norm as it applies here: without data no content is compared, and "the bits of that task" are its bits. */
static void
write_norm (Run *run, LmtJsonWriter *writer, const LmtJson *norm)
{
  LmtJsonType type = lmt_json_get_type (norm);
  if (type == LMT_JSON_ARRAY)
    {
      lmt_json_writer_begin_array (writer);
      for (guint i = 0; i < lmt_json_get_length (norm); i++)
        write_norm (run, writer, lmt_json_get_element (norm, i));
      lmt_json_writer_end_array (writer);
      return;
    }
  if (type != LMT_JSON_OBJECT)
    {
      lmt_json_writer_value (writer, norm);
      return;
    }
  lmt_json_writer_begin_object (writer);
  for (guint i = 0; i < lmt_json_get_length (norm); i++)
    {
      const char *name = lmt_json_get_member_name (norm, i);
      const LmtJson *value = lmt_json_get_member_value (norm, i);
      if (strcmp (name, "content") == 0 && !run->data)
        continue;
      if (strcmp (name, "same_bits_as") == 0)
        {
          g_autoptr (GString) bits = g_string_new (NULL);
          kit_scenario_append_bits (kit_scenario_find_task (run, lmt_json_get_string (value)), bits);
          lmt_json_writer_key (writer, "bits");
          lmt_json_writer_string (writer, bits->str);
          continue;
        }
      lmt_json_writer_key (writer, name);
      write_norm (run, writer, value);
    }
  lmt_json_writer_end_object (writer);
}

static LmtJson *
norm_of_step (Run *run, const LmtJson *step)
{
  const LmtJson *norm = lmt_json_get_member (step, "require");
  if (norm == NULL)
    return NULL;
  g_autoptr (GString) out = g_string_new (NULL);
  LmtJsonWriter *writer = lmt_json_writer_new (out, LMT_JSON_STYLE_COMPACT);
  write_norm (run, writer, norm);
  lmt_json_writer_free (writer);
  return lmt_json_parse (out->str, -1, NULL);
}

static gboolean
run_step (Run *run, guint number, const LmtJson *step)
{
  g_autoptr (GString) text = g_string_new (NULL);
  const char *op = kit_scenario_get_text (step, "op");
  if (op == NULL)
    op = "none";
  kit_progress (run->check, "step %u (%s)", number, op);
  kit_scenario_do_step (run, step, op, text);
  /* Only the adapter's own hook can say what else lies on its medium. */
  if (strcmp (op, "debris") == 0 && lmt_l2_get_ops (run->l2)->tamper == NULL)
    return TRUE;
  if (run->why == NULL)
    {
      g_autoptr (LmtJson) norm = norm_of_step (run, step);
      g_autoptr (LmtJson) found = lmt_json_parse (text->len > 0 ? text->str : "{}", -1, NULL);
      if (norm == NULL || (lmt_json_get_length (norm) == 0) || kit_scenario_matches (norm, found))
        return TRUE;
      g_autofree char *expected = lmt_json_to_text (norm, LMT_JSON_STYLE_SPACED, FALSE);
      run->why = g_strdup_printf ("expected %s, found %s", expected, text->str);
    }
  g_autofree char *inner = run->why;
  run->why = g_strdup_printf ("step %u (%s): %s", number, op, inner);
  return FALSE;
}

/* Objects the adapter knows of, all of them deleted; the next scenario starts with none. */
static void
collect (LmtKey *key, guint64 bytes, guint locks, gpointer data)
{
  GPtrArray *keys = data;
  for (guint i = 0; i <= locks; i++)
    g_ptr_array_add (keys, key);
}

static void
empty_medium (Run *run)
{
  if ((lmt_l2_get_info (run->l2)->capabilities & LMT_L2_CAP_DELETE) == 0)
    return;
  Task *task = g_new0 (Task, 1);
  task->keys = g_ptr_array_new ();
  lmt_l2_foreach (run->l2, collect, task->keys);
  lmt_l2_unlock (run->l2, (LmtKey *const *)task->keys->pdata, task->keys->len);
  task->codes = g_new0 (guint8, task->keys->len + 1);
  task->task = (LmtL2Task){ .kind = LMT_L2_DELETE,
                            .n = task->keys->len,
                            .keys = (LmtKey *const *)task->keys->pdata,
                            .codes = task->codes,
                            .user_data = task };
  g_ptr_array_add (run->tasks, task);
  if (lmt_l2_submit (run->l2, &task->task, NULL))
    {
      lmt_l2_flush (run->l2);
      kit_scenario_wait_task (run, task);
    }
}

static void
check_buffers (Run *run)
{
  for (guint i = 0; i < run->tasks->len && run->why == NULL; i++)
    {
      Task *task = run->tasks->pdata[i];
      for (guint k = 0; task->buffers != NULL && k < task->keys->len; k++)
        if (task->buffers[k].at != NULL && !kit_scenario_buffer_is_kept (&task->buffers[k]))
          {
            run->why = g_strdup_printf ("task %s: expected nothing past the buffer's end, found it written", task->name);
            break;
          }
    }
}

static void
run_steps (Run *run)
{
  const LmtJson *steps = lmt_json_get_member (run->scenario, "steps");
  for (guint i = 0; i < lmt_json_get_length (steps); i++)
    if (!run_step (run, i, lmt_json_get_element (steps, i)))
      return;
}

static const char *
policy_of (const LmtJson *scenario)
{
  const LmtJson *steps = lmt_json_get_member (scenario, "steps");
  for (guint i = 0; i < lmt_json_get_length (steps); i++)
    if (g_strcmp0 (kit_scenario_get_text (lmt_json_get_element (steps, i), "op"), "evict") == 0)
      return kit_scenario_get_text (lmt_json_get_element (steps, i), "policy");
  return NULL;
}

static LmtL2Config *
config_of (KitCheck *check, const LmtJson *scenario, char **why)
{
  g_autoptr (GError) error = NULL;
  LmtL2Config *config = lmt_l2_config_parse (check->registry, check->json, 1, &error);
  guint64 capacity = kit_scenario_get_number (lmt_json_get_member (scenario, "options"), "capacity_bytes");
  if (config != NULL && capacity > 0)
    {
      g_autofree char *json = lmt_l2_config_with_capacity (config, capacity);
      g_clear_pointer (&config, lmt_l2_config_free);
      if (json != NULL)
        config = lmt_l2_config_parse (check->registry, json, 1, &error);
    }
  if (config == NULL)
    *why = g_strdup (error != NULL ? error->message : "needs capacity");
  return config;
}

static void
run_end (Run *run)
{
  if (run->l2 != NULL)
    {
      g_autofree char *why = g_steal_pointer (&run->why);
      kit_progress (run->check, "close");
      kit_scenario_close_adapter (run);
      if (why != NULL)
        {
          g_free (run->why);
          run->why = g_steal_pointer (&why);
        }
    }
  check_buffers (run);
  guint64 n = run->l2 != NULL ? lmt_l2_get_figures (run->l2)->protocol_errors : 0;
  if (run->why == NULL && n > 0)
    run->why = g_strdup_printf ("expected each io back once and with a result, found %" G_GUINT64_FORMAT " that were not: %s", n,
                                run->protocol != NULL ? run->protocol : "no message");
  g_clear_pointer (&run->l2, lmt_l2_free);
  guint fds = kit_scenario_count_entries ("/proc/self/fd"), threads = kit_scenario_count_threads (run->threads_before);
  if (run->why == NULL && fds != run->fds_before)
    run->why = g_strdup_printf ("close: expected %u descriptors, found %u", run->fds_before, fds);
  if (run->why == NULL && threads > run->threads_before)
    run->why = g_strdup_printf ("close: expected %u threads, found %u", run->threads_before, threads);
  /* What the scenario left on the medium goes. */
  g_autofree char *why = g_steal_pointer (&run->why);
  kit_progress (run->check, "open again, to delete what is left");
  if (kit_scenario_open_adapter (run))
    {
      empty_medium (run);
      kit_scenario_close_adapter (run);
    }
  g_clear_pointer (&run->l2, lmt_l2_free);
  g_free (run->why);
  run->why = g_steal_pointer (&why);
}

/* (transfer full) (nullable): what went wrong. */
static char *
run_once (KitCheck *check, const LmtJson *scenario)
{
  LmtEvictKind policy;
  Run run = { .check = check, .scenario = scenario };
  run.config = config_of (check, scenario, &run.why);
  if (run.config == NULL)
    return run.why;
  run.keys = lmt_key_table_new ();
  run.tasks = g_ptr_array_new_with_free_func (kit_scenario_task_free);
  run.events = g_string_new (NULL);
  kit_scenario_make_keys (&run);
  if (lmt_evict_kind_from_text (policy_of (scenario) != NULL ? policy_of (scenario) : "", &policy))
    run.evict = lmt_evict_new (policy, NULL);
  run.fds_before = kit_scenario_count_entries ("/proc/self/fd");
  run.threads_before = kit_scenario_count_tasks ();
  if (kit_scenario_open_adapter (&run))
    run_steps (&run);
  run_end (&run);
  g_ptr_array_unref (run.tasks);
  g_string_free (run.events, TRUE);
  GHashTableIter iter;
  gpointer key;
  g_hash_table_iter_init (&iter, run.key_of_name);
  while (g_hash_table_iter_next (&iter, NULL, &key))
    lmt_key_unref (run.keys, key);
  g_hash_table_unref (run.key_of_name);
  g_clear_pointer (&run.evict, lmt_evict_free);
  lmt_key_table_free (run.keys);
  lmt_l2_config_free (run.config);
  g_free (run.protocol);
  return run.why;
}

/* -------- what applies -------- */

static gboolean
demands_found_bit (const LmtJson *norm)
{
  const char *bits = kit_scenario_get_text (norm, "bits");
  return bits != NULL && strchr (bits, '1') != NULL;
}

/* A word for what the adapter would need, or NULL. */
static const char *
missing_capability (const LmtJson *scenario, guint32 capabilities)
{
  static const struct
  {
    const char *name;
    guint32 flag;
  } known[] = { { "capacity", LMT_L2_CAP_CAPACITY }, { "delete", LMT_L2_CAP_DELETE },
                { "persist", LMT_L2_CAP_PERSIST },   { "tamper", LMT_L2_CAP_TAMPER },
                { "direct", LMT_L2_CAP_DIRECT },     { "data", LMT_L2_CAP_DATA },
                { "keep", LMT_L2_CAP_KEEP },         { "lock", 0 } };
  const LmtJson *steps = lmt_json_get_member (scenario, "steps");
  for (guint i = 0; i < lmt_json_get_length (steps); i++)
    {
      const LmtJson *step = lmt_json_get_element (steps, i);
      const char *op = kit_scenario_get_text (step, "op");
      const LmtJson *norm = lmt_json_get_member (step, "require");
      gboolean needs_keep
          = norm != NULL
            && (demands_found_bit (norm) || strcmp (op, "usage") == 0 || strcmp (op, "events") == 0 || strcmp (op, "evict") == 0);
      if (needs_keep && (capabilities & LMT_L2_CAP_KEEP) == 0)
        return "keep";
      if (strcmp (op, "tamper") == 0 && (capabilities & LMT_L2_CAP_DATA) == 0)
        return "data";
    }
  for (guint i = 0; i < kit_scenario_get_length (scenario, "requires"); i++)
    {
      const char *name = lmt_json_get_string (kit_scenario_get_element (scenario, "requires", i));
      guint k = 0;
      while (k < G_N_ELEMENTS (known) && strcmp (known[k].name, name) != 0)
        k++;
      if (k == G_N_ELEMENTS (known))
        return "a capability nobody knows";
      if (known[k].flag != 0 && (capabilities & known[k].flag) == 0)
        return known[k].name;
    }
  return NULL;
}

/* An adapter whose objects cost a slot each: usage isn't the sum of their lengths, and none is longer than a slot. */
static const char *
beyond_slots (const LmtJson *scenario, guint64 slot_bytes)
{
  const LmtJson *buffers = lmt_json_get_member (scenario, "buffers"), *steps = lmt_json_get_member (scenario, "steps");
  for (guint i = 0; buffers != NULL && i < lmt_json_get_length (buffers); i++)
    if (kit_scenario_get_number (lmt_json_get_member_value (buffers, i), "size") > slot_bytes)
      return "larger objects";
  for (guint i = 0; i < lmt_json_get_length (steps); i++)
    {
      const LmtJson *step = lmt_json_get_element (steps, i);
      if (g_strcmp0 (kit_scenario_get_text (step, "op"), "usage") == 0 && lmt_json_get_member (step, "require") != NULL)
        return "usage by length";
    }
  return NULL;
}

/* A device's capacity is what it is: only where a key sets it can a scenario ask for less. */
static gboolean
takes_capacity (KitCheck *check, const LmtJson *scenario)
{
  guint64 capacity = kit_scenario_get_number (lmt_json_get_member (scenario, "options"), "capacity_bytes");
  g_autoptr (LmtL2Config) config = capacity > 0 ? lmt_l2_config_parse (check->registry, check->json, 1, NULL) : NULL;
  g_autofree char *json = config != NULL ? lmt_l2_config_with_capacity (config, capacity) : NULL;
  return capacity == 0 || json != NULL;
}

/* What it says of itself, and how many objects lie there. FALSE: it can't be opened. */
static gboolean
ask_adapter (KitCheck *check, char **why)
{
  Run run = { .check = check };
  run.config = config_of (check, NULL, why);
  if (run.config == NULL)
    return FALSE;
  run.keys = lmt_key_table_new ();
  run.events = g_string_new (NULL);
  run.key_of_name = g_hash_table_new (g_str_hash, g_str_equal);
  gboolean good = kit_scenario_open_adapter (&run);
  if (good)
    {
      g_autoptr (GPtrArray) keys = g_ptr_array_new ();
      check->info = *lmt_l2_get_info (run.l2);
      lmt_l2_foreach (run.l2, collect, keys);
      check->n_objects = keys->len;
      kit_progress (check, "close");
      lmt_l2_free (run.l2);
    }
  *why = run.why;
  g_free (run.protocol);
  g_string_free (run.events, TRUE);
  g_hash_table_unref (run.key_of_name);
  lmt_key_table_free (run.keys);
  lmt_l2_config_free (run.config);
  return good;
}

/* FAILED is left for an adapter that crashes or hangs. */
static KitVerdict
first_look (KitCheck *check, gpointer data, char **why)
{
  kit_progress (check, "open");
  kit_beat (check, FIRST_OPEN_MS);
  return ask_adapter (check, why) ? KIT_PASSED : KIT_SKIPPED;
}

KitCheck *
kit_scenario_new (LmtRegistry *registry, const char *config_json, guint patience_s, char **broken, GError **error)
{
  g_autoptr (KitCheck) check = g_new0 (KitCheck, 1);
  g_autofree char *why = NULL;
  check->registry = g_object_ref (registry);
  check->json = g_strdup (config_json);
  check->patience_s = patience_s;
  KitVerdict verdict = kit_child_run (check, first_look, NULL, &why);
  *broken = NULL;
  if (verdict == KIT_SKIPPED)
    g_set_error_literal (error, LMT_ERROR, LMT_ERROR_OPTION, why);
  else if (verdict == KIT_FAILED)
    *broken = g_strdup (g_str_has_prefix (why, "open: ") ? why + strlen ("open: ") : why);
  else if (check->n_objects > 0)
    g_set_error (error, LMT_ERROR, LMT_ERROR_OPTION, "expected a medium without objects, found %u: the check would delete them",
                 check->n_objects);
  return verdict == KIT_SKIPPED || check->n_objects > 0 ? NULL : g_steal_pointer (&check);
}

void
kit_scenario_free (KitCheck *check)
{
  if (check == NULL)
    return;
  g_object_unref (check->registry);
  kit_progress_free (check->progress);
  g_free (check->json);
  g_free (check);
}

typedef struct
{
  const LmtJson *json;
  const char *name;
} Scenario;

static LmtJson *
read_scenario (const char *path, char **name, char **why)
{
  g_autoptr (GError) error = NULL;
  gsize len = 0;
  *name = g_path_get_basename (path);
  g_autofree char *text = lmt_source_read_whole (path, SCENARIO_MAX_BYTES, &len, &error);
  if (text == NULL)
    {
      *why = g_strdup (error->message);
      return NULL;
    }
  g_autoptr (LmtJson) scenario = lmt_json_parse (text, (gssize)len, &error);
  if (scenario == NULL)
    *why = g_strdup_printf ("%s: %s", path, error->message);
  else if (lmt_json_get_type (scenario) != LMT_JSON_OBJECT
           || g_strcmp0 (kit_scenario_get_text (scenario, "schema"), "lmtrace-l2-contract/1") != 0)
    *why = g_strdup_printf ("%s: schema: expected lmtrace-l2-contract/1, found another", path);
  else
    {
      g_autofree char *wrong = kit_scenario_check_file (scenario);
      if (wrong != NULL)
        *why = g_strdup_printf ("%s: %s", path, wrong);
    }
  if (*why != NULL)
    return NULL;
  g_free (*name);
  *name = g_strdup (kit_scenario_get_text (scenario, "name"));
  return g_steal_pointer (&scenario);
}

static KitVerdict
run_here (KitCheck *check, gpointer data, char **why)
{
  const Scenario *scenario = data;
  kit_progress (check, "open");
  if (!ask_adapter (check, why))
    return KIT_FAILED;
  const char *missing = missing_capability (scenario->json, check->info.capabilities);
  if (missing == NULL && !takes_capacity (check, scenario->json))
    missing = "a key that sets the capacity";
  if (missing == NULL && check->info.charge_bytes > 0)
    missing = beyond_slots (scenario->json, check->info.charge_bytes);
  if (missing != NULL)
    {
      *why = g_strdup (missing);
      return KIT_SKIPPED;
    }
  gboolean by_time = fnmatch ("concurrent-*", scenario->name, 0) == 0 || fnmatch ("close-*", scenario->name, 0) == 0;
  for (guint i = 0; i < (by_time ? REPEATS : 1) && *why == NULL; i++)
    *why = run_once (check, scenario->json);
  return *why == NULL ? KIT_PASSED : KIT_FAILED;
}

KitVerdict
kit_scenario_run (KitCheck *check, const char *path, char **name, char **why)
{
  *why = NULL;
  g_autoptr (LmtJson) json = read_scenario (path, name, why);
  Scenario scenario = { json, *name };
  return json != NULL ? kit_child_run (check, run_here, &scenario, why) : KIT_FAILED;
}

char *
kit_scenario_name (const char *path)
{
  g_autofree char *why = NULL;
  char *name;
  lmt_json_free (read_scenario (path, &name, &why));
  return name;
}

const LmtL2Info *
kit_scenario_get_info (const KitCheck *check)
{
  return &check->info;
}

const char *
kit_scenario_get_json (const KitCheck *check)
{
  return check->json;
}

LmtRegistry *
kit_scenario_get_registry (const KitCheck *check)
{
  return check->registry;
}
