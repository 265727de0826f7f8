// SPDX-License-Identifier: Apache-2.0
#include "replay-kafka.h"

#include <string.h>

#include "events-kafka.h"

struct _ReplayKafka
{
  const ReplayConfig *config;
  EventsKafkaProducer *producer;
  GQueue done;    /* ReplayJob */
  guint on_way;   /* jobs the producer has */
  gboolean freed; /* reports of the end are nobody's */
};

static void
end_job (ReplayKafka *kafka, ReplayJob *job, const char *error)
{
  job->made = TRUE;
  job->ok = error == NULL;
  if (error != NULL)
    {
      g_autofree char *text = replay_clean (error, strlen (error), 512);
      g_autofree char *servers = replay_clean (kafka->config->kafka_servers, strlen (kafka->config->kafka_servers), 256);
      g_free (job->failure);
      job->failure = g_strdup_printf ("Kafka at %s: not delivered: %s", servers, text);
    }
  g_queue_push_tail (&kafka->done, job);
}

static void
hand_over (ReplayKafka *kafka, ReplayJob *job)
{
  g_autoptr (GError) error = NULL;
  const ReplaySent *sent = &g_array_index (job->sents, ReplaySent, 0);
  LmtSpan key = { (const guint8 *)"", 0 };
  if (sent->instance != NULL)
    key = (LmtSpan){ (const guint8 *)sent->instance->name, sent->instance->name_len };
  job->calls++;
  if (events_kafka_producer_send (kafka->producer, key, (LmtSpan){ (const guint8 *)job->body->str, job->body->len },
                                  (guint64)(gsize)job, &error))
    kafka->on_way++;
  else
    {
      job->dropped = g_error_matches (error, LMT_ERROR, LMT_ERROR_INTERRUPTED);
      end_job (kafka, job, error->message);
    }
}

static void
on_report (const EventsKafkaReport *report, gpointer data)
{
  ReplayKafka *kafka = data;
  kafka->on_way--;
  if (!kafka->freed)
    end_job (kafka, (ReplayJob *)(gsize)report->tag, report->error);
}

/* The producer repeats by itself and in order until its time-out. A record given to it anew would come behind later ones of its
 * instance, and those make it a duplicate at the coordinator: so --on-error=retry waits longer instead. */
static guint64
delivery_timeout_ms (const ReplayConfig *config)
{
  const guint64 once = MAX ((guint64)(config->timeout_ns / 1000000), 1);
  return strcmp (config->on_error, "retry") == 0 ? once * (MIN (config->retries, 10000) + 1) : once;
}

ReplayKafka *
replay_kafka_new (const ReplayConfig *config, const volatile gint *interrupts, GError **error)
{
  EventsKafkaConfig producer = { .bootstrap_servers = config->kafka_servers,
                                 .topic = config->kafka_topic,
                                 .delivery_timeout_ms = delivery_timeout_ms (config),
                                 .settings = (const char *const *)config->kafka_config,
                                 .interrupts = interrupts };
  ReplayKafka *kafka = g_new0 (ReplayKafka, 1);
  kafka->config = config;
  g_queue_init (&kafka->done);
  kafka->producer = events_kafka_producer_new (&producer, on_report, kafka, error);
  if (kafka->producer != NULL)
    return kafka;
  g_free (kafka);
  return NULL;
}

void
replay_kafka_free (ReplayKafka *kafka)
{
  if (kafka == NULL)
    return;
  kafka->freed = TRUE;
  events_kafka_producer_drop_waiting (kafka->producer);
  events_kafka_producer_free (kafka->producer);
  g_queue_clear (&kafka->done);
  g_free (kafka);
}

void
replay_kafka_submit (ReplayKafka *kafka, ReplayJob *job)
{
  hand_over (kafka, job);
}

guint
replay_kafka_count_on_way (const ReplayKafka *kafka)
{
  return kafka->on_way;
}

void
replay_kafka_drop (ReplayKafka *kafka)
{
  events_kafka_producer_drop_waiting (kafka->producer);
}

ReplayJob *
replay_kafka_take_done (ReplayKafka *kafka, guint timeout_ms)
{
  ReplayJob *job = g_queue_pop_head (&kafka->done);
  if (job == NULL && kafka->on_way > 0)
    {
      events_kafka_producer_poll (kafka->producer, timeout_ms);
      job = g_queue_pop_head (&kafka->done);
    }
  return job;
}
