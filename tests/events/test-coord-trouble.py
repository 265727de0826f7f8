#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`lmtrace coordinator`: who may reach it, slow and odd clients, limits, signals, files, calls to servers."""
import http.server
import json
import os
import random
import re
import select
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from coord_lib import PATIENCE, Coordinator, batch, key  # noqa: E402
from lib import Tests, contains, environment, equal, lmtrace, refused, true  # noqa: E402

test = Tests()
JSON = {"Content-Type": "application/json"}
WITHOUT_LEAK_CHECK = environment(ASAN_OPTIONS=os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0")  # it falls over GnuTLS


def post_raw(body, *more):
    head = ["POST /events HTTP/1.1", "Host: x", "Content-Type: application/json", *more]
    return "\r\n".join(head).encode() + b"\r\n\r\n" + body


def read_reply(sock):
    """(status, body) of one reply with a length."""
    data = b""
    while b"\r\n\r\n" not in data:
        piece = sock.recv(65536)
        if not piece:
            return None
        data += piece
    head, _, body = data.partition(b"\r\n\r\n")
    lines = head.decode("latin-1").split("\r\n")
    length = [int(line.split(":")[1]) for line in lines if line.lower().startswith("content-length:")]
    while length and len(body) < length[0]:
        piece = sock.recv(65536)
        if not piece:
            break
        body += piece
    return int(lines[0].split()[1]), body


def is_closed(sock, within=PATIENCE):
    sock.settimeout(within)
    try:
        return sock.recv(1) == b""
    except ConnectionResetError:
        return True
    except socket.timeout:
        return False


# -------- who may reach it --------

@test
def loopback_or_protected(folder):
    for host in ("0.0.0.0", "::"):
        run = lmtrace("coordinator", "--port", "0", "--host", host, "--exit-after-idle", "1")
        if "not supported" in run.errors:
            continue
        refused(run, host)
        contains(run.errors, "--token-file, --tls-cert or --insecure")
    with open(os.path.join(folder, "token"), "w", encoding="ascii") as f:
        f.write("abc\n")
    for args in (("--insecure",), ("--token-file", os.path.join(folder, "token"))):
        with Coordinator("--host", "0.0.0.0", *args, folder=folder) as coordinator:
            true(coordinator.url.startswith("http://0.0.0.0:"), coordinator.url)
            equal(coordinator.stop(), 0)


@test
def bearer(folder):
    path = os.path.join(folder, "token")
    with open(path, "w", encoding="ascii") as f:
        f.write("s3cret-Token\nnot this\n")
    with Coordinator("--token-file", path, folder=folder) as coordinator:
        equal(coordinator.get("/healthz").status, 200)
        for header in ({}, {"Authorization": "Bearer s3cret-Tokem"}, {"Authorization": "Bearer s3cret-Toke"}, {"Authorization": "Bearer "},
                       {"Authorization": "Basic s3cret-Token"}, {"Authorization": "Bearer s3cret-Token2"}):
            reply = coordinator.get("/instances", headers=header)
            equal((reply.status, reply.json), (401, {"detail": "Unauthorized"}), repr(header))
            equal(reply.headers["www-authenticate"], "Bearer")
            equal(coordinator.post("/events", {"batches": [batch()]}, headers=header).status, 401)
        good = {"Authorization": "Bearer s3cret-Token"}
        equal(coordinator.get("/instances", headers=good).status, 200)
        equal(coordinator.post("/events", {"batches": [batch()]}, headers=dict(good, **JSON)).json["applied"], 1)
        true("s3cret" not in coordinator.errors)
    for text in ("", "\n", "two words\n", "\x01\n"):
        with open(path, "w", encoding="latin-1") as f:
            f.write(text)
        refused(lmtrace("coordinator", "--port", "0", "--token-file", path), repr(text))
    refused(lmtrace("coordinator", "--port", "0", "--token-file", os.path.join(folder, "none")))


def certificate(folder):
    cert, private = os.path.join(folder, "cert.pem"), os.path.join(folder, "key.pem")
    made = subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", private, "-out", cert, "-days", "2",
                           "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"], capture_output=True, check=False)
    return (cert, private) if made.returncode == 0 else (None, None)


@test
def tls(folder):
    try:
        cert, private = certificate(folder)
    except FileNotFoundError:
        cert = None
    if cert is None:
        print("# no openssl: not tested", flush=True)
        return
    try:
        coordinator = Coordinator("--tls-cert", cert, "--tls-key", private, "--timeout-keep-alive", "2", folder=folder,
                                  sanitizer="detect_leaks=0")  # the leak checker falls over GnuTLS
    except AssertionError as error:
        if "glib-networking" in str(error):
            print("# no glib-networking: not tested", flush=True)
            return
        raise
    with coordinator:
        true(coordinator.url.startswith("https://127.0.0.1:"), coordinator.url)
        context = ssl.create_default_context(cafile=cert)
        import http.client
        secure = http.client.HTTPSConnection("127.0.0.1", int(coordinator.port), timeout=PATIENCE, context=context)
        for seq in range(1, 4):
            reply = coordinator.post("/events", {"batches": [batch(seq=seq)]}, connection=secure)
            equal(reply.json, {"applied": 1, "duplicates": 0, "stale": 0})
        equal(coordinator.get("/instances/", connection=secure).headers["location"], "https://127.0.0.1:%s/instances" % coordinator.port)
        secure.close()
        plain = coordinator.raw()
        plain.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        plain.settimeout(PATIENCE)
        try:
            true(b"200" not in plain.recv(100))
        except ConnectionResetError:
            pass
        # Somebody who never shakes hands is closed like any idle connection.
        silent = coordinator.raw()
        true(is_closed(silent))
        equal(coordinator.stop(), 0)
    for args in (("--tls-cert", cert), ("--tls-key", private), ("--tls-cert", private + "x", "--tls-key", private)):
        refused(lmtrace("coordinator", "--port", "0", *args), repr(args))


