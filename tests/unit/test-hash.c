/* SPDX-License-Identifier: Apache-2.0 */

/* BLAKE2b against what Python's hashlib gives for the same bytes. */
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

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/hash/blake2b/vectors", test_vectors);
  g_test_add_func ("/hash/blake2b/chain", test_chain);
  return g_test_run ();
}
