// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>

#include "kit.h"

char *
kit_data_dir (const char *below)
{
  Dl_info info;
  if (dladdr ((const void *)(gsize)kit_data_dir, &info) != 0 && info.dli_fname != NULL)
    {
      g_autofree char *plugins = g_path_get_dirname (info.dli_fname);
      g_autofree char *beside = g_build_filename (plugins, "data", below, NULL);
      if (g_file_test (beside, G_FILE_TEST_IS_DIR))
        return g_steal_pointer (&beside);
      /* PREFIX/lib/lmtrace-1/plugins -> PREFIX/share/lmtrace-1, wherever PREFIX has been moved to. */
      if (g_str_has_suffix (plugins, "/" KIT_PLUGIN_DIR_BELOW))
        {
          g_autofree char *prefix = g_strndup (plugins, strlen (plugins) - strlen (KIT_PLUGIN_DIR_BELOW));
          return g_build_filename (prefix, KIT_DATA_DIR_BELOW, below, NULL);
        }
    }
  return g_build_filename (LMT_DATA_DIR, below, NULL);
}
