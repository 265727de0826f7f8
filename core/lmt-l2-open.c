/* SPDX-License-Identifier: Apache-2.0 */
#include "lmt-l2-private.h"
#include "lmt-pages.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum
{
  MESSAGES_SHOWN = 10,
  DEFAULT_CLOSE_S = 30,
  GRACE_MS = 1000, /* for what was cancelled to come back */
  DEPTH_MAX = 65536,
  BUSY_AGAIN_NS = 1000000, /* after BUSY with nothing in flight */
};

/* -------- messages -------- */

static void
show (LmtL2 *l2, const char *kind, const char *text)
{
  if (l2->params.message != NULL)
    l2->params.message (l2->params.message_data, kind, text);
  else if (g_str_has_prefix (kind, "info"))
    g_info ("%s", text);
  else
    g_warning ("%s", text);
}

/* Names of files and keys come from a trace: nothing in them may move the cursor. */
static char *
printable (const char *text)
{
  char *shown = g_utf8_make_valid (text, -1);
  for (char *p = shown; *p != '\0'; p++)
    if (g_ascii_iscntrl (*p))
      *p = '?';
  return shown;
}

static void
say_text (gpointer data, const char *kind, const char *text)
{
  LmtL2 *l2 = data;
  pthread_mutex_lock (&l2->message_mutex);
  guint i = 0;
  while (i < l2->messages->len && g_strcmp0 (g_array_index (l2->messages, LmtL2MessageCount, i).kind, kind) != 0)
    i++;
  if (i == l2->messages->len)
    {
      LmtL2MessageCount count = { g_strdup (kind), 0 };
      g_array_append_val (l2->messages, count);
    }
  if (++g_array_index (l2->messages, LmtL2MessageCount, i).n <= MESSAGES_SHOWN)
    {
      g_ptr_array_add (l2->unspoken, g_strdup (kind));
      g_ptr_array_add (l2->unspoken, printable (text));
      atomic_store (&l2->n_unspoken, l2->unspoken->len);
    }
  pthread_mutex_unlock (&l2->message_mutex);
}

void
lmt_l2_speak (LmtL2 *l2)
{
  pthread_mutex_lock (&l2->message_mutex);
  g_autoptr (GPtrArray) spoken = g_steal_pointer (&l2->unspoken);
  l2->unspoken = g_ptr_array_new_with_free_func (g_free);
  atomic_store (&l2->n_unspoken, 0);
  pthread_mutex_unlock (&l2->message_mutex);
  for (guint i = 0; i < spoken->len; i += 2)
    show (l2, spoken->pdata[i], spoken->pdata[i + 1]);
}

void
lmt_l2_say (LmtL2 *l2, const char *kind, const char *format, ...)
{
  va_list args;
  va_start (args, format);
  g_autofree char *text = g_strdup_vprintf (format, args);
  va_end (args);
  say_text (l2, kind, text);
}

static void
flush_messages (LmtL2 *l2)
{
  lmt_l2_speak (l2);
  for (guint i = 0; i < l2->messages->len; i++)
    {
      LmtL2MessageCount *count = &g_array_index (l2->messages, LmtL2MessageCount, i);
      if (count->n <= MESSAGES_SHOWN)
        continue;
      if (l2->params.more != NULL)
        l2->params.more (l2->params.message_data, count->kind, count->n - MESSAGES_SHOWN);
      else
        {
          g_autofree char *text = g_strdup_printf ("%s: %s: %" G_GUINT64_FORMAT " more", lmt_l2_get_type_name (l2), count->kind,
                                                   count->n - MESSAGES_SHOWN);
          show (l2, count->kind, text);
        }
    }
}

/* -------- host -------- */

typedef struct
{
  LmtL2Config *config;
  LmtL2Host host;
} Inner;

static void
inner_free (gpointer data)
{
  Inner *inner = data;
  lmt_l2_config_free (inner->config);
  g_free (inner);
}

static gint64
host_now (gpointer data)
{
  return lmt_clock_now (((LmtL2 *)data)->params.clock);
}

static gboolean
host_may_destroy (gpointer data, const char *target)
{
  LmtL2 *l2 = data;
  g_autofree char *wanted = g_canonicalize_filename (target, NULL);
  for (const char *const *t = l2->params.yes_destroy; t != NULL && *t != NULL; t++)
    {
      g_autofree char *named = g_canonicalize_filename (*t, NULL);
      if (strcmp (*t, target) == 0 || strcmp (named, wanted) == 0)
        return TRUE;
    }
  return FALSE;
}

