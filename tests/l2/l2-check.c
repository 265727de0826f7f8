/* SPDX-License-Identifier: Apache-2.0 */
#include "l2-check.h"

#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

enum
{
  WAIT_MS = 10000,
  POLL_MS = 1000,
  EVENTS_MS = 50,
  CLOSE_MS = 10000,
  REPEATS = 20,
  PAGE = 4096,
  FILLED = 0xa5,
  SCRIBBLED = 0x5a,
};

struct _L2Check
{
  LmtRegistry *registry;
  char *json;
};

/* Memory of one object of one task: whole pages, and one behind them that nobody may touch. */
typedef struct
{
  guint8 *at;
  guint64 bytes;
  guint64 map_bytes;
  guint8 *copy; /* step `stable` */
} Buffer;

typedef struct
{
  char *name;
  LmtL2Task task;
  GPtrArray *keys; /* LmtKey, a reference each */
  Buffer *buffers; /* NULL: lookup, delete */
  void **addresses;
  guint64 *sizes;
  guint8 *codes;
  gboolean refused;
  gboolean done;
  gboolean fetched;
} Task;

/* One run of one scenario. */
typedef struct
{
  L2Check *check;
  const LmtJson *scenario;
  LmtKeyTable *keys;
  LmtL2Config *config;
  LmtL2 *l2;
  LmtEvict *evict;
  gboolean data;
  GHashTable *key_of_name; /* name -> LmtKey */
  GPtrArray *tasks;
  GString *events; /* JSON elements, each with a comma behind it */
  guint fds_before;
  guint threads_before;
  char *why;
} Run;

/* -------- small things -------- */

static const char *
get_text (const LmtJson *json, const char *name)
{
  const LmtJson *member = json != NULL ? lmt_json_get_member (json, name) : NULL;
  return member != NULL && lmt_json_get_type (member) == LMT_JSON_STRING ? lmt_json_get_string (member) : NULL;
}

static guint64
get_number (const LmtJson *json, const char *name)
{
  const LmtJson *member = json != NULL ? lmt_json_get_member (json, name) : NULL;
  return member != NULL && lmt_json_get_type (member) == LMT_JSON_INT ? (guint64)lmt_json_get_int (member) : 0;
}

static double
get_double (const LmtJson *json, const char *name)
{
  const LmtJson *member = lmt_json_get_member (json, name);
  return member != NULL ? lmt_json_get_double (member) : 0;
}

static guint
get_length (const LmtJson *json, const char *name)
{
  const LmtJson *member = json != NULL ? lmt_json_get_member (json, name) : NULL;
  return member != NULL ? lmt_json_get_length (member) : 0;
}

static const LmtJson *
get_element (const LmtJson *json, const char *name, guint i)
{
  return lmt_json_get_element (lmt_json_get_member (json, name), i);
}

static guint
count_entries (const char *path)
{
  guint n = 0;
  DIR *dir = opendir (path);
  while (dir != NULL && readdir (dir) != NULL)
    n++;
  if (dir != NULL)
    closedir (dir);
  return n;
}

static guint32
kind_of_name (const char *name)
{
  return g_strcmp0 (name, "store") == 0    ? LMT_L2_STORE
         : g_strcmp0 (name, "load") == 0   ? LMT_L2_LOAD
         : g_strcmp0 (name, "lookup") == 0 ? LMT_L2_LOOKUP
                                           : LMT_L2_DELETE;
}

/* -------- keys -------- */

static LmtKey *
make_key (Run *run, const LmtJson *json)
{
  const char *hex = get_text (json, "chunk_hash");
  gsize n = strlen (hex) / 2;
  g_autofree guint8 *hash = g_malloc0 (n + 1);
  for (gsize i = 0; i < n; i++)
    hash[i] = (guint8)(g_ascii_xdigit_value (hex[2 * i]) * 16 + g_ascii_xdigit_value (hex[2 * i + 1]));
  const char *model = get_text (json, "model_name"), *salt = get_text (json, "cache_salt");
  LmtKeyFields fields = { .struct_size = sizeof fields,
                          .group = (guint32)get_number (json, "object_group_id"),
                          .rank = get_number (json, "kv_rank"),
                          .hash = hash,
                          .hash_len = (guint32)n,
                          .model = model,
                          .model_len = (guint32)strlen (model),
                          .salt = salt,
                          .salt_len = (guint32)strlen (salt) };
  return lmt_key_table_intern (run->keys, &fields);
}

static void
make_keys (Run *run)
{
  const LmtJson *keys = lmt_json_get_member (run->scenario, "keys");
  run->key_of_name = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  for (guint i = 0; i < lmt_json_get_length (keys); i++)
    g_hash_table_insert (run->key_of_name, g_strdup (lmt_json_get_member_name (keys, i)),
                         make_key (run, lmt_json_get_member_value (keys, i)));
}

static const char *
name_of_key (Run *run, const LmtKey *key)
{
  GHashTableIter iter;
  gpointer name, value;
  g_hash_table_iter_init (&iter, run->key_of_name);
  while (g_hash_table_iter_next (&iter, &name, &value))
    if (value == key)
      return name;
  return "(no key of the scenario)";
}

/* -------- buffers -------- */

