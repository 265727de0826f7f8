// SPDX-License-Identifier: Apache-2.0
/* Whole bodies: POST /events, and objects of the other requests. */
#include "events-parse.h"

#include <lmtrace/lmt-json.h>

enum
{
  BODY_FIRST_ROOM = 16,
  BODY_MAX_PAIRS = 4096, /* names are compared one by one */
};

static EventsPathStep
step_of (const char *name)
{
  return (EventsPathStep){ name, 0 };
}

/* Where the reader stopped, in characters, as LMCache counts. */
static guint64
body_place (const EventsJson *json)
{
  guint64 n = 0;

  for (const char *p = json->start; p < json->pos; p++)
    n += ((guchar)*p & 0xC0) != 0x80;
  return n;
}

static EventsBodyResult
body_broken (EventsParse *parse)
{
  const EventsPathStep path[] = { step_of ("body"), { NULL, body_place (&parse->json) } };

  events_problems_reset (parse->problems);
  if (parse->no_memory || parse->json.no_memory)
    return EVENTS_BODY_TOO_BIG;
  if (parse->json.too_deep)
    return EVENTS_BODY_BROKEN;

  g_autofree char *loc = events_path_to_json (path, G_N_ELEMENTS (path), NULL);
  GString *const ctx = g_string_new ("{\"error\":\"");
  lmt_json_append_escaped (ctx, parse->json.fault, strlen (parse->json.fault));
  g_string_append (ctx, "\"}");
  events_problems_add (parse->problems, "json_invalid", loc, "JSON decode error", "{}", ctx->str);
  g_string_free (ctx, TRUE);
  return EVENTS_BODY_INVALID;
}

/* Encoding, and a body that isn't there. FALSE: @result is the answer. */
static gboolean
body_begin (const char **body, gsize *len, EventsProblems *problems, EventsBodyResult *result)
{
  events_problems_reset (problems);
  if (!events_utf8_valid (*body, *len))
    {
      *result = EVENTS_BODY_BROKEN;
      return FALSE;
    }
  if (*len >= 3 && memcmp (*body, "\xEF\xBB\xBF", 3) == 0)
    {
      *body += 3;
      *len -= 3;
    }
  if (*len == 0)
    {
      events_problems_add (problems, "missing", "[\"body\"]", "Field required", "null", NULL);
      *result = EVENTS_BODY_INVALID;
      return FALSE;
    }
  return TRUE;
}

/* What isn't an object: `null` is no body at all. FALSE: broken. */
static gboolean
body_no_object (EventsParse *parse, const EventsScalar *head)
{
  LmtSpan source;

  if (!events_parse_skip (parse, head, &source))
    return FALSE;
  if (head->type == EVENTS_NULL)
    events_parse_problem (parse, NULL, "missing", "Field required", source, NULL);
  else
    events_parse_problem (parse, NULL, "model_attributes_type",
                          "Input should be a valid dictionary or object to extract fields from", source, NULL);
  return TRUE;
}

/* Only white space may be left. */
static gboolean
body_end (EventsParse *parse)
{
  if (events_parse_failed (parse))
    return FALSE;
  if (events_json_at_end (&parse->json))
    return TRUE;
  parse->json.fault = "Extra data";
  return FALSE;
}

void
events_body_is_no_json (const char *body, gsize len, EventsProblems *problems)
{
  EventsParse parse;

  events_problems_reset (problems);
  events_parse_init_json (&parse, body, len, NULL, NULL, problems);
  if (len == 0)
    {
      events_problems_add (problems, "missing", "[\"body\"]", "Field required", "null", NULL);
      return;
    }
  parse.json.words = TRUE; /* shown as a string */
  events_parse_push (&parse, "body", 0);
  events_parse_problem (&parse, NULL, "model_attributes_type",
                        "Input should be a valid dictionary or object to extract fields from",
                        (LmtSpan){ (const guint8 *)body, len }, NULL);
}

/* ---- POST /events ---- */

typedef struct
{
  EventsBatch *items;
  guint32 n;
  guint32 room;
} BatchList;

static gboolean
list_grow (EventsParse *parse, BatchList *list)
{
  const guint32 room = MAX (BODY_FIRST_ROOM, list->room * 2);
  EventsBatch *const more = events_parse_alloc (parse, (gsize)room * sizeof *more);

  if (more == NULL)
    return FALSE;
  if (list->n > 0)
    memcpy (more, list->items, list->n * sizeof *more);
  list->items = more;
  list->room = room;
  return TRUE;
}

