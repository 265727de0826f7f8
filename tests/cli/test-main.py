#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What every command has from main.c: finding the command, global options, help, failures in text and JSON, streams (cli.md 8.1 to 8.5)."""
import json
import os
import re
import subprocess
import sys

import lib
from lib import LMTRACE, Tests, contains, environment, equal, header, lines, lmtrace, refused, true, write

test = Tests()
COMMANDS = ("info", "replay", "list-plugins", "help", "version")


@test
def no_command(folder):
    run = lmtrace()
    equal((run.code, run.out), (2, b""))
    true(run.errors.startswith("Usage: lmtrace [GLOBAL OPTIONS] COMMAND"))


@test
def unknown_command(folder):
    for word, meant in (("inof", "info"), ("repaly", "replay"), ("list-plugin", "list-plugins"), ("Version", "version")):
        run = lmtrace(word)
        refused(run)
        equal(run.errors, "lmtrace: unknown command '%s': did you mean '%s'?\n" % (word, meant))
    run = lmtrace("--no-default-plugins", "xyzzy", "--plugin-dir", folder)
    refused(run)
    equal(run.errors, "lmtrace: unknown command 'xyzzy': known: help, info, list-plugins, replay, version; searched: %s\n" % folder)
    refused(lmtrace("../info"))
    refused(lmtrace(b"\xff\n"))


@test
def unknown_command_json(folder):
    run = lmtrace("--json", "inof")
    equal(run.code, 2)
    equal(run.errors, "lmtrace: unknown command 'inof': did you mean 'info'?\n")
    doc = run.json
    equal((doc["exit"], doc["partial"], doc["error"]["code"]), (2, False, "no-command"))
    true("metrics" not in doc)


@test
def globals_on_both_sides(folder):
    for words in (("--json", "version"), ("version", "--json"), ("--format", "json", "version"), ("--format=json", "--", "version"),
                  ("-q", "--json=-", "version")):
        run = lmtrace(*words)
        equal(run.code, 0, repr(run))
        if "-q" not in words:
            equal(run.json["metrics"]["abi"], 1)


@test
def wrong_globals(folder):
    for words, message in ((("--outptu", "x", "version"), "--outptu: unknown option: did you mean --output?"),
                           (("version", "--outptu", "x"), "--outptu: unknown option: did you mean --output?"),
                           (("--format", "yaml", "version"), '--format: expected one of text, json, csv, found "yaml"'),
                           (("--color=blue", "version"), '--color: expected one of auto, always, never, found "blue"'),
                           (("version", "--plugin-dir"), "--plugin-dir: "), (("version", "--quiet=3"), "--quiet: "),
                           (("version", "--config", os.path.join(folder, "none")), os.path.join(folder, "none") + ": ")):
        run = lmtrace(*words)
        refused(run, repr(words))
        contains(run.errors, message)


@test
def operands(folder):
    run = lmtrace("info")
    refused(run)
    contains(run.errors, "info: expected at least 1 operand, found 0: usage: lmtrace info ")
    run = lmtrace("version", "twice")
    refused(run)
    contains(run.errors, "version: expected no operand, found 'twice'")
    refused(lmtrace("list-plugins", "a", "b"))


@test
def help_texts(folder):
    for words in (("--help",), ("-h",), ("--help-all",), ("help",), *[(c, "--help") for c in COMMANDS], *[("help", c) for c in COMMANDS],
                  ("replay", "--l1-size-gb", "nonsense", "-h"), ("-h", "info")):
        run = lmtrace(*words)
        equal((run.code, run.errors), (0, ""), repr(words))
        true(run.text.startswith("Usage: lmtrace "), repr(words))
        contains(run.text, "Exit codes:\n")
        true(run.text.endswith(".\n"), repr(words))
        if "--help-all" not in words:
            too_long = [line for line in lines(run.text) if len(line) > 80]
            equal(too_long, [], repr(words))
        for line in lines(run.text):
            equal(line, line.rstrip(), repr(words))
    for command in COMMANDS:
        text = lmtrace(command, "--help").text
        equal(text, lmtrace("help", command).text)
        contains(text, "Usage: lmtrace %s" % command)
        contains(text, "  -h, --help")
        contains(text, "\nExamples:\n  lmtrace ")
        contains(lmtrace("--help").text, "\n  %s " % command)


