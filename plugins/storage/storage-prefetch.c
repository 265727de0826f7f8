// SPDX-License-Identifier: Apache-2.0
#include "storage-session.h"

#include <string.h>

/* One submit_prefetch_task record. What it needs when its result comes is copied only if that isn't before its call returns. */
typedef struct
{
  guint64 record;
  guint64 request; /* of a refused one: the number the next request gets, so that the ring is in order */
  guint32 readers;
  guint32 lock_mode;
  guint32 n_rows;
  guint32 n_columns;
  gboolean refused;
  gboolean done;
  gboolean kept;
  guint32 n_keys; /* held */
  guint32 n_flat;
  gboolean has_flat;
  LmtKey **keys;
  guint8 *bits; /* hit, l1_hit, l2_hit */
  guint32 *flat;
  guint cap_keys;
  guint cap_bits;
  guint cap_flat;
} Prefetch;

struct _StoragePrefetches
{
  Prefetch **ring;
  guint size; /* power of two */
  guint head;
  guint n;
  guint64 next_request;
  const SmCall *current; /* of the newest entry, while its handler runs */
};

StoragePrefetches *
storage_prefetches_new (void)
{
  StoragePrefetches *prefetches = g_new0 (StoragePrefetches, 1);

  prefetches->size = 16;
  prefetches->ring = g_new0 (Prefetch *, prefetches->size);
  return prefetches;
}

static void
let_go (Prefetch *prefetch, LmtKeyTable *keys)
{
  for (guint i = 0; i < prefetch->n_keys; i++)
    lmt_key_unref (keys, prefetch->keys[i]);
  prefetch->n_keys = 0;
}

void
storage_prefetches_free (StoragePrefetches *prefetches, LmtKeyTable *keys)
{
  if (prefetches == NULL)
    return;
  for (guint i = 0; i < prefetches->size; i++)
    {
      Prefetch *prefetch = prefetches->ring[i];

      if (prefetch == NULL)
        continue;
      let_go (prefetch, keys);
      g_free (prefetch->keys);
      g_free (prefetch->bits);
      g_free (prefetch->flat);
      g_free (prefetch);
    }
  g_free (prefetches->ring);
  g_free (prefetches);
}

static Prefetch *
nth (const StoragePrefetches *prefetches, guint i)
{
  return prefetches->ring[(prefetches->head + i) & (prefetches->size - 1)];
}

static void
ring_grow (StoragePrefetches *prefetches)
{
  Prefetch **ring = g_new0 (Prefetch *, (gsize)prefetches->size * 2);

  for (guint i = 0; i < prefetches->size; i++)
    ring[i] = nth (prefetches, i);
  g_free (prefetches->ring);
  prefetches->ring = ring;
  prefetches->size *= 2;
  prefetches->head = 0;
}

static Prefetch *
ring_push (StoragePrefetches *prefetches)
{
  Prefetch **slot;

  if (prefetches->n == prefetches->size)
    ring_grow (prefetches);
  slot = &prefetches->ring[(prefetches->head + prefetches->n) & (prefetches->size - 1)];
  if (*slot == NULL)
    *slot = g_new0 (Prefetch, 1);
  prefetches->n++;
  (*slot)->refused = (*slot)->done = (*slot)->kept = (*slot)->has_flat = FALSE;
  (*slot)->n_keys = (*slot)->n_flat = 0;
  return *slot;
}

/* Requests rise along the ring; a refused record shares the number of the one behind it. */
static guint
find (const StoragePrefetches *prefetches, guint64 request)
{
  guint low = 0;
  guint high = prefetches->n;

  if (high > 0 && nth (prefetches, high - 1)->request == request)
    return high - 1;
  while (low < high)
    {
      guint middle = low + (high - low) / 2;
      const Prefetch *prefetch = nth (prefetches, middle);

      if (prefetch->request < request || (prefetch->request == request && prefetch->refused))
        low = middle + 1;
      else
        high = middle;
    }
  return low;
}

