/* SPDX-License-Identifier: Apache-2.0 */
#include "lmt-registry-private.h"

#include <string.h>

G_DEFINE_FINAL_TYPE (LmtRegistry, lmt_registry, G_TYPE_OBJECT)
G_DEFINE_FINAL_TYPE (LmtPluginInfo, lmt_plugin_info, G_TYPE_OBJECT)

enum
{
  SIGNAL_PLUGIN_ADDED,
  SIGNAL_PLUGIN_REFUSED,
  N_SIGNALS
};
static guint signals[N_SIGNALS];

/* Ends of the tables as ABI 1 began: the smallest struct_size accepted. Members appended later don't move them. */
#define SIZE_THROUGH(Struct, member) ((guint32)(G_STRUCT_OFFSET (Struct, member) + sizeof (((Struct *)NULL)->member)))

const LmtEntryKindInfo lmt_entry_kinds[LMT_ENTRY_N_KINDS] = {
  { "level", "level", sizeof (LmtLevelOps), SIZE_THROUGH (LmtLevelOps, progress) },
  { "handler", "qualname", sizeof (LmtHandlerOps), SIZE_THROUGH (LmtHandlerOps, call) },
  { "codec", "tag", sizeof (LmtCodecOps), SIZE_THROUGH (LmtCodecOps, decode) },
  { "l2", "adapter", sizeof (LmtL2Ops), SIZE_THROUGH (LmtL2Ops, check) },
  { "alias", "adapter", sizeof (LmtL2Ops), SIZE_THROUGH (LmtL2Ops, check) },
  { "command", "command", sizeof (LmtCommandOps), SIZE_THROUGH (LmtCommandOps, more_text) },
};

/* -------- plugin info -------- */

static void
lmt_plugin_info_finalize (GObject *object)
{
  LmtPluginInfo *info = LMT_PLUGIN_INFO (object);

  g_free (info->path);
  g_free (info->reason);
  g_ptr_array_unref (info->file_names);
  G_OBJECT_CLASS (lmt_plugin_info_parent_class)->finalize (object);
}

static void
lmt_plugin_info_class_init (LmtPluginInfoClass *klass)
{
  G_OBJECT_CLASS (klass)->finalize = lmt_plugin_info_finalize;
}

static void
lmt_plugin_info_init (LmtPluginInfo *info)
{
  info->name = info->version = info->licence = info->summary = "";
  info->state = LMT_PLUGIN_NOT_OPENED;
  info->file_names = g_ptr_array_new_with_free_func (g_free);
}

LmtPluginInfo *
lmt_plugin_info_new (const char *path)
{
  LmtPluginInfo *info = g_object_new (LMT_TYPE_PLUGIN_INFO, NULL);

  info->path = g_strdup (path);
  return info;
}

const char *
lmt_plugin_info_get_name (LmtPluginInfo *info)
{
  g_return_val_if_fail (LMT_IS_PLUGIN_INFO (info), NULL);
  return info->name;
}

const char *
lmt_plugin_info_get_path (LmtPluginInfo *info)
{
  g_return_val_if_fail (LMT_IS_PLUGIN_INFO (info), NULL);
  return info->path;
}

const char *
lmt_plugin_info_get_version (LmtPluginInfo *info)
{
  g_return_val_if_fail (LMT_IS_PLUGIN_INFO (info), NULL);
  return info->version;
}

const char *
lmt_plugin_info_get_licence (LmtPluginInfo *info)
{
  g_return_val_if_fail (LMT_IS_PLUGIN_INFO (info), NULL);
  return info->licence;
}

const char *
lmt_plugin_info_get_summary (LmtPluginInfo *info)
{
  g_return_val_if_fail (LMT_IS_PLUGIN_INFO (info), NULL);
  return info->summary;
}

guint
lmt_plugin_info_get_abi (LmtPluginInfo *info)
{
  g_return_val_if_fail (LMT_IS_PLUGIN_INFO (info), 0);
  return info->abi;
}

LmtPluginState
lmt_plugin_info_get_state (LmtPluginInfo *info)
{
  g_return_val_if_fail (LMT_IS_PLUGIN_INFO (info), LMT_PLUGIN_REFUSED);
  return info->state;
}

const char *
lmt_plugin_info_get_reason (LmtPluginInfo *info)
{
  g_return_val_if_fail (LMT_IS_PLUGIN_INFO (info), NULL);
  return info->reason;
}

/* -------- the object -------- */

void
lmt_entry_free (gpointer data)
{
  LmtEntry *entry = data;

  if (entry->owns_ops)
    g_free (entry->ops);
  g_free (entry);
}

