// SPDX-License-Identifier: Apache-2.0
#include "storage-settle.h"

/* Pause between two looks at an adapter that has neither descriptor nor a time of its next completion. */
#define POLL_NS (200 * G_GINT64_CONSTANT (1000))
/* How often a long wait lets progress be shown. */
#define TICK_NS (100 * G_GINT64_CONSTANT (1000000))

typedef struct _DriverTask DriverTask;
struct _DriverTask
{
  LmtL2Task task;
  guint32 id;
  guint32 adapter;
  guint64 request;
  gboolean stray; /* waited for in vain: handed over whenever it comes */
  guint cap;
  void **buffers;
  DriverTask *prev;
  DriverTask *next;
};

typedef struct
{
  SmDriver *driver;
  LmtL2 *l2;
  guint32 number;
  guint outstanding; /* tasks the layer has */
  int fd;
  gboolean dirty;
} DriverAdapter;

/* A list with head and tail; settled mode keeps it in order of ids. */
typedef struct
{
  DriverTask *head;
  DriverTask *tail;
} DriverList;

struct _SmDriver
{
  LmtSm *sm;
  SmDriverParams params;
  DriverAdapter *adapters;
  guint n_adapters;
  int *fds;
  gint64 origin_ns;
  gint64 now; /* manager's clock */
  gint64 call_end_ns;
  DriverList waited;
  DriverList strays;
  DriverTask *spare;
  guint outstanding;
  GArray *wrong; /* of guint64: requests with a wrong byte, until their result is handed over */
  SmResultFunc result;
  SmVictimFunc victim;
  gpointer data;
  SmDriverFigures figures;
};

/* ---------------- lists, tasks, events ---------------- */

static void
list_append (DriverList *list, DriverTask *task)
{
  task->prev = list->tail;
  task->next = NULL;
  if (list->tail != NULL)
    list->tail->next = task;
  else
    list->head = task;
  list->tail = task;
}

static void
list_remove (DriverList *list, DriverTask *task)
{
  if (task->prev != NULL)
    task->prev->next = task->next;
  else
    list->head = task->next;
  if (task->next != NULL)
    task->next->prev = task->prev;
  else
    list->tail = task->prev;
}

static void
task_free (DriverTask *task)
{
  g_free (task->task.codes);
  g_free (task->buffers);
  g_free (task);
}

static DriverTask *
task_take (SmDriver *driver, guint n)
{
  DriverTask *task = driver->spare;

  if (task != NULL)
    driver->spare = task->next;
  else
    task = g_new0 (DriverTask, 1);
  if (task->cap < n)
    {
      task->cap = MAX (n, 2 * task->cap);
      task->task.codes = g_realloc (task->task.codes, task->cap);
      if (driver->params.memory != NULL)
        task->buffers = g_renew (void *, task->buffers, task->cap);
    }
  task->stray = FALSE;
  return task;
}

static void
task_give_back (SmDriver *driver, DriverTask *task)
{
  task->next = driver->spare;
  driver->spare = task;
}

/* The layer calls this while it hands a task over, just before its `completed`, and for what a scan at open found. */
static void
on_l2_event (gpointer data, LmtL2EventKind kind, LmtKey *const *keys, const guint64 *sizes, guint n)
{
  DriverAdapter *adapter = data;

  lmt_sm_l2_event (adapter->driver->sm, adapter->driver->now, adapter->number, kind, keys, sizes, n);
}

/* ---------------- I/O from the manager to the layer and back ---------------- */

static gint64
to_manager_ns (const SmDriver *driver, gint64 host_ns)
{
  double rate = driver->params.speed;
  gint64 since = host_ns - driver->origin_ns;

  if (since <= 0)
    return 0;
  return rate == 1.0 || rate == 0.0 ? since : (gint64)((double)since * rate);
}

/* When the host clock reaches @manager_ns, rounded up so that a sleep until then is long enough. */
static gint64
to_host_ns (const SmDriver *driver, gint64 manager_ns)
{
  double rate = driver->params.speed;
  double host;

  if (rate == 1.0 || rate == 0.0)
    return manager_ns > G_MAXINT64 - driver->origin_ns ? G_MAXINT64 : driver->origin_ns + manager_ns;
  host = (double)driver->origin_ns + (double)manager_ns / rate + 1.0;
  return host >= 9.2e18 ? G_MAXINT64 : (gint64)host;
}

