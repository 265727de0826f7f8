// SPDX-License-Identifier: Apache-2.0
#include "storage-codecs.h"

#include "storage-encode.h"
#include "storage-keys.h"

/* The complete list, aliases included: storage-manager.md 1. Sub-byte types count one byte per element. Sorted for bsearch(). */
static const struct
{
  const char *name;
  guint bytes;
} dtypes[] = {
  { "torch.bfloat16", 2 },
  { "torch.bit", 1 },
  { "torch.bits16", 2 },
  { "torch.bits1x8", 1 },
  { "torch.bits2x4", 1 },
  { "torch.bits4x2", 1 },
  { "torch.bits8", 1 },
  { "torch.bool", 1 },
  { "torch.cdouble", 16 },
  { "torch.cfloat", 8 },
  { "torch.chalf", 4 },
  { "torch.complex128", 16 },
  { "torch.complex32", 4 },
  { "torch.complex64", 8 },
  { "torch.double", 8 },
  { "torch.float", 4 },
  { "torch.float16", 2 },
  { "torch.float32", 4 },
  { "torch.float4_e2m1fn_x2", 1 },
  { "torch.float64", 8 },
  { "torch.float8_e4m3fn", 1 },
  { "torch.float8_e4m3fnuz", 1 },
  { "torch.float8_e5m2", 1 },
  { "torch.float8_e5m2fnuz", 1 },
  { "torch.float8_e8m0fnu", 1 },
  { "torch.half", 2 },
  { "torch.int", 4 },
  { "torch.int1", 1 },
  { "torch.int16", 2 },
  { "torch.int2", 1 },
  { "torch.int3", 1 },
  { "torch.int32", 4 },
  { "torch.int4", 1 },
  { "torch.int5", 1 },
  { "torch.int6", 1 },
  { "torch.int64", 8 },
  { "torch.int7", 1 },
  { "torch.int8", 1 },
  { "torch.long", 8 },
  { "torch.qint32", 4 },
  { "torch.qint8", 1 },
  { "torch.quint2x4", 1 },
  { "torch.quint4x2", 1 },
  { "torch.quint8", 1 },
  { "torch.short", 2 },
  { "torch.uint1", 1 },
  { "torch.uint16", 2 },
  { "torch.uint2", 1 },
  { "torch.uint3", 1 },
  { "torch.uint32", 4 },
  { "torch.uint4", 1 },
  { "torch.uint5", 1 },
  { "torch.uint6", 1 },
  { "torch.uint64", 8 },
  { "torch.uint7", 1 },
  { "torch.uint8", 1 },
};

guint
sm_dtype_bytes (const char *name, gsize len)
{
  guint low = 0, high = G_N_ELEMENTS (dtypes);
  while (low < high)
    {
      guint mid = (low + high) / 2;
      gsize known = strlen (dtypes[mid].name);
      int order = memcmp (dtypes[mid].name, name, MIN (known, len));
      if (order == 0 && known == len)
        return dtypes[mid].bytes;
      if (order < 0 || (order == 0 && known < len))
        low = mid + 1;
      else
        high = mid;
    }
  return 0;
}

/* -------- single members -------- */

/* The member is there, or the fault says so. */
static gboolean
need (const LmtSpan *member, const SmField *field, LmtFault *fault)
{
  return member->data != NULL || sm_fault (fault, field->absent, NULL);
}

static gboolean
member_str (const LmtSpan *member, const SmField *field, LmtSpan *text, LmtFault *fault)
{
  if (!need (member, field, fault))
    return FALSE;
  LmtCursor cursor = sm_cursor (*member);
  return lmt_cursor_read_str (&cursor, text) || sm_fault_type (fault, &cursor, field->wrong_type, "str");
}

static gboolean
member_int (const LmtSpan *member, const SmField *field, gint64 *value, LmtFault *fault)
{
  if (!need (member, field, fault))
    return FALSE;
  LmtCursor cursor = sm_cursor (*member);
  return lmt_cursor_read_int (&cursor, value) || sm_fault_type (fault, &cursor, field->wrong_type, "integer");
}

/* An object group's number. */
static gboolean
member_group (const LmtSpan *member, const SmField *field, const char *below, guint32 *group, LmtFault *fault)
{
  gint64 value;
  if (!member_int (member, field, &value, fault))
    return FALSE;
  if (value < 0)
    return sm_fault (fault, below, NULL);
  if (value > G_MAXUINT32)
    {
      fault->expected = "at most 4294967295";
      return sm_fault (fault, field->wrong_type, NULL);
    }
  *group = (guint32)value;
  return TRUE;
}

