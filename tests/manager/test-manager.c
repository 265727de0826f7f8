/* SPDX-License-Identifier: Apache-2.0 */
#include "rig.h"

#include <string.h>

/* What the recorded scenarios don't reach: pins, late answers, retries, write modes, time, close (storage-manager.md 14, 16-19).
 */

#define KIB4 G_GUINT64_CONSTANT (4096)

/* ---- pins: 19.2 ---- */

static void
test_pin_store (void)
{
  SmConfig config = rig_config (8 * KIB4, 1);
  Rig rig = { 0 };
  guint32 id;

  rig_init (&rig, &config);
  rig_write (&rig, 0, 2, KIB4);
  id = rig_take (&rig, SM_IO_STORE, 0, 2);
  g_assert_true (lmt_sm_key_in_store (rig.sm, rig.keys[0]));
  rig_call (&rig, SM_OP_DELETE, 0, 2, TRUE);
  g_assert_false (rig_view (&rig, 0).resident);
  g_assert_cmpuint (lmt_sm_used_bytes (rig.sm), ==, 2 * KIB4);
  g_assert_true (lmt_sm_key_in_store (rig.sm, rig.keys[0]));
  /* The key may be written anew meanwhile, elsewhere. */
  rig_write (&rig, 0, 1, KIB4);
  g_assert_cmpuint (rig_view (&rig, 0).address, ==, 2 * KIB4);
  rig_answer (&rig, id, "11");
  g_assert_cmpuint (lmt_sm_used_bytes (rig.sm), ==, KIB4);
  g_assert_cmpuint (rig_view (&rig, 0).read_locks, ==, 0); /* stripped: the count is shared, as in LMCache */
  id = rig_take (&rig, SM_IO_STORE, 0, 1);
  rig_answer (&rig, id, "1");
  g_assert_true (lmt_sm_is_idle (rig.sm));
  rig_clear (&rig);
}

static void
test_pin_load (void)
{
  SmConfig config = rig_config (8 * KIB4, 1);
  Rig rig = { 0 };
  guint64 request;
  guint32 id;

  rig_init (&rig, &config);
  request = rig_prefetch (&rig, 0, 2, KIB4);
  rig_answer (&rig, rig_take (&rig, SM_IO_LOOKUP, 0, 2), "11");
  id = rig_take (&rig, SM_IO_LOAD, 0, 2);
  g_assert_cmpuint (rig.io.request, ==, request);
  rig_call (&rig, SM_OP_CLEAR, 0, 0, TRUE);
  g_assert_cmpuint (rig_view (&rig, 0).n_staged, ==, 0);
  g_assert_cmpuint (lmt_sm_used_bytes (rig.sm), ==, 2 * KIB4);
  rig_answer (&rig, id, "11");
  g_assert_cmpuint (lmt_sm_used_bytes (rig.sm), ==, 0);
  g_assert_cmpuint (rig_result (&rig, request).n_hit, ==, 0);
  rig_take (&rig, SM_IO_UNLOCK, 0, 2);
  rig_take_nothing (&rig);
  rig_clear (&rig);
}

/* ---- stores ---- */

static void
test_skip_l1_bits (void)
{
  SmConfig config = rig_config (8 * KIB4, 1);
  Rig rig = { 0 };

  config.store_policy = SM_STORE_SKIP_L1;
  rig_init (&rig, &config);
  rig_write (&rig, 0, 3, KIB4);
  rig_answer (&rig, rig_take (&rig, SM_IO_STORE, 0, 3), "101");
  g_assert_false (rig_view (&rig, 0).resident);
  g_assert_true (rig_view (&rig, 1).resident);
  g_assert_false (rig_view (&rig, 2).resident);
  g_assert_cmpuint (lmt_sm_get_counters (rig.sm)->store_keys_failed, ==, 1);
  rig_clear (&rig);
}

static void
test_skip_l1_retry (void)
{
  for (guint retry = 0; retry < 2; retry++)
    {
      SmConfig config = rig_config (8 * KIB4, 1);
      Rig rig = { 0 };
      guint64 request;
      guint32 store, lookup;

      config.store_policy = SM_STORE_SKIP_L1;
      config.skip_l1_retry = retry;
      rig_init (&rig, &config);
      rig_write (&rig, 0, 1, KIB4);
      store = rig_take (&rig, SM_IO_STORE, 0, 1);
      request = rig_prefetch (&rig, 0, 1, KIB4);
      lookup = rig_take (&rig, SM_IO_LOOKUP, 0, 1);
      rig_answer (&rig, lookup, "0");
      g_assert_cmpuint (rig_result (&rig, request).n_l1_hit, ==, 1);
      rig_answer (&rig, store, "1");
      g_assert_true (rig_view (&rig, 0).resident);
      g_assert_cmpuint (lmt_sm_get_counters (rig.sm)->skip_l1_kept, ==, 1);
      rig.now += RIG_S;
      rig_call (&rig, SM_OP_FINISH_READ, 0, 1, 1);
      g_assert_cmpint (rig_view (&rig, 0).resident, ==, !retry);
      /* Within half a second of the last try nothing is tried. */
      rig_write (&rig, 1, 1, KIB4);
      store = rig_take (&rig, SM_IO_STORE, 0, 1);
      rig_prefetch (&rig, 1, 1, KIB4);
      rig_answer (&rig, rig_take (&rig, SM_IO_LOOKUP, 0, 1), "0");
      rig_answer (&rig, store, "1");
      rig.now += RIG_S / 4;
      rig_call (&rig, SM_OP_FINISH_READ, 1, 1, 1);
      g_assert_true (rig_view (&rig, 1).resident);
      lmt_sm_advance (rig.sm, rig.now + RIG_S / 2);
      g_assert_cmpint (rig_view (&rig, 1).resident, ==, !retry);
      rig_clear (&rig);
    }
}

