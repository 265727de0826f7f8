/* SPDX-License-Identifier: Apache-2.0 */
#include "lmt-replay.h"

#include <string.h>

#include "lmt-handler.h"
#include "lmt-hash.h"

/* Names that no handler knows come from the file: so many are told apart, the rest share one row. */
#define MAX_UNKNOWN 1024
#define OTHER_NAMES "(other names)"
#define LATE_NS 1000000
#define LONG_WAIT_NS (G_GINT64_CONSTANT (3600) * 1000000000)
#define PROGRESS_NS 100000000
/* A file up to this size is read on after an interrupt, to say how much of it was not reached. */
#define COUNT_ON_BYTES (G_GUINT64_CONSTANT (1) << 30)

/* A call that goes on. Number 0 is an empty slot: records count from 1. */
typedef struct
{
  guint64 number;
  guint64 file_number;
  guint64 offset;
  guint op;
  gint64 start_ns;
  gint64 call_ns;
  gint64 lag_ns;
  double t_mono;
  guint64 bytes;
} Pending;

/* The bytes of a name no handler knows; the row's text ends at a NUL in it. */
typedef struct
{
  guint op;
  gsize len;
  guint8 *name;
} UnknownName;

struct _LmtReplay
{
  GObject parent;
  LmtRegistry *registry;
  const LmtLevelOps *level;
  LmtDispatch *dispatch;
  gint *op_of_handler; /* -1: not met yet */
  GPtrArray *ops;      /* LmtOpStats */
  GArray *unknown;     /* UnknownName */
  guint last_unknown;
  LmtReplayTotals totals;
  LmtWarnings *warnings;

  LmtReplaySinkFunc sink;
  gpointer sink_data;
  LmtReplayProgressFunc progress;
  gpointer progress_data;
  LmtReplayFaultFunc fault_func;
  gpointer fault_data;

  Pending *pending; /* open addressing by number; n_slots is a power of two */
  guint n_slots;
  guint n_pending;

  /* the run that is under way */
  LmtReader *reader;
  const LmtReplaySource *source; /* (nullable) */
  guint64 round_records;         /* number of the last record of this round */
  gpointer session;
  const LmtReplayPlan *plan;
  guint64 base;       /* numbers given in earlier rounds */
  guint64 copies;     /* of each record: 1 and more */
  guint64 dispatched; /* of this run, for --limit */
  guint64 current;    /* number of the record in its call, 0 between calls */
  Pending early;      /* its completion, if that came from inside: number 0 = did not */
  guint32 early_status;
  const char *early_error;
  gint64 next_progress_ns;
  gint64 last_lag_ns;
  double span_s;
  gboolean long_wait_told;
};

G_DEFINE_FINAL_TYPE (LmtReplay, lmt_replay, G_TYPE_OBJECT)

static void
op_free (gpointer data)
{
  LmtOpStats *op = data;

  g_free (op->qualname);
  lmt_stats_free (op->call);
  lmt_stats_free (op->done);
  lmt_stats_free (op->lag);
  g_free (op);
}

static void
unknown_clear (gpointer data)
{
  g_free (((UnknownName *)data)->name);
}

static void
lmt_replay_finalize (GObject *object)
{
  LmtReplay *replay = LMT_REPLAY (object);

  g_clear_object (&replay->registry);
  lmt_dispatch_free (replay->dispatch);
  g_free (replay->op_of_handler);
  g_ptr_array_unref (replay->ops);
  g_array_unref (replay->unknown);
  lmt_stats_free (replay->totals.lag);
  g_free (replay->pending);
  G_OBJECT_CLASS (lmt_replay_parent_class)->finalize (object);
}

static void
lmt_replay_class_init (LmtReplayClass *klass)
{
  G_OBJECT_CLASS (klass)->finalize = lmt_replay_finalize;
}

static void
lmt_replay_init (LmtReplay *replay)
{
  replay->ops = g_ptr_array_new_with_free_func (op_free);
  replay->unknown = g_array_new (FALSE, FALSE, sizeof (UnknownName));
  g_array_set_clear_func (replay->unknown, unknown_clear);
  replay->totals.lag = lmt_stats_new ();
  lmt_stats_reserve (replay->totals.lag);
  replay->n_slots = 1024;
  replay->pending = g_new0 (Pending, replay->n_slots);
}

