// SPDX-License-Identifier: Apache-2.0
/* Random numbers: the same bits on every machine, and the distributions they are to have. */
#include <math.h>
#include <string.h>

#include "work-random.h"

static guint64
bits_of (double value)
{
  guint64 bits;

  memcpy (&bits, &value, sizeof bits);
  return bits;
}

static void
test_streams (void)
{
  WorkRandom a = work_random_stream (1, WORK_FOR_TURN, 2, 3);
  WorkRandom b = work_random_stream (1, WORK_FOR_TURN, 3, 2);
  WorkRandom c = work_random_stream (1, WORK_FOR_SESSION, 2, 3);
  WorkRandom again = work_random_stream (1, WORK_FOR_TURN, 2, 3);
  WorkRandom zero = { 0 };

  /* SplitMix64's published first numbers for state 0. */
  g_assert_cmphex (work_random_next (&zero), ==, G_GUINT64_CONSTANT (0xE220A8397B1DCDAF));
  g_assert_cmphex (work_random_next (&zero), ==, G_GUINT64_CONSTANT (0x6E789E6AA1B965F4));
  g_assert_cmphex (a.state, !=, b.state);
  g_assert_cmphex (a.state, !=, c.state);
  for (guint i = 0; i < 1000; i++)
    g_assert_cmphex (work_random_next (&a), ==, work_random_next (&again));
}

/* Of numbers that a compiler with fused operations or wider intermediates would round otherwise. */
static void
test_bits (void)
{
  WorkRandom random = work_random_stream (7, WORK_FOR_ARRIVALS, 0, 0);
  guint64 hash = 0;
  WorkZipf zipf;

  g_assert_cmphex (bits_of (work_ln (2.0)), ==, bits_of (0x1.62e42fefa39efp-1));
  g_assert_cmphex (bits_of (work_exp (1.0)), ==, bits_of (0x1.5bf0a8b14576ap+1));
  g_assert_cmphex (bits_of (work_exp (0.0)), ==, bits_of (1.0));
  g_assert_cmphex (bits_of (work_ln (1.0)), ==, bits_of (0.0));
  work_zipf_init (&zipf, 1000, 1.1);
  for (guint i = 0; i < 20000; i++)
    {
      double values[] = { work_random_normal (&random), work_random_exponential (&random),
                          work_cos_turns (work_random_unit (&random)), (double)work_zipf_draw (&zipf, &random) };

      for (guint k = 0; k < G_N_ELEMENTS (values); k++)
        hash = lmt_mix64 (hash + bits_of (values[k]));
    }
  g_assert_cmphex (hash, ==, G_GUINT64_CONSTANT (0xde5c77e96808b359));
}

static void
test_functions (void)
{
  WorkRandom random = work_random_stream (2, WORK_FOR_ARRIVALS, 0, 0);

  for (guint i = 0; i < 200000; i++)
    {
      double y = (work_random_unit (&random) - 0.5) * 1380.0;
      double x = exp (y);
      double t = work_random_unit (&random);

      g_assert_cmpfloat_with_epsilon (work_ln (x), log (x), 4e-15 * MAX (fabs (log (x)), 1.0));
      g_assert_cmpfloat_with_epsilon (work_exp (y) / exp (y), 1.0, 4e-15);
      g_assert_cmpfloat_with_epsilon (work_cos_turns (t), cos (2.0 * G_PI * t), 4e-15);
    }
  g_assert_true (work_exp (-1e9) == 0.0);
  g_assert_true (isfinite (work_exp (1e9)));
}

/* sum (seen - expected)^2 / expected against the 99.9 % point, by Wilson and Hilferty. */
static void
check_chi_square (const guint *seen, const double *share, guint n, guint draws)
{
  double sum = 0.0;
  double f = n - 1;
  double edge = f * pow (1.0 - 2.0 / (9.0 * f) + 3.09 * sqrt (2.0 / (9.0 * f)), 3.0);

  for (guint i = 0; i < n; i++)
    {
      double expected = share[i] * draws;

      sum += (seen[i] - expected) * (seen[i] - expected) / expected;
    }
  g_test_message ("chi square %.1f of %.1f", sum, edge);
  g_assert_cmpfloat (sum, <, edge);
}

enum
{
  DRAWS = 200000,
  RANKS = 60,
};

static void
test_zipf (void)
{
  static const double exponents[] = { 0.0, 0.5, 0.99, 1.0, 1.01, 1.7, 2.5 };

  for (guint e = 0; e < G_N_ELEMENTS (exponents); e++)
    {
      WorkRandom random = work_random_stream (3, WORK_FOR_DOCUMENT, e, 0);
      WorkZipf zipf;
      guint seen[RANKS] = { 0 };
      double share[RANKS];
      double all = 0.0;

      work_zipf_init (&zipf, RANKS, exponents[e]);
      for (guint i = 0; i < RANKS; i++)
        all += share[i] = pow (i + 1.0, -exponents[e]);
      for (guint i = 0; i < RANKS; i++)
        share[i] /= all;
      for (guint i = 0; i < DRAWS; i++)
        {
          guint64 rank = work_zipf_draw (&zipf, &random);

          g_assert_cmpuint (rank, >=, 1);
          g_assert_cmpuint (rank, <=, RANKS);
          seen[rank - 1]++;
        }
      check_chi_square (seen, share, RANKS, DRAWS);
    }
}

