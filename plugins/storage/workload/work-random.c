// SPDX-License-Identifier: Apache-2.0
#include "work-random.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* Wider intermediates would round twice: results would differ from those of other machines. */
G_STATIC_ASSERT (FLT_EVAL_METHOD == 0);

#define LN2_HIGH 0x1.62e42fefa38p-1  /* few enough bits that its product with an exponent is exact */
#define LN2_LOW 0x1.ef35793c7673p-45 /* the rest of ln 2 */
#define LOG2_E 0x1.71547652b82fep+0
#define PI 0x1.921fb54442d18p+1

WorkRandom
work_random_stream (guint64 seed, WorkPurpose purpose, guint64 a, guint64 b)
{
  guint64 state = lmt_mix64 (seed + WORK_GOLDEN);

  state = lmt_mix64 (state + (guint64)purpose * WORK_GOLDEN);
  state = lmt_mix64 ((state ^ a) + WORK_GOLDEN);
  state = lmt_mix64 ((state ^ b) + WORK_GOLDEN);
  return (WorkRandom){ state };
}

guint64
work_random_below (WorkRandom *random, guint64 n)
{
  /* Draws from the incomplete last round of n would favour small numbers. */
  guint64 limit = G_MAXUINT64 - (G_MAXUINT64 % n + 1) % n;
  guint64 draw;

  do
    draw = work_random_next (random);
  while (draw > limit);
  return draw % n;
}

/* ---------------- functions ---------------- */

/* ln m for m in [sqrt 1/2, sqrt 2]: 2 artanh ((m - 1) / (m + 1)) */
static double
ln_near_one (double m)
{
  double z = (m - 1.0) / (m + 1.0);
  double square = z * z;
  double sum = 0.0;

  for (int k = 21; k >= 3; k -= 2)
    sum = (sum + 1.0 / k) * square;
  return 2.0 * z + 2.0 * z * sum;
}

double
work_ln (double x)
{
  int exponent;
  double m = frexp (x, &exponent); /* exact */

  if (m < 0x1.6a09e667f3bcdp-1)
    {
      m *= 2.0;
      exponent--;
    }
  return (double)exponent * LN2_HIGH + (ln_near_one (m) + (double)exponent * LN2_LOW);
}

double
work_exp (double x)
{
  double rounds;
  double rest;
  double sum = 1.0;

  if (x < -700.0)
    return 0.0;
  if (x > 700.0)
    x = 700.0;
  rounds = floor (x * LOG2_E + 0.5);
  rest = (x - rounds * LN2_HIGH) - rounds * LN2_LOW;
  for (int k = 16; k >= 1; k--)
    sum = 1.0 + sum * rest / k;
  return ldexp (sum, (int)rounds); /* exact */
}

/* cos x for x in [0, pi / 4], by its series */
static double
cos_small (double x)
{
  double square = x * x;
  double sum = 1.0;

  for (int k = 18; k >= 2; k -= 2)
    sum = 1.0 - sum * square / (k * (k - 1));
  return sum;
}

static double
sin_small (double x)
{
  double square = x * x;
  double sum = 1.0;

  for (int k = 19; k >= 3; k -= 2)
    sum = 1.0 - sum * square / (k * (k - 1));
  return x * sum;
}

double
work_cos_turns (double t)
{
  double sign = 1.0;

  if (t > 0.5) /* cos is even about half a turn */
    t = 1.0 - t;
  if (t > 0.25)
    {
      t = 0.5 - t;
      sign = -1.0;
    }
  return sign * (t <= 0.125 ? cos_small (2.0 * PI * t) : sin_small (2.0 * PI * (0.25 - t)));
}

double
work_random_exponential (WorkRandom *random)
{
  return -work_ln (1.0 - work_random_unit (random)); /* 1 - u is in (0, 1] */
}

/* Marsaglia's polar method; the second number of the pair is given up, so that a stream has no other state. */
double
work_random_normal (WorkRandom *random)
{
  double u;
  double s;

  do
    {
      double v;

      u = 2.0 * work_random_unit (random) - 1.0;
      v = 2.0 * work_random_unit (random) - 1.0;
      s = u * u + v * v;
    }
  while (s >= 1.0 || s == 0.0);
  return u * sqrt (-2.0 * work_ln (s) / s);
}

