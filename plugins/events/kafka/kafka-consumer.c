// SPDX-License-Identifier: Apache-2.0
/* Records of a topic, handed to the main loop a few hundred at a time; the next ones aren't fetched off librdkafka's queue before
 * these are done. The checkpoint is the only cursor: no group is joined and nothing is committed. */
#include "kafka-private.h"

#include <string.h>

enum
{
  CONSUMER_SLICE_MS = 100,
  CONSUMER_METADATA_MS = 1000,
  CONSUMER_ROUND = 500,                         /* records handed over at once */
  CONSUMER_LOOK_AGAIN_US = 30 * G_USEC_PER_SEC, /* for further partitions */
};

struct _EventsKafkaConsumer
{
  rd_kafka_t *kafka;
  char *topic;
  GArray *offsets;
  GMainContext *context;
  EventsKafkaRecordFunc record;
  EventsKafkaNoticeFunc notice;
  gpointer user_data;
  KafkaNotices notices;
  GThread *thread;
  gint stop;

  /* Of the thread. */
  GArray *start; /* Start: the checkpoint's */
  GArray *next;  /* gint64 of each assigned partition: where it goes on */
  gint64 looked_us;

  /* Between the two. */
  GMutex lock;
  GCond changed;
  GPtrArray *round; /* rd_kafka_message_t *; NULL: none is being handled */
  GSource *source;
};

static gboolean
is_stopping (EventsKafkaConsumer *consumer)
{
  return g_atomic_int_get (&consumer->stop) != 0;
}

static void
destroy_message (gpointer message)
{
  rd_kafka_message_destroy (message);
}

/* ---- in the main loop ---- */

static void
note_offset (EventsKafkaConsumer *consumer, gint32 partition, gint64 offset)
{
  for (guint i = 0; i < consumer->offsets->len; i++)
    {
      EventsKafkaOffset *const known = &g_array_index (consumer->offsets, EventsKafkaOffset, i);
      if (known->partition == partition && g_str_equal (known->topic, consumer->topic))
        {
          known->offset = offset;
          return;
        }
    }
  const EventsKafkaOffset fresh = { g_strdup (consumer->topic), partition, offset };
  g_array_append_val (consumer->offsets, fresh);
}

static void
handle_message (EventsKafkaConsumer *consumer, const rd_kafka_message_t *message)
{
  if (message->err != RD_KAFKA_RESP_ERR_NO_ERROR)
    {
      g_autofree char *text
          = g_strdup_printf ("topic %s: %s", consumer->topic,
                             message->payload != NULL ? (const char *)message->payload : rd_kafka_err2str (message->err));
      consumer->notice (TRUE, text, consumer->user_data);
      return;
    }
  const EventsKafkaRecord record = { .partition = message->partition,
                                     .offset = message->offset,
                                     .key = { message->key, message->key_len },
                                     .value = { message->payload, message->len } };
  consumer->record (&record, consumer->user_data);
  note_offset (consumer, message->partition, message->offset);
}

static gboolean
handle_round (gpointer user_data)
{
  EventsKafkaConsumer *const consumer = user_data;
  char *text;

  while ((text = kafka_notices_pop (&consumer->notices)) != NULL)
    {
      consumer->notice (text[0] == 'E', text + 1, consumer->user_data);
      g_free (text);
    }
  for (guint i = 0; i < consumer->round->len; i++)
    handle_message (consumer, consumer->round->pdata[i]);
  g_mutex_lock (&consumer->lock);
  g_clear_pointer (&consumer->round, g_ptr_array_unref);
  g_clear_pointer (&consumer->source, g_source_unref);
  g_cond_signal (&consumer->changed);
  g_mutex_unlock (&consumer->lock);
  return G_SOURCE_REMOVE;
}

/* ---- in the thread ---- */

typedef struct
{
  gint32 partition;
  gint64 offset;
} Start;

/* Gives @round to the main loop and waits until it is done, or until the consumer stops. */
static void
hand_over (EventsKafkaConsumer *consumer, GPtrArray *round)
{
  GSource *const source = g_idle_source_new ();

  g_source_set_priority (source, G_PRIORITY_DEFAULT);
  g_source_set_callback (source, handle_round, consumer, NULL);
  g_mutex_lock (&consumer->lock);
  consumer->round = round;
  consumer->source = source;
  g_source_attach (source, consumer->context);
  while (consumer->round != NULL && !is_stopping (consumer))
    g_cond_wait (&consumer->changed, &consumer->lock);
  g_mutex_unlock (&consumer->lock);
}

