// SPDX-License-Identifier: Apache-2.0
#include "events-info.h"

/* Traces of this level go to a coordinator, not to a storage manager: `replay` names the command. */
static const LmtLevelOps events_level = {
  .struct_size = sizeof (LmtLevelOps),
  .threads = LMT_THREADS_PER_HANDLE,
  .name = "events",
  .summary = "Cache events for a coordinator",
  .replay_command = "replay-events",
  .info_new = events_info_new,
  .info_record = events_info_record,
  .info_finish = events_info_finish,
  .info_select = events_info_select,
  .info_walk = events_info_walk,
  .info_free = events_info_free,
};

static gboolean
events_load (LmtRegistrar *registrar, GError **error)
{
  return lmt_registrar_add_level (registrar, &events_level, error);
}

LMT_PLUGIN_DEFINE ("level-events", "0.1.0", "Apache-2.0", "Level events: cache events for a coordinator", events_load, NULL)
