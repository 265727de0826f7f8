/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "lmt-cursor.h"

G_BEGIN_DECLS

static inline guint16
lmt_read_be16 (const guint8 *p)
{
  return (guint16)((guint16)p[0] << 8 | p[1]);
}

static inline guint64
lmt_read_be64 (const guint8 *p)
{
  guint64 v;

  memcpy (&v, p, sizeof v);
  return GUINT64_FROM_BE (v);
}

static inline double
lmt_read_be_double (const guint8 *p)
{
  guint64 bits = lmt_read_be64 (p);
  double v;

  memcpy (&v, &bits, sizeof v);
  return v;
}

static inline gboolean
lmt_bytes_are_ascii (const guint8 *p, gsize len)
{
  const guint64 high = G_GUINT64_CONSTANT (0x8080808080808080);
  guint64 word, last;

  if (len >= 8)
    {
      guint64 all;

      memcpy (&all, p + len - 8, 8); /* overlaps the last whole word: no loop for the rest */
      for (gsize i = 0; i + 8 < len; i += 8)
        {
          memcpy (&word, p + i, 8);
          all |= word;
        }
      return (all & high) == 0;
    }
  if (len >= 4)
    {
      guint32 head, tail;

      memcpy (&head, p, 4);
      memcpy (&tail, p + len - 4, 4);
      return ((head | tail) & 0x80808080u) == 0;
    }
  last = 0;
  for (gsize i = 0; i < len; i++)
    last |= p[i];
  return (last & 0x80) == 0;
}

/* Strict: no overlong forms, no surrogates, nothing above U+10FFFF; NUL is a character. */
gboolean lmt_bytes_are_utf8 (const guint8 *p, gsize len);

/**
 * lmt_walk_value: steps over one whole value, checking it
 * @base: where the body starts, for the place in the fault
 * @depth: containers already open around it
 *
 * Returns: the byte behind the value, or %NULL and a reason and detail in @fault
 */
const guint8 *lmt_walk_value (const guint8 *p, const guint8 *end, const guint8 *base, guint depth, LmtFault *fault);

G_END_DECLS
