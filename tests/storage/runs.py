#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a storage replay does beside its outcome: clocks, waits, checks of bytes, thresholds, quotas, logs (TAP)."""
import glob
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import time
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "bench"))
import conformance
import traces

LRU = ["--l1-size-gb", "0.000244140625", "--eviction-policy", "LRU"]
L2FS = os.path.join(conformance.DATA, "0.5.6/l2fs.lct")
EDGE = os.path.join(conformance.DATA, "0.5.6/edge.lct")


class Run:
    """One replay in a scratch folder of its own."""

    def __init__(self, *words, folder=None, json_report=True):
        self.folder = folder
        self.state_path = os.path.join(folder, "state.json")
        if os.path.exists(self.state_path):
            os.unlink(self.state_path)
        form = ["--format", "json"] if json_report else []
        command = [os.environ["LMT_LMTRACE"], "replay", "--no-csv", "--progress", "never", *form]
        done = subprocess.run(
            command + ["--state-out", self.state_path, *words], cwd=folder, capture_output=True, text=True, timeout=120, check=False
        )
        self.code, self.out, self.err = done.returncode, done.stdout, done.stderr
        self.metrics = json.loads(done.stdout).get("metrics", {}) if json_report and done.stdout else {}
        self.state = None
        if os.path.exists(self.state_path):
            with open(self.state_path, encoding="utf-8") as file:
                self.state = json.load(file)


def dram(latency_ms=0, **more):
    return ["--l2-adapter", json.dumps({"type": "dram", "max_size_gb": 0.01, "latency_us": latency_ms * 1000, **more})]


def expect(condition, what):
    if not condition:
        raise AssertionError(what)


def hits(run):
    return [task["hit"] for task in run.state["prefetch"]]


def test_ordered_sees_what_settled_sees(folder):
    """A prefetch waits for stores of its keys, a read for its prefetch: slow adapters don't turn hits into misses."""
    flags = [L2FS, *LRU, "--l2-store-policy", "skip_l1"]
    settled = Run(*flags, "--speed", "0", *dram(), folder=folder)
    ordered = Run(*flags, "--speed", "0", "--no-settle", *dram(5), folder=folder)
    expect(settled.code == 0 and ordered.code == 0, ordered.err)
    expect(settled.state["settled"] and not ordered.state["settled"], "settled")
    expect(hits(settled) == hits(ordered), f"hits: {hits(settled)} and {hits(ordered)}")
    expect(ordered.metrics["pacing"]["clock"] == "real time, ordered", ordered.metrics["pacing"])
    expect(ordered.metrics["status"]["order_waits"] > 0, "no call was held back")


def test_real_time_is_too_early(folder):
    """At the recorded pace nothing is waited for: a read that comes before its prefetch's load is counted apart from missing."""
    path = os.path.join(folder, "early.lct")
    with open(path, "wb") as out:
        out.write(traces.header())
        for at, (op, args) in zip((0.0, 0.0, 1.0, 1.5, 1.5, 1.5), traces.calls([traces.key(1)])):
            out.write(traces.record(at, op, args))
    run = Run(path, *LRU, "--l2-store-policy", "skip_l1", *dram(400), folder=folder)
    expect(run.code == 0, run.err)
    expect(run.state["prefetch"][0]["hit"] == ["1"], run.state["prefetch"])
    expect(run.metrics["pacing"]["clock"] == "real time", run.metrics["pacing"])
    expect(run.state["anomalies"].get("read_too_early", 0) > 0, run.state["anomalies"])
    expect(run.metrics["overall"]["settled"] is False, run.metrics["overall"])


def test_completion_is_not_call_time(folder):
    """The call returns at once, the loads come later: two figures."""
    run = Run(L2FS, *LRU, "--l2-store-policy", "skip_l1", *dram(30), folder=folder)
    op = next(op for op in run.metrics["per_op"] if op["qualname"].endswith("submit_prefetch_task"))
    expect(op["call"]["p50_ms"] < 15, op)
    expect(op["done"]["max_ms"] >= 30, op)


