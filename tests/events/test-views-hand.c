// SPDX-License-Identifier: Apache-2.0
/* Limits, what is set by hand, tokens and blend, files that are damaged: one thing a test. */
#include "hand-batch.h"

#include <glib/gstdio.h>
#include <lmtrace/lmt-json.h>

static gboolean
send (EventsViews *views, EventsBatch batch, const EventsEntry *entries, guint32 n)
{
  EventsCounts counts = { 0 };

  batch.entries = entries;
  batch.n_entries = n;
  return events_views_ingest (views, &batch, 1, 1, &counts);
}

static gboolean
store (EventsViews *views, const char *instance, gint64 seq, EventsTier tier, const char *hash, gint64 size)
{
  const EventsEntry entry = hand_entry (hash, size);

  return send (views, hand_batch (instance, 1, seq, EVENTS_STORE, tier, "x"), &entry, 1);
}

static EventsStats
stats_of (EventsViews *views)
{
  EventsStats stats;

  events_views_stats (views, &stats);
  return stats;
}

/* A full table refuses before the gate: the same batch is taken once there is room. */
static void
test_full (void)
{
  const EventsViewsConfig config = { .compat = EVENTS_COMPAT_057, .max_keys = 3, .max_instances = 2 };
  EventsViews *views = events_views_new (&config);
  const EventsEntry entries[] = { hand_entry ("a", 1), hand_entry ("b", 1), hand_entry ("b", 1), hand_entry ("c", 1) };
  const EventsEntry gone = hand_entry ("a", 0);

  g_assert_false (
      send (views, hand_batch ("i", 1, 1, EVENTS_STORE, EVENTS_L1, "x"), entries, 4)); /* b counts twice: may be too many */
  g_assert_true (send (views, hand_batch ("i", 1, 1, EVENTS_STORE, EVENTS_L1, "x"), entries, 2));
  g_assert_true (send (views, hand_batch ("i", 1, 2, EVENTS_STORE, EVENTS_L2, "x"), entries, 4));
  g_assert_cmpint (stats_of (views).num_keys, ==, 3);
  g_assert_false (store (views, "i", 3, EVENTS_L1, "d", 1));
  g_assert_true (store (views, "i", 3, EVENTS_L1, "c", 1)); /* nothing new */
  g_assert_false (store (views, "i", 4, EVENTS_L1, "d", 1));
  g_assert_true (store (views, "i", 3, EVENTS_L1, "d", 1)); /* a duplicate brings nothing either */
  g_assert_true (send (views, hand_batch ("i", 1, 4, EVENTS_DELETE, EVENTS_L1, "x"), &gone, 1));
  g_assert_true (send (views, hand_batch ("i", 1, 5, EVENTS_DELETE, EVENTS_L2, "x"), &gone, 1));
  g_assert_true (store (views, "i", 6, EVENTS_L1, "d", 1));
  g_assert_true (store (views, "j", 1, EVENTS_L1, "d", 1));
  g_assert_false (store (views, "k", 1, EVENTS_L1, "d", 1)); /* a third instance */
  events_views_depart (views, hand_span ("j"), TRUE);
  g_assert_true (store (views, "k", 1, EVENTS_L1, "d", 1));
  g_assert_null (events_gate_get (events_views_get_gate (views), hand_span ("j")));
  events_views_free (views);
}

static void
sum_modules (const EventsModule *module, gpointer data)
{
  *(gint64 *)data += module->used_bytes;
}

