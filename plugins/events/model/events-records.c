// SPDX-License-Identifier: Apache-2.0
#include "events-views-private.h"

enum
{
  FIRST_RECORDS = 64,
};

/* Room for one record more; doubling, so what is there moves seldom. */
#define GROW(Type, records)                                                                                                      \
  G_STMT_START                                                                                                                   \
  {                                                                                                                              \
    if ((records).n == (records).allocated)                                                                                      \
      {                                                                                                                          \
        const guint32 wanted_ = (records).allocated > 0 ? (records).allocated * 2 : FIRST_RECORDS;                               \
        (records).at = lmt_pages_renew (Type, (records).at, (records).allocated, wanted_);                                       \
        (records).allocated = wanted_;                                                                                           \
      }                                                                                                                          \
  }                                                                                                                              \
  G_STMT_END

/* A number for a new record: a freed one, whose @link names the next free, or a fresh one. */
#define TAKE(Type, records, link, number)                                                                                        \
  G_STMT_START                                                                                                                   \
  {                                                                                                                              \
    if ((records).free_head != 0)                                                                                                \
      {                                                                                                                          \
        (number) = (records).free_head;                                                                                          \
        (records).free_head = (records).at[number].link;                                                                         \
      }                                                                                                                          \
    else                                                                                                                         \
      {                                                                                                                          \
        GROW (Type, records);                                                                                                    \
        (number) = (records).n++;                                                                                                \
      }                                                                                                                          \
  }                                                                                                                              \
  G_STMT_END

#define GIVE_BACK(Type, records, link_member, number)                                                                            \
  G_STMT_START                                                                                                                   \
  {                                                                                                                              \
    (records).at[number] = (Type){ .link_member = (records).free_head };                                                         \
    (records).free_head = (number);                                                                                              \
  }                                                                                                                              \
  G_STMT_END

#define START(Type, records)                                                                                                     \
  G_STMT_START                                                                                                                   \
  {                                                                                                                              \
    GROW (Type, records);                                                                                                        \
    (records).n = 1;                                                                                                             \
  }                                                                                                                              \
  G_STMT_END

#define END(Type, records) lmt_pages_free ((records).at, (gsize)(records).allocated * sizeof (Type))

void
events_records_init (EventsViews *views)
{
  events_names_init (&views->instance_names);
  events_names_init (&views->backend_names);
  events_names_init (&views->model_names);
  events_names_init (&views->salt_names);
  START (EventsChunk, views->chunks);
  START (EventsSpace, views->spaces);
  START (EventsKeyRecord, views->keys);
  START (EventsItem, views->items);
  START (EventsSeat, views->seats);
  START (EventsOrigin, views->origins);
  START (EventsContent, views->contents);
  views->order_allocated = FIRST_RECORDS;
  views->order = lmt_pages_renew (guint32, NULL, 0, FIRST_RECORDS);
  views->order_n = 1;
}

void
events_records_clear (EventsViews *views)
{
  for (guint32 i = 1; i < views->chunks.n; i++)
    if (views->chunks.at[i].hash_len > EVENTS_HASH_INLINE)
      g_free (views->chunks.at[i].hash.more);
  for (guint32 i = 0; i < views->instances.allocated; i++)
    if (views->instances.at[i].declared != NULL)
      g_array_unref (views->instances.at[i].declared);
  END (EventsInstance, views->instances);
  END (EventsSalt, views->salts);
  END (EventsChunk, views->chunks);
  END (EventsSpace, views->spaces);
  if (views->links != NULL)
    lmt_pages_free (views->links, (gsize)views->keys.allocated * sizeof (EventsLink));
  END (EventsKeyRecord, views->keys);
  END (EventsItem, views->items);
  END (EventsSeat, views->seats);
  END (EventsOrigin, views->origins);
  END (EventsContent, views->contents);
  lmt_pages_free (views->order, views->order_allocated * sizeof (guint32));
  events_slots_clear (&views->chunk_slots);
  events_slots_clear (&views->space_slots);
  events_slots_clear (&views->pair_slots);
  events_slots_clear (&views->seat_slots);
  events_slots_clear (&views->origin_slots);
  events_names_clear (&views->instance_names);
  events_names_clear (&views->backend_names);
  events_names_clear (&views->model_names);
  events_names_clear (&views->salt_names);
}

