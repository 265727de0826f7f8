#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`lmtrace replay` with a level it has never heard of: order of work, outputs, exit codes (cli.md 3, 8)."""
import json
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import time
import gzip

import lib
from lib import Tests, contains, demo, equal, header, lmtrace, record, refused, true, tree, write

test = Tests()


def trace(folder, *parts, name="a.lct", **more):
    return write(os.path.join(folder, name), header(**more), *parts)


def run(folder, *args, **more):
    return lmtrace("replay", *args, "--output-dir", os.path.join(folder, "out"), **more)


def rows(text):
    return {label: value for _, entries in lib.parse_table(text)[1] for label, value in entries}


MIXED = [demo(0.001), demo(0.002, "mismatch"), demo(0.003, "fail"), demo(0.004, "undecodable"), record(0.005, "demo.Nobody.call", {}),
         demo(0.006, "late", 5), demo(0.007, name="demo.Service.context.__enter__"), demo(0.008, "missing", name="demo.Service.other")]


@test
def table_and_exit(folder):
    r = run(folder, trace(folder, *MIXED))
    equal(r.code, 1, repr(r))
    title, sections = lib.parse_table(r.text)
    equal(title, "Trace Replay Result")
    names = [name for name, _ in sections]
    equal(names[:3], ["Overall", "Per-Op Latency (ms)", "Pacing"])
    equal(names[-1], "Demo")
    equal([label for label, _ in sections[0][1]],
          ["Trace level", "Records replayed", "Records skipped", "Records failed", "Replay duration (s)"])
    equal([value for _, value in sections[0][1]][:4], ["demo", "3", "1", "1"])
    equal([label for label, _ in sections[1][1]][:4], ["call count", "call mean", "call p50", "call p99*"])
    equal([label for label, _ in sections[1][1]][4], "context.enter count")
    found = rows(r.text)
    equal(found["Records undecodable"], "2")
    equal(found["Clock"], "demo time")
    contains(r.text, "* fewer samples than the percentile needs\n")
    for line in r.text.split("\n")[:-1]:
        true(line == line.rstrip(), "trailing blanks: %r" % line)


@test
def compat_table(folder):
    r = run(folder, trace(folder, *MIXED), "--compat", "lmcache", "--verbose")
    equal(r.code, 1, repr(r))
    title, sections = lib.parse_table(r.text)
    equal([name for name, _ in sections], ["Overall", "Per-Op Latency (ms)"])
    # the undecodable one is skipped, the one without an argument failed, the mismatch replayed
    equal([value for _, value in sections[0][1]][:4], ["demo", "4", "2", "2"])
    equal([label for label, _ in sections[1][1]][-4:], ["other count", "other mean", "other p50", "other p99"])
    words = [line.split()[1] for line in r.text.split("\n") if line.startswith("  [")]
    equal(words, ["OK", "OK", "FAIL", "FAIL", "FAIL", "OK", "OK", "FAIL"])


@test
def verbose_lines(folder):
    r = run(folder, trace(folder, *MIXED), "--verbose")
    got = [line for line in r.text.split("\n") if line.startswith("  [")]
    equal(sorted(line.split()[1] for line in got), sorted(["OK", "MISM", "FAIL", "UNDEC", "SKIP", "OK", "OK", "UNDEC"]))
    true(all("/8]" in line for line in got), got)
    equal(got[0][:16], "  [1/8]  OK     ")
    true(got[0].endswith("ms  demo.Service.call"), got[0])


@test
def jsonl(folder):
    path = os.path.join(folder, "deep", "er", "r.jsonl")
    r = run(folder, trace(folder, *MIXED), "--jsonl-out", path)
    equal(r.code, 1, repr(r))
    with open(path) as f:
        raw = f.read()
    true(raw.endswith("}\n"), raw)
    lines = [json.loads(line, parse_constant=lib.no_constant) for line in raw.splitlines()]
    equal(list(lines[0])[:3], ["qualname", "latency_ms", "failed"])
    by_n = {line["n"]: line for line in lines}
    equal(sorted(by_n), [1, 2, 3, 4, 5, 6, 7, 8])
    equal([by_n[n]["status"] for n in range(1, 9)],
          ["ok", "mismatch", "failed", "undecodable", "skipped", "ok", "ok", "undecodable"])
    equal([by_n[n]["failed"] for n in range(1, 9)], [False, False, True, False, False, False, False, False])
    equal(by_n[6]["done_ms"] >= 5, True, raw)
    equal(by_n[1]["done_ms"], None)
    equal(by_n[6]["bytes"], 110)
    equal("error" in by_n[3] and "error" not in by_n[1], True)
    equal([by_n[n]["t_mono_s"] for n in (1, 8)], [0.001, 0.008])