static void
write_line (StorageSession *session, const Prefetch *prefetch, const char *word, const guint8 *hit, const guint8 *l1_hit,
            const guint8 *l2_hit)
{
  StorageStatePrefetch line = { 0 };

  line.state = word;
  line.n_rows = prefetch->n_rows;
  line.n_columns = prefetch->n_columns;
  line.hit = hit;
  line.l1_hit = l1_hit;
  line.l2_hit = l2_hit;
  if (prefetch->kept)
    {
      line.flat = prefetch->flat;
      line.n_flat = prefetch->n_flat;
      line.has_flat = prefetch->has_flat;
    }
  else if (storage_state_wants_flat (session->state))
    {
      line.flat = sm_decoder_get_flat (session->decoder, &line.n_flat);
      line.has_flat = line.flat != NULL;
    }
  storage_state_add_prefetch (session->state, &line);
}

static void
pop_done (StorageSession *session)
{
  StoragePrefetches *prefetches = session->prefetches;

  while (prefetches->n > 0 && nth (prefetches, 0)->done)
    {
      Prefetch *prefetch = nth (prefetches, 0);
      guint64 n = (guint64)prefetch->n_rows * prefetch->n_columns;

      if (prefetch->refused)
        write_line (session, prefetch, "failed", NULL, NULL, NULL);
      else
        write_line (session, prefetch, "done", prefetch->bits, prefetch->bits + n, prefetch->bits + 2 * n);
      let_go (prefetch, session->keys);
      prefetches->head = (prefetches->head + 1) & (prefetches->size - 1);
      prefetches->n--;
    }
}

static void
drop_head (StorageSession *session)
{
  StoragePrefetches *prefetches = session->prefetches;

  let_go (nth (prefetches, 0), session->keys);
  prefetches->head = (prefetches->head + 1) & (prefetches->size - 1);
  prefetches->n--;
}

static void
keep_bits (Prefetch *prefetch, const SmPrefetchResult *result)
{
  guint n = prefetch->n_rows * prefetch->n_columns;

  if (prefetch->cap_bits < 3 * n)
    {
      prefetch->cap_bits = MAX (3 * n, 2 * prefetch->cap_bits);
      prefetch->bits = g_realloc (prefetch->bits, prefetch->cap_bits);
    }
  if (n == 0)
    return;
  memcpy (prefetch->bits, result->hit, n);
  memcpy (prefetch->bits + n, result->l1_hit, n);
  memcpy (prefetch->bits + 2 * (gsize)n, result->l2_hit, n);
}

static void
own_locks (StorageSession *session, const Prefetch *prefetch, const SmCall *call, const SmPrefetchResult *result)
{
  gint64 now = sm_driver_now (session->driver);

  if (prefetch->lock_mode != SM_LOCK)
    return;
  for (guint r = 0; r < prefetch->n_rows; r++)
    for (guint i = 0; i < prefetch->n_columns; i++)
      {
        guint cell = r * prefetch->n_columns + i;

        if (result->hit[cell])
          storage_locks_add (session->locks, call != NULL ? call->rows[r].keys[i] : prefetch->keys[cell], prefetch->readers,
                             prefetch->record, now);
      }
}

void
storage_prefetch_result (const SmPrefetchResult *result, gboolean mismatch, gint64 done_ns, gpointer user_data)
{
  StorageSession *session = user_data;
  StoragePrefetches *prefetches = session->prefetches;
  guint index = find (prefetches, result->request);
  const SmCall *call;
  Prefetch *prefetch;

  if (index >= prefetches->n || nth (prefetches, index)->request != result->request)
    return;
  prefetch = nth (prefetches, index);
  call = prefetch->kept ? NULL : prefetches->current;
  own_locks (session, prefetch, call, result);
  lmt_replay_complete (session->env->replay, prefetch->record, done_ns, mismatch ? LMT_STATUS_MISMATCH : LMT_STATUS_OK,
                       result->hit_bytes, mismatch ? "a loaded byte differs from what was stored" : NULL);
  prefetch->done = TRUE;
  if (index == 0)
    {
      write_line (session, prefetch, "done", result->hit, result->l1_hit, result->l2_hit);
      drop_head (session);
      pop_done (session);
    }
  else
    keep_bits (prefetch, result);
}

