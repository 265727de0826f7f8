/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <string.h>

#include "lmt-key.h"
#include "lmt-option.h"

G_BEGIN_DECLS

/**
 * SECTION: the border of L2 adapters, member by member as l2-adapters.md 2.4 has it. A plugin moves single objects; core's
 * lmt-l2-layer makes tasks of them and owns locks, usage, capacity, depth, events and drain.
 */
typedef enum
{
  LMT_L2_OK = 0,
  LMT_L2_NOT_FOUND = 1,
  LMT_L2_IO = 2,
  LMT_L2_BUSY = 3,
  LMT_L2_TIMEOUT = 4,
  LMT_L2_DENIED = 5,
  LMT_L2_NO_SPACE = 6,
  LMT_L2_UNSUPPORTED = 7,
  LMT_L2_DATA = 8,
  LMT_L2_LOCKED = 9,
  LMT_L2_CLOSED = 10,
  LMT_L2_PRESENT = 11, /* store: was there already; counts as success */
} LmtL2Code;
enum
{
  LMT_L2_N_CODES = 12
};
const char *lmt_l2_code_name (guint32 code); /* "ok", "not-found", "io", … */

typedef enum
{
  LMT_L2_STORE = 0,
  LMT_L2_LOAD = 1,
  LMT_L2_LOOKUP = 2,
  LMT_L2_DELETE = 3,
} LmtL2Kind;
enum
{
  LMT_L2_N_KINDS = 4
};
const char *lmt_l2_kind_name (guint32 kind);

/* What submit says. */
typedef enum
{
  LMT_L2_SUBMIT_QUEUED = 0, /* reap will hand it back */
  LMT_L2_SUBMIT_DONE = 1,   /* the result is in the io; reap won't give it */
  LMT_L2_SUBMIT_BUSY = 2,   /* nothing was taken: offered again after the next reap */
} LmtL2Submit;

enum
{
  LMT_THREADS_ONE = 0,        /* one call at a time for the whole plugin */
  LMT_THREADS_PER_HANDLE = 1, /* one call at a time per handle */
  LMT_THREADS_PARALLEL = 2,
};

/* LmtL2Info.capabilities */
enum
{
  LMT_L2_CAP_KEEP = 1 << 0, /* stored objects are found again */
  LMT_L2_CAP_DATA = 1 << 1, /* their bytes come back */
  LMT_L2_CAP_PERSIST = 1 << 2,
  LMT_L2_CAP_DELETE = 1 << 3,
  LMT_L2_CAP_CAPACITY = 1 << 4,
  LMT_L2_CAP_TAMPER = 1 << 5,
  LMT_L2_CAP_DIRECT = 1 << 6,
  LMT_L2_CAP_REGISTER_MEMORY = 1 << 7,
};

/* LmtL2Info.flags */
enum
{
  LMT_L2_INFO_NO_WIRE = 1 << 0, /* the plugin never reads LmtL2Key.wire: it may stay NULL and is not made */
  LMT_L2_INFO_NO_FILE = 1 << 1, /* the same for LmtL2Key.file */
  LMT_L2_INFO_FAULTS = 1 << 3,  /* results are made wrong on purpose: every report of the run says so */
  LMT_L2_INFO_NO_SCAN = 1 << 2, /* what lies there is not looked at: usage counts from the start of the run, and says so */
};

/**
 * LmtL2Key: key of an io, ready-made in each form; all strings NUL-terminated, alive until the io is reaped. @wire and @file are
 * made on the first operation of a key and kept with it; a plugin that needs none says so in LmtL2Info.flags and saves the time.
 */
typedef struct
{
  LmtKeyFields fields;
  const char *wire;
  const char *file;
  guint32 wire_len;
  guint32 file_len;
  guint64
      hash64; /* over all fields, keyed by a secret of the process: for a plugin's own tables; equal hashes still need a look */
} LmtL2Key;

/* TRUE if all five fields are equal. */
static inline gboolean
lmt_key_fields_equal (const LmtKeyFields *a, const LmtKeyFields *b)
{
  return a->group == b->group && a->rank == b->rank && a->hash_len == b->hash_len && a->model_len == b->model_len
         && a->salt_len == b->salt_len && memcmp (a->hash, b->hash, a->hash_len) == 0
         && memcmp (a->model, b->model, a->model_len) == 0 && memcmp (a->salt, b->salt, a->salt_len) == 0;
}

/**
 * LmtL2Io: one operation on one object, out of the core's slab (64-byte aligned, `depth` of them). The plugin's from submit
 * (QUEUED) to reap; then, and then only, it writes the out members.
 */
typedef struct
{
  /* in */
  guint32 struct_size;
  guint32 kind;  /* LmtL2Kind */
  guint32 id;    /* never 0 in flight: goes down to the device */
  guint32 task;  /* which task of the core, */
  guint32 index; /* position in it, */
  guint32 count; /* how many keys it has */
  const LmtL2Key *key;
  void *buffer; /* STORE, LOAD; NULL if the run keeps no data */
  guint64 buffer_bytes;
  gint32 region; /* number of the registered pool `buffer` lies in, or -1 */
  guint32 reserved0;
  guint64 expected_bytes; /* LOOKUP: size the object should have, 0 = unknown */
  gint64 deadline_ns;     /* host clock; 0 = none. Then core cancels; a plugin that knows better may answer TIMEOUT itself */
  /* out */
  guint32 code;            /* LmtL2Code */
  gint32 os_error;         /* errno or device status, 0 = none */
  guint64 done_bytes;      /* moved */
  guint64 object_bytes;    /* size of the object on the medium */
  gint64 service_start_ns; /* host clock; 0 = unknown */
  guint64 plugin[4];       /* scratch words of the plugin */
  guint64 core[7];         /* the core's own; fills the cache line */
} LmtL2Io;