LmtReplay *
lmt_replay_new (LmtRegistry *registry, const LmtLevelOps *level)
{
  LmtReplay *replay;

  g_return_val_if_fail (LMT_IS_REGISTRY (registry) && level != NULL, NULL);
  replay = g_object_new (LMT_TYPE_REPLAY, NULL);
  replay->registry = g_object_ref (registry);
  replay->level = level;
  replay->dispatch = lmt_dispatch_new (registry, level->name);
  replay->op_of_handler = g_new (gint, lmt_dispatch_size (replay->dispatch));
  for (guint i = 0; i < lmt_dispatch_size (replay->dispatch); i++)
    replay->op_of_handler[i] = -1;
  return replay;
}

const LmtLevelOps *
lmt_replay_get_level (LmtReplay *replay)
{
  return replay->level;
}

void
lmt_replay_set_sink (LmtReplay *replay, LmtReplaySinkFunc func, gpointer user_data)
{
  replay->sink = func;
  replay->sink_data = user_data;
}

void
lmt_replay_set_progress (LmtReplay *replay, LmtReplayProgressFunc func, gpointer user_data)
{
  replay->progress = func;
  replay->progress_data = user_data;
}

void
lmt_replay_set_fault_func (LmtReplay *replay, LmtReplayFaultFunc func, gpointer user_data)
{
  replay->fault_func = func;
  replay->fault_data = user_data;
}

void
lmt_replay_set_warnings (LmtReplay *replay, LmtWarnings *warnings)
{
  replay->warnings = warnings;
}

void
lmt_replay_message (LmtReplay *replay, const char *kind, const char *text)
{
  if (replay->warnings != NULL)
    lmt_warnings_add (replay->warnings, kind, text);
  else
    g_warning ("%s", text);
}

guint
lmt_replay_get_n_ops (LmtReplay *replay)
{
  return replay->ops->len;
}

LmtOpStats *
lmt_replay_get_op (LmtReplay *replay, guint i)
{
  g_return_val_if_fail (i < replay->ops->len, NULL);
  return replay->ops->pdata[i];
}

const LmtReplayTotals *
lmt_replay_get_totals (LmtReplay *replay)
{
  return &replay->totals;
}

const char *
lmt_status_word (guint32 status)
{
  static const char *const words[LMT_N_STATUS] = { "ok", "skipped", "undecodable", "failed", "mismatch" };

  return status < LMT_N_STATUS ? words[status] : "?";
}

/* -------- rows -------- */

static guint
add_op (LmtReplay *replay, const char *qualname, gsize len, gint handler)
{
  LmtOpStats *op = g_new0 (LmtOpStats, 1);

  op->qualname = g_strndup (qualname, len);
  op->handler = handler;
  op->call = lmt_stats_new ();
  op->done = lmt_stats_new ();
  op->lag = lmt_stats_new ();
  if (handler >= 0)
    {
      lmt_stats_reserve (op->call);
      lmt_stats_reserve (op->done);
      lmt_stats_reserve (op->lag);
    }
  g_ptr_array_add (replay->ops, op);
  return replay->ops->len - 1;
}

static guint
op_for_handler (LmtReplay *replay, gint handler)
{
  if (G_UNLIKELY (replay->op_of_handler[handler] < 0))
    {
      const char *qualname = lmt_dispatch_get (replay->dispatch, handler)->qualname;

      replay->op_of_handler[handler] = (gint)add_op (replay, qualname, strlen (qualname), handler);
    }
  return (guint)replay->op_of_handler[handler];
}

/* @is_new: (out): the first record of its name. */
static guint
op_for_unknown (LmtReplay *replay, LmtSpan qualname, gboolean *is_new)
{
  guint n = replay->unknown->len;
  UnknownName added;

  *is_new = FALSE;
  for (guint i = 0; i < n; i++)
    {
      guint at = (replay->last_unknown + i) % n;
      const UnknownName *known = &g_array_index (replay->unknown, UnknownName, at);

      if (known->len == qualname.len && memcmp (known->name, qualname.data, qualname.len) == 0)
        {
          replay->last_unknown = at;
          return known->op;
        }
    }
  if (n > MAX_UNKNOWN)
    return g_array_index (replay->unknown, UnknownName, MAX_UNKNOWN).op;
  *is_new = TRUE;
  if (n == MAX_UNKNOWN)
    qualname = (LmtSpan){ (const guint8 *)OTHER_NAMES, strlen (OTHER_NAMES) };
  added.op = add_op (replay, (const char *)qualname.data, qualname.len, -1);
  added.len = qualname.len;
  added.name = g_malloc (qualname.len + 1); /* a name of no bytes isn't NULL: memcmp() takes none */
  memcpy (added.name, qualname.data, qualname.len);
  g_array_append_val (replay->unknown, added);
  return added.op;
}