/* ---- instances, seats, origins: once a batch ---- */

EventsInstance *
events_instance_find (EventsViews *views, LmtSpan id, guint32 *number)
{
  *number = events_names_find (&views->instance_names, id);
  return *number != 0 ? &views->instances.at[*number] : NULL;
}

EventsInstance *
events_instance_take (EventsViews *views, LmtSpan id, guint32 *number)
{
  *number = events_names_take (&views->instance_names, id);
  while (*number >= views->instances.allocated)
    {
      views->instances.n = views->instances.allocated;
      GROW (EventsInstance, views->instances);
    }
  return &views->instances.at[*number];
}

static inline guint32
number_tag (const EventsViews *views, guint64 a, guint64 b)
{
  return (guint32)(lmt_mix64 (lmt_mix64 (a ^ views->seed) ^ b) >> 32);
}

static inline guint32
seat_tag (const EventsViews *views, guint32 instance, guint32 tier, guint32 backend)
{
  return number_tag (views, (guint64)instance << 32 | backend, tier);
}

static guint32
find_seat (const EventsViews *views, guint32 instance, guint32 tier, guint32 backend, guint32 tag)
{
  const EventsSlots *table = &views->seat_slots;

  if (table->n == 0)
    return 0;
  for (guint64 at = events_slots_first (table, tag); table->slots[at] != 0; at = events_slots_after (table, at))
    {
      const guint32 number = (guint32)table->slots[at];
      const EventsSeat *seat = &views->seats.at[number];
      if ((guint32)(table->slots[at] >> 32) == tag && seat->instance == instance && seat->backend == backend
          && seat->tier == tier)
        return number;
    }
  return 0;
}

guint32
events_seat_find (EventsViews *views, guint32 instance, guint32 tier, LmtSpan backend)
{
  const guint32 name = events_names_find (&views->backend_names, backend);

  return name != 0 ? find_seat (views, instance, tier, name, seat_tag (views, instance, tier, name)) : 0;
}

static guint32 *
seat_list (EventsViews *views, guint32 instance)
{
  return instance != 0 ? &views->instances.at[instance].first_seat : &views->first_shared_seat;
}

static guint32
take_seat (EventsViews *views, guint32 instance, guint32 tier, LmtSpan backend)
{
  const guint32 name = events_names_take (&views->backend_names, backend);
  const guint32 tag = seat_tag (views, instance, tier, name);
  guint32 number = find_seat (views, instance, tier, name, tag);

  if (number != 0)
    events_names_drop (&views->backend_names, name);
  else
    {
      guint32 *list = seat_list (views, instance);
      TAKE (EventsSeat, views->seats, next, number);
      views->seats.at[number] = (EventsSeat){ .instance = instance, .backend = name, .tier = tier, .next = *list };
      *list = number;
      events_slots_insert (&views->seat_slots, tag, number);
    }
  views->seats.at[number].refs++;
  return number;
}

static void
drop_seat (EventsViews *views, guint32 number)
{
  EventsSeat *seat = &views->seats.at[number];
  guint32 *list = seat_list (views, seat->instance);

  if (--seat->refs > 0)
    return;
  while (*list != number)
    list = &views->seats.at[*list].next;
  *list = seat->next;
  events_slots_remove (&views->seat_slots, seat_tag (views, seat->instance, seat->tier, seat->backend), number);
  events_names_drop (&views->backend_names, seat->backend);
  GIVE_BACK (EventsSeat, views->seats, next, number);
}

static inline guint32
origin_tag (const EventsViews *views, const EventsOrigin *origin)
{
  return number_tag (views, (guint64)origin->instance << 32 | origin->seat, (guint64)origin->incarnation);
}

static inline gboolean
is_origin (const EventsOrigin *a, const EventsOrigin *b)
{
  return a->refs > 0 && a->instance == b->instance && a->seat == b->seat && a->incarnation == b->incarnation;
}

static guint32
find_origin (const EventsViews *views, const EventsOrigin *wanted, guint32 tag)
{
  const EventsSlots *table = &views->origin_slots;

  if (table->n == 0)
    return 0;
  for (guint64 at = events_slots_first (table, tag); table->slots[at] != 0; at = events_slots_after (table, at))
    {
      const guint32 number = (guint32)table->slots[at];
      if ((guint32)(table->slots[at] >> 32) == tag && is_origin (&views->origins.at[number], wanted))
        return number;
    }
  return 0;
}

