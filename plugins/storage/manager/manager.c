/* SPDX-License-Identifier: Apache-2.0 */
#include "manager-private.h"

#include <string.h>

/* The doors: a life, calls in, results out. */

/* ---- life ---- */

static void
hold_key (guint32 id, gpointer data)
{
  LmtSm *sm = data;

  lmt_key_ref (lmt_key_table_get (sm->table, id));
}

static void
drop_key (guint32 id, gpointer data)
{
  LmtSm *sm = data;

  lmt_key_unref (sm->table, lmt_key_table_get (sm->table, id));
}

/* 10.2: without a capacity only quotas can tell what is too much. */
static gboolean
takes_part (const SmAdapter *adapter)
{
  return adapter->eviction.set && (adapter->eviction.policy == LMT_EVICT_ISOLATED_LRU || adapter->capacity > 0);
}

static void
init_adapters (LmtSm *sm, const LmtEvictHost *host)
{
  sm->adapters = g_new0 (SmAdapter, MAX (sm->config.n_l2, 1));
  for (guint a = 0; a < sm->config.n_l2; a++)
    {
      SmAdapter *adapter = &sm->adapters[a];

      adapter->eviction = sm->config.l2_eviction[a];
      sm_usage_init (&adapter->usage);
      if (takes_part (adapter))
        adapter->policy = lmt_evict_new (adapter->eviction.policy, host);
    }
}

/* Lists that only some calls need are there from the start: a warm run doesn't meet its first conflict with an allocation. */
static void
init_scratch (LmtSm *sm)
{
  SmKeys *lists[]
      = { &sm->unrefs, &sm->evicted, &sm->first, &sm->second, &sm->keys_scratch, &sm->failed_keys, &sm->lent, &sm->store_batch };

  for (guint i = 0; i < G_N_ELEMENTS (lists); i++)
    sm_keys_grow (lists[i], 256);
}

LmtSm *
lmt_sm_new (const SmConfig *config, LmtKeyTable *keys, GError **error)
{
  LmtEvictHost host = { hold_key, drop_key, NULL };
  LmtSm *sm;

  if (config->align_bytes == 0 || (config->align_bytes & (config->align_bytes - 1)) != 0)
    {
      g_set_error (error, LMT_ERROR, LMT_ERROR_OPTION, "align_bytes: expected a power of two, found %" G_GUINT64_FORMAT,
                   config->align_bytes);
      return NULL;
    }
  sm = g_new0 (LmtSm, 1);
  host.data = sm;
  sm->config = *config;
  sm->table = keys;
  sm->read_ttl = config->read_ttl_s * SM_NS_PER_S;
  sm->write_ttl = config->write_ttl_s * SM_NS_PER_S;
  sm->next_pass = config->eviction_period_ns;
  sm->last_retry = -SM_RETRY_NS;
  sm->n_inputs = 1;
  sm->arena = sm_arena_new (config->size_bytes, config->align_bytes);
  sm->policy = lmt_evict_new (config->eviction.policy, &host);
  sm->victims = g_array_new (FALSE, FALSE, sizeof (guint32));
  sm->retries = g_array_new (FALSE, FALSE, sizeof (LmtKey *));
  sm_quotas_init (&sm->quotas);
  sm_l1_init (sm);
  init_scratch (sm);
  init_adapters (sm, &host);
  if (config->explain_misses)
    sm->history = sm_history_new ();
  return sm;
}

static void
free_scratch (LmtSm *sm)
{
  SmScratch *scratches[] = { &sm->codes, &sm->addresses,  &sm->classes,      &sm->blocks,
                             &sm->cells, &sm->task_codes, &sm->result_codes, &sm->result_addresses };
  SmKeys *lists[]
      = { &sm->unrefs, &sm->evicted, &sm->first, &sm->second, &sm->keys_scratch, &sm->failed_keys, &sm->lent, &sm->store_batch };

  for (guint i = 0; i < G_N_ELEMENTS (scratches); i++)
    g_free (scratches[i]->data);
  for (guint i = 0; i < G_N_ELEMENTS (lists); i++)
    g_free (lists[i]->data);
  g_free (sm->gone.data);
  g_free (sm->notes.data);
  sm_partition_clear (&sm->partition);
}

