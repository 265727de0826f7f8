#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each installed header compiles alone, twice included, in C and in C++, without a warning. Usage: headers-alone.py INCLUDE CC CXX -- HEADER…"""
import os
import shlex
import subprocess
import sys
import tempfile

include, cc, cxx, dash, *headers = sys.argv[1:]
assert dash == "--" and headers
glib = shlex.split(subprocess.run(["pkg-config", "--cflags", "glib-2.0", "gobject-2.0"], check=True, capture_output=True, text=True).stdout)
WARNINGS = ["-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter", "-fsyntax-only"]
LANGUAGES = [("C", shlex.split(cc), "c", ["-std=gnu11", "-Wstrict-prototypes"])]
if cxx:
    LANGUAGES.append(("C++", shlex.split(cxx), "c++", ["-std=c++17"]))

bad = 0
print(f"1..{len(headers) * len(LANGUAGES)}")
number = 0
for name in headers:
    for language, compiler, kind, flags in LANGUAGES:
        number += 1
        with tempfile.NamedTemporaryFile("w", suffix=".txt", delete=False) as source:
            line = f"#include <lmtrace/{os.path.basename(name)}>\n"
            source.write(line * 2 + "int main (void) { return 0; }\n")
        done = subprocess.run([*compiler, "-x", kind, *flags, *WARNINGS, f"-I{include}", *glib, source.name], capture_output=True, text=True, check=False)
        os.unlink(source.name)
        ok = done.returncode == 0
        bad += not ok
        print(f"{'ok' if ok else 'not ok'} {number} {os.path.basename(name)} in {language}")
        for text in done.stderr.splitlines()[:12]:
            print(f"# {text}")
sys.exit(1 if bad else 0)