/* Sums of sizes at the end of 63 bits, and back. */
static void
test_huge (void)
{
  const EventsViewsConfig config = { .compat = EVENTS_COMPAT_056 };
  EventsViews *views = events_views_new (&config);
  gint64 used = 0;
  gboolean declared;
  const EventsEntry gone = hand_entry ("a", 0);

  for (guint i = 0; i < 3; i++)
    g_assert_true (store (views, "i", i + 1, EVENTS_L2, (const char *const[]){ "a", "b", "c" }[i], G_MAXINT64));
  g_assert_cmpint (stats_of (views).bytes[EVENTS_L2], ==, G_MAXINT64);
  g_assert_true (events_views_modules (views, hand_span ("i"), &declared, sum_modules, &used));
  g_assert_cmpint (used, ==, G_MAXINT64);
  g_assert_true (store (views, "i", 4, EVENTS_L2, "b", 1));
  g_assert_true (store (views, "i", 5, EVENTS_L2, "c", 2));
  g_assert_true (send (views, hand_batch ("i", 1, 6, EVENTS_DELETE, EVENTS_L2, "x"), &gone, 1));
  g_assert_cmpint (stats_of (views).bytes[EVENTS_L2], ==, 3);
  g_assert_cmpint (events_views_salt_bytes (views, EVENTS_L2, hand_span ("")), ==, 3);
  events_views_free (views);
}

static void
note_fence (LmtSpan instance, guint64 dropped, guint64 kept, gpointer data)
{
  g_string_append_printf (data, "%.*s %" G_GUINT64_FORMAT " %" G_GUINT64_FORMAT ";", LMT_SPAN_STR (instance), dropped, kept);
}

/* D11: a shared L1 placement after its reporter's restart. */
static void
test_shared_fence (void)
{
  static const struct
  {
    EventsCompat compat;
    gint64 keys, usage_only;
    const char *fenced;
  } rules[] = { { EVENTS_COMPAT_056, 1, 1, "i 2 1;" },
                { EVENTS_COMPAT_057, 1, 1, "i 2 1;" },
                { EVENTS_COMPAT_STRICT, 2, 0, "i 1 0;" } };

  for (guint r = 0; r < G_N_ELEMENTS (rules); r++)
    {
      const EventsViewsConfig config = { .compat = rules[r].compat };
      EventsViews *views = events_views_new (&config);
      const EventsEntry shared = hand_entry ("pool", 100), own = hand_entry ("own", 10), other = hand_entry ("other", 1);
      EventsBatch batch = hand_batch ("i", 1, 1, EVENTS_STORE, EVENTS_L1, "x");
      g_autoptr (GString) fenced = g_string_new (NULL);

      events_views_set_funcs (views, note_fence, NULL, fenced);
      batch.shared = TRUE;
      g_assert_true (send (views, batch, &shared, 1));
      g_assert_true (send (views, hand_batch ("i", 1, 2, EVENTS_STORE, EVENTS_L1, "x"), &own, 1));
      g_assert_true (send (views, hand_batch ("i", 2, 1, EVENTS_STORE, EVENTS_L1, "x"), &other, 1));
      g_assert_cmpstr (fenced->str, ==, rules[r].fenced);
      g_assert_cmpint (stats_of (views).num_keys, ==, rules[r].keys);
      g_assert_cmpuint (stats_of (views).usage_only, ==, rules[r].usage_only);
      g_assert_cmpint (events_views_salt_bytes (views, EVENTS_L1, hand_span ("")), ==, 101);
      batch.seq = 1;
      batch.instance = hand_span ("j");
      g_assert_true (send (views, batch, &shared, 1)); /* known to both again */
      g_assert_cmpuint (stats_of (views).usage_only, ==, 0);
      g_assert_cmpint (stats_of (views).num_keys, ==, 2);
      g_assert_cmpint (events_views_salt_bytes (views, EVENTS_L1, hand_span ("")), ==, 101);
      events_views_free (views);
    }
}

static void
add_key (const EventsKeyView *view, gpointer data)
{
  g_string_append_printf (data, "%.*s.%" G_GINT64_FORMAT " ", LMT_SPAN_STR (view->key.hash), view->key.group);
}

