// SPDX-License-Identifier: Apache-2.0
#include "events-parse.h"

#include <lmtrace/lmt-codec.h>
#include <lmtrace/lmt-json.h>

enum
{
  PROBLEM_MAX_INPUT = 1024,
  PROBLEM_MAX_SOURCE = 64 * 1024, /* longer msgpack isn't converted for an excerpt */
  PROBLEM_MAX_SHOWN = 80,         /* of an input, for people */
};

static void
problem_clear (gpointer data)
{
  EventsProblem *const problem = data;

  g_free (problem->loc);
  g_free (problem->msg);
  g_free (problem->input);
  g_free (problem->ctx);
}

void
events_problems_init (EventsProblems *problems, guint max)
{
  problems->items = g_array_new (FALSE, TRUE, sizeof (EventsProblem));
  g_array_set_clear_func (problems->items, problem_clear);
  problems->max = max;
  problems->total = 0;
}

void
events_problems_clear (EventsProblems *problems)
{
  g_clear_pointer (&problems->items, g_array_unref);
  problems->total = 0;
}

void
events_problems_reset (EventsProblems *problems)
{
  if (problems->total == 0)
    return;
  g_array_set_size (problems->items, 0);
  problems->total = 0;
}

EventsProblem *
events_problems_push (EventsProblems *problems)
{
  problems->total++;
  if (problems->items->len >= problems->max)
    return NULL;
  g_array_set_size (problems->items, problems->items->len + 1);
  return &g_array_index (problems->items, EventsProblem, problems->items->len - 1);
}

void
events_problems_add (EventsProblems *problems, const char *type, const char *loc, const char *msg, const char *input,
                     const char *ctx)
{
  EventsProblem *const problem = events_problems_push (problems);

  if (problem == NULL)
    return;
  problem->type = type;
  problem->loc = g_strdup (loc);
  problem->msg = g_strdup (msg);
  problem->input = g_strdup (input);
  problem->ctx = g_strdup (ctx);
}

/* ---- for people ---- */

/* `["body","batches",0,"seq"]` as `batches.0.seq`. */
static void
append_place (GString *out, const char *loc)
{
  g_autoptr (LmtJson) json = lmt_json_parse (loc, -1, NULL);
  gboolean any = FALSE;

  for (guint i = 0; json != NULL && i < lmt_json_get_length (json); i++)
    {
      const LmtJson *const step = lmt_json_get_element (json, i);
      const gboolean text = lmt_json_get_type (step) == LMT_JSON_STRING;
      if (i == 0 && text && strcmp (lmt_json_get_string (step), "body") == 0)
        continue;
      if (any)
        g_string_append_c (out, '.');
      if (text)
        lmt_json_append_escaped (out, lmt_json_get_string (step), lmt_json_get_string_len (step));
      else
        g_string_append_printf (out, "%" G_GINT64_FORMAT, lmt_json_get_int (step));
      any = TRUE;
    }
  if (any)
    g_string_append (out, ": ");
}

static void
append_no_json (GString *out, const EventsProblem *problem)
{
  g_autoptr (LmtJson) loc = lmt_json_parse (problem->loc, -1, NULL);
  g_autoptr (LmtJson) ctx = lmt_json_parse (problem->ctx, -1, NULL);
  const LmtJson *const fault = ctx != NULL ? lmt_json_get_member (ctx, "error") : NULL;

  g_string_append (out, "no JSON");
  if (fault != NULL && loc != NULL && lmt_json_get_length (loc) == 2)
    g_string_append_printf (out, ": %s at character %" G_GINT64_FORMAT, lmt_json_get_string (fault),
                            lmt_json_get_int (lmt_json_get_element (loc, 1)));
}

char *
events_problems_describe (const EventsProblems *problems)
{
  GString *const out = g_string_new (NULL);

  if (problems->items == NULL || problems->items->len == 0)
    return g_string_free (out, FALSE);

  const EventsProblem *const first = &g_array_index (problems->items, EventsProblem, 0);
  if (strcmp (first->type, "json_invalid") == 0)
    {
      append_no_json (out, first);
      return g_string_free (out, FALSE);
    }
  append_place (out, first->loc);
  g_string_append (out, g_str_has_prefix (first->msg, "Value error, ") ? first->msg + strlen ("Value error, ") : first->msg);
  /* A whole object says nothing that the message doesn't. */
  if (first->input != NULL && first->input[0] != '{' && first->input[0] != '[')
    {
      const gsize len = strlen (first->input);
      const gsize shown = MIN (len, PROBLEM_MAX_SHOWN);
      g_string_append (out, ", found ");
      for (gsize i = 0; i < shown; i++)
        {
          const guchar c = (guchar)first->input[i];
          if (c >= 0x20 && c != 0x7F && !(c == 0xC2 && i + 1 < shown && (guchar)first->input[i + 1] < 0xA0))
            g_string_append_c (out, (char)c);
          else
            g_string_append_printf (out, "\\x%02x", c);
        }
      if (shown < len)
        g_string_append (out, "...");
    }
  if (problems->total > 1)
    g_string_append_printf (out, " (and %" G_GUINT64_FORMAT " more)", problems->total - 1);

  char *const whole = g_string_free (out, FALSE);
  char *const valid = g_utf8_make_valid (whole, -1); /* an input may have been cut inside a character */
  g_free (whole);
  return valid;
}

