/* SPDX-License-Identifier: Apache-2.0 */
#include "cli.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

/* What a run of the program holds before it is a run of a command. */
typedef struct
{
  LmtRegistry *registry;
  LmtWarnings *warnings;
  CliGlobals globals; /* of the first pass */
  LmtOption *table;
  LmtOptions *options;
  CliConfig config;
  const char *word; /* the command as written, or NULL */
  GPtrArray *words; /* all others */
} Program;

const LmtCommandOps *const cli_builtin_commands[]
    = { &cmd_info_ops, &cmd_replay_ops, &cmd_list_plugins_ops, &cmd_help_ops, &cmd_version_ops, NULL };

static gboolean
load_builtin (LmtRegistrar *registrar, GError **error)
{
  for (guint i = 0; cli_builtin_commands[i] != NULL; i++)
    if (!lmt_registrar_add_command (registrar, cli_builtin_commands[i], error))
      return FALSE;
  return TRUE;
}

/* -------- the line -------- */

LmtOption *
cli_global_options_for (const LmtCommandOps *ops)
{
  g_autoptr (GArray) rows = g_array_new (TRUE, TRUE, sizeof (LmtOption));

  for (const LmtOption *row = cli_global_options; row->name != NULL; row++)
    {
      gboolean own = FALSE;

      for (const LmtOption *other = ops != NULL ? ops->options : NULL; other != NULL && other->name != NULL && !own; other++)
        own = strcmp (other->name, row->name) == 0;
      if (!own)
        g_array_append_val (rows, *row);
    }
  return (LmtOption *)(gpointer)g_array_free (g_steal_pointer (&rows), FALSE);
}

CliLine *
cli_line_new (LmtRegistry *registry, const LmtCommandOps *ops, const char *const *words, GError **error)
{
  g_autoptr (CliLine) line = g_new0 (CliLine, 1);

  line->ops = ops;
  line->options = lmt_options_new ();
  line->global_table = cli_global_options_for (ops);
  line->config = g_malloc0 (MAX (ops->config_size, 1));
  if (ops->options != NULL)
    lmt_options_add_table (line->options, ops->options, line->config);
  if (ops->prepare != NULL && !ops->prepare (registry, line->options, words, &line->prepared, error))
    return NULL;
  lmt_options_add_table (line->options, line->global_table, &line->globals);
  return g_steal_pointer (&line);
}

void
cli_line_free (CliLine *line)
{
  if (line == NULL)
    return;
  if (line->prepared != NULL && line->ops->prepared_free != NULL)
    line->ops->prepared_free (line->prepared);
  lmt_options_free (line->options);
  g_free (line->config);
  g_free (line->global_table);
  g_free (line);
}

static const LmtOption *
find_global (const char *word)
{
  if (strncmp (word, "--", 2) == 0)
    {
      gsize len = strcspn (word + 2, "=");

      for (const LmtOption *row = cli_global_options; row->name != NULL; row++)
        if (strlen (row->name) == len && strncmp (row->name, word + 2, len) == 0)
          return row;
    }
  else
    for (const LmtOption *row = cli_global_options; row->name != NULL; row++)
      if (row->short_name != 0 && row->short_name == (guint32)word[strlen (word) - 1])
        return row;
  return NULL;
}

/* Index of the first word that is neither a global option nor the value of one. */
static int
find_command (int argc, char **argv)
{
  for (int i = 1; i < argc; i++)
    {
      const char *word = argv[i];
      const LmtOption *row;

      if (strcmp (word, "--") == 0)
        return i + 1;
      if (word[0] != '-' || word[1] == '\0')
        return i;
      row = find_global (word);
      if (row != NULL && row->type != LMT_OPTION_TYPE_BOOL && row->type != LMT_OPTION_TYPE_OPT_STRING
          && strchr (word, '=') == NULL)
        i++;
    }
  return argc;
}

static const LmtCommandOps *
find_builtin (const char *word)
{
  for (guint i = 0; word != NULL && cli_builtin_commands[i] != NULL; i++)
    if (strcmp (cli_builtin_commands[i]->name, word) == 0)
      return cli_builtin_commands[i];
  return NULL;
}

/* Before the command stand global options only: anything else is named as what it is, not taken for the command. */
static gboolean
check_head (char **argv, int at, GError **error)
{
  g_autoptr (LmtOptions) options = lmt_options_new ();
  g_autoptr (GPtrArray) head = g_ptr_array_new ();
  g_auto (GStrv) rest = NULL;
  CliGlobals globals = { 0 };

  for (int i = 1; i < at && argv[i] != NULL; i++)
    g_ptr_array_add (head, argv[i]);
  g_ptr_array_add (head, NULL);
  lmt_options_add_table (options, cli_global_options, &globals);
  return lmt_options_parse_argv (options, (const char *const *)head->pdata, TRUE, &rest, error);
}