guint32
events_origin_take (EventsViews *views, guint32 instance, gint64 incarnation, guint32 tier, LmtSpan backend, guint32 shared)
{
  const guint32 last = views->instances.at[instance].last_origin;
  const guint32 seat = take_seat (views, shared ? 0 : instance, tier, backend);
  const EventsOrigin wanted
      = { .instance = instance, .seat = seat, .incarnation = incarnation, .tier = tier, .shared = shared != 0 };
  guint32 number;

  if (last != 0 && is_origin (&views->origins.at[last], &wanted))
    number = last;
  else
    {
      const guint32 tag = origin_tag (views, &wanted);
      number = find_origin (views, &wanted, tag);
      if (number == 0)
        {
          TAKE (EventsOrigin, views->origins, next_free, number);
          views->origins.at[number] = wanted;
          views->origins.at[number].refs = 1;
          events_names_ref (&views->instance_names, instance);
          events_slots_insert (&views->origin_slots, tag, number);
          views->instances.at[instance].last_origin = number;
          return number; /* which keeps the seat's user */
        }
      views->instances.at[instance].last_origin = number;
    }
  views->origins.at[number].refs++;
  drop_seat (views, seat);
  return number;
}

void
events_origin_ref (EventsViews *views, guint32 origin)
{
  views->origins.at[origin].refs++;
}

void
events_origin_unref (EventsViews *views, guint32 number)
{
  EventsOrigin *origin = &views->origins.at[number];

  if (--origin->refs > 0)
    return;
  events_slots_remove (&views->origin_slots, origin_tag (views, origin), number);
  EventsInstance *instance = &views->instances.at[origin->instance];
  if (instance->last_origin == number)
    instance->last_origin = 0;
  drop_seat (views, origin->seat);
  events_names_drop (&views->instance_names, origin->instance);
  GIVE_BACK (EventsOrigin, views->origins, next_free, number);
}

/* ---- spaces ---- */

static inline guint32
space_tag (const EventsViews *views, LmtSpan model, LmtSpan salt, gint64 kv_rank, gint64 group)
{
  const guint64 texts = lmt_hash_bytes (model.data, model.len, lmt_hash_bytes (salt.data, salt.len, views->seed));

  return number_tag (views, texts ^ (guint64)kv_rank, (guint64)group);
}

static inline gboolean
is_space (const EventsViews *views, const EventsSpace *space, LmtSpan model, LmtSpan salt, gint64 kv_rank, gint64 group)
{
  return space->refs > 0 && space->kv_rank == kv_rank && space->group == group
         && events_span_equal (events_names_get (&views->model_names, space->model), model)
         && events_span_equal (events_names_get (&views->salt_names, space->salt), salt);
}

static guint32
find_space (const EventsViews *views, LmtSpan model, LmtSpan salt, gint64 kv_rank, gint64 group, guint32 tag)
{
  const EventsSlots *table = &views->space_slots;

  if (table->n == 0)
    return 0;
  for (guint64 at = events_slots_first (table, tag); table->slots[at] != 0; at = events_slots_after (table, at))
    {
      const guint32 number = (guint32)table->slots[at];
      if ((guint32)(table->slots[at] >> 32) == tag && is_space (views, &views->spaces.at[number], model, salt, kv_rank, group))
        return number;
    }
  return 0;
}

/* Ranks and groups of one model come by turns: one place each. */
static inline guint32 *
recent_space (EventsViews *views, gint64 kv_rank, gint64 group)
{
  return &views->recent_spaces[((guint64)kv_rank ^ (guint64)group) % G_N_ELEMENTS (views->recent_spaces)];
}

guint32
events_space_find (EventsViews *views, LmtSpan model, LmtSpan salt, gint64 kv_rank, gint64 group)
{
  guint32 *recent = recent_space (views, kv_rank, group);

  if (*recent != 0 && is_space (views, &views->spaces.at[*recent], model, salt, kv_rank, group))
    return *recent;
  const guint32 found = find_space (views, model, salt, kv_rank, group, space_tag (views, model, salt, kv_rank, group));
  if (found != 0)
    *recent = found;
  return found;
}

