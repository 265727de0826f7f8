// SPDX-License-Identifier: Apache-2.0
/*
 * Figures for people: gate and views alone, no files, no HTTP (events.md 16, S3).
 *
 *   bench-views [KEYS]              KEYS keys (1,000,000) with two placements each: memory, time an entry
 *   bench-views FILE.lct…           batches of the files, parsed first: time of parsing and of gate and views a batch
 */
#include "events-merge.h"
#include "events-views.h"

#include <glib/gstdio.h>
#include <lmtrace/lmt-hash.h>
#include <stdio.h>
#include <stdlib.h>

enum
{
  ENTRIES = 64,
  INSTANCES = 8,
};

static double
seconds (void)
{
  return (double)g_get_monotonic_time () / 1e6;
}

static double
resident_mib (void)
{
  g_autofree char *text = NULL;

  if (!g_file_get_contents ("/proc/self/status", &text, NULL, NULL))
    return 0;
  const char *at = strstr (text, "VmRSS:");
  return at != NULL ? g_ascii_strtod (at + 6, NULL) / 1024 : 0;
}

static void
fill_hash (guint8 *hash, guint64 number)
{
  for (guint i = 0; i < 4; i++)
    {
      const guint64 word = lmt_mix64 (number * 4 + i + 1);
      memcpy (hash + 8 * i, &word, 8);
    }
}

typedef struct
{
  EventsViews *views;
  gint64 seq[INSTANCES];
  EventsCounts counts;
} Bench;

static void
send (Bench *bench, guint64 first, guint64 n, EventsKind kind, EventsTier tier)
{
  static const char *const salts[] = { "", "tenant-a", "tenant-b" };
  guint8 hashes[ENTRIES][32];
  EventsEntry entries[ENTRIES];
  char id[32];
  const guint instance = (guint)(first / ENTRIES) % INSTANCES;

  for (guint64 i = 0; i < n; i++)
    {
      fill_hash (hashes[i], first + i);
      entries[i] = (EventsEntry){ .key = { .hash = { hashes[i], 32 },
                                           .model = { (const guint8 *)"meta-llama/Llama-3.1-8B-Instruct", 32 },
                                           .kv_rank = 0x1000100,
                                           .salt = { (const guint8 *)salts[instance % 3], strlen (salts[instance % 3]) } },
                                  .size_bytes = 1 << 20,
                                  .token_offset = -1 };
    }
  g_snprintf (id, sizeof id, "node-%u", instance);
  const EventsBatch batch = { .instance = { (const guint8 *)id, strlen (id) },
                              .incarnation = 1758400000,
                              .seq = ++bench->seq[instance],
                              .kind = kind,
                              .tier = tier,
                              .backend = { (const guint8 *)(tier == EVENTS_L1 ? "dram" : "fs"), tier == EVENTS_L1 ? 4 : 2 },
                              .entries = entries,
                              .n_entries = (guint32)n,
                              .ts = 1758400000.0 };
  events_views_ingest (bench->views, &batch, 1, 1, &bench->counts);
}

static void
pass (Bench *bench, guint64 keys, EventsKind kind, EventsTier tier, const char *what)
{
  const double start = seconds ();

  for (guint64 first = 0; first < keys; first += ENTRIES)
    send (bench, first, MIN (keys - first, (guint64)ENTRIES), kind, tier);
  const double taken = seconds () - start;
  printf ("%-26s %7.0f ns an entry, resident %7.1f MiB\n", what, taken * 1e9 / (double)keys, resident_mib ());
}

static void
checkpoint (EventsViews *views, const EventsViewsConfig *config)
{
  g_autofree char *path = g_build_filename (g_get_tmp_dir (), "bench-views.checkpoint", NULL);
  EventsViews *again = events_views_new (config);
  g_autofree char *note = NULL;
  GStatBuf st = { 0 };
  double start = seconds ();

  const gboolean written = events_checkpoint_write (views, NULL, path, NULL);
  const double writing = seconds () - start;
  start = seconds ();
  const gboolean read = written && events_checkpoint_read (again, NULL, path, &note);
  (void)g_stat (path, &st);
  (void)g_unlink (path);
  if (read)
    printf ("%-26s %.0f MB written in %.2f s (fsync included), read in %.2f s\n", "checkpoint", (double)st.st_size / 1e6, writing,
            seconds () - start);
  events_views_free (again);
  start = seconds ();
  EventsCheckpointChild *child = events_checkpoint_start (views, NULL, path);
  const double pause = seconds () - start;
  if (child != NULL && events_checkpoint_finish (child, NULL))
    printf ("%-26s pause %.2f ms, done after %.2f s\n", "by a process of its own", pause * 1e3, seconds () - start);
  (void)g_unlink (path);
}

