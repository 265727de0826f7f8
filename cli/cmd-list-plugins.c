/* SPDX-License-Identifier: Apache-2.0 */
#include "cli.h"

#include <string.h>

static const char *const state_words[] = { "loaded", "refused", "shadowed", "not opened" };
static const char *const thread_words[] = { "one", "per-handle", "parallel" };

static const char *
words_of (const char *const *words, guint n, guint32 i)
{
  return i < n ? words[i] : "?";
}

LmtPluginInfo *
cli_find_plugin (LmtRegistry *registry, const char *name)
{
  g_autoptr (GPtrArray) plugins = lmt_registry_list_plugins (registry);

  for (guint i = 0; i < plugins->len; i++)
    if (lmt_plugin_info_get_state (plugins->pdata[i]) == LMT_PLUGIN_LOADED
        && strcmp (lmt_plugin_info_get_name (plugins->pdata[i]), name) == 0)
      return plugins->pdata[i];
  return NULL;
}

/* -------- options -------- */

static const char *
option_type (guint32 type)
{
  static const char *const words[] = { "",      "bool",     "string", "int",     "uint",  "double", "size",           "duration",
                                       "count", "fraction", "choice", "strings", "range", "json",   "optional-string" };

  return words_of (words, G_N_ELEMENTS (words), type);
}

static void
write_text (LmtJsonWriter *writer, const char *key, const char *text)
{
  lmt_json_writer_key (writer, key);
  lmt_json_writer_string (writer, text);
}

static void
write_option (LmtJsonWriter *writer, const LmtOption *row)
{
  char short_name[2] = { (char)row->short_name, '\0' };

  lmt_json_writer_begin_object (writer);
  write_text (writer, "name", row->name);
  write_text (writer, "short", row->short_name != 0 ? short_name : NULL);
  write_text (writer, "type", option_type (row->type));
  write_text (writer, "default", row->default_text);
  write_text (writer, "range", row->range);
  write_text (writer, "arg", row->arg);
  write_text (writer, "help", row->help);
  write_text (writer, "group", row->group);
  lmt_json_writer_key (writer, "required");
  lmt_json_writer_bool (writer, (row->flags & LMT_OPTION_REQUIRED) != 0);
  lmt_json_writer_key (writer, "negatable");
  lmt_json_writer_bool (writer, (row->flags & LMT_OPTION_NEGATABLE) != 0);
  lmt_json_writer_key (writer, "no_effect");
  lmt_json_writer_bool (writer, (row->flags & LMT_OPTION_NO_EFFECT) != 0);
  lmt_json_writer_end_object (writer);
}

static void
write_options (LmtJsonWriter *writer, const char *key, const LmtOption *table)
{
  lmt_json_writer_key (writer, key);
  lmt_json_writer_begin_array (writer);
  for (const LmtOption *row = table; row != NULL && row->name != NULL; row++)
    if ((row->flags & LMT_OPTION_HIDDEN) == 0)
      write_option (writer, row);
  lmt_json_writer_end_array (writer);
}

static void
describe_options (GString *out, const LmtOption *table, const char *dashes)
{
  for (const LmtOption *row = table; row != NULL && row->name != NULL; row++)
    {
      if ((row->flags & LMT_OPTION_HIDDEN) != 0)
        continue;
      g_string_append_printf (out, "    %s%s  %s", dashes, row->name, option_type (row->type));
      if ((row->flags & LMT_OPTION_REQUIRED) != 0)
        g_string_append (out, ", required");
      if (row->default_text != NULL)
        g_string_append_printf (out, ", default %s", row->default_text[0] != '\0' ? row->default_text : "\"\"");
      if (row->range != NULL)
        g_string_append_printf (out, ", range %s", row->range);
      g_string_append_printf (out, "\n      %s\n", row->help != NULL ? row->help : "");
    }
}

/* -------- one plugin, in text -------- */

