// SPDX-License-Identifier: Apache-2.0
/* A Kafka cluster for tests of commands: prints its addresses, then does what the lines on stdin say, one answer line each:
 *   topic NAME PARTITIONS · error REQUEST CODE TIMES · down BROKER · up BROKER · rtt BROKER MS
 *   put NAME PARTITION KEY VALUE (to the line's end) · records NAME (a line of JSON each, then `end`) · committed GROUP NAME
 * It ends with its stdin. */
#include "mock-kafka.h"

#include <lmtrace/lmtrace.h>
#include <stdio.h>
#include <string.h>

static rd_kafka_t *
client (const MockKafka *mock, rd_kafka_type_t type, const char *group)
{
  rd_kafka_conf_t *const conf = rd_kafka_conf_new ();
  const char *const pairs[] = { "bootstrap.servers",
                                mock_kafka_servers (mock),
                                "enable.partition.eof",
                                "true",
                                "auto.offset.reset",
                                "earliest",
                                "enable.auto.commit",
                                "false",
                                "log_level",
                                "0" };
  char said[512];

  for (guint i = 0; i < G_N_ELEMENTS (pairs); i += 2)
    if (type == RD_KAFKA_CONSUMER || i == 0 || i == 8)
      g_assert_cmpint (rd_kafka_conf_set (conf, pairs[i], pairs[i + 1], said, sizeof said), ==, RD_KAFKA_CONF_OK);
  if (group != NULL)
    g_assert_cmpint (rd_kafka_conf_set (conf, "group.id", group, said, sizeof said), ==, RD_KAFKA_CONF_OK);
  rd_kafka_t *const kafka = rd_kafka_new (type, conf, said, sizeof said);
  g_assert_nonnull (kafka);
  return kafka;
}

static int
partitions_of (rd_kafka_t *kafka, const char *name)
{
  rd_kafka_topic_t *const topic = rd_kafka_topic_new (kafka, name, NULL);
  const struct rd_kafka_metadata *metadata;
  int n;

  g_assert_cmpint (rd_kafka_metadata (kafka, 0, topic, &metadata, 10000), ==, RD_KAFKA_RESP_ERR_NO_ERROR);
  n = metadata->topics[0].partition_cnt;
  rd_kafka_metadata_destroy (metadata);
  rd_kafka_topic_destroy (topic);
  return n;
}

static void
print_record (const rd_kafka_message_t *message)
{
  g_autoptr (GString) line = g_string_new (NULL);
  LmtJsonWriter *const out = lmt_json_writer_new (line, LMT_JSON_STYLE_COMPACT);

  lmt_json_writer_begin_object (out);
  lmt_json_writer_key (out, "partition");
  lmt_json_writer_int (out, message->partition);
  lmt_json_writer_key (out, "offset");
  lmt_json_writer_int (out, message->offset);
  lmt_json_writer_key (out, "key");
  lmt_json_writer_string_len (out, message->key, message->key_len);
  lmt_json_writer_key (out, "value");
  lmt_json_writer_string_len (out, message->payload, message->len);
  lmt_json_writer_end_object (out);
  lmt_json_writer_free (out);
  puts (line->str);
}

static void
print_records (const MockKafka *mock, const char *name)
{
  rd_kafka_t *const kafka = client (mock, RD_KAFKA_CONSUMER, "reader");
  const int n = partitions_of (kafka, name);
  rd_kafka_topic_partition_list_t *const list = rd_kafka_topic_partition_list_new (n);
  int ended = 0;

  for (int i = 0; i < n; i++)
    rd_kafka_topic_partition_list_add (list, name, i)->offset = RD_KAFKA_OFFSET_BEGINNING;
  rd_kafka_assign (kafka, list);
  rd_kafka_topic_partition_list_destroy (list);
  while (ended < n)
    {
      rd_kafka_message_t *const message = rd_kafka_consumer_poll (kafka, 10000);
      g_assert_nonnull (message);
      if (message->err == RD_KAFKA_RESP_ERR__PARTITION_EOF)
        ended++;
      else if (message->err == RD_KAFKA_RESP_ERR_NO_ERROR)
        print_record (message);
      rd_kafka_message_destroy (message);
    }
  rd_kafka_consumer_close (kafka);
  rd_kafka_destroy (kafka);
  puts ("end");
}

