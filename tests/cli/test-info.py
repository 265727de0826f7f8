#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The options of `info`, several files, pipes, packed files, signals, memory (cli.md 2, 7, 8.3 to 8.8)."""
import csv
import gzip
import io
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time

import lib
from lib import DATA, LMTRACE, SM, TRACES, Tests, contains, environment, equal, frame, header, lines, lmtrace, record, refused, true, write

test = Tests()
STORAGE = os.path.join(DATA, "storage")
TINY = os.path.join(STORAGE, "0.5.6", "tiny.lct")
LARGE = os.path.join(STORAGE, "0.5.6", "large.lct")


def read(path):
    with open(path, "rb") as f:
        return f.read()


def first_frames(path, n):
    """Header and n records."""
    data, at = read(path), 0
    for _ in range(n + 1):
        at += 4 + int.from_bytes(data[at:at + 4], "big")
    return data[:at]


@test
def several_files(folder):
    one, two = lmtrace("info", TINY), lmtrace("info", LARGE)
    both = lmtrace("info", TINY, LARGE)
    equal((both.code, both.text), (0, one.text + "\n" + two.text))
    doc = lmtrace("info", "--json", TINY, LARGE).json
    equal([f["total_records"] for f in doc["metrics"]["files"]], [6, 14002])


@test
def worst_exit_code(folder):
    empty = write(os.path.join(folder, "empty.lct"))
    run = lmtrace("info", empty, TINY, folder + "/none.lct")
    equal(run.code, 2)
    equal(run.text, lmtrace("info", TINY).text)
    equal(run.errors, "lmtrace: %s: frame 0 at offset 0: expected a trace header, found an empty file\n"
                      "lmtrace: %s/none.lct: cannot open: No such file or directory\n" % (empty, folder))
    doc = lmtrace("info", "--json", empty, TINY).json
    equal(doc["exit"], 2)
    contains(doc["metrics"]["files"][0]["error"], "empty file")
    equal(doc["metrics"]["files"][1]["total_records"], 6)


@test
def refusals(folder):
    """Empty, three bytes, a picture, a folder, not readable, a text: one line with the file's name, exit 2."""
    cases = {"empty": b"", "three": b"\0\0\0", "png": b"\x89PNG\r\n\x1a\n" + bytes(100), "text": b"hello world\n",
             "array": frame(b"\x93\x01\x02\x03"), "four": b"\xff\xff\xff\xff"}
    for name, data in cases.items():
        path = write(os.path.join(folder, name), data)
        run = lmtrace("info", path)
        refused(run, name)
        contains(run.errors, "lmtrace: %s: frame 0 at offset 0: " % path)
        doc = lmtrace("info", "--json", path)
        equal((doc.code, doc.json["exit"]), (2, 2))
        equal(doc.json["error"]["file"], path)
        true("metrics" not in doc.json)
    refused(lmtrace("info", folder))
    if os.geteuid() != 0:
        os.chmod(path, 0)
        contains(lmtrace("info", path).errors, "cannot open: Permission denied")
    refused(lmtrace("info"))


@test
def level_of_a_plugin(folder):
    """A level nobody knows is shown all the same, with a note; a known one without."""
    path = write(os.path.join(folder, "x.lct"), header("nobody"), record(0.5, "a.b", {}))
    run = lmtrace("info", path)
    equal(run.code, 0)
    contains(run.text, "  level:                      nobody\n")
    contains(run.text, "    a.b: 1\n")
    equal(run.errors, "lmtrace: warning: %s: level 'nobody' is not known\n" % path)
    equal(lmtrace("info", TINY).errors, "")


@test
def level_meta_values(folder):
    meta = {"zeta": "text", "int": 5, "float": 1e16, "small": 1e-05, "yes": True, "none": None, "list": [1, "a", b"\x00b", []],
            "map": {"k": 1, "l": "it's"}, "bytes": b"q'\n", "a": "", "日本": "é", "deep": [[[{}]]]}
    path = write(os.path.join(folder, "x.lct"), header("nobody", level_meta=meta))
    text = lmtrace("info", path).text
    block = text[text.index("  sm_config_digest"):text.index("  total_records")].split("\n", 1)[1]
    expected = {"a": "", "bytes": "b\"q'\\n\"", "deep": "[[[{}]]]", "float": "1e+16", "int": "5", "list": "[1, 'a', b'\\x00b', []]",
                "map": "{'k': 1, 'l': \"it's\"}", "none": "None", "small": "1e-05", "yes": "True", "zeta": "text", "日本": "é"}
    equal(block, "".join("  %-28s%s\n" % (key + ":", expected[key]) for key in sorted(expected)))