/* One of the words a tag's str payload may be. */
static gboolean
read_word (LmtCursor *payload, const char *const *words, guint32 *value, const char *unknown, LmtFault *fault)
{
  LmtSpan word;
  if (!lmt_cursor_read_str (payload, &word))
    return sm_fault_type (fault, payload, unknown, "str");
  for (guint i = 0; words[i] != NULL; i++)
    if (lmt_span_equal_str (word, words[i], strlen (words[i])))
      {
        *value = i;
        return TRUE;
      }
  lmt_fault_set_detail (fault, (const char *)word.data, word.len);
  return sm_fault (fault, unknown, NULL);
}

/* -------- the tags -------- */

/* storage-manager.md 1: what a salt may not hold. */
static const char *
check_salt (LmtSpan salt)
{
  glong characters = 0;
  for (gsize i = 0; i < salt.len; i++)
    {
      guint8 c = salt.data[i];
      if (c == '@')
        return "ObjectKey.cache_salt contains @";
      if (c == '/')
        return "ObjectKey.cache_salt contains /";
      if (c == '\\')
        return "ObjectKey.cache_salt contains a backslash";
      if (c == '\0')
        return "ObjectKey.cache_salt contains NUL";
      characters += (c & 0xc0) != 0x80;
    }
  return characters > 128 ? "ObjectKey.cache_salt is longer than 128 characters" : NULL;
}

gboolean
sm_read_object_key (LmtCursor *payload, SmObjectKey *value, LmtFault *fault)
{
  enum
  {
    HASH,
    MODEL,
    RANK,
    GROUP,
    SALT,
    N
  };
  static const SmField fields[N]
      = { SM_FIELD ("ObjectKey", "chunk_hash"), SM_FIELD ("ObjectKey", "model_name"), SM_FIELD ("ObjectKey", "kv_rank"),
          SM_FIELD ("ObjectKey", "object_group_id"), SM_FIELD ("ObjectKey", "cache_salt") };
  LmtSpan members[N], hash, model, salt = { (const guint8 *)"", 0 };
  memset (value, 0, sizeof *value);
  if (!sm_collect (payload, fields, N, members, NULL))
    return sm_fault_type (fault, payload, "ObjectKey is not a map", "map");
  if (!need (&members[HASH], &fields[HASH], fault))
    return FALSE;
  LmtCursor cursor = sm_cursor (members[HASH]);
  if (!lmt_cursor_read_bin (&cursor, &hash))
    return sm_fault_type (fault, &cursor, fields[HASH].wrong_type, "bin");
  if (!member_str (&members[MODEL], &fields[MODEL], &model, fault))
    return FALSE;
  if (memchr (model.data, '@', model.len) != NULL)
    {
      lmt_fault_set_detail (fault, (const char *)model.data, model.len);
      return sm_fault (fault, "ObjectKey.model_name contains @", NULL);
    }
  if (!need (&members[RANK], &fields[RANK], fault))
    return FALSE;
  gint64 rank;
  cursor = sm_cursor (members[RANK]);
  if (lmt_cursor_read_int (&cursor, &rank)) /* 64 opaque bits, negative or not */
    value->fields.rank = (guint64)rank;
  else if (!lmt_cursor_read_uint (&cursor, &value->fields.rank))
    return sm_fault_type (fault, &cursor, fields[RANK].wrong_type, "integer");
  if (members[GROUP].data != NULL
      && !member_group (&members[GROUP], &fields[GROUP], "ObjectKey.object_group_id below 0", &value->fields.group, fault))
    return FALSE;
  if (members[SALT].data != NULL)
    {
      if (!member_str (&members[SALT], &fields[SALT], &salt, fault))
        return FALSE;
      const char *broken = check_salt (salt);
      if (broken != NULL)
        return sm_fault (fault, broken, NULL);
    }
  value->has_group = members[GROUP].data != NULL;
  value->has_salt = members[SALT].data != NULL;
  value->fields.struct_size = sizeof value->fields;
  value->fields.hash = hash.data;
  value->fields.hash_len = (guint32)hash.len;
  value->fields.model = (const char *)model.data;
  value->fields.model_len = (guint32)model.len;
  value->fields.salt = (const char *)salt.data;
  value->fields.salt_len = (guint32)salt.len;
  return TRUE;
}

