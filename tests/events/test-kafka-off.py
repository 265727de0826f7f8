# SPDX-License-Identifier: Apache-2.0
"""A build without librdkafka: the options say so, everything else works."""
import os
import subprocess
import sys

LMTRACE = os.environ["LMT_LMTRACE"]
TRACE = os.path.join(os.environ["LMT_TEST_DATA"], "events", "single.lct")
KAFKA = ["--kafka-bootstrap-servers", "127.0.0.1:1"]
CASES = [
    (["replay-events", TRACE, *KAFKA], 2, "--kafka-bootstrap-servers: this build has no librdkafka"),
    (["coordinator", "--port", "0", "--event-transport", "kafka", *KAFKA], 2, "--event-transport kafka: this build has no librdkafka"),
    (["replay-events", TRACE, *KAFKA, "--dry-run"], 0, ""),
]

failed = 0
for number, (arguments, code, text) in enumerate(CASES, 1):
    done = subprocess.run([LMTRACE, *arguments], capture_output=True, text=True, timeout=60, check=False)
    good = done.returncode == code and text in done.stderr
    failed += not good
    print(f"{'ok' if good else 'not ok'} {number} {arguments[0]}")
    if not good:
        print(f"# exit {done.returncode}: {done.stderr}".rstrip().replace("\n", "\n# "))
print(f"1..{len(CASES)}")
sys.exit(1 if failed else 0)
