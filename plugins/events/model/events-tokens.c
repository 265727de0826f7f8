// SPDX-License-Identifier: Apache-2.0
/* Tokens of chunks: chunk hashes, what a chunk holds, and the index for finding its content anywhere (events.md 9.1, 10). */
#include "events-views-private.h"

/* The reference's polynomial: fingerprints don't leave the process, but how the filter fills (table_size) follows from it. */
#define BLEND_BASE G_GUINT64_CONSTANT (0x9E3779B97F4A7C15)

enum
{
  BLEND_GROWTH = 16,
  BLEND_FIRST_SIZE = 1024,
};

/* Somebody who may fetch: (model, salt, world size). */
typedef struct
{
  guint32 model, salt; /* names */
  guint32 world_size;
  guint32 reserved;
} BlendSpace;

typedef struct
{
  guint32 chunk;
  guint32 reserved;
  gint64 offset;
  GArray *spaces; /* BlendSpace */
} BlendOccupant;

/* One content. @tokens: of the first chunk that had it, so that another one of equal fingerprint is never taken for it. */
struct _EventsBlendEntry
{
  guint64 fingerprint;
  guint32 *tokens;
  GArray *occupants; /* BlendOccupant, in the order of arrival */
};

struct _EventsBlend
{
  GHashTable *entries; /* by fingerprint */
  guint8 *filter;      /* 1 where a fingerprint falls; stays when one goes, until the filter is made anew */
  guint64 n_filter, n_set;
  guint64 n_chunks, n_claims;
  GHashTable *claims; /* BlendSpace -> guint64*: so many claims */
};

void
events_chunk_hashes (const guint32 *tokens, guint32 n_tokens, guint32 chunk_size, guint8 *out)
{
  static const guint8 none[12] = { 0 };
  guint8 hash[32];
  guint32 swapped[64];

  lmt_blake3 (none, sizeof none, hash);
  for (guint32 chunk = 0; chunk < n_tokens / chunk_size; chunk++)
    {
      LmtBlake3 state;
      lmt_blake3_init (&state);
      lmt_blake3_update (&state, hash, sizeof hash);
      for (guint32 i = 0; i < chunk_size; i += G_N_ELEMENTS (swapped))
        {
          const guint32 n = MIN ((guint32)G_N_ELEMENTS (swapped), chunk_size - i);
          for (guint32 j = 0; j < n; j++)
            swapped[j] = GUINT32_TO_BE (tokens[(gsize)chunk * chunk_size + i + j]);
          lmt_blake3_update (&state, swapped, n * sizeof (guint32));
        }
      lmt_blake3_final (&state, hash);
      memcpy (out + (gsize)chunk * sizeof hash, hash, sizeof hash);
    }
}

/* ---- the blend index ---- */

static void
free_entry (gpointer data)
{
  EventsBlendEntry *entry = data;

  for (guint i = 0; i < entry->occupants->len; i++)
    g_array_unref (g_array_index (entry->occupants, BlendOccupant, i).spaces);
  g_array_unref (entry->occupants);
  g_free (entry->tokens);
  g_free (entry);
}

static guint
hash_space (gconstpointer data)
{
  const BlendSpace *space = data;

  return (guint)lmt_mix64 (((guint64)space->model << 32 | space->salt) ^ ((guint64)space->world_size << 56));
}

static gboolean
equal_spaces (gconstpointer a, gconstpointer b)
{
  return memcmp (a, b, sizeof (BlendSpace)) == 0;
}

static EventsBlend *
blend_new (void)
{
  EventsBlend *blend = g_new0 (EventsBlend, 1);

  blend->entries = g_hash_table_new_full (g_int64_hash, g_int64_equal, NULL, free_entry);
  blend->claims = g_hash_table_new_full (hash_space, equal_spaces, g_free, g_free);
  blend->n_filter = BLEND_FIRST_SIZE;
  blend->filter = lmt_pages_renew (guint8, NULL, 0, BLEND_FIRST_SIZE);
  return blend;
}

static void
blend_free (EventsBlend *blend)
{
  if (blend == NULL)
    return;
  g_hash_table_unref (blend->entries);
  g_hash_table_unref (blend->claims);
  lmt_pages_free (blend->filter, blend->n_filter);
  g_free (blend);
}

static guint64
fingerprint_of (const guint32 *tokens, guint32 n)
{
  guint64 h = 0;

  for (guint32 i = 0; i < n; i++)
    h = h * BLEND_BASE + tokens[i];
  return h;
}

