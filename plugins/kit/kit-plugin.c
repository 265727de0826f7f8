// SPDX-License-Identifier: Apache-2.0
/* The kit for people who write adapters: three commands, found as lmt-cmd-check-adapter.so and by links of the other two names.
 */
#include "kit.h"

static gboolean
kit_load (LmtRegistrar *registrar, GError **error)
{
  return lmt_registrar_add_command (registrar, &kit_check_ops, error)
         && lmt_registrar_add_command (registrar, &kit_bench_ops, error)
         && lmt_registrar_add_command (registrar, &kit_new_ops, error);
}

LMT_PLUGIN_DEFINE ("kit", LMT_VERSION, "Apache-2.0", "Check, measure and begin adapters and other plugins", kit_load, NULL)
