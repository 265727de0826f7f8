/* SPDX-License-Identifier: Apache-2.0 */
#include "cli.h"

#include <errno.h>
#include <glib/gstdio.h>
#include <lmtrace/lmt-source.h>
#include <string.h>
#include <unistd.h>

enum
{
  CONFIG_MAX_BYTES = 1 << 20,
};

#define GLOBAL(kind, key, short_, member, flags_, def, range_, arg_, help_)                                                      \
  {                                                                                                                              \
    (key), LMT_OPTION_TYPE_##kind, LMT_OPTION_GLOBAL | (flags_), (guint32)G_STRUCT_OFFSET (CliGlobals, member), (short_), (def), \
        (range_), (arg_), (help_), NULL,                                                                                         \
    {                                                                                                                            \
      0, 0, 0                                                                                                                    \
    }                                                                                                                            \
  }

const LmtOption cli_global_options[] = {
  GLOBAL (STRINGS, "plugin", 0, plugin, 0, NULL, NULL, "FILE", "Load this plugin"),
  GLOBAL (STRINGS, "plugin-dir", 0, plugin_dir, 0, NULL, NULL, "DIR", "Search this folder for plugins first"),
  GLOBAL (BOOL, "no-default-plugins", 0, no_default_plugins, 0, NULL, NULL, NULL, "Search no folder but those of --plugin-dir"),
  GLOBAL (STRING, "config", 0, config, 0, NULL, NULL, "FILE", "Read defaults from this configuration file"),
  GLOBAL (BOOL, "no-config", 0, no_config, 0, NULL, NULL, NULL, "Read no configuration file"),
  GLOBAL (CHOICE, "format", 0, format, 0, "text", "text|json|csv", "FORMAT", "Choose the form of the report"),
  GLOBAL (OPT_STRING, "json", 0, json, 0, NULL, NULL, "PATH", "Report as --format json does, into PATH if one is given"),
  GLOBAL (STRING, "output", 0, output, 0, NULL, NULL, "PATH", "Write the report to PATH as well, - for stdout"),
  GLOBAL (BOOL, "quiet", 'q', quiet, 0, NULL, NULL, NULL, "Leave out the report on stdout, and progress"),
  GLOBAL (BOOL, "verbose", 'v', verbose, LMT_OPTION_COUNTED, NULL, NULL, NULL, "Log more; twice: everything"),
  GLOBAL (CHOICE, "log-level", 0, log_level, 0, "message", "error|warning|message|info|debug", "LEVEL", "Log from this level on"),
  GLOBAL (CHOICE, "log-format", 0, log_format, 0, "text", "text|json", "FORMAT", "Choose the form of log lines"),
  GLOBAL (CHOICE, "color", 0, color, 0, "auto", "auto|always|never", "WHEN", "Colour the words error and warning"),
  GLOBAL (CHOICE, "progress", 0, progress, 0, "auto", "auto|always|never", "WHEN", "Show progress"),
  GLOBAL (BOOL, "strict", 0, strict, 0, NULL, NULL, NULL,
          "Exit 1 for skipped or undecodable records, damaged frames and refused plugins too"),
  GLOBAL (BOOL, "version", 0, version, 0, NULL, NULL, NULL, "Show the version and exit"),
  GLOBAL (BOOL, "help", 'h', help, 0, NULL, NULL, NULL, "Show this help and exit"),
  GLOBAL (BOOL, "help-all", 0, help_all, 0, NULL, NULL, NULL, "Show the options of all plugins too and exit"),
  LMT_OPTION_END,
};

#undef GLOBAL

/* @option from @text; the message names the variable instead of the option. */
static gboolean
options_set_from_variable (LmtOptions *options, const char *option, const char *variable, const char *text, GError **error)
{
  GError *inner = NULL;

  if (lmt_options_set (options, option, text, LMT_ORIGIN_ENVIRONMENT, &inner))
    return TRUE;
  const char *const colon = strstr (inner->message, ": ");
  g_set_error (error, LMT_ERROR, LMT_ERROR_OPTION, "%s%s", variable, colon == NULL ? "" : colon);
  g_error_free (inner);
  return FALSE;
}

