// SPDX-License-Identifier: Apache-2.0
/*
 * Reading a checkpoint (events.md 11). The whole file is walked once as msgpack and once to see where each section and its
 * members lie; then each section twice: first to see that it is what it should be, then to take it over, so that a bad one leaves
 * nothing behind and costs no other. What is reserved is as large as what was found, not as what a number says.
 */
#include "events-views-private.h"

#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <lmtrace/lmt-cursor.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum
{
  HEAD = 12,
  TAKE_PART = 1 << 30, /* of one read() */
  DROP_PART = 16 << 20,
  AHEAD = 16,  /* so many keys before they are needed their slots are fetched */
  MEMBERS = 3, /* of a section, at most */
};

/* One walk over a section. @take: FALSE while it is only looked at. */
typedef struct
{
  EventsViews *views;
  const LmtSpan *members; /* of the section, by their place in the table; data NULL: not there */
  LmtCursor in;
  gboolean take;
  gboolean may_drop;     /* the file's bytes are in pages of their own: those that were taken over are given back */
  const guint8 *dropped; /* so far; NULL: nothing of this member yet */
  GArray *offsets;
  GArray *keys;         /* guint32 of the directory's keys, by position: tags of their hashes, then their numbers */
  guint32 last;         /* key of usage's last row: the next one's is mostly the next */
  guint32 left_out;     /* of usage */
  const char *expected; /* set where it isn't what it should be */
} Walk;

static gboolean
wrong (Walk *walk, const char *expected)
{
  if (walk->expected == NULL)
    walk->expected = expected;
  return FALSE;
}

/* The value that was read last is the one. */
static gboolean
wrong_before (Walk *walk, LmtCursor before, const char *expected)
{
  walk->in = before;
  return wrong (walk, expected);
}

/* ---- pieces ---- */

static gboolean
read_array (Walk *walk, guint32 least, guint32 most, guint32 *n, const char *expected)
{
  const LmtCursor before = walk->in;

  return (lmt_cursor_read_array (&walk->in, n) && *n >= least && *n <= most) || wrong_before (walk, before, expected);
}

static gboolean
read_int (Walk *walk, gint64 least, gint64 *value, const char *expected)
{
  const LmtCursor before = walk->in;

  return (lmt_cursor_read_int (&walk->in, value) && *value >= least) || wrong_before (walk, before, expected);
}

static gboolean
read_flag (Walk *walk, guint32 *value)
{
  gboolean flag = FALSE;

  if (!lmt_cursor_read_bool (&walk->in, &flag))
    return wrong (walk, "a boolean");
  *value = flag != 0;
  return TRUE;
}

static gboolean
read_text (Walk *walk, LmtSpan *text, gsize least, const char *expected)
{
  const LmtCursor before = walk->in;

  return (lmt_cursor_read_str (&walk->in, text) && text->len >= least && text->len <= G_MAXINT32)
         || wrong_before (walk, before, expected);
}

static gboolean
read_tier (Walk *walk, guint32 *tier)
{
  LmtSpan text;

  if (!read_text (walk, &text, 0, "a tier"))
    return FALSE;
  *tier = LMT_SPAN_IS (text, "l1") ? EVENTS_L1 : EVENTS_L2;
  return LMT_SPAN_IS (text, "l1") || LMT_SPAN_IS (text, "l2") || wrong (walk, "tier l1 or l2");
}

/* So that file and views aren't both there as a whole. */
static void
drop_taken (Walk *walk)
{
  const gsize page = (gsize)sysconf (_SC_PAGESIZE);

  if (!walk->take || !walk->may_drop)
    return;
  if (walk->dropped == NULL)
    walk->dropped = (const guint8 *)(((guintptr)walk->in.pos + page - 1) / page * page);
  if (walk->in.pos < walk->dropped + DROP_PART)
    return;
  (void)madvise ((guint8 *)walk->dropped, DROP_PART, MADV_DONTNEED);
  walk->dropped += DROP_PART;
}

