/* SPDX-License-Identifier: Apache-2.0 */
#include "manager-private.h"

#include <string.h>

/* The prefetch controller from the reservation on: reserve, load, admit, finish (storage-manager.md 8.5-8.8). */

/* ---- reserve ---- */

/* One reservation: cells of one row, or of one group of a mixed row. FALSE: a value error. */
static gboolean
reserve_cells (LmtSm *sm, SmRequest *request, const guint32 *cells, guint n, guint64 bytes, gboolean *failed)
{
  SmReserve reserve = { .n = n, .bytes = bytes, .tag = request->id };
  guint8 *codes = sm_scratch (&sm->codes, n);
  guint64 *addresses = sm_scratch (&sm->addresses, n * sizeof *addresses);

  sm->keys_scratch.n = 0;
  for (guint i = 0; i < n; i++)
    sm_keys_add (&sm->keys_scratch, request->keys[cells[i]]);
  reserve.keys = sm->keys_scratch.data;
  reserve.temporary = !request->no_lock && sm->config.prefetch_policy == SM_PREFETCH_DEFAULT;
  if (sm_l1_reserve_write (sm, &reserve, codes, addresses) != NULL)
    return FALSE;
  for (guint i = 0; i < n; i++)
    {
      if (codes[i] == SM_SUCCESS)
        request->marks[cells[i]] |= SM_CELL_STAGED;
      else
        {
          request->troubles[cells[i]] |= codes[i] == SM_OUT_OF_MEMORY ? SM_TROUBLE_MEMORY : SM_TROUBLE_CONTENDED;
          *failed = TRUE;
        }
    }
  return TRUE;
}

/* A mixed row reserves per group of its keys, in order of first appearance; each group has its own size. */
static gboolean
reserve_mixed (LmtSm *sm, SmRequest *request, const guint32 *cells, guint n, gboolean *failed)
{
  SmPartition *partition = &sm->partition;
  SmIdentity *identities = sm_partition_begin (partition, n);
  guint32 *ordered;

  for (guint i = 0; i < n; i++)
    identities[i] = (SmIdentity){ request->keys[cells[i]]->fields.group, sm_request_bytes (request, cells[i]) };
  sm_partition_end (partition, n);
  ordered = partition->order;
  for (guint i = 0; i < n; i++)
    ordered[i] = cells[ordered[i]];
  for (guint part = 0; part < partition->n_parts; part++)
    {
      guint start = partition->starts[part], end = partition->starts[part + 1];

      if (!reserve_cells (sm, request, ordered + start, end - start, sm_request_bytes (request, ordered[start]), failed))
        return FALSE;
    }
  return TRUE;
}

static gboolean
reserve_rows (LmtSm *sm, SmRequest *request, gboolean *failed)
{
  for (guint32 r = 0; r < request->n_rows; r++)
    {
      guint32 *cells = sm_scratch (&sm->cells, request->n_columns * sizeof *cells), first = r * request->n_columns;
      guint n = 0;

      for (guint32 c = first; c < first + request->n_columns; c++)
        if (request->plan[c] < SM_PLAN_L1)
          cells[n++] = c;
      if (n == 0)
        continue;
      if (request->mixed ? !reserve_mixed (sm, request, cells, n, failed)
                         : !reserve_cells (sm, request, cells, n, request->bytes[r], failed))
        return FALSE;
    }
  return TRUE;
}

/*
 * Gives up staging of cells whose plan is gone. A key staged for two cells goes only if neither needs it: first the keys that
 * stay are marked, then the others leave, once each.
 */
static void
drop_unplanned_staging (LmtSm *sm, SmRequest *request)
{
  guint32 base = sm_marks_begin (sm, 2);
  SmKeys *keys = &sm->keys_scratch;

  for (guint32 c = 0; c < request->n_cells; c++)
    if ((request->marks[c] & SM_CELL_STAGED) != 0 && request->plan[c] < SM_PLAN_L1)
      sm_state (sm, request->keys[c])->mark = base;
  keys->n = 0;
  for (guint32 c = 0; c < request->n_cells; c++)
    {
      SmKeyState *state = sm_state (sm, request->keys[c]);

      if ((request->marks[c] & SM_CELL_STAGED) == 0 || request->plan[c] < SM_PLAN_L1)
        continue;
      request->marks[c] &= ~SM_CELL_STAGED;
      if (state->mark >= base)
        continue;
      state->mark = base + 1;
      sm_keys_add (keys, request->keys[c]);
    }
  if (keys->n > 0)
    sm_l1_finish_write_and_delete (sm, keys->data, keys->n, request->id, sm_scratch (&sm->codes, keys->n));
}