static void
describe_entry (const char *kind, const char *name, const char *level, gconstpointer ops, gpointer data)
{
  GString *out = data;

  if (strcmp (kind, "level") == 0)
    {
      const LmtLevelOps *table = ops;

      g_string_append_printf (out, "  level %s (threads: %s)%s%s\n", name,
                              words_of (thread_words, G_N_ELEMENTS (thread_words), table->threads),
                              table->summary != NULL ? ": " : "", table->summary != NULL ? table->summary : "");
      if (table->replay_command != NULL)
        g_string_append_printf (out, "    replayed by `%s`\n", table->replay_command);
      describe_options (out, table->options, "--");
    }
  else if (strcmp (kind, "handler") == 0)
    g_string_append_printf (out, "  qualname %s (level %s)\n", name, level);
  else if (strcmp (kind, "codec") == 0)
    {
      const LmtCodecOps *table = ops;

      g_string_append_printf (out, "  tag %s%s%s\n", name, table->summary != NULL ? ": " : "",
                              table->summary != NULL ? table->summary : "");
    }
  else if (strcmp (kind, "l2") == 0)
    {
      const LmtL2Ops *table = ops;

      g_string_append_printf (out, "  adapter %s (threads: %s)%s%s\n", name,
                              words_of (thread_words, G_N_ELEMENTS (thread_words), table->threads),
                              table->summary != NULL ? ": " : "", table->summary != NULL ? table->summary : "");
      describe_options (out, table->options, "");
    }
  else if (strcmp (kind, "alias") == 0)
    g_string_append_printf (out, "  adapter %s: another name of %s\n", name, ((const LmtL2Ops *)ops)->name);
  else
    {
      const LmtCommandOps *table = ops;

      g_string_append_printf (out, "  command %s%s%s\n", name, table->summary != NULL ? ": " : "",
                              table->summary != NULL ? table->summary : "");
      describe_options (out, table->options, "--");
    }
}

void
cli_describe_plugin (LmtRegistry *registry, LmtPluginInfo *info, GString *out)
{
  LmtPluginState state = lmt_plugin_info_get_state (info);
  const char *name = lmt_plugin_info_get_name (info);
  const char *reason = lmt_plugin_info_get_reason (info);

  g_string_append_printf (out, "%s %s: %s\n", name[0] != '\0' ? name : "-", lmt_plugin_info_get_version (info),
                          lmt_plugin_info_get_summary (info));
  g_string_append_printf (out, "  path %s\n  ABI %u, licence %s\n  state %s%s%s\n", lmt_plugin_info_get_path (info),
                          lmt_plugin_info_get_abi (info), lmt_plugin_info_get_licence (info), state_words[state],
                          reason != NULL ? ": " : "", reason != NULL ? reason : "");
  lmt_registry_foreach (registry, info, describe_entry, out);
}

/* -------- the table -------- */

typedef struct
{
  GString *words; /* names of levels, adapters, commands */
  guint handlers;
  guint tags;
} Provides;

static void
provides_entry (const char *kind, const char *name, const char *level, gconstpointer ops, gpointer data)
{
  Provides *provides = data;

  if (strcmp (kind, "handler") == 0)
    provides->handlers++;
  else if (strcmp (kind, "codec") == 0)
    provides->tags++;
  else
    g_string_append_printf (provides->words, "%s%s %s", provides->words->len > 0 ? ", " : "",
                            strcmp (kind, "l2") == 0 || strcmp (kind, "alias") == 0 ? "adapter" : kind, name);
}

static char *
provides_of (LmtRegistry *registry, LmtPluginInfo *info)
{
  Provides provides = { g_string_new (NULL), 0, 0 };

  lmt_registry_foreach (registry, info, provides_entry, &provides);
  if (provides.handlers > 0)
    g_string_append_printf (provides.words, "%s%u qualname%s", provides.words->len > 0 ? ", " : "", provides.handlers,
                            provides.handlers == 1 ? "" : "s");
  if (provides.tags > 0)
    g_string_append_printf (provides.words, "%s%u tag%s", provides.words->len > 0 ? ", " : "", provides.tags,
                            provides.tags == 1 ? "" : "s");
  if (provides.words->len == 0)
    g_string_append_c (provides.words, '-');
  return g_string_free (provides.words, FALSE);
}

enum
{
  N_COLUMNS = 6
};

static char **
row_of (LmtRegistry *registry, LmtPluginInfo *info)
{
  char **row = g_new0 (char *, N_COLUMNS + 1);
  const char *name = lmt_plugin_info_get_name (info);
  const char *version = lmt_plugin_info_get_version (info);
  guint abi = lmt_plugin_info_get_abi (info);

  row[0] = g_strdup (name[0] != '\0' ? name : "-");
  row[1] = g_strdup (version[0] != '\0' ? version : "-");
  row[2] = abi != 0 ? g_strdup_printf ("%u", abi) : g_strdup ("-");
  row[3] = g_strdup (state_words[lmt_plugin_info_get_state (info)]);
  row[4] = provides_of (registry, info);
  row[5] = g_filename_display_name (lmt_plugin_info_get_path (info));
  return row;
}

