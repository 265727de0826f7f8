/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/fold.h"

#include <string.h>

/* The prefix fold against its definition (storage-manager.md 6). */

static guint64
run_ending (const guint8 *row, guint32 length)
{
  guint64 n = 0;

  while (n < length && row[length - 1 - n])
    n++;
  return n;
}

static void
test_definition (void)
{
  GRand *rand = g_rand_new_with_seed (5);

  for (guint round = 0; round < 5000; round++)
    {
      guint32 rows = (guint32)g_rand_int_range (rand, 1, 5), columns = (guint32)g_rand_int_range (rand, 0, 20), hit = 0, found;
      guint8 cells[5 * 20], servable[20], scratch[20], full[20];
      gint64 windows[5];
      int density = g_rand_int_range (rand, 50, 101);

      for (guint i = 0; i < rows * columns; i++)
        cells[i] = g_rand_int_range (rand, 0, 100) < density;
      for (guint r = 0; r < rows; r++)
        windows[r] = g_rand_int_range (rand, 0, 2) ? g_rand_int_range (rand, 1, 25) : -1;
      found = sm_fold_servable (cells, windows, rows, columns, servable);
      for (guint32 length = 1; length <= columns; length++)
        {
          gboolean all = TRUE;

          for (guint r = 0; r < rows; r++)
            {
              guint64 window = windows[r] <= 0 ? columns : (guint64)windows[r];

              all &= run_ending (cells + r * columns, length) >= MIN (window, length);
            }
          g_assert_cmpint (servable[length - 1], ==, all);
          hit = all ? length : hit;
        }
      g_assert_cmpuint (found, ==, hit);
      g_assert_cmpuint (sm_fold_hit_length (cells, windows, rows, columns, scratch), ==, hit);
      sm_fold_full (cells, rows, columns, full);
      for (guint c = 0; c < columns; c++)
        {
          guint8 all = 1;

          for (guint r = 0; r < rows; r++)
            all &= cells[r * columns + c];
          g_assert_cmpuint (full[c], ==, all);
        }
    }
  g_rand_free (rand);
}

/* A window may serve 5 and not 4. */
static void
test_not_downward_closed (void)
{
  const guint8 cells[] = { 1, 0, 1, 0, 1 };
  const gint64 window = 1;
  guint8 servable[5];

  g_assert_cmpuint (sm_fold_servable (cells, &window, 1, 5, servable), ==, 5);
  g_assert_cmpmem (servable, 5, "\1\0\1\0\1", 5);
  g_assert_cmpuint (sm_fold_retain_start (1, 5), ==, 4);
  g_assert_cmpuint (sm_fold_retain_start (-1, 5), ==, 0);
  g_assert_cmpuint (sm_fold_retain_start (9, 5), ==, 0);
  g_assert_cmpuint (sm_fold_retain_start (1, 0), ==, 0);
  g_assert_cmpuint (sm_fold_retain_start (G_MAXINT64, 5), ==, 0);
  g_assert_cmpuint (sm_fold_hit_length (cells, &window, 1, 0, servable), ==, 0);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/fold/definition", test_definition);
  g_test_add_func ("/fold/window", test_not_downward_closed);
  return g_test_run ();
}
