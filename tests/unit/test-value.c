/* SPDX-License-Identifier: Apache-2.0 */
#include <lmtrace/lmtrace.h>

#include <string.h>

/* cli.md 8.6. `want` is the value as text; NULL: refused. */
typedef struct
{
  const char *kind;
  const char *text;
  const char *want;
} ValueCase;

static const ValueCase cases[] = {
  { "size", "0", "0" },
  { "size", "4096", "4096" },
  { "size", "4096B", "4096" },
  { "size", "4KiB", "4096" },
  { "size", "4K", "4096" },
  { "size", "4kB", "4000" },
  { "size", "1.5GiB", "1610612736" },
  { "size", "1.5MB", "1500000" },
  { "size", "0.5K", "512" },
  { "size", "64G", "68719476736" },
  { "size", "2TiB", "2199023255552" },
  { "size", "3PB", "3000000000000000" },
  { "size", "15EiB", "17293822569102704640" },
  { "size", "18446744073709551615", "18446744073709551615" },
  { "size", "16EiB", NULL },
  { "size", "18446744073709551616", NULL },
  { "size", "999999999999999999999999999999999999999999", NULL },
  { "size", "", NULL },
  { "size", "K", NULL },
  { "size", "4 KiB", NULL },
  { "size", " 4KiB", NULL },
  { "size", "4KiB ", NULL },
  { "size", "4KB", NULL },
  { "size", "4kib", NULL },
  { "size", "4k", NULL },
  { "size", "1.5", NULL },
  { "size", "1.GiB", NULL },
  { "size", ".5GiB", NULL },
  { "size", "-1", NULL },
  { "size", "+1", NULL },
  { "size", "1_000", NULL },
  { "size", "1e3", NULL },
  { "size", "0x10", NULL },
  { "size", "nan", NULL },
  { "size", "4KiB4", NULL },
  { "size!", "64GiB", "68719476736" },
  { "size!", "1", NULL },
  { "size!", "1B", "1" },
  { "duration", "0", "0" },
  { "duration", "2", "2000000000" },
  { "duration", "0.25", "250000000" },
  { "duration", "250ms", "250000000" },
  { "duration", "1.5s", "1500000000" },
  { "duration", "2min", "120000000000" },
  { "duration", "1h30min", "5400000000000" },
  { "duration", "3d", "259200000000000" },
  { "duration", "100us", "100000" },
  { "duration", "5ns", "5" },
  { "duration", "1d2h3min4s5ms6us7ns", "93784005006007" },
  { "duration", "106751d", "9223286400000000000" },
  { "duration", "106752d", NULL },
  { "duration", "1m", NULL },
  { "duration", "1min2h", NULL },
  { "duration", "1s1s", NULL },
  { "duration", "1.5h30min", NULL },
  { "duration", "1h30", NULL },
  { "duration", "s", NULL },
  { "duration", "-1s", NULL },
  { "duration", "1e3", NULL },
  { "duration", "inf", NULL },
  { "duration", "1 s", NULL },
  { "duration", "", NULL },
  { "count", "1000", "1000" },
  { "count", "10k", "10000" },
  { "count", "1M", "1000000" },
  { "count", "1.5k", "1500" },
  { "count", "1.0005k", NULL },
  { "count", "10K", NULL },
  { "count", "1.0", NULL },
  { "count", "-1", NULL },
  { "count", "20000000T", NULL },
  { "fraction", "0.05", "0.05" },
  { "fraction", "5%", "0.05" },
  { "fraction", "0", "0.0" },
  { "fraction", "100%", "1.0" },
  { "fraction", "%", NULL },
  { "fraction", "5%%", NULL },
  { "fraction", "-5%", NULL },
  { "fraction", "nan", NULL },
  { "fraction", "5 %", NULL },
  { "int", "-12", "-12" },
  { "int", "+12", "12" },
  { "int", "9223372036854775807", "9223372036854775807" },
  { "int", "9223372036854775808", NULL },
  { "int", "-9223372036854775808", "-9223372036854775808" },
  { "int", "1.0", NULL },
  { "int", "1_000", NULL },
  { "int", " 1", NULL },
  { "int", "1 ", NULL },
  { "int", "-", NULL },
  { "int", "", NULL },
  { "int", "0x1", NULL },
  { "uint", "18446744073709551615", "18446744073709551615" },
  { "uint", "18446744073709551616", NULL },
  { "uint", "-1", NULL },
  { "uint", "--1", NULL },
  { "double", "1", "1.0" },
  { "double", "-2.5e-3", "-0.0025" },
  { "double", ".5", "0.5" },
  { "double", "5.", "5.0" },
  { "double", "1e308", "1e+308" },
  { "double", "1e309", NULL },
  { "double", "nan", NULL },
  { "double", "inf", NULL },
  { "double", "-Infinity", NULL },
  { "double", "0x1p3", NULL },
  { "double", "1,5", NULL },
  { "double", "1_0", NULL },
  { "double", " 1", NULL },
  { "double", "1\n", NULL },
  { "double", ".", NULL },
  { "double", "1e", NULL },
  { "double", "", NULL },
  { "time", "12.5", "start 12500000000" },
  { "time", "+12s", "start 12000000000" },
  { "time", "1h", "start 3600000000000" },
  { "time", "50%", "fraction 0.5" },
  { "time", "@1758400000.25", "epoch 1758400000.25" },
  { "time", "2025-09-20T20:26:40Z", "epoch 1758400000.0" },
  { "time", "2025-09-20T22:26:40.250+02:00", "epoch 1758400000.25" },
  { "time", "20250920T202640Z", "epoch 1758400000.0" },
  { "time", "2025-09-20T20:26:40", NULL },
  { "time", "2025-09-20", NULL },
  { "time", "2025-13-20T20:26:40Z", NULL },
  { "time", "2025-09-20 20:26:40Z", NULL },
  { "time", "101%", NULL },
  { "time", "@", NULL },
  { "time", "@nan", NULL },
  { "time", "+", NULL },
  { "time", "-5", NULL },
  { "time", "", NULL },
};

