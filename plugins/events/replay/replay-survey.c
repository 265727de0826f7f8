// SPDX-License-Identifier: Apache-2.0
/* The first pass: everything that can be known before anything is sent. */
#include <string.h>

#include "replay.h"

#define INTERRUPT_STRIDE 4096
#define MAX_RANGES 65536 /* 4 MiB */

/* Which seqs of an incarnation a file holds (R6). */
typedef struct
{
  guint32 instance;
  guint32 file;
  gint64 incarnation;
  gint64 low, high;
} Range;

/* An instance's last start mark so far; @live: no stop mark came behind it. */
typedef struct
{
  gboolean live;
  char *ip;
  gsize ip_len;
  gint64 http_port, mq_port;
} Start;

typedef struct
{
  ReplayFeed *feed;
  const ReplayConfig *config;
  LmtWarnings *warnings;
  const ReplayPosition *resume;
  ReplaySurvey *survey;
  EventsGate *gate;
  EventsArena *arena;
  EventsProblems problems;
  GString *json;
  GHashTable *ranges; /* Range, by what it is of */
  Range *last_range;
  gboolean ranges_full;
  guint n_files;
  GArray *starts; /* Start, per instance */
  gint64 lowest, highest;
} Pass;

static void
start_clear (gpointer data)
{
  g_free (((Start *)data)->ip);
}

static void
finding_clear (gpointer data)
{
  ReplayFinding *finding = data;
  g_free (finding->instance);
  g_free (finding->why);
}

void
replay_survey_free (ReplaySurvey *survey)
{
  if (survey == NULL)
    return;
  g_array_unref (survey->bad);
  g_array_unref (survey->refused);
  g_free (survey);
}

static void
add_finding (GArray *list, const ReplayItem *item, const char *why)
{
  if (list->len >= REPLAY_FINDINGS_SHOWN)
    return;
  ReplayFinding finding = { .n = item->n,
                            .file = item->file,
                            .number = item->number,
                            .offset = item->offset,
                            .instance = item->instance != NULL ? g_strdup (item->instance->shown) : NULL,
                            .has_seq = item->kind == REPLAY_BATCH,
                            .seq = item->seq,
                            .why = g_strdup (why) };
  g_array_append_val (list, finding);
}

static void G_GNUC_PRINTF (3, 4) warn (Pass *pass, const char *kind, const char *format, ...)
{
  va_list args;
  va_start (args, format);
  g_autofree char *text = g_strdup_vprintf (format, args);
  va_end (args);
  lmt_warnings_add (pass->warnings, kind, text);
}

/* -------- R6 -------- */

static guint
range_hash (gconstpointer key)
{
  const Range *range = key;
  guint64 mixed = ((guint64)range->instance << 32 | range->file) * G_GUINT64_CONSTANT (0x9e3779b97f4a7c15);
  mixed = (mixed ^ (guint64)range->incarnation) * G_GUINT64_CONSTANT (0xd6e8feb86659fd93);
  return (guint)(mixed >> 32);
}

static gboolean
range_equal (gconstpointer a, gconstpointer b)
{
  const Range *x = a, *y = b;
  return x->instance == y->instance && x->file == y->file && x->incarnation == y->incarnation;
}

static void
note_range (Pass *pass, const ReplayItem *item)
{
  const Range wanted = { item->instance->number, item->file, item->incarnation, item->seq, item->seq };
  Range *range = pass->last_range;
  if (pass->n_files < 2)
    return;
  if (range == NULL || !range_equal (range, &wanted))
    range = g_hash_table_lookup (pass->ranges, &wanted);
  if (range != NULL)
    {
      range->low = MIN (range->low, item->seq);
      range->high = MAX (range->high, item->seq);
    }
  else if (g_hash_table_size (pass->ranges) < MAX_RANGES)
    {
      range = g_memdup2 (&wanted, sizeof wanted);
      g_hash_table_add (pass->ranges, range);
    }
  else if (!pass->ranges_full)
    {
      pass->ranges_full = TRUE;
      warn (pass, "overlap",
            "more than %d incarnations in all files: whether several hold the same batches is told of the first ones only",
            MAX_RANGES);
    }
  pass->last_range = range;
}

