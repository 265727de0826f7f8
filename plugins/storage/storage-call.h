/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <lmtrace/lmt-frame.h>
#include <lmtrace/lmt-key.h>

G_BEGIN_DECLS

/**
 * The one normalised call model for the traced calls of every release (trace-format.md 7): handlers and manager never see a
 * release.
 */
typedef enum
{
  SM_OP_RESERVE_WRITE = 0,
  SM_OP_FINISH_WRITE,
  SM_OP_ABORT_WRITE, /* no release records it yet; finish_write_and_delete */
  SM_OP_PREFETCH,
  SM_OP_READ_ENTER,
  SM_OP_READ_EXIT,
  SM_OP_FINISH_READ,
  /* management calls: never recorded; scenarios and tests */
  SM_OP_TOUCH,
  SM_OP_DELETE,
  SM_OP_CLEAR,
  SM_OP_UNSAFE_READ,
} SmOp;

typedef enum
{
  SM_WRITE_NEW = 0,
  SM_WRITE_UPDATE,
  SM_WRITE_ALL
} SmWriteMode;
typedef enum
{
  SM_POLICY_PREFIX = 0,
  SM_POLICY_FULL
} SmPolicy;
typedef enum
{
  SM_LOCK = 0,
  SM_NO_LOCK
} SmLockMode;

/**
 * SmRow: one row of a prefetch (a key group on one rank), keys in chunk order. All rows of a request are equally long.
 * @object_bytes: of each cell, from the row's layout; @cell_bytes: (nullable): per cell, where a row mixes groups (SPARSE): the
 * reservation is then made per group of the keys, else per row
 */
typedef struct
{
  LmtKey *const *keys;
  const guint64 *cell_bytes;
  guint64 object_bytes;
  gint64 window; /* -1 full attention, >= 1; other values are value errors of the manager */
  guint32 n;
  guint32 group;
  LmtSpan layout; /* for a recorder: the tagged MemoryLayoutDesc in msgpack; the manager doesn't look at it */
} SmRow;

/**
 * SmCall: one call. Keys are interned and held by the caller for the duration of lmt_sm_call(); arrays are the caller's.
 */
typedef struct
{
  guint32 op;     /* SmOp */
  guint32 n_keys; /* all but PREFETCH */
  LmtKey *const *keys;
  guint64 object_bytes; /* RESERVE_WRITE: unaligned size of each object */
  guint32 n_rows;       /* PREFETCH */
  guint32 readers; /* PREFETCH: num_kv_readers; FINISH_READ: read_locks. Clamped to 1..128 by the decoder, but 0 of a prefetch is
                      refused here */
  const SmRow *rows;
  guint32 write_mode;
  guint32 policy;
  guint32 lock_mode;
  guint8 look_l1;          /* FALSE: WARM of older releases: no lock pass, L1 hits don't count */
  guint8 allow_l2;         /* FALSE: skip_l2, or an empty set of tags */
  guint8 force;            /* DELETE, CLEAR */
  guint8 caller_failed;    /* READ_EXIT */
  guint8 enter_bad;        /* READ_EXIT: the enter was no success: `keys` are the good ones, one lock each goes back */
  LmtKey *const *bad_keys; /* READ_EXIT: (nullable): the others, for the event */
  guint32 n_bad_keys;
  /* For a recorder; the manager doesn't look at them. Lent as the keys are. */
  LmtSpan layout;           /* RESERVE_WRITE: as SmRow.layout */
  LmtSpan request_id;       /* PREFETCH: external_request_id */
  LmtSpan l1_tags, l2_tags; /* PREFETCH: arrays of tagged MemoryTags in msgpack; empty: no filter */
} SmCall;

G_END_DECLS
