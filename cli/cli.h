/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/**
 * SECTION: what the files of cli/ share. main.c finds the command and does what every command has in common: global options,
 * plugins, configuration file, log, output, the failure's one line and the exit code. A command is a table, built in or a
 * plugin's.
 */
#include <lmtrace/lmtrace.h>

G_BEGIN_DECLS

/* -------- cli-options.c: the global options (cli.md 8.2) -------- */

/**
 * CliGlobals: their values. Strings belong to the LmtOptions that parsed them.
 */
typedef struct
{
  char **plugin;     /* --plugin FILE, in order */
  char **plugin_dir; /* --plugin-dir DIR, in order */
  char *config;      /* --config FILE */
  char *format;      /* text json csv */
  char *json;        /* NULL: not given; "": --json; else --json=PATH */
  char *output;
  char *log_level;
  char *log_format; /* text json */
  char *color;      /* auto always never */
  char *progress;   /* auto always never */
  guint32 no_default_plugins;
  guint32 no_config;
  guint32 quiet;
  guint32 verbose; /* counted */
  guint32 strict;
  guint32 version;
  guint32 help;
  guint32 help_all;
} CliGlobals;

/* Over CliGlobals; every row has LMT_OPTION_GLOBAL. */
extern const LmtOption cli_global_options[];

/**
 * cli_options_load_environment: LMTRACE_LOG_LEVEL, LMTRACE_COLOR, LMCACHE_LOG_LEVEL (cli.md 8.11) where the line said nothing.
 * Errors: LMT_ERROR_OPTION that names the variable.
 */
gboolean cli_options_load_environment (LmtOptions *options, GError **error);

/* The configuration file as it was read: once, for it may be a pipe. All zero: not read yet. */
typedef struct
{
  char *path;
  char *shown; /* for messages */
  GKeyFile *file;
} CliConfig;
void cli_config_clear (CliConfig *config);

/**
 * cli_options_load_config: the configuration file (cli.md 8.11): @named, else $LMTRACE_CONFIG, else the user's lmtrace.conf if
 * there is one. Fills what neither line nor environment set from the sections `[lmtrace]` (global options) and `[SECTION]`.
 * @config: (inout): what was read, for the next call
 * @named: (nullable): as --config gave it; then a missing file is an error
 */
gboolean cli_options_load_config (LmtOptions *options, CliConfig *config, const char *named, const char *section, GError **error);

/* --print-config: one row per option: its effective value and where that came from. (transfer full) */
LmtReport *cli_options_report (const LmtOptions *options, const char *command);

/* -------- cli-signals.c (cli.md 8.10) -------- */

/* SIGINT, SIGTERM, SIGHUP count, the third acts as by default; SIGUSR1 counts apart; SIGPIPE is ignored. */
void cli_signals_install (void);
extern volatile gint cli_signals_interrupts;
extern volatile gint cli_signals_table_requests;

/* -------- commands built in: one table a file -------- */

extern const LmtCommandOps cmd_info_ops;
extern const LmtCommandOps cmd_replay_ops;
extern const LmtCommandOps cmd_list_plugins_ops;
extern const LmtCommandOps cmd_help_ops;
extern const LmtCommandOps cmd_version_ops;

/* NULL-terminated: what main.c registers. */
extern const LmtCommandOps *const cli_builtin_commands[];

/* cli-options.c or main.c: the table of the global options without what @ops has under the same name. (transfer full): g_free()
 */
LmtOption *cli_global_options_for (const LmtCommandOps *ops);

/**
 * CliLine: the options of one command, their config structs and what prepare() left. Made by cli_line_new(), in one place for
 * running a command and for its help.
 */
typedef struct
{
  const LmtCommandOps *ops;
  CliGlobals globals;
  LmtOption *global_table;
  gpointer config;
  gpointer prepared;
  LmtOptions *options;
} CliLine;
/* @words: all words but the command; prepare() looks at them. */
CliLine *cli_line_new (LmtRegistry *registry, const LmtCommandOps *ops, const char *const *words, GError **error);
void cli_line_free (CliLine *line);

/* -------- cmd-help.c: texts. (transfer full) -------- */

/* `lmtrace COMMAND --help`; @all: with all that plugins offer. */
char *cli_help_command (LmtRegistry *registry, const CliLine *line, gboolean all);
/* `lmtrace --help`; @all: opens every plugin and shows what it offers and its options. */
/* Opens the plugins of commands, so that lists of commands hold them. */
void cli_open_commands (LmtRegistry *registry);
char *cli_help_general (LmtRegistry *registry, gboolean all);
/* The short usage for a line without a command. */
const char *cli_usage_text (void);

/* cli-man.c: roff of `lmtrace` (or NULL), `lmtrace-plugins`, `lmtrace-COMMAND` or `COMMAND`. */
char *cli_man_page (LmtRegistry *registry, const char *page, GError **error);

/* cmd-list-plugins.c: everything about one plugin, for `list-plugins NAME` and `help PLUGIN`. */
void cli_describe_plugin (LmtRegistry *registry, LmtPluginInfo *info, GString *out);
/* (transfer none) (nullable): loaded plugin of that name. */
LmtPluginInfo *cli_find_plugin (LmtRegistry *registry, const char *name);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (CliLine, cli_line_free)

G_END_DECLS
