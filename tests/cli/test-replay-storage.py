#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a person sees of a storage replay: waiting not hidden, misses explained, hit rates by formula, configuration and its origins."""
import json
import os
import sys

import lib
from lib import Tests, contains, equal, finish, finish_read, header, lmtrace, prefetch, refused, reserve, true, write

test = Tests()
L1 = ["--l1-size-gb", "0.0625", "--eviction-policy", "LRU"]


def trace(folder, *parts, name="a.lct", **more):
    return write(os.path.join(folder, name), header("storage", **more), *parts)


def replay(folder, *args, **more):
    return lmtrace("replay", *args, "--output-dir", os.path.join(folder, "out"), **more)


def metrics(folder, *args):
    run = replay(folder, *args, "--format", "json")
    true(run.code in (0, 1), repr(run))
    return run.json["metrics"]


@test
def call_and_completion_apart(folder):
    """A late adapter: the call takes microseconds, what it set off 200 ms; the end of the trace doesn't cut it off."""
    file = trace(folder, reserve(0, "A"), finish(0.001, "A"), prefetch(0.5, "A", "B"))
    jsonl = os.path.join(folder, "r.jsonl")
    found = metrics(folder, file, *L1, "--l2", "dram:latency_us=200000", "--l2-store-policy", "skip_l1", "--jsonl-out", jsonl)
    ops = {op["qualname"].split(".")[-1]: op for op in found["per_op"]}
    call, done = ops["submit_prefetch_task"]["call"], ops["submit_prefetch_task"]["done"]
    equal([call["count"], done["count"]], [1, 1])
    true(call["p50_ms"] < 200 <= done["p50_ms"], repr((call, done)))
    line = [line for line in map(json.loads, open(jsonl)) if line["n"] == 3][0]
    equal(line["done_ms"], done["p50_ms"])
    text = replay(folder, file, *L1, "--l2", "dram:latency_us=200000", "--l2-store-policy", "skip_l1").text
    contains(text, "Completion (ms)")


@test
def a_drain_that_takes_too_long_is_said(folder):
    file = trace(folder, reserve(0, "A"), finish(0.001, "A"))
    run = replay(folder, file, *L1, "--l2", "dram:latency_us=20000000", "--drain-timeout", "100ms", "--format", "json")
    text = json.dumps(run.json)
    true("unsettled" in text or "In flight" in text or "left" in text, text)
    equal(run.json["metrics"]["overall"]["settled"], False)


@test
def misses_are_explained(folder):
    """The same trace with L1 large enough and far too small: the causes sum to the misses, and the digest stands beside them."""
    names = ["k%03d" % i for i in range(48)]
    parts, t = [], 0.0
    for name in names:
        parts += [reserve(t, name), finish(t + 0.01, name)]
        t += 0.1
    for name in names + ["never"]:
        parts += [prefetch(t, name)]
        t += 0.1
    file = trace(folder, *parts)
    big = metrics(folder, file, *L1, "--speed", "0")
    small = metrics(folder, file, "--l1-size", "2MiB", "--eviction-policy", "LRU", "--speed", "0")
    causes = lambda found: {key: value for key, value in found["misses"].items() if key not in ("all", "total") and value}
    true("misses" in big, list(big))
    equal(sum(causes(big).values()), 1)
    true(sum(causes(small).values()) > 1, small["misses"])
    true(any("evicted" in key or "memory" in key or "stored" in key for key in causes(small)), small["misses"])


@test
def hit_rates_by_formula(folder):
    """Stored A B C, asked A X C: two of three objects, one of three as a prefix."""
    file = trace(folder, reserve(0, "A", "B", "C"), finish(0.001, "A", "B", "C"), prefetch(0.002, "A", "X", "C"))
    text = replay(folder, file, *L1, "--speed", "0").text
    rates = dict(entry for name, entries in lib.parse_table(text)[1] if name == "Tiers" for entry in entries)
    prefix = [value for label, value in rates.items() if label.startswith("Prefix hit rate")]
    equal(prefix, ["0.33"], text)
    true(any("(" in label for label in rates), "the formula stands beside the rate")


@test
def header_only(folder):
    for args in ([], ["--speed", "0"], ["--loop", "3"]):
        found = metrics(folder, trace(folder), *L1, *args)
        equal([found["overall"]["n"], found["overall"]["replayed"]], [0, 0])


def numbers(value):
    if isinstance(value, dict):
        return [n for v in value.values() for n in numbers(v)]
    if isinstance(value, list):
        return [n for v in value for n in numbers(v)]
    return [value]


@test
def every_number_of_the_table_is_in_the_json(folder):
    """One run, two forms of it: the text on stdout and the summary beside it."""
    out = os.path.join(folder, "s.json")
    for args in ([os.path.join(lib.TRACES, "real-storage.lct"), "--l2", "dram", "--l2", "null"],
                 [os.path.join(lib.TRACES, "storage-faults.lct"), "--speed", "0"]):
        run = replay(folder, *args, *L1, "--json=" + out)
        shown = set()
        for value in numbers(json.load(open(out), parse_constant=lib.no_constant)):
            shown.add(str(value))
            if isinstance(value, float):
                shown.add("%.2f" % float("%.3f" % value))
                shown.add("%.2f" % value)
        for name, entries in lib.parse_table(run.text)[1][1:]:
            for label, value in entries:
                value = value.split(" (")[0]
                true(value in shown, "%s: %s: %s" % (name, label, value))