static void
test_eviction (void)
{
  const EventsViewsConfig config = { .compat = EVENTS_COMPAT_057, .with_lru = TRUE };
  EventsViews *views = events_views_new (&config);
  const char *const names[] = { "a", "b", "c", "d", "e" };
  g_autoptr (GString) found = g_string_new (NULL);
  EventsEntry entry = hand_entry ("a", 0);
  double limit = 0;

  for (guint i = 0; i < 5; i++)
    store (views, "i", i + 1, EVENTS_L2, names[i], 10);
  send (views, hand_batch ("i", 1, 6, EVENTS_ACCESS, EVENTS_L1, ""), &entry, 1); /* L1's accesses don't count */
  events_views_victims (views, hand_span (""), 0.4, add_key, found);
  g_assert_cmpstr (found->str, ==, "a.0 b.0 ");
  send (views, hand_batch ("i", 1, 7, EVENTS_ACCESS, EVENTS_L2, ""), &entry, 1);
  entry = hand_entry ("c", 0);
  entry.key.group = 3;
  events_views_pin (views, &entry.key, 1); /* in every group */
  events_views_pin (views, &entry.key, 1);
  g_string_truncate (found, 0);
  events_views_victims (views, hand_span (""), 0.5, add_key, found);
  g_assert_cmpstr (found->str, ==, "b.0 d.0 ");
  events_views_pin (views, &entry.key, -1);
  g_assert_cmpuint (events_views_pins (views, hand_span ("m"), (LmtSpan){ NULL, 0 }, NULL, NULL), ==, 1);
  g_assert_cmpuint (events_views_pins (views, hand_span ("other"), (LmtSpan){ NULL, 0 }, NULL, NULL), ==, 0);
  events_views_pin (views, &entry.key, -1);
  events_views_pin (views, &entry.key, -1);
  g_assert_cmpuint (events_views_pins (views, (LmtSpan){ NULL, 0 }, (LmtSpan){ NULL, 0 }, NULL, NULL), ==, 0);
  g_string_truncate (found, 0);
  events_views_victims (views, hand_span (""), 0.01, add_key, found);
  events_views_victims (views, hand_span (""), 0, add_key, found);
  events_views_victims (views, hand_span ("nobody"), 1, add_key, found);
  g_assert_cmpstr (found->str, ==, "b.0 "); /* one at least */
  g_assert_false (events_views_get_quota (views, hand_span ("t"), &limit));
  events_views_set_quota (views, hand_span ("t"), 0.1);
  g_assert_true (events_views_get_quota (views, hand_span ("t"), &limit));
  g_assert_cmpfloat (limit * 1073741824.0, ==, 107374182.0); /* whole bytes */
  g_assert_true (events_views_remove_quota (views, hand_span ("t")));
  g_assert_false (events_views_remove_quota (views, hand_span ("t")));
  g_assert_false (events_views_get_default_quota (views, &limit));
  events_views_set_default_quota (views, TRUE, 2);
  g_assert_true (events_views_get_default_quota (views, &limit));
  g_assert_cmpfloat (limit, ==, 2);
  events_views_free (views);
}

/* ---- tokens ---- */

static void
add_match (LmtSpan hash, gint64 old_start, gint64 start, gpointer data)
{
  g_string_append_printf (data, "%.*s %" G_GINT64_FORMAT "->%" G_GINT64_FORMAT "; ", LMT_SPAN_STR (hash), old_start, start);
}

static EventsEntry
token_entry (const char *hash, const guint32 *tokens, guint32 n, gint64 offset)
{
  EventsEntry entry = hand_entry (hash, 1);

  entry.token_ids = tokens;
  entry.n_tokens = n;
  entry.tokens_valid = TRUE;
  entry.token_offset = offset;
  return entry;
}