static gboolean
read_batches (EventsParse *parse, BatchList *list, LmtSpan *source)
{
  const guint8 *start;
  EventsScalar value;
  guint64 index = 0;

  list->n = 0;
  if (events_parse_next (parse, &value) == EVENTS_ERROR)
    return FALSE;
  if (value.type != EVENTS_ARRAY)
    {
      if (!events_parse_skip (parse, &value, source))
        return FALSE;
      events_parse_problem (parse, "batches", "list_type", "Input should be a valid list", *source, NULL);
      return TRUE;
    }
  start = value.text.data;
  events_parse_push (parse, "batches", 0);
  while (events_parse_element (parse))
    {
      const gboolean keep = parse->problems->total == 0 || parse->keep_all;
      EventsBatch unkept;

      if (keep && list->n == list->room && !list_grow (parse, list))
        return FALSE;
      events_parse_push (parse, NULL, index++);
      if (!events_parse_batch (parse, keep ? &list->items[list->n] : &unkept))
        return FALSE;
      events_parse_pop (parse);
      if (keep)
        list->n++;
      else
        parse->dropped = TRUE;
    }
  events_parse_pop (parse);
  *source = events_parse_since (parse, start);
  return TRUE;
}

static gboolean
read_events_body (EventsParse *parse, BatchList *list, LmtSpan *source)
{
  EventsScalar head, name;
  EventsLevel level = { .seen = 0 };

  events_parse_push (parse, "body", 0);
  if (events_parse_next (parse, &head) == EVENTS_ERROR)
    return FALSE;
  if (head.type != EVENTS_OBJECT)
    return body_no_object (parse, &head) && body_end (parse);
  while (events_parse_member (parse, &name))
    {
      if (!LMT_SPAN_IS (name.text, "batches"))
        {
          if (!events_parse_whole (parse, &name, NULL))
            return FALSE;
          continue;
        }
      events_level_begin (parse, &level, 0);
      if (!read_batches (parse, list, source))
        return FALSE;
      events_level_end (parse, &level, 0);
    }
  return body_end (parse);
}

EventsBodyResult
events_batches_from_body (const char *body, gsize len, const EventsLimits *limits, EventsArena *arena, EventsBatch **batches,
                          guint32 *n_batches, EventsProblems *problems)
{
  BatchList list = { 0 };
  LmtSpan source = { 0 };
  EventsBodyResult result;
  EventsParse parse;
  gboolean whole;

  *batches = NULL;
  *n_batches = 0;
  if (!body_begin (&body, &len, problems, &result))
    return result;
  events_parse_init_json (&parse, body, len, limits, arena, problems);
  whole = read_events_body (&parse, &list, &source);
  if (whole && problems->total == 0 && parse.dropped)
    {
      /* A repeated member took its problems back: once more, and everything is kept. */
      list = (BatchList){ 0 };
      events_parse_init_json (&parse, body, len, limits, arena, problems);
      parse.keep_all = TRUE;
      whole = read_events_body (&parse, &list, &source);
    }
  if (!whole)
    return body_broken (&parse);
  for (guint32 i = 0; parse.bad_keys && problems->total == 0 && i < list.n; i++)
    {
      const EventsKey *const key = events_batch_bad_key (&list.items[i]);
      if (key == NULL)
        continue;
      events_parse_push (&parse, "batches", 0);
      events_parse_key_problem (&parse, key, source);
    }
  if (problems->total > 0)
    return EVENTS_BODY_INVALID;
  *batches = list.items;
  *n_batches = list.n;
  return EVENTS_BODY_OK;
}

/* ---- objects ---- */

static void
put_seen (const EventsField *field, gpointer values, guint32 how)
{
  if (field->seen_offset != G_MAXUINT32)
    *(guint32 *)((guint8 *)values + field->seen_offset) = how;
}

