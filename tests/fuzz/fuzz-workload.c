/* SPDX-License-Identifier: Apache-2.0 */
/* A workload file, or rows of a public request trace: refused with a message, or requests that keep what the driver relies on. */
#include "fuzz.h"

#include <string.h>

#include "work-import.h"
#include "work-spec.h"

enum
{
  REQUESTS = 3,
  SMALL = 100000, /* tokens of one draw: what takes longer is no news */
};

static gboolean
is_small_dist (const WorkDist *dist)
{
  for (guint i = 0; i < dist->n; i++)
    if (dist->values[i] > SMALL)
      return FALSE;
  return dist->a < SMALL && dist->b < SMALL && dist->zipf.n < SMALL && (dist->kind != WORK_LOGNORMAL || dist->b < 2.0);
}

static gboolean
is_small (const WorkSpec *spec)
{
  for (guint i = 0; i < spec->n_classes; i++)
    {
      const WorkClass *one = &spec->classes[i];

      if (!is_small_dist (&one->prefix_tokens) || !is_small_dist (&one->document_tokens) || !is_small_dist (&one->document_count)
          || !is_small_dist (&one->input_tokens) || !is_small_dist (&one->output_tokens) || one->document_count.a > 10)
        return FALSE;
    }
  return TRUE;
}

static void
take_some (WorkSource *source, guint32 most_chunks)
{
  gint64 last_ns = 0;

  for (guint i = 0; i < REQUESTS; i++)
    {
      gint64 due_ns = source->peek (source);
      WorkRequest request;

      if (due_ns == G_MAXINT64)
        break;
      g_assert_true (due_ns >= last_ns);
      if (!source->take (source, &request))
        continue;
      g_assert_true (request.due_ns == due_ns);
      g_assert_true (request.n_prompt <= request.n_all && request.n_all <= most_chunks);
      g_assert_true (memchr (request.id, '\0', sizeof request.id) != NULL);
      for (guint32 k = 0; k < request.n_all; k += MAX (request.n_all / 4, 1))
        g_assert_true (request.hashes[(gsize)k * WORK_HASH_BYTES] <= 255);
      last_ns = request.due_ns;
      source->done (source, &request, request.due_ns);
    }
}

static void
run_spec (const guint8 *data, gsize size)
{
  g_autoptr (GError) error = NULL;
  LmtJson *json = lmt_json_parse ((const char *)data, (gssize)size, &error);
  g_autoptr (WorkSpec) spec = NULL;
  WorkSource *source;

  if (json == NULL)
    {
      g_assert_true (error != NULL);
      return;
    }
  spec = work_spec_new ("w.json", json, &error);
  g_assert_true ((spec == NULL) == (error != NULL));
  if (spec == NULL)
    {
      g_assert_true (strchr (error->message, '\n') == NULL && g_utf8_validate (error->message, -1, NULL));
      return;
    }
  if (!is_small (spec))
    return;
  source = work_synth_new (spec);
  take_some (source, WORK_CELLS_MAX);
  work_source_free (source);
}

static void
run_rows (const char *format, const guint8 *data, gsize size)
{
  WorkSource *source = work_import_new_for_bytes (work_format_find (format), data, size, 256, 64, NULL);
  const WorkImportFigures *figures = work_import_get_figures (source);
  guint64 dropped = 0;

  take_some (source, 64);
  while (source->peek (source) != G_MAXINT64)
    {
      WorkRequest request;

      g_assert_true (source->take (source, &request));
    }
  for (guint i = 0; i < figures->n_drops; i++)
    dropped += figures->drops[i].count;
  g_assert_true (dropped == figures->dropped && figures->in == figures->out + figures->dropped);
  work_source_free (source);
}

int
LLVMFuzzerTestOneInput (const guint8 *data, gsize size)
{
  run_spec (data, size);
  run_rows ("mooncake", data, size);
  run_rows ("qwen-bailian", data, size);
  run_rows ("lookup-hashes", data, size);
  return 0;
}