/* full: only columns staged in every row stay; cells served from L1 count as missing here (defect 19). */
static void
drop_incomplete_columns (LmtSm *sm, SmRequest *request)
{
  for (guint32 c = 0; c < request->n_cells; c++)
    request->grid[c] = (request->marks[c] & SM_CELL_STAGED) != 0;
  sm_fold_full (request->grid, request->n_rows, request->n_columns, request->columns);
  for (guint32 c = 0; c < request->n_cells; c++)
    if (request->columns[c % request->n_columns] == 0 && request->plan[c] < SM_PLAN_L1)
      request->plan[c] = SM_PLAN_NONE;
  drop_unplanned_staging (sm, request);
}

static gboolean
is_staged (const SmRequest *request, guint adapter, guint32 cell)
{
  return (request->marks[cell] & SM_CELL_STAGED) != 0;
}

static void
tell_failed (LmtSm *sm, SmRequest *request, guint8 trouble, const char *reason, guint64 *counter)
{
  SmKeys *keys = &sm->failed_keys;

  keys->n = 0;
  for (guint32 c = 0; c < request->n_cells; c++)
    if ((request->troubles[c] & trouble) != 0)
      sm_keys_add (keys, request->keys[c]);
  *counter += keys->n;
  if (keys->n > 0 && sm->listener != NULL)
    sm_emit (sm, &(SmEvent){ .type = SM_EV_PREFETCH_FAILED,
                             .keys = keys->data,
                             .n_keys = keys->n,
                             .request = request->id,
                             .key_count = keys->n,
                             .reason = reason });
}

/* ---- load ---- */

static void
queue_loads (LmtSm *sm, SmRequest *request)
{
  for (guint a = 0; a < sm->config.n_l2; a++)
    {
      SmTask *task = NULL;

      for (guint32 c = 0; c < request->n_cells; c++)
        {
          SmKeyState *state;
          guint32 stage;

          if (request->plan[c] != a)
            continue;
          if (task == NULL)
            task = sm_task_new (sm, SM_IO_LOAD, a, request->n_cells - c);
          state = sm_state (sm, request->keys[c]);
          stage = sm_l1_find_stage (sm, state, request->id);
          sm->stages[stage].pins++;
          sm_task_add (task, request->keys[c], sm->stages[stage].bytes, sm->stages[stage].address, c);
          request->load_cells[request->n_load_cells++] = c;
        }
      if (task == NULL)
        continue;
      task->request = request;
      task->io.request = request->id;
      task->sibling = request->tasks;
      request->tasks = task;
      request->loads++;
      request->to_accept++;
      sm_task_queue (sm, task);
    }
}

void
sm_prefetch_reserve_and_load (LmtSm *sm, SmRequest *request)
{
  gboolean failed = FALSE;

  request->to_accept = 0;
  sm->lookup_bytes -= request->total_bytes;
  request->state = SM_REQUEST_LOAD;
  if (!reserve_rows (sm, request, &failed))
    {
      sm_prefetch_abort (sm, request, TRUE);
      return;
    }
  if (failed)
    {
      tell_failed (sm, request, SM_TROUBLE_MEMORY, "l1_oom", &sm->counters.failed_oom);
      tell_failed (sm, request, SM_TROUBLE_CONTENDED, "l1_contended", &sm->counters.failed_contended);
      if (request->policy == SM_POLICY_FULL)
        drop_incomplete_columns (sm, request);
      sm_prefetch_unlock (sm, request, is_staged);
      sm_prefetch_plan (sm, request);
      drop_unplanned_staging (sm, request);
    }
  queue_loads (sm, request);
  if (request->loads == 0)
    sm_prefetch_finish (sm, request);
}

static void
tell_lookup_submitted (LmtSm *sm, SmRequest *request)
{
  sm_emit (sm, &(SmEvent){ .type = SM_EV_LOOKUP_SUBMITTED,
                           .keys = request->keys,
                           .n_keys = request->n_cells,
                           .request = request->id,
                           .key_count = request->n_cells,
                           .adapter_count = sm->config.n_l2 });
}

