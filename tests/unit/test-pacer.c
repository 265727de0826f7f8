/* SPDX-License-Identifier: Apache-2.0 */
#include <lmtrace/lmt-pacer.h>

#include <math.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define SEC G_GINT64_CONSTANT (1000000000)

/* Deadline of a time, from an origin of 1000 ns. */
static gint64
due (LmtPacer *pacer, double t)
{
  return lmt_pacer_due (pacer, t, NULL) - 1000;
}

static LmtPacer *
start (double speed, gint64 max_gap_ns)
{
  LmtPacer *pacer = lmt_pacer_new (speed, max_gap_ns);

  lmt_pacer_start (pacer, 1000);
  return pacer;
}

static void
test_speeds (void)
{
  static const struct
  {
    double speed;
    double t;
    gint64 due;
  } rows[] = {
    { 1.0, 0.0, 0 },          { 1.0, 1.5, 1500000000 }, { 2.0, 1.0, 500000000 },       { 0.1, 1.0, 10 * SEC },
    { 10.0, 1.0, 100000000 }, { 0.0, 100.0, 0 },        { 1e-9, 5e8, G_MAXINT64 / 4 },
  };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autoptr (LmtPacer) pacer = start (rows[i].speed, 0);

      g_assert_cmpint (due (pacer, rows[i].t), ==, rows[i].due);
    }
}

static void
test_no_drift (void)
{
  g_autoptr (LmtPacer) pacer = start (1.0, 0);

  /* 0.1 has no exact double: summing gaps would drift, the plan must not. */
  for (int i = 1; i <= 1000000; i++)
    {
      gint64 found = due (pacer, i * 0.1);

      g_assert_cmpint (ABS (found - (gint64)i * 100000000), <=, 16);
    }
}

static void
test_odd_times (void)
{
  g_autoptr (LmtPacer) pacer = start (1.0, 0);
  gint64 trace_ns;

  g_assert_cmpint (due (pacer, -3.0), ==, 0);
  g_assert_cmpint (due (pacer, 2.0), ==, 2 * SEC);
  /* no time known: at once, and the clock stays */
  g_assert_cmpint (due (pacer, NAN), ==, 2 * SEC);
  g_assert_cmpint (due (pacer, INFINITY), ==, 2 * SEC);
  g_assert_cmpint (due (pacer, -INFINITY), ==, 2 * SEC);
  g_assert_cmpint (due (pacer, 1e9), ==, 2 * SEC);
  g_assert_cmpint (due (pacer, 1e300), ==, 2 * SEC);
  /* a step back is a gap of 0 */
  g_assert_cmpint (due (pacer, 1.0), ==, 2 * SEC);
  g_assert_cmpint (lmt_pacer_due (pacer, 2.5, &trace_ns) - 1000, ==, 2500000000);
  g_assert_cmpint (trace_ns, ==, 2500000000);
  g_assert_cmpint (due (pacer, 999999999.0), ==, 999999999 * SEC);
}

static void
test_max_gap (void)
{
  g_autoptr (LmtPacer) pacer = start (2.0, SEC);
  gint64 trace_ns;

  /* The gap before the first record counts; then 0.5 s whole, then 10 s cut to one. */
  g_assert_cmpint (due (pacer, 5.0), ==, SEC / 2);
  g_assert_cmpint (due (pacer, 5.5), ==, 3 * SEC / 4);
  g_assert_cmpint (lmt_pacer_due (pacer, 15.5, &trace_ns) - 1000, ==, 5 * SEC / 4);
  g_assert_cmpint (trace_ns, ==, 5 * SEC / 2);
}

static void
test_rounds (void)
{
  g_autoptr (LmtPacer) pacer = start (1.0, 0);

  g_assert_cmpint (due (pacer, 1.0), ==, SEC);
  g_assert_cmpint (due (pacer, 3.0), ==, 3 * SEC);
  for (int round = 1; round <= 3; round++)
    {
      lmt_pacer_next_round (pacer);
      g_assert_cmpint (due (pacer, 1.0), ==, (3 * round + 1) * SEC);
      g_assert_cmpint (due (pacer, 3.0), ==, (3 * round + 3) * SEC);
    }
}

static void
test_many_rounds (void)
{
  g_autoptr (LmtPacer) pacer = start (1.0, 0);
  gint64 before = 0;

  for (int round = 0; round < 100; round++)
    {
      gint64 now = due (pacer, 999999999.0);

      g_assert_cmpint (now, >=, before);
      g_assert_cmpint (now, <=, G_MAXINT64 / 4);
      before = now;
      lmt_pacer_next_round (pacer);
    }
}

