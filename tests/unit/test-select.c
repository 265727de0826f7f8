/* SPDX-License-Identifier: Apache-2.0 */
#include <lmtrace/lmtrace.h>

#include <math.h>
#include <string.h>

/* Parses a line of selection options over a fresh config. */
static LmtSelect *
select_new (const char *line, double span_s, GError **error)
{
  LmtSelectConfig config = { 0 };
  g_autoptr (LmtOptions) options = lmt_options_new ();
  g_auto (GStrv) words = g_strsplit (line, " ", -1);
  lmt_options_add_table (options, lmt_select_options, &config);
  if (*line != '\0' && !lmt_options_parse_argv (options, (const char *const *)words, TRUE, NULL, error))
    return NULL;
  return lmt_select_new (&config, NULL, span_s, error);
}

static LmtRecord
record_at (guint64 number, double t_mono, const char *qualname)
{
  const LmtRecord record = { .number = number,
                             .t_mono = t_mono,
                             .t_wall = 1758400000.0 + t_mono,
                             .qualname = { (const guint8 *)qualname, strlen (qualname) } };
  return record;
}

/* Ten records, a second apart, names a.x b.x a.y …: which of them pass. */
static void
test_records (void)
{
  static const char *const names[] = { "m.a.x", "m.b.x", "m.a.y" };
  static const struct
  {
    const char *line;
    const char *passed;
  } cases[] = {
    { "", "1111111111" },
    { "--records 3..5", "0011100000" },
    { "--records ..2", "1100000000" },
    { "--records 9..", "0000000011" },
    { "--records ..", "1111111111" },
    { "--time 2..4", "0011100000" },
    { "--time 2.5s..", "0001111111" },
    { "--time ..+1500ms", "1100000000" },
    { "--time 50%..100%", "0000011111" },
    { "--time @1758400003..@1758400004.5", "0001100000" },
    { "--time 2025-09-20T20:26:48Z..", "0000000011" },
    { "--time @1758400008..9", "0000000011" },
    { "--qualname m.a.*", "1011011011" },
    { "--qualname *.x", "1101101101" },
    { "--qualname m.a.x --qualname m.b.?", "1101101101" },
    { "--qualname !m.a.*", "0100100100" },
    { "--qualname m.* --qualname !*.y", "1101101101" },
    { "--qualname m.a", "0000000000" },
    { "--qualname * --records 2..4 --time 2..", "0011000000" },
  };
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (LmtSelect) select = select_new (cases[i].line, 9.0, &error);
      g_assert_no_error (error);
      g_assert_true (lmt_select_is_empty (select) == (*cases[i].line == '\0'));
      g_assert_false (lmt_select_wants_keys (select));
      char passed[11] = "";
      for (guint k = 0; k < 10; k++)
        {
          const LmtRecord record = record_at (k + 1, k, names[k % 3]);
          passed[k] = lmt_select_record (select, &record) ? '1' : '0';
        }
      if (strcmp (passed, cases[i].passed) != 0)
        g_test_message ("%s", cases[i].line);
      g_assert_cmpstr (passed, ==, cases[i].passed);
    }
}

static void
test_odd_times (void)
{
  g_autoptr (LmtSelect) select = select_new ("--time 0..", -1, NULL);
  const LmtRecord nan_time = record_at (1, NAN, "x");
  const LmtRecord infinite = record_at (1, INFINITY, "x");
  const LmtRecord negative = record_at (1, -1, "x");
  g_assert_false (lmt_select_record (select, &nan_time));
  g_assert_true (lmt_select_record (select, &infinite));
  g_assert_false (lmt_select_record (select, &negative));
  LmtSelectConfig config = { 0 };
  g_assert_false (lmt_select_wants_span (&config));
  config.time = (char *)"..50%";
  g_assert_true (lmt_select_wants_span (&config));
}

static LmtKeyFields
key_of (const char *model, guint64 rank, guint32 group, const guint8 *hash, guint hash_len, const char *salt)
{
  const LmtKeyFields key = { .struct_size = sizeof key,
                             .model = model,
                             .model_len = (guint32)strlen (model),
                             .rank = rank,
                             .group = group,
                             .hash = hash,
                             .hash_len = hash_len,
                             .salt = salt,
                             .salt_len = (guint32)strlen (salt) };
  return key;
}

