// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <lmtrace/lmt-plugin.h>

G_BEGIN_DECLS

/**
 * EventsSeen: what the walk saw of one batch. Spans are of the args: whole msgpack values, strings all of them.
 * @event_type, @tier, @backend: in this order, names and nothing else between them
 * @n_tokens: entries that have tokens; @n_tokens and @bytes are those of a store only
 */
typedef struct
{
  LmtSpan instance;
  LmtSpan event_type;
  LmtSpan tier;
  LmtSpan backend;
  __int128 bytes;
  gint64 incarnation;
  guint32 n_entries;
  guint32 n_tokens;
  gboolean store;
  gboolean shared;
} EventsSeen;

/**
 * events_walk_batch: one look at the args of a batch as LMCache writes it: members in the order of its structs, every value of
 * its own type. Checks as lmt_cursor_check_next() does, and counts on the way. Returns: (nullable): the byte behind the args;
 * %NULL: another form, which needn't be a wrong one: read it the long way.
 */
const guint8 *events_walk_batch (const guint8 *args, const guint8 *end, EventsSeen *seen);

G_END_DECLS
