// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <lmtrace/lmt-pages.h>

G_BEGIN_DECLS

/**
 * EventsSlots: open addressing over records that live elsewhere: a slot is 32 bits of the hash and the record's number (never 0).
 * Who looks walks from events_slots_first() as long as numbers come and compares the record itself where the tag fits. Removal
 * closes the gap, so there are no gravestones and a table that is warm stays as quick as it was. Threads: the caller's one.
 */
typedef struct
{
  guint64 *slots; /* tag << 32 | number; 0: empty */
  guint64 n;      /* a power of two, or 0 */
  guint64 used;
} EventsSlots;

static inline void
events_slots_clear (EventsSlots *table)
{
  lmt_pages_free (table->slots, table->n * sizeof (guint64));
  *table = (EventsSlots){ NULL, 0, 0 };
}

static inline guint64
events_slots_first (const EventsSlots *table, guint32 tag)
{
  return tag & (table->n - 1);
}

static inline guint64
events_slots_after (const EventsSlots *table, guint64 at)
{
  return (at + 1) & (table->n - 1);
}

static inline void
events_slots_put_quietly (guint64 *slots, guint64 n, guint64 slot)
{
  guint64 at = (slot >> 32) & (n - 1);

  while (slots[at] != 0)
    at = (at + 1) & (n - 1);
  slots[at] = slot;
}

static inline void
events_slots_resize (EventsSlots *table, guint64 wanted)
{
  guint64 *slots = lmt_pages_renew (guint64, NULL, 0, wanted);

  for (guint64 i = 0; i < table->n; i++)
    if (table->slots[i] != 0)
      events_slots_put_quietly (slots, wanted, table->slots[i]);
  lmt_pages_free (table->slots, table->n * sizeof (guint64));
  table->slots = slots;
  table->n = wanted;
}

/* Room for @more records, so that none of them makes it grow. */
static inline void
events_slots_reserve (EventsSlots *table, guint64 more)
{
  guint64 wanted = MAX (table->n, 64);

  while ((table->used + more) * 4 > wanted * 3)
    wanted *= 2;
  if (wanted > table->n)
    events_slots_resize (table, wanted);
}

/* At most 3 of 4 slots are used. */
static inline void
events_slots_insert (EventsSlots *table, guint32 tag, guint32 number)
{
  if ((table->used + 1) * 4 > table->n * 3)
    events_slots_resize (table, table->n > 0 ? table->n * 2 : 64);
  events_slots_put_quietly (table->slots, table->n, (guint64)tag << 32 | number);
  table->used++;
}

static inline void
events_slots_remove (EventsSlots *table, guint32 tag, guint32 number)
{
  const guint64 wanted = (guint64)tag << 32 | number;
  const guint64 mask = table->n - 1;
  guint64 hole = tag & mask;

  while (table->slots[hole] != wanted)
    hole = (hole + 1) & mask;
  for (guint64 at = (hole + 1) & mask; table->slots[at] != 0; at = (at + 1) & mask)
    {
      const guint64 home = (table->slots[at] >> 32) & mask;
      if (((at - home) & mask) >= ((at - hole) & mask))
        {
          table->slots[hole] = table->slots[at];
          hole = at;
        }
    }
  table->slots[hole] = 0;
  table->used--;
}

G_END_DECLS