static void
out_of_range (EventsParse *parse, const EventsField *field, gboolean below, LmtSpan source)
{
  const double bound = below ? field->min : field->max;
  char text[32];

  if (field->want == EVENTS_WANT_FLOAT)
    lmt_json_format_double (bound, text);
  else
    g_snprintf (text, sizeof text, "%" G_GINT64_FORMAT, (gint64)bound);

  g_autofree char *msg = g_strdup_printf ("Input should be %s than or equal to %s", below ? "greater" : "less",
                                          g_str_has_suffix (text, ".0") ? (text[strlen (text) - 2] = '\0', text) : text);
  if (field->want == EVENTS_WANT_FLOAT)
    lmt_json_format_double (bound, text);
  g_autofree char *ctx = g_strdup_printf ("{\"%s\":%s}", below ? "ge" : "le", text);
  events_parse_problem (parse, field->name, below ? "greater_than_equal" : "less_than_equal", msg, source, ctx);
}

static gboolean
take_string (EventsParse *parse, const EventsField *field, const EventsScalar *value, LmtSpan source, LmtSpan *out)
{
  const char *type, *msg;
  LmtSpan text;

  if (!events_take_string (value, &text, &type, &msg))
    {
      events_parse_problem (parse, field->name, type, msg, source, NULL);
      return FALSE;
    }
  if (field->trim)
    text = events_span_trim (text);
  if (text.len < field->min_length)
    {
      g_autofree char *few
          = g_strdup_printf ("String should have at least %u character%s", field->min_length, field->min_length == 1 ? "" : "s");
      g_autofree char *ctx = g_strdup_printf ("{\"min_length\":%u}", field->min_length);
      events_parse_problem (parse, field->name, "string_too_short", few, source, ctx);
      return FALSE;
    }
  if (parse->limits->max_string > 0 && text.len > parse->limits->max_string)
    {
      g_autofree char *many = g_strdup_printf ("String should have at most %u bytes", parse->limits->max_string);
      g_autofree char *ctx = g_strdup_printf ("{\"max_length\":%u}", parse->limits->max_string);
      events_parse_problem (parse, field->name, "string_too_long", many, source, ctx);
      return FALSE;
    }
  *out = text;
  return TRUE;
}

static gboolean
take_number (EventsParse *parse, const EventsField *field, const EventsScalar *value, LmtSpan source, gpointer out)
{
  const char *type, *msg;
  gboolean huge = FALSE;
  gint64 integer = 0;
  double real = 0;

  if (field->want == EVENTS_WANT_INT ? !events_take_int (value, &integer, &huge, &type, &msg)
                                     : !events_take_float (value, &real, &type, &msg))
    {
      events_parse_problem (parse, field->name, type, msg, source, NULL);
      return FALSE;
    }
  if (field->want == EVENTS_WANT_INT)
    real = (double)integer;
  /* A NaN is in no range. */
  if ((field->has_min && !(real >= field->min)) || (field->has_max && !(real <= field->max)))
    {
      out_of_range (parse, field, field->has_min && !(real >= field->min), source);
      return FALSE;
    }
  if (field->want == EVENTS_WANT_INT)
    *(gint64 *)out = integer;
  else
    *(double *)out = real;
  return TRUE;
}

/* FALSE: broken. */
static gboolean
read_field (EventsParse *parse, const EventsField *field, gpointer values)
{
  gpointer const out = (guint8 *)values + field->offset;
  const char *type, *msg;
  EventsScalar value;
  LmtSpan source;
  gboolean good;

  if (!events_parse_whole (parse, &value, &source))
    return FALSE;
  if (field->nullable && value.type == EVENTS_NULL)
    {
      put_seen (field, values, 1);
      return TRUE;
    }
  switch ((EventsWant)field->want)
    {
    case EVENTS_WANT_INT:
    case EVENTS_WANT_FLOAT:
      good = take_number (parse, field, &value, source, out);
      break;
    case EVENTS_WANT_BOOL:
      good = events_take_bool (&value, out, &type, &msg);
      if (!good)
        events_parse_problem (parse, field->name, type, msg, source, NULL);
      break;
    case EVENTS_WANT_STRING:
      good = take_string (parse, field, &value, source, out);
      break;
    case EVENTS_WANT_RAW:
    default:
      *(LmtSpan *)out = source;
      good = TRUE;
      break;
    }
  if (good)
    put_seen (field, values, 2);
  return TRUE;
}

