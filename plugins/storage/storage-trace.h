/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <lmtrace/lmt-plugin.h>
#include <lmtrace/lmt-recorder.h>

#include "storage-call.h"

G_BEGIN_DECLS

/**
 * The doors of a StorageManager that a trace of level storage records (trace-format.md 5). Each is published on entry, before the
 * call acts, whatever comes of it: `sm_trace_call (&call); lmt_sm_call (sm, now, &call, &result);`. Calls no release records
 * (touch, delete, clear, abort_write) are passed over. Of a read context that ends, @call holds the keys it was entered with.
 * Redacted as LMCache does: owners of L1 and whatever else isn't in SmCall.
 */
extern LmtTraceLevel sm_trace_level;

void sm_trace_publish (const SmCall *call);

static inline void
sm_trace_call (const SmCall *call)
{
  if (G_UNLIKELY (lmt_trace_is_on (&sm_trace_level)))
    sm_trace_publish (call);
}

/* One tensor of an object's layout. */
typedef struct
{
  const gint64 *shape;
  guint n_dims;
  const char *dtype; /* `torch.bfloat16` */
} SmTensor;

/* The tagged MemoryLayoutDesc that SmCall.layout and SmRow.layout point to. */
void sm_pack_layout (LmtPack *out, const SmTensor *tensors, guint n);

G_END_DECLS
