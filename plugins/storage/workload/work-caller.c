// SPDX-License-Identifier: Apache-2.0
#include "work-caller.h"

#include <string.h>

#include "../storage-trace.h"

/* ---------------- keys ---------------- */

static guint32
n_rows_of (const WorkShape *shape)
{
  return shape->n_groups * shape->world;
}

static LmtKey **
row_of (const WorkCaller *caller, const WorkShape *shape, guint32 group, guint32 rank)
{
  return caller->keys + (gsize)(group * shape->world + rank) * caller->request.n_all;
}

static void
make_room (WorkCaller *caller, guint n, guint n_rows)
{
  if (caller->rows == NULL)
    caller->rows = g_new0 (SmRow, n_rows);
  if (caller->cap_keys >= n)
    return;
  caller->cap_keys = MAX (n, 2 * caller->cap_keys);
  caller->keys = g_renew (LmtKey *, caller->keys, caller->cap_keys);
  caller->list = g_renew (LmtKey *, caller->list, caller->cap_keys);
  caller->good = g_renew (LmtKey *, caller->good, caller->cap_keys);
  caller->fields = g_renew (LmtKeyFields, caller->fields, caller->cap_keys);
  caller->hit = g_renew (guint8, caller->hit, caller->cap_keys);
}

static void
intern_keys (WorkCaller *caller, const WorkStage *stage)
{
  const WorkShape *shape = stage->shape;
  const WorkRequest *request = &caller->request;
  guint32 model_len = (guint32)strlen (shape->name);
  guint32 salt_len = (guint32)strlen (request->salt);
  guint at = 0;

  for (guint32 group = 0; group < shape->n_groups; group++)
    for (guint32 rank = 0; rank < shape->world; rank++)
      for (guint32 i = 0; i < request->n_all; i++)
        caller->fields[at++] = (LmtKeyFields){ .struct_size = sizeof (LmtKeyFields),
                                               .group = group,
                                               .rank = work_shape_rank (shape, rank),
                                               .hash = request->hashes + (gsize)i * WORK_HASH_BYTES,
                                               .model = shape->name,
                                               .salt = request->salt,
                                               .hash_len = WORK_HASH_BYTES,
                                               .model_len = model_len,
                                               .salt_len = salt_len };
  lmt_key_table_intern_many (stage->session->keys, caller->fields, at, caller->keys);
  caller->n_keys = at;
}

void
work_caller_begin (WorkCaller *caller, const WorkStage *stage, const WorkRequest *request, gint64 now_ns)
{
  guint n = n_rows_of (stage->shape) * request->n_all;

  make_room (caller, MAX (n, 1), n_rows_of (stage->shape));
  caller->request = *request;
  caller->next_ns = now_ns;
  caller->n_hit = 0;
  caller->rank = caller->group = 0;
  intern_keys (caller, stage);
  memset (caller->hit, 0, n);
  caller->step = request->n_prompt > 0 ? WORK_PREFETCH : WORK_RESERVE;
  stage->figures->requests++;
  if (request->n_all == 0)
    {
      stage->figures->requests_without_chunk++;
      caller->step = WORK_DONE;
    }
}

void
work_caller_end (WorkCaller *caller, const WorkStage *stage)
{
  for (guint i = 0; i < caller->n_keys; i++)
    lmt_key_unref (stage->session->keys, caller->keys[i]);
  caller->n_keys = 0;
  caller->step = WORK_IDLE;
}

void
work_caller_clear (WorkCaller *caller)
{
  g_free (caller->keys);
  g_free (caller->list);
  g_free (caller->good);
  g_free (caller->fields);
  g_free (caller->hit);
  g_free (caller->rows);
}

/* ---------------- calls ---------------- */

/* @recorded: what the trace is told: the same call but for the end of a read that failed. */
static gboolean
call (const WorkStage *stage, const SmCall *recorded, const SmCall *call, SmResult *result, gint64 now_ns)
{
  SmDriver *driver = stage->session->driver;
  gint64 start_ns;
  gint64 end_ns;

  stage->session->trace_ns = MAX (stage->session->trace_ns, now_ns);
  sm_driver_before (driver, now_ns, call);
  sm_trace_call (recorded);
  sm_driver_call (driver, call, result, &start_ns, &end_ns);
  stage->figures->calls++;
  if (result->value_error == NULL)
    return TRUE;
  if (stage->figures->failed++ == 0)
    stage->figures->first_failure = result->value_error;
  return FALSE;
}

