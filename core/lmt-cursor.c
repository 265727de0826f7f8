/* SPDX-License-Identifier: Apache-2.0 */
#include "lmt-cursor.h"

#include "lmt-cursor-private.h"

gboolean
lmt_bytes_are_utf8 (const guint8 *p, gsize len)
{
  gsize i = 0;

  while (i < len)
    {
      guint8 b = p[i];
      guint32 c;
      gsize need;

      if (b < 0x80)
        {
          i++;
          continue;
        }
      if (b >= 0xc2 && b <= 0xdf)
        need = 1, c = b & 0x1f;
      else if (b >= 0xe0 && b <= 0xef)
        need = 2, c = b & 0x0f;
      else if (b >= 0xf0 && b <= 0xf4)
        need = 3, c = b & 0x07;
      else
        return FALSE;
      if (len - i <= need)
        return FALSE;
      for (gsize k = 1; k <= need; k++)
        {
          if ((p[i + k] & 0xc0) != 0x80)
            return FALSE;
          c = c << 6 | (p[i + k] & 0x3f);
        }
      if ((need == 2 && (c < 0x800 || (c >= 0xd800 && c <= 0xdfff))) || (need == 3 && (c < 0x10000 || c > 0x10ffff)))
        return FALSE;
      i += need + 1;
    }
  return TRUE;
}

/* -------- one token -------- */

/* Bytes of length field behind heads 0xc4 … 0xdf, 0 where there is none. */
static inline gboolean
take_length (const guint8 **p, const guint8 *end, guint width, guint32 *len)
{
  if ((gsize)(end - *p) < width)
    return FALSE;
  *len = width == 1 ? **p : width == 2 ? lmt_read_be16 (*p) : lmt_read_be32 (*p);
  *p += width;
  return TRUE;
}

static LmtType
token_span (LmtCursor *cursor, LmtToken *token, LmtType type, const guint8 *p, guint32 len)
{
  if ((gsize)(cursor->end - p) < len)
    return LMT_TYPE_ERROR;
  token->type = type;
  token->span.data = p;
  token->span.len = len;
  cursor->pos = p + len;
  return type;
}

static LmtType
token_container (LmtCursor *cursor, LmtToken *token, LmtType type, const guint8 *p, guint32 count)
{
  if ((guint64)count * (type == LMT_TYPE_MAP ? 2 : 1) > (guint64)(cursor->end - p))
    return LMT_TYPE_ERROR;
  token->type = type;
  token->count = count;
  cursor->pos = p;
  return type;
}

static LmtType
token_uint (LmtCursor *cursor, LmtToken *token, const guint8 *p, guint64 value)
{
  token->type = LMT_TYPE_UINT;
  token->v.u = value;
  cursor->pos = p;
  return LMT_TYPE_UINT;
}

static LmtType
token_int (LmtCursor *cursor, LmtToken *token, const guint8 *p, gint64 value)
{
  if (value >= 0)
    return token_uint (cursor, token, p, (guint64)value);
  token->type = LMT_TYPE_INT;
  token->v.i = value;
  cursor->pos = p;
  return LMT_TYPE_INT;
}

static LmtType
token_float (LmtCursor *cursor, LmtToken *token, const guint8 *p, double value)
{
  token->type = LMT_TYPE_FLOAT;
  token->v.f = value;
  cursor->pos = p;
  return LMT_TYPE_FLOAT;
}

/* Heads 0xca … 0xd3: numbers of a fixed width behind the head. */
static LmtType
token_number (LmtCursor *cursor, LmtToken *token, guint8 head, const guint8 *p)
{
  static const guint8 widths[] = { 4, 8, 1, 2, 4, 8, 1, 2, 4, 8 };
  guint width = widths[head - 0xca];
  guint32 bits;
  gfloat f;

  if ((gsize)(cursor->end - p) < width)
    return LMT_TYPE_ERROR;
  switch (head)
    {
    case 0xca:
      bits = lmt_read_be32 (p);
      memcpy (&f, &bits, sizeof f);
      return token_float (cursor, token, p + 4, f);
    case 0xcb:
      return token_float (cursor, token, p + 8, lmt_read_be_double (p));
    case 0xcc:
      return token_uint (cursor, token, p + 1, *p);
    case 0xcd:
      return token_uint (cursor, token, p + 2, lmt_read_be16 (p));
    case 0xce:
      return token_uint (cursor, token, p + 4, lmt_read_be32 (p));
    case 0xcf:
      return token_uint (cursor, token, p + 8, lmt_read_be64 (p));
    case 0xd0:
      return token_int (cursor, token, p + 1, (gint8)*p);
    case 0xd1:
      return token_int (cursor, token, p + 2, (gint16)lmt_read_be16 (p));
    case 0xd2:
      return token_int (cursor, token, p + 4, (gint32)lmt_read_be32 (p));
    default:
      return token_int (cursor, token, p + 8, (gint64)lmt_read_be64 (p));
    }
}

