// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "events-views.h"

G_BEGIN_DECLS

/**
 * Kafka as the way of the batches (events.md 11, R22, C12), through librdkafka. The library is optional: what needs it is a file
 * of its own, lmt-events-kafka.module, beside the plugins, opened when the first of these functions is called. Without it each
 * fails with LMT_ERROR_UNSUPPORTED and says which of the two it is: built without librdkafka, or the library isn't on this
 * machine.
 */
#define EVENTS_KAFKA_TOPIC "lmcache-cache-events" /* --kafka-topic */
#define EVENTS_KAFKA_GROUP "lmcache-coordinator"  /* --kafka-group-id */

typedef struct
{
  const char *bootstrap_servers; /* --kafka-bootstrap-servers, host:port,… */
  const char *topic;             /* NULL: EVENTS_KAFKA_TOPIC */
  const char *group_id;          /* consumer; NULL: EVENTS_KAFKA_GROUP */
  guint64 delivery_timeout_ms;   /* producer: 0: 30 s. librdkafka repeats in order until then */
  guint32 max_waiting;           /* producer: records on their way at most; 0: 10,000 */
  guint32 reserved;
  const char *const *settings;     /* (nullable): further NAME=VALUE of librdkafka (--kafka-config), last ones */
  const volatile gint *interrupts; /* (nullable): not 0: calls that wait come back */
} EventsKafkaConfig;

/* Is the module there, and its library? */
gboolean events_kafka_check (GError **error);

/* ---- producer: one per run, calls from one thread; the callback comes inside of send, poll and flush ---- */

typedef struct _EventsKafkaProducer EventsKafkaProducer;

/* What became of one record. Per instance (one key, one partition) in the order they were sent. */
typedef struct
{
  guint64 tag;       /* as given to send */
  const char *error; /* NULL: acknowledged by all replicas; else why not: nothing of it will come any more */
  gint32 partition;
  guint32 timed_out; /* the time-out was reached (a broker that comes back may be tried again); else: refused for good */
  gint64 offset;
} EventsKafkaReport;
typedef void (*EventsKafkaReportFunc) (const EventsKafkaReport *report, gpointer user_data);

/* Idempotent, acks=all, partitioner consistent_random. Doesn't wait for a broker. */
EventsKafkaProducer *events_kafka_producer_new (const EventsKafkaConfig *config, EventsKafkaReportFunc func, gpointer user_data,
                                                GError **error);
/* @batch: JSON text of one batch, as events_json_from_msgpack() makes it: sent as {"batches":[@batch]}, copied. Waits while
 * max_waiting records are on their way. FALSE: refused at once, or interrupted: no report will come. */
gboolean events_kafka_producer_send (EventsKafkaProducer *producer, LmtSpan instance, LmtSpan batch, guint64 tag, GError **error);
/* Runs the reports that are there; waits for one up to @timeout_ms. Returns: records still on their way. */
guint events_kafka_producer_poll (EventsKafkaProducer *producer, guint timeout_ms);
/* Until all are reported, interrupted or @timeout_ms is over. Returns: records still on their way. */
guint events_kafka_producer_flush (EventsKafkaProducer *producer, guint timeout_ms);
/* What waits isn't sent any more; each is reported as refused. */
void events_kafka_producer_drop_waiting (EventsKafkaProducer *producer);
/* What the brokers said last (`1/1 brokers are down`); NULL: nothing. Until the next call. */
const char *events_kafka_producer_last_notice (EventsKafkaProducer *producer);
void events_kafka_producer_free (EventsKafkaProducer *producer);

/* ---- consumer: a thread of its own; the callbacks come in @context, one after the other ---- */

typedef struct _EventsKafkaConsumer EventsKafkaConsumer;

typedef struct
{
  gint32 partition;
  guint32 reserved;
  gint64 offset;
  LmtSpan key;
  LmtSpan value; /* the body POST /events would have: events_batches_from_body() */
} EventsKafkaRecord;
/* Afterwards the record's offset is the applied one of its partition, whatever it held. */
typedef void (*EventsKafkaRecordFunc) (const EventsKafkaRecord *record, gpointer user_data);
/* For the log: assignment, errors; @is_error. */
typedef void (*EventsKafkaNoticeFunc) (gboolean is_error, const char *text, gpointer user_data);

/**
 * events_kafka_consumer_new: starts consuming
 * @offsets: of EventsKafkaOffset: in: a checkpoint's; out: last applied ones, changed only in @context: what the next checkpoint
 * writes. Lives as long as the consumer.
 * @context: (nullable): the default one
 *
 * All partitions of the topic, each from its offset + 1 or else from the earliest record; those that appear later, too, and a
 * topic that isn't there yet is waited for. Nothing is committed.
 */
EventsKafkaConsumer *events_kafka_consumer_new (const EventsKafkaConfig *config, GArray *offsets, GMainContext *context,
                                                EventsKafkaRecordFunc record, EventsKafkaNoticeFunc notice, gpointer user_data,
                                                GError **error);
/* Stops and waits for the thread; no callback comes after it. Call it from @context's thread. */
void events_kafka_consumer_free (EventsKafkaConsumer *consumer);

G_END_DECLS
