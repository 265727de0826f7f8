/* SPDX-License-Identifier: Apache-2.0 */

/* Directories as LMCache left them: read, and written anew byte for byte. */
#include <glib/gstdio.h>
#include <sys/stat.h>

#include "l2-rig.h"

static char *
golden_path (const char *name, const char *below)
{
  return g_build_filename (g_getenv ("LMT_TEST_DATA"), "l2", "fs", name, below, NULL);
}

/* A writable copy of a case's data folder; folders in it become folders. */
static char *
copy_data (const char *name)
{
  g_autofree char *from = golden_path (name, "data");
  char *to = make_temp_dir ();
  g_autoptr (GDir) dir = g_dir_open (from, 0, NULL);
  const char *entry;
  g_assert_nonnull (dir);
  while ((entry = g_dir_read_name (dir)) != NULL)
    {
      g_autofree char *source = g_build_filename (from, entry, NULL), *target = g_build_filename (to, entry, NULL), *text = NULL;
      gsize n;
      if (g_file_test (source, G_FILE_TEST_IS_DIR))
        g_assert_cmpint (g_mkdir (target, 0755), ==, 0);
      else
        {
          g_assert_true (g_file_get_contents (source, &text, &n, NULL));
          g_assert_true (g_file_set_contents_full (target, text, (gssize)n, G_FILE_SET_CONTENTS_NONE, 0644, NULL));
        }
    }
  return to;
}

static char *
sha_of_file (const char *path)
{
  g_autofree char *text = NULL;
  gsize n;
  g_assert_true (g_file_get_contents (path, &text, &n, NULL));
  return g_compute_checksum_for_data (G_CHECKSUM_SHA256, (const guchar *)text, n);
}

static LmtJson *
read_case (const char *name)
{
  g_autofree char *file = g_strconcat (name, ".json", NULL);
  return read_json ("l2", "fs", name, file, NULL);
}

/* Objects whose key shares its file with another model's: never ours to read. */
static gboolean
is_ambiguous (const LmtJson *object)
{
  return strstr (get_text (lmt_json_get_member (object, "key"), "model_name"), "-SEP-") != NULL;
}

static gboolean
was_stored (const LmtJson *object)
{
  const LmtJson *exists = lmt_json_get_member (object, "exists");
  return exists != NULL && lmt_json_get_bool (exists);
}

static void
test_read (gconstpointer data)
{
  const char *name = data;
  g_autoptr (LmtJson) json = read_case (name);
  g_autofree char *dir = copy_data (name);
  const LmtJson *objects = lmt_json_get_member (json, "objects");
  Rig rig;
  guint64 total = 0;
  rig_open (&rig, "{\"type\":\"fs\",\"base_path\":\"%s\"}", dir);
  for (guint i = 0; i < lmt_json_get_length (objects); i++)
    {
      const LmtJson *object = lmt_json_get_element (objects, i);
      LmtKey *key = rig_key_of_json (&rig, lmt_json_get_member (object, "key"));
      guint64 size = get_number (object, "size"), seed = get_number (object, "seed");
      gboolean there = was_stored (object);
      LmtL2Code expected = is_ambiguous (object) || get_number (object, "file_bytes") > 255 ? LMT_L2_UNSUPPORTED
                           : there                                                          ? LMT_L2_OK
                                                                                            : LMT_L2_NOT_FOUND;
      g_assert_cmpstr (lmt_key_file (key), ==, get_text (object, "file"));
      g_assert_cmpstr (lmt_key_wire (key), ==, get_text (object, "wire_key"));
      g_assert_cmpint (rig_lookup (&rig, key, size), ==, expected);
      g_assert_cmpint (rig_load_fill (&rig, key, seed, size), ==, expected);
      g_assert_cmpint (rig_store_fill (&rig, key, seed, size), ==, expected == LMT_L2_OK ? LMT_L2_PRESENT : expected);
      total += expected == LMT_L2_OK ? size : 0;
    }
  g_assert_cmpuint (lmt_l2_get_used (rig.l2), ==, total);
  rig_close (&rig);
  remove_tree (dir);
}

