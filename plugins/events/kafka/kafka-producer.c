// SPDX-License-Identifier: Apache-2.0
/* Batches to a topic. One instance's go to one partition (its id is the key) and stay in order: librdkafka's idempotent producer
 * repeats in order until the time-out, so nothing here ever sends a record twice. */
#include "kafka-private.h"

#include <string.h>

enum
{
  PRODUCER_TIMEOUT_MS = 30 * 1000,
  PRODUCER_WAITING = 10000,
  PRODUCER_SLICE_MS = 100, /* interrupts are looked at this often */
};

struct _EventsKafkaProducer
{
  rd_kafka_t *kafka;
  char *servers;
  char *topic;
  EventsKafkaReportFunc func;
  gpointer user_data;
  const volatile gint *interrupts;
  GString *value;
  KafkaNotices notices;
  char *notice;
  guint64 timeout_ms;
  guint max_waiting;
  guint waiting; /* sent, not reported */
};

static gboolean
is_interrupted (const EventsKafkaProducer *producer)
{
  return producer->interrupts != NULL && g_atomic_int_get (producer->interrupts) != 0;
}

static void
on_report (rd_kafka_t *kafka, const rd_kafka_message_t *message, void *opaque)
{
  EventsKafkaProducer *const producer = opaque;
  EventsKafkaReport report
      = { .tag = (guint64)(guintptr)message->_private, .partition = message->partition, .offset = message->offset };
  g_autofree char *text = NULL;
  char fatal[512];

  producer->waiting--;
  if (message->err == RD_KAFKA_RESP_ERR__MSG_TIMED_OUT)
    {
      const char *const said = kafka_producer_last_notice (producer);
      report.timed_out = TRUE;
      text = g_strdup_printf ("not acknowledged within %" G_GUINT64_FORMAT " ms%s%s%s", producer->timeout_ms,
                              said != NULL ? " (" : "", said != NULL ? said : "", said != NULL ? ")" : "");
    }
  else if (message->err == RD_KAFKA_RESP_ERR__PURGE_QUEUE || message->err == RD_KAFKA_RESP_ERR__PURGE_INFLIGHT)
    text = g_strdup ("not sent, since an earlier one was refused");
  else if (message->err != RD_KAFKA_RESP_ERR_NO_ERROR
           && rd_kafka_fatal_error (kafka, fatal, sizeof fatal) != RD_KAFKA_RESP_ERR_NO_ERROR)
    text = g_strdup (fatal);
  else if (message->err != RD_KAFKA_RESP_ERR_NO_ERROR)
    text = g_strdup (rd_kafka_err2str (message->err));
  report.error = text;
  if (producer->func != NULL)
    producer->func (&report, producer->user_data);
}

static void
on_error (rd_kafka_t *kafka, int code, const char *reason, void *opaque)
{
  EventsKafkaProducer *const producer = opaque;

  kafka_notices_add (&producer->notices, TRUE, reason);
}

static void
on_log (const rd_kafka_t *kafka, int level, const char *facility, const char *text)
{
  EventsKafkaProducer *const producer = rd_kafka_opaque (kafka);

  /* These two are told to the error callback, too. */
  if (strcmp (facility, "FAIL") != 0 && strcmp (facility, "ERROR") != 0)
    kafka_notices_add (&producer->notices, level <= 4, text);
}

EventsKafkaProducer *
kafka_producer_new (const EventsKafkaConfig *config, EventsKafkaReportFunc func, gpointer user_data, GError **error)
{
  EventsKafkaProducer *const producer = g_new0 (EventsKafkaProducer, 1);
  g_autofree char *timeout = NULL, *waiting = NULL;
  rd_kafka_conf_t *conf;
  char said[512];

  producer->timeout_ms = config->delivery_timeout_ms > 0 ? MIN (config->delivery_timeout_ms, G_MAXINT32) : PRODUCER_TIMEOUT_MS;
  producer->max_waiting = config->max_waiting > 0 ? config->max_waiting : PRODUCER_WAITING;
  timeout = g_strdup_printf ("%" G_GUINT64_FORMAT, producer->timeout_ms);
  waiting = g_strdup_printf ("%u", producer->max_waiting + 1);
  producer->servers = g_strdup (config->bootstrap_servers);
  producer->topic = g_strdup (config->topic != NULL ? config->topic : EVENTS_KAFKA_TOPIC);
  producer->func = func;
  producer->user_data = user_data;
  producer->interrupts = config->interrupts;
  producer->value = g_string_new (NULL);
  kafka_notices_init (&producer->notices);

  const char *const pairs[] = { "client.id",
                                "lmtrace",
                                "enable.idempotence",
                                "true",
                                "acks",
                                "all",
                                "partitioner",
                                "consistent_random",
                                "message.timeout.ms",
                                timeout,
                                "queue.buffering.max.messages",
                                waiting,
                                "queue.buffering.max.kbytes",
                                "65536",
                                NULL };
  conf = kafka_conf_new (config, pairs, producer, error);
  if (conf == NULL)
    {
      kafka_producer_free (producer);
      return NULL;
    }
  rd_kafka_conf_set_dr_msg_cb (conf, on_report);
  rd_kafka_conf_set_error_cb (conf, on_error);
  rd_kafka_conf_set_log_cb (conf, on_log);
  producer->kafka = rd_kafka_new (RD_KAFKA_PRODUCER, conf, said, sizeof said);
  if (producer->kafka == NULL)
    {
      rd_kafka_conf_destroy (conf);
      kafka_set_error (error, config, said);
      kafka_producer_free (producer);
      return NULL;
    }
  return producer;
}