/* Heads 0xc4 … 0xc9 and 0xd4 … 0xdf but numbers: a length, then that many bytes or values. */
static LmtType
token_sized (LmtCursor *cursor, LmtToken *token, guint8 head, const guint8 *p)
{
  guint32 len = 0;
  gboolean ext = FALSE;

  switch (head)
    {
    case 0xc4:
    case 0xc5:
    case 0xc6:
      if (!take_length (&p, cursor->end, 1u << (head - 0xc4), &len))
        return LMT_TYPE_ERROR;
      return token_span (cursor, token, LMT_TYPE_BIN, p, len);
    case 0xc7:
    case 0xc8:
    case 0xc9:
      if (!take_length (&p, cursor->end, 1u << (head - 0xc7), &len))
        return LMT_TYPE_ERROR;
      ext = TRUE;
      break;
    case 0xd4:
    case 0xd5:
    case 0xd6:
    case 0xd7:
    case 0xd8:
      len = 1u << (head - 0xd4);
      ext = TRUE;
      break;
    case 0xd9:
    case 0xda:
    case 0xdb:
      if (!take_length (&p, cursor->end, 1u << (head - 0xd9), &len))
        return LMT_TYPE_ERROR;
      return token_span (cursor, token, LMT_TYPE_STR, p, len);
    default:
      if (!take_length (&p, cursor->end, (head & 1) == 0 ? 2 : 4, &len))
        return LMT_TYPE_ERROR;
      return token_container (cursor, token, head < 0xde ? LMT_TYPE_ARRAY : LMT_TYPE_MAP, p, len);
    }
  if (!ext || p == cursor->end)
    return LMT_TYPE_ERROR;
  token->ext_type = (gint8)*p;
  return token_span (cursor, token, LMT_TYPE_EXT, p + 1, len);
}

LmtType
lmt_cursor_next (LmtCursor *cursor, LmtToken *token)
{
  const guint8 *p = cursor->pos;
  LmtType type;
  guint8 head;

  if (p == cursor->end)
    return token->type = LMT_TYPE_NONE;
  head = *p++;
  if (head < 0x80)
    return token_uint (cursor, token, p, head);
  if (head < 0x90)
    type = token_container (cursor, token, LMT_TYPE_MAP, p, head & 0x0f);
  else if (head < 0xa0)
    type = token_container (cursor, token, LMT_TYPE_ARRAY, p, head & 0x0f);
  else if (head < 0xc0)
    type = token_span (cursor, token, LMT_TYPE_STR, p, head & 0x1f);
  else if (head >= 0xe0)
    type = token_int (cursor, token, p, (gint8)head);
  else if (head >= 0xca && head <= 0xd3)
    type = token_number (cursor, token, head, p);
  else if (head >= 0xc4)
    type = token_sized (cursor, token, head, p);
  else if (head == 0xc1)
    type = LMT_TYPE_ERROR;
  else
    {
      type = head == 0xc0 ? LMT_TYPE_NIL : LMT_TYPE_BOOL;
      token->v.b = head == 0xc3;
      cursor->pos = p;
    }
  return token->type = type;
}

LmtType
lmt_cursor_peek (const LmtCursor *cursor)
{
  LmtCursor copy = *cursor;
  LmtToken token;

  return lmt_cursor_next (&copy, &token);
}

gboolean
lmt_cursor_at_end (const LmtCursor *cursor)
{
  return cursor->pos == cursor->end;
}

/* Reads a token of one type, or leaves the cursor where it is. */
static gboolean
read_type (LmtCursor *cursor, LmtType type, LmtToken *token)
{
  LmtCursor start = *cursor;

  if (lmt_cursor_next (cursor, token) == type)
    return TRUE;
  *cursor = start;
  return FALSE;
}

