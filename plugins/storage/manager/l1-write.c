/* SPDX-License-Identifier: Apache-2.0 */
#include "manager-private.h"

#include <string.h>

/* Writers: reserving, finishing, giving up (storage-manager.md 4), and the write modes of older releases (17). */

enum
{
  CLASS_REFUSED = 0,
  CLASS_TAKEOVER,
  CLASS_IN_PLACE,
  CLASS_RESIZE, /* takeover or in-place move whose size differs: a new block, no new key */
  CLASS_NEW,
  CLASS_AGAIN, /* second mention of a key that waits for its block */
};

guint32
sm_stage_new (LmtSm *sm, LmtKey *key, SmKeyState *state, guint64 tag)
{
  guint32 i = sm->unused_stage;
  SmStage *stage;

  if (i == SM_NIL)
    {
      guint size = MAX (sm->n_stages * 2, 64);

      sm->stages = g_renew (SmStage, sm->stages, size);
      for (guint s = size; s-- > sm->n_stages;)
        {
          sm->stages[s].next = sm->unused_stage;
          sm->unused_stage = s;
        }
      sm->n_stages = size;
      i = sm->unused_stage;
    }
  stage = &sm->stages[i];
  sm->unused_stage = stage->next;
  *stage = (SmStage){ .address = G_MAXUINT64, .tag = tag, .key = key->id, .next = state->stages };
  state->stages = i;
  stage->all_prev = sm->staged.tail;
  stage->all_next = SM_NIL;
  if (sm->staged.tail != SM_NIL)
    sm->stages[sm->staged.tail].all_next = i;
  else
    sm->staged.head = i;
  sm->staged.tail = i;
  sm->staged.n++;
  sm->cold[key->id].key = key;
  return i;
}

static void
stage_lock (LmtSm *sm, SmStage *stage, gboolean temporary)
{
  stage->count = 1;
  stage->expiry = sm->now > G_MAXINT64 - sm->write_ttl ? G_MAXINT64 : sm->now + sm->write_ttl;
  stage->temporary = temporary;
}

static void
stage_fill (LmtSm *sm, SmStage *stage, guint64 address, guint64 bytes, gboolean temporary)
{
  stage->address = address;
  stage->bytes = bytes;
  sm->staging_bytes += bytes;
  stage_lock (sm, stage, temporary);
}

static gboolean
any_stage_held (const LmtSm *sm, const SmKeyState *state)
{
  for (guint32 i = state->stages; i != SM_NIL; i = sm->stages[i].next)
    if (sm_stage_held (sm, &sm->stages[i]))
      return TRUE;
  return FALSE;
}

/* The modes `update` and `all`: a resident object nobody reads or writes is handed out again in its own buffer. */
static gboolean
moves_in_place (const LmtSm *sm, const SmReserve *reserve, const SmKeyState *state)
{
  return reserve->mode != SM_WRITE_NEW && (state->flags & SM_KEY_RESIDENT) != 0 && !sm_read_held (sm, state)
         && !any_stage_held (sm, state);
}

/* A size of 0 is refused before anything changes, if some key would come to the allocator. */
static gboolean
comes_to_allocator (LmtSm *sm, const SmReserve *reserve)
{
  for (guint i = 0; i < reserve->n; i++)
    {
      const SmKeyState *state = sm_state (sm, reserve->keys[i]);
      guint32 stage = sm_l1_find_stage (sm, state, reserve->tag);

      if (moves_in_place (sm, reserve, state))
        return TRUE;
      if (reserve->mode == SM_WRITE_UPDATE || (state->flags & SM_KEY_RESIDENT) != 0)
        continue;
      if (stage == SM_NIL || !sm_stage_held (sm, &sm->stages[stage]))
        return TRUE;
    }
  return FALSE;
}

static gboolean
is_temporary (const SmReserve *reserve, guint i)
{
  return reserve->temporaries != NULL ? reserve->temporaries[i] != 0 : reserve->temporary;
}

