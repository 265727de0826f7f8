/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "lmt-error.h"
#include "lmt-log.h"

G_BEGIN_DECLS

/**
 * SECTION: option tables: one array of rows feeds the command line or the adapter's JSON object, its checks and messages, --help,
 * list-plugins, man pages and completion. A row says at which offset of the owner's config struct a value is put, and of which
 * type: the member must have exactly the C type named below. The struct is zeroed, then filled with the defaults, then with what
 * was given; strings in it are borrowed.
 *
 * |[
 * typedef struct { char *path; guint64 depth; } MineConfig;
 * static const LmtOption mine_options[] = {
 *   LMT_OPTION_FULL (STRING, "path", MineConfig, path, LMT_OPTION_REQUIRED, NULL, "nonempty", "DIR", "Keep objects here", NULL),
 *   LMT_OPTION (UINT, "depth", MineConfig, depth, "64", "1..1024", "Take at most this many operations at a time"),
 *   LMT_OPTION_END,
 * };
 * ]|
 *
 * In JSON, names are as in the row; on the command line they are behind `--`. Unknown keys, repeated ones, wrong types, values
 * out of range and absent required ones are refused by the core with a message that names them: a plugin's open sees checked
 * values only. There is no type for paths: STRING with the range "nonempty".
 *
 * Threads: one per LmtOptions; tables are constants. Lifetime: tables, and all texts in them, live as long as the process.
 * Errors: LMT_ERROR, LMT_ERROR_OPTION, the message fit for the user as it is.
 *
 * Since: 0.1
 */

/**
 * LmtOptionType: what an option's member is, and how its text is read. Everything parses strictly: whole text, finite, in range,
 * C locale, no blanks. In a JSON object (adapter configurations) the value must be of the matching JSON type: numbers are JSON
 * numbers, a SIZE in bytes (1048576, not "1MiB"), a DURATION in seconds; a default is written as on the command line.
 */
typedef enum
{
  LMT_OPTION_END_MARK = 0,
  LMT_OPTION_TYPE_BOOL,       /* guint32 0/1; `--x`, with LMT_OPTION_NEGATABLE also `--no-x`; JSON true/false only */
  LMT_OPTION_TYPE_STRING,     /* char *; owned by the parsed options */
  LMT_OPTION_TYPE_INT,        /* gint64 */
  LMT_OPTION_TYPE_UINT,       /* guint64 */
  LMT_OPTION_TYPE_DOUBLE,     /* double */
  LMT_OPTION_TYPE_SIZE,       /* guint64 bytes: 4096, 4KiB, 4K, 4kB, 1.5GiB */
  LMT_OPTION_TYPE_DURATION,   /* gint64 ns: 250ms, 1.5s, 1h30min; bare number = s */
  LMT_OPTION_TYPE_COUNT,      /* guint64: 1000, 10k, 1M */
  LMT_OPTION_TYPE_FRACTION,   /* double: 5% or 0.05 */
  LMT_OPTION_TYPE_CHOICE,     /* char *; must be one of `range`, words parted by '|' */
  LMT_OPTION_TYPE_STRINGS,    /* char **, NULL-terminated; repeatable, in order */
  LMT_OPTION_TYPE_RANGE,      /* char * text START..END, checked for shape only; LmtSelect reads it */
  LMT_OPTION_TYPE_JSON,       /* char *: text of a JSON value (adapter configurations: objects, arrays) */
  LMT_OPTION_TYPE_OPT_STRING, /* char *; `--x` alone gives "", `--x=V` gives V */
} LmtOptionType;

