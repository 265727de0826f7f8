// @NAME@: a command for lmtrace, begun from its template: `lmtrace @NAME@ [OPTIONS] WORD…` counts letters.
#include <lmtrace/lmt-plugin.h>

typedef struct
{
  guint64 times;
} @Name@Config;

static const LmtOption @name@_options[] = {
  LMT_OPTION (UINT, "times", @Name@Config, times, "1", "1..100", "Count each word so many times"),
  LMT_OPTION_END,
};

// Returns the exit code: 0, 1 (what was asked for failed), 2 (nothing was run), 130 (interrupted). With @error set it is printed as one line.
static int
@name@_run (const LmtCommandContext *context, GError **error)
{
  const @Name@Config *config = context->config;
  g_autoptr (LmtReport) report = lmt_report_new ("@NAME@", LMT_REPORT_WIDTH);
  LmtSection *section = lmt_report_add_section (report, "words", "Words", TRUE);

  for (guint i = 0; context->operands[i] != NULL; i++)
    lmt_section_add_int (section, context->operands[i], context->operands[i], (gint64)(strlen (context->operands[i]) * config->times));
  // Text, JSON, CSV, --output and -q are done for you.
  return lmt_output_report (context->output, report, NULL, FALSE, 0, error) ? 0 : 1;
}

static const char *const @name@_examples[] = { "lmtrace @NAME@ --times 2 word", NULL };

static const LmtCommandOps @name@_ops = {
  .struct_size = sizeof (LmtCommandOps),
  .config_size = sizeof (@Name@Config),
  .name = "@NAME@",
  .summary = "Count the letters of words",
  .synopsis = "[OPTIONS] WORD…",
  .examples = @name@_examples,
  .options = @name@_options,
  .run = @name@_run,
  .min_operands = 1,
  .max_operands = G_MAXUINT32,
};

// Registers and nothing else.
static gboolean
@name@_load_plugin (LmtRegistrar *registrar, GError **error)
{
  return lmt_registrar_add_command (registrar, &@name@_ops, error);
}

LMT_PLUGIN_DEFINE ("cmd-@NAME@", "0.1.0", "Apache-2.0", "Command @NAME@", @name@_load_plugin, NULL)
