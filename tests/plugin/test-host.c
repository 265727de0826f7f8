/* SPDX-License-Identifier: Apache-2.0 */
#include <lmtrace/lmt-plugin.h>

#include <glib/gstdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *bad_dir; /* where the build left them */
static char *scratch;       /* an empty folder per test */

static void
remove_tree (const char *path)
{
  g_autoptr (GDir) dir = g_dir_open (path, 0, NULL);
  const char *name;

  while (dir != NULL && (name = g_dir_read_name (dir)) != NULL)
    {
      g_autofree char *child = g_build_filename (path, name, NULL);

      if (g_file_test (child, G_FILE_TEST_IS_DIR) && !g_file_test (child, G_FILE_TEST_IS_SYMLINK))
        remove_tree (child);
      else
        g_unlink (child);
    }
  g_rmdir (path);
}

static void
make_scratch (void)
{
  scratch = g_dir_make_tmp ("lmt-host-XXXXXX", NULL);
  g_assert_nonnull (scratch);
}

static void
drop_scratch (void)
{
  remove_tree (scratch);
  g_clear_pointer (&scratch, g_free);
}

static char *
built (const char *name)
{
  return g_strdup_printf ("%s/lmt-l2-%s.so", bad_dir, name);
}

/* A copy, so that it is another file than the built one. (transfer full): its path */
static char *
put (const char *folder, const char *name, const char *as)
{
  g_autofree char *from = built (name);
  g_autofree char *dir = g_build_filename (scratch, folder, NULL);
  char *to = g_build_filename (dir, as, NULL);
  g_autofree char *data = NULL;
  gsize len;

  g_assert_cmpint (g_mkdir_with_parents (dir, 0755), ==, 0);
  g_assert_true (g_file_get_contents (from, &data, &len, NULL));
  g_assert_true (g_file_set_contents (to, data, (gssize)len, NULL));
  return to;
}

static LmtRegistry *
new_registry (void)
{
  LmtRegistry *registry = lmt_registry_new ();

  lmt_registry_set_default_dirs (registry, FALSE);
  return registry;
}

static LmtPluginInfo *
info_of (LmtRegistry *registry, const char *path)
{
  g_autoptr (GPtrArray) plugins = lmt_registry_list_plugins (registry);

  for (guint i = 0; i < plugins->len; i++)
    if (strcmp (lmt_plugin_info_get_path (plugins->pdata[i]), path) == 0)
      return plugins->pdata[i];
  return NULL;
}

static void
assert_matches (const char *text, const char *pattern)
{
  if (!g_pattern_match_simple (pattern, text))
    g_assert_cmpstr (text, ==, pattern);
}

typedef struct
{
  const char *name;
  int code;
  const char *message; /* behind the path, a glob */
  gboolean listed;     /* in a scan */
} Bad;

static const Bad bads[] = {
  { "nosymbol", LMT_ERROR_PLUGIN_OPEN, "no lmt_plugin_get: not an lmtrace plugin", FALSE },
  { "abi", LMT_ERROR_PLUGIN_ABI, "plugin ABI 2, this lmtrace speaks 1: rebuild it against these headers", TRUE },
  { "short", LMT_ERROR_PLUGIN_TABLE, "adapter \"bad\": struct_size 24, the smallest accepted is 152", TRUE },
  { "shortdesc", LMT_ERROR_PLUGIN_TABLE, "descriptor: struct_size 16, the smallest accepted is 56", TRUE },
  { "nullcb", LMT_ERROR_PLUGIN_TABLE, "adapter \"bad\": submit: expected a function, found NULL", TRUE },
  { "badname", LMT_ERROR_PLUGIN_TABLE, "adapter \"Bad Name\": name: expected [a-z][a-z0-9_-]*, found \"Bad Name\"", TRUE },
  { "badplugin", LMT_ERROR_PLUGIN_TABLE, "plugin name: expected [a-z][a-z0-9_-]*, found \"Bad Plugin\"", TRUE },
  { "half", LMT_ERROR_PLUGIN_LOAD, "load() failed: this machine has no such device", TRUE },
  { "unresolved", LMT_ERROR_PLUGIN_OPEN, "cannot open: *lmt_nobody_has_this*", TRUE },
  { "nulldesc", LMT_ERROR_PLUGIN_TABLE, "lmt_plugin_get(): expected a descriptor, found NULL", TRUE },
  { "noload", LMT_ERROR_PLUGIN_TABLE, "plugin \"l2-noload\": load: expected a function, found NULL", TRUE },
};

