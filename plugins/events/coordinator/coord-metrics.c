// SPDX-License-Identifier: Apache-2.0
/* GET /metrics: the reference's names of the chosen release (C8), then ours. Constant time, but for one line a server. */
#include "coord.h"

#include <unistd.h>

/* As Prometheus' own writers do it: from 10^6 on with an exponent of two or more digits. */
static void
write_number (GString *out, double value)
{
  char buffer[32];
  const char *text = lmt_json_format_double (value, buffer);
  const char *dot = strchr (text, '.');
  gsize whole = dot != NULL ? (gsize)(dot - text) : 0;

  if (value > 0 && whole > 6 && strchr (text, 'e') == NULL)
    {
      g_autoptr (GString) digits = g_string_new_len (text, (gssize)whole);
      g_string_append (digits, dot + 1);
      g_string_insert_c (digits, 1, '.');
      while (digits->len > 2 && (digits->str[digits->len - 1] == '0'))
        g_string_truncate (digits, digits->len - 1);
      if (digits->str[digits->len - 1] == '.')
        g_string_truncate (digits, digits->len - 1);
      g_string_append_printf (out, "%se+0%" G_GSIZE_FORMAT "\n", digits->str, whole - 1);
      return;
    }
  g_string_append_printf (out, "%s\n", text);
}

