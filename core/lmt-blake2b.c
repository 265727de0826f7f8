/* SPDX-License-Identifier: Apache-2.0 */

/* BLAKE2b as RFC 7693 describes it: LMCache's fault injection draws by it (l2-adapters.md 8). */
#include "lmt-hash.h"

#include <string.h>

enum
{
  BLOCK = 128,
  ROUNDS = 12,
};

static const guint64 initial[8] = {
  G_GUINT64_CONSTANT (0x6a09e667f3bcc908), G_GUINT64_CONSTANT (0xbb67ae8584caa73b), G_GUINT64_CONSTANT (0x3c6ef372fe94f82b),
  G_GUINT64_CONSTANT (0xa54ff53a5f1d36f1), G_GUINT64_CONSTANT (0x510e527fade682d1), G_GUINT64_CONSTANT (0x9b05688c2b3e6c1f),
  G_GUINT64_CONSTANT (0x1f83d9abfb41bd6b), G_GUINT64_CONSTANT (0x5be0cd19137e2179),
};

/* Rounds 10 and 11 use rows 0 and 1 again. */
static const guint8 order[10][16] = {
  { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 }, { 14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3 },
  { 11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4 }, { 7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8 },
  { 9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13 }, { 2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9 },
  { 12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11 }, { 13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10 },
  { 6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5 }, { 10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0 },
};

static inline guint64
rotate (guint64 x, guint n)
{
  return x >> n | x << (64 - n);
}

static inline void
mix (guint64 *v, guint a, guint b, guint c, guint d, guint64 x, guint64 y)
{
  v[a] += v[b] + x;
  v[d] = rotate (v[d] ^ v[a], 32);
  v[c] += v[d];
  v[b] = rotate (v[b] ^ v[c], 24);
  v[a] += v[b] + y;
  v[d] = rotate (v[d] ^ v[a], 16);
  v[c] += v[d];
  v[b] = rotate (v[b] ^ v[c], 63);
}

/* @counter: bytes hashed with this block. Inputs here are shorter than 2^64 bytes, so its upper half stays 0. */
static void
compress (guint64 *state, const guint8 *block, guint64 counter, gboolean last)
{
  guint64 v[16], m[16];

  for (guint i = 0; i < 16; i++)
    {
      memcpy (&m[i], block + 8 * i, 8);
      m[i] = GUINT64_FROM_LE (m[i]);
    }
  memcpy (v, state, 64);
  memcpy (v + 8, initial, sizeof initial);
  v[12] ^= counter;
  if (last)
    v[14] = ~v[14];
  for (guint round = 0; round < ROUNDS; round++)
    {
      const guint8 *s = order[round % 10];
      mix (v, 0, 4, 8, 12, m[s[0]], m[s[1]]);
      mix (v, 1, 5, 9, 13, m[s[2]], m[s[3]]);
      mix (v, 2, 6, 10, 14, m[s[4]], m[s[5]]);
      mix (v, 3, 7, 11, 15, m[s[6]], m[s[7]]);
      mix (v, 0, 5, 10, 15, m[s[8]], m[s[9]]);
      mix (v, 1, 6, 11, 12, m[s[10]], m[s[11]]);
      mix (v, 2, 7, 8, 13, m[s[12]], m[s[13]]);
      mix (v, 3, 4, 9, 14, m[s[14]], m[s[15]]);
    }
  for (guint i = 0; i < 8; i++)
    state[i] ^= v[i] ^ v[i + 8];
}

void
lmt_blake2b (gconstpointer data, gsize len, guint8 *digest, gsize digest_len)
{
  const guint8 *p = data;
  guint64 state[8];
  guint8 block[BLOCK] = { 0 };
  guint64 counter = 0;

  g_return_if_fail (digest != NULL && digest_len >= 1 && digest_len <= 64 && (data != NULL || len == 0));
  memcpy (state, initial, sizeof state);
  state[0] ^= 0x01010000 ^ digest_len;
  for (; len > BLOCK; len -= BLOCK, p += BLOCK)
    {
      counter += BLOCK;
      compress (state, p, counter, FALSE);
    }
  if (len > 0)
    memcpy (block, p, len);
  compress (state, block, counter + len, TRUE);
  for (guint i = 0; i < 8; i++)
    state[i] = GUINT64_TO_LE (state[i]);
  memcpy (digest, state, digest_len);
}
