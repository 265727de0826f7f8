#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`lmtrace coordinator`: the 144 recorded requests, in order, and the metrics they leave; the API's paths; golden cases played over
HTTP with both releases' rules."""
import gzip
import http.client
import json
import os
import re
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from coord_lib import EVENTS, Coordinator, batch, case, key  # noqa: E402
from lib import Tests, equal, true  # noqa: E402

test = Tests()
K = key()
# Bodies the recording shows only the beginning of.
NAN = json.dumps({"batches": [batch(ts=0.0)]}).replace('"ts": 0.0', '"ts": NaN')
INFINITY = NAN.replace("NaN", "Infinity")


def big(seq, kind):
    entries = [{"key": dict(K, chunk_hash_hex="%064x" % i), **({"size_bytes": 10} if kind == "store" else {})} for i in range(60000)]
    return json.dumps({"batches": [batch(seq=seq, kind=kind, entries=entries)]})


REBUILT = {
    "gzip body": lambda: gzip.compress(json.dumps({"batches": [batch()]}).encode()),
    "NaN literal": lambda: NAN.encode(),
    "Infinity literal": lambda: INFINITY.encode(),
    "deep nesting": lambda: b'{"batches":' + b"[" * 3000 + b"]" * 3000 + b"}",
    "a 10 MB body": lambda: big(11, "store").encode(),
    "delete them": lambda: big(12, "delete").encode(),
    "lookup, too many tokens": lambda: json.dumps({"token_ids": [1] * 1000001, "model_name": "m"}).encode(),
    "half a surrogate pair as instance id is admitted":
        lambda: json.dumps({"batches": [batch(instance="\ud800", entries=[{"key": dict(K, model_name="sur"), "size_bytes": 1}])]}).encode(),
    "invalid UTF-8": lambda: b'{"batches":[{"instance_id":"\xff"}]}',
}
EXACT_LENGTH = {"NaN literal", "Infinity literal", "deep nesting", "lookup, too many tokens", "invalid UTF-8"}
# D14, D21: what ends the reference's request or breaks its listing is refused.
REFUSED = {"lookup, negative token": ("greater_than_equal", ["body", "token_ids", 0]),
           "lookup, token 2^32": ("less_than_equal", ["body", "token_ids", 0]),
           "half a surrogate pair as instance id is admitted": ("string_unicode", ["body", "batches", 0, "instance_id"])}
LISTING_WORKS = "and breaks the listing from then on"
OWN_WORDS = {"prefetch, nobody listens there": "prefetch submit to 'i5' failed: "}


def body_of(probe):
    body = probe["body"]
    if probe["what"] in REBUILT:
        built = REBUILT[probe["what"]]()
        if probe["what"] in EXACT_LENGTH:
            equal(len(built), body["_bytes"], probe["what"])
        return built
    if isinstance(body, dict) and "_raw" in body:
        equal(len(body["_raw"].encode()), body["_bytes"], probe["what"])
        return body["_raw"].encode()
    return None if body is None else json.dumps(body).encode()


def headers_of(probe):
    headers = dict(probe["request_headers"])
    if isinstance(probe["body"], (list, dict)) and "_raw" not in probe["body"]:
        headers.setdefault("Content-Type", "application/json")
    return headers


def fits(expected, found, where=""):
    """Equal, where times and made-up ids may be anything of their kind."""
    if isinstance(expected, dict) and isinstance(found, dict):
        equal(sorted(found), sorted(expected), where)
        for name in expected:
            if name == "registration_time":
                true(isinstance(found[name], float) and found[name] > 1.7e9, where)
            else:
                fits(expected[name], found[name], where + "/" + name)
    elif isinstance(expected, list) and isinstance(found, list):
        equal(len(found), len(expected), where)
        for i, (a, b) in enumerate(zip(expected, found)):
            fits(a, b, "%s/%d" % (where, i))
    elif expected == "mp-<32 hex digits>":
        true(re.fullmatch("mp-[0-9a-f]{32}", found), where)
    else:
        equal((type(found), found), (type(expected), expected), where)


