// SPDX-License-Identifier: Apache-2.0
#include "storage-session.h"
#include "storage-trace.h"

#include <string.h>

#define STORAGE_MANAGER "lmcache.v1.distributed.storage_manager.StorageManager."

static const char *const anomaly_names[STORAGE_N_ANOMALIES] = {
  "allocation_failed",      "context_left_open",   "exit_without_enter",   "finish_read_absent",         "finish_read_foreign",
  "finish_read_not_locked", "finish_write_absent", "finish_write_expired", "read_of_unavailable_object", "read_too_early",
};

const char *
storage_anomaly_name (guint anomaly)
{
  return anomaly < STORAGE_N_ANOMALIES ? anomaly_names[anomaly] : NULL;
}

void
storage_count_anomaly (StorageSession *session, StorageAnomaly anomaly, guint64 n, guint64 record)
{
  if (n == 0)
    return;
  if (session->anomalies[anomaly] == 0)
    session->anomaly_records[anomaly] = record;
  session->anomalies[anomaly] += n;
}

static gboolean
decode (StorageSession *session, guint32 op, const LmtRecord *record, SmCall *call, LmtOutcome *outcome)
{
  gboolean missing = FALSE;

  if (sm_decoder_decode (session->decoder, op, record, call, &missing, &outcome->fault))
    return TRUE;
  outcome->fault.number = record->number;
  outcome->fault.offset = record->offset;
  outcome->missing_argument = missing;
  return FALSE;
}

/* The call between what has to be before it and what follows it. */
static void
act (StorageSession *session, const SmCall *call, SmResult *result, LmtOutcome *outcome)
{
  sm_driver_before (session->driver, session->trace_ns, call);
  sm_trace_call (call);
  sm_driver_call (session->driver, call, result, &outcome->start_ns, &outcome->end_ns);
}

static guint32
done (StorageSession *session, const SmResult *result, LmtOutcome *outcome)
{
  outcome->error = result->value_error;
  sm_driver_after (session->driver);
  return outcome->error != NULL ? LMT_STATUS_FAILED : LMT_STATUS_OK;
}

void
storage_fill_buffers (StorageSession *session, const SmCall *call, const SmResult *result)
{
  for (guint i = 0; i < result->n; i++)
    {
      guint8 *buffer;

      if (result->addresses[i] == G_MAXUINT64)
        continue;
      buffer = session->pool.base + result->addresses[i];
      if (session->fill_pattern)
        {
          const char *wire = lmt_key_wire (call->keys[i]);

          lmt_fill (lmt_fill_seed_for_wire_key (wire, lmt_key_wire_len (call->keys[i])), buffer, call->object_bytes);
        }
      else
        memset (buffer, 0, call->object_bytes);
    }
}

static guint32
reserve_write (gpointer user_data, const LmtRecord *record, LmtOutcome *outcome)
{
  StorageSession *session = user_data;
  SmCall call;
  SmResult result;
  gboolean no_memory = FALSE;

  if (!decode (session, SM_OP_RESERVE_WRITE, record, &call, outcome))
    return LMT_STATUS_UNDECODABLE;
  if (session->env->dry_run)
    return LMT_STATUS_OK;
  act (session, &call, &result, outcome);
  if (result.value_error == NULL)
    {
      for (guint i = 0; i < result.n; i++)
        {
          no_memory |= result.codes[i] == SM_OUT_OF_MEMORY;
          if (result.codes[i] == SM_SUCCESS)
            outcome->bytes += call.object_bytes;
        }
      storage_count_anomaly (session, STORAGE_ANOMALY_ALLOCATION_FAILED, no_memory, record->number);
      if (session->fill)
        storage_fill_buffers (session, &call, &result);
    }
  return done (session, &result, outcome);
}

static guint32
finish_write (gpointer user_data, const LmtRecord *record, LmtOutcome *outcome)
{
  StorageSession *session = user_data;
  SmCall call;
  SmResult result;
  guint64 absent = 0;
  guint64 expired = 0;

  if (!decode (session, SM_OP_FINISH_WRITE, record, &call, outcome))
    return LMT_STATUS_UNDECODABLE;
  if (session->env->dry_run)
    return LMT_STATUS_OK;
  act (session, &call, &result, outcome);
  for (guint i = 0; i < result.n; i++)
    {
      absent += result.codes[i] == SM_KEY_NOT_EXIST;
      expired += result.codes[i] == SM_KEY_IN_WRONG_STATE;
    }
  storage_count_anomaly (session, STORAGE_ANOMALY_FINISH_WRITE_ABSENT, absent, record->number);
  storage_count_anomaly (session, STORAGE_ANOMALY_FINISH_WRITE_EXPIRED, expired, record->number);
  return done (session, &result, outcome);
}

static guint32
submit_prefetch (gpointer user_data, const LmtRecord *record, LmtOutcome *outcome)
{
  StorageSession *session = user_data;
  SmCall call;

  if (!decode (session, SM_OP_PREFETCH, record, &call, outcome))
    return LMT_STATUS_UNDECODABLE;
  if (session->env->dry_run)
    return LMT_STATUS_OK;
  if (session->hashes != NULL)
    storage_hashes_add (session->hashes, record->t_wall, sm_decoder_get_request_id (session->decoder), &call);
  sm_driver_before (session->driver, session->trace_ns, &call);
  sm_trace_call (&call);
  if (session->flags->bypass_l1)
    call.look_l1 = FALSE;
  return storage_prefetch_handler (session, record, &call, outcome);
}

