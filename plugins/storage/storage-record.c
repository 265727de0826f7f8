// SPDX-License-Identifier: Apache-2.0
#include "storage-record.h"

#include <unistd.h>

struct _StorageRecord
{
  LmtWriter *writer;
  const LmtClock *clock;
  gint64 origin_ns;
  double wall_s; /* at the origin */
};

/* As LMCache's recorder names a file nobody named. */
static char *
default_path (void)
{
  g_autoptr (GDateTime) now = g_date_time_new_now_utc ();
  g_autofree char *stamp = g_date_time_format (now, "%Y%m%d-%H%M%S");
  g_autofree char *name = g_strdup_printf ("lmtrace-trace-%d-%s.lct", (int)getpid (), stamp);

  return g_build_filename (g_get_tmp_dir (), name, NULL);
}

/* SOURCE_DATE_EPOCH, for files that are to come out the same: both start times are it (trace-format.md 10). */
static gboolean
fixed_start (double *start_s)
{
  const char *text = g_getenv ("SOURCE_DATE_EPOCH");
  guint64 seconds;

  if (text == NULL || !lmt_parse_uint (text, &seconds, NULL))
    return FALSE;
  *start_s = (double)seconds;
  return TRUE;
}

static gboolean
write_header (StorageRecord *record, const StorageConfig *config, GError **error)
{
  g_autofree char *json = storage_config_to_json (config, "", 56);
  g_autofree char *digest = storage_config_digest (json);
  LmtHeaderFields fields = { .level = "storage", .trace_schema_version = 1 };

  fields.t_mono_start = fixed_start (&fields.t_wall_start) ? fields.t_wall_start : (double)record->origin_ns / 1e9;
  fields.t_wall_start = record->wall_s;
  fields.sm_config_json = json;
  fields.sm_config_digest = digest;
  return lmt_writer_header (record->writer, &fields, error);
}

StorageRecord *
storage_record_new (const char *path, const StorageConfig *config, const LmtClock *clock, GError **error)
{
  StorageRecord *record = g_new0 (StorageRecord, 1);
  g_autofree char *made = path == NULL ? default_path () : NULL;

  record->clock = clock;
  record->origin_ns = lmt_clock_now (clock);
  if (!fixed_start (&record->wall_s))
    record->wall_s = (double)g_get_real_time () / 1e6;
  record->writer = lmt_writer_new (path != NULL ? path : made, error);
  if (record->writer != NULL && write_header (record, config, error))
    {
      if (made != NULL)
        g_info ("Recording this replay: file=\"%s\"", made);
      return record;
    }
  if (record->writer != NULL)
    lmt_writer_close (record->writer, NULL);
  g_free (record);
  g_prefix_error (error, "--trace-output: ");
  return NULL;
}

/* An error sticks in the writer; close tells it. */
void
storage_record_call (StorageRecord *record, LmtSpan qualname, LmtSpan args)
{
  double since_s = (double)(lmt_clock_now (record->clock) - record->origin_ns) / 1e9;

  lmt_writer_record (record->writer, MAX (since_s, 0.0), record->wall_s + since_s, qualname, args, NULL);
}

gboolean
storage_record_close (StorageRecord *record, GError **error)
{
  gboolean ok;

  if (record == NULL)
    return TRUE;
  ok = lmt_writer_close (record->writer, error);
  g_free (record);
  if (!ok)
    g_prefix_error (error, "--trace-output: ");
  return ok;
}
