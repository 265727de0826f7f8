/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <lmtrace/lmt-l2.h>

#include "arena.h"
#include "fold.h"
#include "manager.h"

G_BEGIN_DECLS

/**
 * SECTION: what the files of the manager share. State of a key hangs on LmtKey.id by arrays; records that come and go live in
 * slabs with free lists; arrays of varying length come from a pool by powers of two. So a warm working set allocates nothing.
 */
#define SM_NIL G_MAXUINT32
#define SM_NS_PER_S G_GINT64_CONSTANT (1000000000)
#define SM_TAG_WRITE G_MAXUINT64 /* `storage_manager`; a prefetch stages under its number */
#define SM_RETRY_NS (SM_NS_PER_S / 2)
enum
{
  SM_MAX_READERS = 128
};

/* ---- pool.c: arrays by size class, and growing scratch arrays ---- */
enum
{
  SM_N_CLASSES = 48
};
typedef struct
{
  gpointer unused[SM_N_CLASSES];
} SmPool;
gpointer sm_pool_take (SmPool *pool, gsize bytes, guint8 *size_class);
void sm_pool_give (SmPool *pool, gpointer memory, guint8 size_class);
void sm_pool_clear (SmPool *pool);

typedef struct
{
  LmtKey **data;
  guint n;
  guint size;
} SmKeys;
void sm_keys_grow (SmKeys *keys, guint wanted);
static inline void
sm_keys_add (SmKeys *keys, LmtKey *key)
{
  if (G_UNLIKELY (keys->n == keys->size))
    sm_keys_grow (keys, keys->n + 1);
  keys->data[keys->n++] = key;
}

typedef struct
{
  LmtEvictKey *data;
  guint n;
  guint size;
} SmEvictKeys;
void sm_evict_keys_grow (SmEvictKeys *keys, guint wanted);
static inline void
sm_evict_keys_add (SmEvictKeys *keys, const LmtKey *key)
{
  if (G_UNLIKELY (keys->n == keys->size))
    sm_evict_keys_grow (keys, keys->n + 1);
  keys->data[keys->n++] = (LmtEvictKey){ key->id, key->salt };
}

typedef struct
{
  gpointer data;
  gsize size; /* bytes */
} SmScratch;
/* At least @bytes, contents undefined after growth; never NULL. */
gpointer sm_scratch (SmScratch *scratch, gsize bytes);

/**
 * SmPartition: elements grouped by identity, groups in order of first appearance, order kept inside. Linear, whatever the input.
 */
typedef struct
{
  guint64 a;
  guint64 b;
} SmIdentity;
typedef struct
{
  SmScratch identities; /* SmIdentity, filled in by the caller */
  SmScratch slots;
  SmScratch part_of;
  SmScratch order_memory;
  SmScratch starts_memory;
  guint32 *order;  /* positions, group by group */
  guint32 *starts; /* n_parts + 1 */
  guint n_parts;
} SmPartition;
SmIdentity *sm_partition_begin (SmPartition *partition, guint n);
void sm_partition_end (SmPartition *partition, guint n);
void sm_partition_clear (SmPartition *partition);

/* ---- l1.c, l1-write.c ---- */
enum
{
  SM_KEY_RESIDENT = 1 << 0,
  SM_KEY_TEMPORARY = 1 << 1,
  SM_KEY_RETRY = 1 << 2, /* skip_l1: a refused deletion is remembered (0.5.7rc3) */
  SM_KEY_NAMED = 1 << 3, /* the history knows the key whose tag stands in history_tag */
};

/* One cache line: everything a call on a resident key touches. */
typedef struct
{
  guint64 address;
  guint64 bytes;
  gint64 read_expiry;
  guint32 read_count;
  guint32 owned;  /* locks handed to callers with a result and not returned yet */
  guint32 stages; /* first stage, SM_NIL: none */
  guint32 pins;   /* of the resident buffer: store tasks */
  guint32 mark;   /* position of the last mention in the running call, see sm_marks_begin() */
  guint32 prev;   /* resident keys, oldest first */
  guint32 next;
  guint32 history_tag;
  guint8 flags;
  guint8 unused[7];
} SmKeyState;

typedef struct
{
  LmtKey *key; /* valid while resident or staged */
  guint32 zombies;
  guint32 in_prefetch; /* cells of queued and running requests that name it */
} SmKeyCold;

/* A buffer in staging. */
typedef struct
{
  guint64 address;
  guint64 bytes;
  guint64 tag;
  gint64 expiry;
  guint32 count;
  guint32 pins;
  guint32 key;
  guint32 next; /* of the key; or unused */
  guint32 all_prev;
  guint32 all_next;
  guint8 temporary;
  guint8 unused[7];
} SmStage;

