/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include <lmtrace/lmt-hash.h>
#include <lmtrace/lmt-json.h>
#include <lmtrace/lmt-key.h>

static LmtKeyFields
fields_make (const char *model, guint64 rank, guint32 group, const void *hash, gsize hash_len, const char *salt)
{
  return (LmtKeyFields){ .struct_size = sizeof (LmtKeyFields),
                         .group = group,
                         .rank = rank,
                         .hash = hash,
                         .hash_len = (guint32)hash_len,
                         .model = model,
                         .model_len = (guint32)strlen (model),
                         .salt = salt,
                         .salt_len = (guint32)strlen (salt) };
}

static void
test_intern_identity (void)
{
  g_autoptr (LmtKeyTable) table = lmt_key_table_new ();
  LmtKeyFields a = fields_make ("m", 16777472, 0, "\xaa\x01", 2, "");
  LmtKeyFields variants[] = {
    fields_make ("n", 16777472, 0, "\xaa\x01", 2, ""), fields_make ("m", 1, 0, "\xaa\x01", 2, ""),
    fields_make ("m", 16777472, 1, "\xaa\x01", 2, ""), fields_make ("m", 16777472, 0, "\xaa\x02", 2, ""),
    fields_make ("m", 16777472, 0, "\xaa", 1, ""),     fields_make ("m", 16777472, 0, "\xaa\x01", 2, "u"),
  };
  LmtKey *key = lmt_key_table_intern (table, &a);
  LmtKey *again = lmt_key_table_intern (table, &a);

  g_assert_true (key == again);
  g_assert_cmpuint (key->refs, ==, 2);
  for (guint i = 0; i < G_N_ELEMENTS (variants); i++)
    {
      g_assert_null (lmt_key_table_lookup (table, &variants[i]));
      LmtKey *other = lmt_key_table_intern (table, &variants[i]);
      g_assert_true (other != key);
      g_assert_cmpuint (other->id, ==, i + 1);
    }
  lmt_key_unref (table, again);
  g_assert_true (lmt_key_table_lookup (table, &a) == key);
  lmt_key_unref (table, key);
  g_assert_null (lmt_key_table_lookup (table, &a));
  g_assert_cmpuint (lmt_key_table_size (table), ==, G_N_ELEMENTS (variants));
}

/* A random walk against GHashTable: the same keys live, ids stay dense. */
static void
test_intern_walk (void)
{
  g_autoptr (LmtKeyTable) table = lmt_key_table_new ();
  g_autoptr (GHashTable) model = g_hash_table_new (g_direct_hash, g_direct_equal);
  guint64 seed = 7;
  guint most = 0;

  for (guint step = 0; step < 200000; step++)
    {
      guint32 n = (guint32)(lmt_mix64 (seed + step) % 5000) + 1;
      char salt[2] = { (char)('a' + n % 3), 0 };
      LmtKeyFields f = fields_make (n % 2 != 0 ? "odd/model" : "even", n % 7, n % 5, &n, sizeof n, n % 4 == 0 ? "" : salt);
      LmtKey *live = g_hash_table_lookup (model, GUINT_TO_POINTER (n));

      g_assert_true (lmt_key_table_lookup (table, &f) == live);
      if (live == NULL)
        g_hash_table_insert (model, GUINT_TO_POINTER (n), lmt_key_table_intern (table, &f));
      else
        {
          g_assert_cmpmem (live->fields.hash, live->fields.hash_len, &n, sizeof n);
          g_hash_table_remove (model, GUINT_TO_POINTER (n));
          lmt_key_unref (table, live);
        }
      g_assert_cmpuint (lmt_key_table_size (table), ==, g_hash_table_size (model));
      most = MAX (most, g_hash_table_size (model));
    }
  g_assert_cmpuint (lmt_key_table_capacity (table), ==, most);
}

static void
test_long_hash (void)
{
  g_autoptr (LmtKeyTable) table = lmt_key_table_new ();
  guint8 hash[1000];

  memset (hash, 0x5a, sizeof hash);
  for (guint len = 0; len <= sizeof hash; len += 37)
    {
      LmtKeyFields f = fields_make ("m", 1, 0, hash, len, "");
      LmtKey *key = lmt_key_table_intern (table, &f);
      g_assert_cmpmem (key->fields.hash, key->fields.hash_len, hash, len);
      g_assert_cmpuint (strlen (lmt_key_wire (key)), ==, lmt_key_wire_len (key));
      g_assert_cmpuint (lmt_key_wire_len (key), ==, strlen ("m@00000001@0@") + 2 * len);
      lmt_key_unref (table, key);
    }
}

