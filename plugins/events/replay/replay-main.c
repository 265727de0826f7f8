// SPDX-License-Identifier: Apache-2.0
/* `lmtrace replay-events`: options and the order of work. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "events-files.h"
#include "events-kafka.h"
#include "replay-kafka.h"
#include "replay.h"

/* -------- options -------- */

#define TARGET "Coordinator"
#define PACE "Pace and order"
#define SENT "What is sent"
#define SAFETY "Safety"
#define ROBUST "Robustness"
#define LIMITS "Limits"
#define FLAG(name, member, group, help) LMT_OPTION_FULL (BOOL, name, ReplayConfig, member, 0, NULL, NULL, NULL, help, group)

const LmtOption replay_options[] = {
  LMT_OPTION_FULL (STRING, "coordinator-url", ReplayConfig, url, 0, NULL, "nonempty", "URL",
                   "Deliver to this coordinator: http://HOST:PORT[/BASE], https://… or unix:/PATH; required unless --dry-run",
                   TARGET),
  LMT_OPTION_FULL (STRING, "events-path", ReplayConfig, events_path, 0, "/events", "nonempty", "PATH",
                   "Post batches to this path behind the URL", TARGET),
  LMT_OPTION_FULL (STRING, "token-file", ReplayConfig, token_file, 0, NULL, "nonempty", "FILE",
                   "Send the bearer token in this file's first line", TARGET),
  LMT_OPTION_FULL (STRING, "ca-file", ReplayConfig, ca_file, 0, NULL, "nonempty", "FILE",
                   "Trust the certificates in this PEM file", TARGET),
  LMT_OPTION_FULL (DURATION, "connect-timeout", ReplayConfig, connect_timeout_ns, 0, "5s", "1ms..", "DUR",
                   "Wait so long for a connection, in seconds", TARGET),
  LMT_OPTION_FULL (DURATION, "timeout", ReplayConfig, timeout_ns, 0, "30s", "1ms..", "DUR",
                   "Wait so long for a whole reply, in seconds", TARGET),
  LMT_OPTION_FULL (STRING, "kafka-bootstrap-servers", ReplayConfig, kafka_servers, 0, NULL, "nonempty", "LIST",
                   "Deliver batches to these Kafka brokers, HOST:PORT parted by commas; marks go to --coordinator-url, if given",
                   TARGET),
  LMT_OPTION_FULL (STRING, "kafka-topic", ReplayConfig, kafka_topic, 0, EVENTS_KAFKA_TOPIC, "nonempty", "TOPIC",
                   "Kafka topic of the batches", TARGET),
  LMT_OPTION_FULL (STRINGS, "kafka-config", ReplayConfig, kafka_config, 0, NULL, "nonempty", "NAME=VALUE",
                   "Set another property of librdkafka (security.protocol, sasl.username)", TARGET),
  LMT_OPTION_FULL (DOUBLE, "speed", ReplayConfig, speed, 0, "0", "0..", "N",
                   "Replay at N times the recorded pace; 0: as fast as it is taken", PACE),
  LMT_OPTION_FULL (DURATION, "heartbeat-interval", ReplayConfig, heartbeat_ns, 0, "5", "0..", "S",
                   "Heartbeat each registered instance so often, in seconds; 0: never", PACE),
  LMT_OPTION_FULL (DURATION, "max-gap", ReplayConfig, max_gap_ns, 0, NULL, "0..", "DUR",
                   "Cut longer recorded pauses to this length, in seconds; 0: none", PACE),
  LMT_OPTION_FULL (CHOICE, "merge", ReplayConfig, merge, 0, "clamp", "clamp|wall-sort", NULL,
                   "Order of several files: by wall time without ever changing a file's own order, or sorted as LMCache does",
                   PACE),
  LMT_OPTION_FULL (COUNT, "batch", ReplayConfig, batch, 0, "1", "1..65536", "N", "Join up to N batches in one POST", PACE),
  LMT_OPTION_FULL (COUNT, "inflight", ReplayConfig, inflight, 0, "1", "1..64", "N",
                   "Use N connections; batches of one instance stay in order", PACE),
  FLAG ("keep-shared-order", keep_shared_order, PACE, "Send all instances that report shared pools over one connection"),
  LMT_OPTION_FULL (COUNT, "loop", ReplayConfig, loops, 0, "1", "1..", "N", "Go through the files N times", PACE),
  FLAG ("rename-per-loop", rename_per_loop, PACE, "With --loop: add -loopN to every instance from the second round on"),
  FLAG ("new-incarnations", new_incarnations, PACE, "With --loop: raise the incarnations in each round"),
  LMT_OPTION_FULL (STRINGS, "rename", ReplayConfig, rename, 0, NULL, "nonempty", "OLD=NEW", "Send instance OLD as NEW", SENT),
  LMT_OPTION_FULL (STRING, "rename-prefix", ReplayConfig, rename_prefix, 0, NULL, "nonempty", "P",
                   "Put P in front of every instance that --rename doesn't name", SENT),
  LMT_OPTION_FULL (CHOICE, "register", ReplayConfig, register_mode, 0, "recorded", "recorded|loopback|none", NULL,
                   "Register instances at the address they recorded, at 127.0.0.1, or not at all", SENT),
  FLAG ("reregister", reregister, SENT, "Register an instance again when the coordinator answers a heartbeat with 404"),
  FLAG ("dry-run", dry_run, SAFETY, "Send nothing; predict what a coordinator would count and hold"),
  FLAG ("check", check, SAFETY, "Refuse files with batches a coordinator would refuse"),
  LMT_OPTION_FULL (CHOICE, "coordinator-version", ReplayConfig, version, 0, "auto", "auto|0.5.6|0.5.7", NULL,
                   "Predict by the rules of this LMCache release; auto: asked for, or from the files", SAFETY),
  FLAG ("force", force, SAFETY, "Don't ask the coordinator anything first; replay even where instances of the trace are alive"),
  FLAG ("reset", reset, SAFETY, "Empty an lmtrace coordinator first (POST /lmtrace/reset)"),
  FLAG ("skip-bad", skip_bad, SAFETY, "Leave out records LMCache's replay would die of, instead of refusing the files"),
  FLAG ("allow-damaged", allow_damaged, SAFETY, "Replay files with damage in the middle: the views will miss what is lost"),
  FLAG ("allow-glued", allow_glued, SAFETY, "Replay files with a second header inside"),
  LMT_OPTION_FULL (CHOICE, "on-error", ReplayConfig, on_error, 0, "stop", "stop|retry", NULL,
                   "What to do when a call fails: stop, or repeat it after transport errors, 429, 502, 503, 504", ROBUST),
  LMT_OPTION_FULL (COUNT, "retries", ReplayConfig, retries, 0, "10", "0..", "N", "Repeat a call N times at most", ROBUST),
  LMT_OPTION_FULL (STRING, "position", ReplayConfig, position, 0, NULL, "nonempty", "FILE", "Keep in FILE how far the replay got",
                   ROBUST),
  LMT_OPTION_FULL (COUNT, "position-every", ReplayConfig, position_every, 0, "100", "1..", "N",
                   "Write --position after N acknowledged records", ROBUST),
  FLAG ("resume", resume, ROBUST, "Go on where the --position file, or the coordinator itself, says"),
  LMT_OPTION_FULL (STRING, "jsonl-out", ReplayConfig, jsonl_out, 0, NULL, "nonempty", "PATH",
                   "Write one JSON object per record; - is stdout", ROBUST),
  LMT_OPTION_FULL (DURATION, "interval", ReplayConfig, interval_ns, 0, "10s", "100ms..", "DUR",
                   "Log progress so often where stderr is no terminal, in seconds", ROBUST),
  LMT_OPTION_FULL (STRING, "compat", ReplayConfig, compat, 0, NULL, "nonempty", "RELEASE",
                   "Report as LMCache does, twelve rows and none after a failure: lmcache, lmcache-0.5.6 or lmcache-0.5.7",
                   ROBUST),
  LMT_OPTION_FULL (SIZE, "max-frame", ReplayConfig, max_frame, 0, "64MiB", "1KiB..4GiB", "SIZE", "Longest record taken", LIMITS),
  LMT_OPTION_FULL (COUNT, "max-depth", ReplayConfig, max_depth, 0, "32", "4..512", "N", "Deepest nesting taken", LIMITS),
  LMT_OPTION_FULL (COUNT, "max-entries", ReplayConfig, max_entries, 0, "1M", "1..1G", "N", "Most entries of a batch", LIMITS),
  LMT_OPTION_FULL (COUNT, "max-tokens", ReplayConfig, max_tokens, 0, "1M", "1..1G", "N", "Most token ids of an entry", LIMITS),
  LMT_OPTION_FULL (SIZE, "max-string", ReplayConfig, max_string, 0, "1MiB", "16..1GiB", "SIZE", "Longest text in a batch",
                   LIMITS),
  LMT_OPTION_FULL (SIZE, "max-path-id", ReplayConfig, max_path, 0, "1KiB", "1..64KiB", "SIZE",
                   "Longest instance id put into a path", LIMITS),
  LMT_OPTION_FULL (SIZE, "max-reply", ReplayConfig, max_reply, 0, "1MiB", "1KiB..1GiB", "SIZE", "Longest reply read", LIMITS),
  LMT_OPTION_END,
};

