/* SPDX-License-Identifier: Apache-2.0 */
#include "rig.h"

#include <stdlib.h>
#include <string.h>

#include "../count-mallocs.h"

/* A warm working set allocates nothing: rounds that start alike, and in the last nobody calls malloc. ARC remembers ghosts from
 * round to round, so its rounds become alike only after some. */

#define KIB4 G_GUINT64_CONSTANT (4096)

typedef struct
{
  Rig rig;
  gboolean in_l2[RIG_KEYS];
  SmIo held[64];
  guint n_held;
} Life;

static void
answer (Life *life, const SmIo *io)
{
  guint8 codes[RIG_KEYS];
  guint64 sizes[RIG_KEYS];
  LmtKey *changed[RIG_KEYS];
  guint n_changed = 0;
  static const guint32 events[] = { 0, 1, 0, 2 };

  for (guint i = 0; i < io->n; i++)
    {
      gboolean *present = &life->in_l2[io->keys[i]->id], store = io->kind == SM_IO_STORE;

      codes[i] = *present ? (store ? LMT_L2_PRESENT : LMT_L2_OK) : store ? LMT_L2_OK : LMT_L2_NOT_FOUND;
      sizes[n_changed] = KIB4;
      if (codes[i] == LMT_L2_OK)
        changed[n_changed++] = io->keys[i];
      if (store || io->kind == SM_IO_DELETE)
        *present = store;
    }
  if (io->kind != SM_IO_LOOKUP)
    lmt_sm_l2_event (life->rig.sm, life->rig.now, io->adapter, events[io->kind], changed, sizes, n_changed);
  lmt_sm_completed (life->rig.sm, life->rig.now, io->id, codes, 0);
}

/* Some answers come late, so that tasks and requests pile up. */
static void
pump (Life *life, gboolean hold)
{
  SmPrefetchResult result;
  SmIo io;

  do
    {
      while (lmt_sm_take (life->rig.sm, &io))
        if (io.kind != SM_IO_UNLOCK)
          {
            lmt_sm_accepted (life->rig.sm, life->rig.now, io.id);
            life->held[life->n_held++] = io;
          }
      if (life->n_held > (hold ? 20u : 0u))
        {
          io = life->held[0];
          memmove (life->held, life->held + 1, --life->n_held * sizeof io);
          answer (life, &io);
        }
      while (lmt_sm_next_result (life->rig.sm, &result))
        ;
    }
  while (life->n_held > (hold ? 20u : 0u) || !(lmt_sm_is_idle (life->rig.sm) || hold));
}

static void
life_round (Life *life)
{
  Rig *rig = &life->rig;

  for (guint i = 0; i + 32 <= RIG_KEYS; i += 8)
    {
      guint n = 1 + i % 31;

      rig->now += RIG_S / 4;
      lmt_sm_advance (rig->sm, rig->now);
      rig_reserve (rig, i, n, KIB4, i % 64 == 0 ? SM_WRITE_ALL : SM_WRITE_NEW);
      pump (life, TRUE);
      rig_call (rig, SM_OP_FINISH_WRITE, i, n, 0);
      rig_prefetch (rig, i / 2, n, KIB4);
      rig_prefetch (rig, i, n, KIB4);
      pump (life, TRUE);
      rig_call (rig, SM_OP_READ_ENTER, i, n, 0);
      rig_call (rig, SM_OP_READ_EXIT, i, n, 0);
      rig_call (rig, SM_OP_FINISH_READ, i, n, 1);
      rig_call (rig, SM_OP_TOUCH, i, n, 0);
    }
  pump (life, FALSE);
  /* The same start for each round: nothing in L1, nothing in L2. */
  rig_call (rig, SM_OP_CLEAR, 0, 0, TRUE);
  pump (life, FALSE);
  for (guint i = 0; i < RIG_KEYS; i++)
    if (life->in_l2[rig->keys[i]->id])
      {
        guint64 size = KIB4;

        lmt_sm_l2_event (rig->sm, rig->now, 0, 2, rig->keys + i, &size, 1);
        life->in_l2[rig->keys[i]->id] = FALSE;
      }
  rig->now = (rig->now / RIG_S + 1000) * RIG_S;
  lmt_sm_advance (rig->sm, rig->now);
}

static void
test_warm (gconstpointer data)
{
  g_autofree Life *life = g_new0 (Life, 1);
  SmConfig config = rig_config (200 * KIB4, 1);
  guint64 before;

  config.eviction.policy = GPOINTER_TO_UINT (data);
  config.eviction_period_ns = RIG_S;
  life->rig.l2_eviction[0] = (SmEviction){ TRUE, config.eviction.policy, 0.5, 0.3 };
  rig_init (&life->rig, &config);
  lmt_sm_set_l2_capacity (life->rig.sm, 0, 150 * KIB4);
  for (guint round = 0; round < (config.eviction.policy == LMT_EVICT_ARC ? 12 : 2); round++)
    life_round (life);
  before = n_mallocs;
  life_round (life);
  g_assert_cmpuint (n_mallocs - before, ==, 0);
  if (mallocs_are_counted ())
    g_assert_cmpuint (before, >, 0);
  g_assert_cmpuint (lmt_sm_get_counters (life->rig.sm)->l2_hit_cells, >, 0);
  g_assert_cmpuint (lmt_sm_get_counters (life->rig.sm)->l1_evicted_keys, >, 0);
  g_assert_cmpuint (lmt_sm_get_counters (life->rig.sm)->l2_evicted_keys, >, 0);
  rig_clear (&life->rig);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_data_func ("/manager-mallocs/lru", GUINT_TO_POINTER (LMT_EVICT_LRU), test_warm);
  g_test_add_data_func ("/manager-mallocs/arc", GUINT_TO_POINTER (LMT_EVICT_ARC), test_warm);
  return g_test_run ();
}
