/* SPDX-License-Identifier: Apache-2.0 */
/* The memory of shapes must never say anything a walk wouldn't: records of all kinds, then every byte of them changed. */
#include "lmt-shape-private.h"

#include "lmt-encode-private.h"

typedef struct
{
  guint64 state;
} Random;

static guint32
next_random (Random *random, guint32 below)
{
  random->state = random->state * G_GUINT64_CONSTANT (6364136223846793005) + G_GUINT64_CONSTANT (1442695040888963407);
  return (guint32)((random->state >> 33) % below);
}

static void
add_value (GByteArray *out, Random *random, guint depth)
{
  static const char *const texts[]
      = { "", "a", "chunk_hash", "na\xc3\xafve", "a text of more than thirty-one bytes, with a head" };
  static const guint8 zeros[40];
  guint n;

  switch (next_random (random, depth > 3 ? 9 : 11))
    {
    case 0:
      lmt_encode_int (out, next_random (random, 200));
      break;
    case 1:
      lmt_encode_int (out, -(gint64)next_random (random, 100000));
      break;
    case 2:
      lmt_encode_int (out, (gint64)next_random (random, G_MAXINT32) << 20);
      break;
    case 3:
      lmt_encode_double (out, next_random (random, 1000) / 7.0);
      break;
    case 4:
      lmt_encode_be (out, (guint8)(0xc2 + next_random (random, 2)), 0, 0);
      break;
    case 5:
      lmt_encode_be (out, 0xc0, 0, 0);
      break;
    case 6:
    case 7:
      n = next_random (random, G_N_ELEMENTS (texts));
      lmt_encode_str (out, texts[n], strlen (texts[n]));
      break;
    case 8:
      n = next_random (random, sizeof zeros);
      lmt_encode_be (out, next_random (random, 2) == 0 ? 0xc4 : 0xc7, n, 1);
      if (out->data[out->len - 2] == 0xc7)
        g_byte_array_append (out, (const guint8 *)"\x05", 1);
      g_byte_array_append (out, zeros, n);
      break;
    default:
      n = next_random (random, 4);
      if (next_random (random, 2) == 0)
        lmt_encode_be (out, (guint8)(0x90 | n), 0, 0);
      else
        {
          lmt_encode_map (out, n);
          for (guint i = 0; i < n; i++)
            {
              lmt_encode_str (out, "key", 3);
              add_value (out, random, depth + 1);
            }
          n = 0;
        }
      while (n-- > 0)
        add_value (out, random, depth + 1);
      break;
    }
}

static GByteArray *
make_body (Random *random)
{
  g_autoptr (GByteArray) args = g_byte_array_new ();
  GByteArray *frame = g_byte_array_new ();
  guint pairs = 1 + next_random (random, 4);

  lmt_encode_map (args, pairs);
  for (guint i = 0; i < pairs; i++)
    {
      lmt_encode_str (args, "argument", 8);
      add_value (args, random, 0);
    }
  lmt_record_encode (next_random (random, 100) * 0.5, 1e9, (LmtSpan){ (const guint8 *)"some.call", 9 },
                     (LmtSpan){ args->data, args->len }, frame);
  g_byte_array_remove_range (frame, 0, LMT_FRAME_PREFIX_BYTES);
  return frame;
}

static gboolean
same_record (const LmtRecord *a, const LmtRecord *b)
{
  return memcmp (&a->t_mono, &b->t_mono, 8) == 0 && memcmp (&a->t_wall, &b->t_wall, 8) == 0
         && a->qualname.data == b->qualname.data && a->qualname.len == b->qualname.len && a->args.data == b->args.data
         && a->args.len == b->args.len && a->body.data == b->body.data && a->body.len == b->body.len;
}

static guint
compare (LmtShapes *shapes, LmtSpan body)
{
  LmtRecord matched = { 0 }, split = { 0 };
  LmtFault fault;

  if (!lmt_shapes_match (shapes, body, &matched))
    return 0;
  g_assert_true (lmt_record_split (body, &split, &fault));
  g_assert_true (same_record (&matched, &split));
  return 1;
}

