/* SPDX-License-Identifier: Apache-2.0 */
#include <lmtrace/lmt-plugin.h>

#include <string.h>

/* -------- tables that are right -------- */

static gpointer
l2_open (gconstpointer config, const char *type, const LmtL2Host *host, LmtL2Info *info, GError **error)
{
  return g_new0 (int, 1);
}

static void
l2_close (gpointer handle)
{
  g_free (handle);
}

static guint32
l2_submit (gpointer handle, LmtL2Io *io)
{
  return LMT_L2_SUBMIT_DONE;
}

static guint32
l2_reap (gpointer handle, LmtL2Io **ios, guint32 max)
{
  return 0;
}

static guint32
handle_record (gpointer session, const LmtRecord *record, LmtOutcome *outcome)
{
  return LMT_STATUS_OK;
}

static gboolean
decode (LmtCursor *payload, gpointer value, gpointer scratch, LmtFault *fault)
{
  return TRUE;
}

static gpointer
configure (const LmtReplayEnv *env, GError **error)
{
  return NULL;
}

static int
run (const LmtCommandContext *context, GError **error)
{
  return 0;
}

typedef struct
{
  guint32 flag;
  char *text;
} Config;

static const char *const aliases[] = { "second", NULL };
static const LmtOption rows[] = { LMT_OPTION (BOOL, "flag", Config, flag, NULL, NULL, "A flag"),
                                  LMT_OPTION (STRING, "text", Config, text, NULL, NULL, "A text"), LMT_OPTION_END };

static LmtL2Ops
good_l2 (void)
{
  LmtL2Ops ops = { .struct_size = sizeof (LmtL2Ops), .name = "first", .aliases = aliases, .options = rows };

  ops.config_size = sizeof (Config);
  ops.open = l2_open;
  ops.close = l2_close;
  ops.submit = l2_submit;
  ops.reap = l2_reap;
  return ops;
}

/* What the next load() registers. */
static struct
{
  LmtLevelOps level;
  LmtHandlerOps handler;
  LmtCodecOps codec;
  LmtL2Ops l2;
  LmtCommandOps command;
} set;

static void
set_good (void)
{
  memset (&set, 0, sizeof set);
  set.level.struct_size = sizeof (LmtLevelOps);
  set.level.name = "mq";
  set.handler = (LmtHandlerOps){ sizeof (LmtHandlerOps), 0, "mq", "Q.push", handle_record };
  set.codec = (LmtCodecOps){ sizeof (LmtCodecOps), 8, "Tag", NULL, decode };
  set.l2 = good_l2 ();
  set.command.struct_size = sizeof (LmtCommandOps);
  set.command.name = "do-it";
  set.command.run = run;
}

static gboolean
load_set (LmtRegistrar *reg, GError **error)
{
  return lmt_registrar_add_level (reg, &set.level, error) && lmt_registrar_add_handler (reg, &set.handler, error)
         && lmt_registrar_add_codec (reg, &set.codec, error) && lmt_registrar_add_l2 (reg, &set.l2, error)
         && lmt_registrar_add_command (reg, &set.command, error);
}

static LmtRegistry *
new_registry (void)
{
  LmtRegistry *registry = lmt_registry_new ();

  lmt_registry_set_default_dirs (registry, FALSE);
  return registry;
}

static void
assert_nothing (LmtRegistry *registry)
{
  g_autofree const char **levels = lmt_registry_list_levels (registry);
  g_autofree const char **l2 = lmt_registry_list_l2 (registry);
  g_autofree const char **commands = lmt_registry_list_commands (registry);
  g_autofree const char **codecs = lmt_registry_list_codecs (registry);
  g_autoptr (GPtrArray) handlers = lmt_registry_list_handlers (registry, "mq");

  g_assert_null (levels[0]);
  g_assert_null (l2[0]);
  g_assert_null (commands[0]);
  g_assert_null (codecs[0]);
  g_assert_cmpuint (handlers->len, ==, 0);
}

/* -------- tests -------- */

