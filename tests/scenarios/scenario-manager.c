/* SPDX-License-Identifier: Apache-2.0 */
#include "scenario.h"

#include <string.h>

/* kind storage_manager: the calls, and the machine around them that the L2 layer and a driver are otherwise. */

typedef struct
{
  GPtrArray *keys; /* distinct, in list order */
  GPtrArray *bad;
  gboolean good;
} Context;

static void
context_free (gpointer data)
{
  Context *context = data;

  g_ptr_array_unref (context->keys);
  g_ptr_array_unref (context->bad);
  g_free (context);
}

/* ---- driving ---- */

static void
write_bits (LmtJsonWriter *writer, const char *member, const guint8 *cells, const SmPrefetchResult *result)
{
  g_autofree char *row = g_malloc0 (result->n_columns + 1);

  lmt_json_writer_key (writer, member);
  if (cells == NULL)
    {
      lmt_json_writer_null (writer);
      return;
    }
  lmt_json_writer_begin_array (writer);
  for (guint r = 0; r < result->n_rows; r++)
    {
      for (guint c = 0; c < result->n_columns; c++)
        row[c] = cells[r * result->n_columns + c] ? '1' : '0';
      lmt_json_writer_string (writer, row);
    }
  lmt_json_writer_end_array (writer);
}

static void
collect_results (World *world)
{
  SmPrefetchResult result;

  while (lmt_sm_next_result (world->sm, &result))
    {
      GString *text = g_string_new (NULL);
      LmtJsonWriter *writer = lmt_json_writer_new (text, LMT_JSON_STYLE_SPACED);
      guint misses = 0;

      for (guint m = 0; m < SM_N_MISS; m++)
        misses += result.misses[m];
      if (misses != result.n_rows * result.n_columns - result.n_hit)
        fail (world->scenario, "misses", "one cause per cell that was not hit", "another sum");
      lmt_json_writer_begin_object (writer);
      write_bits (writer, "hit_cells", result.hit, &result);
      write_bits (writer, "l1_hit_cells", result.l1_hit, &result);
      write_bits (writer, "l2_hit_cells", result.l2_hit, &result);
      write_bits (writer, "found_cells", result.found, &result);
      lmt_json_writer_key (writer, "l1_hit_count");
      lmt_json_writer_uint (writer, result.n_l1_hit);
      lmt_json_writer_key (writer, "l2_hit_count");
      lmt_json_writer_uint (writer, result.n_l2_hit);
      lmt_json_writer_key (writer, "ready");
      lmt_json_writer_bool (writer, TRUE);
      lmt_json_writer_end_object (writer);
      lmt_json_writer_free (writer);
      g_hash_table_insert (world->results, GUINT_TO_POINTER ((guint)result.request), g_string_free (text, FALSE));
    }
}

static void
submit (World *world, const SmIo *io)
{
  if (io->kind == SM_IO_UNLOCK)
    scripted_unlock (world->adapters[io->adapter], io);
  else
    {
      /* The scripted adapter executes inside submit; the answer comes when the queue is empty. */
      gboolean taken = scripted_submit (world->adapters[io->adapter], io);

      if (taken)
        lmt_sm_accepted (world->sm, world->now, io->id);
      else
        lmt_sm_refused (world->sm, world->now, io->id, LMT_L2_IO);
    }
}

static void
pump (World *world)
{
  SmIo io;

  for (;;)
    {
      while (lmt_sm_take (world->sm, &io))
        submit (world, &io);
      if (world->done->len == 0)
        break;
      scripted_hand_over (world);
    }
  collect_results (world);
}

static void
write_raise (World *world, const char *text)
{
  lmt_json_writer_key (world->scenario->writer, "raises");
  lmt_json_writer_string (world->scenario->writer, text);
}

/* FALSE: a value error, which is written. */
static gboolean
call (World *world, SmCall *request, const GPtrArray *keys, SmResult *result)
{
  if (keys != NULL)
    {
      request->keys = (LmtKey *const *)keys->pdata;
      request->n_keys = keys->len;
    }
  lmt_sm_call (world->sm, world->now, request, result);
  if (result->value_error == NULL)
    return TRUE;
  write_raise (world, result->value_error);
  return FALSE;
}

