#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The option tables show in four places: --help, man page, completion, list-plugins --json. All say the same."""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

LMTRACE = os.environ["LMT_LMTRACE"]
DATA = os.path.join(os.environ["LMT_BUILD_DIR"], "data")
PAGES = ["info", "replay", "check-adapter", "bench-adapter", "new-plugin", "record", "import", "list-plugins", "help", "version"]
failures = []


def run(*words, **more):
    return subprocess.run([LMTRACE, *words], stdout=subprocess.PIPE, text=True, check=True, **{"stderr": subprocess.PIPE, **more}).stdout


def check(what, found, wanted):
    if found != wanted:
        failures.append("%s: expected %r, found %r" % (what, wanted, found))


def names_of(rows):
    """Spellings a person may write: both forms of a switch that has two."""
    names = set()
    for row in rows:
        names.add("--" + row["name"])
        if row["negatable"]:
            names.add("--no-" + row["name"])
    return names


def names_in(text):
    """Long options at the head of an entry of --help or of a rendered page."""
    names = set()
    for both, name in re.findall(r"^ +(?:-\w, )?--(\[no-\])?([a-z0-9-]+)(?=[ =\[\n]|$)", text, re.M):
        names.add("--" + name)
        if both:
            names.add("--no-" + name)
    return names


def tables():
    """Per command the options list-plugins --json names, those of levels with replay, and the adapters' keys."""
    metrics = json.loads(run("list-plugins", "--json"))["metrics"]
    commands, adapters, level = {}, {}, []
    for plugin in metrics["plugins"]:
        for command in plugin["commands"]:
            commands[command["name"]] = command["options"]
        for entry in plugin["levels"]:
            if entry["replay"]:
                level += entry["options"]
        for adapter in plugin["adapters"]:
            adapters[adapter["name"]] = adapter["options"]
        for alias in plugin["aliases"]:
            adapters.setdefault(alias["name"], [])
    commands["replay"] = commands["replay"] + level
    return commands, metrics["global_options"], adapters


def wanted_of(command, commands, everywhere):
    own = commands[command]
    taken = {row["name"] for row in own}
    return names_of(own) | names_of([row for row in everywhere if row["name"] not in taken])


def test_help(commands, everywhere, adapters):
    for command in commands:
        text = run(command, "--help")
        check("--help of %s" % command, names_in(text), wanted_of(command, commands, everywhere))
        check("`help %s`" % command, run("help", command), text)
        wide = [line for line in text.split("\n") if len(line) > 80]
        check("lines of %s --help above 80 columns" % command, wide, [])
        for part in ("Usage: lmtrace %s" % command, "Exit codes:", "See lmtrace-%s(1)" % command, "Examples:"):
            check("%s in --help of %s" % (part, command), part in text, True)
        # Choices and defaults are there too.
        folded = re.sub(r"\s+", " ", text)
        for row in commands[command]:
            if row["default"] not in (None, "") and row["type"] != "bool":
                check("default of --%s in --help" % row["name"], "default %s" % row["default"] in folded, True)
            if row["type"] == "choice":
                check("choices of --%s in --help" % row["name"], row["range"].replace("|", ", ") in folded, True)
    text = run("--help")
    for command in commands:
        check("%s in lmtrace --help" % command, re.search(r"^  %s +\S" % command, text, re.M) is not None, True)
    check("global options in lmtrace --help", names_in(text), names_of(everywhere))
    # No final stop, a capital in front: sentences of one kind.
    for row in everywhere + sum(commands.values(), []) + sum(adapters.values(), []):
        check("wording of %s" % row["name"], bool(row["help"]) and row["help"][0].isupper() and row["help"][-1] != ".", True)


def rendered(page):
    """The page as text; without man, roff's own words are simple enough."""
    with open(os.path.join(DATA, page), encoding="utf-8") as file:
        roff = file.read()
    lines = [re.sub(r"^\.(B|BR|SH|SS|IR|TP|TH|PP|nf|fi)\b ?", " ", line) for line in roff.split("\n")]
    return roff, "\n".join(" " + line.replace("\\-", "-").replace("\\e", "\\").replace("\\&", "") for line in lines)


