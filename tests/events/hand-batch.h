// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "events-views.h"

/* Batches made by hand. */
static inline LmtSpan
hand_span (const char *text)
{
  return (LmtSpan){ (const guint8 *)text, strlen (text) };
}

static inline EventsBatch
hand_batch (const char *instance, gint64 incarnation, gint64 seq, EventsKind kind, EventsTier tier, const char *backend)
{
  return (EventsBatch){ .instance = hand_span (instance),
                        .incarnation = incarnation,
                        .seq = seq,
                        .kind = kind,
                        .tier = tier,
                        .backend = hand_span (backend) };
}

static inline EventsEntry
hand_entry (const char *hash, gint64 size_bytes)
{
  return (EventsEntry){ .key
                        = { .hash = hand_span (hash), .model = hand_span ("m"), .kv_rank = 0x1000100, .salt = hand_span ("") },
                        .size_bytes = size_bytes,
                        .token_offset = -1 };
}
