// SPDX-License-Identifier: Apache-2.0
/* Everything this plugin offers: the level `storage`, one handler per traced call, one codec per tag; the commands `record` and
 * `import`, for which links of their names lie beside the file. */
#include "storage-session.h"
#include "workload/work-command.h"

static gboolean
storage_load (LmtRegistrar *registrar, GError **error)
{
  if (!lmt_registrar_add_level (registrar, &storage_level, error))
    return FALSE;
  for (guint i = 0; i < storage_n_handlers; i++)
    if (!lmt_registrar_add_handler (registrar, &storage_handlers[i], error))
      return FALSE;
  return sm_codecs_register (registrar, error) && lmt_registrar_add_command (registrar, work_record_ops (), error)
         && lmt_registrar_add_command (registrar, work_import_ops (), error);
}

LMT_PLUGIN_DEFINE ("level-storage", LMT_VERSION, "Apache-2.0", "Replays StorageManager traces", storage_load, NULL)
