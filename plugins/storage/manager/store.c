/* SPDX-License-Identifier: Apache-2.0 */
#include "manager-private.h"

#include <string.h>

/* The store controller (storage-manager.md 7.2): one finish_write is one batch, split by (model, rank), each part to every
 * adapter. */

/* What of a part is still there is locked once and goes into one task. */
static void
submit_part (LmtSm *sm, guint32 adapter, LmtKey *const *keys, guint n)
{
  guint8 *codes = sm_scratch (&sm->codes, n);
  guint good = 0;
  SmTask *task;

  sm_l1_reserve_read (sm, keys, n, 1, codes);
  for (guint i = 0; i < n; i++)
    good += codes[i] == SM_SUCCESS;
  if (good < n && sm->listener != NULL)
    {
      sm->second.n = 0;
      for (guint i = 0; i < n; i++)
        if (codes[i] != SM_SUCCESS)
          sm_keys_add (&sm->second, keys[i]);
      sm_emit (sm, &(SmEvent){ .type = SM_EV_L1_READ_FAILED,
                               .keys = sm->second.data,
                               .n_keys = sm->second.n,
                               .during = "l2_store",
                               .reason = "not_found" });
    }
  if (good == 0)
    return;
  task = sm_task_new (sm, SM_IO_STORE, adapter, good);
  for (guint i = 0; i < n; i++)
    if (codes[i] == SM_SUCCESS)
      {
        const SmKeyState *state = sm_state (sm, keys[i]);

        sm_task_add (task, keys[i], state->bytes, state->address, 0);
        sm_l1_pin_resident (sm, keys[i]);
      }
  sm->adapters[adapter].stores++;
  sm_task_queue (sm, task);
}

void
sm_store_run (LmtSm *sm)
{
  SmKeys *batch = &sm->store_batch;
  SmPartition *partition = &sm->partition;
  SmIdentity *identities;

  if (batch->n == 0)
    return;
  identities = sm_partition_begin (partition, batch->n);
  for (guint i = 0; i < batch->n; i++)
    identities[i] = (SmIdentity){ batch->data[i]->model, batch->data[i]->fields.rank };
  sm_partition_end (partition, batch->n);
  for (guint part = 0; part < partition->n_parts; part++)
    {
      sm->keys_scratch.n = 0;
      for (guint i = partition->starts[part]; i < partition->starts[part + 1]; i++)
        sm_keys_add (&sm->keys_scratch, batch->data[partition->order[i]]);
      for (guint a = 0; a < sm->config.n_l2; a++)
        submit_part (sm, a, sm->keys_scratch.data, sm->keys_scratch.n);
    }
  for (guint i = 0; i < batch->n; i++)
    lmt_key_unref (sm->table, batch->data[i]);
  batch->n = 0;
}

static guint64
task_bytes (const SmTask *task)
{
  guint64 bytes = 0;

  for (guint i = 0; i < task->io.n; i++)
    bytes += task->sizes[i];
  return bytes;
}

void
sm_store_accepted (LmtSm *sm, SmTask *task)
{
  guint64 bytes = task_bytes (task);

  sm->counters.store_tasks++;
  sm->counters.store_keys += task->io.n;
  sm->counters.store_bytes_submitted += bytes;
  if (sm->listener != NULL)
    sm_emit (sm, &(SmEvent){ .type = SM_EV_STORE_SUBMITTED,
                             .adapter = task->io.adapter,
                             .keys = task->keys,
                             .n_keys = task->io.n,
                             .sizes = task->sizes,
                             .request = task->io.id,
                             .key_count = task->io.n,
                             .total_bytes = bytes });
}

static void
unpin_task (LmtSm *sm, SmTask *task)
{
  for (guint i = 0; i < task->io.n; i++)
    sm_l1_unpin (sm, task->keys[i], task->addresses[i]);
}

static void
return_locks (LmtSm *sm, SmTask *task)
{
  guint8 *codes = sm_scratch (&sm->codes, task->io.n);

  sm_l1_finish_read (sm, task->keys, task->io.n, 1, FALSE, codes);
}

void
sm_store_refused (LmtSm *sm, SmTask *task)
{
  sm->adapters[task->io.adapter].stores--;
  unpin_task (sm, task);
  return_locks (sm, task);
  sm_l1_flush (sm, FALSE);
}