/* Who calls reads the message, so there is one. */
static void
give_reason (GError **error, const char *name, const char *what)
{
  if (error != NULL && *error == NULL)
    g_set_error (error, LMT_L2_ERROR, LMT_L2_IO, "%s: %s failed and gave no reason", name, what);
}

static gboolean
host_open_inner (gpointer data, const char *json, const LmtL2Ops **ops, gpointer *handle, LmtL2Info *info, GError **error)
{
  LmtL2 *l2 = data;
  Inner *inner = g_new0 (Inner, 1);
  inner->config = lmt_l2_config_parse_inner (l2->config, json, error);
  if (inner->config == NULL)
    {
      g_free (inner);
      return FALSE;
    }
  inner->host = l2->host;
  inner->host.shared = lmt_l2_config_get_shared (inner->config);
  inner->host.persist_enabled = lmt_l2_config_get_persist (inner->config);
  *ops = lmt_l2_config_get_ops (inner->config);
  memset (info, 0, sizeof *info);
  info->struct_size = sizeof *info;
  *handle = (*ops)->open (lmt_l2_config_get_struct (inner->config), lmt_l2_config_get_type_name (inner->config), &inner->host,
                          info, error);
  g_ptr_array_add (l2->inner, inner);
  if (*handle == NULL)
    give_reason (error, (*ops)->name, "open");
  info->depth = CLAMP (info->depth, 1, DEPTH_MAX);
  return *handle != NULL;
}

/* -------- scan -------- */

typedef struct
{
  LmtKey *key;
  guint64 bytes;
  gint64 time_ns;
} Found;

static void
scan_visit (gpointer data, const LmtKeyFields *fields, guint64 bytes, gint64 time_ns)
{
  LmtL2 *l2 = data;
  const char *wrong = lmt_key_fields_check (fields);
  if (G_UNLIKELY (wrong != NULL))
    {
      lmt_l2_say (l2, "scan", "%s: scan: expected an object key, found one that breaks a rule: %s: left out", l2->ops->name,
                  wrong);
      return;
    }
  Found found = { lmt_key_table_intern (l2->params.keys, fields), bytes, time_ns };
  lmt_l2_learn (l2, found.key, bytes); /* holds a reference of its own */
  g_array_append_val (l2->found, found);
}

static int
compare_numbers (guint64 a, guint64 b)
{
  return a < b ? -1 : a > b;
}

/* As strcmp() on their file names, which as a rule needn't be made for it: that would be half of the memory of a large directory.
 */
static int
compare_names (const LmtKey *x, const LmtKey *y)
{
  const LmtKeyFields *a = &x->fields, *b = &y->fields;
  int order = 0;
  if (x->model == y->model)
    {
      if (a->rank != b->rank)
        order = MAX (a->rank, b->rank) <= G_MAXUINT32 ? compare_numbers (a->rank, b->rank) : 0; /* both of 8 digits */
      else if (a->group != b->group)
        order = MAX (a->group, b->group) < 16 ? compare_numbers (a->group, b->group) : 0; /* of one */
      else if (a->hash_len == b->hash_len && a->hash_len > 0)
        order = memcmp (a->hash, b->hash, a->hash_len);
    }
  if (order != 0)
    return order;
  g_autoptr (GString) name = g_string_new (NULL);
  g_autoptr (GString) other = g_string_new (NULL);
  lmt_key_fields_file (a, name);
  lmt_key_fields_file (b, other);
  return strcmp (name->str, other->str);
}

static int
compare_found (gconstpointer a, gconstpointer b)
{
  const Found *x = a, *y = b;
  if (x->time_ns != y->time_ns)
    return x->time_ns < y->time_ns ? -1 : 1;
  return compare_names (x->key, y->key);
}

static gboolean
scan (LmtL2 *l2, GError **error)
{
  if (l2->ops->scan == NULL || (l2->info.flags & LMT_L2_INFO_NO_SCAN) != 0)
    {
      /* What doesn't outlive the handle starts empty: nothing is unknown. */
      l2->usage_exact = (l2->info.capabilities & LMT_L2_CAP_PERSIST) == 0 && !lmt_l2_config_get_shared (l2->config);
      l2->scanned = l2->usage_exact;
      return TRUE;
    }
  l2->found = g_array_new (FALSE, FALSE, sizeof (Found));
  if (!l2->ops->scan (l2->handle, scan_visit, l2, error))
    {
      give_reason (error, l2->ops->name, "scan");
      return FALSE;
    }
  g_array_sort (l2->found, compare_found);
  l2->usage_exact = !lmt_l2_config_get_shared (l2->config);
  l2->scanned = TRUE;
  return TRUE;
}

