/* SPDX-License-Identifier: Apache-2.0 */
#include "manager-private.h"

#include <string.h>

#include <lmtrace/lmt-pages.h>

/*
 * Keys of L1: residents, staging, counted locks with a lifetime (storage-manager.md 3, 4). A call collects what it drops and ends
 * with sm_l1_flush(): the blocks go back in one batch, the policy hears of them, and only then the references go, so that keys
 * live as long as anything of the call names them.
 */

/* ---- the arrays ---- */

enum
{
  STRETCH = 1024
};

void
sm_l1_init (LmtSm *sm)
{
  sm->residents = (SmList){ SM_NIL, SM_NIL, 0 };
  sm->staged = (SmList){ SM_NIL, SM_NIL, 0 };
  sm->unused_stage = sm->unused_zombie = SM_NIL;
  sm->next_mark = 1;
  sm_l1_ensure (sm);
}

void
sm_l1_ensure (LmtSm *sm)
{
  guint wanted = lmt_key_table_capacity (sm->table), size = MAX (sm->size_states, 64), end;

  if (G_LIKELY (wanted <= sm->n_states))
    return;
  while (size < wanted)
    size = size > G_MAXUINT32 / 2 ? G_MAXUINT32 : size * 2;
  if (size > sm->size_states)
    {
      sm->states = lmt_pages_renew (SmKeyState, sm->states, sm->size_states, size);
      sm->cold = lmt_pages_renew (SmKeyCold, sm->cold, sm->size_states, size);
      sm->size_states = size;
    }
  /* A stretch at a time, so that it is still in the caches when it is used. */
  end = MIN (size - wanted < STRETCH ? size : wanted + STRETCH, size);
  for (guint i = sm->n_states; i < end; i++)
    {
      sm->states[i].stages = SM_NIL;
      sm->cold[i].zombies = SM_NIL;
    }
  sm->n_states = end;
}

void
sm_l1_free (LmtSm *sm)
{
  gboolean one_by_one = !lmt_key_table_is_retired (sm->table);

  for (guint32 i = sm->residents.head; i != SM_NIL && one_by_one; i = sm->states[i].next)
    lmt_key_unref (sm->table, sm->cold[i].key);
  for (guint32 i = sm->staged.head; i != SM_NIL && one_by_one; i = sm->stages[i].all_next)
    lmt_key_unref (sm->table, sm->cold[sm->stages[i].key].key);
  for (guint i = 0; i < sm->n_zombies; i++)
    if (sm->zombies[i].key != NULL)
      lmt_key_unref (sm->table, sm->zombies[i].key);
  lmt_pages_free (sm->states, sm->size_states * sizeof (SmKeyState));
  lmt_pages_free (sm->cold, sm->size_states * sizeof (SmKeyCold));
  g_free (sm->stages);
  g_free (sm->zombies);
  g_free (sm->frees);
}

/*
 * Marks: each call on a list numbers its positions upward from a base, and a key remembers the number of its last mention: so a
 * key listed twice is seen without a table. The counter is 32 bits; before it wraps all marks are wiped.
 */
guint32
sm_marks_begin (LmtSm *sm, guint n)
{
  guint32 base;

  if (G_UNLIKELY (n > G_MAXUINT32 - sm->next_mark))
    {
      for (guint i = 0; i < sm->n_states; i++)
        sm->states[i].mark = 0;
      sm->next_mark = 1;
    }
  base = sm->next_mark;
  sm->next_mark += n;
  return base;
}

/* A key listed twice has one code: that of its last mention. */
void
sm_codes_merge (LmtSm *sm, LmtKey *const *keys, guint n, guint8 *codes, guint32 base)
{
  for (guint i = 0; i < n; i++)
    codes[i] = codes[sm_state (sm, keys[i])->mark - base];
}

/* ---- blocks, pins ---- */

