// SPDX-License-Identifier: Apache-2.0
/* JSON texts of replies and problems, and what comes in beside the body. Compact, UTF-8 as it is, like the reference's. */
#include "coord.h"

#include <math.h>
#include <stdlib.h>

enum
{
  PROBLEMS_KEPT = 100,
  INPUT_SHOWN = 1024, /* bytes of a problem's input (C6) */
};

void
coord_text_string (GString *out, LmtSpan text)
{
  static const char hex[] = "0123456789abcdef";
  gsize from = 0;

  g_string_append_c (out, '"');
  for (gsize i = 0; i < text.len; i++)
    {
      guint8 c = text.data[i];
      if (c >= 0x20 && c != '"' && c != '\\')
        continue;
      if (i > from)
        g_string_append_len (out, (const char *)text.data + from, (gssize)(i - from));
      from = i + 1;
      g_string_append_c (out, '\\');
      switch (c)
        {
        case '"':
        case '\\':
          g_string_append_c (out, (char)c);
          break;
        case '\n':
          g_string_append_c (out, 'n');
          break;
        case '\r':
          g_string_append_c (out, 'r');
          break;
        case '\t':
          g_string_append_c (out, 't');
          break;
        case '\b':
          g_string_append_c (out, 'b');
          break;
        case '\f':
          g_string_append_c (out, 'f');
          break;
        default:
          g_string_append (out, "u00");
          g_string_append_c (out, hex[c >> 4]);
          g_string_append_c (out, hex[c & 15]);
        }
    }
  if (text.len > from)
    g_string_append_len (out, (const char *)text.data + from, (gssize)(text.len - from));
  g_string_append_c (out, '"');
}

void
coord_text_cstring (GString *out, const char *text)
{
  coord_text_string (out, coord_span_of_text (text));
}

void
coord_text_int (GString *out, gint64 value)
{
  char digits[24];
  char *at = digits + sizeof digits;
  guint64 rest = value < 0 ? 0 - (guint64)value : (guint64)value;

  do
    *--at = (char)('0' + rest % 10);
  while ((rest /= 10) != 0);
  if (value < 0)
    *--at = '-';
  g_string_append_len (out, at, digits + sizeof digits - at);
}

/* The reference's replies have 1e-8 where its language writes 1e-08, 1e16 for 1e+16, and 0.00001 for 1e-05. */
void
coord_text_double (GString *out, double value)
{
  char buffer[32];
  const char *text = isfinite (value) ? lmt_json_format_double (value, buffer) : "null";
  const char *e = strchr (text, 'e');

  if (e == NULL)
    {
      g_string_append (out, text);
      return;
    }
  const int exponent = atoi (e + 1);
  if (exponent != -5)
    {
      g_string_append_len (out, text, e - text);
      g_string_append_printf (out, "e%d", exponent);
      return;
    }
  g_string_append (out, value < 0 ? "-0.0000" : "0.0000");
  for (; text < e; text++)
    if (g_ascii_isdigit (*text))
      g_string_append_c (out, *text);
}

void
coord_text_hex (GString *out, LmtSpan bytes)
{
  static const char hex[] = "0123456789abcdef";
  gsize at = out->len + 1;

  g_string_set_size (out, out->len + 2 * bytes.len + 2);
  out->str[at - 1] = '"';
  for (gsize i = 0; i < bytes.len; i++)
    {
      out->str[at++] = hex[bytes.data[i] >> 4];
      out->str[at++] = hex[bytes.data[i] & 15];
    }
  out->str[at] = '"';
}

void
coord_text_key (GString *out, const EventsKey *key, gboolean as_sent)
{
  g_string_append (out, "{\"chunk_hash_hex\":");
  if (as_sent)
    coord_text_string (out, key->hash_text);
  else
    coord_text_hex (out, key->hash);
  g_string_append (out, ",\"model_name\":");
  coord_text_string (out, key->model);
  g_string_append (out, ",\"kv_rank\":");
  coord_text_int (out, key->kv_rank);
  g_string_append (out, ",\"object_group_id\":");
  coord_text_int (out, key->group);
  g_string_append (out, ",\"cache_salt\":");
  coord_text_string (out, key->salt);
  g_string_append_c (out, '}');
}

