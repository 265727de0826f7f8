/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "lmt-error.h"

G_BEGIN_DECLS

/**
 * LmtSource: for readers of other formats than traces: the bytes of a file, a pipe or memory, unpacked if they are gzip or zstd
 * (by their first bytes, not by name). Never asks for memory by a number in the file: a zstd window is taken up to 8 MiB, which
 * is what every level of zstd but
 * `--ultra` and `--long` uses.
 *
 * Threads: one per source. Errors: lmt_source_get_error(). Since: 0.1
 */
typedef struct _LmtSource LmtSource;

/* @path: a file, or `-` for stdin; @shown: its name for messages. Threads: one. */
LmtSource *lmt_source_open (const char *path, const char *shown, GError **error);
LmtSource *lmt_source_new_for_bytes (gconstpointer data, gsize len, const char *shown);
void lmt_source_free (LmtSource *source);

/* Wait at the end of a file until nothing came for @idle_ns (0: for ever). Set before the first read. */
void lmt_source_set_follow (LmtSource *source, gboolean follow, gint64 idle_ns);
/* A number that other than 0 ends waiting and reading, as the end of the file would. */
void lmt_source_set_interrupts (LmtSource *source, const volatile gint *interrupts);

/* Bytes read, 0: the end, -1: see lmt_source_get_error(). */
gssize lmt_source_read (LmtSource *source, guint8 *data, gsize len);
/* The end came in the middle of a compressed stream. */
gboolean lmt_source_ends_early (const LmtSource *source);
const char *lmt_source_get_error (const LmtSource *source); /* (nullable): `what: why`, without the file */

/* Bytes of the file itself, packed or not. */
guint64 lmt_source_get_size (const LmtSource *source); /* now; 0: not known */
guint64 lmt_source_get_position (const LmtSource *source);
gboolean lmt_source_is_compressed (const LmtSource *source); /* known after the first read */
gboolean lmt_source_is_following (const LmtSource *source);
gboolean lmt_source_is_seekable (const LmtSource *source);
gboolean lmt_source_rewind (LmtSource *source, GError **error);

/**
 * lmt_source_read_whole: configurations, tables, tokens: the whole of a small file or of a pipe, as it is (not unpacked).
 * @path: (type filename)
 * @max: more bytes than this are an error, and aren't kept: /dev/zero never ends
 * @len: (out) (optional)
 *
 * Leaves no copies in memory that is given back: it may be a secret. A pipe is read to its end; one that nobody writes to within
 * a second is an error. Threads: any.
 *
 * Returns: (transfer full) (nullable): ends with a NUL that isn't counted; %NULL: @error names the file and the reason
 */
char *lmt_source_read_whole (const char *path, gsize max, gsize *len, GError **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LmtSource, lmt_source_free)

G_END_DECLS
