/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <lmtrace/lmt-pacer.h>

G_BEGIN_DECLS

/**
 * WorkClock: virtual time that adapters with real I/O can live with: whoever sleeps while a descriptor may still become readable
 * sleeps really, up to the time until the deadline, and time passes only if none did. So real I/O costs no virtual time, and a
 * modelled device costs what it says, the same on every machine.
 */
typedef struct
{
  LmtClock clock;
  gint64 now_ns;
} WorkClock;

void work_clock_init (WorkClock *clock);

G_END_DECLS
