// SPDX-License-Identifier: Apache-2.0
#include "events-views-private.h"

enum
{
  GROUP = 16, /* entries whose slots are fetched ahead */
};

static void fence (LmtSpan id, gpointer data);

static void
on_gap (const EventsStream *stream, gint64 first, gint64 last, gboolean joined_midway, gpointer data)
{
  EventsViews *views = data;

  if (views->on_gap != NULL)
    views->on_gap (stream, first, last, joined_midway, views->user_data);
}

static void
set_up (EventsViews *views)
{
  views->seed = lmt_hash_seed ();
  events_records_init (views);
  events_usage_init (views);
  events_tokens_init (views);
}

EventsViews *
events_views_new (const EventsViewsConfig *config)
{
  EventsViews *views = g_new0 (EventsViews, 1);

  views->config = *config;
  if (views->config.chunk_size == 0)
    views->config.chunk_size = 256;
  if (views->config.probe_stride == 0)
    views->config.probe_stride = 1;
  views->first_chunk_size = views->config.chunk_size;
  views->gate = events_gate_new (config->compat);
  events_gate_set_funcs (views->gate, fence, on_gap, views);
  views->shown = g_array_new (FALSE, FALSE, sizeof (EventsPlacement));
  set_up (views);
  return views;
}

static void
take_down (EventsViews *views)
{
  events_tokens_clear (views);
  events_usage_clear (views);
  events_records_clear (views);
}

void
events_views_free (EventsViews *views)
{
  if (views == NULL)
    return;
  take_down (views);
  events_gate_free (views->gate);
  g_array_unref (views->shown);
  g_free (views);
}

void
events_views_reset (EventsViews *views)
{
  const gsize kept = G_STRUCT_OFFSET (EventsViews, instance_names);

  take_down (views);
  memset ((char *)views + kept, 0, sizeof *views - kept);
  events_gate_reset (views->gate);
  set_up (views);
}

EventsGate *
events_views_get_gate (EventsViews *views)
{
  return views->gate;
}

void
events_views_set_funcs (EventsViews *views, EventsFencedFunc fenced, EventsGapFunc gap, gpointer user_data)
{
  views->on_fenced = fenced;
  views->on_gap = gap;
  views->user_data = user_data;
}

/* ---- the directory's list ---- */

/* Squeezes the holes out; a reader finds its place again by the serial. */
void
events_views_squeeze (EventsViews *views)
{
  guint64 n = 1;

  if (views->order_n == views->num_keys + 1)
    return;
  for (guint64 i = 1; i < views->order_n; i++)
    if (views->order[i] != 0)
      {
        views->order[n] = views->order[i];
        views->keys.at[views->order[n]].order = (guint32)n;
        n++;
      }
  views->order_n = n;
}

void
events_views_list_key (EventsViews *views, guint32 number)
{
  EventsKeyRecord *key = &views->keys.at[number];

  if (views->order_n == views->order_allocated)
    {
      if (views->num_keys < views->order_n / 2)
        events_views_squeeze (views);
      else
        {
          views->order = lmt_pages_renew (guint32, views->order, views->order_allocated, views->order_allocated * 2);
          views->order_allocated *= 2;
        }
    }
  key->order = (guint32)views->order_n;
  key->accesses = 0;
  key->last_access = 0;
  key->serial = ++views->serial;
  views->order[views->order_n++] = number;
  views->num_keys++;
  if (views->chunks.at[key->chunk].n_listed++ == 0)
    views->num_bindings++;
  events_tokens_key_listed (views, number);
}

static void
free_if_unused (EventsViews *views, guint32 number)
{
  const EventsKeyRecord *key = &views->keys.at[number];

  if (key->order != 0 || key->items != 0)
    return;
  events_usage_untouch (views, number);
  events_key_free (views, number);
}

static void
unlist_key (EventsViews *views, guint32 number)
{
  EventsKeyRecord *key = &views->keys.at[number];
  EventsChunk *chunk = &views->chunks.at[key->chunk];

  views->order[key->order] = 0;
  if (key->order == views->order_n - 1)
    views->order_n--;
  key->order = 0;
  views->num_keys--;
  if (--chunk->n_listed == 0)
    views->num_bindings--;
  events_tokens_key_unlisted (views, number);
}

/* ---- sums ---- */

