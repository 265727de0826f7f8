/* SPDX-License-Identifier: Apache-2.0 */
#include "rig.h"

#include <string.h>

/*
 * Random calls, random order of answers, jumps in time, refusals: after every input the books are checked. Seeds are fixed;
 * another one is tried with LMT_RANDOM_SEED.
 */
enum
{
  N_KEYS = 48,
  MOST_IOS = 256,
  STEPS = 4000,
};
#define UNIT G_GUINT64_CONSTANT (4096)
#define POOL (40 * UNIT)

typedef struct
{
  gboolean present[RIG_KEYS];
  int locks[RIG_KEYS];
} Adapter;

typedef struct
{
  Rig rig;
  GRand *rand;
  Adapter adapters[RIG_MOST_L2];
  guint n_l2;
  SmIo ios[MOST_IOS];
  guint n_ios;
  guint64 submitted, delivered;
  guint64 next_request;
  gboolean contexts;
} Walk;

static guint
pick (Walk *walk, guint n)
{
  return (guint)g_rand_int_range (walk->rand, 0, (gint32)n);
}

static gboolean
chance (Walk *walk, guint percent)
{
  return pick (walk, 100) < percent;
}

static guint
number_of (const Walk *walk, const LmtKey *key)
{
  for (guint i = 0; i < N_KEYS; i++)
    if (walk->rig.keys[i] == key)
      return i;
  g_assert_not_reached ();
}

/* ---- the books ---- */

typedef struct
{
  Walk *walk;
  guint8 taken[POOL / UNIT];
  guint64 used;
  guint64 staged;
} Books;

static void
occupy (Books *books, guint64 address, guint64 bytes)
{
  guint64 aligned = (bytes + UNIT - 1) / UNIT * UNIT;

  g_assert_cmpuint (address % UNIT, ==, 0);
  g_assert_cmpuint (address + aligned, <=, POOL);
  for (guint64 at = address / UNIT; at < (address + aligned) / UNIT; at++)
    {
      g_assert_cmpuint (books->taken[at], ==, 0);
      books->taken[at] = 1;
    }
  books->used += aligned;
}

static void
book_free (guint64 address, guint64 bytes, gpointer data)
{
  Books *books = data;

  for (guint64 at = address / UNIT; at < (address + bytes) / UNIT; at++)
    {
      g_assert_cmpuint (books->taken[at], ==, 0);
      books->taken[at] = 2;
    }
}

static void
book_key (LmtKey *key, const SmKeyView *view, gpointer data)
{
  Books *books = data;
  SmStageView stage;

  g_assert_cmpuint (view->read_locks, <, 1000000);
  if (view->resident)
    occupy (books, view->address, view->bytes);
  for (guint i = 0; lmt_sm_view_stage (books->walk->rig.sm, books->walk->rig.now, key, i, &stage); i++)
    {
      occupy (books, stage.address, stage.bytes);
      books->staged += stage.bytes;
    }
}

static void
check_tracked (guint32 id, gpointer data)
{
  const LmtSm *sm = data;

  g_assert_true ((sm->states[id].flags & SM_KEY_RESIDENT) != 0 || sm->states[id].stages != SM_NIL);
  ((SmKeyState *)sm->states)[id].unused[0] = 1;
}

static void
check_policy (LmtSm *sm)
{
  const LmtEvict *policy = lmt_sm_peek_policy (sm, -1);

  for (guint i = 0; i < sm->n_states; i++)
    sm->states[i].unused[0] = 0;
  if (lmt_evict_get_kind (policy) == LMT_EVICT_LRU)
    lmt_evict_foreach (policy, "order", -1, check_tracked, sm);
  else
    {
      lmt_evict_foreach (policy, "t1", -1, check_tracked, sm);
      lmt_evict_foreach (policy, "t2", -1, check_tracked, sm);
    }
  for (guint32 i = sm->residents.head; i != SM_NIL; i = sm->states[i].next)
    g_assert_cmpuint (sm->states[i].unused[0], ==, 1);
}

