/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <lmtrace/lmtrace.h>

#include "storage-config.h"

/* A command line of the storage level's options alone. */
typedef struct
{
  StorageFlags flags;
  LmtOptions *options;
  LmtRegistry *registry;
  LmtWarnings *warnings;
} Setup;

static inline void
setup_clear (Setup *setup)
{
  g_clear_pointer (&setup->options, lmt_options_free);
  g_clear_pointer (&setup->warnings, lmt_warnings_free);
  g_clear_object (&setup->registry);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Setup, setup_clear)

/* Parses and checks; NULL: refused, either way with exit code 2. */
static inline StorageConfig *
setup_config (Setup *setup, const char *const *argv, const LmtHeader *header, GError **error)
{
  g_auto (GStrv) operands = NULL;
  setup_clear (setup);
  memset (&setup->flags, 0, sizeof setup->flags);
  setup->options = lmt_options_new ();
  setup->registry = lmt_registry_new ();
  setup->warnings = lmt_warnings_new ();
  lmt_options_add_table (setup->options, storage_options, &setup->flags);
  if (!lmt_options_parse_argv (setup->options, argv, TRUE, &operands, error))
    return NULL;
  return storage_config_new (&setup->flags, setup->options, setup->registry, header, setup->warnings, error);
}

/* Refused: an option's value, the JSON in it, or an adapter nobody offers. */
static inline void
assert_refused (const GError *error)
{
  g_assert_nonnull (error);
  g_assert_cmpuint (error->domain, ==, LMT_ERROR);
  g_test_message ("%d: %s", error->code, error->message);
  g_assert_true (error->code == LMT_ERROR_OPTION || error->code == LMT_ERROR_JSON || error->code == LMT_ERROR_NO_ADAPTER
                 || error->code == LMT_ERROR_UNSUPPORTED);
}

static inline LmtJson *
load_json (const char *folder, const char *name)
{
  g_autofree char *path = g_build_filename (g_getenv ("LMT_TEST_DATA"), folder, name, NULL);
  g_autofree char *text = NULL;
  g_autoptr (GError) error = NULL;
  g_file_get_contents (path, &text, NULL, &error);
  g_assert_no_error (error);
  LmtJson *json = lmt_json_parse (text, -1, &error);
  g_assert_no_error (error);
  return json;
}

/* (transfer container): strings are lent. */
static inline const char **
json_words (const LmtJson *list)
{
  guint n = lmt_json_get_length (list);
  const char **words = g_new0 (const char *, n + 1);
  for (guint i = 0; i < n; i++)
    words[i] = lmt_json_get_string (lmt_json_get_element (list, i));
  return words;
}
