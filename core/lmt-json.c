/* SPDX-License-Identifier: Apache-2.0 */
#include "lmt-json.h"

#include <errno.h>
#include <math.h>
#include <string.h>

enum
{
  JSON_MAX_DEPTH = 128,
  JSON_LINEAR_NAMES = 16, /* up to here comparing all names is cheaper than a hash table */
};

struct _LmtJson
{
  LmtJsonType type;
  guint n;    /* elements or members */
  guint room; /* for how many there is memory */
  union
  {
    gboolean boolean;
    gint64 integer;
    guint64 natural;
    double real;
    struct
    {
      char *bytes;
      gsize len;
    } text;
    struct
    {
      LmtJson **values;
      char **names; /* NULL in arrays */
    } list;
  } v;
};

typedef struct
{
  const char *start;
  const char *at;
  const char *end;
  guint depth;
} JsonParser;

static gboolean json_parse_value (JsonParser *parser, LmtJson *out, GError **error);

/* Line and column (in code points, both from 1) of @at, in front of @expected. */
static gboolean
json_fail (const JsonParser *parser, const char *at, GError **error, const char *expected)
{
  guint line = 1;
  guint column = 1;
  for (const char *p = parser->start; p < at; p++)
    {
      if (*p == '\n')
        {
          line++;
          column = 1;
        }
      else if (((guchar)*p & 0xC0) != 0x80)
        column++;
    }

  g_autofree char *found = NULL;
  if (at >= parser->end)
    found = g_strdup ("the end");
  else if (g_ascii_isprint (*at))
    found = g_strdup_printf ("'%c'", *at);
  else
    found = g_strdup_printf ("byte 0x%02x", (guchar)*at);
  g_set_error (error, LMT_ERROR, LMT_ERROR_JSON, "line %u column %u: expected %s, found %s", line, column, expected, found);
  return FALSE;
}

static void
json_skip_blanks (JsonParser *parser)
{
  while (parser->at < parser->end && (*parser->at == ' ' || *parser->at == '\t' || *parser->at == '\n' || *parser->at == '\r'))
    parser->at++;
}

static gboolean
json_parse_word (JsonParser *parser, const char *word, GError **error)
{
  const gsize len = strlen (word);
  if ((gsize)(parser->end - parser->at) < len || memcmp (parser->at, word, len) != 0)
    return json_fail (parser, parser->at, error, "a JSON value");
  parser->at += len;
  return TRUE;
}

static gboolean
json_parse_hex4 (JsonParser *parser, gunichar *value, GError **error)
{
  *value = 0;
  for (guint i = 0; i < 4; i++, parser->at++)
    {
      if (parser->at >= parser->end || !g_ascii_isxdigit (*parser->at))
        return json_fail (parser, parser->at, error, "four hex digits after \\u");
      *value = *value << 4 | (gunichar)g_ascii_xdigit_value (*parser->at);
    }
  return TRUE;
}

static gboolean
json_parse_escape (JsonParser *parser, GString *out, GError **error)
{
  static const char from[] = "\"\\/bfnrt";
  static const char to[] = "\"\\/\b\f\n\r\t";

  const char *const start = parser->at++;
  if (parser->at >= parser->end)
    return json_fail (parser, parser->at, error, "an escape");
  if (*parser->at != 'u')
    {
      const char *const hit = memchr (from, *parser->at, sizeof from - 1);
      if (hit == NULL)
        return json_fail (parser, parser->at, error, "one of \"\\/bfnrtu after a backslash");
      g_string_append_c (out, to[hit - from]);
      parser->at++;
      return TRUE;
    }

  gunichar unit = 0;
  parser->at++;
  if (!json_parse_hex4 (parser, &unit, error))
    return FALSE;
  if (unit >= 0xD800 && unit < 0xE000)
    {
      gunichar low = 0;
      if (unit >= 0xDC00 || parser->end - parser->at < 2 || parser->at[0] != '\\' || parser->at[1] != 'u')
        return json_fail (parser, start, error, "a whole surrogate pair");
      parser->at += 2;
      if (!json_parse_hex4 (parser, &low, error))
        return FALSE;
      if (low < 0xDC00 || low >= 0xE000)
        return json_fail (parser, start, error, "a whole surrogate pair");
      unit = 0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00);
    }
  if (unit == 0)
    g_string_append_c (out, '\0');
  else
    g_string_append_unichar (out, unit);
  return TRUE;
}

