/* SPDX-License-Identifier: Apache-2.0 */
#include "manager-private.h"

#include <string.h>

/* The prefetch controller up to the plan: submit, queue, lock pass, lookup, plan (storage-manager.md 8.1-8.4), and how requests
 * end. */

/* ---- requests ---- */

static SmRequest *
request_new (LmtSm *sm, const SmCall *call, guint32 n_cells, gboolean l2)
{
  SmRequest *request = sm->unused_request;
  guint32 n_rows = call->n_rows, n_columns = call->rows[0].n;
  gsize cells = n_cells, n_bytes, zeroed, size;
  guint8 *at;
  gboolean mixed = FALSE;

  if (request != NULL)
    sm->unused_request = request->next;
  else
    request = g_new (SmRequest, 1);
  memset (request, 0, sizeof *request);
  for (guint32 r = 0; r < n_rows; r++)
    mixed |= call->rows[r].cell_bytes != NULL;
  n_bytes = mixed ? cells : n_rows;
  /* 8-byte things first; what starts as 0 stands last, in one piece */
  zeroed = cells * (6 + (l2 ? sm->config.n_l2 : 0));
  size = cells * sizeof (LmtKey *) + n_bytes * sizeof (guint64) + n_rows * sizeof (gint64) + (l2 ? cells * sizeof (guint32) : 0)
         + cells * sizeof (guint16) + cells + n_columns + zeroed;
  request->memory = at = sm_pool_take (&sm->pool, size, &request->size_class);
  request->keys = (LmtKey **)at;
  at += cells * sizeof (LmtKey *);
  request->bytes = (guint64 *)at;
  at += n_bytes * sizeof (guint64);
  request->windows = (gint64 *)at;
  at += n_rows * sizeof (gint64);
  request->load_cells = (guint32 *)at;
  at += l2 ? cells * sizeof (guint32) : 0;
  request->plan = (guint16 *)at;
  at += cells * sizeof (guint16);
  request->grid = at;
  at += cells;
  request->columns = at;
  at += n_columns;
  memset (at, 0, zeroed);
  request->marks = at;
  request->troubles = at + cells;
  request->hit = at + 2 * cells;
  request->l1_hit = at + 3 * cells;
  request->l2_hit = at + 4 * cells;
  request->found = at + 5 * cells;
  request->locked = at + 6 * cells;
  request->n_rows = n_rows;
  request->n_columns = n_columns;
  request->n_cells = n_cells;
  request->mixed = mixed;
  return request;
}

/* A key new to the history is new in every cell of the request. */
static void
name_cells (LmtSm *sm, SmRequest *request)
{
  guint32 base = sm_marks_begin (sm, 1);

  for (guint32 cell = 0; cell < request->n_cells; cell++)
    {
      SmKeyState *state = sm_state (sm, request->keys[cell]);

      request->marks[cell] = sm_explain_name (sm, request->keys[cell]);
      if (request->marks[cell] == 0)
        state->mark = base;
      else if (state->mark == base)
        request->marks[cell] = 0;
    }
}

static void
request_fill (LmtSm *sm, SmRequest *request, const SmCall *call)
{
  guint32 cell = 0;

  for (guint32 r = 0; r < request->n_rows; r++)
    {
      const SmRow *row = &call->rows[r];

      request->windows[r] = row->window;
      request->has_windows |= row->window > 0;
      if (!request->mixed)
        request->bytes[r] = row->object_bytes;
      if (row->n > 0)
        memcpy (request->keys + cell, row->keys, row->n * sizeof (LmtKey *));
      for (guint32 c = 0; c < row->n; c++, cell++)
        {
          guint64 bytes = row->cell_bytes != NULL ? row->cell_bytes[c] : row->object_bytes;

          if (request->mixed)
            request->bytes[cell] = bytes;
          request->total_bytes += bytes;
        }
    }
  if (sm->history != NULL)
    name_cells (sm, request);
}

void
sm_request_free (LmtSm *sm, SmRequest *request)
{
  sm_pool_give (&sm->pool, request->memory, request->size_class);
  request->next = sm->unused_request;
  sm->unused_request = request;
}

static void
request_hold (LmtSm *sm, SmRequest *request)
{
  request->held = TRUE;
  for (guint32 c = 0; c < request->n_cells; c++)
    {
      lmt_key_ref (request->keys[c]);
      sm->cold[request->keys[c]->id].in_prefetch++;
    }
}

