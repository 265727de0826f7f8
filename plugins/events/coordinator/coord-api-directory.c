// SPDX-License-Identifier: Apache-2.0
/* Lookups and listings of the key directory. */
#include "coord.h"

enum
{
  LOOK_AT_KEYS = 4096, /* of a listing, before other requests have their turn */
  MAX_LIMIT = 10000,
};

static void
write_placement (GString *out, const EventsPlacement *placement)
{
  g_string_append (out, "{\"instance_id\":");
  coord_text_string (out, placement->instance);
  g_string_append (out, ",\"incarnation\":");
  coord_text_int (out, placement->incarnation);
  g_string_append (out, placement->tier == EVENTS_L1 ? ",\"tier\":\"l1\",\"backend\":" : ",\"tier\":\"l2\",\"backend\":");
  coord_text_string (out, placement->backend);
  g_string_append (out, ",\"size_bytes\":");
  coord_text_int (out, placement->size_bytes);
  g_string_append (out, placement->shared ? ",\"shared\":true}" : ",\"shared\":false}");
}

/* -------- lookup -------- */

typedef struct
{
  GString *out;
  guint n;
  const EventsKey *as_sent; /* NULL: in the directory's form */
} Results;

static int
compare_spans (LmtSpan a, LmtSpan b)
{
  gsize n = MIN (a.len, b.len);
  int difference = n > 0 ? memcmp (a.data, b.data, n) : 0;
  return difference != 0 ? difference : (a.len > b.len) - (a.len < b.len);
}

static int
compare_placements (gconstpointer a, gconstpointer b, gpointer data)
{
  const EventsPlacement *x = a, *y = b;
  int difference = compare_spans (x->instance, y->instance);
  if (difference == 0)
    difference = (int)x->tier - (int)y->tier;
  return difference != 0 ? difference : compare_spans (x->backend, y->backend);
}

static void
write_result (const EventsKeyView *view, gpointer data)
{
  Results *results = data;
  GString *out = results->out;
  g_autofree EventsPlacement *sorted = NULL;

  g_string_append (out, results->n++ > 0 ? ",{\"key\":" : "{\"key\":");
  if (results->as_sent != NULL)
    coord_text_key (out, results->as_sent, TRUE);
  else
    coord_text_key (out, &view->key, FALSE);
  g_string_append (out, ",\"placements\":[");
  if (view->n_placements > 0)
    {
      sorted = g_memdup2 (view->placements, sizeof *sorted * view->n_placements);
      g_qsort_with_data (sorted, (gint)view->n_placements, sizeof *sorted, compare_placements, NULL);
    }
  for (guint i = 0; i < view->n_placements; i++)
    {
      if (i > 0)
        g_string_append_c (out, ',');
      write_placement (out, &sorted[i]);
    }
  g_string_append (out, "],\"token_ids\":[");
  for (guint i = 0; i < view->n_tokens; i++)
    {
      if (i > 0)
        g_string_append_c (out, ',');
      coord_text_int (out, view->tokens[i]);
    }
  g_string_append (out, "],\"access_count\":");
  coord_text_int (out, (gint64)view->access_count);
  g_string_append_c (out, '}');
}

typedef struct
{
  LmtSpan keys, token_ids, model, salt;
  gint64 world_size;
  guint32 seen_keys, seen_tokens, seen_world;
} Lookup;

#define AT(member) G_STRUCT_OFFSET (Lookup, member)
static const EventsField lookup_fields[] = {
  { .name = "keys", .want = EVENTS_WANT_RAW, .offset = AT (keys), .seen_offset = AT (seen_keys) },
  { .name = "token_ids", .want = EVENTS_WANT_RAW, .offset = AT (token_ids), .seen_offset = AT (seen_tokens) },
  { .name = "model_name", .want = EVENTS_WANT_STRING, .offset = AT (model), .seen_offset = G_MAXUINT32 },
  { .name = "world_size",
    .want = EVENTS_WANT_INT,
    .has_min = 1,
    .min = 1,
    .offset = AT (world_size),
    .seen_offset = AT (seen_world) },
  { .name = "cache_salt", .want = EVENTS_WANT_STRING, .offset = AT (salt), .seen_offset = G_MAXUINT32 },
};
#undef AT

static void
body_problem (Coord *coord, CoordRequest *request, EventsProblems *problems, const char *msg)
{
  g_autofree char *input = request->body_len <= 1024 ? g_strndup (request->body, request->body_len) : NULL;
  coord_problem (problems, "value_error", "[\"body\"]", input != NULL ? input : "null", "{\"error\":{}}", "Value error, %s", msg);
}

