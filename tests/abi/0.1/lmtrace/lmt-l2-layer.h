/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "lmt-evict.h"
#include "lmt-l2.h"
#include "lmt-pacer.h"
#include "lmt-registry.h"
#include "lmt-stats.h"

G_BEGIN_DECLS

/**
 * SECTION: the other side of the border: an adapter as the manager, a test or a tool sees it. Tasks of many keys go in, each
 * comes back once with a code per key; the layer owns ids, repeated keys, locks, usage, capacity, order of operations on a key,
 * events, bounded depth and the drain. Authors of adapters don't call it; check-adapter does.
 *
 * Threads: one at a time per LmtL2, and one LmtKeyTable per LmtL2 or all of them on one thread. Only the plugin below may have
 * threads. Errors: LMT_ERROR_OPTION for a configuration (`--l2-adapter #1 ('fs'): …`), LMT_L2_ERROR from the plugin's open. Cost:
 * no allocation per operation once warm, no lock. Source: contract of LMCache's L2 adapters, store_listener events included.
 *
 * Since: 0.1
 */

/**
 * LmtL2Config: one `--l2-adapter` argument, read and checked, nothing opened. One owner; what its getters return lives as long.
 */
typedef struct _LmtL2Config LmtL2Config;

/* `"eviction"` of the argument. @set: FALSE: there is none. @watermark, @ratio: shares, above 0 to 1 */
typedef struct
{
  gboolean set;
  LmtEvictKind policy;
  double watermark;
  double ratio;
} LmtL2Eviction;

/**
 * lmt_l2_config_parse:
 * @registry: loads the plugin that offers the type, if need be; referenced as long as the configuration lives
 * @json: text of the whole object, copied
 * @number: from 1, for messages: `--l2-adapter #1 ('fs'): …`
 *
 * Returns: (transfer full): NULL with @error: LMT_ERROR_OPTION or LMT_ERROR_NO_ADAPTER, fit for the user as it is. Calls the
 * plugin's `check`, nothing else of it.
 *
 * Since: 0.1
 */
LmtL2Config *lmt_l2_config_parse (LmtRegistry *registry, const char *json, guint number, GError **error);
void lmt_l2_config_free (LmtL2Config *config);
const char *lmt_l2_config_get_type_name (const LmtL2Config *config); /* as asked for: an alias stays an alias */
const char *lmt_l2_config_get_json (const LmtL2Config *config);
const LmtL2Eviction *lmt_l2_config_get_eviction (const LmtL2Config *config);
/* `fs:base_path=/x,depth=32` -> JSON object text. (transfer full) */
char *lmt_l2_short_form_to_json (LmtRegistry *registry, const char *text, GError **error);

/* For the adapter check: the argument with its capacity key set to @bytes. (transfer full) (nullable): the adapter has no such
 * key */
char *lmt_l2_config_with_capacity (const LmtL2Config *config, guint64 bytes);
/* Bytes the configuration allows, 0 = none: the option flagged LMT_OPTION_CAPACITY. */
guint64 lmt_l2_config_get_capacity (const LmtL2Config *config);
gboolean lmt_l2_config_get_shared (const LmtL2Config *config);
gboolean lmt_l2_config_get_persist (const LmtL2Config *config);
guint lmt_l2_config_get_number (const LmtL2Config *config);
/* How long the adapter may keep an operation (`io_timeout_s`); 0 = for ever. */
gint64 lmt_l2_config_get_io_timeout_ns (const LmtL2Config *config);
const LmtL2Ops *lmt_l2_config_get_ops (const LmtL2Config *config);

/**
 * LmtL2: an open adapter with the layer above it: tasks over objects. One driving thread; completions may come from others, they
 * are handed over in lmt_l2_reap().
 */
typedef struct _LmtL2 LmtL2;

