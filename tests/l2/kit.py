#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check-adapter and bench-adapter on adapters of the tests' own: what S3 and raw NVMe will do at the border, and one that breaks its rules."""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

PLUGINS = sys.argv.pop(1)
LMTRACE = os.environ["LMT_LMTRACE"]


def lmtrace(*words, timeout=200):
    return subprocess.run([LMTRACE, "--plugin-dir", PLUGINS, *words], capture_output=True, text=True, timeout=timeout, check=False)


def metrics(done):
    return json.loads(done.stdout)["metrics"]


class Contract(unittest.TestCase):
    """The border serves what comes next without a change."""

    def check(self, config, passed, skipped):
        done = lmtrace("check-adapter", "--json", json.dumps(config))
        found = metrics(done)
        bad = [line for line in found["scenarios"] if line["result"] == "not ok"]
        self.assertEqual((done.returncode, bad), (0, []))
        self.assertGreaterEqual(found["passed"], passed)
        self.assertEqual({line["needs"] for line in found["scenarios"] if line["result"] == "skip"}, skipped)
        return found

    def test_worker_threads_and_parts(self):
        found = self.check({"type": "dummy-s3", "part_bytes": 5000, "depth": 7}, 41, {"persist", "tamper"})
        self.assertEqual((found["plugin"]["name"], found["plugin"]["version"], found["plugin"]["abi"]), ("l2-dummy-s3", "0.1.0", 1))
        self.assertEqual((found["adapter"], found["depth"]), ("dummy-s3", 7))
        self.assertEqual(found["capabilities"], ["keep", "data", "delete", "capacity"])
        self.assertEqual(found["passed"] + found["not_applicable"], len(found["scenarios"]))

    def test_slots_and_pieces(self):
        found = self.check({"type": "dummy-nvme"}, 26, {"persist", "tamper", "a key that sets the capacity", "usage by length", "larger objects"})
        self.assertEqual((found["buffer_align_bytes"], found["charge_bytes"]), (4096, 524288))

    def test_large_objects(self):
        # 64 MiB in parts of 8 MiB; 3 MiB in pieces of 504 KiB out of registered memory
        done = lmtrace("bench-adapter", "--json", "--count", "12", "--size", "64MiB", "--working-set", "128MiB", "--depth", "2", '{"type":"dummy-s3"}')
        found = metrics(done)
        self.assertEqual((done.returncode, found["store"]["errors"], found["load"]["wrong_objects"]), (0, 0, 0))
        self.assertEqual(found["store"]["ops"] + found["load"]["ops"], 12)
        done = lmtrace("bench-adapter", "--json", "--count", "60", "--size", "3000KiB", "--working-set", "30MiB", "--depth", "4",
                       '{"type":"dummy-nvme","slots":40,"slot_bytes":3145728}')
        found = metrics(done)
        self.assertEqual((done.returncode, found["store"]["errors"], found["load"]["wrong_objects"]), (0, 0, 0))
        self.assertGreater(found["load"]["ops"], 10)