static void
write_head (GString *out, const char *name, const char *type, const char *help)
{
  g_string_append_printf (out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void
write_plain (GString *out, const char *name, double value)
{
  g_string_append_printf (out, "%s ", name);
  write_number (out, value);
}

static void
write_labelled (GString *out, const char *name, const char *label, const char *label_value, double value)
{
  g_string_append_printf (out, "%s{%s=\"%s\"} ", name, label, label_value);
  write_number (out, value);
}

/* Label values may hold anything: backslash, quote and newline are escaped, other controls shown as what they are not. */
static void
append_label (GString *out, LmtSpan text)
{
  for (gsize i = 0; i < text.len; i++)
    {
      guint8 c = text.data[i];
      if (c == '\n')
        g_string_append (out, "\\n");
      else if (c == '\\' || c == '"')
        g_string_append_printf (out, "\\%c", c);
      else if (c < 0x20 || c == 0x7f)
        g_string_append_printf (out, "\\\\x%02x", c);
      else
        g_string_append_c (out, (char)c);
    }
}

static void
write_tiers (GString *out, const char *name, const char *help, double l1, double l2)
{
  write_head (out, name, "gauge", help);
  write_labelled (out, name, "tier", "l1", l1);
  write_labelled (out, name, "tier", "l2", l2);
}

static void
write_directory (Coord *coord, GString *out)
{
  EventsStats stats;
  double n[2], bytes[2];

  events_views_stats (coord->views, &stats);
  for (guint i = 0; i < 2; i++)
    {
      n[i] = (double)stats.count[i];
      bytes[i] = (double)stats.bytes[i];
    }
  write_tiers (out, "lmcache_coordinator_key_directory_placements", "Placements in the key directory", n[0], n[1]);
  write_tiers (out, "lmcache_coordinator_key_directory_placement_bytes", "Bytes of these placements", bytes[0], bytes[1]);
  write_tiers (out, "lmcache_mp_key_directory_placement_count", "The older name of placements", n[0], n[1]);
  write_tiers (out, "lmcache_mp_key_directory_placement_size_bytes", "The older name of their bytes", bytes[0], bytes[1]);
}

/* -------- 0.5.7 -------- */

typedef struct
{
  GString *missing, *dropped, *incomplete, *since, *delay;
  gint64 now_ns;
  double now_s; /* Unix seconds */
} StreamLines;

static void
write_instance (GString *out, const char *name, LmtSpan id, double value)
{
  g_string_append_printf (out, "%s{instance_id=\"", name);
  append_label (out, id);
  g_string_append (out, "\"} ");
  write_number (out, value);
}

static void
add_stream (const EventsStream *stream, gpointer data)
{
  StreamLines *lines = data;
  double since = (double)(lines->now_ns - stream->last_event_ns) / 1e9;

  if (stream->departed || !stream->known)
    return;
  write_instance (lines->missing, "lmcache_coordinator_ingest_server_event_batches_missing", stream->instance,
                  (double)stream->missing);
  write_instance (lines->dropped, "lmcache_coordinator_ingest_server_events_dropped", stream->instance, (double)stream->dropped);
  write_instance (lines->incomplete, "lmcache_coordinator_ingest_server_view_incomplete", stream->instance,
                  stream->gap ? 1.0 : 0.0);
  if (stream->last_event_ns == 0)
    return;
  write_instance (lines->since, "lmcache_coordinator_ingest_server_seconds_since_last_event", stream->instance, since);
  if (stream->last_ts > 0)
    write_instance (lines->delay, "lmcache_coordinator_ingest_server_event_delivery_delay_seconds", stream->instance,
                    lines->now_s - since - stream->last_ts);
}

static void
write_streams (Coord *coord, GString *out)
{
  g_autoptr (GString) missing = g_string_new (NULL);
  g_autoptr (GString) dropped = g_string_new (NULL);
  g_autoptr (GString) incomplete = g_string_new (NULL);
  g_autoptr (GString) since = g_string_new (NULL);
  g_autoptr (GString) delay = g_string_new (NULL);
  StreamLines lines = { .missing = missing,
                        .dropped = dropped,
                        .incomplete = incomplete,
                        .since = since,
                        .delay = delay,
                        .now_ns = g_get_monotonic_time () * 1000,
                        .now_s = (double)g_get_real_time () / 1e6 };
  EventsLosses losses = events_gate_losses (events_views_get_gate (coord->views));
  const char *name;

  events_gate_foreach (events_views_get_gate (coord->views), add_stream, &lines);
  name = "lmcache_coordinator_ingest_event_batches_received_total";
  write_head (out, name, "counter", "Batches by the gate's verdict");
  write_labelled (out, name, "result", "applied", (double)coord->counts.applied);
  write_labelled (out, name, "result", "duplicate", (double)coord->counts.duplicates);
  write_labelled (out, name, "result", "stale", (double)coord->counts.stale);
  name = "lmcache_coordinator_ingest_event_batches_missing_total";
  write_head (out, name, "counter", "Sequence numbers that never came");
  write_plain (out, name, (double)losses.missing);
  name = "lmcache_coordinator_ingest_events_dropped_by_servers_total";
  write_head (out, name, "counter", "Entries that servers say they lost");
  write_plain (out, name, (double)losses.dropped);
  write_head (out, "lmcache_coordinator_ingest_server_event_batches_missing", "gauge", "Of this server's stream");
  g_string_append (out, missing->str);
  write_head (out, "lmcache_coordinator_ingest_server_events_dropped", "gauge", "As this server counts them");
  g_string_append (out, dropped->str);
  write_head (out, "lmcache_coordinator_ingest_server_view_incomplete", "gauge", "1 when something of this stream is missing");
  g_string_append (out, incomplete->str);
  write_head (out, "lmcache_coordinator_ingest_server_seconds_since_last_event", "gauge", "Age of the last batch of this server");
  g_string_append (out, since->str);
  if (delay->len > 0)
    write_head (out, "lmcache_coordinator_ingest_server_event_delivery_delay_seconds", "gauge",
                "From a server's stamp to the arrival of its last batch");
  g_string_append (out, delay->str);
}

/* One pass serves all four consumers, so its time is shared out in equal parts; none of them can fail. */
static void
write_consumers (Coord *coord, GString *out)
{
  static const char *const consumers[]
      = { "CacheUsageManager", "KeyDirectory", "ServerConfigRegistry", "FleetEvictionController" };
  const char *name = "lmcache_coordinator_ingest_batches_delivered_total";

  write_head (out, name, "counter", "Batches handed to a consumer");
  for (guint i = 0; i < G_N_ELEMENTS (consumers); i++)
    write_labelled (out, name, "consumer", consumers[i], (double)coord->counts.applied);
  name = "lmcache_coordinator_ingest_batch_apply_time_seconds_total";
  write_head (out, name, "counter", "Time spent on them, in equal shares of the one pass");
  for (guint i = 0; i < G_N_ELEMENTS (consumers); i++)
    write_labelled (out, name, "consumer", consumers[i], (double)coord->ingest_ns / 1e9 / G_N_ELEMENTS (consumers));
  name = "lmcache_coordinator_ingest_batch_apply_failures_total";
  write_head (out, name, "counter", "Batches a consumer failed on");
  for (guint i = 0; i < G_N_ELEMENTS (consumers); i++)
    g_string_append_printf (out, "%s{consumer=\"%s\",op=\"consume\"} 0.0\n%s{consumer=\"%s\",op=\"fence\"} 0.0\n", name,
                            consumers[i], name, consumers[i]);
}

static void
write_loops (Coord *coord, GString *out)
{
  const struct
  {
    const char *name;
    const CoordLoop *loop;
    gint64 interval_ns;
  } loops[] = { { "eviction", &coord->evict, coord->config->eviction_check_interval_ns },
                { "health", &coord->sweep, coord->config->health_check_interval_ns } };
  const char *name = "lmcache_coordinator_background_loop_last_success_timestamp_seconds";

  write_head (out, name, "gauge", "When a loop last went through");
  for (guint i = 0; i < G_N_ELEMENTS (loops); i++)
    if (loops[i].interval_ns > 0)
      write_labelled (out, name, "loop", loops[i].name, loops[i].loop->last_success);
  name = "lmcache_coordinator_background_loop_interval_seconds";
  write_head (out, name, "gauge", "How often it should");
  for (guint i = 0; i < G_N_ELEMENTS (loops); i++)
    if (loops[i].interval_ns > 0)
      write_labelled (out, name, "loop", loops[i].name, (double)loops[i].interval_ns / 1e9);
  name = "lmcache_coordinator_background_loop_passes_total";
  write_head (out, name, "counter", "Passes by result");
  for (guint i = 0; i < G_N_ELEMENTS (loops); i++)
    if (loops[i].interval_ns > 0)
      g_string_append_printf (out,
                              "%s{loop=\"%s\",result=\"ok\"} %" G_GUINT64_FORMAT
                              ".0\n%s{loop=\"%s\",result=\"failed\"} %" G_GUINT64_FORMAT ".0\n",
                              name, loops[i].name, loops[i].loop->passes, name, loops[i].name, loops[i].loop->failed);
  name = "lmcache_coordinator_event_loop_blocked_seconds_total";
  write_head (out, name, "counter", "By how much the main loop came late to its timer, summed up");
  write_plain (out, name, (double)coord->blocked_ns / 1e9);
  name = "lmcache_coordinator_controller_up";
  write_head (out, name, "gauge", "1 while a controller runs");
  write_labelled (out, name, "controller", "FleetEvictionController", 1.0);
  write_labelled (out, name, "controller", "PrefetchManager", 1.0);
}

static void
write_heartbeats (Coord *coord, GString *out)
{
  const char *name = "lmcache_coordinator_registry_server_seconds_since_heartbeat";
  gint64 now_ns = g_get_monotonic_time () * 1000;

  write_head (out, name, "gauge", "Age of a registered server's last heartbeat");
  for (GList *link = coord->order.head; link != NULL; link = link->next)
    {
      const CoordInstance *instance = link->data;
      write_instance (out, name, coord_span_of_bytes (instance->id), (double)(now_ns - instance->heartbeat_ns) / 1e9);
    }
}

/* -------- ours -------- */

static double
resident_bytes (void)
{
  g_autofree char *text = NULL;
  char *pages;

  if (!g_file_get_contents ("/proc/self/statm", &text, NULL, NULL) || (pages = strchr (text, ' ')) == NULL)
    return 0;
  return (double)g_ascii_strtoull (pages + 1, NULL, 10) * (double)sysconf (_SC_PAGESIZE);
}

static void
write_requests (Coord *coord, GString *out)
{
  GHashTableIter iter;
  gpointer value;
  const char *name = "lmtrace_coordinator_requests_total";

  write_head (out, name, "counter", "Requests by method, form of the path and status");
  g_hash_table_iter_init (&iter, coord->requests);
  while (g_hash_table_iter_next (&iter, NULL, &value))
    {
      const CoordRequestFigures *figures = value;
      g_string_append_printf (out, "%s{method=\"%s\",path=\"%s\",status=\"%u\"} %" G_GUINT64_FORMAT ".0\n", name, figures->method,
                              figures->path, figures->status, figures->n);
    }
  name = "lmtrace_coordinator_request_seconds_total";
  write_head (out, name, "counter", "Time from a complete request to its reply");
  g_hash_table_iter_init (&iter, coord->requests);
  while (g_hash_table_iter_next (&iter, NULL, &value))
    {
      const CoordRequestFigures *figures = value;
      g_string_append_printf (out, "%s{method=\"%s\",path=\"%s\",status=\"%u\"} ", name, figures->method, figures->path,
                              figures->status);
      write_number (out, (double)figures->ns / 1e9);
    }
}

static void
write_own (Coord *coord, GString *out)
{
  const struct
  {
    const char *name, *type, *help;
    double value;
  } rows[] = {
    { "lmtrace_coordinator_request_body_bytes_total", "counter", "Bytes of request bodies", (double)coord->body_bytes_in },
    { "lmtrace_coordinator_reply_body_bytes_total", "counter", "Bytes of reply bodies", (double)coord->body_bytes_out },
    { "lmtrace_coordinator_instances", "gauge", "Registered servers", (double)g_hash_table_size (coord->instances) },
    { "lmtrace_coordinator_connections", "gauge", "Open connections",
      coord->server != NULL ? (double)coord_server_n_connections (coord->server) : 0 },
    { "lmtrace_coordinator_connections_refused_total", "counter", "Connections closed because there were too many",
      coord->server != NULL ? (double)coord_server_n_refused (coord->server) : 0 },
    { "lmtrace_coordinator_connections_too_slow_total", "counter", "Connections closed because a request or reply took too long",
      coord->server != NULL ? (double)coord_server_n_slow (coord->server) : 0 },
    { "lmtrace_coordinator_checkpoints_total", "counter", "Checkpoints written or tried", (double)coord->checkpoint.passes },
    { "lmtrace_coordinator_checkpoint_failures_total", "counter", "Of these, failed", (double)coord->checkpoint.failed },
    { "lmtrace_coordinator_ingest_seconds_total", "counter", "Time spent in gate and views", (double)coord->ingest_ns / 1e9 },
    { "lmtrace_coordinator_resident_bytes", "gauge", "Resident memory of the process", resident_bytes () },
    { "lmtrace_coordinator_uptime_seconds", "gauge", "Time since the start",
      (double)(g_get_monotonic_time () * 1000 - coord->start_ns) / 1e9 },
  };

  write_requests (coord, out);
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      write_head (out, rows[i].name, rows[i].type, rows[i].help);
      write_plain (out, rows[i].name, rows[i].value);
    }
}

void
coord_metrics_write (Coord *coord, GString *out)
{
  if (coord->compat != EVENTS_COMPAT_056)
    write_heartbeats (coord, out);
  write_directory (coord, out);
  if (coord->compat != EVENTS_COMPAT_056)
    {
      write_consumers (coord, out);
      write_streams (coord, out);
      write_loops (coord, out);
    }
  write_own (coord, out);
}
