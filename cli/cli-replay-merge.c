/* SPDX-License-Identifier: Apache-2.0 */
#include "cli-replay.h"

#include <math.h>

/*
 * Several files as one, by wall time. Inside a file the order stays: a clock that steps back there is clamped to what came
 * before, and that is said. Each reader lends one record at a time, so that memory is one buffer a file.
 */
typedef struct
{
  ReplayFile *file;
  LmtRecord record;
  gboolean has_record;
  gboolean ended;
  double clamped_wall; /* never steps back */
} MergeInput;

struct _ReplayMerge
{
  LmtReplaySource source;
  GArray *inputs; /* MergeInput */
  MergeInput *lent;
  guint64 number;
  gboolean started;
  double first_wall;
  guint64 steps_back;
};

static void
take_next (ReplayMerge *merge, MergeInput *input)
{
  input->has_record = lmt_reader_next (input->file->reader, &input->record) == LMT_READ_RECORD;
  input->ended = !input->has_record;
  if (!input->has_record)
    return;
  double wall = input->record.t_wall;
  if (isfinite (wall) && wall >= input->clamped_wall)
    input->clamped_wall = wall;
  else
    merge->steps_back++;
}

static LmtReadResult
merge_next (gpointer data, LmtRecord *record)
{
  ReplayMerge *merge = data;
  MergeInput *best = NULL;

  merge->lent = NULL;
  for (guint i = 0; i < merge->inputs->len; i++)
    {
      MergeInput *input = &g_array_index (merge->inputs, MergeInput, i);
      if (!input->has_record && !input->ended)
        take_next (merge, input);
      /* Of equal times the file named first goes first. */
      if (input->has_record && (best == NULL || input->clamped_wall < best->clamped_wall))
        best = input;
    }
  if (best == NULL)
    return LMT_READ_END;
  if (!merge->started)
    merge->first_wall = best->clamped_wall;
  merge->started = TRUE;
  *record = best->record;
  record->number = ++merge->number;
  record->t_mono = MAX (0.0, best->clamped_wall - merge->first_wall);
  best->has_record = FALSE;
  merge->lent = best;
  return LMT_READ_RECORD;
}

static gboolean
merge_finish (gpointer data, GError **error)
{
  ReplayMerge *merge = data;
  for (guint i = 0; i < merge->inputs->len; i++)
    if (!lmt_reader_finish (g_array_index (merge->inputs, MergeInput, i).file->reader, error))
      return FALSE;
  return TRUE;
}

static gboolean
merge_rewind (gpointer data, GError **error)
{
  ReplayMerge *merge = data;
  merge->number = 0;
  merge->lent = NULL;
  merge->steps_back = 0; /* the same ones come again */
  for (guint i = 0; i < merge->inputs->len; i++)
    {
      MergeInput *input = &g_array_index (merge->inputs, MergeInput, i);
      if (!lmt_reader_rewind (input->file->reader, error))
        return FALSE;
      input->has_record = input->ended = FALSE;
      input->clamped_wall = 0.0;
    }
  return TRUE;
}

static guint64
merge_malformed (gpointer data)
{
  ReplayMerge *merge = data;
  guint64 n = 0;
  for (guint i = 0; i < merge->inputs->len; i++)
    n += lmt_reader_get_stats (g_array_index (merge->inputs, MergeInput, i).file->reader)->malformed;
  return n;
}

ReplayMerge *
replay_merge_new (GPtrArray *files)
{
  ReplayMerge *merge = g_new0 (ReplayMerge, 1);

  merge->inputs = g_array_new (FALSE, TRUE, sizeof (MergeInput));
  merge->source = (LmtReplaySource){
    .struct_size = sizeof (LmtReplaySource),
    .can_rewind = 1,
    .data = merge,
    .next = merge_next,
    .finish = merge_finish,
    .rewind = merge_rewind,
    .malformed = merge_malformed,
  };
  for (guint i = 0; i < files->len; i++)
    {
      MergeInput input = { .file = g_ptr_array_index (files, i) };
      merge->source.can_rewind &= lmt_reader_is_seekable (input.file->reader) && !input.file->follow;
      g_array_append_val (merge->inputs, input);
    }
  return merge;
}

const LmtReplaySource *
replay_merge_get_source (ReplayMerge *merge)
{
  return &merge->source;
}

const char *
replay_merge_get_place (ReplayMerge *merge, guint64 *number)
{
  if (merge->lent == NULL || *number != merge->number)
    return "one of the merged files";
  *number = merge->lent->record.number;
  return merge->lent->file->shown;
}

guint64
replay_merge_get_steps_back (ReplayMerge *merge)
{
  return merge->steps_back;
}

void
replay_merge_free (ReplayMerge *merge)
{
  if (merge == NULL)
    return;
  g_array_unref (merge->inputs);
  g_free (merge);
}
