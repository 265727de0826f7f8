/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "lmt-level.h"

G_BEGIN_DECLS

/**
 * lmt_codec_find:
 * @tag: what stands behind `__t__`: UTF-8, not terminated, compared byte for byte
 *
 * Threads: any, once plugins are loaded: the table is frozen like handlers. Cost: no allocation.
 * Source: LMCache's trace/codecs.py; the tags of each release are in lmtrace-format(5).
 *
 * Returns: (transfer none) (nullable): the registry's copy, alive with it; NULL: no plugin offers the tag
 * Since: 0.1
 */
const LmtCodecOps *lmt_codec_find (LmtRegistry *registry, LmtSpan tag);

/**
 * lmt_codec_unwrap: a cursor on a map `{"__t__": tag, "v": payload}` (either order, other keys ignored).
 * Returns: 1 and tag + payload; 0: no wrapper (another value; cursor unmoved); -1: a wrapper without v, fault filled
 */
gint lmt_codec_unwrap (LmtCursor *cursor, LmtSpan *tag, LmtSpan *payload, LmtFault *fault);

/**
 * lmt_value_to_json: a whole value as one line of compact JSON, for `info --records`
 *
 * bin as "0x…", wrappers as they stand ({"__t__":…}), ext as {"__ext__":type,"v":"0x…"}, NaN and infinity as null. Keys that are
 * no text: numbers as digits, bin as "0x…", anything else as "0x" and its msgpack bytes.
 */
void lmt_value_to_json (LmtSpan value, GString *out);

G_END_DECLS