static void
test_no_space_pass (void)
{
  SmConfig config = rig_config (16 * KIB4, 1);
  Rig rig = { .l2_eviction = { { TRUE, LMT_EVICT_LRU, 0.5, 0.5 } } };
  guint64 sizes[2] = { KIB4, KIB4 };

  rig_init (&rig, &config);
  lmt_sm_set_l2_capacity (rig.sm, 0, 4 * KIB4);
  rig_stored (&rig, 0, 100, 4, KIB4);
  rig_write (&rig, 0, 2, KIB4);
  rig_answer (&rig, rig_take (&rig, SM_IO_STORE, 0, 2), "ss");
  rig_take (&rig, SM_IO_DELETE, 0, 2);
  g_assert_true (rig.io.keys[0] == rig.keys[103] && rig.io.keys[1] == rig.keys[102]);
  /* While it runs, this adapter is left out of the passes. */
  lmt_sm_evict_l2 (rig.sm, rig.now, NULL, NULL);
  rig_take_nothing (&rig);
  lmt_sm_l2_event (rig.sm, rig.now, 0, 2, rig.io.keys, sizes, 1);
  rig_answer (&rig, rig.io.id, "10");
  g_assert_cmpuint (lmt_sm_get_counters (rig.sm)->l2_evicted_keys, ==, 1);
  g_assert_cmpuint (lmt_sm_get_counters (rig.sm)->l2_evicted_bytes, ==, KIB4);
  lmt_sm_evict_l2 (rig.sm, rig.now, NULL, NULL);
  rig_answer (&rig, rig_take (&rig, SM_IO_DELETE, 0, 1), "1");
  rig_clear (&rig);
}

static gboolean
is_locked (guint32 adapter, const LmtKey *key, gpointer data)
{
  return key == data;
}

static void
test_locked_victims (void)
{
  SmConfig config = rig_config (16 * KIB4, 1);
  Rig rig = { .l2_eviction = { { TRUE, LMT_EVICT_LRU, 0.5, 0.25 } } };

  rig_init (&rig, &config);
  lmt_sm_set_l2_capacity (rig.sm, 0, 4 * KIB4);
  lmt_sm_set_l2_locked (rig.sm, is_locked, rig.keys[3]);
  rig_stored (&rig, 0, 0, 4, KIB4);
  lmt_sm_evict_l2 (rig.sm, rig.now, NULL, NULL);
  rig_take (&rig, SM_IO_DELETE, 0, 1);
  g_assert_true (rig.io.keys[0] == rig.keys[2]);
  lmt_sm_refused (rig.sm, rig.now, 999, LMT_L2_CLOSED); /* unknown: counted, nothing else */
  g_assert_cmpuint (lmt_sm_get_counters (rig.sm)->io_unknown, ==, 1);
  rig_answer (&rig, rig.io.id, "1");
  rig_clear (&rig);
}

static void
test_parts (void)
{
  SmConfig config = rig_config (64 * KIB4, 2);
  Rig rig = { 0 };
  LmtKey *mixed[6];
  SmResult result;

  rig_init (&rig, &config);
  for (guint i = 0; i < 6; i++)
    mixed[i] = rig_key (&rig, i % 3, 0, "", (guint8)i);
  lmt_sm_call (rig.sm, 0, &(SmCall){ .op = SM_OP_RESERVE_WRITE, .keys = mixed, .n_keys = 6, .object_bytes = 1 }, &result);
  lmt_sm_call (rig.sm, 0, &(SmCall){ .op = SM_OP_FINISH_WRITE, .keys = mixed, .n_keys = 6 }, &result);
  for (guint part = 0; part < 3; part++)
    for (guint adapter = 0; adapter < 2; adapter++)
      {
        rig_take (&rig, SM_IO_STORE, adapter, 2);
        g_assert_true (rig.io.keys[0] == mixed[part] && rig.io.keys[1] == mixed[part + 3]);
      }
  rig_take_nothing (&rig);
  g_assert_cmpuint (lmt_sm_stores_outstanding (rig.sm, 1), ==, 3);
  rig_clear (&rig);
}

/* ---- write modes of older releases: 17 ---- */

static void
test_mode_update (void)
{
  SmConfig config = rig_config (4 * KIB4, 0);
  Rig rig = { 0 };
  SmResult result;

  rig_init (&rig, &config);
  rig_write (&rig, 0, 3, KIB4);
  rig_prefetch (&rig, 2, 1, KIB4);
  result = rig_reserve (&rig, 0, 4, KIB4, SM_WRITE_UPDATE);
  g_assert_cmpuint (rig_code (&result, 0), ==, SM_SUCCESS);
  g_assert_cmpuint (result.addresses[1], ==, KIB4);
  g_assert_cmpuint (rig_code (&result, 2), ==, SM_KEY_NOT_WRITABLE); /* read */
  g_assert_cmpuint (rig_code (&result, 3), ==, SM_KEY_NOT_WRITABLE); /* not there */
  g_assert_cmpuint (lmt_sm_used_bytes (rig.sm), ==, 3 * KIB4);
  g_assert_false (rig_view (&rig, 0).resident);
  result = rig_reserve (&rig, 0, 1, KIB4, SM_WRITE_UPDATE); /* written */
  g_assert_cmpuint (rig_code (&result, 0), ==, SM_KEY_NOT_WRITABLE);
  result = rig_call (&rig, SM_OP_FINISH_WRITE, 0, 2, 0);
  g_assert_cmpuint (result.n_good, ==, 2);
  g_assert_cmpuint (rig_view (&rig, 1).address, ==, KIB4);
  rig_clear (&rig);
}

