/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A level of the tests' own: what `replay` does with a level it has never heard of. Records say in their arguments what becomes
 * of them, so that every outcome, a late completion and a drain that never ends can be had on demand.
 */
#include <lmtrace/lmt-plugin.h>

#define NS_PER_MS 1000000

typedef struct
{
  char *demo_name;
  gint64 demo_count;
  guint32 demo_switch;
  guint32 demo_fail_configure;
  guint32 demo_fail_start;
  guint32 demo_threshold;
  char *demo_row;
} DemoConfig;

typedef struct
{
  guint64 number; /* 0: free */
  gint64 due_ns;
} Late;

enum
{
  MAX_LATE = 64
};

typedef struct
{
  const LmtReplayEnv *env;
  const DemoConfig *config;
  Late late[MAX_LATE];
  guint64 calls;
  guint64 unsettled;
  gboolean finished;
} DemoSession;

#define ROW(kind, key, member, flags, def, range, help)                                                                          \
  LMT_OPTION_FULL (kind, key, DemoConfig, member, flags, def, range, NULL, help, "Demo")
static const LmtOption demo_options[] = {
  ROW (STRING, "demo-name", demo_name, 0, "none", NULL, "Name the run"),
  ROW (INT, "demo-count", demo_count, 0, "3", "1..9", "Count something"),
  ROW (BOOL, "demo-switch", demo_switch, 0, NULL, NULL, "Switch something on"),
  ROW (BOOL, "demo-fail-configure", demo_fail_configure, 0, NULL, NULL, "Refuse the configuration"),
  ROW (BOOL, "demo-fail-start", demo_fail_start, 0, NULL, NULL, "Refuse to start"),
  ROW (BOOL, "demo-threshold", demo_threshold, 0, NULL, NULL, "Miss a threshold"),
  ROW (STRING, "demo-row", demo_row, 0, NULL, NULL, "Show a digest row"),
  LMT_OPTION_END,
};

static gpointer
demo_configure (const LmtReplayEnv *env, GError **error)
{
  const DemoConfig *config = env->config;
  if (config->demo_fail_configure)
    {
      g_set_error (error, LMT_ERROR, LMT_ERROR_OPTION, "--demo-fail-configure: expected another day, found this one");
      return NULL;
    }
  DemoSession *session = g_new0 (DemoSession, 1);
  session->env = env;
  session->config = config;
  return session;
}

static gboolean
demo_start (gpointer data, GError **error)
{
  DemoSession *session = data;
  if (!session->config->demo_fail_start)
    return TRUE;
  g_set_error (error, LMT_ERROR, LMT_ERROR_IO, "--demo-fail-start: expected a resource, found none");
  return FALSE;
}

static void
demo_free (gpointer data)
{
  g_free (data);
}

/* Hands in what is due; returns when the next one is, or G_MAXINT64. */
static gint64
reap (DemoSession *session, gint64 now_ns)
{
  gint64 next_ns = G_MAXINT64;
  for (guint i = 0; i < MAX_LATE; i++)
    {
      Late *late = &session->late[i];
      if (late->number == 0)
        continue;
      if (late->due_ns > now_ns)
        {
          next_ns = MIN (next_ns, late->due_ns);
          continue;
        }
      lmt_replay_complete (session->env->replay, late->number, late->due_ns, LMT_STATUS_OK, 100, NULL);
      late->number = 0;
    }
  return next_ns;
}

static gboolean
demo_wait (gpointer data, gint64 due_ns, gint64 trace_ns)
{
  DemoSession *session = data;
  const LmtClock *clock = session->env->clock;
  for (;;)
    {
      gint64 now_ns = lmt_clock_now (clock);
      gint64 next_ns = reap (session, now_ns);
      if (*session->env->interrupts > 0)
        return FALSE;
      if (now_ns >= due_ns)
        return TRUE;
      lmt_replay_tick (session->env->replay);
      clock->sleep_until_ns (clock->data, MIN (MIN (due_ns, next_ns), now_ns + 50 * NS_PER_MS), NULL, 0);
    }
}

static void
demo_finish (gpointer data, gboolean interrupted)
{
  DemoSession *session = data;
  const LmtClock *clock = session->env->clock;
  gint64 give_up_ns = lmt_clock_now (clock) + session->env->drain_timeout_ns;
  gint64 now_ns;
  session->finished = TRUE;
  while ((now_ns = lmt_clock_now (clock)) < give_up_ns && *session->env->interrupts < 2)
    {
      gint64 next_ns = reap (session, now_ns);
      if (next_ns == G_MAXINT64)
        return;
      clock->sleep_until_ns (clock->data, MIN (MIN (give_up_ns, next_ns), now_ns + 50 * NS_PER_MS), NULL, 0);
    }
  for (guint i = 0; i < MAX_LATE; i++)
    session->unsettled += session->late[i].number != 0;
}

static void
demo_report (gpointer data, LmtReport *report)
{
  DemoSession *session = data;
  if (session->unsettled > 0)
    lmt_section_add_int (lmt_report_ensure_section (report, "status", "Status"), "unsettled", "Calls unsettled",
                         (gint64)session->unsettled);
  LmtSection *section = lmt_report_add_section (report, "demo", "Demo", TRUE);
  lmt_section_add_int (section, "calls", "Calls", (gint64)session->calls);
  lmt_section_add_string (section, "name", "Name", session->config->demo_name);
}

