// SPDX-License-Identifier: Apache-2.0
/* Heartbeats: one thread and one connection for all instances (R17). */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "replay.h"

/* One heartbeat. Strings are its own: names may change when a round begins. */
typedef struct
{
  ReplayInstance *instance;
  guint64 generation; /* of the start it came from */
  gint64 due_ns;
  char *path;
  char *body; /* its registration, for --reregister */
  char *shown;
} Beat;

struct _ReplayBeat
{
  ReplayTarget *target;
  gint64 interval_ns;
  gboolean reregister;
  LmtWarnings *warnings;
  pthread_t thread;
  gboolean has_thread;
  pthread_mutex_t lock;
  pthread_cond_t wake;
  gboolean ended;
  GPtrArray *beats; /* Beat */
  guint64 next_generation;
  guint64 sent, failed, dropped;
  atomic_ullong place;
};

static void
beat_clear (gpointer data)
{
  Beat *beat = data;
  g_free (beat->path);
  g_free (beat->body);
  g_free (beat->shown);
  g_free (beat);
}

static gint64
now_ns (void)
{
  return lmt_clock_now (lmt_clock_real ());
}

static void G_GNUC_PRINTF (3, 4) warn (ReplayBeat *self, const char *kind, const char *format, ...)
{
  va_list args;
  va_start (args, format);
  g_autofree char *text = g_strdup_vprintf (format, args);
  va_end (args);
  lmt_warnings_add (self->warnings, kind, text);
}

static Beat *
find (ReplayBeat *self, const ReplayInstance *instance)
{
  for (guint i = 0; i < self->beats->len; i++)
    if (((Beat *)self->beats->pdata[i])->instance == instance)
      return self->beats->pdata[i];
  return NULL;
}

static Beat *
find_next (ReplayBeat *self)
{
  Beat *next = NULL;
  for (guint i = 0; i < self->beats->len; i++)
    {
      Beat *beat = self->beats->pdata[i];
      if (next == NULL || beat->due_ns < next->due_ns)
        next = beat;
    }
  return next;
}

/* With the lock held, which it gives up meanwhile. */
static void
call_again (ReplayBeat *self, ReplayConn *conn, const char *body, ReplayReply *reply)
{
  pthread_mutex_unlock (&self->lock);
  replay_conn_call (conn, "POST", "/instances", body, strlen (body), reply);
  pthread_mutex_lock (&self->lock);
}

/* What the answer means, if the instance was not stopped meanwhile. */
static void
take_answer (ReplayBeat *self, ReplayConn *conn, ReplayInstance *instance, guint64 generation, ReplayReply *reply)
{
  Beat *beat = find (self, instance);
  if (beat == NULL || beat->generation != generation || self->ended)
    return;
  beat->due_ns = now_ns () + self->interval_ns;
  if (reply->status == 0)
    {
      self->failed++;
      warn (self, "heartbeat", "heartbeat of %s failed: %s", beat->shown, reply->reason);
    }
  else if (reply->status != 404)
    self->failed += reply->status >= 400;
  else
    {
      self->dropped++;
      warn (self, "dropped", "the coordinator dropped %s at record %llu: %s", beat->shown,
            (unsigned long long)atomic_load (&self->place),
            self->reregister ? "registering it again" : "its heartbeats end (--reregister registers again)");
      if (self->reregister)
        {
          g_autofree char *body = g_strdup (beat->body);
          call_again (self, conn, body, reply);
          beat = find (self, instance);
          if (beat == NULL || beat->generation != generation)
            return;
          beat->due_ns = now_ns () + self->interval_ns;
          if (!replay_reply_is_success (reply) && !reply->cancelled)
            {
              g_autofree char *found = replay_reply_describe (reply);
              self->failed++;
              warn (self, "dropped", "registering %s again failed: %s", beat->shown, found);
            }
          return;
        }
      instance->registered = FALSE;
      g_ptr_array_remove (self->beats, beat);
    }
}

static void
send_one (ReplayBeat *self, ReplayConn *conn, const Beat *beat, ReplayReply *reply)
{
  ReplayInstance *instance = beat->instance;
  guint64 generation = beat->generation;
  g_autofree char *path = g_strdup_printf ("/instances/%s/heartbeat", beat->path);
  self->sent++;
  pthread_mutex_unlock (&self->lock);
  replay_conn_call (conn, "PUT", path, NULL, 0, reply);
  pthread_mutex_lock (&self->lock);
  take_answer (self, conn, instance, generation, reply);
}