static void
check (Walk *walk)
{
  LmtSm *sm = walk->rig.sm;
  Books books = { .walk = walk };

  lmt_sm_foreach (sm, walk->rig.now, book_key, &books);
  for (guint i = 0; i < sm->n_zombies; i++)
    if (sm->zombies[i].key != NULL)
      {
        g_assert_cmpuint (sm->zombies[i].pins, >, 0);
        occupy (&books, sm->zombies[i].address, sm->zombies[i].bytes);
      }
  sm_arena_foreach_free (sm->arena, book_free, &books);
  for (guint i = 0; i < POOL / UNIT; i++)
    g_assert_cmpuint (books.taken[i], !=, 0);
  g_assert_cmpuint (books.used, ==, lmt_sm_used_bytes (sm));
  g_assert_cmpuint (books.staged, ==, lmt_sm_staging_bytes (sm));
  g_assert_cmpuint (lmt_sm_ios_outstanding (sm), ==, walk->n_ios);
  g_assert_cmpuint (sm->n_running, <=, sm->config.prefetch_max_in_flight);
  g_assert_cmpuint (walk->submitted - walk->delivered, ==, lmt_sm_prefetches_outstanding (sm));
  check_policy (sm);
}

/* ---- the world below ---- */

static void
collect (Walk *walk)
{
  SmPrefetchResult result;

  while (lmt_sm_next_result (walk->rig.sm, &result))
    {
      guint misses = 0, cells = result.n_rows * result.n_columns;

      for (guint m = 0; m < SM_N_MISS; m++)
        misses += result.misses[m];
      g_assert_cmpuint (misses + result.n_hit, ==, cells);
      g_assert_cmpuint (result.n_l1_hit + result.n_l2_hit, ==, result.n_hit);
      for (guint c = 0; c < cells; c++)
        g_assert_cmpuint (result.l1_hit[c] + result.l2_hit[c], ==, result.hit[c]);
      walk->delivered++;
    }
}

static void
pump (Walk *walk)
{
  SmIo io;

  while (lmt_sm_take (walk->rig.sm, &io))
    {
      Adapter *adapter = &walk->adapters[io.adapter];

      if (io.kind == SM_IO_UNLOCK)
        {
          for (guint i = 0; i < io.n; i++)
            g_assert_cmpint (--adapter->locks[number_of (walk, io.keys[i])], >=, 0);
          continue;
        }
      if (chance (walk, 4) || walk->n_ios == MOST_IOS)
        {
          lmt_sm_refused (walk->rig.sm, walk->rig.now, io.id, LMT_L2_CLOSED);
          continue;
        }
      walk->ios[walk->n_ios++] = io;
      lmt_sm_accepted (walk->rig.sm, walk->rig.now, io.id);
    }
  collect (walk);
}

static guint8
answer_one (Walk *walk, Adapter *adapter, const SmIo *io, guint i, GPtrArray *changed)
{
  guint key = number_of (walk, io->keys[i]);

  switch (io->kind)
    {
    case SM_IO_STORE:
      if (chance (walk, 20))
        return chance (walk, 50) ? LMT_L2_NO_SPACE : LMT_L2_IO;
      if (adapter->present[key])
        return LMT_L2_PRESENT;
      adapter->present[key] = TRUE;
      g_ptr_array_add (changed, io->keys[i]);
      return LMT_L2_OK;
    case SM_IO_LOOKUP:
      if (!adapter->present[key])
        return LMT_L2_NOT_FOUND;
      adapter->locks[key]++;
      return LMT_L2_OK;
    case SM_IO_LOAD:
      if (!adapter->present[key] || (key % 5 == 0 && chance (walk, 30)))
        return LMT_L2_NOT_FOUND;
      g_ptr_array_add (changed, io->keys[i]);
      return LMT_L2_OK;
    default:
      if (!adapter->present[key])
        return LMT_L2_NOT_FOUND;
      adapter->present[key] = FALSE;
      g_ptr_array_add (changed, io->keys[i]);
      return LMT_L2_OK;
    }
}

static void
answer (Walk *walk)
{
  static const guint32 events[] = { 0, 1, 0, 2 };
  guint which = pick (walk, walk->n_ios);
  SmIo io = walk->ios[which];
  g_autofree guint8 *codes = g_malloc0 (io.n + 1);
  g_autoptr (GPtrArray) changed = g_ptr_array_new ();
  guint64 sizes[512];

  walk->ios[which] = walk->ios[--walk->n_ios];
  for (guint i = 0; i < io.n; i++)
    {
      codes[i] = answer_one (walk, &walk->adapters[io.adapter], &io, i, changed);
      /* One key in a task has one answer. */
      for (guint k = 0; k < i && io.kind != SM_IO_LOOKUP; k++)
        if (io.keys[k] == io.keys[i])
          codes[i] = codes[k];
    }
  for (guint i = 0; i < G_N_ELEMENTS (sizes); i++)
    sizes[i] = UNIT;
  if (changed->len > 0 && changed->len < G_N_ELEMENTS (sizes))
    lmt_sm_l2_event (walk->rig.sm, walk->rig.now, io.adapter, events[io.kind], (LmtKey *const *)changed->pdata, sizes,
                     changed->len);
  lmt_sm_completed (walk->rig.sm, walk->rig.now, io.id, codes, UNIT);
}

