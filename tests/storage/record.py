#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A replay that records itself: fixed points, entry only, both schemas, rotation, compression, trouble, and what level events tells."""
import glob
import json
import os
import resource
import stat
import struct
import subprocess
import sys
import tempfile
import traceback

LMTRACE = os.environ["LMT_LMTRACE"]
DATA = os.path.join(os.environ["LMT_TEST_DATA"], "storage")
LRU = ["--l1-size-gb", "0.0625", "--eviction-policy", "LRU"]
MANAGER = "lmcache.v1.distributed.storage_manager.StorageManager."


def expect(condition, what=""):
    if not condition:
        raise AssertionError(what)


def run(*words, code=0, folder=None, **more):
    done = subprocess.run([LMTRACE, *words], capture_output=True, text=True, timeout=200, check=False, cwd=folder, **more)
    expect(done.returncode == code, "%s: exit %d: %s%s" % (" ".join(words), done.returncode, done.stdout[-2000:], done.stderr[-2000:]))
    return done


def replay(trace, out, *more, level="storage", flags=LRU, folder=None, **rest):
    return run("replay", trace, *flags, "--speed", "0", "--no-csv", "--format", "json", "--trace-level", level, "--trace-output", out,
               *more, folder=folder, **rest)


def read(path):
    with open(path, "rb") as file:
        return file.read()


def frames(data):
    found, at = [], 0
    while at < len(data):
        (length,) = struct.unpack_from(">I", data, at)
        expect(at + 4 + length <= len(data), "cut frame at %d" % at)
        found.append(data[at + 4 : at + 4 + length])
        at += 4 + length
    return found


def unpack(data, at=0):
    """(value, next): what msgpack LMCache writes, and no more."""
    head = data[at]
    at += 1
    if head < 0x80:
        return head, at
    if head >= 0xE0:
        return head - 256, at
    if head in (0xC0, 0xC2, 0xC3):
        return {0xC0: None, 0xC2: False, 0xC3: True}[head], at
    if 0xA0 <= head < 0xC0:
        return data[at : at + head - 0xA0].decode(), at + head - 0xA0
    if head in (0xC4, 0xC5, 0xC6, 0xD9, 0xDA, 0xDB):
        width = {0xC4: 1, 0xC5: 2, 0xC6: 4, 0xD9: 1, 0xDA: 2, 0xDB: 4}[head]
        n = int.from_bytes(data[at : at + width], "big")
        value = data[at + width : at + width + n]
        return (value if head < 0xD0 else value.decode()), at + width + n
    if head in (0xCC, 0xCD, 0xCE, 0xCF):
        width = 1 << (head - 0xCC)
        return int.from_bytes(data[at : at + width], "big"), at + width
    if head in (0xD0, 0xD1, 0xD2, 0xD3):
        width = 1 << (head - 0xD0)
        return int.from_bytes(data[at : at + width], "big", signed=True), at + width
    if head == 0xCB:
        return struct.unpack_from(">d", data, at)[0], at + 8
    if head in (0xDC, 0xDD, 0xDE, 0xDF):
        width = 2 if head in (0xDC, 0xDE) else 4
        n = int.from_bytes(data[at : at + width], "big")
        at += width
        is_map = head >= 0xDE
    else:
        expect(head < 0xA0, "byte %02x" % head)
        n, is_map = head & 15, head < 0x90
    items = []
    for _ in range(2 * n if is_map else n):
        value, at = unpack(data, at)
        items.append(value)
    return (dict(zip(items[::2], items[1::2])) if is_map else items), at


def load(path):
    header, *records = [unpack(frame)[0] for frame in frames(read(path))]
    return header, records


def calls(path):
    return [(record["qualname"], record["args"]) for record in load(path)[1]]


def recording(done):
    return json.loads(done.stdout)["metrics"]["recording"]


