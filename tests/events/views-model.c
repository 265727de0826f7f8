// SPDX-License-Identifier: Apache-2.0
#include "views-model.h"

typedef struct
{
  char *instance;
  gint64 incarnation;
  guint tier, shared;
  char *backend;
  gint64 size;
} Place;

typedef struct
{
  char *name;
  char *hash;
  char *salt;
  GPtrArray *places;
  guint64 accesses;
  double last;
} Row;

typedef struct
{
  char *key; /* tier|owner|backend|key */
  guint tier;
  char *owner, *backend, *salt;
  gint64 size;
} Use;

struct _Model
{
  EventsCompat compat;
  GPtrArray *rows;    /* Row, insertion order */
  GHashTable *index;  /* instance -> set of key names */
  GPtrArray *order;   /* instances in the order they appeared */
  GPtrArray *uses;    /* Use */
  GHashTable *tokens; /* hash -> "n@offset" */
  GPtrArray *lru;     /* Row's names, least recent first */
};

static void
place_free (gpointer data)
{
  Place *place = data;
  g_free (place->instance);
  g_free (place->backend);
  g_free (place);
}

static void
row_free (gpointer data)
{
  Row *row = data;
  g_free (row->name);
  g_free (row->hash);
  g_free (row->salt);
  g_ptr_array_unref (row->places);
  g_free (row);
}

static void
use_free (gpointer data)
{
  Use *use = data;
  g_free (use->key);
  g_free (use->owner);
  g_free (use->backend);
  g_free (use->salt);
  g_free (use);
}

Model *
model_new (EventsCompat compat)
{
  Model *model = g_new0 (Model, 1);
  model->compat = compat;
  model->rows = g_ptr_array_new_with_free_func (row_free);
  model->index = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, (GDestroyNotify)g_hash_table_unref);
  model->order = g_ptr_array_new_with_free_func (g_free);
  model->uses = g_ptr_array_new_with_free_func (use_free);
  model->tokens = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, g_free);
  model->lru = g_ptr_array_new_with_free_func (g_free);
  return model;
}

void
model_free (Model *model)
{
  g_ptr_array_unref (model->rows);
  g_hash_table_unref (model->index);
  g_ptr_array_unref (model->order);
  g_ptr_array_unref (model->uses);
  g_hash_table_unref (model->tokens);
  g_ptr_array_unref (model->lru);
  g_free (model);
}

static char *
copy_text (LmtSpan text)
{
  return g_strndup ((const char *)text.data, text.len);
}

static char *
key_name (const EventsKey *key)
{
  return g_strdup_printf ("%.*s/%.*s/%" G_GINT64_FORMAT "/%" G_GINT64_FORMAT "/%.*s", LMT_SPAN_STR (key->hash),
                          LMT_SPAN_STR (key->model), key->kv_rank, key->group, LMT_SPAN_STR (key->salt));
}

static Row *
find_row (Model *model, const char *name, guint *at)
{
  for (guint i = 0; i < model->rows->len; i++)
    {
      Row *row = g_ptr_array_index (model->rows, i);
      if (g_str_equal (row->name, name))
        {
          *at = i;
          return row;
        }
    }
  return NULL;
}

static void
drop_row (Model *model, guint at)
{
  Row *row = g_ptr_array_index (model->rows, at);
  gboolean held = FALSE;
  for (guint i = 0; i < model->rows->len; i++)
    held |= i != at && g_str_equal (((Row *)g_ptr_array_index (model->rows, i))->hash, row->hash);
  if (!held)
    g_hash_table_remove (model->tokens, row->hash);
  g_ptr_array_remove_index (model->rows, at);
}

static GHashTable *
index_of (Model *model, const char *instance)
{
  GHashTable *keys = g_hash_table_lookup (model->index, instance);
  if (keys == NULL)
    {
      keys = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
      g_hash_table_insert (model->index, g_strdup (instance), keys);
      g_ptr_array_add (model->order, g_strdup (instance));
    }
  return keys;
}