static guint32
take_space (EventsViews *views, const EventsKey *key)
{
  guint32 number = events_space_find (views, key->model, key->salt, key->kv_rank, key->group);

  if (number == 0)
    {
      const guint32 tag = space_tag (views, key->model, key->salt, key->kv_rank, key->group);
      TAKE (EventsSpace, views->spaces, tag, number);
      EventsSpace *space = &views->spaces.at[number];
      *space = (EventsSpace){ .kv_rank = key->kv_rank, .group = key->group, .tag = tag };
      space->model = events_names_take (&views->model_names, key->model);
      space->salt = events_names_take (&views->salt_names, key->salt);
      while (space->salt >= views->salts.allocated)
        {
          views->salts.n = views->salts.allocated;
          GROW (EventsSalt, views->salts);
        }
      events_slots_insert (&views->space_slots, tag, number);
      *recent_space (views, key->kv_rank, key->group) = number;
    }
  views->spaces.at[number].refs++;
  return number;
}

static void
drop_space (EventsViews *views, guint32 number)
{
  EventsSpace *space = &views->spaces.at[number];

  if (--space->refs > 0)
    return;
  events_slots_remove (&views->space_slots, space->tag, number);
  events_names_drop (&views->model_names, space->model);
  events_names_drop (&views->salt_names, space->salt);
  GIVE_BACK (EventsSpace, views->spaces, tag, number);
}

/* ---- chunks and keys ---- */

guint32
events_chunk_find (const EventsViews *views, LmtSpan hash, guint32 tag)
{
  const EventsSlots *table = &views->chunk_slots;

  if (table->n == 0)
    return 0;
  for (guint64 at = events_slots_first (table, tag); table->slots[at] != 0; at = events_slots_after (table, at))
    {
      const guint32 number = (guint32)table->slots[at];
      if ((guint32)(table->slots[at] >> 32) == tag && events_span_equal (events_chunk_hash (&views->chunks.at[number]), hash))
        return number;
    }
  return 0;
}

static guint32
take_chunk (EventsViews *views, LmtSpan hash, guint32 tag)
{
  guint32 number = events_chunk_find (views, hash, tag);

  if (number != 0)
    return number;
  TAKE (EventsChunk, views->chunks, first_key, number);
  EventsChunk *chunk = &views->chunks.at[number];
  *chunk = (EventsChunk){ .hash_len = (guint32)hash.len };
  if (hash.len > EVENTS_HASH_INLINE)
    {
      chunk->hash.more = g_memdup2 (hash.data, hash.len);
      views->text_bytes += hash.len;
    }
  else if (hash.len > 0)
    memcpy (chunk->hash.bytes, hash.data, hash.len);
  events_slots_insert (&views->chunk_slots, tag, number);
  return number;
}

static void
free_chunk (EventsViews *views, guint32 number)
{
  EventsChunk *chunk = &views->chunks.at[number];

  events_slots_remove (&views->chunk_slots, events_hash_tag (views, events_chunk_hash (chunk)), number);
  if (chunk->hash_len > EVENTS_HASH_INLINE)
    {
      views->text_bytes -= chunk->hash_len;
      g_free (chunk->hash.more);
    }
  GIVE_BACK (EventsChunk, views->chunks, first_key, number);
}

static inline guint32
pair_tag (const EventsViews *views, guint32 chunk, guint32 space)
{
  return number_tag (views, (guint64)chunk << 32 | space, 0);
}

guint32
events_key_find_in (const EventsViews *views, guint32 chunk, guint32 space)
{
  const EventsSlots *table = &views->pair_slots;

  if (!views->chunks.at[chunk].tabled)
    {
      for (guint32 key = views->chunks.at[chunk].first_key; key != 0; key = views->keys.at[key].next)
        if (views->keys.at[key].space == space)
          return key;
      return 0;
    }
  const guint32 tag = pair_tag (views, chunk, space);
  for (guint64 at = events_slots_first (table, tag); table->slots[at] != 0; at = events_slots_after (table, at))
    {
      const guint32 number = (guint32)table->slots[at];
      const EventsKeyRecord *key = &views->keys.at[number];
      if ((guint32)(table->slots[at] >> 32) == tag && key->chunk == chunk && key->space == space)
        return number;
    }
  return 0;
}

