// SPDX-License-Identifier: Apache-2.0
/* What lmtrace adds below /lmtrace/ (C5). */
#include "coord.h"

typedef struct
{
  GString *out;
  guint n;
  gint64 now_ns;
} StreamList;

static void
write_stream (const EventsStream *stream, gpointer data)
{
  StreamList *list = data;
  GString *out = list->out;

  g_string_append (out, list->n++ > 0 ? ",{\"instance_id\":" : "{\"instance_id\":");
  coord_text_string (out, stream->instance);
  g_string_append_printf (out, ",\"incarnation\":%" G_GINT64_FORMAT ",\"last_seq\":", stream->incarnation);
  coord_text_int (out, stream->last_seq);
  g_string_append_printf (out,
                          ",\"gap\":%s,\"missing\":%" G_GUINT64_FORMAT ",\"dropped_events\":%" G_GUINT64_FORMAT
                          ",\"applied\":%" G_GUINT64_FORMAT ",\"duplicates\":%" G_GUINT64_FORMAT ",\"stale\":%" G_GUINT64_FORMAT
                          ",\"seconds_since_last_event\":",
                          stream->gap ? "true" : "false", stream->missing, stream->dropped, stream->verdicts[EVENTS_APPLIED],
                          stream->verdicts[EVENTS_DUPLICATE], stream->verdicts[EVENTS_STALE]);
  if (stream->last_event_ns > 0)
    coord_text_double (out, (double)(list->now_ns - stream->last_event_ns) / 1e9);
  else
    g_string_append (out, "null");
  g_string_append (out, stream->departed ? ",\"departed\":true}" : ",\"departed\":false}");
}

void
coord_api_streams (Coord *coord, CoordRequest *request)
{
  StreamList list = { request->out, 0, g_get_monotonic_time () * 1000 };

  g_string_append (request->out, "{\"streams\":[");
  events_gate_foreach (events_views_get_gate (coord->views), write_stream, &list);
  g_string_append (request->out, "]}");
  coord_reply (request, 200);
}

static void
reply_checkpoint (Coord *coord, CoordRequest *request, const GError *error)
{
  g_autofree char *shown = g_filename_display_name (coord->config->checkpoint_path);

  if (error != NULL)
    {
      coord_reply_detail (request, 500, "%s", error->message);
      return;
    }
  g_string_append (request->out, "{\"path\":");
  coord_text_cstring (request->out, shown);
  g_string_append (request->out, ",\"saved_at\":");
  coord_text_double (request->out, coord->checkpoint.last_success);
  g_string_append_c (request->out, '}');
  coord_reply (request, 200);
}

void
coord_api_checkpoint_done (Coord *coord, CoordRequest *request, const GError *error)
{
  reply_checkpoint (coord, request, error);
  coord_request_finish (coord, request);
}

void
coord_api_checkpoint (Coord *coord, CoordRequest *request)
{
  g_autoptr (GError) error = NULL;
  const char *path = coord->config->checkpoint_path;

  if (path == NULL || path[0] == '\0')
    {
      coord_reply_detail (request, 404, "this coordinator was started without --checkpoint-path");
      return;
    }
  if (coord_state_checkpoint_for (coord, request))
    return;
  coord_state_checkpoint (coord, &error);
  reply_checkpoint (coord, request, error);
}

/* Pins and quotas are an operator's, not a stream's: they stay. */
void
coord_api_reset (Coord *coord, CoordRequest *request)
{
  EventsStats stats;
  guint instances = g_hash_table_size (coord->instances);

  events_views_stats (coord->views, &stats);
  events_views_reset (coord->views);
  coord_instances_clear (coord);
  g_message ("Reset: %" G_GUINT64_FORMAT " keys and %u registered servers forgotten", stats.num_keys, instances);
  g_string_append_printf (request->out, "{\"keys\":%" G_GUINT64_FORMAT ",\"instances\":%u,\"status\":\"reset\"}", stats.num_keys,
                          instances);
  coord_reply (request, 200);
}

void
coord_api_openapi (Coord *coord, CoordRequest *request)
{
  coord_openapi_write (coord, request->out);
  coord_reply (request, 200);
}

void
coord_api_docs (Coord *coord, CoordRequest *request)
{
  coord_docs_write (coord, request->out);
  request->status = 200;
  request->type = "text/html; charset=utf-8";
}
