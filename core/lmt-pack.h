/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <string.h>

#include "lmt-frame.h"

G_BEGIN_DECLS

/**
 * LmtPack: writes msgpack, always the shortest form, as LMCache's encoder (msgspec) writes it. Border struct: never grows.
 * @data, @len: what was written so far
 * @max: bytes there is room for
 * @failed: not 0: something didn't fit or was refused; what was written is of no use
 * @grow: (nullable): makes room for @need more bytes, FALSE: can't. NULL: the room is fixed
 *
 * Plain struct, in C and C++. Threads: one at a time. Cost: no allocation but by @grow.
 * Source: trace-format: framing, values; msgpack's own specification.
 *
 * Since: 0.1
 */
typedef struct _LmtPack LmtPack;
struct _LmtPack
{
  guint8 *data;
  gsize len;
  gsize max;
  gboolean (*grow) (LmtPack *pack, gsize need);
  guint32 failed;
  guint32 reserved;
};

/**
 * lmt_pack_init_fixed: writes into @bytes bytes at @memory, which stay the caller's. What does not fit sets `failed`.
 */
static inline void
lmt_pack_init_fixed (LmtPack *pack, gpointer memory, gsize bytes)
{
  memset (pack, 0, sizeof *pack);
  pack->data = (guint8 *)memory;
  pack->max = bytes;
}

/* Memory of its own that grows; lmt_pack_clear() gives it back. */
void lmt_pack_init (LmtPack *pack);
void lmt_pack_clear (LmtPack *pack);

static inline gboolean
lmt_pack_ensure (LmtPack *pack, gsize need)
{
  if (G_LIKELY (pack->max - pack->len >= need))
    return TRUE;
  if (pack->grow != NULL && pack->failed == 0 && pack->grow (pack, need))
    return TRUE;
  pack->failed = 1;
  return FALSE;
}

/* Ready msgpack, or any other bytes. */
static inline void
lmt_pack_raw (LmtPack *pack, gconstpointer bytes, gsize len)
{
  if (len == 0 || !lmt_pack_ensure (pack, len))
    return;
  memcpy (pack->data + pack->len, bytes, len);
  pack->len += len;
}

/* A head byte and the low @width bytes (0 to 8) of @value, big-endian. */
static inline void
lmt_pack_head (LmtPack *pack, guint8 head, guint64 value, guint width)
{
  guint8 *at;

  if (!lmt_pack_ensure (pack, 9))
    return;
  at = pack->data + pack->len;
  value = GUINT64_TO_BE (width > 0 ? value << (8 * (8 - width)) : 0);
  at[0] = head;
  memcpy (at + 1, &value, sizeof value);
  pack->len += 1 + width;
}

static inline void
lmt_pack_nil (LmtPack *pack)
{
  lmt_pack_head (pack, 0xc0, 0, 0);
}

static inline void
lmt_pack_bool (LmtPack *pack, gboolean value)
{
  lmt_pack_head (pack, value ? 0xc3 : 0xc2, 0, 0);
}

static inline void
lmt_pack_uint (LmtPack *pack, guint64 value)
{
  if (value < 128)
    lmt_pack_head (pack, (guint8)value, 0, 0);
  else if (value <= G_MAXUINT8)
    lmt_pack_head (pack, 0xcc, value, 1);
  else if (value <= G_MAXUINT16)
    lmt_pack_head (pack, 0xcd, value, 2);
  else if (value <= G_MAXUINT32)
    lmt_pack_head (pack, 0xce, value, 4);
  else
    lmt_pack_head (pack, 0xcf, value, 8);
}

static inline void
lmt_pack_int (LmtPack *pack, gint64 value)
{
  if (value >= 0)
    lmt_pack_uint (pack, (guint64)value);
  else if (value >= -32)
    lmt_pack_head (pack, (guint8)value, 0, 0);
  else if (value >= G_MININT8)
    lmt_pack_head (pack, 0xd0, (guint64)value, 1);
  else if (value >= G_MININT16)
    lmt_pack_head (pack, 0xd1, (guint64)value, 2);
  else if (value >= G_MININT32)
    lmt_pack_head (pack, 0xd2, (guint64)value, 4);
  else
    lmt_pack_head (pack, 0xd3, (guint64)value, 8);
}

/* Always float64, as Python's floats are written. */
static inline void
lmt_pack_double (LmtPack *pack, double value)
{
  guint64 bits;

  memcpy (&bits, &value, sizeof bits);
  lmt_pack_head (pack, 0xcb, bits, 8);
}

/* @text: UTF-8; a reader refuses a record with any other str. */
static inline void
lmt_pack_str (LmtPack *pack, const char *text, gsize len)
{
  if (len < 32)
    lmt_pack_head (pack, (guint8)(0xa0 | len), 0, 0);
  else if (len <= G_MAXUINT8)
    lmt_pack_head (pack, 0xd9, len, 1);
  else if (len <= G_MAXUINT16)
    lmt_pack_head (pack, 0xda, len, 2);
  else
    lmt_pack_head (pack, 0xdb, len, 4);
  lmt_pack_raw (pack, text, len);
}

static inline void
lmt_pack_bin (LmtPack *pack, gconstpointer bytes, gsize len)
{
  if (len <= G_MAXUINT8)
    lmt_pack_head (pack, 0xc4, len, 1);
  else if (len <= G_MAXUINT16)
    lmt_pack_head (pack, 0xc5, len, 2);
  else
    lmt_pack_head (pack, 0xc6, len, 4);
  lmt_pack_raw (pack, bytes, len);
}

/* @n elements follow. */
static inline void
lmt_pack_array (LmtPack *pack, guint32 n)
{
  if (n < 16)
    lmt_pack_head (pack, (guint8)(0x90 | n), 0, 0);
  else if (n <= G_MAXUINT16)
    lmt_pack_head (pack, 0xdc, n, 2);
  else
    lmt_pack_head (pack, 0xdd, n, 4);
}

/* @n pairs follow, key and value. */
static inline void
lmt_pack_map (LmtPack *pack, guint32 n)
{
  if (n < 16)
    lmt_pack_head (pack, (guint8)(0x80 | n), 0, 0);
  else if (n <= G_MAXUINT16)
    lmt_pack_head (pack, 0xde, n, 2);
  else
    lmt_pack_head (pack, 0xdf, n, 4);
}

#define LMT_PACK_LITERAL(pack, literal) lmt_pack_str ((pack), "" literal, sizeof (literal) - 1)

/* `{"__t__": tag, "v": ` : the payload follows. `tuple` and `set` are such tags: an array alone is a list. */
static inline void
lmt_pack_tag (LmtPack *pack, const char *tag)
{
  lmt_pack_map (pack, 2);
  LMT_PACK_LITERAL (pack, "__t__");
  lmt_pack_str (pack, tag, strlen (tag));
  LMT_PACK_LITERAL (pack, "v");
}

static inline LmtSpan
lmt_pack_span (const LmtPack *pack)
{
  LmtSpan span = { pack->data, pack->len };
  return span;
}

G_END_DECLS