@test
def tls_files(folder):
    """A pair that can't work is refused at the start, not at each client's handshake."""
    try:
        cert, private = certificate(folder)
    except FileNotFoundError:
        cert = None
    probe = lmtrace("coordinator", "--port", "0", "--exit-after-idle", "0.1", "--tls-cert", cert or "x", "--tls-key", private or "x",
                    env=WITHOUT_LEAK_CHECK)
    if cert is None or "glib-networking" in probe.errors:
        print("# no openssl or no glib-networking: not tested", flush=True)
        return
    equal(probe.code, 0, probe.errors)
    os.mkdir(os.path.join(folder, "other"))
    other_cert, other_private = certificate(os.path.join(folder, "other"))

    def file(name, text=None, *command):
        path = os.path.join(folder, name)
        if command:
            subprocess.run(command + ("-out", path), capture_output=True, check=True)
        else:
            with open(path, "wb") as f:
                f.write(text)
        return path

    encrypted = file("enc.key", None, "openssl", "pkey", "-in", private, "-aes128", "-passout", "pass:x")
    older = file("old.key", None, "openssl", "rsa", "-in", private, "-traditional", "-aes128", "-passout", "pass:x")
    curve = file("ec.key", None, "openssl", "ecparam", "-genkey", "-name", "prime256v1")
    for a, b, text in ((cert, other_private, "expected a certificate and its own key"), (other_cert, private, "its own key"),
                       (cert, curve, "its own key"), (cert, encrypted, "without a passphrase"), (cert, older, "without a passphrase"),
                       (cert, cert, "expected a private key"), (private, private, "certificate"),
                       (file("empty", b""), private, "certificate"), (file("nul", b"a\0b"), private, "NUL"),
                       (cert, file("junk", b"\xff\n" * 1000), "expected a private key"), (folder, private, "found a directory"),
                       ("/dev/zero", private, "at most 1 MiB"), (cert, "/dev/zero", "at most 1 MiB"),
                       (os.path.join(folder, "none"), private, "No such file"), (cert, os.path.join(folder, "none"), "No such file")):
        run = lmtrace("coordinator", "--port", "0", "--tls-cert", a, "--tls-key", b, env=WITHOUT_LEAK_CHECK)
        refused(run, repr((a, b)))
        contains(run.errors, text)
        equal(len(run.errors.splitlines()), 1, run.errors)
        true("PRIVATE" not in run.errors)
    # Dates are the clients' affair.
    request = file("request", None, "openssl", "req", "-new", "-key", private, "-subj", "/CN=localhost")
    file("index.txt", b"")
    file("serial", b"01\n")
    ca = file("ca.cnf", ("[ca]\ndefault_ca=d\n[d]\ndatabase=%s/index.txt\nserial=%s/serial\nnew_certs_dir=%s\npolicy=p\n"
                         "default_md=sha256\n[p]\ncommonName=supplied\n" % (folder, folder, folder)).encode())
    for start, end, text in (("20200101000000Z", "20210101000000Z", "expired at 2021-01-01"),
                             ("20900101000000Z", "20910101000000Z", "not valid before 2090-01-01")):
        dated = file("dated.pem", None, "openssl", "ca", "-batch", "-notext", "-config", ca, "-selfsign", "-keyfile", private, "-in", request,
                     "-startdate", start, "-enddate", end)
        run = lmtrace("coordinator", "--port", "0", "--exit-after-idle", "0.1", "--tls-cert", dated, "--tls-key", private,
                      env=WITHOUT_LEAK_CHECK)
        equal(run.code, 0, run.errors)
        contains(run.errors, "warning: --tls-cert %s: %s" % (dated, text))
        file("index.txt", b"")


class UnixConnection:
    """Just enough of http.client over a Unix socket."""

    def __new__(cls, path):
        import http.client

        class Connection(http.client.HTTPConnection):
            def connect(self):
                self.sock = socket.socket(socket.AF_UNIX)
                self.sock.settimeout(PATIENCE)
                self.sock.connect(path)
        return Connection("localhost")


@test
def unix_socket(folder):
    path = os.path.join(folder, "sock")
    with Coordinator("--unix", path, folder=folder) as coordinator:
        equal(coordinator.url, "unix:" + path)
        equal(os.stat(path).st_mode & 0o077, 0)
        connection = UnixConnection(path)
        for seq in range(1, 3):
            equal(coordinator.post("/events", {"batches": [batch(seq=seq)]}, connection=connection).json["applied"], 1)
        equal(coordinator.ask("DELETE", "/instances/i1", connection=connection).status, 204)
        old = socket.socket(socket.AF_UNIX)
        old.connect(path)
        old.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")  # no Host: libsoup asks for the local address
        true(old.recv(100).startswith(b"HTTP/1."), "HTTP/1.0")
        run = lmtrace("coordinator", "--unix", path)
        refused(run)
        contains(run.errors, "socket in use")
        equal(coordinator.stop(), 0)
    true(not os.path.exists(path))
    left = socket.socket(socket.AF_UNIX)
    left.bind(path)
    left.close()
    with Coordinator("--unix", path, "--port", "0", folder=folder) as coordinator:  # a left-over goes; and TCP beside it
        true(coordinator.url.startswith("http://127.0.0.1:"), coordinator.url)
        equal(coordinator.get("/healthz").status, 200)
        equal(coordinator.get("/healthz", connection=UnixConnection(path)).status, 200)
    with open(os.path.join(folder, "file"), "w", encoding="ascii"):
        pass
    refused(lmtrace("coordinator", "--unix", os.path.join(folder, "file")))
    refused(lmtrace("coordinator", "--unix", "/" + "x" * 200))


# -------- slow and odd clients --------

@test
def slow_clients(folder):
    with Coordinator("--request-timeout", "1.5", "--timeout-keep-alive", "1", folder=folder) as coordinator:
        silent = coordinator.raw()
        drip = coordinator.raw()
        half = coordinator.raw()
        half.sendall(post_raw(b'{"batches":', "Content-Length: 100"))
        closed = None
        begin = time.monotonic()
        for byte in b"GET /healthz HTTP/1.1\r\nX: " + b"y" * 600:
            try:
                drip.sendall(bytes([byte]))
            except OSError:
                closed = time.monotonic() - begin
                break
            equal(coordinator.get("/healthz").status, 200)  # others are served meanwhile
            time.sleep(0.05)
        true(closed is not None and closed > 1.0, "dripping went on: %s" % closed)
        true(is_closed(silent) and is_closed(half))
        # the first request's clock begins with the connection: the silent one counts, too
        contains(coordinator.get("/metrics").body.decode(), "\nlmtrace_coordinator_connections_too_slow_total 3.0\n")
        # a kept connection has the shorter clock of idle ones
        kept = coordinator.raw()
        kept.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        equal(read_reply(kept)[0], 200)
        true(is_closed(kept))
        contains(coordinator.get("/metrics", connection=coordinator.connect()).body.decode(), "\nlmtrace_coordinator_connections_too_slow_total 3.0\n")


@test
def half_requests(folder):
    full = post_raw(json.dumps({"batches": [batch()]}).encode(), "Content-Length: %d" % len(json.dumps({"batches": [batch()]})))
    with Coordinator(folder=folder) as coordinator:
        for cut in list(range(0, len(full), 7)) + [len(full) - 1]:
            sock = coordinator.raw()
            sock.sendall(full[:cut])
            sock.close()
        sock = coordinator.raw()
        for i in range(0, len(full), 40):  # the same in pieces
            sock.sendall(full[i:i + 40])
        equal(json.loads(read_reply(sock)[1])["applied"], 1)
        sock.sendall(full + full)  # two at once
        equal(read_reply(sock)[0], 200)
        equal(coordinator.get("/directory/stats").json["num_keys"], 1)
        equal(coordinator.stop(), 0)


