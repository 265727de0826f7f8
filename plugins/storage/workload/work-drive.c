// SPDX-License-Identifier: Apache-2.0
#include "work-drive.h"

#include <sys/stat.h>

#include "../../../cli/cli-progress.h"
#include "work-caller.h"
#include "work-clock.h"

#define NS_PER_S G_GINT64_CONSTANT (1000000000)
/* What a call takes on the virtual clock, whoever makes it: calls of one caller follow each other, and none costs nothing. */
#define CALL_NS (20 * G_GINT64_CONSTANT (1000))
/* On real time: how long a caller's result, and how long a signal, may go unseen. */
#define RESULT_SLICE_NS (200 * G_GINT64_CONSTANT (1000))
#define SIGNAL_SLICE_NS (100 * G_GINT64_CONSTANT (1000000))

struct _WorkRun
{
  WorkParams params;
  LmtReplayEnv env;
  WorkClock host; /* virtual: what adapters wait by */
  StorageSession *session;
  LmtRecorderStats stats;
  WorkCaller *callers;
  WorkStage stage;
  WorkFigures figures;
  CliProgress *progress;
  gint64 origin_ns;         /* real: of the requests' clock */
  gint64 now_ns;            /* of the requests' clock: never goes back */
  volatile gint interrupts; /* what the driver sees: a first signal lets the requests under way end */
  guint64 looked_at_calls;
};

/* ---------------- before ---------------- */

static gboolean
check_new (const char *path, GError **error)
{
  struct stat st;

  if (stat (path, &st) != 0 || !S_ISREG (st.st_mode))
    return TRUE;
  g_autofree char *shown = g_filename_display_name (path);
  g_set_error (error, LMT_ERROR, LMT_ERROR_OPTION, "%s: expected a new file, found one (--force overwrites it)", shown);
  return FALSE;
}

static gboolean
check_output (const WorkParams *params, GError **error)
{
  const char *path = params->flags->trace_output;
  g_autofree char *next = g_strconcat (path, ".1", NULL);

  if (g_str_equal (path, "-"))
    return TRUE;
  if (!lmt_output_check_path (path, error) || !lmt_output_check_inputs ("--trace-output", path, params->inputs, error))
    return FALSE;
  /* Of a rotated set that is there the second file is, too. */
  return params->force || (check_new (path, error) && (params->flags->trace_rotate == 0 || check_new (next, error)));
}

static void
fill_env (WorkRun *run)
{
  const WorkParams *params = &run->params;
  LmtReplayEnv *env = &run->env;

  env->struct_size = sizeof *env;
  env->registry = params->context->registry;
  env->options = params->options;
  env->config = params->flags;
  env->clock = params->real_clock ? lmt_clock_real () : &run->host.clock;
  env->speed = params->real_clock ? 1.0 : 0.0;
  env->drain_timeout_ns = 30 * NS_PER_S;
  env->quiet = TRUE; /* what a replay's misses may mean is no question here */
  env->n_sessions = 1;
  env->interrupts = &run->interrupts;
  env->warnings = params->context->warnings;
  env->files = params->inputs;
}

WorkRun *
work_run_new (const WorkParams *params, GError **error)
{
  WorkRun *run;

  if (!check_output (params, error))
    return NULL;
  run = g_new0 (WorkRun, 1);
  run->params = *params;
  work_clock_init (&run->host);
  fill_env (run);
  run->session = storage_level.configure (&run->env, error);
  if (run->session == NULL)
    {
      g_free (run);
      return NULL;
    }
  run->callers = g_new0 (WorkCaller, params->threads);
  run->stage = (WorkStage){ run->session, params->shape, &run->figures };
  return run;
}

void
work_run_free (WorkRun *run)
{
  if (run == NULL)
    return;
  for (guint i = 0; i < run->params.threads; i++)
    work_caller_clear (&run->callers[i]);
  g_free (run->callers);
  cli_progress_free (run->progress);
  storage_level.free (run->session);
  g_free (run);
}

