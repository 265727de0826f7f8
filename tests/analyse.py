#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""clang's static analyser over every source of a build folder, once each, with the flags it is compiled with.

Usage: analyse.py BUILD-DIR [SOURCE…]: all, or the named ones (the end of the path will do). Prints each finding with its path
through the code, exits 1 if there was one. `scan-build` runs the same checkers, but compiles everything, too, and needs more
packages; this takes clang and compile_commands.json alone.

One kind of finding is left out: up to clang 19 the analyser knows no __attribute__ ((cleanup)), so a variable declared with
g_autoptr, g_autofree or g_auto looks leaked at each return. LeakSanitizer watches those in the tests.
"""
import concurrent.futures
import json
import os
import re
import shlex
import subprocess
import sys

FINDING = re.compile(r"^(?P<file>[^\s:][^:]*):(?P<line>\d+):\d+: (?:warning|error|fatal error): (?P<text>.*)$")
LEAK = re.compile(r"^Potential leak of memory pointed to by '(\w+)'")
# Steps per function: a third of the default takes a third of the time.
EFFORT = "max-nodes=75000"
DROP_WITH_VALUE = ("-o", "-MF", "-MQ")
DROP = ("-c", "-MD", "-fcolor-diagnostics", "-fdiagnostics-color=always", "-Werror")


def command(entry):
    """The analyser's command of one entry: no output, no dependency file, no colours."""
    kept, skip = [], False
    words = shlex.split(entry["command"])
    for word in words[2 if os.path.basename(words[0]) == "ccache" else 1:]:
        if skip:
            skip = False
        elif word in DROP_WITH_VALUE:
            skip = True
        elif word not in DROP:
            kept.append(word)
    return ["clang", "--analyze", "--analyzer-output", "text", "-Xclang", "-analyzer-config", "-Xclang", EFFORT] + kept


def is_released_at_return(directory, match):
    """Whether the variable a leak is about was declared with g_auto… in the function the finding is in."""
    leak = LEAK.match(match["text"])
    if not leak:
        return False
    with open(os.path.join(directory, match["file"]), encoding="utf-8") as file:
        lines = file.read().split("\n")[:int(match["line"])]
    start = max((index for index, line in enumerate(lines) if line.startswith("{")), default=0)
    declared = re.compile(r"\bg_auto(free|ptr|slist|list)?\b[^=;]*\b" + leak[1] + r"\b\s*[=;]")
    return any(declared.search(line) for line in lines[start:])


def analyse(entry):
    done = subprocess.run(command(entry), cwd=entry["directory"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    findings, block = [], None
    for line in done.stderr.split("\n"):
        match = FINDING.match(line)
        if match:
            block = None if is_released_at_return(entry["directory"], match) else [line]
            if block:
                findings.append(block)
        elif block:
            block.append(line)
    if done.returncode != 0 and not findings:
        findings.append([entry["file"] + ": clang: exit status %d" % done.returncode, done.stderr])
    return findings


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    build, wanted = sys.argv[1], tuple(sys.argv[2:]) or ("",)
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as file:
        entries = {entry["file"]: entry for entry in json.load(file) if entry["file"].endswith(wanted)}
    if not entries:
        print("nothing to analyse in " + build, file=sys.stderr)
        return 2
    found = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        for findings in pool.map(analyse, entries.values()):
            found += len(findings)
            for block in findings:
                print("\n".join(block), flush=True)
    print("%d files analysed: %d findings" % (len(entries), found))
    return 1 if found else 0


sys.exit(main())
