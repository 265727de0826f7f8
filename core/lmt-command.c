/* SPDX-License-Identifier: Apache-2.0 */
#include "lmt-command.h"

gpointer
lmt_command_context_get_prepared (const LmtCommandContext *context)
{
  g_return_val_if_fail (context != NULL, NULL);
  return context->prepared;
}
