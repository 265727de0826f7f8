// SPDX-License-Identifier: Apache-2.0
/* Producer and consumer against a cluster in this program. */
#include "events-kafka.h"
#include "mock-kafka.h"

#include <string.h>

static LmtSpan
span_of (const char *text)
{
  return (LmtSpan){ (const guint8 *)text, strlen (text) };
}

/* ---- producer ---- */

typedef struct
{
  guint delivered, failed, timed_out;
  guint64 last_tag[4]; /* of the instance tag % 4: reports of one come in order */
  gint32 partition[4];
  char *error;
} Reports;

static void
on_report (const EventsKafkaReport *report, gpointer user_data)
{
  Reports *const reports = user_data;
  const guint instance = (guint)(report->tag % 4);

  if (report->error == NULL)
    {
      g_assert_cmpuint (report->tag, >, reports->last_tag[instance]);
      if (reports->last_tag[instance] > 0)
        g_assert_cmpint (report->partition, ==, reports->partition[instance]);
      reports->last_tag[instance] = report->tag;
      reports->partition[instance] = report->partition;
      reports->delivered++;
      return;
    }
  reports->failed++;
  reports->timed_out += report->timed_out;
  if (reports->error == NULL)
    reports->error = g_strdup (report->error);
}

/* Records tag @from … @to - 1 to @topic, each of instance tag % 4. */
static void
send_some (EventsKafkaProducer *producer, guint64 from, guint64 to)
{
  for (guint64 tag = from; tag < to; tag++)
    {
      g_autofree char *instance = g_strdup_printf ("node-%" G_GUINT64_FORMAT, tag % 4);
      g_autofree char *batch = g_strdup_printf ("{\"instance_id\":\"%s\",\"seq\":%" G_GUINT64_FORMAT "}", instance, tag);
      g_autoptr (GError) error = NULL;

      g_assert_true (events_kafka_producer_send (producer, span_of (instance), span_of (batch), tag, &error));
      g_assert_no_error (error);
    }
}

static void
produce (const MockKafka *mock, const char *topic, guint64 from, guint64 to, Reports *reports)
{
  const EventsKafkaConfig config = { .bootstrap_servers = mock_kafka_servers (mock), .topic = topic, .max_waiting = 50 };
  g_autoptr (GError) error = NULL;
  EventsKafkaProducer *const producer = events_kafka_producer_new (&config, on_report, reports, &error);

  g_assert_no_error (error);
  send_some (producer, from, to);
  g_assert_cmpuint (events_kafka_producer_flush (producer, 20000), ==, 0);
  events_kafka_producer_free (producer);
}

/* ---- consumer ---- */

typedef struct
{
  GMainLoop *loop;
  GArray *offsets;
  guint records, wanted;
  guint64 next_seq[4]; /* the least a record of this instance may have */
  guint64 per_instance[4];
  GString *notices;
  guint errors;
} Consumed;

static void
on_record (const EventsKafkaRecord *record, gpointer user_data)
{
  Consumed *const consumed = user_data;
  g_autofree char *value = g_strndup ((const char *)record->value.data, record->value.len);
  g_autofree char *key = g_strndup ((const char *)record->key.data, record->key.len);
  g_autofree char *form = NULL;
  const guint instance = (guint)g_ascii_digit_value (key[5]);
  guint64 seq;

  g_assert_true (g_str_has_prefix (key, "node-") && instance < 4);
  seq = g_ascii_strtoull (strstr (value, "\"seq\":") + 6, NULL, 10);
  form = g_strdup_printf ("{\"batches\":[{\"instance_id\":\"%s\",\"seq\":%" G_GUINT64_FORMAT "}]}", key, seq);
  g_assert_cmpstr (value, ==, form);
  g_assert_cmpuint (seq % 4, ==, instance);
  g_assert_cmpuint (seq, >=, consumed->next_seq[instance]);
  consumed->next_seq[instance] = seq + 1;
  consumed->per_instance[instance]++;
  if (++consumed->records == consumed->wanted)
    g_main_loop_quit (consumed->loop);
}

static void
on_notice (gboolean is_error, const char *text, gpointer user_data)
{
  Consumed *const consumed = user_data;

  g_test_message ("%s: %s", is_error ? "error" : "info", text);
  g_string_append_printf (consumed->notices, "%s\n", text);
  consumed->errors += is_error;
}

static void
clear_offset (gpointer offset)
{
  g_free (((EventsKafkaOffset *)offset)->topic);
}