static void
test_blend (void)
{
  static const guint32 first[] = { 1, 2, 3, 4 }, second[] = { 4294967295, 7, 7, 7 },
                       query[] = { 9, 1, 2, 3, 4, 4294967295, 7, 7, 7, 1, 2, 3, 4 };
  const EventsViewsConfig config = { .compat = EVENTS_COMPAT_057, .with_blend = TRUE, .chunk_size = 4 };
  EventsViews *views = events_views_new (&config);
  g_autoptr (GString) found = g_string_new (NULL);
  EventsEntry entries[] = { token_entry ("a", first, 4, 8), token_entry ("b", second, 4, 0), token_entry ("c", second, 3, 0),
                            token_entry ("d", first, 4, -1), token_entry ("e", first, 4, 16) };

  send (views, hand_batch ("i", 1, 1, EVENTS_STORE, EVENTS_L1, "x"), entries, G_N_ELEMENTS (entries));
  g_assert_cmpuint (stats_of (views).num_contents, ==, 2);
  g_assert_cmpuint (stats_of (views).num_chunks, ==, 3); /* not c, which is no chunk, and not d, whose place isn't known */
  g_assert_cmpuint (stats_of (views).num_namespaces, ==, 1);
  events_views_blend (views, query, G_N_ELEMENTS (query), hand_span ("m"), hand_span (""), 1, add_match, found);
  g_assert_cmpstr (found->str, ==, "a 8->1; b 0->5; e 16->9; "); /* each chunk once */
  g_string_truncate (found, 0);
  events_views_blend (views, query, G_N_ELEMENTS (query), hand_span ("m"), hand_span (""), 2, add_match, found);
  events_views_blend (views, query, G_N_ELEMENTS (query), hand_span ("n"), hand_span (""), 1, add_match, found);
  events_views_blend (views, query, 3, hand_span ("m"), hand_span (""), 1, add_match, found);
  g_assert_cmpstr (found->str, ==, "");
  entries[0] = token_entry ("a", second, 4, 3); /* other content under the same hash */
  send (views, hand_batch ("i", 1, 2, EVENTS_STORE, EVENTS_L1, "x"), entries, 1);
  send (views, hand_batch ("i", 1, 3, EVENTS_DELETE, EVENTS_L1, "x"), entries + 1, 1);
  events_views_blend (views, query, G_N_ELEMENTS (query), hand_span ("m"), hand_span (""), 1, add_match, found);
  g_assert_cmpstr (found->str, ==, "e 16->1; a 3->5; ");
  g_assert_true (events_views_set_chunk_size (views, 4));
  g_assert_true (events_views_set_chunk_size (views, 4));
  g_assert_false (events_views_set_chunk_size (views, 8));
  events_views_depart (views, hand_span ("i"), TRUE);
  g_assert_cmpuint (stats_of (views).num_contents + stats_of (views).num_claims + stats_of (views).num_namespaces, ==, 0);
  events_views_free (views);
}

/* The window may grow once; what was stored is looked through again. */
static void
test_chunk_size (void)
{
  static const guint32 tokens[] = { 1, 2, 3, 4, 5, 6 };
  const EventsViewsConfig config = { .compat = EVENTS_COMPAT_057, .with_blend = TRUE, .chunk_size = 4 };
  EventsViews *views = events_views_new (&config);
  const EventsEntry entries[] = { token_entry ("a", tokens, 6, 0), token_entry ("b", tokens, 4, 0) };

  send (views, hand_batch ("i", 1, 1, EVENTS_STORE, EVENTS_L1, "x"), entries, 2);
  g_assert_cmpuint (stats_of (views).num_chunks, ==, 1);
  g_assert_false (events_views_set_chunk_size (views, 3));
  g_assert_true (events_views_set_chunk_size (views, 6));
  g_assert_cmpuint (events_views_get_chunk_size (views), ==, 6);
  g_assert_cmpuint (stats_of (views).num_chunks, ==, 1);
  g_assert_false (events_views_set_chunk_size (views, 4));
  events_views_free (views);
}