def test_unsettled(folder):
    """What an adapter doesn't answer in time is counted, and ignored from then on."""
    start = time.monotonic()
    run = Run(EDGE, *LRU, "--speed", "0", "--drain-timeout", "50ms", *dram(600_000), folder=folder)
    expect(time.monotonic() - start < 60, "it waited")
    expect(run.state["settled"] is False, "settled")
    expect(run.metrics["status"]["unsettled"] > 0, run.metrics["status"])
    expect(run.metrics["in_flight_at_end"]["ios"] > 0, run.metrics["in_flight_at_end"])
    expect(any(task["state"] == "pending" for task in run.state["prefetch"]), "no prefetch is pending")


def test_late_answer_is_handed_over(folder):
    """Waited for in vain is not lost: the answer counts when it comes."""
    run = Run(L2FS, *LRU, "--speed", "1", "--settle", "--drain-timeout", "1ms", *dram(20), folder=folder)
    expect(run.code == 0, run.err)
    expect(run.state["settled"] is False, "settled")
    expect(len(run.state["l2"][0]["keys"]) > 0, "nothing reached L2")


def test_verify_data(folder):
    """Bytes come back as they were written; a changed one makes the prefetch a mismatch and the run fail."""
    base = os.path.join(folder, "kv")
    flags = [L2FS, *LRU, "--speed", "0", "--l2-store-policy", "skip_l1", "--verify-data", "--l2-adapter",
             json.dumps({"type": "fs", "base_path": base})]
    good = Run(*flags, folder=folder)
    expect(good.code == 0, good.err)
    expect(good.metrics["status"]["verified_objects"] > 0, good.metrics["status"])
    for name in os.listdir(base):
        with open(os.path.join(base, name), "r+b") as file:
            file.seek(100)
            byte = file.read(1)
            file.seek(100)
            file.write(bytes([byte[0] ^ 1]))
    bad = Run(*flags, folder=folder)
    expect(bad.code == 1, f"exit {bad.code}")
    expect(bad.state["mismatch"] > 0 and bad.state["replayed"] == good.state["replayed"], bad.state["mismatch"])
    expect(bad.metrics["overall"]["mismatch"] == bad.state["mismatch"], bad.metrics["overall"])
    for words in (["--payload", "zero"], []):
        more = ["--verify-data", *words] + dram(0, data=False)
        refused = Run(L2FS, *LRU, "--speed", "0", *more, folder=folder)
        expect(refused.code == 2 and refused.err.count("\n") == 1 and "--verify-data" in refused.err, refused.err)


def test_payload_zero(folder):
    base = os.path.join(folder, "kv")
    run = Run(L2FS, *LRU, "--speed", "0", "--payload", "zero", "--l2-adapter", json.dumps({"type": "fs", "base_path": base}), folder=folder)
    expect(run.code == 0, run.err)
    for name in os.listdir(base):
        with open(os.path.join(base, name), "rb") as file:
            expect(file.read().strip(b"\0") == b"", name)


def test_min_hit_rate(folder):
    met = Run(EDGE, *LRU, "--speed", "0", "--min-hit-rate", "1%", folder=folder)
    missed = Run(EDGE, *LRU, "--speed", "0", "--min-hit-rate", "0.99", folder=folder)
    expect(met.code == 0, met.err)
    expect(missed.code == 1 and "--min-hit-rate" in missed.err, missed.err)
    expect(missed.state is not None, "no state")


def test_misses_add_up(folder):
    for path in (L2FS, EDGE, os.path.join(conformance.DATA, "0.5.6/large.lct"), os.path.join(conformance.DATA, "0.5.6/evict.lct")):
        run = Run(path, *LRU, "--speed", "0", *dram(), folder=folder)
        tiers, misses = run.metrics["tiers"], run.metrics.get("misses", {"all": 0})
        expect(misses["all"] == tiers["cells_asked"] - tiers["l1_hits"] - tiers["l2_hits"], f"{path}: {misses} {tiers}")
        expect(misses["all"] == sum(n for cause, n in misses.items() if cause != "all"), misses)


