/* SPDX-License-Identifier: Apache-2.0 */
#include "arena.h"

#include <string.h>

#define NIL G_MAXUINT32

typedef struct
{
  guint64 address;
  guint64 bytes;
  guint64 largest; /* of this subtree */
  guint32 left;
  guint32 right;
  gint32 height;
  guint32 next_unused;
} Node;

typedef struct
{
  guint64 address;
  guint count;
} Taken;

struct _SmArena
{
  guint64 align;
  guint64 used;
  Node *nodes;
  guint n_nodes;
  guint32 unused; /* nodes without a block */
  guint32 root;
  guint n_blocks;
  Taken *taken;
  guint taken_size;
  SmBlock *scratch; /* of the merge sort */
  guint scratch_size;
};

/* ---- the tree ---- */

static inline gint32
height (const SmArena *arena, guint32 i)
{
  return i == NIL ? 0 : arena->nodes[i].height;
}

static inline guint64
largest (const SmArena *arena, guint32 i)
{
  return i == NIL ? 0 : arena->nodes[i].largest;
}

static inline void
node_update (SmArena *arena, guint32 i)
{
  Node *node = &arena->nodes[i];

  node->height = 1 + MAX (height (arena, node->left), height (arena, node->right));
  node->largest = MAX (node->bytes, MAX (largest (arena, node->left), largest (arena, node->right)));
}

static guint32
rotate_right (SmArena *arena, guint32 i)
{
  guint32 up = arena->nodes[i].left;

  arena->nodes[i].left = arena->nodes[up].right;
  arena->nodes[up].right = i;
  node_update (arena, i);
  node_update (arena, up);
  return up;
}

static guint32
rotate_left (SmArena *arena, guint32 i)
{
  guint32 up = arena->nodes[i].right;

  arena->nodes[i].right = arena->nodes[up].left;
  arena->nodes[up].left = i;
  node_update (arena, i);
  node_update (arena, up);
  return up;
}

static guint32
balance (SmArena *arena, guint32 i)
{
  Node *node = &arena->nodes[i];
  gint32 lean = height (arena, node->left) - height (arena, node->right);

  if (lean > 1)
    {
      const Node *left = &arena->nodes[node->left];

      if (height (arena, left->left) < height (arena, left->right))
        node->left = rotate_left (arena, node->left);
      return rotate_right (arena, i);
    }
  if (lean < -1)
    {
      const Node *right = &arena->nodes[node->right];

      if (height (arena, right->right) < height (arena, right->left))
        node->right = rotate_right (arena, node->right);
      return rotate_left (arena, i);
    }
  node_update (arena, i);
  return i;
}

static guint32
node_new (SmArena *arena, guint64 address, guint64 bytes)
{
  guint32 i = arena->unused;

  if (i == NIL)
    {
      guint wanted = MAX (arena->n_nodes * 2, 64);

      arena->nodes = g_renew (Node, arena->nodes, wanted);
      for (guint j = wanted; j-- > arena->n_nodes;)
        {
          arena->nodes[j].next_unused = arena->unused;
          arena->unused = j;
        }
      arena->n_nodes = wanted;
      i = arena->unused;
    }
  arena->unused = arena->nodes[i].next_unused;
  arena->nodes[i] = (Node){ address, bytes, bytes, NIL, NIL, 1, NIL };
  arena->n_blocks++;
  return i;
}

static void
node_free (SmArena *arena, guint32 i)
{
  arena->nodes[i].next_unused = arena->unused;
  arena->unused = i;
  arena->n_blocks--;
}

static guint32
insert_below (SmArena *arena, guint32 i, guint32 fresh)
{
  if (i == NIL)
    return fresh;
  if (arena->nodes[fresh].address < arena->nodes[i].address)
    arena->nodes[i].left = insert_below (arena, arena->nodes[i].left, fresh);
  else
    arena->nodes[i].right = insert_below (arena, arena->nodes[i].right, fresh);
  return balance (arena, i);
}

/* Takes the lowest node below @i out of the tree into @lowest. */
static guint32
remove_lowest (SmArena *arena, guint32 i, guint32 *lowest)
{
  if (arena->nodes[i].left == NIL)
    {
      *lowest = i;
      return arena->nodes[i].right;
    }
  arena->nodes[i].left = remove_lowest (arena, arena->nodes[i].left, lowest);
  return balance (arena, i);
}