static void
free_found (LmtL2 *l2)
{
  if (l2->found == NULL)
    return;
  for (guint i = 0; i < l2->found->len; i++)
    lmt_key_unref (l2->params.keys, g_array_index (l2->found, Found, i).key);
  g_clear_pointer (&l2->found, g_array_unref);
}

void
lmt_l2_set_event_func (LmtL2 *l2, LmtL2EventFunc func, gpointer data)
{
  l2->event_func = func;
  l2->event_data = data;
  if (func == NULL || l2->found == NULL)
    return;
  /* One event a key: inside one event the last key would be the oldest for the policies. */
  for (guint i = 0; i < l2->found->len; i++)
    {
      const Found *found = &g_array_index (l2->found, Found, i);
      func (data, LMT_L2_STORED, &found->key, &found->bytes, 1);
    }
  free_found (l2);
}

/* -------- open -------- */

static gboolean
check_eviction (LmtL2 *l2, GError **error)
{
  const LmtL2Eviction *eviction = lmt_l2_config_get_eviction (l2->config);
  guint number = lmt_l2_config_get_number (l2->config);
  const char *type = lmt_l2_get_type_name (l2);
  if (!eviction->set)
    return TRUE;
  if ((l2->info.capabilities & LMT_L2_CAP_DELETE) == 0)
    {
      g_set_error (error, LMT_ERROR, LMT_ERROR_OPTION,
                   "--l2-adapter #%u ('%s'): eviction: expected an adapter that can delete, found one that can't", number, type);
      return FALSE;
    }
  if (l2->capacity == 0 && eviction->policy != LMT_EVICT_ISOLATED_LRU)
    lmt_l2_say (l2, "no eviction", "--l2-adapter #%u ('%s'): eviction: no capacity is known, so nothing is ever evicted", number,
                type);
  return TRUE;
}

static void
make_slots (LmtL2 *l2)
{
  l2->info.depth = CLAMP (l2->info.depth, 1, DEPTH_MAX);
  l2->depth = l2->info.depth;
  G_STATIC_ASSERT (sizeof (LmtL2Io) % 64 == 0);
  /* Twice as many slots as operations in flight: a slot rests before it is used again, so that an io handed back twice is
   * noticed. */
  l2->n_slots = l2->depth * 2;
  l2->ios = g_aligned_alloc0 (l2->n_slots, sizeof (LmtL2Io), 64);
  l2->io_keys = g_new0 (LmtL2Key, l2->n_slots);
  l2->slots = g_new0 (LmtL2Slot, l2->n_slots);
  l2->free_slots = g_new0 (guint32, l2->n_slots);
  l2->retry = g_new0 (guint32, l2->n_slots);
  for (guint32 i = 0; i < l2->n_slots; i++)
    {
      l2->free_slots[i] = i;
      l2->io_keys[i].wire = l2->io_keys[i].file = "";
    }
  l2->n_free = l2->n_slots;
  for (guint kind = 0; kind < LMT_L2_N_KINDS; kind++)
    {
      l2->figures.service[kind] = lmt_stats_new ();
      l2->figures.queue[kind] = lmt_stats_new ();
      lmt_stats_reserve (l2->figures.service[kind]);
      lmt_stats_reserve (l2->figures.queue[kind]);
      l2->figures.completion[kind] = lmt_stats_new ();
      lmt_stats_reserve (l2->figures.completion[kind]);
    }
}

