/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

G_BEGIN_DECLS

/**
 * SECTION: log lines go to stderr: `lmtrace: LEVEL: MESSAGE`; with level debug, time and domain too; format json: one object a
 * line. A plugin calls GLib's g_debug (for its author), g_info (what was chosen and why), g_message (the user should know),
 * g_warning (the result is affected), g_critical (a mistake in the program), with a G_LOG_DOMAIN of its own such as
 * `lmtrace-l2-mine`; never g_error, never per record or operation. What can come often goes to lmt_warnings_add(), or to
 * LmtL2Host.message in an adapter. stdout is for results.
 *
 * Threads: lines may come from any; the lmt_log_set_… are the program's, from main before others run. Source: structured logging
 * of GLib.
 *
 * Since: 0.1
 */
typedef enum
{
  LMT_LOG_ERROR,
  LMT_LOG_WARNING,
  LMT_LOG_MESSAGE,
  LMT_LOG_INFO,
  LMT_LOG_DEBUG
} LmtLogLevel;
typedef enum
{
  LMT_COLOR_AUTO,
  LMT_COLOR_ALWAYS,
  LMT_COLOR_NEVER
} LmtColor;

/* The writer of all GLib log lines of the process from now on. For programs, once, first thing in main(); not for plugins. */
void lmt_log_install (void);
void lmt_log_set_level (LmtLogLevel level); /* default: message */
LmtLogLevel lmt_log_get_level (void);
/* error warning message info debug, any case; FALSE: another word, *level untouched. */
gboolean lmt_log_level_from_text (const char *text, LmtLogLevel *level);
void lmt_log_set_color (LmtColor color);
/* May words on @fd be coloured? --color beats NO_COLOR and TERM; auto: only a terminal that is not dumb. Results never are. */
gboolean lmt_log_use_color (int fd);
void lmt_log_set_json (gboolean json);
/* The one line of a failed command: `lmtrace: TEXT`. */
void lmt_log_failure (const char *text);
/* Called before a line is printed and after, so that a progress line can step aside. */
void lmt_log_set_hooks (void (*before) (void), void (*after) (void));

/**
 * LmtWarnings: at most ten shown of a kind, the rest counted; also the `warnings` of a JSON envelope. @kind is a word
 * (`malformed`), @message a whole sentence with its numbers; both are copied. Any thread may add, under a lock: not for the loop.
 * Commands get theirs in LmtCommandContext, levels in LmtReplayEnv. A NULL @warnings shows and counts nothing.
 *
 * Since: 0.1
 */
typedef struct _LmtWarnings LmtWarnings;
LmtWarnings *lmt_warnings_new (void);
void lmt_warnings_free (LmtWarnings *warnings);
void lmt_warnings_add (LmtWarnings *warnings, const char *kind, const char *message);
/* @n more of a kind that was added before, whose messages somebody else has held back: counted, never shown. */
void lmt_warnings_add_count (LmtWarnings *warnings, const char *kind, guint64 n);
guint64 lmt_warnings_count (const LmtWarnings *warnings, const char *kind); /* NULL: all */
/* One line `KIND: N more` for kinds with more than ten. Called once at the end. */
void lmt_warnings_flush (LmtWarnings *warnings);
void lmt_warnings_foreach (const LmtWarnings *warnings,
                           void (*func) (const char *kind, const char *first_message, guint64 count, gpointer data),
                           gpointer data);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LmtWarnings, lmt_warnings_free)

G_END_DECLS
