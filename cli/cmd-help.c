/* SPDX-License-Identifier: Apache-2.0 */
#include "cli.h"

#include <string.h>

#define HELP_WIDTH 80

static const char exit_codes[] = "Exit codes:\n"
                                 "  0    done, results are complete\n"
                                 "  1    the target failed or a threshold was missed\n"
                                 "  2    nothing was run: command line, file, plugin, output location\n"
                                 "  130  interrupted; reports are written and say partial\n";

const char *
cli_usage_text (void)
{
  return "Usage: lmtrace [GLOBAL OPTIONS] COMMAND [OPTIONS] [FILE...]\n"
         "Commands: info, replay, list-plugins, help, version and those of plugins\n"
         "`lmtrace --help` says more, `lmtrace COMMAND --help` all about one.\n";
}

/* Words of @text in lines of at most 80 columns, each behind @indent blanks; the first line begins at @column. */
static void
append_wrapped (GString *out, const char *text, guint indent, guint column)
{
  g_auto (GStrv) words = g_strsplit_set (text, " \n", -1);
  gboolean at_start = TRUE;

  for (guint i = 0; words[i] != NULL; i++)
    {
      guint width = lmt_text_width (words[i]);

      if (width == 0)
        continue;
      if (!at_start && column + 1 + width > HELP_WIDTH)
        {
          g_string_append_c (out, '\n');
          column = 0;
          at_start = TRUE;
        }
      if (column < indent)
        g_string_append_printf (out, "%*s", (int)(indent - column), "");
      column = MAX (column, indent);
      if (!at_start)
        {
          g_string_append_c (out, ' ');
          column++;
        }
      at_start = FALSE;
      g_string_append (out, words[i]);
      column += width;
    }
  g_string_append_c (out, '\n');
}

/* Every plugin that is there with all it offers: what --help-all adds. */
static void
append_plugins (GString *out, LmtRegistry *registry)
{
  g_autoptr (GPtrArray) plugins = NULL;

  lmt_registry_load_all (registry);
  plugins = lmt_registry_list_plugins (registry);
  for (guint i = 0; i < plugins->len; i++)
    if (lmt_plugin_info_get_state (plugins->pdata[i]) == LMT_PLUGIN_LOADED
        && strcmp (lmt_plugin_info_get_path (plugins->pdata[i]), "builtin") != 0)
      {
        g_string_append_c (out, '\n');
        cli_describe_plugin (registry, plugins->pdata[i], out);
      }
}

char *
cli_help_command (LmtRegistry *registry, const CliLine *line, gboolean all)
{
  const LmtCommandOps *ops = line->ops;
  g_autofree char *options = lmt_options_help (line->options);
  GString *out = g_string_new (NULL);
  const char *synopsis = ops->synopsis != NULL ? ops->synopsis : "[OPTIONS]";

  g_string_append_printf (out, "Usage: lmtrace %s%s%s\n", ops->name, synopsis[0] != '\0' ? " " : "", synopsis);
  if (ops->summary != NULL)
    append_wrapped (out, ops->summary, 0, 0);
  g_string_append_printf (out, "\n%s", options);
  if (ops->more_text != NULL)
    {
      g_auto (GStrv) paragraphs = g_strsplit (ops->more_text, "\n\n", -1);

      for (guint i = 0; paragraphs[i] != NULL; i++)
        {
          g_string_append_c (out, '\n');
          append_wrapped (out, paragraphs[i], 0, 0);
        }
    }
  if (ops->examples != NULL && ops->examples[0] != NULL)
    {
      g_string_append (out, "\nExamples:\n");
      for (guint i = 0; ops->examples[i] != NULL; i++)
        g_string_append_printf (out, "  %s\n", ops->examples[i]);
    }
  if (all)
    append_plugins (out, registry);
  g_string_append_printf (out, "\n%s\nSee lmtrace-%s(1); `lmtrace --help` lists the commands.\n", exit_codes, ops->name);
  return g_string_free (out, FALSE);
}