static LmtL2 *
new_layer (LmtL2Config *config, const LmtL2Params *params)
{
  LmtL2 *l2 = g_new0 (LmtL2, 1);
  l2->config = config;
  memcpy (&l2->params, params, MIN (params->struct_size, sizeof *params));
  l2->ops = lmt_l2_config_get_ops (config);
  l2->inner = g_ptr_array_new_with_free_func (inner_free);
  l2->status = g_ptr_array_new_with_free_func (g_free);
  l2->messages = g_array_new (FALSE, FALSE, sizeof (LmtL2MessageCount));
  l2->unspoken = g_ptr_array_new_with_free_func (g_free);
  pthread_mutex_init (&l2->message_mutex, NULL);
  for (guint kind = 0; kind < LMT_L2_N_KINDS; kind++)
    l2->event_fds[kind] = -1;
  l2->host = (LmtL2Host){
    .struct_size = sizeof (LmtL2Host),
    .adapter = params->adapter,
    .data = l2,
    .now_ns = host_now,
    .message = say_text,
    .may_destroy = host_may_destroy,
    .open_inner = host_open_inner,
    .shared = (guint32)lmt_l2_config_get_shared (config),
    .persist_enabled = (guint32)lmt_l2_config_get_persist (config),
    .eviction = (guint32)lmt_l2_config_get_eviction (config)->set,
    .data_wanted = (guint32)params->data_wanted,
    .largest_object_bytes = params->largest_object_bytes,
  };
  l2->fd = -1;
  l2->info.struct_size = sizeof l2->info;
  l2->io_timeout_ns = lmt_l2_config_get_io_timeout_ns (config);
  l2->next_deadline = G_MAXINT64;
  return l2;
}

LmtL2 *
lmt_l2_open (LmtL2Config *config, const LmtL2Params *params, GError **error)
{
  g_return_val_if_fail (config != NULL && params != NULL && params->clock != NULL && params->keys != NULL, NULL);
  LmtL2 *l2 = new_layer (config, params);
  l2->handle
      = l2->ops->open (lmt_l2_config_get_struct (config), lmt_l2_config_get_type_name (config), &l2->host, &l2->info, error);
  if (l2->handle == NULL)
    {
      give_reason (error, l2->ops->name, "open");
      l2->closed = TRUE;
      lmt_l2_free (l2);
      return NULL;
    }
  make_slots (l2);
  if (l2->ops->get_fd != NULL)
    l2->fd = l2->ops->get_fd (l2->handle);
  l2->charge = l2->info.charge_bytes;
  l2->keep = (l2->info.capabilities & LMT_L2_CAP_KEEP) != 0;
  l2->data = params->data_wanted && (l2->info.capabilities & LMT_L2_CAP_DATA) != 0;
  l2->wire = (l2->info.flags & LMT_L2_INFO_NO_WIRE) == 0;
  l2->file = (l2->info.flags & LMT_L2_INFO_NO_FILE) == 0;
  l2->capacity = params->capacity_override != 0 ? params->capacity_override
                 : l2->info.capacity_bytes != 0 ? l2->info.capacity_bytes
                                                : lmt_l2_config_get_capacity (config);
  if (!check_eviction (l2, error))
    {
      lmt_l2_free (l2);
      return NULL;
    }
  if (params->memory != NULL && l2->ops->register_memory != NULL)
    {
      g_autoptr (GError) refused = NULL;
      if (!l2->ops->register_memory (l2->handle, params->memory, params->memory_bytes, 0, &refused))
        lmt_l2_say (l2, "info: memory", "%s: memory not registered: %s", l2->ops->name,
                    refused != NULL ? refused->message : "no reason given");
    }
  if (!scan (l2, error))
    {
      lmt_l2_free (l2);
      return NULL;
    }
  lmt_l2_speak (l2);
  return l2;
}

/* -------- close -------- */

/* Sleeps until the plugin may have something. Model adapters go by the host's clock, which may jump; what has a descriptor goes
 * by real time. */
static void
wait_plugin (LmtL2 *l2, gint64 deadline)
{
  int fd = lmt_l2_get_fd (l2);
  gint64 due = lmt_l2_next_due_ns (l2);
  if (due >= 0)
    {
      l2->params.clock->sleep_until_ns (l2->params.clock->data, MIN (due, deadline), &fd, fd >= 0 ? 1 : 0);
      return;
    }
  if (fd < 0 && l2->ops->next_due_ns != NULL)
    {
      /* Nothing will come by itself, and the clock may be one that jumps. */
      l2->params.clock->sleep_until_ns (l2->params.clock->data, deadline, NULL, 0);
      return;
    }
  struct pollfd wait = { .fd = fd, .events = POLLIN };
  poll (&wait, fd >= 0 ? 1 : 0, fd >= 0 ? 50 : 1);
}

