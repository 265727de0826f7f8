/* SPDX-License-Identifier: Apache-2.0 */
#include "manager-private.h"

/* The eviction controllers and their time (storage-manager.md 10, 19.3). */

static gboolean
l1_eligible (guint32 id, gpointer data)
{
  return sm_l1_is_evictable (data, id);
}

/* Victims may be gone after the pass: who asked for them has them until the next input. */
static void
lend_victim (LmtSm *sm, GPtrArray *victims, LmtKey *key)
{
  sm_keys_add (&sm->lent, lmt_key_ref (key));
  g_ptr_array_add (victims, key);
}

/* Returns: something was deleted. */
gboolean
sm_evict_l1_pass (LmtSm *sm, GPtrArray *victims, GArray *codes, gboolean *triggered)
{
  guint64 total = sm->config.size_bytes, freed = sm_arena_used (sm->arena);
  double usage = total == 0 ? 0.0 : (double)freed / (double)total;
  gboolean high = usage >= sm->config.eviction.watermark;
  guint8 *answers;
  guint deleted = 0, n;

  sm->counters.l1_passes++;
  sm->counters.l1_passes_triggered += high;
  if (triggered != NULL)
    *triggered = high;
  if (sm->listener != NULL)
    sm_emit (sm, &(SmEvent){
                     .type = SM_EV_L1_LOOP_TICK, .usage = usage, .watermark = sm->config.eviction.watermark, .triggered = high });
  if (!high || sm->counters.isolated_l1_dead != 0)
    return FALSE;
  if (!lmt_evict_victims (sm->policy, sm->config.eviction.ratio, -1, l1_eligible, sm, sm->victims))
    {
      sm->counters.isolated_l1_dead = 1; /* defect 1 */
      return FALSE;
    }
  n = sm->victims->len;
  sm->keys_scratch.n = 0;
  for (guint i = 0; i < n; i++)
    {
      LmtKey *key = sm->cold[g_array_index (sm->victims, guint32, i)].key;

      sm_keys_add (&sm->keys_scratch, key);
      if (victims != NULL)
        lend_victim (sm, victims, key);
    }
  if (n == 0)
    return FALSE;
  answers = sm_scratch (&sm->codes, n);
  sm->in_pass = TRUE;
  sm_l1_delete (sm, sm->keys_scratch.data, n, FALSE, SM_PAST_EVICTED, answers);
  sm->in_pass = FALSE;
  for (guint i = 0; i < n; i++)
    deleted += answers[i] == SM_SUCCESS;
  if (codes != NULL)
    g_array_append_vals (codes, answers, n);
  sm->counters.l1_evicted_keys += deleted;
  sm->counters.l1_evicted_bytes += freed - sm_arena_used (sm->arena);
  sm->counters.l1_refused_victims += n - deleted;
  return deleted > 0;
}

/* ---- L2 ---- */

typedef struct
{
  LmtSm *sm;
  guint32 adapter;
} L2Ask;

static gboolean
l2_eligible (guint32 id, gpointer data)
{
  const L2Ask *ask = data;
  LmtKey *key = lmt_key_table_get (ask->sm->table, id);

  return key != NULL && (ask->sm->l2_locked == NULL || !ask->sm->l2_locked (ask->adapter, key, ask->sm->l2_locked_data));
}

static void
ask_policy (LmtSm *sm, guint32 adapter, gint64 salt, double ratio, GArray *decisions, GPtrArray *victims)
{
  L2Ask ask = { sm, adapter };
  SmL2Decision decision = { adapter, salt, ratio, victims != NULL ? victims->len : 0, 0 };

  if (!lmt_evict_victims (sm->adapters[adapter].policy, ratio, salt, l2_eligible, &ask, sm->victims))
    return;
  for (guint i = 0; i < sm->victims->len; i++)
    {
      LmtKey *key = lmt_key_table_get (sm->table, g_array_index (sm->victims, guint32, i));

      sm_keys_add (&sm->keys_scratch, key);
      if (victims != NULL)
        lend_victim (sm, victims, key);
    }
  decision.n = sm->victims->len;
  if (decisions != NULL)
    g_array_append_val (decisions, decision);
}

/* Returns: some salt is over its watermark. */
static gboolean
ask_by_salt (LmtSm *sm, guint32 adapter, GArray *decisions, GPtrArray *victims)
{
  const SmAdapter *a = &sm->adapters[adapter];
  gboolean triggered = FALSE;

  for (guint32 salt = a->usage.head; salt != SM_NIL; salt = a->usage.salts[salt].next)
    {
      gint64 limit = sm_quotas_get_limit (&sm->quotas, salt);

      if ((double)a->usage.salts[salt].bytes < a->eviction.watermark * (double)limit)
        continue;
      triggered = TRUE;
      ask_policy (sm, adapter, salt, limit == 0 ? 1.0 : a->eviction.ratio, decisions, victims);
    }
  return triggered;
}

