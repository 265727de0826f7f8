// SPDX-License-Identifier: Apache-2.0
#include "events-walk.h"

#include <string.h>

/*
 * Names are compared with their head byte, as constants of known length; nothing is looked up. Every step returns the byte behind
 * what it read, or NULL, and takes NULL, so that a row of steps needs one test at its end.
 */

/* Bytes of an integer with its head; 0: the head of something else. */
static const guint8 int_bytes[256] = {
  [0x00 ... 0x7f] = 1, [0xcc] = 2, [0xcd] = 3, [0xce] = 5, [0xcf] = 9,
  [0xd0] = 2,          [0xd1] = 3, [0xd2] = 5, [0xd3] = 9, [0xe0 ... 0xff] = 1,
};

static inline guint64
load_be (const guint8 *p, guint bytes)
{
  guint64 value = 0;

  for (guint i = 0; i < bytes; i++)
    value = value << 8 | p[i];
  return value;
}

static inline const guint8 *
step_name (const guint8 *p, const guint8 *end, const char *name, gsize len)
{
  return p != NULL && (gsize)(end - p) >= len && memcmp (p, name, len) == 0 ? p + len : NULL;
}
#define STEP_NAME(p, end, literal) step_name ((p), (end), "" literal, sizeof (literal) - 1)

static inline const guint8 *
step_bytes (const guint8 *p, const guint8 *end, gsize len)
{
  return p != NULL && (gsize)(end - p) >= len ? p + len : NULL;
}

static inline gboolean
is_ascii (const guint8 *p, gsize len)
{
  guint64 all = 0, word;
  guint8 rest = 0;

  for (; len >= 8; len -= 8, p += 8)
    {
      memcpy (&word, p, 8);
      all |= word;
    }
  for (; len > 0; len--)
    rest |= *p++;
  return ((all | rest) & G_GUINT64_CONSTANT (0x8080808080808080)) == 0;
}

/* A string of up to 255 bytes of ASCII. @value: (out) (nullable): with its head */
static inline const guint8 *
step_str (const guint8 *p, const guint8 *end, LmtSpan *value)
{
  const guint8 *start = p;
  gsize len;

  if (p == NULL || p == end)
    return NULL;
  if ((*p & 0xe0) == 0xa0)
    len = *p++ & 0x1f;
  else if (*p == 0xd9 && end - p >= 2)
    {
      len = p[1];
      p += 2;
    }
  else
    return NULL;
  if ((gsize)(end - p) < len || !is_ascii (p, len))
    return NULL;
  p += len;
  if (value != NULL)
    *value = (LmtSpan){ start, (gsize)(p - start) };
  return p;
}

static inline const guint8 *
step_int (const guint8 *p, const guint8 *end)
{
  guint bytes;

  if (p == NULL || p == end)
    return NULL;
  bytes = int_bytes[*p];
  return bytes != 0 && (gsize)(end - p) >= bytes ? p + bytes : NULL;
}

/* Of what step_int() stepped over; FALSE: beyond gint64. */
static inline gboolean
int_value (const guint8 *p, gint64 *value)
{
  switch (*p)
    {
    case 0xcc:
      *value = p[1];
      return TRUE;
    case 0xcd:
      *value = (gint64)load_be (p + 1, 2);
      return TRUE;
    case 0xce:
      *value = (gint64)load_be (p + 1, 4);
      return TRUE;
    case 0xcf:
      *value = (gint64)load_be (p + 1, 8);
      return p[1] < 0x80;
    case 0xd0:
      *value = (gint8)p[1];
      return TRUE;
    case 0xd1:
      *value = (gint16)load_be (p + 1, 2);
      return TRUE;
    case 0xd2:
      *value = (gint32)load_be (p + 1, 4);
      return TRUE;
    case 0xd3:
      *value = (gint64)load_be (p + 1, 8);
      return TRUE;
    default:
      *value = (gint8)*p;
      return TRUE;
    }
}

static inline const guint8 *
step_int_value (const guint8 *p, const guint8 *end, gint64 *value)
{
  const guint8 *behind = step_int (p, end);

  return behind != NULL && int_value (p, value) ? behind : NULL;
}

