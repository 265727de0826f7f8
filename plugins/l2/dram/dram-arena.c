/* SPDX-License-Identifier: Apache-2.0 */
#include "dram-arena.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <lmtrace/lmt-plugin.h>

enum
{
  STEP = 64,
  N_BINS = 512, /* eight an octave */
  GUARD = 4096,
  HUGE_PAGE = 2 << 20,
  POPULATE_WRITE = 23, /* MADV_POPULATE_WRITE of Linux 5.14, younger than some headers */
  POLICY_BIND = 2,     /* MPOL_BIND of <numaif.h>, which not every system has */
  NODE_WORDS = 16,
};

/* Block 0 is none. `next` and `prev` are neighbours by address; the bin links are used while free. */
typedef struct
{
  guint64 at;
  guint64 bytes;
  guint32 next;
  guint32 prev;
  guint32 bin_next;
  guint32 bin_prev;
  gboolean free;
} Block;

struct _DramArena
{
  char *map;
  guint64 map_bytes;
  guint64 reserved; /* from the pool of huge pages, at the front */
  char *base;
  Block *blocks;
  guint32 n_blocks;
  guint32 size;
  guint32 spare; /* records without a block, by `next` */
  guint32 bins[N_BINS];
  guint64 filled[N_BINS / 64];
};

/* Of a size in steps: linear below 8, then eight bins an octave; every block of a higher bin is larger. */
static guint
bin_of (guint64 bytes)
{
  guint64 steps = bytes / STEP;
  if (steps < 8)
    return (guint)steps;
  guint octave = 63 - (guint)__builtin_clzll (steps);
  return (octave - 2) * 8 + (guint)((steps >> (octave - 3)) & 7);
}

static void
bin_add (DramArena *arena, guint32 index)
{
  Block *block = &arena->blocks[index];
  guint bin = bin_of (block->bytes);
  block->free = TRUE;
  block->bin_prev = 0;
  block->bin_next = arena->bins[bin];
  if (block->bin_next != 0)
    arena->blocks[block->bin_next].bin_prev = index;
  arena->bins[bin] = index;
  arena->filled[bin / 64] |= G_GUINT64_CONSTANT (1) << (bin % 64);
}

static void
bin_remove (DramArena *arena, guint32 index)
{
  Block *block = &arena->blocks[index];
  guint bin = bin_of (block->bytes);
  if (block->bin_prev != 0)
    arena->blocks[block->bin_prev].bin_next = block->bin_next;
  else
    arena->bins[bin] = block->bin_next;
  if (block->bin_next != 0)
    arena->blocks[block->bin_next].bin_prev = block->bin_prev;
  if (arena->bins[bin] == 0)
    arena->filled[bin / 64] &= ~(G_GUINT64_CONSTANT (1) << (bin % 64));
  block->free = FALSE;
}

static guint32
record_take (DramArena *arena)
{
  guint32 index = arena->spare;
  if (index != 0)
    {
      arena->spare = arena->blocks[index].next;
      return index;
    }
  if (arena->n_blocks == arena->size)
    {
      arena->size = MAX (arena->size * 2, 1024);
      arena->blocks = g_renew (Block, arena->blocks, arena->size);
    }
  return arena->n_blocks++;
}

static void
record_give (DramArena *arena, guint32 index)
{
  arena->blocks[index].next = arena->spare;
  arena->spare = index;
}

/* First bin at or above @bin that holds something, or N_BINS. */
static guint
bin_search (const DramArena *arena, guint bin)
{
  for (guint word = bin / 64; word < G_N_ELEMENTS (arena->filled); word++)
    {
      guint64 bits = arena->filled[word];
      if (word == bin / 64)
        bits &= ~G_GUINT64_CONSTANT (0) << (bin % 64);
      if (bits != 0)
        return word * 64 + (guint)__builtin_ctzll (bits);
    }
  return N_BINS;
}

static guint32
find (DramArena *arena, guint64 bytes)
{
  guint bin = bin_of (bytes);
  /* In its own bin some blocks are too small: a short look, then a bin where all fit. */
  guint32 index = arena->bins[bin];
  for (guint tries = 0; index != 0 && tries < 8; tries++, index = arena->blocks[index].bin_next)
    if (arena->blocks[index].bytes >= bytes)
      return index;
  bin = bin_search (arena, bin + 1);
  if (bin < N_BINS)
    return arena->bins[bin];
  /* Nothing larger at all: the rest of its own bin may still have one. */
  for (; index != 0; index = arena->blocks[index].bin_next)
    if (arena->blocks[index].bytes >= bytes)
      return index;
  return 0;
}

guint32
dram_arena_take (DramArena *arena, guint64 bytes)
{
  if (bytes > arena->map_bytes)
    return 0;
  bytes = MAX ((bytes + STEP - 1) / STEP, 1) * STEP;
  guint32 index = find (arena, bytes);
  if (index == 0)
    return 0;
  bin_remove (arena, index);
  if (arena->blocks[index].bytes > bytes)
    {
      guint32 rest = record_take (arena);
      Block *block = &arena->blocks[index];
      arena->blocks[rest] = (Block){ .at = block->at + bytes, .bytes = block->bytes - bytes, .next = block->next, .prev = index };
      if (block->next != 0)
        arena->blocks[block->next].prev = rest;
      block->next = rest;
      block->bytes = bytes;
      bin_add (arena, rest);
    }
  return index;
}

