/* SPDX-License-Identifier: Apache-2.0 */

/* The layer above an adapter that does what each test tells it to: locks, capacity, order, bounds, drain, wrong hand-backs. */
#include <lmtrace/lmt-plugin.h>

typedef struct
{
  GPtrArray *held;   /* ios queued, in order of submission */
  GPtrArray *back;   /* what the next reap gives */
  GHashTable *there; /* file name -> size */
  guint32 answer;    /* LmtL2Submit */
  guint32 capabilities;
  guint32 depth;
  guint busy; /* submits to refuse */
  guint n_submits;
  guint n_flushes;
  guint n_cancelled;
  gboolean back_on_cancel;
  gboolean closed;
  gboolean has_old; /* scan finds two objects */
  gboolean scan_fails;
  gboolean check_fails;
  gboolean tells_more;
  guint n_get_fd;
} Fake;

static Fake fake;

static gpointer
fake_open (gconstpointer config, const char *type, const LmtL2Host *host, LmtL2Info *info, GError **error)
{
  info->depth = fake.depth;
  info->capabilities = fake.capabilities;
  return &fake;
}

static void
fake_close (gpointer handle)
{
  fake.closed = TRUE;
}

/* What a medium would say. */
static void
perform (LmtL2Io *io)
{
  gpointer size = NULL;
  gboolean there = g_hash_table_lookup_extended (fake.there, io->key->file, NULL, &size);
  io->code = LMT_L2_OK;
  if (io->kind == LMT_L2_STORE)
    {
      if (there && GPOINTER_TO_SIZE (size) == io->buffer_bytes)
        {
          io->code = LMT_L2_PRESENT;
          return;
        }
      g_hash_table_replace (fake.there, g_strdup (io->key->file), GSIZE_TO_POINTER (io->buffer_bytes));
      io->done_bytes = io->object_bytes = io->buffer_bytes;
      return;
    }
  if (!there)
    {
      io->code = LMT_L2_NOT_FOUND;
      return;
    }
  io->object_bytes = GPOINTER_TO_SIZE (size);
  if (io->kind == LMT_L2_LOAD)
    io->done_bytes = MIN (io->object_bytes, io->buffer_bytes);
  if (io->kind == LMT_L2_DELETE)
    g_hash_table_remove (fake.there, io->key->file);
}

static guint32
fake_submit (gpointer handle, LmtL2Io *io)
{
  if (fake.busy > 0)
    {
      fake.busy--;
      return LMT_L2_SUBMIT_BUSY;
    }
  fake.n_submits++;
  g_assert_cmpuint (io->id, !=, 0);
  g_assert_cmpuint ((guintptr)io % 64, ==, 0);
  if (fake.answer == LMT_L2_SUBMIT_DONE)
    perform (io);
  else
    g_ptr_array_add (fake.held, io);
  return fake.answer;
}

static guint32
fake_reap (gpointer handle, LmtL2Io **ios, guint32 max)
{
  guint32 n = MIN (max, fake.back->len);
  for (guint32 i = 0; i < n; i++)
    ios[i] = g_ptr_array_index (fake.back, i);
  if (n > 0)
    g_ptr_array_remove_range (fake.back, 0, n);
  return n;
}

static void
fake_flush (gpointer handle)
{
  fake.n_flushes++;
}

static void
fake_cancel (gpointer handle, LmtL2Io *io)
{
  fake.n_cancelled++;
  if (!fake.back_on_cancel)
    return;
  io->code = LMT_L2_CLOSED;
  g_ptr_array_remove (fake.held, io);
  g_ptr_array_add (fake.back, io);
}

static gboolean
fake_scan (gpointer handle, LmtL2Visit visit, gpointer data, GError **error)
{
  static const guint8 hashes[2][1] = { { 0xaa }, { 0xbb } };
  LmtKeyFields wrong = { .struct_size = sizeof wrong, .model = "a@b", .model_len = 3, .salt = "" };
  if (fake.has_old)
    visit (data, &wrong, 7, 0);
  for (guint i = 0; fake.has_old && i < 2; i++)
    {
      LmtKeyFields key
          = { .struct_size = sizeof key, .hash = hashes[i], .hash_len = 1, .model = "old", .model_len = 3, .salt = "" };
      visit (data, &key, 100 + i, 50 - (gint64)i);
    }
  return !fake.scan_fails;
}

/* Without a word why: what a plugin may forget. */
static gboolean
fake_check (gconstpointer config, const char *type, GError **error)
{
  return !fake.check_fails;
}

static int
fake_get_fd (gpointer handle)
{
  fake.n_get_fd++;
  return -1;
}

static const LmtL2Ops fake_ops = {
  .struct_size = sizeof (LmtL2Ops),
  .threads = LMT_THREADS_PER_HANDLE,
  .name = "fake",
  .open = fake_open,
  .close = fake_close,
  .submit = fake_submit,
  .reap = fake_reap,
  .flush = fake_flush,
  .scan = fake_scan,
  .cancel = fake_cancel,
  .check = fake_check,
  .get_fd = fake_get_fd,
};

static const LmtL2Ops wrapper_ops;

static gboolean
fake_load (LmtRegistrar *registrar, GError **error)
{
  return lmt_registrar_add_l2 (registrar, &fake_ops, error) && lmt_registrar_add_l2 (registrar, &wrapper_ops, error);
}

/* -------- one layer a test -------- */

enum
{
  MAX_KEYS = 256,
  MAX_EVENTS = 64,
};

typedef struct
{
  LmtRegistry *registry;
  LmtL2Config *config;
  LmtClock *clock;
  LmtKeyTable *keys;
  LmtL2 *l2;
  LmtKey *key[MAX_KEYS];
  GString *events;
  GString *messages;
} Rig;

static void
on_message (gpointer data, const char *kind, const char *text)
{
  g_string_append_printf (((Rig *)data)->messages, "%s\n", text);
}

static void
on_more (gpointer data, const char *kind, guint64 n)
{
  g_string_append_printf (((Rig *)data)->messages, "(%s: %" G_GUINT64_FORMAT ")\n", kind, n);
}