def problems_fit(expected, found, where):
    equal([(p["type"], p["loc"]) for p in found["detail"]], [(p["type"], p["loc"]) for p in expected["detail"]], where)
    for problem in found["detail"]:
        true(problem["msg"] and "input" in problem, where)


def check(coordinator, probe):
    what = probe["what"]
    reply = coordinator.ask(probe["method"], probe["path"], body_of(probe), headers_of(probe))
    if what in REFUSED:
        equal(reply.status, 422, what)
        equal([(p["type"], p["loc"]) for p in reply.json["detail"]][0], REFUSED[what], what)
        return
    if what == LISTING_WORKS:
        equal(reply.status, 200, what)
        return
    equal(reply.status, probe["status"], "%s: %r" % (what, reply))
    for name, value in probe["reply_headers"].items():
        if name == "location":
            value = value.replace("HOST", coordinator.host + ":" + coordinator.port)
        if name == "content-length" and (probe["status"] == 422 or what in OWN_WORDS):
            continue
        equal(reply.headers.get(name), value, "%s: %s: %r" % (what, name, reply.body))
    if probe["reply"] is None:
        equal(reply.body, b"", what)
    elif probe["status"] == 422:
        problems_fit(probe["reply"], reply.json, what)
    elif what in OWN_WORDS:
        true(reply.json["detail"].startswith(OWN_WORDS[what]), repr(reply))
    else:
        fits(probe["reply"], reply.json, what)


@test
def recorded_requests_in_order(folder):
    with open(os.path.join(EVENTS, "api_probes.json"), encoding="utf-8") as f:
        probes = json.load(f)
    equal(len(probes), 144)
    wrong = []
    with Coordinator("--chunk-size", "16", "--enable-blend-lookup", "--compat", "lmcache-0.5.6", folder=folder) as coordinator:
        for n, probe in enumerate(probes):
            try:
                check(coordinator, probe)
            except (AssertionError, OSError, http.client.HTTPException) as error:
                wrong.append("%d: %s: %r" % (n, probe["what"], error))
        true(not wrong, "%d wrong\n%s" % (len(wrong), "\n".join(wrong[:12])))
        equal(metrics_of(coordinator), golden_metrics(os.path.join(EVENTS, "metrics.txt")))
        equal(coordinator.stop(), 0)


# -------- metrics --------

def parse_metrics(text):
    """{(name, labels): value}, {name: type}"""
    values, types = {}, {}
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            true(name not in types, "twice: " + name)
            types[name] = kind
        elif line and not line.startswith("#"):
            series, value = line.rsplit(" ", 1)
            name, _, labels = series.partition("{")
            true((name, labels) not in values, "twice: " + series)
            true(name in types, "no type: " + name)
            values[name, labels] = value
            float(value)
    return values, types


def metrics_of(coordinator):
    reply = coordinator.get("/metrics")
    equal(reply.status, 200)
    true(reply.headers["content-type"].startswith("text/plain; version=0.0.4"), repr(reply))
    values, _ = parse_metrics(reply.body.decode())
    return {k: v for k, v in values.items() if k[0].startswith("lmcache_")}


def golden_metrics(path):
    with open(path, encoding="utf-8") as f:
        values, _ = parse_metrics(f.read())
    # The half surrogate's key is not there (D21): it had one L1 placement of no bytes.
    for name in ("lmcache_coordinator_key_directory_placements", "lmcache_mp_key_directory_placement_count"):
        equal(values[name, 'tier="l1"}'], "4.0")
        values[name, 'tier="l1"}'] = "3.0"
    return values


