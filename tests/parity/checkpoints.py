#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checkpoints go both ways between lmtrace's views and LMCache's own coordinator. Runs with the Python of LMCache's environment.

checkpoints.py CHECKPOINT-TOOL      the program of tests/events/checkpoint-tool.c
"""
import json
import os
import random
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

TOOL = sys.argv[1]
HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CASES = os.path.join(HERE, "data", "events", "expect")
GETS = ["/instances/usage", "/directory/stats", "/directory/keys?limit=10000", "/quota?tier=l1", "/quota?tier=l2"]
ENV = dict(os.environ, LMCACHE_TRACK_USAGE="false", LMCACHE_DISABLE_BANNER="1", LMCACHE_LOG_LEVEL="WARNING")


class Coordinator:
    """LMCache's; its checkpoint is read at the start and written at the end."""

    def __init__(self, checkpoint, *flags):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.log = tempfile.TemporaryFile("w+")  # a pipe nobody reads would stop it
        self.process = subprocess.Popen(
            [sys.executable, "-m", "lmcache.v1.mp_coordinator", "--host", "127.0.0.1", "--port", str(self.port),
             "--checkpoint-path", checkpoint, "--eviction-check-interval", "0", "--health-check-interval", "0", *flags],
            env=ENV, stderr=self.log, stdout=self.log)
        for _ in range(300):
            try:
                self.call("GET", "/healthz")
                return
            except OSError:
                time.sleep(0.1)
        raise AssertionError("LMCache's coordinator doesn't come up")

    def call(self, method, path, body=None):
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", method=method)
        if body is not None:
            request.data = json.dumps(body).encode()
            request.add_header("content-type", "application/json")
        try:
            with urllib.request.urlopen(request, timeout=30) as reply:
                text = reply.read()
                return json.loads(text) if text else None
        except urllib.error.HTTPError as error:
            return error.code

    def views(self):
        return {path: self.call("GET", path) for path in GETS}

    def stop(self):
        self.process.terminate()
        self.process.wait(timeout=30)
        self.log.seek(0)
        return self.log.read()


def tool(*argv):
    run = subprocess.run([TOOL, *argv], capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout), run.stderr


def same(what, ours, theirs):
    for path in GETS:
        a, b = ours[path], theirs[path]
        if path == "/directory/stats":  # claims of what a content was stored as before aren't restored
            a, b = dict(a, blend=None), dict(b, blend=None)
        if a != b:
            raise AssertionError(f"{what}: {path}: lmtrace {json.dumps(a)[:400]}, LMCache {json.dumps(b)[:400]}")


def random_calls(seed):
    """Batches of all kinds, shared pools, restarts, departures, tokens, ids in several scripts."""
    rand = random.Random(seed)
    ids = ["node-a", "node-b", "k\u00f6ln \u2603", "node/c"]
    life = {i: [1, 0] for i in ids}
    calls = []
    for _ in range(400):
        who = rand.choice(ids)
        if rand.random() < 0.02:
            life[who] = [life[who][0] + 1, 0]
        if rand.random() < 0.01 and who.startswith("node-"):
            calls.append({"method": "DELETE", "path": f"/instances/{who}"})
        life[who][1] += rand.choice([1, 1, 1, 1, 3])
        kind = rand.choice(["store"] * 5 + ["delete", "delete", "access", "config"])
        entries = [] if kind == "config" else [{
            "key": {"chunk_hash_hex": rand.choice(["%02x" % rand.randrange(9), "ab" * 32, "cd" * 40, ""]),
                    "model_name": rand.choice(["m/x", "mod\u00e9le"]), "kv_rank": rand.choice([16777472, -5, 33620481]),
                    "object_group_id": rand.randrange(2), "cache_salt": rand.choice(["", "t1", "\u03b2"])},
            "size_bytes": rand.choice([0, 1, 1 << 20, 1 << 40]),
            "token_ids": rand.choice([[], [], [1, 2, 3, 4], [2 ** 32 - 1, 0, 7, 9], [5]]),
            "token_offset": rand.choice([-1, 0, 512])} for _ in range(rand.randrange(4))]
        calls.append({"method": "POST", "path": "/events", "body": {"batches": [{
            "instance_id": who, "incarnation": life[who][0], "seq": life[who][1], "event_type": kind,
            "tier": rand.choice(["l1", "l2"]), "backend": rand.choice(["dram", "fs", "s3"]), "entries": entries,
            "shared": rand.random() < 0.3, "ts": rand.choice([0.0, 1758400000.5, 1758400001.25]),
            "capacity_bytes": rand.choice([0, 1 << 34]), "capacity_revision": rand.randrange(4)}]}})
    return calls


def go(name, calls, folder):
    theirs_path, ours_path, plan = (os.path.join(folder, name + end) for end in (".theirs", ".ours", ".json"))
    flags = ["--chunk-size", "4", "--enable-blend-lookup"]
    with open(plan, "w") as out:
        json.dump(calls, out)
    peer = Coordinator(theirs_path, *flags)
    for call in calls:
        peer.call(call["method"], urllib.request.quote(call["path"]) if call["method"] == "DELETE" else call["path"], call.get("body"))
    before = peer.views()
    peer.stop()
    same(f"{name}: played", tool("--play=" + plan, "--chunk-size=4", "--blend", "--write=" + ours_path)[0], before)
    peer = Coordinator(theirs_path, *flags)  # what LMCache makes of its own
    restored = peer.views()
    peer.stop()
    ours, notes = tool("--load=" + theirs_path, "--chunk-size=4", "--blend")
    assert notes == "", notes
    same(f"{name}: LMCache's, read here", ours, restored)
    peer = Coordinator(ours_path, *flags)
    read = peer.views()
    # It goes on from there: a known sequence number is a duplicate.
    last = calls[-1]["body"]["batches"][0]
    counts = peer.call("POST", "/events", calls[-1]["body"])
    log = peer.stop()
    assert counts == {"applied": 0, "duplicates": 1, "stale": 0}, (last, counts)
    assert "Ignoring" not in log, log
    same(f"{name}: ours, read there", restored, read)


def main():
    with tempfile.TemporaryDirectory() as folder:
        todo = [(f"random-{seed}", random_calls(seed)) for seed in (1, 2)]
        for case in ("all_types", "tokens", "capacity"):
            with open(os.path.join(CASES, case + ".json")) as text:
                calls = [c for c in json.load(text)["calls"] if c["path"] == "/events"]
            todo.append((case, calls))
        for name, calls in todo:
            go(name, calls, folder)
            print("ok", name, flush=True)


main()
