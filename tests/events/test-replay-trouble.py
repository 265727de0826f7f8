#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`lmtrace replay-events` against coordinators that misbehave, and files, ids and flags that do: one clear line, the right exit code, a
whole partial report, nothing that hangs longer than its time-out. The scripted cases are those recorded with LMCache's own client."""
import json
import os
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "cli"))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from lib import DATA, Tests, contains, end, equal, frame, header, lines, lmtrace, pack, record, refused, start, true, write
from scripted import DROP, HANG, RESET, Gate, Reply, Scripted, nobody_there

EVENTS = os.path.join(DATA, "events")
test = Tests()
server = Scripted()


def replay(*args, url=None, cwd=EVENTS, **more):
    return lmtrace("replay-events", *args, "--coordinator-url", url or server.url, cwd=cwd, **more)


def seconds(func, *args, **more):
    began = time.monotonic()
    run = func(*args, **more)
    return run, time.monotonic() - began


def at_third(reply):
    """The third POST /events gets `reply`, all else is well."""
    gate, posts = Gate(), [0]

    def answer(call):
        if call.path == "/events":
            posts[0] += 1
            if posts[0] == 3:
                return reply() if callable(reply) else reply
        return gate.answer(call)
    return answer


def always(path, reply, method="POST"):
    gate = Gate()
    return lambda call: reply() if call.path == path and call.method == method else gate.answer(call)


def counts(change):
    gate = Gate()

    def answer(call):
        return change(gate.post(call.body)) if call.path == "/events" else gate.answer(call)
    return answer


def json_events(name, *more):
    """A small trace of one server, made by hand."""
    return [header("events", level_meta={"instance_id": name, "cache_event_schema_version": 1}), *more]


def batch(t, name, seq, incarnation=1, **more):
    args = {"instance_id": name, "incarnation": incarnation, "seq": seq, "event_type": "store", "tier": "l1", "backend": "dram",
            "entries": [{"key": {"chunk_hash_hex": "%064x" % seq, "model_name": "m", "kv_rank": 0, "object_group_id": 0, "cache_salt": ""},
                         "size_bytes": 100, "token_ids": [], "token_offset": -1}], "shared": False, "ts": 1758400000.0 + t}
    args.update(more)
    return record(t, "events.batch", args)


def mark(t, name, phase="start", **more):
    args = {"phase": phase, "instance_id": name}
    if phase == "start":
        args.update({"incarnation": 1, "ip": "10.0.0.5", "http_port": 8000, "mq_port": 0})
    args.update(more)
    return record(t, "events.lifecycle", args)


def made(folder, name, *records, file=None):
    return write(os.path.join(folder, file or name + ".lct"), *json_events(name, *records))


# -------- the scripted cases of LMCache's client --------

SCRIPTS = {
    "events_500": at_third(lambda: Reply(500, {"detail": "x"}, {"reason": "X"})),
    "events_503_retry_after": at_third(lambda: Reply(503, {}, {"Retry-After": "1"})),
    "events_429": at_third(lambda: Reply(429, {})),
    "events_404": always("/events", lambda: Reply(404, {"detail": "Not Found"})),
    "events_dropped": at_third(DROP),
    "events_redirect": at_third(lambda: Reply(307, b"", {"Location": "/elsewhere"})),
    "events_204": at_third(lambda: Reply(204)),
    "events_not_json": at_third(lambda: Reply(200, b"fine")),
    "events_empty_object": at_third(lambda: Reply(200, {})),
    "events_extra_fields": counts(lambda c: Reply(200, {**c, "more": [1, {"a": None}], "text": "\u20ac"})),
    "events_string_counts": counts(lambda c: Reply(200, {k: str(v) for k, v in c.items()})),
    "events_text_counts": at_third(lambda: Reply(200, {"applied": "many"})),
    "events_negative": at_third(lambda: Reply(200, {"applied": -5, "duplicates": 0, "stale": 0})),
    "events_201": counts(lambda c: Reply(201, c)),
    "register_500": always("/instances", lambda: Reply(500, {})),
    "register_409": always("/instances", lambda: Reply(409, {})),
    "register_other_id": always("/instances", lambda: Reply(200, {"instance_id": "other", "re_registered": False})),
    "register_bad_reply": always("/instances", lambda: Reply(200, {})),
    "delete_500": always("/instances/node-a", lambda: Reply(500, {}), "DELETE"),
    "delete_404": always("/instances/node-a", lambda: Reply(404, {}), "DELETE"),
}
KEYS = {"Batches delivered": "batches", "Batches applied": "applied", "Batches duplicate": "duplicates", "Batches stale": "stale",
        "Start marks": "starts", "Stop marks": "stops", "Records": "records"}
# B9, D17: LMCache adds up negative counts; here such a reply counts as nothing
NOT_SUMMED = {"events_negative": {"Batches applied": 8}}


def scripted_cases():
    with open(os.path.join(EVENTS, "scripted.json"), encoding="utf-8") as f:
        return {case["case"]: case for case in json.load(f)}


@test
def scripted(folder):
    cases, done = scripted_cases(), 0
    for name, answer in SCRIPTS.items():
        case = cases[name]
        server.script(answer)
        run = replay(case["trace"], *case["args"], "--json")
        equal(run.code, case["exit"], name + repr(run))
        calls = [(c.method, c.path, c.status) for c in server.calls]
        equal(calls, [(c["method"], c["path"], c["status"]) for c in case["calls"]], name)
        report = run.json
        equal(report["partial"], case["exit"] != 0, name)
        if case["summary"]:
            expected = {**case["summary"], **NOT_SUMMED.get(name, {})}
            equal({k: report["metrics"]["overall"][v] for k, v in KEYS.items()}, {k: expected[k] for k in KEYS}, name)
        else:
            fails = [line for line in lines(run.errors) if "warning" not in line]
            equal(len(fails), 1, name + repr(run))
            contains(fails[0], "coordinator at http://127.0.0.1:")
            contains(fails[0], "single.lct: record ")
            equal(report["metrics"]["overall"]["records"], len(calls) - 1, name)
            equal(report["metrics"]["stopped"]["not_sent"], 11 - (len(calls) - 1), name)
        done += 1
    true(done == 20)


