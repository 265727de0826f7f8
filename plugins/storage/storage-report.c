// SPDX-License-Identifier: Apache-2.0
/* The sections of the table that are this level's (cli.md 3.6). `--compat` leaves them all out. */
#include "storage-prepare.h"
#include "storage-session.h"

#include <string.h>

static double
rate (guint64 part, guint64 whole)
{
  return whole > 0 ? (double)part / (double)whole : 0.0;
}

double
storage_hit_rate (const StorageSession *session)
{
  const SmCounters *counters = session->sm != NULL ? lmt_sm_get_counters (session->sm) : NULL;

  return counters == NULL || counters->prefetch_cells == 0 ? 1.0 : rate (counters->hit_cells, counters->prefetch_cells);
}

/* ---------------- Status ---------------- */

typedef struct
{
  const char *key;
  const char *label;
  guint64 value;
} Figure;

static void
add_figures (LmtSection *section, const Figure *figures, guint n, gboolean zeros)
{
  for (guint i = 0; i < n; i++)
    if (zeros || figures[i].value > 0)
      lmt_section_add_int (section, figures[i].key, figures[i].label, (gint64)MIN (figures[i].value, (guint64)G_MAXINT64));
}

static void
add_anomalies_json (StorageSession *session, LmtSection *section)
{
  g_autoptr (GString) text = g_string_new ("{");

  for (guint i = 0; i < STORAGE_N_ANOMALIES; i++)
    if (session->anomalies[i] > 0)
      g_string_append_printf (text, "%s\"%s\": {\"count\": %" G_GUINT64_FORMAT ", \"first_record\": %" G_GUINT64_FORMAT "}",
                              text->len > 1 ? ", " : "", storage_anomaly_name (i), session->anomalies[i],
                              session->anomaly_records[i]);
  g_string_append_c (text, '}');
  lmt_section_add_json (section, "anomalies", text->str);
}

static void
add_status (StorageSession *session, LmtReport *report)
{
  const SmDriverFigures *driver = sm_driver_get_figures (session->driver);
  const SmCounters *counters = lmt_sm_get_counters (session->sm);
  const StorageLockFigures *locks = &session->lock_figures;
  const SmDecodeNotes *notes = sm_decoder_get_notes (session->decoder);
  const Figure figures[] = {
    { "unsettled", "I/O waited for in vain", driver->unsettled },
    { "wrong_objects", "Loaded objects with wrong bytes", driver->mismatches },
    { "verified_objects", "Loaded objects compared", driver->verified },
    { "io_refused", "I/O refused by an adapter", driver->refused },
    { "io_abandoned", "I/O abandoned at close", session->ios_abandoned },
    { "order_waits", "Calls held back for order", driver->order_waits },
    { "leaked_reservations", "Leaked reservations", session->leaked_reservations },
    { "leaked_read_locks", "Leaked read locks", session->leaked_read_locks },
    { "locks_never_returned", "Prefetch locks never returned", locks->owed },
    { "locks_never_returned_requests", "  by prefetches", locks->requests },
    { "locks_expired", "Prefetch locks expired", locks->expired },
    { "closed_contexts", "Reads ended by --close-pairs", session->closed_contexts },
    { "closed_locks", "Prefetch locks returned by --close-pairs", session->closed_locks },
    { "closed_reservations", "Writes finished by --close-pairs", session->closed_reservations },
    { "skip_l1_kept", "Stored objects kept in L1 by a reader", counters->skip_l1_kept },
    { "takeovers", "Expired reservations taken over", counters->takeovers },
    { "expired_write_locks", "Expired write locks", counters->expired_write_locks },
    { "isolated_l1_dead", "Passes IsolatedLRU did not make", counters->isolated_l1_dead },
    { "clamped_locks", "Lock counts clamped to 1..128", notes->clamped_locks },
    { "unknown_arguments", "Arguments nobody knows", notes->unknown_arguments },
    { "segmented_prefix", "SEGMENTED_PREFIX taken as PREFIX", notes->segmented_prefix },
    { "undivided_rows", "Key lists no multiple of groups x ranks", notes->undivided_rows },
    { "tag_filters", "Prefetches with memory tags", notes->tag_filters },
  };
  const char *release
      = sm_decoder_guess_release (session->decoder, session->env->n_headers > 0 ? session->env->headers[0] : NULL);
  g_autofree char *written_by = release != NULL ? g_strdup_printf ("LMCache %s (from content)", release) : NULL;
  LmtSection *section;
  LmtSection *json;
  guint64 sum = 0;

  for (guint i = 0; i < G_N_ELEMENTS (figures); i++)
    sum += figures[i].value;
  for (guint i = 0; i < STORAGE_N_ANOMALIES; i++)
    sum += session->anomalies[i];
  json = lmt_report_add_section (report, NULL, NULL, FALSE);
  add_anomalies_json (session, json);
  lmt_section_add_bool (json, "tenants_told_apart", NULL, notes->salted_keys > 0);
  lmt_section_add_string (json, "written_by", NULL, written_by);
  if (sum == 0)
    return;
  section = lmt_report_ensure_section (report, "status", "Status");
  add_figures (section, figures, G_N_ELEMENTS (figures), FALSE);
  if (driver->order_wait_ns > 0)
    lmt_section_add_rounded (section, "order_wait_s", "  held back (s)", (double)driver->order_wait_ns / 1e9);
  for (guint i = 0; i < STORAGE_N_ANOMALIES; i++)
    if (session->anomalies[i] > 0)
      {
        g_autofree char *label = g_strdelimit (g_strdup (storage_anomaly_name (i)), "_", ' ');

        label[0] = g_ascii_toupper (label[0]);
        lmt_section_add_int (section, storage_anomaly_name (i), label, (gint64)session->anomalies[i]);
      }
}

