/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A Kafka cluster inside of the test program (librdkafka's own): others get its addresses. */
#include <glib.h>

#include <librdkafka/rdkafka.h>
#include <librdkafka/rdkafka_mock.h>

typedef struct
{
  rd_kafka_t *owner;
  rd_kafka_mock_cluster_t *cluster;
} MockKafka;

enum
{
  MOCK_PRODUCE = 0, /* request types, as Kafka numbers them */
  MOCK_FETCH = 1,
  MOCK_METADATA = 3,
  MOCK_OFFSET_COMMIT = 8,
  MOCK_JOIN_GROUP = 11,
};

static inline void
mock_kafka_start (MockKafka *mock, int brokers)
{
  char said[512];
  rd_kafka_conf_t *const conf = rd_kafka_conf_new ();

  g_assert_cmpint (rd_kafka_conf_set (conf, "client.id", "mock", said, sizeof said), ==, RD_KAFKA_CONF_OK);
  g_assert_cmpint (rd_kafka_conf_set (conf, "log_level", "0", said, sizeof said), ==, RD_KAFKA_CONF_OK);
  mock->owner = rd_kafka_new (RD_KAFKA_PRODUCER, conf, said, sizeof said);
  g_assert_nonnull (mock->owner);
  mock->cluster = rd_kafka_mock_cluster_new (mock->owner, brokers);
  g_assert_nonnull (mock->cluster);
}

static inline const char *
mock_kafka_servers (const MockKafka *mock)
{
  return rd_kafka_mock_cluster_bootstraps (mock->cluster);
}

static inline void
mock_kafka_stop (MockKafka *mock)
{
  rd_kafka_mock_cluster_destroy (mock->cluster);
  rd_kafka_destroy (mock->owner);
}