static gpointer
beat_thread (gpointer data)
{
  ReplayBeat *self = data;
  GMainContext *context = g_main_context_new ();
  ReplayReply reply;
  g_main_context_push_thread_default (context);
  ReplayConn *conn = replay_conn_new (self->target);
  replay_reply_init (&reply);
  pthread_mutex_lock (&self->lock);
  while (!self->ended)
    {
      const Beat *next = find_next (self);
      gint64 now = now_ns ();
      if (next == NULL)
        pthread_cond_wait (&self->wake, &self->lock);
      else if (next->due_ns > now)
        {
          struct timespec until;
          clock_gettime (CLOCK_MONOTONIC, &until);
          gint64 wait = next->due_ns - now + until.tv_nsec;
          until.tv_sec += wait / 1000000000;
          until.tv_nsec = wait % 1000000000;
          pthread_cond_timedwait (&self->wake, &self->lock, &until);
        }
      else
        send_one (self, conn, next, &reply);
    }
  pthread_mutex_unlock (&self->lock);
  replay_reply_clear (&reply);
  replay_conn_free (conn);
  g_main_context_pop_thread_default (context);
  g_main_context_unref (context);
  return NULL;
}

ReplayBeat *
replay_beat_new (ReplayTarget *target, gint64 interval_ns, gboolean reregister, LmtWarnings *warnings)
{
  ReplayBeat *self = g_new0 (ReplayBeat, 1);
  pthread_condattr_t attr;
  self->target = target;
  self->interval_ns = interval_ns;
  self->reregister = reregister;
  self->warnings = warnings;
  self->beats = g_ptr_array_new_with_free_func (beat_clear);
  pthread_mutex_init (&self->lock, NULL);
  pthread_condattr_init (&attr);
  pthread_condattr_setclock (&attr, CLOCK_MONOTONIC);
  pthread_cond_init (&self->wake, &attr);
  pthread_condattr_destroy (&attr);
  return self;
}

void
replay_beat_free (ReplayBeat *self)
{
  if (self == NULL)
    return;
  pthread_mutex_lock (&self->lock);
  self->ended = TRUE;
  pthread_cond_signal (&self->wake);
  pthread_mutex_unlock (&self->lock);
  if (self->has_thread)
    {
      /* One under way may wait for an answer nobody needs any more. */
      replay_target_cancel (self->target);
      pthread_join (self->thread, NULL);
    }
  pthread_cond_destroy (&self->wake);
  pthread_mutex_destroy (&self->lock);
  g_ptr_array_unref (self->beats);
  g_free (self);
}

void
replay_beat_start (ReplayBeat *self, ReplayInstance *instance, const char *path, const char *body)
{
  pthread_mutex_lock (&self->lock);
  instance->registered = TRUE;
  Beat *beat = find (self, instance);
  if (beat != NULL)
    {
      /* A restart without a stop mark: its timer goes on, with what it says of itself now. */
      g_free (beat->body);
      beat->body = g_strdup (body);
    }
  else if (self->interval_ns > 0 && path != NULL)
    {
      beat = g_new0 (Beat, 1);
      beat->instance = instance;
      beat->generation = ++self->next_generation;
      beat->due_ns = now_ns () + self->interval_ns;
      beat->path = g_strdup (path);
      beat->body = g_strdup (body);
      beat->shown = g_strdup (instance->shown);
      g_ptr_array_add (self->beats, beat);
      if (!self->has_thread)
        self->has_thread = pthread_create (&self->thread, NULL, beat_thread, self) == 0;
      pthread_cond_signal (&self->wake);
    }
  pthread_mutex_unlock (&self->lock);
}

gboolean
replay_beat_stop (ReplayBeat *self, ReplayInstance *instance)
{
  pthread_mutex_lock (&self->lock);
  Beat *beat = find (self, instance);
  gboolean registered = instance->registered;
  if (beat != NULL)
    g_ptr_array_remove (self->beats, beat);
  pthread_mutex_unlock (&self->lock);
  return registered;
}

void
replay_beat_forget (ReplayBeat *self, ReplayInstance *instance)
{
  pthread_mutex_lock (&self->lock);
  instance->registered = FALSE;
  pthread_mutex_unlock (&self->lock);
}

gboolean
replay_beat_is_registered (ReplayBeat *self, ReplayInstance *instance)
{
  pthread_mutex_lock (&self->lock);
  gboolean registered = instance->registered;
  pthread_mutex_unlock (&self->lock);
  return registered;
}

void
replay_beat_set_place (ReplayBeat *self, guint64 n)
{
  atomic_store_explicit (&self->place, n, memory_order_relaxed);
}

void
replay_beat_counts (ReplayBeat *self, guint64 *sent, guint64 *failed, guint64 *dropped)
{
  pthread_mutex_lock (&self->lock);
  *sent = self->sent;
  *failed = self->failed;
  *dropped = self->dropped;
  pthread_mutex_unlock (&self->lock);
}
