// SPDX-License-Identifier: Apache-2.0
#include "events-patience.h"

#include <errno.h>
#include <sched.h>
#include <sys/socket.h>

/* Short waits in a row before the first awake one, and what one in vain costs of them. */
enum
{
  CREDIT_LEAST = -256,
  CREDIT_NEW = -4,
  CREDIT_MOST = 32,
  CREDIT_VAIN = 16,
};

void
events_patience_init (EventsPatience *patience)
{
  *patience = (EventsPatience){ .is_possible = g_get_num_processors () > 1, .credit = CREDIT_NEW };
}

gboolean
events_patience_is_awake (const EventsPatience *patience)
{
  return patience->is_possible && patience->credit >= 0;
}

/* Where the peer ran when it sent last, if it is on this machine. */
static int
get_peer_core (int fd)
{
  int core = -1;
  socklen_t size = sizeof core;
  getsockopt (fd, SOL_SOCKET, SO_INCOMING_CPU, &core, &size);
  return core;
}

gboolean
events_patience_wait (int fd, gint64 since_ns)
{
  const int peer_core = get_peer_core (fd);
  char byte;

  while (g_get_monotonic_time () * 1000 - since_ns < EVENTS_AWAKE_NS)
    {
      if (recv (fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0 || (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR))
        return TRUE;
      /* Nothing comes while it waits for this very core. Two that are ready to run are soon taken apart by the scheduler. */
      if (peer_core >= 0 && peer_core == sched_getcpu ())
        sched_yield ();
    }
  return FALSE;
}

void
events_patience_learn (EventsPatience *patience, gint64 waited_ns, gboolean awake)
{
  if (waited_ns <= EVENTS_AWAKE_NS)
    patience->credit = MIN (patience->credit + 1, CREDIT_MOST);
  else if (awake)
    patience->credit = MAX (patience->credit - CREDIT_VAIN, CREDIT_LEAST);
  else
    patience->credit = MIN (patience->credit, CREDIT_NEW);
}

void
events_patience_lose (EventsPatience *patience)
{
  patience->credit = MIN (patience->credit, CREDIT_NEW);
}
