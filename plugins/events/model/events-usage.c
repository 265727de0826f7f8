// SPDX-License-Identifier: Apache-2.0
/* Sums for people and for eviction: modules, salts, declared capacity, LRU, quotas and pins (events.md 9.2, 9.3, 9.5). */
#include "events-views-private.h"

#include <math.h>

#define GIB 1073741824.0

/* A pin covers a chunk in every object group: its key has none. */
typedef struct
{
  EventsKey key;
  guint64 count;
  GList *link;
} EventsPin;

static guint
hash_pin (gconstpointer data)
{
  const EventsKey *key = data;
  guint64 h = lmt_hash_bytes (key->hash.data, key->hash.len, lmt_hash_seed ());

  h = lmt_hash_bytes (key->model.data, key->model.len, h);
  h = lmt_hash_bytes (key->salt.data, key->salt.len, h);
  return (guint)lmt_mix64 (h ^ (guint64)key->kv_rank);
}

static gboolean
equal_pins (gconstpointer first, gconstpointer second)
{
  const EventsKey *a = first, *b = second;

  return a->kv_rank == b->kv_rank && events_span_equal (a->hash, b->hash) && events_span_equal (a->model, b->model)
         && events_span_equal (a->salt, b->salt);
}

void
events_usage_init (EventsViews *views)
{
  views->pins = g_hash_table_new_full (hash_pin, equal_pins, NULL, g_free); /* the key stands inside the value */
  g_queue_init (&views->pin_order);
  views->quotas
      = g_hash_table_new_full ((GHashFunc)g_bytes_hash, (GEqualFunc)g_bytes_equal, (GDestroyNotify)g_bytes_unref, g_free);
}

void
events_usage_clear (EventsViews *views)
{
  g_queue_clear (&views->pin_order);
  g_hash_table_unref (views->pins);
  g_hash_table_unref (views->quotas);
}

/* ---- declared capacity ---- */

void
events_usage_forget (EventsViews *views, guint32 number)
{
  EventsInstance *instance = &views->instances.at[number];
  GArray *declared = g_steal_pointer (&instance->declared);

  if (declared == NULL)
    return;
  for (guint i = 0; i < declared->len; i++)
    events_names_drop (&views->backend_names, g_array_index (declared, EventsDeclared, i).backend);
  g_array_unref (declared);
  events_names_drop (&views->instance_names, number);
}

static void
set_declared (EventsViews *views, EventsInstance *instance, const EventsDeclared *wanted)
{
  for (guint i = 0; i < instance->declared->len; i++)
    {
      EventsDeclared *each = &g_array_index (instance->declared, EventsDeclared, i);
      if (each->tier != wanted->tier || each->backend != wanted->backend)
        continue;
      events_names_drop (&views->backend_names, wanted->backend);
      *each = *wanted;
      return;
    }
  g_array_append_vals (instance->declared, wanted, 1);
}

/* A newer stamp starts a fresh set, an equal one extends it. */
void
events_usage_declare (EventsViews *views, guint32 number, const EventsBatch *batch)
{
  EventsInstance *instance = &views->instances.at[number];
  EventsDeclared wanted = { .tier = batch->tier, .shared = batch->shared != 0, .capacity_bytes = batch->capacity_bytes };

  if (instance->declared != NULL)
    {
      const gint64 incarnation = instance->stamp_incarnation, revision = instance->stamp_revision;
      if (batch->incarnation < incarnation || (batch->incarnation == incarnation && batch->capacity_revision < revision))
        return;
      if (batch->incarnation > incarnation || batch->capacity_revision > revision)
        events_usage_forget (views, number);
    }
  if (instance->declared == NULL)
    {
      instance->declared = g_array_new (FALSE, FALSE, sizeof (EventsDeclared));
      events_names_ref (&views->instance_names, number);
    }
  instance->stamp_incarnation = batch->incarnation;
  instance->stamp_revision = batch->capacity_revision;
  wanted.backend = events_names_take (&views->backend_names, batch->backend);
  set_declared (views, instance, &wanted);
}

/* ---- modules ---- */

static gint
compare_modules (gconstpointer first, gconstpointer second)
{
  const EventsModule *a = first, *b = second;

  return a->tier != b->tier ? (a->tier > b->tier) - (a->tier < b->tier) : events_span_compare (a->backend, b->backend);
}

static void
hand_out_modules (GArray *modules, EventsModuleFunc func, gpointer data)
{
  g_array_sort (modules, compare_modules);
  for (guint i = 0; i < modules->len; i++)
    func (&g_array_index (modules, EventsModule, i), data);
}

