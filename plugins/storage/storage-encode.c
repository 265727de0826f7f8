// SPDX-License-Identifier: Apache-2.0
/* Values -> the bytes LMCache's recorder writes (trace-format.md 4). */
#include "storage-encode.h"

#include <string.h>

#include "storage-codecs.h"

enum
{
  SCHEMA_1 = 1 << 1,
  SCHEMA_2 = 1 << 2,
  BOTH = SCHEMA_1 | SCHEMA_2,
  MAX_FIELDS = 8,
  /* How: the schema's number, and whether a `tuple` or `set` stands where a member of a payload is an array. */
  SCHEMA_MASK = 0xff,
  SEQUENCES_ARE_ARRAYS = 1 << 8,
};

typedef enum
{
  FORM_VALUE = 0, /* the payload is a value like any other */
  FORM_MAP,       /* `fields`, in this order, each of them there */
  FORM_KEY,       /* ObjectKey: a group of 0 where none is said; a salt only where there is one */
  FORM_ATTN,      /* AttnWindowDesc: the array of old becomes the map */
  FORM_TASK,      /* PrefetchTaskSpec: with or without tag filters */
} Form;

#define FIELD(name_)                                                                                                             \
  {                                                                                                                              \
    name_, sizeof (name_) - 1, name_ " absent", name_                                                                            \
  }

/* What each schema has; older tags are read only. */
static const struct
{
  const char *tag;
  guint32 schemas;
  guint32 form;
  SmField fields[MAX_FIELDS];
} forms[] = {
  { "tuple", BOTH, FORM_VALUE, { { NULL } } },
  { "set", BOTH, FORM_VALUE, { { NULL } } },
  { "torch.Size", BOTH, FORM_VALUE, { { NULL } } },
  { "torch.dtype", BOTH, FORM_VALUE, { { NULL } } },
  { "PrefetchLockMode", BOTH, FORM_VALUE, { { NULL } } },
  { "ObjectKey",
    BOTH,
    FORM_KEY,
    { FIELD ("chunk_hash"), FIELD ("model_name"), FIELD ("kv_rank"), FIELD ("object_group_id"), FIELD ("cache_salt") } },
  { "MemoryLayoutDesc", BOTH, FORM_MAP, { FIELD ("shapes"), FIELD ("dtypes") } },
  { "GroupedObjectKeys",
    BOTH,
    FORM_MAP,
    { FIELD ("keys"), FIELD ("object_group_id"), FIELD ("layout_desc"), FIELD ("sliding_window_size") } },
  { "PrefetchTaskSpec",
    BOTH,
    FORM_TASK,
    { FIELD ("key_groups"), FIELD ("num_kv_readers"), FIELD ("fetching_policy"), FIELD ("lock_mode"),
      FIELD ("allowed_l1_memory_tags"), FIELD ("allowed_l2_memory_tags") } },
  { "AttnWindowDesc", BOTH, FORM_ATTN, { FIELD ("num_chunks_in_sw"), FIELD ("world_size") } },
  { "PrefetchHandle",
    BOTH,
    FORM_MAP,
    { FIELD ("prefetch_request_id"), FIELD ("external_request_id"), FIELD ("total_requested_keys"), FIELD ("submit_time"),
      FIELD ("sliding_windows") } },
  { "MemoryTags", SCHEMA_2, FORM_MAP, { FIELD ("segment"), FIELD ("residency") } },
};

static gboolean encode_value (LmtCursor *cursor, guint32 how, LmtPack *out, LmtFault *fault, guint depth);

static gboolean
encode_span (LmtSpan value, guint32 how, LmtPack *out, LmtFault *fault, guint depth)
{
  LmtCursor cursor = sm_cursor (value);

  return encode_value (&cursor, how, out, fault, depth)
         && (lmt_cursor_at_end (&cursor) || sm_fault (fault, "trailing bytes", NULL));
}

static void
put_name (LmtPack *out, const SmField *field)
{
  lmt_pack_str (out, field->name, field->len);
}

static gboolean
put_member (const SmField *field, LmtSpan member, guint32 how, LmtPack *out, LmtFault *fault, guint depth)
{
  if (member.data == NULL)
    return sm_fault (fault, field->absent, NULL);
  put_name (out, field);
  return encode_span (member, how | SEQUENCES_ARE_ARRAYS, out, fault, depth);
}

