/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <lmtrace/lmt-plugin.h>

/**
 * ModelTable: how long operations of a measured device take: a JSON file `lmtrace/l2-model/1`, as `bench-adapter --model-out`
 * writes it. Rows per kind, each for objects up to a size and a number in flight, with the quantiles p0 … p100 of the time.
 */
typedef struct _ModelTable ModelTable;

/* Errors name file, row and member. */
ModelTable *model_table_read (const char *path, GError **error);
void model_table_free (ModelTable *table);
/* FALSE: the table has no row of this kind. */
gboolean model_table_has (const ModelTable *table, guint32 kind);
/* Time in ns at @u (0 to 1) of the first row whose limits hold, or of the last. @in_flight counts the operation itself. */
gint64 model_table_draw (const ModelTable *table, guint32 kind, guint64 bytes, guint32 in_flight, double u);