/* To the elements of the section's member number @which, whose name is @name. */
static gboolean
enter_array (Walk *walk, guint which, const char *name, guint32 *n)
{
  if (walk->members[which].data == NULL)
    return wrong (walk, name);
  lmt_cursor_init (&walk->in, walk->members[which]);
  walk->dropped = NULL;
  return lmt_cursor_read_array (&walk->in, n) || wrong (walk, "an array");
}

static gboolean
enter_map (Walk *walk, guint which, const char *name, guint32 *n)
{
  if (walk->members[which].data == NULL)
    return wrong (walk, name);
  lmt_cursor_init (&walk->in, walk->members[which]);
  walk->dropped = NULL;
  return lmt_cursor_read_map (&walk->in, n) || wrong (walk, "a map");
}

static gboolean
salt_is_fine (LmtSpan salt)
{
  guint32 points = 0;

  for (gsize i = 0; i < salt.len; i++)
    {
      if (salt.data[i] == '@' || salt.data[i] == '/' || salt.data[i] == '\\' || salt.data[i] == 0)
        return FALSE;
      points += (salt.data[i] & 0xc0) != 0x80;
    }
  return points <= 128;
}

static gboolean
read_key (Walk *walk, EventsKey *key)
{
  guint32 n;

  memset (key, 0, sizeof *key);
  if (!read_array (walk, 5, 5, &n, "a key of 5"))
    return FALSE;
  if (!lmt_cursor_read_bin (&walk->in, &key->hash) || key->hash.len > G_MAXINT32)
    return wrong (walk, "a chunk hash");
  return read_text (walk, &key->model, 0, "a model name") && read_int (walk, G_MININT64, &key->kv_rank, "a rank")
         && read_int (walk, 0, &key->group, "an object group") && read_text (walk, &key->salt, 0, "a salt")
         && ((key->model.len == 0 || memchr (key->model.data, '@', key->model.len) == NULL)
             || wrong (walk, "a model name without @"))
         && (salt_is_fine (key->salt) || wrong (walk, "a salt"));
}

/* ---- cursors, and our own section about streams ---- */

static gboolean
walk_cursor (Walk *walk)
{
  EventsStream stream = { .known = TRUE, .last_dropped = -1 };
  guint32 n;

  if (!read_text (walk, &stream.instance, 1, "an instance id") || !read_array (walk, 3, 4, &n, "a cursor of 3 or 4")
      || !read_int (walk, 0, &stream.incarnation, "an incarnation") || !read_int (walk, 0, &stream.last_seq, "a seq")
      || !read_flag (walk, &stream.gap))
    return FALSE;
  if (n == 4 && !lmt_cursor_read_nil (&walk->in) && !read_int (walk, 0, &stream.last_dropped, "a count of dropped events"))
    return FALSE;
  if (walk->take)
    events_gate_restore (walk->views->gate, &stream);
  return TRUE;
}

static gboolean
fits (Walk *walk, guint64 n, guint64 limit, const char *expected)
{
  return limit == 0 || n <= limit || wrong (walk, expected);
}

static gboolean
walk_cursors (Walk *walk)
{
  guint32 n;

  if (!enter_map (walk, 0, "cursors", &n)
      || !fits (walk, n, walk->views->config.max_instances, "no more instances than the limit"))
    return FALSE;
  for (guint32 i = 0; i < n; i++)
    if (!walk_cursor (walk))
      return FALSE;
  return TRUE;
}

static gboolean
walk_stream (Walk *walk)
{
  EventsStream stream = { 0 };
  gint64 missing, dropped;
  guint32 n;

  if (!read_array (walk, 10, 10, &n, "a stream of 10") || !read_text (walk, &stream.instance, 1, "an instance id")
      || !read_flag (walk, &stream.known) || !read_int (walk, 0, &stream.incarnation, "an incarnation")
      || !read_int (walk, 0, &stream.last_seq, "a seq") || !read_flag (walk, &stream.gap) || !read_flag (walk, &stream.departed)
      || !read_int (walk, 0, &stream.departed_incarnation, "an incarnation") || !read_int (walk, 0, &missing, "a count")
      || !read_int (walk, 0, &dropped, "a count") || !read_int (walk, -1, &stream.last_dropped, "a count of dropped events"))
    return FALSE;
  stream.missing = (guint64)missing;
  stream.dropped = (guint64)dropped;
  if (walk->take)
    events_gate_restore (walk->views->gate, &stream);
  return TRUE;
}