/* Columns as wide as their content, two spaces between; a refused plugin's reason, a shadowed one's rival behind the path. */
static char *
table_text (LmtRegistry *registry, GPtrArray *plugins)
{
  static const char *const heads[N_COLUMNS] = { "plugin", "version", "abi", "state", "provides", "path" };
  g_autoptr (GPtrArray) rows = g_ptr_array_new_with_free_func ((GDestroyNotify)g_strfreev);
  GString *out = g_string_new (NULL);
  guint widths[N_COLUMNS];

  for (guint c = 0; c < N_COLUMNS; c++)
    widths[c] = (guint)strlen (heads[c]);
  for (guint i = 0; i < plugins->len; i++)
    {
      char **row = row_of (registry, plugins->pdata[i]);

      for (guint c = 0; c < N_COLUMNS; c++)
        widths[c] = MAX (widths[c], lmt_text_width (row[c]));
      g_ptr_array_add (rows, row);
    }
  for (guint c = 0; c + 1 < N_COLUMNS; c++)
    g_string_append_printf (out, "%-*s  ", (int)widths[c], heads[c]);
  g_string_append_printf (out, "%s\n", heads[N_COLUMNS - 1]);
  for (guint i = 0; i < rows->len; i++)
    {
      char **row = rows->pdata[i];
      LmtPluginState state = lmt_plugin_info_get_state (plugins->pdata[i]);
      const char *reason = lmt_plugin_info_get_reason (plugins->pdata[i]);

      for (guint c = 0; c + 1 < N_COLUMNS; c++)
        g_string_append_printf (out, "%s%*s  ", row[c], (int)(widths[c] - lmt_text_width (row[c])), "");
      g_string_append (out, row[N_COLUMNS - 1]);
      if (reason != NULL)
        g_string_append_printf (out, "  %s%s", state == LMT_PLUGIN_SHADOWED ? "by " : "", reason);
      g_string_append_c (out, '\n');
    }
  return g_string_free (out, FALSE);
}

static char *
table_csv (LmtRegistry *registry, GPtrArray *plugins)
{
  GString *out = g_string_new ("plugin,version,abi,state,provides,path,reason\r\n");

  for (guint i = 0; i < plugins->len; i++)
    {
      g_auto (GStrv) row = row_of (registry, plugins->pdata[i]);
      const char *reason = lmt_plugin_info_get_reason (plugins->pdata[i]);

      for (guint c = 0; c < N_COLUMNS; c++)
        {
          lmt_csv_append (out, row[c]);
          g_string_append_c (out, ',');
        }
      lmt_csv_append (out, reason != NULL ? reason : "");
      g_string_append (out, "\r\n");
    }
  return g_string_free (out, FALSE);
}

/* -------- JSON -------- */

typedef struct
{
  LmtJsonWriter *writer;
  const char *kind;
  LmtRegistry *registry;
} EntryWriter;

typedef struct
{
  LmtJsonWriter *writer;
  LmtRegistry *registry;
  const char **levels;
} CommandOptions;

/* Is it an option of a level? Those are listed there. */
static gboolean
belongs_to_level (const CommandOptions *into, const LmtOption *row)
{
  for (guint i = 0; into->levels[i] != NULL; i++)
    {
      const LmtLevelOps *level = lmt_registry_get_level (into->registry, into->levels[i], NULL);

      for (const LmtOption *option = level->options; option != NULL && option->name != NULL; option++)
        if (option == row)
          return TRUE;
    }
  return FALSE;
}

static void
write_command_option (const LmtOption *row, gpointer data)
{
  CommandOptions *into = data;

  if ((row->flags & (LMT_OPTION_GLOBAL | LMT_OPTION_HIDDEN)) == 0 && !belongs_to_level (into, row))
    write_option (into->writer, row);
}

/* What the command takes, with the tables its prepare() adds (the selection). */
static void
write_command_options (EntryWriter *entry, const LmtCommandOps *ops)
{
  static const char *const no_words[] = { NULL };
  g_autoptr (CliLine) line = cli_line_new (entry->registry, ops, no_words, NULL);
  g_autofree const char **levels = lmt_registry_list_levels (entry->registry);
  CommandOptions into = { entry->writer, entry->registry, levels };

  if (line == NULL)
    {
      write_options (entry->writer, "options", ops->options);
      return;
    }
  lmt_json_writer_key (entry->writer, "options");
  lmt_json_writer_begin_array (entry->writer);
  lmt_options_foreach (line->options, write_command_option, &into);
  lmt_json_writer_end_array (entry->writer);
}