/* ---- calls ---- */

static guint
random_keys (Walk *walk, LmtKey **keys, guint most)
{
  guint n = pick (walk, most + 1), first = pick (walk, N_KEYS);

  for (guint i = 0; i < n; i++)
    keys[i] = walk->rig.keys[chance (walk, 90) ? (first + i) % N_KEYS : pick (walk, N_KEYS)];
  return n;
}

static void
prefetch (Walk *walk)
{
  LmtKey *keys[4][16];
  guint64 cell_bytes[4][16];
  SmRow rows[4] = { 0 };
  SmCall call = { .op = SM_OP_PREFETCH, .rows = rows, .n_rows = 1 + pick (walk, 3) };
  guint n = random_keys (walk, keys[0], 12);
  SmResult result;

  for (guint r = 0; r < call.n_rows; r++)
    {
      guint first = pick (walk, N_KEYS);

      for (guint i = 0; i < n && r > 0; i++)
        keys[r][i] = walk->rig.keys[(first + i) % N_KEYS];
      rows[r].keys = keys[r];
      rows[r].n = n;
      rows[r].object_bytes = (1 + r) * UNIT - pick (walk, 2) * 100;
      rows[r].window = chance (walk, 70) ? -1 : 1 + (gint64)pick (walk, 4);
      if (call.n_rows == 1 && chance (walk, 20))
        {
          for (guint i = 0; i < n; i++)
            cell_bytes[r][i] = (1 + number_of (walk, keys[r][i]) % 3) * UNIT;
          rows[r].cell_bytes = cell_bytes[r];
        }
    }
  call.readers = 1 + pick (walk, 3);
  call.policy = chance (walk, 70) ? SM_POLICY_PREFIX : SM_POLICY_FULL;
  call.lock_mode = chance (walk, 80) ? SM_LOCK : SM_NO_LOCK;
  call.look_l1 = chance (walk, 90);
  call.allow_l2 = chance (walk, 85);
  lmt_sm_call (walk->rig.sm, walk->rig.now, &call, &result);
  g_assert_cmpstr (result.value_error, ==, NULL);
  g_assert_cmpuint (result.request, ==, walk->next_request++);
  walk->submitted++;
}

static void
plain_call (Walk *walk)
{
  static const guint8 ops[]
      = { SM_OP_RESERVE_WRITE, SM_OP_RESERVE_WRITE, SM_OP_RESERVE_WRITE, SM_OP_FINISH_WRITE, SM_OP_FINISH_WRITE,
          SM_OP_FINISH_WRITE,  SM_OP_ABORT_WRITE,   SM_OP_READ_ENTER,    SM_OP_READ_EXIT,    SM_OP_FINISH_READ,
          SM_OP_FINISH_READ,   SM_OP_TOUCH,         SM_OP_DELETE };
  LmtKey *keys[16];
  SmCall call = { .op = ops[pick (walk, G_N_ELEMENTS (ops))], .keys = keys };
  SmResult result;

  call.n_keys = random_keys (walk, keys, 12);
  call.object_bytes = (1 + pick (walk, 3)) * UNIT - pick (walk, 2) * 10;
  call.readers = 1 + pick (walk, 3);
  call.write_mode = chance (walk, 80) ? SM_WRITE_NEW : pick (walk, 3);
  call.force = chance (walk, 20);
  call.caller_failed = chance (walk, 50);
  if (chance (walk, 1))
    call.op = SM_OP_CLEAR;
  lmt_sm_call (walk->rig.sm, walk->rig.now, &call, &result);
  g_assert_cmpstr (result.value_error, ==, NULL);
  g_assert_cmpuint (result.n, ==, call.n_keys);
}

static void
step (Walk *walk)
{
  guint what = pick (walk, 100);

  if (what < 40)
    plain_call (walk);
  else if (what < 60)
    prefetch (walk);
  else if (what < 85)
    {
      if (walk->n_ios > 0)
        answer (walk);
    }
  else if (what < 97)
    {
      walk->rig.now += (gint64)pick (walk, 3000) * (RIG_S / 1000);
      lmt_sm_advance (walk->rig.sm, walk->rig.now);
    }
  else
    {
      walk->rig.now += (gint64)pick (walk, 100) * RIG_S;
      lmt_sm_advance (walk->rig.sm, walk->rig.now);
    }
  pump (walk);
  check (walk);
}