static void
test_mode_all (void)
{
  SmConfig config = rig_config (4 * KIB4, 0);
  Rig rig = { 0 };
  SmResult result;

  rig_init (&rig, &config);
  rig_write (&rig, 0, 3, KIB4);
  /* Out of memory for the new ones takes nothing of what was resident. */
  result = rig_reserve (&rig, 0, 6, KIB4, SM_WRITE_ALL);
  g_assert_cmpuint (rig_code (&result, 0), ==, SM_SUCCESS);
  g_assert_cmpuint (rig_code (&result, 5), ==, SM_OUT_OF_MEMORY);
  result = rig_call (&rig, SM_OP_FINISH_WRITE, 0, 3, 0);
  g_assert_cmpuint (result.n_good, ==, 3);
  /* Another size: freed and allocated like a new key. */
  result = rig_reserve (&rig, 0, 1, 2 * KIB4, SM_WRITE_ALL);
  g_assert_cmpuint (rig_code (&result, 0), ==, SM_OUT_OF_MEMORY); /* [0, 4K) and [12K, 16K) are free, not together */
  g_assert_cmpuint (lmt_sm_used_bytes (rig.sm), ==, 2 * KIB4);
  rig_call (&rig, SM_OP_DELETE, 1, 1, FALSE);
  result = rig_reserve (&rig, 2, 1, 100, SM_WRITE_ALL);
  g_assert_cmpuint (rig_code (&result, 0), ==, SM_SUCCESS);
  g_assert_cmpuint (lmt_sm_staging_bytes (rig.sm), ==, 100);
  g_assert_cmpuint (lmt_sm_used_bytes (rig.sm), ==, KIB4);
  rig_clear (&rig);
}

static void
test_abort_write (void)
{
  SmConfig config = rig_config (4 * KIB4, 0);
  Rig rig = { 0 };
  SmResult result;

  rig_init (&rig, &config);
  rig_reserve (&rig, 0, 2, KIB4, SM_WRITE_NEW);
  result = rig_call (&rig, SM_OP_ABORT_WRITE, 0, 3, 0);
  g_assert_cmpuint (rig_code (&result, 1), ==, SM_SUCCESS);
  g_assert_cmpuint (rig_code (&result, 2), ==, SM_KEY_NOT_EXIST);
  g_assert_cmpuint (lmt_sm_used_bytes (rig.sm), ==, 0);
  g_assert_cmpuint (lmt_sm_staging_bytes (rig.sm), ==, 0);
  rig_clear (&rig);
}

/* ---- prefetches of older releases ---- */

static void
test_mixed_row (void)
{
  SmConfig config = rig_config (64 * KIB4, 1);
  Rig rig = { 0 };
  LmtKey *cells[4];
  guint64 bytes[4] = { KIB4, 3 * KIB4, KIB4, 3 * KIB4 }, request;
  SmRow row = { .keys = cells, .cell_bytes = bytes, .n = 4, .window = -1 };
  SmCall call = { .rows = &row, .n_rows = 1, .readers = 1, .policy = SM_POLICY_FULL, .look_l1 = TRUE, .allow_l2 = TRUE };
  SmPrefetchResult result;
  guint32 id;

  rig_init (&rig, &config);
  for (guint i = 0; i < 4; i++)
    cells[i] = rig_key (&rig, 0, i % 2, "", (guint8)i);
  request = rig_prefetch_call (&rig, &call);
  id = rig_take (&rig, SM_IO_LOOKUP, 0, 4);
  g_assert_cmpuint (rig.io.sizes[1], ==, 3 * KIB4);
  rig_answer (&rig, id, "1101");
  id = rig_take (&rig, SM_IO_LOAD, 0, 3);
  /* Reserved per group, in order of first appearance: group 0, then both of group 1. */
  g_assert_cmpuint (rig.io.addresses[0], ==, 0);
  g_assert_cmpuint (rig.io.addresses[1], ==, KIB4);
  g_assert_cmpuint (rig.io.addresses[2], ==, 4 * KIB4);
  g_assert_cmpuint (rig.io.sizes[2], ==, 3 * KIB4);
  rig_answer (&rig, id, "111");
  result = rig_result (&rig, request);
  g_assert_cmpuint (result.n_l2_hit, ==, 3);
  g_assert_cmpuint (result.hit_bytes, ==, 7 * KIB4);
  g_assert_cmpuint (result.misses[SM_MISS_FIRST_TOUCH], ==, 1);
  rig_clear (&rig);
}

static void
test_warm (void)
{
  SmConfig config = rig_config (64 * KIB4, 1);
  Rig rig = { 0 };
  SmRow row = { .n = 2, .object_bytes = KIB4, .window = -1 };
  SmCall call = { .rows = &row, .n_rows = 1, .readers = 1, .lock_mode = SM_NO_LOCK, .allow_l2 = FALSE };
  SmPrefetchResult result;
  guint64 request;

  rig_init (&rig, &config);
  row.keys = rig.keys;
  rig_write (&rig, 0, 1, KIB4);
  rig_answer (&rig, rig_take (&rig, SM_IO_STORE, 0, 1), "1");
  request = rig_prefetch_call (&rig, &call); /* nothing happens */
  result = rig_result (&rig, request);
  g_assert_cmpuint (result.n_hit, ==, 0);
  g_assert_cmpuint (result.misses[SM_MISS_BROKEN_PREFIX], ==, 1);
  call.allow_l2 = TRUE;
  request = rig_prefetch_call (&rig, &call);
  g_assert_cmpuint (rig_view (&rig, 0).read_locks, ==, 0);
  rig_answer (&rig, rig_take (&rig, SM_IO_LOOKUP, 0, 2), "11");
  /* The first is resident: contended, and with it goes the prefix. */
  rig_take (&rig, SM_IO_UNLOCK, 0, 1);
  rig_take (&rig, SM_IO_UNLOCK, 0, 1);
  result = rig_result (&rig, request);
  g_assert_cmpuint (result.misses[SM_MISS_CONTENDED], ==, 1);
  g_assert_cmpuint (lmt_sm_staging_bytes (rig.sm), ==, 0);
  /* Where L1 has nothing, it loads, keeps the object and no lock. */
  row.keys = rig.keys + 10;
  request = rig_prefetch_call (&rig, &call);
  rig_answer (&rig, rig_take (&rig, SM_IO_LOOKUP, 0, 2), "11");
  rig_answer (&rig, rig_take (&rig, SM_IO_LOAD, 0, 2), "11");
  result = rig_result (&rig, request);
  g_assert_cmpuint (result.n_l2_hit, ==, 2);
  g_assert_true (rig_view (&rig, 10).resident && !rig_view (&rig, 10).temporary && rig_view (&rig, 10).read_locks == 0);
  rig_clear (&rig);
}

