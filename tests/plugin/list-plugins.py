#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Bad plugins seen from the command line: by --plugin exit 2 and one line; in a folder listed, and the run goes on."""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

BUILT = sys.argv.pop(1)
LMTRACE = os.environ["LMT_LMTRACE"]
REASONS = {
    "nosymbol": "no lmt_plugin_get: not an lmtrace plugin",
    "abi": "plugin ABI 2, this lmtrace speaks 1: rebuild it against these headers",
    "short": 'adapter "bad": struct_size 24, the smallest accepted is 152',
    "nullcb": 'adapter "bad": submit: expected a function, found NULL',
    "badname": 'adapter "Bad Name": name: expected [a-z][a-z0-9_-]*, found "Bad Name"',
    "half": "load() failed: this machine has no such device",
    "unresolved": "cannot open: ",
}


def path_of(name):
    return os.path.join(BUILT, f"lmt-l2-{name}.so")


def run(*args, **kwargs):
    env = dict(os.environ, **kwargs.pop("env", {}))
    return subprocess.run([LMTRACE, *args], capture_output=True, text=True, env=env, timeout=60, check=False)


class ListPlugins(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="lmt-list-")
        self.addCleanup(shutil.rmtree, self.dir)

    def put(self, name, as_name=None):
        to = os.path.join(self.dir, as_name or f"lmt-l2-{name}.so")
        shutil.copy(path_of(name), to)
        return to

    def test_by_name(self):
        for name, reason in REASONS.items():
            with self.subTest(name):
                done = run("--plugin", path_of(name), "version")
                self.assertEqual(done.returncode, 2)
                self.assertEqual(done.stdout, "")
                self.assertTrue(done.stderr.startswith(f"lmtrace: {path_of(name)}: {reason}"), done.stderr)
                self.assertEqual(done.stderr.count("\n"), 1)

    def test_by_name_json(self):
        done = run("version", "--json", "--plugin", path_of("abi"))
        self.assertEqual(done.returncode, 2)
        envelope = json.loads(done.stdout)
        self.assertEqual(envelope["exit"], 2)
        self.assertIn("plugin ABI 2", envelope["error"]["message"])
        self.assertNotIn("metrics", envelope)
        self.assertEqual(done.stderr.count("\n"), 1)

    def test_in_folder(self):
        for name in [*REASONS, "good"]:
            self.put(name)
        args = ("--plugin-dir", self.dir, "--no-default-plugins")
        done = run("list-plugins", *args)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        lines = {line.split("  ")[0]: line for line in done.stdout.splitlines()}
        self.assertEqual(done.stdout.splitlines()[0].split(), "plugin version abi state provides path".split())
        self.assertIn("adapter good", lines["l2-good"])
        for name, reason in REASONS.items():
            found = [line for line in done.stdout.splitlines() if f"/lmt-l2-{name}.so" in line]
            if name == "nosymbol":
                self.assertEqual(found, [])
                continue
            self.assertEqual(len(found), 1)
            self.assertIn(f"/lmt-l2-{name}.so  {reason}", found[0])
            self.assertIn("refused", found[0])
        self.assertEqual(run("version", *args).returncode, 0)
        self.assertEqual(run("list-plugins", "--strict", *args).returncode, 1)

    def test_debug_names_strangers(self):
        self.put("nosymbol")
        done = run("list-plugins", "--plugin-dir", self.dir, "--no-default-plugins", "--log-level", "debug")
        self.assertIn("no lmt_plugin_get: not an lmtrace plugin", done.stderr)

    def test_json(self):
        for name in ("good", "abi", "newer"):
            self.put(name)
        second = os.path.join(self.dir, "second")
        os.mkdir(second)
        shutil.copy(path_of("good"), second)
        done = run("list-plugins", "--json", "--plugin-dir", self.dir, "--plugin-dir", second, "--no-default-plugins")
        self.assertEqual(done.returncode, 0)
        envelope = json.loads(done.stdout)
        self.assertEqual(envelope["schema"], "lmtrace/list-plugins/1")
        plugins = {p["path"]: p for p in envelope["metrics"]["plugins"]}
        good = plugins[os.path.join(self.dir, "lmt-l2-good.so")]
        self.assertEqual((good["state"], good["abi"], good["version"]), ("loaded", 1, "1.0"))
        self.assertEqual(good["adapters"][0]["name"], "good")
        self.assertEqual(good["adapters"][0]["threads"], "one")
        refused = plugins[os.path.join(self.dir, "lmt-l2-abi.so")]
        self.assertEqual((refused["state"], refused["reason"]), ("refused", REASONS["abi"]))
        shadowed = plugins[os.path.join(second, "lmt-l2-good.so")]
        self.assertEqual((shadowed["state"], shadowed["shadowed_by"]), ("shadowed", good["path"]))
        builtin = plugins["builtin"]
        commands = {c["name"]: c for c in builtin["commands"]}
        self.assertTrue({"info", "replay", "list-plugins", "help", "version"} <= set(commands))
        for option in commands["replay"]["options"]:
            self.assertTrue(option["name"] and option["type"] and option["help"], option)
        self.assertIn("plugin-dir", [o["name"] for o in envelope["metrics"]["global_options"]])

    def test_one(self):
        self.put("good")
        args = ("--plugin-dir", self.dir, "--no-default-plugins")
        for name in ("l2-good", "good", "lmt-l2-good.so"):
            done = run("list-plugins", name, *args)
            self.assertEqual(done.returncode, 0)
            self.assertIn("adapter good (threads: one)", done.stdout)
        done = run("list-plugins", "l2-god", *args)
        self.assertEqual((done.returncode, done.stderr), (2, "lmtrace: unknown plugin 'l2-god': did you mean 'l2-good'?\n"))
        done = run("help", "l2-good", *args)
        self.assertEqual(done.returncode, 0)
        self.assertIn("adapter good", done.stdout)

    def test_core_knows_nobody(self):
        """Core is told all names: no level, adapter, command, qualname or tag of any plugin stands in its sources."""
        plugins = json.loads(run("list-plugins", "--json").stdout)["metrics"]["plugins"]
        names = {e["name"] for p in plugins if p["path"] != "builtin" for kind in ("levels", "adapters", "aliases", "commands", "qualnames", "tags") for e in p[kind]}
        self.assertIn("fs", names)
        names -= {"null", "model", "record"}  # also a word of JSON, a field of keys, the type of a frame
        core = os.path.join(os.environ["LMT_SOURCE_DIR"], "core")
        for file in sorted(os.listdir(core)):
            if file.endswith(".c"):
                with open(os.path.join(core, file), encoding="utf-8") as source:
                    text = source.read()
                self.assertEqual([n for n in names if f'"{n}"' in text], [], file)
                self.assertNotRegex(text, r"\bstorage\b|\bs3\b|StorageManager", file)

    def test_no_current_folder(self):
        self.put("good")
        done = subprocess.run([LMTRACE, "list-plugins"], capture_output=True, text=True, cwd=self.dir, check=False,
                              env=dict(os.environ, LMTRACE_PLUGIN_PATH=":", HOME=self.dir))
        self.assertNotIn("l2-good", done.stdout)
        done = subprocess.run([LMTRACE, "--plugin", "lmt-l2-good.so", "list-plugins"], capture_output=True, text=True, cwd=self.dir,
                              check=False, env=dict(os.environ, LMTRACE_PLUGIN_PATH=""))
        self.assertIn("l2-good", done.stdout)


if __name__ == "__main__":
    unittest.main()
