// SPDX-License-Identifier: Apache-2.0
/* Options of `lmtrace coordinator`: the reference's, with its defaults but for --host, then ours. */
#include "coord.h"

#define ROW(kind, key, member, flags, def, range, arg, help, group)                                                              \
  LMT_OPTION_FULL (kind, key, CoordConfig, member, flags, def, range, arg, help, group)
#define LISTENING "Listening"
#define STREAMS "Servers and streams"
#define EVICTION "Tokens and eviction"
#define FILES "Files"
#define SAFETY "Access"
#define LIMITS "Limits"
#define KAFKA "Kafka"
#define OTHERS "Others"

const LmtOption coord_options[] = {
  ROW (STRING, "host", host, 0, "127.0.0.1", "nonempty", "ADDRESS", "Listen on this address or name", LISTENING),
  ROW (UINT, "port", port, 0, "9300", "0..65535", "PORT", "Listen on this port; 0 takes any free one", LISTENING),
  ROW (STRING, "unix", unix_path, 0, NULL, "nonempty", "PATH",
       "Listen on a Unix socket; on TCP, too, only if --host or --port is given", LISTENING),
  ROW (DURATION, "timeout-keep-alive", timeout_keep_alive_ns, 0, "10s", "(0..", "DUR",
       "Close connections without a request for DUR", LISTENING),
  ROW (INT, "ready-fd", ready_fd, 0, "-1", "-1..1000000", "N",
       "Write the address and a newline to file descriptor N once it can be connected to, then close it", LISTENING),
  ROW (DURATION, "exit-after-idle", exit_after_idle_ns, 0, "0", "0..", "DUR",
       "End, with 0, after DUR without a request; 0: never", LISTENING),

  ROW (CHOICE, "compat", compat_word, 0, "lmcache-0.5.7", "lmcache-0.5.6|lmcache-0.5.7|0.5.6|0.5.7|lmcache|strict", "RELEASE",
       "Follow the rules of this release; strict: those of 0.5.7, and directory and usage always agree", STREAMS),
  ROW (DURATION, "instance-timeout", instance_timeout_ns, 0, "30s", "(0..", "DUR",
       "Take a server without a heartbeat for DUR for gone", STREAMS),
  ROW (DURATION, "health-check-interval", health_check_interval_ns, 0, "10s", "0..", "DUR",
       "Look for such servers every DUR; 0: never", STREAMS),
  ROW (CHOICE, "event-transport", event_transport, 0, "http", "http|kafka", "NAME",
       "Take batches from POST /events or from Kafka", STREAMS),

  ROW (UINT, "chunk-size", chunk_size, 0, "256", "1..1048576", "TOKENS",
       "Tokens of a chunk; since 0.5.7 the least that servers may bind", EVICTION),
  ROW (CHOICE, "hash-algorithm", hash_algorithm, 0, "blake3", "blake3", "NAME", "Hash of token chunks", EVICTION),
  ROW (BOOL, "enable-blend-lookup", enable_blend_lookup, 0, NULL, NULL, NULL,
       "Index chunks by content, for POST /directory/blend-lookup", EVICTION),
  ROW (UINT, "blend-probe-stride", blend_probe_stride, 0, "1", "1..1048576", "TOKENS",
       "Look at every so many positions of a query", EVICTION),
  ROW (DURATION, "eviction-check-interval", eviction_check_interval_ns, 0, "0", "0..", "DUR",
       "Compare L2 usage with quotas every DUR and have servers delete; 0: never (LMCache: 5s)", EVICTION),
  ROW (DOUBLE, "eviction-ratio", eviction_ratio, 0, "0.2", "0..1", "RATIO", "Part of a salt's keys that one pass evicts",
       EVICTION),
  ROW (DOUBLE, "trigger-watermark", trigger_watermark, 0, "1.0", "(0..", "RATIO",
       "Part of a quota from which on keys are evicted", EVICTION),

  ROW (STRING, "checkpoint-path", checkpoint_path, 0, NULL, NULL, "PATH",
       "Keep streams and views in this file, and start from it", FILES),
  ROW (DURATION, "checkpoint-interval", checkpoint_interval_ns, 0, "60s", "0..", "DUR", "Write it every DUR; 0: only at the end",
       FILES),
  ROW (STRING, "metadata-path", metadata_path, 0, NULL, NULL, "PATH", "Keep pins and quotas in this file", FILES),

  ROW (STRING, "token-file", token_file, 0, NULL, "nonempty", "FILE",
       "Ask for `Authorization: Bearer` with the first line of FILE; /healthz stays free", SAFETY),
  ROW (STRING, "tls-cert", tls_cert, 0, NULL, "nonempty", "FILE", "Speak TLS with this certificate chain (PEM)", SAFETY),
  ROW (STRING, "tls-key", tls_key, 0, NULL, "nonempty", "FILE", "Its private key (PEM)", SAFETY),
  ROW (BOOL, "insecure", insecure, 0, NULL, NULL, NULL, "Listen on an address that others can reach, with neither token nor TLS",
       SAFETY),

  ROW (SIZE, "max-body", max_body_bytes, 0, "64MiB", "1KiB..1GiB", "SIZE", "Largest request body", LIMITS),
  ROW (COUNT, "max-connections", max_connections, 0, "1024", "1..1000000", "N", "Connections at a time; more are closed at once",
       LIMITS),
  ROW (COUNT, "max-keys", max_keys, 0, "10M", "0..", "N", "Keys held; above it batches are answered 507; 0: no limit", LIMITS),
  ROW (COUNT, "max-instances", max_instances, 0, "10k", "0..", "N", "Servers known; above it 507; 0: no limit", LIMITS),
  ROW (DURATION, "request-timeout", request_timeout_ns, 0, "30s", "(0..", "DUR",
       "Close connections whose request isn't complete after DUR", LIMITS),
  ROW (UINT, "max-nesting", max_nesting, 0, "32", "4..128", "N", "Nesting of JSON bodies", LIMITS),
  ROW (COUNT, "max-batch-entries", max_batch_entries, 0, "1M", "1..", "N", "Entries of a batch", LIMITS),
  ROW (COUNT, "max-entry-tokens", max_entry_tokens, 0, "1M", "1..", "N", "Token ids of an entry", LIMITS),
  ROW (SIZE, "max-string", max_string_bytes, 0, "1MiB", "1KiB..1GiB", "SIZE", "Length of a string", LIMITS),

  ROW (STRING, "kafka-bootstrap-servers", kafka_bootstrap_servers, 0, NULL, NULL, "LIST", "Brokers, with commas between them",
       KAFKA),
  ROW (STRING, "kafka-topic", kafka_topic, 0, "lmcache-cache-events", "nonempty", "NAME", "Topic of the batches", KAFKA),
  ROW (STRING, "kafka-group-id", kafka_group_id, 0, "lmcache-coordinator", "nonempty", "NAME",
       "Group the brokers are told; nothing is committed: positions are in the checkpoint", KAFKA),
  ROW (STRINGS, "kafka-config", kafka_config, 0, NULL, "nonempty", "NAME=VALUE",
       "Set another property of librdkafka (security.protocol, sasl.username)", KAFKA),

  ROW (BOOL, "disable-metrics", disable_metrics, 0, NULL, NULL, NULL, "Answer GET /metrics with 404", OTHERS),
  ROW (STRING, "otlp-endpoint", otlp_endpoint, LMT_OPTION_NO_EFFECT, NULL, NULL, "URL",
       "Metrics are asked for here, never pushed", OTHERS),
  ROW (STRING, "extra-config", extra_config, LMT_OPTION_NO_EFFECT, NULL, NULL, "JSON", "Settings of LMCache's own extensions",
       OTHERS),
  LMT_OPTION_END,
};
