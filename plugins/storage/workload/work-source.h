/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "work-spec.h"

G_BEGIN_DECLS

enum
{
  WORK_HASH_BYTES = 32,
};

/**
 * WorkRequest: one request of a workload: what a serving engine asks of its cache in one turn.
 * @due_ns: when it comes; a caller that is free takes it then, else later
 * @hashes: of whole chunks in order, WORK_HASH_BYTES each: of the prompt, then those that the answer fills
 * @n_prompt, @n_all: how many of the prompt, how many together
 * @id: external_request_id
 * @token: the source's own; handed back by work_source_done()
 * Lent until work_source_done().
 */
typedef struct
{
  gint64 due_ns;
  const guint8 *hashes;
  guint32 n_prompt;
  guint32 n_all;
  const char *salt;
  guint64 token;
  char id[48];
} WorkRequest;

/**
 * WorkSource: where requests come from, in order of due_ns but for those a source learns of late: a next turn depends on when the
 * turn before it was done. One thread.
 */
typedef struct _WorkSource WorkSource;
struct _WorkSource
{
  /* When the next request may be due, or G_MAXINT64: none before another one is done, or none at all. */
  gint64 (*peek) (WorkSource *source);
  /* Takes it. FALSE: there was none at that time after all: look again. Only after peek() gave a time, and when that has come:
   * what was done before has been told by done(). */
  gboolean (*take) (WorkSource *source, WorkRequest *request);
  void (*done) (WorkSource *source, const WorkRequest *request, gint64 now_ns);
  void (*free) (WorkSource *source);
};

static inline void
work_source_free (WorkSource *source)
{
  if (source != NULL)
    source->free (source);
}

typedef struct
{
  guint64 sessions;
  guint64 turned_away; /* arrivals that found all users of their class busy */
  guint64 cut;         /* sessions that ended because their next prompt would have had too many chunks */
} WorkSynthFigures;

/* @spec is borrowed. */
WorkSource *work_synth_new (const WorkSpec *spec);
const WorkSynthFigures *work_synth_get_figures (WorkSource *source);

/**
 * WorkChain: chunk hashes of LMCache (events.md 10) over tokens that come in pieces: H0 = blake3 (int64 0, uint32 0), Hn = blake3
 * (Hn-1, the chunk's tokens as uint32), all big-endian.
 * @full: what was added last didn't fit: the chain has @most_chunks chunks, or WORK_CONTEXT_MAX tokens
 */
#define WORK_CONTEXT_MAX (G_GUINT64_CONSTANT (1) << 24)
typedef struct
{
  guint64 chunk_tokens;
  guint64 n_tokens;
  guint32 most_chunks;
  gboolean full;
  guint8 last[WORK_HASH_BYTES];
  guint32 n_waiting;
  guint32 *waiting; /* chunk_tokens of them, big-endian */
  GByteArray *hashes;
} WorkChain;
void work_chain_init (WorkChain *chain, guint64 chunk_tokens, guint32 most_chunks);
void work_chain_clear (WorkChain *chain);
/* The first @n tokens of the endless text of @stream. */
void work_chain_add (WorkChain *chain, WorkRandom stream, guint64 n);

G_END_DECLS
