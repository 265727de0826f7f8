/* SPDX-License-Identifier: Apache-2.0 */
/* The words of cli.md 8.6 as values: whole text, finite, C locale, no blanks, no underscores. */
#include "lmt-option.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "lmt-option-private.h"

__extension__ typedef unsigned __int128 ValueWide;

typedef struct
{
  const char *name;
  guint64 factor;
} ValueUnit;

static const ValueUnit size_units[] = {
  { "", 1 },
  { "B", 1 },
  { "K", G_GUINT64_CONSTANT (1) << 10 },
  { "KiB", G_GUINT64_CONSTANT (1) << 10 },
  { "kB", G_GUINT64_CONSTANT (1000) },
  { "M", G_GUINT64_CONSTANT (1) << 20 },
  { "MiB", G_GUINT64_CONSTANT (1) << 20 },
  { "MB", G_GUINT64_CONSTANT (1000000) },
  { "G", G_GUINT64_CONSTANT (1) << 30 },
  { "GiB", G_GUINT64_CONSTANT (1) << 30 },
  { "GB", G_GUINT64_CONSTANT (1000000000) },
  { "T", G_GUINT64_CONSTANT (1) << 40 },
  { "TiB", G_GUINT64_CONSTANT (1) << 40 },
  { "TB", G_GUINT64_CONSTANT (1000000000000) },
  { "P", G_GUINT64_CONSTANT (1) << 50 },
  { "PiB", G_GUINT64_CONSTANT (1) << 50 },
  { "PB", G_GUINT64_CONSTANT (1000000000000000) },
  { "E", G_GUINT64_CONSTANT (1) << 60 },
  { "EiB", G_GUINT64_CONSTANT (1) << 60 },
  { "EB", G_GUINT64_CONSTANT (1000000000000000000) },
  { NULL, 0 },
};

/* Falling: a duration of several parts names them in this order. */
static const ValueUnit duration_units[] = {
  { "d", G_GUINT64_CONSTANT (86400000000000) },
  { "h", G_GUINT64_CONSTANT (3600000000000) },
  { "min", G_GUINT64_CONSTANT (60000000000) },
  { "s", G_GUINT64_CONSTANT (1000000000) },
  { "ms", G_GUINT64_CONSTANT (1000000) },
  { "us", G_GUINT64_CONSTANT (1000) },
  { "ns", 1 },
  { NULL, 0 },
};

static const ValueUnit count_units[] = {
  { "", 1 },
  { "k", G_GUINT64_CONSTANT (1000) },
  { "M", G_GUINT64_CONSTANT (1000000) },
  { "G", G_GUINT64_CONSTANT (1000000000) },
  { "T", G_GUINT64_CONSTANT (1000000000000) },
  { NULL, 0 },
};

const char *
lmt_option_form (guint32 type)
{
  switch (type)
    {
    case LMT_OPTION_TYPE_INT:
    case LMT_OPTION_TYPE_UINT:
      return "a whole number";
    case LMT_OPTION_TYPE_DOUBLE:
      return "a number";
    case LMT_OPTION_TYPE_SIZE:
      return "a size (4096, 4KiB, 4kB, 1.5GiB)";
    case LMT_OPTION_TYPE_DURATION:
      return "a duration (250ms, 1.5s, 1h30min; seconds without unit)";
    case LMT_OPTION_TYPE_COUNT:
      return "a count (1000, 10k, 1M)";
    case LMT_OPTION_TYPE_FRACTION:
      return "a fraction (0.05 or 5%)";
    case LMT_OPTION_TYPE_BOOL:
      return "true or false";
    case LMT_OPTION_TYPE_RANGE:
      return "a range (START..END, either may be empty)";
    case LMT_OPTION_TYPE_JSON:
      return "a JSON value";
    default:
      return "a text";
    }
}

