// SPDX-License-Identifier: Apache-2.0
/* One adapter, one-key tasks: store N objects, drop the page cache, load them in order. Prints one JSON object.
 *   l2-bench JSON SIZE COUNT DEPTH [nodrop]
 * or the core's own share with the null adapter, ns an object from submit to reap, or what the memory can do:
 *   l2-bench core COUNT
 *   l2-bench memcpy SIZE */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <lmtrace/lmt-pages.h>

#include "kit-measure.h"

static gboolean
drop_page_cache (void)
{
  sync ();
  int fd = open ("/proc/sys/vm/drop_caches", O_WRONLY | O_CLOEXEC);
  gboolean good = fd >= 0 && write (fd, "1", 1) == 1;
  if (fd >= 0)
    close (fd);
  return good;
}

static void
on_message (gpointer data, const char *kind, const char *text)
{
  if (!g_str_has_prefix (kind, "info"))
    g_printerr ("l2-bench: %s\n", text);
}

static int
fail (GError *error)
{
  g_printerr ("l2-bench: %s\n", error->message);
  return 1;
}

static void
print_phase (const KitPhase *phase, guint kind, const char *name, guint64 errors)
{
  double p50 = (double)lmt_stats_percentile (phase->kind[kind].completion, 500, LMT_RANK_NEAREST),
         p99 = (double)lmt_stats_percentile (phase->kind[kind].completion, 990, LMT_RANK_NEAREST);
  printf ("\"%s\": {\"mib_s\": %.2f, \"cpu_s_gib\": %.4f, \"p50_us\": %.1f, \"p99_us\": %.1f, \"depth\": %.2f, \"errors\": "
          "%" G_GUINT64_FORMAT "}",
          name, kit_phase_mib_per_s (phase, kind), kit_phase_cpu_per_gib (phase), p50 / 1e3, p99 / 1e3, phase->depth_mean,
          errors);
}

/* Of this thread alone: the machine may be busy. */
static gint64
cpu_ns (void)
{
  struct timespec now;
  clock_gettime (CLOCK_THREAD_CPUTIME_ID, &now);
  return (gint64)now.tv_sec * 1000000000 + now.tv_nsec;
}

static int
bench_core (guint64 count)
{
  g_autoptr (GError) error = NULL;
  LmtRegistry *registry = lmt_registry_new ();
  LmtL2Config *config = lmt_l2_config_parse (registry, "{\"type\":\"null\"}", 1, &error);
  if (config == NULL)
    return fail (error);
  LmtKeyTable *keys = lmt_key_table_new ();
  LmtL2Params params = { .struct_size = sizeof params, .clock = lmt_clock_real (), .keys = keys };
  LmtL2 *l2 = lmt_l2_open (config, &params, &error);
  if (l2 == NULL)
    return fail (error);
  enum
  {
    N = 1024
  };
  static LmtKey *made[N];
  for (guint i = 0; i < N; i++)
    {
      guint8 hash[32] = { (guint8)i, (guint8)(i >> 8), 1 };
      LmtKeyFields fields = { .hash = hash, .hash_len = 32, .model = "m", .model_len = 1, .salt = "", .rank = 1 };
      made[i] = lmt_key_table_intern (keys, &fields);
    }
  guint64 bytes = 131072;
  double best = 1e9;
  for (guint round = 0; round < 5; round++)
    {
      gint64 start = cpu_ns ();
      for (guint64 i = 0; i < count; i++)
        {
          guint8 code;
          LmtL2Task task = { .kind = LMT_L2_STORE, .n = 1, .keys = &made[i % N], .sizes = &bytes, .codes = &code };
          if (!lmt_l2_submit (l2, &task, NULL))
            return 1;
          lmt_l2_flush (l2);
          while (lmt_l2_reap (l2) == NULL)
            ;
        }
      best = MIN (best, (double)(cpu_ns () - start) / (double)count);
    }
  printf ("{\"ns\": %.1f}\n", best);
  lmt_l2_close (l2, -1);
  lmt_l2_free (l2);
  return 0;
}

/* Best of five rounds of N copies between the objects' places and the few buffers in flight. */
static double
copy_rate (guint8 *many, guint n_many, guint8 *few, guint n_few, guint64 size, gboolean is_store)
{
  double best = 0;
  for (guint round = 0; round < 5; round++)
    {
      gint64 start = lmt_clock_now (lmt_clock_real ());
      for (guint i = 0; i < n_many; i++)
        {
          guint8 *place = many + i * size, *buffer = few + i % n_few * size;
          memcpy (is_store ? place : buffer, is_store ? buffer : place, size);
        }
      best = MAX (best, (double)(size * n_many) / 1048576 * 1e9 / (double)(lmt_clock_now (lmt_clock_real ()) - start));
    }
  return best;
}

/* As an adapter in memory moves objects: between a few buffers and many places, so that no cache holds them all; huge pages on
 * both sides. */
static int
bench_memcpy (guint64 size)
{
  enum
  {
    MANY = 1024,
    FEW = 8,
  };
  guint8 *many = lmt_pages_resize (NULL, 0, size * MANY), *few = lmt_pages_resize (NULL, 0, size * FEW);
  memset (many, 1, size * MANY);
  memset (few, 2, size * FEW);
  double store = copy_rate (many, MANY, few, FEW, size, TRUE), load = copy_rate (many, MANY, few, FEW, size, FALSE);
  printf ("{\"store\": %.1f, \"load\": %.1f}\n", store, load);
  lmt_pages_free (many, size * MANY);
  lmt_pages_free (few, size * FEW);
  return 0;
}

int
main (int argc, char **argv)
{
  if (argc == 3 && strcmp (argv[1], "core") == 0)
    return bench_core (g_ascii_strtoull (argv[2], NULL, 10));
  if (argc == 3 && strcmp (argv[1], "memcpy") == 0)
    return bench_memcpy (g_ascii_strtoull (argv[2], NULL, 10));
  if (argc < 5)
    return 2;
  guint64 size = g_ascii_strtoull (argv[2], NULL, 10), count = g_ascii_strtoull (argv[3], NULL, 10);
  guint depth = (guint)g_ascii_strtoull (argv[4], NULL, 10);
  g_autoptr (GError) error = NULL;
  KitBenchParams params = { .largest_bytes = size, .depth_max = depth, .seed = 1, .message = on_message };
  KitBench *bench = kit_bench_new (lmt_registry_new (), argv[1], &params, &error);
  if (bench == NULL)
    return fail (error);
  KitPhaseSpec spec = { .object_bytes = size, .depth = depth, .count = count, .order = KIT_ORDER_SEQUENTIAL };
  KitPhase store, load;
  if (argc > 5)
    {
      /* Memory: the first touch of a page isn't what is asked for, so all places are used once before. */
      spec.window = count;
      kit_bench_run (bench, &spec, &store);
      kit_phase_clear (&store);
    }
  kit_bench_run (bench, &spec, &store);
  gboolean dropped = argc < 6 && drop_page_cache ();
  spec.window = 0;
  spec.read_share = 1;
  kit_bench_run (bench, &spec, &load);
  printf ("{");
  print_phase (&store, LMT_L2_STORE, "store", kit_phase_errors (bench, &store, LMT_L2_STORE));
  printf (", ");
  print_phase (&load, LMT_L2_LOAD, "load", kit_phase_errors (bench, &load, LMT_L2_LOAD));
  printf (", \"dropped\": %s}\n", dropped ? "true" : "false");
  kit_phase_clear (&store);
  kit_phase_clear (&load);
  kit_bench_close (bench, -1);
  kit_bench_free (bench);
  return 0;
}