def test_fixed_point(folder):
    """record -> info -> replay -> record again: the same calls; on the trace's own clock, the same file."""
    for release, schema in (("0.5.6", "1"), ("0.5.7rc3", "2"), ("0.4.4", "1"), ("0.5.3", "2")):
        for name in ("basic", "edge", "groups", "mix"):
            trace = os.path.join(DATA, release, name + ".lct")
            if not os.path.exists(trace):
                continue
            first, second = os.path.join(folder, "1.lct"), os.path.join(folder, "2.lct")
            done = replay(trace, first, "--trace-schema", schema)
            figures = recording(done)
            expect(figures["dropped"] == figures["encode_errors"] == figures["write_errors"] == 0, figures)
            replay(first, second, "--trace-schema", schema)
            expect(read(first) == read(second), (release, name))
            header, records = load(first)
            expect(header["trace_schema_version"] == int(schema), header)
            expect([call[0] for call in calls(trace)] == [record["qualname"] for record in records], (release, name))
            expect(figures["records"] == len(records), figures)
            original = load(trace)[0]
            expect((header["t_mono_start"], header["t_wall_start"]) == (original["t_mono_start"], original["t_wall_start"]), header)
            if release in ("0.5.6", "0.5.7rc3"):
                expect(calls(trace) == calls(first), (release, name))
            info = [json.loads(run("info", "--json", path).stdout)["metrics"] for path in (trace, first)]
            expect("total_records" in str(info[0]) and str(len(records)) in str(info[1]), info)


def test_real_time(folder):
    """By the system's clocks: the same calls, times that rise."""
    trace = os.path.join(DATA, "0.5.6", "basic.lct")
    out = os.path.join(folder, "out.lct")
    replay(trace, out, "--no-settle", "--trace-block")
    header, records = load(out)
    expect(calls(trace) == calls(out), "calls")
    times = [record["t_mono"] for record in records]
    expect(times == sorted(times) and times[0] >= 0.0, times)
    expect(all(abs(header["t_wall_start"] + record["t_mono"] - record["t_wall"]) < 60 for record in records), "wall")
    expect(header["t_wall_start"] > load(trace)[0]["t_wall_start"], "starts when it starts")


def test_entry_only(folder):
    """One record a call, made when it comes in: of a call that fails, of one that isn't made, of a context that breaks."""
    trace = os.path.join(DATA, "0.5.6", "edge.lct")
    out = os.path.join(folder, "out.lct")
    done = replay(trace, out)
    expect("anomalies" in done.stdout or "read_of_unavailable_object" in done.stdout + done.stderr, done.stderr)
    expect(calls(out) == calls(trace), "calls")
    # refused by value: a window of 0 passes no codec, an empty list of keys is a call
    plan = replay(trace, os.path.join(folder, "none.lct"), "--dry-run")
    expect("recording" not in json.loads(plan.stdout)["metrics"] and not os.path.exists(os.path.join(folder, "none.lct")), plan.stdout)


def test_close_pairs(folder):
    """What --close-pairs ends are calls, too; what the session itself ends at its end is none."""
    trace = os.path.join(DATA, "0.5.6", "basic.lct")
    cut = os.path.join(folder, "cut.lct")
    whole = frames(read(trace))
    enter = next(i for i, frame in enumerate(whole) if b"__enter__" in frame)
    with open(cut, "wb") as file:
        for frame in whole[: enter + 1]:
            file.write(struct.pack(">I", len(frame)) + frame)
    out, closed = os.path.join(folder, "out.lct"), os.path.join(folder, "closed.lct")
    replay(cut, out)
    expect(calls(out) == calls(cut), "nothing of its own")
    replay(cut, closed, "--close-pairs")
    names = [call[0][len(MANAGER) :] for call in calls(closed)[enter:]]
    expect(names[0] == "read_prefetched_results.__exit__" and set(names[1:]) <= {"finish_read_prefetched", "finish_write"}, names)


def test_files(folder):
    trace = os.path.join(DATA, "0.5.6", "mix.lct")
    plain, packed, parts = (os.path.join(folder, name) for name in ("plain.lct", "packed.lct.zst", "parts.lct"))
    replay(trace, plain)
    replay(trace, packed)
    expect(run("info", packed).stdout.split("\n")[1:] == run("info", plain).stdout.split("\n")[1:], "packed")
    expect(os.path.getsize(packed) < os.path.getsize(plain), "smaller")
    figures = recording(replay(trace, parts, "--trace-rotate", "20kB"))
    expect(figures["files"] > 2, figures)
    names = [parts] + ["%s.%d" % (parts, i) for i in range(1, figures["files"])]
    expect([call for name in names for call in calls(name)] == calls(plain), "parts")
    expect(all(load(name)[0] == load(plain)[0] for name in names), "each with the header")
    # Not onto the trace itself, whatever its name
    link = os.path.join(folder, "link.lct")
    os.symlink(plain, link)
    before = read(plain)
    run("replay", plain, *LRU, "--speed", "0", "--no-csv", "--trace-level", "storage", "--trace-output", link, code=2)
    expect(read(plain) == before, "overwritten")
    for flag in (["--trace-level", "storage", "--trace-output", plain], ["--jsonl-out", link]):  # nor by way of stdin
        with open(plain, "rb") as file:
            run("replay", "-", *LRU, "--speed", "0", "--no-csv", *flag, code=2, stdin=file)
        expect(read(plain) == before, "overwritten")
    for flag in ("--output", "--jsonl-out", "--state-out", "--json=" + parts):  # nor two outputs into one file
        words = [flag] if "=" in flag else [flag, os.path.join(folder, ".", "parts.lct")]
        done = run("replay", trace, *LRU, "--speed", "0", "--no-csv", "--trace-level", "storage", "--trace-output", parts, *words, code=2)
        expect("expected a file of its own, found that of --" in done.stderr, done.stderr)
    for words in (["--trace-schema", "3"], ["--trace-buffer", "1"], ["--trace-rotate", "x"], ["--trace-level", "events", "--trace-http", "nonsense"]):
        done = run("replay", trace, *LRU, "--speed", "0", "--no-csv", "--trace-level", "storage", "--trace-output", link, *words, code=2)
        expect(words[-2] in done.stderr, done.stderr)


