/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "work-drive.h"

G_BEGIN_DECLS

/* The commands, with option tables made of their own rows and those of `replay` that describe a manager and a recording. */
const LmtCommandOps *work_record_ops (void);
const LmtCommandOps *work_import_ops (void);

/**
 * WorkLine: the command line as the storage level wants it: all of storage_options, of which the command took only some.
 */
typedef struct
{
  LmtOptions *options;
  StorageFlags flags;
} WorkLine;

/* @own: rows of the command; @first_flags: where StorageFlags begin in its config. (transfer full): g_free() */
LmtOption *work_options_table (const LmtOption *own, gsize first_flags);
/* Copies what the line says. */
void work_line_init (WorkLine *line, const LmtOptions *given, const StorageFlags *flags);
/* What a workload needs and neither line nor file gave: 64 GiB of L1, LRU, level storage and a buffer for its largest call. */
void work_line_set_defaults (WorkLine *line);
void work_line_clear (WorkLine *line);

G_END_DECLS
