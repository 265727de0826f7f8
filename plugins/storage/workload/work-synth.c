// SPDX-License-Identifier: Apache-2.0
/* Requests out of a workload file. */
#include "work-source.h"

#include <string.h>

/* Ids of tokens, as many as large vocabularies have. */
#define TOKEN_BITS 17

typedef struct
{
  guint64 number;
  guint32 class;
  guint32 turn;  /* of the next request, from 0 */
  guint32 turns; /* of the session */
  gint64 due_ns;
  WorkChain chain;
  WorkRandom random; /* of the turn at hand */
} Session;

typedef struct
{
  WorkSource source;
  const WorkSpec *spec;
  guint32 most_chunks;
  WorkRandom arrivals;
  gint64 next_ns;     /* the next arrival */
  guint64 burst_left; /* sessions that still begin at next_ns */
  guint64 *busy;      /* users, by class */
  GHashTable *all;    /* of Session */
  GPtrArray *heap;    /* of Session: those that wait for their next turn */
  WorkSynthFigures figures;
} Synth;

/* ---------------- chunks ---------------- */

void
work_chain_init (WorkChain *chain, guint64 chunk_tokens, guint32 most_chunks)
{
  static const guint8 nothing[12]; /* int64 0, uint32 0 */

  memset (chain, 0, sizeof *chain);
  chain->chunk_tokens = chunk_tokens;
  chain->most_chunks = most_chunks;
  chain->waiting = g_new (guint32, chunk_tokens);
  chain->hashes = g_byte_array_new ();
  lmt_blake3 (nothing, sizeof nothing, chain->last);
}

void
work_chain_clear (WorkChain *chain)
{
  g_free (chain->waiting);
  g_byte_array_unref (chain->hashes);
}

static void
end_chunk (WorkChain *chain)
{
  LmtBlake3 state;

  lmt_blake3_init (&state);
  lmt_blake3_update (&state, chain->last, sizeof chain->last);
  lmt_blake3_update (&state, chain->waiting, chain->chunk_tokens * sizeof *chain->waiting);
  lmt_blake3_final (&state, chain->last);
  g_byte_array_append (chain->hashes, chain->last, sizeof chain->last);
  chain->n_waiting = 0;
}

void
work_chain_add (WorkChain *chain, WorkRandom stream, guint64 n)
{
  guint64 room = MIN (WORK_CONTEXT_MAX, (guint64)chain->most_chunks * chain->chunk_tokens) - chain->n_tokens;

  if (n > room)
    {
      chain->full = TRUE;
      return;
    }
  chain->n_tokens += n;
  for (guint64 i = 0; i < n; i++)
    {
      guint32 token = (guint32)(work_random_next (&stream) >> (64 - TOKEN_BITS));

      chain->waiting[chain->n_waiting++] = GUINT32_TO_BE (token);
      if (chain->n_waiting == chain->chunk_tokens)
        end_chunk (chain);
    }
}

static guint32
chunks_of (const WorkChain *chain)
{
  return chain->hashes->len / WORK_HASH_BYTES;
}

/* ---------------- sessions by due time ---------------- */

/* Equal times: the older session first, so that the order hangs on nothing else. */
static gboolean
is_before (const Session *a, const Session *b)
{
  return a->due_ns != b->due_ns ? a->due_ns < b->due_ns : a->number < b->number;
}

static void
heap_push (GPtrArray *heap, Session *session)
{
  guint at = heap->len;

  g_ptr_array_add (heap, session);
  while (at > 0 && is_before (session, heap->pdata[(at - 1) / 2]))
    {
      heap->pdata[at] = heap->pdata[(at - 1) / 2];
      at = (at - 1) / 2;
    }
  heap->pdata[at] = session;
}

static Session *
heap_pop (GPtrArray *heap)
{
  Session *first = heap->pdata[0];
  Session *last = heap->pdata[heap->len - 1];
  guint at = 0;

  g_ptr_array_set_size (heap, (int)heap->len - 1);
  if (heap->len == 0)
    return first;
  for (guint child; (child = 2 * at + 1) < heap->len; at = child)
    {
      if (child + 1 < heap->len && is_before (heap->pdata[child + 1], heap->pdata[child]))
        child++;
      if (!is_before (heap->pdata[child], last))
        break;
      heap->pdata[at] = heap->pdata[child];
    }
  heap->pdata[at] = last;
  return first;
}