def test_evicted_is_a_cause(folder):
    run = Run(os.path.join(conformance.DATA, "0.5.6/evict.lct"), *LRU, "--speed", "0", folder=folder)
    expect(run.metrics["misses"].get("evicted", 0) > 0, run.metrics["misses"])
    expect(len(run.state["evicted"]["l1"]) == run.metrics["tiers"]["l1_evicted"] > 0, run.state["evicted"])


def test_leaks_are_counted(folder):
    """Of the state they are a part; afterwards they are counted and given back."""
    run = Run(EDGE, *LRU, "--speed", "0", folder=folder)
    status = run.metrics["status"]
    expect(len(run.state["l1_reserved"]) == status["leaked_reservations"] == 1, status)
    expect(len(run.state["l1_read_locked"]) == 1 and status["leaked_read_locks"] >= 1, status)
    expect(status["locks_never_returned"] >= 1 and status["locks_never_returned_requests"] >= 1, status)
    expect(run.metrics["anomalies"]["finish_read_not_locked"]["first_record"] > 0, run.metrics["anomalies"])


def test_loop_keeps_the_manager(folder):
    basic = os.path.join(conformance.DATA, "0.5.6/basic.lct")
    once = Run(basic, *LRU, "--speed", "0", folder=folder)
    twice = Run(basic, *LRU, "--speed", "0", "--loop", "2", folder=folder)
    expect(twice.state["replayed"] == 2 * once.state["replayed"], twice.state["replayed"])
    expect(hits(twice)[: len(hits(once))] == hits(once), "the first round differs")
    expect(hits(twice)[len(hits(once)):] != hits(once), "the second round began with an empty manager")


