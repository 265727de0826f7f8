// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "events-names.h"
#include "events-slots.h"
#include "events-views.h"

G_BEGIN_DECLS

/*
 * The records behind EventsViews. All are small structs in growing arrays, known by their number (0: none); freed ones are used
 * again, so a directory that keeps its size allocates nothing.
 *
 *   chunk   bytes of a hash, its tokens, the list of its keys
 *   space   the rest of a key's identity: (model, rank, group, salt)
 *   key     (chunk, space); listed: it is in the directory
 *   seat    identity of a placement: (owner or nobody, tier, backend)
 *   origin  who reported: (instance, incarnation, seat); constant of a batch
 *   item    one placement of a key, in list order. Directory and usage have the same identity of a placement but forget some at
 *           different times (D11), and an instance's L1 index may hold a key whose placement is somebody else's by now (D12):
 *           three bits of an item say which of them know it.
 */
__extension__ typedef __int128 EventsWide; /* sums of sizes: no number of 2^63-1 overflows them */

enum
{
  EVENTS_ITEM_DIRECTORY = 1, /* the directory knows it */
  EVENTS_ITEM_USAGE = 2,     /* usage counts it */
  EVENTS_ITEM_INDEX = 4,     /* in the L1 index of its origin's instance: linked in that one's list */

  EVENTS_HASH_INLINE = 32,
  EVENTS_SHORT_LIST = 12, /* keys of a chunk that are found by walking; more are found by a table */
};

typedef struct
{
  union
  {
    guint8 bytes[EVENTS_HASH_INLINE];
    guint8 *more;
  } hash;
  guint32 hash_len;
  guint32 first_key;
  guint32 n_keys;
  guint32 n_listed;
  guint32 content;
  guint32 tabled; /* its keys are in the pair table */
} EventsChunk;

typedef struct
{
  guint32 model;
  guint32 salt;
  gint64 kv_rank;
  gint64 group;
  guint32 refs;
  guint32 tag;
} EventsSpace;

typedef struct
{
  guint32 chunk; /* of a free one: the next free */
  guint32 space;
  guint32 next, prev; /* among the chunk's */
  guint32 items;
  guint32 order; /* place in insertion order; 0: not listed */
  gint64 accesses;
  double last_access;
  guint64 serial; /* grows with insertion */
} EventsKeyRecord;

typedef struct
{
  gint64 size_bytes;
  guint32 origin;
  guint32 next; /* in the key's list, or the next free */
  guint32 key;
  guint32 index_prev, index_next;
  guint32 flags;
} EventsItem;

typedef struct
{
  guint32 instance; /* 0: shared */
  guint32 backend;
  guint32 tier;
  guint32 refs;
  guint32 next; /* among the instance's, or the next free */
  EventsWide bytes;
} EventsSeat;

typedef struct
{
  guint32 instance;
  guint32 seat;
  gint64 incarnation;
  guint32 tier;
  guint32 shared;
  guint32 refs;
  guint32 next_free;
} EventsOrigin;

typedef struct
{
  guint32 tier;
  guint32 shared;
  guint32 backend;
  gint64 capacity_bytes;
} EventsDeclared;

/* At the number of the instance's name. */
typedef struct
{
  guint32 listed; /* stands in l1_keys_by_instance */
  guint32 first_item;
  guint32 first_seat;
  guint32 last_origin; /* most batches of an instance come from the same one */
  guint64 since;
  guint64 l1_keys;
  GArray *declared; /* EventsDeclared; NULL: nothing */
  gint64 stamp_incarnation;
  gint64 stamp_revision;
} EventsInstance;

/* At the number of the salt's name. */
typedef struct
{
  EventsWide bytes[EVENTS_N_TIERS];
  guint32 lru_first, lru_last;
  guint64 lru_n;
} EventsSalt;

typedef struct
{
  guint32 prev, next; /* G_MAXUINT32 in prev: not in the list */
} EventsLink;

typedef struct _EventsBlendEntry EventsBlendEntry;
typedef struct _EventsBlend EventsBlend;

typedef struct
{
  guint32 *tokens;
  guint32 n;
  guint32 next_free;
  gint64 offset;
} EventsContent;

/* A growing array of records. */
#define EVENTS_RECORDS(Type)                                                                                                     \
  struct                                                                                                                         \
  {                                                                                                                              \
    Type *at;                                                                                                                    \
    guint32 n; /* the first that was never used; [0] is nobody */                                                                \
    guint32 allocated;                                                                                                           \
    guint32 free_head;                                                                                                           \
  }

struct _EventsViews
{
  EventsViewsConfig config;
  guint32 first_chunk_size; /* as configured */
  guint32 chunk_size_bound; /* set from outside */
  EventsGate *gate;
  EventsFencedFunc on_fenced;
  EventsGapFunc on_gap;
  gpointer user_data;
  GArray *shown; /* EventsPlacement of the key that is being shown */

  /* From here on: what a reset forgets. */
  EventsNames instance_names, backend_names, model_names, salt_names;
  EVENTS_RECORDS (EventsInstance) instances; /* n and free_head unused */
  EVENTS_RECORDS (EventsSalt) salts;         /* the same */
  guint64 instance_clock;

  EVENTS_RECORDS (EventsChunk) chunks;
  EVENTS_RECORDS (EventsSpace) spaces;
  EVENTS_RECORDS (EventsKeyRecord) keys;
  EVENTS_RECORDS (EventsItem) items;
  EVENTS_RECORDS (EventsSeat) seats;
  EVENTS_RECORDS (EventsOrigin) origins;
  EVENTS_RECORDS (EventsContent) contents;
  EventsSlots chunk_slots, space_slots, pair_slots, seat_slots, origin_slots;
  guint32 recent_spaces[16];
  guint32 first_shared_seat;
  guint64 seed;

