# SPDX-License-Identifier: Apache-2.0
"""What the tests of `lmtrace replay-events` against a scripted coordinator share: the coordinator, runs against it, answers, small traces."""
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "cli"))
from lib import DATA, header, lmtrace, record, true, write  # noqa: E402
from scripted import Gate, Reply, Scripted  # noqa: E402

EVENTS = os.path.join(DATA, "events")
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


def main(test):
    code = test.main()
    server.close()
    return code