void
events_views_count_item (EventsViews *views, guint32 number, guint32 flag, int sign)
{
  EventsItem *item = &views->items.at[number];
  const EventsOrigin *origin = &views->origins.at[item->origin];
  const EventsWide size = sign > 0 ? (EventsWide)item->size_bytes : -(EventsWide)item->size_bytes;

  if (flag & EVENTS_ITEM_DIRECTORY)
    {
      views->count[origin->tier] += (guint64)(gint64)sign;
      views->bytes[origin->tier] += size;
    }
  if (flag & EVENTS_ITEM_USAGE)
    {
      const EventsSpace *space = &views->spaces.at[views->keys.at[item->key].space];
      views->salts.at[space->salt].bytes[origin->tier] += size;
      views->seats.at[origin->seat].bytes += size;
    }
  if (sign > 0)
    item->flags |= flag;
  else
    item->flags &= ~flag;
}

static void
set_size (EventsViews *views, guint32 number, gint64 size_bytes)
{
  EventsItem *item = &views->items.at[number];
  const guint32 flags = item->flags & (EVENTS_ITEM_DIRECTORY | EVENTS_ITEM_USAGE);

  if (item->size_bytes == size_bytes)
    return;
  events_views_count_item (views, number, flags, -1);
  item->size_bytes = size_bytes;
  events_views_count_item (views, number, flags, 1);
}

/* ---- the L1 index ---- */

/* The item of @key that puts it into @instance's index, other than @except. */
guint32
events_views_index_item_of (const EventsViews *views, guint32 key, guint32 instance, guint32 except)
{
  for (guint32 i = views->keys.at[key].items; i != 0; i = views->items.at[i].next)
    if (i != except && (views->items.at[i].flags & EVENTS_ITEM_INDEX)
        && views->origins.at[views->items.at[i].origin].instance == instance)
      return i;
  return 0;
}

static void
link_item (EventsViews *views, guint32 number)
{
  EventsItem *item = &views->items.at[number];
  EventsInstance *instance = &views->instances.at[views->origins.at[item->origin].instance];

  item->flags |= EVENTS_ITEM_INDEX;
  item->index_prev = 0;
  item->index_next = instance->first_item;
  if (instance->first_item != 0)
    views->items.at[instance->first_item].index_prev = number;
  instance->first_item = number;
}

static void
unlink_item (EventsViews *views, guint32 number)
{
  EventsItem *item = &views->items.at[number];

  if (item->index_next != 0)
    views->items.at[item->index_next].index_prev = item->index_prev;
  if (item->index_prev != 0)
    views->items.at[item->index_prev].index_next = item->index_next;
  else
    views->instances.at[views->origins.at[item->origin].instance].first_item = item->index_next;
  item->flags &= ~(guint32)EVENTS_ITEM_INDEX;
}

/* An item that only says "this key is in the index" is needless beside a placement that says it, too. */
void
events_views_index_item (EventsViews *views, guint32 number)
{
  const EventsItem *item = &views->items.at[number];
  const guint32 instance = views->origins.at[item->origin].instance;

  if (item->flags & EVENTS_ITEM_INDEX)
    return;
  const guint32 other = events_views_index_item_of (views, item->key, instance, number);
  link_item (views, number);
  if (other == 0)
    views->instances.at[instance].l1_keys++;
  else if ((views->items.at[other].flags & ~(guint32)EVENTS_ITEM_INDEX) == 0)
    {
      unlink_item (views, other);
      events_item_free (views, other);
    }
}

/* Strictly a shared placement outlives the fence that emptied the index of its reporter: when the reporter has the key again,
 * that placement keeps it there. */
static gboolean
hand_over (EventsViews *views, guint32 key, guint32 instance, guint32 except)
{
  for (guint32 i = views->keys.at[key].items; i != 0; i = views->items.at[i].next)
    {
      const EventsOrigin *origin = &views->origins.at[views->items.at[i].origin];
      if (i == except || origin->instance != instance || origin->tier != EVENTS_L1
          || !(views->items.at[i].flags & EVENTS_ITEM_DIRECTORY))
        continue;
      link_item (views, i);
      return TRUE;
    }
  return FALSE;
}

/* The placement carries its instance's name no longer; the key stays in that one's index all the same (D12). */
static void
leave_index_behind (EventsViews *views, guint32 number)
{
  const EventsItem *item = &views->items.at[number];
  const guint32 instance = views->origins.at[item->origin].instance, key = item->key, origin = item->origin;

  if (!(item->flags & EVENTS_ITEM_INDEX))
    return;
  const guint32 other = events_views_index_item_of (views, key, instance, number);
  unlink_item (views, number);
  if (other != 0 || hand_over (views, key, instance, number))
    return;
  if (views->config.compat == EVENTS_COMPAT_STRICT)
    views->instances.at[instance].l1_keys--;
  else
    link_item (views, events_item_new (views, key, origin, 0));
}

