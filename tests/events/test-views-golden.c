// SPDX-License-Identifier: Apache-2.0
/* Golden data: the calls of each recorded case, played into gate and views, give the recorded replies and views. */
#include "events-merge.h"
#include "view-json.h"

#include <gio/gio.h>

/* Their instances were retired by a timer: no call says when. */
static const char *const timed[] = { "cut_reaped", "paced_no_heartbeat_reaped" };

typedef struct
{
  const char *name;
  EventsCompat compat;
  EventsViews *views;
  EventsArena *arena;
  EventsProblems problems;
  GPtrArray *registered;
  guint compared;
} Case;

static void
assert_same (Case *c, const char *what, const char *text, const LmtJson *expected)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (LmtJson) got = lmt_json_parse (text, -1, &error);

  g_assert_no_error (error);
  if (!lmt_json_equal (got, expected))
    {
      g_autofree char *wanted = lmt_json_to_text (expected, LMT_JSON_STYLE_COMPACT, TRUE);
      g_autofree char *found = lmt_json_to_text (got, LMT_JSON_STYLE_COMPACT, TRUE);
      g_error ("%s: %s:\nexpected %s\nfound    %s", c->name, what, wanted, found);
    }
  c->compared++;
}

static const char *
show (Case *c, const char *what, GString *text)
{
  g_autoptr (LmtJsonWriter) out = lmt_json_writer_new (text, LMT_JSON_STYLE_COMPACT);

  if (g_str_equal (what, "GET /instances/usage"))
    view_json_usage (c->views, c->registered, out);
  else if (g_str_equal (what, "GET /directory/stats"))
    view_json_stats (c->views, out);
  else if (g_str_equal (what, "GET /directory/keys?limit=10000"))
    view_json_keys (c->views, 7, out);
  else if (g_str_equal (what, "GET /quota?tier=l1"))
    view_json_quota (c->views, EVENTS_L1, out);
  else if (g_str_equal (what, "GET /quota?tier=l2"))
    view_json_quota (c->views, EVENTS_L2, out);
  else
    return NULL;
  return text->str;
}

static void
compare_state (Case *c, const LmtJson *state)
{
  for (guint i = 0; i < lmt_json_get_length (state); i++)
    {
      g_autoptr (GString) text = g_string_new (NULL);
      const char *what = lmt_json_get_member_name (state, i);
      if (show (c, what, text) != NULL)
        assert_same (c, what, text->str, lmt_json_get_member_value (state, i));
    }
}

static void
play_events (Case *c, const LmtJson *call)
{
  g_autofree char *body = lmt_json_to_text (lmt_json_get_member (call, "body"), LMT_JSON_STYLE_COMPACT, FALSE);
  const gint64 status = lmt_json_get_int (lmt_json_get_member (call, "status"));
  g_autofree char *reply = NULL;
  EventsLimits limits = events_limits_default;
  EventsBatch *batches;
  guint32 n;
  EventsCounts counts = { 0 };

  limits.no_dropped_events = c->compat == EVENTS_COMPAT_056;
  events_arena_reset (c->arena);
  const EventsBodyResult result = events_batches_from_body (body, strlen (body), &limits, c->arena, &batches, &n, &c->problems);
  if (status != 200)
    {
      g_assert_cmpint (status, ==, 422);
      g_assert_cmpint (result, ==, EVENTS_BODY_INVALID);
      return;
    }
  g_assert_cmpint (result, ==, EVENTS_BODY_OK);
  g_assert_true (events_views_ingest (c->views, batches, n, 1, &counts));
  reply = g_strdup_printf ("{\"applied\":%" G_GUINT64_FORMAT ",\"duplicates\":%" G_GUINT64_FORMAT ",\"stale\":%" G_GUINT64_FORMAT
                           "}",
                           counts.applied, counts.duplicates, counts.stale);
  assert_same (c, "reply", reply, lmt_json_get_member (call, "reply"));
}

