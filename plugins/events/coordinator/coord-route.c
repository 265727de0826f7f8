// SPDX-License-Identifier: Apache-2.0
/* Path and method -> handler. The table's order is the reference's: the first row whose path and method fit answers; if only
 * paths fit, the first of them names the method in `allow`. That a salt called "config" is out of reach follows from it, too. */
#include "coord.h"

enum
{
  MAX_SEGMENTS = 8,
};

const CoordRoute coord_routes[] = {
  { "POST", "/cache/prefetches", coord_api_prefetch_post, 0, "Have a server load what a token sequence needs", "PrefetchRequest",
    "PrefetchResponse", NULL, "200 404 422 502" },
  { "GET", "/cache/prefetches/{instance_id}/{request_id}", coord_api_prefetch_get, 0, "Ask a server how a prefetch goes", NULL,
    "Any", NULL, "200 404 502" },
  { "POST", "/cache/delete", coord_api_cache_delete, 0, "Have a server delete what a token sequence made", "DeleteRequest",
    "DeleteResponse", NULL, "200 400 404 422 502" },
  { "PUT", "/config/chunk-size", coord_api_chunk_size, COORD_ROUTE_057, "Bind the fleet's chunk size", "ChunkSizeRequest",
    "ChunkSizeResponse", NULL, "200 409 422" },
  { "POST", "/directory/lookup", coord_api_lookup, 0, "Find where keys, or the chunks of a token sequence, are placed",
    "LookupRequest", "LookupResponse", NULL, "200 400 422" },
  { "POST", "/directory/blend-lookup", coord_api_blend, 0, "Find stored chunks anywhere in a token sequence", "BlendRequest",
    "BlendResponse", NULL, "200 422" },
  { "GET", "/directory/keys", coord_api_keys, 0, "List keys and placements by pages", NULL, "KeyList",
    "tier:Tier instance_id:string backend:string offset:integer limit:integer", "200 422" },
  { "GET", "/directory/stats", coord_api_stats, 0, "Count keys and placements", NULL, "DirectoryStats", NULL, "200" },
  { "POST", "/events", coord_api_events, 0, "Take batches of cache events", "EventsRequest", "EventsResponse", NULL,
    "200 400 404 413 422 507" },
  { "GET", "/healthz", coord_api_healthz, 0, "Say that the coordinator is alive", NULL, "Health", NULL, "200" },
  { "POST", "/instances", coord_api_instances_post, 0, "Register a server", "RegisterRequest", "RegisterResponse", NULL,
    "200 409 422 507" },
  { "PUT", "/instances/{instance_id}/heartbeat", coord_api_heartbeat, 0, "Say that a server is alive", NULL, "Heartbeat", NULL,
    "200 404" },
  { "DELETE", "/instances/{instance_id}", coord_api_instances_delete, 0, "Deregister a server and void its L1", NULL, NULL, NULL,
    "204" },
  { "GET", "/instances", coord_api_instances_get, 0, "List registered servers", NULL, "InstanceList", NULL, "200" },
  { "GET", "/instances/usage", coord_api_usage_all, 0, "Bytes and capacity of all servers", NULL, "FleetUsage", NULL, "200" },
  { "GET", "/instances/{instance_id}/usage", coord_api_usage_one, 0, "Bytes and capacity of one server", NULL, "InstanceUsage",
    NULL, "200 404" },
  { "GET", "/metrics", coord_api_metrics, COORD_ROUTE_METRICS, "Figures in the Prometheus text form", NULL, NULL, NULL, "200" },
  { "PUT", "/quota/config", coord_api_quota_config_put, 0, "Set the limit of salts without a quota", "QuotaConfig", "QuotaConfig",
    NULL, "200 400 422" },
  { "GET", "/quota/config", coord_api_quota_config_get, 0, "Show the limit of salts without a quota", NULL, "QuotaConfig",
    "tier:Tier", "200 400 422" },
  { "PUT", "/quota/{cache_salt}", coord_api_quota_put, 0, "Set a quota", "QuotaRequest", "QuotaResponse", NULL, "200 400 422" },
  { "DELETE", "/quota/{cache_salt}", coord_api_quota_delete, 0, "Remove a quota", NULL, "QuotaResponse", "tier:Tier",
    "200 400 422" },
  { "GET", "/quota/{cache_salt}", coord_api_quota_get, 0, "Quota and usage of a salt", NULL, "QuotaRow", "tier:Tier",
    "200 400 422" },
  { "GET", "/quota", coord_api_quota_list, 0, "Quotas and usage of all salts", NULL, "QuotaList", "tier:Tier", "200 400 422" },
  { "POST", "/cache/pins", coord_api_pins_post, 0, "Keep a token sequence from eviction", "PinRequest", "PinResponse", NULL,
    "200 400 422" },
  { "DELETE", "/cache/pins", coord_api_pins_delete, 0, "Let go of a pinned token sequence", "PinRequest", "PinResponse", NULL,
    "200 400 422" },
  { "GET", "/cache/pins", coord_api_pins_get, 0, "List pins by pages", NULL, "PinList",
    "cache_salt:string model_name:string offset:integer limit:integer", "200 422" },
  { "GET", "/openapi.json", coord_api_openapi, 0, "This document", NULL, "Any", NULL, "200" },
  { "GET", "/docs", coord_api_docs, 0, "The same for people", NULL, NULL, NULL, "200" },
  { "GET", "/redoc", coord_api_docs, 0, "The same for people", NULL, NULL, NULL, "200" },
  { "GET", "/lmtrace/streams", coord_api_streams, 0, "How far the stream of each server has come", NULL, "StreamList", NULL,
    "200" },
  { "POST", "/lmtrace/checkpoint", coord_api_checkpoint, 0, "Write the checkpoint now", NULL, "CheckpointResponse", NULL,
    "200 404 500" },
  { "POST", "/lmtrace/reset", coord_api_reset, 0, "Forget streams, views and registered servers", NULL, "ResetResponse", NULL,
    "200" },
  { "GET", "/lmtrace/dump", coord_api_dump, 0, "Every view in canonical order", NULL, "Any", NULL, "200" },
  { NULL, NULL, NULL, 0, NULL, NULL, NULL, NULL, NULL },
};

