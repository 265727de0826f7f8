#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""doc/examples, out of the tree: record.c as C and as C++, record.py by ctypes; lmtrace reads what they record."""
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import unittest

BUILD, SOURCE, PREFIX = sys.argv[1:4]
CC = shlex.split(sys.argv[4])
CXX = shlex.split(sys.argv[5])
SANITIZE = sys.argv[6]
del sys.argv[1:7]
MESON = re.search(r"^ command = (.*?) --internal regenerate", pathlib.Path(BUILD, "build.ninja").read_text(), re.M).group(1)
EXAMPLES = pathlib.Path(SOURCE, "doc", "examples")


class Recording(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory(prefix="lmt-recording-")
        top = pathlib.Path(cls.scratch.name)
        root = top / "root"
        subprocess.run([*shlex.split(MESON), "install", "-C", BUILD, "--no-rebuild", "--destdir", str(root)], check=True, capture_output=True)
        prefix = root / PREFIX.lstrip("/")
        cls.library = next(prefix.rglob("liblmtrace-1.so.0"))
        pc = next(prefix.rglob("lmtrace-1.pc"))
        pc.write_text(re.sub(r"^prefix=.*$", f"prefix={prefix}", pc.read_text(), flags=re.M))
        cls.top = top
        cls.env = dict(os.environ, PKG_CONFIG_PATH=str(pc.parent), LD_LIBRARY_PATH=str(cls.library.parent), HOME=str(top))
        cls.env.pop("LMTRACE_PLUGIN_PATH", None)
        cls.lmtrace = str(next(prefix.rglob("bin/lmtrace")))

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    def run_well(self, *command):
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=self.env, timeout=100)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done

    def build_and_record(self, compiler, name):
        program, out = self.top / name, self.top / (name + ".lct")
        flags = shlex.split(self.run_well("pkg-config", "--cflags", "--libs", "lmtrace-1").stdout)
        sanitize = [f"-fsanitize={SANITIZE}"] if SANITIZE != "none" else []
        language = ["-x", "c++"] if compiler is CXX else []
        self.run_well(*compiler, "-Wall", "-Wextra", "-Werror", "-O1", *sanitize, "-o", str(program), *language, str(EXAMPLES / "record.c"), "-x", "none", *flags)
        said = self.run_well(str(program), str(out)).stdout
        self.assertRegex(said, r"^1002 records, \d+ bytes; 0 dropped, 0 encode errors, 0 write errors$")
        info = self.run_well(self.lmtrace, "info", str(out)).stdout
        self.assertRegex(info, r"level: +demo\n")
        self.assertRegex(info, r"total_records: +1002\n")
        for line in ("demo.store.put: 1000", "demo.store.get: 1", "demo.store.move: 1"):
            self.assertIn(line, info)
        data = out.read_bytes()
        self.assertIn(b'{"store": "demo"}', data)
        self.assertNotIn(b"early", data)
        self.assertNotIn(b"late", data)
        self.assertIn(b"\xa4from\xa4here\xa2to\xa5there\xa5tries\xff", data)
        self.assertIn(b"\x82\xa3key\xc4\x03abc\xa6wait_s\xcb\x3f\xe0", data)

    def test_c(self):
        self.build_and_record(CC, "record-c")

    def test_cxx(self):
        self.build_and_record(CXX, "record-cxx")

    @unittest.skipIf(SANITIZE != "none", "the interpreter isn't built with the sanitizer")
    def test_python(self):
        out = self.top / "python.lct"
        self.run_well(sys.executable, str(EXAMPLES / "record.py"), str(out), str(self.library))
        info = self.run_well(self.lmtrace, "info", str(out)).stdout
        self.assertRegex(info, r"total_records: +101\n")
        data = out.read_bytes()
        self.assertIn(b"\xa5model\xa7m\xc3\xbcller\xa6pinned\xc2\xa5owner\xc0", data)
        self.assertIn(b"\xa9demo.drop\xa4args\x81\xa3key\xc4\x02\x07\xff", data)
        self.assertNotIn(b"early", data)
        self.assertNotIn(b"late", data)


    @unittest.skipIf(SANITIZE != "none", "the interpreter isn't built with the sanitizer")
    def test_unloaded(self):
        """A program that closes the library while a thread that recorded lives on: the thread ends well all the same."""
        self.run_well(sys.executable, "-c", """if True:
            import _ctypes, ctypes, sys, threading
            sys.path.insert(0, sys.argv[1])
            import record
            library = record.load(sys.argv[2])
            level = record.Level(library, "demo", {"demo.put": ("key",)})
            recorder = record.Recorder(library, level, sys.argv[3])
            published, unloaded = threading.Event(), threading.Event()
            thread = threading.Thread(target=lambda: (level.publish("demo.put", 1), published.set(), unloaded.wait()))
            thread.start()
            published.wait()
            recorder.close()
            _ctypes.dlclose(library._handle)
            unloaded.set()
            thread.join()
            """, str(EXAMPLES), str(self.library), str(self.top / "unloaded.lct"))
        self.assertRegex(self.run_well(self.lmtrace, "info", str(self.top / "unloaded.lct")).stdout, r"total_records: +1\n")


if __name__ == "__main__":
    unittest.main()
