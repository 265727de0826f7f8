#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# contract.sh LMTRACE JSON [PASSED [WORD…]]: check-adapter (with these options) against one adapter; @TMP@ in JSON is a fresh folder.
# With JSON = wrong: the command has to notice norms that aren't met.
set -u
lmtrace=$1 json=$2
data=$LMT_SOURCE_DIR/data
tmp=$(mktemp -d) || exit 99
trap 'rm -rf "$tmp"' EXIT
# a shell that is killed by a signal doesn't run EXIT
trap 'exit 143' TERM INT HUP
if [ "$json" = wrong ]; then
  json='{"type":"dram","max_size_gb":0.1}'
  mkdir "$tmp/wrong"
  # Each norm turned round: every one of them has to fail, and to say where.
  sed 's/"require": *{"bits": *"101"/"require": {"bits": "100"/; s/"name": *"lookup-partial"/"name": "bits"/' \
    "$data/contract/lookup-partial.json" >"$tmp/wrong/bits.json"
  sed 's/"total_bytes": *12288/"total_bytes": 12289/; s/"name": *"usage-arithmetic"/"name": "usage"/' \
    "$data/contract/usage-arithmetic.json" >"$tmp/wrong/usage.json"
  sed 's/"content": *\["A"/"content": ["B"/; s/"name": *"mixed-sizes-in-batch"/"name": "bytes"/' \
    "$data/contract/mixed-sizes-in-batch.json" >"$tmp/wrong/bytes.json"
  sed 's/"victims": *\["a", *"b"\]/"victims": ["b", "a"]/; s/"name": *"evict-lru-oldest-first"/"name": "victims"/' \
    "$data/contract/evict-lru-oldest-first.json" >"$tmp/wrong/victims.json"
  out=$("$lmtrace" check-adapter "$json" --scenarios "$tmp/wrong" --only '[buv]*')
  status=$?
  echo "$out"
  [ $status -eq 1 ] || { echo "expected exit 1, found $status"; exit 1; }
  [ "$(echo "$out" | tail -n 1)" = "0 passed, 4 failed, 0 not applicable" ] || { echo "expected all four to fail"; exit 1; }
  [ "$(echo "$out" | grep -c '^not ok [a-z]*: step [0-9]* ([a-z]*): expected .*, found ')" -eq 4 ] || { echo "expected the step in each line"; exit 1; }
  exit 0
fi
# a busy machine's disk may stand still for long
out=$("$lmtrace" check-adapter --patience 600 "$(echo "$json" | sed "s|@TMP@|$tmp|g")" ${4:+"$4"} ${5:+"$5"} 2>&1)
status=$?
echo "$out"
case $out in *"expected auto, threads or sync, found io_uring"*) exit 77 ;; esac # not built in, or forbidden here
[ $status -eq 0 ] || exit 1
passed=$(echo "$out" | sed -n '$s/ passed.*//p')
# A run that skips what it should run would be no test.
[ "$passed" -ge "${3:-1}" ] || { echo "expected $3 scenarios to pass, found $passed"; exit 1; }
