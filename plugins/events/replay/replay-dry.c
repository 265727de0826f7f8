// SPDX-License-Identifier: Apache-2.0
/* --dry-run: the same gate and the same views as a coordinator, in process (R8). */
#include <string.h>

#include "events-views.h"
#include "replay.h"

#define GAPS_SHOWN 8
#define INTERRUPT_STRIDE 4096

/* What is told of one instance, by the name it is sent under. */
typedef struct
{
  char *shown;
  GArray *incarnations; /* gint64 */
  guint64 incarnations_more;
  guint64 verdicts[3];
  guint64 refused;
  GString *gaps;
  guint64 n_gaps;
  guint64 missing;
  gboolean registered;
} Stream;

enum
{
  CALL_POST_INSTANCES,
  CALL_POST_EVENTS,
  CALL_DELETE,
  CALL_GET_INSTANCES,
  CALL_GET_VERSION,
  N_CALLS
};

typedef struct
{
  ReplayFeed *feed;
  const ReplaySurvey *survey;
  const LmtCommandContext *context;
  const ReplayConfig *config;
  EventsViews *views;
  EventsArena *arena;
  EventsProblems problems;
  GPtrArray *streams;  /* Stream */
  GHashTable *by_name; /* name -> Stream */
  ReplayCounts counts;
  guint64 refused;
  guint64 left_out_bad;
  guint64 calls[N_CALLS];
  guint64 filling; /* batches in the POST being filled */
  guint64 unaddressable;
  gboolean full;
} Dry;

static void
stream_free (gpointer data)
{
  Stream *stream = data;
  g_free (stream->shown);
  g_array_unref (stream->incarnations);
  g_string_free (stream->gaps, TRUE);
  g_free (stream);
}

static Stream *
stream_of (Dry *dry, const ReplayInstance *instance)
{
  const char *name = instance != NULL ? instance->name : "";
  Stream *stream = g_hash_table_lookup (dry->by_name, name);
  if (stream == NULL)
    {
      stream = g_new0 (Stream, 1);
      stream->shown = g_strdup (instance != NULL ? instance->shown : "(none)");
      stream->incarnations = g_array_new (FALSE, FALSE, sizeof (gint64));
      stream->gaps = g_string_new (NULL);
      g_hash_table_insert (dry->by_name, g_strdup (name), stream);
      g_ptr_array_add (dry->streams, stream);
    }
  return stream;
}

static void
add_incarnation (Stream *stream, gint64 incarnation)
{
  for (guint i = 0; i < stream->incarnations->len; i++)
    if (g_array_index (stream->incarnations, gint64, i) == incarnation)
      return;
  if (stream->incarnations->len < GAPS_SHOWN)
    g_array_append_val (stream->incarnations, incarnation);
  else
    stream->incarnations_more++;
}

static void
add_gap (Stream *stream, gint64 first, gint64 last)
{
  stream->missing += (guint64)(last - first) + 1;
  if (stream->n_gaps++ < GAPS_SHOWN)
    g_string_append_printf (stream->gaps, "%s%" G_GINT64_FORMAT "..%" G_GINT64_FORMAT, stream->gaps->len > 0 ? " " : "", first,
                            last);
}

/* -------- one record -------- */

static void
end_post (Dry *dry)
{
  dry->calls[CALL_POST_EVENTS] += dry->filling > 0;
  dry->filling = 0;
}

static void
take_batch (Dry *dry, const ReplayItem *item)
{
  Stream *stream = stream_of (dry, item->instance);
  EventsCounts counts = { 0 };
  EventsBatch batch;
  events_arena_reset (dry->arena);
  if (++dry->filling >= dry->config->batch)
    end_post (dry);
  if (!replay_feed_convert (dry->feed, item, dry->arena, &batch, &dry->problems))
    {
      events_problems_clear (&dry->problems);
      events_problems_init (&dry->problems, 1);
      dry->refused++;
      stream->refused++;
      return;
    }
  const EventsStream *before = events_gate_get (events_views_get_gate (dry->views), batch.instance);
  gint64 last = before != NULL && before->known && before->incarnation == batch.incarnation ? before->last_seq : 0;
  if (!events_views_ingest (dry->views, &batch, 1, 0, &counts))
    {
      dry->full = TRUE;
      return;
    }
  dry->counts.batches++;
  dry->counts.applied += counts.applied;
  dry->counts.duplicates += counts.duplicates;
  dry->counts.stale += counts.stale;
  stream->verdicts[EVENTS_APPLIED] += counts.applied;
  stream->verdicts[EVENTS_DUPLICATE] += counts.duplicates;
  stream->verdicts[EVENTS_STALE] += counts.stale;
  add_incarnation (stream, batch.incarnation);
  if (counts.applied > 0 && batch.seq > last + 1)
    add_gap (stream, last + 1, batch.seq - 1);
}