static void
request_unhold (LmtSm *sm, SmRequest *request)
{
  if (!request->held)
    return;
  request->held = FALSE;
  for (guint32 c = 0; c < request->n_cells; c++)
    {
      sm->cold[request->keys[c]->id].in_prefetch--;
      lmt_key_unref (sm->table, request->keys[c]);
    }
}

static void
queue_push (SmRequestQueue *queue, SmRequest *request)
{
  request->next = NULL;
  if (queue->tail != NULL)
    queue->tail->next = request;
  else
    queue->head = request;
  queue->tail = request;
  queue->n++;
}

static SmRequest *
queue_pop (SmRequestQueue *queue)
{
  SmRequest *request = queue->head;

  if (request == NULL)
    return NULL;
  queue->head = request->next;
  if (queue->head == NULL)
    queue->tail = NULL;
  queue->n--;
  return request;
}

static void
running_add (LmtSm *sm, SmRequest *request)
{
  request->prev_running = NULL;
  request->next_running = sm->running;
  if (sm->running != NULL)
    sm->running->prev_running = request;
  sm->running = request;
  sm->n_running++;
}

static void
running_remove (LmtSm *sm, SmRequest *request)
{
  if (request->prev_running != NULL)
    request->prev_running->next_running = request->next_running;
  else
    sm->running = request->next_running;
  if (request->next_running != NULL)
    request->next_running->prev_running = request->prev_running;
  sm->n_running--;
}

void
sm_request_drop_task (SmRequest *request, SmTask *task)
{
  SmTask **link = &request->tasks;

  while (*link != NULL && *link != task)
    link = &(*link)->sibling;
  if (*link == task)
    *link = task->sibling;
  task->sibling = NULL;
}

/* ---- results ---- */

static void
count_result (LmtSm *sm, SmRequest *request)
{
  SmPrefetchResult *result = &request->result;
  SmCounters *counters = &sm->counters;

  for (guint32 c = 0; c < request->n_cells; c++)
    {
      guint64 bytes;

      result->n_found += request->found[c];
      if (request->hit[c] == 0)
        continue;
      bytes = sm_request_bytes (request, c);
      result->n_hit++;
      result->hit_bytes += bytes;
      result->n_l2_hit += request->l2_hit[c];
      result->l2_hit_bytes += request->l2_hit[c] ? bytes : 0;
    }
  result->n_l1_hit = result->n_hit - result->n_l2_hit;
  result->l1_hit_bytes = result->hit_bytes - result->l2_hit_bytes;
  counters->hit_cells += result->n_hit;
  counters->hit_bytes += result->hit_bytes;
  counters->l1_hit_cells += result->n_l1_hit;
  counters->l1_hit_bytes += result->l1_hit_bytes;
  counters->l2_hit_cells += result->n_l2_hit;
  counters->l2_hit_bytes += result->l2_hit_bytes;
  if (request->policy == SM_POLICY_PREFIX)
    {
      counters->hit_chunks += result->hit_length;
      counters->asked_chunks += request->n_columns;
    }
  if (request->aborted)
    counters->requests_aborted++;
  if (result->n_hit == 0)
    counters->requests_none++;
  else if (result->n_hit == request->n_cells || (request->policy == SM_POLICY_PREFIX && result->hit_length == request->n_columns))
    counters->requests_full++;
  else
    counters->requests_partial++;
}

void
sm_request_deliver (LmtSm *sm, SmRequest *request)
{
  SmPrefetchResult *result = &request->result;

  if (request->state == SM_REQUEST_LOOKUP)
    sm->lookup_bytes -= request->total_bytes;
  if (request->state == SM_REQUEST_LOOKUP || request->state == SM_REQUEST_LOAD)
    running_remove (sm, request);
  request->state = SM_REQUEST_DONE;
  result->request = request->id;
  result->n_rows = request->n_rows;
  result->n_columns = request->n_columns;
  result->hit = request->hit;
  result->l1_hit = request->l1_hit;
  result->l2_hit = request->l2_hit;
  result->found = request->policy == SM_POLICY_FULL ? request->found : NULL;
  result->code = request->aborted;
  count_result (sm, request);
  if (sm->config.explain_misses && result->n_hit < request->n_cells)
    sm_explain_request (sm, request);
  request_unhold (sm, request);
  queue_push (&sm->results, request);
}