/* What prepare() leaves: the values of the selection. */
static gboolean
prepare (LmtRegistry *registry, LmtOptions *options, const char *const *words, gpointer *prepared, GError **error)
{
  LmtSelectConfig *select = g_new0 (LmtSelectConfig, 1);
  *prepared = select;
  lmt_options_add_table (options, lmt_select_options, select);
  return TRUE;
}

/* -------- what the flags mean together -------- */

static gboolean
refuse (GError **error, const char *text)
{
  g_set_error_literal (error, LMT_ERROR, LMT_ERROR_OPTION, text);
  return FALSE;
}

static gboolean
check_flags (const LmtCommandContext *context, const ReplayConfig *config, GError **error)
{
  if (config->url == NULL && config->kafka_servers == NULL && !config->dry_run)
    return refuse (error, "--coordinator-url: expected the coordinator's URL, found none (--dry-run needs none)");
  if (config->kafka_servers != NULL && !config->dry_run && !events_kafka_check (error))
    {
      g_prefix_error (error, "--kafka-bootstrap-servers: ");
      return FALSE;
    }
  if (config->events_path[0] != '/')
    return refuse (error, "--events-path: expected a path that begins with /");
  if (config->loops > 1 && !config->rename_per_loop && !config->new_incarnations)
    return refuse (error,
                   "--loop: expected --rename-per-loop or --new-incarnations with it: else each later round is all duplicates");
  if (config->resume && config->position == NULL)
    return refuse (error, "--resume: expected --position FILE with it");
  if (config->position != NULL && (config->loops > 1 || strcmp (config->merge, "wall-sort") == 0))
    return refuse (error, "--position: expected one round in the order of the files, found --loop or --merge=wall-sort");
  if (config->resume && config->reset)
    return refuse (error, "--resume: expected a coordinator that keeps what it has, found --reset");
  if (config->compat != NULL && strcmp (config->compat, "lmcache") != 0 && strcmp (config->compat, "lmcache-0.5.6") != 0
      && strcmp (config->compat, "lmcache-0.5.7") != 0)
    return refuse (error, "--compat: expected lmcache, lmcache-0.5.6 or lmcache-0.5.7");
  if (config->heartbeat_ns > G_GINT64_CONSTANT (30000000000))
    lmt_warnings_add (context->warnings, "heartbeat",
                      "--heartbeat-interval: longer than 30 s, after which a coordinator by default retires an instance");
  return lmt_output_check_inputs ("--position", config->position, context->operands, error)
         && lmt_output_check_inputs ("--jsonl-out", config->jsonl_out, context->operands, error)
         && lmt_output_check_inputs ("--output", lmt_output_get_path (context->output), context->operands, error)
         && (config->position == NULL || lmt_output_check_path (config->position, error))
         && (config->jsonl_out == NULL || lmt_output_check_path (config->jsonl_out, error));
}

