// SPDX-License-Identifier: Apache-2.0
#include "storage-known.h"

#include <string.h>

/* In the usual bytes of an ObjectKey: the end of a hash of 32 bytes. Anywhere else it is as good a part as any. */
enum
{
  PRINT_AT = 58
};

static inline guint64
print_of (const guint8 *data, gsize room)
{
  guint64 print = 0;

  if (room >= PRINT_AT + sizeof print)
    memcpy (&print, data + PRINT_AT, sizeof print);
  return print;
}

static void
let_go (SmKnownList *list, LmtKeyTable *table)
{
  for (guint32 i = 0; i < list->n; i++)
    lmt_key_unref (table, list->keys[i]);
  list->n = list->len = 0;
}

void
sm_known_clear (SmKnown *known, LmtKeyTable *table)
{
  for (guint i = 0; i < SM_KNOWN_LISTS; i++)
    {
      let_go (&known->lists[i], table);
      g_free (known->lists[i].bytes);
      g_free (known->lists[i].keys);
      g_free (known->lists[i].ends);
    }
  memset (known, 0, sizeof *known);
}

const SmKnownList *
sm_known_find (SmKnown *known, guint64 tenant, const guint8 *data, gsize room, guint32 n, const SmKnownList **begins)
{
  guint64 print = print_of (data, room);

  *begins = NULL;
  for (guint i = 0; i < SM_KNOWN_LISTS; i++)
    {
      guint at = (known->newest - i) % SM_KNOWN_LISTS;
      SmKnownList *list = &known->lists[at];

      if (known->prints[at] != print || list->n == 0 || list->tenant != tenant)
        continue;
      if (list->n == n && list->len <= room && memcmp (list->bytes, data, list->len) == 0)
        {
          list->round = known->round;
          return list;
        }
      if (*begins == NULL)
        *begins = list;
    }
  return NULL;
}

/* All places alike, so that a warm working set allocates nothing, whichever place a list comes to. */
static void
make_room (SmKnown *known, guint32 len, guint32 n)
{
  if (known->max_len < len)
    {
      known->max_len = MAX (len, 2 * known->max_len);
      for (guint i = 0; i < SM_KNOWN_LISTS; i++)
        known->lists[i].bytes = g_realloc (known->lists[i].bytes, known->max_len);
    }
  if (known->max < n)
    {
      known->max = MAX (n, 2 * known->max);
      for (guint i = 0; i < SM_KNOWN_LISTS; i++)
        {
          known->lists[i].keys = g_renew (LmtKey *, known->lists[i].keys, known->max);
          known->lists[i].ends = g_renew (guint32, known->lists[i].ends, known->max);
        }
    }
}

gboolean
sm_known_add (SmKnown *known, LmtKeyTable *table, guint64 tenant, const guint8 *data, LmtKey *const *keys, const guint32 *ends,
              guint32 n, guint32 n_grouped, guint32 n_salted)
{
  guint at = (known->newest + 1) % SM_KNOWN_LISTS;
  SmKnownList *list = &known->lists[at];
  guint32 len = n > 0 ? ends[n - 1] : 0;

  /* What this record has used already must stay. */
  if (n == 0 || len > SM_KNOWN_BYTES || (list->n > 0 && list->round == known->round))
    return FALSE;
  let_go (list, table);
  make_room (known, len, n);
  memcpy (list->bytes, data, len);
  memcpy (list->keys, keys, n * sizeof *keys);
  memcpy (list->ends, ends, n * sizeof *ends);
  list->len = len;
  list->n = n;
  list->n_grouped = n_grouped;
  list->n_salted = n_salted;
  list->tenant = tenant;
  list->round = known->round;
  known->prints[at] = print_of (data, len);
  known->newest = at;
  return TRUE;
}
