/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <lmtrace/lmt-plugin.h>

#include "manager/manager.h"

G_BEGIN_DECLS

/**
 * SmDriver: the only part that knows both manager and L2 layer: moves I/O from one to the other, keeps the manager's clock,
 * waits. Modes: storage-manager.md 18.2, 19.4 (settled), 19.5 (real time), ordered. One thread; nothing here logs or, once warm,
 * allocates.
 */
typedef struct _SmDriver SmDriver;

typedef enum
{
  SM_DRIVE_SETTLED,
  SM_DRIVE_REAL,
  SM_DRIVE_ORDERED
} SmDriveMode;

/**
 * SmDriverParams:
 * @speed: of the replay; the manager's clock in real time runs at this rate (0: at 1)
 * @memory: (nullable): the L1 pool; NULL: sizes only
 * @verify: loaded buffers are compared with the pattern of their key
 * @drain_timeout_ns: how long one I/O (settled) or the drain (real time) is waited for
 * @interrupts: (nullable): two of them end every wait
 * @tick: (nullable): called about ten times a second while something is waited for
 */
typedef struct
{
  SmDriveMode mode;
  double speed;
  const LmtClock *clock;
  guint8 *memory;
  gint64 drain_timeout_ns;
  gboolean verify;
  const volatile gint *interrupts;
  void (*tick) (gpointer data);
  gpointer tick_data;
} SmDriverParams;

/* Sets the event function of each adapter: what a scan at open found goes to the manager now. */
SmDriver *sm_driver_new (LmtSm *sm, LmtL2 *const *l2, guint n_l2, const SmDriverParams *params);
void sm_driver_free (SmDriver *driver);

/* Real time: host time of clock 0 of the manager. Before the first wait. */
void sm_driver_set_origin (SmDriver *driver, gint64 origin_ns);

/* A prefetch ended. @result: lent for the call; @mismatch: a loaded byte was wrong; @done_ns: host clock. Must not call the
 * driver. */
typedef void (*SmResultFunc) (const SmPrefetchResult *result, gboolean mismatch, gint64 done_ns, gpointer data);
/* An object was really deleted by an eviction pass. @adapter: -1: L1. */
typedef void (*SmVictimFunc) (gint adapter, LmtKey *key, gpointer data);
void sm_driver_set_funcs (SmDriver *driver, SmResultFunc result, SmVictimFunc victim, gpointer data);

/* Real time: sleeps until @due_ns of the host clock, reaping, advancing and submitting meanwhile. Settled: sleeps, nothing else.
 * FALSE: interrupted. */
gboolean sm_driver_wait (SmDriver *driver, gint64 due_ns);
/* Before a call at recorded time @trace_ns: passes and lifetimes (settled: 19.4 steps 1 and 2); ordered: waits for what @call
 * needs. */
void sm_driver_before (SmDriver *driver, gint64 trace_ns, const SmCall *call);
/* The call alone; times of it go to @start_ns, @end_ns (host clock). @result is good until sm_driver_after(). */
void sm_driver_call (SmDriver *driver, const SmCall *call, SmResult *result, gint64 *start_ns, gint64 *end_ns);
/* Submits what the call queued, hands over results; settled: settles. */
void sm_driver_after (SmDriver *driver);
gint64 sm_driver_now (SmDriver *driver); /* the manager's clock, ns */
/**
 * sm_driver_run_task: a task of the caller's own, the manager does not know of it but by the layer's events: submits and waits.
 * Before the first call only. @task and what it points to: LATE: the layer's until it is freed.
 */
typedef enum
{
  SM_TASK_DONE = 0,
  SM_TASK_REFUSED, /* @refused */
  SM_TASK_LATE,    /* no answer in the drain time, or two interrupts */
} SmTaskEnd;
SmTaskEnd sm_driver_run_task (SmDriver *driver, guint adapter, LmtL2Task *task, LmtL2Code *refused);
/* Waits until nothing is outstanding or the drain time is over; FALSE: something was left, and counted as unsettled. */
gboolean sm_driver_drain (SmDriver *driver);

/**
 * SmDriverFigures: sums over the run.
 * @unsettled: I/Os waited for in vain; @mismatches: objects whose loaded bytes were wrong, @verified: compared
 * @order_waits, @order_wait_ns: calls held back in ordered mode
 */
typedef struct
{
  guint64 ios;
  guint64 refused;
  guint64 unsettled;
  guint64 mismatches;
  guint64 verified;
  guint64 order_waits;
  gint64 order_wait_ns;
} SmDriverFigures;
const SmDriverFigures *sm_driver_get_figures (const SmDriver *driver);
guint sm_driver_get_outstanding (const SmDriver *driver);

G_END_DECLS
