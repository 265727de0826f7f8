/* SPDX-License-Identifier: Apache-2.0 */

/* dram and mock: memory, delays on an injected clock, limits. And what an operation costs the core: no allocation once warm. */
#include <stdlib.h>
#include <sys/resource.h>

#include "../count-mallocs.h"
#include "l2-rig.h"

enum
{
  N_KEYS = 64,
};

typedef struct
{
  LmtL2Task task;
  LmtKey *keys[N_KEYS];
  void *buffers[N_KEYS];
  guint64 sizes[N_KEYS];
  guint8 codes[N_KEYS];
} Batch;

static void
batch_init (Rig *rig, Batch *batch, guint32 kind, guint first, guint n, guint64 bytes, void *buffer)
{
  memset (batch, 0, sizeof *batch);
  for (guint i = 0; i < n; i++)
    {
      batch->keys[i] = rig_key (rig, "m", first + i, "");
      batch->sizes[i] = bytes;
      batch->buffers[i] = buffer;
    }
  batch->task = (LmtL2Task){
    .kind = kind, .n = n, .keys = batch->keys, .buffers = batch->buffers, .sizes = batch->sizes, .codes = batch->codes
  };
}

static void
submit (Rig *rig, Batch *batch)
{
  g_assert_true (lmt_l2_submit (rig->l2, &batch->task, NULL));
  lmt_l2_flush (rig->l2);
}

static void
finish (Rig *rig, Batch *batch)
{
  int fd = lmt_l2_get_fd (rig->l2);
  while (!lmt_l2_take (rig->l2, &batch->task))
    {
      gint64 due = lmt_l2_next_due_ns (rig->l2);
      if (due < 0 && fd >= 0)
        due = lmt_clock_now (rig->clock) + G_GINT64_CONSTANT (10000000000);
      rig->clock->sleep_until_ns (rig->clock->data, due, &fd, fd >= 0);
    }
}

/* Stores, lookups, loads and deletes of a warm set allocate nothing. */
static void
test_no_allocation (gconstpointer data)
{
  if (!mallocs_are_counted ())
    {
      g_test_skip ("malloc is a sanitizer's or valgrind's");
      return;
    }
  char buffer[4096];
  Rig rig;
  rig_open (&rig, "%s", (const char *)data);
  Batch store, lookup, load, delete;
  memset (buffer, 0x11, sizeof buffer);
  batch_init (&rig, &store, LMT_L2_STORE, 0, N_KEYS, sizeof buffer, buffer);
  batch_init (&rig, &lookup, LMT_L2_LOOKUP, 0, N_KEYS, sizeof buffer, NULL);
  batch_init (&rig, &load, LMT_L2_LOAD, 0, N_KEYS, sizeof buffer, buffer);
  batch_init (&rig, &delete, LMT_L2_DELETE, 0, N_KEYS, 0, NULL);
  guint64 before = 0;
  for (guint round = 0; round < 200; round++)
    {
      if (round == 3)
        before = n_mallocs;
      Batch *const batches[] = { &store, &lookup, &load, &delete };
      for (guint i = 0; i < G_N_ELEMENTS (batches); i++)
        {
          submit (&rig, batches[i]);
          finish (&rig, batches[i]);
          if (i == 1)
            lmt_l2_unlock (rig.l2, batches[i]->keys, N_KEYS);
        }
    }
  guint64 made = n_mallocs - before;
  g_assert_cmpuint (before, >, 100); /* they are counted */
  g_assert_cmpuint (made, ==, 0);
  rig_close (&rig);
}

/* The same through a ring (or threads): whatever engine there is. */
static void
test_no_allocation_fs (void)
{
  g_autofree char *dir = make_temp_dir ();
  g_autofree char *json = g_strdup_printf ("{\"type\":\"fs\",\"base_path\":\"%s\",\"sync\":\"none\"}", dir);
  test_no_allocation (json);
  remove_tree (dir);
}

/* -------- delays -------- */

static const LmtClock *
open_virtual (Rig *rig, LmtClock *clock, const char *json)
{
  g_autoptr (GError) error = NULL;
  rig_try_open (rig, json, NULL, clock, &error);
  g_assert_no_error (error);
  return clock;
}