static gboolean
value_fail (const char *text, GError **error, const char *form)
{
  g_set_error (error, LMT_ERROR, LMT_ERROR_OPTION, "expected %s, found \"%s\"", form, text);
  return FALSE;
}

/* Digits with an optional fraction: value = digits / 10^decimals. At most 18 decimals count; more are dropped. */
typedef struct
{
  ValueWide digits;
  ValueWide scale;
  gboolean fraction;
} ValueDecimal;

static const char *
value_scan_decimal (const char *p, ValueDecimal *out)
{
  const char *const start = p;

  out->digits = 0;
  out->scale = 1;
  out->fraction = FALSE;
  for (; g_ascii_isdigit (*p); p++)
    {
      if (out->digits > G_MAXUINT64)
        return NULL;
      out->digits = out->digits * 10 + (guint)(*p - '0');
    }
  if (p == start || out->digits > G_MAXUINT64)
    return NULL;
  if (*p != '.')
    return p;

  const char *const point = p++;
  out->fraction = TRUE;
  for (; g_ascii_isdigit (*p); p++)
    if (p - point <= 18 && out->digits <= G_MAXUINT64)
      {
        out->digits = out->digits * 10 + (guint)(*p - '0');
        out->scale *= 10;
      }
  return p == point + 1 ? NULL : p;
}

/* Rounded down; FALSE: above 2^64-1. */
static gboolean
value_scale (const ValueDecimal *decimal, guint64 factor, gboolean nearest, guint64 *value, gboolean *whole)
{
  /* digits is below 10 * 2^64 and factor at most 2^60: the product fits 128 bits. */
  const ValueWide product = decimal->digits * factor;
  const ValueWide quotient = (product + (nearest ? decimal->scale / 2 : 0)) / decimal->scale;
  if (quotient > G_MAXUINT64)
    return FALSE;
  *value = (guint64)quotient;
  if (whole != NULL)
    *whole = product % decimal->scale == 0;
  return TRUE;
}

static const ValueUnit *
value_find_unit (const ValueUnit *units, const char *text, gsize len)
{
  for (; units->name != NULL; units++)
    if (strlen (units->name) == len && memcmp (units->name, text, len) == 0)
      return units;
  return NULL;
}

static gboolean
value_scan_whole (const char *text, gboolean sign, gint64 *signed_value, guint64 *value)
{
  const char *p = text;
  char *end = NULL;

  if (*p == '+' || (sign && *p == '-'))
    p++;
  if (*p == '\0' || strspn (p, "0123456789") != strlen (p))
    return FALSE;
  errno = 0;
  if (sign)
    *signed_value = g_ascii_strtoll (text, &end, 10);
  else
    *value = g_ascii_strtoull (p, &end, 10);
  return errno == 0 && *end == '\0';
}

gboolean
lmt_parse_int (const char *text, gint64 *value, GError **error)
{
  g_return_val_if_fail (text != NULL && value != NULL, FALSE);
  gint64 result = 0;
  if (!value_scan_whole (text, TRUE, &result, NULL))
    return value_fail (text, error, lmt_option_form (LMT_OPTION_TYPE_INT));
  *value = result;
  return TRUE;
}

gboolean
lmt_parse_uint (const char *text, guint64 *value, GError **error)
{
  g_return_val_if_fail (text != NULL && value != NULL, FALSE);
  guint64 result = 0;
  if (!value_scan_whole (text, FALSE, NULL, &result))
    return value_fail (text, error, "a whole number of at least 0");
  *value = result;
  return TRUE;
}