static gboolean
put_members (const SmField *fields, const LmtSpan *members, guint n, guint32 how, LmtPack *out, LmtFault *fault, guint depth)
{
  for (guint i = 0; i < n; i++)
    if (!put_member (&fields[i], members[i], how, out, fault, depth))
      return FALSE;
  return TRUE;
}

static gboolean
put_key (const SmField *fields, const LmtSpan *members, guint32 how, LmtPack *out, LmtFault *fault, guint depth)
{
  LmtSpan salt = { NULL, 0 };
  LmtCursor cursor = sm_cursor (members[4]);

  if (members[4].data != NULL)
    lmt_cursor_read_str (&cursor, &salt); /* the codec has checked it */
  lmt_pack_map (out, salt.len > 0 ? 5 : 4);
  if (!put_members (fields, members, 3, how, out, fault, depth))
    return FALSE;
  if (members[3].data != NULL)
    {
      if (!put_member (&fields[3], members[3], how, out, fault, depth))
        return FALSE;
    }
  else
    {
      put_name (out, &fields[3]);
      lmt_pack_uint (out, 0);
    }
  return salt.len == 0 || put_member (&fields[4], members[4], how, out, fault, depth);
}

static gboolean
is_nil (LmtSpan member)
{
  return member.data == NULL || member.data[0] == 0xc0;
}

static gboolean
put_task (const SmField *fields, const LmtSpan *members, guint32 how, LmtPack *out, LmtFault *fault, guint depth)
{
  gboolean filters = (how & SCHEMA_MASK) >= 2 || !is_nil (members[4]) || !is_nil (members[5]);

  lmt_pack_map (out, filters ? 6 : 4);
  if (!put_members (fields, members, 4, how, out, fault, depth))
    return FALSE;
  for (guint i = 4; filters && i < 6; i++)
    {
      put_name (out, &fields[i]);
      if (members[i].data == NULL)
        lmt_pack_nil (out);
      else if (!encode_span (members[i], how | SEQUENCES_ARE_ARRAYS, out, fault, depth))
        return FALSE;
    }
  return TRUE;
}

static gboolean
put_payload (guint index, LmtCursor *payload, guint32 how, LmtPack *out, LmtFault *fault, guint depth)
{
  const SmField *fields = forms[index].fields;
  LmtSpan members[MAX_FIELDS];
  guint n = 0;

  if (forms[index].form == FORM_VALUE)
    return encode_value (payload, how, out, fault, depth);
  if (forms[index].form == FORM_ATTN && lmt_cursor_peek (payload) != LMT_TYPE_MAP)
    {
      lmt_pack_map (out, 2);
      put_name (out, &fields[0]);
      if (!encode_value (payload, how | SEQUENCES_ARE_ARRAYS, out, fault, depth))
        return FALSE;
      put_name (out, &fields[1]);
      lmt_pack_uint (out, 1);
      return TRUE;
    }
  while (n < MAX_FIELDS && fields[n].name != NULL)
    n++;
  if (!sm_collect (payload, fields, n, members, NULL))
    return sm_fault (fault, "payload is not a map", NULL);
  if (forms[index].form == FORM_KEY)
    return put_key (fields, members, how, out, fault, depth);
  if (forms[index].form == FORM_TASK)
    return put_task (fields, members, how, out, fault, depth);
  lmt_pack_map (out, n);
  return put_members (fields, members, n, how, out, fault, depth);
}

static gboolean
encode_tagged (LmtSpan tag, LmtCursor *payload, guint32 how, LmtPack *out, LmtFault *fault, guint depth)
{
  const LmtCodecOps *codec = sm_find_codec (tag);
  LmtCursor ahead = *payload;
  SmValue value;

  if ((how & SEQUENCES_ARE_ARRAYS) != 0 && (LMT_SPAN_IS (tag, "tuple") || LMT_SPAN_IS (tag, "set")))
    return encode_value (payload, how, out, fault, depth);
  for (guint i = 0; codec != NULL && i < G_N_ELEMENTS (forms); i++)
    {
      if (strcmp (codec->tag, forms[i].tag) != 0 || (forms[i].schemas >> (how & SCHEMA_MASK) & 1) == 0)
        continue;
      memset (&value, 0, sizeof value);
      if (!codec->decode (&ahead, &value, NULL, fault))
        return FALSE;
      lmt_pack_tag (out, codec->tag);
      return put_payload (i, payload, how, out, fault, depth);
    }
  lmt_fault_set_detail (fault, (const char *)tag.data, tag.len);
  return sm_fault (fault, codec == NULL ? "unknown tag" : "no such tag in this schema", NULL);
}

