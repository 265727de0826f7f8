// SPDX-License-Identifier: Apache-2.0
/* POST /events: the hot path. Body -> batches in the arena -> gate and views -> 38 bytes of reply. */
#include "coord.h"

gboolean
coord_ingest (Coord *coord, const EventsBatch *batches, guint32 n, EventsCounts *counts)
{
  gint64 before_us = g_get_monotonic_time ();
  gboolean fits = events_views_ingest (coord->views, batches, n, before_us * 1000, counts);

  coord->ingest_ns += (g_get_monotonic_time () - before_us) * 1000;
  coord->counts.applied += counts->applied;
  coord->counts.duplicates += counts->duplicates;
  coord->counts.stale += counts->stale;
  return fits;
}

void
coord_api_events (Coord *coord, CoordRequest *request)
{
  EventsBatch *batches = NULL;
  guint32 n = 0;
  EventsProblems problems;
  EventsCounts counts = { 0 };
  GString *out = request->out;
  const char *closed = coord_source_closed_door (coord);

  if (!coord_body_check (coord, request))
    return;
  events_problems_init (&problems, 100);
  if (!coord_body_result (
          coord, request,
          events_batches_from_body (request->body, request->body_len, &coord->limits, coord->arena, &batches, &n, &problems),
          &problems))
    return;
  events_problems_clear (&problems);
  if (closed != NULL)
    {
      coord_reply_detail (request, 404, "%s", closed);
      return;
    }
  gboolean fits = coord_ingest (coord, batches, n, &counts);
  g_string_append (out,
                   fits ? "{\"applied\":"
                        : "{\"detail\":\"a table is full: the batches counted here are in, the others are not\",\"applied\":");
  coord_text_int (out, (gint64)counts.applied);
  g_string_append (out, ",\"duplicates\":");
  coord_text_int (out, (gint64)counts.duplicates);
  g_string_append (out, ",\"stale\":");
  coord_text_int (out, (gint64)counts.stale);
  g_string_append_c (out, '}');
  coord_reply (request, fits ? 200 : 507);
}