@test
def jsonl_compat(folder):
    path = os.path.join(folder, "r.jsonl")
    run(folder, trace(folder, *MIXED), "--jsonl-out", path, "--compat", "lmcache-0.5.7")
    with open(path) as f:
        lines = [json.loads(line) for line in f]
    equal([list(line) for line in lines], [["qualname", "latency_ms", "failed"]] * 8)
    equal([line["failed"] for line in lines], [False, False, True, True, True, False, False, True])
    equal([line["latency_ms"] for line in lines][3:5], [0.0, 0.0])


@test
def jsonl_to_stdout(folder):
    r = run(folder, trace(folder, *MIXED), "--jsonl-out", "-")
    equal(len(r.text.splitlines()), 8)
    for line in r.text.splitlines():
        json.loads(line)
    contains(r.errors, "Trace Replay Result")


@test
def one_stdout(folder):
    file = trace(folder, demo(0))
    for args in (["--jsonl-out", "-", "--format", "json"], ["--jsonl-out", "-", "--verbose"], ["--verbose", "--format", "json"],
                 ["--json=-", "--jsonl-out", "-"], ["--stats-out", "-", "--format", "csv"]):
        r = run(folder, file, *args)
        if "json" in args:
            equal([r.code, r.json["error"]["code"]], [2, "option"])
        else:
            refused(r, repr(args))
        equal("out/" in tree(folder), False, repr(args))


@test
def csv(folder):
    run(folder, trace(folder, *MIXED))
    with open(os.path.join(folder, "out", "trace_replay_ops.csv"), "rb") as f:
        raw = f.read()
    true(raw.endswith(b"\r\n") and raw.count(b"\n") == raw.count(b"\r\n"), raw)
    table = [line.split(",") for line in raw.decode().split("\r\n")[:-1]]
    equal(table[0], ("qualname,count,errors,mean_ms,p50_ms,p90_ms,p99_ms,min_ms,max_ms,skipped,undecodable,mismatch,p999_ms,lag_p99_ms,"
                     "done_p50_ms,done_p99_ms,bytes").split(","))
    equal([line[0] for line in table[1:]], sorted(line[0] for line in table[1:]))
    call = {key: value for key, value in zip(table[0], table[2])}
    equal([call[key] for key in ("qualname", "count", "errors", "undecodable", "mismatch")], ["demo.Service.call", "2", "1", "1", "1"])
    run(folder, trace(folder, *MIXED), "--compat", "lmcache")
    with open(os.path.join(folder, "out", "trace_replay_ops.csv"), "rb") as f:
        first = f.read().decode().split("\r\n")[:2]
    equal(first[0], "qualname,count,errors,mean_ms,p50_ms,p90_ms,p99_ms,min_ms,max_ms")
    true(first[1].startswith("demo.Service.call,3,1,"), first)


@test
def summary(folder):
    file = trace(folder, *MIXED)
    run(folder, file, "--json")
    with open(os.path.join(folder, "out", "trace_replay_summary.json")) as f:
        raw = f.read()
    doc = json.loads(raw, parse_constant=lib.no_constant)
    equal(list(doc), sorted(doc))
    for key in ("duration_s", "lag", "ops", "pacing", "schema", "trace", "warnings", "demo"):
        true(key in doc, key)
    equal(doc["ops"]["demo.Service.call"]["count"], 2)
    equal(doc["trace"], file)
    equal(raw, json.dumps(doc, indent=2, sort_keys=True) + "\n")
    other = os.path.join(folder, "x", "y.json")
    r = run(folder, file, "--json=" + other)
    true(os.path.exists(other), repr(r))
    r = run(folder, file, "--json=-", "--compat", "lmcache")
    equal(sorted(r.json), ["duration_s", "ops"])
    contains(r.errors, "Trace Replay Result")


