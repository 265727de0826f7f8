/* SPDX-License-Identifier: Apache-2.0 */
#include "rig.h"

#include <string.h>

SmConfig
rig_config (guint64 size_bytes, guint n_l2)
{
  return (SmConfig){ .size_bytes = size_bytes,
                     .align_bytes = 4096,
                     .write_ttl_s = 600,
                     .read_ttl_s = 300,
                     .eviction = { TRUE, LMT_EVICT_LRU, 0.8, 0.2 },
                     .n_l2 = n_l2,
                     .prefetch_max_in_flight = 8,
                     .explain_misses = TRUE };
}

void
rig_init (Rig *rig, const SmConfig *config)
{
  SmConfig copy = *config;
  g_autoptr (GError) error = NULL;

  rig->table = lmt_key_table_new ();
  rig->now = 0;
  rig->n_extra = 0;
  for (guint i = 0; i < RIG_KEYS; i++)
    {
      guint8 hash[4] = { (guint8)(i >> 8), (guint8)i, 0, 7 };
      LmtKeyFields fields = { .struct_size = sizeof fields,
                              .rank = 0x01000100,
                              .hash = hash,
                              .hash_len = sizeof hash,
                              .model = "m",
                              .model_len = 1,
                              .salt = "" };

      rig->keys[i] = lmt_key_table_intern (rig->table, &fields);
    }
  copy.l2_eviction = rig->l2_eviction;
  rig->sm = lmt_sm_new (&copy, rig->table, &error);
  g_assert_no_error (error);
}

void
rig_clear (Rig *rig)
{
  lmt_sm_free (rig->sm);
  for (guint i = 0; i < RIG_KEYS; i++)
    {
      g_assert_cmpuint (rig->keys[i]->refs, ==, 1);
      lmt_key_unref (rig->table, rig->keys[i]);
    }
  for (guint i = 0; i < rig->n_extra; i++)
    {
      g_assert_cmpuint (rig->extra[i]->refs, ==, 1);
      lmt_key_unref (rig->table, rig->extra[i]);
    }
  g_assert_cmpuint (lmt_key_table_size (rig->table), ==, 0);
  lmt_key_table_free (rig->table);
}

LmtKey *
rig_key (Rig *rig, guint64 rank, guint32 group, const char *salt, guint8 hash)
{
  LmtKeyFields fields = { .struct_size = sizeof fields,
                          .rank = rank,
                          .group = group,
                          .hash = &hash,
                          .hash_len = 1,
                          .model = "m",
                          .model_len = 1,
                          .salt = salt,
                          .salt_len = (guint32)strlen (salt) };

  g_assert_cmpuint (rig->n_extra, <, RIG_KEYS);
  return rig->extra[rig->n_extra++] = lmt_key_table_intern (rig->table, &fields);
}

static SmResult
give (Rig *rig, const SmCall *call)
{
  SmResult result;

  lmt_sm_call (rig->sm, rig->now, call, &result);
  return result;
}

SmResult
rig_call (Rig *rig, guint op, guint first, guint n, guint32 value)
{
  SmCall call = { .op = op, .keys = rig->keys + first, .n_keys = n, .readers = value };

  call.force = op == SM_OP_DELETE || op == SM_OP_CLEAR ? (guint8)value : 0;
  return give (rig, &call);
}

SmResult
rig_reserve (Rig *rig, guint first, guint n, guint64 bytes, guint mode)
{
  return give (
      rig,
      &(SmCall){ .op = SM_OP_RESERVE_WRITE, .keys = rig->keys + first, .n_keys = n, .object_bytes = bytes, .write_mode = mode });
}

void
rig_write (Rig *rig, guint first, guint n, guint64 bytes)
{
  SmResult result = rig_reserve (rig, first, n, bytes, SM_WRITE_NEW);

  g_assert_cmpuint (result.n_good, ==, n);
  result = rig_call (rig, SM_OP_FINISH_WRITE, first, n, 0);
  g_assert_cmpuint (result.n_good, ==, n);
}

guint64
rig_prefetch_call (Rig *rig, SmCall *call)
{
  SmResult result;

  call->op = SM_OP_PREFETCH;
  result = give (rig, call);
  g_assert_cmpstr (result.value_error, ==, NULL);
  return result.request;
}

guint64
rig_prefetch (Rig *rig, guint first, guint n, guint64 bytes)
{
  SmRow row = { .keys = rig->keys + first, .n = n, .object_bytes = bytes, .window = -1 };
  SmCall call = { .rows = &row, .n_rows = 1, .readers = 1, .look_l1 = TRUE, .allow_l2 = TRUE };

  return rig_prefetch_call (rig, &call);
}

SmPrefetchResult
rig_result (Rig *rig, guint64 request)
{
  SmPrefetchResult result;
  guint misses = 0;

  g_assert_true (lmt_sm_next_result (rig->sm, &result));
  g_assert_cmpuint (result.request, ==, request);
  for (guint m = 0; m < SM_N_MISS; m++)
    misses += result.misses[m];
  g_assert_cmpuint (misses, ==, result.n_rows * result.n_columns - result.n_hit);
  return result;
}

void
rig_no_result (Rig *rig)
{
  SmPrefetchResult result;

  g_assert_false (lmt_sm_next_result (rig->sm, &result));
}

guint32
rig_take (Rig *rig, guint kind, guint adapter, guint n)
{
  g_assert_true (lmt_sm_take (rig->sm, &rig->io));
  g_assert_cmpuint (rig->io.kind, ==, kind);
  g_assert_cmpuint (rig->io.adapter, ==, adapter);
  g_assert_cmpuint (rig->io.n, ==, n);
  if (kind != SM_IO_UNLOCK)
    lmt_sm_accepted (rig->sm, rig->now, rig->io.id);
  return rig->io.id;
}

void
rig_take_nothing (Rig *rig)
{
  g_assert_false (lmt_sm_take (rig->sm, &rig->io));
}

void
rig_answer (Rig *rig, guint32 id, const char *bits)
{
  gsize n = strlen (bits);
  g_autofree guint8 *codes = g_malloc0 (n + 1);

  for (gsize i = 0; i < n; i++)
    codes[i] = bits[i] == '1' ? LMT_L2_OK : bits[i] == 's' ? LMT_L2_NO_SPACE : LMT_L2_NOT_FOUND;
  lmt_sm_completed (rig->sm, rig->now, id, codes, 0);
}

void
rig_stored (Rig *rig, guint adapter, guint first, guint n, guint64 bytes)
{
  g_autofree guint64 *sizes = g_new (guint64, n);

  for (guint i = 0; i < n; i++)
    sizes[i] = bytes;
  lmt_sm_l2_event (rig->sm, rig->now, adapter, 0, rig->keys + first, sizes, n);
}

SmKeyView
rig_view (Rig *rig, guint key)
{
  SmKeyView view;

  lmt_sm_view (rig->sm, rig->now, rig->keys[key], &view);
  return view;
}

guint8
rig_code (const SmResult *result, guint i)
{
  g_assert_nonnull (result->codes);
  g_assert_cmpuint (i, <, result->n);
  return result->codes[i];
}