static void
session_free (gpointer data)
{
  Session *session = data;

  work_chain_clear (&session->chain);
  g_free (session);
}

static void
end_session (Synth *synth, Session *session)
{
  synth->busy[session->class]--;
  g_hash_table_remove (synth->all, session);
}

/* ---------------- arrivals ---------------- */

static gint64
later (gint64 now_ns, double seconds)
{
  double ns = (double)now_ns + seconds * 1e9;

  return ns >= 9.0e18 ? G_MAXINT64 : (gint64)ns;
}

/* Candidates at the peak's rate, each kept with the share the rate then has of it. */
static gint64
next_diurnal (Synth *synth)
{
  const WorkArrivals *arrivals = &synth->spec->arrivals;
  gint64 at = synth->next_ns;

  for (;;)
    {
      double turns;
      double rate;

      at = later (at, work_random_exponential (&synth->arrivals) / arrivals->peak);
      if (at == G_MAXINT64)
        return at;
      turns = (double)(at % arrivals->period_ns) / (double)arrivals->period_ns;
      rate = arrivals->rate - (arrivals->peak - arrivals->rate) * work_cos_turns (turns);
      if (work_random_unit (&synth->arrivals) * arrivals->peak < rate)
        return at;
    }
}

static void
step_arrivals (Synth *synth)
{
  const WorkArrivals *arrivals = &synth->spec->arrivals;

  if (synth->burst_left > 1)
    {
      synth->burst_left--;
      return;
    }
  if (arrivals->kind == WORK_DIURNAL)
    {
      synth->next_ns = next_diurnal (synth);
      return;
    }
  if (arrivals->kind == WORK_POISSON)
    {
      synth->next_ns = later (synth->next_ns, work_random_exponential (&synth->arrivals) / arrivals->rate);
      return;
    }
  do
    {
      synth->next_ns = later (synth->next_ns, work_random_exponential (&synth->arrivals) * arrivals->mean_size / arrivals->rate);
      synth->burst_left = work_dist_draw_count (&arrivals->size, &synth->arrivals, WORK_USERS_MAX);
    }
  while (synth->burst_left == 0);
}

static guint32
draw_class (const WorkSpec *spec, WorkRandom *random)
{
  double at = work_random_unit (random) * spec->class_sums[spec->n_classes - 1];
  guint32 class = 0;

  while (class + 1 < spec->n_classes && spec->class_sums[class] <= at)
    class ++;
  return class;
}

/* Tokens of one of a class's prefixes or documents, and how many: the same whenever it is used. */
static void
add_shared (Session *session, guint64 seed, WorkPurpose purpose, const WorkDist *tokens, guint64 which)
{
  WorkRandom stream = work_random_stream (seed, purpose, session->class, which);
  guint64 n = work_dist_draw_count (tokens, &stream, (guint64)WORK_TOKENS_MAX);

  work_chain_add (&session->chain, stream, n);
}

/* NULL: turned away. */
static Session *
begin_session (Synth *synth)
{
  const WorkSpec *spec = synth->spec;
  guint64 number = synth->figures.sessions + synth->figures.turned_away;
  WorkRandom random = work_random_stream (spec->seed, WORK_FOR_SESSION, number, 0);
  guint32 class = draw_class (spec, &random);
  const WorkClass *one = &spec->classes[class];
  gint64 due_ns = synth->next_ns;
  Session *session;

  step_arrivals (synth);
  if (synth->busy[class] >= one->users)
    {
      synth->figures.turned_away++;
      return NULL;
    }
  synth->figures.sessions++;
  synth->busy[class]++;
  session = g_new0 (Session, 1);
  g_hash_table_add (synth->all, session);
  session->number = number;
  session->class = class;
  session->due_ns = due_ns;
  session->turns = (guint32)MAX (work_dist_draw_count (&one->turns, &random, 1000000), 1);
  work_chain_init (&session->chain, spec->shape.chunk_tokens, synth->most_chunks);
  if (one->has_prefix)
    add_shared (session, spec->seed, WORK_FOR_PREFIX, &one->prefix_tokens, work_zipf_draw (&one->prefixes, &random));
  return session;
}