static void
drop_lent (LmtSm *sm)
{
  for (guint i = 0; i < sm->lent.n; i++)
    lmt_key_unref (sm->table, sm->lent.data[i]);
  sm->lent.n = 0;
}

static void
policy_free (LmtSm *sm, LmtEvict *policy)
{
  if (policy != NULL && lmt_key_table_is_retired (sm->table))
    lmt_evict_set_host (policy, NULL);
  lmt_evict_free (policy);
}

void
lmt_sm_free (LmtSm *sm)
{
  if (sm == NULL)
    return;
  sm->listener = NULL;
  drop_lent (sm);
  sm_requests_free (sm);
  sm_tasks_free (sm);
  for (guint i = 0; i < sm->retries->len; i++)
    lmt_key_unref (sm->table, g_array_index (sm->retries, LmtKey *, i));
  g_array_unref (sm->retries);
  g_array_unref (sm->victims);
  sm_l1_free (sm);
  policy_free (sm, sm->policy);
  for (guint a = 0; a < sm->config.n_l2; a++)
    {
      policy_free (sm, sm->adapters[a].policy);
      sm_usage_clear (&sm->adapters[a].usage);
    }
  g_free (sm->adapters);
  sm_arena_free (sm->arena);
  sm_quotas_clear (&sm->quotas);
  sm_history_free (sm->history);
  sm_pool_clear (&sm->pool);
  free_scratch (sm);
  g_free (sm);
}

void
lmt_sm_set_listener (LmtSm *sm, SmListener listener, gpointer data)
{
  sm->listener = listener;
  sm->listener_data = data;
}

void
lmt_sm_set_victim_func (LmtSm *sm, SmVictim func, gpointer data)
{
  sm->victim = func;
  sm->victim_data = data;
}

void
lmt_sm_set_l2_locked (LmtSm *sm, SmL2Locked func, gpointer data)
{
  sm->l2_locked = func;
  sm->l2_locked_data = data;
}

void
lmt_sm_set_l2_capacity (LmtSm *sm, guint32 adapter, guint64 bytes)
{
  const LmtEvictHost host = { hold_key, drop_key, sm };
  SmAdapter *a;

  if (adapter >= sm->config.n_l2)
    return;
  a = &sm->adapters[adapter];
  a->capacity = bytes;
  if (takes_part (a) && a->policy == NULL)
    a->policy = lmt_evict_new (a->eviction.policy, &host);
  else if (!takes_part (a) && a->policy != NULL)
    g_clear_pointer (&a->policy, lmt_evict_free);
}

/* ---- the frame of every input ---- */

void
sm_enter (LmtSm *sm, gint64 now_ns)
{
  sm->now = MAX (sm->now, now_ns);
  sm->idle_until = 0;
  if (sm->lent.n > 0)
    drop_lent (sm);
  sm_l1_ensure (sm);
}

void
sm_run (LmtSm *sm)
{
  sm_store_run (sm);
  if (sm->retries->len > 0)
    sm_store_retry (sm);
  if (!sm->closed)
    sm_prefetch_run (sm);
}

void
lmt_sm_close (LmtSm *sm, gint64 now_ns)
{
  if (sm->closed)
    return;
  sm_enter (sm, now_ns);
  sm->closed = TRUE;
  sm_requests_close (sm);
}

/* ---- calls ---- */

/* Distinct keys of a list by their code, in list order: what the sm.* events carry. @good, @bad: out. */
static void
split_keys (LmtSm *sm, LmtKey *const *keys, const guint8 *codes, guint n, SmKeys *good, SmKeys *bad)
{
  guint32 base = sm_marks_begin (sm, 1);

  good->n = bad->n = 0;
  for (guint i = 0; i < n; i++)
    {
      SmKeyState *state = sm_state (sm, keys[i]);

      if (state->mark == base)
        continue;
      state->mark = base;
      sm_keys_add (codes[i] == SM_SUCCESS ? good : bad, keys[i]);
    }
}