/*
 * Each typed read first tries the form a genuine trace has nine times of ten: one head byte, checked against the bytes left. The
 * rest goes through the token.
 */
static inline gsize
left (const LmtCursor *cursor)
{
  return (gsize)(cursor->end - cursor->pos);
}

gboolean
lmt_cursor_read_map (LmtCursor *cursor, guint32 *pairs)
{
  LmtToken token;

  if (left (cursor) > 0 && (*cursor->pos & 0xf0) == 0x80 && left (cursor) > 2u * (*cursor->pos & 0x0f))
    {
      *pairs = *cursor->pos++ & 0x0f;
      return TRUE;
    }
  if (!read_type (cursor, LMT_TYPE_MAP, &token))
    return FALSE;
  *pairs = token.count;
  return TRUE;
}

gboolean
lmt_cursor_read_array (LmtCursor *cursor, guint32 *elements)
{
  LmtToken token;

  if (left (cursor) > 0 && (*cursor->pos & 0xf0) == 0x90 && left (cursor) > (*cursor->pos & 0x0fu))
    {
      *elements = *cursor->pos++ & 0x0f;
      return TRUE;
    }
  if (!read_type (cursor, LMT_TYPE_ARRAY, &token))
    return FALSE;
  *elements = token.count;
  return TRUE;
}

gboolean
lmt_cursor_read_str (LmtCursor *cursor, LmtSpan *str)
{
  LmtToken token;

  if (left (cursor) > 0 && (*cursor->pos & 0xe0) == 0xa0 && left (cursor) > (*cursor->pos & 0x1fu))
    {
      str->len = *cursor->pos & 0x1f;
      str->data = cursor->pos + 1;
      cursor->pos += 1 + str->len;
      return TRUE;
    }
  if (!read_type (cursor, LMT_TYPE_STR, &token))
    return FALSE;
  *str = token.span;
  return TRUE;
}

gboolean
lmt_cursor_read_bin (LmtCursor *cursor, LmtSpan *bin)
{
  LmtToken token;

  if (left (cursor) > 1 && cursor->pos[0] == 0xc4 && left (cursor) - 2 >= cursor->pos[1])
    {
      bin->len = cursor->pos[1];
      bin->data = cursor->pos + 2;
      cursor->pos += 2 + bin->len;
      return TRUE;
    }
  if (!read_type (cursor, LMT_TYPE_BIN, &token))
    return FALSE;
  *bin = token.span;
  return TRUE;
}

gboolean
lmt_cursor_read_uint (LmtCursor *cursor, guint64 *value)
{
  LmtToken token;

  if (left (cursor) > 0 && *cursor->pos < 0x80)
    {
      *value = *cursor->pos++;
      return TRUE;
    }
  if (!read_type (cursor, LMT_TYPE_UINT, &token))
    return FALSE;
  *value = token.v.u;
  return TRUE;
}

gboolean
lmt_cursor_read_int (LmtCursor *cursor, gint64 *value)
{
  LmtCursor start = *cursor;
  LmtToken token;
  LmtType type = lmt_cursor_next (cursor, &token);

  if (type == LMT_TYPE_INT)
    *value = token.v.i;
  else if (type == LMT_TYPE_UINT && token.v.u <= G_MAXINT64)
    *value = (gint64)token.v.u;
  else
    {
      *cursor = start;
      return FALSE;
    }
  return TRUE;
}

gboolean
lmt_cursor_read_bool (LmtCursor *cursor, gboolean *value)
{
  LmtToken token;

  if (!read_type (cursor, LMT_TYPE_BOOL, &token))
    return FALSE;
  *value = token.v.b;
  return TRUE;
}

gboolean
lmt_cursor_read_nil (LmtCursor *cursor)
{
  LmtToken token;

  return read_type (cursor, LMT_TYPE_NIL, &token);
}

gboolean
lmt_cursor_read_double (LmtCursor *cursor, double *value)
{
  LmtCursor start = *cursor;
  LmtToken token;

  switch (lmt_cursor_next (cursor, &token))
    {
    case LMT_TYPE_FLOAT:
      *value = token.v.f;
      return TRUE;
    case LMT_TYPE_UINT:
      *value = (double)token.v.u;
      return TRUE;
    case LMT_TYPE_INT:
      *value = (double)token.v.i;
      return TRUE;
    default:
      *cursor = start;
      return FALSE;
    }
}

