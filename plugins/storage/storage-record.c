// SPDX-License-Identifier: Apache-2.0
#include "storage-record.h"

#include <string.h>
#include <unistd.h>

#include "storage-reporter.h"
#include "storage-trace.h"

struct _StorageRecord
{
  LmtRecorder *recorder;
  StorageReporter *reporter; /* level events */
  char *path;
};

enum
{
  /* One batch of events holds all that was alike since the last flush. */
  EVENTS_RING_BYTES = 64 * 1024 * 1024,
};

/* As LMCache's recorder names a file nobody named. */
static char *
default_path (void)
{
  static guint n_made;
  g_autoptr (GDateTime) now = g_date_time_new_now_utc ();
  g_autofree char *stamp = g_date_time_format (now, "%Y%m%d-%H%M%S");
  g_autofree char *more = n_made > 0 ? g_strdup_printf ("-%u", n_made) : g_strdup ("");
  g_autofree char *name = g_strdup_printf ("lmcache-trace-%d-%s%s.lct", (int)getpid (), stamp, more);

  n_made++;
  return g_build_filename (g_get_tmp_dir (), name, NULL);
}

gboolean
storage_parse_http (const char *text, char **host, guint *port, GError **error)
{
  const char *colon = strrchr (text, ':');
  guint64 number;
  gsize len;

  if (colon == NULL || !lmt_parse_uint (colon + 1, &number, NULL) || number > 65535)
    {
      g_set_error (error, LMT_ERROR, LMT_ERROR_OPTION, "--trace-http: expected HOST:PORT, found %s", text);
      return FALSE;
    }
  len = (gsize)(colon - text);
  if (len >= 2 && text[0] == '[' && text[len - 1] == ']')
    {
      text++;
      len -= 2;
    }
  *host = g_strndup (text, len);
  *port = (guint)number;
  return TRUE;
}

static void
set_start (LmtRecorderParams *out, const StorageRecordParams *params)
{
  out->clock = params->clock;
  if (params->clock == NULL || params->header == NULL)
    return;
  out->has_start = lmt_header_get_t_mono_start (params->header, &out->t_mono_start)
                   && lmt_header_get_t_wall_start (params->header, &out->t_wall_start) && lmt_time_is_usable (out->t_mono_start)
                   && out->t_wall_start >= 0.0 && out->t_wall_start < 4e9;
}

static gboolean
open_events (StorageRecord *record, const StorageRecordParams *params, LmtRecorderParams *out, GError **error)
{
  const StorageFlags *flags = params->flags;
  StorageReporterParams reporter = { .config = params->config };
  g_autofree char *host = NULL;
  LmtPack meta;

  if (flags->trace_http != NULL && !storage_parse_http (flags->trace_http, &host, &reporter.http_port, error))
    return FALSE;
  reporter.instance_id = flags->trace_instance;
  reporter.ip = host != NULL ? host : "";
  reporter.manager_ns = params->manager_ns;
  reporter.manager_data = params->manager_data;
  lmt_pack_init (&meta);
  storage_reporter_pack_meta (flags->trace_instance, &meta);
  out->level_meta = lmt_pack_span (&meta);
  if (out->buffer_bytes == 0)
    out->buffer_bytes = EVENTS_RING_BYTES;
  record->recorder = lmt_recorder_new (&storage_events_level, out, error);
  lmt_pack_clear (&meta);
  if (record->recorder == NULL)
    return FALSE;
  reporter.recorder = record->recorder;
  reporter.ring_bytes = out->buffer_bytes;
  record->reporter = storage_reporter_new (&reporter);
  return TRUE;
}

static gboolean
open_recorder (StorageRecord *record, const StorageRecordParams *params, GError **error)
{
  const StorageFlags *flags = params->flags;
  LmtRecorderParams out = { .struct_size = sizeof out };
  g_autofree char *json = storage_config_to_json (params->config, "", flags->trace_schema == 2 ? 57 : 56);
  g_autofree char *digest = storage_config_digest (json);

  out.path = record->path;
  out.schema = (guint32)flags->trace_schema;
  out.buffer_bytes = flags->trace_buffer;
  out.rotate_bytes = flags->trace_rotate;
  out.inputs = params->inputs;
  if (flags->trace_block || params->clock != NULL)
    out.flags |= LMT_RECORDER_BLOCK;
  set_start (&out, params);
  if (g_str_equal (flags->trace_level, "events"))
    {
      if (!open_events (record, params, &out, error))
        return FALSE;
    }
  else
    record->recorder = lmt_recorder_new (&sm_trace_level, &out, error);
  return record->recorder != NULL && lmt_recorder_attach (record->recorder, json, digest, error);
}

StorageRecord *
storage_record_new (const StorageRecordParams *params, GError **error)
{
  StorageRecord *record;

  if (params->flags->trace_level == NULL)
    return NULL;
  record = g_new0 (StorageRecord, 1);
  record->path = params->flags->trace_output != NULL ? g_strdup (params->flags->trace_output) : default_path ();
  if (!open_recorder (record, params, error))
    {
      g_prefix_error (error, "--trace-output: ");
      storage_record_free (record);
      return NULL;
    }
  if (params->flags->trace_output == NULL)
    g_info ("Recording: file=\"%s\"", record->path);
  return record;
}

void
storage_record_watch (StorageRecord *record, LmtSm *sm, const guint64 *l2_capacity)
{
  if (record != NULL && record->reporter != NULL)
    storage_reporter_start (record->reporter, sm, l2_capacity);
}

void
storage_record_stop_calls (StorageRecord *record)
{
  if (record != NULL && record->reporter == NULL)
    lmt_recorder_close (record->recorder, NULL);
}

gboolean
storage_record_close (StorageRecord *record, GError **error)
{
  if (record == NULL)
    return TRUE;
  if (record->reporter != NULL)
    storage_reporter_stop (record->reporter);
  if (lmt_recorder_close (record->recorder, error))
    return TRUE;
  g_prefix_error (error, "--trace-output: ");
  return FALSE;
}

void
storage_record_free (StorageRecord *record)
{
  if (record == NULL)
    return;
  storage_reporter_free (record->reporter);
  lmt_recorder_free (record->recorder);
  g_free (record->path);
  g_free (record);
}

void
storage_record_get_stats (StorageRecord *record, LmtRecorderStats *stats)
{
  lmt_recorder_get_stats (record->recorder, stats);
}

const char *
storage_record_get_path (StorageRecord *record)
{
  return record->path;
}