static gboolean
is_too_early (StorageSession *session, const SmCall *call, const SmResult *result)
{
  if (session->mode == SM_DRIVE_SETTLED)
    return FALSE;
  for (guint i = 0; i < result->n; i++)
    if (result->codes[i] != SM_SUCCESS && lmt_sm_key_in_prefetch (session->sm, call->keys[i]))
      return TRUE;
  return FALSE;
}

static void
push_bad_context (StorageSession *session, const SmCall *call, const SmResult *result, guint64 record)
{
  if (session->cap_readable < result->n)
    {
      session->cap_readable = MAX (result->n, 2 * session->cap_readable);
      session->readable = g_realloc (session->readable, session->cap_readable);
    }
  for (guint i = 0; i < result->n; i++)
    session->readable[i] = result->codes[i] == SM_SUCCESS;
  storage_contexts_push (session->contexts, call->keys, session->readable, result->n, record);
}

static guint32
read_enter (gpointer user_data, const LmtRecord *record, LmtOutcome *outcome)
{
  StorageSession *session = user_data;
  SmCall call;
  SmResult result;

  if (!decode (session, SM_OP_READ_ENTER, record, &call, outcome))
    return LMT_STATUS_UNDECODABLE;
  if (session->env->dry_run)
    {
      storage_contexts_push (session->contexts, call.keys, NULL, call.n_keys, record->number);
      return LMT_STATUS_OK;
    }
  act (session, &call, &result, outcome);
  if (result.good)
    storage_contexts_push (session->contexts, call.keys, NULL, call.n_keys, record->number);
  else
    {
      push_bad_context (session, &call, &result, record->number);
      storage_count_anomaly (session,
                             is_too_early (session, &call, &result) ? STORAGE_ANOMALY_READ_TOO_EARLY
                                                                    : STORAGE_ANOMALY_READ_OF_UNAVAILABLE_OBJECT,
                             1, record->number);
    }
  return done (session, &result, outcome);
}

/* Locks given back: whose were they? */
static void
account_returned (StorageSession *session, const SmCall *call, const SmResult *result, guint32 n, guint64 record)
{
  gint64 now = sm_driver_now (session->driver);
  guint64 absent = 0;
  guint64 not_locked = 0;
  guint64 foreign = 0;

  for (guint i = 0; i < result->n; i++)
    {
      LmtKey *key = call->keys[i];

      if (result->codes[i] == SM_SUCCESS)
        foreign += storage_locks_return (session->locks, key, n, now);
      else
        {
          absent += result->codes[i] == SM_KEY_NOT_EXIST;
          not_locked += result->codes[i] != SM_KEY_NOT_EXIST;
          storage_locks_void (session->locks, key);
        }
    }
  storage_count_anomaly (session, STORAGE_ANOMALY_FINISH_READ_ABSENT, absent, record);
  storage_count_anomaly (session, STORAGE_ANOMALY_FINISH_READ_NOT_LOCKED, not_locked, record);
  storage_count_anomaly (session, STORAGE_ANOMALY_FINISH_READ_FOREIGN, foreign, record);
}

void
storage_exit_context (StorageSession *session, const StorageContext *context, guint64 record, LmtOutcome *outcome)
{
  SmCall call = { .op = SM_OP_READ_EXIT };
  SmResult result;

  call.enter_bad = !context->good;
  call.keys = context->good ? context->keys : context->good_keys;
  call.n_keys = context->good ? context->n_keys : context->n_good;
  call.readers = 1;
  sm_driver_before (session->driver, session->trace_ns, &call);
  sm_driver_call (session->driver, &call, &result, &outcome->start_ns, &outcome->end_ns);
  if (!context->good)
    account_returned (session, &call, &result, 1, record);
  sm_driver_after (session->driver);
}

static guint32
read_exit (gpointer user_data, const LmtRecord *record, LmtOutcome *outcome)
{
  StorageSession *session = user_data;
  const StorageContext *context;
  SmCall call;

  if (!decode (session, SM_OP_READ_EXIT, record, &call, outcome))
    return LMT_STATUS_UNDECODABLE;
  /* The door is the end of the caller's block, whatever the context then has to give back. */
  if (!session->env->dry_run)
    sm_trace_call (&call);
  context = storage_contexts_pop (session->contexts, call.keys, call.n_keys);
  if (context == NULL)
    storage_count_anomaly (session, STORAGE_ANOMALY_EXIT_WITHOUT_ENTER, 1, record->number);
  else if (!session->env->dry_run)
    storage_exit_context (session, context, record->number, outcome);
  return LMT_STATUS_OK;
}

static guint32
finish_read (gpointer user_data, const LmtRecord *record, LmtOutcome *outcome)
{
  StorageSession *session = user_data;
  SmCall call;
  SmResult result;

  if (!decode (session, SM_OP_FINISH_READ, record, &call, outcome))
    return LMT_STATUS_UNDECODABLE;
  if (session->env->dry_run)
    return LMT_STATUS_OK;
  act (session, &call, &result, outcome);
  account_returned (session, &call, &result, call.readers, record->number);
  return done (session, &result, outcome);
}

#define HANDLER(name_, function_)                                                                                                \
  {                                                                                                                              \
    .struct_size = sizeof (LmtHandlerOps), .level = "storage", .qualname = STORAGE_MANAGER name_, .call = function_              \
  }

const LmtHandlerOps storage_handlers[] = {
  HANDLER ("reserve_write", reserve_write),
  HANDLER ("finish_write", finish_write),
  HANDLER ("submit_prefetch_task", submit_prefetch),
  HANDLER ("read_prefetched_results.__enter__", read_enter),
  HANDLER ("read_prefetched_results.__exit__", read_exit),
  HANDLER ("finish_read_prefetched", finish_read),
};
const guint storage_n_handlers = G_N_ELEMENTS (storage_handlers);