static gint64
time_of (Rig *rig, guint32 kind, guint first, guint n, guint64 bytes, void *buffer)
{
  Batch batch;
  gint64 start = lmt_clock_now (rig->clock);
  batch_init (rig, &batch, kind, first, n, bytes, buffer);
  submit (rig, &batch);
  finish (rig, &batch);
  return lmt_clock_now (rig->clock) - start;
}

static void
test_delays (void)
{
  const guint64 bytes = 1048576; /* 1 MiB at 1 GiB/s: 976,562 ns */
  g_autofree guint8 *buffer = g_malloc0 (bytes);
  LmtClock *clock = lmt_clock_virtual_new (0);
  Rig rig;
  open_virtual (&rig, clock, "{\"type\":\"dram\",\"max_size_gb\":0.1,\"bandwidth_gb\":1,\"latency_us\":100}");
  g_assert_cmpint (time_of (&rig, LMT_L2_STORE, 0, 1, bytes, buffer), ==, 976562 + 100000);
  g_assert_cmpint (time_of (&rig, LMT_L2_STORE, 0, 1, bytes, buffer), ==, 100000); /* there already: nothing moves */
  g_assert_cmpint (time_of (&rig, LMT_L2_STORE, 1, 4, bytes, buffer), ==, 4 * 976562 + 100000);
  g_assert_cmpint (time_of (&rig, LMT_L2_LOAD, 0, 2, bytes, buffer), ==, 2 * 976562 + 100000);
  g_assert_cmpint (time_of (&rig, LMT_L2_LOAD, 50, 1, bytes, buffer), ==, 100000);
  g_assert_cmpint (time_of (&rig, LMT_L2_LOOKUP, 0, 5, 0, NULL), ==, 100000);
  /* One pipe per direction: two tasks share it. */
  Batch one, two;
  gint64 start = lmt_clock_now (clock);
  batch_init (&rig, &one, LMT_L2_LOAD, 0, 1, bytes, buffer);
  batch_init (&rig, &two, LMT_L2_LOAD, 1, 1, bytes, buffer);
  submit (&rig, &one);
  submit (&rig, &two);
  finish (&rig, &one);
  g_assert_cmpint (lmt_clock_now (clock) - start, ==, 976562 + 100000);
  finish (&rig, &two);
  g_assert_cmpint (lmt_clock_now (clock) - start, ==, 2 * 976562 + 100000);
  g_assert_cmpint (lmt_l2_next_due_ns (rig.l2), ==, -1);
  rig_close (&rig);
  /* mock: each task has the whole bandwidth. */
  open_virtual (&rig, clock, "{\"type\":\"mock\",\"max_size_gb\":0.1,\"mock_bandwidth_gb\":1}");
  start = lmt_clock_now (clock);
  batch_init (&rig, &one, LMT_L2_STORE, 0, 2, bytes, buffer);
  batch_init (&rig, &two, LMT_L2_STORE, 2, 2, bytes, buffer);
  submit (&rig, &one);
  submit (&rig, &two);
  finish (&rig, &one);
  finish (&rig, &two);
  g_assert_cmpint (lmt_clock_now (clock) - start, ==, 2 * 976562);
  const LmtL2Figures *figures = lmt_l2_get_figures (rig.l2);
  g_assert_cmpuint (figures->depth_max, ==, 4);
  g_assert_cmpfloat (figures->depth_mean, >, 2.9);
  g_assert_cmpfloat (figures->depth_mean, <, 3.1);
  rig_close (&rig);
  lmt_clock_virtual_free (clock);
}

/* The same seed, the same delays; another, others; all within the share. */
static void
test_jitter (void)
{
  gint64 times[3][20];
  for (guint run = 0; run < 3; run++)
    {
      LmtClock *clock = lmt_clock_virtual_new (0);
      g_autofree char *json = g_strdup_printf (
          "{\"type\":\"dram\",\"data\":false,\"latency_us\":100,\"jitter\":{\"seed\":%d,\"share\":0.5}}", run == 2 ? 8 : 7);
      Rig rig;
      open_virtual (&rig, clock, json);
      for (guint i = 0; i < 20; i++)
        {
          times[run][i] = time_of (&rig, LMT_L2_STORE, i, 1, 100, &run);
          g_assert_cmpint (times[run][i], >=, 50000);
          g_assert_cmpint (times[run][i], <=, 150000);
        }
      rig_close (&rig);
      lmt_clock_virtual_free (clock);
    }
  g_assert_cmpmem (times[0], sizeof times[0], times[1], sizeof times[1]);
  g_assert_true (memcmp (times[0], times[2], sizeof times[0]) != 0);
}