static void
lmt_registry_finalize (GObject *object)
{
  LmtRegistry *registry = LMT_REGISTRY (object);

  lmt_registry_unload (registry);
  for (guint i = 0; i < LMT_ENTRY_N_KINDS; i++)
    g_ptr_array_unref (registry->entries[i]);
  g_ptr_array_unref (registry->plugins);
  g_ptr_array_unref (registry->dirs);
  G_OBJECT_CLASS (lmt_registry_parent_class)->finalize (object);
}

static void
lmt_registry_class_init (LmtRegistryClass *klass)
{
  G_OBJECT_CLASS (klass)->finalize = lmt_registry_finalize;
  signals[SIGNAL_PLUGIN_ADDED] = g_signal_new ("plugin-added", LMT_TYPE_REGISTRY, G_SIGNAL_RUN_LAST, 0, NULL, NULL, NULL,
                                               G_TYPE_NONE, 1, LMT_TYPE_PLUGIN_INFO);
  signals[SIGNAL_PLUGIN_REFUSED] = g_signal_new ("plugin-refused", LMT_TYPE_REGISTRY, G_SIGNAL_RUN_LAST, 0, NULL, NULL, NULL,
                                                 G_TYPE_NONE, 1, LMT_TYPE_PLUGIN_INFO);
}

static void
lmt_registry_init (LmtRegistry *registry)
{
  for (guint i = 0; i < LMT_ENTRY_N_KINDS; i++)
    registry->entries[i] = g_ptr_array_new_with_free_func (lmt_entry_free);
  registry->plugins = g_ptr_array_new_with_free_func (g_object_unref);
  registry->dirs = g_ptr_array_new_with_free_func (g_free);
  registry->default_dirs = TRUE;
}

LmtRegistry *
lmt_registry_new (void)
{
  return g_object_new (LMT_TYPE_REGISTRY, NULL);
}

void
lmt_registry_announce (LmtRegistry *registry, LmtPluginInfo *info)
{
  g_signal_emit (registry, signals[info->state == LMT_PLUGIN_LOADED ? SIGNAL_PLUGIN_ADDED : SIGNAL_PLUGIN_REFUSED], 0, info);
}

void
lmt_registry_unload (LmtRegistry *registry)
{
  g_return_if_fail (LMT_IS_REGISTRY (registry));
  /* Tables first: whatever unload() frees may be what they point to. */
  for (guint i = 0; i < LMT_ENTRY_N_KINDS; i++)
    g_ptr_array_set_size (registry->entries[i], 0);
  for (guint i = registry->plugins->len; i-- > 0;)
    {
      LmtPluginInfo *info = registry->plugins->pdata[i];
      void (*unload) (void) = info->unload;

      info->unload = NULL;
      if (unload != NULL)
        unload ();
    }
}

/* -------- finding -------- */

LmtEntry *
lmt_entry_find (GPtrArray *entries, LmtEntryKind kind, const char *level, const char *name, gsize len)
{
  for (guint i = 0; i < entries->len; i++)
    {
      LmtEntry *entry = entries->pdata[i];

      if (entry->kind == kind && entry->name_len == len && memcmp (entry->name, name, len) == 0
          && g_strcmp0 (entry->level, level) == 0)
        return entry;
    }
  return NULL;
}

static LmtEntry *
find (LmtRegistry *registry, LmtEntryKind kind, const char *level, const char *name, gsize len)
{
  return lmt_entry_find (registry->entries[kind], kind, level, name, len);
}

/* An adapter's name and its aliases are one space of names. */
static LmtEntry *
find_l2 (LmtRegistry *registry, const char *name)
{
  LmtEntry *entry = find (registry, LMT_ENTRY_L2, NULL, name, strlen (name));

  return entry != NULL ? entry : find (registry, LMT_ENTRY_ALIAS, NULL, name, strlen (name));
}

static LmtEntry *
find_kind (LmtRegistry *registry, LmtEntryKind kind, const char *name)
{
  return kind == LMT_ENTRY_L2 ? find_l2 (registry, name) : find (registry, kind, NULL, name, strlen (name));
}

static int
compare_names (gconstpointer a, gconstpointer b)
{
  return strcmp (*(const char *const *)a, *(const char *const *)b);
}

static const char **
list_names (LmtRegistry *registry, LmtEntryKind kind)
{
  GPtrArray *names = g_ptr_array_new ();

  for (guint i = 0; i < registry->entries[kind]->len; i++)
    g_ptr_array_add (names, (gpointer)((LmtEntry *)registry->entries[kind]->pdata[i])->name);
  if (kind == LMT_ENTRY_L2)
    for (guint i = 0; i < registry->entries[LMT_ENTRY_ALIAS]->len; i++)
      g_ptr_array_add (names, (gpointer)((LmtEntry *)registry->entries[LMT_ENTRY_ALIAS]->pdata[i])->name);
  g_ptr_array_sort (names, compare_names);
  g_ptr_array_add (names, NULL);
  return (const char **)g_ptr_array_free (names, FALSE);
}

