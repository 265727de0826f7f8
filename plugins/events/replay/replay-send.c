// SPDX-License-Identifier: Apache-2.0
/* The second pass: what is sent, in which order, and what the answers mean. */
#include <string.h>

#include "replay-kafka.h"

/* A body doesn't grow beyond this, whatever --batch says: coordinators take 64 MiB at most. */
#define BODY_MAX (4 * 1024 * 1024)
#define SLICE_NS 100000000
#define FLUSH_NS G_GINT64_CONSTANT (10000000000) /* as long as a server of LMCache waits for its producer when it ends */

typedef struct
{
  const ReplayRun *run;
  const ReplayConfig *config;
  ReplayFeed *feed;
  ReplayOutcome *outcome;
  EventsGate *gate;
  ReplayBeat *beat;
  ReplayCaller caller;
  ReplayLanes *lanes; /* (nullable): one connection needs none */
  ReplayWorker worker;
  guint n_lanes;
  ReplayJob **pending; /* per lane: the POST that is being filled */
  GPtrArray *spare;    /* ReplayJob */
  GQueue outstanding;  /* ReplayJob, oldest first */
  guint next_lane;
  guint64 *dispatched; /* per file: number of the last record taken */
  gboolean resumed_at_position;
  guint64 n_taken;
  guint64 acked_since;
  GString *line; /* of jsonl */
  LmtPacer *pacer;
  gint64 origin_ns;
  gint64 lag_ns;
  double first_wall;
  gboolean any;
  guint64 round;
  ReplayProgress *progress;
  gint tables_shown;
  gboolean stopped;
  gboolean told_away;
  gboolean dropping; /* what Kafka's producer has comes back undelivered */
  gboolean verbose;
  GHashTable *warned; /* words of unknown records, once each */
} Sender;

static gint64
now_ns (void)
{
  return lmt_clock_now (lmt_clock_real ());
}

static void G_GNUC_PRINTF (3, 4) warn (Sender *sender, const char *kind, const char *format, ...)
{
  va_list args;
  va_start (args, format);
  g_autofree char *text = g_strdup_vprintf (format, args);
  va_end (args);
  lmt_warnings_add (sender->run->context->warnings, kind, text);
}

static gboolean
is_interrupted (const Sender *sender)
{
  return g_atomic_int_get (sender->run->context->interrupts) > 0;
}

void
replay_outcome_clear (ReplayOutcome *outcome)
{
  g_free (outcome->failure);
  g_free (outcome->acked_instance);
  g_free (outcome->comparison.first);
  lmt_stats_free (outcome->lag);
  memset (outcome, 0, sizeof *outcome);
}

static LmtSpan
name_of (const ReplayInstance *instance)
{
  return instance != NULL ? (LmtSpan){ (const guint8 *)instance->name, instance->name_len } : (LmtSpan){ NULL, 0 };
}

/* -------- settling: what the answers mean -------- */

static const char *
shown_file (Sender *sender, guint32 file)
{
  return events_merge_file (replay_feed_get_merge (sender->feed), file)->shown;
}

static char *
describe_sent (Sender *sender, const ReplaySent *sent, gboolean batch)
{
  g_autofree char *seq = batch ? g_strdup_printf (", seq %" G_GINT64_FORMAT, sent->seq) : g_strdup ("");
  return g_strdup_printf ("%s: record %" G_GUINT64_FORMAT " at offset %" G_GUINT64_FORMAT "%s%s%s%s",
                          shown_file (sender, sent->file), sent->number, sent->offset, sent->instance != NULL ? " (" : "",
                          sent->instance != NULL ? sent->instance->shown : "", sent->instance != NULL ? seq : "",
                          sent->instance != NULL ? ")" : "");
}

/* R9. */
static void
compare (Sender *sender, const ReplayJob *job)
{
  ReplayComparison *comparison = &sender->outcome->comparison;
  const ReplaySent *first = &g_array_index (job->sents, ReplaySent, 0);
  comparison->replies++;
  comparison->predicted.applied += job->predicted[0];
  comparison->predicted.duplicates += job->predicted[1];
  comparison->predicted.stale += job->predicted[2];
  if (!job->clear
      || ((guint64)job->counts[0] == job->predicted[0] && (guint64)job->counts[1] == job->predicted[1]
          && (guint64)job->counts[2] == job->predicted[2]))
    return;
  if (comparison->mismatches++ > 0)
    return;
  g_autofree char *place = describe_sent (sender, first, TRUE);
  comparison->first = g_strdup_printf (
      "%s: predicted applied=%" G_GUINT64_FORMAT " duplicates=%" G_GUINT64_FORMAT " stale=%" G_GUINT64_FORMAT
      ", got applied=%" G_GINT64_FORMAT " duplicates=%" G_GINT64_FORMAT " stale=%" G_GINT64_FORMAT,
      place, job->predicted[0], job->predicted[1], job->predicted[2], job->counts[0], job->counts[1], job->counts[2]);
  warn (sender, "prediction", "%s (a coordinator that knew these instances before, or retired one, counts differently)",
        comparison->first);
}

