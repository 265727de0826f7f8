/* SPDX-License-Identifier: Apache-2.0 */
#include "lmt-registry-private.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#define DESCRIPTOR_LEAST ((guint32)(G_STRUCT_OFFSET (LmtPluginDescriptor, unload) + sizeof (void (*) (void))))

/* -------- folders -------- */

void
lmt_registry_add_dir (LmtRegistry *registry, const char *dir)
{
  g_return_if_fail (LMT_IS_REGISTRY (registry) && dir != NULL);
  g_ptr_array_add (registry->dirs, g_strdup (dir));
  registry->scanned = FALSE;
}

void
lmt_registry_set_default_dirs (LmtRegistry *registry, gboolean use)
{
  g_return_if_fail (LMT_IS_REGISTRY (registry));
  registry->default_dirs = use;
  registry->scanned = FALSE;
}

char **
lmt_registry_get_dirs (LmtRegistry *registry)
{
  GPtrArray *dirs = g_ptr_array_new ();

  g_return_val_if_fail (LMT_IS_REGISTRY (registry), NULL);
  for (guint i = 0; i < registry->dirs->len; i++)
    g_ptr_array_add (dirs, g_strdup (registry->dirs->pdata[i]));
  if (registry->default_dirs)
    {
      const char *path = g_getenv ("LMTRACE_PLUGIN_PATH");
      g_auto (GStrv) parts = g_strsplit (path != NULL ? path : "", ":", -1);

      /* An empty part would be the current folder. */
      for (guint i = 0; parts[i] != NULL; i++)
        if (parts[i][0] != '\0')
          g_ptr_array_add (dirs, g_strdup (parts[i]));
      g_ptr_array_add (dirs, g_build_filename (g_get_home_dir (), ".local", "lib", "lmtrace-1", "plugins", NULL));
      g_ptr_array_add (dirs, g_strdup (LMT_PLUGIN_DIR));
    }
  g_ptr_array_add (dirs, NULL);
  return (char **)g_ptr_array_free (dirs, FALSE);
}

static LmtPluginInfo *
find_file (LmtRegistry *registry, const struct stat *st)
{
  for (guint i = 0; i < registry->plugins->len; i++)
    {
      LmtPluginInfo *info = registry->plugins->pdata[i];

      if (info->inode == (guint64)st->st_ino && info->device == (guint64)st->st_dev && info->inode != 0)
        return info;
    }
  return NULL;
}

/* Two names of one file are one plugin; the second name only makes it findable. */
static LmtPluginInfo *
note_file (LmtRegistry *registry, const char *path, const struct stat *st)
{
  LmtPluginInfo *info = find_file (registry, st);
  g_autofree char *base = g_path_get_basename (path);

  if (info == NULL)
    {
      info = lmt_plugin_info_new (path);
      info->device = (guint64)st->st_dev;
      info->inode = (guint64)st->st_ino;
      g_ptr_array_add (registry->plugins, info);
    }
  if (!g_ptr_array_find_with_equal_func (info->file_names, base, g_str_equal, NULL))
    g_ptr_array_add (info->file_names, g_steal_pointer (&base));
  return info;
}

static int
compare_names (gconstpointer a, gconstpointer b)
{
  return strcmp (*(const char *const *)a, *(const char *const *)b);
}

static void
scan_dir (LmtRegistry *registry, const char *dir)
{
  g_autoptr (GDir) handle = g_dir_open (dir, 0, NULL);
  g_autoptr (GPtrArray) names = g_ptr_array_new_with_free_func (g_free);
  const char *name;

  if (handle == NULL)
    return;
  while ((name = g_dir_read_name (handle)) != NULL)
    if (g_str_has_suffix (name, ".so"))
      g_ptr_array_add (names, g_strdup (name));
  /* A folder's order on disk is nobody's choice: who wins a clash must not depend on it. */
  g_ptr_array_sort (names, compare_names);
  for (guint i = 0; i < names->len; i++)
    {
      g_autofree char *path = g_build_filename (dir, names->pdata[i], NULL);
      struct stat st;

      if (stat (path, &st) == 0 && S_ISREG (st.st_mode))
        note_file (registry, path, &st);
    }
}

void
lmt_registry_scan (LmtRegistry *registry)
{
  g_auto (GStrv) dirs = NULL;

  if (registry->scanned)
    return;
  registry->scanned = TRUE;
  dirs = lmt_registry_get_dirs (registry);
  for (guint i = 0; dirs[i] != NULL; i++)
    scan_dir (registry, dirs[i]);
}

/* -------- one file -------- */