static void
write_status (World *world, const char *member, const GPtrArray *keys, const SmResult *result)
{
  write_codes (world->scenario, member, (LmtKey *const *)keys->pdata, result->codes, result->n);
}

/* ---- calls ---- */

static void
do_reserve_write (World *world, const LmtJson *step, const GPtrArray *keys)
{
  LmtJsonWriter *writer = world->scenario->writer;
  guint64 bytes = scenario_layout_bytes (world->scenario, member_string (step, "layout", ""));
  SmCall request = { .op = SM_OP_RESERVE_WRITE, .object_bytes = bytes };
  g_autoptr (GPtrArray) reserved = g_ptr_array_new ();
  SmResult result;

  if (!call (world, &request, keys, &result))
    return;
  write_status (world, "status", keys, &result);
  for (guint i = 0; i < keys->len; i++)
    if (result.codes[i] == SM_SUCCESS)
      {
        memset (world->memory + result.addresses[i], pattern_byte (keys->pdata[i]), bytes);
        if (!g_ptr_array_find (reserved, keys->pdata[i], NULL))
          g_ptr_array_add (reserved, keys->pdata[i]);
      }
  write_keys (world->scenario, "reserved", (LmtKey *const *)reserved->pdata, reserved->len);
  lmt_json_writer_key (writer, "sizes");
  lmt_json_writer_begin_object (writer);
  for (guint i = 0; i < reserved->len; i++)
    {
      SmStageView view;

      lmt_json_writer_key (writer, scenario_key_name (world->scenario, reserved->pdata[i]));
      if (lmt_sm_view_stage (world->sm, world->now, reserved->pdata[i], 0, &view))
        lmt_json_writer_uint (writer, view.bytes);
      else
        lmt_json_writer_null (writer);
    }
  lmt_json_writer_end_object (writer);
}

static gboolean
fill_row (World *world, const LmtJson *group, SmRow *row, GPtrArray *lists)
{
  GPtrArray *keys = scenario_keys (world->scenario, lmt_json_get_member (group, "keys"));

  g_ptr_array_add (lists, keys);
  row->keys = (LmtKey *const *)keys->pdata;
  row->n = keys->len;
  row->object_bytes = scenario_layout_bytes (world->scenario, member_string (group, "layout", ""));
  row->window = member_int (group, "sliding_window_size", -1);
  row->group = (guint32)member_int (group, "object_group_id", 0);
  return TRUE;
}

static void
do_submit_prefetch (World *world, const LmtJson *step)
{
  const LmtJson *groups = lmt_json_get_member (step, "key_groups");
  const char *policy = member_string (step, "fetching_policy", "prefix");
  guint n_rows = lmt_json_get_length (groups);
  g_autofree SmRow *rows = g_new0 (SmRow, n_rows + 1);
  g_autoptr (GPtrArray) lists = g_ptr_array_new_with_free_func ((GDestroyNotify)g_ptr_array_unref);
  SmCall request = { .op = SM_OP_PREFETCH, .rows = rows, .n_rows = n_rows, .look_l1 = TRUE };
  gint64 readers = member_int (step, "num_kv_readers", 1);
  SmResult result;

  for (guint r = 0; r < n_rows; r++)
    fill_row (world, lmt_json_get_element (groups, r), &rows[r], lists);
  request.readers = (guint32)MAX (readers, 0);
  request.policy = strcmp (policy, "prefix") == 0 ? SM_POLICY_PREFIX : strcmp (policy, "full") == 0 ? SM_POLICY_FULL : 99;
  request.lock_mode = strcmp (member_string (step, "lock_mode", "LOCK"), "NO_LOCK") == 0 ? SM_NO_LOCK : SM_LOCK;
  request.allow_l2 = !member_bool (step, "skip_l2");
  if (!call (world, &request, NULL, &result))
    return;
  lmt_json_writer_key (world->scenario->writer, "request_id");
  lmt_json_writer_uint (world->scenario->writer, result.request);
  lmt_json_writer_key (world->scenario->writer, "total_requested_keys");
  lmt_json_writer_uint (world->scenario->writer, result.n);
  lmt_json_writer_key (world->scenario->writer, "immediate");
  lmt_json_writer_bool (world->scenario->writer, result.immediate);
  g_hash_table_insert (world->handles, (gpointer)member_string (step, "handle", ""),
                       GUINT_TO_POINTER ((guint)result.request + 1));
}

