// SPDX-License-Identifier: Apache-2.0
/* --close-pairs: what the records so far opened is ended as the missing calls would have ended it (cli.md 8.7). */
#include "storage-session.h"
#include "storage-trace.h"

/* A call of a release counts at most so many locks. */
#define MAX_LOCKS 128

static void
make_call (StorageSession *session, const SmCall *call)
{
  SmResult result;
  gint64 start_ns;
  gint64 end_ns;

  sm_driver_before (session->driver, session->trace_ns, call);
  sm_trace_call (call);
  sm_driver_call (session->driver, call, &result, &start_ns, &end_ns);
  sm_driver_after (session->driver);
}

static void
close_contexts (StorageSession *session)
{
  const StorageContext *context;

  while ((context = storage_contexts_pop_oldest (session->contexts)) != NULL)
    {
      LmtOutcome outcome = { .struct_size = sizeof outcome };

      session->closed_contexts++;
      if (session->started)
        sm_trace_call (&(SmCall){ .op = SM_OP_READ_EXIT, .keys = context->keys, .n_keys = context->n_keys });
      if (session->started)
        storage_exit_context (session, context, context->record, &outcome);
    }
}

static void
return_locks (StorageSession *session)
{
  guint32 n;
  LmtKey *key;

  while ((key = storage_locks_take_oldest (session->locks, sm_driver_now (session->driver), &n)) != NULL)
    {
      session->closed_locks += n;
      while (n > 0)
        {
          SmCall call = { .op = SM_OP_FINISH_READ, .n_keys = 1, .keys = &key, .readers = MIN (n, MAX_LOCKS) };

          make_call (session, &call);
          n -= call.readers;
        }
      lmt_key_unref (session->keys, key);
    }
}

typedef struct
{
  StorageSession *session;
  GPtrArray *keys;
} Open;

static void
find_reservation (LmtKey *key, const SmKeyView *view, gpointer data)
{
  Open *open = data;
  gint64 now = sm_driver_now (open->session->driver);
  SmStageView stage;

  for (guint i = 0; i < view->n_staged; i++)
    if (lmt_sm_view_stage (open->session->sm, now, key, i, &stage) && stage.write_locked
        && g_str_equal (stage.tag, "storage_manager"))
      {
        g_ptr_array_add (open->keys, lmt_key_ref (key));
        return;
      }
}

static void
finish_writes (StorageSession *session)
{
  g_autoptr (GPtrArray) keys = g_ptr_array_new ();
  Open open = { session, keys };
  SmCall call = { .op = SM_OP_FINISH_WRITE };

  lmt_sm_foreach (session->sm, sm_driver_now (session->driver), find_reservation, &open);
  if (keys->len == 0)
    return;
  call.n_keys = keys->len;
  call.keys = (LmtKey *const *)keys->pdata;
  make_call (session, &call);
  session->closed_reservations += keys->len;
  for (guint i = 0; i < keys->len; i++)
    lmt_key_unref (session->keys, keys->pdata[i]);
}

guint64
storage_close_pairs (gpointer user_data)
{
  StorageSession *session = user_data;
  guint64 before = session->closed_contexts + session->closed_locks + session->closed_reservations;

  close_contexts (session);
  if (session->started)
    {
      /* A prefetch still under way takes its locks when it ends. */
      sm_driver_drain (session->driver);
      return_locks (session);
      finish_writes (session);
    }
  return session->closed_contexts + session->closed_locks + session->closed_reservations - before;
}