def test_man(commands, everywhere, adapters):
    for command in PAGES:
        _, text = rendered("lmtrace-%s.1" % command)
        check("man page of %s" % command, names_in(text), wanted_of(command, commands, everywhere))
    _, text = rendered("lmtrace.1")
    check("man page of lmtrace", names_in(text), names_of(everywhere))
    for command in commands:
        check("%s in lmtrace(1)" % command, "lmtrace-%s (1)" % command in text, True)
    roff, text = rendered("lmtrace-plugins.7")
    for adapter, rows in adapters.items():
        section = text.split("Adapter %s\n" % adapter)
        check("adapter %s in lmtrace-plugins(7)" % adapter, len(section), 2)
        entries = section[1].split("Adapter ")[0]
        for row in rows:
            check("key %s of %s" % (row["name"], adapter), re.search(r"^ +%s$" % re.escape(row["name"]), entries, re.M) is not None, True)
    if shutil.which("man") is not None:
        for page in ["lmtrace.1", "lmtrace-plugins.7"] + ["lmtrace-%s.1" % command for command in PAGES]:
            done = subprocess.run(["man", "-l", "--warnings", os.path.join(DATA, page)], capture_output=True, text=True,
                                  env=dict(os.environ, MANWIDTH="80", LC_ALL="C.UTF-8"))
            check("warnings of man about %s" % page, (done.returncode, done.stderr), (0, ""))


class Shell:
    """One bash that counts how often lmtrace is asked."""

    def __init__(self, folder):
        self.count = os.path.join(folder, "count")
        wrapper = os.path.join(folder, "lmtrace")
        with open(wrapper, "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\necho x >> %s\nexec %s \"$@\"\n" % (self.count, LMTRACE))
        os.chmod(wrapper, 0o755)
        self.folder = folder
        self.env = dict(os.environ, PATH=folder + ":" + os.environ["PATH"], LC_ALL="C.UTF-8")

    def complete(self, lines, breaks=None):
        """What bash would offer for each line, in one shell."""
        script = ["source %s" % os.path.join(DATA, "lmtrace.bash")]
        if breaks is not None:
            script.append("COMP_WORDBREAKS=$'%s'" % breaks)
        for line in lines:
            words = line.split(" ")
            script.append("COMP_LINE=%s COMP_POINT=%d COMP_WORDS=(%s) COMP_CWORD=%d COMPREPLY=()"
                          % (quote(line), len(line), " ".join(map(quote, words)), len(words) - 1))
            script.append("_lmtrace; printf '%s\\t' \"${COMPREPLY[@]}\"; echo")
        done = subprocess.run(["bash", "--norc", "-c", "\n".join(script)], capture_output=True, text=True, env=self.env,
                              cwd=self.folder, check=True)
        check("stderr of the completion", done.stderr, "")
        return [set(filter(None, line.split("\t"))) for line in done.stdout.split("\n")[:len(lines)]]


def quote(word):
    return "'" + word.replace("'", "'\\''") + "'"


