/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <lmtrace/lmt-header.h>

G_BEGIN_DECLS

/* What the records of a trace show (trace-format.md 5, 7.4). */
enum
{
  SM_SHAPE_KEY_PLAIN = 1 << 0,    /* ObjectKey without object_group_id */
  SM_SHAPE_KEY_GROUP = 1 << 1,    /* with */
  SM_SHAPE_RESERVE_MODE = 1 << 2, /* reserve_write with mode */
  SM_SHAPE_RESERVE_BARE = 1 << 3, /* without */
  SM_SHAPE_FINISH_EXTRA = 1 << 4, /* finish_read_prefetched with extra_count */
  SM_SHAPE_FINISH_LOCKS = 1 << 5, /* with read_locks */
  SM_SHAPE_FLAT = 1 << 6,         /* prefetch with keys, and none of the next three arguments */
  SM_SHAPE_FLAT_POLICY = 1 << 7,
  SM_SHAPE_FLAT_SKIP_L2 = 1 << 8,
  SM_SHAPE_FLAT_ATTN = 1 << 9,
  SM_SHAPE_R1 = 1 << 10,
  SM_SHAPE_R2 = 1 << 11,
  SM_SHAPE_T1 = 1 << 12,
  SM_SHAPE_T2 = 1 << 13,
};

enum
{
  SM_RELEASE_BYTES = 32
};

/**
 * sm_release_guess:
 * @shapes: SM_SHAPE_* seen
 * @header: (nullable): its schema, level_meta and the fields of its configuration narrow the answer
 * Returns: FALSE: nothing is known, or the shapes contradict each other
 */
gboolean sm_release_guess (guint32 shapes, const LmtHeader *header, char out[SM_RELEASE_BYTES]);

G_END_DECLS
