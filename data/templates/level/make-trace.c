// Writes a small trace of level @NAME@ to argv[1]: three calls. A recorder of yours would do the same.
#include <lmtrace/lmtrace.h>

#include <string.h>

static gboolean
put (LmtWriter *writer, double t, const char *name, guint8 bytes, GError **error)
{
  static const char qualname[] = "@Name@.call";
  g_autoptr (GByteArray) args = g_byte_array_new ();
  guint8 len = (guint8)(0xa0 | strlen (name));

  g_byte_array_append (args, (const guint8 *)"\x82\xa4name", 6);
  g_byte_array_append (args, &len, 1);
  g_byte_array_append (args, (const guint8 *)name, (guint)strlen (name));
  g_byte_array_append (args, (const guint8 *)"\xa5" "bytes", 6);
  g_byte_array_append (args, &bytes, 1);
  return lmt_writer_record (writer, t, 1000.0 + t, (LmtSpan){ (const guint8 *)qualname, sizeof qualname - 1 },
                            (LmtSpan){ args->data, args->len }, error);
}

int
main (int argc, char **argv)
{
  g_autoptr (GError) error = NULL;
  LmtHeaderFields fields = { .level = "@NAME@", .trace_schema_version = 1, .sm_config_json = "", .sm_config_digest = "" };
  LmtWriter *writer = argc == 2 ? lmt_writer_new (argv[1], &error) : NULL;

  if (writer == NULL || !lmt_writer_header (writer, &fields, &error) || !put (writer, 0.00, "red", 10, &error)
      || !put (writer, 0.01, "blue", 20, &error) || !put (writer, 0.02, "red", 30, &error) || !lmt_writer_close (writer, &error))
    {
      g_printerr ("make-trace: %s\n", error != NULL ? error->message : "expected a path");
      return 2;
    }
  return 0;
}