static guint8
take_over (LmtSm *sm, const SmReserve *reserve, guint i, SmKeyState *state, guint32 at, guint64 *address)
{
  SmStage *stage = &sm->stages[at];

  sm->counters.takeovers++;
  if (stage->bytes == reserve->bytes)
    {
      stage_lock (sm, stage, is_temporary (reserve, i));
      *address = stage->address;
      return CLASS_TAKEOVER;
    }
  /* Defect 3: the old buffer has the wrong size. Its place in the books stays, its block goes now, so that the batch may use it.
   */
  sm_l1_free_block (sm, reserve->keys[i], stage->address, stage->bytes, stage->pins, FALSE);
  sm->staging_bytes -= stage->bytes;
  stage->bytes = 0;
  stage->pins = 0;
  stage->count = 0;
  return CLASS_RESIZE;
}

static guint8
move_in_place (LmtSm *sm, const SmReserve *reserve, guint i, SmKeyState *state, guint64 *address)
{
  LmtKey *key = reserve->keys[i];
  guint32 old = sm_l1_find_stage (sm, state, reserve->tag), at;
  guint64 block = state->address;
  guint32 pins = state->pins;

  if (old != SM_NIL) /* expired */
    sm_l1_drop_stage (sm, key, state, old);
  if (state->bytes != reserve->bytes)
    {
      sm_l1_drop_resident (sm, key, state);
      sm_evict_keys_add (&sm->gone, key);
      return CLASS_NEW;
    }
  /* Out of the residents without freeing: the reference and the pins move along. */
  lmt_key_ref (key);
  state->pins = 0;
  sm_l1_drop_resident (sm, key, state);
  sm->n_frees--;
  sm->evicted.n--;
  at = sm_stage_new (sm, key, state, reserve->tag);
  stage_fill (sm, &sm->stages[at], block, reserve->bytes, is_temporary (reserve, i));
  sm->stages[at].pins = pins;
  *address = block;
  return CLASS_IN_PLACE;
}

/* Pass 1 for one mention of a key. */
static guint8
classify (LmtSm *sm, const SmReserve *reserve, guint i, guint32 base, const guint8 *classes, guint64 *address)
{
  SmKeyState *state = sm_state (sm, reserve->keys[i]);
  guint32 stage;

  if (state->mark >= base)
    {
      guint8 before = classes[state->mark - base];

      if (before == CLASS_NEW || before == CLASS_RESIZE || before == CLASS_AGAIN || before == CLASS_IN_PLACE)
        return CLASS_AGAIN;
    }
  if (moves_in_place (sm, reserve, state))
    return move_in_place (sm, reserve, i, state, address);
  if ((state->flags & SM_KEY_RESIDENT) != 0 || reserve->mode == SM_WRITE_UPDATE)
    return CLASS_REFUSED;
  stage = sm_l1_find_stage (sm, state, reserve->tag);
  if (stage == SM_NIL)
    return CLASS_NEW;
  if (sm_stage_held (sm, &sm->stages[stage]))
    return CLASS_REFUSED;
  return take_over (sm, reserve, i, state, stage, address);
}

static void
give_blocks (LmtSm *sm, const SmReserve *reserve, const guint8 *classes, const guint64 *blocks, guint8 *codes, guint64 *addresses)
{
  for (guint i = 0; i < reserve->n; i++)
    {
      LmtKey *key = reserve->keys[i];
      SmKeyState *state = sm_state (sm, key);
      guint32 at;

      if (classes[i] == CLASS_AGAIN)
        {
          at = sm_l1_find_stage (sm, state, reserve->tag);
          addresses[i] = sm->stages[at].address;
          codes[i] = SM_SUCCESS;
          continue;
        }
      if (classes[i] != CLASS_NEW && classes[i] != CLASS_RESIZE)
        continue;
      at = sm_l1_find_stage (sm, state, reserve->tag);
      if (at == SM_NIL)
        {
          lmt_key_ref (key);
          at = sm_stage_new (sm, key, state, reserve->tag);
        }
      addresses[i] = *blocks++;
      stage_fill (sm, &sm->stages[at], addresses[i], reserve->bytes, is_temporary (reserve, i));
      codes[i] = SM_SUCCESS;
    }
  sm->counters.peak_staging_bytes = MAX (sm->counters.peak_staging_bytes, sm->staging_bytes);
  sm->counters.peak_used_bytes = MAX (sm->counters.peak_used_bytes, sm_arena_used (sm->arena));
}