static void
on_event (gpointer data, LmtL2EventKind kind, LmtKey *const *keys, const guint64 *sizes, guint n)
{
  static const char *const names[] = { "stored", "accessed", "deleted" };
  Rig *rig = data;
  g_string_append (rig->events, names[kind]);
  for (guint i = 0; i < n; i++)
    g_string_append_printf (rig->events, " %02x:%" G_GUINT64_FORMAT, keys[i]->fields.hash[0], sizes[i]);
  g_string_append_c (rig->events, '\n');
}

static LmtKey *
make_key (Rig *rig, guint number, const char *salt)
{
  guint8 hash[2] = { (guint8)number, (guint8)(number >> 8) };
  LmtKeyFields fields = { .struct_size = sizeof fields,
                          .hash = hash,
                          .hash_len = 2,
                          .model = "m/x",
                          .model_len = 3,
                          .salt = salt,
                          .salt_len = (guint32)strlen (salt) };
  return lmt_key_table_intern (rig->keys, &fields);
}

static void
rig_open (Rig *rig, const char *json, guint32 depth, guint64 capacity)
{
  g_autoptr (GError) error = NULL;
  memset (rig, 0, sizeof *rig);
  guint32 answer = fake.answer, capabilities = fake.capabilities;
  gboolean has_old = fake.has_old, back_on_cancel = fake.back_on_cancel, tells_more = fake.tells_more;
  memset (&fake, 0, sizeof fake);
  fake.answer = answer;
  fake.capabilities = capabilities;
  fake.has_old = has_old;
  fake.back_on_cancel = back_on_cancel;
  fake.tells_more = tells_more;
  fake.depth = depth;
  fake.held = g_ptr_array_new ();
  fake.back = g_ptr_array_new ();
  fake.there = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  rig->registry = lmt_registry_new ();
  lmt_registry_set_default_dirs (rig->registry, FALSE);
  g_assert_true (lmt_registry_load_builtin (rig->registry, "l2-fake", fake_load, &error));
  g_assert_no_error (error);
  rig->config = lmt_l2_config_parse (rig->registry, json, 1, &error);
  g_assert_no_error (error);
  rig->clock = lmt_clock_virtual_new (0);
  rig->keys = lmt_key_table_new ();
  rig->events = g_string_new (NULL);
  rig->messages = g_string_new (NULL);
  LmtL2Params params = { .struct_size = sizeof params,
                         .clock = rig->clock,
                         .keys = rig->keys,
                         .message = on_message,
                         .more = fake.tells_more ? on_more : NULL,
                         .message_data = rig,
                         .capacity_override = capacity };
  rig->l2 = lmt_l2_open (rig->config, &params, &error);
  g_assert_no_error (error);
  lmt_l2_set_event_func (rig->l2, on_event, rig);
  for (guint i = 0; i < MAX_KEYS; i++)
    rig->key[i] = make_key (rig, i, i % 2 == 0 ? "" : "bob");
}

static void
rig_close (Rig *rig)
{
  lmt_l2_close (rig->l2, 0);
  while (lmt_l2_reap (rig->l2) != NULL)
    ;
  lmt_l2_free (rig->l2);
  for (guint i = 0; i < MAX_KEYS; i++)
    lmt_key_unref (rig->keys, rig->key[i]);
  g_assert_cmpuint (lmt_key_table_size (rig->keys), ==, 0); /* the layer gave all its references back */
  lmt_key_table_free (rig->keys);
  lmt_clock_virtual_free (rig->clock);
  lmt_l2_config_free (rig->config);
  g_object_unref (rig->registry);
  g_string_free (rig->events, TRUE);
  g_string_free (rig->messages, TRUE);
  g_ptr_array_unref (fake.held);
  g_ptr_array_unref (fake.back);
  g_hash_table_unref (fake.there);
}

typedef struct
{
  LmtL2Task task;
  LmtKey *keys[MAX_KEYS];
  guint64 sizes[MAX_KEYS];
  guint8 codes[MAX_KEYS];
} Task;

/* @keys: numbers of keys, ended by -1. */
static LmtL2Task *
task_init (Rig *rig, Task *task, guint32 kind, guint64 size, const int *keys)
{
  memset (task, 0, sizeof *task);
  guint32 n = 0;
  for (; keys[n] >= 0; n++)
    {
      task->keys[n] = rig->key[keys[n]];
      task->sizes[n] = size;
    }
  task->task = (LmtL2Task){ .kind = kind, .n = n, .keys = task->keys, .sizes = task->sizes, .codes = task->codes };
  return &task->task;
}

#define KEYS(...) ((const int[]){ __VA_ARGS__, -1 })

static LmtL2Task *
submit (Rig *rig, Task *task, guint32 kind, guint64 size, const int *keys)
{
  LmtL2Code refused = LMT_L2_OK;
  LmtL2Task *t = task_init (rig, task, kind, size, keys);
  g_assert_true (lmt_l2_submit (rig->l2, t, &refused));
  lmt_l2_flush (rig->l2);
  return t;
}

static void
give_back (guint at)
{
  LmtL2Io *io = g_ptr_array_steal_index (fake.held, at);
  perform (io);
  g_ptr_array_add (fake.back, io);
}

static void
give_back_all (void)
{
  while (fake.held->len > 0)
    give_back (0);
}

/* Drives to the end of @task and checks its codes: one letter a key. */
static void
expect (Rig *rig, LmtL2Task *task, const char *codes)
{
  static const char letters[]
      = "+NIBTDSUXLCP"; /* by LmtL2Code: + ok, N not found, … S no space, X data, L locked, C closed, P present */
  LmtL2Task *back = NULL;
  for (guint turn = 0; turn < 1000 && back != task; turn++)
    {
      back = lmt_l2_reap (rig->l2);
      if (back == NULL)
        give_back_all ();
    }
  g_assert_true (back == task);
  char found[MAX_KEYS + 1] = "";
  for (guint32 i = 0; i < task->n; i++)
    {
      g_assert_cmpuint (task->codes[i], <, LMT_L2_N_CODES);
      found[i] = letters[task->codes[i]];
    }
  g_assert_cmpstr (found, ==, codes);
}