/* @index swallows its neighbour behind it. */
static void
join_next (DramArena *arena, guint32 index)
{
  Block *block = &arena->blocks[index];
  guint32 gone = block->next;
  block->bytes += arena->blocks[gone].bytes;
  block->next = arena->blocks[gone].next;
  if (block->next != 0)
    arena->blocks[block->next].prev = index;
  record_give (arena, gone);
}

void
dram_arena_give (DramArena *arena, guint32 index)
{
  if (index == 0)
    return;
  guint32 next = arena->blocks[index].next;
  if (next != 0 && arena->blocks[next].free)
    {
      bin_remove (arena, next);
      join_next (arena, index);
    }
  guint32 prev = arena->blocks[index].prev;
  if (prev != 0 && arena->blocks[prev].free)
    {
      bin_remove (arena, prev);
      join_next (arena, prev);
      index = prev;
    }
  bin_add (arena, index);
}

void *
dram_arena_address (DramArena *arena, guint32 block)
{
  return arena->base + arena->blocks[block].at;
}

static gboolean
bind_memory (void *memory, guint64 bytes, gint64 node)
{
  unsigned long mask[NODE_WORDS] = { 0 };
  const guint bits = 8 * sizeof mask[0];
  if (node < 0)
    return TRUE;
  mask[(guint)node / bits] = 1UL << ((guint)node % bits);
  return syscall (SYS_mbind, memory, bytes, POLICY_BIND, mask, NODE_WORDS * bits, 0) == 0;
}

/* Touched here: a pool that is too small after all (another group's limit, another node) is an error now, a SIGBUS later. What
 * lay there before is gone also if this fails. */
static gboolean
map_pool (void *at, guint64 bytes, gint64 node)
{
  const int pool = MAP_HUGETLB | 21 << MAP_HUGE_SHIFT; /* 2 MiB */
  return mmap (at, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | pool, -1, 0) != MAP_FAILED
         && bind_memory (at, bytes, node) && madvise (at, bytes, POPULATE_WRITE) == 0;
}

/* Huge pages or a fault for each 4 KiB and copies that wait for the translation of addresses: first stores took four times as
 * long, later ones and loads a quarter longer. Only a hint: nothing is reserved by it. */
static gboolean
map_memory (void *at, guint64 bytes, gint64 node)
{
  if (mmap (at, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0) == MAP_FAILED)
    return FALSE;
  madvise (at, bytes, MADV_HUGEPAGE);
  return bind_memory (at, bytes, node);
}

DramArena *
dram_arena_new (guint64 bytes, guint64 reserve, gint64 numa_node, GError **error)
{
  DramArena *arena = g_new0 (DramArena, 1);
  bytes = (bytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
  arena->map_bytes = bytes + HUGE_PAGE + 2 * GUARD;
  arena->map = mmap (NULL, arena->map_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (arena->map == MAP_FAILED)
    {
      g_set_error (error, LMT_L2_ERROR, LMT_L2_NO_SPACE, "dram: %.4g GiB of address space: %s", (double)bytes / 1073741824.0,
                   g_strerror (errno));
      g_free (arena);
      return NULL;
    }
  /* All around stays out of reach: a write past either end stops there, not in somebody's data. */
  arena->base = (char *)(((guintptr)arena->map + GUARD + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE);
  reserve = MIN ((reserve + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE, bytes);
  if (reserve > 0 && map_pool (arena->base, reserve, numa_node))
    arena->reserved = reserve;
  if (arena->reserved < bytes && !map_memory (arena->base + arena->reserved, bytes - arena->reserved, numa_node))
    {
      if (numa_node >= 0)
        g_set_error (error, LMT_L2_ERROR, LMT_L2_IO, "dram: numa: node %d: %s", (int)numa_node, g_strerror (errno));
      else
        g_set_error (error, LMT_L2_ERROR, LMT_L2_NO_SPACE, "dram: %.4g GiB of memory: %s", (double)bytes / 1073741824.0,
                     g_strerror (errno));
      dram_arena_free (arena);
      return NULL;
    }
  record_take (arena); /* number 0 */
  guint32 all = record_take (arena);
  arena->blocks[all] = (Block){ .bytes = bytes };
  bin_add (arena, all);
  return arena;
}

guint64
dram_arena_reserved (const DramArena *arena)
{
  return arena->reserved;
}

/* Free pages less those that others have reserved and not yet touched. */
guint64
dram_arena_pool_free (void)
{
  static const char *const names[] = { "free_hugepages", "resv_hugepages" };
  guint64 n[G_N_ELEMENTS (names)] = { 0 };
  for (guint i = 0; i < G_N_ELEMENTS (names); i++)
    {
      g_autofree char *path = g_build_filename ("/sys/kernel/mm/hugepages/hugepages-2048kB", names[i], NULL);
      g_autofree char *text = NULL;
      if (g_file_get_contents (path, &text, NULL, NULL))
        n[i] = g_ascii_strtoull (text, NULL, 10);
    }
  return n[0] > n[1] ? (n[0] - n[1]) * HUGE_PAGE : 0;
}

void
dram_arena_free (DramArena *arena)
{
  if (arena == NULL)
    return;
  munmap (arena->map, arena->map_bytes);
  g_free (arena->blocks);
  g_free (arena);
}
