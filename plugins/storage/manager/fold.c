/* SPDX-License-Identifier: Apache-2.0 */
#include "fold.h"

#include <string.h>

static guint32
leading_ones (const guint8 *row, guint32 n)
{
  guint32 i = 0;

  while (i < n && row[i] != 0)
    i++;
  return i;
}

guint32
sm_fold_servable (const guint8 *cells, const gint64 *windows, guint32 n_rows, guint32 n_columns, guint8 *servable)
{
  memset (servable, 1, n_columns);
  for (guint32 r = 0; r < n_rows; r++)
    {
      const guint8 *row = cells + (gsize)r * n_columns;
      guint64 window = windows[r] <= 0 ? n_columns : (guint64)windows[r], run = 0;

      for (guint32 i = 0; i < n_columns; i++)
        {
          run = row[i] != 0 ? run + 1 : 0;
          if (run < MIN (window, (guint64)i + 1))
            servable[i] = 0;
        }
    }
  for (guint32 length = n_columns; length > 0; length--)
    if (servable[length - 1] != 0)
      return length;
  return 0;
}

guint32
sm_fold_hit_length (const guint8 *cells, const gint64 *windows, guint32 n_rows, guint32 n_columns, guint8 *scratch)
{
  guint32 shortest = n_columns;

  for (guint32 r = 0; r < n_rows; r++)
    if (windows[r] > 0)
      return sm_fold_servable (cells, windows, n_rows, n_columns, scratch);
  /* Full attention only: the shortest leading run. */
  for (guint32 r = 0; r < n_rows; r++)
    shortest = leading_ones (cells + (gsize)r * n_columns, shortest);
  return n_rows == 0 ? 0 : shortest;
}

void
sm_fold_full (const guint8 *cells, guint32 n_rows, guint32 n_columns, guint8 *columns)
{
  memset (columns, 1, n_columns);
  for (guint32 r = 0; r < n_rows; r++)
    for (guint32 i = 0; i < n_columns; i++)
      columns[i] &= cells[(gsize)r * n_columns + i] != 0;
}
