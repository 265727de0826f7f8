// SPDX-License-Identifier: Apache-2.0
#include "view-json.h"

#include "events-names.h"

#define GIB 1073741824.0

static void
put_span (LmtJsonWriter *out, const char *name, LmtSpan text)
{
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
put_module (const EventsModule *module, gpointer data)
{
  LmtJsonWriter *out = data;

  lmt_json_writer_begin_object (out);
  put_span (out, "tier", (LmtSpan){ (const guint8 *)events_tier_words[module->tier], 2 });
  put_span (out, "backend", module->backend);
  lmt_json_writer_key (out, "shared");
  lmt_json_writer_bool (out, module->shared != 0);
  put_int (out, "used_bytes", module->used_bytes);
  put_int (out, "capacity_bytes", module->capacity_bytes);
  lmt_json_writer_key (out, "usage_ratio");
  if (module->capacity_bytes > 0)
    lmt_json_writer_double (out, (double)module->used_bytes / (double)module->capacity_bytes);
  else
    lmt_json_writer_null (out);
  lmt_json_writer_end_object (out);
}

static void
collect_id (LmtSpan id, gpointer data)
{
  char *text = g_strndup ((const char *)id.data, id.len);

  if (g_ptr_array_find_with_equal_func (data, text, g_str_equal, NULL))
    g_free (text);
  else
    g_ptr_array_add (data, text);
}

static gint
compare_strings (gconstpointer a, gconstpointer b)
{
  return strcmp (*(const char *const *)a, *(const char *const *)b);
}

void
view_json_usage (EventsViews *views, GPtrArray *registered, LmtJsonWriter *out)
{
  g_autoptr (GPtrArray) ids = g_ptr_array_new_with_free_func (g_free);

  for (guint i = 0; i < registered->len; i++)
    g_ptr_array_add (ids, g_strdup (g_ptr_array_index (registered, i)));
  events_views_usage_instances (views, collect_id, ids);
  g_ptr_array_sort (ids, compare_strings);
  lmt_json_writer_begin_object (out);
  lmt_json_writer_key (out, "instances");
  lmt_json_writer_begin_array (out);
  for (guint i = 0; i < ids->len; i++)
    {
      const char *id = g_ptr_array_index (ids, i);
      const LmtSpan span = { (const guint8 *)id, strlen (id) };
      gboolean declared;
      events_views_modules (views, span, &declared, NULL, NULL);
      lmt_json_writer_begin_object (out);
      put_span (out, "instance_id", span);
      lmt_json_writer_key (out, "registered");
      lmt_json_writer_bool (out, g_ptr_array_find_with_equal_func (registered, id, g_str_equal, NULL));
      lmt_json_writer_key (out, "declared_capacity");
      lmt_json_writer_bool (out, declared);
      lmt_json_writer_key (out, "modules");
      lmt_json_writer_begin_array (out);
      events_views_modules (views, span, &declared, put_module, out);
      lmt_json_writer_end_array (out);
      lmt_json_writer_end_object (out);
    }
  lmt_json_writer_end_array (out);
  lmt_json_writer_key (out, "shared_modules");
  lmt_json_writer_begin_array (out);
  events_views_shared_modules (views, put_module, out);
  lmt_json_writer_end_array (out);
  lmt_json_writer_end_object (out);
}

static void
put_l1_keys (LmtSpan instance, guint64 keys, gpointer data)
{
  g_autofree char *id = g_strndup ((const char *)instance.data, instance.len);

  put_int (data, id, (gint64)keys);
}

void
view_json_stats (EventsViews *views, LmtJsonWriter *out)
{
  EventsStats stats;

  events_views_stats (views, &stats);
  lmt_json_writer_begin_object (out);
  put_int (out, "num_keys", (gint64)stats.num_keys);
  put_int (out, "num_placements", (gint64)stats.num_placements);
  lmt_json_writer_key (out, "l1_keys_by_instance");
  lmt_json_writer_begin_object (out);
  events_views_l1_keys (views, put_l1_keys, out);
  lmt_json_writer_end_object (out);
  lmt_json_writer_key (out, "blend");
  lmt_json_writer_begin_object (out);
  put_int (out, "num_contents", (gint64)stats.num_contents);
  put_int (out, "num_chunks", (gint64)stats.num_chunks);
  put_int (out, "num_claims", (gint64)stats.num_claims);
  put_int (out, "num_namespaces", (gint64)stats.num_namespaces);
  put_int (out, "table_size", (gint64)stats.table_size);
  lmt_json_writer_end_object (out);
  put_int (out, "l1_count", (gint64)stats.count[EVENTS_L1]);
  put_int (out, "l1_size_bytes", stats.bytes[EVENTS_L1]);
  put_int (out, "l2_count", (gint64)stats.count[EVENTS_L2]);
  put_int (out, "l2_size_bytes", stats.bytes[EVENTS_L2]);
  lmt_json_writer_end_object (out);
}

void
view_json_key (const EventsKey *key, LmtJsonWriter *out)
{
  g_autoptr (GString) hex = g_string_new (NULL);

  for (gsize i = 0; i < key->hash.len; i++)
    g_string_append_printf (hex, "%02x", key->hash.data[i]);
  lmt_json_writer_begin_object (out);
  lmt_json_writer_key (out, "chunk_hash_hex");
  lmt_json_writer_string (out, hex->str);
  put_span (out, "model_name", key->model);
  put_int (out, "kv_rank", key->kv_rank);
  put_int (out, "object_group_id", key->group);
  put_span (out, "cache_salt", key->salt);
  lmt_json_writer_end_object (out);
}

static void
put_placements (const EventsPlacement *placements, guint n, LmtJsonWriter *out)
{
  lmt_json_writer_key (out, "placements");
  lmt_json_writer_begin_array (out);
  for (guint i = 0; i < n; i++)
    {
      const EventsPlacement *each = &placements[i];
      lmt_json_writer_begin_object (out);
      put_span (out, "instance_id", each->instance);
      put_int (out, "incarnation", each->incarnation);
      put_span (out, "tier", (LmtSpan){ (const guint8 *)events_tier_words[each->tier], 2 });
      put_span (out, "backend", each->backend);
      put_int (out, "size_bytes", each->size_bytes);
      lmt_json_writer_key (out, "shared");
      lmt_json_writer_bool (out, each->shared != 0);
      lmt_json_writer_end_object (out);
    }
  lmt_json_writer_end_array (out);
}

static void
put_key_row (const EventsKeyView *view, gpointer data)
{
  LmtJsonWriter *out = data;

  lmt_json_writer_begin_object (out);
  lmt_json_writer_key (out, "key");
  view_json_key (&view->key, out);
  put_placements (view->placements, view->n_placements, out);
  put_int (out, "num_tokens", view->n_tokens);
  put_int (out, "access_count", (gint64)view->access_count);
  lmt_json_writer_end_object (out);
}

void
view_json_keys (EventsViews *views, guint64 budget, LmtJsonWriter *out)
{
  guint64 at = 0, total = 0;

  lmt_json_writer_begin_object (out);
  lmt_json_writer_key (out, "keys");
  lmt_json_writer_begin_array (out);
  while (at != G_MAXUINT64)
    total += events_views_keys (views, NULL, &at, budget, put_key_row, out);
  lmt_json_writer_end_array (out);
  put_int (out, "total", (gint64)total);
  lmt_json_writer_end_object (out);
}

static int
compare_placements (gconstpointer first, gconstpointer second)
{
  const EventsPlacement *a = first, *b = second;
  const int instance = events_span_compare (a->instance, b->instance);

  if (instance != 0)
    return instance;
  return a->tier != b->tier ? (a->tier > b->tier) - (a->tier < b->tier) : events_span_compare (a->backend, b->backend);
}

void
view_json_lookup (const EventsKeyView *view, gpointer data)
{
  LmtJsonWriter *out = data;
  g_autoptr (GArray) placements = g_array_new (FALSE, FALSE, sizeof (EventsPlacement));

  g_array_append_vals (placements, view->placements, view->n_placements);
  g_array_sort (placements, compare_placements);
  lmt_json_writer_begin_object (out);
  lmt_json_writer_key (out, "key");
  view_json_key (&view->key, out);
  put_placements ((const EventsPlacement *)(gpointer)placements->data, placements->len, out);
  lmt_json_writer_key (out, "token_ids");
  lmt_json_writer_begin_array (out);
  for (guint i = 0; i < view->n_tokens; i++)
    lmt_json_writer_int (out, view->tokens[i]);
  lmt_json_writer_end_array (out);
  put_int (out, "access_count", (gint64)view->access_count);
  lmt_json_writer_end_object (out);
}

static void
put_salt (LmtSpan salt, gint64 bytes, gpointer data)
{
  LmtJsonWriter *out = data;

  lmt_json_writer_begin_object (out);
  put_span (out, "cache_salt", salt);
  lmt_json_writer_key (out, "quota_limit_gb");
  lmt_json_writer_double (out, 0);
  lmt_json_writer_key (out, "quota_exists");
  lmt_json_writer_bool (out, FALSE);
  lmt_json_writer_key (out, "usage_gb");
  lmt_json_writer_double (out, (double)bytes / GIB);
  lmt_json_writer_end_object (out);
}

/* The golden cases set no quota. */
void
view_json_quota (EventsViews *views, EventsTier tier, LmtJsonWriter *out)
{
  lmt_json_writer_begin_object (out);
  lmt_json_writer_key (out, "by_cache_salt");
  lmt_json_writer_begin_array (out);
  const gint64 total = events_views_salts (views, tier, put_salt, out);
  lmt_json_writer_end_array (out);
  lmt_json_writer_key (out, "total_gb");
  lmt_json_writer_double (out, (double)total / GIB);
  lmt_json_writer_end_object (out);
}
