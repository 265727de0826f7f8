/* SPDX-License-Identifier: Apache-2.0 */
#include "scenario.h"

#include <string.h>

/* kind l1_manager: L1 driven directly. Its tags are free texts; L1 knows numbers, so each text gets one. */

typedef struct
{
  Scenario *scenario;
  LmtSm *sm;
  gint64 now;
  GPtrArray *tags; /* texts, by number */
  EventLog *log;
} L1;

static guint64
tag_number (L1 *l1, const char *text)
{
  for (guint i = 0; i < l1->tags->len; i++)
    if (strcmp (l1->tags->pdata[i], text) == 0)
      return i;
  g_ptr_array_add (l1->tags, (gpointer)text);
  return l1->tags->len - 1;
}

static const char *
tag_text (const char *tag, gpointer data)
{
  L1 *l1 = data;

  return l1->tags->pdata[g_ascii_strtoull (strchr (tag, ':') + 1, NULL, 10)];
}

static void
do_reserve_write (L1 *l1, const LmtJson *step, const GPtrArray *keys)
{
  const LmtJson *flags = lmt_json_get_member (step, "is_temporary");
  guint n_flags = lmt_json_get_length (flags);
  g_autofree guint8 *codes = g_malloc0 (keys->len + 1), *temporaries = g_malloc0 (n_flags + 1);
  g_autofree guint64 *addresses = g_new0 (guint64, keys->len + 1);
  LmtJsonWriter *writer = l1->scenario->writer;
  g_autoptr (GHashTable) seen = g_hash_table_new (NULL, NULL);
  const char *error;

  for (guint i = 0; i < n_flags; i++)
    temporaries[i] = (guint8)lmt_json_get_bool (lmt_json_get_element (flags, i));
  error = sm_l1_reserve_write (l1->sm,
                               &(SmReserve){ .keys = (LmtKey *const *)keys->pdata,
                                             .n = keys->len,
                                             .bytes = scenario_layout_bytes (l1->scenario, member_string (step, "layout", "")),
                                             .tag = tag_number (l1, member_string (step, "tag", "")),
                                             .temporaries = temporaries,
                                             .n_temporaries = n_flags },
                               codes, addresses);
  if (error != NULL)
    {
      lmt_json_writer_key (writer, "raises");
      lmt_json_writer_string (writer, error);
      return;
    }
  write_codes (l1->scenario, "status", (LmtKey *const *)keys->pdata, codes, keys->len);
  lmt_json_writer_key (writer, "address");
  lmt_json_writer_begin_object (writer);
  for (guint i = 0; i < keys->len; i++)
    if (addresses[i] != G_MAXUINT64 && g_hash_table_add (seen, keys->pdata[i]))
      {
        lmt_json_writer_key (writer, scenario_key_name (l1->scenario, keys->pdata[i]));
        lmt_json_writer_uint (writer, addresses[i]);
      }
  lmt_json_writer_end_object (writer);
}

static void
do_evict (L1 *l1, const LmtJson *step)
{
  g_autoptr (GPtrArray) victims = g_ptr_array_new ();
  g_autoptr (GArray) codes = g_array_new (FALSE, FALSE, 1);

  l1->sm->config.eviction.ratio = member_double (step, "ratio", 0);
  lmt_sm_evict_l1 (l1->sm, l1->now, victims, codes, NULL);
  write_keys (l1->scenario, "victims", (LmtKey *const *)victims->pdata, victims->len);
  write_codes (l1->scenario, "status", (LmtKey *const *)victims->pdata, (const guint8 *)codes->data, victims->len);
}

static void
do_is_evictable (L1 *l1, const GPtrArray *keys)
{
  LmtJsonWriter *writer = l1->scenario->writer;

  lmt_json_writer_key (writer, "evictable");
  lmt_json_writer_begin_object (writer);
  for (guint i = 0; i < keys->len; i++)
    {
      const LmtKey *key = keys->pdata[i];

      lmt_json_writer_key (writer, scenario_key_name (l1->scenario, key));
      lmt_json_writer_bool (writer, sm_l1_is_evictable (l1->sm, key->id));
    }
  lmt_json_writer_end_object (writer);
}

