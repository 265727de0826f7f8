#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""cli.md 9.6: what the text of a report says is in its JSON too, envelope and all; CSV has the same counts."""
import csv
import io
import os
import re
import sys

from lib import Tests, TRACES, contains, equal, lmtrace, lines, true

tests = Tests()
FLAGS = ["--l1-size-gb", "0.05", "--eviction-policy", "LRU", "--speed", "0", "--no-csv", "--l2", "dram:max_size_gb=0.01,bandwidth_gb=0"]
MEASURED = ("mean", "p50", "p99", "p99*", "p99.9", "p99.9*", "max", "duration (s)", "/s)", "(ms)", "(ms)*")


def numbers(value, found):
    """Every number of a JSON value, as the texts a table may show it by."""
    if isinstance(value, dict):
        for inner in value.values():
            numbers(inner, found)
    elif isinstance(value, list):
        for inner in value:
            numbers(inner, found)
    elif isinstance(value, bool) or value is None:
        return
    elif isinstance(value, int):
        found.add(str(value))
        found.add("%.2f" % value)
    elif isinstance(value, float):
        found.add("%.2f" % float("%.3f" % value))
        found.add("%.2f" % value)
        found.add("%.2f" % (100 * value))
    else:
        found.update(re.findall(r"\d+(?:\.\d+)?", value))


def timeless(line):
    """A row that says the same in every settled run."""
    label = line.rsplit(":", 1)[0]
    return not label.endswith(MEASURED) and "run=" not in line


def one(name, *more):
    def test(folder):
        path = os.path.join(TRACES, name)
        text = lmtrace("replay", path, *FLAGS, *more, cwd=folder)
        form = lmtrace("replay", path, *FLAGS, *more, "--format", "json", cwd=folder)
        equal(form.code, text.code, repr(form))
        envelope = form.json
        equal([key for key in envelope], ["schema", "title", "metrics", "warnings", "partial", "exit"], repr(form))
        equal(envelope["schema"], "lmtrace/replay/1")
        equal(envelope["partial"], False)
        equal(envelope["exit"], form.code)
        contains(text.text, " %s " % envelope["title"])
        for warning in envelope["warnings"]:
            equal(sorted(warning), ["code", "count", "message"])
        found = set()
        numbers(envelope["metrics"], found)
        shown = [line for line in lines(text.text) if ":" in line and timeless(line)]
        true(len(shown) > 10, text.text)
        for line in shown:
            value = line.rsplit(":", 1)[1].split(" (")[0]
            for number in re.findall(r"(?<![\w.])\d+(?:\.\d+)?(?![\w.])", value):
                true(number in found, "%s: %s is not in the JSON" % (line, number))

        table = lmtrace("replay", path, *FLAGS, *more, "--format", "csv", cwd=folder)
        equal(table.code, text.code, repr(table))
        rows = list(csv.DictReader(io.StringIO(table.out.decode(), newline="")))
        overall = envelope["metrics"]["overall"]
        for column, key in (("count", "replayed"), ("errors", "failed"), ("skipped", "skipped"), ("undecodable", "undecodable"),
                            ("mismatch", "mismatch")):
            equal(sum(int(row[column]) for row in rows), overall[key], column)
        equal([row["qualname"] for row in rows], [row["qualname"] for row in envelope["metrics"]["per_op"]])
        equal(sorted(os.listdir(folder)), [])
    tests.add("%s %s" % (name, " ".join(more)), test)


for trace in ("storage-clean.lct", "storage-faults.lct", "storage-skipped.lct", "real-storage.lct", "storage-empty.lct"):
    if os.path.exists(os.path.join(TRACES, trace)):
        one(trace)
one("storage-clean.lct", "--records", "2..9")
one("storage-clean.lct", "--loop", "3")


@tests
def both_places(folder):
    """--output has what stdout has; -q leaves that alone; `-` prints once."""
    path = os.path.join(TRACES, "storage-clean.lct")
    out = os.path.join(folder, "out.json")
    run = lmtrace("info", path, "--format", "json", "--output", out)
    with open(out, "rb") as file:
        equal(file.read(), run.out)
    quiet = lmtrace("info", path, "--format", "json", "--output", out, "-q")
    equal((quiet.code, quiet.out), (0, b""))
    equal(lmtrace("info", path, "--format", "json", "--output", "-").out, run.out)
    equal(sorted(os.listdir(folder)), ["out.json"])


sys.exit(tests.main())