/* --plugin: an error, path first. */
static void
test_by_name (gconstpointer data)
{
  const Bad *bad = data;
  g_autoptr (LmtRegistry) registry = new_registry ();
  g_autoptr (GError) error = NULL;
  g_autofree char *path = built (bad->name);
  g_autofree char *pattern = NULL;
  g_autofree const char **l2 = NULL;

  g_assert_false (lmt_registry_load_file (registry, path, &error));
  g_assert_error (error, LMT_ERROR, bad->code);
  /* brackets are no glob in GPattern */
  pattern = g_strdup_printf ("%s: %s", path, bad->message);
  assert_matches (error->message, pattern);
  g_assert_null (strchr (error->message, '\n'));
  l2 = lmt_registry_list_l2 (registry);
  g_assert_null (l2[0]);
  /* A second time: the same answer. */
  g_clear_error (&error);
  g_assert_false (lmt_registry_load_file (registry, path, &error));
  assert_matches (error->message, pattern);
}

/* In a scan: listed with its reason, and the good one beside it serves. */
static void
test_in_scan (gconstpointer data)
{
  const Bad *bad = data;
  g_autoptr (LmtRegistry) registry = new_registry ();
  g_autoptr (GError) error = NULL;
  g_autofree char *path = NULL, *good = NULL;
  LmtPluginInfo *info;

  make_scratch ();
  path = put (".", bad->name, "lmt-l2-aaa.so");
  good = put (".", "good", "lmt-l2-good.so");
  lmt_registry_add_dir (registry, scratch);
  g_clear_pointer (&path, g_free);
  path = g_build_filename (scratch, "lmt-l2-aaa.so", NULL);
  lmt_registry_load_all (registry);
  info = info_of (registry, path);
  if (bad->listed)
    {
      g_assert_nonnull (info);
      g_assert_cmpint (lmt_plugin_info_get_state (info), ==, LMT_PLUGIN_REFUSED);
      assert_matches (lmt_plugin_info_get_reason (info), bad->message);
    }
  else
    g_assert_null (info);
  g_assert_nonnull (lmt_registry_get_l2 (registry, "good", &error));
  g_assert_no_error (error);
  drop_scratch ();
}

static void
test_clash (void)
{
  g_autoptr (LmtRegistry) registry = new_registry ();
  g_autoptr (GError) error = NULL;
  g_autofree char *first = built ("clasha"), *second = built ("clashb");
  g_autofree char *message = g_strdup_printf ("%s: adapter \"clash\" is already registered by %s", second, first);

  g_assert_true (lmt_registry_load_file (registry, first, &error));
  g_assert_false (lmt_registry_load_file (registry, second, &error));
  g_assert_error (error, LMT_ERROR, LMT_ERROR_PLUGIN_CLASH);
  g_assert_cmpstr (error->message, ==, message);
  g_assert_cmpstr (lmt_plugin_info_get_path (lmt_registry_get_owner (registry, "l2", "clash")), ==, first);
}

static void
test_newer (void)
{
  g_autoptr (LmtRegistry) registry = new_registry ();
  g_autoptr (GError) error = NULL;
  g_autofree char *path = built ("newer");

  g_assert_true (lmt_registry_load_file (registry, path, &error));
  g_assert_no_error (error);
  g_assert_nonnull (lmt_registry_get_l2 (registry, "bad", &error));
}

