#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trouble in an adapter: a replay ends with its report, counts and names what went wrong, and takes nothing damaged for a hit."""
import glob
import json
import os
import re
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import time

from lib import LMTRACE, Run, Skip, Tests, contains, end, environment, equal, finish, header, lmtrace, prefetch, reserve, start, true, write

test = Tests()
TRACES = sorted(path for path in glob.glob(os.path.join(os.environ["LMT_SOURCE_DIR"], "data", "traces", "*.lct"))
                if not os.path.basename(path).startswith("events-"))  # level storage
L1 = ["--l1-size-gb", "0.0625", "--eviction-policy", "LRU"]
SETTLED = ["--speed", "0", "--l2-store-policy", "skip_l1"]


def fault(inner={"type": "dram"}, **keys):
    return json.dumps(dict(type="fault", inner=inner, **keys))


def replay(folder, file, adapter, *args, **more):
    args = [*L1, *SETTLED, *args]
    return lmtrace("replay", file, *args, "--l2-adapter", adapter, "--format", "json", "--output-dir", os.path.join(folder, "out"), **more)


def causes(metrics):
    return {key: value for key, value in metrics.get("misses", {}).items() if key not in ("all", "total") and value}


def check(run, codes=(0,)):
    """What holds for every run, whatever the adapter did."""
    true(run.code in codes, repr(run))
    metrics = run.json["metrics"]
    tiers = metrics["tiers"]
    equal(sum(causes(metrics).values()), tiers["cells_asked"] - tiers["l1_hits"] - tiers["l2_hits"])
    overall = metrics["overall"]
    equal(overall["n"], overall["replayed"] + overall["skipped"] + overall["failed"] + overall["undecodable"] + overall["mismatch"])
    return metrics


FAULTS = [
    (dict(rate=0.05), "fault_load"), (dict(gap_tail_ratios=[0]), "fault_gap"), (dict(store_rate=0.05), "fault_store"),
    (dict(lookup_rate=0.05), "fault_lookup"), (dict(short_rate=0.05), "fault_short"), (dict(error_key="*@*7", error="denied"), "fault_error_key"),
    (dict(store_rate=0.05, error="busy"), "fault_store"), (dict(no_space_after_bytes=4 << 20), "fault_no_space"),
    (dict(delay_ms=1, delay_rate=0.05), "fault_delay"), (dict(reorder=3), None), (dict(duplicate_rate=0.3), "fault_duplicate"),
    (dict(stall_ms=400), "fault_stall"), (dict(hang_rate=0.03, io_timeout_s=0.01), "fault_hang"),
    (dict(rate=0.02, store_rate=0.02, lookup_rate=0.02, short_rate=0.02, duplicate_rate=0.1, reorder=4, delay_ms=0.5, delay_rate=0.05), "fault_load"),
]


@test
def every_fault_on_every_trace(folder):
    """No crash, no hang, all is counted, nothing damaged is a hit: what was loaded is compared byte by byte."""
    equal(len(TRACES), 3)
    for number, (keys, status) in enumerate(FAULTS):
        file = TRACES[number % len(TRACES)]
        metrics = check(replay(folder, file, fault(**keys), "--verify-data"))
        l2 = metrics["l2"][0]
        equal(l2["faults"], True)
        equal(metrics["overall"]["mark"], "faults")
        equal(metrics["overall"]["mismatch"], 0)
        equal(metrics["overall"]["settled"], True)
        if status is not None:
            true(int(l2["status"].get(status, 0)) > 0, repr((keys, l2["status"])))
        equal(l2["protocol_errors"], int(l2["status"].get("fault_duplicate", 0)))


@test
def the_same_twice(folder):
    """A run with faults is as repeatable as one without; another seed is another run."""
    keys = dict(rate=0.1, store_rate=0.1, lookup_rate=0.05, reorder=4)
    digests = [check(replay(folder, TRACES[0], fault(seed=seed, **keys)))["outcome_digest"] for seed in (1, 1, 2)]
    equal(digests[0], digests[1])
    true(digests[0] != digests[2], digests)
    off = check(replay(folder, TRACES[0], fault()))
    bare = check(replay(folder, TRACES[0], '{"type":"dram"}'))
    equal(off["outcome_digest"], bare["outcome_digest"])
    true("mark" not in off["overall"] and off["l2"][0]["faults"] is False, off["overall"])