static void
test_watermark (void)
{
  SmConfig config = rig_config (16 * KIB4, 1);
  Rig rig = { 0 };
  guint32 first, second;

  config.prefetch_inflight_watermark = 0.5;
  rig_init (&rig, &config);
  rig_prefetch (&rig, 0, 12, KIB4); /* nothing in flight: the head always starts */
  first = rig_take (&rig, SM_IO_LOOKUP, 0, 12);
  rig_prefetch (&rig, 20, 1, KIB4); /* 12 of 16 are expected already */
  rig_take_nothing (&rig);
  g_assert_true (lmt_sm_key_in_prefetch (rig.sm, rig.keys[20]));
  rig_answer (&rig, first, "111000000000");
  first = rig_take (&rig, SM_IO_LOAD, 0, 3); /* 3 staged, nothing in lookup: 3 < 8 */
  second = rig_take (&rig, SM_IO_LOOKUP, 0, 1);
  rig_prefetch (&rig, 30, 13, KIB4); /* 3 used + 1 expected + 13 > 16 */
  rig_take_nothing (&rig);
  rig_answer (&rig, second, "0");
  rig_take (&rig, SM_IO_LOOKUP, 0, 13); /* 3 + 13 fit */
  rig_answer (&rig, first, "111");
  rig_take (&rig, SM_IO_UNLOCK, 0, 3);
  rig_clear (&rig);
}

/* ---- an adapter that is late: defect 12 ---- */

static void
test_deadline (void)
{
  SmConfig config = rig_config (16 * KIB4, 1);
  Rig rig = { 0 };
  guint64 request;
  guint32 load, store;

  config.io_deadline_ns = 2 * RIG_S;
  rig_init (&rig, &config);
  request = rig_prefetch (&rig, 0, 2, KIB4);
  rig_answer (&rig, rig_take (&rig, SM_IO_LOOKUP, 0, 2), "11");
  load = rig_take (&rig, SM_IO_LOAD, 0, 2);
  rig_write (&rig, 10, 1, KIB4);
  store = rig_take (&rig, SM_IO_STORE, 0, 1);
  g_assert_cmpint (lmt_sm_next_due_ns (rig.sm), ==, 2 * RIG_S);
  rig.now = 2 * RIG_S;
  lmt_sm_advance (rig.sm, rig.now);
  g_assert_cmpuint (rig_result (&rig, request).misses[SM_MISS_LOAD_FAILED], ==, 2);
  g_assert_cmpuint (lmt_sm_get_counters (rig.sm)->store_keys_failed, ==, 1);
  g_assert_cmpuint (rig_view (&rig, 10).read_locks, ==, 0);
  g_assert_cmpuint (lmt_sm_used_bytes (rig.sm), ==, 3 * KIB4); /* the load may still write */
  g_assert_false (lmt_sm_is_idle (rig.sm));
  rig_take_nothing (&rig);
  rig_answer (&rig, load, "11");
  g_assert_cmpuint (lmt_sm_used_bytes (rig.sm), ==, KIB4);
  rig_take (&rig, SM_IO_UNLOCK, 0, 2);
  rig_answer (&rig, store, "1");
  g_assert_cmpuint (lmt_sm_get_counters (rig.sm)->store_keys_failed, ==, 1);
  g_assert_true (lmt_sm_is_idle (rig.sm));
  /* A lookup that is late ends the request with what the others have; its locks go back when it answers. */
  request = rig_prefetch (&rig, 10, 2, KIB4);
  load = rig_take (&rig, SM_IO_LOOKUP, 0, 2);
  rig.now = 5 * RIG_S;
  lmt_sm_advance (rig.sm, rig.now);
  g_assert_cmpuint (rig_result (&rig, request).n_l1_hit, ==, 1);
  rig_answer (&rig, load, "01");
  rig_take (&rig, SM_IO_UNLOCK, 0, 1);
  g_assert_true (rig.io.keys[0] == rig.keys[11]);
  rig_clear (&rig);
}

/* ---- time: 19.3 ---- */

static void
test_passes (void)
{
  SmConfig config = rig_config (10 * KIB4, 0);
  Rig rig = { 0 };

  config.eviction_period_ns = RIG_S;
  config.eviction.ratio = 0.1;
  rig_init (&rig, &config);
  rig_write (&rig, 0, 10, KIB4);
  g_assert_cmpint (lmt_sm_next_due_ns (rig.sm), ==, RIG_S);
  lmt_sm_advance (rig.sm, RIG_S - 1);
  g_assert_cmpuint (lmt_sm_get_counters (rig.sm)->l1_passes, ==, 0);
  lmt_sm_advance (rig.sm, 2 * RIG_S);
  g_assert_cmpuint (lmt_sm_used_bytes (rig.sm), ==, 8 * KIB4);
  lmt_sm_advance (rig.sm, 3 * RIG_S); /* inclusive */
  g_assert_cmpuint (lmt_sm_used_bytes (rig.sm), ==, 7 * KIB4);
  g_assert_cmpuint (lmt_sm_get_counters (rig.sm)->l1_passes, ==, 3);
  lmt_sm_advance (rig.sm, RIG_S); /* backwards counts as the last instant */
  g_assert_cmpuint (lmt_sm_get_counters (rig.sm)->l1_passes, ==, 3);
  rig_clear (&rig);
}