/* ---------------- Tiers ---------------- */

#define TIER_FORMULAS                                                                                                            \
  "{\"l1_misses\": \"cells_asked - l1_hits\", "                                                                                  \
  "\"l2_misses\": \"l1_misses - l2_hits\", "                                                                                     \
  "\"object_hit_rate\": \"(l1_hits + l2_hits) / cells_asked\", "                                                                 \
  "\"byte_hit_rate\": \"hit_bytes / asked_bytes, sizes from the layouts of the requests\", "                                     \
  "\"prefix_hit_rate\": \"sum of hit lengths / sum of columns, prefix requests\", "                                              \
  "\"l1_in_bytes\": \"object bytes of reservations that got a buffer\", "                                                        \
  "\"l1_out_bytes\": \"object bytes of cells hit in L1\", "                                                                      \
  "\"l2_in_bytes\": \"bytes newly written, as the adapters report\", "                                                           \
  "\"l2_out_bytes\": \"bytes loaded, as the adapters report\"}"

static void
add_rates (LmtSection *section, const SmCounters *counters)
{
  const struct
  {
    const char *key;
    const char *label;
    double value;
  } rates[] = {
    { "object_hit_rate", "Object hit rate (hit cells / asked)", rate (counters->hit_cells, counters->prefetch_cells) },
    { "byte_hit_rate", "Byte hit rate (hit bytes / asked)", rate (counters->hit_bytes, counters->prefetch_cells_bytes) },
    { "prefix_hit_rate", "Prefix hit rate (hit length / columns)", rate (counters->hit_chunks, counters->asked_chunks) },
    { "l1_hit_rate", "L1 hit rate (L1 hits / asked)", rate (counters->l1_hit_cells, counters->prefetch_cells) },
    { "l2_hit_rate", "L2 hit rate (L2 hits / asked of L2)",
      rate (counters->l2_hit_cells, counters->prefetch_cells - counters->l1_hit_cells) },
  };

  for (guint i = 0; i < G_N_ELEMENTS (rates); i++)
    lmt_section_add_double (section, rates[i].key, rates[i].label, rates[i].value);
}

