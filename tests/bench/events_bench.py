# SPDX-License-Identifier: Apache-2.0
"""The events part of bench.py: events.md S1, S2, S3. Everything beside LMCache is measured in this run, on this machine, in turn."""
import contextlib
import gzip
import http.client
import json
import os
import re
import socket
import subprocess
import sys
import time

import traces

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
EVENTS = os.path.join(TOP, "tests", "data", "events")
BUILT = os.path.join(TOP, "build", "bench", "tests")
ENV = dict(os.environ, LMCACHE_TRACK_USAGE="false", LMCACHE_DISABLE_BANNER="1", LMCACHE_LOG_LEVEL="INFO")
TICK = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid):
    with open("/proc/%d/stat" % pid, encoding="ascii") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICK


@contextlib.contextmanager
def sink():
    process = subprocess.Popen([os.path.join(BUILT, "events-sink")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield process.pid, "http://127.0.0.1:%s" % process.stdout.readline().strip()
    finally:
        process.stdin.close()
        process.wait()


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


@contextlib.contextmanager
def coordinator(argv):
    port = free_port()
    process = subprocess.Popen([*argv, "--port", str(port), "--health-check-interval", "0"], env=ENV, stdin=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(600):
            try:
                connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
                connection.request("GET", "/healthz")
                connection.getresponse().read()
                break
            except OSError:
                time.sleep(0.1)
        yield process.pid, "http://127.0.0.1:%d" % port
    finally:
        process.terminate()
        process.wait()


def ours(url, files, *flags):
    """Batches/s of lmtrace's client, and its CPU us a batch."""
    before = os.times()
    done = subprocess.run(["lmtrace", "replay-events", *files, "--coordinator-url", url, "--heartbeat-interval", "0", "--json", *flags],
                          capture_output=True, text=True, check=False)
    after = os.times()
    if done.returncode != 0:
        sys.exit("bench: replay-events: exit %d\n%s" % (done.returncode, done.stderr))
    overall = json.loads(done.stdout)["metrics"]["overall"]
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return overall["batches"] / overall["duration"], cpu / overall["batches"] * 1e6


def theirs(peer, url, files):
    """The same of LMCache's; its line per record is discarded, as the requirement has it."""
    lmcache = os.path.join(os.path.dirname(peer), "lmcache")
    done = subprocess.run([lmcache, "trace", "replay-events", *files, "--coordinator-url", url, "--heartbeat-interval", "0"], env=ENV,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False)
    number = {k: float(v) for k, v in re.findall(r"^(.+?): +([0-9.]+)$", done.stdout, re.M)}
    return number["Batches delivered"] / number["Replay duration (s)"]


def best(func, times=3):
    return max((func() for _ in range(times)), key=lambda x: x[0])


def info_rows(tmp, peer, row, rss_mib):
    large = os.path.join(tmp, "events-100.lct")
    records = traces.write_repeated(os.path.join(tmp, "large_0.lct"), large, 100_000_000)
    def span_of(path):
        times = []
        for _ in range(3):
            start = time.monotonic()
            out = subprocess.run(["lmtrace", "info", path], capture_output=True, text=True, check=True).stdout
            times.append(time.monotonic() - start)
        return min(times), out

    # net of start-up on both sides, which is measured on a file without records
    start_up, _ = span_of(os.path.join(EVENTS, "empty_header.lct"))
    span, out = span_of(large)
    assert "total_records:              %d\n" % records in out, out
    rate = records / (span - start_up)
    if peer:
        lmcache = [os.path.join(os.path.dirname(peer), "lmcache"), "trace", "info"]
        spans = []
        for path in (large, os.path.join(EVENTS, "empty_header.lct")):
            start = time.monotonic()
            subprocess.run([*lmcache, path], env=ENV, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
            spans.append(time.monotonic() - start)
        reference = records / (spans[0] - spans[1])
        row("events, info, records/s", format(rate, ",.0f"), "LMCache %s" % format(reference, ",.0f"), "%.1f x" % (rate / reference),
            ">= 10 x", rate >= 10 * reference)
    memory = rss_mib(["lmtrace", "info", large])
    row("events, info, RSS at %.0f MB" % (os.path.getsize(large) / 1e6), "%.1f MiB" % memory, "-", "-", "< 16 MiB", memory < 16)


def replay_rows(files, peer, row):
    with sink() as (_, url):
        rate, cpu = best(lambda: ours(url, files))
        reference = theirs(peer, url, files[:1]) if peer else 0
    if reference:
        row("events, replay to a sink, batches/s", "%s, %.0f us CPU" % (format(rate, ",.0f"), cpu), "LMCache %s" % format(reference, ",.0f"),
            "%.1f x" % (rate / reference), ">= 7 x", rate >= 7 * reference)
    else:
        row("events, replay to a sink, batches/s", "%s, %.0f us CPU" % (format(rate, ",.0f"), cpu), "-", "-", "-", True)
    rates = []
    for _ in range(3):
        with coordinator(["lmtrace", "coordinator"]) as (_, url):
            rates.append(ours(url, files)[0])
    pair = 0
    if peer:
        with coordinator([peer, "-m", "lmcache.v1.mp_coordinator", "--host", "127.0.0.1", "--eviction-check-interval", "0"]) as (_, url):
            pair = theirs(peer, url, files[:1])
        row("events, client and coordinator, batches/s", format(max(rates), ",.0f"), "LMCache's pair %s" % format(pair, ",.0f"),
            "%.1f x" % (max(rates) / pair), ">= 9 x", max(rates) >= 9 * pair)
        with coordinator(["lmtrace", "coordinator"]) as (pid, url):
            before = cpu_seconds(pid)
            theirs(peer, url, files[:1])
            share = (cpu_seconds(pid) - before) / 5000 * 1e6
        row("events, coordinator under LMCache's client, CPU a call", "%.0f us" % share, "-", "-", "<= 100 us", share <= 100)
    rates = []
    for _ in range(3):
        with coordinator(["lmtrace", "coordinator"]) as (_, url):
            rates.append(ours(url, files, "--batch", "64", "--inflight", "4")[0])
    row("events, --batch 64 --inflight 4 into the coordinator, batches/s", format(max(rates), ",.0f"),
        "LMCache's pair %s" % format(pair, ",.0f") if pair else "-", "%.0f x" % (max(rates) / pair) if pair else "-", ">= 100,000",
        max(rates) >= 100_000)


def memory_row(row):
    out = subprocess.run([os.path.join(BUILT, "bench-views"), "1000000"], capture_output=True, text=True, check=True).stdout
    found = re.search(r"store l2 again.*resident +([0-9.]+) MiB", out)
    if found:
        row("events, a million keys with two placements, RSS", "%s MiB" % found.group(1), "-", "-", "< 400 MiB", float(found.group(1)) < 400)


def bench(tmp, peer, row, rss_mib):
    files = []
    for i in range(4):
        path = os.path.join(tmp, "large_%d.lct" % i)
        with gzip.open(os.path.join(EVENTS, "large_%d.lct.gz" % i)) as packed, open(path, "wb") as f:
            f.write(packed.read())
        files.append(path)
    info_rows(tmp, peer, row, rss_mib)
    replay_rows(files, peer, row)
    memory_row(row)
