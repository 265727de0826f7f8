/* SPDX-License-Identifier: Apache-2.0 */
/* Man pages out of the tables that make --help: `lmtrace help --man PAGE`, run by the build. */
#include "cli.h"

#include <string.h>

static const char plugins_intro[]
    = "lmtrace's levels, L2 adapters and some commands are plugins: shared objects with one exported symbol, "
      "lmt_plugin_get(), that register tables of functions.\n\n"
      "A level lives in lmt-level-NAME.so, an adapter in lmt-l2-NAME.so, a command in lmt-cmd-NAME.so. Such a file is opened "
      "when "
      "that name is asked for; if a name is found nowhere, the rest is opened before lmtrace gives up. Two names of one file are "
      "one "
      "plugin.\n\n"
      "Searched are, in this order: the files of --plugin, the folders of --plugin-dir, those of LMTRACE_PLUGIN_PATH, "
      "~/.local/lib/lmtrace-1/plugins, and the folder lmtrace was installed with. The current folder is never searched.\n\n"
      "A plugin that can't be used is refused: named by --plugin, it ends the run with exit 2; found in a folder, it is listed "
      "by "
      "lmtrace list-plugins with the reason, and the run goes on. The first plugin of a name wins; later ones are shadowed. A "
      "second claim of a level, qualname, tag or adapter refuses the later plugin.\n\n"
      "A plugin includes <lmtrace/lmt-plugin.h> alone and ends with LMT_PLUGIN_DEFINE; pkg-config lmtrace-1 gives the flags and, "
      "as the variables plugindir and abi, where it goes and which ABI it is built for. A plugin built for an older lmtrace of "
      "the "
      "same ABI number works.";

static const char environment[] = "LMTRACE_PLUGIN_PATH\nFolders of plugins, parted by colons\n\n"
                                  "LMTRACE_CONFIG\nConfiguration file, as --config\n\n"
                                  "LMTRACE_LOG_LEVEL, LMTRACE_COLOR\nAs --log-level and --color; the option wins\n\n"
                                  "LMCACHE_LOG_LEVEL\nLog level if LMTRACE_LOG_LEVEL is not set\n\n"
                                  "NO_COLOR\nIf not empty: no colours\n\n"
                                  "SOURCE_DATE_EPOCH\nTime stamp in written headers, for reproducible files";

static const char files[]
    = "$XDG_CONFIG_HOME/lmtrace/lmtrace.conf\nDefaults of options: a key file with a section [lmtrace] for the "
      "global options and one per command, such as [replay]; a key is a long option without its dashes, a list "
      "is parted by semicolons. The command line beats the environment, which beats the file";

static const char exit_status[] = "0\nDone, results are complete\n\n"
                                  "1\nThe target failed or a threshold was missed\n\n"
                                  "2\nNothing was run: command line, file, plugin, output location\n\n"
                                  "130\nInterrupted; reports are written and say partial";

/* Text that roff gives back as it is. */
static void
man_append (GString *out, const char *text)
{
  gboolean line_start = out->len == 0 || out->str[out->len - 1] == '\n';

  for (const char *p = text; *p != '\0'; p++)
    {
      if (line_start && (*p == '.' || *p == '\''))
        g_string_append (out, "\\&");
      if (*p == '\\')
        g_string_append (out, "\\e");
      else if (*p == '-')
        g_string_append (out, "\\-");
      else
        g_string_append_c (out, *p);
      line_start = *p == '\n';
    }
}

static void
man_begin (GString *out, const char *name, guint section, const char *summary)
{
  g_autofree char *upper = g_utf8_strup (name, -1);

  g_string_append (out, ".\\\" SPDX-License-Identifier: Apache-2.0\n.TH ");
  man_append (out, upper);
  g_string_append_printf (out, " %u \"\" \"lmtrace %s\" \"lmtrace\"\n.SH NAME\n", section, LMT_VERSION);
  man_append (out, name);
  g_string_append (out, " \\- ");
  man_append (out, summary);
  g_string_append_c (out, '\n');
}

static void
man_paragraphs (GString *out, const char *text)
{
  g_auto (GStrv) paragraphs = g_strsplit (text, "\n\n", -1);

  for (guint i = 0; paragraphs[i] != NULL; i++)
    {
      g_string_append (out, i == 0 ? "" : ".PP\n");
      man_append (out, paragraphs[i]);
      g_string_append_c (out, '\n');
    }
}