static void
add_tiers (StorageSession *session, LmtReport *report)
{
  const SmCounters *c = lmt_sm_get_counters (session->sm);
  LmtSection *section = lmt_report_add_section (report, "tiers", "Tiers", TRUE);
  const Figure asked[] = {
    { "requests", "Prefetches", c->prefetch_requests },
    { "requests_full", "  all hit", c->requests_full },
    { "requests_partial", "  partly hit", c->requests_partial },
    { "requests_none", "  nothing hit", c->requests_none },
    { "cells_asked", "Objects asked", c->prefetch_cells },
    { "l1_hits", "L1 hits", c->l1_hit_cells },
    { "l1_misses", "L1 misses", c->prefetch_cells - c->l1_hit_cells },
    { "l2_hits", "L2 hits", c->l2_hit_cells },
    { "l2_misses", "L2 misses", c->prefetch_cells - c->l1_hit_cells - c->l2_hit_cells },
  };
  const Figure written[] = {
    { "keys_reserve_asked", "Objects asked to reserve", c->reserve_asked },
    { "keys_reserved", "  reserved", c->reserve_ok },
    { "keys_refused_not_writable", "  refused: there or being written", c->reserve_not_writable },
    { "keys_refused_no_memory", "  refused: no memory", c->reserve_oom },
    { "keys_finished", "Objects finished", c->finish_admitted },
    { "keys_finish_dropped", "  dropped: already there", c->finish_dropped },
    { "l1_evicted", "Evicted from L1", c->l1_evicted_keys },
    { "l2_evicted", "Evicted from L2", c->l2_evicted_keys },
  };

  add_figures (section, asked, G_N_ELEMENTS (asked), TRUE);
  add_rates (section, c);
  add_figures (section, written, G_N_ELEMENTS (written), TRUE);
  lmt_section_add_size (section, "asked_bytes", "Bytes asked", c->prefetch_cells_bytes);
  lmt_section_add_size (section, "hit_bytes", "Bytes hit", c->hit_bytes);
  lmt_section_add_size (section, "l1_in_bytes", "L1 bytes in", c->reserve_bytes);
  lmt_section_add_size (section, "l1_out_bytes", "L1 bytes out", c->l1_hit_bytes);
  lmt_section_add_size (section, "l2_in_bytes", "L2 bytes in", c->store_bytes_moved);
  lmt_section_add_size (section, "l2_out_bytes", "L2 bytes out", c->load_bytes_moved);
  lmt_section_add_size (section, "l1_peak_bytes", "L1 peak used", c->peak_used_bytes);
  lmt_section_add_json (section, "formulas", TIER_FORMULAS);
}

static void
add_misses (StorageSession *session, LmtReport *report)
{
  const SmCounters *counters = lmt_sm_get_counters (session->sm);
  guint64 sum = 0;
  LmtSection *section;

  for (guint i = 0; i < SM_N_MISS; i++)
    sum += counters->misses[i];
  if (sum == 0)
    return;
  section = lmt_report_add_section (report, "misses", "Misses by cause", TRUE);
  for (guint i = 0; i < SM_N_MISS; i++)
    {
      g_autofree char *key = g_strdelimit (g_strdup (sm_miss_name (i)), " ", '_');
      g_autofree char *label = g_strdup (sm_miss_name (i));

      label[0] = g_ascii_toupper (label[0]);
      if (counters->misses[i] > 0)
        lmt_section_add_int (section, key, label, (gint64)counters->misses[i]);
    }
  lmt_section_add_int (section, "all", "All misses", (gint64)sum);
}

/* ---------------- L2 ---------------- */

static const char *const kind_words[LMT_L2_N_KINDS] = { "store", "load", "lookup", "delete" };

static gboolean
is_error (guint code)
{
  return code != LMT_L2_OK && code != LMT_L2_PRESENT && code != LMT_L2_NOT_FOUND;
}

static guint64
errors_of (const LmtL2Figures *figures, guint kind)
{
  guint64 n = 0;

  for (guint code = 0; code < LMT_L2_N_CODES; code++)
    if (is_error (code))
      n += figures->codes[kind][code];
  return n;
}

static gboolean
moves_bytes (guint kind)
{
  return kind == LMT_L2_STORE || kind == LMT_L2_LOAD;
}

static guint64
bytes_per_s (const LmtL2Figures *figures, guint kind)
{
  return (guint64)((double)figures->bytes[kind] / ((double)figures->busy_ns / 1e9));
}

static void
write_latency (LmtJsonWriter *json, const char *key, LmtStats *stats)
{
  const struct
  {
    const char *name;
    guint per_mille;
  } points[] = { { "p50_ms", 500 }, { "p99_ms", 990 }, { "p999_ms", 999 } };

  lmt_json_writer_key (json, key);
  lmt_json_writer_begin_object (json);
  lmt_json_writer_key (json, "count");
  lmt_json_writer_uint (json, lmt_stats_count (stats));
  for (guint i = 0; i < G_N_ELEMENTS (points); i++)
    {
      lmt_json_writer_key (json, points[i].name);
      lmt_json_writer_double (json, (double)lmt_stats_percentile (stats, points[i].per_mille, LMT_RANK_NEAREST) / 1e6);
    }
  lmt_json_writer_end_object (json);
}

