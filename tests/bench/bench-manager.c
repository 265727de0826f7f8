/* SPDX-License-Identifier: Apache-2.0 */
#include "manager.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

/*
 * bench-manager [KEYS [ROUNDS]]: how fast the state machine alone is, in processor time. Each chunk of keys goes through reserve,
 * finish, prefetch, enter, exit, finish_read; the pool holds half of the working set, and a pass makes room as often as recorded
 * time would. No L2, or one adapter that answers at once and stores nothing.
 */

typedef struct
{
  LmtKeyTable *table;
  LmtKey **keys;
  guint n_keys;
  LmtSm *sm;
  gint64 now;
  guint64 calls;
  guint64 key_ops;
  guint8 *codes;
} Bench;

/* Of this process alone: the machine may be busy. */
static gint64
cpu_us (void)
{
  return (gint64)((double)clock () * 1e6 / CLOCKS_PER_SEC);
}

static void
make_keys (Bench *bench, guint n)
{
  bench->table = lmt_key_table_new ();
  bench->keys = g_new (LmtKey *, n);
  bench->n_keys = n;
  for (guint i = 0; i < n; i++)
    {
      guint8 hash[32] = { 0 };
      LmtKeyFields fields = {
        .struct_size = sizeof fields, .rank = 0x01000100, .hash = hash, .hash_len = 32, .model = "m", .model_len = 1, .salt = ""
      };

      memcpy (hash, &i, sizeof i);
      bench->keys[i] = lmt_key_table_intern (bench->table, &fields);
    }
}

static void
pump (Bench *bench)
{
  SmPrefetchResult result;
  SmIo io;

  while (lmt_sm_take (bench->sm, &io))
    {
      if (io.kind == SM_IO_UNLOCK)
        continue;
      lmt_sm_accepted (bench->sm, bench->now, io.id);
      memset (bench->codes, io.kind == SM_IO_LOOKUP ? 1 : 0, io.n);
      lmt_sm_completed (bench->sm, bench->now, io.id, bench->codes, 0);
    }
  while (lmt_sm_next_result (bench->sm, &result))
    ;
}

static void
call (Bench *bench, const SmCall *request, guint n)
{
  SmResult result;

  lmt_sm_call (bench->sm, bench->now, request, &result);
  bench->calls++;
  bench->key_ops += n;
  pump (bench);
}

static void
cycle (Bench *bench, LmtKey *const *keys, guint n)
{
  SmRow row = { .keys = keys, .n = n, .object_bytes = 4096, .window = -1 };

  call (bench, &(SmCall){ .op = SM_OP_RESERVE_WRITE, .keys = keys, .n_keys = n, .object_bytes = 4096 }, n);
  call (bench, &(SmCall){ .op = SM_OP_FINISH_WRITE, .keys = keys, .n_keys = n }, n);
  call (bench, &(SmCall){ .op = SM_OP_PREFETCH, .rows = &row, .n_rows = 1, .readers = 1, .look_l1 = 1, .allow_l2 = 1 }, n);
  call (bench, &(SmCall){ .op = SM_OP_READ_ENTER, .keys = keys, .n_keys = n }, n);
  call (bench, &(SmCall){ .op = SM_OP_READ_EXIT, .keys = keys, .n_keys = n }, n);
  call (bench, &(SmCall){ .op = SM_OP_FINISH_READ, .keys = keys, .n_keys = n, .readers = 1 }, n);
}

static void
run (const char *name, guint n_keys, guint rounds, guint per_call, LmtEvictKind policy, guint n_l2, gboolean explain)
{
  static const SmEviction no_eviction;
  Bench bench = { 0 };
  SmConfig config = { .size_bytes = (guint64)n_keys / 2 * 4096,
                      .align_bytes = 4096,
                      .write_ttl_s = 600,
                      .read_ttl_s = 300,
                      .eviction = { TRUE, policy, 0.8, 0.2 },
                      .n_l2 = n_l2,
                      .l2_eviction = &no_eviction,
                      .prefetch_max_in_flight = 8,
                      .eviction_period_ns = 1000000000,
                      .explain_misses = explain };
  gint64 start = 0, spent;

  make_keys (&bench, n_keys);
  bench.codes = g_malloc (per_call);
  bench.sm = lmt_sm_new (&config, bench.table, NULL);
  for (guint round = 0; round <= rounds; round++)
    {
      if (round == 1) /* the first one warms up */
        {
          start = cpu_us ();
          bench.calls = bench.key_ops = 0;
        }
      for (guint i = 0; i + per_call <= n_keys; i += per_call)
        {
          if (i % (n_keys / 16) < per_call)
            {
              bench.now += 1000000000;
              lmt_sm_advance (bench.sm, bench.now);
              pump (&bench);
            }
          cycle (&bench, bench.keys + i, per_call);
        }
    }
  spent = MAX (cpu_us () - start, 1);
  printf ("%-28s %10.0f calls/s %12.0f keys/s  %6.1f ns/call %6.1f ns/key\n", name, bench.calls * 1e6 / spent,
          bench.key_ops * 1e6 / spent, spent * 1e3 / bench.calls, spent * 1e3 / bench.key_ops);
  lmt_sm_free (bench.sm);
  for (guint i = 0; i < n_keys; i++)
    lmt_key_unref (bench.table, bench.keys[i]);
  lmt_key_table_free (bench.table);
  g_free (bench.keys);
  g_free (bench.codes);
}

int
main (int argc, char **argv)
{
  guint n_keys = argc > 1 ? (guint)g_ascii_strtoull (argv[1], NULL, 10) : 100000;
  guint rounds = argc > 2 ? (guint)g_ascii_strtoull (argv[2], NULL, 10) : 5;

  run ("1 key, LRU", n_keys, rounds, 1, LMT_EVICT_LRU, 0, FALSE);
  run ("1 key, LRU, misses explained", n_keys, rounds, 1, LMT_EVICT_LRU, 0, TRUE);
  run ("64 keys, LRU", n_keys, rounds, 64, LMT_EVICT_LRU, 0, FALSE);
  run ("64 keys, LRU, explained", n_keys, rounds, 64, LMT_EVICT_LRU, 0, TRUE);
  run ("64 keys, ARC", n_keys, rounds, 64, LMT_EVICT_ARC, 0, FALSE);
  run ("1 key, LRU, L2", n_keys, rounds, 1, LMT_EVICT_LRU, 1, FALSE);
  run ("64 keys, LRU, L2", n_keys, rounds, 64, LMT_EVICT_LRU, 1, FALSE);
  return 0;
}