/* Bounds: one rank, very many, steep. */
static void
test_zipf_bounds (void)
{
  static const struct
  {
    guint64 n;
    double s;
  } cases[] = { { 1, 1.0 },
                { 2, 0.0 },
                { G_GUINT64_CONSTANT (1000000000000), 0.0 },
                { G_GUINT64_CONSTANT (1000000000000), 1.0 },
                { G_GUINT64_CONSTANT (1000000000000), 10.0 },
                { 10, 10.0 } };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      WorkRandom random = work_random_stream (4, WORK_FOR_DOCUMENT, i, 0);
      WorkZipf zipf;

      work_zipf_init (&zipf, cases[i].n, cases[i].s);
      for (guint k = 0; k < 20000; k++)
        {
          guint64 rank = work_zipf_draw (&zipf, &random);

          g_assert_cmpuint (rank, >=, 1);
          g_assert_cmpuint (rank, <=, cases[i].n);
        }
    }
}

static void
test_uniform (void)
{
  WorkDist dist = { .kind = WORK_UNIFORM, .a = 3.0, .b = 12.0 };
  WorkRandom random = work_random_stream (5, WORK_FOR_TURN, 0, 0);
  guint seen[10] = { 0 };
  double share[10];

  for (guint i = 0; i < 10; i++)
    share[i] = 0.1;
  for (guint i = 0; i < DRAWS; i++)
    seen[work_dist_draw_count (&dist, &random, 1000) - 3]++;
  check_chi_square (seen, share, 10, DRAWS);
  g_assert_cmpuint (work_dist_draw_count (&dist, &random, 2), ==, 2);
}

static void
test_values (void)
{
  double values[] = { 1, 2, 4, 8 };
  double sums[] = { 1, 4, 4, 10 };
  double share[] = { 0.1, 0.3, 0.6 };
  guint seen[3] = { 0 };
  WorkDist dist = { .kind = WORK_VALUES, .n = 4, .values = values, .sums = sums };
  WorkRandom random = work_random_stream (6, WORK_FOR_TURN, 0, 0);

  for (guint i = 0; i < DRAWS; i++)
    {
      guint64 value = work_dist_draw_count (&dist, &random, 1000);

      g_assert_cmpuint (value, !=, 4); /* weight 0 */
      seen[value == 1 ? 0 : value == 2 ? 1 : 2]++;
    }
  check_chi_square (seen, share, 3, DRAWS);
}

/* Equal shares by quantiles of the normal distribution. */
static void
test_lognormal (void)
{
  static const double cuts[] = { -1.2815515655446004, -0.8416212335729143, -0.5244005127080407, -0.2533471031357997, 0.0,
                                 0.2533471031357997,  0.5244005127080407,  0.8416212335729143,  1.2815515655446004 };
  WorkDist dist = { .kind = WORK_LOGNORMAL, .a = 250.0, .b = 0.7 };
  WorkRandom random = work_random_stream (8, WORK_FOR_TURN, 0, 0);
  guint seen[10] = { 0 };
  double share[10];

  for (guint i = 0; i < DRAWS; i++)
    {
      double z = log (work_dist_draw (&dist, &random) / 250.0) / 0.7;
      guint at = 0;

      while (at < G_N_ELEMENTS (cuts) && z > cuts[at])
        at++;
      seen[at]++;
    }
  for (guint i = 0; i < 10; i++)
    share[i] = 0.1;
  check_chi_square (seen, share, 10, DRAWS);
}

static void
test_exponential (void)
{
  WorkRandom random = work_random_stream (9, WORK_FOR_ARRIVALS, 0, 0);
  guint seen[10] = { 0 };
  double share[10];

  for (guint i = 0; i < DRAWS; i++)
    {
      double x = work_random_exponential (&random);

      g_assert_cmpfloat (x, >=, 0.0);
      seen[MIN ((guint)(10.0 * (1.0 - exp (-x))), 9)]++;
    }
  for (guint i = 0; i < 10; i++)
    share[i] = 0.1;
  check_chi_square (seen, share, 10, DRAWS);
}

static void
test_below (void)
{
  WorkRandom random = work_random_stream (10, WORK_FOR_TURN, 0, 0);
  guint64 big = G_MAXUINT64 / 3 * 2;
  guint upper = 0;

  for (guint i = 0; i < 20000; i++)
    {
      guint64 x = work_random_below (&random, big);

      g_assert_cmpuint (x, <, big);
      upper += x >= big / 2;
    }
  /* A draw modulo n alone would fall into the lower half twice as often. */
  g_assert_cmpuint (upper, >, 9700);
  g_assert_cmpuint (upper, <, 10300);
  g_assert_cmpuint (work_random_below (&random, 1), ==, 0);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/workload/random/streams", test_streams);
  g_test_add_func ("/workload/random/bits", test_bits);
  g_test_add_func ("/workload/random/functions", test_functions);
  g_test_add_func ("/workload/random/zipf", test_zipf);
  g_test_add_func ("/workload/random/zipf-bounds", test_zipf_bounds);
  g_test_add_func ("/workload/random/uniform", test_uniform);
  g_test_add_func ("/workload/random/values", test_values);
  g_test_add_func ("/workload/random/lognormal", test_lognormal);
  g_test_add_func ("/workload/random/exponential", test_exponential);
  g_test_add_func ("/workload/random/below", test_below);
  return g_test_run ();
}