static void
write_entry (const char *kind, const char *name, const char *level, gconstpointer ops, gpointer data)
{
  EntryWriter *into = data;
  LmtJsonWriter *writer = into->writer;

  if (strcmp (kind, into->kind) != 0)
    return;
  lmt_json_writer_begin_object (writer);
  write_text (writer, "name", name);
  if (strcmp (kind, "level") == 0)
    {
      const LmtLevelOps *table = ops;

      write_text (writer, "summary", table->summary);
      write_text (writer, "threads", words_of (thread_words, G_N_ELEMENTS (thread_words), table->threads));
      lmt_json_writer_key (writer, "replay");
      lmt_json_writer_bool (writer, table->configure != NULL);
      write_text (writer, "replay_command", table->replay_command);
      write_options (writer, "options", table->options);
    }
  else if (strcmp (kind, "handler") == 0)
    write_text (writer, "level", level);
  else if (strcmp (kind, "codec") == 0)
    write_text (writer, "summary", ((const LmtCodecOps *)ops)->summary);
  else if (strcmp (kind, "l2") == 0)
    {
      const LmtL2Ops *table = ops;

      write_text (writer, "summary", table->summary);
      write_text (writer, "threads", words_of (thread_words, G_N_ELEMENTS (thread_words), table->threads));
      write_options (writer, "options", table->options);
    }
  else if (strcmp (kind, "alias") == 0)
    write_text (writer, "of", ((const LmtL2Ops *)ops)->name);
  else
    {
      const LmtCommandOps *table = ops;

      write_text (writer, "summary", table->summary);
      write_text (writer, "synopsis", table->synopsis);
      write_command_options (into, table);
    }
  lmt_json_writer_end_object (writer);
}

static void
write_plugin (LmtJsonWriter *writer, LmtRegistry *registry, LmtPluginInfo *info)
{
  static const struct
  {
    const char *key;
    const char *kind;
  } lists[] = { { "levels", "level" }, { "qualnames", "handler" }, { "tags", "codec" },
                { "adapters", "l2" },  { "aliases", "alias" },     { "commands", "command" } };
  LmtPluginState state = lmt_plugin_info_get_state (info);

  lmt_json_writer_begin_object (writer);
  write_text (writer, "name", lmt_plugin_info_get_name (info));
  write_text (writer, "version", lmt_plugin_info_get_version (info));
  lmt_json_writer_key (writer, "abi");
  lmt_json_writer_int (writer, lmt_plugin_info_get_abi (info));
  write_text (writer, "licence", lmt_plugin_info_get_licence (info));
  write_text (writer, "summary", lmt_plugin_info_get_summary (info));
  write_text (writer, "state", state_words[state]);
  write_text (writer, "reason", state == LMT_PLUGIN_REFUSED ? lmt_plugin_info_get_reason (info) : NULL);
  write_text (writer, "shadowed_by", state == LMT_PLUGIN_SHADOWED ? lmt_plugin_info_get_reason (info) : NULL);
  lmt_json_writer_path (writer, "path", lmt_plugin_info_get_path (info));
  for (guint i = 0; i < G_N_ELEMENTS (lists); i++)
    {
      EntryWriter into = { writer, lists[i].kind, registry };

      lmt_json_writer_key (writer, lists[i].key);
      lmt_json_writer_begin_array (writer);
      lmt_registry_foreach (registry, info, write_entry, &into);
      lmt_json_writer_end_array (writer);
    }
  lmt_json_writer_end_object (writer);
}

static char *
table_json (LmtRegistry *registry, GPtrArray *plugins)
{
  GString *out = g_string_new (NULL);
  LmtJsonWriter *writer = lmt_json_writer_new (out, LMT_JSON_STYLE_COMPACT);
  g_auto (GStrv) dirs = lmt_registry_get_dirs (registry);

  lmt_json_writer_begin_object (writer);
  lmt_json_writer_key (writer, "plugins");
  lmt_json_writer_begin_array (writer);
  for (guint i = 0; i < plugins->len; i++)
    write_plugin (writer, registry, plugins->pdata[i]);
  lmt_json_writer_end_array (writer);
  lmt_json_writer_key (writer, "folders");
  lmt_json_writer_begin_array (writer);
  for (guint i = 0; dirs[i] != NULL; i++)
    lmt_json_writer_string (writer, dirs[i]);
  lmt_json_writer_end_array (writer);
  write_options (writer, "global_options", cli_global_options);
  lmt_json_writer_end_object (writer);
  lmt_json_writer_free (writer);
  return g_string_free (out, FALSE);
}

