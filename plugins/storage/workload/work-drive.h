/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <lmtrace/lmt-command.h>

#include "../storage-session.h"
#include "work-source.h"

G_BEGIN_DECLS

/**
 * WorkParams: what a run of requests is to be.
 * @context: of the command: signals, progress, quiet
 * @options, @flags: all of storage_options, checked, with origins
 * @inputs: names up to NULL that the output must not be
 * @requests, @duration_ns: no request is begun after so many, or when it would come later; 0: no such end
 */
typedef struct
{
  const LmtCommandContext *context;
  const LmtOptions *options;
  const StorageFlags *flags;
  const WorkShape *shape;
  WorkSource *source;
  const char *label;
  const char *const *inputs;
  gboolean real_clock;
  guint threads;
  guint64 requests;
  gint64 duration_ns;
  gboolean force;
} WorkParams;

/* Sums of a run. @span_ns: of the clock the requests went by; @took_ns: of the host's. */
typedef struct
{
  guint64 requests;
  guint64 requests_without_chunk;
  guint64 calls;
  guint64 failed; /* calls the manager refused by value */
  const char *first_failure;
  guint64 chunks_asked;
  guint64 chunks_hit;
  gint64 span_ns;
  gint64 took_ns;
  gboolean interrupted;
  gboolean write_failed;
} WorkFigures;

/**
 * WorkRun: requests driven through the doors of a StorageManager, and recorded. It is a session of the storage level that gets
 * its calls from a source instead of a file.
 */
typedef struct _WorkRun WorkRun;

/* Nothing is written or opened yet but what a refusal leaves no trace of; FALSE in @error: exit 2. */
WorkRun *work_run_new (const WorkParams *params, GError **error);
void work_run_free (WorkRun *run);
/* Opens the adapters, then the output. FALSE: exit 2. */
gboolean work_run_start (WorkRun *run, GError **error);
/* All requests; ends, drains, closes the output. */
void work_run_all (WorkRun *run);
const WorkFigures *work_run_get_figures (const WorkRun *run);
StorageSession *work_run_get_session (WorkRun *run);
/* Rows of the report that are the same for each command. */
void work_run_report (WorkRun *run, LmtReport *report);
int work_run_exit_code (const WorkRun *run);

G_END_DECLS
