#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every row of cli.md 7 that `replay` can meet: exit code, one line that names the place, nothing printed, nothing left behind."""
import os
import socket
import sys

import lib
from lib import Tests, contains, equal, lmtrace, refused, true, tree

test = Tests()
L1 = ["--l1-size-gb", "0.0625", "--eviction-policy", "LRU"]
MANAGER = ["--l1-manager", '{"type":"DRAM","tag":"_default","size_gb":0.0625,"use_lazy":false}', "--eviction-policy", "LRU"]


def trace(name):
    return os.path.join(lib.TRACES, name)


# (name, arguments behind `replay`, what the line must name). OUT: a folder that must not appear
ROWS = [
    ("file_missing", L1, "replay"),
    ("unknown_flag", [trace("storage-empty.lct"), *L1, "--frobnicate"], "--frobnicate"),
    ("misspelt_flag", [trace("storage-empty.lct"), *L1, "--evictoin-ratio", "0.2"], "--eviction-ratio"),
    ("bad_int", [trace("storage-empty.lct"), *L1, "--l1-init-size-gb", "1.5"], "--l1-init-size-gb"),
    ("bad_float", [trace("storage-empty.lct"), "--l1-size-gb", "1GiB", "--eviction-policy", "LRU"], "--l1-size-gb"),
    ("float_with_underscore", [trace("storage-empty.lct"), "--l1-size-gb", "1_000", "--eviction-policy", "LRU"], "--l1-size-gb"),
    ("float_with_blank", [trace("storage-empty.lct"), "--l1-size-gb", " 1", "--eviction-policy", "LRU"], "--l1-size-gb"),
    ("float_inf", [trace("storage-empty.lct"), "--l1-size-gb", "inf", "--eviction-policy", "LRU"], "--l1-size-gb"),
    ("bad_choice", [trace("storage-empty.lct"), "--l1-size-gb", "1", "--eviction-policy", "FIFO"], "IsolatedLRU"),
    ("ambiguous_abbreviation", [trace("storage-empty.lct"), "--l1", "1"], "--l1"),
    ("abbreviation_names_the_option", [trace("storage-empty.lct"), *L1, "--eviction-r", "0.2"], "--eviction-ratio"),
    ("l1_size_without_unit", [trace("storage-empty.lct"), "--l1-size", "1", "--eviction-policy", "LRU"], "--l1-size-gb"),
    ("no_such_file", ["nosuch.lct", *L1], "nosuch.lct"),
    ("directory", [lib.TRACES, *L1], lib.TRACES),
    ("zero_bytes", [trace("zero-bytes.lct"), *L1], "zero-bytes.lct"),
    ("three_bytes", [trace("three-bytes.lct"), *L1], "three-bytes.lct"),
    ("header_cut", [trace("header-cut.lct"), *L1], "header-cut.lct"),
    ("png", [trace("png.lct"), *L1], "png.lct"),
    ("wrong_magic", [trace("storage-badmagic.lct"), *L1], "LMCT"),
    ("wrong_format_version", [trace("storage-format2.lct"), *L1], "format_version"),
    ("events_level", [trace("events-node-a.lct"), *L1], "events"),
    ("unknown_level", [trace("level-mq.lct"), *L1], "mq"),
    ("no_l1", [trace("storage-empty.lct")], "--l1-size-gb"),
    ("no_policy", [trace("storage-empty.lct"), "--l1-size-gb", "1"], "--eviction-policy"),
    ("both_l1", [trace("storage-empty.lct"), *MANAGER, "--l1-size-gb", "1"], "--l1-manager"),
    ("l1_manager_json", [trace("storage-empty.lct"), "--l1-manager", "{", "--eviction-policy", "LRU"], "--l1-manager"),
    ("l1_manager_key", [trace("storage-empty.lct"), "--l1-manager", '{"type":"DRAM","tag":"a","size_gb":1,"frob":2}', "--eviction-policy",
                        "LRU"], "frob"),
    ("l1_manager_gds", [trace("storage-empty.lct"), "--l1-manager", '{"type":"GDS","tag":"a","size_gb":1}', "--eviction-policy", "LRU"],
     "GDS"),
    ("l1_manager_twice", [trace("storage-empty.lct"), *MANAGER, *MANAGER[:2]], "--l1-manager"),
    ("l2_json", [trace("storage-empty.lct"), *L1, "--l2-adapter", "{type"], "--l2-adapter"),
    ("l2_no_object", [trace("storage-empty.lct"), *L1, "--l2-adapter", "[1]"], "object"),
    ("l2_no_type", [trace("storage-empty.lct"), *L1, "--l2-adapter", '{"path":"/x"}'], "type"),
    ("l2_unknown_type", [trace("storage-empty.lct"), *L1, "--l2-adapter", '{"type":"tape"}'], "fs"),
    ("l2_unknown_key", [trace("storage-empty.lct"), *L1, "--l2-adapter", '{"type":"fs","base_path":"/nowhere","frob":1}'], "frob"),
    ("l2_serde", [trace("storage-empty.lct"), *L1, "--l2-adapter", '{"type":"dram","serde":{"type":"cachegen"}}'], "serde"),
    ("tracing_alone", [trace("storage-empty.lct"), *L1, "--enable-tracing"], "--otlp-endpoint"),
    ("extra_logging_interval", [trace("storage-empty.lct"), *L1, "--extra-logging-interval", "0"], "--extra-logging-interval"),
    ("metrics_sample_rate", [trace("storage-empty.lct"), *L1, "--metrics-sample-rate", "0"], "--metrics-sample-rate"),
    ("size_negative", [trace("storage-empty.lct"), "--l1-size-gb", "-1", "--eviction-policy", "LRU"], "--l1-size-gb"),
    ("size_nan", [trace("storage-empty.lct"), "--l1-size-gb", "nan", "--eviction-policy", "LRU"], "--l1-size-gb"),
    ("size_zero", [trace("storage-empty.lct"), "--l1-size-gb", "0", "--eviction-policy", "LRU"], "--l1-size-gb"),
    ("align", [trace("storage-empty.lct"), *L1, "--l1-align-bytes", "3000"], "--l1-align-bytes"),
    ("watermark", [trace("storage-empty.lct"), *L1, "--eviction-trigger-watermark", "7"], "--eviction-trigger-watermark"),
    ("ttl", [trace("storage-empty.lct"), *L1, "--l1-read-ttl-seconds", "-5"], "--l1-read-ttl-seconds"),
    ("devdax", [trace("storage-empty.lct"), *L1, "--l1-devdax-path", "/dev/dax0.0"], "--l1-devdax-path"),
    ("gds", [trace("storage-empty.lct"), *L1, "--gds-l1-path", "/x"], "GPU"),
    ("speed_negative", [trace("storage-empty.lct"), *L1, "--speed", "-1"], "--speed"),
    ("speed_nan", [trace("storage-empty.lct"), *L1, "--speed", "nan"], "--speed"),
    ("different_levels", [trace("storage-empty.lct"), trace("events-node-a.lct"), *L1], "events"),
    ("trace_level", [trace("storage-empty.lct"), *L1, "--trace-level", "all"], "--trace-level"),
]