/* The calls on a list of keys that answer with codes. FALSE: it is another op. */
static gboolean
do_listed (L1 *l1, const LmtJson *step, const char *op, const GPtrArray *keys)
{
  LmtKey *const *list = (LmtKey *const *)keys->pdata;
  g_autofree guint8 *codes = g_malloc0 (keys->len + 1);
  guint32 locks = (guint32)member_int (step, "read_locks", 1);
  guint64 tag = tag_number (l1, member_string (step, "tag", ""));

  if (strcmp (op, "finish_write") == 0)
    sm_l1_finish_write (l1->sm, list, keys->len, tag, codes);
  else if (strcmp (op, "finish_write_and_reserve_read") == 0)
    sm_l1_finish_write_and_reserve_read (l1->sm, list, keys->len, locks, tag, codes);
  else if (strcmp (op, "finish_write_and_delete") == 0)
    sm_l1_finish_write_and_delete (l1->sm, list, keys->len, tag, codes);
  else if (strcmp (op, "reserve_read") == 0)
    sm_l1_reserve_read (l1->sm, list, keys->len, locks, codes);
  else if (strcmp (op, "finish_read") == 0)
    sm_l1_finish_read (l1->sm, list, keys->len, locks, FALSE, codes);
  else if (strcmp (op, "unsafe_read") == 0)
    sm_l1_unsafe_read (l1->sm, list, keys->len, codes);
  else if (strcmp (op, "delete") == 0)
    sm_l1_delete (l1->sm, list, keys->len, member_bool (step, "force"), SM_PAST_REMOVED, codes);
  else
    return FALSE;
  write_codes (l1->scenario, "status", list, codes, keys->len);
  return TRUE;
}

static void
do_op (L1 *l1, const LmtJson *step, const char *where)
{
  const char *op = member_string (step, "op", "");
  g_autoptr (GPtrArray) keys = scenario_keys (l1->scenario, member_object (step, "keys"));

  sm_enter (l1->sm, l1->now);
  if (do_listed (l1, step, op, keys))
    return;
  if (strcmp (op, "reserve_write") == 0)
    do_reserve_write (l1, step, keys);
  else if (strcmp (op, "clear") == 0)
    sm_l1_clear (l1->sm, member_bool (step, "force"));
  else if (strcmp (op, "touch_keys") == 0)
    sm_l1_touch (l1->sm, (LmtKey *const *)keys->pdata, keys->len);
  else if (strcmp (op, "is_key_evictable") == 0)
    do_is_evictable (l1, keys);
  else if (strcmp (op, "evict") == 0)
    do_evict (l1, step);
  else if (strcmp (op, "advance_clock") == 0)
    {
      l1->now += (gint64)(member_double (step, "seconds", 0) * 1e9);
      sm_enter (l1->sm, l1->now);
    }
  else
    fail (l1->scenario, where, "a known op", op);
}

static void
check_step (L1 *l1, const LmtJson *step, const char *where)
{
  Scenario *scenario = l1->scenario;
  const LmtJson *expected = lmt_json_get_member (step, "expect");
  g_autoptr (LmtJson) found = NULL, state = NULL, policy = NULL;

  found_begin (scenario);
  do_op (l1, step, where);
  found = found_end (scenario);
  if (member_object (expected, "raises") == NULL)
    compare_members (scenario, where, expected, found);
  else if (member_object (found, "raises") == NULL)
    fail (scenario, where, "a value error", "none");
  if (member_object (step, "state") != NULL)
    {
      g_autofree char *place = g_strdup_printf ("%s: state", where);

      found_begin (scenario);
      write_state_keys (scenario, l1->sm, l1->now, tag_text, l1);
      state = found_end (scenario);
      compare_exactly (scenario, place, lmt_json_get_member (step, "state"), state);
    }
  event_log_check (l1->log, where, step);
  if (member_object (step, "policy") != NULL)
    {
      g_autofree char *place = g_strdup_printf ("%s: policy", where);

      found_begin (scenario);
      write_policy (scenario, lmt_sm_peek_policy (l1->sm, -1));
      policy = found_end (scenario);
      compare_exactly (scenario, place, lmt_json_get_member (step, "policy"), policy);
    }
}

void
run_l1 (Scenario *scenario)
{
  const LmtJson *json = lmt_json_get_member (scenario->json, "config"), *steps = lmt_json_get_member (scenario->json, "steps");
  SmConfig config = { .size_bytes = (guint64)member_int (json, "size_bytes", 0),
                      .align_bytes = (guint64)member_int (json, "align_bytes", 4096),
                      .write_ttl_s = (guint32)member_int (json, "write_ttl_s", 600),
                      .read_ttl_s = (guint32)member_int (json, "read_ttl_s", 300),
                      .eviction = { .set = TRUE } };
  L1 l1 = { .scenario = scenario, .tags = g_ptr_array_new () };

  if (!lmt_evict_kind_from_text (member_string (json, "policy", "noop"), &config.eviction.policy))
    fail (scenario, "config", "a policy", member_string (json, "policy", ""));
  l1.sm = lmt_sm_new (&config, scenario->table, NULL);
  l1.log = event_log_new (scenario);
  l1.log->tag_name = tag_text;
  l1.log->data = &l1;
  lmt_sm_set_listener (l1.sm, event_log_listen, l1.log);
  for (guint i = 0; i < lmt_json_get_length (steps); i++)
    {
      const LmtJson *step = lmt_json_get_element (steps, i);
      g_autofree char *where = g_strdup_printf ("step %u %s", i, member_string (step, "op", ""));

      check_step (&l1, step, where);
    }
  lmt_sm_free (l1.sm);
  event_log_free (l1.log);
  g_ptr_array_unref (l1.tags);
}
