// SPDX-License-Identifier: Apache-2.0
#include "cli-info.h"

#include <string.h>

enum
{
  VALUE_WIDTH = 28, /* of a label with its colon (cli.md 2) */
};

/* -------- values as LMCache (Python) shows them -------- */

/* A str in quotes, as Python's repr() writes it: single quotes unless the text has some and no double ones. */
static void
append_quoted (GString *out, const char *text, gsize len)
{
  char quote = memchr (text, '\'', len) != NULL && memchr (text, '"', len) == NULL ? '"' : '\'';
  const char *end = text + len;

  g_string_append_c (out, quote);
  while (text < end)
    {
      gunichar c = g_utf8_get_char (text);
      const char *next = g_utf8_next_char (text);

      if (c == '\\' || c == (gunichar)quote)
        g_string_append_printf (out, "\\%c", (char)c);
      else if (c == '\n' || c == '\r' || c == '\t')
        g_string_append (out, c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t");
      else if (c < 0x20 || c == 0x7f)
        g_string_append_printf (out, "\\x%02x", c);
      else if (c >= 0x80 && c != 0xad && g_unichar_isprint (c) && !g_unichar_isspace (c))
        g_string_append_len (out, text, next - text);
      else if (c >= 0x80)
        g_string_append_printf (out, c < 0x100 ? "\\x%02x" : c < 0x10000 ? "\\u%04x" : "\\U%08x", c);
      else
        g_string_append_c (out, (char)c);
      text = next;
    }
  g_string_append_c (out, quote);
}

static void
append_bytes (GString *out, LmtSpan bytes)
{
  char quote = memchr (bytes.data, '\'', bytes.len) != NULL && memchr (bytes.data, '"', bytes.len) == NULL ? '"' : '\'';

  g_string_append_printf (out, "b%c", quote);
  for (gsize i = 0; i < bytes.len; i++)
    {
      char c = (char)bytes.data[i];

      if (c == '\\' || c == quote)
        g_string_append_printf (out, "\\%c", c);
      else if (c == '\n' || c == '\r' || c == '\t')
        g_string_append (out, c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t");
      else if (bytes.data[i] < 0x20 || bytes.data[i] >= 0x7f)
        g_string_append_printf (out, "\\x%02x", bytes.data[i]);
      else
        g_string_append_c (out, c);
    }
  g_string_append_c (out, quote);
}

static void
append_float (GString *out, double value)
{
  char buffer[32];

  if (value != value)
    g_string_append (out, "nan");
  else if (value - value != 0)
    g_string_append (out, value > 0 ? "inf" : "-inf");
  else
    g_string_append (out, lmt_json_format_double (value, buffer));
}

static void
append_scalar (GString *out, const LmtToken *token, gboolean bare)
{
  switch (token->type)
    {
    case LMT_TYPE_BOOL:
      g_string_append (out, token->v.b ? "True" : "False");
      break;
    case LMT_TYPE_UINT:
      g_string_append_printf (out, "%" G_GUINT64_FORMAT, token->v.u);
      break;
    case LMT_TYPE_INT:
      g_string_append_printf (out, "%" G_GINT64_FORMAT, token->v.i);
      break;
    case LMT_TYPE_FLOAT:
      append_float (out, token->v.f);
      break;
    case LMT_TYPE_STR:
      if (bare)
        g_string_append_len (out, (const char *)token->span.data, (gssize)token->span.len);
      else
        append_quoted (out, (const char *)token->span.data, token->span.len);
      break;
    case LMT_TYPE_BIN:
      append_bytes (out, token->span);
      break;
    case LMT_TYPE_EXT:
      g_string_append_printf (out, "Ext(%d, ", token->ext_type);
      append_bytes (out, token->span);
      g_string_append_c (out, ')');
      break;
    default:
      g_string_append (out, "None");
      break;
    }
}

/* Behind a value: close what is full, and part it from the next. */
typedef struct
{
  guint64 left; /* values, keys of maps among them */
  gboolean map;
} Nest;

static guint
close_full (GString *out, Nest *stack, guint depth)
{
  while (depth > 0 && stack[depth - 1].left == 0)
    {
      g_string_append_c (out, stack[--depth].map ? '}' : ']');
      if (depth > 0)
        stack[depth - 1].left--;
    }
  if (depth > 0)
    g_string_append (out, stack[depth - 1].map && stack[depth - 1].left % 2 == 1 ? ": " : ", ");
  return depth;
}

void
info_text_value (GString *out, LmtSpan value)
{
  Nest stack[LMT_CURSOR_MAX_DEPTH];
  guint depth = 0;
  LmtCursor cursor;
  LmtToken token;

  lmt_cursor_init (&cursor, value);
  do
    {
      LmtType type = lmt_cursor_next (&cursor, &token);

      if (type == LMT_TYPE_NONE || type == LMT_TYPE_ERROR || depth == LMT_CURSOR_MAX_DEPTH)
        return;
      if (type == LMT_TYPE_ARRAY || type == LMT_TYPE_MAP)
        {
          g_string_append_c (out, type == LMT_TYPE_MAP ? '{' : '[');
          stack[depth].map = type == LMT_TYPE_MAP;
          stack[depth++].left = (guint64)token.count * (type == LMT_TYPE_MAP ? 2 : 1);
          if (token.count > 0)
            continue;
        }
      else
        {
          append_scalar (out, &token, depth == 0);
          if (depth > 0)
            stack[depth - 1].left--;
        }
      depth = close_full (out, stack, depth);
    }
  while (depth > 0);
}

/* -------- the block -------- */

void
info_text_field (GString *out, guint indent, const char *label, const char *value)
{
  guint width = lmt_text_width (label) + 1;

  g_string_append_printf (out, "%*s%s:%*s%s\n", (int)indent, "", label, width < VALUE_WIDTH ? (int)(VALUE_WIDTH - width) : 0, "",
                          value);
}

typedef struct
{
  char *key;
  LmtSpan value;
  guint32 place;
} MetaLine;

static int
compare_meta (gconstpointer a, gconstpointer b)
{
  const MetaLine *x = a;
  const MetaLine *y = b;
  int order = strcmp (x->key, y->key);

  return order != 0 ? order : x->place < y->place ? -1 : 1;
}

static void
clear_meta (gpointer data)
{
  g_free (((MetaLine *)data)->key);
}

/* One line per key, sorted; of equal keys the last one counts. */
static void
append_meta (GString *out, LmtSpan meta)
{
  g_autoptr (GArray) lines = g_array_new (FALSE, FALSE, sizeof (MetaLine));
  LmtCursor cursor;
  guint32 pairs = 0;

  g_array_set_clear_func (lines, clear_meta);
  if (meta.len > 0)
    {
      lmt_cursor_init (&cursor, meta);
      lmt_cursor_read_map (&cursor, &pairs);
    }
  for (guint32 i = 0; i < pairs; i++)
    {
      g_autoptr (GString) key = g_string_new (NULL);
      LmtSpan name;
      MetaLine line;

      if (!lmt_cursor_skip_span (&cursor, &name) || !lmt_cursor_skip_span (&cursor, &line.value))
        return;
      info_text_value (key, name);
      line.key = g_strdup (key->str);
      line.place = i;
      g_array_append_val (lines, line);
    }
  g_array_sort (lines, compare_meta);
  for (guint i = 0; i < lines->len; i++)
    {
      g_autoptr (GString) value = NULL;
      const MetaLine *line = &g_array_index (lines, MetaLine, i);

      if (i + 1 < lines->len && strcmp (line->key, line[1].key) == 0)
        continue;
      value = g_string_new (NULL);
      info_text_value (value, line->value);
      info_text_field (out, 2, line->key, value->str);
    }
}

static void
append_number (GString *out, const char *label, guint64 value)
{
  char text[24];

  g_snprintf (text, sizeof text, "%" G_GUINT64_FORMAT, value);
  info_text_field (out, 2, label, text);
}

static void
append_ops (GString *out, const InfoOps *ops)
{
  if (ops->n == 0)
    {
      g_string_append (out, "  ops: (none)\n");
      return;
    }
  g_string_append (out, "  ops:\n");
  for (guint i = 0; i < ops->n; i++)
    {
      g_string_append (out, "    ");
      g_string_append_len (out, ops->ops[i].name, (gssize)ops->ops[i].len);
      g_string_append_printf (out, ": %" G_GUINT64_FORMAT "\n", ops->ops[i].count);
    }
  if (ops->others > 0)
    g_string_append_printf (out, "    (further qualnames): %" G_GUINT64_FORMAT "\n", ops->others);
}

void
info_text_block (GString *out, const InfoFile *file)
{
  const LmtHeader *header = file->header;
  const char *digest = lmt_header_get_config_digest (header);
  char *duration = g_strdup_printf ("%.3fs", file->stats->duration_s);
  gint64 schema;

  g_string_append_printf (out, "Trace file: %s\n", file->shown);
  info_text_field (out, 2, "level", lmt_header_get_level (header));
  append_number (out, "format_version", (guint64)lmt_header_get_format_version (header));
  if (lmt_header_get_schema (header, &schema))
    {
      char text[24];

      g_snprintf (text, sizeof text, "%" G_GINT64_FORMAT, schema);
      info_text_field (out, 2, "trace_schema_version", text);
    }
  else
    info_text_field (out, 2, "trace_schema_version", "unknown");
  info_text_field (out, 2, "duration", duration);
  info_text_field (out, 2, "sm_config_digest", digest[0] != '\0' ? digest : "(none)");
  append_meta (out, lmt_header_get_level_meta (header));
  append_number (out, "total_records", file->records);
  if (file->selected)
    append_number (out, "left_out", file->left_out);
  append_ops (out, file->ops);
  g_string_append (out, file->level_text);
  g_string_append (out, file->stats_text);
  g_free (duration);
}

void
info_text_header (GString *out, const char *shown, const LmtHeader *header)
{
  LmtCursor cursor;
  guint32 pairs = 0;

  g_string_append_printf (out, "Trace file: %s\n", shown);
  lmt_cursor_init (&cursor, lmt_header_get_body (header));
  lmt_cursor_read_map (&cursor, &pairs);
  for (guint32 i = 0; i < pairs; i++)
    {
      g_autoptr (GString) label = g_string_new (NULL);
      g_autoptr (GString) text = g_string_new (NULL);
      LmtSpan key, value;

      if (!lmt_cursor_skip_span (&cursor, &key) || !lmt_cursor_skip_span (&cursor, &value))
        return;
      info_text_value (label, key);
      info_text_value (text, value);
      info_text_field (out, 2, label->str, text->str);
    }
}

void
info_text_record (GString *out, const LmtRecord *record)
{
  g_string_append_printf (out, "%" G_GUINT64_FORMAT " %" G_GUINT64_FORMAT " ", record->number, record->offset);
  append_float (out, record->t_mono);
  g_string_append_c (out, ' ');
  g_string_append_len (out, (const char *)record->qualname.data, (gssize)record->qualname.len);
  g_string_append_c (out, ' ');
  lmt_value_to_json (record->args, out);
  g_string_append_c (out, '\n');
}