static gboolean
refuse (GError **error, int code, const char *text)
{
  g_set_error_literal (error, LMT_ERROR, code, text);
  return FALSE;
}

/* What lmt_plugin_get() gave: the ABI first, for nothing else of another ABI's descriptor can be trusted. */
static gboolean
check_descriptor (const LmtPluginDescriptor *given, LmtPluginDescriptor *copy, LmtPluginInfo *info, GError **error)
{
  if (given == NULL)
    return refuse (error, LMT_ERROR_PLUGIN_TABLE, "lmt_plugin_get(): expected a descriptor, found NULL");
  info->abi = given->abi;
  if (given->abi != LMT_PLUGIN_ABI)
    {
      g_set_error (error, LMT_ERROR, LMT_ERROR_PLUGIN_ABI,
                   "plugin ABI %u, this lmtrace speaks %u: rebuild it against these headers", given->abi, (guint)LMT_PLUGIN_ABI);
      return FALSE;
    }
  if (given->struct_size < DESCRIPTOR_LEAST)
    {
      g_set_error (error, LMT_ERROR, LMT_ERROR_PLUGIN_TABLE, "descriptor: struct_size %u, the smallest accepted is %u",
                   given->struct_size, DESCRIPTOR_LEAST);
      return FALSE;
    }
  memset (copy, 0, sizeof *copy);
  memcpy (copy, given, MIN (given->struct_size, sizeof *copy));
  if (!lmt_name_is_valid (copy->name))
    {
      g_autofree char *shown = copy->name != NULL ? g_utf8_make_valid (copy->name, -1) : NULL;

      g_set_error (error, LMT_ERROR, LMT_ERROR_PLUGIN_TABLE, "plugin name: expected [a-z][a-z0-9_-]*, found %s%s%s",
                   shown != NULL ? "\"" : "", shown != NULL ? shown : "NULL", shown != NULL ? "\"" : "");
      return FALSE;
    }
  info->name = copy->name;
  info->version = copy->version != NULL ? copy->version : "";
  info->licence = copy->licence != NULL ? copy->licence : "";
  info->summary = copy->summary != NULL ? copy->summary : "";
  if (copy->load == NULL)
    {
      g_set_error (error, LMT_ERROR, LMT_ERROR_PLUGIN_TABLE, "plugin \"%s\": load: expected a function, found NULL", copy->name);
      return FALSE;
    }
  return TRUE;
}

static LmtPluginInfo *
find_loaded (LmtRegistry *registry, const char *name)
{
  for (guint i = 0; i < registry->plugins->len; i++)
    {
      LmtPluginInfo *info = registry->plugins->pdata[i];

      if (info->state == LMT_PLUGIN_LOADED && strcmp (info->name, name) == 0)
        return info;
    }
  return NULL;
}

static gboolean
open_module (LmtPluginInfo *info, GModule **module, GError **error)
{
  /* A path without a slash would be looked up among the system's libraries. */
  g_autofree char *full = g_canonicalize_filename (info->path, NULL);
  g_autoptr (GError) said = NULL;
  g_autofree char *head = g_strconcat (full, ": ", NULL);

  /* Without G_MODULE_BIND_LAZY: a missing symbol must show now, not in the middle of a run. */
  *module = g_module_open_full (full, G_MODULE_BIND_LOCAL, &said);
  if (*module != NULL)
    return TRUE;
  g_set_error (error, LMT_ERROR, LMT_ERROR_PLUGIN_OPEN, "cannot open: %s",
               g_str_has_prefix (said->message, head) ? said->message + strlen (head) : said->message);
  return FALSE;
}

/* @ours: (out): FALSE if the file has no lmt_plugin_get(): it is somebody else's. */
static gboolean
open_plugin (LmtRegistry *registry, LmtPluginInfo *info, gboolean *ours, GError **error)
{
  const LmtPluginDescriptor *(*get) (void) = NULL;
  LmtPluginDescriptor descriptor;
  LmtPluginInfo *before;
  GModule *module;

  *ours = TRUE;
  if (!open_module (info, &module, error))
    return FALSE;
  if (!g_module_symbol (module, "lmt_plugin_get", (gpointer *)&get) || get == NULL)
    {
      *ours = FALSE;
      g_module_close (module);
      return refuse (error, LMT_ERROR_PLUGIN_OPEN, "no lmt_plugin_get: not an lmtrace plugin");
    }
  /* Types, quarks and literals of a plugin are pointed to from everywhere: it stays mapped for good. */
  g_module_make_resident (module);
  if (!check_descriptor (get (), &descriptor, info, error))
    return FALSE;
  before = find_loaded (registry, descriptor.name);
  if (before != NULL)
    {
      info->state = LMT_PLUGIN_SHADOWED;
      g_set_error (error, LMT_ERROR, LMT_ERROR_PLUGIN_CLASH, "plugin \"%s\" is already loaded from %s", descriptor.name,
                   before->path);
      return FALSE;
    }
  if (!lmt_registry_run_load (registry, info, descriptor.load, error))
    return FALSE;
  info->unload = descriptor.unload;
  info->state = LMT_PLUGIN_LOADED;
  g_debug ("Loaded plugin \"%s\" %s from %s", info->name, info->version, info->path);
  lmt_registry_announce (registry, info);
  return TRUE;
}

