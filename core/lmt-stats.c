/* SPDX-License-Identifier: Apache-2.0 */
#include "lmt-stats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum
{
  STATS_STEPS = 128,             /* linear steps of an octave: half a step is 1/256 of the smallest value in it */
  STATS_PLAIN = 2 * STATS_STEPS, /* values below have a bucket of their own */
  STATS_FIRST_OCTAVE = 8,        /* log2 (STATS_PLAIN) */
  STATS_LAST_OCTAVE = 62,        /* of G_MAXINT64 */
  STATS_BUCKETS = STATS_PLAIN + (STATS_LAST_OCTAVE - STATS_FIRST_OCTAVE + 1) * STATS_STEPS,
  STATS_FIRST_ROOM = 256,
};

__extension__ typedef unsigned __int128 StatsSum;

struct _LmtStats
{
  guint64 count;
  gint64 min;
  gint64 max;
  StatsSum sum;
  gint64 *samples; /* used while count <= LMT_STATS_EXACT_MAX */
  guint room;
  gboolean sorted;
  guint64 *buckets; /* NULL: not needed yet */
  gboolean bucketed;
};

LmtStats *
lmt_stats_new (void)
{
  LmtStats *const stats = g_new0 (LmtStats, 1);
  stats->sorted = TRUE;
  return stats;
}

void
lmt_stats_free (LmtStats *stats)
{
  if (stats == NULL)
    return;
  g_free (stats->samples);
  g_free (stats->buckets);
  g_free (stats);
}

static void
stats_grow (LmtStats *stats, guint room)
{
  if (room <= stats->room)
    return;
  stats->samples = g_renew (gint64, stats->samples, room);
  stats->room = room;
}

void
lmt_stats_reserve (LmtStats *stats)
{
  g_return_if_fail (stats != NULL);
  stats_grow (stats, LMT_STATS_EXACT_MAX);
  if (stats->buckets == NULL)
    stats->buckets = g_new0 (guint64, STATS_BUCKETS);
}

static guint
stats_bucket_of (gint64 ns)
{
  if (ns < STATS_PLAIN)
    return (guint)ns;
  const guint octave = 63u - (guint)__builtin_clzll ((guint64)ns);
  const guint step = (guint)((guint64)ns >> (octave - (STATS_FIRST_OCTAVE - 1))) - STATS_STEPS;
  return STATS_PLAIN + (octave - STATS_FIRST_OCTAVE) * STATS_STEPS + step;
}

/* The middle of a bucket. */
static gint64
stats_value_of (guint bucket)
{
  if (bucket < STATS_PLAIN)
    return bucket;
  const guint octave = (bucket - STATS_PLAIN) / STATS_STEPS + STATS_FIRST_OCTAVE;
  const guint64 step = (bucket - STATS_PLAIN) % STATS_STEPS + STATS_STEPS;
  const guint shift = octave - (STATS_FIRST_OCTAVE - 1);
  return (gint64)((step << shift) + (G_GUINT64_CONSTANT (1) << (shift - 1)));
}

static void
stats_to_buckets (LmtStats *stats)
{
  if (stats->bucketed)
    return;
  if (stats->buckets == NULL)
    stats->buckets = g_new0 (guint64, STATS_BUCKETS);
  for (guint64 i = 0; i < stats->count; i++)
    stats->buckets[stats_bucket_of (stats->samples[i])]++;
  stats->bucketed = TRUE;
}

void
lmt_stats_add (LmtStats *stats, gint64 ns)
{
  if (ns < 0)
    ns = 0;
  if (!stats->bucketed && stats->count == LMT_STATS_EXACT_MAX)
    stats_to_buckets (stats);
  if (stats->bucketed)
    stats->buckets[stats_bucket_of (ns)]++;
  else
    {
      if (stats->count == stats->room)
        stats_grow (stats, stats->room == 0 ? STATS_FIRST_ROOM : stats->room * 2);
      stats->samples[stats->count] = ns;
      stats->sorted = FALSE;
    }
  if (stats->count == 0 || ns < stats->min)
    stats->min = ns;
  if (ns > stats->max)
    stats->max = ns;
  stats->sum += (guint64)ns;
  stats->count++;
}

