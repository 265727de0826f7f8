// SPDX-License-Identifier: Apache-2.0
/* One walk over JSON or over msgpack. */
#include "events-parse.h"

static void
parse_init (EventsParse *parse, const EventsLimits *limits, EventsArena *arena, EventsProblems *problems)
{
  memset (parse, 0, sizeof *parse);
  parse->limits = limits != NULL ? limits : &events_limits_default;
  parse->arena = arena;
  parse->problems = problems;
}

void
events_parse_init_json (EventsParse *parse, const char *text, gsize len, const EventsLimits *limits, EventsArena *arena,
                        EventsProblems *problems)
{
  parse_init (parse, limits, arena, problems);
  parse->is_json = TRUE;
  events_json_init (&parse->json, text, len, arena, parse->limits->max_depth);
}

void
events_parse_init_msgpack (EventsParse *parse, LmtSpan value, const EventsLimits *limits, EventsArena *arena,
                           EventsProblems *problems)
{
  parse_init (parse, limits, arena, problems);
  lmt_cursor_init (&parse->cursor, value);
}

gboolean
events_parse_failed (const EventsParse *parse)
{
  return parse->no_memory || (parse->is_json ? parse->json.fault != NULL : parse->failed);
}

gpointer
events_parse_alloc (EventsParse *parse, gsize size)
{
  gpointer const memory = events_arena_alloc (parse->arena, size);

  if (memory == NULL)
    parse->no_memory = TRUE;
  return memory;
}

static EventsType
msgpack_fail (EventsParse *parse, EventsScalar *value)
{
  parse->failed = TRUE;
  return value->type = EVENTS_ERROR;
}

static EventsType
msgpack_next (EventsParse *parse, EventsScalar *value)
{
  LmtToken token;

  parse->value_start = parse->cursor.pos;
  value->surrogate = FALSE;
  if (parse->failed)
    return value->type = EVENTS_ERROR;
  switch (lmt_cursor_next (&parse->cursor, &token))
    {
    case LMT_TYPE_NIL:
      return value->type = EVENTS_NULL;
    case LMT_TYPE_BOOL:
      value->v.b = token.v.b;
      return value->type = EVENTS_BOOL;
    case LMT_TYPE_UINT:
      value->v.u = token.v.u; /* same bits as a gint64 below 2^63 */
      return value->type = token.v.u <= G_MAXINT64 ? EVENTS_INT : EVENTS_UINT;
    case LMT_TYPE_INT:
      value->v.i = token.v.i;
      return value->type = EVENTS_INT;
    case LMT_TYPE_FLOAT:
      value->v.f = token.v.f;
      return value->type = EVENTS_FLOAT;
    case LMT_TYPE_STR:
      value->text = token.span;
      return value->type = EVENTS_STRING;
    case LMT_TYPE_BIN:
    case LMT_TYPE_EXT:
      value->text = token.span;
      return value->type = EVENTS_BINARY;
    case LMT_TYPE_ARRAY:
    case LMT_TYPE_MAP:
      if (parse->depth == EVENTS_SOURCE_DEPTH)
        return msgpack_fail (parse, value);
      parse->left[parse->depth++] = token.count;
      value->text = (LmtSpan){ parse->value_start, 0 };
      return value->type = token.type == LMT_TYPE_MAP ? EVENTS_OBJECT : EVENTS_ARRAY;
    default:
      return msgpack_fail (parse, value);
    }
}

EventsType
events_parse_next (EventsParse *parse, EventsScalar *value)
{
  if (parse->is_json)
    return events_json_next (&parse->json, value);
  return msgpack_next (parse, value);
}

gboolean
events_parse_element (EventsParse *parse)
{
  if (parse->is_json)
    return events_json_element (&parse->json);
  if (parse->failed)
    return FALSE;
  if (parse->left[parse->depth - 1] == 0)
    {
      parse->depth--;
      return FALSE;
    }
  parse->left[parse->depth - 1]--;
  return TRUE;
}

/* Over the rest of a container whose head was just read: bounded depth, no recursion. */
static gboolean
msgpack_skip_rest (EventsParse *parse, gboolean map)
{
  const guint most = MIN (parse->limits->max_depth == 0 ? LMT_CURSOR_MAX_DEPTH : parse->limits->max_depth, LMT_CURSOR_MAX_DEPTH);
  guint64 values = (guint64)parse->left[parse->depth - 1] * (map ? 2 : 1);
  guint64 stack[LMT_CURSOR_MAX_DEPTH];
  guint n = 0;

  for (;;)
    {
      LmtToken token;
      while (values == 0)
        {
          if (n == 0)
            {
              parse->depth--;
              return TRUE;
            }
          values = stack[--n];
        }
      values--;
      const LmtType type = lmt_cursor_next (&parse->cursor, &token);
      if (type == LMT_TYPE_ERROR || type == LMT_TYPE_NONE)
        return !(parse->failed = TRUE);
      if (type != LMT_TYPE_ARRAY && type != LMT_TYPE_MAP)
        continue;
      if (n + parse->depth >= most || n == G_N_ELEMENTS (stack))
        {
          parse->too_deep = TRUE;
          return !(parse->failed = TRUE);
        }
      stack[n++] = values;
      values = (guint64)token.count * (type == LMT_TYPE_MAP ? 2 : 1);
    }
}

gboolean
events_parse_member (EventsParse *parse, EventsScalar *name)
{
  if (parse->is_json)
    return events_json_member (&parse->json, name);
  while (events_parse_element (parse))
    {
      EventsScalar value;
      if (msgpack_next (parse, name) == EVENTS_STRING)
        return TRUE;
      /* A name that is no string names nothing that is known here. */
      if (!events_parse_skip (parse, name, NULL) || msgpack_next (parse, &value) == EVENTS_ERROR
          || !events_parse_skip (parse, &value, NULL))
        return FALSE;
    }
  return FALSE;
}

gboolean
events_parse_skip (EventsParse *parse, const EventsScalar *head, LmtSpan *source)
{
  if (parse->is_json)
    return events_json_skip (&parse->json, head, source);

  const gboolean container = head->type == EVENTS_OBJECT || head->type == EVENTS_ARRAY;
  const guint8 *const start = container ? head->text.data : parse->value_start;
  if (head->type == EVENTS_ERROR || (container && !msgpack_skip_rest (parse, head->type == EVENTS_OBJECT)))
    return FALSE;
  if (source != NULL)
    *source = (LmtSpan){ start, (gsize)(parse->cursor.pos - start) };
  return TRUE;
}

gboolean
events_parse_whole (EventsParse *parse, EventsScalar *value, LmtSpan *source)
{
  return events_parse_next (parse, value) != EVENTS_ERROR && events_parse_skip (parse, value, source);
}

LmtSpan
events_parse_since (const EventsParse *parse, const guint8 *start)
{
  const guint8 *const here = parse->is_json ? (const guint8 *)parse->json.pos : parse->cursor.pos;

  return (LmtSpan){ start, (gsize)(here - start) };
}

void
events_parse_push (EventsParse *parse, const char *name, guint64 index)
{
  parse->path[parse->n_path++] = (EventsPathStep){ name, index };
}

void
events_parse_pop (EventsParse *parse)
{
  parse->n_path--;
}