/* @job: NULL: a record that is passed over. */
static void
write_jsonl (Sender *sender, const ReplayJob *job, const ReplaySent *sent, const char *qualname)
{
  gboolean batch = job != NULL && job->kind == JOB_POST;
  /* Of several in one POST, each has its own counts only as far as the sum is what was predicted. */
  gboolean known = batch && job->clear
                   && (job->sents->len == 1
                       || ((guint64)job->counts[0] == job->predicted[0] && (guint64)job->counts[1] == job->predicted[1]));
  g_string_truncate (sender->line, 0);
  LmtJsonWriter *json = lmt_json_writer_new (sender->line, LMT_JSON_STYLE_SPACED);
  lmt_json_writer_begin_object (json);
  lmt_json_writer_key (json, "n");
  lmt_json_writer_uint (json, sent->n + 1);
  lmt_json_writer_path (json, "file", events_merge_file (replay_feed_get_merge (sender->feed), sent->file)->path);
  lmt_json_writer_key (json, "record");
  lmt_json_writer_uint (json, sent->number);
  lmt_json_writer_key (json, "qualname");
  lmt_json_writer_string (json, qualname);
  lmt_json_writer_key (json, "instance");
  if (sent->instance != NULL)
    lmt_json_writer_string_len (json, sent->instance->name, sent->instance->name_len);
  else
    lmt_json_writer_null (json);
  lmt_json_writer_key (json, "seq");
  if (batch)
    lmt_json_writer_int (json, sent->seq);
  else
    lmt_json_writer_null (json);
  static const char *const names[] = { "applied", "duplicates", "stale" };
  for (guint i = 0; i < 3; i++)
    {
      lmt_json_writer_key (json, names[i]);
      if (known)
        lmt_json_writer_int (json, job->sents->len == 1 ? job->counts[i] : sent->verdict == i);
      else
        lmt_json_writer_null (json);
    }
  lmt_json_writer_key (json, "status");
  if (job != NULL && job->made)
    lmt_json_writer_uint (json, job->reply.status);
  else
    lmt_json_writer_null (json);
  lmt_json_writer_key (json, "ms");
  lmt_json_writer_double (json, job != NULL && job->made ? (double)job->reply.elapsed_ns / 1e6 : 0.0);
  lmt_json_writer_end_object (json);
  lmt_json_writer_free (json);
  g_string_append_c (sender->line, '\n');
  fwrite (sender->line->str, 1, sender->line->len, sender->run->jsonl);
}

static void
tell_record (Sender *sender, const ReplayJob *job, const ReplaySent *sent)
{
  g_autofree char *counts = job->kind != JOB_POST
                                ? NULL
                                : g_strdup_printf (" Ingested(applied=%" G_GINT64_FORMAT ", duplicates=%" G_GINT64_FORMAT
                                                   ", stale=%" G_GINT64_FORMAT ")",
                                                   job->counts[0], job->counts[1], job->counts[2]);
  g_info ("[%" G_GUINT64_FORMAT "/%" G_GUINT64_FORMAT "] %s %s%s", sent->n + 1,
          sender->run->survey->records * replay_feed_get_rounds (sender->feed),
          job->kind == JOB_POST ? "events.batch" : "events.lifecycle", sent->instance != NULL ? sent->instance->shown : "",
          counts != NULL ? counts : "");
}

static void
acknowledge (Sender *sender, const ReplayJob *job, const ReplaySent *sent)
{
  ReplayOutcome *outcome = sender->outcome;
  outcome->counts.records++;
  sender->acked_since++;
  if (job->kind == JOB_POST && sent->instance != NULL)
    sent->instance->acked = (ReplayCursor){ .incarnation = sent->incarnation, .seq = sent->seq, .known = TRUE };
  if (!outcome->has_acked || sent->n > outcome->acked_n)
    {
      outcome->has_acked = TRUE;
      outcome->acked_n = sent->n;
      outcome->acked_file = sent->file;
      outcome->acked_number = sent->number;
      outcome->acked_offset = sent->offset;
      outcome->acked_seq = job->kind == JOB_POST ? sent->seq : 0;
      if (sent->instance != NULL && g_strcmp0 (outcome->acked_instance, sent->instance->shown) != 0)
        {
          g_free (outcome->acked_instance);
          outcome->acked_instance = g_strdup (sent->instance->shown);
        }
    }
  if (sent->last)
    {
      outcome->counts.ended++;
      if (sender->beat != NULL)
        replay_beat_stop (sender->beat, sent->instance);
    }
}