static gboolean
encode_children (LmtCursor *cursor, guint64 n, guint32 how, LmtPack *out, LmtFault *fault, guint depth)
{
  for (guint64 i = 0; i < n; i++)
    if (!encode_value (cursor, how, out, fault, depth))
      return FALSE;
  return TRUE;
}

static gboolean
encode_scalar (LmtCursor *cursor, LmtPack *out, LmtFault *fault)
{
  LmtToken token;

  switch (lmt_cursor_next (cursor, &token))
    {
    case LMT_TYPE_NIL:
      lmt_pack_nil (out);
      return TRUE;
    case LMT_TYPE_BOOL:
      lmt_pack_bool (out, token.v.b);
      return TRUE;
    case LMT_TYPE_UINT:
      lmt_pack_uint (out, token.v.u);
      return TRUE;
    case LMT_TYPE_INT:
      lmt_pack_int (out, token.v.i);
      return TRUE;
    case LMT_TYPE_FLOAT:
      lmt_pack_double (out, token.v.f);
      return TRUE;
    case LMT_TYPE_STR:
      lmt_pack_str (out, (const char *)token.span.data, token.span.len);
      return TRUE;
    case LMT_TYPE_BIN:
      lmt_pack_bin (out, token.span.data, token.span.len);
      return TRUE;
    case LMT_TYPE_EXT:
      return sm_fault (fault, "extension type", NULL);
    default:
      return sm_fault (fault, "invalid msgpack", NULL);
    }
}

/* Recursion is bounded by the depth a reader takes. */
static gboolean
encode_value (LmtCursor *cursor, guint32 how, LmtPack *out, LmtFault *fault, guint depth)
{
  LmtSpan tag, inner;
  guint32 n;
  gint wrapped;

  if (depth >= LMT_CURSOR_MAX_DEPTH)
    return sm_fault (fault, "too-deep", NULL);
  switch (lmt_cursor_peek (cursor))
    {
    case LMT_TYPE_ARRAY:
      lmt_cursor_read_array (cursor, &n);
      lmt_pack_array (out, n);
      return encode_children (cursor, n, how, out, fault, depth + 1);
    case LMT_TYPE_MAP:
      wrapped = sm_unwrap (cursor, &tag, &inner, NULL, fault);
      if (wrapped < 0)
        return FALSE;
      if (wrapped > 0)
        {
          LmtCursor payload = sm_cursor (inner);

          return encode_tagged (tag, &payload, how, out, fault, depth + 1);
        }
      if (!lmt_cursor_read_map (cursor, &n))
        return sm_fault (fault, "invalid msgpack", NULL);
      lmt_pack_map (out, n);
      return encode_children (cursor, 2 * (guint64)n, how, out, fault, depth + 1);
    default:
      return encode_scalar (cursor, out, fault);
    }
}

gboolean
sm_encode_value (LmtCursor *cursor, guint32 schema, LmtPack *out, LmtFault *fault)
{
  LmtCursor ahead = *cursor;

  if (!encode_value (&ahead, schema, out, fault, 0) || out->failed != 0)
    return FALSE;
  *cursor = ahead;
  return TRUE;
}

gboolean
sm_encode_span (LmtSpan value, guint32 schema, LmtPack *out, LmtFault *fault)
{
  return encode_span (value, schema, out, fault, 0) && out->failed == 0;
}

gboolean
sm_encode_payload (const char *tag, LmtCursor *payload, guint32 schema, LmtPack *out, LmtFault *fault)
{
  LmtSpan name = { (const guint8 *)tag, strlen (tag) };

  return encode_tagged (name, payload, schema, out, fault, 0) && out->failed == 0;
}
