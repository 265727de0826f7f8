// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <glib.h>

G_BEGIN_DECLS

/**
 * EventsPatience: whether to wait for a peer's next message awake or asleep. Two processes that answer each other within tens of
 * microseconds spend as much time again on putting a core to sleep and waking it. Who waits awake for a moment spares both, as
 * long as the moment is short, which the waits before tell: a few short ones in a row, and the next is spent awake, but at most
 * EVENTS_AWAKE_NS of it. One in vain takes 16 short ones to make up for, and a long one spent asleep begins from the start.
 *
 * For one peer at a time: who has several has better things to do. Threads: one.
 */
typedef struct
{
  gboolean is_possible; /* there is a core to be awake on, besides the peer's */
  int credit;           /* below 0: not awake */
} EventsPatience;

enum
{
  EVENTS_AWAKE_NS = 200000,
};

void events_patience_init (EventsPatience *patience);
gboolean events_patience_is_awake (const EventsPatience *patience);
/* Awake, until there is something to read from @fd (or an end, or an error). FALSE: it is EVENTS_AWAKE_NS since @since_ns, of
 * g_get_monotonic_time() * 1000. */
gboolean events_patience_wait (int fd, gint64 since_ns);
/* After each wait. @waited_ns: from its begin to the message. @awake: it began awake. */
void events_patience_learn (EventsPatience *patience, gint64 waited_ns, gboolean awake);
/* Another peer turned up. */
void events_patience_lose (EventsPatience *patience);

G_END_DECLS