static void
lookup_chunks (Coord *coord, CoordRequest *request, const Lookup *body, const gint64 *ids, guint32 n_ids)
{
  CoordChunks chunks;
  Results results = { request->out, 0, NULL };

  if (!coord_chunks_resolve (coord, request, ids, n_ids, body->model, body->salt, body->world_size, &chunks))
    return;
  g_string_append_printf (request->out, "{\"chunks\":%u,\"results\":[", chunks.chunks);
  for (guint32 chunk = 0; chunk < chunks.chunks; chunk++)
    for (guint32 rank = 0; rank < chunks.world_size; rank++)
      {
        EventsKey key;
        coord_chunks_key (&chunks, chunk, rank, &key);
        events_views_lookup (coord->views, &key, write_result, &results);
        events_views_lookup_groups (coord->views, &key, 0, write_result, &results);
      }
  g_string_append (request->out, "]}");
  coord_reply (request, 200);
}

void
coord_api_lookup (Coord *coord, CoordRequest *request)
{
  Lookup body = { .world_size = 1 };
  EventsProblems problems;
  EventsKey *keys = NULL;
  gint64 *ids = NULL;
  guint32 n_keys = 0, n_ids = 0;
  EventsLimits limits = coord->limits;
  Results results = { request->out, 0, NULL };

  limits.max_tokens = 0; /* the answer to too many is 400, and the body's size bounds them */
  if (!coord_body_fields (coord, request, lookup_fields, G_N_ELEMENTS (lookup_fields), &body, &problems))
    return;
  if (body.seen_keys != 0)
    events_keys_from_raw (body.keys, "keys", &limits, coord->arena, &keys, &n_keys, &problems);
  if (body.seen_tokens != 0)
    events_ints_from_raw (body.token_ids, "token_ids", &limits, coord->arena, &ids, &n_ids, &problems);
  if (problems.total == 0)
    {
      if ((n_keys > 0) == (n_ids > 0))
        body_problem (coord, request, &problems, "supply exactly one of 'keys' or 'token_ids'");
      else if (n_ids > 0 && body.model.len == 0)
        body_problem (coord, request, &problems, "'model_name' is required with 'token_ids'");
    }
  if (problems.total > 0)
    {
      coord_reply_problems (request, &problems);
      return;
    }
  events_problems_clear (&problems);
  if (n_keys == 0)
    {
      lookup_chunks (coord, request, &body, ids, n_ids);
      return;
    }
  g_string_append_printf (request->out, "{\"chunks\":%u,\"results\":[", n_keys);
  for (guint32 i = 0; i < n_keys; i++)
    {
      results.as_sent = &keys[i];
      events_views_lookup (coord->views, &keys[i], write_result, &results);
    }
  g_string_append (request->out, "]}");
  coord_reply (request, 200);
}

/* -------- blend -------- */

typedef struct
{
  LmtSpan tokens, model, salt;
  gint64 world_size;
} Blend;

#define AT(member) G_STRUCT_OFFSET (Blend, member)
static const EventsField blend_fields[] = {
  { .name = "tokens_b64", .want = EVENTS_WANT_STRING, .offset = AT (tokens), .seen_offset = G_MAXUINT32 },
  { .name = "model_name", .want = EVENTS_WANT_STRING, .offset = AT (model), .seen_offset = G_MAXUINT32 },
  { .name = "world_size",
    .want = EVENTS_WANT_INT,
    .has_min = 1,
    .min = 1,
    .offset = AT (world_size),
    .seen_offset = G_MAXUINT32 },
  { .name = "cache_salt", .want = EVENTS_WANT_STRING, .offset = AT (salt), .seen_offset = G_MAXUINT32 },
};
#undef AT

/* Strict base64: only the alphabet, padded. NULL: @why. */
static guint8 *
base64_decode (LmtSpan text, gsize *len, const char **why)
{
  static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  gsize n = text.len;
  guint8 *bytes;
  gint state = 0;
  guint save = 0;

  while (n > 0 && text.len - n < 2 && text.data[n - 1] == '=')
    n--;
  for (gsize i = 0; i < n; i++)
    if (text.data[i] == '\0' || strchr (alphabet, text.data[i]) == NULL)
      {
        *why = "Only base64 data is allowed";
        return NULL;
      }
  if (text.len % 4 != 0)
    {
      *why = "Incorrect padding";
      return NULL;
    }
  bytes = g_malloc (text.len / 4 * 3 + 4);
  *len = g_base64_decode_step ((const char *)text.data, text.len, bytes, &state, &save);
  return bytes;
}

