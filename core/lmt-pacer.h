/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

G_BEGIN_DECLS

/**
 * LmtClock: where time comes from. Injected everywhere; nothing else in core or plugins reads a clock for what it decides.
 * @now_ns: monotonic, arbitrary origin
 * @sleep_until_ns: returns at @deadline_ns, or earlier when @fd (-1: none) becomes readable (TRUE) or a signal came (FALSE).
 *   Virtual clocks jump.
 */
typedef struct
{
  guint32 struct_size;
  guint32 reserved;
  gpointer data;
  gint64 (*now_ns) (gpointer data);
  gboolean (*sleep_until_ns) (gpointer data, gint64 deadline_ns, const int *fds, guint n_fds);
} LmtClock;

/* CLOCK_MONOTONIC; sleeps to 50 us before the deadline by clock_nanosleep/ppoll on an absolute time, then spins. */
const LmtClock *lmt_clock_real (void);
LmtClock *lmt_clock_virtual_new (gint64 start_ns);
void lmt_clock_virtual_free (LmtClock *clock);

static inline gint64
lmt_clock_now (const LmtClock *clock)
{
  return clock->now_ns (clock->data);
}

/**
 * LmtPacer: from recorded times to absolute deadlines: due = origin + (t - cut gaps) / speed.
 * Times: not finite or 1e9 s and more = no time known (due at once, clock stays), negative = 0, a step back = gap 0. Gaps longer
 * than max_gap are cut to it. No catching up: the plan stays absolute.
 */
typedef struct _LmtPacer LmtPacer;
LmtPacer *lmt_pacer_new (double speed, gint64 max_gap_ns); /* speed 0: always due; max_gap_ns 0: none */
void lmt_pacer_free (LmtPacer *pacer);
void lmt_pacer_start (LmtPacer *pacer, gint64 origin_ns);
/* Begins another round or file: times go on from the last one. */
void lmt_pacer_next_round (LmtPacer *pacer);
/* Deadline of a record, in clock ns; with speed 0 the origin. @trace_ns: (out): recorded ns since the start, gaps cut, rounds added. */
gint64 lmt_pacer_due (LmtPacer *pacer, double t_mono, gint64 *trace_ns);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LmtPacer, lmt_pacer_free)

G_END_DECLS
