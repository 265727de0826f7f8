// @NAME@: a level for lmtrace, begun from its template: one call, `@Name@.call` with arguments {name: str, bytes: int}.
#include <lmtrace/lmt-plugin.h>

typedef struct
{
  guint64 limit_bytes;
} @Name@Config;

// Options of `lmtrace replay` for traces of this level.
static const LmtOption @name@_options[] = {
  LMT_OPTION (SIZE, "@NAME@-limit", @Name@Config, limit_bytes, "1MiB", NULL, "Fail calls of more bytes than this"),
  LMT_OPTION_END,
};

typedef struct
{
  LmtSpan name;
  guint64 bytes;
} @Name@Call;

// Decodes what it wants; a bad value fills @fault and makes the record undecodable. No allocation.
static gboolean
@name@_decode (const LmtRecord *record, @Name@Call *call, LmtFault *fault)
{
  LmtCursor cursor;
  guint32 pairs;

  memset (call, 0, sizeof *call);
  fault->where = "args";
  fault->reason = "wrong-type";
  fault->expected = "{name: str, bytes: int}";
  lmt_cursor_init (&cursor, record->args);
  if (!lmt_cursor_read_map (&cursor, &pairs))
    return FALSE;
  for (guint32 i = 0; i < pairs; i++)
    {
      LmtSpan key;

      if (!lmt_cursor_read_str (&cursor, &key))
        return FALSE;
      if (LMT_SPAN_IS (key, "name") ? !lmt_cursor_read_str (&cursor, &call->name)
          : LMT_SPAN_IS (key, "bytes") ? !lmt_cursor_read_uint (&cursor, &call->bytes)
                                       : !lmt_cursor_skip (&cursor))
        return FALSE;
    }
  return call->name.data != NULL;
}

// -------- info: what `lmtrace info` says of such a trace --------

typedef struct
{
  guint64 calls;
  guint64 bytes;
} @Name@Info;

static gpointer
@name@_info_new (const LmtHeader *header)
{
  return g_new0 (@Name@Info, 1);
}

static void
@name@_info_record (gpointer data, const LmtRecord *record)
{
  @Name@Info *info = data;
  LmtFault fault = { 0 };
  @Name@Call call;

  if (!@name@_decode (record, &call, &fault))
    return;
  info->calls++;
  info->bytes += call.bytes;
}

static void
@name@_info_finish (gpointer data, const LmtInfoOut *out)
{
  const @Name@Info *info = data;

  g_string_append_printf (out->text, "  @NAME@:\n    calls: %" G_GUINT64_FORMAT "\n    bytes: %" G_GUINT64_FORMAT "\n", info->calls,
                          info->bytes);
  if (out->json != NULL)
    {
      lmt_json_writer_key (out->json, "@name@_bytes");
      lmt_json_writer_uint (out->json, info->bytes);
    }
}

// -------- replay --------

typedef struct
{
  @Name@Config config;
  const LmtClock *clock;
  guint64 bytes;
  gboolean dry;
} @Name@Session;

// Checks everything that can be checked without touching anything; start() acquires.
static gpointer
@name@_configure (const LmtReplayEnv *env, GError **error)
{
  @Name@Session *session = g_new0 (@Name@Session, 1);

  session->config = *(const @Name@Config *)env->config;
  session->clock = env->clock;
  session->dry = env->dry_run != 0;
  return session;
}

static gboolean
@name@_start (gpointer data, GError **error)
{
  return TRUE;
}

static guint32
@name@_call (gpointer data, const LmtRecord *record, LmtOutcome *outcome)
{
  @Name@Session *session = data;
  @Name@Call call;

  if (!@name@_decode (record, &call, &outcome->fault))
    return LMT_STATUS_UNDECODABLE;
  if (session->dry)
    return LMT_STATUS_OK;
  outcome->start_ns = lmt_clock_now (session->clock);
  // The call itself goes here.
  session->bytes += call.bytes;
  if (call.bytes > session->config.limit_bytes)
    outcome->error = "more bytes than --@NAME@-limit";
  outcome->end_ns = lmt_clock_now (session->clock);
  outcome->bytes = call.bytes;
  return outcome->error == NULL ? LMT_STATUS_OK : LMT_STATUS_FAILED;
}

static void
@name@_report (gpointer data, LmtReport *report)
{
  const @Name@Session *session = data;
  LmtSection *section = lmt_report_add_section (report, "@name@", "@Name@", TRUE);

  lmt_section_add_size (section, "bytes", "Bytes", session->bytes);
}

static const LmtLevelOps @name@_level = {
  .struct_size = sizeof (LmtLevelOps),
  .name = "@NAME@",
  .summary = "Traces of @NAME@",
  .options = @name@_options,
  .config_size = sizeof (@Name@Config),
  .info_new = @name@_info_new,
  .info_record = @name@_info_record,
  .info_finish = @name@_info_finish,
  .info_free = g_free,
  .configure = @name@_configure,
  .start = @name@_start,
  .report = @name@_report,
  .free = g_free,
};

static const LmtHandlerOps @name@_handlers[] = {
  { sizeof (LmtHandlerOps), 0, "@NAME@", "@Name@.call", @name@_call },
};

// Registers and nothing else.
static gboolean
@name@_load_plugin (LmtRegistrar *registrar, GError **error)
{
  if (!lmt_registrar_add_level (registrar, &@name@_level, error))
    return FALSE;
  for (guint i = 0; i < G_N_ELEMENTS (@name@_handlers); i++)
    if (!lmt_registrar_add_handler (registrar, &@name@_handlers[i], error))
      return FALSE;
  return TRUE;
}

LMT_PLUGIN_DEFINE ("level-@NAME@", "0.1.0", "Apache-2.0", "Level @NAME@", @name@_load_plugin, NULL)
