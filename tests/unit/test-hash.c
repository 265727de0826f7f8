/* SPDX-License-Identifier: Apache-2.0 */

/* BLAKE2b and BLAKE3 against what Python's hashlib and the package blake3 1.0.11 give for the same bytes. */
#include <lmtrace/lmt-hash.h>
#include <lmtrace/lmt-plugin.h>

typedef struct
{
  guint len;
  guint digest_len;
  const char *hex;
} Vector;

/* hashlib.blake2b (bytes ((i * 7 + 3) % 251 for i in range (len)), digest_size = digest_len).hexdigest () */
static const Vector vectors[] = {
  { 0, 8, "e4a6a0577479b2b4" },
  { 1, 8, "c2fb54d88374033e" },
  { 8, 8, "77b60d9d3e1fe9c3" },
  { 95, 8, "4934bb32a15b6260" },
  { 127, 8, "1b506f0bd80f90a4" },
  { 128, 8, "ad31abc8acc254e1" },
  { 129, 8, "d0d8cd6315eea104" },
  { 256, 8, "3ef52bf15fcc751d" },
  { 257, 8, "6976035df9695ae4" },
  { 1000, 8, "92d266ae17061ac0" },
  { 0, 64,
    "786a02f742015903c6c6fd852552d272912f4740e15847618a86e217f71f5419d25e1031afee585313896444934eb04b903a685b1448b755d56f701afe9b"
    "e2ce" },
  { 128, 64,
    "a4d40e9fac2f4491cc7c048202589a43de09be6e0a9e16efe8765eb2fe2c9395d27417f6e21256f26d90a1315d76e51db0045e934a29c8dae2150a4484ad"
    "5d87" },
  { 1000, 64,
    "4f7c042aaed7f13a9c87a6ad31816ecdd9a19bf5568d552cc9753fa5e68ed99273a7aa4990c1f462cc2b4b740e170b97820551eef6d2f8aa21401ce8c3f6"
    "7ee7" },
  { 300, 1, "67" },
  { 300, 20, "210f4ff13c7523b2bb02946960e7514f5ab19c11" },
  { 300, 32, "2a1f9bdd06ae55566a3806a58734096c60fa91196180a27ce8c50d4581caa72a" },
};

static void
fill (guint8 *data, guint n)
{
  for (guint i = 0; i < n; i++)
    data[i] = (guint8)((i * 7 + 3) % 251);
}

static void
assert_digest (const void *data, gsize len, guint digest_len, const char *expected)
{
  guint8 digest[80];
  GString *hex = g_string_new (NULL);
  memset (digest, 0xa5, sizeof digest);
  lmt_blake2b (data, len, digest, digest_len);
  for (guint i = 0; i < digest_len; i++)
    g_string_append_printf (hex, "%02x", digest[i]);
  g_assert_cmpstr (hex->str, ==, expected);
  for (guint i = digest_len; i < sizeof digest; i++)
    g_assert_cmpuint (digest[i], ==, 0xa5);
  g_string_free (hex, TRUE);
}

static void
test_vectors (void)
{
  guint8 data[1000];
  fill (data, sizeof data);
  for (guint i = 0; i < G_N_ELEMENTS (vectors); i++)
    assert_digest (data, vectors[i].len, vectors[i].digest_len, vectors[i].hex);
  assert_digest (NULL, 0, 8, vectors[0].hex);
  /* RFC 7693, appendix A */
  assert_digest ("abc", 3, 64,
                 "ba80a53f981c4d0d6a2797b69f12f6e94c212f14685ac4b74b12bb6fdbffa2d1"
                 "7d87c5392aab792dc252d5de4533cc9518d38aa8dbf1925ab92386edd4009923");
}

/* Every length around the blocks: each digest goes in front of the next message. */
static void
test_chain (void)
{
  static const guint sizes[] = { 1, 8, 20, 32, 64 };
  guint8 message[64 + 400], chain[64], data[400];
  guint n_chain = 0;
  fill (data, sizeof data);
  for (guint s = 0; s < G_N_ELEMENTS (sizes); s++)
    for (guint n = 0; n < 400; n++)
      {
        memcpy (message, chain, n_chain);
        memcpy (message + n_chain, data, n);
        lmt_blake2b (message, n_chain + n, chain, sizes[s]);
        n_chain = sizes[s];
      }
  GString *hex = g_string_new (NULL);
  for (guint i = 0; i < n_chain; i++)
    g_string_append_printf (hex, "%02x", chain[i]);
  g_assert_cmpstr (hex->str, ==,
                   "3cb709db40304580b26973e6f961f81fdc9d79838a2a0267be68850236936c57"
                   "e50b1002363b05a376d914433144644e895668f8ee1cbdb78357518401ae5ae0");
  g_string_free (hex, TRUE);
}

