#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`lmtrace info` of events traces: LMCache's text byte for byte, its failures as ours are, and what it can't do."""
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "cli"))
from lib import DATA, Tests, equal, header, lmtrace, record, refused, true

EVENTS = os.path.join(DATA, "events")
test = Tests()
# LMCache ends with an error, lmtrace shows what it can: the second schema, an entry that is no map (events.md R2, D16)
READ_ALL_THE_SAME = {"hdr_trace_schema_2.lct", "bad_entry_string.lct"}


def info(name, *more):
    return lmtrace("info", *more, name, cwd=EVENTS)


@test
def golden_text(folder):
    with open(os.path.join(EVENTS, "info.json"), encoding="utf-8") as f:
        golden = json.load(f)
    compared = 0
    for name, expect in golden.items():
        if expect["exit"] == 0:
            packed = name if os.path.exists(os.path.join(EVENTS, name)) else name + ".gz"
            run = info(packed)
            equal((run.code, run.text.replace(packed, name, 1)), (0, expect["stdout"]), name)
            compared += 1
    true(compared > 90, f"only {compared} files compared")


@test
def golden_failures(folder):
    with open(os.path.join(EVENTS, "info.json"), encoding="utf-8") as f:
        golden = json.load(f)
    n = 0
    for name, expect in golden.items():
        if expect["exit"] != 0:
            run = info(name)
            if name in READ_ALL_THE_SAME:
                equal(run.code, 0, repr(run))
                continue
            refused(run, name)
            true(name in run.errors, repr(run))
            n += 1
    true(n >= 5, f"only {n} files refused")


@test
def odd_values_are_counted(folder):
    true("    values_not_counted:         1\n" in info("bad_entry_string.lct").text)


@test
def names_beyond_what_is_kept_are_counted(folder):
    """65,536 names of a kind are kept: what is missing is told, and memory stays bounded."""
    path = os.path.join(folder, "many.lct")
    n = 65536
    with open(path, "wb") as f:
        f.write(header("events"))
        for i in range(n + 5):
            f.write(record(1.0, "events.batch", {"instance_id": "i%d" % i, "incarnation": 1, "seq": 1, "event_type": "config", "tier": "l1"}))
        f.write(record(1.0, "events.batch", {"instance_id": "i%d" % n, "incarnation": 1, "seq": 2, "event_type": "config", "tier": "l1"}))
    run = lmtrace("info", path)
    equal(run.code, 0, repr(run)[-500:])
    true("    instances:                  65536\n" in run.text, run.text[:900])
    true("    names_left_out:             6\n" in run.text, run.text[-900:])
    events = lmtrace("info", path, "--json").json["metrics"]["events"]
    equal((len(events["instances"]), events["names_left_out"], events["batches"][0]["count"]), (n, 6, n + 6))


@test
def json_has_the_same_numbers(folder):
    events = info("all_types.lct", "--format", "json").json["metrics"]["events"]
    text = info("all_types.lct").text
    true(f"    store_bytes:                {events['store_bytes']}\n" in text, text)
    for batch in events["batches"]:
        scope = "shared" if batch["shared"] else "local"
        line = f"      {batch['event_type']}/{batch['tier']}/{batch['backend'] or '-'}/{scope}: {batch['count']}\n"
        true(line in text, line)
    for kind, n in events["entries"].items():
        true(f"      {kind}: {n}\n" in text, kind)


@test
def selection(folder):
    run = info("all_types.lct", "--event-type", "store", "--tier", "l2")
    lines = [line for line in run.text.splitlines() if line.startswith("      ") and "/" in line]
    true(lines and all(line.strip().startswith("store/l2/") for line in lines), run.text)


@test
def controls_are_shown_not_sent(folder):
    path = os.path.join(folder, "odd.lct")
    with open(path, "wb") as f:
        f.write(header("events"))
        f.write(record(0.0, "events.batch", {"instance_id": "a\x1b[31m\x00b", "incarnation": None, "event_type": "st\x00re",
                                             "tier": "l1", "backend": "dram", "entries": {"a": 1}}))
        f.write(record(1.0, "events.lifecycle", {"phase": 7}))
    run = lmtrace("info", path)
    equal(run.code, 0, repr(run))
    true("\x1b" not in run.text and "\x00" not in run.text, repr(run))
    for line in ("      a\\x1b[31m\\x00b: incarnations=[] restarts=0\n", "      st\\x00re/l1/dram/local: 1\n",
                 "    lifecycle:                  7=1\n", "    values_not_counted:         2\n"):
        true(line in run.text, f"{line!r} in {run.text!r}")


@test
def replay_names_the_command(folder):
    run = lmtrace("replay", "all_types.lct", "--l1-size-gb", "1", "--eviction-policy", "LRU", cwd=EVENTS)
    refused(run)
    true("replay-events" in run.errors, repr(run))


if __name__ == "__main__":
    sys.exit(test.main())
