/* SPDX-License-Identifier: Apache-2.0 */
#include "kit-scenario-private.h"

#include "kit-key.h"

#include <stdio.h>
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

/* -------- small things -------- */

const char *
kit_scenario_get_text (const LmtJson *json, const char *name)
{
  const LmtJson *member = json != NULL ? lmt_json_get_member (json, name) : NULL;
  return member != NULL && lmt_json_get_type (member) == LMT_JSON_STRING ? lmt_json_get_string (member) : NULL;
}

guint64
kit_scenario_get_number (const LmtJson *json, const char *name)
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

guint
kit_scenario_get_length (const LmtJson *json, const char *name)
{
  const LmtJson *member = json != NULL ? lmt_json_get_member (json, name) : NULL;
  return member != NULL ? lmt_json_get_length (member) : 0;
}

const LmtJson *
kit_scenario_get_element (const LmtJson *json, const char *name, guint i)
{
  return lmt_json_get_element (lmt_json_get_member (json, name), i);
}

guint
kit_scenario_count_entries (const char *path)
{
  guint n = 0;
  DIR *dir = opendir (path);
  while (dir != NULL && readdir (dir) != NULL)
    n++;
  if (dir != NULL)
    closedir (dir);
  return n;
}

guint
kit_scenario_count_tasks (void)
{
  GDir *dir = g_dir_open ("/proc/self/task", 0, NULL);
  guint n = 0;
  for (const char *entry; dir != NULL && (entry = g_dir_read_name (dir)) != NULL;)
    {
      char path[300], name[32] = "";
      g_snprintf (path, sizeof path, "/proc/self/task/%s/comm", entry);
      FILE *file = fopen (path, "re");
      n += file != NULL && fgets (name, sizeof name, file) != NULL && !g_str_has_prefix (name, "iou-");
      if (file != NULL)
        fclose (file);
    }
  if (dir != NULL)
    g_dir_close (dir);
  return n;
}

