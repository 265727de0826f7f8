// SPDX-License-Identifier: Apache-2.0
/* The gate's two rules, batch by batch (events.md 8, 12). */
#include "hand-batch.h"

typedef struct
{
  EventsGate *gate;
  guint fences;
  guint gaps;
  gint64 first, last;
  gboolean midway;
} Fixture;

static void
on_fence (LmtSpan instance, gpointer data)
{
  Fixture *f = data;
  g_assert_cmpuint (instance.len, >, 0);
  f->fences++;
}

static void
on_gap (const EventsStream *stream, gint64 first, gint64 last, gboolean midway, gpointer data)
{
  Fixture *f = data;
  g_assert_nonnull (stream);
  f->gaps++;
  f->first = first;
  f->last = last;
  f->midway = midway;
}

static void
set_up (Fixture *f, gconstpointer compat)
{
  *f = (Fixture){ .gate = events_gate_new ((EventsCompat)GPOINTER_TO_INT (compat)) };
  events_gate_set_funcs (f->gate, on_fence, on_gap, f);
}

static void
tear_down (Fixture *f, gconstpointer compat)
{
  (void)compat;
  events_gate_free (f->gate);
}

static EventsVerdict
offer (Fixture *f, const char *instance, gint64 incarnation, gint64 seq, EventsTier tier)
{
  EventsBatch batch = hand_batch (instance, incarnation, seq, EVENTS_STORE, tier, "x");
  const EventsVerdict expected = events_gate_peek (f->gate, &batch);
  const EventsVerdict verdict = events_gate_admit (f->gate, &batch, 5);
  g_assert_cmpint (verdict, ==, expected);
  return verdict;
}

static const EventsStream *
stream_of (Fixture *f, const char *instance)
{
  return events_gate_get (f->gate, hand_span (instance));
}

static void
test_order (Fixture *f, gconstpointer compat)
{
  const gboolean old = GPOINTER_TO_INT (compat) == EVENTS_COMPAT_056;

  g_assert_null (stream_of (f, "a"));
  g_assert_cmpint (offer (f, "a", 10, 1, EVENTS_L1), ==, EVENTS_APPLIED);
  g_assert_cmpint (offer (f, "a", 10, 1, EVENTS_L1), ==, EVENTS_DUPLICATE);
  g_assert_cmpint (offer (f, "a", 9, 7, EVENTS_L1), ==, EVENTS_STALE);
  g_assert_cmpint (offer (f, "a", 10, 4, EVENTS_L1), ==, EVENTS_APPLIED);
  g_assert_cmpuint (f->gaps, ==, 1);
  g_assert_cmpint (f->first, ==, 2);
  g_assert_cmpint (f->last, ==, 3);
  g_assert_false (f->midway);
  g_assert_cmpint (offer (f, "a", 10, 3, EVENTS_L1), ==, EVENTS_DUPLICATE); /* fills the hole, too late */
  g_assert_true (stream_of (f, "a")->gap);
  g_assert_cmpuint (stream_of (f, "a")->missing, ==, 2);
  g_assert_cmpuint (f->fences, ==, 0);
  g_assert_cmpint (offer (f, "a", 11, 1, EVENTS_L2), ==, EVENTS_APPLIED);
  g_assert_cmpuint (f->fences, ==, 1);
  g_assert_false (stream_of (f, "a")->gap);
  g_assert_cmpint (offer (f, "a", 10, 5, EVENTS_L1), ==, EVENTS_STALE);
  g_assert_cmpint (offer (f, "b", 3, 7, EVENTS_L1), ==, EVENTS_APPLIED); /* joined midway */
  g_assert_cmpuint (f->gaps, ==, 2);
  g_assert_true (f->midway);
  g_assert_cmpint (f->first, ==, 1);
  g_assert_cmpint (f->last, ==, 6);
  g_assert_cmpint (stream_of (f, "b")->gap, ==, old);
  g_assert_cmpuint (stream_of (f, "b")->missing, ==, 0);
  g_assert_cmpuint (stream_of (f, "a")->verdicts[EVENTS_APPLIED], ==, 3);
  g_assert_cmpuint (stream_of (f, "a")->verdicts[EVENTS_DUPLICATE], ==, 2);
  g_assert_cmpuint (stream_of (f, "a")->verdicts[EVENTS_STALE], ==, 2);
  g_assert_cmpint (stream_of (f, "a")->last_event_ns, ==, 5);
}