static void
test_all_five (void)
{
  g_autoptr (LmtRegistry) registry = new_registry ();
  g_autoptr (GError) error = NULL;
  g_autoptr (GPtrArray) handlers = NULL;
  g_autofree const char **l2 = NULL;
  const LmtL2Ops *ops;

  set_good ();
  g_assert_true (lmt_registry_load_builtin (registry, "five", load_set, &error));
  g_assert_no_error (error);
  g_assert_nonnull (lmt_registry_get_level (registry, "mq", &error));
  g_assert_nonnull (lmt_registry_get_command (registry, "do-it", &error));
  g_assert_nonnull (lmt_registry_peek_codec (registry, "Tagged", 3));
  g_assert_null (lmt_registry_peek_codec (registry, "Tagged", 6));
  ops = lmt_registry_get_l2 (registry, "first", &error);
  g_assert_true (ops == lmt_registry_get_l2 (registry, "second", &error));
  g_assert_true (ops != &set.l2); /* a copy */
  g_assert_no_error (error);
  handlers = lmt_registry_list_handlers (registry, "mq");
  g_assert_cmpuint (handlers->len, ==, 1);
  l2 = lmt_registry_list_l2 (registry);
  g_assert_cmpstr (l2[0], ==, "first");
  g_assert_cmpstr (l2[1], ==, "second");
  g_assert_null (l2[2]);
  g_assert_cmpstr (lmt_plugin_info_get_name (lmt_registry_get_owner (registry, "l2", "second")), ==, "five");
  g_assert_cmpstr (lmt_plugin_info_get_path (lmt_registry_get_owner (registry, "handler", "Q.push")), ==, "builtin");
  g_assert_null (lmt_registry_get_owner (registry, "level", "qm"));
  lmt_registry_unload (registry);
  assert_nothing (registry);
}

/* Each row breaks one thing and says what is answered. */
typedef struct
{
  const char *path;
  void (*break_it) (void);
  int code;
  const char *message;
} Refusal;

#define BREAK(name, what)                                                                                                        \
  static void name (void)                                                                                                        \
  {                                                                                                                              \
    what;                                                                                                                        \
  }
BREAK (short_level, set.level.struct_size = 24)
BREAK (upper_level, set.level.name = "Mq")
BREAK (path_level, set.level.name = "../mq")
BREAK (null_level, set.level.name = NULL)
BREAK (leaky_level, set.level.configure = configure)
BREAK (short_handler, set.handler.struct_size = 8)
BREAK (null_call, set.handler.call = NULL)
BREAK (empty_qualname, set.handler.qualname = "")
BREAK (no_handler_level, set.handler.level = NULL)
BREAK (short_codec, set.codec.struct_size = 12)
BREAK (null_decode, set.codec.decode = NULL)
BREAK (short_l2, set.l2.struct_size = 24)
BREAK (digit_l2, set.l2.name = "1st")
BREAK (null_open, set.l2.open = NULL)
BREAK (null_close, set.l2.close = NULL)
BREAK (null_submit, set.l2.submit = NULL)
BREAK (null_reap, set.l2.reap = NULL)
static const char *const bad_aliases[] = { "fine", "not fine", NULL };
BREAK (bad_alias, set.l2.aliases = bad_aliases)
static const char *const own_alias[] = { "first", NULL };
BREAK (alias_clash, set.l2.aliases = own_alias)
BREAK (small_config, set.l2.config_size = 12)
static const LmtOption double_rows[] = { LMT_OPTION (BOOL, "flag", Config, flag, NULL, NULL, "A flag"),
                                         LMT_OPTION (STRING, "flag", Config, text, NULL, NULL, "A text"), LMT_OPTION_END };
BREAK (double_option, set.l2.options = double_rows)
BREAK (null_run, set.command.run = NULL)
BREAK (blank_command, set.command.name = "do it")

