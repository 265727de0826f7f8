/* SPDX-License-Identifier: Apache-2.0 */
#include <lmtrace/lmt-header.h>

#include "lmt-encode-private.h"

/* Bytes in the order of their places: the formatter would put each piece on a line of its own. */
/* clang-format off */
#define MAGIC "\xa5" "magic" "\xc4\x04" "LMCT"
#define VERSION "\xae" "format_version" "\x01"
#define LEVEL "\xa5" "level" "\xa1" "x"

typedef struct
{
  const char *bytes;
  gsize len;
  const char *outcome; /* notes joined by "; ", or with a leading '!' the refusal */
} Row;
#define ROW(bytes, outcome) { bytes, sizeof (bytes) - 1, outcome }
#define ALL_ABSENT                                                                                                               \
  "trace_schema_version absent; t_mono_start absent; t_wall_start absent; sm_config_json absent; sm_config_digest absent"

static const Row rows[] = {
  ROW ("\x83" MAGIC VERSION LEVEL, "no type field; " ALL_ABSENT),
  ROW ("\x84" LEVEL VERSION MAGIC "\xa4" "type" "\xa6" "header", ALL_ABSENT),
  ROW ("\x84" MAGIC VERSION LEVEL "\xa4" "type" "\x01", "!type: expected 'header', found an integer"),
  ROW ("\x82" MAGIC VERSION, "!missing field level"),
  ROW ("\x82" MAGIC LEVEL, "!missing field format_version"),
  ROW ("\x82" VERSION LEVEL, "!missing field magic"),
  ROW ("\x83" MAGIC VERSION "\xa5" "level" "\x05", "!level: expected a str, found an integer"),
  ROW ("\x83" MAGIC "\xae" "format_version" "\xff" LEVEL, "!format_version: expected 1, found -1"),
  ROW ("\x83" MAGIC "\xae" "format_version" "\xcf\xff\xff\xff\xff\xff\xff\xff\xff" LEVEL,
       "!format_version: expected 1, found 18446744073709551615"),
  ROW ("\x83" MAGIC "\xae" "format_version" "\xc3" LEVEL, "!format_version: expected an integer, found a bool"),
  ROW ("\x83" MAGIC "\xae" "format_version" "\xcf\x00\x00\x00\x00\x00\x00\x00\x01" LEVEL, "no type field; " ALL_ABSENT),
  ROW ("\x83" "\xa5" "magic" "\xc4\x02" "LM" VERSION LEVEL, "!magic: expected b'LMCT', found b'LM'"),
  ROW ("\x83" "\xa5" "magic" "\xc0" VERSION LEVEL, "!magic: expected bin b'LMCT', found nil"),
  ROW ("\x84" MAGIC VERSION LEVEL "\x01\x02", "!key 3: expected a str, found an integer"),
  ROW ("\x90", "!expected a map, found an array"),
  ROW ("", "!empty-frame"),
  ROW ("\x83" MAGIC VERSION LEVEL "\x00", "!trailing-bytes: 1 bytes after the value"),
  ROW ("\x84" MAGIC VERSION LEVEL "\xb4" "trace_schema_version" "\xcb\x3f\xf0\x00\x00\x00\x00\x00\x00",
       "trace_schema_version is a float, expected an integer; no type field; t_mono_start absent; t_wall_start absent; "
       "sm_config_json absent; sm_config_digest absent"),
  ROW ("\x85" MAGIC VERSION LEVEL "\xaa" "level_meta" "\x90" "\xb4" "trace_schema_version" "\x03",
       "level_meta is an array, expected a map; no type field; t_mono_start absent; t_wall_start absent; sm_config_json absent; "
       "sm_config_digest absent; trace_schema_version 3 is not known"),
};

/* clang-format on */

static void
test_row (gconstpointer data)
{
  const Row *row = data;
  g_autoptr (GError) error = NULL;
  g_autoptr (LmtHeader) header = NULL;
  g_autofree char *notes = NULL;

  header = lmt_header_new_from_body ((LmtSpan){ (const guint8 *)row->bytes, row->len }, "f.lct", &error);
  if (row->outcome[0] == '!')
    {
      g_autofree char *line = g_strconcat ("f.lct: frame 0 at offset 0: ", row->outcome + 1, NULL);

      g_assert_null (header);
      g_assert_nonnull (error);
      g_assert_cmpstr (error->message, ==, line);
      return;
    }
  g_assert_no_error (error);
  notes = g_strjoinv ("; ", (char **)lmt_header_get_notes (header));
  g_assert_cmpstr (notes, ==, row->outcome);
  g_assert_cmpstr (lmt_header_get_level (header), ==, "x");
  g_assert_cmpstr (lmt_header_get_config_json (header), ==, "");
  g_assert_cmpstr (lmt_header_get_config_digest (header), ==, "");
  g_assert_cmpuint (lmt_header_get_level_meta (header).len, ==, 0);
  g_assert_cmpmem (lmt_header_get_body (header).data, lmt_header_get_body (header).len, row->bytes, row->len);
}