static void
test_years (void)
{
  SmConfig config = rig_config (10 * KIB4, 0);
  const gint64 years = 300 * 365 * G_GINT64_CONSTANT (86400) / 10 * RIG_S;
  Rig rig = { 0 };

  config.eviction_period_ns = RIG_S;
  config.read_ttl_s = 1000000;
  rig_init (&rig, &config);
  rig_write (&rig, 0, 10, KIB4);
  rig_prefetch (&rig, 0, 10, KIB4);
  lmt_sm_advance (rig.sm, RIG_S);
  g_assert_cmpuint (lmt_sm_used_bytes (rig.sm), ==, 10 * KIB4); /* all are read */
  g_assert_cmpint (lmt_sm_next_due_ns (rig.sm), ==, 1000000 * RIG_S);
  lmt_sm_advance (rig.sm, years);
  /* At the end of the lifetime 20 % go, twice, then the rest is below the watermark. */
  g_assert_cmpuint (lmt_sm_used_bytes (rig.sm), ==, 7 * KIB4);
  g_assert_cmpuint (lmt_sm_get_counters (rig.sm)->l1_passes, <, 10);
  g_assert_cmpuint (lmt_sm_get_counters (rig.sm)->l1_passes + lmt_sm_get_counters (rig.sm)->l1_passes_skipped, ==,
                    (guint64)(years / RIG_S));
  g_assert_cmpint (lmt_sm_next_due_ns (rig.sm), ==, G_MAXINT64);
  rig_write (&rig, 20, 3, KIB4);
  g_assert_cmpint (lmt_sm_next_due_ns (rig.sm), ==, years + RIG_S);
  rig_clear (&rig);
}

/* A victim that loses only its expired reservation makes way for the next one a second later, not when a lifetime ends. */
static void
test_pass_expired_staging (void)
{
  SmConfig config = rig_config (10 * KIB4, 1);
  Rig rig = { 0 };
  guint64 request;

  config.eviction_period_ns = RIG_S;
  config.eviction.watermark = 0.1;
  config.eviction.ratio = 0.1;
  config.write_ttl_s = 1;
  rig_init (&rig, &config);
  rig_reserve (&rig, 0, 1, KIB4, SM_WRITE_NEW);
  request = rig_prefetch (&rig, 0, 1, KIB4);
  rig_answer (&rig, rig_take (&rig, SM_IO_LOOKUP, 0, 1), "1");
  rig_answer (&rig, rig_take (&rig, SM_IO_LOAD, 0, 1), "1");
  g_assert_cmpuint (rig_result (&rig, request).n_hit, ==, 1);
  rig_take (&rig, SM_IO_UNLOCK, 0, 1);
  rig_write (&rig, 1, 1, KIB4);
  rig_answer (&rig, rig_take (&rig, SM_IO_STORE, 0, 1), "1");
  lmt_sm_advance (rig.sm, RIG_S);
  g_assert_cmpuint (rig_view (&rig, 0).n_staged, ==, 0); /* over at this very instant */
  g_assert_true (rig_view (&rig, 0).resident);
  g_assert_true (rig_view (&rig, 1).resident);
  g_assert_cmpint (lmt_sm_next_due_ns (rig.sm), ==, 2 * RIG_S);
  lmt_sm_advance (rig.sm, 2 * RIG_S);
  g_assert_false (rig_view (&rig, 1).resident);
  rig_clear (&rig);
}

/* What an adapter can't remove is not asked for again every second of a year. */
static void
test_pass_fruitless (void)
{
  SmConfig config = rig_config (10 * KIB4, 1);
  Rig rig = { .l2_eviction = { { TRUE, LMT_EVICT_LRU, 0.5, 0.5 } } };

  config.eviction_period_ns = RIG_S;
  rig_init (&rig, &config);
  lmt_sm_set_l2_capacity (rig.sm, 0, 2 * KIB4);
  rig_stored (&rig, 0, 0, 2, KIB4);
  lmt_sm_advance (rig.sm, RIG_S);
  rig_answer (&rig, rig_take (&rig, SM_IO_DELETE, 0, 1), "0");
  g_assert_cmpint (lmt_sm_next_due_ns (rig.sm), ==, 2 * RIG_S);
  lmt_sm_advance (rig.sm, 2 * RIG_S);
  rig_take_nothing (&rig);
  g_assert_cmpint (lmt_sm_next_due_ns (rig.sm), ==, G_MAXINT64);
  lmt_sm_advance (rig.sm, 1000000 * RIG_S);
  rig_take_nothing (&rig);
  rig_write (&rig, 5, 1, KIB4); /* something happened: it is tried again */
  rig_answer (&rig, rig_take (&rig, SM_IO_STORE, 0, 1), "0");
  lmt_sm_advance (rig.sm, 1000001 * RIG_S);
  rig_take (&rig, SM_IO_DELETE, 0, 1);
  rig_clear (&rig);
}

static void
test_collapse (void)
{
  SmConfig config = rig_config (10 * KIB4, 0);
  Rig rig = { 0 };

  config.eviction_period_ns = RIG_S;
  config.eviction.ratio = 0.1;
  config.collapse_passes = TRUE;
  rig_init (&rig, &config);
  rig_write (&rig, 0, 10, KIB4);
  lmt_sm_advance (rig.sm, 5 * RIG_S + 1);
  g_assert_cmpuint (lmt_sm_used_bytes (rig.sm), ==, 9 * KIB4);
  g_assert_cmpint (lmt_sm_next_due_ns (rig.sm), ==, 6 * RIG_S);
  rig_clear (&rig);
}

/* ---- why a cell was missed: 18.13 ---- */