gboolean
lmt_sm_next_result (LmtSm *sm, SmPrefetchResult *result)
{
  SmRequest *request;

  if (sm->taken_result != NULL)
    sm_request_free (sm, sm->taken_result);
  sm->taken_result = request = queue_pop (&sm->results);
  if (request == NULL)
    return FALSE;
  *result = request->result;
  return TRUE;
}

/* ---- submit ---- */

static const char *
check_spec (const SmCall *call, guint32 *n_cells)
{
  guint64 cells;

  if (call->n_rows == 0)
    return "key_groups must not be empty";
  if (call->policy != SM_POLICY_PREFIX && call->policy != SM_POLICY_FULL)
    return "unknown fetching_policy";
  if (call->readers < 1)
    return "num_kv_readers must be at least 1";
  for (guint32 r = 0; r < call->n_rows; r++)
    {
      if (call->rows[r].window == 0 || call->rows[r].window < -1)
        return "sliding_window_size must be -1 or at least 1";
      if (call->rows[r].n != call->rows[0].n)
        return "key groups must have equal lengths";
    }
  cells = (guint64)call->n_rows * call->rows[0].n;
  if (cells > G_MAXINT32)
    return "too many keys";
  *n_cells = (guint32)cells;
  return NULL;
}

const char *
sm_prefetch_submit (LmtSm *sm, const SmCall *call, SmResult *result)
{
  gboolean l2 = call->allow_l2 && sm->config.n_l2 > 0;
  const char *trouble;
  SmRequest *request;
  guint32 n_cells;

  trouble = check_spec (call, &n_cells);
  if (trouble != NULL)
    return trouble;
  request = request_new (sm, call, n_cells, l2);
  request->id = sm->next_request++;
  request->locks = CLAMP (call->readers, 1, SM_MAX_READERS);
  request->policy = call->policy;
  request->no_lock = call->lock_mode == SM_NO_LOCK;
  request->look_l1 = call->look_l1;
  request_fill (sm, request, call);
  sm->counters.prefetch_requests++;
  sm->counters.prefetch_cells += n_cells;
  sm->counters.prefetch_cells_bytes += request->total_bytes;
  result->request = request->id;
  result->n = n_cells;
  result->immediate = !l2;
  if (l2)
    {
      request_hold (sm, request);
      queue_push (&sm->waiting, request);
      return NULL;
    }
  request->state = SM_REQUEST_DONE;
  sm_prefetch_lock_pass (sm, request);
  sm_prefetch_plan (sm, request);
  sm_prefetch_finish (sm, request);
  return NULL;
}

/* ---- start ---- */

void
sm_prefetch_lock_pass (LmtSm *sm, SmRequest *request)
{
  guint8 *codes;

  if (!request->look_l1)
    return;
  codes = sm_scratch (&sm->codes, request->n_cells);
  sm_l1_reserve_read (sm, request->keys, request->n_cells, request->locks, codes);
  for (guint32 c = 0; c < request->n_cells; c++)
    if (codes[c] == SM_SUCCESS)
      request->marks[c] |= SM_CELL_L1 | SM_CELL_FOUND;
}

static void
queue_lookups (LmtSm *sm, SmRequest *request)
{
  for (guint a = 0; a < sm->config.n_l2; a++)
    {
      SmTask *task = sm_task_new (sm, SM_IO_LOOKUP, a, request->n_cells);

      for (guint32 c = 0; c < request->n_cells; c++)
        sm_task_add (task, request->keys[c], sm_request_bytes (request, c), 0, 0);
      task->request = request;
      task->io.request = request->id;
      task->sibling = request->tasks;
      request->tasks = task;
      request->lookups++;
      request->to_accept++;
      sm_task_queue (sm, task);
    }
}

/* Admission of 0.5.7rc3 (16): strictly first come, first served. */
static gboolean
fits_watermark (const LmtSm *sm, const SmRequest *request)
{
  double f = sm->config.prefetch_inflight_watermark;
  guint64 total = sm->config.size_bytes, used = sm_arena_used (sm->arena), coming = sm->lookup_bytes;

  if (!(f > 0.0) || sm->n_running == 0)
    return TRUE;
  if (!((double)sm->staging_bytes + (double)coming < f * (double)total))
    return FALSE;
  return total >= used && total - used >= coming && total - used - coming >= request->total_bytes;
}