/* By tier and backend only: a module declared shared lends its capacity to private bytes, too. */
static const EventsDeclared *
find_declared (const EventsInstance *instance, guint32 tier, guint32 backend)
{
  for (guint i = 0; instance->declared != NULL && i < instance->declared->len; i++)
    {
      const EventsDeclared *each = &g_array_index (instance->declared, EventsDeclared, i);
      if (each->tier == tier && each->backend == backend)
        return each;
    }
  return NULL;
}

gboolean
events_views_modules (EventsViews *views, LmtSpan id, gboolean *declared, EventsModuleFunc func, gpointer data)
{
  g_autoptr (GArray) modules = g_array_new (FALSE, FALSE, sizeof (EventsModule));
  guint32 number;
  const EventsInstance *instance = events_instance_find (views, id, &number);

  *declared = FALSE;
  if (instance == NULL)
    return FALSE;
  for (guint32 i = instance->first_seat; i != 0; i = views->seats.at[i].next)
    {
      const EventsSeat *seat = &views->seats.at[i];
      const EventsDeclared *cap = find_declared (instance, seat->tier, seat->backend);
      const EventsModule module = { .tier = seat->tier,
                                    .backend = events_names_get (&views->backend_names, seat->backend),
                                    .used_bytes = events_wide_to_int (seat->bytes),
                                    .capacity_bytes = cap != NULL ? cap->capacity_bytes : 0 };
      if (seat->bytes > 0)
        g_array_append_val (modules, module);
    }
  for (guint i = 0; instance->declared != NULL && i < instance->declared->len; i++)
    {
      const EventsDeclared *each = &g_array_index (instance->declared, EventsDeclared, i);
      const LmtSpan backend = events_names_get (&views->backend_names, each->backend);
      const guint32 seat = events_seat_find (views, number, each->tier, backend);
      const EventsModule module = { .tier = each->tier, .backend = backend, .capacity_bytes = each->capacity_bytes };
      *declared = TRUE;
      if (!each->shared && (seat == 0 || views->seats.at[seat].bytes == 0))
        g_array_append_val (modules, module);
    }
  const gboolean known = *declared || modules->len > 0;
  if (func != NULL)
    hand_out_modules (modules, func, data);
  return known;
}

/* One pool, one capacity: where those who declare it disagree, none. */
static gint64
shared_capacity (const EventsViews *views, guint32 tier, guint32 backend)
{
  gint64 agreed = -1;

  for (guint32 i = 1; i < views->instances.allocated; i++)
    {
      const EventsDeclared *each = find_declared (&views->instances.at[i], tier, backend);
      if (each == NULL || !each->shared)
        continue;
      if (agreed >= 0 && agreed != each->capacity_bytes)
        return 0;
      agreed = each->capacity_bytes;
    }
  return MAX (agreed, 0);
}

void
events_views_shared_modules (EventsViews *views, EventsModuleFunc func, gpointer data)
{
  g_autoptr (GArray) modules = g_array_new (FALSE, FALSE, sizeof (EventsModule));

  for (guint32 i = views->first_shared_seat; i != 0; i = views->seats.at[i].next)
    {
      const EventsSeat *seat = &views->seats.at[i];
      const EventsModule module = { .tier = seat->tier,
                                    .shared = TRUE,
                                    .backend = events_names_get (&views->backend_names, seat->backend),
                                    .used_bytes = events_wide_to_int (seat->bytes),
                                    .capacity_bytes = shared_capacity (views, seat->tier, seat->backend) };
      if (seat->bytes > 0)
        g_array_append_val (modules, module);
    }
  hand_out_modules (modules, func, data);
}

static gint
compare_spans (gconstpointer a, gconstpointer b)
{
  return events_span_compare (*(const LmtSpan *)a, *(const LmtSpan *)b);
}

void
events_views_usage_instances (EventsViews *views, void (*func) (LmtSpan instance, gpointer data), gpointer data)
{
  g_autoptr (GArray) ids = g_array_new (FALSE, FALSE, sizeof (LmtSpan));

  for (guint32 i = 1; i < views->instances.allocated; i++)
    {
      gboolean known = views->instances.at[i].declared != NULL;
      for (guint32 s = views->instances.at[i].first_seat; s != 0 && !known; s = views->seats.at[s].next)
        known = views->seats.at[s].bytes > 0;
      if (!known)
        continue;
      const LmtSpan id = events_names_get (&views->instance_names, i);
      g_array_append_val (ids, id);
    }
  g_array_sort (ids, compare_spans);
  for (guint i = 0; i < ids->len; i++)
    func (g_array_index (ids, LmtSpan, i), data);
}