static void
consumed_init (Consumed *consumed)
{
  *consumed = (Consumed){ .loop = g_main_loop_new (NULL, FALSE),
                          .offsets = g_array_new (FALSE, FALSE, sizeof (EventsKafkaOffset)),
                          .notices = g_string_new (NULL) };
  g_array_set_clear_func (consumed->offsets, clear_offset);
}

static void
consumed_clear (Consumed *consumed)
{
  g_main_loop_unref (consumed->loop);
  g_array_unref (consumed->offsets);
  g_string_free (consumed->notices, TRUE);
}

static gboolean
on_patience (gpointer user_data)
{
  const Consumed *const consumed = user_data;

  g_error ("%u of %u records came: %s", consumed->records, consumed->wanted, consumed->notices->str);
  return G_SOURCE_REMOVE;
}

/* Until @wanted more records were there, then stops; what else would come within a moment is an error of on_record's order. */
static void
consume (const MockKafka *mock, const char *topic, Consumed *consumed, guint wanted)
{
  const EventsKafkaConfig config = { .bootstrap_servers = mock_kafka_servers (mock), .topic = topic };
  g_autoptr (GError) error = NULL;
  EventsKafkaConsumer *consumer;
  guint patience;

  consumed->records = 0;
  consumed->wanted = wanted;
  consumer = events_kafka_consumer_new (&config, consumed->offsets, NULL, on_record, on_notice, consumed, &error);
  g_assert_no_error (error);
  patience = g_timeout_add_seconds (60, on_patience, consumed);
  g_main_loop_run (consumed->loop);
  g_source_remove (patience);
  events_kafka_consumer_free (consumer);
  while (g_main_context_iteration (NULL, FALSE))
    ;
  g_assert_cmpuint (consumed->records, ==, wanted);
}

static gint64
sum_offsets (const Consumed *consumed)
{
  gint64 sum = 0;

  for (guint i = 0; i < consumed->offsets->len; i++)
    sum += g_array_index (consumed->offsets, EventsKafkaOffset, i).offset + 1;
  return sum;
}

/* ---- tests ---- */

static void
test_there_and_back (void)
{
  MockKafka mock;
  Reports reports = { 0 };
  Consumed consumed;

  mock_kafka_start (&mock, 3);
  g_assert_cmpint (rd_kafka_mock_topic_create (mock.cluster, "t", 5, 1), ==, RD_KAFKA_RESP_ERR_NO_ERROR);
  produce (&mock, "t", 1, 401, &reports);
  g_assert_cmpuint (reports.delivered, ==, 400);
  g_assert_cmpuint (reports.failed, ==, 0);
  consumed_init (&consumed);
  consume (&mock, "t", &consumed, 400);
  for (guint i = 0; i < 4; i++)
    g_assert_cmpuint (consumed.per_instance[i], ==, 100);
  g_assert_cmpint (sum_offsets (&consumed), ==, 400);
  g_assert_nonnull (strstr (consumed.notices->str, "topic t: 5 partitions: 0 from the earliest"));
  /* On from there: nothing twice, nothing left out. */
  produce (&mock, "t", 401, 421, &reports);
  consume (&mock, "t", &consumed, 20);
  g_assert_cmpint (sum_offsets (&consumed), ==, 420);
  for (guint i = 0; i < 4; i++)
    g_assert_cmpuint (consumed.per_instance[i], ==, 105);
  consumed_clear (&consumed);
  mock_kafka_stop (&mock);
}

/* From the checkpoint's offset + 1. */
static void
test_from_offset (void)
{
  MockKafka mock;
  Reports reports = { 0 };
  Consumed consumed;
  EventsKafkaOffset offsets[] = { { NULL, 0, 29 }, { NULL, 0, 3 } };

  mock_kafka_start (&mock, 1);
  g_assert_cmpint (rd_kafka_mock_topic_create (mock.cluster, "one", 1, 1), ==, RD_KAFKA_RESP_ERR_NO_ERROR);
  produce (&mock, "one", 1, 41, &reports);
  consumed_init (&consumed);
  offsets[0].topic = g_strdup ("one");
  offsets[1].topic = g_strdup ("another");
  g_array_append_vals (consumed.offsets, offsets, 2);
  for (guint i = 0; i < 4; i++)
    consumed.next_seq[i] = 31;
  consume (&mock, "one", &consumed, 10);
  g_assert_cmpuint (consumed.offsets->len, ==, 2);
  g_assert_cmpint (g_array_index (consumed.offsets, EventsKafkaOffset, 0).offset, ==, 39);
  g_assert_cmpint (g_array_index (consumed.offsets, EventsKafkaOffset, 1).offset, ==, 3);
  consumed_clear (&consumed);
  mock_kafka_stop (&mock);
}