static void
write_kind (LmtJsonWriter *json, const LmtL2Figures *figures, guint kind)
{
  lmt_json_writer_key (json, kind_words[kind]);
  lmt_json_writer_begin_object (json);
  lmt_json_writer_key (json, "ops");
  lmt_json_writer_uint (json, figures->ops[kind]);
  lmt_json_writer_key (json, "errors");
  lmt_json_writer_uint (json, errors_of (figures, kind));
  lmt_json_writer_key (json, "bytes");
  lmt_json_writer_uint (json, figures->bytes[kind]);
  if (moves_bytes (kind) && figures->busy_ns > 0)
    {
      lmt_json_writer_key (json, "bytes_per_s");
      lmt_json_writer_uint (json, bytes_per_s (figures, kind));
    }
  lmt_json_writer_key (json, "codes");
  lmt_json_writer_begin_object (json);
  for (guint code = 0; code < LMT_L2_N_CODES; code++)
    if (figures->codes[kind][code] > 0)
      {
        lmt_json_writer_key (json, lmt_l2_code_name (code));
        lmt_json_writer_uint (json, figures->codes[kind][code]);
      }
  lmt_json_writer_end_object (json);
  write_latency (json, "completion", figures->completion[kind]);
  write_latency (json, "service", figures->service[kind]);
  write_latency (json, "queue", figures->queue[kind]);
  lmt_json_writer_end_object (json);
}

static void
write_status (gpointer data, const char *key, const char *value)
{
  LmtJsonWriter *json = data;

  lmt_json_writer_key (json, key);
  lmt_json_writer_string (json, value);
}

static void
write_l2 (LmtJsonWriter *json, LmtL2 *l2)
{
  const LmtL2Figures *figures = lmt_l2_get_figures (l2);

  lmt_json_writer_begin_object (json);
  lmt_json_writer_key (json, "type");
  lmt_json_writer_string (json, lmt_l2_get_type_name (l2));
  lmt_json_writer_key (json, "used_bytes");
  lmt_json_writer_uint (json, lmt_l2_get_used (l2));
  lmt_json_writer_key (json, "capacity_bytes");
  lmt_json_writer_uint (json, lmt_l2_get_capacity (l2));
  lmt_json_writer_key (json, "usage_exact");
  lmt_json_writer_bool (json, lmt_l2_usage_is_exact (l2));
  lmt_json_writer_key (json, "depth_max");
  lmt_json_writer_uint (json, figures->depth_max);
  lmt_json_writer_key (json, "depth_mean");
  lmt_json_writer_double (json, figures->depth_mean);
  lmt_json_writer_key (json, "busy_s");
  lmt_json_writer_double (json, (double)figures->busy_ns / 1e9);
  lmt_json_writer_key (json, "protocol_errors");
  lmt_json_writer_uint (json, figures->protocol_errors);
  for (guint kind = 0; kind < LMT_L2_N_KINDS; kind++)
    write_kind (json, figures, kind);
  lmt_json_writer_key (json, "faults");
  lmt_json_writer_bool (json, (lmt_l2_get_info (l2)->flags & LMT_L2_INFO_FAULTS) != 0);
  lmt_json_writer_key (json, "status");
  lmt_json_writer_begin_object (json);
  lmt_l2_get_status (l2, write_status, json);
  lmt_json_writer_end_object (json);
  lmt_json_writer_end_object (json);
}

/* Of the plugin's words those that nobody should miss: that it is ill, what it wraps, which results were made wrong. */
static void
add_status_row (gpointer data, const char *key, const char *value)
{
  LmtSection *section = data;
  gboolean fault = g_str_has_prefix (key, "fault_");
  g_autofree char *label = g_strdelimit (g_strdup (key), "_", ' ');

  if (fault || (strcmp (key, "is_healthy") == 0 && strcmp (value, "yes") != 0) || strcmp (key, "inner") == 0)
    lmt_section_add_string (section, key, label, value);
}

/* Entry with a star where the samples are too few for the percentile. */
static void
add_percentile (LmtSection *section, guint kind, const char *what, LmtStats *stats, const char *name, guint per_mille,
                guint64 enough, gboolean *thin)
{
  g_autofree char *key = g_strdup_printf ("%s_%s_%s_ms", kind_words[kind], what, name);
  gboolean few = lmt_stats_count (stats) < enough;
  g_autofree char *label = g_strdup_printf ("%s %s %s (ms)%s", kind_words[kind], what, name, few ? "*" : "");

  *thin |= few;
  lmt_section_add_rounded (section, key, label, (double)lmt_stats_percentile (stats, per_mille, LMT_RANK_NEAREST) / 1e6);
}