static char *
steal_result (World *world, const LmtJson *step)
{
  guint number = GPOINTER_TO_UINT (g_hash_table_lookup (world->handles, member_string (step, "handle", "")));
  gpointer text = NULL;

  if (number == 0 || !g_hash_table_steal_extended (world->results, GUINT_TO_POINTER (number - 1), NULL, &text))
    return NULL;
  return text;
}

static void
do_wait_prefetch (World *world, const LmtJson *step)
{
  g_autofree char *text = steal_result (world, step);
  g_autoptr (LmtJson) result = text != NULL ? lmt_json_parse (text, -1, NULL) : NULL;

  if (result == NULL)
    {
      lmt_json_writer_key (world->scenario->writer, "ready");
      lmt_json_writer_bool (world->scenario->writer, FALSE);
      return;
    }
  for (guint i = 0; i < lmt_json_get_length (result); i++)
    {
      lmt_json_writer_key (world->scenario->writer, lmt_json_get_member_name (result, i));
      lmt_json_writer_value (world->scenario->writer, lmt_json_get_member_value (result, i));
    }
}

static void
do_query_prefetch (World *world, const LmtJson *step)
{
  g_autofree char *text = steal_result (world, step);

  lmt_json_writer_key (world->scenario->writer, "result");
  lmt_json_writer_string (world->scenario->writer, text != NULL ? "present" : NULL);
}

static void
do_read_enter (World *world, const LmtJson *step, const GPtrArray *keys)
{
  LmtJsonWriter *writer = world->scenario->writer;
  SmCall request = { .op = SM_OP_READ_ENTER };
  Context *context;
  SmResult result;
  gboolean data_ok = TRUE;

  if (!call (world, &request, keys, &result))
    return;
  write_status (world, "status", keys, &result);
  context = g_new0 (Context, 1);
  context->keys = g_ptr_array_new ();
  context->bad = g_ptr_array_new ();
  context->good = result.good;
  for (guint i = 0; i < keys->len; i++)
    {
      GPtrArray *into = result.codes[i] == SM_SUCCESS ? context->keys : context->bad;
      SmKeyView view;

      if (g_ptr_array_find (into, keys->pdata[i], NULL))
        continue;
      g_ptr_array_add (into, keys->pdata[i]);
      if (result.codes[i] == SM_SUCCESS && lmt_sm_view (world->sm, world->now, keys->pdata[i], &view))
        data_ok &= pattern_matches (world->memory + view.address, view.bytes, keys->pdata[i]);
    }
  lmt_json_writer_key (writer, "objects");
  if (result.good)
    lmt_json_writer_uint (writer, result.n_good);
  else
    lmt_json_writer_null (writer);
  if (result.good)
    {
      lmt_json_writer_key (writer, "data_ok");
      lmt_json_writer_bool (writer, data_ok);
    }
  g_hash_table_insert (world->contexts, (gpointer)member_string (step, "ctx", ""), context);
}

static void
do_read_exit (World *world, const LmtJson *step)
{
  Context *context = g_hash_table_lookup (world->contexts, member_string (step, "ctx", ""));
  SmCall request = { .op = SM_OP_READ_EXIT, .caller_failed = member_bool (step, "caller_failed") };
  gboolean released;
  SmResult result;

  request.enter_bad = !context->good;
  request.bad_keys = (LmtKey *const *)context->bad->pdata;
  request.n_bad_keys = context->bad->len;
  if (!call (world, &request, context->keys, &result))
    return;
  released = request.enter_bad || request.caller_failed;
  write_codes (world->scenario, "released", (LmtKey *const *)context->keys->pdata, result.codes, released ? result.n : 0);
}

static void
do_unsafe_read (World *world, const GPtrArray *keys)
{
  SmCall request = { .op = SM_OP_UNSAFE_READ };
  g_autoptr (GPtrArray) good = g_ptr_array_new ();
  SmResult result;

  if (!call (world, &request, keys, &result))
    return;
  for (guint i = 0; i < keys->len; i++)
    if (result.codes[i] == SM_SUCCESS && !g_ptr_array_find (good, keys->pdata[i], NULL))
      g_ptr_array_add (good, keys->pdata[i]);
  write_keys (world->scenario, "good_keys", (LmtKey *const *)good->pdata, good->len);
}