gboolean
cli_options_load_environment (LmtOptions *options, GError **error)
{
  const char *const level = g_getenv ("LMTRACE_LOG_LEVEL");
  const char *const theirs = g_getenv ("LMCACHE_LOG_LEVEL");
  const char *const color = g_getenv ("LMTRACE_COLOR");

  if (level != NULL && *level != '\0')
    {
      if (!options_set_from_variable (options, "log-level", "LMTRACE_LOG_LEVEL", level, error))
        return FALSE;
    }
  else if (theirs != NULL)
    {
      static const char *const words[] = { "error", "warning", "message", "info", "debug" };
      LmtLogLevel value;
      /* Another program's variable: what it means to that program alone is no mistake here. */
      if (lmt_log_level_from_text (theirs, &value)
          && !options_set_from_variable (options, "log-level", "LMCACHE_LOG_LEVEL", words[value], error))
        return FALSE;
    }
  return color == NULL || *color == '\0' || options_set_from_variable (options, "color", "LMTRACE_COLOR", color, error);
}

void
cli_config_clear (CliConfig *config)
{
  g_clear_pointer (&config->path, g_free);
  g_clear_pointer (&config->shown, g_free);
  g_clear_pointer (&config->file, g_key_file_unref);
}

static gboolean
config_read (CliConfig *config, const char *path, GError **error)
{
  g_autoptr (GKeyFile) file = g_key_file_new ();
  g_autoptr (GError) inner = NULL;
  g_autofree char *data = NULL;
  gsize len = 0;

  cli_config_clear (config);
  config->shown = g_filename_display_name (path);
  data = lmt_source_read_whole (path, CONFIG_MAX_BYTES, &len, error);
  if (data == NULL)
    return FALSE;
  if (len > 0 && !g_key_file_load_from_data (file, data, len, G_KEY_FILE_NONE, &inner))
    {
      g_set_error (error, LMT_ERROR, LMT_ERROR_OPTION, "%s: expected a key file, found: %s", config->shown, inner->message);
      if (error != NULL)
        lmt_error_set_place (*error, path, -1);
      return FALSE;
    }
  config->path = g_strdup (path);
  config->file = g_steal_pointer (&file);
  return TRUE;
}

gboolean
cli_options_load_config (LmtOptions *options, CliConfig *config, const char *named, const char *section, GError **error)
{
  const char *const variable = g_getenv ("LMTRACE_CONFIG");
  g_autofree char *usual = NULL;

  const char *path = named != NULL ? named : variable;
  if (path == NULL || *path == '\0')
    path = usual = g_build_filename (g_get_user_config_dir (), "lmtrace", "lmtrace.conf", NULL);
  if (g_strcmp0 (config->path, path) != 0)
    {
      if (usual != NULL && g_access (usual, F_OK) != 0 && errno == ENOENT)
        return TRUE;
      if (!config_read (config, path, error))
        return FALSE;
    }
  return lmt_options_parse_key_file (options, config->file, "lmtrace", config->shown, error)
         && (section == NULL || lmt_options_parse_key_file (options, config->file, section, config->shown, error));
}

typedef struct
{
  const LmtOptions *options;
  LmtSection *table;
} PrintConfig;

static void
options_print_one (const LmtOption *option, gpointer data)
{
  static const char *const origins[] = { "default", "header", "file", "environment", "command line" };
  const PrintConfig *const print = data;

  if ((option->flags & LMT_OPTION_HIDDEN) != 0)
    return;
  g_autofree char *value = lmt_options_get_text (print->options, option->name);
  const char *const shown = value != NULL ? value : option->type == LMT_OPTION_TYPE_BOOL ? "false" : NULL;
  const char *const cells[] = { option->name, shown, origins[lmt_options_get_origin (print->options, option->name)], NULL };
  lmt_section_add_row (print->table, cells);
}

LmtReport *
cli_options_report (const LmtOptions *options, const char *command)
{
  static const char *const columns[] = { "option", "value", "origin", NULL };
  g_autofree char *title = g_strdup_printf ("Configuration of %s", command);
  LmtReport *const report = lmt_report_new (title, LMT_REPORT_WIDTH);
  PrintConfig print = { .options = options, .table = lmt_report_add_table (report, "options", NULL, columns) };

  lmt_options_foreach (options, options_print_one, &print);
  return report;
}
