/* SPDX-License-Identifier: Apache-2.0 */
#include <lmtrace/lmtrace.h>

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What the child writes to stderr, a pipe. */
static void
run (const char *expected)
{
  g_test_trap_subprocess (NULL, 0, G_TEST_SUBPROCESS_DEFAULT);
  g_test_trap_assert_passed ();
  g_test_trap_assert_stderr (expected);
}

static void
log_all (void)
{
  /* The test harness makes warnings fatal; this is about how they look. */
  g_log_set_always_fatal (G_LOG_FATAL_MASK);
  g_debug ("one");
  g_info ("two");
  g_message ("three");
  g_warning ("four");
}

static void
test_levels (void)
{
  if (g_test_subprocess ())
    {
      lmt_log_install ();
      lmt_log_install ();
      log_all ();
      lmt_log_set_level (LMT_LOG_ERROR);
      log_all ();
      lmt_log_set_level (LMT_LOG_INFO);
      log_all ();
      lmt_log_failure ("a.lct: no such file");
      return;
    }
  run ("lmtrace: message: three\nlmtrace: warning: four\n"
       "lmtrace: info: two\nlmtrace: message: three\nlmtrace: warning: four\n"
       "lmtrace: a.lct: no such file\n");
  g_test_trap_assert_stderr_unmatched ("*\033*");
}

static void
test_debug (void)
{
  if (g_test_subprocess ())
    {
      lmt_log_install ();
      lmt_log_set_level (LMT_LOG_DEBUG);
      log_all ();
      return;
    }
  run ("lmtrace: debug: [??:??:??.?????? test] one\nlmtrace: info: [*lmtrace: message: [*lmtrace: warning: [* test] four\n");
}

/* Words of a file can't move the cursor or begin a line of their own. */
static void
test_hostile (void)
{
  if (g_test_subprocess ())
    {
      lmt_log_install ();
      g_log_structured ("x", G_LOG_LEVEL_MESSAGE, "MESSAGE", "%s", "a\033[2J\nlmtrace: b\xff\xc2\x9b\303\274");
      return;
    }
  run ("lmtrace: message: a\\x1b[2J\\x0almtrace: b\\xff\\xc2\\x9b\303\274\n");
}

static void
test_color (void)
{
  if (g_test_subprocess ())
    {
      lmt_log_install ();
      g_setenv ("NO_COLOR", "1", TRUE);
      lmt_log_set_color (LMT_COLOR_ALWAYS);
      log_all ();
      lmt_log_set_color (LMT_COLOR_NEVER);
      log_all ();
      return;
    }
  run ("lmtrace: message: three\nlmtrace: \033[1;35mwarning\033[0m: four\nlmtrace: message: three\nlmtrace: warning: four\n");
}

/* On a terminal: --color beats the environment, NO_COLOR and TERM decide the rest. */
static void
test_terminal (void)
{
  static const struct
  {
    const char *no_color;
    const char *term;
    LmtColor color;
    gboolean use;
  } cases[] = {
    { NULL, "xterm", LMT_COLOR_AUTO, TRUE },   { "", "xterm", LMT_COLOR_AUTO, TRUE }, { "1", "xterm", LMT_COLOR_AUTO, FALSE },
    { NULL, "dumb", LMT_COLOR_AUTO, FALSE },   { NULL, NULL, LMT_COLOR_AUTO, FALSE }, { "1", "dumb", LMT_COLOR_ALWAYS, TRUE },
    { NULL, "xterm", LMT_COLOR_NEVER, FALSE },
  };
  const int terminal = posix_openpt (O_RDWR | O_NOCTTY);
  if (terminal < 0)
    {
      g_test_skip ("no pseudo terminal to be had");
      return;
    }
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      if (cases[i].no_color != NULL)
        g_setenv ("NO_COLOR", cases[i].no_color, TRUE);
      else
        g_unsetenv ("NO_COLOR");
      if (cases[i].term != NULL)
        g_setenv ("TERM", cases[i].term, TRUE);
      else
        g_unsetenv ("TERM");
      lmt_log_set_color (cases[i].color);
      g_assert_true (lmt_log_use_color (terminal) == cases[i].use);
    }
  close (terminal);

  g_unsetenv ("NO_COLOR");
  g_setenv ("TERM", "xterm", TRUE);
  lmt_log_set_color (LMT_COLOR_AUTO);
  const int file = open ("/dev/null", O_WRONLY);
  g_assert_false (lmt_log_use_color (file));
  close (file);
}

