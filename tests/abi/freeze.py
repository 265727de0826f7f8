#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Freezes the border for a release: copies the installed headers to tests/abi/RELEASE/lmtrace and writes offsets.h beside them.

Usage: freeze.py RELEASE      (from a built tree: cc and pkg-config glib are used, nothing is linked)

Run once per release, before its tag, and commit what it writes. A frozen folder is never written again.
"""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Everything that crosses the border by pointer or by value, handed over or handed out.
STRUCTS = """LmtPluginDescriptor LmtLevelOps LmtHandlerOps LmtCodecOps LmtL2Ops LmtCommandOps LmtOption LmtCommandContext LmtReplayEnv
LmtOutcome LmtInfoOut LmtL2Io LmtL2Key LmtL2Host LmtL2Info LmtKeyFields LmtRecord LmtSpan LmtFault LmtCursor LmtToken LmtClock
LmtHeaderFields LmtReaderStats LmtPack LmtTraceCall LmtTraceLevel LmtTraceTime LmtTraceValue LmtRecorderParams LmtRecorderStats""".split()


def bodies(text):
    """(name, body) of each struct in a header's text."""
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    for start in re.finditer(r"(?:typedef\s+)?struct(?:\s+_(\w+))?\s*\{", text):
        depth, at = 1, start.end()
        while depth:
            depth += {"{": 1, "}": -1}.get(text[at], 0)
            at += 1
        body = text[start.end():at - 1]
        name = start.group(1) or re.match(r"\s*(\w+)", text[at:]).group(1)
        yield name, body


def members(body):
    body = re.sub(r"\{[^{}]*\}", "", body)
    for piece in body.split(";"):
        piece = " ".join(piece.split())
        if not piece:
            continue
        pointer = re.search(r"\(\*\s*(\w+)\)\s*\(", piece)
        yield pointer.group(1) if pointer else re.search(r"(\w+)(?:\[[^\]]*\])?$", piece).group(1)


def collect(folder):
    found = {}
    for header in sorted(folder.glob("*.h")):
        for name, body in bodies(header.read_text()):
            if name in STRUCTS:
                found[name] = list(members(body))
    missing = set(STRUCTS) - set(found)
    if missing:
        sys.exit(f"not found: {', '.join(sorted(missing))}")
    return found


def measure(include, found):
    lines = ["#include <stddef.h>", "#include <stdio.h>", "#include <lmtrace/lmtrace.h>", "int main (void) {"]
    for name in STRUCTS:
        kind = "SIZE_AT_LEAST" if found[name][0] == "struct_size" else "SIZE"
        lines.append(f'printf ("{kind} ({name}, %zu)\\n", sizeof ({name}));')
        for member in found[name]:
            if member.startswith("reserved"):
                continue  # may get a name and a meaning; what stands behind it tells whether it kept its width
            lines.append(f'printf ("OFFSET ({name}, {member}, %zu)\\n", offsetof ({name}, {member}));')
    lines.append("return 0; }")
    with tempfile.TemporaryDirectory() as tmp:
        source = pathlib.Path(tmp, "m.c")
        source.write_text("\n".join(lines))
        flags = subprocess.run(["pkg-config", "--cflags", "glib-2.0", "gobject-2.0"], check=True, capture_output=True, text=True)
        subprocess.run(["cc", "-I", str(include), *flags.stdout.split(), "-o", f"{tmp}/m", str(source)], check=True)
        return subprocess.run([f"{tmp}/m"], check=True, capture_output=True, text=True).stdout


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    release = sys.argv[1]
    target = ROOT / "tests" / "abi" / release
    if target.exists():
        sys.exit(f"{target}: is frozen already")
    (target / "lmtrace").mkdir(parents=True)
    for header in sorted((ROOT / "core").glob("*.h")):
        if not header.name.endswith("-private.h"):
            shutil.copy(header, target / "lmtrace")
    text = measure(target, collect(target / "lmtrace"))
    head = f"/* SPDX-License-Identifier: Apache-2.0 */\n/* Sizes and offsets of the border as {release} had it, 64 bit. Made by freeze.py; never changed. */\n"
    (target / "offsets.h").write_text(head + text)


main()