static void
give_none (LmtSm *sm, const SmReserve *reserve, const guint8 *classes, guint8 *codes, guint64 *addresses)
{
  for (guint i = 0; i < reserve->n; i++)
    {
      LmtKey *key = reserve->keys[i];
      SmKeyState *state = sm_state (sm, key);

      if (classes[i] == CLASS_NEW || classes[i] == CLASS_RESIZE)
        codes[i] = SM_OUT_OF_MEMORY;
      else if (classes[i] == CLASS_AGAIN)
        {
          guint32 at = sm_l1_find_stage (sm, state, reserve->tag);

          codes[i] = at != SM_NIL ? SM_SUCCESS : SM_OUT_OF_MEMORY;
          addresses[i] = at != SM_NIL ? sm->stages[at].address : G_MAXUINT64;
        }
      if (classes[i] != CLASS_RESIZE)
        continue;
      /* What it had is gone with its block. */
      sm->stages[sm_l1_find_stage (sm, state, reserve->tag)].address = G_MAXUINT64;
      sm_l1_drop_stage (sm, key, state, sm_l1_find_stage (sm, state, reserve->tag));
      sm_keys_add (&sm->unrefs, key);
      if (state->stages == SM_NIL && (state->flags & SM_KEY_RESIDENT) == 0)
        sm_evict_keys_add (&sm->gone, key);
    }
}

/* The policy hears what was taken over first, then the new keys, each in list order and once per mention. */
static void
tell_reserved (LmtSm *sm, const SmReserve *reserve, const guint8 *classes, const guint8 *codes)
{
  sm->notes.n = 0;
  sm->first.n = 0;
  for (guint pass = 0; pass < 2; pass++)
    for (guint i = 0; i < reserve->n; i++)
      {
        gboolean fresh = classes[i] == CLASS_NEW || classes[i] == CLASS_AGAIN;

        if (classes[i] == CLASS_REFUSED || codes[i] != SM_SUCCESS || fresh != (pass == 1))
          continue;
        sm_evict_keys_add (&sm->notes, reserve->keys[i]);
        if (sm->listener != NULL)
          sm_keys_add (&sm->first, reserve->keys[i]);
      }
  lmt_evict_reserved (sm->policy, sm->notes.data, sm->notes.n);
  if (sm->listener != NULL)
    sm_emit (sm, &(SmEvent){ .type = SM_EV_L1_WRITE_RESERVED,
                             .keys = sm->first.data,
                             .n_keys = sm->first.n,
                             .tag = sm_tag_text (sm, reserve->tag) });
}

