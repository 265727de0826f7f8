#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The map and the installed headers agree, and the library exports exactly that.

Usage: map.py MAP LIBRARY HEADER…          checks (TAP)
       map.py --write MAP HEADER…          writes the map from the headers
"""
import re
import subprocess
import sys

VERSION = "LMTRACE_0.1"
HEAD = f"""# SPDX-License-Identifier: Apache-2.0
# What liblmtrace-1 exports: every symbol by name. tests/abi/map.py --write makes it from the installed headers, the abi test compares.
{VERSION} {{
  global:
"""


def declared(headers):
    names = set()
    for header in headers:
        with open(header, encoding="utf-8") as file:
            text = re.sub(r"/\*.*?\*/", "", file.read(), flags=re.S)
        text = re.sub(r"^#.*?(?<!\\)$", "", text, flags=re.S | re.M)
        # bodies of inline functions and structs hold calls, no declarations
        text = re.sub(r"static inline\b[^{;]*\{.*?^\}", "", text, flags=re.S | re.M)
        text = re.sub(r"typedef\b[^;{]*\([^;]*;", "", text)
        depth, kept = 0, []
        for char in text:
            depth += {"{": 1, "}": -1}.get(char, 0)
            kept.append(char if depth == 0 else " ")
        text = "".join(kept)
        for name in re.findall(r"\b(lmt_\w+) \(", text):
            names.add(name)
        names.update(re.findall(r"extern const \w+ \*?(lmt_\w+)\s*(?:\[\])?;", text))
        names.update(name + "_get_type" for name in re.findall(r"G_DECLARE_FINAL_TYPE \(\w+, (\w+),", text))
    return names - {"lmt_plugin_get"}  # every plugin defines that one itself


def mapped(path):
    with open(path, encoding="utf-8") as file:
        text = re.sub(r"#.*", "", file.read())
    return re.findall(r"\b(lmt_[\w*]+);", text)


def exported(library):
    out = subprocess.run(["nm", "-D", "--defined-only", library], check=True, capture_output=True, text=True).stdout
    names = {line.split()[-1].split("@")[0] for line in out.splitlines() if line.strip()}
    return {name for name in names if not name.startswith("LMTRACE_")}


def say(number, what, wrong):
    print(f"{'not ok' if wrong else 'ok'} {number} {what}")
    for name in sorted(wrong):
        print(f"# {name}")
    return bool(wrong)


def main():
    if sys.argv[1] == "--write":
        headers = [header for header in sys.argv[3:] if not header.endswith("-private.h")]
        with open(sys.argv[2], "w", encoding="utf-8") as file:
            file.write(HEAD + "".join(f"    {name};\n" for name in sorted(declared(headers))) + "  local:\n    *;\n};\n")
        return 0
    path, library, *headers = sys.argv[1:]
    in_headers, in_map, in_library = declared(headers), mapped(path), exported(library)
    print("1..5")
    bad = say(1, "every name once, none with a star", {n for n in in_map if "*" in n or in_map.count(n) > 1})
    bad |= say(2, "declared in a header, not in the map", in_headers - set(in_map))
    bad |= say(3, "in the map, not declared in an installed header", set(in_map) - in_headers)
    bad |= say(4, "in the map, not in the library: declared but never written", set(in_map) - in_library)
    bad |= say(5, "in the library, not in the map", in_library - set(in_map))
    return 1 if bad else 0


sys.exit(main())
