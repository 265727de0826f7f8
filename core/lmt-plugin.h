/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/**
 * SECTION: the only header a plugin includes. One exported symbol, lmt_plugin_get(), made by LMT_PLUGIN_DEFINE.
 *
 * Border structs: struct_size first; fixed-width integers, doubles and pointers only; fields are only ever appended; a NULL callback
 * means "as before it existed". The core copies MIN (struct_size, sizeof) bytes on registration and calls the copy only. load()
 * registers and nothing else. Strings handed over live as long as the process. Modules are never unmapped.
 */
#include "lmt-codec.h"
#include "lmt-command.h"
#include "lmt-cursor.h"
#include "lmt-error.h"
#include "lmt-evict.h"
#include "lmt-handler.h"
#include "lmt-hash.h"
#include "lmt-header.h"
#include "lmt-json.h"
#include "lmt-key.h"
#include "lmt-l2-layer.h"
#include "lmt-l2.h"
#include "lmt-level.h"
#include "lmt-log.h"
#include "lmt-option.h"
#include "lmt-pacer.h"
#include "lmt-pages.h"
#include "lmt-record.h"
#include "lmt-registry.h"
#include "lmt-replay.h"
#include "lmt-report.h"
#include "lmt-select.h"
#include "lmt-stats.h"

G_BEGIN_DECLS

#define LMT_PLUGIN_ABI 1

/**
 * LmtPluginDescriptor: what lmt_plugin_get() returns. struct_size and abi never move.
 * @load: calls lmt_registrar_add_…() and does nothing else. FALSE with an error: nothing of the plugin stays, it is listed as refused
 * @unload: (nullable): frees memory of the plugin's own when the registry goes; the code stays mapped
 */
typedef struct
{
  guint32 struct_size;
  guint32 abi;
  const char *name;    /* `[a-z][a-z0-9_-]*`; of two plugins of one name the first found wins */
  const char *version; /* any text; shown by list-plugins and check-adapter */
  const char *licence; /* SPDX */
  const char *summary; /* one line, no final stop */
  gboolean (*load) (LmtRegistrar *registrar, GError **error);
  void (*unload) (void);
} LmtPluginDescriptor;

/* Each hands over one table. FALSE: refused (name taken, table too short, required callback missing); return FALSE from load, then. The table is
 * copied; strings and tables it points to live as long as the process. Only inside load, on its thread. */
gboolean lmt_registrar_add_level (LmtRegistrar *registrar, const LmtLevelOps *ops, GError **error);
gboolean lmt_registrar_add_handler (LmtRegistrar *registrar, const LmtHandlerOps *ops, GError **error);
gboolean lmt_registrar_add_codec (LmtRegistrar *registrar, const LmtCodecOps *ops, GError **error);
gboolean lmt_registrar_add_l2 (LmtRegistrar *registrar, const LmtL2Ops *ops, GError **error);
gboolean lmt_registrar_add_command (LmtRegistrar *registrar, const LmtCommandOps *ops, GError **error);

/* The one exported symbol of a plugin, at the end of its file:
 * LMT_PLUGIN_DEFINE ("l2-mine", "0.1.0", "Apache-2.0", "Objects on my device", mine_load, NULL) */
#define LMT_PLUGIN_DEFINE(name_, version_, licence_, summary_, load_, unload_)                                                   \
  G_BEGIN_DECLS                                                                                                                  \
  __attribute__ ((visibility ("default"))) const LmtPluginDescriptor *lmt_plugin_get (void);                                     \
  const LmtPluginDescriptor *lmt_plugin_get (void)                                                                               \
  {                                                                                                                              \
    static const LmtPluginDescriptor descriptor                                                                                  \
        = { sizeof (LmtPluginDescriptor), LMT_PLUGIN_ABI, name_, version_, licence_, summary_, load_, unload_ };                 \
    return &descriptor;                                                                                                          \
  }                                                                                                                              \
  G_END_DECLS

G_END_DECLS