void
coord_text_repr (GString *out, LmtSpan text)
{
  char quote = memchr (text.data, '\'', text.len) != NULL && memchr (text.data, '"', text.len) == NULL ? '"' : '\'';

  g_string_append_c (out, quote);
  for (gsize i = 0; i < text.len; i++)
    {
      guint8 c = text.data[i];
      if (c == '\\' || c == (guint8)quote)
        g_string_append_printf (out, "\\%c", c);
      else if (c == '\n' || c == '\r' || c == '\t')
        g_string_append_printf (out, "\\%c", c == '\n' ? 'n' : c == '\r' ? 'r' : 't');
      else if (c < 0x20 || c == 0x7f)
        g_string_append_printf (out, "\\x%02x", c);
      else
        g_string_append_c (out, (char)c);
    }
  g_string_append_c (out, quote);
}

char *
coord_span_show (LmtSpan span)
{
  g_autofree char *valid = g_utf8_make_valid ((const char *)span.data, (gssize)MIN (span.len, 128));
  GString *out = g_string_new (NULL);

  for (const char *p = valid; *p != '\0'; p = g_utf8_next_char (p))
    {
      gunichar c = g_utf8_get_char (p);
      if (c < 0x20 || (c >= 0x7f && c < 0xa0))
        g_string_append_printf (out, "\\x%02x", c);
      else
        g_string_append_unichar (out, c);
    }
  if (span.len > 128)
    g_string_append (out, "…");
  return g_string_free (out, FALSE);
}

/* -------- replies -------- */

void
coord_reply (CoordRequest *request, guint status)
{
  request->status = status;
  request->type = "application/json";
}

void
coord_reply_detail (CoordRequest *request, guint status, const char *format, ...)
{
  g_autofree char *text = NULL;
  va_list args;

  va_start (args, format);
  text = g_strdup_vprintf (format, args);
  va_end (args);
  g_string_assign (request->out, "{\"detail\":");
  coord_text_cstring (request->out, text);
  g_string_append_c (request->out, '}');
  coord_reply (request, status);
}

void
coord_reply_full (CoordRequest *request, const char *what, guint64 limit)
{
  coord_reply_detail (request, 507, "the table of %s is full (limit=%" G_GUINT64_FORMAT ")", what, limit);
}

void
coord_reply_problems (CoordRequest *request, EventsProblems *problems)
{
  GString *out = request->out;

  g_string_assign (out, "{\"detail\":[");
  for (guint i = 0; i < problems->items->len; i++)
    {
      const EventsProblem *problem = &g_array_index (problems->items, EventsProblem, i);
      g_string_append (out, i > 0 ? ",{\"type\":" : "{\"type\":");
      coord_text_cstring (out, problem->type);
      g_string_append_printf (out, ",\"loc\":%s,\"msg\":", problem->loc != NULL ? problem->loc : "[]");
      coord_text_cstring (out, problem->msg != NULL ? problem->msg : "");
      g_string_append (out, ",\"input\":");
      g_string_append (out, problem->input != NULL ? problem->input : "null");
      if (problem->ctx != NULL)
        {
          g_string_append (out, ",\"ctx\":");
          g_string_append (out, problem->ctx);
        }
      g_string_append_c (out, '}');
    }
  g_string_append (out, "]}");
  coord_reply (request, 422);
  events_problems_clear (problems);
}

void
coord_problem (EventsProblems *problems, const char *type, const char *loc, const char *input, const char *ctx,
               const char *format, ...)
{
  g_autofree char *msg = NULL;
  va_list args;

  va_start (args, format);
  msg = g_strdup_vprintf (format, args);
  va_end (args);
  events_problems_add (problems, type, loc, msg, input, ctx);
}

/* -------- bodies -------- */

/* `application/json`, `application/anything+json`, with or without parameters. */
static gboolean
is_json_type (const char *type)
{
  gsize len;

  if (type == NULL || g_ascii_strncasecmp (type, "application/", 12) != 0)
    return FALSE;
  type += 12;
  len = strcspn (type, "; \t");
  return (len == 4 && g_ascii_strncasecmp (type, "json", 4) == 0)
         || (len > 5 && g_ascii_strncasecmp (type + len - 5, "+json", 5) == 0);
}