/* -------- calls that go on -------- */

static inline guint
slot_of (LmtReplay *replay, guint64 number)
{
  return (guint)lmt_mix64 (number) & (replay->n_slots - 1);
}

static Pending *
pending_slot (LmtReplay *replay, guint64 number)
{
  guint slot = slot_of (replay, number);

  while (replay->pending[slot].number != 0 && replay->pending[slot].number != number)
    slot = (slot + 1) & (replay->n_slots - 1);
  return &replay->pending[slot];
}

static void
pending_add (LmtReplay *replay, const Pending *entry)
{
  if ((replay->n_pending + 1) * 4 > replay->n_slots * 3)
    {
      g_autofree Pending *old = replay->pending;
      guint n = replay->n_slots;

      replay->n_slots = n * 2;
      replay->pending = g_new0 (Pending, replay->n_slots);
      for (guint i = 0; i < n; i++)
        if (old[i].number != 0)
          *pending_slot (replay, old[i].number) = old[i];
    }
  *pending_slot (replay, entry->number) = *entry;
  replay->n_pending++;
}

/* Backward shift in place of tombstones, so that lookups don't grow longer with the trace. */
static gboolean
pending_take (LmtReplay *replay, guint64 number, Pending *entry)
{
  guint mask = replay->n_slots - 1;
  Pending *found = pending_slot (replay, number);
  guint hole, slot;

  if (found->number == 0)
    return FALSE;
  *entry = *found;
  hole = slot = (guint)(found - replay->pending);
  replay->pending[hole].number = 0;
  for (;;)
    {
      guint home;

      slot = (slot + 1) & mask;
      if (replay->pending[slot].number == 0)
        break;
      home = slot_of (replay, replay->pending[slot].number);
      if (((slot - home) & mask) >= ((slot - hole) & mask))
        {
          replay->pending[hole] = replay->pending[slot];
          replay->pending[slot].number = 0;
          hole = slot;
        }
    }
  replay->n_pending--;
  return TRUE;
}

/* -------- figures -------- */

static void
account (LmtReplay *replay, LmtOpStats *op, guint32 status, gint64 call_ns, gint64 done_ns, guint64 bytes, gboolean missing)
{
  op->status[status]++;
  replay->totals.status[status]++;
  op->bytes += bytes;
  if (missing)
    {
      op->missing_argument++;
      replay->totals.missing_argument++;
    }
  if (status != LMT_STATUS_OK)
    return;
  lmt_stats_add (op->call, call_ns);
  if (done_ns >= 0)
    lmt_stats_add (op->done, done_ns);
}

static void
tell (LmtReplay *replay, const Pending *entry, const LmtOpStats *op, LmtSpan qualname, guint32 status, gint64 done_ns,
      const char *error, guint32 missing)
{
  LmtReplayLine line
      = { entry->number, qualname, entry->t_mono, status, entry->call_ns, entry->lag_ns, done_ns, entry->bytes, error, missing };

  if (line.qualname.data == NULL)
    line.qualname = (LmtSpan){ (const guint8 *)op->qualname, strlen (op->qualname) };
  replay->sink (&line, replay->sink_data);
}

static void
report_fault (LmtReplay *replay, guint32 status, guint64 number, guint64 offset, LmtFault *fault, const char *error)
{
  if (replay->fault_func == NULL)
    return;
  fault->number = number;
  fault->offset = offset;
  replay->fault_func (status, fault, error, replay->fault_data);
}

static void
finish_pending (LmtReplay *replay, Pending *entry, gint64 end_ns, guint32 status, const char *error)
{
  LmtOpStats *op = replay->ops->pdata[entry->op];
  gint64 done_ns = end_ns >= 0 ? MAX (end_ns - entry->start_ns, 0) : -1;

  account (replay, op, status, entry->call_ns, done_ns, entry->bytes, FALSE);
  if (replay->sink != NULL && !replay->plan->in_order)
    tell (replay, entry, op, (LmtSpan){ NULL, 0 }, status, done_ns, error, 0);
  if (status != LMT_STATUS_OK)
    {
      LmtFault fault = { 0 };

      report_fault (replay, status, entry->file_number, entry->offset, &fault, error);
    }
}

