#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every flag of LMCache's `trace replay`, 0.5.6 and 0.5.7rc3, pasted alone onto a working command (cli.md 5, 6, 9.7)."""
import json
import os
import sys

import lib
from lib import Tests, equal, lmtrace, true

test = Tests()

L1 = ["--l1-size-gb", "0.0625", "--eviction-policy", "LRU"]
# flag -> (value or None, exit code, warnings) for a value that is not the default
ACT, WARN, REFUSE = (0, 0), (0, 1), (2, 1)
FLAGS = {
    "--verbose": (None, ACT), "--jsonl-out": ("OUT/r.jsonl", ACT), "--output-dir": ("OUT/x/y", ACT), "--no-csv": (None, ACT),
    "--json": (None, ACT), "--format": ("json", ACT), "--output": ("OUT/report", ACT), "-q": (None, ACT), "--quiet": (None, ACT),
    "--l1-manager": ('{"type":"DRAM","tag":"_default","size_gb":0.0625}', ACT), "--l1-size-gb": ("0.125", ACT),
    "--l1-use-lazy": (None, ACT), "--no-l1-use-lazy": (None, ACT), "--l1-init-size-gb": ("1", ACT), "--l1-align-bytes": ("8192", ACT),
    "--l1-use-hugepages": (None, None), "--no-l1-use-hugepages": (None, ACT), "--l1-devdax-path": ("/dev/dax0.0", REFUSE),
    "--l1-devdax-offset-gb": ("1", WARN), "--l1-mlock": (None, None), "--gds-l1-path": ("/gds", REFUSE),
    "--gds-l1-use-direct-io": (None, ACT), "--no-gds-l1-use-direct-io": (None, WARN), "--gds-l1-backend": ("cufile", WARN),
    "--l1-write-ttl-seconds": ("60", ACT), "--l1-read-ttl-seconds": ("60", ACT), "--eviction-policy": ("ARC", ACT),
    "--eviction-trigger-watermark": ("0.5", ACT), "--eviction-ratio": ("0.5", ACT), "--l2-store-policy": ("skip_l1", ACT),
    "--l2-prefetch-policy": ("retain", ACT), "--l2-prefetch-max-in-flight": ("2", ACT), "--l2-prefetch-inflight-watermark": ("0.7", ACT),
    "--periodic-notifier-interval-ms": ("7", WARN), "--l2-adapter": ('{"type":"null"}', None), "--disable-observability": (None, ACT),
    "--disable-metrics": (None, ACT), "--disable-grpc-metrics": (None, ACT), "--disable-logging": (None, ACT),
    "--enable-tracing": (None, REFUSE), "--enable-token-trace": (None, WARN), "--otlp-endpoint": ("http://127.0.0.1:1", WARN),
    "--event-bus-queue-size": ("5", WARN), "--prometheus-port": ("PORT", None), "--metrics-sample-rate": ("0.5", WARN),
    "--lookup-hash-log-dir": ("OUT/h", None), "--lookup-hash-log-rotation-interval": ("60", ACT),
    "--lookup-hash-log-rotation-max-size": ("1000", ACT), "--lookup-hash-log-max-files": ("3", ACT), "--enable-gc-monitor": (None, WARN),
    "--gc-monitor-min-pause-ms": ("2.0", WARN), "--gc-monitor-top-objects": ("3", WARN), "--enable-extra-logging": (None, ACT),
    "--extra-logging-interval": ("5.0", ACT), "--trace-level": ("storage", None), "--trace-output": ("OUT/t.lct", WARN),
    "--shm-name": ("x", WARN),
}


def load(name):
    with open(os.path.join(lib.CLI_DATA, name)) as f:
        return json.load(f)


OLD = [row for row in load("flags-0.5.6.json")["replay"] if row["options"][0] != "FILE"]
NEW = load("flags-0.5.7rc3.json")
NAMES = sorted({option for row in OLD + NEW for option in row["options"]} | set(FLAGS))


def working(flag, folder):
    base = ["--eviction-policy", "LRU"] if flag == "--l1-manager" else list(L1)
    if flag == "--eviction-policy":
        base = base[:2]
    if flag != "--output-dir":
        base += ["--output-dir", os.path.join(folder, "out")]
    return [os.path.join(lib.TRACES, "storage-empty.lct"), *base]


def paste(flag, value, folder):
    if value is not None:
        value = value.replace("OUT", folder)
        if value == "PORT":
            import socket
            probe = socket.socket()
            probe.bind(("127.0.0.1", 0))
            value = str(probe.getsockname()[1])
            probe.close()
    return lmtrace("replay", *working(flag, folder), flag, *([] if value is None else [value]), cwd=folder,
                   env=lib.environment(TMPDIR=folder))


def alone(flag):
    def check(folder):
        true(flag in FLAGS, "no expectation for " + flag)
        value, fate = FLAGS[flag]
        run = paste(flag, value, folder)
        said = lib.lines(run.errors)
        true(len(said) <= 1, repr(run))
        if fate is None:  # what this machine or this build has: either works, or one line says why not
            true((run.code == 0) or (run.code == 2 and len(said) == 1 and flag in said[0]), repr(run))
            return
        equal([run.code, len(said)], list(fate), repr(run))
        if fate != ACT:
            true(flag.replace("--no-", "--") in said[0] or flag in said[0], repr(run))
        if fate == WARN:
            true("accepted for LMCache's sake, has no effect here" in said[0] or "no effect" in said[0], repr(run))
    return check


for flag in NAMES:
    test.add("alone" + flag, alone(flag))


def default_text(row):
    default = row.get("default")
    if "kind" in row:
        return None if default in (None, [], False) else default
    text = {"6 * 3600": 21600, "100 * 1024 * 1024": 104857600}.get(default)
    if text is None and default not in (None, "None", "[]", "False"):
        text = eval(default, {"__builtins__": {}})  # literals of the table
    return text


@test
def defaults_are_the_same(folder):
    run = lmtrace("replay", os.path.join(lib.TRACES, "storage-empty.lct"), *L1, "--print-config", "--format", "json")
    equal(run.code, 0, repr(run))
    rows = {row["option"]: row["value"] for row in run.json["metrics"]["options"]}
    given = ("l1-size-gb", "eviction-policy", "format", "output")
    for source in (OLD, NEW):
        for row in source:
            option = [name for name in row["options"] if name.startswith("--") and not name.startswith("--no-l1")
                      and not name.startswith("--no-gds")][0][2:]
            true(option in rows, "%s is not known" % option)
            default = default_text(row)
            if option in given or default is None:
                continue
            if option == "l2-prefetch-max-in-flight" and source is NEW:
                continue  # 0.5.7 ignores it; here it acts in both
            value = rows[option]
            if isinstance(default, bool):
                equal(value, "true" if default else "false", option)
            elif isinstance(default, (int, float)):
                equal(float(value), float(default), option)
            else:
                equal(value or "", default, option)


@test
def a_default_given_is_silent(folder):
    for row in OLD:
        default = default_text(row)
        if default in (None, True) or row["nargs"] == 0:
            continue
        run = paste(row["options"][0], str(default), folder) if row["options"][0] != "--prometheus-port" else None
        if run is not None:
            equal([run.code, run.err], [0, b""], row["options"][0] + repr(run))


if __name__ == "__main__":
    sys.exit(test.main())