/* Close waits for what is modelled, on the injected clock, and takes what the deadline leaves back unperformed. */
static void
test_close (void)
{
  char buffer[100] = "";
  Batch batch;
  LmtClock *clock = lmt_clock_virtual_new (0);
  Rig rig;
  for (guint pass = 0; pass < 2; pass++)
    {
      open_virtual (&rig, clock, "{\"type\":\"dram\",\"max_size_gb\":0.01,\"latency_us\":5000000}");
      batch_init (&rig, &batch, LMT_L2_STORE, 0, 3, sizeof buffer, buffer);
      submit (&rig, &batch);
      g_assert_cmpuint (lmt_l2_close (rig.l2, pass == 0 ? G_GINT64_CONSTANT (10000000000) : 1000000), ==, pass == 0 ? 0 : 3);
      g_assert_true (lmt_l2_reap (rig.l2) == &batch.task);
      for (guint i = 0; i < 3; i++)
        g_assert_cmpuint (batch.codes[i], ==, pass == 0 ? LMT_L2_OK : LMT_L2_CLOSED);
      lmt_l2_free (rig.l2);
      rig.l2 = NULL;
      rig_close (&rig);
    }
  lmt_clock_virtual_free (clock);
}

/* -------- memory -------- */

static void
test_too_much (void)
{
  g_autoptr (GError) error = NULL;
  Rig rig;
  g_assert_false (rig_try_open (&rig, "{\"type\":\"dram\",\"max_size_gb\":400000}", NULL, NULL, &error));
  g_assert_error (error, LMT_L2_ERROR, LMT_L2_NO_SPACE);
  g_assert_true (g_str_has_prefix (error->message, "dram: max_size_gb: 4e+05 GiB asked, ")
                 && g_str_has_suffix (error->message, " GiB free"));
  g_clear_error (&error);
#if LMT_COUNTS_MALLOCS /* a limit the sanitizers themselves would not survive */
  struct rlimit before, small;
  g_assert_cmpint (getrlimit (RLIMIT_DATA, &before), ==, 0);
  small = before;
  small.rlim_cur = 1 << 30;
  g_assert_cmpint (setrlimit (RLIMIT_DATA, &small), ==, 0);
  gboolean opened = rig_try_open (&rig, "{\"type\":\"dram\",\"max_size_gb\":1.5}", NULL, NULL, &error);
  g_assert_cmpint (setrlimit (RLIMIT_DATA, &before), ==, 0);
  g_assert_false (opened);
  g_assert_cmpstr (error->message, ==, "dram: max_size_gb: 1.5 GiB asked, 1 GiB free");
  g_clear_error (&error);
#endif
  g_assert_true (rig_try_open (&rig, "{\"type\":\"dram\",\"max_size_gb\":400000,\"data\":false}", NULL, NULL, &error));
  rig_close (&rig);
  g_assert_false (rig_try_open (&rig, "{\"type\":\"dram\",\"max_size_gb\":0.01,\"numa\":1023}", NULL, NULL, &error));
  g_assert_true (g_str_has_prefix (error->message, "dram: numa: node 1023: "));
}