static void
do_delete (World *world, const LmtJson *step, const GPtrArray *keys)
{
  SmCall request = { .op = SM_OP_DELETE, .force = member_bool (step, "force") };
  SmResult result;

  if (!call (world, &request, keys, &result))
    return;
  write_status (world, "status", keys, &result);
  lmt_json_writer_key (world->scenario->writer, "deleted");
  lmt_json_writer_uint (world->scenario->writer, result.deleted);
  lmt_json_writer_key (world->scenario->writer, "skipped");
  lmt_json_writer_uint (world->scenario->writer, result.skipped);
}

static void
do_with_status (World *world, SmOp op, const LmtJson *step, const GPtrArray *keys)
{
  gint64 locks = member_int (step, "read_locks", 1);
  SmCall request = { .op = op, .readers = (guint32)MAX (locks, 0) };
  SmResult result;

  if (call (world, &request, keys, &result))
    write_status (world, "status", keys, &result);
}

static void
do_plain (World *world, SmOp op, const LmtJson *step, const GPtrArray *keys)
{
  SmCall request = { .op = op, .force = member_bool (step, "force") };
  SmResult result;

  call (world, &request, keys, &result);
}

/* FALSE: it is no call. */
static gboolean
do_call (World *world, const char *op, const LmtJson *step, const GPtrArray *keys)
{
  if (strcmp (op, "reserve_write") == 0)
    do_reserve_write (world, step, keys);
  else if (strcmp (op, "finish_write") == 0)
    do_with_status (world, SM_OP_FINISH_WRITE, step, keys);
  else if (strcmp (op, "submit_prefetch") == 0)
    do_submit_prefetch (world, step);
  else if (strcmp (op, "wait_prefetch") == 0)
    do_wait_prefetch (world, step);
  else if (strcmp (op, "query_prefetch") == 0)
    do_query_prefetch (world, step);
  else if (strcmp (op, "read_enter") == 0)
    do_read_enter (world, step, keys);
  else if (strcmp (op, "read_exit") == 0)
    do_read_exit (world, step);
  else if (strcmp (op, "finish_read_prefetched") == 0)
    do_with_status (world, SM_OP_FINISH_READ, step, keys);
  else if (strcmp (op, "touch_l1_keys") == 0)
    do_plain (world, SM_OP_TOUCH, step, keys);
  else if (strcmp (op, "delete_l1_keys") == 0)
    do_delete (world, step, keys);
  else if (strcmp (op, "clear") == 0)
    do_plain (world, SM_OP_CLEAR, step, keys);
  else if (strcmp (op, "unsafe_read") == 0)
    do_unsafe_read (world, keys);
  else
    return FALSE;
  return TRUE;
}

/* ---- eviction, status ---- */

static void
do_run_l1_eviction (World *world)
{
  g_autoptr (GPtrArray) victims = g_ptr_array_new ();
  g_autoptr (GArray) codes = g_array_new (FALSE, FALSE, 1);
  LmtJsonWriter *writer = world->scenario->writer;
  gboolean triggered;

  lmt_json_writer_key (writer, "used");
  lmt_json_writer_uint (writer, lmt_sm_used_bytes (world->sm));
  lmt_json_writer_key (writer, "total");
  lmt_json_writer_uint (writer, lmt_sm_total_bytes (world->sm));
  lmt_sm_evict_l1 (world->sm, world->now, victims, codes, &triggered);
  lmt_json_writer_key (writer, "triggered");
  lmt_json_writer_bool (writer, triggered);
  write_keys (world->scenario, "victims", (LmtKey *const *)victims->pdata, victims->len);
  write_codes (world->scenario, "status", (LmtKey *const *)victims->pdata, (const guint8 *)codes->data, victims->len);
  lmt_json_writer_key (writer, "thread_alive");
  lmt_json_writer_bool (writer, lmt_sm_get_counters (world->sm)->isolated_l1_dead == 0);
}

