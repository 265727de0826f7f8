/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "lmt-frame.h"

#include <string.h>

G_BEGIN_DECLS

/*
 * The few msgpack forms a header and a record are made of, always the shortest one, as LMCache's encoder (msgspec) writes them.
 * Arguments come in encoded; a level that makes its own uses msgpack-c.
 */
static inline void
lmt_encode_be (GByteArray *out, guint8 head, guint64 value, guint width)
{
  guint8 bytes[9];

  bytes[0] = head;
  for (guint i = 0; i < width; i++)
    bytes[1 + i] = (guint8)(value >> (8 * (width - 1 - i)));
  g_byte_array_append (out, bytes, width + 1);
}

static inline void
lmt_encode_map (GByteArray *out, guint32 pairs)
{
  if (pairs < 16)
    lmt_encode_be (out, (guint8)(0x80 | pairs), 0, 0);
  else if (pairs <= G_MAXUINT16)
    lmt_encode_be (out, 0xde, pairs, 2);
  else
    lmt_encode_be (out, 0xdf, pairs, 4);
}

static inline void
lmt_encode_str (GByteArray *out, const char *text, gsize len)
{
  if (len < 32)
    lmt_encode_be (out, (guint8)(0xa0 | len), 0, 0);
  else if (len <= G_MAXUINT8)
    lmt_encode_be (out, 0xd9, len, 1);
  else if (len <= G_MAXUINT16)
    lmt_encode_be (out, 0xda, len, 2);
  else
    lmt_encode_be (out, 0xdb, len, 4);
  g_byte_array_append (out, (const guint8 *)text, (guint)len);
}

static inline void
lmt_encode_double (GByteArray *out, double value)
{
  guint64 bits;

  memcpy (&bits, &value, sizeof bits);
  lmt_encode_be (out, 0xcb, bits, 8);
}

static inline void
lmt_encode_int (GByteArray *out, gint64 value)
{
  guint64 u = (guint64)value;

  if (value >= 0)
    {
      if (u < 128)
        lmt_encode_be (out, (guint8)u, 0, 0);
      else if (u <= G_MAXUINT8)
        lmt_encode_be (out, 0xcc, u, 1);
      else if (u <= G_MAXUINT16)
        lmt_encode_be (out, 0xcd, u, 2);
      else if (u <= G_MAXUINT32)
        lmt_encode_be (out, 0xce, u, 4);
      else
        lmt_encode_be (out, 0xcf, u, 8);
    }
  else if (value >= -32)
    lmt_encode_be (out, (guint8)u, 0, 0);
  else if (value >= G_MININT8)
    lmt_encode_be (out, 0xd0, u, 1);
  else if (value >= G_MININT16)
    lmt_encode_be (out, 0xd1, u, 2);
  else if (value >= G_MININT32)
    lmt_encode_be (out, 0xd2, u, 4);
  else
    lmt_encode_be (out, 0xd3, u, 8);
}

/* Leaves room for the length; returns where the frame starts. */
static inline guint
lmt_encode_begin_frame (GByteArray *out)
{
  static const guint8 zero[LMT_FRAME_PREFIX_BYTES];
  guint start = out->len;

  g_byte_array_append (out, zero, sizeof zero);
  return start;
}

static inline void
lmt_encode_end_frame (GByteArray *out, guint start)
{
  guint32 length = GUINT32_TO_BE (out->len - start - LMT_FRAME_PREFIX_BYTES);

  memcpy (out->data + start, &length, sizeof length);
}

G_END_DECLS
