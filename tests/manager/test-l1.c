/* SPDX-License-Identifier: Apache-2.0 */
#include "rig.h"

/* L1 alone, where the recorded runs of kind l1_manager end: wrapping marks, keys that die and come back, many tags, the history.
 */

#define KIB4 G_GUINT64_CONSTANT (4096)

static void
test_marks_wrap (void)
{
  SmConfig config = rig_config (64 * KIB4, 0);
  Rig rig = { 0 };
  LmtKey *twice[3];
  SmResult result;

  rig_init (&rig, &config);
  rig_write (&rig, 0, 2, KIB4);
  rig.sm->next_mark = G_MAXUINT32 - 4; /* the next calls pass the end */
  twice[0] = twice[2] = rig.keys[5];
  twice[1] = rig.keys[6];
  for (guint i = 0; i < 6; i++)
    {
      SmCall call = { .op = SM_OP_RESERVE_WRITE, .keys = twice, .n_keys = 3, .object_bytes = KIB4 };

      lmt_sm_call (rig.sm, 0, &call, &result);
      g_assert_cmpuint (rig_code (&result, 0), ==, SM_SUCCESS);
      g_assert_cmpuint (result.addresses[0], ==, result.addresses[2]);
      g_assert_cmpuint (lmt_sm_used_bytes (rig.sm), ==, 4 * KIB4);
      rig_call (&rig, SM_OP_ABORT_WRITE, 5, 2, 0);
      g_assert_cmpuint (lmt_sm_used_bytes (rig.sm), ==, 2 * KIB4);
    }
  rig_clear (&rig);
}

/* The number of a dead key is given again: nothing of the old one may show. */
static void
test_number_again (void)
{
  SmConfig config = rig_config (64 * KIB4, 0);
  Rig rig = { 0 };
  guint32 id = 0;

  rig_init (&rig, &config);
  for (guint8 i = 0; i < 20; i++)
    {
      guint8 hash[2] = { i, 99 };
      LmtKeyFields fields
          = { .struct_size = sizeof fields, .hash = hash, .hash_len = 2, .model = "m", .model_len = 1, .salt = "" };
      LmtKey *key = lmt_key_table_intern (rig.table, &fields);
      SmRow row = { .keys = &key, .n = 1, .object_bytes = KIB4, .window = -1 };
      SmCall call = { .rows = &row, .n_rows = 1, .readers = 1, .look_l1 = TRUE };
      SmPrefetchResult result;
      SmResult answer;

      if (i > 0)
        g_assert_cmpuint (key->id, ==, id);
      id = key->id;
      result = rig_result (&rig, rig_prefetch_call (&rig, &call));
      g_assert_cmpuint (result.misses[SM_MISS_FIRST_TOUCH], ==, 1);
      lmt_sm_call (rig.sm, 0, &(SmCall){ .op = SM_OP_RESERVE_WRITE, .keys = &key, .n_keys = 1, .object_bytes = KIB4 }, &answer);
      lmt_sm_call (rig.sm, 0, &(SmCall){ .op = SM_OP_FINISH_WRITE, .keys = &key, .n_keys = 1 }, &answer);
      g_assert_cmpuint (answer.n_good, ==, 1);
      lmt_sm_call (rig.sm, 0, &(SmCall){ .op = SM_OP_DELETE, .keys = &key, .n_keys = 1 }, &answer);
      g_assert_cmpuint (answer.deleted, ==, 1);
      g_assert_cmpuint (key->refs, ==, 1);
      lmt_key_unref (rig.table, key);
    }
  rig_clear (&rig);
}

static void
test_many_tags (void)
{
  SmConfig config = rig_config (64 * KIB4, 0);
  Rig rig = { 0 };
  guint8 code;
  guint64 address;

  rig_init (&rig, &config);
  sm_enter (rig.sm, 0);
  for (guint64 tag = 0; tag < 20; tag++)
    {
      SmReserve reserve = { .keys = rig.keys, .n = 1, .bytes = KIB4, .tag = tag };

      g_assert_null (sm_l1_reserve_write (rig.sm, &reserve, &code, &address));
      g_assert_cmpuint (code, ==, SM_SUCCESS);
      g_assert_cmpuint (address, ==, tag * KIB4);
    }
  g_assert_cmpuint (rig_view (&rig, 0).n_staged, ==, 20);
  for (guint64 tag = 20; tag-- > 0;)
    sm_l1_finish_write (rig.sm, rig.keys, 1, tag, &code);
  g_assert_cmpuint (rig_view (&rig, 0).address, ==, 19 * KIB4); /* the first to finish stays */
  g_assert_cmpuint (lmt_sm_used_bytes (rig.sm), ==, KIB4);
  rig_clear (&rig);
}

static void
test_clamp (void)
{
  SmConfig config = rig_config (64 * KIB4, 0);
  Rig rig = { 0 };
  guint8 code;

  rig_init (&rig, &config);
  rig_write (&rig, 0, 1, KIB4);
  sm_l1_reserve_read (rig.sm, rig.keys, 1, 100000, &code);
  g_assert_cmpuint (rig_view (&rig, 0).read_locks, ==, SM_MAX_READERS);
  sm_l1_finish_read (rig.sm, rig.keys, 1, 0, FALSE, &code);
  g_assert_cmpuint (rig_view (&rig, 0).read_locks, ==, SM_MAX_READERS - 1);
  rig_clear (&rig);
}

static void
test_history (void)
{
  SmHistory *history = sm_history_new ();

  for (guint64 i = 1; i <= 100000; i++)
    {
      guint64 hash = i * G_GUINT64_CONSTANT (0x9E3779B97F4A7C15);

      g_assert_cmpuint (sm_history_get (history, hash), ==, SM_PAST_UNSEEN);
      g_assert_cmpuint (sm_history_name (history, hash), ==, SM_PAST_UNSEEN);
      g_assert_cmpuint (sm_history_name (history, hash), ==, SM_PAST_NAMED);
      if (i % 3 == 0)
        sm_history_set (history, hash, SM_PAST_EVICTED);
    }
  for (guint64 i = 1; i <= 100000; i++)
    g_assert_cmpuint (sm_history_get (history, i * G_GUINT64_CONSTANT (0x9E3779B97F4A7C15)), ==,
                      i % 3 == 0 ? SM_PAST_EVICTED : SM_PAST_NAMED);
  g_assert_cmpuint (sm_history_size (history), ==, 100000);
  sm_history_free (history);
}

static void
test_history_full (void)
{
  SmHistory *history = sm_history_new ();
  guint64 i = 1;

  while (sm_history_name (history, i * G_GUINT64_CONSTANT (0x9E3779B97F4A7C15)) == SM_PAST_UNSEEN)
    i++;
  g_assert_cmpuint (sm_history_size (history), ==, 4 << 20);
  g_assert_cmpuint (i, ==, (4 << 20) + 1);
  g_assert_cmpuint (sm_history_get (history, i * G_GUINT64_CONSTANT (0x9E3779B97F4A7C15)), ==, SM_PAST_FULL);
  g_assert_cmpuint (sm_history_get (history, G_GUINT64_CONSTANT (0x9E3779B97F4A7C15)), ==, SM_PAST_NAMED);
  sm_history_free (history);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/l1/marks-wrap", test_marks_wrap);
  g_test_add_func ("/l1/number-again", test_number_again);
  g_test_add_func ("/l1/many-tags", test_many_tags);
  g_test_add_func ("/l1/clamp", test_clamp);
  g_test_add_func ("/l1/history", test_history);
  g_test_add_func ("/l1/history-full", test_history_full);
  return g_test_run ();
}