static void
add_own (Session *session, guint64 seed, WorkPurpose purpose, guint64 n)
{
  work_chain_add (&session->chain, work_random_stream (seed, purpose, session->number, session->turn), n);
}

/* The prompt of the next turn, and its answer, onto what was said before. */
static void
add_turn (const WorkSpec *spec, Session *session, WorkRequest *request)
{
  const WorkClass *one = &spec->classes[session->class];

  session->random = work_random_stream (spec->seed, WORK_FOR_TURN, session->number, session->turn);
  if (one->has_documents)
    for (guint64 i = work_dist_draw_count (&one->document_count, &session->random, 1000); i > 0; i--)
      add_shared (session, spec->seed, WORK_FOR_DOCUMENT, &one->document_tokens,
                  work_zipf_draw (&one->documents, &session->random));
  add_own (session, spec->seed, WORK_FOR_INPUT,
           work_dist_draw_count (&one->input_tokens, &session->random, (guint64)WORK_TOKENS_MAX));
  request->n_prompt = chunks_of (&session->chain);
  add_own (session, spec->seed, WORK_FOR_OUTPUT,
           work_dist_draw_count (&one->output_tokens, &session->random, (guint64)WORK_TOKENS_MAX));
  request->n_all = chunks_of (&session->chain);
}

/* ---------------- the source ---------------- */

static gint64
synth_peek (WorkSource *source)
{
  Synth *synth = (Synth *)source;
  gint64 waiting = synth->heap->len > 0 ? ((Session *)synth->heap->pdata[0])->due_ns : G_MAXINT64;

  return MIN (synth->next_ns, waiting);
}

static gboolean
synth_take (WorkSource *source, WorkRequest *request)
{
  Synth *synth = (Synth *)source;
  Session *session;

  if (synth->heap->len > 0 && ((Session *)synth->heap->pdata[0])->due_ns <= synth->next_ns)
    session = heap_pop (synth->heap);
  else
    session = begin_session (synth);
  if (session == NULL)
    return FALSE;
  add_turn (synth->spec, session, request);
  if (session->chain.full)
    {
      synth->figures.cut++;
      end_session (synth, session);
      return FALSE;
    }
  request->due_ns = session->due_ns;
  request->hashes = session->chain.hashes->data;
  request->salt = synth->spec->classes[session->class].salt;
  request->token = (guint64)(gsize)session;
  g_snprintf (request->id, sizeof request->id, "s%" G_GUINT64_FORMAT ".%u", session->number, session->turn);
  return TRUE;
}

static void
synth_done (WorkSource *source, const WorkRequest *request, gint64 now_ns)
{
  Synth *synth = (Synth *)source;
  Session *session = (Session *)(gsize)request->token;

  if (++session->turn >= session->turns)
    {
      end_session (synth, session);
      return;
    }
  session->due_ns = later (now_ns, work_dist_draw (&synth->spec->classes[session->class].think_s, &session->random));
  heap_push (synth->heap, session);
}

static void
synth_free (WorkSource *source)
{
  Synth *synth = (Synth *)source;

  g_ptr_array_unref (synth->heap);
  g_hash_table_unref (synth->all);
  g_free (synth->busy);
  g_free (synth);
}

WorkSource *
work_synth_new (const WorkSpec *spec)
{
  Synth *synth = g_new0 (Synth, 1);

  synth->source = (WorkSource){ synth_peek, synth_take, synth_done, synth_free };
  synth->spec = spec;
  synth->most_chunks = WORK_CELLS_MAX / (spec->shape.n_groups * spec->shape.world);
  synth->arrivals = work_random_stream (spec->seed, WORK_FOR_ARRIVALS, 0, 0);
  synth->busy = g_new0 (guint64, spec->n_classes);
  synth->all = g_hash_table_new_full (NULL, NULL, session_free, NULL);
  synth->heap = g_ptr_array_new ();
  step_arrivals (synth);
  return &synth->source;
}

const WorkSynthFigures *
work_synth_get_figures (WorkSource *source)
{
  return &((Synth *)source)->figures;
}
