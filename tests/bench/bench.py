#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Figures of lmtrace beside LMCache 0.5.6 and beside physical limits, taken in one run: one table of ratios.

bench.py --peer PYTHON [--only WORD]   run through ./dev bench
"""
import argparse
import array
import fcntl
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import events_bench
import traces

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
ROWS = []


def run(argv, **more):
    """Wall seconds and stdout of one process."""
    start = time.monotonic()
    done = subprocess.run(argv, capture_output=True, text=True, **more)
    wall = time.monotonic() - start
    if done.returncode != 0:
        sys.exit(f"bench: {' '.join(argv)}: exit {done.returncode}\n{done.stderr}")
    return wall, done.stdout


def best(argv, times=5, **more):
    """Least wall time of several runs, and the last one's stdout."""
    results = [run(argv, **more) for _ in range(times)]
    return min(r[0] for r in results), results[-1][1]


def rss_mib(argv, **more):
    """Peak RSS. By way of time(1): the kernel counts what a child was before its exec, and this interpreter is large."""
    done = subprocess.run(["time", "-f", "%M", *argv], capture_output=True, text=True, **more)
    return int(done.stderr.split()[-1]) / 1024.0


def row(what, ours, other, ratio, goal, good):
    ROWS.append((what, ours, other, ratio, goal, "met" if good else "MISSED"))


def peer_json(peer, *argv):
    if not peer:
        return None
    out = subprocess.run([peer, os.path.join(TOP, "tests", "bench", "peer_bench.py"), *argv], capture_output=True, text=True)
    if out.returncode != 0:
        print(f"bench: LMCache failed: {out.stderr[-400:]}", file=sys.stderr)
        return None
    return json.loads(out.stdout.strip().splitlines()[-1])


def bench_info(tmp, peer):
    large = os.path.join(tmp, "large-200.lct")
    records = traces.write_repeated(os.path.join(TOP, "tests", "data", "storage", "0.5.6", "large.lct"), large, 200_000_000)
    size = os.path.getsize(large)
    cat, _ = best(["sh", "-c", 'cat "$1" >/dev/null', "sh", large])
    ours, out = best(["lmtrace", "info", large])
    rss = rss_mib(["lmtrace", "info", large])
    assert f"total_records:              {records}\n" in out, out
    row(f"info, {size / 1e6:.0f} MB, wall", f"{ours:.3f} s, {size / ours / 1e6:.0f} MB/s", f"cat {cat:.3f} s", f"{ours / cat:.1f} x cat",
        "<= 4 x", ours <= 4 * cat)
    row("info, RSS", f"{rss:.1f} MiB", "-", "-", "< 16 MiB", rss < 16)
    theirs = peer_json(peer, "info", large)
    if theirs:
        rate = theirs["records"] / theirs["seconds"]
        row("info, records/s", f"{records / ours:,.0f}", f"LMCache {rate:,.0f}", f"{records / ours / rate:.1f} x", ">= 10 x",
            records / ours >= 10 * rate)


def bench_startup(tmp, peer):
    small = os.path.join(TOP, "tests", "data", "storage", "0.5.6", "tiny.lct")
    ours, _ = best(["lmtrace", "info", small], 20)
    rss = rss_mib(["lmtrace", "info", small])
    row("start-up, info of a small file", f"{ours * 1e3:.1f} ms, {rss:.1f} MiB", "-", "-", "<= 10 ms", ours <= 0.010)
    if peer:
        env = dict(os.environ, LMCACHE_TRACK_USAGE="false", LMCACHE_DISABLE_BANNER="1", LMCACHE_LOG_LEVEL="ERROR")
        lmcache = os.path.join(os.path.dirname(peer), "lmcache")
        argv = [lmcache, "trace", "info", small]
        wall, _ = best(argv, 2, env=env)
        memory = rss_mib(argv, env=env)
        row("start-up beside LMCache", f"{ours * 1e3:.1f} ms", f"LMCache {wall:.2f} s, {memory:.0f} MiB", f"{wall / ours:.0f} x", ">= 100 x",
            wall >= 100 * ours)


def replay_json(path, *flags):
    argv = ["lmtrace", "replay", path, "--eviction-policy", "LRU", "--l1-size", "4GiB", "--format", "json", "--no-csv",
            "--output-dir", os.path.dirname(path), *flags]
    return json.loads(run(argv)[1])["metrics"]