gboolean
coord_route_is_open (const Coord *coord, const CoordRoute *route)
{
  if ((route->flags & COORD_ROUTE_057) != 0 && coord->compat == EVENTS_COMPAT_056)
    return FALSE;
  return (route->flags & COORD_ROUTE_METRICS) == 0 || !coord->config->disable_metrics;
}

/* -------- the path, decoded first and split then: an encoded slash parts like any other -------- */

typedef struct
{
  LmtSpan segments[MAX_SEGMENTS];
  guint n; /* MAX_SEGMENTS + 1: too many */
} Path;

static void
path_split (LmtSpan text, Path *path)
{
  gsize from = 1;

  path->n = 0;
  for (gsize i = 1; i <= text.len; i++)
    if (i == text.len || text.data[i] == '/')
      {
        if (path->n == MAX_SEGMENTS)
          {
            path->n = MAX_SEGMENTS + 1;
            return;
          }
        path->segments[path->n].data = text.data + from;
        path->segments[path->n++].len = i - from;
        from = i + 1;
      }
}

static gboolean
path_fits (const CoordRoute *route, const Path *path, LmtSpan params[2])
{
  const char *form = route->path;
  guint n_params = 0;

  for (guint i = 0; i < path->n; i++)
    {
      gsize len;
      if (*form != '/')
        return FALSE;
      form++;
      len = strcspn (form, "/");
      if (*form == '{')
        {
          if (path->segments[i].len == 0)
            return FALSE;
          params[n_params++] = path->segments[i];
        }
      else if (!lmt_span_equal_str (path->segments[i], form, len))
        return FALSE;
      form += len;
    }
  return *form == '\0';
}

/* The row that answers, or the first one whose path alone fits. */
static const CoordRoute *
find (Coord *coord, const char *method, const Path *path, LmtSpan params[2], gboolean *answers)
{
  const CoordRoute *partial = NULL;

  *answers = FALSE;
  if (path->n > MAX_SEGMENTS)
    return NULL;
  for (const CoordRoute *route = coord_routes; route->method != NULL; route++)
    {
      LmtSpan found[2] = { { NULL, 0 }, { NULL, 0 } };
      if (!coord_route_is_open (coord, route) || !path_fits (route, path, found))
        continue;
      if (strcmp (route->method, method) == 0)
        {
          memcpy (params, found, sizeof found);
          *answers = TRUE;
          return route;
        }
      if (partial == NULL)
        partial = route;
    }
  return partial;
}