static int
compare_ranges (gconstpointer a, gconstpointer b)
{
  const Range *x = *(Range *const *)a, *y = *(Range *const *)b;
  const gint64 keys[][2]
      = { { x->instance, y->instance }, { x->incarnation, y->incarnation }, { x->low, y->low }, { x->file, y->file } };
  for (guint i = 0; i < G_N_ELEMENTS (keys); i++)
    if (keys[i][0] != keys[i][1])
      return keys[i][0] < keys[i][1] ? -1 : 1;
  return 0;
}

static void
tell_overlap (Pass *pass, const Range *a, const Range *b)
{
  EventsMerge *merge = replay_feed_get_merge (pass->feed);
  const ReplayInstance *instance = replay_feed_get_instance (pass->feed, a->instance);
  const EventsStream *stream = events_gate_get (pass->gate, (LmtSpan){ (const guint8 *)instance->name, instance->name_len });
  warn (pass, "overlap",
        "%s: seqs %" G_GINT64_FORMAT "..%" G_GINT64_FORMAT " of incarnation %" G_GINT64_FORMAT
        " stand in %s and in %s: %" G_GUINT64_FORMAT " duplicates are predicted",
        instance->shown, b->low, MIN (a->high, b->high), a->incarnation, events_merge_file (merge, MIN (a->file, b->file))->shown,
        events_merge_file (merge, MAX (a->file, b->file))->shown, stream != NULL ? stream->verdicts[EVENTS_DUPLICATE] : 0);
}

/* Of an incarnation's ranges by their begin, each is held against the one that reaches farthest of those before it: one line for
 * each file that has something again, however many have it. */
static void
tell_overlaps (Pass *pass)
{
  g_autoptr (GPtrArray) sorted = g_ptr_array_sized_new (g_hash_table_size (pass->ranges));
  const Range *farthest = NULL;
  GHashTableIter iter;
  gpointer each;
  g_hash_table_iter_init (&iter, pass->ranges);
  while (g_hash_table_iter_next (&iter, &each, NULL))
    g_ptr_array_add (sorted, each);
  g_ptr_array_sort (sorted, compare_ranges);
  for (guint i = 0; i < sorted->len; i++)
    {
      const Range *range = sorted->pdata[i];
      if (farthest == NULL || farthest->instance != range->instance || farthest->incarnation != range->incarnation)
        {
          farthest = range;
          continue;
        }
      if (range->low <= farthest->high)
        tell_overlap (pass, farthest, range);
      if (range->high > farthest->high)
        farthest = range;
    }
}

/* -------- R15: where each instance goes on -------- */

static gboolean
is_held (Pass *pass, const ReplayItem *item)
{
  const ReplayInstance *instance = item->instance;
  const ReplayPosition *resume = pass->resume;
  if (!resume->from_streams)
    {
      const ReplayPositionFile *file = g_ptr_array_index (resume->files, item->file);
      if (item->number <= file->records_done)
        return TRUE;
    }
  if (item->kind != REPLAY_BATCH || !instance->has_held)
    return FALSE;
  const ReplayCursor *held = &instance->held;
  return item->incarnation < held->incarnation
         || (item->incarnation == held->incarnation && ((held->departed && !held->known) || item->seq <= held->seq));
}

/* What a registration would say from here on. */
static void
note_start (Start *start, const ReplayItem *item)
{
  if (item->kind == REPLAY_STOP)
    start->live = FALSE;
  if (item->kind != REPLAY_START || item->bad != NULL)
    return;
  g_free (start->ip);
  start->live = item->http_port > 0;
  start->ip = replay_dup_text (item->ip);
  start->ip_len = item->ip.len;
  start->http_port = item->http_port;
  start->mq_port = item->mq_port;
}

