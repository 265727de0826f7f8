/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

G_BEGIN_DECLS

/**
 * SECTION: distributions. Threads: one per LmtStats. Errors: none; no memory left ends the process, as g_malloc() does.
 *
 * Since: 0.1
 */

/**
 * LmtStats: one distribution of durations in ns: exact samples up to a cap, then log-linear buckets. One owner, no lock; merge at
 * the end. Memory: grows to LMT_STATS_EXACT_MAX x 8 bytes (512 KiB), then a fixed 57 KiB of buckets. Never allocates in
 * lmt_stats_add() once lmt_stats_reserve() was called. Error of a bucketed percentile: at most 1/256 of the value (128 linear
 * steps an octave, middle of the step given); smallest and largest stay exact.
 */
typedef struct _LmtStats LmtStats;

enum
{
  LMT_STATS_EXACT_MAX = 65536
};

LmtStats *lmt_stats_new (void);
void lmt_stats_free (LmtStats *stats);
void lmt_stats_reserve (LmtStats *stats);                        /* takes all memory now */
void lmt_stats_add (LmtStats *stats, gint64 ns);                 /* below 0 counts as 0 */
void lmt_stats_add_many (LmtStats *stats, gint64 ns, guint64 n); /* as n calls of lmt_stats_add() */
void lmt_stats_merge (LmtStats *into, const LmtStats *from);
guint64 lmt_stats_count (const LmtStats *stats);
gint64 lmt_stats_min (const LmtStats *stats); /* 0 if empty */
gint64 lmt_stats_max (const LmtStats *stats);
double lmt_stats_mean (const LmtStats *stats); /* exact sum / n, correctly rounded */
gboolean lmt_stats_is_exact (const LmtStats *stats);

typedef enum
{
  LMT_RANK_NEAREST, /* ceil(p*n/100) - 1 */
  LMT_RANK_FLOOR,   /* min (n-1, floor (p*n/100)): LMCache 0.5.6 */
} LmtRank;

/* The index both rules give into @count sorted samples; what lmt_stats_percentile() uses. */
guint64 lmt_stats_rank_index (guint64 count, guint per_mille, LmtRank rank);

/* @per_mille: 500 = p50, 990 = p99, 999 = p99.9. Empty: 0. Sorts in place on first use after an add. */
gint64 lmt_stats_percentile (LmtStats *stats, guint per_mille, LmtRank rank);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LmtStats, lmt_stats_free)

G_END_DECLS
