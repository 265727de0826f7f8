/* SPDX-License-Identifier: Apache-2.0 */

/* A level of somebody else's, as one would write it from the installed headers alone: message queue traces, two calls
 * {topic: str, bytes: int}, a queue per topic. */
#include <lmtrace/lmt-plugin.h>

#include <string.h>

#define MAX_TOPICS 16

typedef struct
{
  guint64 depth;
  guint32 keep_going;
} MqConfig;

static const LmtOption mq_options[] = {
  LMT_OPTION (UINT, "mq-depth", MqConfig, depth, "2", "1..1000", "Messages a topic holds"),
  LMT_OPTION (BOOL, "mq-keep-going", MqConfig, keep_going, NULL, NULL, "Count a pop from an empty topic as ok"),
  LMT_OPTION_END,
};

typedef struct
{
  char name[32];
  guint64 waiting;
} MqTopic;

typedef struct
{
  MqConfig config;
  const LmtClock *clock;
  MqTopic topics[MAX_TOPICS];
  guint n_topics;
  guint64 most_waiting;
  gboolean dry;
} MqSession;

typedef struct
{
  LmtSpan topic;
  guint64 bytes;
} MqCall;

/* -------- decoding, shared by info and replay -------- */

static gboolean
mq_decode (const LmtRecord *record, MqCall *call, LmtFault *fault)
{
  LmtCursor cursor;
  guint32 pairs;
  gboolean has_topic = FALSE;

  memset (call, 0, sizeof *call);
  lmt_cursor_init (&cursor, record->args);
  if (!lmt_cursor_read_map (&cursor, &pairs))
    return FALSE;
  for (guint32 i = 0; i < pairs; i++)
    {
      LmtSpan key;

      if (!lmt_cursor_read_str (&cursor, &key))
        return FALSE;
      if (LMT_SPAN_IS (key, "topic"))
        {
          has_topic = lmt_cursor_read_str (&cursor, &call->topic);
          if (!has_topic || call->topic.len == 0 || call->topic.len >= sizeof (((MqTopic *)NULL)->name))
            {
              fault->where = "args.topic";
              fault->reason = "wrong-type";
              fault->expected = "str of 1 to 31 bytes";
              return FALSE;
            }
        }
      else if (LMT_SPAN_IS (key, "bytes"))
        {
          if (!lmt_cursor_read_uint (&cursor, &call->bytes))
            {
              fault->where = "args.bytes";
              fault->reason = "wrong-type";
              fault->expected = "integer";
              return FALSE;
            }
        }
      else if (!lmt_cursor_skip (&cursor))
        return FALSE;
    }
  if (!has_topic)
    {
      fault->where = "args";
      fault->reason = "missing-field";
      fault->expected = "topic";
    }
  return has_topic;
}

/* -------- info -------- */

typedef struct
{
  guint64 pushes;
  guint64 pops;
  guint64 bytes;
} MqInfo;

static gpointer
mq_info_new (const LmtHeader *header)
{
  return g_new0 (MqInfo, 1);
}

static void
mq_info_record (gpointer data, const LmtRecord *record)
{
  MqInfo *info = data;
  LmtFault fault = { 0 };
  MqCall call;

  if (LMT_SPAN_IS (record->qualname, "Mq.push"))
    info->pushes++;
  else if (LMT_SPAN_IS (record->qualname, "Mq.pop"))
    info->pops++;
  if (mq_decode (record, &call, &fault))
    info->bytes += call.bytes;
}

static void
mq_info_finish (gpointer data, const LmtInfoOut *out)
{
  const MqInfo *info = data;

  g_string_append_printf (out->text,
                          "  queue:\n    pushes: %" G_GUINT64_FORMAT "\n    pops: %" G_GUINT64_FORMAT
                          "\n    bytes: %" G_GUINT64_FORMAT "\n",
                          info->pushes, info->pops, info->bytes);
  if (out->json != NULL)
    {
      lmt_json_writer_key (out->json, "queue_bytes");
      lmt_json_writer_uint (out->json, info->bytes);
    }
}

