/* SPDX-License-Identifier: Apache-2.0 */
/* What a record may look like and what it may not: the table of trace-format.md 2.2, row by row. */
#include <lmtrace/lmt-record.h>

#include <math.h>

/* Bytes in the order of their places: the formatter would put each piece on a line of its own. */
/* clang-format off */
/* Pieces of msgpack. A literal of its own per head, lest a hex escape swallow the letter behind it. */
#define TYPE "\xa4" "type" "\xa6" "record"
#define MONO "\xa6" "t_mono" ONE
#define WALL "\xa6" "t_wall" ONE
#define NAME "\xa8" "qualname" "\xa1" "q"
#define ARGS "\xa4" "args" "\x80"
#define ONE "\xcb\x3f\xf0\x00\x00\x00\x00\x00\x00"
#define INF "\xcb\x7f\xf0\x00\x00\x00\x00\x00\x00"
#define NAN_ "\xcb\x7f\xf8\x00\x00\x00\x00\x00\x00"

typedef struct
{
  const char *what;
  const char *bytes;
  gsize len;
  const char *reason; /* NULL: it is a record */
  const char *detail;
} Row;
#define ROW(what, bytes, reason, detail) { what, bytes, sizeof (bytes) - 1, reason, detail }

static const Row rows[] = {
  ROW ("as written", "\x85" TYPE MONO WALL NAME ARGS, NULL, ""),
  ROW ("type absent", "\x84" MONO WALL NAME ARGS, NULL, ""),
  ROW ("type last, all shuffled", "\x85" ARGS NAME WALL MONO TYPE, NULL, ""),
  ROW ("type of the other struct", "\x85" "\xa4" "type" "\xa6" "header" MONO WALL NAME ARGS, "header-frame", ""),
  ROW ("another word", "\x85" "\xa4" "type" "\xa6" "marker" MONO WALL NAME ARGS, "wrong-tag", "'marker'"),
  ROW ("type no str", "\x85" "\xa4" "type" "\x01" MONO WALL NAME ARGS, "wrong-type", "type"),
  ROW ("type nil", "\x85" "\xa4" "type" "\xc0" MONO WALL NAME ARGS, "wrong-type", "type"),
  ROW ("no t_mono", "\x84" TYPE WALL NAME ARGS, "missing-field", "t_mono"),
  ROW ("no t_wall", "\x84" TYPE MONO NAME ARGS, "missing-field", "t_wall"),
  ROW ("no qualname", "\x84" TYPE MONO WALL ARGS, "missing-field", "qualname"),
  ROW ("no args", "\x84" TYPE MONO WALL NAME, "missing-field", "args"),
  ROW ("nothing", "\x80", "missing-field", "t_mono"),
  ROW ("unknown field", "\x86" TYPE MONO WALL NAME ARGS "\xa1" "x" "\x92\x01\x81\xa1" "k" "\xc0", NULL, ""),
  ROW ("unknown field, broken value", "\x86" TYPE MONO WALL NAME ARGS "\xa1" "x" "\x91\xc1", "invalid-msgpack",
       "reserved byte c1 at byte 65"),
  ROW ("int key at the top", "\x86" TYPE MONO WALL NAME ARGS "\x01\x01", "bad-key", ""),
  ROW ("int key first", "\x86" "\x01\x01" TYPE MONO WALL NAME ARGS, "bad-key", ""),
  ROW ("bin key at the top", "\x86" TYPE "\xc4\x01" "k" "\x01" MONO WALL NAME ARGS, "bad-key", ""),
  ROW ("map key at the top", "\x86" TYPE "\x80\x01" MONO WALL NAME ARGS, "bad-key", ""),
  ROW ("same key twice", "\x86" TYPE MONO WALL "\xa8" "qualname" "\xa1" "p" NAME ARGS, NULL, ""),
  ROW ("same key twice, the first wrong", "\x86" TYPE MONO WALL "\xa8" "qualname" "\x01" NAME ARGS, "wrong-type", "qualname"),
  ROW ("str8 and str16 keys", "\x85" TYPE "\xd9\x06" "t_mono" ONE "\xda\x00\x06" "t_wall" ONE NAME ARGS, NULL, ""),
  ROW ("str32 key, map16", "\xde\x00\x05" TYPE MONO WALL NAME "\xdb\x00\x00\x00\x04" "args" "\xde\x00\x00", NULL, ""),
  ROW ("map32", "\xdf\x00\x00\x00\x05" TYPE MONO WALL NAME ARGS, NULL, ""),
  ROW ("times as integers", "\x85" TYPE "\xa6" "t_mono" "\x01" "\xa6" "t_wall" "\xcf\xff\xff\xff\xff\xff\xff\xff\xff" NAME ARGS,
       NULL, ""),
  ROW ("times as float32 and negative", "\x85" TYPE "\xa6" "t_mono" "\xca\x3f\x80\x00\x00" "\xa6" "t_wall" "\xff" NAME ARGS, NULL,
       ""),
  ROW ("times not finite", "\x85" TYPE "\xa6" "t_mono" NAN_ "\xa6" "t_wall" INF NAME ARGS, NULL, ""),
  ROW ("t_mono a bool", "\x85" TYPE "\xa6" "t_mono" "\xc3" WALL NAME ARGS, "wrong-type", "t_mono"),
  ROW ("t_mono nil", "\x85" TYPE "\xa6" "t_mono" "\xc0" WALL NAME ARGS, "wrong-type", "t_mono"),
  ROW ("t_wall a str", "\x85" TYPE MONO "\xa6" "t_wall" "\xa1" "1" NAME ARGS, "wrong-type", "t_wall"),
  ROW ("qualname bin", "\x85" TYPE MONO WALL "\xa8" "qualname" "\xc4\x01" "q" ARGS, "wrong-type", "qualname"),
  ROW ("qualname empty", "\x85" TYPE MONO WALL "\xa8" "qualname" "\xa0" ARGS, NULL, ""),
  ROW ("args nil", "\x85" TYPE MONO WALL NAME "\xa4" "args" "\xc0", "wrong-type", "args"),
  ROW ("args array", "\x85" TYPE MONO WALL NAME "\xa4" "args" "\x90", "wrong-type", "args"),
  ROW ("args str", "\x85" TYPE MONO WALL NAME "\xa4" "args" "\xa1" "a", "wrong-type", "args"),
  ROW ("int key in args", "\x85" TYPE MONO WALL NAME "\xa4" "args" "\x81\x01\x02", "bad-key", "args"),
  ROW ("nested odd keys", "\x85" TYPE MONO WALL NAME "\xa4" "args" "\x81\xa1" "a" "\x83\x01\x01\xc4\x01" "b" "\x02\x91\x01\x03", NULL,
       ""),
  ROW ("a map as nested key", "\x85" TYPE MONO WALL NAME "\xa4" "args" "\x81\xa1" "a" "\x81\x80\x01", "bad-key", ""),
  ROW ("ext values", "\x85" TYPE MONO WALL NAME "\xa4" "args" "\x82\xa1" "a" "\xd4\x05\x00\xa1" "b" "\xd6\xff\x00\x00\x00\x00", NULL, ""),
  ROW ("bad UTF-8 deep inside", "\x85" TYPE MONO WALL NAME "\xa4" "args" "\x81\xa1" "a" "\x91\x81\xa1" "k" "\xa1\xff", "invalid-utf8", ""),
  ROW ("bad UTF-8 in a key of args", "\x85" TYPE MONO WALL NAME "\xa4" "args" "\x81\xa1\xff\x01", "invalid-utf8", ""),
  ROW ("bad UTF-8 in an unknown key", "\x86" TYPE MONO WALL NAME ARGS "\xa1\xff\x01", "invalid-utf8", ""),
  ROW ("bad UTF-8 in qualname", "\x85" TYPE MONO WALL "\xa8" "qualname" "\xa1\x80" ARGS, "invalid-utf8", ""),
  ROW ("value longer than the frame", "\x85" TYPE MONO WALL NAME "\xa4" "args" "\x81\xa1" "a" "\xa5" "abc", "invalid-msgpack",
       "value needs 5 bytes, 3 left at byte 65"),
  ROW ("map count too big", "\x8f" TYPE MONO WALL NAME ARGS, "invalid-msgpack", "value needs 1 bytes, 0 left at byte 62"),
  ROW ("map count too small", "\x84" TYPE MONO WALL NAME ARGS, "trailing-bytes", "6 bytes after the value"),
  ROW ("bytes after the map", "\x85" TYPE MONO WALL NAME ARGS "\x00\x00", "trailing-bytes", "2 bytes after the value"),
  ROW ("empty frame", "", "empty-frame", ""),
  ROW ("an array", "\x93\x01\x02\x03", "not-a-map", ""),
  ROW ("a str", "\xa5" "hello", "not-a-map", ""),
  ROW ("broken bytes outrank a wrong member", "\x85" "\xa4" "type" "\x01" MONO WALL NAME "\xa4" "args" "\xc1", "invalid-msgpack",
       "reserved byte c1 at byte 55"),
};