def test_stdout(folder):
    """The trace has stdout for itself: the report goes to stderr, a second stream is refused."""
    trace, out = os.path.join(DATA, "0.5.6", "basic.lct"), os.path.join(folder, "out.lct")
    replay(trace, out)
    words = [LMTRACE, "replay", trace, *LRU, "--speed", "0", "--no-csv", "--trace-level", "storage", "--trace-output", "-"]
    done = subprocess.run(words, capture_output=True, timeout=200, check=False)
    expect(done.returncode == 0 and done.stdout == read(out), done.stderr)
    expect(b"Trace Replay Result" in done.stderr, done.stderr)
    short = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    short.stdout.close()
    errors = short.stderr.read()
    expect(short.wait(timeout=200) == 0 and b"Broken pipe" not in errors and b"incomplete" not in errors, errors)
    refused = subprocess.run([*words, "--format", "json"], capture_output=True, text=True, timeout=200, check=False)
    expect(refused.returncode == 2 and "taken by --trace-output" in refused.stderr, refused.stderr)


def test_state_into_a_pipe(folder):
    """What is no file is written to and stays what it is."""
    pipe, state = os.path.join(folder, "pipe"), os.path.join(folder, "state.json")
    words = ["replay", os.path.join(DATA, "0.5.6", "tiny.lct"), *LRU, "--speed", "0", "--no-csv", "-q", "--state-out"]
    run(*words, state)
    os.mkfifo(pipe)
    process = subprocess.Popen([LMTRACE, *words, pipe])
    with open(pipe, "rb") as file:
        expect(file.read() == read(state), "state")
    expect(process.wait(timeout=100) == 0 and stat.S_ISFIFO(os.stat(pipe).st_mode), "a pipe still")


def test_default_name(folder):
    done = run("replay", os.path.join(DATA, "0.5.6", "tiny.lct"), *LRU, "--speed", "0", "--no-csv", "--format", "json", "--trace-level", "storage",
               env=dict(os.environ, TMPDIR=folder))
    made = glob.glob(os.path.join(folder, "lmcache-trace-*.lct"))
    expect(len(made) == 1 and recording(done)["file"] == made[0], made)


def test_full_disk(folder):
    """The run goes on; the file ends with a whole frame; exit 1 and a line that says so."""
    trace = os.path.join(DATA, "0.5.6", "large.lct")
    out = os.path.join(folder, "out.lct")
    limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (300000, resource.RLIM_INFINITY))
    done = replay(trace, out, code=1, preexec_fn=limit)
    figures = recording(done)
    expect("cannot write" in done.stderr and done.stderr.count("Recording is incomplete") == 1, done.stderr)
    expect(0 < figures["records"] < 14002 and figures["write_errors"] > 0, figures)
    expect(calls(out) == calls(trace)[: figures["records"]], "whole frames")


def key_of(key):
    return (key["chunk_hash_hex"], key["model_name"], key["kv_rank"], key["object_group_id"], key["cache_salt"])


