// SPDX-License-Identifier: Apache-2.0
#include "events-parse.h"

#include <math.h>
#include <string.h>

/* ---- arena ---- */

enum
{
  ARENA_ALIGN = 16,
  ARENA_FIRST_BLOCK = 32 * 1024,
  ARENA_LARGEST_STEP = 1024 * 1024,
  ARENA_KEPT = 4 * 1024 * 1024, /* what a reset keeps: one large request doesn't hold its memory for ever */
};

typedef struct _ArenaBlock ArenaBlock;
struct _ArenaBlock
{
  ArenaBlock *next;
  gsize size; /* of the bytes behind the head */
};

#define ARENA_HEAD ((sizeof (ArenaBlock) + ARENA_ALIGN - 1) / ARENA_ALIGN * ARENA_ALIGN)

struct _EventsArena
{
  guint8 *at;
  guint8 *end;
  ArenaBlock *first;
  ArenaBlock *current;
  gsize held;
  gsize limit;
};

EventsArena *
events_arena_new (gsize limit)
{
  EventsArena *const arena = g_new0 (EventsArena, 1);

  arena->limit = limit;
  return arena;
}

static void
arena_enter (EventsArena *arena, ArenaBlock *block)
{
  arena->current = block;
  arena->at = (guint8 *)block + ARENA_HEAD;
  arena->end = arena->at + block->size;
}

void
events_arena_free (EventsArena *arena)
{
  if (arena == NULL)
    return;
  while (arena->first != NULL)
    {
      ArenaBlock *const next = arena->first->next;
      g_free (arena->first);
      arena->first = next;
    }
  g_free (arena);
}

void
events_arena_reset (EventsArena *arena)
{
  ArenaBlock **link = &arena->first;

  arena->held = 0;
  while (*link != NULL)
    {
      ArenaBlock *const block = *link;
      if (arena->held + block->size > ARENA_KEPT)
        {
          *link = block->next;
          g_free (block);
          continue;
        }
      arena->held += block->size;
      link = &block->next;
    }
  arena->current = NULL;
  arena->at = arena->end = NULL;
  if (arena->first != NULL)
    arena_enter (arena, arena->first);
}

/* The block behind the current one if it is large enough, else a new one in front of it. */
static gboolean
arena_grow (EventsArena *arena, gsize size)
{
  ArenaBlock *const next = arena->current != NULL ? arena->current->next : NULL;
  gsize want = CLAMP (arena->held, ARENA_FIRST_BLOCK, ARENA_LARGEST_STEP);

  if (next != NULL && next->size >= size)
    {
      arena_enter (arena, next);
      return TRUE;
    }
  want = MAX (want, size);
  if (arena->limit > 0 && want > arena->limit - MIN (arena->held, arena->limit))
    want = size;
  if (arena->limit > 0 && want > arena->limit - MIN (arena->held, arena->limit))
    return FALSE;

  ArenaBlock *const block = g_try_malloc (ARENA_HEAD + want);
  if (block == NULL)
    return FALSE;
  block->size = want;
  block->next = next;
  if (arena->current != NULL)
    arena->current->next = block;
  else
    arena->first = block;
  arena->held += want;
  arena_enter (arena, block);
  return TRUE;
}

gpointer
events_arena_alloc (EventsArena *arena, gsize size)
{
  gpointer result;

  if (size > G_MAXSIZE / 2)
    return NULL;
  size = (size + ARENA_ALIGN - 1) & ~(gsize)(ARENA_ALIGN - 1);
  if ((gsize)(arena->end - arena->at) < size && !arena_grow (arena, size))
    return NULL;
  result = arena->at;
  arena->at += size;
  return result;
}

/* ---- reader ---- */

