/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What lmt-l2-layer.c (tasks over objects) and lmt-l2-open.c (open, scan, close, host) share; nobody else sees it. */
#include <pthread.h>
#include <stdatomic.h>

#include "lmt-l2-layer.h"

/* An operation's place in LmtL2Task.codes while the task is the layer's: one of these, or an LmtL2Code with flags. */
enum
{
  OP_TODO = 0xff,
  OP_REPEATED = 0xfe, /* key stands earlier in the task */
  OP_HOLDS = 0x80,    /* flag: was with the plugin, its key is held until the task is handed over */
  OP_COUNTED = 0x40,  /* flag: store that passed the capacity check at submit */
  OP_CODE = 0x0f,
};

enum
{
  WRITER_NONE,
  WRITER_STORE,
  WRITER_DELETE,
};

/* State of one key, at index LmtKey.id: one cache line. */
typedef struct
{
  LmtKey *key;      /* our reference; NULL: neither known to be there nor locked */
  guint64 bytes;    /* size of the object (known, or of the store just done) */
  guint64 reserved; /* room taken for stores that are not handed over */
  guint64 mark;     /* pass that saw the key last, and where */
  guint32 mark_index;
  guint32 locks;
  guint32 readers;   /* lookups and loads of tasks not handed over */
  guint32 stores;    /* stores accepted and not handed over */
  guint32 wait_head; /* operations that wait for the key: index + 1 into waiters */
  guint32 wait_tail;
  guint8 writer;
  guint8 present;
  guint8 just_stored; /* the writer that left was a store that succeeded, with `bytes` */
  guint8 ready;       /* stands in the ready ring */
} LmtL2KeyState;

typedef struct
{
  LmtL2Task *task;
  guint32 index;
  guint32 next; /* index + 1 */
} LmtL2Waiter;

/* What the core knows of a slot, out of the plugin's reach. */
typedef struct
{
  LmtL2Task *task;
  gint64 submit_ns;
  guint32 index;
  guint32 id;
  guint8 kind;
  guint8 with_plugin;
  guint8 overdue; /* its deadline has passed, the plugin was asked to give it back */
  guint8 tries;
  guint8 known_message; /* a wrong hand-back of this slot was told */
} LmtL2Slot;

typedef struct
{
  char *kind;
  guint64 n;
} LmtL2MessageCount;

struct _LmtL2
{
  /* hot */
  const LmtL2Ops *ops;
  gpointer handle;
  int fd; /* what get_fd said after open; -1: none */
  LmtL2KeyState *states;
  guint32 n_states;
  guint32 depth;
  guint32 in_flight;
  guint32 n_free;
  guint32 free_head; /* ring: slots reused as late as possible */
  guint32 n_slots;
  guint32 n_retry;
  guint32 last_io_id;
  guint32 next_task_id;
  guint32 n_outstanding;
  guint8 blocked; /* submit said BUSY: wait for a reap */
  guint8 dirty;   /* submits since the last flush */
  guint8 closed;
  guint8 keep;
  guint8 wire;
  guint8 file;
  guint8 data;
  guint8 scanned; /* what lies there is known, so what turns up is counted */
  guint64 mark;
  guint64 used;
  guint64 reserved;
  guint64 capacity;
  guint64 charge;
  LmtL2Io *ios;
  LmtL2Key *io_keys;
  LmtL2Slot *slots;
  guint32 *free_slots;
  guint32 *retry;
  LmtL2Task *pending_head, *pending_tail;
  LmtL2Task *done_head, *done_tail;
  guint32 *ready;
  guint32 ready_size, ready_head, ready_n;
  LmtL2Waiter *waiters;
  guint32 n_waiters, waiters_free;
  guint64 *used_by_salt;
  guint32 n_salts;
  LmtKey **event_keys;
  guint64 *event_sizes;
  guint32 event_size;
  gint64 now;
  gint64 io_timeout_ns; /* 0: none */
  gint64 next_deadline; /* no operation with the plugin is overdue before; G_MAXINT64: none is known */
  gint64 last_account;
  double depth_area;
  guint32 done_n[LMT_L2_N_KINDS];
  LmtL2EventFunc event_func;
  gpointer event_data;
  LmtL2ObserveFunc observe;
  gpointer observe_data;
  LmtL2Figures figures;

  /* cold */
  LmtL2Config *config;
  LmtL2Params params;
  LmtL2Host host;
  LmtL2Info info;
  int event_fds[LMT_L2_N_KINDS];
  GArray *found; /* scan: until somebody listens */
  GPtrArray *inner;
  GPtrArray *status; /* at close: key and value in turn */
  gboolean usage_exact;
  pthread_mutex_t message_mutex;
  GArray *messages;    /* LmtL2MessageCount; under the mutex */
  GPtrArray *unspoken; /* kind and text in turn; under the mutex */
  atomic_uint n_unspoken;
};

LmtL2KeyState *lmt_l2_state_slow (LmtL2 *l2, const LmtKey *key);
static inline LmtL2KeyState *
lmt_l2_state (LmtL2 *l2, const LmtKey *key)
{
  return G_LIKELY (key->id < l2->n_states) ? &l2->states[key->id] : lmt_l2_state_slow (l2, key);
}
static inline guint64
lmt_l2_charge (const LmtL2 *l2, guint64 bytes)
{
  return l2->charge != 0 ? l2->charge : bytes;
}
void lmt_l2_learn (LmtL2 *l2, LmtKey *key, guint64 bytes);
void lmt_l2_forget (LmtL2 *l2, LmtL2KeyState *state);
gboolean lmt_l2_reserve (LmtL2 *l2, LmtL2KeyState *state, guint64 bytes);
void lmt_l2_apply (LmtL2 *l2, LmtL2Task *task);
void lmt_l2_apply_done (LmtL2 *l2);
gboolean lmt_l2_is_idle (const LmtL2 *l2);
guint lmt_l2_abandon (LmtL2 *l2);
/* Messages come from any thread and are shown on the driving one. */
void lmt_l2_speak (LmtL2 *l2);
static inline void
lmt_l2_speak_if_any (LmtL2 *l2)
{
  if (G_UNLIKELY (atomic_load_explicit (&l2->n_unspoken, memory_order_relaxed) > 0))
    lmt_l2_speak (l2);
}
void lmt_l2_say (LmtL2 *l2, const char *kind, const char *format, ...) G_GNUC_PRINTF (3, 4);

/* lmt-l2-config.c */
gconstpointer lmt_l2_config_get_struct (const LmtL2Config *config);
LmtRegistry *lmt_l2_config_get_registry (const LmtL2Config *config);
LmtL2Config *lmt_l2_config_parse_inner (const LmtL2Config *outer, const char *json_text, GError **error);
