// SPDX-License-Identifier: Apache-2.0
#include "work-json.h"

#include <lmtrace/lmt-option.h>

enum
{
  VALUES_MAX = 65536,
};
#define ZIPF_MAX G_GUINT64_CONSTANT (1000000000000)

static char *
shown (const LmtJson *json)
{
  LmtJsonType type = lmt_json_get_type (json);

  if (type == LMT_JSON_OBJECT || type == LMT_JSON_ARRAY || (type == LMT_JSON_STRING && lmt_json_get_string_len (json) > 60))
    return g_strdup (lmt_json_type_name (json));
  return lmt_json_to_text (json, LMT_JSON_STYLE_COMPACT, FALSE);
}

gboolean
work_json_refuse (const WorkPlace *place, const char *text, GError **error)
{
  g_set_error (error, LMT_ERROR, LMT_ERROR_OPTION, "%s: %s%s%s", place->file, place->path, place->path[0] != '\0' ? ": " : "",
               text);
  return FALSE;
}

gboolean
work_json_wrong (const WorkPlace *place, const char *expected, GError **error)
{
  g_autofree char *found = shown (place->value);
  g_autofree char *text = g_strdup_printf ("expected %s, found %s", expected, found);

  return work_json_refuse (place, text, error);
}

char *
work_json_shown_name (const char *name)
{
  GString *text = g_string_new (NULL);

  lmt_json_append_escaped (text, name, strlen (name)); /* ASCII */
  if (text->len > 60)
    g_string_append (g_string_truncate (text, 57), "...");
  return g_string_free (text, FALSE);
}

gboolean
work_json_check_object (const WorkPlace *place, const char *const *known, GError **error)
{
  const char *twice;

  if (lmt_json_get_type (place->value) != LMT_JSON_OBJECT)
    return work_json_wrong (place, "an object", error);
  for (guint i = 0; i < lmt_json_get_length (place->value); i++)
    {
      const char *name = lmt_json_get_member_name (place->value, i);

      if (!g_strv_contains (known, name))
        {
          g_autofree char *all = g_strjoinv (", ", (char **)known);
          g_autofree char *clean = work_json_shown_name (name);
          g_autofree char *text = g_strdup_printf ("unknown key \"%s\": expected one of %s", clean, all);

          return work_json_refuse (place, text, error);
        }
    }
  twice = lmt_json_get_repeated (place->value);
  if (twice != NULL)
    {
      g_autofree char *clean = work_json_shown_name (twice);
      g_autofree char *text = g_strdup_printf ("%s: stands twice", clean);

      return work_json_refuse (place, text, error);
    }
  return TRUE;
}

gboolean
work_json_member (const WorkPlace *place, const char *name, WorkPlace *member)
{
  member->file = place->file;
  member->value = lmt_json_get_member (place->value, name);
  g_snprintf (member->path, sizeof member->path, "%s%s%s", place->path, place->path[0] != '\0' ? "." : "", name);
  return member->value != NULL;
}

gboolean
work_json_need (const WorkPlace *place, const char *name, WorkPlace *member, GError **error)
{
  if (work_json_member (place, name, member))
    return TRUE;
  return work_json_refuse (member, "expected a value, found nothing", error);
}

void
work_json_element (const WorkPlace *place, guint i, WorkPlace *element)
{
  element->file = place->file;
  element->value = lmt_json_get_element (place->value, i);
  g_snprintf (element->path, sizeof element->path, "%s[%u]", place->path, i);
}

/* ---------------- single values ---------------- */

static gboolean
is_number (const LmtJson *json)
{
  LmtJsonType type = lmt_json_get_type (json);

  return type == LMT_JSON_INT || type == LMT_JSON_UINT || type == LMT_JSON_DOUBLE;
}

gboolean
work_json_count (const WorkPlace *place, guint64 least, guint64 most, guint64 *count, GError **error)
{
  LmtJsonType type = lmt_json_get_type (place->value);
  g_autofree char *expected = g_strdup_printf (
      "a whole number from %" G_GUINT64_FORMAT " to %" G_GUINT64_FORMAT ", as in 1000 or \"10k\"", least, most);
  gboolean good = FALSE;

  if (type == LMT_JSON_STRING)
    good = lmt_parse_count (lmt_json_get_string (place->value), count, NULL);
  else if (type == LMT_JSON_INT && lmt_json_get_int (place->value) >= 0)
    {
      *count = (guint64)lmt_json_get_int (place->value);
      good = TRUE;
    }
  if (!good || *count < least || *count > most)
    return work_json_wrong (place, expected, error);
  return TRUE;
}