static const Refusal refusals[] = {
  { "level/short", short_level, LMT_ERROR_PLUGIN_TABLE, "level \"mq\": struct_size 24, the smallest accepted is *" },
  { "level/upper", upper_level, LMT_ERROR_PLUGIN_TABLE, "level \"Mq\": name: expected [a-z][a-z0-9_-]*, found \"Mq\"" },
  { "level/path", path_level, LMT_ERROR_PLUGIN_TABLE, "level \"../mq\": name: expected [a-z][a-z0-9_-]*, found \"../mq\"" },
  { "level/null", null_level, LMT_ERROR_PLUGIN_TABLE, "level: name: expected a text, found NULL" },
  { "level/no-free", leaky_level, LMT_ERROR_PLUGIN_TABLE, "level \"mq\": free: expected a function, found NULL" },
  { "handler/short", short_handler, LMT_ERROR_PLUGIN_TABLE, "qualname \"Q.push\": struct_size 8, the smallest accepted is *" },
  { "handler/null-call", null_call, LMT_ERROR_PLUGIN_TABLE, "qualname \"Q.push\": call: expected a function, found NULL" },
  { "handler/empty", empty_qualname, LMT_ERROR_PLUGIN_TABLE, "qualname \"\": name: expected a text, found \"\"" },
  { "handler/no-level", no_handler_level, LMT_ERROR_PLUGIN_TABLE,
    "qualname \"Q.push\": level: expected [a-z][a-z0-9_-]*, found \"\"" },
  { "codec/short", short_codec, LMT_ERROR_PLUGIN_TABLE, "tag \"Tag\": struct_size 12, the smallest accepted is *" },
  { "codec/null-decode", null_decode, LMT_ERROR_PLUGIN_TABLE, "tag \"Tag\": decode: expected a function, found NULL" },
  { "l2/short", short_l2, LMT_ERROR_PLUGIN_TABLE, "adapter \"first\": struct_size 24, the smallest accepted is *" },
  { "l2/digit", digit_l2, LMT_ERROR_PLUGIN_TABLE, "adapter \"1st\": name: expected [a-z][a-z0-9_-]*, found \"1st\"" },
  { "l2/null-open", null_open, LMT_ERROR_PLUGIN_TABLE, "adapter \"first\": open: expected a function, found NULL" },
  { "l2/null-close", null_close, LMT_ERROR_PLUGIN_TABLE, "adapter \"first\": close: expected a function, found NULL" },
  { "l2/null-submit", null_submit, LMT_ERROR_PLUGIN_TABLE, "adapter \"first\": submit: expected a function, found NULL" },
  { "l2/null-reap", null_reap, LMT_ERROR_PLUGIN_TABLE, "adapter \"first\": reap: expected a function, found NULL" },
  { "l2/bad-alias", bad_alias, LMT_ERROR_PLUGIN_TABLE,
    "adapter \"first\": aliases: expected [a-z][a-z0-9_-]*, found \"not fine\"" },
  { "l2/alias-clash", alias_clash, LMT_ERROR_PLUGIN_CLASH, "adapter \"first\" is already registered by builtin" },
  { "l2/small-config", small_config, LMT_ERROR_PLUGIN_TABLE,
    "adapter \"first\": option \"text\": expected a place inside config_size 12, found offset 8" },
  { "l2/double-option", double_option, LMT_ERROR_PLUGIN_TABLE, "adapter \"first\": option \"flag\": expected once, found twice" },
  { "command/null-run", null_run, LMT_ERROR_PLUGIN_TABLE, "command \"do-it\": run: expected a function, found NULL" },
  { "command/blank", blank_command, LMT_ERROR_PLUGIN_TABLE,
    "command \"do it\": name: expected [a-z][a-z0-9_-]*, found \"do it\"" },
};

static void
test_refused (gconstpointer data)
{
  const Refusal *row = data;
  g_autoptr (LmtRegistry) registry = new_registry ();
  g_autoptr (GError) error = NULL;

  set_good ();
  row->break_it ();
  g_assert_false (lmt_registry_load_builtin (registry, "bad", load_set, &error));
  g_assert_error (error, LMT_ERROR, row->code);
  if (!g_pattern_match_simple (row->message, error->message))
    g_assert_cmpstr (error->message, ==, row->message);
  assert_nothing (registry);
}

/* load() that swallows what an add function said is refused all the same. */
static gboolean
load_swallow (LmtRegistrar *reg, GError **error)
{
  LmtCodecOps bad = set.codec;

  bad.decode = NULL;
  lmt_registrar_add_level (reg, &set.level, NULL);
  lmt_registrar_add_codec (reg, &bad, NULL);
  return TRUE;
}

static gboolean
load_half (LmtRegistrar *reg, GError **error)
{
  if (!lmt_registrar_add_level (reg, &set.level, error) || !lmt_registrar_add_l2 (reg, &set.l2, error))
    return FALSE;
  g_set_error (error, LMT_ERROR, LMT_ERROR_IO, "no coffee");
  return FALSE;
}

