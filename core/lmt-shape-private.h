/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "lmt-record.h"

G_BEGIN_DECLS

/**
 * LmtShapes: a small memory of bodies that were already checked, so that the next one of the same shape needs no walk.
 *
 * A shape is a body together with a mask: bytes under a set bit must be equal (heads, lengths, the record's own keys, its
 * qualname), the rest may be anything: payloads of bin and of numbers, and the lower seven bits of ASCII text. A body that agrees
 * has the same tokens at the same places and the same strings are ASCII, so what lmt_record_split() would find is known: valid,
 * and where. Comparing is a few vector instructions per 64 bytes; walking costs ten times that.
 *
 * All memory is taken at once and touched only as shapes are learnt: at most 1.5 MiB.
 */
typedef struct _LmtShapes LmtShapes;

LmtShapes *lmt_shapes_new (void);
void lmt_shapes_free (LmtShapes *shapes);

/* TRUE: @record's values are set as lmt_record_split() would. FALSE: not known, walk. */
gboolean lmt_shapes_match (LmtShapes *shapes, LmtSpan body, LmtRecord *record);
/* @record: what lmt_record_split() made of @body. */
void lmt_shapes_learn (LmtShapes *shapes, LmtSpan body, const LmtRecord *record);

G_END_DECLS
