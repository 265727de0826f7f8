// SPDX-License-Identifier: Apache-2.0
/* msgpack straight to JSON text: nothing is converted that JSON can say as it is. */
#include "events-parse.h"

#include <lmtrace/lmt-cursor.h>
#include <lmtrace/lmt-json.h>

#include <math.h>
#include <string.h>

/* ---- numbers ---- */

static const char text_pairs[]
    = "00010203040506070809101112131415161718192021222324252627282930313233343536373839404142434445464748"
      "49505152535455565758596061626364656667686970717273747576777879808182838485868788899091929394959697"
      "9899";

/* Decimal digits of @value in front of @end; returns where they begin. */
static char *
text_digits (guint64 value, char *end)
{
  char *p = end;

  while (value >= 100)
    {
      const guint pair = (guint)(value % 100) * 2;
      value /= 100;
      *--p = text_pairs[pair + 1];
      *--p = text_pairs[pair];
    }
  if (value >= 10)
    {
      *--p = text_pairs[value * 2 + 1];
      *--p = text_pairs[value * 2];
    }
  else
    *--p = (char)('0' + value);
  return p;
}

static void
text_append_uint (GString *out, guint64 value, gboolean negative)
{
  char buffer[24];
  char *p = text_digits (value, buffer + sizeof buffer);

  if (negative)
    *--p = '-';
  g_string_append_len (out, p, buffer + sizeof buffer - p);
}

enum
{
  TEXT_MAX_DECIMALS = 9,
};

/**
 * Times and sizes in whole arithmetic: the value is m / 2^s exactly; the fewest decimals k whose nearest number of that many
 * decimals lies within half a step of the value read back as it, so it is the shortest text and the closest one.
 */
static gboolean
text_append_plain_double (GString *out, double value)
{
  static const guint32 tens[TEXT_MAX_DECIMALS + 1]
      = { 1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000, 1000000000 };
  guint64 bits;

  memcpy (&bits, &value, sizeof bits);
  const int exponent = (int)(bits >> 52 & 0x7FF) - 1075;
  const guint64 m = (bits & ((G_GUINT64_CONSTANT (1) << 52) - 1)) | G_GUINT64_CONSTANT (1) << 52;

  /* From 2^-10 up to 2^53; beyond, the general way. */
  if (exponent > 0 || exponent < -62)
    return FALSE;

  const guint shift = (guint)-exponent;
  for (guint k = 0; k <= TEXT_MAX_DECIMALS; k++)
    {
      const unsigned __int128 scaled = (unsigned __int128)m * tens[k];
      const unsigned __int128 half = shift > 0 ? (unsigned __int128)1 << (shift - 1) : 0;
      const unsigned __int128 digits = (scaled + half) >> shift;
      const unsigned __int128 back = digits << shift;
      const unsigned __int128 off = back > scaled ? back - scaled : scaled - back;
      /* Half a step of the double, in the same unit; at a power of two the step below is half as wide. */
      const unsigned __int128 reach
          = m == G_GUINT64_CONSTANT (1) << 52 ? (unsigned __int128)tens[k] : (unsigned __int128)tens[k] * 2;
      char buffer[48];
      char *p = buffer + sizeof buffer;
      guint64 fraction, whole;

      if (off * 4 >= reach)
        continue;
      if (digits <= G_MAXUINT64)
        {
          whole = (guint64)digits / tens[k];
          fraction = (guint64)digits % tens[k];
        }
      else
        {
          whole = (guint64)(digits / tens[k]);
          fraction = (guint64)(digits % tens[k]);
        }
      if (k == 0)
        *--p = '0';
      for (guint i = 0; i < k; i++, fraction /= 10)
        *--p = (char)('0' + fraction % 10);
      *--p = '.';
      p = text_digits (whole, p);
      if (bits >> 63)
        *--p = '-';
      g_string_append_len (out, p, buffer + sizeof buffer - p);
      return TRUE;
    }
  return FALSE;
}

static gboolean
text_append_double (GString *out, double value, const char **reason)
{
  char buffer[32];

  if (!isfinite (value))
    {
      *reason = isnan (value) ? "a NaN" : "an infinite number";
      return FALSE;
    }
  if (!text_append_plain_double (out, value))
    g_string_append (out, lmt_json_format_double (value, buffer));
  return TRUE;
}

