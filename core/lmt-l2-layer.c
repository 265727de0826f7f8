/* SPDX-License-Identifier: Apache-2.0 */
#include "lmt-l2-private.h"

#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/*
 * How a task flows. submit: repeated keys and stores without room are decided, the rest waits in FIFO. issue: each operation
 * takes its key (readers shared, writers alone; who must wait stands in the key's own FIFO) and a slot, and goes to the plugin.
 * When the last operation of a task is back it stands in `done`, and nothing has changed yet: usage, presence, locks and events
 * change when the task is handed over, and only then its keys are free. So the plugin's speed decides nothing but time, and since
 * a task takes all its keys before a later one takes its first, waiting goes from later to earlier tasks only: no circle.
 */
static void issue (LmtL2 *l2);

/* -------- figures -------- */

static inline void
account (LmtL2 *l2)
{
  if (l2->in_flight > 0 && l2->now > l2->last_account)
    {
      l2->depth_area += (double)l2->in_flight * (double)(l2->now - l2->last_account);
      l2->figures.busy_ns += l2->now - l2->last_account;
    }
  l2->last_account = l2->now;
}

static inline void
set_in_flight (LmtL2 *l2, guint32 n)
{
  account (l2);
  l2->in_flight = n;
}

/* -------- end of an operation, end of a task -------- */

static void
task_done (LmtL2 *l2, LmtL2Task *task)
{
  task->done_ns = l2->now;
  task->next = NULL;
  task->prev = l2->done_tail;
  if (l2->done_tail != NULL)
    l2->done_tail->next = task;
  else
    l2->done_head = task;
  l2->done_tail = task;
  if (G_UNLIKELY (l2->event_fds[task->kind] >= 0))
    {
      const guint64 one = 1;
      while (write (l2->event_fds[task->kind], &one, sizeof one) < 0 && errno == EINTR)
        ;
    }
}

static inline void
op_done (LmtL2 *l2, LmtL2Task *task, guint32 index, guint raw)
{
  task->codes[index] = (guint8)raw;
  l2->figures.ops[task->kind]++;
  l2->figures.codes[task->kind][raw & OP_CODE]++;
  if (--task->left == 0 && task->next_op >= task->n)
    task_done (l2, task);
}

/* A size that isn't the wanted one: never a cut object, never bytes past the buffer. */
static guint
wrong_size (LmtL2 *l2, LmtKey *key, const char *what, guint64 expected, guint64 found)
{
  lmt_l2_say (l2, "wrong size", "%s: %s: %s: expected %" G_GUINT64_FORMAT " bytes, found %" G_GUINT64_FORMAT, l2->ops->name,
              lmt_key_wire (key), what, expected, found);
  return LMT_L2_DATA;
}

static guint
checked_code (LmtL2 *l2, LmtL2Task *task, guint32 index, const LmtL2Io *io)
{
  guint code = io->code;
  if (G_UNLIKELY (code >= LMT_L2_N_CODES || (code == LMT_L2_PRESENT && task->kind != LMT_L2_STORE)))
    {
      l2->figures.protocol_errors++;
      lmt_l2_say (l2, "protocol", "%s: io %u (%s): expected a result code, found %u", l2->ops->name, io->id,
                  lmt_l2_kind_name (task->kind), code);
      return LMT_L2_IO;
    }
  if (code != LMT_L2_OK)
    return code;
  LmtKey *key = task->keys[index];
  guint64 size = task->sizes != NULL ? task->sizes[index] : 0;
  switch (task->kind)
    {
    case LMT_L2_STORE:
      if (G_UNLIKELY (io->done_bytes != size))
        return wrong_size (l2, key, "stored", size, io->done_bytes);
      l2->figures.bytes[LMT_L2_STORE] += size;
      break;
    case LMT_L2_LOAD:
      if (G_UNLIKELY (io->object_bytes != size))
        return wrong_size (l2, key, "object", size, io->object_bytes);
      if (G_UNLIKELY (io->done_bytes != size))
        return wrong_size (l2, key, "loaded", size, io->done_bytes);
      l2->figures.bytes[LMT_L2_LOAD] += size;
      break;
    case LMT_L2_LOOKUP:
      if (G_UNLIKELY (size != 0 && io->object_bytes != 0 && io->object_bytes != size))
        return wrong_size (l2, key, "object", size, io->object_bytes);
      break;
    default:
      break;
    }
  return code;
}

static inline void
free_slot_last (LmtL2 *l2, guint32 slot)
{
  guint32 at = l2->free_head + l2->n_free;
  l2->free_slots[at >= l2->n_slots ? at - l2->n_slots : at] = slot;
  l2->n_free++;
}

/* The io is back, out of submit (@in_submit) or out of reap. */
static void
io_done (LmtL2 *l2, guint32 slot_index, gboolean in_submit)
{
  LmtL2Slot *slot = &l2->slots[slot_index];
  LmtL2Io *io = &l2->ios[slot_index];
  LmtL2Task *task = slot->task;
  slot->with_plugin = FALSE;
  if (!in_submit)
    set_in_flight (l2, l2->in_flight - 1);
  if (G_UNLIKELY (slot->overdue && io->code == LMT_L2_CLOSED))
    io->code = LMT_L2_TIMEOUT; /* cancelled by us, and not because of a close */
  if (G_UNLIKELY (io->code == LMT_L2_BUSY && slot->tries < 3 && !slot->overdue && !l2->closed))
    {
      /* The plugin ran out of something (descriptors, say) with the io in hand: fewer at a time, and once more. */
      slot->tries++;
      l2->depth = MAX (l2->depth / 2, 1);
      l2->retry[l2->n_retry++] = slot_index;
      return;
    }
  gint64 start = MAX (slot->submit_ns, MIN (io->service_start_ns, l2->now));
  if (in_submit)
    l2->done_n[task->kind]++;
  else
    lmt_stats_add (l2->figures.service[task->kind], l2->now - start);
  lmt_stats_add (l2->figures.queue[task->kind], start - task->submit_ns);
  lmt_stats_add (l2->figures.completion[task->kind], l2->now - task->submit_ns);
  if (G_UNLIKELY (l2->observe != NULL))
    l2->observe (l2->observe_data, io, slot->submit_ns, l2->now);
  guint raw = checked_code (l2, task, slot->index, io) | OP_HOLDS;
  switch (raw & OP_CODE)
    {
    case LMT_L2_IO:
    case LMT_L2_TIMEOUT:
    case LMT_L2_NO_SPACE:
      l2->figures.failures++;
      break;
    case LMT_L2_DENIED: /* without an errno the configuration said so, as `read_only` does */
      l2->figures.failures += io->os_error != 0;
      break;
    default:
      break;
    }
  if (task->kind == LMT_L2_STORE)
    raw |= OP_COUNTED;
  /* What was done inside submit can't come back again, so its slot stays the warm one. */
  if (in_submit)
    {
      l2->free_head = l2->free_head == 0 ? l2->n_slots - 1 : l2->free_head - 1;
      l2->free_slots[l2->free_head] = slot_index;
      l2->n_free++;
    }
  else
    free_slot_last (l2, slot_index);
  op_done (l2, task, slot->index, raw);
}

/* -------- issue -------- */

typedef enum
{
  STARTED,
  NO_SLOT,
} Start;

static inline gboolean
can_go (const LmtL2KeyState *state, guint32 kind)
{
  if (state->writer != WRITER_NONE)
    return FALSE;
  return kind == LMT_L2_LOAD || kind == LMT_L2_LOOKUP || state->readers == 0;
}

static inline void
take_key (LmtL2KeyState *state, guint32 kind)
{
  if (kind == LMT_L2_STORE)
    state->writer = WRITER_STORE;
  else if (kind == LMT_L2_DELETE)
    state->writer = WRITER_DELETE;
  else
    state->readers++;
}

static inline void
give (LmtL2 *l2, guint32 slot_index, guint32 *result)
{
  LmtL2Slot *slot = &l2->slots[slot_index];
  slot->with_plugin = TRUE;
  slot->submit_ns = l2->now;
  if (G_UNLIKELY (l2->io_timeout_ns != 0))
    {
      l2->ios[slot_index].deadline_ns = l2->now + l2->io_timeout_ns;
      l2->next_deadline = MIN (l2->next_deadline, l2->now + l2->io_timeout_ns);
    }
  set_in_flight (l2, l2->in_flight + 1);
  l2->figures.depth_max = MAX (l2->figures.depth_max, l2->in_flight);
  *result = l2->ops->submit (l2->handle, &l2->ios[slot_index]);
  if (*result == LMT_L2_SUBMIT_QUEUED)
    {
      l2->dirty = TRUE;
      return;
    }
  slot->with_plugin = FALSE;
  l2->in_flight--; /* the same instant for the figures */
  if (*result != LMT_L2_SUBMIT_DONE)
    l2->blocked = TRUE;
}

/* As a plugin finds them at each submit. */
static void
clear_result (LmtL2Io *io)
{
  io->code = LMT_L2_IO;
  io->os_error = 0;
  io->done_bytes = 0;
  io->object_bytes = 0;
  io->service_start_ns = 0;
  memset (io->plugin, 0, sizeof io->plugin);
}

static void
fill_io (LmtL2 *l2, guint32 slot_index, LmtL2Task *task, guint32 index)
{
  LmtKey *key = task->keys[index];
  LmtL2Key *io_key = &l2->io_keys[slot_index];
  LmtL2Slot *slot = &l2->slots[slot_index];
  LmtL2Io *io = &l2->ios[slot_index];
  io_key->fields = key->fields;
  io_key->hash64 = key->hash64;
  if (l2->wire)
    {
      io_key->wire = lmt_key_wire (key);
      io_key->wire_len = lmt_key_wire_len (key);
    }
  if (l2->file)
    {
      io_key->file = lmt_key_file (key);
      io_key->file_len = lmt_key_file_len (key);
    }
  if (G_UNLIKELY (++l2->last_io_id == 0))
    l2->last_io_id = 1;
  slot->task = task;
  slot->index = index;
  slot->id = l2->last_io_id;
  slot->kind = (guint8)task->kind;
  slot->tries = 0;
  slot->overdue = FALSE;
  slot->known_message = FALSE;
  guint64 size = task->sizes != NULL ? task->sizes[index] : 0;
  gboolean moves = task->kind == LMT_L2_STORE || task->kind == LMT_L2_LOAD;
  io->struct_size = sizeof *io;
  io->kind = task->kind;
  io->id = slot->id;
  io->task = task->id;
  io->index = index;
  io->count = task->n;
  io->key = io_key;
  io->buffer = moves && task->buffers != NULL ? task->buffers[index] : NULL;
  io->buffer_bytes = moves ? size : 0;
  io->region = -1;
  if (io->buffer != NULL && l2->params.memory != NULL)
    {
      guintptr at = (guintptr)io->buffer, base = (guintptr)l2->params.memory;
      if (at >= base && at - base < l2->params.memory_bytes)
        io->region = 0;
    }
  io->expected_bytes = task->kind == LMT_L2_LOOKUP ? size : 0;
  io->deadline_ns = 0;
  clear_result (io);
}

/* The key is free for it. Decides what needs no plugin, else takes a slot. */
static Start
start_op (LmtL2 *l2, LmtL2Task *task, guint32 index, LmtL2KeyState *state)
{
  guint32 kind = task->kind;
  if (kind == LMT_L2_DELETE && state->locks > 0)
    {
      op_done (l2, task, index, LMT_L2_LOCKED);
      return STARTED;
    }
  if (kind == LMT_L2_STORE && G_UNLIKELY (!lmt_l2_reserve (l2, state, task->sizes[index])))
    {
      op_done (l2, task, index, LMT_L2_NO_SPACE | OP_COUNTED);
      return STARTED;
    }
  if (l2->n_free == 0 || l2->in_flight >= l2->depth || l2->blocked)
    return NO_SLOT;
  guint32 slot_index = l2->free_slots[l2->free_head];
  l2->free_head = l2->free_head + 1 == l2->n_slots ? 0 : l2->free_head + 1;
  l2->n_free--;
  fill_io (l2, slot_index, task, index);
  guint32 result;
  give (l2, slot_index, &result);
  if (G_UNLIKELY (result != LMT_L2_SUBMIT_QUEUED && result != LMT_L2_SUBMIT_DONE))
    {
      l2->free_head = l2->free_head == 0 ? l2->n_slots - 1 : l2->free_head - 1;
      l2->free_slots[l2->free_head] = slot_index;
      l2->n_free++;
      return NO_SLOT;
    }
  state->just_stored = FALSE;
  take_key (state, kind);
  if (result == LMT_L2_SUBMIT_DONE)
    io_done (l2, slot_index, TRUE);
  return STARTED;
}

static void
park (LmtL2 *l2, LmtL2Task *task, guint32 index, LmtL2KeyState *state)
{
  if (l2->waiters_free == 0)
    {
      guint32 n = MAX (l2->n_waiters * 2, 64);
      l2->waiters = g_renew (LmtL2Waiter, l2->waiters, n);
      for (guint32 i = n; i > l2->n_waiters; i--)
        {
          l2->waiters[i - 1].next = l2->waiters_free;
          l2->waiters_free = i;
        }
      /* No more keys can be ready than operations wait. */
      guint32 *ready = g_new (guint32, n);
      for (guint32 i = 0; i < l2->ready_n; i++)
        ready[i] = l2->ready[(l2->ready_head + i) % l2->ready_size];
      g_free (l2->ready);
      l2->ready = ready;
      l2->ready_head = 0;
      l2->ready_size = n;
      l2->n_waiters = n;
    }
  guint32 at = l2->waiters_free;
  LmtL2Waiter *waiter = &l2->waiters[at - 1];
  l2->waiters_free = waiter->next;
  *waiter = (LmtL2Waiter){ .task = task, .index = index, .next = 0 };
  if (state->wait_tail != 0)
    l2->waiters[state->wait_tail - 1].next = at;
  else
    state->wait_head = at;
  state->wait_tail = at;
}

static void
unpark_head (LmtL2 *l2, LmtL2KeyState *state)
{
  guint32 at = state->wait_head;
  LmtL2Waiter *waiter = &l2->waiters[at - 1];
  state->wait_head = waiter->next;
  if (state->wait_head == 0)
    state->wait_tail = 0;
  waiter->next = l2->waiters_free;
  l2->waiters_free = at;
}

/* FALSE: no slot for the first that could go. */
static gboolean
wake (LmtL2 *l2, LmtL2KeyState *state)
{
  while (state->wait_head != 0)
    {
      LmtL2Waiter waiter = l2->waiters[state->wait_head - 1];
      LmtL2Task *task = waiter.task;
      if (!can_go (state, task->kind))
        return TRUE;
      if (task->kind == LMT_L2_STORE && state->just_stored && state->bytes == task->sizes[waiter.index])
        {
          unpark_head (l2, state);
          op_done (l2, task, waiter.index, LMT_L2_PRESENT | OP_COUNTED);
          continue;
        }
      if (start_op (l2, task, waiter.index, state) == NO_SLOT)
        return FALSE;
      unpark_head (l2, state);
    }
  return TRUE;
}

static gboolean
issue_task (LmtL2 *l2, LmtL2Task *task)
{
  while (task->next_op < task->n)
    {
      guint32 i = task->next_op;
      if (task->codes[i] == OP_TODO)
        {
          LmtL2KeyState *state = lmt_l2_state (l2, task->keys[i]);
          if (G_UNLIKELY (state->wait_head != 0 || !can_go (state, task->kind)))
            park (l2, task, i, state);
          else if (start_op (l2, task, i, state) == NO_SLOT)
            return FALSE;
        }
      task->next_op = i + 1;
    }
  return TRUE;
}

static void
issue (LmtL2 *l2)
{
  while (l2->n_retry > 0 && l2->in_flight < l2->depth && !l2->blocked)
    {
      guint32 slot_index = l2->retry[0], result;
      clear_result (&l2->ios[slot_index]);
      give (l2, slot_index, &result);
      if (l2->blocked)
        return;
      memmove (l2->retry, l2->retry + 1, --l2->n_retry * sizeof *l2->retry);
      if (result == LMT_L2_SUBMIT_DONE)
        io_done (l2, slot_index, TRUE);
    }
  while (l2->ready_n > 0)
    {
      LmtL2KeyState *state = &l2->states[l2->ready[l2->ready_head]];
      if (!wake (l2, state))
        return;
      state->ready = FALSE;
      l2->ready_head = (l2->ready_head + 1) % l2->ready_size;
      l2->ready_n--;
    }
  while (l2->pending_head != NULL)
    {
      LmtL2Task *task = l2->pending_head;
      if (!issue_task (l2, task))
        return;
      l2->pending_head = task->next;
      if (l2->pending_head == NULL)
        l2->pending_tail = NULL;
      task->next = NULL;
      if (task->left == 0)
        task_done (l2, task);
    }
}

/* issue() between two readings of the clock, for what was done inside submit. */
static void
issue_burst (LmtL2 *l2)
{
  LmtL2Task *last = l2->done_tail;
  gint64 start = l2->now;
  issue (l2);
  guint32 n = 0;
  for (guint kind = 0; kind < LMT_L2_N_KINDS; kind++)
    n += l2->done_n[kind];
  if (n > 0)
    {
      l2->now = lmt_clock_now (l2->params.clock);
      gint64 each = (l2->now - start) / n;
      for (guint kind = 0; kind < LMT_L2_N_KINDS; kind++)
        if (l2->done_n[kind] > 0)
          {
            lmt_stats_add_many (l2->figures.service[kind], each, l2->done_n[kind]);
            l2->done_n[kind] = 0;
          }
    }
  for (LmtL2Task *task = last != NULL ? last->next : l2->done_head; task != NULL; task = task->next)
    task->done_ns = l2->now;
}

/* -------- submit -------- */

static void
grow_events (LmtL2 *l2, guint32 n)
{
  l2->event_size = MAX (MAX (l2->event_size * 2, 64), n);
  l2->event_keys = g_renew (LmtKey *, l2->event_keys, l2->event_size);
  l2->event_sizes = g_renew (guint64, l2->event_sizes, l2->event_size);
}

static LmtL2Code
acceptable (LmtL2 *l2, const LmtL2Task *task)
{
  if (l2->closed)
    return LMT_L2_CLOSED;
  if (task->kind >= LMT_L2_N_KINDS)
    return LMT_L2_UNSUPPORTED;
  if (task->n == 0)
    return LMT_L2_OK;
  gboolean moves = task->kind == LMT_L2_STORE || task->kind == LMT_L2_LOAD;
  if (task->keys == NULL || task->codes == NULL || (moves && task->sizes == NULL) || (moves && l2->data && task->buffers == NULL))
    return LMT_L2_DATA;
  return LMT_L2_OK;
}

/* What can be said before anything is asked: repeated keys, stores without room, deletes nobody can do. The rest is to do. */
static void
decide_ops (LmtL2 *l2, LmtL2Task *task)
{
  guint64 mark = ++l2->mark;
  for (guint32 i = 0; i < task->n; i++)
    {
      LmtL2KeyState *state = lmt_l2_state (l2, task->keys[i]);
      if (state->mark == mark)
        {
          task->codes[i] = OP_REPEATED;
          continue;
        }
      state->mark = mark;
      guint code = OP_TODO;
      if (task->kind == LMT_L2_STORE)
        {
          if (lmt_l2_reserve (l2, state, task->sizes[i]))
            state->stores++;
          else
            code = LMT_L2_NO_SPACE;
        }
      else if (task->kind == LMT_L2_DELETE && (l2->info.capabilities & LMT_L2_CAP_DELETE) == 0)
        code = LMT_L2_UNSUPPORTED;
      task->codes[i] = (guint8)code;
      if (code == OP_TODO)
        task->left++;
      else
        {
          l2->figures.ops[task->kind]++;
          l2->figures.codes[task->kind][code]++;
        }
    }
}

gboolean
lmt_l2_submit (LmtL2 *l2, LmtL2Task *task, LmtL2Code *refused)
{
  LmtL2Code why = acceptable (l2, task);
  if (G_UNLIKELY (why != LMT_L2_OK))
    {
      if (refused != NULL)
        *refused = why;
      return FALSE;
    }
  l2->now = lmt_clock_now (l2->params.clock);
  task->id = l2->next_task_id++;
  task->bytes = 0;
  task->n_ok = 0;
  task->submit_ns = l2->now;
  task->next_op = 0;
  task->left = 0;
  task->next = task->prev = NULL;
  l2->n_outstanding++;
  if (G_UNLIKELY (task->n > l2->event_size))
    grow_events (l2, task->n);
  decide_ops (l2, task);
  if (task->left == 0)
    {
      task->next_op = task->n;
      task_done (l2, task);
      return TRUE;
    }
  if (l2->pending_tail != NULL)
    l2->pending_tail->next = task;
  else
    l2->pending_head = task;
  l2->pending_tail = task;
  issue_burst (l2);
  lmt_l2_speak_if_any (l2);
  return TRUE;
}

void
lmt_l2_flush (LmtL2 *l2)
{
  if (!l2->dirty || l2->handle == NULL)
    return;
  l2->dirty = FALSE;
  if (l2->ops->flush != NULL)
    l2->ops->flush (l2->handle);
}

/* -------- hand-over -------- */

static void
unlink_done (LmtL2 *l2, LmtL2Task *task)
{
  if (task->prev != NULL)
    task->prev->next = task->next;
  else
    l2->done_head = task->next;
  if (task->next != NULL)
    task->next->prev = task->prev;
  else
    l2->done_tail = task->prev;
  task->next = task->prev = NULL;
}

static void
hand_over (LmtL2 *l2, LmtL2Task *task)
{
  unlink_done (l2, task);
  l2->n_outstanding--;
  if (task->next_op == G_MAXUINT32)
    return;
  lmt_l2_apply (l2, task);
  if (G_UNLIKELY (l2->ready_n > 0))
    {
      l2->now = lmt_clock_now (l2->params.clock);
      issue_burst (l2);
      lmt_l2_flush (l2);
    }
}

/* For close: lets what waits behind finished tasks go on, without the caller. */
void
lmt_l2_apply_done (LmtL2 *l2)
{
  for (LmtL2Task *task = l2->done_head; task != NULL; task = task->next)
    if (task->next_op != G_MAXUINT32)
      lmt_l2_apply (l2, task);
}

/* -------- reap -------- */

static void
refuse_io (LmtL2 *l2, LmtL2Io *io, gboolean ours, guint32 slot_index)
{
  l2->figures.protocol_errors++;
  if (!ours)
    {
      lmt_l2_say (l2, "protocol", "%s: an io was handed back that was never submitted", l2->ops->name);
      return;
    }
  LmtL2Slot *slot = &l2->slots[slot_index];
  if (slot->known_message)
    return;
  slot->known_message = TRUE;
  if (slot->id == 0)
    lmt_l2_say (l2, "protocol", "%s: an io was handed back that was never submitted", l2->ops->name);
  else
    lmt_l2_say (l2, "protocol", "%s: io %u (%s): handed back twice", l2->ops->name, slot->id, lmt_l2_kind_name (slot->kind));
}

static gboolean
reap_plugin (LmtL2 *l2)
{
  LmtL2Io *ios[64];
  gboolean any = FALSE;
  guint32 n;
  do
    {
      n = l2->ops->reap (l2->handle, ios, G_N_ELEMENTS (ios));
      if (n == 0)
        break;
      if (!any)
        l2->now = lmt_clock_now (l2->params.clock);
      any = TRUE;
      l2->blocked = FALSE;
      for (guint32 i = 0; i < MIN (n, G_N_ELEMENTS (ios)); i++)
        {
          /* The address alone is looked at until it is known to be a slot the plugin has. */
          guintptr at = (guintptr)ios[i] - (guintptr)l2->ios;
          gboolean ours = ios[i] >= l2->ios && at < l2->n_slots * sizeof (LmtL2Io) && at % sizeof (LmtL2Io) == 0;
          guint32 slot_index = (guint32)(at / sizeof (LmtL2Io));
          if (G_LIKELY (ours && l2->slots[slot_index].with_plugin))
            io_done (l2, slot_index, FALSE);
          else
            refuse_io (l2, ios[i], ours, slot_index);
        }
    }
  while (n >= G_N_ELEMENTS (ios));
  return any;
}

static inline gboolean
has_work (const LmtL2 *l2)
{
  return l2->pending_head != NULL || l2->ready_n > 0 || l2->n_retry > 0;
}

/* What the plugin has kept for too long is asked back. It comes as TIMEOUT when it comes: until then its buffer may be touched,
 * so its task waits. */
static gboolean
cancel_overdue (LmtL2 *l2)
{
  gint64 now = lmt_clock_now (l2->params.clock), next = G_MAXINT64;
  gboolean any = FALSE;
  if (now < l2->next_deadline)
    return FALSE;
  for (guint32 i = 0; i < l2->n_slots; i++)
    {
      LmtL2Slot *slot = &l2->slots[i];
      if (!slot->with_plugin || slot->overdue)
        continue;
      if (slot->submit_ns + l2->io_timeout_ns > now)
        {
          next = MIN (next, slot->submit_ns + l2->io_timeout_ns);
          continue;
        }
      slot->overdue = TRUE;
      lmt_l2_say (l2, "no answer", "%s: %s: %s: no answer within %g s%s", l2->ops->name,
                  lmt_key_wire (slot->task->keys[slot->index]), lmt_l2_kind_name (slot->kind), (double)l2->io_timeout_ns / 1e9,
                  l2->ops->cancel == NULL ? ", and the adapter can't cancel" : "");
      if (l2->ops->cancel == NULL)
        continue;
      l2->ops->cancel (l2->handle, &l2->ios[i]);
      any = TRUE;
    }
  l2->next_deadline = next;
  if (any && l2->ops->flush != NULL)
    l2->ops->flush (l2->handle);
  return any;
}

void
lmt_l2_pump (LmtL2 *l2)
{
  if (l2->handle == NULL)
    return;
  gboolean reaped = reap_plugin (l2);
  if (G_UNLIKELY (l2->io_timeout_ns != 0 && l2->in_flight > 0) && cancel_overdue (l2))
    reaped |= reap_plugin (l2);
  if (!reaped && !has_work (l2))
    {
      lmt_l2_flush (l2);
      return;
    }
  if (!reaped)
    {
      /* BUSY with nothing to wait for: offered again at each turn. */
      if (l2->in_flight == 0)
        l2->blocked = FALSE;
      l2->now = lmt_clock_now (l2->params.clock);
    }
  if (has_work (l2))
    issue_burst (l2);
  lmt_l2_flush (l2);
  lmt_l2_speak_if_any (l2);
}

LmtL2Task *
lmt_l2_reap (LmtL2 *l2)
{
  if (l2->done_head == NULL)
    lmt_l2_pump (l2);
  LmtL2Task *task = l2->done_head;
  if (task != NULL)
    hand_over (l2, task);
  return task;
}

gboolean
lmt_l2_take (LmtL2 *l2, LmtL2Task *task)
{
  if (task->left > 0 || task->next_op < task->n)
    lmt_l2_pump (l2);
  if (task->left > 0 || task->next_op < task->n)
    return FALSE;
  hand_over (l2, task);
  return TRUE;
}

/* -------- close -------- */

gboolean
lmt_l2_is_idle (const LmtL2 *l2)
{
  if (l2->in_flight > 0 || has_work (l2))
    return FALSE;
  for (const LmtL2Task *task = l2->done_head; task != NULL; task = task->next)
    if (task->next_op != G_MAXUINT32)
      return FALSE;
  return TRUE;
}

/* After the plugin is closed: what it never gave back, and what never went to it, ends as CLOSED. No io is looked at. */
guint
lmt_l2_abandon (LmtL2 *l2)
{
  guint n = 0;
  l2->depth = 0;
  for (guint32 i = 0; i < l2->n_slots; i++)
    if (l2->slots[i].with_plugin)
      {
        l2->slots[i].with_plugin = FALSE;
        op_done (l2, l2->slots[i].task, l2->slots[i].index,
                 LMT_L2_CLOSED | OP_HOLDS | (l2->slots[i].kind == LMT_L2_STORE ? OP_COUNTED : 0));
        n++;
      }
  set_in_flight (l2, 0);
  for (; l2->n_retry > 0; l2->n_retry--, n++)
    {
      LmtL2Slot *slot = &l2->slots[l2->retry[l2->n_retry - 1]];
      op_done (l2, slot->task, slot->index, LMT_L2_CLOSED | OP_HOLDS | (slot->kind == LMT_L2_STORE ? OP_COUNTED : 0));
    }
  for (guint32 id = 0; id < l2->n_states; id++)
    while (l2->states[id].wait_head != 0)
      {
        LmtL2Waiter waiter = l2->waiters[l2->states[id].wait_head - 1];
        unpark_head (l2, &l2->states[id]);
        op_done (l2, waiter.task, waiter.index, LMT_L2_CLOSED | (waiter.task->kind == LMT_L2_STORE ? OP_COUNTED : 0));
        n++;
      }
  l2->ready_n = 0;
  while (l2->pending_head != NULL)
    {
      LmtL2Task *task = l2->pending_head;
      l2->pending_head = task->next;
      task->next = NULL;
      for (; task->next_op < task->n; task->next_op++)
        if (task->codes[task->next_op] == OP_TODO)
          {
            task->codes[task->next_op] = LMT_L2_CLOSED | (task->kind == LMT_L2_STORE ? OP_COUNTED : 0);
            l2->figures.ops[task->kind]++;
            l2->figures.codes[task->kind][LMT_L2_CLOSED]++;
            task->left--;
            n++;
          }
      if (task->left == 0)
        task_done (l2, task);
    }
  l2->pending_tail = NULL;
  return n;
}
