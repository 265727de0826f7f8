/* SPDX-License-Identifier: Apache-2.0 */
#include "lmt-record.h"

#include "lmt-cursor-private.h"
#include "lmt-encode-private.h"
#include "lmt-record-private.h"

static gboolean
refuse (LmtFault *fault, const char *reason, const char *detail)
{
  fault->reason = reason;
  lmt_fault_set_detail (fault, detail, strlen (detail));
  return FALSE;
}

/* `type`, where it is there, must be the word "record"; another header is what two files glued together look like. */
static gboolean
read_tag (LmtCursor *cursor, LmtFault *fault)
{
  LmtSpan tag;
  char quoted[40];

  if (!lmt_cursor_read_str (cursor, &tag))
    return refuse (fault, "wrong-type", "type");
  if (LMT_SPAN_IS (tag, "record"))
    return TRUE;
  if (LMT_SPAN_IS (tag, "header"))
    return refuse (fault, "header-frame", "");
  g_snprintf (quoted, sizeof quoted, "'%.*s'", (int)MIN (tag.len, 36), (const char *)tag.data);
  return refuse (fault, "wrong-tag", quoted);
}

/* The args map: keys must be strings, values anything. */
static gboolean
read_args (LmtCursor *cursor, const guint8 *base, LmtSpan *args, LmtFault *fault)
{
  const guint8 *start = cursor->pos;
  guint32 pairs;

  if (!lmt_cursor_read_map (cursor, &pairs))
    return refuse (fault, "wrong-type", "args");
  for (guint32 i = 0; i < pairs; i++)
    {
      LmtSpan key;

      if (!lmt_cursor_read_str (cursor, &key))
        return refuse (fault, "bad-key", "args");
      if (!lmt_bytes_are_ascii (key.data, key.len) && !lmt_bytes_are_utf8 (key.data, key.len))
        return refuse (fault, "invalid-utf8", "");
      cursor->pos = lmt_walk_value (cursor->pos, cursor->end, base, 2, fault);
      if (cursor->pos == NULL)
        return FALSE;
    }
  args->data = start;
  args->len = (gsize)(cursor->pos - start);
  return TRUE;
}

enum
{
  HAVE_T_MONO = 1 << 0,
  HAVE_T_WALL = 1 << 1,
  HAVE_QUALNAME = 1 << 2,
  HAVE_ARGS = 1 << 3,
  HAVE_ALL = 15,
};

static gboolean
read_member (LmtCursor *cursor, LmtSpan key, const guint8 *base, LmtRecord *record, guint *have, LmtFault *fault)
{
  if (LMT_SPAN_IS (key, "t_mono"))
    {
      *have |= HAVE_T_MONO;
      return lmt_cursor_read_double (cursor, &record->t_mono) || refuse (fault, "wrong-type", "t_mono");
    }
  if (LMT_SPAN_IS (key, "t_wall"))
    {
      *have |= HAVE_T_WALL;
      return lmt_cursor_read_double (cursor, &record->t_wall) || refuse (fault, "wrong-type", "t_wall");
    }
  if (LMT_SPAN_IS (key, "qualname"))
    {
      *have |= HAVE_QUALNAME;
      if (!lmt_cursor_read_str (cursor, &record->qualname))
        return refuse (fault, "wrong-type", "qualname");
      if (!lmt_bytes_are_ascii (record->qualname.data, record->qualname.len)
          && !lmt_bytes_are_utf8 (record->qualname.data, record->qualname.len))
        return refuse (fault, "invalid-utf8", "");
      return TRUE;
    }
  if (LMT_SPAN_IS (key, "args"))
    {
      *have |= HAVE_ARGS;
      return read_args (cursor, base, &record->args, fault);
    }
  if (LMT_SPAN_IS (key, "type"))
    return read_tag (cursor, fault);
  /* A member of a later release: its value must be valid, nothing more. */
  if (!lmt_bytes_are_ascii (key.data, key.len) && !lmt_bytes_are_utf8 (key.data, key.len))
    return refuse (fault, "invalid-utf8", "");
  cursor->pos = lmt_walk_value (cursor->pos, cursor->end, base, 1, fault);
  return cursor->pos != NULL;
}

static gboolean
split (LmtSpan body, LmtRecord *record, LmtFault *fault)
{
  LmtCursor cursor;
  guint32 pairs;
  guint have = 0;

  lmt_cursor_init (&cursor, body);
  if (!lmt_cursor_read_map (&cursor, &pairs))
    return refuse (fault, "not-a-map", "");
  for (guint32 i = 0; i < pairs; i++)
    {
      LmtSpan key;

      if (!lmt_cursor_read_str (&cursor, &key))
        return refuse (fault, "bad-key", "");
      if (!read_member (&cursor, key, body.data, record, &have, fault))
        return FALSE;
    }
  if (!lmt_cursor_at_end (&cursor))
    return refuse (fault, "trailing-bytes", "");
  if (have != HAVE_ALL)
    return refuse (fault, "missing-field",
                   (have & HAVE_T_MONO) == 0     ? "t_mono"
                   : (have & HAVE_T_WALL) == 0   ? "t_wall"
                   : (have & HAVE_QUALNAME) == 0 ? "qualname"
                                                 : "args");
  record->body = body;
  record->walked = FALSE;
  return TRUE;
}

