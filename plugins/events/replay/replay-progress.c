// SPDX-License-Identifier: Apache-2.0
/* R21. One line on a terminal, a log line now and then elsewhere; it steps aside for log lines. */
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "replay.h"

#define REDRAW_NS 100000000
#define INTERVAL_NS G_GINT64_CONSTANT (10000000000)

struct _ReplayProgress
{
  gboolean redraw;
  gint64 period_ns;
  gint64 next_ns;
  gint64 last_ns;
  guint64 last_batches, last_bytes, last_done;
  double batch_rate, byte_rate, record_rate;
  char *shown;
};

static ReplayProgress *current;

static void
put (const char *text)
{
  if (write (STDERR_FILENO, text, strlen (text)) < 0)
    return; /* a terminal that went: the run goes on */
}

static void
clear_line (void)
{
  if (current == NULL || current->shown == NULL)
    return;
  g_autofree char *blanks = g_strnfill (strlen (current->shown), ' ');
  g_autofree char *text = g_strconcat ("\r", blanks, "\r", NULL);
  put (text);
}

static void
show_again (void)
{
  if (current != NULL && current->shown != NULL)
    put (current->shown);
}

ReplayProgress *
replay_progress_new (const char *mode, gboolean quiet, gint64 interval_ns)
{
  gboolean always = g_strcmp0 (mode, "always") == 0;
  if (g_strcmp0 (mode, "never") == 0 || (quiet && !always))
    return NULL;
  ReplayProgress *progress = g_new0 (ReplayProgress, 1);
  progress->redraw = always || (isatty (STDERR_FILENO) && g_strcmp0 (g_getenv ("TERM"), "dumb") != 0);
  progress->period_ns = progress->redraw ? REDRAW_NS : interval_ns > 0 ? interval_ns : INTERVAL_NS;
  progress->last_ns = lmt_clock_now (lmt_clock_real ());
  progress->next_ns = progress->last_ns + progress->period_ns;
  if (progress->redraw)
    {
      current = progress;
      lmt_log_set_hooks (clear_line, show_again);
    }
  return progress;
}

void
replay_progress_free (ReplayProgress *progress)
{
  if (progress == NULL)
    return;
  if (current == progress)
    {
      clear_line ();
      lmt_log_set_hooks (NULL, NULL);
      current = NULL;
    }
  g_free (progress->shown);
  g_free (progress);
}

gboolean
replay_progress_is_due (ReplayProgress *progress, gint64 now_ns)
{
  return now_ns >= progress->next_ns;
}

/* Smoothed, or bursts make a figure unreadable. */
static double
rate_of (double before, guint64 now, guint64 last, double seconds)
{
  double rate = seconds > 0 ? (double)(now - MIN (last, now)) / seconds : 0;
  return before > 0 ? 0.8 * before + 0.2 * rate : rate;
}

static guint
columns (void)
{
  struct winsize size;
  if (ioctl (STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1)
    return size.ws_col;
  return 80;
}

void
replay_progress_draw (ReplayProgress *progress, const ReplayProgressState *state, gint64 now_ns)
{
  double seconds = (double)(now_ns - progress->last_ns) / 1e9;
  g_autoptr (GString) line = g_string_new ("replay-events");
  progress->batch_rate = rate_of (progress->batch_rate, state->batches, progress->last_batches, seconds);
  progress->byte_rate = rate_of (progress->byte_rate, state->bytes, progress->last_bytes, seconds);
  progress->record_rate = rate_of (progress->record_rate, state->done, progress->last_done, seconds);
  progress->last_batches = state->batches;
  progress->last_bytes = state->bytes;
  progress->last_done = state->done;
  progress->last_ns = now_ns;
  progress->next_ns = now_ns + progress->period_ns;
  if (state->total > 0)
    g_string_append_printf (line, "  %u%%", (guint)MIN (100, state->done * 100 / state->total));
  g_string_append_printf (line, " %" G_GUINT64_FORMAT "/%" G_GUINT64_FORMAT " records  %.0f batches/s  %.1f MB/s", state->done,
                          state->total, progress->batch_rate, progress->byte_rate / 1e6);
  if (state->lag_ns >= 0)
    g_string_append_printf (line, "  lag %.1f ms", (double)state->lag_ns / 1e6);
  if (progress->record_rate > 0 && state->total >= state->done)
    {
      guint64 left = (guint64)((double)(state->total - state->done) / progress->record_rate + 0.5);
      g_string_append_printf (line, "  ETA %" G_GUINT64_FORMAT ":%02u", left / 60, (guint)(left % 60));
    }
  if (!progress->redraw)
    {
      g_message ("%s", line->str);
      return;
    }
  g_string_truncate (line, MIN (line->len, columns () - 1));
  g_autofree char *old = g_steal_pointer (&progress->shown);
  gsize cells = line->len;
  g_string_prepend_c (line, '\r');
  progress->shown = g_strdup (line->str);
  for (gsize i = cells + 1; old != NULL && i < strlen (old); i++)
    g_string_append_c (line, ' ');
  put (line->str);
}