static guint32
zombie_new (LmtSm *sm)
{
  guint32 i = sm->unused_zombie;

  if (i == SM_NIL)
    {
      guint size = MAX (sm->n_zombies * 2, 16);

      sm->zombies = g_renew (SmZombie, sm->zombies, size);
      for (guint z = size; z-- > sm->n_zombies;)
        {
          sm->zombies[z] = (SmZombie){ .next = sm->unused_zombie };
          sm->unused_zombie = z;
        }
      sm->n_zombies = size;
      i = sm->unused_zombie;
    }
  sm->unused_zombie = sm->zombies[i].next;
  sm->live_zombies++;
  return i;
}

static void
free_later (LmtSm *sm, guint64 address, guint64 bytes)
{
  if (G_UNLIKELY (sm->n_frees == sm->size_frees))
    {
      sm->size_frees = MAX (sm->size_frees * 2, 64);
      sm->frees = g_renew (SmBlock, sm->frees, sm->size_frees);
    }
  sm->frees[sm->n_frees++] = (SmBlock){ address, bytes };
}

void
sm_l1_free_block (LmtSm *sm, LmtKey *key, guint64 address, guint64 bytes, guint32 pins, gboolean store)
{
  guint32 i;

  if (G_LIKELY (pins == 0))
    {
      free_later (sm, address, bytes);
      return;
    }
  i = zombie_new (sm);
  sm->zombies[i] = (SmZombie){ lmt_key_ref (key), address, bytes, pins, sm->cold[key->id].zombies, store };
  sm->cold[key->id].zombies = i;
}

static void
zombie_unpin (LmtSm *sm, LmtKey *key, guint64 address)
{
  for (guint32 *link = &sm->cold[key->id].zombies; *link != SM_NIL; link = &sm->zombies[*link].next)
    {
      guint32 i = *link;
      SmZombie *zombie = &sm->zombies[i];

      if (zombie->address != address || --zombie->pins > 0)
        continue;
      free_later (sm, zombie->address, zombie->bytes);
      sm_keys_add (&sm->unrefs, zombie->key);
      *link = zombie->next;
      *zombie = (SmZombie){ .next = sm->unused_zombie };
      sm->unused_zombie = i;
      sm->live_zombies--;
      return;
    }
}

/* A live block has one owner, so its address tells which. */
void
sm_l1_unpin (LmtSm *sm, LmtKey *key, guint64 address)
{
  SmKeyState *state = sm_state (sm, key);

  if ((state->flags & SM_KEY_RESIDENT) != 0 && state->address == address && state->pins > 0)
    {
      state->pins--;
      return;
    }
  for (guint32 i = state->stages; i != SM_NIL; i = sm->stages[i].next)
    if (sm->stages[i].address == address && sm->stages[i].pins > 0)
      {
        sm->stages[i].pins--;
        return;
      }
  zombie_unpin (sm, key, address);
}

void
sm_l1_pin_resident (LmtSm *sm, LmtKey *key)
{
  sm_state (sm, key)->pins++;
}

/* ---- leaving ---- */

static void
resident_unlink (LmtSm *sm, SmKeyState *state)
{
  if (state->prev != SM_NIL)
    sm->states[state->prev].next = state->next;
  else
    sm->residents.head = state->next;
  if (state->next != SM_NIL)
    sm->states[state->next].prev = state->prev;
  else
    sm->residents.tail = state->prev;
  sm->residents.n--;
}

void
sm_l1_drop_resident (LmtSm *sm, LmtKey *key, SmKeyState *state)
{
  resident_unlink (sm, state);
  sm_l1_free_block (sm, key, state->address, state->bytes, state->pins, TRUE);
  state->flags &= ~(SM_KEY_RESIDENT | SM_KEY_TEMPORARY | SM_KEY_RETRY);
  state->read_count = state->owned = state->pins = 0;
  sm_keys_add (&sm->unrefs, key);
  sm_keys_add (&sm->evicted, key);
  if (sm->history != NULL)
    sm_explain_left (sm, key, sm->past);
}