static gboolean
load_mute (LmtRegistrar *reg, GError **error)
{
  return FALSE;
}

static void
test_failing_load (void)
{
  g_autoptr (LmtRegistry) registry = new_registry ();
  g_autoptr (GError) error = NULL;

  set_good ();
  g_assert_false (lmt_registry_load_builtin (registry, "swallow", load_swallow, &error));
  g_assert_error (error, LMT_ERROR, LMT_ERROR_PLUGIN_TABLE);
  g_clear_error (&error);
  assert_nothing (registry);
  g_assert_false (lmt_registry_load_builtin (registry, "half", load_half, &error));
  g_assert_error (error, LMT_ERROR, LMT_ERROR_PLUGIN_LOAD);
  g_assert_cmpstr (error->message, ==, "load() failed: no coffee");
  g_clear_error (&error);
  assert_nothing (registry);
  g_assert_false (lmt_registry_load_builtin (registry, "mute", load_mute, &error));
  g_assert_cmpstr (error->message, ==, "load() failed: it gave no reason");
  g_clear_error (&error);
  /* What a failed load() had taken is free again. */
  g_assert_true (lmt_registry_load_builtin (registry, "good", load_set, &error));
  g_assert_no_error (error);
}

static gboolean
load_level (LmtRegistrar *reg, GError **error)
{
  return lmt_registrar_add_level (reg, &set.level, error);
}

static gboolean
load_handler (LmtRegistrar *reg, GError **error)
{
  return lmt_registrar_add_handler (reg, &set.handler, error);
}

static gboolean
load_second (LmtRegistrar *reg, GError **error)
{
  LmtL2Ops ops = set.l2;

  ops.name = "second";
  ops.aliases = NULL;
  return lmt_registrar_add_l2 (reg, &ops, error);
}

static void
test_clashes (void)
{
  g_autoptr (LmtRegistry) registry = new_registry ();
  g_autoptr (GError) error = NULL;

  set_good ();
  g_assert_true (lmt_registry_load_builtin (registry, "good", load_set, &error));
  g_assert_false (lmt_registry_load_builtin (registry, "again", load_level, &error));
  g_assert_error (error, LMT_ERROR, LMT_ERROR_PLUGIN_CLASH);
  g_assert_cmpstr (error->message, ==, "level \"mq\" is already registered by builtin");
  g_clear_error (&error);
  g_assert_false (lmt_registry_load_builtin (registry, "again", load_handler, &error));
  g_assert_cmpstr (error->message, ==, "qualname \"Q.push\" of level \"mq\" is already registered by builtin");
  g_clear_error (&error);
  /* a name that is another's alias */
  g_assert_false (lmt_registry_load_builtin (registry, "again", load_second, &error));
  g_assert_cmpstr (error->message, ==, "adapter \"second\" is already registered by builtin");
  g_clear_error (&error);
  /* the same qualname of another level is free */
  set.handler.level = "other";
  g_assert_true (lmt_registry_load_builtin (registry, "other", load_handler, &error));
  g_assert_no_error (error);
}

/* A plugin of a later day: longer tables, callbacks nobody here knows. */
static void
test_newer (void)
{
  g_autoptr (LmtRegistry) registry = new_registry ();
  g_autoptr (GError) error = NULL;
  struct
  {
    LmtL2Ops ops;
    gpointer later[4];
  } newer;
  const LmtL2Ops *copy;

  set_good ();
  newer.ops = set.l2;
  newer.ops.struct_size = sizeof newer;
  newer.ops.threads = 17;
  memset (newer.later, 0xff, sizeof newer.later);
  set.l2 = newer.ops;
  g_assert_true (lmt_registry_load_builtin (registry, "newer", load_set, &error));
  g_assert_no_error (error);
  copy = lmt_registry_get_l2 (registry, "first", &error);
  g_assert_cmpuint (copy->struct_size, ==, sizeof (LmtL2Ops));
  g_assert_cmpuint (copy->threads, ==, LMT_THREADS_ONE);
}