/* A block whose key is gone while an adapter may still touch it (storage-manager.md 19.2, pins). */
typedef struct
{
  LmtKey *key;
  guint64 address;
  guint64 bytes;
  guint32 pins;
  guint32 next;
  gboolean store;
} SmZombie;

typedef struct
{
  guint32 head;
  guint32 tail;
  guint32 n;
} SmList;

/* ---- io.c ---- */
typedef enum
{
  SM_IO_FREE = 0,
  SM_IO_QUEUED,
  SM_IO_TAKEN,
  SM_IO_ACCEPTED,
} SmIoState;

typedef struct _SmRequest SmRequest;
typedef struct _SmTask SmTask;
struct _SmTask
{
  SmIo io;
  guint32 state;
  guint8 size_class;
  guint8 late; /* its deadline passed: answered as failed already, only pins and locks are left */
  guint8 orphan;
  LmtKey **keys;
  guint64 *sizes;
  guint64 *addresses;
  guint32 *cells;     /* LOAD: cell of the request per position */
  SmRequest *request; /* LOOKUP, LOAD; NULL: orphan */
  SmTask *next;       /* output queue; or unused */
  SmTask *prev;
  SmTask *sibling; /* tasks of one request */
  SmTask *older;   /* accepted, by deadline */
  SmTask *newer;
  gint64 deadline;
};

typedef struct
{
  SmTask *head;
  SmTask *tail;
} SmTaskQueue;

/* ---- quota.c ---- */
typedef struct
{
  gint64 *limits; /* by salt number, -1: none */
  guint n_limits;
  gint64 fallback; /* -1: none */
  GArray *order;   /* guint32 salt numbers as they were set */
} SmQuotas;
void sm_quotas_init (SmQuotas *quotas);
void sm_quotas_clear (SmQuotas *quotas);
gboolean sm_quotas_set (SmQuotas *quotas, guint32 salt, gint64 limit);
gboolean sm_quotas_set_default (SmQuotas *quotas, gint64 limit);
void sm_quotas_clear_default (SmQuotas *quotas);
gboolean sm_quotas_delete (SmQuotas *quotas, guint32 salt);
gboolean sm_quotas_has (const SmQuotas *quotas, guint32 salt);
gint64 sm_quotas_get_limit (const SmQuotas *quotas, guint32 salt);     /* 0: none */
gint64 sm_quotas_get_effective (const SmQuotas *quotas, guint32 salt); /* -1: exempt */

/* Bytes per salt of one adapter, in the order in which salts appeared; a salt without bytes leaves. */
typedef struct
{
  guint64 bytes;
  guint32 prev;
  guint32 next;
} SmSaltUsage;
typedef struct
{
  guint64 used;
  SmSaltUsage *salts;
  guint n_salts;
  guint32 head;
  guint32 tail;
} SmUsage;
void sm_usage_init (SmUsage *usage);
void sm_usage_clear (SmUsage *usage);
void sm_usage_add (SmUsage *usage, guint32 salt, guint64 bytes);
void sm_usage_remove (SmUsage *usage, guint32 salt, guint64 bytes);

typedef struct
{
  SmEviction eviction;
  LmtEvict *policy; /* NULL: no eviction */
  guint64 capacity;
  SmUsage usage;
  gboolean delete_running;
  guint stores;
  guint64 fruitless_at; /* inputs there had been when a deletion deleted nothing: the next one would ask for the same */
} SmAdapter;

/* ---- history.c ---- */
typedef struct _SmHistory SmHistory;
enum
{
  SM_PAST_UNSEEN = 0,
  SM_PAST_NAMED,
  SM_PAST_EXPIRED,
  SM_PAST_EVICTED,
  SM_PAST_REMOVED,
  SM_PAST_FULL, /* beyond the bound: nothing is known */
};
SmHistory *sm_history_new (void);
void sm_history_free (SmHistory *history);
/* What was known of the key; it is named from now on. */
guint8 sm_history_name (SmHistory *history, guint64 hash);
guint8 sm_history_get (const SmHistory *history, guint64 hash);
/* Asks memory for what a look at this key needs. */
void sm_history_prefetch (const SmHistory *history, guint64 hash);
void sm_history_set (SmHistory *history, guint64 hash, guint8 past);
guint sm_history_size (const SmHistory *history);

/* ---- prefetch.c ---- */
typedef enum
{
  SM_REQUEST_QUEUED = 0,
  SM_REQUEST_LOOKUP,
  SM_REQUEST_LOAD,
  SM_REQUEST_DONE,
} SmRequestState;

