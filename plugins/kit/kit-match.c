/* SPDX-License-Identifier: Apache-2.0 */
#include "kit-scenario.h"

static gboolean
is_number (LmtJsonType type)
{
  return type == LMT_JSON_INT || type == LMT_JSON_UINT || type == LMT_JSON_DOUBLE;
}

static gboolean
matches_one_of (const LmtJson *choices, const LmtJson *found)
{
  for (guint i = 0; i < lmt_json_get_length (choices); i++)
    if (kit_scenario_matches (lmt_json_get_element (choices, i), found))
      return TRUE;
  return FALSE;
}

static gboolean
matches_array (const LmtJson *norm, const LmtJson *found)
{
  if (lmt_json_get_type (found) != LMT_JSON_ARRAY || lmt_json_get_length (found) != lmt_json_get_length (norm))
    return FALSE;
  for (guint i = 0; i < lmt_json_get_length (norm); i++)
    if (!kit_scenario_matches (lmt_json_get_element (norm, i), lmt_json_get_element (found, i)))
      return FALSE;
  return TRUE;
}

static gboolean
matches_object (const LmtJson *norm, const LmtJson *found)
{
  const LmtJson *choices = lmt_json_get_member (norm, "any_of");
  if (choices != NULL)
    return matches_one_of (choices, found);
  if (lmt_json_get_type (found) != LMT_JSON_OBJECT)
    return FALSE;
  for (guint i = 0; i < lmt_json_get_length (norm); i++)
    {
      const LmtJson *member = lmt_json_get_member (found, lmt_json_get_member_name (norm, i));
      if (member == NULL || !kit_scenario_matches (lmt_json_get_member_value (norm, i), member))
        return FALSE;
    }
  /* A map of salts is whole: one more is one too many. */
  return lmt_json_get_length (norm) > 0 || lmt_json_get_length (found) == 0;
}

gboolean
kit_scenario_matches (const LmtJson *norm, const LmtJson *found)
{
  LmtJsonType type = lmt_json_get_type (norm);
  if (type == LMT_JSON_OBJECT)
    return matches_object (norm, found);
  if (type == LMT_JSON_ARRAY)
    return matches_array (norm, found);
  if (is_number (type) && is_number (lmt_json_get_type (found)))
    return lmt_json_get_double (norm) == lmt_json_get_double (found);
  return lmt_json_equal (norm, found);
}
