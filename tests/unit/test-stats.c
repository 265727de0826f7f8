/* SPDX-License-Identifier: Apache-2.0 */
#include <lmtrace/lmtrace.h>

#include <malloc.h>
#include <math.h>
#include <stdlib.h>

static const guint per_milles[] = { 0, 10, 500, 900, 990, 999, 1000 };

static void
test_ranks (void)
{
  /* cli.md 3.7: n, per mille, index documented (nearest), index of 0.5.6 (floor). */
  static const guint64 cases[][4] = {
    { 1, 500, 0, 0 },  { 2, 500, 0, 1 },        { 10, 500, 4, 5 },
    { 10, 900, 8, 9 }, { 100, 500, 49, 50 },    { 100, 990, 98, 99 },
    { 3, 500, 1, 1 },  { 1000, 999, 998, 999 }, { 200000, 990, 197999, 198000 },
    { 0, 500, 0, 0 },  { 7, 1000, 6, 6 },
  };
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_assert_cmpuint (lmt_stats_rank_index (cases[i][0], (guint)cases[i][1], LMT_RANK_NEAREST), ==, cases[i][2]);
      g_assert_cmpuint (lmt_stats_rank_index (cases[i][0], (guint)cases[i][1], LMT_RANK_FLOOR), ==, cases[i][3]);
    }
  for (guint64 n = 1; n < 3000; n++)
    for (guint p = 50; p <= 99; p++)
      {
        g_assert_cmpuint (lmt_stats_rank_index (n, p * 10, LMT_RANK_NEAREST), ==, (p * n + 99) / 100 - 1);
        g_assert_cmpuint (lmt_stats_rank_index (n, p * 10, LMT_RANK_FLOOR), ==, MIN (n - 1, p * n / 100));
      }
  g_assert_cmpuint (lmt_stats_rank_index (G_MAXUINT64, 1000, LMT_RANK_NEAREST), ==, G_MAXUINT64 - 1);
}

static void
test_empty (void)
{
  g_autoptr (LmtStats) stats = lmt_stats_new ();
  g_assert_cmpuint (lmt_stats_count (stats), ==, 0);
  g_assert_cmpint (lmt_stats_min (stats), ==, 0);
  g_assert_cmpint (lmt_stats_max (stats), ==, 0);
  g_assert_cmpfloat (lmt_stats_mean (stats), ==, 0);
  g_assert_cmpint (lmt_stats_percentile (stats, 990, LMT_RANK_NEAREST), ==, 0);
  g_assert_true (lmt_stats_is_exact (stats));
  lmt_stats_add (stats, -5);
  g_assert_cmpint (lmt_stats_min (stats), ==, 0);
  g_assert_cmpint (lmt_stats_max (stats), ==, 0);
}

static void
test_mean (void)
{
  g_autoptr (LmtStats) stats = lmt_stats_new ();
  lmt_stats_add (stats, 1);
  lmt_stats_add (stats, 1);
  lmt_stats_add (stats, 2);
  g_assert_cmpfloat (lmt_stats_mean (stats), ==, 4.0 / 3.0);

  /* A sum far beyond 2^64 and quotients that a double can't hold: compared with long double, which can. */
  g_autoptr (GRand) rand = g_rand_new_with_seed (3);
  for (guint round = 0; round < 200; round++)
    {
      g_autoptr (LmtStats) many = lmt_stats_new ();
      const guint n = (guint)g_rand_int_range (rand, 1, 50);
      __extension__ unsigned __int128 sum = 0;
      for (guint i = 0; i < n; i++)
        {
          const gint64 value = (gint64)(((guint64)g_rand_int (rand) << 32 | g_rand_int (rand)) >> g_rand_int_range (rand, 1, 60));
          lmt_stats_add (many, value);
          sum += (guint64)value;
        }
      const guint64 whole = (guint64)(sum / n);
      const double below = nextafter ((double)whole, 0);
      const double mean = lmt_stats_mean (many);
      g_assert_cmpfloat (mean, >=, below);
      g_assert_cmpfloat (mean, <=, nextafter ((double)(whole + 1), INFINITY));
      if (sum % n == 0)
        g_assert_cmpfloat (mean, ==, (double)whole);
    }
  g_autoptr (LmtStats) large = lmt_stats_new ();
  for (guint i = 0; i < 1000; i++)
    lmt_stats_add (large, G_MAXINT64);
  g_assert_cmpfloat (lmt_stats_mean (large), ==, (double)G_MAXINT64);
}

static int
compare (const void *a, const void *b)
{
  const gint64 x = *(const gint64 *)a;
  const gint64 y = *(const gint64 *)b;
  return (x > y) - (x < y);
}

static gint64
draw (GRand *rand)
{
  return (gint64)(exp (g_rand_double_range (rand, 0, 30)));
}

static void
check_against (LmtStats *stats, gint64 *samples, guint n, gboolean exact)
{
  qsort (samples, n, sizeof *samples, compare);
  g_assert_cmpuint (lmt_stats_count (stats), ==, n);
  g_assert_true (lmt_stats_is_exact (stats) == exact);
  g_assert_cmpint (lmt_stats_min (stats), ==, samples[0]);
  g_assert_cmpint (lmt_stats_max (stats), ==, samples[n - 1]);
  for (guint i = 0; i < G_N_ELEMENTS (per_milles); i++)
    for (guint rank = LMT_RANK_NEAREST; rank <= LMT_RANK_FLOOR; rank++)
      {
        const gint64 truth = samples[lmt_stats_rank_index (n, per_milles[i], (LmtRank)rank)];
        const gint64 found = lmt_stats_percentile (stats, per_milles[i], (LmtRank)rank);
        if (exact)
          g_assert_cmpint (found, ==, truth);
        else
          g_assert_cmpfloat (fabs ((double)found - (double)truth), <=, (double)truth / 256);
      }
}

