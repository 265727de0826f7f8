# SPDX-License-Identifier: Apache-2.0
"""The fs adapter where the system refuses io_uring, as containers do: by a seccomp filter, with the errors that are seen."""
import ctypes
import errno
import json
import os
import struct
import subprocess
import sys
import tempfile

SYS_IO_URING_SETUP = 425  # the same on all architectures
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
ALLOW, ERRNO = 0x7FFF0000, 0x00050000
LD_NR, JEQ, RET = 0x20, 0x15, 0x06
CHECK = [os.environ["LMT_LMTRACE"], "check-adapter"]
count = 0


def refuse_uring(code):
    """In the child: io_uring_setup() fails with @code from here on."""
    program = b"".join(struct.pack("HBBI", *line)
                       for line in ((LD_NR, 0, 0, 0), (JEQ, 0, 1, SYS_IO_URING_SETUP), (RET, 0, 0, ERRNO | code), (RET, 0, 0, ALLOW)))
    buffer = ctypes.create_string_buffer(program)
    head = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(buffer))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 or libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, head, 0, 0) != 0:
        os._exit(77)


def ok(good, what, detail=""):
    global count
    count += 1
    print("%sok %d %s" % ("" if good else "not ", count, what))
    if not good:
        for line in detail.splitlines()[-20:]:
            print("# " + line)


def check(code, engine):
    with tempfile.TemporaryDirectory() as folder:
        config = '{"type":"fs","base_path":"%s","engine":"%s"}' % (folder, engine)
        return subprocess.run([*CHECK, config, "--rounds", "2", "--format", "json"], preexec_fn=lambda: refuse_uring(code), capture_output=True, text=True)


if subprocess.run(["true"], preexec_fn=lambda: refuse_uring(errno.EPERM)).returncode == 77:
    print("1..0 # SKIP no seccomp filters here")
    sys.exit(0)

REFUSALS = ((errno.EPERM, "operation not permitted"), (errno.ENOSYS, "function not implemented"))
for number, word in REFUSALS:
    # Not asked for by name, it is done without: the whole contract holds.
    done = check(number, "auto")
    metrics = json.loads(done.stdout).get("metrics", {})
    ok(done.returncode == 0 and metrics.get("passed") == 46 and metrics.get("failed") == 0, "auto, %s" % errno.errorcode[number],
       done.stdout + done.stderr)
    # Asked for by name, it is refused by name, once.
    done = check(number, "io_uring")
    expected = "fs: engine: expected auto, threads or sync, found io_uring: %s" % word
    ok(done.returncode == 2 and json.loads(done.stdout)["error"]["message"] == expected and done.stderr.count(expected) == 1,
       "io_uring, %s" % errno.errorcode[number], done.stdout + done.stderr)
print("1..%d" % count)
