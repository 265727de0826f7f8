# SPDX-License-Identifier: Apache-2.0
"""replay-events into Kafka, coordinator out of it: the views and counts of the recorded cases."""
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

from coord_lib import Coordinator

LMTRACE = os.environ["LMT_LMTRACE"]
DATA = os.path.join(os.environ["LMT_TEST_DATA"], "events")
MOCK = sys.argv[1]
PATIENCE = 60

failed = 0
number = 0


def tap(name, test, *arguments):
    global failed, number
    number += 1
    try:
        test(*arguments)
        print(f"ok {number} {name}", flush=True)
    except Exception as problem:  # pylint: disable=broad-except
        failed += 1
        print(f"not ok {number} {name}", flush=True)
        for line in f"{type(problem).__name__}: {problem}".splitlines()[:40]:
            print("# " + line[:2000], flush=True)


class Mock:
    """The cluster: a program of this test that lives as long as its stdin."""

    def __init__(self, brokers=3):
        self.process = subprocess.Popen([MOCK, str(brokers)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.servers = self.process.stdout.readline().strip()

    def ask(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def tell(self, line):
        answer = self.ask(line)
        assert answer == "ok", f"{line}: {answer}"

    def records(self, topic):
        found = []
        line = self.ask(f"records {topic}")
        while line != "end":
            found.append(json.loads(line))
            line = self.process.stdout.readline().strip()
        return found

    def close(self):
        self.process.stdin.close()
        self.process.wait(PATIENCE)


def run(*arguments, code=0, **more):
    done = subprocess.run([LMTRACE, *arguments], capture_output=True, text=True, timeout=PATIENCE, cwd=DATA, check=False, **more)
    assert done.returncode == code, f"exit {done.returncode}, expected {code}: {done.stdout}{done.stderr}"
    return done


def replay(mock, topic, files, *more, code=0):
    return run("replay-events", *files, "--kafka-bootstrap-servers", mock.servers, "--kafka-topic", topic, *more, code=code)


def rows(text):
    found = {}
    for line in text.splitlines():
        words = line.rsplit(None, 1)
        if len(words) == 2 and words[1].replace(".", "").isdigit():
            found[words[0].rstrip(": ")] = float(words[1])
    return found


def golden(name):
    with open(os.path.join(DATA, "expect", name + ".json"), encoding="utf-8") as file:
        return json.load(file)


def batches_of(case):
    return [call["body"]["batches"][0] for call in case["calls"] if call["path"] == "/events"]


CASES = ["all_types", "bad_minimal", "bad_surrogate_model", "bad_seq_bool", "capacity", "dup", "fleet", "gap", "id_query", "midstream",
         "restart_one_file", "same_file_twice", "shared_l1_fence", "single", "size_zero", "stale", "tokens"]


def check_produced(mock, name):
    """One record a batch, in the form of LMCache's Kafka sink; counts are those of the recorded run."""
    case = golden(name)
    mock.tell(f"topic {name} 3")
    done = replay(mock, name, case["files"], "--coordinator-version", "0.5.6")
    records = mock.records(name)
    wanted = {}
    for batch in batches_of(case):
        wanted.setdefault(batch["instance_id"], []).append(batch)
    found = {}
    where = {}
    for record in records:
        body = json.loads(record["value"])
        assert list(body) == ["batches"] and len(body["batches"]) == 1, record
        assert json.dumps(body, separators=(",", ":"), ensure_ascii=False) == record["value"], record["value"]
        found.setdefault(record["key"], []).append(body["batches"][0])
        assert where.setdefault(record["key"], record["partition"]) == record["partition"], "one instance, two partitions"
    assert found == wanted, f"{found}\nwanted {wanted}"
    summary = case["replay"]["summary"]
    shown = rows(done.stdout)
    for row in ("Batches delivered", "Batches applied", "Batches duplicate", "Batches stale", "Records", "Start marks", "Stop marks"):
        assert shown[row] == summary[row], f"{row}: {shown[row]}, recorded {summary[row]}"


def check_passing_errors(mock):
    """What passes by is repeated inside: each record once, in order."""
    mock.tell("topic passing 1")
    mock.tell("error 0 6 1")  # not the leader
    mock.tell("error 0 7 1")  # timed out
    mock.tell("error 0 -195 1")  # connection lost
    replay(mock, "passing", ["all_types.lct"])
    found = [json.loads(record["value"])["batches"][0] for record in mock.records("passing")]
    assert found == batches_of(golden("all_types")), found


def check_refused(mock):
    """A refusal ends the run, says why and how far it came."""
    mock.tell("topic refused 1")
    mock.tell("error 0 29 1")  # not authorized
    done = replay(mock, "refused", ["all_types.lct"], code=1)
    assert "uthorization" in done.stderr, done.stderr
    assert mock.servers.split(",", maxsplit=1)[0] in done.stderr, done.stderr


def check_nobody(_mock):
    done = run("replay-events", "single.lct", "--kafka-bootstrap-servers", "127.0.0.1:1", "--timeout", "1s", code=1)
    assert "127.0.0.1:1" in done.stderr and "refused" in done.stderr, done.stderr


def interrupted(signals, *arguments):
    """A replay that gets that many signals when its producer has the first records: its metrics, what is done, seconds until its end."""
    with tempfile.TemporaryDirectory() as folder:
        position = os.path.join(folder, "position")
        process = subprocess.Popen([LMTRACE, "replay-events", *arguments, "--timeout", "60s", "--position", position, "--json"],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=DATA)
        wait_for("the producer", lambda: len(os.listdir(f"/proc/{process.pid}/task")) > 1)
        time.sleep(0.5)
        begin = time.monotonic()
        for _ in range(signals):
            process.send_signal(signal.SIGTERM)
            time.sleep(0.3)
        out, err = process.communicate(timeout=PATIENCE)
        took = time.monotonic() - begin
        assert process.returncode == 130 and "refused" not in err, f"{process.returncode}: {err}"
        with open(position, encoding="utf-8") as file:
            return json.loads(out)["metrics"], json.load(file)["per_instance"], took


def check_interrupted(_mock):
    """A signal is told as one, not as a refusal of what was dropped because of it. A second one ends at once."""
    for signals, least, most in ((2, 0, 9), (1, 9, 40)):
        metrics, done, took = interrupted(signals, "single.lct", "--kafka-bootstrap-servers", "127.0.0.1:1")
        assert metrics["stopped"]["why"] == "a signal", metrics
        assert metrics["stopped"]["abandoned"] == len(batches_of(golden("single"))), metrics
        assert done == {}, "what was not delivered is not done"
        assert least <= took <= most, f"{signals} signals: {took} s"


def check_flushed(mock):
    """What the producer has when a signal comes is delivered, and counted as such."""
    mock.tell("topic flushed 1")
    for broker in (1, 2, 3):
        mock.tell(f"rtt {broker} 700")
    try:
        # At this pace only its first flush is sent: on its way for a second when the signal comes.
        metrics, done, _ = interrupted(1, "restart_one_file.lct", "--kafka-bootstrap-servers", mock.servers, "--kafka-topic",
                                       "flushed", "--speed", "0.001")
    finally:
        for broker in (1, 2, 3):
            mock.tell(f"rtt {broker} 0")
    found = [json.loads(record["value"])["batches"][0] for record in mock.records("flushed")]
    assert found and "abandoned" not in metrics["stopped"], metrics
    assert metrics["overall"]["batches"] == len(found), metrics
    last = found[-1]
    assert done[last["instance_id"]] == {"incarnation": last["incarnation"], "seq": last["seq"]}, done


def consumer(mock, topic, *more, folder=None):
    return Coordinator("--event-transport", "kafka", "--kafka-bootstrap-servers", mock.servers, "--kafka-topic", topic,
                       "--compat", "lmcache-0.5.6", "--eviction-check-interval", "0", "--health-check-interval", "0", *more, folder=folder)


def wait_for(what, test):
    until = time.monotonic() + PATIENCE
    while not test():
        assert time.monotonic() < until, f"{what}: not within {PATIENCE} s"
        time.sleep(0.05)


def seen(coordinator, *verdicts):
    """Batches the gate has had, of all streams."""
    streams = coordinator.get("/lmtrace/streams").json["streams"]
    return sum(stream[verdict] for stream in streams for verdict in verdicts or ("applied", "duplicates", "stale"))


VIEWS = ["/directory/stats", "/directory/keys?limit=10000", "/quota?tier=l1", "/quota?tier=l2"]


def final_views(case):
    """Before the stop mark's DELETE, since marks don't go by Kafka; without one, at the end."""
    for call in case["calls"]:
        if call["method"] == "DELETE":
            return call["state_before"]
    return case["state"]


def assert_views(coordinator, wanted):
    for path in VIEWS:
        found = coordinator.get(path)
        assert found.status == 200, found
        assert found.json == wanted["GET " + path], f"{path}: {found.json}\nrecorded {wanted['GET ' + path]}"


# Theirs are the views after all batches and before any departure.
VIEW_CASES = [name for name in CASES if name not in ("fleet", "restart_one_file")]


def check_consumed(mock, name):
    """One partition keeps the order of all: the views are those LMCache's own coordinator had of the same batches."""
    case = golden(name)
    topic = "consumed-" + name
    mock.tell(f"topic {topic} 1")
    replay(mock, topic, case["files"], "--merge=wall-sort")
    with tempfile.TemporaryDirectory() as folder, consumer(mock, topic, *case["coordinator_args"], folder=folder) as coordinator:
        wait_for("all batches", lambda: seen(coordinator) == len(batches_of(case)))
        assert_views(coordinator, final_views(case))
        summary = case["replay"]["summary"]
        assert coordinator.stop() == 0, coordinator.errors
        shown = rows(coordinator.out)
        for row in ("Batches applied", "Batches duplicate", "Batches stale"):
            assert shown[row] == summary[row], f"{row}: {shown[row]}, recorded {summary[row]}"
    assert mock.ask(f"committed lmcache-coordinator {topic}") == "0"


def check_running(mock):
    """A coordinator that waits for the topic takes what comes while it runs, from all partitions."""
    with tempfile.TemporaryDirectory() as folder, consumer(mock, "running", folder=folder) as coordinator:
        mock.tell("topic running 4")
        done = replay(mock, "running", ["large_0.lct.gz"])
        sent = int(rows(done.stdout)["Batches delivered"])
        assert sent > 4000, done.stdout
        wait_for("all batches", lambda: seen(coordinator) == sent)
        streams = coordinator.get("/lmtrace/streams").json
        assert len(str(streams)) > 0
        assert coordinator.stop() == 0, coordinator.errors


def check_door(mock):
    """POST /events says why it is closed; the rest of HTTP is as ever."""
    mock.tell("topic door 1")
    with consumer(mock, "door") as coordinator:
        reply = coordinator.post("/events", {"batches": []})
        assert reply.status == 404 and "Kafka" in reply.json["detail"], reply
        reply = coordinator.post("/instances", {"instance_id": "i", "ip": "h", "http_port": 1})
        assert reply.status == 200, reply
        assert coordinator.ask("PUT", "/instances/i/heartbeat").status == 200
        assert coordinator.ask("DELETE", "/instances/i").status == 204


def check_bad_records(mock):
    """What can't be decoded is logged and left out, and doesn't hold up what comes behind it."""
    good = json.dumps({"batches": [batches_of(golden("single"))[0]]}, separators=(",", ":"))
    mock.tell("topic bad 1")
    for value in ("nope", '{"batches":[{"seq":0}]}', '{"batches":' + "[" * 60, good):
        mock.tell(f"put bad 0 node-a {value}")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "views.ckpt")
        with consumer(mock, "bad", "--checkpoint-path", path, folder=folder) as coordinator:
            wait_for("the good one", lambda: seen(coordinator) == 1)
            assert coordinator.stop() == 0
            said = [line for line in coordinator.errors.splitlines() if "record left out" in line]
            assert len(said) == 3, coordinator.errors
            for offset, line in enumerate(said):
                assert f"topic bad, partition 0, offset {offset}" in line, line
        # Started again, none of them is looked at again.
        mock.tell(f"put bad 0 node-a {good}")
        with consumer(mock, "bad", "--checkpoint-path", path, folder=folder) as coordinator:
            wait_for("the repeat", lambda: seen(coordinator, "duplicates") == 1)
            assert coordinator.stop() == 0
            assert coordinator.errors.count("record left out") == 3, coordinator.errors
            assert rows(coordinator.out)["Batches duplicate"] == 1, coordinator.out


def check_restart(mock):
    """Killed and started again it goes on behind its last checkpoint: in the end the views are those of an undisturbed one."""
    mock.tell("topic restart 1")  # the order of all instances: shared placements depend on it
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "views.ckpt")
        with consumer(mock, "restart", "--checkpoint-path", path, folder=folder) as coordinator, \
                consumer(mock, "restart", folder=folder) as undisturbed:
            first = int(rows(replay(mock, "restart", ["large_0.lct.gz"]).stdout)["Batches delivered"])
            wait_for("the first file", lambda: seen(coordinator) == first)
            assert coordinator.post("/lmtrace/checkpoint", b"").status == 200
            second = int(rows(replay(mock, "restart", ["large_1.lct.gz"]).stdout)["Batches delivered"])
            wait_for("the second file", lambda: seen(coordinator) == first + second)
            coordinator.process.send_signal(signal.SIGKILL)
            coordinator.process.wait(PATIENCE)
            wait_for("both files", lambda: seen(undisturbed) == first + second)
            wanted = undisturbed.get("/lmtrace/dump").json
            streams = undisturbed.get("/lmtrace/streams").json["streams"]
            assert undisturbed.stop() == 0
        with consumer(mock, "restart", "--checkpoint-path", path, folder=folder) as coordinator:
            wait_for("the second file again", lambda: len(coordinator.get("/lmtrace/streams").json["streams"]) == len(streams)
                     and [s["last_seq"] for s in coordinator.get("/lmtrace/streams").json["streams"]] == [s["last_seq"] for s in streams])
            assert coordinator.get("/lmtrace/dump").json == wanted
            assert f"topic restart: 1 partition: 0 from {first}\n" in coordinator.errors, coordinator.errors
            assert coordinator.stop() == 0
            shown = rows(coordinator.out)
            assert shown["Batches applied"] + shown["Batches duplicate"] + shown["Batches stale"] == second, coordinator.out
    assert mock.ask("committed lmcache-coordinator restart") == "0"


def check_fetch_errors(mock):
    """A broker that goes and comes back is told and waited for."""
    mock.tell("topic errors 1")
    replay(mock, "errors", ["all_types.lct"])
    mock.tell("error 1 6 2")
    mock.tell("error 1 -195 2")
    with consumer(mock, "errors") as coordinator:
        wait_for("all batches", lambda: seen(coordinator) == len(batches_of(golden("all_types"))))
        assert coordinator.stop() == 0


def check_flags(_mock):
    done = run("coordinator", "--port", "0", "--event-transport", "kafka", code=2)
    assert "--kafka-bootstrap-servers" in done.stderr, done.stderr
    kafka = ("--kafka-bootstrap-servers", "127.0.0.1:1", "--kafka-config", "no-such=1")
    done = run("coordinator", "--port", "0", "--event-transport", "kafka", *kafka, code=2)
    assert "no-such" in done.stderr, done.stderr
    done = run("replay-events", "single.lct", *kafka, code=2)
    assert "no-such" in done.stderr, done.stderr
    done = run("replay-events", "large_0.lct.gz", "--kafka-bootstrap-servers", "127.0.0.1:1", "--kafka-config", "message.max.bytes=1000",
               code=1)
    assert "message.max.bytes" in done.stderr, done.stderr


def check_without_library(_mock):
    """Where the module or its library is missing, both commands say so and nothing else of them changes."""
    with tempfile.TemporaryDirectory() as folder:
        plugins = os.path.join(folder, "plugins")
        os.mkdir(plugins)
        for place in os.environ["LMTRACE_PLUGIN_PATH"].split(":"):
            for name in os.listdir(place):
                if name.endswith(".so") and name.startswith("lmt-"):
                    with open(os.path.join(place, name), "rb") as source, open(os.path.join(plugins, name), "wb") as copy:
                        copy.write(source.read())
        alone = dict(os.environ, LMTRACE_PLUGIN_PATH=plugins)
        done = run("replay-events", "single.lct", "--kafka-bootstrap-servers", "127.0.0.1:1", code=2, env=alone)
        assert "--kafka-bootstrap-servers: lmt-events-kafka.module: not found" in done.stderr, done.stderr
        done = run("coordinator", "--port", "0", "--event-transport", "kafka", "--kafka-bootstrap-servers", "127.0.0.1:1", code=2, env=alone)
        assert "--event-transport kafka: lmt-events-kafka.module: not found" in done.stderr, done.stderr
        with open(os.path.join(plugins, "lmt-events-kafka.module"), "wb") as broken:
            broken.write(b"no library")
        done = run("replay-events", "single.lct", "--kafka-bootstrap-servers", "127.0.0.1:1", code=2, env=alone)
        assert "librdkafka not found" in done.stderr, done.stderr
        run("replay-events", "single.lct", "--dry-run", env=alone)


def main():
    mock = Mock()
    for name in CASES:
        tap(f"produced/{name}", check_produced, mock, name)
    tap("passing-errors", check_passing_errors, mock)
    tap("refused", check_refused, mock)
    tap("nobody-there", check_nobody, mock)
    tap("interrupted", check_interrupted, mock)
    tap("flushed", check_flushed, mock)
    for name in VIEW_CASES:
        tap(f"consumed/{name}", check_consumed, mock, name)
    for test in (check_running, check_door, check_bad_records, check_restart, check_fetch_errors, check_flags, check_without_library):
        tap(test.__name__.removeprefix("check_").replace("_", "-"), test, mock)
    mock.close()
    print(f"1..{number}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