static void
take_failure (Sender *sender, const ReplayJob *job)
{
  ReplayOutcome *outcome = sender->outcome;
  if (outcome->failure != NULL)
    return;
  /* The signal is what ended it. */
  if ((job->reply.cancelled || sender->dropping) && is_interrupted (sender))
    return;
  g_autofree char *place = describe_sent (sender, &g_array_index (job->sents, ReplaySent, 0), job->kind == JOB_POST);
  g_autofree char *among = job->sents->len > 1 ? g_strdup_printf (" and %u more", job->sents->len - 1) : g_strdup ("");
  g_autofree char *where
      = job->kafka ? g_strdup ("") : g_strdup_printf ("coordinator at %s: ", replay_target_get_shown (sender->run->target));
  outcome->failure = g_strdup_printf ("%s%s%s: %s", where, place, among, job->failure);
}

static void
settle (Sender *sender, ReplayJob *job)
{
  ReplayOutcome *outcome = sender->outcome;
  outcome->calls += job->calls;
  outcome->retried += job->retried;
  if (job->ok && job->kafka)
    {
      for (guint i = 0; i < 3; i++)
        job->counts[i] = (gint64)job->predicted[i];
      job->clear = TRUE;
    }
  if (job->ok)
    {
      outcome->counts.batches += job->kind == JOB_POST ? job->sents->len : 0;
      outcome->counts.starts += job->kind == JOB_REGISTER;
      outcome->counts.stops += job->kind == JOB_STOP;
      outcome->unaddressable += job->unaddressable;
      outcome->bytes += job->kind == JOB_POST ? job->body->len : 0;
      if (job->kind == JOB_POST && job->clear)
        {
          outcome->counts.applied += (guint64)job->counts[0];
          outcome->counts.duplicates += (guint64)job->counts[1];
          outcome->counts.stale += (guint64)job->counts[2];
        }
      if (job->kind == JOB_POST && !job->kafka)
        {
          outcome->unclear += !job->clear;
          compare (sender, job);
        }
    }
  else if (!job->dropped)
    take_failure (sender, job);
  if (job->warning != NULL)
    warn (sender, "unclear", "%s", job->warning);
  /* The gate can't tell: what a coordinator lost with a restart is a gap to it, and later batches are applied all the same. */
  if (job->ok && job->away && !sender->told_away)
    {
      g_autofree char *place = describe_sent (sender, &g_array_index (job->sents, ReplaySent, 0), job->kind == JOB_POST);
      sender->told_away = TRUE;
      warn (
          sender, "away",
          "%s: the coordinator was not there for a while: if it was restarted, what it held and had not saved is not sent again "
          "(--position with --resume sends it)",
          place);
    }
  for (guint i = 0; i < job->sents->len && !job->dropped; i++)
    {
      const ReplaySent *sent = &g_array_index (job->sents, ReplaySent, i);
      if (job->ok)
        acknowledge (sender, job, sent);
      if (sender->run->jsonl != NULL)
        write_jsonl (sender, job, sent, job->kind == JOB_POST ? "events.batch" : "events.lifecycle");
      if (sender->verbose)
        tell_record (sender, job, sent);
    }
  if (!job->ok)
    sender->stopped = TRUE;
  /* What was not acknowledged stays among the outstanding: the position may not pass it. */
  if (job->ok)
    {
      g_queue_unlink (&sender->outstanding, &job->link);
      g_ptr_array_add (sender->spare, job);
    }
}

/* -------- positions -------- */

/* What a job holds is not done, nor what its files hold behind it. */
static void
hold_back (const ReplayJob *job, guint64 *done)
{
  for (guint i = 0; job != NULL && i < job->sents->len; i++)
    {
      const ReplaySent *sent = &g_array_index (job->sents, ReplaySent, i);
      done[sent->file] = MIN (done[sent->file], sent->number - 1);
    }
}

