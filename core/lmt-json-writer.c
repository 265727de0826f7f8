/* SPDX-License-Identifier: Apache-2.0 */
#include "lmt-json.h"

#include <float.h>
#include <math.h>
#include <string.h>

typedef struct
{
  char closing; /* '}' or ']' */
  guint n;      /* values so far */
} JsonLevel;

struct _LmtJsonWriter
{
  GString *out;
  LmtJsonStyle style;
  GArray *levels;
  gboolean key_written; /* a value of an object must follow */
  gboolean done;        /* the one top value is out */
};

/* The digits of the shortest text that reads back, and the exponent of the first one. */
static gsize
json_shortest_digits (double magnitude, char digits[20], int *exponent)
{
  /* 15 digits are given back by every double but those near 0, which hold fewer. */
  char format[8];
  char text[40];

  for (guint decimals = magnitude < DBL_MIN ? 0 : 14; decimals <= 16; decimals++)
    {
      g_snprintf (format, sizeof format, "%%.%ue", decimals);
      g_ascii_formatd (text, sizeof text, format, magnitude);
      if (g_ascii_strtod (text, NULL) == magnitude)
        break;
    }

  char *const e = strchr (text, 'e');
  gsize n = 1;
  digits[0] = text[0];
  for (const char *p = text + 1; p < e; p++)
    if (g_ascii_isdigit (*p))
      digits[n++] = *p;
  while (n > 1 && digits[n - 1] == '0')
    n--;
  *exponent = (int)g_ascii_strtoll (e + 1, NULL, 10);
  return n;
}

const char *
lmt_json_format_double (double value, char buffer[32])
{
  char digits[20];
  int exponent = 0;
  char *p = buffer;

  g_return_val_if_fail (buffer != NULL, NULL);
  if (!isfinite (value))
    return strcpy (buffer, "null");
  if (signbit (value))
    *p++ = '-';
  if (value == 0)
    {
      strcpy (p, "0.0");
      return buffer;
    }

  const gsize n = json_shortest_digits (fabs (value), digits, &exponent);
  if (exponent < -4 || exponent >= 16)
    {
      *p++ = digits[0];
      if (n > 1)
        {
          *p++ = '.';
          memcpy (p, digits + 1, n - 1);
          p += n - 1;
        }
      g_snprintf (p, 6, "e%c%02d", exponent < 0 ? '-' : '+', ABS (exponent));
      return buffer;
    }
  if (exponent < 0)
    {
      *p++ = '0';
      *p++ = '.';
      for (int i = -1; i > exponent; i--)
        *p++ = '0';
      memcpy (p, digits, n);
      p[n] = '\0';
      return buffer;
    }

  const gsize whole = (gsize)exponent + 1;
  for (gsize i = 0; i < whole; i++)
    *p++ = i < n ? digits[i] : '0';
  *p++ = '.';
  if (n > whole)
    {
      memcpy (p, digits + whole, n - whole);
      p += n - whole;
    }
  else
    *p++ = '0';
  *p = '\0';
  return buffer;
}

void
lmt_json_append_escaped (GString *out, const char *text, gsize len)
{
  const char *p = text;
  const char *const end = text + len;

  while (p < end)
    {
      const char *run = p;
      while (p < end && (guchar)*p >= 0x20 && (guchar)*p < 0x7F && *p != '"' && *p != '\\')
        p++;
      g_string_append_len (out, run, p - run);
      if (p >= end)
        return;
      if ((guchar)*p < 0x80)
        {
          static const char plain[] = "\"\\\n\r\t\b\f";
          static const char escape[] = "\"\\nrtbf";
          const char *const hit = *p == '\0' ? NULL : strchr (plain, *p);
          if (hit != NULL)
            g_string_append_printf (out, "\\%c", escape[hit - plain]);
          else
            g_string_append_printf (out, "\\u%04x", (guint)*p);
          p++;
          continue;
        }
      const gunichar c = g_utf8_get_char_validated (p, end - p);
      if (c == (gunichar)-1 || c == (gunichar)-2)
        {
          g_string_append (out, "\\ufffd");
          p++;
        }
      else
        {
          if (c >= 0x10000)
            g_string_append_printf (out, "\\u%04x\\u%04x", 0xD800 + ((c - 0x10000) >> 10), 0xDC00 + ((c - 0x10000) & 0x3FF));
          else
            g_string_append_printf (out, "\\u%04x", c);
          p = g_utf8_next_char (p);
        }
    }
}