def test_each_file_has_its_manager(folder):
    command = [os.environ["LMT_LMTRACE"], "replay", "--no-csv", "--format", "json", "--speed", "0", *LRU]
    done = subprocess.run(command + [EDGE, EDGE], cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    expect(done.returncode == 0, done.stderr)
    expect(done.stdout.count('"outcome_digest"') == 2, done.stdout)
    digests = {line.split('"')[3] for line in done.stdout.splitlines() if '"outcome_digest"' in line}
    expect(len(digests) == 1, digests)
    refused = subprocess.run(command + ["--state-out", "x", EDGE, EDGE], cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    expect(refused.returncode == 2 and not os.path.exists(os.path.join(folder, "x")), refused.stderr)


def test_dry_run_touches_nothing(folder):
    base = os.path.join(folder, "kv")
    run = Run(L2FS, *LRU, "--dry-run", "--speed", "0", "--l2-adapter", json.dumps({"type": "fs", "base_path": base}), folder=folder)
    expect(run.code == 0, run.err)
    expect(not os.path.exists(base) and run.state is None, os.listdir(folder))
    expect(run.metrics["overall"]["replayed"] == 33, run.metrics["overall"])
    expect(base in run.metrics["plan"]["l2_0"], run.metrics["plan"])


def salted(number, salt):
    key = traces.key(number)
    key["v"]["cache_salt"] = salt
    return key


def test_tenants_and_quotas(folder):
    """A salt parts tenants; what has no quota is emptied every second, what has one is cut to it."""
    path = os.path.join(folder, "salted.lct")
    with open(path, "wb") as out:
        out.write(traces.header())
        for i in range(4):
            out.write(traces.cycle(i * 0.01, [salted(i, "a")], 0.001))
            out.write(traces.cycle(i * 0.01 + 0.005, [salted(i, "b")], 0.001))
        out.write(traces.record(2.5, "finish_read_prefetched", {"keys": [], "read_locks": 1}))
    evicting = dram(0, eviction={"eviction_policy": "IsolatedLRU"})
    run = Run(path, *LRU, "--speed", "0", "--l2-quota", "a=1MiB", *evicting, folder=folder)
    expect(run.code == 0, run.err)
    expect({key[4] for key in run.state["l2"][0]["keys"]} == {"a"}, run.state["l2"])
    expect({key[4] for key in run.state["evicted"]["l2"][0]} == {"b"} and len(run.state["evicted"]["l2"][0]) == 4, run.state["evicted"])
    expect(len(run.state["l1_resident"]) == 8, run.state["l1_resident"])
    text = Run(path, *LRU, "--speed", "0", folder=folder, json_report=False)
    expect("tenants not told apart" not in text.out, text.out)
    text = Run(EDGE, *LRU, "--speed", "0", folder=folder, json_report=False)
    expect(text.out.count("tenants not told apart in this trace") == 1, text.out)


def test_lookup_hash_log(folder):
    logs = os.path.join(folder, "hashes")
    run = Run(EDGE, *LRU, "--speed", "0", "--lookup-hash-log-dir", logs, "--lookup-hash-log-rotation-max-size", "300",
              "--lookup-hash-log-max-files", "3", folder=folder)
    expect(run.code == 0, run.err)
    names = sorted(os.listdir(logs))
    expect(len(names) == 3 and all(name.startswith("lookup_hashes_") and name.endswith(".jsonl") for name in names), names)
    with open(os.path.join(logs, names[-1]), encoding="utf-8") as file:
        line = json.loads(file.readline())
    expect(list(line) == ["timestamp", "request_id", "model_name", "chunk_size", "seq_len", "dtypes", "shapes", "chunk_hashes"], line)
    expect(line["seq_len"] == len(line["chunk_hashes"]), line)


def test_records_itself(folder):
    """A replay can be recorded, and its recording replays to the same outcome."""
    path = os.path.join(folder, "again.lct")
    first = Run(EDGE, *LRU, "--speed", "0", "--trace-level", "storage", "--trace-output", path, folder=folder)
    expect(first.code == 0, first.err)
    second = Run(path, *LRU, "--speed", "0", folder=folder)
    expect(second.code == 0 and second.state == first.state, second.err)
    expect(second.metrics["overall"]["digest"].startswith(("match", "equal")), second.metrics["overall"])
    os.environ["SOURCE_DATE_EPOCH"] = "1758400000"
    fixed = Run(EDGE, *LRU, "--speed", "0", "--trace-level", "storage", "--trace-output", path, folder=folder)
    del os.environ["SOURCE_DATE_EPOCH"]
    with open(path, "rb") as file:
        head = file.read(4096)
    for name in (b"t_mono_start", b"t_wall_start"):
        at = head.index(name) + len(name)
        expect(fixed.code == 0 and struct.unpack(">d", head[at + 1 : at + 9])[0] == 1758400000.0, name)
    alone = Run(EDGE, *LRU, "--speed", "0", "--trace-output", os.path.join(folder, "no.lct"), folder=folder)
    expect(alone.code == 0 and "--trace-output" in alone.err and not os.path.exists(os.path.join(folder, "no.lct")), alone.err)


def test_metrics_while_running(folder):
    port = 20000 + os.getpid() % 20000
    command = [os.environ["LMT_LMTRACE"], "replay", "--no-csv", "-q", L2FS, *LRU, "--prometheus-port", str(port)]
    with subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True) as process:
        text = ""
        for _ in range(100):
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
                    text = answer.read().decode()
                break
            except OSError:
                time.sleep(0.02)
        second = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=False)
        _, err = process.communicate(timeout=60)
    expect(process.returncode == 0, err)
    expect("# TYPE lmtrace_records_total counter\n" in text and "lmtrace_l1_total_bytes 262144\n" in text, text)
    expect(second.returncode == 2 and "--prometheus-port" in second.stderr, second.stderr)


