/* SPDX-License-Identifier: Apache-2.0 */
#include "manager-private.h"

#include <lmtrace/lmt-pages.h>

/*
 * What became of keys that are gone, for the explanation of misses (storage-manager.md 18.13): one 64-bit word per key, 56 bits
 * of its hash and 8 of its past, in a table at most half full: 16 bytes a key, bounded at 4 Mi keys.
 */
enum
{
  MOST_KEYS = 4 << 20,
  SMALLEST = 1 << 10,
};
#define PAST_BITS 8
#define PAST_MASK G_GUINT64_CONSTANT (0xff)

struct _SmHistory
{
  guint64 *slots; /* 0: empty; a used slot has a past, so it is never 0 */
  guint size;
  guint used;
};

SmHistory *
sm_history_new (void)
{
  SmHistory *history = g_new0 (SmHistory, 1);

  history->size = SMALLEST;
  history->slots = lmt_pages_renew (guint64, NULL, 0, history->size);
  return history;
}

void
sm_history_free (SmHistory *history)
{
  if (history == NULL)
    return;
  lmt_pages_free (history->slots, history->size * sizeof *history->slots);
  g_free (history);
}

static inline guint
slot_of (const SmHistory *history, guint64 hash)
{
  guint i = (guint)(hash >> PAST_BITS) & (history->size - 1);

  while (history->slots[i] != 0 && ((history->slots[i] ^ hash) & ~PAST_MASK) != 0)
    i = (i + 1) & (history->size - 1);
  return i;
}

static void
grow (SmHistory *history)
{
  guint64 *old = history->slots;
  guint old_size = history->size;

  history->size *= 2;
  history->slots = lmt_pages_renew (guint64, NULL, 0, history->size);
  for (guint i = 0; i < old_size; i++)
    if (old[i] != 0)
      history->slots[slot_of (history, old[i])] = old[i];
  lmt_pages_free (old, old_size * sizeof *old);
}

/* SM_PAST_FULL: no room for one more key. */
static guint8
put (SmHistory *history, guint64 hash, guint8 past, gboolean overwrite)
{
  guint i = slot_of (history, hash);
  guint8 before = (guint8)(history->slots[i] & PAST_MASK);

  if (history->slots[i] == 0)
    {
      if (history->used == MOST_KEYS)
        return SM_PAST_FULL;
      if (2 * (history->used + 1) > history->size)
        {
          grow (history);
          i = slot_of (history, hash);
        }
      history->used++;
      overwrite = TRUE;
    }
  if (overwrite)
    history->slots[i] = (hash & ~PAST_MASK) | past;
  return before;
}

guint8
sm_history_name (SmHistory *history, guint64 hash)
{
  return put (history, hash, SM_PAST_NAMED, FALSE);
}

guint8
sm_history_get (const SmHistory *history, guint64 hash)
{
  guint64 slot = history->slots[slot_of (history, hash)];

  if (slot != 0)
    return (guint8)(slot & PAST_MASK);
  return history->used == MOST_KEYS ? SM_PAST_FULL : SM_PAST_UNSEEN;
}

void
sm_history_prefetch (const SmHistory *history, guint64 hash)
{
  __builtin_prefetch (&history->slots[(guint)(hash >> PAST_BITS) & (history->size - 1)], 1);
}

void
sm_history_set (SmHistory *history, guint64 hash, guint8 past)
{
  put (history, hash, past, TRUE);
}

guint
sm_history_size (const SmHistory *history)
{
  return history->used;
}