static inline const guint8 *
step_array (const guint8 *p, const guint8 *end, guint32 *n)
{
  if (p == NULL || p == end)
    return NULL;
  if ((*p & 0xf0) == 0x90)
    {
      *n = *p & 0x0f;
      return p + 1;
    }
  if (*p == 0xdc && end - p >= 3)
    {
      *n = (guint32)load_be (p + 1, 2);
      return p + 3;
    }
  if (*p == 0xdd && end - p >= 5)
    {
      *n = (guint32)load_be (p + 1, 4);
      return p + 5;
    }
  return NULL;
}

/* Each element takes a byte at least, so that a count beyond the bytes left ends there. */
static inline const guint8 *
step_ints (const guint8 *p, const guint8 *end, guint32 *n)
{
  p = step_array (p, end, n);
  for (guint32 i = 0; p != NULL && i < *n; i++)
    p = step_int (p, end);
  return p;
}

static const guint8 *
step_entry (const guint8 *p, const guint8 *end, EventsSeen *seen)
{
  gint64 size = 0;
  guint32 n_tokens = 0;

  p = STEP_NAME (p, end,
                 "\x84\xa3key\x85\xae"
                 "chunk_hash_hex");
  p = step_str (p, end, NULL);
  p = STEP_NAME (p, end, "\xaamodel_name");
  p = step_str (p, end, NULL);
  p = STEP_NAME (p, end, "\xa7kv_rank");
  p = step_int (p, end);
  p = STEP_NAME (p, end, "\xafobject_group_id");
  p = step_int (p, end);
  p = STEP_NAME (p, end,
                 "\xaa"
                 "cache_salt");
  p = step_str (p, end, NULL);
  p = STEP_NAME (p, end, "\xaasize_bytes");
  p = step_int_value (p, end, &size);
  p = STEP_NAME (p, end, "\xa9token_ids");
  p = step_ints (p, end, &n_tokens);
  p = STEP_NAME (p, end, "\xactoken_offset");
  p = step_int (p, end);
  seen->bytes += size;
  seen->n_tokens += n_tokens > 0;
  return p;
}

const guint8 *
events_walk_batch (const guint8 *p, const guint8 *end, EventsSeen *seen)
{
  guint32 members;

  if (end - p < 1 || (*p != 0x8b && *p != 0x8c))
    return NULL;
  members = *p++ & 0x0f;
  p = STEP_NAME (p, end, "\xabinstance_id");
  p = step_str (p, end, &seen->instance);
  p = STEP_NAME (p, end, "\xabincarnation");
  p = step_int_value (p, end, &seen->incarnation);
  p = STEP_NAME (p, end, "\xa3seq");
  p = step_int (p, end);
  p = STEP_NAME (p, end,
                 "\xaa"
                 "event_type");
  p = step_str (p, end, &seen->event_type);
  p = STEP_NAME (p, end, "\xa4tier");
  p = step_str (p, end, &seen->tier);
  p = STEP_NAME (p, end,
                 "\xa7"
                 "backend");
  p = step_str (p, end, &seen->backend);
  p = STEP_NAME (p, end,
                 "\xa7"
                 "entries");
  p = step_array (p, end, &seen->n_entries);
  if (p == NULL)
    return NULL;
  seen->bytes = 0;
  seen->n_tokens = 0;
  for (guint32 i = 0; p != NULL && i < seen->n_entries; i++)
    p = step_entry (p, end, seen);
  p = STEP_NAME (p, end, "\xa6shared");
  if (p == NULL || p == end || (*p & 0xfe) != 0xc2)
    return NULL;
  seen->shared = *p++ == 0xc3;
  p = STEP_NAME (p, end, "\xa2ts\xcb");
  p = step_bytes (p, end, 8);
  p = STEP_NAME (p, end,
                 "\xae"
                 "capacity_bytes");
  p = step_int (p, end);
  p = STEP_NAME (p, end,
                 "\xb1"
                 "capacity_revision");
  p = step_int (p, end);
  if (members == 12) /* since 0.5.7 */
    {
      p = STEP_NAME (p, end,
                     "\xae"
                     "dropped_events");
      p = step_int (p, end);
    }
  seen->store = LMT_SPAN_IS (seen->event_type, "\xa5store");
  return p;
}
