// SPDX-License-Identifier: Apache-2.0
#include "work-shape.h"

#include "../storage-codecs.h"

static const char *const shape_keys[]
    = { "name", "layers", "kv_heads", "head_dim", "dtype", "chunk_tokens", "world_size", "groups", NULL };

void
work_shape_clear (WorkShape *shape)
{
  for (guint i = 0; i < shape->n_groups; i++)
    lmt_pack_clear (&shape->groups[i].layout);
  g_free (shape->name);
  memset (shape, 0, sizeof *shape);
}

static gboolean
read_name (WorkShape *shape, const WorkPlace *object, GError **error)
{
  WorkPlace place;
  LmtKeyFields fields = { .struct_size = sizeof fields, .salt = "" };
  const char *broken;

  if (!work_json_need (object, "name", &place, error) || !work_json_string (&place, &shape->name, error))
    return FALSE;
  fields.model = shape->name;
  fields.model_len = (guint32)strlen (shape->name);
  broken = lmt_key_fields_check (&fields);
  if (shape->name[0] == '\0')
    broken = "expected a name, found an empty one";
  return broken == NULL || work_json_refuse (&place, broken, error);
}

static gboolean
read_dtype (WorkShape *shape, const WorkPlace *object, GError **error)
{
  WorkPlace place;
  g_autofree char *text = NULL;

  if (!work_json_need (object, "dtype", &place, error) || !work_json_string (&place, &text, error))
    return FALSE;
  g_snprintf (shape->dtype, sizeof shape->dtype, "%s%s", g_str_has_prefix (text, "torch.") ? "" : "torch.", text);
  shape->dtype_bytes = sm_dtype_bytes (shape->dtype, strlen (shape->dtype));
  return shape->dtype_bytes > 0 || work_json_wrong (&place, "a dtype of torch, as in \"bfloat16\"", error);
}

static gboolean
read_number (const WorkPlace *object, const char *name, guint64 most, guint32 *number, GError **error)
{
  WorkPlace place;
  guint64 value;

  if (!work_json_need (object, name, &place, error) || !work_json_count (&place, 1, most, &value, error))
    return FALSE;
  *number = (guint32)value;
  return TRUE;
}

static gboolean
read_group (WorkShape *shape, const WorkPlace *place, GError **error)
{
  static const char *const known[] = { "window", "layers", NULL };
  WorkGroup *group = &shape->groups[shape->n_groups];
  WorkPlace window;
  guint64 tokens;

  if (!work_json_check_object (place, known, error) || !read_number (place, "layers", 65536, &group->layers, error))
    return FALSE;
  group->window_tokens = -1;
  if (work_json_member (place, "window", &window)
      && !(lmt_json_get_type (window.value) == LMT_JSON_INT && lmt_json_get_int (window.value) == -1))
    {
      if (!work_json_count (&window, 1, 1u << 30, &tokens, NULL))
        return work_json_wrong (&window, "tokens, at least 1, or -1 for full attention", error);
      group->window_tokens = (gint64)tokens;
    }
  shape->n_groups++;
  return TRUE;
}

static gboolean
read_groups (WorkShape *shape, const WorkPlace *object, GError **error)
{
  WorkPlace place;
  WorkPlace element;
  guint64 layers = 0;

  if (!work_json_member (object, "groups", &place))
    {
      shape->groups[0] = (WorkGroup){ .layers = shape->layers, .window_tokens = -1 };
      shape->n_groups = 1;
      return TRUE;
    }
  if (lmt_json_get_type (place.value) != LMT_JSON_ARRAY || lmt_json_get_length (place.value) == 0
      || lmt_json_get_length (place.value) > WORK_GROUPS_MAX)
    return work_json_wrong (&place, "an array of 1 to 64 groups", error);
  for (guint i = 0; i < lmt_json_get_length (place.value); i++)
    {
      work_json_element (&place, i, &element);
      if (!read_group (shape, &element, error))
        return FALSE;
      layers += shape->groups[i].layers;
    }
  if (layers == shape->layers)
    return TRUE;
  g_autofree char *text
      = g_strdup_printf ("expected groups of %u layers together, found %" G_GUINT64_FORMAT, shape->layers, layers);
  return work_json_refuse (&place, text, error);
}

static gboolean
read_world (WorkShape *shape, const WorkPlace *object, GError **error)
{
  WorkPlace place;
  guint64 world = 1;

  if (work_json_member (object, "world_size", &place) && !work_json_count (&place, 1, WORK_RANKS_MAX, &world, error))
    return FALSE;
  shape->world = (guint32)world;
  if (shape->kv_heads % shape->world == 0)
    return TRUE;
  g_autofree char *text = g_strdup_printf ("expected a divisor of kv_heads (%u), found %u", shape->kv_heads, shape->world);
  return work_json_refuse (&place, text, error);
}