static void
tell_load_submitted (LmtSm *sm, SmRequest *request)
{
  SmKeys *keys = &sm->second;
  guint64 adapters = 0;
  guint last = G_MAXUINT;

  keys->n = 0;
  for (guint i = 0; i < request->n_load_cells; i++)
    {
      guint32 c = request->load_cells[i];

      sm_keys_add (keys, request->keys[c]);
      adapters += request->plan[c] != last;
      last = request->plan[c];
    }
  sm_emit (sm, &(SmEvent){ .type = SM_EV_LOAD_SUBMITTED,
                           .keys = keys->data,
                           .n_keys = keys->n,
                           .request = request->id,
                           .key_count = keys->n,
                           .adapter_count = adapters });
}

void
sm_prefetch_accepted (LmtSm *sm, SmTask *task)
{
  SmRequest *request = task->request;
  guint64 bytes = 0;

  if (task->io.kind == SM_IO_LOAD)
    {
      for (guint i = 0; i < task->io.n; i++)
        bytes += task->sizes[i];
      sm->counters.load_tasks++;
      sm->counters.load_keys += task->io.n;
      sm->counters.load_bytes_submitted += bytes;
    }
  if (request == NULL)
    return;
  request->to_accept--;
  if (sm->listener == NULL)
    return;
  if (task->io.kind == SM_IO_LOAD)
    sm_emit (sm, &(SmEvent){ .type = SM_EV_LOAD_TASK_SUBMITTED,
                             .adapter = task->io.adapter,
                             .keys = task->keys,
                             .n_keys = task->io.n,
                             .sizes = task->sizes,
                             .request = request->id,
                             .key_count = task->io.n,
                             .total_bytes = bytes });
  if (request->to_accept > 0)
    return;
  if (task->io.kind == SM_IO_LOOKUP)
    tell_lookup_submitted (sm, request);
  else
    tell_load_submitted (sm, request);
}

void
sm_prefetch_refused (LmtSm *sm, SmTask *task)
{
  SmRequest *request = task->request;

  if (task->io.kind == SM_IO_LOAD)
    for (guint i = 0; i < task->io.n; i++)
      sm_l1_unpin (sm, task->keys[i], task->addresses[i]);
  if (request == NULL) /* aborted between take and answer */
    {
      if (task->io.kind == SM_IO_LOAD)
        for (guint i = 0; i < task->io.n; i++)
          sm_l1_forget_stage (sm, task->keys[i], task->addresses[i]);
      sm_l1_flush (sm, FALSE);
      return;
    }
  sm_request_drop_task (request, task);
  sm_prefetch_abort (sm, request, TRUE);
}

/* ---- admit ---- */

static void
unlock_task (LmtSm *sm, const SmTask *task)
{
  SmTask *unlock = sm_task_new (sm, SM_IO_UNLOCK, task->io.adapter, task->io.n);

  for (guint i = 0; i < task->io.n; i++)
    sm_task_add (unlock, task->keys[i], 0, 0, 0);
  sm_task_queue (sm, unlock);
}

static void
orphan_load_completed (LmtSm *sm, SmTask *task)
{
  for (guint i = 0; i < task->io.n; i++)
    {
      sm_l1_unpin (sm, task->keys[i], task->addresses[i]);
      sm_l1_forget_stage (sm, task->keys[i], task->addresses[i]);
    }
  sm_l1_flush (sm, FALSE);
  unlock_task (sm, task);
}

/* Loaded cells become resident and locked, each key once. Returns: how many cells have their object */
static guint
admit_loaded (LmtSm *sm, SmRequest *request, SmTask *task, const guint8 *codes)
{
  guint32 base = sm_marks_begin (sm, task->io.n);
  guint32 *positions = sm_scratch (&sm->cells, task->io.n * sizeof *positions);
  SmKeys *keys = &sm->keys_scratch;
  guint8 *answers;
  guint loaded = 0, n = 0;

  keys->n = 0;
  for (guint i = 0; i < task->io.n; i++)
    {
      SmKeyState *state = sm_state (sm, task->keys[i]);

      if (!sm_code_is_good (codes[i]) || state->mark >= base)
        continue;
      state->mark = base + i;
      positions[n++] = i;
      sm_keys_add (keys, task->keys[i]);
    }
  if (n == 0)
    return 0;
  answers = sm_scratch (&sm->codes, n);
  sm_l1_finish_write_and_reserve_read (sm, keys->data, n, request->locks, request->id, answers);
  for (guint k = 0; k < n; k++)
    {
      guint32 cell = task->cells[positions[k]];

      request->marks[cell] &= ~SM_CELL_STAGED;
      if (answers[k] == SM_SUCCESS)
        request->marks[cell] |= SM_CELL_L1 | SM_CELL_LOADED;
      else /* defect 4: its lifetime ended, nothing was admitted */
        {
          sm_l1_forget_stage (sm, task->keys[positions[k]], task->addresses[positions[k]]);
          request->troubles[cell] |= SM_TROUBLE_LOAD;
        }
      loaded += answers[k] == SM_SUCCESS;
    }
  sm_l1_flush (sm, FALSE);
  return loaded;
}