static gboolean
write_position (Sender *sender, GError **error)
{
  guint n = events_merge_n_files (replay_feed_get_merge (sender->feed));
  g_autofree guint64 *done = g_memdup2 (sender->dispatched, n * sizeof *done);
  sender->acked_since = 0;
  if (done == NULL)
    return TRUE;
  for (GList *at = sender->outstanding.head; at != NULL; at = at->next)
    hold_back (at->data, done);
  for (guint i = 0; i < sender->n_lanes; i++)
    hold_back (sender->pending[i], done);
  return replay_position_write (sender->run->position, sender->config->position, sender->feed, sender->beat, done, error);
}

static void
maybe_write_position (Sender *sender)
{
  g_autoptr (GError) error = NULL;
  if (sender->run->position == NULL || sender->acked_since < sender->config->position_every)
    return;
  if (!write_position (sender, &error))
    warn (sender, "position", "--position: %s", error->message);
}

/* -------- handing out -------- */

/* Settles what is through. @timeout_ns: how long to wait for one. */
static void
settle_done (Sender *sender, gint64 timeout_ns)
{
  ReplayJob *job;
  if (sender->run->kafka != NULL)
    while ((job = replay_kafka_take_done (sender->run->kafka, (guint)(timeout_ns / 1000000))) != NULL)
      {
        settle (sender, job);
        timeout_ns = 0;
      }
  if (sender->lanes == NULL)
    return;
  while ((job = replay_lanes_take_done (sender->lanes, timeout_ns)) != NULL)
    {
      settle (sender, job);
      timeout_ns = 0;
    }
}

/* SIGUSR1: the table as it is now, on stderr. */
static void
show_table (Sender *sender)
{
  ReplayCounts counts = sender->outcome->counts;
  counts.servers = replay_feed_count_servers (sender->feed);
  g_autoptr (LmtReport) report = replay_report_new (sender->feed, &counts, (double)(now_ns () - sender->origin_ns) / 1e9);
  g_autofree char *text = lmt_report_to_text (report);
  fputs (text, stderr);
}

static void
show_progress (Sender *sender)
{
  gint64 now = now_ns ();
  gint asked = g_atomic_int_get (sender->run->context->table_requests);
  if (asked != sender->tables_shown)
    {
      sender->tables_shown = asked;
      show_table (sender);
    }
  if (sender->progress == NULL || !replay_progress_is_due (sender->progress, now))
    return;
  const ReplayOutcome *outcome = sender->outcome;
  ReplayProgressState state = { .done = outcome->counts.records + outcome->resumed_over,
                                .total = sender->run->survey->records * replay_feed_get_rounds (sender->feed),
                                .batches = outcome->counts.batches,
                                .bytes = outcome->bytes,
                                .lag_ns = sender->config->speed > 0 ? sender->lag_ns : -1 };
  replay_progress_draw (sender->progress, &state, now);
}

static void
submit (Sender *sender, guint lane, ReplayJob *job)
{
  g_queue_push_tail_link (&sender->outstanding, &job->link);
  if (job->kafka)
    {
      replay_kafka_submit (sender->run->kafka, job);
      settle_done (sender, 0);
    }
  else if (sender->lanes == NULL)
    {
      replay_job_execute (&sender->caller, &sender->worker, job);
      settle (sender, job);
    }
  else
    {
      while (!sender->stopped && !is_interrupted (sender) && !replay_lanes_has_room (sender->lanes, lane))
        {
          settle_done (sender, SLICE_NS);
          show_progress (sender);
        }
      replay_lanes_submit (sender->lanes, lane, job);
      settle_done (sender, 0);
    }
  maybe_write_position (sender);
  show_progress (sender);
}

static ReplayJob *
take_job (Sender *sender, JobKind kind)
{
  ReplayJob *job
      = sender->spare->len > 0 ? g_ptr_array_remove_index_fast (sender->spare, sender->spare->len - 1) : replay_job_new ();
  replay_job_reset (job, kind);
  return job;
}

static void
flush_lane (Sender *sender, guint lane)
{
  ReplayJob *job = sender->pending[lane];
  if (job == NULL)
    return;
  sender->pending[lane] = NULL;
  if (!job->kafka)
    g_string_append (job->body, "]}");
  submit (sender, lane, job);
}

static void
flush_all (Sender *sender)
{
  for (guint i = 0; i < sender->n_lanes && !sender->stopped; i++)
    flush_lane (sender, i);
}

/* Until every job is through, or the run is broken off. */
static void
drain (Sender *sender)
{
  if (sender->lanes == NULL && sender->run->kafka == NULL)
    return;
  while (!sender->stopped && !is_interrupted (sender) && sender->outstanding.length > 0)
    {
      settle_done (sender, SLICE_NS);
      show_progress (sender);
    }
}

