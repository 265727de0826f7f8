/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "lmt-error.h"

G_BEGIN_DECLS

/**
 * SECTION: exact JSON: integers stay integers (to 2^64-1), members keep their order, repeated members are seen, floats print as
 * the shortest text that reads back (`1.0`, `0.1`, `1e+16`: as Python's json and LMCache's reports have them), non-ASCII as
 * \uXXXX, NaN and infinity never leave (null instead).
 *
 * Threads: a parsed value is never changed, so any number may read it; a writer belongs to one. Lifetime: everything a get
 * returns is borrowed and lives until lmt_json_free() of the root. Asking a value for what it is not (get_int of a string, an
 * element beyond the end) is a caller's mistake and answers 0, "" or NULL: look at lmt_json_get_type() first. Errors: LMT_ERROR,
 * LMT_ERROR_JSON. Source: RFC 8259; text forms of floats and escapes: Python 3's json.dumps.
 *
 * Since: 0.1
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
 * @text: UTF-8; needs no NUL at its end if @len is given
 * @len: bytes, or -1: up to the NUL
 *
 * Returns: (transfer full): the value, independent of @text; NULL: LMT_ERROR_JSON `line L column C: …`. Nesting above 128,
 * trailing text, bytes that are no UTF-8, NaN and the like are errors. Memory is a small multiple of @len, whatever the text
 * says.
 *
 * Since: 0.1
 */
LmtJson *lmt_json_parse (const char *text, gssize len, GError **error);
void lmt_json_free (LmtJson *json);
LmtJsonType lmt_json_get_type (const LmtJson *json);
const char *lmt_json_type_name (const LmtJson *json); /* "a string", "an object" … for messages */
/* Of the type asked for; see above for others. */
gboolean lmt_json_get_bool (const LmtJson *json);
gint64 lmt_json_get_int (const LmtJson *json);
guint64 lmt_json_get_uint (const LmtJson *json);
double lmt_json_get_double (const LmtJson *json); /* of any number */
/* Decoded UTF-8 with a NUL behind it. It may hold others (\u0000): the length tells. */
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
 * LmtJsonWriter: streams one value into a GString. Calls that don't fit the nesting (a value without a key in an object, an end
 * too many) are a caller's mistake. @out stays the caller's, outlives the writer, and is complete once the writer is freed. A
 * writer that was handed to you (LmtInfoOut.json) is inside an object: write keys and values, close what you opened.
 *
 * Since: 0.1
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
