// SPDX-License-Identifier: Apache-2.0
#include "cli-info.h"

#include <string.h>

enum
{
  ARENA_BYTES = 16 * 1024,
};

void
info_ops_init (InfoOps *ops)
{
  memset (ops, 0, sizeof *ops);
  ops->allocated = INFO_OPS_FREE;
  ops->ops = g_new (InfoOp, ops->allocated);
  ops->n_slots = 4 * INFO_OPS_FREE;
  ops->slots = g_new0 (guint32, ops->n_slots);
  ops->arena = g_malloc (ARENA_BYTES);
  ops->names = g_ptr_array_new_with_free_func (g_free);
}

void
info_ops_clear (InfoOps *ops)
{
  g_free (ops->ops);
  g_free (ops->slots);
  g_free (ops->arena);
  g_ptr_array_unref (ops->names);
}

static guint64
hash_name (const char *name, gsize len)
{
  guint64 hash = len * G_GUINT64_CONSTANT (0x9e3779b97f4a7c15);
  guint64 word = 0;
  gsize i = 0;

  for (; i + 8 <= len; i += 8)
    {
      memcpy (&word, name + i, 8);
      hash = (hash ^ word) * G_GUINT64_CONSTANT (0xff51afd7ed558ccd);
      hash ^= hash >> 32;
    }
  word = 0;
  memcpy (&word, name + i, len - i);
  hash = (hash ^ word) * G_GUINT64_CONSTANT (0xc4ceb9fe1a85ec53);
  return hash ^ hash >> 29;
}

static const char *
keep_name (InfoOps *ops, LmtSpan name)
{
  char *copy;

  if (name.len <= ARENA_BYTES - ops->arena_used)
    {
      copy = ops->arena + ops->arena_used;
      ops->arena_used += name.len;
    }
  else
    {
      copy = g_malloc (name.len);
      g_ptr_array_add (ops->names, copy);
    }
  if (name.len > 0)
    memcpy (copy, name.data, name.len);
  ops->bytes += name.len;
  return copy;
}

static void
put_slot (InfoOps *ops, guint index)
{
  guint mask = ops->n_slots - 1;
  guint at = (guint)ops->ops[index].hash & mask;

  while (ops->slots[at] != 0)
    at = (at + 1) & mask;
  ops->slots[at] = index + 1;
}

static void
add_name (InfoOps *ops, LmtSpan name, guint64 hash)
{
  InfoOp *op;

  if (ops->n == INFO_OPS_MAX || name.len > INFO_OPS_BYTES_MAX - ops->bytes)
    {
      ops->others++;
      return;
    }
  if (ops->n == ops->allocated)
    {
      ops->allocated = MAX (2 * ops->allocated, INFO_OPS_FREE);
      ops->ops = g_renew (InfoOp, ops->ops, ops->allocated);
      ops->n_slots = 4 * ops->allocated;
      ops->slots = g_renew (guint32, ops->slots, ops->n_slots);
      memset (ops->slots, 0, ops->n_slots * sizeof *ops->slots);
      for (guint i = 0; i < ops->n; i++)
        put_slot (ops, i);
    }
  op = &ops->ops[ops->n];
  op->name = keep_name (ops, name);
  op->len = name.len;
  op->hash = hash;
  op->count = 1;
  put_slot (ops, ops->n);
  ops->last = ops->n++;
}

void
info_ops_count (InfoOps *ops, LmtSpan qualname)
{
  const char *name = (const char *)qualname.data;
  guint mask = ops->n_slots - 1;
  guint64 hash;

  if (ops->n > 0)
    {
      InfoOp *op = &ops->ops[ops->last];

      if (op->len == qualname.len && memcmp (op->name, name, qualname.len) == 0)
        {
          op->count++;
          return;
        }
    }
  hash = hash_name (name, qualname.len);
  for (guint at = (guint)hash & mask; ops->slots[at] != 0; at = (at + 1) & mask)
    {
      InfoOp *op = &ops->ops[ops->slots[at] - 1];

      if (op->hash == hash && op->len == qualname.len && memcmp (op->name, name, qualname.len) == 0)
        {
          op->count++;
          ops->last = ops->slots[at] - 1;
          return;
        }
    }
  add_name (ops, qualname, hash);
}

static int
compare_ops (gconstpointer a, gconstpointer b)
{
  const InfoOp *x = a;
  const InfoOp *y = b;
  int order = memcmp (x->name, y->name, MIN (x->len, y->len));

  if (order != 0)
    return order;
  return x->len < y->len ? -1 : x->len > y->len ? 1 : 0;
}

void
info_ops_sort (InfoOps *ops)
{
  qsort (ops->ops, ops->n, sizeof *ops->ops, compare_ops);
}
