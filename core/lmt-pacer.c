/* SPDX-License-Identifier: Apache-2.0 */
#include "lmt-pacer.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "lmt-record.h"

/* Waking up takes the kernel up to this long, so the last stretch is spun. */
#define SPIN_NS 50000
/* A wait shorter than this is not worth a system call. */
#define NO_SLEEP_NS 60000
/* Clock values stay below this, so that sums don't overflow. */
#define FAR_NS (G_MAXINT64 / 4)
#define MAX_FDS 64

/* -------- the real clock -------- */

/* Written by lmt_clock_wake() from signal handlers; -1 until somebody took the real clock. */
static volatile int wake_fd = -1;

static gint64
real_now (gpointer data)
{
  struct timespec ts;

  clock_gettime (CLOCK_MONOTONIC, &ts);
  return (gint64)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

void
lmt_clock_wake (void)
{
  int saved = errno;
  guint64 one = 1;

  if (wake_fd >= 0 && write (wake_fd, &one, sizeof one) < 0)
    errno = saved; /* the counter is full: it wakes all the same */
  errno = saved;
}

static gboolean
take_wake (const struct pollfd *slot)
{
  guint64 count;

  return slot->fd >= 0 && (slot->revents & POLLIN) != 0 && read (slot->fd, &count, sizeof count) == sizeof count;
}

/* Polls until @timeout_ns passed (below 0: for ever). 1: a descriptor is readable, 0: time is over, -1: woken or a signal. */
static int
poll_once (const int *fds, guint n_fds, gint64 timeout_ns)
{
  struct pollfd slots[MAX_FDS + 1];
  struct timespec ts = { timeout_ns / 1000000000, timeout_ns % 1000000000 };
  guint n = MIN (n_fds, MAX_FDS);
  int ready;

  slots[0] = (struct pollfd){ wake_fd, POLLIN, 0 };
  for (guint i = 0; i < n; i++)
    slots[i + 1] = (struct pollfd){ fds[i], POLLIN, 0 };
  ready = ppoll (slots, n + 1, timeout_ns < 0 ? NULL : &ts, NULL);
  if (ready < 0)
    return -1;
  if (ready == 0)
    return 0;
  return take_wake (&slots[0]) ? -1 : 1;
}

/* The kernel puts wake-ups of a thread up to 50 us off to gather them, unless asked not to. */
static void
ask_for_sharp_timers (void)
{
  static _Thread_local gboolean asked;

  if (!asked)
    prctl (PR_SET_TIMERSLACK, 1000UL, 0UL, 0UL, 0UL);
  asked = TRUE;
}

static gboolean
real_sleep_until (gpointer data, gint64 deadline_ns, const int *fds, guint n_fds)
{
  gint64 left = deadline_ns - real_now (NULL);

  if (left > NO_SLEEP_NS)
    ask_for_sharp_timers ();
  while (left > NO_SLEEP_NS)
    {
      /* ppoll may be late by a thousandth of what is asked: sleep short of it, then look again. */
      gint64 timeout = deadline_ns == G_MAXINT64 ? -1 : left - SPIN_NS - left / 500;
      int found = poll_once (fds, n_fds, timeout);

      if (found != 0)
        return found > 0;
      left = deadline_ns - real_now (NULL);
    }
  while (real_now (NULL) < deadline_ns)
    ;
  return TRUE;
}

const LmtClock *
lmt_clock_real (void)
{
  static const LmtClock clock = { sizeof (LmtClock), 0, NULL, real_now, real_sleep_until };
  static gsize once;

  if (g_once_init_enter (&once))
    {
      wake_fd = eventfd (0, EFD_CLOEXEC | EFD_NONBLOCK);
      g_once_init_leave (&once, 1);
    }
  return &clock;
}

/* -------- the virtual clock -------- */

typedef struct
{
  LmtClock clock;
  gint64 now_ns;
} VirtualClock;

static gint64
virtual_now (gpointer data)
{
  return ((VirtualClock *)data)->now_ns;
}

/* Work that is done already comes before time passes; without a deadline only a descriptor can end the wait, and that is real. */
static gboolean
virtual_sleep_until (gpointer data, gint64 deadline_ns, const int *fds, guint n_fds)
{
  VirtualClock *clock = data;

  if (n_fds > 0)
    {
      int found = poll_once (fds, n_fds, deadline_ns == G_MAXINT64 ? -1 : 0);

      if (found != 0)
        return found > 0;
    }
  if (deadline_ns != G_MAXINT64)
    clock->now_ns = MAX (clock->now_ns, deadline_ns);
  return TRUE;
}

LmtClock *
lmt_clock_virtual_new (gint64 start_ns)
{
  VirtualClock *clock = g_new0 (VirtualClock, 1);

  clock->clock = (LmtClock){ sizeof (LmtClock), 0, clock, virtual_now, virtual_sleep_until };
  clock->now_ns = start_ns;
  return &clock->clock;
}

void
lmt_clock_virtual_free (LmtClock *clock)
{
  if (clock != NULL)
    g_free (clock->data);
}

/* -------- the pacer -------- */

struct _LmtPacer
{
  double speed;
  gint64 max_gap_ns;
  gint64 origin_ns;
  gint64 base_ns;  /* recorded time of earlier rounds, gaps cut */
  gint64 cut_ns;   /* cut from gaps of this round */
  gint64 last_ns;  /* largest recorded time of this round, gaps not cut */
  gint64 trace_ns; /* what was given last */
  gint64 due_ns;
};

LmtPacer *
lmt_pacer_new (double speed, gint64 max_gap_ns)
{
  LmtPacer *pacer = g_new0 (LmtPacer, 1);

  pacer->speed = speed;
  pacer->max_gap_ns = max_gap_ns;
  return pacer;
}

void
lmt_pacer_free (LmtPacer *pacer)
{
  g_free (pacer);
}

void
lmt_pacer_start (LmtPacer *pacer, gint64 origin_ns)
{
  pacer->origin_ns = pacer->due_ns = origin_ns;
  pacer->base_ns = pacer->cut_ns = pacer->last_ns = pacer->trace_ns = 0;
}

void
lmt_pacer_next_round (LmtPacer *pacer)
{
  pacer->base_ns = pacer->trace_ns;
  pacer->cut_ns = pacer->last_ns = 0;
}

gint64
lmt_pacer_due (LmtPacer *pacer, double t_mono, gint64 *trace_ns)
{
  if (lmt_time_is_usable (t_mono) && t_mono > 0.0)
    {
      /* Below 1e9 s, so the product is below 1e18. */
      gint64 t_ns = (gint64)llrint (t_mono * 1e9);

      if (t_ns > pacer->last_ns)
        {
          gint64 gap_ns = t_ns - pacer->last_ns;

          if (pacer->max_gap_ns > 0 && gap_ns > pacer->max_gap_ns)
            pacer->cut_ns += gap_ns - pacer->max_gap_ns;
          pacer->last_ns = t_ns;
          pacer->trace_ns = MIN (pacer->base_ns + (t_ns - pacer->cut_ns), FAR_NS);
          if (pacer->speed == 1.0)
            pacer->due_ns = pacer->origin_ns + pacer->trace_ns;
          else if (pacer->speed > 0.0)
            {
              double wait_ns = (double)pacer->trace_ns / pacer->speed;

              pacer->due_ns = pacer->origin_ns + (wait_ns < (double)FAR_NS ? (gint64)llrint (wait_ns) : FAR_NS);
            }
        }
    }
  if (trace_ns != NULL)
    *trace_ns = pacer->trace_ns;
  return pacer->due_ns;
}
