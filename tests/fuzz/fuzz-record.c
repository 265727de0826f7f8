/* SPDX-License-Identifier: Apache-2.0 */
/* A record's body: what is taken is valid as a whole, is written again as the same record, and shown as JSON. */
#include "fuzz.h"

#include "lmt-shape-private.h"

static void
unwrap_all (LmtSpan args)
{
  LmtCursor cursor;
  LmtToken token;
  LmtFault fault;

  lmt_cursor_init (&cursor, args);
  while (!lmt_cursor_at_end (&cursor))
    {
      LmtCursor at = cursor;
      LmtSpan tag, payload;

      if (lmt_codec_unwrap (&at, &tag, &payload, &fault) == 1)
        g_assert_true (payload.len > 0 && payload.data >= args.data && payload.data + payload.len <= args.data + args.len);
      g_assert_true (lmt_cursor_next (&cursor, &token) != LMT_TYPE_ERROR);
    }
}

int
LLVMFuzzerTestOneInput (const guint8 *data, gsize size)
{
  static const char *const known[]
      = { "empty-frame", "invalid-msgpack", "invalid-utf8", "trailing-bytes", "too-deep",   "not-a-map",
          "bad-key",     "header-frame",    "wrong-tag",    "missing-field",  "wrong-type", NULL };
  LmtSpan body = { data, size };
  LmtRecord record = { 0 }, again = { 0 };
  LmtFault fault = { 0 };
  g_autoptr (GByteArray) frame = NULL;
  g_autoptr (GString) json = NULL;
  LmtShapes *shapes;

  if (!lmt_record_split (body, &record, &fault))
    {
      g_assert_true (g_strv_contains (known, fault.reason));
      g_assert_true (g_utf8_validate (fault.detail, -1, NULL));
      return 0;
    }
  g_assert_true (lmt_cursor_check (body, &fault));
  g_assert_true (lmt_cursor_check (record.args, &fault));
  frame = g_byte_array_new ();
  lmt_record_encode (record.t_mono, record.t_wall, record.qualname, record.args, frame);
  g_assert_true (lmt_record_split ((LmtSpan){ frame->data + 4, frame->len - 4 }, &again, &fault));
  g_assert_true (memcmp (&again.t_mono, &record.t_mono, sizeof (double)) == 0);
  g_assert_cmpmem (again.qualname.data, again.qualname.len, record.qualname.data, record.qualname.len);
  g_assert_cmpmem (again.args.data, again.args.len, record.args.data, record.args.len);
  shapes = lmt_shapes_new ();
  lmt_shapes_learn (shapes, body, &record);
  if (lmt_shapes_match (shapes, body, &again))
    g_assert_true (again.args.data == record.args.data && again.args.len == record.args.len);
  lmt_shapes_free (shapes);
  json = g_string_new (NULL);
  lmt_value_to_json (record.args, json);
  g_assert_true (g_utf8_validate (json->str, (gssize)json->len, NULL));
  unwrap_all (record.args);
  return 0;
}