/* Written by us: the same names, the same bytes, mode 0644. */
static void
test_write (gconstpointer data)
{
  const char *name = data;
  g_autoptr (LmtJson) json = read_case (name);
  g_autofree char *dir = make_temp_dir ();
  g_autofree char *options = lmt_json_to_text (lmt_json_get_member (json, "options"), LMT_JSON_STYLE_COMPACT, FALSE);
  const LmtJson *objects = lmt_json_get_member (json, "objects");
  gboolean has_options = strlen (options) > 2;
  guint n = 0;
  Rig rig;
  rig_open (&rig, "{\"type\":\"fs\",\"base_path\":\"%s\"%s%.*s}", dir, has_options ? "," : "", (int)strlen (options) - 2,
            options + 1);
  for (guint i = 0; i < lmt_json_get_length (objects); i++)
    {
      const LmtJson *object = lmt_json_get_element (objects, i);
      LmtKey *key = rig_key_of_json (&rig, lmt_json_get_member (object, "key"));
      LmtL2Code code = rig_store_fill (&rig, key, get_number (object, "seed"), get_number (object, "size"));
      if (is_ambiguous (object) || get_number (object, "file_bytes") > 255)
        {
          g_assert_cmpint (code, ==, LMT_L2_UNSUPPORTED);
          continue;
        }
      g_assert_cmpint (code, ==, LMT_L2_OK);
      g_autofree char *path = g_build_filename (dir, get_text (object, "file"), NULL);
      g_autofree char *sha = sha_of_file (path);
      struct stat st;
      g_assert_cmpstr (sha, ==, get_text (object, "sha256_stored"));
      g_assert_cmpint (stat (path, &st), ==, 0);
      g_assert_cmpuint (st.st_mode & 07777, ==, 0644);
      n++;
    }
  rig_close (&rig);
  const LmtJson *entries = lmt_json_get_member (json, "entries");
  g_assert_cmpuint (count_files (dir), ==, lmt_json_get_length (entries));
  for (guint i = 0; i < lmt_json_get_length (entries); i++)
    {
      g_autofree char *path = g_build_filename (dir, lmt_json_get_string (lmt_json_get_element (entries, i)), NULL);
      g_assert_true (g_file_test (path, G_FILE_TEST_EXISTS));
    }
  g_assert_cmpuint (n, >, 0);
  remove_tree (dir);
}

/* Layouts of before 0.4.7: nothing is found, all is counted, nothing is touched. */
static void
test_old_layout (gconstpointer data)
{
  const char *name = data;
  g_autoptr (LmtJson) json = read_case (name);
  g_autofree char *dir = copy_data (name);
  const LmtJson *objects = lmt_json_get_member (json, "objects");
  guint n = count_files (dir);
  Rig rig;
  rig_open (&rig, "{\"type\":\"fs\",\"base_path\":\"%s\",\"clean_tmp\":true}", dir);
  for (guint i = 0; i < lmt_json_get_length (objects); i++)
    {
      LmtKey *key = rig_key_of_json (&rig, lmt_json_get_member (lmt_json_get_element (objects, i), "key"));
      g_assert_cmpint (rig_lookup (&rig, key, 0), ==, LMT_L2_NOT_FOUND);
    }
  g_autofree char *said = g_strdup_printf ("fs: %s: %u files of the layout of LMCache 0.4.2-0.4.6 ignored\n", dir, n);
  g_assert_true (rig_said (&rig, said));
  g_assert_cmpuint (lmt_l2_get_used (rig.l2), ==, 0);
  rig_close (&rig);
  g_assert_cmpuint (count_files (dir), ==, n);
  remove_tree (dir);
}

