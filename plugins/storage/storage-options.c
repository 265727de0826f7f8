// SPDX-License-Identifier: Apache-2.0
#include "storage-config.h"

/* Headings of --help; those of sections 5 and 6 are the reference's. */
#define G_L1 "L1 Memory Manager"
#define G_GDS "GDS L1 tier"
#define G_TTL "L1 Manager TTL"
#define G_EVICTION "Eviction Policy"
#define G_L2_POLICY "L2 Policies"
#define G_L2 "L2 Adapters"
#define G_REPLAY "Storage replay"
#define G_OBSERVE "Observability"
#define G_HASHES "Lookup Hash Logging"
#define G_GC "GC Monitoring"
#define G_EXTRA "Extra Logging"
#define G_TRACE "Trace Recording"

#define ROW(kind, name, member, flags, def, range, arg, help, group)                                                             \
  LMT_OPTION_FULL (kind, name, StorageFlags, member, flags, def, range, arg, help, group)
#define SWITCH(name, member, flags, def, help, group) ROW (BOOL, name, member, flags, def, NULL, NULL, help, group)

/* Defaults are the reference's: golden/cli/flags-0.5.6.json. Ranges that need a reason are storage_config_new()'s business. */
const LmtOption storage_options[] = {
  /* cli.md 5 */
  ROW (STRINGS, "l1-manager", l1_manager, 0, NULL, NULL, "JSON",
       "Describe L1 by one object of type DRAM instead of the flags below", G_L1),
  ROW (DOUBLE, "l1-size-gb", l1_size_gb, 0, NULL, "(0..", "GIB", "Set the size of L1 in GiB; required without --l1-manager",
       G_L1),
  ROW (STRING, "l1-size", l1_size, 0, NULL, "nonempty", "SIZE", "Set the size of L1 with a unit, as in 64GiB", G_L1),
  SWITCH ("l1-use-lazy", l1_use_lazy, LMT_OPTION_NEGATABLE, "true", "Touch L1's pages as they are used; off: all at start", G_L1),
  ROW (INT, "l1-init-size-gb", l1_init_size_gb, 0, "20", "1..", "GIB", "Touch this many GiB of L1 at start", G_L1),
  ROW (SIZE, "l1-align-bytes", l1_align_bytes, 0, "4096", "1..", "SIZE", "Align objects in L1 to this many bytes, a power of two",
       G_L1),
  SWITCH ("l1-use-hugepages", l1_use_hugepages, LMT_OPTION_NEGATABLE, "false", "Back L1 by reserved 2 MiB pages", G_L1),
  SWITCH ("l1-mlock", l1_mlock, 0, NULL, "Lock L1's pages in memory", G_L1),
  ROW (STRING, "l1-devdax-path", l1_devdax_path, 0, NULL, NULL, "PATH", "Refused: L1 on a device-DAX node is not supported",
       G_L1),
  ROW (DOUBLE, "l1-devdax-offset-gb", l1_devdax_offset_gb, LMT_OPTION_NO_EFFECT, "0.0", NULL, "GIB",
       "Accepted for LMCache's sake, no effect", G_L1),
  ROW (STRING, "shm-name", shm_name, LMT_OPTION_NO_EFFECT, "", NULL, "NAME", "Accepted for LMCache's sake, no effect", G_L1),
  ROW (STRING, "gds-l1-path", gds_l1_path, 0, NULL, NULL, "PATH", "Refused: GPU direct storage needs a GPU", G_GDS),
  SWITCH ("gds-l1-use-direct-io", gds_l1_use_direct_io, LMT_OPTION_NEGATABLE | LMT_OPTION_NO_EFFECT, "true",
          "Accepted for LMCache's sake, no effect", G_GDS),
  ROW (CHOICE, "gds-l1-backend", gds_l1_backend, LMT_OPTION_NO_EFFECT, "auto", "auto|cufile|hipfile|mufile|phx|ugds", "NAME",
       "Accepted for LMCache's sake, no effect", G_GDS),
  ROW (INT, "l1-write-ttl-seconds", l1_write_ttl_seconds, 0, "600", "1..4294967295", "S",
       "Let write locks expire after S seconds", G_TTL),
  ROW (INT, "l1-read-ttl-seconds", l1_read_ttl_seconds, 0, "300", "1..4294967295", "S", "Let read locks expire after S seconds",
       G_TTL),
  ROW (CHOICE, "eviction-policy", eviction_policy, 0, NULL, "LRU|ARC|IsolatedLRU|noop", "POLICY",
       "Choose what L1 evicts; required without --l1-manager", G_EVICTION),
  ROW (DOUBLE, "eviction-trigger-watermark", eviction_trigger_watermark, 0, "0.8", "0..1", "F",
       "Evict when this fraction of L1 is used", G_EVICTION),
  ROW (DOUBLE, "eviction-ratio", eviction_ratio, 0, "0.2", "0..1", "F", "Evict this fraction of the keys at a time", G_EVICTION),
  ROW (CHOICE, "l2-store-policy", l2_store_policy, 0, "default", "default|skip_l1", "POLICY",
       "Keep objects in L1 once they are in L2 (default), or drop them (skip_l1)", G_L2_POLICY),
  ROW (CHOICE, "l2-prefetch-policy", l2_prefetch_policy, 0, "default", "default|retain", "POLICY",
       "Drop prefetched objects after their last read (default), or keep them (retain)", G_L2_POLICY),
  ROW (INT, "l2-prefetch-max-in-flight", l2_prefetch_max_in_flight, 0, "8", "1..4294967295", "N",
       "Serve at most N prefetches from L2 at a time", G_L2_POLICY),
  ROW (DOUBLE, "l2-prefetch-inflight-watermark", l2_prefetch_inflight_watermark, 0, "0.5", "(0..1]", "F",
       "If given: start prefetches only while staged bytes stay below this fraction of L1", G_L2_POLICY),
  ROW (INT, "periodic-notifier-interval-ms", periodic_notifier_interval_ms, LMT_OPTION_NO_EFFECT, "5", NULL, "MS",
       "Accepted for LMCache's sake, no effect", G_L2_POLICY),
  ROW (STRINGS, "l2-adapter", l2_adapter, 0, NULL, NULL, "JSON", "Add an L2 adapter: an object with its type and keys", G_L2),
  ROW (STRINGS, "l2", l2, 0, NULL, NULL, "NAME[:K=V,...]", "Add an L2 adapter in short form, as in fs:base_path=/data", G_L2),
  SWITCH ("config-from-trace", config_from_trace, 0, NULL, "Take L1 and policies from the trace's header; flags given win", G_L1),

  /* cli.md 3.1 */
  SWITCH ("settle", settle, 0, NULL, "Finish each record's background work before the next one, on recorded time", G_REPLAY),
  SWITCH ("no-settle", no_settle, 0, NULL, "Run on real time, also with --speed 0", G_REPLAY),
  ROW (STRING, "state-out", state_out, 0, NULL, "nonempty", "PATH", "Write what the manager holds at the end as JSON", G_REPLAY),
  ROW (STRINGS, "l2-quota", l2_quota, 0, NULL, NULL, "SALT=SIZE", "Limit the bytes of one salt in each L2 with IsolatedLRU",
       G_REPLAY),
  ROW (CHOICE, "payload", payload, 0, "pattern", "pattern|zero", "WHAT",
       "Fill reserved buffers with the key's pattern or with zeros", G_REPLAY),
  SWITCH ("verify-data", verify_data, 0, NULL, "Compare every loaded byte with the pattern", G_REPLAY),
  ROW (FRACTION, "min-hit-rate", min_hit_rate, 0, "0", "0..1", "P", "Fail if fewer of the cells asked for were hits", G_REPLAY),
  SWITCH ("bypass-l1", bypass_l1, 0, NULL,
          "Keep nothing in L1: as --l2-store-policy skip_l1 and --l2-prefetch-policy default, and no prefetch looks in L1",
          G_REPLAY),
  SWITCH ("prepare", prepare, 0, NULL,
          "First store into every adapter what the trace reads before it reserves it, or asks for and never reserves; reads FILE "
          "twice",
          G_REPLAY),
  SWITCH ("prepare-only", prepare_only, 0, NULL, "Store what --prepare would, replay nothing", G_REPLAY),

  /* cli.md 6 */
  SWITCH ("disable-observability", disable_observability, 0, NULL, "Write no debug log per event and no metrics", G_OBSERVE),
  SWITCH ("disable-metrics", disable_metrics, 0, NULL, "Serve no metrics", G_OBSERVE),
  SWITCH ("disable-grpc-metrics", disable_grpc_metrics, LMT_OPTION_NO_EFFECT | LMT_OPTION_SILENT, NULL,
          "Accepted for LMCache's sake, no effect", G_OBSERVE),
  SWITCH ("disable-logging", disable_logging, 0, NULL, "Write no debug log per event", G_OBSERVE),
  SWITCH ("enable-tracing", enable_tracing, LMT_OPTION_NO_EFFECT, NULL, "Accepted for LMCache's sake, no effect", G_OBSERVE),
  SWITCH ("enable-token-trace", enable_token_trace, LMT_OPTION_NO_EFFECT, NULL, "Accepted for LMCache's sake, no effect",
          G_OBSERVE),
  ROW (STRING, "otlp-endpoint", otlp_endpoint, LMT_OPTION_NO_EFFECT, NULL, NULL, "URL", "Accepted for LMCache's sake, no effect",
       G_OBSERVE),
  ROW (INT, "event-bus-queue-size", event_bus_queue_size, LMT_OPTION_NO_EFFECT, "10000", NULL, "N",
       "Accepted for LMCache's sake, no effect", G_OBSERVE),
  ROW (INT, "prometheus-port", prometheus_port, 0, "9090", "1..65535", "PORT",
       "If given: serve /metrics on 127.0.0.1:PORT while running", G_OBSERVE),
  ROW (DOUBLE, "metrics-sample-rate", metrics_sample_rate, LMT_OPTION_NO_EFFECT, "0.01", "(0..1]", "F",
       "Accepted for LMCache's sake, no effect", G_OBSERVE),
  ROW (STRING, "lookup-hash-log-dir", lookup_hash_log_dir, 0, "", NULL, "DIR",
       "Write the hashes of each prefetch as JSONL into DIR", G_HASHES),
  ROW (INT, "lookup-hash-log-rotation-interval", lookup_hash_log_rotation_interval, 0, "21600", "1..", "S",
       "Begin a new hash log every S seconds", G_HASHES),
  ROW (INT, "lookup-hash-log-rotation-max-size", lookup_hash_log_rotation_max_size, 0, "104857600", "1..", "BYTES",
       "Begin a new hash log after BYTES bytes", G_HASHES),
  ROW (INT, "lookup-hash-log-max-files", lookup_hash_log_max_files, 0, "100", "1..", "N", "Keep at most N hash logs", G_HASHES),
  SWITCH ("enable-gc-monitor", enable_gc_monitor, LMT_OPTION_NO_EFFECT, NULL, "Accepted for LMCache's sake, no effect", G_GC),
  ROW (DOUBLE, "gc-monitor-min-pause-ms", gc_monitor_min_pause_ms, LMT_OPTION_NO_EFFECT, "1.0", NULL, "MS",
       "Accepted for LMCache's sake, no effect", G_GC),
  ROW (INT, "gc-monitor-top-objects", gc_monitor_top_objects, LMT_OPTION_NO_EFFECT, "0", NULL, "N",
       "Accepted for LMCache's sake, no effect", G_GC),
  SWITCH ("enable-extra-logging", enable_extra_logging, 0, NULL, "Log L1's usage and throughput while running", G_EXTRA),
  ROW (DOUBLE, "extra-logging-interval", extra_logging_interval, 0, "10.0", "(0..", "S", "Log them every S seconds", G_EXTRA),
  ROW (CHOICE, "trace-level", trace_level, 0, NULL, "storage|events", "LEVEL",
       "Record the replay itself: the manager's calls, or what it would tell a coordinator", G_TRACE),
  ROW (STRING, "trace-output", trace_output, 0, NULL, "nonempty", "PATH", "Record the replay into PATH", G_TRACE),
  ROW (INT, "trace-schema", trace_schema, 0, "1", "1..2", "N", "Write the shapes of LMCache 0.5.6 (1) or of 0.5.7rc3 (2)",
       G_TRACE),
  SWITCH ("trace-block", trace_block, 0, NULL, "Let calls wait where they would be dropped: a full buffer", G_TRACE),
  ROW (SIZE, "trace-buffer", trace_buffer, 0, NULL, "65536..1073741824", "SIZE",
       "Buffer of each thread (default: 1MiB; level events 64MiB)", G_TRACE),
  ROW (SIZE, "trace-rotate", trace_rotate, 0, NULL, "4096..", "SIZE", "Go on in PATH.1, PATH.2, … after SIZE bytes each",
       G_TRACE),
  ROW (STRING, "trace-instance", trace_instance, 0, "lmtrace", "nonempty", "ID", "Level events: name this instance ID", G_TRACE),
  ROW (STRING, "trace-http", trace_http, 0, NULL, "nonempty", "HOST:PORT",
       "Level events: address in the start mark (default: none, port 0)", G_TRACE),
  LMT_OPTION_END
};
