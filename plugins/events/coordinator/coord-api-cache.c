// SPDX-License-Identifier: Apache-2.0
/* Endpoints that are a call to one server: prefetch, its status, deletion. The reply waits for the server's. */
#include "coord.h"

typedef enum
{
  FORWARD_PREFETCH,
  FORWARD_STATUS,
  FORWARD_DELETE,
} ForwardKind;

typedef struct
{
  Coord *coord;
  CoordRequest *request; /* NULL: nobody waits any more */
  GCancellable *cancel;
  ForwardKind kind;
  GBytes *id;
  guint32 chunks;
  guint64 pin_skipped;
  GBytes *hashes, *model, *salt;
  guint32 world_size;
} Forward;

static void
forward_free (Forward *forward)
{
  g_object_unref (forward->cancel);
  g_bytes_unref (forward->id);
  g_clear_pointer (&forward->hashes, g_bytes_unref);
  g_clear_pointer (&forward->model, g_bytes_unref);
  g_clear_pointer (&forward->salt, g_bytes_unref);
  g_free (forward);
}

/* The asker left: the call is given up, its end frees the rest. */
static void
forward_cancel (gpointer data)
{
  Forward *forward = data;
  forward->request = NULL;
  g_cancellable_cancel (forward->cancel);
}

static Forward *
forward_new (Coord *coord, CoordRequest *request, ForwardKind kind, LmtSpan id)
{
  Forward *forward = g_new0 (Forward, 1);
  forward->coord = coord;
  forward->request = request;
  forward->kind = kind;
  forward->id = g_bytes_new (id.data, id.len);
  forward->cancel = g_cancellable_new ();
  request->deferred = 1;
  request->job = forward;
  request->cancel = forward_cancel;
  return forward;
}

static const CoordInstance *
find_server (Coord *coord, CoordRequest *request, LmtSpan id)
{
  const CoordInstance *instance = coord_instances_get (coord, id);
  g_autoptr (GString) shown = NULL;

  if (instance != NULL)
    return instance;
  shown = g_string_new (NULL);
  coord_text_repr (shown, id);
  coord_reply_detail (request, 404, "no MP server registered with instance_id=%s", shown->str);
  return NULL;
}

static void
reply_failure (Forward *forward, const char *what, const char *error)
{
  g_autoptr (GString) shown = g_string_new (NULL);
  g_autofree char *valid = g_utf8_make_valid (error, -1);
  coord_text_repr (shown, coord_span_of_bytes (forward->id));
  coord_reply_detail (forward->request, 502, "%s %s failed: %s", what, shown->str, valid);
}

/* -------- what a server answered -------- */

static gint64
member_int (const LmtJson *object, const char *name)
{
  const LmtJson *value = lmt_json_get_member (object, name);
  return value != NULL && lmt_json_get_type (value) == LMT_JSON_INT ? lmt_json_get_int (value) : 0;
}

static void
write_member_string (GString *out, const LmtJson *object, const char *name, const char *absent)
{
  const LmtJson *value = lmt_json_get_member (object, name);
  LmtSpan text = coord_span_of_text (absent);
  if (value != NULL && lmt_json_get_type (value) == LMT_JSON_STRING)
    {
      text.data = (const guint8 *)lmt_json_get_string (value);
      text.len = lmt_json_get_string_len (value);
    }
  coord_text_string (out, text);
}

static void
reply_prefetch (Forward *forward, const LmtJson *reply)
{
  GString *out = forward->request->out;

  g_string_append (out, "{\"instance_id\":");
  coord_text_string (out, coord_span_of_bytes (forward->id));
  g_string_append (out, ",\"request_id\":");
  write_member_string (out, reply, "request_id", "");
  g_string_append_printf (out, ",\"chunks\":%" G_GINT64_FORMAT ",\"status\":", member_int (reply, "chunks"));
  write_member_string (out, reply, "status", "submitted");
  g_string_append_c (out, '}');
  coord_reply (forward->request, 200);
}

