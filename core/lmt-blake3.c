/* SPDX-License-Identifier: Apache-2.0 */

/* BLAKE3's plain hash, 32 bytes out, as its paper describes it: LMCache names chunks of tokens by it (events.md 10). One thread,
 * no vector units: what is hashed here is a kilobyte at a time. */
#include "lmt-hash.h"

#include <string.h>

enum
{
  BLOCK = 64,
  CHUNK = 1024,
  ROUNDS = 7,

  CHUNK_START = 1,
  CHUNK_END = 2,
  PARENT = 4,
  ROOT = 8,
};

static const guint32 initial[8] = {
  0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19,
};

/* Each row is the row before it, permuted by row 1. */
static const guint8 order[ROUNDS][16] = {
  { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 }, { 2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8 },
  { 3, 4, 10, 12, 13, 2, 7, 14, 6, 5, 9, 0, 11, 15, 8, 1 }, { 10, 7, 12, 9, 14, 3, 13, 15, 4, 0, 11, 2, 5, 8, 1, 6 },
  { 12, 13, 9, 11, 15, 10, 14, 8, 7, 2, 5, 3, 0, 1, 6, 4 }, { 9, 14, 11, 5, 8, 12, 15, 1, 13, 3, 0, 10, 2, 6, 4, 7 },
  { 11, 15, 5, 0, 1, 9, 8, 6, 14, 10, 2, 12, 3, 4, 7, 13 },
};

static inline guint32
rotate (guint32 x, guint n)
{
  return x >> n | x << (32 - n);
}

static inline void
mix (guint32 *v, guint a, guint b, guint c, guint d, guint32 x, guint32 y)
{
  v[a] += v[b] + x;
  v[d] = rotate (v[d] ^ v[a], 16);
  v[c] += v[d];
  v[b] = rotate (v[b] ^ v[c], 12);
  v[a] += v[b] + y;
  v[d] = rotate (v[d] ^ v[a], 8);
  v[c] += v[d];
  v[b] = rotate (v[b] ^ v[c], 7);
}

/* The state of a chunk or of a node: @value goes in and becomes the chaining value (of the root: the digest's words). */
static void
compress (guint32 *value, const guint8 *block, guint32 len, guint64 counter, guint32 flags)
{
  guint32 v[16], m[16];

  for (guint i = 0; i < 16; i++)
    {
      memcpy (&m[i], block + 4 * i, 4);
      m[i] = GUINT32_FROM_LE (m[i]);
    }
  memcpy (v, value, 32);
  memcpy (v + 8, initial, 16);
  v[12] = (guint32)counter;
  v[13] = (guint32)(counter >> 32);
  v[14] = len;
  v[15] = flags;
  for (guint round = 0; round < ROUNDS; round++)
    {
      const guint8 *s = order[round];
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
    value[i] = v[i] ^ v[i + 8];
}

/* The node over two chaining values; it comes out in @left. */
static void
join (guint32 *left, const guint32 *right, guint32 flags)
{
  guint8 block[BLOCK];

  for (guint i = 0; i < 8; i++)
    {
      const guint32 a = GUINT32_TO_LE (left[i]), b = GUINT32_TO_LE (right[i]);
      memcpy (block + 4 * i, &a, 4);
      memcpy (block + 32 + 4 * i, &b, 4);
    }
  memcpy (left, initial, 32);
  compress (left, block, BLOCK, 0, PARENT | flags);
}

void
lmt_blake3_init (LmtBlake3 *state)
{
  memset (state, 0, sizeof *state);
  memcpy (state->value, initial, 32);
}

static inline guint32
start_flag (const LmtBlake3 *state)
{
  return state->chunk_len <= BLOCK ? CHUNK_START : 0;
}

/* The chunk is complete and isn't the last one: its value joins the subtrees of equal size that wait. */
static void
end_chunk (LmtBlake3 *state)
{
  guint32 value[8];

  compress (state->value, state->block, BLOCK, state->chunks, start_flag (state) | CHUNK_END);
  memcpy (value, state->value, 32);
  state->chunks++;
  for (guint64 total = state->chunks; (total & 1) == 0; total >>= 1)
    {
      guint32 *left = state->waiting[--state->n_waiting];
      join (left, value, 0);
      memcpy (value, left, 32);
    }
  memcpy (state->waiting[state->n_waiting++], value, 32);
  memcpy (state->value, initial, 32);
  state->chunk_len = 0;
  state->block_len = 0;
}

/* A block is hashed when a byte after it comes: the last one of a chunk or of all needs its flags. */
void
lmt_blake3_update (LmtBlake3 *state, gconstpointer data, gsize len)
{
  const guint8 *p = data;

  while (len > 0)
    {
      if (state->block_len == BLOCK && state->chunk_len == CHUNK)
        end_chunk (state);
      else if (state->block_len == BLOCK)
        {
          compress (state->value, state->block, BLOCK, state->chunks, start_flag (state));
          state->block_len = 0;
        }
      const gsize n = MIN (len, (gsize)(BLOCK - state->block_len));
      memcpy (state->block + state->block_len, p, n);
      state->block_len += (guint32)n;
      state->chunk_len += (guint32)n;
      p += n;
      len -= n;
    }
}

void
lmt_blake3_final (LmtBlake3 *state, guint8 *digest)
{
  const guint32 root = state->n_waiting == 0 ? ROOT : 0;

  memset (state->block + state->block_len, 0, BLOCK - state->block_len);
  compress (state->value, state->block, state->block_len, state->chunks, start_flag (state) | CHUNK_END | root);
  while (state->n_waiting > 0)
    {
      guint32 *left = state->waiting[--state->n_waiting];
      join (left, state->value, state->n_waiting == 0 ? ROOT : 0);
      memcpy (state->value, left, 32);
    }
  for (guint i = 0; i < 8; i++)
    {
      const guint32 word = GUINT32_TO_LE (state->value[i]);
      memcpy (digest + 4 * i, &word, 4);
    }
}

void
lmt_blake3 (gconstpointer data, gsize len, guint8 *digest)
{
  LmtBlake3 state;

  g_return_if_fail (digest != NULL && (data != NULL || len == 0));
  lmt_blake3_init (&state);
  lmt_blake3_update (&state, data, len);
  lmt_blake3_final (&state, digest);
}
