# SPDX-License-Identifier: Apache-2.0
"""A coordinator that answers as a script says and writes down what it was asked: calls, heartbeats and questions apart."""
import json
import socket
import struct
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

DROP = "drop"    # the connection is closed instead of a reply
RESET = "reset"  # the same, with RST
HANG = "hang"    # no reply until the server ends


class Reply:
    def __init__(self, status=200, body=b"", headers=(), delay=0.0, cut=None):
        self.status = status
        self.body = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.headers, self.delay, self.cut = dict(headers), delay, cut


class Gate:
    """Admission as LMCache 0.5.6 counts: lower incarnations are stale, seqs not above the last one duplicates."""

    def __init__(self):
        self.cursors = {}
        self.departed = {}

    def post(self, body):
        counts = {"applied": 0, "duplicates": 0, "stale": 0}
        for batch in json.loads(body)["batches"]:
            name, at = batch["instance_id"], (batch["incarnation"], batch["seq"])
            was = self.cursors.get(name)
            if was is not None and at[0] < was[0]:
                counts["stale"] += 1
            elif was is not None and at[0] == was[0] and at[1] <= was[1]:
                counts["duplicates"] += 1
            else:
                self.cursors[name] = at
                counts["applied"] += 1
        return counts

    def answer(self, call):
        if call.method == "POST" and call.path == "/events":
            return Reply(200, self.post(call.body))
        if call.method == "POST" and call.path == "/instances":
            return Reply(200, {"instance_id": json.loads(call.body)["instance_id"], "re_registered": False})
        if call.method == "DELETE":
            name = call.path.rsplit("/", 1)[1]
            self.departed[name] = self.cursors.pop(name, None)
            return Reply(204)
        return Reply(404, {"detail": "Not Found"})


class Call:
    def __init__(self, method, path, headers, body, connection, n):
        self.method, self.path, self.headers, self.body = method, path, headers, body
        self.connection, self.n, self.at = connection, n, time.monotonic()
        self.status = None

    @property
    def json(self):
        return json.loads(self.body) if self.body else None


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *args):
        pass

    def send(self, reply):
        if reply.delay:
            self.server.ended.wait(reply.delay)
        self.send_response(reply.status, reply.headers.pop("reason", None))
        if reply.status != 204:
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(reply.body)))
        for name, value in reply.headers.items():
            self.send_header(name, value)
        self.end_headers()
        if reply.status != 204:
            self.wfile.write(reply.body if reply.cut is None else reply.body[:reply.cut])
        if reply.cut is not None:
            self.wfile.flush()
            self.close_connection = True

    def handle_any(self):
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length)
        reply = self.server.owner.take(self.command, self.path, dict(self.headers), body, self.client_address)
        if reply == HANG:
            self.server.ended.wait(60)
        if reply == RESET:
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        if isinstance(reply, str):
            self.close_connection = True
            if reply == RESET:
                self.connection.close()
            return
        try:
            self.send(reply)
        except OSError:
            self.close_connection = True

    do_GET = do_POST = do_PUT = do_DELETE = handle_any

    def finish(self):
        try:
            super().finish()
        except OSError:
            pass


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request, address):
        pass


class Scripted:
    """`answer(call)` gives a Reply, DROP, RESET or HANG; `ask(call)` the same for GET, `beat(call)` for heartbeats."""

    def __init__(self, answer=None, ask=None, beat=None):
        self.lock = threading.Lock()
        self.http = Server(("127.0.0.1", 0), Handler)
        self.http.owner = self
        self.http.ended = threading.Event()
        self.url = "http://127.0.0.1:%d" % self.http.server_address[1]
        self.script(answer, ask, beat)
        threading.Thread(target=self.http.serve_forever, args=(0.02,), daemon=True).start()

    def script(self, answer=None, ask=None, beat=None):
        with self.lock:
            self.answer = answer or Gate().answer
            self.ask, self.beat = ask or nobody_there, beat or (lambda call: Reply(200, {}))
            self.calls, self.asked, self.beats = [], [], []

    def take(self, method, path, headers, body, connection):
        with self.lock:
            kind, func = ((self.asked, self.ask) if method == "GET" else
                          (self.beats, self.beat) if method == "PUT" and path.endswith("/heartbeat") else (self.calls, self.answer))
            call = Call(method, path, headers, body, connection, len(kind))
            kind.append(call)
            reply = func(call)
            call.status = reply if isinstance(reply, str) else reply.status
            return reply

    def close(self):
        self.http.ended.set()
        self.http.shutdown()
        self.http.server_close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def nobody_there(call):
    """A coordinator of 0.5.6 where nobody is registered."""
    if call.path == "/instances":
        return Reply(200, {"instances": []})
    return Reply(404, {"detail": "Not Found"})
