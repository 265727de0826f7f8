#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`lmtrace replay-events` and what it is given: files, ids and flags, bad ones too, and what it makes of them: calls, lines, times."""
import json
import os
import resource
import socketserver
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "cli"))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from lib import Tests, contains, end, equal, frame, header, lines, lmtrace, record, refused, start, true, write
from replay_lib import EVENTS, always, batch, json_events, made, main, mark, replay, seconds, server, slow
from scripted import Gate, Handler, Reply

test = Tests()


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
def ids_with_a_nul_inside(folder):
    """They are other ids than what stands before the NUL."""
    path = made(folder, "n", batch(1, "a\0b", 1), batch(2, "a", 1))
    server.script()
    equal(replay(path, "--rename", "a=c").code, 0)
    equal([c.json["batches"][0]["instance_id"] for c in server.calls], ["a\0b", "c"])
    refused(replay(path, "--position", os.path.join(folder, "position")))
    server.script()
    equal((replay(path).code, len(server.calls)), (0, 2))


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
    token = write(os.path.join(folder, "token"), b"s3cret\nnot this\n")
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
def open_files(folder):
    """Each connection has a loop, and GLib ends a process that finds no descriptor for one."""
    def limited(soft, hard, *args):
        process = start("replay-events", *args, "--coordinator-url", server.url, cwd=EVENTS,
                        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard)))
        return end(process)
    server.script()
    run = limited(40, 40, "single.lct", "--inflight", "64")
    equal(run.code, 2, repr(run))
    contains(run.errors, "open files")
    equal((server.calls, server.asked), ([], []))
    equal(limited(40, 400, "single.lct", "--inflight", "64").code, 0)
    files = [made(folder, "n%d" % n, batch(1, "n%d" % n, 1), file="%d.lct" % n) for n in range(100)]
    run = limited(40, 400, *files)
    equal((run.code, len(server.calls)), (0, 11 + 100), repr(run))
    run = limited(40, 40, *files)
    equal(run.code, 2, repr(run))
    contains(run.errors, "Too many open files")


@test
def files_that_never_end(folder):
    for flags in (["--token-file", "/dev/zero"], ["--position", "/dev/zero", "--resume"]):
        refused(replay("single.lct", *flags, timeout=60), " ".join(flags))
    fifo = os.path.join(folder, "fifo")
    os.mkfifo(fifo)
    refused(replay("single.lct", "--position", fifo, "--resume", timeout=60))


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
    # Three times: what each has again is told once, not for each pair. Many incarnations don't make it slow.
    run = replay("twice.lct", "twice.lct", "twice.lct", "--dry-run")
    equal(run.errors.count("duplicates are predicted"), 2, run.errors)
    many = made(folder, "m", *[batch(1000.0, "m", 1, incarnation=n) for n in range(70000)], file="many")
    run = replay(many, many, "--dry-run", "--json")
    overall = run.json["metrics"]["overall"]
    equal((run.code, overall["applied"], overall["stale"] + overall["duplicates"]), (0, 70000, 70000), run.errors[-500:])
    contains(run.errors, "more than 65536 incarnations")


@test
def a_nul_in_an_address(folder):
    """It is a string like any other and sent as it stands, as LMCache does."""
    for ip in ("10.0.0.1\0x", "\0", "a\x1bb"):
        server.script()
        equal(replay(made(folder, "n", mark(1000.0, "n", ip=ip))).code, 0)
        equal([call.json["ip"] for call in server.calls if call.path == "/instances" and call.method == "POST"], [ip])


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


if __name__ == "__main__":
    sys.exit(main(test))
