// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gio/gio.h>

G_BEGIN_DECLS

/**
 * coord_stream_new: a connected socket as the stream libsoup serves, made for many small requests. GLib's own socket streams make
 * and drop a poll source for each wait; each wakes the main loop through an eventfd, eight or nine times a request, and goes once
 * more round it. Here one source a connection stays in the loop, and waits are looked up in it. And a reply's head waits for its
 * body: both go out in one send; what is held goes out at the latest before the loop sleeps.
 * @socket: connected, not blocking; the stream holds a reference and closes it
 * @context: (nullable): the main context the stream is used in
 *
 * Returns: (transfer full). Threads: @context's one.
 */
GIOStream *coord_stream_new (GSocket *socket, GMainContext *context);

G_END_DECLS
