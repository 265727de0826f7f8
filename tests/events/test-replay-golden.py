#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`lmtrace replay-events` over the recorded cases: the calls LMCache's own replay made, in order and with their bodies, its counts, exit
codes and table; and the same counts from --dry-run. Where lmtrace differs on purpose, the case is named with its reason."""
import glob
import gzip
import json
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "cli"))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from lib import DATA, Tests, equal, lines, lmtrace, true
from scripted import Gate, Reply, Scripted, nobody_there

EVENTS = os.path.join(DATA, "events")
test = Tests()
server = Scripted()

# Refused before anything is sent (exit 2), where LMCache dies of an uncaught error (exit 1) or takes NaN for 0
REFUSED = {
    "missing_file": "B1: a missing file is a file problem",
    "lifecycle_badport": "B2", "port_70000": "B2", "bad_ts_nan": "B2", "bad_ts_inf": "B2", "bad_binary_value": "B2",
    "speed_negative": "R20", "speed_nan": "R20", "heartbeat_negative": "cli.md 7",
}
# Both trace schemas are read (R2)
ACCEPTED = {"hdr_trace_schema_2", "schema_1_refused"}
# Refused unless allowed (B4, B5); then as LMCache
ALLOWED = {"malformed_frame": ["--allow-damaged"], "two_headers": ["--allow-glued", "--merge=wall-sort"]}
# A file's own order is kept (R5, D1, D2); --merge=wall-sort gives LMCache's
WALL_SORT = {"clock_back", "clock_back_stop"}
# Ids go into paths percent-encoded, trimmed as the coordinator keeps them, or not at all (R13, D3): exit and DELETE
PATHS = {"id_query", "id_percent", "id_slash", "id_space"}
# What the coordinator's clock decides, no prediction can know
BY_CLOCK = {"rc3/paced_no_heartbeat_reaped"}
KEYS = {"Files": "files", "Servers": "servers", "Records": "records", "Batches delivered": "batches", "Batches applied": "applied",
        "Batches duplicate": "duplicates", "Batches stale": "stale", "Start marks": "starts", "Stop marks": "stops",
        "Streams cut without stop": "ended", "Records skipped": "skipped"}


def cases():
    for folder in ("", "rc3"):
        for path in sorted(glob.glob(os.path.join(EVENTS, folder, "expect", "*.json*"))):
            with (gzip.open if path.endswith(".gz") else open)(path, "rt", encoding="utf-8") as f:
                yield folder, os.path.basename(path).split(".")[0], json.load(f)


def files_of(case, cwd):
    return [name if os.path.exists(os.path.join(cwd, name)) or not os.path.exists(os.path.join(cwd, name + ".gz")) else name + ".gz"
            for name in case["files"]]


def arguments(case, url):
    args = []
    for arg in case["replay_args"]:
        if arg == "--coordinator-url-prefix":
            url += "/nowhere"
        elif arg == "--coordinator-url-slash":
            url += "/"
        else:
            args.append(arg)
    return args + ["--coordinator-url", url]


def recorded(calls):
    """Answers as they were recorded, as long as the calls are the recorded ones."""
    def answer(call):
        if call.n >= len(calls):
            return Reply(599, {"detail": "one call too many"})
        expected = calls[call.n]
        return Reply(expected["status"], b"" if expected.get("reply") is None else expected["reply"])
    return answer


def same_calls(found, expected, name):
    equal([(c.method, c.path) for c in found], [(c["method"], c["path"]) for c in expected], name)
    for call, want in zip(found, expected):
        body = want.get("body")
        if body and body.get("chunk_size", 0) is None:  # a field of 0.5.7 that says nothing
            del body["chunk_size"]
        equal(call.json, body, name)
        if want.get("body") is not None:
            equal(call.headers.get("Content-Type"), want.get("content_type", "application/json"), name)


def masked(text):
    return re.sub(r"^(Replay duration \(s\):) +[0-9.]+$", r"\1 <seconds>", re.sub(r" {2,}<seconds>", " <seconds>", text), flags=re.M)


def overall(text):
    """The table up to the end of its first section."""
    kept = []
    for line in masked(text).splitlines():
        if kept and re.fullmatch(r"-+ .* -+", line) and len(kept) > 2:
            break
        kept.append(line)
    return "\n".join(line for line in kept if not re.fullmatch("=+", line)) + "\n"


def ask(folder):
    """What tells a coordinator of 0.5.7 from one of 0.5.6."""
    return lambda call: Reply(405, {}) if folder == "rc3" and call.path == "/config/chunk-size" else nobody_there(call)


def replay(folder, name, case, more=()):
    cwd = os.path.join(EVENTS, folder)
    return lmtrace("replay-events", *files_of(case, cwd), *arguments(case, server.url), *more, cwd=cwd)


def check(folder, name, case):
    expected, calls = case["replay"], case.get("calls", [])
    server.script(recorded(calls), ask(folder))
    if name in REFUSED:
        run = replay(folder, name, case)
        equal((run.code, run.out, server.calls), (2, b"", []), name + repr(run))
        return
    if name in ACCEPTED:
        server.script(Gate().answer)
        equal(replay(folder, name, case).code, 0, name)
        return
    more = []
    if name in ALLOWED:
        equal((replay(folder, name, case).code, server.calls), (2, []), name)
        more = ALLOWED[name]
    if name in WALL_SORT:
        more = ["--merge=wall-sort"]
    if name in PATHS:
        server.script(Gate().answer)
    run = replay(folder, name, case, more)
    if name in PATHS:
        equal(run.code, 0, name + repr(run))
        # LMCache's client trims an id before it registers it, the coordinator does it again
        trim = [{**b, "instance_id": b["instance_id"].strip()} if b and "ip" in b else b for b in (c.json for c in server.calls)]
        equal(trim, [c.get("body") for c in calls][:len(server.calls)], name)
        return
    equal(run.code, expected["exit"], name + repr(run))
    same_calls(server.calls, calls, name)
    if expected["exit"] == 0 and name != "format_json":
        equal(overall(run.text) if expected["stdout"] else run.text, overall(expected["stdout"]) if expected["stdout"] else "", name)
        if "paced" not in name and expected["stdout"] and name not in ALLOWED:
            equal(masked(run.text), masked(expected["stdout"]), name)
    if name == "format_json":
        metrics = run.json["metrics"]["overall"]
        equal({k: metrics[v] for k, v in KEYS.items()}, expected["summary"], name)
    if expected["exit"] == 1:
        true("Stopped" in run.text and len(lines(run.errors)) >= 1, name + repr(run))
        server.script(recorded(calls), ask(folder))
        equal(replay(folder, name, case, more + ["--compat", "lmcache"]).out, b"", name)


def predict(folder, name, case):
    cwd = os.path.join(EVENTS, folder)
    more = ALLOWED[name] if name in ALLOWED else ["--merge=wall-sort"] if name in WALL_SORT else []
    run = lmtrace("replay-events", *files_of(case, cwd), "--dry-run", "--json", *more, cwd=cwd)
    refusals = [i for i, c in enumerate(case.get("calls", [])) if c["status"] == 422]
    if case["replay"]["summary"]:
        equal(run.code, 0, name + repr(run))
        metrics = run.json["metrics"]["overall"]
        equal({k: metrics[v] for k, v in KEYS.items()}, case["replay"]["summary"], name)
        return 1
    if refusals:
        equal(run.code, 1, name + repr(run))
        # one record a call in these files
        equal(run.json["metrics"]["refused"][0]["record"], refusals[0] + 1, name)
        return 1
    return 0


@test
def calls_counts_and_tables(folder):
    n = 0
    for sub, name, case in cases():
        if name == "large":
            continue
        check(sub, name, case)
        n += 1
    true(n >= 110, "only %d cases" % n)


@test
def predictions(folder):
    n = 0
    for sub, name, case in cases():
        if os.path.join(sub, name) not in BY_CLOCK:
            n += predict(sub, name, case)
    true(n >= 90, "only %d cases" % n)


@test
def large(folder):
    with open(os.path.join(EVENTS, "expect", "large.json"), encoding="utf-8") as f:
        case = json.load(f)
    server.script(Gate().answer)
    run = replay("", "large", case, ["--json"])
    equal(run.code, 0, repr(run))
    metrics = run.json["metrics"]["overall"]
    equal({k: metrics[v] for k, v in KEYS.items()}, case["replay"]["summary"])
    equal(len(server.calls), 20000 + 4 + 3)


@test
def own_order(folder):
    """R5: what a clock that steps back does to LMCache's order doesn't happen."""
    for name in sorted(WALL_SORT):
        server.script(Gate().answer)
        run = lmtrace("replay-events", name + ".lct", "--coordinator-url", server.url, "--json", cwd=EVENTS)
        equal(run.code, 0, repr(run))
        seqs = [b["seq"] for c in server.calls if c.path == "/events" for b in c.json["batches"]]
        equal(seqs, sorted(seqs), name)
        equal(run.json["metrics"]["overall"]["duplicates"], 0, name)
        true("steps back" in run.errors, repr(run))


@test
def paths_of_ids(folder):
    """R13: what is deleted is what was registered, and nothing else."""
    expected = {"id_query": ["DELETE /instances/node%3Fx%3D1%23f"], "id_percent": ["DELETE /instances/node%252Fa"], "id_slash": [],
                "id_space": ["DELETE /instances/node%20a"]}
    for name, deletes in expected.items():
        server.script(Gate().answer)
        run = lmtrace("replay-events", name + ".lct", "--coordinator-url", server.url, cwd=EVENTS)
        equal(run.code, 0, repr(run))
        found = ["%s %s" % (c.method, c.path) for c in server.calls if c.method == "DELETE"]
        equal(found, deletes, name)
    true("no path can hold this id" in lmtrace("replay-events", "id_slash.lct", "--coordinator-url", server.url, cwd=EVENTS).errors)


if __name__ == "__main__":
    code = test.main()
    server.close()
    sys.exit(code)