/* Keys of one hash in more groups than a short list holds. */
static void
test_groups (void)
{
  const EventsViewsConfig config = { .compat = EVENTS_COMPAT_057 };
  EventsViews *views = events_views_new (&config);
  g_autoptr (GString) found = g_string_new (NULL);
  EventsEntry entry = hand_entry ("h", 1);

  for (guint i = 0; i < 40; i++)
    {
      entry.key.group = (gint64)(i * 7 % 40);
      send (views, hand_batch ("i", 1, i + 1, EVENTS_STORE, EVENTS_L1, "x"), &entry, 1);
    }
  for (guint i = 0; i < 40; i++)
    if (i % 10 != 4)
      {
        entry.key.group = i;
        send (views, hand_batch ("i", 1, 41 + i, EVENTS_DELETE, EVENTS_L1, "x"), &entry, 1);
      }
  events_views_lookup_groups (views, &entry.key, 14, add_key, found);
  g_assert_cmpstr (found->str, ==, "h.4 h.24 h.34 ");
  events_views_free (views);
}

static void
delete_others (EventsViews *views, gint64 *seq)
{
  for (guint i = 0; i < 300; i++)
    if (i % 100 > 0)
      {
        char name[8];
        g_snprintf (name, sizeof name, "%u", i);
        const EventsEntry entry = hand_entry (name, 0);
        send (views, hand_batch ("i", 1, ++*seq, EVENTS_DELETE, EVENTS_L2, "x"), &entry, 1);
      }
}

/* A page's cursor holds while keys go and come. */
static void
test_pages (void)
{
  const EventsViewsConfig config = { .compat = EVENTS_COMPAT_057 };
  const EventsKeyFilter none = { .has_tier = TRUE, .tier = EVENTS_L1 };
  EventsViews *views = events_views_new (&config);
  g_autoptr (GString) found = g_string_new (NULL);
  guint64 at = 0;
  gint64 seq = 0;

  for (guint i = 0; i < 300; i++)
    {
      char name[8];
      g_snprintf (name, sizeof name, "%u", i);
      store (views, "i", ++seq, EVENTS_L2, name, 1);
    }
  g_assert_cmpuint (events_views_keys (views, NULL, &at, 100, add_key, found), ==, 100);
  g_string_truncate (found, 0);
  delete_others (views, &seq);
  for (guint i = 0; i < 600; i++) /* the list is squeezed on the way */
    {
      char name[8];
      g_snprintf (name, sizeof name, "n%u", i % 2);
      const EventsEntry entry = hand_entry (name, 0);
      store (views, "i", ++seq, EVENTS_L2, name, 1);
      send (views, hand_batch ("i", 1, ++seq, EVENTS_DELETE, EVENTS_L2, "x"), &entry, 1);
    }
  store (views, "i", ++seq, EVENTS_L2, "last", 1);
  g_assert_cmpuint (events_views_keys (views, NULL, &at, 1, add_key, found), ==, 1);
  g_assert_cmpuint (events_views_keys (views, NULL, &at, 1000, add_key, found), ==, 2);
  g_assert_cmpstr (found->str, ==, "100.0 200.0 last.0 ");
  g_assert_cmpuint (at, ==, G_MAXUINT64);
  g_assert_cmpuint (events_views_keys (views, NULL, &at, 1000, add_key, found), ==, 0);
  at = 0;
  g_assert_cmpuint (events_views_keys (views, &none, &at, 1000, NULL, NULL), ==, 0);
  events_views_free (views);
}

/* ---- files ---- */

typedef struct
{
  char *folder, *path;
} Files;

static void
set_up (Files *files, gconstpointer data)
{
  (void)data;
  files->folder = g_dir_make_tmp ("lmtrace-views-XXXXXX", NULL);
  files->path = g_build_filename (files->folder, "state", NULL);
}

static void
tear_down (Files *files, gconstpointer data)
{
  (void)data;
  (void)g_unlink (files->path);
  (void)g_rmdir (files->folder);
  g_free (files->folder);
  g_free (files->path);
}