static gint64
start_of (const EventsKafkaConsumer *consumer, gint32 partition)
{
  for (guint i = 0; i < consumer->start->len; i++)
    if (g_array_index (consumer->start, Start, i).partition == partition)
      return g_array_index (consumer->start, Start, i).offset + 1;
  return RD_KAFKA_OFFSET_BEGINNING;
}

/* Partitions of the topic, 0: not known (yet). */
static gint
count_partitions (EventsKafkaConsumer *consumer)
{
  rd_kafka_topic_t *const topic = rd_kafka_topic_new (consumer->kafka, consumer->topic, NULL);
  const struct rd_kafka_metadata *metadata = NULL;
  rd_kafka_resp_err_t code;
  gint n = 0;

  code = rd_kafka_metadata (consumer->kafka, 0, topic, &metadata, CONSUMER_METADATA_MS);
  if (code == RD_KAFKA_RESP_ERR_NO_ERROR && metadata->topic_cnt == 1)
    {
      n = metadata->topics[0].partition_cnt;
      code = metadata->topics[0].err;
    }
  if (metadata != NULL)
    rd_kafka_metadata_destroy (metadata);
  rd_kafka_topic_destroy (topic);
  if (n == 0 && code != RD_KAFKA_RESP_ERR_NO_ERROR && code != RD_KAFKA_RESP_ERR__TIMED_OUT
      && code != RD_KAFKA_RESP_ERR__TRANSPORT)
    {
      g_autofree char *text = g_strdup_printf ("topic %s: %s; waiting for it", consumer->topic, rd_kafka_err2str (code));
      kafka_notices_add (&consumer->notices, TRUE, text);
    }
  return n;
}

/* All partitions there are, each where it goes on. */
static void
assign (EventsKafkaConsumer *consumer)
{
  const gint n = count_partitions (consumer);
  rd_kafka_topic_partition_list_t *list;
  g_autoptr (GString) text = NULL;
  rd_kafka_resp_err_t code;

  consumer->looked_us = g_get_monotonic_time ();
  if (n <= (gint)consumer->next->len)
    return;
  text = g_string_new (NULL);
  g_string_printf (text, "topic %s: %d partition%s:", consumer->topic, n, n == 1 ? "" : "s");
  list = rd_kafka_topic_partition_list_new (n);
  for (gint i = 0; i < n; i++)
    {
      gint64 offset = start_of (consumer, i);
      if (i < (gint)consumer->next->len)
        offset = g_array_index (consumer->next, gint64, i);
      else
        g_array_append_val (consumer->next, offset);
      rd_kafka_topic_partition_list_add (list, consumer->topic, i)->offset = offset;
      if (offset < 0)
        g_string_append_printf (text, " %d from the earliest", i);
      else
        g_string_append_printf (text, " %d from %" G_GINT64_FORMAT, i, offset);
    }
  code = rd_kafka_assign (consumer->kafka, list);
  rd_kafka_topic_partition_list_destroy (list);
  if (code != RD_KAFKA_RESP_ERR_NO_ERROR)
    kafka_notices_add (&consumer->notices, TRUE, rd_kafka_err2str (code));
  else
    kafka_notices_add (&consumer->notices, FALSE, text->str);
}

static GPtrArray *
fetch_round (EventsKafkaConsumer *consumer)
{
  GPtrArray *const round = g_ptr_array_new_with_free_func (destroy_message);
  rd_kafka_message_t *message = rd_kafka_consumer_poll (consumer->kafka, CONSUMER_SLICE_MS);

  while (message != NULL)
    {
      if (message->err == RD_KAFKA_RESP_ERR_NO_ERROR && message->partition >= 0 && message->partition < (gint)consumer->next->len)
        g_array_index (consumer->next, gint64, message->partition) = message->offset + 1;
      g_ptr_array_add (round, message);
      if (round->len == CONSUMER_ROUND)
        break;
      message = rd_kafka_consumer_poll (consumer->kafka, 0);
    }
  return round;
}

static gpointer
consume (gpointer data)
{
  EventsKafkaConsumer *const consumer = data;

  while (!is_stopping (consumer))
    {
      GPtrArray *round;
      if (consumer->next->len == 0 || g_get_monotonic_time () - consumer->looked_us > CONSUMER_LOOK_AGAIN_US)
        assign (consumer);
      round = fetch_round (consumer);
      if (round->len > 0 || kafka_notices_any (&consumer->notices))
        hand_over (consumer, round);
      else
        g_ptr_array_unref (round);
    }
  return NULL;
}