static void
expect_events (Rig *rig, const char *events)
{
  g_assert_cmpstr (rig->events->str, ==, events);
  g_string_truncate (rig->events, 0);
}

#define ALL (LMT_L2_CAP_KEEP | LMT_L2_CAP_DELETE | LMT_L2_CAP_CAPACITY)
static const char plain[] = "{\"type\":\"fake\"}";

static void
setup (guint32 answer, guint32 capabilities)
{
  memset (&fake, 0, sizeof fake);
  fake.answer = answer;
  fake.capabilities = capabilities;
}

/* -------- tests -------- */

static void
test_life (gconstpointer data)
{
  Rig rig;
  Task task;
  setup (GPOINTER_TO_UINT (data), ALL);
  rig_open (&rig, plain, 4, 0);
  expect (&rig, submit (&rig, &task, LMT_L2_STORE, 100, KEYS (2, 4, 6)), "+++");
  g_assert_cmpuint (task.task.id, ==, 0);
  g_assert_cmpuint (task.task.bytes, ==, 300);
  expect_events (&rig, "stored 02:100 04:100 06:100\n");
  g_assert_cmpuint (lmt_l2_get_used (rig.l2), ==, 300);
  expect (&rig, submit (&rig, &task, LMT_L2_STORE, 100, KEYS (2, 8)), "P+");
  g_assert_cmpuint (task.task.id, ==, 1);
  g_assert_cmpuint (task.task.bytes, ==, 100);
  g_assert_cmpuint (task.task.n_ok, ==, 2);
  expect_events (&rig, "stored 08:100\n");
  expect (&rig, submit (&rig, &task, LMT_L2_LOAD, 100, KEYS (4, 10, 2)), "+N+");
  expect_events (&rig, "accessed 04:100 02:100\n");
  expect (&rig, submit (&rig, &task, LMT_L2_LOOKUP, 100, KEYS (2, 10)), "+N");
  expect_events (&rig, "");
  expect (&rig, submit (&rig, &task, LMT_L2_DELETE, 0, KEYS (2, 4, 10)), "L+N");
  expect_events (&rig, "deleted 04:100\n");
  lmt_l2_unlock (rig.l2, &rig.key[2], 1);
  expect (&rig, submit (&rig, &task, LMT_L2_DELETE, 0, KEYS (2)), "+");
  g_assert_cmpuint (lmt_l2_get_used (rig.l2), ==, 200);
  g_assert_cmpuint (lmt_l2_outstanding (rig.l2), ==, 0);
  expect (&rig, submit (&rig, &task, LMT_L2_STORE, 0, (const int[]){ -1 }), "");
  const LmtL2Figures *figures = lmt_l2_get_figures (rig.l2);
  g_assert_cmpuint (figures->ops[LMT_L2_STORE], ==, 5);
  g_assert_cmpuint (figures->codes[LMT_L2_STORE][LMT_L2_PRESENT], ==, 1);
  g_assert_cmpuint (figures->bytes[LMT_L2_STORE], ==, 400);
  g_assert_cmpuint (figures->codes[LMT_L2_DELETE][LMT_L2_LOCKED], ==, 1);
  g_assert_cmpuint (lmt_stats_count (figures->service[LMT_L2_LOAD]), ==, 3);
  g_assert_cmpuint (lmt_stats_count (figures->queue[LMT_L2_LOAD]), ==, 3);
  g_assert_cmpstr (rig.messages->str, ==, "");
  rig_close (&rig);
}

/* A key named twice: one operation, equal bits, one lock a mention. */
static void
test_repeated (void)
{
  Rig rig;
  Task task;
  setup (LMT_L2_SUBMIT_QUEUED, ALL);
  rig_open (&rig, plain, 8, 0);
  expect (&rig, submit (&rig, &task, LMT_L2_STORE, 10, KEYS (0, 1, 0, 0)), "++++");
  g_assert_cmpuint (fake.n_submits, ==, 2);
  g_assert_cmpuint (task.task.bytes, ==, 20);
  expect_events (&rig, "stored 00:10 01:10\n");
  g_assert_cmpuint (lmt_l2_get_used_by_salt (rig.l2, rig.key[1]->salt), ==, 10);
  expect (&rig, submit (&rig, &task, LMT_L2_LOOKUP, 0, KEYS (0, 2, 0)), "+N+");
  g_assert_cmpuint (lmt_l2_get_locks (rig.l2, rig.key[0]), ==, 2);
  g_assert_cmpuint (lmt_l2_get_locks (rig.l2, rig.key[2]), ==, 0);
  LmtKey *unlock[] = { rig.key[0], rig.key[2], rig.key[0], rig.key[0] };
  lmt_l2_unlock (rig.l2, unlock, 4);
  g_assert_cmpuint (lmt_l2_get_locks (rig.l2, rig.key[0]), ==, 0);
  expect (&rig, submit (&rig, &task, LMT_L2_DELETE, 0, KEYS (0, 0)), "++");
  expect_events (&rig, "deleted 00:10\n");
  rig_close (&rig);
}

static void
test_capacity (void)
{
  Rig rig;
  Task task, other;
  setup (LMT_L2_SUBMIT_QUEUED, ALL);
  rig_open (&rig, plain, 2, 250);
  /* Counts what is under way too; a repeated key needs no room; what doesn't fit leaves the rest alone. */
  LmtL2Task *first = submit (&rig, &task, LMT_L2_STORE, 100, KEYS (0, 2, 0));
  LmtL2Task *second = submit (&rig, &other, LMT_L2_STORE, 50, KEYS (4, 6, 2));
  g_assert_cmpuint (lmt_l2_in_flight (rig.l2), ==, 2);
  expect (&rig, first, "+++");
  expect (&rig, second, "+S+");
  expect_events (&rig, "stored 00:100 02:100\nstored 04:50 02:50\n"); /* 2 replaced: another size was stored */
  g_assert_cmpuint (lmt_l2_get_used (rig.l2), ==, 200);
  expect (&rig, submit (&rig, &task, LMT_L2_STORE, 100, KEYS (0, 8)), "PS");
  expect (&rig, submit (&rig, &task, LMT_L2_DELETE, 0, KEYS (0)), "+");
  expect (&rig, submit (&rig, &task, LMT_L2_STORE, 150, KEYS (8, 10)), "+S");
  g_assert_cmpuint (lmt_l2_get_used (rig.l2), ==, 250);
  rig_close (&rig);
}