/* The official vectors' bytes: i % 251 for i in range (len). */
typedef struct
{
  guint len;
  const char *hex;
} Blake3;

static const Blake3 blake3_vectors[] = {
  { 0, "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262" },
  { 1, "2d3adedff11b61f14c886e35afa036736dcd87a74d27b5c1510225d0f592e213" },
  { 2, "7b7015bb92cf0b318037702a6cdd81dee41224f734684c2c122cd6359cb1ee63" },
  { 63, "e9bc37a594daad83be9470df7f7b3798297c3d834ce80ba85d6e207627b7db7b" },
  { 64, "4eed7141ea4a5cd4b788606bd23f46e212af9cacebacdc7d1f4c6dc7f2511b98" },
  { 65, "de1e5fa0be70df6d2be8fffd0e99ceaa8eb6e8c93a63f2d8d1c30ecb6b263dee" },
  { 127, "d81293fda863f008c09e92fc382a81f5a0b4a1251cba1634016a0f86a6bd640d" },
  { 128, "f17e570564b26578c33bb7f44643f539624b05df1a76c81f30acd548c44b45ef" },
  { 129, "683aaae9f3c5ba37eaaf072aed0f9e30bac0865137bae68b1fde4ca2aebdcb12" },
  { 1023, "10108970eeda3eb932baac1428c7a2163b0e924c9a9e25b35bba72b28f70bd11" },
  { 1024, "42214739f095a406f3fc83deb889744ac00df831c10daa55189b5d121c855af7" },
  { 1025, "d00278ae47eb27b34faecf67b4fe263f82d5412916c1ffd97c8cb7fb814b8444" },
  { 1056, "f39a7f8fb475179c56b67e11bd2a5896f33110b3ed2f430163990e27abaa3c13" },
  { 2048, "e776b6028c7cd22a4d0ba182a8bf62205d2ef576467e838ed6f2529b85fba24a" },
  { 2049, "5f4d72f40d7a5f82b15ca2b2e44b1de3c2ef86c426c95c1af0b6879522563030" },
  { 3072, "b98cb0ff3623be03326b373de6b9095218513e64f1ee2edd2525c7ad1e5cffd2" },
  { 3073, "7124b49501012f81cc7f11ca069ec9226cecb8a2c850cfe644e327d22d3e1cd3" },
  { 4096, "015094013f57a5277b59d8475c0501042c0b642e531b0a1c8f58d2163229e969" },
  { 4097, "9b4052b38f1c5fc8b1f9ff7ac7b27cd242487b3d890d15c96a1c25b8aa0fb995" },
  { 5120, "9cadc15fed8b5d854562b26a9536d9707cadeda9b143978f319ab34230535833" },
  { 8192, "aae792484c8efe4f19e2ca7d371d8c467ffb10748d8a5a1ae579948f718a2a63" },
  { 8193, "bab6c09cb8ce8cf459261398d2e7aef35700bf488116ceb94a36d0f5f1b7bc3b" },
  { 16384, "f875d6646de28985646f34ee13be9a576fd515f76b5b0a26bb324735041ddde4" },
  { 31744, "62b6960e1a44bcc1eb1a611a8d6235b6b4b78f32e7abc4fb4c6cdcce94895c47" },
  { 102400, "bc3e3d41a1146b069abffad3c0d44860cf664390afce4d9661f7902e7943e085" },
};

static void
assert_blake3 (const guint8 *digest, const char *expected)
{
  char hex[65];
  for (guint i = 0; i < 32; i++)
    g_snprintf (hex + 2 * i, 3, "%02x", digest[i]);
  g_assert_cmpstr (hex, ==, expected);
}

static guint8 *
blake3_bytes (gsize len)
{
  guint8 *data = g_malloc (len + 1);
  for (gsize i = 0; i < len; i++)
    data[i] = (guint8)(i % 251);
  return data;
}