@test
def misses_say_load_failed(folder):
    """The last of three loads fails: two hits, and one miss with its cause."""
    file = write(os.path.join(folder, "a.lct"), header("storage"), reserve(0, "A", "B", "C"), finish(0.1, "A", "B", "C"),
                 prefetch(1, "A", "B", "C"))
    metrics = check(replay(folder, file, fault(gap_indices=[2])))
    equal(causes(metrics), {"load_failed": 1})
    equal(metrics["tiers"]["l2_hits"], 2)
    equal(metrics["l2"][0]["load"]["codes"], {"ok": 2, "io": 1})


@test
def marked_in_every_output(folder):
    jsonl, summary = os.path.join(folder, "r.jsonl"), os.path.join(folder, "s.json")
    args = [*L1, *SETTLED, "--l2-adapter", fault(rate=0.2), "--output-dir", folder]
    run = lmtrace("replay", TRACES[0], *args, "--jsonl-out", jsonl)
    equal(run.code, 0)
    contains(run.text, "Run with:")
    contains(run.text, "fault load:")
    contains(run.errors, "warning: fault: results are made wrong on purpose: rate=0.2 seed=0")
    lines = [json.loads(line) for line in open(jsonl)]
    true(lines and all(line["mark"] == "faults" for line in lines), lines[:1])
    tables = glob.glob(os.path.join(folder, "*.csv"))
    equal(len(tables), 1)
    rows = open(tables[0], newline="").read().split("\r\n")[:-1]
    true(len(rows) > 1 and rows[0].endswith(",mark") and all(row.endswith(",faults") for row in rows[1:]), rows[:2])
    for file in glob.glob(os.path.join(folder, "*summary*.json")):
        equal(json.load(open(file))["mark"], "faults")
    run = lmtrace("replay", TRACES[0], *args, "--format", "json")
    true(any("wrong on purpose" in warning["message"] for warning in run.json["warnings"]), run.json["warnings"])


@test
def lost_completions(folder):
    """Waited for in vain, counted, given up at close; the run says that it isn't settled."""
    metrics = check_lost(replay(folder, TRACES[0], fault(hang_rate=0.02), "--drain-timeout", "20ms"))
    equal(metrics["overall"]["settled"], False)
    true(metrics["status"]["unsettled"] > 0, metrics["status"])
    true(metrics["status"]["io_abandoned"] >= metrics["status"]["unsettled"], metrics["status"])
    true(int(metrics["l2"][0]["status"]["fault_hang"]) > 0, metrics["l2"][0]["status"])
    # In real time, too.
    metrics = check_lost(replay(folder, TRACES[0], fault(hang_rate=0.02), "--drain-timeout", "20ms", "--speed", "100"))
    true(metrics["status"]["io_abandoned"] > 0, metrics["status"])


def check_lost(run):
    equal(run.code, 0)
    contains(run.errors, "operations given up after")
    return run.json["metrics"]


@test
def late_completions(folder):
    """Later than anybody waits: handed over when they come, or given up at close; never twice, never into freed memory."""
    metrics = check_lost(replay(folder, TRACES[0], fault(delay_ms=60000, delay_rate=0.02), "--drain-timeout", "20ms"))
    true(metrics["status"]["unsettled"] > 0, metrics["status"])
    run = replay(folder, TRACES[0], fault(delay_ms=40, delay_rate=0.05), "--drain-timeout", "10ms")
    equal(run.code, 0)
    true(run.json["metrics"]["status"]["unsettled"] > 0, run.errors)


@test
def a_deadline_for_operations(folder):
    """io_timeout_s: what hangs is cancelled and counted, the run stays settled and the misses are explained."""
    metrics = check(replay(folder, TRACES[0], fault(hang_rate=0.02, io_timeout_s=0.01)))
    equal(metrics["overall"]["settled"], True)
    codes = [metrics["l2"][0][kind]["codes"].get("timeout", 0) for kind in ("store", "lookup", "load")]
    equal(sum(codes), int(metrics["l2"][0]["status"]["fault_hang"]))