const char *
sm_l1_reserve_write (LmtSm *sm, const SmReserve *reserve, guint8 *codes, guint64 *addresses)
{
  guint n = reserve->n, n_blocks = 0, n_new = 0;
  guint8 *classes = sm_scratch (&sm->classes, n);
  guint64 *blocks;
  gboolean repeated = FALSE, took;
  guint32 base;

  if (reserve->temporaries != NULL && reserve->n_temporaries != n)
    return "keys and is_temporary flags must be equally many";
  if (reserve->bytes == 0 && comes_to_allocator (sm, reserve))
    return "size must be greater than 0";
  base = sm_marks_begin (sm, n);
  sm->past = SM_PAST_REMOVED;
  for (guint i = 0; i < n; i++)
    {
      SmKeyState *state = sm_state (sm, reserve->keys[i]);

      addresses[i] = G_MAXUINT64;
      classes[i] = classify (sm, reserve, i, base, classes, &addresses[i]);
      codes[i] = classes[i] == CLASS_REFUSED ? SM_KEY_NOT_WRITABLE : SM_SUCCESS;
      repeated |= state->mark >= base;
      state->mark = base + i;
      n_new += classes[i] == CLASS_NEW || classes[i] == CLASS_IN_PLACE;
      n_blocks += classes[i] == CLASS_NEW || classes[i] == CLASS_RESIZE;
    }
  if (sm->unrefs.n > 0 || sm->n_frees > 0)
    sm_l1_flush (sm, sm->evicted.n > 0);
  if (n_blocks > 0)
    {
      blocks = sm_scratch (&sm->blocks, (gsize)n_blocks * sizeof *blocks);
      took = sm_arena_take (sm->arena, reserve->bytes, n_blocks, blocks);
      if (took)
        give_blocks (sm, reserve, classes, blocks, codes, addresses);
      else
        {
          give_none (sm, reserve, classes, codes, addresses);
          sm_l1_flush (sm, FALSE);
        }
    }
  else if (repeated)
    give_blocks (sm, reserve, classes, NULL, codes, addresses);
  if (n_new > 0)
    tell_reserved (sm, reserve, classes, codes);
  if (repeated)
    sm_codes_merge (sm, reserve->keys, n, codes, base);
  return NULL;
}

/* ---- finishing ---- */

static void
make_resident (LmtSm *sm, LmtKey *key, SmKeyState *state, const SmStage *stage)
{
  state->address = stage->address;
  state->bytes = stage->bytes;
  state->pins = stage->pins;
  state->read_count = state->owned = 0;
  state->read_expiry = 0;
  state->flags |= SM_KEY_RESIDENT | (stage->temporary ? SM_KEY_TEMPORARY : 0);
  state->prev = sm->residents.tail;
  state->next = SM_NIL;
  if (sm->residents.tail != SM_NIL)
    sm->states[sm->residents.tail].next = key->id;
  else
    sm->residents.head = key->id;
  sm->residents.tail = key->id;
  sm->residents.n++;
}

/* Ends one staging of a key. @resident: (out): the key had an object already and keeps it. */
static guint8
finish_one (LmtSm *sm, LmtKey *key, guint64 tag, gboolean admit, gboolean *resident)
{
  SmKeyState *state = sm_state (sm, key);
  guint32 at = sm_l1_find_stage (sm, state, tag);
  SmStage stage;

  *resident = FALSE;
  if (at == SM_NIL)
    return SM_KEY_NOT_EXIST;
  if (!sm_stage_held (sm, &sm->stages[at]))
    return SM_KEY_IN_WRONG_STATE;
  *resident = (state->flags & SM_KEY_RESIDENT) != 0;
  if (!admit || *resident)
    {
      sm_l1_drop_stage (sm, key, state, at);
      return SM_SUCCESS;
    }
  stage = sm->stages[at];
  sm->stages[at].address = G_MAXUINT64; /* block and reference go on to the resident */
  sm_l1_drop_stage (sm, key, state, at);
  make_resident (sm, key, state, &stage);
  return SM_SUCCESS;
}

void
sm_l1_finish_write (LmtSm *sm, LmtKey *const *keys, guint n, guint64 tag, guint8 *codes)
{
  guint32 base = sm_marks_begin (sm, n);
  gboolean repeated = FALSE;

  sm->first.n = 0;
  sm->notes.n = 0;
  for (guint i = 0; i < n; i++)
    {
      SmKeyState *state = sm_state (sm, keys[i]);
      gboolean resident;

      repeated |= state->mark >= base;
      state->mark = base + i;
      codes[i] = finish_one (sm, keys[i], tag, TRUE, &resident);
      if (codes[i] != SM_SUCCESS || resident || (state->flags & SM_KEY_TEMPORARY) != 0)
        continue;
      sm_keys_add (&sm->first, keys[i]);
      sm_evict_keys_add (&sm->notes, keys[i]);
    }
  lmt_evict_created (sm->policy, sm->notes.data, sm->notes.n);
  if (sm->listener != NULL && sm->first.n > 0)
    sm_emit (sm, &(SmEvent){ .type = SM_EV_L1_WRITE_FINISHED, .keys = sm->first.data, .n_keys = sm->first.n });
  if (sm->config.n_l2 > 0)
    for (guint i = 0; i < sm->first.n; i++)
      sm_keys_add (&sm->store_batch, lmt_key_ref (sm->first.data[i]));
  if (sm->unrefs.n > 0)
    sm_l1_flush (sm, FALSE);
  if (repeated)
    sm_codes_merge (sm, keys, n, codes, base);
}