def play(path):
    """The directory a coordinator holds after these records, and the rules of the stream on the way."""
    header, records = load(path)
    expect(header["level"] == "events" and header["trace_schema_version"] == 1, header)
    expect(list(header["level_meta"]) == ["instance_id", "cache_event_schema_version", "lmcache_version"], header)
    directory, seq = {}, 0
    first, last = records[0], records[-1]
    expect(first["qualname"] == last["qualname"] == "events.lifecycle", "marks")
    expect(list(first["args"]) == ["phase", "instance_id", "incarnation", "ip", "http_port", "mq_port"], first)
    expect((first["args"]["phase"], first["args"]["incarnation"]) == ("start", int(header["t_wall_start"])), first)
    expect(last["args"] == {"phase": "stop", "instance_id": first["args"]["instance_id"]}, last)
    for record in records[1:-1]:
        args = record["args"]
        seq += 1
        expect(record["qualname"] == "events.batch" and args["seq"] == seq, record)
        expect(list(args) == ["instance_id", "incarnation", "seq", "event_type", "tier", "backend", "entries", "shared", "ts",
                              "capacity_bytes", "capacity_revision"], list(args))
        expect(args["incarnation"] == first["args"]["incarnation"] and args["ts"] == record["t_wall"], args)
        if args["event_type"] == "config":
            expect(args["entries"] == [] and args["capacity_revision"] == 1, args)
        for entry in args["entries"]:
            place = (args["tier"], args["backend"], key_of(entry["key"]))
            if args["event_type"] == "store":
                directory[place] = entry["size_bytes"]
            elif args["event_type"] == "delete":
                directory.pop(place, None)
    times = [record["t_mono"] for record in records[1:-1]]
    flushes = sorted(set(times))
    expect(times == sorted(times), "times")
    expect(all(b - a >= 1.0 for a, b in zip(flushes[:-2], flushes[1:-1])), flushes)  # the last flush comes when it ends
    return directory


def listed(place):
    """A key as --state-out lists it."""
    digest, model, rank, group, salt = place[2]
    return [model, rank, group, digest] + ([salt] if salt else [])


def test_events(folder):
    """Level events: what a coordinator then holds is what the manager holds."""
    n = 0
    for trace in sorted(glob.glob(os.path.join(DATA, "0.5.[67]*", "*.lct"))):
        if trace.endswith("large.lct"):
            continue
        for more in ([], ["--l2", "dram:max_size_gb=0.01"], ["--l2", "dram", "--l2-store-policy", "skip_l1"], ["--l2", "dram", "--l2-prefetch-policy", "retain"]):
            state_path, out = os.path.join(folder, "state.json"), os.path.join(folder, "events.lct")
            replay(trace, out, "--state-out", state_path, *more, level="events", flags=["--l1-size-gb", "0.05", "--eviction-policy", "LRU"])
            with open(state_path, encoding="utf-8") as file:
                state = json.load(file)
            directory = play(out)
            held = held_keys(state)
            found = {"l1": sorted(listed(place) for place in directory if place[0] == "l1"), "l2": sorted(listed(place) for place in directory if place[0] == "l2")}
            expect(found == held, (trace, more, {tier: (len(found[tier]), len(held[tier]), found[tier][:2], held[tier][:2]) for tier in found}))
            n += len(directory)
    expect(n > 500, n)


def held_keys(state):
    l2 = [key for adapter in state.get("l2", []) for key in adapter["keys"]]
    return {"l1": sorted(state["l1_resident"]), "l2": sorted(l2)}


def test_events_marks(folder):
    trace = os.path.join(DATA, "0.5.6", "tiny.lct")
    out = os.path.join(folder, "events.lct")
    replay(trace, out, "--trace-instance", "node-7", "--trace-http", "[::1]:8080", level="events")
    header, records = load(out)
    expect(header["level_meta"]["instance_id"] == "node-7", header)
    expect((records[0]["args"]["ip"], records[0]["args"]["http_port"], records[0]["args"]["instance_id"]) == ("::1", 8080, "node-7"), records[0])
    again = os.path.join(folder, "again.lct")
    replay(trace, again, "--trace-instance", "node-7", "--trace-http", "[::1]:8080", level="events")
    expect(read(out) == read(again), "the same run, the same file")


def main():
    tests = [(name, func) for name, func in sorted(globals().items()) if name.startswith("test_")]
    wanted = sys.argv[1:]
    print("1..%d" % len(tests))
    failed = 0
    for number, (name, func) in enumerate(tests, 1):
        if wanted and name not in wanted:
            print("ok %d %s # SKIP" % (number, name))
            continue
        with tempfile.TemporaryDirectory(prefix="lmt-record-") as folder:
            try:
                func(folder)
                print("ok %d %s" % (number, name), flush=True)
            except Exception:  # pylint: disable=broad-except
                failed += 1
                print("not ok %d %s" % (number, name))
                print("".join("# %s\n" % line for line in traceback.format_exc()[-3000:].splitlines()), flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