gint64
events_views_salts (EventsViews *views, EventsTier tier, void (*func) (LmtSpan salt, gint64 bytes, gpointer data), gpointer data)
{
  g_autoptr (GArray) texts = g_array_new (FALSE, FALSE, sizeof (LmtSpan));
  EventsWide total = 0;

  for (guint32 i = 1; i < MIN (views->salts.allocated, views->salt_names.n); i++)
    {
      if (views->salts.at[i].bytes[tier] <= 0)
        continue;
      const LmtSpan salt = events_names_get (&views->salt_names, i);
      total += views->salts.at[i].bytes[tier];
      g_array_append_val (texts, salt);
    }
  if (func == NULL)
    return events_wide_to_int (total);
  g_array_sort (texts, compare_spans);
  for (guint i = 0; i < texts->len; i++)
    {
      const LmtSpan salt = g_array_index (texts, LmtSpan, i);
      func (salt, events_wide_to_int (views->salts.at[events_names_find (&views->salt_names, salt)].bytes[tier]), data);
    }
  return events_wide_to_int (total);
}

gint64
events_views_salt_bytes (EventsViews *views, EventsTier tier, LmtSpan salt)
{
  const guint32 name = events_names_find (&views->salt_names, salt);

  return name != 0 && name < views->salts.allocated ? events_wide_to_int (views->salts.at[name].bytes[tier]) : 0;
}

EventsWide
events_usage_key_bytes (const EventsViews *views, guint32 key, guint32 tier)
{
  EventsWide sum = 0;

  for (guint32 i = views->keys.at[key].items; i != 0; i = views->items.at[i].next)
    if ((views->items.at[i].flags & EVENTS_ITEM_USAGE) && views->origins.at[views->items.at[i].origin].tier == tier)
      sum += views->items.at[i].size_bytes;
  return sum;
}

/* ---- least recently used ---- */

static EventsSalt *
salt_of (EventsViews *views, guint32 key)
{
  return &views->salts.at[views->spaces.at[views->keys.at[key].space].salt];
}

void
events_usage_untouch (EventsViews *views, guint32 key)
{
  if (views->links == NULL || views->links[key].prev == G_MAXUINT32)
    return;
  EventsSalt *salt = salt_of (views, key);
  const EventsLink link = views->links[key];
  if (link.prev != 0)
    views->links[link.prev].next = link.next;
  else
    salt->lru_first = link.next;
  if (link.next != 0)
    views->links[link.next].prev = link.prev;
  else
    salt->lru_last = link.prev;
  salt->lru_n--;
  views->links[key] = (EventsLink){ G_MAXUINT32, 0 };
}

/* To the recent end; @create: put it there if it isn't in the list. */
void
events_usage_touch (EventsViews *views, guint32 key, gboolean create)
{
  if (views->links[key].prev == G_MAXUINT32 && !create)
    return;
  EventsSalt *salt = salt_of (views, key);
  if (salt->lru_last == key)
    return;
  events_usage_untouch (views, key);
  views->links[key] = (EventsLink){ salt->lru_last, 0 };
  if (salt->lru_last != 0)
    views->links[salt->lru_last].next = key;
  else
    salt->lru_first = key;
  salt->lru_last = key;
  salt->lru_n++;
}

void
events_views_victims (EventsViews *views, LmtSpan salt_text, double ratio, EventsKeyFunc func, gpointer data)
{
  const guint32 name = events_names_find (&views->salt_names, salt_text);

  if (name == 0 || views->links == NULL || !(ratio > 0))
    return;
  const EventsSalt *salt = &views->salts.at[name];
  guint64 wanted = (guint64)((double)salt->lru_n * MIN (ratio, 1.0));
  wanted = MAX (wanted, 1);
  for (guint32 key = salt->lru_first; key != 0 && wanted > 0; key = views->links[key].next)
    {
      EventsKeyView view = { 0 };
      events_key_fill (views, key, &view.key);
      if (events_usage_pin_count (views, &view.key) > 0)
        continue;
      events_views_show (views, key, NULL, &view);
      func (&view, data);
      wanted--;
    }
}

/* ---- quotas ---- */

static double
whole_bytes (double gib)
{
  const double bytes = trunc (gib * GIB);

  return isfinite (bytes) ? bytes : G_MAXDOUBLE;
}

