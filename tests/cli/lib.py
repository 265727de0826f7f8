# SPDX-License-Identifier: Apache-2.0
"""What the tests of the command line share: traces made on the spot, runs of lmtrace, TAP output."""
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import traceback

LMTRACE = os.environ.get("LMT_LMTRACE", "lmtrace")
DATA = os.environ.get("LMT_TEST_DATA", "")
CLI_DATA = os.path.join(DATA, "cli")
TRACES = os.path.join(CLI_DATA, "traces")
SM = "lmcache.v1.distributed.storage_manager.StorageManager."


# -------- msgpack, as much as traces need --------

def pack(value):
    if value is None:
        return b"\xc0"
    if value is True or value is False:
        return b"\xc3" if value else b"\xc2"
    if isinstance(value, int):
        if 0 <= value < 128:
            return bytes([value])
        if -32 <= value < 0:
            return struct.pack("b", value)
        return b"\xcf" + struct.pack(">Q", value) if value >= 0 else b"\xd3" + struct.pack(">q", value)
    if isinstance(value, float):
        return b"\xcb" + struct.pack(">d", value)
    if isinstance(value, str):
        raw = value.encode("utf-8", "surrogateescape")
        if len(raw) < 32:
            return bytes([0xa0 | len(raw)]) + raw
        return b"\xda" + struct.pack(">H", len(raw)) + raw
    if isinstance(value, (bytes, bytearray)):
        return b"\xc5" + struct.pack(">H", len(value)) + bytes(value)
    if isinstance(value, (list, tuple)):
        return b"\xdc" + struct.pack(">H", len(value)) + b"".join(pack(v) for v in value)
    if isinstance(value, dict):
        return b"\xde" + struct.pack(">H", len(value)) + b"".join(pack(k) + pack(v) for k, v in value.items())
    raise TypeError(type(value))


def frame(body):
    return struct.pack(">I", len(body)) + body


def header(level="demo", schema=1, **more):
    fields = {"type": "header", "magic": b"LMCT", "format_version": 1, "level": level, "trace_schema_version": schema,
              "t_mono_start": 1000.0, "t_wall_start": 1758400000.0, "sm_config_json": "", "sm_config_digest": ""}
    fields.update(more)
    return frame(pack(fields))


def record(t, qualname, args, wall=None):
    return frame(pack({"type": "record", "t_mono": float(t), "t_wall": 1758400000.0 + t if wall is None else wall,
                       "qualname": qualname, "args": args}))


def demo(t, do="ok", ms=0, name="demo.Service.call"):
    return record(t, name, {"do": do, "ms": ms})


def write(path, *parts):
    with open(path, "wb") as f:
        for part in parts:
            f.write(part)
    return path


# -------- records of the storage level, as LMCache 0.5.6 writes them --------

LAYOUT = {"__t__": "MemoryLayoutDesc", "v": {"shapes": [[2, 4, 256, 16]], "dtypes": ["torch.bfloat16"]}}  # 65536 bytes
OBJECT_BYTES = 65536


def skey(name, model="org/model-7b", salt=None):
    import hashlib
    value = {"chunk_hash": hashlib.sha256(name.encode()).digest(), "model_name": model, "kv_rank": 0, "object_group_id": 0}
    if salt is not None:
        value["cache_salt"] = salt
    return {"__t__": "ObjectKey", "v": value}


def reserve(t, *names, **more):
    return record(t, SM + "reserve_write", {"keys": [skey(n, **more) for n in names], "layout_desc": LAYOUT})


def finish(t, *names, **more):
    return record(t, SM + "finish_write", {"keys": [skey(n, **more) for n in names]})


def prefetch(t, *names, **more):
    groups = [{"__t__": "GroupedObjectKeys", "v": {"keys": [skey(n, **more) for n in names], "object_group_id": 0, "layout_desc": LAYOUT,
                                                   "sliding_window_size": -1}}]
    spec = {"__t__": "PrefetchTaskSpec", "v": {"key_groups": groups, "num_kv_readers": 1, "fetching_policy": "prefix",
                                               "lock_mode": {"__t__": "PrefetchLockMode", "v": "LOCK"}}}
    return record(t, SM + "submit_prefetch_task", {"spec": spec, "external_request_id": "r", "skip_l2": False})


def finish_read(t, *names, **more):
    return record(t, SM + "finish_read_prefetched", {"keys": [skey(n, **more) for n in names], "read_locks": 1})


# -------- runs --------

