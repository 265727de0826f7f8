// SPDX-License-Identifier: Apache-2.0
#include "events-names.h"

enum
{
  FIRST_SLOTS = 64,
};

void
events_names_init (EventsNames *names)
{
  memset (names, 0, sizeof *names);
  names->seed = lmt_hash_seed ();
  names->n_slots = FIRST_SLOTS;
  names->slots = g_new0 (guint32, FIRST_SLOTS);
  names->allocated = FIRST_SLOTS;
  names->items = g_new0 (EventsName, FIRST_SLOTS);
  names->n = 1;
}

void
events_names_clear (EventsNames *names)
{
  for (guint32 i = 1; i < names->n; i++)
    g_free (names->items[i].text);
  g_free (names->items);
  g_free (names->slots);
  memset (names, 0, sizeof *names);
}

static inline guint32
hash_of (const EventsNames *names, LmtSpan text)
{
  return (guint32)lmt_hash_bytes (text.data, text.len, names->seed);
}

static inline gboolean
is_name (const EventsName *name, LmtSpan text)
{
  return name->len == text.len && (text.len == 0 || memcmp (name->text, text.data, text.len) == 0);
}

static guint32
find_hashed (EventsNames *names, LmtSpan text, guint32 hash)
{
  const guint32 mask = names->n_slots - 1;

  for (guint32 at = hash & mask; names->slots[at] != 0; at = (at + 1) & mask)
    {
      const EventsName *name = &names->items[names->slots[at]];
      if (name->hash == hash && is_name (name, text))
        return names->slots[at];
    }
  return 0;
}

guint32
events_names_find (EventsNames *names, LmtSpan text)
{
  if (names->last != 0 && is_name (&names->items[names->last], text))
    return names->last;
  const guint32 found = find_hashed (names, text, hash_of (names, text));
  if (found != 0)
    names->last = found;
  return found;
}

static void
put_slot (EventsNames *names, guint32 name)
{
  const guint32 mask = names->n_slots - 1;
  guint32 at = names->items[name].hash & mask;

  while (names->slots[at] != 0)
    at = (at + 1) & mask;
  names->slots[at] = name;
}

static void
grow (EventsNames *names)
{
  if (names->n == names->allocated && names->free_head == 0)
    {
      names->items = g_renew (EventsName, names->items, names->allocated * 2);
      memset (names->items + names->allocated, 0, names->allocated * sizeof (EventsName));
      names->allocated *= 2;
    }
  if (names->live < names->n_slots / 2)
    return;
  g_free (names->slots);
  names->n_slots *= 2;
  names->slots = g_new0 (guint32, names->n_slots);
  for (guint32 i = 1; i < names->n; i++)
    if (names->items[i].text != NULL)
      put_slot (names, i);
}

guint32
events_names_take (EventsNames *names, LmtSpan text)
{
  guint32 found;

  if (names->last != 0 && is_name (&names->items[names->last], text))
    found = names->last;
  else
    {
      const guint32 hash = hash_of (names, text);
      found = find_hashed (names, text, hash);
      if (found == 0)
        {
          grow (names);
          found = names->free_head;
          if (found != 0)
            names->free_head = names->items[found].next_free;
          else
            found = names->n++;
          names->items[found] = (EventsName){ .text = g_malloc (text.len + 1), .len = (guint32)text.len, .hash = hash };
          if (text.len > 0)
            memcpy (names->items[found].text, text.data, text.len);
          names->items[found].text[text.len] = 0;
          names->live++;
          put_slot (names, found);
        }
      names->last = found;
    }
  names->items[found].refs++;
  return found;
}

void
events_names_ref (EventsNames *names, guint32 name)
{
  names->items[name].refs++;
}

/* What stands behind an emptied slot and was pushed there by others moves up. */
static void
clear_slot (EventsNames *names, guint32 name)
{
  const guint32 mask = names->n_slots - 1;
  guint32 hole = names->items[name].hash & mask;

  while (names->slots[hole] != name)
    hole = (hole + 1) & mask;
  for (guint32 at = (hole + 1) & mask; names->slots[at] != 0; at = (at + 1) & mask)
    {
      const guint32 home = names->items[names->slots[at]].hash & mask;
      if (((at - home) & mask) >= ((at - hole) & mask))
        {
          names->slots[hole] = names->slots[at];
          hole = at;
        }
    }
  names->slots[hole] = 0;
}

gboolean
events_names_drop (EventsNames *names, guint32 name)
{
  EventsName *item = &names->items[name];

  if (--item->refs > 0)
    return FALSE;
  clear_slot (names, name);
  g_free (item->text);
  *item = (EventsName){ .next_free = names->free_head };
  names->free_head = name;
  names->live--;
  if (names->last == name)
    names->last = 0;
  return TRUE;
}

int
events_span_compare (LmtSpan a, LmtSpan b)
{
  const gsize n = MIN (a.len, b.len);
  const int order = n > 0 ? memcmp (a.data, b.data, n) : 0;

  return order != 0 ? order : (a.len > b.len) - (a.len < b.len);
}
