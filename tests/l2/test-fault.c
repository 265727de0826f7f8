/* SPDX-License-Identifier: Apache-2.0 */

/* fault: LMCache's verdicts bit for bit, every fault of its own alone, and what the core makes of a broken adapter. */
#include <math.h>

#include <lmtrace/lmt-hash.h>

#include "l2-rig.h"

enum
{
  MAX_KEYS = 128,
  BYTES = 512,
};

/* A batch over keys 0 … n-1 of the rig, or over one key. */
typedef struct
{
  LmtL2Task task;
  LmtKey *keys[MAX_KEYS];
  void *buffers[MAX_KEYS];
  guint64 sizes[MAX_KEYS];
  guint8 codes[MAX_KEYS];
  guint8 data[MAX_KEYS][BYTES];
} Batch;

static void
batch_init (Rig *rig, Batch *batch, guint32 kind, guint n)
{
  memset (batch, 0, sizeof *batch);
  for (guint i = 0; i < n; i++)
    {
      batch->keys[i] = rig_key (rig, "m", i, "");
      batch->sizes[i] = BYTES;
      batch->buffers[i] = batch->data[i];
      lmt_fill (i, batch->data[i], BYTES);
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
  while (!lmt_l2_take (rig->l2, &batch->task))
    {
      int fd = lmt_l2_get_fd (rig->l2);
      gint64 due = lmt_l2_next_due_ns (rig->l2);
      rig->clock->sleep_until_ns (rig->clock->data, due >= 0 ? due : lmt_clock_now (rig->clock) + 1000000, &fd, fd >= 0 ? 1 : 0);
    }
}

static void
run (Rig *rig, Batch *batch, guint32 kind, guint n)
{
  batch_init (rig, batch, kind, n);
  submit (rig, batch);
  finish (rig, batch);
  if (kind == LMT_L2_LOOKUP)
    for (guint i = 0; i < n; i++)
      if (batch->codes[i] == LMT_L2_OK)
        lmt_l2_unlock (rig->l2, &batch->keys[i], 1);
}

static guint64
status_number (Rig *rig, const char *name)
{
  g_autofree char *text = rig_status (rig, name);
  return text != NULL ? g_ascii_strtoull (text, NULL, 10) : 0;
}

static guint
count_code (const Batch *batch, LmtL2Code code)
{
  guint n = 0;
  for (guint i = 0; i < batch->task.n; i++)
    n += batch->codes[i] == code;
  return n;
}

/* -------- LMCache's own -------- */

static gboolean
holds_number (const LmtJson *list, double value)
{
  for (guint i = 0; i < lmt_json_get_length (list); i++)
    if (lmt_json_get_double (lmt_json_get_element (list, i)) == value)
      return TRUE;
  return FALSE;
}

static void
test_golden_keys (void)
{
  static const double rates[] = { 0, 0.1, 0.25, 0.5, 0.9, 1 };
  g_autoptr (LmtJson) golden = read_json ("l2", "fault-inject.json", NULL);
  const LmtJson *seeds = lmt_json_get_member (golden, "by_key");
  guint n_checked = 0;
  for (guint s = 0; s < lmt_json_get_length (seeds); s++)
    for (guint r = 0; r < G_N_ELEMENTS (rates); r++)
      {
        const LmtJson *row = lmt_json_get_element (seeds, s);
        const LmtJson *keys = lmt_json_get_member (row, "keys");
        Rig rig;
        rig_open (&rig,
                  "{\"type\":\"fault_inject\",\"rate\":%g,\"seed\":%" G_GINT64_FORMAT ",\"inner\":{\"type\":\"model\","
                  "\"latency_us\":0}}",
                  rates[r], lmt_json_get_int (lmt_json_get_member (row, "seed")));
        for (guint k = 0; k < lmt_json_get_length (keys); k++)
          {
            const LmtJson *one = lmt_json_get_element (keys, k);
            char buffer[8] = "";
            LmtKey *key = rig_key_of_json (&rig, lmt_json_get_member (one, "key"));
            gboolean dropped = holds_number (lmt_json_get_member (one, "dropped_at_rates"), rates[r]);
            LmtL2Code stored = rig_store (&rig, key, buffer, sizeof buffer);
            g_assert_true (stored == LMT_L2_OK || stored == LMT_L2_PRESENT);
            g_assert_cmpint (rig_lookup (&rig, key, sizeof buffer), ==, LMT_L2_OK);
            g_assert_cmpint (rig_load (&rig, key, buffer, sizeof buffer), ==, dropped ? LMT_L2_IO : LMT_L2_OK);
            n_checked++;
          }
        rig_close (&rig);
      }
  g_assert_cmpuint (n_checked, >, 200);
}

/* A rate between two neighbouring buckets parts them: the bucket itself is right, not only its side of five rates. */
static void
test_golden_buckets (void)
{
  g_autoptr (LmtJson) golden = read_json ("l2", "fault-inject.json", NULL);
  const LmtJson *row = lmt_json_get_element (lmt_json_get_member (golden, "by_key"), 1);
  const LmtJson *keys = lmt_json_get_member (row, "keys");
  for (guint k = 0; k < lmt_json_get_length (keys); k++)
    for (guint above = 0; above < 2; above++)
      {
        const LmtJson *one = lmt_json_get_element (keys, k);
        guint64 bucket = get_number (one, "bucket");
        char buffer[8] = "";
        Rig rig;
        rig_open (&rig, "{\"type\":\"fault\",\"rate\":%.7f,\"seed\":%" G_GINT64_FORMAT ",\"inner\":{\"type\":\"dram\"}}",
                  ((double)(bucket + above) + 0.3) / 1e6, lmt_json_get_int (lmt_json_get_member (row, "seed")));
        LmtKey *key = rig_key_of_json (&rig, lmt_json_get_member (one, "key"));
        g_assert_cmpint (rig_store (&rig, key, buffer, sizeof buffer), ==, LMT_L2_OK);
        g_assert_cmpint (rig_load (&rig, key, buffer, sizeof buffer), ==, above ? LMT_L2_IO : LMT_L2_OK);
        rig_close (&rig);
      }
}

static void
test_golden_positions (void)
{
  g_autoptr (LmtJson) golden = read_json ("l2", "fault-inject.json", NULL);
  const LmtJson *rows = lmt_json_get_member (golden, "by_position");
  g_autofree Batch *batch = g_new (Batch, 1);
  for (guint r = 0; r < lmt_json_get_length (rows); r++)
    {
      const LmtJson *row = lmt_json_get_element (rows, r);
      const LmtJson *dropped = lmt_json_get_member (row, "dropped");
      g_autofree char *indices = lmt_json_to_text (lmt_json_get_member (row, "gap_indices"), LMT_JSON_STYLE_COMPACT, FALSE);
      g_autofree char *ratios = lmt_json_to_text (lmt_json_get_member (row, "gap_tail_ratios"), LMT_JSON_STYLE_COMPACT, FALSE);
      Rig rig;
      rig_open (&rig, "{\"type\":\"fault\",\"gap_indices\":%s,\"gap_tail_ratios\":%s,\"inner\":{\"type\":\"dram\"}}", indices,
                ratios);
      run (&rig, batch, LMT_L2_STORE, MAX_KEYS);
      for (guint i = 0; i < lmt_json_get_length (dropped); i++)
        {
          const LmtJson *list = lmt_json_get_member_value (dropped, i);
          guint n = (guint)g_ascii_strtoull (lmt_json_get_member_name (dropped, i), NULL, 10);
          run (&rig, batch, LMT_L2_LOAD, n);
          for (guint k = 0; k < n; k++)
            g_assert_cmpint (batch->codes[k], ==, holds_number (list, k) ? LMT_L2_IO : LMT_L2_OK);
          g_assert_cmpuint (batch->task.n_ok, ==, n - lmt_json_get_length (list));
        }
      rig_close (&rig);
    }
}

typedef struct
{
  guint n[3];
} Events;

static void
on_event (gpointer data, LmtL2EventKind kind, LmtKey *const *keys, const guint64 *sizes, guint n)
{
  ((Events *)data)->n[kind] += n;
}

/* A cleared bit is neither announced as accessed nor counted as loaded, and its lock stays. */
static void
test_not_accessed (void)
{
  g_autofree Batch *batch = g_new (Batch, 1);
  Events events = { { 0 } };
  Rig rig;
  rig_open (&rig, "{\"type\":\"fault\",\"gap_indices\":[1,3],\"inner\":{\"type\":\"dram\"}}");
  lmt_l2_set_event_func (rig.l2, on_event, &events);
  run (&rig, batch, LMT_L2_STORE, 5);
  batch_init (&rig, batch, LMT_L2_LOOKUP, 5);
  submit (&rig, batch);
  finish (&rig, batch);
  run (&rig, batch, LMT_L2_LOAD, 5);
  g_assert_cmpuint (events.n[LMT_L2_STORED], ==, 5);
  g_assert_cmpuint (events.n[LMT_L2_ACCESSED], ==, 3);
  g_assert_cmpuint (events.n[LMT_L2_DELETED], ==, 0);
  const LmtL2Figures *figures = lmt_l2_get_figures (rig.l2);
  g_assert_cmpuint (figures->codes[LMT_L2_LOAD][LMT_L2_OK], ==, 3);
  g_assert_cmpuint (figures->codes[LMT_L2_LOAD][LMT_L2_IO], ==, 2);
  g_assert_cmpuint (figures->bytes[LMT_L2_LOAD], ==, 3 * BYTES);
  g_assert_cmpuint (batch->task.bytes, ==, 3 * BYTES);
  g_assert_cmpuint (lmt_l2_get_used (rig.l2), ==, 5 * BYTES);
  for (guint i = 0; i < 5; i++)
    g_assert_cmpuint (lmt_l2_get_locks (rig.l2, batch->keys[i]), ==, 1);
  lmt_l2_unlock (rig.l2, batch->keys, 5);
  g_assert_cmpuint (status_number (&rig, "fault_gap"), ==, 2);
  g_assert_true (rig_said (&rig, "fault: results are made wrong on purpose: gap_indices=[1, 3] seed=0"));
  g_assert_cmpuint (lmt_l2_get_info (rig.l2)->flags & LMT_L2_INFO_FAULTS, !=, 0);
  rig_close (&rig);
}

/* -------- the others, one by one -------- */

typedef struct
{
  const char *fault;  /* keys of the configuration */
  const char *status; /* what counts it */
  guint8 codes[4];    /* store, load, lookup, delete: what a key that is hit ends with; 255: not hit */
  gboolean all;       /* no rate: every key */
} Row;

#define FINE 255
static const Row rows[] = {
  { "\"store_rate\":0.3", "fault_store", { LMT_L2_IO, FINE, FINE, FINE }, FALSE },
  { "\"store_rate\":0.3,\"error\":\"denied\"", "fault_store", { LMT_L2_DENIED, FINE, FINE, FINE }, FALSE },
  { "\"store_rate\":0.3,\"error\":\"busy\"", "fault_store", { LMT_L2_BUSY, FINE, FINE, FINE }, FALSE },
  { "\"rate\":0.3,\"error\":\"timeout\"", "fault_load", { FINE, LMT_L2_TIMEOUT, FINE, FINE }, FALSE },
  { "\"lookup_rate\":0.3", "fault_lookup", { FINE, FINE, LMT_L2_NOT_FOUND, FINE }, FALSE },
  { "\"delete_rate\":0.3", "fault_delete", { FINE, FINE, FINE, LMT_L2_IO }, FALSE },
  { "\"short_rate\":0.3", "fault_short", { FINE, LMT_L2_DATA, FINE, FINE }, FALSE },
  { "\"corrupt_rate\":0.3", "fault_corrupt", { FINE, LMT_L2_OK, FINE, FINE }, FALSE },
  { "\"error_key\":\"m@*\"", "fault_error_key", { LMT_L2_IO, LMT_L2_IO, LMT_L2_IO, LMT_L2_IO }, TRUE },
};

static const char *const inners[] = { "{\"type\":\"dram\"}", "{\"type\":\"dram\",\"latency_us\":20}" };

/* Each kind of operation in turn on all keys: what is hit ends as it should, what isn't works, and the count says how many. */
static void
test_rates (gconstpointer data)
{
  const Row *row = data;
  static const guint32 kinds[] = { LMT_L2_STORE, LMT_L2_LOAD, LMT_L2_LOOKUP, LMT_L2_DELETE };
  g_autofree Batch *batch = g_new (Batch, 1);
  guint8 first[4][MAX_KEYS];
  for (guint pass = 0; pass < 4; pass++)
    {
      Rig rig;
      guint hits = 0;
      rig_open (&rig, "{\"type\":\"fault\",%s,\"seed\":%d,\"inner\":%s}", row->fault, pass == 3 ? 12 : 11,
                inners[pass % G_N_ELEMENTS (inners)]);
      for (guint k = 0; k < G_N_ELEMENTS (kinds); k++)
        {
          gboolean there[MAX_KEYS];
          if (k > 0 && row->codes[0] != FINE)
            break; /* what wasn't stored can't be loaded */
          run (&rig, batch, kinds[k], MAX_KEYS);
          for (guint i = 0; i < MAX_KEYS; i++)
            {
              gboolean damaged
                  = kinds[k] == LMT_L2_LOAD && batch->codes[i] == LMT_L2_OK && lmt_fill_check (i, batch->data[i], BYTES) >= 0;
              gboolean hit = batch->codes[i] != LMT_L2_OK || damaged;
              there[i] = !hit;
              if (hit)
                g_assert_cmpuint (batch->codes[i], ==, row->codes[k]);
              if (damaged)
                {
                  guint bits = 0;
                  guint8 whole[BYTES];
                  lmt_fill (i, whole, BYTES);
                  for (guint b = 0; b < BYTES; b++)
                    bits += (guint)__builtin_popcount (whole[b] ^ batch->data[i][b]);
                  g_assert_cmpuint (bits, ==, 1);
                }
              hits += hit;
            }
          guint n_hit = 0;
          for (guint i = 0; i < MAX_KEYS; i++)
            n_hit += !there[i];
          if (row->codes[k] == FINE)
            g_assert_cmpuint (n_hit, ==, 0);
          else if (row->all)
            g_assert_cmpuint (n_hit, ==, MAX_KEYS);
          else
            {
              g_assert_cmpuint (n_hit, >, MAX_KEYS / 6);
              g_assert_cmpuint (n_hit, <, MAX_KEYS / 2);
              /* The same keys with the same seed, whatever the inner adapter's speed; others with another. */
              guint8 verdicts[MAX_KEYS];
              for (guint i = 0; i < MAX_KEYS; i++)
                verdicts[i] = !there[i];
              if (pass == 0)
                memcpy (first[k], verdicts, MAX_KEYS);
              else
                g_assert_cmpint (memcmp (first[k], verdicts, MAX_KEYS) != 0, ==, pass == 3);
            }
        }
      guint64 counted = status_number (&rig, row->status);
      if (strstr (row->fault, "busy") != NULL)
        g_assert_cmpuint (counted, >, hits); /* the core tried again */
      else
        g_assert_cmpuint (counted, ==, hits);
      rig_close (&rig);
    }
}

static void
test_no_space (void)
{
  g_autofree Batch *batch = g_new (Batch, 1);
  Rig rig;
  rig_open (&rig, "{\"type\":\"fault\",\"no_space_after_bytes\":%d,\"inner\":{\"type\":\"dram\"}}", 10 * BYTES + 5);
  run (&rig, batch, LMT_L2_STORE, 16);
  for (guint i = 0; i < 16; i++)
    g_assert_cmpuint (batch->codes[i], ==, i < 10 ? LMT_L2_OK : LMT_L2_NO_SPACE);
  g_assert_cmpuint (lmt_l2_get_used (rig.l2), ==, 10 * BYTES);
  g_assert_cmpint (rig_store_fill (&rig, rig_key (&rig, "n", 1, ""), 3, 5), ==, LMT_L2_OK);
  g_assert_cmpint (rig_store_fill (&rig, rig_key (&rig, "n", 2, ""), 3, 1), ==, LMT_L2_NO_SPACE);
  run (&rig, batch, LMT_L2_LOAD, 16);
  g_assert_cmpuint (count_code (batch, LMT_L2_OK), ==, 10);
  g_assert_cmpuint (status_number (&rig, "fault_no_space"), ==, 7);
  rig_close (&rig);
}

/* -------- late, lost, shuffled, twice -------- */

static void
open_virtual (Rig *rig, const LmtClock *clock, const char *json)
{
  g_autoptr (GError) error = NULL;
  rig_try_open (rig, json, NULL, clock, &error);
  g_assert_no_error (error);
}

static void
test_delay (void)
{
  g_autofree Batch *one = g_new (Batch, 1);
  LmtClock *clock = lmt_clock_virtual_new (0);
  Rig rig;
  open_virtual (&rig, clock,
                "{\"type\":\"fault\",\"delay_ms\":5,\"delay_rate\":0.5,\"inner\":{\"type\":\"dram\",\"latency_us\":100}}");
  guint late = 0;
  for (guint i = 0; i < 40; i++)
    {
      batch_init (&rig, one, LMT_L2_STORE, 1);
      one->keys[0] = rig_key (&rig, "m", i, "");
      submit (&rig, one);
      finish (&rig, one);
      gint64 took = one->task.done_ns - one->task.submit_ns;
      g_assert_true (took == 100000 || took == 5100000);
      late += took == 5100000;
      g_assert_cmpuint (one->codes[0], ==, LMT_L2_OK);
    }
  g_assert_cmpuint (late, >, 10);
  g_assert_cmpuint (late, <, 30);
  g_assert_cmpuint (status_number (&rig, "fault_delay"), ==, late);
  g_assert_cmpint (lmt_l2_next_due_ns (rig.l2), ==, -1);
  rig_close (&rig);
  lmt_clock_virtual_free (clock);
}

/* A lost completion comes back when its deadline passes, as TIMEOUT; the others are not held up, and the key is free again. */
static void
test_hang (gconstpointer inner)
{
  g_autofree Batch *batch = g_new (Batch, 1);
  g_autofree char *json
      = g_strdup_printf ("{\"type\":\"fault\",\"hang_rate\":0.2,\"io_timeout_s\":2.5,\"inner\":%s}", (const char *)inner);
  LmtClock *clock = lmt_clock_virtual_new (0);
  Rig rig;
  open_virtual (&rig, clock, json);
  run (&rig, batch, LMT_L2_STORE, MAX_KEYS);
  guint lost = count_code (batch, LMT_L2_TIMEOUT);
  g_assert_cmpuint (lost, >, 10);
  g_assert_cmpuint (count_code (batch, LMT_L2_OK), ==, MAX_KEYS - lost);
  g_assert_cmpint (batch->task.done_ns - batch->task.submit_ns, >=, G_GINT64_CONSTANT (2500000000));
  g_assert_cmpint (batch->task.done_ns - batch->task.submit_ns, <, G_GINT64_CONSTANT (2600000000));
  g_assert_cmpuint (status_number (&rig, "fault_hang"), ==, lost);
  g_assert_true (rig_said (&rig, ": store: no answer within 2.5 s"));
  g_assert_cmpuint (lmt_l2_get_figures (rig.l2)->codes[LMT_L2_STORE][LMT_L2_TIMEOUT], ==, lost);
  g_assert_cmpuint (lmt_l2_get_figures (rig.l2)->protocol_errors, ==, 0);
  run (&rig, batch, LMT_L2_LOAD, MAX_KEYS);
  g_assert_cmpuint (count_code (batch, LMT_L2_TIMEOUT), ==, lost);
  g_assert_cmpuint (lmt_l2_in_flight (rig.l2), ==, 0);
  rig_close (&rig);
  lmt_clock_virtual_free (clock);
}

/* Without a deadline it is lost until close gives up. */
static void
test_hang_close (void)
{
  g_autofree Batch *batch = g_new (Batch, 1);
  LmtClock *clock = lmt_clock_virtual_new (0);
  Rig rig;
  open_virtual (&rig, clock, "{\"type\":\"fault\",\"hang_rate\":1,\"inner\":{\"type\":\"dram\"}}");
  batch_init (&rig, batch, LMT_L2_STORE, 5);
  submit (&rig, batch);
  g_assert_null (lmt_l2_reap (rig.l2));
  g_assert_cmpint (lmt_l2_next_due_ns (rig.l2), ==, -1);
  g_assert_cmpuint (lmt_l2_close (rig.l2, G_GINT64_CONSTANT (3000000000)), ==, 5);
  g_assert_cmpint (lmt_clock_now (clock), ==, G_GINT64_CONSTANT (3000000000));
  g_assert_true (rig_said (&rig, "fault: close: 5 operations given up after 3.0 s"));
  g_assert_true (lmt_l2_reap (rig.l2) == &batch->task);
  g_assert_cmpuint (count_code (batch, LMT_L2_CLOSED), ==, 5);
  lmt_l2_free (rig.l2);
  rig.l2 = NULL;
  rig_close (&rig);
  lmt_clock_virtual_free (clock);
}

static void
on_done (gpointer data, const LmtL2Io *io, gint64 submit_ns, gint64 done_ns)
{
  GArray *order = data;
  g_array_append_val (order, io->index);
}

/* Shuffled, the same way each time; nothing is lost though the window never fills up in the end. */
static void
test_reorder (void)
{
  g_autofree Batch *batch = g_new (Batch, 1);
  GArray *orders[3];
  for (guint pass = 0; pass < 3; pass++)
    {
      Rig rig;
      rig_open (&rig, "{\"type\":\"fault\",\"reorder\":8,\"seed\":%d,\"inner\":{\"type\":\"dram\"}}", pass == 2 ? 2 : 1);
      orders[pass] = g_array_new (FALSE, FALSE, sizeof (guint32));
      lmt_l2_set_observer (rig.l2, on_done, orders[pass]);
      run (&rig, batch, LMT_L2_STORE, 61);
      g_assert_cmpuint (count_code (batch, LMT_L2_OK), ==, 61);
      g_assert_cmpuint (orders[pass]->len, ==, 61);
      g_assert_cmpuint (status_number (&rig, "fault_reorder"), >, 20);
      rig_close (&rig);
    }
  g_assert_cmpmem (orders[0]->data, 61 * 4, orders[1]->data, 61 * 4);
  g_assert_true (memcmp (orders[0]->data, orders[2]->data, 61 * 4) != 0);
  for (guint i = 0; i < G_N_ELEMENTS (orders); i++)
    g_array_unref (orders[i]);
}

/* Handed back twice: the core notices each, says so with name and kind, and every task ends once. */
static void
test_duplicate (gconstpointer inner)
{
  g_autofree Batch *batch = g_new (Batch, 1);
  Rig rig;
  rig_open (&rig, "{\"type\":\"fault\",\"duplicate_rate\":1,\"inner\":%s}", (const char *)inner);
  for (guint pass = 0; pass < 4; pass++)
    {
      run (&rig, batch, pass == 0 ? LMT_L2_STORE : LMT_L2_LOAD, MAX_KEYS);
      g_assert_cmpuint (count_code (batch, LMT_L2_OK), ==, MAX_KEYS);
      g_assert_null (lmt_l2_reap (rig.l2));
    }
  g_assert_cmpuint (lmt_l2_get_figures (rig.l2)->protocol_errors, ==, 4 * MAX_KEYS);
  g_assert_cmpuint (status_number (&rig, "fault_duplicate"), ==, 4 * MAX_KEYS);
  g_assert_true (rig_said (&rig, "fault: io 1 (store): handed back twice"));
  rig_close (&rig);
}

static void
test_stall (void)
{
  g_autofree Batch *batch = g_new (Batch, 1);
  LmtClock *clock = lmt_clock_virtual_new (0);
  Rig rig;
  open_virtual (&rig, clock, "{\"type\":\"fault\",\"stall_after_ms\":10,\"stall_ms\":700,\"inner\":{\"type\":\"dram\"}}");
  run (&rig, batch, LMT_L2_STORE, 8);
  g_assert_cmpint (lmt_clock_now (clock), ==, 0);
  clock->sleep_until_ns (clock->data, 10000000, NULL, 0);
  run (&rig, batch, LMT_L2_LOAD, 8);
  g_assert_cmpint (lmt_clock_now (clock), ==, 710000000);
  g_assert_cmpuint (count_code (batch, LMT_L2_OK), ==, 8);
  g_assert_cmpuint (status_number (&rig, "fault_stall"), ==, 8);
  run (&rig, batch, LMT_L2_LOAD, 8);
  g_assert_cmpint (lmt_clock_now (clock), ==, 710000000);
  rig_close (&rig);
  lmt_clock_virtual_free (clock);
}

/* All of it at once, many rounds: every task ends, nothing that was reported stored and not hit by a fault is lost. */
static void
test_everything (void)
{
  g_autofree Batch *batch = g_new (Batch, 1);
  g_autofree char *dir = make_temp_dir ();
  Rig rig;
  rig_open (&rig,
            "{\"type\":\"fault\",\"rate\":0.1,\"store_rate\":0.1,\"lookup_rate\":0.1,\"delete_rate\":0.1,\"delay_ms\":1,"
            "\"delay_rate\":0.2,\"hang_rate\":0.05,\"short_rate\":0.1,\"duplicate_rate\":0.2,\"reorder\":6,"
            "\"io_timeout_s\":0.05,\"error\":\"busy\",\"stall_after_ms\":5,\"stall_ms\":10,"
            "\"inner\":{\"type\":\"fs\",\"base_path\":\"%s\",\"sync\":\"none\"}}",
            dir);
  gboolean stored[MAX_KEYS];
  run (&rig, batch, LMT_L2_STORE, MAX_KEYS);
  for (guint i = 0; i < MAX_KEYS; i++)
    stored[i] = batch->codes[i] == LMT_L2_OK;
  guint good[3] = { 0 };
  for (guint round = 0; round < 3; round++)
    {
      run (&rig, batch, LMT_L2_LOAD, MAX_KEYS);
      for (guint i = 0; i < MAX_KEYS; i++)
        {
          g_assert_cmpuint (batch->codes[i], !=, LMT_L2_NOT_FOUND + (stored[i] ? 0 : 100));
          if (batch->codes[i] == LMT_L2_OK)
            g_assert_cmpint (lmt_fill_check (i, batch->data[i], BYTES), ==, -1);
          good[round] += batch->codes[i] == LMT_L2_OK;
        }
    }
  g_assert_cmpuint (good[0], >, MAX_KEYS / 3);
  g_assert_cmpuint (good[1], ==, good[0]);
  g_assert_cmpuint (good[2], ==, good[0]);
  rig_close (&rig);
  remove_tree (dir);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/fault/golden/keys", test_golden_keys);
  g_test_add_func ("/fault/golden/buckets", test_golden_buckets);
  g_test_add_func ("/fault/golden/positions", test_golden_positions);
  g_test_add_func ("/fault/not-accessed", test_not_accessed);
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autofree char *path = g_strdup_printf ("/fault/rate/%u/%s", i, rows[i].status);
      g_test_add_data_func (path, &rows[i], test_rates);
    }
  g_test_add_func ("/fault/no-space", test_no_space);
  g_test_add_func ("/fault/delay", test_delay);
  g_test_add_data_func ("/fault/hang/dram", "{\"type\":\"dram\"}", test_hang);
  g_test_add_data_func ("/fault/hang/model", "{\"type\":\"model\"}", test_hang);
  g_test_add_func ("/fault/hang/close", test_hang_close);
  g_test_add_func ("/fault/reorder", test_reorder);
  g_test_add_data_func ("/fault/duplicate/dram", "{\"type\":\"dram\"}", test_duplicate);
  g_test_add_data_func ("/fault/duplicate/slow", "{\"type\":\"dram\",\"latency_us\":10}", test_duplicate);
  g_test_add_func ("/fault/stall", test_stall);
  g_test_add_func ("/fault/everything", test_everything);
  int failed = g_test_run ();
  g_object_unref (rig_registry ());
  return failed;
}