gboolean
events_utf8_valid (const char *text, gsize len)
{
  const guint8 *p = (const guint8 *)text;
  const guint8 *const end = p + len;

  while (p < end)
    {
      guint64 w;
      if (end - p >= 8 && (memcpy (&w, p, 8), (w & G_GUINT64_CONSTANT (0x8080808080808080)) == 0))
        {
          p += 8;
          continue;
        }
      if (*p < 0x80)
        {
          p++;
          continue;
        }
      const guint more = *p >= 0xF0 ? 3 : *p >= 0xE0 ? 2 : 1;
      if (*p < 0xC2 || *p > 0xF4 || (gsize)(end - p) <= more)
        return FALSE;
      for (guint i = 1; i <= more; i++)
        if ((p[i] & 0xC0) != 0x80)
          return FALSE;
      /* Overlong forms, halves of surrogate pairs, beyond U+10FFFF. */
      if ((*p == 0xE0 && p[1] < 0xA0) || (*p == 0xED && p[1] > 0x9F) || (*p == 0xF0 && p[1] < 0x90)
          || (*p == 0xF4 && p[1] > 0x8F))
        return FALSE;
      p += more + 1;
    }
  return TRUE;
}

enum
{
  JSON_DEPTH_LIMIT = 128,
  JSON_MAX_DIGITS = 4300, /* LMCache's reader refuses longer integers, and with a 400 */
};

void
events_json_init (EventsJson *json, const char *text, gsize len, EventsArena *arena, guint32 max_depth)
{
  memset (json, 0, sizeof *json);
  json->pos = json->start = text;
  json->end = text + len;
  json->arena = arena;
  json->max_depth = max_depth == 0 ? JSON_DEPTH_LIMIT : MIN (max_depth, JSON_DEPTH_LIMIT);
}

static EventsType
json_fail (EventsJson *json, EventsScalar *value, const char *at, const char *fault)
{
  if (json->fault == NULL)
    {
      json->fault = fault;
      json->pos = at;
    }
  if (value != NULL)
    value->type = EVENTS_ERROR;
  return EVENTS_ERROR;
}

static inline const char *
json_blanks (const char *p, const char *end)
{
  while (p < end && (guchar)*p <= ' ' && (*p == ' ' || *p == '\n' || *p == '\t' || *p == '\r'))
    p++;
  return p;
}

static gboolean
json_hex4 (const char *p, const char *end, guint32 *unit)
{
  *unit = 0;
  if (end - p < 4)
    return FALSE;
  for (guint i = 0; i < 4; i++)
    {
      const int digit = g_ascii_xdigit_value (p[i]);
      if (digit < 0)
        return FALSE;
      *unit = *unit << 4 | (guint32)digit;
    }
  return TRUE;
}

/* @c as UTF-8; a half surrogate as the three bytes its number has. */
static guint
json_put_utf8 (guint32 c, char out[4])
{
  if (c < 0x80)
    {
      out[0] = (char)c;
      return 1;
    }
  if (c < 0x800)
    {
      out[0] = (char)(0xC0 | c >> 6);
      out[1] = (char)(0x80 | (c & 0x3F));
      return 2;
    }
  if (c < 0x10000)
    {
      out[0] = (char)(0xE0 | c >> 12);
      out[1] = (char)(0x80 | (c >> 6 & 0x3F));
      out[2] = (char)(0x80 | (c & 0x3F));
      return 3;
    }
  out[0] = (char)(0xF0 | c >> 18);
  out[1] = (char)(0x80 | (c >> 12 & 0x3F));
  out[2] = (char)(0x80 | (c >> 6 & 0x3F));
  out[3] = (char)(0x80 | (c & 0x3F));
  return 4;
}

/* One escape; @p is at the backslash. Returns: behind it, or NULL with the fault set. */
static const char *
json_escape (EventsJson *json, const char *p, EventsScalar *value, char out[4], guint *n)
{
  static const char from[] = "\"\\/bfnrt";
  static const char to[] = "\"\\/\b\f\n\r\t";
  guint32 unit, low;

  if (p[1] != 'u')
    {
      const char *const hit = p[1] != '\0' ? strchr (from, p[1]) : NULL;
      if (hit == NULL)
        {
          json_fail (json, value, p, "Invalid \\escape");
          return NULL;
        }
      out[0] = to[hit - from];
      *n = 1;
      return p + 2;
    }
  /* A string that ends with the text is told as a broken escape, as LMCache's reader does. */
  if (json->end - p < 7 || !json_hex4 (p + 2, json->end, &unit))
    {
      json_fail (json, value, p + 1, "Invalid \\uXXXX escape");
      return NULL;
    }
  p += 6;
  if (unit >= 0xD800 && unit < 0xDC00 && json->end - p >= 6 && p[0] == '\\' && p[1] == 'u' && json_hex4 (p + 2, json->end, &low)
      && low >= 0xDC00 && low < 0xE000)
    {
      unit = 0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00);
      p += 6;
    }
  else if (unit >= 0xD800 && unit < 0xE000)
    value->surrogate = TRUE;
  *n = json_put_utf8 (unit, out);
  return p;
}

