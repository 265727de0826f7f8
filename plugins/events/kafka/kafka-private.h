// SPDX-License-Identifier: Apache-2.0
#pragma once

/* Inside of lmt-events-kafka.module. */
#include "events-kafka-ops.h"

#include <librdkafka/rdkafka.h>

G_BEGIN_DECLS

/* What librdkafka logs and reports, from its threads: kept for whoever asks next. */
typedef struct
{
  GMutex lock;
  GQueue texts; /* char *, with 'E' or 'I' in front */
  char *last;
  gint64 last_us;
} KafkaNotices;
void kafka_notices_init (KafkaNotices *notices);
void kafka_notices_clear (KafkaNotices *notices);
void kafka_notices_add (KafkaNotices *notices, gboolean is_error, const char *text);
gboolean kafka_notices_any (KafkaNotices *notices);
char *kafka_notices_pop (KafkaNotices *notices); /* (nullable) (transfer full) */

/* @pairs: name, value, …, NULL; then config's servers and settings. @opaque: of the callbacks. NULL: @error. */
rd_kafka_conf_t *kafka_conf_new (const EventsKafkaConfig *config, const char *const *pairs, gpointer opaque, GError **error);
void kafka_set_error (GError **error, const EventsKafkaConfig *config, const char *what);

EventsKafkaProducer *kafka_producer_new (const EventsKafkaConfig *config, EventsKafkaReportFunc func, gpointer user_data,
                                         GError **error);
gboolean kafka_producer_send (EventsKafkaProducer *producer, LmtSpan instance, LmtSpan batch, guint64 tag, GError **error);
guint kafka_producer_poll (EventsKafkaProducer *producer, guint timeout_ms);
guint kafka_producer_flush (EventsKafkaProducer *producer, guint timeout_ms);
void kafka_producer_drop_waiting (EventsKafkaProducer *producer);
const char *kafka_producer_last_notice (EventsKafkaProducer *producer);
void kafka_producer_free (EventsKafkaProducer *producer);
EventsKafkaConsumer *kafka_consumer_new (const EventsKafkaConfig *config, GArray *offsets, GMainContext *context,
                                         EventsKafkaRecordFunc record, EventsKafkaNoticeFunc notice, gpointer user_data,
                                         GError **error);
void kafka_consumer_free (EventsKafkaConsumer *consumer);

G_END_DECLS
