/* SPDX-License-Identifier: Apache-2.0 */
#include "scenario.h"

#include <string.h>

/* Events as the recorded runs show them, and the comparison. */

EventLog *
event_log_new (Scenario *scenario)
{
  EventLog *log = g_new0 (EventLog, 1);

  log->scenario = scenario;
  log->texts = g_ptr_array_new_with_free_func (g_free);
  return log;
}

void
event_log_free (EventLog *log)
{
  if (log == NULL)
    return;
  g_ptr_array_unref (log->texts);
  g_free (log);
}

static void
write_list (Scenario *scenario, LmtJsonWriter *w, const char *member, LmtKey *const *keys, guint n)
{
  lmt_json_writer_key (w, member);
  lmt_json_writer_begin_array (w);
  for (guint i = 0; i < n; i++)
    lmt_json_writer_string (w, scenario_key_name (scenario, keys[i]));
  lmt_json_writer_end_array (w);
}

static void
write_number (LmtJsonWriter *w, const char *member, guint64 value)
{
  lmt_json_writer_key (w, member);
  lmt_json_writer_uint (w, value);
}

static void
write_text (LmtJsonWriter *w, const char *member, const char *value)
{
  lmt_json_writer_key (w, member);
  lmt_json_writer_string (w, value);
}

static void
write_per_salt (LmtJsonWriter *w, const SmEvent *event)
{
  g_autoptr (GHashTable) counts = g_hash_table_new (g_str_hash, g_str_equal);
  GHashTableIter iter;
  gpointer salt, n;

  for (guint i = 0; i < event->n_keys; i++)
    {
      gpointer name = (gpointer)event->keys[i]->fields.salt;

      g_hash_table_insert (counts, name, GUINT_TO_POINTER (GPOINTER_TO_UINT (g_hash_table_lookup (counts, name)) + 1));
    }
  lmt_json_writer_key (w, "key_count_per_salt");
  lmt_json_writer_begin_object (w);
  g_hash_table_iter_init (&iter, counts);
  while (g_hash_table_iter_next (&iter, &salt, &n))
    write_number (w, salt, GPOINTER_TO_UINT (n));
  lmt_json_writer_end_object (w);
}

/* Defect 5: the recorded number is the first size times the count; ours is the sum, which is checked here. */
static void
write_submitted_bytes (Scenario *scenario, LmtJsonWriter *w, const SmEvent *event)
{
  guint64 sum = 0;

  for (guint i = 0; i < event->n_keys; i++)
    sum += event->sizes[i];
  if (event->total_bytes != sum)
    fail (scenario, sm_event_name (event->type), "total_bytes to be the sum", "another number");
  write_number (w, "total_bytes",
                event->type == SM_EV_STORE_SUBMITTED && event->n_keys > 0 ? event->sizes[0] * event->n_keys : sum);
}

static void
write_l2_event (Scenario *scenario, LmtJsonWriter *w, const SmEvent *event)
{
  gboolean per_request = event->type >= SM_EV_LOOKUP_SUBMITTED && event->type <= SM_EV_LOAD_COMPLETED;

  if (per_request)
    write_number (w, "request_id", event->request);
  switch (event->type)
    {
    case SM_EV_STORE_SUBMITTED:
    case SM_EV_LOAD_TASK_SUBMITTED:
      write_number (w, "key_count", event->key_count);
      write_submitted_bytes (scenario, w, event);
      break;
    case SM_EV_STORE_COMPLETED:
      write_number (w, "bytes_transferred", event->total_bytes);
      write_number (w, "succeeded_count", event->succeeded_count);
      write_number (w, "failed_count", event->failed_count);
      break;
    case SM_EV_LOOKUP_SUBMITTED:
    case SM_EV_LOAD_SUBMITTED:
      write_number (w, "key_count", event->key_count);
      write_number (w, "adapter_count", event->adapter_count);
      break;
    case SM_EV_LOAD_COMPLETED:
      write_number (w, "loaded_count", event->succeeded_count);
      write_number (w, "failed_count", event->failed_count);
      break;
    default:
      break;
    }
  if (event->type == SM_EV_STORE_SUBMITTED || event->type == SM_EV_STORE_COMPLETED || event->type == SM_EV_LOAD_TASK_SUBMITTED
      || event->type == SM_EV_LOAD_TASK_COMPLETED)
    {
      write_number (w, "adapter_index", event->adapter);
      write_text (w, "l2_name", "scripted");
    }
  if (event->type != SM_EV_LOAD_TASK_SUBMITTED && event->type != SM_EV_LOAD_TASK_COMPLETED
      && !(event->type == SM_EV_STORE_COMPLETED && event->failed_count > 0))
    write_per_salt (w, event);
}

