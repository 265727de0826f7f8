// SPDX-License-Identifier: Apache-2.0
/* The module's table, and what both directions share. */
#include "kafka-private.h"

#include <gmodule.h>
#include <string.h>

enum
{
  NOTICES_MAX = 100,
  NOTICE_AGAIN_US = 10 * G_USEC_PER_SEC, /* the same text isn't said again before */
};

void
kafka_notices_init (KafkaNotices *notices)
{
  g_mutex_init (&notices->lock);
  g_queue_init (&notices->texts);
}

void
kafka_notices_clear (KafkaNotices *notices)
{
  g_queue_clear_full (&notices->texts, g_free);
  g_clear_pointer (&notices->last, g_free);
  g_mutex_clear (&notices->lock);
}

void
kafka_notices_add (KafkaNotices *notices, gboolean is_error, const char *text)
{
  const gint64 now = g_get_monotonic_time ();

  g_mutex_lock (&notices->lock);
  if (notices->texts.length < NOTICES_MAX && (g_strcmp0 (text, notices->last) != 0 || now - notices->last_us > NOTICE_AGAIN_US))
    {
      g_autofree char *valid = g_utf8_make_valid (text, -1);
      g_queue_push_tail (&notices->texts, g_strconcat (is_error ? "E" : "I", valid, NULL));
      g_free (notices->last);
      notices->last = g_strdup (text);
      notices->last_us = now;
    }
  g_mutex_unlock (&notices->lock);
}

gboolean
kafka_notices_any (KafkaNotices *notices)
{
  gboolean any;

  g_mutex_lock (&notices->lock);
  any = notices->texts.length > 0;
  g_mutex_unlock (&notices->lock);
  return any;
}

char *
kafka_notices_pop (KafkaNotices *notices)
{
  char *text;

  g_mutex_lock (&notices->lock);
  text = g_queue_pop_head (&notices->texts);
  g_mutex_unlock (&notices->lock);
  return text;
}

void
kafka_set_error (GError **error, const EventsKafkaConfig *config, const char *what)
{
  g_set_error (error, LMT_ERROR, LMT_ERROR_IO, "kafka %s: %s", config->bootstrap_servers, what);
}

static gboolean
conf_set (rd_kafka_conf_t *conf, const char *name, const char *value, GError **error)
{
  char said[512] = "";

  if (rd_kafka_conf_set (conf, name, value, said, sizeof said) == RD_KAFKA_CONF_OK)
    return TRUE;
  g_set_error (error, LMT_ERROR, LMT_ERROR_OPTION, "kafka setting %s: %s", name, said);
  return FALSE;
}

static gboolean
conf_set_own (rd_kafka_conf_t *conf, const char *setting, GError **error)
{
  const char *const equals = strchr (setting, '=');

  if (equals == NULL || equals == setting)
    {
      g_set_error (error, LMT_ERROR, LMT_ERROR_OPTION, "kafka setting: expected NAME=VALUE, found \"%s\"", setting);
      return FALSE;
    }
  g_autofree char *name = g_strndup (setting, (gsize)(equals - setting));
  return conf_set (conf, name, equals + 1, error);
}

rd_kafka_conf_t *
kafka_conf_new (const EventsKafkaConfig *config, const char *const *pairs, gpointer opaque, GError **error)
{
  rd_kafka_conf_t *const conf = rd_kafka_conf_new ();
  gboolean good = conf_set (conf, "bootstrap.servers", config->bootstrap_servers, error);

  for (guint i = 0; good && pairs[i] != NULL; i += 2)
    good = conf_set (conf, pairs[i], pairs[i + 1], error);
  for (guint i = 0; good && config->settings != NULL && config->settings[i] != NULL; i++)
    good = conf_set_own (conf, config->settings[i], error);
  if (!good)
    {
      rd_kafka_conf_destroy (conf);
      return NULL;
    }
  rd_kafka_conf_set_opaque (conf, opaque);
  return conf;
}

extern G_MODULE_EXPORT const EventsKafkaOps lmt_events_kafka_ops;
const EventsKafkaOps lmt_events_kafka_ops = {
  .struct_size = sizeof (EventsKafkaOps),
  .producer_new = kafka_producer_new,
  .producer_send = kafka_producer_send,
  .producer_poll = kafka_producer_poll,
  .producer_flush = kafka_producer_flush,
  .producer_drop_waiting = kafka_producer_drop_waiting,
  .producer_last_notice = kafka_producer_last_notice,
  .producer_free = kafka_producer_free,
  .consumer_new = kafka_consumer_new,
  .consumer_free = kafka_consumer_free,
};