static gboolean
read_object (EventsParse *parse, const EventsField *fields, guint n_fields, gpointer values)
{
  EventsLevel level = { .seen = 0 };
  EventsScalar head, name;

  events_parse_push (parse, "body", 0);
  if (events_parse_next (parse, &head) == EVENTS_ERROR)
    return FALSE;
  if (head.type != EVENTS_OBJECT)
    return body_no_object (parse, &head) && body_end (parse);
  while (events_parse_member (parse, &name))
    {
      guint i = 0;
      while (i < n_fields && !lmt_span_equal_str (name.text, fields[i].name, strlen (fields[i].name)))
        i++;
      if (i == n_fields)
        {
          if (!events_parse_whole (parse, &name, NULL))
            return FALSE;
          continue;
        }
      events_level_begin (parse, &level, i);
      if (!read_field (parse, &fields[i], values))
        return FALSE;
      events_level_end (parse, &level, i);
    }
  if (events_parse_failed (parse))
    return FALSE;
  for (guint i = 0; i < n_fields; i++)
    if (fields[i].required && (level.seen >> i & 1) == 0)
      {
        events_level_begin (parse, &level, i);
        events_parse_problem (parse, fields[i].name, "missing", "Field required", events_parse_since (parse, head.text.data),
                              NULL);
        events_level_end (parse, &level, i);
      }
  events_level_sort (parse, &level, n_fields);
  return body_end (parse);
}

EventsBodyResult
events_object_from_body (const char *body, gsize len, const EventsField *fields, guint n_fields, gpointer values,
                         EventsArena *arena, EventsProblems *problems)
{
  EventsBodyResult result;
  EventsParse parse;

  g_return_val_if_fail (n_fields <= EVENTS_MAX_FIELDS, EVENTS_BODY_BROKEN);
  for (guint i = 0; i < n_fields; i++)
    put_seen (&fields[i], values, 0);
  if (!body_begin (&body, &len, problems, &result))
    return result;
  events_parse_init_json (&parse, body, len, NULL, arena, problems);
  if (!read_object (&parse, fields, n_fields, values))
    return body_broken (&parse);
  return problems->total == 0 ? EVENTS_BODY_OK : EVENTS_BODY_INVALID;
}

/* ---- lists out of a member ---- */

/* @raw is the text of one value that was read before: it can't be broken. FALSE: no list; the problem is there. */
static gboolean
raw_begin (EventsParse *parse, LmtSpan raw, const char *name, const EventsLimits *limits, EventsArena *arena,
           EventsProblems *problems, EventsType want)
{
  EventsScalar head;

  events_parse_init_json (parse, (const char *)raw.data, raw.len, limits, arena, problems);
  events_parse_push (parse, "body", 0);
  events_parse_push (parse, name, 0);
  if (events_parse_next (parse, &head) == want)
    return TRUE;
  if (want == EVENTS_ARRAY)
    events_parse_problem (parse, NULL, "list_type", "Input should be a valid list", raw, NULL);
  else
    events_parse_problem (parse, NULL, "dict_type", "Input should be a valid dictionary", raw, NULL);
  return FALSE;
}

/* Elements of @raw, at most; commas outside of strings and containers don't have to be told apart for that. */
static gsize
raw_count (LmtSpan raw)
{
  gsize n = 1;

  for (gsize i = 0; i < raw.len; i++)
    n += raw.data[i] == ',';
  return n;
}

static gboolean
raw_too_long (EventsParse *parse, guint32 max, LmtSpan raw)
{
  g_autofree char *msg = g_strdup_printf ("List should have at most %u items", max);
  g_autofree char *ctx = g_strdup_printf ("{\"field_type\":\"List\",\"max_length\":%u}", max);

  events_parse_problem (parse, NULL, "too_long", msg, raw, ctx);
  return FALSE;
}

static gboolean
raw_no_memory (EventsParse *parse, LmtSpan raw)
{
  events_parse_problem (parse, NULL, "too_long", "List is larger than the memory for one request", raw, NULL);
  return FALSE;
}