static void
test_against_walk (void)
{
  g_autofree guint8 *copy = g_malloc (64 * 1024);
  Random random = { 42 };
  guint64 hits = 0;

  for (guint round = 0; round < 400; round++)
    {
      g_autoptr (GByteArray) body = make_body (&random);
      LmtShapes *shapes = lmt_shapes_new ();
      LmtSpan span = { body->data, body->len };
      LmtRecord record;
      LmtFault fault;

      g_assert_true (lmt_record_split (span, &record, &fault));
      lmt_shapes_learn (shapes, span, &record);
      if (body->len >= 64)
        g_assert_cmpuint (compare (shapes, span), ==, 1);
      /* Each byte changed in each bit, and a few at random together. */
      for (guint at = 0; at < body->len; at++)
        for (guint bit = 0; bit < 9; bit++)
          {
            memcpy (copy, body->data, body->len);
            copy[at] ^= bit < 8 ? (guint8)(1u << bit) : 0xff;
            hits += compare (shapes, (LmtSpan){ copy, body->len });
          }
      for (guint i = 0; i < 200; i++)
        {
          memcpy (copy, body->data, body->len);
          for (guint k = 0; k < 4; k++)
            copy[next_random (&random, body->len)] = (guint8)next_random (&random, 256);
          hits += compare (shapes, (LmtSpan){ copy, body->len });
        }
      lmt_shapes_free (shapes);
    }
  g_assert_cmpuint (hits, >, 10000); /* the memory does work */
}

/* The mask is cut exactly: payloads are free, everything that says what comes is not. */
static void
test_what_may_differ (void)
{
  static const char body_text[] = "\x85\xa4"
                                  "type\xa6record\xa6"
                                  "t_mono\xcb\x3f\xf0\0\0\0\0\0\0\xa6"
                                  "t_wall\xcb\x3f\xf0\0\0\0\0\0\0"
                                  "\xa8qualname\xa3"
                                  "abc\xa4"
                                  "args\x81\xa1k\xa3xyz";
  gsize len = sizeof body_text - 1;
  g_autofree guint8 *body = g_memdup2 (body_text, len);
  LmtShapes *shapes = lmt_shapes_new ();
  LmtRecord record;
  LmtFault fault;

  g_assert_cmpuint (len, >=, 64);
  g_assert_true (lmt_record_split ((LmtSpan){ body, len }, &record, &fault));
  lmt_shapes_learn (shapes, (LmtSpan){ body, len }, &record);
  for (gsize i = 0; i < len; i++)
    {
      gboolean time = (i >= 21 && i < 29) || (i >= 37 && i < 45);
      gboolean text = body + i > record.args.data + 1 && body[i] >= 0x20 && body[i] < 0x80;

      body[i] ^= 0x01;
      g_assert_cmpint (lmt_shapes_match (shapes, (LmtSpan){ body, len }, &record), ==, time || text);
      body[i] ^= 0x01;
    }
  lmt_shapes_free (shapes);
}

/* More shapes of a length than there is room for, and lengths of every size: nothing breaks, nothing wrong is remembered. */
static void
test_many_shapes (void)
{
  LmtShapes *shapes = lmt_shapes_new ();
  Random random = { 7 };
  guint64 seen = 0;

  for (guint round = 0; round < 20000; round++)
    {
      g_autoptr (GByteArray) body = make_body (&random);
      LmtSpan span = { body->data, body->len };
      LmtRecord record;
      LmtFault fault;

      if (compare (shapes, span) != 0)
        {
          seen++;
          continue;
        }
      g_assert_true (lmt_record_split (span, &record, &fault));
      lmt_shapes_learn (shapes, span, &record);
    }
  g_assert_cmpuint (seen, >, 0);
  lmt_shapes_free (shapes);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/shape/against-walk", test_against_walk);
  g_test_add_func ("/shape/what-may-differ", test_what_may_differ);
  g_test_add_func ("/shape/many-shapes", test_many_shapes);
  return g_test_run ();
}
