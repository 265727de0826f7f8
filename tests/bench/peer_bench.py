# SPDX-License-Identifier: Apache-2.0
"""Runs inside LMCache's environment and prints one JSON object: start-up apart from work, in one process each.

peer_bench.py info FILE | replay FILE L1_GB | pace FILE L1_GB | l2 JSON SIZE COUNT DEPTH | record FILE
"""
import argparse
import json
import os
import sys
import time

os.environ.setdefault("LMCACHE_TRACK_USAGE", "false")
os.environ.setdefault("LMCACHE_LOG_LEVEL", "ERROR")


def info(path):
    from lmcache.v1.mp_observability.trace.reader import TraceReader
    start = time.monotonic()
    counts = {}
    with TraceReader(path) as reader:
        for r in reader.records():
            counts[r.qualname] = counts.get(r.qualname, 0) + 1
    return {"records": sum(counts.values()), "seconds": time.monotonic() - start}


def replay(path, l1_gb):
    from lmcache.cli.commands.trace._driver import StorageReplayDriver
    from lmcache.v1.distributed.config import add_storage_manager_args, parse_args_to_config
    from lmcache.v1.mp_observability.config import ObservabilityConfig
    parser = argparse.ArgumentParser()
    add_storage_manager_args(parser)
    config = parse_args_to_config(parser.parse_args(
        ["--l1-size-gb", l1_gb, "--eviction-policy", "LRU", "--no-l1-use-lazy"]))
    obs = ObservabilityConfig(enabled=True, metrics_enabled=False, logging_enabled=False, tracing_enabled=False)
    ends = []
    with StorageReplayDriver(config, path, obs_config=obs) as driver:
        start = time.monotonic()
        result = driver.run(on_record=lambda q, latency, failed: ends.append((time.monotonic(), latency)))
        seconds = time.monotonic() - start
    return {"records": result.records_replayed, "failed": result.records_failed, "seconds": seconds, "start": start, "ends": ends}


