/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What lmt-registry.c (tables, registrar) and lmt-plugin.c (files, loader) share. */
#include <gmodule.h>

#include "lmt-plugin.h"

G_BEGIN_DECLS

typedef enum
{
  LMT_ENTRY_LEVEL,
  LMT_ENTRY_HANDLER,
  LMT_ENTRY_CODEC,
  LMT_ENTRY_L2,
  LMT_ENTRY_ALIAS, /* another name of an adapter; shares its table */
  LMT_ENTRY_COMMAND,
  LMT_ENTRY_N_KINDS
} LmtEntryKind;

/* One registered name. Strings are the plugin's and live as long as the process; the table is our copy. */
typedef struct
{
  LmtEntryKind kind;
  gboolean owns_ops;
  const char *name;  /* name, qualname or tag */
  const char *level; /* handlers: of which level; else NULL */
  gsize name_len;
  gpointer ops;
  LmtPluginInfo *owner; /* borrowed from the list of plugins */
} LmtEntry;

typedef struct
{
  const char *key;  /* of the public functions */
  const char *noun; /* in messages */
  guint32 size;
  guint32 least; /* smallest struct_size accepted */
} LmtEntryKindInfo;
extern const LmtEntryKindInfo lmt_entry_kinds[LMT_ENTRY_N_KINDS];

/* (nullable): @level NULL but for handlers */
LmtEntry *lmt_entry_find (GPtrArray *entries, LmtEntryKind kind, const char *level, const char *name, gsize len);

struct _LmtPluginInfo
{
  GObject parent;
  const char *name; /* the plugin's strings */
  const char *version;
  const char *licence;
  const char *summary;
  char *path;
  char *reason;
  GPtrArray *file_names; /* all base names under which this file was met */
  guint abi;
  LmtPluginState state;
  guint64 device;
  guint64 inode;
  void (*unload) (void);
};

struct _LmtRegistry
{
  GObject parent;
  GPtrArray *entries[LMT_ENTRY_N_KINDS];
  GPtrArray *plugins; /* in the order of search */
  GPtrArray *dirs;
  gboolean default_dirs;
  gboolean scanned;
};

/* Collects what load() registers; nothing is visible before it is committed. */
struct _LmtRegistrar
{
  LmtRegistry *registry;
  LmtPluginInfo *info;
  GPtrArray *staged;
  GError *first_error; /* sticks, so that a load() which ignores it is refused all the same */
};

void lmt_entry_free (gpointer entry);
gboolean lmt_name_is_valid (const char *name);

LmtPluginInfo *lmt_plugin_info_new (const char *path);
/* Runs load() and commits, or leaves no trace. */
gboolean lmt_registry_run_load (LmtRegistry *registry, LmtPluginInfo *info, gboolean (*load) (LmtRegistrar *, GError **),
                                GError **error);
void lmt_registry_announce (LmtRegistry *registry, LmtPluginInfo *info);
/* Lists the files of all folders, opens none. */
void lmt_registry_scan (LmtRegistry *registry);
/* Opens the files called @file_name, in the order of search, until one loads. */
void lmt_registry_open_named (LmtRegistry *registry, const char *file_name);

G_END_DECLS