class Naughty(unittest.TestCase):
    """Detected, named, counted; never a crash, never a hang."""

    def check(self, how, only, code, pattern):
        done = lmtrace("check-adapter", json.dumps({"type": "naughty", "how": how}), "--only", only)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        self.assertRegex(done.stdout, pattern)
        return done

    def test_good(self):
        done = self.check("good", "[d-u]*", 0, r"\d+ passed, 0 failed")
        self.assertIn("ok store-lookup-load-delete\n", done.stdout)

    def test_late_is_no_fault(self):
        self.check("late", "store-lookup-load-delete", 0, "^ok store-lookup-load-delete\n")

    def test_twice(self):
        self.check("twice", "store-lookup-load-delete", 1,
                   r"^not ok store-lookup-load-delete: expected each io back once and with a result, found \d+ that were not: "
                   r"naughty: io \d+ \(store\): handed back twice\n")

    def test_foreign(self):
        self.check("foreign", "store-lookup-load-delete", 1, r"naughty: an io was handed back that was never submitted\n")

    def test_unsubmitted(self):
        self.check("unsubmitted", "store-lookup-load-delete", 1, r"found \d+ that were not: naughty: ")

    def test_bad_code(self):
        self.check("badcode", "load-beyond-depth", 1, r"^not ok load-beyond-depth: store of object 0 \(\d+ bytes\): expected ok, found io\n")

    def test_errors(self):
        self.check("error", "store-lookup-load-delete", 1, r"^not ok store-lookup-load-delete: step \d+ \(wait\): expected .*\"code\":\"IO\"")

    def test_never(self):
        done = self.check("never", "store-lookup-load-delete", 1, r"^not ok store-lookup-load-delete: step \d+ \(wait\): expected .*\"timeout\":true")
        self.assertTrue(done.stdout.endswith("0 passed, 1 failed, 0 not applicable\n"))

    def test_wrong_sizes(self):
        for how in ("short", "toolong"):
            self.check(how, "load-mixed-sizes", 1, r"^not ok load-mixed-sizes: load of object \d+ \(\d+ bytes\): expected ok, found data\n")

    def test_past_the_buffer(self):
        self.check("past", "load-mixed-sizes", 1, r"^not ok load-mixed-sizes: load of object \d+: expected nothing past the buffer's end, found it written\n")

    def test_wrong_bytes(self):
        self.check("wrongbytes", "load-mixed-sizes", 1, r"^not ok load-mixed-sizes: load of object \d+ \(\d+ bytes\): expected its bytes, found others from byte \d+\n")

    def test_forgets(self):
        self.check("forgets", "load-mixed-sizes", 1, r"^not ok load-mixed-sizes: lookup of object \d+ \(\d+ bytes\): expected ok, found not-found\n")

    def test_leak(self):
        self.check("leak", "leak-reopen", 1, r"^not ok leak-reopen: expected \d+ descriptors after 16 opens and closes, found \d+\n")

    def crash(self, how, ended, *words):
        """Each check on its own: those that load fail, with the step; the rest goes on."""
        done = lmtrace("check-adapter", *words, json.dumps({"type": "naughty", "how": how}), "--only", "l[ol]*")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        lines = done.stdout.splitlines()
        for name, step in (("load-partial", r"step 3 \(wait\)"), ("load-mixed-sizes", r"load of object \d+ and others"),
                           ("load-beyond-depth", r"load of object \d+")):
            self.assertTrue([line for line in lines if re.fullmatch(f"not ok {name}: {step}: {ended}", line)], done.stdout)
        for name in ("lock-refcount", "lookup-missing", "lookup-partial"):
            self.assertIn(f"ok {name}", lines)
        self.assertEqual(lines[-1], "3 passed, 5 failed, 0 not applicable")

    def test_crash(self):
        self.crash("crash", r"expected a result, found it crashed by signal 11 \(Segmentation fault\)")
        self.crash("abort", r"expected a result, found it crashed by signal 6 \(Aborted\)")

    def test_crash_in_close(self):
        """Named by what it did, not by the last step before."""
        self.check("crashclose", "load-partial", 1,
                   r"^not ok load-partial: close: expected a result, found it crashed by signal 11 \(Segmentation fault\)\n")

    def test_far_past_the_buffer(self):
        self.crash("overrun", r"expected a result, found it crashed by signal 11 \(Segmentation fault\): it touched memory that isn't its own")

    def test_exit(self):
        self.crash("exit", r"expected a result, found its process ended with status 7")

    def test_hang(self):
        self.crash("hang", r"expected an end within 1 s, found it hanging: killed", "--patience", "1")

    def test_hang_at_the_end(self):
        done = lmtrace("check-adapter", "--patience", "1", '{"type":"naughty","how":"hangclose"}')
        self.assertEqual((done.returncode, done.stdout.splitlines()[-1]), (1, "0 passed, 1 failed, 0 not applicable"))
        self.assertRegex(done.stdout, r"^not ok open: close: expected an end within \d+ s, found it hanging: killed\n")

    def test_crash_at_open(self):
        done = lmtrace("check-adapter", "--json", '{"type":"naughty","how":"crashopen"}')
        found = metrics(done)
        self.assertEqual((done.returncode, found["failed"], found["plugin"]["name"]), (1, 1, "l2-naughty"))
        self.assertEqual(found["scenarios"][0]["message"], "expected a result, found it crashed by signal 11 (Segmentation fault)")

    def test_crash_in_json(self):
        done = lmtrace("check-adapter", "--json", '{"type":"naughty","how":"crash"}', "--only", "load-partial")
        line = metrics(done)["scenarios"][0]
        self.assertEqual((line["step"], line["op"]), (3, "wait"))
        self.assertIn("crashed by signal 11", line["message"])

    def test_nothing_is_left_running(self):
        done = lmtrace("check-adapter", "--patience", "1", '{"type":"naughty","how":"hang"}', "--only", "load-partial")
        self.assertEqual(done.returncode, 1)
        for entry in os.listdir("/proc"):
            try:
                with open(f"/proc/{entry}/cmdline", "rb") as file:
                    words = file.read().split(b"\0")
            except OSError:
                continue
            self.assertFalse(words[0] == LMTRACE.encode() and b"--patience" in words and PLUGINS.encode() in words and b"load-partial" in words)

    def test_no_word_of_submit(self):
        self.check("strange", "store-lookup-load-delete", 1, r"^not ok store-lookup-load-delete: step \d+ \(wait\): ")

    def test_bench_counts(self):
        words = ("bench-adapter", "--json", "--count", "100", "--size", "4KiB", "--working-set", "64KiB")
        done = lmtrace(*words, '{"type":"naughty","how":"error"}')
        self.assertEqual((done.returncode, metrics(done)["store"]["codes"]), (1, {"io": metrics(done)["store"]["ops"]}))
        done = lmtrace(*words, '{"type":"naughty","how":"wrongbytes"}')
        self.assertEqual(done.returncode, 0)  # one bit in the middle of a page isn't looked at
        done = lmtrace(*words, '{"type":"naughty","how":"twice"}')
        self.assertGreater(metrics(done)["run"]["protocol_errors"], 0)
        self.assertIn("handed back twice", done.stderr)