static char *
join_or_none (const char *const *words)
{
  return words[0] != NULL ? g_strjoinv (", ", (char **)words) : g_strdup ("none");
}

/* Nobody offers the name: say what is known, where was searched, and why a file that bears the name was no help. */
static void
set_missing (LmtRegistry *registry, LmtEntryKind kind, const char *name, const char *file_name, GError **error)
{
  static const int codes[LMT_ENTRY_N_KINDS] = {
    [LMT_ENTRY_LEVEL] = LMT_ERROR_NO_LEVEL, [LMT_ENTRY_L2] = LMT_ERROR_NO_ADAPTER, [LMT_ENTRY_COMMAND] = LMT_ERROR_NO_COMMAND
  };
  static const char *const nouns[LMT_ENTRY_N_KINDS]
      = { [LMT_ENTRY_LEVEL] = "level", [LMT_ENTRY_L2] = "adapter type", [LMT_ENTRY_COMMAND] = "command" };
  g_autoptr (GString) text = g_string_new (NULL);
  g_autofree const char **known = list_names (registry, kind);
  g_auto (GStrv) dirs = lmt_registry_get_dirs (registry);
  g_autofree char *known_text = join_or_none (known);
  g_autofree char *dirs_text = join_or_none ((const char *const *)dirs);
  g_autofree char *shown = g_utf8_make_valid (name, MIN (strlen (name), 256));
  const char *closest = lmt_closest (name, known);

  for (char *p = shown; *p != '\0'; p++)
    if (g_ascii_iscntrl (*p))
      *p = '?';
  for (guint i = 0; i < registry->plugins->len; i++)
    {
      LmtPluginInfo *info = registry->plugins->pdata[i];

      if (info->state == LMT_PLUGIN_REFUSED && file_name != NULL
          && g_ptr_array_find_with_equal_func (info->file_names, file_name, g_str_equal, NULL))
        g_string_append_printf (text, "; %s: %s", info->path, info->reason);
    }
  if (closest != NULL)
    g_string_append_printf (text, "; did you mean '%s'?", closest);
  /* The one line for a slip of the finger stays short. */
  if (closest == NULL || kind != LMT_ENTRY_COMMAND)
    g_string_append_printf (text, "; known: %s; searched: %s", known_text, dirs_text);
  g_set_error (error, LMT_ERROR, codes[kind], "unknown %s '%s': %s", nouns[kind], shown, text->str + 2);
}

static gconstpointer
get_ops (LmtRegistry *registry, LmtEntryKind kind, const char *file_kind, const char *name, GError **error)
{
  LmtEntry *entry = find_kind (registry, kind, name);
  g_autofree char *file_name = NULL;

  /* The name may come out of a file: only what can be a registered name becomes part of a path. */
  if (entry == NULL && lmt_name_is_valid (name))
    {
      file_name = g_strdup_printf ("lmt-%s-%s.so", file_kind, name);
      lmt_registry_open_named (registry, file_name);
      entry = find_kind (registry, kind, name);
    }
  if (entry == NULL)
    {
      lmt_registry_load_all (registry);
      entry = find_kind (registry, kind, name);
    }
  if (entry != NULL)
    return entry->ops;
  set_missing (registry, kind, name, file_name, error);
  return NULL;
}

const LmtLevelOps *
lmt_registry_get_level (LmtRegistry *registry, const char *name, GError **error)
{
  g_return_val_if_fail (LMT_IS_REGISTRY (registry) && name != NULL, NULL);
  return get_ops (registry, LMT_ENTRY_LEVEL, "level", name, error);
}

const LmtL2Ops *
lmt_registry_get_l2 (LmtRegistry *registry, const char *type, GError **error)
{
  g_return_val_if_fail (LMT_IS_REGISTRY (registry) && type != NULL, NULL);
  return get_ops (registry, LMT_ENTRY_L2, "l2", type, error);
}

const LmtCommandOps *
lmt_registry_get_command (LmtRegistry *registry, const char *name, GError **error)
{
  g_return_val_if_fail (LMT_IS_REGISTRY (registry) && name != NULL, NULL);
  return get_ops (registry, LMT_ENTRY_COMMAND, "cmd", name, error);
}

const LmtCodecOps *
lmt_registry_peek_codec (LmtRegistry *registry, const char *tag, gsize len)
{
  LmtEntry *entry = find (registry, LMT_ENTRY_CODEC, NULL, tag, len);

  return entry != NULL ? entry->ops : NULL;
}

