/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <lmtrace/lmt-replay.h>

G_BEGIN_DECLS

/**
 * CliProgress: how far a command is (cli.md 8.9). On a terminal one line on stderr, redrawn at most ten times a second, cut to
 * the window, removed at the end; elsewhere a log line every @interval. It steps aside for log lines. Not for several threads;
 * one at a time.
 */
typedef struct _CliProgress CliProgress;

/**
 * CliProgressState: what is shown.
 * @total: 0: not known, then @position of @size bytes is shown
 * @lag_ns: below 0: no lag shown
 * @figure: (nullable): a word of the level's: `L2 depth 12`
 * @eta_s: below 0: from the rate
 */
typedef struct
{
  guint64 done;
  guint64 total;
  guint64 position;
  guint64 size;
  gint64 lag_ns;
  gint64 lag_p99_ns;
  guint64 errors;
  const char *figure;
  double eta_s;
} CliProgressState;

/* @label: `replay run.lct`, copied. @mode: auto, always, never. @interval_ns: of the log line; 0: 10 s. */
CliProgress *cli_progress_new (const char *label, const char *mode, gboolean quiet, gint64 interval_ns);
/* Removes the line. */
void cli_progress_free (CliProgress *progress);
/* Is it time to draw? Cheap; ask before the figures are gathered. */
gboolean cli_progress_is_due (CliProgress *progress);
void cli_progress_draw (CliProgress *progress, const CliProgressState *state);
/* The text of the line, cut to @columns cells (0: not cut); for tests and for the log. (transfer full) */
char *cli_progress_format (const char *label, const CliProgressState *state, double rate_per_s, guint columns);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (CliProgress, cli_progress_free)

G_END_DECLS
