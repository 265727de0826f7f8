/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

G_BEGIN_DECLS

/**
 * SECTION: mixing and hashing, and the test pattern of objects. Pure functions: any thread, no allocation, nothing kept.
 *
 * Since: 0.1
 */

/* SplitMix64's finaliser. */
static inline guint64
lmt_mix64 (guint64 z)
{
  z ^= z >> 30;
  z *= G_GUINT64_CONSTANT (0xBF58476D1CE4E5B9);
  z ^= z >> 27;
  z *= G_GUINT64_CONSTANT (0x94D049BB133111EB);
  return z ^ (z >> 31);
}

/* A fast keyed hash of bytes for tables (not cryptographic; the seed is drawn once a process, so a file can't aim at it). */
guint64 lmt_hash_bytes (gconstpointer data, gsize len, guint64 seed);
guint64 lmt_hash_seed (void);

/* The content of test objects: word w (from 0) of 8 bytes, little endian, is lmt_mix64 (@seed + (w + 1) * 0x9E3779B97F4A7C15),
 * the last word cut. fill (1, 8) = c1 5c 02 89 ec 2d 0a 91. lmt_fill_check: offset of the first byte that differs, or -1. */
void lmt_fill (guint64 seed, gpointer data, gsize size);
gint64 lmt_fill_check (guint64 seed, gconstpointer data, gsize size);
/* Seed of a key's pattern: first 8 bytes, little endian, of SHA-256 of its wire key (cli.md 3.1 --payload). */
guint64 lmt_fill_seed_for_wire_key (const char *wire, gsize len);

/* BLAKE2b (RFC 7693) without key, @digest_len of 1 to 64 bytes. */
void lmt_blake2b (gconstpointer data, gsize len, guint8 *digest, gsize digest_len);

/* BLAKE3, plain hash, 32 bytes (events.md 10: chunks of tokens). In pieces: init, any number of updates, final; a plain struct
 * that may be copied in between, and after final takes no more but an init. One thread a state. */
typedef struct
{
  guint32 value[8];
  guint64 chunks;
  guint32 chunk_len;
  guint32 block_len;
  guint32 n_waiting;
  guint32 reserved;
  guint32 waiting[54][8]; /* 2^54 chunks are 2^64 bytes */
  guint8 block[64];
} LmtBlake3;
void lmt_blake3_init (LmtBlake3 *state);
void lmt_blake3_update (LmtBlake3 *state, gconstpointer data, gsize len);
void lmt_blake3_final (LmtBlake3 *state, guint8 *digest);
void lmt_blake3 (gconstpointer data, gsize len, guint8 *digest);

G_END_DECLS