static void
test_departed (Fixture *f, gconstpointer compat)
{
  const gboolean old = GPOINTER_TO_INT (compat) == EVENTS_COMPAT_056;

  events_gate_depart (f->gate, hand_span ("nobody"));
  g_assert_null (stream_of (f, "nobody"));
  offer (f, "a", 10, 1, EVENTS_L1);
  events_gate_depart (f->gate, hand_span ("a"));
  g_assert_true (stream_of (f, "a")->departed);
  if (old)
    {
      g_assert_cmpint (offer (f, "a", 10, 1, EVENTS_L1), ==, EVENTS_APPLIED);
      g_assert_false (stream_of (f, "a")->departed);
      events_gate_depart (f->gate, hand_span ("a"));
      g_assert_cmpint (offer (f, "a", 3, 1, EVENTS_L1), ==, EVENTS_APPLIED);
      return;
    }
  g_assert_cmpint (offer (f, "a", 10, 2, EVENTS_L1), ==, EVENTS_STALE);
  g_assert_cmpint (offer (f, "a", 9, 2, EVENTS_L1), ==, EVENTS_STALE);
  g_assert_cmpint (offer (f, "a", 10, 3, EVENTS_L2), ==, EVENTS_APPLIED); /* a new cursor */
  g_assert_cmpint (offer (f, "a", 10, 3, EVENTS_L2), ==, EVENTS_DUPLICATE);
  g_assert_cmpint (offer (f, "a", 10, 4, EVENTS_L1), ==, EVENTS_STALE);
  g_assert_true (stream_of (f, "a")->departed);
  g_assert_cmpint (offer (f, "a", 11, 1, EVENTS_L1), ==, EVENTS_APPLIED);
  g_assert_false (stream_of (f, "a")->departed);
  events_gate_depart (f->gate, hand_span ("a"));
  events_gate_register (f->gate, hand_span ("a"));
  g_assert_cmpint (offer (f, "a", 11, 2, EVENTS_L1), ==, EVENTS_APPLIED);
}

static void
test_losses (Fixture *f, gconstpointer compat)
{
  const gboolean old = GPOINTER_TO_INT (compat) == EVENTS_COMPAT_056;
  EventsBatch batch = hand_batch ("a", 1, 1, EVENTS_STORE, EVENTS_L1, "x");

  events_gate_admit (f->gate, &batch, 0);
  g_assert_false (stream_of (f, "a")->gap);
  batch.seq = 2;
  batch.dropped_events = 4;
  events_gate_admit (f->gate, &batch, 0);
  g_assert_cmpint (stream_of (f, "a")->gap, ==, !old);
  g_assert_cmpuint (stream_of (f, "a")->dropped, ==, old ? 0 : 4);
  batch.seq = 3;
  events_gate_admit (f->gate, &batch, 0);
  g_assert_cmpuint (stream_of (f, "a")->dropped, ==, old ? 0 : 4);
  batch.instance = hand_span ("b"); /* joined midway: what was lost before isn't ours to count */
  batch.dropped_events = 9;
  events_gate_admit (f->gate, &batch, 0);
  g_assert_cmpuint (stream_of (f, "b")->dropped, ==, 0);
  batch.seq = 4;
  batch.dropped_events = 10;
  events_gate_admit (f->gate, &batch, 0);
  g_assert_cmpuint (stream_of (f, "b")->dropped, ==, old ? 0 : 1);
}

static void
count_streams (const EventsStream *stream, gpointer data)
{
  GString *ids = data;
  g_string_append_printf (ids, "%.*s ", LMT_SPAN_STR (stream->instance));
}

static void
test_room (Fixture *f, gconstpointer compat)
{
  g_autoptr (GString) ids = g_string_new (NULL);

  (void)compat;
  offer (f, "a", 1, 1, EVENTS_L1);
  offer (f, "b", 1, 1, EVENTS_L1);
  offer (f, "c", 1, 1, EVENTS_L1);
  g_assert_false (events_gate_forget_one (f->gate));
  events_gate_depart (f->gate, hand_span ("b"));
  events_gate_foreach (f->gate, count_streams, ids);
  g_assert_cmpstr (ids->str, ==, "a b c ");
  g_assert_true (events_gate_forget_one (f->gate));
  g_assert_null (stream_of (f, "b"));
  g_assert_cmpuint (events_gate_n_streams (f->gate), ==, 2);
  for (guint i = 0; i < 2000; i++)
    {
      char id[16];
      g_snprintf (id, sizeof id, "i%u", i);
      offer (f, id, 1, 1, EVENTS_L1);
      if (i % 3 == 0)
        events_gate_depart (f->gate, hand_span (id));
      if (i % 5 == 0)
        events_gate_forget_one (f->gate);
    }
  for (guint i = 0; i < 2000; i++)
    {
      char id[16];
      g_snprintf (id, sizeof id, "i%u", i);
      if (i % 3 != 0)
        g_assert_cmpint (offer (f, id, 1, 1, EVENTS_L1), ==, EVENTS_DUPLICATE);
    }
  events_gate_reset (f->gate);
  g_assert_cmpuint (events_gate_n_streams (f->gate), ==, 0);
  g_assert_cmpint (offer (f, "a", 1, 1, EVENTS_L1), ==, EVENTS_APPLIED);
}

int
main (int argc, char **argv)
{
  static const struct
  {
    const char *name;
    EventsCompat compat;
  } rules[] = { { "0.5.6", EVENTS_COMPAT_056 }, { "0.5.7", EVENTS_COMPAT_057 }, { "strict", EVENTS_COMPAT_STRICT } };
  static const struct
  {
    const char *name;
    void (*func) (Fixture *f, gconstpointer compat);
  } tests[] = { { "order", test_order }, { "departed", test_departed }, { "losses", test_losses }, { "room", test_room } };

  g_test_init (&argc, &argv, NULL);
  for (guint r = 0; r < G_N_ELEMENTS (rules); r++)
    for (guint t = 0; t < G_N_ELEMENTS (tests); t++)
      {
        g_autofree char *path = g_strdup_printf ("/events/gate/%s/%s", rules[r].name, tests[t].name);
        g_test_add (path, Fixture, GINT_TO_POINTER (rules[r].compat), set_up, tests[t].func, tear_down);
      }
  return g_test_run ();
}