static void
drain (LmtL2 *l2, gint64 timeout_ns)
{
  gint64 deadline = lmt_clock_now (l2->params.clock) + timeout_ns;
  gint64 real_deadline = g_get_monotonic_time () + timeout_ns / 1000;
  for (;;)
    {
      lmt_l2_pump (l2);
      lmt_l2_apply_done (l2);
      if (lmt_l2_is_idle (l2))
        return;
      if (l2->in_flight == 0)
        {
          if (g_get_monotonic_time () >= real_deadline)
            return;
          if (l2->blocked)
            g_usleep (1000); /* BUSY with nothing in flight */
          continue;
        }
      if (lmt_clock_now (l2->params.clock) >= deadline || g_get_monotonic_time () >= real_deadline)
        return;
      wait_plugin (l2, deadline);
    }
}

static void
cancel_all (LmtL2 *l2)
{
  if (l2->ops->cancel == NULL)
    return;
  for (guint32 i = 0; i < l2->n_slots; i++)
    if (l2->slots[i].with_plugin)
      l2->ops->cancel (l2->handle, &l2->ios[i]);
  lmt_l2_flush (l2);
  gint64 until = g_get_monotonic_time () + GRACE_MS * 1000;
  l2->depth = 0; /* nothing new */
  while (l2->in_flight > 0 && g_get_monotonic_time () < until)
    {
      lmt_l2_pump (l2);
      if (l2->in_flight > 0)
        wait_plugin (l2, lmt_clock_now (l2->params.clock) + (gint64)GRACE_MS * 1000000);
    }
}

static void
keep_status (gpointer data, const char *key, const char *value)
{
  GPtrArray *status = data;
  g_ptr_array_add (status, g_strdup (key));
  g_ptr_array_add (status, g_strdup (value));
}

guint
lmt_l2_close (LmtL2 *l2, gint64 timeout_ns)
{
  if (l2->closed)
    return 0;
  l2->closed = TRUE;
  if (timeout_ns < 0)
    timeout_ns
        = l2->info.close_timeout_ns != 0 ? l2->info.close_timeout_ns : (gint64)DEFAULT_CLOSE_S * G_GINT64_CONSTANT (1000000000);
  lmt_l2_flush (l2);
  drain (l2, timeout_ns);
  guint lost = l2->in_flight;
  if (l2->in_flight > 0)
    cancel_all (l2);
  lost -= l2->in_flight; /* those that never came back are counted below */
  if (l2->ops->status != NULL)
    l2->ops->status (l2->handle, keep_status, l2->status);
  l2->ops->close (l2->handle);
  l2->handle = NULL;
  lost += lmt_l2_abandon (l2);
  if (lost > 0)
    lmt_l2_say (l2, "close", "%s: close: %u operations given up after %.1f s", l2->ops->name, lost, (double)timeout_ns / 1e9);
  flush_messages (l2);
  return lost;
}

void
lmt_l2_free (LmtL2 *l2)
{
  if (l2 == NULL)
    return;
  if (l2->handle != NULL)
    lmt_l2_close (l2, -1);
  lmt_l2_speak (l2);
  free_found (l2);
  for (guint32 i = 0; i < l2->n_states && !lmt_key_table_is_retired (l2->params.keys); i++)
    if (l2->states[i].key != NULL)
      lmt_key_unref (l2->params.keys, l2->states[i].key);
  for (guint kind = 0; kind < LMT_L2_N_KINDS; kind++)
    {
      if (l2->event_fds[kind] >= 0)
        close (l2->event_fds[kind]);
      g_clear_pointer (&l2->figures.service[kind], lmt_stats_free);
      g_clear_pointer (&l2->figures.queue[kind], lmt_stats_free);
      g_clear_pointer (&l2->figures.completion[kind], lmt_stats_free);
    }
  for (guint i = 0; i < l2->messages->len; i++)
    g_free (g_array_index (l2->messages, LmtL2MessageCount, i).kind);
  g_array_unref (l2->messages);
  g_ptr_array_unref (l2->unspoken);
  g_ptr_array_unref (l2->inner);
  g_ptr_array_unref (l2->status);
  pthread_mutex_destroy (&l2->message_mutex);
  g_aligned_free (l2->ios);
  g_free (l2->io_keys);
  g_free (l2->slots);
  g_free (l2->free_slots);
  g_free (l2->retry);
  lmt_pages_free (l2->states, l2->n_states * sizeof *l2->states);
  g_free (l2->ready);
  g_free (l2->waiters);
  g_free (l2->used_by_salt);
  g_free (l2->event_keys);
  g_free (l2->event_sizes);
  g_free (l2);
}