@test
def help_of_a_plugin(folder):
    for name in ("l2-null", "l2-fs", "l2-dram"):
        text = lmtrace("help", name).text
        contains(text, "state loaded")
        contains(text, "adapter ")
    contains(lmtrace("--help-all").text, "adapter fs")
    contains(lmtrace("replay", "--help-all").text, "adapter fs")
    true("adapter fs" not in lmtrace("replay", "--help").text)
    run = lmtrace("help", "xyzzy")
    refused(run)
    contains(run.errors, "unknown command 'xyzzy'")


@test
def version(folder):
    run = lmtrace("version")
    equal((run.code, run.errors), (0, ""))
    text = lines(run.text)
    true(re.fullmatch(r"lmtrace \d+\.\d+\.\d+", text[0]), text[0])
    equal(text[1:3], ["plugin ABI 1", "reads: format 1, schema 1 2"])
    true(text[3].startswith("built with: "))
    equal(lmtrace("--version").out, run.out)
    equal(lmtrace("info", "--version").out, run.out)
    metrics = lmtrace("version", "--json").json["metrics"]
    equal(metrics["version"], text[0].split()[1])
    equal((metrics["abi"], metrics["formats"], metrics["schemas"]), (1, [1], [1, 2]))
    contains(metrics["lmcache_releases"], "0.5.6")
    true(metrics["features"])


@test
def options_everywhere_the_same(folder):
    """--help and list-plugins --json are made from one table: every option of one is in the other."""
    plugins = lmtrace("list-plugins", "--json").json["metrics"]
    builtin = [p for p in plugins["plugins"] if p["path"] == "builtin"][0]
    for command in builtin["commands"]:
        text = lmtrace(command["name"], "--help").text
        own = {o["name"] for o in command["options"]}
        for name in own | {o["name"] for o in plugins["global_options"]}:
            true(re.search(r"--(\[no-\]|no-)?%s\b" % re.escape(name), text), "%s: --%s" % (command["name"], name))


@test
def output_file(folder):
    path = os.path.join(folder, "v.json")
    run = lmtrace("version", "--json", "--output", path)
    equal((run.code, run.errors), (0, ""))
    equal(json.load(open(path)), run.json)
    run = lmtrace("version", "--json", "--output", path, "-q")
    equal((run.code, run.out), (0, b""))
    equal(os.listdir(folder), ["v.json"])
    refused(lmtrace("version", "--output", os.path.join(folder, "no", "where")))
    refused(lmtrace("version", "--output", folder))
    equal(os.listdir(folder), ["v.json"])


@test
def no_standard_streams(folder):
    """What is opened first must not get their numbers: messages would be written into it."""
    fifo = os.path.join(folder, "fifo")
    os.mkfifo(fifo)
    process = subprocess.Popen([LMTRACE, "info", fifo], env=environment(), preexec_fn=lambda: os.closerange(0, 3))
    try:
        writer = os.open(fifo, os.O_WRONLY)  # it has come to open it
        equal([os.readlink("/proc/%d/fd/%d" % (process.pid, fd)) for fd in range(3)], ["/dev/null"] * 3)
        os.write(writer, header() + b"\0\0\0\x05junk!")
        os.close(writer)
        equal(process.wait(timeout=60), 1)
    finally:
        process.kill()
        process.wait()