static Place *
find_place (Row *row, const EventsBatch *batch, const char *instance, const char *backend, guint *at)
{
  for (guint i = 0; i < row->places->len; i++)
    {
      Place *place = g_ptr_array_index (row->places, i);
      if (place->shared == batch->shared && (batch->shared || g_str_equal (place->instance, instance))
          && place->tier == batch->tier && g_str_equal (place->backend, backend))
        {
          *at = i;
          return place;
        }
    }
  return NULL;
}

static gboolean
carries_l1 (const Row *row, const char *instance)
{
  for (guint i = 0; i < row->places->len; i++)
    {
      const Place *place = g_ptr_array_index (row->places, i);
      if (place->tier == EVENTS_L1 && g_str_equal (place->instance, instance))
        return TRUE;
    }
  return FALSE;
}

static void
store (Model *model, const EventsBatch *batch, const EventsEntry *entry, const char *name, const char *instance,
       const char *backend)
{
  guint at;
  Row *row = find_row (model, name, &at);
  GHashTable *keys = index_of (model, instance);
  if (row == NULL)
    {
      row = g_new0 (Row, 1);
      row->name = g_strdup (name);
      row->hash = copy_text (entry->key.hash);
      row->salt = copy_text (entry->key.salt);
      row->places = g_ptr_array_new_with_free_func (place_free);
      g_ptr_array_add (model->rows, row);
    }
  Place *place = find_place (row, batch, instance, backend, &at);
  if (place == NULL)
    {
      place = g_new0 (Place, 1);
      place->backend = g_strdup (backend);
      g_ptr_array_add (row->places, place);
    }
  else if (model->compat == EVENTS_COMPAT_STRICT && !g_str_equal (place->instance, instance) && place->tier == EVENTS_L1)
    {
      /* The former reporter keeps the key in its index only as long as another placement carries its name there. */
      g_autofree char *former = g_steal_pointer (&place->instance);
      place->instance = g_strdup (instance);
      GHashTable *theirs = g_hash_table_lookup (model->index, former);
      if (theirs != NULL && !carries_l1 (row, former))
        g_hash_table_remove (theirs, name);
    }
  g_free (place->instance);
  place->instance = g_strdup (instance);
  place->incarnation = batch->incarnation;
  place->tier = batch->tier;
  place->shared = batch->shared;
  place->size = entry->size_bytes;
  if (entry->n_tokens > 0 && entry->tokens_valid)
    g_hash_table_replace (model->tokens, g_strdup (row->hash),
                          g_strdup_printf ("%u:%u@%" G_GINT64_FORMAT, entry->n_tokens, entry->token_ids[0], entry->token_offset));
  row->last = MAX (row->last, batch->ts);
  if (batch->tier == EVENTS_L1)
    g_hash_table_add (keys, g_strdup (name));
}

static void delete (Model *model, const EventsBatch *batch, const char *name, const char *instance, const char *backend)
{
  guint at, place_at;
  Row *row = find_row (model, name, &at);
  if (row == NULL)
    return;
  Place *place = find_place (row, batch, instance, backend, &place_at);
  g_autofree char *carrier = place != NULL ? g_strdup (place->instance) : NULL;
  if (place != NULL)
    g_ptr_array_remove_index (row->places, place_at);
  const gboolean carries = carries_l1 (row, instance), former_carries = carrier != NULL && carries_l1 (row, carrier);
  if (row->places->len == 0)
    drop_row (model, at);
  if (batch->tier == EVENTS_L1 && !carries)
    g_hash_table_remove (index_of (model, instance), name);
  if (model->compat == EVENTS_COMPAT_STRICT && batch->tier == EVENTS_L1 && carrier != NULL && !former_carries)
    {
      GHashTable *theirs = g_hash_table_lookup (model->index, carrier);
      if (theirs != NULL)
        g_hash_table_remove (theirs, name);
    }
}