static gboolean
walk_own (Walk *walk)
{
  guint32 n;

  if (!enter_array (walk, 0, "streams", &n)
      || !fits (walk, n, walk->views->config.max_instances, "no more instances than the limit"))
    return FALSE;
  for (guint32 i = 0; i < n; i++)
    if (!walk_stream (walk))
      return FALSE;
  return TRUE;
}

/* ---- the directory ---- */

static guint32
take_key (Walk *walk, const EventsKey *key)
{
  return events_key_take (walk->views, key, events_hash_tag (walk->views, key->hash));
}

static guint32
take_origin (Walk *walk, const EventsPlacement *placement)
{
  EventsViews *views = walk->views;
  guint32 instance;

  events_instance_take (views, placement->instance, &instance);
  const guint32 origin
      = events_origin_take (views, instance, placement->incarnation, placement->tier, placement->backend, placement->shared);
  events_names_drop (&views->instance_names, instance);
  return origin;
}

static void
take_placement (Walk *walk, guint32 key, const EventsPlacement *placement)
{
  EventsViews *views = walk->views;
  const guint32 origin = take_origin (walk, placement);

  if (events_views_item_at (views, key, views->origins.at[origin].seat) == 0) /* twice: the first one counts */
    {
      const guint32 item = events_item_new (views, key, origin, placement->size_bytes);
      events_views_count_item (views, item, EVENTS_ITEM_DIRECTORY, 1);
    }
  events_origin_unref (views, origin);
}

static gboolean
walk_placement (Walk *walk, guint32 key)
{
  EventsPlacement placement = { 0 };
  guint32 n;

  if (!read_array (walk, 6, 6, &n, "a placement of 6") || !read_text (walk, &placement.instance, 1, "an instance id")
      || !read_int (walk, 0, &placement.incarnation, "an incarnation") || !read_tier (walk, &placement.tier)
      || !read_text (walk, &placement.backend, 0, "a backend") || !read_int (walk, 0, &placement.size_bytes, "a size")
      || !read_flag (walk, &placement.shared))
    return FALSE;
  if (walk->take)
    take_placement (walk, key, &placement);
  return TRUE;
}

static gboolean
walk_directory_key (Walk *walk, guint32 position)
{
  EventsViews *views = walk->views;
  EventsKey key;
  double last_access;
  gint64 accesses;
  guint32 n, number = 0, tag;

  if (!read_array (walk, 4, 4, &n, "a key's record of 4") || !read_key (walk, &key))
    return FALSE;
  if (!walk->take)
    {
      tag = events_hash_tag (views, key.hash);
      g_array_append_val (walk->keys, tag);
    }
  if (!lmt_cursor_read_double (&walk->in, &last_access))
    return wrong (walk, "a time");
  if (!read_int (walk, 0, &accesses, "a count") || !lmt_cursor_read_array (&walk->in, &n))
    return wrong (walk, "placements");
  if (walk->take)
    {
      const EventsSlots *table = &views->chunk_slots;
      if (position + AHEAD < walk->keys->len)
        __builtin_prefetch (&table->slots[events_slots_first (table, g_array_index (walk->keys, guint32, position + AHEAD))]);
      number = events_key_take (views, &key, g_array_index (walk->keys, guint32, position));
      if (views->keys.at[number].order == 0)
        events_views_list_key (views, number);
      views->keys.at[number].accesses = accesses;
      views->keys.at[number].last_access = last_access;
      g_array_index (walk->keys, guint32, position) = number;
    }
  for (guint32 i = 0; i < n; i++)
    if (!walk_placement (walk, number))
      return FALSE;
  drop_taken (walk);
  return TRUE;
}