gboolean
events_views_get_quota (EventsViews *views, LmtSpan salt, double *limit_gb)
{
  g_autoptr (GBytes) text = g_bytes_new (salt.data, salt.len);
  const double *bytes = g_hash_table_lookup (views->quotas, text);

  if (bytes != NULL)
    *limit_gb = *bytes / GIB;
  return bytes != NULL;
}

void
events_views_set_quota (EventsViews *views, LmtSpan salt, double limit_gb)
{
  double *bytes = g_new (double, 1);

  *bytes = whole_bytes (limit_gb);
  g_hash_table_replace (views->quotas, g_bytes_new (salt.data, salt.len), bytes);
}

gboolean
events_views_remove_quota (EventsViews *views, LmtSpan salt)
{
  g_autoptr (GBytes) text = g_bytes_new (salt.data, salt.len);

  return g_hash_table_remove (views->quotas, text);
}

static gint
compare_bytes (gconstpointer a, gconstpointer b)
{
  return g_bytes_compare (a, b);
}

void
events_views_foreach_quota (EventsViews *views, void (*func) (LmtSpan salt, double limit_gb, gpointer data), gpointer data)
{
  g_autoptr (GList) salts = g_list_sort (g_hash_table_get_keys (views->quotas), compare_bytes);

  for (const GList *each = salts; each != NULL; each = each->next)
    {
      gsize len;
      const guint8 *text = g_bytes_get_data (each->data, &len);
      func ((LmtSpan){ text, len }, *(const double *)g_hash_table_lookup (views->quotas, each->data) / GIB, data);
    }
}

gboolean
events_views_get_default_quota (EventsViews *views, double *limit_gb)
{
  if (views->has_default_quota)
    *limit_gb = views->default_quota_bytes / GIB;
  return views->has_default_quota;
}

void
events_views_set_default_quota (EventsViews *views, gboolean set, double limit_gb)
{
  views->has_default_quota = set;
  views->default_quota_bytes = set ? whole_bytes (limit_gb) : 0;
}

/* ---- pins ---- */

static EventsPin *
new_pin (const EventsKey *key)
{
  EventsPin *pin = g_malloc0 (sizeof (EventsPin) + key->hash.len + key->model.len + key->salt.len);
  guint8 *text = (guint8 *)(pin + 1);

  LmtSpan *spans[] = { &pin->key.hash, &pin->key.model, &pin->key.salt };

  pin->key = *key;
  pin->key.group = 0;
  pin->key.hash_text = (LmtSpan){ NULL, 0 };
  for (guint i = 0; i < G_N_ELEMENTS (spans); i++)
    {
      if (spans[i]->len > 0)
        memcpy (text, spans[i]->data, spans[i]->len);
      spans[i]->data = text;
      text += spans[i]->len;
    }
  return pin;
}

void
events_views_pin (EventsViews *views, const EventsKey *key, int delta)
{
  EventsPin *pin = g_hash_table_lookup (views->pins, key);

  if (delta > 0)
    {
      if (pin == NULL)
        {
          pin = new_pin (key);
          g_queue_push_tail (&views->pin_order, pin);
          pin->link = views->pin_order.tail;
          g_hash_table_insert (views->pins, &pin->key, pin);
        }
      pin->count += (guint64)delta;
    }
  else if (pin != NULL && pin->count > (guint64) - (gint64)delta)
    pin->count -= (guint64) - (gint64)delta;
  else if (pin != NULL)
    {
      g_queue_delete_link (&views->pin_order, pin->link);
      g_hash_table_remove (views->pins, &pin->key);
    }
}

guint64
events_usage_pin_count (EventsViews *views, const EventsKey *key)
{
  const EventsPin *pin = g_hash_table_size (views->pins) > 0 ? g_hash_table_lookup (views->pins, key) : NULL;

  return pin != NULL ? pin->count : 0;
}

guint64
events_views_pins (EventsViews *views, LmtSpan model, LmtSpan salt, EventsKeyFunc func, gpointer data)
{
  guint64 total = 0;

  for (const GList *each = views->pin_order.head; each != NULL; each = each->next)
    {
      const EventsPin *pin = each->data;
      const EventsKeyView view = { .key = pin->key, .pin_count = pin->count, .token_offset = -1 };
      if ((model.data != NULL && !events_span_equal (model, pin->key.model))
          || (salt.data != NULL && !events_span_equal (salt, pin->key.salt)))
        continue;
      total++;
      if (func != NULL)
        func (&view, data);
    }
  return total;
}