/*
 * A record as LMCache writes it: five members in the order of its struct, times as float64. Most of that is the same bytes in
 * every record, and compared as such. FALSE: another form, or a fault; split() tells which.
 */
#define USUAL_HEAD "\x85\xa4type\xa6record\xa6t_mono\xcb"
#define USUAL_WALL "\xa6t_wall\xcb"
#define USUAL_NAME "\xa8qualname"
enum
{
  USUAL_MONO_AT = sizeof USUAL_HEAD - 1,
  USUAL_WALL_AT = USUAL_MONO_AT + 8 + sizeof USUAL_WALL - 1,
  USUAL_NAME_AT = USUAL_WALL_AT + 8 + sizeof USUAL_NAME - 1,
};

static gboolean
split_usual (LmtSpan body, LmtRecord *record, LmtArgsWalk walk, gpointer data, LmtFault *fault)
{
  const guint8 *p = body.data;
  const guint8 *behind = NULL;
  LmtCursor cursor;
  LmtSpan key;

  if (body.len <= USUAL_NAME_AT || memcmp (p, USUAL_HEAD, sizeof USUAL_HEAD - 1) != 0
      || memcmp (p + USUAL_MONO_AT + 8, USUAL_WALL, sizeof USUAL_WALL - 1) != 0
      || memcmp (p + USUAL_WALL_AT + 8, USUAL_NAME, sizeof USUAL_NAME - 1) != 0)
    return FALSE;
  lmt_cursor_init (&cursor, body);
  cursor.pos += USUAL_NAME_AT;
  if (!lmt_cursor_read_str (&cursor, &record->qualname) || !lmt_bytes_are_ascii (record->qualname.data, record->qualname.len)
      || !lmt_cursor_read_str (&cursor, &key) || !LMT_SPAN_IS (key, "args"))
    return FALSE;
  if (walk != NULL)
    behind = walk (data, record->qualname, cursor.pos, cursor.end);
  if (behind != NULL)
    {
      record->args.data = cursor.pos;
      record->args.len = (gsize)(behind - cursor.pos);
      cursor.pos = behind;
    }
  else if (!read_args (&cursor, body.data, &record->args, fault))
    return FALSE;
  if (!lmt_cursor_at_end (&cursor))
    return FALSE;
  record->t_mono = lmt_read_be_double (p + USUAL_MONO_AT);
  record->t_wall = lmt_read_be_double (p + USUAL_WALL_AT);
  record->body = body;
  record->walked = behind != NULL;
  return TRUE;
}

gboolean
lmt_record_split_walking (LmtSpan body, LmtRecord *record, LmtArgsWalk walk, gpointer data, LmtFault *fault)
{
  LmtFault shape;

  if (split_usual (body, record, walk, data, fault) || split (body, record, fault))
    return TRUE;
  /* Broken bytes anywhere outrank a wrong member: with them nothing that was found can be trusted. A map as a key is left to the
   * check, too: split() sees it as a key that is no string only where it stands directly in the record. */
  shape.detail[0] = '\0';
  if (!lmt_cursor_check (body, &shape) && strcmp (shape.reason, "bad-key") != 0)
    {
      fault->reason = shape.reason;
      memcpy (fault->detail, shape.detail, sizeof fault->detail);
    }
  return FALSE;
}

gboolean
lmt_record_split (LmtSpan body, LmtRecord *record, LmtFault *fault)
{
  return lmt_record_split_walking (body, record, NULL, NULL, fault);
}

void
lmt_record_encode (double t_mono, double t_wall, LmtSpan qualname, LmtSpan args, GByteArray *out)
{
  guint start = lmt_encode_begin_frame (out);

  lmt_encode_map (out, 5);
  lmt_encode_str (out, "type", 4);
  lmt_encode_str (out, "record", 6);
  lmt_encode_str (out, "t_mono", 6);
  lmt_encode_double (out, t_mono);
  lmt_encode_str (out, "t_wall", 6);
  lmt_encode_double (out, t_wall);
  lmt_encode_str (out, "qualname", 8);
  lmt_encode_str (out, (const char *)qualname.data, qualname.len);
  lmt_encode_str (out, "args", 4);
  g_byte_array_append (out, args.data, (guint)args.len);
  lmt_encode_end_frame (out, start);
}
