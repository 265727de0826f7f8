// SPDX-License-Identifier: Apache-2.0
#include "replay-wire.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

void
replay_wire_init (ReplayWire *wire)
{
  *wire = (ReplayWire){ 0 };
  events_patience_init (&wire->patience);
}

void
replay_wire_clear (ReplayWire *wire)
{
  g_clear_object (&wire->socket);
}

void
replay_wire_take (ReplayWire *wire, GIOStream *stream)
{
  if (G_IS_SOCKET_CONNECTION (stream))
    g_set_object (&wire->socket, g_socket_connection_get_socket (G_SOCKET_CONNECTION (stream)));
}

static gint64
now_ns (void)
{
  return g_get_monotonic_time () * 1000;
}

/* -1: none, or closed */
static int
get_fd (const ReplayWire *wire)
{
  return wire->socket != NULL ? g_socket_get_fd (wire->socket) : -1;
}

/* Refused by a socket that isn't TCP, where nothing is lost: the pieces go as they come. */
static void
set_cork (const ReplayWire *wire, int on)
{
  setsockopt (get_fd (wire), IPPROTO_TCP, TCP_CORK, &on, sizeof on);
}

void
replay_wire_begin (ReplayWire *wire)
{
  wire->awake = wire->alone && get_fd (wire) >= 0 && events_patience_is_awake (&wire->patience);
  if (wire->awake)
    set_cork (wire, 1);
}

void
replay_wire_sent (ReplayWire *wire)
{
  if (wire->awake)
    set_cork (wire, 0);
  wire->sent_ns = now_ns ();
  if (wire->awake)
    events_patience_wait (get_fd (wire), wire->sent_ns);
}

void
replay_wire_answered (ReplayWire *wire)
{
  if (wire->alone)
    events_patience_learn (&wire->patience, now_ns () - wire->sent_ns, wire->awake);
}