static void
test_keys (void)
{
  static const guint8 hash[] = { 0xc1, 0x5c, 0x02 };
  static const struct
  {
    const char *line;
    gboolean passes;
  } cases[] = {
    { "--model meta/*", TRUE },    { "--model Qwen*", FALSE },
    { "--model !meta/*", FALSE },  { "--salt alice", TRUE },
    { "--salt alic", FALSE },      { "--rank 16777472", TRUE },
    { "--rank 0x01000100", TRUE }, { "--rank 0..3,0x01000100", TRUE },
    { "--rank 1..5", FALSE },      { "--group 2", TRUE },
    { "--group ..1", FALSE },      { "--group 1..", TRUE },
    { "--key c15c", TRUE },        { "--key 0xC15", TRUE },
    { "--key c", TRUE },           { "--key c15c02", TRUE },
    { "--key c15c0201", FALSE },   { "--key c14", FALSE },
    { "--key d --key c1", TRUE },  { "--sample 1", TRUE },
    { "--sample 100%:9", TRUE },   { "--model meta/* --salt bob", FALSE },
  };
  const LmtKeyFields key = key_of ("meta/llama", 0x01000100, 2, hash, sizeof hash, "alice");
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (LmtSelect) select = select_new (cases[i].line, -1, &error);
      g_assert_no_error (error);
      g_assert_true (lmt_select_wants_keys (select));
      g_assert_false (lmt_select_is_empty (select));
      if (lmt_select_key (select, &key) != cases[i].passes)
        g_error ("%s", cases[i].line);
    }
  /* A key without a hash has no digits. */
  const LmtKeyFields bare = key_of ("", 0, 0, NULL, 0, "");
  g_autoptr (LmtSelect) prefix = select_new ("--key c", -1, NULL);
  g_assert_false (lmt_select_key (prefix, &bare));
}

static void
test_words (void)
{
  g_autoptr (LmtSelect) select
      = select_new ("--instance node-* --instance !node-b --tier l1,l2 --backend fs --event-type store", -1, NULL);
  static const struct
  {
    const char *kind;
    const char *word;
    gboolean passes;
  } cases[] = {
    { "instance", "node-a", TRUE },  { "instance", "node-b", FALSE },   { "tier", "l2", TRUE },
    { "tier", "l", FALSE },          { "backend", "fs", TRUE },         { "backend", "", FALSE },
    { "event-type", "store", TRUE }, { "event-type", "delete", FALSE },
  };
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    g_assert_true (lmt_select_word (select, cases[i].kind, cases[i].word, strlen (cases[i].word)) == cases[i].passes);
  g_autoptr (LmtSelect) all = select_new ("", -1, NULL);
  g_assert_true (lmt_select_word (all, "tier", "x", 1));
}

static guint
count_sampled (const char *line, GArray *kept)
{
  g_autoptr (LmtSelect) select = select_new (line, -1, NULL);
  guint n = 0;
  for (guint32 i = 0; i < 20000; i++)
    {
      const LmtKeyFields key = key_of ("m", 0, 0, (const guint8 *)&i, sizeof i, "");
      const gboolean keep = lmt_select_key (select, &key);
      g_assert_true (lmt_select_key (select, &key) == keep);
      n += keep ? 1 : 0;
      if (kept != NULL)
        g_array_append_val (kept, keep);
    }
  return n;
}