@test
def metrics_of_0_5_7(folder):
    """Every name, label and type of the reference's is there, whatever the values; and the counts are its."""
    with open(os.path.join(EVENTS, "rc3", "metrics.txt"), encoding="utf-8") as f:
        golden, golden_types = parse_metrics(f.read())
    with Coordinator("--health-check-interval", "1", "--eviction-check-interval", "1", folder=folder) as coordinator:
        equal(coordinator.post("/instances", {"instance_id": "i1", "ip": "127.0.0.1", "http_port": 9}).status, 200)
        five = [{"key": key(), "size_bytes": 5}]
        for body in (batch(seq=1, entries=five, dropped_events=0), batch(seq=2, tier="l2", backend="fs", entries=five),
                     batch(seq=2, tier="l2", backend="fs", entries=five), batch(seq=3, kind="access", entries=five),
                     batch(seq=5, entries=five), batch(seq=9, incarnation=0), batch(seq=10, incarnation=0)):
            equal(coordinator.post("/events", {"batches": [body]}).status, 200)
        text = coordinator.get("/metrics").body.decode()
        values, types = parse_metrics(text)
        for name, kind in golden_types.items():
            equal(types.get(name), kind, name)
        for series in golden:
            true(series in values, repr(series))
        received = "lmcache_coordinator_ingest_event_batches_received_total"
        equal([values[received, 'result="%s"}' % r] for r in ("applied", "duplicate", "stale")], ["4.0", "1.0", "2.0"])
        equal(values["lmcache_coordinator_ingest_event_batches_missing_total", ""], "1.0")
        equal(values["lmcache_coordinator_ingest_server_view_incomplete", 'instance_id="i1"}'], "1.0")
        true(float(values["lmtrace_coordinator_resident_bytes", ""]) > 1e6)
        equal(values["lmtrace_coordinator_requests_total", 'method="POST",path="/events",status="200"}'], "7.0")
    with Coordinator("--disable-metrics", folder=folder) as coordinator:
        equal(coordinator.get("/metrics").status, 404)


# -------- the API as a document --------

def operations(document):
    return {(m.upper(), p) for p, ms in document["paths"].items() for m in ms}


def same_path(path):
    return re.sub(r"\{[^}]*\}", "{}", path)


@test
def openapi_is_true(folder):
    for compat, golden in (("lmcache-0.5.6", "api_schema_0.5.6.json"), ("lmcache-0.5.7", "api_schema_0.5.7rc3.json")):
        expected = case(golden)
        with Coordinator("--compat", compat, "--checkpoint-path", os.path.join(folder, "c"), folder=folder) as coordinator:
            ours = coordinator.get("/openapi.json").json
            missing = {(m, same_path(p)) for m, p in operations(expected)} - {(m, same_path(p)) for m, p in operations(ours)}
            equal(missing, set(), compat)
            for name in re.findall(r'#/components/schemas/(\w+)', json.dumps(ours)):
                true(name in ours["components"]["schemas"], name)
            for method, path in sorted(operations(ours)):
                reply = coordinator.ask(method, re.sub(r"\{[^}]*\}", "x", path), b"{}" if method in ("POST", "PUT") else None,
                                        {"Content-Type": "application/json"})
                true(reply.status not in (405, 500, 501), "%s %s: %r" % (method, path, reply))
                true(str(reply.status) in ours["paths"][path][method.lower()]["responses"], "%s %s: %r" % (method, path, reply))
            for name, schema in required_fields(expected):
                true(name in ours["components"]["schemas"][schema]["properties"], "%s.%s" % (schema, name))


# Their name -> ours, where fields can be compared.
SCHEMAS = {"CacheEventBatch": "Batch", "CacheEventEntry": "Entry", "EncodedObjectKey": "Key", "RegisterRequest": "RegisterRequest",
           "DirectoryLookupRequest": "LookupRequest", "DirectoryStats": "DirectoryStats", "DeleteRequest": "DeleteRequest",
           "PinRequest": "PinRequest", "PrefetchRequest": "PrefetchRequest", "ModuleMemoryStatus": "Module", "Placement": "Placement",
           "StatusResponse": "QuotaRow", "BlendLookupRequest": "BlendRequest", "DirectoryKeyInfo": "ListedKey"}