enum
{
  LMT_OPTION_REQUIRED = 1 << 0,
  LMT_OPTION_NEGATABLE = 1 << 1,
  LMT_OPTION_HIDDEN = 1 << 2,
  LMT_OPTION_NO_EFFECT = 1 << 3, /* accepted for another tool's sake: one warning unless it has its default value */
  LMT_OPTION_SILENT = 1 << 4,    /* with NO_EFFECT: no warning either */
  LMT_OPTION_CAPACITY = 1 << 5,  /* adapters: this key sets the capacity (bytes, or GiB if the name ends in _gb) */
  LMT_OPTION_NULLABLE = 1 << 6,  /* JSON null counts as absent */
  LMT_OPTION_COUNTED = 1 << 7,   /* BOOL whose guint32 counts repeats (-v -v) */
  LMT_OPTION_GLOBAL = 1 << 8,    /* core's own: may stand before the command */
  LMT_OPTION_SECRET = 1 << 9,    /* never shown */
  LMT_OPTION_ADAPTER = 1 << 10,  /* adapters, JSON only: the value is a whole adapter, read and checked by core (wrappers) */
};

/**
 * LmtOption: one row of an option table. Array entries never grow: `reserved` stays zero. All strings live as long as the
 * process.
 * @name: long name without dashes (command line), or key (adapter configuration)
 * @range: numbers: `1..1024`, `0..`, `(0..1]` (a parenthesis excludes the bound); CHOICE: `a|b|c`; strings: `nonempty`
 * @offset: of the member in the table owner's config struct
 */
typedef struct
{
  const char *name;
  guint32 type;
  guint32 flags;
  guint32 offset;
  guint32 short_name;       /* a character, or 0 */
  const char *default_text; /* NULL: absent / 0 / FALSE */
  const char *range;
  const char *arg;   /* word for the value in --help: SIZE, DIR */
  const char *help;  /* imperative, no final stop; unit named */
  const char *group; /* heading in --help; NULL: "Options" */
  guint64 reserved[3];
} LmtOption;

#define LMT_OPTION_FULL(kind, key, Struct, member, flags_, def, range_, arg_, help_, group_)                                     \
  {                                                                                                                              \
    (key), LMT_OPTION_TYPE_##kind, (flags_), (guint32)G_STRUCT_OFFSET (Struct, member), 0, (def), (range_), (arg_), (help_),     \
        (group_),                                                                                                                \
    {                                                                                                                            \
      0, 0, 0                                                                                                                    \
    }                                                                                                                            \
  }
#define LMT_OPTION(kind, key, Struct, member, def, range_, help_)                                                                \
  LMT_OPTION_FULL (kind, key, Struct, member, 0, def, range_, NULL, help_, NULL)
#define LMT_OPTION_END                                                                                                           \
  {                                                                                                                              \
    NULL, 0, 0, 0, 0, NULL, NULL, NULL, NULL, NULL,                                                                              \
    {                                                                                                                            \
      0, 0, 0                                                                                                                    \
    }                                                                                                                            \
  }

typedef enum
{
  LMT_ORIGIN_DEFAULT = 0,
  LMT_ORIGIN_HEADER,
  LMT_ORIGIN_FILE,
  LMT_ORIGIN_ENVIRONMENT,
  LMT_ORIGIN_COMMAND_LINE,
} LmtOrigin;

/**
 * LmtOptions: values of one or more tables, each with its config struct. One owner.
 */
typedef struct _LmtOptions LmtOptions;

LmtOptions *lmt_options_new (void);
void lmt_options_free (LmtOptions *options);
/**
 * lmt_options_add_table: every member gets its default. @config must live as long as @options; strings in it belong to @options.
 * Equal names in two tables are a caller's mistake.
 */
void lmt_options_add_table (LmtOptions *options, const LmtOption *table, gpointer config);
/* Sets one value from text; the error reads `--NAME: expected X, found "Y"` (@prefix "--" or ""). */
gboolean lmt_options_set (LmtOptions *options, const char *name, const char *text, LmtOrigin origin, GError **error);
LmtOrigin lmt_options_get_origin (const LmtOptions *options, const char *name);
/* Name as written on the line or in the file; FALSE if the value came from the default. */
gboolean lmt_options_is_set (const LmtOptions *options, const char *name);
const LmtOption *lmt_options_find (const LmtOptions *options, const char *name);
/* The effective value as text, or NULL. (transfer full) */
char *lmt_options_get_text (const LmtOptions *options, const char *name);
void lmt_options_foreach (const LmtOptions *options, void (*func) (const LmtOption *option, gpointer data), gpointer data);

