// SPDX-License-Identifier: Apache-2.0
#include "work-clock.h"

static gint64
now (gpointer data)
{
  return ((WorkClock *)data)->now_ns;
}

static gboolean
sleep_until (gpointer data, gint64 deadline_ns, const int *fds, guint n_fds)
{
  WorkClock *clock = data;

  if (deadline_ns <= clock->now_ns)
    return TRUE;
  if (n_fds > 0)
    {
      const LmtClock *real = lmt_clock_real ();
      gint64 start_ns = lmt_clock_now (real);
      gint64 wait_ns = deadline_ns - clock->now_ns;
      gint64 until_ns = wait_ns > G_MAXINT64 - start_ns ? G_MAXINT64 : start_ns + wait_ns;

      /* FALSE: a signal; TRUE: the time is over, or something came. */
      if (!real->sleep_until_ns (real->data, until_ns, fds, n_fds))
        return FALSE;
      if (lmt_clock_now (real) < until_ns)
        return TRUE;
    }
  if (deadline_ns != G_MAXINT64)
    clock->now_ns = deadline_ns;
  return TRUE;
}

void
work_clock_init (WorkClock *clock)
{
  clock->clock = (LmtClock){ sizeof (LmtClock), 0, clock, now, sleep_until };
  clock->now_ns = 0;
}