static void
test_json (void)
{
  if (g_test_subprocess ())
    {
      lmt_log_install ();
      lmt_log_set_json (TRUE);
      g_log_structured ("lmtrace-l2-s3", G_LOG_LEVEL_MESSAGE, "TRIES", "3", "MESSAGE", "Cannot reach \"%s\"", "h\n");
      lmt_log_failure ("bad");
      return;
    }
  run ("{\"time\": \"20*T*:*.*\", \"level\": \"message\", \"domain\": \"lmtrace-l2-s3\", \"message\": \"Cannot reach "
       "\\\"h\\n\\\"\", \"tries\": \"3\"}\n"
       "{\"time\": \"*\", \"level\": \"error\", \"domain\": \"lmtrace\", \"message\": \"bad\"}\n");
}

static void
test_ten_of_a_kind (void)
{
  if (g_test_subprocess ())
    {
      g_autoptr (LmtWarnings) warnings = lmt_warnings_new ();
      for (guint i = 1; i <= 25; i++)
        {
          g_autofree char *text = g_strdup_printf ("record %u", i);
          lmt_warnings_add (warnings, "malformed", text);
        }
      lmt_warnings_add (warnings, "late", "once");
      lmt_warnings_add_count (warnings, "malformed", 100);
      lmt_warnings_add_count (warnings, "unheard of", 100);
      lmt_warnings_add_count (NULL, "malformed", 100);
      lmt_warnings_flush (warnings);
      lmt_warnings_flush (warnings);
      g_assert_cmpuint (lmt_warnings_count (warnings, "malformed"), ==, 125);
      g_assert_cmpuint (lmt_warnings_count (warnings, "late"), ==, 1);
      g_assert_cmpuint (lmt_warnings_count (warnings, "other"), ==, 0);
      g_assert_cmpuint (lmt_warnings_count (warnings, NULL), ==, 126);
      return;
    }
  run ("lmtrace: warning: record 1\nlmtrace: warning: record 2\n*lmtrace: warning: record 10\nlmtrace: warning: once\n"
       "lmtrace: warning: malformed: 115 more\n");
}

static guint n_before;
static guint n_after;

static void
before (void)
{
  n_before++;
}

static void
after (void)
{
  n_after++;
  g_assert_cmpuint (n_after, ==, n_before);
}

static gpointer
warn_often (gpointer data)
{
  for (guint i = 0; i < 1000; i++)
    lmt_warnings_add (data, i % 2 == 0 ? "even" : "odd", "x");
  return NULL;
}

static void
test_hooks_and_threads (void)
{
  if (g_test_subprocess ())
    {
      g_autoptr (LmtWarnings) warnings = lmt_warnings_new ();
      GThread *threads[4];
      lmt_log_set_hooks (before, after);
      for (guint i = 0; i < G_N_ELEMENTS (threads); i++)
        threads[i] = g_thread_new ("warn", warn_often, warnings);
      for (guint i = 0; i < G_N_ELEMENTS (threads); i++)
        g_thread_join (threads[i]);
      g_assert_cmpuint (lmt_warnings_count (warnings, "even"), ==, 2000);
      g_assert_cmpuint (lmt_warnings_count (warnings, "odd"), ==, 2000);
      g_assert_cmpuint (n_before, ==, 20);
      g_assert_cmpuint (n_after, ==, 20);
      lmt_warnings_add (NULL, "even", "nobody counts");
      return;
    }
  run ("*lmtrace: warning: x\n*lmtrace: warning: nobody counts\n");
}

static void
test_words (void)
{
  static const struct
  {
    const char *text;
    gboolean good;
    LmtLogLevel level;
  } cases[] = {
    { "error", TRUE, LMT_LOG_ERROR }, { "WARNING", TRUE, LMT_LOG_WARNING }, { "message", TRUE, LMT_LOG_MESSAGE },
    { "INFO", TRUE, LMT_LOG_INFO },   { "debug", TRUE, LMT_LOG_DEBUG },     { "critical", TRUE, LMT_LOG_ERROR },
    { "loud", FALSE, LMT_LOG_ERROR }, { "", FALSE, LMT_LOG_ERROR },
  };
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      LmtLogLevel level = LMT_LOG_ERROR;
      g_assert_true (lmt_log_level_from_text (cases[i].text, &level) == cases[i].good);
      g_assert_cmpint (level, ==, cases[i].level);
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/log/levels", test_levels);
  g_test_add_func ("/log/debug", test_debug);
  g_test_add_func ("/log/hostile", test_hostile);
  g_test_add_func ("/log/color", test_color);
  g_test_add_func ("/log/terminal", test_terminal);
  g_test_add_func ("/log/json", test_json);
  g_test_add_func ("/log/ten-of-a-kind", test_ten_of_a_kind);
  g_test_add_func ("/log/hooks-and-threads", test_hooks_and_threads);
  g_test_add_func ("/log/words", test_words);
  return g_test_run ();
}
