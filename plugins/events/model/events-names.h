// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <lmtrace/lmt-hash.h>
#include <lmtrace/lmt-plugin.h>

G_BEGIN_DECLS

/**
 * EventsNames: strings as small numbers, each held once and counted. 0 is no name; a number is given out again when its last user
 * let go. The text stays where it is while the name lives. Cost: one hash and one comparison, the last one asked for is free. No
 * allocation for a name that is there. Threads: the caller's one.
 */
typedef struct
{
  char *text; /* NULL: free */
  guint32 len;
  guint32 refs;
  guint32 hash;
  guint32 next_free;
} EventsName;

typedef struct
{
  EventsName *items; /* [0] is nobody */
  guint32 n;         /* used or free */
  guint32 allocated;
  guint32 live;
  guint32 free_head;
  guint32 *slots;
  guint32 n_slots; /* a power of two */
  guint32 last;
  guint64 seed;
} EventsNames;

void events_names_init (EventsNames *names);
void events_names_clear (EventsNames *names);
guint32 events_names_find (EventsNames *names, LmtSpan text); /* 0: unknown */
guint32 events_names_take (EventsNames *names, LmtSpan text); /* counts one user more */
void events_names_ref (EventsNames *names, guint32 name);
gboolean events_names_drop (EventsNames *names, guint32 name); /* TRUE: that was the last user */

static inline LmtSpan
events_names_get (const EventsNames *names, guint32 name)
{
  return (LmtSpan){ (const guint8 *)names->items[name].text, names->items[name].len };
}

/* Order of code points, which is that of UTF-8's bytes. */
int events_span_compare (LmtSpan a, LmtSpan b);

static inline gboolean
events_span_equal (LmtSpan a, LmtSpan b)
{
  return a.len == b.len && (a.len == 0 || memcmp (a.data, b.data, a.len) == 0);
}

G_END_DECLS