static guint
lane_of (Sender *sender, ReplayInstance *instance)
{
  if (sender->n_lanes == 1 || instance == NULL)
    return 0;
  if (instance->lane == 0)
    instance->lane = 1 + (sender->config->keep_shared_order && instance->shared ? 0 : sender->next_lane++ % sender->n_lanes);
  return instance->lane - 1;
}

static ReplaySent
sent_of (Sender *sender, const ReplayItem *item)
{
  return (ReplaySent){ .n = item->n,
                       .number = item->number,
                       .offset = item->offset,
                       .file = item->file,
                       .instance = item->instance,
                       .incarnation = item->incarnation,
                       .seq = item->seq,
                       .last = item->kind != REPLAY_STOP && replay_feed_is_last (sender->feed, item) };
}

static gboolean
send_batch (Sender *sender, const ReplayItem *item)
{
  guint lane = lane_of (sender, item->instance);
  const char *reason = NULL;
  if (sender->pending[lane] == NULL)
    {
      sender->pending[lane] = take_job (sender, JOB_POST);
      sender->pending[lane]->kafka = sender->run->kafka != NULL;
      if (sender->run->kafka == NULL)
        g_string_append (sender->pending[lane]->body, "{\"batches\":[");
    }
  ReplayJob *job = sender->pending[lane];
  gsize before = job->body->len;
  if (job->sents->len > 0)
    g_string_append_c (job->body, ',');
  if (!replay_feed_append_json (sender->feed, item, job->body, &reason))
    {
      g_string_truncate (job->body, before);
      return FALSE;
    }
  EventsBatch batch = { .instance = name_of (item->instance),
                        .incarnation = item->incarnation,
                        .seq = item->seq,
                        .kind = item->event,
                        .tier = item->tier,
                        .dropped_events = item->dropped };
  ReplaySent sent = sent_of (sender, item);
  sent.verdict = item->instance != NULL ? events_gate_admit (sender->gate, &batch, 0) : EVENTS_APPLIED;
  job->predicted[sent.verdict]++;
  g_array_append_val (job->sents, sent);
  if (job->kafka || job->sents->len >= sender->config->batch || job->body->len >= BODY_MAX)
    flush_lane (sender, lane);
  return TRUE;
}

static void
keep_start (ReplayInstance *instance, const ReplayItem *item)
{
  if (instance->ip == NULL || !lmt_span_equal_str (item->ip, instance->ip, instance->ip_len))
    {
      g_free (instance->ip);
      instance->ip = replay_dup_text (item->ip);
      instance->ip_len = item->ip.len;
    }
  instance->http_port = item->http_port;
  instance->mq_port = item->mq_port;
}

static gboolean
registers (const Sender *sender, gint64 port)
{
  return port > 0 && sender->beat != NULL && strcmp (sender->config->register_mode, "none") != 0;
}

static void
warn_path (Sender *sender, ReplayInstance *instance)
{
  if (instance->path != NULL || instance->warned_path)
    return;
  instance->warned_path = TRUE;
  warn (sender, "id", "%s: no path can hold this id: it gets no heartbeats and is never deregistered", instance->shown);
}

static void
send_start (Sender *sender, const ReplayItem *item)
{
  ReplayInstance *instance = item->instance;
  ReplayJob *job = take_job (sender, JOB_REGISTER);
  ReplaySent sent = sent_of (sender, item);
  g_array_append_val (job->sents, sent);
  job->instance = instance;
  keep_start (instance, item);
  if (item->http_port <= 0)
    warn (sender, "no-port", "%s recorded no HTTP port: it is not registered", instance->shown);
  if (registers (sender, item->http_port))
    {
      warn_path (sender, instance);
      replay_append_registration (job->body, instance, sender->config->register_mode);
      job->path = g_strdup (instance->path);
      instance->expected = TRUE;
      events_gate_register (sender->gate, name_of (instance));
    }
  submit (sender, lane_of (sender, instance), job);
}

static void
send_stop (Sender *sender, const ReplayItem *item)
{
  ReplayInstance *instance = item->instance;
  ReplayJob *job = take_job (sender, JOB_STOP);
  ReplaySent sent = sent_of (sender, item);
  g_array_append_val (job->sents, sent);
  job->instance = instance;
  job->path = g_strdup (instance->path);
  if (instance->expected && instance->path != NULL)
    events_gate_depart (sender->gate, name_of (instance));
  instance->expected = FALSE;
  submit (sender, lane_of (sender, instance), job);
}