/* ---- in the terms of a reply ---- */

char *
events_path_to_json (const EventsPathStep *path, guint n, const char *field)
{
  GString *const out = g_string_new ("[");

  for (guint i = 0; i < n + (field != NULL ? 1 : 0); i++)
    {
      const char *const name = i < n ? path[i].name : field;
      if (i > 0)
        g_string_append_c (out, ',');
      if (name != NULL)
        {
          g_string_append_c (out, '"');
          lmt_json_append_escaped (out, name, strlen (name));
          g_string_append_c (out, '"');
        }
      else
        g_string_append_printf (out, "%" G_GUINT64_FORMAT, path[i].index);
    }
  g_string_append_c (out, ']');
  return g_string_free (out, FALSE);
}

/* As one JSON string, cut. */
static char *
quote_cut (const char *text, gsize len)
{
  GString *const out = g_string_new ("\"");
  gsize n = MIN (len, PROBLEM_MAX_INPUT);

  while (n > 0 && n < len && ((guchar)text[n] & 0xC0) == 0x80)
    n--;
  lmt_json_append_escaped (out, text, n);
  g_string_append (out, n < len ? "...\"" : "\"");
  return g_string_free (out, FALSE);
}

char *
events_parse_input (EventsParse *parse, LmtSpan source)
{
  const char *const text = (const char *)source.data;

  if (parse->is_json)
    {
      if (source.len <= PROBLEM_MAX_INPUT && !parse->json.words)
        return g_strndup (text, source.len);
      return quote_cut (text, source.len);
    }
  if (source.len > PROBLEM_MAX_SOURCE)
    return g_strdup_printf ("\"%" G_GSIZE_FORMAT " bytes\"", source.len);

  GString *const out = g_string_new (NULL);
  if (!events_json_from_msgpack (source, out, NULL))
    lmt_value_to_json (source, out);
  if (out->len <= PROBLEM_MAX_INPUT)
    return g_string_free (out, FALSE);
  char *const cut = quote_cut (out->str, out->len);
  g_string_free (out, TRUE);
  return cut;
}

void
events_parse_problem (EventsParse *parse, const char *field, const char *type, const char *msg, LmtSpan source, const char *ctx)
{
  EventsProblem *const problem = events_problems_push (parse->problems);

  if (problem == NULL)
    return;
  problem->type = type;
  problem->loc = events_path_to_json (parse->path, parse->n_path, field);
  problem->msg = g_strdup (msg);
  problem->input = events_parse_input (parse, source);
  problem->ctx = g_strdup (ctx);
}

void
events_parse_no_object (EventsParse *parse, const char *class_name, LmtSpan source)
{
  g_autofree char *ctx = g_strdup_printf ("{\"class_name\":\"%s\"}", class_name);
  g_autofree char *msg = g_strdup_printf ("Input should be a dictionary or an instance of %s", class_name);

  events_parse_problem (parse, NULL, "dataclass_type", msg, source, ctx);
}

/* ---- the members of one object ---- */

static void
level_forget (EventsParse *parse, EventsLevel *level, guint field)
{
  const guint from = level->at[field].from, to = level->at[field].to;

  if (to > from)
    g_array_remove_range (parse->problems->items, from, to - from);
  parse->problems->total -= level->at[field].total;
  level->bad &= ~(1u << field);
  for (guint i = 0; i < EVENTS_MAX_FIELDS; i++)
    if ((level->bad >> i & 1) != 0 && level->at[i].from >= to)
      {
        level->at[i].from -= to - from;
        level->at[i].to -= to - from;
      }
}

void
events_level_begin (EventsParse *parse, EventsLevel *level, guint field)
{
  if (G_UNLIKELY ((level->bad >> field & 1) != 0))
    level_forget (parse, level, field);
  level->seen |= 1u << field;
  level->start = parse->problems->items->len;
  level->before = parse->problems->total;
}

void
events_level_end (EventsParse *parse, EventsLevel *level, guint field)
{
  if (G_LIKELY (parse->problems->total == level->before))
    return;
  level->bad |= 1u << field;
  level->at[field].from = level->start;
  level->at[field].to = parse->problems->items->len;
  level->at[field].total = parse->problems->total - level->before;
}

void
events_level_sort (EventsParse *parse, EventsLevel *level, guint n_fields)
{
  GArray *const items = parse->problems->items;
  guint first = G_MAXUINT, n = 0;

  if ((level->bad & (level->bad - 1)) == 0)
    return; /* none or one */
  for (guint i = 0; i < n_fields; i++)
    if ((level->bad >> i & 1) != 0)
      first = MIN (first, level->at[i].from);
  const guint behind = items->len - first;
  if (behind < 2)
    return;

  g_autofree EventsProblem *sorted = g_new (EventsProblem, behind);
  for (guint i = 0; i < n_fields; i++)
    if ((level->bad >> i & 1) != 0)
      for (guint k = level->at[i].from; k < level->at[i].to; k++)
        sorted[n++] = g_array_index (items, EventsProblem, k);
  memcpy (&g_array_index (items, EventsProblem, first), sorted, n * sizeof *sorted);
}