static void
take_tokens (Walk *walk, LmtSpan hash, gint64 offset, LmtSpan bytes)
{
  const guint32 chunk = events_chunk_find (walk->views, hash, events_hash_tag (walk->views, hash));
  const guint32 n = (guint32)(bytes.len / sizeof (guint32));

  if (chunk == 0 || n == 0 || walk->views->chunks.at[chunk].content != 0)
    return;
  g_autofree guint32 *tokens = g_new (guint32, n);
  memcpy (tokens, bytes.data, n * sizeof (guint32));
  for (guint32 i = 0; i < n; i++)
    tokens[i] = GUINT32_FROM_LE (tokens[i]);
  events_tokens_restore (walk->views, chunk, tokens, n, offset);
}

static gboolean
walk_binding (Walk *walk)
{
  LmtSpan hash, bytes;
  gint64 offset;
  guint32 n;

  if (!read_array (walk, 3, 3, &n, "a binding of 3"))
    return FALSE;
  if (!lmt_cursor_read_bin (&walk->in, &hash) || !read_int (walk, -1, &offset, "an offset")
      || !lmt_cursor_read_bin (&walk->in, &bytes) || bytes.len % sizeof (guint32) != 0)
    return wrong (walk, "tokens of 4 bytes each");
  if (walk->take)
    take_tokens (walk, hash, offset, bytes);
  drop_taken (walk);
  return TRUE;
}

/* The key at @position is in @instance's index: by a placement that carries its name, or as something left behind (D12). */
static void
take_index (Walk *walk, guint32 instance, guint32 number)
{
  EventsViews *views = walk->views;
  gboolean carried = FALSE;

  for (guint32 i = views->keys.at[number].items; i != 0; i = views->items.at[i].next)
    {
      const EventsOrigin *origin = &views->origins.at[views->items.at[i].origin];
      if (origin->instance != instance || origin->tier != EVENTS_L1 || !(views->items.at[i].flags & EVENTS_ITEM_DIRECTORY))
        continue;
      events_views_index_item (views, i);
      carried = TRUE;
    }
  if (carried || views->config.compat == EVENTS_COMPAT_STRICT || events_views_index_item_of (views, number, instance, 0) != 0)
    return;
  const guint32 origin = events_origin_take (views, instance, 0, EVENTS_L1, (LmtSpan){ NULL, 0 }, TRUE);
  events_views_index_item (views, events_item_new (views, number, origin, 0));
  events_origin_unref (views, origin);
}

static gboolean
walk_index (Walk *walk)
{
  guint32 n, instance = 0;
  LmtSpan id;

  if (!read_text (walk, &id, 1, "an instance id") || !lmt_cursor_read_array (&walk->in, &n))
    return wrong (walk, "an array of positions");
  if (walk->take)
    {
      events_instance_take (walk->views, id, &instance);
      events_views_show_instance (walk->views, instance);
      events_names_drop (&walk->views->instance_names, instance);
    }
  for (guint32 i = 0; i < n; i++)
    {
      gint64 position;
      if (!read_int (walk, 0, &position, "a key's position") || position >= walk->keys->len)
        return wrong (walk, "the position of a key that is there");
      if (walk->take)
        take_index (walk, instance, g_array_index (walk->keys, guint32, position));
    }
  return TRUE;
}

/* A fence goes by the index: a placement that dies with its process stands there whatever the file says. */
static void
complete_index (EventsViews *views)
{
  for (guint32 i = 1; i < views->items.n; i++)
    {
      const EventsOrigin *origin = &views->origins.at[views->items.at[i].origin];
      const guint32 flags = views->items.at[i].flags;
      if (!(flags & EVENTS_ITEM_DIRECTORY) || (flags & EVENTS_ITEM_INDEX) || origin->tier != EVENTS_L1 || origin->shared)
        continue;
      events_views_show_instance (views, origin->instance);
      events_views_index_item (views, i);
    }
}