static void
test_salts (void)
{
  g_autoptr (LmtKeyTable) table = lmt_key_table_new ();
  LmtKeyFields a = fields_make ("m", 1, 0, "h", 1, "tenant");
  LmtKey *key = lmt_key_table_intern (table, &a);
  guint32 salt = key->salt;

  g_assert_cmpuint (salt, !=, 0);
  g_assert_cmpstr (lmt_key_table_salt (table, salt), ==, "tenant");
  g_assert_cmpuint (lmt_key_table_intern_salt (table, "tenant", 6), ==, salt);
  lmt_key_unref (table, key);
  g_assert_cmpstr (lmt_key_table_salt (table, salt), ==, "tenant");
  g_assert_cmpuint (lmt_key_table_intern_salt (table, "", 0), ==, 0);
}

static void
test_check (void)
{
  static const struct
  {
    const char *model, *salt;
    gsize salt_len;
    const char *why;
  } rows[] = {
    { "a/b-1.0", "", 0, NULL },
    { "", "", 0, NULL },
    { "a@b", "", 0, "model_name contains @" },
    { "m", "a@b", 3, "cache_salt contains @" },
    { "m", "a/b", 3, "cache_salt contains /" },
    { "m", "a\\b", 3, "cache_salt contains \\" },
    { "m", "a\0b", 3, "cache_salt contains NUL" },
  };
  g_autofree char *wide = g_strnfill (128 * 2, 'x');

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      LmtKeyFields f = fields_make (rows[i].model, 0, 0, "h", 1, "");
      f.salt = rows[i].salt;
      f.salt_len = (guint32)rows[i].salt_len;
      g_assert_cmpstr (lmt_key_fields_check (&f), ==, rows[i].why);
    }
  for (guint i = 0; i < 128; i++)
    memcpy (wide + 2 * i, "\xc3\xa9", 2); /* 128 characters, 256 bytes */
  LmtKeyFields f = fields_make ("m", 0, 0, "h", 1, "");
  f.salt = wide;
  f.salt_len = 256;
  g_assert_null (lmt_key_fields_check (&f));
  g_autofree char *longer = g_strconcat (wide, "x", NULL);
  longer[256] = 'x';
  f.salt = longer;
  f.salt_len = 257;
  g_assert_cmpstr (lmt_key_fields_check (&f), ==, "cache_salt is longer than 128 characters");
}

static void
test_fill (void)
{
  guint8 bytes[41];

  lmt_fill (1, bytes, 8);
  g_assert_cmpmem (bytes, 8, "\xc1\x5c\x02\x89\xec\x2d\x0a\x91", 8); /* l2-adapters.md 1 */
  for (gsize size = 0; size <= sizeof bytes; size++)
    {
      lmt_fill (99, bytes, size);
      g_assert_cmpint (lmt_fill_check (99, bytes, size), ==, -1);
      for (gsize at = 0; at < size; at++)
        {
          bytes[at] ^= 1;
          g_assert_cmpint (lmt_fill_check (99, bytes, size), ==, (gint64)at);
          bytes[at] ^= 1;
        }
    }
}

static char *
hex_decode (const char *hex, gsize *len)
{
  *len = strlen (hex) / 2;
  char *out = g_malloc (*len + 1);
  for (gsize i = 0; i < *len; i++)
    out[i] = (char)(g_ascii_xdigit_value (hex[2 * i]) << 4 | g_ascii_xdigit_value (hex[2 * i + 1]));
  out[*len] = '\0';
  return out;
}