gboolean
work_json_duration (const WorkPlace *place, gint64 *ns, GError **error)
{
  const char *const expected = "a duration from 0 to 1e9 s, as in 1.5 (seconds) or \"250ms\"";
  gboolean good = FALSE;

  if (lmt_json_get_type (place->value) == LMT_JSON_STRING)
    good = lmt_parse_duration (lmt_json_get_string (place->value), ns, NULL);
  else if (is_number (place->value))
    {
      double seconds = lmt_json_get_double (place->value);

      good = seconds >= 0.0 && seconds <= 1e9;
      *ns = good ? (gint64)(seconds * 1e9 + 0.5) : 0;
    }
  if (!good || *ns < 0 || *ns > G_GINT64_CONSTANT (1000000000000000000))
    return work_json_wrong (place, expected, error);
  return TRUE;
}

gboolean
work_json_real (const WorkPlace *place, double least, double most, double *real, GError **error)
{
  char low[32];
  char high[32];
  g_autofree char *expected
      = g_strdup_printf ("a number from %s to %s", lmt_json_format_double (least, low), lmt_json_format_double (most, high));

  if (!is_number (place->value))
    return work_json_wrong (place, expected, error);
  *real = lmt_json_get_double (place->value);
  return (*real >= least && *real <= most) || work_json_wrong (place, expected, error);
}

gboolean
work_json_string (const WorkPlace *place, char **text, GError **error)
{
  if (lmt_json_get_type (place->value) != LMT_JSON_STRING)
    return work_json_wrong (place, "a string", error);
  if (strlen (lmt_json_get_string (place->value)) != lmt_json_get_string_len (place->value))
    return work_json_refuse (place, "expected a string, found one with a NUL in it", error);
  g_free (*text);
  *text = g_strdup (lmt_json_get_string (place->value));
  return TRUE;
}

gboolean
work_json_word (const WorkPlace *place, const char *const *words, guint *index, GError **error)
{
  g_autofree char *all = g_strjoinv (", ", (char **)words);
  g_autofree char *expected = g_strdup_printf ("one of %s", all);

  if (lmt_json_get_type (place->value) == LMT_JSON_STRING)
    for (guint i = 0; words[i] != NULL; i++)
      if (strcmp (words[i], lmt_json_get_string (place->value)) == 0)
        {
          *index = i;
          return TRUE;
        }
  return work_json_wrong (place, expected, error);
}

/* ---------------- distributions ---------------- */

/* One value in the unit's own form: a number, or a text with a unit. */
static gboolean
read_value (const WorkPlace *place, WorkUnit unit, double most, double *value, GError **error)
{
  if (unit == WORK_UNIT_SECONDS)
    {
      gint64 ns;

      if (!work_json_duration (place, &ns, error))
        return FALSE;
      *value = (double)ns / 1e9;
      return TRUE;
    }
  guint64 count;
  if (lmt_json_get_type (place->value) == LMT_JSON_DOUBLE) /* a mean may lie between two */
    return work_json_real (place, 0.0, most, value, error);
  if (!work_json_count (place, 0, (guint64)most, &count, error))
    return FALSE;
  *value = (double)count;
  return TRUE;
}

static gboolean
check_pair (const WorkPlace *place, const char *expected, GError **error)
{
  if (lmt_json_get_type (place->value) == LMT_JSON_ARRAY && lmt_json_get_length (place->value) == 2)
    return TRUE;
  return work_json_wrong (place, expected, error);
}

gboolean
work_json_zipf (const WorkPlace *place, WorkZipf *zipf, GError **error)
{
  WorkPlace element;
  guint64 n;
  double s;

  if (!check_pair (place, "[n, s]: ranks 1 to n, weight rank^-s", error))
    return FALSE;
  work_json_element (place, 0, &element);
  if (!work_json_count (&element, 1, ZIPF_MAX, &n, error))
    return FALSE;
  work_json_element (place, 1, &element);
  if (!work_json_real (&element, 0.0, 10.0, &s, error))
    return FALSE;
  work_zipf_init (zipf, n, s);
  return TRUE;
}