gboolean
lmt_parse_double (const char *text, double *value, GError **error)
{
  g_return_val_if_fail (text != NULL && value != NULL, FALSE);

  /* The grammar first: strtod() would take blanks, hex, nan and inf. */
  const char *p = text;
  if (*p == '+' || *p == '-')
    p++;
  const gsize whole = strspn (p, "0123456789");
  p += whole;
  gsize decimals = 0;
  if (*p == '.')
    {
      decimals = strspn (++p, "0123456789");
      p += decimals;
    }
  gboolean good = whole + decimals > 0;
  if (good && (*p == 'e' || *p == 'E'))
    {
      p++;
      if (*p == '+' || *p == '-')
        p++;
      const gsize exponent = strspn (p, "0123456789");
      good = exponent > 0;
      p += exponent;
    }
  if (!good || *p != '\0')
    return value_fail (text, error, lmt_option_form (LMT_OPTION_TYPE_DOUBLE));

  const double result = g_ascii_strtod (text, NULL);
  if (!isfinite (result))
    return value_fail (text, error, "a finite number");
  *value = result;
  return TRUE;
}

gboolean
lmt_parse_size (const char *text, gboolean unit_required, guint64 *bytes, GError **error)
{
  g_return_val_if_fail (text != NULL && bytes != NULL, FALSE);

  const char *const form = unit_required ? "a size with its unit (4KiB, 64GiB, 4kB)" : lmt_option_form (LMT_OPTION_TYPE_SIZE);
  ValueDecimal decimal;
  const char *const unit_text = value_scan_decimal (text, &decimal);
  const ValueUnit *const unit = unit_text == NULL ? NULL : value_find_unit (size_units, unit_text, strlen (unit_text));
  if (unit == NULL || (unit_required && *unit_text == '\0') || (unit->factor == 1 && decimal.fraction))
    return value_fail (text, error, form);
  if (!value_scale (&decimal, unit->factor, FALSE, bytes, NULL))
    return value_fail (text, error, "a size below 16EiB");
  return TRUE;
}

gboolean
lmt_parse_duration (const char *text, gint64 *ns, GError **error)
{
  g_return_val_if_fail (text != NULL && ns != NULL, FALSE);

  const char *const form = lmt_option_form (LMT_OPTION_TYPE_DURATION);
  const ValueUnit *last = NULL;
  guint64 total = 0;
  const char *p = text;

  do
    {
      ValueDecimal decimal;
      const char *const unit_text = value_scan_decimal (p, &decimal);
      if (unit_text == NULL)
        return value_fail (text, error, form);
      gsize len = 0;
      while (g_ascii_isalpha (unit_text[len]))
        len++;
      /* No unit: seconds, and nothing else may stand beside it. */
      const gboolean bare = len == 0 && p == text && *unit_text == '\0';
      const ValueUnit *const unit
          = bare ? value_find_unit (duration_units, "s", 1) : value_find_unit (duration_units, unit_text, len);
      if (unit == NULL || (last != NULL && unit <= last) || (decimal.fraction && unit_text[len] != '\0'))
        return value_fail (text, error, form);
      guint64 part = 0;
      if (!value_scale (&decimal, unit->factor, TRUE, &part, NULL) || part > G_MAXINT64 || total + part > G_MAXINT64)
        return value_fail (text, error, "a duration below 292 years");
      total += part;
      last = unit;
      p = unit_text + len;
    }
  while (*p != '\0');
  *ns = (gint64)total;
  return TRUE;
}

gboolean
lmt_parse_count (const char *text, guint64 *value, GError **error)
{
  g_return_val_if_fail (text != NULL && value != NULL, FALSE);

  ValueDecimal decimal;
  gboolean whole = FALSE;
  guint64 result = 0;
  const char *const unit_text = value_scan_decimal (text, &decimal);
  const ValueUnit *const unit = unit_text == NULL ? NULL : value_find_unit (count_units, unit_text, strlen (unit_text));
  if (unit == NULL || !value_scale (&decimal, unit->factor, FALSE, &result, &whole) || !whole
      || (decimal.fraction && unit->factor == 1))
    return value_fail (text, error, lmt_option_form (LMT_OPTION_TYPE_COUNT));
  *value = result;
  return TRUE;
}

