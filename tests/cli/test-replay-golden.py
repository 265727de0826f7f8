#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`lmtrace replay --compat lmcache` against the runs of LMCache 0.5.6 (cli.md 9.3): what is measured is masked, the rest is equal."""
import csv
import io
import json
import os
import re
import shlex
import signal
import sys
import time

import lib
from lib import Tests, equal, lmtrace, start, end, true

test = Tests()
RUNS = os.path.join(lib.CLI_DATA, "runs")

# Compared as they are.
EQUAL = ["match", "match-verbose", "mismatch", "nocsv", "one-l2fs", "storage-empty", "tracelevel", "storage-malformed", "storage-onlyfail",
         "storage-skipped"]


def command(name, folder):
    """The run's own line, with folders of this test: arguments behind `lmcache trace`."""
    with open(os.path.join(RUNS, "replay-" + name, "command")) as f:
        line = f.read().strip()
    words = shlex.split(line)
    equal(words[:2], ["lmcache", "trace"])
    out, l2 = os.path.join(folder, "OUT"), os.path.join(folder, "L2DIR")
    os.makedirs(l2, exist_ok=True)
    return [re.sub(r"\bL2DIR\b", l2, re.sub(r"^OUT\b", out, word)) for word in words[2:]]


def golden(name, *path):
    with open(os.path.join(RUNS, "replay-" + name, *path), "rb") as f:
        return f.read().decode()


def mask_line(line, section):
    verbose = re.match(r"^(  \[\d+/\d+\]  .{4}  )[ \d.]{8}(ms  .*)$", line)
    if verbose:
        return verbose.group(1) + "########" + verbose.group(2)
    if section == "Per-Op Latency (ms)" or line.startswith("Replay duration"):
        number = re.match(r"^(.*?: +)(\d+\.\d\d)$", line)
        if number:
            return "%s%*s" % (number.group(1).rstrip(), len(line) - len(number.group(1).rstrip()), "####")
    return re.sub(r"run=[0-9a-f]{8}", "run=########", line)


def masked(text):
    section, out = None, []
    for line in text.split("\n"):
        head = re.fullmatch(r"-+ (.*?) -+", line)
        section = head.group(1) if head else section
        out.append(mask_line(line, section))
    return "\n".join(out)


def compare_jsonl(found, expected):
    a, b = [[json.loads(line) for line in text.splitlines()] for text in (found, expected)]
    equal([list(line) for line in a], [list(line) for line in b])
    equal([(line["qualname"], line["failed"]) for line in a], [(line["qualname"], line["failed"]) for line in b])


def compare_csv(found, expected):
    a, b = [list(csv.reader(io.StringIO(text, newline=""))) for text in (found, expected)]
    equal([line[:3] for line in a], [line[:3] for line in b])
    equal(a[0], b[0])
    equal(found.count("\r\n"), expected.count("\r\n"))


def compare_summary(found, expected):
    a, b = json.loads(found), json.loads(expected)
    counts = lambda doc: {name: (list(op), op["count"], op["errors"]) for name, op in doc["ops"].items()}
    equal([list(a), counts(a)], [list(b), counts(b)])
    equal(found, json.dumps(a, indent=2, sort_keys=True) + "\n")


COMPARE = {"r.jsonl": compare_jsonl, "trace_replay_ops.csv": compare_csv, "trace_replay_summary.json": compare_summary}


def compare_run(name):
    def check(folder):
        run = lmtrace(*command(name, folder), "--compat", "lmcache", cwd=lib.TRACES)
        equal(run.code, int(golden(name, "rc")), repr(run))
        expected = golden(name, "stdout")
        equal(masked(run.text).split("\n"), masked(expected).split("\n"))
        for line in expected.split("\n"):
            true(len(masked(line)) == len(line), line)
        out = os.path.join(RUNS, "replay-" + name, "out")
        wanted = sorted(os.listdir(out)) if os.path.isdir(out) else []
        got = sorted(os.listdir(os.path.join(folder, "OUT"))) if os.path.isdir(os.path.join(folder, "OUT")) else []
        # LMCache takes --trace-output and records nothing; lmtrace records (cli.md 6)
        words = command(name, folder)
        recorded = [os.path.basename(words[words.index("--trace-output") + 1])] if "--trace-output" in words else []
        equal(got, sorted(wanted + recorded))
        for file in wanted:
            with open(os.path.join(folder, "OUT", file), newline="") as f:
                COMPARE[file](f.read(), golden(name, "out", file))
    return check


for name in EQUAL:
    test.add(name.replace("-", "_"), compare_run(name))


@test
def masks_hide_only_what_is_measured(folder):
    text = golden("match-verbose", "stdout")
    equal(masked(text), masked(text.replace("0.338ms", "0.001ms")))
    true(masked(text) != masked(text.replace("Records replayed:                                             18",
                                             "Records replayed:                                             17")))
    true(masked(text) != masked(text.replace("finish_write count:  ", "finish_write counts: ")))


@test
def interrupted(folder):
    """LMCache leaves no table; ours is there and says partial. The lines so far are the same."""
    words = command("int", folder)
    process = start(*words, "--compat", "lmcache", cwd=lib.TRACES)
    path = os.path.join(folder, "OUT", "r.jsonl")
    until = time.monotonic() + 20
    while time.monotonic() < until and not (os.path.exists(path) and open(path).read().count("\n") == 2):
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    run = end(process)
    equal(run.code, int(golden("int", "rc")), repr(run))
    compare_jsonl(open(path).read(), golden("int", "out", "r.jsonl"))
    true("Records replayed:                                              2" in run.text, repr(run))


@test
def format_json_acts(folder):
    """LMCache takes --format and --output and ignores them."""
    run = lmtrace(*command("format-json", folder), cwd=lib.TRACES)
    equal([run.code, run.json["schema"]], [0, "lmtrace/replay/1"], repr(run))
    with open(os.path.join(folder, "OUT", "report")) as f:
        equal(f.read(), run.text)


@test
def port_is_not_opened(folder):
    run = lmtrace(*command("port-busy", folder), cwd=lib.TRACES)
    equal(run.code, 0, repr(run))


# cli.md 5 and 7: a run of LMCache's that failed late, or that it took, is refused before anything is made.
REFUSED = ["abbrev", "abbrev-ambiguous", "align3000", "badfloat", "badpolicy", "bothl1", "directory", "events-level", "extralog-zero",
           "jsonl-dir", "l1json-bad", "l1json-unknown", "l2-badjson", "l2-notobject", "l2-notype", "l2-unknown", "level-mq", "missing",
           "nofile", "noflags", "nopolicy", "size-nan", "size-zero", "tracing-noendpoint", "ttl-neg", "watermark7"]


def refuse_run(name):
    def check(folder):
        words = command(name, folder)
        before = lib.tree(folder)
        here = lib.tree(lib.TRACES)
        run = lmtrace(*words, cwd=lib.TRACES)
        lib.refused(run)
        equal(lib.tree(folder), before)
        equal(lib.tree(lib.TRACES), here)
    return check


for name in REFUSED:
    test.add("refused_" + name.replace("-", "_"), refuse_run(name))

if __name__ == "__main__":
    sys.exit(test.main())
