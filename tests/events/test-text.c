// SPDX-License-Identifier: Apache-2.0
/* JSON in and out: numbers keep their value, strings their characters, and broken text is refused where it breaks. */
#include "golden.h"

#include <math.h>

/* ---- reader ---- */

static EventsType
read_one (const char *text, EventsArena *arena, EventsScalar *value)
{
  EventsJson json;

  events_json_init (&json, text, strlen (text), arena, 32);
  const EventsType type = events_json_next (&json, value);
  if (type != EVENTS_ERROR && type < EVENTS_ARRAY)
    g_assert_true (events_json_at_end (&json));
  return type;
}

static void
test_numbers (void)
{
  static const struct
  {
    const char *text;
    EventsType type;
    gint64 i;
  } ints[] = {
    { "0", EVENTS_INT, 0 },
    { "-0", EVENTS_INT, 0 },
    { "9223372036854775807", EVENTS_INT, G_MAXINT64 },
    { "-9223372036854775808", EVENTS_INT, G_MININT64 },
    { "9223372036854775808", EVENTS_UINT, G_MININT64 },
    { "18446744073709551615", EVENTS_UINT, -1 },
    { "18446744073709551616", EVENTS_BIGINT, 0 },
    { "-9223372036854775809", EVENTS_BIGINT, 0 },
    { "100000000000000000000000000000", EVENTS_BIGINT, 0 },
  };
  static const char *const reals[]
      = { "0.1",
          "1e400",
          "-1e400",
          "5e-324",
          "2.5e-324",
          "1E5",
          "1e-5",
          "0.30000000000000004",
          "1758400001.1234567",
          "123456789012345678901234567890.5",
          "9007199254740993.0",
          "1e22",
          "1e23",
          "8.5e-23",
          "-0.0",
          "4.35",
          "2.2250738585072011e-308",
          "1797693134862315807937289714053034150799341327100378269361737789804449682927647509466490179775872070963302864166928879"
          "1094655554785194040263065748867150582068190890200070838367627385484581771153176447573027006985557136695962284291481986"
          "0834936475292719074168444365510704342711559699508093042880.0" };
  EventsScalar value;

  for (guint i = 0; i < G_N_ELEMENTS (ints); i++)
    {
      g_assert_cmpint (read_one (ints[i].text, NULL, &value), ==, ints[i].type);
      if (ints[i].type == EVENTS_BIGINT)
        g_assert_cmpmem (value.text.data, value.text.len, ints[i].text, strlen (ints[i].text));
      else
        g_assert_cmpint (value.v.i, ==, ints[i].i);
    }
  for (guint i = 0; i < G_N_ELEMENTS (reals); i++)
    {
      const double wanted = g_ascii_strtod (reals[i], NULL);
      g_assert_cmpint (read_one (reals[i], NULL, &value), ==, EVENTS_FLOAT);
      g_assert_cmpmem (&value.v.f, sizeof value.v.f, &wanted, sizeof wanted);
    }
  g_assert_cmpint (read_one ("NaN", NULL, &value), ==, EVENTS_FLOAT);
  g_assert_true (isnan (value.v.f));
  g_assert_cmpint (read_one ("Infinity", NULL, &value), ==, EVENTS_FLOAT);
  g_assert_true (isinf (value.v.f) && value.v.f > 0);
  g_assert_cmpint (read_one ("-Infinity", NULL, &value), ==, EVENTS_FLOAT);
  g_assert_true (isinf (value.v.f) && value.v.f < 0);
}

/* Digits against strtod, near every power of ten and two, where a short cut would round wrong. */
static void
test_reals_random (void)
{
  EventsScalar value;

  for (guint i = 0; i < 20000; i++)
    {
      char text[64];
      const int exponent = g_test_rand_int_range (-30, 31);
      const guint64 digits
          = ((guint64)(guint32)g_test_rand_int () << 32 | (guint32)g_test_rand_int ()) >> g_test_rand_int_range (0, 64);

      if (i % 2 == 0)
        g_snprintf (text, sizeof text, "%" G_GUINT64_FORMAT "e%d", digits, exponent);
      else
        g_snprintf (text, sizeof text, "%" G_GUINT64_FORMAT ".%06u", digits, (guint)g_test_rand_int_range (0, 1000000));
      const double wanted = g_ascii_strtod (text, NULL);
      g_assert_cmpint (read_one (text, NULL, &value), ==, EVENTS_FLOAT);
      g_assert_true (value.v.f == wanted);
    }
}