static void
test_no_file (void)
{
  g_autoptr (LmtRegistry) registry = new_registry ();
  g_autoptr (GError) error = NULL;

  g_assert_false (lmt_registry_load_file (registry, "/nonexistent/x.so", &error));
  g_assert_error (error, LMT_ERROR, LMT_ERROR_PLUGIN_OPEN);
  g_assert_cmpstr (error->message, ==, "/nonexistent/x.so: cannot open: No such file or directory");
  g_clear_error (&error);
  g_assert_false (lmt_registry_load_file (registry, "/", &error));
  g_assert_cmpstr (error->message, ==, "/: cannot open: expected a file, found a folder");
  g_clear_error (&error);
  make_scratch ();
  {
    g_autofree char *path = g_build_filename (scratch, "lmt-l2-text.so", NULL);
    g_autofree char *head = g_strconcat (path, ": cannot open: ", NULL);

    g_assert_true (g_file_set_contents (path, "no library", -1, NULL));
    g_assert_false (lmt_registry_load_file (registry, path, &error));
    g_assert_true (g_str_has_prefix (error->message, head));
    g_assert_null (strstr (error->message + strlen (head), path)); /* said once */
  }
  drop_scratch ();
}

/* Two names of one file are one plugin; a copy is another, and shadowed. */
static void
test_names_and_shadows (void)
{
  g_autoptr (LmtRegistry) registry = new_registry ();
  g_autoptr (GPtrArray) plugins = NULL;
  g_autoptr (GError) error = NULL;
  g_autofree char *real = NULL, *copy = NULL, *link_path = NULL, *hard = NULL, *one = NULL, *two = NULL;

  make_scratch ();
  real = put ("one", "good", "lmt-l2-good.so");
  copy = put ("two", "good", "lmt-l2-good.so");
  one = g_build_filename (scratch, "one", NULL);
  two = g_build_filename (scratch, "two", NULL);
  link_path = g_build_filename (scratch, "one", "lmt-cmd-other.so", NULL);
  hard = g_build_filename (scratch, "two", "lmt-l2-hard.so", NULL);
  g_assert_cmpint (symlink (real, link_path), ==, 0);
  g_assert_cmpint (link (real, hard), ==, 0);
  lmt_registry_add_dir (registry, one);
  lmt_registry_add_dir (registry, two);
  lmt_registry_load_all (registry);
  plugins = lmt_registry_list_plugins (registry);
  g_assert_cmpuint (plugins->len, ==, 2);
  g_assert_cmpint (lmt_plugin_info_get_state (plugins->pdata[0]), ==, LMT_PLUGIN_LOADED);
  g_assert_cmpint (lmt_plugin_info_get_state (plugins->pdata[1]), ==, LMT_PLUGIN_SHADOWED);
  g_assert_cmpstr (lmt_plugin_info_get_path (plugins->pdata[1]), ==, copy);
  g_assert_cmpstr (lmt_plugin_info_get_reason (plugins->pdata[1]), ==, lmt_plugin_info_get_path (plugins->pdata[0]));
  /* by name, what isn't used is an error */
  g_assert_false (lmt_registry_load_file (registry, copy, &error));
  g_assert_true (g_str_has_prefix (error->message, copy));
  g_clear_error (&error);
  /* the same file again is not */
  g_assert_true (lmt_registry_load_file (registry, hard, &error));
  g_assert_no_error (error);
  drop_scratch ();
}

/* Only the file that bears the name is opened; the others stay closed. */
static void
test_lazy (void)
{
  g_autoptr (LmtRegistry) registry = new_registry ();
  g_autoptr (GError) error = NULL;
  g_autofree char *good = NULL, *clash = NULL, *odd = NULL;

  make_scratch ();
  good = put ("one", "good", "lmt-l2-good.so");
  clash = put ("one", "clasha", "lmt-l2-clash.so");
  odd = put ("one", "newer", "lmt-anything.so");
  {
    g_autofree char *dir = g_build_filename (scratch, "one", NULL);

    lmt_registry_add_dir (registry, dir);
  }
  g_assert_nonnull (lmt_registry_get_l2 (registry, "good", &error));
  g_assert_cmpint (lmt_plugin_info_get_state (info_of (registry, good)), ==, LMT_PLUGIN_LOADED);
  g_assert_cmpint (lmt_plugin_info_get_state (info_of (registry, clash)), ==, LMT_PLUGIN_NOT_OPENED);
  g_assert_cmpstr (lmt_plugin_info_get_name (info_of (registry, clash)), ==, "");
  /* No file is called lmt-l2-bad.so: the rest is opened before giving up. */
  g_assert_nonnull (lmt_registry_get_l2 (registry, "bad", &error));
  g_assert_no_error (error);
  g_assert_cmpint (lmt_plugin_info_get_state (info_of (registry, odd)), ==, LMT_PLUGIN_LOADED);
  drop_scratch ();
}