static void
add_l2_kind (LmtSection *section, const LmtL2Figures *figures, guint kind, gboolean *thin)
{
  g_autofree char *ops_key = g_strconcat (kind_words[kind], "_ops", NULL);
  g_autofree char *errors_key = g_strconcat (kind_words[kind], "_errors", NULL);
  g_autofree char *errors_label = g_strconcat (kind_words[kind], " errors", NULL);
  g_autofree char *rate_key = g_strconcat (kind_words[kind], "_bytes_per_s", NULL);
  g_autofree char *rate_label = g_strconcat (kind_words[kind], " bytes/s while busy", NULL);
  LmtStats *completion = figures->completion[kind];

  if (figures->ops[kind] == 0)
    return;
  lmt_section_add_int (section, ops_key, kind_words[kind], (gint64)figures->ops[kind]);
  lmt_section_add_int (section, errors_key, errors_label, (gint64)errors_of (figures, kind));
  for (guint code = 0; code < LMT_L2_N_CODES; code++)
    if (is_error (code) && figures->codes[kind][code] > 0)
      {
        g_autofree char *key = g_strdup_printf ("%s_%s", kind_words[kind], lmt_l2_code_name (code));
        g_autofree char *label = g_strdup_printf ("  %s", lmt_l2_code_name (code));

        lmt_section_add_int (section, key, label, (gint64)figures->codes[kind][code]);
      }
  if (moves_bytes (kind))
    {
      g_autofree char *key = g_strconcat (kind_words[kind], "_bytes", NULL);
      g_autofree char *label = g_strconcat (kind_words[kind], " bytes", NULL);

      lmt_section_add_size (section, key, label, figures->bytes[kind]);
    }
  if (moves_bytes (kind) && figures->busy_ns > 0)
    lmt_section_add_size (section, rate_key, rate_label, bytes_per_s (figures, kind));
  if (lmt_stats_count (completion) == 0)
    return;
  add_percentile (section, kind, "completion", completion, "p50", 500, 1, thin);
  add_percentile (section, kind, "completion", completion, "p99", 990, 100, thin);
  add_percentile (section, kind, "completion", completion, "p99.9", 999, 1000, thin);
  /* The part of it before the device: more depth, or a faster adapter? */
  add_percentile (section, kind, "queue", figures->queue[kind], "p50", 500, 1, thin);
  add_percentile (section, kind, "queue", figures->queue[kind], "p99", 990, 100, thin);
}

static void
add_l2 (StorageSession *session, LmtReport *report, gboolean *thin)
{
  g_autoptr (GString) list = g_string_new (NULL);
  LmtJsonWriter *json = lmt_json_writer_new (list, LMT_JSON_STYLE_SPACED);
  LmtSection *section;

  lmt_json_writer_begin_array (json);
  for (guint i = 0; i < session->config->sm.n_l2; i++)
    {
      LmtL2 *l2 = session->l2[i];
      const LmtL2Figures *figures = lmt_l2_get_figures (l2);
      g_autofree char *label = g_strdup_printf ("L2 %u %s", i, lmt_l2_get_type_name (l2));

      section = lmt_report_add_section (report, NULL, label, LMT_SECTION_TEXT_ONLY);
      for (guint kind = 0; kind < LMT_L2_N_KINDS; kind++)
        add_l2_kind (section, figures, kind, thin);
      lmt_section_add_size (section, "used_bytes", lmt_l2_usage_is_exact (l2) ? "used" : "used (of this run only)",
                            lmt_l2_get_used (l2));
      lmt_section_add_int (section, "depth_max", "depth max", figures->depth_max);
      lmt_section_add_double (section, "depth_mean", "depth mean while busy", figures->depth_mean);
      if (figures->protocol_errors > 0)
        lmt_section_add_int (section, "protocol_errors", "protocol errors of the plugin", (gint64)figures->protocol_errors);
      lmt_l2_get_status (l2, add_status_row, section);
      write_l2 (json, l2);
    }
  lmt_json_writer_end_array (json);
  lmt_json_writer_free (json);
  section = lmt_report_add_section (report, NULL, NULL, FALSE);
  lmt_section_add_json (section, "l2", list->str);
}

/* ---------------- the rest ---------------- */

