/* SPDX-License-Identifier: Apache-2.0 */

/* Writes a small trace of level demo-mq: argv[1]. Four good pushes and pops, one push too many, one without topic, one unknown
 * call. */
#include <lmtrace/lmtrace.h>

#include <string.h>

static gboolean
put (LmtWriter *writer, double t, const char *qualname, const char *topic, guint8 bytes, GError **error)
{
  g_autoptr (GByteArray) args = g_byte_array_new ();
  guint8 head = topic != NULL ? 0x82 : 0x81;

  g_byte_array_append (args, &head, 1);
  if (topic != NULL)
    {
      guint8 len = (guint8)(0xa0 | strlen (topic));

      g_byte_array_append (args, (const guint8 *)"\xa5topic", 6);
      g_byte_array_append (args, &len, 1);
      g_byte_array_append (args, (const guint8 *)topic, (guint)strlen (topic));
    }
  g_byte_array_append (args,
                       (const guint8 *)"\xa5"
                                       "bytes",
                       6);
  g_byte_array_append (args, &bytes, 1);
  return lmt_writer_record (writer, t, 1000.0 + t, (LmtSpan){ (const guint8 *)qualname, strlen (qualname) },
                            (LmtSpan){ args->data, args->len }, error);
}

int
main (int argc, char **argv)
{
  g_autoptr (GError) error = NULL;
  LmtHeaderFields fields = { .level = "demo-mq", .trace_schema_version = 1, .sm_config_json = "", .sm_config_digest = "" };
  LmtWriter *writer = argc == 2 ? lmt_writer_new (argv[1], &error) : NULL;

  if (writer == NULL || !lmt_writer_header (writer, &fields, &error) || !put (writer, 0.00, "Mq.push", "red", 10, &error)
      || !put (writer, 0.01, "Mq.push", "red", 20, &error) || !put (writer, 0.02, "Mq.push", "red", 30, &error)
      || !put (writer, 0.03, "Mq.pop", "red", 10, &error) || !put (writer, 0.04, "Mq.push", "blue", 40, &error)
      || !put (writer, 0.05, "Mq.push", NULL, 50, &error) || !put (writer, 0.06, "Mq.peek", "red", 1, &error)
      || !lmt_writer_close (writer, &error))
    {
      g_printerr ("make-trace: %s\n", error != NULL ? error->message : "expected a path");
      return 2;
    }
  return 0;
}
