/* SPDX-License-Identifier: Apache-2.0 */
#include "cli-replay.h"

#include <string.h>

/* -------- figures out of the loop's statistics -------- */

void
replay_result_init (CliReplayResult *result, ReplayRun *run)
{
  const LmtLevelOps *level = run->prepared->level;
  guint n = lmt_replay_get_n_ops (run->replay);
  CliReplayRow *rows = g_new0 (CliReplayRow, n);

  guint64 lost_bytes = 0;

  for (guint i = 0; i < run->files->len; i++)
    lost_bytes += lmt_reader_get_stats (((ReplayFile *)run->files->pdata[i])->reader)->lost_bytes;
  for (guint i = 0; i < n; i++)
    cli_replay_row_from_op (&rows[i], lmt_replay_get_op (run->replay, i), run->compat);
  *result = (CliReplayResult){
    .compat = run->compat,
    .level = run->prepared->level->name,
    .digest_row = run->digest,
    .speed = run->config->speed,
    .copies = run->config->copies,
    .with_tenants = run->config->key_offset != NULL,
    .first_tenant = run->first_tenant,
    .settled = level->is_settled != NULL && level->is_settled (run->session),
    .mark = level->mark != NULL ? level->mark (run->session) : NULL,
    .clock_word = level->clock_word != NULL ? level->clock_word (run->session) : NULL,
    .title = run->title,
    .lost_bytes = lost_bytes,
    .partial = replay_run_is_partial (run),
    .rows = rows,
    .n_rows = n,
  };
  cli_replay_result_set_totals (result, lmt_replay_get_totals (run->replay));
}

void
replay_result_clear (CliReplayResult *result)
{
  g_free ((gpointer)result->rows);
  result->rows = NULL;
}

/* -------- the report -------- */

LmtReport *
replay_report_new (ReplayRun *run, const CliReplayResult *result)
{
  const LmtLevelOps *level = run->prepared->level;
  LmtReport *report = cli_replay_report (result);

  if (run->compat != 0)
    return report;
  if (level->report != NULL)
    level->report (run->session, report);
  return report;
}

/* -------- trace_replay_summary.json -------- */

/* The members that are lmtrace's own: sections of the report but what the summary has in its own words. */
static char *
extra_members (ReplayRun *run, const CliReplayResult *result, const LmtReport *report)
{
  static const char *const own[] = { "overall", "ops", "per_op", "pacing", "lag", "schema", "warnings", NULL };
  g_autoptr (GString) metrics_text = g_string_new (NULL);
  LmtJsonWriter *json = lmt_json_writer_new (metrics_text, LMT_JSON_STYLE_SPACED);
  lmt_report_write_metrics (report, json);
  lmt_json_writer_free (json);
  g_autoptr (LmtJson) metrics = lmt_json_parse (metrics_text->str, (gssize)metrics_text->len, NULL);

  GString *out = g_string_new (NULL);
  json = lmt_json_writer_new (out, LMT_JSON_STYLE_SPACED);
  lmt_json_writer_begin_object (json);
  if (run->files->len == 1)
    lmt_json_writer_path (json, "trace", run->file->path);
  else
    {
      lmt_json_writer_key (json, "trace");
      lmt_json_writer_begin_array (json);
      for (guint i = 0; i < run->files->len; i++)
        lmt_json_writer_string (json, ((ReplayFile *)run->files->pdata[i])->path);
      lmt_json_writer_end_array (json);
    }
  lmt_json_writer_key (json, "partial");
  lmt_json_writer_bool (json, result->partial);
  for (guint i = 0; metrics != NULL && i < lmt_json_get_length (metrics); i++)
    {
      const char *name = lmt_json_get_member_name (metrics, i);
      if (g_strv_contains (own, name))
        continue;
      lmt_json_writer_key (json, name);
      lmt_json_writer_value (json, lmt_json_get_member_value (metrics, i));
    }
  lmt_json_writer_end_object (json);
  lmt_json_writer_free (json);
  return g_string_free (out, FALSE);
}

char *
replay_summary_new (ReplayRun *run, const CliReplayResult *result, const LmtReport *report)
{
  if (run->compat != 0)
    return cli_replay_summary_json (result, NULL, NULL);
  g_autofree char *text = extra_members (run, result, report);
  g_autoptr (LmtJson) extra = lmt_json_parse (text, -1, NULL);
  return cli_replay_summary_json (result, extra, run->context->warnings);
}
