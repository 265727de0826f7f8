#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The state machine has no thread, clock, kernel call, random number or log call: what it calls is listed here, all of it.

pure.py LIBRARY: TAP. Sanitizers and coverage bring calls of their own: those runs skip.
"""
import re
import subprocess
import sys

ALLOWED = {
    # memory; lmt_pages_*: zeroed arrays, large ones as mappings of their own
    "lmt_pages_resize", "lmt_pages_free", "g_malloc", "g_malloc0", "g_malloc_n", "g_malloc0_n", "g_realloc", "g_realloc_n", "g_free", "memcpy", "memmove", "memset", "memcmp",
    # arrays a caller sees, texts of tags, one error at the door, assertions
    "g_array_new", "g_array_append_vals", "g_array_remove_index", "g_array_set_size", "g_array_unref", "g_ptr_array_add",
    "g_snprintf", "g_strlcpy", "g_set_error", "g_assertion_message_expr", "__snprintf_chk", "__memcpy_chk", "__stack_chk_fail",
}


def main():
    out = subprocess.run(["nm", "-A", sys.argv[1]], capture_output=True, text=True, check=True).stdout
    defined = set(re.findall(r" [TtDdRrBb] (\S+)$", out, re.M))
    wanted = set(re.findall(r" U (\S+)$", out, re.M)) - defined
    print("1..1")
    if any(name.startswith(("__asan", "__ubsan", "__tsan", "__gcov", "__sanitizer", "__msan")) for name in wanted):
        print("ok 1 # SKIP instrumented")
        return 0
    foreign = sorted(n for n in wanted if n not in ALLOWED and not n.startswith(("lmt_key_", "lmt_evict_", "lmt_error_", "_GLOBAL_OFFSET")))
    for name in foreign:
        print("# calls %s" % name)
    print("%s 1 - calls nothing outside" % ("not ok" if foreign else "ok"))
    return 1 if foreign else 0


sys.exit(main())
