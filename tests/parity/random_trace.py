# SPDX-License-Identifier: Apache-2.0
"""Random storage traces in the form of LMCache 0.5.6: every call, small pools of keys, so that calls meet each other.

What a trace avoids, because LMCache's answer is a defect that lmtrace answers otherwise (storage-manager.md 14):
- a key twice in one row of a prefetch that may load (2: the second release of LMCache fails); `twice_in_prefetch` is for L1 alone
- a key twice in one reservation where memory is short (2: LMCache needs two buffers)
- a reservation taken over with another size (3): sizes belong to groups
- lists so long that a load outlives a lifetime (4)
"""
import os
import random
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "bench"))
import traces

MODELS = ("acme/bench-model-8b-instruct-33ch", "acme/bench-model-8b", "other", "ünï/模型")


def layout(elements):
    return traces.tagged("MemoryLayoutDesc", {"shapes": [[2, elements]], "dtypes": ["torch.float16"]})


class Pool:
    """Chunks by number; groups have sizes and windows of their own, ranks share them."""

    def __init__(self, rng, shape):
        self.rng, self.shape = rng, shape
        self.chunks = rng.choice((6, 12, 24)) if not shape.get("long") else rng.choice((24, 60))
        n_groups, self.ranks = rng.randint(1, 3), rng.randint(1, 2)
        sizes = (256, 1024, 3000) if not shape.get("zero") else (0, 256, 1024)
        self.groups = [(layout(rng.choice(sizes)), rng.choice((-1, -1, -1, 1, 2, 3))) for _ in range(n_groups)]
        self.models = MODELS[:rng.randint(1, 4)] if shape.get("models") else MODELS[:1]

    def key(self, chunk, group, rank, model):
        key = traces.key(chunk)
        key["v"]["kv_rank"] = self.ranks << 24 | rank << 16 | self.ranks << 8 | rank
        key["v"]["object_group_id"] = group
        key["v"]["model_name"] = model
        return key

    def run(self, twice=False):
        if self.rng.random() < self.shape.get("empty", 0):
            return []
        first = self.rng.randrange(self.chunks)
        chunks = [(first + i) % self.chunks for i in range(self.rng.randint(1, 40 if self.shape.get("long") else 6))]
        if twice:
            return [self.rng.choice(chunks) if self.rng.random() < 0.3 else c for c in chunks]
        return list(dict.fromkeys(chunks))

    def model(self):
        return self.rng.choice(self.models)

    def some(self):
        group, rank, model = self.rng.randrange(len(self.groups)), self.rng.randrange(self.ranks), self.model()
        chunks = self.run(self.shape.get("twice", False))
        if self.rng.random() < 0.2:
            self.rng.shuffle(chunks)
        return group, [self.key(c, group, rank, model) for c in chunks]

    def prefetch(self):
        """-> spec, (keys, readers) to give back or None."""
        rng, shape = self.rng, self.shape
        chunks = self.run(shape.get("twice_in_prefetch", False))
        model = self.model()
        full = rng.random() < 0.25
        groups = [g for g in range(len(self.groups)) if not full or self.groups[g][1] == -1 or rng.random() < 0.2]
        groups = groups or [0]
        rows = [traces.tagged("GroupedObjectKeys", {
            "keys": [self.key(c, g, r, model) for c in chunks], "object_group_id": g, "layout_desc": self.groups[g][0],
            "sliding_window_size": self.groups[g][1]}) for g in groups for r in range(self.ranks)]
        readers = rng.choice((1, 1, 1, 2, 3))
        policy = "full" if full else "prefix"
        lock = "NO_LOCK" if rng.random() < shape.get("no_lock", 0.25) else "LOCK"
        refused = False
        if rng.random() < shape.get("odd", 0):
            what = rng.choice(("readers", "many", "negative", "policy", "rows", "none"))
            refused = what not in ("many",)
            if what in ("readers", "many", "negative"):
                readers = {"readers": 0, "many": rng.choice((127, 128, 129, 4000)), "negative": -3}[what]
            elif what == "policy":
                policy = "suffix"
            elif what == "rows" and len(rows) > 1 and chunks:
                rows[-1]["v"]["keys"] = rows[-1]["v"]["keys"][:-1]
            elif what == "none":
                rows = []
        spec = {"key_groups": rows, "num_kv_readers": readers, "fetching_policy": policy,
                "lock_mode": traces.tagged("PrefetchLockMode", lock)}
        owed = ([k for row in rows for k in row["v"]["keys"]], readers) if lock == "LOCK" and not refused else None
        return spec, owed


def times(step, bursts):
    """Instants of the records. In bursts: well away from whole seconds, where passes are made."""
    t, n = step, 0
    while True:
        yield t
        t, n = t + step, n + 1
        if bursts and n % bursts == 0:
            t = int(t) + 1.2


def write(path, seed, calls, step, shape=None):
    shape = shape or {}
    rng = random.Random(seed)
    pool = Pool(rng, shape)
    bursts = shape.get("bursts", 0)
    clock = times(step, bursts)
    if bursts:
        for _ in range(bursts):
            next(clock)
    open_writes, open_reads, contexts = [], [], []
    with open(path, "wb") as out:
        out.write(traces.header())

        def put(op, args):
            out.write(traces.record(next(clock), op, args))

        for _ in range(calls):
            what = rng.choices(("reserve", "finish", "prefetch", "enter", "exit", "release", "stray"), (5, 5, 6, 3, 3, 4, 1))[0]
            if what == "reserve":
                group, keys = pool.some()
                open_writes.append(keys)
                put("reserve_write", {"keys": keys, "layout_desc": pool.groups[group][0]})
            elif what == "finish" and open_writes:
                keys = open_writes.pop(rng.randrange(len(open_writes)))
                put("finish_write", {"keys": keys if rng.random() < 0.8 else keys[:-1] or keys})
            elif what == "prefetch":
                spec, owed = pool.prefetch()
                put("submit_prefetch_task", {"spec": traces.tagged("PrefetchTaskSpec", spec),
                                             "external_request_id": rng.choice(("r", "", "ü" * 40, "req-17")),
                                             "skip_l2": rng.random() < 0.15})
                if owed is not None:
                    open_reads.append(owed)
            elif what == "enter" and open_reads:
                keys, _ = rng.choice(open_reads)
                keys = keys[:rng.randint(1, max(1, len(keys)))]
                contexts.append(keys)
                put("read_prefetched_results.__enter__", {"keys": keys})
            elif what == "exit" and contexts:
                put("read_prefetched_results.__exit__", {"keys": contexts.pop(rng.randrange(len(contexts)))})
            elif what == "release" and open_reads:
                keys, readers = open_reads.pop(rng.randrange(len(open_reads)))
                put("finish_read_prefetched", {"keys": keys, "read_locks": readers if rng.random() < 0.85 else
                                               rng.choice((0, 1, 200, -1)) if shape.get("odd") else 1})
            elif what == "stray":
                _, keys = pool.some()
                put(*rng.choice((("finish_read_prefetched", {"keys": keys, "read_locks": 1}), ("finish_write", {"keys": keys}),
                                 ("read_prefetched_results.__enter__", {"keys": keys}),
                                 ("read_prefetched_results.__exit__", {"keys": keys}))))
