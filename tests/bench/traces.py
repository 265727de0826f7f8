# SPDX-License-Identifier: Apache-2.0
"""Traces for the benchmarks, written frame by frame as LMCache 0.5.6 writes them (Python's standard library only)."""
import hashlib
import struct

PREFIX = "lmcache.v1.distributed.storage_manager.StorageManager."


def pack(value):
    """The msgpack forms that occur in storage traces, in msgspec's shortest encoding."""
    if value is None:
        return b"\xc0"
    if value is True or value is False:
        return b"\xc3" if value else b"\xc2"
    if isinstance(value, int):
        if value >= 0:
            for limit, head, fmt in ((0x80, b"", ">B"), (0x100, b"\xcc", ">B"), (0x10000, b"\xcd", ">H"),
                                     (1 << 32, b"\xce", ">I"), (1 << 64, b"\xcf", ">Q")):
                if value < limit:
                    return head + struct.pack(fmt, value)
        if value >= -32:
            return struct.pack(">b", value)
        return b"\xd3" + struct.pack(">q", value)
    if isinstance(value, float):
        return b"\xcb" + struct.pack(">d", value)
    if isinstance(value, str):
        raw = value.encode()
        head = bytes([0xA0 | len(raw)]) if len(raw) < 32 else b"\xd9" + bytes([len(raw)]) if len(raw) < 256 else \
            b"\xda" + struct.pack(">H", len(raw))
        return head + raw
    if isinstance(value, bytes):
        return b"\xc4" + bytes([len(value)]) + value
    if isinstance(value, list):
        head = bytes([0x90 | len(value)]) if len(value) < 16 else b"\xdc" + struct.pack(">H", len(value))
        return head + b"".join(map(pack, value))
    if isinstance(value, dict):
        return bytes([0x80 | len(value)]) + b"".join(pack(k) + pack(v) for k, v in value.items())
    raise TypeError(type(value))


def frame(body):
    return struct.pack(">I", len(body)) + body


def tagged(tag, value):
    return {"__t__": tag, "v": value}


def header():
    return frame(pack({"type": "header", "magic": b"LMCT", "format_version": 1, "level": "storage", "trace_schema_version": 1,
                       "t_mono_start": 1.5, "t_wall_start": 1.75e9, "sm_config_json": "", "sm_config_digest": ""}))


def record(t, op, args):
    return frame(pack({"type": "record", "t_mono": float(t), "t_wall": 1.75e9 + t, "qualname": PREFIX + op, "args": args}))


def key(n):
    return tagged("ObjectKey", {"chunk_hash": hashlib.blake2b(str(n).encode(), digest_size=32).digest(),
                                "model_name": "acme/bench-model-8b-instruct-33ch", "kv_rank": 0x01000100, "object_group_id": 0})


LAYOUT = tagged("MemoryLayoutDesc", {"shapes": [[2, 1, 16, 64]], "dtypes": ["torch.bfloat16"]})


def calls(keys):
    """The six calls of a request: reserve, finish, prefetch, enter, exit, finish of the read."""
    spec = tagged("PrefetchTaskSpec", {
        "key_groups": [tagged("GroupedObjectKeys", {"keys": keys, "object_group_id": 0, "layout_desc": LAYOUT,
                                                    "sliding_window_size": -1})],
        "num_kv_readers": 1, "fetching_policy": "prefix", "lock_mode": tagged("PrefetchLockMode", "LOCK")})
    return (("reserve_write", {"keys": keys, "layout_desc": LAYOUT}), ("finish_write", {"keys": keys}),
            ("submit_prefetch_task", {"spec": spec, "external_request_id": "r", "skip_l2": False}),
            ("read_prefetched_results.__enter__", {"keys": keys}), ("read_prefetched_results.__exit__", {"keys": keys}),
            ("finish_read_prefetched", {"keys": keys, "read_locks": 1}))


def cycle(t, keys, step):
    """The calls of a request; times go on by step."""
    return b"".join(record(t + i * step, op, args) for i, (op, args) in enumerate(calls(keys)))


def write_cycles(path, cycles, keys_each, rate=0.0):
    """rate: records a second; 0: all at time 0."""
    step = 1.0 / rate if rate else 0.0
    with open(path, "wb") as out:
        out.write(header())
        for c in range(cycles):
            out.write(cycle(c * 6 * step, [key(c * keys_each + k) for k in range(keys_each)], step))
    return cycles * 6


def write_repeated(source, path, wanted_bytes):
    """The records of a real trace again and again behind one header; gives the number of records."""
    with open(source, "rb") as f:
        data = f.read()
    first = 4 + struct.unpack(">I", data[:4])[0]
    body, at, n = data[first:], first, 0
    while at < len(data):
        at += 4 + struct.unpack(">I", data[at:at + 4])[0]
        n += 1
    times = max(1, -(-wanted_bytes // len(body)))
    with open(path, "wb") as out:
        out.write(data[:first])
        for _ in range(times):
            out.write(body)
    return n * times