static gboolean
json_parse_string (JsonParser *parser, char **bytes, gsize *len, GError **error)
{
  GString *out = g_string_new (NULL);

  parser->at++;
  while (TRUE)
    {
      const char *const run = parser->at;
      while (parser->at < parser->end && *parser->at != '"' && *parser->at != '\\' && (guchar)*parser->at >= 0x20)
        parser->at++;
      g_string_append_len (out, run, parser->at - run);
      if (parser->at >= parser->end || (guchar)*parser->at < 0x20)
        {
          g_string_free (out, TRUE);
          json_fail (parser, parser->at, error, "'\"' at the end of a string");
          return FALSE;
        }
      if (*parser->at == '"')
        break;
      if (!json_parse_escape (parser, out, error))
        {
          g_string_free (out, TRUE);
          return FALSE;
        }
    }
  parser->at++;
  *len = out->len;
  *bytes = g_string_free (out, FALSE);
  return TRUE;
}

/* An integer that fits stays one. */
static void
json_set_integer (LmtJson *out, const char *text)
{
  char *end = NULL;
  gint64 integer = 0;
  guint64 natural = 0;

  if (*text == '-')
    {
      /* g_ascii_strtoll saturates: compare by digits is simpler than errno. */
      errno = 0;
      integer = g_ascii_strtoll (text, &end, 10);
      if (errno == 0)
        {
          out->type = LMT_JSON_INT;
          out->v.integer = integer;
          return;
        }
    }
  else
    {
      errno = 0;
      natural = g_ascii_strtoull (text, &end, 10);
      if (errno == 0)
        {
          out->type = natural > G_MAXINT64 ? LMT_JSON_UINT : LMT_JSON_INT;
          if (natural > G_MAXINT64)
            out->v.natural = natural;
          else
            out->v.integer = (gint64)natural;
          return;
        }
    }
  out->type = LMT_JSON_DOUBLE;
  out->v.real = g_ascii_strtod (text, NULL);
}

static gboolean
json_skip_digits (JsonParser *parser, GError **error)
{
  if (parser->at >= parser->end || !g_ascii_isdigit (*parser->at))
    return json_fail (parser, parser->at, error, "a digit");
  while (parser->at < parser->end && g_ascii_isdigit (*parser->at))
    parser->at++;
  return TRUE;
}

static gboolean
json_parse_number (JsonParser *parser, LmtJson *out, GError **error)
{
  const char *const start = parser->at;
  gboolean whole = TRUE;

  if (*parser->at == '-')
    parser->at++;
  const char *const digits = parser->at;
  if (!json_skip_digits (parser, error))
    return FALSE;
  if (*digits == '0' && parser->at - digits > 1)
    return json_fail (parser, digits, error, "a number without leading zeros");
  if (parser->at < parser->end && *parser->at == '.')
    {
      whole = FALSE;
      parser->at++;
      if (!json_skip_digits (parser, error))
        return FALSE;
    }
  if (parser->at < parser->end && (*parser->at == 'e' || *parser->at == 'E'))
    {
      whole = FALSE;
      parser->at++;
      if (parser->at < parser->end && (*parser->at == '+' || *parser->at == '-'))
        parser->at++;
      if (!json_skip_digits (parser, error))
        return FALSE;
    }

  g_autofree char *text = g_strndup (start, (gsize)(parser->at - start));
  if (whole)
    json_set_integer (out, text);
  else
    {
      out->type = LMT_JSON_DOUBLE;
      out->v.real = g_ascii_strtod (text, NULL);
    }
  if (out->type == LMT_JSON_DOUBLE && !isfinite (out->v.real))
    return json_fail (parser, start, error, "a number a double can hold");
  return TRUE;
}

