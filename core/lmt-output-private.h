/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "lmt-output.h"

G_BEGIN_DECLS

/* A write to stdout that wasn't lmt_output_stdout()'s failed since its reader is gone. */
void lmt_output_note_stdout_closed (void);

G_END_DECLS
