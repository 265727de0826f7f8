// SPDX-License-Identifier: Apache-2.0
/* Walking maps and wrappers: what codecs and decoder have in common. */
#include "storage-codecs.h"

#include "storage-keys.h"

const char *
sm_type_name (guint32 type)
{
  switch (type)
    {
    case LMT_TYPE_NIL:
      return "nil";
    case LMT_TYPE_BOOL:
      return "bool";
    case LMT_TYPE_UINT:
    case LMT_TYPE_INT:
      return "integer";
    case LMT_TYPE_FLOAT:
      return "float";
    case LMT_TYPE_STR:
      return "str";
    case LMT_TYPE_BIN:
      return "bin";
    case LMT_TYPE_ARRAY:
      return "array";
    case LMT_TYPE_MAP:
      return "map";
    case LMT_TYPE_EXT:
      return "extension type";
    default:
      return "no value";
    }
}

gboolean
sm_fault (LmtFault *fault, const char *reason, const char *where)
{
  fault->reason = reason;
  if (where != NULL)
    fault->where = where;
  return FALSE;
}

gboolean
sm_fault_type (LmtFault *fault, const LmtCursor *cursor, const char *reason, const char *wanted)
{
  LmtType type = lmt_cursor_peek (cursor);
  fault->expected = wanted;
  fault->found = sm_type_name (type);
  return sm_fault (fault, type == LMT_TYPE_EXT ? "extension type" : reason, NULL);
}

/* A str; nearly always a short one. */
static inline gboolean
read_name (LmtCursor *cursor, LmtSpan *name)
{
  const guint8 *p = cursor->pos;
  if (p < cursor->end && (*p & 0xe0) == 0xa0 && cursor->end - p > (*p & 0x1f))
    {
      *name = (LmtSpan){ p + 1, *p & 0x1f };
      cursor->pos = name->data + name->len;
      return TRUE;
    }
  return lmt_cursor_read_str (cursor, name);
}

gboolean
sm_collect (LmtCursor *cursor, const SmField *fields, guint n_fields, LmtSpan *members, SmKeyReader *reader)
{
  guint32 pairs;
  memset (members, 0, n_fields * sizeof *members);
  if (!lmt_cursor_read_map (cursor, &pairs))
    return FALSE;
  for (guint32 i = 0; i < pairs; i++)
    {
      LmtSpan key;
      guint f = n_fields;
      if (read_name (cursor, &key))
        {
          for (f = 0; f < n_fields; f++)
            if (lmt_span_equal_str (key, fields[f].name, fields[f].len))
              break;
        }
      else if (!lmt_cursor_skip (cursor)) /* nested maps may have keys of any kind */
        return FALSE;
      const guint8 *start = cursor->pos;
      if (!sm_key_reader_skip (f < n_fields ? reader : NULL, cursor))
        return FALSE;
      if (f < n_fields)
        {
          members[f].data = start;
          members[f].len = (gsize)(cursor->pos - start);
        }
    }
  return TRUE;
}

gboolean
sm_open_plain (LmtCursor *cursor, LmtSpan *tag)
{
  static const guint8 head[] = { 0x82, 0xa5, '_', '_', 't', '_', '_' };
  LmtCursor at = *cursor;
  if ((gsize)(at.end - at.pos) < sizeof head || memcmp (at.pos, head, sizeof head) != 0)
    return FALSE;
  at.pos += sizeof head;
  if (at.pos == at.end || (*at.pos & 0xe0) != 0xa0 || !read_name (&at, tag) || at.end - at.pos < 2 || at.pos[0] != 0xa1
      || at.pos[1] != 'v')
    return FALSE;
  at.pos += 2;
  *cursor = at;
  return TRUE;
}

gint
sm_unwrap (LmtCursor *cursor, LmtSpan *tag, LmtSpan *payload, SmKeyReader *reader, LmtFault *fault)
{
  static const SmField fields[] = { { "__t__", 5, NULL, NULL }, { "v", 1, NULL, NULL } };
  LmtSpan members[2];
  LmtCursor ahead = *cursor;
  if (sm_open_plain (&ahead, tag) && sm_tag_is_known (*tag))
    {
      const guint8 *start = ahead.pos;
      if (sm_key_reader_skip (reader, &ahead))
        {
          *payload = (LmtSpan){ start, (gsize)(ahead.pos - start) };
          cursor->pos = ahead.pos;
          return 1;
        }
    }
  ahead = *cursor;
  if (lmt_cursor_peek (cursor) != LMT_TYPE_MAP || !sm_collect (&ahead, fields, 2, members, reader) || members[0].data == NULL)
    return 0;
  LmtCursor word = sm_cursor (members[0]);
  if (lmt_cursor_read_nil (&word))
    return 0;
  if (!lmt_cursor_read_str (&word, tag))
    {
      fault->found = sm_type_name (lmt_cursor_peek (&word));
      sm_fault (fault, "unknown tag", NULL);
      return -1;
    }
  if (!sm_tag_is_known (*tag))
    {
      sm_fault (fault, "unknown tag", NULL);
      lmt_fault_set_detail (fault, (const char *)tag->data, tag->len);
      return -1;
    }
  if (members[1].data == NULL)
    {
      sm_fault (fault, "tagged value without v", NULL);
      return -1;
    }
  *payload = members[1];
  cursor->pos = ahead.pos;
  return 1;
}

