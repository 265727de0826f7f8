// SPDX-License-Identifier: Apache-2.0
/* Liveness, registration, usage of servers. */
#include "coord.h"

void
coord_api_healthz (Coord *coord, CoordRequest *request)
{
  g_string_append (request->out, "{\"status\":\"healthy\"}");
  coord_reply (request, 200);
}

void
coord_api_metrics (Coord *coord, CoordRequest *request)
{
  coord_metrics_write (coord, request->out);
  request->status = 200;
  request->type = "text/plain; version=0.0.4; charset=utf-8";
}

/* -------- registration -------- */

typedef struct
{
  LmtSpan id, ip, metadata, p2p_url;
  gint64 http_port, mq_port, chunk_size;
  guint32 seen_metadata, seen_chunk_size;
} Registration;

#define AT(member) G_STRUCT_OFFSET (Registration, member)
static const EventsField registration_fields[] = {
  { .name = "instance_id", .want = EVENTS_WANT_STRING, .trim = 1, .offset = AT (id), .seen_offset = G_MAXUINT32 },
  { .name = "ip",
    .want = EVENTS_WANT_STRING,
    .required = 1,
    .trim = 1,
    .min_length = 1,
    .offset = AT (ip),
    .seen_offset = G_MAXUINT32 },
  { .name = "http_port",
    .want = EVENTS_WANT_INT,
    .required = 1,
    .has_min = 1,
    .has_max = 1,
    .min = 1,
    .max = 65535,
    .offset = AT (http_port),
    .seen_offset = G_MAXUINT32 },
  { .name = "metadata", .want = EVENTS_WANT_RAW, .offset = AT (metadata), .seen_offset = AT (seen_metadata) },
  { .name = "p2p_advertised_url", .want = EVENTS_WANT_STRING, .trim = 1, .offset = AT (p2p_url), .seen_offset = G_MAXUINT32 },
  { .name = "mq_port",
    .want = EVENTS_WANT_INT,
    .has_min = 1,
    .has_max = 1,
    .max = 65535,
    .offset = AT (mq_port),
    .seen_offset = G_MAXUINT32 },
  /* 0.5.6 doesn't know the last one */
  { .name = "chunk_size",
    .want = EVENTS_WANT_INT,
    .nullable = 1,
    .has_min = 1,
    .min = 1,
    .offset = AT (chunk_size),
    .seen_offset = AT (seen_chunk_size) },
};
#undef AT

static void
write_pairs (GString *out, const EventsPair *pairs, guint32 n)
{
  g_string_assign (out, "{");
  for (guint32 i = 0; i < n; i++)
    {
      if (i > 0)
        g_string_append_c (out, ',');
      coord_text_string (out, pairs[i].name);
      g_string_append_c (out, ':');
      coord_text_string (out, pairs[i].value);
    }
  g_string_append_c (out, '}');
}

static LmtSpan
fresh_id (char buffer[40])
{
  g_autofree char *uuid = g_uuid_string_random ();
  guint n = 3;

  memcpy (buffer, "mp-", 3);
  for (const char *p = uuid; *p != '\0'; p++)
    if (*p != '-')
      buffer[n++] = *p;
  buffer[n] = '\0';
  return coord_span_of_text (buffer);
}

static gboolean
bind_chunk_size (Coord *coord, CoordRequest *request, gint64 size)
{
  if (size <= G_MAXUINT32 && events_views_set_chunk_size (coord->views, (guint32)size))
    return TRUE;
  coord_reply_detail (request, 409, "chunk size %" G_GINT64_FORMAT " is refused: the fleet's is %u", size,
                      events_views_get_chunk_size (coord->views));
  return FALSE;
}