static LmtHeader *
parse (GByteArray *frame)
{
  g_autoptr (GError) error = NULL;
  LmtHeader *header;

  g_assert_cmpuint (lmt_read_be32 (frame->data), ==, frame->len - 4);
  header = lmt_header_new_from_body ((LmtSpan){ frame->data + 4, frame->len - 4 }, "f.lct", &error);
  g_assert_no_error (error);
  return header;
}

static void
test_round_trip (void)
{
  static const guint8 meta[] = { 0x81, 0xa1, 'k', 0x2a };
  LmtHeaderFields fields = { .level = "demo",
                             .trace_schema_version = 2,
                             .t_mono_start = -1.25,
                             .t_wall_start = 1795975380.162227,
                             .sm_config_json = "{\"a\": 1}",
                             .sm_config_digest = "nonsense",
                             .level_meta_msgpack = { meta, sizeof meta } };
  g_autoptr (GByteArray) frame = g_byte_array_new ();
  g_autoptr (LmtHeader) header = NULL;
  g_autoptr (LmtHeader) again = NULL;
  gint64 schema;
  double t;

  lmt_header_encode (&fields, frame);
  header = parse (frame);
  again = lmt_header_ref (header);
  g_assert_cmpstr (lmt_header_get_level (again), ==, "demo");
  g_assert_true (lmt_header_get_schema (again, &schema) && schema == 2);
  g_assert_true (lmt_header_get_t_mono_start (again, &t) && t == -1.25);
  g_assert_true (lmt_header_get_t_wall_start (again, &t) && t == 1795975380.162227);
  g_assert_cmpstr (lmt_header_get_config_json (again), ==, fields.sm_config_json);
  g_assert_cmpmem (lmt_header_get_level_meta (again).data, lmt_header_get_level_meta (again).len, meta, sizeof meta);
  /* The digest is no check sum of the file: a difference is worth a word, no more (trace-format.md 6). */
  g_assert_cmpstr (lmt_header_get_notes (again)[0], ==, "sm_config_digest is not the SHA-256 of sm_config_json");
  g_assert_null (lmt_header_get_notes (again)[1]);
}

/* An empty map is the default of level_meta and left out. */
static void
test_empty_meta (void)
{
  LmtHeaderFields fields = { .level = "x", .sm_config_json = "", .sm_config_digest = "" };
  g_autoptr (GByteArray) without = g_byte_array_new ();
  g_autoptr (GByteArray) empty = g_byte_array_new ();

  lmt_header_encode (&fields, without);
  fields.level_meta_msgpack = (LmtSpan){ (const guint8 *)"\x80", 1 };
  lmt_header_encode (&fields, empty);
  g_assert_cmpmem (without->data, without->len, empty->data, empty->len);
  g_assert_cmpuint (without->data[4], ==, 0x89);
}

/* Each integer in its shortest form, each text length in its. */
static void
test_shortest_forms (void)
{
  static const struct
  {
    gint64 value;
    guint8 bytes[9];
    guint8 len;
  } ints[] = {
    { 0, { 0 }, 1 },
    { 127, { 0x7f }, 1 },
    { 128, { 0xcc, 0x80 }, 2 },
    { 256, { 0xcd, 1, 0 }, 3 },
    { 65536, { 0xce, 0, 1, 0, 0 }, 5 },
    { G_GINT64_CONSTANT (4294967296), { 0xcf, 0, 0, 0, 1, 0, 0, 0, 0 }, 9 },
    { -1, { 0xff }, 1 },
    { -32, { 0xe0 }, 1 },
    { -33, { 0xd0, 0xdf }, 2 },
    { -129, { 0xd1, 0xff, 0x7f }, 3 },
    { -32769, { 0xd2, 0xff, 0xff, 0x7f, 0xff }, 5 },
    { G_MININT64, { 0xd3, 0x80, 0, 0, 0, 0, 0, 0, 0 }, 9 },
  };
  static const gsize lengths[] = { 0, 31, 32, 255, 256, 65535, 65536 };

  for (guint i = 0; i < G_N_ELEMENTS (ints); i++)
    {
      g_autoptr (GByteArray) out = g_byte_array_new ();

      lmt_encode_int (out, ints[i].value);
      g_assert_cmpmem (out->data, out->len, ints[i].bytes, ints[i].len);
    }
  for (guint i = 0; i < G_N_ELEMENTS (lengths); i++)
    {
      g_autofree char *text = g_strnfill (lengths[i], 'c');
      LmtHeaderFields fields = { .level = "x", .sm_config_json = text, .sm_config_digest = "" };
      g_autoptr (GByteArray) frame = g_byte_array_new ();
      g_autoptr (LmtHeader) header = NULL;

      lmt_header_encode (&fields, frame);
      header = parse (frame);
      g_assert_cmpstr (lmt_header_get_config_json (header), ==, text);
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autofree char *path = g_strdup_printf ("/header/row/%u", i);

      g_test_add_data_func (path, &rows[i], test_row);
    }
  g_test_add_func ("/header/round-trip", test_round_trip);
  g_test_add_func ("/header/empty-meta", test_empty_meta);
  g_test_add_func ("/header/shortest-forms", test_shortest_forms);
  return g_test_run ();
}