static EventsCompat
compat_of (const ReplayConfig *config, const ReplaySurvey *survey, const ReplayGuard *guard)
{
  if (strcmp (config->version, "0.5.6") == 0)
    return EVENTS_COMPAT_056;
  if (strcmp (config->version, "0.5.7") == 0)
    return EVENTS_COMPAT_057;
  if (guard != NULL && guard->has_compat)
    return guard->compat;
  return survey->all_schema_2 ? EVENTS_COMPAT_057 : EVENTS_COMPAT_056;
}

/* -------- what the first pass found -------- */

static void
tell_findings (ReplayFeed *feed, const GArray *findings, guint64 n, const char *what)
{
  for (guint i = 0; i < findings->len; i++)
    {
      const ReplayFinding *finding = &g_array_index (findings, ReplayFinding, i);
      g_autofree char *seq = finding->has_seq ? g_strdup_printf (", seq %" G_GINT64_FORMAT, finding->seq) : g_strdup ("");
      g_autofree char *text
          = g_strdup_printf ("%s: record %" G_GUINT64_FORMAT " at offset %" G_GUINT64_FORMAT " (%s%s): %s",
                             events_merge_file (replay_feed_get_merge (feed), finding->file)->shown, finding->number,
                             finding->offset, finding->instance != NULL ? finding->instance : "no instance", seq, finding->why);
      lmt_log_failure (text);
    }
  if (n > findings->len)
    {
      g_autofree char *text = g_strdup_printf ("%" G_GUINT64_FORMAT " more %s", n - findings->len, what);
      lmt_log_failure (text);
    }
}