void
lmt_replay_complete (LmtReplay *replay, guint64 number, gint64 end_ns, guint32 status, guint64 bytes, const char *error)
{
  Pending entry;

  g_return_if_fail (replay->plan != NULL && status < LMT_N_STATUS && number != 0);
  if (number == replay->current)
    {
      replay->early.number = number;
      replay->early.start_ns = end_ns;
      replay->early.bytes = bytes;
      replay->early_status = status;
      replay->early_error = error;
    }
  else if (pending_take (replay, number, &entry))
    {
      entry.bytes += bytes;
      finish_pending (replay, &entry, end_ns, status, error);
    }
}

static int
compare_pending (gconstpointer a, gconstpointer b)
{
  guint64 x = ((const Pending *)a)->number, y = ((const Pending *)b)->number;

  return x < y ? -1 : x > y;
}

/* The drain is over: what did not complete is told without a completion, in the order of the records. */
static void
end_pending (LmtReplay *replay)
{
  g_autoptr (GArray) left = g_array_new (FALSE, FALSE, sizeof (Pending));

  for (guint i = 0; i < replay->n_slots && replay->n_pending > 0; i++)
    if (replay->pending[i].number != 0)
      g_array_append_val (left, replay->pending[i]);
  g_array_sort (left, compare_pending);
  for (guint i = 0; i < left->len; i++)
    finish_pending (replay, &g_array_index (left, Pending, i), -1, LMT_STATUS_OK, NULL);
  memset (replay->pending, 0, sizeof (Pending) * replay->n_slots);
  replay->n_pending = 0;
}

/* -------- time -------- */

static inline gboolean
is_interrupted (LmtReplay *replay, gint count)
{
  return replay->plan->interrupts != NULL && *replay->plan->interrupts >= count;
}

static void
show_progress (LmtReplay *replay, gint64 now_ns)
{
  replay->next_progress_ns = now_ns + PROGRESS_NS;
  if (replay->progress != NULL)
    replay->progress (replay, replay->reader, replay->totals.records, replay->last_lag_ns, replay->progress_data);
}

void
lmt_replay_tick (LmtReplay *replay)
{
  gint64 now_ns;

  g_return_if_fail (replay->plan != NULL);
  now_ns = lmt_clock_now (replay->plan->clock);
  if (now_ns >= replay->next_progress_ns)
    show_progress (replay, now_ns);
}

static void
announce_wait (LmtReplay *replay, guint64 number, gint64 wait_ns)
{
  replay->totals.long_waits++;
  if (!replay->long_wait_told)
    {
      g_autofree char *text = g_strdup_printf ("record %" G_GUINT64_FORMAT " is due in %.1f hours: --max-gap cuts such waits",
                                               number, (double)wait_ns / 3.6e12);

      replay->long_wait_told = TRUE;
      lmt_replay_message (replay, "long-wait", text);
    }
}

/* Core's own sleep, for levels without wait(). FALSE: interrupted. */
static gboolean
sleep_until (LmtReplay *replay, gint64 due_ns, gint64 now_ns)
{
  const LmtClock *clock = replay->plan->clock;

  while (now_ns < due_ns)
    {
      gint64 target_ns = replay->progress != NULL ? MIN (due_ns, replay->next_progress_ns) : due_ns;
      gboolean on_time = clock->sleep_until_ns (clock->data, target_ns, NULL, 0);

      if (is_interrupted (replay, 1))
        return FALSE;
      now_ns = lmt_clock_now (clock);
      if (!on_time || now_ns >= replay->next_progress_ns)
        show_progress (replay, now_ns);
    }
  return TRUE;
}

/* FALSE: interrupted before the record was due. */
static gboolean
wait_for (LmtReplay *replay, const LmtRecord *record, gint64 due_ns, gint64 trace_ns)
{
  if (replay->plan->speed > 0)
    {
      gint64 now_ns = lmt_clock_now (replay->plan->clock);

      if (due_ns - now_ns > LONG_WAIT_NS)
        announce_wait (replay, record->number, due_ns - now_ns);
      if (replay->level->wait == NULL)
        return sleep_until (replay, due_ns, now_ns);
    }
  return replay->level->wait == NULL || replay->level->wait (replay->session, due_ns, trace_ns);
}

