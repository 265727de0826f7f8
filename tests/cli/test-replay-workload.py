#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Flags that make another workload of a trace: --copies, --key-offset, --prepare, --bypass-l1, --close-pairs."""
import json
import os
import sys

import lib
from lib import SM, Tests, contains, equal, finish, finish_read, header, lmtrace, prefetch, record, refused, reserve, skey, true, write

test = Tests()
L1 = ["--l1-size-gb", "0.0625", "--eviction-policy", "LRU", "--speed", "0"]


def trace(folder, *parts, name="a.lct"):
    return write(os.path.join(folder, name), header("storage"), *parts)


def replay(folder, *args, **more):
    return lmtrace("replay", *args, "--output-dir", os.path.join(folder, "out"), **more)


def metrics(folder, *args, code=0):
    run = replay(folder, *args, "--format", "json")
    equal(run.code, code, repr(run))
    return run.json["metrics"]


def enter(t, *names):
    return record(t, SM + "read_prefetched_results.__enter__", {"keys": [skey(n) for n in names]})


def leave(t, *names):
    return record(t, SM + "read_prefetched_results.__exit__", {"keys": [skey(n) for n in names]})


def objects(folder):
    return sorted(name for _, _, names in os.walk(folder) for name in names if name.endswith(".data"))


def fs(folder):
    os.makedirs(os.path.join(folder, "kv"), exist_ok=True)
    return ["--l2-adapter", json.dumps({"type": "fs", "base_path": os.path.join(folder, "kv")})]


STORED = (reserve(0, "A", "B"), finish(0.1, "A", "B"), prefetch(0.2, "A", "X"), enter(0.3, "A"), leave(0.4, "A"), finish_read(0.5, "A"))


@test
def tenants_have_keys_of_their_own(folder):
    file = trace(folder, *STORED)
    one = metrics(folder, file, *L1, *fs(folder))
    names = objects(folder)
    jsonl = os.path.join(folder, "r.jsonl")
    three = metrics(folder, file, *L1, *fs(folder), "--copies", "3", "--key-offset", "--jsonl-out", jsonl)
    equal(three["overall"]["n"], 3 * one["overall"]["n"])
    equal(three["pacing"]["copies"], 3)
    for figure in ("hit_cells", "l1_hits", "reserved", "cells_asked"):
        if figure in one["tiers"]:
            equal(three["tiers"][figure], 3 * one["tiers"][figure], figure)
    equal(three["misses"]["first_touch"], 3)
    equal([json.loads(line)["n"] for line in open(jsonl)], list(range(1, 19)))
    later = objects(folder)
    equal([len(names), len(later)], [2, 6])
    true(set(names) < set(later), "tenant 0 has the recorded keys")
    # the same tenants again are the same keys, other tenants others
    metrics(folder, file, *L1, *fs(folder), "--copies", "2", "--key-offset=1")
    equal(objects(folder), later)
    metrics(folder, file, *L1, *fs(folder), "--key-offset=3")
    equal(len(objects(folder)), 8)


@test
def short_hashes_are_told_apart(folder):
    """A hash of a byte or none still gives each tenant a key of its own."""
    parts = []
    for i, raw in enumerate((b"", b"\x01", b"12345678", b"123456789")):
        key = skey("A")
        key["v"]["chunk_hash"] = raw
        parts += [record(i, SM + "reserve_write", {"keys": [key], "layout_desc": lib.LAYOUT}),
                  record(i + 0.5, SM + "finish_write", {"keys": [key]})]
    file = trace(folder, *parts)
    found = metrics(folder, file, *L1, *fs(folder), "--copies", "5", "--key-offset=7")
    equal(len(objects(folder)), 20, repr(objects(folder)))
    equal(found["overall"]["n"], 40)


@test
def copies_share_keys_without_an_offset(folder):
    found = metrics(folder, trace(folder, *STORED), *L1, *fs(folder), "--copies", "3")
    equal(found["overall"]["n"], 18)
    equal(len(objects(folder)), 2)
    equal(found["misses"]["first_touch"] + found["misses"]["never_stored"], 3, repr(found["misses"]))


