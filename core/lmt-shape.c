/* SPDX-License-Identifier: Apache-2.0 */
#include "lmt-shape-private.h"

#include "lmt-cursor-private.h"

typedef guint64 Block __attribute__ ((vector_size (16)));

enum
{
  BLOCK_BYTES = 64,
  SMALL_BYTES = 1024,
  SMALL_SETS = 64,
  LARGE_BYTES = 16 * 1024,
  LARGE_SETS = 8,
  WAYS = 4,
  CREDIT_MAX = 256,
  CREDIT_HIT = 4,
  LEARN_ANYWAY = 16,
};

typedef struct
{
  guint32 len; /* 0: free */
  guint32 t_mono;
  guint32 t_wall;
  guint32 qualname;
  guint32 qualname_len;
  guint32 args;
  guint32 args_len;
} Shape;

/* Slots of one size. Bytes and mask of slot i stand at data + i * 2 * slot_bytes. */
typedef struct
{
  Shape *shapes;
  guint8 *data;
  guint8 *next; /* per set: the way to overwrite */
  gsize slot_bytes;
  guint sets;
} Table;

struct _LmtShapes
{
  Table small;
  Table large;
  /* Learning costs as much as walking. It pays while shapes come back: hits earn credit, learning spends it. */
  gint credit;
  guint refused;
};

static void
table_init (Table *table, gsize slot_bytes, guint sets)
{
  table->slot_bytes = slot_bytes;
  table->sets = sets;
  table->shapes = g_new0 (Shape, (gsize)sets * WAYS);
  table->data = g_malloc (slot_bytes * 2 * sets * WAYS);
  table->next = g_new0 (guint8, sets);
}

static void
table_clear (Table *table)
{
  g_free (table->shapes);
  g_free (table->data);
  g_free (table->next);
}

LmtShapes *
lmt_shapes_new (void)
{
  LmtShapes *shapes = g_new0 (LmtShapes, 1);

  table_init (&shapes->small, SMALL_BYTES, SMALL_SETS);
  table_init (&shapes->large, LARGE_BYTES, LARGE_SETS);
  shapes->credit = CREDIT_MAX;
  return shapes;
}

void
lmt_shapes_free (LmtShapes *shapes)
{
  if (shapes == NULL)
    return;
  table_clear (&shapes->small);
  table_clear (&shapes->large);
  g_free (shapes);
}

static inline Block
load (const guint8 *p)
{
  Block block;

  memcpy (&block, p, sizeof block);
  return block;
}

/* Do 64 bytes agree under the mask? */
static inline gboolean
agrees (const guint8 *body, const guint8 *known, const guint8 *mask)
{
  Block bad = (load (body) ^ load (known)) & load (mask);

  bad |= (load (body + 16) ^ load (known + 16)) & load (mask + 16);
  bad |= (load (body + 32) ^ load (known + 32)) & load (mask + 32);
  bad |= (load (body + 48) ^ load (known + 48)) & load (mask + 48);
  return (bad[0] | bad[1]) == 0;
}

static inline gboolean
agrees_whole (const guint8 *body, const guint8 *known, const guint8 *mask, gsize len)
{
  for (gsize i = 0; i + BLOCK_BYTES <= len; i += BLOCK_BYTES)
    if (!agrees (body + i, known + i, mask + i))
      return FALSE;
  /* The rest, overlapping what was compared: nothing behind the body is read. */
  return agrees (body + len - BLOCK_BYTES, known + len - BLOCK_BYTES, mask + len - BLOCK_BYTES);
}

static inline Table *
table_for (LmtShapes *shapes, gsize len)
{
  if (len < BLOCK_BYTES || len > LARGE_BYTES)
    return NULL;
  return len <= SMALL_BYTES ? &shapes->small : &shapes->large;
}

gboolean
lmt_shapes_match (LmtShapes *shapes, LmtSpan body, LmtRecord *record)
{
  Table *table = table_for (shapes, body.len);
  guint first;

  if (table == NULL)
    return FALSE;
  first = (guint)(body.len & (table->sets - 1)) * WAYS;
  for (guint i = first; i < first + WAYS; i++)
    {
      const Shape *shape = &table->shapes[i];
      const guint8 *known = table->data + i * 2 * table->slot_bytes;

      if (shape->len != body.len || !agrees_whole (body.data, known, known + table->slot_bytes, body.len))
        continue;
      record->t_mono = lmt_read_be_double (body.data + shape->t_mono);
      record->t_wall = lmt_read_be_double (body.data + shape->t_wall);
      record->qualname.data = body.data + shape->qualname;
      record->qualname.len = shape->qualname_len;
      record->args.data = body.data + shape->args;
      record->args.len = shape->args_len;
      record->body = body;
      record->walked = FALSE;
      shapes->credit = MIN (shapes->credit + CREDIT_HIT, CREDIT_MAX);
      return TRUE;
    }
  return FALSE;
}

