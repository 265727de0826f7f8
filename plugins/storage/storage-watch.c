// SPDX-License-Identifier: Apache-2.0
/* What a run shows while it runs: --enable-extra-logging, --prometheus-port. Looked at between records, at most four times a
 * second. */
#include "storage-metrics.h"
#include "storage-session.h"

#define LOOK_NS (G_GINT64_CONSTANT (250) * 1000000)

typedef struct
{
  const char *name;
  const char *type;
  const char *help;
  guint64 value;
} Metric;

static void
append_metric (GString *text, const Metric *metric)
{
  g_string_append_printf (text, "# HELP lmtrace_%s %s\n# TYPE lmtrace_%s %s\nlmtrace_%s %" G_GUINT64_FORMAT "\n", metric->name,
                          metric->help, metric->name, metric->type, metric->name, metric->value);
}

static void
publish (StorageSession *session)
{
  const SmCounters *c = lmt_sm_get_counters (session->sm);
  GString *text = session->metrics_text;
  const Metric metrics[] = {
    { "records_total", "counter", "Records replayed, whatever became of them",
      session->env->replay != NULL ? lmt_replay_get_totals (session->env->replay)->records : 0 },
    { "prefetch_requests_total", "counter", "submit_prefetch_task calls", c->prefetch_requests },
    { "prefetch_objects_total", "counter", "Objects asked for by them", c->prefetch_cells },
    { "l1_hits_total", "counter", "Objects asked for and hit in L1", c->l1_hit_cells },
    { "l2_hits_total", "counter", "Objects asked for and hit in L2", c->l2_hit_cells },
    { "reserved_objects_total", "counter", "Objects that got a buffer to be written", c->reserve_ok },
    { "reserve_no_memory_total", "counter", "Objects that got none", c->reserve_oom },
    { "l1_evicted_objects_total", "counter", "Objects evicted from L1", c->l1_evicted_keys },
    { "l2_evicted_objects_total", "counter", "Objects evicted from L2", c->l2_evicted_keys },
    { "l2_stored_bytes_total", "counter", "Bytes newly written to L2", c->store_bytes_moved },
    { "l2_loaded_bytes_total", "counter", "Bytes loaded from L2", c->load_bytes_moved },
    { "l1_used_bytes", "gauge", "Bytes of L1 in use", lmt_sm_used_bytes (session->sm) },
    { "l1_total_bytes", "gauge", "Bytes of L1", lmt_sm_total_bytes (session->sm) },
    { "l2_operations_outstanding", "gauge", "L2 tasks under way", sm_driver_get_outstanding (session->driver) },
  };

  g_string_truncate (text, 0);
  for (guint i = 0; i < G_N_ELEMENTS (metrics); i++)
    append_metric (text, &metrics[i]);
  storage_metrics_set (session->metrics, text->str, text->len);
}

static void
extra_line (StorageSession *session, gint64 now_ns)
{
  const SmCounters *c = lmt_sm_get_counters (session->sm);
  guint64 used = lmt_sm_used_bytes (session->sm);
  guint64 total = lmt_sm_total_bytes (session->sm);
  double seconds = (double)(now_ns - session->last_line_ns) / 1e9;

  g_message ("L1 usage %.1f%%: used_bytes=%" G_GUINT64_FORMAT ", total_bytes=%" G_GUINT64_FORMAT ", in_bytes_per_s=%.0f, "
             "out_bytes_per_s=%.0f",
             total > 0 ? 100.0 * (double)used / (double)total : 0.0, used, total,
             (double)(c->reserve_bytes - session->last_in_bytes) / seconds,
             (double)(c->l1_hit_bytes - session->last_out_bytes) / seconds);
  session->last_in_bytes = c->reserve_bytes;
  session->last_out_bytes = c->l1_hit_bytes;
  session->last_line_ns = now_ns;
}

gboolean
storage_watch_start (StorageSession *session, GError **error)
{
  const StorageFlags *flags = session->flags;

  session->last_line_ns = lmt_clock_now (session->env->clock);
  session->watching = session->config->extra_logging;
  if (!lmt_options_is_set (session->env->options, "prometheus-port") || flags->disable_metrics || flags->disable_observability)
    return TRUE;
  session->metrics = storage_metrics_new ((guint16)flags->prometheus_port, error);
  if (session->metrics == NULL)
    return FALSE;
  session->metrics_text = g_string_new (NULL);
  session->watching = TRUE;
  publish (session);
  return TRUE;
}

void
storage_watch_look (StorageSession *session)
{
  gint64 now_ns;

  if (!session->watching)
    return;
  now_ns = lmt_clock_now (session->env->clock);
  if (now_ns < session->next_look_ns)
    return;
  session->next_look_ns = now_ns + LOOK_NS;
  if (session->metrics != NULL)
    publish (session);
  if (session->config->extra_logging
      && (double)(now_ns - session->last_line_ns) >= session->config->extra_logging_interval_s * 1e9)
    extra_line (session, now_ns);
}

void
storage_watch_stop (StorageSession *session)
{
  session->watching = FALSE;
  g_clear_pointer (&session->metrics, storage_metrics_free);
  if (session->metrics_text != NULL)
    g_string_free (g_steal_pointer (&session->metrics_text), TRUE);
}