@test
def header_alone(folder):
    """All keys in the file's order, unknown ones too; what follows isn't even looked at."""
    path = write(os.path.join(folder, "x.lct"), header("demo", build="x1", comment=[1, 2]), b"\xff" * 1000)
    run = lmtrace("info", "--header", path)
    equal(run.code, 0)
    labels = [line.split(":")[0].strip() for line in lines(run.text)[1:]]
    equal(labels, ["type", "magic", "format_version", "level", "trace_schema_version", "t_mono_start", "t_wall_start",
                   "sm_config_json", "sm_config_digest", "build", "comment"])
    contains(run.text, "  magic:                      b'LMCT'\n")
    contains(run.text, "  comment:                    [1, 2]\n")
    doc = lmtrace("info", "--header", "--json", path).json
    equal(list(doc["metrics"]["header"])[-2:], ["build", "comment"])
    equal(doc["metrics"]["header"]["magic"], "0x4c4d4354")
    # Constant time: a file of a terabyte (all hole) is as quick.
    with open(path, "r+b") as f:
        try:
            f.truncate(1 << 40)
        except OSError:
            return
    equal(lmtrace("info", "--header", path, timeout=10).code, 0)


@test
def print_records(folder):
    run = lmtrace("info", "--records", TINY)
    equal(run.code, 0)
    rows = [line.split(" ", 4) for line in lines(run.text)]
    equal([row[0] for row in rows], [str(n) for n in range(1, 7)])
    equal(rows[0][1], "1495")
    equal(rows[0][3], SM + "reserve_write")
    equal(json.loads(rows[0][4])["keys"][0],
          {"__t__": "ObjectKey", "v": {"chunk_hash": "0xaa01", "model_name": "m", "kv_rank": 16777472, "object_group_id": 0}})
    for words in (("--records=2", TINY), ("--records", "2", TINY), (TINY, "--records", "2")):
        equal(lmtrace("info", *words).text, "".join(line + "\n" for line in lines(run.text)[:2]), repr(words))
    equal(lmtrace("info", "--records=3..4", TINY).text, "".join(line + "\n" for line in lines(run.text)[2:4]))
    doc = lmtrace("info", "--records=2", "--json", TINY).json["metrics"]
    equal([r["number"] for r in doc["records"]], [1, 2])
    equal(doc["records"][0]["args"]["keys"][0]["v"]["chunk_hash"], "0xaa01")
    out = os.path.join(folder, "out")
    equal(lmtrace("info", "--records", "--output", out, "-q", TINY).text, "")
    equal(read(out), run.out)
    both = lmtrace("info", "--records=1", TINY, TINY).text
    equal(lines(both).count("Trace file: " + TINY), 2)
    for words in (("--records=0",), ("--records=x",), ("--records=-1",), ("--records", "--format", "csv"),
                  ("--records", "--stats"), ("--header", "--records"), ("--header", "--stats")):
        refused(lmtrace("info", *words, TINY), repr(words))
    equal(lmtrace("info", "--records", "--json", TINY).json["error"]["code"], "option")


