/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <lmtrace/lmt-plugin.h>

#include "manager/manager.h"

G_BEGIN_DECLS

/**
 * SmDriver: the only part that knows both manager and L2 layer: moves I/O from one to the other, keeps the manager's clock, waits.
 * Modes: storage-manager.md 18.2, 19.4 (settled), 19.5 (real time), ordered.
 */
typedef struct _SmDriver SmDriver;

typedef enum { SM_DRIVE_SETTLED, SM_DRIVE_REAL, SM_DRIVE_ORDERED } SmDriveMode;

typedef struct
{
  SmDriveMode mode;
  double speed;
  const LmtClock *clock;
  gint64 drain_timeout_ns;
  void *memory; /* NULL: sizes only */
  gboolean verify;
  const volatile gint *interrupts;
} SmDriverParams;

SmDriver *sm_driver_new (LmtSm *sm, LmtL2 *const *l2, guint n_l2, const SmDriverParams *params);
void sm_driver_free (SmDriver *driver);
/* Real time: sleeps until @due_ns of the host clock, reaping, advancing and submitting meanwhile. Settled: sleeps, nothing else.
 * FALSE: interrupted. */
gboolean sm_driver_wait (SmDriver *driver, gint64 due_ns);
/* Before a call at recorded time @trace_ns: passes and lifetimes (settled: 19.4 steps 1 and 2); ordered: waits for what @call needs. */
void sm_driver_before (SmDriver *driver, gint64 trace_ns, const SmCall *call);
/* The call itself, then I/O submitted; settled: settles. Times of the call alone go to @start_ns, @end_ns (host clock). */
void sm_driver_call (SmDriver *driver, const SmCall *call, SmResult *result, gint64 *start_ns, gint64 *end_ns);
gint64 sm_driver_now (SmDriver *driver); /* the manager's clock, ns */
/* Waits until nothing is outstanding or the drain time is over; FALSE: something was left. */
gboolean sm_driver_drain (SmDriver *driver);
guint64 sm_driver_get_unsettled (SmDriver *driver);
guint64 sm_driver_get_mismatches (SmDriver *driver);
/* Evicted keys really deleted, in order, as they go: for --state-out and the digest. */
typedef void (*SmVictimFunc) (gint adapter, LmtKey *key, gpointer data);
void sm_driver_set_victim_func (SmDriver *driver, SmVictimFunc func, gpointer data);

G_END_DECLS