/* ---------------- start ---------------- */

static void
on_result (const SmPrefetchResult *result, gboolean mismatch, gint64 done_ns, gpointer data)
{
  WorkRun *run = data;

  for (guint i = 0; i < run->params.threads; i++)
    {
      WorkCaller *caller = &run->callers[i];

      if (caller->step == WORK_WAIT && caller->prefetch == result->request)
        {
          work_caller_result (caller, &run->stage, result);
          return;
        }
    }
}

gboolean
work_run_start (WorkRun *run, GError **error)
{
  const LmtCommandContext *context = run->params.context;

  /* The session records itself; its clock of calls is the time they are made at. */
  if (!storage_level.start (run->session, error))
    return FALSE;
  sm_driver_set_funcs (run->session->driver, on_result, NULL, run);
  run->session->with_origin = TRUE;
  run->progress = cli_progress_new (run->params.label, context->progress, context->quiet, 0);
  return TRUE;
}

/* ---------------- the loop ---------------- */

/* Whose call is due first; equal times: the lower number. NULL: nobody has one. */
static WorkCaller *
next_caller (WorkRun *run)
{
  WorkCaller *first = NULL;

  for (guint i = 0; i < run->params.threads; i++)
    {
      WorkCaller *caller = &run->callers[i];

      if (caller->step != WORK_IDLE && caller->step != WORK_WAIT && (first == NULL || caller->next_ns < first->next_ns))
        first = caller;
    }
  return first;
}

static WorkCaller *
idle_caller (WorkRun *run)
{
  for (guint i = 0; i < run->params.threads; i++)
    if (run->callers[i].step == WORK_IDLE)
      return &run->callers[i];
  return NULL;
}

static gboolean
anybody_waits (const WorkRun *run)
{
  for (guint i = 0; i < run->params.threads; i++)
    if (run->callers[i].step == WORK_WAIT)
      return TRUE;
  return FALSE;
}

/* Signals, and a disk that is full. */
static void
look_around (WorkRun *run)
{
  gint seen = g_atomic_int_get ((volatile gint *)run->params.context->interrupts);

  if (seen > 0)
    run->figures.interrupted = TRUE;
  g_atomic_int_set (&run->interrupts, seen > 1 ? seen : 0);
  if (run->figures.calls - run->looked_at_calls < 256)
    return;
  run->looked_at_calls = run->figures.calls;
  storage_record_get_stats (run->session->record, &run->stats);
  run->figures.write_failed = run->stats.write_errors > 0;
}

static void
show_progress (WorkRun *run)
{
  const WorkParams *params = &run->params;
  CliProgressState state = { .lag_ns = -1, .eta_s = -1 };

  if (!cli_progress_is_due (run->progress))
    return;
  state.done = run->figures.calls;
  state.errors = run->figures.failed;
  if (params->requests > 0)
    {
      state.position = run->figures.requests;
      state.size = params->requests;
    }
  else if (params->duration_ns > 0)
    {
      state.position = (guint64)MIN (run->now_ns, params->duration_ns);
      state.size = (guint64)params->duration_ns;
    }
  cli_progress_draw (run->progress, &state);
}

/* When the next request could begin, were there a caller: G_MAXINT64: never again, or not before something is done. */
static gint64
next_request_ns (WorkRun *run)
{
  const WorkParams *params = &run->params;
  gint64 due_ns;

  if (run->figures.interrupted || (params->requests > 0 && run->figures.requests >= params->requests))
    return G_MAXINT64;
  due_ns = params->source->peek (params->source);
  if (params->duration_ns > 0 && due_ns > params->duration_ns)
    return G_MAXINT64;
  return due_ns;
}

static void
settle_caller (WorkRun *run, WorkCaller *caller)
{
  if (caller->step != WORK_DONE)
    return;
  run->params.source->done (run->params.source, &caller->request, run->now_ns);
  work_caller_end (caller, &run->stage);
}

