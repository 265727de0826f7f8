/* SPDX-License-Identifier: Apache-2.0 */
/* The cursor beside msgpack-c: the same verdict on the same bytes, and the same values. */
#include "fuzz.h"

#include <msgpack.h>

enum
{
  ORACLE_DEPTH = 30, /* msgpack-c's own stack ends soon after */
};

static gboolean compare_value (LmtCursor *cursor, const msgpack_object *object);

static void
compare_span (const LmtToken *token, LmtType type, const char *data, guint32 len)
{
  g_assert_cmpuint (token->type, ==, type);
  g_assert_cmpmem (token->span.data, token->span.len, data, len);
}

static gboolean
compare_children (LmtCursor *cursor, const LmtToken *token, const msgpack_object *object)
{
  if (object->type == MSGPACK_OBJECT_ARRAY)
    {
      g_assert_cmpuint (token->type, ==, LMT_TYPE_ARRAY);
      g_assert_cmpuint (token->count, ==, object->via.array.size);
      for (guint32 i = 0; i < object->via.array.size; i++)
        compare_value (cursor, &object->via.array.ptr[i]);
      return TRUE;
    }
  g_assert_cmpuint (token->type, ==, LMT_TYPE_MAP);
  g_assert_cmpuint (token->count, ==, object->via.map.size);
  for (guint32 i = 0; i < object->via.map.size; i++)
    {
      compare_value (cursor, &object->via.map.ptr[i].key);
      compare_value (cursor, &object->via.map.ptr[i].val);
    }
  return TRUE;
}

static gboolean
compare_value (LmtCursor *cursor, const msgpack_object *object)
{
  LmtToken token = { 0 };

  lmt_cursor_next (cursor, &token);
  switch (object->type)
    {
    case MSGPACK_OBJECT_NIL:
      g_assert_cmpuint (token.type, ==, LMT_TYPE_NIL);
      break;
    case MSGPACK_OBJECT_BOOLEAN:
      g_assert_cmpuint (token.type, ==, LMT_TYPE_BOOL);
      g_assert_cmpint (token.v.b, ==, object->via.boolean);
      break;
    case MSGPACK_OBJECT_POSITIVE_INTEGER:
      g_assert_cmpuint (token.type, ==, LMT_TYPE_UINT);
      g_assert_cmpuint (token.v.u, ==, object->via.u64);
      break;
    case MSGPACK_OBJECT_NEGATIVE_INTEGER:
      g_assert_cmpuint (token.type, ==, LMT_TYPE_INT);
      g_assert_cmpint (token.v.i, ==, object->via.i64);
      break;
    case MSGPACK_OBJECT_FLOAT32:
    case MSGPACK_OBJECT_FLOAT64:
      g_assert_cmpuint (token.type, ==, LMT_TYPE_FLOAT);
      g_assert_true (token.v.f == object->via.f64 || (token.v.f != token.v.f && object->via.f64 != object->via.f64));
      break;
    case MSGPACK_OBJECT_STR:
      compare_span (&token, LMT_TYPE_STR, object->via.str.ptr, object->via.str.size);
      break;
    case MSGPACK_OBJECT_BIN:
      compare_span (&token, LMT_TYPE_BIN, object->via.bin.ptr, object->via.bin.size);
      break;
    case MSGPACK_OBJECT_EXT:
      compare_span (&token, LMT_TYPE_EXT, object->via.ext.ptr, object->via.ext.size);
      g_assert_cmpint (token.ext_type, ==, object->via.ext.type);
      break;
    default:
      return compare_children (cursor, &token, object);
    }
  return TRUE;
}

/* Containers open at once, at most, in a value the walk accepted. */
static guint
depth_of (LmtSpan value)
{
  guint64 left[LMT_CURSOR_MAX_DEPTH + 1];
  guint depth = 0, most = 0;
  LmtCursor cursor;
  LmtToken token;

  lmt_cursor_init (&cursor, value);
  while (!lmt_cursor_at_end (&cursor))
    {
      LmtType type = lmt_cursor_next (&cursor, &token);

      if (depth > 0)
        left[depth - 1]--;
      if (type == LMT_TYPE_ARRAY || type == LMT_TYPE_MAP)
        left[depth++] = (guint64)token.count * (type == LMT_TYPE_MAP ? 2 : 1);
      most = MAX (most, depth);
      while (depth > 0 && left[depth - 1] == 0)
        depth--;
    }
  return most;
}