/* clang-format on */

static void
test_row (gconstpointer data)
{
  const Row *row = data;
  guint8 *copy = g_memdup2 (row->bytes, MAX (row->len, 1)); /* exactly so long, for the address sanitizer */
  LmtSpan body = { copy, row->len };
  LmtRecord record = { 0 };
  LmtFault fault = { 0 };
  gboolean ok = lmt_record_split (body, &record, &fault);

  if (row->reason == NULL)
    {
      g_assert_true (ok);
      g_assert_true (record.body.data == copy && record.body.len == row->len);
      g_assert_true (record.args.len > 0);
      g_assert_true (record.qualname.data > copy && record.args.data > copy);
    }
  else
    {
      g_assert_false (ok);
      g_assert_cmpstr (fault.reason, ==, row->reason);
      g_assert_cmpstr (fault.detail, ==, row->detail);
    }
  g_free (copy);
}

/* No prefix of a record is one, and no length of it reads a byte too far. */
static void
test_every_cut (void)
{
  /* clang-format off */
  static const char whole[] = "\x85" TYPE MONO WALL NAME "\xa4" "args" "\x81\xa1" "a" "\x92\xc4\x02" "xy" "\xd9\x01" "z";
  /* clang-format on */

  for (gsize len = 0; len < sizeof whole - 1; len++)
    {
      guint8 *copy = g_memdup2 (whole, MAX (len, 1));
      LmtRecord record;
      LmtFault fault = { 0 };

      g_assert_false (lmt_record_split ((LmtSpan){ copy, len }, &record, &fault));
      g_assert_nonnull (fault.reason);
      g_free (copy);
    }
}