@test
def envelope(folder):
    r = run(folder, trace(folder, *MIXED), "--format", "json")
    doc = r.json
    equal(list(doc), ["schema", "title", "metrics", "warnings", "partial", "exit"])
    equal([doc["schema"], doc["title"], doc["partial"], doc["exit"]], ["lmtrace/replay/1", "Trace Replay Result", False, 1])
    equal(r.code, 1)
    overall = doc["metrics"]["overall"]
    equal({key: overall[key] for key in ("level", "replayed", "skipped", "failed", "undecodable", "mismatch", "malformed", "settled", "n")},
          {"level": "demo", "replayed": 3, "skipped": 1, "failed": 1, "undecodable": 2, "mismatch": 1, "malformed": 0, "settled": True,
           "n": 8})
    equal(doc["metrics"]["ops"]["call_count"], 2)
    equal(sorted(op["qualname"] for op in doc["metrics"]["per_op"]),
          ["demo.Nobody.call", "demo.Service.call", "demo.Service.context.__enter__", "demo.Service.other"])
    equal(doc["metrics"]["demo"], {"calls": 7, "name": "none"})
    codes = {w["code"]: w["count"] for w in doc["warnings"]}
    equal({code: codes[code] for code in ("skipped", "failed", "mismatch", "undecodable")},
          {"skipped": 1, "failed": 1, "mismatch": 1, "undecodable": 2})


def numbers(value):
    if isinstance(value, dict):
        return [n for v in value.values() for n in numbers(v)]
    if isinstance(value, list):
        return [n for v in value for n in numbers(v)]
    return [value]


def as_shown(document):
    """The numbers and words of a JSON document as the text table would print them."""
    flat = set()
    for value in numbers(document):
        if isinstance(value, float):
            flat.add("%.2f" % float("%.3f" % value))
        flat.add(str(value))
    return flat


@test
def every_number_of_the_table_is_in_the_json(folder):
    out = os.path.join(folder, "summary.json")
    r = run(folder, trace(folder, *MIXED), "--json=" + out)
    doc = json.load(open(out), parse_constant=lib.no_constant)
    flat = as_shown(doc)
    sections = lib.parse_table(r.text)[1]
    for name, entries in sections[1:]:
        for label, value in entries:
            true(value in flat, "%s: %s: %s" % (name, label, value))
    for qualname, op in doc["ops"].items():
        label = {"demo.Service.call": "call", "demo.Service.context.__enter__": "context.enter"}.get(qualname)
        if label:
            equal("%.2f" % float("%.3f" % op["mean_ms"]), dict(sections[1][1])[label + " mean"])
    # what is counted is the same in every run: Overall against the envelope
    envelope_ = run(folder, trace(folder, *MIXED), "--format", "json").json["metrics"]["overall"]
    overall = dict(sections[0][1])
    equal([overall["Records " + word] for word in ("replayed", "skipped", "failed")],
          [str(envelope_[word]) for word in ("replayed", "skipped", "failed")])
    equal(sum(op["count"] for op in doc["ops"].values()), envelope_["replayed"])


@test
def output_and_quiet(folder):
    file = trace(folder, demo(0))
    path = os.path.join(folder, "report.txt")
    r = run(folder, file, "--output", path)
    equal(open(path).read(), r.text)
    r = run(folder, file, "-q", "--output", path)
    equal([r.code, r.out, r.err], [0, b"", b""])
    contains(open(path).read(), "Trace Replay Result")
    r = run(folder, file, "--format", "csv")
    equal(r.out, open(os.path.join(folder, "out", "trace_replay_ops.csv"), "rb").read())


@test
def no_csv(folder):
    r = lmtrace("replay", trace(folder, demo(0)), "--no-csv", cwd=folder)
    equal([r.code, tree(folder)], [0, {"a.lct": os.path.getsize(os.path.join(folder, "a.lct"))}], repr(r))


@test
def exit_codes(folder):
    ok, fail, skip = demo(0), demo(0, "fail"), record(0, "demo.Nobody.call", {})
    undec, mism = demo(0, "undecodable"), demo(0, "mismatch")
    for parts, args, code in (
            ([], [], 0), ([ok], [], 0), ([ok, fail], [], 1), ([ok, mism], [], 1),
            ([ok, fail], ["--max-errors", "1"], 0), ([ok, fail, fail], ["--max-errors", "1"], 1),
            ([ok, fail], ["--max-errors", "50%"], 0), ([ok, fail, fail], ["--max-errors", "50%"], 1),
            ([skip], [], 1), ([undec], [], 1), ([skip, undec], [], 1), ([ok, skip], [], 0), ([ok, undec], [], 0),
            ([ok, skip], ["--strict"], 1), ([ok, undec], ["--strict"], 1), ([ok], ["--strict"], 0),
            ([ok, b"\0\0\0\1\xc1", ok], [], 0), ([ok, b"\0\0\0\1\xc1", ok], ["--strict"], 1), ([b"\0\0\0\1\xc1"], [], 0),
            ([ok, b"\0\0"], [], 0), ([ok, b"\0\0"], ["--strict"], 1),
            ([ok], ["--demo-threshold"], 1), ([ok, fail], ["--compat", "lmcache"], 1), ([skip], ["--compat", "lmcache"], 1)):
        r = run(folder, trace(folder, *parts), *args)
        equal(r.code, code, "%d parts %r %r" % (len(parts), args, r))
        contains(r.text, "Trace Replay Result")


