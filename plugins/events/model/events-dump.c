// SPDX-License-Identifier: Apache-2.0
/* All views in canonical order: two coordinators that hold the same say the same, byte for byte. */
#include "events-views-private.h"

static void
put_span (LmtJsonWriter *out, const char *name, LmtSpan text)
{
  if (name != NULL)
    lmt_json_writer_key (out, name);
  lmt_json_writer_string_len (out, (const char *)text.data, text.len);
}

static void
put_int (LmtJsonWriter *out, const char *name, gint64 value)
{
  lmt_json_writer_key (out, name);
  lmt_json_writer_int (out, value);
}

static void
put_bool (LmtJsonWriter *out, const char *name, gboolean value)
{
  lmt_json_writer_key (out, name);
  lmt_json_writer_bool (out, value);
}

static void
begin_array (LmtJsonWriter *out, const char *name)
{
  lmt_json_writer_key (out, name);
  lmt_json_writer_begin_array (out);
}

/* ---- streams ---- */

static void
collect_stream (const EventsStream *stream, gpointer data)
{
  g_ptr_array_add (data, (gpointer)stream);
}

static gint
compare_streams (gconstpointer a, gconstpointer b)
{
  return events_span_compare ((*(const EventsStream *const *)a)->instance, (*(const EventsStream *const *)b)->instance);
}

/* Without clocks and counts of verdicts: those differ between a run that was resumed and one that wasn't. */
static void
dump_streams (EventsViews *views, LmtJsonWriter *out)
{
  g_autoptr (GPtrArray) streams = g_ptr_array_new ();

  events_gate_foreach (views->gate, collect_stream, streams);
  g_ptr_array_sort (streams, compare_streams);
  begin_array (out, "streams");
  for (guint i = 0; i < streams->len; i++)
    {
      const EventsStream *stream = g_ptr_array_index (streams, i);
      lmt_json_writer_begin_object (out);
      put_span (out, "instance_id", stream->instance);
      if (stream->known)
        {
          put_int (out, "incarnation", stream->incarnation);
          put_int (out, "last_seq", stream->last_seq);
          put_bool (out, "gap", stream->gap != 0);
          put_int (out, "missing", (gint64)stream->missing);
          put_int (out, "dropped", (gint64)stream->dropped);
        }
      put_bool (out, "departed", stream->departed != 0);
      if (stream->departed)
        put_int (out, "departed_incarnation", stream->departed_incarnation);
      lmt_json_writer_end_object (out);
    }
  lmt_json_writer_end_array (out);
}

/* ---- keys ---- */

static void
put_key (EventsViews *views, LmtJsonWriter *out, guint32 number)
{
  EventsKey key;
  g_autoptr (GString) hex = g_string_new (NULL);

  events_key_fill (views, number, &key);
  for (gsize i = 0; i < key.hash.len; i++)
    g_string_append_printf (hex, "%02x", key.hash.data[i]);
  lmt_json_writer_begin_array (out);
  lmt_json_writer_string (out, hex->str);
  put_span (out, NULL, key.model);
  lmt_json_writer_int (out, key.kv_rank);
  lmt_json_writer_int (out, key.group);
  put_span (out, NULL, key.salt);
  lmt_json_writer_end_array (out);
}

static gint
compare_keys (gconstpointer first, gconstpointer second, gpointer data)
{
  EventsViews *views = data;
  EventsKey a, b;
  int order;

  events_key_fill (views, *(const guint32 *)first, &a);
  events_key_fill (views, *(const guint32 *)second, &b);
  if ((order = events_span_compare (a.hash, b.hash)) != 0 || (order = events_span_compare (a.model, b.model)) != 0
      || (order = (a.kv_rank > b.kv_rank) - (a.kv_rank < b.kv_rank)) != 0
      || (order = (a.group > b.group) - (a.group < b.group)) != 0)
    return order;
  return events_span_compare (a.salt, b.salt);
}

static gint
compare_placements (gconstpointer first, gconstpointer second)
{
  const EventsPlacement *a = first, *b = second;
  const int order = events_span_compare (a->instance, b->instance);

  if (order != 0)
    return order;
  if (a->tier != b->tier)
    return (a->tier > b->tier) - (a->tier < b->tier);
  const int backends = events_span_compare (a->backend, b->backend);
  return backends != 0 ? backends : (a->shared > b->shared) - (a->shared < b->shared);
}