def required_fields(expected):
    for theirs, ours in SCHEMAS.items():
        for name in expected["components"]["schemas"][theirs]["properties"]:
            yield name, ours


# -------- golden cases --------

def state_of(coordinator, paths):
    state = {}
    for path, kept in paths.items():
        if isinstance(kept, dict) and "body" in kept:  # a lookup of the recording
            reply = coordinator.post(kept["path"], kept["body"])
            state[path] = dict(kept, reply=reply.json)
            continue
        if path == "metrics":
            continue
        reply = coordinator.get(path.split(" ", 1)[1])
        equal(reply.status, 200, path)
        state[path] = reply.json
    return state


def normal(state):
    """registration_time is 0 in the recording; without blend lookup its numbers are not compared."""
    state = json.loads(json.dumps(state))
    for instance in state.get("GET /instances", {}).get("instances", []):
        instance["registration_time"] = 0.0
    state.pop("metrics", None)
    return state


def play(coordinator, expected, name):
    n = 0
    for n, call in enumerate(expected["calls"]):
        where = "%s, call %d: %s %s" % (name, n, call["method"], call["path"])
        if call.get("state_before"):
            equal(normal(state_of(coordinator, call["state_before"])), normal(call["state_before"]), where + ", state before")
        path = call["path"].partition("#")[0]
        if " " in path:
            path = path.replace(" ", "%20")
        if not path.isascii():
            path = "".join(c if ord(c) < 128 else "".join("%%%02X" % b for b in c.encode()) for c in path)
        reply = coordinator.ask(call["method"], path, None if call["body"] is None else json.dumps(call["body"]).encode(),
                                {"Content-Type": call["request_content_type"]} if call["request_content_type"] else {})
        equal(reply.status, call["status"], where + repr(reply))
        if call["status"] == 422:
            problems_fit(call["reply"], reply.json, where)
        elif call["reply"] is not None and not (isinstance(call["reply"], dict) and "_text" in call["reply"]):
            equal(reply.json, call["reply"], where)
    equal(normal(state_of(coordinator, expected["state"])), normal(expected["state"]), name + ", state at the end")
    lines = expected["state"].get("metrics")
    if lines:
        text = coordinator.get("/metrics").body.decode().splitlines()
        for line in lines:
            true(line in text, "%s: %r" % (name, line))
    return n


def timed(name):
    return name.startswith("paced") or name.endswith("reaped")


def golden_cases(folder, where, compat, least):
    names = sorted(n.partition(".")[0] for n in os.listdir(os.path.join(EVENTS, where)))
    played = calls = 0
    wrong = []
    groups = {}
    for name in names:
        expected = case(os.path.join(where, name + ".json"))
        if timed(name) or not expected["calls"] or "calls_digest" in expected:
            continue
        groups.setdefault(tuple(expected["coordinator_args"]), []).append((name, expected))
    for args, members in groups.items():
        with Coordinator("--compat", compat, *args, folder=folder) as coordinator:
            for name, expected in members:
                try:
                    calls += play(coordinator, expected, name)
                    played += 1
                except AssertionError as error:
                    wrong.append(str(error)[:1500])
                equal(coordinator.post("/lmtrace/reset", b"").json["status"], "reset")
    true(not wrong, "%d wrong\n%s" % (len(wrong), "\n".join(wrong[:6])))
    true(played >= least, "only %d cases, %d calls" % (played, calls))


@test
def golden_cases_of_0_5_6(folder):
    golden_cases(folder, "expect", "lmcache-0.5.6", 85)


@test
def golden_cases_of_0_5_7(folder):
    golden_cases(folder, os.path.join("rc3", "expect"), "lmcache-0.5.7", 13)


if __name__ == "__main__":
    sys.exit(test.main())
