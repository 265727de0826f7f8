// SPDX-License-Identifier: Apache-2.0
#include "harness.h"

#include <string.h>
#include <time.h>

static const LmtOption harness_options[] = {
  LMT_OPTION (DOUBLE, "speed", Harness, speed, "1", "0..", "Speed"),
  LMT_OPTION (DURATION, "max-gap", Harness, max_gap_ns, NULL, NULL, "Longest gap"),
  LMT_OPTION (COUNT, "limit", Harness, limit, NULL, NULL, "Records"),
  LMT_OPTION (COUNT, "loop", Harness, loops, "1", NULL, "Rounds"),
  LMT_OPTION (DURATION, "drain-timeout", Harness, drain_timeout_ns, "30s", NULL, "Wait for I/O"),
  LMT_OPTION (BOOL, "dry-run", Harness, dry_run, NULL, NULL, "Decode only"),
  LMT_OPTION_END,
};

static Harness *running;

static gint64
thread_cpu_ns (void)
{
  struct timespec time;

  clock_gettime (CLOCK_THREAD_CPUTIME_ID, &time);
  return (gint64)time.tv_sec * 1000000000 + time.tv_nsec;
}

static void
timed_finish (gpointer session, gboolean interrupted)
{
  running->cpu_ns = thread_cpu_ns () - running->cpu_ns;
  running->level->finish (session, interrupted);
}

static gboolean
open_session (Harness *harness, GError **error)
{
  LmtReplayEnv *env = &harness->env;

  harness->timed = *harness->level;
  harness->timed.finish = timed_finish;
  harness->replay = lmt_replay_new (harness->registry, &harness->timed);
  lmt_replay_set_warnings (harness->replay, harness->warnings);
  harness->headers[0] = lmt_reader_get_header (harness->reader);
  env->struct_size = sizeof *env;
  env->n_headers = 1;
  env->registry = harness->registry;
  env->replay = harness->replay;
  env->headers = harness->headers;
  env->options = harness->options;
  env->config = harness->flags;
  env->speed = harness->speed;
  env->dry_run = harness->dry_run;
  env->drain_timeout_ns = harness->drain_timeout_ns;
  env->interrupts = &harness->interrupts;
  harness->session = harness->level->configure (env, error);
  return harness->session != NULL && harness->level->start (harness->session, error);
}

gboolean
harness_open (Harness *harness, const char *const *argv, const LmtClock *clock, GError **error)
{
  g_auto (GStrv) operands = NULL;

  memset (harness, 0, sizeof *harness);
  harness->warnings = lmt_warnings_new ();
  harness->registry = lmt_registry_new ();
  harness->options = lmt_options_new ();
  harness->level = lmt_registry_get_level (harness->registry, "storage", error);
  if (harness->level == NULL)
    return FALSE;
  harness->flags = g_malloc0 (harness->level->config_size);
  lmt_options_add_table (harness->options, harness_options, harness);
  lmt_options_add_table (harness->options, harness->level->options, harness->flags);
  if (!lmt_options_parse_argv (harness->options, argv, TRUE, &operands, error))
    return FALSE;
  if (operands[0] == NULL || operands[1] != NULL)
    {
      g_set_error_literal (error, LMT_ERROR, LMT_ERROR_OPTION, "expected one FILE");
      return FALSE;
    }
  harness->reader = lmt_reader_open (operands[0], error);
  if (harness->reader == NULL || !lmt_reader_read_header (harness->reader, error))
    return FALSE;
  harness->env.clock = clock != NULL ? clock : lmt_clock_real ();
  harness->plan.speed = harness->speed;
  harness->plan.max_gap_ns = harness->max_gap_ns;
  harness->plan.limit = harness->limit;
  harness->plan.loops = harness->loops;
  harness->plan.clock = harness->env.clock;
  harness->plan.interrupts = &harness->interrupts;
  return open_session (harness, error);
}

gboolean
harness_run (Harness *harness, GError **error)
{
  running = harness;
  harness->cpu_ns = thread_cpu_ns ();
  return lmt_replay_run (harness->replay, harness->reader, harness->session, &harness->plan, error);
}

char *
harness_report (Harness *harness, gboolean json)
{
  g_autoptr (LmtReport) report = lmt_report_new ("Storage", LMT_REPORT_WIDTH);
  g_autoptr (GString) text = NULL;
  LmtJsonWriter *writer;

  harness->level->report (harness->session, report);
  if (!json)
    return lmt_report_to_text (report);
  text = g_string_new (NULL);
  writer = lmt_json_writer_new (text, LMT_JSON_STYLE_INDENT);
  lmt_report_write_metrics (report, writer);
  lmt_json_writer_free (writer);
  return g_string_free (g_steal_pointer (&text), FALSE);
}

void
harness_close (Harness *harness)
{
  if (harness->session != NULL)
    harness->level->free (harness->session);
  g_clear_object (&harness->replay);
  g_clear_pointer (&harness->reader, lmt_reader_free);
  g_clear_pointer (&harness->options, lmt_options_free);
  g_clear_pointer (&harness->flags, g_free);
  g_clear_pointer (&harness->warnings, lmt_warnings_free);
  if (harness->registry != NULL)
    lmt_registry_unload (harness->registry);
  g_clear_object (&harness->registry);
}