static SmCall
list_call (const WorkCaller *caller, guint32 op)
{
  return (SmCall){ .op = op, .keys = caller->list, .n_keys = caller->n_list, .readers = 1, .look_l1 = TRUE, .allow_l2 = TRUE };
}

static LmtSpan
id_span (const WorkCaller *caller)
{
  return (LmtSpan){ (const guint8 *)caller->request.id, strlen (caller->request.id) };
}

static void
fill_rows (WorkCaller *caller, const WorkShape *shape)
{
  guint at = 0;

  for (guint32 group = 0; group < shape->n_groups; group++)
    for (guint32 rank = 0; rank < shape->world; rank++)
      caller->rows[at++] = (SmRow){ .keys = row_of (caller, shape, group, rank),
                                    .object_bytes = shape->groups[group].object_bytes,
                                    .window = shape->groups[group].window_chunks,
                                    .n = caller->request.n_prompt,
                                    .group = group,
                                    .layout = lmt_pack_span (&shape->groups[group].layout) };
}

/* What was hit on this rank, group by group. FALSE: nothing. */
static gboolean
list_hits (WorkCaller *caller, const WorkShape *shape)
{
  guint32 n = caller->request.n_prompt;

  caller->n_list = 0;
  for (guint32 group = 0; group < shape->n_groups; group++)
    {
      LmtKey **row = row_of (caller, shape, group, caller->rank);
      const guint8 *hit = caller->hit + (gsize)(group * shape->world + caller->rank) * n;

      for (guint32 i = 0; i < n; i++)
        if (hit[i] != 0)
          caller->list[caller->n_list++] = row[i];
    }
  return caller->n_list > 0;
}

/* The next rank that has something to read, else on to writing. */
static void
go_reading (WorkCaller *caller, const WorkShape *shape)
{
  for (; caller->rank < shape->world; caller->rank++)
    if (list_hits (caller, shape))
      {
        caller->step = WORK_ENTER;
        return;
      }
  caller->rank = caller->group = 0;
  caller->step = caller->n_hit < caller->request.n_all ? WORK_RESERVE : WORK_DONE;
}

static void
go_writing (WorkCaller *caller, const WorkShape *shape)
{
  if (++caller->group == shape->n_groups)
    {
      caller->group = 0;
      caller->rank++;
    }
  caller->step = caller->rank < shape->world ? WORK_RESERVE : WORK_DONE;
}

static void
prefetch (WorkCaller *caller, const WorkStage *stage, gint64 now_ns)
{
  SmCall one = { .op = SM_OP_PREFETCH, .readers = 1, .look_l1 = TRUE, .allow_l2 = TRUE, .request_id = id_span (caller) };
  SmResult result;

  fill_rows (caller, stage->shape);
  one.rows = caller->rows;
  one.n_rows = n_rows_of (stage->shape);
  caller->step = WORK_WAIT;
  if (!call (stage, &one, &one, &result, now_ns))
    {
      caller->step = WORK_DONE;
      return;
    }
  caller->prefetch = result.request;
  stage->figures->chunks_asked += caller->request.n_prompt;
  sm_driver_after (stage->session->driver); /* may hand over the result */
}

void
work_caller_result (WorkCaller *caller, const WorkStage *stage, const SmPrefetchResult *result)
{
  memcpy (caller->hit, result->hit, (gsize)result->n_rows * result->n_columns);
  caller->n_hit = result->hit_length;
  stage->figures->chunks_hit += result->hit_length;
  caller->rank = 0;
  go_reading (caller, stage->shape);
}

/* On real time a lock may have run out, or memory been short for one of the ranks: then nothing was read, and the end of the
 * context gives back what was locked. */
static void
note_bad_enter (WorkCaller *caller, const WorkStage *stage, const SmResult *result)
{
  caller->n_good = 0;
  for (guint i = 0; i < result->n; i++)
    if (result->codes[i] == SM_SUCCESS)
      caller->good[caller->n_good++] = caller->list[i];
  storage_count_anomaly (stage->session, STORAGE_ANOMALY_READ_OF_UNAVAILABLE_OBJECT, 1, stage->figures->calls);
}

