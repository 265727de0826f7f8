#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records the sample traces of this folder with LMCache's own recorder around a live StorageManager.

Needs LMCache 0.5.6 with a CPU build of torch; lmtrace itself needs neither. Usage: record_samples.py OUTDIR [NAME...]
Hashes are digests of counters, model and user names are invented; what people typed was never there.
"""
import hashlib
import os
import random
import sys
import threading
import time

os.environ.setdefault("LMCACHE_TRACK_USAGE", "false")
os.environ.setdefault("LMCACHE_LOG_LEVEL", "ERROR")

import argparse

import torch
from lmcache.v1.distributed.api import (GroupedObjectKeys, MemoryLayoutDesc, ObjectKey, PrefetchLockMode,
                                        PrefetchTaskSpec)
from lmcache.v1.distributed.config import add_storage_manager_args, parse_args_to_config
from lmcache.v1.distributed.storage_manager import StorageManager
from lmcache.v1.mp_observability.config import ObservabilityConfig, init_observability
from lmcache.v1.mp_observability.trace.recorder import StorageTraceRecorder


def chunk(text):
    return hashlib.blake2b(text.encode(), digest_size=32).digest()


class Server:
    """One recorded StorageManager, driven as a serving engine drives it."""

    def __init__(self, path, flags, model, world, groups):
        parser = argparse.ArgumentParser()
        add_storage_manager_args(parser)
        config = parse_args_to_config(parser.parse_args(flags))
        for c in config.l1_manager_configs:
            c.memory_config.shm_name = ""
        self.bus = init_observability(ObservabilityConfig(enabled=True, metrics_enabled=False, logging_enabled=False,
                                                          tracing_enabled=False))
        self.recorder = StorageTraceRecorder(output_path=path)
        self.recorder.attach_storage_config(config)
        self.bus.register_subscriber(self.recorder)
        self.sm = StorageManager(config)
        self.model, self.world, self.groups = model, world, groups
        self.requests = 0

    def key(self, name, group, rank):
        return ObjectKey(chunk_hash=chunk(name), model_name=self.model,
                         kv_rank=ObjectKey.ComputeKVRank(self.world, rank, self.world, rank), object_group_id=group)

    def rows(self, chunks):
        for group, (layout, window) in enumerate(self.groups):
            for rank in range(self.world):
                yield group, layout, window, [self.key(c, group, rank) for c in chunks]

    def request(self, prompt, answer_chunks, readers=1):
        """Prefetch the prompt's prefix, read what hit, then store what is new of prompt and answer."""
        self.requests += 1
        spec = PrefetchTaskSpec(
            key_groups=[GroupedObjectKeys(keys=keys, object_group_id=g, layout_desc=layout, sliding_window_size=w)
                        for g, layout, w, keys in self.rows(prompt)],
            num_kv_readers=readers, fetching_policy="prefix", lock_mode=PrefetchLockMode.LOCK)
        handle = self.sm.submit_prefetch_task(spec, external_request_id=f"req-{self.requests}")
        self.sm.wait_prefetch_status(handle, 5.0)
        result = self.sm.query_prefetch_status(handle)
        hit = 0
        if result is not None:
            cells = [[keys[i] for i in range(len(keys)) if bits.test(i)]
                     for bits, (_, _, _, keys) in zip(result.hit_cells, self.rows(prompt))]
            good = [k for row in cells for k in row]
            hit = max((i + 1 for bits in result.hit_cells for i in range(len(prompt)) if bits.test(i)), default=0)
            if good:
                for _ in range(readers):
                    with self.sm.read_prefetched_results(good):
                        time.sleep(0.0005 * len(prompt))
                self.sm.finish_read_prefetched(good, readers)
        time.sleep(0.002 * (len(prompt) - hit + 1))
        new = prompt[hit:] + answer_chunks
        for g, layout, _, keys in self.rows(new):
            if keys:
                reserved = self.sm.reserve_write(keys, layout)
                if reserved:
                    self.sm.finish_write(list(reserved))
        return hit

    def close(self):
        time.sleep(0.3)
        self.sm.close()
        self.bus.stop()


def layout(*shape, dtype=torch.bfloat16):
    return MemoryLayoutDesc(shapes=[torch.Size(shape)], dtypes=[dtype])


def run_users(users):
    threads = [threading.Thread(target=u) for u in users]
    for t in threads:
        t.start()
    for t in threads:
        t.join()


def chat(path):
    """Eight people, six turns each, one system prompt; everything fits into 1 GiB."""
    server = Server(path, ["--l1-size-gb", "1", "--eviction-policy", "LRU", "--no-l1-use-lazy"],
                    "acme/chat-8b", 1, [(layout(2, 4, 256, 64), -1)])

    def user(n):
        rng = random.Random(n)
        history = [f"system-{i}" for i in range(4)]
        for turn in range(6):
            time.sleep(rng.uniform(0.2, 1.6))
            prompt = history + [f"user{n}-turn{turn}-{i}" for i in range(rng.randint(1, 3))]
            answer = [f"user{n}-answer{turn}-{i}" for i in range(rng.randint(0, 2))]
            server.request(prompt, answer)
            history = prompt + answer

    run_users([lambda n=n: user(n) for n in range(8)])
    server.close()


def documents(path):
    """Long documents on two ranks: one group with full attention, one with a window of four chunks, two readers."""
    server = Server(path, ["--l1-size-gb", "1", "--eviction-policy", "LRU", "--no-l1-use-lazy"],
                    "acme/longdoc-30b", 2, [(layout(2, 2, 256, 64), -1), (layout(2, 1, 256, 64), 4)])

    def user(n):
        rng = random.Random(100 + n)
        for question in range(5):
            time.sleep(rng.uniform(0.3, 1.2))
            doc = rng.choice([0, 0, 0, 1, 1, 2])
            prompt = [f"doc{doc}-{i}" for i in range(12 + 4 * doc)] + [f"q{n}-{question}"]
            server.request(prompt, [f"a{n}-{question}"], readers=2)

    run_users([lambda n=n: user(n) for n in range(4)])
    server.close()


def overflow(path):
    """More than fits: 24 MiB of L1 for about three times as much, most of it asked for again; LRU passes every second."""
    server = Server(path, ["--l1-size-gb", "0.0234375", "--eviction-policy", "LRU", "--no-l1-use-lazy"],
                    "acme/chat-8b", 1, [(layout(2, 4, 256, 64), -1)])

    def user(n):
        rng = random.Random(200 + n)
        for turn in range(16):
            time.sleep(rng.uniform(1.0, 2.4))
            topic = rng.randrange(40)
            prompt = [f"topic{topic}-{i}" for i in range(6)]
            server.request(prompt, [f"v{n}-{turn}"])

    run_users([lambda n=n: user(n) for n in range(5)])
    server.close()


SAMPLES = {"chat": chat, "documents": documents, "overflow": overflow}


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    for name in sys.argv[2:] or sorted(SAMPLES):
        if os.fork() == 0:  # one process each: the event bus is a singleton
            SAMPLES[name](os.path.join(sys.argv[1], name + ".lct"))
            os._exit(0)
        os.wait()


if __name__ == "__main__":
    main()