/* First pass: the global options alone, wherever they stand; what else there is belongs to the command. */
static gboolean
read_globals (Program *program, int argc, char **argv, GError **error)
{
  g_auto (GStrv) rest = NULL;
  int at = find_command (argc, argv);

  program->word = at < argc ? argv[at] : NULL;
  program->words = g_ptr_array_new ();
  for (int i = 1; i < argc; i++)
    if (i != at && !(i == at - 1 && strcmp (argv[i], "--") == 0))
      g_ptr_array_add (program->words, argv[i]);
  g_ptr_array_add (program->words, NULL);
  program->table = cli_global_options_for (find_builtin (program->word));
  program->options = lmt_options_new ();
  lmt_options_add_table (program->options, program->table, &program->globals);
  return lmt_options_parse_argv (program->options, (const char *const *)program->words->pdata, FALSE, &rest, error)
         && check_head (argv, at, error) && cli_options_load_environment (program->options, error)
         && (program->globals.no_config != 0
             || cli_options_load_config (program->options, &program->config, program->globals.config, NULL, error));
}

/* Words on the line beat the environment: -v counts unless --log-level is there, too. */
static void
set_log (const LmtOptions *options, const CliGlobals *globals)
{
  LmtLogLevel level = LMT_LOG_MESSAGE;

  if (globals->verbose > 0 && lmt_options_get_origin (options, "log-level") < LMT_ORIGIN_COMMAND_LINE)
    level = globals->verbose > 1 ? LMT_LOG_DEBUG : LMT_LOG_INFO;
  else if (globals->log_level != NULL)
    lmt_log_level_from_text (globals->log_level, &level);
  lmt_log_set_level (level);
  lmt_log_set_json (g_strcmp0 (globals->log_format, "json") == 0);
  if (g_strcmp0 (globals->color, "always") == 0)
    lmt_log_set_color (LMT_COLOR_ALWAYS);
  else if (g_strcmp0 (globals->color, "never") == 0)
    lmt_log_set_color (LMT_COLOR_NEVER);
}

/* -------- plugins -------- */

static gboolean
load_plugins (Program *program, GError **error)
{
  const CliGlobals *globals = &program->globals;

  lmt_registry_set_default_dirs (program->registry, globals->no_default_plugins == 0);
  for (guint i = 0; globals->plugin_dir != NULL && globals->plugin_dir[i] != NULL; i++)
    lmt_registry_add_dir (program->registry, globals->plugin_dir[i]);
  for (guint i = 0; globals->plugin != NULL && globals->plugin[i] != NULL; i++)
    if (!lmt_registry_load_file (program->registry, globals->plugin[i], error))
      return FALSE;
  return TRUE;
}

static gboolean
any_refused (LmtRegistry *registry)
{
  g_autoptr (GPtrArray) plugins = lmt_registry_list_plugins (registry);

  for (guint i = 0; i < plugins->len; i++)
    if (lmt_plugin_info_get_state (plugins->pdata[i]) == LMT_PLUGIN_REFUSED)
      return TRUE;
  return FALSE;
}

/* -------- results -------- */

static LmtFormat
format_of (const CliGlobals *globals)
{
  if (globals->json != NULL || g_strcmp0 (globals->format, "json") == 0)
    return LMT_FORMAT_JSON;
  return g_strcmp0 (globals->format, "csv") == 0 ? LMT_FORMAT_CSV : LMT_FORMAT_TEXT;
}

static LmtOutput *
open_output (const CliGlobals *globals, const char *command, LmtWarnings *warnings)
{
  const char *path = globals->output;

  if (path == NULL && globals->json != NULL && globals->json[0] != '\0')
    path = globals->json;
  return lmt_output_new (command, format_of (globals), path, globals->quiet != 0, warnings);
}

/* One line on stderr; in JSON mode an envelope on stdout as well. A reader who left is no failure. */
static int
fail (LmtOutput *output, const GError *error, int code)
{
  if (lmt_output_stdout_closed ())
    return 0;
  if (g_atomic_int_get (&cli_signals_interrupts) > 0)
    code = 130;
  lmt_log_failure (error->message);
  lmt_output_failure (output, error, code);
  return code;
}

static int
fail_early (Program *program, const GError *error)
{
  g_autoptr (LmtOutput) output
      = open_output (&program->globals, program->word != NULL ? program->word : "lmtrace", program->warnings);

  return fail (output, error, 2);
}

static int
print (Program *program, const char *text)
{
  g_autoptr (GError) error = NULL;

  if (lmt_output_stdout (text, -1, &error) || lmt_output_stdout_closed ())
    return 0;
  lmt_log_failure (error->message);
  return 1;
}

/* -------- a command -------- */

static gboolean
check_operands (const LmtCommandOps *ops, char **operands, GError **error)
{
  guint n = g_strv_length (operands);
  const char *word = n < ops->min_operands ? "at least" : "at most";
  guint limit = n < ops->min_operands ? ops->min_operands : ops->max_operands;

  if (n >= ops->min_operands && n <= ops->max_operands)
    return TRUE;
  if (ops->max_operands == 0)
    g_set_error (error, LMT_ERROR, LMT_ERROR_OPTION, "%s: expected no operand, found '%s'", ops->name, operands[0]);
  else
    g_set_error (error, LMT_ERROR, LMT_ERROR_OPTION, "%s: expected %s %u operand%s, found %u: usage: lmtrace %s %s", ops->name,
                 word, limit, limit == 1 ? "" : "s", n, ops->name, ops->synopsis != NULL ? ops->synopsis : "");
  return FALSE;
}