gboolean
lmt_parse_fraction (const char *text, double *value, GError **error)
{
  g_return_val_if_fail (text != NULL && value != NULL, FALSE);

  const gsize len = strlen (text);
  const gboolean percent = len > 0 && text[len - 1] == '%';
  g_autofree char *number = g_strndup (text, percent ? len - 1 : len);
  double result = 0;
  if (!lmt_parse_double (number, &result, NULL) || signbit (result))
    return value_fail (text, error, lmt_option_form (LMT_OPTION_TYPE_FRACTION));
  *value = percent ? result / 100.0 : result;
  return TRUE;
}

gboolean
lmt_parse_time (const char *text, LmtTimeValue *value, GError **error)
{
  static const char form[] = "a time (12.5, +12s, 50%, @1758400000.25 or 2025-09-20T20:26:40Z)";

  g_return_val_if_fail (text != NULL && value != NULL, FALSE);
  LmtTimeValue result = { .kind = LMT_TIME_FROM_START_NS };
  const gsize len = strlen (text);
  if (*text == '@')
    {
      result.kind = LMT_TIME_EPOCH_S;
      if (!lmt_parse_double (text + 1, &result.epoch_s, NULL))
        return value_fail (text, error, form);
    }
  else if (len > 0 && text[len - 1] == '%')
    {
      result.kind = LMT_TIME_FRACTION;
      if (!lmt_parse_fraction (text, &result.fraction, NULL) || result.fraction > 1)
        return value_fail (text, error, form);
    }
  else if (strpbrk (text, "T-") != NULL)
    {
      /* Without a zone GLib gives NULL here, as wanted: nobody knows whose clock was meant. */
      g_autoptr (GDateTime) time = strpbrk (text, " \t") == NULL ? g_date_time_new_from_iso8601 (text, NULL) : NULL;
      if (time == NULL)
        return value_fail (text, error, form);
      result.kind = LMT_TIME_EPOCH_S;
      result.epoch_s = (double)g_date_time_to_unix (time) + g_date_time_get_microsecond (time) / 1e6;
    }
  else if (!lmt_parse_duration (*text == '+' ? text + 1 : text, &result.ns, NULL))
    return value_fail (text, error, form);
  *value = result;
  return TRUE;
}

char *
lmt_format_size (guint64 bytes)
{
  static const char *const names[] = { "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
  char number[32];

  if (bytes < 1024)
    return g_strdup_printf ("%" G_GUINT64_FORMAT, bytes);
  guint unit = 0;
  double value = (double)bytes / 1024;
  /* 1023.95 would print as 1024.0. */
  while (value >= 1023.95 && unit + 1 < G_N_ELEMENTS (names))
    {
      value /= 1024;
      unit++;
    }
  g_ascii_formatd (number, sizeof number, "%.1f", value);
  return g_strdup_printf ("%" G_GUINT64_FORMAT " (%s %s)", bytes, number, names[unit]);
}

static guint
value_distance (const char *a, const char *b)
{
  const gsize n = strlen (a);
  const gsize m = strlen (b);
  if (n > m + 2 || m > n + 2 || m > 100)
    return 3;

  guint row[104];
  for (gsize j = 0; j <= m; j++)
    row[j] = (guint)j;
  for (gsize i = 1; i <= n; i++)
    {
      guint diagonal = row[0];
      row[0] = (guint)i;
      for (gsize j = 1; j <= m; j++)
        {
          const guint above = row[j];
          const guint change = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
          row[j] = MIN (change, MIN (above, row[j - 1]) + 1);
          diagonal = above;
        }
    }
  return row[m];
}

const char *
lmt_closest (const char *word, const char *const *words)
{
  const char *best = NULL;
  guint best_distance = 3;

  g_return_val_if_fail (word != NULL && words != NULL, NULL);
  for (; *words != NULL; words++)
    {
      const guint distance = value_distance (word, *words);
      /* A word that would change altogether was not meant. */
      if (distance < best_distance && distance < strlen (word))
        {
          best = *words;
          best_distance = distance;
        }
    }
  return best;
}
