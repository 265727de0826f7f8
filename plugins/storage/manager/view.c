/* SPDX-License-Identifier: Apache-2.0 */
#include "manager-private.h"

/* Looking inside, and the leaks at the end of a trace (storage-manager.md 18.6). */

static gboolean
held_at (gint64 now, guint32 count, gint64 expiry)
{
  return count > 0 && now < expiry;
}

static void
view_state (const LmtSm *sm, gint64 now, const SmKeyState *state, SmKeyView *view)
{
  *view = (SmKeyView){ .address = G_MAXUINT64 };
  if ((state->flags & SM_KEY_RESIDENT) != 0)
    {
      view->resident = TRUE;
      view->temporary = (state->flags & SM_KEY_TEMPORARY) != 0;
      view->read_locks = held_at (now, state->read_count, state->read_expiry) ? state->read_count : 0;
      view->bytes = state->bytes;
      view->address = state->address;
    }
  for (guint32 i = state->stages; i != SM_NIL; i = sm->stages[i].next)
    view->n_staged++;
}

void
lmt_sm_foreach (const LmtSm *sm, gint64 now_ns, void (*func) (LmtKey *key, const SmKeyView *view, gpointer data), gpointer data)
{
  SmKeyView view;

  for (guint32 i = sm->residents.head; i != SM_NIL; i = sm->states[i].next)
    {
      view_state (sm, now_ns, &sm->states[i], &view);
      func (sm->cold[i].key, &view, data);
    }
  for (guint32 i = sm->staged.head; i != SM_NIL; i = sm->stages[i].all_next)
    {
      const SmKeyState *state = &sm->states[sm->stages[i].key];

      if ((state->flags & SM_KEY_RESIDENT) != 0 || state->stages != i)
        continue;
      view_state (sm, now_ns, state, &view);
      func (sm->cold[sm->stages[i].key].key, &view, data);
    }
}

gboolean
lmt_sm_view (const LmtSm *sm, gint64 now_ns, const LmtKey *key, SmKeyView *view)
{
  if (key->id >= sm->n_states)
    return FALSE;
  view_state (sm, now_ns, &sm->states[key->id], view);
  return view->resident || view->n_staged > 0;
}

gboolean
lmt_sm_view_stage (const LmtSm *sm, gint64 now_ns, const LmtKey *key, guint i, SmStageView *view)
{
  const SmStage *stage;
  guint32 at;

  if (key->id >= sm->n_states)
    return FALSE;
  for (at = sm->states[key->id].stages; at != SM_NIL && i > 0; i--)
    at = sm->stages[at].next;
  if (at == SM_NIL)
    return FALSE;
  stage = &sm->stages[at];
  if (stage->tag == SM_TAG_WRITE)
    g_strlcpy (view->tag, "storage_manager", sizeof view->tag);
  else
    g_snprintf (view->tag, sizeof view->tag, "prefetch:%" G_GUINT64_FORMAT, stage->tag);
  view->write_locked = held_at (now_ns, stage->count, stage->expiry);
  view->temporary = stage->temporary;
  view->bytes = stage->bytes;
  view->address = stage->address;
  return TRUE;
}

const LmtEvict *
lmt_sm_peek_policy (const LmtSm *sm, gint adapter)
{
  if (adapter < 0)
    return sm->policy;
  return (guint)adapter < sm->config.n_l2 ? sm->adapters[adapter].policy : NULL;
}

const SmCounters *
lmt_sm_get_counters (const LmtSm *sm)
{
  return &sm->counters;
}

guint64
lmt_sm_used_bytes (const LmtSm *sm)
{
  return sm_arena_used (sm->arena);
}

guint64
lmt_sm_total_bytes (const LmtSm *sm)
{
  return sm->config.size_bytes;
}

guint64
lmt_sm_staging_bytes (const LmtSm *sm)
{
  return sm->staging_bytes;
}

void
lmt_sm_release_leaks (LmtSm *sm, gint64 now_ns, guint64 *read_locks, guint64 *reservations)
{
  guint32 next;

  sm_enter (sm, now_ns);
  *read_locks = *reservations = 0;
  sm->past = SM_PAST_REMOVED;
  for (guint32 i = sm->residents.head; i != SM_NIL; i = next)
    {
      SmKeyState *state = &sm->states[i];

      next = state->next;
      if (!sm_read_held (sm, state))
        continue;
      *read_locks += state->read_count;
      state->read_count = state->owned = 0;
      if ((state->flags & SM_KEY_TEMPORARY) == 0)
        continue;
      sm_evict_keys_add (&sm->gone, sm->cold[i].key);
      sm_l1_drop_resident (sm, sm->cold[i].key, state);
    }
  for (guint32 i = sm->staged.head; i != SM_NIL; i = next)
    {
      SmStage *stage = &sm->stages[i];
      LmtKey *key = sm->cold[stage->key].key;
      SmKeyState *state = sm_state (sm, key);

      next = stage->all_next;
      if (stage->tag != SM_TAG_WRITE) /* a running load's: its end gives it back */
        continue;
      (*reservations)++;
      sm_l1_drop_stage (sm, key, state, i);
      if (state->stages == SM_NIL && (state->flags & SM_KEY_RESIDENT) == 0)
        sm_evict_keys_add (&sm->gone, key);
    }
  sm_l1_flush (sm, TRUE);
}