/* Commands of plugins lie in files of their names; those alone are opened. */
void
cli_open_commands (LmtRegistry *registry)
{
  g_auto (GStrv) dirs = lmt_registry_get_dirs (registry);

  for (guint i = 0; dirs[i] != NULL; i++)
    {
      g_autoptr (GDir) dir = g_dir_open (dirs[i], 0, NULL);

      for (const char *file; dir != NULL && (file = g_dir_read_name (dir)) != NULL;)
        if (g_str_has_prefix (file, "lmt-cmd-") && g_str_has_suffix (file, ".so"))
          {
            g_autofree char *name = g_strndup (file + strlen ("lmt-cmd-"), strlen (file) - strlen ("lmt-cmd-.so"));

            lmt_registry_get_command (registry, name, NULL);
          }
    }
}

static void
append_commands (GString *out, LmtRegistry *registry)
{
  cli_open_commands (registry);
  g_autofree const char **names = lmt_registry_list_commands (registry);
  gsize width = 0;

  for (guint i = 0; names[i] != NULL; i++)
    width = MAX (width, strlen (names[i]));
  g_string_append (out, "\nCommands:\n");
  for (guint i = 0; names[i] != NULL; i++)
    {
      const LmtCommandOps *ops = lmt_registry_get_command (registry, names[i], NULL);

      g_string_append_printf (out, "  %-*s", (int)width, names[i]);
      append_wrapped (out, ops->summary != NULL ? ops->summary : "", (guint)width + 4, (guint)width + 2);
    }
}

char *
cli_help_general (LmtRegistry *registry, gboolean all)
{
  GString *out = g_string_new ("Usage: lmtrace [GLOBAL OPTIONS] COMMAND [OPTIONS] [FILE...]\n"
                               "Read traces of the LMCache family, tell what is in them, and replay them\n");
  LmtOptions *options = lmt_options_new ();
  CliGlobals globals = { 0 };
  g_autofree char *text = NULL;

  if (all)
    lmt_registry_load_all (registry);
  append_commands (out, registry);
  lmt_options_add_table (options, cli_global_options, &globals);
  text = lmt_options_help (options);
  g_string_append_printf (out, "\n%s", text);
  lmt_options_free (options);
  if (all)
    append_plugins (out, registry);
  g_string_append (out, "\nExamples:\n"
                        "  lmtrace info run.lct\n"
                        "  lmtrace replay run.lct --l1-size-gb 1 --eviction-policy LRU\n"
                        "  lmtrace list-plugins\n\n");
  g_string_append (out, exit_codes);
  g_string_append (out, "\nSee lmtrace(1); `lmtrace COMMAND --help` says all about a command.\n");
  if (!all)
    g_string_append (out, "--help-all also shows what plugins offer.\n");
  return g_string_free (out, FALSE);
}

/* -------- help -------- */

static char *
help_for (LmtRegistry *registry, const char *name, GError **error)
{
  static const char *const no_words[] = { NULL };
  const LmtCommandOps *ops = lmt_registry_get_command (registry, name, error);
  g_autoptr (CliLine) line = NULL;
  LmtPluginInfo *info;

  if (ops == NULL)
    {
      /* The search for a command has opened everything. */
      info = cli_find_plugin (registry, name);
      if (info != NULL)
        {
          GString *out = g_string_new (NULL);

          g_clear_error (error);
          cli_describe_plugin (registry, info, out);
          return g_string_free (out, FALSE);
        }
      return NULL;
    }
  line = cli_line_new (registry, ops, no_words, error);
  return line != NULL ? cli_help_command (registry, line, FALSE) : NULL;
}

typedef struct
{
  guint32 man;
} HelpConfig;

static const LmtOption help_options[] = {
  LMT_OPTION_FULL (BOOL, "man", HelpConfig, man, LMT_OPTION_HIDDEN, NULL, NULL, NULL, "Print the man page: the build does", NULL),
  LMT_OPTION_END,
};