gboolean
sm_expect_tag (LmtCursor *cursor, const char *tag, LmtSpan *payload, SmKeyReader *reader, const char *other, LmtFault *fault)
{
  LmtSpan found;
  gint wrapped = sm_unwrap (cursor, &found, payload, reader, fault);
  if (wrapped < 0)
    return FALSE;
  if (wrapped == 0)
    return sm_fault_type (fault, cursor, other, tag);
  if (lmt_span_equal_str (found, tag, strlen (tag)))
    return TRUE;
  fault->expected = tag;
  lmt_fault_set_detail (fault, (const char *)found.data, found.len);
  return sm_fault (fault, other, NULL);
}

gboolean
sm_open_tag (LmtSpan value, const char *tag, LmtCursor *payload, const char *other, LmtFault *fault)
{
  LmtSpan found, inner;
  LmtCursor cursor = sm_cursor (value);
  *payload = cursor;
  if (sm_open_plain (payload, &found) && lmt_span_equal_str (found, tag, strlen (tag)))
    return TRUE;
  if (!sm_expect_tag (&cursor, tag, &inner, NULL, other, fault))
    return FALSE;
  *payload = sm_cursor (inner);
  return TRUE;
}

gboolean
sm_enter_array (LmtCursor *cursor, guint32 *n, SmKeyReader *reader, const char *other, LmtFault *fault)
{
  if (lmt_cursor_read_array (cursor, n))
    return TRUE;
  LmtSpan tag, payload;
  gint wrapped = sm_unwrap (cursor, &tag, &payload, reader, fault);
  if (wrapped < 0)
    return FALSE;
  if (wrapped > 0 && (LMT_SPAN_IS (tag, "tuple") || LMT_SPAN_IS (tag, "set")))
    {
      lmt_cursor_init (cursor, payload);
      if (lmt_cursor_read_array (cursor, n))
        return TRUE;
    }
  return sm_fault_type (fault, cursor, other, "array");
}

/* Recursion is as deep as the nesting, which the reader bounds (LMT_CURSOR_MAX_DEPTH). */
static gboolean
check_ignored (LmtCursor *cursor, guint depth, LmtFault *fault)
{
  LmtToken token;
  LmtType type = lmt_cursor_next (cursor, &token);
  if (type == LMT_TYPE_NONE || type == LMT_TYPE_ERROR || depth > LMT_CURSOR_MAX_DEPTH)
    return sm_fault (fault, "invalid msgpack", NULL);
  if (type == LMT_TYPE_ARRAY)
    for (guint32 i = 0; i < token.count; i++)
      if (!check_ignored (cursor, depth + 1, fault))
        return FALSE;
  if (type != LMT_TYPE_MAP)
    return TRUE;
  LmtSpan tag = { NULL, 0 };
  gboolean has_payload = FALSE, bad_tag = FALSE;
  for (guint32 i = 0; i < token.count; i++)
    {
      LmtSpan key = { NULL, 0 };
      if (!lmt_cursor_read_str (cursor, &key) && !lmt_cursor_skip (cursor))
        return sm_fault (fault, "invalid msgpack", NULL);
      if (key.data != NULL && LMT_SPAN_IS (key, "__t__"))
        {
          LmtCursor word = *cursor;
          tag.data = NULL;
          bad_tag = !lmt_cursor_read_nil (&word) && !lmt_cursor_read_str (&word, &tag);
        }
      has_payload |= key.data != NULL && LMT_SPAN_IS (key, "v");
      if (!check_ignored (cursor, depth + 1, fault))
        return FALSE;
    }
  if (bad_tag || (tag.data != NULL && !sm_tag_is_known (tag)))
    {
      if (!bad_tag)
        lmt_fault_set_detail (fault, (const char *)tag.data, tag.len);
      return sm_fault (fault, "unknown tag", NULL);
    }
  return tag.data == NULL || has_payload || sm_fault (fault, "tagged value without v", NULL);
}

gboolean
sm_check_ignored (LmtCursor *cursor, LmtFault *fault)
{
  return check_ignored (cursor, 0, fault);
}
