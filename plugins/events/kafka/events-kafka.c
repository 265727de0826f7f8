// SPDX-License-Identifier: Apache-2.0
/* Finds the module that has librdkafka and passes every call on to it. */
#include "events-kafka-ops.h"

#include <dlfcn.h>
#include <gmodule.h>

static const EventsKafkaOps *kafka_ops;

#ifdef LMT_HAVE_KAFKA

/* Beside the file this code is in (the command's plugin), then in the folders plugins are looked for. */
static char *
module_path (void)
{
  const char *const more = g_getenv ("LMTRACE_PLUGIN_PATH");
  g_auto (GStrv) dirs = g_strsplit (more != NULL ? more : "", ":", -1);
  Dl_info here;

  if (dladdr ((gconstpointer)&kafka_ops, &here) != 0 && here.dli_fname != NULL)
    {
      g_autofree char *dir = g_path_get_dirname (here.dli_fname);
      char *const path = g_build_filename (dir, EVENTS_KAFKA_MODULE, NULL);
      if (g_file_test (path, G_FILE_TEST_EXISTS))
        return path;
      g_free (path);
    }
  for (guint i = 0; dirs[i] != NULL; i++)
    {
      char *const path = g_build_filename (dirs[i], EVENTS_KAFKA_MODULE, NULL);
      if (dirs[i][0] != '\0' && g_file_test (path, G_FILE_TEST_EXISTS))
        return path;
      g_free (path);
    }
  return NULL;
}

static const EventsKafkaOps *
open_module (GError **error)
{
  g_autofree char *path = module_path ();
  g_autoptr (GError) said = NULL;
  gpointer ops = NULL;
  GModule *module;

  if (path == NULL)
    {
      g_set_error (error, LMT_ERROR, LMT_ERROR_UNSUPPORTED, "%s: not found beside the plugins, nor in LMTRACE_PLUGIN_PATH",
                   EVENTS_KAFKA_MODULE);
      return NULL;
    }
  g_autofree char *full = g_canonicalize_filename (path, NULL);
  module = g_module_open_full (full, G_MODULE_BIND_LOCAL, &said);
  if (module == NULL)
    {
      /* The loader's text names the library that is missing. */
      g_set_error (error, LMT_ERROR, LMT_ERROR_UNSUPPORTED, "librdkafka not found: %s", said->message);
      return NULL;
    }
  g_module_make_resident (module);
  if (!g_module_symbol (module, EVENTS_KAFKA_SYMBOL, &ops) || ops == NULL
      || ((const EventsKafkaOps *)ops)->struct_size != sizeof (EventsKafkaOps))
    {
      g_set_error (error, LMT_ERROR, LMT_ERROR_UNSUPPORTED, "%s: of another build of lmtrace", full);
      return NULL;
    }
  return ops;
}

#else

static const EventsKafkaOps *
open_module (GError **error)
{
  g_set_error_literal (error, LMT_ERROR, LMT_ERROR_UNSUPPORTED, "this build has no librdkafka");
  return NULL;
}

#endif

gboolean
events_kafka_check (GError **error)
{
  if (kafka_ops == NULL)
    kafka_ops = open_module (error);
  return kafka_ops != NULL;
}

EventsKafkaProducer *
events_kafka_producer_new (const EventsKafkaConfig *config, EventsKafkaReportFunc func, gpointer user_data, GError **error)
{
  return events_kafka_check (error) ? kafka_ops->producer_new (config, func, user_data, error) : NULL;
}

gboolean
events_kafka_producer_send (EventsKafkaProducer *producer, LmtSpan instance, LmtSpan batch, guint64 tag, GError **error)
{
  return kafka_ops->producer_send (producer, instance, batch, tag, error);
}

guint
events_kafka_producer_poll (EventsKafkaProducer *producer, guint timeout_ms)
{
  return kafka_ops->producer_poll (producer, timeout_ms);
}

guint
events_kafka_producer_flush (EventsKafkaProducer *producer, guint timeout_ms)
{
  return kafka_ops->producer_flush (producer, timeout_ms);
}

void
events_kafka_producer_drop_waiting (EventsKafkaProducer *producer)
{
  kafka_ops->producer_drop_waiting (producer);
}

const char *
events_kafka_producer_last_notice (EventsKafkaProducer *producer)
{
  return kafka_ops->producer_last_notice (producer);
}

void
events_kafka_producer_free (EventsKafkaProducer *producer)
{
  if (producer != NULL)
    kafka_ops->producer_free (producer);
}

EventsKafkaConsumer *
events_kafka_consumer_new (const EventsKafkaConfig *config, GArray *offsets, GMainContext *context, EventsKafkaRecordFunc record,
                           EventsKafkaNoticeFunc notice, gpointer user_data, GError **error)
{
  return events_kafka_check (error) ? kafka_ops->consumer_new (config, offsets, context, record, notice, user_data, error) : NULL;
}

void
events_kafka_consumer_free (EventsKafkaConsumer *consumer)
{
  if (consumer != NULL)
    kafka_ops->consumer_free (consumer);
}