static void
take_mark (Dry *dry, const ReplayItem *item)
{
  ReplayInstance *instance = item->instance;
  Stream *stream = stream_of (dry, instance);
  LmtSpan name = { (const guint8 *)instance->name, instance->name_len };
  end_post (dry);
  if (item->kind == REPLAY_START)
    {
      dry->counts.starts++;
      if (item->http_port <= 0 || strcmp (dry->config->register_mode, "none") == 0)
        return;
      dry->calls[CALL_POST_INSTANCES]++;
      stream->registered = TRUE;
      events_views_register (dry->views, name);
      return;
    }
  dry->counts.stops++;
  if (!stream->registered)
    return;
  if (instance->path == NULL)
    {
      dry->unaddressable++;
      return;
    }
  stream->registered = FALSE;
  dry->calls[CALL_DELETE]++;
  events_views_depart (dry->views, name, TRUE);
}

static void
take (Dry *dry, const ReplayItem *item)
{
  const char *reason;
  gboolean bad = item->bad != NULL;
  if (!bad && item->kind == REPLAY_BATCH && dry->survey->n_bad > 0)
    {
      g_autoptr (GString) scratch = g_string_new (NULL);
      bad = !replay_feed_append_json (dry->feed, item, scratch, &reason);
    }
  if (bad)
    {
      dry->left_out_bad++;
      return;
    }
  dry->counts.records++;
  if (item->kind == REPLAY_BATCH)
    take_batch (dry, item);
  else if (item->kind == REPLAY_SKIP)
    dry->counts.skipped++;
  else
    take_mark (dry, item);
  if (item->kind != REPLAY_STOP && replay_feed_is_last (dry->feed, item))
    dry->counts.ended++;
}

static gboolean
run_pass (Dry *dry, GError **error)
{
  ReplayItem item;
  guint64 n = 0;
  int got = 0;
  while (!dry->full && (got = replay_feed_next (dry->feed, &item, error)) > 0)
    {
      take (dry, &item);
      if (++n % INTERRUPT_STRIDE == 0 && g_atomic_int_get (dry->context->interrupts) > 0)
        {
          g_set_error_literal (error, LMT_ERROR, LMT_ERROR_INTERRUPTED, "interrupted in the dry run");
          return FALSE;
        }
    }
  end_post (dry);
  return dry->full || got == 0;
}

/* -------- what is told -------- */

static void
add_streams (Dry *dry, LmtReport *report)
{
  static const char *const columns[]
      = { "instance", "incarnations", "%applied", "%duplicates", "%stale", "%refused", "%missing", "gaps", NULL };
  LmtSection *table = lmt_report_add_table (report, "streams", "Streams", columns);
  for (guint i = 0; i < dry->streams->len; i++)
    {
      Stream *stream = dry->streams->pdata[i];
      g_autoptr (GString) incarnations = g_string_new (NULL);
      for (guint k = 0; k < stream->incarnations->len; k++)
        g_string_append_printf (incarnations, "%s%" G_GINT64_FORMAT, k > 0 ? " " : "",
                                g_array_index (stream->incarnations, gint64, k));
      if (stream->incarnations_more > 0)
        g_string_append (incarnations, " …");
      if (stream->n_gaps > GAPS_SHOWN)
        g_string_append_printf (stream->gaps, " and %" G_GUINT64_FORMAT " more", stream->n_gaps - GAPS_SHOWN);
      guint64 numbers[] = { stream->verdicts[0], stream->verdicts[1], stream->verdicts[2], stream->refused, stream->missing };
      char cells[5][24];
      for (guint k = 0; k < 5; k++)
        g_snprintf (cells[k], sizeof cells[k], "%" G_GUINT64_FORMAT, numbers[k]);
      const char *row[]
          = { stream->shown, incarnations->len > 0 ? incarnations->str : "-", cells[0], cells[1], cells[2], cells[3],
              cells[4],      stream->gaps->len > 0 ? stream->gaps->str : "-", NULL };
      lmt_section_add_row (table, row);
    }
}

