/* SPDX-License-Identifier: Apache-2.0 */

/* model: times by keys and by table, the same on every run; no bytes; bad tables. */
#include <lmtrace/lmt-hash.h>

#include "l2-rig.h"

typedef struct
{
  LmtL2Task task;
  LmtKey *key;
  void *buffer;
  guint64 size;
  guint8 code;
} One;

static char byte_buffer[65536];

static void
submit (Rig *rig, One *one, guint32 kind, guint number, guint64 bytes)
{
  memset (one, 0, sizeof *one);
  one->key = rig_key (rig, "m", number, "");
  one->buffer = byte_buffer;
  one->size = bytes;
  one->task
      = (LmtL2Task){ .kind = kind, .n = 1, .keys = &one->key, .buffers = &one->buffer, .sizes = &one->size, .codes = &one->code };
  g_assert_true (lmt_l2_submit (rig->l2, &one->task, NULL));
  lmt_l2_flush (rig->l2);
}

/* Until it is there; the time it took. */
static gint64
finish (Rig *rig, One *one)
{
  while (!lmt_l2_take (rig->l2, &one->task))
    rig->clock->sleep_until_ns (rig->clock->data, lmt_l2_next_due_ns (rig->l2), NULL, 0);
  return one->task.done_ns - one->task.submit_ns;
}

static gint64
time_of (Rig *rig, guint32 kind, guint number, guint64 bytes)
{
  One one;
  submit (rig, &one, kind, number, bytes);
  gint64 took = finish (rig, &one);
  if (kind == LMT_L2_LOOKUP)
    lmt_l2_unlock (rig->l2, &one.key, 1);
  return took;
}

static void
open_virtual (Rig *rig, const LmtClock *clock, const char *json)
{
  g_autoptr (GError) error = NULL;
  rig_try_open (rig, json, NULL, clock, &error);
  g_assert_no_error (error);
}

static void
test_fixed (void)
{
  LmtClock *clock = lmt_clock_virtual_new (0);
  Rig rig;
  open_virtual (&rig, clock, "{\"type\":\"model\",\"lookup_us\":7,\"delete_us\":9,\"latency_us\":50,\"bandwidth_gb\":1}");
  g_assert_cmpuint (lmt_l2_get_info (rig.l2)->capabilities & (LMT_L2_CAP_KEEP | LMT_L2_CAP_DATA), ==, LMT_L2_CAP_KEEP);
  /* 65,536 bytes at 1 GiB/s: 61,035 ns */
  g_assert_cmpint (time_of (&rig, LMT_L2_STORE, 1, 65536), ==, 50000 + 61035);
  g_assert_cmpint (time_of (&rig, LMT_L2_STORE, 1, 65536), ==, 50000);
  g_assert_cmpint (time_of (&rig, LMT_L2_LOOKUP, 1, 0), ==, 7000);
  memset (byte_buffer, 0x44, sizeof byte_buffer);
  g_assert_cmpint (time_of (&rig, LMT_L2_LOAD, 1, 65536), ==, 50000 + 61035);
  g_assert_cmpint (byte_buffer[0], ==, 0x44); /* left alone */
  g_assert_cmpint (time_of (&rig, LMT_L2_LOAD, 2, 65536), ==, 50000);
  One one, two;
  submit (&rig, &one, LMT_L2_STORE, 3, 65536);
  submit (&rig, &two, LMT_L2_STORE, 4, 65536);
  g_assert_cmpint (finish (&rig, &one), ==, 50000 + 61035);
  g_assert_cmpint (finish (&rig, &two), ==, 50000 + 2 * 61035);
  g_assert_cmpint (time_of (&rig, LMT_L2_DELETE, 3, 0), ==, 9000);
  g_autofree char *objects = rig_status (&rig, "objects");
  g_assert_cmpstr (objects, ==, "2");
  rig_close (&rig);
  /* Longer than a clock can say is never, not at once. */
  open_virtual (&rig, clock, "{\"type\":\"model\",\"bandwidth_gb\":1e-9}");
  submit (&rig, &one, LMT_L2_STORE, 3, G_GUINT64_CONSTANT (1) << 40);
  submit (&rig, &two, LMT_L2_STORE, 4, 10);
  g_assert_false (lmt_l2_take (rig.l2, &one.task));
  g_assert_false (lmt_l2_take (rig.l2, &two.task));
  g_assert_cmpint (lmt_l2_next_due_ns (rig.l2), ==, G_MAXINT64);
  g_assert_cmpuint (lmt_l2_close (rig.l2, 0), ==, 2);
  g_assert_true (lmt_l2_take (rig.l2, &one.task));
  g_assert_true (lmt_l2_take (rig.l2, &two.task));
  rig_close (&rig);
  /* Real time: not before its time. */
  rig_open (&rig, "{\"type\":\"model\",\"lookup_us\":3000}");
  g_assert_cmpint (time_of (&rig, LMT_L2_LOOKUP, 1, 0), >=, 3000000);
  rig_close (&rig);
  lmt_clock_virtual_free (clock);
}