static char *
load_note (const char *bytes, gsize len, const EventsViewsConfig *config, gboolean *taken)
{
  EventsViews *views = events_views_new (config);
  char *note = NULL;

  *taken = events_checkpoint_load (views, NULL, (LmtSpan){ (const guint8 *)bytes, len }, &note);
  events_views_free (views);
  return note;
}

static void
test_damage (Files *files, gconstpointer data)
{
  static const struct
  {
    const char *bytes;
    gsize len;
    const char *note;
    gboolean taken;
  } rows[] = {
#define ROW(bytes, note, taken) { bytes, sizeof (bytes) - 1, note, taken }
    ROW ("LMCKPT", "expected a header of 12 bytes, found 6", FALSE),
    ROW ("LMCKPX\0\0\1\0\0\0\x80", "no checkpoint: the first bytes are others", FALSE),
    ROW ("LMCKPT\0\0\2\0\0\0\x80", "expected checkpoint version 1, found 2", FALSE),
    ROW ("LMCKPT\0\0\1\0\0\0\x81", "the content is no whole msgpack value", FALSE),
    ROW ("LMCKPT\0\0\1\0\0\0\x90", "expected a map of sections", FALSE),
    ROW ("LMCKPT\0\0\1\0\0\0\x81\xa1x\x01", "no section that is known here", FALSE),
    ROW ("LMCKPT\0\0\1\0\0\0\x82\xaestream_cursors\x81\xa7"
         "cursors\x80\xadserver_config\x90",
         "section server_config at byte 0: expected declarations: left out", TRUE),
    ROW ("LMCKPT\0\0\1\0\0\0\x81\xaestream_cursors\x81\xa7"
         "cursors\x81\xa1i\x92\x01\x02",
         "section stream_cursors at byte 12: expected a cursor of 3 or 4: left out", FALSE),
  };
  const EventsViewsConfig config = { .compat = EVENTS_COMPAT_057 };
  g_autofree char *missing = NULL, *folder_note = NULL;
  EventsViews *views = events_views_new (&config);
  gboolean taken;

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autofree char *note = load_note (rows[i].bytes, rows[i].len, &config, &taken);
      g_assert_cmpint (taken, ==, rows[i].taken);
      g_assert_cmpstr (note, ==, rows[i].note);
    }
  g_assert_false (events_checkpoint_read (views, NULL, files->path, &missing));
  g_assert_true (g_str_has_suffix (missing, "/state: none there yet"));
  g_assert_false (events_checkpoint_read (views, NULL, files->folder, &folder_note));
  g_assert_true (g_str_has_suffix (folder_note, ": no regular file"));
  events_views_free (views);
}