@test
def a_limit_counts_records_and_rounds_number_on(folder):
    jsonl = os.path.join(folder, "r.jsonl")
    found = metrics(folder, trace(folder, *STORED), *L1, "--copies", "2", "--key-offset", "--limit", "2", "--jsonl-out", jsonl)
    equal(found["overall"]["n"], 4)
    found = metrics(folder, trace(folder, *STORED), *L1, "--copies", "2", "--key-offset", "--loop", "2", "--jsonl-out", jsonl)
    equal([json.loads(line)["n"] for line in open(jsonl)], list(range(1, 25)))


EARLIER = (prefetch(0, "old", "new", "lost"), enter(0.1, "old"), leave(0.2, "old"), finish_read(0.3, "old"), reserve(0.4, "new"),
           finish(0.5, "new"), prefetch(0.6, "new"), prefetch(0.7, "late"), reserve(0.8, "old"))


@test
def what_the_trace_expects_is_stored_first(folder):
    """`old` is read before it is written, `lost` and `late` are asked for and never written; `new` was a miss."""
    file = trace(folder, *EARLIER)
    only = metrics(folder, file, *L1, *fs(folder), "--prepare-only")
    equal([only["prepare"][key] for key in ("expected_objects", "expected_bytes", "stored_objects", "present_objects")],
          [3, 3 * lib.OBJECT_BYTES, 3, 0])
    equal(only["overall"]["n"], 0)
    equal(len(objects(folder)), 3)
    # a second time they are there; their bytes are those a replay would have written
    found = metrics(folder, file, *L1, *fs(folder), "--prepare", "--verify-data")
    equal([found["prepare"][key] for key in ("stored_objects", "present_objects")], [0, 3])
    equal(found["overall"]["mismatch"], 0)
    true(found["tiers"]["l2_hits"] >= 2, repr(found["tiers"]))
    without = metrics(folder, file, *L1, "--l2", "dram")
    equal(without["tiers"]["l2_hits"], 0)
    equal(metrics(folder, file, *L1, "--l2", "dram", "--prepare")["tiers"]["l2_hits"], found["tiers"]["l2_hits"])


@test
def prepare_follows_selection_limit_and_tenants(folder):
    file = trace(folder, *EARLIER)
    expected = lambda *args: metrics(folder, file, *L1, "--l2", "dram", "--prepare-only", *args)["prepare"]["expected_objects"]
    equal(expected("--records", "7.."), 2)  # new, late: the records that wrote `new` are left out; `old` is written there
    equal(expected("--limit", "1"), 3)
    equal(expected("--copies", "4", "--key-offset"), 12)
    equal(expected("--copies", "4"), 3)
    equal(metrics(folder, file, *L1, "--l2", "dram", "--prepare", "--dry-run")["prepare"]["stored_objects"], 0)


@test
def prepare_in_real_time_and_several_adapters(folder):
    file = trace(folder, *EARLIER)
    found = metrics(folder, file, *L1, "--speed", "1", "--l2", "dram", "--l2", "dram:latency_us=1000", "--prepare")
    equal(found["prepare"]["stored_objects"], 6)
    true(found["tiers"]["l2_hits"] >= 2, repr(found["tiers"]))


@test
def prepare_tells_what_it_could_not_store(folder):
    file = trace(folder, *EARLIER)
    run = replay(folder, file, *L1, "--l2", "dram:max_size_gb=0.0001", "--prepare", "--format", "json")
    equal(run.code, 1, repr(run))
    contains(run.errors, "--prepare: L2 0 (dram)")
    equal(run.json["metrics"]["prepare"]["failed_objects"], 2)


@test
def prepare_needs_a_file_and_an_adapter(folder):
    file = trace(folder, *EARLIER)
    before = sorted(os.listdir(folder))
    for flag in ("--prepare", "--prepare-only"):
        refused(replay(folder, file, *L1, flag))
        run = lmtrace("replay", "-", *L1, "--l2", "dram", flag, cwd=folder, stdin=open(file, "rb").read())
        refused(run)
        contains(run.errors, flag + ": expected a file that can be read twice, found a pipe")
    equal(sorted(os.listdir(folder)), before)