static gboolean
steal_wrong (SmDriver *driver, guint64 request)
{
  gboolean found = FALSE;

  for (guint i = driver->wrong->len; i > 0; i--)
    if (g_array_index (driver->wrong, guint64, i - 1) == request)
      {
        g_array_remove_index_fast (driver->wrong, i - 1);
        found = TRUE;
      }
  return found;
}

/* @done_ns: when what led to them ended: the call, or an I/O. */
static void
collect_results (SmDriver *driver, gint64 done_ns)
{
  SmPrefetchResult result;

  while (lmt_sm_next_result (driver->sm, &result))
    {
      gboolean wrong = driver->wrong->len > 0 && steal_wrong (driver, result.request);

      if (driver->result != NULL)
        driver->result (&result, wrong, done_ns, driver->data);
    }
}

static void
submit_one (SmDriver *driver, const SmIo *io)
{
  DriverAdapter *adapter = &driver->adapters[io->adapter];
  DriverTask *task = task_take (driver, io->n);
  LmtL2Code refused = LMT_L2_OK;

  task->id = io->id;
  task->adapter = io->adapter;
  task->request = io->request;
  task->task.kind = io->kind;
  task->task.n = io->n;
  task->task.keys = io->keys;
  task->task.sizes = io->sizes;
  task->task.buffers = NULL;
  task->task.user_data = task;
  if (driver->params.memory != NULL && io->addresses != NULL)
    {
      for (guint i = 0; i < io->n; i++)
        task->buffers[i] = driver->params.memory + io->addresses[i];
      task->task.buffers = task->buffers;
    }
  driver->figures.ios++;
  if (!lmt_l2_submit (adapter->l2, &task->task, &refused))
    {
      driver->figures.refused++;
      task_give_back (driver, task);
      lmt_sm_refused (driver->sm, driver->now, io->id, refused);
      collect_results (driver, lmt_clock_now (driver->params.clock));
      return;
    }
  list_append (&driver->waited, task);
  adapter->outstanding++;
  adapter->dirty = TRUE;
  driver->outstanding++;
  lmt_sm_accepted (driver->sm, driver->now, io->id);
}

static void
submit_all (SmDriver *driver)
{
  SmIo io;
  gboolean any = FALSE;

  while (lmt_sm_take (driver->sm, &io))
    {
      if (io.kind == SM_IO_UNLOCK)
        lmt_l2_unlock (driver->adapters[io.adapter].l2, io.keys, io.n);
      else
        {
          submit_one (driver, &io);
          any = TRUE;
        }
    }
  if (!any)
    return;
  for (guint i = 0; i < driver->n_adapters; i++)
    if (driver->adapters[i].dirty)
      {
        driver->adapters[i].dirty = FALSE;
        lmt_l2_flush (driver->adapters[i].l2);
      }
}

static void
verify_load (SmDriver *driver, const DriverTask *task)
{
  gboolean wrong = FALSE;

  for (guint i = 0; i < task->task.n; i++)
    {
      const char *wire;

      if (task->task.codes[i] != LMT_L2_OK)
        continue;
      wire = lmt_key_wire (task->task.keys[i]);
      driver->figures.verified++;
      if (lmt_fill_check (lmt_fill_seed_for_wire_key (wire, lmt_key_wire_len (task->task.keys[i])), task->task.buffers[i],
                          task->task.sizes[i])
          < 0)
        continue;
      driver->figures.mismatches++;
      wrong = TRUE;
    }
  if (wrong)
    g_array_append_val (driver->wrong, task->request);
}

/* One `completed`; its events came while the layer handed the task over. The manager's arrays of this I/O are gone afterwards. */
static void
deliver (SmDriver *driver, DriverTask *task)
{
  gint64 done_ns;

  list_remove (task->stray ? &driver->strays : &driver->waited, task);
  if (!task->stray)
    driver->outstanding--;
  driver->adapters[task->adapter].outstanding--;
  if (task->task.kind == LMT_L2_LOAD && driver->params.verify && task->task.buffers != NULL)
    verify_load (driver, task);
  if (task->task.kind == LMT_L2_DELETE && driver->victim != NULL)
    for (guint i = 0; i < task->task.n; i++)
      if (task->task.codes[i] == LMT_L2_OK)
        driver->victim ((gint)task->adapter, task->task.keys[i], driver->data);
  lmt_sm_completed (driver->sm, driver->now, task->id, task->task.codes, task->task.bytes);
  done_ns = task->task.done_ns;
  task_give_back (driver, task);
  collect_results (driver, done_ns);
}

