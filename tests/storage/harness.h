/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <lmtrace/lmt-plugin.h>
#include <lmtrace/lmt-reader.h>

G_BEGIN_DECLS

/**
 * Harness: one replay of one file in this process, from words as on the command line: for tests that look inside a run. What
 * `lmtrace replay` does around it (reports, outputs, exit codes) isn't here.
 */
typedef struct
{
  LmtRegistry *registry;
  const LmtLevelOps *level;
  LmtLevelOps timed; /* a copy whose finish() notes the processor time first */
  gint64 cpu_ns;     /* of this thread, for the records alone */
  LmtReader *reader;
  LmtOptions *options;
  gpointer flags;
  LmtWarnings *warnings;
  LmtReplay *replay;
  LmtReplayEnv env;
  const LmtHeader *headers[1];
  LmtReplayPlan plan;
  gpointer session;
  gint interrupts;

  /* over the harness's own options */
  double speed;
  gint64 max_gap_ns;
  guint64 limit;
  guint64 loops;
  gint64 drain_timeout_ns;
  guint32 dry_run;
} Harness;

/* @argv: options and one FILE; @clock: NULL: the real one. */
gboolean harness_open (Harness *harness, const char *const *argv, const LmtClock *clock, GError **error);
gboolean harness_run (Harness *harness, GError **error);
/* The level's sections, as text. (transfer full) */
char *harness_report (Harness *harness, gboolean json);
void harness_close (Harness *harness);

G_END_DECLS