static void
add_in_flight (StorageSession *session, LmtReport *report)
{
  const Figure figures[] = {
    { "ios", "L2 operations", session->ios_left },
    { "prefetches", "Prefetches without result", session->prefetches_left },
    { "stores", "Store tasks", session->stores_left },
    { "contexts", "Read contexts", session->anomalies[STORAGE_ANOMALY_CONTEXT_LEFT_OPEN] },
    { "reservations", "Reservations", session->leaked_reservations },
    { "read_locks", "Read locks", session->leaked_read_locks },
  };
  guint64 sum = 0;
  LmtSection *section;

  for (guint i = 0; i < G_N_ELEMENTS (figures); i++)
    sum += figures[i].value;
  section = lmt_report_add_section (report, "in_flight_at_end", "In flight at end", sum > 0);
  add_figures (section, figures, G_N_ELEMENTS (figures), TRUE);
}

static void
add_config_diff (StorageSession *session, LmtReport *report)
{
  g_autoptr (GString) list = g_string_new ("[");
  LmtSection *section;

  if (session->digest == NULL || session->digest->diff == NULL || session->digest->diff->len == 0)
    return;
  for (guint i = 0; i < session->digest->diff->len; i++)
    {
      const StorageDiff *diff = g_ptr_array_index (session->digest->diff, i);

      g_string_append_printf (list, "%s{\"path\": \"", i > 0 ? ", " : "");
      lmt_json_append_escaped (list, diff->path, strlen (diff->path));
      g_string_append_printf (list, "\", \"recorded\": %s, \"replay\": %s}", diff->recorded != NULL ? diff->recorded : "null",
                              diff->replay != NULL ? diff->replay : "null");
    }
  g_string_append_c (list, ']');
  section = lmt_report_add_section (report, NULL, NULL, FALSE);
  lmt_section_add_json (section, "config_diff", list->str);
}

/* What became of --trace-output. */
static void
add_recording (StorageSession *session, LmtReport *report)
{
  LmtRecorderStats stats = { .struct_size = sizeof stats };
  LmtSection *section;

  if (session->record == NULL)
    return;
  storage_record_get_stats (session->record, &stats);
  section = lmt_report_add_section (report, "recording", "Recording", TRUE);
  lmt_section_add_string (section, "file", "File", storage_record_get_path (session->record));
  lmt_section_add_string (section, "level", "Level", session->flags->trace_level);
  lmt_section_add_int (section, "records", "Records", (gint64)stats.records);
  lmt_section_add_size (section, "bytes", "Bytes", stats.bytes);
  if (stats.files > 1)
    lmt_section_add_int (section, "files", "Files", (gint64)stats.files);
  lmt_section_add_int (section, "dropped", "Dropped", (gint64)stats.dropped);
  lmt_section_add_int (section, "encode_errors", "Encode errors", (gint64)stats.encode_errors);
  lmt_section_add_int (section, "write_errors", "Write errors", (gint64)stats.write_errors);
}

/* --dry-run: what would be touched. */
static void
add_plan (StorageSession *session, LmtReport *report)
{
  LmtSection *section = lmt_report_add_section (report, "plan", "Plan (nothing was touched)", TRUE);

  lmt_section_add_size (section, "l1_bytes", "L1", session->config->sm.size_bytes);
  lmt_section_add_int (section, "keys", "Keys named", (gint64)sm_decoder_get_notes (session->decoder)->keys);
  for (guint i = 0; i < session->config->sm.n_l2; i++)
    {
      g_autofree char *key = g_strdup_printf ("l2_%u", i);
      g_autofree char *label = g_strdup_printf ("L2 %u", i);

      lmt_section_add_string (section, key, label, lmt_l2_config_get_json (session->config->l2[i]));
    }
}

void
storage_report (StorageSession *session, LmtReport *report)
{
  const SmDecodeNotes *notes = sm_decoder_get_notes (session->decoder);
  gboolean thin = FALSE;
  LmtSection *section;

  if (session->env->compat != 0)
    return;
  if (session->prepare != NULL)
    storage_prepare_report (session->prepare, report);
  if (session->env->dry_run)
    {
      add_plan (session, report);
      return;
    }
  if (!session->started)
    return;
  add_status (session, report);
  add_tiers (session, report);
  add_misses (session, report);
  add_l2 (session, report, &thin);
  add_in_flight (session, report);
  add_recording (session, report);
  add_config_diff (session, report);
  if (session->env->replay != NULL) /* a workload has no list of prefetch records, which are part of it */
    {
      section = lmt_report_add_section (report, NULL, NULL, FALSE);
      lmt_section_add_string (section, "outcome_digest", NULL, session->outcome_digest);
    }
  if (notes->keys > 0 && notes->salted_keys == 0)
    lmt_report_add_foot (report, "tenants not told apart in this trace");
  if (thin)
    lmt_report_add_foot (report, "* fewer samples than the percentile needs");
}