static void
tell_split (LmtSm *sm, SmEventType type, const SmKeys *good, const SmKeys *bad)
{
  sm_emit (sm, &(SmEvent){ .type = type,
                           .keys = good->data,
                           .n_keys = good->n,
                           .failed_keys = bad->data,
                           .n_failed_keys = bad->n,
                           .key_count = good->n });
}

static void
tell_out_of_memory (LmtSm *sm, const SmCall *call, const guint8 *codes)
{
  guint32 base = sm_marks_begin (sm, 1);
  SmKeys *keys = &sm->failed_keys;

  keys->n = 0;
  for (guint i = 0; i < call->n_keys; i++)
    {
      SmKeyState *state = sm_state (sm, call->keys[i]);

      if (codes[i] != SM_OUT_OF_MEMORY || state->mark == base)
        continue;
      state->mark = base;
      sm_keys_add (keys, call->keys[i]);
    }
  if (keys->n > 0)
    sm_emit (sm, &(SmEvent){ .type = SM_EV_L1_ALLOCATION_FAILED, .keys = keys->data, .n_keys = keys->n, .during = "l1_store" });
}

static void
call_reserve_write (LmtSm *sm, const SmCall *call, SmResult *result, guint8 *codes)
{
  SmReserve reserve
      = { .keys = call->keys, .n = call->n_keys, .bytes = call->object_bytes, .tag = SM_TAG_WRITE, .mode = call->write_mode };
  guint64 *addresses = sm_scratch (&sm->result_addresses, call->n_keys * sizeof *addresses);
  SmCounters *counters = &sm->counters;
  guint oom = 0;

  result->value_error = sm_l1_reserve_write (sm, &reserve, codes, addresses);
  if (result->value_error != NULL)
    return;
  result->addresses = addresses;
  split_keys (sm, call->keys, codes, call->n_keys, &sm->first, &sm->second);
  for (guint i = 0; i < call->n_keys; i++)
    {
      counters->reserve_not_writable += codes[i] == SM_KEY_NOT_WRITABLE;
      oom += codes[i] == SM_OUT_OF_MEMORY;
    }
  counters->reserve_asked += call->n_keys;
  counters->reserve_ok += sm->first.n;
  counters->reserve_oom += oom;
  counters->reserve_bytes += sm->first.n * call->object_bytes;
  result->n_good = sm->first.n;
  if (sm->listener == NULL)
    return;
  tell_split (sm, SM_EV_WRITE_RESERVED, &sm->first, &sm->second);
  if (oom > 0)
    tell_out_of_memory (sm, call, codes);
}

static void
call_finish_write (LmtSm *sm, const SmCall *call, SmResult *result, guint8 *codes)
{
  SmCounters *counters = &sm->counters;
  guint admitted = sm->residents.n;

  sm_l1_finish_write (sm, call->keys, call->n_keys, SM_TAG_WRITE, codes);
  admitted = sm->residents.n - admitted;
  counters->finish_asked += call->n_keys;
  counters->finish_admitted += admitted;
  for (guint i = 0; i < call->n_keys; i++)
    {
      result->n_good += codes[i] == SM_SUCCESS;
      counters->finish_unknown += codes[i] == SM_KEY_NOT_EXIST;
      counters->finish_expired += codes[i] == SM_KEY_IN_WRONG_STATE;
      counters->expired_write_locks += codes[i] == SM_KEY_IN_WRONG_STATE;
    }
  counters->finish_dropped += result->n_good - MIN (admitted, result->n_good);
  if (sm->listener == NULL)
    return;
  split_keys (sm, call->keys, codes, call->n_keys, &sm->first, &sm->second);
  tell_split (sm, SM_EV_WRITE_FINISHED, &sm->first, &sm->second);
}