static LmtJson *
json_list_append (LmtJson *list, char *name)
{
  if (list->n == list->room)
    {
      list->room = list->room == 0 ? 4 : list->room * 2;
      list->v.list.values = g_renew (LmtJson *, list->v.list.values, list->room);
      if (list->type == LMT_JSON_OBJECT)
        list->v.list.names = g_renew (char *, list->v.list.names, list->room);
    }
  if (list->type == LMT_JSON_OBJECT)
    list->v.list.names[list->n] = name;
  LmtJson *const value = g_new0 (LmtJson, 1);
  list->v.list.values[list->n++] = value;
  return value;
}

static gboolean
json_parse_member_name (JsonParser *parser, char **name, GError **error)
{
  gsize len = 0;

  json_skip_blanks (parser);
  const char *const start = parser->at;
  if (parser->at >= parser->end || *parser->at != '"')
    return json_fail (parser, parser->at, error, "a member name in double quotes");
  if (!json_parse_string (parser, name, &len, error))
    return FALSE;
  if (strlen (*name) != len)
    {
      g_clear_pointer (name, g_free);
      return json_fail (parser, start, error, "a member name without NUL");
    }
  json_skip_blanks (parser);
  if (parser->at >= parser->end || *parser->at != ':')
    {
      g_clear_pointer (name, g_free);
      return json_fail (parser, parser->at, error, "':'");
    }
  parser->at++;
  return TRUE;
}

static gboolean
json_parse_list (JsonParser *parser, LmtJson *out, char closing, GError **error)
{
  const gboolean object = closing == '}';

  if (++parser->depth > JSON_MAX_DEPTH)
    return json_fail (parser, parser->at, error, "at most 128 levels of nesting");
  out->type = object ? LMT_JSON_OBJECT : LMT_JSON_ARRAY;
  parser->at++;
  json_skip_blanks (parser);
  if (parser->at < parser->end && *parser->at == closing)
    {
      parser->at++;
      parser->depth--;
      return TRUE;
    }
  while (TRUE)
    {
      char *name = NULL;
      if (object && !json_parse_member_name (parser, &name, error))
        return FALSE;
      if (!json_parse_value (parser, json_list_append (out, name), error))
        return FALSE;
      json_skip_blanks (parser);
      if (parser->at < parser->end && *parser->at == closing)
        break;
      if (parser->at >= parser->end || *parser->at != ',')
        return json_fail (parser, parser->at, error, object ? "',' or '}'" : "',' or ']'");
      parser->at++;
    }
  parser->at++;
  parser->depth--;
  return TRUE;
}

static gboolean
json_parse_value (JsonParser *parser, LmtJson *out, GError **error)
{
  json_skip_blanks (parser);
  if (parser->at >= parser->end)
    return json_fail (parser, parser->at, error, "a JSON value");
  switch (*parser->at)
    {
    case '{':
      return json_parse_list (parser, out, '}', error);
    case '[':
      return json_parse_list (parser, out, ']', error);
    case '"':
      {
        char *bytes = NULL;
        gsize len = 0;
        if (!json_parse_string (parser, &bytes, &len, error))
          return FALSE;
        out->type = LMT_JSON_STRING;
        out->v.text.bytes = bytes;
        out->v.text.len = len;
        return TRUE;
      }
    case 't':
    case 'f':
      {
        const gboolean value = *parser->at == 't';
        if (!json_parse_word (parser, value ? "true" : "false", error))
          return FALSE;
        out->type = LMT_JSON_BOOL;
        out->v.boolean = value;
        return TRUE;
      }
    case 'n':
      out->type = LMT_JSON_NULL;
      return json_parse_word (parser, "null", error);
    default:
      if (*parser->at == '-' || g_ascii_isdigit (*parser->at))
        return json_parse_number (parser, out, error);
      return json_fail (parser, parser->at, error, "a JSON value");
    }
}