class Run:
    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err

    @property
    def text(self):
        return self.out.decode("utf-8", "surrogateescape")

    @property
    def errors(self):
        return self.err.decode("utf-8", "surrogateescape")

    @property
    def json(self):
        return json.loads(self.out.decode("utf-8"), parse_constant=no_constant)

    def __repr__(self):
        return "exit %d\n--- stdout\n%s--- stderr\n%s---" % (self.code, self.text, self.errors)


def no_constant(name):
    raise ValueError("%s in JSON" % name)


def environment(**more):
    env = dict(os.environ)
    for name in ("NO_COLOR", "LMTRACE_COLOR", "LMTRACE_LOG_LEVEL", "LMCACHE_LOG_LEVEL", "COLUMNS"):
        env.pop(name, None)
    env.update(more)
    return env


def lmtrace(*args, cwd=None, env=None, stdin=b"", timeout=240):
    done = subprocess.run([LMTRACE, *args], cwd=cwd, env=env or environment(), input=stdin, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, timeout=timeout)
    return Run(done.returncode, done.stdout, done.stderr)


def start(*args, cwd=None, env=None, **more):
    return subprocess.Popen([LMTRACE, *args], cwd=cwd, env=env or environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, **more)


def end(process, timeout=240):
    out, err = process.communicate(timeout=timeout)
    return Run(process.returncode, out, err)


def tree(path):
    """Every file and folder below path, with sizes: to see what a run left behind."""
    found = {}
    for folder, folders, files in os.walk(path):
        for name in folders:
            found[os.path.relpath(os.path.join(folder, name), path) + "/"] = None
        for name in files:
            full = os.path.join(folder, name)
            found[os.path.relpath(full, path)] = os.lstat(full).st_size
    return found


def lines(text):
    return [line for line in text.split("\n") if line]


# -------- checks --------

def equal(found, expected, what=""):
    if found != expected:
        raise AssertionError("%s\nexpected %r\nfound    %r" % (what, expected, found))


def true(value, what=""):
    if not value:
        raise AssertionError(what)


def contains(text, part):
    if part not in text:
        raise AssertionError("expected %r in %r" % (part, text))


def refused(run, what=""):
    """Exit 2, one line on stderr, nothing on stdout."""
    equal(run.code, 2, what + repr(run))
    equal(run.out, b"", what)
    equal(len(lines(run.errors)), 1, what + repr(run))
    true(run.errors.startswith("lmtrace: "), what + repr(run))


# -------- table --------

def parse_table(text):
    """(title, [(section, [(label, value)])]) of a report."""
    title, sections = None, []
    for line in lines(text):
        if re.fullmatch(r"=+ .* =+", line):
            title = line.strip("= ")
        elif re.fullmatch(r"-+ .* -+", line):
            sections.append((line.strip("- "), []))
        elif re.fullmatch(r"=+", line) or line.startswith("* ") or ":" not in line:
            continue
        else:
            label, value = re.match(r"(.*?):\s+(.*)$", line).groups() if re.match(r"(.*?):\s+(.*)$", line) else (line, "")
            # labels may hold a colon: the value is what stands behind the last run of blanks
            match = re.match(r"(.*):\s+(\S.*)$", line)
            if match:
                label, value = match.groups()
            sections[-1][1].append((label, value))
    return title, sections


# -------- TAP --------

class Skip(Exception):
    """Can't be had on this machine; the text says what."""


class Tests:
    def __init__(self):
        self.tests = []

    def __call__(self, func):
        self.tests.append((func.__name__, func))
        return func

    def add(self, name, func):
        self.tests.append((name, func))

    def main(self):
        print("1..%d" % len(self.tests), flush=True)
        wanted = sys.argv[1:]
        failed = 0
        for n, (name, func) in enumerate(self.tests, 1):
            if wanted and not any(w in name for w in wanted):
                print("ok %d %s # SKIP not asked for" % (n, name), flush=True)
                continue
            folder = tempfile.mkdtemp(prefix="lmtrace-cli-")
            try:
                func(folder)
                print("ok %d %s" % (n, name), flush=True)
            except Skip as reason:
                print("ok %d %s # SKIP %s" % (n, name, reason), flush=True)
            except Exception:
                failed += 1
                print("not ok %d %s" % (n, name), flush=True)
                for line in traceback.format_exc().splitlines():
                    print("# " + line, flush=True)
            finally:
                shutil.rmtree(folder, ignore_errors=True)
        return 1 if failed else 0