static void
synthetic (guint64 keys)
{
  const EventsViewsConfig config = { .compat = EVENTS_COMPAT_057 };
  Bench bench = { .views = events_views_new (&config) };
  EventsStats stats;
  guint64 at = 0, pages = 0;
  double longest = 0;

  printf ("%-26s %31.1f MiB\n", "before", resident_mib ());
  pass (&bench, keys, EVENTS_STORE, EVENTS_L1, "store l1");
  pass (&bench, keys, EVENTS_STORE, EVENTS_L2, "store l2");
  pass (&bench, keys, EVENTS_STORE, EVENTS_L2, "store l2 again");
  pass (&bench, keys, EVENTS_ACCESS, EVENTS_L1, "access");
  const double start = seconds ();
  while (at != G_MAXUINT64)
    {
      const double before = seconds ();
      events_views_keys (bench.views, &(EventsKeyFilter){ .has_tier = 1, .tier = EVENTS_L2 }, &at, 10000, NULL, NULL);
      longest = MAX (longest, seconds () - before);
      pages++;
    }
  printf ("%-26s %7.0f ns a key, longest page of 10,000 %.2f ms\n", "keys, filtered", (seconds () - start) * 1e9 / (double)keys,
          longest * 1e3);
  events_views_stats (bench.views, &stats);
  printf ("%-26s %" G_GINT64_FORMAT " keys, %" G_GINT64_FORMAT " placements, %" G_GUINT64_FORMAT " pages\n", "held",
          (gint64)stats.num_keys, (gint64)stats.num_placements, pages);
  checkpoint (bench.views, &config);
  pass (&bench, keys, EVENTS_DELETE, EVENTS_L1, "delete l1");
  pass (&bench, keys, EVENTS_DELETE, EVENTS_L2, "delete l2");
  pass (&bench, keys, EVENTS_STORE, EVENTS_L1, "store l1, warm");
  const double before = seconds ();
  for (guint i = 0; i < INSTANCES; i++)
    {
      char id[32];
      g_snprintf (id, sizeof id, "node-%u", i);
      events_views_depart (bench.views, (LmtSpan){ (const guint8 *)id, strlen (id) }, TRUE);
    }
  printf ("%-26s %7.0f ns a key\n", "depart, all instances", (seconds () - before) * 1e9 / (double)keys);
  events_views_free (bench.views);
}

static int
files (const char *const *paths)
{
  const EventsViewsConfig config = { .compat = EVENTS_COMPAT_056 };
  const EventsMergeConfig merge_config = { .max_frame = 64 << 20 };
  g_autoptr (GError) error = NULL;
  EventsMerge *merge = events_merge_new (paths, &merge_config, &error);
  EventsMergeItem item;
  EventsArena *arena = events_arena_new (0);
  GArray *batches = g_array_new (FALSE, FALSE, sizeof (EventsBatch));
  GArray *texts = g_array_new (FALSE, FALSE, sizeof (LmtSpan));
  EventsProblems problems;
  double best_parse = 1e9, best = 1e9;
  guint64 entries = 0;

  if (merge == NULL)
    {
      fprintf (stderr, "bench-views: %s\n", error->message);
      return 2;
    }
  events_problems_init (&problems, 1);
  while (events_merge_next (merge, &item, NULL) == 1)
    if (item.record.qualname.len == strlen ("events.batch"))
      {
        const LmtSpan copy = { g_memdup2 (item.record.args.data, item.record.args.len), item.record.args.len };
        g_array_append_val (texts, copy);
      }
  for (guint round = 0; round < 5; round++)
    {
      events_arena_reset (arena);
      g_array_set_size (batches, 0);
      entries = 0;
      double start = seconds ();
      for (guint i = 0; i < texts->len; i++)
        {
          EventsBatch batch;
          if (!events_batch_from_args (g_array_index (texts, LmtSpan, i), &events_limits_default, arena, &batch, &problems))
            continue;
          entries += batch.n_entries;
          g_array_append_val (batches, batch);
        }
      best_parse = MIN (best_parse, seconds () - start);
      EventsViews *views = events_views_new (&config);
      EventsCounts counts = { 0 };
      start = seconds ();
      for (guint i = 0; i < batches->len; i++)
        events_views_ingest (views, &g_array_index (batches, EventsBatch, i), 1, 1, &counts);
      best = MIN (best, seconds () - start);
      events_views_free (views);
    }
  printf (
      "%u batches, %" G_GUINT64_FORMAT " entries: msgpack %.2f us a batch, gate and views %.2f us a batch (%.0f ns an entry)\n",
      batches->len, entries, best_parse * 1e6 / batches->len, best * 1e6 / batches->len, best * 1e9 / (double)MAX (entries, 1));
  events_merge_free (merge);
  events_arena_free (arena);
  return 0;
}

int
main (int argc, char **argv)
{
  if (argc > 1 && g_ascii_strtoull (argv[1], NULL, 10) == 0)
    return files ((const char *const *)argv + 1);
  synthetic (argc > 1 ? g_ascii_strtoull (argv[1], NULL, 10) : 1000000);
  return 0;
}
