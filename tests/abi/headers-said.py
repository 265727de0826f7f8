#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Headers are the manual: each installed one says since when it is there and which threads may call, and begins with what it is for (TAP)."""
import re
import sys

# What a reviewer misses first. Lifetime and errors stand where there are any.
WANTED = (("Since: 0", r"Since: \d+\.\d+"), ("a word on threads", r"[Tt]hread"), ("a comment of several lines", r"/\*\*?(?:\n \*|[^*]*\n \*)"))

print(f"1..{len(sys.argv) - 1}")
failed = 0
for number, path in enumerate(sys.argv[1:], 1):
    with open(path, encoding="utf-8") as file:
        text = file.read()
    missing = [what for what, pattern in WANTED if not re.search(pattern, text)]
    failed += bool(missing)
    print(f"{'not ok' if missing else 'ok'} {number} - {path.rsplit('/', 1)[-1]}")
    for what in missing:
        print(f"# expected {what}, found none")
sys.exit(failed > 0)
