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
def sink(*argv):
    process = subprocess.Popen([os.path.join(BUILT, "events-sink"), *argv], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
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


def client_row(tmp, files, row):
    """S2: CPU of our client above that of libsoup alone, which posts the same bodies. Whole processes, start and reading included."""
    bodies = os.path.join(tmp, "events-bodies")
    with sink(bodies) as (_, url):
        ours(url, files)
    with sink() as (_, url):
        costs = {"lmtrace": [], "libsoup": []}
        for _ in range(3):
            costs["lmtrace"].append(ours(url, files)[1])
            before = os.times()
            done = subprocess.run([os.path.join(BUILT, "events-soup"), url, bodies], capture_output=True, text=True, check=True)
            after = os.times()
            cpu = after.children_user + after.children_system - before.children_user - before.children_system
            costs["libsoup"].append(cpu / int(done.stdout) * 1e6)
    mine, bare = min(costs["lmtrace"]), min(costs["libsoup"])
    row("events, the client's CPU a batch", "%.0f us" % mine, "a bare libsoup loop %.0f us" % bare, "%+.0f us" % (mine - bare), "<= +10 us",
        mine <= bare + 10)


def store(instance, seq, tier, backend, first, n):
    entries = ",".join('{"key":{"chunk_hash_hex":"%064x","model_name":"meta-llama/Llama-3.1-8B-Instruct","kv_rank":16777472,'
                       '"object_group_id":0,"cache_salt":""},"size_bytes":1048576}' % (i * 0x9e3779b97f4a7c15) for i in range(first, first + n))
    return ('{"batches":[{"instance_id":"%s","incarnation":1758400000,"seq":%d,"event_type":"store","tier":"%s","backend":"%s","entries":[%s]}]}'
            % (instance, seq, tier, backend, entries))


def request(connection, method, path, body=None):
    """Seconds until the reply is there, and the reply."""
    start = time.perf_counter()
    connection.request(method, path, body=body, headers={"Content-Type": "application/json"} if body else {})
    answer = connection.getresponse()
    text = answer.read()
    if answer.status != 200:
        sys.exit("bench: %s %s: %d %r" % (method, path, answer.status, text[:200]))
    return time.perf_counter() - start, text


PAGER = """
import http.client, sys
connection = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]))
offset = 0
while True:
    connection.request("GET", "/directory/keys?limit=10000&offset=%d" % offset)
    offset = (offset + 10000) % 1000000
    connection.getresponse().read()
"""


def inspection_rows(row):
    """S3: what looks at a million keys, from outside."""
    with coordinator(["lmtrace", "coordinator"]) as (_, url):
        port = int(url.rsplit(":", 1)[1])
        connection = http.client.HTTPConnection("127.0.0.1", port)
        times = {}
        for n in (1000, 1_000_000):
            for first in range(0 if n == 1000 else 1000, n, 1000):
                for tier, backend in (("l1", "dram"), ("l2", "fs")):
                    request(connection, "POST", "/events", store("node-" + tier, first // 1000 + 1, tier, backend, first, 1000))
            text = request(connection, "GET", "/directory/stats")[1]
            assert json.loads(text)["num_keys"] == n and json.loads(text)["num_placements"] == 2 * n, text
            for path in ("/directory/stats", "/metrics"):
                times[path, n] = min(request(connection, "GET", path)[0] for _ in range(50))
        for path in ("/directory/stats", "/metrics"):
            few, many = times[path, 1000], times[path, 1_000_000]
            row("events, GET %s with a million keys" % path, "%.0f us" % (many * 1e6), "with a thousand %.0f us" % (few * 1e6), "%.1f x" % (many / few),
                "<= 2 x", many <= 2 * few)
        worst = []
        for again in range(3):
            pager = subprocess.Popen([sys.executable, "-c", PAGER, str(port)])
            try:
                time.sleep(0.5)
                seqs = range(1 + again * 1000, 1001 + again * 1000)
                worst.append(max(request(connection, "POST", "/events", store("node-x", seq, "l1", "dram", seq, 1))[0] for seq in seqs))
            finally:
                pager.kill()
                pager.wait()
        row("events, slowest of 1,000 POSTs while a million keys are paged", "%.1f ms" % (min(worst) * 1e3), "-", "-", "<= 10 ms", min(worst) <= 0.010)


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
    client_row(tmp, files, row)
    memory_row(row)
    inspection_rows(row)