static void
renew_filter (EventsBlend *blend)
{
  const guint64 n = g_hash_table_size (blend->entries);
  guint64 size = BLEND_FIRST_SIZE;
  GHashTableIter iter;
  gpointer key;

  while (size < BLEND_GROWTH * n)
    size *= 2;
  lmt_pages_free (blend->filter, blend->n_filter);
  blend->filter = lmt_pages_renew (guint8, NULL, 0, size);
  blend->n_filter = size;
  blend->n_set = 0;
  g_hash_table_iter_init (&iter, blend->entries);
  while (g_hash_table_iter_next (&iter, &key, NULL))
    {
      guint8 *slot = &blend->filter[*(const guint64 *)key & (size - 1)];
      blend->n_set += *slot == 0;
      *slot = 1;
    }
}

static void
count_claim (EventsBlend *blend, const BlendSpace *space, int sign)
{
  guint64 *n = g_hash_table_lookup (blend->claims, space);

  blend->n_claims += (guint64)(gint64)sign;
  if (n == NULL)
    {
      n = g_new0 (guint64, 1);
      g_hash_table_insert (blend->claims, g_memdup2 (space, sizeof *space), n);
    }
  *n += (guint64)(gint64)sign;
  if (*n == 0)
    g_hash_table_remove (blend->claims, space);
}

static BlendSpace
blend_space_of (const EventsViews *views, guint32 key)
{
  const EventsSpace *space = &views->spaces.at[views->keys.at[key].space];

  return (
      BlendSpace){ .model = space->model, .salt = space->salt, .world_size = (guint32)((guint64)space->kv_rank >> 24 & 0xff) };
}

static EventsBlendEntry *
find_entry (const EventsViews *views, const EventsContent *content)
{
  const guint64 fingerprint = fingerprint_of (content->tokens, content->n);

  return content->n == views->config.chunk_size ? g_hash_table_lookup (views->blend->entries, &fingerprint) : NULL;
}

static BlendOccupant *
find_occupant (EventsBlendEntry *entry, guint32 chunk, guint *at)
{
  for (guint i = 0; entry != NULL && i < entry->occupants->len; i++)
    if (g_array_index (entry->occupants, BlendOccupant, i).chunk == chunk)
      {
        *at = i;
        return &g_array_index (entry->occupants, BlendOccupant, i);
      }
  return NULL;
}

static gint
find_claim (const BlendOccupant *occupant, const BlendSpace *space)
{
  for (guint i = 0; i < occupant->spaces->len; i++)
    if (equal_spaces (&g_array_index (occupant->spaces, BlendSpace, i), space))
      return (gint)i;
  return -1;
}

static EventsBlendEntry *
take_entry (EventsViews *views, const EventsContent *content)
{
  EventsBlend *blend = views->blend;
  EventsBlendEntry *entry = find_entry (views, content);

  if (entry != NULL)
    return entry;
  entry = g_new0 (EventsBlendEntry, 1);
  entry->fingerprint = fingerprint_of (content->tokens, content->n);
  entry->tokens = g_memdup2 (content->tokens, content->n * sizeof (guint32));
  entry->occupants = g_array_new (FALSE, FALSE, sizeof (BlendOccupant));
  g_hash_table_insert (blend->entries, &entry->fingerprint, entry);
  guint8 *slot = &blend->filter[entry->fingerprint & (blend->n_filter - 1)];
  blend->n_set += *slot == 0;
  *slot = 1;
  if (BLEND_GROWTH * (guint64)g_hash_table_size (blend->entries) > blend->n_filter)
    renew_filter (blend);
  return entry;
}

/* @key's people may fetch the chunk by its content: if that is known, as long as a chunk is, and its place in the text is known.
 */
static void
claim (EventsViews *views, guint32 key)
{
  const guint32 chunk = views->keys.at[key].chunk;
  const EventsContent *content = &views->contents.at[views->chunks.at[chunk].content];
  const BlendSpace space = blend_space_of (views, key);
  guint at = 0;

  if (views->blend == NULL || views->chunks.at[chunk].content == 0 || content->offset == -1
      || content->n != views->config.chunk_size)
    return;
  EventsBlendEntry *entry = take_entry (views, content);
  BlendOccupant *occupant = find_occupant (entry, chunk, &at);
  if (occupant == NULL)
    {
      const BlendOccupant fresh = { .chunk = chunk, .spaces = g_array_new (FALSE, FALSE, sizeof (BlendSpace)) };
      g_array_append_val (entry->occupants, fresh);
      occupant = &g_array_index (entry->occupants, BlendOccupant, entry->occupants->len - 1);
      views->blend->n_chunks++;
    }
  occupant->offset = content->offset;
  if (find_claim (occupant, &space) >= 0)
    return;
  g_array_append_val (occupant->spaces, space);
  count_claim (views->blend, &space, 1);
}

static void
claim_all (EventsViews *views, guint32 chunk)
{
  for (guint32 key = views->chunks.at[chunk].first_key; key != 0; key = views->keys.at[key].next)
    if (views->keys.at[key].order != 0)
      claim (views, key);
}