/* Real time: hands over what has finished, as it came. */
static void
reap_all (SmDriver *driver)
{
  for (guint i = 0; i < driver->n_adapters; i++)
    {
      DriverAdapter *adapter = &driver->adapters[i];
      LmtL2Task *finished;

      while (adapter->outstanding > 0 && (finished = lmt_l2_reap (adapter->l2)) != NULL)
        {
          deliver (driver, finished->user_data);
          submit_all (driver);
        }
    }
}

/* Settled: what is no longer waited for is handed over when it comes. */
static void
take_strays (SmDriver *driver)
{
  DriverTask *next;

  for (DriverTask *task = driver->strays.head; task != NULL; task = next)
    {
      next = task->next;
      if (!lmt_l2_take (driver->adapters[task->adapter].l2, &task->task))
        continue;
      deliver (driver, task);
      submit_all (driver);
    }
}

static gboolean
interrupted (const SmDriver *driver, gint times)
{
  return driver->params.interrupts != NULL && g_atomic_int_get ((volatile gint *)driver->params.interrupts) >= times;
}

/* Sleeps until @deadline_ns, or until an adapter has something. */
static void
nap (SmDriver *driver, gint64 deadline_ns)
{
  const LmtClock *clock = driver->params.clock;
  gint64 now = lmt_clock_now (clock);
  guint n_fds = 0;

  if (driver->params.tick != NULL)
    deadline_ns = MIN (deadline_ns, now + TICK_NS);
  for (guint i = 0; i < driver->n_adapters; i++)
    {
      DriverAdapter *adapter = &driver->adapters[i];
      gint64 due;

      if (adapter->outstanding == 0)
        continue;
      due = lmt_l2_next_due_ns (adapter->l2);
      if (due >= 0)
        deadline_ns = MIN (deadline_ns, due);
      if (adapter->fd >= 0)
        driver->fds[n_fds++] = adapter->fd;
      else if (due < 0)
        deadline_ns = MIN (deadline_ns, now + POLL_NS);
    }
  clock->sleep_until_ns (clock->data, deadline_ns, driver->fds, n_fds);
  if (driver->params.tick != NULL)
    driver->params.tick (driver->params.tick_data);
}

static gint64
later (gint64 base_ns, gint64 more_ns)
{
  return more_ns > G_MAXINT64 - base_ns ? G_MAXINT64 : base_ns + more_ns;
}

/* ---------------- settled: storage-manager.md 19.4 ---------------- */

/* Until the layer hands @task over. FALSE: waited for too long, it is a stray now. */
static gboolean
await (SmDriver *driver, DriverTask *task)
{
  LmtL2 *l2 = driver->adapters[task->adapter].l2;

  while (!lmt_l2_take (l2, &task->task))
    {
      gint64 deadline = later (task->task.submit_ns, driver->params.drain_timeout_ns);

      if (lmt_clock_now (driver->params.clock) >= deadline || interrupted (driver, 2))
        {
          list_remove (&driver->waited, task);
          list_append (&driver->strays, task);
          task->stray = TRUE;
          driver->outstanding--;
          driver->figures.unsettled++;
          return FALSE;
        }
      /* A descriptor nobody reads stays readable: every adapter gets its turn, nothing is handed over by it. */
      for (guint i = 0; i < driver->n_adapters; i++)
        if (driver->adapters[i].outstanding > 0 && driver->adapters[i].l2 != l2)
          lmt_l2_pump (driver->adapters[i].l2);
      nap (driver, deadline);
      take_strays (driver);
    }
  return TRUE;
}

/* Hands over by the lowest id, so that outcomes don't depend on how fast an adapter is. */
static void
settle (SmDriver *driver)
{
  for (;;)
    {
      submit_all (driver);
      if (driver->waited.head == NULL)
        break;
      if (await (driver, driver->waited.head))
        deliver (driver, driver->waited.head);
    }
}

static void
settled_before (SmDriver *driver, gint64 trace_ns)
{
  if (trace_ns <= driver->now)
    return;
  /* A trace may jump by years: the manager steps over passes that can't do anything (19.3), so each turn here is a pass that may
   * delete, followed by settling its deletes. */
  for (;;)
    {
      gint64 due = lmt_sm_next_due_ns (driver->sm);

      if (due > trace_ns)
        break;
      driver->now = MAX (driver->now, due);
      lmt_sm_advance (driver->sm, driver->now);
      settle (driver);
    }
  driver->now = trace_ns;
  lmt_sm_advance (driver->sm, trace_ns);
  settle (driver);
}