/* B2, B3: FALSE: the run is refused; the findings were told, @error sums them up. */
static gboolean
judge (ReplayFeed *feed, const ReplaySurvey *survey, const ReplayConfig *config, LmtWarnings *warnings, GError **error)
{
  if (survey->n_bad > 0 && !config->skip_bad)
    {
      tell_findings (feed, survey->bad, survey->n_bad, "bad records");
      g_set_error (error, LMT_ERROR, LMT_ERROR_CORRUPT,
                   "%" G_GUINT64_FORMAT " records can't be sent: nothing was (--skip-bad leaves them out)", survey->n_bad);
      return FALSE;
    }
  if (survey->n_refused == 0)
    return TRUE;
  if (config->check)
    {
      tell_findings (feed, survey->refused, survey->n_refused, "refused batches");
      g_set_error (error, LMT_ERROR, LMT_ERROR_CORRUPT,
                   "--check: a coordinator would refuse %" G_GUINT64_FORMAT " batches: nothing was sent", survey->n_refused);
      return FALSE;
    }
  const ReplayFinding *first = &g_array_index (survey->refused, ReplayFinding, 0);
  g_autofree char *text
      = g_strdup_printf ("%s: record %" G_GUINT64_FORMAT " at offset %" G_GUINT64_FORMAT
                         ": the coordinator will refuse this batch: %s (%" G_GUINT64_FORMAT " in all; --check refuses the files)",
                         events_merge_file (replay_feed_get_merge (feed), first->file)->shown, first->number, first->offset,
                         first->why, survey->n_refused);
  lmt_warnings_add (warnings, "refused", text);
  return TRUE;
}

/* -------- the run -------- */

/* What is there for the length of a run. */
typedef struct
{
  EventsMerge *merge;
  ReplayFeed *feed;
  ReplaySurvey *survey;
  ReplayTarget *target;
  ReplayConn *conn;
  ReplayPosition *resume;
  ReplayPosition *position;
  ReplayKafka *kafka;
  FILE *jsonl;
} Things;

static void
things_clear (Things *things)
{
  replay_kafka_free (things->kafka);
  replay_conn_free (things->conn);
  replay_target_free (things->target);
  replay_position_free (things->resume);
  replay_position_free (things->position);
  replay_survey_free (things->survey);
  replay_feed_free (things->feed);
  events_merge_free (things->merge);
}