/* A string with escapes. @p: at the first of them. Without an arena its text stays as it was written. */
static EventsType
json_string_slow (EventsJson *json, EventsScalar *value, const char *start, const char *p)
{
  /* The decoded text is never longer than the written one. */
  const char *close = p;
  char *out = NULL;
  char *q = NULL;

  if (json->arena != NULL)
    {
      while (close < json->end && *close != '"')
        close = events_json_plain_run (*close == '\\' && close + 1 < json->end ? close + 2 : close + 1, json->end);
      out = q = events_arena_alloc (json->arena, (gsize)(MIN (close, json->end) - start));
      if (out == NULL)
        {
          json->no_memory = TRUE;
          return json_fail (json, value, p, "Too much text for one request");
        }
      memcpy (q, start, (gsize)(p - start));
      q += p - start;
    }
  for (;;)
    {
      char bytes[4];
      guint n = 0;
      if (p >= json->end || (*p == '\\' && p + 1 == json->end))
        return json_fail (json, value, start - 1, "Unterminated string starting at");
      if (*p == '"')
        break;
      if (*p != '\\')
        return json_fail (json, value, p, "Invalid control character at");
      p = json_escape (json, p, value, bytes, &n);
      if (p == NULL)
        return EVENTS_ERROR;
      const char *const run = p;
      p = events_json_plain_run (p, json->end);
      if (q != NULL)
        {
          memcpy (q, bytes, n);
          q += n;
          memcpy (q, run, (gsize)(p - run));
          q += p - run;
        }
    }
  value->text.data = (const guint8 *)(out != NULL ? out : start);
  value->text.len = (gsize)(out != NULL ? q - out : p - start);
  json->pos = p + 1;
  return EVENTS_STRING;
}

/* @p: behind the opening quote. */
static inline EventsType
json_string (EventsJson *json, EventsScalar *value, const char *start)
{
  const char *const p = events_json_plain_run (start, json->end);

  value->type = EVENTS_STRING;
  value->surrogate = FALSE;
  if (G_LIKELY (p < json->end && *p == '"'))
    {
      value->text.data = (const guint8 *)start;
      value->text.len = (gsize)(p - start);
      json->pos = p + 1;
      return EVENTS_STRING;
    }
  return json_string_slow (json, value, start, p);
}

/* Powers of ten that are exact doubles. */
static const double json_tens[] = { 1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                    1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22 };

/* The text is a number of JSON's grammar: digits, and with @digits, @scale what they are without the point. */
static double
json_double (const char *text, gsize len, gboolean negative, guint64 digits, gboolean exact, gint64 scale)
{
  char buffer[64];
  double result;

  /* Both sides exact and one rounding: the nearest double. */
  if (exact && digits <= G_GUINT64_CONSTANT (1) << 53 && scale >= -22 && scale <= 22)
    {
      result = scale < 0 ? (double)digits / json_tens[-scale] : (double)digits * json_tens[scale];
      return negative ? -result : result;
    }
  if (len < sizeof buffer)
    {
      memcpy (buffer, text, len);
      buffer[len] = '\0';
      return g_ascii_strtod (buffer, NULL);
    }
  char *const copy = g_strndup (text, len);
  result = g_ascii_strtod (copy, NULL);
  g_free (copy);
  return result;
}

/* Digits from @p on, into @value as long as they fit. */
static inline const char *
json_digits (const char *p, const char *end, guint64 *value, gboolean *exact)
{
  guint64 v = *value;

  for (; p < end && (guchar)(*p - '0') < 10; p++)
    {
      const guint digit = (guint)(*p - '0');
      if (G_UNLIKELY (v > (G_MAXUINT64 - digit) / 10))
        *exact = FALSE;
      v = v * 10 + digit;
    }
  *value = v;
  return p;
}