static void
put_placements (EventsViews *views, LmtJsonWriter *out, guint32 number)
{
  EventsKeyView view = { 0 };

  events_views_show (views, number, NULL, &view);
  g_array_sort (views->shown, compare_placements);
  begin_array (out, "placements");
  for (guint i = 0; i < view.n_placements; i++)
    {
      const EventsPlacement *each = &view.placements[i];
      lmt_json_writer_begin_array (out);
      put_span (out, NULL, each->instance);
      lmt_json_writer_int (out, each->incarnation);
      lmt_json_writer_string (out, events_tier_words[each->tier]);
      put_span (out, NULL, each->backend);
      lmt_json_writer_int (out, each->size_bytes);
      lmt_json_writer_bool (out, each->shared != 0);
      lmt_json_writer_end_array (out);
    }
  lmt_json_writer_end_array (out);
  put_int (out, "access_count", (gint64)view.access_count);
  lmt_json_writer_key (out, "last_access");
  lmt_json_writer_double (out, view.last_access);
  put_int (out, "token_offset", view.token_offset);
  begin_array (out, "token_ids");
  for (guint32 i = 0; i < view.n_tokens; i++)
    lmt_json_writer_int (out, view.tokens[i]);
  lmt_json_writer_end_array (out);
}

static void
dump_keys (EventsViews *views, LmtJsonWriter *out)
{
  g_autofree guint32 *numbers = g_new (guint32, (gsize)views->num_keys + 1);
  guint64 n = 0;

  for (guint64 i = 1; i < views->order_n; i++)
    if (views->order[i] != 0)
      numbers[n++] = views->order[i];
  g_qsort_with_data (numbers, (gint)n, sizeof *numbers, compare_keys, views);
  begin_array (out, "keys");
  for (guint64 i = 0; i < n; i++)
    {
      lmt_json_writer_begin_object (out);
      lmt_json_writer_key (out, "key");
      put_key (views, out, numbers[i]);
      put_placements (views, out, numbers[i]);
      lmt_json_writer_end_object (out);
    }
  lmt_json_writer_end_array (out);
}

/* ---- sums ---- */

static gint
compare_names (gconstpointer a, gconstpointer b)
{
  return events_span_compare (*(const LmtSpan *)a, *(const LmtSpan *)b);
}

/* Only those with a name in use, sorted. */
static GArray *
sorted_names (const EventsNames *names)
{
  GArray *found = g_array_new (FALSE, FALSE, sizeof (LmtSpan));

  for (guint32 i = 1; i < names->n; i++)
    {
      const LmtSpan text = events_names_get (names, i);
      if (names->items[i].text != NULL)
        g_array_append_val (found, text);
    }
  g_array_sort (found, compare_names);
  return found;
}

static void
put_module (const EventsModule *module, gpointer data)
{
  LmtJsonWriter *out = data;

  lmt_json_writer_begin_array (out);
  lmt_json_writer_string (out, events_tier_words[module->tier]);
  put_span (out, NULL, module->backend);
  lmt_json_writer_int (out, module->used_bytes);
  lmt_json_writer_int (out, module->capacity_bytes);
  lmt_json_writer_end_array (out);
}

static gint
compare_declared (gconstpointer first, gconstpointer second, gpointer data)
{
  const EventsViews *views = data;
  const EventsDeclared *a = first, *b = second;

  if (a->tier != b->tier)
    return (a->tier > b->tier) - (a->tier < b->tier);
  return events_span_compare (events_names_get (&views->backend_names, a->backend),
                              events_names_get (&views->backend_names, b->backend));
}

static void
put_declared (EventsViews *views, LmtJsonWriter *out, const EventsInstance *instance)
{
  g_autoptr (GArray) sorted = NULL;

  if (instance->declared == NULL)
    return;
  sorted = g_array_copy (instance->declared);
  g_array_sort_with_data (sorted, compare_declared, views);
  begin_array (out, "declared");
  lmt_json_writer_int (out, instance->stamp_incarnation);
  lmt_json_writer_int (out, instance->stamp_revision);
  for (guint i = 0; i < sorted->len; i++)
    {
      const EventsDeclared *each = &g_array_index (sorted, EventsDeclared, i);
      lmt_json_writer_begin_array (out);
      lmt_json_writer_string (out, events_tier_words[each->tier]);
      put_span (out, NULL, events_names_get (&views->backend_names, each->backend));
      lmt_json_writer_int (out, each->capacity_bytes);
      lmt_json_writer_bool (out, each->shared != 0);
      lmt_json_writer_end_array (out);
    }
  lmt_json_writer_end_array (out);
}

static void
dump_instances (EventsViews *views, LmtJsonWriter *out)
{
  g_autoptr (GArray) ids = sorted_names (&views->instance_names);

  begin_array (out, "instances");
  for (guint i = 0; i < ids->len; i++)
    {
      const LmtSpan id = g_array_index (ids, LmtSpan, i);
      gboolean declared;
      guint32 number;
      const EventsInstance *instance = events_instance_find (views, id, &number);
      if (!instance->listed && !events_views_modules (views, id, &declared, NULL, NULL))
        continue;
      lmt_json_writer_begin_object (out);
      put_span (out, "instance_id", id);
      if (instance->listed)
        put_int (out, "l1_keys", (gint64)instance->l1_keys);
      begin_array (out, "modules");
      events_views_modules (views, id, &declared, put_module, out);
      lmt_json_writer_end_array (out);
      put_declared (views, out, instance);
      lmt_json_writer_end_object (out);
    }
  lmt_json_writer_end_array (out);
  begin_array (out, "shared_modules");
  events_views_shared_modules (views, put_module, out);
  lmt_json_writer_end_array (out);
}