static void
note_resume (Pass *pass, ReplayItem *item)
{
  ReplayInstance *instance = item->instance;
  while (pass->starts->len <= instance->number)
    g_array_append_vals (pass->starts, &(Start){ 0 }, 1);
  Start *start = &g_array_index (pass->starts, Start, instance->number);
  if (!instance->has_held)
    {
      const ReplayCursor *cursor = g_hash_table_lookup (pass->resume->cursors, instance->name);
      if (cursor != NULL)
        instance->held = *cursor;
      instance->has_held = cursor != NULL;
    }
  note_start (start, item);
  /* What is held is where the instance's stream begins: a repeat of an old batch further on is no sign of what lies between. */
  if (instance->held_closed)
    return;
  gboolean held = is_held (pass, item);
  /* Of one that departed there, the stop mark behind what is held is held, too. */
  if (item->kind == REPLAY_STOP && pass->resume->from_streams && instance->has_held && instance->held.departed
      && instance->resume_after > 0)
    held = TRUE;
  if (!held)
    {
      instance->held_closed = item->kind == REPLAY_BATCH;
      return;
    }
  instance->resume_after = item->n + 1;
  instance->register_first = start->live;
  g_free (instance->ip);
  instance->ip = replay_dup_text ((LmtSpan){ (const guint8 *)start->ip, start->ip_len });
  instance->ip_len = start->ip_len;
  instance->http_port = start->http_port;
  instance->mq_port = start->mq_port;
}

/* -------- one record -------- */

/* A selection that cuts a stream makes a gap that nobody recorded (R11). */
static void
tell_cut (Pass *pass, const ReplayItem *item, const EventsBatch *batch)
{
  const EventsStream *stream = events_gate_get (pass->gate, batch->instance);
  gint64 last = stream != NULL && stream->known && stream->incarnation == batch->incarnation ? stream->last_seq : 0;
  item->instance->left_out = FALSE;
  if (batch->seq > last + 1)
    warn (pass, "selection",
          "%s: the selection leaves out seqs %" G_GINT64_FORMAT "..%" G_GINT64_FORMAT ": a gap for the coordinator",
          item->instance->shown, last + 1, batch->seq - 1);
}

static void
look_at_batch (Pass *pass, const ReplayItem *item)
{
  ReplaySurvey *survey = pass->survey;
  const char *reason = NULL;
  EventsBatch batch;
  g_string_truncate (pass->json, 0);
  if (!replay_feed_append_json (pass->feed, item, pass->json, &reason))
    {
      g_autofree char *why = g_strdup_printf ("expected values that JSON can hold, found %s", reason);
      survey->n_bad++;
      add_finding (survey->bad, item, why);
      return;
    }
  events_arena_reset (pass->arena);
  if (!replay_feed_convert (pass->feed, item, pass->arena, &batch, &pass->problems))
    {
      g_autofree char *why = events_problems_describe (&pass->problems);
      if (survey->n_refused++ == 0)
        survey->first_refused = item->n;
      add_finding (survey->refused, item, why);
      events_problems_clear (&pass->problems);
      events_problems_init (&pass->problems, 1);
      return;
    }
  if (item->instance == NULL)
    return;
  item->instance->shared = item->instance->shared || batch.shared != 0;
  if (item->instance->left_out)
    tell_cut (pass, item, &batch);
  events_gate_admit (pass->gate, &batch, 0);
  note_range (pass, item);
  pass->lowest = MIN (pass->lowest, batch.incarnation);
  pass->highest = MAX (pass->highest, batch.incarnation);
}