static void
test_damaged (void)
{
  g_autoptr (LmtJson) json = read_json ("l2", "fs", "damaged", "damaged.json", NULL);
  g_autofree char *dir = copy_data ("damaged");
  const LmtJson *objects = lmt_json_get_member (json, "objects");
  guint n_files = count_files (dir);
  Rig rig;
  rig_open (&rig, "{\"type\":\"fs\",\"base_path\":\"%s\",\"clean_tmp\":true}", dir);
  g_autofree char *foreign = g_strdup_printf ("fs: %s: 3 files of foreign names ignored\n", dir); /* the upper-case hash too */
  g_assert_true (rig_said (&rig, foreign));
  g_assert_true (rig_said (&rig, "expected a file, found a directory"));
  for (guint i = 0; i < lmt_json_get_length (objects); i++)
    {
      const LmtJson *object = lmt_json_get_element (objects, i);
      const char *what = get_text (object, "what"), *file = get_text (object, "file");
      LmtKey *key = rig_key_of_json (&rig, lmt_json_get_member (object, "key"));
      guint64 size = get_number (object, "size"), seed = get_number (object, "seed");
      LmtL2Code load = rig_load_fill (&rig, key, seed, size);
      if (strcmp (what, "good") == 0)
        g_assert_cmpint (load, ==, LMT_L2_OK);
      else if (strcmp (what, "shadowed") == 0)
        {
          g_assert_cmpint (load, ==, LMT_L2_NOT_FOUND);
          g_assert_cmpint (rig_lookup (&rig, key, 0), ==, LMT_L2_NOT_FOUND);
          g_assert_cmpint (rig_store_fill (&rig, key, seed, size), ==, LMT_L2_IO);
          g_assert_true (rig_said (&rig, ": is a directory\n"));
          g_assert_cmpint (rig_delete (&rig, key), ==, LMT_L2_NOT_FOUND);
        }
      else if (strcmp (what, "upper") == 0)
        {
          g_assert_cmpint (load, ==, LMT_L2_NOT_FOUND);
          n_files--; /* counted on its own below: a store makes a second file */
          g_assert_cmpint (rig_store_fill (&rig, key, seed, size), ==, LMT_L2_OK);
          n_files += 2;
        }
      else
        {
          g_autofree char *path = g_build_filename (dir, file, NULL);
          struct stat st;
          g_assert_cmpint (stat (path, &st), ==, 0);
          g_autofree char *said = g_strdup_printf ("fs: %s: expected %d bytes, found %d\n", path, (int)size, (int)st.st_size);
          g_assert_cmpint (load, ==, LMT_L2_DATA);
          g_assert_true (rig_said (&rig, said));
          g_assert_cmpint (rig_lookup (&rig, key, size), ==, LMT_L2_DATA);
          g_assert_cmpint (rig_store_fill (&rig, key, seed, size), ==, LMT_L2_OK);
          g_assert_cmpint (rig_load_fill (&rig, key, seed, size), ==, LMT_L2_OK);
        }
    }
  g_autofree char *repaired = rig_status (&rig, "repaired");
  g_assert_cmpstr (repaired, ==, "3");
  g_assert_cmpuint (lmt_l2_get_used (rig.l2), ==, 5 * 512);
  rig_close (&rig);
  g_assert_cmpuint (count_files (dir), ==, n_files);
  remove_tree (dir);
}

static void
test_crash_leftover (void)
{
  g_autoptr (LmtJson) json = read_json ("l2", "fs", "crash-leftover", "crash-leftover.json", NULL);
  g_autofree char *dir = copy_data ("crash-leftover");
  Rig rig;
  rig_open (&rig, "{\"type\":\"fs\",\"base_path\":\"%s\"}", dir);
  LmtKey *key = rig_key_of_json (&rig, lmt_json_get_member (json, "key"));
  g_assert_cmpint (rig_lookup (&rig, key, 0), ==, LMT_L2_NOT_FOUND);
  g_assert_true (rig_said (&rig, "1 unfinished of LMCache, 4096 bytes: left alone, see clean_tmp\n"));
  rig_close (&rig);
  g_assert_cmpuint (count_files (dir), ==, 1);
  rig_open (&rig, "{\"type\":\"fs\",\"base_path\":\"%s\",\"clean_tmp\":true,\"shared\":true}", dir);
  rig_close (&rig);
  g_assert_cmpuint (count_files (dir), ==, 1);
  rig_open (&rig, "{\"type\":\"fs\",\"base_path\":\"%s\",\"clean_tmp\":true}", dir);
  g_assert_true (rig_said (&rig, "1 unfinished of LMCache, 4096 bytes: removed\n"));
  rig_close (&rig);
  g_assert_cmpuint (count_files (dir), ==, 0);
  remove_tree (dir);
}

