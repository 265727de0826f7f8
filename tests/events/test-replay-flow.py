#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`lmtrace replay-events` as a stream: batches joined, spread over connections, ended by signals, gone on with from a position."""
import json
import os
import signal
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "cli"))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from lib import Tests, contains, end, equal, lines, refused, start, true, write
from replay_lib import EVENTS, at_third, batch, made, main, mark, replay, server, slow, wait_for_calls
from scripted import HANG, Gate, Reply, nobody_there

test = Tests()


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
    sys.exit(main(test))