/* Objects of all sizes come and go; every one keeps its bytes, and in the end all memory is one piece again. */
static void
test_arena (void)
{
  enum
  {
    N = 400,
    ROUNDS = 20000
  };
  Rig rig;
  rig_open (&rig, "{\"type\":\"dram\",\"max_size_gb\":0.015625}"); /* 16 MiB */
  g_autoptr (GRand) rand = g_rand_new_with_seed (3);
  guint64 sizes[N] = { 0 };
  gboolean there[N] = { FALSE };
  guint64 used = 0;
  for (guint i = 0; i < ROUNDS; i++)
    {
      guint k = (guint)g_rand_int_range (rand, 0, N);
      LmtKey *key = rig_key (&rig, "m", k, k % 3 == 0 ? "s" : "");
      if (there[k])
        {
          g_assert_cmpint (rig_load_fill (&rig, key, k + 1000 * sizes[k], sizes[k]), ==, LMT_L2_OK);
          g_assert_cmpint (rig_delete (&rig, key), ==, LMT_L2_OK);
          used -= sizes[k];
          there[k] = FALSE;
        }
      else
        {
          sizes[k] = (guint64)g_rand_int_range (rand, 0, i % 50 == 0 ? 3000000 : 20000);
          LmtL2Code code = rig_store_fill (&rig, key, k + 1000 * sizes[k], sizes[k]);
          g_assert_cmpint (code, ==, used + sizes[k] <= 16777216 ? LMT_L2_OK : LMT_L2_NO_SPACE);
          there[k] = code == LMT_L2_OK;
          used += there[k] ? sizes[k] : 0;
        }
      g_assert_cmpuint (lmt_l2_get_used (rig.l2), ==, used);
    }
  for (guint k = 0; k < N; k++)
    if (there[k])
      g_assert_cmpint (rig_delete (&rig, rig_key (&rig, "m", k, k % 3 == 0 ? "s" : "")), ==, LMT_L2_OK);
  g_assert_cmpint (rig_store_fill (&rig, rig_key (&rig, "m", 1, ""), 1, 16777216), ==, LMT_L2_OK);
  rig_close (&rig);
}

/* Around the size from which on stores go past the caches, from buffers at any address: every byte, and none beside them. */
static void
test_copies (void)
{
  static const guint64 sizes[] = { 1, 65536, 65537, 262143, 262144, 262145, 262207, 262208, 1048593 };
  static const guint offsets[] = { 0, 1, 17, 63 };
  enum
  {
    MOST = 1048593 + 128
  };
  g_autofree guint8 *from = g_malloc (MOST), *to = g_malloc (MOST);
  Rig rig;
  rig_open (&rig, "{\"type\":\"dram\",\"max_size_gb\":0.0625,\"huge_pages\":true}");
  g_autofree char *reserved = rig_status (&rig, "huge_pages_reserved_bytes");
  if (strcmp (reserved, "0") == 0)
    g_assert_true (rig_said (&rig, "dram: huge_pages: the system's pool hasn't enough (vm.nr_hugepages)"));
  else
    g_assert_cmpstr (reserved, ==, "67108864");
  lmt_fill (5, from, MOST);
  for (guint i = 0; i < G_N_ELEMENTS (sizes) * G_N_ELEMENTS (offsets); i++)
    {
      guint64 size = sizes[i / G_N_ELEMENTS (offsets)];
      guint offset = offsets[i % G_N_ELEMENTS (offsets)];
      g_assert_cmpint (rig_store (&rig, rig_key (&rig, "m", i, ""), from + offset, size), ==, LMT_L2_OK);
    }
  for (guint i = 0; i < G_N_ELEMENTS (sizes) * G_N_ELEMENTS (offsets); i++)
    {
      guint64 size = sizes[i / G_N_ELEMENTS (offsets)];
      guint offset = offsets[i % G_N_ELEMENTS (offsets)];
      memset (to, 0xa5, MOST);
      g_assert_cmpint (rig_load (&rig, rig_key (&rig, "m", i, ""), to + 64 - offset, size), ==, LMT_L2_OK);
      g_assert_cmpint (memcmp (to + 64 - offset, from + offset, size), ==, 0);
      g_assert_cmpint (to[63 - offset], ==, 0xa5);
      g_assert_cmpint (to[64 - offset + size], ==, 0xa5);
    }
  rig_close (&rig);
}

/* Copies under way while their keys are deleted and their memory is asked for again: each load gets what it found, whole. What is
 * loaded last lay where the small ones come, which are copied inside submit. */