static gboolean
read_uniform (const WorkPlace *place, WorkUnit unit, double most, WorkDist *dist, GError **error)
{
  WorkPlace element;

  if (!check_pair (place, "[a, b]: the bounds", error))
    return FALSE;
  work_json_element (place, 0, &element);
  if (!read_value (&element, unit, most, &dist->a, error))
    return FALSE;
  work_json_element (place, 1, &element);
  if (!read_value (&element, unit, most, &dist->b, error))
    return FALSE;
  if (dist->a > dist->b || (unit == WORK_UNIT_COUNT && (dist->a != (guint64)dist->a || dist->b != (guint64)dist->b)))
    return work_json_refuse (
        place, unit == WORK_UNIT_COUNT ? "expected two whole numbers, the lower bound first" : "expected the lower bound first",
        error);
  return TRUE;
}

static gboolean
read_lognormal (const WorkPlace *place, WorkUnit unit, double most, WorkDist *dist, GError **error)
{
  WorkPlace element;

  if (!check_pair (place, "[median, sigma]", error))
    return FALSE;
  work_json_element (place, 0, &element);
  if (!read_value (&element, unit, most, &dist->a, error))
    return FALSE;
  work_json_element (place, 1, &element);
  return work_json_real (&element, 0.0, 10.0, &dist->b, error);
}

static gboolean
read_values (const WorkPlace *place, WorkUnit unit, double most, WorkDist *dist, GError **error)
{
  const char *const expected = "an array of [value, weight], 1 to 65536 of them";
  guint n = lmt_json_get_type (place->value) == LMT_JSON_ARRAY ? lmt_json_get_length (place->value) : 0;
  double sum = 0.0;

  if (n == 0 || n > VALUES_MAX)
    return work_json_wrong (place, expected, error);
  dist->values = g_new (double, n);
  dist->sums = g_new (double, n);
  for (guint i = 0; i < n; i++)
    {
      WorkPlace pair;
      WorkPlace element;
      double weight;

      work_json_element (place, i, &pair);
      if (!check_pair (&pair, "[value, weight]", error))
        return FALSE;
      work_json_element (&pair, 0, &element);
      if (!read_value (&element, unit, most, &dist->values[i], error))
        return FALSE;
      work_json_element (&pair, 1, &element);
      if (!work_json_real (&element, 0.0, 1e9, &weight, error))
        return FALSE;
      sum += weight;
      dist->sums[i] = sum;
    }
  dist->n = n;
  return sum > 0.0 || work_json_refuse (place, "expected a weight above 0, found none", error);
}

gboolean
work_json_dist (const WorkPlace *place, WorkUnit unit, double most, WorkDist *dist, GError **error)
{
  static const char *const kinds[] = { "fixed", "uniform", "lognormal", "zipf", "values", NULL };
  const LmtJson *json = place->value;
  WorkPlace inner;
  gboolean good = FALSE;

  memset (dist, 0, sizeof *dist);
  if (lmt_json_get_type (json) != LMT_JSON_OBJECT)
    return read_value (place, unit, most, &dist->a, error);
  if (!work_json_check_object (place, kinds, error))
    return FALSE;
  if (lmt_json_get_length (json) != 1)
    return work_json_refuse (place, "expected one of fixed, uniform, lognormal, zipf, values", error);
  for (guint kind = 0; kinds[kind] != NULL; kind++)
    if (work_json_member (place, kinds[kind], &inner))
      {
        dist->kind = kind;
        break;
      }
  if (dist->kind == WORK_FIXED)
    good = read_value (&inner, unit, most, &dist->a, error);
  else if (dist->kind == WORK_UNIFORM)
    good = read_uniform (&inner, unit, most, dist, error);
  else if (dist->kind == WORK_LOGNORMAL)
    good = read_lognormal (&inner, unit, most, dist, error);
  else if (dist->kind == WORK_VALUES)
    good = read_values (&inner, unit, most, dist, error);
  else if (unit == WORK_UNIT_SECONDS)
    good = work_json_refuse (&inner, "expected fixed, uniform, lognormal or values: a rank is no time", error);
  else
    good = work_json_zipf (&inner, &dist->zipf, error);
  if (!good)
    work_dist_clear (dist);
  return good;
}