#define SM_PLAN_NONE G_MAXUINT16
#define SM_PLAN_L1 (G_MAXUINT16 - 1)

/* Marks of a cell. */
enum
{
  SM_CELL_L1 = 1 << 0,     /* this request holds its locks on the resident object */
  SM_CELL_STAGED = 1 << 1, /* a buffer is staged for it */
  SM_CELL_LOADED = 1 << 2,
  SM_CELL_SHARED = 1 << 3, /* second mention of a loaded key: the locks are the first one's */
  SM_CELL_FOUND = 1 << 4,  /* some tier had it */
  SM_CELL_NAMED = 1 << 5,  /* somebody had named the key before this call */
  SM_CELL_LOOKED = 1 << 6, /* a lookup found it */
};
/* Bits of a cell's troubles. */
enum
{
  SM_TROUBLE_LOAD = 1 << 0,
  SM_TROUBLE_MEMORY = 1 << 1,
  SM_TROUBLE_CONTENDED = 1 << 2,
};

struct _SmRequest
{
  guint64 id;
  guint32 state;
  guint32 n_rows;
  guint32 n_columns;
  guint32 n_cells;
  guint32 locks; /* readers, clamped */
  guint32 policy;
  guint8 no_lock;
  guint8 look_l1;
  guint8 has_windows;
  guint8 size_class;
  guint8 aborted;
  guint8 held;     /* keys are referenced and counted in in_prefetch */
  guint8 repeats;  /* a key was loaded for two cells */
  guint32 lookups; /* unanswered */
  guint32 loads;
  guint32 to_accept; /* submits of the phase the adapters have not taken yet */
  guint32 n_load_cells;
  gpointer memory;
  LmtKey **keys;
  guint64 *bytes; /* per row, or per cell if mixed */
  gint64 *windows;
  guint32 *load_cells; /* cells of all loads: event of the whole request */
  guint16 *plan;
  guint8 *marks;
  guint8 *troubles;
  guint8 *locked; /* n_l2 grids: this request holds a lookup lock */
  guint8 *grid;   /* scratch grid */
  guint8 *columns;
  guint8 *hit, *l1_hit, *l2_hit, *found;
  gboolean mixed;
  SmTask *tasks;
  SmRequest *next; /* queue, results or unused */
  SmRequest *prev_running;
  SmRequest *next_running;
  guint64 total_bytes; /* of all cells: admission of 0.5.7rc3 */
  SmPrefetchResult result;
};

typedef struct
{
  SmRequest *head;
  SmRequest *tail;
  guint n;
} SmRequestQueue;

struct _LmtSm
{
  SmConfig config;
  LmtKeyTable *table;
  gint64 now;
  gint64 read_ttl;
  gint64 write_ttl;
  gboolean closed;
  gboolean abandoned;
  SmListener listener;
  gpointer listener_data;
  SmVictim victim;
  gpointer victim_data;
  gboolean in_pass; /* what leaves now leaves by an L1 pass */
  SmL2Locked l2_locked;
  gpointer l2_locked_data;

  /* L1 */
  SmArena *arena;
  LmtEvict *policy;
  SmKeyState *states;
  SmKeyCold *cold;
  guint n_states;    /* made ready */
  guint size_states; /* with memory */
  guint32 next_mark;
  SmList residents;
  SmStage *stages;
  guint n_stages;
  guint32 unused_stage;
  SmList staged;
  guint64 staging_bytes;
  SmZombie *zombies;
  guint n_zombies;
  guint32 unused_zombie;
  guint live_zombies;

  /* work of one call on L1, done at its end */
  SmKeys unrefs;
  SmKeys evicted;
  SmEvictKeys gone;
  SmEvictKeys notes;
  SmKeys first, second; /* lists of events and announcements */
  SmBlock *frees;
  guint n_frees;
  guint size_frees;
  guint32 past; /* cause the history learns for what leaves */

  /* adapters and tasks */
  SmAdapter *adapters;
  SmTaskQueue queue;
  guint n_queued;
  guint n_outstanding; /* accepted or taken, unlocks excepted */
  SmTask *taken_unlock;
  SmTask *unused_task;
  SmTask *oldest, *newest; /* accepted, with a deadline */
  SmTask **by_id;
  guint by_id_size;
  guint by_id_used;
  guint32 next_id;
  SmPool pool;
  GArray *victims;
  SmScratch codes, addresses, classes, blocks, cells, task_codes;
  SmPartition partition;
  SmKeys keys_scratch, failed_keys;
  SmKeys lent; /* victims handed out by the last input */
  SmScratch result_codes, result_addresses;