static void
write_event (EventLog *log, LmtJsonWriter *w, const SmEvent *event)
{
  Scenario *scenario = log->scenario;

  write_text (w, "type", sm_event_name (event->type));
  if (event->type == SM_EV_WRITE_RESERVED || event->type == SM_EV_WRITE_FINISHED || event->type == SM_EV_READ_PREFETCHED_FINISHED)
    {
      write_list (scenario, w, "succeeded_keys", event->keys, event->n_keys);
      write_list (scenario, w, "failed_keys", event->failed_keys, event->n_failed_keys);
    }
  else if (event->type == SM_EV_L2_KEYS_EVICTED)
    {
      write_number (w, "key_count", event->key_count);
      write_per_salt (w, event);
    }
  else if (event->type >= SM_EV_STORE_SUBMITTED && event->type <= SM_EV_LOAD_COMPLETED)
    write_l2_event (scenario, w, event);
  else
    write_list (scenario, w, "keys", event->keys, event->n_keys);
  if (event->type == SM_EV_L1_WRITE_RESERVED)
    write_text (w, "tag", log->tag_name != NULL ? log->tag_name (event->tag, log->data) : event->tag);
  if (event->during != NULL)
    write_text (w, "during", event->during);
  if (event->reason != NULL)
    write_text (w, "reason", event->reason);
  if (event->type == SM_EV_L2_KEYS_STORED)
    {
      lmt_json_writer_key (w, "sizes");
      lmt_json_writer_begin_array (w);
      for (guint i = 0; i < event->n_keys; i++)
        lmt_json_writer_uint (w, event->sizes[i]);
      lmt_json_writer_end_array (w);
    }
}

static char *
canonical (const char *text)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (LmtJson) json = lmt_json_parse (text, -1, &error);

  g_assert_no_error (error);
  return lmt_json_to_text (json, LMT_JSON_STYLE_SPACED, TRUE);
}

void
event_log_listen (const SmEvent *event, gpointer data)
{
  EventLog *log = data;
  g_autoptr (GString) text = NULL;
  LmtJsonWriter *w;

  /* Left out of the recordings: notifications of L1 with no keys, ticks. */
  if (event->type == SM_EV_L1_LOOP_TICK || (event->type <= SM_EV_L1_READ_FAILED && event->n_keys == 0))
    return;
  text = g_string_new (NULL);
  w = lmt_json_writer_new (text, LMT_JSON_STYLE_SPACED);
  lmt_json_writer_begin_object (w);
  write_event (log, w, event);
  lmt_json_writer_end_object (w);
  lmt_json_writer_free (w);
  g_ptr_array_add (log->texts, canonical (text->str));
}

static gint
compare_texts (gconstpointer a, gconstpointer b)
{
  return strcmp (*(const char *const *)a, *(const char *const *)b);
}

static char *
join (const GPtrArray *texts)
{
  GString *all = g_string_new (NULL);

  for (guint i = 0; i < texts->len; i++)
    g_string_append_printf (all, "\n    %s", (const char *)texts->pdata[i]);
  return g_string_free (all, FALSE);
}

void
event_log_check (EventLog *log, const char *where, const LmtJson *step)
{
  const LmtJson *ordered = member_object (step, "events"), *unordered = member_object (step, "events_unordered");
  const LmtJson *expected = ordered != NULL ? ordered : unordered, *ours = member_object (step, "lmtrace");
  g_autoptr (GPtrArray) texts = g_ptr_array_new_with_free_func (g_free);
  g_autofree char *want = NULL, *have = NULL;

  if (expected == NULL)
    return;
  for (guint i = 0; i < lmt_json_get_length (expected); i++)
    g_ptr_array_add (texts, lmt_json_to_text (lmt_json_get_element (expected, i), LMT_JSON_STYLE_SPACED, TRUE));
  if (unordered != NULL)
    {
      g_ptr_array_sort (texts, compare_texts);
      g_ptr_array_sort (log->texts, compare_texts);
    }
  want = join (texts);
  have = join (log->texts);
  /* Where the outcome is a defect of LMCache, so are the events that tell of it. */
  if (strcmp (want, have) != 0 && (ours == NULL || lmt_json_get_member (ours, "expect") == NULL))
    {
      g_autofree char *place = g_strdup_printf ("%s: events", where);

      fail (log->scenario, place, want, have);
    }
  g_ptr_array_set_size (log->texts, 0);
}
