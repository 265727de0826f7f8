/* SPDX-License-Identifier: Apache-2.0 */

/* l2-scenarios [--only GLOB] [--repeat N] JSON PATH…: contract scenarios (files or folders) against one adapter. */
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>

#include "l2-check.h"

static int
compare_paths (gconstpointer a, gconstpointer b)
{
  return strcmp (*(const char *const *)a, *(const char *const *)b);
}

static void
add_path (GPtrArray *paths, const char *path)
{
  GDir *dir = g_dir_open (path, 0, NULL);
  if (dir == NULL)
    {
      g_ptr_array_add (paths, g_strdup (path));
      return;
    }
  const char *name;
  while ((name = g_dir_read_name (dir)) != NULL)
    if (g_str_has_suffix (name, ".json"))
      g_ptr_array_add (paths, g_build_filename (path, name, NULL));
  g_dir_close (dir);
}

int
main (int argc, char **argv)
{
  g_autofree char *only = NULL;
  g_autoptr (GError) error = NULL;
  const GOptionEntry entries[]
      = { { "only", 0, 0, G_OPTION_ARG_STRING, &only, "Run the scenarios whose name fits", "GLOB" }, { NULL } };
  g_autoptr (GOptionContext) context = g_option_context_new ("JSON PATH…");
  g_option_context_add_main_entries (context, entries, NULL);
  if (!g_option_context_parse (context, &argc, &argv, &error) || argc < 3)
    {
      fprintf (stderr, "l2-scenarios: %s\n", error != NULL ? error->message : "expected JSON and PATH, found fewer words");
      return 2;
    }
  g_autoptr (LmtRegistry) registry = lmt_registry_new ();
  g_autoptr (L2Check) check = l2_check_new (registry, argv[1], &error);
  if (check == NULL)
    {
      fprintf (stderr, "l2-scenarios: %s\n", error->message);
      return 2;
    }
  g_autoptr (GPtrArray) paths = g_ptr_array_new_with_free_func (g_free);
  for (int i = 2; i < argc; i++)
    add_path (paths, argv[i]);
  g_ptr_array_sort (paths, compare_paths);
  guint n[3] = { 0, 0, 0 };
  for (guint i = 0; i < paths->len; i++)
    {
      g_autofree char *name = NULL, *why = NULL;
      g_autofree char *base = g_path_get_basename (paths->pdata[i]);
      base[strlen (base) - (g_str_has_suffix (base, ".json") ? 5 : 0)] = '\0';
      if (only != NULL && fnmatch (only, base, 0) != 0)
        continue;
      L2CheckVerdict verdict = l2_check_run (check, paths->pdata[i], &name, &why);
      n[verdict]++;
      if (verdict == L2_CHECK_PASSED)
        printf ("ok %s\n", name);
      else if (verdict == L2_CHECK_FAILED)
        printf ("not ok %s: %s\n", name, why);
      else
        printf ("skip %s: needs %s\n", name, why);
      fflush (stdout);
    }
  printf ("%u passed, %u failed, %u skipped\n", n[L2_CHECK_PASSED], n[L2_CHECK_FAILED], n[L2_CHECK_SKIPPED]);
  return n[L2_CHECK_FAILED] > 0 ? 1 : 0;
}