  /* store */
  SmKeys store_batch;
  GArray *retries; /* LmtKey* of refused deletions */
  gint64 last_retry;

  /* prefetch */
  guint64 next_request;
  SmRequestQueue waiting;
  SmRequestQueue results;
  SmRequest *running;
  guint n_running;
  SmRequest *unused_request;
  SmRequest *taken_result;
  guint64 lookup_bytes; /* of running requests still in lookup */

  /* eviction */
  gint64 next_pass;
  gint64 idle_until; /* passes before it delete nothing unless an input comes */
  guint64 n_inputs;  /* that may change what a pass of L2 deletes; from 1 */
  SmQuotas quotas;
  SmHistory *history;
  SmCounters counters;
  char tag_text[32];
};

/* ---- manager.c ---- */
void sm_enter (LmtSm *sm, gint64 now_ns); /* start of every input */
void sm_run (LmtSm *sm);                  /* its end: 19.2 */
static inline void
sm_emit (LmtSm *sm, const SmEvent *event)
{
  sm->listener (event, sm->listener_data);
}
const char *sm_tag_text (LmtSm *sm, guint64 tag);

/* ---- l1.c ---- */
void sm_l1_init (LmtSm *sm);
void sm_l1_free (LmtSm *sm);
void sm_l1_ensure (LmtSm *sm);
guint32 sm_marks_begin (LmtSm *sm, guint n); /* marks of this call are >= the base it returns */
void sm_codes_merge (LmtSm *sm, LmtKey *const *keys, guint n, guint8 *codes, guint32 base);
static inline SmKeyState *
sm_state (LmtSm *sm, const LmtKey *key)
{
  return &sm->states[key->id];
}
static inline gboolean
sm_read_held (const LmtSm *sm, const SmKeyState *state)
{
  return state->read_count > 0 && sm->now < state->read_expiry;
}
static inline gboolean
sm_stage_held (const LmtSm *sm, const SmStage *stage)
{
  return stage->count > 0 && sm->now < stage->expiry;
}
void sm_read_lock (LmtSm *sm, SmKeyState *state, guint32 locks);
static inline void
sm_read_unlock (SmKeyState *state, guint32 locks)
{
  state->read_count -= MIN (locks, state->read_count);
}
void sm_l1_reserve_read (LmtSm *sm, LmtKey *const *keys, guint n, guint32 locks, guint8 *codes);
void sm_l1_unsafe_read (LmtSm *sm, LmtKey *const *keys, guint n, guint8 *codes);
/* @by_caller: returned by a call: locks not owned by it are counted as anomalies */
void sm_l1_finish_read (LmtSm *sm, LmtKey *const *keys, guint n, guint32 locks, gboolean by_caller, guint8 *codes);
void sm_l1_delete (LmtSm *sm, LmtKey *const *keys, guint n, gboolean force, guint32 past, guint8 *codes);
void sm_l1_clear (LmtSm *sm, gboolean force);
void sm_l1_touch (LmtSm *sm, LmtKey *const *keys, guint n);
gboolean sm_l1_is_evictable (LmtSm *sm, guint32 id);
/* Ends what a call on L1 dropped: frees, policy, event, references. @event: l1.keys.evicted is sent */
void sm_l1_flush (LmtSm *sm, gboolean event);
void sm_l1_drop_resident (LmtSm *sm, LmtKey *key, SmKeyState *state);
void sm_l1_drop_stage (LmtSm *sm, LmtKey *key, SmKeyState *state, guint32 stage);
void sm_l1_free_block (LmtSm *sm, LmtKey *key, guint64 address, guint64 bytes, guint32 pins, gboolean store);
void sm_l1_unpin (LmtSm *sm, LmtKey *key, guint64 address);
void sm_l1_pin_resident (LmtSm *sm, LmtKey *key);
guint32 sm_l1_find_stage (const LmtSm *sm, const SmKeyState *state, guint64 tag);
gint64 sm_l1_next_expiry (LmtSm *sm); /* earliest end of a held lock, G_MAXINT64: none is held */

