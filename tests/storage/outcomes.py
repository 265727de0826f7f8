#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Settled runs of one trace come out equal: at any speed, however slow the adapters are, whatever their delays do (TAP).

What is compared is the whole state but for L2's byte totals, and the outcome digest. Different content has to give different digests.
"""
import json
import os
import shutil
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import conformance

TWO = [
    '{"type":"dram","latency_us":%d,"jitter":{"seed":%d,"share":1.0},"max_size_gb":0.01}',
    '{"type":"dram","latency_us":%d,"jitter":{"seed":%d,"share":0.5},"max_size_gb":0.01}',
]


def adapters(latencies, seed):
    words = []
    for template, latency in zip(TWO, latencies):
        words += ["--l2-adapter", template % (latency, seed)]
    return words


def cases():
    """(name, trace, flags of the manager, [more words of each run])"""
    at_any_speed = [["--speed", "0"], ["--speed", "1", "--settle"], ["--speed", "20", "--settle"], ["--speed", "0", "--loop", "1"]]
    slow = [["--speed", "0"] + adapters((0, 0), 1)]
    for seed in (1, 2, 3):
        slow.append(["--speed", "0"] + adapters((300, 20), seed))
        slow.append(["--speed", "20", "--settle"] + adapters((20, 300), seed))
    lru = ["--l1-size-gb", "0.000244140625", "--eviction-policy", "LRU"]
    yield "basic, L1 alone", "0.5.6/basic", lru, at_any_speed
    yield "mix, L1 alone", "0.5.6/mix", lru, at_any_speed
    yield "evict, passes", "0.5.6/evict", lru, [["--speed", "0"], ["--speed", "20", "--settle"]]
    yield "groups, two adapters", "0.5.6/groups", lru, slow
    yield "mix, two adapters", "0.5.6/mix", lru, slow
    yield "l2fs, two adapters, skip_l1", "0.5.6/l2fs", lru + ["--l2-store-policy", "skip_l1"], slow
    yield "l2fs of 0.5.5, two adapters, retain", "0.5.5/l2fs", lru + ["--l2-prefetch-policy", "retain"], slow
    evicting = []
    for latencies, seed in (((0, 0), 1), ((200, 10), 2), ((10, 200), 3)):
        words = adapters(latencies, seed)
        for i in (1, 3):
            words[i] = words[i].replace('"max_size_gb":0.01', '"max_size_gb":0.0001,"eviction":{"eviction_policy":"LRU"}')
        evicting.append(["--speed", "0"] + words)
    yield "evict, two adapters that evict", "0.5.6/evict", lru, evicting
    tight = ["--l1-size-gb", "0.0001220703125", "--eviction-policy", "ARC", "--l2-store-policy", "skip_l1"]
    yield "large, two adapters, skip_l1, ARC", "0.5.6/large", tight, [
        ["--speed", "0"] + adapters((0, 0), 1),
        ["--speed", "0"] + adapters((5, 1), 7),
    ]


def one_run(trace, flags, more):
    folder = tempfile.mkdtemp(prefix="lmt-outcome-")
    try:
        code, state, _, stderr = conformance.replay(os.path.join(conformance.DATA, trace + ".lct"), flags, folder, more)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return code, state, stderr


def compare(trace, flags, runs):
    first = None
    for more in runs:
        code, state, stderr = one_run(trace, flags, more)
        if code != 0 or state is None:
            return [f"{' '.join(more)}: exit {code}: {stderr.strip()}"], None
        if not state["settled"]:
            return [f"{' '.join(more)}: not settled"], None
        for adapter in state["l2"]:
            del adapter["used_bytes"]
        if first is None:
            first = state
        elif state != first:
            names = [name for name in state if state[name] != first.get(name)]
            return [f"{' '.join(more)}: differs from {' '.join(runs[0])} in {', '.join(names)}"], None
    return [], first["outcome_digest"]


def main():
    digests = {}
    all_cases = list(cases())
    failed = 0
    print("TAP version 13")
    print(f"1..{len(all_cases) + 1}", flush=True)
    for number, (name, trace, flags, runs) in enumerate(all_cases, 1):
        problems, digest = compare(trace, flags, runs)
        digests.setdefault(digest, []).append(name)
        failed += bool(problems)
        print(f"{'not ok' if problems else 'ok'} {number} - {name}: {len(runs)} runs")
        for problem in problems:
            print(f"# {problem}")
        sys.stdout.flush()
    shared = [names for digest, names in digests.items() if digest is not None and len(names) > 1]
    failed += bool(shared)
    print(f"{'not ok' if shared else 'ok'} {len(all_cases) + 1} - different runs have different digests")
    for names in shared:
        print(f"# equal: {', '.join(names)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