/* ---------------- Zipf ---------------- */

/* (e^t - 1) / t */
static double
exp_slope (double t)
{
  double sum = 1.0;

  if (fabs (t) > 0.25)
    return (work_exp (t) - 1.0) / t;
  for (int k = 14; k >= 2; k--)
    sum = 1.0 + sum * t / k;
  return sum;
}

/* ln (1 + t) / t */
static double
ln_slope (double t)
{
  if (fabs (t) > 0.25)
    return work_ln (1.0 + t) / t;
  if (t == 0.0)
    return 1.0;
  /* 1 + t would lose the last bits of a small t: 2 artanh (t / (2 + t)) */
  double z = t / (2.0 + t);
  double square = z * z;
  double sum = 0.0;
  for (int k = 19; k >= 3; k -= 2)
    sum = (sum + 1.0 / k) * square;
  return (2.0 * z + 2.0 * z * sum) / t;
}

/* The integral of x^-s from 1. */
static double
zipf_integral (double s, double x)
{
  double ln = work_ln (x);

  return ln * exp_slope ((1.0 - s) * ln);
}

static double
zipf_inverse (double s, double area)
{
  double t = (1.0 - s) * area;

  /* Rounding may carry the argument of the logarithm to 0. */
  if (t < -1.0 + 0x1p-52)
    t = -1.0 + 0x1p-52;
  return work_exp (area * ln_slope (t));
}

static double
zipf_weight (double s, double x)
{
  return work_exp (-s * work_ln (x));
}

void
work_zipf_init (WorkZipf *zipf, guint64 n, double s)
{
  zipf->n = n;
  zipf->s = s;
  zipf->h_first = zipf_integral (s, 1.5) - 1.0;
  zipf->h_last = zipf_integral (s, (double)n + 0.5);
  zipf->cut = 2.0 - zipf_inverse (s, zipf_integral (s, 2.5) - zipf_weight (s, 2.0));
}

guint64
work_zipf_draw (const WorkZipf *zipf, WorkRandom *random)
{
  for (;;)
    {
      double area = zipf->h_last + work_random_unit (random) * (zipf->h_first - zipf->h_last);
      double x = zipf_inverse (zipf->s, area);
      double rank = floor (x + 0.5);

      rank = rank < 1.0 ? 1.0 : rank > (double)zipf->n ? (double)zipf->n : rank;
      if (rank - x <= zipf->cut || area >= zipf_integral (zipf->s, rank + 0.5) - zipf_weight (zipf->s, rank))
        return (guint64)rank;
    }
}

/* ---------------- distributions ---------------- */

void
work_dist_clear (WorkDist *dist)
{
  g_free (dist->values);
  g_free (dist->sums);
  memset (dist, 0, sizeof *dist);
}

static double
draw_value (const WorkDist *dist, WorkRandom *random)
{
  double at = work_random_unit (random) * dist->sums[dist->n - 1];
  guint32 low = 0;
  guint32 high = dist->n - 1;

  while (low < high) /* the first whose sum lies above */
    {
      guint32 middle = low + (high - low) / 2;

      if (dist->sums[middle] > at)
        high = middle;
      else
        low = middle + 1;
    }
  return dist->values[low];
}

double
work_dist_draw (const WorkDist *dist, WorkRandom *random)
{
  switch (dist->kind)
    {
    case WORK_UNIFORM:
      return dist->a + work_random_unit (random) * (dist->b - dist->a);
    case WORK_LOGNORMAL:
      return dist->a * work_exp (dist->b * work_random_normal (random));
    case WORK_ZIPF:
      return (double)work_zipf_draw (&dist->zipf, random);
    case WORK_VALUES:
      return draw_value (dist, random);
    default:
      return dist->a;
    }
}

guint64
work_dist_draw_count (const WorkDist *dist, WorkRandom *random, guint64 most)
{
  double value;

  if (dist->kind == WORK_UNIFORM)
    {
      guint64 low = (guint64)ceil (dist->a);
      guint64 high = (guint64)floor (dist->b);

      return MIN (low + (high > low ? work_random_below (random, high - low + 1) : 0), most);
    }
  value = floor (work_dist_draw (dist, random) + 0.5);
  return value <= 0.0 ? 0 : value >= (double)most ? most : (guint64)value;
}