static void
enter (WorkCaller *caller, const WorkStage *stage, gint64 now_ns)
{
  SmCall one = list_call (caller, SM_OP_READ_ENTER);
  SmResult result;

  caller->step = WORK_EXIT;
  if (!call (stage, &one, &one, &result, now_ns))
    caller->step = WORK_DONE;
  else
    {
      caller->enter_good = result.good;
      if (!result.good)
        note_bad_enter (caller, stage, &result);
    }
  sm_driver_after (stage->session->driver);
}

static void
next_rank (WorkCaller *caller, const WorkStage *stage)
{
  caller->rank++;
  go_reading (caller, stage->shape);
}

static void
leave (WorkCaller *caller, const WorkStage *stage, gint64 now_ns)
{
  SmCall recorded = list_call (caller, SM_OP_READ_EXIT);
  SmCall one = recorded;
  SmResult result;

  if (!caller->enter_good)
    {
      one.enter_bad = TRUE;
      one.keys = caller->good;
      one.n_keys = caller->n_good;
    }
  call (stage, &recorded, &one, &result, now_ns);
  sm_driver_after (stage->session->driver);
  caller->step = WORK_FINISH_READ;
  if (!caller->enter_good)
    next_rank (caller, stage);
}

static void
finish_read (WorkCaller *caller, const WorkStage *stage, gint64 now_ns)
{
  SmCall one = list_call (caller, SM_OP_FINISH_READ);
  SmResult result;

  call (stage, &one, &one, &result, now_ns);
  sm_driver_after (stage->session->driver);
  next_rank (caller, stage);
}

static void
reserve (WorkCaller *caller, const WorkStage *stage, gint64 now_ns)
{
  const WorkGroup *group = &stage->shape->groups[caller->group];
  SmCall one = { .op = SM_OP_RESERVE_WRITE, .object_bytes = group->object_bytes, .layout = lmt_pack_span (&group->layout) };
  SmResult result;
  guint n = 0;

  one.keys = row_of (caller, stage->shape, caller->group, caller->rank) + caller->n_hit;
  one.n_keys = caller->request.n_all - caller->n_hit;
  if (call (stage, &one, &one, &result, now_ns))
    {
      gboolean no_memory = FALSE;

      for (guint i = 0; i < result.n; i++)
        {
          no_memory |= result.codes[i] == SM_OUT_OF_MEMORY;
          if (result.codes[i] == SM_SUCCESS)
            caller->list[n++] = one.keys[i];
        }
      storage_count_anomaly (stage->session, STORAGE_ANOMALY_ALLOCATION_FAILED, no_memory, stage->figures->calls);
      if (stage->session->fill)
        storage_fill_buffers (stage->session, &one, &result);
    }
  sm_driver_after (stage->session->driver);
  caller->n_list = n;
  if (n > 0)
    caller->step = WORK_FINISH_WRITE;
  else
    go_writing (caller, stage->shape);
}

static void
finish_write (WorkCaller *caller, const WorkStage *stage, gint64 now_ns)
{
  SmCall one = list_call (caller, SM_OP_FINISH_WRITE);
  SmResult result;

  call (stage, &one, &one, &result, now_ns);
  sm_driver_after (stage->session->driver);
  go_writing (caller, stage->shape);
}

void
work_caller_step (WorkCaller *caller, const WorkStage *stage, gint64 now_ns)
{
  switch (caller->step)
    {
    case WORK_PREFETCH:
      prefetch (caller, stage, now_ns);
      break;
    case WORK_ENTER:
      enter (caller, stage, now_ns);
      break;
    case WORK_EXIT:
      leave (caller, stage, now_ns);
      break;
    case WORK_FINISH_READ:
      finish_read (caller, stage, now_ns);
      break;
    case WORK_RESERVE:
      reserve (caller, stage, now_ns);
      break;
    case WORK_FINISH_WRITE:
      finish_write (caller, stage, now_ns);
      break;
    default:
      break;
    }
}
