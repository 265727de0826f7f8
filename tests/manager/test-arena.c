/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/arena.h"

/* The pool against a naive one: same addresses, same free list, whatever the order (storage-manager.md 2). */

#define UNIT 512
enum
{
  UNITS = 400,
  STEPS = 20000,
};

typedef struct
{
  guint8 taken[UNITS];
} Naive;

static gboolean
naive_take (Naive *naive, guint units, guint count, guint64 *addresses)
{
  Naive copy = *naive;
  guint n = 0;

  for (guint i = 0; i < UNITS && n < count;)
    {
      guint run = 0;

      while (i + run < UNITS && copy.taken[i + run] == 0)
        run++;
      for (guint k = 0; k + units <= run && n < count; k += units)
        {
          addresses[n++] = (guint64)(i + k) * UNIT;
          for (guint u = 0; u < units; u++)
            naive->taken[i + k + u] = 1;
        }
      i += run + 1;
    }
  if (n < count)
    *naive = copy;
  return n == count;
}

static void
naive_give (Naive *naive, guint64 address, guint64 bytes)
{
  for (guint i = 0; i < (bytes + UNIT - 1) / UNIT; i++)
    {
      g_assert_cmpuint (naive->taken[address / UNIT + i], ==, 1);
      naive->taken[address / UNIT + i] = 0;
    }
}

typedef struct
{
  const Naive *naive;
  guint64 end;
  guint64 free_units;
} Walk;

static void
check_block (guint64 address, guint64 bytes, gpointer data)
{
  Walk *walk = data;

  g_assert_true (address > walk->end || walk->end == 0);
  for (guint64 i = address / UNIT; i < (address + bytes) / UNIT; i++)
    g_assert_cmpuint (walk->naive->taken[i], ==, 0);
  walk->end = address + bytes;
  walk->free_units += bytes / UNIT;
}

static void
test_random (void)
{
  SmArena *arena = sm_arena_new (UNITS * UNIT + 77, UNIT);
  GRand *rand = g_rand_new_with_seed (11);
  Naive naive = { { 0 } };
  g_autoptr (GArray) live = g_array_new (FALSE, FALSE, sizeof (SmBlock));

  for (guint step = 0; step < STEPS; step++)
    {
      Walk walk = { &naive, 0, 0 };
      guint used = 0;

      if (g_rand_int_range (rand, 0, 100) < 50)
        {
          guint units = (guint)g_rand_int_range (rand, 1, 8), count = (guint)g_rand_int_range (rand, 1, 12);
          guint64 bytes = (guint64)units * UNIT - (guint64)g_rand_int_range (rand, 0, UNIT), ours[12], theirs[12];
          gboolean took = sm_arena_take (arena, bytes, count, ours);

          g_assert_cmpint (took, ==, naive_take (&naive, units, count, theirs));
          for (guint i = 0; took && i < count; i++)
            {
              SmBlock block = { ours[i], bytes };

              g_assert_cmpuint (ours[i], ==, theirs[i]);
              g_array_append_val (live, block);
            }
        }
      else if (live->len > 0)
        {
          SmBlock gone[20];
          guint n = 0, most = (guint)g_rand_int_range (rand, 1, 20);

          for (; n < most && live->len > 0; n++)
            {
              guint i = (guint)g_rand_int_range (rand, 0, (gint32)live->len);

              gone[n] = g_array_index (live, SmBlock, i);
              naive_give (&naive, gone[n].address, gone[n].bytes);
              g_array_remove_index_fast (live, i);
            }
          sm_arena_give (arena, gone, n);
        }
      sm_arena_foreach_free (arena, check_block, &walk);
      for (guint i = 0; i < UNITS; i++)
        used += naive.taken[i];
      g_assert_cmpuint (walk.free_units + used, ==, UNITS);
      g_assert_cmpuint (sm_arena_used (arena), ==, (guint64)used * UNIT);
    }
  g_rand_free (rand);
  sm_arena_free (arena);
}