static void
do_run_l2_eviction (World *world)
{
  g_autoptr (GPtrArray) victims = g_ptr_array_new ();
  g_autoptr (GArray) decisions = g_array_new (FALSE, FALSE, sizeof (SmL2Decision));
  LmtJsonWriter *writer = world->scenario->writer;

  lmt_sm_evict_l2 (world->sm, world->now, decisions, victims);
  lmt_json_writer_key (writer, "decisions");
  lmt_json_writer_begin_array (writer);
  for (guint i = 0; i < decisions->len; i++)
    {
      const SmL2Decision *decision = &g_array_index (decisions, SmL2Decision, i);

      lmt_json_writer_begin_object (writer);
      lmt_json_writer_key (writer, "adapter");
      lmt_json_writer_uint (writer, decision->adapter);
      lmt_json_writer_key (writer, "cache_salt");
      if (decision->salt >= 0)
        lmt_json_writer_string (writer, lmt_key_table_salt (world->scenario->table, (guint32)decision->salt));
      else
        lmt_json_writer_null (writer);
      lmt_json_writer_key (writer, "ratio");
      lmt_json_writer_double (writer, decision->ratio);
      write_keys (world->scenario, "victims", (LmtKey *const *)victims->pdata + decision->first, decision->n);
      lmt_json_writer_end_object (writer);
    }
  lmt_json_writer_end_array (writer);
  lmt_json_writer_key (writer, "thread_alive");
  lmt_json_writer_bool (writer, TRUE);
}

typedef struct
{
  World *world;
  guint64 objects, write_locked, read_locked, temporary, staged;
} StatusCount;

static void
count_status (LmtKey *key, const SmKeyView *view, gpointer data)
{
  StatusCount *count = data;
  SmStageView stage;

  count->objects += view->resident;
  count->read_locked += view->read_locks > 0;
  count->temporary += view->resident && view->temporary;
  for (guint i = 0; lmt_sm_view_stage (count->world->sm, count->world->now, key, i, &stage); i++)
    {
      count->objects++;
      count->staged++;
      count->write_locked += stage.write_locked;
      count->temporary += stage.temporary;
    }
}

static void
write_number (LmtJsonWriter *writer, const char *member, guint64 value)
{
  lmt_json_writer_key (writer, member);
  lmt_json_writer_uint (writer, value);
}

static void
do_check_status (World *world)
{
  LmtJsonWriter *writer = world->scenario->writer;
  StatusCount count = { world, 0, 0, 0, 0, 0 };
  guint64 used = lmt_sm_used_bytes (world->sm), total = lmt_sm_total_bytes (world->sm);
  guint phases[4] = { 0, 0, 0, 0 };

  lmt_sm_foreach (world->sm, world->now, count_status, &count);
  for (const SmRequest *request = world->sm->running; request != NULL; request = request->next_running)
    phases[request->state]++;
  lmt_json_writer_key (writer, "l1");
  lmt_json_writer_begin_object (writer);
  write_number (writer, "total_object_count", count.objects);
  write_number (writer, "write_locked_count", count.write_locked);
  write_number (writer, "read_locked_count", count.read_locked);
  write_number (writer, "temporary_count", count.temporary);
  write_number (writer, "staging_object_count", count.staged);
  write_number (writer, "staging_bytes", lmt_sm_staging_bytes (world->sm));
  write_number (writer, "memory_used_bytes", used);
  write_number (writer, "memory_total_bytes", total);
  lmt_json_writer_key (writer, "memory_usage_ratio");
  lmt_json_writer_double (writer, total > 0 ? (double)used / (double)total : 0.0);
  lmt_json_writer_end_object (writer);
  lmt_json_writer_key (writer, "store");
  lmt_json_writer_begin_object (writer);
  write_number (writer, "pending_keys_count", world->sm->store_batch.n);
  write_number (writer, "in_flight_task_count", lmt_sm_stores_outstanding (world->sm, G_MAXUINT32));
  write_number (writer, "num_l2_adapters", world->n_adapters);
  lmt_json_writer_end_object (writer);
  lmt_json_writer_key (writer, "prefetch");
  lmt_json_writer_begin_object (writer);
  write_number (writer, "max_in_flight", world->sm->config.prefetch_max_in_flight);
  write_number (writer, "pending_queue_size", world->sm->waiting.n);
  write_number (writer, "in_flight_request_count", world->sm->n_running);
  write_number (writer, "lookup_phase_count", phases[SM_REQUEST_LOOKUP]);
  write_number (writer, "load_phase_count", phases[SM_REQUEST_LOAD]);
  write_number (writer, "completed_results_count", g_hash_table_size (world->results));
  lmt_json_writer_end_object (writer);
  lmt_json_writer_key (writer, "healthy");
  lmt_json_writer_bool (writer, lmt_sm_get_counters (world->sm)->isolated_l1_dead == 0);
}