guint32
events_key_find (EventsViews *views, const EventsKey *key, guint32 tag)
{
  const guint32 chunk = events_chunk_find (views, key->hash, tag);

  if (chunk == 0)
    return 0;
  const guint32 space = events_space_find (views, key->model, key->salt, key->kv_rank, key->group);
  return space != 0 ? events_key_find_in (views, chunk, space) : 0;
}

static void
table_key (EventsViews *views, guint32 number)
{
  const EventsKeyRecord *key = &views->keys.at[number];

  events_slots_insert (&views->pair_slots, pair_tag (views, key->chunk, key->space), number);
}

static guint32
new_key (EventsViews *views)
{
  const guint32 before = views->keys.allocated;
  guint32 number;

  TAKE (EventsKeyRecord, views->keys, chunk, number);
  if (views->config.with_lru)
    {
      if (views->links == NULL || before != views->keys.allocated)
        views->links = lmt_pages_renew (EventsLink, views->links, views->links != NULL ? before : 0, views->keys.allocated);
      views->links[number] = (EventsLink){ G_MAXUINT32, 0 };
    }
  return number;
}

guint32
events_key_take (EventsViews *views, const EventsKey *key, guint32 tag)
{
  const guint32 chunk_number = take_chunk (views, key->hash, tag);
  const guint32 space = take_space (views, key);
  guint32 number = events_key_find_in (views, chunk_number, space);

  if (number != 0)
    {
      views->spaces.at[space].refs--; /* the key holds it */
      return number;
    }
  number = new_key (views);
  EventsChunk *chunk = &views->chunks.at[chunk_number];
  views->keys.at[number] = (EventsKeyRecord){ .chunk = chunk_number, .space = space, .next = chunk->first_key };
  if (chunk->first_key != 0)
    views->keys.at[chunk->first_key].prev = number;
  chunk->first_key = number;
  chunk->n_keys++;
  if (chunk->tabled)
    table_key (views, number);
  else if (chunk->n_keys > EVENTS_SHORT_LIST)
    {
      chunk->tabled = TRUE;
      for (guint32 each = number; each != 0; each = views->keys.at[each].next)
        table_key (views, each);
    }
  return number;
}

void
events_key_free (EventsViews *views, guint32 number)
{
  EventsKeyRecord *key = &views->keys.at[number];
  EventsChunk *chunk = &views->chunks.at[key->chunk];

  if (chunk->tabled)
    events_slots_remove (&views->pair_slots, pair_tag (views, key->chunk, key->space), number);
  if (key->next != 0)
    views->keys.at[key->next].prev = key->prev;
  if (key->prev != 0)
    views->keys.at[key->prev].next = key->next;
  else
    chunk->first_key = key->next;
  if (--chunk->n_keys == 0)
    free_chunk (views, key->chunk);
  drop_space (views, key->space);
  GIVE_BACK (EventsKeyRecord, views->keys, chunk, number);
}

void
events_key_fill (EventsViews *views, guint32 number, EventsKey *out)
{
  const EventsKeyRecord *key = &views->keys.at[number];
  const EventsSpace *space = &views->spaces.at[key->space];

  *out = (EventsKey){ .hash = events_chunk_hash (&views->chunks.at[key->chunk]),
                      .model = events_names_get (&views->model_names, space->model),
                      .kv_rank = space->kv_rank,
                      .group = space->group,
                      .salt = events_names_get (&views->salt_names, space->salt) };
}

/* ---- items ---- */

static void
append_item (EventsViews *views, guint32 key, guint32 item)
{
  guint32 *link = &views->keys.at[key].items;

  while (*link != 0)
    link = &views->items.at[*link].next;
  *link = item;
}

guint32
events_item_new (EventsViews *views, guint32 key, guint32 origin, gint64 size_bytes)
{
  guint32 number;

  TAKE (EventsItem, views->items, next, number);
  views->items.at[number] = (EventsItem){ .size_bytes = size_bytes, .origin = origin, .key = key };
  events_origin_ref (views, origin);
  append_item (views, key, number);
  return number;
}

void
events_item_free (EventsViews *views, guint32 number)
{
  const EventsItem *item = &views->items.at[number];
  guint32 *link = &views->keys.at[item->key].items;

  while (*link != number)
    link = &views->items.at[*link].next;
  *link = item->next;
  events_origin_unref (views, item->origin);
  GIVE_BACK (EventsItem, views->items, next, number);
}
