/* SPDX-License-Identifier: Apache-2.0 */
#include "lmt-codec.h"

#include "lmt-cursor.h"
#include "lmt-json.h"
#include "lmt-registry.h"

const LmtCodecOps *
lmt_codec_find (LmtRegistry *registry, LmtSpan tag)
{
  g_return_val_if_fail (registry != NULL, NULL);
  return lmt_registry_peek_codec (registry, (const char *)tag.data, tag.len);
}

static gint
broken_wrapper (LmtFault *fault, const char *reason)
{
  fault->reason = reason;
  return -1;
}

/* The form every release writes, `__t__` first and a short tag; anything else goes the long way. */
static gboolean
unwrap_plain (LmtCursor *cursor, LmtSpan *tag, LmtSpan *payload)
{
  static const guint8 head[] = { 0x82, 0xa5, '_', '_', 't', '_', '_' };
  LmtCursor at = *cursor;
  gsize left = (gsize)(at.end - at.pos);
  gsize len;

  if (left < sizeof head + 4 || memcmp (at.pos, head, sizeof head) != 0 || (at.pos[sizeof head] & 0xe0) != 0xa0)
    return FALSE;
  len = at.pos[sizeof head] & 0x1f;
  if (left < sizeof head + 1 + len + 3)
    return FALSE;
  tag->data = at.pos + sizeof head + 1;
  tag->len = len;
  at.pos = tag->data + len;
  if (at.pos[0] != 0xa1 || at.pos[1] != 'v')
    return FALSE;
  at.pos += 2;
  if (!lmt_cursor_skip_span (&at, payload))
    return FALSE;
  *cursor = at;
  return TRUE;
}

gint
lmt_codec_unwrap (LmtCursor *cursor, LmtSpan *tag, LmtSpan *payload, LmtFault *fault)
{
  LmtCursor at = *cursor;
  LmtToken token;
  LmtType tag_type = LMT_TYPE_NIL;
  gboolean have_payload = FALSE;
  guint32 pairs;

  if (unwrap_plain (cursor, tag, payload))
    return 1;
  if (!lmt_cursor_read_map (&at, &pairs))
    return 0;
  for (guint32 i = 0; i < pairs; i++)
    {
      LmtCursor key = at;
      LmtSpan name, value;

      if (!lmt_cursor_skip (&at))
        return broken_wrapper (fault, "invalid-msgpack");
      if (!lmt_cursor_read_str (&key, &name))
        name.len = 0;
      key = at;
      if (!lmt_cursor_skip_span (&at, &value))
        return broken_wrapper (fault, "invalid-msgpack");
      if (LMT_SPAN_IS (name, "__t__"))
        {
          tag_type = lmt_cursor_next (&key, &token);
          *tag = token.span;
        }
      else if (LMT_SPAN_IS (name, "v"))
        {
          *payload = value;
          have_payload = TRUE;
        }
    }
  if (tag_type == LMT_TYPE_NIL)
    return 0;
  if (tag_type != LMT_TYPE_STR)
    return broken_wrapper (fault, "tag is no str");
  if (!have_payload)
    return broken_wrapper (fault, "tagged value without v");
  *cursor = at;
  return 1;
}

/* -------- values as text -------- */

static void
append_hex (GString *out, const guint8 *data, gsize len)
{
  static const char digits[] = "0123456789abcdef";

  g_string_append (out, "\"0x");
  for (gsize i = 0; i < len; i++)
    {
      g_string_append_c (out, digits[data[i] >> 4]);
      g_string_append_c (out, digits[data[i] & 0x0f]);
    }
  g_string_append_c (out, '"');
}

static void
append_text (GString *out, LmtSpan text)
{
  g_string_append_c (out, '"');
  lmt_json_append_escaped (out, (const char *)text.data, text.len);
  g_string_append_c (out, '"');
}

static void
append_scalar (GString *out, const LmtToken *token)
{
  char buffer[32];

  switch (token->type)
    {
    case LMT_TYPE_BOOL:
      g_string_append (out, token->v.b ? "true" : "false");
      break;
    case LMT_TYPE_UINT:
      g_string_append_printf (out, "%" G_GUINT64_FORMAT, token->v.u);
      break;
    case LMT_TYPE_INT:
      g_string_append_printf (out, "%" G_GINT64_FORMAT, token->v.i);
      break;
    case LMT_TYPE_FLOAT:
      g_string_append (out, token->v.f - token->v.f == 0 ? lmt_json_format_double (token->v.f, buffer) : "null");
      break;
    case LMT_TYPE_STR:
      append_text (out, token->span);
      break;
    case LMT_TYPE_BIN:
      append_hex (out, token->span.data, token->span.len);
      break;
    case LMT_TYPE_EXT:
      g_string_append_printf (out, "{\"__ext__\":%d,\"v\":", token->ext_type);
      append_hex (out, token->span.data, token->span.len);
      g_string_append_c (out, '}');
      break;
    default:
      g_string_append (out, "null");
      break;
    }
}

/* JSON keys are text: a str as it is, a number as its digits, the rest as the hex of its msgpack bytes. */
static gboolean
append_key (GString *out, LmtCursor *cursor)
{
  LmtCursor at = *cursor;
  LmtToken token;
  LmtSpan whole;

  if (!lmt_cursor_skip_span (cursor, &whole))
    return FALSE;
  switch (lmt_cursor_next (&at, &token))
    {
    case LMT_TYPE_STR:
    case LMT_TYPE_BIN:
      append_scalar (out, &token);
      break;
    case LMT_TYPE_UINT:
    case LMT_TYPE_INT:
      g_string_append_c (out, '"');
      append_scalar (out, &token);
      g_string_append_c (out, '"');
      break;
    default:
      append_hex (out, whole.data, whole.len);
      break;
    }
  g_string_append_c (out, ':');
  return TRUE;
}

void
lmt_value_to_json (LmtSpan value, GString *out)
{
  struct
  {
    guint32 left;
    gboolean map;
  } stack[LMT_CURSOR_MAX_DEPTH];
  guint depth = 0;
  LmtCursor cursor;
  LmtToken token;

  lmt_cursor_init (&cursor, value);
  do
    {
      if (depth > 0 && stack[depth - 1].map && !append_key (out, &cursor))
        return;
      switch (lmt_cursor_next (&cursor, &token))
        {
        case LMT_TYPE_NONE:
        case LMT_TYPE_ERROR:
          return;
        case LMT_TYPE_ARRAY:
        case LMT_TYPE_MAP:
          if (depth == LMT_CURSOR_MAX_DEPTH)
            return;
          g_string_append_c (out, token.type == LMT_TYPE_MAP ? '{' : '[');
          stack[depth].left = token.count;
          stack[depth++].map = token.type == LMT_TYPE_MAP;
          if (token.count > 0)
            continue;
          break;
        default:
          append_scalar (out, &token);
          if (depth > 0)
            stack[depth - 1].left--;
          break;
        }
      while (depth > 0 && stack[depth - 1].left == 0)
        {
          g_string_append_c (out, stack[--depth].map ? '}' : ']');
          if (depth > 0)
            stack[depth - 1].left--;
        }
      if (depth > 0)
        g_string_append_c (out, ',');
    }
  while (depth > 0);
}
