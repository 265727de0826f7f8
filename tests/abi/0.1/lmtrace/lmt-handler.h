/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "lmt-level.h"

G_BEGIN_DECLS

/**
 * LmtDispatch: the handlers of one level, frozen before the loop: length + memcmp over an array, last hit first. Read without a lock.
 */
typedef struct _LmtDispatch LmtDispatch;
LmtDispatch *lmt_dispatch_new (LmtRegistry *registry, const char *level);
void lmt_dispatch_free (LmtDispatch *dispatch);
/* Index of the handler, or -1. */
gint lmt_dispatch_find (LmtDispatch *dispatch, LmtSpan qualname);
const LmtHandlerOps *lmt_dispatch_get (LmtDispatch *dispatch, gint index);
guint lmt_dispatch_size (LmtDispatch *dispatch);

G_END_DECLS