/* What lmt_l2_open() is given; borrowed until lmt_l2_free(). */
typedef struct
{
  guint32 struct_size;
  guint32 adapter; /* number, from 0 */
  const LmtClock *clock;
  LmtKeyTable *keys;
  void *memory; /* the L1 pool, or NULL if sizes only; registered with the adapter */
  guint64 memory_bytes;
  gboolean data_wanted;
  const char *const *yes_destroy;
  /* On the driving thread, inside open, submit, reap, take, pump and close; control characters are gone. Kinds that begin with
   * "info" are info lines, others warnings. At most ten of a kind, how many more comes at close (@more). NULL: GLib's log. */
  void (*message) (gpointer data, const char *kind, const char *text);
  gpointer message_data;
  guint64 largest_object_bytes; /* 0 = unknown */
  guint64 capacity_override;    /* check-adapter: 0 = the configuration's */
  /* (nullable): at close, for each kind with more than ten: how many weren't shown. NULL: a line says it, through @message. */
  void (*more) (gpointer data, const char *kind, guint64 n);
} LmtL2Params;

/* Opens, registers memory, scans. @config is borrowed until lmt_l2_free(). Events of the scan (STORED, oldest first) go to the
 * event func set by the first lmt_l2_set_event_func(). */
LmtL2 *lmt_l2_open (LmtL2Config *config, const LmtL2Params *params, GError **error);
/* No task is accepted any more (CLOSED); drains for up to @timeout_ns (below 0: as
 * long as the adapter's configuration says, 30 s by default), cancels what is left, closes. Returns how many operations were
 * abandoned. Afterwards no buffer is touched; tasks that are not handed back yet still come out of lmt_l2_reap(). Twice: 0. */
guint lmt_l2_close (LmtL2 *l2, gint64 timeout_ns);
void lmt_l2_free (LmtL2 *l2);

/**
 * LmtL2Task: a batch of object operations; the caller's memory until it is handed back. n keys; a key named twice is one
 * operation.
 * @kind: LmtL2Kind. @n: keys, also 0. @keys: of the table in LmtL2Params; the layer keeps no reference: the caller holds them
 * @buffers: STORE, LOAD: address per key; NULL array: sizes only. Lent until the task is back
 * @sizes: STORE, LOAD: bytes; LOOKUP: expected bytes or 0, or a NULL array
 * @codes: (out): per key an LmtL2Code; OK and PRESENT are bits set
 * @bytes: (out): newly written or loaded. @n_ok: (out): bits set
 * @submit_ns, @done_ns: (out): clock of LmtL2Params
 *
 * Since: 0.1
 */
typedef struct _LmtL2Task LmtL2Task;
struct _LmtL2Task
{
  guint32 kind;
  guint32 n;
  LmtKey *const *keys;
  void *const *buffers;
  const guint64 *sizes;
  guint8 *codes; /* (out) n of them */
  guint64 bytes; /* (out) */
  guint32 id;    /* (out) per adapter, from 0 over all kinds */
  guint32 n_ok;  /* (out) */
  gint64 submit_ns;
  gint64 done_ns;
  gpointer user_data;
  /* the layer's own */
  guint32 next_op;
  guint32 left;
  LmtL2Task *next;
  LmtL2Task *prev;
};

/* FALSE: refused with a code (closed, n keys without buffers). An accepted task comes back exactly once. */
gboolean lmt_l2_submit (LmtL2 *l2, LmtL2Task *task, LmtL2Code *refused);
/* Behind a burst of submits: the adapter enters the kernel once, wakes its workers once. Without it nothing may ever start. */
void lmt_l2_flush (LmtL2 *l2);
/* Next finished task in the order in which they finished, or NULL. Its events were given just before. Never blocks. */
LmtL2Task *lmt_l2_reap (LmtL2 *l2);
/**
 * lmt_l2_take:
 * Hands over this very task if it has finished, whatever finished before it; FALSE: not yet. For drivers that hand over in an
 * order of their own (the settled one: by id). Operations on one key are kept in the order of submission and a task holds its
 * keys until it is handed over, and usage, presence, locks and events change at that moment only: so what comes out depends on
 * the order of submits and hand-overs, never on how fast the adapter was. Take tasks of equal keys in their order, or they wait
 * for each other.
 */
gboolean lmt_l2_take (LmtL2 *l2, LmtL2Task *task);
/* Collects what the adapter finished and submits what waits, without handing anything over. */
void lmt_l2_pump (LmtL2 *l2);
/* Descriptor that becomes readable when a task of @kind (STORE, LOOKUP, LOAD) finishes, seen by lmt_l2_pump(); made when asked
 * for, read by the caller (8 bytes, an eventfd). -1: none to be had. Only checks need it: a driver waits on lmt_l2_get_fd(). */