/* 7.2.5 with skip_l1: exactly the keys that are in L2 now leave L1, unless a reader holds them (defect 6). */
static void
skip_l1 (LmtSm *sm, SmTask *task, const guint8 *codes)
{
  guint8 *deleted;
  guint n;

  sm->keys_scratch.n = 0;
  for (guint i = 0; i < task->io.n; i++)
    if (sm_code_is_good (codes[i]))
      sm_keys_add (&sm->keys_scratch, task->keys[i]);
  n = sm->keys_scratch.n;
  if (n == 0)
    return;
  deleted = sm_scratch (&sm->codes, n);
  sm_l1_delete (sm, sm->keys_scratch.data, n, FALSE, SM_PAST_REMOVED, deleted);
  for (guint i = 0; i < n; i++)
    {
      LmtKey *key = sm->keys_scratch.data[i];
      SmKeyState *state = sm_state (sm, key);

      if (deleted[i] != SM_KEY_IS_LOCKED)
        continue;
      /* Another adapter's task still has it: that one's completion tries again. */
      if (state->pins == 0)
        sm->counters.skip_l1_kept++;
      if (!sm->config.skip_l1_retry || (state->flags & (SM_KEY_RETRY | SM_KEY_RESIDENT)) != SM_KEY_RESIDENT)
        continue;
      state->flags |= SM_KEY_RETRY;
      lmt_key_ref (key);
      g_array_append_val (sm->retries, key);
    }
}

/* Deletions a reader refused are tried again at most every 500 ms; a key that left L1 meanwhile is forgotten (16). */
void
sm_store_retry (LmtSm *sm)
{
  guint kept = 0;

  if (sm->retries->len == 0 || sm->now - sm->last_retry < SM_RETRY_NS)
    return;
  sm->last_retry = sm->now;
  for (guint i = 0; i < sm->retries->len; i++)
    {
      LmtKey *key = g_array_index (sm->retries, LmtKey *, i);
      guint8 code = SM_KEY_NOT_EXIST;

      if ((sm_state (sm, key)->flags & SM_KEY_RETRY) != 0)
        sm_l1_delete (sm, &key, 1, FALSE, SM_PAST_REMOVED, &code);
      if (code == SM_KEY_IS_LOCKED)
        g_array_index (sm->retries, LmtKey *, kept++) = key;
      else
        lmt_key_unref (sm->table, key);
    }
  g_array_set_size (sm->retries, kept);
}

void
sm_store_completed (LmtSm *sm, SmTask *task, const guint8 *codes, guint64 bytes)
{
  guint succeeded = 0, no_space = 0;

  if (task->orphan) /* the late answer to what was counted as failed */
    {
      unpin_task (sm, task);
      sm_l1_flush (sm, FALSE);
      return;
    }
  for (guint i = 0; i < task->io.n; i++)
    {
      succeeded += sm_code_is_good (codes[i]);
      no_space += codes[i] == LMT_L2_NO_SPACE;
    }
  sm->adapters[task->io.adapter].stores--;
  sm->counters.store_bytes_moved += bytes;
  sm->counters.store_keys_failed += task->io.n - succeeded;
  if (!task->late)
    unpin_task (sm, task);
  return_locks (sm, task);
  sm_l1_flush (sm, FALSE);
  if (sm->listener != NULL)
    sm_emit (sm, &(SmEvent){ .type = SM_EV_STORE_COMPLETED,
                             .adapter = task->io.adapter,
                             .keys = task->keys,
                             .n_keys = task->io.n,
                             .sizes = task->sizes,
                             .request = task->io.id,
                             .key_count = task->io.n,
                             .total_bytes = bytes,
                             .succeeded_count = succeeded,
                             .failed_count = task->io.n - succeeded });
  if (succeeded > 0 && sm->config.store_policy == SM_STORE_SKIP_L1)
    skip_l1 (sm, task, codes);
  if (no_space > 0)
    sm_evict_l2_pass (sm, task->io.adapter, NULL, NULL);
}

guint
lmt_sm_stores_outstanding (const LmtSm *sm, guint32 adapter)
{
  guint n = 0;

  if (adapter != G_MAXUINT32)
    return adapter < sm->config.n_l2 ? sm->adapters[adapter].stores : 0;
  for (guint a = 0; a < sm->config.n_l2; a++)
    n += sm->adapters[a].stores;
  return n;
}

gboolean
lmt_sm_key_in_store (const LmtSm *sm, const LmtKey *key)
{
  if (key->id >= sm->n_states)
    return FALSE;
  if (sm->states[key->id].pins > 0)
    return TRUE;
  for (guint32 i = sm->cold[key->id].zombies; i != SM_NIL; i = sm->zombies[i].next)
    if (sm->zombies[i].store)
      return TRUE;
  return FALSE;
}
