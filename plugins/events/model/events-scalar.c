// SPDX-License-Identifier: Apache-2.0
/* What the coordinator takes for an integer, a number, a truth value, a string: the table of events.md 2.1 and golden
 * scalar_leniency.json. */
#include "events-batch.h"

#include <math.h>
#include <string.h>

enum
{
  SCALAR_MAX_DIGITS = 4300,    /* more are refused by LMCache, whatever they say */
  SCALAR_MAX_TEXT = 64 * 1024, /* no number is written longer */
};

static const double scalar_two_63 = 9223372036854775808.0;

static gboolean
scalar_refuse (const char **type, const char **msg, const char *what, const char *text)
{
  *type = what;
  *msg = text;
  return FALSE;
}

static gboolean
refuse_unicode (const char **type, const char **msg)
{
  return scalar_refuse (type, msg, "string_unicode", "Input should be a valid string, half a surrogate pair found");
}

/* ---- strings that hold numbers ---- */

/* Bytes of the white space character at @p (Unicode's White_Space), 0: none. */
static gsize
blank_at (const guint8 *p, const guint8 *end)
{
  if (p >= end)
    return 0;
  if (*p == ' ' || (*p >= '\t' && *p <= '\r'))
    return 1;
  if (*p == 0xC2 && end - p >= 2)
    return p[1] == 0x85 || p[1] == 0xA0 ? 2 : 0;
  if (end - p < 3)
    return 0;
  if (*p == 0xE1)
    return p[1] == 0x9A && p[2] == 0x80 ? 3 : 0; /* U+1680 */
  if (*p == 0xE2)
    {
      if (p[1] == 0x80)
        return p[2] <= 0x8A || p[2] == 0xA8 || p[2] == 0xA9 || p[2] == 0xAF ? 3 : 0;
      return p[1] == 0x81 && p[2] == 0x9F ? 3 : 0; /* U+205F */
    }
  return *p == 0xE3 && p[1] == 0x80 && p[2] == 0x80 ? 3 : 0; /* U+3000 */
}

LmtSpan
events_span_trim (LmtSpan text)
{
  const guint8 *p = text.data;
  const guint8 *end = text.data + text.len;
  gsize n;

  while ((n = blank_at (p, end)) > 0)
    p += n;
  while (p < end)
    {
      for (n = 1; n <= 3 && (gsize)(end - p) >= n; n++)
        if (blank_at (end - n, end) == n)
          break;
      if (n > 3 || (gsize)(end - p) < n)
        break;
      end -= n;
    }
  return (LmtSpan){ p, (gsize)(end - p) };
}

/* Reads digits; `_` only between two of them. Returns: behind them, or NULL. */
static const guint8 *
digits_of (const guint8 *p, const guint8 *end, guint64 *value, gboolean *fits, gsize *n)
{
  gboolean after_digit = FALSE;

  for (; p < end; p++)
    {
      const guint digit = (guint)*p - '0';
      if (*p == '_')
        {
          if (!after_digit)
            return NULL;
          after_digit = FALSE;
          continue;
        }
      if (digit > 9)
        break;
      if (*value > (G_MAXUINT64 - digit) / 10)
        *fits = FALSE;
      *value = *value * 10 + digit;
      ++*n;
      after_digit = TRUE;
    }
  return after_digit ? p : NULL;
}

/* White space, sign, leading zeros, `_` between digits and a zero fraction are allowed. */
static gboolean
int_from_text (LmtSpan text, gint64 *out, gboolean *huge, const char **type, const char **msg)
{
  static const char parsing[] = "Input should be a valid integer, unable to parse string as an integer";
  const LmtSpan trimmed = events_span_trim (text);
  const guint8 *p = trimmed.data;
  const guint8 *const end = p + trimmed.len;
  guint64 value = 0;
  gboolean fits = TRUE, negative = FALSE;
  gsize n = 0;

  if (p < end && (*p == '+' || *p == '-'))
    negative = *p++ == '-';
  /* Behind a leading zero any number of `_` may stand. */
  while (p + 1 < end && *p == '0' && (p[1] == '0' || p[1] == '_' || (guint)p[1] - '0' < 10))
    {
      p++;
      while (p + 1 < end && *p == '_')
        p++;
    }
  p = digits_of (p, end, &value, &fits, &n);
  if (p != NULL && p < end && *p == '.' && p + 1 < end)
    for (p++; p < end && *p == '0';)
      p++;
  if (p == NULL || p != end)
    return scalar_refuse (type, msg, "int_parsing", parsing);
  if (n > SCALAR_MAX_DIGITS)
    return scalar_refuse (type, msg, "int_parsing_size", "Unable to parse input string as an integer, exceeded maximum size");
  if (!fits || value > (guint64)G_MAXINT64 + (negative ? 1 : 0))
    {
      *huge = TRUE;
      *out = negative ? G_MININT64 : G_MAXINT64;
      return TRUE;
    }
  *out = negative ? (gint64)(0 - value) : (gint64)value;
  return TRUE;
}