void
sm_prefetch_run (LmtSm *sm)
{
  while (sm->waiting.head != NULL && sm->n_running < sm->config.prefetch_max_in_flight && fits_watermark (sm, sm->waiting.head))
    {
      SmRequest *request = queue_pop (&sm->waiting);

      request->state = SM_REQUEST_LOOKUP;
      running_add (sm, request);
      sm->lookup_bytes += request->total_bytes;
      sm_prefetch_lock_pass (sm, request);
      queue_lookups (sm, request);
    }
}

void
sm_lookup_completed (LmtSm *sm, SmTask *task, const guint8 *codes)
{
  SmRequest *request = task->request;
  guint8 *locked;

  if (task->orphan) /* defect 22: whatever it locked goes back */
    {
      SmTask *unlock = sm_task_new (sm, SM_IO_UNLOCK, task->io.adapter, task->io.n);

      for (guint i = 0; i < task->io.n; i++)
        if (sm_code_is_good (codes[i]))
          sm_task_add (unlock, task->keys[i], 0, 0, 0);
      if (unlock->io.n > 0)
        sm_task_queue (sm, unlock);
      else
        sm_task_free (sm, unlock);
      return;
    }
  locked = request->locked + (gsize)task->io.adapter * request->n_cells;
  for (guint i = 0; i < task->io.n; i++)
    if (sm_code_is_good (codes[i]))
      {
        locked[i] = 1;
        request->marks[i] |= SM_CELL_FOUND | SM_CELL_LOOKED;
      }
  sm_request_drop_task (request, task);
  if (--request->lookups > 0)
    return;
  sm_prefetch_plan (sm, request);
  sm_prefetch_reserve_and_load (sm, request);
}

/* ---- plan ---- */

/* Which cells are wanted of those some tier holds for this request: @grid becomes `needed`. */
static void
mark_needed (SmRequest *request)
{
  guint8 *grid = request->grid;
  guint32 length;

  if (request->policy == SM_POLICY_FULL)
    {
      if (request->has_windows)
        memset (grid, 0, request->n_cells);
      return;
    }
  length = sm_fold_hit_length (grid, request->windows, request->n_rows, request->n_columns, request->columns);
  for (guint32 r = 0; r < request->n_rows; r++)
    {
      guint8 *row = grid + (gsize)r * request->n_columns;
      guint32 start = sm_fold_retain_start (request->windows[r], length);

      memset (row, 0, start);
      memset (row + length, 0, request->n_columns - length);
    }
}

static void
assign (const LmtSm *sm, SmRequest *request, gboolean l2)
{
  for (guint32 c = 0; c < request->n_cells; c++)
    {
      request->plan[c] = SM_PLAN_NONE;
      if (request->grid[c] == 0)
        continue;
      if ((request->marks[c] & SM_CELL_L1) != 0)
        {
          request->plan[c] = SM_PLAN_L1;
          continue;
        }
      for (guint a = 0; l2 && a < sm->config.n_l2; a++)
        if (request->locked[(gsize)a * request->n_cells + c] != 0)
          {
            request->plan[c] = (guint16)a;
            break;
          }
    }
}

static void
release_l1 (LmtSm *sm, SmRequest *request)
{
  SmKeys *keys = &sm->keys_scratch;

  keys->n = 0;
  for (guint32 c = 0; c < request->n_cells; c++)
    if ((request->marks[c] & SM_CELL_L1) != 0 && request->plan[c] != SM_PLAN_L1)
      {
        request->marks[c] &= ~SM_CELL_L1;
        sm_keys_add (keys, request->keys[c]);
      }
  if (keys->n > 0)
    sm_l1_finish_read (sm, keys->data, keys->n, request->locks, FALSE, sm_scratch (&sm->codes, keys->n));
}

void
sm_prefetch_unlock (LmtSm *sm, SmRequest *request, SmCellFunc is_wanted)
{
  for (guint a = 0; a < sm->config.n_l2; a++)
    {
      guint8 *locked = request->locked + (gsize)a * request->n_cells;
      SmTask *unlock = NULL;

      for (guint32 c = 0; c < request->n_cells; c++)
        {
          if (locked[c] == 0 || is_wanted (request, a, c))
            continue;
          locked[c] = 0;
          if (unlock == NULL)
            unlock = sm_task_new (sm, SM_IO_UNLOCK, a, request->n_cells - c);
          sm_task_add (unlock, request->keys[c], 0, 0, 0);
        }
      if (unlock != NULL)
        sm_task_queue (sm, unlock);
    }
}