static void
test_strings (void)
{
  static const struct
  {
    const char *text;
    const char *wanted;
    gsize len;
    gboolean surrogate;
  } cases[] = {
    { "\"\"", "", 0, FALSE },
    { "\"plain text of more than eight bytes\"", "plain text of more than eight bytes", 35, FALSE },
    { "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "\"\\/\b\f\n\r\t", 8, FALSE },
    { "\"a\\u0000b\"", "a\0b", 3, FALSE },
    { "\"\\u00e9\\u20AC\\ud83d\\uDE00!\"", "\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80!", 10, FALSE },
    { "\"\\ud800\"", "\xED\xA0\x80", 3, TRUE },
    { "\"\\udc00x\"", "\xED\xB0\x80x", 4, TRUE },
    { "\"\\ud800\\ud83d\\ude00\"", "\xED\xA0\x80\xF0\x9F\x98\x80", 7, TRUE },
    { "\"\\ud800\\n\"", "\xED\xA0\x80\n", 4, TRUE },
    { "\"12345678\\n12345678\\t1234567\"", "12345678\n12345678\t1234567", 25, FALSE },
  };
  EventsArena *const arena = events_arena_new (0);
  EventsScalar value;

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_test_message ("%s", cases[i].text);
      g_assert_cmpint (read_one (cases[i].text, arena, &value), ==, EVENTS_STRING);
      g_assert_cmpmem (value.text.data, value.text.len, cases[i].wanted, cases[i].len);
      g_assert_cmpint (value.surrogate, ==, cases[i].surrogate);
    }
  events_arena_free (arena);
}

static void
test_broken (void)
{
  static const struct
  {
    const char *text;
    gsize place;
  } cases[] = {
    { "", 0 },          { "nul", 0 },         { "'a'", 0 },        { "0x10", 1 },        { "01", 1 },         { "-", 0 },
    { "+1", 0 },        { ".5", 0 },          { "1.", 1 },         { "1e", 1 },          { "\"a", 0 },        { "\"\t\"", 1 },
    { "\"\\x\"", 1 },   { "\"\\u12g4\"", 2 }, { "[1,]", 3 },       { "[1 2]", 3 },       { "{\"a\":1,}", 7 }, { "{a:1}", 1 },
    { "{\"a\" 1}", 5 }, { "[1]]", 3 },        { "{\"a\":1}}", 7 }, { "[}", 1 },          { "{]", 1 },         { "tru", 0 },
    { "-Inf", 0 },      { "nan", 0 },         { "\"\\", 0 },       { "\"\\ud83d\\", 0 }, { "[\"a\\", 1 },
  };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      EventsScalar value;
      EventsJson json;
      const gsize len = strlen (cases[i].text);
      char *const exact = g_memdup2 (cases[i].text, MAX (len, 1)); /* without a NUL behind it */

      g_test_message ("%s", cases[i].text);
      events_json_init (&json, exact, len, NULL, 32);
      if (events_json_next (&json, &value) != EVENTS_ERROR && events_json_skip (&json, &value, NULL))
        g_assert_false (events_json_at_end (&json));
      g_assert_cmpuint ((gsize)(json.pos - json.start), ==, cases[i].place);
      g_free (exact);
    }
}

static void
test_depth (void)
{
  EventsScalar value;
  EventsJson json;

  for (guint depth = 31; depth <= 34; depth++)
    for (guint kind = 0; kind < 2; kind++)
      {
        g_autoptr (GString) text = g_string_new (NULL);
        for (guint i = 0; i < depth; i++)
          g_string_append (text, kind ? "{\"a\":" : "[");
        g_string_append (text, "1");
        for (guint i = 0; i < depth; i++)
          g_string_append (text, kind ? "}" : "]");
        events_json_init (&json, text->str, text->len, NULL, 32);
        events_json_next (&json, &value);
        g_assert_cmpint (events_json_skip (&json, &value, NULL), ==, depth <= 32);
        g_assert_cmpint (json.too_deep, ==, depth > 32);
      }
}