@test
def damaged_bytes(folder):
    """A flipped bit that no checksum saw: --verify-data finds it, exit 1, --max-errors allows it."""
    adapter = fault(corrupt_rate=0.03)
    metrics = check(replay(folder, TRACES[0], adapter, "--verify-data"), (1,))
    wrong = metrics["overall"]["mismatch"]
    true(wrong > 0, metrics["overall"])
    equal(replay(folder, TRACES[0], adapter, "--verify-data", "--max-errors", str(wrong)).code, 0)
    equal(replay(folder, TRACES[0], adapter, "--verify-data", "--max-errors", str(wrong - 1)).code, 1)
    equal(replay(folder, TRACES[0], adapter, "--verify-data", "--max-errors", "50%").code, 0)


@test
def a_file_too_large(folder):
    """EFBIG from the system itself: stores fail with no-space, are named once, leave no debris."""
    base = os.path.join(folder, "kv")

    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100000, 100000))

    metrics = check(end(start("replay", TRACES[0], *L1, *SETTLED, "--l2-adapter", json.dumps({"type": "fs", "base_path": base}), "--format", "json",
                              "--output-dir", folder, preexec_fn=limit)), (1,))
    codes = metrics["l2"][0]["store"]["codes"]
    true(codes.get("no-space", 0) > 0 and codes.get("ok", 0) == 0, codes)
    equal(os.listdir(base), [])
    equal(metrics["tiers"]["l2_hits"], 0)


@test
def a_folder_that_vanishes_or_is_damaged(folder):
    """Objects of an earlier run cut, grown, replaced by folders: misses, repaired by the next store; no wrong byte is ever a hit."""
    base = os.path.join(folder, "kv")
    adapter = json.dumps({"type": "fs", "base_path": base, "sync": "none"})
    first = check(replay(folder, TRACES[0], adapter, "--verify-data"))
    names = sorted(os.listdir(base))
    true(len(names) > 10, names)
    for number, name in enumerate(names):
        path = os.path.join(base, name)
        if number % 4 == 0:
            os.truncate(path, os.path.getsize(path) // 2)
        elif number % 4 == 1:
            with open(path, "ab") as file:
                file.write(b"more")
        elif number % 4 == 2:
            os.unlink(path)
            os.mkdir(path)
    # a store onto a folder fails, and that is told
    second = check(replay(folder, TRACES[0], adapter, "--verify-data"), (1,))
    equal(second["overall"]["mismatch"], 0)
    true(second["tiers"]["l2_hits"] <= first["tiers"]["l2_hits"], second["tiers"])
    for number, name in enumerate(names):
        path = os.path.join(base, name)
        equal(os.path.isdir(path), number % 4 == 2)


@test
def failing_is_not_healthy(folder):
    """Stores that fail in the background: exit 1, unless --max-errors allows as many (cases: failing L2 looks healthy)."""
    base = os.path.join(folder, "kv")

    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100000, 100000))

    def run(*more):
        return end(start("replay", TRACES[0], *L1, *SETTLED, "--l2-adapter", json.dumps({"type": "fs", "base_path": base}),
                         "--output-dir", folder, *more, preexec_fn=limit))

    failing = run()
    equal(failing.code, 1)
    contains(failing.errors, "operations failed beside the records' calls")
    equal(run("--max-errors", "1000").code, 0)
    equal(run("--max-errors", "1000%").code, 0)


@test
def full_through_the_adapter(folder):
    """A disk that is full after 4 MiB: every store beyond fails with no-space, the rest stays and is hit."""
    base = os.path.join(folder, "kv")
    metrics = check(replay(folder, TRACES[0], fault({"type": "fs", "base_path": base}, no_space_after_bytes=4 << 20), "--verify-data"))
    l2 = metrics["l2"][0]
    true(l2["store"]["codes"]["no-space"] > 0 and l2["store"]["codes"]["ok"] > 0, l2["store"])
    true(l2["used_bytes"] <= 4 << 20, l2)
    equal(sum(os.path.getsize(os.path.join(base, name)) for name in os.listdir(base)), l2["used_bytes"])


# -------- the system itself refuses --------