static void
pass_over (Sender *sender, const ReplayItem *item)
{
  g_autofree char *qualname = replay_clean ((const char *)item->qualname.data, item->qualname.len, 128);
  sender->outcome->counts.skipped++;
  sender->outcome->counts.records++;
  if (!LMT_SPAN_IS (item->qualname, "events.lifecycle"))
    {
      if (g_hash_table_add (sender->warned, g_strdup (qualname)))
        warn (sender, "skipped", "skipping unknown record '%s'", qualname);
    }
  else
    {
      g_autofree char *phase = replay_clean ((const char *)item->phase.data, item->phase.len, 128);
      warn (sender, "skipped",
            item->instance == NULL ? "skipping a '%s' mark naming no instance" : "skipping unknown lifecycle phase '%s'", phase);
    }
  if (sender->run->jsonl != NULL)
    {
      const ReplaySent sent = sent_of (sender, item);
      write_jsonl (sender, NULL, &sent, qualname);
    }
  if (item->instance != NULL && replay_feed_is_last (sender->feed, item))
    {
      sender->outcome->counts.ended++;
      if (sender->beat != NULL)
        replay_beat_stop (sender->beat, item->instance);
    }
  if (sender->verbose)
    g_info ("[%" G_GUINT64_FORMAT "/%" G_GUINT64_FORMAT "] %s %s", item->n + 1,
            sender->run->survey->records * replay_feed_get_rounds (sender->feed), qualname,
            item->instance != NULL ? item->instance->shown : "");
}

/* -------- time -------- */

/* Waits until the record is due. What is filled goes out before a sleep. */
static void
pace (Sender *sender, const ReplayItem *item)
{
  if (sender->pacer == NULL)
    return;
  if (!sender->any)
    sender->first_wall = item->due_wall;
  sender->any = TRUE;
  if (item->round != sender->round)
    {
      lmt_pacer_next_round (sender->pacer);
      sender->round = item->round;
    }
  gint64 trace_ns = 0;
  gint64 due = lmt_pacer_due (sender->pacer, item->due_wall - sender->first_wall, &trace_ns);
  sender->outcome->recorded_ns = MAX (sender->outcome->recorded_ns, trace_ns);
  gint64 now = now_ns ();
  if (due > now)
    flush_all (sender);
  while (!sender->stopped && !is_interrupted (sender) && (now = now_ns ()) < due)
    {
      const LmtClock *clock = lmt_clock_real ();
      clock->sleep_until_ns (clock->data, MIN (due, now + SLICE_NS), NULL, 0);
      settle_done (sender, 0);
      show_progress (sender);
    }
  sender->lag_ns = MAX (0, now_ns () - due);
  lmt_stats_add (sender->outcome->lag, sender->lag_ns);
}

/* -------- the pass -------- */

/* FALSE: it is left out: LMCache's replay would have died of it, or an earlier run sent it. */
static gboolean
is_wanted (Sender *sender, const ReplayItem *item)
{
  if (sender->run->resume != NULL && item->round == 0)
    {
      const ReplayInstance *instance = item->instance;
      const ReplayPositionFile *file = g_ptr_array_index (sender->run->resume->files, item->file);
      gboolean held = instance != NULL ? item->n < instance->resume_after : item->number <= file->records_done;
      if (held)
        {
          sender->outcome->resumed_over++;
          return FALSE;
        }
    }
  if (item->bad == NULL)
    return TRUE;
  sender->outcome->left_out_bad++;
  return FALSE;
}

/* R19: no POST goes across a mark. Kafka's order and that of HTTP know nothing of each other: what was sent there is delivered
 * first. */
static void
before_mark (Sender *sender)
{
  flush_all (sender);
  if (sender->run->kafka != NULL)
    drain (sender);
}

static void
send_item (Sender *sender, const ReplayItem *item)
{
  if (sender->beat != NULL)
    replay_beat_set_place (sender->beat, item->n + 1);
  switch ((ReplayKind)item->kind)
    {
    case REPLAY_BATCH:
      if (!send_batch (sender, item))
        sender->outcome->left_out_bad++;
      break;
    case REPLAY_START:
      before_mark (sender);
      if (!sender->stopped)
        send_start (sender, item);
      break;
    case REPLAY_STOP:
      before_mark (sender);
      if (!sender->stopped)
        send_stop (sender, item);
      break;
    case REPLAY_SKIP:
    default:
      pass_over (sender, item);
    }
}