static void
play_register (Case *c, const LmtJson *call)
{
  /* Registration trims; the reply has the id that is kept. */
  const char *id = lmt_json_get_string (lmt_json_get_member (lmt_json_get_member (call, "reply"), "instance_id"));

  if (!g_ptr_array_find_with_equal_func (c->registered, id, g_str_equal, NULL))
    g_ptr_array_add (c->registered, g_strdup (id));
  events_views_register (c->views, (LmtSpan){ (const guint8 *)id, strlen (id) });
}

static void
play_delete (Case *c, const LmtJson *call)
{
  const char *path = lmt_json_get_string (lmt_json_get_member (call, "path"));
  g_autofree char *raw = g_strndup (path + strlen ("/instances/"), strcspn (path + strlen ("/instances/"), "?#"));
  g_autofree char *id = g_uri_unescape_string (raw, NULL);
  const LmtJson *before = lmt_json_get_member (call, "state_before");
  guint at;

  g_assert_nonnull (id);
  if (before != NULL)
    compare_state (c, before);
  if (lmt_json_get_int (lmt_json_get_member (call, "status")) != 204)
    return;
  if (g_ptr_array_find_with_equal_func (c->registered, id, g_str_equal, &at))
    g_free (g_ptr_array_steal_index (c->registered, at));
  events_views_depart (c->views, (LmtSpan){ (const guint8 *)id, strlen (id) }, TRUE);
}

static void
play_calls (Case *c, const LmtJson *calls)
{
  for (guint i = 0; i < lmt_json_get_length (calls); i++)
    {
      const LmtJson *call = lmt_json_get_element (calls, i);
      const char *path = lmt_json_get_string (lmt_json_get_member (call, "path"));
      const char *method = lmt_json_get_string (lmt_json_get_member (call, "method"));
      if (g_str_equal (path, "/events"))
        play_events (c, call);
      else if (g_str_equal (path, "/instances"))
        play_register (c, call);
      else if (g_str_equal (method, "DELETE"))
        play_delete (c, call);
    }
}

static LmtJson *
load (const char *path)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *text = NULL;
  gsize len;

  g_assert_true (g_file_get_contents (path, &text, &len, &error));
  if (g_str_has_suffix (path, ".gz"))
    {
      g_autoptr (GConverter) unzip = G_CONVERTER (g_zlib_decompressor_new (G_ZLIB_COMPRESSOR_FORMAT_GZIP));
      g_autoptr (GInputStream) packed = g_memory_input_stream_new_from_data (text, (gssize)len, NULL);
      g_autoptr (GInputStream) plain = g_converter_input_stream_new (packed, unzip);
      g_autoptr (GOutputStream) out = g_memory_output_stream_new_resizable ();
      g_output_stream_splice (out, plain, G_OUTPUT_STREAM_SPLICE_CLOSE_TARGET, NULL, &error);
      g_assert_no_error (error);
      g_free (text);
      len = g_memory_output_stream_get_data_size (G_MEMORY_OUTPUT_STREAM (out));
      text = g_memory_output_stream_steal_data (G_MEMORY_OUTPUT_STREAM (out));
    }
  LmtJson *json = lmt_json_parse (text, (gssize)len, &error);
  g_assert_no_error (error);
  return json;
}

static void
set_up_case (Case *c, const EventsViewsConfig *config, const char *name)
{
  *c = (Case){ .name = name,
               .compat = config->compat,
               .views = events_views_new (config),
               .arena = events_arena_new (0),
               .registered = g_ptr_array_new_with_free_func (g_free) };
  events_problems_init (&c->problems, 10);
}

static void
tear_down_case (Case *c)
{
  events_views_free (c->views);
  events_arena_free (c->arena);
  events_problems_clear (&c->problems);
  g_ptr_array_unref (c->registered);
}