/* A store that fails gives its room back. */
static void
test_capacity_failed_store (void)
{
  Rig rig;
  Task task;
  setup (LMT_L2_SUBMIT_QUEUED, ALL);
  rig_open (&rig, plain, 4, 100);
  LmtL2Task *t = submit (&rig, &task, LMT_L2_STORE, 100, KEYS (0));
  LmtL2Io *io = g_ptr_array_steal_index (fake.held, 0);
  io->code = LMT_L2_IO;
  g_ptr_array_add (fake.back, io);
  expect (&rig, t, "I");
  g_assert_cmpuint (lmt_l2_get_used (rig.l2), ==, 0);
  expect (&rig, submit (&rig, &task, LMT_L2_STORE, 100, KEYS (2)), "+");
  rig_close (&rig);
}

/* One store a key in flight: later ones wait and end PRESENT; if the first fails, the next goes. */
static void
test_same_key (void)
{
  Rig rig;
  Task a, b, c, d;
  setup (LMT_L2_SUBMIT_QUEUED, ALL);
  rig_open (&rig, plain, 8, 0);
  LmtL2Task *ta = submit (&rig, &a, LMT_L2_STORE, 10, KEYS (0));
  LmtL2Task *tb = submit (&rig, &b, LMT_L2_STORE, 10, KEYS (0));
  LmtL2Task *tc = submit (&rig, &c, LMT_L2_STORE, 10, KEYS (0, 2));
  LmtL2Task *td = submit (&rig, &d, LMT_L2_LOAD, 10, KEYS (0));
  g_assert_cmpuint (fake.held->len, ==, 2);
  LmtL2Io *io = g_ptr_array_steal_index (fake.held, 0);
  io->code = LMT_L2_DENIED;
  g_ptr_array_add (fake.back, io);
  expect (&rig, ta, "D");
  g_assert_cmpuint (fake.held->len, ==, 2);
  expect (&rig, tb, "+");
  expect (&rig, tc, "P+");
  expect (&rig, td, "+");
  expect_events (&rig, "stored 00:10\nstored 02:10\naccessed 00:10\n");
  g_assert_cmpuint (fake.n_submits, ==, 4);
  rig_close (&rig);
}

/* A delete waits for what reads its key, and looks at locks then. */
static void
test_delete_waits (void)
{
  Rig rig;
  Task a, b, c;
  setup (LMT_L2_SUBMIT_QUEUED, ALL);
  rig_open (&rig, plain, 8, 0);
  expect (&rig, submit (&rig, &a, LMT_L2_STORE, 10, KEYS (0)), "+");
  LmtL2Task *ta = submit (&rig, &a, LMT_L2_LOOKUP, 10, KEYS (0));
  LmtL2Task *tb = submit (&rig, &b, LMT_L2_DELETE, 0, KEYS (0));
  LmtL2Task *tc = submit (&rig, &c, LMT_L2_LOAD, 10, KEYS (0));
  g_assert_cmpuint (fake.held->len, ==, 1);
  expect (&rig, ta, "+");
  expect (&rig, tb, "L");
  expect (&rig, tc, "+");
  rig_close (&rig);
}

/* Handing over is what counts, in whatever order the adapter finished. */
static void
test_take (void)
{
  Rig rig;
  Task a, b;
  setup (LMT_L2_SUBMIT_QUEUED, ALL);
  rig_open (&rig, plain, 8, 0);
  LmtL2Task *ta = submit (&rig, &a, LMT_L2_STORE, 10, KEYS (0));
  LmtL2Task *tb = submit (&rig, &b, LMT_L2_STORE, 20, KEYS (2));
  give_back (1);
  g_assert_false (lmt_l2_take (rig.l2, ta));
  expect_events (&rig, "");
  g_assert_cmpuint (lmt_l2_get_used (rig.l2), ==, 0);
  give_back (0);
  g_assert_true (lmt_l2_take (rig.l2, ta));
  expect_events (&rig, "stored 00:10\n");
  g_assert_true (lmt_l2_take (rig.l2, tb));
  expect_events (&rig, "stored 02:20\n");
  g_assert_null (lmt_l2_reap (rig.l2));
  rig_close (&rig);
}

/* Above the depth the layer holds; BUSY never reaches the caller. */
static void
test_depth_and_busy (void)
{
  Rig rig;
  Task task;
  int keys[101];
  setup (LMT_L2_SUBMIT_QUEUED, ALL);
  rig_open (&rig, plain, 4, 0);
  for (int i = 0; i < 100; i++)
    keys[i] = i;
  keys[100] = -1;
  fake.busy = 2;
  LmtL2Task *t = submit (&rig, &task, LMT_L2_STORE, 1, keys);
  g_assert_cmpuint (fake.held->len, ==, 0);
  /* Nothing is in flight, so nothing wakes the driver but a time. */
  g_assert_cmpint (lmt_l2_next_due_ns (rig.l2), ==, 1000000);
  g_assert_null (lmt_l2_reap (rig.l2));
  g_assert_null (lmt_l2_reap (rig.l2));
  g_assert_cmpuint (fake.held->len, ==, 4);
  g_assert_cmpuint (lmt_l2_in_flight (rig.l2), ==, 4);
  g_assert_cmpint (lmt_l2_next_due_ns (rig.l2), ==, -1);
  char codes[101];
  memset (codes, '+', 100);
  codes[100] = '\0';
  expect (&rig, t, codes);
  g_assert_cmpuint (lmt_l2_get_figures (rig.l2)->depth_max, ==, 4);
  g_assert_cmpuint (fake.n_flushes, >, 0);
  g_assert_cmpuint (fake.n_flushes, <, 60);
  rig_close (&rig);
}