gboolean
events_keys_from_raw (LmtSpan raw, const char *name, const EventsLimits *limits, EventsArena *arena, EventsKey **keys, guint32 *n,
                      EventsProblems *problems)
{
  const guint64 before = problems->total;
  EventsParse parse;
  EventsScalar head;
  guint32 huge = FALSE;
  guint32 room = 0;

  *keys = NULL;
  *n = 0;
  if (raw.data == NULL)
    return TRUE;
  if (!raw_begin (&parse, raw, name, limits, arena, problems, EVENTS_ARRAY))
    return FALSE;
  while (events_parse_element (&parse))
    {
      if (parse.limits->max_entries > 0 && *n >= parse.limits->max_entries)
        return raw_too_long (&parse, parse.limits->max_entries, raw);
      if (*n == room)
        {
          EventsKey *const more = events_parse_alloc (&parse, (gsize)MAX (BODY_FIRST_ROOM, room * 2) * sizeof *more);
          if (more == NULL)
            return raw_no_memory (&parse, raw);
          if (room > 0)
            memcpy (more, *keys, room * sizeof *more);
          *keys = more;
          room = MAX (BODY_FIRST_ROOM, room * 2);
        }
      events_parse_push (&parse, NULL, *n);
      if (events_parse_next (&parse, &head) == EVENTS_ERROR || !events_parse_key (&parse, &head, &(*keys)[*n], &huge))
        return raw_no_memory (&parse, raw);
      events_parse_pop (&parse);
      ++*n;
    }
  for (guint32 i = 0; parse.bad_keys && problems->total == before && i < *n; i++)
    {
      g_autofree char *fault = events_key_fault (&(*keys)[i]);
      if (fault != NULL)
        events_parse_key_problem (&parse, &(*keys)[i], raw);
    }
  return problems->total == before;
}

gboolean
events_ints_from_raw (LmtSpan raw, const char *name, const EventsLimits *limits, EventsArena *arena, gint64 **ints, guint32 *n,
                      EventsProblems *problems)
{
  const guint64 before = problems->total;
  const char *type, *msg;
  EventsParse parse;
  EventsScalar value;
  LmtSpan source;

  *ints = NULL;
  *n = 0;
  if (raw.data == NULL)
    return TRUE;
  if (!raw_begin (&parse, raw, name, limits, arena, problems, EVENTS_ARRAY))
    return FALSE;

  const gsize room = parse.limits->max_tokens > 0 ? MIN (raw_count (raw), parse.limits->max_tokens) : raw_count (raw);
  *ints = events_parse_alloc (&parse, room * sizeof **ints);
  if (*ints == NULL)
    return raw_no_memory (&parse, raw);
  while (events_parse_element (&parse))
    {
      gboolean huge = FALSE;
      gint64 integer = 0;
      if (*n >= room)
        return raw_too_long (&parse, (guint32)room, raw);
      if (!events_parse_whole (&parse, &value, &source))
        return raw_no_memory (&parse, raw);
      if (!events_take_int (&value, &integer, &huge, &type, &msg))
        {
          events_parse_push (&parse, NULL, *n);
          events_parse_problem (&parse, NULL, type, msg, source, NULL);
          events_parse_pop (&parse);
        }
      (*ints)[(*n)++] = integer;
    }
  return problems->total == before;
}

gboolean
events_pairs_from_raw (LmtSpan raw, const char *name, const EventsLimits *limits, EventsArena *arena, EventsPair **pairs,
                       guint32 *n, EventsProblems *problems)
{
  const guint64 before = problems->total;
  const char *type, *msg;
  EventsParse parse;
  EventsScalar member, value;
  LmtSpan source;

  *pairs = NULL;
  *n = 0;
  if (raw.data == NULL)
    return TRUE;
  if (!raw_begin (&parse, raw, name, limits, arena, problems, EVENTS_OBJECT))
    return FALSE;
  *pairs = events_parse_alloc (&parse, MIN (raw_count (raw), BODY_MAX_PAIRS) * sizeof **pairs);
  if (*pairs == NULL)
    return raw_no_memory (&parse, raw);
  while (events_parse_member (&parse, &member))
    {
      LmtSpan text = { (const guint8 *)"", 0 };
      guint32 i = 0;
      if (*n == BODY_MAX_PAIRS)
        return raw_too_long (&parse, BODY_MAX_PAIRS, raw);
      if (!events_parse_whole (&parse, &value, &source))
        return raw_no_memory (&parse, raw);
      if (member.surrogate || !events_take_string (&value, &text, &type, &msg))
        {
          g_autofree char *place = g_strndup ((const char *)member.text.data, member.text.len);
          if (member.surrogate)
            {
              type = "string_unicode";
              msg = "Input should be a valid string, half a surrogate pair found";
            }
          events_parse_problem (&parse, place, type, msg, source, NULL);
        }
      while (i < *n && !lmt_span_equal_str (member.text, (const char *)(*pairs)[i].name.data, (*pairs)[i].name.len))
        i++;
      (*pairs)[i] = (EventsPair){ member.text, text };
      if (i == *n)
        ++*n;
    }
  return problems->total == before;
}