static void
do_check_l2_policy (World *world)
{
  LmtJsonWriter *writer = world->scenario->writer;

  lmt_json_writer_key (writer, "adapters");
  lmt_json_writer_begin_object (writer);
  for (guint a = 0; a < world->n_adapters; a++)
    {
      g_autofree char *number = g_strdup_printf ("%u", a);
      const LmtEvict *policy = lmt_sm_peek_policy (world->sm, (gint)a);

      if (policy == NULL)
        continue;
      lmt_json_writer_key (writer, number);
      lmt_json_writer_begin_object (writer);
      write_policy (world->scenario, policy);
      lmt_json_writer_end_object (writer);
    }
  lmt_json_writer_end_object (writer);
}

/* ---- waiting: nothing runs by itself here, so what is waited for is there or will never be ---- */

static void
check_held (World *world, const LmtJson *counts, guint kind, const char *where)
{
  for (guint i = 0; counts != NULL && i < lmt_json_get_length (counts); i++)
    {
      guint adapter = (guint)g_ascii_strtoull (lmt_json_get_member_name (counts, i), NULL, 10);
      gint64 wanted = lmt_json_get_int (lmt_json_get_member_value (counts, i));
      guint held = scripted_held (world->adapters[adapter], kind);

      if (held != (guint64)wanted)
        fail (world->scenario, where, "as many held tasks as the step names", "another number");
    }
}

static gint64
salt_of (World *world, const LmtJson *step)
{
  const char *salt = member_string (step, "cache_salt", "");

  return lmt_key_table_intern_salt (world->scenario->table, salt, strlen (salt));
}

/* FALSE: no such op. */
static gboolean
do_machine (World *world, const char *op, const LmtJson *step, const char *where)
{
  LmtJsonWriter *writer = world->scenario->writer;

  if (strcmp (op, "run_l1_eviction") == 0)
    do_run_l1_eviction (world);
  else if (strcmp (op, "run_l2_eviction") == 0)
    do_run_l2_eviction (world);
  else if (strcmp (op, "check_status") == 0)
    do_check_status (world);
  else if (strcmp (op, "check_l1_policy") == 0)
    write_policy (world->scenario, lmt_sm_peek_policy (world->sm, -1));
  else if (strcmp (op, "check_l2_policy") == 0)
    do_check_l2_policy (world);
  else if (strcmp (op, "advance_clock") == 0)
    world->now += (gint64)(member_double (step, "seconds", 0) * 1e9);
  else if (strcmp (op, "wait_store_idle") == 0)
    {
      if (lmt_sm_stores_outstanding (world->sm, G_MAXUINT32) != 0)
        fail (world->scenario, where, "no store in flight", "some");
    }
  else if (strcmp (op, "wait_store_submitted") == 0)
    check_held (world, member_object (step, "held"), SM_IO_STORE, where);
  else if (strcmp (op, "wait_l2_held") == 0)
    check_held (world, member_object (step, "counts"), io_kind_from_text (member_string (step, "kind", "")), where);
  else if (strcmp (op, "set_quota") == 0)
    lmt_sm_set_quota (world->sm, (guint32)salt_of (world, step), member_int (step, "limit_bytes", 0));
  else if (strcmp (op, "delete_quota") == 0)
    {
      lmt_json_writer_key (writer, "removed");
      lmt_json_writer_bool (writer, lmt_sm_delete_quota (world->sm, (guint32)salt_of (world, step)));
    }
  else if (strcmp (op, "close") == 0)
    {
      lmt_sm_close (world->sm, world->now);
      lmt_sm_close (world->sm, world->now); /* twice is no error */
      lmt_sm_abandon (world->sm);
      world->closed = TRUE;
    }
  else
    return FALSE;
  return TRUE;
}

