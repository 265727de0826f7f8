// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gio/gio.h>

#include "events-patience.h"

G_BEGIN_DECLS

/**
 * ReplayWire: the socket below libsoup's connection, for a thread that has nothing to do but to wait for one answer after
 * another. While answers are quick it waits for them awake, and has a request's head wait for its body (TCP_CORK): libsoup writes
 * them one after the other, and a peer that is awake, too, would be on its way with the head alone. What libsoup writes and reads
 * is left as it is. Threads: the connection's.
 */
typedef struct
{
  GSocket *socket; /* (nullable) */
  gboolean alone;  /* FALSE: others of the process need the cores */
  EventsPatience patience;
  /* of the call under way */
  gboolean awake;
  gint64 sent_ns;
} ReplayWire;

void replay_wire_init (ReplayWire *wire);
void replay_wire_clear (ReplayWire *wire);
/* libsoup has connected by @stream. */
void replay_wire_take (ReplayWire *wire, GIOStream *stream);
/* Around a call, in this order; one that fails leaves out what doesn't come to pass. */
void replay_wire_begin (ReplayWire *wire);
void replay_wire_sent (ReplayWire *wire);
void replay_wire_answered (ReplayWire *wire);

G_END_DECLS