static void
json_integer (EventsScalar *value, gboolean negative, guint64 digits, gboolean exact, const char *text, gsize len)
{
  value->type = EVENTS_BIGINT;
  value->text = (LmtSpan){ (const guint8 *)text, len };
  if (!exact)
    return;
  if (negative ? digits <= (guint64)G_MAXINT64 + 1 : digits <= G_MAXINT64)
    {
      value->type = EVENTS_INT;
      value->v.i = negative ? (gint64)(0 - digits) : (gint64)digits;
    }
  else if (!negative)
    {
      value->type = EVENTS_UINT;
      value->v.u = digits;
    }
}

static EventsType
json_number (EventsJson *json, EventsScalar *value, const char *start)
{
  const gboolean negative = *start == '-';
  const char *p = start + negative;
  const char *const whole = p;
  const char *q;
  guint64 digits = 0;
  gint64 scale = 0;
  gboolean exact = TRUE, real = FALSE;

  value->surrogate = FALSE;
  if (p < json->end && *p == '0')
    p++;
  else
    p = json_digits (p, json->end, &digits, &exact);
  if (p == whole)
    return json_fail (json, value, start, "Expecting value");
  const gsize n_digits = (gsize)(p - whole);
  if (json->end - p >= 2 && *p == '.' && g_ascii_isdigit (p[1]))
    {
      q = p + 1;
      p = json_digits (q, json->end, &digits, &exact);
      scale = -(gint64)(p - q);
      real = TRUE;
    }
  if (p < json->end && (*p == 'e' || *p == 'E'))
    {
      q = p + 1;
      const gboolean down = q < json->end && *q == '-';
      guint64 exponent = 0;
      gboolean fits = TRUE;
      if (q < json->end && (*q == '-' || *q == '+'))
        q++;
      if (q < json->end && g_ascii_isdigit (*q))
        {
          p = json_digits (q, json->end, &exponent, &fits);
          exact = exact && fits && exponent < 1000;
          scale += exact ? (down ? -(gint64)exponent : (gint64)exponent) : 0;
          real = TRUE;
        }
    }
  json->pos = p;
  if (!real && n_digits > JSON_MAX_DIGITS)
    {
      json->too_deep = TRUE;
      return json_fail (json, value, start, "Integer of too many digits");
    }
  if (!real)
    {
      json_integer (value, negative, digits, exact, start, (gsize)(p - start));
      return value->type;
    }
  value->type = EVENTS_FLOAT;
  value->v.f = json_double (start, (gsize)(p - start), negative, digits, exact, scale);
  return EVENTS_FLOAT;
}

static gboolean
json_word (EventsJson *json, const char *p, const char *word, gsize len)
{
  if ((gsize)(json->end - p) < len || memcmp (p, word, len) != 0)
    return FALSE;
  json->pos = p + len;
  return TRUE;
}

static EventsType
json_words (EventsJson *json, EventsScalar *value, const char *p)
{
  value->surrogate = FALSE;
  if (json_word (json, p, "true", 4) || json_word (json, p, "false", 5))
    {
      value->v.b = *p == 't';
      return value->type = EVENTS_BOOL;
    }
  if (json_word (json, p, "null", 4))
    return value->type = EVENTS_NULL;
  if (json_word (json, p, "NaN", 3) || json_word (json, p, "Infinity", 8) || json_word (json, p, "-Infinity", 9))
    {
      json->words = TRUE;
      value->v.f = *p == 'N' ? (double)NAN : *p == '-' ? -(double)INFINITY : (double)INFINITY;
      return value->type = EVENTS_FLOAT;
    }
  return json_fail (json, value, p, "Expecting value");
}