static void
keep_flat (StorageSession *session, Prefetch *prefetch)
{
  const guint32 *flat;
  guint n = 0;

  if (!storage_state_wants_flat (session->state))
    return;
  flat = sm_decoder_get_flat (session->decoder, &n);
  if (flat == NULL)
    return;
  if (prefetch->cap_flat < n)
    {
      prefetch->cap_flat = MAX (n, 2 * prefetch->cap_flat);
      prefetch->flat = g_renew (guint32, prefetch->flat, prefetch->cap_flat);
    }
  if (n > 0)
    memcpy (prefetch->flat, flat, n * sizeof flat[0]);
  prefetch->n_flat = n;
  prefetch->has_flat = TRUE;
}

/* The result comes later: hold the keys until then. */
static void
keep (StorageSession *session, Prefetch *prefetch, const SmCall *call)
{
  guint n = prefetch->n_rows * prefetch->n_columns;

  if (prefetch->keys == NULL || prefetch->cap_keys < n)
    {
      prefetch->cap_keys = MAX (MAX (n, 16), 2 * prefetch->cap_keys);
      prefetch->keys = g_renew (LmtKey *, prefetch->keys, prefetch->cap_keys);
    }
  for (guint r = 0; r < prefetch->n_rows; r++)
    for (guint i = 0; i < prefetch->n_columns; i++)
      prefetch->keys[prefetch->n_keys++] = lmt_key_ref (call->rows[r].keys[i]);
  keep_flat (session, prefetch);
  prefetch->kept = TRUE;
}

guint32
storage_prefetch_handler (StorageSession *session, const LmtRecord *record, SmCall *call, LmtOutcome *outcome)
{
  StoragePrefetches *prefetches = session->prefetches;
  SmResult result;
  Prefetch *prefetch;
  guint64 request;

  sm_driver_call (session->driver, call, &result, &outcome->start_ns, &outcome->end_ns);
  prefetch = ring_push (prefetches);
  prefetch->record = record->number;
  prefetch->readers = call->readers;
  prefetch->lock_mode = call->lock_mode;
  prefetch->n_rows = call->n_rows;
  prefetch->n_columns = call->n_rows > 0 ? call->rows[0].n : 0;
  if (result.value_error != NULL)
    {
      prefetch->refused = TRUE;
      prefetch->done = TRUE;
      prefetch->request = prefetches->next_request;
      if (prefetches->n > 1)
        keep_flat (session, prefetch), prefetch->kept = TRUE;
      outcome->error = result.value_error;
      pop_done (session);
      sm_driver_after (session->driver);
      return LMT_STATUS_FAILED;
    }
  request = prefetch->request = result.request;
  prefetches->next_request = request + 1;
  prefetches->current = call;
  outcome->pending = TRUE;
  sm_driver_after (session->driver);
  prefetches->current = NULL;
  /* Still there, and not done: `prefetch` may have been given to another record, its place says which. */
  if (prefetches->n > 0)
    {
      Prefetch *newest = nth (prefetches, prefetches->n - 1);

      if (newest->request == request && !newest->refused)
        keep (session, newest, call);
    }
  return LMT_STATUS_OK;
}

guint
storage_prefetches_flush (StorageSession *session)
{
  StoragePrefetches *prefetches = session->prefetches;
  guint n = 0;

  while (prefetches->n > 0)
    {
      pop_done (session);
      if (prefetches->n == 0)
        break;
      write_line (session, nth (prefetches, 0), "pending", NULL, NULL, NULL);
      drop_head (session);
      n++;
    }
  return n;
}
