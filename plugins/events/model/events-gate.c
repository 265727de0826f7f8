// SPDX-License-Identifier: Apache-2.0
#include "events-gate.h"

#include "events-names.h"

struct _EventsGate
{
  EventsCompat compat;
  EventsNames names;
  GPtrArray *by_name; /* EventsStream, at the number of its name */
  GPtrArray *order;   /* the same, in the order they were first seen */
  EventsFenceFunc fence;
  EventsGapFunc gap;
  gpointer user_data;
  EventsLosses losses;
};

EventsGate *
events_gate_new (EventsCompat compat)
{
  EventsGate *gate = g_new0 (EventsGate, 1);

  gate->compat = compat;
  events_names_init (&gate->names);
  gate->by_name = g_ptr_array_new ();
  gate->order = g_ptr_array_new_with_free_func (g_free);
  return gate;
}

void
events_gate_free (EventsGate *gate)
{
  if (gate == NULL)
    return;
  events_names_clear (&gate->names);
  g_ptr_array_unref (gate->by_name);
  g_ptr_array_unref (gate->order);
  g_free (gate);
}

void
events_gate_reset (EventsGate *gate)
{
  events_names_clear (&gate->names);
  events_names_init (&gate->names);
  g_ptr_array_set_size (gate->by_name, 0);
  g_ptr_array_set_size (gate->order, 0);
}

void
events_gate_set_funcs (EventsGate *gate, EventsFenceFunc fence, EventsGapFunc gap, gpointer user_data)
{
  gate->fence = fence;
  gate->gap = gap;
  gate->user_data = user_data;
}

static EventsStream *
find (EventsGate *gate, LmtSpan instance)
{
  const guint32 name = events_names_find (&gate->names, instance);

  return name != 0 ? g_ptr_array_index (gate->by_name, name) : NULL;
}

static EventsStream *
find_or_add (EventsGate *gate, LmtSpan instance)
{
  EventsStream *stream = find (gate, instance);

  if (stream != NULL)
    return stream;
  const guint32 name = events_names_take (&gate->names, instance);
  stream = g_new0 (EventsStream, 1);
  stream->instance = events_names_get (&gate->names, name);
  stream->last_dropped = -1;
  if (gate->by_name->len <= name)
    g_ptr_array_set_size (gate->by_name, (gint)name + 1);
  g_ptr_array_index (gate->by_name, name) = stream;
  g_ptr_array_add (gate->order, stream);
  return stream;
}

static EventsVerdict
judge (const EventsGate *gate, const EventsStream *stream, const EventsBatch *batch)
{
  if (stream == NULL)
    return EVENTS_APPLIED;
  /* What an L1 batch says of a process that is gone is void; what lies on L2 outlives it (events.md 12). */
  if (gate->compat != EVENTS_COMPAT_056 && stream->departed && batch->tier == EVENTS_L1
      && batch->incarnation <= stream->departed_incarnation)
    return EVENTS_STALE;
  if (!stream->known || batch->incarnation > stream->incarnation)
    return EVENTS_APPLIED;
  if (batch->incarnation < stream->incarnation)
    return EVENTS_STALE;
  return batch->seq <= stream->last_seq ? EVENTS_DUPLICATE : EVENTS_APPLIED;
}

EventsVerdict
events_gate_peek (EventsGate *gate, const EventsBatch *batch)
{
  return judge (gate, find (gate, batch->instance), batch);
}