guint
kit_scenario_count_threads (guint expected)
{
  guint n = 0;
  for (guint i = 0; i < 100; i++)
    {
      n = kit_scenario_count_tasks ();
      if (n <= expected)
        break;
      g_usleep (10000);
    }
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

void
kit_scenario_make_keys (Run *run)
{
  const LmtJson *keys = lmt_json_get_member (run->scenario, "keys");
  run->key_of_name = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  for (guint i = 0; i < lmt_json_get_length (keys); i++)
    g_hash_table_insert (run->key_of_name, g_strdup (lmt_json_get_member_name (keys, i)),
                         kit_key_from_json (run->keys, lmt_json_get_member_value (keys, i)));
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

void
kit_scenario_buffer_init (Buffer *buffer, guint64 bytes)
{
  buffer->bytes = bytes;
  buffer->map_bytes = (MAX (bytes, 1) + PAGE - 1) / PAGE * PAGE;
  guint8 *map = mmap (NULL, buffer->map_bytes + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  g_assert (map != MAP_FAILED);
  buffer->at = map + PAGE;
  mprotect (buffer->at, buffer->map_bytes, PROT_READ | PROT_WRITE);
  memset (buffer->at, FILLED, buffer->map_bytes);
}

void
kit_scenario_buffer_clear (Buffer *buffer)
{
  if (buffer->at != NULL)
    munmap (buffer->at - PAGE, buffer->map_bytes + 2 * PAGE);
  g_clear_pointer (&buffer->copy, g_free);
  buffer->at = NULL;
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
gboolean
kit_scenario_buffer_is_kept (const Buffer *buffer)
{
  return all_bytes (buffer->at + buffer->bytes, buffer->map_bytes - buffer->bytes, FILLED);
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
      guint64 size = kit_scenario_get_number (norm, "size");
      gint64 differs = lmt_fill_check (kit_scenario_get_number (norm, "seed"), buffer->at, MIN (size, buffer->bytes));
      if (differs < 0 && size == buffer->bytes)
        return g_strdup (lmt_json_get_member_name (buffers, i));
      if (differs < 0 || differs >= 16)
        return g_strconcat ("partial:", lmt_json_get_member_name (buffers, i), NULL);
    }
  return g_strdup ("other");
}

/* -------- tasks -------- */

void
kit_scenario_task_free (gpointer data)
{
  Task *task = data;
  for (guint i = 0; task->buffers != NULL && i < task->keys->len; i++)
    kit_scenario_buffer_clear (&task->buffers[i]);
  g_ptr_array_unref (task->keys);
  g_free (task->buffers);
  g_free (task->addresses);
  g_free (task->sizes);
  g_free (task->codes);
  g_free (task->name);
  g_free (task);
}

Task *
kit_scenario_find_task (Run *run, const char *name)
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
  guint n = kit_scenario_get_length (step, "keys");
  task->name = g_strdup (kit_scenario_get_text (step, "task"));
  task->keys = g_ptr_array_new ();
  task->sizes = g_new0 (guint64, n + 1);
  task->codes = g_new0 (guint8, n + 1);
  for (guint i = 0; i < n; i++)
    g_ptr_array_add (task->keys,
                     g_hash_table_lookup (run->key_of_name, lmt_json_get_string (kit_scenario_get_element (step, "keys", i))));
  if (kind == LMT_L2_STORE || kind == LMT_L2_LOAD)
    {
      task->buffers = g_new0 (Buffer, n + 1);
      task->addresses = g_new0 (void *, n + 1);
    }
  const char *list = kind == LMT_L2_STORE ? "buffers" : "sizes";
  for (guint i = 0; task->buffers != NULL && i < MIN (n, kit_scenario_get_length (step, list)); i++)
    {
      const LmtJson *norm
          = kind == LMT_L2_STORE ? buffer_of_name (run, lmt_json_get_string (kit_scenario_get_element (step, list, i))) : NULL;
      task->sizes[i] = norm != NULL ? kit_scenario_get_number (norm, "size")
                                    : (guint64)lmt_json_get_int (kit_scenario_get_element (step, list, i));
      kit_scenario_buffer_init (&task->buffers[i], task->sizes[i]);
      if (norm != NULL)
        lmt_fill (kit_scenario_get_number (norm, "seed"), task->buffers[i].at, task->sizes[i]);
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
  task->refused = (list != NULL && kit_scenario_get_length (step, list) != task->keys->len) || run->l2 == NULL
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
  gint64 until = lmt_clock_now (clock) + CLAMP (deadline_ms - now_ms (), 0, fd >= 0 || due >= 0 ? 1000 : 1) * 1000000;
  if (due >= 0)
    until = MIN (until, due);
  clock->sleep_until_ns (clock->data, until, &fd, fd >= 0 ? 1 : 0);
}

gboolean
kit_scenario_wait_task (Run *run, Task *task)
{
  gint64 deadline = now_ms () + kit_wait_ms (run->check);
  for (;;)
    {
      kit_beat (run->check, 0);
      reap_all (run);
      if (task->done)
        return TRUE;
      if (run->l2 == NULL || now_ms () >= deadline)
        {
          run->check->n_timeouts++;
          run->hurried = TRUE;
          return FALSE;
        }
      sleep_until (run, deadline);
    }
}

/* -------- open, close, events -------- */

static void
quiet (gpointer data, const char *kind, const char *text)
{
  Run *run = data;
  g_debug ("%s", text);
  if (strcmp (kind, "protocol") == 0 && run->protocol == NULL)
    run->protocol = g_strdup (text);
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

gboolean
kit_scenario_open_adapter (Run *run)
{
  g_autoptr (GError) error = NULL;
  LmtL2Params params = { .struct_size = sizeof params,
                         .clock = lmt_clock_real (),
                         .keys = run->keys,
                         .data_wanted = TRUE,
                         .message = quiet,
                         .message_data = run };
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
gboolean
kit_scenario_close_adapter (Run *run)
{
  if (run->l2 == NULL)
    return TRUE;
  gint64 start = now_ms (), limit = run->hurried ? POLL_MS : CLOSE_MS * 2;
  kit_beat (run->check, limit);
  lmt_l2_close (run->l2, limit * 1000000);
  reap_all (run);
  if (now_ms () - start <= CLOSE_MS)
    return TRUE;
  run->why = g_strdup_printf ("close: expected at most %d ms, found %" G_GINT64_FORMAT, CLOSE_MS, now_ms () - start);
  return FALSE;
}

/* -------- results as JSON -------- */

void
kit_scenario_append_bits (Task *task, GString *out)
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
  kit_scenario_append_bits (task, out);
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
  Task *task = kit_scenario_find_task (run, kit_scenario_get_text (step, "task"));
  if (task->refused)
    g_string_append (found, "{\"refused\":true}");
  else if (!kit_scenario_wait_task (run, task))
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
  Task *task = kit_scenario_find_task (run, kit_scenario_get_text (step, "task"));
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
  guint n = kit_scenario_get_length (step, "tasks");
  for (guint i = 0; i < n; i++)
    for (guint k = 0; k < i; k++)
      unique &= kit_scenario_find_task (run, lmt_json_get_string (kit_scenario_get_element (step, "tasks", i)))->task.id
                != kit_scenario_find_task (run, lmt_json_get_string (kit_scenario_get_element (step, "tasks", k)))->task.id;
  g_string_append_printf (found, "{\"unique\":%s}", unique ? "true" : "false");
}

static gboolean
is_readable (Run *run, guint32 kind, int timeout_ms)
{
  gint64 deadline = now_ms () + timeout_ms;
  for (;;)
    {
      struct pollfd wait = { .fd = lmt_l2_get_event_fd (run->l2, kind), .events = POLLIN };
      kit_beat (run->check, 0);
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
  else if (!kit_scenario_wait_task (run, task))
    g_string_append (found, "{\"timeout\":true}");
  else
    append_result (run, task, found);
}

static void
step_unlock (Run *run, const LmtJson *step)
{
  for (guint i = 0; i < kit_scenario_get_length (step, "keys"); i++)
    {
      LmtKey *key = g_hash_table_lookup (run->key_of_name, lmt_json_get_string (kit_scenario_get_element (step, "keys", i)));
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
  kit_beat (run->check, EVENTS_MS);
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
      guint64 limit = kit_scenario_get_number (lmt_json_get_member (step, "quotas"), lmt_key_table_salt (run->keys, salt));
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
  if (!lmt_l2_submit (run->l2, &task->task, NULL) || (lmt_l2_flush (run->l2), !kit_scenario_wait_task (run, task)))
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
  if (ops->tamper == NULL || lmt_l2_get_handle (run->l2) == NULL)
    return -1;
  if (key != NULL)
    {
      l2_key.fields = key->fields;
      l2_key.wire = lmt_key_wire (key);
      l2_key.wire_len = lmt_key_wire_len (key);
      l2_key.file = lmt_key_file (key);
      l2_key.file_len = lmt_key_file_len (key);
    }
  return ops->tamper (lmt_l2_get_handle (run->l2), &l2_key, action, bytes);
}

static void
step_tamper (Run *run, const LmtJson *step, GString *found)
{
  LmtKey *key = g_hash_table_lookup (run->key_of_name, kit_scenario_get_text (step, "key"));
  if (tamper (run, key, kit_scenario_get_text (step, "action"), kit_scenario_get_number (step, "size")) < 0)
    run->why = g_strdup_printf ("expected a change of the medium, found none");
  g_string_append (found, "{}");
}

static void
pause_for (Run *run, const LmtJson *step)
{
  guint64 ms = kit_scenario_get_number (step, "milliseconds");
  kit_beat (run->check, (gint64)MIN (ms, G_MAXINT32));
  g_usleep (ms * 1000);
}

static void
step_scribble (Run *run, const LmtJson *step)
{
  Task *task = kit_scenario_find_task (run, kit_scenario_get_text (step, "task"));
  for (guint i = 0; i < task->keys->len; i++)
    memset (task->buffers[i].at, SCRIBBLED, task->buffers[i].bytes);
}

static void
step_stable (Run *run, const LmtJson *step, GString *found)
{
  Task *task = kit_scenario_find_task (run, kit_scenario_get_text (step, "task"));
  gboolean changed = FALSE;
  for (guint i = 0; i < task->keys->len; i++)
    task->buffers[i].copy = g_memdup2 (task->buffers[i].at, task->buffers[i].bytes);
  pause_for (run, step);
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
  if (!kit_scenario_close_adapter (run))
    return;
  g_clear_pointer (&run->l2, lmt_l2_free);
  kit_scenario_open_adapter (run);
  /* What the new handle found is no announcement of the scenario. */
  g_string_truncate (run->events, 0);
}

void
kit_scenario_do_step (Run *run, const LmtJson *step, const char *op, GString *found)
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
                            is_readable (run, kind_of_name (kit_scenario_get_text (step, "kind")), POLL_MS) ? "true" : "false");
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
    pause_for (run, step);
  else if (strcmp (op, "scribble") == 0)
    step_scribble (run, step);
  else if (strcmp (op, "stable") == 0)
    step_stable (run, step, found);
  else if (strcmp (op, "reopen") == 0)
    step_reopen (run);
  else if (strcmp (op, "close") == 0)
    {
      kit_scenario_close_adapter (run);
      g_string_append (found, "{\"refused\":false}");
    }
  else
    run->why = g_strdup_printf ("expected a known step, found %s", op);
}