static void
test_padded (void)
{
  g_autoptr (LmtJson) json = read_json ("l2", "fs", "direct-native-padded", "direct-native-padded.json", NULL);
  g_autofree char *dir = copy_data ("direct-native-padded");
  const LmtJson *objects = lmt_json_get_member (json, "objects");
  guint64 logical = get_number (json, "logical");
  for (guint pass = 0; pass < 4; pass++)
    {
      gboolean padded_align = pass % 2 == 1, direct = pass >= 2;
      Rig rig;
      rig_open (&rig, "{\"type\":\"fs_native\",\"base_path\":\"%s\",\"padded_align\":%d,\"use_odirect\":%s}", dir,
                padded_align ? 4096 : 0, direct ? "true" : "false");
      for (guint i = 0; i < lmt_json_get_length (objects); i++)
        {
          const LmtJson *object = lmt_json_get_element (objects, i);
          LmtKey *key = rig_key_of_json (&rig, lmt_json_get_member (object, "key"));
          gboolean fits = padded_align || strcmp (get_text (object, "what"), "exact") == 0;
          LmtL2Code expected = fits ? LMT_L2_OK : LMT_L2_DATA;
          g_assert_cmpint (rig_lookup (&rig, key, logical), ==, expected);
          g_assert_cmpint (rig_load_fill (&rig, key, get_number (object, "seed"), logical), ==, expected);
          if (!fits)
            g_assert_true (rig_said (&rig, "expected 5000 bytes, found 8192 (padded to 4096? see padded_align)\n"));
          if (fits)
            g_assert_cmpint (rig_store_fill (&rig, key, get_number (object, "seed"), logical), ==, LMT_L2_PRESENT);
        }
      g_assert_cmpuint (lmt_l2_get_used (rig.l2), ==, 13192); /* what lies there */
      rig_close (&rig);
    }
  remove_tree (dir);
}

int
main (int argc, char **argv)
{
  static const char *const readable[]
      = { "basic",        "basic-native", "basic-v0.4.7", "collision", "collision-native", "direct",       "direct-native",
          "groups-ranks", "long-names",   "odd-ascii",    "salts",     "salts-native",     "salts-v0.5.5", "slashes",
          "tmp-dir",      "two-tenants",  "unicode" };
  static const char *const old[] = { "basic-v0.4.2", "basic-v0.4.4", "salts-v0.4.4" };
  g_test_init (&argc, &argv, NULL);
  for (guint i = 0; i < G_N_ELEMENTS (readable); i++)
    {
      g_autofree char *read = g_strconcat ("/fs-golden/read/", readable[i], NULL);
      g_autofree char *write = g_strconcat ("/fs-golden/write/", readable[i], NULL);
      g_test_add_data_func (read, readable[i], test_read);
      g_test_add_data_func (write, readable[i], test_write);
    }
  for (guint i = 0; i < G_N_ELEMENTS (old); i++)
    {
      g_autofree char *path = g_strconcat ("/fs-golden/old-layout/", old[i], NULL);
      g_test_add_data_func (path, old[i], test_old_layout);
    }
  g_test_add_func ("/fs-golden/damaged", test_damaged);
  g_test_add_func ("/fs-golden/crash-leftover", test_crash_leftover);
  g_test_add_func ("/fs-golden/padded", test_padded);
  int failed = g_test_run ();
  g_object_unref (rig_registry ());
  return failed;
}