def lines_of(run, part):
    return [line for line in run.errors.splitlines() if part in line]


def text_codes(run, kind):
    """The errors of a kind by code, as the table of L2 0 says them."""
    rows, found, inside = run.text.splitlines(), {}, False
    for row in rows[[number for number, line in enumerate(rows) if line.startswith("-") and " L2 0 " in line][0] + 1:]:
        if row.startswith(("-", "=")):
            break
        inside = row.startswith(kind + " errors:") or (inside and row.startswith("  "))
        if inside and row.startswith("  "):
            found[row.split(":")[0].strip()] = int(row.split(":")[1])
    return found


def on_small_disk(folder, options, before, *words):
    """A replay on a file system of its own that ends with it; `before` and what is printed after it: shell, in the folder of the objects."""
    base = os.path.join(folder, "disk")
    os.mkdir(base)
    command = " ".join(map(shlex.quote, [LMTRACE, *words]))
    script = f"mount -t tmpfs -o {options} none {shlex.quote(base)} || exit 99; cd {shlex.quote(base)}; {before}; {command}; code=$?; ls -ln >&3; exit $code"
    listing = os.path.join(folder, "listing")
    with open(listing, "wb") as third:
        done = subprocess.run(["unshare", "-m", "sh", "-c", f"exec 3>{shlex.quote(listing)}; {script}"], env=environment(), stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, timeout=240, check=False, stdin=subprocess.DEVNULL)
    if done.returncode == 99 or b"unshare failed" in done.stderr:
        raise Skip("no file system of our own can be mounted")
    with open(listing, encoding="utf-8") as third:
        files = [line.split() for line in third.read().splitlines()[1:]]
    return Run(done.returncode, done.stdout, done.stderr), {words[8]: int(words[4]) for words in files if words[0].startswith("-")}


def fs_adapter(base, **keys):
    return json.dumps({"type": "fs", "base_path": base, **keys})


@test
def a_disk_that_is_full(folder):
    """3 MiB of disk, more to store: no-space for what doesn't fit, all the rest is there, whole, and is hit; named once, exit 1."""
    base = os.path.join(folder, "disk")
    words = ["replay", TRACES[0], *L1, *SETTLED, "--verify-data", "--output-dir", folder, "--l2-adapter", fs_adapter(base)]
    run, files = on_small_disk(folder, "size=3m", ":", *words, "--format", "json")
    metrics = check(run, (1,))
    l2 = metrics["l2"][0]
    true(l2["store"]["codes"]["no-space"] > 0 and l2["store"]["codes"]["ok"] > 0, l2["store"])
    equal(sum(files.values()), l2["used_bytes"])
    true(all(name.endswith(".data") for name in files), files)
    equal(metrics["overall"]["mismatch"], 0)
    named = lines_of(run, "No space left on device")
    true(1 <= len(named) <= 11, named)
    unnamed = sum(int(n) for n in re.findall(r"^lmtrace: warning: (?:write|publish): (\d+) more$", run.errors, re.M))
    equal(len(named) + unnamed, l2["store"]["codes"]["no-space"])
    shutil.rmtree(base)
    run, files = on_small_disk(folder, "size=3m", ":", *words)
    equal(run.code, 1)
    equal(text_codes(run, "store")["no-space"], l2["store"]["codes"]["no-space"])


@test
def a_disk_full_of_names(folder):
    """No room for another file: the same code, though the bytes would fit."""
    base = os.path.join(folder, "disk")
    run, files = on_small_disk(folder, "size=256m,nr_inodes=8", ":", "replay", TRACES[0], *L1, *SETTLED, "--verify-data", "--output-dir", folder,
                               "--format", "json", "--l2-adapter", fs_adapter(base))
    metrics = check(run, (1,))
    l2 = metrics["l2"][0]
    true(l2["store"]["codes"]["no-space"] > 0 and 0 < len(files) < 8, l2["store"])
    equal(sum(files.values()), l2["used_bytes"])


