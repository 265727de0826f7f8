/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

/*
 * One mapping reserved at open, handed out in blocks of 64-byte steps: good fit out of bins by size, neighbours joined when
 * freed. Block records lie outside the memory, in a table that grows by doubling: nothing is allocated per object once warm.
 */
typedef struct _DramArena DramArena;

/* @bytes: address space; memory is used as it is touched, in transparent huge pages where the kernel has some.
 * @reserve: so much of it from the system's pool of huge pages, touched now; or none of it, if the pool hasn't that much. */
DramArena *dram_arena_new (guint64 bytes, guint64 reserve, gint64 numa_node, GError **error);
void dram_arena_free (DramArena *arena);
/* Number of a block of at least @bytes, or 0: no room. */
guint32 dram_arena_take (DramArena *arena, guint64 bytes);
void dram_arena_give (DramArena *arena, guint32 block);
void *dram_arena_address (DramArena *arena, guint32 block);
/* From the pool; 0: none. */
guint64 dram_arena_reserved (const DramArena *arena);
/* What the pool has for whoever asks now. */
guint64 dram_arena_pool_free (void);
