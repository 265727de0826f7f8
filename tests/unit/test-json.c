/* SPDX-License-Identifier: Apache-2.0 */
#include <lmtrace/lmtrace.h>

#include <math.h>
#include <string.h>

static void
test_doubles (void)
{
  static const struct
  {
    double value;
    const char *text;
  } cases[] = {
    { 0.0, "0.0" },
    { -0.0, "-0.0" },
    { 500.0, "500.0" },
    { 0.1, "0.1" },
    { 0.2746249999745487, "0.2746249999745487" },
    { 123456789.0, "123456789.0" },
    { 1e-4, "0.0001" },
    { 9.999e-5, "9.999e-05" },
    { 1.0000000000000002e-06, "1.0000000000000002e-06" },
    { 1e-9, "1e-09" },
    { 1e15, "1000000000000000.0" },
    { 9999999999999998.0, "9999999999999998.0" },
    { 1e16, "1e+16" },
    { 1.5e300, "1.5e+300" },
    { 5e-324, "5e-324" },
    { -2.5, "-2.5" },
    { G_MAXDOUBLE, "1.7976931348623157e+308" },
    { 1.0 / 3, "0.3333333333333333" },
    { 2.0 / 3, "0.6666666666666666" },
    { 5e-05, "5e-05" },
    { 12345678901234567.0, "1.2345678901234568e+16" },
    { NAN, "null" },
    { INFINITY, "null" },
  };
  char buffer[32];
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    g_assert_cmpstr (lmt_json_format_double (cases[i].value, buffer), ==, cases[i].text);

  /* Whatever the bits: the text reads back and fits. */
  g_autoptr (GRand) rand = g_rand_new_with_seed (1);
  for (guint i = 0; i < 20000; i++)
    {
      const guint64 bits = (guint64)g_rand_int (rand) << 32 | g_rand_int (rand);
      double value;
      memcpy (&value, &bits, sizeof value);
      if (!isfinite (value))
        continue;
      lmt_json_format_double (value, buffer);
      g_assert_cmpuint (strlen (buffer), <, sizeof buffer);
      const double back = g_ascii_strtod (buffer, NULL);
      g_assert_cmpmem (&back, sizeof back, &value, sizeof value);
    }
}

static void
test_values (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (LmtJson) json
      = lmt_json_parse (" {\"b\": [1, -2, 18446744073709551615, 1.0, 18446744073709551616, true, false, null],"
                        " \"a\": \"x\\u00fc\\ud83d\\ude00\\n\\u0000z\", \"b2\": {}, \"l\": []} ",
                        -1, &error);
  g_assert_no_error (error);
  const LmtJson *const b = lmt_json_get_member (json, "b");
  static const LmtJsonType types[] = { LMT_JSON_INT,    LMT_JSON_INT,  LMT_JSON_UINT, LMT_JSON_DOUBLE,
                                       LMT_JSON_DOUBLE, LMT_JSON_BOOL, LMT_JSON_BOOL, LMT_JSON_NULL };
  g_assert_cmpuint (lmt_json_get_length (b), ==, G_N_ELEMENTS (types));
  for (guint i = 0; i < G_N_ELEMENTS (types); i++)
    g_assert_cmpint (lmt_json_get_type (lmt_json_get_element (b, i)), ==, types[i]);
  g_assert_cmpint (lmt_json_get_int (lmt_json_get_element (b, 1)), ==, -2);
  g_assert_cmpuint (lmt_json_get_uint (lmt_json_get_element (b, 2)), ==, G_MAXUINT64);
  g_assert_cmpfloat (lmt_json_get_double (lmt_json_get_element (b, 4)), ==, 18446744073709551616.0);
  const LmtJson *const a = lmt_json_get_member (json, "a");
  g_assert_cmpmem (lmt_json_get_string (a), lmt_json_get_string_len (a), "x\303\274\360\237\230\200\n\0z", 10);
  g_assert_cmpstr (lmt_json_get_member_name (json, 1), ==, "a");
  g_assert_null (lmt_json_get_member (json, "c"));
  g_assert_null (lmt_json_get_repeated (json));

  g_autofree char *spaced = lmt_json_to_text (json, LMT_JSON_STYLE_SPACED, TRUE);
  g_assert_cmpstr (spaced, ==,
                   "{\"a\": \"x\\u00fc\\ud83d\\ude00\\n\\u0000z\", \"b\": [1, -2, 18446744073709551615, 1.0, "
                   "1.8446744073709552e+19, true, false, null], \"b2\": {}, \"l\": []}");
  g_autofree char *compact = lmt_json_to_text (lmt_json_get_member (json, "b2"), LMT_JSON_STYLE_COMPACT, FALSE);
  g_assert_cmpstr (compact, ==, "{}");
}