@test
def max_lag(folder):
    r = run(folder, trace(folder, *[demo(i / 1000) for i in range(20)]), "--max-lag", "1ns")
    equal(r.code, 1, repr(r))
    contains(r.errors, "lag p99")
    equal(run(folder, trace(folder, *[demo(i / 1000) for i in range(20)]), "--max-lag", "1h").code, 0)


@test
def refusals_leave_nothing(folder):
    file = trace(folder, demo(0))
    before = tree(folder)
    block = write(os.path.join(folder, "block"), b"x")
    before["block"] = 1
    for args in (["--speed", "nan"], ["--speed", "-1"], ["--speed", "1e309"], ["--speed", ""], ["--speed", "inf"], ["--speed", " 1"],
                 ["--speed", "1_0"], ["--limit", "0"], ["--limit", "x"], ["--loop", "0"], ["--max-gap", "5 s"], ["--max-gap", "-1"],
                 ["--max-errors", "x"], ["--max-errors", "1x%"], ["--drain-timeout", "soon"], ["--compat", "vllm"], ["--nosuch"],
                 ["--copies", "0"], ["--copies", "65537"], ["--key-offset"], ["--close-pairs"], ["--session-gap", "1s"], ["--demo-count", "10"], ["--demo-nam", "x"],
                 ["--time", "x..y"], ["--interval", "0"], ["--jsonl-out", folder], ["--jsonl-out", os.path.join(block, "r.jsonl")],
                 ["--output-dir", os.path.join(block, "x")], ["--output-dir", block], ["--output", folder],
                 ["--json=" + folder], ["--demo-fail-configure"], ["--demo-fail-start"],
                 ["--demo-fail-start", "--jsonl-out", os.path.join(folder, "p", "q.jsonl")],
                 ["--stats-out", folder]):
        r = run(folder, file, *args) if "--output-dir" not in args else lmtrace("replay", file, *args)
        refused(r, repr(args) + "\n")
        equal(tree(folder), before, repr(args))
    r = lmtrace("replay", os.path.join(folder, "none.lct"), "--output-dir", os.path.join(folder, "out"))
    refused(r)
    contains(r.errors, "none.lct")
    equal(tree(folder), before)


@test
def a_refused_start_keeps_an_old_jsonl(folder):
    old = write(os.path.join(folder, "old.jsonl"), b"precious\n")
    refused(run(folder, trace(folder, demo(0)), "--jsonl-out", old, "--demo-fail-start"))
    equal(open(old).read(), "precious\n")
    run(folder, trace(folder, demo(0)), "--jsonl-out", old)
    equal(len(open(old).read().splitlines()), 1)


@test
def outputs_never_hit_the_input(folder):
    file = trace(folder, demo(0))
    size = os.path.getsize(file)
    os.link(file, os.path.join(folder, "b.lct"))
    for args in (["--jsonl-out", file], ["--jsonl-out", os.path.join(folder, "b.lct")], ["--stats-out", file], ["--json=" + file],
                 ["--output", file]):
        refused(run(folder, file, *args), repr(args))
        equal(os.path.getsize(file), size, repr(args))


@test
def unwritable_folder(folder):
    if os.geteuid() == 0:
        return
    os.mkdir(os.path.join(folder, "out"), 0o500)
    refused(run(folder, trace(folder, demo(0))))


@test
def levels(folder):
    refused(run(folder, trace(folder, level="nobody")))
    r = run(folder, trace(folder, level="elsewhere"))
    refused(r)
    contains(r.errors, "replay-elsewhere")
    a, b = trace(folder, demo(0)), trace(folder, level="elsewhere", name="b.lct")
    refused(run(folder, a, b))
    refused(run(folder, trace(folder, demo(0), schema=99)))
    r = run(folder, trace(folder, demo(0), schema=99), "--allow-unknown-schema")
    equal(r.code, 0, repr(r))
    equal(run(folder, trace(folder, demo(0), schema=2)).code, 0)