static void
begin_request (WorkRun *run, WorkCaller *caller)
{
  WorkSource *source = run->params.source;
  WorkRequest request;

  if (!source->take (source, &request))
    return;
  work_caller_begin (caller, &run->stage, &request, run->now_ns);
  settle_caller (run, caller);
}

/* Virtual: what modelled devices took is the caller's time, too. */
static void
step_virtual (WorkRun *run, WorkCaller *caller)
{
  gint64 before_ns = run->host.now_ns;

  work_caller_step (caller, &run->stage, run->now_ns);
  caller->next_ns = run->now_ns + CALL_NS + (run->host.now_ns - before_ns);
  settle_caller (run, caller);
}

static void
run_virtual (WorkRun *run)
{
  for (;;)
    {
      WorkCaller *caller;
      WorkCaller *idle;
      gint64 due_ns;

      look_around (run);
      if (run->figures.write_failed || g_atomic_int_get (&run->interrupts) > 1)
        break;
      caller = next_caller (run);
      idle = idle_caller (run);
      due_ns = idle != NULL ? next_request_ns (run) : G_MAXINT64;
      if (due_ns != G_MAXINT64)
        due_ns = MAX (due_ns, run->now_ns);
      if (caller != NULL && caller->next_ns <= due_ns)
        {
          run->now_ns = MAX (run->now_ns, caller->next_ns);
          step_virtual (run, caller);
        }
      else if (due_ns != G_MAXINT64)
        {
          run->now_ns = due_ns;
          begin_request (run, idle);
        }
      else
        break; /* whoever waited for a result in vain waits for ever: the device never answered */
      show_progress (run);
    }
}

static void
tell_time (WorkRun *run)
{
  run->now_ns = MAX (run->now_ns, lmt_clock_now (run->env.clock) - run->origin_ns);
}

static void
run_real (WorkRun *run)
{
  SmDriver *driver = run->session->driver;

  run->origin_ns = lmt_clock_now (run->env.clock);
  sm_driver_set_origin (driver, run->origin_ns);
  for (;;)
    {
      WorkCaller *caller;
      WorkCaller *idle;
      gint64 due_ns = G_MAXINT64;
      gint64 slice_ns;

      look_around (run);
      if (run->figures.write_failed || g_atomic_int_get (&run->interrupts) > 1)
        break;
      tell_time (run);
      caller = next_caller (run);
      idle = idle_caller (run);
      if (caller == NULL && idle != NULL)
        due_ns = next_request_ns (run);
      else if (idle != NULL && (due_ns = next_request_ns (run)) > run->now_ns)
        due_ns = G_MAXINT64;
      if (due_ns <= run->now_ns)
        begin_request (run, idle);
      else if (caller != NULL)
        {
          work_caller_step (caller, &run->stage, run->now_ns);
          tell_time (run);
          caller->next_ns = run->now_ns;
          settle_caller (run, caller);
        }
      else
        {
          gboolean waits = anybody_waits (run);

          if (due_ns == G_MAXINT64 && !waits)
            break;
          slice_ns = run->now_ns + (waits ? RESULT_SLICE_NS : SIGNAL_SLICE_NS);
          sm_driver_wait (driver, run->origin_ns + MIN (due_ns, slice_ns));
        }
      show_progress (run);
    }
}

/* ---------------- the end ---------------- */

G_GNUC_PRINTF (3, 4)
static void
warn (WorkRun *run, const char *kind, const char *format, ...)
{
  g_autofree char *text = NULL;
  va_list arguments;

  va_start (arguments, format);
  text = g_strdup_vprintf (format, arguments);
  va_end (arguments);
  lmt_warnings_add (run->params.context->warnings, kind, text);
}