static void
reply_delete (Forward *forward, gint64 deleted, gint64 skipped)
{
  GString *out = forward->request->out;

  g_string_append (out, "{\"instance_id\":");
  coord_text_string (out, coord_span_of_bytes (forward->id));
  g_string_append_printf (
      out, ",\"requested\":%u,\"affected\":%" G_GINT64_FORMAT ",\"skipped\":%" G_GINT64_FORMAT ",\"status\":\"deleted\"}",
      forward->chunks, deleted, MIN (skipped, G_MAXINT64 - (gint64)forward->pin_skipped) + (gint64)forward->pin_skipped);
  coord_reply (forward->request, 200);
}

/* Bytes without content have no address. */
static const char *
text_of (GBytes *body)
{
  const char *text = g_bytes_get_data (body, NULL);
  return text != NULL ? text : "";
}

static void
reply_status (Forward *forward, guint status, GBytes *body, const LmtJson *reply)
{
  GString *out = forward->request->out;

  if (reply != NULL)
    {
      g_autofree char *text = lmt_json_to_text (reply, LMT_JSON_STYLE_COMPACT, FALSE);
      g_string_append (out, text);
    }
  else
    {
      g_autofree char *text = g_utf8_make_valid (text_of (body), (gssize)g_bytes_get_size (body));
      g_string_append (out, "{\"detail\":");
      coord_text_cstring (out, text);
      g_string_append_c (out, '}');
    }
  coord_reply (forward->request, status);
}

static void
add_pin_count (const EventsKeyView *view, gpointer data)
{
  *(guint64 *)data = view->pin_count;
}

static guint64
pin_count (Coord *coord, const EventsKey *key)
{
  guint64 count = 0;
  events_views_lookup (coord->views, key, add_pin_count, &count);
  return count;
}

static void
drop_pins (Forward *forward)
{
  Coord *coord = forward->coord;
  CoordChunks chunks = { .hashes = (guint8 *)g_bytes_get_data (forward->hashes, NULL),
                         .chunks = forward->chunks,
                         .world_size = forward->world_size,
                         .model = coord_span_of_bytes (forward->model),
                         .salt = coord_span_of_bytes (forward->salt) };

  for (guint32 chunk = 0; chunk < chunks.chunks; chunk++)
    for (guint32 rank = 0; rank < chunks.world_size; rank++)
      {
        EventsKey key;
        coord_chunks_key (&chunks, chunk, rank, &key);
        for (guint64 n = pin_count (coord, &key); n > 0; n--)
          events_views_pin (coord->views, &key, -1);
      }
  coord_state_save_metadata (coord);
}

static void
on_answer (guint status, GBytes *body, const char *error, gpointer data)
{
  static const char *const what[] = { "prefetch submit to", "prefetch status from", "delete to" };
  Forward *forward = data;
  Coord *coord = forward->coord;
  CoordRequest *request = forward->request;
  g_autoptr (LmtJson) reply = NULL;
  g_autofree char *words = NULL;

  if (status != 0)
    reply = lmt_json_parse (text_of (body), (gssize)g_bytes_get_size (body), NULL);
  if (status == 0)
    words = g_strdup (error);
  else if (forward->kind != FORWARD_STATUS && (status < 200 || status > 299))
    words = g_strdup_printf ("the server answered %u", status);
  else if (forward->kind != FORWARD_STATUS && (reply == NULL || lmt_json_get_type (reply) != LMT_JSON_OBJECT))
    words = g_strdup ("the server's answer is no JSON object");
  if (words == NULL && forward->kind == FORWARD_DELETE && forward->hashes != NULL)
    drop_pins (forward);
  if (request != NULL)
    {
      if (words != NULL)
        reply_failure (forward, what[forward->kind], words);
      else if (forward->kind == FORWARD_PREFETCH)
        reply_prefetch (forward, reply);
      else if (forward->kind == FORWARD_DELETE)
        reply_delete (forward, member_int (reply, "deleted"), member_int (reply, "skipped"));
      else
        reply_status (forward, status, body, reply);
    }
  forward_free (forward);
  if (request != NULL)
    coord_request_finish (coord, request);
}