@test
def a_misspelt_flag_is_named(folder):
    r = run(folder, trace(folder, demo(0)), "--demo-cout", "3")
    refused(r)
    contains(r.errors, "--demo-count")
    r = run(folder, "nosuch.lct", "--demo-cout", "3")
    refused(r)
    contains(r.errors, "--demo-count")
    r = run(folder, trace(folder, demo(0)), "--demo-na", "x")
    refused(r)
    contains(r.errors, "--demo-name")


@test
def file_anywhere(folder):
    file = trace(folder, demo(0), name="-odd.lct")
    os.chdir(folder)
    for args in (["--demo-name", "x", "./-odd.lct"], ["./-odd.lct", "--demo-name", "x"], ["--demo-name", "x", "--", "-odd.lct"],
                 ["--demo-name=x", "./-odd.lct", "--speed", "0"]):
        r = lmtrace("replay", *args, "--no-csv") if "--" not in args else lmtrace("replay", "--no-csv", *args)
        equal(r.code, 0, repr(args) + repr(r))
        equal(rows(r.text)["Name"], "x")
    os.chdir("/")
    true(file)


@test
def pipes_and_compression(folder):
    raw = header() + b"".join(demo(i / 1000) for i in range(50))
    path = write(os.path.join(folder, "a.lct"), raw)
    plain = run(folder, path, "--verbose")
    for stdin in (raw, gzip.compress(raw)):
        r = run(folder, "-", "--demo-name", "piped", stdin=stdin)
        equal([r.code, rows(r.text)["Records replayed"], rows(r.text)["Name"]], [0, "50", "piped"], repr(r))
    write(os.path.join(folder, "gz-without-a-name"), gzip.compress(raw))
    r = run(folder, os.path.join(folder, "gz-without-a-name"), "--verbose")
    equal([r.code, rows(r.text)["Records replayed"]], [0, "50"], repr(r))
    contains(r.text, "[50/")
    contains(plain.text, "[50/50]")
    fifo = os.path.join(folder, "fifo")
    os.mkfifo(fifo)
    feeder = subprocess.Popen(["sh", "-c", "cat '%s' > '%s'" % (path, fifo)])
    r = run(folder, fifo, "--demo-name", "fifo")
    feeder.wait()
    equal([r.code, rows(r.text)["Records replayed"]], [0, "50"], repr(r))
    true(stat.S_ISFIFO(os.stat(fifo).st_mode))
    r = run(folder, "-", stdin=b"\x89PNG\r\n\x1a\n")
    refused(r)
    r = run(folder, "-", stdin=b"")
    refused(r)


@test
def pace(folder):
    """Lower bounds from the plan; upper ones only where a wait of half a minute was to be left out."""
    file = trace(folder, *[demo(i / 10) for i in range(6)])
    far = trace(folder, demo(0), demo(30.0), name="far.lct")
    for path, args, least, most in ((file, [], 0.5, None), (file, ["--speed", "2"], 0.25, None), (file, ["--speed", "0.5"], 1.0, None),
                                    (file, ["--loop", "3", "--speed", "10"], 0.15, None), (far, ["--speed", "0"], 0.0, 25.0),
                                    (far, ["--max-gap", "50ms"], 0.05, 25.0), (far, ["--speed", "100"], 0.3, 25.0)):
        r = run(folder, path, *args, "--format", "json")
        took = r.json["metrics"]["overall"]["duration"]
        true(least <= took and (most is None or took <= most), "%r took %r" % (args, took))
        equal(r.json["metrics"]["overall"]["n"], 2 if path == far else 18 if "--loop" in args else 6)
    # a tenth of the pace: the lag of what is on time is counted from the stretched plan
    r = run(folder, trace(folder, demo(0), demo(0.05)), "--speed", "0.1", "--format", "json")
    true(r.json["metrics"]["overall"]["duration"] >= 0.5, r.text)


@test
def limit_and_selection(folder):
    file = trace(folder, *[demo(i / 1000, name="demo.Service.other" if i % 2 else "demo.Service.call") for i in range(20)])
    n = lambda *args: run(folder, file, *args, "--format", "json").json["metrics"]["overall"]["n"]
    equal(n("--limit", "7"), 7)
    equal(n("--qualname", "*.other"), 10)
    equal(n("--qualname", "!*.other"), 10)
    equal(n("--records", "3..5"), 3)
    equal(n("--records", "3..5", "--loop", "2"), 6)
    equal(n("--time", "50%.."), 10)
    r = run(folder, file, "--records", "1..2")
    contains(r.text, "left out")