class Files(unittest.TestCase):
    """A mistake in a scenario file is said, and isn't taken for one of the adapter's."""

    def test_mistakes(self):
        folder = tempfile.mkdtemp(prefix="lmt-kit-")
        self.addCleanup(shutil.rmtree, folder)
        key = {"model_name": "m", "kv_rank": 1, "object_group_id": 0, "chunk_hash": "00", "cache_salt": ""}
        good = {"schema": "lmtrace-l2-contract/1", "name": "x", "requires": [], "keys": {"a": key}, "buffers": {"A": {"size": 10, "seed": 1}}, "steps": [
            {"op": "store", "task": "s", "keys": ["a"], "buffers": ["A"]}, {"op": "wait", "task": "s", "require": {"ok": True}}]}
        cases = (
            ({}, "ok x"),
            ({"schema": "other/1"}, "schema: expected lmtrace-l2-contract/1, found another"),
            ({"steps": [{"op": "leap"}]}, 'step 0: op: expected a known step, found {"op": "leap"}'),
            ({"steps": [{"op": "wait", "task": "s"}]}, 'step 0: task: expected the task of an earlier step, found "s"'),
            ({"steps": [{"op": "store", "task": "s", "keys": ["b"], "buffers": ["A"]}]}, 'step 0: keys: expected a name of "keys", found "b"'),
            ({"steps": [{"op": "store", "task": "s", "keys": ["a"], "buffers": ["B"]}]}, 'step 0: buffers: expected a name of "buffers", found "B"'),
            ({"steps": [{"op": "load", "task": "s", "keys": ["a"], "sizes": [1 << 40]}]}, "step 0: sizes: expected bytes, at most 1073741824, found 1099511627776"),
            ({"steps": [{"op": "evict", "policy": "best"}]}, 'step 0: policy: expected an eviction policy, found "best"'),
            ({"steps": [{"op": "usage", "require": 3}]}, "step 0: require: expected an object, found 3"),
            ({"steps": [{"op": "tamper", "action": "remove", "key": "z"}]}, 'step 0: key: expected a name of "keys", found "z"'),
            ({"keys": {"a": {**key, "chunk_hash": "0"}}}, "chunk_hash: expected pairs of small hex digits"),
            ({"keys": {"a": {**key, "cache_salt": "x/y"}}}, "key: expected fields that make a key, found that cache_salt"),
            ({"buffers": {"A": {"size": -1}}}, "buffers: expected a size, at most 1073741824"),
        )
        for change, text in cases:
            path = folder + "/file.json"
            with open(path, "w", encoding="utf-8") as file:
                json.dump({**good, **change}, file)
            done = lmtrace("check-adapter", '{"type":"dram"}', "--scenarios", path, "--only", "[fx]*")
            self.assertEqual(done.returncode, 0 if text == "ok x" else 1, done.stdout)
            self.assertIn(text, done.stdout.splitlines()[0])
        with open(path, "w", encoding="utf-8") as file:
            file.write("{")
        done = lmtrace("check-adapter", '{"type":"dram"}', "--scenarios", path, "--only", "[fx]*")
        self.assertRegex(done.stdout, "^not ok file.json: .*file.json: line 1")
        os.remove(path)
        os.symlink("/dev/zero", path)
        done = lmtrace("check-adapter", '{"type":"dram"}', "--scenarios", path, "--only", "[fx]*")
        self.assertRegex(done.stdout, "^not ok file.json: .*file.json: expected at most 16 MiB, found more")
        self.assertEqual(done.returncode, 1)


