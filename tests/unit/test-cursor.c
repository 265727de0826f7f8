/* SPDX-License-Identifier: Apache-2.0 */
#include <lmtrace/lmt-cursor.h>

#include <math.h>

static LmtSpan
span (const void *data, gsize len)
{
  return (LmtSpan){ data, len };
}
#define BYTES(...) span ((const guint8[]){ __VA_ARGS__ }, sizeof ((const guint8[]){ __VA_ARGS__ }))

/* One head of each kind with what it must read as. */
static void
test_tokens (void)
{
  static const struct
  {
    guint8 bytes[16];
    guint8 len;
    guint32 type;
    guint64 u; /* UINT, INT (two's complement), BOOL, count, span length */
    double f;
  } rows[] = {
    { { 0x00 }, 1, LMT_TYPE_UINT, 0, 0 },
    { { 0x7f }, 1, LMT_TYPE_UINT, 127, 0 },
    { { 0xcc, 0xff }, 2, LMT_TYPE_UINT, 255, 0 },
    { { 0xcd, 0x01, 0x02 }, 3, LMT_TYPE_UINT, 0x102, 0 },
    { { 0xce, 1, 2, 3, 4 }, 5, LMT_TYPE_UINT, 0x01020304, 0 },
    { { 0xcf, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff }, 9, LMT_TYPE_UINT, G_MAXUINT64, 0 },
    { { 0xff }, 1, LMT_TYPE_INT, (guint64)-1, 0 },
    { { 0xe0 }, 1, LMT_TYPE_INT, (guint64)-32, 0 },
    { { 0xd0, 0x80 }, 2, LMT_TYPE_INT, (guint64)-128, 0 },
    { { 0xd0, 0x05 }, 2, LMT_TYPE_UINT, 5, 0 },
    { { 0xd1, 0x80, 0x00 }, 3, LMT_TYPE_INT, (guint64)-32768, 0 },
    { { 0xd2, 0x80, 0, 0, 0 }, 5, LMT_TYPE_INT, (guint64)G_MININT32, 0 },
    { { 0xd3, 0x80, 0, 0, 0, 0, 0, 0, 0 }, 9, LMT_TYPE_INT, (guint64)G_MININT64, 0 },
    { { 0xd3, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff }, 9, LMT_TYPE_UINT, G_MAXINT64, 0 },
    { { 0xca, 0x3f, 0xc0, 0, 0 }, 5, LMT_TYPE_FLOAT, 0, 1.5 },
    { { 0xcb, 0xbf, 0xf8, 0, 0, 0, 0, 0, 0 }, 9, LMT_TYPE_FLOAT, 0, -1.5 },
    { { 0xc0 }, 1, LMT_TYPE_NIL, 0, 0 },
    { { 0xc2 }, 1, LMT_TYPE_BOOL, 0, 0 },
    { { 0xc3 }, 1, LMT_TYPE_BOOL, 1, 0 },
    { { 0xa2, 'o', 'k' }, 3, LMT_TYPE_STR, 2, 0 },
    { { 0xd9, 2, 'o', 'k' }, 4, LMT_TYPE_STR, 2, 0 },
    { { 0xda, 0, 2, 'o', 'k' }, 5, LMT_TYPE_STR, 2, 0 },
    { { 0xdb, 0, 0, 0, 2, 'o', 'k' }, 7, LMT_TYPE_STR, 2, 0 },
    { { 0xc4, 1, 9 }, 3, LMT_TYPE_BIN, 1, 0 },
    { { 0xc5, 0, 1, 9 }, 4, LMT_TYPE_BIN, 1, 0 },
    { { 0xc6, 0, 0, 0, 1, 9 }, 6, LMT_TYPE_BIN, 1, 0 },
    { { 0xd4, 5, 9 }, 3, LMT_TYPE_EXT, 1, 0 },
    { { 0xd5, 5, 9, 9 }, 4, LMT_TYPE_EXT, 2, 0 },
    { { 0xd6, 5, 9, 9, 9, 9 }, 6, LMT_TYPE_EXT, 4, 0 },
    { { 0xd7, 5, 1, 2, 3, 4, 5, 6, 7, 8 }, 10, LMT_TYPE_EXT, 8, 0 },
    { { 0xc7, 2, 5, 9, 9 }, 5, LMT_TYPE_EXT, 2, 0 },
    { { 0xc8, 0, 0, 5 }, 4, LMT_TYPE_EXT, 0, 0 },
    { { 0xc9, 0, 0, 0, 1, 5, 9 }, 7, LMT_TYPE_EXT, 1, 0 },
    { { 0x91, 0 }, 1, LMT_TYPE_ARRAY, 1, 0 },
    { { 0xdc, 0, 1, 0 }, 3, LMT_TYPE_ARRAY, 1, 0 },
    { { 0xdd, 0, 0, 0, 1, 0 }, 5, LMT_TYPE_ARRAY, 1, 0 },
    { { 0x81, 0, 0 }, 1, LMT_TYPE_MAP, 1, 0 },
    { { 0xde, 0, 1, 0, 0 }, 3, LMT_TYPE_MAP, 1, 0 },
    { { 0xdf, 0, 0, 0, 1, 0, 0 }, 5, LMT_TYPE_MAP, 1, 0 },
  };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      gsize behind = rows[i].type == LMT_TYPE_ARRAY ? 1 : rows[i].type == LMT_TYPE_MAP ? 2 : 0;
      LmtCursor cursor;
      LmtToken token = { 0 };

      lmt_cursor_init (&cursor, span (rows[i].bytes, rows[i].len + behind));
      g_assert_cmpint ((gint)lmt_cursor_peek (&cursor), ==, (gint)rows[i].type);
      g_assert_true (cursor.pos == rows[i].bytes);
      g_assert_cmpint ((gint)lmt_cursor_next (&cursor, &token), ==, (gint)rows[i].type);
      g_assert_true (cursor.pos == rows[i].bytes + rows[i].len);
      switch (rows[i].type)
        {
        case LMT_TYPE_UINT:
        case LMT_TYPE_INT:
          g_assert_cmpuint (token.v.u, ==, rows[i].u);
          break;
        case LMT_TYPE_FLOAT:
          g_assert_cmpfloat (token.v.f, ==, rows[i].f);
          break;
        case LMT_TYPE_BOOL:
          g_assert_cmpuint ((guint64)token.v.b, ==, rows[i].u);
          break;
        case LMT_TYPE_ARRAY:
        case LMT_TYPE_MAP:
          g_assert_cmpuint (token.count, ==, rows[i].u);
          break;
        case LMT_TYPE_STR:
        case LMT_TYPE_BIN:
        case LMT_TYPE_EXT:
          g_assert_cmpuint (token.span.len, ==, rows[i].u);
          g_assert_true (token.span.data + token.span.len == cursor.pos);
          if (rows[i].type == LMT_TYPE_EXT)
            g_assert_cmpint (token.ext_type, ==, 5);
          break;
        default:
          break;
        }
      /* A byte less and nothing is read, and the cursor stays. */
      for (gsize len = 0; len < rows[i].len + behind; len++)
        {
          guint8 *copy = g_memdup2 (rows[i].bytes, MAX (len, 1)); /* exactly so long, for the address sanitizer */

          lmt_cursor_init (&cursor, span (copy, len));
          g_assert_cmpint ((gint)lmt_cursor_next (&cursor, &token), ==, len == 0 ? LMT_TYPE_NONE : LMT_TYPE_ERROR);
          g_assert_true (cursor.pos == copy);
          g_free (copy);
        }
    }
}