static void
use_entry (Model *model, const EventsBatch *batch, const EventsEntry *entry, const char *name, const char *instance,
           const char *backend)
{
  const char *owner = batch->shared ? "" : instance;
  g_autofree char *key = g_strdup_printf ("%u|%s|%s|%s", batch->tier, owner, backend, name);
  for (guint i = 0; i < model->uses->len; i++)
    {
      Use *use = g_ptr_array_index (model->uses, i);
      if (!g_str_equal (use->key, key))
        continue;
      if (batch->kind == EVENTS_STORE)
        use->size = entry->size_bytes;
      else
        g_ptr_array_remove_index (model->uses, i);
      return;
    }
  if (batch->kind != EVENTS_STORE)
    return;
  Use *use = g_new0 (Use, 1);
  use->key = g_steal_pointer (&key);
  use->tier = batch->tier;
  use->owner = g_strdup (owner);
  use->backend = g_strdup (backend);
  use->salt = copy_text (entry->key.salt);
  use->size = entry->size_bytes;
  g_ptr_array_add (model->uses, use);
}

static void
order_key (Model *model, const EventsBatch *batch, const char *name)
{
  guint at;
  const gboolean there = g_ptr_array_find_with_equal_func (model->lru, name, g_str_equal, &at);
  g_autofree char *end = g_strconcat ("|", name, NULL);
  gint64 bytes = 0;
  if (batch->tier != EVENTS_L2)
    return;
  for (guint i = 0; i < model->uses->len; i++)
    {
      const Use *use = g_ptr_array_index (model->uses, i);
      if (use->tier == EVENTS_L2 && g_str_has_suffix (use->key, end))
        bytes += use->size;
    }
  if (batch->kind == EVENTS_DELETE ? bytes == 0 && there : there)
    g_ptr_array_remove_index (model->lru, at);
  if (batch->kind == EVENTS_STORE || (batch->kind == EVENTS_ACCESS && there))
    g_ptr_array_add (model->lru, g_strdup (name));
}

void
model_apply (Model *model, const EventsBatch *batch)
{
  g_autofree char *instance = copy_text (batch->instance), *backend = copy_text (batch->backend);
  index_of (model, instance);
  for (guint32 i = 0; i < batch->n_entries; i++)
    {
      const EventsEntry *entry = &batch->entries[i];
      g_autofree char *name = key_name (&entry->key);
      guint at;
      Row *row;
      if (batch->kind == EVENTS_STORE || batch->kind == EVENTS_DELETE)
        use_entry (model, batch, entry, name, instance, backend);
      if (batch->kind == EVENTS_STORE)
        store (model, batch, entry, name, instance, backend);
      else if (batch->kind == EVENTS_DELETE)
        delete (model, batch, name, instance, backend);
      else if ((row = find_row (model, name, &at)) != NULL)
        {
          row->last = MAX (row->last, batch->ts);
          row->accesses++;
        }
      order_key (model, batch, name);
    }
}

void
model_fence (Model *model, const char *instance)
{
  GHashTable *keys = g_hash_table_lookup (model->index, instance);
  const gboolean strict = model->compat == EVENTS_COMPAT_STRICT;
  guint at;
  for (guint i = model->uses->len; i-- > 0;)
    {
      const Use *use = g_ptr_array_index (model->uses, i);
      if (use->tier == EVENTS_L1 && g_str_equal (use->owner, instance))
        g_ptr_array_remove_index (model->uses, i);
    }
  if (keys == NULL)
    return;
  for (guint i = model->rows->len; i-- > 0;)
    {
      Row *row = g_ptr_array_index (model->rows, i);
      if (!g_hash_table_contains (keys, row->name))
        continue;
      for (guint p = row->places->len; p-- > 0;)
        {
          const Place *place = g_ptr_array_index (row->places, p);
          if (place->tier == EVENTS_L1 && g_str_equal (place->instance, instance) && !(strict && place->shared))
            g_ptr_array_remove_index (row->places, p);
        }
      if (row->places->len == 0)
        drop_row (model, i);
    }
  g_hash_table_remove (model->index, instance);
  if (g_ptr_array_find_with_equal_func (model->order, instance, g_str_equal, &at))
    g_ptr_array_remove_index (model->order, at);
}