static gboolean
is_planned (const SmRequest *request, guint adapter, guint32 cell)
{
  return request->plan[cell] == adapter;
}

void
sm_prefetch_plan (LmtSm *sm, SmRequest *request)
{
  gboolean l2 = request->held;

  for (guint32 c = 0; c < request->n_cells; c++)
    request->grid[c] = (request->marks[c] & SM_CELL_L1) != 0;
  if (l2)
    for (guint a = 0; a < sm->config.n_l2; a++)
      for (guint32 c = 0; c < request->n_cells; c++)
        request->grid[c] |= request->locked[(gsize)a * request->n_cells + c];
  mark_needed (request);
  assign (sm, request, l2);
  release_l1 (sm, request);
  if (l2)
    sm_prefetch_unlock (sm, request, is_planned);
}

/* ---- ends ---- */

/* Tasks an adapter has live on as orphans; what they touch stays as it is until they answer (defects 7, 22). */
static void
orphan_tasks (LmtSm *sm, SmRequest *request)
{
  SmTask *next;

  for (SmTask *task = request->tasks; task != NULL; task = next)
    {
      next = task->sibling;
      task->sibling = NULL;
      task->request = NULL;
      if (task->state == SM_IO_QUEUED)
        {
          if (task->io.kind == SM_IO_LOAD)
            for (guint i = 0; i < task->io.n; i++)
              sm_l1_unpin (sm, task->keys[i], task->addresses[i]);
          sm_task_withdraw (sm, task);
          sm_task_free (sm, task);
          continue;
        }
      task->orphan = TRUE;
      if (task->io.kind != SM_IO_LOAD)
        continue;
      for (guint i = 0; i < task->io.n; i++)
        {
          request->marks[task->cells[i]] &= ~SM_CELL_STAGED;
          request->locked[(gsize)task->io.adapter * request->n_cells + task->cells[i]] = 0;
        }
    }
  request->tasks = NULL;
}

void
sm_prefetch_abort (LmtSm *sm, SmRequest *request, gboolean result)
{
  orphan_tasks (sm, request);
  for (guint32 c = 0; c < request->n_cells; c++)
    {
      SmKeyState *state = sm_state (sm, request->keys[c]);
      guint32 stage;

      request->plan[c] = SM_PLAN_NONE;
      if ((request->marks[c] & SM_CELL_STAGED) == 0)
        continue;
      stage = sm_l1_find_stage (sm, state, request->id);
      if (stage != SM_NIL)
        sm_l1_forget_stage (sm, request->keys[c], sm->stages[stage].address);
    }
  sm_l1_flush (sm, FALSE);
  release_l1 (sm, request);
  sm_prefetch_unlock (sm, request, is_planned);
  request->aborted = TRUE;
  if (result)
    {
      sm_request_deliver (sm, request);
      return;
    }
  if (request->state == SM_REQUEST_LOOKUP)
    sm->lookup_bytes -= request->total_bytes;
  running_remove (sm, request);
  request_unhold (sm, request);
  sm_request_free (sm, request);
}

/* Close: queued requests end without result, running ones too; what adapters have is awaited. */
void
sm_requests_close (LmtSm *sm)
{
  SmRequest *request;

  while ((request = queue_pop (&sm->waiting)) != NULL)
    {
      request_unhold (sm, request);
      sm_request_free (sm, request);
    }
  while (sm->running != NULL)
    sm_prefetch_abort (sm, sm->running, FALSE);
}

void
sm_requests_free (LmtSm *sm)
{
  SmRequest *request;

  sm_requests_close (sm);
  while ((request = queue_pop (&sm->results)) != NULL)
    sm_request_free (sm, request);
  if (sm->taken_result != NULL)
    sm_request_free (sm, sm->taken_result);
  sm->taken_result = NULL;
  while ((request = sm->unused_request) != NULL)
    {
      sm->unused_request = request->next;
      g_free (request);
    }
}

guint
lmt_sm_prefetches_outstanding (const LmtSm *sm)
{
  return sm->waiting.n + sm->n_running;
}

gboolean
lmt_sm_key_in_prefetch (const LmtSm *sm, const LmtKey *key)
{
  return key->id < sm->n_states && sm->cold[key->id].in_prefetch > 0;
}