static void
drop_occupant (EventsBlend *blend, EventsBlendEntry *entry, guint at)
{
  BlendOccupant *occupant = &g_array_index (entry->occupants, BlendOccupant, at);

  for (guint i = 0; i < occupant->spaces->len; i++)
    count_claim (blend, &g_array_index (occupant->spaces, BlendSpace, i), -1);
  g_array_unref (occupant->spaces);
  g_array_remove_index (entry->occupants, at);
  blend->n_chunks--;
  if (entry->occupants->len > 0)
    return;
  g_hash_table_remove (blend->entries, &entry->fingerprint);
  if (blend->n_set > 2 * (guint64)g_hash_table_size (blend->entries))
    renew_filter (blend);
}

static void
unclaim_chunk (EventsViews *views, guint32 chunk, const EventsContent *content)
{
  EventsBlendEntry *entry = find_entry (views, content);
  guint at = 0;

  if (find_occupant (entry, chunk, &at) != NULL)
    drop_occupant (views->blend, entry, at);
}

/* The last key of its people is gone: other ranks and groups hold the same bytes, so a claim lives as long as one of them. */
static void
unclaim (EventsViews *views, guint32 key)
{
  const guint32 chunk = views->keys.at[key].chunk;
  const EventsContent *content = &views->contents.at[views->chunks.at[chunk].content];
  const BlendSpace space = blend_space_of (views, key);
  guint at = 0;

  for (guint32 each = views->chunks.at[chunk].first_key; each != 0; each = views->keys.at[each].next)
    if (views->keys.at[each].order != 0)
      {
        const BlendSpace other = blend_space_of (views, each);
        if (equal_spaces (&other, &space))
          return;
      }
  EventsBlendEntry *entry = find_entry (views, content);
  BlendOccupant *occupant = find_occupant (entry, chunk, &at);
  const gint found = occupant != NULL ? find_claim (occupant, &space) : -1;
  if (found < 0)
    return;
  if (occupant->spaces->len == 1)
    {
      drop_occupant (views->blend, entry, at);
      return;
    }
  g_array_remove_index (occupant->spaces, (guint)found);
  count_claim (views->blend, &space, -1);
}

/* ---- what a chunk holds ---- */

void
events_tokens_init (EventsViews *views)
{
  views->blend = views->config.with_blend ? blend_new () : NULL;
}

void
events_tokens_clear (EventsViews *views)
{
  blend_free (views->blend);
  for (guint32 i = 1; i < views->contents.n; i++)
    g_free (views->contents.at[i].tokens);
}

static EventsContent *
take_content (EventsViews *views, guint32 chunk, guint32 n)
{
  guint32 number = views->chunks.at[chunk].content;

  if (number == 0)
    {
      number = views->contents.free_head;
      if (number != 0)
        views->contents.free_head = views->contents.at[number].next_free;
      else
        {
          if (views->contents.n == views->contents.allocated)
            {
              views->contents.at
                  = lmt_pages_renew (EventsContent, views->contents.at, views->contents.allocated, views->contents.allocated * 2);
              views->contents.allocated *= 2;
            }
          number = views->contents.n++;
        }
      views->contents.at[number] = (EventsContent){ .offset = -1 };
      views->chunks.at[chunk].content = number;
    }
  EventsContent *content = &views->contents.at[number];
  if (content->tokens == NULL || content->n != n)
    {
      views->text_bytes += (guint64)n * sizeof (guint32);
      views->text_bytes -= (guint64)content->n * sizeof (guint32);
      content->tokens = g_renew (guint32, content->tokens, n);
      content->n = n;
    }
  return content;
}

static void
drop_content (EventsViews *views, guint32 chunk)
{
  const guint32 number = views->chunks.at[chunk].content;

  if (number == 0)
    return;
  EventsContent *content = &views->contents.at[number];
  views->text_bytes -= (guint64)content->n * sizeof (guint32);
  g_free (content->tokens);
  *content = (EventsContent){ .next_free = views->contents.free_head };
  views->contents.free_head = number;
  views->chunks.at[chunk].content = 0;
}

static gboolean
same_tokens (const EventsContent *content, const EventsEntry *entry)
{
  return content->tokens != NULL && content->n == entry->n_tokens
         && memcmp (content->tokens, entry->token_ids, content->n * sizeof (guint32)) == 0;
}

void
events_tokens_set (EventsViews *views, guint32 key, const EventsEntry *entry)
{
  const guint32 chunk = views->keys.at[key].chunk;
  EventsContent *content = &views->contents.at[views->chunks.at[chunk].content];
  const gboolean had = views->chunks.at[chunk].content != 0;
  const gboolean fresh = !had || !same_tokens (content, entry);

  if (had && fresh && views->blend != NULL)
    unclaim_chunk (views, chunk, content);
  if (fresh)
    {
      content = take_content (views, chunk, entry->n_tokens);
      memcpy (content->tokens, entry->token_ids, content->n * sizeof (guint32));
    }
  content->offset = entry->token_offset;
  if (views->blend == NULL)
    return;
  if (fresh)
    claim_all (views, chunk);
  else
    claim (views, key);
}

