/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <string.h>

#include "lmt-key.h"
#include "lmt-option.h"

G_BEGIN_DECLS

/**
 * SECTION: the border of L2 adapters. A plugin moves single objects; core's lmt-l2-layer makes tasks of them and owns ids,
 * repeated keys, locks, one store per key in flight, usage per salt, capacity, depth, events, drain and deadline. So a plugin
 * never sees a lock, a batch or two operations on one key at a time where one of them writes.
 *
 * Life of a handle: check (anything wrong with the configuration?), open, get_fd, register_memory, scan; then submit, flush, reap
 * in any order; close. Life of an io: the core fills its "in" members and calls submit. DONE: the plugin filled "out" there and
 * then. QUEUED: it is the plugin's, on any thread of it, until reap hands it back; "out" is filled before that. BUSY: nothing was
 * taken. Threads: the core calls from one thread at a time per handle. A plugin's own threads may fill "out" and push to an
 * LmtL2Queue. What a plugin promises: every io taken comes back exactly once, errors included; an object is found only when it is
 * whole; an io, its key and its buffer aren't touched after they were handed back, and nothing at all after close has returned.
 * Source: the contract of LMCache's L2 adapters (lookup, store, load, delete of objects under a key), split between core and
 * plugin. Errors: LMT_L2_ERROR in GErrors (open, check, scan, register_memory), the same numbers as LmtL2Io.code. doc/adapter.md
 * is the walk through it.
 *
 * Since: 0.1
 */
/**
 * LmtL2Code: how an operation ended; LmtL2Io.code. The numbers are those of LMT_L2_ERROR, too, and are only ever appended.
 * Anything else in an io counts as IO and as an error of the plugin.
 */
typedef enum
{
  LMT_L2_OK = 0,          /* store: written now; load: the buffer is filled; lookup: it is there; delete: it is gone */
  LMT_L2_NOT_FOUND = 1,   /* no error: a miss */
  LMT_L2_IO = 2,          /* the medium or the way to it; os_error says more */
  LMT_L2_BUSY = 3,        /* out of something (descriptors): offered again with half the depth, three times at most */
  LMT_L2_TIMEOUT = 4,     /* the plugin's own time limit, or LmtL2Io.deadline_ns */
  LMT_L2_DENIED = 5,      /* permission, read-only medium, credentials */
  LMT_L2_NO_SPACE = 6,    /* store: this object doesn't fit; nothing of it stays */
  LMT_L2_UNSUPPORTED = 7, /* this key or size can't be (name too long) */
  LMT_L2_DATA = 8,        /* load: there, but not what was stored: size, checksum. A miss; the next store repairs it */
  LMT_L2_LOCKED = 9,      /* the core's: delete of a locked key. A plugin never says it */
  LMT_L2_CLOSED = 10,     /* cancelled */
  LMT_L2_PRESENT = 11,    /* store: was there already, with this size; counts as success, done_bytes is 0 */
} LmtL2Code;
enum
{
  LMT_L2_N_CODES = 12
};
const char *lmt_l2_code_name (guint32 code); /* "ok", "not-found", "io", … Static; any number gives a text */

/**
 * LmtL2Kind: what is asked. @buffer and @buffer_bytes are those of the io.
 * STORE: put buffer_bytes from buffer under the key. Look first: an object of that size is PRESENT and no byte is moved (objects
 * don't change: the key holds a hash of the content); one of another size is damage and is replaced. Others may only ever see the
 * old object, the new one or none. LOAD: fill the buffer with the object. Its size must be buffer_bytes exactly, else DATA; never
 * write past buffer_bytes. LOOKUP: is it there? object_bytes = its size if that is known without reading it. expected_bytes: the
 * size it should have, 0 = not known. DELETE: remove it. object_bytes = what it held. Only asked of plugins with
 * LMT_L2_CAP_DELETE.
 */
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
  /* Nothing was taken: offered again after the next reap, or a millisecond later if nothing is in flight. */
  LMT_L2_SUBMIT_BUSY = 2,
} LmtL2Submit;

/* LmtL2Ops.threads: what the plugin stands; the core never calls more than this allows. A plugin that says nothing is safe. */
enum
{
  LMT_THREADS_ONE = 0,        /* one call at a time for the whole plugin */
  LMT_THREADS_PER_HANDLE = 1, /* one call at a time per handle */
  LMT_THREADS_PARALLEL = 2,
};

/* LmtL2Info.capabilities. What isn't claimed isn't asked for, and its scenarios don't apply in check-adapter; what is claimed is
 * checked there. */