@test
def a_read_only_disk(folder):
    """Objects that lie there are hit, stores are denied, counted by code and named; without them: refused at open."""
    base = os.path.join(folder, "disk")
    kv = os.path.join(folder, "kv")
    check(replay(folder, TRACES[0], fs_adapter(kv, sync="none"), "--verify-data"))
    some = sorted(os.listdir(kv))[::2]
    before = "mkdir kv; " + "; ".join("cp %s kv/" % shlex.quote(os.path.join(kv, name)) for name in some)
    before += "; echo x >kv/foreign.txt; mount -o remount,ro none ."
    words = ["replay", TRACES[0], *L1, *SETTLED, "--verify-data", "--output-dir", folder]
    run, files = on_small_disk(folder, "size=256m", before, *words, "--format", "json", "--l2-adapter",
                               fs_adapter(os.path.join(base, "kv"), read_only=True))
    metrics = check(run)
    l2 = metrics["l2"][0]
    true(l2["store"]["codes"]["denied"] > 0 and l2["store"]["codes"].get("ok", 0) == 0, l2["store"])
    true(metrics["tiers"]["l2_hits"] > 0, metrics["tiers"])
    equal(l2["used_bytes"], sum(os.path.getsize(os.path.join(kv, name)) for name in some))
    shutil.rmtree(base)
    run, files = on_small_disk(folder, "size=256m", before, *words, "--l2-adapter", fs_adapter(os.path.join(base, "kv")))
    equal((run.code, run.text), (2, ""))
    contains(run.errors, "Read-only file system")


def in_the_middle(folder, base, then, *args):
    """Stores objects, calls `then` when they lie there, and then asks for them and stores others. The number of records between."""
    process = subprocess.Popen([LMTRACE, "replay", "-", *L1, "--speed", "1000", "--l2-store-policy", "skip_l1", "--l2-adapter", fs_adapter(base),
                                "--output-dir", os.path.join(folder, "out"), *args],
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment())
    process.stdin.write(BEFORE)
    for between in range(6000):
        # each record turns the loop once more
        process.stdin.write(prefetch(0.05, "absent"))
        process.stdin.flush()
        if os.path.isdir(base) and len([name for name in os.listdir(base) if name.endswith(".data")]) == 20:
            break
        time.sleep(0.01)
    then()
    out, err = process.communicate(BEHIND, timeout=240)
    return Run(process.returncode, out, err), between + 1


NAMES = ["n%d" % number for number in range(40)]
BEFORE = header("storage") + b"".join(reserve(n * 0.001, name) + finish(n * 0.001, name) for n, name in enumerate(NAMES[:20]))
BEHIND = b"".join(prefetch(0.1 + n * 0.001, name) for n, name in enumerate(NAMES[:20]))
BEHIND += b"".join(reserve(0.2 + n * 0.001, name) + finish(0.2 + n * 0.001, name) for n, name in enumerate(NAMES[20:]))


@test
def a_folder_gone_in_the_middle(folder):
    """Every operation behind it is an I/O error with the path; named once, nothing is a hit, nothing hangs, exit 1."""
    base = os.path.join(folder, "kv")

    def vanish():
        os.rename(base, base + ".gone")
        shutil.rmtree(base + ".gone")

    run, between = in_the_middle(folder, base, vanish, "--format", "json")
    metrics = check(run, (1,))
    l2 = metrics["l2"][0]
    equal(l2["store"]["codes"], {"ok": 20, "io": 20})
    # of those between the last ones may be looked up before or after, as the machine has it
    codes = l2["lookup"]["codes"]
    true(20 <= codes["io"] <= 20 + between and set(codes) <= {"io", "not-found"} and sum(codes.values()) == between + 20, codes)
    equal(metrics["tiers"]["l2_hits"], 0)
    equal(len(lines_of(run, "fs: %s: the directory is gone" % base)), 1)
    equal(len(lines_of(run, "unhealthy")), 1)
    equal(l2["status"]["is_healthy"], "no")
    true(not os.path.exists(base), base)
    run, between = in_the_middle(folder, base, vanish)
    equal((run.code, text_codes(run, "store"), text_codes(run, "lookup")), (1, {"io": 20}, {"io": text_codes(run, "lookup")["io"]}))


