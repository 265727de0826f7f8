/* SPDX-License-Identifier: Apache-2.0 */

/* A command of a plugin: what main.c does for one it has never heard of. `echo` prints what it got, `echo-more` adds a table of
 * options that depends on its words. */
#include <lmtrace/lmt-plugin.h>

#include <string.h>

typedef struct
{
  guint64 code;
  char *word;
  guint32 json; /* its own --json, a switch: the global one steps aside */
  guint32 fail;
} EchoConfig;

typedef struct
{
  char *extra;
} MoreConfig;

static const LmtOption echo_options[] = {
  LMT_OPTION (UINT, "code", EchoConfig, code, "0", "0..130", "Exit with this code"),
  LMT_OPTION (STRING, "word", EchoConfig, word, "none", NULL, "Print this word"),
  LMT_OPTION (BOOL, "json", EchoConfig, json, NULL, NULL, "Say so"),
  LMT_OPTION (BOOL, "fail", EchoConfig, fail, NULL, NULL, "Fail with a message"),
  LMT_OPTION_END,
};

static const LmtOption more_options[] = {
  LMT_OPTION (STRING, "extra", MoreConfig, extra, "nothing", NULL, "Print this, too"),
  LMT_OPTION_END,
};

static int
echo_run (const LmtCommandContext *context, GError **error)
{
  const EchoConfig *config = context->config;
  const MoreConfig *more = lmt_command_context_get_prepared (context);
  g_autoptr (GString) text = g_string_new (NULL);

  g_string_append_printf (text, "word=%s json=%u extra=%s", config->word, config->json, more != NULL ? more->extra : "-");
  for (guint i = 0; context->operands[i] != NULL; i++)
    g_string_append_printf (text, " [%s]", context->operands[i]);
  g_string_append_c (text, '\n');
  if (config->fail != 0)
    {
      g_set_error (error, LMT_ERROR, LMT_ERROR_UNSUPPORTED, "echo: no echo in here");
      return (int)config->code;
    }
  if (!lmt_output_raw (context->output, "Echo", text->str, "{}", NULL, FALSE, (int)config->code, error))
    return 1;
  return (int)config->code;
}

static gboolean
more_prepare (LmtRegistry *registry, LmtOptions *options, const char *const *words, gpointer *prepared, GError **error)
{
  MoreConfig *more = g_new0 (MoreConfig, 1);

  *prepared = more;
  for (guint i = 0; words[i] != NULL; i++)
    if (strcmp (words[i], "bad-file") == 0)
      {
        g_set_error (error, LMT_ERROR, LMT_ERROR_IO, "bad-file: cannot open: it is bad");
        return FALSE;
      }
  lmt_options_add_table (options, more_options, more);
  return TRUE;
}

static const LmtCommandOps echo_ops = {
  .struct_size = sizeof (LmtCommandOps),
  .config_size = sizeof (EchoConfig),
  .name = "echo",
  .summary = "Print what came in",
  .synopsis = "[OPTIONS] [WORD...]",
  .options = echo_options,
  .run = echo_run,
  .max_operands = 2,
};

static const LmtCommandOps more_ops = {
  .struct_size = sizeof (LmtCommandOps),
  .config_size = sizeof (EchoConfig),
  .name = "echo-more",
  .summary = "Print what came in and more",
  .synopsis = "[OPTIONS] [WORD...]",
  .options = echo_options,
  .run = echo_run,
  .prepare = more_prepare,
  .prepared_free = g_free,
  .max_operands = G_MAXUINT32,
};

static gboolean
echo_load (LmtRegistrar *registrar, GError **error)
{
  return lmt_registrar_add_command (registrar, &echo_ops, error) && lmt_registrar_add_command (registrar, &more_ops, error);
}

/* The test sees by it that unload() ran, once, when the registry went. */
static void
echo_unload (void)
{
  const char *before = g_getenv ("LMT_TEST_UNLOADED");

  g_setenv ("LMT_TEST_UNLOADED", before != NULL ? "again" : "once", TRUE);
}

LMT_PLUGIN_DEFINE ("cmd-echo", "2.5", "Apache-2.0", "Commands for tests", echo_load, echo_unload)