static void
test_threads (void)
{
  enum
  {
    N = 40,
    ROUNDS = 10,
    MOST = 1100000,
    SMALL = 65536,
  };
  guint8 *memory = g_malloc (N * MOST), *loaded = g_malloc (N * MOST);
  guint8 small[SMALL];
  Rig rig;
  rig_open (&rig, "{\"type\":\"dram\",\"max_size_gb\":0.05,\"threads\":3}");
  memset (small, 0x5b, sizeof small);
  for (guint round = 0; round < ROUNDS; round++)
    {
      Batch old, load, gone, next, again;
      guint64 size = 65537 + round * (MOST - 65537) / (ROUNDS - 1);
      batch_init (&rig, &old, LMT_L2_STORE, 0, N, size, NULL);
      batch_init (&rig, &load, LMT_L2_LOAD, 0, N, size, NULL);
      batch_init (&rig, &gone, LMT_L2_DELETE, 0, N, 0, NULL);
      batch_init (&rig, &next, LMT_L2_STORE, N, N_KEYS, SMALL, small);
      batch_init (&rig, &again, LMT_L2_DELETE, N, N_KEYS, 0, NULL);
      for (guint i = 0; i < N; i++)
        {
          lmt_fill (round * 100 + i, memory + i * MOST, size);
          old.buffers[i] = memory + i * MOST;
          load.keys[i] = old.keys[N - 1 - i];
          load.buffers[i] = loaded + i * MOST;
        }
      submit (&rig, &old);
      finish (&rig, &old);
      submit (&rig, &load);
      submit (&rig, &gone);
      submit (&rig, &next);
      finish (&rig, &load);
      finish (&rig, &gone);
      finish (&rig, &next);
      for (guint i = 0; i < N; i++)
        {
          g_assert_cmpint (old.codes[i], ==, LMT_L2_OK);
          g_assert_cmpint (load.codes[i], ==, LMT_L2_OK);
          g_assert_cmpint (gone.codes[i], ==, LMT_L2_OK);
          g_assert_cmpint (memcmp (loaded + i * MOST, memory + (N - 1 - i) * MOST, size), ==, 0);
        }
      for (guint i = 0; i < N_KEYS; i++)
        g_assert_cmpint (next.codes[i], ==, LMT_L2_OK);
      g_assert_cmpuint (lmt_l2_get_used (rig.l2), ==, N_KEYS * SMALL);
      submit (&rig, &again);
      finish (&rig, &again);
      if (round < ROUNDS - 1)
        continue;
      submit (&rig, &old);
      g_assert_cmpuint (lmt_l2_close (rig.l2, -1), ==, 0); /* close waits for it */
      g_assert_true (lmt_l2_take (rig.l2, &old.task));
      for (guint i = 0; i < N; i++)
        g_assert_cmpint (old.codes[i], ==, LMT_L2_OK);
    }
  rig_close (&rig);
  g_free (memory);
  g_free (loaded);
}

static void
test_sizes_only (void)
{
  char buffer[100];
  Rig rig;
  rig_open (&rig, "{\"type\":\"dram\",\"data\":false,\"max_size_gb\":1000}");
  LmtKey *key = rig_key (&rig, "m", 1, "");
  memset (buffer, 0x33, sizeof buffer);
  g_assert_cmpint (rig_store (&rig, key, buffer, sizeof buffer), ==, LMT_L2_OK);
  memset (buffer, 0x44, sizeof buffer);
  g_assert_cmpint (rig_load (&rig, key, buffer, sizeof buffer), ==, LMT_L2_OK);
  for (guint i = 0; i < sizeof buffer; i++)
    g_assert_cmpint (buffer[i], ==, 0x44); /* left alone */
  g_assert_cmpuint (lmt_l2_get_info (rig.l2)->capabilities & LMT_L2_CAP_DATA, ==, 0);
  rig_close (&rig);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_data_func ("/dram/no-allocation/null", "{\"type\":\"null\"}", test_no_allocation);
  g_test_add_data_func ("/dram/no-allocation/dram", "{\"type\":\"dram\",\"max_size_gb\":0.01}", test_no_allocation);
  g_test_add_data_func ("/dram/no-allocation/threads", "{\"type\":\"dram\",\"max_size_gb\":0.01,\"threads\":2}",
                        test_no_allocation);
  g_test_add_func ("/dram/no-allocation/fs", test_no_allocation_fs);
  g_test_add_data_func ("/dram/no-allocation/slow", "{\"type\":\"dram\",\"max_size_gb\":0.01,\"latency_us\":1}",
                        test_no_allocation);
  g_test_add_func ("/dram/delays", test_delays);
  g_test_add_func ("/dram/jitter", test_jitter);
  g_test_add_func ("/dram/close", test_close);
  g_test_add_func ("/dram/too-much", test_too_much);
  g_test_add_func ("/dram/arena", test_arena);
  g_test_add_func ("/dram/copies", test_copies);
  g_test_add_func ("/dram/threads", test_threads);
  g_test_add_func ("/dram/sizes-only", test_sizes_only);
  int failed = g_test_run ();
  g_object_unref (rig_registry ());
  return failed;
}
