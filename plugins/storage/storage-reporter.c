// SPDX-License-Identifier: Apache-2.0
#include "storage-reporter.h"

#include <string.h>

enum
{
  CALL_BATCH = 0,
  CALL_LIFECYCLE,
  N_CALLS,
};

#define FLUSH_NS G_GINT64_CONSTANT (1000000000)
#define EVENT_SCHEMA 1 /* cache_event_schema_version */

static const LmtTraceCall calls[N_CALLS] = {
  [CALL_BATCH] = { "events.batch", NULL, NULL, { NULL } },
  [CALL_LIFECYCLE] = { "events.lifecycle", NULL, NULL, { NULL } },
};

LmtTraceLevel storage_events_level = LMT_TRACE_LEVEL_INIT ("events", calls, N_CALLS);

/* Entries of one kind, not numbered yet. */
typedef struct
{
  const char *event_type;
  const char *tier;
  const char *backend;
  guint64 capacity_bytes;
  gint64 revision; /* of a declaration; 0: none */
  guint32 n_entries;
  LmtPack entries;
} Batch;

struct _StorageReporter
{
  StorageReporterParams params;
  char *instance_id;
  char *ip;
  LmtSm *sm; /* while it listens */
  gboolean started;
  gboolean stopped;
  guint64 incarnation;
  guint64 seq;
  gint64 last_flush_ns;
  gsize max_bytes;
  GPtrArray *batches; /* (element-type Batch): pending ones, then spare ones */
  guint n_batches;
  LmtPack args;
  char *hex;
  gsize max_hex;
};

void
storage_reporter_pack_meta (const char *instance_id, LmtPack *out)
{
  lmt_pack_map (out, 3);
  LMT_PACK_LITERAL (out, "instance_id");
  lmt_pack_str (out, instance_id, strlen (instance_id));
  LMT_PACK_LITERAL (out, "cache_event_schema_version");
  lmt_pack_uint (out, EVENT_SCHEMA);
  LMT_PACK_LITERAL (out, "lmcache_version");
  LMT_PACK_LITERAL (out, "lmtrace " LMT_VERSION);
}

StorageReporter *
storage_reporter_new (const StorageReporterParams *params)
{
  StorageReporter *reporter = g_new0 (StorageReporter, 1);

  reporter->params = *params;
  reporter->instance_id = g_strdup (params->instance_id);
  reporter->ip = g_strdup (params->ip);
  reporter->batches = g_ptr_array_new ();
  reporter->max_bytes = MAX (params->ring_bytes, 64 * 1024) / 8;
  lmt_pack_init (&reporter->args);
  return reporter;
}

void
storage_reporter_free (StorageReporter *reporter)
{
  if (reporter == NULL)
    return;
  if (reporter->sm != NULL)
    lmt_sm_set_listener (reporter->sm, NULL, NULL);
  for (guint i = 0; i < reporter->batches->len; i++)
    {
      Batch *batch = reporter->batches->pdata[i];

      lmt_pack_clear (&batch->entries);
      g_free (batch);
    }
  g_ptr_array_unref (reporter->batches);
  lmt_pack_clear (&reporter->args);
  g_free (reporter->instance_id);
  g_free (reporter->ip);
  g_free (reporter->hex);
  g_free (reporter);
}

/* ---------------- flush ---------------- */

static void
pack_text (LmtPack *out, const char *name, const char *text)
{
  lmt_pack_str (out, name, strlen (name));
  lmt_pack_str (out, text, strlen (text));
}

static void
pack_number (LmtPack *out, const char *name, guint64 number)
{
  lmt_pack_str (out, name, strlen (name));
  lmt_pack_uint (out, number);
}

/* Every field, defaults included, in the order of events.md 2. */
static void
publish_batch (StorageReporter *reporter, const Batch *batch, const LmtTraceTime *time)
{
  LmtPack *out = &reporter->args;

  out->len = 0;
  lmt_pack_map (out, 11);
  pack_text (out, "instance_id", reporter->instance_id);
  pack_number (out, "incarnation", reporter->incarnation);
  pack_number (out, "seq", ++reporter->seq);
  pack_text (out, "event_type", batch->event_type);
  pack_text (out, "tier", batch->tier);
  pack_text (out, "backend", batch->backend);
  LMT_PACK_LITERAL (out, "entries");
  lmt_pack_array (out, batch->n_entries);
  lmt_pack_raw (out, batch->entries.data, batch->entries.len);
  LMT_PACK_LITERAL (out, "shared");
  lmt_pack_bool (out, FALSE);
  LMT_PACK_LITERAL (out, "ts");
  lmt_pack_double (out, lmt_trace_seconds (time->wall_ns));
  pack_number (out, "capacity_bytes", batch->capacity_bytes);
  pack_number (out, "capacity_revision", (guint64)batch->revision);
  lmt_recorder_publish_at (&storage_events_level, CALL_BATCH, time, out->data, out->len);
}