/* Checks the form before strtod sees it, which would take hexadecimal numbers and more. @q: what is left of it without `_`. */
static gboolean
float_form (const char *p, const char *end)
{
  gboolean any = FALSE;

  if (p < end && (*p == '+' || *p == '-'))
    p++;
  for (; p < end && g_ascii_isdigit (*p); p++)
    any = TRUE;
  if (p < end && *p == '.')
    for (p++; p < end && g_ascii_isdigit (*p); p++)
      any = TRUE;
  if (!any)
    return FALSE;
  if (p < end && (*p == 'e' || *p == 'E'))
    {
      p++;
      if (p < end && (*p == '+' || *p == '-'))
        p++;
      if (p >= end || !g_ascii_isdigit (*p))
        return FALSE;
      while (p < end && g_ascii_isdigit (*p))
        p++;
    }
  return p == end;
}

static gboolean
float_word (const char *p, gsize len, double *out)
{
  static const struct
  {
    const char *word;
    double value;
  } words[] = { { "inf", (double)INFINITY }, { "infinity", (double)INFINITY }, { "nan", (double)NAN } };
  const gboolean negative = len > 0 && *p == '-';

  if (len > 0 && (*p == '-' || *p == '+'))
    {
      p++;
      len--;
    }
  for (guint i = 0; i < G_N_ELEMENTS (words); i++)
    if (len == strlen (words[i].word) && g_ascii_strncasecmp (p, words[i].word, len) == 0)
      {
        *out = negative ? -words[i].value : words[i].value;
        return TRUE;
      }
  return FALSE;
}

static gboolean
float_from_text (LmtSpan text, double *out)
{
  const LmtSpan trimmed = events_span_trim (text);
  const char *const p = (const char *)trimmed.data;
  char small[64];
  char *copy = small;
  gsize n = 0;
  gboolean good = trimmed.len > 0 && trimmed.len <= SCALAR_MAX_TEXT && p[0] != '_' && p[trimmed.len - 1] != '_';

  if (!good)
    return FALSE;
  if (trimmed.len >= sizeof small)
    copy = g_malloc (trimmed.len + 1);
  for (gsize i = 0; i < trimmed.len && good; i++)
    if (p[i] != '_')
      copy[n++] = p[i];
    else
      good = p[i + 1] != '_'; /* the last one isn't `_` */
  copy[n] = '\0';
  if (good && float_form (copy, copy + n))
    *out = g_ascii_strtod (copy, NULL);
  else
    good = good && float_word (copy, n, out);
  if (copy != small)
    g_free (copy);
  return good;
}

/* ---- the table ---- */

gboolean
events_take_int (const EventsScalar *value, gint64 *out, gboolean *huge, const char **type, const char **msg)
{
  switch (value->type)
    {
    case EVENTS_INT:
      *out = value->v.i;
      return TRUE;
    case EVENTS_UINT:
      *huge = TRUE;
      *out = G_MAXINT64;
      return TRUE;
    case EVENTS_BIGINT:
      *huge = TRUE;
      *out = value->text.len > 0 && value->text.data[0] == '-' ? G_MININT64 : G_MAXINT64;
      return TRUE;
    case EVENTS_BOOL:
      *out = value->v.b ? 1 : 0;
      return TRUE;
    case EVENTS_FLOAT:
      if (!isfinite (value->v.f))
        return scalar_refuse (type, msg, "finite_number", "Input should be a finite number");
      if (value->v.f != trunc (value->v.f))
        return scalar_refuse (type, msg, "int_from_float",
                              "Input should be a valid integer, got a number with a fractional part");
      if (fabs (value->v.f) >= scalar_two_63)
        return scalar_refuse (type, msg, "int_parsing_size", "Unable to parse input string as an integer, exceeded maximum size");
      *out = (gint64)value->v.f;
      return TRUE;
    case EVENTS_STRING:
      if (value->surrogate)
        return refuse_unicode (type, msg);
      return int_from_text (value->text, out, huge, type, msg);
    default:
      return scalar_refuse (type, msg, "int_type", "Input should be a valid integer");
    }
}