static void
look_at (Pass *pass, ReplayItem *item)
{
  ReplaySurvey *survey = pass->survey;
  ReplayInstance *instance = item->instance;
  survey->records++;
  survey->last_wall = item->due_wall;
  if (survey->records == 1)
    survey->first_wall = item->due_wall;
  if (instance != NULL)
    {
      instance->last_n = item->round_n;
      instance->last_is_stop = item->kind == REPLAY_STOP;
      if (pass->resume != NULL)
        note_resume (pass, item);
    }
  if (item->bad != NULL)
    {
      survey->n_bad++;
      add_finding (survey->bad, item, item->bad);
      return;
    }
  if (item->kind == REPLAY_BATCH)
    look_at_batch (pass, item);
  if (instance == NULL)
    return;
  LmtSpan name = { (const guint8 *)instance->name, instance->name_len };
  if (item->kind == REPLAY_STOP)
    events_gate_depart (pass->gate, name);
  else if (item->kind == REPLAY_START)
    events_gate_register (pass->gate, name);
}

/* -------- the pass -------- */

static gboolean
run_pass (Pass *pass, const volatile gint *interrupts, GError **error)
{
  ReplayItem item;
  guint64 n = 0;
  int got;
  while ((got = replay_feed_next (pass->feed, &item, error)) > 0)
    {
      look_at (pass, &item);
      if (++n % INTERRUPT_STRIDE == 0 && g_atomic_int_get (interrupts) > 0)
        {
          g_set_error_literal (error, LMT_ERROR, LMT_ERROR_INTERRUPTED, "interrupted before anything was sent");
          return FALSE;
        }
    }
  return got == 0;
}

static gboolean
all_schema_2 (EventsMerge *merge)
{
  for (guint i = 0; i < events_merge_n_files (merge); i++)
    {
      gint64 schema = 0;
      if (!lmt_header_get_schema (events_merge_header (merge, i), &schema) || schema != 2)
        return FALSE;
    }
  return TRUE;
}

ReplaySurvey *
replay_survey_new (ReplayFeed *feed, const LmtCommandContext *context, const ReplayConfig *config, ReplayPosition *resume,
                   GError **error)
{
  g_autoptr (ReplaySurvey) survey = g_new0 (ReplaySurvey, 1);
  survey->bad = g_array_new (FALSE, FALSE, sizeof (ReplayFinding));
  survey->refused = g_array_new (FALSE, FALSE, sizeof (ReplayFinding));
  g_array_set_clear_func (survey->bad, finding_clear);
  g_array_set_clear_func (survey->refused, finding_clear);
  survey->first_refused = G_MAXUINT64;
  survey->all_schema_2 = all_schema_2 (replay_feed_get_merge (feed));
  Pass pass = { .feed = feed,
                .config = config,
                .warnings = context->warnings,
                .resume = resume,
                .survey = survey,
                .gate = events_gate_new (survey->all_schema_2 ? EVENTS_COMPAT_057 : EVENTS_COMPAT_056),
                .arena = events_arena_new (0),
                .json = g_string_sized_new (4096),
                .ranges = g_hash_table_new_full (range_hash, range_equal, g_free, NULL),
                .n_files = events_merge_n_files (replay_feed_get_merge (feed)),
                .starts = g_array_new (FALSE, FALSE, sizeof (Start)),
                .lowest = G_MAXINT64,
                .highest = G_MININT64 };
  g_array_set_clear_func (pass.starts, start_clear);
  events_problems_init (&pass.problems, 1);
  replay_feed_set_rounds (feed, 1);
  gboolean ok = run_pass (&pass, context->interrupts, error);
  if (ok)
    {
      tell_overlaps (&pass);
      ok = replay_feed_set_incarnations (feed, pass.lowest, pass.highest, error);
    }
  events_problems_clear (&pass.problems);
  events_gate_free (pass.gate);
  events_arena_free (pass.arena);
  g_string_free (pass.json, TRUE);
  g_hash_table_unref (pass.ranges);
  g_array_unref (pass.starts);
  if (!ok)
    return NULL;
  replay_feed_set_rounds (feed, config->loops);
  return replay_feed_check_names (feed, error) && replay_feed_rewind (feed, error) ? g_steal_pointer (&survey) : NULL;
}