static void
test_bad (void)
{
  static const struct
  {
    const char *text;
    const char *message;
  } cases[] = {
    { "", "line 1 column 1: expected a JSON value, found the end" },
    { "{", "line 1 column 2: expected a member name in double quotes, found the end" },
    { "{\"a\":1,}", "line 1 column 8: expected a member name in double quotes, found '}'" },
    { "{\"a\" 1}", "line 1 column 6: expected ':', found '1'" },
    { "[1,\n 2,\n x]", "line 3 column 2: expected a JSON value, found 'x'" },
    { "[1 2]", "line 1 column 4: expected ',' or ']', found '2'" },
    { "NaN", "line 1 column 1: expected a JSON value, found 'N'" },
    { "-Infinity", "line 1 column 2: expected a digit, found 'I'" },
    { "1e999", "line 1 column 1: expected a number a double can hold, found '1'" },
    { "01", "line 1 column 1: expected a number without leading zeros, found '0'" },
    { "1.", "line 1 column 3: expected a digit, found the end" },
    { ".5", "line 1 column 1: expected a JSON value, found '.'" },
    { "+1", "line 1 column 1: expected a JSON value, found '+'" },
    { "1 2", "line 1 column 3: expected nothing after the value, found '2'" },
    { "tru", "line 1 column 1: expected a JSON value, found 't'" },
    { "\"a", "line 1 column 3: expected '\"' at the end of a string, found the end" },
    { "\"a\nb\"", "line 1 column 3: expected '\"' at the end of a string, found byte 0x0a" },
    { "\"\\x\"", "line 1 column 3: expected one of \"\\/bfnrtu after a backslash, found 'x'" },
    { "\"\\u12g4\"", "line 1 column 6: expected four hex digits after \\u, found 'g'" },
    { "\"\\ud800\"", "line 1 column 2: expected a whole surrogate pair, found '\\'" },
    { "\"\\udc00\\ud800\"", "line 1 column 2: expected a whole surrogate pair, found '\\'" },
    { "{\"\\u0000\": 1}", "line 1 column 2: expected a member name without NUL, found '\"'" },
    { "\"\xff\"", "line 1 column 2: expected UTF-8 text, found byte 0xff" },
  };
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autoptr (GError) error = NULL;
      g_assert_null (lmt_json_parse (cases[i].text, -1, &error));
      g_assert_error (error, LMT_ERROR, LMT_ERROR_JSON);
      g_assert_cmpstr (error->message, ==, cases[i].message);
    }

  g_autoptr (GError) error = NULL;
  g_assert_null (lmt_json_parse ("1\0", 2, &error));
  g_assert_error (error, LMT_ERROR, LMT_ERROR_JSON);
}

static void
test_depth (void)
{
  g_autoptr (GString) text = g_string_new (NULL);
  g_autoptr (GError) error = NULL;
  for (guint i = 0; i < 128; i++)
    g_string_append_c (text, '[');
  for (guint i = 0; i < 128; i++)
    g_string_append_c (text, ']');
  g_autoptr (LmtJson) deep = lmt_json_parse (text->str, -1, &error);
  g_assert_no_error (error);
  g_assert_nonnull (deep);

  g_string_truncate (text, 0);
  for (guint i = 0; i < 200000; i++)
    g_string_append_c (text, '[');
  g_assert_null (lmt_json_parse (text->str, -1, &error));
  g_assert_error (error, LMT_ERROR, LMT_ERROR_JSON);
}