@test
def packed_files_can_be_prepared(folder):
    import gzip
    file = write(os.path.join(folder, "a.lct.gz"), gzip.compress(b"".join([header("storage"), *EARLIER])))
    equal(metrics(folder, file, *L1, "--l2", "dram", "--prepare")["prepare"]["stored_objects"], 3)


@test
def nothing_stays_in_l1(folder):
    file = trace(folder, *STORED, prefetch(1, "A", "B"), finish_read(1.1, "A", "B"))
    found = metrics(folder, file, *L1, "--l2", "dram", "--bypass-l1")
    equal([found["tiers"][key] for key in ("l1_hits", "l2_hits")], [0, 3], repr(found["tiers"]))
    equal(metrics(folder, file, *L1, "--l2", "dram")["tiers"]["l1_hits"], 3)
    state = os.path.join(folder, "state.txt")
    metrics(folder, file, *L1, "--l2", "dram", "--bypass-l1", "--state-out", state)
    true("l1_used_bytes 0" in open(state).read() or '"l1_used_bytes": 0' in open(state).read(), open(state).read())
    for more in ([], ["--l2", "dram", "--l2-store-policy", "default"], ["--l2", "dram", "--l2-prefetch-policy", "retain"]):
        run = replay(folder, file, *L1, "--bypass-l1", *more)
        refused(run)
        contains(run.errors, "--bypass-l1: expected ")


@test
def pairs_are_closed_and_counted(folder):
    """Two reservations, one read and one prefetch's lock are open at the end."""
    file = trace(folder, reserve(0, "A", "B"), finish(0.1, "A", "B"), prefetch(0.2, "A", "B"), enter(0.3, "A"), reserve(0.4, "C", "D"))
    left = metrics(folder, file, *L1, "--l2", "dram")
    equal([left["status"][key] for key in ("leaked_reservations", "leaked_read_locks", "context_left_open")], [2, 2, 1],
          repr(left["status"]))
    run = replay(folder, file, *L1, "--l2", "dram", "--close-pairs", "--format", "json")
    equal(run.code, 0)
    status = run.json["metrics"]["status"]
    equal([status[key] for key in ("closed_reservations", "closed_contexts", "closed_locks", "pairs_closed")], [2, 1, 2, 5],
          repr(status))
    for key in ("leaked_reservations", "leaked_read_locks", "context_left_open", "finish_read_not_locked"):
        true(key not in status, key)
    true("left" not in run.errors, run.errors)
    # what is finished reaches L2 as any other object
    equal(run.json["metrics"]["l2"][0]["store"]["ops"], 4)


@test
def pairs_are_closed_in_each_round(folder):
    """A selection that cuts a write off would find its reservations still there in the next round."""
    file = trace(folder, reserve(0, "A"), finish(0.1, "A"), reserve(0.2, "B"), finish(0.3, "B"))
    args = [file, *L1, "--records", "1..3", "--loop", "3"]
    equal(metrics(folder, *args)["status"]["leaked_reservations"], 1)
    found = metrics(folder, *args, "--close-pairs")
    equal(found["status"]["pairs_closed"], 1)
    true("leaked_reservations" not in found["status"], repr(found["status"]))


@test
def no_output_is_an_input(folder):
    """Another name of the trace, too: the trace stays as it is, nothing is run."""
    file = trace(folder, *STORED)
    content = open(file, "rb").read()
    other = os.path.join(folder, "other.lct")
    os.symlink(file, other)
    for args in (["--trace-level", "storage", "--trace-output", other], ["--state-out", other], ["--jsonl-out", other], ["--output", other]):
        run = replay(folder, file, *L1, *args)
        refused(run)
        contains(run.errors, "expected a file of its own, found the trace")
        equal(open(file, "rb").read(), content)
    for args in (["--output", other], ["--output", file, "--stats"]):
        run = lmtrace("info", file, *args)
        refused(run)
        contains(run.errors, "--output: ")
        equal(open(file, "rb").read(), content)


if __name__ == "__main__":
    sys.exit(test.main())
