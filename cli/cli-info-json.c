// SPDX-License-Identifier: Apache-2.0
#include "cli-info.h"

#include <string.h>

const char *
info_tail_word (guint32 tail)
{
  static const char *const words[]
      = { "clean", "truncated", "truncated", "corrupt", "zero-fill", "compressed stream ends early", "read error" };

  return tail < G_N_ELEMENTS (words) ? words[tail] : "?";
}

void
info_json_value (LmtJsonWriter *json, LmtSpan value)
{
  g_autoptr (GString) text = g_string_new (NULL);
  g_autoptr (LmtJson) parsed = NULL;

  lmt_value_to_json (value, text);
  parsed = lmt_json_parse (text->str, (gssize)text->len, NULL);
  /* Nested deeper than JSON readers go: the text of it. */
  if (parsed != NULL)
    lmt_json_writer_value (json, parsed);
  else
    lmt_json_writer_string_len (json, text->str, text->len);
}

static void
add_string (LmtJsonWriter *json, const char *key, const char *value)
{
  lmt_json_writer_key (json, key);
  lmt_json_writer_string (json, value);
}

static void
add_uint (LmtJsonWriter *json, const char *key, guint64 value)
{
  lmt_json_writer_key (json, key);
  lmt_json_writer_uint (json, value);
}

static void
add_time (LmtJsonWriter *json, const char *key, gboolean known, double value)
{
  lmt_json_writer_key (json, key);
  if (known)
    lmt_json_writer_double (json, value);
  else
    lmt_json_writer_null (json);
}

/* The members of an object that is there as text. */
static void
add_members (LmtJsonWriter *json, const char *object)
{
  g_autoptr (LmtJson) parsed = lmt_json_parse (object, -1, NULL);

  for (guint i = 0; parsed != NULL && i < lmt_json_get_length (parsed); i++)
    {
      lmt_json_writer_key (json, lmt_json_get_member_name (parsed, i));
      lmt_json_writer_value (json, lmt_json_get_member_value (parsed, i));
    }
}

static void
add_config (LmtJsonWriter *json, const LmtHeader *header)
{
  const char *text = lmt_header_get_config_json (header);
  g_autoptr (LmtJson) parsed = text[0] != '\0' ? lmt_json_parse (text, -1, NULL) : NULL;

  add_string (json, "sm_config_digest", lmt_header_get_config_digest (header));
  lmt_json_writer_key (json, "sm_config");
  if (parsed != NULL)
    lmt_json_writer_value (json, parsed);
  else if (text[0] != '\0')
    lmt_json_writer_string (json, text);
  else
    lmt_json_writer_null (json);
}

static void
add_header (LmtJsonWriter *json, const LmtHeader *header)
{
  const char *const *notes = lmt_header_get_notes (header);
  LmtSpan meta = lmt_header_get_level_meta (header);
  gboolean known;
  gint64 schema;
  double t;

  add_string (json, "level", lmt_header_get_level (header));
  add_uint (json, "format_version", (guint64)lmt_header_get_format_version (header));
  lmt_json_writer_key (json, "trace_schema_version");
  if (lmt_header_get_schema (header, &schema))
    lmt_json_writer_int (json, schema);
  else
    lmt_json_writer_null (json);
  known = lmt_header_get_t_mono_start (header, &t);
  add_time (json, "t_mono_start_s", known, t);
  known = lmt_header_get_t_wall_start (header, &t);
  add_time (json, "t_wall_start_s", known, t);
  add_config (json, header);
  lmt_json_writer_key (json, "level_meta");
  if (meta.len > 0)
    info_json_value (json, meta);
  else
    {
      lmt_json_writer_begin_object (json);
      lmt_json_writer_end_object (json);
    }
  lmt_json_writer_key (json, "notes");
  lmt_json_writer_begin_array (json);
  for (guint i = 0; notes[i] != NULL; i++)
    lmt_json_writer_string (json, notes[i]);
  lmt_json_writer_end_array (json);
}