/* The names of --rename-per-loop change with a round: nothing of the last one may be under way. */
static gboolean
before_round (gpointer data)
{
  Sender *sender = data;
  flush_all (sender);
  drain (sender);
  if (sender->stopped || is_interrupted (sender))
    return FALSE;
  for (guint i = 0; sender->config->rename_per_loop && i < replay_feed_get_n_instances (sender->feed); i++)
    {
      ReplayInstance *instance = replay_feed_get_instance (sender->feed, i);
      instance->expected = FALSE;
      if (sender->beat != NULL && replay_beat_stop (sender->beat, instance))
        replay_beat_forget (sender->beat, instance);
    }
  return TRUE;
}

static gboolean
run_pass (Sender *sender, GError **error)
{
  ReplayItem item;
  int got = 0;
  replay_feed_set_round_func (sender->feed, before_round, sender);
  while (!sender->stopped && !is_interrupted (sender) && (got = replay_feed_next (sender->feed, &item, error)) > 0)
    {
      if (is_wanted (sender, &item))
        {
          pace (sender, &item);
          if (sender->stopped || is_interrupted (sender))
            break;
          send_item (sender, &item);
        }
      /* A mark may not have been sent, when what stood before it failed. What an earlier run had done stays done. */
      if (!sender->stopped)
        sender->dispatched[item.file]
            = sender->resumed_at_position ? MAX (sender->dispatched[item.file], item.number) : item.number;
    }
  if (got == 0 && !is_interrupted (sender))
    flush_all (sender);
  drain (sender);
  replay_feed_set_round_func (sender->feed, NULL, NULL);
  return got >= 0;
}

/* R15: those that were registered are so again, and the gate knows what the coordinator knows. */
static void
resume (Sender *sender)
{
  for (guint i = 0; i < replay_feed_get_n_instances (sender->feed) && !sender->stopped; i++)
    {
      ReplayInstance *instance = replay_feed_get_instance (sender->feed, i);
      if (instance->has_held)
        {
          EventsStream stream = { .instance = name_of (instance),
                                  .incarnation = instance->held.incarnation,
                                  .last_seq = instance->held.seq,
                                  .departed = instance->held.departed,
                                  .departed_incarnation = instance->held.incarnation,
                                  .known = instance->held.known && !instance->held.departed,
                                  .last_dropped = -1 };
          events_gate_restore (sender->gate, &stream);
          instance->acked = instance->held;
        }
      if (!instance->register_first || !registers (sender, instance->http_port)
          || (!sender->run->resume->from_streams && !replay_position_is_registered (sender->run->resume, instance->name)))
        continue;
      ReplayJob *job = take_job (sender, JOB_REGISTER);
      job->instance = instance;
      job->path = g_strdup (instance->path);
      replay_append_registration (job->body, instance, sender->config->register_mode);
      g_queue_push_tail_link (&sender->outstanding, &job->link);
      replay_job_execute (&sender->caller, &sender->worker, job);
      instance->expected = TRUE;
      events_gate_register (sender->gate, name_of (instance));
      sender->outcome->calls += job->calls;
      if (!job->ok)
        {
          sender->outcome->failure
              = g_strdup_printf ("coordinator at %s: registering %s again: %s", replay_target_get_shown (sender->run->target),
                                 instance->shown, job->failure != NULL ? job->failure : "broken off");
          sender->stopped = TRUE;
        }
      g_queue_unlink (&sender->outstanding, &job->link);
      g_ptr_array_add (sender->spare, job);
    }
}

static void
tell_order (Sender *sender)
{
  gboolean shared = FALSE;
  for (guint i = 0; i < replay_feed_get_n_instances (sender->feed); i++)
    shared = shared || replay_feed_get_instance (sender->feed, i)->shared;
  if (sender->n_lanes > 1 && shared && !sender->config->keep_shared_order)
    warn (sender, "order",
          "--inflight: batches of shared pools keep their order only within an instance (--keep-shared-order keeps it)");
}