static void
call_abort_write (LmtSm *sm, const SmCall *call, SmResult *result, guint8 *codes)
{
  sm_l1_finish_write_and_delete (sm, call->keys, call->n_keys, SM_TAG_WRITE, codes);
  for (guint i = 0; i < call->n_keys; i++)
    result->n_good += codes[i] == SM_SUCCESS;
}

static void
tell_read_failed (LmtSm *sm, const SmCall *call, const guint8 *codes, guint8 code, const char *reason)
{
  guint32 base = sm_marks_begin (sm, 1);

  sm->second.n = 0;
  for (guint i = 0; i < call->n_keys; i++)
    {
      SmKeyState *state = sm_state (sm, call->keys[i]);

      if (codes[i] != code || state->mark == base)
        continue;
      state->mark = base;
      sm_keys_add (&sm->second, call->keys[i]);
    }
  if (sm->second.n > 0)
    sm_emit (sm, &(SmEvent){ .type = SM_EV_L1_READ_FAILED,
                             .keys = sm->second.data,
                             .n_keys = sm->second.n,
                             .during = "l1_retrieve",
                             .reason = reason });
}

static void
call_read_enter (LmtSm *sm, const SmCall *call, SmResult *result, guint8 *codes)
{
  guint bad = 0;

  sm_l1_unsafe_read (sm, call->keys, call->n_keys, codes);
  split_keys (sm, call->keys, codes, call->n_keys, &sm->first, &sm->second);
  result->n_good = sm->first.n;
  result->good = sm->second.n == 0;
  if (result->good || call->op == SM_OP_UNSAFE_READ)
    return;
  for (guint i = 0; i < call->n_keys; i++)
    {
      if (codes[i] == SM_SUCCESS)
        continue;
      bad++;
      if (sm->cold[call->keys[i]->id].in_prefetch > 0)
        sm->counters.read_too_early++;
      else if (codes[i] == SM_KEY_NOT_EXIST)
        sm->counters.read_unknown++;
      else
        sm->counters.read_unlocked++;
    }
  if (sm->listener == NULL)
    return;
  tell_read_failed (sm, call, codes, SM_KEY_NOT_EXIST, "not_found");
  tell_read_failed (sm, call, codes, SM_KEY_NOT_READABLE, "write_locked");
}

static void
count_bad_releases (LmtSm *sm, const guint8 *codes, guint n)
{
  for (guint i = 0; i < n; i++)
    {
      sm->counters.finish_read_unknown += codes[i] == SM_KEY_NOT_EXIST;
      sm->counters.finish_read_unlocked += codes[i] == SM_KEY_IN_WRONG_STATE;
    }
}

/* One lock per distinct good key goes back, unless the context was entered and left well: then nothing happens. */
static void
call_read_exit (LmtSm *sm, const SmCall *call, SmResult *result, guint8 *codes)
{
  guint32 base;
  guint n = 0;

  memset (codes, SM_SUCCESS, call->n_keys);
  if (!call->enter_bad && !call->caller_failed)
    return;
  base = sm_marks_begin (sm, 1);
  sm->keys_scratch.n = 0;
  for (guint i = 0; i < call->n_keys; i++)
    {
      SmKeyState *state = sm_state (sm, call->keys[i]);

      if (state->mark == base)
        continue;
      state->mark = base;
      sm_keys_add (&sm->keys_scratch, call->keys[i]);
    }
  n = sm->keys_scratch.n;
  result->n_good = n;
  if (n > 0)
    {
      guint8 *answers = sm_scratch (&sm->codes, n);

      sm_l1_finish_read (sm, sm->keys_scratch.data, n, 1, TRUE, answers);
      count_bad_releases (sm, answers, n);
      /* The marks are positions in the list without repetitions now. */
      base = sm_state (sm, sm->keys_scratch.data[0])->mark;
      for (guint i = 0; i < call->n_keys; i++)
        codes[i] = answers[sm_state (sm, call->keys[i])->mark - base];
    }
  if (sm->listener != NULL)
    sm_emit (sm, &(SmEvent){ .type = SM_EV_READ_PREFETCHED_FINISHED,
                             .keys = sm->keys_scratch.data,
                             .n_keys = n,
                             .failed_keys = call->bad_keys,
                             .n_failed_keys = call->n_bad_keys,
                             .key_count = n });
}