/* What doesn't fit the limits isn't taken over; departed streams and Kafka's positions come back. */
static void
test_checkpoint (Files *files, gconstpointer data)
{
  EventsViewsConfig config = { .compat = EVENTS_COMPAT_057 };
  EventsViews *views = events_views_new (&config), *again;
  g_autoptr (GArray) offsets = g_array_new (FALSE, FALSE, sizeof (EventsKafkaOffset)),
                     read = g_array_new (FALSE, FALSE, sizeof (EventsKafkaOffset));
  const EventsKafkaOffset offset = { (char *)"topic", 3, 77 };
  g_autoptr (GError) error = NULL;
  char *note = NULL;

  g_array_append_val (offsets, offset);
  store (views, "i", 1, EVENTS_L2, "a", 1);
  store (views, "i", 4, EVENTS_L2, "b", 1);
  store (views, "j", 1, EVENTS_L1, "a", 1);
  events_views_depart (views, hand_span ("j"), TRUE);
  g_assert_true (events_checkpoint_write (views, offsets, files->path, &error));
  g_assert_no_error (error);
  again = events_views_new (&config);
  g_assert_true (events_checkpoint_read (again, read, files->path, &note));
  g_assert_cmpstr (note, ==, NULL);
  g_assert_cmpuint (read->len, ==, 1);
  g_assert_cmpstr (g_array_index (read, EventsKafkaOffset, 0).topic, ==, "topic");
  g_assert_cmpint (g_array_index (read, EventsKafkaOffset, 0).offset, ==, 77);
  g_free (g_array_index (read, EventsKafkaOffset, 0).topic);
  g_assert_true (events_gate_get (events_views_get_gate (again), hand_span ("j"))->departed);
  g_assert_cmpuint (events_gate_get (events_views_get_gate (again), hand_span ("i"))->missing, ==, 2);
  g_assert_false (events_checkpoint_read (again, NULL, files->path, &note));
  g_assert_true (g_str_has_suffix (note, ": the views aren't empty"));
  g_free (note);
  events_views_free (again);
  config.max_keys = 1;
  again = events_views_new (&config);
  g_assert_true (events_checkpoint_read (again, NULL, files->path, &note));
  g_assert_nonnull (strstr (note, "section key_directory at byte "));
  g_assert_nonnull (strstr (note, "expected no more keys than the limit: left out"));
  g_assert_cmpint (stats_of (again).num_keys, ==, 0);
  g_free (note);
  events_views_free (again);
  g_assert_false (events_checkpoint_write (views, NULL, "/proc/nowhere/checkpoint", &error));
  g_assert_nonnull (error);
  events_views_free (views);
}

/* A process of its own writes what was there when it started, while the views go on. */
static void
test_checkpoint_child (Files *files, gconstpointer data)
{
  const EventsViewsConfig config = { .compat = EVENTS_COMPAT_057 };
  EventsViews *views = events_views_new (&config), *again = events_views_new (&config);
  g_autofree char *temporary = g_strconcat (files->path, ".tmp", NULL), *beside = g_strconcat (files->folder, ".tmp", NULL);
  g_autoptr (GError) error = NULL, second = NULL;
  EventsCheckpointChild *child;
  char *note = NULL;

  store (views, "i", 1, EVENTS_L2, "a", 1);
  store (views, "i", 2, EVENTS_L1, "b", 1);
  child = events_checkpoint_start (views, NULL, files->path);
  g_assert_nonnull (child);
  store (views, "i", 3, EVENTS_L2, "c", 1);
  g_assert_true (events_checkpoint_finish (child, &error));
  g_assert_no_error (error);
  g_assert_true (events_checkpoint_read (again, NULL, files->path, &note));
  g_assert_cmpstr (note, ==, NULL);
  g_assert_cmpint (stats_of (again).num_keys, ==, 2);
  g_assert_cmpint (events_gate_get (events_views_get_gate (again), hand_span ("i"))->last_seq, ==, 2);
  events_views_free (again);

  child = events_checkpoint_start (views, NULL, "/proc/nowhere/checkpoint");
  g_assert_false (events_checkpoint_finish (child, &error));
  g_assert_nonnull (strstr (error->message, "/proc/nowhere/checkpoint.tmp: cannot write: "));
  child = events_checkpoint_start (views, NULL, files->folder);
  g_assert_false (events_checkpoint_finish (child, &second));
  g_assert_nonnull (strstr (second->message, ": cannot replace: "));
  g_assert_false (g_file_test (beside, G_FILE_TEST_EXISTS));

  /* Ended from outside, before or after it was done: a whole file, no half one. */
  events_checkpoint_abandon (events_checkpoint_start (views, NULL, files->path));
  events_checkpoint_abandon (NULL);
  g_assert_false (g_file_test (temporary, G_FILE_TEST_EXISTS));
  again = events_views_new (&config);
  g_assert_true (events_checkpoint_read (again, NULL, files->path, &note));
  g_assert_cmpstr (note, ==, NULL);
  g_assert_cmpint (stats_of (again).num_keys, >=, 2);
  events_views_free (again);
  events_views_free (views);
}