/* Pairs of lines, parted by empty ones: a word and what it means. */
static void
man_terms (GString *out, const char *heading, const char *pairs)
{
  g_auto (GStrv) blocks = g_strsplit (pairs, "\n\n", -1);

  g_string_append_printf (out, ".SH %s\n", heading);
  for (guint i = 0; blocks[i] != NULL; i++)
    {
      g_string_append (out, ".TP\n.B ");
      man_append (out, blocks[i]);
      g_string_append_c (out, '\n');
    }
}

static void
man_append_option (GString *out, const LmtOption *row, gboolean is_key)
{
  g_autofree char *spelling = lmt_option_spelling (row);
  g_autofree char *explanation = lmt_option_explanation (row);

  g_string_append (out, ".TP\n.B ");
  man_append (out, is_key ? row->name : spelling);
  g_string_append_c (out, '\n');
  man_append (out, explanation);
  g_string_append_c (out, '\n');
}

static void
man_collect_option (const LmtOption *row, gpointer data)
{
  if ((row->flags & LMT_OPTION_HIDDEN) == 0)
    g_ptr_array_add (data, (gpointer)row);
}

/* Grouped like --help. */
static void
man_append_options (GString *out, const LmtOptions *options)
{
  g_autoptr (GPtrArray) rows = g_ptr_array_new ();
  g_autoptr (GPtrArray) groups = g_ptr_array_new ();

  lmt_options_foreach (options, man_collect_option, rows);
  for (guint pass = 0; pass < 2; pass++)
    for (guint i = 0; i < rows->len; i++)
      {
        const LmtOption *const row = g_ptr_array_index (rows, i);
        const char *const group = lmt_option_group (row);
        if (((row->flags & LMT_OPTION_GLOBAL) != 0) == (pass == 1)
            && !g_ptr_array_find_with_equal_func (groups, group, g_str_equal, NULL))
          g_ptr_array_add (groups, (gpointer)group);
      }
  g_string_append (out, ".SH OPTIONS\n");
  for (guint g = 0; g < groups->len; g++)
    {
      const char *const group = g_ptr_array_index (groups, g);
      g_string_append (out, ".SS ");
      man_append (out, group);
      g_string_append_c (out, '\n');
      for (guint i = 0; i < rows->len; i++)
        {
          const LmtOption *const row = g_ptr_array_index (rows, i);
          if (g_str_equal (lmt_option_group (row), group))
            man_append_option (out, row, FALSE);
        }
    }
}

static void
man_append_examples (GString *out, const char *const *examples)
{
  if (examples == NULL || examples[0] == NULL)
    return;
  g_string_append (out, ".SH EXAMPLES\n.nf\n");
  for (guint i = 0; examples[i] != NULL; i++)
    {
      man_append (out, examples[i]);
      g_string_append_c (out, '\n');
    }
  g_string_append (out, ".fi\n");
}

static char *
man_command (LmtRegistry *registry, const char *command, GError **error)
{
  static const char *const no_words[] = { NULL };
  const LmtCommandOps *const ops = lmt_registry_get_command (registry, command, error);
  if (ops == NULL)
    return NULL;
  g_autoptr (CliLine) line = cli_line_new (registry, ops, no_words, error);
  if (line == NULL)
    return NULL;

  GString *const out = g_string_new (NULL);
  g_autofree char *name = g_strdup_printf ("lmtrace-%s", ops->name);
  man_begin (out, name, 1, ops->summary == NULL ? ops->name : ops->summary);
  g_string_append (out, ".SH SYNOPSIS\n.B lmtrace ");
  man_append (out, ops->name);
  g_string_append_c (out, '\n');
  man_append (out, ops->synopsis == NULL ? "[OPTIONS]" : ops->synopsis);
  g_string_append_c (out, '\n');
  if (ops->more_text != NULL)
    {
      g_string_append (out, ".SH DESCRIPTION\n");
      man_paragraphs (out, ops->more_text);
    }
  man_append_options (out, line->options);
  man_append_examples (out, ops->examples);
  man_terms (out, "EXIT STATUS", exit_status);
  g_string_append (out, ".SH SEE ALSO\n.BR lmtrace (1),\n.BR lmtrace\\-plugins (7),\n.BR lmtrace\\-format (5)\n");
  return g_string_free (out, FALSE);
}