/* Bytes of one tensor: product of the dimensions times bytes per element; no dimensions: one element. */
static gboolean
read_tensor (LmtCursor *shapes, LmtCursor *names, guint64 *bytes, LmtFault *fault)
{
  guint32 dimensions;
  LmtSpan name, value;
  if (!lmt_cursor_skip_span (shapes, &value))
    return sm_fault (fault, "invalid msgpack", NULL);
  LmtCursor shape = sm_cursor (value);
  if (!sm_enter_array (&shape, &dimensions, NULL, "MemoryLayoutDesc.shapes has an unexpected type", fault))
    return FALSE;
  if (!lmt_cursor_read_str (names, &name))
    return sm_fault_type (fault, names, "MemoryLayoutDesc.dtypes has an unexpected type", "str");
  guint64 product = sm_dtype_bytes ((const char *)name.data, name.len);
  if (product == 0)
    {
      lmt_fault_set_detail (fault, (const char *)name.data, name.len);
      return sm_fault (fault, "unknown dtype", NULL);
    }
  gboolean fits = TRUE, is_zero = FALSE;
  for (guint32 i = 0; i < dimensions; i++)
    {
      gint64 n;
      if (!lmt_cursor_read_int (&shape, &n))
        return sm_fault_type (fault, &shape, "MemoryLayoutDesc.shapes has an unexpected type", "integer");
      if (n < 0)
        return sm_fault (fault, "MemoryLayoutDesc.shapes has a dimension below 0", NULL);
      is_zero |= n == 0;
      fits = fits && g_uint64_checked_mul (&product, product, (guint64)n);
    }
  if (!is_zero && (!fits || product > G_MAXINT64))
    return sm_fault (fault, "MemoryLayoutDesc describes more bytes than 64 bits count", NULL);
  *bytes = is_zero ? 0 : product;
  return TRUE;
}

gboolean
sm_read_layout (LmtCursor *payload, SmLayout *value, LmtFault *fault)
{
  enum
  {
    SHAPES,
    DTYPES,
    N
  };
  static const SmField fields[N] = { SM_FIELD ("MemoryLayoutDesc", "shapes"), SM_FIELD ("MemoryLayoutDesc", "dtypes") };
  LmtSpan members[N];
  guint32 n_shapes, n_dtypes;
  memset (value, 0, sizeof *value);
  if (!sm_collect (payload, fields, N, members, NULL))
    return sm_fault_type (fault, payload, "MemoryLayoutDesc is not a map", "map");
  if (!need (&members[SHAPES], &fields[SHAPES], fault) || !need (&members[DTYPES], &fields[DTYPES], fault))
    return FALSE;
  LmtCursor shapes = sm_cursor (members[SHAPES]), names = sm_cursor (members[DTYPES]);
  if (!sm_enter_array (&shapes, &n_shapes, NULL, fields[SHAPES].wrong_type, fault)
      || !sm_enter_array (&names, &n_dtypes, NULL, fields[DTYPES].wrong_type, fault))
    return FALSE;
  if (n_shapes != n_dtypes)
    return sm_fault (fault, "MemoryLayoutDesc has not as many shapes as dtypes", NULL);
  for (guint32 i = 0; i < n_shapes; i++)
    {
      guint64 bytes = 0;
      if (!read_tensor (&shapes, &names, &bytes, fault))
        return FALSE;
      value->bytes += bytes;
      if (value->bytes > G_MAXINT64)
        return sm_fault (fault, "MemoryLayoutDesc describes more bytes than 64 bits count", NULL);
    }
  value->n_tensors = n_shapes;
  return TRUE;
}

gboolean
sm_read_tagged_layout (LmtSpan value, SmLayout *layout, SmKeyReader *reader, const char *other, LmtFault *fault)
{
  LmtCursor payload;
  if (reader != NULL && reader->layout_len == value.len && value.len > 0 && memcmp (reader->layout, value.data, value.len) == 0)
    {
      *layout = (SmLayout){ reader->layout_bytes, reader->layout_tensors, 0, value };
      return TRUE;
    }
  if (!sm_open_tag (value, "MemoryLayoutDesc", &payload, other, fault) || !sm_read_layout (&payload, layout, fault))
    return FALSE;
  layout->value = value;
  if (reader != NULL && value.len <= sizeof reader->layout)
    {
      memcpy (reader->layout, value.data, value.len);
      reader->layout_len = (guint)value.len;
      reader->layout_bytes = layout->bytes;
      reader->layout_tensors = layout->n_tensors;
    }
  return TRUE;
}