void
model_depart (Model *model, const char *instance)
{
  model_fence (model, instance);
}

/* ---- text ---- */

static gint
compare_texts (gconstpointer a, gconstpointer b)
{
  return strcmp (*(const char *const *)a, *(const char *const *)b);
}

static void
put_sums (GHashTable *sums, GString *out)
{
  g_autoptr (GPtrArray) lines = g_ptr_array_new_with_free_func (g_free);
  GHashTableIter iter;
  gpointer key, value;
  g_hash_table_iter_init (&iter, sums);
  while (g_hash_table_iter_next (&iter, &key, &value))
    if (*(gint64 *)value > 0)
      g_ptr_array_add (lines, g_strdup_printf ("%s = %" G_GINT64_FORMAT "\n", (char *)key, *(gint64 *)value));
  g_ptr_array_sort (lines, compare_texts);
  for (guint i = 0; i < lines->len; i++)
    g_string_append (out, g_ptr_array_index (lines, i));
}

static void
add_sum (GHashTable *sums, char *key, gint64 value)
{
  gint64 *sum = g_hash_table_lookup (sums, key);
  if (sum == NULL)
    {
      sum = g_new0 (gint64, 1);
      g_hash_table_insert (sums, g_strdup (key), sum);
    }
  *sum += value;
  g_free (key);
}

static void
put_lru (GPtrArray *lru, const char *salt, GString *out)
{
  g_string_append_printf (out, "lru %s:", salt);
  for (guint i = 0; i < lru->len; i++)
    if (g_str_has_suffix (g_ptr_array_index (lru, i), salt))
      g_string_append_printf (out, " %s", (char *)g_ptr_array_index (lru, i));
  g_string_append_c (out, '\n');
}

char *
model_to_text (Model *model)
{
  GString *out = g_string_new (NULL);
  g_autoptr (GHashTable) sums = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, g_free);
  guint64 count[2] = { 0 };
  gint64 bytes[2] = { 0 };
  for (guint i = 0; i < model->rows->len; i++)
    {
      const Row *row = g_ptr_array_index (model->rows, i);
      const char *tokens = g_hash_table_lookup (model->tokens, row->hash);
      g_string_append_printf (out, "%s accesses %" G_GUINT64_FORMAT " last %g tokens %s:", row->name, row->accesses, row->last,
                              tokens != NULL ? tokens : "-");
      for (guint p = 0; p < row->places->len; p++)
        {
          const Place *place = g_ptr_array_index (row->places, p);
          g_string_append_printf (out, " %s.%" G_GINT64_FORMAT ".l%u.%s.%" G_GINT64_FORMAT ".%u", place->instance,
                                  place->incarnation, place->tier + 1, place->backend, place->size, place->shared);
          count[place->tier]++;
          bytes[place->tier] += place->size;
        }
      g_string_append_c (out, '\n');
    }
  g_string_append_printf (
      out, "stats %u keys, %" G_GUINT64_FORMAT " %" G_GINT64_FORMAT ", %" G_GUINT64_FORMAT " %" G_GINT64_FORMAT "\n",
      model->rows->len, count[0], bytes[0], count[1], bytes[1]);
  for (guint i = 0; i < model->order->len; i++)
    {
      const char *instance = g_ptr_array_index (model->order, i);
      g_string_append_printf (out, "index %s: %u\n", instance, g_hash_table_size (g_hash_table_lookup (model->index, instance)));
    }
  for (guint i = 0; i < model->uses->len; i++)
    {
      const Use *use = g_ptr_array_index (model->uses, i);
      add_sum (sums, g_strdup_printf ("salt l%u %s", use->tier + 1, use->salt), use->size);
      add_sum (sums, g_strdup_printf ("module %s l%u %s", use->owner, use->tier + 1, use->backend), use->size);
    }
  put_sums (sums, out);
  put_lru (model->lru, "/", out);
  put_lru (model->lru, "/s", out);
  return g_string_free (out, FALSE);
}