/* -------- one record -------- */

static void
skip_record (LmtReplay *replay, const LmtRecord *record, guint64 number, gint64 lag_ns)
{
  gboolean is_new;
  guint op_index = op_for_unknown (replay, record->qualname, &is_new);
  LmtOpStats *op = replay->ops->pdata[op_index];

  account (replay, op, LMT_STATUS_SKIPPED, 0, -1, 0, FALSE);
  if (replay->sink != NULL)
    {
      Pending entry = { .number = number, .t_mono = record->t_mono, .lag_ns = lag_ns };

      tell (replay, &entry, op, record->qualname, LMT_STATUS_SKIPPED, -1, NULL, 0);
    }
  if (is_new)
    {
      LmtFault fault = { .reason = "no handler" };

      lmt_fault_set_detail (&fault, (const char *)record->qualname.data, record->qualname.len);
      report_fault (replay, LMT_STATUS_SKIPPED, record->number, record->offset, &fault, NULL);
    }
}

static gint64
count_lag (LmtReplay *replay, const LmtRecord *record, gint64 now_ns, gint64 due_ns)
{
  gint64 lag_ns = now_ns - due_ns;

  if (replay->plan->speed <= 0 || !lmt_time_is_usable (record->t_mono))
    return 0;
  lag_ns = MAX (lag_ns, 0);
  replay->last_lag_ns = lag_ns;
  lmt_stats_add (replay->totals.lag, lag_ns);
  if (lag_ns > LATE_NS)
    replay->totals.late++;
  return lag_ns;
}

static void
call_handler (LmtReplay *replay, const LmtRecord *record, guint64 number, gint handler, gint64 now_ns, gint64 lag_ns)
{
  guint op_index = op_for_handler (replay, handler);
  LmtOpStats *op = replay->ops->pdata[op_index];
  LmtRecord shown = *record;
  LmtOutcome outcome = { .struct_size = sizeof (LmtOutcome) };
  Pending entry;
  gint64 done_ns = -1;
  guint32 status;

  if (replay->plan->speed > 0 && lmt_time_is_usable (record->t_mono))
    lmt_stats_add (op->lag, lag_ns);
  shown.number = number;
  replay->current = number;
  replay->early.number = 0;
  status = lmt_dispatch_get (replay->dispatch, handler)->call (replay->session, &shown, &outcome);
  replay->current = 0;
  if (outcome.start_ns == 0)
    outcome.start_ns = now_ns;
  if (outcome.end_ns == 0)
    outcome.end_ns = lmt_clock_now (replay->plan->clock);
  if (G_UNLIKELY (status >= LMT_N_STATUS))
    {
      status = LMT_STATUS_FAILED;
      outcome.error = "the handler returned a status that does not exist";
    }
  entry = (Pending){ number,   record->number,   record->offset,
                     op_index, outcome.start_ns, status == LMT_STATUS_UNDECODABLE ? 0 : outcome.end_ns - outcome.start_ns,
                     lag_ns,   record->t_mono,   outcome.bytes };
  if (status == LMT_STATUS_OK && outcome.pending != 0)
    {
      if (replay->early.number != number)
        {
          pending_add (replay, &entry);
          if (replay->sink != NULL && replay->plan->in_order)
            tell (replay, &entry, op, record->qualname, status, -1, NULL, 0);
          return;
        }
      done_ns = MAX (replay->early.start_ns - outcome.start_ns, 0);
      entry.bytes += replay->early.bytes;
      status = replay->early_status;
      outcome.error = replay->early_error;
    }
  account (replay, op, status, entry.call_ns, done_ns, entry.bytes,
           status == LMT_STATUS_UNDECODABLE && outcome.missing_argument != 0);
  if (replay->sink != NULL)
    tell (replay, &entry, op, record->qualname, status, done_ns, status == LMT_STATUS_OK ? NULL : outcome.error,
          outcome.missing_argument);
  if (G_UNLIKELY (status != LMT_STATUS_OK))
    {
      /* A call that failed says so by its error; what decoding may have left behind is not the reason. */
      if (status != LMT_STATUS_UNDECODABLE && outcome.error != NULL)
        memset (&outcome.fault, 0, sizeof outcome.fault);
      report_fault (replay, status, record->number, record->offset, &outcome.fault, outcome.error);
    }
}