/* -------- whole values -------- */

static const guint8 *G_GNUC_NO_INLINE
walk_short (LmtFault *fault, const guint8 *p, const guint8 *end, const guint8 *base, guint64 need)
{
  fault->reason = "invalid-msgpack";
  g_snprintf (fault->detail, sizeof fault->detail, "value needs %" G_GUINT64_FORMAT " bytes, %zu left at byte %zu", need,
              (gsize)(end - p), (gsize)(p - base));
  return NULL;
}

static const guint8 *G_GNUC_NO_INLINE
walk_count (LmtFault *fault, const guint8 *p, const guint8 *end, const char *what, guint64 count)
{
  fault->reason = "invalid-msgpack";
  g_snprintf (fault->detail, sizeof fault->detail, "%s of %" G_GUINT64_FORMAT " in %zu bytes", what, count, (gsize)(end - p));
  return NULL;
}

static const guint8 *G_GNUC_NO_INLINE
walk_reserved (LmtFault *fault, const guint8 *p, const guint8 *base)
{
  fault->reason = "invalid-msgpack";
  g_snprintf (fault->detail, sizeof fault->detail, "reserved byte c1 at byte %zu", (gsize)(p - base));
  return NULL;
}

static const guint8 *G_GNUC_NO_INLINE
walk_reason (LmtFault *fault, const char *reason)
{
  fault->reason = reason;
  fault->detail[0] = '\0';
  return NULL;
}

typedef enum
{
  KIND_BYTES = 0, /* so many bytes of payload, nothing to look at */
  KIND_STR,
  KIND_ARRAY,
  KIND_MAP,
  KIND_RESERVED,
} HeadKind;

/*
 * What each head byte says: its count is (head & mask) + add, plus a length of @width bytes behind the head.
 * Source: the msgpack specification, table of formats.
 */
static const struct
{
  guint8 kind;
  guint8 mask;
  guint8 add;
  guint8 width;
} heads[256] = {
  [0x80 ... 0x8f] = { KIND_MAP, 0x0f, 0, 0 },
  [0x90 ... 0x9f] = { KIND_ARRAY, 0x0f, 0, 0 },
  [0xa0 ... 0xbf] = { KIND_STR, 0x1f, 0, 0 },
  [0xc1] = { KIND_RESERVED, 0, 0, 0 },
  [0xc4] = { KIND_BYTES, 0, 0, 1 },
  [0xc5] = { KIND_BYTES, 0, 0, 2 },
  [0xc6] = { KIND_BYTES, 0, 0, 4 },
  [0xc7] = { KIND_BYTES, 0, 1, 1 }, /* ext: one byte more for its type */
  [0xc8] = { KIND_BYTES, 0, 1, 2 },
  [0xc9] = { KIND_BYTES, 0, 1, 4 },
  [0xca] = { KIND_BYTES, 0, 4, 0 },
  [0xcb] = { KIND_BYTES, 0, 8, 0 },
  [0xcc] = { KIND_BYTES, 0, 1, 0 },
  [0xcd] = { KIND_BYTES, 0, 2, 0 },
  [0xce] = { KIND_BYTES, 0, 4, 0 },
  [0xcf] = { KIND_BYTES, 0, 8, 0 },
  [0xd0] = { KIND_BYTES, 0, 1, 0 },
  [0xd1] = { KIND_BYTES, 0, 2, 0 },
  [0xd2] = { KIND_BYTES, 0, 4, 0 },
  [0xd3] = { KIND_BYTES, 0, 8, 0 },
  [0xd4] = { KIND_BYTES, 0, 2, 0 },
  [0xd5] = { KIND_BYTES, 0, 3, 0 },
  [0xd6] = { KIND_BYTES, 0, 5, 0 },
  [0xd7] = { KIND_BYTES, 0, 9, 0 },
  [0xd8] = { KIND_BYTES, 0, 17, 0 },
  [0xd9] = { KIND_STR, 0, 0, 1 },
  [0xda] = { KIND_STR, 0, 0, 2 },
  [0xdb] = { KIND_STR, 0, 0, 4 },
  [0xdc] = { KIND_ARRAY, 0, 0, 2 },
  [0xdd] = { KIND_ARRAY, 0, 0, 4 },
  [0xde] = { KIND_MAP, 0, 0, 2 },
  [0xdf] = { KIND_MAP, 0, 0, 4 },
};

