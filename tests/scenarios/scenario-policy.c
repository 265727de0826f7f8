/* SPDX-License-Identifier: Apache-2.0 */
#include "scenario.h"

#include <string.h>

/* kind eviction_policy: one policy alone. */

static gboolean
is_eligible (guint32 key, gpointer data)
{
  return !g_hash_table_contains (data, GUINT_TO_POINTER (key));
}

static GArray *
evict_keys (const GPtrArray *keys)
{
  GArray *list = g_array_new (FALSE, FALSE, sizeof (LmtEvictKey));

  for (guint i = 0; i < keys->len; i++)
    {
      const LmtKey *key = keys->pdata[i];
      LmtEvictKey entry = { key->id, key->salt };

      g_array_append_val (list, entry);
    }
  return list;
}

static void
do_evict (Scenario *scenario, LmtEvict *policy, const LmtJson *step)
{
  g_autoptr (GPtrArray) ineligible = scenario_keys (scenario, member_object (step, "ineligible"));
  g_autoptr (GHashTable) set = g_hash_table_new (NULL, NULL);
  g_autoptr (GArray) victims = g_array_new (FALSE, FALSE, sizeof (guint32));
  g_autoptr (GPtrArray) keys = g_ptr_array_new ();
  const char *salt = member_string (step, "cache_salt", NULL);
  gint64 number = salt != NULL ? (gint64)lmt_key_table_intern_salt (scenario->table, salt, strlen (salt)) : -1;

  for (guint i = 0; i < ineligible->len; i++)
    g_hash_table_add (set, GUINT_TO_POINTER (((LmtKey *)ineligible->pdata[i])->id));
  if (!lmt_evict_victims (policy, member_double (step, "ratio", 0), number, is_eligible, set, victims))
    {
      lmt_json_writer_key (scenario->writer, "raises");
      lmt_json_writer_string (scenario->writer, "no cache_salt");
      return;
    }
  for (guint i = 0; i < victims->len; i++)
    g_ptr_array_add (keys, lmt_key_table_get (scenario->table, g_array_index (victims, guint32, i)));
  write_keys (scenario, "victims", (LmtKey *const *)keys->pdata, keys->len);
  lmt_json_writer_key (scenario->writer, "destinations"); /* the distinct ones: eviction only ever discards */
  lmt_json_writer_begin_array (scenario->writer);
  if (keys->len > 0)
    lmt_json_writer_string (scenario->writer, "DISCARD");
  lmt_json_writer_end_array (scenario->writer);
}

static void
do_step (Scenario *scenario, LmtEvict *policy, const LmtJson *step, const char *where)
{
  const char *op = member_string (step, "op", "");
  g_autoptr (GPtrArray) keys = scenario_keys (scenario, member_object (step, "keys"));
  g_autoptr (GArray) list = evict_keys (keys);
  const LmtEvictKey *data = (const LmtEvictKey *)list->data;
  const LmtJson *expected = lmt_json_get_member (step, "expect");
  g_autoptr (LmtJson) found = NULL, state = NULL;

  found_begin (scenario);
  if (strcmp (op, "created") == 0)
    lmt_evict_created (policy, data, list->len);
  else if (strcmp (op, "reserved") == 0)
    lmt_evict_reserved (policy, data, list->len);
  else if (strcmp (op, "touched") == 0)
    lmt_evict_touched (policy, data, list->len);
  else if (strcmp (op, "removed") == 0)
    lmt_evict_removed (policy, data, list->len);
  else if (strcmp (op, "evict") == 0)
    do_evict (scenario, policy, step);
  else
    fail (scenario, where, "a known op", op);
  found = found_end (scenario);
  if (member_object (expected, "raises") != NULL)
    {
      if (member_object (found, "raises") == NULL)
        fail (scenario, where, "a value error", "none");
    }
  else
    compare_members (scenario, where, expected, found);
  if (member_object (step, "policy") == NULL)
    return;
  found_begin (scenario);
  write_policy (scenario, policy);
  state = found_end (scenario);
  compare_exactly (scenario, where, lmt_json_get_member (step, "policy"), state);
}

void
run_policy (Scenario *scenario)
{
  const LmtJson *steps = lmt_json_get_member (scenario->json, "steps");
  const char *name = member_string (lmt_json_get_member (scenario->json, "config"), "policy", "");
  LmtEvictKind kind;
  LmtEvict *policy;

  if (!lmt_evict_kind_from_text (name, &kind))
    {
      fail (scenario, "config", "a policy", name);
      return;
    }
  policy = lmt_evict_new (kind, NULL);
  for (guint i = 0; i < lmt_json_get_length (steps); i++)
    {
      const LmtJson *step = lmt_json_get_element (steps, i);
      g_autofree char *where = g_strdup_printf ("step %u %s", i, member_string (step, "op", ""));

      do_step (scenario, policy, step, where);
    }
  lmt_evict_free (policy);
}