void
sm_l1_drop_stage (LmtSm *sm, LmtKey *key, SmKeyState *state, guint32 i)
{
  SmStage *stage = &sm->stages[i];
  guint32 *link = &state->stages;

  while (*link != i)
    link = &sm->stages[*link].next;
  *link = stage->next;
  if (stage->all_prev != SM_NIL)
    sm->stages[stage->all_prev].all_next = stage->all_next;
  else
    sm->staged.head = stage->all_next;
  if (stage->all_next != SM_NIL)
    sm->stages[stage->all_next].all_prev = stage->all_prev;
  else
    sm->staged.tail = stage->all_prev;
  sm->staged.n--;
  sm->staging_bytes -= stage->bytes;
  if (stage->address != G_MAXUINT64)
    {
      sm_l1_free_block (sm, key, stage->address, stage->bytes, stage->pins, FALSE);
      sm_keys_add (&sm->unrefs, key);
    }
  stage->next = sm->unused_stage;
  sm->unused_stage = i;
}

static void
key_gone (LmtSm *sm, const LmtKey *key)
{
  sm_evict_keys_add (&sm->gone, key);
}

void
sm_l1_flush (LmtSm *sm, gboolean event)
{
  if (sm->n_frees > 0)
    sm_arena_give (sm->arena, sm->frees, sm->n_frees);
  sm->n_frees = 0;
  lmt_evict_removed (sm->policy, sm->gone.data, sm->gone.n);
  sm->gone.n = 0;
  if (sm->in_pass && sm->victim != NULL)
    for (guint i = 0; i < sm->evicted.n; i++)
      sm->victim (sm->evicted.data[i], sm->victim_data);
  if (event && sm->listener != NULL)
    sm_emit (sm, &(SmEvent){ .type = SM_EV_L1_KEYS_EVICTED, .keys = sm->evicted.data, .n_keys = sm->evicted.n });
  sm->evicted.n = 0;
  for (guint i = 0; i < sm->unrefs.n; i++)
    lmt_key_unref (sm->table, sm->unrefs.data[i]);
  sm->unrefs.n = 0;
}

/* ---- reading ---- */

void
sm_read_lock (LmtSm *sm, SmKeyState *state, guint32 locks)
{
  if (sm->now >= state->read_expiry)
    state->read_count = state->owned = 0;
  state->read_count = state->read_count > G_MAXUINT32 - locks ? G_MAXUINT32 : state->read_count + locks;
  state->read_expiry = sm->now > G_MAXINT64 - sm->read_ttl ? G_MAXINT64 : sm->now + sm->read_ttl;
}

void
sm_l1_reserve_read (LmtSm *sm, LmtKey *const *keys, guint n, guint32 locks, guint8 *codes)
{
  locks = CLAMP (locks, 1, SM_MAX_READERS);
  sm->first.n = 0;
  for (guint i = 0; i < n; i++)
    {
      SmKeyState *state = sm_state (sm, keys[i]);

      if ((state->flags & SM_KEY_RESIDENT) == 0)
        {
          codes[i] = SM_KEY_NOT_EXIST;
          continue;
        }
      sm_read_lock (sm, state, locks);
      codes[i] = SM_SUCCESS;
      if (sm->listener != NULL)
        sm_keys_add (&sm->first, keys[i]);
    }
  if (sm->listener != NULL)
    sm_emit (sm, &(SmEvent){ .type = SM_EV_L1_READ_RESERVED, .keys = sm->first.data, .n_keys = sm->first.n });
}

void
sm_l1_unsafe_read (LmtSm *sm, LmtKey *const *keys, guint n, guint8 *codes)
{
  for (guint i = 0; i < n; i++)
    {
      const SmKeyState *state = sm_state (sm, keys[i]);

      if ((state->flags & SM_KEY_RESIDENT) == 0)
        codes[i] = SM_KEY_NOT_EXIST;
      else
        codes[i] = sm_read_held (sm, state) ? SM_SUCCESS : SM_KEY_NOT_READABLE;
    }
}