@test
def scripted_urls(folder):
    for url in ("coordinator:9300", "ftp://x", "", "http://", "http://user@x", "unix:relative", "http://x?y=1"):
        run = lmtrace("replay-events", "single.lct", "--coordinator-url", url, cwd=EVENTS)
        refused(run, url)
    run, took = seconds(replay, "single.lct", url="http://127.0.0.1:1")
    equal(run.code, 1, repr(run))
    contains(run.errors, "no reply: ")
    true(took < 5, took)


@test
def heartbeats(folder):
    for name, status, beats in (("heartbeat_500", 500, 4), ("heartbeat_dropped", None, 4)):
        server.script(beat=lambda call: DROP if status is None else Reply(status, {}))
        run = replay("paced.lct", "--speed", "1", "--heartbeat-interval", "0.5", "--json")
        equal(run.code, 0, name + repr(run))
        true(beats - 1 <= len(server.beats) <= beats + 2, "%s: %d heartbeats" % (name, len(server.beats)))
        equal({(c.method, c.path) for c in server.beats}, {("PUT", "/instances/node-pace/heartbeat")}, name)
        equal([c.body for c in server.beats if c.body], [], name)
        equal([c.method for c in server.calls], ["POST"] * 7 + ["DELETE"], name)
        true(run.json["metrics"]["delivery"]["heartbeats_failed"] >= beats - 1, repr(run))


@test
def heartbeats_begin_anew_after_a_404(folder):
    """LMCache forgets to (D4)."""
    path = made(folder, "n", mark(0, "n"), *[batch(0.2 * i, "n", i + 1) for i in range(4)], mark(0.8, "n"),
                *[batch(0.8 + 0.2 * i, "n", i + 5) for i in range(5)])
    server.script(beat=lambda call: Reply(404 if call.n == 0 else 200, {}))
    run = replay(path, "--speed", "1", "--heartbeat-interval", "0.3")
    equal(run.code, 0, repr(run))
    contains(run.errors, "the coordinator dropped n at record ")
    true(len(server.beats) >= 2, "%d heartbeats" % len(server.beats))
    equal([c.method + " " + c.path for c in server.calls].count("POST /instances"), 2)
    server.script(beat=lambda call: Reply(404 if call.n == 0 else 200, {}))
    run = replay(path, "--speed", "1", "--heartbeat-interval", "0.3", "--reregister")
    equal(run.code, 0, repr(run))
    equal([c.method + " " + c.path for c in server.calls].count("POST /instances"), 3)


@test
def registering_again_may_fail(folder):
    path = made(folder, "n", mark(0, "n"), *[batch(0.2 * i, "n", i + 1) for i in range(4)])
    gate, registered = Gate(), [0]

    def answer(call):
        registered[0] += call.path == "/instances"
        return Reply(503, {"detail": "not now"}) if call.path == "/instances" and registered[0] > 1 else gate.answer(call)
    server.script(answer, beat=lambda call: Reply(404, {}))
    run = replay(path, "--speed", "1", "--heartbeat-interval", "0.25", "--reregister")
    equal(run.code, 0, repr(run))
    contains(run.errors, "registering n again failed: 503 ")


@test
def a_dropped_instance_is_not_deleted(folder):
    path = made(folder, "n", mark(0, "n"), batch(0, "n", 1), batch(0.6, "n", 2), mark(0.6, "n", "stop"))
    server.script(beat=lambda call: Reply(404, {}))
    equal(replay(path, "--speed", "1", "--heartbeat-interval", "0.2").code, 0)
    equal([c.method for c in server.calls], ["POST"] * 3)


# -------- time --------

@test
def nothing_hangs(folder):
    for what, script in (("events", {"answer": at_third(HANG)}), ("questions", {"ask": lambda call: HANG}),
                         ("a slow reply", {"answer": at_third(lambda: Reply(200, {}, delay=20))})):
        server.script(**script)
        run, took = seconds(replay, "single.lct", "--timeout", "0.5s")
        equal(run.code, 1, what + repr(run))
        contains(run.errors, "nothing whole within 0.5 s (--timeout)")
        true(took < 5, "%s: %.1f s" % (what, took))
    # a body that comes byte by byte is one reply, too
    server.script(at_third(lambda: Reply(200, b'{"applied": 1, "duplicates": 0, "stale": 0}', cut=10)))
    run = replay("single.lct", "--timeout", "5s")
    equal(run.code, 1, repr(run))
    true(len([line for line in lines(run.errors)]) == 1, repr(run))


@test
def a_hanging_heartbeat_holds_nobody(folder):
    server.script(beat=lambda call: HANG)
    run, took = seconds(replay, "paced.lct", "--speed", "2", "--heartbeat-interval", "0.1")
    equal(run.code, 0, repr(run))
    true(took < 8, "%.1f s" % took)


@test
def no_connection_in_time(folder):
    # a listener whose queue is full takes no more connections
    import socket
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", 0))
        busy.listen(0)
        held = []
        for _ in range(8):
            one = socket.socket()
            one.setblocking(False)
            one.connect_ex(busy.getsockname())
            held.append(one)
        time.sleep(0.1)
        run, took = seconds(replay, "single.lct", "--connect-timeout", "0.4s", "--timeout", "3s", url="http://127.0.0.1:%d" % busy.getsockname()[1])
        for one in held:
            one.close()
    equal(run.code, 1, repr(run))
    true(took < 8, "%.1f s" % took)


# -------- --on-error=retry --------

@test
def retry(folder):
    for reply in (lambda: Reply(503, {}), lambda: Reply(429, {}), DROP, RESET):
        server.script(at_third(reply))
        run = replay("single.lct", "--on-error", "retry", "--json")
        equal(run.code, 0, repr(run))
        metrics = run.json["metrics"]
        equal((metrics["overall"]["applied"], metrics["overall"]["duplicates"], metrics["delivery"]["retried"]), (9, 0, 1), repr(run))
        # A coordinator that answers was not restarted; one that was silent may have been.
        equal("the coordinator was not there for a while" in run.errors, reply in (DROP, RESET), repr(run))
    server.script(always("/events", lambda: Reply(503, {})))
    run, took = seconds(replay, "single.lct", "--on-error", "retry", "--retries", "2")
    equal((run.code, len(server.calls)), (1, 4), repr(run))
    true(0.25 < took < 5, "%.2f s" % took)
    server.script(at_third(lambda: Reply(500, {})))
    equal(replay("single.lct", "--on-error", "retry").code, 1)  # 500 is no try again


