#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""events-node-a.lct and events-node-b.lct out of the recorded fleet in tests/data/events: node-a as it was recorded; of node-b one
batch is lost and the server dies before its stop mark, as happens to real ones. Frames are kept byte for byte."""
import os
import struct

HERE = os.path.dirname(os.path.abspath(__file__))
FLEET = os.path.join(os.path.dirname(os.path.dirname(HERE)), "tests", "data", "events")


def frames(path):
    with open(path, "rb") as f:
        data = f.read()
    at = 0
    while at < len(data):
        size = 4 + struct.unpack_from(">I", data, at)[0]
        yield data[at:at + size]
        at += size


def write(name, parts):
    with open(os.path.join(HERE, name), "wb") as f:
        f.write(b"".join(parts))


a = list(frames(os.path.join(FLEET, "fleet_a.lct")))
b = list(frames(os.path.join(FLEET, "fleet_b.lct")))
write("events-node-a.lct", a)
write("events-node-b.lct", b[:8] + b[9:-1])  # frame 0 is the header, 1 the start mark, the last one the stop mark
