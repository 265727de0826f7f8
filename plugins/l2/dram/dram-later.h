// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <lmtrace/lmt-plugin.h>

/*
 * Operations that wait for a time of the host's clock: a heap in the order of due times, among equal ones in that of submission.
 * As many as were asked for, no allocation afterwards. For adapters whose delays are modelled.
 */
enum
{
  DRAM_CANCELLED = 1, /* in io->plugin[0] */
};

typedef struct
{
  gint64 due;
  guint64 number; /* of the operation since open */
  LmtL2Io *io;
} DramWaiting;

typedef struct
{
  DramWaiting *heap;
  guint32 n;
} DramLater;

static inline void
dram_later_init (DramLater *later, guint32 most)
{
  later->heap = g_new0 (DramWaiting, most);
  later->n = 0;
}

static inline void
dram_later_clear (DramLater *later)
{
  g_clear_pointer (&later->heap, g_free);
}

static inline gboolean
dram_later_is_before (const DramWaiting *a, const DramWaiting *b)
{
  return a->due != b->due ? a->due < b->due : a->number < b->number;
}

static inline void
dram_later_add (DramLater *later, gint64 due, guint64 number, LmtL2Io *io)
{
  const DramWaiting waiting = { due, number, io };
  guint32 i = later->n++;
  for (; i > 0 && dram_later_is_before (&waiting, &later->heap[(i - 1) / 2]); i = (i - 1) / 2)
    later->heap[i] = later->heap[(i - 1) / 2];
  later->heap[i] = waiting;
}

/* The first one that is due at @now, or NULL. A cancelled one says so in plugin[0] and is due at once. */
static inline LmtL2Io *
dram_later_take (DramLater *later, gint64 now)
{
  if (later->n == 0 || later->heap[0].due > now)
    return NULL;
  LmtL2Io *io = later->heap[0].io;
  const DramWaiting last = later->heap[--later->n];
  guint32 i = 0;
  for (guint32 child; (child = 2 * i + 1) < later->n; i = child)
    {
      if (child + 1 < later->n && dram_later_is_before (&later->heap[child + 1], &later->heap[child]))
        child++;
      if (!dram_later_is_before (&later->heap[child], &last))
        break;
      later->heap[i] = later->heap[child];
    }
  later->heap[i] = last;
  return io;
}

/* -1: none waits. */
static inline gint64
dram_later_due (const DramLater *later)
{
  return later->n > 0 ? later->heap[0].due : -1;
}

static inline void
dram_later_cancel (DramLater *later, LmtL2Io *io)
{
  for (guint32 i = 0; i < later->n; i++)
    if (later->heap[i].io == io)
      {
        DramWaiting waiting = later->heap[i];
        io->plugin[0] = DRAM_CANCELLED;
        /* To the top, and due: the core reaps it next. */
        for (; i > 0; i = (i - 1) / 2)
          later->heap[i] = later->heap[(i - 1) / 2];
        waiting.due = 0;
        later->heap[0] = waiting;
        return;
      }
}

/* For status(): a number as text. */
static inline void
dram_add_number (LmtL2AddStatus add, gpointer data, const char *key, guint64 value)
{
  char text[32];
  g_snprintf (text, sizeof text, "%" G_GUINT64_FORMAT, value);
  add (data, key, text);
}