void
coord_api_instances_post (Coord *coord, CoordRequest *request)
{
  Registration body = { .id = { NULL, 0 } };
  EventsProblems problems;
  CoordInstance *instance;
  gboolean replaced;
  char id_buffer[40];
  guint n_fields = G_N_ELEMENTS (registration_fields) - (coord->compat == EVENTS_COMPAT_056);
  EventsPair *pairs = NULL;
  guint32 n_pairs = 0;

  if (!coord_body_fields (coord, request, registration_fields, n_fields, &body, &problems))
    return;
  if (body.seen_metadata != 0)
    events_pairs_from_raw (body.metadata, "metadata", &coord->limits, coord->arena, &pairs, &n_pairs, &problems);
  if (problems.total > 0)
    {
      coord_reply_problems (request, &problems);
      return;
    }
  events_problems_clear (&problems);
  if (body.seen_chunk_size == 2 && !bind_chunk_size (coord, request, body.chunk_size))
    return;
  if (body.id.len == 0)
    body.id = fresh_id (id_buffer);
  instance = coord_instance_new (body.id);
  instance->ip = g_bytes_new (body.ip.data, body.ip.len);
  instance->http_port = body.http_port;
  instance->mq_port = body.mq_port;
  instance->p2p_url = g_bytes_new (body.p2p_url.data, body.p2p_url.len);
  instance->registration_time = (double)g_get_real_time () / 1e6;
  instance->heartbeat_ns = g_get_monotonic_time () * 1000;
  write_pairs (instance->metadata_json, pairs, n_pairs);
  if (!coord_instances_put (coord, instance, &replaced))
    {
      coord_reply_full (request, "instances", coord->config->max_instances);
      return;
    }
  events_views_register (coord->views, body.id);
  g_string_append (request->out, "{\"instance_id\":");
  coord_text_string (request->out, body.id);
  g_string_append (request->out, replaced ? ",\"re_registered\":true}" : ",\"re_registered\":false}");
  coord_reply (request, 200);
}

typedef struct
{
  gint64 chunk_size;
} ChunkSize;
static const EventsField chunk_size_fields[] = {
  { .name = "chunk_size",
    .want = EVENTS_WANT_INT,
    .required = 1,
    .has_min = 1,
    .min = 1,
    .offset = G_STRUCT_OFFSET (ChunkSize, chunk_size),
    .seen_offset = G_MAXUINT32 },
};

void
coord_api_chunk_size (Coord *coord, CoordRequest *request)
{
  ChunkSize body = { 0 };
  EventsProblems problems;

  if (!coord_body_fields (coord, request, chunk_size_fields, G_N_ELEMENTS (chunk_size_fields), &body, &problems))
    return;
  events_problems_clear (&problems);
  if (!bind_chunk_size (coord, request, body.chunk_size))
    return;
  g_string_append_printf (request->out, "{\"chunk_size\":%" G_GINT64_FORMAT "}", body.chunk_size);
  coord_reply (request, 200);
}

void
coord_api_instances_get (Coord *coord, CoordRequest *request)
{
  GString *out = request->out;

  g_string_append (out, "{\"instances\":[");
  for (GList *link = coord->order.head; link != NULL; link = link->next)
    {
      const CoordInstance *instance = link->data;
      g_string_append (out, link->prev != NULL ? ",{\"instance_id\":" : "{\"instance_id\":");
      coord_text_string (out, coord_span_of_bytes (instance->id));
      g_string_append (out, ",\"ip\":");
      coord_text_string (out, coord_span_of_bytes (instance->ip));
      g_string_append_printf (out, ",\"http_port\":%" G_GINT64_FORMAT ",\"registration_time\":", instance->http_port);
      coord_text_double (out, instance->registration_time);
      g_string_append_printf (out, ",\"metadata\":%s,\"p2p_advertised_url\":", instance->metadata_json->str);
      coord_text_string (out, coord_span_of_bytes (instance->p2p_url));
      g_string_append_printf (out, ",\"mq_port\":%" G_GINT64_FORMAT "}", instance->mq_port);
    }
  g_string_append (out, "]}");
  coord_reply (request, 200);
}

void
coord_api_heartbeat (Coord *coord, CoordRequest *request)
{
  LmtSpan id = request->params[0];
  CoordInstance *instance = coord_instances_get (coord, id);

  if (instance == NULL)
    {
      g_autoptr (GString) text = g_string_new ("unknown instance ");
      g_string_append_len (text, (const char *)id.data, (gssize)id.len);
      g_string_append (text, "; re-register");
      g_string_append (request->out, "{\"error\":");
      coord_text_string (request->out, (LmtSpan){ (const guint8 *)text->str, text->len });
      g_string_append_c (request->out, '}');
      coord_reply (request, 404);
      return;
    }
  instance->heartbeat_ns = g_get_monotonic_time () * 1000;
  g_string_append (request->out, "{\"instance_id\":");
  coord_text_string (request->out, id);
  g_string_append_c (request->out, '}');
  coord_reply (request, 200);
}