enum
{
  LMT_L2_CAP_KEEP = 1 << 0,     /* stored objects are found again */
  LMT_L2_CAP_DATA = 1 << 1,     /* their bytes come back; without, loads leave the buffer alone */
  LMT_L2_CAP_PERSIST = 1 << 2,  /* objects outlive close and a killed process; brings scan */
  LMT_L2_CAP_DELETE = 1 << 3,   /* DELETE works; needed for eviction */
  LMT_L2_CAP_CAPACITY = 1 << 4, /* a limit can be set: an option flagged LMT_OPTION_CAPACITY, or LmtL2Info.capacity_bytes */
  LMT_L2_CAP_TAMPER = 1 << 5,   /* LmtL2Ops.tamper works: check-adapter may damage objects */
  LMT_L2_CAP_DIRECT = 1 << 6,   /* goes past the page cache; for reports */
  LMT_L2_CAP_REGISTER_MEMORY = 1 << 7, /* LmtL2Ops.register_memory is worth calling */
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
 * LmtL2Key: key of an io, ready-made in each form; all strings NUL-terminated, alive until the io is reaped. @wire is one-to-one
 * with the key;
 * @file is LMCache's file name, where "/" of the model is "-SEP-": two models may share it, so who uses it refuses models that
 * hold "-SEP-". @wire and @file are made on the first operation of a key and kept with it; a plugin that needs none says so in
 * LmtL2Info.flags and saves the time.
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

/* TRUE if all five fields are equal. Any thread. */
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
  void *buffer;         /* STORE, LOAD; NULL if the run keeps no data. Lent until the io is handed back. Any alignment */
  guint64 buffer_bytes; /* the object's size; also without a buffer */
  gint32 region;        /* number of the registered pool `buffer` lies in, or -1 */
  guint32 reserved0;
  guint64 expected_bytes; /* LOOKUP: size the object should have, 0 = unknown */
  gint64 deadline_ns;     /* host clock; 0 = none. Then core cancels; a plugin that knows better may answer TIMEOUT itself */
  /* out */
  guint32 code;       /* LmtL2Code; is IO until the plugin writes it */
  gint32 os_error;    /* errno or device status, 0 = none; for the report */
  guint64 done_bytes; /* moved: OK of STORE and LOAD must say buffer_bytes here */
  guint64
      object_bytes; /* size of the object on the medium: the truth, also where it isn't the wanted one; 0 = not known (LOOKUP) */
  gint64 service_start_ns; /* LmtL2Host.now_ns when the device's work began; splits queue from service time; 0 = unknown */
  guint64 plugin[4];       /* scratch words of the plugin; 0 at submit */
  guint64 core[7];         /* the core's own; fills the cache line */
} LmtL2Io;

typedef struct _LmtL2Queue LmtL2Queue;

/**
 * LmtL2Host: what the core gives a handle; lives as long as it.
 * @struct_size: a plugin that uses a member newer than the oldest lmtrace it supports checks this first; so with LmtL2Info and
 * LmtL2Io
 * @now_ns: the injected clock (ns, any origin, may jump): the only one a plugin models with. Any thread
 * @message: (kind, text): ten of a kind are shown, the rest counted. Any thread. A kind that begins with "info" is an info line,
 *   any other a warning. Text begins with the adapter's type: `fs: /data/kv: …`
 * @may_destroy: TRUE if the user named this very target with --yes-destroy
 * @open_inner: a whole adapter by its JSON, with the same calls: for wrappers. (out): ops, handle, info. The wrapper owns the
 *   handle and closes it. The option that holds the JSON is flagged LMT_OPTION_ADAPTER, so that core reads it with the rest. The
 *   inner gets ios of the wrapper's own, or its scratch words would be the wrapper's
 * @shared: others use the medium at the same time: don't clean up what may be theirs
 * @persist_enabled: FALSE: objects of this run are to be gone at close
 * @data_wanted: FALSE: buffers are NULL, sizes count
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

/**
 * LmtL2Info: what open tells of the adapter; zero but for struct_size when it is called.
 * @buffer_align, @length_align: bytes; what spares a copy (4096 for O_DIRECT). A wish: other buffers come, too, and are bounced,
 * never refused
 */
struct _LmtL2Info
{
  guint32 struct_size;
  guint32 capabilities; /* LMT_L2_CAP_… */
  guint32 depth;        /* most ios it takes; 0 counts as 1, more than 65,536 as that many */
  guint32 flags;        /* LMT_L2_INFO_… */
  guint64 buffer_align;
  guint64 length_align;
  guint64 capacity_bytes;  /* what the medium holds (slots x their size); 0: the configuration's */
  guint64 charge_bytes;    /* what any object costs of it (a slot); 0: its length */
  gint64 close_timeout_ns; /* how long close may wait for what is in flight; 0: 30 s */
};