static gboolean
open_target (const LmtCommandContext *context, const ReplayConfig *config, Things *things, GError **error)
{
  ReplayTargetConfig target = { .url = config->url,
                                .token_file = config->token_file,
                                .ca_file = config->ca_file,
                                .connect_timeout_ns = config->connect_timeout_ns,
                                .timeout_ns = config->timeout_ns,
                                .max_reply = config->max_reply,
                                .interrupts = context->interrupts };
  if (config->url == NULL || config->dry_run)
    return TRUE;
  things->target = replay_target_new (&target, error);
  if (things->target != NULL)
    things->conn = replay_conn_new (things->target);
  return things->target != NULL;
}

/* -------- descriptors -------- */

enum
{
  FILES_A_CONNECTION = 3, /* a socket, and what wakes its loop and its calls */
  FILES_BESIDE = 3,       /* the report, --jsonl-out, --position */
  FILES_ALREADY = 32,     /* what a process has anyhow */
};

/* Those of a run beside its traces. The first connection is the main thread's; heartbeats have one of their own. */
static guint
connection_files (const ReplayConfig *config)
{
  guint n = config->dry_run || config->url == NULL ? 0 : 1 + (config->heartbeat_ns > 0);

  if (n > 0 && config->inflight > 1 && config->kafka_servers == NULL)
    n += (guint)config->inflight;
  return n * FILES_A_CONNECTION + FILES_BESIDE;
}

static gboolean
check_files (const ReplayConfig *config, GError **error)
{
  guint n = connection_files (config);

  if (config->dry_run || events_files_are_free (n))
    return TRUE;
  g_set_error (error, LMT_ERROR, LMT_ERROR_IO,
               "expected room for %u open files beside the traces (--inflight %" G_GUINT64_FORMAT "), found less (ulimit -n)", n,
               config->inflight);
  return FALSE;
}

static gboolean
open_files (const LmtCommandContext *context, const ReplayConfig *config, Things *things, GError **error)
{
  EventsMergeConfig merge = { .mode = strcmp (config->merge, "wall-sort") == 0 ? EVENTS_MERGE_WALL_SORT : EVENTS_MERGE_CLAMP,
                              .allow_damaged = config->allow_damaged != 0,
                              .allow_glued = config->allow_glued != 0,
                              .skip_bad = config->skip_bad != 0,
                              .max_frame = config->max_frame,
                              .interrupts = context->interrupts,
                              .warnings = context->warnings };
  ReplayFeedConfig feed = { .config = config,
                            .select = lmt_command_context_get_prepared (context),
                            .warnings = context->warnings,
                            .interrupts = context->interrupts };
  events_files_raise (g_strv_length ((char **)context->operands) + connection_files (config) + FILES_ALREADY);
  things->merge = events_merge_new (context->operands, &merge, error);
  if (things->merge != NULL)
    things->feed = replay_feed_new (things->merge, &feed, error);
  return things->feed != NULL;
}

static gboolean
open_jsonl (const LmtCommandContext *context, const ReplayConfig *config, Things *things, GError **error)
{
  if (config->jsonl_out == NULL)
    return TRUE;
  if (strcmp (config->jsonl_out, "-") == 0)
    {
      lmt_output_set_stdout_taken (context->output);
      things->jsonl = stdout;
      return TRUE;
    }
  things->jsonl = fopen (config->jsonl_out, "we");
  if (things->jsonl != NULL)
    return TRUE;
  g_set_error (error, LMT_ERROR, LMT_ERROR_IO, "--jsonl-out: %s: cannot open: %s", config->jsonl_out, g_strerror (errno));
  return FALSE;
}

/* A write that failed is told once, at the end (cli.md 8.3). */
static gboolean
close_jsonl (const ReplayConfig *config, Things *things, GError **error)
{
  FILE *file = g_steal_pointer (&things->jsonl);
  if (file == NULL)
    return TRUE;
  gboolean ok = fflush (file) == 0 && !ferror (file);
  if (file != stdout)
    ok = fclose (file) == 0 && ok;
  if (!ok)
    g_set_error (error, LMT_ERROR, LMT_ERROR_IO, "--jsonl-out: %s: cannot write: %s", config->jsonl_out, g_strerror (errno));
  return ok;
}