/* -------- requests -------- */

typedef struct
{
  LmtSpan id, model, token_ids, salt, tier;
  gint64 world_size;
  gboolean force;
  guint32 seen_tokens, seen_tier;
} CacheBody;

#define AT(member) G_STRUCT_OFFSET (CacheBody, member)
/* A prefetch has all but the last two. */
static const EventsField cache_fields[] = {
  { .name = "instance_id", .want = EVENTS_WANT_STRING, .required = 1, .offset = AT (id), .seen_offset = G_MAXUINT32 },
  { .name = "model_name", .want = EVENTS_WANT_STRING, .required = 1, .offset = AT (model), .seen_offset = G_MAXUINT32 },
  { .name = "world_size",
    .want = EVENTS_WANT_INT,
    .required = 1,
    .has_min = 1,
    .min = 1,
    .offset = AT (world_size),
    .seen_offset = G_MAXUINT32 },
  { .name = "token_ids", .want = EVENTS_WANT_RAW, .offset = AT (token_ids), .seen_offset = AT (seen_tokens) },
  { .name = "cache_salt", .want = EVENTS_WANT_STRING, .offset = AT (salt), .seen_offset = G_MAXUINT32 },
  { .name = "tier", .want = EVENTS_WANT_RAW, .offset = AT (tier), .seen_offset = AT (seen_tier) },
  { .name = "force", .want = EVENTS_WANT_BOOL, .offset = AT (force), .seen_offset = G_MAXUINT32 },
};
#undef AT

/* FALSE: answered already. */
static gboolean
read_body (Coord *coord, CoordRequest *request, guint n_fields, CacheBody *body, const char **tier, gint64 **ids, guint32 *n_ids)
{
  EventsProblems problems;
  EventsLimits limits = coord->limits;

  limits.max_tokens = 0;
  if (!coord_body_fields (coord, request, cache_fields, n_fields, body, &problems))
    return FALSE;
  if (body->seen_tokens != 0)
    events_ints_from_raw (body->token_ids, "token_ids", &limits, coord->arena, ids, n_ids, &problems);
  if (body->seen_tier != 0)
    coord_take_tier (coord, body->tier, "[\"body\",\"tier\"]", &problems, tier);
  if (problems.total > 0)
    {
      coord_reply_problems (request, &problems);
      return FALSE;
    }
  events_problems_clear (&problems);
  return TRUE;
}

void
coord_api_prefetch_post (Coord *coord, CoordRequest *request)
{
  CacheBody body = { .world_size = 1 };
  const char *tier = NULL;
  gint64 *ids = NULL;
  guint32 n_ids = 0;
  const CoordInstance *server;
  GString *out;

  if (!read_body (coord, request, 5, &body, &tier, &ids, &n_ids))
    return;
  server = find_server (coord, request, body.id);
  if (server == NULL)
    return;
  out = g_string_new ("{\"model_name\":");
  coord_text_string (out, body.model);
  g_string_append_printf (out, ",\"world_size\":%" G_GINT64_FORMAT ",\"token_ids\":[", body.world_size);
  for (guint32 i = 0; i < n_ids; i++)
    {
      if (i > 0)
        g_string_append_c (out, ',');
      coord_text_int (out, ids[i]);
    }
  g_string_append (out, "],\"cache_salt\":");
  coord_text_string (out, body.salt);
  g_string_append_c (out, '}');
  Forward *forward = forward_new (coord, request, FORWARD_PREFETCH, body.id);
  coord_client_send (coord->client, "POST", server, "/cache/prefetches", out, forward->cancel, on_answer, forward);
}

void
coord_api_prefetch_get (Coord *coord, CoordRequest *request)
{
  const CoordInstance *server = find_server (coord, request, request->params[0]);
  g_autofree char *id = NULL;
  g_autofree char *path = NULL;

  if (server == NULL)
    return;
  id = g_uri_escape_bytes (request->params[1].data, request->params[1].len, NULL);
  path = g_strconcat ("/cache/prefetches/", id, NULL);
  Forward *forward = forward_new (coord, request, FORWARD_STATUS, request->params[0]);
  coord_client_send (coord->client, "GET", server, path, NULL, forward->cancel, on_answer, forward);
}