/* -------- replay -------- */

static gpointer
mq_configure (const LmtReplayEnv *env, GError **error)
{
  MqSession *session = g_new0 (MqSession, 1);

  session->config = *(const MqConfig *)env->config;
  session->clock = env->clock;
  session->dry = env->dry_run != 0;
  return session;
}

static gboolean
mq_start (gpointer data, GError **error)
{
  return TRUE;
}

static MqTopic *
mq_topic (MqSession *session, LmtSpan name)
{
  for (guint i = 0; i < session->n_topics; i++)
    if (lmt_span_equal_str (name, session->topics[i].name, strlen (session->topics[i].name)))
      return &session->topics[i];
  if (session->n_topics == MAX_TOPICS)
    return NULL;
  memcpy (session->topics[session->n_topics].name, name.data, name.len);
  return &session->topics[session->n_topics++];
}

static guint32
mq_call (MqSession *session, const LmtRecord *record, LmtOutcome *outcome, gboolean push)
{
  MqTopic *topic;
  MqCall call;

  if (!mq_decode (record, &call, &outcome->fault))
    return LMT_STATUS_UNDECODABLE;
  if (session->dry)
    return LMT_STATUS_OK;
  outcome->start_ns = lmt_clock_now (session->clock);
  topic = mq_topic (session, call.topic);
  if (topic == NULL)
    outcome->error = "too many topics";
  else if (push && topic->waiting == session->config.depth)
    outcome->error = "topic is full";
  else if (push)
    {
      topic->waiting++;
      session->most_waiting = MAX (session->most_waiting, topic->waiting);
    }
  else if (topic->waiting > 0)
    topic->waiting--;
  else if (session->config.keep_going == 0)
    outcome->error = "topic is empty";
  outcome->end_ns = lmt_clock_now (session->clock);
  outcome->bytes = call.bytes;
  return outcome->error == NULL ? LMT_STATUS_OK : LMT_STATUS_FAILED;
}

static guint32
mq_push (gpointer session, const LmtRecord *record, LmtOutcome *outcome)
{
  return mq_call (session, record, outcome, TRUE);
}

static guint32
mq_pop (gpointer session, const LmtRecord *record, LmtOutcome *outcome)
{
  return mq_call (session, record, outcome, FALSE);
}

static void
mq_report (gpointer data, LmtReport *report)
{
  const MqSession *session = data;
  LmtSection *section = lmt_report_add_section (report, "queues", "Queues", TRUE);

  lmt_section_add_int (section, "topics", "Topics", session->n_topics);
  lmt_section_add_int (section, "most_waiting", "Most waiting", (gint64)session->most_waiting);
}

static const LmtLevelOps mq_level = {
  .struct_size = sizeof (LmtLevelOps),
  .name = "demo-mq",
  .summary = "Message queue traces",
  .options = mq_options,
  .config_size = sizeof (MqConfig),
  .info_new = mq_info_new,
  .info_record = mq_info_record,
  .info_finish = mq_info_finish,
  .info_free = g_free,
  .configure = mq_configure,
  .start = mq_start,
  .report = mq_report,
  .free = g_free,
};

static const LmtHandlerOps mq_handlers[] = {
  { sizeof (LmtHandlerOps), 0, "demo-mq", "Mq.push", mq_push },
  { sizeof (LmtHandlerOps), 0, "demo-mq", "Mq.pop", mq_pop },
};

static gboolean
mq_load (LmtRegistrar *registrar, GError **error)
{
  if (!lmt_registrar_add_level (registrar, &mq_level, error))
    return FALSE;
  for (guint i = 0; i < G_N_ELEMENTS (mq_handlers); i++)
    if (!lmt_registrar_add_handler (registrar, &mq_handlers[i], error))
      return FALSE;
  return TRUE;
}

LMT_PLUGIN_DEFINE ("level-demo-mq", "0.0.1", "Apache-2.0", "A level that lmtrace does not know", mq_load, NULL)