static guint
only_cause (Rig *rig, guint first, guint n)
{
  SmPrefetchResult result = rig_result (rig, rig_prefetch (rig, first, n, KIB4));

  g_assert_cmpuint (result.n_hit, ==, 0);
  for (guint m = 0; m < SM_N_MISS; m++)
    if (result.misses[m] == n)
      return m;
  return SM_N_MISS;
}

static void
test_misses (void)
{
  SmConfig config = rig_config (8 * KIB4, 0);
  Rig rig = { 0 };
  SmPrefetchResult result;
  SmRow row = { .n = 4, .object_bytes = KIB4, .window = 1 };
  SmCall call = { .rows = &row, .n_rows = 1, .readers = 1, .look_l1 = TRUE };

  config.write_ttl_s = 10;
  config.eviction = (SmEviction){ TRUE, LMT_EVICT_LRU, 0.0, 1.0 };
  rig_init (&rig, &config);
  g_assert_cmpuint (only_cause (&rig, 0, 2), ==, SM_MISS_FIRST_TOUCH);
  row.keys = (LmtKey *[]){ rig.keys[8], rig.keys[8], rig.keys[9], rig.keys[8] };
  result = rig_result (&rig, rig_prefetch_call (&rig, &call));
  g_assert_cmpuint (result.misses[SM_MISS_FIRST_TOUCH], ==, 4);
  result = rig_result (&rig, rig_prefetch_call (&rig, &call));
  g_assert_cmpuint (result.misses[SM_MISS_NEVER_STORED], ==, 4);
  g_assert_cmpuint (only_cause (&rig, 0, 2), ==, SM_MISS_NEVER_STORED);
  rig_reserve (&rig, 0, 2, KIB4, SM_WRITE_NEW);
  g_assert_cmpuint (only_cause (&rig, 0, 2), ==, SM_MISS_NOT_YET_STORED);
  rig.now += 10 * RIG_S;
  g_assert_cmpuint (only_cause (&rig, 0, 2), ==, SM_MISS_EXPIRED);
  lmt_sm_evict_l1 (rig.sm, rig.now, NULL, NULL, NULL);
  g_assert_cmpuint (lmt_sm_used_bytes (rig.sm), ==, 0);
  g_assert_cmpuint (only_cause (&rig, 0, 2), ==, SM_MISS_EXPIRED);
  rig_write (&rig, 0, 2, KIB4);
  lmt_sm_evict_l1 (rig.sm, rig.now, NULL, NULL, NULL);
  g_assert_cmpuint (only_cause (&rig, 0, 2), ==, SM_MISS_EVICTED);
  rig_write (&rig, 0, 2, KIB4);
  rig_call (&rig, SM_OP_DELETE, 0, 2, FALSE);
  g_assert_cmpuint (only_cause (&rig, 0, 2), ==, SM_MISS_REMOVED);
  /* A hole breaks the prefix; a window needs its last chunks only. */
  rig_write (&rig, 1, 3, KIB4);
  result = rig_result (&rig, rig_prefetch (&rig, 0, 4, KIB4));
  g_assert_cmpuint (result.misses[SM_MISS_BROKEN_PREFIX], ==, 3);
  row.keys = rig.keys;
  result = rig_result (&rig, rig_prefetch_call (&rig, &call));
  g_assert_cmpuint (result.n_hit, ==, 1);
  g_assert_cmpuint (result.misses[SM_MISS_WINDOW], ==, 3);
  g_assert_cmpuint (lmt_sm_get_counters (rig.sm)->misses[SM_MISS_WINDOW], ==, 3);
  rig_clear (&rig);
}

static void
test_misses_l2 (void)
{
  SmConfig config = rig_config (2 * KIB4, 1);
  Rig rig = { .l2_eviction = { { TRUE, LMT_EVICT_LRU, 0.0, 1.0 } } };
  SmPrefetchResult result;
  guint64 request, size = KIB4;

  rig_init (&rig, &config);
  lmt_sm_set_l2_capacity (rig.sm, 0, KIB4 * 4);
  request = rig_prefetch (&rig, 0, 3, KIB4);
  rig_answer (&rig, rig_take (&rig, SM_IO_LOOKUP, 0, 3), "111");
  rig_take (&rig, SM_IO_UNLOCK, 0, 3);
  result = rig_result (&rig, request);
  g_assert_cmpuint (result.misses[SM_MISS_NO_MEMORY], ==, 3);
  request = rig_prefetch (&rig, 0, 2, KIB4);
  rig_answer (&rig, rig_take (&rig, SM_IO_LOOKUP, 0, 2), "11");
  rig_answer (&rig, rig_take (&rig, SM_IO_LOAD, 0, 2), "10");
  rig_take (&rig, SM_IO_UNLOCK, 0, 2);
  result = rig_result (&rig, request);
  g_assert_cmpuint (result.misses[SM_MISS_LOAD_FAILED], ==, 1);
  /* Evicted from L2 by us, or removed behind our back. */
  rig_stored (&rig, 0, 5, 1, KIB4);
  lmt_sm_evict_l2 (rig.sm, rig.now, NULL, NULL);
  rig_take (&rig, SM_IO_DELETE, 0, 1);
  lmt_sm_l2_event (rig.sm, rig.now, 0, 2, rig.keys + 5, &size, 1);
  rig_answer (&rig, rig.io.id, "1");
  rig_stored (&rig, 0, 6, 1, KIB4);
  lmt_sm_l2_event (rig.sm, rig.now, 0, 2, rig.keys + 6, &size, 1);
  request = rig_prefetch (&rig, 5, 2, KIB4);
  rig_answer (&rig, rig_take (&rig, SM_IO_LOOKUP, 0, 2), "00");
  result = rig_result (&rig, request);
  g_assert_cmpuint (result.misses[SM_MISS_EVICTED], ==, 1);
  g_assert_cmpuint (result.misses[SM_MISS_REMOVED], ==, 1);
  rig_clear (&rig);
}

