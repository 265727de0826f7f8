#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""record and import: pinned bytes, presets through info and replay, outputs, errors, signals."""
import gzip
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.environ["LMT_SOURCE_DIR"], "tests", "cli"))
from lib import DATA, LMTRACE, Tests, contains, end, environment, equal, lines, lmtrace, refused, start, tree, true

HERE = os.path.join(DATA, "workload")
PRESETS = ["chat", "rag", "agents", "long-context"]
tests = Tests()


def data(name):
    return os.path.join(HERE, name)


def digest(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def record(folder, workload, *more, out="out.lct", code=0):
    path = os.path.join(folder, out)
    run = lmtrace("record", "--workload", workload, "-o", path, "--force", "--json", *more)
    equal(run.code, code, repr(run))
    return path, run.json["metrics"]


def replay(folder, path, *more, code=0):
    run = lmtrace("replay", path, "--speed", "0", "--no-csv", "--output-dir", folder, "--format", "json", *more)
    equal(run.code, code, repr(run))
    return run.json["metrics"]


def calls(path):
    """Qualname and arguments of each record, as lmtrace shows them."""
    run = lmtrace("info", "--records", path)
    equal(run.code, 0, repr(run))
    return [line.split(" ", 3)[3] for line in lines(run.text)]


# What a workload gives on the virtual clock is the same on every machine: whole files, pinned.
PINNED = {
    "tiny": "1d7ff409e8095b00eeea8bebcba0527529a82dab22016c0a2bc3f76862987541",
    "tiers": "46c5a6e179be822cb5d3119e8180898cfe2785dd985f18fb8dd38246795a095d",
    "day": "bef7ed35a9c80229420fd6bfc4b7d1dd361356618e40fef3269bdac20de84439",
}


@tests
def pinned_files(folder):
    for name, expected in PINNED.items():
        path, metrics = record(folder, data(name + ".json"))
        equal(digest(path), expected, name)
        again, _ = record(folder, data(name + ".json"), out="again.lct")
        equal(digest(again), expected, name)
        equal(metrics["trace"]["dropped"], 0)
        equal(metrics["requests"]["failed"], 0)


@tests
def seeds_differ(folder):
    first, _ = record(folder, data("tiny.json"))
    other, _ = record(folder, data("tiny.json"), "--seed", "43", out="other.lct")
    same, _ = record(folder, data("tiny.json"), "--seed", "42", out="same.lct")
    true(digest(first) != digest(other))
    equal(digest(first), digest(same))


def check_preset(folder, preset):
    limit = [] if preset == "long-context" else ["--limit", "300"]
    path, metrics = record(folder, preset, *limit)
    again, _ = record(folder, preset, *limit, out="again.lct")
    equal(digest(path), digest(again))
    requests = metrics["requests"]["requests"]
    equal(requests, 200 if preset == "long-context" else 300)
    true(metrics["requests"]["chunks_hit"] > requests, "hardly a hit: %r" % metrics["requests"])
    info = lmtrace("info", "--json", path)
    equal(info.code, 0)
    contains(info.text, '"%s"' % "lmcache.v1.distributed.storage_manager.StorageManager.submit_prefetch_task")
    # A settled replay does what the recording did: the same hits, and nothing odd.
    found = replay(folder, path, "--config-from-trace")
    equal(found["overall"]["failed"], 0)
    equal(found["overall"]["skipped"] + found["overall"]["undecodable"], 0)
    equal(found["overall"]["replayed"], metrics["trace"]["records"])
    equal(found["tiers"], metrics["tiers"])
    equal(found["misses"], metrics["misses"])
    equal({name for name in found["anomalies"]} - {"allocation_failed"}, set())
    # Recorded again, it is the same file: calls, arguments, times, header.
    second = os.path.join(folder, "second.lct")
    replay(folder, path, "--config-from-trace", "--trace-level", "storage", "--trace-output", second)
    equal(digest(second), digest(path))


for preset in PRESETS:
    tests.add("preset_" + preset, lambda folder, preset=preset: check_preset(folder, preset))


@tests
def adapters_on_virtual_time(folder):
    """Real I/O takes no virtual time: two runs into empty folders are one file. A modelled device takes what it says."""
    paths = []
    for n in range(2):
        kv = os.path.join(folder, "kv%d" % n)
        os.mkdir(kv)
        path, metrics = record(folder, data("tiny.json"), "--l2", "fs:base_path=" + kv, "--l2-store-policy", "skip_l1", "--verify-data",
                               out="fs%d.lct" % n)
        true(metrics["tiers"]["l2_hits"] > 0)
        equal(metrics.get("status", {}).get("wrong_objects", 0), 0)
        paths.append(path)
    equal(digest(paths[0]), digest(paths[1]))
    slow, metrics = record(folder, data("tiny.json"), "--l2", "model:latency_us=250000", "--l2-store-policy", "skip_l1", out="slow.lct")
    fast, other = record(folder, data("tiny.json"), "--l2", "model:latency_us=1", "--l2-store-policy", "skip_l1", out="fast.lct")
    true(metrics["trace"]["span_s"] > other["trace"]["span_s"] + 1.0, "%r %r" % (metrics["trace"], other["trace"]))
    found = replay(folder, slow, "--config-from-trace", "--l2", "model:latency_us=1", "--l2-store-policy", "skip_l1")
    equal(found["tiers"], metrics["tiers"])


@tests
def limits(folder):
    _, metrics = record(folder, data("tiny.json"), "--limit", "7")
    equal(metrics["requests"]["requests"], 7)
    _, metrics = record(folder, data("tiny.json"), "--duration", "4s", "--limit", "1000")
    true(metrics["trace"]["span_s"] < 6.0, metrics["trace"])
    true(0 < metrics["requests"]["requests"] < 60)


@tests
def more_threads(folder):
    """One caller serves one request at a time: with a slow device, several end sooner."""
    slow = ["--l2", "model:latency_us=300000", "--l2-store-policy", "skip_l1", "--limit", "60"]
    _, one = record(folder, data("tiny.json"), "--threads", "1", *slow)
    _, many = record(folder, data("tiny.json"), "--threads", "16", *slow)
    equal((one["workload"]["threads"], many["workload"]["threads"]), (1, 16))
    true(many["trace"]["span_s"] < one["trace"]["span_s"], "%r %r" % (one["trace"], many["trace"]))


def changed(folder, **members):
    with open(data("tiny.json"), encoding="utf-8") as file:
        workload = json.load(file)
    workload.update(members)
    path = os.path.join(folder, "changed.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump({k: v for k, v in workload.items() if v is not None}, file)
    return path


@tests
def doc_example(folder):
    """What doc/workloads.md shows is taken."""
    with open(os.path.join(os.environ["LMT_SOURCE_DIR"], "doc", "workloads.md"), encoding="utf-8") as file:
        text = file.read()
    path = os.path.join(folder, "desk.json")
    with open(path, "w", encoding="utf-8") as file:
        file.write(re.search(r"\n(    \{\n      \"schema\".*?\n    \}\n)", text, re.S).group(1))
    _, metrics = record(folder, path)
    true(metrics["tiers"]["l2_hits"] > 0)
    for preset in PRESETS:
        contains(text, "| `%s` |" % preset)
    for name in os.listdir(os.path.join(os.environ["LMT_SOURCE_DIR"], "data", "models")):
        contains(text, "`%s`" % name[:-len(".json")])


@tests
def manager(folder):
    """The file's manager, and the line over it."""
    _, metrics = record(folder, data("tiny.json"))
    true(metrics["tiers"]["l1_evicted"] > 0)
    _, metrics = record(folder, data("tiny.json"), "--l1-size-gb", "1")
    equal(metrics["tiers"]["l1_evicted"], 0)
    path, _ = record(folder, changed(folder, manager=None))
    contains(lmtrace("info", "--header", path).text, '"size_in_bytes": %d' % (64 << 30))
    for bad, message in [({"l1-sise": "1GiB"}, "manager.l1-sise: unknown key"), ({"workload": "x"}, "manager.workload: unknown key"),
                         ({"eviction-policy": "FIFO"}, "manager.eviction-policy: --eviction-policy: expected"),
                         ({"l2-adapter": {"type": "nope"}}, "unknown adapter type 'nope'"),
                         ({"l1-size": None}, "manager.l1-size: expected what the flag of that name takes, found null")]:
        run = lmtrace("record", "--workload", changed(folder, manager=bad), "-o", os.path.join(folder, "no.lct"))
        refused(run)
        contains(run.errors, message)
    true(not os.path.exists(os.path.join(folder, "no.lct")))


@tests
def bad_workloads(folder):
    out = os.path.join(folder, "no.lct")
    broken = os.path.join(folder, "broken.json")
    with open(broken, "w", encoding="utf-8") as file:
        file.write('{"schema": \n "lmtrace/workload/1",,}')
    for workload, message in [("nosuch", "nosuch: workload: expected a file, or one of agents, chat, long-context, rag"),
                              (broken, "broken.json: line 2 column 23: "), (folder, "expected a file or a pipe, found a directory"),
                              ("/dev/zero", "/dev/zero: expected at most 16 MiB, found more"),
                              (changed(folder, requests=None), "expected duration or requests (or --duration, --limit), found neither")]:
        run = lmtrace("record", "--workload", workload, "-o", out)
        refused(run, workload)
        contains(run.errors, message)
    for args in (["-o", out], ["--workload", "chat"], ["--workload", "chat", "-o", out, "--threads", "0"],
                 ["--workload", "chat", "-o", out, "--clock", "wall"], ["--workload", "chat", "-o", out, "word"]):
        refused(lmtrace("record", *args))
    equal(sorted(tree(folder)), ["broken.json", "changed.json"])


@tests
def outputs(folder):
    path, _ = record(folder, data("tiny.json"))
    run = lmtrace("record", "--workload", data("tiny.json"), "-o", path)
    refused(run)
    contains(run.errors, "expected a new file, found one (--force overwrites it)")
    copy = shutil.copy(data("tiny.json"), folder)
    before = digest(copy)
    link = os.path.join(folder, "link.json")
    os.link(copy, link)
    refused(lmtrace("record", "--workload", copy, "-o", link, "--force"))
    equal(digest(copy), before)
    refused(lmtrace("record", "--workload", data("tiny.json"), "-o", os.path.join(folder, "no", "x.lct")))
    run = lmtrace("record", "--workload", data("tiny.json"), "-o", "-")
    equal(run.code, 0)
    equal(hashlib.sha256(run.out).hexdigest(), digest(path))
    contains(run.errors, "Recorded Workload")
    # A reader who has seen enough is no failure; a disk that is full is one.
    process = subprocess.Popen([LMTRACE, "record", "--workload", "chat", "-o", "-"], env=environment(), stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE)
    process.stdout.read(100)
    process.stdout.close()
    errors = process.stderr.read().decode()
    equal(process.wait(), 0, errors)
    true("Broken pipe" not in errors and "incomplete" not in errors, errors)
    for name in ("x.lct.gz", "x.lct.zst"):
        packed, _ = record(folder, data("tiny.json"), out=name)
        equal(calls(packed), calls(path), name)
        true(os.path.getsize(packed) < os.path.getsize(path) // 2)


@tests
def recording_options(folder):
    """What trace-format 10 says of recording holds here, too."""
    path, _ = record(folder, data("tiny.json"))
    newer, _ = record(folder, data("tiny.json"), "--trace-schema", "2", out="newer.lct")
    contains(lmtrace("info", newer).text, "trace_schema_version:       2")
    equal(replay(folder, newer, "--config-from-trace")["tiers"], replay(folder, path, "--config-from-trace")["tiers"])
    _, metrics = record(folder, data("tiny.json"), "--trace-rotate", "40KiB", out="many.lct")
    names = ["many.lct"] + ["many.lct.%d" % n for n in range(1, metrics["trace"]["files"])]
    true(len(names) > 2)
    equal(sum((calls(os.path.join(folder, name)) for name in names), []), calls(path))
    # A set that is there is kept, its second file too.
    second = os.path.join(folder, "set.lct.1")
    shutil.copy(path, second)
    run = lmtrace("record", "--workload", data("tiny.json"), "-o", second[:-2], "--trace-rotate", "40KiB")
    refused(run)
    contains(run.errors, "set.lct.1: expected a new file, found one")
    equal(digest(second), digest(path))
    events, metrics = record(folder, data("tiny.json"), "--trace-level", "events", out="events.lct")
    again, _ = record(folder, data("tiny.json"), "--trace-level", "events", out="again.lct")
    equal(digest(events), digest(again))
    text = lmtrace("info", events).text
    contains(text, "lifecycle:")
    contains(text, "total_records:              %d" % metrics["trace"]["records"])
    true(metrics["trace"]["records"] > 10)
    small = os.path.join(folder, "small.lct")
    run = lmtrace("record", "--workload", data("tiny.json"), "-o", small, "--clock", "virtual", "--trace-buffer", "64KiB", "--json")
    equal((run.code, digest(small)), (0, digest(path)))  # on the virtual clock a full buffer is waited for


@tests
def disk_full(folder):
    run = lmtrace("record", "--workload", data("tiny.json"), "-o", "/dev/full")
    true(run.code in (1, 2), repr(run))
    contains(run.errors, "No space left on device")


@tests
def quiet_and_json(folder):
    run = lmtrace("record", "--workload", data("tiny.json"), "-o", os.path.join(folder, "a.lct"), "-q")
    equal((run.code, run.out), (0, b""))
    run = lmtrace("record", "--workload", data("tiny.json"), "-o", os.path.join(folder, "b.lct"), "--format", "json")
    envelope = run.json
    equal((envelope["schema"], envelope["partial"], envelope["exit"]), ("lmtrace/record/1", False, 0))
    equal(envelope["metrics"]["workload"]["seed"], 42)


@tests
def interrupted(folder):
    """Real time: a signal ends the wait for the next request; the file is whole."""
    path = os.path.join(folder, "out.lct")
    slow = changed(folder, arrivals={"poisson": 0.001}, clock="real")
    process = start("record", "--workload", slow, "-o", path, "--json")
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    run = end(process, 30)
    equal(run.code, 130, repr(run))
    equal((run.json["partial"], run.json["exit"]), (True, 130))
    equal(lmtrace("info", path).code, 0)


@tests
def interrupted_twice(folder):
    """A device that takes its time: the first signal lets the request under way end, the second doesn't."""
    path = os.path.join(folder, "out.lct")
    fast = changed(folder, arrivals={"poisson": 1000}, clock="real")
    for number in (signal.SIGTERM, signal.SIGINT):
        process = start("record", "--workload", fast, "-o", path, "--force", "--json", "--l2", "model:lookup_us=60000000")
        time.sleep(0.5)
        process.send_signal(number)
        time.sleep(0.5)
        equal(process.poll(), None)
        begun = time.monotonic()
        process.send_signal(number)
        run = end(process, 30)
        true(time.monotonic() - begun < 20)
        equal(run.code, 130, repr(run))
        equal(run.json["partial"], True)
        equal(lmtrace("info", path).code, 0)


@tests
def too_small_a_buffer(folder):
    """What doesn't fit is dropped, counted, said, and no success."""
    big = changed(folder, classes=[{"input_tokens": 64 * 1000}], requests=4, manager={"l1-size": "1GiB", "eviction-policy": "noop"})
    run = lmtrace("record", "--workload", big, "-o", os.path.join(folder, "a.lct"), "--trace-buffer", "64KiB", "--json")
    equal(run.code, 1, repr(run))
    dropped = run.json["metrics"]["trace"]["dropped"]
    true(dropped > 0)
    contains(run.errors, "%d records are not in the trace" % dropped)
    equal(run.json["metrics"]["trace"]["records"] + dropped, run.json["metrics"]["requests"]["calls"])


@tests
def real_clock(folder):
    """The same driver on real time: short, and its trace replays."""
    fast = changed(folder, arrivals={"poisson": 200}, clock="real", requests=60,
                   classes=[{"shared_prefix_tokens": {"zipf": [5, 1], "tokens": 200}, "input_tokens": 100}])
    path, metrics = record(folder, fast, "--l2", "dram", "--l2-store-policy", "skip_l1")
    equal(metrics["trace"]["clock"], "real")
    true(metrics["requests"]["requests"] == 60)
    found = replay(folder, path, "--config-from-trace", "--l2", "dram", "--l2-store-policy", "skip_l1")
    equal((found["overall"]["failed"], found["overall"]["replayed"]), (0, metrics["trace"]["records"]))


# -------- import --------

IMPORTED = {
    "mooncake": "355fb8d0886926378d9feb0a02de848d9dcd07a743533babb5ec9bd83c51c046",
    "qwen-bailian": "204582ea44d43907c5416cafca999d340acc076d88f290b39cd93036d076fafa",
}


def run_import(folder, form, file, *more, out="in.lct", shape="qwen2.5-7b"):
    path = os.path.join(folder, out)
    return path, lmtrace("import", form, file, "--model-shape", shape, "-o", path, *more)


@tests
def import_samples(folder):
    for form, expected in IMPORTED.items():
        file = data(form + ".jsonl")
        path, run = run_import(folder, form, file, out=form + ".lct")
        equal(run.code, 0, repr(run))
        equal(run.text, "%s -> %s: 60 in, 60 out, 0 dropped\n" % (file, path))
        equal(digest(path), expected, form)
        found = replay(folder, path, "--config-from-trace")
        equal((found["overall"]["failed"], found["overall"]["skipped"], found["overall"]["undecodable"]), (0, 0, 0))
        equal(found["anomalies"], {})
        with open(file, encoding="utf-8") as rows:
            rows = [json.loads(row) for row in rows]
        block = {"mooncake": 512, "qwen-bailian": 16}[form]
        asked = sum(row["input_length"] // block for row in rows)
        equal(found["tiers"]["cells_asked"], asked)
        # With room for all, what was hit is what an earlier row had.
        seen, hit = set(), 0
        for row in rows:
            ids = row["hash_ids"][:row["input_length"] // block]
            for n, id in enumerate(ids):
                if id not in seen:
                    break
                hit += 1
            seen.update(ids)
        equal(found["tiers"]["l1_hits"], hit)


@tests
def import_hashes(folder):
    """`mooncake:0` by BLAKE3, as b3sum gives it; times from the first row on."""
    path, run = run_import(folder, "mooncake", data("mooncake.jsonl"), "--limit", "1")
    equal(run.code, 0)
    contains(run.text, ": 1 in, 1 out, 0 dropped")
    contains(calls(path)[0], '"chunk_hash":"0xb891bae02513bcbada754ba261426695fcaa723ea3367ae005d1e170a9bf04f0"')
    contains(lmtrace("info", "--records", "1", path).text, "1 ")


@tests
def import_packed(folder):
    plain, _ = run_import(folder, "mooncake", data("mooncake.jsonl"))
    with open(data("mooncake.jsonl"), "rb") as file:
        text = file.read()
    packed = os.path.join(folder, "rows.gz")
    with open(packed, "wb") as file:
        file.write(gzip.compress(text))
    again, run = run_import(folder, "mooncake", packed, out="again.lct")
    equal((run.code, digest(again)), (0, digest(plain)))
    path = os.path.join(folder, "stdin.lct")
    run = lmtrace("import", "mooncake", "-", "--model-shape", "qwen2.5-7b", "-o", path, stdin=text)
    equal((run.code, digest(path)), (0, digest(plain)))
    with open(packed, "r+b") as file:
        file.truncate(os.path.getsize(packed) // 2)
    _, run = run_import(folder, "mooncake", packed, out="cut.lct")
    equal(run.code, 1, repr(run))
    contains(run.errors, "rows.gz: compressed stream ends early")


BAD_ROWS = [
    ('nonsense', "not JSON", "not JSON: line 1 column 1"),
    ('[1]', "not an object", "not an object: an array"),
    ('{"timestamp": 1, "hash_ids": [1]}', "input_length", "input_length: expected a whole number from 0 on, found nothing"),
    ('{"timestamp": 1, "input_length": -5, "hash_ids": [1]}', "input_length", "found -5"),
    ('{"timestamp": 1, "input_length": 512, "output_length": "x", "hash_ids": [1]}', "output_length", "found a string"),
    ('{"timestamp": 1, "input_length": 512}', "hash_ids", "hash_ids: expected an array of whole numbers, found nothing"),
    ('{"timestamp": 1, "input_length": 512, "hash_ids": [1, 2.5]}', "hash_ids", "found 2.5"),
    ('{"timestamp": 1, "input_length": 512, "hash_ids": [-1]}', "hash_ids", "found -1"),
    ('{"timestamp": 1, "input_length": 1024, "hash_ids": [7, 7]}', "hash_ids repeat", "hash_ids repeat: expected each once in a row, found one twice"),
    ('{"timestamp": "1", "input_length": 512, "hash_ids": [1]}', "timestamp", "timestamp: expected a number from 0 on, found a string"),
    ('{"timestamp": -1, "input_length": 512, "hash_ids": [1]}', "timestamp", "found -1"),
    ('{"timestamp": 1e14, "input_length": 512, "hash_ids": [1]}', "timestamp", "less than 1e9 s after the first row"),
]


@tests
def import_bad_rows(folder):
    good = '{"timestamp": 5, "input_length": 1500, "output_length": 3, "hash_ids": [1, 2, 3]}'
    for row, reason, message in BAD_ROWS:
        file = os.path.join(folder, "rows.jsonl")
        with open(file, "w", encoding="utf-8") as out:
            out.write("%s\n\n%s\n%s" % (good, row, good))  # an empty line is no row; the last one may lack its end
        path, run = run_import(folder, "mooncake", file, "--force")
        equal(run.code, 1, row + repr(run))
        equal(run.text, "%s -> %s: 3 in, 2 out, 1 dropped\n  %s: 1, first at line 3\n" % (file, path, reason))
        contains(run.errors, "%s: line 3: " % file)
        contains(run.errors, message)
        equal(len(lines(run.errors)), 1, run.errors)
    for value, code in (("0", 1), ("1", 0), ("34%", 0), ("30%", 1)):
        _, run = run_import(folder, "mooncake", file, "--force", "--max-errors", value)
        equal(run.code, code, value)
    for value in ("x", "-1", "120%"):
        refused(run_import(folder, "mooncake", file, "--force", "--max-errors=" + value)[1], value)


@tests
def import_many_bad_rows(folder):
    """Ten of a kind are shown, all are counted."""
    file = os.path.join(folder, "rows.jsonl")
    with open(file, "w", encoding="utf-8") as out:
        out.write("x\n" * 500)
    path, run = run_import(folder, "mooncake", file, "--json")
    equal(run.code, 1)
    metrics = run.json["metrics"]
    equal(metrics["import"]["rows_dropped"], 500)
    equal(metrics["dropped"], [{"reason": "not JSON", "count": 500, "first_line": 1}])
    equal(len(lines(run.errors)), 11)
    equal(lmtrace("info", path).code, 0)


@tests
def import_time_and_ids(folder):
    """A step back in time comes with the row above; ids beyond the input, or too few, are told."""
    rows = ['{"timestamp": 1000, "input_length": 512, "hash_ids": [1]}', '{"timestamp": 400, "input_length": 512, "hash_ids": [1, 2, 3]}',
            '{"timestamp": 3500, "input_length": 2000, "hash_ids": [1]}', '{"timestamp": 3500, "input_length": 3, "hash_ids": [9]}']
    file = os.path.join(folder, "rows.jsonl")
    with open(file, "w", encoding="utf-8") as out:
        out.write("\n".join(rows))
    path, run = run_import(folder, "mooncake", file, "--json")
    equal(run.code, 0, repr(run))
    found = run.json["metrics"]["import"]
    equal((found["rows_back_in_time"], found["rows_short_of_ids"], found["rows_surplus_ids"]), (1, 1, 1))
    equal(run.json["metrics"]["requests"]["without_chunk"], 1)
    times = [float(line.split(" ")[2]) for line in lines(lmtrace("info", "--records", path).text) if "submit_prefetch" in line]
    equal([round(t, 3) for t in times], [0.0, 0.0, 2.5])


@tests
def import_shapes(folder):
    shape = os.path.join(folder, "shape.json")
    file = data("mooncake.jsonl")

    def write_shape(**more):
        with open(shape, "w", encoding="utf-8") as out:
            json.dump({"name": "m", "layers": 2, "kv_heads": 4, "head_dim": 8, "dtype": "float16", **more}, out)

    write_shape(chunk_tokens=512, world_size=2)
    path, run = run_import(folder, "mooncake", file, shape=shape)
    equal(run.code, 0, repr(run))
    contains(calls(path)[0], '"kv_rank":%d' % 0x02000200)
    write_shape(chunk_tokens=256)
    _, run = run_import(folder, "mooncake", file, "--force", shape=shape)
    refused(run)
    contains(run.errors, "chunk_tokens: expected 512, the tokens of a block of this format, or none, found 256")
    write_shape(heads=3)
    _, run = run_import(folder, "mooncake", file, "--force", shape=shape)
    refused(run)
    contains(run.errors, 'shape.json: unknown key "heads"')
    _, run = run_import(folder, "mooncake", file, "--force", shape="nosuch")
    refused(run)
    contains(run.errors, "nosuch: model shape: expected a file, or one of gemma-3-27b, ")
    _, run = run_import(folder, "csv", file, "--force")
    refused(run)
    contains(run.errors, 'FORMAT: expected one of mooncake, qwen-bailian, lookup-hashes, found "csv"')
    refused(run_import(folder, "mooncake", os.path.join(folder, "no.jsonl"), "--force")[1])
    refused(lmtrace("import", "mooncake", file, "-o", os.path.join(folder, "x.lct")))


@tests
def import_keeps_inputs(folder):
    file = shutil.copy(data("mooncake.jsonl"), folder)
    before = digest(file)
    refused(lmtrace("import", "mooncake", file, "--model-shape", "qwen2.5-7b", "-o", file, "--force"))
    equal(digest(file), before)
    with open(file, "rb") as rows:  # the same by a redirection
        run = subprocess.run([LMTRACE, "import", "mooncake", "-", "--model-shape", "qwen2.5-7b", "-o", file, "--force"], stdin=rows,
                             capture_output=True, env=environment(), check=False)
    equal(run.returncode, 2, run.stderr)
    equal(digest(file), before)


def chunks_asked(path):
    """Chunk hashes of each prefetch, as they stand in its first row."""
    asked = []
    for line in calls(path):
        name, args = line.split(" ", 1)
        if name.endswith(".submit_prefetch_task"):
            keys = json.loads(args)["spec"]["v"]["key_groups"][0]["v"]["keys"]
            asked.append([key["v"]["chunk_hash"] for key in keys])
    return asked


@tests
def import_lookup_hashes(folder):
    """The log of a replay holds what the trace asked for: imported, the same is asked for at the same times."""
    path, _ = record(folder, data("tiny.json"))
    logs = os.path.join(folder, "logs")
    replay(folder, path, "--config-from-trace", "--lookup-hash-log-dir", logs)
    log = os.path.join(logs, os.listdir(logs)[0])
    again, run = run_import(folder, "lookup-hashes", log)
    equal(run.code, 0, repr(run))
    equal(chunks_asked(again), chunks_asked(path))
    rows = ['{"timestamp": 1.5, "request_id": "a", "chunk_size": 256, "seq_len": 600, "chunk_hashes": ["0xab", "0x%s"]}' % ("cd" * 32),
            '{"timestamp": 2.5, "request_id": "b", "chunk_size": 16, "chunk_hashes": ["0xab"]}',
            '{"timestamp": 2.5, "request_id": 7, "chunk_hashes": []}', '{"timestamp": 2.5, "chunk_hashes": [3]}',
            '{"timestamp": 2.5, "chunk_hashes": ["0xab", "0xab"]}']
    file = os.path.join(folder, "rows.jsonl")
    with open(file, "w", encoding="utf-8") as out:
        out.write("\n".join(rows))
    path, run = run_import(folder, "lookup-hashes", file, out="rows.lct")
    equal(run.code, 1)
    equal(run.text.split("\n")[0], "%s -> %s: 5 in, 1 out, 4 dropped" % (file, path))
    for reason in ("chunk_size: 1, first at line 2", "request_id: 1, first at line 3", "chunk_hashes: 1, first at line 4",
                   "chunk_hashes repeat: 1, first at line 5"):
        contains(run.text, "  %s\n" % reason)
    equal(chunks_asked(path)[0][1], "0x" + "cd" * 32)
    contains(calls(path)[0], '"external_request_id":"a"')


@tests
def import_memory(folder):
    """A hundred thousand rows in the memory of a few."""
    file = os.path.join(folder, "rows.jsonl")

    def peak(n):
        with open(file, "w", encoding="utf-8") as out:
            for i in range(n):
                out.write('{"timestamp": %d, "input_length": 2048, "output_length": 1, "hash_ids": [0, %d, %d, %d]}\n'
                          % (i, i % 50 + 1, i % 50 + 101, i % 50 + 201))
        program = ("import resource, subprocess, sys; code = subprocess.call(sys.argv[1:]); "
                   "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss); sys.exit(code)")
        done = subprocess.run([sys.executable, "-c", program, LMTRACE, "import", "mooncake", file, "--model-shape", "qwen2.5-7b", "-o",
                               os.path.join(folder, "x.lct"), "--force", "-q"], capture_output=True, text=True, env=environment(), check=True)
        return int(done.stdout)

    if os.environ.get("LMT_SANITIZED"):
        return  # its own books grow
    few, many = peak(20000), peak(60000)  # the recorder's ring is as large as it gets
    true(many < few + 4096, "%d KiB, %d KiB" % (few, many))


if __name__ == "__main__":
    sys.exit(tests.main())