static char *
parse (const char *kind, const char *text, GError **error)
{
  char buffer[32];
  gint64 i = 0;
  guint64 u = 0;
  double d = 0;
  LmtTimeValue time = { 0 };

  if (strcmp (kind, "size") == 0 || strcmp (kind, "size!") == 0)
    return lmt_parse_size (text, kind[4] == '!', &u, error) ? g_strdup_printf ("%" G_GUINT64_FORMAT, u) : NULL;
  if (strcmp (kind, "count") == 0)
    return lmt_parse_count (text, &u, error) ? g_strdup_printf ("%" G_GUINT64_FORMAT, u) : NULL;
  if (strcmp (kind, "uint") == 0)
    return lmt_parse_uint (text, &u, error) ? g_strdup_printf ("%" G_GUINT64_FORMAT, u) : NULL;
  if (strcmp (kind, "duration") == 0)
    return lmt_parse_duration (text, &i, error) ? g_strdup_printf ("%" G_GINT64_FORMAT, i) : NULL;
  if (strcmp (kind, "int") == 0)
    return lmt_parse_int (text, &i, error) ? g_strdup_printf ("%" G_GINT64_FORMAT, i) : NULL;
  if (strcmp (kind, "double") == 0)
    return lmt_parse_double (text, &d, error) ? g_strdup (lmt_json_format_double (d, buffer)) : NULL;
  if (strcmp (kind, "fraction") == 0)
    return lmt_parse_fraction (text, &d, error) ? g_strdup (lmt_json_format_double (d, buffer)) : NULL;
  g_assert_cmpstr (kind, ==, "time");
  if (!lmt_parse_time (text, &time, error))
    return NULL;
  if (time.kind == LMT_TIME_FROM_START_NS)
    return g_strdup_printf ("start %" G_GINT64_FORMAT, time.ns);
  if (time.kind == LMT_TIME_FRACTION)
    return g_strdup_printf ("fraction %s", lmt_json_format_double (time.fraction, buffer));
  return g_strdup_printf ("epoch %s", lmt_json_format_double (time.epoch_s, buffer));
}

static void
test_table (void)
{
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autoptr (GError) error = NULL;
      g_autofree char *found = parse (cases[i].kind, cases[i].text, &error);
      if (g_strcmp0 (found, cases[i].want) != 0)
        g_test_message ("%s \"%s\": expected %s, found %s", cases[i].kind, cases[i].text, cases[i].want, found);
      g_assert_cmpstr (found, ==, cases[i].want);
      if (cases[i].want != NULL)
        {
          g_assert_no_error (error);
          continue;
        }
      /* The message says what would have been taken and what was there. */
      g_autofree char *end = g_strdup_printf (", found \"%s\"", cases[i].text);
      g_assert_error (error, LMT_ERROR, LMT_ERROR_OPTION);
      g_assert_true (g_str_has_prefix (error->message, "expected "));
      g_assert_true (g_str_has_suffix (error->message, end));
    }
}

static void
test_sizes_back (void)
{
  static const struct
  {
    guint64 bytes;
    const char *text;
  } sizes[] = {
    { 0, "0" },
    { 1023, "1023" },
    { 1024, "1024 (1.0 KiB)" },
    { 113246208, "113246208 (108.0 MiB)" },
    { 1048575, "1048575 (1.0 MiB)" },
    { G_MAXUINT64, "18446744073709551615 (16.0 EiB)" },
  };
  for (guint i = 0; i < G_N_ELEMENTS (sizes); i++)
    {
      g_autofree char *text = lmt_format_size (sizes[i].bytes);
      g_assert_cmpstr (text, ==, sizes[i].text);
    }
}

static void
test_closest (void)
{
  static const char *const words[] = { "info", "replay", "version", "list-plugins", NULL };
  g_assert_cmpstr (lmt_closest ("inof", words), ==, "info");
  g_assert_cmpstr (lmt_closest ("repaly", words), ==, "replay");
  g_assert_cmpstr (lmt_closest ("list-plugin", words), ==, "list-plugins");
  g_assert_cmpstr (lmt_closest ("info", words), ==, "info");
  g_assert_null (lmt_closest ("ab", words));
  g_assert_null (lmt_closest ("", words));
  g_assert_null (lmt_closest ("replays-many", words));
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/value/table", test_table);
  g_test_add_func ("/value/sizes-back", test_sizes_back);
  g_test_add_func ("/value/closest", test_closest);
  return g_test_run ();
}