static char *
man_program (LmtRegistry *registry)
{
  GString *const out = g_string_new (NULL);
  g_autofree const char **names = NULL;
  g_autoptr (LmtOptions) options = lmt_options_new ();
  CliGlobals globals = { 0 };

  man_begin (out, "lmtrace", 1, "read, check and replay traces of the LMCache family");
  g_string_append (out, ".SH SYNOPSIS\n.B lmtrace\n");
  man_append (out, "[GLOBAL OPTIONS] COMMAND [OPTIONS] [FILE...]");
  g_string_append (out, "\n.SH DESCRIPTION\n");
  man_paragraphs (out,
                  "lmtrace reads trace files of the LMCache family (.lct), tells what is in them, and replays them against a "
                  "StorageManager of its own with pluggable L2 adapters.\n\n"
                  "Results go to stdout, everything else to stderr. A FILE of - is stdin; gzip and zstd are recognised by their "
                  "first bytes.");
  g_string_append (out, ".SH COMMANDS\n");
  cli_open_commands (registry);
  names = lmt_registry_list_commands (registry);
  for (guint i = 0; names[i] != NULL; i++)
    {
      const LmtCommandOps *const ops = lmt_registry_get_command (registry, names[i], NULL);
      g_string_append (out, ".TP\n.BR lmtrace\\-");
      man_append (out, names[i]);
      g_string_append (out, " (1)\n");
      man_append (out, ops == NULL || ops->summary == NULL ? names[i] : ops->summary);
      g_string_append_c (out, '\n');
    }
  lmt_options_add_table (options, cli_global_options, &globals);
  man_append_options (out, options);
  man_terms (out, "ENVIRONMENT", environment);
  man_terms (out, "FILES", files);
  man_terms (out, "EXIT STATUS", exit_status);
  g_string_append (out, ".SH SEE ALSO\n.BR lmtrace\\-plugins (7),\n.BR lmtrace\\-format (5)\n");
  return g_string_free (out, FALSE);
}

static void
man_append_table (GString *out, const LmtOption *table, gboolean is_key)
{
  for (; table != NULL && table->name != NULL; table++)
    if ((table->flags & LMT_OPTION_HIDDEN) == 0)
      man_append_option (out, table, is_key);
}

static void
man_append_heading (GString *out, const char *kind, const char *name, const char *summary)
{
  g_autofree char *heading = g_strdup_printf ("%s %s", kind, name);
  g_string_append (out, ".SS ");
  man_append (out, heading);
  g_string_append_c (out, '\n');
  man_append (out, summary == NULL ? name : summary);
  g_string_append_c (out, '\n');
}

static char *
man_plugins (LmtRegistry *registry)
{
  GString *const out = g_string_new (NULL);

  lmt_registry_load_all (registry);
  man_begin (out, "lmtrace-plugins", 7, "what lmtrace loads, and the keys of its adapters");
  g_string_append (out, ".SH DESCRIPTION\n");
  man_paragraphs (out, plugins_intro);

  g_autofree const char **levels = lmt_registry_list_levels (registry);
  g_string_append (out, ".SH LEVELS\n");
  for (guint i = 0; levels[i] != NULL; i++)
    {
      const LmtLevelOps *const ops = lmt_registry_get_level (registry, levels[i], NULL);
      man_append_heading (out, "Level", levels[i], ops->summary);
    }
  g_string_append (out, ".SH ADAPTERS\n");
  man_paragraphs (out,
                  "Keys of the JSON object behind --l2-adapter, and of --l2 NAME:KEY=VALUE,... . Beside its own each adapter "
                  "takes type, shared, persist_enabled, eviction and io_timeout_s (seconds an operation may take before it is "
                  "cancelled; 0: any time).");
  g_autofree const char **adapters = lmt_registry_list_l2 (registry);
  for (guint i = 0; adapters[i] != NULL; i++)
    {
      const LmtL2Ops *const ops = lmt_registry_get_l2 (registry, adapters[i], NULL);
      if (strcmp (ops->name, adapters[i]) != 0)
        {
          g_autofree char *other = g_strdup_printf ("Another name of %s", ops->name);
          man_append_heading (out, "Adapter", adapters[i], other);
          continue;
        }
      man_append_heading (out, "Adapter", adapters[i], ops->summary);
      man_append_table (out, ops->options, TRUE);
    }
  man_terms (out, "ENVIRONMENT", "LMTRACE_PLUGIN_PATH\nFolders of plugins, parted by colons");
  g_string_append (out, ".SH SEE ALSO\n.BR lmtrace (1),\n.BR lmtrace\\-list\\-plugins (1)\n");
  return g_string_free (out, FALSE);
}

char *
cli_man_page (LmtRegistry *registry, const char *page, GError **error)
{
  if (page == NULL || strcmp (page, "lmtrace") == 0)
    return man_program (registry);
  if (strcmp (page, "lmtrace-plugins") == 0)
    return man_plugins (registry);
  return man_command (registry, g_str_has_prefix (page, "lmtrace-") ? page + strlen ("lmtrace-") : page, error);
}
