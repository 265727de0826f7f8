#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a plugin's author sees: lmtrace installed to a scratch folder, then nothing but cc and `pkg-config lmtrace-1`.

Builds a new level (demo-mq) with its trace and the null adapter from its own folder; the installed lmtrace serves both.
"""
import json
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
SANITIZE = sys.argv[5]
del sys.argv[1:6]
# The meson that configured this build, which need not be the first one on PATH.
MESON = re.search(r"^ command = (.*?) --internal regenerate", pathlib.Path(BUILD, "build.ninja").read_text(), re.M).group(1)
HERE = pathlib.Path(SOURCE, "tests", "plugin")


class OutOfTree(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory(prefix="lmt-author-")
        top = pathlib.Path(cls.scratch.name)
        cls.root = top / "root"
        cls.work = top / "work"
        cls.work.mkdir()
        subprocess.run([*shlex.split(MESON), "install", "-C", BUILD, "--no-rebuild", "--destdir", str(cls.root)], check=True, capture_output=True)
        cls.prefix = cls.root / PREFIX.lstrip("/")
        cls.libdir = next(cls.prefix.rglob("liblmtrace-1.so")).parent
        pc = next(cls.prefix.rglob("lmtrace-1.pc"))
        # The copy stands under a staging root: its own prefix line is put right, as a package made relocatable would do.
        pc.write_text(re.sub(r"^prefix=.*$", f"prefix={cls.prefix}", pc.read_text(), flags=re.M))
        cls.env = dict(os.environ, PKG_CONFIG_PATH=str(pc.parent), LD_LIBRARY_PATH=str(cls.libdir), HOME=str(top))
        cls.env.pop("LMTRACE_PLUGIN_PATH", None)
        cls.lmtrace = str(next(cls.prefix.rglob("bin/lmtrace")))

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    def pkg(self, *args):
        done = subprocess.run(["pkg-config", *args, "lmtrace-1"], capture_output=True, text=True, check=True, env=self.env)
        return shlex.split(done.stdout)

    def compile(self, source, target, shared):
        flags = ["-shared", "-fPIC", "-fvisibility=hidden"] if shared else []
        flags += [f"-fsanitize={SANITIZE}"] if SANITIZE != "none" and not shared else []
        command = [*CC, "-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter", "-O1", *flags, "-o", str(target), str(source),
                   *self.pkg("--cflags", "--libs")]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=self.env)
        self.assertEqual(done.returncode, 0, done.stderr)
        return target

    def run_lmtrace(self, *args):
        return subprocess.run([self.lmtrace, *map(str, args)], capture_output=True, text=True, env=self.env, check=False, timeout=120)

    def test_1_variables(self):
        self.assertEqual(self.pkg("--variable=abi"), ["1"])
        self.assertEqual(self.pkg("--variable=plugindir"), [str(self.libdir / "lmtrace-1" / "plugins")])
        self.assertTrue((self.libdir / "lmtrace-1" / "plugins" / "lmt-l2-null.so").exists())
        link = self.prefix / "bin" / "lmcache-trace"
        self.assertTrue(link.is_symlink())
        done = subprocess.run([str(link), "inof"], capture_output=True, text=True, env=self.env, check=False)
        self.assertEqual((done.returncode, done.stderr), (2, "lmtrace: unknown command 'inof': did you mean 'info'?\n"))

    def test_1_library_is_found(self):
        if PREFIX == "/usr":
            self.skipTest("below /usr the loader's own folders count")
        env = {key: value for key, value in self.env.items() if key != "LD_LIBRARY_PATH"}
        for name in ("lmtrace", "lmcache-trace"):
            done = subprocess.run([str(self.prefix / "bin" / name), "version"], capture_output=True, text=True, env=env, check=False, cwd="/")
            self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_2_null_adapter(self):
        folder = self.work / "null"
        folder.mkdir()
        self.compile(pathlib.Path(SOURCE, "plugins", "l2", "null", "null-l2.c"), folder / "lmt-l2-null.so", True)
        done = self.run_lmtrace("--no-default-plugins", "--plugin-dir", folder, "list-plugins", "--json")
        plugins = {p["path"]: p for p in json.loads(done.stdout)["metrics"]["plugins"]}
        ours = plugins[str(folder / "lmt-l2-null.so")]
        self.assertEqual((ours["state"], ours["adapters"][0]["name"]), ("loaded", "null"))

    def test_3_new_level(self):
        folder = self.work / "mq"
        folder.mkdir()
        plugin = self.compile(HERE / "demo-mq" / "demo-mq.c", folder / "lmt-level-demo-mq.so", True)
        maker = self.compile(HERE / "demo-mq" / "make-trace.c", folder / "make-trace", False)
        trace = folder / "run.lct"
        subprocess.run([str(maker), str(trace)], check=True, env=self.env)
        exports = subprocess.run(["nm", "-D", "--defined-only", str(plugin)], capture_output=True, text=True, check=True).stdout.split()
        self.assertEqual([name for name in exports if name.startswith(("lmt_", "mq_"))], ["lmt_plugin_get"])

        # Not told where the plugin is: info shows core's block, replay says what is missing.
        done = self.run_lmtrace("info", trace)
        self.assertEqual(done.returncode, 0)
        self.assertIn("demo-mq", done.stdout)
        self.assertNotIn("queue:", done.stdout)
        done = self.run_lmtrace("replay", trace)
        self.assertEqual(done.returncode, 2)
        self.assertEqual(done.stdout, "")
        self.assertIn("unknown level 'demo-mq'", done.stderr)
        self.assertIn("lmtrace-1/plugins", done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1)

        where = ("--plugin-dir", folder)
        done = self.run_lmtrace(*where, "info", trace)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("    Mq.push: 5\n", done.stdout)
        self.assertTrue(done.stdout.endswith("  queue:\n    pushes: 5\n    pops: 1\n    bytes: 111\n"), done.stdout)
        done = self.run_lmtrace(*where, "info", trace, "--json")
        self.assertIn('"queue_bytes": 111', done.stdout)

        # depth 2: the third push fails; one has no topic, one has no handler
        done = self.run_lmtrace(*where, "replay", trace, "--speed", "0", "--no-csv", "--format", "json")
        self.assertEqual(done.returncode, 1, done.stderr)
        overall = json.loads(done.stdout)["metrics"]["overall"]
        self.assertEqual({k: overall[k] for k in ("level", "replayed", "skipped", "failed", "undecodable")},
                         {"level": "demo-mq", "replayed": 4, "skipped": 1, "failed": 1, "undecodable": 1})
        self.assertIn("topic is full", done.stderr)
        self.assertIn("args: missing-field: expected topic", done.stderr)
        done = self.run_lmtrace("replay", trace, "--mq-depth=3", "--no-csv", *where)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(" Queues ", done.stdout)
        self.assertRegex(done.stdout, r"Most waiting: +3\n")
        self.assertRegex(done.stdout, r"push count: +4\n")
        done = self.run_lmtrace(*where, "replay", trace, "--mq-depth=0")
        self.assertEqual(done.returncode, 2)
        self.assertIn('--mq-depth: expected a whole number from 1 to 1000, found "0"', done.stderr)
        done = self.run_lmtrace(*where, "replay", "--help")
        self.assertIn("--mq-depth", done.stdout)
        listed = self.run_lmtrace(*where, "list-plugins", "demo-mq").stdout
        for word in ("level demo-mq", "qualname Mq.push", "qualname Mq.pop", "--mq-depth", "default 2", "range 1..1000"):
            self.assertIn(word, listed)

    # The copy under the staging root doesn't know that it was moved: it is told where its own plugins are.
    @property
    def kit_env(self):
        return dict(self.env, LMTRACE_PLUGIN_PATH=str(self.libdir / "lmtrace-1" / "plugins"), LMTRACE_CONFIG="/dev/null")

    def run_kit(self, *args):
        return subprocess.run([self.lmtrace, *map(str, args)], capture_output=True, text=True, env=self.kit_env, check=False, timeout=240)

    def new_plugin(self, kind, name):
        folder = self.work / ("new-" + kind)
        done = self.run_kit("new-plugin", kind, name, folder)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(sorted(done.stdout.split()), sorted(str(p) for p in folder.iterdir()))
        for path in folder.iterdir():
            self.assertNotRegex(path.read_text(), "@[Nn][Aa][Mm][Ee]@", path)
        return folder

    def make(self, folder, *targets, warnings="-Wall -Wextra -Werror -Wno-unused-parameter"):
        if SANITIZE != "none":
            warnings += " -fsanitize=" + SANITIZE
        env = dict(self.kit_env, CC=" ".join(CC), CFLAGS="-O1 " + warnings, LMTRACE=self.lmtrace)
        if PREFIX != "/usr":  # where the library lies, programs of the templates have to know themselves
            del env["LD_LIBRARY_PATH"]
        done = subprocess.run(["make", "-C", str(folder), *targets], capture_output=True, text=True, check=False, env=env, timeout=240)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def test_4_template_of_an_adapter(self):
        folder = self.new_plugin("l2", "my-disk")
        out = self.make(folder)
        out = self.make(folder, "check")
        lines = [line for line in out.split("\n") if line.startswith(("ok ", "not ok ", "skip "))]
        self.assertEqual([line for line in lines if line.startswith("not ok")], [])
        # What it claims is really looked at: only what needs a medium that lasts, or a hook into it, may be left out.
        self.assertEqual({line.split("needs ")[1] for line in lines if line.startswith("skip")}, {"persist", "tamper"})
        self.assertGreaterEqual(sum(line.startswith("ok ") for line in lines), 38)
        done = self.run_kit("--plugin-dir", folder, "bench-adapter", "--count", "200", "--size", "4096", "--working-set", "64KiB",
                                "--json", '{"type":"my-disk"}')
        self.assertEqual(done.returncode, 0, done.stderr)
        metrics = json.loads(done.stdout)["metrics"]
        self.assertEqual(metrics["store"]["ops"] + metrics["load"]["ops"], 200)
        exports = subprocess.run(["nm", "-D", "--defined-only", str(folder / "lmt-l2-my-disk.so")], capture_output=True, text=True,
                                 check=True).stdout.split()
        self.assertEqual([name for name in exports if name.startswith(("lmt_", "my_"))], ["lmt_plugin_get"])

    def test_5_template_of_a_level(self):
        folder = self.new_plugin("level", "requests")
        out = self.make(folder, "check")
        self.assertIn("  requests:\n    calls: 3\n    bytes: 60\n", out)
        self.assertIn(" Requests ", out)

    def test_6_template_of_a_command(self):
        folder = self.new_plugin("command", "count-letters")
        self.assertRegex(self.make(folder, "check"), r"three: +5\n")
        done = self.run_kit("--plugin-dir", folder, "count-letters", "--times", "2", "--json", "four")
        self.assertEqual(json.loads(done.stdout)["metrics"]["words"], {"four": 8})
        self.assertIn("\n  count-letters ", self.run_kit("--plugin-dir", folder, "--help").stdout)

    @unittest.skipIf(SANITIZE != "none", "the folders' own meson.build knows no sanitizers")
    def test_7_templates_with_meson(self):
        for kind, file in (("l2", "lmt-l2-x9.so"), ("level", "lmt-level-x9.so"), ("command", "lmt-cmd-x9.so")):
            folder = self.work / ("meson-" + kind)
            self.assertEqual(self.run_kit("new-plugin", kind, "x9", folder).returncode, 0)
            env = dict(self.kit_env, CC=" ".join(CC))
            for step in ([*shlex.split(MESON), "setup", str(folder / "build"), str(folder)], ["ninja", "-C", str(folder / "build")]):
                done = subprocess.run(step, capture_output=True, text=True, check=False, env=env, timeout=120)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertIn("x9", self.run_kit("--no-default-plugins", "--plugin-dir", folder / "build", "list-plugins").stdout)
            self.assertTrue((folder / "build" / file).exists())

    def test_7_without_pkg_config(self):
        """Make stops where the cause is, and the configuration to check can be told."""
        for kind in ("l2", "level", "command"):
            folder = self.work / ("lost-" + kind)
            self.assertEqual(self.run_kit("new-plugin", kind, "lost", folder).returncode, 0)
            env = dict(self.kit_env, PKG_CONFIG_LIBDIR="/nowhere", PKG_CONFIG_PATH="")
            done = subprocess.run(["make", "-C", str(folder)], capture_output=True, text=True, check=False, env=env, timeout=60)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn("PKG_CONFIG_PATH", done.stderr)
            self.assertNotIn("fatal error", done.stderr)
        done = subprocess.run(["make", "-n", "-C", str(self.work / "lost-l2"), "check", 'ADAPTER={"type":"lost","depth":3}'], capture_output=True,
                              text=True, check=False, env=self.kit_env, timeout=60)
        self.assertIn("check-adapter '{\"type\":\"lost\",\"depth\":3}'", done.stdout)

    def test_8_new_plugin_refuses(self):
        taken = self.work / "taken"
        taken.mkdir()
        (taken / "Makefile").write_text("mine")
        done = self.run_kit("new-plugin", "l2", "taken", taken)
        self.assertEqual((done.returncode, done.stdout, done.stderr),
                         (2, "", f"lmtrace: {taken}: cannot make the folder: File exists: nothing is overwritten\n"))
        self.assertEqual(((taken / "Makefile").read_text(), len(list(taken.iterdir()))), ("mine", 1))
        for words, text in ((("l3", "x"), 'KIND: expected l2, level or command, found "l3"'), (("l2", "My Disk"), "NAME: expected a small letter"),
                            (("l2", "../x"), "NAME: expected a small letter"), (("l2", "x", "/nowhere/x"), "/nowhere/x: cannot make the folder")):
            done = self.run_kit("new-plugin", *words)
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertIn(text, done.stderr)

    def test_9_check_finds_its_scenarios(self):
        done = self.run_kit("check-adapter", '{"type":"null"}', "--only", "lookup-missing")
        self.assertEqual((done.returncode, done.stdout), (0, "ok lookup-missing\n1 passed, 0 failed, 0 not applicable\n"))


if __name__ == "__main__":
    unittest.main()