static char *
demo_digest_row (gpointer data, guint file)
{
  DemoSession *session = data;
  return g_strdup (session->config->demo_row);
}

static int
demo_exit_code (gpointer data)
{
  DemoSession *session = data;
  if (!session->config->demo_threshold)
    return 0;
  lmt_replay_message (session->env->replay, "demo-threshold", "demo threshold: expected more, found less");
  return 1;
}

static void
demo_progress (gpointer data, char *out)
{
  DemoSession *session = data;
  g_snprintf (out, 64, "demo calls %" G_GUINT64_FORMAT, session->calls);
}

static gboolean
demo_is_settled (gpointer data)
{
  return TRUE;
}

static const char *
demo_clock_word (gpointer data)
{
  return "demo time";
}

static const LmtLevelOps demo_level = {
  .struct_size = sizeof (LmtLevelOps),
  .name = "demo",
  .summary = "Level of the tests",
  .options = demo_options,
  .config_size = sizeof (DemoConfig),
  .configure = demo_configure,
  .start = demo_start,
  .wait = demo_wait,
  .finish = demo_finish,
  .report = demo_report,
  .digest_row = demo_digest_row,
  .exit_code = demo_exit_code,
  .free = demo_free,
  .progress = demo_progress,
  .clock_word = demo_clock_word,
  .is_settled = demo_is_settled,
};

static const LmtLevelOps elsewhere_level = {
  .struct_size = sizeof (LmtLevelOps),
  .name = "elsewhere",
  .summary = "A level another command replays",
  .replay_command = "replay-elsewhere",
};

static guint32
remember (DemoSession *session, const LmtRecord *record, LmtOutcome *outcome, guint64 ms)
{
  for (guint i = 0; i < MAX_LATE; i++)
    if (session->late[i].number == 0)
      {
        session->late[i] = (Late){ record->number, outcome->start_ns + (gint64)ms * NS_PER_MS };
        outcome->pending = 1;
        return LMT_STATUS_OK;
      }
  outcome->error = "too many late calls";
  return LMT_STATUS_FAILED;
}

/* {"do": "ok|fail|mismatch|undecodable|missing|late", "ms": milliseconds of a late one} */
static guint32
demo_call (gpointer data, const LmtRecord *record, LmtOutcome *outcome)
{
  DemoSession *session = data;
  LmtSpan what = { NULL, 0 };
  guint64 ms = 0;
  guint32 pairs = 0;
  LmtCursor cursor;

  lmt_cursor_init (&cursor, record->args);
  lmt_cursor_read_map (&cursor, &pairs);
  for (guint32 i = 0; i < pairs; i++)
    {
      LmtSpan key = { NULL, 0 };
      lmt_cursor_read_str (&cursor, &key);
      gboolean taken = (LMT_SPAN_IS (key, "do") && lmt_cursor_read_str (&cursor, &what))
                       || (LMT_SPAN_IS (key, "ms") && lmt_cursor_read_uint (&cursor, &ms));
      if (!taken)
        lmt_cursor_skip (&cursor);
    }
  session->calls++;
  outcome->start_ns = lmt_clock_now (session->env->clock);
  outcome->end_ns = outcome->start_ns + 1000;
  outcome->bytes = 10;
  if (LMT_SPAN_IS (what, "ok"))
    return LMT_STATUS_OK;
  if (LMT_SPAN_IS (what, "late"))
    return remember (session, record, outcome, ms);
  outcome->error = "as the record asks";
  if (LMT_SPAN_IS (what, "fail"))
    return LMT_STATUS_FAILED;
  if (LMT_SPAN_IS (what, "mismatch"))
    return LMT_STATUS_MISMATCH;
  outcome->error = NULL;
  outcome->missing_argument = LMT_SPAN_IS (what, "missing");
  outcome->fault.reason = "bad value";
  outcome->fault.where = "args.do";
  return LMT_STATUS_UNDECODABLE;
}

static const LmtHandlerOps demo_handlers[] = {
  { sizeof (LmtHandlerOps), 0, "demo", "demo.Service.call", demo_call },
  { sizeof (LmtHandlerOps), 0, "demo", "demo.Service.other", demo_call },
  { sizeof (LmtHandlerOps), 0, "demo", "demo.Service.context.__enter__", demo_call },
};

static gboolean
demo_load (LmtRegistrar *registrar, GError **error)
{
  if (!lmt_registrar_add_level (registrar, &demo_level, error) || !lmt_registrar_add_level (registrar, &elsewhere_level, error))
    return FALSE;
  for (guint i = 0; i < G_N_ELEMENTS (demo_handlers); i++)
    if (!lmt_registrar_add_handler (registrar, &demo_handlers[i], error))
      return FALSE;
  return TRUE;
}

LMT_PLUGIN_DEFINE ("level-demo", "0.1.0", "Apache-2.0", "Level of the tests", demo_load, NULL)