LmtJsonWriter *
lmt_json_writer_new (GString *out, LmtJsonStyle style)
{
  g_return_val_if_fail (out != NULL, NULL);

  LmtJsonWriter *const writer = g_new0 (LmtJsonWriter, 1);
  writer->out = out;
  writer->style = style;
  writer->levels = g_array_new (FALSE, FALSE, sizeof (JsonLevel));
  return writer;
}

void
lmt_json_writer_free (LmtJsonWriter *writer)
{
  if (writer == NULL)
    return;
  if (writer->style == LMT_JSON_STYLE_INDENT && writer->done)
    g_string_append_c (writer->out, '\n');
  g_array_free (writer->levels, TRUE);
  g_free (writer);
}

static JsonLevel *
json_writer_top (LmtJsonWriter *writer)
{
  return writer->levels->len == 0 ? NULL : &g_array_index (writer->levels, JsonLevel, writer->levels->len - 1);
}

static void
json_writer_new_line (LmtJsonWriter *writer)
{
  if (writer->style != LMT_JSON_STYLE_INDENT)
    return;
  g_string_append_c (writer->out, '\n');
  for (guint i = 0; i < writer->levels->len; i++)
    g_string_append (writer->out, "  ");
}

static void
json_writer_separate (LmtJsonWriter *writer, JsonLevel *top)
{
  if (top->n > 0)
    g_string_append (writer->out, writer->style == LMT_JSON_STYLE_SPACED ? ", " : ",");
  json_writer_new_line (writer);
}

/* What stands in front of a value; FALSE: none fits here. */
static gboolean
json_writer_before_value (LmtJsonWriter *writer)
{
  JsonLevel *const top = json_writer_top (writer);

  if (top == NULL)
    {
      g_return_val_if_fail (!writer->done, FALSE);
      writer->done = TRUE;
      return TRUE;
    }
  if (top->closing == '}')
    {
      g_return_val_if_fail (writer->key_written, FALSE);
      writer->key_written = FALSE;
    }
  else
    json_writer_separate (writer, top);
  top->n++;
  return TRUE;
}

static void
json_writer_begin (LmtJsonWriter *writer, char opening, char closing)
{
  if (!json_writer_before_value (writer))
    return;
  const JsonLevel level = { .closing = closing };
  g_string_append_c (writer->out, opening);
  g_array_append_val (writer->levels, level);
}

static void
json_writer_end (LmtJsonWriter *writer, char closing)
{
  const JsonLevel *const top = json_writer_top (writer);
  g_return_if_fail (top != NULL && top->closing == closing && !writer->key_written);

  const gboolean empty = top->n == 0;
  g_array_set_size (writer->levels, writer->levels->len - 1);
  if (!empty)
    json_writer_new_line (writer);
  g_string_append_c (writer->out, closing);
}

void
lmt_json_writer_begin_object (LmtJsonWriter *writer)
{
  json_writer_begin (writer, '{', '}');
}

void
lmt_json_writer_end_object (LmtJsonWriter *writer)
{
  json_writer_end (writer, '}');
}

void
lmt_json_writer_begin_array (LmtJsonWriter *writer)
{
  json_writer_begin (writer, '[', ']');
}

void
lmt_json_writer_end_array (LmtJsonWriter *writer)
{
  json_writer_end (writer, ']');
}

void
lmt_json_writer_key (LmtJsonWriter *writer, const char *key)
{
  JsonLevel *const top = json_writer_top (writer);
  g_return_if_fail (key != NULL && top != NULL && top->closing == '}' && !writer->key_written);

  json_writer_separate (writer, top);
  g_string_append_c (writer->out, '"');
  lmt_json_append_escaped (writer->out, key, strlen (key));
  g_string_append (writer->out, writer->style == LMT_JSON_STYLE_COMPACT ? "\":" : "\": ");
  writer->key_written = TRUE;
}

void
lmt_json_writer_null (LmtJsonWriter *writer)
{
  if (json_writer_before_value (writer))
    g_string_append (writer->out, "null");
}

void
lmt_json_writer_bool (LmtJsonWriter *writer, gboolean value)
{
  if (json_writer_before_value (writer))
    g_string_append (writer->out, value ? "true" : "false");
}

void
lmt_json_writer_int (LmtJsonWriter *writer, gint64 value)
{
  if (json_writer_before_value (writer))
    g_string_append_printf (writer->out, "%" G_GINT64_FORMAT, value);
}

