// SPDX-License-Identifier: Apache-2.0
#include "replay-lane.h"

#include <pthread.h>
#include <string.h>
#include <time.h>

#define LANE_DEPTH 2
#define BACKOFF_FIRST_NS 100000000
#define BACKOFF_MOST_NS G_GINT64_CONSTANT (5000000000)

/* -------- jobs -------- */

ReplayJob *
replay_job_new (void)
{
  ReplayJob *job = g_new0 (ReplayJob, 1);
  job->body = g_string_sized_new (4096);
  job->sents = g_array_new (FALSE, FALSE, sizeof (ReplaySent));
  job->link.data = job;
  replay_reply_init (&job->reply);
  return job;
}

void
replay_job_reset (ReplayJob *job, JobKind kind)
{
  job->kind = kind;
  g_string_truncate (job->body, 0);
  g_array_set_size (job->sents, 0);
  job->instance = NULL;
  g_clear_pointer (&job->path, g_free);
  g_clear_pointer (&job->failure, g_free);
  g_clear_pointer (&job->warning, g_free);
  memset (job->predicted, 0, sizeof job->predicted);
  memset (job->counts, 0, sizeof job->counts);
  job->kafka = job->made = job->ok = job->dropped = job->clear = job->unaddressable = job->away = FALSE;
  job->calls = job->retried = 0;
}

void
replay_job_free (ReplayJob *job)
{
  if (job == NULL)
    return;
  g_string_free (job->body, TRUE);
  g_array_unref (job->sents);
  replay_reply_clear (&job->reply);
  g_free (job->path);
  g_free (job->failure);
  g_free (job->warning);
  g_free (job);
}

/* -------- answers -------- */

/* FALSE: no counts at all: LMCache's client ends there, too. */
static gboolean
read_counts (const ReplayReply *reply, EventsArena *arena, gint64 counts[3])
{
  static const char *const names[] = { "applied", "duplicates", "stale" };
  EventsJson json;
  EventsScalar name, value;
  events_arena_reset (arena);
  events_json_init (&json, reply->body->str, reply->body->len, arena, 32);
  if (events_json_next (&json, &value) != EVENTS_OBJECT)
    return FALSE;
  while (events_json_member (&json, &name))
    {
      guint which = 0;
      if (events_json_next (&json, &value) == EVENTS_ERROR)
        return FALSE;
      while (which < 3 && !lmt_span_equal_str (name.text, names[which], strlen (names[which])))
        which++;
      const char *type, *msg;
      gboolean huge = FALSE;
      if (which < 3 ? !events_take_int (&value, &counts[which], &huge, &type, &msg) : !events_json_skip (&json, &value, NULL))
        return FALSE;
    }
  return json.fault == NULL && events_json_at_end (&json);
}

static gboolean
is_registration (const ReplayReply *reply, EventsArena *arena)
{
  EventsJson json;
  EventsScalar name, value;
  gboolean has_id = FALSE, has_again = FALSE;
  events_arena_reset (arena);
  events_json_init (&json, reply->body->str, reply->body->len, arena, 32);
  if (events_json_next (&json, &value) != EVENTS_OBJECT)
    return FALSE;
  while (events_json_member (&json, &name))
    {
      const char *type, *msg;
      gboolean again;
      if (events_json_next (&json, &value) == EVENTS_ERROR)
        return FALSE;
      if (LMT_SPAN_IS (name.text, "instance_id"))
        has_id = value.type == EVENTS_STRING;
      else if (LMT_SPAN_IS (name.text, "re_registered"))
        has_again = events_take_bool (&value, &again, &type, &msg);
      if ((value.type == EVENTS_ARRAY || value.type == EVENTS_OBJECT) && !events_json_skip (&json, &value, NULL))
        return FALSE;
    }
  return has_id && has_again && json.fault == NULL && events_json_at_end (&json);
}

/* -------- calls -------- */

static gint64
now_ns (void)
{
  return lmt_clock_now (lmt_clock_real ());
}