static void
token_problem (EventsProblems *problems, LmtSpan text, const char *msg)
{
  g_autoptr (GString) input = g_string_new (NULL);
  text.len = MIN (text.len, 512);
  coord_text_string (input, text);
  coord_problem (problems, "value_error", "[\"body\",\"tokens_b64\"]", input->str, "{\"error\":{}}", "Value error, %s", msg);
}

static void
write_match (LmtSpan hash, gint64 old_start, gint64 start, gpointer data)
{
  Results *results = data;
  g_string_append (results->out, results->n++ > 0 ? ",{\"chunk_hash\":" : "{\"chunk_hash\":");
  coord_text_hex (results->out, hash);
  g_string_append_printf (results->out, ",\"old_st\":%" G_GINT64_FORMAT ",\"cur_st\":%" G_GINT64_FORMAT "}", old_start, start);
}

void
coord_api_blend (Coord *coord, CoordRequest *request)
{
  Blend body = { .world_size = 1 };
  EventsProblems problems;
  const char *why = NULL;
  gsize len = 0;
  g_autofree guint8 *bytes = NULL;
  Results results = { request->out, 0, NULL };

  if (!coord_body_fields (coord, request, blend_fields, G_N_ELEMENTS (blend_fields), &body, &problems))
    return;
  if (body.tokens.len > 0)
    {
      g_autofree char *msg = NULL;
      bytes = base64_decode (body.tokens, &len, &why);
      if (bytes == NULL)
        msg = g_strdup_printf ("tokens_b64 is not valid base64: %s", why);
      else if (len % 4 != 0)
        msg = g_strdup_printf (
            "tokens_b64 byte length %" G_GSIZE_FORMAT " is not a multiple of 4 (malformed uint32 token buffer)", len);
      if (msg != NULL)
        token_problem (&problems, body.tokens, msg);
      else if (body.model.len == 0)
        body_problem (coord, request, &problems, "'model_name' is required with 'tokens_b64'");
    }
  if (problems.total > 0)
    {
      coord_reply_problems (request, &problems);
      return;
    }
  events_problems_clear (&problems);
  g_string_append (request->out, "{\"matches\":[");
  if (bytes != NULL && len > 0 && coord->config->enable_blend_lookup)
    {
      guint32 *tokens = events_arena_alloc (coord->arena, len);
      if (tokens == NULL)
        {
          coord_reply_detail (request, 413, "the request needs more memory than one may have");
          return;
        }
      memcpy (tokens, bytes, len);
      for (gsize i = 0; i < len / 4; i++)
        tokens[i] = GUINT32_FROM_LE (tokens[i]);
      events_views_blend (coord->views, tokens, (guint32)(len / 4), body.model, body.salt, body.world_size, write_match,
                          &results);
    }
  g_string_append (request->out, "]}");
  coord_reply (request, 200);
}

/* -------- listing: in slices, so that ingest waits for none of them -------- */

typedef struct
{
  Coord *coord;
  CoordRequest *request;
  EventsKeyFilter filter;
  char *instance, *backend; /* the filter's texts */
  guint64 at;               /* where the walk is */
  guint64 seen;             /* keys that match so far */
  guint64 offset, limit;
  guint64 shown;
  GString *keys;
  guint idle;
} Listing;

static void
listing_free (gpointer data)
{
  Listing *listing = data;
  if (listing->idle != 0)
    g_source_remove (listing->idle);
  g_free (listing->instance);
  g_free (listing->backend);
  g_string_free (listing->keys, TRUE);
  g_free (listing);
}

static void
list_key (const EventsKeyView *view, gpointer data)
{
  Listing *listing = data;
  GString *out = listing->keys;

  if (listing->seen++ < listing->offset || listing->shown >= listing->limit)
    return;
  g_string_append (out, listing->shown++ > 0 ? ",{\"key\":" : "{\"key\":");
  coord_text_key (out, &view->key, FALSE);
  g_string_append (out, ",\"placements\":[");
  for (guint i = 0; i < view->n_placements; i++)
    {
      if (i > 0)
        g_string_append_c (out, ',');
      write_placement (out, &view->placements[i]);
    }
  g_string_append_printf (out, "],\"num_tokens\":%u,\"access_count\":%" G_GUINT64_FORMAT "}", view->n_tokens, view->access_count);
}