/* Locks the caller gives back: it may own fewer than it names, and then strips somebody else's (18.5). */
static void
give_back_owned (LmtSm *sm, SmKeyState *state, guint32 locks)
{
  guint32 given = MIN (locks, state->read_count);

  if (given > state->owned)
    sm->counters.finish_read_foreign += given - state->owned;
  state->owned -= MIN (given, state->owned);
}

void
sm_l1_finish_read (LmtSm *sm, LmtKey *const *keys, guint n, guint32 locks, gboolean by_caller, guint8 *codes)
{
  guint32 base = sm_marks_begin (sm, n);
  gboolean repeated = FALSE;

  locks = CLAMP (locks, 1, SM_MAX_READERS);
  sm->first.n = 0;
  sm->past = SM_PAST_REMOVED;
  for (guint i = 0; i < n; i++)
    {
      SmKeyState *state = sm_state (sm, keys[i]);

      repeated |= state->mark >= base;
      state->mark = base + i;
      if ((state->flags & SM_KEY_RESIDENT) == 0)
        {
          codes[i] = SM_KEY_NOT_EXIST;
          continue;
        }
      if (!sm_read_held (sm, state))
        {
          codes[i] = SM_KEY_IN_WRONG_STATE;
          continue;
        }
      if (by_caller)
        give_back_owned (sm, state, locks);
      sm_read_unlock (state, locks);
      codes[i] = SM_SUCCESS;
      if (sm->listener != NULL)
        sm_keys_add (&sm->first, keys[i]);
      if ((state->flags & SM_KEY_TEMPORARY) != 0 && state->read_count == 0)
        {
          sm_l1_drop_resident (sm, keys[i], state);
          key_gone (sm, keys[i]);
        }
    }
  if (repeated)
    sm_codes_merge (sm, keys, n, codes, base);
  if (sm->listener != NULL)
    sm_emit (sm, &(SmEvent){ .type = SM_EV_L1_READ_FINISHED, .keys = sm->first.data, .n_keys = sm->first.n });
  if (sm->unrefs.n > 0)
    sm_l1_flush (sm, TRUE);
}

void
sm_l1_touch (LmtSm *sm, LmtKey *const *keys, guint n)
{
  sm->notes.n = 0;
  for (guint i = 0; i < n; i++)
    sm_evict_keys_add (&sm->notes, keys[i]);
  lmt_evict_touched (sm->policy, sm->notes.data, sm->notes.n);
  if (sm->listener != NULL)
    sm_emit (sm, &(SmEvent){ .type = SM_EV_L1_KEYS_ACCESSED, .keys = keys, .n_keys = n });
}

/* ---- deleting ---- */

/* Staging of a key that is free to go: expired, or all with @force. Returns: something was there */
static gboolean
drop_stages (LmtSm *sm, LmtKey *key, SmKeyState *state, gboolean force)
{
  guint32 next;
  gboolean any = FALSE;

  for (guint32 i = state->stages; i != SM_NIL; i = next)
    {
      gboolean held = sm_stage_held (sm, &sm->stages[i]);

      next = sm->stages[i].next;
      any = TRUE;
      if (held && !force)
        continue;
      if (sm->history != NULL && sm->stages[i].tag == SM_TAG_WRITE && (state->flags & SM_KEY_RESIDENT) == 0)
        sm_explain_left (sm, key, held ? SM_PAST_REMOVED : SM_PAST_EXPIRED);
      sm_l1_drop_stage (sm, key, state, i);
    }
  return any;
}