/* Returns: a deletion was queued. */
gboolean
sm_evict_l2_pass (LmtSm *sm, guint32 adapter, GArray *decisions, GPtrArray *victims)
{
  SmAdapter *a = &sm->adapters[adapter];
  SmTask *task;

  if (a->policy == NULL || a->delete_running || sm->closed)
    return FALSE;
  sm->keys_scratch.n = 0;
  if (a->eviction.policy == LMT_EVICT_ISOLATED_LRU)
    {
      sm->counters.l2_passes++;
      if (!ask_by_salt (sm, adapter, decisions, victims))
        return FALSE;
    }
  else
    {
      if (a->capacity == 0)
        return FALSE;
      sm->counters.l2_passes++;
      if ((double)a->usage.used / (double)a->capacity < a->eviction.watermark)
        return FALSE;
      ask_policy (sm, adapter, -1, a->eviction.ratio, decisions, victims);
    }
  sm->counters.l2_passes_triggered++;
  if (sm->keys_scratch.n == 0)
    return FALSE;
  task = sm_task_new (sm, SM_IO_DELETE, adapter, sm->keys_scratch.n);
  for (guint i = 0; i < sm->keys_scratch.n; i++)
    sm_task_add (task, sm->keys_scratch.data[i], 0, 0, 0);
  a->delete_running = TRUE;
  sm_task_queue (sm, task);
  return TRUE;
}

void
sm_delete_completed (LmtSm *sm, SmTask *task, const guint8 *codes)
{
  SmKeys *deleted = &sm->keys_scratch;

  if (task->late && !task->orphan) /* nobody waits for it but the next pass, and that needs the real answer */
    return;
  sm->adapters[task->io.adapter].delete_running = FALSE;
  deleted->n = 0;
  for (guint i = 0; i < task->io.n; i++)
    {
      LmtKey *key = task->keys[i];

      if (!sm_code_is_good (codes[i]))
        continue;
      sm_keys_add (deleted, key);
      if (sm->history != NULL && (sm_state (sm, key)->flags & SM_KEY_RESIDENT) == 0)
        sm_explain_left (sm, key, SM_PAST_EVICTED);
    }
  sm->counters.l2_evicted_keys += deleted->n;
  if (deleted->n > 0)
    sm->n_inputs++;
  else
    sm->adapters[task->io.adapter].fruitless_at = sm->n_inputs;
  if (sm->listener != NULL && deleted->n > 0)
    sm_emit (sm, &(SmEvent){ .type = SM_EV_L2_KEYS_EVICTED,
                             .adapter = task->io.adapter,
                             .keys = deleted->data,
                             .n_keys = deleted->n,
                             .request = task->io.id,
                             .key_count = deleted->n });
}

/* What an adapter tells of its contents: usage, recency, the past of what left. */
void
lmt_sm_l2_event (LmtSm *sm, gint64 now_ns, guint32 adapter, guint32 kind, LmtKey *const *keys, const guint64 *sizes, guint n)
{
  static const SmEventType types[] = { SM_EV_L2_KEYS_STORED, SM_EV_L2_KEYS_ACCESSED, SM_EV_L2_KEYS_DELETED };
  SmAdapter *a;

  sm_enter (sm, now_ns);
  if (adapter >= sm->config.n_l2 || kind >= G_N_ELEMENTS (types))
    return;
  a = &sm->adapters[adapter];
  sm->n_inputs++;
  sm->notes.n = 0;
  for (guint i = 0; i < n; i++)
    {
      guint64 bytes = sizes != NULL ? sizes[i] : 0;

      sm_evict_keys_add (&sm->notes, keys[i]);
      if (kind == 0)
        sm_usage_add (&a->usage, keys[i]->salt, bytes);
      else if (kind == 2)
        {
          sm_usage_remove (&a->usage, keys[i]->salt, bytes);
          if (a->delete_running)
            sm->counters.l2_evicted_bytes += bytes;
          if (sm->history != NULL && (sm_state (sm, keys[i])->flags & SM_KEY_RESIDENT) == 0)
            sm_explain_left (sm, keys[i], SM_PAST_REMOVED);
        }
    }
  if (a->policy != NULL && kind == 0)
    lmt_evict_created (a->policy, sm->notes.data, n);
  else if (a->policy != NULL && kind == 1)
    lmt_evict_touched (a->policy, sm->notes.data, n);
  else if (a->policy != NULL)
    lmt_evict_removed (a->policy, sm->notes.data, n);
  if (sm->listener != NULL)
    sm_emit (sm,
             &(SmEvent){ .type = types[kind], .adapter = adapter, .keys = keys, .n_keys = n, .sizes = sizes, .key_count = n });
}