@test
def retry_waits_as_told(folder):
    server.script(at_third(lambda: Reply(503, {}, {"Retry-After": "1"})))
    run, took = seconds(replay, "single.lct", "--on-error", "retry")
    equal(run.code, 0, repr(run))
    true(took >= 1, "%.2f s" % took)


@test
def a_repeat_of_what_was_received_counts_as_applied(folder):
    gate, posts = Gate(), [0]

    def answer(call):
        reply = gate.answer(call)
        posts[0] += call.path == "/events"
        return DROP if call.path == "/events" and posts[0] == 3 else reply
    server.script(answer)
    run = replay("single.lct", "--on-error", "retry", "--json")
    metrics = run.json["metrics"]
    equal((run.code, metrics["overall"]["applied"], metrics["overall"]["duplicates"]), (0, 9, 0), repr(run))
    equal(metrics["prediction"]["mismatches"], 0)


# -------- replies --------

@test
def server_text_is_cut_and_cleaned(folder):
    server.script(at_third(lambda: Reply(400, b"\x1b[31mred\xff\x00" + b"x" * 5000)))
    run = replay("single.lct")
    equal(run.code, 1, repr(run))
    true(b"\x1b" not in run.err and b"\x00" not in run.err and b"\xff" not in run.err, repr(run.err))
    true(b"\x1b" not in run.out, repr(run.out))
    true(len(run.err) < 3000, len(run.err))
    contains(run.errors, "\\x1b[31mred")


@test
def a_large_reply_is_refused(folder):
    server.script(at_third(lambda: Reply(200, b" " * (3 << 20))))
    run = replay("single.lct")
    equal(run.code, 1, repr(run))
    contains(run.errors, "body of more than 1048576 bytes")


@test
def counts_that_do_not_add_up(folder):
    for reply in ({"applied": 2, "duplicates": 0, "stale": 0}, {"applied": -1, "duplicates": 2, "stale": 0},
                  {"applied": 10 ** 30, "duplicates": 0, "stale": 0}):
        server.script(at_third(lambda: Reply(200, reply)))
        run = replay("single.lct", "--json")
        equal((run.code, run.json["metrics"]["delivery"]["unclear"]), (0, 1), repr(run))
        contains(run.errors, "counts of a reply")
        server.script(at_third(lambda: Reply(200, reply)))
        equal(replay("single.lct", "--strict").code, 1)


@test
def the_first_404_names_the_causes(folder):
    server.script(always("/events", lambda: Reply(404, {"detail": "Not Found"})))
    run = replay("single.lct")
    equal(run.code, 1)
    contains(run.errors, "--events-path")
    contains(run.errors, "Kafka")
    gate = Gate()

    def answer(call):
        if call.path == "/directory/events":
            return Reply(200, gate.post(call.body))
        return gate.answer(call)
    server.script(answer)
    equal(replay("single.lct", "--events-path", "/directory/events").code, 0)


@test
def a_refused_delete_is_told_with_its_place(folder):
    def answer(call):
        if call.path == "/events" and len(call.json["batches"][0]["entries"]) > 100:
            return Reply(400, {"detail": "too many keys: 101 > 100"})
        return Gate().answer(call)
    key = {"chunk_hash_hex": "00", "model_name": "m", "kv_rank": 0}
    path = made(folder, "n", mark(0, "n"), batch(1, "n", 1), batch(2, "n", 2, event_type="delete", entries=[{"key": key}] * 101))
    server.script(answer)
    run = replay(path)
    equal(run.code, 1, repr(run))
    contains(run.errors, "record 3 at offset ")
    contains(run.errors, "(n, seq 2)")
    contains(run.errors, "too many keys: 101 > 100")
    equal(len(server.calls[-1].json["batches"][0]["entries"]), 101)


# -------- prediction --------

@test
def a_reply_other_than_predicted_is_told(folder):
    gate = Gate()
    gate.cursors["node-a"] = (1758400000, 3)
    server.script(gate.answer)
    run = replay("single.lct", "--json")
    prediction = run.json["metrics"]["prediction"]
    equal((run.code, prediction["mismatches"], prediction["applied"]), (0, 3, 9), repr(run))
    contains(run.errors, "predicted applied=1 duplicates=0 stale=0, got applied=0 duplicates=1 stale=0")
    gate.cursors["node-a"] = (1758400000, 3)
    text = replay("single.lct").text
    contains(text, "- Prediction -")
    gate.cursors["node-a"] = (1758400000, 3)
    equal(replay("single.lct", "--strict").code, 1)


@test
def the_version_is_asked_for(folder):
    """A batch of the departed incarnation is stale in 0.5.7."""
    def ask(call):
        return Reply(405, {}) if call.path == "/config/chunk-size" else nobody_there(call)
    for version, predicted in (("auto", 1), ("0.5.6", 2), ("0.5.7", 1)):
        server.script(ask=ask)
        run = replay("batches_after_stop.lct", "--json", "--coordinator-version", version)
        equal(run.json["metrics"]["prediction"]["applied"], predicted, version)
    equal([c.path for c in server.asked], ["/instances"])


# -------- guard --------

LIVE = {"instances": [{"instance_id": "node-a", "ip": "10.1.2.3", "http_port": 8000, "registration_time": time.time() - 100}]}


def living(call):
    return Reply(200, LIVE) if call.path == "/instances" else nobody_there(call)


@test
def a_live_fleet_is_spared(folder):
    server.script(ask=living)
    run = replay("single.lct")
    refused(run)
    for part in ("node-a (10.1.2.3:8000, registered 1", "--force", "--rename-prefix", "--reset"):
        contains(run.errors, part)
    equal(server.calls, [])
    server.script(ask=living)
    equal((replay("single.lct", "--force").code, server.asked), (0, []))
    server.script(ask=living)
    run = replay("single.lct", "--rename-prefix", "test-")
    equal(run.code, 0, repr(run))
    contains(run.errors, "1 other instances are registered")
    equal(server.calls[0].json["instance_id"], "test-node-a")
    equal(server.calls[1].json["batches"][0]["instance_id"], "test-node-a")
    equal(server.calls[-1].path, "/instances/test-node-a")