static EventsType
json_open (EventsJson *json, EventsScalar *value, const char *p)
{
  const guint64 bit = G_GUINT64_CONSTANT (1) << (json->depth & 63);

  if (json->depth >= json->max_depth)
    {
      json->too_deep = TRUE;
      return json_fail (json, value, p, "Nested too deep");
    }
  if (*p == '{')
    json->stack[json->depth >> 6] |= bit;
  else
    json->stack[json->depth >> 6] &= ~bit;
  json->depth++;
  json->fresh = TRUE;
  json->pos = p + 1;
  value->surrogate = FALSE;
  value->text = (LmtSpan){ (const guint8 *)p, 0 };
  return value->type = *p == '{' ? EVENTS_OBJECT : EVENTS_ARRAY;
}

EventsType
events_json_next (EventsJson *json, EventsScalar *value)
{
  const char *const p = json_blanks (json->pos, json->end);

  if (G_UNLIKELY (json->fault != NULL || p >= json->end))
    return json_fail (json, value, p, "Expecting value");
  json->last = p;
  switch (*p)
    {
    case '"':
      return json_string (json, value, p + 1);
    case '{':
    case '[':
      return json_open (json, value, p);
    case '0' ... '9':
      return json_number (json, value, p);
    case '-':
      if (json->end - p > 1 && p[1] == 'I')
        return json_words (json, value, p);
      return json_number (json, value, p);
    default:
      return json_words (json, value, p);
    }
}

static gboolean
json_close (EventsJson *json, const char *p)
{
  json->depth--;
  json->fresh = FALSE;
  json->pos = p + 1;
  return FALSE;
}

gboolean
events_json_member (EventsJson *json, EventsScalar *name)
{
  const char *p = json_blanks (json->pos, json->end);

  if (json->fault != NULL)
    return FALSE;
  if (p < json->end && *p == '}')
    return json_close (json, p);
  if (!json->fresh)
    {
      if (p >= json->end || *p != ',')
        {
          json_fail (json, name, p, "Expecting ',' delimiter");
          return FALSE;
        }
      p = json_blanks (p + 1, json->end);
    }
  json->fresh = FALSE;
  if (p >= json->end || *p != '"')
    {
      json_fail (json, name, p, "Expecting property name enclosed in double quotes");
      return FALSE;
    }
  if (json_string (json, name, p + 1) == EVENTS_ERROR)
    return FALSE;
  p = json_blanks (json->pos, json->end);
  if (p >= json->end || *p != ':')
    {
      json_fail (json, name, p, "Expecting ':' delimiter");
      return FALSE;
    }
  json->pos = p + 1;
  return TRUE;
}

gboolean
events_json_element (EventsJson *json)
{
  const char *const p = json_blanks (json->pos, json->end);

  if (json->fault != NULL)
    return FALSE;
  if (p < json->end && *p == ']')
    return json_close (json, p);
  if (!json->fresh)
    {
      if (p >= json->end || *p != ',')
        {
          json_fail (json, NULL, p, "Expecting ',' delimiter");
          return FALSE;
        }
      json->pos = p + 1;
    }
  json->fresh = FALSE;
  return TRUE;
}

gboolean
events_json_skip (EventsJson *json, const EventsScalar *head, LmtSpan *source)
{
  EventsArena *const arena = json->arena;

  const char *start = json->last;

  if (head->type == EVENTS_ERROR || json->fault != NULL)
    return FALSE;
  if (head->type == EVENTS_OBJECT || head->type == EVENTS_ARRAY)
    {
      start = (const char *)head->text.data;
      const guint32 outside = json->depth - 1;
      EventsScalar inner;

      json->arena = NULL; /* escapes are checked, not kept */
      while (json->depth > outside && json->fault == NULL)
        {
          const guint32 top = json->depth - 1;
          const gboolean object = (json->stack[top >> 6] >> (top & 63) & 1) != 0;
          if (object ? events_json_member (json, &inner) : events_json_element (json))
            events_json_next (json, &inner);
        }
      json->arena = arena;
      if (json->fault != NULL)
        return FALSE;
    }
  if (source != NULL)
    *source = (LmtSpan){ (const guint8 *)start, (gsize)(json->pos - start) };
  return TRUE;
}

gboolean
events_json_at_end (EventsJson *json)
{
  json->pos = json_blanks (json->pos, json->end);
  return json->fault == NULL && json->pos == json->end;
}