/* @instance deleted on L1: unless a placement carries its name, the key leaves its index. */
static void
leave_index (EventsViews *views, guint32 key, guint32 instance)
{
  const guint32 found = events_views_index_item_of (views, key, instance, 0);

  if (found == 0 || (views->items.at[found].flags & EVENTS_ITEM_DIRECTORY))
    return;
  unlink_item (views, found);
  const gboolean stays = hand_over (views, key, instance, found);
  events_item_free (views, found);
  if (!stays)
    views->instances.at[instance].l1_keys--;
}

/* ---- one entry ---- */

guint32
events_views_item_at (const EventsViews *views, guint32 key, guint32 seat)
{
  for (guint32 i = views->keys.at[key].items; i != 0; i = views->items.at[i].next)
    if (views->origins.at[views->items.at[i].origin].seat == seat
        && (views->items.at[i].flags & (EVENTS_ITEM_DIRECTORY | EVENTS_ITEM_USAGE)))
      return i;
  return 0;
}

/* A new reporter of the same placement. */
static void
change_origin (EventsViews *views, guint32 number, guint32 origin)
{
  const guint32 old = views->items.at[number].origin;

  if (old == origin)
    return;
  if (views->origins.at[old].instance != views->origins.at[origin].instance)
    leave_index_behind (views, number);
  events_origin_ref (views, origin);
  views->items.at[number].origin = origin;
  events_origin_unref (views, old);
}

/* What only usage knew is a new placement to the directory: it stands at the end of the list. */
static guint32
renew_item (EventsViews *views, guint32 number)
{
  const guint32 key = views->items.at[number].key, origin = views->items.at[number].origin;
  const gint64 size_bytes = views->items.at[number].size_bytes;

  events_views_count_item (views, number, EVENTS_ITEM_USAGE, -1);
  views->num_usage_only--;
  const guint32 item = events_item_new (views, key, origin, size_bytes);
  events_item_free (views, number);
  events_views_count_item (views, item, EVENTS_ITEM_USAGE, 1);
  return item;
}

static void
apply_store (EventsViews *views, const EventsBatch *batch, const EventsEntry *entry, guint32 origin, guint32 tag)
{
  const guint32 key = events_key_take (views, &entry->key, tag);
  guint32 item = events_views_item_at (views, key, views->origins.at[origin].seat);

  if (views->keys.at[key].order == 0)
    events_views_list_key (views, key);
  if (item != 0 && !(views->items.at[item].flags & EVENTS_ITEM_DIRECTORY))
    item = renew_item (views, item);
  if (item == 0)
    {
      item = events_item_new (views, key, origin, entry->size_bytes);
      events_views_count_item (views, item, EVENTS_ITEM_DIRECTORY | EVENTS_ITEM_USAGE, 1);
    }
  else
    {
      views->stored_again++;
      views->emptied += entry->size_bytes == 0 && views->items.at[item].size_bytes > 0;
      set_size (views, item, entry->size_bytes);
      change_origin (views, item, origin);
      const guint32 missing = ~views->items.at[item].flags & (EVENTS_ITEM_DIRECTORY | EVENTS_ITEM_USAGE);
      if (missing != 0)
        events_views_count_item (views, item, missing, 1);
    }
  if (entry->n_tokens > 0 && entry->tokens_valid)
    events_tokens_set (views, key, entry);
  if (batch->ts > views->keys.at[key].last_access)
    views->keys.at[key].last_access = batch->ts;
  if (batch->tier == EVENTS_L1)
    events_views_index_item (views, item);
  else if (views->links != NULL)
    events_usage_touch (views, key, TRUE);
}

static gboolean
has_placement (const EventsViews *views, guint32 key)
{
  for (guint32 i = views->keys.at[key].items; i != 0; i = views->items.at[i].next)
    if (views->items.at[i].flags & EVENTS_ITEM_DIRECTORY)
      return TRUE;
  return FALSE;
}