/**
 * LmtL2AddStatus: both texts are copied.
 * LmtL2Visit: one object found at open: its key (copied by the core), its bytes on the medium and when it was written (any clock,
 * any order: the core sorts by time, then by file name).
 */
typedef void (*LmtL2Visit) (gpointer data, const LmtKeyFields *key, guint64 bytes, gint64 time_ns);
typedef void (*LmtL2AddStatus) (gpointer data, const char *key, const char *value);

/**
 * LmtL2Ops: table of an adapter. Members marked R are required; NULL of another means that it has no such thing. The core copies
 * the table at registration, as much of it as @struct_size says: a plugin built against older headers works.
 */
struct _LmtL2Ops
{
  guint32 struct_size;
  guint32 threads;
  const char *name;           /* R; `"type"` of the configuration: [a-z][a-z0-9_-]*; also the file: lmt-l2-NAME.so */
  const char *summary;        /* one sentence, imperative or noun, no final stop */
  const char *const *aliases; /* NULL-terminated: other types it serves; open is told which was asked for */
  const LmtOption *options;   /* keys of the configuration object; the common ones are the core's */
  guint32 config_size;
  guint32 reserved;
  /* R. May block; acquires everything; fills @info. @config: config_size bytes, filled from `options`, alive as long as the
   * handle. @type: the name or alias asked for. @host lives as long as the handle. NULL with @error (`/data/kv: cannot write: …`,
   * no type in front): the run ends. */
  gpointer (*open) (gconstpointer config, const char *type, const LmtL2Host *host, LmtL2Info *info, GError **error);
  void (*close) (gpointer handle); /* R. Once, after the drain or its deadline: joins its threads, touches nothing afterwards */
  guint32 (*submit) (gpointer handle, LmtL2Io *io); /* R. LmtL2Submit; never blocks on I/O; allocates nothing once warm */
  guint32 (*reap) (gpointer handle, LmtL2Io **ios,
                   guint32 max);   /* R. Up to @max finished ios into @ios, their number; never blocks */
  void (*flush) (gpointer handle); /* after a burst of submits: one system call, one wake-up of the workers for all of them */
  int (*get_fd) (gpointer handle); /* asked once after open: readable while something waits to be reaped. Only reap reads it.
                                      None: see below */
  /* When the next io will be done that no descriptor tells of: host clock; 0 = now; -1 = none. Without get_fd and this, reap is
   * asked all the time. */
  gint64 (*next_due_ns) (gpointer handle);
  /* The pool all buffers lie in, once per pool, before the first submit: @base is page-aligned, @region comes again in
   * LmtL2Io.region. FALSE: the run goes on with buffers that aren't registered. */
  gboolean (*register_memory) (gpointer handle, void *base, guint64 bytes, guint32 region, GError **error);
  /* Once, after open: everything that is there, so that usage, capacity and eviction know it. May block. */
  gboolean (*scan) (gpointer handle, LmtL2Visit visit, gpointer data, GError **error);
  /* Past its deadline, or at close. Best effort: the io still comes back, as CLOSED unless it was done already. */
  void (*cancel) (gpointer handle, LmtL2Io *io);
  /* Figures for the report and SIGUSR1: texts, units in the key (`queue_bytes`). At least is_healthy: yes or no. */
  void (*status) (gpointer handle, LmtL2AddStatus add, gpointer data);
  /* Adapter check only. @action: "truncate", "append", "remove", "debris" (returns a count of foreign entries). -1: no such
   * thing. */
  gint64 (*tamper) (gpointer handle, const LmtL2Key *key, const char *action, guint64 bytes);
  /* Checks the filled configuration before anything is opened; no side effects. Message without the adapter's name in front. */
  gboolean (*check) (gconstpointer config, const char *type, GError **error);
};

/**
 * LmtL2Queue: one owner, made in open and freed in close, when all threads that push were joined. Bounded completion queue with
 * an eventfd, for plugins with worker threads. @size: at least the depth given in LmtL2Info, so that a push always finds room.
 * The descriptor is readable while something waits. An empty queue is asked without a system call, a burst of pushes costs one.
 */
LmtL2Queue *lmt_l2_queue_new (guint32 size);
void lmt_l2_queue_free (LmtL2Queue *queue);
int lmt_l2_queue_fd (LmtL2Queue *queue);
/* Any thread. Everything written to @io before is seen by whoever reaps it; the io isn't touched afterwards. */
void lmt_l2_queue_push (LmtL2Queue *queue, LmtL2Io *io);
/* The thread that calls the plugin: what LmtL2Ops.reap wants. Takes the wake-up off the descriptor when nothing is left. */
guint32 lmt_l2_queue_reap (LmtL2Queue *queue, LmtL2Io **ios, guint32 max);

G_END_DECLS
