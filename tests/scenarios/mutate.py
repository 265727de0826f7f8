#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The runner must notice: in each scenario some expected values are changed, one a file, and every changed file has to fail.

mutate.py RUNNER FOLDER [SEED]: TAP.
"""
import copy
import glob
import json
import os
import random
import subprocess
import sys
import tempfile

PER_FILE = 3
# What the runner compares only in part, or not at all, with the reason.
IGNORED = {
    "raises",  # texts are LMCache's: that the call failed is compared
    "usage_error",
    "stderr",
    "init_size_bytes",  # lazy pools need no saying
    "affinity_tag",  # accepted and ignored
    "serde",
    "dtypes",
}


def leaves(node, path=()):
    if isinstance(node, dict):
        for key, value in node.items():
            if key not in IGNORED:
                yield from leaves(value, path + (key,))
    elif isinstance(node, list):
        for i, value in enumerate(node):
            yield from leaves(value, path + (i,))
    elif node is not None:
        yield path, node


def changed(value):
    if isinstance(value, bool):
        return not value
    if isinstance(value, (int, float)):
        return value + 1
    if value and set(value) <= set("01"):
        return ("1" if value[0] == "0" else "0") + value[1:]
    return None


def expectations(scenario):
    """Paths of values that say what is expected, of steps where no other expectation stands beside them."""
    if scenario["kind"] == "table":
        for i, case in enumerate(scenario["cases"]):
            places = {"fold": ("servable", "hit_length", "retain", "hit_cells", "full_cells"), "dtypes": ("bytes",),
                      "object_size": ("size", "allocated"), "object_key": ("kv_rank", "world_size"), "config": ("expect",)}
            for name in places.get(scenario["table"], ("expect", "state")):
                for path, value in leaves(case.get(name), ("cases", i, name)):
                    yield path, value
        return
    for i, step in enumerate(scenario["steps"]):
        if "lmtrace" in step:
            continue
        for name in ("expect", "state", "policy", "events", "events_unordered"):
            for path, value in leaves(step.get(name), ("steps", i, name)):
                yield path, value


def differs_on_purpose(scenario, path):
    # Rows that stand in the runner's list of refusals are not compared value by value.
    if scenario.get("table") == "config":
        argv = " ".join(scenario["cases"][path[1]]["argv"])
        flags = ("--l1-size ", "gds", "GDS", "DEVDAX", "Isolated", "serde", '"x"', "unknown", "extra", '"0.5"', '"shared": 1',
                 '"false"', '"persist_enabled": 0', "align-bytes 1000", "seconds 0", "seconds -1", "flight 0", "gb 0 ", "gb -1",
                 "watermark 7", "ratio -3", '"b"')
        return any(word in argv for word in flags)
    return False


def main():
    runner, folder = sys.argv[1], sys.argv[2]
    rand = random.Random(int(sys.argv[3]) if len(sys.argv) > 3 else 1)
    made = []
    with tempfile.TemporaryDirectory() as out:
        for path in sorted(glob.glob(os.path.join(folder, "*.json"))):
            with open(path, encoding="utf-8") as file:
                scenario = json.load(file)
            name = os.path.basename(path)[:-5]
            if name.startswith("multi-l1-"):
                continue
            places = [p for p, v in expectations(scenario) if changed(v) is not None and not differs_on_purpose(scenario, p)]
            for n, place in enumerate(rand.sample(places, min(PER_FILE, len(places)))):
                mutant = copy.deepcopy(scenario)
                node = mutant
                for step in place[:-1]:
                    node = node[step]
                node[place[-1]] = changed(node[place[-1]])
                with open(os.path.join(out, "%s.%d.json" % (name, n)), "w", encoding="utf-8") as file:
                    json.dump(mutant, file)
                made.append(("%s.%d.json" % (name, n), place))
        text = subprocess.run([runner, out], capture_output=True, text=True, check=False).stdout
    seen = {line.split(": ")[0] for line in text.splitlines()}
    missed = [(name, place) for name, place in made if name not in seen]
    print("1..1")
    for name, place in missed:
        print("# not noticed: %s %s" % (name, "/".join(map(str, place))))
    print("%s 1 - %d changed values are noticed" % ("not ok" if missed or not made else "ok", len(made)))
    return 1 if missed or not made else 0


sys.exit(main())