static void
test_typed_reads (void)
{
  LmtSpan all = BYTES (0x82, 0x93, 0xa1, 'x', 0xc4, 1, 7, 0xc0, 0xff, 0xc3, 0xcb, 0x3f, 0xf0, 0, 0, 0, 0, 0, 0);
  LmtCursor cursor;
  guint32 n;
  LmtSpan text;
  guint64 u;
  gint64 i;
  gboolean b;
  double f;

  lmt_cursor_init (&cursor, all);
  g_assert_false (lmt_cursor_read_array (&cursor, &n));
  g_assert_true (lmt_cursor_read_map (&cursor, &n));
  g_assert_cmpuint (n, ==, 2);
  g_assert_false (lmt_cursor_read_map (&cursor, &n));
  g_assert_true (lmt_cursor_read_array (&cursor, &n));
  g_assert_cmpuint (n, ==, 3);
  g_assert_false (lmt_cursor_read_bin (&cursor, &text));
  g_assert_true (lmt_cursor_read_str (&cursor, &text));
  g_assert_true (LMT_SPAN_IS (text, "x"));
  g_assert_false (lmt_cursor_read_str (&cursor, &text));
  g_assert_true (lmt_cursor_read_bin (&cursor, &text));
  g_assert_cmpuint (text.data[0], ==, 7);
  g_assert_false (lmt_cursor_read_bool (&cursor, &b));
  g_assert_true (lmt_cursor_read_nil (&cursor));
  g_assert_false (lmt_cursor_read_nil (&cursor));
  g_assert_false (lmt_cursor_read_uint (&cursor, &u));
  g_assert_true (lmt_cursor_read_int (&cursor, &i));
  g_assert_cmpint (i, ==, -1);
  g_assert_false (lmt_cursor_read_double (&cursor, &f)); /* a bool is no number */
  g_assert_true (lmt_cursor_read_bool (&cursor, &b));
  g_assert_true (b);
  g_assert_true (lmt_cursor_read_double (&cursor, &f));
  g_assert_cmpfloat (f, ==, 1.0);
  g_assert_true (lmt_cursor_at_end (&cursor));

  lmt_cursor_init (&cursor, BYTES (0xcf, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff));
  g_assert_false (lmt_cursor_read_int (&cursor, &i));
  g_assert_true (lmt_cursor_read_double (&cursor, &f));
  g_assert_cmpfloat (f, ==, 18446744073709551616.0);
}