/* The member is a tagged MemoryLayoutDesc. */
static gboolean
member_layout (const LmtSpan *member, const SmField *field, SmLayout *layout, SmKeyReader *reader, LmtFault *fault)
{
  return need (member, field, fault) && sm_read_tagged_layout (*member, layout, reader, field->wrong_type, fault);
}

gboolean
sm_read_attn (LmtCursor *payload, SmAttn *value, LmtFault *fault)
{
  enum
  {
    WINDOWS,
    WORLD,
    N
  };
  static const SmField fields[N] = { SM_FIELD ("AttnWindowDesc", "num_chunks_in_sw"), SM_FIELD ("AttnWindowDesc", "world_size") };
  LmtSpan members[N];
  LmtCursor cursor = *payload;
  memset (value, 0, sizeof *value);
  value->world_size = 1;
  LmtSpan tag, sequence;
  if (lmt_cursor_peek (payload) == LMT_TYPE_MAP && sm_unwrap (&cursor, &tag, &sequence, NULL, fault) == 0)
    {
      gint64 world;
      if (!sm_collect (payload, fields, N, members, NULL))
        return sm_fault (fault, "AttnWindowDesc has an unexpected type", NULL);
      if (!need (&members[WINDOWS], &fields[WINDOWS], fault) || !member_int (&members[WORLD], &fields[WORLD], &world, fault))
        return FALSE;
      if (world < 1)
        return sm_fault (fault, "AttnWindowDesc.world_size below 1", NULL);
      value->is_map = TRUE;
      value->world_size = (guint64)world;
      cursor = sm_cursor (members[WINDOWS]);
    }
  else
    cursor = *payload;
  if (!sm_enter_array (&cursor, &value->n_windows, NULL, "AttnWindowDesc has an unexpected type", fault))
    return FALSE;
  value->windows.data = cursor.pos;
  for (guint32 i = 0; i < value->n_windows; i++)
    {
      gint64 window;
      if (!lmt_cursor_read_int (&cursor, &window))
        return sm_fault_type (fault, &cursor, "AttnWindowDesc has an unexpected type", "integer");
      if (window != -1 && window < 1)
        return sm_fault (fault, "window is neither -1 nor >= 1", NULL);
    }
  value->windows.len = (gsize)(cursor.pos - value->windows.data);
  return TRUE;
}

gboolean
sm_read_trim (LmtCursor *payload, SmWord *value, LmtFault *fault)
{
  static const char *const words[] = { "PREFIX", "SEGMENTED_PREFIX", "SPARSE", NULL }; /* order of SmTrim */
  return read_word (payload, words, &value->value, "unknown TrimPolicy", fault);
}

gboolean
sm_read_prefetch_mode (LmtCursor *payload, SmWord *value, LmtFault *fault)
{
  static const char *const words[] = { "LOOKUP", "WARM", NULL };
  return read_word (payload, words, &value->value, "unknown PrefetchMode", fault);
}

gboolean
sm_read_lock_mode (LmtCursor *payload, SmWord *value, LmtFault *fault)
{
  static const char *const words[] = { "LOCK", "NO_LOCK", NULL }; /* order of SmLockMode */
  return read_word (payload, words, &value->value, "unknown PrefetchLockMode", fault);
}

gboolean
sm_read_tags (LmtCursor *payload, SmTags *value, LmtFault *fault)
{
  enum
  {
    SEGMENT,
    RESIDENCY,
    N
  };
  static const SmField fields[N] = { SM_FIELD ("MemoryTags", "segment"), SM_FIELD ("MemoryTags", "residency") };
  static const char *const segments[] = { "vram", "dram", "cxl", "gds", "storage", NULL };
  static const char *const residencies[] = { "local", "remote", "dummy", NULL };
  LmtSpan members[N];
  if (!sm_collect (payload, fields, N, members, NULL))
    return sm_fault_type (fault, payload, "MemoryTags is not a map", "map");
  if (!need (&members[SEGMENT], &fields[SEGMENT], fault) || !need (&members[RESIDENCY], &fields[RESIDENCY], fault))
    return FALSE;
  LmtCursor segment = sm_cursor (members[SEGMENT]), residency = sm_cursor (members[RESIDENCY]);
  return read_word (&segment, segments, &value->segment, "unknown MemoryTags.segment", fault)
         && read_word (&residency, residencies, &value->residency, "unknown MemoryTags.residency", fault);
}

