/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <lmtrace/lmt-plugin.h>

/* The wrapper that makes things go wrong. fault-config.c: keys; fault-draw.c: whom a fault hits; fault-flow.c: completions on
 * their way out (late, lost, shuffled, twice); fault-l2.c: the border. l2-adapters.md 8. */

typedef struct
{
  char *inner;
  double rate;
  gint64 seed;
  char *gap_indices;
  char *gap_tail_ratios;
  double store_rate;
  double lookup_rate;
  double delete_rate;
  char *error;
  char *error_key;
  double delay_ms;
  double delay_rate;
  double hang_rate;
  double short_rate;
  double corrupt_rate;
  double duplicate_rate;
  guint64 reorder;
  gint64 no_space_after_bytes;
  double stall_after_ms;
  double stall_ms;
} FaultConfig;

/* What went wrong on purpose, for the report. */
typedef enum
{
  FAULT_LOAD,     /* rate: a load that worked is reported as failed */
  FAULT_GAP,      /* the same by position */
  FAULT_STORE,    /* not stored */
  FAULT_LOOKUP,   /* a false miss */
  FAULT_DELETE,   /* not deleted */
  FAULT_KEY,      /* error_key */
  FAULT_NO_SPACE, /* no_space_after_bytes */
  FAULT_SHORT,
  FAULT_CORRUPT,
  FAULT_DELAY,
  FAULT_HANG,
  FAULT_REORDER, /* handed back before one that was ready earlier */
  FAULT_DUPLICATE,
  FAULT_STALL, /* completions held back by the stall */
  N_FAULTS,
} FaultKind;

/* Key, form of lists: what the options say, ready to use. */
typedef struct
{
  gint64 seed;
  guint32 limits[N_FAULTS]; /* of buckets, per fault with a rate: hit if below */
  guint64 *gap_indices;
  guint n_gap_indices;
  double *gap_ratios;
  guint n_gap_ratios;
  guint32 error; /* LmtL2Code */
  char *error_key;
  gint64 delay_ns;
  guint32 reorder;
  guint64 no_space_after; /* G_MAXUINT64: never */
  gint64 stall_after_ns;
  gint64 stall_ns;
  gboolean any; /* a fault is on */
} FaultPlan;

gboolean fault_check (gconstpointer config, const char *type, GError **error);
extern const LmtOption fault_options[];
/* @config has passed fault_check(). */
void fault_plan_init (FaultPlan *plan, const FaultConfig *config);
void fault_plan_clear (FaultPlan *plan);
const char *fault_kind_name (FaultKind kind);

/* 8 bytes of BLAKE2b over the key's identity: LMCache's for FAULT_LOAD, with a suffix for ours. */
guint64 fault_draw (const FaultPlan *plan, FaultKind kind, const LmtKeyFields *key);
/* TRUE: the fault's rate hits this key. No cost if the rate is 0. */
gboolean fault_hits (const FaultPlan *plan, FaultKind kind, const LmtKeyFields *key);
/* TRUE: position @index of @n keys is a gap. */
gboolean fault_is_gap (const FaultPlan *plan, guint32 index, guint32 n);

/* -------- operations -------- */

typedef enum
{
  OP_FREE,
  OP_INNER,   /* with the inner adapter */
  OP_LATE,    /* done, waits for its time */
  OP_WINDOW,  /* done, waits to be shuffled */
  OP_LEAVING, /* done, the next reap hands it back */
  OP_LOST,    /* done, and never told */
} FaultState;

/* One operation: the inner adapter gets an io of ours, so that its scratch words are its own. */
typedef struct _FaultOp FaultOp;
struct _FaultOp
{
  LmtL2Io io; /* first: 64-byte aligned, and the inner's pointer is ours */
  LmtL2Io *outer;
  FaultOp *next;
  gint64 due;
  guint64 number;
  guint64 reserved; /* of no_space_after_bytes */
  guint8 state;
  guint8 cancelled;
  guint8 twice;
} __attribute__ ((aligned (64)));

typedef struct
{
  FaultOp *head;
  FaultOp *tail;
  guint32 n;
} FaultList;

typedef struct
{
  const LmtL2Host *host;
  const LmtL2Ops *ops; /* the inner's */
  gpointer handle;
  FaultPlan plan;
  FaultOp *slab;
  guint32 n_slab;
  FaultList spare;
  guint32 n_inner;
  FaultOp **late; /* heap by due, number */
  guint32 n_late;
  FaultOp **window;
  guint32 n_window;
  FaultList leaving;
  LmtL2Io *again; /* was handed back as the last one that fitted, comes once more */
  guint64 n_ops;
  guint64 n_shuffles;
  guint64 written;
  gint64 stall_from; /* host clock; G_MAXINT64: none */
  gint64 stall_until;
  guint64 counts[N_FAULTS];
  guint64 inner_strays; /* ios the inner handed back that it did not have */
} Fault;

/* The operation is done: out of submit (TRUE: DONE, the result is in the outer io), or on its way through the flow. */
gboolean fault_finish (Fault *fault, FaultOp *op, gboolean in_submit);
/* Takes what the inner has finished. */
void fault_collect (Fault *fault);
guint32 fault_hand_back (Fault *fault, LmtL2Io **ios, guint32 max);
gint64 fault_next_due (Fault *fault);
void fault_cancel (Fault *fault, LmtL2Io *outer);
FaultOp *fault_list_take (FaultList *list);
void fault_list_append (FaultList *list, FaultOp *op);
/* Results the inner gave that are to be wrong. */
void fault_spoil (Fault *fault, FaultOp *op);
