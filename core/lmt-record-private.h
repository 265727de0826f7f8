/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "lmt-record.h"

G_BEGIN_DECLS

/* lmt_record_split(), with somebody who may look at the args himself; @walk: (nullable). Asked only for a record in the usual
 * form, whose qualname stands before its args. */
gboolean lmt_record_split_walking (LmtSpan body, LmtRecord *record, LmtArgsWalk walk, gpointer data, LmtFault *fault);

G_END_DECLS