static gboolean
passes (LmtReplay *replay, const LmtRecord *record)
{
  LmtSelect *select = replay->plan->select;

  if (select == NULL)
    return TRUE;
  if (!lmt_select_record (select, record))
    return FALSE;
  return replay->level->select == NULL || !lmt_select_wants_keys (select)
         || replay->level->select (replay->session, record, select);
}

static inline void
set_tenant (LmtReplay *replay, guint64 copy)
{
  if (replay->plan->key_offset && replay->level->set_tenant != NULL)
    replay->level->set_tenant (replay->session, replay->plan->first_tenant + copy);
}

/* All copies of a record. FALSE: interrupted before its first call. */
static gboolean
replay_one (LmtReplay *replay, LmtPacer *pacer, const LmtRecord *record)
{
  guint64 number = replay->base + (record->number - 1) * replay->copies;
  gint64 trace_ns, due_ns, now_ns, lag_ns;
  gint handler;

  due_ns = lmt_pacer_due (pacer, record->t_mono, &trace_ns);
  if (!wait_for (replay, record, due_ns, trace_ns))
    return FALSE;
  if (lmt_time_is_usable (record->t_mono) && record->t_mono > replay->span_s)
    replay->span_s = record->t_mono;
  replay->dispatched++;
  handler = lmt_dispatch_find (replay->dispatch, record->qualname);
  for (guint64 copy = 0; copy < replay->copies; copy++)
    {
      if (copy > 0 && is_interrupted (replay, 1))
        {
          replay->totals.not_reached += replay->copies - copy;
          break;
        }
      set_tenant (replay, copy);
      now_ns = lmt_clock_now (replay->plan->clock);
      lag_ns = count_lag (replay, record, now_ns, due_ns);
      replay->totals.records++;
      if (handler < 0)
        skip_record (replay, record, ++number, lag_ns);
      else
        call_handler (replay, record, ++number, handler, now_ns, lag_ns);
      if (G_UNLIKELY (now_ns >= replay->next_progress_ns))
        show_progress (replay, now_ns);
    }
  return TRUE;
}

/* -------- where records come from -------- */

void
lmt_replay_set_source (LmtReplay *replay, const LmtReplaySource *source)
{
  replay->source = source;
}

static inline LmtReadResult
next_record (LmtReplay *replay, LmtRecord *record)
{
  return replay->source != NULL ? replay->source->next (replay->source->data, record) : lmt_reader_next (replay->reader, record);
}

static guint64
count_malformed (LmtReplay *replay)
{
  return replay->source != NULL ? replay->source->malformed (replay->source->data)
                                : lmt_reader_get_stats (replay->reader)->malformed;
}

static gboolean
finish_source (LmtReplay *replay, GError **error)
{
  return replay->source != NULL ? replay->source->finish (replay->source->data, error)
                                : lmt_reader_finish (replay->reader, error);
}

static gboolean
rewind_source (LmtReplay *replay, GError **error)
{
  return replay->source != NULL ? replay->source->rewind (replay->source->data, error)
                                : lmt_reader_rewind (replay->reader, error);
}

static gboolean
may_count_on (LmtReplay *replay)
{
  if (replay->source != NULL)
    return replay->source->can_rewind != 0;
  return lmt_reader_is_seekable (replay->reader) && lmt_reader_get_size (replay->reader) <= COUNT_ON_BYTES;
}

/* -------- a file -------- */

/* Reads on without a call, to say how much was not reached. Not from a pipe, which may never end. */
static void
count_rest (LmtReplay *replay)
{
  LmtRecord record;
  guint64 limit = replay->plan->limit;
  guint64 room = limit > 0 ? (limit - MIN (replay->dispatched, limit)) * replay->copies : G_MAXUINT64;
  guint64 n = replay->totals.not_reached;

  if (!may_count_on (replay))
    return;
  while (n < room && !is_interrupted (replay, 2) && next_record (replay, &record) == LMT_READ_RECORD)
    n += passes (replay, &record) ? replay->copies : 0;
  replay->totals.not_reached = n;
}