static char *
write_table (const char *dir, const char *text)
{
  char *path = g_build_filename (dir, "table.json", NULL);
  g_assert_true (g_file_set_contents (path, text, -1, NULL));
  return path;
}

/* What the page says, reckoned here: u of SplitMix64 (seed + n), linear between the points. */
static gint64
expected_ns (guint64 seed, guint64 n, const double *us)
{
  static const double points[] = { 0, 0.1, 0.5, 0.9, 0.99, 0.999, 1 };
  double u = (double)lmt_mix64 (seed + n + G_GUINT64_CONSTANT (0x9E3779B97F4A7C15)) / 18446744073709551616.0;
  for (guint i = 1; i < G_N_ELEMENTS (points); i++)
    if (u <= points[i])
      return (gint64)((us[i - 1] + (u - points[i - 1]) / (points[i] - points[i - 1]) * (us[i] - us[i - 1])) * 1000);
  g_assert_not_reached ();
}

static void
test_table (void)
{
  static const double small[] = { 10, 20, 30, 40, 50, 60, 70 }, large[] = { 110, 120, 130, 140, 150, 160, 170 },
                      deep[] = { 210, 220, 230, 240, 250, 260, 270 }, lookup[] = { 1, 2, 3, 4, 5, 6, 7 };
  g_autofree char *dir = make_temp_dir ();
  g_autofree char *path
      = write_table (dir, "{\"schema\": \"lmtrace/l2-model/1\","
                          " \"store\": [{\"max_bytes\": 4096, \"max_depth\": 1, \"us\": [10, 20, 30, 40, 50, 60, 70]},"
                          "  {\"max_depth\": 1, \"us\": [110, 120, 130, 140, 150, 160, 170]},"
                          "  {\"max_bytes\": 1, \"max_depth\": 2, \"us\": [210, 220, 230, 240, 250, 260, 270]}],"
                          " \"lookup\": [{\"us\": [1, 2, 3, 4, 5, 6, 7]}], \"more\": 1}");
  g_autofree char *json
      = g_strdup_printf ("{\"type\":\"model\",\"seed\":5,\"latency_us\":1000,\"delete_us\":3,\"table\":\"%s\"}", path);
  for (guint run = 0; run < 2; run++)
    {
      LmtClock *clock = lmt_clock_virtual_new (1000);
      Rig rig;
      open_virtual (&rig, clock, json);
      guint64 n = 0;
      for (guint i = 0; i < 50; i++)
        {
          g_assert_cmpint (time_of (&rig, LMT_L2_STORE, 10 * i, 4096), ==, expected_ns (5, n, small));
          g_assert_cmpint (time_of (&rig, LMT_L2_STORE, 10 * i + 1, 4097), ==, expected_ns (5, n + 1, large));
          g_assert_cmpint (time_of (&rig, LMT_L2_LOOKUP, 10 * i, 0), ==, expected_ns (5, n + 2, lookup));
          g_assert_cmpint (time_of (&rig, LMT_L2_LOAD, 10 * i, 4096), ==, 1000000); /* no rows: the keys */
          g_assert_cmpint (time_of (&rig, LMT_L2_DELETE, 10 * i, 0), ==, 3000);
          One one, two;
          submit (&rig, &one, LMT_L2_STORE, 10 * i + 2, 4096);
          submit (&rig, &two, LMT_L2_STORE, 10 * i + 3, 4096); /* two in flight, and no row that large: the last one */
          g_assert_cmpint (finish (&rig, &one), ==, expected_ns (5, n + 5, small));
          g_assert_cmpint (finish (&rig, &two), ==, expected_ns (5, n + 6, deep));
          n += 7;
        }
      rig_close (&rig);
      lmt_clock_virtual_free (clock);
    }
  remove_tree (dir);
}