/* A second mention of a key in a task shares the object and the locks of the first one (defect 2). */
static guint
share_repeated (LmtSm *sm, SmRequest *request, SmTask *task, const guint8 *codes)
{
  guint32 base = sm_marks_begin (sm, task->io.n);
  guint shared = 0;

  for (guint i = 0; i < task->io.n; i++)
    {
      SmKeyState *state = sm_state (sm, task->keys[i]);
      guint32 cell = task->cells[i], first;

      if (!sm_code_is_good (codes[i]))
        continue;
      if (state->mark < base)
        {
          state->mark = base + i;
          continue;
        }
      first = task->cells[state->mark - base];
      request->marks[cell] &= ~SM_CELL_STAGED;
      if ((request->marks[first] & SM_CELL_LOADED) == 0)
        {
          request->troubles[cell] |= SM_TROUBLE_LOAD;
          continue;
        }
      request->marks[cell] |= SM_CELL_LOADED | SM_CELL_SHARED;
      request->repeats = TRUE;
      shared++;
    }
  return shared;
}

static void
drop_failed (LmtSm *sm, SmRequest *request, SmTask *task, const guint8 *codes)
{
  SmKeys *keys = &sm->keys_scratch;

  keys->n = 0;
  for (guint i = 0; i < task->io.n; i++)
    {
      if (sm_code_is_good (codes[i]))
        continue;
      request->marks[task->cells[i]] &= ~SM_CELL_STAGED;
      request->troubles[task->cells[i]] |= SM_TROUBLE_LOAD;
      sm_keys_add (keys, task->keys[i]);
    }
  if (keys->n == 0)
    return;
  sm_l1_finish_write_and_delete (sm, keys->data, keys->n, request->id, sm_scratch (&sm->codes, keys->n));
  for (guint i = 0; i < task->io.n; i++) /* expired ones too */
    if (!sm_code_is_good (codes[i]))
      sm_l1_forget_stage (sm, task->keys[i], task->addresses[i]);
  sm_l1_flush (sm, FALSE);
}

static void
tell_load_completed (LmtSm *sm, SmRequest *request, SmTask *task, const guint8 *codes, guint64 bytes)
{
  SmKeys *good = &sm->second, *bad = &sm->failed_keys;

  good->n = bad->n = 0;
  for (guint i = 0; i < task->io.n; i++)
    sm_keys_add (sm_code_is_good (codes[i]) && (request->marks[task->cells[i]] & SM_CELL_LOADED) != 0 ? good : bad,
                 task->keys[i]);
  sm_emit (sm, &(SmEvent){ .type = SM_EV_LOAD_TASK_COMPLETED,
                           .adapter = task->io.adapter,
                           .keys = task->keys,
                           .n_keys = task->io.n,
                           .sizes = task->sizes,
                           .request = request->id,
                           .total_bytes = bytes });
  sm_emit (sm, &(SmEvent){ .type = SM_EV_LOAD_COMPLETED,
                           .adapter = task->io.adapter,
                           .keys = good->data,
                           .n_keys = good->n,
                           .request = request->id,
                           .key_count = good->n,
                           .succeeded_count = good->n,
                           .failed_count = bad->n,
                           .failed_keys = bad->data,
                           .n_failed_keys = bad->n });
  if (bad->n > 0)
    sm_emit (sm, &(SmEvent){ .type = SM_EV_PREFETCH_FAILED,
                             .keys = bad->data,
                             .n_keys = bad->n,
                             .request = request->id,
                             .key_count = bad->n,
                             .reason = "not_found" });
}