static void
add_ops (LmtJsonWriter *json, const InfoOps *ops)
{
  lmt_json_writer_key (json, "ops");
  lmt_json_writer_begin_object (json);
  for (guint i = 0; i < ops->n; i++)
    {
      g_autofree char *name = g_strndup (ops->ops[i].name, ops->ops[i].len);

      add_uint (json, name, ops->ops[i].count);
    }
  lmt_json_writer_end_object (json);
  if (ops->others > 0)
    add_uint (json, "further_qualnames", ops->others);
}

static void
add_state (LmtJsonWriter *json, const InfoFile *file)
{
  const LmtReaderStats *stats = file->stats;

  lmt_json_writer_key (json, "state");
  lmt_json_writer_begin_object (json);
  add_string (json, "tail", info_tail_word (stats->tail));
  if (stats->tail != LMT_TAIL_CLEAN)
    {
      add_uint (json, "tail_offset", stats->tail_offset);
      add_uint (json, "tail_promised_bytes", stats->tail_promised);
      add_uint (json, "tail_available_bytes", stats->tail_available);
      add_uint (json, "resync_offset", stats->resync_offset);
      add_uint (json, "resync_records", stats->resync_records);
    }
  add_uint (json, "lost_bytes", stats->lost_bytes);
  add_uint (json, "lost_ranges", stats->lost_ranges);
  add_uint (json, "second_headers", stats->second_headers);
  add_uint (json, "zero_fill_frames", stats->zero_fill_frames);
  add_uint (json, "malformed", stats->malformed);
  lmt_json_writer_key (json, "malformed_by_reason");
  lmt_json_writer_begin_object (json);
  for (guint i = 0; lmt_malformed_reason (i) != NULL; i++)
    if (lmt_reader_get_malformed (file->reader, i) > 0)
      add_uint (json, lmt_malformed_reason (i), lmt_reader_get_malformed (file->reader, i));
  lmt_json_writer_end_object (json);
  lmt_json_writer_end_object (json);
}

static void
add_times (LmtJsonWriter *json, const LmtReaderStats *stats)
{
  lmt_json_writer_key (json, "time_anomalies");
  lmt_json_writer_begin_object (json);
  add_uint (json, "non_finite", stats->time_non_finite);
  add_uint (json, "too_large", stats->time_too_large);
  add_uint (json, "negative", stats->time_negative);
  add_uint (json, "backward_steps", stats->time_backward);
  lmt_json_writer_end_object (json);
}

void
info_json_file (LmtJsonWriter *json, const InfoFile *file)
{
  lmt_json_writer_path (json, "file", file->path);
  add_header (json, file->header);
  add_time (json, "duration_s", TRUE, file->stats->duration_s);
  add_uint (json, "bytes", file->stats->bytes);
  add_uint (json, "total_records", file->records);
  if (file->selected)
    add_uint (json, "left_out", file->left_out);
  add_ops (json, file->ops);
  add_state (json, file);
  add_times (json, file->stats);
  add_members (json, file->level_json);
  add_members (json, file->stats_json);
}

void
info_json_header (LmtJsonWriter *json, const char *path, const LmtHeader *header)
{
  lmt_json_writer_path (json, "file", path);
  lmt_json_writer_key (json, "header");
  info_json_value (json, lmt_header_get_body (header));
}

void
info_json_record (LmtJsonWriter *json, const LmtRecord *record)
{
  lmt_json_writer_begin_object (json);
  add_uint (json, "number", record->number);
  add_uint (json, "offset", record->offset);
  add_time (json, "t_mono_s", TRUE, record->t_mono);
  add_time (json, "t_wall_s", TRUE, record->t_wall);
  lmt_json_writer_key (json, "qualname");
  lmt_json_writer_string_len (json, (const char *)record->qualname.data, record->qualname.len);
  lmt_json_writer_key (json, "args");
  info_json_value (json, record->args);
  lmt_json_writer_end_object (json);
}

void
info_csv_file (GString *csv, const InfoFile *file)
{
  for (guint i = 0; i < file->ops->n; i++)
    {
      g_autofree char *name = g_strndup (file->ops->ops[i].name, file->ops->ops[i].len);

      lmt_csv_append (csv, file->shown);
      g_string_append_c (csv, ',');
      lmt_csv_append (csv, name);
      g_string_append_printf (csv, ",%" G_GUINT64_FORMAT "\r\n", file->ops->ops[i].count);
    }
}