static void
test_depth_absurd (void)
{
  Rig rig;
  setup (LMT_L2_SUBMIT_DONE, ALL);
  rig_open (&rig, plain, G_MAXUINT32, 0);
  g_assert_cmpuint (lmt_l2_get_info (rig.l2)->depth, ==, 65536);
  rig_close (&rig);
  setup (LMT_L2_SUBMIT_DONE, ALL);
  rig_open (&rig, plain, 0, 0);
  g_assert_cmpuint (lmt_l2_get_info (rig.l2)->depth, ==, 1);
  rig_close (&rig);
}

static void
test_get_fd_once (void)
{
  Rig rig;
  Task task;
  setup (LMT_L2_SUBMIT_QUEUED, ALL);
  rig_open (&rig, plain, 4, 0);
  LmtL2Task *t = submit (&rig, &task, LMT_L2_STORE, 1, KEYS (0, 1, 2));
  for (guint i = 0; i < 3; i++)
    g_assert_cmpint (lmt_l2_get_fd (rig.l2), ==, -1);
  expect (&rig, t, "+++");
  lmt_l2_close (rig.l2, -1);
  g_assert_cmpuint (fake.n_get_fd, ==, 1);
  rig_close (&rig);
}

/* A plugin that says no without saying why: the user still gets a message, and nobody a NULL. */
static void
test_no_reason (void)
{
  Rig rig;
  g_autoptr (GError) error = NULL;
  g_autoptr (GError) unopened = NULL;
  setup (LMT_L2_SUBMIT_DONE, ALL);
  rig_open (&rig, plain, 4, 0);
  LmtL2Params params = { .struct_size = sizeof params, .clock = rig.clock, .keys = rig.keys };
  fake.check_fails = TRUE;
  g_assert_null (lmt_l2_config_parse (rig.registry, plain, 2, &error));
  g_assert_error (error, LMT_ERROR, LMT_ERROR_OPTION);
  g_assert_cmpstr (error->message, ==, "--l2-adapter #2 ('fake'): refused, and the adapter gave no reason");
  fake.check_fails = FALSE;
  fake.scan_fails = TRUE;
  g_assert_null (lmt_l2_open (rig.config, &params, &unopened));
  g_assert_error (unopened, LMT_L2_ERROR, LMT_L2_IO);
  g_assert_cmpstr (unopened->message, ==, "fake: scan failed and gave no reason");
  fake.scan_fails = FALSE;
  rig_close (&rig);
}

/* An io that comes back BUSY is tried again, three times at most. */
static void
test_busy_completion (void)
{
  Rig rig;
  Task task;
  setup (LMT_L2_SUBMIT_QUEUED, ALL);
  rig_open (&rig, plain, 8, 0);
  LmtL2Task *t = submit (&rig, &task, LMT_L2_STORE, 1, KEYS (0));
  LmtL2Io *io = g_ptr_array_steal_index (fake.held, 0);
  io->code = LMT_L2_BUSY;
  io->os_error = 24;
  io->service_start_ns = 5;
  io->plugin[3] = 7;
  g_ptr_array_add (fake.back, io);
  g_assert_null (lmt_l2_reap (rig.l2));
  g_assert_cmpuint (fake.held->len, ==, 1);
  /* As at its first submit. */
  g_assert_true (g_ptr_array_index (fake.held, 0) == io);
  g_assert_cmpuint (io->code, ==, LMT_L2_IO);
  g_assert_cmpint (io->os_error, ==, 0);
  g_assert_cmpint (io->service_start_ns, ==, 0);
  g_assert_cmpuint (io->plugin[3], ==, 0);
  expect (&rig, t, "+");
  t = submit (&rig, &task, LMT_L2_STORE, 1, KEYS (2));
  LmtL2Task *back = NULL;
  for (guint i = 0; i < 4; i++)
    {
      g_assert_null (back);
      io = g_ptr_array_steal_index (fake.held, 0);
      io->code = LMT_L2_BUSY;
      g_ptr_array_add (fake.back, io);
      back = lmt_l2_reap (rig.l2);
    }
  g_assert_true (back == t);
  g_assert_cmpuint (task.codes[0], ==, LMT_L2_BUSY);
  rig_close (&rig);
}

static void
test_wrong_hand_backs (void)
{
  Rig rig;
  Task task;
  LmtL2Io foreign;
  setup (LMT_L2_SUBMIT_QUEUED, ALL);
  rig_open (&rig, plain, 4, 0);
  LmtL2Task *t = submit (&rig, &task, LMT_L2_STORE, 10, KEYS (0, 2));
  LmtL2Io *io = g_ptr_array_index (fake.held, 0);
  give_back (0);
  g_ptr_array_add (fake.back, io);
  memset (&foreign, 0xee, sizeof foreign);
  g_ptr_array_add (fake.back, &foreign);
  g_ptr_array_add (fake.back, io + 2);
  g_ptr_array_add (fake.back, (char *)io + 8);
  g_assert_null (lmt_l2_reap (rig.l2));
  g_assert_cmpuint (lmt_l2_in_flight (rig.l2), ==, 1);
  g_assert_cmpuint (lmt_l2_get_figures (rig.l2)->protocol_errors, ==, 4);
  g_assert_nonnull (strstr (rig.messages->str, "fake: io 1 (store): handed back twice\n"));
  g_assert_nonnull (strstr (rig.messages->str, "fake: an io was handed back that was never submitted\n"));
  expect (&rig, t, "++");
  g_ptr_array_add (fake.back, io); /* late */
  g_assert_null (lmt_l2_reap (rig.l2));
  g_assert_cmpuint (lmt_l2_get_figures (rig.l2)->protocol_errors, ==, 5);
  rig_close (&rig);
}

static void
test_bad_code (void)
{
  Rig rig;
  Task task;
  setup (LMT_L2_SUBMIT_QUEUED, ALL);
  rig_open (&rig, plain, 4, 0);
  LmtL2Task *t = submit (&rig, &task, LMT_L2_LOAD, 10, KEYS (0, 2));
  for (guint i = 0; i < 2; i++)
    {
      LmtL2Io *io = g_ptr_array_steal_index (fake.held, 0);
      io->code = i == 0 ? 4711 : LMT_L2_PRESENT;
      g_ptr_array_add (fake.back, io);
    }
  expect (&rig, t, "II");
  g_assert_cmpuint (lmt_l2_get_figures (rig.l2)->protocol_errors, ==, 2);
  rig_close (&rig);
}