static void
test_real_clock (void)
{
  const LmtClock *clock = lmt_clock_real ();
  gint64 before = lmt_clock_now (clock);
  gint64 deadlines[] = { before - SEC, before + 20000, before + 300000, before + 3000000 };

  for (guint i = 0; i < G_N_ELEMENTS (deadlines); i++)
    {
      g_assert_true (clock->sleep_until_ns (clock->data, deadlines[i], NULL, 0));
      g_assert_cmpint (lmt_clock_now (clock), >=, deadlines[i]);
    }
}

static void
test_real_descriptor (void)
{
  const LmtClock *clock = lmt_clock_real ();
  int fds[2] = { eventfd (0, EFD_CLOEXEC), eventfd (1, EFD_CLOEXEC) };

  /* Ends at once although the deadline never comes. */
  g_assert_true (clock->sleep_until_ns (clock->data, G_MAXINT64, fds, 2));
  close (fds[0]);
  close (fds[1]);
}

static void
on_alarm (int number)
{
  lmt_clock_wake ();
}

static void
test_real_wake (void)
{
  const LmtClock *clock = lmt_clock_real ();
  struct sigaction action = { 0 };
  gint64 soon;

  /* A signal before the sleep is not slept over. */
  lmt_clock_wake ();
  g_assert_false (clock->sleep_until_ns (clock->data, G_MAXINT64, NULL, 0));
  /* It is taken by one sleep. */
  soon = lmt_clock_now (clock) + 200000;
  g_assert_true (clock->sleep_until_ns (clock->data, soon, NULL, 0));
  /* One that comes during it ends it. */
  action.sa_handler = on_alarm;
  sigaction (SIGALRM, &action, NULL);
  alarm (1);
  g_assert_false (clock->sleep_until_ns (clock->data, G_MAXINT64, NULL, 0));
  /* The interrupted call and the written wake may be two: at most one more sleep ends early. */
  clock->sleep_until_ns (clock->data, lmt_clock_now (clock) + 200000, NULL, 0);
  soon = lmt_clock_now (clock) + 200000;
  g_assert_true (clock->sleep_until_ns (clock->data, soon, NULL, 0));
}

static void
test_virtual_clock (void)
{
  LmtClock *clock = lmt_clock_virtual_new (5);
  int fd = eventfd (1, EFD_CLOEXEC | EFD_NONBLOCK);
  guint64 count;

  g_assert_cmpint (lmt_clock_now (clock), ==, 5);
  g_assert_true (clock->sleep_until_ns (clock->data, 36000 * SEC, NULL, 0));
  g_assert_cmpint (lmt_clock_now (clock), ==, 36000 * SEC);
  /* never back */
  g_assert_true (clock->sleep_until_ns (clock->data, SEC, NULL, 0));
  g_assert_cmpint (lmt_clock_now (clock), ==, 36000 * SEC);
  /* what is ready comes before time passes */
  g_assert_true (clock->sleep_until_ns (clock->data, 72000 * SEC, &fd, 1));
  g_assert_cmpint (lmt_clock_now (clock), ==, 36000 * SEC);
  g_assert_true (clock->sleep_until_ns (clock->data, G_MAXINT64, &fd, 1));
  g_assert_cmpint (lmt_clock_now (clock), ==, 36000 * SEC);
  g_assert_cmpint (read (fd, &count, sizeof count), ==, sizeof count);
  g_assert_true (clock->sleep_until_ns (clock->data, 72000 * SEC, &fd, 1));
  g_assert_cmpint (lmt_clock_now (clock), ==, 72000 * SEC);
  close (fd);
  lmt_clock_virtual_free (clock);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/pacer/speeds", test_speeds);
  g_test_add_func ("/pacer/no-drift", test_no_drift);
  g_test_add_func ("/pacer/odd-times", test_odd_times);
  g_test_add_func ("/pacer/max-gap", test_max_gap);
  g_test_add_func ("/pacer/rounds", test_rounds);
  g_test_add_func ("/pacer/many-rounds", test_many_rounds);
  g_test_add_func ("/clock/real/deadline", test_real_clock);
  g_test_add_func ("/clock/real/descriptor", test_real_descriptor);
  g_test_add_func ("/clock/real/wake", test_real_wake);
  g_test_add_func ("/clock/virtual", test_virtual_clock);
  return g_test_run ();
}