static void
test_metadata (Files *files, gconstpointer data)
{
  const EventsViewsConfig config = { .compat = EVENTS_COMPAT_057 };
  EventsViews *views = events_views_new (&config), *again = events_views_new (&config);
  const EventsEntry entry = hand_entry ("\xca\xfe", 0);
  g_autoptr (GError) error = NULL;
  g_autofree char *text = NULL;
  char *note = NULL;
  double limit = 0;
  static const struct
  {
    const char *text, *note;
    gboolean taken;
  } rows[] = {
    { "[]", ": expected an object", FALSE },
    { "{\"version\":2}", ": expected version 1", FALSE },
    { "{\"version\":1,\"components\":{}}", ": expected a time `saved_at`", FALSE },
    { "{\"version\":1,\"saved_at\":1,\"components\":{\"pins\":{\"entries\":[{}]},\"quotas\":{\"limits\":{\"a\":5},\"default_"
      "limit_bytes\":null}}}",
      ": pins not as they should be: left out", TRUE },
    { "{\"version\":1,\"saved_at\":1,\"components\":{\"quotas\":{\"limits\":{\"a\":\"x\"},\"default_limit_bytes\":null}}}",
      ": quotas not as they should be: left out", FALSE },
  };

  g_assert_false (events_metadata_read (again, files->path, &note));
  g_assert_true (g_str_has_suffix (note, ": none there yet"));
  g_free (note);
  events_views_pin (views, &entry.key, 2);
  events_views_set_quota (views, hand_span ("t \xc3\xa9"), 1.5);
  events_views_set_default_quota (views, TRUE, 0);
  g_assert_true (events_metadata_write (views, files->path, &error));
  g_assert_no_error (error);
  g_assert_true (g_file_get_contents (files->path, &text, NULL, NULL));
  g_assert_nonnull (strstr (text, "\"chunk_hash_hex\": \"cafe\""));
  g_assert_nonnull (strstr (text, ": 1610612736"));
  g_assert_true (events_metadata_read (again, files->path, &note));
  g_assert_cmpstr (note, ==, NULL);
  g_assert_true (events_views_get_quota (again, hand_span ("t \xc3\xa9"), &limit));
  g_assert_cmpfloat (limit, ==, 1.5);
  g_assert_true (events_views_get_default_quota (again, &limit));
  g_assert_cmpfloat (limit, ==, 0);
  g_assert_cmpuint (events_views_pins (again, hand_span ("m"), hand_span (""), NULL, NULL), ==, 1);
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      EventsViews *fresh = events_views_new (&config);
      g_assert_true (g_file_set_contents (files->path, rows[i].text, -1, NULL));
      g_assert_cmpint (events_metadata_read (fresh, files->path, &note), ==, rows[i].taken);
      g_assert_true (g_str_has_suffix (note, rows[i].note));
      g_free (note);
      events_views_free (fresh);
    }
  events_views_free (views);
  events_views_free (again);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/events/views/full", test_full);
  g_test_add_func ("/events/views/huge", test_huge);
  g_test_add_func ("/events/views/shared-fence", test_shared_fence);
  g_test_add_func ("/events/views/eviction", test_eviction);
  g_test_add_func ("/events/views/blend", test_blend);
  g_test_add_func ("/events/views/chunk-size", test_chunk_size);
  g_test_add_func ("/events/views/groups", test_groups);
  g_test_add_func ("/events/views/pages", test_pages);
  g_test_add ("/events/views/checkpoint/damage", Files, NULL, set_up, test_damage, tear_down);
  g_test_add ("/events/views/checkpoint/child", Files, NULL, set_up, test_checkpoint_child, tear_down);
  g_test_add ("/events/views/checkpoint/whole", Files, NULL, set_up, test_checkpoint, tear_down);
  g_test_add ("/events/views/metadata", Files, NULL, set_up, test_metadata, tear_down);
  return g_test_run ();
}