gboolean
coord_body_check (Coord *coord, CoordRequest *request)
{
  EventsProblems problems;

  if (request->body_len == 0 || is_json_type (request->content_type))
    return TRUE;
  events_problems_init (&problems, PROBLEMS_KEPT);
  events_body_is_no_json (request->body, request->body_len, &problems);
  coord_reply_problems (request, &problems);
  return FALSE;
}

gboolean
coord_body_result (Coord *coord, CoordRequest *request, EventsBodyResult result, EventsProblems *problems)
{
  switch (result)
    {
    case EVENTS_BODY_OK:
      return TRUE;
    case EVENTS_BODY_INVALID:
      coord_reply_problems (request, problems);
      return FALSE;
    case EVENTS_BODY_TOO_BIG:
      events_problems_clear (problems);
      coord_reply_detail (request, 413, "the request needs more memory than one may have");
      return FALSE;
    case EVENTS_BODY_BROKEN:
    default:
      events_problems_clear (problems);
      coord_reply_detail (request, 400, "There was an error parsing the body");
      return FALSE;
    }
}

gboolean
coord_body_fields (Coord *coord, CoordRequest *request, const EventsField *fields, guint n_fields, gpointer values,
                   EventsProblems *problems)
{
  if (!coord_body_check (coord, request))
    return FALSE;
  events_problems_init (problems, PROBLEMS_KEPT);
  return coord_body_result (
      coord, request,
      events_object_from_body (request->body, request->body_len, fields, n_fields, values, coord->arena, problems), problems);
}

static const char *const tiers[] = { "l1", "l2", "all" };

static const char *
tier_word (LmtSpan text)
{
  for (guint i = 0; i < G_N_ELEMENTS (tiers); i++)
    if (lmt_span_equal_str (text, tiers[i], strlen (tiers[i])))
      return tiers[i];
  return NULL;
}

static void
tier_problem (EventsProblems *problems, const char *loc, const char *input)
{
  coord_problem (problems, "enum", loc, input, "{\"expected\":\"'l1', 'l2' or 'all'\"}", "Input should be 'l1', 'l2' or 'all'");
}

gboolean
coord_take_tier (Coord *coord, LmtSpan raw, const char *loc, EventsProblems *problems, const char **word)
{
  EventsJson json;
  EventsScalar value;
  const char *found;
  g_autofree char *input = NULL;

  events_json_init (&json, (const char *)raw.data, raw.len, coord->arena, 0);
  if (events_json_next (&json, &value) == EVENTS_STRING && (found = tier_word (value.text)) != NULL)
    {
      *word = found;
      return TRUE;
    }
  input = raw.len <= INPUT_SHOWN ? g_strndup ((const char *)raw.data, raw.len) : g_strdup ("\"…\"");
  tier_problem (problems, loc, input);
  return FALSE;
}

/* -------- the query -------- */

typedef struct
{
  char *name;
  char *value;
  gsize len; /* of the value: it may hold a NUL */
} CoordQueryPair;

static void
pair_clear (gpointer data)
{
  CoordQueryPair *pair = data;
  g_free (pair->name);
  g_free (pair->value);
}

/* %XX and + undone, bytes that are no UTF-8 replaced. */
static char *
query_decode (const char *text, gsize len, gsize *out_len)
{
  GString *bytes = g_string_sized_new (len);
  GString *valid = g_string_sized_new (len);
  const char *p, *end;

  for (gsize i = 0; i < len; i++)
    if (text[i] == '%' && i + 2 < len && g_ascii_isxdigit (text[i + 1]) && g_ascii_isxdigit (text[i + 2]))
      {
        g_string_append_c (bytes, (char)(g_ascii_xdigit_value (text[i + 1]) * 16 + g_ascii_xdigit_value (text[i + 2])));
        i += 2;
      }
    else
      g_string_append_c (bytes, text[i] == '+' ? ' ' : text[i]);
  p = bytes->str;
  end = p + bytes->len;
  while (p < end)
    {
      const char *stop;
      gboolean fine = g_utf8_validate_len (p, (gsize)(end - p), &stop);
      g_string_append_len (valid, p, stop - p);
      p = stop;
      if (fine || p >= end)
        break;
      if (*p == '\0')
        g_string_append_c (valid, '\0');
      else
        g_string_append (valid, "\xef\xbf\xbd");
      p++;
    }
  g_string_free (bytes, TRUE);
  *out_len = valid->len;
  return g_string_free (valid, FALSE);
}