/* Opens a file once; its state and reason stay for list-plugins. @named: by --plugin, so that no refusal is kept quiet. */
static gboolean
open_once (LmtRegistry *registry, LmtPluginInfo *info, gboolean named, GError **error)
{
  g_autoptr (GError) said = NULL;
  gboolean ours = TRUE;

  if (info->state == LMT_PLUGIN_LOADED)
    return TRUE;
  if (info->state != LMT_PLUGIN_NOT_OPENED)
    {
      g_set_error (error, LMT_ERROR, LMT_ERROR_PLUGIN_OPEN, "%s: %s", info->path, info->reason);
      if (error != NULL)
        lmt_error_set_place (*error, info->path, -1);
      return FALSE;
    }
  if (open_plugin (registry, info, &ours, &said))
    return TRUE;
  if (info->state == LMT_PLUGIN_SHADOWED)
    info->reason = g_strdup (find_loaded (registry, info->name)->path);
  else
    {
      info->state = LMT_PLUGIN_REFUSED;
      info->reason = g_strdup (said->message);
    }
  g_debug ("%s: %s", info->path, said->message);
  if (!ours && !named)
    g_ptr_array_remove (registry->plugins, info); /* frees it */
  else if (info->state == LMT_PLUGIN_REFUSED)
    lmt_registry_announce (registry, info);
  if (named)
    {
      g_prefix_error (&said, "%s: ", info->path);
      lmt_error_set_place (said, info->path, -1);
      g_propagate_error (error, g_steal_pointer (&said));
    }
  return FALSE;
}

gboolean
lmt_registry_load_file (LmtRegistry *registry, const char *path, GError **error)
{
  struct stat st;

  g_return_val_if_fail (LMT_IS_REGISTRY (registry) && path != NULL, FALSE);
  if (stat (path, &st) != 0)
    {
      int saved = errno;
      g_autofree char *shown = g_filename_display_name (path);

      g_set_error (error, LMT_ERROR, LMT_ERROR_PLUGIN_OPEN, "%s: cannot open: %s", shown, g_strerror (saved));
      if (error != NULL)
        lmt_error_set_place (*error, path, -1);
      return FALSE;
    }
  if (!S_ISREG (st.st_mode))
    {
      g_autofree char *shown = g_filename_display_name (path);

      g_set_error (error, LMT_ERROR, LMT_ERROR_PLUGIN_OPEN, "%s: cannot open: expected a file, found %s", shown,
                   S_ISDIR (st.st_mode) ? "a folder" : "something else");
      if (error != NULL)
        lmt_error_set_place (*error, path, -1);
      return FALSE;
    }
  return open_once (registry, note_file (registry, path, &st), TRUE, error);
}

void
lmt_registry_load_all (LmtRegistry *registry)
{
  g_return_if_fail (LMT_IS_REGISTRY (registry));
  lmt_registry_scan (registry);
  for (guint i = 0; i < registry->plugins->len;)
    {
      LmtPluginInfo *info = registry->plugins->pdata[i];

      if (info->state == LMT_PLUGIN_NOT_OPENED)
        open_once (registry, info, FALSE, NULL);
      /* A stranger's file takes itself off the list. */
      if (i < registry->plugins->len && registry->plugins->pdata[i] == info)
        i++;
    }
}

void
lmt_registry_open_named (LmtRegistry *registry, const char *file_name)
{
  lmt_registry_scan (registry);
  for (guint i = 0; i < registry->plugins->len; i++)
    {
      LmtPluginInfo *info = registry->plugins->pdata[i];

      if (info->state != LMT_PLUGIN_NOT_OPENED
          || !g_ptr_array_find_with_equal_func (info->file_names, file_name, g_str_equal, NULL))
        continue;
      if (open_once (registry, info, FALSE, NULL))
        return;
      if (i >= registry->plugins->len || registry->plugins->pdata[i] != info)
        i--;
    }
}