/*
 * The one loop every byte of a file goes through: no recursion, a stack of counts. An entry is (values left << 1 | it is a map);
 * with an even number of values left in a map the next one is a key. @strict: also check UTF-8, and that no map is a key.
 */
static inline const guint8 *
walk (const guint8 *p, const guint8 *end, const guint8 *base, guint depth, gboolean strict, LmtFault *fault)
{
  guint64 stack[LMT_CURSOR_MAX_DEPTH];
  guint limit = LMT_CURSOR_MAX_DEPTH - depth;
  guint top = 0;
  guint64 cur = 1u << 1;

  for (;;)
    {
      guint64 n;
      guint8 head, kind, width;

      while (cur < 2)
        {
          if (top == 0)
            return p;
          cur = stack[--top];
        }
      if (p == end)
        return walk_short (fault, p, end, base, 1);
      head = *p++;
      kind = heads[head].kind;
      width = heads[head].width;
      n = (guint64)(head & heads[head].mask) + heads[head].add;
      if (width != 0)
        {
          if (end - p < width)
            return walk_short (fault, p, end, base, width);
          n += width == 1 ? *p : width == 2 ? lmt_read_be16 (p) : lmt_read_be32 (p);
          p += width;
        }
      if (kind <= KIND_STR)
        {
          if ((guint64)(end - p) < n)
            return walk_short (fault, p, end, base, n);
          if (strict && kind == KIND_STR && !lmt_bytes_are_ascii (p, n) && !lmt_bytes_are_utf8 (p, n))
            return walk_reason (fault, "invalid-utf8");
          p += n;
          cur -= 2;
          continue;
        }
      if (kind == KIND_RESERVED)
        return walk_reserved (fault, p - 1, base);
      if ((guint64)(end - p) < (kind == KIND_MAP ? 2 * n : n))
        return walk_count (fault, p, end, kind == KIND_MAP ? "map" : "array", n);
      if (strict && kind == KIND_MAP && (cur & 3) == 1)
        return walk_reason (fault, "bad-key");
      if (top == limit)
        return walk_reason (fault, "too-deep");
      stack[top++] = cur - 2;
      cur = kind == KIND_MAP ? n << 2 | 1 : n << 1;
    }
}

const guint8 *
lmt_walk_value (const guint8 *p, const guint8 *end, const guint8 *base, guint depth, LmtFault *fault)
{
  return walk (p, end, base, depth, TRUE, fault);
}

gboolean
lmt_cursor_skip (LmtCursor *cursor)
{
  LmtFault fault;
  const guint8 *next = walk (cursor->pos, cursor->end, cursor->pos, 0, FALSE, &fault);

  if (next == NULL)
    return FALSE;
  cursor->pos = next;
  return TRUE;
}

gboolean
lmt_cursor_skip_span (LmtCursor *cursor, LmtSpan *value)
{
  const guint8 *start = cursor->pos;

  if (!lmt_cursor_skip (cursor))
    return FALSE;
  value->data = start;
  value->len = (gsize)(cursor->pos - start);
  return TRUE;
}

gboolean
lmt_cursor_check_next (LmtCursor *cursor, LmtFault *fault)
{
  const guint8 *next = walk (cursor->pos, cursor->end, cursor->pos, 0, TRUE, fault);

  if (next == NULL)
    return FALSE;
  cursor->pos = next;
  return TRUE;
}

gboolean
lmt_cursor_check (LmtSpan span, LmtFault *fault)
{
  const guint8 *end = span.data + span.len;
  const guint8 *next;

  if (span.len == 0)
    {
      walk_reason (fault, "empty-frame");
      return FALSE;
    }
  next = lmt_walk_value (span.data, end, span.data, 0, fault);
  if (next == NULL)
    return FALSE;
  if (next != end)
    {
      fault->reason = "trailing-bytes";
      g_snprintf (fault->detail, sizeof fault->detail, "%zu bytes after the value", (gsize)(end - next));
      return FALSE;
    }
  return TRUE;
}