static void
query_parse (CoordRequest *request)
{
  request->query_pairs = g_array_new (FALSE, FALSE, sizeof (CoordQueryPair));
  g_array_set_clear_func (request->query_pairs, pair_clear);
  for (const char *p = request->query; p != NULL && *p != '\0';)
    {
      gsize len = strcspn (p, "&");
      const char *equals = memchr (p, '=', len);
      CoordQueryPair pair;
      gsize name_len;
      if (len > 0)
        {
          pair.name = query_decode (p, equals != NULL ? (gsize)(equals - p) : len, &name_len);
          pair.value
              = query_decode (equals != NULL ? equals + 1 : "", equals != NULL ? len - (gsize)(equals + 1 - p) : 0, &pair.len);
          g_array_append_val (request->query_pairs, pair);
        }
      p += len + (p[len] == '&');
    }
}

static const CoordQueryPair *
query_find (CoordRequest *request, const char *name)
{
  if (request->query_pairs == NULL)
    query_parse (request);
  for (guint i = request->query_pairs->len; i > 0; i--)
    {
      const CoordQueryPair *pair = &g_array_index (request->query_pairs, CoordQueryPair, i - 1);
      if (strcmp (pair->name, name) == 0)
        return pair;
    }
  return NULL;
}

const char *
coord_query_get (CoordRequest *request, const char *name)
{
  const CoordQueryPair *pair = query_find (request, name);
  return pair != NULL ? pair->value : NULL;
}

LmtSpan
coord_query_span (CoordRequest *request, const char *name)
{
  const CoordQueryPair *pair = query_find (request, name);
  LmtSpan span = { NULL, 0 };
  if (pair != NULL && pair->len > 0)
    {
      span.data = (const guint8 *)pair->value;
      span.len = pair->len;
    }
  return span;
}

gint64
coord_query_int (CoordRequest *request, const char *name, gint64 default_value, gint64 min, gint64 max, EventsProblems *problems)
{
  const CoordQueryPair *pair = query_find (request, name);
  EventsScalar scalar = { .type = EVENTS_STRING };
  const char *type = NULL, *msg = NULL;
  gboolean huge = FALSE;
  gint64 value = 0;
  g_autoptr (GString) input = NULL;
  g_autofree char *loc = NULL;
  g_autofree char *ctx = NULL;

  if (pair == NULL)
    return default_value;
  scalar.text.data = (const guint8 *)pair->value;
  scalar.text.len = pair->len;
  gboolean taken = events_take_int (&scalar, &value, &huge, &type, &msg);
  if (taken && value >= min && value <= max)
    return value;
  input = g_string_new (NULL);
  scalar.text.len = MIN (scalar.text.len, INPUT_SHOWN / 2);
  coord_text_string (input, scalar.text);
  loc = g_strdup_printf ("[\"query\",\"%s\"]", name);
  if (!taken)
    coord_problem (problems, type, loc, input->str, NULL, "%s", msg);
  else if (value < min)
    {
      ctx = g_strdup_printf ("{\"ge\":%" G_GINT64_FORMAT "}", min);
      coord_problem (problems, "greater_than_equal", loc, input->str, ctx,
                     "Input should be greater than or equal to %" G_GINT64_FORMAT, min);
    }
  else
    {
      ctx = g_strdup_printf ("{\"le\":%" G_GINT64_FORMAT "}", max);
      coord_problem (problems, "less_than_equal", loc, input->str, ctx, "Input should be less than or equal to %" G_GINT64_FORMAT,
                     max);
    }
  return default_value;
}

const char *
coord_query_tier (CoordRequest *request, const char *default_word, EventsProblems *problems)
{
  const CoordQueryPair *pair = query_find (request, "tier");
  LmtSpan text;
  const char *word;
  g_autoptr (GString) input = NULL;

  if (pair == NULL)
    return default_word;
  text.data = (const guint8 *)pair->value;
  text.len = pair->len;
  word = tier_word (text);
  if (word != NULL)
    return word;
  input = g_string_new (NULL);
  text.len = MIN (text.len, INPUT_SHOWN / 2);
  coord_text_string (input, text);
  tier_problem (problems, "[\"query\",\"tier\"]", input->str);
  return default_word;
}