static void
test_exact_then_buckets (void)
{
  enum
  {
    N = LMT_STATS_EXACT_MAX + 20000
  };
  g_autoptr (GRand) rand = g_rand_new_with_seed (4);
  g_autofree gint64 *samples = g_new (gint64, N);
  g_autoptr (LmtStats) stats = lmt_stats_new ();
  for (guint i = 0; i < LMT_STATS_EXACT_MAX; i++)
    lmt_stats_add (stats, samples[i] = draw (rand));
  check_against (stats, samples, LMT_STATS_EXACT_MAX, TRUE);
  for (guint i = LMT_STATS_EXACT_MAX; i < N; i++)
    lmt_stats_add (stats, samples[i] = draw (rand));
  check_against (stats, samples, N, FALSE);
}

/* Each bucket's error, at its ends, over all octaves. */
static void
test_bucket_bound (void)
{
  for (guint octave = 0; octave < 63; octave++)
    for (gint64 step = 0; step < 130; step++)
      {
        const gint64 base = (gint64)(G_GUINT64_CONSTANT (1) << octave);
        const gint64 value = base + (gint64)((guint64)base / 128 * (guint64)step) + (step % 3 == 0 ? -1 : 0);
        if (value < 0)
          continue;
        g_autoptr (LmtStats) filled = lmt_stats_new ();
        g_autoptr (LmtStats) one = lmt_stats_new ();
        /* The middle sample lies in a bucket: ends are known exactly. */
        lmt_stats_add (one, 0);
        lmt_stats_add (one, value);
        lmt_stats_add (one, G_MAXINT64);
        for (guint i = 0; i < LMT_STATS_EXACT_MAX && octave % 9 == 0 && step % 64 == 0; i++)
          lmt_stats_add (filled, i % 2 == 0 ? 0 : G_MAXINT64);
        if (lmt_stats_count (filled) == 0)
          continue;
        lmt_stats_merge (filled, one);
        g_assert_false (lmt_stats_is_exact (filled));
        const guint64 middle = LMT_STATS_EXACT_MAX / 2 + 1;
        g_assert_cmpuint (lmt_stats_rank_index (lmt_stats_count (filled), 500, LMT_RANK_NEAREST), ==, middle);
        const gint64 found = lmt_stats_percentile (filled, 500, LMT_RANK_NEAREST);
        g_assert_cmpfloat (fabs ((double)found - (double)value), <=, (double)value / 256);
      }
}

static void
test_merge (void)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (5);
  static const guint sizes[][2]
      = { { 0, 10 }, { 10, 0 }, { 100, 200 }, { 40000, 30000 }, { 70000, 5 }, { 5, 70000 }, { 70000, 70000 } };
  for (guint i = 0; i < G_N_ELEMENTS (sizes); i++)
    {
      const guint n = sizes[i][0] + sizes[i][1];
      g_autofree gint64 *samples = g_new (gint64, n);
      g_autoptr (LmtStats) a = lmt_stats_new ();
      g_autoptr (LmtStats) b = lmt_stats_new ();
      g_autoptr (LmtStats) whole = lmt_stats_new ();
      for (guint k = 0; k < n; k++)
        {
          samples[k] = draw (rand);
          lmt_stats_add (k < sizes[i][0] ? a : b, samples[k]);
          lmt_stats_add (whole, samples[k]);
        }
      lmt_stats_merge (a, b);
      check_against (a, samples, n, n <= LMT_STATS_EXACT_MAX);
      g_assert_cmpfloat (lmt_stats_mean (a), ==, lmt_stats_mean (whole));
      for (guint k = 0; k < G_N_ELEMENTS (per_milles); k++)
        g_assert_cmpint (lmt_stats_percentile (a, per_milles[k], LMT_RANK_NEAREST), ==,
                         lmt_stats_percentile (whole, per_milles[k], LMT_RANK_NEAREST));
    }
}

static void
test_no_allocation (void)
{
  g_autoptr (LmtStats) stats = lmt_stats_new ();
  lmt_stats_reserve (stats);
  const struct mallinfo2 before = mallinfo2 ();
  for (guint i = 0; i < LMT_STATS_EXACT_MAX + 1000; i++)
    lmt_stats_add (stats, i * 977);
  const struct mallinfo2 after = mallinfo2 ();
  g_assert_cmpuint (after.uordblks + after.hblkhd, ==, before.uordblks + before.hblkhd);
  g_assert_false (lmt_stats_is_exact (stats));
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/stats/ranks", test_ranks);
  g_test_add_func ("/stats/empty", test_empty);
  g_test_add_func ("/stats/mean", test_mean);
  g_test_add_func ("/stats/exact-then-buckets", test_exact_then_buckets);
  g_test_add_func ("/stats/bucket-bound", test_bucket_bound);
  g_test_add_func ("/stats/merge", test_merge);
  g_test_add_func ("/stats/no-allocation", test_no_allocation);
  return g_test_run ();
}
