// SPDX-License-Identifier: Apache-2.0
#include "cli-info.h"

struct _InfoStats
{
  const InfoConfig *config;
  LmtStats *gaps;
  double last_s;
  guint64 records;
};

InfoStats *
info_stats_new (const InfoConfig *config, const LmtHeader *header, const LmtLevelOps *level, gpointer info)
{
  InfoStats *stats = g_new0 (InfoStats, 1);

  stats->config = config;
  stats->gaps = lmt_stats_new ();
  lmt_stats_reserve (stats->gaps);
  stats->last_s = -1.0;
  return stats;
}

void
info_stats_free (InfoStats *stats)
{
  if (stats == NULL)
    return;
  lmt_stats_free (stats->gaps);
  g_free (stats);
}

void
info_stats_record (InfoStats *stats, const LmtRecord *record)
{
  double t = record->t_mono;

  stats->records++;
  if (!lmt_time_is_usable (t))
    return;
  if (stats->last_s >= 0.0)
    lmt_stats_add (stats->gaps, (gint64)(MAX (t - stats->last_s, 0.0) * 1e9));
  stats->last_s = MAX (t, 0.0);
}

void
info_stats_finish (InfoStats *stats, const LmtReaderStats *reader, GString *text, LmtJsonWriter *json)
{
  double rate = reader->duration_s > 0 ? (double)stats->records / reader->duration_s : 0.0;

  g_string_append_printf (text, "  time:\n    records_per_s: %.2f\n", rate);
  lmt_json_writer_key (json, "time");
  lmt_json_writer_begin_object (json);
  lmt_json_writer_key (json, "records_per_s");
  lmt_json_writer_double (json, rate);
  lmt_json_writer_end_object (json);
}
