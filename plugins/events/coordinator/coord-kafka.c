// SPDX-License-Identifier: Apache-2.0
/* Batches out of a Kafka topic: each record is what a POST /events would have brought. What can't be decoded is logged and left
 * out; its offset counts all the same, or the next start would end at it again. */
#include "coord.h"

#include "events-kafka.h"

struct _CoordSource
{
  Coord *coord;
  EventsKafkaConfig config;
  EventsKafkaConsumer *consumer;
  EventsArena *arena;
  EventsProblems problems;
  gboolean full; /* said already */
};

static void
on_record (const EventsKafkaRecord *record, gpointer data)
{
  CoordSource *source = data;
  EventsBatch *batches;
  EventsCounts counts = { 0 };
  g_autofree char *why = NULL;
  guint32 n;

  coord_server_note_activity (source->coord->server);
  source->coord->body_bytes_in += record->value.len;
  events_arena_reset (source->arena);
  switch (events_batches_from_body ((const char *)record->value.data, record->value.len, &source->coord->limits, source->arena,
                                    &batches, &n, &source->problems))
    {
    case EVENTS_BODY_OK:
      if (coord_ingest (source->coord, batches, n, &counts) || source->full)
        return;
      source->full = TRUE;
      g_warning ("Kafka topic %s, partition %d, offset %" G_GINT64_FORMAT
                 ": a table is full (--max-keys, --max-instances): this batch and more are left out",
                 source->config.topic, record->partition, record->offset);
      return;
    case EVENTS_BODY_INVALID:
      why = events_problems_describe (&source->problems);
      break;
    case EVENTS_BODY_TOO_BIG:
      why = g_strdup ("larger than --max-body-bytes allows for");
      break;
    default:
      why = g_strdup ("not UTF-8, or nested too deep");
      break;
    }
  g_warning ("Kafka topic %s, partition %d, offset %" G_GINT64_FORMAT ": record left out: %s", source->config.topic,
             record->partition, record->offset, why);
}

static void
on_notice (gboolean is_error, const char *text, gpointer data)
{
  if (is_error)
    g_warning ("Kafka: %s", text);
  else
    g_message ("Kafka: %s", text);
}

static void
kafka_close (CoordSource *source)
{
  events_kafka_consumer_free (source->consumer);
  events_arena_free (source->arena);
  events_problems_clear (&source->problems);
  g_free (source);
}

static CoordSource *
kafka_open (Coord *coord, GError **error)
{
  const CoordConfig *config = coord->config;
  CoordSource *source;

  if (config->kafka_bootstrap_servers == NULL || config->kafka_bootstrap_servers[0] == '\0')
    {
      g_set_error_literal (error, LMT_ERROR, LMT_ERROR_OPTION,
                           "--event-transport kafka: expected --kafka-bootstrap-servers with it, found none");
      return NULL;
    }
  if (!events_kafka_check (error))
    {
      g_prefix_error (error, "--event-transport kafka: ");
      return NULL;
    }
  source = g_new0 (CoordSource, 1);
  source->coord = coord;
  source->config = (EventsKafkaConfig){ .bootstrap_servers = config->kafka_bootstrap_servers,
                                        .topic = config->kafka_topic,
                                        .group_id = config->kafka_group_id,
                                        .settings = (const char *const *)config->kafka_config };
  source->arena = events_arena_new (config->max_body_bytes * 8);
  events_problems_init (&source->problems, 10);
  source->consumer = events_kafka_consumer_new (&source->config, coord->offsets, NULL, on_record, on_notice, source, error);
  if (source->consumer != NULL)
    return source;
  kafka_close (source);
  return NULL;
}

const CoordSourceOps coord_kafka_feed = { .name = "kafka", .open = kafka_open, .close = kafka_close };