static void
test_case (gconstpointer data)
{
  const char *path = data;
  g_autofree char *name = g_path_get_basename (path);
  const EventsViewsConfig config
      = { .compat = strstr (path, "rc3") != NULL ? EVENTS_COMPAT_057 : EVENTS_COMPAT_056, .with_lru = TRUE };
  g_autoptr (LmtJson) json = load (path);
  const LmtJson *state = lmt_json_get_member (json, "state");
  Case c;

  if (lmt_json_get_member (json, "directory_digest") != NULL)
    {
      g_test_skip ("not all calls are recorded: see /events/views/large");
      return;
    }
  set_up_case (&c, &config, name);
  play_calls (&c, lmt_json_get_member (json, "calls"));
  if (state != NULL)
    {
      compare_state (&c, state);
      g_assert_cmpuint (c.compared, >=, 4);
    }
  tear_down_case (&c);
}

/* ---- lookups by tokens ---- */

static void
look_up_tokens (Case *c, const LmtJson *expected, const guint32 *tokens, guint32 n, guint world, const char *salt)
{
  const guint32 chunks = n / 16;
  g_autofree guint8 *hashes = g_malloc (chunks * 32 + 1);
  g_autoptr (GString) text = g_string_new (NULL);
  LmtJsonWriter *out = lmt_json_writer_new (text, LMT_JSON_STYLE_COMPACT);

  events_chunk_hashes (tokens, n, 16, hashes);
  lmt_json_writer_begin_object (out);
  lmt_json_writer_key (out, "chunks");
  lmt_json_writer_int (out, chunks);
  lmt_json_writer_key (out, "results");
  lmt_json_writer_begin_array (out);
  for (guint chunk = 0; chunk < chunks; chunk++)
    for (guint rank = 0; rank < world; rank++)
      {
        const EventsKey key = { .hash = { hashes + chunk * 32, 32 },
                                .model = { (const guint8 *)"meta-llama/Llama-3.1-8B-Instruct", 32 },
                                .kv_rank = (gint64)world << 24 | rank << 16 | world << 8 | rank,
                                .salt = { (const guint8 *)salt, strlen (salt) } };
        events_views_lookup (c->views, &key, view_json_lookup, out);
        events_views_lookup_groups (c->views, &key, 0, view_json_lookup, out);
      }
  lmt_json_writer_end_array (out);
  lmt_json_writer_end_object (out);
  lmt_json_writer_free (out);
  assert_same (c, "lookup", text->str, expected);
}

static void
test_tokens (void)
{
  const EventsViewsConfig config = { .compat = EVENTS_COMPAT_056, .chunk_size = 16 };
  g_autofree char *path = g_test_build_filename (G_TEST_DIST, "data", "events", "expect", "tokens.json", NULL);
  g_autofree char *token_path = g_test_build_filename (G_TEST_DIST, "data", "events", "tokens.hashes.json", NULL);
  g_autoptr (LmtJson) json = load (path);
  g_autoptr (LmtJson) file = load (token_path);
  const LmtJson *state = lmt_json_get_member (json, "state"), *ids = lmt_json_get_member (file, "token_ids");
  const guint32 n = lmt_json_get_length (ids);
  g_autofree guint32 *tokens = g_new (guint32, n);
  Case c;

  for (guint i = 0; i < n; i++)
    tokens[i] = (guint32)lmt_json_get_int (lmt_json_get_element (ids, i));
  set_up_case (&c, &config, "tokens");
  play_calls (&c, lmt_json_get_member (json, "calls"));
  for (guint i = 0; i < lmt_json_get_length (state); i++)
    if (g_str_has_prefix (lmt_json_get_member_name (state, i), "lookup_tokens"))
      {
        const LmtJson *probe = lmt_json_get_member_value (state, i);
        const LmtJson *request = lmt_json_get_member (probe, "body");
        const LmtJson *world = lmt_json_get_member (request, "world_size"), *salt = lmt_json_get_member (request, "cache_salt");
        look_up_tokens (&c, lmt_json_get_member (probe, "reply"), tokens,
                        lmt_json_get_length (lmt_json_get_member (request, "token_ids")),
                        world != NULL ? (guint)lmt_json_get_int (world) : 1, salt != NULL ? lmt_json_get_string (salt) : "");
      }
  g_assert_cmpuint (c.compared, >=, 8);
  tear_down_case (&c);
}