static void
flush (StorageReporter *reporter)
{
  LmtTraceTime time;

  if (reporter->n_batches == 0)
    return;
  lmt_recorder_get_time (reporter->params.recorder, &time);
  for (guint i = 0; i < reporter->n_batches; i++)
    publish_batch (reporter, reporter->batches->pdata[i], &time);
  reporter->n_batches = 0;
}

static void
flush_if_due (StorageReporter *reporter)
{
  gint64 now = reporter->params.manager_ns (reporter->params.manager_data);

  if (now - reporter->last_flush_ns < FLUSH_NS)
    return;
  reporter->last_flush_ns = now;
  flush (reporter);
}

/* ---------------- entries ---------------- */

static Batch *
add_batch (StorageReporter *reporter, const char *event_type, const char *tier, const char *backend)
{
  Batch *batch;

  if (reporter->n_batches == reporter->batches->len)
    {
      batch = g_new0 (Batch, 1);
      lmt_pack_init (&batch->entries);
      g_ptr_array_add (reporter->batches, batch);
    }
  batch = reporter->batches->pdata[reporter->n_batches++];
  batch->event_type = event_type;
  batch->tier = tier;
  batch->backend = backend;
  batch->capacity_bytes = 0;
  batch->revision = 0;
  batch->n_entries = 0;
  batch->entries.len = 0;
  return batch;
}

/* The last batch, if it is of this kind and not too large for the ring. */
static Batch *
get_batch (StorageReporter *reporter, const char *event_type, const char *tier, const char *backend)
{
  if (reporter->n_batches > 0)
    {
      Batch *last = reporter->batches->pdata[reporter->n_batches - 1];

      if (last->revision == 0 && strcmp (last->event_type, event_type) == 0 && strcmp (last->tier, tier) == 0
          && strcmp (last->backend, backend) == 0 && last->entries.len < reporter->max_bytes)
        return last;
    }
  return add_batch (reporter, event_type, tier, backend);
}

static void
pack_hash (StorageReporter *reporter, const LmtKeyFields *fields, LmtPack *out)
{
  static const char digits[] = "0123456789abcdef";
  gsize len = 2 * (gsize)fields->hash_len;

  if (reporter->max_hex < len)
    {
      reporter->max_hex = MAX (len, 64);
      reporter->hex = g_realloc (reporter->hex, reporter->max_hex);
    }
  for (guint32 i = 0; i < fields->hash_len; i++)
    {
      reporter->hex[2 * i] = digits[fields->hash[i] >> 4];
      reporter->hex[2 * i + 1] = digits[fields->hash[i] & 15];
    }
  lmt_pack_str (out, reporter->hex, len);
}

static void
pack_entry (StorageReporter *reporter, const LmtKey *key, guint64 bytes, LmtPack *out)
{
  const LmtKeyFields *fields = &key->fields;

  lmt_pack_map (out, 4);
  LMT_PACK_LITERAL (out, "key");
  lmt_pack_map (out, 5);
  LMT_PACK_LITERAL (out, "chunk_hash_hex");
  pack_hash (reporter, fields, out);
  LMT_PACK_LITERAL (out, "model_name");
  lmt_pack_str (out, fields->model, fields->model_len);
  pack_number (out, "kv_rank", fields->rank);
  pack_number (out, "object_group_id", fields->group);
  LMT_PACK_LITERAL (out, "cache_salt");
  lmt_pack_str (out, fields->salt, fields->salt_len);
  pack_number (out, "size_bytes", bytes);
  LMT_PACK_LITERAL (out, "token_ids");
  lmt_pack_array (out, 0);
  LMT_PACK_LITERAL (out, "token_offset");
  lmt_pack_int (out, -1);
}

typedef guint64 (*SizeOf) (StorageReporter *reporter, const SmEvent *event, guint i);

static guint64
no_size (StorageReporter *reporter, const SmEvent *event, guint i)
{
  return 0;
}

static guint64
size_in_l1 (StorageReporter *reporter, const SmEvent *event, guint i)
{
  SmKeyView view;

  return lmt_sm_view (reporter->sm, 0, event->keys[i], &view) ? view.bytes : 0;
}