gboolean
kafka_producer_send (EventsKafkaProducer *producer, LmtSpan instance, LmtSpan batch, guint64 tag, GError **error)
{
  rd_kafka_resp_err_t code;

  g_string_truncate (producer->value, 0);
  g_string_append_len (producer->value, "{\"batches\":[", 12);
  g_string_append_len (producer->value, (const char *)batch.data, (gssize)batch.len);
  g_string_append_len (producer->value, "]}", 2);
  for (;;)
    {
      while (producer->waiting >= producer->max_waiting && !is_interrupted (producer))
        rd_kafka_poll (producer->kafka, PRODUCER_SLICE_MS);
      if (is_interrupted (producer))
        {
          g_set_error_literal (error, LMT_ERROR, LMT_ERROR_INTERRUPTED, "interrupted");
          return FALSE;
        }
      code = rd_kafka_producev (producer->kafka, RD_KAFKA_V_TOPIC (producer->topic), RD_KAFKA_V_KEY (instance.data, instance.len),
                                RD_KAFKA_V_VALUE (producer->value->str, producer->value->len),
                                RD_KAFKA_V_MSGFLAGS (RD_KAFKA_MSG_F_COPY), RD_KAFKA_V_OPAQUE ((void *)(guintptr)tag),
                                RD_KAFKA_V_END);
      if (code != RD_KAFKA_RESP_ERR__QUEUE_FULL)
        break;
      rd_kafka_poll (producer->kafka, PRODUCER_SLICE_MS);
    }
  if (code == RD_KAFKA_RESP_ERR_NO_ERROR)
    {
      producer->waiting++;
      return TRUE;
    }
  char fatal[512] = "";
  if (rd_kafka_fatal_error (producer->kafka, fatal, sizeof fatal) != RD_KAFKA_RESP_ERR_NO_ERROR)
    g_set_error (error, LMT_ERROR, LMT_ERROR_IO, "kafka %s: topic %s: %s", producer->servers, producer->topic, fatal);
  else if (code == RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE)
    g_set_error (error, LMT_ERROR, LMT_ERROR_IO,
                 "kafka %s: topic %s: a record of %" G_GSIZE_FORMAT " bytes is over message.max.bytes", producer->servers,
                 producer->topic, producer->value->len);
  else
    g_set_error (error, LMT_ERROR, LMT_ERROR_IO, "kafka %s: topic %s: %s", producer->servers, producer->topic,
                 rd_kafka_err2str (code));
  return FALSE;
}

guint
kafka_producer_poll (EventsKafkaProducer *producer, guint timeout_ms)
{
  rd_kafka_poll (producer->kafka, (int)MIN (timeout_ms, G_MAXINT));
  return producer->waiting;
}

guint
kafka_producer_flush (EventsKafkaProducer *producer, guint timeout_ms)
{
  const gint64 until = g_get_monotonic_time () + (gint64)timeout_ms * 1000;

  while (producer->waiting > 0 && !is_interrupted (producer))
    {
      const gint64 left = (until - g_get_monotonic_time ()) / 1000;
      if (left <= 0)
        break;
      /* Says that nothing more comes, so that what is there goes out at once; reports come inside. */
      rd_kafka_flush (producer->kafka, (int)MIN (left, PRODUCER_SLICE_MS));
    }
  return producer->waiting;
}

void
kafka_producer_drop_waiting (EventsKafkaProducer *producer)
{
  rd_kafka_purge (producer->kafka, RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT);
  while (producer->waiting > 0 && rd_kafka_poll (producer->kafka, PRODUCER_SLICE_MS) > 0)
    ;
}

const char *
kafka_producer_last_notice (EventsKafkaProducer *producer)
{
  char *text;

  while ((text = kafka_notices_pop (&producer->notices)) != NULL)
    {
      g_free (producer->notice);
      producer->notice = g_strdup (text + 1);
      g_free (text);
    }
  return producer->notice;
}

void
kafka_producer_free (EventsKafkaProducer *producer)
{
  if (producer->kafka != NULL)
    {
      producer->func = NULL;
      kafka_producer_drop_waiting (producer);
      rd_kafka_destroy (producer->kafka);
    }
  kafka_notices_clear (&producer->notices);
  g_string_free (producer->value, TRUE);
  g_free (producer->notice);
  g_free (producer->servers);
  g_free (producer->topic);
  g_free (producer);
}
