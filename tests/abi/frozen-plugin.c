/* SPDX-License-Identifier: Apache-2.0 */

/* One of everything a plugin can register, compiled against the headers of an earlier release: the core of today has to serve it.
 */
#include <lmtrace/lmt-plugin.h>

typedef struct
{
  guint64 step;
  char *word;
} OldConfig;

static const LmtOption old_options[] = {
  LMT_OPTION (UINT, "step", OldConfig, step, "7", "1..", "Step"),
  LMT_OPTION (STRING, "word", OldConfig, word, "old", NULL, "Word"),
  LMT_OPTION_END,
};

/* -------- level and handler -------- */

typedef struct
{
  guint64 sum;
  guint64 step;
  gboolean finished;
} OldSession;

static gpointer
old_configure (const LmtReplayEnv *env, GError **error)
{
  OldSession *session = g_new0 (OldSession, 1);

  session->step = ((const OldConfig *)env->config)->step;
  return session;
}

static void
old_finish (gpointer data, gboolean interrupted)
{
  ((OldSession *)data)->finished = TRUE;
}

static void
old_report (gpointer data, LmtReport *report)
{
  const OldSession *session = data;
  LmtSection *section = lmt_report_add_section (report, "old", "Old", TRUE);

  lmt_section_add_int (section, "sum", "Sum", (gint64)session->sum);
  lmt_section_add_bool (section, "finished", "Finished", session->finished);
}

static guint32
old_call (gpointer data, const LmtRecord *record, LmtOutcome *outcome)
{
  OldSession *session = data;
  LmtCursor cursor;
  LmtToken token;

  lmt_cursor_init (&cursor, record->args);
  if (lmt_cursor_next (&cursor, &token) != LMT_TYPE_MAP || token.count != 0)
    {
      outcome->fault.reason = "wrong-type";
      return LMT_STATUS_UNDECODABLE;
    }
  session->sum += session->step * record->number;
  outcome->bytes = session->step;
  return LMT_STATUS_OK;
}

static const LmtLevelOps old_level = {
  .struct_size = sizeof (LmtLevelOps),
  .name = "old",
  .options = old_options,
  .config_size = sizeof (OldConfig),
  .configure = old_configure,
  .finish = old_finish,
  .report = old_report,
  .free = g_free,
};
static const LmtHandlerOps old_handler = { sizeof (LmtHandlerOps), 0, "old", "Old.call", old_call };

/* -------- codec -------- */

static gboolean
old_decode (LmtCursor *payload, gpointer value, gpointer scratch, LmtFault *fault)
{
  if (lmt_cursor_read_uint (payload, value))
    return TRUE;
  fault->reason = "wrong-type";
  return FALSE;
}

static const LmtCodecOps old_codec = { sizeof (LmtCodecOps), sizeof (guint64), "OldTag", "A number", old_decode };

/* -------- adapter: answers each io at once with a code made of its id -------- */

static gpointer
old_open (gconstpointer config, const char *type, const LmtL2Host *host, LmtL2Info *info, GError **error)
{
  info->depth = 4;
  info->capabilities = LMT_L2_CAP_KEEP;
  return g_strdup (((const OldConfig *)config)->word);
}

static guint32
old_submit (gpointer handle, LmtL2Io *io)
{
  io->code = io->kind == LMT_L2_STORE ? LMT_L2_OK : LMT_L2_NOT_FOUND;
  io->done_bytes = io->buffer_bytes;
  return LMT_L2_SUBMIT_DONE;
}

static guint32
old_reap (gpointer handle, LmtL2Io **ios, guint32 max)
{
  return 0;
}

static const char *const old_aliases[] = { "older", NULL };
static const LmtL2Ops old_l2 = {
  .struct_size = sizeof (LmtL2Ops),
  .threads = LMT_THREADS_PER_HANDLE,
  .name = "old",
  .aliases = old_aliases,
  .options = old_options,
  .config_size = sizeof (OldConfig),
  .open = old_open,
  .close = g_free,
  .submit = old_submit,
  .reap = old_reap,
};

/* -------- command -------- */

static int
old_run (const LmtCommandContext *context, GError **error)
{
  const OldConfig *config = context->config;

  return context->operands[0] != NULL ? (int)config->step : -1;
}

static const LmtCommandOps old_command = {
  .struct_size = sizeof (LmtCommandOps),
  .config_size = sizeof (OldConfig),
  .name = "old-command",
  .options = old_options,
  .run = old_run,
  .max_operands = 1,
};

static gboolean
old_load (LmtRegistrar *registrar, GError **error)
{
  return lmt_registrar_add_level (registrar, &old_level, error) && lmt_registrar_add_handler (registrar, &old_handler, error)
         && lmt_registrar_add_codec (registrar, &old_codec, error) && lmt_registrar_add_l2 (registrar, &old_l2, error)
         && lmt_registrar_add_command (registrar, &old_command, error);
}

LMT_PLUGIN_DEFINE ("old-everything", "0.1", "Apache-2.0", "Built against frozen headers", old_load, NULL)