static gboolean
walk_directory (Walk *walk)
{
  guint32 n;

  if (!enter_array (walk, 0, "keys", &n) || !fits (walk, n, walk->views->config.max_keys, "no more keys than the limit"))
    return FALSE;
  if (walk->take)
    events_slots_reserve (&walk->views->chunk_slots, n);
  for (guint32 i = 0; i < n; i++)
    if (!walk_directory_key (walk, i))
      return FALSE;
  if (!enter_array (walk, 1, "bindings", &n))
    return FALSE;
  for (guint32 i = 0; i < n; i++)
    if (!walk_binding (walk))
      return FALSE;
  if (!enter_map (walk, 2, "l1_keys_by_instance", &n))
    return FALSE;
  for (guint32 i = 0; i < n; i++)
    if (!walk_index (walk))
      return FALSE;
  if (walk->take)
    complete_index (walk->views);
  return TRUE;
}

/* ---- usage ---- */

/* The number of @key or 0. Rows of usage stand nearly in the order of the directory's keys: looked for there first. */
static guint32
find_near (Walk *walk, const EventsKey *key)
{
  EventsViews *views = walk->views;
  const guint32 next = walk->last + 1;

  if (next < views->keys.n && views->keys.at[next].order != 0)
    {
      const EventsKeyRecord *record = &views->keys.at[next];
      if (events_span_equal (events_chunk_hash (&views->chunks.at[record->chunk]), key->hash)
          && record->space == events_space_find (views, key->model, key->salt, key->kv_rank, key->group))
        return walk->last = next;
    }
  const guint32 found = events_key_find (views, key, events_hash_tag (views, key->hash));
  if (found != 0)
    walk->last = found;
  return found;
}

/* What the directory knows, too, has the directory's size. What it doesn't know is usage's alone; but never memory of a process:
 * nothing would ever take that away. */
static void
take_usage (Walk *walk, const EventsKey *key, const EventsPlacement *placement)
{
  EventsViews *views = walk->views;

  guint32 instance = 0;
  const guint32 known = find_near (walk, key);
  const guint32 seat = placement->shared || events_instance_find (views, placement->instance, &instance) != NULL
                           ? events_seat_find (views, instance, placement->tier, placement->backend)
                           : 0;
  const guint32 there = known != 0 && seat != 0 ? events_views_item_at (views, known, seat) : 0;

  if (there != 0)
    {
      if (!(views->items.at[there].flags & EVENTS_ITEM_USAGE))
        events_views_count_item (views, there, EVENTS_ITEM_USAGE, 1);
      return;
    }
  if (!placement->shared && placement->tier == EVENTS_L1)
    {
      walk->left_out++;
      return;
    }
  const guint32 origin = take_origin (walk, placement);
  const guint32 number = take_key (walk, key);
  events_views_count_item (views, events_item_new (views, number, origin, placement->size_bytes), EVENTS_ITEM_USAGE, 1);
  views->num_usage_only++;
  events_origin_unref (views, origin);
}

static gboolean
walk_usage_row (Walk *walk)
{
  EventsPlacement placement = { 0 };
  EventsKey key;
  guint32 n;

  if (!read_array (walk, 5, 5, &n, "a placement of 5") || !read_tier (walk, &placement.tier) || !read_key (walk, &key)
      || !read_text (walk, &placement.instance, 0, "an owner") || !read_text (walk, &placement.backend, 0, "a backend")
      || !read_int (walk, 0, &placement.size_bytes, "a size"))
    return FALSE;
  placement.shared = placement.instance.len == 0;
  if (walk->take)
    take_usage (walk, &key, &placement);
  drop_taken (walk);
  return TRUE;
}

static gboolean
walk_usage (Walk *walk)
{
  guint32 n;

  if (!enter_array (walk, 0, "placements", &n))
    return FALSE;
  for (guint32 i = 0; i < n; i++)
    if (!walk_usage_row (walk))
      return FALSE;
  return TRUE;
}

/* ---- capacity, LRU, Kafka ---- */