/* ---- strings ---- */

/* Only what JSON must escape: quotes, backslashes, control characters. */
static gboolean
text_append_string (GString *out, LmtSpan text, const char **reason)
{
  static const char hex[] = "0123456789abcdef";
  const char *p = (const char *)text.data;
  const char *const end = p + text.len;

  if (!events_utf8_valid (p, text.len))
    {
      *reason = "a string that is not UTF-8";
      return FALSE;
    }
  g_string_append_c (out, '"');
  while (p < end)
    {
      const char *run = p;
      p = events_json_plain_run (p, end);
      g_string_append_len (out, run, p - run);
      if (p >= end)
        break;
      const guchar c = (guchar)*p++;
      if (c == '"' || c == '\\')
        {
          g_string_append_c (out, '\\');
          g_string_append_c (out, (char)c);
        }
      else
        {
          const char escape[6] = { '\\', 'u', '0', '0', hex[c >> 4], hex[c & 15] };
          g_string_append_len (out, escape, 6);
        }
    }
  g_string_append_c (out, '"');
  return TRUE;
}

/* ---- the walk ---- */

typedef struct
{
  guint32 left; /* elements, or members */
  guint8 map;
  guint8 first;
} TextLevel;

static gboolean
text_append_scalar (GString *out, const LmtToken *token, const char **reason)
{
  switch (token->type)
    {
    case LMT_TYPE_NIL:
      g_string_append_len (out, "null", 4);
      return TRUE;
    case LMT_TYPE_BOOL:
      g_string_append (out, token->v.b ? "true" : "false");
      return TRUE;
    case LMT_TYPE_UINT:
      text_append_uint (out, token->v.u, FALSE);
      return TRUE;
    case LMT_TYPE_INT:
      text_append_uint (out, 0 - (guint64)token->v.i, TRUE);
      return TRUE;
    case LMT_TYPE_FLOAT:
      return text_append_double (out, token->v.f, reason);
    case LMT_TYPE_STR:
      return text_append_string (out, token->span, reason);
    case LMT_TYPE_BIN:
      *reason = "bytes";
      return FALSE;
    case LMT_TYPE_EXT:
      *reason = "a msgpack extension";
      return FALSE;
    default:
      *reason = "broken msgpack";
      return FALSE;
    }
}

static gboolean
text_walk (LmtCursor *cursor, GString *out, const char **reason)
{
  TextLevel levels[LMT_CURSOR_MAX_DEPTH];
  guint depth = 0;

  do
    {
      LmtToken token;
      if (depth > 0)
        {
          TextLevel *const top = &levels[depth - 1];
          if (top->left == 0)
            {
              g_string_append_c (out, top->map ? '}' : ']');
              depth--;
              continue;
            }
          top->left--;
          if (!top->first)
            g_string_append_c (out, ',');
          top->first = FALSE;
          if (top->map)
            {
              LmtSpan name;
              if (!lmt_cursor_read_str (cursor, &name))
                {
                  *reason = "a name that is no string";
                  return FALSE;
                }
              if (!text_append_string (out, name, reason))
                return FALSE;
              g_string_append_c (out, ':');
            }
        }
      lmt_cursor_next (cursor, &token);
      if (token.type == LMT_TYPE_ARRAY || token.type == LMT_TYPE_MAP)
        {
          if (depth == LMT_CURSOR_MAX_DEPTH)
            {
              *reason = "nesting too deep";
              return FALSE;
            }
          g_string_append_c (out, token.type == LMT_TYPE_MAP ? '{' : '[');
          levels[depth++] = (TextLevel){ token.count, token.type == LMT_TYPE_MAP, TRUE };
        }
      else if (!text_append_scalar (out, &token, reason))
        return FALSE;
    }
  while (depth > 0);
  return TRUE;
}

gboolean
events_json_from_msgpack (LmtSpan value, GString *out, const char **reason)
{
  const gsize before = out->len;
  const char *why = NULL;
  LmtCursor cursor;

  lmt_cursor_init (&cursor, value);
  if (text_walk (&cursor, out, &why))
    return TRUE;
  g_string_truncate (out, before);
  if (reason != NULL)
    *reason = why;
  return FALSE;
}