static guint32
remove_below (SmArena *arena, guint32 i, guint64 address)
{
  Node *node = &arena->nodes[i];

  if (address < node->address)
    node->left = remove_below (arena, node->left, address);
  else if (address > node->address)
    node->right = remove_below (arena, node->right, address);
  else
    {
      guint32 left = node->left, right = node->right, up;

      node_free (arena, i);
      if (left == NIL || right == NIL)
        return left == NIL ? right : left;
      right = remove_lowest (arena, right, &up);
      arena->nodes[up].left = left;
      arena->nodes[up].right = right;
      return balance (arena, up);
    }
  return balance (arena, i);
}

/* The block at @address becomes [to, to + bytes); its place in the order stays. */
static void
resize_below (SmArena *arena, guint32 i, guint64 address, guint64 to, guint64 bytes)
{
  Node *node = &arena->nodes[i];

  if (address < node->address)
    resize_below (arena, node->left, address, to, bytes);
  else if (address > node->address)
    resize_below (arena, node->right, address, to, bytes);
  else
    {
      node->address = to;
      node->bytes = bytes;
    }
  node_update (arena, i);
}

/* First block at or above @from of at least @bytes. */
static guint32
first_fit (const SmArena *arena, guint32 i, guint64 from, guint64 bytes)
{
  const Node *node;
  guint32 found;

  if (largest (arena, i) < bytes)
    return NIL;
  node = &arena->nodes[i];
  if (node->address < from)
    return first_fit (arena, node->right, from, bytes);
  found = first_fit (arena, node->left, from, bytes);
  if (found != NIL)
    return found;
  if (node->bytes >= bytes)
    return i;
  return first_fit (arena, node->right, from, bytes);
}

/* ---- the pool ---- */

SmArena *
sm_arena_new (guint64 size, guint64 align)
{
  SmArena *arena = g_new0 (SmArena, 1);

  g_assert (align != 0 && (align & (align - 1)) == 0);
  arena->align = align;
  arena->root = arena->unused = NIL;
  size &= ~(align - 1);
  if (size > 0)
    arena->root = node_new (arena, 0, size);
  return arena;
}

void
sm_arena_free (SmArena *arena)
{
  if (arena == NULL)
    return;
  g_free (arena->nodes);
  g_free (arena->taken);
  g_free (arena->scratch);
  g_free (arena);
}

guint64
sm_arena_align (const SmArena *arena, guint64 bytes)
{
  if (bytes > G_MAXUINT64 - arena->align)
    return G_MAXUINT64;
  return (bytes + arena->align - 1) & ~(arena->align - 1);
}

gboolean
sm_arena_take (SmArena *arena, guint64 bytes, guint count, guint64 *addresses)
{
  guint64 want = sm_arena_align (arena, bytes), from = 0;
  guint left = count, n = 0;

  while (left > 0)
    {
      guint32 i = first_fit (arena, arena->root, from, want);
      guint64 fits;

      if (i == NIL)
        return FALSE;
      fits = arena->nodes[i].bytes / want;
      if (n == arena->taken_size)
        {
          arena->taken_size = MAX (arena->taken_size * 2, 64);
          arena->taken = g_renew (Taken, arena->taken, arena->taken_size);
        }
      arena->taken[n].address = arena->nodes[i].address;
      arena->taken[n].count = (guint)MIN (fits, left);
      left -= arena->taken[n++].count;
      from = arena->nodes[i].address + 1;
    }
  for (guint t = 0; t < n; t++)
    {
      guint64 address = arena->taken[t].address, bytes_taken = want * arena->taken[t].count;
      guint32 i = first_fit (arena, arena->root, address, want);
      guint64 rest = arena->nodes[i].bytes - bytes_taken;

      if (rest == 0)
        arena->root = remove_below (arena, arena->root, address);
      else
        resize_below (arena, arena->root, address, address + bytes_taken, rest);
      for (guint k = 0; k < arena->taken[t].count; k++, address += want)
        *addresses++ = address;
    }
  arena->used += want * count;
  return TRUE;
}

