// SPDX-License-Identifier: Apache-2.0
/* Installed files: presets and model shapes. */
#include <dlfcn.h>
#include <lmtrace/lmt-source.h>

#include "work-shape.h"

enum
{
  FILE_MAX_BYTES = 16 * 1024 * 1024,
};

static char *
data_dir (const char *below)
{
  Dl_info info;

  if (dladdr ((const void *)(gsize)work_data_file, &info) != 0 && info.dli_fname != NULL)
    {
      g_autofree char *plugins = g_path_get_dirname (info.dli_fname);
      g_autofree char *beside = g_build_filename (plugins, "data", below, NULL);

      if (g_file_test (beside, G_FILE_TEST_IS_DIR))
        return g_steal_pointer (&beside);
      /* PREFIX/lib/lmtrace-1/plugins -> PREFIX/share/lmtrace-1, wherever PREFIX has been moved to. */
      if (g_str_has_suffix (plugins, "/" WORK_PLUGIN_DIR_BELOW))
        {
          g_autofree char *prefix = g_strndup (plugins, strlen (plugins) - strlen (WORK_PLUGIN_DIR_BELOW));

          return g_build_filename (prefix, WORK_DATA_DIR_BELOW, below, NULL);
        }
    }
  return g_build_filename (LMT_DATA_DIR, below, NULL);
}

char *
work_data_file (const char *below, const char *name)
{
  g_autofree char *dir = data_dir (below);
  g_autofree char *file = g_strdup_printf ("%s.json", name);
  g_autofree char *path = g_build_filename (dir, file, NULL);

  if (name[0] == '\0' || strchr (name, '/') != NULL || name[0] == '.' || !g_file_test (path, G_FILE_TEST_IS_REGULAR))
    return NULL;
  return g_steal_pointer (&path);
}

static int
compare_names (gconstpointer a, gconstpointer b)
{
  return strcmp (*(const char *const *)a, *(const char *const *)b);
}

char *
work_data_names (const char *below)
{
  g_autofree char *path = data_dir (below);
  g_autoptr (GDir) dir = g_dir_open (path, 0, NULL);
  g_autoptr (GPtrArray) names = g_ptr_array_new_with_free_func (g_free);

  for (const char *name; dir != NULL && (name = g_dir_read_name (dir)) != NULL;)
    if (g_str_has_suffix (name, ".json"))
      g_ptr_array_add (names, g_strndup (name, strlen (name) - strlen (".json")));
  g_ptr_array_sort (names, compare_names);
  g_ptr_array_add (names, NULL);
  return g_strjoinv (", ", (char **)names->pdata);
}

LmtJson *
work_load_json (const char *name_or_file, const char *below, const char *what, char **shown, GError **error)
{
  g_autofree char *preset = work_data_file (below, name_or_file);
  const char *path = preset != NULL ? preset : name_or_file; /* a file of a preset's name is ./NAME */
  g_autoptr (GError) wrong = NULL;
  g_autofree char *text = NULL;
  gsize len = 0;
  LmtJson *json;

  *shown = g_filename_display_name (path);
  if (path == name_or_file && !g_file_test (path, G_FILE_TEST_EXISTS))
    {
      g_autofree char *names = work_data_names (below);

      g_set_error (error, LMT_ERROR, LMT_ERROR_IO, "%s: %s: expected a file, or one of %s", *shown, what, names);
      return NULL;
    }
  text = lmt_source_read_whole (path, FILE_MAX_BYTES, &len, error);
  if (text == NULL)
    return NULL;
  json = lmt_json_parse (text, (gssize)len, &wrong);
  if (json == NULL)
    g_set_error (error, LMT_ERROR, LMT_ERROR_OPTION, "%s: %s", *shown, wrong->message);
  return json;
}