static void
on_error (rd_kafka_t *kafka, int code, const char *reason, void *opaque)
{
  EventsKafkaConsumer *const consumer = opaque;

  kafka_notices_add (&consumer->notices, TRUE, reason);
}

static void
on_log (const rd_kafka_t *kafka, int level, const char *facility, const char *text)
{
  EventsKafkaConsumer *const consumer = rd_kafka_opaque (kafka);

  /* These two are told to the error callback, too. */
  if (strcmp (facility, "FAIL") != 0 && strcmp (facility, "ERROR") != 0)
    kafka_notices_add (&consumer->notices, level <= 4, text);
}

EventsKafkaConsumer *
kafka_consumer_new (const EventsKafkaConfig *config, GArray *offsets, GMainContext *context, EventsKafkaRecordFunc record,
                    EventsKafkaNoticeFunc notice, gpointer user_data, GError **error)
{
  const char *const group = config->group_id != NULL ? config->group_id : EVENTS_KAFKA_GROUP;
  const char *const pairs[] = { "client.id",
                                "lmtrace",
                                "group.id",
                                group,
                                "auto.offset.reset",
                                "earliest",
                                "enable.auto.commit",
                                "false",
                                "enable.auto.offset.store",
                                "false",
                                NULL };
  EventsKafkaConsumer *consumer;
  rd_kafka_conf_t *conf;
  char said[512];

  consumer = g_new0 (EventsKafkaConsumer, 1);
  consumer->topic = g_strdup (config->topic != NULL ? config->topic : EVENTS_KAFKA_TOPIC);
  consumer->offsets = offsets;
  consumer->context = context != NULL ? g_main_context_ref (context) : g_main_context_ref (g_main_context_default ());
  consumer->record = record;
  consumer->notice = notice;
  consumer->user_data = user_data;
  consumer->next = g_array_new (FALSE, FALSE, sizeof (gint64));
  consumer->start = g_array_new (FALSE, FALSE, sizeof (Start));
  for (guint i = 0; i < offsets->len; i++)
    {
      const EventsKafkaOffset *const known = &g_array_index (offsets, EventsKafkaOffset, i);
      if (g_strcmp0 (known->topic, consumer->topic) == 0)
        g_array_append_val (consumer->start, ((Start){ known->partition, known->offset }));
    }
  kafka_notices_init (&consumer->notices);
  g_mutex_init (&consumer->lock);
  g_cond_init (&consumer->changed);
  conf = kafka_conf_new (config, pairs, consumer, error);
  if (conf == NULL)
    {
      kafka_consumer_free (consumer);
      return NULL;
    }
  rd_kafka_conf_set_error_cb (conf, on_error);
  rd_kafka_conf_set_log_cb (conf, on_log);
  consumer->kafka = rd_kafka_new (RD_KAFKA_CONSUMER, conf, said, sizeof said);
  if (consumer->kafka == NULL)
    {
      rd_kafka_conf_destroy (conf);
      kafka_set_error (error, config, said);
      kafka_consumer_free (consumer);
      return NULL;
    }
  rd_kafka_poll_set_consumer (consumer->kafka);
  consumer->thread = g_thread_new ("lmt-kafka", consume, consumer);
  return consumer;
}

void
kafka_consumer_free (EventsKafkaConsumer *consumer)
{
  if (consumer->thread != NULL)
    {
      g_mutex_lock (&consumer->lock);
      g_atomic_int_set (&consumer->stop, 1);
      g_cond_signal (&consumer->changed);
      g_mutex_unlock (&consumer->lock);
      g_thread_join (consumer->thread);
      /* What was handed over and not looked at comes again after a restart. */
      if (consumer->source != NULL)
        g_source_destroy (consumer->source);
      g_clear_pointer (&consumer->source, g_source_unref);
      g_clear_pointer (&consumer->round, g_ptr_array_unref);
    }
  if (consumer->kafka != NULL)
    {
      rd_kafka_consumer_close (consumer->kafka);
      rd_kafka_destroy (consumer->kafka);
    }
  kafka_notices_clear (&consumer->notices);
  g_array_unref (consumer->next);
  g_array_unref (consumer->start);
  g_mutex_clear (&consumer->lock);
  g_cond_clear (&consumer->changed);
  g_main_context_unref (consumer->context);
  g_free (consumer->topic);
  g_free (consumer);
}