static gboolean
do_adapter (World *world, const char *op, const LmtJson *step, const GPtrArray *keys)
{
  guint number = (guint)member_int (step, "adapter", 0);
  Scripted *adapter;
  LmtKey *const *list = (LmtKey *const *)keys->pdata;

  if (!g_str_has_prefix (op, "l2_"))
    return FALSE;
  g_assert_cmpuint (number, <, world->n_adapters);
  adapter = world->adapters[number];
  if (strcmp (op, "l2_put") == 0)
    scripted_put (adapter, list, keys->len, scenario_layout_bytes (world->scenario, member_string (step, "layout", "")));
  else if (strcmp (op, "l2_delete") == 0)
    scripted_delete (adapter, list, keys->len);
  else if (strcmp (op, "l2_hold") == 0)
    scripted_hold (adapter, io_kind_from_text (member_string (step, "kind", "")));
  else if (strcmp (op, "l2_release") == 0)
    scripted_release (adapter, io_kind_from_text (member_string (step, "kind", "")), member_int (step, "count", -1));
  else if (strcmp (op, "l2_fail_store") == 0)
    scripted_fail_store (adapter, member_bool (step, "on"));
  else if (strcmp (op, "l2_fail_load") == 0)
    scripted_fail_load (adapter, keys);
  else if (strcmp (op, "l2_fail_submit") == 0)
    scripted_fail_submit (adapter, io_kind_from_text (member_string (step, "kind", "")), member_bool (step, "on"));
  else
    return FALSE;
  return TRUE;
}

/* ---- steps ---- */

static void
check_state (World *world, const LmtJson *expected, const char *where)
{
  g_autofree char *place = g_strdup_printf ("%s: state", where);
  g_autoptr (LmtJson) found = NULL;

  found_begin (world->scenario);
  write_state_keys (world->scenario, world->sm, world->now, NULL, NULL);
  if (lmt_json_get_member (expected, "l2") != NULL)
    {
      lmt_json_writer_key (world->scenario->writer, "l2");
      lmt_json_writer_begin_array (world->scenario->writer);
      for (guint a = 0; a < world->n_adapters; a++)
        scripted_write_state (world->adapters[a]);
      lmt_json_writer_end_array (world->scenario->writer);
    }
  found = found_end (world->scenario);
  compare_exactly (world->scenario, place, expected, found);
}

static void
do_step (World *world, const LmtJson *step, const char *where)
{
  Scenario *scenario = world->scenario;
  const char *op = member_string (step, "op", "");
  const LmtJson *expected = step_member (step, "expect"), *state = step_member (step, "state");
  g_autoptr (GPtrArray) keys = scenario_keys (scenario, member_object (step, "keys"));
  g_autoptr (LmtJson) found = NULL;

  found_begin (scenario);
  if (!do_call (world, op, step, keys) && !do_adapter (world, op, step, keys) && !do_machine (world, op, step, where))
    fail (scenario, where, "a known op", op);
  if (!world->closed)
    pump (world);
  found = found_end (scenario);
  if (member_object (expected, "raises") == NULL)
    compare_members (scenario, where, expected, found);
  else if (member_object (found, "raises") == NULL)
    fail (scenario, where, "a value error", "none");
  if (state != NULL && lmt_json_get_type (state) != LMT_JSON_NULL)
    check_state (world, state, where);
  event_log_check (world->log, where, step);
  if (strcmp (op, "l2_put") == 0 || strcmp (op, "l2_delete") == 0)
    g_ptr_array_set_size (world->log->texts, 0); /* behind the manager's back, also in the recordings */
}

/* ---- the world ---- */

