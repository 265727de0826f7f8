/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "lmt-level.h"

G_BEGIN_DECLS

/**
 * LmtDispatch: the handlers of one level, frozen before the loop: length + memcmp over an array, last hit first. Read without a
 * lock.
 *
 * One owner; what plugins register later is not in it. The registry must outlive it. Threads: one at a time (the last hit is
 * kept); each loop makes its own. Cost of a find: no allocation. Source of the qualnames: LMCache's `record.qualname`, the traced
 * method's `__qualname__` with its module.
 *
 * Since: 0.1
 */
typedef struct _LmtDispatch LmtDispatch;
/* (transfer full). A level without handlers gives an empty one. */
LmtDispatch *lmt_dispatch_new (LmtRegistry *registry, const char *level);
void lmt_dispatch_free (LmtDispatch *dispatch);
/* Index of the handler, or -1. */
gint lmt_dispatch_find (LmtDispatch *dispatch, LmtSpan qualname);
/* (transfer none): the registry's copy, alive with it. @index: from lmt_dispatch_find(), below lmt_dispatch_size(). */
const LmtHandlerOps *lmt_dispatch_get (LmtDispatch *dispatch, gint index);
guint lmt_dispatch_size (LmtDispatch *dispatch);

G_END_DECLS