static void
check (LmtSpan bytes, const char *reason, const char *detail)
{
  guint8 *copy = g_memdup2 (bytes.data, MAX (bytes.len, 1));
  LmtFault fault = { 0 };

  if (reason == NULL)
    g_assert_true (lmt_cursor_check (span (copy, bytes.len), &fault));
  else
    {
      g_assert_false (lmt_cursor_check (span (copy, bytes.len), &fault));
      g_assert_cmpstr (fault.reason, ==, reason);
      g_assert_cmpstr (fault.detail, ==, detail);
    }
  g_free (copy);
}

static void
test_check (void)
{
  check (span ("", 0), "empty-frame", "");
  check (BYTES (0xc1), "invalid-msgpack", "reserved byte c1 at byte 0");
  check (BYTES (0x92, 0x01, 0xc1), "invalid-msgpack", "reserved byte c1 at byte 2");
  check (BYTES (0x01, 0x02), "trailing-bytes", "1 bytes after the value");
  check (BYTES (0xdd, 0xff, 0xff, 0xff, 0xff), "invalid-msgpack", "array of 4294967295 in 0 bytes");
  check (BYTES (0xdf, 0x80, 0, 0, 0, 0, 0), "invalid-msgpack", "map of 2147483648 in 2 bytes");
  check (BYTES (0xc6, 0xff, 0xff, 0xff, 0xff, 0), "invalid-msgpack", "value needs 4294967295 bytes, 1 left at byte 5");
  check (BYTES (0xc9, 0xff, 0xff, 0xff, 0xff), "invalid-msgpack", "value needs 4294967296 bytes, 0 left at byte 5");
  check (BYTES (0x92, 0x01), "invalid-msgpack", "array of 2 in 1 bytes");
  check (BYTES (0x92, 0xcc, 0x01), "invalid-msgpack", "value needs 1 bytes, 0 left at byte 3");
  check (BYTES (0xda, 0x01), "invalid-msgpack", "value needs 2 bytes, 1 left at byte 1");
  check (BYTES (0x81, 0x80, 0x01), "bad-key", "");    /* a map as key */
  check (BYTES (0x81, 0x91, 0x01, 0x80), NULL, NULL); /* an array as key, a map as value */
  check (BYTES (0x83, 0x01, 0x80, 0xc4, 0, 0x90, 0xa0, 0x80), NULL, NULL);
  check (BYTES (0xd6, 0xff, 1, 2, 3, 4), NULL, NULL); /* a timestamp */
}

static void
test_utf8 (void)
{
  static const struct
  {
    const char *text;
    gboolean good;
  } rows[] = {
    { "plain text that is longer than eight bytes", TRUE },
    { "\xc3\xa9", TRUE },
    { "\xe6\x97\xa5\xe6\x9c\xac", TRUE },
    { "\xf0\x9f\x98\x80", TRUE },
    { "\xf4\x8f\xbf\xbf", TRUE },
    { "\xef\xbf\xbf", TRUE },
    { "\xed\x9f\xbf", TRUE },
    { "\x80", FALSE },
    { "\xc0\x80", FALSE }, /* overlong */
    { "\xc1\xbf", FALSE },
    { "\xe0\x9f\xbf", FALSE },
    { "\xf0\x8f\xbf\xbf", FALSE },
    { "\xed\xa0\x80", FALSE },     /* a surrogate */
    { "\xf4\x90\x80\x80", FALSE }, /* above U+10FFFF */
    { "\xf5\x80\x80\x80", FALSE },
    { "abcdefgh\xff", FALSE },
    { "abcdefghijkl\xc3", FALSE }, /* cut */
    { "abcdefghijkl\xe6\x97", FALSE },
    { "\xc3xabcdefghij", FALSE },
  };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    for (guint pad = 0; pad < 12; pad++) /* every place within a word of eight */
      {
        g_autoptr (GByteArray) body = g_byte_array_new ();
        gsize len = strlen (rows[i].text) + pad;
        guint8 head[2] = { 0xd9, (guint8)len };

        g_byte_array_append (body, head, 2);
        for (guint k = 0; k < pad; k++)
          g_byte_array_append (body, (const guint8 *)"p", 1);
        g_byte_array_append (body, (const guint8 *)rows[i].text, (guint)strlen (rows[i].text));
        check (span (body->data, body->len), rows[i].good ? NULL : "invalid-utf8", "");
      }
  check (BYTES (0xa1, 0x00), NULL, NULL); /* NUL is a character */
}