void
lmt_json_writer_uint (LmtJsonWriter *writer, guint64 value)
{
  if (json_writer_before_value (writer))
    g_string_append_printf (writer->out, "%" G_GUINT64_FORMAT, value);
}

void
lmt_json_writer_double (LmtJsonWriter *writer, double value)
{
  char buffer[32];
  if (json_writer_before_value (writer))
    g_string_append (writer->out, lmt_json_format_double (value, buffer));
}

void
lmt_json_writer_string (LmtJsonWriter *writer, const char *value)
{
  if (value == NULL)
    lmt_json_writer_null (writer);
  else
    lmt_json_writer_string_len (writer, value, strlen (value));
}

void
lmt_json_writer_string_len (LmtJsonWriter *writer, const char *value, gsize len)
{
  if (!json_writer_before_value (writer))
    return;
  g_string_append_c (writer->out, '"');
  lmt_json_append_escaped (writer->out, value, len);
  g_string_append_c (writer->out, '"');
}

static int
json_compare_members (gconstpointer a, gconstpointer b, gpointer data)
{
  const LmtJson *const json = data;
  return strcmp (lmt_json_get_member_name (json, *(const guint *)a), lmt_json_get_member_name (json, *(const guint *)b));
}

static void
json_write_value (LmtJsonWriter *writer, const LmtJson *json, gboolean sort_keys)
{
  const guint n = lmt_json_get_length (json);

  switch (lmt_json_get_type (json))
    {
    case LMT_JSON_BOOL:
      lmt_json_writer_bool (writer, lmt_json_get_bool (json));
      return;
    case LMT_JSON_INT:
      lmt_json_writer_int (writer, lmt_json_get_int (json));
      return;
    case LMT_JSON_UINT:
      lmt_json_writer_uint (writer, lmt_json_get_uint (json));
      return;
    case LMT_JSON_DOUBLE:
      lmt_json_writer_double (writer, lmt_json_get_double (json));
      return;
    case LMT_JSON_STRING:
      lmt_json_writer_string_len (writer, lmt_json_get_string (json), lmt_json_get_string_len (json));
      return;
    case LMT_JSON_ARRAY:
      lmt_json_writer_begin_array (writer);
      for (guint i = 0; i < n; i++)
        json_write_value (writer, lmt_json_get_element (json, i), sort_keys);
      lmt_json_writer_end_array (writer);
      return;
    case LMT_JSON_OBJECT:
      {
        g_autofree guint *order = g_new (guint, n);
        for (guint i = 0; i < n; i++)
          order[i] = i;
        if (sort_keys && n > 1)
          g_qsort_with_data (order, (int)n, sizeof (guint), json_compare_members, (gpointer)json);
        lmt_json_writer_begin_object (writer);
        for (guint i = 0; i < n; i++)
          {
            lmt_json_writer_key (writer, lmt_json_get_member_name (json, order[i]));
            json_write_value (writer, lmt_json_get_member_value (json, order[i]), sort_keys);
          }
        lmt_json_writer_end_object (writer);
        return;
      }
    case LMT_JSON_NULL:
    default:
      lmt_json_writer_null (writer);
    }
}

void
lmt_json_writer_path (LmtJsonWriter *writer, const char *key, const char *path)
{
  lmt_json_writer_key (writer, key);
  lmt_json_writer_string (writer, path);
  if (path == NULL || g_utf8_validate (path, -1, NULL))
    return;
  g_autofree char *hex_key = g_strdup_printf ("%s_hex", key);
  g_autoptr (GString) hex = g_string_new (NULL);
  for (const char *p = path; *p != '\0'; p++)
    g_string_append_printf (hex, "%02x", (guchar)*p);
  lmt_json_writer_key (writer, hex_key);
  lmt_json_writer_string (writer, hex->str);
}

void
lmt_json_writer_value (LmtJsonWriter *writer, const LmtJson *json)
{
  json_write_value (writer, json, FALSE);
}

char *
lmt_json_to_text (const LmtJson *json, LmtJsonStyle style, gboolean sort_keys)
{
  GString *const out = g_string_new (NULL);
  LmtJsonWriter *const writer = lmt_json_writer_new (out, style);
  json_write_value (writer, json, sort_keys);
  lmt_json_writer_free (writer);
  return g_string_free (out, FALSE);
}