static void
add_refused (Dry *dry, LmtReport *report)
{
  static const char *const columns[] = { "file", "%record", "instance", "%seq", "reason", NULL };
  if (dry->survey->refused->len == 0)
    return;
  LmtSection *table = lmt_report_add_table (report, "refused", "Refused", columns);
  for (guint i = 0; i < dry->survey->refused->len; i++)
    {
      const ReplayFinding *finding = &g_array_index (dry->survey->refused, ReplayFinding, i);
      char number[24], seq[24];
      g_snprintf (number, sizeof number, "%" G_GUINT64_FORMAT, finding->number);
      g_snprintf (seq, sizeof seq, "%" G_GINT64_FORMAT, finding->seq);
      const char *row[] = { events_merge_file (replay_feed_get_merge (dry->feed), finding->file)->shown,
                            number,
                            finding->instance != NULL ? finding->instance : "-",
                            seq,
                            finding->why,
                            NULL };
      lmt_section_add_row (table, row);
    }
  if (dry->survey->n_refused > dry->survey->refused->len)
    {
      g_autofree char *more
          = g_strdup_printf ("%" G_GUINT64_FORMAT " more are refused", dry->survey->n_refused - dry->survey->refused->len);
      lmt_report_add_foot (report, more);
    }
  const ReplayFinding *first = &g_array_index (dry->survey->refused, ReplayFinding, 0);
  g_autofree char *text = g_strdup_printf ("with --on-error=stop a run ends at record %" G_GUINT64_FORMAT " of %s", first->number,
                                           events_merge_file (replay_feed_get_merge (dry->feed), first->file)->shown);
  lmt_report_add_foot (report, text);
}

/* D13: one shared folder that two servers report as private counts twice. */
static void
count_private_twice (const EventsKeyView *view, gpointer data)
{
  guint64 *n = data;
  for (guint32 i = 0; i < view->n_placements; i++)
    for (guint32 k = 0; k < i; k++)
      {
        const EventsPlacement *a = &view->placements[i], *b = &view->placements[k];
        if (a->tier == EVENTS_L2 && b->tier == EVENTS_L2 && !a->shared && !b->shared && a->backend.len == b->backend.len
            && memcmp (a->backend.data, b->backend.data, a->backend.len) == 0)
          {
            ++*n;
            return;
          }
      }
}

static void
add_views (Dry *dry, LmtReport *report)
{
  LmtSection *section = lmt_report_add_section (report, "views", "Views", TRUE);
  EventsStats stats = { 0 };
  EventsKeyFilter filter = { 0 };
  guint64 at = 0, twice = 0;
  events_views_stats (dry->views, &stats);
  lmt_section_add_int (section, "keys", "Keys", (gint64)stats.num_keys);
  lmt_section_add_int (section, "placements", "Placements", (gint64)stats.num_placements);
  lmt_section_add_int (section, "l1_placements", "L1 placements", (gint64)stats.count[EVENTS_L1]);
  lmt_section_add_size (section, "l1_bytes", "L1 bytes", (guint64)MAX (stats.bytes[EVENTS_L1], 0));
  lmt_section_add_int (section, "l2_placements", "L2 placements", (gint64)stats.count[EVENTS_L2]);
  lmt_section_add_size (section, "l2_bytes", "L2 bytes", (guint64)MAX (stats.bytes[EVENTS_L2], 0));
  if (stats.emptied > 0 || stats.deleted_unknown > 0)
    {
      g_autofree char *text = g_strdup_printf ("%" G_GUINT64_FORMAT " stores gave what was there the size 0, %" G_GUINT64_FORMAT
                                               " deletes named what was not there: usage won't be what the servers hold",
                                               stats.emptied, stats.deleted_unknown);
      lmt_report_add_foot (report, text);
    }
  while (at != G_MAXUINT64)
    events_views_keys (dry->views, &filter, &at, 65536, count_private_twice, &twice);
  if (twice > 0)
    {
      g_autofree char *text
          = g_strdup_printf ("%" G_GUINT64_FORMAT " keys are on L2 backends of equal name that several instances "
                             "report as their own: one shared folder would count several times",
                             twice);
      lmt_report_add_foot (report, text);
    }
}