/* ---- anomalies and the end ---- */

static void
test_foreign (void)
{
  SmConfig config = rig_config (16 * KIB4, 1);
  const SmCounters *counters;
  Rig rig = { 0 };
  SmResult result;
  guint32 store;

  rig_init (&rig, &config);
  counters = lmt_sm_get_counters (rig.sm);
  rig_write (&rig, 0, 1, KIB4);
  store = rig_take (&rig, SM_IO_STORE, 0, 1);
  result = rig_call (&rig, SM_OP_FINISH_READ, 0, 1, 1); /* the store's lock */
  g_assert_cmpuint (rig_code (&result, 0), ==, SM_SUCCESS);
  g_assert_cmpuint (counters->finish_read_foreign, ==, 1);
  rig_answer (&rig, store, "1");
  rig_prefetch (&rig, 0, 1, KIB4);
  rig_answer (&rig, rig_take (&rig, SM_IO_LOOKUP, 0, 1), "0");
  rig_call (&rig, SM_OP_FINISH_READ, 0, 1, 1);
  g_assert_cmpuint (counters->finish_read_foreign, ==, 1);
  rig_call (&rig, SM_OP_FINISH_READ, 0, 2, 1);
  g_assert_cmpuint (counters->finish_read_unlocked, ==, 1);
  g_assert_cmpuint (counters->finish_read_unknown, ==, 1);
  /* Enter while the prefetch runs. */
  rig_prefetch (&rig, 30, 1, KIB4);
  result = rig_call (&rig, SM_OP_READ_ENTER, 30, 2, 0);
  g_assert_false (result.good);
  g_assert_cmpuint (counters->read_too_early, ==, 1);
  g_assert_cmpuint (counters->read_unknown, ==, 1);
  rig_clear (&rig);
}

static void
test_leaks (void)
{
  SmConfig config = rig_config (16 * KIB4, 1);
  Rig rig = { 0 };
  guint64 locks, reservations, request;

  rig_init (&rig, &config);
  rig_reserve (&rig, 0, 3, KIB4, SM_WRITE_NEW);
  request = rig_prefetch (&rig, 10, 2, KIB4);
  rig_answer (&rig, rig_take (&rig, SM_IO_LOOKUP, 0, 2), "11");
  rig_answer (&rig, rig_take (&rig, SM_IO_LOAD, 0, 2), "11");
  g_assert_cmpuint (rig_result (&rig, request).n_l2_hit, ==, 2);
  g_assert_cmpuint (lmt_sm_used_bytes (rig.sm), ==, 5 * KIB4);
  lmt_sm_release_leaks (rig.sm, rig.now, &locks, &reservations);
  g_assert_cmpuint (locks, ==, 2);
  g_assert_cmpuint (reservations, ==, 3);
  g_assert_cmpuint (lmt_sm_used_bytes (rig.sm), ==, 0); /* what was loaded was temporary */
  rig_clear (&rig);
}

static void
test_close (void)
{
  SmConfig config = rig_config (16 * KIB4, 1);
  Rig rig = { 0 };
  SmResult result;
  guint32 load, store;

  config.prefetch_max_in_flight = 1;
  rig_init (&rig, &config);
  rig_write (&rig, 0, 1, KIB4);
  store = rig_take (&rig, SM_IO_STORE, 0, 1);
  rig_prefetch (&rig, 10, 1, KIB4);
  rig_answer (&rig, rig_take (&rig, SM_IO_LOOKUP, 0, 1), "1");
  load = rig_take (&rig, SM_IO_LOAD, 0, 1);
  rig_prefetch (&rig, 20, 1, KIB4);
  rig_take_nothing (&rig);
  lmt_sm_close (rig.sm, rig.now);
  lmt_sm_close (rig.sm, rig.now);
  result = rig_reserve (&rig, 30, 1, KIB4, SM_WRITE_NEW);
  g_assert_cmpstr (result.value_error, !=, NULL);
  g_assert_cmpuint (lmt_sm_prefetches_outstanding (rig.sm), ==, 0);
  g_assert_cmpuint (lmt_sm_used_bytes (rig.sm), ==, 2 * KIB4);
  rig_answer (&rig, load, "1");
  g_assert_cmpuint (lmt_sm_used_bytes (rig.sm), ==, KIB4);
  rig_take (&rig, SM_IO_UNLOCK, 0, 1);
  g_assert_cmpuint (lmt_sm_abandon (rig.sm), ==, 1);
  rig_no_result (&rig);
  lmt_sm_advance (rig.sm, 10 * RIG_S);
  (void)store;
  rig_clear (&rig);
}

static void
test_bad_answers (void)
{
  SmConfig config = rig_config (16 * KIB4, 1);
  const SmCounters *counters;
  Rig rig = { 0 };
  guint32 id;

  rig_init (&rig, &config);
  counters = lmt_sm_get_counters (rig.sm);
  rig_write (&rig, 0, 1, KIB4);
  id = rig_take (&rig, SM_IO_STORE, 0, 1);
  rig_answer (&rig, id + 7, "1");
  g_assert_cmpuint (counters->io_unknown, ==, 1);
  rig_answer (&rig, id, "1");
  rig_answer (&rig, id, "1"); /* twice */
  g_assert_cmpuint (counters->io_unknown, ==, 2);
  lmt_sm_accepted (rig.sm, rig.now, id);
  g_assert_cmpuint (counters->io_unknown, ==, 3);
  lmt_sm_l2_event (rig.sm, rig.now, 5, 0, rig.keys, NULL, 1); /* no such adapter */
  rig_clear (&rig);
}