@test
def files_become_folders_in_the_middle(folder):
    """A folder under an object's name: a miss, told; what lies in it stays; the others are hit, byte by byte."""
    base = os.path.join(folder, "kv")

    def replace():
        for number, name in enumerate(sorted(os.listdir(base))):
            if number % 2 == 0:
                os.unlink(os.path.join(base, name))
                os.mkdir(os.path.join(base, name))
                with open(os.path.join(base, name, "inside"), "w", encoding="utf-8"):
                    pass

    run, between = in_the_middle(folder, base, replace, "--format", "json", "--verify-data")
    metrics = check(run)
    equal(metrics["l2"][0]["lookup"]["codes"], {"ok": 10, "not-found": between + 10})
    equal((metrics["tiers"]["l2_hits"], metrics["overall"]["mismatch"]), (10, 0))
    true(lines_of(run, "expected a file, found a directory"), run)
    equal(len([name for name in os.listdir(base) if os.path.isfile(os.path.join(base, name, "inside"))]), 10)


@test
def names_that_are_not_ours(folder):
    """Foreign files are counted, said once, and neither used, counted as usage nor removed."""
    base = os.path.join(folder, "kv")
    check(replay(folder, TRACES[0], fs_adapter(base, sync="none"), "--verify-data"))
    real = sorted(os.listdir(base))[0]
    hash_at = real.rindex("@") + 1
    foreign = ["README", "x.data", "a@b.data", real[:hash_at] + real[hash_at:].upper(), real[:hash_at] + real[hash_at:-5] + ".tmp", ".hidden", "a" * 250]
    used = sum(os.path.getsize(os.path.join(base, name)) for name in os.listdir(base))
    for name in foreign:
        with open(os.path.join(base, name), "w", encoding="utf-8") as file:
            file.write("not ours")
    run = replay(folder, TRACES[0], fs_adapter(base, sync="none"), "--verify-data", "--log-level", "info")
    metrics = check(run)
    equal((metrics["l2"][0]["used_bytes"], metrics["overall"]["mismatch"]), (used, 0))
    said = lines_of(run, "fs: %s" % base)
    true(len([line for line in said if "ignored" in line or "foreign" in line]) == 1, said)
    for name in foreign:
        with open(os.path.join(base, name), encoding="utf-8") as file:
            equal(file.read(), "not ours")


@test
def io_errors_by_code(folder):
    """EIO of every store, of some loads: the report says how many, in the text as in the JSON."""
    adapter = fault({"type": "fs", "base_path": os.path.join(folder, "kv")}, rate=0.3, store_rate=0.2, lookup_rate=0.1)
    metrics = check(replay(folder, TRACES[0], adapter, "--verify-data"))
    shutil.rmtree(os.path.join(folder, "kv"))
    run = lmtrace("replay", TRACES[0], *L1, *SETTLED, "--verify-data", "--l2-adapter", adapter, "--output-dir", folder)
    for kind in ("store", "load"):
        codes = {code: n for code, n in metrics["l2"][0][kind]["codes"].items() if code not in ("ok", "present", "not-found")}
        true(codes.get("io", 0) > 0, codes)
        equal(text_codes(run, kind), codes)


@test
def bad_configurations(folder):
    for adapter, text in (
            ('{"type":"fault"}', "('fault'): inner: expected a JSON value, found nothing"),
            ('{"type":"fault","inner":{"type":"dram","eviction":{"eviction_policy":"LRU"}}}', "inner ('dram'): eviction: expected none, found one"),
            ('{"type":"fault","inner":{"type":"nosuch"}}', "('fault'): inner: unknown adapter type 'nosuch'"),
            ('{"type":"fault","inner":{"type":"dram"},"rate":1.5}', "('fault'): rate: expected a number from 0 to 1, found 1.5"),
            ('{"type":"model","table":"/nonexistent"}', "('model'): table: "),
            ('{"type":"dram","io_timeout_s":-1}', "io_timeout_s: expected 0, or seconds")):
        run = lmtrace("replay", TRACES[0], *L1, "--l2-adapter", adapter)
        equal(run.code, 2)
        contains(run.errors, text)
    run = lmtrace("replay", TRACES[0], *L1, "--l2-adapter", fault({"type": "model"}), "--verify-data", "--output-dir", folder)
    equal(run.code, 2)


if __name__ == "__main__":
    sys.exit(test.main())