static char *
path_decode (const char *path, gsize *len)
{
  gsize n = strlen (path);
  GString *bytes = g_string_sized_new (n);

  for (gsize i = 0; i < n; i++)
    if (path[i] == '%' && g_ascii_isxdigit (path[i + 1]) && g_ascii_isxdigit (path[i + 2]))
      {
        g_string_append_c (bytes, (char)(g_ascii_xdigit_value (path[i + 1]) * 16 + g_ascii_xdigit_value (path[i + 2])));
        i += 2;
      }
    else
      g_string_append_c (bytes, path[i]);
  if (!g_utf8_validate_len (bytes->str, bytes->len, NULL))
    {
      g_autoptr (GString) raw = bytes;
      bytes = g_string_sized_new (raw->len);
      for (const char *p = raw->str, *end = raw->str + raw->len; p < end;)
        {
          const char *stop;
          g_utf8_validate_len (p, (gsize)(end - p), &stop);
          g_string_append_len (bytes, p, stop - p);
          if (stop < end && *stop == '\0')
            g_string_append_c (bytes, '\0');
          else if (stop < end)
            g_string_append (bytes, "\xef\xbf\xbd");
          p = stop + (stop < end);
        }
    }
  *len = bytes->len;
  return g_string_free (bytes, FALSE);
}

/* A path that only a slash at the end keeps from fitting is sent to the one without (and the other way round there is none). */
static gboolean
redirect (Coord *coord, CoordRequest *request, LmtSpan text)
{
  Path path;
  LmtSpan params[2];
  gboolean answers;
  g_autofree char *shorter = NULL;
  g_autofree char *encoded = NULL;

  if (text.len < 2 || text.data[text.len - 1] != '/')
    return FALSE;
  while (text.len > 1 && text.data[text.len - 1] == '/')
    text.len--;
  path_split (text, &path);
  if (find (coord, request->method, &path, params, &answers) == NULL)
    return FALSE;
  shorter = g_strndup ((const char *)text.data, text.len);
  encoded = g_uri_escape_string (shorter, ":/[]@!$&'()*+,;=", FALSE);
  request->location = g_strdup_printf ("%s://%s%s%s%s", request->scheme, request->authority, encoded,
                                       request->query != NULL ? "?" : "", request->query != NULL ? request->query : "");
  request->status = 307;
  return TRUE;
}

gboolean
coord_route_find (Coord *coord, CoordRequest *request)
{
  Path path;
  gboolean answers;
  LmtSpan text;

  if (strchr (request->path, '%') != NULL)
    {
      request->decoded = path_decode (request->path, &text.len);
      text.data = (const guint8 *)request->decoded;
    }
  else
    text = coord_span_of_text (request->path);
  if (text.len > 0 && text.data[0] == '/')
    {
      path_split (text, &path);
      request->route = find (coord, request->method, &path, request->params, &answers);
      if (request->route != NULL && answers)
        return TRUE;
      if (request->route != NULL)
        {
          request->allow = request->route->method;
          coord_reply_detail (request, 405, "Method Not Allowed");
          return FALSE;
        }
      if (redirect (coord, request, text))
        return FALSE;
    }
  coord_reply_detail (request, 404, "Not Found");
  return FALSE;
}

/* -------- one request -------- */

void
coord_request_init (CoordRequest *request)
{
  memset (request, 0, sizeof *request);
  request->scheme = "http";
  request->authority = "";
  request->out = g_string_new (NULL);
}

void
coord_request_clear (CoordRequest *request)
{
  g_free (request->decoded);
  g_free (request->location);
  g_clear_pointer (&request->query_pairs, g_array_unref);
  g_string_free (request->out, TRUE);
}

void
coord_handle (Coord *coord, CoordRequest *request)
{
  request->start_ns = g_get_monotonic_time () * 1000;
  if (coord_route_find (coord, request))
    request->route->handler (coord, request);
  events_arena_reset (coord->arena);
}

void
coord_request_finish (Coord *coord, CoordRequest *request)
{
  request->job = NULL;
  request->finished = 1;
  request->done (request, request->done_data);
}

void
coord_request_cancel (CoordRequest *request)
{
  gpointer job = request->job;
  if (job == NULL)
    return;
  request->job = NULL;
  request->cancel (job);
}