static int
exit_code_of (const LmtCommandContext *context, const Things *things, const ReplayOutcome *outcome)
{
  gboolean odd
      = outcome->comparison.mismatches > 0 || outcome->unclear > 0 || outcome->counts.skipped > 0 || outcome->left_out_bad > 0;
  for (guint i = 0; i < events_merge_n_files (things->merge); i++)
    {
      const EventsMergeFile *file = events_merge_file (things->merge, i);
      odd = odd || file->damaged > 0 || file->bad > 0 || file->glued > 0 || file->tail != LMT_TAIL_CLEAN;
    }
  if (outcome->interrupted)
    return 130;
  return outcome->failure != NULL || (context->strict && odd) ? 1 : 0;
}

static int
finish (const LmtCommandContext *context, const ReplayConfig *config, Things *things, const ReplayRun *run,
        ReplayOutcome *outcome, GError **error)
{
  int code = exit_code_of (context, things, outcome);
  outcome->counts.servers = replay_feed_count_servers (things->feed);
  outcome->kafka = things->kafka != NULL;
  for (guint i = 0; i < events_merge_n_files (things->merge); i++)
    outcome->unreadable += events_merge_file (things->merge, i)->bad;
  if (outcome->failure != NULL)
    lmt_log_failure (outcome->failure);
  /* D20: every count may look right then, and L1 placements be gone all the same. */
  if (config->heartbeat_ns == 0 && outcome->counts.starts > 0 && outcome->duration_ns > G_GINT64_CONSTANT (30000000000))
    lmt_warnings_add (
        context->warnings, "heartbeat",
        "the run took longer than 30 s without heartbeats: the coordinator may have retired its instances meanwhile");
  g_autoptr (GError) local = NULL;
  if (!close_jsonl (config, things, &local))
    {
      lmt_log_failure (local->message);
      code = MAX (code, 1);
    }
  /* As LMCache: none after a failure. */
  if (config->compat != NULL && outcome->failure != NULL && lmt_output_get_format (context->output) == LMT_FORMAT_TEXT)
    return code;
  if (!replay_report_outcome (run, outcome, code, error))
    code = MAX (code, 1);
  return code;
}

static int
run_real (const LmtCommandContext *context, const ReplayConfig *config, Things *things, GError **error)
{
  ReplayGuard guard = { 0 };
  ReplayOutcome outcome = { 0 };
  int code = things->conn != NULL ? replay_guard_check (things->conn, things->target, things->feed, config, things->resume,
                                                        context->warnings, &guard, error)
                                  : 0;
  if (code != 0)
    return code;
  if (!open_jsonl (context, config, things, error))
    return 2;
  ReplayRun run = { .feed = things->feed,
                    .survey = things->survey,
                    .context = context,
                    .config = config,
                    .target = things->target,
                    .conn = things->conn,
                    .kafka = things->kafka,
                    .compat = compat_of (config, things->survey, &guard),
                    .resume = things->resume,
                    .position = things->position,
                    .jsonl = things->jsonl };
  if (!replay_send (&run, &outcome, error))
    {
      /* A file that was whole in the first pass broke in the second: what was sent is told all the same. */
      outcome.failure = outcome.failure != NULL ? outcome.failure : g_strdup ((*error)->message);
      g_clear_error (error);
    }
  code = finish (context, config, things, &run, &outcome, error);
  replay_outcome_clear (&outcome);
  return code;
}

static gboolean
open_positions (const LmtCommandContext *context, const ReplayConfig *config, Things *things, GError **error)
{
  if (config->position == NULL || config->dry_run)
    return TRUE;
  things->position = replay_position_new (things->merge, error);
  if (things->position != NULL && config->resume)
    things->resume = replay_position_read (config->position, things->merge, error);
  return things->position != NULL && (!config->resume || things->resume != NULL);
}

/* A position names instances, and takes a NUL for a name's end. */
static gboolean
check_names (const ReplayConfig *config, ReplayFeed *feed, GError **error)
{
  for (guint i = 0; config->position != NULL && i < replay_feed_get_n_instances (feed); i++)
    {
      const ReplayInstance *instance = replay_feed_get_instance (feed, i);
      if (strlen (instance->name) == instance->name_len)
        continue;
      g_set_error (error, LMT_ERROR, LMT_ERROR_OPTION, "--position: expected instance ids without NUL, found %s",
                   instance->shown);
      return FALSE;
    }
  return TRUE;
}