static void
test_values (void)
{
  /* clang-format off */
  static const char last_counts[]
      = "\x87" TYPE "\xa6" "t_mono" "\x05" MONO "\xa6" "t_wall" "\xe0" NAME "\xa4" "args" "\x81\xa1" "a" "\x01" ARGS;
  /* clang-format on */
  LmtSpan body = { (const guint8 *)last_counts, sizeof last_counts - 1 };
  LmtRecord record;
  LmtFault fault;

  g_assert_true (lmt_record_split (body, &record, &fault));
  g_assert_cmpfloat (record.t_mono, ==, 1.0);
  g_assert_cmpfloat (record.t_wall, ==, -32.0);
  g_assert_true (LMT_SPAN_IS (record.qualname, "q"));
  g_assert_cmpuint (record.args.len, ==, 1);
}

static void
test_encode (void)
{
  /* clang-format off */
  static const char expected[] = "\x00\x00\x00\x3e" "\x85" TYPE MONO WALL NAME ARGS;
  /* clang-format on */
  g_autoptr (GByteArray) out = g_byte_array_new ();
  g_autofree char *name = g_strnfill (300, 'n');
  LmtRecord record;
  LmtFault fault;

  lmt_record_encode (1.0, 1.0, (LmtSpan){ (const guint8 *)"q", 1 }, (LmtSpan){ (const guint8 *)"\x80", 1 }, out);
  g_assert_cmpmem (out->data, out->len, expected, sizeof expected - 1);
  /* Names of every length form. */
  for (guint len = 0; len <= 300; len += 3)
    {
      g_byte_array_set_size (out, 0);
      lmt_record_encode (0.5, 2.0, (LmtSpan){ (const guint8 *)name, len }, (LmtSpan){ (const guint8 *)"\x80", 1 }, out);
      g_assert_cmpuint (lmt_read_be32 (out->data), ==, out->len - 4);
      g_assert_true (lmt_record_split ((LmtSpan){ out->data + 4, out->len - 4 }, &record, &fault));
      g_assert_cmpmem (record.qualname.data, record.qualname.len, name, len);
      g_assert_cmpfloat (record.t_mono, ==, 0.5);
    }
}

static void
test_usable_times (void)
{
  g_assert_true (lmt_time_is_usable (0.0));
  g_assert_true (lmt_time_is_usable (-5.0));
  g_assert_true (lmt_time_is_usable (999999999.0));
  g_assert_false (lmt_time_is_usable (1e9));
  g_assert_false (lmt_time_is_usable ((double)NAN));
  g_assert_false (lmt_time_is_usable ((double)INFINITY));
  g_assert_false (lmt_time_is_usable (-(double)INFINITY));
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autofree char *path = g_strdup_printf ("/record/split/%s", rows[i].what);

      g_test_add_data_func (path, &rows[i], test_row);
    }
  g_test_add_func ("/record/every-cut", test_every_cut);
  g_test_add_func ("/record/values", test_values);
  g_test_add_func ("/record/encode", test_encode);
  g_test_add_func ("/record/usable-times", test_usable_times);
  return g_test_run ();
}
