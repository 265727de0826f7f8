// SPDX-License-Identifier: Apache-2.0
/* Reading: statistics, keys, lookups, the dump. */
#include "events-views-private.h"

void
events_views_stats (EventsViews *views, EventsStats *stats)
{
  *stats = (EventsStats){ .num_keys = (gint64)views->num_keys, .num_bindings = views->num_bindings };
  for (guint t = 0; t < EVENTS_N_TIERS; t++)
    {
      stats->count[t] = views->count[t];
      stats->bytes[t] = events_wide_to_int (views->bytes[t]);
      stats->num_placements += (gint64)views->count[t];
    }
  stats->usage_only = views->num_usage_only;
  stats->stored_again = views->stored_again;
  stats->emptied = views->emptied;
  stats->deleted_unknown = views->deleted_unknown;
  events_tokens_stats (views, stats);
}

static gint
by_since (gconstpointer a, gconstpointer b, gpointer data)
{
  const EventsViews *views = data;
  const guint64 first = views->instances.at[*(const guint32 *)a].since, second = views->instances.at[*(const guint32 *)b].since;

  return (first > second) - (first < second);
}

void
events_views_l1_keys (EventsViews *views, void (*func) (LmtSpan instance, guint64 keys, gpointer data), gpointer data)
{
  g_autoptr (GArray) found = g_array_new (FALSE, FALSE, sizeof (guint32));

  for (guint32 i = 1; i < views->instance_names.n; i++)
    if (i < views->instances.allocated && views->instances.at[i].listed)
      g_array_append_val (found, i);
  g_array_sort_with_data (found, by_since, views);
  for (guint i = 0; i < found->len; i++)
    {
      const guint32 number = g_array_index (found, guint32, i);
      func (events_names_get (&views->instance_names, number), views->instances.at[number].l1_keys, data);
    }
}

static gboolean
matches (const EventsKeyFilter *filter, const EventsPlacement *placement)
{
  return filter == NULL
         || ((!filter->has_tier || filter->tier == placement->tier)
             && (filter->instance.data == NULL || events_span_equal (filter->instance, placement->instance))
             && (filter->backend.data == NULL || events_span_equal (filter->backend, placement->backend)));
}

static void
show_tokens (const EventsViews *views, guint32 chunk, EventsKeyView *view)
{
  const EventsContent *content = &views->contents.at[views->chunks.at[chunk].content];

  view->token_offset = -1;
  if (views->chunks.at[chunk].content == 0)
    return;
  view->tokens = content->tokens;
  view->n_tokens = content->n;
  view->token_offset = content->offset;
}

/* Without the key's identity. */
void
events_views_show (EventsViews *views, guint32 number, const EventsKeyFilter *filter, EventsKeyView *view)
{
  const EventsKeyRecord *key = &views->keys.at[number];

  g_array_set_size (views->shown, 0);
  if (key->order != 0)
    {
      view->access_count = (guint64)key->accesses;
      view->last_access = key->last_access;
      for (guint32 i = key->items; i != 0; i = views->items.at[i].next)
        {
          const EventsItem *item = &views->items.at[i];
          const EventsOrigin *origin = &views->origins.at[item->origin];
          if (!(item->flags & EVENTS_ITEM_DIRECTORY))
            continue;
          const EventsPlacement placement
              = { .instance = events_names_get (&views->instance_names, origin->instance),
                  .incarnation = origin->incarnation,
                  .tier = origin->tier,
                  .shared = origin->shared,
                  .backend = events_names_get (&views->backend_names, views->seats.at[origin->seat].backend),
                  .size_bytes = item->size_bytes };
          if (matches (filter, &placement))
            g_array_append_val (views->shown, placement);
        }
    }
  view->placements = (const EventsPlacement *)(gpointer)views->shown->data;
  view->n_placements = views->shown->len;
  show_tokens (views, key->chunk, view);
}