/* One round. FALSE: stop here, by limit or interrupt. */
static gboolean
run_round (LmtReplay *replay, LmtPacer *pacer)
{
  const LmtReplayPlan *plan = replay->plan;
  LmtRecord record;

  for (;;)
    {
      if (plan->limit > 0 && replay->dispatched >= plan->limit)
        {
          replay->totals.hit_limit = TRUE;
          return FALSE;
        }
      if (is_interrupted (replay, 1))
        break;
      if (next_record (replay, &record) != LMT_READ_RECORD)
        return TRUE;
      replay->round_records = record.number;
      if (!passes (replay, &record))
        replay->totals.left_out++;
      else if (!replay_one (replay, pacer, &record))
        {
          replay->totals.not_reached += replay->copies;
          break;
        }
    }
  replay->totals.interrupted = TRUE;
  count_rest (replay);
  return FALSE;
}

static gboolean
run_rounds (LmtReplay *replay, LmtPacer *pacer, GError **error)
{
  guint64 rounds = MAX (replay->plan->loops, 1);

  for (guint64 round = 0;; round++)
    {
      gboolean goes_on = run_round (replay, pacer);

      /* An interrupt ends what is open without this. */
      if (replay->plan->close_pairs && replay->level->close_pairs != NULL && !replay->totals.interrupted)
        replay->totals.pairs_closed += replay->level->close_pairs (replay->session);

      /* The same frames are malformed in each round: they are counted once. */
      if (round == 0)
        replay->totals.malformed += count_malformed (replay);
      if (!finish_source (replay, error))
        return FALSE;
      if (!goes_on || round + 1 >= rounds)
        return TRUE;
      replay->base += replay->round_records * replay->copies;
      if (replay->base == 0)
        return TRUE; /* nothing in it: going round would never end */
      if (!rewind_source (replay, error))
        return FALSE;
      lmt_pacer_next_round (pacer);
    }
}

/* The level's pass over what will be replayed. FALSE: nothing is, with or without @error. */
static gboolean
survey (LmtReplay *replay, GError **error)
{
  const LmtLevelOps *level = replay->level;
  const LmtReplayPlan *plan = replay->plan;
  guint64 n = 0;
  LmtRecord record;

  while ((plan->limit == 0 || n < plan->limit) && next_record (replay, &record) == LMT_READ_RECORD)
    {
      if (is_interrupted (replay, 1))
        break;
      if (!passes (replay, &record))
        continue;
      n++;
      for (guint64 copy = 0; copy < replay->copies; copy++)
        {
          set_tenant (replay, copy);
          level->survey_record (replay->session, &record);
        }
    }
  if (is_interrupted (replay, 1))
    {
      replay->totals.interrupted = TRUE;
      return FALSE;
    }
  if (plan->select != NULL)
    lmt_select_rewind (plan->select);
  return rewind_source (replay, error) && level->survey_end (replay->session, error) == LMT_SURVEY_REPLAY;
}

gboolean
lmt_replay_run (LmtReplay *replay, LmtReader *reader, gpointer session, const LmtReplayPlan *plan, GError **error)
{
  g_autoptr (LmtPacer) pacer = NULL;
  gint64 origin_ns;
  gboolean goes_on = TRUE;
  gboolean ok = TRUE;

  g_return_val_if_fail (LMT_IS_REPLAY (replay) && reader != NULL && plan != NULL && plan->clock != NULL, FALSE);
  pacer = lmt_pacer_new (plan->speed, plan->max_gap_ns);
  replay->reader = reader;
  replay->session = session;
  replay->plan = plan;
  replay->base = replay->dispatched = replay->current = replay->round_records = 0;
  replay->span_s = 0.0;
  replay->copies = MAX (plan->copies, 1);
  if (replay->level->survey_wanted != NULL && replay->level->survey_wanted (session))
    {
      g_autoptr (GError) local = NULL;

      goes_on = survey (replay, &local);
      if (local != NULL)
        {
          g_propagate_error (error, g_steal_pointer (&local));
          ok = FALSE;
        }
    }
  origin_ns = lmt_clock_now (plan->clock);
  if (replay->totals.origin_ns == 0)
    replay->totals.origin_ns = origin_ns;
  replay->next_progress_ns = origin_ns + PROGRESS_NS;
  lmt_pacer_start (pacer, origin_ns);
  if (goes_on)
    ok = run_rounds (replay, pacer, error);
  replay->totals.duration_ns += lmt_clock_now (plan->clock) - origin_ns;
  replay->totals.recorded_span_s += replay->span_s;
  if (replay->level->finish != NULL)
    replay->level->finish (session, replay->totals.interrupted);
  end_pending (replay);
  replay->plan = NULL;
  replay->source = NULL;
  replay->reader = NULL;
  replay->session = NULL;
  return ok;
}