/* ---- passes by hand ---- */

void
lmt_sm_evict_l1 (LmtSm *sm, gint64 now_ns, GPtrArray *victims, GArray *codes, gboolean *triggered)
{
  sm_enter (sm, now_ns);
  sm_evict_l1_pass (sm, victims, codes, triggered);
  sm_run (sm);
}

void
lmt_sm_evict_l2 (LmtSm *sm, gint64 now_ns, GArray *decisions, GPtrArray *victims)
{
  sm_enter (sm, now_ns);
  for (guint a = 0; a < sm->config.n_l2; a++)
    sm_evict_l2_pass (sm, a, decisions, victims);
  sm_run (sm);
}

/* ---- time ---- */

/* The first due instant at or after @at, which lies behind the last pass. */
static gint64
due_from (const LmtSm *sm, gint64 at)
{
  gint64 period = sm->config.eviction_period_ns, k;

  if (at <= sm->next_pass)
    return sm->next_pass;
  k = (at - sm->next_pass + period - 1) / period;
  return sm->next_pass > G_MAXINT64 - k * period ? G_MAXINT64 : sm->next_pass + k * period;
}

/*
 * One due instant. If nothing was deleted, the next pass can differ only after another input or when a held lock ends; and if the
 * watermark was not reached, or nothing can be evicted at all, only after an input. That an adapter's deletion deleted nothing is
 * no such input: without this a year in a trace would be 30 million tries to remove what can't be removed.
 */
static void
pass_at (LmtSm *sm, gint64 due)
{
  gboolean triggered, deleted;
  guint staged = sm->staged.n;

  sm->now = due;
  sm->next_pass = due > G_MAXINT64 - sm->config.eviction_period_ns ? G_MAXINT64 : due + sm->config.eviction_period_ns;
  sm_task_deadlines (sm);
  deleted = sm_evict_l1_pass (sm, NULL, NULL, &triggered);
  deleted |= sm->staged.n != staged; /* an expired reservation of a key that is read: the next pass has another victim */
  sm_run (sm);
  for (guint a = 0; a < sm->config.n_l2; a++)
    if (sm->adapters[a].fruitless_at != sm->n_inputs)
      deleted |= sm_evict_l2_pass (sm, a, NULL, NULL);
  sm_run (sm);
  if (deleted)
    sm->idle_until = 0;
  else if ((triggered && sm->counters.isolated_l1_dead == 0) || sm->retries->len > 0)
    sm->idle_until = sm_l1_next_expiry (sm);
  else
    sm->idle_until = G_MAXINT64;
  if (sm->oldest != NULL)
    sm->idle_until = MIN (sm->idle_until, sm->oldest->deadline);
}

void
lmt_sm_advance (LmtSm *sm, gint64 now_ns)
{
  gint64 period = sm->config.eviction_period_ns, idle_until = sm->idle_until;
  gint64 target = MAX (now_ns, sm->now);

  sm_enter (sm, sm->now);
  sm->idle_until = idle_until; /* time alone is no input */
  while (period > 0 && !sm->closed && sm->next_pass <= target)
    {
      gint64 last = sm->next_pass + (target - sm->next_pass) / period * period, due = sm->next_pass;

      if (sm->config.collapse_passes)
        due = last;
      else if (sm->idle_until > due)
        due = MIN (due_from (sm, sm->idle_until), last);
      sm->counters.l1_passes_skipped += (guint64)((due - sm->next_pass) / period);
      pass_at (sm, due);
    }
  sm->now = target;
  sm_task_deadlines (sm);
  sm_run (sm);
}

gint64
lmt_sm_next_due_ns (LmtSm *sm)
{
  gint64 due = G_MAXINT64;

  if (sm->config.eviction_period_ns > 0 && !sm->closed)
    due = sm->idle_until == G_MAXINT64 ? G_MAXINT64 : due_from (sm, sm->idle_until);
  if (sm->oldest != NULL)
    due = MIN (due, sm->oldest->deadline);
  if (sm->retries->len > 0)
    due = MIN (due, MAX (sm->last_retry + SM_RETRY_NS, sm->now + 1));
  return due;
}
