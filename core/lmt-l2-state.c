/* SPDX-License-Identifier: Apache-2.0 */
#include "lmt-l2-private.h"
#include "lmt-pages.h"

#include <string.h>

/* What is known of keys, and what a task changes when it is handed over. */

const char *
lmt_l2_code_name (guint32 code)
{
  static const char *const names[] = { "ok",       "not-found",   "io",   "busy",   "timeout", "denied",
                                       "no-space", "unsupported", "data", "locked", "closed",  "present" };
  G_STATIC_ASSERT (G_N_ELEMENTS (names) == LMT_L2_N_CODES);
  return code < LMT_L2_N_CODES ? names[code] : "unknown";
}

const char *
lmt_l2_kind_name (guint32 kind)
{
  static const char *const names[] = { "store", "load", "lookup", "delete" };
  return kind < LMT_L2_N_KINDS ? names[kind] : "unknown";
}

/* -------- what is known of keys -------- */

LmtL2KeyState *
lmt_l2_state_slow (LmtL2 *l2, const LmtKey *key)
{
  guint32 n = MAX (MAX (l2->n_states * 2, 1024), lmt_key_table_capacity (l2->params.keys));
  n = MAX (n, key->id + 1);
  l2->states = lmt_pages_renew (LmtL2KeyState, l2->states, l2->n_states, n);
  l2->n_states = n;
  return &l2->states[key->id];
}

static guint64 *
salt_usage (LmtL2 *l2, const LmtKey *key)
{
  if (G_UNLIKELY (key->salt >= l2->n_salts))
    {
      guint32 n = MAX (MAX (l2->n_salts * 2, 16), key->salt + 1);
      l2->used_by_salt = g_renew (guint64, l2->used_by_salt, n);
      memset (l2->used_by_salt + l2->n_salts, 0, (n - l2->n_salts) * sizeof (guint64));
      l2->n_salts = n;
    }
  return &l2->used_by_salt[key->salt];
}

static inline void
hold_key (LmtL2KeyState *state, LmtKey *key)
{
  if (state->key == NULL)
    state->key = lmt_key_ref (key);
}

static inline void
drop_key (LmtL2 *l2, LmtL2KeyState *state)
{
  if (state->key != NULL && !state->present && state->locks == 0)
    lmt_key_unref (l2->params.keys, g_steal_pointer (&state->key));
}

/* The object is there, with this size. */
void
lmt_l2_learn (LmtL2 *l2, LmtKey *key, guint64 bytes)
{
  LmtL2KeyState *state = lmt_l2_state (l2, key);
  guint64 *by_salt = salt_usage (l2, key);
  if (state->present)
    {
      l2->used -= lmt_l2_charge (l2, state->bytes);
      *by_salt -= lmt_l2_charge (l2, state->bytes);
    }
  hold_key (state, key);
  state->present = TRUE;
  state->bytes = bytes;
  l2->used += lmt_l2_charge (l2, bytes);
  *by_salt += lmt_l2_charge (l2, bytes);
}

void
lmt_l2_forget (LmtL2 *l2, LmtL2KeyState *state)
{
  if (!state->present)
    return;
  l2->used -= lmt_l2_charge (l2, state->bytes);
  *salt_usage (l2, state->key) -= lmt_l2_charge (l2, state->bytes);
  state->present = FALSE;
  drop_key (l2, state);
}

/* Makes room for a store of @bytes under the key, beside what is there and what is under way. */
gboolean
lmt_l2_reserve (LmtL2 *l2, LmtL2KeyState *state, guint64 bytes)
{
  if (l2->capacity == 0)
    return TRUE;
  guint64 has = state->reserved + (state->present ? lmt_l2_charge (l2, state->bytes) : 0);
  guint64 want = lmt_l2_charge (l2, bytes);
  if (want <= has)
    return TRUE;
  guint64 taken = l2->used + l2->reserved;
  if (taken > l2->capacity || want - has > l2->capacity - taken)
    return FALSE;
  state->reserved += want - has;
  l2->reserved += want - has;
  return TRUE;
}

/* -------- hand-over -------- */

typedef struct
{
  guint32 n;    /* of the task's own event, from the front of the arrays */
  guint32 gone; /* objects found missing, from the back */
} Events;

static void
apply_store (LmtL2 *l2, LmtL2Task *task, guint32 i, guint64 size, LmtL2KeyState *state, guint raw, Events *events)
{
  guint code = raw & OP_CODE;
  gboolean there = code == LMT_L2_OK || code == LMT_L2_PRESENT;
  if (raw & OP_COUNTED)
    state->stores--;
  if (there)
    {
      /* What was there already keeps the size the medium gave it (a padded file has more than the object). */
      if (l2->keep && (code == LMT_L2_OK || (!state->present && l2->scanned)))
        lmt_l2_learn (l2, task->keys[i], size);
      if (!state->present)
        state->bytes = size;
      state->just_stored = TRUE;
    }
  if (state->reserved != 0 && ((there && l2->keep) || state->stores == 0))
    {
      l2->reserved -= state->reserved;
      state->reserved = 0;
    }
  if (code == LMT_L2_OK)
    {
      task->bytes += size;
      l2->event_keys[events->n] = task->keys[i];
      l2->event_sizes[events->n++] = size;
    }
}

