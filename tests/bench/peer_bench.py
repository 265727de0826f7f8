# SPDX-License-Identifier: Apache-2.0
"""Runs inside LMCache's environment and prints one JSON object: start-up apart from work, in one process each.

peer_bench.py info FILE | replay FILE L1_GB | pace FILE L1_GB
"""
import argparse
import json
import os
import sys
import time

os.environ.setdefault("LMCACHE_TRACK_USAGE", "false")
os.environ.setdefault("LMCACHE_LOG_LEVEL", "ERROR")


def info(path):
    from lmcache.v1.mp_observability.trace.reader import TraceReader
    start = time.monotonic()
    counts = {}
    with TraceReader(path) as reader:
        for r in reader.records():
            counts[r.qualname] = counts.get(r.qualname, 0) + 1
    return {"records": sum(counts.values()), "seconds": time.monotonic() - start}


def replay(path, l1_gb):
    from lmcache.cli.commands.trace._driver import StorageReplayDriver
    from lmcache.v1.distributed.config import add_storage_manager_args, parse_args_to_config
    from lmcache.v1.mp_observability.config import ObservabilityConfig
    parser = argparse.ArgumentParser()
    add_storage_manager_args(parser)
    config = parse_args_to_config(parser.parse_args(
        ["--l1-size-gb", l1_gb, "--eviction-policy", "LRU", "--no-l1-use-lazy"]))
    obs = ObservabilityConfig(enabled=True, metrics_enabled=False, logging_enabled=False, tracing_enabled=False)
    ends = []
    with StorageReplayDriver(config, path, obs_config=obs) as driver:
        start = time.monotonic()
        result = driver.run(on_record=lambda q, latency, failed: ends.append((time.monotonic(), latency)))
        seconds = time.monotonic() - start
    return {"records": result.records_replayed, "failed": result.records_failed, "seconds": seconds, "start": start, "ends": ends}


def pace(path, l1_gb):
    from lmcache.v1.mp_observability.trace.reader import TraceReader
    with TraceReader(path) as reader:
        due = [r.t_mono for r in reader.records()]
    result = replay(path, l1_gb)
    lags = sorted(end - latency - result["start"] - t for (end, latency), t in zip(result["ends"], due))
    return {"records": len(lags), "lag_p99_us": lags[-(-len(lags) * 99 // 100) - 1] * 1e6}


if __name__ == "__main__":
    what, rest = sys.argv[1], sys.argv[2:]
    answer = {"info": info, "replay": replay, "pace": pace}[what](*rest)
    answer.pop("ends", None)
    answer.pop("start", None)
    print(json.dumps(answer))
