#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Replays every golden storage trace, settled, with the flags it was replayed with by its own release, and compares what comes out.

conformance.py [PATTERN…]: TAP. PATTERN: RELEASE/NAME as a shell pattern. The runner is `$LMT_LMTRACE replay`.
"""
import fnmatch
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile

DATA = os.path.join(os.environ["LMT_TEST_DATA"], "storage")

# storage-manager.md 17: these six differ on purpose. What lmtrace gives instead is pinned in differences.json beside this file.
DIFFERENCES = {
    **{
        f"{release}/l2fs": (
            "a WARM load ended in finish_write there, so it was stored once more and skip_l1 dropped it; "
            "NO_LOCK of 0.5.6 doesn't",
            ("l1_resident", "l1_used_bytes"),
        )
        for release in ("0.5.1", "0.5.2", "0.5.3", "0.5.4", "0.5.5")
    },
    "0.5.4/evict": (
        "a request served from L1 alone did not refresh recency there: other victims in the second pass",
        ("l1_resident", "prefetch"),
    ),
}


def runner():
    command = os.environ.get("LMT_STORAGE_RUNNER")
    if command:
        return command.split()
    return [os.environ["LMT_LMTRACE"], "replay", "-q", "--no-csv", "--progress", "never"]


def replay(path, flags, folder, more=("--speed", "0")):
    """Runs one replay in a scratch folder; returns (exit code, state or None, names -> sizes of the L2 folder, stderr)."""
    l2 = os.path.join(folder, "l2")
    os.makedirs(l2)
    out = os.path.join(folder, "state.json")
    words = [flag.replace("<L2DIR>", l2) for flag in flags]
    done = subprocess.run(
        runner() + [path, *more, "--state-out", out, *words], cwd=folder, capture_output=True, text=True, timeout=300, check=False
    )
    state = None
    if os.path.exists(out):
        with open(out, encoding="utf-8") as file:
            state = json.load(file)
    files = {name: os.path.getsize(os.path.join(l2, name)) for name in os.listdir(l2)} if os.path.isdir(l2) else {}
    return done.returncode, state, files, done.stderr


def wire(key):
    model, rank, group, chunk, *salt = key
    return "@".join([model, f"{rank:08x}", f"{group:x}", chunk, *salt])


def digest_of(state):
    """The outcome digest, from what the state file says (spec/README.md). None where victims of several tiers may have alternated."""
    tiers = [("l1", state["evicted"]["l1"])] + [(f"l2#{n}", keys) for n, keys in enumerate(state["evicted"]["l2"])]
    if sum(bool(keys) for _, keys in tiers) > 1:
        return None
    rows = lambda bits: ",".join(row or "-" for row in bits) or "-"
    held = [("resident", state["l1_resident"]), ("reserved", state["l1_reserved"]), ("locked", state["l1_read_locked"])]
    held += [(f"l2#{n}", adapter["keys"]) for n, adapter in enumerate(state["l2"])]
    names = ("replayed", "skipped", "undecodable", "failed", "mismatch", "malformed")
    parts = [
        [f"{p['requested']} {p['state']} {rows(p['hit'])} {rows(p['l1_hit'])} {rows(p['l2_hit'])}" for p in state["prefetch"]],
        [f"{tier} {wire(key)}" for tier, keys in tiers for key in keys],
        [line for kind, keys in held for line in sorted((f"{kind} {wire(key)}" for key in keys), key=str.encode)],
        [f"{name} {state[name]}" for name in names] + [f"used {state['l1_used_bytes']}"]
        + sorted(f"anomaly {kind} {count}" for kind, count in state["anomalies"].items()),
    ]
    sha = lambda text: hashlib.sha256(text.encode()).hexdigest()
    return sha("".join(sha("".join(line + "\n" for line in lines)) for lines in parts))


def in_form_of(golden, ours):
    """Our prefetches in the form in which this release told them."""
    if isinstance(golden, str):
        text = ""
        for task in ours:
            hits = "".join(task["hit"])
            if "1" not in hits:
                text += "0"
            elif hits == "1" * len(hits):
                text += str(len(hits))
            else:
                text += "p" if hits.startswith("1") else "?"
        return text
    out = []
    for want, task in zip(golden, ours):
        one = {"kind": want["kind"], "requested": task["requested"], "state": task["state"]}
        if want["kind"] == "rows":
            one.update({name: task[name] for name in ("hit", "l1_hit", "l2_hit")})
        elif want["kind"] == "flat":
            one["hit"] = task.get("flat")
        else:
            flat = task.get("flat") or ""
            one["hit_keys"] = len(flat) - len(flat.lstrip("1"))
        out.append(one)
    return out + ours[len(golden):]


def result_of(golden, state, files):
    replay_of = golden["replay"]
    result = {name: state[name] for name in ("replayed", "skipped", "failed", "l1_used_bytes", "l1_total_bytes")}
    result["undecodable"] = state["undecodable"]
    result["settled"] = state["settled"]
    result["prefetch"] = in_form_of(replay_of["prefetch"], state["prefetch"])
    for name in ("l1_resident", "l1_reserved", "l1_read_locked"):
        result[name] = sorted(state[name])
    if "l2_files" in replay_of:
        result["l2_files"] = sorted(files)
        result["l2_sizes"] = files
        result["l2_keys"] = len(state["l2"][0]["keys"])
    return result


def with_group(name):
    """Releases to 0.4.6 knew no object groups and left them out of file names; ours always have one: MODEL@RANK@GROUP@HASH.data."""
    parts = name.split("@")
    return "@".join(parts[:2] + ["0"] + parts[2:]) if len(parts) == 3 else name


def expected_of(golden):
    replay_of = golden["replay"]
    names = ("replayed", "skipped", "failed", "l1_used_bytes", "l1_total_bytes", "prefetch", "l1_resident", "l1_reserved", "l1_read_locked")
    result = {name: replay_of[name] for name in names}
    result["undecodable"] = 0
    result["settled"] = True
    for name in ("l1_resident", "l1_reserved", "l1_read_locked"):
        result[name] = sorted(result[name])
    if "l2_files" in replay_of:
        result["l2_files"] = sorted(map(with_group, replay_of["l2_files"]))
        result["l2_sizes"] = {with_group(name): size for name, size in replay_of["l2_sizes"].items()}
        result["l2_keys"] = len(replay_of["l2_files"])
    return result


def shorten(value):
    text = json.dumps(value)
    return text if len(text) < 400 else text[:400] + "…"


def check_golden(name, pinned):
    with open(os.path.join(DATA, name + ".json"), encoding="utf-8") as file:
        golden = json.load(file)
    folder = tempfile.mkdtemp(prefix="lmt-storage-")
    try:
        code, state, files, stderr = replay(os.path.join(DATA, name + ".lct"), golden["replay"]["flags"], folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if code != 0 or state is None:
        return [f"exit {code}: {stderr.strip()}"]
    if digest_of(state) not in (None, state["outcome_digest"]):
        return [f"outcome_digest: the state gives {digest_of(state)}, found {state['outcome_digest']}"]
    want = expected_of(golden)
    got = result_of(golden, state, files)
    if pinned is None:
        print(json.dumps({name: {member: got[member] for member in DIFFERENCES[name][1]}}))
        return []
    if name in DIFFERENCES:
        _, members = DIFFERENCES[name]
        for member in members:
            if want[member] == got[member]:
                return [f"{member}: equal to the golden file, but listed as a difference"]
            want[member] = pinned[name][member]
    return [f"{key}: expected {shorten(want[key])}, found {shorten(got[key])}" for key in want if want[key] != got[key]]


def check_malformed(name):
    with open(os.path.join(DATA, name + ".json"), encoding="utf-8") as file:
        want = json.load(file)["lmtrace"]
    folder = tempfile.mkdtemp(prefix="lmt-storage-")
    flags = ["--l1-size-gb", "0.00390625", "--eviction-policy", "LRU", "--no-l1-use-lazy"]
    try:
        code, state, _, stderr = replay(os.path.join(DATA, name + ".lct"), flags, folder)
        left = sorted(os.listdir(folder))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if want["header"] == "refused" or want["replay"] == "refused":
        problems = []
        if code != 2:
            problems.append(f"exit: expected 2, found {code}: {stderr.strip()}")
        if state is not None or left != ["l2"]:
            problems.append(f"files left behind: {left}")
        return problems
    if state is None:
        return [f"exit {code}: {stderr.strip()}"]
    counts = want["replay"]
    pairs = {
        "ok": (counts["ok"], state["replayed"]),
        "skipped": (counts["skipped"], state["skipped"]),
        "undecodable": (counts["undecodable"], state["undecodable"]),
        "failed": (0, state["failed"]),
        "malformed": (want.get("malformed_count", len(want.get("malformed") or [])), state["malformed"]),
    }
    expected_code = want["exit_replay"]
    problems = [f"{key}: expected {a}, found {b}" for key, (a, b) in pairs.items() if a != b]
    if code != expected_code:
        problems.append(f"exit: expected {expected_code}, found {code}: {stderr.strip()}")
    return problems


def main():
    patterns = sys.argv[1:] or ["*"]
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "differences.json"), encoding="utf-8") as file:
        pinned = json.load(file)
    names = []
    for release in sorted(os.listdir(DATA)):
        folder = os.path.join(DATA, release)
        if os.path.isdir(folder):
            names += [f"{release}/{name[:-4]}" for name in sorted(os.listdir(folder)) if name.endswith(".lct")]
    names = [name for name in names if any(fnmatch.fnmatch(name, pattern) for pattern in patterns)]
    print("TAP version 13")
    print(f"1..{len(names)}", flush=True)
    failed = 0
    for number, name in enumerate(names, 1):
        problems = check_malformed(name) if name.startswith("malformed/") else check_golden(name, pinned)
        failed += bool(problems)
        reason = f" # differs on purpose: {DIFFERENCES[name][0]}" if name in DIFFERENCES else ""
        print(f"{'not ok' if problems else 'ok'} {number} - {name}{reason if not problems else ''}", flush=True)
        for problem in problems:
            print(f"# {problem}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
