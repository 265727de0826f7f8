/* SPDX-License-Identifier: Apache-2.0 */
#include <lmtrace/lmt-pages.h>

#include <string.h>

#define MIB ((gsize)1 << 20)

static void
check_zero (const guint8 *memory, gsize from, gsize to)
{
  for (gsize i = from; i < to; i++)
    if (memory[i] != 0)
      g_error ("byte %" G_GSIZE_FORMAT " is %u", i, memory[i]);
}

static void
check_pattern (const guint8 *memory, gsize bytes)
{
  for (gsize i = 0; i < bytes; i++)
    if (memory[i] != (guint8)(i * 31 >> 3))
      g_error ("byte %" G_GSIZE_FORMAT " is %u", i, memory[i]);
}

static void
fill_pattern (guint8 *memory, gsize bytes)
{
  for (gsize i = 0; i < bytes; i++)
    memory[i] = (guint8)(i * 31 >> 3);
}

/* From each size to each other: what was there is there, what is new is 0; across the bound between the two kinds of memory. */
static void
test_sizes (void)
{
  static const gsize sizes[] = { 1, 100, MIB, 2 * MIB - 1, 2 * MIB, 2 * MIB + 1, 4 * MIB, 5 * MIB + 12345, 9 * MIB };

  for (guint a = 0; a < G_N_ELEMENTS (sizes); a++)
    for (guint b = 0; b < G_N_ELEMENTS (sizes); b++)
      {
        guint8 *memory = lmt_pages_resize (NULL, 0, sizes[a]);

        check_zero (memory, 0, sizes[a]);
        fill_pattern (memory, sizes[a]);
        memory = lmt_pages_resize (memory, sizes[a], sizes[b]);
        check_pattern (memory, MIN (sizes[a], sizes[b]));
        check_zero (memory, MIN (sizes[a], sizes[b]), sizes[b]);
        lmt_pages_free (memory, sizes[b]);
      }
}

/* Smaller and larger again: what was given up does not come back. */
static void
test_again (void)
{
  gsize large = 6 * MIB, small = 3 * MIB + 77;
  guint8 *memory = lmt_pages_resize (NULL, 0, large);

  fill_pattern (memory, large);
  memory = lmt_pages_resize (memory, large, small);
  memory = lmt_pages_resize (memory, small, large);
  check_pattern (memory, small);
  check_zero (memory, small, large);
  memory = lmt_pages_resize (memory, large, 10);
  memory = lmt_pages_resize (memory, 10, large);
  check_pattern (memory, 10);
  check_zero (memory, 10, large);
  lmt_pages_free (memory, large);
}

/* Step by step, with others in between so that it can't always stay where it is. */
static void
test_steps (void)
{
  guint8 *memory = NULL;
  gpointer others[24];
  gsize bytes = 0;

  for (guint i = 0; i < G_N_ELEMENTS (others); i++)
    {
      gsize wanted = bytes + MIB / 2 + i;

      memory = lmt_pages_resize (memory, bytes, wanted);
      check_zero (memory, bytes, wanted);
      memset (memory + bytes, (int)i + 1, wanted - bytes);
      bytes = wanted;
      others[i] = lmt_pages_resize (NULL, 0, 2 * MIB);
    }
  for (gsize at = 0, i = 0; i < G_N_ELEMENTS (others); at += MIB / 2 + i, i++)
    {
      g_assert_cmpuint (memory[at], ==, i + 1);
      g_assert_cmpuint (memory[at + MIB / 2 + i - 1], ==, i + 1);
      lmt_pages_free (others[i], 2 * MIB);
    }
  lmt_pages_free (memory, bytes);
}

/* Mapped arrays lie on a border of huge pages, or none could be used. */
static void
test_borders (void)
{
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  guint32 *numbers = lmt_pages_renew (guint32, NULL, 0, 2 * MIB);

  g_assert_cmpuint ((gsize)numbers % (2 * MIB), ==, 0);
  numbers = lmt_pages_renew (guint32, numbers, 2 * MIB, 8 * MIB);
  g_assert_cmpuint ((gsize)numbers % (2 * MIB), ==, 0);
  lmt_pages_free (numbers, 8 * MIB * sizeof (guint32));
#else
  g_test_skip ("malloc's memory under a sanitizer");
#endif
  lmt_pages_free (NULL, 0);
  lmt_pages_free (NULL, 8 * MIB);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/pages/sizes", test_sizes);
  g_test_add_func ("/pages/again", test_again);
  g_test_add_func ("/pages/steps", test_steps);
  g_test_add_func ("/pages/borders", test_borders);
  return g_test_run ();
}
