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
 * SmDecodeNotes: counts over the run, for the report and `note` lines. Of records that decoded.
 */
typedef struct
{
  guint64 keys;
  guint64 salted_keys; /* a cache_salt stood in the key */
  guint64 clamped_locks;
  guint64 unknown_arguments;
  guint64 segmented_prefix;
  guint64 undivided_rows; /* flat list not divisible by groups x ranks: one row */
  guint64 flat_requests;
  guint64 tag_filters; /* requests with memory tags */
} SmDecodeNotes;

SmDecoder *sm_decoder_new (LmtKeyTable *keys);
void sm_decoder_free (SmDecoder *decoder);

/**
 * sm_decoder_decode:
 * @op: which call the qualname is
 * @call: (out): arrays lent until the next decode
 * @missing: (out): an argument is absent altogether
 * Returns: FALSE: @fault says why; nothing is lent. The last few key lists stay known, and their keys held, in either case
 */
gboolean sm_decoder_decode (SmDecoder *decoder, guint32 op, const LmtRecord *record, SmCall *call, gboolean *missing,
                            LmtFault *fault);
/* From here on the keys are those of tenant @number: the recorded one (0), or the same with another chunk hash: lengthened by
 * zeros to 8 bytes if shorter, its first 8 bytes (little endian) exclusive-or lmt_mix64 (@number). So equal keys stay equal
 * within a tenant, and no two tenants share one. sm_decoder_select() looks at recorded keys whatever the tenant. */
void sm_decoder_set_tenant (SmDecoder *decoder, guint64 number);
const SmDecodeNotes *sm_decoder_get_notes (const SmDecoder *decoder);
/* Of the last prefetch: the flat list as recorded, when there was one (to 0.5.5): cell of the grid per key, in recorded order.
 * NULL: the request came in rows. */
const guint32 *sm_decoder_get_flat (const SmDecoder *decoder, guint *n);
/* `external_request_id` of the last prefetch, lent: points into the record. */
LmtSpan sm_decoder_get_request_id (const SmDecoder *decoder);

/* Walks the keys of a record without interning: TRUE if one passes. */
gboolean sm_decoder_select (SmDecoder *decoder, const LmtRecord *record, const LmtSelect *select);

/* "0.5.3 - 0.5.4", from the shapes seen so far and the header (trace-format.md 7.4); NULL: can't be told. Alive until the next
 * call. */
const char *sm_decoder_guess_release (SmDecoder *decoder, const LmtHeader *header);

/* Bytes per element of a dtype name as traces carry it (`torch.bfloat16`), 0: unknown. Source: storage-manager.md 1. */
guint sm_dtype_bytes (const char *name, gsize len);

/* Registers one codec per tag of trace-format.md 4. */
gboolean sm_codecs_register (LmtRegistrar *registrar, GError **error);

/* ---- what the codecs give: the value behind each tag. Spans point into the payload. ---- */

/* `ObjectKey`: forms A and B, and an optional cache_salt. */
typedef struct
{
  LmtKeyFields fields;
  guint32 has_group;
  guint32 has_salt;
} SmObjectKey;

/* `MemoryLayoutDesc`. @bytes: of one object, not rounded up. @value: wrapper and all, as it stands in the record; empty where a
 * payload alone was read. */
typedef struct
{
  guint64 bytes;
  guint32 n_tensors;
  guint32 reserved;
  LmtSpan value;
} SmLayout;

/* `AttnWindowDesc`: W1 (array) and W2 (map). @windows: the array, checked: every one is -1 or >= 1. */
typedef struct
{
  LmtSpan windows;
  guint64 world_size;
  guint32 n_windows;
  guint32 is_map;
} SmAttn;

typedef enum
{
  SM_TRIM_PREFIX = 0,
  SM_TRIM_SEGMENTED_PREFIX,
  SM_TRIM_SPARSE
} SmTrim;

/* `TrimPolicy`, `PrefetchMode` (1: WARM), `PrefetchLockMode` (SmLockMode). */
typedef struct
{
  guint32 value;
  guint32 reserved;
} SmWord;

/* `GroupedObjectKeys`. @keys: the whole value, an array of tagged ObjectKey, not looked into. */
typedef struct
{
  LmtSpan keys;
  SmLayout layout;
  gint64 window;
  guint32 group;
  guint32 reserved;
} SmGroupedKeys;

/* `PrefetchTaskSpec` T1 and T2. @key_groups: not looked into. Tag lists: empty span where absent or nil. */
typedef struct
{
  LmtSpan key_groups;
  LmtSpan l1_tags;
  LmtSpan l2_tags;
  gint64 readers; /* >= 1 */
  guint32 policy; /* SmPolicy */
  guint32 lock_mode;
  guint32 has_tags; /* one of the two members stands there: T2 */
  guint32 reserved;
} SmTaskSpec;

/* `PrefetchRequestSpec` R1, R2 and the legacy forms. @group_layouts: empty where a single layout_desc stands for group 0. */
typedef struct
{
  LmtSpan keys;
  LmtSpan group_layouts;
  SmLayout layout;
  SmAttn attn;
  gint64 readers; /* as recorded, extra_count + 1 */
  guint32 trim;   /* SmTrim */
  guint32 warm;
  guint32 has_num_kv_readers;
  guint32 has_extra_count;
} SmRequestSpec;

/* `PrefetchHandle` H1 to H4. */
typedef struct
{
  guint64 total_requested_keys;
  guint32 form; /* 1 … 4 */
  guint32 reserved;
} SmHandle;