class Bench(unittest.TestCase):
    def test_kinds(self):
        words = ("bench-adapter", "--json", "--count", "300", "--size", "8KiB", "--working-set", "256KiB", "--seed", "3")
        found = metrics(lmtrace(*words, "--read", "100%", '{"type":"dram"}'))
        self.assertEqual((found["store"]["ops"], found["load"]["ops"], found["load"]["bytes"]), (0, 300, 300 * 8192))
        found = metrics(lmtrace(*words, "--read", "0", '{"type":"dram"}'))
        self.assertEqual((found["store"]["ops"], found["load"]["ops"], found["store"]["bytes"]), (300, 0, 300 * 8192))
        self.assertGreaterEqual(found["delete"]["ops"], 300 - 32)  # the working set stays as large as asked
        found = metrics(lmtrace(*words, '{"type":"null"}'))
        self.assertEqual(found["load"]["codes"], {"not-found": found["load"]["ops"]})
        # Same seed, same draw.
        self.assertEqual(metrics(lmtrace(*words, '{"type":"dram"}'))["load"]["ops"], metrics(lmtrace(*words, '{"type":"dram"}'))["load"]["ops"])

    def test_queue_and_depth(self):
        # 2 ms each, no more than two at a time in the adapter: eight in flight wait in the core
        found = metrics(lmtrace("bench-adapter", "--json", "--count", "64", "--size", "4KiB", "--working-set", "64KiB", "--read", "100%",
                                '{"type":"dram","latency_us":2000,"depth":2}'))
        self.assertLessEqual(found["run"]["depth_max"], 2)
        self.assertGreater(found["load"]["queue"]["p50_ms"], found["load"]["service"]["p50_ms"])
        self.assertGreaterEqual(found["load"]["service"]["p50_ms"], 2)

    def test_keep(self):
        folder = tempfile.mkdtemp(prefix="lmt-kit-")
        self.addCleanup(shutil.rmtree, folder)
        config = json.dumps({"type": "fs", "base_path": folder + "/kv", "sync": "none"})
        words = ("bench-adapter", "--count", "40", "--size", "4KiB", "--working-set", "64KiB")
        self.assertEqual(lmtrace(*words, config).returncode, 0)
        self.assertEqual([n for n in os.listdir(folder + "/kv") if not n.startswith(".lmt")], [])
        self.assertEqual(lmtrace(*words, "--keep", config).returncode, 0)
        self.assertGreater(len(os.listdir(folder + "/kv")), 10)
        # Its medium isn't empty any more: nobody's objects are deleted for a check.
        done = lmtrace("check-adapter", config)
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("expected a medium without objects, found", done.stderr)

    def test_what_stays_is_said(self):
        words = ("bench-adapter", "--json", "--count", "300", "--size", "4KiB", "--working-set", "256KiB")
        # Stores that fail leave nothing behind: no word of it.
        done = lmtrace(*words, '{"type":"fault","store_rate":0.2,"inner":{"type":"dram"}}')
        self.assertEqual(done.returncode, 1)
        self.assertNotIn("stay on the medium", done.stderr)
        done = lmtrace(*words, '{"type":"fault","delete_rate":0.2,"inner":{"type":"dram"}}')
        self.assertRegex(done.stderr, r"\d+ bytes could not be deleted: they stay on the medium\n")

    def test_errors_by_code(self):
        done = lmtrace("bench-adapter", "--count", "300", "--size", "4KiB", "--working-set", "256KiB", "--read", "0",
                       '{"type":"fault","store_rate":0.2,"inner":{"type":"dram"}}')
        self.assertRegex(done.stdout, r"Store -+\n(?s:.*)\nerrors: +(\d+)\n  io: +\1\n")

    def test_model_out(self):
        folder = tempfile.mkdtemp(prefix="lmt-kit-")
        self.addCleanup(shutil.rmtree, folder)
        path = folder + "/table.json"
        done = lmtrace("bench-adapter", "--model-out", path, "--count", "30", "--size", "64KiB", "--depth", "4", "--working-set", "1MiB",
                       '{"type":"dram","latency_us":500}')
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertRegex(done.stdout, r"Adapter model(?s:.*)table: +%s\n(?s:.*)size classes: +3\n(?s:.*)depths: +3\n" % re.escape(path))
        with open(path, encoding="utf-8") as file:
            table = json.load(file)
        # The model plays it: as slow as what was measured, or slower where the draw says so.
        played = metrics(lmtrace("bench-adapter", "--json", "--count", "200", "--size", "64KiB", "--depth", "4", "--working-set", "1MiB",
                                 json.dumps({"type": "model", "table": path})))
        self.assertGreaterEqual(played["load"]["completion"]["p50_ms"], 0.5)
        done = lmtrace("bench-adapter", "--model-out", "-", "--count", "3", "--size", "1KiB", "--depth", "1", "--working-set", "8KiB", '{"type":"dram"}')
        self.assertEqual((done.returncode, json.loads(done.stdout)["schema"]), (0, "lmtrace/l2-model/1"))
        self.assertEqual(list(table), ["schema", "load", "store", "lookup", "delete"])
        self.assertEqual(table["schema"], "lmtrace/l2-model/1")
        limits = [(row["max_bytes"], row["max_depth"]) for row in table["load"]]
        self.assertEqual(limits, [(size, depth) for size in (4096, 16384, None) for depth in (1, 2, None)])
        for row in table["load"] + table["store"] + table["lookup"] + table["delete"]:
            self.assertEqual((len(row["us"]), row["us"]), (7, sorted(row["us"])))
        self.assertGreaterEqual(table["load"][0]["us"][0], 500)

    def test_refusals(self):
        for words, text in (((("--size", "1MiB", "--working-set", "4KiB", '{"type":"null"}')), "--working-set: expected at least one object"),
                            (('{"type":"nosuch"}',), "unknown adapter type 'nosuch'"), (("--read", "150%", '{"type":"null"}'), "--read: expected"),
                            (("--model-out", "/nowhere/x.json", '{"type":"null"}'), "/nowhere"), ((), "expected at least 1 operand")):
            done = lmtrace("bench-adapter", *words)
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertIn(text, done.stderr)
        done = lmtrace("check-adapter", '{"type":"null"}', "--only", "nothing-of-that-name")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        done = lmtrace("check-adapter", '{"type":"null"}', "--scenarios", "/nowhere/at/all")
        self.assertEqual(done.returncode, 2)
        self.assertTrue(re.match("lmtrace: /nowhere/at/all: expected scenario files, found", done.stderr))


if __name__ == "__main__":
    unittest.main()