static gboolean
walk_declaration (Walk *walk)
{
  EventsBatch batch = { .kind = EVENTS_CONFIG };
  guint32 n, instance;

  if (!read_array (walk, 4, 4, &n, "a declaration of 4") || !read_text (walk, &batch.instance, 1, "an instance id")
      || !read_int (walk, 0, &batch.incarnation, "an incarnation") || !read_int (walk, 0, &batch.capacity_revision, "a revision")
      || !lmt_cursor_read_array (&walk->in, &n))
    return wrong (walk, "an array of modules");
  for (guint32 i = 0; i < n; i++)
    {
      guint32 four;
      if (!read_array (walk, 4, 4, &four, "a module of 4") || !read_tier (walk, &batch.tier)
          || !read_text (walk, &batch.backend, 0, "a backend") || !read_int (walk, 0, &batch.capacity_bytes, "a capacity")
          || !read_flag (walk, &batch.shared))
        return FALSE;
      if (!walk->take)
        continue;
      events_instance_take (walk->views, batch.instance, &instance);
      events_usage_declare (walk->views, instance, &batch);
      events_names_drop (&walk->views->instance_names, instance);
    }
  return TRUE;
}

static gboolean
walk_declarations (Walk *walk)
{
  guint32 n;

  if (!enter_array (walk, 0, "declarations", &n)
      || !fits (walk, n, walk->views->config.max_instances, "no more instances than the limit"))
    return FALSE;
  for (guint32 i = 0; i < n; i++)
    if (!walk_declaration (walk))
      return FALSE;
  return TRUE;
}

static gboolean
walk_bucket (Walk *walk)
{
  EventsViews *views = walk->views;
  LmtSpan salt;
  guint32 n;

  if (!read_text (walk, &salt, 0, "a salt") || !lmt_cursor_read_array (&walk->in, &n))
    return wrong (walk, "an array of keys");
  for (guint32 i = 0; i < n; i++)
    {
      EventsKey key;
      if (!read_key (walk, &key))
        return FALSE;
      const guint32 number
          = walk->take && views->links != NULL ? events_key_find (views, &key, events_hash_tag (views, key.hash)) : 0;
      if (number != 0)
        events_usage_touch (views, number, TRUE);
    }
  return TRUE;
}

static gboolean
walk_lru (Walk *walk)
{
  guint32 n;

  if (!enter_map (walk, 0, "buckets", &n))
    return FALSE;
  for (guint32 i = 0; i < n; i++)
    if (!walk_bucket (walk))
      return FALSE;
  return TRUE;
}

static gboolean
walk_offsets (Walk *walk)
{
  guint32 n;

  if (!enter_array (walk, 0, "offsets", &n))
    return FALSE;
  for (guint32 i = 0; i < n; i++)
    {
      gint64 partition, offset;
      LmtSpan topic;
      guint32 three;
      if (!read_array (walk, 3, 3, &three, "an offset of 3") || !read_text (walk, &topic, 1, "a topic")
          || !read_int (walk, 0, &partition, "a partition") || partition > G_MAXINT32
          || !read_int (walk, G_MININT64, &offset, "an offset"))
        return wrong (walk, "a topic, a partition, an offset");
      const EventsKafkaOffset each = { NULL, (gint32)partition, offset };
      if (!walk->take || walk->offsets == NULL)
        continue;
      g_array_append_val (walk->offsets, each);
      g_array_index (walk->offsets, EventsKafkaOffset, walk->offsets->len - 1).topic
          = g_strndup ((const char *)topic.data, topic.len);
    }
  return TRUE;
}

/* ---- the file ---- */

/* Applied in this order: usage and LRU go by the directory's keys, our own section by the cursors. */
typedef struct
{
  const char *name;
  gboolean (*walk) (Walk *walk);
  const char *members[MEMBERS];
} Section;

static const Section sections[] = {
  { "stream_cursors", walk_cursors, { "cursors" } },
  { "lmtrace", walk_own, { "streams" } },
  { "key_directory", walk_directory, { "keys", "bindings", "l1_keys_by_instance" } },
  { "cache_usage", walk_usage, { "placements" } },
  { "server_config", walk_declarations, { "declarations" } },
  { "lru_order", walk_lru, { "buckets" } },
  { "kafka_stream_position", walk_offsets, { "offsets" } },
};

/* Where a section of the file lies, and what is looked for in it. */
typedef struct
{
  LmtSpan value; /* data NULL: not there */
  LmtSpan members[MEMBERS];
} Found;