static void
test_utf8 (void)
{
  static const struct
  {
    const char *text;
    gsize len;
    gboolean valid;
  } cases[] = {
    { "", 0, TRUE },
    { "a\0b", 3, TRUE },
    { "\xC3\xA9", 2, TRUE },
    { "\xC3", 1, FALSE },
    { "\x80", 1, FALSE },
    { "\xC0\x80", 2, FALSE },
    { "\xC1\xBF", 2, FALSE },
    { "\xE0\x9F\xBF", 3, FALSE },
    { "\xE0\xA0\x80", 3, TRUE },
    { "\xED\x9F\xBF", 3, TRUE },
    { "\xED\xA0\x80", 3, FALSE },
    { "\xEE\x80\x80", 3, TRUE },
    { "\xF0\x8F\xBF\xBF", 4, FALSE },
    { "\xF0\x90\x80\x80", 4, TRUE },
    { "\xF4\x8F\xBF\xBF", 4, TRUE },
    { "\xF4\x90\x80\x80", 4, FALSE },
    { "\xF5\x80\x80\x80", 4, FALSE },
    { "12345678\xF0\x9F\x98", 11, FALSE },
    { "1234567\xF0\x9F\x98\x80", 11, TRUE },
  };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      char *const exact = g_memdup2 (cases[i].text, MAX (cases[i].len, 1));
      g_assert_cmpint (events_utf8_valid (exact, cases[i].len), ==, cases[i].valid);
      g_free (exact);
    }
}

/* ---- msgpack to text ---- */

static char *
text_of_msgpack (const char *bytes, gsize len, const char **reason)
{
  GString *const out = g_string_new ("before");

  if (events_json_from_msgpack ((LmtSpan){ (const guint8 *)bytes, len }, out, reason))
    return g_string_free (g_string_erase (out, 0, 6), FALSE);
  g_assert_cmpstr (out->str, ==, "before");
  g_string_free (out, TRUE);
  return NULL;
}

static char *
text_of_double (double value)
{
  char bytes[9] = { (char)0xCB };
  guint64 bits;

  memcpy (&bits, &value, 8);
  bits = GUINT64_TO_BE (bits);
  memcpy (bytes + 1, &bits, 8);
  return text_of_msgpack (bytes, sizeof bytes, NULL);
}

static void
test_from_msgpack (void)
{
  static const struct
  {
    const char *bytes;
    gsize len;
    const char *text; /* NULL: refused */
  } cases[] = {
    { "\xC0", 1, "null" },
    { "\xC3", 1, "true" },
    { "\x00", 1, "0" },
    { "\xFF", 1, "-1" },
    { "\xCF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF", 9, "18446744073709551615" },
    { "\xD3\x80\0\0\0\0\0\0\0", 9, "-9223372036854775808" },
    { "\xCD\x03\xE8", 3, "1000" },
    { "\xA3\"\\\n", 4, "\"\\\"\\\\\\u000a\"" },
    { "\xA3\xE2\x82\xAC", 4, "\"\xE2\x82\xAC\"" },
    { "\xA1\x7F", 2, "\"\x7F\"" },
    { "\xA1\0", 2, "\"\\u0000\"" },
    { "\x93\x01\x90\x80", 4, "[1,[],{}]" },
    { "\x82\xA1"
      "b\xC2\xA1"
      "a\x91\x02",
      8, "{\"b\":false,\"a\":[2]}" },
    { "\x82\xA1"
      "a\x01\xA1"
      "a\x02",
      7, "{\"a\":1,\"a\":2}" },
    { "\xCA\x3F\x80\0\0", 5, "1.0" },
    { "\xC4\x01x", 3, NULL },
    { "\xD4\x01x", 3, NULL },
    { "\xCB\x7F\xF8\0\0\0\0\0\0", 9, NULL },
    { "\xCB\xFF\xF0\0\0\0\0\0\0", 9, NULL },
    { "\x81\x01\x02", 3, NULL },
    { "\xA1\xFF", 2, NULL },
    { "\x91", 1, NULL },
    { "\xC1", 1, NULL },
    { "", 0, NULL },
  };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      const char *reason = NULL;
      g_autofree char *text = text_of_msgpack (cases[i].bytes, cases[i].len, &reason);
      g_assert_cmpstr (text, ==, cases[i].text);
      g_assert_true ((reason != NULL) == (cases[i].text == NULL));
    }
}

