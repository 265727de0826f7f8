/* SPDX-License-Identifier: Apache-2.0 */
#include "manager-private.h"

#include <string.h>

/* Tasks for adapters: the output queue, numbers, deadlines (storage-manager.md 19.1, 19.2). */

SmTask *
sm_task_new (LmtSm *sm, SmIoKind kind, guint32 adapter, guint n)
{
  SmTask *task = sm->unused_task;
  gsize keys = (gsize)n * sizeof (LmtKey *), sizes = (gsize)n * sizeof (guint64), addresses = 0, cells = 0;
  guint8 *memory;

  if (task != NULL)
    sm->unused_task = task->next;
  else
    task = g_new (SmTask, 1);
  memset (task, 0, sizeof *task);
  if (kind == SM_IO_STORE || kind == SM_IO_LOAD)
    addresses = sizes;
  if (kind == SM_IO_UNLOCK || kind == SM_IO_DELETE)
    sizes = 0;
  if (kind == SM_IO_LOAD)
    cells = (gsize)n * sizeof (guint32);
  memory = sm_pool_take (&sm->pool, keys + sizes + addresses + cells, &task->size_class);
  task->keys = (LmtKey **)memory;
  task->sizes = sizes > 0 ? (guint64 *)(memory + keys) : NULL;
  task->addresses = addresses > 0 ? (guint64 *)(memory + keys + sizes) : NULL;
  task->cells = cells > 0 ? (guint32 *)(memory + keys + sizes + addresses) : NULL;
  task->io.kind = kind;
  task->io.adapter = adapter;
  task->io.keys = task->keys;
  task->io.sizes = task->sizes;
  task->io.addresses = task->addresses;
  return task;
}

void
sm_task_add (SmTask *task, LmtKey *key, guint64 bytes, guint64 address, guint32 cell)
{
  guint i = task->io.n++;

  task->keys[i] = lmt_key_ref (key);
  if (task->sizes != NULL)
    task->sizes[i] = bytes;
  if (task->addresses != NULL)
    task->addresses[i] = address;
  if (task->cells != NULL)
    task->cells[i] = cell;
}

/* ---- tasks by number: open addressing, no tombstones ---- */

static void
by_id_insert (LmtSm *sm, SmTask *task)
{
  guint i = task->io.id & (sm->by_id_size - 1);

  while (sm->by_id[i] != NULL)
    i = (i + 1) & (sm->by_id_size - 1);
  sm->by_id[i] = task;
}

static void
by_id_grow (LmtSm *sm)
{
  SmTask **old = sm->by_id;
  guint old_size = sm->by_id_size;

  sm->by_id_size = MAX (old_size * 2, 64);
  sm->by_id = g_new0 (SmTask *, sm->by_id_size);
  for (guint i = 0; i < old_size; i++)
    if (old[i] != NULL)
      by_id_insert (sm, old[i]);
  g_free (old);
}

SmTask *
sm_task_by_id (LmtSm *sm, guint32 id)
{
  guint i;

  if (sm->by_id_size == 0)
    return NULL;
  for (i = id & (sm->by_id_size - 1); sm->by_id[i] != NULL; i = (i + 1) & (sm->by_id_size - 1))
    if (sm->by_id[i]->io.id == id)
      return sm->by_id[i];
  return NULL;
}

static void
by_id_remove (LmtSm *sm, guint32 id)
{
  guint mask = sm->by_id_size - 1, hole = id & mask;

  while (sm->by_id[hole]->io.id != id)
    hole = (hole + 1) & mask;
  /* Whoever could not stand at its own place because of this one moves up. */
  for (guint i = (hole + 1) & mask; sm->by_id[i] != NULL; i = (i + 1) & mask)
    {
      guint home = sm->by_id[i]->io.id & mask;

      if (((i - home) & mask) >= ((i - hole) & mask))
        {
          sm->by_id[hole] = sm->by_id[i];
          hole = i;
        }
    }
  sm->by_id[hole] = NULL;
  sm->by_id_used--;
}