void
events_tokens_restore (EventsViews *views, guint32 chunk, const guint32 *tokens, guint32 n, gint64 offset)
{
  EventsContent *content = take_content (views, chunk, n);

  memcpy (content->tokens, tokens, n * sizeof (guint32));
  content->offset = offset;
  claim_all (views, chunk);
}

void
events_tokens_key_listed (EventsViews *views, guint32 key)
{
  if (views->blend != NULL)
    claim (views, key);
}

void
events_tokens_key_unlisted (EventsViews *views, guint32 key)
{
  const guint32 chunk = views->keys.at[key].chunk;

  if (views->chunks.at[chunk].content == 0)
    return;
  if (views->blend != NULL)
    unclaim (views, key);
  if (views->chunks.at[chunk].n_listed == 0)
    drop_content (views, chunk);
}

void
events_tokens_stats (const EventsViews *views, EventsStats *stats)
{
  stats->table_size = BLEND_FIRST_SIZE;
  if (views->blend == NULL)
    return;
  stats->num_contents = g_hash_table_size (views->blend->entries);
  stats->num_chunks = (gint64)views->blend->n_chunks;
  stats->num_claims = (gint64)views->blend->n_claims;
  stats->num_namespaces = g_hash_table_size (views->blend->claims);
  stats->table_size = (gint64)views->blend->n_filter;
}

/* ---- asked from outside ---- */

guint32
events_views_get_chunk_size (EventsViews *views)
{
  return views->config.chunk_size;
}

gboolean
events_views_set_chunk_size (EventsViews *views, guint32 chunk_size)
{
  if (views->chunk_size_bound != 0)
    return chunk_size == views->chunk_size_bound;
  if (chunk_size < views->first_chunk_size)
    return FALSE;
  views->chunk_size_bound = chunk_size;
  if (chunk_size == views->config.chunk_size)
    return TRUE;
  views->config.chunk_size = chunk_size;
  if (views->blend == NULL)
    return TRUE;
  blend_free (views->blend);
  views->blend = blend_new ();
  for (guint64 i = 1; i < views->order_n; i++)
    if (views->order[i] != 0)
      claim (views, views->order[i]);
  return TRUE;
}

/* Occupants have equal content: the first one that is the asker's and not yet named will do. */
static void
match_entry (EventsViews *views, const EventsBlendEntry *entry, const guint32 *window, const BlendSpace *space, GHashTable *seen,
             guint64 position, EventsBlendFunc func, gpointer data)
{
  for (guint i = 0; i < entry->occupants->len; i++)
    {
      const BlendOccupant *occupant = &g_array_index (entry->occupants, BlendOccupant, i);
      if (g_hash_table_contains (seen, GUINT_TO_POINTER (occupant->chunk)) || find_claim (occupant, space) < 0)
        continue;
      if (memcmp (window, entry->tokens, views->config.chunk_size * sizeof (guint32)) != 0)
        return;
      g_hash_table_add (seen, GUINT_TO_POINTER (occupant->chunk));
      func (events_chunk_hash (&views->chunks.at[occupant->chunk]), occupant->offset, (gint64)position, data);
      return;
    }
}

void
events_views_blend (EventsViews *views, const guint32 *tokens, guint32 n, LmtSpan model, LmtSpan salt, gint64 world_size,
                    EventsBlendFunc func, gpointer data)
{
  const guint32 size = views->config.chunk_size;
  const BlendSpace space = { .model = events_names_find (&views->model_names, model),
                             .salt = events_names_find (&views->salt_names, salt),
                             .world_size = (guint32)world_size };
  guint64 fingerprint, power = 1;

  if (views->blend == NULL || n < size || space.model == 0 || space.salt == 0 || world_size < 0 || world_size > 255)
    return;
  g_autoptr (GHashTable) seen = g_hash_table_new (NULL, NULL);
  for (guint32 i = 1; i < size; i++)
    power *= BLEND_BASE;
  fingerprint = fingerprint_of (tokens, size);
  for (guint64 at = 0;; at++)
    {
      if (at % views->config.probe_stride == 0 && views->blend->filter[fingerprint & (views->blend->n_filter - 1)])
        {
          const EventsBlendEntry *entry = g_hash_table_lookup (views->blend->entries, &fingerprint);
          if (entry != NULL)
            match_entry (views, entry, tokens + at, &space, seen, at, func, data);
        }
      if (at + size >= n)
        break;
      fingerprint = (fingerprint - tokens[at] * power) * BLEND_BASE + tokens[at + size];
    }
}