/* Sizes: an object of another length is DATA, and replaced by the next store. */
static void
test_sizes (void)
{
  Rig rig;
  Task task;
  setup (LMT_L2_SUBMIT_QUEUED, ALL);
  rig_open (&rig, plain, 4, 0);
  expect (&rig, submit (&rig, &task, LMT_L2_STORE, 100, KEYS (0)), "+");
  expect (&rig, submit (&rig, &task, LMT_L2_LOAD, 60, KEYS (0)), "X");
  g_assert_nonnull (strstr (rig.messages->str, "object: expected 60 bytes, found 100"));
  expect (&rig, submit (&rig, &task, LMT_L2_LOAD, 140, KEYS (0)), "X");
  expect (&rig, submit (&rig, &task, LMT_L2_LOOKUP, 140, KEYS (0)), "X");
  g_assert_cmpuint (lmt_l2_get_locks (rig.l2, rig.key[0]), ==, 0);
  expect (&rig, submit (&rig, &task, LMT_L2_LOOKUP, 0, KEYS (0)), "+");
  g_string_truncate (rig.events, 0);
  expect (&rig, submit (&rig, &task, LMT_L2_STORE, 140, KEYS (0)), "+");
  expect_events (&rig, "stored 00:140\n");
  g_assert_cmpuint (lmt_l2_get_used (rig.l2), ==, 140);
  rig_close (&rig);
}

/* What vanished behind our back leaves the usage when it is missed (C10). */
static void
test_gone (void)
{
  Rig rig;
  Task task;
  setup (LMT_L2_SUBMIT_QUEUED, ALL);
  rig_open (&rig, plain, 4, 0);
  expect (&rig, submit (&rig, &task, LMT_L2_STORE, 100, KEYS (0, 1, 2)), "+++");
  g_hash_table_remove_all (fake.there);
  g_string_truncate (rig.events, 0);
  expect (&rig, submit (&rig, &task, LMT_L2_LOAD, 100, KEYS (0, 1)), "NN");
  expect_events (&rig, "deleted 00:100 01:100\n");
  g_assert_cmpuint (lmt_l2_get_used (rig.l2), ==, 100);
  expect (&rig, submit (&rig, &task, LMT_L2_DELETE, 0, KEYS (2)), "N");
  g_assert_cmpuint (lmt_l2_get_used (rig.l2), ==, 0);
  rig_close (&rig);
}

static void
test_scan (void)
{
  Rig rig;
  setup (LMT_L2_SUBMIT_QUEUED, ALL);
  fake.has_old = TRUE;
  rig_open (&rig, plain, 4, 0);
  /* Oldest first, one event a key. */
  expect_events (&rig, "stored bb:101\nstored aa:100\n");
  g_assert_cmpuint (lmt_l2_get_used (rig.l2), ==, 201);
  /* What can't be a key is said, not counted. */
  g_assert_cmpstr (rig.messages->str, ==,
                   "fake: scan: expected an object key, found one that breaks a rule: model_name contains @: left out\n");
  g_assert_true (lmt_l2_usage_is_exact (rig.l2));
  rig_close (&rig);
  rig_open (&rig, "{\"type\":\"fake\",\"shared\":true}", 4, 0);
  g_assert_false (lmt_l2_usage_is_exact (rig.l2));
  rig_close (&rig);
}

static void
test_close_abandons (gconstpointer data)
{
  Rig rig;
  Task a, b, c;
  setup (LMT_L2_SUBMIT_QUEUED, ALL);
  fake.back_on_cancel = GPOINTER_TO_INT (data);
  rig_open (&rig, plain, 2, 1000);
  LmtL2Task *ta = submit (&rig, &a, LMT_L2_STORE, 10, KEYS (0, 2, 4, 6));
  LmtL2Task *tb = submit (&rig, &b, LMT_L2_LOAD, 10, KEYS (0));
  give_back (0);
  guint lost = lmt_l2_close (rig.l2, 1000000);
  g_assert_cmpuint (lost, ==, 4);
  g_assert_true (fake.closed);
  g_assert_cmpuint (fake.n_cancelled, ==, 2);
  g_assert_cmpuint (lmt_l2_close (rig.l2, 0), ==, 0);
  LmtL2Code refused = LMT_L2_OK;
  g_assert_false (lmt_l2_submit (rig.l2, task_init (&rig, &c, LMT_L2_STORE, 1, KEYS (8)), &refused));
  g_assert_cmpint (refused, ==, LMT_L2_CLOSED);
  expect (&rig, ta, "+CCC");
  expect (&rig, tb, "C");
  expect_events (&rig, "stored 00:10\n");
  g_assert_cmpuint (lmt_l2_outstanding (rig.l2), ==, 0);
  g_assert_nonnull (strstr (rig.messages->str, "given up"));
  rig_close (&rig);
}

/* Close waits for what is under way and for what was only queued. */
static void
test_close_drains (void)
{
  Rig rig;
  Task a, b;
  setup (LMT_L2_SUBMIT_DONE, ALL);
  rig_open (&rig, plain, 1, 0);
  LmtL2Task *ta = submit (&rig, &a, LMT_L2_STORE, 10, KEYS (0, 2));
  LmtL2Task *tb = submit (&rig, &b, LMT_L2_STORE, 10, KEYS (2)); /* waits for the hand-over of the first */
  g_assert_cmpuint (lmt_l2_close (rig.l2, 1000000), ==, 0);
  expect (&rig, ta, "++");
  expect (&rig, tb, "P");
  rig_close (&rig);
}