void
sm_load_completed (LmtSm *sm, SmTask *task, const guint8 *codes, guint64 bytes)
{
  SmRequest *request = task->request;
  guint loaded;

  if (task->orphan)
    {
      orphan_load_completed (sm, task);
      return;
    }
  if (!task->late)
    for (guint i = 0; i < task->io.n; i++)
      sm_l1_unpin (sm, task->keys[i], task->addresses[i]);
  loaded = admit_loaded (sm, request, task, codes);
  loaded += share_repeated (sm, request, task, codes);
  drop_failed (sm, request, task, codes);
  sm_l1_flush (sm, FALSE);
  for (guint i = 0; i < task->io.n; i++)
    request->locked[(gsize)task->io.adapter * request->n_cells + task->cells[i]] = 0;
  if (!task->late)
    unlock_task (sm, task);
  sm->counters.load_bytes_moved += bytes;
  sm->counters.load_keys_failed += task->io.n - loaded;
  sm->counters.failed_not_found += task->io.n - loaded;
  if (sm->listener != NULL)
    tell_load_completed (sm, request, task, codes, bytes);
  sm_request_drop_task (request, task);
  if (--request->loads == 0)
    sm_prefetch_finish (sm, request);
}

/* ---- finish ---- */

static void
decide_hits (SmRequest *request)
{
  guint8 *grid = request->grid;

  for (guint32 c = 0; c < request->n_cells; c++)
    grid[c] = (request->marks[c] & (SM_CELL_L1 | SM_CELL_SHARED)) != 0;
  if (request->policy == SM_POLICY_FULL)
    {
      sm_fold_full (grid, request->n_rows, request->n_columns, request->columns);
      for (guint32 c = 0; c < request->n_cells; c++)
        {
          request->hit[c] = request->columns[c % request->n_columns];
          request->found[c] = grid[c] || (request->marks[c] & SM_CELL_LOOKED) != 0;
        }
    }
  else
    {
      guint32 length = sm_fold_hit_length (grid, request->windows, request->n_rows, request->n_columns, request->columns);

      request->result.hit_length = length;
      for (guint32 r = 0; r < request->n_rows; r++)
        {
          gsize first = (gsize)r * request->n_columns;

          for (guint32 c = sm_fold_retain_start (request->windows[r], length); c < length; c++)
            request->hit[first + c] = grid[first + c];
        }
    }
  for (guint32 c = 0; c < request->n_cells; c++)
    {
      request->l2_hit[c] = request->hit[c] && (request->marks[c] & SM_CELL_LOADED) != 0;
      request->l1_hit[c] = request->hit[c] && !request->l2_hit[c];
    }
}

/* Where two cells share one key's locks, a hit keeps them, whichever cell took them. */
static void
keep_shared_locks (LmtSm *sm, SmRequest *request)
{
  guint32 base = sm_marks_begin (sm, 1);

  for (guint32 c = 0; c < request->n_cells; c++)
    if ((request->marks[c] & SM_CELL_SHARED) != 0 && request->hit[c])
      sm_state (sm, request->keys[c])->mark = base;
  for (guint32 c = 0; c < request->n_cells; c++)
    if ((request->marks[c] & SM_CELL_LOADED) != 0 && sm_state (sm, request->keys[c])->mark == base)
      request->plan[c] = SM_PLAN_L1;
}

void
sm_prefetch_finish (LmtSm *sm, SmRequest *request)
{
  SmKeys *keys = &sm->keys_scratch;

  decide_hits (request);
  for (guint32 c = 0; c < request->n_cells; c++)
    request->plan[c] = request->hit[c] && !request->no_lock ? SM_PLAN_L1 : SM_PLAN_NONE;
  if (request->repeats && !request->no_lock)
    keep_shared_locks (sm, request);
  keys->n = 0;
  for (guint32 c = 0; c < request->n_cells; c++)
    {
      if ((request->marks[c] & SM_CELL_L1) == 0)
        continue;
      if (request->plan[c] == SM_PLAN_L1)
        sm_state (sm, request->keys[c])->owned += request->locks;
      else
        sm_keys_add (keys, request->keys[c]);
    }
  if (keys->n > 0)
    sm_l1_finish_read (sm, keys->data, keys->n, request->locks, FALSE, sm_scratch (&sm->codes, keys->n));
  keys->n = 0;
  for (guint32 c = 0; c < request->n_cells; c++)
    {
      if (request->hit[c])
        sm_keys_add (keys, request->keys[c]);
      else if ((request->marks[c] & SM_CELL_LOOKED) != 0 && (request->marks[c] & (SM_CELL_L1 | SM_CELL_LOADED)) == 0)
        sm->counters.found_not_staged++;
    }
  sm_l1_touch (sm, keys->data, keys->n);
  sm_request_deliver (sm, request);
}
