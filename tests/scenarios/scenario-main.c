/* SPDX-License-Identifier: Apache-2.0 */
#include "scenario.h"

#include <stdio.h>
#include <string.h>

/* sm-scenarios PATH…: runs scenario files, or all of a folder; prints each failing step; the last line counts. */

typedef struct
{
  guint passed, failed, skipped;
} Totals;

static void
run_kind (Scenario *scenario)
{
  const char *kind = member_string (scenario->json, "kind", "");

  if (strcmp (kind, "storage_manager") == 0)
    run_manager (scenario);
  else if (strcmp (kind, "l1_manager") == 0)
    run_l1 (scenario);
  else if (strcmp (kind, "eviction_policy") == 0)
    run_policy (scenario);
  else if (strcmp (kind, "table") == 0)
    run_table (scenario);
  else
    fail (scenario, "kind", "a known one", kind);
}

static void
run_file (const char *path, Totals *totals)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (LmtJson) json = NULL;
  g_autofree char *text = NULL, *base = g_path_get_basename (path);
  Scenario scenario = { .path = base };
  gsize length;

  if (!g_file_get_contents (path, &text, &length, &error) || (json = lmt_json_parse (text, (gssize)length, &error)) == NULL)
    {
      printf ("%s: %s\n", base, error->message);
      totals->failed++;
      return;
    }
  scenario.json = json;
  scenario.name = member_string (json, "name", base);
  if (strcmp (member_string (json, "schema", ""), "lmtrace-sm-scenario/1") != 0)
    {
      fail (&scenario, "schema", "lmtrace-sm-scenario/1", member_string (json, "schema", "nothing"));
      totals->failed++;
      return;
    }
  scenario_load (&scenario);
  run_kind (&scenario);
  scenario_clear (&scenario);
  if (scenario.skip != NULL)
    printf ("%s: skipped: %s\n", base, scenario.skip);
  g_free (scenario.skip);
  if (scenario.failures > 0)
    totals->failed++;
  else if (scenario.skip != NULL)
    totals->skipped++;
  else
    totals->passed++;
}

static gint
compare_paths (gconstpointer a, gconstpointer b)
{
  return strcmp (*(const char *const *)a, *(const char *const *)b);
}

static gboolean
run_path (const char *path, Totals *totals)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GDir) dir = NULL;
  g_autoptr (GPtrArray) paths = g_ptr_array_new_with_free_func (g_free);
  const char *name;

  if (!g_file_test (path, G_FILE_TEST_IS_DIR))
    {
      run_file (path, totals);
      return TRUE;
    }
  dir = g_dir_open (path, 0, &error);
  if (dir == NULL)
    {
      fprintf (stderr, "sm-scenarios: %s\n", error->message);
      return FALSE;
    }
  while ((name = g_dir_read_name (dir)) != NULL)
    if (g_str_has_suffix (name, ".json"))
      g_ptr_array_add (paths, g_build_filename (path, name, NULL));
  g_ptr_array_sort (paths, compare_paths);
  for (guint i = 0; i < paths->len; i++)
    run_file (paths->pdata[i], totals);
  return TRUE;
}

int
main (int argc, char **argv)
{
  Totals totals = { 0, 0, 0 };

  if (argc < 2)
    {
      fprintf (stderr, "usage: sm-scenarios PATH…\n");
      return 2;
    }
  g_setenv ("LMTRACE_PLUGIN_PATH", LMT_TEST_PLUGIN_PATH, FALSE);
  for (int i = 1; i < argc; i++)
    if (!run_path (argv[i], &totals))
      return 2;
  printf ("%u passed, %u failed, %u skipped\n", totals.passed, totals.failed, totals.skipped);
  return totals.failed > 0 ? 1 : 0;
}