static void
put_row (const EventsKeyView *view, gpointer data)
{
  GString *out = data;
  g_autofree char *name = key_name (&view->key);
  g_string_append_printf (out, "%s accesses %" G_GUINT64_FORMAT " last %g tokens ", name, view->access_count, view->last_access);
  if (view->n_tokens > 0)
    g_string_append_printf (out, "%u:%u@%" G_GINT64_FORMAT ":", view->n_tokens, view->tokens[0], view->token_offset);
  else
    g_string_append (out, "-:");
  for (guint i = 0; i < view->n_placements; i++)
    {
      const EventsPlacement *place = &view->placements[i];
      g_string_append_printf (out, " %.*s.%" G_GINT64_FORMAT ".l%u.%.*s.%" G_GINT64_FORMAT ".%u", LMT_SPAN_STR (place->instance),
                              place->incarnation, place->tier + 1, LMT_SPAN_STR (place->backend), place->size_bytes,
                              place->shared);
    }
  g_string_append_c (out, '\n');
}

static void
put_index (LmtSpan instance, guint64 keys, gpointer data)
{
  g_string_append_printf (data, "index %.*s: %" G_GUINT64_FORMAT "\n", LMT_SPAN_STR (instance), keys);
}

typedef struct
{
  GHashTable *sums;
  const char *owner;
  guint tier;
  EventsViews *views;
} Sums;

static void
sum_salt (LmtSpan salt, gint64 bytes, gpointer data)
{
  const Sums *sums = data;
  add_sum (sums->sums, g_strdup_printf ("salt l%u %.*s", sums->tier + 1, LMT_SPAN_STR (salt)), bytes);
}

static void
sum_module (const EventsModule *module, gpointer data)
{
  const Sums *sums = data;
  add_sum (sums->sums, g_strdup_printf ("module %s l%u %.*s", sums->owner, module->tier + 1, LMT_SPAN_STR (module->backend)),
           module->used_bytes);
}

static void
sum_instance (LmtSpan instance, gpointer data)
{
  Sums *sums = data;
  g_autofree char *owner = copy_text (instance);
  gboolean declared;
  sums->owner = owner;
  g_assert_true (events_views_modules (sums->views, instance, &declared, sum_module, sums));
}

static void
add_victim (const EventsKeyView *view, gpointer data)
{
  g_ptr_array_add (data, key_name (&view->key));
}

char *
views_to_text (EventsViews *views)
{
  GString *out = g_string_new (NULL);
  Sums sums = { .sums = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, g_free), .owner = "", .views = views };
  g_autoptr (GPtrArray) plain = g_ptr_array_new_with_free_func (g_free), salted = g_ptr_array_new_with_free_func (g_free);
  EventsStats stats;
  guint64 at = 0;
  while (at != G_MAXUINT64)
    events_views_keys (views, NULL, &at, 3, put_row, out);
  events_views_stats (views, &stats);
  g_string_append_printf (out,
                          "stats %" G_GINT64_FORMAT " keys, %" G_GUINT64_FORMAT " %" G_GINT64_FORMAT ", %" G_GUINT64_FORMAT
                          " %" G_GINT64_FORMAT "\n",
                          (gint64)stats.num_keys, stats.count[0], stats.bytes[0], stats.count[1], stats.bytes[1]);
  events_views_l1_keys (views, put_index, out);
  for (sums.tier = 0; sums.tier < EVENTS_N_TIERS; sums.tier++)
    events_views_salts (views, (EventsTier)sums.tier, sum_salt, &sums);
  events_views_shared_modules (views, sum_module, &sums);
  events_views_usage_instances (views, sum_instance, &sums);
  put_sums (sums.sums, out);
  g_hash_table_unref (sums.sums);
  events_views_victims (views, (LmtSpan){ NULL, 0 }, 1.0, add_victim, plain);
  events_views_victims (views, (LmtSpan){ (const guint8 *)"s", 1 }, 1.0, add_victim, salted);
  put_lru (plain, "/", out);
  put_lru (salted, "/s", out);
  return g_string_free (out, FALSE);
}