@test
def reset(folder):
    def answer(call):
        return Reply(200, {}) if call.path == "/lmtrace/reset" else Gate().answer(call)
    server.script(answer)
    equal(replay("single.lct", "--reset").code, 0)
    equal(server.calls[0].path, "/lmtrace/reset")
    server.script()
    run = replay("single.lct", "--reset")
    equal((run.code, len(server.calls)), (1, 1), repr(run))


@test
def who_may_not_ask(folder):
    for status, code in ((404, 0), (405, 0), (401, 1), (500, 1)):
        server.script(ask=lambda call: Reply(status, {"detail": "no"}))
        equal(replay("single.lct").code, code, str(status))


# -------- what is sent --------

@test
def renames(folder):
    server.script()
    run = replay("fleet_a.lct", "fleet_b.lct", "--rename", "node-a=x/y", "--rename-prefix", "p-")
    equal(run.code, 0, repr(run))
    equal({c.json["instance_id"] for c in server.calls if c.path == "/instances"}, {"x/y", "p-node-b"})
    refused(replay("fleet_a.lct", "fleet_b.lct", "--rename", "node-a=node-b"))
    refused(replay("fleet_a.lct", "--rename", "node-a"))
    twice = replay("fleet_a.lct", "--rename", "node-a=x", "--rename", "node-a=y")
    refused(twice)
    contains(twice.errors, "found node-a twice")
    contains(replay("single.lct", "--rename", "nobody=x", "--force").errors, "no record names nobody")


@test
def bodies_are_exact(folder):
    path = made(folder, "n", batch(1, "n", 1, unknown={"big": 2 ** 64 - 1, "small": -2 ** 63, "f": 0.1, "e": 1e300, "list": [[], {}, None, True]},
                                   ts=1e15 + 0.125))
    server.script()
    equal(replay(path).code, 0)
    body = server.calls[0].body.decode()
    sent = json.loads(body)["batches"][0]
    equal(sent["unknown"], {"big": 2 ** 64 - 1, "small": -2 ** 63, "f": 0.1, "e": 1e300, "list": [[], {}, None, True]})
    equal(sent["ts"], 1e15 + 0.125)
    equal(list(sent)[:4], ["instance_id", "incarnation", "seq", "event_type"])
    contains(body, "0.1")
    true("0.1000000" not in body)


@test
def selection(folder):
    server.script()
    run = replay("fleet_a.lct", "fleet_b.lct", "fleet_c.lct", "--instance", "node-a", "--instance", "node-b", "--instance", "!node-b", "--json")
    equal(run.code, 0, repr(run))
    equal({c.json["batches"][0]["instance_id"] for c in server.calls if c.path == "/events"}, {"node-a"})
    equal(run.json["metrics"]["overall"]["servers"], 1)
    true(run.json["metrics"]["delivery"]["left_out"] > 20)
    server.script()
    run = replay("single.lct", "--tier", "l2")
    equal({c.json["batches"][0]["tier"] for c in server.calls if c.path == "/events"}, {"l2"})
    contains(run.errors, "a gap for the coordinator")
    server.script()
    run = replay("single.lct", "--records", "1..4", "--json")
    equal(run.json["metrics"]["overall"]["records"], 4)
    # Percent of the time between the first record and the last, as in every command.
    path = made(folder, "n", *[batch(50 + n, "n", n + 1) for n in range(11)])
    server.script()
    run = replay(path, "--time", "25%..50%", "--json")
    equal([c.json["batches"][0]["seq"] for c in server.calls], [4, 5, 6], repr(run))
    contains(run.errors, "leaves out seqs 1..3")
    for merge in ("clamp", "wall-sort"):
        run = lmtrace("replay-events", path, "--dry-run", "--merge", merge, "--time", "50%..", "--loop", "2", "--new-incarnations", "--json")
        equal(run.json["metrics"]["overall"]["applied"], 12, repr(run))


@test
def register_modes(folder):
    server.script()
    replay("single.lct", "--register", "loopback")
    equal(server.calls[0].json["ip"], "127.0.0.1")
    server.script()
    run = replay("single.lct", "--register", "none", "--json")
    equal({c.path for c in server.calls}, {"/events"})
    equal((run.json["metrics"]["overall"]["starts"], run.json["metrics"]["overall"]["stops"]), (1, 1))


@test
def token_and_base_path(folder):
    gate = Gate()

    def answer(call):
        call.path = call.path.replace("/base", "", 1)
        return gate.answer(call)
    server.script(answer, ask=lambda call: Reply(404, {}))
    token = write(os.path.join(folder, "token"), b"s3cret\n")
    run = replay("single.lct", "--token-file", token, url=server.url + "/base//")
    equal(run.code, 0, repr(run))
    equal({c.headers.get("Authorization") for c in server.calls + server.asked}, {"Bearer s3cret"})
    equal({c.path.split("/")[1] for c in server.asked}, {"base"})
    refused(replay("single.lct", "--token-file", write(os.path.join(folder, "bad"), b"two words\n")))
    refused(replay("single.lct", "--token-file", os.path.join(folder, "none")))
    refused(replay("single.lct", "--ca-file", os.path.join(folder, "none")))


@test
def proxies_come_from_the_environment_only(folder):
    server.script()
    env = dict(os.environ, http_proxy="http://127.0.0.1:1", no_proxy="")
    equal(replay("single.lct", env=env).code, 1)
    env["no_proxy"] = "127.0.0.1"
    equal(replay("single.lct", env=env).code, 0)