/* ---- the large set: 20,000 batches of four servers ---- */

static void
play_mark (EventsViews *views, LmtSpan args)
{
  LmtCursor in;
  LmtSpan name, value, phase = { NULL, 0 }, id = { NULL, 0 };
  guint32 pairs = 0;

  lmt_cursor_init (&in, args);
  g_assert_true (lmt_cursor_read_map (&in, &pairs));
  for (guint32 i = 0; i < pairs; i++)
    {
      g_assert_true (lmt_cursor_read_str (&in, &name));
      if (!lmt_cursor_read_str (&in, &value))
        g_assert_true (lmt_cursor_skip (&in));
      else if (LMT_SPAN_IS (name, "phase"))
        phase = value;
      else if (LMT_SPAN_IS (name, "instance_id"))
        id = value;
    }
  if (LMT_SPAN_IS (phase, "start"))
    events_views_register (views, id);
  else
    events_views_depart (views, id, TRUE);
}

static void
add_line (const EventsKeyView *view, gpointer data)
{
  g_autoptr (GString) text = g_string_new (NULL);
  g_autoptr (LmtJsonWriter) out = lmt_json_writer_new (text, LMT_JSON_STYLE_COMPACT);
  g_autoptr (GString) looked_up = g_string_new (NULL);
  g_autoptr (LmtJson) json = NULL;
  LmtJsonWriter *row = lmt_json_writer_new (looked_up, LMT_JSON_STYLE_COMPACT);

  view_json_lookup (view, row); /* placements in the order of the lines */
  lmt_json_writer_free (row);
  json = lmt_json_parse (looked_up->str, -1, NULL);
  const LmtJson *key = lmt_json_get_member (json, "key"), *placements = lmt_json_get_member (json, "placements");
  lmt_json_writer_begin_array (out);
  for (guint i = 0; i < lmt_json_get_length (key); i++)
    lmt_json_writer_value (out, lmt_json_get_member_value (key, i));
  lmt_json_writer_int (out, (gint64)view->access_count);
  for (guint i = 0; i < lmt_json_get_length (placements); i++)
    {
      const LmtJson *each = lmt_json_get_element (placements, i);
      lmt_json_writer_begin_array (out);
      for (guint m = 0; m < lmt_json_get_length (each); m++)
        lmt_json_writer_value (out, lmt_json_get_member_value (each, m));
      lmt_json_writer_end_array (out);
    }
  lmt_json_writer_end_array (out);
  g_ptr_array_add (data, g_strdup_printf ("%s\n", text->str));
}

static gint
compare_lines (gconstpointer a, gconstpointer b)
{
  return strcmp (*(const char *const *)a, *(const char *const *)b);
}

static void
play_large (Case *c, EventsCounts *counts)
{
  g_autofree char *folder = g_test_build_filename (G_TEST_DIST, "data", "events", NULL);
  g_auto (GStrv) paths = g_new0 (char *, 5);
  const EventsMergeConfig config = { .mode = EVENTS_MERGE_CLAMP };
  g_autoptr (GError) error = NULL;
  g_autoptr (EventsMerge) merge = NULL;
  EventsMergeItem item;

  for (guint i = 0; i < 4; i++)
    paths[i] = g_strdup_printf ("%s/large_%u.lct.gz", folder, i);
  merge = events_merge_new ((const char *const *)paths, &config, &error);
  g_assert_no_error (error);
  while (events_merge_next (merge, &item, &error) == 1)
    {
      EventsBatch batch;
      events_arena_reset (c->arena);
      if (!LMT_SPAN_IS (item.record.qualname, "events.batch"))
        play_mark (c->views, item.record.args);
      else
        {
          g_assert_true (events_batch_from_args (item.record.args, &events_limits_default, c->arena, &batch, &c->problems));
          g_assert_true (events_views_ingest (c->views, &batch, 1, 1, counts));
        }
    }
  g_assert_no_error (error);
}