/* Whole, and in pieces of odd sizes that end before, at and after blocks and chunks. */
static void
test_blake3_vectors (void)
{
  static const gsize pieces[] = { 1, 63, 64, 65, 1000, 1024, 1025, 5000 };
  guint8 digest[40];
  g_autofree guint8 *data = blake3_bytes (102400);

  for (guint i = 0; i < G_N_ELEMENTS (blake3_vectors); i++)
    {
      const gsize len = blake3_vectors[i].len;
      memset (digest, 0xa5, sizeof digest);
      lmt_blake3 (len > 0 ? data : NULL, len, digest);
      assert_blake3 (digest, blake3_vectors[i].hex);
      for (guint j = 32; j < sizeof digest; j++)
        g_assert_cmpuint (digest[j], ==, 0xa5);
      for (guint p = 0; p < G_N_ELEMENTS (pieces); p++)
        {
          LmtBlake3 state;
          lmt_blake3_init (&state);
          for (gsize at = 0; at < len; at += pieces[p])
            lmt_blake3_update (&state, data + at, MIN (pieces[p], len - at));
          lmt_blake3_final (&state, digest);
          assert_blake3 (digest, blake3_vectors[i].hex);
        }
    }
}

/* Every 13th length up to five chunks: each digest goes in front of the next message. */
static void
test_blake3_chain (void)
{
  guint8 digest[32];
  g_autofree guint8 *data = blake3_bytes (8192);

  for (gsize n = 0; n < 5200; n += 13)
    {
      LmtBlake3 state;
      lmt_blake3_init (&state);
      if (n > 0)
        lmt_blake3_update (&state, digest, 32);
      lmt_blake3_update (&state, data, n);
      lmt_blake3_final (&state, digest);
    }
  assert_blake3 (digest, "e20380946762920ff0c7665dec5c9e66ddeea4a2e0eaf8315df8b169a688dca9");
}

/* What LMCache 0.5.6 named six chunks of 16 tokens (golden events, tokens.hashes.json). */
static const guint32 chunk_tokens[]
    = { 11,    21,    45,    83,    135,   201,   281,   375,   483,   605,   741,   891,   1055,  1233,  1425,  1631,  1851,
        2085,  2333,  2595,  2871,  3161,  3465,  3783,  4115,  4461,  4821,  5195,  5583,  5985,  6401,  6831,  7275,  7733,
        8205,  8691,  9191,  9705,  10233, 10775, 11331, 11901, 12485, 13083, 13695, 14321, 14961, 15615, 16283, 16965, 17661,
        18371, 19095, 19833, 20585, 21351, 22131, 22925, 23733, 24555, 25391, 26241, 27105, 27983, 28875, 29781, 30701, 31635,
        32583, 33545, 34521, 35511, 36515, 37533, 38565, 39611, 40671, 41745, 42833, 43935, 45051, 46181, 47325, 48483, 49655,
        841,   2041,  3255,  4483,  5725,  6981,  8251,  9535,  10833, 12145, 13471, 14811, 16165, 17533, 18915, 20311 };
static const char *const chunk_hashes[] = {
  "cd23e93a0f7d222c8c92a64378052bc0b38476df1c0bfd8d2aa4e371d97fac0e",
  "df2b42545c5cf4c860c673645b8d4ecd8c828dc805f0d84c99fe1fe795cc32a6",
  "91a5257d6d3b23593f9badfebee9417f7af6ab455582ff0b2d7019776cbb7f68",
  "8b0a783df1b44d13995a793f820aaf78b263665dbf6ac8332fc59109f069d49f",
  "5ba940d03ce0651db02dbb680fa9ab4e5ac2c631b170b5f3a5c502295a5c11e1",
  "510a0209ea65b7bb8f733eebffe5ddf0aa1c3de11bf0b506e93efeb94e5a18a2",
};

static void
test_blake3_chunks (void)
{
  guint8 digest[32];
  const guint8 none[12] = { 0 };

  lmt_blake3 (none, sizeof none, digest);
  assert_blake3 (digest, "7e3eff9ef7613a50340eb12677ee03b83ac759fcba9bb32705f07248d56d473b");
  for (guint c = 0; c < G_N_ELEMENTS (chunk_hashes); c++)
    {
      LmtBlake3 state;
      lmt_blake3_init (&state);
      lmt_blake3_update (&state, digest, 32);
      for (guint i = 0; i < 16; i++)
        {
          const guint32 token = GUINT32_TO_BE (chunk_tokens[16 * c + i]);
          lmt_blake3_update (&state, &token, 4);
        }
      lmt_blake3_final (&state, digest);
      assert_blake3 (digest, chunk_hashes[c]);
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/hash/blake2b/vectors", test_vectors);
  g_test_add_func ("/hash/blake2b/chain", test_chain);
  g_test_add_func ("/hash/blake3/vectors", test_blake3_vectors);
  g_test_add_func ("/hash/blake3/chain", test_blake3_chain);
  g_test_add_func ("/hash/blake3/chunks", test_blake3_chunks);
  return g_test_run ();
}