static void
test_batch (void)
{
  SmArena *arena = sm_arena_new (10 * UNIT, UNIT);
  guint64 a[8], b[8];

  g_assert_true (sm_arena_take (arena, UNIT, 8, a));
  sm_arena_give (arena, (SmBlock[]){ { 6 * UNIT, UNIT }, { 1 * UNIT, UNIT }, { 3 * UNIT, 2 * UNIT } }, 3);
  /* [1] [3 4] [6] [8 9] are free: two of two units fit scattered, three don't. */
  g_assert_true (sm_arena_take (arena, UNIT + 1, 2, b));
  g_assert_cmpuint (b[0], ==, 3 * UNIT);
  g_assert_cmpuint (b[1], ==, 8 * UNIT);
  g_assert_false (sm_arena_take (arena, 2 * UNIT, 1, b));
  g_assert_false (sm_arena_take (arena, UNIT, 3, b));
  g_assert_cmpuint (sm_arena_n_free_blocks (arena), ==, 2);
  g_assert_true (sm_arena_take (arena, UNIT, 2, b));
  g_assert_cmpuint (sm_arena_used (arena), ==, 10 * UNIT);
  sm_arena_give (arena, (SmBlock[]){ { 0, 10 * UNIT } }, 1);
  g_assert_cmpuint (sm_arena_n_free_blocks (arena), ==, 1);
  sm_arena_free (arena);
}

static void
test_sizes (void)
{
  SmArena *arena = sm_arena_new (0, UNIT);
  guint64 a[1];

  g_assert_false (sm_arena_take (arena, 1, 1, a));
  g_assert_true (sm_arena_take (arena, 1, 0, a));
  g_assert_cmpuint (sm_arena_align (arena, 1), ==, UNIT);
  g_assert_cmpuint (sm_arena_align (arena, G_MAXUINT64), ==, G_MAXUINT64);
  sm_arena_free (arena);
  arena = sm_arena_new (G_MAXUINT64, 1); /* nobody has it; sums must not wrap */
  g_assert_false (sm_arena_take (arena, G_MAXUINT64, 1, a) && sm_arena_take (arena, G_MAXUINT64, 1, a));
  sm_arena_free (arena);
}

/* In crumbs: half of a million blocks free, nothing big enough but the last. Quadratic work would show as a time-out. */
static void
test_crumbs (void)
{
  enum
  {
    N = 200000
  };
  SmArena *arena = sm_arena_new ((guint64)(N + 2) * UNIT, UNIT);
  g_autofree guint64 *a = g_new (guint64, N);
  g_autofree SmBlock *blocks = g_new (SmBlock, N);

  g_assert_true (sm_arena_take (arena, UNIT, N, a));
  for (guint i = 0; i < N / 2; i++)
    blocks[i] = (SmBlock){ a[2 * i], UNIT };
  sm_arena_give (arena, blocks, N / 2);
  g_assert_cmpuint (sm_arena_n_free_blocks (arena), ==, N / 2 + 1);
  for (guint i = 0; i < N; i++)
    {
      guint64 at;

      g_assert_true (sm_arena_take (arena, 2 * UNIT, 1, &at));
      g_assert_cmpuint (at, ==, (guint64)N * UNIT);
      sm_arena_give (arena, &(SmBlock){ at, 2 * UNIT }, 1);
    }
  g_assert_true (sm_arena_take (arena, UNIT, N / 2, a));
  for (guint i = 0; i < N / 2; i++)
    g_assert_cmpuint (a[i], ==, (guint64)2 * i * UNIT);
  sm_arena_free (arena);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/arena/batch", test_batch);
  g_test_add_func ("/arena/sizes", test_sizes);
  g_test_add_func ("/arena/random", test_random);
  g_test_add_func ("/arena/crumbs", test_crumbs);
  return g_test_run ();
}