/* ---------------- real time: storage-manager.md 19.5 ---------------- */

static gint64
turn (SmDriver *driver)
{
  gint64 host = lmt_clock_now (driver->params.clock);

  driver->now = MAX (driver->now, to_manager_ns (driver, host));
  if (driver->outstanding > 0)
    {
      reap_all (driver);
      submit_all (driver);
    }
  if (lmt_sm_next_due_ns (driver->sm) <= driver->now)
    {
      lmt_sm_advance (driver->sm, driver->now);
      collect_results (driver, host);
      submit_all (driver);
    }
  return host;
}

static void
real_nap (SmDriver *driver, gint64 deadline_ns)
{
  gint64 due = lmt_sm_next_due_ns (driver->sm);

  if (due != G_MAXINT64)
    deadline_ns = MIN (deadline_ns, to_host_ns (driver, due));
  nap (driver, deadline_ns);
}

static gboolean
call_must_wait (const SmDriver *driver, const SmCall *call)
{
  if (call->op == SM_OP_READ_ENTER || call->op == SM_OP_FINISH_READ)
    {
      if (lmt_sm_prefetches_outstanding (driver->sm) == 0)
        return FALSE;
      for (guint i = 0; i < call->n_keys; i++)
        if (lmt_sm_key_in_prefetch (driver->sm, call->keys[i]))
          return TRUE;
      return FALSE;
    }
  if (call->op != SM_OP_PREFETCH || lmt_sm_stores_outstanding (driver->sm, G_MAXUINT32) == 0)
    return FALSE;
  for (guint r = 0; r < call->n_rows; r++)
    for (guint i = 0; i < call->rows[r].n; i++)
      if (lmt_sm_key_in_store (driver->sm, call->rows[r].keys[i]))
        return TRUE;
  return FALSE;
}

static void
ordered_before (SmDriver *driver, const SmCall *call)
{
  gint64 begin;
  gint64 deadline;
  gint64 host;

  if (!call_must_wait (driver, call))
    return;
  begin = host = lmt_clock_now (driver->params.clock);
  deadline = later (begin, driver->params.drain_timeout_ns);
  driver->figures.order_waits++;
  while (call_must_wait (driver, call))
    {
      if (host >= deadline)
        {
          driver->figures.unsettled++;
          break;
        }
      if (interrupted (driver, 2))
        break;
      real_nap (driver, deadline);
      host = turn (driver);
    }
  driver->figures.order_wait_ns += lmt_clock_now (driver->params.clock) - begin;
}

/* ---------------- doors ---------------- */

SmDriver *
sm_driver_new (LmtSm *sm, LmtL2 *const *l2, guint n_l2, const SmDriverParams *params)
{
  SmDriver *driver = g_new0 (SmDriver, 1);

  driver->sm = sm;
  driver->params = *params;
  driver->n_adapters = n_l2;
  driver->adapters = g_new0 (DriverAdapter, MAX (n_l2, 1));
  driver->fds = g_new0 (int, MAX (n_l2, 1));
  driver->wrong = g_array_new (FALSE, FALSE, sizeof (guint64));
  for (guint i = 0; i < n_l2; i++)
    {
      driver->adapters[i].driver = driver;
      driver->adapters[i].l2 = l2[i];
      driver->adapters[i].number = i;
      driver->adapters[i].fd = lmt_l2_get_fd (l2[i]);
      lmt_l2_set_event_func (l2[i], on_l2_event, &driver->adapters[i]);
    }
  return driver;
}

static void
free_list (DriverTask *head)
{
  while (head != NULL)
    {
      DriverTask *next = head->next;

      task_free (head);
      head = next;
    }
}

/* The adapters are closed by now: nobody hands a task back any more. */
void
sm_driver_free (SmDriver *driver)
{
  if (driver == NULL)
    return;
  free_list (driver->waited.head);
  free_list (driver->strays.head);
  free_list (driver->spare);
  g_array_free (driver->wrong, TRUE);
  g_free (driver->adapters);
  g_free (driver->fds);
  g_free (driver);
}

void
sm_driver_set_origin (SmDriver *driver, gint64 origin_ns)
{
  driver->origin_ns = origin_ns;
}

