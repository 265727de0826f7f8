/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

G_BEGIN_DECLS

/**
 * The prefix fold (storage-manager.md 6). Grids are row-major, one byte per cell, not 0 = present. Windows below 1 mean full
 * attention.
 */

/* Bit L-1 of @servable (n_columns bytes, out) is 1 if every row can serve L chunks. Returns: the hit length */
guint32 sm_fold_servable (const guint8 *cells, const gint64 *windows, guint32 n_rows, guint32 n_columns, guint8 *servable);

/* The hit length alone. @scratch: n_columns bytes, written only if a row has a window. */
guint32 sm_fold_hit_length (const guint8 *cells, const gint64 *windows, guint32 n_rows, guint32 n_columns, guint8 *scratch);

/* Column of the first chunk a row retains of a hit of @hit_length; the end is @hit_length. */
static inline guint32
sm_fold_retain_start (gint64 window, guint32 hit_length)
{
  return window <= 0 || window >= (gint64)hit_length ? 0 : hit_length - (guint32)window;
}

/* Policy full: @columns (n_columns bytes, out) is 1 where every row is present. */
void sm_fold_full (const guint8 *cells, guint32 n_rows, guint32 n_columns, guint8 *columns);

G_END_DECLS