/* The file that bears the name is refused: its reason is in the answer; one further down the path serves. */
static void
test_refused_by_name (void)
{
  g_autoptr (LmtRegistry) registry = new_registry ();
  g_autoptr (GError) error = NULL;
  g_autofree char *bad = NULL, *good = NULL, *one = NULL, *two = NULL, *expected = NULL;

  make_scratch ();
  one = g_build_filename (scratch, "one", NULL);
  two = g_build_filename (scratch, "two", NULL);
  bad = put ("one", "abi", "lmt-l2-ceph.so");
  lmt_registry_add_dir (registry, one);
  g_assert_null (lmt_registry_get_l2 (registry, "ceph", &error));
  g_assert_error (error, LMT_ERROR, LMT_ERROR_NO_ADAPTER);
  expected = g_strdup_printf (
      "unknown adapter type 'ceph': %s: plugin ABI 2, this lmtrace speaks 1: rebuild it against these headers; "
      "known: none; searched: %s",
      bad, one);
  g_assert_cmpstr (error->message, ==, expected);
  g_clear_error (&error);
  g_free (put ("one", "abi", "lmt-l2-good.so"));
  good = put ("two", "good", "lmt-l2-good.so");
  lmt_registry_add_dir (registry, two);
  g_assert_nonnull (lmt_registry_get_l2 (registry, "good", &error));
  g_assert_no_error (error);
  g_assert_cmpstr (lmt_plugin_info_get_path (lmt_registry_get_owner (registry, "l2", "good")), ==, good);
  drop_scratch ();
}

static void
test_unload (void)
{
  LmtRegistry *registry = new_registry ();
  g_autoptr (GError) error = NULL;
  g_autofree char *path = g_build_filename (bad_dir, "lmt-cmd-echo.so", NULL);

  g_unsetenv ("LMT_TEST_UNLOADED");
  g_assert_true (lmt_registry_load_file (registry, path, &error));
  g_assert_null (g_getenv ("LMT_TEST_UNLOADED"));
  lmt_registry_unload (registry);
  g_assert_cmpstr (g_getenv ("LMT_TEST_UNLOADED"), ==, "once");
  g_assert_null (lmt_registry_get_command (registry, "echo", NULL));
  g_object_unref (registry);
  g_assert_cmpstr (g_getenv ("LMT_TEST_UNLOADED"), ==, "once");
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_assert_cmpint (argc, ==, 2);
  bad_dir = argv[1];
  for (guint i = 0; i < G_N_ELEMENTS (bads); i++)
    {
      g_autofree char *by_name = g_strconcat ("/host/by-name/", bads[i].name, NULL);
      g_autofree char *in_scan = g_strconcat ("/host/in-scan/", bads[i].name, NULL);

      g_test_add_data_func (by_name, &bads[i], test_by_name);
      g_test_add_data_func (in_scan, &bads[i], test_in_scan);
    }
  g_test_add_func ("/host/clash", test_clash);
  g_test_add_func ("/host/newer", test_newer);
  g_test_add_func ("/host/no-file", test_no_file);
  g_test_add_func ("/host/names-and-shadows", test_names_and_shadows);
  g_test_add_func ("/host/lazy", test_lazy);
  g_test_add_func ("/host/refused-by-name", test_refused_by_name);
  g_test_add_func ("/host/unload", test_unload);
  return g_test_run ();
}
