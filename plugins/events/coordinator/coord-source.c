// SPDX-License-Identifier: Apache-2.0
/* Where batches come from. HTTP needs no feed: POST /events is the door. Another transport is one row more in feeds[]. */
#include "coord.h"

static const CoordSourceOps *const feeds[] = { &coord_kafka_feed, NULL };

static const CoordSourceOps *
find_feed (const char *name)
{
  for (guint i = 0; feeds[i] != NULL; i++)
    if (strcmp (feeds[i]->name, name) == 0)
      return feeds[i];
  return NULL;
}

gboolean
coord_source_start (Coord *coord, GError **error)
{
  const char *transport = coord->config->event_transport;
  const CoordSourceOps *feed;

  if (strcmp (transport, "http") == 0)
    return TRUE;
  feed = find_feed (transport);
  if (feed == NULL)
    {
      g_set_error (error, LMT_ERROR, LMT_ERROR_OPTION,
                   "--event-transport: expected http, found \"%s\": this lmtrace was built without it", transport);
      return FALSE;
    }
  coord->source = feed->open (coord, error);
  return coord->source != NULL;
}

void
coord_source_stop (Coord *coord)
{
  if (coord->source != NULL)
    find_feed (coord->config->event_transport)->close (coord->source);
  coord->source = NULL;
}

const char *
coord_source_closed_door (const Coord *coord)
{
  if (strcmp (coord->config->event_transport, "http") == 0)
    return NULL;
  return "POST /events is disabled: this coordinator consumes cache events from Kafka (--event-transport kafka)";
}
