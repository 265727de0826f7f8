/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <lmtrace/lmt-hash.h>

G_BEGIN_DECLS

/**
 * SECTION: random numbers that are the same on every machine.
 *
 * Generator: SplitMix64. A stream is one 64-bit state; each step adds the golden ratio and mixes. A stream begins at a hash of
 * the workload's seed, a purpose and two numbers, so what one request draws never depends on the order in which others drew
 * theirs.
 *
 * Reals: IEEE doubles with + - * / and sqrt alone, which the standard rounds in one way only; logarithm, exponential and cosine
 * are made of these here, not taken from libm, whose last digit differs from release to release. The file is compiled without
 * contraction into fused operations. A test holds bits of results.
 */
typedef struct
{
  guint64 state;
} WorkRandom;

typedef enum
{
  WORK_FOR_ARRIVALS = 1,
  WORK_FOR_SESSION, /* a: its number */
  WORK_FOR_TURN,    /* a: session, b: turn */
  WORK_FOR_PREFIX,  /* a: class, b: which */
  WORK_FOR_DOCUMENT,
  WORK_FOR_INPUT,  /* a: session, b: turn: tokens */
  WORK_FOR_OUTPUT, /* the same */
} WorkPurpose;

#define WORK_GOLDEN G_GUINT64_CONSTANT (0x9E3779B97F4A7C15)

WorkRandom work_random_stream (guint64 seed, WorkPurpose purpose, guint64 a, guint64 b);

static inline guint64
work_random_next (WorkRandom *random)
{
  random->state += WORK_GOLDEN;
  return lmt_mix64 (random->state);
}

/* In [0, 1): 53 bits. */
static inline double
work_random_unit (WorkRandom *random)
{
  return (double)(work_random_next (random) >> 11) * 0x1p-53;
}

/* 0 … n - 1, each as likely as the others; n > 0. */
guint64 work_random_below (WorkRandom *random, guint64 n);
double work_random_exponential (WorkRandom *random); /* mean 1 */
double work_random_normal (WorkRandom *random);      /* mean 0, deviation 1 */

/* Their own logarithm and so on, of finite arguments; @x > 0 for the logarithm. Errors stay below 4e-15 of the result. */
double work_ln (double x);
double work_exp (double x);       /* 0 below -700, saturates above 700 */
double work_cos_turns (double t); /* cos (2 pi t), t in [0, 1] */

/**
 * WorkZipf: ranks 1 … n with weight rank^-s, by rejection from the integral (Hörmann and Derflinger 1996): a few doubles whatever
 * n is.
 */
typedef struct
{
  guint64 n;
  double s;
  double h_first;
  double h_last;
  double cut;
} WorkZipf;
void work_zipf_init (WorkZipf *zipf, guint64 n, double s);
guint64 work_zipf_draw (const WorkZipf *zipf, WorkRandom *random);

typedef enum
{
  WORK_FIXED = 0,
  WORK_UNIFORM,
  WORK_LOGNORMAL,
  WORK_ZIPF,
  WORK_VALUES,
} WorkDistKind;

/**
 * WorkDist: a distribution of a workload. @a, @b: fixed: value; uniform: bounds; lognormal: median, sigma
 * @values, @sums: values and running sums of their weights, @n of them
 */
typedef struct
{
  guint32 kind;
  guint32 n;
  double a;
  double b;
  WorkZipf zipf;
  double *values;
  double *sums;
} WorkDist;
void work_dist_clear (WorkDist *dist);
double work_dist_draw (const WorkDist *dist, WorkRandom *random);
/* Rounded to the nearest whole number (uniform: both bounds as likely as what lies between), at least 0, at most @most. */
guint64 work_dist_draw_count (const WorkDist *dist, WorkRandom *random, guint64 most);

G_END_DECLS