static void
sender_init (Sender *sender, const ReplayRun *run, ReplayOutcome *outcome)
{
  const ReplayConfig *config = run->config;
  guint n_files = events_merge_n_files (replay_feed_get_merge (run->feed));
  sender->run = run;
  sender->config = config;
  sender->feed = run->feed;
  sender->outcome = outcome;
  sender->gate = events_gate_new (run->compat);
  outcome->comparison.compat = run->compat;
  if (run->target != NULL)
    sender->beat = replay_beat_new (run->target, config->heartbeat_ns, config->reregister != 0, run->context->warnings);
  sender->caller
      = (ReplayCaller){ .config = config, .interrupts = run->context->interrupts, .target = run->target, .beat = sender->beat };
  sender->worker = (ReplayWorker){ run->conn, events_arena_new (0) };
  sender->n_lanes = run->kafka != NULL ? 1 : (guint)config->inflight;
  sender->pending = g_new0 (ReplayJob *, sender->n_lanes);
  sender->spare = g_ptr_array_new ();
  g_queue_init (&sender->outstanding);
  sender->dispatched = g_new0 (guint64, n_files + 1);
  for (guint i = 0; run->resume != NULL && i < n_files; i++)
    sender->dispatched[i] = ((const ReplayPositionFile *)g_ptr_array_index (run->resume->files, i))->records_done;
  sender->resumed_at_position = run->resume != NULL && !run->resume->from_streams;
  sender->line = g_string_new (NULL);
  sender->warned = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  sender->verbose = lmt_log_get_level () >= LMT_LOG_INFO;
  sender->progress = replay_progress_new (run->context->progress, run->context->quiet != 0, config->interval_ns);
  if (config->speed > 0)
    {
      sender->pacer = lmt_pacer_new (config->speed, config->max_gap_ns);
      outcome->lag = lmt_stats_new ();
    }
}

static void
sender_clear (Sender *sender)
{
  ReplayOutcome *outcome = sender->outcome;
  replay_lanes_free (sender->lanes);
  if (sender->beat != NULL)
    {
      replay_beat_counts (sender->beat, &outcome->heartbeats, &outcome->heartbeats_failed, &outcome->dropped);
      replay_beat_free (sender->beat);
    }
  for (guint i = 0; i < sender->n_lanes; i++)
    replay_job_free (sender->pending[i]);
  g_free (sender->pending);
  for (guint i = 0; i < sender->spare->len; i++)
    replay_job_free (sender->spare->pdata[i]);
  g_ptr_array_unref (sender->spare);
  while (sender->outstanding.head != NULL)
    {
      ReplayJob *job = sender->outstanding.head->data;
      g_queue_unlink (&sender->outstanding, &job->link);
      replay_job_free (job);
    }
  g_free (sender->dispatched);
  events_arena_free (sender->worker.arena);
  events_gate_free (sender->gate);
  lmt_pacer_free (sender->pacer);
  g_string_free (sender->line, TRUE);
  g_hash_table_unref (sender->warned);
}

/* After a signal what the producer has may still be delivered, until a second one; after a refusal nothing may come behind it. */
static void
end_kafka (Sender *sender)
{
  ReplayKafka *kafka = sender->run->kafka;
  const gint64 until = now_ns () + FLUSH_NS;
  while (sender->outcome->failure == NULL && replay_kafka_count_on_way (kafka) > 0 && now_ns () < until
         && g_atomic_int_get (sender->run->context->interrupts) < 2)
    {
      settle_done (sender, SLICE_NS);
      show_progress (sender);
    }
  sender->outcome->abandoned = replay_kafka_count_on_way (kafka);
  sender->dropping = TRUE;
  replay_kafka_drop (kafka);
  settle_done (sender, SLICE_NS);
}

gboolean
replay_send (const ReplayRun *run, ReplayOutcome *outcome, GError **error)
{
  Sender sender = { 0 };
  sender_init (&sender, run, outcome);
  sender.origin_ns = now_ns ();
  if (sender.n_lanes > 1)
    {
      sender.lanes = replay_lanes_new (&sender.caller, sender.n_lanes);
      if (sender.lanes == NULL)
        sender.n_lanes = 1;
    }
  if (run->conn != NULL)
    replay_conn_set_alone (run->conn, sender.lanes == NULL && run->kafka == NULL);
  tell_order (&sender);
  if (sender.pacer != NULL)
    lmt_pacer_start (sender.pacer, sender.origin_ns);
  if (run->resume != NULL)
    resume (&sender);
  /* A resume that could not even begin knows less than the position it came from: that one stays. */
  const gboolean knows_place = !sender.stopped;
  gboolean ok = run_pass (&sender, error);
  /* What is under way still counts; a second signal cuts it short. */
  if (sender.lanes != NULL)
    {
      g_atomic_int_set (&sender.caller.stop, sender.stopped || is_interrupted (&sender));
      replay_lanes_finish (sender.lanes);
      settle_done (&sender, 0);
    }
  if (run->kafka != NULL && (sender.stopped || is_interrupted (&sender)))
    end_kafka (&sender);
  outcome->interrupted = is_interrupted (&sender);
  outcome->duration_ns = now_ns () - sender.origin_ns;
  replay_progress_free (sender.progress);
  g_autoptr (GError) local = NULL;
  if (run->position != NULL && knows_place && !write_position (&sender, &local))
    warn (&sender, "position", "--position: %s", local->message);
  sender_clear (&sender);
  return ok;
}