static void
call_finish_read (LmtSm *sm, const SmCall *call, SmResult *result, guint8 *codes)
{
  sm_l1_finish_read (sm, call->keys, call->n_keys, call->readers, TRUE, codes);
  count_bad_releases (sm, codes, call->n_keys);
  for (guint i = 0; i < call->n_keys; i++)
    result->n_good += codes[i] == SM_SUCCESS;
  if (sm->listener == NULL)
    return;
  split_keys (sm, call->keys, codes, call->n_keys, &sm->first, &sm->second);
  tell_split (sm, SM_EV_READ_PREFETCHED_FINISHED, &sm->first, &sm->second);
}

static void
call_delete (LmtSm *sm, const SmCall *call, SmResult *result, guint8 *codes)
{
  guint32 base;

  sm_l1_delete (sm, call->keys, call->n_keys, call->force, SM_PAST_REMOVED, codes);
  base = sm_marks_begin (sm, 1);
  for (guint i = 0; i < call->n_keys; i++)
    {
      SmKeyState *state = sm_state (sm, call->keys[i]);

      if (state->mark == base)
        continue;
      state->mark = base;
      result->deleted += codes[i] == SM_SUCCESS;
      result->skipped += codes[i] == SM_KEY_IS_LOCKED;
    }
}

static void
dispatch (LmtSm *sm, const SmCall *call, SmResult *result, guint8 *codes)
{
  switch (call->op)
    {
    case SM_OP_RESERVE_WRITE:
      call_reserve_write (sm, call, result, codes);
      break;
    case SM_OP_FINISH_WRITE:
      call_finish_write (sm, call, result, codes);
      break;
    case SM_OP_ABORT_WRITE:
      call_abort_write (sm, call, result, codes);
      break;
    case SM_OP_PREFETCH:
      result->value_error = sm_prefetch_submit (sm, call, result);
      break;
    case SM_OP_READ_ENTER:
    case SM_OP_UNSAFE_READ:
      call_read_enter (sm, call, result, codes);
      break;
    case SM_OP_READ_EXIT:
      call_read_exit (sm, call, result, codes);
      break;
    case SM_OP_FINISH_READ:
      call_finish_read (sm, call, result, codes);
      break;
    case SM_OP_TOUCH:
      sm_l1_touch (sm, call->keys, call->n_keys);
      memset (codes, SM_SUCCESS, call->n_keys);
      break;
    case SM_OP_DELETE:
      call_delete (sm, call, result, codes);
      break;
    case SM_OP_CLEAR:
      sm_l1_clear (sm, call->force);
      break;
    default:
      result->value_error = "unknown call";
      break;
    }
}

/* Lists are short and their states lie apart: asking for all of them first hides most of the waiting. */
static void
fetch_states (const LmtSm *sm, LmtKey *const *keys, guint n)
{
  n = MIN (n, 256);
  if (n < 4)
    return;
  for (guint i = 0; i < n; i++)
    __builtin_prefetch (keys[i]);
  for (guint i = 0; i < n; i++)
    __builtin_prefetch (&sm->states[keys[i]->id], 1);
}