typedef struct _LmtL2Queue LmtL2Queue;

/**
 * LmtL2Host: what the core gives a handle; lives as long as it.
 * @now_ns: the injected clock: the only one a plugin models with
 * @message: (kind, text): ten of a kind are shown, the rest counted. Any thread. A kind that begins with "info" is an info line,
 *   any other a warning. Text begins with the adapter's type: `fs: /data/kv: …`
 * @may_destroy: TRUE if the user named this very target with --yes-destroy
 * @open_inner: a whole adapter by its JSON, with the same calls: for wrappers. (out): ops, handle, info. The wrapper owns the
 *   handle and closes it. The option that holds the JSON is flagged LMT_OPTION_ADAPTER, so that core reads it with the rest. The
 *   inner gets ios of the wrapper's own, or its scratch words would be the wrapper's
 */
typedef struct _LmtL2Host LmtL2Host;
typedef struct _LmtL2Ops LmtL2Ops;
typedef struct _LmtL2Info LmtL2Info;
struct _LmtL2Host
{
  guint32 struct_size;
  guint32 adapter; /* number of the adapter, from 0 */
  gpointer data;
  gint64 (*now_ns) (gpointer data);
  void (*message) (gpointer data, const char *kind, const char *text);
  gboolean (*may_destroy) (gpointer data, const char *target);
  gboolean (*open_inner) (gpointer data, const char *json, const LmtL2Ops **ops, gpointer *handle, LmtL2Info *info,
                          GError **error);
  /* common keys of the adapter's configuration */
  guint32 shared;
  guint32 persist_enabled;
  guint32 eviction;             /* one is configured */
  guint32 data_wanted;          /* FALSE: buffers are NULL, sizes only */
  guint64 largest_object_bytes; /* 0 = unknown */
};

struct _LmtL2Info
{
  guint32 struct_size;
  guint32 capabilities;
  guint32 depth; /* most ios it takes; 0 counts as 1 */
  guint32 flags; /* LMT_L2_INFO_… */
  guint64 buffer_align;
  guint64 length_align;
  guint64 capacity_bytes;  /* 0: the configuration's */
  guint64 charge_bytes;    /* 0: an object costs its length */
  gint64 close_timeout_ns; /* how long close may wait for what is in flight; 0: 30 s */
};

/**
 * LmtL2Visit: one object found at open: its key (copied by the core), its bytes on the medium and when it was written (any clock,
 * any order: the core sorts by time, then by file name).
 */
typedef void (*LmtL2Visit) (gpointer data, const LmtKeyFields *key, guint64 bytes, gint64 time_ns);
typedef void (*LmtL2AddStatus) (gpointer data, const char *key, const char *value);

/**
 * LmtL2Ops: table of an adapter. Members marked R are required.
 */
struct _LmtL2Ops
{
  guint32 struct_size;
  guint32 threads;
  const char *name; /* R */
  const char *summary;
  const char *const *aliases; /* NULL-terminated */
  const LmtOption *options;   /* keys of the configuration object; the common ones are the core's */
  guint32 config_size;
  guint32 reserved;
  /* R. May block; acquires; fills @info. @config is filled from `options`. @type: the name or alias asked for. */
  gpointer (*open) (gconstpointer config, const char *type, const LmtL2Host *host, LmtL2Info *info, GError **error);
  void (*close) (gpointer handle); /* R. Once, after the drain or its deadline: joins its threads, touches nothing afterwards */
  guint32 (*submit) (gpointer handle, LmtL2Io *io);              /* R. LmtL2Submit; never blocks on I/O */
  guint32 (*reap) (gpointer handle, LmtL2Io **ios, guint32 max); /* R. Never blocks */
  void (*flush) (gpointer handle);
  int (*get_fd) (gpointer handle);
  gint64 (*next_due_ns) (gpointer handle); /* -1: none */
  gboolean (*register_memory) (gpointer handle, void *base, guint64 bytes, guint32 region, GError **error);
  gboolean (*scan) (gpointer handle, LmtL2Visit visit, gpointer data, GError **error);
  /* Past its deadline, or at close. Best effort: the io still comes back, as CLOSED unless it was done already. */
  void (*cancel) (gpointer handle, LmtL2Io *io);
  void (*status) (gpointer handle, LmtL2AddStatus add, gpointer data);
  /* Adapter check only. @action: "truncate", "append", "remove", "debris" (returns a count of foreign entries). -1: no such
   * thing. */
  gint64 (*tamper) (gpointer handle, const LmtL2Key *key, const char *action, guint64 bytes);
  /* Checks the filled configuration before anything is opened; no side effects. Message without the adapter's name in front. */
  gboolean (*check) (gconstpointer config, const char *type, GError **error);
};

/**
 * LmtL2Queue: bounded completion queue with an eventfd, for plugins with worker threads. @size: at least the depth given in
 * LmtL2Info, so that a push always finds room. The descriptor is readable while something waits. An empty queue is asked without
 * a system call, a burst of pushes costs one.
 */
LmtL2Queue *lmt_l2_queue_new (guint32 size);
void lmt_l2_queue_free (LmtL2Queue *queue);
int lmt_l2_queue_fd (LmtL2Queue *queue);
void lmt_l2_queue_push (LmtL2Queue *queue, LmtL2Io *io); /* any thread */
guint32 lmt_l2_queue_reap (LmtL2Queue *queue, LmtL2Io **ios, guint32 max);

G_END_DECLS