static void
apply_op (LmtL2 *l2, LmtL2Task *task, guint32 i, LmtL2KeyState *state, guint raw, Events *events)
{
  guint code = raw & OP_CODE;
  guint64 size = task->sizes != NULL ? task->sizes[i] : 0;
  if (task->kind == LMT_L2_STORE)
    {
      apply_store (l2, task, i, size, state, raw, events);
      return;
    }
  if (code == LMT_L2_NOT_FOUND && state->present)
    {
      events->gone++;
      l2->event_keys[l2->event_size - events->gone] = task->keys[i];
      l2->event_sizes[l2->event_size - events->gone] = state->bytes;
      lmt_l2_forget (l2, state);
    }
  if (code != LMT_L2_OK)
    return;
  switch (task->kind)
    {
    case LMT_L2_LOAD:
      if (!state->present && l2->scanned)
        lmt_l2_learn (l2, task->keys[i], size);
      task->bytes += size;
      l2->event_keys[events->n] = task->keys[i];
      l2->event_sizes[events->n++] = size;
      break;
    case LMT_L2_LOOKUP:
      if (!state->present && l2->scanned && size != 0)
        lmt_l2_learn (l2, task->keys[i], size);
      hold_key (state, task->keys[i]);
      state->locks++;
      break;
    default:
      size = state->present ? state->bytes : 0;
      task->bytes += size;
      l2->event_keys[events->n] = task->keys[i];
      l2->event_sizes[events->n++] = size;
      lmt_l2_forget (l2, state);
      break;
    }
}

static void
tell_events (LmtL2 *l2, const LmtL2Task *task, const Events *events)
{
  static const LmtL2EventKind kinds[] = { LMT_L2_STORED, LMT_L2_ACCESSED, LMT_L2_STORED, LMT_L2_DELETED };
  if (l2->event_func == NULL)
    return;
  if (G_UNLIKELY (events->gone > 0))
    {
      LmtKey **keys = l2->event_keys + l2->event_size - events->gone;
      guint64 *sizes = l2->event_sizes + l2->event_size - events->gone;
      for (guint32 i = 0, k = events->gone - 1; i < k; i++, k--)
        {
          LmtKey *key = keys[i];
          guint64 size = sizes[i];
          keys[i] = keys[k];
          sizes[i] = sizes[k];
          keys[k] = key;
          sizes[k] = size;
        }
      l2->event_func (l2->event_data, LMT_L2_DELETED, keys, sizes, events->gone);
    }
  if (events->n > 0)
    l2->event_func (l2->event_data, kinds[task->kind], l2->event_keys, l2->event_sizes, events->n);
}

static inline void
leave_key (LmtL2KeyState *state, guint32 kind)
{
  if (kind == LMT_L2_STORE || kind == LMT_L2_DELETE)
    state->writer = WRITER_NONE;
  else
    state->readers--;
}

/* A key named twice is loaded once, and a bit says that the buffer beside it is filled. */
static guint
fill_repeated (LmtL2 *l2, LmtL2Task *task, guint32 first, guint32 again)
{
  if (task->sizes[first] != task->sizes[again])
    return LMT_L2_DATA;
  if (l2->data && task->buffers != NULL && task->buffers[first] != task->buffers[again])
    memcpy (task->buffers[again], task->buffers[first], task->sizes[again]);
  return LMT_L2_OK;
}

/* Everything the task changes, then its keys are free. */
void
lmt_l2_apply (LmtL2 *l2, LmtL2Task *task)
{
  Events events = { 0, 0 };
  guint64 mark = ++l2->mark;
  for (guint32 i = 0; i < task->n; i++)
    {
      LmtL2KeyState *state = lmt_l2_state (l2, task->keys[i]);
      guint raw = task->codes[i];
      if (raw == OP_REPEATED)
        {
          raw = task->codes[state->mark_index] & OP_CODE;
          if (raw == LMT_L2_OK && task->kind == LMT_L2_LOAD)
            raw = fill_repeated (l2, task, state->mark_index, i);
          task->codes[i] = (guint8)raw;
          if (raw == LMT_L2_OK && task->kind == LMT_L2_LOOKUP)
            state->locks++;
        }
      else
        {
          state->mark = mark;
          state->mark_index = i;
          apply_op (l2, task, i, state, raw, &events);
        }
      raw &= OP_CODE;
      task->n_ok += raw == LMT_L2_OK || raw == LMT_L2_PRESENT;
    }
  tell_events (l2, task, &events);
  for (guint32 i = 0; i < task->n; i++)
    {
      guint raw = task->codes[i];
      task->codes[i] = raw & OP_CODE;
      if ((raw & OP_HOLDS) == 0)
        continue;
      LmtL2KeyState *state = lmt_l2_state (l2, task->keys[i]);
      leave_key (state, task->kind);
      if (G_UNLIKELY (state->wait_head != 0 && !state->ready))
        {
          state->ready = TRUE;
          l2->ready[(l2->ready_head + l2->ready_n++) % l2->ready_size] = task->keys[i]->id;
        }
    }
  task->next_op = G_MAXUINT32; /* applied */
}

/* -------- locks -------- */

void
lmt_l2_unlock (LmtL2 *l2, LmtKey *const *keys, guint n)
{
  for (guint i = 0; i < n; i++)
    {
      LmtL2KeyState *state = lmt_l2_state (l2, keys[i]);
      if (state->locks == 0)
        continue;
      state->locks--;
      drop_key (l2, state);
    }
}

guint
lmt_l2_get_locks (LmtL2 *l2, const LmtKey *key)
{
  return key->id < l2->n_states ? l2->states[key->id].locks : 0;
}
