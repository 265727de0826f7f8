/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

/*
 * One mapping reserved at open, handed out in blocks of 64-byte steps: good fit out of bins by size, neighbours joined when
 * freed. Block records lie outside the memory, in a table that grows by doubling: nothing is allocated per object once warm.
 */
typedef struct _DramArena DramArena;

/* @bytes: address space; memory is used as it is touched. */
DramArena *dram_arena_new (guint64 bytes, gboolean huge_pages, gint64 numa_node, GError **error);
void dram_arena_free (DramArena *arena);
/* Number of a block of at least @bytes, or 0: no room. */
guint32 dram_arena_take (DramArena *arena, guint64 bytes);
void dram_arena_give (DramArena *arena, guint32 block);
void *dram_arena_address (DramArena *arena, guint32 block);
/* TRUE if huge pages were asked for and the kernel agreed. */
gboolean dram_arena_is_huge (const DramArena *arena);
