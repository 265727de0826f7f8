# SPDX-License-Identifier: Apache-2.0
"""What the tests of the coordinator share: a running one, requests to it, golden cases."""
import gzip
import http.client
import json
import os
import select
import signal
import socket
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "cli"))
from lib import DATA, LMTRACE, environment  # noqa: E402

EVENTS = os.path.join(DATA, "events")
PATIENCE = 60  # seconds until something counts as hanging; slow machines and sanitizers need them


class Reply:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    @property
    def json(self):
        return json.loads(self.body.decode("utf-8"))

    def __repr__(self):
        return "%d %r %r" % (self.status, self.headers, self.body[:600])


class Coordinator:
    """`lmtrace coordinator` on a port of its own, or wherever @args say. @sanitizer: further ASAN_OPTIONS. @variables: of its
    environment."""

    def __init__(self, *args, folder=None, ready=True, sanitizer="", **variables):
        port = () if "--unix" in args or "--port" in args else ("--port", "0")
        read, write = os.pipe()
        self.errors_path = os.path.join(folder, "coordinator-%d.log" % write) if folder else os.devnull
        env = environment(**variables)
        if sanitizer:
            env["ASAN_OPTIONS"] = ":".join(filter(None, (env.get("ASAN_OPTIONS"), sanitizer)))
        with open(self.errors_path, "ab") as log:
            self.process = subprocess.Popen([LMTRACE, "coordinator", *port, "--ready-fd", str(write), *args], env=env,
                                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, pass_fds=[write])
        os.close(write)
        self.url = ""
        if ready:
            if select.select([read], [], [], PATIENCE)[0]:
                self.url = os.read(read, 4096).decode().strip()
            if not self.url:
                self.process.kill()
                self.process.wait()
                raise AssertionError("no address: exit %s, %s" % (self.process.returncode, self.errors))
        os.close(read)
        self.host, _, self.port = self.url.rpartition("//")[2].rpartition(":")
        self.connection = None

    @property
    def pid(self):
        return self.process.pid

    @property
    def errors(self):
        with open(self.errors_path, "rb") as f:
            return f.read().decode("utf-8", "replace")

    def connect(self):
        return http.client.HTTPConnection(self.host, int(self.port), timeout=PATIENCE)

    def raw(self):
        return socket.create_connection((self.host, int(self.port)), timeout=PATIENCE)

    def ask(self, method, path, body=None, headers=(), connection=None):
        """One request over the kept connection. @body: bytes as they are, anything else as JSON."""
        kept = connection is None
        if kept and self.connection is None:
            self.connection = self.connect()
        connection = connection or self.connection
        headers = dict(headers)
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
            headers.setdefault("Content-Type", "application/json")
        try:
            connection.putrequest(method, path)
            if body is not None:
                connection.putheader("Content-Length", str(len(body)))
            for name, value in headers.items():
                connection.putheader(name, value)
            connection.endheaders(body)
            response = connection.getresponse()
            content = response.read()
        except (http.client.HTTPException, OSError):
            connection.close()
            if kept:
                self.connection = None
            raise
        return Reply(response.status, {k.lower(): v for k, v in response.getheaders()}, content)

    def get(self, path, **more):
        return self.ask("GET", path, **more)

    def post(self, path, body, **more):
        return self.ask("POST", path, body, **more)

    def rss_kib(self):
        with open("/proc/%d/status" % self.pid, encoding="ascii") as f:
            return int([line for line in f if line.startswith("VmRSS")][0].split()[1])

    def stop(self, number=signal.SIGTERM):
        """Ends it; the exit code."""
        if self.connection is not None:
            self.connection.close()
        if self.process.poll() is None:
            self.process.send_signal(number)
        out, _ = self.process.communicate(timeout=PATIENCE)
        self.out = out.decode()
        return self.process.returncode

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        if self.process.poll() is None:
            self.process.kill()
        if self.process.stdout and not self.process.stdout.closed:
            self.process.communicate(timeout=PATIENCE)
        if kind is not None and self.errors_path != os.devnull:
            print("# " + self.errors[-2000:].replace("\n", "\n# "))


def case(path):
    full = os.path.join(EVENTS, path)
    if not os.path.exists(full):
        full += ".gz"
    opener = gzip.open if full.endswith(".gz") else open
    with opener(full, "rb") as f:
        return json.loads(f.read().decode("utf-8"))


def key(digest="00ff", model="m", rank=16777472, group=0, salt=""):
    return {"chunk_hash_hex": digest, "model_name": model, "kv_rank": rank, "object_group_id": group, "cache_salt": salt}


def batch(instance="i1", seq=1, incarnation=1, kind="store", tier="l1", backend="dram", entries=None, **more):
    entries = [{"key": key(), "size_bytes": 10}] if entries is None else entries
    return dict(instance_id=instance, incarnation=incarnation, seq=seq, event_type=kind, tier=tier, backend=backend, entries=entries, **more)
