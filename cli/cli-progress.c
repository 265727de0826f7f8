/* SPDX-License-Identifier: Apache-2.0 */
#include "cli-progress.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

struct _CliProgress
{
  char *label;
  gboolean redraw; /* a line in place; else log lines */
  gboolean off;
  gint64 period_us;
  gint64 next_us;
  gint64 last_us;
  guint64 last_done;
  guint64 last_position;
  double rate;
  char *shown; /* what stands on the terminal, or NULL */
  guint shown_cells;
};

/* The log writer's hooks carry no data: one progress at a time is what a terminal has room for. */
static CliProgress *current;

static guint
terminal_columns (void)
{
  struct winsize size = { 0 };
  if (ioctl (STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
    return size.ws_col;
  const char *columns = g_getenv ("COLUMNS");
  guint64 n = 0;
  if (columns != NULL && g_ascii_string_to_unsigned (columns, 10, 1, 10000, &n, NULL))
    return (guint)n;
  return 80;
}

static void
put (const char *text)
{
  gsize len = strlen (text);
  while (len > 0)
    {
      gssize n = write (STDERR_FILENO, text, len);
      if (n <= 0)
        return; /* a progress line isn't worth an error */
      text += n;
      len -= (gsize)n;
    }
}

static void
clear_line (CliProgress *progress)
{
  if (progress->shown == NULL)
    return;
  g_autofree char *blanks = g_strnfill (progress->shown_cells, ' ');
  g_autofree char *text = g_strconcat ("\r", blanks, "\r", NULL);
  put (text);
}

static void
before_log (void)
{
  if (current != NULL)
    clear_line (current);
}

static void
after_log (void)
{
  if (current != NULL && current->shown != NULL)
    put (current->shown);
}

CliProgress *
cli_progress_new (const char *label, const char *mode, gboolean quiet, gint64 interval_ns)
{
  CliProgress *progress = g_new0 (CliProgress, 1);
  gboolean always = g_strcmp0 (mode, "always") == 0;
  progress->label = g_utf8_make_valid (label, -1);
  progress->off = g_strcmp0 (mode, "never") == 0 || (quiet && !always);
  progress->redraw = always || (isatty (STDERR_FILENO) && g_strcmp0 (g_getenv ("TERM"), "dumb") != 0);
  progress->period_us = progress->redraw ? G_USEC_PER_SEC / 10 : interval_ns > 0 ? interval_ns / 1000 : 10 * G_USEC_PER_SEC;
  progress->last_us = g_get_monotonic_time ();
  progress->next_us = progress->last_us + progress->period_us;
  if (progress->redraw && !progress->off)
    {
      current = progress;
      lmt_log_set_hooks (before_log, after_log);
    }
  return progress;
}

void
cli_progress_free (CliProgress *progress)
{
  if (progress == NULL)
    return;
  if (current == progress)
    {
      clear_line (progress);
      lmt_log_set_hooks (NULL, NULL);
      current = NULL;
    }
  g_free (progress->shown);
  g_free (progress->label);
  g_free (progress);
}

gboolean
cli_progress_is_due (CliProgress *progress)
{
  return !progress->off && g_get_monotonic_time () >= progress->next_us;
}

static void
append_rate (GString *out, double rate, const char *unit)
{
  static const char *const steps[] = { "", "k", "M", "G", "T" };
  guint step = 0;
  while (rate >= 1000.0 && step + 1 < G_N_ELEMENTS (steps))
    {
      rate /= 1000.0;
      step++;
    }
  g_string_append_printf (out, "%.*f%s%s/s", step > 0 && rate < 100.0 ? 1 : 0, rate, steps[step], unit);
}

static void
append_eta (GString *out, double seconds)
{
  if (seconds < 0 || seconds > 1e9)
    return;
  guint64 s = (guint64)(seconds + 0.5);
  if (s >= 3600)
    g_string_append_printf (out, "  ETA %" G_GUINT64_FORMAT ":%02u:%02u", s / 3600, (guint)(s / 60 % 60), (guint)(s % 60));
  else
    g_string_append_printf (out, "  ETA %u:%02u", (guint)(s / 60), (guint)(s % 60));
}

/* Cells a character takes on a terminal. */
static guint
cells_of (gunichar c)
{
  return g_unichar_iszerowidth (c) ? 0 : g_unichar_iswide (c) ? 2 : 1;
}

static guint
cut_to_cells (GString *text, guint columns)
{
  guint cells = 0;
  for (const char *p = text->str; *p != '\0'; p = g_utf8_next_char (p))
    {
      guint n = cells_of (g_utf8_get_char (p));
      if (columns > 0 && cells + n > columns)
        {
          g_string_truncate (text, (gsize)(p - text->str));
          break;
        }
      cells += n;
    }
  return cells;
}

static GString *
build_line (const char *label, const CliProgressState *state, double rate)
{
  GString *out = g_string_new (label);
  gboolean by_records = state->total > 0;
  guint64 whole = by_records ? state->total : state->size;
  guint64 part = by_records ? state->done : state->position;

  /* A label is a file's name: no control character of it may reach the terminal. */
  for (char *p = out->str; *p != '\0'; p++)
    if ((guchar)*p < 0x20 || *p == 0x7f)
      *p = '?';
  if (whole > 0)
    g_string_append_printf (out, "  %u%%", (guint)MIN (100.0, (double)part * 100.0 / (double)whole));
  if (by_records)
    g_string_append_printf (out, " %" G_GUINT64_FORMAT "/%" G_GUINT64_FORMAT, state->done, state->total);
  else
    g_string_append_printf (out, " %" G_GUINT64_FORMAT " records", state->done);
  g_string_append (out, "  ");
  append_rate (out, rate, "");
  if (state->lag_ns >= 0)
    g_string_append_printf (out, "  lag %.1fms (p99 %.1fms)", (double)state->lag_ns / 1e6, (double)state->lag_p99_ns / 1e6);
  if (state->figure != NULL && *state->figure != '\0')
    g_string_append_printf (out, "  %s", state->figure);
  g_string_append_printf (out, "  errors %" G_GUINT64_FORMAT, state->errors);
  if (state->eta_s >= 0)
    append_eta (out, state->eta_s);
  else if (by_records && rate > 0 && state->total >= state->done)
    append_eta (out, (double)(state->total - state->done) / rate);
  return out;
}

char *
cli_progress_format (const char *label, const CliProgressState *state, double rate_per_s, guint columns)
{
  GString *out = build_line (label, state, rate_per_s);
  cut_to_cells (out, columns);
  return g_string_free (out, FALSE);
}

void
cli_progress_draw (CliProgress *progress, const CliProgressState *state)
{
  gint64 now = g_get_monotonic_time ();
  double seconds = (double)(now - progress->last_us) / 1e6;

  if (progress->off)
    return;
  if (seconds > 0)
    {
      double rate = (double)(state->done - MIN (progress->last_done, state->done)) / seconds;
      /* Smoothed, or a trace of bursts makes the figure unreadable. */
      progress->rate = progress->rate > 0 && progress->redraw ? 0.8 * progress->rate + 0.2 * rate : rate;
    }
  progress->last_us = now;
  progress->last_done = state->done;
  progress->next_us = now + progress->period_us;

  GString *line = build_line (progress->label, state, progress->rate);
  if (!progress->redraw)
    {
      g_message ("%s", line->str);
      g_string_free (line, TRUE);
      return;
    }
  guint columns = terminal_columns ();
  guint cells = cut_to_cells (line, columns > 1 ? columns - 1 : 1);
  guint old_cells = progress->shown_cells;
  if (progress->shown == NULL)
    old_cells = 0;
  g_string_prepend_c (line, '\r');
  g_free (progress->shown);
  progress->shown = g_strdup (line->str);
  progress->shown_cells = cells;
  /* Blanks over the rest of a longer line: no escape sequence, so any terminal will do. A window made narrower meanwhile wraps
   * once. */
  for (guint i = cells; i < MIN (old_cells, columns > 1 ? columns - 1 : 1); i++)
    g_string_append_c (line, ' ');
  put (line->str);
  g_string_free (line, TRUE);
}