static void
test_unknown (void)
{
  g_autoptr (LmtRegistry) registry = new_registry ();
  g_autoptr (GError) error = NULL;

  lmt_registry_add_dir (registry, "/nonexistent/one");
  lmt_registry_add_dir (registry, "/nonexistent/two");
  set_good ();
  g_assert_true (lmt_registry_load_builtin (registry, "good", load_set, &error));
  g_assert_null (lmt_registry_get_level (registry, "kafka", &error));
  g_assert_error (error, LMT_ERROR, LMT_ERROR_NO_LEVEL);
  g_assert_cmpstr (error->message, ==, "unknown level 'kafka': known: mq; searched: /nonexistent/one, /nonexistent/two");
  g_clear_error (&error);
  g_assert_null (lmt_registry_get_l2 (registry, "../../etc/passwd", &error));
  g_assert_error (error, LMT_ERROR, LMT_ERROR_NO_ADAPTER);
  g_assert_cmpstr (error->message, ==,
                   "unknown adapter type '../../etc/passwd': known: first, second; searched: /nonexistent/one, /nonexistent/two");
  g_clear_error (&error);
  g_assert_null (lmt_registry_get_command (registry, "do-ti", &error));
  g_assert_error (error, LMT_ERROR, LMT_ERROR_NO_COMMAND);
  g_assert_cmpstr (error->message, ==, "unknown command 'do-ti': did you mean 'do-it'?");
  g_clear_error (&error);
  g_assert_null (lmt_registry_get_command (registry, "a\nb\xff", &error));
  g_assert_cmpstr (error->message, ==,
                   "unknown command 'a?b\357\277\275': known: do-it; searched: /nonexistent/one, /nonexistent/two");
}

static void
test_folders (void)
{
  g_autoptr (LmtRegistry) registry = lmt_registry_new ();
  g_auto (GStrv) dirs = NULL;
  g_autofree char *user = g_build_filename (g_get_home_dir (), ".local/lib/lmtrace-1/plugins", NULL);
  g_autofree char *before = g_strdup (g_getenv ("LMTRACE_PLUGIN_PATH"));

  g_setenv ("LMTRACE_PLUGIN_PATH", ":/env/a::/env/b:", TRUE);
  lmt_registry_add_dir (registry, "/line/a");
  lmt_registry_add_dir (registry, "/line/b");
  dirs = lmt_registry_get_dirs (registry);
  if (before != NULL)
    g_setenv ("LMTRACE_PLUGIN_PATH", before, TRUE);
  g_assert_cmpstr (dirs[0], ==, "/line/a");
  g_assert_cmpstr (dirs[1], ==, "/line/b");
  g_assert_cmpstr (dirs[2], ==, "/env/a");
  g_assert_cmpstr (dirs[3], ==, "/env/b");
  g_assert_cmpstr (dirs[4], ==, user);
  g_assert_true (g_str_has_suffix (dirs[5], "/lmtrace-1/plugins"));
  g_assert_null (dirs[6]);
}

static guint n_added;

static void
count_added (LmtRegistry *registry, LmtPluginInfo *info, gpointer data)
{
  n_added++;
}

static void
test_signals (void)
{
  g_autoptr (LmtRegistry) registry = new_registry ();

  set_good ();
  n_added = 0;
  g_signal_connect (registry, "plugin-added", G_CALLBACK (count_added), NULL);
  lmt_registry_load_builtin (registry, "mute", load_mute, NULL);
  g_assert_cmpuint (n_added, ==, 0);
  lmt_registry_load_builtin (registry, "good", load_set, NULL);
  g_assert_cmpuint (n_added, ==, 1);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/registry/all-five", test_all_five);
  g_test_add_func ("/registry/failing-load", test_failing_load);
  g_test_add_func ("/registry/clashes", test_clashes);
  g_test_add_func ("/registry/newer", test_newer);
  g_test_add_func ("/registry/unknown", test_unknown);
  g_test_add_func ("/registry/folders", test_folders);
  g_test_add_func ("/registry/signals", test_signals);
  for (guint i = 0; i < G_N_ELEMENTS (refusals); i++)
    {
      g_autofree char *path = g_strconcat ("/registry/refused/", refusals[i].path, NULL);

      g_test_add_data_func (path, &refusals[i], test_refused);
    }
  return g_test_run ();
}
