/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

G_BEGIN_DECLS

/**
 * Log lines go to stderr: `lmtrace: LEVEL: MESSAGE`; with level debug, time and domain too; format json: one object a line
 * (cli.md 8.4). GLib's g_debug/g_info/g_message/g_warning/g_critical are the calls; this installs the writer. Never per record.
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

void lmt_log_install (void);
void lmt_log_set_level (LmtLogLevel level); /* default: message */
LmtLogLevel lmt_log_get_level (void);
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
 * LmtWarnings: at most ten shown of a kind, the rest counted; also the `warnings` of a JSON envelope. Kinds are words
 * (`malformed`). Any thread may add. A NULL @warnings shows and counts nothing.
 */
typedef struct _LmtWarnings LmtWarnings;
LmtWarnings *lmt_warnings_new (void);
void lmt_warnings_free (LmtWarnings *warnings);
void lmt_warnings_add (LmtWarnings *warnings, const char *kind, const char *message);
guint64 lmt_warnings_count (const LmtWarnings *warnings, const char *kind); /* NULL: all */
/* One line `KIND: N more` for kinds with more than ten. Called once at the end. */
void lmt_warnings_flush (LmtWarnings *warnings);
void lmt_warnings_foreach (const LmtWarnings *warnings,
                           void (*func) (const char *kind, const char *first_message, guint64 count, gpointer data),
                           gpointer data);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LmtWarnings, lmt_warnings_free)

G_END_DECLS