static void
put_salt (LmtSpan salt, gint64 bytes, gpointer data)
{
  lmt_json_writer_begin_array (data);
  put_span (data, NULL, salt);
  lmt_json_writer_int (data, bytes);
  lmt_json_writer_end_array (data);
}

static void
dump_lru (EventsViews *views, LmtJsonWriter *out)
{
  g_autoptr (GArray) salts = sorted_names (&views->salt_names);

  begin_array (out, "lru");
  for (guint i = 0; views->links != NULL && i < salts->len; i++)
    {
      const EventsSalt *salt = &views->salts.at[events_names_find (&views->salt_names, g_array_index (salts, LmtSpan, i))];
      if (salt->lru_n == 0)
        continue;
      lmt_json_writer_begin_array (out);
      for (guint32 key = salt->lru_first; key != 0; key = views->links[key].next)
        put_key (views, out, key);
      lmt_json_writer_end_array (out);
    }
  lmt_json_writer_end_array (out);
}

/* ---- what was set by hand ---- */

static void
put_quota (LmtSpan salt, double limit_gb, gpointer data)
{
  lmt_json_writer_begin_array (data);
  put_span (data, NULL, salt);
  lmt_json_writer_double (data, limit_gb);
  lmt_json_writer_end_array (data);
}

static void
put_pin (const EventsKeyView *view, gpointer data)
{
  g_autoptr (GString) text = g_string_new (NULL);

  for (gsize i = 0; i < view->key.hash.len; i++)
    g_string_append_printf (text, "%02x", view->key.hash.data[i]);
  g_string_append_printf (text, "@%.*s@%" G_GINT64_FORMAT "@%.*s = %" G_GUINT64_FORMAT, LMT_SPAN_STR (view->key.model),
                          view->key.kv_rank, LMT_SPAN_STR (view->key.salt), view->pin_count);
  g_ptr_array_add (data, g_string_free (g_steal_pointer (&text), FALSE));
}

static gint
compare_texts (gconstpointer a, gconstpointer b)
{
  return strcmp (*(const char *const *)a, *(const char *const *)b);
}

static void
dump_intent (EventsViews *views, LmtJsonWriter *out)
{
  g_autoptr (GPtrArray) pins = g_ptr_array_new_with_free_func (g_free);
  double limit_gb;

  begin_array (out, "quotas");
  events_views_foreach_quota (views, put_quota, out);
  lmt_json_writer_end_array (out);
  lmt_json_writer_key (out, "default_quota_gb");
  if (events_views_get_default_quota (views, &limit_gb))
    lmt_json_writer_double (out, limit_gb);
  else
    lmt_json_writer_null (out);
  events_views_pins (views, (LmtSpan){ NULL, 0 }, (LmtSpan){ NULL, 0 }, put_pin, pins);
  g_ptr_array_sort (pins, compare_texts);
  begin_array (out, "pins");
  for (guint i = 0; i < pins->len; i++)
    lmt_json_writer_string (out, g_ptr_array_index (pins, i));
  lmt_json_writer_end_array (out);
}

/* The blend index isn't there: it follows from the rest, and what a content was stored as before leaves traces in it. */
static void
dump_stats (EventsViews *views, LmtJsonWriter *out)
{
  EventsStats stats;

  events_views_stats (views, &stats);
  lmt_json_writer_key (out, "stats");
  lmt_json_writer_begin_object (out);
  put_int (out, "num_keys", (gint64)stats.num_keys);
  put_int (out, "num_placements", (gint64)stats.num_placements);
  put_int (out, "num_bindings", (gint64)stats.num_bindings);
  put_int (out, "l1_count", (gint64)stats.count[EVENTS_L1]);
  put_int (out, "l1_size_bytes", stats.bytes[EVENTS_L1]);
  put_int (out, "l2_count", (gint64)stats.count[EVENTS_L2]);
  put_int (out, "l2_size_bytes", stats.bytes[EVENTS_L2]);
  put_int (out, "usage_only", (gint64)stats.usage_only);
  lmt_json_writer_end_object (out);
}

void
events_views_dump (EventsViews *views, LmtJsonWriter *out)
{
  lmt_json_writer_begin_object (out);
  dump_stats (views, out);
  dump_streams (views, out);
  dump_instances (views, out);
  for (guint tier = 0; tier < EVENTS_N_TIERS; tier++)
    {
      begin_array (out, tier == EVENTS_L1 ? "l1_salts" : "l2_salts");
      events_views_salts (views, (EventsTier)tier, put_salt, out);
      lmt_json_writer_end_array (out);
    }
  dump_intent (views, out);
  dump_lru (views, out);
  dump_keys (views, out);
  lmt_json_writer_end_object (out);
}