int lmt_l2_get_event_fd (LmtL2 *l2, guint32 kind);
/* One lock less per mention; unknown keys: nothing. */
void lmt_l2_unlock (LmtL2 *l2, LmtKey *const *keys, guint n);
guint lmt_l2_get_locks (LmtL2 *l2, const LmtKey *key);

typedef enum
{
  LMT_L2_STORED,
  LMT_L2_ACCESSED,
  LMT_L2_DELETED
} LmtL2EventKind;
/* In key order, one event a task. STORED: newly written only. */
typedef void (*LmtL2EventFunc) (gpointer data, LmtL2EventKind kind, LmtKey *const *keys, const guint64 *sizes, guint n);
/* Called on the driving thread, inside reap and take, before the task is handed back; may not call the layer. One func; NULL:
 * none. What open found is told to the first one at once. Arrays live for the call. */
void lmt_l2_set_event_func (LmtL2 *l2, LmtL2EventFunc func, gpointer data);

/* What a loop waits for before it reaps again: the descriptor is readable, or the time (host clock) has come. With neither (-1
 * both) and something outstanding: reap each turn. */
int lmt_l2_get_fd (LmtL2 *l2);           /* -1: none */
gint64 lmt_l2_next_due_ns (LmtL2 *l2);   /* -1: none */
guint lmt_l2_in_flight (LmtL2 *l2);      /* ios with the plugin */
guint lmt_l2_outstanding (LmtL2 *l2);    /* tasks not handed back */
guint64 lmt_l2_get_used (LmtL2 *l2);     /* bytes */
guint64 lmt_l2_get_capacity (LmtL2 *l2); /* 0: none */
guint64 lmt_l2_get_used_by_salt (LmtL2 *l2, guint32 salt);
gboolean lmt_l2_usage_is_exact (LmtL2 *l2); /* FALSE: no scan, or shared */
const LmtL2Info *lmt_l2_get_info (LmtL2 *l2);
const char *lmt_l2_get_type_name (LmtL2 *l2);
const LmtL2Eviction *lmt_l2_get_eviction (LmtL2 *l2);
/* Keys the adapter is known to hold, with size. */
void lmt_l2_foreach (LmtL2 *l2, void (*func) (LmtKey *key, guint64 bytes, guint locks, gpointer data), gpointer data);
gpointer lmt_l2_get_handle (LmtL2 *l2); /* of the plugin; NULL once closed */
const LmtL2Ops *lmt_l2_get_ops (LmtL2 *l2);

/**
 * LmtL2Figures: what a report shows of an adapter; counts and bytes since open, distributions in ns. Borrowed from the layer, up
 * to date at each lmt_l2_get_figures().
 */
typedef struct
{
  guint64 ops[LMT_L2_N_KINDS];
  guint64 codes[LMT_L2_N_KINDS][LMT_L2_N_CODES];
  guint64 bytes[LMT_L2_N_KINDS];
  guint64 protocol_errors; /* io handed back twice, never submitted, after close */
  guint depth_max;
  double depth_mean;                    /* time-weighted while anything was in flight */
  gint64 busy_ns;                       /* something was in flight */
  LmtStats *service[LMT_L2_N_KINDS];    /* io submit (or service start) to reap */
  LmtStats *queue[LMT_L2_N_KINDS];      /* task submit to io submit (or service start) */
  LmtStats *completion[LMT_L2_N_KINDS]; /* both together: task submit to the end of the operation */
  guint64 failures; /* of the medium: io, timeout, denied by the system, no-space that the adapter found: not the configured
                       capacity */
} LmtL2Figures;
const LmtL2Figures *lmt_l2_get_figures (LmtL2 *l2);
/* What the plugin says of itself; after close what it said just before. */
void lmt_l2_get_status (LmtL2 *l2, LmtL2AddStatus add, gpointer data);

/* Each operation of the adapter as it comes back: the io with its out members, times of the host clock. No cost while unset. */
typedef void (*LmtL2ObserveFunc) (gpointer data, const LmtL2Io *io, gint64 submit_ns, gint64 done_ns);
void lmt_l2_set_observer (LmtL2 *l2, LmtL2ObserveFunc func, gpointer data);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LmtL2Config, lmt_l2_config_free)

G_END_DECLS