static void
test_refused (void)
{
  Rig rig;
  Task task;
  LmtL2Code refused = LMT_L2_OK;
  setup (LMT_L2_SUBMIT_DONE, 0);
  rig_open (&rig, plain, 1, 0);
  LmtL2Task *t = task_init (&rig, &task, LMT_L2_STORE, 10, KEYS (0));
  t->sizes = NULL;
  g_assert_false (lmt_l2_submit (rig.l2, t, &refused));
  g_assert_cmpint (refused, ==, LMT_L2_DATA);
  expect (&rig, submit (&rig, &task, LMT_L2_DELETE, 0, KEYS (0, 0)), "UU");
  g_assert_cmpuint (fake.n_submits, ==, 0);
  rig_close (&rig);
}

static void
test_eviction_needs_delete (void)
{
  g_autoptr (GError) error = NULL;
  setup (LMT_L2_SUBMIT_DONE, LMT_L2_CAP_KEEP);
  fake.back = g_ptr_array_new ();
  g_autoptr (LmtRegistry) registry = lmt_registry_new ();
  lmt_registry_set_default_dirs (registry, FALSE);
  g_assert_true (lmt_registry_load_builtin (registry, "l2-fake", fake_load, &error));
  g_autoptr (LmtL2Config) config
      = lmt_l2_config_parse (registry, "{\"type\":\"fake\",\"eviction\":{\"eviction_policy\":\"LRU\"}}", 1, &error);
  g_assert_no_error (error);
  g_autoptr (LmtKeyTable) keys = lmt_key_table_new ();
  LmtL2Params params = { .struct_size = sizeof params, .clock = lmt_clock_real (), .keys = keys };
  g_assert_null (lmt_l2_open (config, &params, &error));
  g_assert_error (error, LMT_ERROR, LMT_ERROR_OPTION);
  g_assert_cmpstr (error->message, ==,
                   "--l2-adapter #1 ('fake'): eviction: expected an adapter that can delete, found one that can't");
  g_assert_true (fake.closed);
  g_ptr_array_unref (fake.back);
}

/* Ten of a kind are shown, then how many more; nothing of a name moves the cursor. */
static void
test_messages (gconstpointer tells_more)
{
  Rig rig;
  Task task;
  guint8 hash[1] = { 0x42 };
  LmtKeyFields fields
      = { .struct_size = sizeof fields, .hash = hash, .hash_len = 1, .model = "a\n\x1b[2J", .model_len = 6, .salt = "" };
  setup (LMT_L2_SUBMIT_DONE, ALL);
  fake.tells_more = GPOINTER_TO_INT (tells_more);
  rig_open (&rig, plain, 4, 0);
  LmtKey *key = lmt_key_table_intern (rig.keys, &fields);
  for (guint i = 0; i < 13; i++)
    {
      task_init (&rig, &task, LMT_L2_STORE, 10, KEYS (0));
      task.keys[0] = key;
      g_assert_true (lmt_l2_submit (rig.l2, &task.task, NULL));
      expect (&rig, &task.task, i == 0 ? "+" : "P");
      task.task.kind = LMT_L2_LOAD;
      task.sizes[0] = 11;
      g_assert_true (lmt_l2_submit (rig.l2, &task.task, NULL));
      expect (&rig, &task.task, "X");
    }
  lmt_l2_close (rig.l2, 0);
  g_auto (GStrv) lines = g_strsplit (rig.messages->str, "\n", -1);
  g_assert_cmpuint (g_strv_length (lines), ==, 12); /* the last is empty */
  g_assert_cmpstr (lines[0], ==, "fake: a??[2J@00000000@0@42: object: expected 11 bytes, found 10");
  g_assert_cmpstr (lines[10], ==, fake.tells_more ? "(wrong size: 3)" : "fake: wrong size: 3 more");
  lmt_key_unref (rig.keys, key);
  rig_close (&rig);
}

static void
on_io (gpointer data, const LmtL2Io *io, gint64 submit_ns, gint64 done_ns)
{
  GString *seen = data;
  g_string_append_printf (seen, "%s %u/%u id %u %s; ", lmt_l2_kind_name (io->kind), io->index, io->count, io->id,
                          lmt_l2_code_name (io->code));
  g_assert_cmpint (submit_ns, <=, done_ns);
}

static void
test_observer (void)
{
  Rig rig;
  Task task;
  g_autoptr (GString) seen = g_string_new (NULL);
  setup (LMT_L2_SUBMIT_QUEUED, ALL);
  rig_open (&rig, plain, 4, 0);
  lmt_l2_set_observer (rig.l2, on_io, seen);
  expect (&rig, submit (&rig, &task, LMT_L2_STORE, 10, KEYS (0, 0, 2)), "+++");
  expect (&rig, submit (&rig, &task, LMT_L2_LOAD, 10, KEYS (4)), "N");
  g_assert_cmpstr (seen->str, ==, "store 0/3 id 1 ok; store 2/3 id 2 ok; load 0/1 id 3 not-found; ");
  rig_close (&rig);
}

/* A wrapper: opens another adapter through the host and hands everything on. */
typedef struct
{
  const LmtL2Ops *ops;
  gpointer handle;
} Wrapper;

static gpointer
wrapper_open (gconstpointer config, const char *type, const LmtL2Host *host, LmtL2Info *info, GError **error)
{
  Wrapper *wrapper = g_new0 (Wrapper, 1);
  if (host->open_inner (host->data, "{\"type\":\"fake\"}", &wrapper->ops, &wrapper->handle, info, error))
    return wrapper;
  g_free (wrapper);
  return NULL;
}

static void
wrapper_close (gpointer handle)
{
  Wrapper *wrapper = handle;
  wrapper->ops->close (wrapper->handle);
  g_free (wrapper);
}

static guint32
wrapper_submit (gpointer handle, LmtL2Io *io)
{
  Wrapper *wrapper = handle;
  return wrapper->ops->submit (wrapper->handle, io);
}

static guint32
wrapper_reap (gpointer handle, LmtL2Io **ios, guint32 max)
{
  Wrapper *wrapper = handle;
  return wrapper->ops->reap (wrapper->handle, ios, max);
}

static const LmtL2Ops wrapper_ops = {
  .struct_size = sizeof (LmtL2Ops),
  .name = "wrapper",
  .open = wrapper_open,
  .close = wrapper_close,
  .submit = wrapper_submit,
  .reap = wrapper_reap,
};