static void
test_bad_tables (void)
{
  static const struct
  {
    const char *text;
    const char *message;
  } bad[] = {
    { "", "table.json: " },
    { "[]", "table.json: schema: expected \"lmtrace/l2-model/1\", found nothing" },
    { "{\"schema\": \"lmtrace/l2-model/2\"}",
      "table.json: schema: expected \"lmtrace/l2-model/1\", found \"lmtrace/l2-model/2\"" },
    { "{\"schema\": \"lmtrace/l2-model/1\", \"load\": 5}", "table.json: load: expected a list of at most 4096 rows, found 5" },
    { "{\"schema\": \"lmtrace/l2-model/1\", \"load\": [{\"us\": [1,2,3,4,5,6,7]}, 7]}",
      "table.json: load[1]: expected an object, found 7" },
    { "{\"schema\": \"lmtrace/l2-model/1\", \"load\": [{}]}", "table.json: load[0].us: expected 7 numbers" },
    { "{\"schema\": \"lmtrace/l2-model/1\", \"load\": [{\"us\": [1,2,3,4,5,6]}]}", "table.json: load[0].us: expected 7 numbers" },
    { "{\"schema\": \"lmtrace/l2-model/1\", \"load\": [{\"us\": [1,2,3,2,5,6,7]}]}",
      "table.json: load[0].us: expected 7 numbers" },
    { "{\"schema\": \"lmtrace/l2-model/1\", \"load\": [{\"us\": [-1,2,3,4,5,6,7]}]}",
      "table.json: load[0].us: expected 7 numbers" },
    { "{\"schema\": \"lmtrace/l2-model/1\", \"load\": [{\"max_bytes\": -1, \"us\": [1,2,3,4,5,6,7]}]}",
      "table.json: load[0].max_bytes: expected an integer, 0 or more, found -1" },
    { "{\"schema\": \"lmtrace/l2-model/1\", \"load\": [{\"max_byte\": 1, \"us\": [1,2,3,4,5,6,7]}]}",
      "table.json: load[0].max_byte: expected one of the members max_bytes, max_depth, us, found 1" },
  };
  g_autofree char *dir = make_temp_dir ();
  Rig rig;
  for (guint i = 0; i < G_N_ELEMENTS (bad); i++)
    {
      g_autofree char *path = write_table (dir, bad[i].text);
      g_autofree char *json = g_strdup_printf ("{\"type\":\"model\",\"table\":\"%s\"}", path);
      g_autoptr (GError) error = NULL;
      g_assert_false (rig_try_open (&rig, json, NULL, NULL, &error));
      g_test_message ("%s", error->message);
      g_assert_true (g_str_has_prefix (error->message, "--l2-adapter #1 ('model'): "));
      g_assert_nonnull (strstr (error->message, bad[i].message));
    }
  g_autoptr (GError) error = NULL;
  g_assert_false (rig_try_open (&rig, "{\"type\":\"model\",\"table\":\"/nonexistent/t.json\"}", NULL, NULL, &error));
  g_assert_nonnull (strstr (error->message, "table: "));
  g_clear_error (&error);
  g_assert_false (rig_try_open (&rig, "{\"type\":\"model\",\"table\":\"/dev/zero\"}", NULL, NULL, &error));
  g_assert_nonnull (strstr (error->message, "table: /dev/zero: expected at most 16 MiB, found more"));
  remove_tree (dir);
}

/* What is asked back at a deadline of close comes unperformed. */
static void
test_close (void)
{
  LmtClock *clock = lmt_clock_virtual_new (0);
  Rig rig;
  One ones[3];
  open_virtual (&rig, clock, "{\"type\":\"model\",\"latency_us\":5000000}");
  for (guint i = 0; i < 3; i++)
    submit (&rig, &ones[i], LMT_L2_STORE, i, 100);
  g_assert_cmpuint (lmt_l2_close (rig.l2, 1000000), ==, 3);
  for (guint i = 0; i < 3; i++)
    g_assert_nonnull (lmt_l2_reap (rig.l2));
  for (guint i = 0; i < 3; i++)
    g_assert_cmpuint (ones[i].code, ==, LMT_L2_CLOSED);
  lmt_l2_free (rig.l2);
  rig.l2 = NULL;
  rig_close (&rig);
  lmt_clock_virtual_free (clock);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/model/fixed", test_fixed);
  g_test_add_func ("/model/table", test_table);
  g_test_add_func ("/model/bad-tables", test_bad_tables);
  g_test_add_func ("/model/close", test_close);
  int failed = g_test_run ();
  g_object_unref (rig_registry ());
  return failed;
}