LmtJson *
lmt_json_parse (const char *text, gssize len, GError **error)
{
  g_return_val_if_fail (text != NULL, NULL);

  const gsize size = len < 0 ? strlen (text) : (gsize)len;
  JsonParser parser = { .start = text, .at = text, .end = text + size };
  const char *bad = NULL;
  /* g_utf8_validate_len() stops at a NUL, which is no JSON either. */
  if (!g_utf8_validate_len (text, size, &bad))
    {
      json_fail (&parser, bad, error, "UTF-8 text");
      return NULL;
    }

  g_autoptr (LmtJson) json = g_new0 (LmtJson, 1);
  if (!json_parse_value (&parser, json, error))
    return NULL;
  json_skip_blanks (&parser);
  if (parser.at < parser.end)
    {
      json_fail (&parser, parser.at, error, "nothing after the value");
      return NULL;
    }
  return g_steal_pointer (&json);
}

void
lmt_json_free (LmtJson *json)
{
  if (json == NULL)
    return;
  if (json->type == LMT_JSON_STRING)
    g_free (json->v.text.bytes);
  else if (json->type == LMT_JSON_ARRAY || json->type == LMT_JSON_OBJECT)
    {
      for (guint i = 0; i < json->n; i++)
        {
          lmt_json_free (json->v.list.values[i]);
          if (json->type == LMT_JSON_OBJECT)
            g_free (json->v.list.names[i]);
        }
      g_free (json->v.list.values);
      g_free (json->v.list.names);
    }
  g_free (json);
}

LmtJsonType
lmt_json_get_type (const LmtJson *json)
{
  return json == NULL ? LMT_JSON_NULL : json->type;
}

const char *
lmt_json_type_name (const LmtJson *json)
{
  switch (lmt_json_get_type (json))
    {
    case LMT_JSON_BOOL:
      return "a boolean";
    case LMT_JSON_INT:
    case LMT_JSON_UINT:
      return "an integer";
    case LMT_JSON_DOUBLE:
      return "a number";
    case LMT_JSON_STRING:
      return "a string";
    case LMT_JSON_ARRAY:
      return "an array";
    case LMT_JSON_OBJECT:
      return "an object";
    case LMT_JSON_NULL:
    default:
      return "null";
    }
}

gboolean
lmt_json_get_bool (const LmtJson *json)
{
  g_return_val_if_fail (lmt_json_get_type (json) == LMT_JSON_BOOL, FALSE);
  return json->v.boolean;
}

gint64
lmt_json_get_int (const LmtJson *json)
{
  g_return_val_if_fail (lmt_json_get_type (json) == LMT_JSON_INT, 0);
  return json->v.integer;
}

guint64
lmt_json_get_uint (const LmtJson *json)
{
  if (lmt_json_get_type (json) == LMT_JSON_UINT)
    return json->v.natural;
  g_return_val_if_fail (lmt_json_get_type (json) == LMT_JSON_INT && json->v.integer >= 0, 0);
  return (guint64)json->v.integer;
}

double
lmt_json_get_double (const LmtJson *json)
{
  switch (lmt_json_get_type (json))
    {
    case LMT_JSON_INT:
      return (double)json->v.integer;
    case LMT_JSON_UINT:
      return (double)json->v.natural;
    case LMT_JSON_DOUBLE:
      return json->v.real;
    default:
      g_return_val_if_reached (0.0);
    }
}

const char *
lmt_json_get_string (const LmtJson *json)
{
  g_return_val_if_fail (lmt_json_get_type (json) == LMT_JSON_STRING, NULL);
  return json->v.text.bytes;
}

gsize
lmt_json_get_string_len (const LmtJson *json)
{
  g_return_val_if_fail (lmt_json_get_type (json) == LMT_JSON_STRING, 0);
  return json->v.text.len;
}

guint
lmt_json_get_length (const LmtJson *json)
{
  const LmtJsonType type = lmt_json_get_type (json);
  return type == LMT_JSON_ARRAY || type == LMT_JSON_OBJECT ? json->n : 0;
}