/* `MemoryTags`: numbers of segment (vram dram cxl gds storage) and residency (local remote dummy). */
typedef struct
{
  guint32 segment;
  guint32 residency;
} SmTags;

/* `tuple`, `set`, `torch.Size`. */
typedef struct
{
  LmtSpan elements; /* behind the array's head */
  guint32 n;
  guint32 reserved;
} SmSequence;

/* `torch.dtype`. */
typedef struct
{
  guint32 bytes;
  guint32 reserved;
} SmDtype;

typedef union
{
  SmObjectKey key;
  SmLayout layout;
  SmAttn attn;
  SmWord word;
  SmGroupedKeys grouped;
  SmTaskSpec task;
  SmRequestSpec request;
  SmHandle handle;
  SmTags tags;
  SmSequence sequence;
  SmDtype dtype;
} SmValue;

/* Each reads one payload with the cursor on it. FALSE: @fault's reason and where are set. */
struct _SmKeyReader;
gboolean sm_read_object_key (LmtCursor *payload, SmObjectKey *value, LmtFault *fault);
gboolean sm_read_layout (LmtCursor *payload, SmLayout *value, LmtFault *fault);
gboolean sm_read_attn (LmtCursor *payload, SmAttn *value, LmtFault *fault);
gboolean sm_read_trim (LmtCursor *payload, SmWord *value, LmtFault *fault);
gboolean sm_read_prefetch_mode (LmtCursor *payload, SmWord *value, LmtFault *fault);
gboolean sm_read_lock_mode (LmtCursor *payload, SmWord *value, LmtFault *fault);
/* @reader: (nullable): the key lists met on the way are interned at once, so that nothing big is walked twice */
gboolean sm_read_grouped_keys (LmtCursor *payload, SmGroupedKeys *value, struct _SmKeyReader *reader, LmtFault *fault);
gboolean sm_read_task_spec (LmtCursor *payload, SmTaskSpec *value, struct _SmKeyReader *reader, LmtFault *fault);
gboolean sm_read_request_spec (LmtCursor *payload, SmRequestSpec *value, struct _SmKeyReader *reader, LmtFault *fault);
gboolean sm_read_tags (LmtCursor *payload, SmTags *value, LmtFault *fault);

/* ---- helpers of codecs and decoder ---- */

/* Sets reason and place; always FALSE. */
gboolean sm_fault (LmtFault *fault, const char *reason, const char *where);
/* The same, with what stands at the cursor and @wanted in its place; an extension type is named as such wherever a value is
 * needed. */
gboolean sm_fault_type (LmtFault *fault, const LmtCursor *cursor, const char *reason, const char *wanted);
/* "integer", "array", "extension type" … (static) */
const char *sm_type_name (guint32 type);
gboolean sm_tag_is_known (LmtSpan tag);
const LmtCodecOps *sm_find_codec (LmtSpan tag); /* (nullable) */

/**
 * sm_unwrap:
 * @cursor: moves behind the value only on 1
 * Returns: 1: a wrapper, with its @tag and @payload; 0: another value; -1: a wrapper without v, or whose tag is unknown: fault
 * filled
 */
gint sm_unwrap (LmtCursor *cursor, LmtSpan *tag, LmtSpan *payload, struct _SmKeyReader *reader, LmtFault *fault);

/* The value must be a wrapper of @tag; @other: the reason if it is something else. */
gboolean sm_expect_tag (LmtCursor *cursor, const char *tag, LmtSpan *payload, struct _SmKeyReader *reader, const char *other,
                        LmtFault *fault);

/* A wrapper in the form every release writes, two members and `__t__` first: the cursor moves to the payload. FALSE: another
 * form. */
gboolean sm_open_plain (LmtCursor *cursor, LmtSpan *tag);

/* As sm_expect_tag() of a span that is exactly one value: nothing is walked. */
gboolean sm_open_tag (LmtSpan value, const char *tag, LmtCursor *payload, const char *other, LmtFault *fault);

/* A whole value that must be a tagged MemoryLayoutDesc. @reader: (nullable): remembers the last one. */
gboolean sm_read_tagged_layout (LmtSpan value, SmLayout *layout, struct _SmKeyReader *reader, const char *other, LmtFault *fault);

/* Steps into an array, a wrapped `tuple` or `set`. @other: the reason if it is something else. */
gboolean sm_enter_array (LmtCursor *cursor, guint32 *n, struct _SmKeyReader *reader, const char *other, LmtFault *fault);

/* Walks a value nobody wants: only wrappers are looked at. Cursor moves behind it. */
gboolean sm_check_ignored (LmtCursor *cursor, LmtFault *fault);

/* One known member of a payload map. */
typedef struct
{
  const char *name;
  guint32 len;
  const char *absent;
  const char *wrong_type;
} SmField;
#define SM_FIELD(tag, name_)                                                                                                     \
  {                                                                                                                              \
    name_, sizeof (name_) - 1, tag " without " name_, tag "." name_ " has an unexpected type"                                    \
  }

/* Positions of the members of a map, last one of equal names counting; absent ones have data NULL. FALSE: no map. */
gboolean sm_collect (LmtCursor *cursor, const SmField *fields, guint n_fields, LmtSpan *members, struct _SmKeyReader *reader);

static inline LmtCursor
sm_cursor (LmtSpan span)
{
  LmtCursor cursor;
  lmt_cursor_init (&cursor, span);
  return cursor;
}

G_END_DECLS