static gboolean
read_object (WorkShape *shape, const WorkPlace *object, GError **error)
{
  WorkPlace place;

  if (!work_json_check_object (object, shape_keys, error) || !read_name (shape, object, error)
      || !read_number (object, "layers", 65536, &shape->layers, error)
      || !read_number (object, "kv_heads", 65536, &shape->kv_heads, error)
      || !read_number (object, "head_dim", 65536, &shape->head_dim, error) || !read_dtype (shape, object, error)
      || !read_world (shape, object, error) || !read_groups (shape, object, error))
    return FALSE;
  return !work_json_member (object, "chunk_tokens", &place) || work_json_count (&place, 1, 65536, &shape->chunk_tokens, error);
}

gboolean
work_shape_load (WorkShape *shape, const char *name_or_file, GError **error)
{
  g_autofree char *shown = NULL;
  g_autoptr (LmtJson) json = work_load_json (name_or_file, "models", "model shape", &shown, error);
  WorkPlace place = { shown, json, "" };

  memset (shape, 0, sizeof *shape);
  if (json == NULL)
    return FALSE;
  if (read_object (shape, &place, error))
    return TRUE;
  work_shape_clear (shape);
  return FALSE;
}

gboolean
work_shape_read (WorkShape *shape, const WorkPlace *place, GError **error)
{
  memset (shape, 0, sizeof *shape);
  if (lmt_json_get_type (place->value) == LMT_JSON_STRING)
    {
      if (work_shape_load (shape, lmt_json_get_string (place->value), error))
        return TRUE;
      g_prefix_error (error, "%s: %s: ", place->file, place->path);
      return FALSE;
    }
  if (read_object (shape, place, error))
    return TRUE;
  work_shape_clear (shape);
  return FALSE;
}

gboolean
work_shape_finish (WorkShape *shape, guint64 chunk_tokens, gboolean must, GError **error)
{
  if (shape->chunk_tokens == 0)
    shape->chunk_tokens = chunk_tokens;
  else if (must && shape->chunk_tokens != chunk_tokens)
    {
      g_set_error (error, LMT_ERROR, LMT_ERROR_OPTION,
                   "chunk_tokens: expected %" G_GUINT64_FORMAT
                   ", the tokens of a block of this format, or none, found %" G_GUINT64_FORMAT,
                   chunk_tokens, shape->chunk_tokens);
      return FALSE;
    }
  if ((guint64)shape->n_groups * shape->world > WORK_CELLS_MAX / 16)
    {
      g_set_error (error, LMT_ERROR, LMT_ERROR_OPTION, "groups: expected at most %u groups times ranks, found %u",
                   (guint)WORK_CELLS_MAX / 16, shape->n_groups * shape->world);
      return FALSE;
    }
  for (guint i = 0; i < shape->n_groups; i++)
    {
      WorkGroup *group = &shape->groups[i];
      gint64 hidden = (gint64)(shape->kv_heads / shape->world) * shape->head_dim;
      const gint64 dims[] = { 2, group->layers, (gint64)shape->chunk_tokens, hidden };
      SmTensor tensor = { dims, G_N_ELEMENTS (dims), shape->dtype };

      /* 2^16 layers, 2^16 tokens, 2^32 values: beyond 2^64 with the rest, so in doubles first. */
      if (2.0 * group->layers * (double)shape->chunk_tokens * (double)hidden * shape->dtype_bytes > 0x1p50)
        {
          g_set_error (error, LMT_ERROR, LMT_ERROR_OPTION, "model: expected objects of at most 1 PiB, found larger ones");
          return FALSE;
        }
      group->object_bytes = 2 * (guint64)group->layers * shape->chunk_tokens * (guint64)hidden * shape->dtype_bytes;
      group->window_chunks = group->window_tokens < 0
                                 ? -1
                                 : (group->window_tokens + (gint64)shape->chunk_tokens - 1) / (gint64)shape->chunk_tokens;
      lmt_pack_init (&group->layout);
      sm_pack_layout (&group->layout, &tensor, 1);
    }
  return TRUE;
}

guint64
work_shape_rank (const WorkShape *shape, guint32 rank)
{
  return (guint64)shape->world << 24 | (guint64)rank << 16 | (guint64)shape->world << 8 | rank;
}