const char **
lmt_registry_list_levels (LmtRegistry *registry)
{
  g_return_val_if_fail (LMT_IS_REGISTRY (registry), NULL);
  return list_names (registry, LMT_ENTRY_LEVEL);
}

const char **
lmt_registry_list_l2 (LmtRegistry *registry)
{
  g_return_val_if_fail (LMT_IS_REGISTRY (registry), NULL);
  return list_names (registry, LMT_ENTRY_L2);
}

const char **
lmt_registry_list_commands (LmtRegistry *registry)
{
  g_return_val_if_fail (LMT_IS_REGISTRY (registry), NULL);
  return list_names (registry, LMT_ENTRY_COMMAND);
}

const char **
lmt_registry_list_codecs (LmtRegistry *registry)
{
  g_return_val_if_fail (LMT_IS_REGISTRY (registry), NULL);
  return list_names (registry, LMT_ENTRY_CODEC);
}

static int
compare_handlers (gconstpointer a, gconstpointer b)
{
  return strcmp ((*(const LmtHandlerOps *const *)a)->qualname, (*(const LmtHandlerOps *const *)b)->qualname);
}

GPtrArray *
lmt_registry_list_handlers (LmtRegistry *registry, const char *level)
{
  GPtrArray *handlers = g_ptr_array_new ();
  GPtrArray *entries;

  g_return_val_if_fail (LMT_IS_REGISTRY (registry), handlers);
  entries = registry->entries[LMT_ENTRY_HANDLER];
  for (guint i = 0; i < entries->len; i++)
    {
      LmtEntry *entry = entries->pdata[i];

      if (strcmp (entry->level, level) == 0)
        g_ptr_array_add (handlers, entry->ops);
    }
  g_ptr_array_sort (handlers, compare_handlers);
  return handlers;
}

LmtPluginInfo *
lmt_registry_get_owner (LmtRegistry *registry, const char *kind, const char *name)
{
  g_return_val_if_fail (LMT_IS_REGISTRY (registry) && kind != NULL && name != NULL, NULL);
  for (guint k = 0; k < LMT_ENTRY_N_KINDS; k++)
    if (strcmp (lmt_entry_kinds[k].key, kind) == 0)
      for (guint i = 0; i < registry->entries[k]->len; i++)
        {
          LmtEntry *entry = registry->entries[k]->pdata[i];

          if (strcmp (entry->name, name) == 0)
            return entry->owner;
        }
  return strcmp (kind, "l2") == 0 ? lmt_registry_get_owner (registry, "alias", name) : NULL;
}

void
lmt_registry_foreach (LmtRegistry *registry, LmtPluginInfo *owner, LmtRegistryVisit visit, gpointer user_data)
{
  g_return_if_fail (LMT_IS_REGISTRY (registry));
  for (guint k = 0; k < LMT_ENTRY_N_KINDS; k++)
    for (guint i = 0; i < registry->entries[k]->len; i++)
      {
        LmtEntry *entry = registry->entries[k]->pdata[i];

        if (owner == NULL || entry->owner == owner)
          visit (lmt_entry_kinds[k].key, entry->name, entry->level, entry->ops, user_data);
      }
}

/* -------- plugins -------- */

gboolean
lmt_registry_load_builtin (LmtRegistry *registry, const char *name, gboolean (*load) (LmtRegistrar *, GError **), GError **error)
{
  g_autoptr (LmtPluginInfo) info = NULL;

  g_return_val_if_fail (LMT_IS_REGISTRY (registry) && name != NULL && load != NULL, FALSE);
  info = lmt_plugin_info_new ("builtin");
  info->name = name;
  info->version = LMT_VERSION;
  info->licence = "Apache-2.0";
  info->summary = "Linked into the program";
  info->abi = LMT_PLUGIN_ABI;
  if (!lmt_registry_run_load (registry, info, load, error))
    return FALSE;
  info->state = LMT_PLUGIN_LOADED;
  g_ptr_array_add (registry->plugins, g_object_ref (info));
  lmt_registry_announce (registry, info);
  return TRUE;
}

GPtrArray *
lmt_registry_list_plugins (LmtRegistry *registry)
{
  GPtrArray *list = g_ptr_array_new_with_free_func (g_object_unref);

  g_return_val_if_fail (LMT_IS_REGISTRY (registry), list);
  lmt_registry_scan (registry);
  for (guint i = 0; i < registry->plugins->len; i++)
    g_ptr_array_add (list, g_object_ref (registry->plugins->pdata[i]));
  return list;
}