static void
buffer_init (Buffer *buffer, guint64 bytes)
{
  buffer->bytes = bytes;
  buffer->map_bytes = (bytes + PAGE - 1) / PAGE * PAGE + PAGE;
  buffer->at = mmap (NULL, buffer->map_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  g_assert (buffer->at != MAP_FAILED);
  mprotect (buffer->at + buffer->map_bytes - PAGE, PAGE, PROT_NONE);
  memset (buffer->at, FILLED, buffer->map_bytes - PAGE);
}

static gboolean
all_bytes (const guint8 *at, guint64 n, guint8 value)
{
  for (guint64 i = 0; i < n; i++)
    if (at[i] != value)
      return FALSE;
  return TRUE;
}

/* What lies between the object's end and the end of its page is nobody's. */
static gboolean
buffer_is_kept (const Buffer *buffer)
{
  return all_bytes (buffer->at + buffer->bytes, buffer->map_bytes - PAGE - buffer->bytes, FILLED);
}

static const LmtJson *
buffer_of_name (Run *run, const char *name)
{
  return lmt_json_get_member (lmt_json_get_member (run->scenario, "buffers"), name);
}

/* Whose bytes they are. */
static char *
content_of (Run *run, const Buffer *buffer)
{
  if (all_bytes (buffer->at, buffer->bytes, FILLED))
    return g_strdup ("untouched");
  const LmtJson *buffers = lmt_json_get_member (run->scenario, "buffers");
  for (guint i = 0; i < lmt_json_get_length (buffers); i++)
    {
      const LmtJson *norm = lmt_json_get_member_value (buffers, i);
      guint64 size = get_number (norm, "size");
      gint64 differs = lmt_fill_check (get_number (norm, "seed"), buffer->at, MIN (size, buffer->bytes));
      if (differs < 0 && size == buffer->bytes)
        return g_strdup (lmt_json_get_member_name (buffers, i));
      if (differs < 0 || differs >= 16)
        return g_strconcat ("partial:", lmt_json_get_member_name (buffers, i), NULL);
    }
  return g_strdup ("other");
}

/* -------- tasks -------- */

static void
task_free (gpointer data)
{
  Task *task = data;
  for (guint i = 0; task->buffers != NULL && i < task->keys->len; i++)
    {
      if (task->buffers[i].at != NULL)
        munmap (task->buffers[i].at, task->buffers[i].map_bytes);
      g_free (task->buffers[i].copy);
    }
  g_ptr_array_unref (task->keys);
  g_free (task->buffers);
  g_free (task->addresses);
  g_free (task->sizes);
  g_free (task->codes);
  g_free (task->name);
  g_free (task);
}

static Task *
find_task (Run *run, const char *name)
{
  for (guint i = 0; i < run->tasks->len; i++)
    if (g_strcmp0 (((Task *)run->tasks->pdata[i])->name, name) == 0)
      return run->tasks->pdata[i];
  return NULL;
}

static Task *
task_new (Run *run, const LmtJson *step, guint32 kind)
{
  Task *task = g_new0 (Task, 1);
  guint n = get_length (step, "keys");
  task->name = g_strdup (get_text (step, "task"));
  task->keys = g_ptr_array_new ();
  task->sizes = g_new0 (guint64, n + 1);
  task->codes = g_new0 (guint8, n + 1);
  for (guint i = 0; i < n; i++)
    g_ptr_array_add (task->keys, g_hash_table_lookup (run->key_of_name, lmt_json_get_string (get_element (step, "keys", i))));
  if (kind == LMT_L2_STORE || kind == LMT_L2_LOAD)
    {
      task->buffers = g_new0 (Buffer, n + 1);
      task->addresses = g_new0 (void *, n + 1);
    }
  const char *list = kind == LMT_L2_STORE ? "buffers" : "sizes";
  for (guint i = 0; task->buffers != NULL && i < MIN (n, get_length (step, list)); i++)
    {
      const LmtJson *norm = kind == LMT_L2_STORE ? buffer_of_name (run, lmt_json_get_string (get_element (step, list, i))) : NULL;
      task->sizes[i] = norm != NULL ? get_number (norm, "size") : (guint64)lmt_json_get_int (get_element (step, list, i));
      buffer_init (&task->buffers[i], task->sizes[i]);
      if (norm != NULL)
        lmt_fill (get_number (norm, "seed"), task->buffers[i].at, task->sizes[i]);
      task->addresses[i] = task->buffers[i].at;
    }
  task->task = (LmtL2Task){ .kind = kind,
                            .n = n,
                            .keys = (LmtKey *const *)task->keys->pdata,
                            .buffers = (void *const *)task->addresses,
                            .sizes = task->buffers != NULL ? task->sizes : NULL,
                            .codes = task->codes,
                            .user_data = task };
  g_ptr_array_add (run->tasks, task);
  return task;
}

static void
submit (Run *run, Task *task, const LmtJson *step)
{
  LmtL2Code code;
  const char *list = task->task.kind == LMT_L2_STORE ? "buffers" : task->task.kind == LMT_L2_LOAD ? "sizes" : NULL;
  task->refused = (list != NULL && get_length (step, list) != task->keys->len) || run->l2 == NULL
                  || !lmt_l2_submit (run->l2, &task->task, &code);
  if (!task->refused)
    lmt_l2_flush (run->l2);
}

static void
reap_all (Run *run)
{
  LmtL2Task *done;
  while (run->l2 != NULL && (done = lmt_l2_reap (run->l2)) != NULL)
    ((Task *)done->user_data)->done = TRUE;
}

static gint64
now_ms (void)
{
  return g_get_monotonic_time () / 1000;
}

/* Sleeps until the adapter may have something, at most to @deadline_ms; then collects. */
static void
sleep_until (Run *run, gint64 deadline_ms)
{
  const LmtClock *clock = lmt_clock_real ();
  int fd = lmt_l2_get_fd (run->l2);
  gint64 due = lmt_l2_next_due_ns (run->l2);
  gint64 until = lmt_clock_now (clock) + CLAMP (deadline_ms - now_ms (), 0, fd >= 0 || due >= 0 ? WAIT_MS : 1) * 1000000;
  if (due >= 0)
    until = MIN (until, due);
  clock->sleep_until_ns (clock->data, until, &fd, fd >= 0 ? 1 : 0);
}

static gboolean
wait_task (Run *run, Task *task)
{
  gint64 deadline = now_ms () + WAIT_MS;
  for (;;)
    {
      reap_all (run);
      if (task->done)
        return TRUE;
      if (run->l2 == NULL || now_ms () >= deadline)
        return FALSE;
      sleep_until (run, deadline);
    }
}

/* -------- open, close, events -------- */

static void
quiet (gpointer data, const char *kind, const char *text)
{
  g_debug ("%s", text);
}

static void
on_event (gpointer data, LmtL2EventKind kind, LmtKey *const *keys, const guint64 *sizes, guint n)
{
  static const char *const names[] = { "stored", "accessed", "deleted" };
  Run *run = data;
  g_string_append_printf (run->events, "{\"event\":\"%s\",\"keys\":[", names[kind]);
  for (guint i = 0; i < n; i++)
    g_string_append_printf (run->events, "%s\"%s\"", i > 0 ? "," : "", name_of_key (run, keys[i]));
  g_string_append (run->events, "]");
  if (kind == LMT_L2_STORED)
    {
      g_string_append (run->events, ",\"sizes\":[");
      for (guint i = 0; i < n; i++)
        g_string_append_printf (run->events, "%s%" G_GUINT64_FORMAT, i > 0 ? "," : "", sizes[i]);
      g_string_append (run->events, "]");
    }
  g_string_append (run->events, "},");
  if (run->evict == NULL)
    return;
  g_autofree LmtEvictKey *list = g_new (LmtEvictKey, n);
  for (guint i = 0; i < n; i++)
    list[i] = (LmtEvictKey){ keys[i]->id, keys[i]->salt };
  (kind == LMT_L2_STORED     ? lmt_evict_created
   : kind == LMT_L2_ACCESSED ? lmt_evict_touched
                             : lmt_evict_removed) (run->evict, list, n);
}

static gboolean
open_adapter (Run *run)
{
  g_autoptr (GError) error = NULL;
  LmtL2Params params
      = { .struct_size = sizeof params, .clock = lmt_clock_real (), .keys = run->keys, .data_wanted = TRUE, .message = quiet };
  run->l2 = lmt_l2_open (run->config, &params, &error);
  if (run->l2 == NULL)
    {
      run->why = g_strdup (error->message);
      return FALSE;
    }
  run->data = (lmt_l2_get_info (run->l2)->capabilities & LMT_L2_CAP_DATA) != 0;
  lmt_l2_set_event_func (run->l2, on_event, run);
  return TRUE;
}

/* Twice is harmless, and so is never having been open. */
static gboolean
close_adapter (Run *run)
{
  if (run->l2 == NULL)
    return TRUE;
  gint64 start = now_ms ();
  lmt_l2_close (run->l2, (gint64)CLOSE_MS * 2 * 1000000);
  reap_all (run);
  if (now_ms () - start <= CLOSE_MS)
    return TRUE;
  run->why = g_strdup_printf ("close: expected at most %d ms, found %" G_GINT64_FORMAT, CLOSE_MS, now_ms () - start);
  return FALSE;
}

/* -------- results as JSON -------- */

static void
append_bits (Task *task, GString *out)
{
  for (guint i = 0; i < task->keys->len; i++)
    g_string_append_c (out, task->codes[i] == LMT_L2_OK || task->codes[i] == LMT_L2_PRESENT ? '1' : '0');
}

static void
append_code (GString *out, guint8 code)
{
  for (const char *p = lmt_l2_code_name (code); *p != '\0'; p++)
    g_string_append_c (out, *p == '-' ? '_' : g_ascii_toupper (*p));
}

static void
append_result (Run *run, Task *task, GString *out)
{
  gboolean is_store = task->task.kind == LMT_L2_STORE;
  g_string_append_printf (out, "{\"%s\":\"", is_store ? "stored_bits" : "bits");
  append_bits (task, out);
  g_string_append_c (out, '"');
  if (is_store)
    {
      gboolean ok = task->task.n_ok == task->task.n;
      g_string_append_printf (out, ",\"ok\":%s,\"bytes\":%" G_GUINT64_FORMAT, ok ? "true" : "false", task->task.bytes);
      for (guint i = 0; !ok && i < task->keys->len; i++)
        if (task->codes[i] != LMT_L2_OK && task->codes[i] != LMT_L2_PRESENT)
          {
            g_string_append (out, ",\"code\":\"");
            append_code (out, task->codes[i]);
            g_string_append_c (out, '"');
            break;
          }
    }
  else if (task->task.kind == LMT_L2_LOAD && run->data)
    {
      g_string_append (out, ",\"content\":[");
      for (guint i = 0; i < task->keys->len; i++)
        {
          g_autofree char *content = content_of (run, &task->buffers[i]);
          g_string_append_printf (out, "%s\"%s\"", i > 0 ? "," : "", content);
        }
      g_string_append_c (out, ']');
    }
  g_string_append_c (out, '}');
}

/* -------- steps; each writes what it found -------- */

static void
read_event_fd (Run *run, guint32 kind)
{
  guint64 count;
  int fd = run->l2 != NULL && kind != LMT_L2_DELETE ? lmt_l2_get_event_fd (run->l2, kind) : -1;
  if (fd >= 0 && read (fd, &count, sizeof count) < 0 && errno != EAGAIN)
    g_warning ("Event descriptor: %s", g_strerror (errno));
}

static void
step_wait (Run *run, const LmtJson *step, GString *found)
{
  Task *task = find_task (run, get_text (step, "task"));
  if (task->refused)
    g_string_append (found, "{\"refused\":true}");
  else if (!wait_task (run, task))
    g_string_append (found, "{\"timeout\":true}");
  else
    {
      read_event_fd (run, task->task.kind);
      task->fetched = TRUE;
      append_result (run, task, found);
    }
}

static void
step_again (Run *run, const LmtJson *step, GString *found)
{
  Task *task = find_task (run, get_text (step, "task"));
  reap_all (run);
  if (task->fetched || !task->done)
    g_string_append (found, "{\"result\":null}");
  else
    {
      g_string_append (found, "{\"result\":");
      append_result (run, task, found);
      g_string_append_c (found, '}');
    }
}

static void
step_ids (Run *run, const LmtJson *step, GString *found)
{
  gboolean unique = TRUE;
  guint n = get_length (step, "tasks");
  for (guint i = 0; i < n; i++)
    for (guint k = 0; k < i; k++)
      unique &= find_task (run, lmt_json_get_string (get_element (step, "tasks", i)))->task.id
                != find_task (run, lmt_json_get_string (get_element (step, "tasks", k)))->task.id;
  g_string_append_printf (found, "{\"unique\":%s}", unique ? "true" : "false");
}

static gboolean
is_readable (Run *run, guint32 kind, int timeout_ms)
{
  gint64 deadline = now_ms () + timeout_ms;
  for (;;)
    {
      struct pollfd wait = { .fd = lmt_l2_get_event_fd (run->l2, kind), .events = POLLIN };
      lmt_l2_pump (run->l2);
      if (poll (&wait, 1, 0) == 1 && (wait.revents & POLLIN) != 0)
        return TRUE;
      if (now_ms () >= deadline)
        return FALSE;
      sleep_until (run, deadline);
    }
}

static void
step_fds (Run *run, GString *found)
{
  static const char *const names[] = { "store", "lookup", "load" };
  int fds[3];
  for (guint i = 0; i < 3; i++)
    fds[i] = lmt_l2_get_event_fd (run->l2, kind_of_name (names[i]));
  g_string_append_printf (found, "{\"distinct\":%s,\"readable\":[",
                          fds[0] != fds[1] && fds[1] != fds[2] && fds[0] != fds[2] ? "true" : "false");
  const char *comma = "";
  for (guint i = 0; i < 3; i++)
    if (is_readable (run, kind_of_name (names[i]), 0))
      {
        g_string_append_printf (found, "%s\"%s\"", comma, names[i]);
        comma = ",";
      }
  g_string_append (found, "]}");
}

static void
step_delete (Run *run, const LmtJson *step, GString *found)
{
  Task *task = task_new (run, step, LMT_L2_DELETE);
  submit (run, task, step);
  if (task->refused)
    g_string_append (found, "{\"refused\":true}");
  else if (!wait_task (run, task))
    g_string_append (found, "{\"timeout\":true}");
  else
    append_result (run, task, found);
}

static void
step_unlock (Run *run, const LmtJson *step)
{
  for (guint i = 0; i < get_length (step, "keys"); i++)
    {
      LmtKey *key = g_hash_table_lookup (run->key_of_name, lmt_json_get_string (get_element (step, "keys", i)));
      lmt_l2_unlock (run->l2, &key, 1);
    }
}

static void
step_usage (Run *run, GString *found)
{
  guint64 used = lmt_l2_get_used (run->l2), capacity = lmt_l2_get_capacity (run->l2);
  char fraction[32];
  reap_all (run);
  g_string_append_printf (
      found, "{\"total_bytes\":%" G_GUINT64_FORMAT ",\"capacity_bytes\":%" G_GUINT64_FORMAT ",\"fraction\":%s,\"by_salt\":{",
      used, capacity, lmt_json_format_double (capacity > 0 ? (double)used / (double)capacity : -1, fraction));
  const char *comma = "";
  for (guint i = 0; i < lmt_key_table_n_salts (run->keys); i++)
    {
      guint64 bytes = lmt_l2_get_used_by_salt (run->l2, i);
      if (bytes > 0)
        {
          g_string_append_printf (found, "%s\"%s\":%" G_GUINT64_FORMAT, comma, lmt_key_table_salt (run->keys, i), bytes);
          comma = ",";
        }
    }
  g_string_append (found, "}}");
}

static void
step_events (Run *run, GString *found)
{
  g_usleep (EVENTS_MS * 1000);
  reap_all (run);
  if (run->events->len > 0)
    g_string_truncate (run->events, run->events->len - 1);
  g_string_append_printf (found, "{\"events\":[%s]}", run->events->str);
  g_string_truncate (run->events, 0);
}

static gboolean
is_unlocked (guint32 key, gpointer data)
{
  Run *run = data;
  return lmt_l2_get_locks (run->l2, lmt_key_table_get (run->keys, key)) == 0;
}

/* storage-manager.md 10.2: which keys one pass asks to delete. */
static void
choose_victims (Run *run, const LmtJson *step, GArray *all)
{
  double watermark = get_double (step, "watermark"), ratio = get_double (step, "ratio");
  guint64 used = lmt_l2_get_used (run->l2), capacity = lmt_l2_get_capacity (run->l2);
  g_autoptr (GArray) victims = g_array_new (FALSE, FALSE, sizeof (guint32));
  if (lmt_evict_get_kind (run->evict) != LMT_EVICT_ISOLATED_LRU)
    {
      if (capacity == 0 || (double)used / (double)capacity < watermark)
        return;
      lmt_evict_victims (run->evict, ratio, -1, is_unlocked, run, all);
      return;
    }
  for (guint salt = 0; salt < lmt_key_table_n_salts (run->keys); salt++)
    {
      guint64 bytes = lmt_l2_get_used_by_salt (run->l2, salt);
      guint64 limit = get_number (lmt_json_get_member (step, "quotas"), lmt_key_table_salt (run->keys, salt));
      if (bytes == 0 || (double)bytes < watermark * (double)limit)
        continue;
      lmt_evict_victims (run->evict, limit == 0 ? 1.0 : ratio, salt, is_unlocked, run, victims);
      g_array_append_vals (all, victims->data, victims->len);
    }
}

static void
step_evict (Run *run, const LmtJson *step, GString *found)
{
  g_autoptr (GArray) victims = g_array_new (FALSE, FALSE, sizeof (guint32));
  choose_victims (run, step, victims);
  Task *task = g_new0 (Task, 1);
  task->keys = g_ptr_array_new ();
  task->codes = g_new0 (guint8, victims->len + 1);
  for (guint i = 0; i < victims->len; i++)
    g_ptr_array_add (task->keys, lmt_key_table_get (run->keys, g_array_index (victims, guint32, i)));
  task->task = (LmtL2Task){
    .kind = LMT_L2_DELETE, .n = victims->len, .keys = (LmtKey *const *)task->keys->pdata, .codes = task->codes, .user_data = task
  };
  g_ptr_array_add (run->tasks, task);
  if (!lmt_l2_submit (run->l2, &task->task, NULL) || (lmt_l2_flush (run->l2), !wait_task (run, task)))
    {
      g_string_append (found, "{\"timeout\":true}");
      return;
    }
  g_string_append (found, "{\"victims\":[");
  const char *comma = "";
  for (guint i = 0; i < task->keys->len; i++)
    if (task->codes[i] == LMT_L2_OK)
      {
        g_string_append_printf (found, "%s\"%s\"", comma, name_of_key (run, task->keys->pdata[i]));
        comma = ",";
      }
  g_string_append (found, "]}");
}

static gint64
tamper (Run *run, LmtKey *key, const char *action, guint64 bytes)
{
  const LmtL2Ops *ops = lmt_l2_get_ops (run->l2);
  LmtL2Key l2_key = { .hash64 = key != NULL ? key->hash64 : 0 };
  if (ops->tamper == NULL)
    return -1;
  if (key != NULL)
    {
      l2_key.fields = key->fields;
      l2_key.wire = lmt_key_wire (key);
      l2_key.wire_len = key->wire_len;
      l2_key.file = lmt_key_file (key);
      l2_key.file_len = key->file_len;
    }
  return ops->tamper (lmt_l2_get_handle (run->l2), &l2_key, action, bytes);
}

static void
step_tamper (Run *run, const LmtJson *step, GString *found)
{
  LmtKey *key = g_hash_table_lookup (run->key_of_name, get_text (step, "key"));
  if (tamper (run, key, get_text (step, "action"), get_number (step, "size")) < 0)
    run->why = g_strdup_printf ("expected a change of the medium, found none");
  g_string_append (found, "{}");
}

static void
step_scribble (Run *run, const LmtJson *step)
{
  Task *task = find_task (run, get_text (step, "task"));
  for (guint i = 0; i < task->keys->len; i++)
    memset (task->buffers[i].at, SCRIBBLED, task->buffers[i].bytes);
}

static void
step_stable (Run *run, const LmtJson *step, GString *found)
{
  Task *task = find_task (run, get_text (step, "task"));
  gboolean changed = FALSE;
  for (guint i = 0; i < task->keys->len; i++)
    task->buffers[i].copy = g_memdup2 (task->buffers[i].at, task->buffers[i].bytes);
  g_usleep (get_number (step, "milliseconds") * 1000);
  for (guint i = 0; i < task->keys->len; i++)
    {
      changed |= memcmp (task->buffers[i].copy, task->buffers[i].at, task->buffers[i].bytes) != 0;
      g_clear_pointer (&task->buffers[i].copy, g_free);
    }
  g_string_append_printf (found, "{\"changed\":%s}", changed ? "true" : "false");
}

static void
step_reopen (Run *run)
{
  if (!close_adapter (run))
    return;
  g_clear_pointer (&run->l2, lmt_l2_free);
  open_adapter (run);
  /* What the new handle found is no announcement of the scenario. */
  g_string_truncate (run->events, 0);
}

static void
do_step (Run *run, const LmtJson *step, const char *op, GString *found)
{
  if (strcmp (op, "store") == 0 || strcmp (op, "lookup") == 0 || strcmp (op, "load") == 0)
    {
      Task *task = task_new (run, step, kind_of_name (op));
      submit (run, task, step);
      g_string_append_printf (found, "{\"refused\":%s}", task->refused ? "true" : "false");
    }
  else if (strcmp (op, "wait") == 0)
    step_wait (run, step, found);
  else if (strcmp (op, "again") == 0)
    step_again (run, step, found);
  else if (strcmp (op, "unknown") == 0)
    g_string_append (found, "{\"result\":null}"); /* a task is its own id here: there is nothing to ask for */
  else if (strcmp (op, "ids") == 0)
    step_ids (run, step, found);
  else if (strcmp (op, "fds") == 0)
    step_fds (run, found);
  else if (strcmp (op, "poll") == 0)
    g_string_append_printf (found, "{\"readable\":%s}",
                            is_readable (run, kind_of_name (get_text (step, "kind")), POLL_MS) ? "true" : "false");
  else if (strcmp (op, "unlock") == 0)
    step_unlock (run, step);
  else if (strcmp (op, "delete") == 0)
    step_delete (run, step, found);
  else if (strcmp (op, "usage") == 0)
    step_usage (run, found);
  else if (strcmp (op, "events") == 0)
    step_events (run, found);
  else if (strcmp (op, "evict") == 0)
    step_evict (run, step, found);
  else if (strcmp (op, "tamper") == 0)
    step_tamper (run, step, found);
  else if (strcmp (op, "debris") == 0)
    g_string_append_printf (found, "{\"entries\":%" G_GINT64_FORMAT "}", tamper (run, NULL, "debris", 0));
  else if (strcmp (op, "sleep") == 0)
    g_usleep (get_number (step, "milliseconds") * 1000);
  else if (strcmp (op, "scribble") == 0)
    step_scribble (run, step);
  else if (strcmp (op, "stable") == 0)
    step_stable (run, step, found);
  else if (strcmp (op, "reopen") == 0)
    step_reopen (run);
  else if (strcmp (op, "close") == 0)
    {
      close_adapter (run);
      g_string_append (found, "{\"refused\":false}");
    }
  else
    run->why = g_strdup ("expected a known step, found none");
}

/* -------- one scenario -------- */

/* The norm as it applies here: without data no content is compared, and "the bits of that task" are its bits. */
static void
write_norm (Run *run, LmtJsonWriter *writer, const LmtJson *norm)
{
  LmtJsonType type = lmt_json_get_type (norm);
  if (type == LMT_JSON_ARRAY)
    {
      lmt_json_writer_begin_array (writer);
      for (guint i = 0; i < lmt_json_get_length (norm); i++)
        write_norm (run, writer, lmt_json_get_element (norm, i));
      lmt_json_writer_end_array (writer);
      return;
    }
  if (type != LMT_JSON_OBJECT)
    {
      lmt_json_writer_value (writer, norm);
      return;
    }
  lmt_json_writer_begin_object (writer);
  for (guint i = 0; i < lmt_json_get_length (norm); i++)
    {
      const char *name = lmt_json_get_member_name (norm, i);
      const LmtJson *value = lmt_json_get_member_value (norm, i);
      if (strcmp (name, "content") == 0 && !run->data)
        continue;
      if (strcmp (name, "same_bits_as") == 0)
        {
          g_autoptr (GString) bits = g_string_new (NULL);
          append_bits (find_task (run, lmt_json_get_string (value)), bits);
          lmt_json_writer_key (writer, "bits");
          lmt_json_writer_string (writer, bits->str);
          continue;
        }
      lmt_json_writer_key (writer, name);
      write_norm (run, writer, value);
    }
  lmt_json_writer_end_object (writer);
}

static LmtJson *
norm_of_step (Run *run, const LmtJson *step)
{
  const LmtJson *norm = lmt_json_get_member (step, "require");
  if (norm == NULL)
    return NULL;
  g_autoptr (GString) out = g_string_new (NULL);
  LmtJsonWriter *writer = lmt_json_writer_new (out, LMT_JSON_STYLE_COMPACT);
  write_norm (run, writer, norm);
  lmt_json_writer_free (writer);
  return lmt_json_parse (out->str, -1, NULL);
}

static gboolean
run_step (Run *run, guint number, const LmtJson *step)
{
  g_autoptr (GString) text = g_string_new (NULL);
  const char *op = get_text (step, "op");
  if (op == NULL)
    op = "none";
  do_step (run, step, op, text);
  if (run->why == NULL)
    {
      g_autoptr (LmtJson) norm = norm_of_step (run, step);
      g_autoptr (LmtJson) found = lmt_json_parse (text->len > 0 ? text->str : "{}", -1, NULL);
      if (norm == NULL || (lmt_json_get_length (norm) == 0) || l2_check_matches (norm, found))
        return TRUE;
      g_autofree char *expected = lmt_json_to_text (norm, LMT_JSON_STYLE_SPACED, FALSE);
      run->why = g_strdup_printf ("expected %s, found %s", expected, text->str);
    }
  g_autofree char *inner = run->why;
  run->why = g_strdup_printf ("step %u (%s): %s", number, op, inner);
  return FALSE;
}

/* Objects the adapter knows of, all of them deleted; the next scenario starts with none. */
static void
collect (LmtKey *key, guint64 bytes, guint locks, gpointer data)
{
  GPtrArray *keys = data;
  for (guint i = 0; i <= locks; i++)
    g_ptr_array_add (keys, key);
}

static void
empty_medium (Run *run)
{
  if ((lmt_l2_get_info (run->l2)->capabilities & LMT_L2_CAP_DELETE) == 0)
    return;
  Task *task = g_new0 (Task, 1);
  task->keys = g_ptr_array_new ();
  lmt_l2_foreach (run->l2, collect, task->keys);
  lmt_l2_unlock (run->l2, (LmtKey *const *)task->keys->pdata, task->keys->len);
  task->codes = g_new0 (guint8, task->keys->len + 1);
  task->task = (LmtL2Task){ .kind = LMT_L2_DELETE,
                            .n = task->keys->len,
                            .keys = (LmtKey *const *)task->keys->pdata,
                            .codes = task->codes,
                            .user_data = task };
  g_ptr_array_add (run->tasks, task);
  if (lmt_l2_submit (run->l2, &task->task, NULL))
    {
      lmt_l2_flush (run->l2);
      wait_task (run, task);
    }
}

static void
check_buffers (Run *run)
{
  for (guint i = 0; i < run->tasks->len && run->why == NULL; i++)
    {
      Task *task = run->tasks->pdata[i];
      for (guint k = 0; task->buffers != NULL && k < task->keys->len; k++)
        if (task->buffers[k].at != NULL && !buffer_is_kept (&task->buffers[k]))
          {
            run->why = g_strdup_printf ("task %s: expected nothing past the buffer's end, found it written", task->name);
            break;
          }
    }
}

static void
run_steps (Run *run)
{
  const LmtJson *steps = lmt_json_get_member (run->scenario, "steps");
  for (guint i = 0; i < lmt_json_get_length (steps); i++)
    if (!run_step (run, i, lmt_json_get_element (steps, i)))
      return;
}

static const char *
policy_of (const LmtJson *scenario)
{
  const LmtJson *steps = lmt_json_get_member (scenario, "steps");
  for (guint i = 0; i < lmt_json_get_length (steps); i++)
    if (g_strcmp0 (get_text (lmt_json_get_element (steps, i), "op"), "evict") == 0)
      return get_text (lmt_json_get_element (steps, i), "policy");
  return NULL;
}

static LmtL2Config *
config_of (L2Check *check, const LmtJson *scenario, char **why)
{
  g_autoptr (GError) error = NULL;
  LmtL2Config *config = lmt_l2_config_parse (check->registry, check->json, 1, &error);
  guint64 capacity = get_number (lmt_json_get_member (scenario, "options"), "capacity_bytes");
  if (config != NULL && capacity > 0)
    {
      g_autofree char *json = lmt_l2_config_with_capacity (config, capacity);
      g_clear_pointer (&config, lmt_l2_config_free);
      if (json != NULL)
        config = lmt_l2_config_parse (check->registry, json, 1, &error);
    }
  if (config == NULL)
    *why = g_strdup (error != NULL ? error->message : "needs capacity");
  return config;
}

static void
run_end (Run *run)
{
  if (run->l2 != NULL)
    {
      g_autofree char *why = g_steal_pointer (&run->why);
      close_adapter (run);
      if (why != NULL)
        {
          g_free (run->why);
          run->why = g_steal_pointer (&why);
        }
    }
  check_buffers (run);
  g_clear_pointer (&run->l2, lmt_l2_free);
  guint fds = count_entries ("/proc/self/fd"), threads = count_entries ("/proc/self/task");
  if (run->why == NULL && fds != run->fds_before)
    run->why = g_strdup_printf ("close: expected %u descriptors, found %u", run->fds_before, fds);
  if (run->why == NULL && threads > run->threads_before)
    run->why = g_strdup_printf ("close: expected %u threads, found %u", run->threads_before, threads);
  /* What the scenario left on the medium goes. */
  g_autofree char *why = g_steal_pointer (&run->why);
  if (open_adapter (run))
    {
      empty_medium (run);
      close_adapter (run);
    }
  g_clear_pointer (&run->l2, lmt_l2_free);
  g_free (run->why);
  run->why = g_steal_pointer (&why);
}

/* (transfer full) (nullable): what went wrong. */
static char *
run_once (L2Check *check, const LmtJson *scenario)
{
  LmtEvictKind policy;
  Run run = { .check = check, .scenario = scenario };
  run.config = config_of (check, scenario, &run.why);
  if (run.config == NULL)
    return run.why;
  run.keys = lmt_key_table_new ();
  run.tasks = g_ptr_array_new_with_free_func (task_free);
  run.events = g_string_new (NULL);
  make_keys (&run);
  if (lmt_evict_kind_from_text (policy_of (scenario) != NULL ? policy_of (scenario) : "", &policy))
    run.evict = lmt_evict_new (policy, NULL);
  run.fds_before = count_entries ("/proc/self/fd");
  run.threads_before = count_entries ("/proc/self/task");
  if (open_adapter (&run))
    run_steps (&run);
  run_end (&run);
  g_ptr_array_unref (run.tasks);
  g_string_free (run.events, TRUE);
  GHashTableIter iter;
  gpointer key;
  g_hash_table_iter_init (&iter, run.key_of_name);
  while (g_hash_table_iter_next (&iter, NULL, &key))
    lmt_key_unref (run.keys, key);
  g_hash_table_unref (run.key_of_name);
  g_clear_pointer (&run.evict, lmt_evict_free);
  lmt_key_table_free (run.keys);
  lmt_l2_config_free (run.config);
  return run.why;
}

/* -------- what applies -------- */

static gboolean
demands_found_bit (const LmtJson *norm)
{
  const char *bits = get_text (norm, "bits");
  return bits != NULL && strchr (bits, '1') != NULL;
}

/* A word for what the adapter would need, or NULL. */
static const char *
missing_capability (const LmtJson *scenario, guint32 capabilities)
{
  static const struct
  {
    const char *name;
    guint32 flag;
  } known[] = { { "capacity", LMT_L2_CAP_CAPACITY }, { "delete", LMT_L2_CAP_DELETE },
                { "persist", LMT_L2_CAP_PERSIST },   { "tamper", LMT_L2_CAP_TAMPER },
                { "direct", LMT_L2_CAP_DIRECT },     { "data", LMT_L2_CAP_DATA },
                { "keep", LMT_L2_CAP_KEEP },         { "lock", 0 } };
  const LmtJson *steps = lmt_json_get_member (scenario, "steps");
  for (guint i = 0; i < lmt_json_get_length (steps); i++)
    {
      const LmtJson *step = lmt_json_get_element (steps, i);
      const char *op = get_text (step, "op");
      const LmtJson *norm = lmt_json_get_member (step, "require");
      gboolean needs_keep
          = norm != NULL
            && (demands_found_bit (norm) || strcmp (op, "usage") == 0 || strcmp (op, "events") == 0 || strcmp (op, "evict") == 0);
      if (needs_keep && (capabilities & LMT_L2_CAP_KEEP) == 0)
        return "keep";
      if (strcmp (op, "tamper") == 0 && (capabilities & LMT_L2_CAP_DATA) == 0)
        return "data";
    }
  for (guint i = 0; i < get_length (scenario, "requires"); i++)
    {
      const char *name = lmt_json_get_string (get_element (scenario, "requires", i));
      guint k = 0;
      while (k < G_N_ELEMENTS (known) && strcmp (known[k].name, name) != 0)
        k++;
      if (k == G_N_ELEMENTS (known))
        return "a capability nobody knows";
      if (known[k].flag != 0 && (capabilities & known[k].flag) == 0)
        return known[k].name;
    }
  return NULL;
}

static gboolean
ask_adapter (L2Check *check, guint32 *capabilities, guint *n_objects, char **why)
{
  Run run = { .check = check };
  run.config = config_of (check, NULL, why);
  if (run.config == NULL)
    return FALSE;
  run.keys = lmt_key_table_new ();
  run.events = g_string_new (NULL);
  run.key_of_name = g_hash_table_new (g_str_hash, g_str_equal);
  gboolean good = open_adapter (&run);
  if (good)
    {
      g_autoptr (GPtrArray) keys = g_ptr_array_new ();
      *capabilities = lmt_l2_get_info (run.l2)->capabilities;
      lmt_l2_foreach (run.l2, collect, keys);
      *n_objects = keys->len;
      lmt_l2_free (run.l2);
    }
  *why = run.why;
  g_string_free (run.events, TRUE);
  g_hash_table_unref (run.key_of_name);
  lmt_key_table_free (run.keys);
  lmt_l2_config_free (run.config);
  return good;
}

L2Check *
l2_check_new (LmtRegistry *registry, const char *config_json, GError **error)
{
  g_autoptr (L2Check) check = g_new0 (L2Check, 1);
  g_autofree char *why = NULL;
  guint32 capabilities = 0;
  guint n_objects = 0;
  check->registry = g_object_ref (registry);
  check->json = g_strdup (config_json);
  if (!ask_adapter (check, &capabilities, &n_objects, &why))
    {
      g_set_error_literal (error, LMT_ERROR, LMT_ERROR_OPTION, why);
      return NULL;
    }
  if (n_objects > 0)
    {
      g_set_error (error, LMT_ERROR, LMT_ERROR_OPTION, "expected a medium without objects, found %u: the check would delete them",
                   n_objects);
      return NULL;
    }
  return g_steal_pointer (&check);
}

void
l2_check_free (L2Check *check)
{
  if (check == NULL)
    return;
  g_object_unref (check->registry);
  g_free (check->json);
  g_free (check);
}

static LmtJson *
read_scenario (const char *path, char **name, char **why)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *text = NULL;
  *name = g_path_get_basename (path);
  if (!g_file_get_contents (path, &text, NULL, &error))
    {
      *why = g_strdup (error->message);
      return NULL;
    }
  LmtJson *scenario = lmt_json_parse (text, -1, &error);
  if (scenario == NULL || g_strcmp0 (get_text (scenario, "schema"), "lmtrace-l2-contract/1") != 0)
    {
      *why = scenario == NULL ? g_strdup (error->message) : g_strdup ("schema: expected lmtrace-l2-contract/1, found another");
      g_clear_pointer (&scenario, lmt_json_free);
      return NULL;
    }
  g_free (*name);
  *name = g_strdup (get_text (scenario, "name"));
  return scenario;
}

L2CheckVerdict
l2_check_run (L2Check *check, const char *path, char **name, char **why)
{
  *why = NULL;
  g_autoptr (LmtJson) scenario = read_scenario (path, name, why);
  if (scenario == NULL)
    return L2_CHECK_FAILED;
  guint32 capabilities = 0;
  guint n_objects;
  if (!ask_adapter (check, &capabilities, &n_objects, why))
    return L2_CHECK_FAILED;
  const char *missing = missing_capability (scenario, capabilities);
  if (missing != NULL)
    {
      *why = g_strdup (missing);
      return L2_CHECK_SKIPPED;
    }
  gboolean by_time = fnmatch ("concurrent-*", *name, 0) == 0 || fnmatch ("close-*", *name, 0) == 0;
  for (guint i = 0; i < (by_time ? REPEATS : 1) && *why == NULL; i++)
    *why = run_once (check, scenario);
  return *why == NULL ? L2_CHECK_PASSED : L2_CHECK_FAILED;
}
