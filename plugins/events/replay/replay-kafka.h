// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "replay-lane.h"

G_BEGIN_DECLS

/**
 * ReplayKafka: batches to a Kafka topic in the form a coordinator's Kafka source reads (R22). A job holds one batch, its body
 * that batch's JSON alone. Delivered is acknowledged. Threads: the main one.
 */
ReplayKafka *replay_kafka_new (const ReplayConfig *config, const volatile gint *interrupts, GError **error);
/* What waits is dropped. */
void replay_kafka_free (ReplayKafka *kafka);
/* It comes back by replay_kafka_take_done(), delivered or not. */
void replay_kafka_submit (ReplayKafka *kafka, ReplayJob *job);
/* NULL: none within @timeout_ms. */
ReplayJob *replay_kafka_take_done (ReplayKafka *kafka, guint timeout_ms);
/* Jobs the producer has. */
guint replay_kafka_count_on_way (const ReplayKafka *kafka);
/* Nothing that waits is sent any more; all comes back. */
void replay_kafka_drop (ReplayKafka *kafka);

G_END_DECLS
