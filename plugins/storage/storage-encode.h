/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <lmtrace/lmt-plugin.h>

G_BEGIN_DECLS

/**
 * sm_encode_value: any value of `args`, in whatever form a reader takes it, written as LMCache's recorder of @schema (1: 0.5.6,
 * 2: 0.5.7rc3) writes it: shortest forms, members of tagged values in order, unknown ones left out. `tuple`, `set` and a plain
 * array stay apart. FALSE: @fault: an extension type, a tag that schema doesn't have, a payload its codec refuses, nesting beyond
 * %LMT_CURSOR_MAX_DEPTH. The cursor moves behind the value only on TRUE.
 */
gboolean sm_encode_value (LmtCursor *cursor, guint32 schema, LmtPack *out, LmtFault *fault);

/* The same for a whole span that must be one value. */
gboolean sm_encode_span (LmtSpan value, guint32 schema, LmtPack *out, LmtFault *fault);

/* LmtCodecOps.encode of every tag. */
gboolean sm_encode_payload (const char *tag, LmtCursor *payload, guint32 schema, LmtPack *out, LmtFault *fault);

G_END_DECLS