static gboolean
make_topic (gpointer user_data)
{
  MockKafka *const mock = user_data;
  Reports reports = { 0 };

  rd_kafka_mock_topic_set_error (mock->cluster, "late", RD_KAFKA_RESP_ERR_NO_ERROR);
  produce (mock, "late", 1, 9, &reports);
  return G_SOURCE_REMOVE;
}

/* A topic that isn't there yet is waited for. */
static void
test_late_topic (void)
{
  MockKafka mock;
  Consumed consumed;

  mock_kafka_start (&mock, 1);
  rd_kafka_mock_topic_set_error (mock.cluster, "late", RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART);
  consumed_init (&consumed);
  g_timeout_add (300, make_topic, &mock);
  consume (&mock, "late", &consumed, 8);
  g_assert_nonnull (strstr (consumed.notices->str, "topic late: Broker: Unknown topic or partition; waiting for it"));
  consumed_clear (&consumed);
  mock_kafka_stop (&mock);
}

/* What passes by is repeated inside, in order, and nothing is there twice. */
static void
test_passing_errors (void)
{
  MockKafka mock;
  Reports reports = { 0 };
  Consumed consumed;

  mock_kafka_start (&mock, 3);
  g_assert_cmpint (rd_kafka_mock_topic_create (mock.cluster, "t", 4, 1), ==, RD_KAFKA_RESP_ERR_NO_ERROR);
  rd_kafka_mock_push_request_errors (mock.cluster, MOCK_PRODUCE, 4, RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION,
                                     RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT, RD_KAFKA_RESP_ERR__TRANSPORT,
                                     RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS);
  produce (&mock, "t", 1, 201, &reports);
  g_assert_cmpuint (reports.delivered, ==, 200);
  g_assert_cmpuint (reports.failed, ==, 0);
  rd_kafka_mock_push_request_errors (mock.cluster, MOCK_FETCH, 3, RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION,
                                     RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART, RD_KAFKA_RESP_ERR__TRANSPORT);
  consumed_init (&consumed);
  consume (&mock, "t", &consumed, 200);
  g_assert_cmpint (sum_offsets (&consumed), ==, 200);
  consumed_clear (&consumed);
  mock_kafka_stop (&mock);
}

static void
test_refused (void)
{
  MockKafka mock;
  Reports reports = { 0 };

  mock_kafka_start (&mock, 1);
  g_assert_cmpint (rd_kafka_mock_topic_create (mock.cluster, "t", 1, 1), ==, RD_KAFKA_RESP_ERR_NO_ERROR);
  rd_kafka_mock_push_request_errors (mock.cluster, MOCK_PRODUCE, 1, RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED);
  produce (&mock, "t", 4, 5, &reports);
  g_assert_cmpuint (reports.failed, ==, 1);
  g_assert_cmpuint (reports.timed_out, ==, 0);
  g_assert_nonnull (strstr (reports.error, "uthorization"));
  g_free (reports.error);
  mock_kafka_stop (&mock);
}

/* At once, without a report. */
static void
test_too_large (void)
{
  static const char *const settings[] = { "message.max.bytes=2000", NULL };
  MockKafka mock;
  Reports reports = { 0 };
  g_autoptr (GError) error = NULL;
  g_autofree char *batch = g_strnfill (3000, 'x');

  mock_kafka_start (&mock, 1);
  const EventsKafkaConfig config = { .bootstrap_servers = mock_kafka_servers (&mock), .topic = "t", .settings = settings };
  EventsKafkaProducer *const producer = events_kafka_producer_new (&config, on_report, &reports, &error);
  g_assert_no_error (error);
  g_assert_false (events_kafka_producer_send (producer, span_of ("node-0"), span_of (batch), 1, &error));
  g_assert_error (error, LMT_ERROR, LMT_ERROR_IO);
  g_assert_nonnull (strstr (error->message, "message.max.bytes"));
  g_assert_cmpuint (events_kafka_producer_poll (producer, 0), ==, 0);
  events_kafka_producer_free (producer);
  g_assert_cmpuint (reports.failed, ==, 0);
  mock_kafka_stop (&mock);
}