/* Merge sort that knows runs: what is given back comes in long rising or falling stretches. */
static guint
run_end (SmBlock *blocks, guint start, guint n)
{
  guint end = start + 1;

  if (end < n && blocks[end].address < blocks[start].address)
    {
      while (end < n && blocks[end].address < blocks[end - 1].address)
        end++;
      for (guint a = start, b = end - 1; a < b; a++, b--)
        {
          SmBlock swap = blocks[a];

          blocks[a] = blocks[b];
          blocks[b] = swap;
        }
    }
  while (end < n && blocks[end].address > blocks[end - 1].address)
    end++;
  return end;
}

static void
merge_runs (SmBlock *blocks, guint start, guint middle, guint end, SmBlock *scratch)
{
  guint n = middle - start, a = 0, b = middle, out = start;

  memcpy (scratch, blocks + start, n * sizeof (SmBlock));
  while (a < n && b < end)
    blocks[out++] = scratch[a].address <= blocks[b].address ? scratch[a++] : blocks[b++];
  memcpy (blocks + out, scratch + a, (n - a) * sizeof (SmBlock));
}

static void
sort_blocks (SmArena *arena, SmBlock *blocks, guint n)
{
  guint runs = 0;

  do
    {
      runs = 0;
      for (guint start = 0; start < n; runs++)
        {
          guint middle = run_end (blocks, start, n), end;

          if (middle == n)
            {
              runs++;
              break;
            }
          end = run_end (blocks, middle, n);
          if (arena->scratch_size < middle - start)
            {
              arena->scratch_size = MAX (middle - start, arena->scratch_size * 2);
              arena->scratch = g_renew (SmBlock, arena->scratch, arena->scratch_size);
            }
          merge_runs (blocks, start, middle, end, arena->scratch);
          start = end;
        }
    }
  while (runs > 1);
}

static void
give_one (SmArena *arena, guint64 address, guint64 bytes)
{
  guint32 before = NIL, after = NIL;

  for (guint32 i = arena->root; i != NIL;)
    {
      if (arena->nodes[i].address < address)
        {
          before = i;
          i = arena->nodes[i].right;
        }
      else
        {
          after = i;
          i = arena->nodes[i].left;
        }
    }
  if (after != NIL && arena->nodes[after].address != address + bytes)
    after = NIL;
  if (before != NIL && arena->nodes[before].address + arena->nodes[before].bytes != address)
    before = NIL;
  if (before != NIL)
    {
      guint64 start = arena->nodes[before].address, total = arena->nodes[before].bytes + bytes;

      if (after != NIL)
        {
          total += arena->nodes[after].bytes;
          arena->root = remove_below (arena, arena->root, arena->nodes[after].address);
        }
      resize_below (arena, arena->root, start, start, total);
    }
  else if (after != NIL)
    resize_below (arena, arena->root, arena->nodes[after].address, address, bytes + arena->nodes[after].bytes);
  else
    arena->root = insert_below (arena, arena->root, node_new (arena, address, bytes));
}

void
sm_arena_give (SmArena *arena, SmBlock *blocks, guint n)
{
  guint i = 0;

  sort_blocks (arena, blocks, n);
  while (i < n)
    {
      guint64 address = blocks[i].address, bytes = sm_arena_align (arena, blocks[i].bytes);

      for (i++; i < n && blocks[i].address == address + bytes; i++)
        bytes += sm_arena_align (arena, blocks[i].bytes);
      arena->used -= bytes;
      give_one (arena, address, bytes);
    }
}

void
sm_arena_extend (SmArena *arena, guint64 address, guint64 bytes)
{
  give_one (arena, address, bytes);
}

guint64
sm_arena_used (const SmArena *arena)
{
  return arena->used;
}

guint
sm_arena_n_free_blocks (const SmArena *arena)
{
  return arena->n_blocks;
}

static void
foreach_below (const SmArena *arena, guint32 i, void (*func) (guint64 address, guint64 bytes, gpointer data), gpointer data)
{
  if (i == NIL)
    return;
  foreach_below (arena, arena->nodes[i].left, func, data);
  func (arena->nodes[i].address, arena->nodes[i].bytes, data);
  foreach_below (arena, arena->nodes[i].right, func, data);
}

void
sm_arena_foreach_free (const SmArena *arena, void (*func) (guint64 address, guint64 bytes, gpointer data), gpointer data)
{
  foreach_below (arena, arena->root, func, data);
}