/* Any cut or changed byte: an error or a value, never a crash. */
static void
test_damage (void)
{
  static const char text[] = "{\"a\": [1.5e3, \"\\u00e9\\\\\", {\"b\": null}], \"c\": true, \"a\": -7}";
  g_autoptr (GRand) rand = g_rand_new_with_seed (2);
  for (gsize cut = 0; cut + 1 < sizeof text; cut++)
    {
      g_autoptr (LmtJson) json = lmt_json_parse (text, (gssize)cut, NULL);
      g_assert_null (json);
    }
  for (guint i = 0; i < 5000; i++)
    {
      g_autofree char *copy = g_strdup (text);
      for (guint k = 0; k < 3; k++)
        copy[g_rand_int_range (rand, 0, sizeof text - 1)] = (char)g_rand_int_range (rand, 1, 256);
      g_autoptr (GError) error = NULL;
      g_autoptr (LmtJson) json = lmt_json_parse (copy, -1, &error);
      g_assert_true ((json == NULL) == (error != NULL));
      if (json != NULL)
        {
          g_autofree char *again = lmt_json_to_text (json, LMT_JSON_STYLE_INDENT, FALSE);
          g_autoptr (LmtJson) same = lmt_json_parse (again, -1, NULL);
          g_assert_true (lmt_json_equal (json, same));
        }
    }
}

static void
test_repeated_and_equal (void)
{
  g_autoptr (LmtJson) twice = lmt_json_parse ("{\"a\": {\"x\": 1, \"y\": 2, \"x\": 3}}", -1, NULL);
  g_assert_cmpstr (lmt_json_get_repeated (twice), ==, "x");
  g_assert_cmpint (lmt_json_get_int (lmt_json_get_member (lmt_json_get_member (twice, "a"), "x")), ==, 3);

  g_autoptr (GString) many = g_string_new ("{\"k0\": 0");
  for (guint i = 1; i < 100; i++)
    g_string_append_printf (many, ", \"k%u\": %u", i == 99 ? 7 : i, i);
  g_string_append_c (many, '}');
  g_autoptr (LmtJson) big = lmt_json_parse (many->str, -1, NULL);
  g_assert_cmpstr (lmt_json_get_repeated (big), ==, "k7");

  static const struct
  {
    const char *a;
    const char *b;
    gboolean equal;
  } cases[] = {
    { "{\"a\": 1, \"b\": 2}", "{\"b\": 2, \"a\": 1}", TRUE },
    { "1", "1.0", FALSE },
    { "[1, 2]", "[2, 1]", FALSE },
    { "{\"a\": 1}", "{\"b\": 1}", FALSE },
    { "\"x\"", "\"\\u0078\"", TRUE },
    { "null", "false", FALSE },
    { "18446744073709551615", "18446744073709551615", TRUE },
  };
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autoptr (LmtJson) a = lmt_json_parse (cases[i].a, -1, NULL);
      g_autoptr (LmtJson) b = lmt_json_parse (cases[i].b, -1, NULL);
      g_assert_true (lmt_json_equal (a, b) == cases[i].equal);
    }
}

static void
test_writer (void)
{
  g_autoptr (GString) out = g_string_new (NULL);
  LmtJsonWriter *const json = lmt_json_writer_new (out, LMT_JSON_STYLE_INDENT);
  lmt_json_writer_begin_object (json);
  lmt_json_writer_key (json, "a\"\x7f");
  lmt_json_writer_begin_array (json);
  lmt_json_writer_int (json, G_MININT64);
  lmt_json_writer_double (json, 0.5);
  lmt_json_writer_double (json, NAN);
  lmt_json_writer_string (json, NULL);
  lmt_json_writer_end_array (json);
  lmt_json_writer_key (json, "e");
  lmt_json_writer_begin_object (json);
  lmt_json_writer_end_object (json);
  lmt_json_writer_key (json, "s");
  lmt_json_writer_string (json, "\x01\xff\xc3\xbc\b\f\r\t");
  lmt_json_writer_end_object (json);
  lmt_json_writer_free (json);
  g_assert_cmpstr (out->str, ==,
                   "{\n  \"a\\\"\\u007f\": [\n    -9223372036854775808,\n    0.5,\n    null,\n    null\n  ],\n  \"e\": {},\n"
                   "  \"s\": \"\\u0001\\ufffd\\u00fc\\b\\f\\r\\t\"\n}\n");
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/json/doubles", test_doubles);
  g_test_add_func ("/json/values", test_values);
  g_test_add_func ("/json/bad", test_bad);
  g_test_add_func ("/json/depth", test_depth);
  g_test_add_func ("/json/damage", test_damage);
  g_test_add_func ("/json/repeated-and-equal", test_repeated_and_equal);
  g_test_add_func ("/json/writer", test_writer);
  return g_test_run ();
}
