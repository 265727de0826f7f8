// SPDX-License-Identifier: Apache-2.0
/*
 * Views from outside, for tests that hold them against LMCache's:
 *
 *   checkpoint-tool [--compat=0.5.6] [--load=FILE] [--play=CALLS.json] [--write=FILE] [--chunk-size=N] [--blend]
 *
 * CALLS.json: array of {method, path, body}, as the golden cases have them. Prints the views as the coordinator's replies.
 */
#include "view-json.h"

#include <stdio.h>

static char *compat_word, *load_path, *play_path, *write_path;
static int chunk_size = 256;
static gboolean blend;
static const GOptionEntry options[] = {
  { "compat", 0, 0, G_OPTION_ARG_STRING, &compat_word, NULL, NULL },
  { "load", 0, 0, G_OPTION_ARG_FILENAME, &load_path, NULL, NULL },
  { "play", 0, 0, G_OPTION_ARG_FILENAME, &play_path, NULL, NULL },
  { "write", 0, 0, G_OPTION_ARG_FILENAME, &write_path, NULL, NULL },
  { "chunk-size", 0, 0, G_OPTION_ARG_INT, &chunk_size, NULL, NULL },
  { "blend", 0, 0, G_OPTION_ARG_NONE, &blend, NULL, NULL },
  G_OPTION_ENTRY_NULL,
};

static void
play_call (EventsViews *views, const LmtJson *call, EventsArena *arena, EventsProblems *problems)
{
  const char *path = lmt_json_get_string (lmt_json_get_member (call, "path"));
  g_autofree char *body = NULL;
  EventsBatch *batches;
  EventsCounts counts = { 0 };
  guint32 n;

  if (g_str_has_prefix (path, "/instances/"))
    {
      g_autofree char *id = g_uri_unescape_string (path + strlen ("/instances/"), NULL);
      if (id != NULL)
        events_views_depart (views, (LmtSpan){ (const guint8 *)id, strlen (id) }, TRUE);
    }
  if (!g_str_equal (path, "/events"))
    return;
  body = lmt_json_to_text (lmt_json_get_member (call, "body"), LMT_JSON_STYLE_COMPACT, FALSE);
  events_arena_reset (arena);
  if (events_batches_from_body (body, strlen (body), &events_limits_default, arena, &batches, &n, problems) == EVENTS_BODY_OK)
    events_views_ingest (views, batches, n, 1, &counts);
}

static gboolean
play (EventsViews *views, const char *path, GError **error)
{
  g_autofree char *text = NULL;
  g_autoptr (LmtJson) calls = NULL;
  EventsArena *arena;
  EventsProblems problems;
  gsize len;

  if (!g_file_get_contents (path, &text, &len, error) || (calls = lmt_json_parse (text, (gssize)len, error)) == NULL)
    return FALSE;
  arena = events_arena_new (0);
  events_problems_init (&problems, 1);
  for (guint i = 0; i < lmt_json_get_length (calls); i++)
    play_call (views, lmt_json_get_element (calls, i), arena, &problems);
  events_problems_clear (&problems);
  events_arena_free (arena);
  return TRUE;
}

static void
print_views (EventsViews *views)
{
  g_autoptr (GString) text = g_string_new (NULL);
  g_autoptr (GPtrArray) nobody = g_ptr_array_new ();
  LmtJsonWriter *out = lmt_json_writer_new (text, LMT_JSON_STYLE_INDENT);

  lmt_json_writer_begin_object (out);
  lmt_json_writer_key (out, "/instances/usage");
  view_json_usage (views, nobody, out);
  lmt_json_writer_key (out, "/directory/stats");
  view_json_stats (views, out);
  lmt_json_writer_key (out, "/directory/keys?limit=10000");
  view_json_keys (views, 1000, out);
  lmt_json_writer_key (out, "/quota?tier=l1");
  view_json_quota (views, EVENTS_L1, out);
  lmt_json_writer_key (out, "/quota?tier=l2");
  view_json_quota (views, EVENTS_L2, out);
  lmt_json_writer_end_object (out);
  lmt_json_writer_free (out);
  fputs (text->str, stdout);
}

int
main (int argc, char **argv)
{
  g_autoptr (GOptionContext) context = g_option_context_new (NULL);
  g_autoptr (GError) error = NULL;
  g_autofree char *note = NULL;
  EventsViewsConfig config = { .with_lru = TRUE };

  g_option_context_add_main_entries (context, options, NULL);
  if (!g_option_context_parse (context, &argc, &argv, &error))
    {
      fprintf (stderr, "checkpoint-tool: %s\n", error->message);
      return 2;
    }
  config.compat = g_strcmp0 (compat_word, "0.5.7") == 0 ? EVENTS_COMPAT_057 : EVENTS_COMPAT_056;
  config.chunk_size = (guint32)chunk_size;
  config.with_blend = blend != 0;
  EventsViews *views = events_views_new (&config);
  gboolean ok = TRUE;
  if (load_path != NULL)
    {
      ok = events_checkpoint_read (views, NULL, load_path, &note);
      if (note != NULL)
        fprintf (stderr, "checkpoint-tool: %s\n", note);
    }
  ok = ok && (play_path == NULL || play (views, play_path, &error));
  ok = ok && (write_path == NULL || events_checkpoint_write (views, NULL, write_path, &error));
  if (error != NULL)
    fprintf (stderr, "checkpoint-tool: %s\n", error->message);
  if (ok)
    print_views (views);
  events_views_free (views);
  return ok ? 0 : 1;
}