def pace(path, l1_gb):
    from lmcache.v1.mp_observability.trace.reader import TraceReader
    with TraceReader(path) as reader:
        due = [r.t_mono for r in reader.records()]
    result = replay(path, l1_gb)
    lags = sorted(end - latency - result["start"] - t for (end, latency), t in zip(result["ends"], due))
    return {"records": len(lags), "lag_p99_us": lags[-(-len(lags) * 99 // 100) - 1] * 1e6}


class Buffer:
    """What the adapters ask of an object of L1: its bytes. In pages of its own, as O_DIRECT wants them; no zeros, which a device may
    keep and give for nothing."""

    def __init__(self, size, seed):
        import mmap
        self.byte_array = memoryview(mmap.mmap(-1, size))
        self.byte_array[:] = os.urandom(size)
        self.byte_array[:8] = seed.to_bytes(8, "little")


def l2_phase(adapter, kind, keys, buffers, depth):
    """One-key tasks, @depth of them in flight. MiB/s, CPU s/GiB, failures."""
    import resource
    import select
    fd = adapter.get_store_event_fd() if kind == "store" else adapter.get_load_event_fd()
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    free, flying, failed, at = list(range(depth)), {}, 0, 0
    usage = resource.getrusage(resource.RUSAGE_SELF)
    start = time.monotonic()
    while at < len(keys) or flying:
        while free and at < len(keys):
            slot = free.pop()
            submit = adapter.submit_store_task if kind == "store" else adapter.submit_load_task
            flying[submit([keys[at]], [buffers[at if kind == "store" else slot]])] = slot
            at += 1
        poll.poll()
        os.eventfd_read(fd)
        if kind == "store":
            done = [(task, result.is_successful()) for task, result in adapter.pop_completed_store_tasks().items()]
        else:
            done = [(task, bits.test(0)) for task in list(flying) if (bits := adapter.query_load_result(task)) is not None]
        for task, good in done:
            failed += not good
            free.append(flying.pop(task))
    wall = time.monotonic() - start
    end = resource.getrusage(resource.RUSAGE_SELF)
    mib = len(keys) * len(buffers[0].byte_array) / 2**20
    cpu = end.ru_utime + end.ru_stime - usage.ru_utime - usage.ru_stime
    return {"mib_s": mib / wall, "cpu_s_gib": cpu / mib * 1024, "errors": failed}


def l2(config, size, count, depth):
    import hashlib
    from lmcache.v1.distributed.api import ObjectKey
    from lmcache.v1.distributed.l2_adapters import fs_l2_adapter, fs_native_l2_adapter
    spec = json.loads(config)
    kind = {"fs": fs_l2_adapter.FSL2AdapterConfig, "fs_native": fs_native_l2_adapter.FSNativeL2AdapterConfig}[spec["type"]]
    make = {"fs": fs_l2_adapter._create_fs_adapter, "fs_native": fs_native_l2_adapter._create_fs_native_l2_adapter}[spec["type"]]
    adapter = make(kind.from_dict(spec))
    size, count, depth = int(size), int(count), int(depth)
    keys = [ObjectKey(chunk_hash=hashlib.sha256(i.to_bytes(8, "little")).digest(), model_name="bench/model", kv_rank=0x1000100)
            for i in range(count)]
    buffers = [Buffer(size, i) for i in range(depth)]
    many = [Buffer(size, i) for i in range(count)]
    answer = {"store": l2_phase(adapter, "store", keys, many, depth)}
    del many
    os.sync()
    try:
        with open("/proc/sys/vm/drop_caches", "w", encoding="ascii") as drop:
            drop.write("1")
    except OSError:
        pass
    answer["load"] = l2_phase(adapter, "load", keys, buffers, depth)
    adapter.close()
    return answer


def record(path):
    """A decorated call, off and on, 1 key and 64, beside the same call without the decorator; bus, drain thread and recorder as a server has
    them."""
    import hashlib
    from lmcache.v1.distributed.api import ObjectKey
    from lmcache.v1.mp_observability.event_bus import EventBusConfig, init_event_bus
    from lmcache.v1.mp_observability.trace.decorator import enable_tracing
    from lmcache.v1.mp_observability.trace.recorder import StorageTraceRecorder

    class Plain:
        def finish_write(self, keys):
            pass

    class Traced:
        @enable_tracing()
        def finish_write(self, keys):
            pass

    keys = [ObjectKey(chunk_hash=hashlib.sha256(i.to_bytes(8, "little")).digest(), model_name="meta-llama/Llama-3.1-8B-Instruct",
                      kv_rank=0x1000100) for i in range(64)]

    def per_call(target, argument, count, rounds, wait=lambda: None):
        found = []
        for _ in range(rounds):
            start = time.perf_counter()
            for _ in range(count):
                target.finish_write(argument)
            found.append((time.perf_counter() - start) / count * 1e9)
            wait()
        return sorted(found)[len(found) // 2]

    plain, traced = Plain(), Traced()
    answer = {"plain_ns": per_call(plain, keys[:1], 200000, 5), "off_ns": per_call(traced, keys[:1], 200000, 5)}
    bus = init_event_bus(EventBusConfig(max_queue_size=1_000_000))
    recorder = StorageTraceRecorder(path)
    bus.register_subscriber(recorder)
    bus.start()

    def drained():
        while bus.queue_depth() > 0:
            time.sleep(0.01)

    answer["on_ns"] = per_call(traced, keys[:1], 5000, 7, drained)
    answer["on64_ns"] = per_call(traced, keys, 500, 7, drained)
    drained()
    start = time.perf_counter()
    for _ in range(40000):
        traced.finish_write(keys[:1])
    drained()
    answer["drain_per_s"] = 40000 / (time.perf_counter() - start)
    bus.stop()
    answer["dropped"] = recorder.dropped_count
    return answer


if __name__ == "__main__":
    what, rest = sys.argv[1], sys.argv[2:]
    answer = {"info": info, "replay": replay, "pace": pace, "l2": l2, "record": record}[what](*rest)
    answer.pop("ends", None)
    answer.pop("start", None)
    print(json.dumps(answer))
