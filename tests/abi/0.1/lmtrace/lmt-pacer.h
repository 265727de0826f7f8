/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

G_BEGIN_DECLS

/**
 * SECTION: clocks, and recorded times as deadlines. Threads: the real clock: any; virtual clocks and pacers: one. Times are in
 * ns, integers, of an arbitrary origin.
 *
 * Since: 0.1
 */

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

/* CLOCK_MONOTONIC; sleeps by ppoll to 50 us before the deadline, then spins. At most 64 descriptors are looked at. */
const LmtClock *lmt_clock_real (void);
/* For signal handlers (async-signal-safe): ends the present sleep of the real clock, or the next one if none is under way, with
 * FALSE. So a signal between a look at the interrupts and the sleep is not slept over. FALSE says "look again", not what for. */
void lmt_clock_wake (void);
/* Starts at @start_ns; time passes only by sleeping. A descriptor that is readable comes first; G_MAXINT64 waits for one without
 * moving the clock. */
LmtClock *lmt_clock_virtual_new (gint64 start_ns);
void lmt_clock_virtual_free (LmtClock *clock);

static inline gint64
lmt_clock_now (const LmtClock *clock)
{
  return clock->now_ns (clock->data);
}

/**
 * LmtPacer: from recorded times to absolute deadlines: due = origin + (t - cut gaps) / speed.
 * Times: not finite or 1e9 s and more = no time known (due at once: the deadline before it, clock stays), negative = 0, a step
 * back = gap 0. Gaps longer than max_gap are cut to it, the one before the first record too. No catching up: the plan stays
 * absolute. Source: LMCache's replay driver (due at origin + t_mono); trace-format.md 3.1 for the odd times.
 */
typedef struct _LmtPacer LmtPacer;
LmtPacer *lmt_pacer_new (double speed, gint64 max_gap_ns); /* speed 0: always due; max_gap_ns 0: none */
void lmt_pacer_free (LmtPacer *pacer);
void lmt_pacer_start (LmtPacer *pacer, gint64 origin_ns);
/* Begins another round or file: times go on from the last one. */
void lmt_pacer_next_round (LmtPacer *pacer);
/* Deadline of a record, in clock ns; with speed 0 the origin. @trace_ns: (out): recorded ns since the start, gaps cut, rounds
 * added. */
gint64 lmt_pacer_due (LmtPacer *pacer, double t_mono, gint64 *trace_ns);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LmtPacer, lmt_pacer_free)

G_END_DECLS
