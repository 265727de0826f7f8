// SPDX-License-Identifier: Apache-2.0
/* The views against a plain model of them, through checkpoints, at their limits, and what is set by hand. */
#include "hand-batch.h"
#include "views-model.h"

#include <glib/gstdio.h>
#include <lmtrace/lmt-json.h>

/* ---- random batches ---- */

enum
{
  N_INSTANCES = 3,
  N_ENTRIES = 4,
};

typedef struct
{
  EventsCompat compat;
  EventsViews *views;
  Model *model;
  GRand *rand;
  gint64 incarnation[N_INSTANCES], seq[N_INSTANCES];
  gint64 fenced;
  EventsCounts counts;
} Play;

static const char *const ids[] = { "node-a", "node-b", "node-c" };

static guint
draw (Play *play, guint n)
{
  return (guint)g_rand_int_range (play->rand, 0, (gint32)n);
}

static void
fill_entry (Play *play, EventsEntry *entry, guint32 *tokens)
{
  static const char *const hashes[] = { "h0", "h1", "h2", "h3", "a hash that is longer than the thirty-two bytes of most", "" };

  *entry = hand_entry (hashes[draw (play, G_N_ELEMENTS (hashes))], draw (play, 4) * 100);
  entry->key.kv_rank = draw (play, 8);
  entry->key.group = draw (play, 2);
  entry->key.salt = hand_span (draw (play, 2) ? "s" : "");
  if (draw (play, 3) > 0)
    return;
  tokens[0] = draw (play, 3);
  tokens[1] = 7;
  entry->token_ids = tokens;
  entry->n_tokens = 1 + draw (play, 2);
  entry->tokens_valid = draw (play, 5) > 0;
  entry->token_offset = (gint64)draw (play, 3) - 1;
}

static void
one_batch (Play *play)
{
  static const EventsKind kinds[] = { EVENTS_STORE, EVENTS_STORE, EVENTS_STORE, EVENTS_DELETE, EVENTS_DELETE, EVENTS_ACCESS };
  const guint who = draw (play, N_INSTANCES);
  EventsEntry entries[N_ENTRIES];
  guint32 tokens[N_ENTRIES][2];

  if (draw (play, 60) == 0)
    {
      play->incarnation[who]++;
      play->seq[who] = 0;
      model_fence (play->model, ids[who]);
    }
  EventsBatch batch = hand_batch (ids[who], play->incarnation[who], ++play->seq[who], kinds[draw (play, G_N_ELEMENTS (kinds))],
                                  draw (play, 2) ? EVENTS_L2 : EVENTS_L1, draw (play, 2) ? "x" : "y");
  batch.shared = draw (play, 3) == 0;
  batch.n_entries = draw (play, N_ENTRIES + 1);
  batch.entries = entries;
  batch.ts = draw (play, 1000);
  for (guint i = 0; i < batch.n_entries; i++)
    fill_entry (play, &entries[i], tokens[i]);
  const guint64 before = play->counts.applied;
  g_assert_true (events_views_ingest (play->views, &batch, 1, 1, &play->counts));
  g_assert_cmpuint (play->counts.applied, ==, before + 1);
  model_apply (play->model, &batch);
}

static void
depart (Play *play)
{
  const guint who = draw (play, N_INSTANCES);

  events_views_depart (play->views, hand_span (ids[who]), TRUE);
  events_views_register (play->views, hand_span (ids[who])); /* its batches are wanted again */
  model_depart (play->model, ids[who]);
}

static void
assert_equal (Play *play, EventsViews *views)
{
  g_autofree char *expected = model_to_text (play->model), *found = views_to_text (views);
  g_auto (GStrv) wanted = g_strsplit (expected, "\n", -1), got = g_strsplit (found, "\n", -1);

  for (guint i = 0; wanted[i] != NULL && got[i] != NULL; i++)
    g_assert_cmpstr (got[i], ==, wanted[i]);
  g_assert_cmpstr (found, ==, expected);
}

static char *
dump (EventsViews *views)
{
  GString *text = g_string_new (NULL);
  LmtJsonWriter *out = lmt_json_writer_new (text, LMT_JSON_STYLE_INDENT);

  events_views_dump (views, out);
  lmt_json_writer_free (out);
  return g_string_free (text, FALSE);
}

/* What was written and read again is the same, and goes on the same. Keys that only an L1 index still knows (D12) aren't written,
 * neither here nor by the reference: counts of an index may come back smaller. */
static EventsViews *
through_checkpoint (Play *play, const EventsViewsConfig *config, const char *path)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *note = NULL, *before = dump (play->views), *after = NULL;
  EventsViews *again = events_views_new (config);

  g_assert_true (events_checkpoint_write (play->views, NULL, path, &error));
  g_assert_no_error (error);
  g_assert_true (events_checkpoint_read (again, NULL, path, &note));
  g_assert_cmpstr (note, ==, NULL);
  after = dump (again);
  if (play->compat == EVENTS_COMPAT_STRICT)
    g_assert_cmpstr (after, ==, before);
  return again;
}

static void
test_model (gconstpointer data)
{
  const EventsViewsConfig config
      = { .compat = (EventsCompat)GPOINTER_TO_INT (data), .with_lru = TRUE, .with_blend = TRUE, .chunk_size = 2 };
  g_autofree char *folder = g_dir_make_tmp ("lmtrace-views-XXXXXX", NULL);
  g_autofree char *path = g_build_filename (folder, "checkpoint", NULL);

  for (guint32 seed = 1; seed <= 60; seed++)
    {
      Play play = { .compat = config.compat,
                    .views = events_views_new (&config),
                    .model = model_new (config.compat),
                    .rand = g_rand_new_with_seed (seed) };
      for (guint i = 0; i < N_INSTANCES; i++)
        play.incarnation[i] = 1;
      for (guint step = 0; step < 300; step++)
        {
          if (draw (&play, 80) == 0)
            depart (&play);
          else
            one_batch (&play);
          if (step % 7 == 0)
            assert_equal (&play, play.views);
        }
      assert_equal (&play, play.views);
      if (config.compat == EVENTS_COMPAT_STRICT)
        {
          EventsViews *again = through_checkpoint (&play, &config, path);
          assert_equal (&play, again);
          events_views_free (g_steal_pointer (&play.views));
          play.views = again;
          for (guint step = 0; step < 100; step++)
            one_batch (&play);
          assert_equal (&play, play.views);
        }
      else
        events_views_free (through_checkpoint (&play, &config, path));
      for (guint i = 0; i < N_INSTANCES; i++)
        events_views_depart (play.views, hand_span (ids[i]), TRUE);
      events_views_reset (play.views);
      g_autofree char *empty = views_to_text (play.views);
      g_assert_true (g_str_has_prefix (empty, "stats 0 keys, 0 0, 0 0\n"));
      events_views_free (play.views);
      model_free (play.model);
      g_rand_free (play.rand);
    }
  (void)g_unlink (path);
  (void)g_rmdir (folder);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_data_func ("/events/views/model/0.5.6", GINT_TO_POINTER (EVENTS_COMPAT_056), test_model);
  g_test_add_data_func ("/events/views/model/0.5.7", GINT_TO_POINTER (EVENTS_COMPAT_057), test_model);
  g_test_add_data_func ("/events/views/model/strict", GINT_TO_POINTER (EVENTS_COMPAT_STRICT), test_model);
  return g_test_run ();
}