/* @depth containers one in the other; @map: maps whose value is the next one. */
static GByteArray *
nested (guint depth, gboolean map)
{
  GByteArray *bytes = g_byte_array_new ();
  static const guint8 heads[] = { 0x91, 0x81, 0xa0 };

  for (guint i = 0; i + 1 < depth; i++)
    {
      g_byte_array_append (bytes, heads + (map ? 1 : 0), 1);
      if (map)
        g_byte_array_append (bytes, heads + 2, 1);
    }
  g_byte_array_append (bytes, (const guint8 *)"\x90", 1);
  return bytes;
}

static void
test_depth (void)
{
  for (guint map = 0; map < 2; map++)
    {
      g_autoptr (GByteArray) most = nested (LMT_CURSOR_MAX_DEPTH, map);
      g_autoptr (GByteArray) more = nested (LMT_CURSOR_MAX_DEPTH + 1, map);
      g_autoptr (GByteArray) absurd = nested (1000000, map);
      LmtCursor cursor;

      check (span (most->data, most->len), NULL, NULL);
      check (span (more->data, more->len), "too-deep", "");
      check (span (absurd->data, absurd->len), "too-deep", "");
      lmt_cursor_init (&cursor, span (most->data, most->len));
      g_assert_true (lmt_cursor_skip (&cursor));
      g_assert_true (lmt_cursor_at_end (&cursor));
      lmt_cursor_init (&cursor, span (more->data, more->len));
      g_assert_false (lmt_cursor_skip (&cursor));
      g_assert_true (cursor.pos == more->data);
    }
}

static void
test_skip_span (void)
{
  LmtSpan all = BYTES (0x82, 0xa1, 'a', 0x92, 0x01, 0x81, 0xa1, 'b', 0xc0, 0xa1, 'c', 0x05, 0x7f);
  LmtCursor cursor;
  LmtSpan value;

  lmt_cursor_init (&cursor, all);
  g_assert_true (lmt_cursor_skip_span (&cursor, &value));
  g_assert_cmpuint (value.len, ==, all.len - 1);
  g_assert_true (lmt_cursor_skip_span (&cursor, &value));
  g_assert_cmpuint (value.len, ==, 1);
  g_assert_true (lmt_cursor_at_end (&cursor));
  g_assert_false (lmt_cursor_skip (&cursor));
}

/* Two values behind each other, of which the second holds a str that is no UTF-8: skipped, but not taken. */
static void
test_check_next (void)
{
  static const guint8 bytes[] = { 0x92, 0x01, 0xa1, 'a', 0x91, 0xa1, 0xff };
  LmtCursor cursor = { bytes, bytes + sizeof bytes };
  LmtFault fault = { 0 };

  g_assert_true (lmt_cursor_check_next (&cursor, &fault));
  g_assert_true (cursor.pos == bytes + 4);
  g_assert_false (lmt_cursor_check_next (&cursor, &fault));
  g_assert_cmpstr (fault.reason, ==, "invalid-utf8");
  g_assert_true (cursor.pos == bytes + 4);
  g_assert_true (lmt_cursor_skip (&cursor));
  g_assert_true (lmt_cursor_at_end (&cursor));
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/cursor/tokens", test_tokens);
  g_test_add_func ("/cursor/typed-reads", test_typed_reads);
  g_test_add_func ("/cursor/check", test_check);
  g_test_add_func ("/cursor/utf8", test_utf8);
  g_test_add_func ("/cursor/depth", test_depth);
  g_test_add_func ("/cursor/skip-span", test_skip_span);
  g_test_add_func ("/cursor/check-next", test_check_next);
  return g_test_run ();
}