/* A key of a map. @text: empty where it is none. */
static gboolean
check_name (LmtCursor *in, LmtSpan *text, LmtFault *fault)
{
  LmtCursor name = *in;

  if (!lmt_cursor_check_next (in, fault))
    return FALSE;
  if (!lmt_cursor_read_str (&name, text))
    *text = (LmtSpan){ (const guint8 *)"", 0 };
  return TRUE;
}

/* The last of members of a name counts, as in any map of Python's; what else stands there is passed over. */
static gboolean
find_members (LmtCursor *in, const Section *section, Found *found, LmtFault *fault)
{
  guint32 n;

  *found = (Found){ .value = { in->pos, 0 } };
  if (!lmt_cursor_read_map (in, &n))
    {
      if (!lmt_cursor_check_next (in, fault))
        return FALSE;
      n = 0;
    }
  for (guint32 i = 0; i < n; i++)
    {
      LmtSpan name, value;
      if (!check_name (in, &name, fault))
        return FALSE;
      value.data = in->pos;
      if (!lmt_cursor_check_next (in, fault))
        return FALSE;
      value.len = (gsize)(in->pos - value.data);
      for (guint m = 0; m < MEMBERS && section->members[m] != NULL; m++)
        if (lmt_span_equal_str (name, section->members[m], strlen (section->members[m])))
          found->members[m] = value;
    }
  found->value.len = (gsize)(in->pos - found->value.data);
  return TRUE;
}

/* FALSE: @in isn't exactly one msgpack map. */
static gboolean
find_sections (LmtCursor *in, Found found[G_N_ELEMENTS (sections)], LmtFault *fault)
{
  guint32 n;

  if (!lmt_cursor_read_map (in, &n))
    return FALSE;
  for (guint32 i = 0; i < n; i++)
    {
      LmtSpan name;
      guint s = 0;
      if (!check_name (in, &name, fault))
        return FALSE;
      while (s < G_N_ELEMENTS (sections) && !lmt_span_equal_str (name, sections[s].name, strlen (sections[s].name)))
        s++;
      if (s < G_N_ELEMENTS (sections) ? !find_members (in, &sections[s], &found[s], fault) : !lmt_cursor_check_next (in, fault))
        return FALSE;
    }
  return lmt_cursor_at_end (in);
}

static void add_note (GString *note, const char *format, ...) G_GNUC_PRINTF (2, 3);
static void
add_note (GString *note, const char *format, ...)
{
  va_list args;

  if (note->len > 0)
    g_string_append (note, "; ");
  va_start (args, format);
  g_string_append_vprintf (note, format, args);
  va_end (args);
}

static gboolean
restore_section (EventsViews *views, GArray *offsets, const Found *found, guint which, gboolean may_drop, GString *note)
{
  const LmtSpan value = found->value;
  Walk walk = { .views = views,
                .may_drop = may_drop,
                .offsets = offsets,
                .members = found->members,
                .keys = g_array_new (FALSE, FALSE, sizeof (guint32)) };

  for (guint pass = 0; pass < 2; pass++)
    {
      walk.take = pass == 1;
      walk.in = (LmtCursor){ value.data, value.data + value.len };
      if (!sections[which].walk (&walk))
        {
          add_note (note, "section %s at byte %" G_GSIZE_FORMAT ": expected %s: left out", sections[which].name,
                    (gsize)(walk.in.pos - value.data), walk.expected);
          g_array_unref (walk.keys);
          return FALSE;
        }
    }
  g_array_unref (walk.keys);
  if (walk.left_out > 0)
    add_note (note, "section %s: %u L1 placements that the directory doesn't know: left out", sections[which].name,
              walk.left_out);
  return TRUE;
}

