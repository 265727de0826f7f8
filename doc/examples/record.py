#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records calls of a Python program through liblmtrace-1, without a compiler: record.py OUT.lct [LIBRARY]

The library copies the arguments when the call is published and writes on a thread of its own, which needs no interpreter lock.
"""
import ctypes
import sys
from ctypes import POINTER, Structure, Union, byref, c_char_p, c_double, c_int, c_int64, c_size_t, c_uint32, c_uint64, c_void_p, sizeof


class TraceCall(Structure):
    _fields_ = [("qualname", c_char_p), ("arguments", POINTER(c_char_p)), ("encode", c_void_p), ("reserved", c_void_p * 3)]


class TraceLevel(Structure):
    _fields_ = [("struct_size", c_uint32), ("gate", c_uint32), ("name", c_char_p), ("calls", POINTER(TraceCall)), ("n_calls", c_uint32),
                ("reserved", c_uint32), ("own", c_void_p)]


class Span(Structure):
    _fields_ = [("data", c_void_p), ("len", c_size_t)]


class RecorderParams(Structure):
    _fields_ = [("struct_size", c_uint32), ("flags", c_uint32), ("path", c_char_p), ("schema", c_uint32), ("has_start", c_uint32),
                ("buffer_bytes", c_uint64), ("rotate_bytes", c_uint64), ("clock", c_void_p), ("t_mono_start", c_double),
                ("t_wall_start", c_double), ("level_meta", Span), ("inputs", c_void_p)]


class Variant(Union):
    _fields_ = [("u", c_uint64), ("i", c_int64), ("d", c_double), ("data", c_char_p)]


class TraceValue(Structure):
    _fields_ = [("kind", c_uint32), ("reserved", c_uint32), ("v", Variant), ("len", c_size_t)]


class GError(Structure):
    _fields_ = [("domain", c_uint32), ("code", c_int), ("message", c_char_p)]


class Level:
    """A level and its calls: Level("demo", {"demo.put": ("key", "size")}). Lives as long as the process."""

    def __init__(self, library, name, calls):
        self.library = library
        self.numbers = {qualname: number for number, qualname in enumerate(calls)}
        self._kept = [(c_char_p * (len(names) + 1))(*[name.encode() for name in names], None) for names in calls.values()]
        self._calls = (TraceCall * len(calls))(*[TraceCall(qualname.encode(), names, None) for qualname, names in zip(calls, self._kept)])
        self.table = TraceLevel(sizeof(TraceLevel), 0, name.encode(), self._calls, len(calls), 0, None)

    def publish(self, qualname, *arguments):
        if self.table.gate == 0:  # nobody records
            return
        values = (TraceValue * len(arguments))()
        for value, argument in zip(values, arguments):
            if isinstance(argument, bool):
                value.kind, value.v.u = 1, argument
            elif isinstance(argument, int):
                value.kind, value.v.i = 2, argument
            elif isinstance(argument, float):
                value.kind, value.v.d = 4, argument
            elif isinstance(argument, (str, bytes)):
                data = argument.encode() if isinstance(argument, str) else argument
                value.kind, value.v.data, value.len = (5 if isinstance(argument, str) else 6), data, len(data)
            elif argument is not None:
                raise TypeError("an argument of type %s can't be recorded" % type(argument).__name__)
        self.library.lmt_recorder_publish_values(byref(self.table), self.numbers[qualname], values, len(arguments))


class Recorder:
    def __init__(self, library, level, path, config_json="{}"):
        self.library = library
        error = POINTER(GError)()
        params = RecorderParams(struct_size=sizeof(RecorderParams), path=path.encode())
        self.handle = library.lmt_recorder_new(byref(level.table), byref(params), byref(error))
        if not self.handle or not library.lmt_recorder_attach(self.handle, config_json.encode(), None, byref(error)):
            raise OSError(error.contents.message.decode())

    def close(self):
        error = POINTER(GError)()
        if not self.library.lmt_recorder_close(self.handle, byref(error)):
            raise OSError(error.contents.message.decode())
        self.library.lmt_recorder_free(self.handle)


def load(name="liblmtrace-1.so.0"):
    library = ctypes.CDLL(name)
    library.lmt_recorder_new.restype = c_void_p
    library.lmt_recorder_new.argtypes = [c_void_p, c_void_p, c_void_p]
    library.lmt_recorder_attach.argtypes = [c_void_p, c_char_p, c_char_p, c_void_p]
    library.lmt_recorder_close.argtypes = [c_void_p, c_void_p]
    library.lmt_recorder_free.argtypes = [c_void_p]
    library.lmt_recorder_free.restype = None
    library.lmt_recorder_publish_values.argtypes = [c_void_p, c_uint32, c_void_p, c_uint32]
    library.lmt_recorder_publish_values.restype = None
    return library


def main():
    library = load(*sys.argv[2:3])
    level = Level(library, "demo", {"demo.put": ("key", "size", "ttl_s", "model", "pinned", "owner"), "demo.drop": ("key",)})
    level.publish("demo.drop", b"early")  # nobody records yet
    recorder = Recorder(library, level, sys.argv[1])
    for number in range(100):
        level.publish("demo.put", bytes([number, 255]), number << 33, number / 4, "m\u00fcller", number % 2 == 0, None)
    level.publish("demo.drop", b"\x07\xff")
    recorder.close()
    level.publish("demo.drop", b"late")


if __name__ == "__main__":
    main()
