#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`lmtrace replay-events` against coordinators that misbehave: one clear line, the right exit code, a whole partial report, nothing that hangs
longer than its time-out. The scripted cases are those recorded with LMCache's own client."""
import json
import os
import socket
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "cli"))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from lib import Tests, contains, equal, lines, lmtrace, refused, true
from replay_lib import EVENTS, always, at_third, batch, made, main, mark, replay, seconds, server
from scripted import DROP, HANG, RESET, Gate, Reply, nobody_there

test = Tests()


# -------- the scripted cases of LMCache's client --------

def counts(change):
    gate = Gate()

    def answer(call):
        return change(gate.post(call.body)) if call.path == "/events" else gate.answer(call)
    return answer


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


if __name__ == "__main__":
    sys.exit(main(test))
