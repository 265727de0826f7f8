#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`info` beside what LMCache printed: every golden trace of every release, every golden run of the command line."""
import glob
import json
import os
import re

import lib
from lib import CLI_DATA, DATA, TRACES, Tests, equal, lines, lmtrace, refused, true

test = Tests()


def fold(text):
    """Up to 0.5.5 values stand from column 24 on: blanks behind the first colon of a line count as one."""
    return "".join(re.sub(r":[ ]+", ": ", line, count=1) for line in text.splitlines(True))


def genuine(path):
    def run_one(folder):
        with open(path) as f:
            golden = json.load(f)
        name = os.path.basename(path)[:-5] + ".lct"
        run = lmtrace("info", name, cwd=os.path.dirname(path))
        equal((run.code, run.errors), (0, ""), repr(run))
        if golden["release"] < "0.5.6":
            equal(fold(run.text), fold(golden["info_stdout"]))
        else:
            equal(run.text, golden["info_stdout"])
    return run_one


# LMCache lets infinity win the duration; here it is the largest finite time (trace-format.md 3.1).
DURATION_DIFFERS = {"time-huge"}


def malformed(path):
    def run_one(folder):
        with open(path) as f:
            golden = json.load(f)
        name = os.path.basename(path)[:-5]
        wanted, reference = golden["lmtrace"], golden["upstream_0.5.6"]
        run = lmtrace("info", name + ".lct", cwd=os.path.dirname(path))
        if wanted["header"] == "refused":
            equal(wanted["exit_info"], 1)  # the reference's; an unusable file is 2 here
            refused(run)
            true(run.errors.startswith("lmtrace: %s.lct: frame 0 at offset 0: " % name))
            return
        equal(run.code, wanted["exit_info"])
        text = run.text
        if reference.get("open") == "ok" and reference["info_exit"] == 0:
            expected = reference["info_stdout"]
            if name in DURATION_DIFFERS:
                drop = re.compile(r"^  duration:.*\n", re.M)
                text, expected = drop.sub("", text), drop.sub("", expected)
            equal(text, expected)
        state = lmtrace("info", "--json", name + ".lct", cwd=os.path.dirname(path)).json["metrics"]
        equal(state["total_records"], wanted["records"])
        equal(state["ops"], wanted["qualnames"])
        equal(state["state"]["malformed"], wanted["malformed_count"])
        for reason in {m["reason"] for m in wanted["malformed"]}:
            listed = sum(m["reason"] == reason for m in wanted["malformed"])
            true(state["state"]["malformed_by_reason"][reason] >= listed)
        # Each malformed frame is a line: number, start, length, reason; more than ten of a kind are counted.
        for m in wanted["malformed"][:10]:
            if state["state"]["zero_fill_frames"] > 0:
                break
            size = " (%d bytes)" % m["length"] if m["length"] else ""
            detail = ": " + m["detail"] if m["detail"] else ""
            start = "lmtrace: warning: %s.lct: record %d at offset %d%s: %s%s" % (
                name, m["frame"], m["offset"], size, m["reason"], detail)
            true(any(line.startswith(start) for line in lines(run.errors)), start + "\n" + run.errors)
        tail = wanted["tail"]
        if tail is not None:
            equal(state["state"]["tail_offset"], tail["offset"])
            equal(state["state"]["tail"], "corrupt" if "resync" in wanted else "truncated")
            true(any("at offset %d " % tail["offset"] in line for line in lines(run.errors)), run.errors)
        for note in wanted.get("header_notes", []):
            true(note in run.errors, note + "\n" + run.errors)
        # Strict: what is damaged counts.
        damaged = wanted["malformed_count"] > 0 or tail is not None
        equal(lmtrace("info", "--strict", name + ".lct", cwd=os.path.dirname(path)).code, 1 if damaged else 0)
        if "resync" in wanted:
            repaired = lmtrace("info", "--resync", "--json", name + ".lct", cwd=os.path.dirname(path)).json["metrics"]
            equal(repaired["total_records"], wanted["records"] + wanted["resync"]["records"])
            equal(repaired["state"]["lost_bytes"], wanted["resync"]["offset"] - tail["offset"])
    return run_one


# Runs whose exit code or output is not the reference's, and why (cli.md 7, 8.5).
REFUSED = {"directory", "format-bad", "missing", "noarg", "png", "storage-badmagic", "three-bytes", "unknownflag", "zero-bytes"}
ACTS = {"format-json", "output", "quiet"}


def golden_run(path):
    name = os.path.basename(path)[len("info-"):]

    def run_one(folder):
        with open(os.path.join(path, "command")) as f:
            words = f.read().split()[3:]
        with open(os.path.join(path, "stdout")) as f:
            expected = f.read()
        with open(os.path.join(path, "rc")) as f:
            code = int(f.read())
        words = [word.replace("OUT", folder) for word in words]
        run = lmtrace("info", *words, cwd=TRACES)
        if name in REFUSED:
            refused(run)
        elif name == "two":
            # The reference takes one FILE; here each has its line.
            equal((run.code, run.out), (2, b""))
            equal(len(lines(run.errors)), 2)
        elif name == "format-json":
            equal(run.code, 0)
            equal(run.json["metrics"]["total_records"], 0)
        elif name == "output":
            equal((run.code, run.text), (0, expected))
            with open(os.path.join(folder, "report")) as f:
                equal(f.read(), expected)
        elif name == "quiet":
            equal((run.code, run.out), (0, b""))
        elif name == "storage-schema2":
            # Schemas 1 and 2 are both read.
            equal(run.code, 0)
            true("  trace_schema_version:       2\n" in run.text)
        else:
            equal((run.code, run.text), (code, expected), repr(run))
    return run_one


for where in sorted(glob.glob(os.path.join(DATA, "storage", "*", "*.json"))):
    release, base = where.split(os.sep)[-2:]
    test.add("%s/%s" % (release, base[:-5]), (malformed if release == "malformed" else genuine)(where))
for where in sorted(glob.glob(os.path.join(CLI_DATA, "runs", "info-*"))):
    test.add(os.path.basename(where), golden_run(where))
if len(test.tests) < 160:
    raise SystemExit("golden data is missing: %d tests" % len(test.tests))
raise SystemExit(test.main())