static gboolean
is_stopped (const ReplayCaller *caller)
{
  return g_atomic_int_get (&caller->stop) != 0 || g_atomic_int_get (caller->interrupts) > 0;
}

static gboolean
may_repeat (const ReplayCaller *caller, const ReplayReply *reply)
{
  return strcmp (caller->config->on_error, "retry") == 0 && !reply->cancelled
         && (reply->status == 0 || reply->status == 429 || (reply->status >= 502 && reply->status <= 504));
}

/* FALSE: the run was broken off meanwhile. */
static gboolean
wait_for (const ReplayCaller *caller, gint64 ns)
{
  gint64 until = now_ns () + ns;
  while (!is_stopped (caller))
    {
      gint64 left = until - now_ns ();
      if (left <= 0)
        return TRUE;
      struct timespec step = { 0, MIN (left, 50000000) };
      nanosleep (&step, NULL);
    }
  return FALSE;
}

/* One call, with repeats. @unclear: (out): an attempt failed in a way that may have been received. */
static void
call (ReplayCaller *caller, ReplayWorker *worker, ReplayJob *job, const char *method, const char *path, gboolean *unclear)
{
  gint64 backoff = BACKOFF_FIRST_NS;
  gboolean has_body = job->kind != JOB_STOP;
  *unclear = FALSE;
  for (guint64 attempt = 0;; attempt++)
    {
      job->calls++;
      replay_conn_call (worker->conn, method, path, has_body ? job->body->str : NULL, has_body ? job->body->len : 0, &job->reply);
      if (replay_reply_is_success (&job->reply) || attempt >= caller->config->retries || !may_repeat (caller, &job->reply))
        return;
      job->away = job->away || job->reply.status == 0;
      *unclear = *unclear || (job->reply.status == 0 && job->reply.sent) || job->reply.status >= 502;
      if (job->reply.retry_after_ns > BACKOFF_MOST_NS)
        g_message ("%s %s: told to wait %g s (Retry-After)", method, path, (double)job->reply.retry_after_ns / 1e9);
      if (!wait_for (caller, MAX (backoff, job->reply.retry_after_ns)))
        return;
      job->retried++;
      backoff = MIN (backoff * 2, BACKOFF_MOST_NS);
    }
}

static void
fail (ReplayJob *job, const char *method, const char *path, const char *expected)
{
  g_autofree char *found = replay_reply_describe (&job->reply);
  job->failure = g_strdup_printf ("%s %s: expected %s, found %s", method, path, expected, found);
}

static const char first_404[]
    = ": two causes are known: a coordinator older than this path (--events-path PATH names another), and one that takes events "
      "from Kafka";

static void
execute_post (ReplayCaller *caller, ReplayWorker *worker, ReplayJob *job)
{
  const char *path = caller->config->events_path;
  gboolean unclear;
  job->made = TRUE;
  call (caller, worker, job, "POST", path, &unclear);
  if (!replay_reply_is_success (&job->reply))
    {
      fail (job, "POST", path, "a 2xx reply");
      if (job->reply.status == 404 && g_atomic_int_get (&caller->posted) == 0)
        {
          char *text = g_strconcat (job->failure, first_404, NULL);
          g_free (job->failure);
          job->failure = text;
        }
      return;
    }
  g_atomic_int_set (&caller->posted, 1);
  if (!read_counts (&job->reply, worker->arena, job->counts))
    {
      fail (job, "POST", path, "counts {applied, duplicates, stale}");
      return;
    }
  gint64 *counts = job->counts;
  job->ok = TRUE;
  /* B9. Sums of what a table of 2^63 can't hold are no sums. */
  job->clear = counts[0] >= 0 && counts[1] >= 0 && counts[2] >= 0 && counts[0] <= job->sents->len && counts[1] <= job->sents->len
               && counts[2] <= job->sents->len && counts[0] + counts[1] + counts[2] == job->sents->len;
  if (!job->clear)
    {
      g_autofree char *text = replay_clean (job->reply.body->str, job->reply.body->len, 256);
      job->warning = g_strdup_printf ("counts of a reply: expected integers of 0 or more that add up to %u, found %s",
                                      job->sents->len, text);
      return;
    }
  /* R14: what was received before its answer was lost is a duplicate only to the coordinator. */
  if (unclear && counts[1] > (gint64)job->predicted[EVENTS_DUPLICATE])
    {
      counts[0] += counts[1] - (gint64)job->predicted[EVENTS_DUPLICATE];
      counts[1] = (gint64)job->predicted[EVENTS_DUPLICATE];
    }
}