/* No broker: each record is reported when its time is over, with why; a full producer doesn't wait longer than that, either. */
static void
test_nobody_there (void)
{
  const EventsKafkaConfig config
      = { .bootstrap_servers = "127.0.0.1:1", .topic = "t", .delivery_timeout_ms = 700, .max_waiting = 10 };
  Reports reports = { 0 };
  g_autoptr (GError) error = NULL;
  EventsKafkaProducer *const producer = events_kafka_producer_new (&config, on_report, &reports, &error);

  g_assert_no_error (error);
  send_some (producer, 1, 16);
  g_assert_cmpuint (events_kafka_producer_flush (producer, 20000), ==, 0);
  g_assert_cmpuint (reports.timed_out, ==, 15);
  g_assert_nonnull (strstr (reports.error, "700 ms"));
  g_assert_nonnull (strstr (reports.error, "127.0.0.1:1"));
  g_free (reports.error);
  events_kafka_producer_free (producer);
}

/* An interrupt ends the wait of a full producer; what waits can be dropped. */
static void
test_interrupted (void)
{
  static volatile gint interrupts = 0;
  const EventsKafkaConfig config
      = { .bootstrap_servers = "127.0.0.1:1", .topic = "t", .max_waiting = 3, .interrupts = &interrupts };
  Reports reports = { 0 };
  g_autoptr (GError) error = NULL;
  EventsKafkaProducer *const producer = events_kafka_producer_new (&config, on_report, &reports, &error);

  g_assert_no_error (error);
  send_some (producer, 1, 4);
  g_atomic_int_set (&interrupts, 1);
  g_assert_false (events_kafka_producer_send (producer, span_of ("node-0"), span_of ("{}"), 4, &error));
  g_assert_error (error, LMT_ERROR, LMT_ERROR_INTERRUPTED);
  g_assert_cmpuint (events_kafka_producer_flush (producer, 20000), ==, 3);
  events_kafka_producer_drop_waiting (producer);
  g_assert_cmpuint (events_kafka_producer_poll (producer, 0), ==, 0);
  g_assert_cmpuint (reports.failed, ==, 3);
  g_free (reports.error);
  events_kafka_producer_free (producer);
}

static void
test_settings (void)
{
  static const char *const bad[] = { "no-such-setting=1", "message.max.bytes=x", "nonsense", "=1" };

  for (guint i = 0; i < G_N_ELEMENTS (bad); i++)
    {
      const char *const settings[] = { bad[i], NULL };
      const EventsKafkaConfig config = { .bootstrap_servers = "127.0.0.1:1", .settings = settings };
      g_autoptr (GArray) offsets = g_array_new (FALSE, FALSE, sizeof (EventsKafkaOffset));
      g_autoptr (GError) error = NULL;

      g_assert_null (events_kafka_producer_new (&config, NULL, NULL, &error));
      g_assert_error (error, LMT_ERROR, LMT_ERROR_OPTION);
      g_clear_error (&error);
      g_assert_null (events_kafka_consumer_new (&config, offsets, NULL, on_record, on_notice, NULL, &error));
      g_assert_error (error, LMT_ERROR, LMT_ERROR_OPTION);
    }
}

static gboolean
stop_soon (gpointer user_data)
{
  g_main_loop_quit (user_data);
  return G_SOURCE_REMOVE;
}

/* Nothing there: the error is told, and stopping doesn't wait for it. */
static void
test_consumer_alone (void)
{
  const EventsKafkaConfig config = { .bootstrap_servers = "127.0.0.1:1", .topic = "t" };
  g_autoptr (GError) error = NULL;
  EventsKafkaConsumer *consumer;
  Consumed consumed;

  consumed_init (&consumed);
  consumer = events_kafka_consumer_new (&config, consumed.offsets, NULL, on_record, on_notice, &consumed, &error);
  g_assert_no_error (error);
  g_timeout_add (2500, stop_soon, consumed.loop);
  g_main_loop_run (consumed.loop);
  g_assert_cmpuint (consumed.errors, >, 0);
  g_assert_cmpuint (consumed.records, ==, 0);
  events_kafka_consumer_free (consumer);
  consumed_clear (&consumed);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/events/kafka/there-and-back", test_there_and_back);
  g_test_add_func ("/events/kafka/from-offset", test_from_offset);
  g_test_add_func ("/events/kafka/late-topic", test_late_topic);
  g_test_add_func ("/events/kafka/passing-errors", test_passing_errors);
  g_test_add_func ("/events/kafka/refused", test_refused);
  g_test_add_func ("/events/kafka/too-large", test_too_large);
  g_test_add_func ("/events/kafka/nobody-there", test_nobody_there);
  g_test_add_func ("/events/kafka/interrupted", test_interrupted);
  g_test_add_func ("/events/kafka/settings", test_settings);
  g_test_add_func ("/events/kafka/consumer-alone", test_consumer_alone);
  return g_test_run ();
}