static int
run_all (const LmtCommandContext *context, const ReplayConfig *config, Things *things, GError **error)
{
  int code;
  if (!check_flags (context, config, error) || !open_target (context, config, things, error)
      || !open_files (context, config, things, error) || !open_positions (context, config, things, error))
    return g_error_matches (*error, LMT_ERROR, LMT_ERROR_INTERRUPTED) ? 130 : 2;
  if (things->resume != NULL && things->conn != NULL && config->kafka_servers == NULL
      && (code = replay_guard_streams (things->conn, things->target, things->resume, context->warnings, error)) != 0)
    return code;
  things->survey = replay_survey_new (things->feed, context, config, things->resume, error);
  if (things->survey == NULL)
    return g_error_matches (*error, LMT_ERROR, LMT_ERROR_INTERRUPTED) ? 130 : 2;
  if (!judge (things->feed, things->survey, config, context->warnings, error) || !check_names (config, things->feed, error))
    return 2;
  if (config->dry_run)
    return replay_dry_run (things->feed, things->survey, context, config, compat_of (config, things->survey, NULL), error);
  if (!check_files (config, error))
    return 2;
  if (config->kafka_servers != NULL && (things->kafka = replay_kafka_new (config, context->interrupts, error)) == NULL)
    return 2;
  return run_real (context, config, things, error);
}

static int
replay_events_run (const LmtCommandContext *context, GError **error)
{
  Things things = { 0 };
  int code = run_all (context, context->config, &things, error);
  things_clear (&things);
  return code;
}

static const char *const examples[] = {
  "lmtrace replay-events a.lct b.lct --coordinator-url http://127.0.0.1:9300",
  "lmtrace replay-events node-*.lct --dry-run",
  "lmtrace replay-events a.lct --coordinator-url unix:/run/c.sock --speed 1",
  NULL,
};

static const char more_text[]
    = "FILEs are traces of level events, one per server; - is stdin. They are merged by wall time; the order inside a file is "
      "never changed. Everything is read once before anything is sent: records LMCache's own replay would die of refuse the "
      "run.\n\n"
      "Before the first POST the coordinator is asked which instances it knows. If one of the trace is among them, nothing is "
      "sent "
      "and the exit code is 2: a replay takes the place of a live server. --rename-prefix, --reset or --force are the ways "
      "out.\n\n"
      "Each reply is compared with what the same gate predicts; the report shows the section Prediction only where they differ. "
      "A "
      "failure or a signal ends the replay with the table of what was delivered, and the last acknowledged record. --position "
      "and "
      "--resume go on from there; at an lmtrace coordinator from what it really holds. With Kafka a signal leaves what is on its "
      "way ten "
      "seconds to be delivered; a second one ends at once, and the report counts what nobody acknowledged.\n\n"
      "Proxies are taken from the environment only (http_proxy, https_proxy, all_proxy, no_proxy). While a run over one "
      "connection gets its answers within 0.2 ms, it "
      "waits for them without giving up the processor.";

static const LmtCommandOps replay_events_ops = {
  .struct_size = sizeof (LmtCommandOps),
  .config_size = sizeof (ReplayConfig),
  .name = "replay-events",
  .summary = "Replay traces of cache events into a coordinator",
  .synopsis = "[OPTIONS] FILE… --coordinator-url URL",
  .examples = examples,
  .options = replay_options,
  .run = replay_events_run,
  .prepare = prepare,
  .prepared_free = g_free,
  .min_operands = 1,
  .max_operands = G_MAXUINT32,
  .more_text = more_text,
};

static gboolean
replay_events_load (LmtRegistrar *registrar, GError **error)
{
  return lmt_registrar_add_command (registrar, &replay_events_ops, error);
}

LMT_PLUGIN_DEFINE ("cmd-replay-events", LMT_VERSION, "Apache-2.0", "Replay traces of cache events into a coordinator",
                   replay_events_load, NULL)