def bench_replay(tmp, peer):
    one = os.path.join(tmp, "one-key.lct")
    many = os.path.join(tmp, "64-keys.lct")
    n_one = traces.write_cycles(one, 100_000, 1)
    n_many = traces.write_cycles(many, 4_000, 64)
    theirs = None
    if peer:
        small = os.path.join(tmp, "one-key-small.lct")
        traces.write_cycles(small, 3_000, 1)
        theirs = peer_json(peer, "replay", small, "1")
    for label, adapter in (("null", '{"type":"null"}'), ("dram, no data", '{"type":"dram","max_size_gb":0,"data":false}')):
        figures = [replay_json(one, "--speed", "0", "--l2-adapter", adapter) for _ in range(3)]
        rate = max(n_one / m["overall"]["duration"] for m in figures)
        row(f"replay, one-key records/s, {label}", f"{rate:,.0f}", "-", "-", ">= 1,000,000", rate >= 1e6)
        if theirs:
            other = theirs["records"] / theirs["seconds"]
            row(f"replay beside LMCache's dispatch, {label}", f"{rate:,.0f}", f"LMCache {other:,.0f}", f"{rate / other:.0f} x", ">= 50 x",
                rate >= 50 * other)
        figures = [replay_json(many, "--speed", "0", "--l2-adapter", adapter) for _ in range(3)]
        rate = max(64 * n_many / m["overall"]["duration"] for m in figures)
        row(f"replay, keys/s of 64-key records, {label}", f"{rate:,.0f}", "-", "-", ">= 10,000,000", rate >= 1e7)


def bench_pace(tmp, peer):
    paced = os.path.join(tmp, "paced.lct")
    traces.write_cycles(paced, 16_667, 1, rate=10_000)
    metrics = replay_json(paced, "--l2-adapter", '{"type":"null"}')
    p99 = metrics["pacing"]["lag_p99_ms"] * 1e3
    row("pacing, 10,000 records/s for 10 s, lag p99", f"{p99:.0f} us", "-", "-", "<= 100 us", p99 <= 100)
    if peer:
        slow = os.path.join(tmp, "paced-2300.lct")
        traces.write_cycles(slow, 1_900, 1, rate=2_300)
        theirs = peer_json(peer, "pace", slow, "1")
        metrics = replay_json(slow, "--l2-adapter", '{"type":"null"}')
        ours = metrics["pacing"]["lag_p99_ms"] * 1e3
        if theirs:
            row("pacing, 2,300 records/s for 5 s, lag p99", f"{ours:.0f} us", f"LMCache {theirs['lag_p99_us']:.0f} us",
                f"{theirs['lag_p99_us'] / max(ours, 0.001):.0f} x", "-", True)


def fio(folder, how, size, count, depth):
    """MiB/s and CPU s/GiB of fio's io_uring engine: a file an object, as it makes and reads them itself."""
    argv = ["fio", "--name=bench", f"--directory={folder}", f"--rw={how}", f"--bs={size}", f"--filesize={size}", f"--nrfiles={count}",
            "--create_on_open=1", "--fallocate=none", "--ioengine=io_uring", "--direct=1", f"--iodepth={depth}",
            "--file_service_type=sequential", "--iomem=malloc", "--output-format=json"]
    # Its buffers in huge pages as ours: what lies in one piece in memory goes to the device in one piece.
    job = json.loads(run(argv, env=dict(os.environ, GLIBC_TUNABLES="glibc.malloc.hugetlb=1"))[1])["jobs"][0]
    seconds = job[how]["runtime"] / 1e3
    cpu = (job["usr_cpu"] + job["sys_cpu"]) / 100 * seconds
    mib = job[how]["io_bytes"] / 2**20
    return {"mib_s": mib / seconds, "cpu_s_gib": cpu / mib * 1024}


def drop_page_cache():
    """The page cache alone: fio looks at each file before its time runs, so names and sizes are in memory for all alike."""
    os.sync()
    try:
        with open("/proc/sys/vm/drop_caches", "w", encoding="ascii") as out:
            out.write("1")
    except OSError:
        return False
    return True


L2_BENCH = os.path.join(TOP, "build", "bench", "tests", "l2-bench")


def l2_once(who, folder, size, count, depth, peer):
    os.sync()
    if who == "fio":
        answer = {"store": fio(folder, "write", size, count, depth)}
        drop_page_cache()
        answer["load"] = fio(folder, "read", size, count, depth)
        return answer
    spec = {"type": "fs", "base_path": os.path.join(folder, "kv"), "use_odirect": True}
    if who.startswith("LMCache"):
        spec["type"] = who.split()[1]
        spec.update({"num_workers": 8} if spec["type"] == "fs_native" else {})
        return peer_json(peer, "l2", json.dumps(spec), str(size), str(count), str(depth))
    spec["sync"] = "data" if who == "sync" else "none"
    answer = json.loads(run([L2_BENCH, json.dumps(spec), str(size), str(count), str(depth)])[1])
    if answer["store"]["errors"] + answer["load"]["errors"] > 0:
        sys.exit(f"bench: fs: operations failed: {answer}")
    return answer