@test
def several_files(folder):
    a, b = trace(folder, demo(0.01)), trace(folder, demo(0.01), demo(0.02, "fail"), name="b.lct")
    gone = os.path.join(folder, "gone.lct")
    r = run(folder, a, b, "--demo-name", "two")
    equal(r.code, 1, repr(r))
    equal(r.text.count("Trace Replay Result: "), 2)
    contains(r.text, "\n\n")
    csvs = sorted(name for name in os.listdir(os.path.join(folder, "out")))
    equal(csvs, ["trace_replay_ops.2.csv", "trace_replay_ops.csv"])
    r = run(folder, a, gone, b, "--format", "json")
    equal(r.code, 2, repr(r))
    equal([(f["file"], f["exit"], f["metrics"]["overall"]["n"]) for f in r.json["metrics"]["files"]], [(a, 0, 1), (b, 1, 2)])
    contains(r.errors, "gone.lct")
    path = os.path.join(folder, "r.jsonl")
    run(folder, a, b, "--jsonl-out", path)
    equal([(line["file"], line["n"]) for line in map(json.loads, open(path))], [(1, 1), (2, 1), (2, 2)])


@test
def merged_files(folder):
    wall = 1758400000.0
    a = write(os.path.join(folder, "a.lct"), header(), *[record(t, "demo.Service.call", {"do": "ok"}, wall + t) for t in (0.0, 0.2, 0.4)])
    b = write(os.path.join(folder, "b.lct"), header(),
              *[record(t, "demo.Service.other", {"do": do}, wall + w) for t, w, do in ((0, 0.1, "ok"), (1, 0.05, "undecodable"),
                                                                                     (2, 0.3, "ok"))], b"\0\0\0\1\xc1")
    path = os.path.join(folder, "r.jsonl")
    r = run(folder, a, b, "--merge", "--jsonl-out", path, "--format", "json", "--demo-row", "x")
    equal(r.code, 0, repr(r))
    got = [(line["n"], line["qualname"].split(".")[-1], round(line["t_mono_s"], 3)) for line in map(json.loads, open(path))]
    equal(got, [(1, "call", 0.0), (2, "other", 0.1), (3, "other", 0.1), (4, "call", 0.2), (5, "other", 0.3), (6, "call", 0.4)])
    overall = r.json["metrics"]["overall"]
    equal([overall["n"], overall["malformed"], overall["digest"]], [6, 1, "x"])
    true(0.35 <= overall["duration"], overall)
    contains(r.errors, "1 records step back")
    contains(r.errors, b + ": record 2 at offset ")
    r = run(folder, a, b, "--merge", "--loop", "2", "--speed", "0", "--format", "json")
    equal(r.json["metrics"]["overall"]["n"], 12)
    equal(run(folder, a, b, "--merge", "--strict").code, 1)
    refused(run(folder, a, b, "--merge", "--time", "50%.."))


@test
def zero_records(folder):
    for parts in ([], [b"\0\0\0\1\xc1"]):
        r = run(folder, trace(folder, *parts), "--json", "--format", "json")
        equal([r.code, r.json["metrics"]["overall"]["n"]], [0, 0], repr(r))
        doc = json.load(open(os.path.join(folder, "out", "trace_replay_summary.json")), parse_constant=lib.no_constant)
        equal(doc["ops"], {})
        with open(os.path.join(folder, "out", "trace_replay_ops.csv"), "rb") as f:
            equal(f.read().count(b"\r\n"), 1)


@test
def faults_are_named(folder):
    r = run(folder, trace(folder, *[demo(0, "undecodable") for _ in range(15)], demo(0)))
    got = [line for line in r.errors.split("\n") if "undecodable" in line or "bad value" in line]
    true(10 <= len(got) <= 11, repr(r))
    contains(r.errors, "record 1 at offset %d" % len(header()))


@test
def json_failure(folder):
    r = run(folder, os.path.join(folder, "none.lct"), "--format", "json")
    equal(r.code, 2)
    doc = r.json
    equal([doc["schema"], doc["exit"], "metrics" in doc], ["lmtrace/replay/1", 2, False])
    equal(sorted(doc["error"]), ["code", "file", "message", "offset"])
    equal(len(lib.lines(r.errors)), 1)