static gboolean
read_config (Scenario *scenario, SmConfig *config, SmEviction **l2_eviction)
{
  const LmtJson *json = lmt_json_get_member (scenario->json, "config"), *l1s = lmt_json_get_member (json, "l1"),
                *l2s = lmt_json_get_member (json, "l2"), *l1 = lmt_json_get_element (l1s, 0), *eviction;

  if (lmt_json_get_length (l1s) != 1)
    {
      scenario->skip = g_strdup_printf ("%u L1 managers, one is supported (defect 17)", lmt_json_get_length (l1s));
      return FALSE;
    }
  eviction = lmt_json_get_member (l1, "eviction");
  *config = (SmConfig){ .size_bytes = (guint64)member_int (l1, "size_bytes", 0),
                        .align_bytes = (guint64)member_int (l1, "align_bytes", 4096),
                        .write_ttl_s = (guint32)member_int (l1, "write_ttl_s", 600),
                        .read_ttl_s = (guint32)member_int (l1, "read_ttl_s", 300),
                        .n_l2 = lmt_json_get_length (l2s),
                        .prefetch_max_in_flight = (guint)member_int (json, "prefetch_max_in_flight", 8),
                        .explain_misses = TRUE };
  config->eviction.set = TRUE;
  lmt_evict_kind_from_text (member_string (eviction, "policy", ""), &config->eviction.policy);
  config->eviction.watermark = member_double (eviction, "watermark", 0.8);
  config->eviction.ratio = member_double (eviction, "ratio", 0.2);
  config->store_policy = strcmp (member_string (json, "store_policy", ""), "skip_l1") == 0 ? SM_STORE_SKIP_L1 : SM_STORE_DEFAULT;
  config->prefetch_policy
      = strcmp (member_string (json, "prefetch_policy", ""), "retain") == 0 ? SM_PREFETCH_RETAIN : SM_PREFETCH_DEFAULT;
  *l2_eviction = g_new0 (SmEviction, config->n_l2 + 1);
  for (guint a = 0; a < config->n_l2; a++)
    {
      const LmtJson *e = member_object (lmt_json_get_element (l2s, a), "eviction");
      SmEviction *into = &(*l2_eviction)[a];

      if (e == NULL)
        continue;
      into->set = TRUE;
      lmt_evict_kind_from_text (member_string (e, "policy", ""), &into->policy);
      into->watermark = member_double (e, "watermark", 0.8);
      into->ratio = member_double (e, "ratio", 0.2);
    }
  config->l2_eviction = *l2_eviction;
  return TRUE;
}

void
run_manager (Scenario *scenario)
{
  const LmtJson *steps = lmt_json_get_member (scenario->json, "steps");
  const LmtJson *l2s = lmt_json_get_member (lmt_json_get_member (scenario->json, "config"), "l2");
  World world = { .scenario = scenario };
  g_autofree SmEviction *l2_eviction = NULL;
  SmConfig config;

  if (!read_config (scenario, &config, &l2_eviction))
    return;
  world.sm = lmt_sm_new (&config, scenario->table, NULL);
  world.memory = g_malloc0 (config.size_bytes + 1);
  world.done = g_array_new (FALSE, FALSE, sizeof (Done));
  world.n_adapters = config.n_l2;
  world.adapters = g_new0 (Scripted *, config.n_l2 + 1);
  world.handles = g_hash_table_new (g_str_hash, g_str_equal);
  world.results = g_hash_table_new_full (NULL, NULL, NULL, g_free);
  world.contexts = g_hash_table_new_full (g_str_hash, g_str_equal, NULL, context_free);
  world.log = event_log_new (scenario);
  lmt_sm_set_listener (world.sm, event_log_listen, world.log);
  for (guint a = 0; a < config.n_l2; a++)
    {
      guint64 capacity = (guint64)member_int (lmt_json_get_element (l2s, a), "capacity_bytes", 0);

      world.adapters[a] = scripted_new (&world, a, capacity);
      lmt_sm_set_l2_capacity (world.sm, a, capacity);
    }
  for (guint i = 0; i < lmt_json_get_length (steps); i++)
    {
      const LmtJson *step = lmt_json_get_element (steps, i);
      g_autofree char *where = g_strdup_printf ("step %u %s", i, member_string (step, "op", ""));

      do_step (&world, step, where);
    }
  for (guint a = 0; a < config.n_l2; a++)
    scripted_free (world.adapters[a]);
  lmt_sm_free (world.sm);
  event_log_free (world.log);
  g_hash_table_unref (world.handles);
  g_hash_table_unref (world.results);
  g_hash_table_unref (world.contexts);
  g_array_unref (world.done);
  g_free (world.adapters);
  g_free (world.memory);
}