/* TRUE: the reply is complete. */
static gboolean
listing_step (Listing *listing)
{
  const EventsKeyFilter *filter = &listing->filter;
  gboolean all = !filter->has_tier && filter->instance.data == NULL && filter->backend.data == NULL;
  EventsStats stats;

  events_views_keys (listing->coord->views, filter, &listing->at, LOOK_AT_KEYS, list_key, listing);
  if (listing->at != G_MAXUINT64 && !(all && listing->shown >= listing->limit))
    return FALSE;
  events_views_stats (listing->coord->views, &stats);
  g_string_append_printf (listing->request->out, "{\"total\":%" G_GUINT64_FORMAT ",\"keys\":[",
                          all ? stats.num_keys : listing->seen);
  g_string_append_len (listing->request->out, listing->keys->str, (gssize)listing->keys->len);
  g_string_append (listing->request->out, "]}");
  coord_reply (listing->request, 200);
  return TRUE;
}

static gboolean
listing_go_on (gpointer data)
{
  Listing *listing = data;
  CoordRequest *request = listing->request;
  Coord *coord = listing->coord;

  if (!listing_step (listing))
    return G_SOURCE_CONTINUE;
  listing->idle = 0;
  listing_free (listing);
  coord_request_finish (coord, request);
  return G_SOURCE_REMOVE;
}

static void
keep_span (LmtSpan span, char **copy, LmtSpan *filter)
{
  if (span.data == NULL)
    return;
  *copy = g_memdup2 (span.data, span.len);
  filter->data = (const guint8 *)*copy;
  filter->len = span.len;
}

void
coord_api_keys (Coord *coord, CoordRequest *request)
{
  EventsProblems problems;
  const char *tier;
  gint64 offset, limit;
  Listing *listing;

  events_problems_init (&problems, 16);
  tier = coord_query_tier (request, "all", &problems);
  offset = coord_query_int (request, "offset", 0, 0, G_MAXINT64, &problems);
  limit = coord_query_int (request, "limit", 1000, 1, MAX_LIMIT, &problems);
  if (problems.total > 0)
    {
      coord_reply_problems (request, &problems);
      return;
    }
  events_problems_clear (&problems);
  listing = g_new0 (Listing, 1);
  listing->coord = coord;
  listing->request = request;
  listing->offset = (guint64)offset;
  listing->limit = (guint64)limit;
  listing->keys = g_string_new (NULL);
  listing->filter.has_tier = strcmp (tier, "all") != 0;
  listing->filter.tier = strcmp (tier, "l2") == 0 ? EVENTS_L2 : EVENTS_L1;
  keep_span (coord_query_span (request, "instance_id"), &listing->instance, &listing->filter.instance);
  keep_span (coord_query_span (request, "backend"), &listing->backend, &listing->filter.backend);
  if (listing_step (listing))
    {
      listing_free (listing);
      return;
    }
  request->deferred = 1;
  request->job = listing;
  request->cancel = listing_free;
  listing->idle = g_idle_add_full (G_PRIORITY_DEFAULT, listing_go_on, listing, NULL);
}

/* -------- stats -------- */

static void
write_l1_keys (LmtSpan instance, guint64 keys, gpointer data)
{
  Results *results = data;
  if (results->n++ > 0)
    g_string_append_c (results->out, ',');
  coord_text_string (results->out, instance);
  g_string_append_c (results->out, ':');
  coord_text_int (results->out, (gint64)keys);
}

void
coord_api_stats (Coord *coord, CoordRequest *request)
{
  GString *out = request->out;
  EventsStats stats;
  Results results = { out, 0, NULL };

  events_views_stats (coord->views, &stats);
  g_string_append_printf (
      out, "{\"num_keys\":%" G_GUINT64_FORMAT ",\"num_placements\":%" G_GUINT64_FORMAT ",\"l1_keys_by_instance\":{",
      stats.num_keys, stats.num_placements);
  events_views_l1_keys (coord->views, write_l1_keys, &results);
  g_string_append_printf (out,
                          "},\"blend\":{\"num_contents\":%" G_GUINT64_FORMAT ",\"num_chunks\":%" G_GUINT64_FORMAT
                          ",\"num_claims\":%" G_GUINT64_FORMAT ",\"num_namespaces\":%" G_GUINT64_FORMAT
                          ",\"table_size\":%" G_GUINT64_FORMAT "}",
                          stats.num_contents, stats.num_chunks, stats.num_claims, stats.num_namespaces, stats.table_size);
  for (guint tier = 0; tier < EVENTS_N_TIERS; tier++)
    g_string_append_printf (out, ",\"%s_count\":%" G_GUINT64_FORMAT ",\"%s_size_bytes\":%" G_GINT64_FORMAT,
                            events_tier_words[tier], stats.count[tier], events_tier_words[tier], stats.bytes[tier]);
  g_string_append_c (out, '}');
  coord_reply (request, 200);
}