static void
test_golden_names (void)
{
  g_autofree char *path = g_build_filename (g_getenv ("LMT_TEST_DATA"), "l2", "names.json", NULL);
  g_autofree char *text = NULL;
  g_autoptr (GError) error = NULL;
  gsize len;

  g_assert_true (g_file_get_contents (path, &text, &len, &error));
  g_autoptr (LmtJson) root = lmt_json_parse (text, (gssize)len, &error);
  g_assert_no_error (error);
  const LmtJson *encode = lmt_json_get_member (root, "encode");
  for (guint i = 0; i < lmt_json_get_length (encode); i++)
    {
      const LmtJson *row = lmt_json_get_element (encode, i), *key = lmt_json_get_member (row, "key");
      const LmtJson *salt = lmt_json_get_member (key, "cache_salt");
      gsize hash_len;
      g_autofree char *hash = hex_decode (lmt_json_get_string (lmt_json_get_member (key, "chunk_hash")), &hash_len);
      LmtKeyFields f = fields_make (
          lmt_json_get_string (lmt_json_get_member (key, "model_name")), lmt_json_get_uint (lmt_json_get_member (key, "kv_rank")),
          (guint32)lmt_json_get_uint (lmt_json_get_member (key, "object_group_id")), hash, hash_len, lmt_json_get_string (salt));
      g_autoptr (GString) out = g_string_new (NULL);
      LmtKeyOwned back;

      lmt_key_fields_file (&f, out);
      g_assert_cmpstr (out->str, ==, lmt_json_get_string (lmt_json_get_member (row, "file")));
      gboolean same = lmt_key_from_file (out->str, out->len, &back) && back.fields.model_len == f.model_len
                      && memcmp (back.fields.model, f.model, f.model_len) == 0;
      g_assert_cmpint (same, ==, lmt_json_get_bool (lmt_json_get_member (row, "decodes_to_same")));
      lmt_key_owned_clear (&back);
      lmt_key_fields_wire (&f, out);
      g_assert_cmpstr (out->str, ==, lmt_json_get_string (lmt_json_get_member (row, "wire")));
      g_assert_true (lmt_key_from_wire (out->str, out->len, &back));
      lmt_key_owned_clear (&back);
      g_assert_true (lmt_key_from_wire (out->str, -1, &back));
      g_assert_cmpmem (back.fields.hash, back.fields.hash_len, hash, hash_len);
      lmt_key_owned_clear (&back);
    }
  const LmtJson *decode = lmt_json_get_member (root, "decode");
  for (guint i = 0; i < lmt_json_get_length (decode); i++)
    {
      const LmtJson *row = lmt_json_get_element (decode, i), *file = lmt_json_get_member (row, "file");
      LmtKeyOwned owned;
      gboolean taken = lmt_key_from_file (lmt_json_get_string (file), lmt_json_get_string_len (file), &owned);
      g_assert_cmpint (taken, ==, lmt_json_get_bool (lmt_json_get_member (row, "lmtrace_accepts")));
      if (taken)
        lmt_key_owned_clear (&owned);
    }
  g_assert_cmpuint (lmt_json_get_length (encode) + lmt_json_get_length (decode), >, 40);
}

/* A list at once: the same keys as one after the other, also where names change and keys repeat inside it. */
static void
test_many (void)
{
  enum
  {
    N = 100
  };
  g_autoptr (LmtKeyTable) table = lmt_key_table_new ();
  LmtKeyFields fields[N];
  guint8 hashes[N][32] = { 0 };
  LmtKey *many[N], *single[N];

  for (guint i = 0; i < N; i++)
    {
      hashes[i][0] = (guint8)(i / 2);
      fields[i] = (LmtKeyFields){ .struct_size = sizeof *fields,
                                  .hash = hashes[i],
                                  .hash_len = 32,
                                  .model = i % 20 == 3 ? "other" : "model",
                                  .model_len = 5,
                                  .salt = "salt",
                                  .salt_len = i % 7 == 0 ? 4 : 0 };
    }
  for (guint round = 0; round < 2; round++)
    {
      lmt_key_table_intern_many (table, fields, N, many);
      for (guint i = 0; i < N; i++)
        {
          single[i] = lmt_key_table_intern (table, &fields[i]);
          g_assert_true (single[i] == many[i]);
          g_assert_cmpmem (many[i]->fields.model, many[i]->fields.model_len, fields[i].model, 5);
        }
      for (guint i = 0; i < N; i++)
        {
          lmt_key_unref (table, many[i]);
          lmt_key_unref (table, single[i]);
        }
      g_assert_cmpuint (lmt_key_table_size (table), ==, 0);
    }
  lmt_key_table_intern_many (table, NULL, 0, NULL);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/key/intern/identity", test_intern_identity);
  g_test_add_func ("/key/intern/walk", test_intern_walk);
  g_test_add_func ("/key/long-hash", test_long_hash);
  g_test_add_func ("/key/salts", test_salts);
  g_test_add_func ("/key/check", test_check);
  g_test_add_func ("/key/fill", test_fill);
  g_test_add_func ("/key/golden-names", test_golden_names);
  g_test_add_func ("/key/many", test_many);
  return g_test_run ();
}