@test
def closed_stdout(folder):
    """`| head`: ends at once, quietly, with 0."""
    big = write(os.path.join(folder, "big.lct"), read(LARGE), *[read(LARGE)[len(first_frames(LARGE, 0)):]] * 5)
    process = subprocess.Popen([LMTRACE, "info", "--records", big], env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdout.readline()
    process.stdout.close()
    equal((process.wait(timeout=30), process.stderr.read()), (0, b""))
    process.stderr.close()


@test
def selection(folder):
    all_ops = lmtrace("info", "--json", LARGE).json["metrics"]["ops"]
    some = lmtrace("info", "--json", "--qualname", "*finish*", "--qualname", "!*read*", LARGE).json["metrics"]
    equal(some["ops"], {SM + "finish_write": all_ops[SM + "finish_write"]})
    equal(some["total_records"] + some["left_out"], 14002)
    contains(lmtrace("info", "--qualname", "*__exit__", LARGE).text, "  left_out:                   9850\n")
    halves = [lmtrace("info", "--json", "--time", span, LARGE).json["metrics"]["total_records"] for span in ("..50%", "50%..")]
    true(14002 <= sum(halves) <= 14003, repr(halves))
    model = lmtrace("info", "--json", "--model", "m1", LARGE).json["metrics"]["total_records"]
    true(0 < model < 14002)
    true(0 < lmtrace("info", "--json", "--key", "448e936b", LARGE).json["metrics"]["total_records"] < model)
    path = write(os.path.join(folder, "x.lct"), header("nobody"), record(0.5, "a.b", {}))
    refused_lines = lmtrace("info", "--model", "m", path)
    equal((refused_lines.code, refused_lines.out), (2, b""))
    contains(refused_lines.errors, "level \"nobody\": its records can't be selected by what is in them")
    refused(lmtrace("info", "--time", "x..", TINY))
    doc = lmtrace("info", "--json", "--model", "m", path)
    equal((doc.code, doc.json["error"]["code"]), (2, "unsupported"))


@test
def stdin_pipe_fifo(folder):
    expected = lmtrace("info", "large.lct", cwd=os.path.dirname(LARGE)).text.replace("Trace file: large.lct", "Trace file: -")
    run = lmtrace("info", "-", stdin=read(LARGE))
    equal((run.code, run.text), (0, expected))
    with open(LARGE, "rb") as f:
        run = subprocess.run([LMTRACE, "info", "-"], stdin=f, stdout=subprocess.PIPE, env=environment())
    equal((run.returncode, run.stdout.decode()), (0, expected))
    fifo = os.path.join(folder, "fifo")
    os.mkfifo(fifo)
    process = subprocess.Popen([LMTRACE, "info", fifo], stdout=subprocess.PIPE, env=environment())
    with open(fifo, "wb") as f:
        f.write(read(LARGE))
    equal(process.communicate(timeout=30)[0].decode(), expected.replace("Trace file: -", "Trace file: " + fifo))
    refused(lmtrace("info", "-", "-", stdin=read(TINY)))
    # A percentage needs the span, and that a second look.
    refused(lmtrace("info", "--time", "50%..", "-", stdin=read(TINY)))


@test
def packed(folder):
    expected = lmtrace("info", LARGE).text.split("\n", 1)[1]
    path = write(os.path.join(folder, "t"), gzip.compress(read(LARGE)))
    equal(lmtrace("info", path).text.split("\n", 1)[1], expected)
    equal(lmtrace("info", "-", stdin=read(path)).text.split("\n", 1)[1], expected)
    cut = write(os.path.join(folder, "cut.lct"), read(path)[:-20000])
    run = lmtrace("info", cut)
    equal(run.code, 0)
    contains(run.errors, "compressed stream ends early")
    true("truncated" not in run.errors)
    equal(lmtrace("info", "--strict", cut).code, 1)
    equal(lmtrace("info", "--json", cut).json["metrics"]["state"]["tail"], "compressed stream ends early")
    broken = bytearray(read(path))
    broken[len(broken) // 2:len(broken) // 2 + 30] = bytes(30)
    run = lmtrace("info", write(os.path.join(folder, "broken"), bytes(broken)))
    equal(run.code, 2)
    true(re.search(r"broken: record [0-9]+ at offset [0-9]+: gzip: ", run.errors), run.errors)
    equal(lmtrace("info", "--json", os.path.join(folder, "broken")).json["partial"], True)
    zstd = shutil.which("zstd")
    if zstd:
        path = write(os.path.join(folder, "z"), subprocess.run([zstd, "-q", "-c", LARGE], stdout=subprocess.PIPE).stdout)
        equal(lmtrace("info", path).text.split("\n", 1)[1], expected)


@test
def follow(folder):
    path = os.path.join(folder, "grows.lct")
    data = read(TINY)
    write(path, data[:100])
    process = subprocess.Popen([LMTRACE, "info", "--follow", "--follow-idle", "2", path], stdout=subprocess.PIPE, env=environment())
    with open(path, "ab") as f:
        for at in range(100, len(data), 700):
            f.write(data[at:at + 700])
            f.flush()
            time.sleep(0.02)
    out = process.communicate(timeout=30)[0].decode()
    equal(out.split("\n", 1)[1], lmtrace("info", TINY).text.split("\n", 1)[1])


@test
def interrupted(folder):
    """A signal ends the wait: what was read is shown, partial, 130."""
    path = write(os.path.join(folder, "t.lct"), read(TINY))
    for sign in (signal.SIGINT, signal.SIGTERM):
        process = subprocess.Popen([LMTRACE, "info", "--json", "--follow", "--follow-idle", "0", path], stdout=subprocess.PIPE,
                                   env=environment())
        time.sleep(0.5)
        process.send_signal(sign)
        out = process.communicate(timeout=30)[0]
        doc = json.loads(out)
        equal((process.returncode, doc["exit"], doc["partial"], doc["metrics"]["total_records"]), (130, 130, True, 6))
    fifo = os.path.join(folder, "fifo")
    os.mkfifo(fifo)
    process = subprocess.Popen([LMTRACE, "info", "--json", fifo], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment())
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    out, errors = process.communicate(timeout=30)
    doc = json.loads(out)
    equal((process.returncode, doc["partial"], doc["error"]["code"]), (130, True, "interrupted"))
    equal(errors.decode(), f"lmtrace: {fifo}: interrupted before the header was there\n")


@test
def glued(folder):
    """Two files in one: both commands say so, and where."""
    path = write(os.path.join(folder, "glued.lct"), read(TINY) + read(TINY))
    words = f"glued.lct: record 7 at offset {len(read(TINY))} "
    for args in (["info"], ["replay", "--speed", "0", "--l1-size-gb", "1", "--eviction-policy", "LRU", "--no-csv"]):
        run = lmtrace(*args, path)
        equal(run.code, 0, repr(run))
        contains(run.errors, words)
        contains(run.errors, "header-frame: two files seem to be glued together\n")


@test
def formats(folder):
    doc = lmtrace("info", "--format", "json", TINY).json
    equal(sorted(doc), ["exit", "metrics", "partial", "schema", "title", "warnings"])
    equal((doc["schema"], doc["exit"], doc["partial"], doc["warnings"]), ("lmtrace/info/1", 0, False, []))
    metrics = doc["metrics"]
    equal(metrics["sm_config"]["store_policy"], "default")
    # Every figure of the text is in it.
    for line in lines(lmtrace("info", TINY).text)[1:]:
        label, value = [part.strip() for part in line.rsplit(": ", 1)] if ": " in line else (line, "")
        if label.startswith("lmcache."):
            equal(metrics["ops"][label], int(value))
        elif label == "duration":
            equal("%.3fs" % metrics["duration_s"], value)
        elif value:
            equal(str(metrics[label]), value)
    rows = list(csv.reader(io.StringIO(lmtrace("info", "--format", "csv", TINY).text)))
    equal(rows[0], ["file", "qualname", "count"])
    equal(len(rows), 7)
    equal(rows[1], [TINY, SM + "finish_read_prefetched", "1"])
    out = os.path.join(folder, "report.json")
    run = lmtrace("info", "--json", "--output", out, "-q", TINY)
    equal((run.code, run.out), (0, b""))
    equal(json.loads(read(out)), doc)
    warned = lmtrace("info", "--json", os.path.join(STORAGE, "malformed", "zero-length-frame.lct")).json
    equal([(w["code"], w["count"]) for w in warned["warnings"]], [("malformed", 1)])


@test
def many_malformed(folder):
    """At most ten lines of a kind, then how many more."""
    path = write(os.path.join(folder, "x.lct"), header("nobody"), *[frame(b"\xc1")] * 50, record(0.5, "a.b", {}))
    run = lmtrace("info", path)
    equal(run.code, 0)
    contains(run.text, "  total_records:              1\n")
    equal(sum("invalid-msgpack" in line for line in lines(run.errors)), 10)
    contains(run.errors, "40 more")


@test
def names(folder):
    """Names with blanks, control characters and bytes that are no UTF-8; names that begin with a dash."""
    odd = os.path.join(folder.encode(), b"a \xff b.lct")
    shutil.copy(TINY, odd)
    run = lmtrace("info", odd)
    equal(run.code, 0)
    run.out.decode("utf-8")
    equal(lmtrace("info", "--json", odd).json["metrics"]["total_records"], 6)
    shutil.copy(TINY, os.path.join(folder, "-x.lct"))
    equal(lmtrace("info", "--", "-x.lct", cwd=folder).code, 0)


@test
def statistics(folder):
    doc = lmtrace("info", "--stats", "--top", "2", "--json", LARGE).json["metrics"]
    equal(doc["objects"]["distinct_keys"], 205)
    equal(doc["objects"]["bytes"], 205 * 2560)
    equal(doc["reuse"]["references"], 1243)
    equal(sum(t["keys"] for t in doc["tenants"]), 205)
    equal(sum(t["references"] for t in doc["tenants"]), 1243)
    equal(doc["tenants_told_apart"], False)
    equal(doc["health"]["incomplete"], "unknown")
    equal(doc["top"][0], {"key": "m1 rank=16777472 group=0 hash=0x448e936b4552437b", "references": 371})
    equal(len(doc["top"]), 2)
    equal(sum(w["records"] for w in doc["time"]["series"]), 14002)
    windows = lmtrace("info", "--stats", "--window", "100ms", "--json", LARGE).json["metrics"]["time"]
    equal((windows["window_s"], windows["windows"]), (0.1, 61))
    equal(sum(w["records"] for w in windows["series"]), 14002)
    # The text has the same figures behind the unchanged block.
    text = lmtrace("info", "--stats", "--top", "2", LARGE).text
    true(text.startswith(lmtrace("info", LARGE).text + "  written_by: "))
    for section in ("time", "objects", "reuse", "health"):
        for key, value in doc[section].items():
            if isinstance(value, int):
                contains(text, "    %-28s%d" % (key + ":", value))
            elif isinstance(value, float):
                contains(text, "    %-28s%.3f\n" % (key + ":", value))
    equal(lmtrace("info", "--stats", "--json", "-", stdin=read(LARGE)).json["metrics"]["objects"], doc["objects"])


@test
def written_by(folder):
    """From the shapes, where they are looked at; several releases share one."""
    for release in sorted(os.listdir(STORAGE)):
        if not release[0].isdigit():
            continue
        path = os.path.join(STORAGE, release, "tiny.lct")
        said = lmtrace("info", "--stats", "--json", path).json["metrics"]["written_by"]
        contains(lmtrace("info", "--stats", path).text, "  written_by:                 LMCache %s (from content)\n" % said)
        expected = {"0.4.4": "0.4.4 - 0.4.6", "0.4.7": "0.4.7", "0.5.3": "0.5.3 - 0.5.4", "0.5.5": "0.5.5"}.get(release)
        if expected:
            equal(said, expected, release)


def key(n, salt=None):
    fields = {"chunk_hash": bytes([n]), "model_name": "m", "kv_rank": 1, "object_group_id": 0}
    if salt is not None:
        fields["cache_salt"] = salt
    return {"__t__": "ObjectKey", "v": fields}


@test
def statistics_by_hand(folder):
    """Lookups of the keys 1 2 3 1 1 3; a finish without its reserve, an enter without its exit."""
    spec = lambda *keys: {"keys": list(keys), "layout_desc": {"__t__": "MemoryLayoutDesc", "v": {"shapes": [[4]], "dtypes": ["torch.float16"]}},
                          "extra_count": 0, "external_request_id": ""}
    parts = [header("storage")]
    for t, n in enumerate((1, 2, 3, 1, 1, 3)):
        parts.append(record(t, SM + "submit_prefetch_task", spec(key(n))))
    parts.append(record(6, SM + "finish_write", {"keys": [key(9, "u")]}))
    parts.append(record(7, SM + "read_prefetched_results.__enter__", {"keys": [key(1)]}))
    parts.append(record(8, SM + "reserve_write", {"keys": 5}))
    doc = lmtrace("info", "--stats", "--json", write(os.path.join(folder, "x.lct"), *parts)).json["metrics"]
    reuse = doc["reuse"]
    equal((reuse["references"], reuse["referenced_keys"], reuse["rereferenced_keys"]), (6, 3, 2))
    # Keys in between: 1 after 2 and 3: 2; 1 again: 0; 3 after 1: 1.
    equal((reuse["distance_p50_keys"], reuse["distance_p99_keys"]), (1, 2))
    equal((reuse["time_p50_s"], reuse["time_p99_s"]), (3.0, 3.0))
    health = doc["health"]
    equal((health["incomplete"], health["finish_without_reserve"], health["enter_without_exit"], health["undecodable"]), ("yes", 1, 1, 1))
    equal(doc["tenants_told_apart"], True)
    equal(doc["objects"]["distinct_keys"], 4)


def read_text(path):
    with open(path) as f:
        return f.read()


def state_of(pid, size):
    """"position" once a descriptor of the process stands at the end of the file of this size."""
    for name in os.listdir("/proc/%d/fdinfo" % pid):
        if "pos:\t%d\n" % size in read_text("/proc/%d/fdinfo/%s" % (pid, name)):
            return "position"
    return ""


@test
def dropped_records(folder):
    """Every 50th record is gone, as a full queue leaves it: half pairs tell."""
    data = read(LARGE)
    parts, at, n = [first_frames(LARGE, 0)], len(first_frames(LARGE, 0)), 0
    while at < len(data):
        size = 4 + int.from_bytes(data[at:at + 4], "big")
        n += 1
        if n % 50:
            parts.append(data[at:at + size])
        at += size
    health = lmtrace("info", "--stats", "--json", write(os.path.join(folder, "x.lct"), *parts)).json["metrics"]["health"]
    equal(health["incomplete"], "yes")
    true(health["exit_without_enter"] > 0 and health["enter_without_exit"] > 0, repr(health))


@test
def progress(folder):
    """On a pipe nothing is drawn; --progress always draws and takes the line away again; results are the same."""
    plain = lmtrace("info", LARGE)
    equal(plain.err, b"")
    drawn = lmtrace("info", "--progress", "always", LARGE)
    equal((drawn.code, drawn.out), (0, plain.out))
    equal(lmtrace("info", "--progress", "never", LARGE).err, b"")


@test
def memory(folder):
    """A file of any size in the same memory; numbers in it are never asked for."""
    if os.environ.get("LMT_SANITIZED"):
        return
    big = os.path.join(folder, "big.lct")
    head = first_frames(LARGE, 0)
    rest = read(LARGE)[len(head):]
    write(big, head, *[rest] * 20)
    peaks = []
    for path in (TINY, big):
        # Held at the end by --follow, so that its peak can be asked for (a child's ru_maxrss begins with its parent's).
        process = subprocess.Popen([LMTRACE, "info", "--follow", "--follow-idle", "0", path], stdout=subprocess.DEVNULL, env=environment())
        for _ in range(200):
            time.sleep(0.05)
            if "position" in state_of(process.pid, os.path.getsize(path)):
                break
        peaks.append(int(re.search(r"VmHWM:\s+(\d+) kB", read_text("/proc/%d/status" % process.pid)).group(1)))
        process.send_signal(signal.SIGINT)
        equal(process.wait(timeout=30), 130)
    true(peaks[1] < 16 * 1024, repr(peaks))
    true(peaks[1] < peaks[0] + 1024, repr(peaks))
    hostile = write(os.path.join(folder, "hostile.lct"), header("nobody"), *[frame(b) for b in (
        b"\xdd\xff\xff\xff\xff", b"\xdf\xff\xff\xff\xff", b"\xc6\xff\xff\xff\xff", b"\xdb\xff\xff\xff\xff", b"\x91" * 100000)],
        record(0.5, "a.b", {}), b"\xff\xff\xff\xff")

    def limit():
        resource.setrlimit(resource.RLIMIT_AS, (128 << 20, 128 << 20))
    four = write(os.path.join(folder, "four.lct"), b"\xff\xff\xff\xff")
    for path, code in ((hostile, 0), (four, 2)):
        done = subprocess.run([LMTRACE, "info", path], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(), preexec_fn=limit)
        equal(done.returncode, code, done.stderr.decode())


@test
def no_allocation_per_record(folder):
    """From the first record on: a file with 10,000 records more costs not one malloc more."""
    counter = os.environ.get("LMT_COUNT_MALLOCS")
    if not counter or os.environ.get("LMT_SANITIZED"):
        return
    counts = []
    for n in (20, 10020):
        path = write(os.path.join(folder, "n%d.lct" % n), first_frames(LARGE, n))
        read_end, write_end = os.pipe()
        process = subprocess.Popen(["sh", "-c", 'exec "$0" info "$1" 3>&%d' % write_end, LMTRACE, path], stdout=subprocess.DEVNULL,
                                   env=environment(LD_PRELOAD=counter), pass_fds=[write_end])
        os.close(write_end)
        with os.fdopen(read_end) as f:
            said = f.read().split()
        equal(process.wait(), 0)
        counts.append(int(said[-1]))
    true(counts[0] > 10, repr(counts))
    # The names are the same, the text is as long but for digits: equal to the last one.
    equal(counts[1], counts[0])


raise SystemExit(test.main())