static gboolean
check_file (LmtSpan file, Found found[G_N_ELEMENTS (sections)], GString *note)
{
  static const guint8 magic[8] = { 'L', 'M', 'C', 'K', 'P', 'T', 0, 0 };
  LmtFault fault = { 0 };
  LmtCursor in;
  guint32 version;

  if (file.data == NULL || file.len < HEAD)
    add_note (note, "expected a header of %d bytes, found %" G_GSIZE_FORMAT, HEAD, file.len);
  else if (memcmp (file.data, magic, sizeof magic) != 0)
    add_note (note, "no checkpoint: the first bytes are others");
  else
    {
      memcpy (&version, file.data + 8, sizeof version);
      version = GUINT32_FROM_LE (version);
      lmt_cursor_init (&in, (LmtSpan){ file.data + HEAD, file.len - HEAD });
      if (version != 1)
        add_note (note, "expected checkpoint version 1, found %u", version);
      else if (lmt_cursor_peek (&in) != LMT_TYPE_MAP && lmt_cursor_check_next (&in, &fault) && lmt_cursor_at_end (&in))
        add_note (note, "expected a map of sections");
      else if (!find_sections (&in, found, &fault))
        add_note (note, "the content is no whole msgpack value");
      else
        return TRUE;
    }
  return FALSE;
}

/* @may_drop: @file is a mapping of zeroed pages, whose bytes nobody needs any more. */
static gboolean
load (EventsViews *views, GArray *offsets, LmtSpan file, gboolean may_drop, char **note)
{
  GString *text = g_string_new (NULL);
  Found found[G_N_ELEMENTS (sections)] = { 0 };
  guint taken = 0;

  if (views->num_keys > 0 || views->items.n > 1 || events_gate_n_streams (views->gate) > 0)
    add_note (text, "the views aren't empty");
  else if (check_file (file, found, text))
    for (guint i = 0; i < G_N_ELEMENTS (sections); i++)
      if (found[i].value.data != NULL)
        taken += restore_section (views, offsets, &found[i], i, may_drop, text);
  if (taken == 0 && text->len == 0)
    add_note (text, "no section that is known here");
  *note = g_string_free (text, text->len == 0);
  return taken > 0;
}

gboolean
events_checkpoint_load (EventsViews *views, GArray *offsets, LmtSpan file, char **note)
{
  return load (views, offsets, file, FALSE, note);
}

static gboolean
read_file (const char *path, guint8 **data, gsize *len, GString *note)
{
  const int fd = g_open (path, O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0);
  struct stat st = { 0 };
  gsize done = 0;

  if (fd < 0 && errno == ENOENT)
    add_note (note, "none there yet");
  else if (fd < 0 || fstat (fd, &st) < 0)
    add_note (note, "cannot open: %s", g_strerror (errno));
  else if (!S_ISREG (st.st_mode))
    add_note (note, "no regular file");
  if (note->len > 0)
    {
      if (fd >= 0)
        close (fd);
      return FALSE;
    }
  *len = (gsize)st.st_size;
  *data = mmap (NULL, *len + 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (*data == MAP_FAILED)
    *data = NULL;
  while (*data != NULL && done < *len)
    {
      const gssize n = read (fd, *data + done, MIN (*len - done, (gsize)TAKE_PART));
      if (n < 0 && errno == EINTR)
        continue;
      if (n <= 0)
        break;
      done += (gsize)n;
    }
  if (*data == NULL)
    add_note (note, "no memory for its %" G_GSIZE_FORMAT " bytes", *len);
  else if (done < *len)
    add_note (note, "read %" G_GSIZE_FORMAT " of %" G_GSIZE_FORMAT " bytes", done, *len);
  close (fd);
  return note->len == 0;
}

gboolean
events_checkpoint_read (EventsViews *views, GArray *offsets, const char *path, char **note)
{
  g_autoptr (GString) text = g_string_new (NULL);
  guint8 *data = NULL;
  g_autofree char *inner = NULL;
  gsize len = 0;
  gboolean taken = FALSE;

  if (read_file (path, &data, &len, text))
    {
      taken = load (views, offsets, (LmtSpan){ data, len }, TRUE, &inner);
      if (inner != NULL)
        add_note (text, "%s", inner);
    }
  if (data != NULL)
    munmap (data, len + 1);
  *note = text->len > 0 ? g_strdup_printf ("%s: %s", path, text->str) : NULL;
  return taken;
}
