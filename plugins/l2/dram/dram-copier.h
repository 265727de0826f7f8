/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <lmtrace/lmt-plugin.h>

/*
 * Threads that copy: large objects in pieces, so that one object, too, goes at the speed of several cores. They know nothing of
 * keys and blocks: whoever adds a copy keeps both ends where they are until the io is reaped. All functions: one thread.
 */
typedef struct _DramCopier DramCopier;

/* @depth: most copies at a time. */
DramCopier *dram_copier_new (guint32 n_threads, guint32 depth, GError **error);
/* Pieces under way are finished, what nobody has begun is abandoned: the io doesn't come back. NULL: nothing. */
void dram_copier_free (DramCopier *copier);
/* @bytes: above 0. The copy begins with the next flush at the latest. */
void dram_copier_add (DramCopier *copier, LmtL2Io *io, void *to, const void *from, guint64 bytes);
void dram_copier_flush (DramCopier *copier);
/* Readable while something is to be reaped. */
int dram_copier_fd (DramCopier *copier);
/* Those whose last byte is there. */
guint32 dram_copier_reap (DramCopier *copier, LmtL2Io **ios, guint32 max);
