// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <lmtrace/lmt-plugin.h>

/*
 * Measures an adapter: one-key tasks over a window of objects, a fixed number of them in flight. Used by `bench-adapter` and by
 * the benchmark programs, so that both mean the same by a figure. Knows no adapter and writes no report. Single-threaded.
 *
 * The window: objects are numbered from 0; [tail, head) is what was stored and not deleted. A store makes object `head` (never
 * one that is there: objects don't change), a delete takes object `tail`, a load reads inside the window.
 */
typedef struct _KitBench KitBench;

typedef struct
{
  guint64 largest_bytes;           /* of any object that will be stored */
  guint depth_max;                 /* most tasks in flight in any phase: that many buffers are made */
  guint64 seed;                    /* contents, names, choice of objects: same seed, same run */
  gint64 stall_ns;                 /* nothing came back for so long: the phase ends as stalled; 0: 30 s */
  const volatile gint *interrupts; /* (nullable): not 0: end the phase */
  void (*message) (gpointer data, const char *kind, const char *text); /* (nullable): as LmtL2Params.message */
  void (*more) (gpointer data, const char *kind, guint64 n);           /* (nullable): as LmtL2Params.more */
  gpointer message_data;
} KitBenchParams;

/* Opens the adapter of @json (as for --l2-adapter) on the real clock, its buffers registered. */
KitBench *kit_bench_new (LmtRegistry *registry, const char *json, const KitBenchParams *params, GError **error);
/* Closes the adapter, waiting at most @timeout_ns; what is in the window stays on the medium. How many operations were given up.
 * Twice: 0. */
guint kit_bench_close (KitBench *bench, gint64 timeout_ns);
void kit_bench_free (KitBench *bench);
LmtL2 *kit_bench_get_l2 (KitBench *bench);
/* Bytes of buffers, all in one block registered with the adapter. */
guint64 kit_bench_get_memory (const KitBench *bench);

typedef enum
{
  KIT_ORDER_RANDOM,
  KIT_ORDER_SEQUENTIAL,
} KitOrder;

typedef struct
{
  guint64 object_bytes;
  guint depth;         /* tasks in flight */
  double read_share;   /* 0: only stores, 1: only loads; drawn by seed for each task */
  double lookup_share; /* of the loads: that many are lookups (and unlocks) instead */
  guint64 window;      /* stores: more objects than this, and the oldest is deleted; 0: nothing is deleted */
  KitOrder order;      /* of loads */
  guint64 count;       /* stores + loads + lookups; 0: by time */
  gint64 time_ns;      /* 0: by count. Both: what ends first */
  gboolean verify;     /* loads: look at the stamps of the first and the last page */
} KitPhaseSpec;

typedef struct
{
  guint64 ops;
  guint64 bytes; /* newly written, loaded */
  guint64 codes[LMT_L2_N_CODES];
  guint64 wrong;        /* loads whose bytes are another object's */
  LmtStats *completion; /* task submit to its last operation's end, ns */
  LmtStats *service;    /* with the device (LmtL2Io.service_start_ns, else submit) to the end */
  LmtStats *queue;      /* task submit to that start: in the core and in the plugin */
} KitFigures;

typedef struct
{
  KitFigures kind[LMT_L2_N_KINDS];
  gint64 elapsed_ns;
  double cpu_s; /* user and system, all threads of the process; workers of the kernel for its rings too */
  guint depth_max;
  double depth_mean; /* operations with the plugin, weighted by time while there was any */
  gboolean stalled;
  gboolean interrupted;
} KitPhase;

/* Runs until the spec's end and everything in flight is back. @phase is filled anew; kit_phase_clear() ends it. */
void kit_bench_run (KitBench *bench, const KitPhaseSpec *spec, KitPhase *phase);
/* Deletes the whole window, @depth at a time, where the adapter can: FALSE if something is left. @phase: (nullable) */
gboolean kit_bench_remove_all (KitBench *bench, guint depth, KitPhase *phase);
void kit_phase_clear (KitPhase *phase);
guint64 kit_bench_get_window (const KitBench *bench); /* objects */

/* MiB/s of a kind over the whole phase; operations/s; CPU seconds per GiB of both directions (0 if nothing moved). */
double kit_phase_mib_per_s (const KitPhase *phase, guint kind);
double kit_phase_iops (const KitPhase *phase, guint kind);
double kit_phase_cpu_per_gib (const KitPhase *phase);
/* Operations that ended otherwise than they should: not OK, PRESENT, and not NOT_FOUND from an adapter that keeps nothing. */
guint64 kit_phase_errors (const KitBench *bench, const KitPhase *phase, guint kind);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (KitBench, kit_bench_free)