@test
def loops_and_pace(folder):
    file = trace(folder, *[reserve(i / 10, "k%d" % i) for i in range(6)])
    far = trace(folder, reserve(0, "A"), reserve(30, "B"), name="far.lct")
    for path, args, least, most in ((file, ["--speed", "2"], 0.25, None), (file, ["--speed", "0.5"], 1.0, None), (file, ["--loop", "2"], 1.0, None),
                                    (file, ["--settle", "--speed", "5"], 0.1, None), (far, ["--speed", "0"], 0.0, 25.0)):
        overall = metrics(folder, path, *L1, *args)["overall"]
        true(least <= overall["duration"] and (most is None or overall["duration"] <= most), "%r %r" % (args, overall))
        equal(overall["n"], 2 if path == far else 12 if "--loop" in args else 6)


@test
def several_files_have_managers_of_their_own(folder):
    a = trace(folder, reserve(0, "A"), finish(0.001, "A"))
    b = trace(folder, prefetch(0.1, "A"), name="b.lct")
    apart = replay(folder, a, b, *L1, "--speed", "0", "--format", "json").json["metrics"]["files"]
    equal([f["metrics"]["overall"]["n"] for f in apart], [2, 1])
    hits = lambda found: found["tiers"]["l1_hits"]
    equal(hits(apart[1]["metrics"]), 0)
    equal(hits(metrics(folder, a, b, *L1, "--speed", "0", "--merge")), 1)
    refused(replay(folder, a, b, *L1, "--state-out", os.path.join(folder, "state.json")))


@test
def dry_run_touches_nothing(folder):
    kv = os.path.join(folder, "kv")
    file = trace(folder, reserve(0, "A"), finish(0.001, "A"), finish_read(0.002, "B"))
    run = replay(folder, file, *L1, "--l2", "fs:base_path=" + kv, "--dry-run")
    equal(run.code, 0, repr(run))
    true(not os.path.exists(kv), "made " + kv)
    place = os.path.join(folder, "out", "put")
    equal(lmtrace("replay", file, *L1, "--dry-run", "--output-dir", place).code, 0)
    equal(sorted(lib.tree(folder)), ["a.lct"])
    equal(lmtrace("replay", file, *L1, "--dry-run", "--output-dir", place, "--json").code, 0)
    equal(sorted(lib.tree(place)), ["trace_replay_summary.json"])


@test
def an_adapter_that_cannot_open_leaves_nothing(folder):
    file = trace(folder, reserve(0, "A"))
    block = write(os.path.join(folder, "block"), b"")
    refused(lmtrace("replay", file, *L1, "--l2", "fs:base_path=" + os.path.join(block, "kv"), "--output-dir",
                    os.path.join(folder, "x", "y"), "--jsonl-out", os.path.join(folder, "z", "r.jsonl")))
    equal(sorted(lib.tree(folder)), ["a.lct", "block"])


@test
def configuration_file(folder):
    conf = os.path.join(folder, "lmtrace.conf")
    with open(conf, "w") as f:
        f.write("[replay]\nl1-size-gb=0.5\neviction-policy=ARC\nspeed=3\nl2-adapter={\"type\":\"null\"};{\"type\":\"dram\"}\n")
    file = trace(folder)
    run = lmtrace("replay", file, "--config", conf, "--eviction-policy", "LRU", "--print-config", "--format", "json")
    equal(run.code, 0, repr(run))
    rows = {row["option"]: (row["value"], row["origin"]) for row in run.json["metrics"]["options"]}
    equal(rows["l1-size-gb"], ("0.5", "file"))
    equal(rows["eviction-policy"], ("LRU", "command line"))
    equal(rows["speed"], ("3", "file"))
    equal(rows["eviction-ratio"], ("0.2", "default"))
    run = replay(folder, file, "--config", conf)
    equal(run.code, 0, repr(run))
    contains(run.text, "L2 1 dram")
    with open(conf, "w") as f:
        f.write("[replay]\nl1-sise-gb=0.5\n")
    run = replay(folder, file, "--config", conf, *L1)
    refused(run)
    contains(run.errors, "l1-size-gb")


@test
def help_with_a_file_has_the_levels_flags(folder):
    run = lmtrace("replay", trace(folder), "--help")
    equal([run.code, run.err], [0, b""])
    contains(run.text, "--l1-size-gb")
    true(all(len(line) <= 80 for line in run.text.split("\n")), [line for line in run.text.split("\n") if len(line) > 80])


@test
def quiet_drops_the_notice(folder):
    file = os.path.join(lib.TRACES, "storage-clean.lct")
    different = ["--l1-size-gb", "0.125", "--eviction-policy", "LRU", "--speed", "0"]
    for args in (different, [*L1, "--speed", "0", "--l2", "null"]):
        run = replay(folder, file, *args)
        equal(len([line for line in lib.lines(run.errors) if "a miss tells" in line]), 1, repr(run))
        equal(replay(folder, file, *args, "-q").err, b"")
    equal(replay(folder, file, *L1, "--speed", "0").err, b"", "the same configuration, no L2: nothing to say")


@test
def settled_runs_give_one_digest(folder):
    file = os.path.join(lib.TRACES, "real-storage.lct")
    digests = set()
    for args in (["--speed", "0"], ["--settle", "--speed", "50"], ["--speed", "0", "--l2", "dram"][:2]):
        path = os.path.join(folder, "state.json")
        equal(replay(folder, file, *L1, *args, "--state-out", path).code, 0)
        digests.add(json.load(open(path))["outcome_digest"])
    equal(len(digests), 1)


if __name__ == "__main__":
    sys.exit(test.main())