/* The shortest text that reads back, by trying all lengths. */
static void
assert_shortest (double value)
{
  g_autofree char *text = text_of_double (value);
  char format[8], other[40];
  gsize digits = 0, fewest = 17;

  g_assert_true (g_ascii_strtod (text, NULL) == value);
  g_assert_true (strpbrk (text, ".e") != NULL);
  for (const char *p = text; *p != '\0' && *p != 'e'; p++)
    if (g_ascii_isdigit (*p) && (digits > 0 || *p != '0'))
      digits++;
  for (const char *p = strchr (text, 'e') != NULL ? strchr (text, 'e') : text + strlen (text);
       digits > 1 && (p[-1] == '0' || p[-1] == '.');)
    digits -= *--p == '0';
  for (guint n = 0; n < 17; n++)
    {
      g_snprintf (format, sizeof format, "%%.%ue", n);
      if (g_ascii_strtod (g_ascii_formatd (other, sizeof other, format, value), NULL) == value)
        {
          fewest = n + 1;
          break;
        }
    }
  g_assert_cmpuint (digits, <=, fewest);
}

static void
test_doubles (void)
{
  static const struct
  {
    double value;
    const char *text;
  } cases[] = { { 0.0, "0.0" },
                { 0.1, "0.1" },
                { -0.5, "-0.5" },
                { 1.0, "1.0" },
                { 1758400001.0, "1758400001.0" },
                { 1758400001.25, "1758400001.25" },
                { 1758400001.1234567, "1758400001.1234567" },
                { 0.30000000000000004, "0.30000000000000004" },
                { 9007199254740991.0, "9007199254740991.0" },
                { 5e-324, "5e-324" },
                { 1e22, "1e+22" },
                { 123.456, "123.456" } };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autofree char *text = text_of_double (cases[i].value);
      g_assert_cmpstr (text, ==, cases[i].text);
    }
  for (guint i = 0; i < 3000; i++)
    {
      guint64 bits = (guint64)(guint32)g_test_rand_int () << 32 | (guint32)g_test_rand_int ();
      double value;

      assert_shortest (1.6e9 + g_test_rand_double () * 3e8); /* times of day */
      assert_shortest (g_test_rand_double () * pow (10, g_test_rand_int_range (-6, 18)));
      assert_shortest (ldexp (1, g_test_rand_int_range (-20, 60)));
      memcpy (&value, &bits, sizeof value);
      if (isfinite (value) && value != 0)
        assert_shortest (value);
    }
}

/* ---- arena ---- */

static void
test_arena (void)
{
  EventsArena *const arena = events_arena_new (1024 * 1024);
  gsize total = 0;
  guint8 *block;

  for (guint round = 0; round < 3; round++)
    {
      total = 0;
      for (gsize size = 1; (block = events_arena_alloc (arena, size)) != NULL; size = size * 3 / 2 + 1)
        {
          g_assert_cmpuint ((gsize)block % 16, ==, 0);
          memset (block, 0xAA, size);
          total += size;
        }
      g_assert_cmpuint (total, >, 256 * 1024);
      g_assert_cmpuint (total, <=, 1024 * 1024);
      events_arena_reset (arena);
    }
  g_assert_null (events_arena_alloc (arena, G_MAXSIZE));
  g_assert_null (events_arena_alloc (arena, G_MAXSIZE - 8));
  events_arena_free (arena);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/events/text/numbers", test_numbers);
  g_test_add_func ("/events/text/reals", test_reals_random);
  g_test_add_func ("/events/text/strings", test_strings);
  g_test_add_func ("/events/text/broken", test_broken);
  g_test_add_func ("/events/text/depth", test_depth);
  g_test_add_func ("/events/text/utf8", test_utf8);
  g_test_add_func ("/events/text/from-msgpack", test_from_msgpack);
  g_test_add_func ("/events/text/doubles", test_doubles);
  g_test_add_func ("/events/text/arena", test_arena);
  return g_test_run ();
}