/* ---- l1-write.c ---- */
typedef struct
{
  LmtKey *const *keys;
  guint n;
  guint64 bytes;
  guint64 tag;
  gboolean temporary;
  const guint8 *temporaries; /* (nullable): per key instead, n_temporaries of them */
  guint n_temporaries;
  guint32 mode; /* SmWriteMode */
} SmReserve;
/* NULL, or the value error: nothing was changed. @addresses: G_MAXUINT64 for keys without a buffer. */
const char *sm_l1_reserve_write (LmtSm *sm, const SmReserve *reserve, guint8 *codes, guint64 *addresses);
void sm_l1_finish_write (LmtSm *sm, LmtKey *const *keys, guint n, guint64 tag, guint8 *codes);
void sm_l1_finish_write_and_reserve_read (LmtSm *sm, LmtKey *const *keys, guint n, guint32 locks, guint64 tag, guint8 *codes);
void sm_l1_finish_write_and_delete (LmtSm *sm, LmtKey *const *keys, guint n, guint64 tag, guint8 *codes);
/* Gives up the staging whose buffer is at @address, whatever its lock says (defect 4); sm_l1_flush() ends it. */
void sm_l1_forget_stage (LmtSm *sm, LmtKey *key, guint64 address);
guint32 sm_stage_new (LmtSm *sm, LmtKey *key, SmKeyState *state, guint64 tag);

/* ---- io.c ---- */
/* A task with room for @n positions, keys not filled in; its keys are referenced by sm_task_queue(). */
SmTask *sm_task_new (LmtSm *sm, SmIoKind kind, guint32 adapter, guint n);
void sm_task_add (SmTask *task, LmtKey *key, guint64 bytes, guint64 address, guint32 cell);
void sm_task_queue (LmtSm *sm, SmTask *task);
void sm_task_free (LmtSm *sm, SmTask *task); /* in no queue any more */
void sm_task_withdraw (LmtSm *sm, SmTask *task);
SmTask *sm_task_by_id (LmtSm *sm, guint32 id);
void sm_task_deadlines (LmtSm *sm);
void sm_tasks_free (LmtSm *sm);
static inline gboolean
sm_code_is_good (guint8 code)
{
  return code == LMT_L2_OK || code == LMT_L2_PRESENT;
}

/* ---- store.c ---- */
void sm_store_run (LmtSm *sm);
void sm_store_accepted (LmtSm *sm, SmTask *task);
void sm_store_refused (LmtSm *sm, SmTask *task);
void sm_store_completed (LmtSm *sm, SmTask *task, const guint8 *codes, guint64 bytes);
void sm_store_retry (LmtSm *sm);

/* ---- prefetch.c, prefetch-load.c ---- */
const char *sm_prefetch_submit (LmtSm *sm, const SmCall *call, SmResult *result);
void sm_prefetch_run (LmtSm *sm);
void sm_prefetch_lock_pass (LmtSm *sm, SmRequest *request);
void sm_prefetch_plan (LmtSm *sm, SmRequest *request);
/* The locks in L2 on cells that aren't wanted from that adapter are given back, a task per adapter. */
typedef gboolean (*SmCellFunc) (const SmRequest *request, guint adapter, guint32 cell);
void sm_prefetch_unlock (LmtSm *sm, SmRequest *request, SmCellFunc is_wanted);
void sm_prefetch_reserve_and_load (LmtSm *sm, SmRequest *request);
void sm_prefetch_finish (LmtSm *sm, SmRequest *request);
void sm_prefetch_abort (LmtSm *sm, SmRequest *request, gboolean result);
void sm_prefetch_accepted (LmtSm *sm, SmTask *task);
void sm_prefetch_refused (LmtSm *sm, SmTask *task);
void sm_lookup_completed (LmtSm *sm, SmTask *task, const guint8 *codes);
void sm_load_completed (LmtSm *sm, SmTask *task, const guint8 *codes, guint64 bytes);
void sm_request_drop_task (SmRequest *request, SmTask *task);
void sm_request_deliver (LmtSm *sm, SmRequest *request);
void sm_request_free (LmtSm *sm, SmRequest *request);
void sm_requests_close (LmtSm *sm);
void sm_requests_free (LmtSm *sm);
static inline guint64
sm_request_bytes (const SmRequest *request, guint32 cell)
{
  return request->bytes[request->mixed ? cell : cell / request->n_columns];
}

/* ---- explain.c ---- */
void sm_explain_named (LmtSm *sm, LmtKey *const *keys, guint n);
guint8 sm_explain_name (LmtSm *sm, LmtKey *key); /* SM_CELL_NAMED: it was named before */
void sm_explain_left (LmtSm *sm, LmtKey *key, guint8 past);
void sm_explain_request (LmtSm *sm, SmRequest *request);

/* ---- evict.c ---- */
gboolean sm_evict_l1_pass (LmtSm *sm, GPtrArray *victims, GArray *codes, gboolean *triggered);
gboolean sm_evict_l2_pass (LmtSm *sm, guint32 adapter, GArray *decisions, GPtrArray *victims);
void sm_delete_completed (LmtSm *sm, SmTask *task, const guint8 *codes);

G_END_DECLS
