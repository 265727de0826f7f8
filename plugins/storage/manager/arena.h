/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

G_BEGIN_DECLS

/**
 * SmArena: the address space [0, size) of L1 (storage-manager.md 2): free blocks ordered by address, never two adjacent, first
 * fit by address. A balanced tree over the free blocks, each node knowing the largest block below it: finding the next block that
 * is big enough costs the logarithm of the number of free blocks, also when the pool is in crumbs. No allocation once warm.
 */
typedef struct _SmArena SmArena;

typedef struct
{
  guint64 address;
  guint64 bytes;
} SmBlock;

/* @align: a power of two. The tail of a size that is no multiple of it is never given out. */
SmArena *sm_arena_new (guint64 size, guint64 align);
void sm_arena_free (SmArena *arena);

/* Rounds up to the alignment; G_MAXUINT64 if that is no number any more. */
guint64 sm_arena_align (const SmArena *arena, guint64 bytes);

/**
 * sm_arena_take:
 * @bytes: unaligned size of each buffer, above 0
 * @addresses: (out) (array length=count)
 *
 * Takes @count buffers, scattered if need be. Returns: FALSE: not all of them fit; nothing was taken
 */
gboolean sm_arena_take (SmArena *arena, guint64 bytes, guint count, guint64 *addresses);

/* Gives blocks back; @blocks (unaligned sizes) is sorted and merged in place. */
void sm_arena_give (SmArena *arena, SmBlock *blocks, guint n);

/* More space behind the end of what there was: @address is that end, both aligned. */
void sm_arena_extend (SmArena *arena, guint64 address, guint64 bytes);

guint64 sm_arena_used (const SmArena *arena); /* sum of aligned sizes given out */
guint sm_arena_n_free_blocks (const SmArena *arena);
void sm_arena_foreach_free (const SmArena *arena, void (*func) (guint64 address, guint64 bytes, gpointer data), gpointer data);

G_END_DECLS