/* From 0.5.7 on a stream joined midway is no gap, and what the server says it lost is one. */
static void
count_losses (EventsGate *gate, EventsStream *stream, const EventsBatch *batch, gboolean midway)
{
  const gboolean old = gate->compat == EVENTS_COMPAT_056;

  if (batch->seq - 1 > stream->last_seq)
    {
      if (!midway)
        {
          stream->missing += (guint64)(batch->seq - 1 - stream->last_seq);
          gate->losses.missing += (guint64)(batch->seq - 1 - stream->last_seq);
        }
      if (old || !midway)
        stream->gap = TRUE;
      if (gate->gap != NULL)
        gate->gap (stream, stream->last_seq + 1, batch->seq - 1, midway, gate->user_data);
    }
  if (old)
    return;
  const gint64 before = stream->last_dropped >= 0 ? stream->last_dropped : midway ? batch->dropped_events : 0;
  if (batch->dropped_events > before)
    {
      stream->dropped += (guint64)(batch->dropped_events - before);
      gate->losses.dropped += (guint64)(batch->dropped_events - before);
      stream->gap = TRUE;
    }
  stream->last_dropped = MAX (before, batch->dropped_events);
}

EventsVerdict
events_gate_admit (EventsGate *gate, const EventsBatch *batch, gint64 now_ns)
{
  EventsStream *stream = find_or_add (gate, batch->instance);
  const EventsVerdict verdict = judge (gate, stream, batch);
  gboolean midway = FALSE;

  stream->verdicts[verdict]++;
  if (verdict != EVENTS_APPLIED)
    return verdict;
  if (!stream->known || batch->incarnation > stream->incarnation)
    {
      if (stream->known && gate->fence != NULL)
        gate->fence (stream->instance, gate->user_data);
      /* Nobody was there to hear what came before; of a restart that we saw, the first batch is number 1. */
      midway = !stream->known && batch->seq > 1;
      stream->known = TRUE;
      stream->incarnation = batch->incarnation;
      stream->last_seq = 0;
      stream->gap = FALSE;
      stream->missing = 0;
      stream->dropped = 0;
      stream->last_dropped = -1;
      if (gate->compat == EVENTS_COMPAT_056 || batch->incarnation > stream->departed_incarnation)
        stream->departed = FALSE;
    }
  count_losses (gate, stream, batch, midway);
  stream->last_seq = batch->seq;
  stream->last_event_ns = now_ns;
  stream->last_ts = batch->ts;
  return EVENTS_APPLIED;
}

void
events_gate_depart (EventsGate *gate, LmtSpan instance)
{
  EventsStream *stream = find (gate, instance);

  if (stream == NULL || !stream->known)
    return;
  stream->departed_incarnation = stream->departed ? MAX (stream->departed_incarnation, stream->incarnation) : stream->incarnation;
  stream->departed = TRUE;
  stream->known = FALSE;
  stream->gap = FALSE;
  stream->last_dropped = -1;
}

void
events_gate_register (EventsGate *gate, LmtSpan instance)
{
  EventsStream *stream = find (gate, instance);

  if (stream != NULL)
    stream->departed = FALSE;
}

void
events_gate_restore (EventsGate *gate, const EventsStream *stream)
{
  EventsStream *mine = find_or_add (gate, stream->instance);
  const LmtSpan name = mine->instance;

  *mine = *stream;
  mine->instance = name;
}

EventsLosses
events_gate_losses (EventsGate *gate)
{
  return gate->losses;
}

const EventsStream *
events_gate_get (EventsGate *gate, LmtSpan instance)
{
  return find (gate, instance);
}

guint32
events_gate_n_streams (EventsGate *gate)
{
  return gate->order->len;
}

gboolean
events_gate_forget_one (EventsGate *gate)
{
  for (guint i = 0; i < gate->order->len; i++)
    {
      const EventsStream *stream = g_ptr_array_index (gate->order, i);
      if (stream->known)
        continue;
      const guint32 name = events_names_find (&gate->names, stream->instance);
      g_ptr_array_index (gate->by_name, name) = NULL;
      events_names_drop (&gate->names, name);
      g_ptr_array_remove_index (gate->order, i);
      return TRUE;
    }
  return FALSE;
}

void
events_gate_foreach (EventsGate *gate, void (*func) (const EventsStream *stream, gpointer data), gpointer data)
{
  for (guint i = 0; i < gate->order->len; i++)
    func (g_ptr_array_index (gate->order, i), data);
}
