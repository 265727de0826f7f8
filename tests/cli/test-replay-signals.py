#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Signals at many places (cli.md 8.10, 9.9), the progress line, pipes and terminals (8.9, 9.10)."""
import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time

import lib
from lib import Tests, contains, demo, end, equal, header, start, true, write

test = Tests()
# Whoever runs the tests under nohup hands an ignored SIGHUP down, and lmtrace leaves it ignored.
signal.signal(signal.SIGHUP, signal.SIG_DFL)


def slow_trace(folder, seconds=30.0, before=3):
    return write(os.path.join(folder, "slow.lct"), header(), *[demo(i / 1000) for i in range(before)], demo(seconds), demo(seconds + 1))


def begin(folder, file, *args, **more):
    return start("replay", file, "--output-dir", os.path.join(folder, "out"), "--jsonl-out", os.path.join(folder, "r.jsonl"), "--json",
                 *args, **more)


def wait_for_lines(path, n, seconds=20.0):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if os.path.exists(path) and open(path).read().count("\n") >= n:
            return
        time.sleep(0.02)
    raise AssertionError("%s never had %d lines" % (path, n))


def check_partial(folder, run, replayed, not_reached):
    equal(run.code, 130, repr(run))
    doc = run.json
    equal([doc["partial"], doc["exit"]], [True, 130])
    overall = doc["metrics"]["overall"]
    equal([overall["replayed"], overall["not_reached"]], [replayed, not_reached])
    summary = json.load(open(os.path.join(folder, "out", "trace_replay_summary.json")), parse_constant=lib.no_constant)
    equal(summary["partial"], True)
    true(os.path.exists(os.path.join(folder, "out", "trace_replay_ops.csv")))
    lines = [json.loads(line) for line in open(os.path.join(folder, "r.jsonl"))]
    equal(len(lines), replayed)


def interrupted_while_waiting(number):
    def check(folder):
        process = begin(folder, slow_trace(folder), "--format", "json")
        wait_for_lines(os.path.join(folder, "r.jsonl"), 3)
        process.send_signal(number)
        check_partial(folder, end(process), 3, 2)
    return check


for name in ("SIGINT", "SIGTERM", "SIGHUP"):
    test.add("waiting_for_a_record_%s" % name, interrupted_while_waiting(getattr(signal, name)))


@test
def text_says_partial(folder):
    process = begin(folder, slow_trace(folder))
    wait_for_lines(os.path.join(folder, "r.jsonl"), 3)
    process.send_signal(signal.SIGINT)
    run = end(process)
    equal(run.code, 130)
    contains(run.text, "interrupted")
    contains(run.text, "Records not reached:")


@test
def before_the_header(folder):
    fifo = os.path.join(folder, "fifo")
    os.mkfifo(fifo)
    process = begin(folder, fifo, "--format", "json")
    writer = os.open(fifo, os.O_WRONLY)
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    run = end(process)
    os.close(writer)
    equal(run.code, 130, repr(run))
    equal([run.json["partial"], run.json["exit"]], [True, 130])


@test
def opening_a_fifo_nobody_writes(folder):
    fifo = os.path.join(folder, "fifo")
    os.mkfifo(fifo)
    process = begin(folder, fifo)
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    equal(end(process).code, 130)


