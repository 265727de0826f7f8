// SPDX-License-Identifier: Apache-2.0
#pragma once

/* Between events-kafka.c, which is in every build, and lmt-events-kafka.module, which has librdkafka. Both are of one build. */
#include "events-kafka.h"

G_BEGIN_DECLS

#define EVENTS_KAFKA_MODULE "lmt-events-kafka.module"
#define EVENTS_KAFKA_SYMBOL "lmt_events_kafka_ops"

typedef struct
{
  guint32 struct_size;
  guint32 reserved;
  EventsKafkaProducer *(*producer_new) (const EventsKafkaConfig *config, EventsKafkaReportFunc func, gpointer user_data,
                                        GError **error);
  gboolean (*producer_send) (EventsKafkaProducer *producer, LmtSpan instance, LmtSpan batch, guint64 tag, GError **error);
  guint (*producer_poll) (EventsKafkaProducer *producer, guint timeout_ms);
  guint (*producer_flush) (EventsKafkaProducer *producer, guint timeout_ms);
  void (*producer_drop_waiting) (EventsKafkaProducer *producer);
  const char *(*producer_last_notice) (EventsKafkaProducer *producer);
  void (*producer_free) (EventsKafkaProducer *producer);
  EventsKafkaConsumer *(*consumer_new) (const EventsKafkaConfig *config, GArray *offsets, GMainContext *context,
                                        EventsKafkaRecordFunc record, EventsKafkaNoticeFunc notice, gpointer user_data,
                                        GError **error);
  void (*consumer_free) (EventsKafkaConsumer *consumer);
} EventsKafkaOps;

G_END_DECLS