/* An unknown id is fenced and forgotten all the same (D15). */
void
coord_api_instances_delete (Coord *coord, CoordRequest *request)
{
  LmtSpan id = request->params[0];

  if (!coord_instances_remove (coord, id))
    {
      g_autofree char *shown = coord_span_show (id);
      g_message ("Deregistration of %s, which is not registered: its stream is forgotten all the same", shown);
    }
  events_views_depart (coord->views, id, TRUE);
  request->status = 204;
}

/* -------- usage -------- */

typedef struct
{
  GString *out;
  gboolean first;
} ModuleList;

static void
write_module (const EventsModule *module, gpointer data)
{
  ModuleList *list = data;

  g_string_append (list->out, list->first ? "{\"tier\":" : ",{\"tier\":");
  list->first = FALSE;
  coord_text_cstring (list->out, events_tier_words[module->tier]);
  g_string_append (list->out, ",\"backend\":");
  coord_text_string (list->out, module->backend);
  g_string_append (list->out, module->shared ? ",\"shared\":true,\"used_bytes\":" : ",\"shared\":false,\"used_bytes\":");
  coord_text_int (list->out, module->used_bytes);
  g_string_append (list->out, ",\"capacity_bytes\":");
  coord_text_int (list->out, module->capacity_bytes);
  g_string_append (list->out, ",\"usage_ratio\":");
  if (module->capacity_bytes > 0)
    coord_text_double (list->out, (double)module->used_bytes / (double)module->capacity_bytes);
  else
    g_string_append (list->out, "null");
  g_string_append_c (list->out, '}');
}

static gboolean
write_usage (Coord *coord, LmtSpan id, GString *out)
{
  gboolean registered = coord_instances_get (coord, id) != NULL;
  gboolean declared = FALSE;
  g_autoptr (GString) modules = g_string_new (NULL);
  ModuleList list = { modules, TRUE };

  if (!events_views_modules (coord->views, id, &declared, write_module, &list) && !registered)
    return FALSE;
  g_string_append (out, "{\"instance_id\":");
  coord_text_string (out, id);
  g_string_append_printf (out, ",\"registered\":%s,\"declared_capacity\":%s,\"modules\":[", registered ? "true" : "false",
                          declared ? "true" : "false");
  g_string_append_len (out, modules->str, (gssize)modules->len);
  g_string_append (out, "]}");
  return TRUE;
}

static void
collect_id (LmtSpan instance, gpointer data)
{
  g_ptr_array_add (data, g_bytes_new (instance.data, instance.len));
}

static int
compare_ids (gconstpointer a, gconstpointer b)
{
  return g_bytes_compare (*(GBytes *const *)a, *(GBytes *const *)b);
}

void
coord_api_usage_all (Coord *coord, CoordRequest *request)
{
  g_autoptr (GPtrArray) ids = g_ptr_array_new_with_free_func ((GDestroyNotify)g_bytes_unref);
  GString *out = request->out;
  ModuleList list = { out, TRUE };
  gboolean first = TRUE;

  events_views_usage_instances (coord->views, collect_id, ids);
  for (GList *link = coord->order.head; link != NULL; link = link->next)
    g_ptr_array_add (ids, g_bytes_ref (((CoordInstance *)link->data)->id));
  g_ptr_array_sort (ids, compare_ids);
  g_string_append (out, "{\"instances\":[");
  for (guint i = 0; i < ids->len; i++)
    {
      gsize before = out->len;
      if (i > 0 && g_bytes_equal (ids->pdata[i - 1], ids->pdata[i]))
        continue;
      if (!first)
        g_string_append_c (out, ',');
      if (write_usage (coord, coord_span_of_bytes (ids->pdata[i]), out))
        first = FALSE;
      else
        g_string_truncate (out, before);
    }
  g_string_append (out, "],\"shared_modules\":[");
  events_views_shared_modules (coord->views, write_module, &list);
  g_string_append (out, "]}");
  coord_reply (request, 200);
}

void
coord_api_usage_one (Coord *coord, CoordRequest *request)
{
  g_autoptr (GString) text = NULL;

  if (write_usage (coord, request->params[0], request->out))
    {
      coord_reply (request, 200);
      return;
    }
  text = g_string_new ("unknown instance ");
  coord_text_repr (text, request->params[0]);
  coord_reply_detail (request, 404, "%s", text->str);
}
