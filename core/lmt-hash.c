/* SPDX-License-Identifier: Apache-2.0 */
#include "lmt-hash.h"

#include <string.h>
#include <sys/random.h>
#include <time.h>

#define HASH_K0 G_GUINT64_CONSTANT (0x9E3779B97F4A7C15)
#define HASH_K1 G_GUINT64_CONSTANT (0xD6E8FEB86659FD93)

static inline guint64
load64 (const guint8 *p)
{
  guint64 v;
  memcpy (&v, p, sizeof v);
  return GUINT64_FROM_LE (v);
}

static inline guint64
fold (guint64 a, guint64 b)
{
  unsigned __int128 product = (unsigned __int128)a * b;
  return (guint64)product ^ (guint64)(product >> 64);
}

guint64
lmt_hash_bytes (gconstpointer data, gsize len, guint64 seed)
{
  const guint8 *p = data;
  guint64 h = seed ^ (len * HASH_K1);
  gsize left = len;

  for (; left >= 16; left -= 16, p += 16)
    h = fold (load64 (p) ^ HASH_K0, load64 (p + 8) ^ h);
  if (left >= 8)
    {
      h = fold (load64 (p) ^ HASH_K1, h ^ HASH_K0);
      p += 8;
      left -= 8;
    }
  if (left > 0)
    {
      guint64 tail = 0;
      memcpy (&tail, p, left);
      h = fold (GUINT64_FROM_LE (tail) ^ HASH_K0, h ^ HASH_K1);
    }
  return lmt_mix64 (h);
}

guint64
lmt_hash_seed (void)
{
  static gsize once = 0;
  static guint64 seed;

  if (g_once_init_enter (&once))
    {
      if (getrandom (&seed, sizeof seed, GRND_NONBLOCK) != sizeof seed)
        {
          struct timespec now;
          clock_gettime (CLOCK_REALTIME, &now);
          seed = lmt_mix64 ((guint64)now.tv_sec * G_GUINT64_CONSTANT (1000000000) + (guint64)now.tv_nsec);
        }
      g_once_init_leave (&once, 1);
    }
  return seed;
}

static inline guint64
fill_word (guint64 seed, guint64 w)
{
  return GUINT64_TO_LE (lmt_mix64 (seed + (w + 1) * HASH_K0));
}

void
lmt_fill (guint64 seed, gpointer data, gsize size)
{
  guint8 *p = data;
  gsize words = size / 8;

  for (gsize w = 0; w < words; w++)
    {
      guint64 v = fill_word (seed, w);
      memcpy (p + w * 8, &v, 8);
    }
  if (size % 8 != 0)
    {
      guint64 v = fill_word (seed, words);
      memcpy (p + words * 8, &v, size % 8);
    }
}

gint64
lmt_fill_check (guint64 seed, gconstpointer data, gsize size)
{
  const guint8 *p = data;

  for (gsize at = 0; at < size; at += 8)
    {
      guint64 v = fill_word (seed, at / 8);
      gsize n = MIN (size - at, 8);

      if (memcmp (p + at, &v, n) == 0)
        continue;
      for (gsize i = 0; i < n; i++)
        if (p[at + i] != ((const guint8 *)&v)[i])
          return (gint64)(at + i);
    }
  return -1;
}

guint64
lmt_fill_seed_for_wire_key (const char *wire, gsize len)
{
  g_autoptr (GChecksum) sum = g_checksum_new (G_CHECKSUM_SHA256);
  guint8 digest[32];
  gsize n = sizeof digest;

  g_checksum_update (sum, (const guchar *)wire, (gssize)len);
  g_checksum_get_digest (sum, digest, &n);
  return load64 (digest);
}
