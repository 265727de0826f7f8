// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "events-batch.h"

G_BEGIN_DECLS

/**
 * EventsGate: per instance (incarnation, last_seq, gap) and the verdict on a batch (events.md 8, 12). Used by the coordinator, by
 * the dry run and by the check of a real run. Memory: one small record an instance. Threads: the caller's one.
 */
typedef enum
{
  EVENTS_COMPAT_056,    /* LMCache 0.5.6 */
  EVENTS_COMPAT_057,    /* departed instances, losses counted */
  EVENTS_COMPAT_STRICT, /* as 0.5.7, and both views stay equal (C11) */
} EventsCompat;

typedef enum
{
  EVENTS_APPLIED,
  EVENTS_DUPLICATE,
  EVENTS_STALE,
} EventsVerdict;

typedef struct _EventsGate EventsGate;

/* What the gate knows of an instance; @instance is alive until it is forgotten. */
typedef struct
{
  LmtSpan instance;
  gint64 incarnation;
  gint64 last_seq;
  guint32 gap;      /* something is missing since this incarnation began */
  guint32 departed; /* gone; from 0.5.7 on, L1 batches up to departed_incarnation are stale */
  guint32 known;    /* has a cursor: incarnation and last_seq mean something (both set: L2 batches came after the departure) */
  guint32 reserved;
  guint64 missing;      /* seqs skipped (not those before a stream joined midway) */
  guint64 dropped;      /* increases of dropped_events */
  gint64 last_dropped;  /* -1: not known */
  guint64 verdicts[3];  /* of all batches so far */
  gint64 last_event_ns; /* of the caller's clock; 0: none */
  double last_ts;       /* of the last batch that was applied, Unix seconds as its server had them; 0: not known */
  gint64 departed_incarnation;
} EventsStream;

/* Called when a higher incarnation fences the instance, before the batch is handed on. */
typedef void (*EventsFenceFunc) (LmtSpan instance, gpointer user_data);
/* Called at each new gap: seqs @first … @last are missing. */
typedef void (*EventsGapFunc) (const EventsStream *stream, gint64 first, gint64 last, gboolean joined_midway, gpointer user_data);

EventsGate *events_gate_new (EventsCompat compat);
void events_gate_free (EventsGate *gate);
void events_gate_set_funcs (EventsGate *gate, EventsFenceFunc fence, EventsGapFunc gap, gpointer user_data);
EventsVerdict events_gate_admit (EventsGate *gate, const EventsBatch *batch, gint64 now_ns);
/* What admit would say; changes nothing. */
EventsVerdict events_gate_peek (EventsGate *gate, const EventsBatch *batch);
/* Of all streams since the gate was made: those of a stream begin anew with each incarnation, these never go back. */
typedef struct
{
  guint64 missing;
  guint64 dropped;
} EventsLosses;
EventsLosses events_gate_losses (EventsGate *gate);
/* Streams held, departed ones too. */
guint32 events_gate_n_streams (EventsGate *gate);
/* Forgets the stream that departed first and has no cursor: FALSE if there is none. Makes room when @n_streams reaches a limit.
 */
gboolean events_gate_forget_one (EventsGate *gate);
void events_gate_reset (EventsGate *gate);
/* DELETE or sweep: the cursor is forgotten (0.5.7: the incarnation is remembered). Views are the caller's to fence. An instance
 * that was never seen leaves nothing behind. */
void events_gate_depart (EventsGate *gate, LmtSpan instance);
/* Registered again: a departed one is let in (0.5.7). */
void events_gate_register (EventsGate *gate, LmtSpan instance);
/* Puts a cursor as a checkpoint or a position file had it. */
void events_gate_restore (EventsGate *gate, const EventsStream *stream);
const EventsStream *events_gate_get (EventsGate *gate, LmtSpan instance); /* (nullable) */
/* In the order they were first seen, departed ones too. */
void events_gate_foreach (EventsGate *gate, void (*func) (const EventsStream *stream, gpointer data), gpointer data);

G_END_DECLS
