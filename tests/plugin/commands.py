#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Commands of plugins: found by file name, then by opening the rest; options, help, failures as for built-in ones."""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

PLUGIN = sys.argv.pop(1)
LMTRACE = os.environ["LMT_LMTRACE"]


class Commands(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="lmt-commands-")
        self.addCleanup(shutil.rmtree, self.dir)
        shutil.copy(PLUGIN, os.path.join(self.dir, "lmt-cmd-echo.so"))

    def run_lmtrace(self, *args):
        return subprocess.run([LMTRACE, "--no-default-plugins", "--plugin-dir", self.dir, *args], capture_output=True, text=True, timeout=60, check=False)

    def check(self, args, code, out, err=""):
        done = self.run_lmtrace(*args)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (code, out, err))

    def test_options(self):
        self.check(["echo"], 0, "word=none json=0 extra=-\n")
        self.check(["echo", "a", "--word", "x", "b", "--code=7"], 7, "word=x json=0 extra=- [a] [b]\n")
        self.check(["echo", "--", "--word"], 0, "word=none json=0 extra=- [--word]\n")
        self.check(["echo", "a", "b", "c"], 2, "", "lmtrace: echo: expected at most 2 operands, found 3: usage: lmtrace echo [OPTIONS] [WORD...]\n")
        done = self.run_lmtrace("echo", "--wrod", "x")
        self.assertEqual((done.returncode, done.stderr), (2, "lmtrace: --wrod: unknown option: did you mean --word?\n"))

    def test_own_json_wins(self):
        self.check(["echo", "--json"], 0, "word=none json=1 extra=-\n")
        self.assertEqual(json.loads(self.run_lmtrace("echo", "--format", "json").stdout)["schema"], "lmtrace/echo/1")

    def test_prepared(self):
        self.check(["echo-more", "--extra=e", "w"], 0, "word=none json=0 extra=e [w]\n")
        self.check(["echo-more", "bad-file"], 2, "", "lmtrace: bad-file: cannot open: it is bad\n")

    def test_failure(self):
        self.check(["echo", "--fail"], 2, "", "lmtrace: echo: no echo in here\n")
        self.check(["echo", "--fail", "--code", "1"], 1, "", "lmtrace: echo: no echo in here\n")
        done = self.run_lmtrace("echo", "--fail", "--format", "json", "--code", "1")
        envelope = json.loads(done.stdout)
        self.assertEqual((envelope["exit"], envelope["error"]["code"]), (1, "unsupported"))

    def test_found(self):
        # echo-more is in no file of its name: the rest is opened
        self.check(["echo-more"], 0, "word=none json=0 extra=nothing\n")
        link = os.path.join(self.dir, "lmt-cmd-echo-more.so")
        os.symlink("lmt-cmd-echo.so", link)
        self.check(["echo-more"], 0, "word=none json=0 extra=nothing\n")
        self.assertEqual(self.run_lmtrace("list-plugins").stdout.count("cmd-echo"), 2)  # name and path, one row
        done = self.run_lmtrace("ehco")
        self.assertEqual(done.stderr, "lmtrace: unknown command 'ehco': did you mean 'echo'?\n")

    def test_help(self):
        done = self.run_lmtrace("echo-more", "--help")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        for word in ("Usage: lmtrace echo-more [OPTIONS] [WORD...]", "--word", "--extra", "--plugin-dir", "Exit codes:"):
            self.assertIn(word, done.stdout)
        self.assertEqual(done.stdout.count("--json"), 1)
        self.assertIn("\n  echo ", self.run_lmtrace("--help-all").stdout)
        self.assertIn("command echo: Print what came in", self.run_lmtrace("help", "cmd-echo").stdout)


if __name__ == "__main__":
    unittest.main()