/* Mask of one token's bytes: its head (and length) fixed, its payload as free as its type allows. */
static void
mask_token (guint8 *mask, const guint8 *head, const LmtToken *token, gsize len)
{
  gsize payload = 0;

  memset (mask, 0xff, len);
  switch (token->type)
    {
    case LMT_TYPE_BOOL:
      mask[0] = 0xfe; /* c2, c3 */
      break;
    case LMT_TYPE_UINT:
    case LMT_TYPE_INT:
      if (len == 1)
        mask[0] = token->type == LMT_TYPE_UINT ? 0x80 : 0xe0;
      else
        memset (mask + 1, 0, len - 1);
      break;
    case LMT_TYPE_FLOAT:
      memset (mask + 1, 0, len - 1);
      break;
    case LMT_TYPE_STR:
    case LMT_TYPE_BIN:
    case LMT_TYPE_EXT:
      payload = (gsize)(token->span.data - head);
      if (token->type != LMT_TYPE_STR)
        memset (mask + payload, 0, len - payload);
      else if (lmt_bytes_are_ascii (token->span.data, token->span.len))
        memset (mask + payload, 0x80, len - payload);
      break;
    default:
      break;
    }
}

/* Where the record's own times stand; FALSE if one is no float64, or stands twice. */
static gboolean
find_times (LmtSpan body, Shape *shape)
{
  LmtCursor cursor;
  guint32 pairs;

  lmt_cursor_init (&cursor, body);
  if (!lmt_cursor_read_map (&cursor, &pairs))
    return FALSE;
  for (guint32 i = 0; i < pairs; i++)
    {
      LmtSpan key, value;
      guint32 *place = NULL;

      if (!lmt_cursor_read_str (&cursor, &key) || !lmt_cursor_skip_span (&cursor, &value))
        return FALSE;
      if (LMT_SPAN_IS (key, "t_mono"))
        place = &shape->t_mono;
      else if (LMT_SPAN_IS (key, "t_wall"))
        place = &shape->t_wall;
      if (place == NULL)
        continue;
      if (*place != 0 || value.len != 9 || value.data[0] != 0xcb)
        return FALSE;
      *place = (guint32)(value.data + 1 - body.data);
    }
  return shape->t_mono != 0 && shape->t_wall != 0;
}

void
lmt_shapes_learn (LmtShapes *shapes, LmtSpan body, const LmtRecord *record)
{
  Table *table = table_for (shapes, body.len);
  Shape shape = { 0 };
  LmtCursor cursor;
  LmtToken token;
  guint set, slot;
  guint8 *known, *mask;

  if (table == NULL)
    return;
  if (shapes->credit <= 0 && ++shapes->refused % LEARN_ANYWAY != 0)
    return;
  shapes->credit--;
  if (!find_times (body, &shape))
    return;

  set = (guint)(body.len & (table->sets - 1));
  slot = set * WAYS + table->next[set];
  table->next[set] = (guint8)((table->next[set] + 1) % WAYS);
  known = table->data + slot * 2 * table->slot_bytes;
  mask = known + table->slot_bytes;

  shape.len = (guint32)body.len;
  shape.qualname = (guint32)(record->qualname.data - body.data);
  shape.qualname_len = (guint32)record->qualname.len;
  shape.args = (guint32)(record->args.data - body.data);
  shape.args_len = (guint32)record->args.len;

  memcpy (known, body.data, body.len);
  memset (mask, 0xff, body.len);
  memset (mask + shape.t_mono, 0, 8);
  memset (mask + shape.t_wall, 0, 8);
  /* Tokens of a valid value stand one behind the other whatever the nesting, so no stack is needed here. */
  lmt_cursor_init (&cursor, record->args);
  while (cursor.pos < cursor.end)
    {
      const guint8 *head = cursor.pos;

      if (lmt_cursor_next (&cursor, &token) == LMT_TYPE_ERROR)
        {
          table->shapes[slot].len = 0;
          return;
        }
      mask_token (mask + (head - body.data), head, &token, (gsize)(cursor.pos - head));
    }
  table->shapes[slot] = shape;
}