gboolean
sm_read_grouped_keys (LmtCursor *payload, SmGroupedKeys *value, SmKeyReader *reader, LmtFault *fault)
{
  enum
  {
    KEYS,
    GROUP,
    LAYOUT,
    WINDOW,
    N
  };
  static const SmField fields[N]
      = { SM_FIELD ("GroupedObjectKeys", "keys"), SM_FIELD ("GroupedObjectKeys", "object_group_id"),
          SM_FIELD ("GroupedObjectKeys", "layout_desc"), SM_FIELD ("GroupedObjectKeys", "sliding_window_size") };
  LmtSpan members[N];
  memset (value, 0, sizeof *value);
  if (!sm_collect (payload, fields, N, members, reader))
    return sm_fault_type (fault, payload, "GroupedObjectKeys is not a map", "map");
  if (!need (&members[KEYS], &fields[KEYS], fault)
      || !member_group (&members[GROUP], &fields[GROUP], "GroupedObjectKeys.object_group_id below 0", &value->group, fault)
      || !member_layout (&members[LAYOUT], &fields[LAYOUT], &value->layout, reader, fault)
      || !member_int (&members[WINDOW], &fields[WINDOW], &value->window, fault))
    return FALSE;
  if (value->window != -1 && value->window < 1)
    return sm_fault (fault, "GroupedObjectKeys.sliding_window_size is neither -1 nor >= 1", NULL);
  value->keys = members[KEYS];
  return TRUE;
}

/* nil and absent: all memories, an empty span. */
static gboolean
member_tag_list (const LmtSpan *member, const SmField *field, LmtSpan *list, LmtFault *fault)
{
  if (member->data == NULL)
    return TRUE;
  LmtCursor cursor = sm_cursor (*member);
  if (lmt_cursor_read_nil (&cursor))
    return TRUE;
  guint32 n;
  if (!sm_enter_array (&cursor, &n, NULL, field->wrong_type, fault))
    return FALSE;
  for (guint32 i = 0; i < n; i++)
    {
      LmtSpan payload;
      SmTags tags;
      if (!sm_expect_tag (&cursor, "MemoryTags", &payload, NULL, field->wrong_type, fault))
        return FALSE;
      LmtCursor inner = sm_cursor (payload);
      if (!sm_read_tags (&inner, &tags, fault))
        return FALSE;
    }
  *list = *member;
  return TRUE;
}

gboolean
sm_read_task_spec (LmtCursor *payload, SmTaskSpec *value, SmKeyReader *reader, LmtFault *fault)
{
  enum
  {
    GROUPS,
    READERS,
    POLICY,
    LOCK,
    L1_TAGS,
    L2_TAGS,
    N
  };
  static const SmField fields[N] = { SM_FIELD ("PrefetchTaskSpec", "key_groups"),
                                     SM_FIELD ("PrefetchTaskSpec", "num_kv_readers"),
                                     SM_FIELD ("PrefetchTaskSpec", "fetching_policy"),
                                     SM_FIELD ("PrefetchTaskSpec", "lock_mode"),
                                     SM_FIELD ("PrefetchTaskSpec", "allowed_l1_memory_tags"),
                                     SM_FIELD ("PrefetchTaskSpec", "allowed_l2_memory_tags") };
  static const char *const policies[] = { "prefix", "full", NULL }; /* order of SmPolicy */
  LmtSpan members[N];
  SmWord lock = { 0, 0 };
  memset (value, 0, sizeof *value);
  if (!sm_collect (payload, fields, N, members, reader))
    return sm_fault_type (fault, payload, "PrefetchTaskSpec is not a map", "map");
  if (!need (&members[GROUPS], &fields[GROUPS], fault)
      || !member_int (&members[READERS], &fields[READERS], &value->readers, fault))
    return FALSE;
  if (value->readers < 1)
    return sm_fault (fault, "PrefetchTaskSpec.num_kv_readers below 1", NULL);
  if (!need (&members[POLICY], &fields[POLICY], fault) || !need (&members[LOCK], &fields[LOCK], fault))
    return FALSE;
  LmtCursor cursor = sm_cursor (members[POLICY]);
  if (!read_word (&cursor, policies, &value->policy, "unknown PrefetchTaskSpec.fetching_policy", fault))
    return FALSE;
  if (!sm_open_tag (members[LOCK], "PrefetchLockMode", &cursor, fields[LOCK].wrong_type, fault))
    return FALSE;
  if (!sm_read_lock_mode (&cursor, &lock, fault) || !member_tag_list (&members[L1_TAGS], &fields[L1_TAGS], &value->l1_tags, fault)
      || !member_tag_list (&members[L2_TAGS], &fields[L2_TAGS], &value->l2_tags, fault))
    return FALSE;
  value->lock_mode = lock.value;
  value->key_groups = members[GROUPS];
  value->has_tags = members[L1_TAGS].data != NULL || members[L2_TAGS].data != NULL;
  return TRUE;
}