static guint64
size_in_l2 (StorageReporter *reporter, const SmEvent *event, guint i)
{
  return event->sizes != NULL ? event->sizes[i] : 0;
}

static void
record (StorageReporter *reporter, const SmEvent *event, const char *event_type, const char *tier, const char *backend,
        SizeOf size)
{
  if (event->n_keys == 0)
    return;
  for (guint i = 0; i < event->n_keys; i++)
    {
      Batch *batch = get_batch (reporter, event_type, tier, backend);

      pack_entry (reporter, event->keys[i], size (reporter, event, i), &batch->entries);
      batch->n_entries++;
    }
  flush_if_due (reporter);
}

static const char *
adapter_type (const StorageReporter *reporter, guint32 adapter)
{
  return lmt_l2_config_get_type_name (reporter->params.config->l2[adapter]);
}

static void
on_event (const SmEvent *event, gpointer data)
{
  StorageReporter *reporter = data;

  switch (event->type)
    {
    case SM_EV_L1_WRITE_FINISHED:
    case SM_EV_L1_WRITE_FINISHED_AND_READ_RESERVED:
      record (reporter, event, "store", "l1", "dram", size_in_l1);
      break;
    case SM_EV_L1_KEYS_EVICTED:
      record (reporter, event, "delete", "l1", "dram", no_size);
      break;
    case SM_EV_L1_KEYS_ACCESSED:
      record (reporter, event, "access", "l1", "", no_size);
      break;
    case SM_EV_L2_KEYS_STORED:
      record (reporter, event, "store", "l2", adapter_type (reporter, event->adapter), size_in_l2);
      break;
    case SM_EV_L2_KEYS_DELETED:
      record (reporter, event, "delete", "l2", adapter_type (reporter, event->adapter), no_size);
      break;
    case SM_EV_L2_KEYS_ACCESSED:
      record (reporter, event, "access", "l2", adapter_type (reporter, event->adapter), no_size);
      break;
    case SM_EV_L1_LOOP_TICK:
      flush_if_due (reporter);
      break;
    default:
      break;
    }
}

/* ---------------- start and stop ---------------- */

static void
publish_mark (StorageReporter *reporter, gboolean start)
{
  LmtPack *out = &reporter->args;

  out->len = 0;
  lmt_pack_map (out, start ? 6 : 2);
  pack_text (out, "phase", start ? "start" : "stop");
  pack_text (out, "instance_id", reporter->instance_id);
  if (start)
    {
      pack_number (out, "incarnation", reporter->incarnation);
      pack_text (out, "ip", reporter->ip);
      pack_number (out, "http_port", reporter->params.http_port);
      pack_number (out, "mq_port", 0);
    }
  lmt_recorder_publish (&storage_events_level, CALL_LIFECYCLE, out->data, out->len);
}

/* One batch per compartment, all of one revision. */
static void
declare (StorageReporter *reporter, const guint64 *l2_capacity)
{
  const SmConfig *sm = &reporter->params.config->sm;
  Batch *batch = add_batch (reporter, "config", "l1", "dram");

  batch->capacity_bytes = sm->size_bytes;
  batch->revision = 1;
  for (guint i = 0; i < sm->n_l2; i++)
    {
      batch = add_batch (reporter, "config", "l2", adapter_type (reporter, i));
      batch->capacity_bytes = l2_capacity != NULL ? l2_capacity[i] : 0;
      batch->revision = 1;
    }
}

void
storage_reporter_start (StorageReporter *reporter, LmtSm *sm, const guint64 *l2_capacity)
{
  double mono, wall;

  if (reporter->started)
    return;
  reporter->started = TRUE;
  lmt_recorder_get_start (reporter->params.recorder, &mono, &wall);
  reporter->incarnation = wall > 0.0 ? (guint64)wall : 0;
  reporter->last_flush_ns = reporter->params.manager_ns (reporter->params.manager_data);
  publish_mark (reporter, TRUE);
  declare (reporter, l2_capacity);
  reporter->sm = sm;
  lmt_sm_set_listener (sm, on_event, reporter);
}

void
storage_reporter_stop (StorageReporter *reporter)
{
  if (!reporter->started || reporter->stopped)
    return;
  reporter->stopped = TRUE;
  lmt_sm_set_listener (reporter->sm, NULL, NULL);
  reporter->sm = NULL;
  flush (reporter);
  publish_mark (reporter, FALSE);
}