/* -------- deletion -------- */

typedef struct
{
  Coord *coord;
  GString *out;
  guint64 n;
} KeyList;

static void
write_key (const EventsKeyView *view, gpointer data)
{
  KeyList *list = data;
  if (list->n++ > 0)
    g_string_append_c (list->out, ',');
  coord_text_key (list->out, &view->key, FALSE);
}

static void
count_key (const EventsKeyView *view, gpointer data)
{
  (*(guint64 *)data)++;
}

/* All keys of the chunks, those of further object groups too, but for pinned chunks if @keep_pinned. Returns: keys kept back */
static guint64
list_keys (Coord *coord, const CoordChunks *chunks, gboolean keep_pinned, KeyList *list)
{
  guint64 skipped = 0;

  for (guint32 chunk = 0; chunk < chunks->chunks; chunk++)
    for (guint32 rank = 0; rank < chunks->world_size; rank++)
      {
        EventsKey key;
        coord_chunks_key (chunks, chunk, rank, &key);
        if (keep_pinned && pin_count (coord, &key) > 0)
          {
            skipped++;
            events_views_lookup_groups (coord->views, &key, 0, count_key, &skipped);
            continue;
          }
        events_views_lookup (coord->views, &key, write_key, list);
        events_views_lookup_groups (coord->views, &key, 0, write_key, list);
      }
  return skipped;
}

static void
send_delete (Coord *coord, CoordRequest *request, const CacheBody *body, const char *tier, const CoordChunks *chunks,
             const CoordInstance *server)
{
  gboolean touches_l2 = strcmp (tier, "l1") != 0;
  KeyList list = { coord, g_string_new ("{\"keys\":["), 0 };
  Forward *forward = forward_new (coord, request, FORWARD_DELETE, body->id);

  forward->chunks = chunks->chunks;
  forward->pin_skipped = list_keys (coord, chunks, touches_l2 && !body->force, &list);
  if (touches_l2 && body->force)
    {
      forward->hashes = g_bytes_new (chunks->hashes, (gsize)chunks->chunks * 32);
      forward->model = g_bytes_new (chunks->model.data, chunks->model.len);
      forward->salt = g_bytes_new (chunks->salt.data, chunks->salt.len);
      forward->world_size = chunks->world_size;
    }
  if (list.n > 0)
    {
      g_string_append_printf (list.out, "],\"tier\":\"%s\",\"force\":%s}", tier, body->force ? "true" : "false");
      coord_client_send (coord->client, "DELETE", server, "/cache/objects", list.out, forward->cancel, on_answer, forward);
      return;
    }
  g_string_free (list.out, TRUE);
  reply_delete (forward, 0, 0);
  request->deferred = 0;
  request->job = NULL;
  forward_free (forward);
}

void
coord_api_cache_delete (Coord *coord, CoordRequest *request)
{
  CacheBody body = { .world_size = 1 };
  const char *tier = "all";
  gint64 *ids = NULL;
  guint32 n_ids = 0;
  const CoordInstance *server;
  CoordChunks chunks;

  if (!read_body (coord, request, G_N_ELEMENTS (cache_fields), &body, &tier, &ids, &n_ids))
    return;
  server = find_server (coord, request, body.id);
  if (server == NULL || !coord_chunks_resolve (coord, request, ids, n_ids, body.model, body.salt, body.world_size, &chunks))
    return;
  if (chunks.chunks > 0)
    {
      send_delete (coord, request, &body, tier, &chunks, server);
      return;
    }
  g_string_append (request->out, "{\"instance_id\":");
  coord_text_string (request->out, body.id);
  g_string_append (request->out, ",\"requested\":0,\"affected\":0,\"skipped\":0,\"status\":\"noop\"}");
  coord_reply (request, 200);
}