static void
test_large (void)
{
  const EventsViewsConfig config = { .compat = EVENTS_COMPAT_056, .with_lru = TRUE };
  g_autofree char *path = g_test_build_filename (G_TEST_DIST, "data", "events", "expect", "large.json", NULL);
  g_autoptr (LmtJson) json = load (path);
  const LmtJson *summary = lmt_json_get_member (lmt_json_get_member (json, "replay"), "summary");
  const LmtJson *digest = lmt_json_get_member (json, "directory_digest");
  const LmtJson *first = lmt_json_get_member (digest, "first_lines");
  g_autoptr (GPtrArray) lines = g_ptr_array_new_with_free_func (g_free);
  g_autoptr (GChecksum) sum = g_checksum_new (G_CHECKSUM_SHA256);
  EventsCounts counts = { 0 };
  guint64 at = 0;
  Case c;

  set_up_case (&c, &config, "large");
  g_ptr_array_add (c.registered, g_strdup ("node-0")); /* the others stopped */
  play_large (&c, &counts);
  g_assert_cmpint ((gint64)counts.applied, ==, lmt_json_get_int (lmt_json_get_member (summary, "Batches applied")));
  g_assert_cmpint ((gint64)counts.duplicates, ==, lmt_json_get_int (lmt_json_get_member (summary, "Batches duplicate")));
  g_assert_cmpint ((gint64)counts.stale, ==, lmt_json_get_int (lmt_json_get_member (summary, "Batches stale")));
  compare_state (&c, lmt_json_get_member (json, "state"));
  g_assert_cmpuint (c.compared, >=, 4);
  while (at != G_MAXUINT64)
    events_views_keys (c.views, NULL, &at, 100, add_line, lines);
  g_assert_cmpint (lines->len, ==, lmt_json_get_int (lmt_json_get_member (digest, "total")));
  g_ptr_array_sort (lines, compare_lines);
  for (guint i = 0; i < lines->len; i++)
    {
      const char *line = g_ptr_array_index (lines, i);
      if (i < lmt_json_get_length (first))
        g_assert_true (g_str_has_prefix (line, lmt_json_get_string (lmt_json_get_element (first, i))));
      g_checksum_update (sum, (const guchar *)line, -1);
    }
  g_assert_cmpstr (g_checksum_get_string (sum), ==, lmt_json_get_string (lmt_json_get_member (digest, "sha256_of_sorted_lines")));
  tear_down_case (&c);
}

static void
add_cases (const char *folder)
{
  g_autofree char *path = g_test_build_filename (G_TEST_DIST, "data", "events", folder, NULL);
  g_autoptr (GDir) dir = g_dir_open (path, 0, NULL);
  guint n = 0;

  g_assert_nonnull (dir);
  for (const char *name = g_dir_read_name (dir); name != NULL; name = g_dir_read_name (dir))
    {
      g_autofree char *stem = g_strndup (name, strcspn (name, "."));
      g_autofree char *test = g_strdup_printf ("/events/views/%s/%s", folder, stem);
      gboolean skip = FALSE;
      for (guint i = 0; i < G_N_ELEMENTS (timed); i++)
        skip |= g_str_equal (stem, timed[i]);
      n++;
      if (!skip)
        g_test_add_data_func_full (test, g_build_filename (path, name, NULL), test_case, g_free);
    }
  g_assert_cmpuint (n, >, 10);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  add_cases ("expect");
  add_cases ("rc3/expect");
  g_test_add_func ("/events/views/lookup/tokens", test_tokens);
  g_test_add_func ("/events/views/large", test_large);
  return g_test_run ();
}