/* -------- asked by the driver and the report -------- */

int
lmt_l2_get_fd (LmtL2 *l2)
{
  return l2->handle != NULL ? l2->fd : -1;
}

int
lmt_l2_get_event_fd (LmtL2 *l2, guint32 kind)
{
  g_return_val_if_fail (kind < LMT_L2_N_KINDS, -1);
  if (l2->event_fds[kind] < 0)
    l2->event_fds[kind] = eventfd (0, EFD_NONBLOCK | EFD_CLOEXEC);
  return l2->event_fds[kind];
}

gint64
lmt_l2_next_due_ns (LmtL2 *l2)
{
  if (l2->handle == NULL)
    return -1;
  gint64 due = l2->ops->next_due_ns != NULL ? l2->ops->next_due_ns (l2->handle) : -1;
  /* BUSY with nothing in flight: no descriptor and no completion tells when to offer it again. */
  if (G_UNLIKELY (l2->blocked && l2->in_flight == 0))
    {
      gint64 again = lmt_clock_now (l2->params.clock) + BUSY_AGAIN_NS;
      due = due >= 0 ? MIN (due, again) : again;
    }
  if (G_LIKELY (l2->io_timeout_ns == 0) || l2->in_flight == 0 || l2->next_deadline == G_MAXINT64)
    return due;
  /* Who has neither a descriptor nor a time is asked each turn, and so notices the deadline. */
  if (l2->ops->next_due_ns == NULL && lmt_l2_get_fd (l2) < 0)
    return -1;
  return due >= 0 ? MIN (due, l2->next_deadline) : l2->next_deadline;
}

guint
lmt_l2_in_flight (LmtL2 *l2)
{
  return l2->in_flight;
}

guint
lmt_l2_outstanding (LmtL2 *l2)
{
  return l2->n_outstanding;
}

guint64
lmt_l2_get_used (LmtL2 *l2)
{
  return l2->used;
}

guint64
lmt_l2_get_capacity (LmtL2 *l2)
{
  return l2->capacity;
}

guint64
lmt_l2_get_used_by_salt (LmtL2 *l2, guint32 salt)
{
  return salt < l2->n_salts ? l2->used_by_salt[salt] : 0;
}

gboolean
lmt_l2_usage_is_exact (LmtL2 *l2)
{
  return l2->usage_exact;
}

const LmtL2Info *
lmt_l2_get_info (LmtL2 *l2)
{
  return &l2->info;
}

const char *
lmt_l2_get_type_name (LmtL2 *l2)
{
  return lmt_l2_config_get_type_name (l2->config);
}

const LmtL2Eviction *
lmt_l2_get_eviction (LmtL2 *l2)
{
  return lmt_l2_config_get_eviction (l2->config);
}

void
lmt_l2_foreach (LmtL2 *l2, void (*func) (LmtKey *key, guint64 bytes, guint locks, gpointer data), gpointer data)
{
  for (guint32 i = 0; i < l2->n_states; i++)
    if (l2->states[i].present)
      func (l2->states[i].key, l2->states[i].bytes, l2->states[i].locks, data);
}

gpointer
lmt_l2_get_handle (LmtL2 *l2)
{
  return l2->handle;
}

const LmtL2Ops *
lmt_l2_get_ops (LmtL2 *l2)
{
  return l2->ops;
}

const LmtL2Figures *
lmt_l2_get_figures (LmtL2 *l2)
{
  l2->figures.depth_mean = l2->figures.busy_ns > 0 ? l2->depth_area / (double)l2->figures.busy_ns : 0;
  return &l2->figures;
}

void
lmt_l2_get_status (LmtL2 *l2, LmtL2AddStatus add, gpointer data)
{
  if (l2->handle != NULL && l2->ops->status != NULL)
    l2->ops->status (l2->handle, add, data);
  for (guint i = 0; l2->handle == NULL && i + 1 < l2->status->len; i += 2)
    add (data, l2->status->pdata[i], l2->status->pdata[i + 1]);
}

void
lmt_l2_set_observer (LmtL2 *l2, LmtL2ObserveFunc func, gpointer data)
{
  l2->observe = func;
  l2->observe_data = data;
}