const LmtJson *
lmt_json_get_element (const LmtJson *json, guint i)
{
  g_return_val_if_fail (lmt_json_get_type (json) == LMT_JSON_ARRAY && i < json->n, NULL);
  return json->v.list.values[i];
}

const char *
lmt_json_get_member_name (const LmtJson *json, guint i)
{
  g_return_val_if_fail (lmt_json_get_type (json) == LMT_JSON_OBJECT && i < json->n, NULL);
  return json->v.list.names[i];
}

const LmtJson *
lmt_json_get_member_value (const LmtJson *json, guint i)
{
  g_return_val_if_fail (lmt_json_get_type (json) == LMT_JSON_OBJECT && i < json->n, NULL);
  return json->v.list.values[i];
}

const LmtJson *
lmt_json_get_member (const LmtJson *json, const char *name)
{
  if (lmt_json_get_type (json) != LMT_JSON_OBJECT)
    return NULL;
  for (guint i = json->n; i > 0; i--)
    if (strcmp (json->v.list.names[i - 1], name) == 0)
      return json->v.list.values[i - 1];
  return NULL;
}

static const char *
json_own_repeated (const LmtJson *json)
{
  if (json->n <= JSON_LINEAR_NAMES)
    {
      for (guint i = 1; i < json->n; i++)
        for (guint k = 0; k < i; k++)
          if (strcmp (json->v.list.names[i], json->v.list.names[k]) == 0)
            return json->v.list.names[i];
      return NULL;
    }
  g_autoptr (GHashTable) seen = g_hash_table_new (g_str_hash, g_str_equal);
  for (guint i = 0; i < json->n; i++)
    if (!g_hash_table_add (seen, json->v.list.names[i]))
      return json->v.list.names[i];
  return NULL;
}

const char *
lmt_json_get_repeated (const LmtJson *json)
{
  const LmtJsonType type = lmt_json_get_type (json);
  const char *name = NULL;

  if (type != LMT_JSON_ARRAY && type != LMT_JSON_OBJECT)
    return NULL;
  if (type == LMT_JSON_OBJECT)
    name = json_own_repeated (json);
  for (guint i = 0; name == NULL && i < json->n; i++)
    name = lmt_json_get_repeated (json->v.list.values[i]);
  return name;
}

gboolean
lmt_json_equal (const LmtJson *a, const LmtJson *b)
{
  const LmtJsonType type = lmt_json_get_type (a);
  if (type != lmt_json_get_type (b))
    return FALSE;
  switch (type)
    {
    case LMT_JSON_BOOL:
      return a->v.boolean == b->v.boolean;
    case LMT_JSON_INT:
      return a->v.integer == b->v.integer;
    case LMT_JSON_UINT:
      return a->v.natural == b->v.natural;
    case LMT_JSON_DOUBLE:
      return a->v.real == b->v.real;
    case LMT_JSON_STRING:
      return a->v.text.len == b->v.text.len && memcmp (a->v.text.bytes, b->v.text.bytes, a->v.text.len) == 0;
    case LMT_JSON_ARRAY:
      if (a->n != b->n)
        return FALSE;
      for (guint i = 0; i < a->n; i++)
        if (!lmt_json_equal (a->v.list.values[i], b->v.list.values[i]))
          return FALSE;
      return TRUE;
    case LMT_JSON_OBJECT:
      if (a->n != b->n)
        return FALSE;
      for (guint i = 0; i < a->n; i++)
        {
          const char *const name = a->v.list.names[i];
          const gboolean same_place = strcmp (name, b->v.list.names[i]) == 0;
          const LmtJson *const other = same_place ? b->v.list.values[i] : lmt_json_get_member (b, name);
          if (other == NULL || !lmt_json_equal (a->v.list.values[i], other))
            return FALSE;
        }
      return TRUE;
    case LMT_JSON_NULL:
    default:
      return TRUE;
    }
}
