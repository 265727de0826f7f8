// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <lmtrace/lmt-plugin.h>

G_BEGIN_DECLS

/**
 * events_files_raise: lets the process have @needed files open at a time, as far as its hard limit goes.
 * Returns: how many it may have now; @needed or more is enough.
 */
guint64 events_files_raise (guint64 needed);

/**
 * events_files_are_free: whether @n files more can be opened now. Asked before threads with an event loop begin: GLib ends the
 * process where it finds no descriptor for one.
 */
gboolean events_files_are_free (guint n);

/**
 * events_files_read_token: the bearer token in the first line of a file: visible ASCII, for anything else would be another
 * header. Returns: (transfer full) (nullable): %NULL: @error names file and reason
 */
char *events_files_read_token (const char *path, GError **error);

G_END_DECLS
