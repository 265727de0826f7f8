/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib-object.h>

#include "lmt-command.h"
#include "lmt-l2.h"
#include "lmt-level.h"

G_BEGIN_DECLS

/**
 * LmtRegistry: everything plugins registered: levels, handlers, codecs, L2 adapters, commands; and the plugins themselves.
 * Signals: `plugin-added` (LmtPluginInfo), `plugin-refused` (LmtPluginInfo). Main thread only; frozen copies serve the loops.
 * Tables it hands out are its own copies and live as long as it does; strings in them as long as the process. Plugins are opened
 * when a name is asked for, bound at once and never unmapped.
 *
 * Since: 0.1
 */
#define LMT_TYPE_REGISTRY (lmt_registry_get_type ())
G_DECLARE_FINAL_TYPE (LmtRegistry, lmt_registry, LMT, REGISTRY, GObject)

typedef enum
{
  LMT_PLUGIN_LOADED,
  LMT_PLUGIN_REFUSED,
  LMT_PLUGIN_SHADOWED,
  LMT_PLUGIN_NOT_OPENED,
} LmtPluginState;

#define LMT_TYPE_PLUGIN_INFO (lmt_plugin_info_get_type ())
G_DECLARE_FINAL_TYPE (LmtPluginInfo, lmt_plugin_info, LMT, PLUGIN_INFO, GObject)
/* All texts: (transfer none), alive with @info; "" where the plugin doesn't say. */
const char *lmt_plugin_info_get_name (LmtPluginInfo *info); /* "" while not opened */
const char *lmt_plugin_info_get_path (LmtPluginInfo *info); /* "builtin" for core's own */
const char *lmt_plugin_info_get_version (LmtPluginInfo *info);
const char *lmt_plugin_info_get_licence (LmtPluginInfo *info);
const char *lmt_plugin_info_get_summary (LmtPluginInfo *info);
guint lmt_plugin_info_get_abi (LmtPluginInfo *info);
LmtPluginState lmt_plugin_info_get_state (LmtPluginInfo *info);
const char *lmt_plugin_info_get_reason (LmtPluginInfo *info); /* (nullable): why refused, or the path that shadows it */

/* (transfer full): empty; opens nothing. */
LmtRegistry *lmt_registry_new (void);

/* Searched in the order given, before LMTRACE_PLUGIN_PATH, the user's and the installed folder. */
void lmt_registry_add_dir (LmtRegistry *registry, const char *dir);
/* FALSE: only the folders of lmt_registry_add_dir() (`--no-default-plugins`). Default TRUE. */
void lmt_registry_set_default_dirs (LmtRegistry *registry, gboolean use);
/* (transfer full): all folders in their order. */
char **lmt_registry_get_dirs (LmtRegistry *registry);

/* --plugin: opens now; a refusal is an error. */
gboolean lmt_registry_load_file (LmtRegistry *registry, const char *path, GError **error);
/* Opens every file of every folder; refusals are listed, not errors. */
void lmt_registry_load_all (LmtRegistry *registry);
/* Tables linked into the program, listed with the path "builtin". @load as in LmtPluginDescriptor. */
typedef struct _LmtRegistrar LmtRegistrar;
gboolean lmt_registry_load_builtin (LmtRegistry *registry, const char *name, gboolean (*load) (LmtRegistrar *, GError **),
                                    GError **error);

/* Each opens lmt-level-NAME.so, lmt-l2-NAME.so, lmt-cmd-NAME.so where the name isn't known yet, then the rest before giving up.
 * The error lists what is known and the folders searched, and a refused plugin's own reason. */
const LmtLevelOps *lmt_registry_get_level (LmtRegistry *registry, const char *name, GError **error);
const LmtL2Ops *lmt_registry_get_l2 (LmtRegistry *registry, const char *type, GError **error);
const LmtCommandOps *lmt_registry_get_command (LmtRegistry *registry, const char *name, GError **error);
/* (transfer none) (nullable): among what is loaded; opens nothing. @tag need not be terminated. */
const LmtCodecOps *lmt_registry_peek_codec (LmtRegistry *registry, const char *tag, gsize len);
/* NULL-terminated, sorted; (transfer container). What is registered now. */
const char **lmt_registry_list_levels (LmtRegistry *registry);
const char **lmt_registry_list_l2 (LmtRegistry *registry); /* names and aliases */
const char **lmt_registry_list_commands (LmtRegistry *registry);
const char **lmt_registry_list_codecs (LmtRegistry *registry);
/* Handlers of a level, sorted by qualname; (transfer container) (element-type LmtHandlerOps). */
GPtrArray *lmt_registry_list_handlers (LmtRegistry *registry, const char *level);
GPtrArray *lmt_registry_list_plugins (LmtRegistry *registry); /* (element-type LmtPluginInfo) (transfer container) */
/**
 * LmtRegistryVisit:
 * @kind: "level" "handler" "codec" "l2" "alias" "command"
 * @name: name, qualname or tag
 * @level: (nullable): of a handler
 * @ops: the registry's copy of the table; of an alias that of its adapter
 */
typedef void (*LmtRegistryVisit) (const char *kind, const char *name, const char *level, gconstpointer ops, gpointer user_data);
/* Everything registered now by @owner (NULL: by anyone), in the order of registration, kind by kind. */
void lmt_registry_foreach (LmtRegistry *registry, LmtPluginInfo *owner, LmtRegistryVisit visit, gpointer user_data);
/* Which plugin registered it. @kind as above; "l2" finds aliases, too. (transfer none) (nullable) */
LmtPluginInfo *lmt_registry_get_owner (LmtRegistry *registry, const char *kind, const char *name);
/* Calls unload() of each plugin. Modules stay mapped. */
void lmt_registry_unload (LmtRegistry *registry);

G_END_DECLS