static void
execute_register (ReplayCaller *caller, ReplayWorker *worker, ReplayJob *job)
{
  gboolean unclear;
  if (job->body->len == 0)
    {
      job->ok = TRUE; /* a mark without a port, or nothing is to be registered */
      return;
    }
  job->made = TRUE;
  call (caller, worker, job, "POST", "/instances", &unclear);
  if (!replay_reply_is_success (&job->reply))
    fail (job, "POST", "/instances", "a 2xx reply");
  else if (!is_registration (&job->reply, worker->arena))
    fail (job, "POST", "/instances", "{instance_id, re_registered}");
  else
    {
      job->ok = TRUE;
      replay_beat_start (caller->beat, job->instance, job->path, job->body->str);
    }
}

static void
execute_stop (ReplayCaller *caller, ReplayWorker *worker, ReplayJob *job)
{
  gboolean unclear;
  if (caller->beat == NULL || !replay_beat_stop (caller->beat, job->instance))
    {
      job->ok = TRUE;
      return;
    }
  if (job->path == NULL)
    {
      job->ok = job->unaddressable = TRUE;
      return;
    }
  g_autofree char *path = g_strconcat ("/instances/", job->path, NULL);
  job->made = TRUE;
  call (caller, worker, job, "DELETE", path, &unclear);
  job->ok = replay_reply_is_success (&job->reply) || (unclear && job->reply.status == 404);
  if (job->ok)
    replay_beat_forget (caller->beat, job->instance);
  else
    fail (job, "DELETE", path, "a 2xx reply");
}

void
replay_job_execute (ReplayCaller *caller, ReplayWorker *worker, ReplayJob *job)
{
  if (is_stopped (caller))
    {
      job->dropped = TRUE;
      return;
    }
  if (job->kind == JOB_POST)
    execute_post (caller, worker, job);
  else if (job->kind == JOB_REGISTER)
    execute_register (caller, worker, job);
  else
    execute_stop (caller, worker, job);
  if (!job->ok)
    g_atomic_int_set (&caller->stop, 1);
}

/* -------- lanes -------- */

typedef struct
{
  ReplayLanes *lanes;
  pthread_t thread;
  GQueue queue; /* ReplayJob */
  guint held;   /* given and not yet through */
} Lane;

struct _ReplayLanes
{
  ReplayCaller *caller;
  pthread_mutex_t lock;
  pthread_cond_t work;
  pthread_cond_t done_cond;
  gboolean ended;
  GQueue done;
  guint n;
  guint n_running;
  Lane *lane;
};

static gpointer
lane_thread (gpointer data)
{
  Lane *lane = data;
  ReplayLanes *lanes = lane->lanes;
  GMainContext *context = g_main_context_new ();
  g_main_context_push_thread_default (context);
  ReplayWorker worker = { replay_conn_new (lanes->caller->target), events_arena_new (0) };
  pthread_mutex_lock (&lanes->lock);
  for (;;)
    {
      ReplayJob *job = g_queue_pop_head (&lane->queue);
      if (job == NULL && lanes->ended)
        break;
      if (job == NULL)
        {
          pthread_cond_wait (&lanes->work, &lanes->lock);
          continue;
        }
      pthread_mutex_unlock (&lanes->lock);
      replay_job_execute (lanes->caller, &worker, job);
      pthread_mutex_lock (&lanes->lock);
      lane->held--;
      g_queue_push_tail (&lanes->done, job);
      pthread_cond_signal (&lanes->done_cond);
    }
  pthread_mutex_unlock (&lanes->lock);
  events_arena_free (worker.arena);
  replay_conn_free (worker.conn);
  g_main_context_pop_thread_default (context);
  g_main_context_unref (context);
  return NULL;
}