static int
run_help (const LmtCommandContext *context, GError **error)
{
  const HelpConfig *config = context->config;
  g_autofree char *text = NULL;
  g_autoptr (GString) json = g_string_new (NULL);
  LmtJsonWriter *writer;
  gboolean ok;

  if (config->man != 0)
    text = cli_man_page (context->registry, context->operands[0], error);
  else if (context->operands[0] == NULL)
    text = cli_help_general (context->registry, FALSE);
  else
    text = help_for (context->registry, context->operands[0], error);
  if (text == NULL)
    return 2;
  writer = lmt_json_writer_new (json, LMT_JSON_STYLE_COMPACT);
  lmt_json_writer_begin_object (writer);
  lmt_json_writer_key (writer, "text");
  lmt_json_writer_string (writer, text);
  lmt_json_writer_end_object (writer);
  lmt_json_writer_free (writer);
  ok = lmt_output_raw (context->output, "Help", text, json->str, NULL, FALSE, 0, error);
  return ok ? 0 : 1;
}

static const char *const help_examples[] = { "lmtrace help", "lmtrace help replay", "lmtrace help l2-fs", NULL };

const LmtCommandOps cmd_help_ops = {
  .struct_size = sizeof (LmtCommandOps),
  .name = "help",
  .summary = "Explain a command or a plugin",
  .synopsis = "[COMMAND|PLUGIN]",
  .options = help_options,
  .config_size = sizeof (HelpConfig),
  .examples = help_examples,
  .run = run_help,
  .max_operands = 1,
};

/* -------- version -------- */

static const char *const features[] = { "gzip", "zstd", NULL };
static const char *const releases[] = { "0.4.4", "0.4.5", "0.4.6", "0.4.7", "0.5.0",      "0.5.1",    "0.5.2",
                                        "0.5.3", "0.5.4", "0.5.5", "0.5.6", "0.5.7.dev0", "0.5.7rc3", NULL };

static void
write_list (LmtJsonWriter *writer, const char *key, const char *const *words)
{
  lmt_json_writer_key (writer, key);
  lmt_json_writer_begin_array (writer);
  for (guint i = 0; words[i] != NULL; i++)
    lmt_json_writer_string (writer, words[i]);
  lmt_json_writer_end_array (writer);
}

static void
write_numbers (LmtJsonWriter *writer, const char *key, guint first, guint last)
{
  lmt_json_writer_key (writer, key);
  lmt_json_writer_begin_array (writer);
  for (guint i = first; i <= last; i++)
    lmt_json_writer_int (writer, i);
  lmt_json_writer_end_array (writer);
}

static int
run_version (const LmtCommandContext *context, GError **error)
{
  g_autoptr (GString) text = g_string_new (NULL);
  g_autoptr (GString) json = g_string_new (NULL);
  g_autofree char *built = g_strjoinv (" ", (char **)features);
  LmtJsonWriter *writer = lmt_json_writer_new (json, LMT_JSON_STYLE_COMPACT);

  g_string_append_printf (text, "lmtrace %s\nplugin ABI %d\nreads: format %d, schema", LMT_VERSION, LMT_PLUGIN_ABI,
                          LMT_FORMAT_VERSION);
  for (guint i = 1; i <= LMT_SCHEMA_KNOWN_MAX; i++)
    g_string_append_printf (text, " %u", i);
  g_string_append_printf (text, "\nbuilt with: %s\n", built);
  lmt_json_writer_begin_object (writer);
  lmt_json_writer_key (writer, "version");
  lmt_json_writer_string (writer, LMT_VERSION);
  lmt_json_writer_key (writer, "abi");
  lmt_json_writer_int (writer, LMT_PLUGIN_ABI);
  write_numbers (writer, "formats", LMT_FORMAT_VERSION, LMT_FORMAT_VERSION);
  write_numbers (writer, "schemas", 1, LMT_SCHEMA_KNOWN_MAX);
  write_list (writer, "features", features);
  write_list (writer, "lmcache_releases", releases);
  lmt_json_writer_end_object (writer);
  lmt_json_writer_free (writer);
  return lmt_output_raw (context->output, "Version", text->str, json->str, NULL, FALSE, 0, error) ? 0 : 1;
}

static const char *const version_examples[] = { "lmtrace version", "lmtrace version --json", "lmtrace --version", NULL };

const LmtCommandOps cmd_version_ops = {
  .struct_size = sizeof (LmtCommandOps),
  .name = "version",
  .summary = "Print version, plugin ABI and the formats that can be read",
  .synopsis = "",
  .examples = version_examples,
  .run = run_version,
};