/* The typed reads have short cuts of their own: at every place of any bytes each takes what the token says, and nothing else. */
static void
compare_reads (LmtSpan all)
{
  LmtCursor cursor;

  lmt_cursor_init (&cursor, all);
  for (;;)
    {
      LmtCursor at = cursor, behind = cursor;
      LmtToken token = { 0 };
      LmtType type = lmt_cursor_next (&behind, &token);
      LmtSpan span = { 0 };
      guint32 count;
      guint64 u;

      g_assert_true (lmt_cursor_read_map (&at, &count) == (type == LMT_TYPE_MAP));
      g_assert_true (type == LMT_TYPE_MAP ? at.pos == behind.pos && count == token.count : at.pos == cursor.pos);
      at = cursor;
      g_assert_true (lmt_cursor_read_array (&at, &count) == (type == LMT_TYPE_ARRAY));
      g_assert_true (type == LMT_TYPE_ARRAY ? at.pos == behind.pos && count == token.count : at.pos == cursor.pos);
      at = cursor;
      g_assert_true (lmt_cursor_read_str (&at, &span) == (type == LMT_TYPE_STR));
      g_assert_true (type == LMT_TYPE_STR ? at.pos == behind.pos && span.data == token.span.data && span.len == token.span.len
                                          : at.pos == cursor.pos);
      at = cursor;
      g_assert_true (lmt_cursor_read_bin (&at, &span) == (type == LMT_TYPE_BIN));
      g_assert_true (type == LMT_TYPE_BIN ? at.pos == behind.pos && span.data == token.span.data && span.len == token.span.len
                                          : at.pos == cursor.pos);
      at = cursor;
      g_assert_true (lmt_cursor_read_uint (&at, &u) == (type == LMT_TYPE_UINT));
      g_assert_true (type == LMT_TYPE_UINT ? at.pos == behind.pos && u == token.v.u : at.pos == cursor.pos);
      if (type == LMT_TYPE_NONE || type == LMT_TYPE_ERROR)
        return;
      cursor = behind;
    }
}

int
LLVMFuzzerTestOneInput (const guint8 *data, gsize size)
{
  LmtSpan all = { data, size };
  LmtSpan value = { data, 0 };
  LmtFault fault = { 0 };
  LmtCursor cursor;
  gboolean whole, checked;
  msgpack_unpacked result;
  msgpack_unpack_return verdict;
  size_t offset = 0;

  compare_reads (all);
  lmt_cursor_init (&cursor, all);
  whole = lmt_cursor_skip_span (&cursor, &value);
  checked = lmt_cursor_check (all, &fault);
  g_assert_true (!checked || (whole && lmt_cursor_at_end (&cursor)));
  /* Why the check says no to what the walk over bytes takes: only what msgpack itself doesn't forbid. */
  if (whole && !checked)
    g_assert_true (strcmp (fault.reason, "trailing-bytes") == 0 || strcmp (fault.reason, "invalid-utf8") == 0
                   || strcmp (fault.reason, "bad-key") == 0 || strcmp (fault.reason, "empty-frame") == 0);
  if (whole && depth_of (value) > ORACLE_DEPTH)
    return 0;
  /* Counts beyond the bytes, and depth, are refused here before anything is reserved; the oracle would go and reserve. */
  if (!whole
      && (g_str_has_prefix (fault.detail, "array of ") || g_str_has_prefix (fault.detail, "map of ")
          || g_strcmp0 (fault.reason, "too-deep") == 0 || g_strcmp0 (fault.reason, "bad-key") == 0
          || g_strcmp0 (fault.reason, "invalid-utf8") == 0))
    return 0;
  msgpack_unpacked_init (&result);
  verdict = msgpack_unpack_next (&result, (const char *)data, size, &offset);
  if (whole)
    {
      g_assert_cmpint (verdict, ==, MSGPACK_UNPACK_SUCCESS);
      g_assert_cmpuint (offset, ==, value.len);
      lmt_cursor_init (&cursor, value);
      compare_value (&cursor, &result.data);
      g_assert_true (lmt_cursor_at_end (&cursor));
    }
  else
    g_assert_cmpint (verdict, !=, MSGPACK_UNPACK_SUCCESS);
  msgpack_unpacked_destroy (&result);
  return 0;
}