static void
test_wrapper (void)
{
  Rig rig;
  Task task;
  setup (LMT_L2_SUBMIT_QUEUED, ALL);
  rig_open (&rig, "{\"type\":\"wrapper\"}", 4, 0);
  g_assert_cmpuint (lmt_l2_get_info (rig.l2)->capabilities, ==, ALL);
  expect (&rig, submit (&rig, &task, LMT_L2_STORE, 10, KEYS (0)), "+");
  expect (&rig, submit (&rig, &task, LMT_L2_LOAD, 10, KEYS (0)), "+");
  rig_close (&rig);
  g_assert_true (fake.closed);
}

/* Many tasks over few keys in every order of completion: nothing is lost, nothing hangs, the sums agree. */
static void
test_stress (void)
{
  Rig rig;
  enum
  {
    N_TASKS = 2000,
    OPEN = 24
  };
  setup (LMT_L2_SUBMIT_QUEUED, ALL);
  rig_open (&rig, plain, 5, 400);
  g_autoptr (GRand) rand = g_rand_new_with_seed (7);
  Task *tasks = g_new0 (Task, OPEN);
  gboolean busy[OPEN] = { FALSE };
  guint done = 0, started = 0;
  while (done < N_TASKS)
    {
      for (guint i = 0; i < OPEN && started < N_TASKS; i++)
        if (!busy[i])
          {
            int keys[8];
            guint n = (guint)g_rand_int_range (rand, 0, 7);
            for (guint k = 0; k < n; k++)
              keys[k] = g_rand_int_range (rand, 0, 10);
            keys[n] = -1;
            busy[i] = TRUE;
            started++;
            submit (&rig, &tasks[i], (guint32)g_rand_int_range (rand, 0, 4), (guint64)g_rand_int_range (rand, 1, 4) * 20, keys);
            tasks[i].task.user_data = GUINT_TO_POINTER (i);
          }
      if (fake.held->len > 0)
        {
          guint at = (guint)g_rand_int_range (rand, 0, (gint32)fake.held->len);
          if (g_rand_int_range (rand, 0, 10) == 0)
            {
              LmtL2Io *io = g_ptr_array_steal_index (fake.held, at);
              io->code = LMT_L2_IO;
              g_ptr_array_add (fake.back, io);
            }
          else
            give_back (at);
        }
      LmtL2Task *task;
      while ((task = lmt_l2_reap (rig.l2)) != NULL)
        {
          busy[GPOINTER_TO_UINT (task->user_data)] = FALSE;
          done++;
          g_assert_cmpuint (lmt_l2_get_used (rig.l2), <=, 400);
          if (task->kind == LMT_L2_LOOKUP)
            for (guint32 i = 0; i < task->n; i++)
              if (task->codes[i] == LMT_L2_OK)
                lmt_l2_unlock (rig.l2, &task->keys[i], 1);
        }
    }
  guint64 total = 0;
  GHashTableIter iter;
  gpointer name, size;
  g_hash_table_iter_init (&iter, fake.there);
  while (g_hash_table_iter_next (&iter, &name, &size))
    total += GPOINTER_TO_SIZE (size);
  g_assert_cmpuint (lmt_l2_get_used (rig.l2), ==, total);
  g_assert_cmpuint (lmt_l2_get_used_by_salt (rig.l2, 0) + lmt_l2_get_used_by_salt (rig.l2, rig.key[1]->salt), ==, total);
  for (guint i = 0; i < 10; i++)
    g_assert_cmpuint (lmt_l2_get_locks (rig.l2, rig.key[i]), ==, 0);
  g_free (tasks);
  rig_close (&rig);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_data_func ("/l2-layer/life/done", GUINT_TO_POINTER (LMT_L2_SUBMIT_DONE), test_life);
  g_test_add_data_func ("/l2-layer/life/queued", GUINT_TO_POINTER (LMT_L2_SUBMIT_QUEUED), test_life);
  g_test_add_func ("/l2-layer/repeated", test_repeated);
  g_test_add_func ("/l2-layer/capacity/hard", test_capacity);
  g_test_add_func ("/l2-layer/capacity/failed-store", test_capacity_failed_store);
  g_test_add_func ("/l2-layer/same-key", test_same_key);
  g_test_add_func ("/l2-layer/delete-waits", test_delete_waits);
  g_test_add_func ("/l2-layer/take", test_take);
  g_test_add_func ("/l2-layer/depth-and-busy", test_depth_and_busy);
  g_test_add_func ("/l2-layer/depth-absurd", test_depth_absurd);
  g_test_add_func ("/l2-layer/get-fd-once", test_get_fd_once);
  g_test_add_func ("/l2-layer/no-reason", test_no_reason);
  g_test_add_func ("/l2-layer/busy-completion", test_busy_completion);
  g_test_add_func ("/l2-layer/wrong-hand-backs", test_wrong_hand_backs);
  g_test_add_func ("/l2-layer/bad-code", test_bad_code);
  g_test_add_func ("/l2-layer/sizes", test_sizes);
  g_test_add_func ("/l2-layer/gone", test_gone);
  g_test_add_func ("/l2-layer/scan", test_scan);
  g_test_add_data_func ("/l2-layer/close/cancelled", GINT_TO_POINTER (TRUE), test_close_abandons);
  g_test_add_data_func ("/l2-layer/close/lost", GINT_TO_POINTER (FALSE), test_close_abandons);
  g_test_add_func ("/l2-layer/close/drains", test_close_drains);
  g_test_add_func ("/l2-layer/refused", test_refused);
  g_test_add_func ("/l2-layer/eviction-needs-delete", test_eviction_needs_delete);
  g_test_add_data_func ("/l2-layer/messages/text", GINT_TO_POINTER (FALSE), test_messages);
  g_test_add_data_func ("/l2-layer/messages/counted", GINT_TO_POINTER (TRUE), test_messages);
  g_test_add_func ("/l2-layer/observer", test_observer);
  g_test_add_func ("/l2-layer/wrapper", test_wrapper);
  g_test_add_func ("/l2-layer/stress", test_stress);
  return g_test_run ();
}