/* The share is met, the choice hangs on key and seed alone, and a smaller sample lies in a larger one. */
static void
test_sample (void)
{
  g_autoptr (GArray) small = g_array_new (FALSE, FALSE, sizeof (gboolean));
  g_autoptr (GArray) large = g_array_new (FALSE, FALSE, sizeof (gboolean));
  g_autoptr (GArray) other = g_array_new (FALSE, FALSE, sizeof (gboolean));
  g_assert_cmpint (ABS ((int)count_sampled ("--sample 0.1", small) - 2000), <, 200);
  g_assert_cmpint (ABS ((int)count_sampled ("--sample 50%", large) - 10000), <, 400);
  g_assert_cmpint (ABS ((int)count_sampled ("--sample 0.1:7", other) - 2000), <, 200);
  guint both = 0;
  for (guint i = 0; i < small->len; i++)
    {
      g_assert_true (!g_array_index (small, gboolean, i) || g_array_index (large, gboolean, i));
      both += g_array_index (small, gboolean, i) && g_array_index (other, gboolean, i) ? 1 : 0;
    }
  g_assert_cmpuint (both, <, 400);
}

static void
test_sessions (void)
{
  g_autoptr (LmtSelect) select = select_new ("--session-gap 5s --sample-sessions 0.5", -1, NULL);
  guint sessions = 0;
  for (guint s = 0; s < 1000; s++)
    {
      gboolean first = FALSE;
      for (guint k = 0; k < 4; k++)
        {
          const LmtRecord record = record_at (s * 4 + k + 1, s * 20.0 + k * 4.0, "x");
          const gboolean passes = lmt_select_record (select, &record);
          if (k == 0)
            first = passes;
          g_assert_true (passes == first); /* a session is kept whole */
        }
      sessions += first ? 1 : 0;
    }
  g_assert_cmpint (ABS ((int)sessions - 500), <, 100);
}

static void
test_bad (void)
{
  static const char *const cases[][2] = {
    { "--time 5..1", "--time: expected a range that does not end before it starts, found \"5..1\"" },
    { "--time x..", "--time: expected a time (12.5, +12s, 50%, @1758400000.25 or 2025-09-20T20:26:40Z), found \"x\"" },
    { "--time 1", "--time: expected a range (START..END, either may be empty), found \"1\"" },
    { "--time 50%..", "--time: expected a time that needs no look at the end of the input, found \"50%\"" },
    { "--records 5..4", "--records: expected a range of record numbers (START..END, either may be empty), found \"5..4\"" },
    { "--records a..", "--records: expected a range of record numbers (START..END, either may be empty), found \"a..\"" },
    { "--rank 1,,2", "--rank: expected a list of numbers (0,2 or 0..3), found \"1,,2\"" },
    { "--rank -1", "--rank: expected a list of numbers (0,2 or 0..3), found \"-1\"" },
    { "--group=", "--group: expected a list of numbers (0,2 or 0..3), found \"\"" },
    { "--tier l1,", "--tier: expected names parted by commas, found \"l1,\"" },
    { "--key xyz", "--key: expected the first hexadecimal digits of a chunk hash, found \"xyz\"" },
    { "--key=", "--key: expected the first hexadecimal digits of a chunk hash, found \"\"" },
    { "--sample 0", "--sample: expected a share above 0 and at most 1, with a seed if wanted (0.1, 5%, 0.1:7), found \"0\"" },
    { "--sample 0.1:x",
      "--sample: expected a share above 0 and at most 1, with a seed if wanted (0.1, 5%, 0.1:7), found \"0.1:x\"" },
    { "--sample=", "--sample: expected a share above 0 and at most 1, with a seed if wanted (0.1, 5%, 0.1:7), found \"\"" },
    { "--session-gap 5", "--session-gap: expected together with --sample-sessions" },
    { "--sample-sessions 0.5", "--sample-sessions: expected together with --session-gap" },
  };
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (LmtSelect) select = select_new (cases[i][0], -1, &error);
      g_assert_null (select);
      g_assert_error (error, LMT_ERROR, LMT_ERROR_OPTION);
      g_assert_cmpstr (error->message, ==, cases[i][1]);
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/select/records", test_records);
  g_test_add_func ("/select/odd-times", test_odd_times);
  g_test_add_func ("/select/keys", test_keys);
  g_test_add_func ("/select/words", test_words);
  g_test_add_func ("/select/sample", test_sample);
  g_test_add_func ("/select/sessions", test_sessions);
  g_test_add_func ("/select/bad", test_bad);
  return g_test_run ();
}