/* Why the exit code isn't 0. */
static void
tell_trouble (WorkRun *run)
{
  const WorkFigures *figures = &run->figures;
  guint64 lost = run->stats.dropped + run->stats.encode_errors;

  if (figures->failed > 0)
    warn (run, "failed", "%" G_GUINT64_FORMAT " calls failed, the first: %s", figures->failed, figures->first_failure);
  if (lost > 0)
    warn (run, "dropped",
          "%" G_GUINT64_FORMAT " records are not in the trace: --trace-block waits, a larger --trace-buffer holds more", lost);
}

void
work_run_all (WorkRun *run)
{
  gint64 start_ns = lmt_clock_now (lmt_clock_real ());

  run->stats.struct_size = sizeof run->stats;
  if (run->params.real_clock)
    run_real (run);
  else
    run_virtual (run);
  g_clear_pointer (&run->progress, cli_progress_free);
  for (guint i = 0; i < run->params.threads; i++)
    if (run->callers[i].step != WORK_IDLE)
      work_caller_end (&run->callers[i], &run->stage);
  storage_level.finish (run->session, run->figures.interrupted); /* closes the output; a failure is told as a warning */
  storage_record_get_stats (run->session->record, &run->stats);
  run->figures.write_failed = run->stats.write_errors > 0;
  tell_trouble (run);
  run->figures.span_ns = run->now_ns;
  run->figures.took_ns = lmt_clock_now (lmt_clock_real ()) - start_ns;
}

const WorkFigures *
work_run_get_figures (const WorkRun *run)
{
  return &run->figures;
}

StorageSession *
work_run_get_session (WorkRun *run)
{
  return run->session;
}

int
work_run_exit_code (const WorkRun *run)
{
  if (run->figures.interrupted)
    return 130;
  /* A closed stdout ends quietly: whoever reads it has seen enough. */
  return run->figures.failed > 0 || (run->figures.write_failed && !lmt_output_stdout_closed ()) || run->stats.dropped > 0
                 || run->stats.encode_errors > 0 || storage_level.target_errors (run->session) > 0
                 || storage_level.exit_code (run->session) != 0
             ? 1
             : 0;
}

void
work_run_report (WorkRun *run, LmtReport *report)
{
  const WorkFigures *figures = &run->figures;
  LmtSection *section = lmt_report_add_section (report, "requests", "Requests", TRUE);

  lmt_section_add_int (section, "requests", "Requests", (gint64)figures->requests);
  lmt_section_add_int (section, "without_chunk", "  without a whole chunk", (gint64)figures->requests_without_chunk);
  lmt_section_add_int (section, "calls", "Calls", (gint64)figures->calls);
  lmt_section_add_int (section, "failed", "Calls failed", (gint64)figures->failed);
  lmt_section_add_int (section, "chunks_asked", "Chunks asked", (gint64)figures->chunks_asked);
  lmt_section_add_int (section, "chunks_hit", "Chunks hit", (gint64)figures->chunks_hit);
  section = lmt_report_add_section (report, "trace", "Trace", TRUE);
  lmt_section_add_string (section, "clock", "Clock", run->params.real_clock ? "real" : "virtual");
  lmt_section_add_rounded (section, "span_s", "Span (s)", (double)figures->span_ns / 1e9);
  lmt_section_add_rounded (section, "took_s", "Took (s)", (double)figures->took_ns / 1e9);
  lmt_section_add_int (section, "records", "Records written", (gint64)run->stats.records);
  lmt_section_add_size (section, "bytes", "Bytes", run->stats.bytes);
  lmt_section_add_int (section, "files", "Files", run->stats.files);
  lmt_section_add_int (section, "dropped", "Records dropped", (gint64)run->stats.dropped);
  lmt_section_add_int (section, "encode_errors", "Encode errors", (gint64)run->stats.encode_errors);
  lmt_section_add_int (section, "write_errors", "Write errors", (gint64)run->stats.write_errors);
  storage_report (run->session, report);
}