@test
def names_that_are_no_utf8(folder):
    path = os.fsencode(folder) + b"/caf\xe9 \x1b[31m.lct"
    write(path, header(), demo(0, "undecodable"), demo(0))
    summary_ = os.path.join(folder, "s.json")
    r = run(folder, path, path, "--format", "json", "--json=" + summary_)
    equal(r.code, 0, repr(r))
    for found in r.json["metrics"]["files"]:
        contains(found["file"], "caf\ufffd")
        equal(bytes.fromhex(found["file_hex"]), path)
    equal(bytes.fromhex(json.load(open(summary_))["trace_hex"]), path)
    r.err.decode()
    r = run(folder, path)
    true(b"\x1b" not in r.err and b"\x1b" not in r.out, repr(r))
    r = run(folder, path, path)
    contains(r.text, "Trace Replay Result: ")
    true(b"\x1b" not in r.err and b"\x1b" not in r.out, repr(r))
    refused(run(folder, os.fsencode(folder) + b"/gone\xe9"))


@test
def stdin_once(folder):
    r = run(folder, "-", "-", stdin=header() + demo(0))
    refused(r)
    contains(r.errors, "once")


@test
def print_config(folder):
    r = run(folder, trace(folder, demo(0)), "--demo-count", "5", "--print-config")
    equal(r.code, 0, repr(r))
    found = {line.split()[0]: line.split()[1:] for line in lib.lines(r.text)}
    equal(found["demo-count"], ["5", "command", "line"])
    equal(found["speed"], ["1", "default"])
    equal("out/" in tree(folder), False)


@test
def packed_outputs(folder):
    file = trace(folder, *[demo(0) for _ in range(3000)])
    plain, gz, zst = (os.path.join(folder, "r.jsonl" + end) for end in ("", ".gz", ".zst"))
    for path in (plain, gz, zst):
        equal(run(folder, file, "--jsonl-out", path, "--compat", "lmcache").code, 0)
    expected = [json.loads(line)["qualname"] for line in open(plain)]
    equal([json.loads(line)["qualname"] for line in gzip.open(gz, "rt")], expected)
    true(os.path.getsize(gz) < os.path.getsize(plain) / 5)
    equal(open(zst, "rb").read(4), b"\x28\xb5\x2f\xfd")
    if shutil.which("zstd"):
        got = subprocess.run(["zstd", "-dcq", zst], stdout=subprocess.PIPE, check=True).stdout
        equal([json.loads(line)["qualname"] for line in got.splitlines()], expected)
    run(folder, file, "--json=" + os.path.join(folder, "s.json.gz"), "--output", os.path.join(folder, "t.txt.gz"))
    equal(json.load(gzip.open(os.path.join(folder, "s.json.gz")))["ops"]["demo.Service.call"]["count"], 3000)
    contains(gzip.open(os.path.join(folder, "t.txt.gz"), "rt").read(), "Trace Replay Result")
    old = gzip.open(gz, "rt").read()
    refused(run(folder, file, "--jsonl-out", gz, "--demo-fail-start"))
    equal(gzip.open(gz, "rt").read(), old)


@test
def stats_out(folder):
    path = os.path.join(folder, "s.jsonl")
    r = run(folder, trace(folder, *[demo(i / 100) for i in range(50)]), "--interval", "100ms", "--stats-out", path)
    equal(r.code, 0, repr(r))
    lines = [json.loads(line, parse_constant=lib.no_constant) for line in open(path)]
    true(len(lines) >= 3, lines)
    equal([lines[-1]["n"], lines[-1]["ok"], lines[-1]["total"]], [50, 50, 50])


@test
def follow(folder):
    path = trace(folder, demo(0))
    jsonl = os.path.join(folder, "r.jsonl")
    process = lib.start("replay", path, "--follow", "--follow-idle", "700ms", "--jsonl-out", jsonl, "--no-csv", "--format", "json",
                        "--output-dir", folder)
    time.sleep(0.3)
    with open(path, "ab") as f:
        f.write(demo(0.001))
        f.flush()
        time.sleep(0.2)
        half = demo(0.002)
        f.write(half[:9])
        f.flush()
        time.sleep(0.2)
        f.write(half[9:])
    r = lib.end(process)
    equal([r.code, r.json["metrics"]["overall"]["n"], r.err], [0, 3, b""], repr(r))
    process = lib.start("replay", path, "--follow", "--no-csv", "--output-dir", folder)
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    r = lib.end(process)
    equal(r.code, 130, repr(r))
    contains(r.text, "Records replayed:                                              3")