@test
def closed_stdout(folder):
    for words in ((["help", "replay"]), ["list-plugins", "--json"], ["version"]):
        read_end, write_end = os.pipe()
        os.close(read_end)
        done = subprocess.run([LMTRACE, *words], stdout=write_end, stderr=subprocess.PIPE, env=environment(), timeout=60)
        os.close(write_end)
        equal((done.returncode, done.stderr), (0, b""), repr(words))


@test
def full_disk(folder):
    if not os.path.exists("/dev/full"):
        return
    for words in (["help"], ["version"], ["list-plugins", "--json"], ["--help"]):
        with open("/dev/full", "wb") as full:
            done = subprocess.run([LMTRACE, *words], stdout=full, stderr=subprocess.PIPE, env=environment(), timeout=60)
        equal(done.returncode, 1, repr(words))
        equal(done.stderr.count(b"\n"), 1)
        contains(done.stderr.decode(), "No space left on device")


@test
def full_disk_beside(folder):
    """--json=PATH where nothing fits any more: stdout holds one document, the failure. As text, the report is on stdout."""
    if not os.path.exists("/dev/full"):
        return
    trace = write(os.path.join(folder, "a.lct"), header(), lib.demo(0))
    for words in (["help"], ["version"], ["list-plugins"], ["info", trace], ["info", trace, trace]):
        run = lmtrace(*words, "--json=/dev/full")
        equal(run.code, 1, repr(words))
        equal(run.errors.count("\n"), 1)
        contains(run.errors, "/dev/full: cannot write: No space left on device")
        equal([run.json["error"]["code"], run.json["error"]["file"], run.json["exit"], "metrics" in run.json],
              ["io", "/dev/full", 1, False])
        run = lmtrace(*words, "--output", "/dev/full")
        equal((run.code, run.errors.count("\n")), (1, 1))
        equal(run.out, lmtrace(*words).out)
        # a report that broke off isn't followed by another document
        path = os.path.join(folder, "report")
        with open("/dev/full", "wb") as full:
            done = subprocess.run([LMTRACE, *words, "--json=" + path], stdout=full, stderr=subprocess.PIPE, env=environment(), timeout=60)
        equal(done.returncode, 1, repr(words))
        equal(done.stderr.count(b"\n"), 1)
        with open(path, encoding="utf-8") as file:
            equal(json.load(file)["exit"], 0)


@test
def stdout_by_another_name(folder):
    wanted = lmtrace("version", "--json").out
    for more in ((), ("-q",)):
        equal(lmtrace("version", "--json=/dev/stdout", *more).out, wanted)
        path = os.path.join(folder, "report")
        with open(path, "wb") as out:
            done = subprocess.run([LMTRACE, "version", "--json=" + path, *more], stdout=out, env=environment(), timeout=60)
        equal(done.returncode, 0)
        with open(path, "rb") as file:
            equal(file.read(), wanted)


@test
def configuration_file(folder):
    path = os.path.join(folder, "lmtrace.conf")
    with open(path, "w") as file:
        file.write("[lmtrace]\nplugin-dir=%s\nformat=json\n[version]\nquiet=false\n" % folder)
    run = lmtrace("version", env=environment(LMTRACE_CONFIG=path))
    equal(run.json["metrics"]["abi"], 1)
    run = lmtrace("list-plugins", "--config", path)
    contains(run.json["metrics"]["folders"], folder)
    # the line beats the file, and --no-config leaves it out
    true(lmtrace("version", "--config", path, "--format", "text").text.startswith("lmtrace "))
    true(lmtrace("version", "--no-config", env=environment(LMTRACE_CONFIG=path)).text.startswith("lmtrace "))