/* An optional tagged word. */
static gboolean
member_word (const LmtSpan *member, const SmField *field, const char *tag, gboolean (*read) (LmtCursor *, SmWord *, LmtFault *),
             guint32 *value, LmtFault *fault)
{
  LmtCursor payload;
  SmWord word = { 0, 0 };
  if (member->data == NULL)
    return TRUE;
  if (!sm_open_tag (*member, tag, &payload, field->wrong_type, fault) || !read (&payload, &word, fault))
    return FALSE;
  *value = word.value;
  return TRUE;
}

gboolean
sm_read_request_spec (LmtCursor *payload, SmRequestSpec *value, SmKeyReader *reader, LmtFault *fault)
{
  enum
  {
    KEYS,
    READERS,
    EXTRA,
    POLICY,
    ATTN,
    LAYOUTS,
    LAYOUT,
    MODE,
    N
  };
  static const SmField fields[N]
      = { SM_FIELD ("PrefetchRequestSpec", "keys"),        SM_FIELD ("PrefetchRequestSpec", "num_kv_readers"),
          SM_FIELD ("PrefetchRequestSpec", "extra_count"), SM_FIELD ("PrefetchRequestSpec", "policy"),
          SM_FIELD ("PrefetchRequestSpec", "attn_desc"),   SM_FIELD ("PrefetchRequestSpec", "group_layout_descs"),
          SM_FIELD ("PrefetchRequestSpec", "layout_desc"), SM_FIELD ("PrefetchRequestSpec", "mode") };
  LmtSpan members[N];
  memset (value, 0, sizeof *value);
  value->attn = (SmAttn){ { (const guint8 *)"\xff", 1 }, 1, 1, 0 };
  value->readers = 1;
  if (!sm_collect (payload, fields, N, members, reader))
    return sm_fault_type (fault, payload, "PrefetchRequestSpec is not a map", "map");
  if (!need (&members[KEYS], &fields[KEYS], fault))
    return FALSE;
  value->has_num_kv_readers = members[READERS].data != NULL;
  value->has_extra_count = members[EXTRA].data != NULL;
  if (value->has_num_kv_readers)
    {
      if (!member_int (&members[READERS], &fields[READERS], &value->readers, fault))
        return FALSE;
      if (value->readers < 1)
        return sm_fault (fault, "PrefetchRequestSpec.num_kv_readers below 1", NULL);
    }
  else if (value->has_extra_count)
    {
      if (!member_int (&members[EXTRA], &fields[EXTRA], &value->readers, fault))
        return FALSE;
      value->readers += value->readers < G_MAXINT64;
    }
  if (!member_word (&members[POLICY], &fields[POLICY], "TrimPolicy", sm_read_trim, &value->trim, fault)
      || !member_word (&members[MODE], &fields[MODE], "PrefetchMode", sm_read_prefetch_mode, &value->warm, fault))
    return FALSE;
  if (members[ATTN].data != NULL)
    {
      LmtCursor cursor;
      if (!sm_open_tag (members[ATTN], "AttnWindowDesc", &cursor, fields[ATTN].wrong_type, fault))
        return FALSE;
      if (!sm_read_attn (&cursor, &value->attn, fault))
        return FALSE;
    }
  if (members[LAYOUTS].data != NULL)
    value->group_layouts = members[LAYOUTS];
  else if (members[LAYOUT].data == NULL)
    return sm_fault (fault, fields[LAYOUTS].absent, NULL);
  else if (!member_layout (&members[LAYOUT], &fields[LAYOUT], &value->layout, reader, fault))
    return FALSE;
  value->keys = members[KEYS];
  return TRUE;
}

