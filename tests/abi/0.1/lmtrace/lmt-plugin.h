/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/**
 * SECTION: the only header a plugin includes. One exported symbol, lmt_plugin_get(), made by LMT_PLUGIN_DEFINE.
 *
 * Border structs: struct_size first; fixed-width integers, doubles and pointers only; fields are only ever appended; a NULL
 * callback means "as before it existed". The core copies MIN (struct_size, sizeof) bytes on registration and calls the copy only.
 * load() registers and nothing else. Strings handed over live as long as the process. Modules are never unmapped.
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
 * @struct_size: bytes of this struct as the plugin knows it; @abi: %LMT_PLUGIN_ABI of its headers
 * @name: of the plugin, not of what it offers: a second file with the same name is listed as shadowed
 * @version, @licence, @summary: shown by `list-plugins`; @summary is one sentence without a final stop (nullable)
 * @load: registers, and nothing else: no file, thread, socket or option. FALSE with @error set: nothing of it stays. Main thread,
 *   once per registry
 * @unload: (nullable): frees memory when the registry goes; the module stays mapped. Main thread
 *
 * Since: 0.1
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

/**
 * lmt_registrar_add_level, _handler, _codec, _l2, _command:
 * @registrar: what load() was given; dead when load() returns
 * @ops: (transfer none): MIN (struct_size, sizeof) bytes are copied now; strings, option tables and functions in it must live as
 *   long as the process
 *
 * Stages one table; it counts when load() returns TRUE. Threads: inside load(), on its thread.
 * Errors: %LMT_ERROR_PLUGIN_TABLE for a table that is too short, a bad name or a required member that is NULL;
 * %LMT_ERROR_PLUGIN_CLASH for a name, qualname or tag somebody has. Return FALSE from load() with @error as it is: the registry
 * puts the file's path in front.
 *
 * Since: 0.1
 */
gboolean lmt_registrar_add_level (LmtRegistrar *registrar, const LmtLevelOps *ops, GError **error);
gboolean lmt_registrar_add_handler (LmtRegistrar *registrar, const LmtHandlerOps *ops, GError **error);
gboolean lmt_registrar_add_codec (LmtRegistrar *registrar, const LmtCodecOps *ops, GError **error);
gboolean lmt_registrar_add_l2 (LmtRegistrar *registrar, const LmtL2Ops *ops, GError **error);
gboolean lmt_registrar_add_command (LmtRegistrar *registrar, const LmtCommandOps *ops, GError **error);

/**
 * LMT_PLUGIN_DEFINE: the one exported symbol; the last line of a plugin's one registering file. @load_ as above, @unload_ or
 * NULL: LMT_PLUGIN_DEFINE ("l2-mine", "0.1.0", "Apache-2.0", "Objects on my device", mine_load, NULL)
 */
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
