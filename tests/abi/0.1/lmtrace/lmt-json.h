/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "lmt-error.h"

G_BEGIN_DECLS

/**
 * Exact JSON: integers stay integers (to 2^64-1), members keep their order, repeated members are seen, floats print as the
 * shortest text that reads back (cli.md 1.4), non-ASCII as \uXXXX, NaN and infinity never leave (null instead).
 */
typedef enum
{
  LMT_JSON_NULL,
  LMT_JSON_BOOL,
  LMT_JSON_INT,    /* fits gint64 */
  LMT_JSON_UINT,   /* above G_MAXINT64 */
  LMT_JSON_DOUBLE, /* written with point or exponent, or an integer beyond 2^64-1 */
  LMT_JSON_STRING,
  LMT_JSON_ARRAY,
  LMT_JSON_OBJECT,
} LmtJsonType;

typedef struct _LmtJson LmtJson;

/**
 * lmt_json_parse:
 * Returns: (transfer full): the value; nesting above 128, trailing text, NaN and the like are errors with line and column
 */
LmtJson *lmt_json_parse (const char *text, gssize len, GError **error);
void lmt_json_free (LmtJson *json);
LmtJsonType lmt_json_get_type (const LmtJson *json);
const char *lmt_json_type_name (const LmtJson *json); /* "a string", "an object" … for messages */
gboolean lmt_json_get_bool (const LmtJson *json);
gint64 lmt_json_get_int (const LmtJson *json);
guint64 lmt_json_get_uint (const LmtJson *json);
double lmt_json_get_double (const LmtJson *json); /* of any number */
const char *lmt_json_get_string (const LmtJson *json);
gsize lmt_json_get_string_len (const LmtJson *json);
guint lmt_json_get_length (const LmtJson *json); /* elements or members */
const LmtJson *lmt_json_get_element (const LmtJson *json, guint i);
const char *lmt_json_get_member_name (const LmtJson *json, guint i);
const LmtJson *lmt_json_get_member_value (const LmtJson *json, guint i);
const LmtJson *lmt_json_get_member (const LmtJson *json, const char *name); /* last one of equal names, or NULL */
const char *lmt_json_get_repeated (const LmtJson *json);                    /* a name that stands twice, or NULL */
/* Equal as values: 1 and 1.0 differ, order of members doesn't matter. */
gboolean lmt_json_equal (const LmtJson *a, const LmtJson *b);

typedef enum
{
  LMT_JSON_STYLE_INDENT,  /* two blanks, ",\n" and ": ", final newline: cli.md 1.3 */
  LMT_JSON_STYLE_SPACED,  /* one line, ", " and ": ": JSONL, digests */
  LMT_JSON_STYLE_COMPACT, /* one line, "," and ":" */
} LmtJsonStyle;

/* Text of a parsed value. @sort_keys: by code point at every level. (transfer full) */
char *lmt_json_to_text (const LmtJson *json, LmtJsonStyle style, gboolean sort_keys);

/**
 * LmtJsonWriter: streams one value into a GString. Calls that don't fit the nesting are a caller's mistake.
 */
typedef struct _LmtJsonWriter LmtJsonWriter;
LmtJsonWriter *lmt_json_writer_new (GString *out, LmtJsonStyle style);
void lmt_json_writer_free (LmtJsonWriter *writer); /* appends the final newline of INDENT */
void lmt_json_writer_begin_object (LmtJsonWriter *writer);
void lmt_json_writer_end_object (LmtJsonWriter *writer);
void lmt_json_writer_begin_array (LmtJsonWriter *writer);
void lmt_json_writer_end_array (LmtJsonWriter *writer);
void lmt_json_writer_key (LmtJsonWriter *writer, const char *key);
void lmt_json_writer_null (LmtJsonWriter *writer);
void lmt_json_writer_bool (LmtJsonWriter *writer, gboolean value);
void lmt_json_writer_int (LmtJsonWriter *writer, gint64 value);
void lmt_json_writer_uint (LmtJsonWriter *writer, guint64 value);
void lmt_json_writer_double (LmtJsonWriter *writer, double value);      /* not finite: null */
void lmt_json_writer_string (LmtJsonWriter *writer, const char *value); /* NULL: null; bad UTF-8 as U+FFFD */
/* Member @key with a file's name; if @path is no UTF-8, also member @key_hex with its bytes in hexadecimal (cli.md 8.5). NULL:
 * null. */
void lmt_json_writer_path (LmtJsonWriter *writer, const char *key, const char *path);
void lmt_json_writer_string_len (LmtJsonWriter *writer, const char *value, gsize len);
void lmt_json_writer_value (LmtJsonWriter *writer, const LmtJson *json);

/* `0.2`, `1e-05`, `500.0`: cli.md 1.4. @buffer of 32 bytes. */
const char *lmt_json_format_double (double value, char buffer[32]);
/* Escapes as JSON does, without the quotes. */
void lmt_json_append_escaped (GString *out, const char *text, gsize len);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LmtJson, lmt_json_free)
G_DEFINE_AUTOPTR_CLEANUP_FUNC (LmtJsonWriter, lmt_json_writer_free)

G_END_DECLS