def empty_files(folder):
    """Gives the space back. The files themselves stay until all is measured: ext4 passes over what was deleted in the last minutes
    one by one when it makes a new file, which whoever stores next would pay for."""
    for path, _, names in os.walk(folder):
        for name in names:
            os.truncate(os.path.join(path, name), 0)


def spread_folders(folder):
    """Each folder made in it begins in a part of the disk of its own (ext4), not among what was deleted lately. FALSE: not here."""
    fs_ioc_getflags, fs_ioc_setflags, top_folder = 0x80086601, 0x40086602, 0x00020000
    fd = os.open(folder, os.O_RDONLY)
    try:
        flags = array.array("L", [0])
        fcntl.ioctl(fd, fs_ioc_getflags, flags)
        flags[0] |= top_folder
        fcntl.ioctl(fd, fs_ioc_setflags, flags)
        return True
    except OSError:
        return False
    finally:
        os.close(fd)


def l2_cell(tmp, size, count, depth, peer, rounds):
    """Rounds of all in turn, each beginning with another, so that all have their share of the device's good and bad moments.
    {who: [answer of each round]}"""
    who = ["ours", "fio"] + (["LMCache fs", "LMCache fs_native"] if peer and (size == 131072 or depth == 32) else [])
    who += ["sync"] if depth == 32 else []
    cell = {}
    for n in range(rounds):
        for name in who[n % len(who):] + who[:n % len(who)]:
            folder = tempfile.mkdtemp(dir=tmp)
            answer = l2_once(name, folder, size, count, depth, peer)
            if answer:
                cell.setdefault(name, []).append(answer)
            empty_files(folder)
    return {name: answers for name, answers in cell.items() if len(answers) == rounds}


def l2_rows(label, cell, small):
    """Medians of the rounds; a ratio is the median of the rounds' own ratios."""
    def figure(name, kind, unit):
        return statistics.median(answer[kind][unit] for answer in cell[name])

    def ratio(name, other, kind, unit):
        return statistics.median(a[kind][unit] / b[kind][unit] for a, b in zip(cell[name], cell[other]))

    def text(name, kind):
        return f"{figure(name, kind, 'mib_s'):,.0f} MiB/s, {figure(name, kind, 'cpu_s_gib'):.2f} s/GiB"

    for kind in ("store", "load"):
        for name, goal in (("fio", 0.95), ("LMCache fs", 2), ("LMCache fs_native", 1.1)):
            if name not in cell:
                continue
            times = ratio("ours", name, kind, "mib_s")
            counts = small or name == "fio"
            row(f"fs, {label}, {kind}", text("ours", kind), f"{name} {text(name, kind)}", f"{times:.2f} x", f">= {goal} x" if counts else "-",
                not counts or times >= goal)
            if name.endswith("native"):
                times = ratio("ours", name, kind, "cpu_s_gib")
                row(f"fs, {label}, {kind}, CPU", f"{figure('ours', kind, 'cpu_s_gib'):.2f} s/GiB",
                    f"{name} {figure(name, kind, 'cpu_s_gib'):.2f} s/GiB", f"{times:.2f} x", "<= 0.8 x", times <= 0.8)
    if "sync" in cell:
        row(f"fs, {label}, store, sync: data", text("sync", "store"), f"sync: none {text('ours', 'store')}",
            f"{ratio('sync', 'ours', 'store', 'mib_s'):.2f} x", "-", True)


def bench_l2(tmp, peer, rounds=5):
    cost = json.loads(best([L2_BENCH, "core", "1000000"], 1)[1])["ns"]
    row("L2 core, null adapter, an object from submit to reap", f"{cost:.0f} ns", "-", "-", "<= 300 ns", cost <= 300)
    for label, keys in (("dram", ""), ("dram, huge_pages", ',"huge_pages":true')):
        memory = f'{{"type":"dram","max_size_gb":2{keys}}}'
        pairs = [(json.loads(run([L2_BENCH, memory, "1048576", "1024", "8", "nodrop"])[1]), json.loads(run([L2_BENCH, "memcpy", "1048576"])[1]))
                 for _ in range(rounds)]
        for kind in ("store", "load"):
            ours, copy = (statistics.median(values) for values in zip(*((a[kind]["mib_s"], c[kind]) for a, c in pairs)))
            ratio = statistics.median(a[kind]["mib_s"] / c[kind] for a, c in pairs)
            row(f"{label}, 1 MiB, {kind}", f"{ours:,.0f} MiB/s", f"memcpy {copy:,.0f}", f"{ratio:.2f} x", ">= 0.8 x", ratio >= 0.8)
    if shutil.which("fio") is None:
        print("bench: no fio: the fs adapter is left out", file=sys.stderr)
        return
    if os.geteuid() != 0:
        print("bench: not root: the page cache isn't dropped before loads", file=sys.stderr)
    spread_folders(tmp)
    for size, name, count in ((1 << 20, "1 MiB", 512), (131072, "128 KiB", 4096)):
        for depth in (1, 8, 32):
            n = count if depth > 1 else count // 4
            l2_rows(f"{name}, depth {depth}", l2_cell(tmp, size, n, depth, peer, rounds), size == 131072)


