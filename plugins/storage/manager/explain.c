/* SPDX-License-Identifier: Apache-2.0 */
#include "manager-private.h"

/* Why a requested cell was not hit (storage-manager.md 18.13). */

/* The history lies at random places of a large table: looks are announced. */
#define AHEAD 16u

static inline guint32
tag_of (const LmtKey *key)
{
  return (guint32)(key->hash64 >> 24);
}

/*
 * A key the manager has seen named since it came to life needs no look at the history: the tag tells it from another key that got
 * the same number later. (Two keys of one tag in a row mix up one explanation in 2^32.)
 */
static inline gboolean
is_named (const SmKeyState *state, const LmtKey *key)
{
  return (state->flags & SM_KEY_NAMED) != 0 && state->history_tag == tag_of (key);
}

guint8
sm_explain_name (LmtSm *sm, LmtKey *key)
{
  SmKeyState *state = sm_state (sm, key);
  guint8 past;

  if (is_named (state, key))
    return SM_CELL_NAMED;
  past = sm_history_name (sm->history, key->hash64);
  if (past == SM_PAST_FULL)
    return 0;
  state->flags |= SM_KEY_NAMED;
  state->history_tag = tag_of (key);
  return past == SM_PAST_UNSEEN ? 0 : SM_CELL_NAMED;
}

void
sm_explain_named (LmtSm *sm, LmtKey *const *keys, guint n)
{
  for (guint i = 0; i < MIN (n, AHEAD); i++)
    if (!is_named (sm_state (sm, keys[i]), keys[i]))
      sm_history_prefetch (sm->history, keys[i]->hash64);
  for (guint i = 0; i < n; i++)
    {
      if (i + AHEAD < n && !is_named (sm_state (sm, keys[i + AHEAD]), keys[i + AHEAD]))
        sm_history_prefetch (sm->history, keys[i + AHEAD]->hash64);
      if (!is_named (sm_state (sm, keys[i]), keys[i]))
        sm_explain_name (sm, keys[i]);
    }
}

void
sm_explain_left (LmtSm *sm, LmtKey *key, guint8 past)
{
  sm_history_set (sm->history, key->hash64, past);
}

static SmMiss
cause_by_past (LmtSm *sm, const SmRequest *request, guint32 cell)
{
  LmtKey *key = request->keys[cell];
  const SmKeyState *state = sm_state (sm, key);
  guint32 stage = sm_l1_find_stage (sm, state, SM_TAG_WRITE);

  if (stage != SM_NIL)
    return sm_stage_held (sm, &sm->stages[stage]) ? SM_MISS_NOT_YET_STORED : SM_MISS_EXPIRED;
  if (sm->history == NULL)
    return SM_MISS_UNKNOWN;
  switch (sm_history_get (sm->history, key->hash64))
    {
    case SM_PAST_EXPIRED:
      return SM_MISS_EXPIRED;
    case SM_PAST_EVICTED:
      return SM_MISS_EVICTED;
    case SM_PAST_REMOVED:
      return SM_MISS_REMOVED;
    case SM_PAST_NAMED:
      return (request->marks[cell] & SM_CELL_NAMED) != 0 ? SM_MISS_NEVER_STORED : SM_MISS_FIRST_TOUCH;
    default:
      return SM_MISS_UNKNOWN;
    }
}

static SmMiss
cause_of (LmtSm *sm, const SmRequest *request, guint32 cell)
{
  guint32 row = cell / request->n_columns, column = cell % request->n_columns;
  guint8 troubles = request->troubles[cell];

  if (request->windows[row] > 0 && column < sm_fold_retain_start (request->windows[row], request->result.hit_length))
    return SM_MISS_WINDOW;
  if ((troubles & SM_TROUBLE_LOAD) != 0)
    return SM_MISS_LOAD_FAILED;
  if ((troubles & SM_TROUBLE_MEMORY) != 0)
    return SM_MISS_NO_MEMORY;
  if ((troubles & SM_TROUBLE_CONTENDED) != 0)
    return SM_MISS_CONTENDED;
  /* A request that doesn't look at L1 (WARM of older releases) passes by what is resident: found in a tier all the same. */
  if ((request->marks[cell] & SM_CELL_FOUND) != 0 || (sm_state (sm, request->keys[cell])->flags & SM_KEY_RESIDENT) != 0)
    return SM_MISS_BROKEN_PREFIX;
  return cause_by_past (sm, request, cell);
}

void
sm_explain_request (LmtSm *sm, SmRequest *request)
{
  for (guint32 c = 0; c < request->n_cells; c++)
    if (!request->hit[c])
      request->result.misses[cause_of (sm, request, c)]++;
  for (guint m = 0; m < SM_N_MISS; m++)
    sm->counters.misses[m] += request->result.misses[m];
}

const char *
sm_miss_name (guint32 miss)
{
  static const char *const names[SM_N_MISS]
      = { "window",  "load failed", "no memory", "contended",    "broken prefix", "not yet stored",
          "expired", "evicted",     "removed",   "never stored", "first touch",   "unknown" };

  return miss < SM_N_MISS ? names[miss] : "unknown";
}