void
lmt_sm_call (LmtSm *sm, gint64 now_ns, const SmCall *call, SmResult *result)
{
  guint8 *codes;

  sm_enter (sm, now_ns);
  sm->n_inputs++;
  memset (result, 0, sizeof *result);
  if (sm->closed)
    {
      result->value_error = "the manager is closed";
      sm->counters.value_errors++;
      return;
    }
  if (call->op < G_N_ELEMENTS (sm->counters.calls))
    sm->counters.calls[call->op]++;
  if (call->op != SM_OP_PREFETCH)
    fetch_states (sm, call->keys, call->n_keys);
  else
    for (guint32 r = 0; r < call->n_rows; r++)
      fetch_states (sm, call->rows[r].keys, call->rows[r].n);
  if (sm->history != NULL && call->op != SM_OP_PREFETCH)
    sm_explain_named (sm, call->keys, call->n_keys);
  codes = sm_scratch (&sm->result_codes, call->n_keys);
  dispatch (sm, call, result, codes);
  if (result->value_error != NULL)
    sm->counters.value_errors++;
  else if (call->op != SM_OP_PREFETCH)
    {
      result->codes = codes;
      result->n = call->n_keys;
    }
  sm_run (sm);
}

/* ---- names ---- */

const char *
sm_code_name (guint32 code)
{
  static const char *const names[]
      = { "SUCCESS",       "KEY_NOT_EXIST", "KEY_NOT_READABLE", "KEY_NOT_WRITABLE", "KEY_IN_WRONG_STATE",
          "KEY_IS_LOCKED", "OUT_OF_MEMORY" };

  return code < G_N_ELEMENTS (names) ? names[code] : "UNKNOWN";
}

const char *
sm_event_name (guint32 type)
{
  static const char *const names[] = {
    [SM_EV_L1_READ_RESERVED] = "l1.read.reserved",
    [SM_EV_L1_READ_FINISHED] = "l1.read.finished",
    [SM_EV_L1_WRITE_RESERVED] = "l1.write.reserved",
    [SM_EV_L1_WRITE_FINISHED] = "l1.write.finished",
    [SM_EV_L1_WRITE_FINISHED_AND_READ_RESERVED] = "l1.write_finished_and_read_reserved",
    [SM_EV_L1_KEYS_EVICTED] = "l1.keys.evicted",
    [SM_EV_L1_KEYS_ACCESSED] = "l1.keys.accessed",
    [SM_EV_L1_LOOP_TICK] = "l1.eviction.loop_tick",
    [SM_EV_L1_ALLOCATION_FAILED] = "l1.allocation.failed",
    [SM_EV_L1_READ_FAILED] = "l1.read.failed",
    [SM_EV_WRITE_RESERVED] = "sm.write.reserved",
    [SM_EV_WRITE_FINISHED] = "sm.write.finished",
    [SM_EV_READ_PREFETCHED_FINISHED] = "sm.read.prefetched_finished",
    [SM_EV_STORE_SUBMITTED] = "l2.store.submitted",
    [SM_EV_STORE_COMPLETED] = "l2.store.completed",
    [SM_EV_LOOKUP_SUBMITTED] = "l2.prefetch.lookup.submitted",
    [SM_EV_LOAD_TASK_SUBMITTED] = "l2.load_task.submitted",
    [SM_EV_LOAD_TASK_COMPLETED] = "l2.load_task.completed",
    [SM_EV_LOAD_SUBMITTED] = "l2.prefetch.load.submitted",
    [SM_EV_LOAD_COMPLETED] = "l2.prefetch.load.completed",
    [SM_EV_PREFETCH_FAILED] = "l2.prefetch.failed",
    [SM_EV_L2_KEYS_STORED] = "l2.keys.stored",
    [SM_EV_L2_KEYS_ACCESSED] = "l2.keys.accessed",
    [SM_EV_L2_KEYS_DELETED] = "l2.keys.deleted",
    [SM_EV_L2_KEYS_EVICTED] = "l2.keys.evicted",
  };

  return type < G_N_ELEMENTS (names) ? names[type] : "unknown";
}

const char *
sm_tag_text (LmtSm *sm, guint64 tag)
{
  if (tag == SM_TAG_WRITE)
    return "storage_manager";
  g_snprintf (sm->tag_text, sizeof sm->tag_text, "prefetch:%" G_GUINT64_FORMAT, tag);
  return sm->tag_text;
}