static void
apply_delete (EventsViews *views, const EventsBatch *batch, guint32 key, guint32 instance, guint32 seat)
{
  const guint32 item = seat != 0 ? events_views_item_at (views, key, seat) : 0;

  views->deleted_unknown += item == 0;
  if (item != 0)
    {
      const guint32 flags = views->items.at[item].flags & (EVENTS_ITEM_DIRECTORY | EVENTS_ITEM_USAGE);
      if (flags == EVENTS_ITEM_USAGE)
        views->num_usage_only--;
      events_views_count_item (views, item, flags, -1);
      if (views->items.at[item].flags & EVENTS_ITEM_INDEX)
        {
          if (views->origins.at[views->items.at[item].origin].instance != instance
              || events_views_index_item_of (views, key, instance, item) != 0)
            leave_index_behind (views, item);
        }
      if (!(views->items.at[item].flags & EVENTS_ITEM_INDEX))
        events_item_free (views, item);
    }
  if (views->links != NULL && batch->tier == EVENTS_L2 && events_usage_key_bytes (views, key, EVENTS_L2) == 0)
    events_usage_untouch (views, key);
  if (views->keys.at[key].order != 0)
    {
      if (!has_placement (views, key))
        unlist_key (views, key);
      if (batch->tier == EVENTS_L1)
        leave_index (views, key, instance);
    }
  free_if_unused (views, key);
}

static void
apply_access (EventsViews *views, const EventsBatch *batch, guint32 number)
{
  EventsKeyRecord *key = &views->keys.at[number];

  if (views->links != NULL && batch->tier == EVENTS_L2)
    events_usage_touch (views, number, FALSE);
  if (key->order == 0)
    return;
  if (batch->ts > key->last_access)
    key->last_access = batch->ts;
  key->accesses++;
}

/* ---- one batch ---- */

static inline void
fetch_ahead (const EventsViews *views, const EventsEntry *entries, guint32 n, guint32 *tags)
{
  const EventsSlots *table = &views->chunk_slots;

  for (guint32 i = 0; i < n; i++)
    {
      tags[i] = events_hash_tag (views, entries[i].key.hash);
      if (table->n > 0)
        __builtin_prefetch (&table->slots[events_slots_first (table, tags[i])]);
    }
  if (table->n == 0 || n < 4)
    return;
  for (guint32 i = 0; i < n; i++)
    {
      const guint64 slot = table->slots[events_slots_first (table, tags[i])];
      if (slot != 0)
        __builtin_prefetch (&views->chunks.at[(guint32)slot]);
    }
}

static void
apply_entries (EventsViews *views, const EventsBatch *batch, guint32 instance, guint32 origin, guint32 seat)
{
  guint32 tags[GROUP];

  for (guint32 start = 0; start < batch->n_entries; start += GROUP)
    {
      const EventsEntry *entries = batch->entries + start;
      const guint32 n = MIN (batch->n_entries - start, (guint32)GROUP);
      fetch_ahead (views, entries, n, tags);
      for (guint32 i = 0; i < n; i++)
        {
          if (batch->kind == EVENTS_STORE)
            {
              apply_store (views, batch, &entries[i], origin, tags[i]);
              continue;
            }
          const guint32 key = events_key_find (views, &entries[i].key, tags[i]);
          if (key == 0)
            {
              views->deleted_unknown += batch->kind == EVENTS_DELETE;
              continue;
            }
          if (batch->kind == EVENTS_DELETE)
            apply_delete (views, batch, key, instance, seat);
          else
            apply_access (views, batch, key);
        }
    }
}

/* Stands in l1_keys_by_instance from now on. */
void
events_views_show_instance (EventsViews *views, guint32 number)
{
  EventsInstance *instance = &views->instances.at[number];

  if (instance->listed)
    return;
  instance->listed = TRUE;
  instance->since = ++views->instance_clock;
  instance->l1_keys = 0;
  events_names_ref (&views->instance_names, number);
}

static void
apply (EventsViews *views, const EventsBatch *batch)
{
  guint32 number;

  events_instance_take (views, batch->instance, &number);
  events_views_show_instance (views, number);
  events_names_drop (&views->instance_names, number); /* listed ones keep theirs */
  switch (batch->kind)
    {
    case EVENTS_CONFIG:
      events_usage_declare (views, number, batch);
      break;
    case EVENTS_STORE:
      if (batch->n_entries > 0)
        {
          const guint32 origin
              = events_origin_take (views, number, batch->incarnation, batch->tier, batch->backend, batch->shared);
          apply_entries (views, batch, number, origin, 0);
          events_origin_unref (views, origin);
        }
      break;
    case EVENTS_DELETE:
      {
        const guint32 seat = events_seat_find (views, batch->shared ? 0 : number, batch->tier, batch->backend);
        /* The last item may go and the seat with it, but its number is given to nobody else before the batch is done. */
        apply_entries (views, batch, number, 0, seat);
        break;
      }
    default:
      apply_entries (views, batch, number, 0, 0);
    }
}

