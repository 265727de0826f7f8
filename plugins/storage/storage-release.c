// SPDX-License-Identifier: Apache-2.0
#include "storage-release.h"

#include <lmtrace/lmt-json.h>

/* 0.5.6 and 0.5.7.dev0 write the same. The last row stands for everything newer, too. */
enum
{
  V044,
  V045,
  V046,
  V047,
  V050,
  V051,
  V052,
  V053,
  V054,
  V055,
  V056,
  V057D,
  V057,
  N_RELEASES
};
static const char *const releases[N_RELEASES] = { "0.4.4", "0.4.5", "0.4.6", "0.4.7", "0.5.0",      "0.5.1",   "0.5.2",
                                                  "0.5.3", "0.5.4", "0.5.5", "0.5.6", "0.5.7.dev0", "0.5.7rc3" };

static const struct
{
  guint32 shape;
  int low;
  int high;
} by_shape[] = {
  { SM_SHAPE_KEY_PLAIN, V044, V046 },    { SM_SHAPE_KEY_GROUP, V047, V057 },    { SM_SHAPE_RESERVE_MODE, V044, V055 },
  { SM_SHAPE_RESERVE_BARE, V056, V057 }, { SM_SHAPE_FINISH_EXTRA, V044, V054 }, { SM_SHAPE_FINISH_LOCKS, V055, V057 },
  { SM_SHAPE_FLAT, V044, V046 },         { SM_SHAPE_FLAT_POLICY, V047, V047 },  { SM_SHAPE_FLAT_SKIP_L2, V050, V050 },
  { SM_SHAPE_FLAT_ATTN, V051, V052 },    { SM_SHAPE_R1, V053, V054 },           { SM_SHAPE_R2, V055, V055 },
  { SM_SHAPE_T1, V056, V057D },          { SM_SHAPE_T2, V057, V057 },
};

static void
narrow (int *low, int *high, int from, int to)
{
  *low = MAX (*low, from);
  *high = MIN (*high, to);
}

/* A field that came with a release: there from then on, absent before. */
static void
narrow_field (const LmtJson *object, const char *name, int since, int *low, int *high)
{
  if (object == NULL || lmt_json_get_type (object) != LMT_JSON_OBJECT)
    return;
  if (lmt_json_get_member (object, name) != NULL)
    narrow (low, high, since, N_RELEASES - 1);
  else
    narrow (low, high, 0, since - 1);
}

static const LmtJson *
member_object (const LmtJson *object, const char *name)
{
  const LmtJson *value = object != NULL ? lmt_json_get_member (object, name) : NULL;
  return value != NULL && lmt_json_get_type (value) == LMT_JSON_OBJECT ? value : NULL;
}

/* The lists of trace-format.md 6. */
static void
narrow_by_config (const char *text, int *low, int *high)
{
  g_autoptr (LmtJson) json = *text != '\0' ? lmt_json_parse (text, -1, NULL) : NULL;
  if (json == NULL || lmt_json_get_type (json) != LMT_JSON_OBJECT || lmt_json_get_member (json, "l1_manager_config") == NULL)
    return;
  const LmtJson *l1 = member_object (json, "l1_manager_config");
  const LmtJson *memory = member_object (l1, "memory_config");
  narrow_field (json, "periodic_notifier_interval_ms", V047, low, high);
  narrow_field (memory, "devdax_path", V050, low, high);
  narrow_field (member_object (json, "eviction_config"), "extra_logging_enabled", V052, low, high);
  narrow_field (member_object (l1, "gds_l1_config"), "backend", V054, low, high);
  narrow_field (memory, "use_hugepages", V056, low, high);
  narrow_field (json, "prefetch_inflight_watermark", V057, low, high);
}

gboolean
sm_release_guess (guint32 shapes, const LmtHeader *header, char out[SM_RELEASE_BYTES])
{
  int low = 0, high = N_RELEASES - 1;
  for (guint i = 0; i < G_N_ELEMENTS (by_shape); i++)
    if (shapes & by_shape[i].shape)
      narrow (&low, &high, by_shape[i].low, by_shape[i].high);
  if (low > high)
    return FALSE;
  int shape_low = low, shape_high = high;
  if (header != NULL)
    {
      gint64 schema;
      if (lmt_header_get_schema (header, &schema))
        narrow (&low, &high, schema >= 2 ? V057 : 0, schema >= 2 ? V057 : V057D);
      if (lmt_header_get_level_meta (header).len > 0)
        narrow (&low, &high, V056, V057);
      narrow_by_config (lmt_header_get_config_json (header), &low, &high);
    }
  /* A header that contradicts the records was edited or glued on: the records speak for themselves. */
  if (low > high)
    {
      low = shape_low;
      high = shape_high;
    }
  if (low == 0 && high == N_RELEASES - 1)
    return FALSE;
  if (high == V057)
    g_snprintf (out, SM_RELEASE_BYTES, "%s or later", releases[low]);
  else if (low == high)
    g_strlcpy (out, releases[low], SM_RELEASE_BYTES);
  else
    g_snprintf (out, SM_RELEASE_BYTES, "%s - %s", releases[low], releases[high]);
  return TRUE;
}
