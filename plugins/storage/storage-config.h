/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <lmtrace/lmt-plugin.h>

#include "manager/manager.h"

G_BEGIN_DECLS

/**
 * StorageFlags: every flag of cli.md sections 5 and 6, and the storage flags of 3.1. Filled from storage_options.
 */
typedef struct
{
  /* cli.md 5 */
  char **l1_manager;
  double l1_size_gb;
  char *l1_size; /* text: the unit is required */
  guint32 l1_use_lazy;
  gint64 l1_init_size_gb;
  guint64 l1_align_bytes;
  guint32 l1_use_hugepages;
  guint32 l1_mlock;
  char *l1_devdax_path;
  double l1_devdax_offset_gb;
  char *shm_name;
  char *gds_l1_path;
  char *gds_l1_backend;
  guint32 gds_l1_use_direct_io;
  gint64 l1_write_ttl_seconds;
  gint64 l1_read_ttl_seconds;
  char *eviction_policy;
  double eviction_trigger_watermark;
  double eviction_ratio;
  char *l2_store_policy;
  char *l2_prefetch_policy;
  gint64 l2_prefetch_max_in_flight;
  double l2_prefetch_inflight_watermark;
  gint64 periodic_notifier_interval_ms;
  char **l2_adapter;
  char **l2;
  guint32 config_from_trace;
  /* cli.md 3.1 */
  guint32 settle;
  guint32 no_settle;
  char *state_out;
  char **l2_quota;
  char *payload;
  guint32 verify_data;
  double min_hit_rate;
  guint32 bypass_l1;
  guint32 prepare;
  guint32 prepare_only;
  /* cli.md 6 */
  guint32 disable_observability;
  guint32 disable_logging;
  guint32 disable_metrics;
  gint64 prometheus_port;
  char *otlp_endpoint;
  guint32 enable_tracing;
  guint32 enable_token_trace;
  double metrics_sample_rate;
  gint64 event_bus_queue_size;
  guint32 disable_grpc_metrics;
  char *lookup_hash_log_dir;
  gint64 lookup_hash_log_rotation_interval;
  gint64 lookup_hash_log_rotation_max_size;
  gint64 lookup_hash_log_max_files;
  guint32 enable_gc_monitor;
  double gc_monitor_min_pause_ms;
  gint64 gc_monitor_top_objects;
  guint32 enable_extra_logging;
  double extra_logging_interval;
  char *trace_level;
  char *trace_output;
  gint64 trace_schema;
  guint32 trace_block;
  guint64 trace_buffer;
  guint64 trace_rotate;
  char *trace_instance;
  char *trace_http;
} StorageFlags;

extern const LmtOption storage_options[];

/**
 * StorageConfig: flags, JSON objects and (with --config-from-trace) the header made into one checked configuration. Nothing is
 * opened. Adapters in order: those of --l2-adapter as given, then those of --l2.
 */
typedef struct
{
  SmConfig sm; /* sm.l2_eviction points into l2_eviction */
  SmEviction *l2_eviction;
  LmtL2Config **l2;            /* sm.n_l2 of them */
  gboolean plain_flags;        /* L1 came from --l1-size-gb, not from --l1-manager */
  char *l1_tag;                /* "_default" */
  char *shm_name;              /* of an --l1-manager object; "" */
  guint64 devdax_offset_bytes; /* 0.5.7: only part of the digest */
  guint64 init_size_bytes;     /* capped by the size */
  gboolean use_lazy, use_hugepages, mlock;
  gboolean extra_logging;
  double extra_logging_interval_s;
  gint64 notifier_interval_ms;
  double inflight_watermark;                       /* 0.5.7: given or not; part of the digest */
  gboolean watermark_is_integer, ratio_is_integer; /* written so in an --l1-manager object: the digest keeps it */
  GArray *quotas;                                  /* of StorageQuota */
} StorageConfig;

typedef struct
{
  char *salt;
  guint64 bytes;
} StorageQuota;

StorageConfig *storage_config_new (const StorageFlags *flags, const LmtOptions *options, LmtRegistry *registry,
                                   const LmtHeader *header, LmtWarnings *warnings, GError **error);
void storage_config_free (StorageConfig *config);

/* Canonical JSON of cli.md 3.8. @shm_name: what stands there; NULL: the configuration's own. @compat: 0, 56: the shape of 0.5.6;
 * 57: of 0.5.7; 44, 47, 50, 52: of the first release that wrote it (trace-format.md 6). `use_lazy` is false: nothing is pinned.
 * (transfer full) */
char *storage_config_to_json (const StorageConfig *config, const char *shm_name, guint compat);
char *storage_config_digest (const char *json); /* SHA-256, lower-case hex (transfer full) */

/**
 * StorageDigest: the row "Config digest" and the field by field comparison (cli.md 3.8).
 * @row: (nullable): `match (X)`, `equal but for names (X)`, `MISMATCH (rec=X, run=Y)`
 *   NULL: the header has no digest
 * @diff: (element-type StorageDiff): empty with --compat, which compares digests alone
 * The shape compared is the recorded one's; `shm_name` is taken from the header with plain flags, adapters count by type.
 */
typedef struct
{
  char *path;
  char *recorded; /* JSON text; NULL: absent */
  char *replay;   /* the same */
} StorageDiff;
typedef struct
{
  char *row;
  GPtrArray *diff;
  gboolean mismatch;
} StorageDigest;
StorageDigest *storage_digest_new (const StorageConfig *config, const LmtHeader *header, guint compat);
void storage_digest_free (StorageDigest *digest);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (StorageConfig, storage_config_free)
G_DEFINE_AUTOPTR_CLEANUP_FUNC (StorageDigest, storage_digest_free)

/* LmtLevelOps.header_options: with --config-from-trace, the header's fields as texts of the options they stand for. */
gboolean storage_config_header_options (const LmtHeader *header, LmtOptions *options, GError **error);

G_END_DECLS