/**
 * lmt_options_parse_argv:
 * @argv: words behind the command; NULL-terminated
 * @strict: FALSE: words that no table knows are left alone (first pass, to find the FILE)
 * @operands: (out) (transfer full): what is no option, in order
 *
 * `--flag value`, `--flag=value`, `--`, short options, options after operands. Unknown: names the closest; an abbreviation: says
 * which option was meant. Error LMT_ERROR_OPTION. What a pass with @strict FALSE set is set anew by the strict pass, so that
 * lists and counts don't double. A value that begins with `--` is given as `--flag=VALUE`.
 */
gboolean lmt_options_parse_argv (LmtOptions *options, const char *const *argv, gboolean strict, char ***operands, GError **error);

/* [section] of a key file (cli.md 8.11): keys = long option names, lists parted by ';'. Values already set from the line stay. */
gboolean lmt_options_parse_key_file (LmtOptions *options, GKeyFile *file, const char *section, const char *path, GError **error);

/**
 * lmt_options_parse_json:
 * @object_text: text of a JSON object; @skip: (nullable): keys the caller reads itself, NULL-terminated
 * @prefix: put in front of each message (`--l2-adapter #1 ('fs')`); `: ` is added unless it ends in a blank
 *
 * Unknown keys, repeated keys, wrong types, values out of range and absent required keys are errors:
 * `PREFIX: KEY: expected X, found Y`, unknown ones with the nearest known key.
 */
gboolean lmt_options_parse_json (LmtOptions *options, const char *object_text, const char *const *skip, const char *prefix,
                                 GError **error);

/* LMT_ERROR_OPTION names the first required option that no line, file or environment set. */
gboolean lmt_options_check_required (const LmtOptions *options, GError **error);
/* `--flag: accepted for LMCache's sake, has no effect here`, once for each such option that was given another value than its
 * default. */
void lmt_options_warn_no_effect (const LmtOptions *options, LmtWarnings *warnings);

/* `--help` of the tables: grouped, 80 columns, with unit, default and range. (transfer full) */
char *lmt_options_help (const LmtOptions *options);
/* What help, man page and completion are made of: `-q, --quiet`, `--[no-]lazy`, `--json[=PATH]`, `--size SIZE`. (transfer full)
 */
char *lmt_option_spelling (const LmtOption *row);
/* The help text with choices, range, default in parentheses. (transfer full) */
char *lmt_option_explanation (const LmtOption *row);
const char *lmt_option_group (const LmtOption *row);
/* Text from @column on, broken at blanks before column 80, further lines indented; ends in a newline. */
void lmt_help_append_wrapped (GString *out, const char *text, guint indent, guint column);

/* -------- values (cli.md 8.6): strict; the error names the accepted form and the range -------- */
gboolean lmt_parse_int (const char *text, gint64 *value, GError **error);
gboolean lmt_parse_uint (const char *text, guint64 *value, GError **error);
gboolean lmt_parse_double (const char *text, double *value, GError **error);
gboolean lmt_parse_size (const char *text, gboolean unit_required, guint64 *bytes, GError **error);
gboolean lmt_parse_duration (const char *text, gint64 *ns, GError **error);
gboolean lmt_parse_count (const char *text, guint64 *value, GError **error);
gboolean lmt_parse_fraction (const char *text, double *value, GError **error);

typedef enum
{
  LMT_TIME_FROM_START_NS,
  LMT_TIME_EPOCH_S,
  LMT_TIME_FRACTION
} LmtTimeKind;
typedef struct
{
  LmtTimeKind kind;
  gint64 ns;       /* FROM_START */
  double epoch_s;  /* EPOCH */
  double fraction; /* FRACTION */
} LmtTimeValue;
gboolean lmt_parse_time (const char *text, LmtTimeValue *value, GError **error);

/* 113246208 -> "113246208 (108.0 MiB)". (transfer full) */
char *lmt_format_size (guint64 bytes);
/* Closest of @words within edit distance 2, or NULL. */
const char *lmt_closest (const char *word, const char *const *words);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LmtOptions, lmt_options_free)

G_END_DECLS