  guint32 *order; /* keys as they were inserted, with holes */
  guint64 order_n, order_allocated;
  guint64 serial;
  EventsLink *links; /* LRU, parallel to keys; NULL: not kept */

  guint64 num_keys;
  guint64 num_bindings;
  guint64 num_usage_only;
  guint64 stored_again, emptied, deleted_unknown; /* EventsStats */
  guint64 count[EVENTS_N_TIERS];
  EventsWide bytes[EVENTS_N_TIERS];
  guint64 text_bytes; /* tokens, long hashes */

  EventsBlend *blend;
  GHashTable *pins;   /* EventsPin by chunk and space without group; few */
  GQueue pin_order;   /* the same, as they were pinned first */
  GHashTable *quotas; /* char* of the salt -> double* bytes */
  gboolean has_default_quota;
  double default_quota_bytes;
};

/* ---- events-records.c: records by identity ---- */
static inline guint32
events_hash_tag (const EventsViews *views, LmtSpan hash)
{
  return (guint32)(lmt_hash_bytes (hash.data, hash.len, views->seed) >> 32);
}
static inline LmtSpan
events_chunk_hash (const EventsChunk *chunk)
{
  return (LmtSpan){ chunk->hash_len <= EVENTS_HASH_INLINE ? chunk->hash.bytes : chunk->hash.more, chunk->hash_len };
}
void events_records_init (EventsViews *views);
void events_records_clear (EventsViews *views);
EventsInstance *events_instance_take (EventsViews *views, LmtSpan id, guint32 *number); /* counts a user of the name */
EventsInstance *events_instance_find (EventsViews *views, LmtSpan id, guint32 *number);
guint32 events_origin_take (EventsViews *views, guint32 instance, gint64 incarnation, guint32 tier, LmtSpan backend,
                            guint32 shared);
/* The seat of an identity: 0 if nobody sits there. */
guint32 events_seat_find (EventsViews *views, guint32 instance, guint32 tier, LmtSpan backend);
void events_origin_ref (EventsViews *views, guint32 origin);
void events_origin_unref (EventsViews *views, guint32 origin);
guint32 events_chunk_find (const EventsViews *views, LmtSpan hash, guint32 tag);
guint32 events_space_find (EventsViews *views, LmtSpan model, LmtSpan salt, gint64 kv_rank, gint64 group);
guint32 events_key_find_in (const EventsViews *views, guint32 chunk, guint32 space);
guint32 events_key_find (EventsViews *views, const EventsKey *key, guint32 tag);
guint32 events_key_take (EventsViews *views, const EventsKey *key, guint32 tag);
void events_key_free (EventsViews *views, guint32 key);                                       /* without items, not listed */
guint32 events_item_new (EventsViews *views, guint32 key, guint32 origin, gint64 size_bytes); /* at the end of the list */
void events_item_free (EventsViews *views, guint32 item);
void events_key_fill (EventsViews *views, guint32 key, EventsKey *out);

/* ---- events-views.c ---- */
void events_views_list_key (EventsViews *views, guint32 key); /* puts it at the end of the insertion order */
void events_views_squeeze (EventsViews *views);               /* afterwards a listed key's order counts from 1 without holes */
guint32 events_views_item_at (const EventsViews *views, guint32 key, guint32 seat); /* directory's or usage's */
/* The item of @key that puts it into @instance's L1 index, other than @except. */
guint32 events_views_index_item_of (const EventsViews *views, guint32 key, guint32 instance, guint32 except);
void events_views_index_item (EventsViews *views, guint32 item); /* into the L1 index of its instance */
void events_views_count_item (EventsViews *views, guint32 item, guint32 flag, int sign);
void events_views_show_instance (EventsViews *views, guint32 number);
void events_views_show (EventsViews *views, guint32 key, const EventsKeyFilter *filter, EventsKeyView *view);

/* ---- events-usage.c ---- */
void events_usage_init (EventsViews *views);
void events_usage_clear (EventsViews *views);
void events_usage_declare (EventsViews *views, guint32 instance, const EventsBatch *batch);
void events_usage_forget (EventsViews *views, guint32 instance);
void events_usage_touch (EventsViews *views, guint32 key, gboolean create);
void events_usage_untouch (EventsViews *views, guint32 key);
EventsWide events_usage_key_bytes (const EventsViews *views, guint32 key, guint32 tier);
guint64 events_usage_pin_count (EventsViews *views, const EventsKey *key);
static inline gint64
events_wide_to_int (EventsWide value)
{
  return value > G_MAXINT64 ? G_MAXINT64 : (gint64)value;
}

/* ---- events-tokens.c ---- */
void events_tokens_init (EventsViews *views);
void events_tokens_clear (EventsViews *views);
void events_tokens_set (EventsViews *views, guint32 key, const EventsEntry *entry);
void events_tokens_restore (EventsViews *views, guint32 chunk, const guint32 *tokens, guint32 n, gint64 offset);
void events_tokens_key_listed (EventsViews *views, guint32 key);
/* After the key has left the chunk's listed ones. */
void events_tokens_key_unlisted (EventsViews *views, guint32 key);
void events_tokens_stats (const EventsViews *views, EventsStats *stats);

G_END_DECLS