static guint32
next_id (LmtSm *sm)
{
  do
    {
      if (++sm->next_id == 0)
        sm->next_id = 1;
    }
  while (sm_task_by_id (sm, sm->next_id) != NULL);
  return sm->next_id;
}

/* ---- the output queue ---- */

void
sm_task_queue (LmtSm *sm, SmTask *task)
{
  if (2 * (sm->by_id_used + 1) > sm->by_id_size)
    by_id_grow (sm);
  task->io.id = next_id (sm);
  by_id_insert (sm, task);
  sm->by_id_used++;
  task->state = SM_IO_QUEUED;
  task->next = NULL;
  task->prev = sm->queue.tail;
  if (sm->queue.tail != NULL)
    sm->queue.tail->next = task;
  else
    sm->queue.head = task;
  sm->queue.tail = task;
  sm->n_queued++;
}

static void
queue_unlink (LmtSm *sm, SmTask *task)
{
  if (task->prev != NULL)
    task->prev->next = task->next;
  else
    sm->queue.head = task->next;
  if (task->next != NULL)
    task->next->prev = task->prev;
  else
    sm->queue.tail = task->prev;
  task->next = task->prev = NULL;
  sm->n_queued--;
}

static void
deadline_unlink (LmtSm *sm, SmTask *task)
{
  if (task->deadline == 0 || task->late)
    return;
  if (task->older != NULL)
    task->older->newer = task->newer;
  else
    sm->oldest = task->newer;
  if (task->newer != NULL)
    task->newer->older = task->older;
  else
    sm->newest = task->older;
  task->older = task->newer = NULL;
}

void
sm_task_free (LmtSm *sm, SmTask *task)
{
  if (task->state != SM_IO_FREE)
    {
      by_id_remove (sm, task->io.id);
      deadline_unlink (sm, task);
      if (task->state != SM_IO_QUEUED && task->io.kind != SM_IO_UNLOCK)
        sm->n_outstanding--;
    }
  for (guint i = 0; i < task->io.n; i++)
    lmt_key_unref (sm->table, task->keys[i]);
  sm_pool_give (&sm->pool, task->keys, task->size_class);
  task->state = SM_IO_FREE;
  task->next = sm->unused_task;
  sm->unused_task = task;
}

/* Out of the output queue, unseen by any adapter. The caller frees it. */
void
sm_task_withdraw (LmtSm *sm, SmTask *task)
{
  queue_unlink (sm, task);
}

static void
drop_taken_unlock (LmtSm *sm)
{
  if (sm->taken_unlock != NULL)
    sm_task_free (sm, sm->taken_unlock);
  sm->taken_unlock = NULL;
}

gboolean
lmt_sm_take (LmtSm *sm, SmIo *io)
{
  SmTask *task = sm->queue.head;

  drop_taken_unlock (sm);
  if (task == NULL)
    return FALSE;
  queue_unlink (sm, task);
  task->state = SM_IO_TAKEN;
  *io = task->io;
  if (task->io.kind == SM_IO_UNLOCK)
    sm->taken_unlock = task;
  else
    sm->n_outstanding++;
  return TRUE;
}

void
lmt_sm_accepted (LmtSm *sm, gint64 now_ns, guint32 id)
{
  SmTask *task;

  sm_enter (sm, now_ns);
  task = sm_task_by_id (sm, id);
  if (task == NULL || task->state != SM_IO_TAKEN)
    {
      sm->counters.io_unknown += task == NULL;
      return;
    }
  if (task->io.kind == SM_IO_UNLOCK)
    return;
  task->state = SM_IO_ACCEPTED;
  if (sm->config.io_deadline_ns > 0)
    {
      task->deadline = sm->now > G_MAXINT64 - sm->config.io_deadline_ns ? G_MAXINT64 : sm->now + sm->config.io_deadline_ns;
      task->older = sm->newest;
      if (sm->newest != NULL)
        sm->newest->newer = task;
      else
        sm->oldest = task;
      sm->newest = task;
    }
  if (task->io.kind == SM_IO_STORE)
    sm_store_accepted (sm, task);
  else if (task->io.kind == SM_IO_LOOKUP || task->io.kind == SM_IO_LOAD)
    sm_prefetch_accepted (sm, task);
}