static void
add_calls (Dry *dry, LmtReport *report)
{
  static const char *const names[N_CALLS] = { [CALL_POST_INSTANCES] = "POST /instances",
                                              [CALL_DELETE] = "DELETE /instances/ID",
                                              [CALL_GET_INSTANCES] = "GET /instances",
                                              [CALL_GET_VERSION] = "GET /config/chunk-size" };
  static const char *const keys[N_CALLS]
      = { "post_instances", "post_events", "delete_instances", "get_instances", "get_version" };
  LmtSection *section = lmt_report_add_section (report, "calls", "Calls", TRUE);
  g_autofree char *events = g_strconcat ("POST ", dry->config->events_path, NULL);
  dry->calls[CALL_GET_INSTANCES] = dry->config->force ? 0 : 1;
  dry->calls[CALL_GET_VERSION] = dry->config->force || strcmp (dry->config->version, "auto") != 0 ? 0 : 1;
  for (guint i = 0; i < N_CALLS; i++)
    lmt_section_add_int (section, keys[i], i == CALL_POST_EVENTS ? events : names[i], (gint64)dry->calls[i]);
  if (dry->unaddressable > 0)
    lmt_section_add_int (section, "unaddressable", "Calls no path could hold", (gint64)dry->unaddressable);
}

static LmtReport *
make_report (Dry *dry, EventsCompat compat)
{
  LmtReport *report = replay_report_new (dry->feed, &dry->counts, 0.0);
  add_streams (dry, report);
  add_refused (dry, report);
  add_views (dry, report);
  add_calls (dry, report);
  LmtSection *section = lmt_report_add_section (report, "prediction", "Prediction", FALSE);
  lmt_section_add_string (section, "version", "Coordinator version", compat == EVENTS_COMPAT_056 ? "0.5.6" : "0.5.7");
  lmt_section_add_int (section, "refused", "Batches refused", (gint64)dry->refused);
  lmt_section_add_int (section, "bad", "Bad records left out", (gint64)dry->left_out_bad);
  EventsStats stats = { 0 };
  events_views_stats (dry->views, &stats);
  lmt_section_add_int (section, "stored_again", "Stores of what was there", (gint64)stats.stored_again);
  lmt_section_add_int (section, "emptied", "Stores that gave it size 0", (gint64)stats.emptied);
  lmt_section_add_int (section, "deleted_unknown", "Deletes of what was not there", (gint64)stats.deleted_unknown);
  lmt_section_add_int (section, "left_out", "Records left out by selection", (gint64)replay_feed_get_left_out (dry->feed));
  g_autofree char *foot
      = g_strdup_printf ("dry run: nothing was sent; predicted for a coordinator of version %s without prior state",
                         compat == EVENTS_COMPAT_056 ? "0.5.6" : "0.5.7");
  lmt_report_add_foot (report, foot);
  return report;
}

int
replay_dry_run (ReplayFeed *feed, const ReplaySurvey *survey, const LmtCommandContext *context, const ReplayConfig *config,
                EventsCompat compat, GError **error)
{
  EventsViewsConfig views = { .compat = compat, .chunk_size = 256 };
  Dry dry = { .feed = feed,
              .survey = survey,
              .context = context,
              .config = config,
              .views = events_views_new (&views),
              .arena = events_arena_new (0),
              .streams = g_ptr_array_new_with_free_func (stream_free),
              .by_name = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL) };
  int code = 1;
  events_problems_init (&dry.problems, 1);
  if (run_pass (&dry, error))
    {
      dry.counts.servers = replay_feed_count_servers (feed);
      for (guint i = 0; i < events_merge_n_files (replay_feed_get_merge (feed)); i++)
        dry.left_out_bad += events_merge_file (replay_feed_get_merge (feed), i)->bad;
      g_autoptr (LmtReport) report = make_report (&dry, compat);
      code = dry.refused > 0 ? 1 : 0;
      if (!lmt_output_report (context->output, report, NULL, FALSE, code, error))
        code = 1;
    }
  else
    code = g_error_matches (*error, LMT_ERROR, LMT_ERROR_INTERRUPTED) ? 130 : 2;
  events_problems_clear (&dry.problems);
  events_views_free (dry.views);
  events_arena_free (dry.arena);
  g_hash_table_unref (dry.by_name);
  g_ptr_array_unref (dry.streams);
  return code;
}