/* An integer too long for a register; what no double holds is refused. */
static gboolean
float_from_bigint (LmtSpan digits, double *out)
{
  char *const copy = g_strndup ((const char *)digits.data, digits.len);

  *out = g_ascii_strtod (copy, NULL);
  g_free (copy);
  return isfinite (*out);
}

gboolean
events_take_float (const EventsScalar *value, double *out, const char **type, const char **msg)
{
  static const char no_number[] = "Input should be a valid number";

  switch (value->type)
    {
    case EVENTS_FLOAT:
      *out = value->v.f;
      return TRUE;
    case EVENTS_INT:
      *out = (double)value->v.i;
      return TRUE;
    case EVENTS_UINT:
      *out = (double)value->v.u;
      return TRUE;
    case EVENTS_BIGINT:
      return float_from_bigint (value->text, out) || scalar_refuse (type, msg, "float_type", no_number);
    case EVENTS_BOOL:
      *out = value->v.b ? 1 : 0;
      return TRUE;
    case EVENTS_STRING:
      if (value->surrogate)
        return refuse_unicode (type, msg);
      return float_from_text (value->text, out)
             || scalar_refuse (type, msg, "float_parsing", "Input should be a valid number, unable to parse string as a number");
    default:
      return scalar_refuse (type, msg, "float_type", no_number);
    }
}

gboolean
events_take_bool (const EventsScalar *value, gboolean *out, const char **type, const char **msg)
{
  static const char *const yes[] = { "1", "true", "yes", "on", "y", "t" };
  static const char *const no[] = { "0", "false", "no", "off", "n", "f" };
  static const char parsing[] = "Input should be a valid boolean, unable to interpret input";
  static const char no_bool[] = "Input should be a valid boolean";
  const char *const text = (const char *)value->text.data;

  switch (value->type)
    {
    case EVENTS_BOOL:
      *out = value->v.b ? TRUE : FALSE;
      return TRUE;
    case EVENTS_INT:
      *out = value->v.i == 1;
      return value->v.i == 0 || value->v.i == 1 || scalar_refuse (type, msg, "bool_parsing", parsing);
    case EVENTS_FLOAT:
      if (!(value->v.f == trunc (value->v.f) && fabs (value->v.f) < scalar_two_63))
        return scalar_refuse (type, msg, "bool_type", no_bool);
      *out = value->v.f == 1;
      return value->v.f == 0 || value->v.f == 1 || scalar_refuse (type, msg, "bool_parsing", parsing);
    case EVENTS_STRING:
      if (value->surrogate)
        return refuse_unicode (type, msg);
      for (guint i = 0; i < G_N_ELEMENTS (yes); i++)
        {
          if (value->text.len == strlen (yes[i]) && g_ascii_strncasecmp (text, yes[i], value->text.len) == 0)
            return *out = TRUE;
          if (value->text.len == strlen (no[i]) && g_ascii_strncasecmp (text, no[i], value->text.len) == 0)
            {
              *out = FALSE;
              return TRUE;
            }
        }
      return scalar_refuse (type, msg, "bool_parsing", parsing);
    default:
      return scalar_refuse (type, msg, "bool_type", no_bool);
    }
}

gboolean
events_take_string (const EventsScalar *value, LmtSpan *out, const char **type, const char **msg)
{
  if (value->type != EVENTS_STRING)
    return scalar_refuse (type, msg, "string_type", "Input should be a valid string");
  /* LMCache lets half a pair in and then can't print it: D21. */
  if (value->surrogate)
    return refuse_unicode (type, msg);
  *out = value->text;
  return TRUE;
}