void
lmt_sm_refused (LmtSm *sm, gint64 now_ns, guint32 id, guint32 code)
{
  SmTask *task;

  sm_enter (sm, now_ns);
  task = sm_task_by_id (sm, id);
  if (task == NULL || task->state != SM_IO_TAKEN || task->io.kind == SM_IO_UNLOCK)
    {
      sm->counters.io_unknown += task == NULL;
      return;
    }
  switch (task->io.kind)
    {
    case SM_IO_STORE:
      sm_store_refused (sm, task);
      break;
    case SM_IO_DELETE: /* a pass without victims */
      sm->adapters[task->io.adapter].delete_running = FALSE;
      break;
    default:
      sm_prefetch_refused (sm, task);
      break;
    }
  sm_task_free (sm, task);
  sm_run (sm);
}

static void
complete (LmtSm *sm, SmTask *task, const guint8 *codes, guint64 bytes)
{
  switch (task->io.kind)
    {
    case SM_IO_STORE:
      sm_store_completed (sm, task, codes, bytes);
      break;
    case SM_IO_LOOKUP:
      sm_lookup_completed (sm, task, codes);
      break;
    case SM_IO_LOAD:
      sm_load_completed (sm, task, codes, bytes);
      break;
    default:
      sm_delete_completed (sm, task, codes);
      break;
    }
}

void
lmt_sm_completed (LmtSm *sm, gint64 now_ns, guint32 id, const guint8 *codes, guint64 bytes)
{
  SmTask *task;

  sm_enter (sm, now_ns);
  task = sm_task_by_id (sm, id);
  if (task == NULL || task->state != SM_IO_ACCEPTED)
    {
      sm->counters.io_unknown++;
      return;
    }
  sm->n_inputs += task->io.kind != SM_IO_DELETE;
  complete (sm, task, codes, bytes);
  sm_task_free (sm, task);
  sm_run (sm);
}

/*
 * Defect 12: a task that has not been answered when its deadline comes counts as failed, and its request goes on. The adapter may
 * still touch its buffers: pins and lookup locks wait for the real answer.
 */
void
sm_task_deadlines (LmtSm *sm)
{
  while (sm->oldest != NULL && sm->oldest->deadline <= sm->now)
    {
      SmTask *task = sm->oldest;
      guint8 *codes = sm_scratch (&sm->task_codes, task->io.n);

      memset (codes, LMT_L2_TIMEOUT, task->io.n);
      deadline_unlink (sm, task);
      task->late = TRUE;
      if (task->orphan) /* nobody waits for it, only its buffers and locks */
        continue;
      complete (sm, task, codes, 0);
      task->orphan = TRUE;
      task->request = NULL;
    }
}

guint
lmt_sm_abandon (LmtSm *sm)
{
  guint left = 0;

  if (!sm->closed)
    lmt_sm_close (sm, sm->now);
  for (guint i = 0; i < sm->by_id_size; i++)
    if (sm->by_id[i] != NULL && sm->by_id[i]->io.kind != SM_IO_UNLOCK)
      left++;
  sm->abandoned = TRUE;
  return left;
}

void
sm_tasks_free (LmtSm *sm)
{
  drop_taken_unlock (sm);
  for (guint i = 0; i < sm->by_id_size; i++)
    if (sm->by_id[i] != NULL)
      {
        SmTask *task = sm->by_id[i];

        for (guint k = 0; k < task->io.n; k++)
          lmt_key_unref (sm->table, task->keys[k]);
        g_free (task->keys);
        g_free (task);
      }
  while (sm->unused_task != NULL)
    {
      SmTask *task = sm->unused_task;

      sm->unused_task = task->next;
      g_free (task);
    }
  g_free (sm->by_id);
}

/* ---- asking ---- */

guint
lmt_sm_ios_outstanding (const LmtSm *sm)
{
  return sm->n_outstanding + sm->n_queued;
}

gboolean
lmt_sm_is_idle (const LmtSm *sm)
{
  return sm->n_outstanding == 0 && sm->n_queued == 0;
}