void
lmt_stats_add_many (LmtStats *stats, gint64 ns, guint64 n)
{
  for (; n > 0 && !stats->bucketed; n--)
    lmt_stats_add (stats, ns);
  if (n == 0)
    return;
  ns = MAX (ns, 0);
  stats->buckets[stats_bucket_of (ns)] += n;
  stats->min = MIN (stats->min, ns);
  stats->max = MAX (stats->max, ns);
  stats->sum += (StatsSum)ns * n;
  stats->count += n;
}

void
lmt_stats_merge (LmtStats *into, const LmtStats *from)
{
  g_return_if_fail (into != NULL && from != NULL && into != from);

  if (from->count == 0)
    return;
  if (!from->bucketed && !into->bucketed && into->count + from->count <= LMT_STATS_EXACT_MAX)
    {
      stats_grow (into, (guint)(into->count + from->count));
      memcpy (into->samples + into->count, from->samples, from->count * sizeof (gint64));
      into->sorted = FALSE;
    }
  else
    {
      stats_to_buckets (into);
      if (from->bucketed)
        for (guint i = 0; i < STATS_BUCKETS; i++)
          into->buckets[i] += from->buckets[i];
      else
        for (guint64 i = 0; i < from->count; i++)
          into->buckets[stats_bucket_of (from->samples[i])]++;
    }
  into->min = into->count == 0 ? from->min : MIN (into->min, from->min);
  into->max = MAX (into->max, from->max);
  into->sum += from->sum;
  into->count += from->count;
}

guint64
lmt_stats_count (const LmtStats *stats)
{
  return stats->count;
}

gint64
lmt_stats_min (const LmtStats *stats)
{
  return stats->min;
}

gint64
lmt_stats_max (const LmtStats *stats)
{
  return stats->max;
}

double
lmt_stats_mean (const LmtStats *stats)
{
  if (stats->count == 0)
    return 0.0;

  /* One rounding only: a quotient of at least 55 bits whose last bit says whether anything follows. */
  StatsSum sum = stats->sum;
  int shift = 0;
  while (sum / stats->count < G_GUINT64_CONSTANT (1) << 55 && shift < 64 && sum != 0)
    {
      sum <<= 1;
      shift++;
    }
  guint64 quotient = (guint64)(sum / stats->count);
  if (sum % stats->count != 0)
    quotient |= 1;
  return ldexp ((double)quotient, -shift);
}

gboolean
lmt_stats_is_exact (const LmtStats *stats)
{
  return !stats->bucketed;
}

guint64
lmt_stats_rank_index (guint64 count, guint per_mille, LmtRank rank)
{
  if (count == 0)
    return 0;
  /* count / 1000 first, so that no count overflows. */
  const guint64 whole = count / 1000 * per_mille;
  const guint64 rest = count % 1000 * per_mille;
  if (rank == LMT_RANK_FLOOR)
    return MIN (count - 1, whole + rest / 1000);
  const guint64 above = whole + (rest + 999) / 1000;
  return above == 0 ? 0 : above - 1;
}

static int
stats_compare (const void *a, const void *b)
{
  const gint64 x = *(const gint64 *)a;
  const gint64 y = *(const gint64 *)b;
  return (x > y) - (x < y);
}

gint64
lmt_stats_percentile (LmtStats *stats, guint per_mille, LmtRank rank)
{
  g_return_val_if_fail (stats != NULL && per_mille <= 1000, 0);

  if (stats->count == 0)
    return 0;
  const guint64 index = lmt_stats_rank_index (stats->count, per_mille, rank);
  if (!stats->bucketed)
    {
      if (!stats->sorted)
        qsort (stats->samples, stats->count, sizeof (gint64), stats_compare);
      stats->sorted = TRUE;
      return stats->samples[index];
    }

  /* The ends are known exactly. */
  if (index == 0)
    return stats->min;
  if (index == stats->count - 1)
    return stats->max;
  guint64 below = 0;
  guint bucket = 0;
  while (bucket < STATS_BUCKETS - 1 && (below += stats->buckets[bucket]) <= index)
    bucket++;
  return CLAMP (stats_value_of (bucket), stats->min, stats->max);
}
