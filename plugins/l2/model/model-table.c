/* SPDX-License-Identifier: Apache-2.0 */
#include "model-table.h"

#include <lmtrace/lmt-source.h>
#include <math.h>

enum
{
  N_POINTS = 7,
  MAX_ROWS = 4096,
  MAX_BYTES = 16 << 20,
};

/* Where the quantiles of a row lie. */
static const double points[N_POINTS] = { 0, 0.1, 0.5, 0.9, 0.99, 0.999, 1 };

typedef struct
{
  guint64 max_bytes;
  guint64 max_depth;
  double us[N_POINTS];
} Row;

struct _ModelTable
{
  Row *rows[LMT_L2_N_KINDS];
  guint n_rows[LMT_L2_N_KINDS];
};

/* What is being read, for messages. */
typedef struct
{
  const char *path;
  const char *kind;
  guint row;
} Place;

static gboolean
refuse (const Place *place, const char *what, const char *expected, const LmtJson *found, GError **error)
{
  g_autofree char *text = found != NULL ? lmt_json_to_text (found, LMT_JSON_STYLE_COMPACT, FALSE) : g_strdup ("nothing");
  g_autofree char *row
      = place->kind != NULL ? g_strdup_printf ("%s[%u]%s", place->kind, place->row, *what != '\0' ? "." : "") : g_strdup ("");
  g_set_error (error, LMT_ERROR, LMT_ERROR_JSON, "%s: %s%s: expected %s, found %.80s", place->path, row, what, expected, text);
  return FALSE;
}

static gboolean
is_number (const LmtJson *json)
{
  LmtJsonType type = json != NULL ? lmt_json_get_type (json) : LMT_JSON_NULL;
  return type == LMT_JSON_INT || type == LMT_JSON_UINT || type == LMT_JSON_DOUBLE;
}

/* Absent or null: no limit. */
static gboolean
read_limit (const Place *place, const LmtJson *row, const char *name, guint64 *limit, GError **error)
{
  const LmtJson *member = lmt_json_get_member (row, name);
  *limit = G_MAXUINT64;
  if (member == NULL || lmt_json_get_type (member) == LMT_JSON_NULL)
    return TRUE;
  LmtJsonType type = lmt_json_get_type (member);
  if (type == LMT_JSON_UINT)
    *limit = lmt_json_get_uint (member);
  else if (type == LMT_JSON_INT && lmt_json_get_int (member) >= 0)
    *limit = (guint64)lmt_json_get_int (member);
  else
    return refuse (place, name, "an integer, 0 or more", member, error);
  return TRUE;
}

static gboolean
read_row (const Place *place, const LmtJson *json, Row *row, GError **error)
{
  static const char *const known[] = { "max_bytes", "max_depth", "us", NULL };
  const char *expected = "7 numbers, 0 or more, none below the one before: p0, p10, p50, p90, p99, p99.9, p100";
  if (lmt_json_get_type (json) != LMT_JSON_OBJECT)
    return refuse (place, "", "an object", json, error);
  for (guint i = 0; i < lmt_json_get_length (json); i++)
    if (!g_strv_contains (known, lmt_json_get_member_name (json, i)))
      return refuse (place, lmt_json_get_member_name (json, i), "one of the members max_bytes, max_depth, us",
                     lmt_json_get_member_value (json, i), error);
  const LmtJson *us = lmt_json_get_member (json, "us");
  if (!read_limit (place, json, "max_bytes", &row->max_bytes, error)
      || !read_limit (place, json, "max_depth", &row->max_depth, error))
    return FALSE;
  if (us == NULL || lmt_json_get_type (us) != LMT_JSON_ARRAY || lmt_json_get_length (us) != N_POINTS)
    return refuse (place, "us", expected, us, error);
  for (guint i = 0; i < N_POINTS; i++)
    {
      const LmtJson *value = lmt_json_get_element (us, i);
      if (!is_number (value))
        return refuse (place, "us", expected, us, error);
      row->us[i] = lmt_json_get_double (value);
      if (!(row->us[i] >= (i > 0 ? row->us[i - 1] : 0) && row->us[i] <= 1e12))
        return refuse (place, "us", expected, us, error);
    }
  return TRUE;
}

static gboolean
read_kind (ModelTable *table, Place *place, guint kind, const LmtJson *json, GError **error)
{
  const LmtJson *list = lmt_json_get_member (json, lmt_l2_kind_name (kind));
  if (list == NULL)
    return TRUE;
  if (lmt_json_get_type (list) != LMT_JSON_ARRAY || lmt_json_get_length (list) > MAX_ROWS)
    return refuse (place, lmt_l2_kind_name (kind), "a list of at most 4096 rows", list, error);
  place->kind = lmt_l2_kind_name (kind);
  table->rows[kind] = g_new0 (Row, MAX (lmt_json_get_length (list), 1));
  for (place->row = 0; place->row < lmt_json_get_length (list); place->row++)
    if (!read_row (place, lmt_json_get_element (list, place->row), &table->rows[kind][place->row], error))
      return FALSE;
  table->n_rows[kind] = lmt_json_get_length (list);
  place->kind = NULL;
  return TRUE;
}

ModelTable *
model_table_read (const char *path, GError **error)
{
  gsize length = 0;
  g_autoptr (GError) why = NULL;
  g_autofree char *text = lmt_source_read_whole (path, MAX_BYTES, &length, error);
  if (text == NULL)
    {
      g_prefix_error (error, "table: ");
      return NULL;
    }
  g_autoptr (LmtJson) json = lmt_json_parse (text, (gssize)length, &why);
  Place place = { path, NULL, 0 };
  if (json == NULL)
    {
      g_set_error (error, LMT_ERROR, LMT_ERROR_JSON, "%s: %s", path, why->message);
      return NULL;
    }
  const LmtJson *schema = lmt_json_get_type (json) == LMT_JSON_OBJECT ? lmt_json_get_member (json, "schema") : NULL;
  if (schema == NULL || lmt_json_get_type (schema) != LMT_JSON_STRING
      || strcmp (lmt_json_get_string (schema), "lmtrace/l2-model/1") != 0)
    {
      refuse (&place, "schema", "\"lmtrace/l2-model/1\"", schema, error);
      return NULL;
    }
  ModelTable *table = g_new0 (ModelTable, 1);
  for (guint kind = 0; kind < LMT_L2_N_KINDS; kind++)
    if (!read_kind (table, &place, kind, json, error))
      {
        model_table_free (table);
        return NULL;
      }
  return table;
}

void
model_table_free (ModelTable *table)
{
  if (table == NULL)
    return;
  for (guint kind = 0; kind < LMT_L2_N_KINDS; kind++)
    g_free (table->rows[kind]);
  g_free (table);
}

gboolean
model_table_has (const ModelTable *table, guint32 kind)
{
  return table->n_rows[kind] > 0;
}

gint64
model_table_draw (const ModelTable *table, guint32 kind, guint64 bytes, guint32 in_flight, double u)
{
  const Row *row = table->rows[kind];
  for (guint i = 0; i + 1 < table->n_rows[kind] && (bytes > row->max_bytes || in_flight > row->max_depth); i++)
    row++;
  guint i = 1;
  while (i < N_POINTS - 1 && u > points[i])
    i++;
  double share = (u - points[i - 1]) / (points[i] - points[i - 1]);
  return (gint64)((row->us[i - 1] + share * (row->us[i] - row->us[i - 1])) * 1000);
}