def test_completion(commands, everywhere, adapters):
    with tempfile.TemporaryDirectory() as folder:
        shell = Shell(folder)
        for name in ("a.lct", "b.lct.gz", "note.txt"):
            open(os.path.join(folder, name), "w").close()
        os.mkdir(os.path.join(folder, "sub"))
        fs = {row["name"] + "=" for row in adapters["fs"]}
        engine = next(row for row in adapters["fs"] if row["name"] == "engine")["range"].split("|")
        cases = [("lmtrace ", set(commands)), ("lmtrace in", {"info"}), ("lmtrace --format json rep", {"replay", "replay-events"}),
                 ("lmtrace help li", {"list-plugins"}), ("lmtrace -", names_of(everywhere)),
                 ("lmtrace replay --l2 ", set(adapters)), ("lmtrace replay --l2 f", {name for name in adapters if name[0] == "f"}),
                 ("lmtrace replay --l2 fs:", fs), ("lmtrace replay --l2 fs:base_path=/x,eng", {"/x,engine="}),
                 ("lmtrace replay --l2 fs:engine=", set(engine)), ("lmtrace replay --l2=fs:eng", {"engine="}),
                 ("lmtrace replay --eviction-policy ", {"LRU", "ARC", "IsolatedLRU", "noop"}),
                 ("lmtrace replay --eviction-policy=A", {"ARC"}), ("lmtrace replay --format=", {"text", "json", "csv"}),
                 ("lmtrace replay ", {"a.lct", "b.lct.gz", "sub"}), ("lmtrace info a.lct b", {"b.lct.gz"}),
                 ("lmtrace import mooncake n", {"note.txt"}), ("lmtrace record --clock ", {"virtual", "real"}),
                 ("lmtrace replay --output ", {"a.lct", "b.lct.gz", "note.txt", "sub", "lmtrace", "count"}),
                 ("lmtrace replay --no-such ", {"a.lct", "b.lct.gz", "sub"}), ("lmtrace nothing --zz", set())]
        cases += [("lmtrace %s --" % command, wanted_of(command, commands, everywhere)) for command in commands]
        for (line, wanted), found in zip(cases, shell.complete([line for line, _ in cases])):
            check("completion of %r" % line, found, wanted)
        with open(shell.count, encoding="utf-8") as file:
            check("times lmtrace was asked", file.read(), "x\n")
        # Without : and = among the breaks the whole word is offered.
        check("whole words", shell.complete(["lmtrace replay --l2=fs:eng"], breaks=" \\t\\n"), [{"--l2=fs:engine="}])
    for shell_name, file_name in (("zsh", "_lmtrace"), ("fish", "lmtrace.fish")):
        if shutil.which(shell_name) is not None:
            done = subprocess.run([shell_name, "-n", os.path.join(DATA, file_name)], capture_output=True, text=True)
            check("%s reads %s" % (shell_name, file_name), (done.returncode, done.stderr), (0, ""))


def test_readme(commands, everywhere, adapters):
    """The table in the README is one this build prints: each of its rows is there, and no place was left to fill. (What it shows of the
    coordinator is the events suite's.)"""
    source = os.environ["LMT_SOURCE_DIR"]
    with open(os.path.join(source, "README.md"), encoding="utf-8") as file:
        text = file.read()
    check("README.md: places to fill", re.findall(r"@[A-Z]+@", text), [])
    shown = [line[4:] for line in text.partition("## Cache events")[0].split("\n") if line.startswith("    ") and not line.startswith("    ./dev")]
    with tempfile.TemporaryDirectory() as folder:
        table = run("replay", os.path.join(source, "data", "traces", "chat.lct"), "--l1-size-gb", "1", "--eviction-policy", "LRU",
                    "--l2-adapter", json.dumps({"type": "fs", "base_path": os.path.join(folder, "kv")}), "--speed", "20", "--no-csv",
                    cwd=folder, stderr=subprocess.DEVNULL).split("\n")
    # A percentile bears its mark where the samples are too few, a cause only shows where a miss has it: the rest always stands.
    there = {line.split(":")[0].rstrip("*") for line in table}
    check("README.md: its table", len(shown) > 20, True)
    check("README.md: rows the program doesn't print", [line for line in shown if line.split(":")[0].rstrip("*") not in there
                                                        and line.split(":")[0] not in ("Broken prefix", "First touch")], [])


def main():
    place = tables()
    tests = [test_help, test_man, test_completion, test_readme]
    print("1..%d" % len(tests))
    bad = False
    for number, test in enumerate(tests, 1):
        failures.clear()
        if test is test_completion and shutil.which("bash") is None:
            print("ok %d %s # SKIP no bash" % (number, test.__name__))
            continue
        test(*place)
        for line in failures[:20]:
            print("# " + line)
        print("%s %d %s" % ("not ok" if failures else "ok", number, test.__name__))
        bad = bad or bool(failures)
    sys.exit(1 if bad else 0)


main()