static guint8
delete_one (LmtSm *sm, LmtKey *key, gboolean force)
{
  SmKeyState *state = sm_state (sm, key);
  gboolean staged = drop_stages (sm, key, state, force);

  if ((state->flags & SM_KEY_RESIDENT) == 0 && !staged)
    return SM_KEY_NOT_EXIST;
  if (state->stages != SM_NIL)
    return SM_KEY_IS_LOCKED;
  if ((state->flags & SM_KEY_RESIDENT) != 0)
    {
      if (sm_read_held (sm, state) && !force)
        return SM_KEY_IS_LOCKED;
      sm_l1_drop_resident (sm, key, state);
    }
  key_gone (sm, key);
  return SM_SUCCESS;
}

void
sm_l1_delete (LmtSm *sm, LmtKey *const *keys, guint n, gboolean force, guint32 past, guint8 *codes)
{
  guint32 base = sm_marks_begin (sm, n);
  gboolean repeated = FALSE;

  sm->past = past;
  for (guint i = 0; i < n; i++)
    {
      SmKeyState *state = sm_state (sm, keys[i]);

      if (i + 8 < n)
        __builtin_prefetch (sm_state (sm, keys[i + 8]), 1);

      repeated |= state->mark >= base;
      state->mark = base + i;
      codes[i] = delete_one (sm, keys[i], force);
    }
  if (repeated)
    sm_codes_merge (sm, keys, n, codes, base);
  sm_l1_flush (sm, TRUE);
}

void
sm_l1_clear (LmtSm *sm, gboolean force)
{
  guint32 next;

  sm->past = SM_PAST_REMOVED;
  for (guint32 i = sm->residents.head; i != SM_NIL; i = next)
    {
      SmKeyState *state = &sm->states[i];
      LmtKey *key = sm->cold[i].key;

      next = state->next;
      if (!force && sm_read_held (sm, state))
        continue;
      sm_l1_drop_resident (sm, key, state);
      if (state->stages == SM_NIL)
        key_gone (sm, key);
    }
  for (guint32 i = sm->staged.head; i != SM_NIL; i = next)
    {
      SmStage *stage = &sm->stages[i];
      LmtKey *key = sm->cold[stage->key].key;
      SmKeyState *state = sm_state (sm, key);
      gboolean held = sm_stage_held (sm, stage);

      next = stage->all_next;
      if (held && !force)
        continue;
      if (sm->history != NULL && stage->tag == SM_TAG_WRITE && (state->flags & SM_KEY_RESIDENT) == 0)
        sm_explain_left (sm, key, held ? SM_PAST_REMOVED : SM_PAST_EXPIRED);
      sm_l1_drop_stage (sm, key, state, i);
      if (state->stages == SM_NIL && (state->flags & SM_KEY_RESIDENT) == 0)
        key_gone (sm, key);
    }
  sm_l1_flush (sm, TRUE);
}

gboolean
sm_l1_is_evictable (LmtSm *sm, guint32 id)
{
  const SmKeyState *state = &sm->states[id];

  if ((state->flags & SM_KEY_RESIDENT) != 0 && !sm_read_held (sm, state))
    return TRUE;
  for (guint32 i = state->stages; i != SM_NIL; i = sm->stages[i].next)
    if (!sm_stage_held (sm, &sm->stages[i]))
      return TRUE;
  return FALSE;
}

gint64
sm_l1_next_expiry (LmtSm *sm)
{
  gint64 earliest = G_MAXINT64;

  for (guint32 i = sm->residents.head; i != SM_NIL; i = sm->states[i].next)
    if (sm_read_held (sm, &sm->states[i]))
      earliest = MIN (earliest, sm->states[i].read_expiry);
  for (guint32 i = sm->staged.head; i != SM_NIL; i = sm->stages[i].all_next)
    if (sm_stage_held (sm, &sm->stages[i]))
      earliest = MIN (earliest, sm->stages[i].expiry);
  return earliest;
}

guint32
sm_l1_find_stage (const LmtSm *sm, const SmKeyState *state, guint64 tag)
{
  guint32 i = state->stages;

  while (i != SM_NIL && sm->stages[i].tag != tag)
    i = sm->stages[i].next;
  return i;
}
