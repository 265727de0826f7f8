#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Counts what meson's tests said.

summary.py SUITE TESTLOG   one line per case: PASS|FAIL|SKIP SUITE/NAME[: why]
summary.py --total FILE    failures and reasons of skips, then `N passed, N failed, N skipped`; exit 1 if one failed
"""
import collections
import json
import re
import sys

TAP = re.compile(r"^(not )?ok\b\s*\d*\s*-?\s*(.*)$")
SKIP = re.compile(r"#\s*skip\b:?\s*(.*)$", re.IGNORECASE)
COUNTS = re.compile(r"^(\d+) passed, (\d+) failed, (\d+) (?:skipped|not applicable)$")
NAMED_SKIP = re.compile(r"^(?:skip )?(\S+?): (?:skipped: |(?=needs ))(.*)$")


def cases_of(test):
    """(verdict, name, why) of each case in one program's output."""
    name, result, out = test["name"], test["result"], test.get("stdout") or ""
    found = []
    for line in out.splitlines():
        m = TAP.match(line.strip()) if not line.startswith(" ") else None
        if m:
            text = m.group(2)
            skip = SKIP.search(text)
            label = SKIP.sub("", text).strip()
            found.append(("FAIL" if m.group(1) else "SKIP" if skip else "PASS", label, skip.group(1) if skip else ""))
    if not found:
        for line in out.splitlines():
            m = COUNTS.match(line.strip())
            if m:
                reasons = [s.groups() for s in map(NAMED_SKIP.match, out.splitlines()) if s]
                for verdict, n in zip(("PASS", "FAIL", "SKIP"), map(int, m.groups())):
                    for i in range(n):
                        label, why = reasons[i] if verdict == "SKIP" and len(reasons) == n else (f"{verdict.lower()}-{i + 1}", "")
                        found.append((verdict, label, why))
    if result in ("OK", "EXPECTEDFAIL"):
        if any(v == "FAIL" for v, _, _ in found):  # it prints the failures it wants to see
            return [("PASS", name, "")]
        return [(v, f"{name}{'/' if n and not n.startswith('/') else ''}{n}", w) for v, n, w in found] or [("PASS", name, "")]
    if result == "SKIP":
        return [("SKIP", name, next((w for _, _, w in found if w), "the program skipped itself"))]
    bad = [(v, f"{name}{n}", w) for v, n, w in found]
    if not any(v == "FAIL" for v, _, _ in bad):
        bad.append(("FAIL", name, f"{result.lower()}, exit {test.get('returncode')}"))
    return bad


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    if sys.argv[1] != "--total":
        suite = sys.argv[1]
        with open(sys.argv[2], encoding="utf-8", errors="replace") as log:
            for line in log:
                for verdict, name, why in cases_of(json.loads(line)):
                    print(f"{verdict} {suite}/{name}" + (f": {why}" if why else ""))
        return 0
    counts, reasons = collections.Counter(), collections.Counter()
    with open(sys.argv[2], encoding="utf-8", errors="replace") as results:
        for line in results:
            verdict, _, rest = line.strip().partition(" ")
            if verdict not in ("PASS", "FAIL", "SKIP"):
                continue
            counts[verdict] += 1
            if verdict == "FAIL":
                print(f"failed: {rest}")
            elif verdict == "SKIP":
                reasons[rest.partition(": ")[2] or rest] += 1
    for why, n in sorted(reasons.items()):
        print(f"skipped {n}: {why}")
    print(f"{counts['PASS']} passed, {counts['FAIL']} failed, {counts['SKIP']} skipped")
    return 1 if counts["FAIL"] or not counts["PASS"] else 0


if __name__ == "__main__":
    sys.exit(main())
