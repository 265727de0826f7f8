// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kit-measure.h"

/*
 * Measures a table for the `model` adapter (schema lmtrace/l2-model/1): completion times by size class and operations in flight.
 * Sizes: @largest_bytes and a quarter and a sixteenth of it; depths: powers of two up to @depth. @time_ns is for all cells
 * together; with @count above 0 each cell does so many operations instead. What is stored is deleted. Returns the table as text,
 * or NULL with an error. @done: (out): what was measured for it
 */
typedef struct
{
  guint64 largest_bytes;
  guint64 working_set_bytes;
  guint depth;
  gint64 time_ns;
  guint64 count;
} KitModelSpec;

typedef struct
{
  guint sizes;
  guint depths;
  guint64 ops[LMT_L2_N_KINDS];
  gint64 elapsed_ns;
} KitModelDone;

char *kit_model_measure (KitBench *bench, const KitModelSpec *spec, KitModelDone *done, guint64 *errors, GError **error);