void
events_views_lookup (EventsViews *views, const EventsKey *key, EventsKeyFunc func, gpointer data)
{
  EventsKeyView view = { .key = *key, .token_offset = -1 };
  const guint32 chunk = events_chunk_find (views, key->hash, events_hash_tag (views, key->hash));

  if (chunk != 0)
    {
      const guint32 space = events_space_find (views, key->model, key->salt, key->kv_rank, key->group);
      const guint32 number = space != 0 ? events_key_find_in (views, chunk, space) : 0;
      if (number != 0)
        events_views_show (views, number, NULL, &view);
      else
        show_tokens (views, chunk, &view);
    }
  view.pin_count = events_usage_pin_count (views, key);
  func (&view, data);
}

static gint
by_group (gconstpointer a, gconstpointer b, gpointer data)
{
  const EventsViews *views = data;
  const gint64 first = views->spaces.at[views->keys.at[*(const guint32 *)a].space].group,
               second = views->spaces.at[views->keys.at[*(const guint32 *)b].space].group;

  return (first > second) - (first < second);
}

void
events_views_lookup_groups (EventsViews *views, const EventsKey *key, gint64 except_group, EventsKeyFunc func, gpointer data)
{
  const guint32 chunk = events_chunk_find (views, key->hash, events_hash_tag (views, key->hash));
  g_autoptr (GArray) found = NULL;

  if (chunk == 0)
    return;
  found = g_array_new (FALSE, FALSE, sizeof (guint32));
  for (guint32 i = views->chunks.at[chunk].first_key; i != 0; i = views->keys.at[i].next)
    {
      const EventsSpace *space = &views->spaces.at[views->keys.at[i].space];
      if (views->keys.at[i].order != 0 && space->group != except_group && space->kv_rank == key->kv_rank
          && events_span_equal (events_names_get (&views->model_names, space->model), key->model)
          && events_span_equal (events_names_get (&views->salt_names, space->salt), key->salt))
        g_array_append_val (found, i);
    }
  g_array_sort_with_data (found, by_group, views);
  for (guint i = 0; i < found->len; i++)
    {
      EventsKeyView view = { 0 };
      events_key_fill (views, g_array_index (found, guint32, i), &view.key);
      events_views_show (views, g_array_index (found, guint32, i), NULL, &view);
      view.pin_count = events_usage_pin_count (views, &view.key);
      func (&view, data);
    }
}

/* The first key in the list that is not older than @serial; the end if there is none. */
static guint64
find_place (const EventsViews *views, guint64 serial)
{
  guint64 low = 1, high = views->order_n;

  while (low < high)
    {
      const guint64 middle = low + (high - low) / 2;
      guint64 at = middle;
      while (at < high && views->order[at] == 0)
        at++;
      if (at == high || views->keys.at[views->order[at]].serial >= serial)
        high = middle;
      else
        low = at + 1;
    }
  /* Past the holes in front of it: a walk that spent its budget on them would never arrive. */
  while (low < views->order_n && views->order[low] == 0)
    low++;
  return low;
}

guint64
events_views_keys (EventsViews *views, const EventsKeyFilter *filter, guint64 *at, guint64 budget, EventsKeyFunc func,
                   gpointer data)
{
  const gboolean all = filter == NULL || (!filter->has_tier && filter->instance.data == NULL && filter->backend.data == NULL);
  guint64 total = 0, place = *at == 0 ? 1 : find_place (views, *at);

  for (; place < views->order_n && budget > 0; place++, budget--)
    {
      const guint32 number = views->order[place];
      EventsKeyView view = { 0 };
      if (number == 0)
        continue;
      if (all && func == NULL)
        {
          total++;
          continue;
        }
      events_views_show (views, number, filter, &view);
      if (view.n_placements == 0)
        continue;
      total++;
      if (func == NULL)
        continue;
      events_key_fill (views, number, &view.key);
      func (&view, data);
    }
  while (place < views->order_n && views->order[place] == 0)
    place++;
  *at = place < views->order_n ? views->keys.at[views->order[place]].serial : G_MAXUINT64;
  return total;
}
