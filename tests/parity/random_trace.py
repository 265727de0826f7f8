# SPDX-License-Identifier: Apache-2.0
"""Random storage traces in the form of LMCache 0.5.6: every call, small pools of keys, so that calls meet each other."""
import os
import random
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "bench"))
import traces


def layout(elements):
    return traces.tagged("MemoryLayoutDesc", {"shapes": [[2, elements]], "dtypes": ["torch.float16"]})


class Pool:
    """Chunks by number; groups have sizes and windows of their own, ranks share them."""

    def __init__(self, rng, chunks, groups, ranks):
        self.rng, self.chunks, self.ranks = rng, chunks, ranks
        self.groups = [(layout(rng.choice((256, 1024, 3000))), rng.choice((-1, -1, -1, 1, 2, 3))) for _ in range(groups)]

    def key(self, chunk, group, rank):
        key = traces.key(chunk)
        key["v"]["kv_rank"] = self.ranks << 24 | rank << 16 | self.ranks << 8 | rank
        key["v"]["object_group_id"] = group
        return key

    def run(self):
        first = self.rng.randrange(self.chunks)
        return [(first + i) % self.chunks for i in range(self.rng.randint(1, 6))]

    def some(self):
        group, rank = self.rng.randrange(len(self.groups)), self.rng.randrange(self.ranks)
        chunks = self.run()
        if self.rng.random() < 0.2:
            self.rng.shuffle(chunks)
        return group, [self.key(c, group, rank) for c in chunks]


def write(path, seed, calls, step):
    rng = random.Random(seed)
    pool = Pool(rng, rng.choice((6, 12, 24)), rng.randint(1, 3), rng.randint(1, 2))
    open_writes, open_reads, contexts, t = [], [], [], step
    with open(path, "wb") as out:
        out.write(traces.header())

        def put(op, args):
            nonlocal t
            out.write(traces.record(t, op, args))
            t += step

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
                chunks = pool.run()
                full = rng.random() < 0.25
                groups = [g for g in range(len(pool.groups)) if not full or pool.groups[g][1] == -1 or rng.random() < 0.2]
                groups = groups or [0]
                rows = [traces.tagged("GroupedObjectKeys", {
                    "keys": [pool.key(c, g, r) for c in chunks], "object_group_id": g, "layout_desc": pool.groups[g][0],
                    "sliding_window_size": pool.groups[g][1]}) for g in groups for r in range(pool.ranks)]
                readers = rng.choice((1, 1, 1, 2, 3))
                lock = rng.choice(("LOCK", "LOCK", "LOCK", "NO_LOCK"))
                spec = {"key_groups": rows, "num_kv_readers": readers, "fetching_policy": "full" if full else "prefix",
                        "lock_mode": traces.tagged("PrefetchLockMode", lock)}
                put("submit_prefetch_task", {"spec": traces.tagged("PrefetchTaskSpec", spec), "external_request_id": "r",
                                             "skip_l2": rng.random() < 0.15})
                if lock == "LOCK":
                    open_reads.append(([k for row in rows for k in row["v"]["keys"]], readers))
            elif what == "enter" and open_reads:
                keys, _ = rng.choice(open_reads)
                keys = keys[:rng.randint(1, len(keys))]
                contexts.append(keys)
                put("read_prefetched_results.__enter__", {"keys": keys})
            elif what == "exit" and contexts:
                put("read_prefetched_results.__exit__", {"keys": contexts.pop(rng.randrange(len(contexts)))})
            elif what == "release" and open_reads:
                keys, readers = open_reads.pop(rng.randrange(len(open_reads)))
                put("finish_read_prefetched", {"keys": keys, "read_locks": readers if rng.random() < 0.85 else 1})
            elif what == "stray":
                _, keys = pool.some()
                put(*rng.choice((("finish_read_prefetched", {"keys": keys, "read_locks": 1}), ("finish_write", {"keys": keys}),
                                 ("read_prefetched_results.__enter__", {"keys": keys}),
                                 ("read_prefetched_results.__exit__", {"keys": keys}))))
