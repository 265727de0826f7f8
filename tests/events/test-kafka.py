# SPDX-License-Identifier: Apache-2.0
"""replay-events into Kafka, coordinator out of it: the views and counts of the recorded cases."""
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

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


def main():
    mock = Mock()
    for name in CASES:
        tap(f"produced/{name}", check_produced, mock, name)
    tap("passing-errors", check_passing_errors, mock)
    tap("refused", check_refused, mock)
    tap("nobody-there", check_nobody, mock)
    mock.close()
    print(f"1..{number}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