def bench_record(tmp, peer):
    """Medians of three processes: what a call costs its caller, and what the drain thread does."""
    program = os.path.join(TOP, "build", "bench", "tests", "record-bench")
    program = os.environ.get("LMT_RECORD_BENCH", program)
    runs = [json.loads(run([program, os.path.join(tmp, "record.lct")])[1]) for _ in range(3)]
    os.unlink(os.path.join(tmp, "record.lct"))
    ours = {name: statistics.median(one[name] for one in runs) for name in runs[0]}
    theirs = peer_json(peer, "record", os.path.join(tmp, "peer.lct"))
    off = ours["off_ns"] - ours["empty_ns"]
    beside = lambda name: f"LMCache {theirs[name] - theirs['plain_ns']:,.0f} ns" if theirs else "-"
    times = lambda name, mine: f"{(theirs[name] - theirs['plain_ns']) / mine:.0f} x" if theirs else "-"
    row("record, off, above an empty call", f"{off:.2f} ns", beside("off_ns"), "-", "<= 1 ns", off <= 1.0)
    row("record, on, 1 key", f"{ours['on_ns']:.0f} ns", beside("on_ns"), times("on_ns", ours["on_ns"]), "<= 100 ns, >= 60 x",
        ours["on_ns"] <= 100 and (not theirs or theirs["on_ns"] - theirs["plain_ns"] >= 60 * ours["on_ns"]))
    row("record, on, 64 keys", f"{ours['on64_ns']:.0f} ns", beside("on64_ns"), times("on64_ns", ours["on64_ns"]), "<= 600 ns", ours["on64_ns"] <= 600)
    row("record, 2 threads", f"{ours['rate2_per_s'] / 1e6:.1f} M/s", f"1 thread {ours['rate1_per_s'] / 1e6:.1f} M/s",
        f"{ours['rate2_per_s'] / ours['rate1_per_s']:.2f} x", ">= 1.8 x", ours["rate2_per_s"] >= 1.8 * ours["rate1_per_s"])
    row("record, drain, 1 key", f"{ours['drain_per_s'] / 1e6:.2f} M/s", f"LMCache {theirs['drain_per_s']:,.0f}/s" if theirs else "-",
        f"{ours['drain_per_s'] / theirs['drain_per_s']:.0f} x" if theirs else "-", ">= 2 M/s or the disk", ours["drain_per_s"] >= 2e6)
    row("record, drain, 64 keys", f"{ours['drain64_per_s'] / 1e6:.2f} M/s, {ours['drain64_per_s'] * 7.6e-3:,.0f} MB/s", "-", "-", "-", True)


def bench_events(tmp, peer):
    events_bench.bench(tmp, peer, row, rss_mib)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--peer", default="")
    parser.add_argument("--only", default="")
    parser.add_argument("--rounds", type=int, default=5, help="of the fs adapter and its competitors in turn; default: 5")
    parser.add_argument("--tmp", help="folder on the file system to measure on; default: the temporary folder's")
    args = parser.parse_args()
    peer = args.peer if args.peer and os.path.exists(args.peer) else ""
    tmp = tempfile.mkdtemp(prefix="lmtrace-bench-", dir=args.tmp)
    try:
        for name, part in (("startup", bench_startup), ("info", bench_info), ("replay", bench_replay), ("pace", bench_pace), ("l2", bench_l2), ("record", bench_record),
                           ("events", bench_events)):
            if args.only in name:
                part(tmp, peer, *([args.rounds] if part is bench_l2 else []))
    finally:
        shutil.rmtree(tmp, ignore_errors=True)
    heads = ("what", "lmtrace", "beside", "ratio", "goal", "")
    widths = [max(len(r[i]) for r in [heads, *ROWS]) for i in range(6)]
    for r in [heads, *ROWS]:
        print("  ".join(c.ljust(w) for c, w in zip(r, widths)).rstrip())
    return 0


if __name__ == "__main__":
    sys.exit(main())