void
sm_l1_finish_write_and_reserve_read (LmtSm *sm, LmtKey *const *keys, guint n, guint32 locks, guint64 tag, guint8 *codes)
{
  guint32 base = sm_marks_begin (sm, n);
  gboolean repeated = FALSE;

  locks = CLAMP (locks, 1, SM_MAX_READERS);
  sm->first.n = sm->second.n = 0;
  sm->notes.n = 0;
  for (guint i = 0; i < n; i++)
    {
      SmKeyState *state = sm_state (sm, keys[i]);
      gboolean resident;

      repeated |= state->mark >= base;
      state->mark = base + i;
      codes[i] = finish_one (sm, keys[i], tag, TRUE, &resident);
      if (codes[i] != SM_SUCCESS)
        continue;
      sm_read_lock (sm, state, locks);
      if (resident)
        {
          sm_keys_add (&sm->second, keys[i]);
          continue;
        }
      sm_keys_add (&sm->first, keys[i]);
      sm_evict_keys_add (&sm->notes, keys[i]);
    }
  lmt_evict_created (sm->policy, sm->notes.data, sm->notes.n);
  if (sm->listener != NULL && sm->second.n > 0)
    sm_emit (sm, &(SmEvent){ .type = SM_EV_L1_READ_RESERVED, .keys = sm->second.data, .n_keys = sm->second.n });
  if (sm->listener != NULL && sm->first.n > 0)
    sm_emit (sm, &(SmEvent){ .type = SM_EV_L1_WRITE_FINISHED_AND_READ_RESERVED, .keys = sm->first.data, .n_keys = sm->first.n });
  if (sm->unrefs.n > 0)
    sm_l1_flush (sm, FALSE);
  if (repeated)
    sm_codes_merge (sm, keys, n, codes, base);
}

static void
gone_if_empty (LmtSm *sm, const LmtKey *key)
{
  const SmKeyState *state = sm_state (sm, key);

  if (state->stages == SM_NIL && (state->flags & SM_KEY_RESIDENT) == 0)
    sm_evict_keys_add (&sm->gone, key);
}

void
sm_l1_finish_write_and_delete (LmtSm *sm, LmtKey *const *keys, guint n, guint64 tag, guint8 *codes)
{
  guint32 base = sm_marks_begin (sm, n);
  gboolean repeated = FALSE;

  for (guint i = 0; i < n; i++)
    {
      SmKeyState *state = sm_state (sm, keys[i]);
      gboolean resident;

      repeated |= state->mark >= base;
      state->mark = base + i;
      codes[i] = finish_one (sm, keys[i], tag, FALSE, &resident);
      if (codes[i] == SM_SUCCESS)
        gone_if_empty (sm, keys[i]);
    }
  if (sm->unrefs.n > 0)
    sm_l1_flush (sm, FALSE);
  if (repeated)
    sm_codes_merge (sm, keys, n, codes, base);
}

void
sm_l1_forget_stage (LmtSm *sm, LmtKey *key, guint64 address)
{
  SmKeyState *state = sm_state (sm, key);
  guint32 at = state->stages;

  while (at != SM_NIL && sm->stages[at].address != address)
    at = sm->stages[at].next;
  if (at == SM_NIL)
    return;
  sm_l1_drop_stage (sm, key, state, at);
  gone_if_empty (sm, key);
}