@test
def chunked_and_continue(folder):
    with Coordinator("--max-body", "4KiB", folder=folder) as coordinator:
        body = json.dumps({"batches": [batch()]}).encode()
        sock = coordinator.raw()
        pieces = b"".join(b"%x\r\n%s\r\n" % (len(body[i:i + 50]), body[i:i + 50]) for i in range(0, len(body), 50)) + b"0\r\n\r\n"
        sock.sendall(post_raw(pieces, "Transfer-Encoding: chunked"))
        equal(json.loads(read_reply(sock)[1])["applied"], 1)
        sock = coordinator.raw()
        sock.sendall(post_raw(b"", "Content-Length: %d" % len(body), "Expect: 100-continue"))
        true(sock.recv(1000).startswith(b"HTTP/1.1 100 "))
        sock.sendall(body)
        equal(json.loads(read_reply(sock)[1])["duplicates"], 1)
        # too large: by its length, before anything of it is sent; and by what comes
        sock = coordinator.raw()
        sock.sendall(post_raw(b"", "Content-Length: 5000", "Expect: 100-continue"))
        equal(read_reply(sock)[0], 413)
        sock = coordinator.raw()
        sock.sendall(post_raw(b"x" * 5000, "Content-Length: 5000"))
        equal(read_reply(sock)[0], 413)
        sock = coordinator.raw()
        sock.sendall(post_raw(b"1000\r\n" + b" " * 4096 + b"\r\n1000\r\n" + b" " * 4096 + b"\r\n0\r\n\r\n", "Transfer-Encoding: chunked"))
        equal(read_reply(sock)[0], 413)
        equal(coordinator.post("/events", b" " * 4080 + b'{"batches":[]}', headers=JSON).status, 200)  # 4094 bytes fit
        for odd in ("Transfer-Encoding: gzip", "Content-Length: -5", "Content-Length: 99999999999999999999", "Transfer-Encoding: chunked\r\nContent-Length: 3"):
            sock = coordinator.raw()
            sock.sendall(post_raw(b"zz\r\n", odd))
            sock.shutdown(socket.SHUT_WR)
            sock.settimeout(PATIENCE)
            try:
                data = sock.recv(1000)
                true(data == b"" or int(data.split()[1]) >= 400, "%s: %r" % (odd, data))
            except ConnectionResetError:
                pass
        # a range is none of an API's business
        equal(coordinator.get("/healthz", headers={"Range": "bytes=0-1"}).status, 200)
        equal(coordinator.get("/healthz").status, 200)


@test
def header_block(folder):
    with Coordinator(folder=folder) as coordinator:
        sock = coordinator.raw()
        try:
            sock.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n" + b"".join(b"X-%d: %s\r\n" % (i, b"y" * 1000) for i in range(300)))
            true(is_closed(sock), "300 KB of headers were taken")
        except OSError:
            pass
        equal(coordinator.get("/healthz", headers={"X": "y" * 30000}).status, 200)
        equal(coordinator.get("/healthz").status, 200)


@test
def many_connections(folder):
    """10,000 attempts: the first --max-connections live, the rest are closed, nobody waits, memory is bounded."""
    with Coordinator("--max-connections", "300", folder=folder) as coordinator:
        equal(coordinator.get("/healthz").status, 200)
        before = coordinator.rss_kib()
        held, alive = [], 0
        begin = time.monotonic()
        for _ in range(50):
            group = []
            for _ in range(200):
                sock = socket.socket()
                sock.setblocking(False)
                try:
                    sock.connect(("127.0.0.1", int(coordinator.port)))
                except BlockingIOError:
                    pass
                group.append(sock)
            select.select([], group, [], PATIENCE)
            time.sleep(0.01)
            for sock in group:
                sock.setblocking(True)
                if len(held) < 400:
                    held.append(sock)
                else:
                    sock.close()
        true(time.monotonic() - begin < PATIENCE)
        for sock in held:
            try:
                sock.settimeout(PATIENCE)
                sock.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
                alive += sock.recv(100).startswith(b"HTTP/1.1 200")
            except OSError:
                pass
        true(200 <= alive < 300, "%d alive" % alive)
        text = coordinator.get("/metrics").body.decode()
        values = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
        true(float(values["lmtrace_coordinator_connections"]) <= 300, text)
        true(float(values["lmtrace_coordinator_connections_refused_total"]) >= 9000, text)
        true(os.environ.get("LMT_SANITIZED") or coordinator.rss_kib() - before < 40000, "%d KiB more" % (coordinator.rss_kib() - before))
        for sock in held:
            sock.close()
        equal(coordinator.get("/healthz").status, 200)
        equal(coordinator.stop(), 0)


@test
def no_room_for_a_connection(folder):
    """accept() that finds no room is tried again after a pause, not at once; whoever waits is answered in the end."""
    preload = os.environ.get("LMT_NO_ROOM")
    if not preload:
        return  # a sanitizer's runtime wants to be loaded first
    log = os.path.join(folder, "log")
    with Coordinator(folder=folder, LD_PRELOAD=preload, NO_ROOM_TIMES="8", NO_ROOM_LOG=log) as coordinator:
        equal(coordinator.get("/healthz").status, 200)
        equal(coordinator.stop(), 0)
    with open(log, encoding="ascii") as f:
        times = [int(line) for line in f]
    equal(len(times), 8)
    true(all(later - earlier >= 90 for earlier, later in zip(times, times[1:])), repr(times))


# -------- bodies --------

@test
def files_are_no_devices(folder):
    pipe = os.path.join(folder, "pipe")
    os.mkfifo(pipe)
    for flag in ("--checkpoint-path", "--metadata-path"):
        refused(lmtrace("coordinator", "--port", "0", "--exit-after-idle", "0.2", flag, pipe))