static void
on_l1_victim (LmtKey *key, gpointer data)
{
  SmDriver *driver = data;

  driver->victim (-1, key, driver->data);
}

void
sm_driver_set_funcs (SmDriver *driver, SmResultFunc result, SmVictimFunc victim, gpointer data)
{
  driver->result = result;
  driver->victim = victim;
  driver->data = data;
  lmt_sm_set_victim_func (driver->sm, victim != NULL ? on_l1_victim : NULL, driver);
}

static gboolean
settled_wait (SmDriver *driver, gint64 due_ns)
{
  const LmtClock *clock = driver->params.clock;

  while (!interrupted (driver, 1))
    {
      if (driver->strays.head != NULL)
        {
          take_strays (driver);
          settle (driver);
        }
      if (driver->params.speed == 0.0 || lmt_clock_now (clock) >= due_ns)
        return TRUE;
      nap (driver, due_ns);
    }
  return FALSE;
}

gboolean
sm_driver_wait (SmDriver *driver, gint64 due_ns)
{
  if (driver->params.mode == SM_DRIVE_SETTLED)
    return settled_wait (driver, due_ns);
  while (!interrupted (driver, 1))
    {
      if (turn (driver) >= due_ns || driver->params.speed == 0.0)
        return TRUE;
      real_nap (driver, due_ns);
    }
  return FALSE;
}

void
sm_driver_before (SmDriver *driver, gint64 trace_ns, const SmCall *call)
{
  if (driver->params.mode == SM_DRIVE_SETTLED)
    settled_before (driver, trace_ns);
  else if (driver->params.mode == SM_DRIVE_ORDERED)
    ordered_before (driver, call);
}

void
sm_driver_call (SmDriver *driver, const SmCall *call, SmResult *result, gint64 *start_ns, gint64 *end_ns)
{
  *start_ns = lmt_clock_now (driver->params.clock);
  if (driver->params.mode != SM_DRIVE_SETTLED)
    driver->now = MAX (driver->now, to_manager_ns (driver, *start_ns));
  lmt_sm_call (driver->sm, driver->now, call, result);
  driver->call_end_ns = *end_ns = lmt_clock_now (driver->params.clock);
}

void
sm_driver_after (SmDriver *driver)
{
  collect_results (driver, driver->call_end_ns);
  if (driver->n_adapters == 0)
    return;
  if (driver->params.mode == SM_DRIVE_SETTLED)
    settle (driver);
  else
    submit_all (driver);
}

gint64
sm_driver_now (SmDriver *driver)
{
  return driver->now;
}

SmTaskEnd
sm_driver_run_task (SmDriver *driver, guint number, LmtL2Task *task, LmtL2Code *refused)
{
  DriverAdapter *adapter = &driver->adapters[number];
  SmTaskEnd end = SM_TASK_DONE;

  if (!lmt_l2_submit (adapter->l2, task, refused))
    return SM_TASK_REFUSED;
  lmt_l2_flush (adapter->l2);
  adapter->outstanding++;
  while (end == SM_TASK_DONE && !lmt_l2_take (adapter->l2, task))
    {
      gint64 deadline = later (task->submit_ns, driver->params.drain_timeout_ns);

      if (lmt_clock_now (driver->params.clock) >= deadline || interrupted (driver, 2))
        end = SM_TASK_LATE;
      else
        nap (driver, deadline);
    }
  adapter->outstanding--;
  return end;
}

gboolean
sm_driver_drain (SmDriver *driver)
{
  gint64 host;
  gint64 deadline;

  if (driver->params.mode == SM_DRIVE_SETTLED)
    {
      settle (driver);
      return driver->strays.head == NULL;
    }
  host = turn (driver);
  deadline = later (host, driver->params.drain_timeout_ns);
  while (!lmt_sm_is_idle (driver->sm) && host < deadline && !interrupted (driver, 2))
    {
      real_nap (driver, deadline);
      host = turn (driver);
    }
  driver->figures.unsettled += driver->outstanding;
  return driver->outstanding == 0 && lmt_sm_is_idle (driver->sm);
}

const SmDriverFigures *
sm_driver_get_figures (const SmDriver *driver)
{
  return &driver->figures;
}

guint
sm_driver_get_outstanding (const SmDriver *driver)
{
  guint n = 0;

  for (guint i = 0; i < driver->n_adapters; i++)
    n += driver->adapters[i].outstanding;
  return n;
}