static void
finish (Walk *walk)
{
  guint64 locks, reservations;

  while (walk->n_ios > 0)
    {
      answer (walk);
      pump (walk);
      check (walk);
    }
  g_assert_true (lmt_sm_is_idle (walk->rig.sm));
  g_assert_cmpuint (walk->submitted, ==, walk->delivered);
  for (guint a = 0; a < walk->n_l2; a++)
    for (guint k = 0; k < N_KEYS; k++)
      g_assert_cmpint (walk->adapters[a].locks[k], ==, 0);
  lmt_sm_release_leaks (walk->rig.sm, walk->rig.now, &locks, &reservations);
  check (walk);
  g_assert_cmpuint (lmt_sm_staging_bytes (walk->rig.sm), ==, 0);
  rig_call (&walk->rig, SM_OP_CLEAR, 0, 0, TRUE);
  g_assert_cmpuint (lmt_sm_used_bytes (walk->rig.sm), ==, 0);
  g_assert_cmpuint (walk->rig.sm->live_zombies, ==, 0);
  check (walk);
}

static void
ignore_event (const SmEvent *event, gpointer data)
{
  guint64 *count = data;

  for (guint i = 0; i < event->n_keys; i++)
    *count += event->keys[i]->refs > 0;
}

static void
walk_seed (gconstpointer data)
{
  guint32 seed = GPOINTER_TO_UINT (data);
  g_autofree Walk *walk = g_new0 (Walk, 1);
  SmConfig config = rig_config (POOL, seed % 3);
  guint64 seen = 0;

  walk->rand = g_rand_new_with_seed (seed);
  walk->n_l2 = config.n_l2;
  config.write_ttl_s = 20;
  config.read_ttl_s = 30;
  config.eviction.policy = seed % 2 == 0 ? LMT_EVICT_LRU : LMT_EVICT_ARC;
  config.eviction.watermark = 0.7;
  config.eviction_period_ns = RIG_S;
  config.prefetch_max_in_flight = 1 + seed % 4;
  config.store_policy = seed % 5 < 2 ? SM_STORE_SKIP_L1 : SM_STORE_DEFAULT;
  config.skip_l1_retry = seed % 5 == 1;
  config.prefetch_policy = seed % 7 < 3 ? SM_PREFETCH_RETAIN : SM_PREFETCH_DEFAULT;
  config.io_deadline_ns = seed % 4 == 3 ? 5 * RIG_S : 0;
  config.prefetch_inflight_watermark = seed % 6 == 5 ? 0.5 : 0.0;
  walk->rig.l2_eviction[0] = (SmEviction){ TRUE, seed % 2 == 0 ? LMT_EVICT_ARC : LMT_EVICT_ISOLATED_LRU, 0.5, 0.3 };
  walk->rig.l2_eviction[1] = (SmEviction){ TRUE, LMT_EVICT_LRU, 0.6, 0.2 };
  rig_init (&walk->rig, &config);
  for (guint a = 0; a < walk->n_l2; a++)
    lmt_sm_set_l2_capacity (walk->rig.sm, a, 24 * UNIT);
  lmt_sm_set_quota (walk->rig.sm, 0, (gint64)(20 * UNIT));
  if (seed % 3 != 0)
    lmt_sm_set_listener (walk->rig.sm, ignore_event, &seen);
  for (guint i = 0; i < STEPS; i++)
    step (walk);
  if (seed % 8 == 7)
    {
      lmt_sm_close (walk->rig.sm, walk->rig.now);
      g_assert_cmpuint (lmt_sm_abandon (walk->rig.sm), ==, walk->n_ios);
    }
  else
    finish (walk);
  rig_clear (&walk->rig);
  g_rand_free (walk->rand);
}

int
main (int argc, char **argv)
{
  const char *more = g_getenv ("LMT_RANDOM_SEED");

  g_test_init (&argc, &argv, NULL);
  for (guint seed = 1; seed <= 24; seed++)
    {
      g_autofree char *path = g_strdup_printf ("/manager-random/%u", seed);

      g_test_add_data_func (path, GUINT_TO_POINTER (seed), walk_seed);
    }
  if (more != NULL)
    g_test_add_data_func ("/manager-random/given", GUINT_TO_POINTER ((guint)g_ascii_strtoull (more, NULL, 10)), walk_seed);
  return g_test_run ();
}