@test
def between_records_of_a_pipe(folder):
    process = subprocess.Popen([lib.LMTRACE, "replay", "-", "--output-dir", folder + "/out", "--jsonl-out", folder + "/r.jsonl", "--json",
                                "--format", "json"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               env=lib.environment())
    process.stdin.write(header() + demo(0) + demo(0.001) + demo(0.002)[:20])
    process.stdin.flush()
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    code = process.wait(20)
    run = lib.Run(code, process.stdout.read(), process.stderr.read())
    process.stdin.close()
    equal(run.code, 130, repr(run))
    equal(run.json["metrics"]["overall"]["replayed"], 2)
    equal(run.json["partial"], True)


@test
def during_the_drain(folder):
    file = write(os.path.join(folder, "a.lct"), header(), demo(0), demo(0.001, "late", 60000))
    process = begin(folder, file, "--format", "json", "--drain-timeout", "60s")
    time.sleep(0.7)
    process.send_signal(signal.SIGINT)
    time.sleep(0.3)
    true(process.poll() is None, "the first signal doesn't stop the drain")
    process.send_signal(signal.SIGINT)
    run = end(process)
    equal(run.code, 130, repr(run))
    equal([run.json["partial"], run.json["metrics"]["status"]["unsettled"]], [True, 1])


@test
def first_signal_then_drain_then_end(folder):
    file = write(os.path.join(folder, "a.lct"), header(), demo(0, "late", 1000), demo(0.001), demo(60))
    process = begin(folder, file, "--format", "json")
    time.sleep(0.4)
    process.send_signal(signal.SIGINT)
    run = end(process)
    equal(run.code, 130)
    lines = {line["n"]: line for line in map(json.loads, open(os.path.join(folder, "r.jsonl")))}
    equal(sorted(lines), [1, 2])
    true(lines[1]["done_ms"] >= 1000, lines)


@test
def drain_timeout(folder):
    file = write(os.path.join(folder, "a.lct"), header(), demo(0, "late", 60000))
    before = time.monotonic()
    run = end(begin(folder, file, "--drain-timeout", "200ms", "--format", "json"))
    true(time.monotonic() - before < 20)
    equal([run.code, run.json["metrics"]["status"]["unsettled"]], [0, 1], repr(run))
    equal(json.loads(open(os.path.join(folder, "r.jsonl")).read())["done_ms"], None)


@test
def third_signal_is_the_end(folder):
    file = write(os.path.join(folder, "a.lct"), header(), demo(60))
    process = begin(folder, file)
    time.sleep(0.3)
    os.kill(process.pid, signal.SIGSTOP)
    for _ in range(3):
        process.send_signal(signal.SIGINT)
    os.kill(process.pid, signal.SIGCONT)
    run = end(process)
    true(run.code in (130, -signal.SIGINT), repr(run))


@test
def at_random_moments(folder):
    file = write(os.path.join(folder, "a.lct"), header(), *[demo(i / 100000, "late" if i % 97 == 0 else "ok", 1) for i in range(20000)])
    for i in range(10):
        process = begin(folder, file, "--format", "json", "--speed", "1")
        time.sleep(0.004 + 0.02 * i)
        process.send_signal(signal.SIGINT)
        run = end(process)
        true(run.code in (0, 130, -signal.SIGINT), repr(run))
        if run.code == -signal.SIGINT:
            continue  # before the handlers were there
        doc = run.json
        equal([doc["partial"], doc["exit"]], [run.code == 130, run.code])
        if "metrics" in doc:
            overall = doc["metrics"]["overall"]
            equal(overall["n"] + overall["not_reached"], 20000)


@test
def usr1_shows_an_interim_table(folder):
    process = begin(folder, slow_trace(folder))
    wait_for_lines(os.path.join(folder, "r.jsonl"), 3)
    process.send_signal(signal.SIGUSR1)
    time.sleep(0.5)
    process.send_signal(signal.SIGTERM)
    run = end(process)
    equal(run.code, 130)
    contains(run.errors, "Records replayed:                                              3")
    equal(run.text.count("Trace Replay Result"), 1)


@test
def several_files_are_all_reported(folder):
    second = write(os.path.join(folder, "b.lct"), header(), demo(0))
    process = begin(folder, slow_trace(folder), second, "--format", "json")
    wait_for_lines(os.path.join(folder, "r.jsonl"), 3)
    process.send_signal(signal.SIGINT)
    run = end(process)
    equal([run.code, run.json["partial"]], [130, True])
    equal([f["metrics"]["overall"]["n"] for f in run.json["metrics"]["files"]], [3, 0])


# -------- terminals --------

def on_terminal(columns, args, seconds=2.0, stop=True, wanted=None, **more):
    """Runs with stderr on a terminal, interrupted after a time or once a pattern is seen; returns (exit code, what the terminal
    got, stdout)."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    process = subprocess.Popen([lib.LMTRACE, *args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=slave,
                               env=lib.environment(**more))
    os.close(slave)
    got = b""
    until = time.monotonic() + seconds
    while process.poll() is None or select.select([master], [], [], 0.05)[0]:
        if select.select([master], [], [], 0.05)[0]:
            try:
                piece = os.read(master, 65536)
            except OSError:
                break
            if not piece:
                break
            got += piece
        if stop and (time.monotonic() > until or (wanted and re.search(wanted, got))) and process.poll() is None:
            process.send_signal(signal.SIGINT)
            stop = False
    out = process.stdout.read()
    process.wait(240)
    os.close(master)
    return process.returncode, got, out


def screen(got, columns):
    """What a terminal of that width shows in the end, and the longest line it was asked for."""
    longest = 0
    shown = [""]
    for piece in re.split(r"(\r\n|\r|\n)", got.decode()):
        if piece in ("\n", "\r\n"):
            shown.append("")
        elif piece == "\r":
            shown[-1] = "\0" + shown[-1].lstrip("\0")
        else:
            old = shown[-1].lstrip("\0") if shown[-1].startswith("\0") else ""
            prefix = "" if shown[-1].startswith("\0") else shown[-1]
            line = prefix + piece
            longest = max(longest, len(line))
            shown[-1] = line + old[len(line):]
    return [line.replace("\0", "").rstrip() for line in shown], longest


@test
def progress_on_a_narrow_terminal(folder):
    code, got, out = on_terminal(40, ["replay", slow_trace(folder), "--no-csv", "--output-dir", folder], TERM="xterm")
    equal(code, 130)
    true(b"\x1b" not in got, got)
    contains(got.decode(), "replay ")
    shown, longest = screen(got, 40)
    true(longest < 40, longest)
    true(not any("errors" in line or "%" in line for line in shown), shown)
    contains(out.decode(), "Trace Replay Result")
    true(b"\x1b" not in out)


@test
def progress_shows_figures(folder):
    before = time.monotonic()
    code, got, out = on_terminal(200, ["replay", slow_trace(folder), "--no-csv", "--output-dir", folder], TERM="xterm")
    text = got.decode()
    for part in ("60% 3/5", "lag ", "p99 ", "demo calls 3", "errors 0", "ETA 0:"):
        contains(text, part)
    draws = text.count("3/5")
    true(1 <= draws <= 10 * (time.monotonic() - before) + 2, "drawn %d times" % draws)
    equal([code, b"\x1b" in out], [130, False])


@test
def progress_never_and_dumb(folder):
    for args, more in ((["--progress", "never"], {"TERM": "xterm"}), (["-q"], {"TERM": "xterm"}), ([], {"TERM": "dumb"})):
        code, got, _ = on_terminal(80, ["replay", slow_trace(folder), "--no-csv", "--output-dir", folder, *args], seconds=1.0, **more)
        equal(code, 130)
        true(b"\r" not in got.replace(b"\r\n", b""), got)
        true(b"\x1b" not in got, got)


@test
def a_stall_is_named(folder):
    """An adapter that doesn't answer, in the settling after a record and in the drain at the end."""
    for args in (["--speed", "0"], ["--speed", "1"]):
        file = write(os.path.join(folder, "s.lct"), header("storage"), lib.reserve(0, "A"), lib.finish(0.001, "A"))
        code, got, _ = on_terminal(400, ["replay", file, "--no-csv", "--output-dir", folder, "--l1-size-gb", "0.0625",
                                         "--eviction-policy", "LRU", "--l2", "dram:latency_us=60000000", *args], seconds=50.0,
                                   wanted=rb"stalled \d+s on l2#0 \(dram\)", TERM="xterm")
        true(re.search(rb"stalled ([5-9]|[1-9]\d)s on l2#0 \(dram\)", got), got)
        equal(code, 130 if args[1] == "0" else code)


@test
def log_lines_on_a_pipe(folder):
    process = begin(folder, slow_trace(folder), "--interval", "200ms")
    time.sleep(1.5)
    process.send_signal(signal.SIGINT)
    run = end(process)
    got = [line for line in lib.lines(run.errors) if "replay " in line and "3/5" in line]
    true(len(got) >= 2, repr(run))
    true("\r" not in run.errors and "\x1b" not in run.errors, repr(run))
    process = begin(folder, slow_trace(folder), "--interval", "200ms", "--progress", "never")
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    true("3/5" not in end(process).errors)


@test
def colours(folder):
    bad = [demo(0, "undecodable")] * 2
    file = write(os.path.join(folder, "a.lct"), header(), *bad, demo(0))
    args = ["replay", file, "--no-csv", "--output-dir", folder]
    _, got, out = on_terminal(80, args, stop=False, TERM="xterm")
    true(b"\x1b[" in got, got)
    true(b"\x1b" not in out)
    for more in ({"TERM": "xterm", "NO_COLOR": "1"}, {"TERM": "dumb"}, {"TERM": "xterm", "LMTRACE_COLOR": "never"}):
        _, got, out = on_terminal(80, args, stop=False, **more)
        true(b"\x1b" not in got + out, repr(more))
    _, got, _ = on_terminal(80, args + ["--color", "never"], stop=False, TERM="xterm")
    true(b"\x1b" not in got)
    run = lib.lmtrace(*args)
    true(b"\x1b" not in run.err + run.out)
    run = lib.lmtrace(*args, "--color", "always", env=lib.environment(NO_COLOR="1"))
    true(b"\x1b[" in run.err and b"\x1b" not in run.out, repr(run))


if __name__ == "__main__":
    sys.exit(test.main())
