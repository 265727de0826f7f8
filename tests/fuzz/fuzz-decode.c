/* SPDX-License-Identifier: Apache-2.0 */
/* A record's arguments as each of the calls: what decodes is a whole call, what doesn't says where and why, nothing is held. */
#include "fuzz.h"

#include "storage-codecs.h"

static void
check_rows (const SmCall *call, const guint32 *flat, guint n_flat)
{
  guint64 cells = 0;

  for (guint32 r = 0; r < call->n_rows; r++)
    {
      const SmRow *row = &call->rows[r];

      g_assert_cmpuint (row->n, ==, call->rows[0].n);
      g_assert_true (row->window == -1 || row->window >= 1);
      for (guint32 i = 0; i < row->n; i++)
        g_assert_cmpuint (row->keys[i]->refs, >=, 1);
      if (row->cell_bytes != NULL)
        g_assert_cmpuint (row->cell_bytes[0], ==, row->object_bytes);
      cells += row->n;
    }
  if (flat == NULL)
    return;
  /* Every cell once. */
  g_assert_cmpuint (cells, ==, n_flat);
  g_autofree guint8 *seen = g_new0 (guint8, (gsize)n_flat + 1);
  for (guint i = 0; i < n_flat; i++)
    {
      g_assert_cmpuint (flat[i], <, n_flat);
      g_assert_cmpuint (seen[flat[i]]++, ==, 0);
    }
}

/* A decoder that knows lists from before says what one that knows none says; and that one, freed, holds no key of a record it
 * took or refused. */
static void
check_fresh (SmDecoder *used, guint32 op, const LmtRecord *record)
{
  g_autoptr (LmtKeyTable) keys = lmt_key_table_new ();
  SmDecoder *fresh = sm_decoder_new (keys);
  SmCall call, again;
  gboolean missing, missing_again;
  LmtFault fault = { 0 };
  gboolean taken = sm_decoder_decode (fresh, op, record, &call, &missing, &fault);

  g_assert_cmpint (sm_decoder_decode (used, op, record, &again, &missing_again, &fault), ==, taken);
  g_assert_cmpint (missing, ==, missing_again);
  if (taken)
    {
      g_assert_cmpuint (call.n_keys, ==, again.n_keys);
      g_assert_cmpuint (call.n_rows, ==, again.n_rows);
      for (guint32 i = 0; i < call.n_keys; i++)
        g_assert_cmpstr (lmt_key_wire (call.keys[i]), ==, lmt_key_wire (again.keys[i]));
    }
  sm_decoder_free (fresh);
  g_assert_cmpuint (lmt_key_table_size (keys), ==, 0);
}

int
LLVMFuzzerTestOneInput (const guint8 *data, gsize size)
{
  LmtRecord record = { .number = 1 };
  LmtFault fault = { 0 };

  if (!lmt_record_split ((LmtSpan){ data, size }, &record, &fault))
    return 0;
  g_autoptr (LmtKeyTable) keys = lmt_key_table_new ();
  SmDecoder *decoder = sm_decoder_new (keys);
  for (guint32 op = SM_OP_RESERVE_WRITE; op <= SM_OP_FINISH_READ; op++)
    {
      SmCall call;
      gboolean missing;
      guint n_flat = 0;

      check_fresh (decoder, op, &record);
      if (sm_decoder_decode (decoder, op, &record, &call, &missing, &fault))
        {
          for (guint32 i = 0; i < call.n_keys; i++)
            {
              g_assert_cmpuint (call.keys[i]->refs, >=, 1);
              g_assert_null (lmt_key_fields_check (&call.keys[i]->fields));
            }
          if (op == SM_OP_PREFETCH)
            {
              const guint32 *flat = sm_decoder_get_flat (decoder, &n_flat);
              check_rows (&call, flat, n_flat);
            }
          if (op == SM_OP_PREFETCH || op == SM_OP_FINISH_READ)
            g_assert_true (call.readers >= 1 && call.readers <= 128);
          continue;
        }
      g_autofree char *text = lmt_fault_to_string (&fault);
      g_assert_nonnull (fault.reason);
      g_assert_nonnull (fault.where);
      g_assert_true (g_utf8_validate (text, -1, NULL));
    }
  sm_decoder_free (decoder);
  g_assert_cmpuint (lmt_key_table_size (keys), ==, 0);
  return 0;
}