@test
def connections_that_end_are_given_back(folder):
    """Closed by the client between requests, before the first, or by the clock: none stays counted."""
    def count(coordinator):
        return int(re.search(r"^lmtrace_coordinator_connections ([0-9]+)", coordinator.get("/metrics").body.decode(), re.M)[1])
    with Coordinator("--max-connections", "20", "--timeout-keep-alive", "1s", folder=folder) as coordinator:
        for turn in range(60):
            sock = coordinator.raw()
            if turn % 3:
                sock.sendall(b"DELETE /instances/x HTTP/1.1\r\nHost: x\r\n\r\n" if turn % 2 else b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
                true(sock.recv(100).startswith(b"HTTP/1.1 20"), turn)
            sock.close()
            if turn % 10 == 9:
                time.sleep(0.1)
        idle = [coordinator.raw() for _ in range(10)]
        until = time.monotonic() + PATIENCE
        while count(coordinator) > 2:
            true(time.monotonic() < until, "%d connections are still counted" % count(coordinator))
            time.sleep(0.2)
        for sock in idle:
            sock.close()
        equal(coordinator.stop(), 0)


def mutate(rng, text):
    data = bytearray(text)
    for _ in range(rng.randint(1, 6)):
        where = rng.randrange(len(data) + 1)
        what = rng.randrange(6)
        if what == 0 and data:
            del data[where:where + rng.randint(1, 20)]
        elif what == 1:
            data[where:where] = bytes(rng.randrange(256) for _ in range(rng.randint(1, 4)))
        elif what == 2:
            data[where:where] = rng.choice([b"[", b"{", b'"', b"]", b"}", b",", b":", b"null", b"NaN", b"-1", b"1e999", b"\\ud800", b"9" * 30])
        elif what == 3 and where < len(data):
            data[where] = rng.randrange(256)
        elif what == 4:
            other = rng.randrange(len(data) + 1)
            data[where:where] = data[other:other + rng.randint(1, 60)]
        else:
            data[where:] = data[where:][::-1] if rng.random() < 0.1 else data[where:]
    return bytes(data)


PATHS = [("POST", "/events", {"batches": [batch(ts=1.5, shared=False), batch(seq=2, tier="l2", backend="fs", capacity_bytes=0)]}),
         ("POST", "/instances", {"instance_id": "a", "ip": "127.0.0.1", "http_port": 1, "metadata": {"k": "v"}, "mq_port": 0, "chunk_size": None}),
         ("POST", "/directory/lookup", {"keys": [key()]}), ("POST", "/directory/lookup", {"token_ids": list(range(40)), "model_name": "m", "world_size": 2}),
         ("POST", "/directory/blend-lookup", {"tokens_b64": "AQAAAAEAAAA=", "model_name": "m"}), ("PUT", "/quota/x", {"limit_gb": 1, "tier": "l2"}),
         ("PUT", "/quota/config", {"default_limit_gb": 1.5}), ("POST", "/cache/pins", {"model_name": "m", "world_size": 1, "token_ids": list(range(40))}),
         ("POST", "/cache/delete", {"instance_id": "zz", "model_name": "m", "world_size": 1, "token_ids": [1], "force": True, "tier": "all"}),
         ("POST", "/cache/prefetches", {"instance_id": "zz", "model_name": "m", "world_size": 1, "token_ids": [1]}),
         ("PUT", "/config/chunk-size", {"chunk_size": 16})]


@test
def fuzzed_bodies(folder):
    rng = random.Random(20260729)
    statuses = {}
    with Coordinator("--chunk-size", "16", "--enable-blend-lookup", "--max-keys", "1000", "--max-instances", "50", folder=folder) as coordinator:
        for n in range(3000):
            method, path, body = PATHS[n % len(PATHS)]
            text = json.dumps(body).encode()
            reply = coordinator.ask(method, path, mutate(rng, text) if n >= len(PATHS) else text, JSON)
            true(reply.status in (200, 400, 404, 409, 413, 422, 507), repr(reply))
            reply.body.decode("utf-8")
            true(isinstance(reply.json, dict))
            statuses[reply.status] = statuses.get(reply.status, 0) + 1
        equal(coordinator.get("/directory/keys").status, 200)
        equal(coordinator.get("/instances/usage").status, 200)
        equal(coordinator.get("/lmtrace/dump").status, 200)
        true(statuses.get(200, 0) > 50 and statuses.get(422, 0) > 500 and statuses.get(400, 0) > 100, repr(statuses))
        equal(coordinator.stop(), 0)


@test
def fuzzed_requests(folder):
    """Anything as request line and headers."""
    rng = random.Random(7)
    good = b"PUT /instances/%41b/heartbeat?x=%zz HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
    # whole stacks, so that libsoup's own leaks can be told from ours
    with Coordinator("--request-timeout", "2", "--timeout-keep-alive", "2", folder=folder, sanitizer="fast_unwind_on_malloc=0") as coordinator:
        for _ in range(400):
            sock = coordinator.raw()
            sock.sendall(mutate(rng, good))
            try:
                sock.shutdown(socket.SHUT_WR)
                sock.settimeout(PATIENCE)
                sock.recv(2000)
            except OSError:
                pass
            sock.close()
        equal(coordinator.get("/healthz").status, 200)
        equal(coordinator.stop(), 0)


@test
def odd_ids(folder):
    with Coordinator(folder=folder) as coordinator:
        quoted = {"a?b": "a%3Fb", "a%b": "a%25b", "a b": "a%20b", "a\u0001b": "a%01b", "\u00e9\u4e16": "%C3%A9%E4%B8%96", "a#b": "a%23b",
                  "a\u0000b": "a%00b", "a'\"b": "a%27%22b", "a\\b": "a%5Cb", "..x": "..x", "a+b": "a+b", "%41": "%2541", "\u001b[31m": "%1B%5B31m"}
        for name, path in quoted.items():
            equal(coordinator.post("/instances", {"instance_id": name, "ip": "h", "http_port": 1}).json["instance_id"], name)
            equal(coordinator.post("/events", {"batches": [batch(instance=name)]}).json["applied"], 1)
            equal(coordinator.ask("PUT", "/instances/%s/heartbeat" % path).json, {"instance_id": name})
            reply = coordinator.get("/instances/%s/usage" % path)
            equal((reply.json["instance_id"], reply.json["registered"]), (name, True))
            equal(coordinator.get("/directory/keys?instance_id=" + path.replace("+", "%2B")).json["total"], 1, name)
        true({i["instance_id"] for i in coordinator.get("/instances").json["instances"]} == set(quoted))
        for name, path in quoted.items():
            equal(coordinator.ask("DELETE", "/instances/" + path).status, 204)
            equal(coordinator.ask("PUT", "/instances/%s/heartbeat" % path).status, 404)
        equal(coordinator.get("/directory/stats").json["num_keys"], 0)
        # an id with a slash fits into no path, half a surrogate pair is no text (D21)
        equal(coordinator.post("/instances", {"instance_id": "a/b", "ip": "h", "http_port": 1}).status, 200)
        for path in ("a%2Fb", "a/b"):
            equal(coordinator.ask("PUT", "/instances/%s/heartbeat" % path).json, {"detail": "Not Found"})
            equal(coordinator.ask("DELETE", "/instances/" + path).status, 404)
        for body in ({"batches": [batch(instance="\udc00")]}, {"batches": [batch(entries=[{"key": key(model="\ud800x")}])]},
                     {"batches": [batch(entries=[{"key": key(salt="\ud83d")}])]}):
            reply = coordinator.post("/events", body)
            equal((reply.status, reply.json["detail"][0]["type"]), (422, "string_unicode"), repr(reply))
        equal(coordinator.post("/instances", {"instance_id": "\ud800", "ip": "h", "http_port": 1}).status, 422)
        equal(coordinator.post("/events", {"batches": [batch(instance="\U0001f600")]}).json["applied"], 1)
        true("\u001b" not in coordinator.errors)


@test
def tables_full(folder):
    with Coordinator("--max-keys", "10", "--max-instances", "3", folder=folder) as coordinator:
        entries = [{"key": key("%04x" % i), "size_bytes": 1} for i in range(10)]
        equal(coordinator.post("/events", {"batches": [batch(entries=entries)]}).status, 200)
        more = [batch(seq=2, kind="access", entries=entries[:2]), batch(seq=3, entries=[{"key": key("ffff")}]), batch(seq=4, kind="delete", entries=entries)]
        reply = coordinator.post("/events", {"batches": more})
        equal((reply.status, reply.json["applied"]), (507, 1), repr(reply))
        equal(coordinator.get("/directory/stats").json["num_keys"], 10)
        equal(coordinator.post("/events", {"batches": [batch(seq=3, kind="delete", entries=entries[:5])]}).status, 200)
        equal(coordinator.post("/events", {"batches": [batch(seq=4, entries=[{"key": key("ffff")}])]}).status, 200)
        for n in range(3):
            equal(coordinator.post("/instances", {"instance_id": "n%d" % n, "ip": "h", "http_port": 1}).status, 200)
        equal(coordinator.post("/instances", {"instance_id": "n3", "ip": "h", "http_port": 1}).status, 507)
        equal(coordinator.post("/instances", {"instance_id": "n1", "ip": "h", "http_port": 2}).json["re_registered"], True)
        equal([coordinator.post("/events", {"batches": [batch(instance="e%d" % n, kind="access", entries=[])]}).status for n in range(4)],
              [200, 200, 507, 507])
        equal(coordinator.post("/events", {"batches": [batch(seq=5, kind="access", entries=[])]}).status, 200)
        equal(coordinator.stop(), 0)


# -------- signals and files --------

def entry(n):
    return {"key": key("%08x" % n, salt="s%d" % (n % 3)), "size_bytes": n + 1, "token_ids": list(range(16)), "token_offset": 0}


def fill(coordinator, first, last):
    for seq in range(first, last):
        body = [batch(seq=seq, tier="l1" if seq % 2 else "l2", entries=[entry(seq), entry(seq + 1)], ts=float(seq)),
                batch(instance="i2", seq=seq, kind="access", entries=[entry(seq)], ts=float(seq))]
        equal(coordinator.post("/events", {"batches": body}).json["applied"], 2)


def dump(coordinator):
    return coordinator.get("/lmtrace/dump").json


@test
def checkpoint_at_the_end(folder):
    path = os.path.join(folder, "views.ckpt")
    args = ("--checkpoint-path", path, "--checkpoint-interval", "0", "--chunk-size", "16")
    with Coordinator(*args, folder=folder) as coordinator:
        fill(coordinator, 1, 40)
        before = dump(coordinator)
        true(not os.path.exists(path))
        equal(coordinator.stop(signal.SIGTERM), 0)
        contains(coordinator.out, "Batches applied:")
    true(os.path.getsize(path) > 100)
    equal([n for n in os.listdir(folder) if "tmp" in n], [])
    with Coordinator(*args, folder=folder) as coordinator:
        equal(dump(coordinator), before)
        equal(coordinator.post("/events", {"batches": [batch(seq=39)]}).json["duplicates"], 1)
        fill(coordinator, 40, 45)
        equal(coordinator.stop(signal.SIGINT), 0)


@test
def kill_and_restart(folder):
    """After SIGKILL the last checkpoint counts, and a client that asks how far it got can go on."""
    path = os.path.join(folder, "views.ckpt")
    args = ("--checkpoint-path", path, "--checkpoint-interval", "0", "--chunk-size", "16")
    with Coordinator(*args, folder=folder) as coordinator:
        fill(coordinator, 1, 30)
        reply = coordinator.post("/lmtrace/checkpoint", b"")
        equal((reply.status, reply.json["path"]), (200, path))
        fill(coordinator, 30, 50)
        whole = dump(coordinator)
        coordinator.stop(signal.SIGKILL)
    with Coordinator(*args, folder=folder) as coordinator:
        streams = {s["instance_id"]: s for s in coordinator.get("/lmtrace/streams").json["streams"]}
        equal({n: s["last_seq"] for n, s in streams.items()}, {"i1": 29, "i2": 29})
        fill(coordinator, streams["i1"]["last_seq"] + 1, 50)
        equal(dump(coordinator), whole)


def metric(coordinator, name):
    lines = [line for line in coordinator.get("/metrics").body.decode().splitlines() if line.startswith(name + " ")]
    equal(len(lines), 1)
    return float(lines[0].split()[1])


def wait_for(what, condition):
    until = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < until, what
        time.sleep(0.02)


def has_child(pid):
    for name in os.listdir("/proc"):
        try:
            with open("/proc/%s/stat" % name, encoding="latin-1") as f:
                if name.isdigit() and f.read().rpartition(")")[2].split()[1] == str(pid):
                    return True
        except OSError:
            pass
    return False


@test
def checkpoints_asked_for(folder):
    """They are written by a process of their own: nobody else waits, and each is as new as its request."""
    path = os.path.join(folder, "views.ckpt")
    with Coordinator("--checkpoint-path", path, "--checkpoint-interval", "0", folder=folder) as coordinator:
        os.mkfifo(path + ".tmp")  # holds the process until somebody reads
        ask = b"POST /lmtrace/checkpoint HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"
        first, gone, second, third = (coordinator.raw() for _ in range(4))
        first.sendall(ask)
        gone.sendall(ask)
        wait_for("no process", lambda: has_child(coordinator.pid))
        equal(coordinator.post("/events", {"batches": [batch()]}).json["applied"], 1)
        for sock in (second, third):
            sock.sendall(ask)
        gone.close()
        equal(coordinator.get("/healthz").status, 200)
        first.settimeout(0.2)
        true(not is_closed(first, 0.2))
        with open(path + ".tmp", "rb") as f:
            f.read()
        for sock, status in ((first, 500), (second, 200), (third, 200)):  # what can't be synced is no checkpoint
            sock.settimeout(PATIENCE)
            equal(read_reply(sock)[0], status)
        with open(path, "rb") as f:
            true(b"i1" in f.read(), "the batch that came before the second request")
        # An end that is asked for meanwhile waits for it, as for any request.
        os.mkfifo(path + ".tmp")
        first.sendall(ask)
        wait_for("no process", lambda: has_child(coordinator.pid))
        coordinator.process.send_signal(signal.SIGTERM)
        time.sleep(0.3)
        with open(path + ".tmp", "rb") as f:
            f.read()
        equal(read_reply(first)[0], 500)
        equal(coordinator.stop(), 0)
        true(os.path.isfile(path))


@test
def bodies_without_an_end(folder):
    """Of an unknown transfer encoding, or of a length that is no number. libsoup keeps the path of such a request for ever: they end at our door, unanswered, however they are written."""
    get = b"GET /healthz HTTP/1.1\r\nHost: x\r\n"
    with Coordinator(folder=folder) as coordinator:
        for odd in (b"Transfer-Encoding: gzip", b"transfer-ENCODING:identity", b"Transfer-Encoding : gzip", b"Trans\0fer-Encoding: gz\0ip",
                    b"Transfer-Encoding:", b"Transfer-Encoding:\r\n gzip", b"Transfer-Encoding: chunked\r\n , gzip",
                    b"Transfer-Encoding: chun ked", b"Transfer-Encoding: chunked, gzip", b"Transfer-Encoding: " + b"x" * 2000,
                    b"Content-Length: 2x", b"content-length :\t", b"Content-Length: 0, 0", b"Content-Length: 0\r\n\t1", b"Content-Length: 0x10"):
            for before in (b"", get + b"\r\n"):
                sock = coordinator.raw()
                sock.sendall(before + get + odd + b"\r\n\r\n")
                sock.settimeout(PATIENCE)
                data = b""
                try:
                    piece = sock.recv(4096)
                    while piece:
                        data += piece
                        piece = sock.recv(4096)
                except ConnectionResetError:
                    pass
                true(b" 501 " not in data and b" 400 " not in data and data.count(b"HTTP/1.1 200") <= (before != b""), repr((odd, data)))
        for fine in (b"Transfer-Encoding: chunked", b"transfer-encoding:\tCHUNKED \t", b"Transfer-Encoding : chunked"):
            sock = coordinator.raw()
            sock.sendall(b"POST /events HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n" + fine
                         + b"\r\n\r\n8\r\n{\n\ntrans\r\n0\r\n\r\n" + get + b"\r\n")
            sock.settimeout(PATIENCE)
            equal(read_reply(sock)[0], 422)
        body = b'{"batches":[],\n"transfer-encoding":1,\n"content-length":"x"}'
        equal(coordinator.post("/events", body, headers=JSON).status, 200)
        equal(coordinator.stop(), 0)


@test
def dump_of_a_large_directory(folder):
    """By a process of its own, as it was when it was asked for; who leaves ends it."""
    with Coordinator(folder=folder) as coordinator:
        for seq in (1, 2):
            entries = [{"key": key("%08x" % (seq << 20 | n)), "size_bytes": n} for n in range(6000)]
            equal(coordinator.post("/events", {"batches": [batch(seq=seq, entries=entries)]}).json["applied"], 1)
        ask = b"GET /lmtrace/dump HTTP/1.1\r\nHost: x\r\n\r\n"
        first, gone = coordinator.raw(), coordinator.raw()
        gone.sendall(ask)
        gone.close()
        first.sendall(ask)
        equal(coordinator.get("/healthz").status, 200)
        status, body = read_reply(first)
        equal((status, body.count(b'"access_count"')), (200, 12000), repr(body[:400]))
        equal(coordinator.get("/lmtrace/dump").body, body)
        wait_for("a process is left", lambda: not has_child(coordinator.pid))
        equal(coordinator.stop(), 0)


@test
def checkpoints_between(folder):
    """Written by a process of its own every now and then; what goes wrong there is told here, and the next one is tried."""
    path = os.path.join(folder, "views.ckpt")
    os.mkdir(path + ".tmp")  # where the file should be written first
    with Coordinator("--checkpoint-path", path, "--checkpoint-interval", "0.05", folder=folder) as coordinator:
        fill(coordinator, 1, 20)
        wait_for("no failure is counted", lambda: metric(coordinator, "lmtrace_coordinator_checkpoint_failures_total") >= 1)
        os.rmdir(path + ".tmp")
        wait_for("no checkpoint", lambda: os.path.isfile(path))
        done = metric(coordinator, "lmtrace_coordinator_checkpoints_total")
        fill(coordinator, 20, 30)
        wait_for("no later checkpoint", lambda: metric(coordinator, "lmtrace_coordinator_checkpoints_total") >= done + 2)
        whole = dump(coordinator)
        coordinator.stop(signal.SIGKILL)
    with Coordinator("--checkpoint-path", path, "--checkpoint-interval", "0", folder=folder) as coordinator:
        equal(dump(coordinator), whole)


@test
def departed_streams_are_kept(folder):
    path = os.path.join(folder, "views.ckpt")
    args = ("--checkpoint-path", path, "--checkpoint-interval", "0")
    with Coordinator(*args, folder=folder) as coordinator:
        fill(coordinator, 1, 5)
        equal(coordinator.ask("DELETE", "/instances/i2").status, 204)
        streams = coordinator.get("/lmtrace/streams").json["streams"]
        equal([(s["instance_id"], s["incarnation"], s["last_seq"], s["departed"]) for s in streams], [("i1", 1, 4, False), ("i2", 1, 4, True)])
        equal(coordinator.stop(), 0)
    with Coordinator(*args, folder=folder) as coordinator:
        again = coordinator.get("/lmtrace/streams").json["streams"]
        equal([(s["instance_id"], s["incarnation"], s["last_seq"], s["departed"]) for s in again], [("i1", 1, 4, False), ("i2", 1, 4, True)])
        equal(coordinator.post("/events", {"batches": [batch(instance="i2", seq=9)]}).json["stale"], 1)


@test
def damaged_files_start_cold(folder):
    """And are kept: a later release wrote them, or they are somebody's trace."""
    path, meta = os.path.join(folder, "views.ckpt"), os.path.join(folder, "meta.json")
    with Coordinator("--checkpoint-path", path, folder=folder) as coordinator:
        fill(coordinator, 1, 20)
        equal(coordinator.stop(), 0)
    with open(path, "rb") as f:
        good = f.read()
    for text in (b"", b"x", good[:len(good) // 2], good[:12], b"LMCKPT\0\0\x09\0\0\0\x80", good[:20] + b"\xff" * 30 + good[50:]):
        with open(path, "wb") as f:
            f.write(text)
        with open(meta, "wb") as f:
            f.write(text)
        with Coordinator("--checkpoint-path", path, "--metadata-path", meta, "--checkpoint-interval", "0", folder=folder) as coordinator:
            equal(coordinator.get("/directory/keys").status, 200)
            equal(coordinator.ask("PUT", "/quota/a", {"limit_gb": 1}).status, 200)
            equal(coordinator.stop(), 0)
        for name in (path, meta):
            equal(os.path.exists(name + ".unread"), text != b"", name)
            if text:
                with open(name + ".unread", "rb") as f:
                    equal(f.read(), text)
                os.unlink(name + ".unread")
        with Coordinator("--checkpoint-path", path, "--metadata-path", meta, folder=folder) as coordinator:
            equal(coordinator.stop(), 0)
        true(not os.path.exists(path + ".unread") and not os.path.exists(meta + ".unread"))


@test
def metadata(folder):
    meta = os.path.join(folder, "meta.json")
    args = ("--metadata-path", meta, "--chunk-size", "16")
    with Coordinator(*args, folder=folder) as coordinator:
        equal(coordinator.ask("PUT", "/quota/t", {"limit_gb": 2.5}).status, 200)
        equal(coordinator.ask("PUT", "/quota/_default", {"limit_gb": 1}).status, 200)
        equal(coordinator.post("/cache/pins", {"model_name": "m", "world_size": 2, "token_ids": list(range(32))}).json["affected"], 4)
        pins = coordinator.get("/cache/pins").json
        coordinator.stop(signal.SIGKILL)
    with open(meta, encoding="utf-8") as f:
        saved = json.load(f)
    equal((saved["version"], sorted(saved["components"])), (1, ["pins", "quotas"]))
    with Coordinator(*args, folder=folder) as coordinator:
        equal(coordinator.get("/quota/t").json["quota_limit_gb"], 2.5)
        equal([r["cache_salt"] for r in coordinator.get("/quota").json["by_cache_salt"]], ["", "t"])
        equal(coordinator.get("/cache/pins").json, pins)


@test
def requests_are_finished(folder):
    """A signal in the middle of a request: it is answered, then the end."""
    with Coordinator(folder=folder) as coordinator:
        body = json.dumps({"batches": [batch()]}).encode()
        sock = coordinator.raw()
        sock.sendall(post_raw(body[:20], "Content-Length: %d" % len(body)))
        while coordinator.get("/metrics").body.find(b"lmtrace_coordinator_connections 2.0") < 0:
            pass
        time.sleep(0.2)
        coordinator.process.send_signal(signal.SIGTERM)
        time.sleep(0.5)
        true(coordinator.process.poll() is None)
        sock.sendall(body[20:])
        equal(json.loads(read_reply(sock)[1])["applied"], 1)
        equal(coordinator.stop(), 0)


@test
def end_after_idle(folder):
    with Coordinator("--exit-after-idle", "1", folder=folder) as coordinator:
        for _ in range(4):
            time.sleep(0.4)
            equal(coordinator.get("/healthz").status, 200)
        equal(coordinator.process.wait(PATIENCE), 0)


@test
def command_line(folder):
    for args in (("--port", "70000"), ("--nope",), ("word",), ("--eviction-ratio", "2"), ("--chunk-size", "0"), ("--compat", "0.4"),
                 ("--instance-timeout", "0"), ("--checkpoint-path", os.path.join(folder, "no", "folder")), ("--ready-fd", "77"),
                 ("--host", "no such host name"), ("--hash-algorithm", "sha256")):
        run = lmtrace("coordinator", *(("--port", "0") if "--port" not in args else ()), *args)
        equal((run.code, run.out), (2, b""), repr(args) + repr(run))
    with Coordinator("--otlp-endpoint", "http://x", "--extra-config", "{}", "--log-level", "message", folder=folder) as coordinator:
        equal(coordinator.get("/healthz").status, 200)
        equal(coordinator.errors.count("has no effect here"), 2)
    with Coordinator(folder=folder) as coordinator:
        run = lmtrace("coordinator", "--port", coordinator.port)
        refused(run)
        contains(run.errors, "127.0.0.1:" + coordinator.port)
    with Coordinator("--format", "json", folder=folder) as coordinator:
        fill(coordinator, 1, 3)
        equal(coordinator.stop(), 0)
        report = json.loads(coordinator.out)
        equal((report["schema"], report["exit"], report["metrics"]["applied"]), ("lmtrace/coordinator/1", 0, 4))


# -------- health check and servers --------

@test
def silent_servers_go(folder):
    for compat, declared in (("lmcache-0.5.6", True), ("lmcache-0.5.7", False)):
        with Coordinator("--compat", compat, "--instance-timeout", "1", "--health-check-interval", "0.1", folder=folder) as coordinator:
            for name in ("quiet", "alive"):
                equal(coordinator.post("/instances", {"instance_id": name, "ip": "h", "http_port": 1}).status, 200)
                equal(coordinator.post("/events", {"batches": [batch(instance=name), batch(instance=name, seq=2, kind="config", entries=[], capacity_bytes=5,
                                                                                           capacity_revision=1)]}).json["applied"], 2)
            begin = time.monotonic()
            while len(coordinator.get("/instances").json["instances"]) == 2 and time.monotonic() - begin < PATIENCE:
                equal(coordinator.ask("PUT", "/instances/alive/heartbeat").status, 200)
                time.sleep(0.05)
            equal([i["instance_id"] for i in coordinator.get("/instances").json["instances"]], ["alive"])
            stats = coordinator.get("/directory/stats").json
            equal(stats["l1_keys_by_instance"], {"alive": 1})
            # 0.5.6 keeps what a silent server declared, for ever (D10)
            equal(coordinator.get("/instances/quiet/usage").status, 200 if declared else 404)
            equal(coordinator.post("/events", {"batches": [batch(instance="quiet", seq=3)]}).json, {"applied": int(declared), "duplicates": 0,
                                                                                                  "stale": int(not declared)})


class Server(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    seen = []
    replies = {}

    def answer(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        Server.seen.append((self.command, self.path, json.loads(body) if body else None))
        status, text = Server.replies.get((self.command, self.path), (404, b'{"detail":"no"}'))
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_GET = do_POST = do_DELETE = answer

    def log_message(self, *args):
        pass


class QuietServer(http.server.ThreadingHTTPServer):
    def handle_error(self, request, client_address):
        pass  # the coordinator hangs up on a reply that is too large


def a_server():
    server = QuietServer(("127.0.0.1", 0), Server)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    Server.seen.clear()
    Server.replies.clear()
    return server


@test
def prefetch_and_delete(folder):
    server = a_server()
    tokens = {"model_name": "m", "world_size": 2, "token_ids": list(range(33)), "cache_salt": "t"}
    with Coordinator("--chunk-size", "16", folder=folder) as coordinator:
        register = {"instance_id": "s 1", "ip": "127.0.0.1", "http_port": server.server_port}
        equal(coordinator.post("/instances", register).status, 200)
        Server.replies["POST", "/cache/prefetches"] = (200, b'{"request_id":"r/1","chunks":2,"status":"submitted"}')
        reply = coordinator.post("/cache/prefetches", dict(tokens, instance_id="s 1"))
        equal((reply.status, reply.json), (200, {"instance_id": "s 1", "request_id": "r/1", "chunks": 2, "status": "submitted"}))
        equal(Server.seen, [("POST", "/cache/prefetches", tokens)])
        for status, text, expected in ((200, b'{"chunks":0,"status":"noop"}', (200, "noop")), (500, b"{}", (502, None)), (200, b"[1]", (502, None)),
                                       (200, b"nope", (502, None)), (302, b"{}", (502, None)), (200, b"", (502, None)), (200, b'{"x":"' + b"y" * (2 << 20) + b'"}', (502, None))):
            Server.replies["POST", "/cache/prefetches"] = (status, text)
            reply = coordinator.post("/cache/prefetches", dict(tokens, instance_id="s 1"))
            equal((reply.status, reply.json.get("status")), expected, repr(reply))
        Server.replies["GET", "/cache/prefetches/r%3F1"] = (200, b'{"status": "pending", "done": 1}')
        equal(coordinator.get("/cache/prefetches/s%201/r%3F1").json, {"status": "pending", "done": 1})
        Server.replies["GET", "/cache/prefetches/x"] = (404, b"not here")
        reply = coordinator.get("/cache/prefetches/s%201/x")
        equal((reply.status, reply.json), (404, {"detail": "not here"}))
        Server.replies["GET", "/cache/prefetches/x"] = (404, b"")
        reply = coordinator.get("/cache/prefetches/s%201/x")
        equal((reply.status, reply.json), (404, {"detail": ""}))

        # deletion: pinned chunks are kept back, unless it is forced; further object groups go along
        chunk = [r["key"] for r in coordinator.post("/directory/lookup", tokens).json["results"]]
        equal(len(chunk), 4)
        grouped = dict(chunk[2], object_group_id=3)
        equal(coordinator.post("/events", {"batches": [batch(tier="l2", backend="fs", entries=[{"key": k, "size_bytes": 1} for k in [chunk[0], grouped]])]})
              .json["applied"], 1)
        pin = dict(tokens, token_ids=list(range(16)))
        equal(coordinator.post("/cache/pins", pin).json, {"requested": 1, "affected": 2, "status": "pinned"})
        Server.seen.clear()
        Server.replies["DELETE", "/cache/objects"] = (200, b'{"deleted":3,"skipped":1}')
        reply = coordinator.post("/cache/delete", dict(tokens, instance_id="s 1"))
        equal(reply.json, {"instance_id": "s 1", "requested": 2, "affected": 3, "skipped": 3, "status": "deleted"})
        equal(Server.seen, [("DELETE", "/cache/objects", {"keys": [chunk[2], grouped, chunk[3]], "tier": "all", "force": False})])
        Server.seen.clear()
        reply = coordinator.post("/cache/delete", dict(tokens, instance_id="s 1", tier="l1"))
        equal(len(Server.seen[0][2]["keys"]), 5)
        equal(coordinator.get("/cache/pins").json["total"], 2)
        reply = coordinator.post("/cache/delete", dict(tokens, instance_id="s 1", force=True))
        equal(coordinator.get("/cache/pins").json["total"], 0)
        Server.replies.clear()
        equal(coordinator.post("/cache/delete", dict(tokens, instance_id="s 1")).status, 502)
        equal(coordinator.stop(), 0)
    server.shutdown()


@test
def server_that_hangs(folder):
    """The asker leaves, or the end comes, while a server doesn't answer."""
    hole = socket.socket()
    hole.bind(("127.0.0.1", 0))
    hole.listen(5)
    with Coordinator(folder=folder) as coordinator:
        equal(coordinator.post("/instances", {"instance_id": "s", "ip": "127.0.0.1", "http_port": hole.getsockname()[1]}).status, 200)
        body = json.dumps({"instance_id": "s", "model_name": "m", "world_size": 1, "token_ids": [1]}).encode()
        ask = b"POST /cache/prefetches HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body
        # An address with bytes no address has is called nowhere, least of all at what stands before a NUL.
        for ip in ("127.0.0.1\0.example", "127.0.0.1\x7f", "127.0.0.1\x1b[m", "127.0.0.1/x"):
            equal(coordinator.post("/instances", {"instance_id": "odd", "ip": ip, "http_port": hole.getsockname()[1]}).status, 200)
            equal(coordinator.get("/instances").json["instances"][-1]["ip"], ip)
            reply = coordinator.post("/cache/prefetches", {"instance_id": "odd", "model_name": "m", "world_size": 1, "token_ids": [1]})
            equal(reply.status, 502)
            contains(reply.json["detail"], "makes no URL")
        socks = [coordinator.raw() for _ in range(4)]
        for sock in socks:
            sock.sendall(ask)
        time.sleep(0.3)
        for sock in socks[:3]:
            sock.close()
        equal(coordinator.get("/healthz").status, 200)
        coordinator.process.send_signal(signal.SIGTERM)
        time.sleep(0.3)
        equal(coordinator.stop(signal.SIGTERM), 0)
    hole.close()


@test
def eviction(folder):
    server = a_server()
    Server.replies["DELETE", "/cache/objects"] = (200, b"{}")
    with Coordinator("--eviction-check-interval", "0.1", "--eviction-ratio", "0.5", folder=folder) as coordinator:
        equal(coordinator.post("/instances", {"instance_id": "s", "ip": "127.0.0.1", "http_port": server.server_port}).status, 200)
        keys = [key("%02x" % i, salt="t") for i in range(8)]
        entries = [{"key": k, "size_bytes": 1 << 20} for k in keys]
        equal(coordinator.post("/events", {"batches": [batch(instance="s", tier="l2", backend="fs", entries=entries),
                                                       batch(instance="s", seq=2, tier="l2", backend="fs", kind="access", entries=entries[:1])]}).json["applied"], 2)
        time.sleep(0.5)
        equal(Server.seen, [])  # no quota, no limit
        equal(coordinator.ask("PUT", "/quota/t", {"limit_gb": 4 / 1024}).status, 200)
        begin = time.monotonic()
        while not Server.seen and time.monotonic() - begin < PATIENCE:
            time.sleep(0.02)
        # the four that were used least recently: 00 was read, so it is the youngest
        equal(Server.seen[0], ("DELETE", "/cache/objects", {"keys": keys[1:5]}))
        gone = batch(instance="s", seq=3, tier="l2", backend="fs", kind="delete", entries=[{"key": k} for k in keys[1:6]])
        equal(coordinator.post("/events", {"batches": [gone]}).json["applied"], 1)
        time.sleep(0.3)
        Server.seen.clear()
        time.sleep(0.4)
        equal(Server.seen, [])  # below it now
        equal(coordinator.stop(), 0)
    server.shutdown()


@test
def pages_of_a_large_directory(folder):
    """Listings go in slices: ingest is answered in between, pages are complete."""
    with Coordinator(folder=folder) as coordinator:
        total = 0
        for seq in range(1, 9):
            entries = [{"key": key("%08x" % (seq << 16 | i))} for i in range(10000)]
            equal(coordinator.post("/events", {"batches": [batch(seq=seq, tier="l2" if seq == 8 else "l1", entries=entries)]}).json["applied"], 1)
            total += len(entries)
        seen = []
        for offset in range(0, total, 10000):
            page = coordinator.get("/directory/keys?limit=10000&offset=%d" % offset).json
            equal((page["total"], len(page["keys"])), (total, 10000))
            seen += [k["key"]["chunk_hash_hex"] for k in page["keys"]]
        equal(len(set(seen)), total)
        equal(seen, sorted(seen))
        page = coordinator.get("/directory/keys?tier=l2&limit=3&offset=9998").json
        equal((page["total"], len(page["keys"])), (10000, 2))
        # somebody who asks and leaves, many times
        for _ in range(20):
            sock = coordinator.raw()
            sock.sendall(b"GET /directory/keys?tier=l2 HTTP/1.1\r\nHost: x\r\n\r\n")
            sock.close()
        equal(coordinator.get("/directory/stats").json["num_keys"], total)
        equal(coordinator.stop(), 0)


@test
def what_the_readme_shows(folder):
    source = os.environ["LMT_SOURCE_DIR"]
    with open(os.path.join(source, "README.md"), encoding="utf-8") as f:
        section = f.read().partition("## Cache events")[2].partition("\n## ")[0]
    shown = [line[4:] for line in section.split("\n") if line.startswith("    ")]
    traces = [word for line in shown for word in line.split() if word.endswith(".lct")]
    equal(len(traces), 2)
    with Coordinator(folder=folder) as coordinator:
        run = lmtrace("replay-events", *traces, "--coordinator-url", coordinator.url, cwd=source)
        equal(run.code, 0, repr(run))
        for line in run.text.splitlines():
            true(line in shown or line.startswith("Replay duration"), line)
        contains("".join(shown), coordinator.get("/directory/stats").body.decode())
        for line in coordinator.errors.splitlines():
            true(line in shown, line)
        equal(coordinator.stop(), 0)
        true(coordinator.out.split("http")[0] in "\n".join(shown), coordinator.out)


@test
def strict_keeps_views_equal(folder):
    """A fence of a shared L1 pool's reporter (D11): 0.5.7's directory and usage differ, strict's don't."""
    store = batch(instance="a", backend="cxl", shared=True, entries=[{"key": key("01"), "size_bytes": 5}])
    again = batch(instance="a", incarnation=2, kind="access", backend="", entries=[])
    for compat, stats_bytes in (("lmcache-0.5.7", 0), ("strict", 5)):
        with Coordinator("--compat", compat, folder=folder) as coordinator:
            equal(coordinator.post("/events", {"batches": [store, again]}).json["applied"], 2)
            equal(coordinator.get("/directory/stats").json["l1_size_bytes"], stats_bytes, compat)
            equal([m["used_bytes"] for m in coordinator.get("/instances/usage").json["shared_modules"]], [5], compat)
            equal("shared L1 placements left the directory" in coordinator.errors, compat != "strict")


if __name__ == "__main__":
    sys.exit(test.main())