static gboolean
read_handle (LmtCursor *payload, SmHandle *value, LmtFault *fault)
{
  enum
  {
    REQUEST,
    EXTERNAL,
    TOTAL,
    TIME,
    HITS,
    FOUND,
    ORIGINAL,
    CHUNKS,
    WINDOWS,
    N
  };
  static const SmField fields[N]
      = { SM_FIELD ("PrefetchHandle", "prefetch_request_id"),  SM_FIELD ("PrefetchHandle", "external_request_id"),
          SM_FIELD ("PrefetchHandle", "total_requested_keys"), SM_FIELD ("PrefetchHandle", "submit_time"),
          SM_FIELD ("PrefetchHandle", "l1_prefix_hit_count"),  SM_FIELD ("PrefetchHandle", "l1_found_indices"),
          SM_FIELD ("PrefetchHandle", "l2_orig_indices"),      SM_FIELD ("PrefetchHandle", "l1_hit_chunks"),
          SM_FIELD ("PrefetchHandle", "sliding_windows") };
  LmtSpan members[N];
  gint64 total;
  memset (value, 0, sizeof *value);
  if (!sm_collect (payload, fields, N, members, NULL))
    return sm_fault_type (fault, payload, "PrefetchHandle is not a map", "map");
  if (!need (&members[REQUEST], &fields[REQUEST], fault) || !need (&members[EXTERNAL], &fields[EXTERNAL], fault)
      || !member_int (&members[TOTAL], &fields[TOTAL], &total, fault) || !need (&members[TIME], &fields[TIME], fault))
    return FALSE;
  if (total < 0)
    return sm_fault (fault, "PrefetchHandle.total_requested_keys below 0", NULL);
  value->total_requested_keys = (guint64)total;
  if (members[WINDOWS].data != NULL)
    value->form = 4;
  else if (members[CHUNKS].data != NULL)
    value->form = 3;
  else if (members[FOUND].data != NULL)
    value->form = 2;
  else if (members[HITS].data != NULL)
    value->form = 1;
  else
    return sm_fault (fault, fields[FOUND].absent, NULL);
  return TRUE;
}

static gboolean
read_sequence (LmtCursor *payload, SmSequence *value, LmtFault *fault)
{
  memset (value, 0, sizeof *value);
  if (!lmt_cursor_read_array (payload, &value->n))
    return sm_fault_type (fault, payload, "payload is not an array", "array");
  value->elements.data = payload->pos;
  for (guint32 i = 0; i < value->n; i++)
    if (!lmt_cursor_skip (payload))
      return sm_fault (fault, "invalid msgpack", NULL);
  value->elements.len = (gsize)(payload->pos - value->elements.data);
  return TRUE;
}

static gboolean
read_size (LmtCursor *payload, SmSequence *value, LmtFault *fault)
{
  if (!read_sequence (payload, value, fault))
    return FALSE;
  LmtCursor cursor = sm_cursor (value->elements);
  for (guint32 i = 0; i < value->n; i++)
    {
      gint64 n;
      if (!lmt_cursor_read_int (&cursor, &n))
        return sm_fault_type (fault, &cursor, "torch.Size has an unexpected type", "integer");
    }
  return TRUE;
}

static gboolean
read_dtype (LmtCursor *payload, SmDtype *value, LmtFault *fault)
{
  LmtSpan name;
  if (!lmt_cursor_read_str (payload, &name))
    return sm_fault_type (fault, payload, "torch.dtype has an unexpected type", "str");
  value->bytes = sm_dtype_bytes ((const char *)name.data, name.len);
  if (value->bytes > 0)
    return TRUE;
  lmt_fault_set_detail (fault, (const char *)name.data, name.len);
  return sm_fault (fault, "unknown dtype", NULL);
}

/* -------- the border -------- */

#define CODEC(function, Type, read)                                                                                              \
  static gboolean function (LmtCursor *payload, gpointer value, gpointer scratch, LmtFault *fault)                               \
  {                                                                                                                              \
    return read;                                                                                                                 \
  }
CODEC (codec_key, SmObjectKey, sm_read_object_key (payload, value, fault))
CODEC (codec_layout, SmLayout, sm_read_layout (payload, value, fault))
CODEC (codec_attn, SmAttn, sm_read_attn (payload, value, fault))
CODEC (codec_trim, SmWord, sm_read_trim (payload, value, fault))
CODEC (codec_mode, SmWord, sm_read_prefetch_mode (payload, value, fault))
CODEC (codec_lock, SmWord, sm_read_lock_mode (payload, value, fault))
CODEC (codec_grouped, SmGroupedKeys, sm_read_grouped_keys (payload, value, NULL, fault))
CODEC (codec_task, SmTaskSpec, sm_read_task_spec (payload, value, NULL, fault))
CODEC (codec_request, SmRequestSpec, sm_read_request_spec (payload, value, NULL, fault))
CODEC (codec_tags, SmTags, sm_read_tags (payload, value, fault))
CODEC (codec_handle, SmHandle, read_handle (payload, value, fault))
CODEC (codec_sequence, SmSequence, read_sequence (payload, value, fault))
CODEC (codec_size, SmSequence, read_size (payload, value, fault))
CODEC (codec_dtype, SmDtype, read_dtype (payload, value, fault))

