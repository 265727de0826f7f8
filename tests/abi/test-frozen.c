/* SPDX-License-Identifier: Apache-2.0 */

/* Serves a plugin that was built against the headers of an earlier release: argv[1]. */
#include <lmtrace/lmtrace.h>

#include <string.h>

static LmtRegistry *registry;

static void
test_level (void)
{
  g_autoptr (GByteArray) bytes = g_byte_array_new ();
  g_autoptr (GError) error = NULL;
  g_autoptr (LmtReader) reader = NULL;
  g_autoptr (LmtReplay) replay = NULL;
  g_autoptr (LmtReport) report = lmt_report_new ("Frozen", LMT_REPORT_WIDTH);
  g_autoptr (LmtOptions) options = lmt_options_new ();
  g_autofree char *text = NULL;
  const LmtLevelOps *level = lmt_registry_get_level (registry, "old", &error);
  LmtHeaderFields fields = { .level = "old", .trace_schema_version = 1, .sm_config_json = "", .sm_config_digest = "" };
  LmtClock *clock = lmt_clock_virtual_new (1000);
  LmtReplayPlan plan = { .clock = clock };
  LmtReplayEnv env = { .struct_size = sizeof env };
  static const guint8 empty_map[] = { 0x80 };
  gpointer session, config;

  g_assert_no_error (error);
  config = g_malloc0 (level->config_size);
  lmt_options_add_table (options, level->options, config);
  g_assert_true (lmt_options_set (options, "step", "5", LMT_ORIGIN_COMMAND_LINE, &error));
  env.config = config;
  env.clock = clock;
  lmt_header_encode (&fields, bytes);
  for (int i = 0; i < 3; i++)
    lmt_record_encode (i, i, (LmtSpan){ (const guint8 *)"Old.call", 8 }, (LmtSpan){ empty_map, 1 }, bytes);
  reader = lmt_reader_new_for_bytes (bytes->data, bytes->len, "frozen.lct");
  g_assert_true (lmt_reader_read_header (reader, &error));
  replay = lmt_replay_new (registry, level);
  session = level->configure (&env, &error);
  g_assert_true (lmt_replay_run (replay, reader, session, &plan, &error));
  level->report (session, report);
  level->free (session);
  text = lmt_report_to_text (report);
  g_assert_nonnull (strstr (text, " 30\n"));   /* 5 x (1 + 2 + 3) */
  g_assert_nonnull (strstr (text, " True\n")); /* finish() came before */
  g_assert_cmpuint (lmt_replay_get_totals (replay)->status[LMT_STATUS_OK], ==, 3);
  g_free (config);
  lmt_clock_virtual_free (clock);
}

static void
test_codec (void)
{
  static const guint8 five[] = { 5 }, text[] = { 0xa1, 'x' };
  const LmtCodecOps *codec = lmt_registry_peek_codec (registry, "OldTag", 6);
  LmtFault fault = { 0 };
  LmtCursor cursor;
  guint64 value = 0;

  g_assert_nonnull (codec);
  lmt_cursor_init (&cursor, (LmtSpan){ five, sizeof five });
  g_assert_true (codec->decode (&cursor, &value, NULL, &fault));
  g_assert_cmpuint (value, ==, 5);
  lmt_cursor_init (&cursor, (LmtSpan){ text, sizeof text });
  g_assert_false (codec->decode (&cursor, &value, NULL, &fault));
  g_assert_cmpstr (fault.reason, ==, "wrong-type");
}

static void
test_adapter (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (LmtL2Config) config = lmt_l2_config_parse (registry, "{\"type\": \"older\", \"word\": \"hello\"}", 1, &error);
  const LmtL2Ops *ops = lmt_registry_get_l2 (registry, "older", &error);
  LmtL2Host host = { .struct_size = sizeof host };
  LmtL2Info info = { .struct_size = sizeof info };
  LmtL2Io io = { .struct_size = sizeof io, .kind = LMT_L2_STORE, .buffer_bytes = 4096 };
  gpointer values[2] = { NULL, (gpointer) "hello" };
  gpointer handle;

  g_assert_no_error (error);
  g_assert_nonnull (config);
  handle = ops->open (values, "older", &host, &info, &error);
  g_assert_cmpstr (handle, ==, "hello");
  g_assert_cmpuint (info.depth, ==, 4);
  g_assert_cmpuint (ops->submit (handle, &io), ==, LMT_L2_SUBMIT_DONE);
  g_assert_cmpuint (io.code, ==, LMT_L2_OK);
  g_assert_cmpuint (io.done_bytes, ==, 4096);
  g_assert_cmpuint (ops->reap (handle, NULL, 0), ==, 0);
  ops->close (handle);
}

static void
test_command (void)
{
  g_autoptr (GError) error = NULL;
  const LmtCommandOps *command = lmt_registry_get_command (registry, "old-command", &error);
  static const char *const operands[] = { "x", NULL };
  guint64 config[2] = { 9, 0 };
  LmtCommandContext context = { .struct_size = sizeof context, .config = config, .operands = operands };

  g_assert_no_error (error);
  g_assert_cmpint (command->run (&context, &error), ==, 9);
}

int
main (int argc, char **argv)
{
  g_autoptr (GError) error = NULL;
  int code;

  g_test_init (&argc, &argv, NULL);
  g_assert_cmpint (argc, ==, 2);
  registry = lmt_registry_new ();
  lmt_registry_set_default_dirs (registry, FALSE);
  lmt_registry_load_file (registry, argv[1], &error);
  g_assert_no_error (error);
  g_test_add_func ("/abi/frozen/level", test_level);
  g_test_add_func ("/abi/frozen/codec", test_codec);
  g_test_add_func ("/abi/frozen/adapter", test_adapter);
  g_test_add_func ("/abi/frozen/command", test_command);
  code = g_test_run ();
  g_object_unref (registry);
  return code;
}