@test
def unix_socket(folder):
    import socket
    import socketserver
    import threading
    from scripted import Handler
    path = os.path.join(folder, "s")

    class Unix(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
        daemon_threads = True
    server.script()
    http = Unix(path, type("Over", (Handler,), {"disable_nagle_algorithm": False}))
    http.owner, http.ended = server, server.http.ended
    threading.Thread(target=http.serve_forever, args=(0.02,), daemon=True).start()
    run = replay("single.lct", url="unix:" + path)
    http.shutdown()
    http.server_close()
    equal(run.code, 0, repr(run))
    equal(len(server.calls), 11)


# -------- bad files --------

@test
def bad_records(folder):
    bad = {
        "port": mark(0, "n", http_port=70000), "word": mark(0, "n", http_port="http"), "mq": mark(0, "n", mq_port=-1), "blank": mark(0, "n", ip=" \t"),
        "nan": batch(1, "n", 1, ts=float("nan")), "binary": batch(1, "n", 1, more=b"x"), "id": batch(1, 5, 1),
    }
    for name, what in bad.items():
        path = made(folder, "n", mark(0, "m"), what, batch(2, "m", 1), file=name + ".lct")
        server.script()
        run = replay(path)
        equal((run.code, run.out, server.calls), (2, b"", []), name + repr(run))
        contains(lines(run.errors)[0], name + ".lct: record 2 at offset ")
        contains(lines(run.errors)[-1], "--skip-bad")
        server.script()
        run = replay(path, "--skip-bad", "--json")
        equal((run.code, run.json["metrics"]["delivery"]["bad"], len(server.calls)), (0, 1, 2), name + repr(run))
        equal(run.json["metrics"]["overall"]["skipped"], 0, name)
        equal(lmtrace("replay-events", path, "--dry-run").code, 2)
        equal(lmtrace("replay-events", path, "--dry-run", "--skip-bad").code, 0)
    # B7: text that is no UTF-8, in an id or anywhere; and args that are no map of names.
    for name, what in {"utf8-id": batch(1, "n\udc80", 1), "utf8-more": batch(1, "n", 1, more="\udcff"), "utf8-ip": mark(0, "n", ip="\udcc3"),
                       "list": record(1, "events.batch", [1]), "key": record(1, "events.batch", {5: 1})}.items():
        path = made(folder, "n", mark(0, "m"), what, batch(2, "m", 1), file=name + ".lct")
        server.script()
        run = replay(path)
        equal((run.code, run.out, server.calls), (2, b"", []), name + repr(run))
        contains(run.errors, name + ".lct: record 2 at offset ")
        contains(run.errors, "--skip-bad")
        run = replay(path, "--skip-bad", "--json")
        equal((run.code, run.json["metrics"]["delivery"]["bad"], len(server.calls)), (0, 1, 2), name + repr(run))
        equal(replay(path, "--skip-bad", "--strict").code, 1)
        run = lmtrace("replay-events", path, "--dry-run", "--skip-bad", "--json")
        equal((run.code, run.json["metrics"]["prediction"]["bad"]), (0, 1), name + repr(run))
    many = made(folder, "n", *[mark(0, "n", http_port=70000) for _ in range(25)], file="many.lct")
    run = replay(many)
    equal(len(lines(run.errors)), 12, repr(run))
    contains(run.errors, "15 more bad records")


@test
def what_a_coordinator_would_refuse(folder):
    server.script(always("/events", lambda: Reply(422, {"detail": []})))
    refused_run = replay("bad_tier_l3.lct", "--check")
    equal((refused_run.code, server.calls), (2, []))
    contains(refused_run.errors, "record 3 at offset ")
    run = replay("bad_tier_l3.lct")
    equal(run.code, 1)
    contains(run.errors, "the coordinator will refuse this batch")


@test
def damage(folder):
    def with_damage(tail):
        parts = json_events("n", mark(0, "n"), batch(1, "n", 1))
        return write(os.path.join(folder, "d.lct"), *parts, *tail)
    server.script()
    run = replay(with_damage([frame(b"\xc1"), batch(2, "n", 2)]))
    equal((run.code, server.calls), (2, []), repr(run))
    contains(run.errors, "--allow-damaged")
    run = replay(with_damage([frame(b"\xc1"), batch(2, "n", 2)]), "--allow-damaged")
    equal((run.code, len(server.calls)), (0, 3), repr(run))
    server.script()
    run = replay(with_damage([batch(2, "n", 2)[:-5]]), "--json")
    equal((run.code, len(server.calls), run.json["metrics"]["overall"]["ended"]), (0, 2, 1), repr(run))
    contains(run.errors, "tail: torn at offset ")
    equal(replay(with_damage([batch(2, "n", 2)[:-5]]), "--strict").code, 1)
    server.script()
    run = replay(with_damage([header("events"), batch(2, "n", 2)]))
    equal((run.code, server.calls), (2, []), repr(run))
    contains(run.errors, "second header")


@test
def files_that_are_none(folder):
    for name in ("empty_zero.lct", "garbage.lct", "storage_level.lct", "hdr_schema_99.lct", "missing.lct", "."):
        refused(replay(name), name)
    contains(replay("storage_level.lct").errors, "use `lmtrace replay`")
    other = lmtrace("replay", "single.lct", cwd=EVENTS)
    equal(other.code, 2)
    contains(other.errors, "lmtrace replay-events")
    secret = write(os.path.join(folder, "x.lct"), b"")
    os.chmod(secret, 0)
    if os.geteuid() != 0:
        refused(replay(secret))


@test
def limits(folder):
    path = made(folder, "n", batch(1, "n", 1))
    for flag in ("--max-string", "--max-entries"):
        run = replay(path, flag, "16" if flag == "--max-string" else "1", "--check")
        equal(run.code, 2 if flag == "--max-string" else 0, flag + repr(run))
    deep = {}
    for _ in range(40):
        deep = {"a": deep}
    nested = made(folder, "n", batch(1, "n", 1, unknown=deep), file="deep.lct")
    true(replay(nested, "--check").code == 2, "nesting")
    run = replay(made(folder, "n", batch(1, "n", 1, backend="x" * 3000), file="long.lct"), "--max-frame", "1KiB")
    equal(run.code, 2, repr(run))


@test
def a_pipe_is_read_twice(folder):
    with open(os.path.join(EVENTS, "single.lct"), "rb") as f:
        data = f.read()
    server.script()
    run = replay("-", stdin=data)
    equal((run.code, len(server.calls)), (0, 11), repr(run))
    refused(replay("-", "-", stdin=data))
    refused(replay("-", stdin=b"nonsense"))
    equal([n for n in os.listdir(os.environ.get("TMPDIR", "/tmp")) if n.startswith("lmtrace-") and os.path.isfile(os.path.join(os.environ.get("TMPDIR", "/tmp"), n)) and os.stat(os.path.join(os.environ.get("TMPDIR", "/tmp"), n)).st_size == len(data)], [])


@test
def a_dry_run_sees_what_does_not_add_up(folder):
    def of(seq, kind, size=0):
        return batch(seq, "n", seq, event_type=kind, entries=[{"key": {"chunk_hash_hex": "aa", "model_name": "m", "kv_rank": 0}, "size_bytes": size}])
    path = made(folder, "n", of(1, "store", 100), of(2, "store", 100), of(3, "store", 0), of(4, "delete"), of(5, "delete"))
    run = lmtrace("replay-events", path, "--dry-run")
    equal(run.code, 0, repr(run))
    contains(run.text, "1 stores gave what was there the size 0, 1 deletes named what was not there")
    found = lmtrace("replay-events", path, "--dry-run", "--json").json["metrics"]["prediction"]
    equal((found["stored_again"], found["emptied"], found["deleted_unknown"]), (2, 1, 1))
    path = made(folder, "n", of(1, "store", 100), of(2, "store", 50), of(3, "delete"))
    true("size 0" not in lmtrace("replay-events", path, "--dry-run").text)


@test
def many_deletes_go_as_they_are(folder):
    """A coordinator that takes fewer says so: place, status and its text are told, nothing is cut up."""
    entries = [{"key": {"chunk_hash_hex": "%04x" % n, "model_name": "m", "kv_rank": 0}} for n in range(10001)]
    path = made(folder, "n", batch(1, "n", 1), batch(2, "n", 2, event_type="delete", entries=entries))
    gate = Gate()
    server.script(lambda call: Reply(400, {"detail": "at most 10000 keys"}) if len(call.json["batches"][0]["entries"]) > 10000 else gate.answer(call))
    run = replay(path)
    equal((run.code, len(server.calls), len(server.calls[1].json["batches"][0]["entries"])), (1, 2, 10001), repr(run))
    contains(run.errors, "record 2 at offset ")
    contains(run.errors, "400 Bad Request: {\"detail\": \"at most 10000 keys\"}")


@test
def the_same_file_twice_is_foretold(folder):
    server.script()
    run = replay("twice.lct", "twice.lct", "--json")
    equal((run.code, run.json["metrics"]["overall"]["duplicates"]), (0, 2), repr(run))
    contains(run.errors, "2 duplicates are predicted")


# -------- flags --------

@test
def flags_that_are_refused(folder):
    server.script()
    for flags in (["--speed", "nan"], ["--speed", "-1"], ["--speed", "1e309"], ["--heartbeat-interval", "-1"], ["--loop", "2"],
                  ["--resume"], ["--batch", "0"], ["--inflight", "0"], ["--coordinator-version", "0.4"], ["--merge", "x"],
                  ["--position", "p", "--merge", "wall-sort"], ["--compat", "x"], ["--events-path", "x"], ["--jsonl-out", "/none/x"],
                  ["--position", "/none/x"]):
        refused(replay("single.lct", *flags), " ".join(flags))
    refused(lmtrace("replay-events", "single.lct", cwd=EVENTS))
    equal((server.calls, server.asked), ([], []))


@test
def rounds(folder):
    server.script()
    run = replay("single.lct", "--loop", "3", "--rename-per-loop", "--json")
    equal(run.code, 0, repr(run))
    overall = run.json["metrics"]["overall"]
    equal((overall["applied"], overall["duplicates"], overall["servers"], overall["ended"]), (27, 0, 3, 0), repr(run))
    equal([c.json["instance_id"] for c in server.calls if c.path == "/instances"], ["node-a", "node-a-loop2", "node-a-loop3"])
    server.script()
    run = replay("restart_one_file.lct", "--loop", "2", "--new-incarnations", "--json")
    equal(run.code, 0, repr(run))
    overall = run.json["metrics"]["overall"]
    equal((overall["applied"], overall["duplicates"], overall["stale"], overall["servers"]), (16, 0, 0, 1), repr(run))
    equal(run.json["metrics"]["prediction"]["mismatches"], 0)
    # Rounds and several connections: every name is its round's, in calls and in lines.
    path = made(folder, "n", mark(0, "n"), *[batch(i, "n", i) for i in range(1, 6)], mark(6, "m"), batch(6, "m", 1))
    lines_path = os.path.join(folder, "lines")
    server.script(slow(Gate(), 0.005))
    run = replay(path, "--loop", "4", "--rename-per-loop", "--inflight", "3", "--jsonl-out", lines_path)
    equal(run.code, 0, repr(run))
    with open(lines_path, encoding="utf-8") as f:
        names = [json.loads(line)["instance"] for line in f]
    equal({name: names.count(name) for name in names},
          {name + more: n for name, n in (("n", 6), ("m", 2)) for more in ("", "-loop2", "-loop3", "-loop4")})
    # Incarnations have an end.
    path = made(folder, "top", batch(0, "t", 1, incarnation=2**63 - 3), batch(1, "t", 1, incarnation=2**63 - 2))
    server.script()
    run = replay(path, "--loop", "2", "--new-incarnations")
    refused(run)
    contains(run.errors, "--new-incarnations: expected incarnations below 2^63 in all 2 rounds")
    equal(server.calls, [])
    dry = lmtrace("replay-events", "restart_one_file.lct", "--loop", "2", "--new-incarnations", "--json", "--dry-run", cwd=EVENTS)
    equal(dry.json["metrics"]["overall"]["applied"], 16)


@test
def jsonl(folder):
    path = os.path.join(folder, "out.jsonl")
    server.script()
    run = replay("single.lct", "--jsonl-out", path)
    equal(run.code, 0, repr(run))
    with open(path, encoding="utf-8") as f:
        rows = [json.loads(line) for line in f]
    equal([r["n"] for r in rows], list(range(1, 12)))
    equal(list(rows[1]), ["n", "file", "record", "qualname", "instance", "seq", "applied", "duplicates", "stale", "status", "ms"])
    equal((rows[1]["seq"], rows[1]["applied"], rows[1]["status"], rows[0]["seq"]), (1, 1, 200, None))
    # What is passed over has its line, too.
    odd = made(folder, "odd", mark(0, "odd"), record(1, "x.y", {"instance_id": "odd"}), mark(2, "odd", "pause"), mark(3, "odd", "stop"))
    server.script()
    run = replay(odd, "--jsonl-out", "-", "-q")
    equal([(r["n"], r["qualname"], r["instance"], r["status"]) for r in map(json.loads, lines(run.text))],
          [(1, "events.lifecycle", "odd", 200), (2, "x.y", "odd", None), (3, "events.lifecycle", "odd", None),
           (4, "events.lifecycle", "odd", 204)])
    server.script()
    run = replay("single.lct", "--jsonl-out", "-", "--batch", "4")
    equal(len(lines(run.text)), 11)
    contains(run.errors, "Events Replay Result")


@test
def verbose_lines(folder):
    server.script()
    run = replay("single.lct", "-v")
    contains(run.errors, "[2/11] events.batch node-a Ingested(applied=1, duplicates=0, stale=0)")
    true("[2/11]" not in replay("single.lct").errors)


@test
def progress(folder):
    server.script()
    run = replay("paced.lct", "--speed", "4", "--progress", "always")
    contains(run.errors, "batches/s")
    true("batches/s" not in replay("single.lct", "-q", "--progress", "auto").errors)


@test
def pacing(folder):
    server.script()
    run, took = seconds(replay, "paced.lct", "--speed", "2", "--json")
    true(1.2 < took < 4, "%.2f s" % took)
    pacing = run.json["metrics"]["pacing"]
    true(1.5 < pacing["achieved"] < 2.5, pacing)
    true({"lag_p50_ms", "lag_p99_ms", "lag_max_ms"} <= set(pacing), pacing)
    server.script()
    run, took = seconds(replay, "paced.lct", "--speed", "1", "--max-gap", "50ms")
    true(took < 2, "%.2f s" % took)


# -------- batches and connections --------

def order_of(calls):
    seen = {}
    for call in calls:
        for b in call.json["batches"] if call.path == "/events" else []:
            seen.setdefault(b["instance_id"], []).append((b["incarnation"], b["seq"]))
    return seen


@test
def joined(folder):
    server.script()
    run = replay("fleet_a.lct", "fleet_b.lct", "fleet_c.lct", "--batch", "8", "--json")
    equal((run.code, run.json["metrics"]["overall"]["applied"]), (0, 51), repr(run))
    sizes = [len(c.json["batches"]) for c in server.calls if c.path == "/events"]
    true(max(sizes) <= 8 and len(sizes) < 15, sizes)
    equal(sum(sizes), 51)


@test
def no_post_crosses_a_mark(folder):
    path = made(folder, "n", mark(0, "n"), batch(1, "n", 1), batch(1, "n", 2), mark(2, "n"), batch(3, "n", 3), batch(3, "n", 4),
                mark(4, "n", "stop"), batch(5, "n", 5))
    server.script()
    equal(replay(path, "--batch", "64").code, 0)
    equal([(c.method, len(c.json["batches"]) if c.path == "/events" else 0) for c in server.calls],
          [("POST", 0), ("POST", 2), ("POST", 0), ("POST", 2), ("DELETE", 0), ("POST", 1)])


@test
def several_connections(folder):
    for flags in ([], ["--keep-shared-order"]):
        server.script()
        run = replay("large_0.lct.gz", "large_1.lct.gz", "large_2.lct.gz", "large_3.lct.gz", "--batch", "64", "--inflight", "4", "--json", *flags)
        equal(run.code, 0, repr(run))
        overall = run.json["metrics"]["overall"]
        equal((overall["applied"], overall["duplicates"], overall["stale"]), (19985, 13, 2), repr(run))
        equal(run.json["metrics"]["prediction"]["mismatches"], 0)
        connections = {c.connection for c in server.calls}
        true(len(connections) <= 5 and (flags or len(connections) >= 4), connections)
        for name, order in order_of(server.calls).items():
            news = [o for i, o in enumerate(order) if o > max(order[:i], default=(0, 0))]
            equal(news, sorted(set(news)), name)
    equal("shared pools" in run.errors, False)


@test
def a_failure_among_several_connections(folder):
    gate, posts = Gate(), [0]

    def answer(call):
        posts[0] += call.path == "/events"
        return Reply(500, {}) if posts[0] == 20 else gate.answer(call)
    server.script(answer)
    run = replay("large_0.lct.gz", "large_1.lct.gz", "--batch", "8", "--inflight", "4", "--json")
    equal((run.code, run.json["partial"]), (1, True), repr(run))
    true(len(server.calls) < 40, len(server.calls))
    equal(len([line for line in lines(run.errors) if "warning" not in line]), 1, repr(run))


# -------- signals, positions --------

def slow(gate, delay):
    def answer(call):
        reply = gate.answer(call)
        if isinstance(reply, Reply):
            reply.delay = delay
        return reply
    return answer


def wait_for_calls(n):
    until = time.monotonic() + 20
    while len(server.calls) < n:
        true(time.monotonic() < until, "only %d calls" % len(server.calls))
        time.sleep(0.01)


@test
def a_signal_ends_with_a_report(folder):
    for number in (signal.SIGINT, signal.SIGTERM):
        server.script(slow(Gate(), 0.1))
        process = start("replay-events", "single.lct", "--coordinator-url", server.url, "--json", cwd=EVENTS)
        wait_for_calls(4)
        process.send_signal(number)
        run = end(process)
        equal((run.code, run.json["partial"]), (130, True), repr(run))
        done = run.json["metrics"]["overall"]["records"]
        equal(done, len(server.calls), repr(run))  # what was under way still counts
        equal(run.json["metrics"]["stopped"]["not_sent"], 11 - done)
    server.script()
    process = start("replay-events", "paced.lct", "--coordinator-url", server.url, "--speed", "0.01", cwd=EVENTS)
    wait_for_calls(2)
    process.send_signal(signal.SIGINT)
    equal(end(process, 10).code, 130)


@test
def usr1_shows_a_table(folder):
    server.script()
    process = start("replay-events", "paced.lct", "--coordinator-url", server.url, "--speed", "0.05", cwd=EVENTS)
    wait_for_calls(2)
    process.send_signal(signal.SIGUSR1)
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    run = end(process, 10)
    equal(run.code, 130, repr(run))
    contains(run.errors, "Events Replay Result")


@test
def a_second_signal_does_not_wait(folder):
    server.script(at_third(HANG))
    process = start("replay-events", "single.lct", "--coordinator-url", server.url, cwd=EVENTS)
    wait_for_calls(4)
    process.send_signal(signal.SIGINT)
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    run = end(process, 10)
    equal(run.code, 130, repr(run))
    contains(run.text, "Stopped")


def streams_of(gate):
    def ask(call):
        if call.path != "/lmtrace/streams":
            return nobody_there(call)
        known = {**{name: (at, True) for name, at in gate.departed.items() if at}, **{name: (at, False) for name, at in gate.cursors.items()}}
        return Reply(200, {"streams": [{"instance_id": name, "incarnation": at[0], "last_seq": at[1], "gap": False, "departed": gone}
                                       for name, (at, gone) in known.items()]})
    return ask


@test
def resume_after_a_failure(folder):
    position = os.path.join(folder, "position")
    whole = Gate()
    server.script(whole.answer)
    equal(replay("fleet_a.lct", "fleet_b.lct", "fleet_c.lct").code, 0)
    for with_streams in (True, False):
        for flags in ([], ["--batch", "4"], ["--inflight", "3", "--batch", "2"]):
            gate, n = Gate(), [0]

            def answer(call):
                n[0] += 1
                return Reply(500, {}) if n[0] == 15 else gate.answer(call)
            files = ["fleet_a.lct", "fleet_b.lct", "fleet_c.lct"]
            server.script(answer)
            run = replay(*files, "--position", position, "--position-every", "1", *flags, "--json")
            equal(run.code, 1, repr(run))
            first = run.json["metrics"]["overall"]
            with open(position, encoding="utf-8") as f:
                kept = json.load(f)
            equal((kept["version"], len(kept["files"])), (1, 3))
            server.script(gate.answer, ask=streams_of(gate) if with_streams else None)
            run = replay(*files, "--position", position, "--resume", *flags, "--json")
            equal(run.code, 0, repr(run))
            then = run.json["metrics"]["overall"]
            equal(first["applied"] + then["applied"], 51, repr(run))
            equal((then["duplicates"], then["stale"], gate.departed), (0, 0, whole.departed), repr(run))
            equal(run.json["metrics"]["prediction"]["mismatches"], 0, repr(run))
            equal("can't say how far" in run.errors, not with_streams, repr(run))


@test
def resume_registers_again(folder):
    path = made(folder, "n", mark(0, "n"), batch(1, "n", 1), batch(2, "n", 2), batch(3, "n", 3), mark(4, "n", "stop"))
    position = os.path.join(folder, "position")
    gate = Gate()
    server.script(lambda call: Reply(500, {}) if call.n == 2 else gate.answer(call))
    equal(replay(path, "--position", position, "--position-every", "1").code, 1)
    server.script(gate.answer)
    equal(replay(path, "--position", position, "--resume").code, 0)
    equal([(c.method, c.path) for c in server.calls], [("POST", "/instances"), ("POST", "/events"), ("POST", "/events"), ("DELETE", "/instances/n")])
    equal(server.calls[0].json["ip"], "10.0.0.5")
    equal([b["seq"] for c in server.calls[1:3] for b in c.json["batches"]], [2, 3])


@test
def a_resume_that_fails_loses_no_position(folder):
    path = made(folder, "n", mark(0, "a"), mark(0, "b"), *[batch(n, name, n) for n in range(1, 9) for name in "ab"],
                mark(9, "a", "stop"), mark(9, "b", "stop"))
    position = os.path.join(folder, "position")
    gate = Gate()
    server.script(lambda call: Reply(500, {}) if call.n == 9 else gate.answer(call))
    equal(replay(path, "--position", position, "--position-every", "1").code, 1)
    with open(position, encoding="utf-8") as f:
        kept = json.load(f)
    equal((kept["files"][0]["records_done"], kept["registered"]), (9, ["a", "b"]))
    for failing in (0, 1):  # the first registration, the second
        server.script(lambda call, n=failing: Reply(500, {}) if call.n == n else gate.answer(call))
        equal(replay(path, "--position", position, "--resume").code, 1)
        with open(position, encoding="utf-8") as f:
            equal(json.load(f), kept)
    # Registered again, but its first POST fails: nothing is done that was not.
    server.script(lambda call: Reply(500, {}) if call.path == "/events" else gate.answer(call))
    equal(replay(path, "--position", position, "--resume").code, 1)
    with open(position, encoding="utf-8") as f:
        equal(json.load(f), kept)
    server.script(gate.answer)
    run = replay(path, "--position", position, "--resume", "--json")
    equal((run.code, run.json["metrics"]["overall"]["applied"], run.json["metrics"]["overall"]["duplicates"]), (0, 9, 0), repr(run))


@test
def resume_of_the_killed(folder):
    """SIGKILL of the client: what it had not noted is asked of the coordinator."""
    position = os.path.join(folder, "position")
    gate = Gate()
    server.script(slow(gate, 0.02))
    process = start("replay-events", "fleet_a.lct", "fleet_b.lct", "--coordinator-url", server.url, "--position", position,
                    "--position-every", "5", cwd=EVENTS)
    wait_for_calls(18)
    process.kill()
    end(process)
    server.script(gate.answer, ask=streams_of(gate))
    run = replay("fleet_a.lct", "fleet_b.lct", "--position", position, "--resume", "--json")
    equal((run.code, run.json["metrics"]["overall"]["duplicates"]), (0, 0), repr(run))
    whole = Gate()
    server.script(whole.answer)
    replay("fleet_a.lct", "fleet_b.lct")
    equal((gate.cursors, gate.departed), (whole.cursors, whole.departed))


@test
def resume_refuses_other_files(folder):
    path = made(folder, "n", mark(0, "n"), batch(1, "n", 1))
    position = os.path.join(folder, "position")
    server.script()
    equal(replay(path, "--position", position).code, 0)
    made(folder, "n", mark(0, "n"), batch(1, "n", 1), batch(2, "n", 2))
    run = replay(path, "--position", position, "--resume")
    refused(run)
    contains(run.errors, "found it changed")
    refused(replay("single.lct", "single.lct", "--position", position, "--resume"))
    refused(replay("single.lct", "--position", write(os.path.join(folder, "p2"), b"{}"), "--resume"))
    refused(replay("single.lct", "--position", os.path.join(folder, "none"), "--resume"))
    refused(replay(path, "--position", path))


if __name__ == "__main__":
    code = test.main()
    server.close()
    sys.exit(code)
