/* SPDX-License-Identifier: Apache-2.0 */
/* A checkpoint: whatever is taken over can be written and read again as the same, works like any other views, and ends empty of
 * memory of processes when they depart. */
#include "fuzz.h"

#include "events-views.h"

#include <fcntl.h>
#include <glib/gstdio.h>
#include <unistd.h>

static char *
dump (EventsViews *views)
{
  GString *text = g_string_new (NULL);
  LmtJsonWriter *out = lmt_json_writer_new (text, LMT_JSON_STYLE_COMPACT);

  events_views_dump (views, out);
  lmt_json_writer_free (out);
  return g_string_free (text, FALSE);
}

static void
collect (LmtSpan id, guint64 keys, gpointer data)
{
  (void)keys;
  g_ptr_array_add (data, g_strndup ((const char *)id.data, id.len));
}

static void
no_memory_of_a_process (const EventsKeyView *view, gpointer data)
{
  (void)data;
  for (guint32 i = 0; i < view->n_placements; i++)
    g_assert_true (view->placements[i].tier == EVENTS_L2 || view->placements[i].shared);
}

/* Every key: stored by somebody else on both tiers, then deleted. */
typedef struct
{
  EventsViews *views;
  gint64 seq;
} Stranger;

static void
use_key (Stranger *stranger, const EventsKey *key)
{
  static const EventsKind kinds[] = { EVENTS_STORE, EVENTS_ACCESS, EVENTS_DELETE };
  const EventsEntry entry = { .key = *key, .size_bytes = 5, .token_offset = -1 };
  EventsCounts counts = { 0 };

  for (guint k = 0; k < G_N_ELEMENTS (kinds) * EVENTS_N_TIERS; k++)
    {
      const EventsBatch batch = { .instance = { (const guint8 *)"\x01 a stranger", 12 },
                                  .incarnation = 1,
                                  .seq = ++stranger->seq,
                                  .kind = kinds[k / EVENTS_N_TIERS],
                                  .tier = k % EVENTS_N_TIERS,
                                  .backend = { (const guint8 *)"dram", 4 },
                                  .shared = k % 2,
                                  .entries = &entry,
                                  .n_entries = 1 };
      g_assert_true (events_views_ingest (stranger->views, &batch, 1, 1, &counts));
    }
}

static void
copy_key (const EventsKeyView *view, gpointer data)
{
  EventsKey key = view->key;

  key.hash.data = g_memdup2 (key.hash.data, MAX (key.hash.len, 1));
  key.model.data = g_memdup2 (key.model.data, MAX (key.model.len, 1));
  key.salt.data = g_memdup2 (key.salt.data, MAX (key.salt.len, 1));
  g_array_append_val (data, key);
}

static void
free_key (gpointer data)
{
  const EventsKey *key = data;

  g_free ((gpointer)key->hash.data);
  g_free ((gpointer)key->model.data);
  g_free ((gpointer)key->salt.data);
}

static void
live_on (EventsViews *views)
{
  g_autoptr (GPtrArray) ids = g_ptr_array_new_with_free_func (g_free);
  g_autoptr (GArray) keys = g_array_new (FALSE, FALSE, sizeof (EventsKey));
  Stranger stranger = { views, 0 };
  guint64 at = 0;

  g_array_set_clear_func (keys, free_key);
  while (at != G_MAXUINT64)
    events_views_keys (views, NULL, &at, 2, copy_key, keys);
  for (guint i = 0; i < keys->len; i++)
    use_key (&stranger, &g_array_index (keys, EventsKey, i));
  events_views_l1_keys (views, collect, ids);
  for (guint i = 0; i < ids->len; i++)
    events_views_depart (views, (LmtSpan){ g_ptr_array_index (ids, i), strlen (g_ptr_array_index (ids, i)) }, TRUE);
  at = 0;
  while (at != G_MAXUINT64)
    events_views_keys (views, NULL, &at, 1000, no_memory_of_a_process, NULL);
}

int
LLVMFuzzerTestOneInput (const guint8 *data, gsize size)
{
  const EventsViewsConfig config = { .compat = EVENTS_COMPAT_057, .with_lru = TRUE, .with_blend = TRUE, .chunk_size = 4 };
  EventsViews *views = events_views_new (&config), *again = events_views_new (&config);
  g_autofree char *note = NULL, *second_note = NULL, *path = NULL;
  const int fd = g_file_open_tmp ("lmtrace-fuzz-XXXXXX", &path, NULL);

  g_assert_cmpint (fd, >=, 0);
  close (fd);
  if (events_checkpoint_load (views, NULL, (LmtSpan){ data, size }, &note))
    {
      g_autofree char *before = dump (views), *after = NULL;
      g_assert_true (events_checkpoint_write (views, NULL, path, NULL));
      g_assert_true (events_checkpoint_read (again, NULL, path, &second_note));
      g_assert_cmpstr (second_note, ==, NULL);
      after = dump (again);
      g_assert_cmpstr (after, ==, before);
      live_on (views);
    }
  else
    g_assert_nonnull (note);
  (void)g_unlink (path);
  events_views_free (views);
  events_views_free (again);
  return 0;
}