def printed(folder, *words):
    command = [os.environ["LMT_LMTRACE"], "replay", "--print-config", *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    rows = dict((line.split()[0], line.split()[1:]) for line in done.stdout.splitlines() if len(line.split()) > 2)
    return done, rows


def test_printed_configuration(folder):
    """The values that would be used: what stands in the header is shown as the header's, a flag given wins."""
    done, rows = printed(folder, L2FS, "--config-from-trace", "--eviction-ratio", "0.5")
    expect(done.returncode == 0, done.stderr)
    expect(rows["l1-size-gb"] == ["0.0009765625", "header"], rows["l1-size-gb"])
    expect(rows["l2-store-policy"] == ["skip_l1", "header"], rows["l2-store-policy"])
    expect(rows["eviction-ratio"] == ["0.5", "command", "line"], rows["eviction-ratio"])
    done, rows = printed(folder, L2FS, "--l1-size-gb", "1")
    expect("header" not in done.stdout, done.stdout)
    done, rows = printed(folder)  # no FILE is needed to ask
    expect(done.returncode == 0 and rows["loop"] == ["1", "default"], done)


def test_wrapped_in_no_fault(folder):
    """A fault adapter with every fault off changes nothing: every release's traces, two kinds of adapter."""
    golden = sorted(glob.glob(os.path.join(conformance.DATA, "*", "*.lct")))
    paths = [path for path in golden if not path.split(os.sep)[-2] == "malformed"][:: 4 if os.environ.get("LMT_SANITIZED") else 1]
    compared = 0
    for number, path in enumerate(paths):
        plain = {"type": "dram", "max_size_gb": 0.002} if number % 2 else {"type": "fs", "sync": "none"}
        runs = []
        for name in ("plain", "wrapped"):
            inner = dict(plain, base_path=os.path.join(folder, f"{number}-{name}")) if plain["type"] == "fs" else plain
            adapter = inner if name == "plain" else {"type": "fault" if number % 4 < 2 else "fault_inject", "inner": inner}
            runs.append(Run(path, *LRU, "--speed", "0", "--l2-store-policy", "skip_l1", "--max-errors", "100%", "--l2-adapter", json.dumps(adapter),
                            folder=folder))
        expect(runs[0].code == runs[1].code, f"{path}: {runs[0].code} and {runs[1].code}: {runs[1].err}")
        if runs[0].state is None:
            continue
        outcomes = [run.metrics["outcome_digest"] for run in runs]
        expect(outcomes[0] == outcomes[1], f"{path}: {outcomes}")
        for run in runs:
            for adapter in run.state["l2"]:
                adapter.pop("type", None)
        for what in runs[0].state:
            expect(runs[0].state[what] == runs[1].state[what], f"{path}: {what}: {runs[0].state[what]} and {runs[1].state[what]}")
        kinds = [[run.metrics["l2"][0][kind]["codes"] for kind in ("store", "lookup", "load", "delete")] for run in runs]
        expect(kinds[0] == kinds[1], f"{path}: {kinds}")
        expect(runs[1].metrics["l2"][0]["faults"] is False and "mark" not in runs[1].metrics["overall"], runs[1].metrics["overall"])
        compared += bool(kinds[0][0])
    expect(compared > len(paths) // 3, f"{compared} of {len(paths)} traces store anything")


def test_refusals(folder):
    for words, word in (
        (["--settle", "--no-settle"], "--settle"),
        (["--prepare"], "--prepare"),
        (["--prepare-only"], "--prepare-only"),
        (["--bypass-l1"], "--bypass-l1"),
        (["--l1-size-gb", "1000000000", *dram()], "--l1-size-gb"),
        (["--state-out", os.path.join(folder, "no", "such")], "--state-out"),
    ):
        run = Run(EDGE, *LRU, "--speed", "0", *words, folder=folder)
        expect(run.code == 2 and word in run.err and len(run.err.strip().splitlines()) == 1, f"{words}: {run.code} {run.err}")
        expect(not [name for name in os.listdir(folder)], os.listdir(folder))


def main():
    tests = [(name, function) for name, function in sorted(globals().items()) if name.startswith("test_")]
    if len(sys.argv) > 1:
        tests = [pair for pair in tests if any(word in pair[0] for word in sys.argv[1:])]
    failed = 0
    print("TAP version 13")
    print(f"1..{len(tests)}", flush=True)
    for number, (name, function) in enumerate(tests, 1):
        folder = tempfile.mkdtemp(prefix="lmt-runs-")
        try:
            function(folder)
            print(f"ok {number} - {name[5:]}", flush=True)
        except (AssertionError, KeyError, TypeError, ValueError) as error:
            failed += 1
            print(f"not ok {number} - {name[5:]}")
            for line in f"{type(error).__name__}: {error}".splitlines():
                print(f"# {line}", flush=True)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