/* New keys of a store; a key that stands twice counts twice. */
static guint64
count_new (EventsViews *views, const EventsBatch *batch)
{
  guint64 n = 0;

  for (guint32 i = 0; i < batch->n_entries; i++)
    {
      const guint32 key = events_key_find (views, &batch->entries[i].key, events_hash_tag (views, batch->entries[i].key.hash));
      n += key == 0 || views->keys.at[key].order == 0;
    }
  return n;
}

/* Is there room for what the batch may bring? Asked before the gate, so that a refused batch can be sent again. */
static gboolean
has_room (EventsViews *views, const EventsBatch *batch)
{
  const guint64 max_keys = views->config.max_keys;
  const guint32 max_instances = views->config.max_instances;

  if (max_keys > 0 && batch->kind == EVENTS_STORE && views->num_keys + batch->n_entries > max_keys
      && events_gate_peek (views->gate, batch) == EVENTS_APPLIED && views->num_keys + count_new (views, batch) > max_keys)
    return FALSE;
  if (max_instances == 0)
    return TRUE;
  if (events_gate_n_streams (views->gate) >= max_instances && events_gate_get (views->gate, batch->instance) == NULL
      && !events_gate_forget_one (views->gate))
    return FALSE;
  return views->instance_names.live < max_instances || events_names_find (&views->instance_names, batch->instance) != 0;
}

gboolean
events_views_ingest (EventsViews *views, const EventsBatch *batches, guint32 n, gint64 now_ns, EventsCounts *counts)
{
  for (guint32 i = 0; i < n; i++)
    {
      if (!has_room (views, &batches[i]))
        return FALSE;
      switch (events_gate_admit (views->gate, &batches[i], now_ns))
        {
        case EVENTS_APPLIED:
          apply (views, &batches[i]);
          counts->applied++;
          break;
        case EVENTS_DUPLICATE:
          counts->duplicates++;
          break;
        default:
          counts->stale++;
        }
    }
  return TRUE;
}

/* ---- fence and departure ---- */

/* An item of the index of an instance whose memory is gone. A shared placement outlives it in usage (D11); strictly in both. */
static void
fence_item (EventsViews *views, guint32 number)
{
  const EventsItem *item = &views->items.at[number];
  const gboolean shared = views->origins.at[item->origin].shared;
  const guint32 key = item->key;

  unlink_item (views, number);
  if (item->flags & EVENTS_ITEM_DIRECTORY)
    {
      if (shared && views->config.compat == EVENTS_COMPAT_STRICT)
        return;
      events_views_count_item (views, number, EVENTS_ITEM_DIRECTORY, -1);
      if (shared && (item->flags & EVENTS_ITEM_USAGE))
        views->num_usage_only++;
    }
  if (!shared && (item->flags & EVENTS_ITEM_USAGE))
    events_views_count_item (views, number, EVENTS_ITEM_USAGE, -1);
  if (item->flags == 0)
    events_item_free (views, number);
  if (views->keys.at[key].order != 0 && !has_placement (views, key))
    unlist_key (views, key);
  free_if_unused (views, key);
}

static void
fence (LmtSpan id, gpointer data)
{
  EventsViews *views = data;
  guint32 number;
  const EventsInstance *instance = events_instance_find (views, id, &number);

  if (instance == NULL)
    return;
  const guint64 before = views->count[EVENTS_L1], kept = views->num_usage_only;
  while (views->instances.at[number].first_item != 0)
    fence_item (views, views->instances.at[number].first_item);
  if (views->on_fenced != NULL && views->count[EVENTS_L1] != before)
    views->on_fenced (id, before - views->count[EVENTS_L1], views->num_usage_only - kept, views->user_data);
  if (!views->instances.at[number].listed)
    return;
  views->instances.at[number].listed = FALSE;
  views->instances.at[number].l1_keys = 0;
  events_names_drop (&views->instance_names, number);
}

void
events_views_depart (EventsViews *views, LmtSpan id, gboolean declaration)
{
  guint32 number;

  fence (id, views);
  events_gate_depart (views->gate, id);
  if (declaration && events_instance_find (views, id, &number) != NULL)
    events_usage_forget (views, number);
}

void
events_views_register (EventsViews *views, LmtSpan instance)
{
  events_gate_register (views->gate, instance);
}