/* How many partitions the group has a committed offset of. */
static void
print_committed (const MockKafka *mock, const char *group, const char *name)
{
  rd_kafka_t *const kafka = client (mock, RD_KAFKA_CONSUMER, group);
  const int n = partitions_of (kafka, name);
  rd_kafka_topic_partition_list_t *const list = rd_kafka_topic_partition_list_new (n);
  int committed = 0;

  for (int i = 0; i < n; i++)
    rd_kafka_topic_partition_list_add (list, name, i);
  g_assert_cmpint (rd_kafka_committed (kafka, list, 10000), ==, RD_KAFKA_RESP_ERR_NO_ERROR);
  for (int i = 0; i < list->cnt; i++)
    committed += list->elems[i].offset >= 0;
  rd_kafka_topic_partition_list_destroy (list);
  rd_kafka_consumer_close (kafka);
  rd_kafka_destroy (kafka);
  printf ("%d\n", committed);
}

static void
put_record (const MockKafka *mock, const char *topic, int partition, const char *key, const char *value)
{
  rd_kafka_t *const kafka = client (mock, RD_KAFKA_PRODUCER, NULL);

  g_assert_cmpint (rd_kafka_producev (kafka, RD_KAFKA_V_TOPIC (topic), RD_KAFKA_V_PARTITION (partition),
                                      RD_KAFKA_V_KEY (key, strlen (key)), RD_KAFKA_V_VALUE ((void *)value, strlen (value)),
                                      RD_KAFKA_V_MSGFLAGS (RD_KAFKA_MSG_F_COPY), RD_KAFKA_V_END),
                   ==, RD_KAFKA_RESP_ERR_NO_ERROR);
  g_assert_cmpint (rd_kafka_flush (kafka, 10000), ==, RD_KAFKA_RESP_ERR_NO_ERROR);
  rd_kafka_destroy (kafka);
  puts ("ok");
}

static void
obey (const MockKafka *mock, char *line)
{
  g_auto (GStrv) words = g_strsplit (g_strchomp (line), " ", 5);
  const guint n = g_strv_length (words);
  int code = RD_KAFKA_RESP_ERR__INVALID_ARG;

  if (n == 5 && g_str_equal (words[0], "put"))
    {
      put_record (mock, words[1], atoi (words[2]), words[3], words[4]);
      return;
    }
  if (n == 2 && g_str_equal (words[0], "records"))
    {
      print_records (mock, words[1]);
      return;
    }
  if (n == 3 && g_str_equal (words[0], "committed"))
    {
      print_committed (mock, words[1], words[2]);
      return;
    }
  if (n == 3 && g_str_equal (words[0], "topic"))
    code = rd_kafka_mock_topic_create (mock->cluster, words[1], atoi (words[2]), 1);
  else if (n == 2 && g_str_equal (words[0], "down"))
    code = rd_kafka_mock_broker_set_down (mock->cluster, atoi (words[1]));
  else if (n == 2 && g_str_equal (words[0], "up"))
    code = rd_kafka_mock_broker_set_up (mock->cluster, atoi (words[1]));
  else if (n == 3 && g_str_equal (words[0], "rtt"))
    code = rd_kafka_mock_broker_set_rtt (mock->cluster, atoi (words[1]), atoi (words[2]));
  else if (n == 4 && g_str_equal (words[0], "error"))
    {
      for (int i = 0; i < atoi (words[3]); i++)
        rd_kafka_mock_push_request_errors (mock->cluster, (int16_t)atoi (words[1]), 1, atoi (words[2]));
      code = 0;
    }
  puts (code == RD_KAFKA_RESP_ERR_NO_ERROR ? "ok" : rd_kafka_err2str ((rd_kafka_resp_err_t)code));
}

int
main (int argc, char **argv)
{
  MockKafka mock;
  char *line = NULL;
  size_t room = 0;

  mock_kafka_start (&mock, argc > 1 ? atoi (argv[1]) : 3);
  puts (mock_kafka_servers (&mock));
  fflush (stdout);
  while (getline (&line, &room, stdin) > 0)
    {
      obey (&mock, line);
      fflush (stdout);
    }
  free (line);
  mock_kafka_stop (&mock);
  return 0;
}