static int
run_with (Program *program, CliLine *line, char **operands)
{
  const CliGlobals *globals = &line->globals;
  g_autoptr (LmtOutput) output = open_output (globals, line->ops->name, program->warnings);
  g_autoptr (GError) error = NULL;
  LmtCommandContext context = { .struct_size = sizeof context };
  int code;

  if (!check_operands (line->ops, operands, &error) || (line->ops->checks_output == 0 && !lmt_output_check (output, &error)))
    return fail (output, error, 2);
  context.strict = globals->strict;
  context.registry = program->registry;
  context.options = line->options;
  context.config = line->config;
  context.operands = (const char *const *)operands;
  context.output = output;
  context.warnings = program->warnings;
  context.interrupts = &cli_signals_interrupts;
  context.table_requests = &cli_signals_table_requests;
  context.progress = globals->progress != NULL ? globals->progress : "auto";
  context.quiet = globals->quiet;
  context.verbose = globals->verbose;
  context.prepared = line->prepared;
  code = line->ops->run (&context, &error);
  lmt_warnings_flush (program->warnings);
  if (error != NULL)
    return fail (output, error, code != 0 ? code : 2);
  if (code == 0 && globals->strict != 0 && any_refused (program->registry))
    code = 1;
  return code;
}

static int
run_command (Program *program, const LmtCommandOps *ops)
{
  const char *const *words = (const char *const *)program->words->pdata;
  g_autoptr (GError) error = NULL;
  g_autoptr (CliLine) line = cli_line_new (program->registry, ops, words, &error);
  g_auto (GStrv) operands = NULL;

  if (line == NULL)
    return fail_early (program, error);
  if (program->globals.help != 0 || program->globals.help_all != 0)
    {
      g_autofree char *text = cli_help_command (program->registry, line, program->globals.help_all != 0);

      return print (program, text);
    }
  if (!lmt_options_parse_argv (line->options, words, TRUE, &operands, &error)
      || !cli_options_load_environment (line->options, &error)
      || (line->globals.no_config == 0
          && !cli_options_load_config (line->options, &program->config, line->globals.config, ops->name, &error)))
    return fail_early (program, error);
  set_log (line->options, &line->globals);
  return run_with (program, line, operands);
}

/* --version anywhere on the line: the rest of it doesn't matter. */
static int
run_version (Program *program)
{
  static const char *const no_words[] = { NULL };
  char *no_operands[] = { NULL };
  g_autoptr (GError) error = NULL;
  g_autoptr (CliLine) line = cli_line_new (program->registry, &cmd_version_ops, no_words, &error);

  if (line == NULL)
    return fail_early (program, error);
  line->globals = program->globals;
  return run_with (program, line, no_operands);
}

static int
run_program (Program *program, int argc, char **argv)
{
  g_autoptr (GError) error = NULL;
  const LmtCommandOps *ops;

  if (!lmt_registry_load_builtin (program->registry, "lmtrace", load_builtin, &error)
      || !read_globals (program, argc, argv, &error))
    return fail_early (program, error);
  set_log (program->options, &program->globals);
  if (!load_plugins (program, &error))
    return fail_early (program, error);
  if (program->globals.version != 0)
    return run_version (program);
  if (program->word == NULL && (program->globals.help != 0 || program->globals.help_all != 0))
    {
      g_autofree char *text = cli_help_general (program->registry, program->globals.help_all != 0);

      return print (program, text);
    }
  if (program->word == NULL)
    {
      g_printerr ("%s", cli_usage_text ());
      return 2;
    }
  ops = lmt_registry_get_command (program->registry, program->word, &error);
  if (ops == NULL)
    return fail_early (program, error);
  return run_command (program, ops);
}

/*
 * Started without stdin, stdout or stderr, the next file opened would take the place, and what is meant for the terminal would
 * be written into it: a trace, a connection. Something that can't be used the way its number is meant stands there instead.
 */
static void
hold_standard_streams (void)
{
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
    if (fcntl (fd, F_GETFD) < 0 && errno == EBADF && open ("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) != fd)
      _exit (2);
}

int
main (int argc, char **argv)
{
  Program program = { 0 };
  int code;

  hold_standard_streams ();
  lmt_log_install ();
  cli_signals_install ();
  program.registry = lmt_registry_new ();
  program.warnings = lmt_warnings_new ();
  code = run_program (&program, argc, argv);
  g_clear_pointer (&program.words, g_ptr_array_unref);
  lmt_options_free (program.options);
  g_free (program.table);
  cli_config_clear (&program.config);
  lmt_warnings_free (program.warnings);
  g_object_unref (program.registry);
  return code;
}