def refuse(args, names):
    def check(folder):
        out = os.path.join(folder, "a", "b")
        jsonl = os.path.join(folder, "c", "r.jsonl")
        run = lmtrace("replay", *args, "--output-dir", out, "--jsonl-out", jsonl, "--json", cwd=folder)
        refused(run)
        contains(run.errors, names)
        equal(tree(folder), {})
    return check


for name, args, names in ROWS:
    test.add(name, refuse(args, names))


@test
def no_command(folder):
    run = lmtrace()
    equal([run.code, run.out], [2, b""], repr(run))
    refused(lmtrace("inof"))
    contains(lmtrace("relpay").errors, "replay")


@test
def events_names_its_command(folder):
    run = lmtrace("replay", trace("events-node-a.lct"), *L1)
    refused(run)
    if "known" not in run.errors:
        contains(run.errors, "replay-events")


@test
def unknown_level_lists_levels_and_folders(folder):
    run = lmtrace("replay", trace("level-mq.lct"), *L1)
    refused(run)
    contains(run.errors, "storage")
    contains(run.errors, "/")


@test
def output_dir_below_a_file(folder):
    lib.write(os.path.join(folder, "file"), b"")
    refused(lmtrace("replay", trace("storage-empty.lct"), *L1, "--output-dir", os.path.join(folder, "file", "x")))
    equal(tree(folder), {"file": 0})


@test
def jsonl_is_a_directory(folder):
    refused(lmtrace("replay", trace("storage-empty.lct"), *L1, "--output-dir", os.path.join(folder, "x"), "--jsonl-out", folder))
    equal(tree(folder), {})


@test
def record_failed(folder):
    run = lmtrace("replay", trace("storage-onlyfail.lct"), *L1, "--output-dir", folder, "--compat", "lmcache")
    equal(run.code, 1, repr(run))
    contains(run.text, "Records failed:                                                1")


@test
def only_skipped(folder):
    header, unknown = lib.header("storage"), lib.record(0, "lmcache.v1.multiprocess.server.Server.handle_store", {"n": 1})
    file = lib.write(os.path.join(folder, "a.lct"), header, unknown)
    for args in ([], ["--compat", "lmcache"], ["--strict"]):
        equal(lmtrace("replay", file, *L1, "--no-csv", *args, cwd=folder).code, 1)
    equal(lmtrace("replay", trace("storage-skipped.lct"), *L1, "--no-csv", cwd=folder).code, 0)
    equal(lmtrace("replay", trace("storage-skipped.lct"), *L1, "--no-csv", "--strict", cwd=folder).code, 1)


@test
def malformed_and_cut(folder):
    for name, word in (("storage-malformed.lct", "offset"), ("storage-cut-body.lct", "offset"), ("storage-cut-prefix.lct", "offset")):
        run = lmtrace("replay", trace(name), *L1, "--no-csv", cwd=folder)
        equal(run.code, 0, repr(run))
        true(len([line for line in lib.lines(run.errors) if word in line]) == 1, repr(run))
        equal(lmtrace("replay", trace(name), *L1, "--no-csv", "--strict", cwd=folder).code, 1)


@test
def metrics_port(folder):
    busy = socket.socket()
    busy.bind(("127.0.0.1", 0))
    busy.listen()
    port = str(busy.getsockname()[1])
    equal(lmtrace("replay", trace("storage-empty.lct"), *L1, "--no-csv", cwd=folder).code, 0)
    refused(lmtrace("replay", trace("storage-empty.lct"), *L1, "--prometheus-port", port, "--output-dir", os.path.join(folder, "x")))
    busy.close()
    equal(tree(folder), {})


@test
def json_mode_says_it_too(folder):
    for args in ([trace("png.lct"), *L1], [trace("storage-empty.lct")], [trace("storage-empty.lct"), *L1, "--nosuch"], L1):
        run = lmtrace("replay", *args, "--format", "json", cwd=folder)
        equal(run.code, 2, repr(run))
        equal(len(lib.lines(run.errors)), 1)
        doc = run.json
        equal([doc["exit"], "metrics" in doc], [2, False])
        true(doc["error"]["message"] in run.errors.rstrip("\n"), repr(run))
        equal(sorted(doc["error"]), ["code", "file", "message", "offset"])


if __name__ == "__main__":
    sys.exit(test.main())
