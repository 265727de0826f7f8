/* SPDX-License-Identifier: Apache-2.0 */
#include <lmtrace/lmt-codec.h>

/* Bytes in the order of their places: the formatter would put each piece on a line of its own. */
/* clang-format off */
typedef struct
{
  const char *bytes;
  gsize len;
  gint result;
  const char *tag;     /* of 1 */
  gsize payload;       /* its length */
  const char *problem; /* of -1 */
} Row;
#define TAG "\xa5" "__t__"
#define ROW(bytes, ...) { bytes, sizeof (bytes) - 1, __VA_ARGS__ }

static const Row rows[] = {
  ROW ("\x82" TAG "\xa3" "Abc" "\xa1" "v" "\x92\x01\x02", 1, "Abc", 3, NULL),
  ROW ("\x82" "\xa1" "v" "\x92\x01\x02" TAG "\xa3" "Abc", 1, "Abc", 3, NULL),
  ROW ("\x83" TAG "\xa3" "Abc" "\xa1" "x" "\x91\xc0" "\xa1" "v" "\xc0", 1, "Abc", 1, NULL),
  ROW ("\x82" TAG "\xd9\x03" "Abc" "\xa1" "v" "\x01", 1, "Abc", 1, NULL),
  ROW ("\x83" TAG "\xa1" "X" TAG "\xa3" "Abc" "\xa1" "v" "\x01", 1, "Abc", 1, NULL), /* the last one counts */
  ROW ("\x82" "\x01\x02" TAG "\xc0", 0, NULL, 0, NULL),                              /* nil: an ordinary map */
  ROW ("\x81\xa1" "v" "\x01", 0, NULL, 0, NULL),
  ROW ("\x80", 0, NULL, 0, NULL),
  ROW ("\x91\x01", 0, NULL, 0, NULL),
  ROW ("\xa3" "Abc", 0, NULL, 0, NULL),
  ROW ("\x81" TAG "\xa3" "Abc", -1, NULL, 0, "tagged value without v"),
  ROW ("\x82" TAG "\x05" "\xa1" "v" "\x01", -1, NULL, 0, "tag is no str"),
  ROW ("\x82" TAG "\xa3" "Abc" "\xa1" "v" "\xc1", -1, NULL, 0, "invalid-msgpack"),
};

/* clang-format on */

static void
test_unwrap (gconstpointer data)
{
  const Row *row = data;
  guint8 *copy = g_memdup2 (row->bytes, row->len);
  LmtCursor cursor;
  LmtSpan tag = { 0 }, payload = { 0 };
  LmtFault fault = { 0 };

  lmt_cursor_init (&cursor, (LmtSpan){ copy, row->len });
  g_assert_cmpint (lmt_codec_unwrap (&cursor, &tag, &payload, &fault), ==, row->result);
  if (row->result == 1)
    {
      g_assert_cmpmem (tag.data, tag.len, row->tag, strlen (row->tag));
      g_assert_cmpuint (payload.len, ==, row->payload);
      g_assert_true (lmt_cursor_at_end (&cursor));
    }
  else
    g_assert_true (cursor.pos == copy);
  if (row->result == -1)
    g_assert_cmpstr (fault.reason, ==, row->problem);
  g_free (copy);
}

/* clang-format off */
static const struct
{
  const char *bytes;
  gsize len;
  const char *json;
} texts[] = {
#define TEXT(bytes, json) { bytes, sizeof (bytes) - 1, json }
  TEXT ("\xc0", "null"),
  TEXT ("\xc3", "true"),
  TEXT ("\xcf\xff\xff\xff\xff\xff\xff\xff\xff", "18446744073709551615"),
  TEXT ("\xd3\x80\x00\x00\x00\x00\x00\x00\x00", "-9223372036854775808"),
  TEXT ("\xcb\x3f\xf8\x00\x00\x00\x00\x00\x00", "1.5"),
  TEXT ("\xcb\x7f\xf8\x00\x00\x00\x00\x00\x00", "null"),
  TEXT ("\xcb\xff\xf0\x00\x00\x00\x00\x00\x00", "null"),
  TEXT ("\xa3" "a\"\n", "\"a\\\"\\n\""),
  TEXT ("\xc4\x03\x00\xab\xff", "\"0x00abff\""),
  TEXT ("\xd5\x07\x01\x02", "{\"__ext__\":7,\"v\":\"0x0102\"}"),
  TEXT ("\x90", "[]"),
  TEXT ("\x80", "{}"),
  TEXT ("\x93\x01\x92\x02\x90\x80", "[1,[2,[]],{}]"),
  TEXT ("\x82\xa1" "a" "\x81\xa1" "b" "\x01\xa1" "c" "\x90", "{\"a\":{\"b\":1},\"c\":[]}"),
  TEXT ("\x84\x05\x01\xff\x02\xc4\x01\xee\x03\x92\x01\x02\x04", "{\"5\":1,\"-1\":2,\"0xee\":3,\"0x920102\":4}"),
  TEXT ("\x82" TAG "\xa1" "T" "\xa1" "v" "\x01", "{\"__t__\":\"T\",\"v\":1}"),
};

/* clang-format on */

static void
test_to_json (void)
{
  for (guint i = 0; i < G_N_ELEMENTS (texts); i++)
    {
      g_autoptr (GString) out = g_string_new (NULL);

      lmt_value_to_json ((LmtSpan){ (const guint8 *)texts[i].bytes, texts[i].len }, out);
      g_assert_cmpstr (out->str, ==, texts[i].json);
    }
}

/* As deep as the reader lets anything through. */
static void
test_deep_json (void)
{
  g_autoptr (GByteArray) bytes = g_byte_array_new ();
  g_autoptr (GString) out = g_string_new (NULL);

  for (guint i = 0; i + 1 < LMT_CURSOR_MAX_DEPTH; i++)
    g_byte_array_append (bytes, (const guint8 *)"\x91", 1);
  g_byte_array_append (bytes, (const guint8 *)"\x90", 1);
  lmt_value_to_json ((LmtSpan){ bytes->data, bytes->len }, out);
  g_assert_cmpuint (out->len, ==, 2 * LMT_CURSOR_MAX_DEPTH);
  g_assert_true (g_str_has_suffix (out->str, "]]]]"));
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autofree char *path = g_strdup_printf ("/codec/unwrap/%u", i);

      g_test_add_data_func (path, &rows[i], test_unwrap);
    }
  g_test_add_func ("/codec/to-json", test_to_json);
  g_test_add_func ("/codec/deep-json", test_deep_json);
  return g_test_run ();
}