static void
test_bad_config (void)
{
  SmConfig config = rig_config (16 * KIB4, 0);
  LmtKeyTable *table = lmt_key_table_new ();
  GError *error = NULL;

  config.align_bytes = 1000;
  g_assert_null (lmt_sm_new (&config, table, &error));
  g_assert_error (error, LMT_ERROR, LMT_ERROR_OPTION);
  g_assert_cmpstr (error->message, ==, "align_bytes: expected a power of two, found 1000");
  g_error_free (error);
  lmt_key_table_free (table);
}

static void
test_no_lifetimes (void)
{
  SmConfig config = rig_config (16 * KIB4, 0);
  Rig rig = { 0 };
  SmResult result;

  config.write_ttl_s = config.read_ttl_s = 0;
  rig_init (&rig, &config);
  result = rig_reserve (&rig, 0, 1, KIB4, SM_WRITE_NEW);
  g_assert_cmpuint (rig_code (&result, 0), ==, SM_SUCCESS);
  result = rig_call (&rig, SM_OP_FINISH_WRITE, 0, 1, 0);
  g_assert_cmpuint (rig_code (&result, 0), ==, SM_KEY_IN_WRONG_STATE);
  g_assert_cmpuint (lmt_sm_get_counters (rig.sm)->finish_expired, ==, 1);
  result = rig_reserve (&rig, 0, 1, KIB4, SM_WRITE_NEW);
  g_assert_cmpuint (rig_code (&result, 0), ==, SM_SUCCESS);
  g_assert_cmpuint (lmt_sm_get_counters (rig.sm)->takeovers, ==, 1);
  g_assert_cmpuint (lmt_sm_used_bytes (rig.sm), ==, KIB4);
  rig_clear (&rig);
}

static void
test_resize_out_of_memory (void)
{
  SmConfig config = rig_config (4 * KIB4, 0);
  Rig rig = { 0 };
  SmResult result;

  config.write_ttl_s = 1;
  rig_init (&rig, &config);
  rig_reserve (&rig, 0, 1, KIB4, SM_WRITE_NEW);
  rig.now = RIG_S;
  result = rig_reserve (&rig, 0, 1, 5 * KIB4, SM_WRITE_NEW);
  g_assert_cmpuint (rig_code (&result, 0), ==, SM_OUT_OF_MEMORY);
  g_assert_cmpuint (lmt_sm_used_bytes (rig.sm), ==, 0);
  g_assert_cmpuint (lmt_sm_staging_bytes (rig.sm), ==, 0);
  g_assert_cmpuint (rig_view (&rig, 0).n_staged, ==, 0);
  /* Sizes nobody has. */
  result = rig_reserve (&rig, 0, 2, G_MAXUINT64, SM_WRITE_NEW);
  g_assert_cmpuint (rig_code (&result, 1), ==, SM_OUT_OF_MEMORY);
  result = rig_reserve (&rig, 0, 2, 0, SM_WRITE_NEW);
  g_assert_cmpstr (result.value_error, ==, "size must be greater than 0");
  result = rig_reserve (&rig, 0, 0, 0, SM_WRITE_NEW);
  g_assert_cmpstr (result.value_error, ==, NULL);
  rig_clear (&rig);
}

static void
test_zero_size_prefetch (void)
{
  SmConfig config = rig_config (16 * KIB4, 1);
  Rig rig = { 0 };
  guint64 request;
  SmPrefetchResult result;

  rig_init (&rig, &config);
  request = rig_prefetch (&rig, 0, 2, 0);
  rig_answer (&rig, rig_take (&rig, SM_IO_LOOKUP, 0, 2), "11");
  rig_take (&rig, SM_IO_UNLOCK, 0, 2);
  result = rig_result (&rig, request);
  g_assert_cmpuint (result.code, ==, 1);
  g_assert_cmpuint (lmt_sm_get_counters (rig.sm)->requests_aborted, ==, 1);
  g_assert_true (lmt_sm_is_idle (rig.sm));
  rig_clear (&rig);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/manager/pin/store", test_pin_store);
  g_test_add_func ("/manager/pin/load", test_pin_load);
  g_test_add_func ("/manager/store/skip-l1-bits", test_skip_l1_bits);
  g_test_add_func ("/manager/store/skip-l1-retry", test_skip_l1_retry);
  g_test_add_func ("/manager/store/no-space", test_no_space_pass);
  g_test_add_func ("/manager/store/parts", test_parts);
  g_test_add_func ("/manager/evict/locked", test_locked_victims);
  g_test_add_func ("/manager/mode/update", test_mode_update);
  g_test_add_func ("/manager/mode/all", test_mode_all);
  g_test_add_func ("/manager/mode/abort", test_abort_write);
  g_test_add_func ("/manager/prefetch/mixed", test_mixed_row);
  g_test_add_func ("/manager/prefetch/warm", test_warm);
  g_test_add_func ("/manager/prefetch/watermark", test_watermark);
  g_test_add_func ("/manager/prefetch/zero-size", test_zero_size_prefetch);
  g_test_add_func ("/manager/deadline", test_deadline);
  g_test_add_func ("/manager/time/passes", test_passes);
  g_test_add_func ("/manager/time/years", test_years);
  g_test_add_func ("/manager/time/collapse", test_collapse);
  g_test_add_func ("/manager/time/expired-staging", test_pass_expired_staging);
  g_test_add_func ("/manager/time/fruitless", test_pass_fruitless);
  g_test_add_func ("/manager/misses/l1", test_misses);
  g_test_add_func ("/manager/misses/l2", test_misses_l2);
  g_test_add_func ("/manager/foreign", test_foreign);
  g_test_add_func ("/manager/leaks", test_leaks);
  g_test_add_func ("/manager/close", test_close);
  g_test_add_func ("/manager/bad/answers", test_bad_answers);
  g_test_add_func ("/manager/bad/config", test_bad_config);
  g_test_add_func ("/manager/lifetime/none", test_no_lifetimes);
  g_test_add_func ("/manager/resize/memory", test_resize_out_of_memory);
  return g_test_run ();
}