@test
def resync(folder):
    good = [demo(i / 1000) for i in range(20)]
    bad = bytearray(good[9])
    bad[0:4] = b"\x00\x00\xff\xff"
    path = trace(folder, *good[:9], bytes(bad), *good[10:])
    n = lambda *args: run(folder, path, *args, "--format", "json").json["metrics"]
    equal(n()["overall"]["n"], 9)
    found = n("--resync")
    equal(found["overall"]["n"], 19)
    true(found["status"]["lost_bytes"] > 0, found["status"])


@test
def names_of_no_bytes(folder):
    """An empty qualname, and two that differ behind a NUL, are names like others: counted, each told once."""
    names = ["", "a\0b", "", "a\0c", "a\0b", ""]
    file = trace(folder, *[demo(i, name=name) for i, name in enumerate(names)], demo(9))
    r = run(folder, file, "--speed", "0", "--format", "json")
    equal([r.code, r.json["metrics"]["overall"]["skipped"], r.json["metrics"]["overall"]["replayed"]], [0, 6, 1], repr(r))
    equal(r.errors.count(": no handler"), 3, repr(r))
    equal(lmtrace("info", "--stats", "--top", "3", file).code, 0)


@test
def damaged_gzip(folder):
    packed = gzip.compress(header() + b"".join(demo(i / 1000) for i in range(2000)))
    short = write(os.path.join(folder, "short.lct.gz"), packed[:len(packed) // 2])
    r = run(folder, short, "--speed", "0")
    contains(r.errors, "compressed stream ends early")
    contains(r.text, "Trace Replay Result")
    true("truncated" not in r.errors, repr(r))
    torn = bytearray(packed)
    torn[len(torn) // 2] ^= 0x55
    r = run(folder, write(os.path.join(folder, "torn.lct.gz"), bytes(torn)), "--speed", "0", "--format", "json")
    equal([r.code, r.json["exit"], r.json["partial"]], [2, 2, True], repr(r))
    r = run(folder, os.path.join(folder, "torn.lct.gz"), "--speed", "0")
    true(re.search(r"torn\.lct\.gz: record [0-9]+ at offset [0-9]+: gzip: ", r.errors), repr(r))
    contains(r.text, "\nnot all could be read: the figures are partial\n")
    true("interrupted" not in r.text, repr(r))


@test
def closed_stdout(folder):
    file = trace(folder, *[demo(0) for _ in range(5000)])
    done = subprocess.run(["sh", "-c", '"$0" replay "$1" --verbose --no-csv | head -1; exit 0', lib.LMTRACE, file], cwd=folder,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=lib.environment())
    equal([done.stdout.count(b"\n"), done.stderr], [1, b""])


@test
def full_disk(folder):
    if not os.path.exists("/dev/full"):
        return
    r = run(folder, trace(folder, demo(0)), "--jsonl-out", "/dev/full")
    equal([r.code, len(lib.lines(r.errors))], [1, 1], repr(r))
    contains(r.errors, "No space left")
    r = lmtrace("replay", trace(folder, demo(0)), "--no-csv", cwd=folder)
    with open("/dev/full", "wb") as full:
        done = subprocess.run([lib.LMTRACE, "replay", "a.lct", "--no-csv"], cwd=folder, stdout=full, stderr=subprocess.PIPE,
                              env=lib.environment())
    equal([done.returncode, done.stderr.count(b"\n")], [1, 1], done.stderr)
    # JSON: one document, the failure, for one FILE as for two
    for files in (["a.lct"], ["a.lct", "a.lct"]):
        r = lmtrace("replay", *files, "--no-csv", "--format", "json", "--output", "/dev/full", cwd=folder)
        equal([r.code, len(lib.lines(r.errors)), r.json["error"]["code"], r.json["exit"]], [1, 1, "io", 1], repr(r))


@test
def help_text(folder):
    r = lmtrace("replay", "--help")
    equal([r.code, r.err], [0, b""])
    for line in r.text.split("\n"):
        true(len(line) <= 80, line)
    for flag in ("--speed", "--jsonl-out", "--compat", "--max-errors", "--drain-timeout"):
        contains(r.text, flag)


if __name__ == "__main__":
    sys.exit(test.main())
