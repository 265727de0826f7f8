/* SPDX-License-Identifier: Apache-2.0 */
#include "cli-replay.h"

#define GROUP_REPLAY "Replay"
#define GROUP_INPUT "Input"
#define GROUP_OUTPUT "Output"

#define ROW(kind, key, member, flags, def, range, arg, help, group)                                                              \
  LMT_OPTION_FULL (kind, key, ReplayConfig, member, flags, def, range, arg, help, group)

/* One option a line reads as the table it is. */
/* clang-format off */
const LmtOption replay_options[]
    = { ROW (DOUBLE, "speed", speed, 0, "1", "0..", "N", "Replay N times as fast as recorded; 0: as fast as dependencies allow",
             GROUP_REPLAY),
        ROW (DURATION, "max-gap", max_gap_ns, 0, NULL, "0..", "DUR", "Cut longer idle times to DUR", GROUP_REPLAY),
        ROW (COUNT, "loop", loop, 0, "1", "1..", "N", "Replay the selection N times; times go on from the last", GROUP_REPLAY),
        ROW (COUNT, "limit", limit, 0, NULL, "1..", "N", "Stop after N records", GROUP_REPLAY),
        ROW (COUNT, "copies", copies, 0, "1", "1..65536", "N",
             "Make each call N times, one after another at its recorded time; all with the same keys but for --key-offset",
             GROUP_REPLAY),
        ROW (OPT_STRING, "key-offset", key_offset, 0, NULL, NULL, "N",
             "Give each copy keys of its own: those of tenants N, N+1 and so on, from 0, which has the recorded keys", GROUP_REPLAY),
        ROW (BOOL, "close-pairs", close_pairs, 0, NULL, NULL, NULL,
             "End what the selection opened and did not close: writes, reads, locks of prefetches", GROUP_REPLAY),
        ROW (BOOL, "dry-run", dry_run, 0, NULL, NULL, NULL, "Decode and plan, touch nothing; no CSV is written", GROUP_REPLAY),
        ROW (DURATION, "drain-timeout", drain_timeout_ns, 0, "30s", "0..", "DUR",
             "Wait at most DUR for what is in flight at the end", GROUP_REPLAY),
        ROW (STRING, "max-errors", max_errors, 0, "0", "nonempty", "N[%]",
             "Let N records, or N% of them, fail or mismatch before exit 1; operations of L2 that fail count too", GROUP_REPLAY),
        ROW (DURATION, "max-lag", max_lag_ns, 0, NULL, "0..", "DUR", "Exit 1 if the p99 of the lag is above DUR", GROUP_REPLAY),
        ROW (UINT, "seed", seed, 0, "0", NULL, "N", "Seed of whatever a level draws", GROUP_REPLAY),
        ROW (STRINGS, "yes-destroy", yes_destroy, 0, NULL, "nonempty", "TARGET",
             "Allow data of TARGET to be destroyed", GROUP_REPLAY),

        ROW (BOOL, "merge", merge, 0, NULL, NULL, NULL, "Replay all FILEs as one, by wall time", GROUP_INPUT),
        ROW (BOOL, "resync", resync, 0, NULL, NULL, NULL, "After a damaged length go on at the next frame that decodes",
             GROUP_INPUT),
        ROW (BOOL, "follow", follow, 0, NULL, NULL, NULL, "Wait for more at the end of a growing file", GROUP_INPUT),
        ROW (DURATION, "follow-idle", follow_idle_ns, 0, NULL, "0..", "DUR", "With --follow: stop when nothing came for DUR",
             GROUP_INPUT),
        ROW (BOOL, "allow-unknown-schema", allow_unknown_schema, 0, NULL, NULL, NULL,
             "Replay a schema number this build doesn't know", GROUP_INPUT),

        ROW (BOOL, "verbose", verbose, 0, NULL, NULL, NULL, "Print one line per record", GROUP_OUTPUT),
        ROW (STRING, "jsonl-out", jsonl_out, 0, NULL, "nonempty", "PATH", "Write one JSON object per record to PATH; -: stdout",
             GROUP_OUTPUT),
        ROW (STRING, "output-dir", output_dir, 0, ".", "nonempty", "DIR", "Folder of trace_replay_ops.csv; made with its parents",
             GROUP_OUTPUT),
        ROW (BOOL, "no-csv", no_csv, 0, NULL, NULL, NULL, "Write no trace_replay_ops.csv", GROUP_OUTPUT),
        ROW (OPT_STRING, "json", json, 0, NULL, NULL, "PATH", "Write trace_replay_summary.json, or the same to PATH; -: stdout",
             GROUP_OUTPUT),
        ROW (DURATION, "interval", interval_ns, 0, NULL, "(0..", "DUR", "Tell the figures every DUR", GROUP_OUTPUT),
        ROW (STRING, "stats-out", stats_out, 0, NULL, "nonempty", "PATH", "Write the periodic figures as JSON objects to PATH",
             GROUP_OUTPUT),
        ROW (CHOICE, "compat", compat, 0, NULL, "lmcache|lmcache-0.5.6|lmcache-0.5.7", NULL,
             "Print and write exactly what LMCache would", GROUP_OUTPUT),
        ROW (BOOL, "print-config", print_config, 0, NULL, NULL, NULL, "Print the effective values with their origin and stop",
             GROUP_OUTPUT),
        LMT_OPTION_END };
/* clang-format on */