static const LmtCodecOps codecs[] = {
  { sizeof (LmtCodecOps), sizeof (SmObjectKey), "ObjectKey", "Key of an object: hash, model, rank, group, salt", codec_key,
    sm_encode_payload },
  { sizeof (LmtCodecOps), sizeof (SmLayout), "MemoryLayoutDesc", "Shapes and dtypes of an object's tensors", codec_layout,
    sm_encode_payload },
  { sizeof (LmtCodecOps), sizeof (SmGroupedKeys), "GroupedObjectKeys", "One row of a prefetch", codec_grouped,
    sm_encode_payload },
  { sizeof (LmtCodecOps), sizeof (SmTaskSpec), "PrefetchTaskSpec", "Prefetch request, 0.5.6 and later", codec_task,
    sm_encode_payload },
  { sizeof (LmtCodecOps), sizeof (SmWord), "PrefetchLockMode", "LOCK or NO_LOCK", codec_lock, sm_encode_payload },
  { sizeof (LmtCodecOps), sizeof (SmTags), "MemoryTags", "Segment and residency of a memory", codec_tags, sm_encode_payload },
  { sizeof (LmtCodecOps), sizeof (SmRequestSpec), "PrefetchRequestSpec", "Prefetch request, 0.5.3 to 0.5.5", codec_request,
    sm_encode_payload },
  { sizeof (LmtCodecOps), sizeof (SmAttn), "AttnWindowDesc", "Windows of the object groups", codec_attn, sm_encode_payload },
  { sizeof (LmtCodecOps), sizeof (SmWord), "TrimPolicy", "PREFIX, SEGMENTED_PREFIX or SPARSE", codec_trim, sm_encode_payload },
  { sizeof (LmtCodecOps), sizeof (SmWord), "PrefetchMode", "LOOKUP or WARM", codec_mode, sm_encode_payload },
  { sizeof (LmtCodecOps), sizeof (SmHandle), "PrefetchHandle", "Handle of a submitted prefetch", codec_handle,
    sm_encode_payload },
  { sizeof (LmtCodecOps), sizeof (SmSequence), "tuple", "Array of values", codec_sequence, sm_encode_payload },
  { sizeof (LmtCodecOps), sizeof (SmSequence), "set", "Array of distinct values", codec_sequence, sm_encode_payload },
  { sizeof (LmtCodecOps), sizeof (SmSequence), "torch.Size", "Array of integers", codec_size, sm_encode_payload },
  { sizeof (LmtCodecOps), sizeof (SmDtype), "torch.dtype", "Name of an element type", codec_dtype, sm_encode_payload },
};

const LmtCodecOps *
sm_find_codec (LmtSpan tag)
{
  for (guint i = 0; i < G_N_ELEMENTS (codecs); i++)
    if (lmt_span_equal_str (tag, codecs[i].tag, strlen (codecs[i].tag)))
      return &codecs[i];
  return NULL;
}

gboolean
sm_tag_is_known (LmtSpan tag)
{
  static const guint32 lengths
      = 1u << 3 | 1u << 5 | 1u << 9 | 1u << 10 | 1u << 11 | 1u << 12 | 1u << 14 | 1u << 16 | 1u << 17 | 1u << 19;
  if (tag.len > 31 || (lengths >> tag.len & 1) == 0)
    return FALSE;
  for (guint i = 0; i < G_N_ELEMENTS (codecs); i++)
    if (codecs[i].tag[0] == (char)tag.data[0] && lmt_span_equal_str (tag, codecs[i].tag, strlen (codecs[i].tag)))
      return TRUE;
  return FALSE;
}

gboolean
sm_codecs_register (LmtRegistrar *registrar, GError **error)
{
  for (guint i = 0; i < G_N_ELEMENTS (codecs); i++)
    if (!lmt_registrar_add_codec (registrar, &codecs[i], error))
      return FALSE;
  return TRUE;
}