/* -------- the command -------- */

static gboolean
is_named (LmtPluginInfo *info, const char *name)
{
  g_autofree char *base = g_path_get_basename (lmt_plugin_info_get_path (info));

  return strcmp (lmt_plugin_info_get_name (info), name) == 0 || strcmp (base, name) == 0
         || (g_str_has_suffix (base, ".so") && strncmp (base, "lmt-", 4) == 0 && strlen (base) == strlen (name) + 7
             && strncmp (base + 4, name, strlen (name)) == 0);
}

/* Plugins called @name (as the plugin or its file says); else the one that offers a level, adapter or command of that name. */
static GPtrArray *
keep_named (LmtRegistry *registry, GPtrArray *plugins, const char *name)
{
  static const char *const kinds[] = { "level", "l2", "command" };
  GPtrArray *kept = g_ptr_array_new_with_free_func (g_object_unref);

  for (guint i = 0; i < plugins->len; i++)
    if (is_named (plugins->pdata[i], name))
      g_ptr_array_add (kept, g_object_ref (plugins->pdata[i]));
  for (guint i = 0; i < G_N_ELEMENTS (kinds) && kept->len == 0; i++)
    {
      LmtPluginInfo *owner = lmt_registry_get_owner (registry, kinds[i], name);

      if (owner != NULL)
        g_ptr_array_add (kept, g_object_ref (owner));
    }
  return kept;
}

static void
set_unknown (GPtrArray *plugins, const char *name, GError **error)
{
  g_autoptr (GPtrArray) names = g_ptr_array_new ();
  const char *closest;
  g_autofree char *known = NULL;

  for (guint i = 0; i < plugins->len; i++)
    if (lmt_plugin_info_get_name (plugins->pdata[i])[0] != '\0')
      g_ptr_array_add (names, (gpointer)lmt_plugin_info_get_name (plugins->pdata[i]));
  g_ptr_array_add (names, NULL);
  closest = lmt_closest (name, (const char *const *)names->pdata);
  known = g_strjoinv (", ", (char **)names->pdata);
  if (closest != NULL)
    g_set_error (error, LMT_ERROR, LMT_ERROR_OPTION, "unknown plugin '%s': did you mean '%s'?", name, closest);
  else
    g_set_error (error, LMT_ERROR, LMT_ERROR_OPTION, "unknown plugin '%s': known: %s", name, known);
}

static int
run_list_plugins (const LmtCommandContext *context, GError **error)
{
  LmtRegistry *registry = context->registry;
  const char *name = context->operands[0];
  g_autoptr (GPtrArray) plugins = NULL;
  g_autofree char *text = NULL;
  g_autofree char *csv = NULL;
  g_autofree char *json = NULL;

  lmt_registry_load_all (registry);
  plugins = lmt_registry_list_plugins (registry);
  if (name != NULL)
    {
      g_autoptr (GPtrArray) kept = keep_named (registry, plugins, name);

      if (kept->len == 0)
        {
          set_unknown (plugins, name, error);
          return 2;
        }
      g_ptr_array_unref (plugins);
      plugins = g_steal_pointer (&kept);
    }
  if (name == NULL)
    text = table_text (registry, plugins);
  else
    {
      GString *out = g_string_new (NULL);

      for (guint i = 0; i < plugins->len; i++)
        cli_describe_plugin (registry, plugins->pdata[i], out);
      text = g_string_free (out, FALSE);
    }
  csv = table_csv (registry, plugins);
  json = table_json (registry, plugins);
  return lmt_output_raw (context->output, "Plugins", text, json, csv, FALSE, 0, error) ? 0 : 1;
}

static const char *const examples[]
    = { "lmtrace list-plugins", "lmtrace list-plugins l2-fs", "lmtrace --plugin-dir ./build list-plugins --json", NULL };

const LmtCommandOps cmd_list_plugins_ops = {
  .struct_size = sizeof (LmtCommandOps),
  .name = "list-plugins",
  .summary = "List plugins with path, version, state and what they offer",
  .synopsis = "[NAME]",
  .examples = examples,
  .run = run_list_plugins,
  .max_operands = 1,
};