ReplayLanes *
replay_lanes_new (ReplayCaller *caller, guint n)
{
  ReplayLanes *lanes = g_new0 (ReplayLanes, 1);
  pthread_condattr_t attr;
  lanes->caller = caller;
  lanes->lane = g_new0 (Lane, n);
  pthread_mutex_init (&lanes->lock, NULL);
  pthread_condattr_init (&attr);
  pthread_condattr_setclock (&attr, CLOCK_MONOTONIC);
  pthread_cond_init (&lanes->done_cond, &attr);
  pthread_condattr_destroy (&attr);
  pthread_cond_init (&lanes->work, NULL);
  g_queue_init (&lanes->done);
  for (guint i = 0; i < n; i++)
    {
      lanes->lane[i].lanes = lanes;
      g_queue_init (&lanes->lane[i].queue);
      if (pthread_create (&lanes->lane[i].thread, NULL, lane_thread, &lanes->lane[i]) != 0)
        break;
      lanes->n++;
    }
  lanes->n_running = lanes->n;
  if (lanes->n > 0)
    return lanes;
  replay_lanes_free (lanes);
  return NULL;
}

void
replay_lanes_finish (ReplayLanes *lanes)
{
  pthread_mutex_lock (&lanes->lock);
  lanes->ended = TRUE;
  pthread_cond_broadcast (&lanes->work);
  pthread_mutex_unlock (&lanes->lock);
  for (guint i = 0; i < lanes->n_running; i++)
    pthread_join (lanes->lane[i].thread, NULL);
  lanes->n_running = 0;
}

void
replay_lanes_free (ReplayLanes *lanes)
{
  if (lanes == NULL)
    return;
  replay_lanes_finish (lanes);
  pthread_cond_destroy (&lanes->work);
  pthread_cond_destroy (&lanes->done_cond);
  pthread_mutex_destroy (&lanes->lock);
  g_free (lanes->lane);
  g_free (lanes);
}

gboolean
replay_lanes_has_room (ReplayLanes *lanes, guint lane)
{
  pthread_mutex_lock (&lanes->lock);
  gboolean room = lanes->lane[lane % lanes->n].held < LANE_DEPTH;
  pthread_mutex_unlock (&lanes->lock);
  return room;
}

void
replay_lanes_submit (ReplayLanes *lanes, guint lane, ReplayJob *job)
{
  pthread_mutex_lock (&lanes->lock);
  g_queue_push_tail (&lanes->lane[lane % lanes->n].queue, job);
  lanes->lane[lane % lanes->n].held++;
  pthread_cond_broadcast (&lanes->work);
  pthread_mutex_unlock (&lanes->lock);
}

ReplayJob *
replay_lanes_take_done (ReplayLanes *lanes, gint64 timeout_ns)
{
  struct timespec until;
  clock_gettime (CLOCK_MONOTONIC, &until);
  until.tv_sec += timeout_ns / 1000000000;
  until.tv_nsec += timeout_ns % 1000000000;
  until.tv_sec += until.tv_nsec / 1000000000;
  until.tv_nsec %= 1000000000;
  pthread_mutex_lock (&lanes->lock);
  ReplayJob *job = g_queue_pop_head (&lanes->done);
  while (job == NULL && timeout_ns > 0)
    {
      if (pthread_cond_timedwait (&lanes->done_cond, &lanes->lock, &until) != 0)
        timeout_ns = 0;
      job = g_queue_pop_head (&lanes->done);
    }
  pthread_mutex_unlock (&lanes->lock);
  return job;
}
