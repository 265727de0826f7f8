/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <lmtrace/lmt-plugin.h>

#include "storage-call.h"

G_BEGIN_DECLS

/**
 * SmDecoder: args of every release -> SmCall (trace-format.md 4, 5, 7; storage-manager.md 17). By shape, never by schema number.
 * Keeps its arrays from call to call: no allocation once warm. Interned keys of the last call are held until the next decode.
 */
typedef struct _SmDecoder SmDecoder;

/**
 * SmDecodeNotes: counts over the run, for the report and `note` lines.
 */
typedef struct
{
  guint64 keys;
  guint64 salted_keys;       /* a cache_salt stood in the key */
  guint64 clamped_locks;
  guint64 unknown_arguments;
  guint64 segmented_prefix;
  guint64 undivided_rows;    /* flat list not divisible by groups x ranks: one row */
  guint64 flat_requests;
  guint64 tag_filters;       /* requests with memory tags */
} SmDecodeNotes;

typedef enum { SM_ROWS_GROUPED, SM_ROWS_FLAT, SM_ROWS_FLAT_GROUPED } SmRowsOrigin;

SmDecoder *sm_decoder_new (LmtKeyTable *keys);
void sm_decoder_free (SmDecoder *decoder);

/**
 * sm_decoder_decode:
 * @op: which call the qualname is
 * @call: (out): arrays lent until the next decode
 * @missing: (out): an argument is absent altogether
 * Returns: FALSE: @fault says why; nothing is held
 */
gboolean sm_decoder_decode (SmDecoder *decoder, guint32 op, const LmtRecord *record, SmCall *call, gboolean *missing, LmtFault *fault);
const SmDecodeNotes *sm_decoder_get_notes (const SmDecoder *decoder);
/* Of the last prefetch: the flat list as recorded, when there was one (to 0.5.5): cell of the grid per key, in recorded order. */
const guint32 *sm_decoder_get_flat (const SmDecoder *decoder, guint *n);
/* `external_request_id` of the last prefetch, lent. */
LmtSpan sm_decoder_get_request_id (const SmDecoder *decoder);

/* Walks the keys of a record without interning: TRUE if one passes. */
gboolean sm_decoder_select (SmDecoder *decoder, const LmtRecord *record, const LmtSelect *select);

/* Bytes per element of a dtype name as traces carry it (`torch.bfloat16`), 0: unknown. */
guint sm_dtype_bytes (const char *name, gsize len);

/* Registers one codec per tag of trace-format.md 4. */
gboolean sm_codecs_register (LmtRegistrar *registrar, GError **error);

/* "0.5.3 - 0.5.4", from the shapes seen so far and the header (trace-format.md 7.4); NULL: can't be told. */
const char *sm_decoder_guess_release (const SmDecoder *decoder, const LmtHeader *header);

G_END_DECLS