@test
def configurations_that_never_end(folder):
    fifo = os.path.join(folder, "fifo")
    os.mkfifo(fifo)
    for path, found in (("/dev/zero", "expected at most 1 MiB, found more"), (folder, "found a directory"),
                        (fifo, "expected a pipe somebody writes to, found none who did")):
        for run in (lmtrace("version", "--config", path, timeout=60), lmtrace("version", env=environment(LMTRACE_CONFIG=path), timeout=60)):
            refused(run, path)
            equal(run.errors, "lmtrace: %s: %s\n" % (path, "expected a file or a pipe, " + found if path == folder else found))
    done = subprocess.run(["bash", "-c", '"$0" version --config <(printf "[lmtrace]\nformat=json\n[version]\nquiet=true\noutput=$1\n")', LMTRACE,
                           os.path.join(folder, "report")], stdout=subprocess.PIPE,
                          env=environment(), timeout=60)
    equal((done.returncode, done.stdout), (0, b""))
    with open(os.path.join(folder, "report"), encoding="utf-8") as file:
        equal(json.load(file)["metrics"]["abi"], 1)


@test
def log_levels(folder):
    debug = lambda run: "Loaded plugin" in run.errors
    true(not debug(lmtrace("list-plugins")))
    true(debug(lmtrace("-vv", "list-plugins")))
    true(debug(lmtrace("list-plugins", "--log-level", "debug")))
    true(debug(lmtrace("list-plugins", env=environment(LMTRACE_LOG_LEVEL="debug"))))
    true(not debug(lmtrace("list-plugins", "-v", env=environment(LMTRACE_LOG_LEVEL="debug"))))
    true(not debug(lmtrace("list-plugins", "-vv", "--log-level", "error")))
    for line in lines(lmtrace("list-plugins", "-vv", "--log-format", "json").errors):
        true(json.loads(line)["message"])


@test
def unknown_level(folder):
    """info shows any level; replay says who is known and where was searched."""
    file = write(os.path.join(folder, "x.lct"), header("kafka"))
    equal(lmtrace("info", file).code, 0)
    run = lmtrace("replay", file)
    refused(run)
    contains(run.errors, "unknown level 'kafka'")
    contains(run.errors, "storage")
    contains(run.errors, "; searched: ")
    evil = write(os.path.join(folder, "y.lct"), header("../../../tmp/evil"))
    refused(lmtrace("replay", evil))


@test
def old_name(folder):
    link = os.path.join(folder, "lmcache-trace")
    os.symlink(LMTRACE, link)
    done = subprocess.run([link, "version"], stdout=subprocess.PIPE, env=environment(), timeout=60)
    equal(done.returncode, 0)
    equal(done.stdout, lmtrace("version").out)


@test
def a_failure_names_its_file_for_machines(folder):
    """From what is known, not out of the message: a name may hold what parts a message's members, or be no UTF-8."""
    import os
    odd = os.path.join(os.fsencode(folder), b"at offset 7: record \xff.lct")
    with open(odd, "wb") as f:
        f.write(b"\x00\x00\x00\x09\x81")
    shown = odd.decode("utf-8", "replace")
    error = lmtrace("replay", odd, "--format", "json").json["error"]
    equal([error["code"], error["file"], error["offset"], error["file_hex"]], ["truncated", shown, 0, odd.hex()])
    missing = os.path.join(folder, "not: here.lct")
    error = lmtrace("replay", missing, "--format", "json").json["error"]
    equal([error["code"], error["file"], error["offset"], "file_hex" in error], ["io", missing, None, False])
    error = lmtrace("info", "--config", missing, odd, "--format", "json").json["error"]
    equal([error["file"], error["offset"]], [missing, None])
    error = lmtrace("info", "--plugin", missing, odd, "--format", "json").json["error"]
    equal([error["code"], error["file"]], ["plugin-open", missing])
    error = lmtrace("info", odd, "--nosuch", "--format", "json").json["error"]
    equal([error["file"], error["offset"]], [None, None])
    found = lmtrace("info", odd, "--format", "json").json
    equal([part for part in found["metrics"]["files"] if "file_hex" in part][0]["file_hex"] if "files" in found.get("metrics", {})
          else found["error"]["file_hex"], odd.hex())


if __name__ == "__main__":
    sys.exit(test.main())
