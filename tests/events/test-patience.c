// SPDX-License-Identifier: Apache-2.0
#include "events-patience.h"

#include <sys/socket.h>
#include <unistd.h>

#define QUICK_NS 50000
#define LONG_NS 5000000

static EventsPatience
patience_of_two_cores (void)
{
  EventsPatience patience;
  events_patience_init (&patience);
  g_assert_cmpint (patience.is_possible, ==, g_get_num_processors () > 1);
  patience.is_possible = TRUE;
  return patience;
}

static void
learn (EventsPatience *patience, guint n, gint64 waited_ns)
{
  for (guint i = 0; i < n; i++)
    events_patience_learn (patience, waited_ns, events_patience_is_awake (patience));
}

/* Awake after a few short waits, not before; never with one core. */
static void
test_begin (void)
{
  EventsPatience patience = patience_of_two_cores ();
  g_assert_false (events_patience_is_awake (&patience));
  learn (&patience, 3, QUICK_NS);
  g_assert_false (events_patience_is_awake (&patience));
  learn (&patience, 1, QUICK_NS);
  g_assert_true (events_patience_is_awake (&patience));
  patience.is_possible = FALSE;
  g_assert_false (events_patience_is_awake (&patience));
}

/* A peer that takes its time costs nothing, however long it goes on. */
static void
test_slow (void)
{
  EventsPatience patience = patience_of_two_cores ();
  for (guint i = 0; i < 1000; i++)
    {
      learn (&patience, 1, LONG_NS);
      g_assert_false (events_patience_is_awake (&patience));
      learn (&patience, 2, QUICK_NS);
      g_assert_false (events_patience_is_awake (&patience));
    }
}

/* Who becomes slow is waited for in vain a few times at most; who becomes quick again has to show it. */
static void
test_turns_slow (void)
{
  EventsPatience patience = patience_of_two_cores ();
  guint vain = 0;
  learn (&patience, 10000, QUICK_NS);
  g_assert_true (events_patience_is_awake (&patience));
  while (events_patience_is_awake (&patience))
    {
      learn (&patience, 1, LONG_NS);
      vain++;
    }
  g_assert_cmpuint (vain, <=, 3);
  learn (&patience, 1000, LONG_NS);
  g_assert_false (events_patience_is_awake (&patience));
  learn (&patience, 32, QUICK_NS);
  g_assert_true (events_patience_is_awake (&patience));
}

/* One long wait among many short ones changes nothing; one in four does. */
static void
test_mixed (void)
{
  EventsPatience patience = patience_of_two_cores ();
  guint vain = 0;
  learn (&patience, 100, QUICK_NS);
  for (guint i = 0; i < 100; i++)
    {
      g_assert_true (events_patience_is_awake (&patience));
      learn (&patience, 1, LONG_NS);
      learn (&patience, 31, QUICK_NS);
    }
  for (guint i = 0; i < 1000; i++)
    {
      vain += events_patience_is_awake (&patience);
      learn (&patience, 1, LONG_NS);
      learn (&patience, 3, QUICK_NS);
    }
  g_assert_cmpuint (vain, <=, 3);
}

static void
test_lose (void)
{
  EventsPatience patience = patience_of_two_cores ();
  learn (&patience, 100, QUICK_NS);
  events_patience_lose (&patience);
  g_assert_false (events_patience_is_awake (&patience));
}

/* Bytes stay where they are; an end and a closed descriptor end the wait, and so does time. */
static void
test_wait (void)
{
  int ends[2];
  char byte = 0;
  gint64 begun_ns = g_get_monotonic_time () * 1000;
  g_assert_cmpint (socketpair (AF_UNIX, SOCK_STREAM, 0, ends), ==, 0);
  g_assert_false (events_patience_wait (ends[0], begun_ns));
  g_assert_cmpint (g_get_monotonic_time () * 1000 - begun_ns, >=, EVENTS_AWAKE_NS);
  g_assert_cmpint (write (ends[1], "x", 1), ==, 1);
  g_assert_false (events_patience_wait (ends[0], begun_ns));
  /* begun in time to come: there is time for certain */
  g_assert_true (events_patience_wait (ends[0], g_get_monotonic_time () * 1000 + G_GINT64_CONSTANT (10000000000)));
  g_assert_cmpint (recv (ends[0], &byte, 1, 0), ==, 1);
  g_assert_cmpint (byte, ==, 'x');
  close (ends[1]);
  g_assert_true (events_patience_wait (ends[0], g_get_monotonic_time () * 1000 + G_GINT64_CONSTANT (10000000000)));
  close (ends[0]);
  g_assert_true (events_patience_wait (-1, g_get_monotonic_time () * 1000 + G_GINT64_CONSTANT (10000000000)));
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/patience/begin", test_begin);
  g_test_add_func ("/patience/slow", test_slow);
  g_test_add_func ("/patience/turns-slow", test_turns_slow);
  g_test_add_func ("/patience/mixed", test_mixed);
  g_test_add_func ("/patience/lose", test_lose);
  g_test_add_func ("/patience/wait", test_wait);
  return g_test_run ();
}
