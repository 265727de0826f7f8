// SPDX-License-Identifier: Apache-2.0
#include "cli-info-keys.h"

#include <math.h>
#include <string.h>

enum
{
  SLOTS = 2 * INFO_KEYS_MAX,
  PLACES = 2 * INFO_KEYS_MAX, /* places handed out before the order is packed again */
  THRESHOLD_BITS = 24,
};

struct _InfoKeys
{
  gboolean names;
  InfoKey *slots;
  guint n;
  guint32 threshold; /* followed: mixed hash >> 40 below this */
  guint64 scale;
  guint32 *tree; /* Fenwick tree over places: 1 where a key's last reference stands */
  guint32 next_place;
  guint32 live; /* keys with a place */
  GArray *tenants;
  guint64 lost_tenants;
};

static void
clear_tenant (gpointer data)
{
  g_free (((InfoTenant *)data)->model);
  g_free (((InfoTenant *)data)->salt);
}

InfoKeys *
info_keys_new (gboolean names)
{
  InfoKeys *keys = g_new0 (InfoKeys, 1);

  keys->names = names;
  keys->slots = g_new0 (InfoKey, SLOTS);
  keys->tree = g_new0 (guint32, PLACES + 1);
  keys->threshold = 1u << THRESHOLD_BITS;
  keys->scale = 1;
  keys->next_place = 1;
  keys->tenants = g_array_new (FALSE, FALSE, sizeof (InfoTenant));
  g_array_set_clear_func (keys->tenants, clear_tenant);
  return keys;
}

void
info_keys_free (InfoKeys *keys)
{
  if (keys == NULL)
    return;
  for (guint i = 0; keys->names && i < SLOTS; i++)
    g_free (keys->slots[i].text);
  g_free (keys->slots);
  g_free (keys->tree);
  g_array_unref (keys->tenants);
  g_free (keys);
}

/* -------- hashes -------- */

static guint64
mix (guint64 hash, const void *data, gsize len)
{
  const guint8 *bytes = data;
  guint64 word;
  gsize i = 0;

  hash ^= len;
  for (; i < len; i += 8)
    {
      word = 0;
      memcpy (&word, bytes + i, MIN (8, len - i));
      hash = (hash ^ word) * G_GUINT64_CONSTANT (0x9fb21c651e98df25);
      hash ^= hash >> 35;
    }
  return hash;
}

static guint64
hash_fields (const LmtKeyFields *fields)
{
  guint64 numbers[2] = { fields->rank, fields->group };
  guint64 hash = mix (G_GUINT64_CONSTANT (0x9e3779b97f4a7c15), fields->hash, fields->hash_len);

  hash = mix (hash, fields->model, fields->model_len);
  hash = mix (hash, fields->salt, fields->salt_len);
  hash = mix (hash, numbers, sizeof numbers);
  hash = (hash ^ hash >> 29) * G_GUINT64_CONSTANT (0xbf58476d1ce4e5b9);
  hash ^= hash >> 32;
  return hash != 0 ? hash : 1;
}

static gboolean
is_followed (const InfoKeys *keys, guint64 hash)
{
  return (guint32)(hash >> (64 - THRESHOLD_BITS)) < keys->threshold;
}

static InfoKey *
find_slot (InfoKeys *keys, guint64 hash)
{
  guint at = (guint)hash & (SLOTS - 1);

  while (keys->slots[at].hash != 0 && keys->slots[at].hash != hash)
    at = (at + 1) & (SLOTS - 1);
  return &keys->slots[at];
}

/* -------- order of references -------- */

static void
tree_add (InfoKeys *keys, guint32 place, gint32 delta)
{
  for (; place <= PLACES; place += place & -place)
    keys->tree[place] += (guint32)delta;
}

/* Keys whose last reference stands at or before @place. */
static guint32
tree_sum (const InfoKeys *keys, guint32 place)
{
  guint32 sum = 0;

  for (; place > 0; place -= place & -place)
    sum += keys->tree[place];
  return sum;
}

static int
compare_places (gconstpointer a, gconstpointer b)
{
  const InfoKey *x = *(InfoKey *const *)a;
  const InfoKey *y = *(InfoKey *const *)b;

  return x->place < y->place ? -1 : x->place > y->place ? 1 : 0;
}

/* Places are used up: number the live ones again from 1. */
static void
pack_places (InfoKeys *keys)
{
  g_autoptr (GPtrArray) order = g_ptr_array_sized_new (keys->live + 1);

  for (guint i = 0; i < SLOTS; i++)
    if (keys->slots[i].hash != 0 && keys->slots[i].place != 0)
      g_ptr_array_add (order, &keys->slots[i]);
  g_ptr_array_sort (order, compare_places);
  memset (keys->tree, 0, (PLACES + 1) * sizeof *keys->tree);
  for (guint i = 0; i < order->len; i++)
    {
      ((InfoKey *)order->pdata[i])->place = i + 1;
      tree_add (keys, i + 1, 1);
    }
  keys->live = order->len;
  keys->next_place = order->len + 1;
}

gint64
info_keys_reference (InfoKeys *keys, InfoKey *key)
{
  gint64 distance = -1;

  if (keys->next_place > PLACES)
    pack_places (keys);
  key->references++;
  if (key->tenant < keys->tenants->len)
    g_array_index (keys->tenants, InfoTenant, key->tenant).references += keys->scale;
  if (key->place != 0)
    {
      distance = (gint64)((keys->live - tree_sum (keys, key->place)) * keys->scale);
      tree_add (keys, key->place, -1);
    }
  else
    keys->live++;
  key->place = keys->next_place++;
  tree_add (keys, key->place, 1);
  return distance;
}

/* -------- entries -------- */

/* Half the keys go; those that stay keep what is known of them. */
static void
halve (InfoKeys *keys)
{
  InfoKey *old = keys->slots;

  keys->threshold /= 2;
  keys->scale *= 2;
  keys->slots = g_new0 (InfoKey, SLOTS);
  keys->n = 0;
  for (guint i = 0; i < SLOTS; i++)
    {
      if (old[i].hash == 0)
        continue;
      if (!is_followed (keys, old[i].hash))
        {
          g_free (old[i].text);
          continue;
        }
      *find_slot (keys, old[i].hash) = old[i];
      keys->n++;
    }
  g_free (old);
  pack_places (keys);
}

static guint32
find_tenant (InfoKeys *keys, const LmtKeyFields *fields)
{
  InfoTenant tenant = { 0 };

  for (guint i = 0; i < keys->tenants->len; i++)
    {
      const InfoTenant *known = &g_array_index (keys->tenants, InfoTenant, i);

      if (known->rank == fields->rank && strlen (known->model) == fields->model_len && strlen (known->salt) == fields->salt_len
          && memcmp (known->model, fields->model, fields->model_len) == 0
          && memcmp (known->salt, fields->salt, fields->salt_len) == 0)
        return i;
    }
  if (keys->tenants->len == INFO_TENANTS_MAX)
    {
      keys->lost_tenants += keys->scale;
      return INFO_TENANTS_MAX;
    }
  tenant.model = g_strndup (fields->model, fields->model_len);
  tenant.salt = g_strndup (fields->salt, fields->salt_len);
  tenant.rank = fields->rank;
  g_array_append_val (keys->tenants, tenant);
  return keys->tenants->len - 1;
}

static char *
name_key (const LmtKeyFields *fields)
{
  GString *text = g_string_new (NULL);

  g_string_append_len (text, fields->model, fields->model_len);
  g_string_append_printf (text, " rank=%" G_GUINT64_FORMAT " group=%u hash=0x", fields->rank, fields->group);
  for (guint i = 0; i < fields->hash_len; i++)
    g_string_append_printf (text, "%02x", fields->hash[i]);
  if (fields->salt_len > 0)
    {
      g_string_append (text, " salt=");
      g_string_append_len (text, fields->salt, fields->salt_len);
    }
  return g_string_free (text, FALSE);
}

InfoKey *
info_keys_touch (InfoKeys *keys, const LmtKeyFields *fields)
{
  guint64 hash = hash_fields (fields);
  InfoKey *key;

  if (!is_followed (keys, hash))
    return NULL;
  key = find_slot (keys, hash);
  if (key->hash != 0)
    return key;
  if (keys->n == INFO_KEYS_MAX)
    {
      halve (keys);
      if (!is_followed (keys, hash))
        return NULL;
      key = find_slot (keys, hash);
    }
  keys->n++;
  key->hash = hash;
  key->last_s = (double)NAN;
  key->window = G_MAXUINT32;
  key->tenant = find_tenant (keys, fields);
  if (key->tenant < keys->tenants->len)
    g_array_index (keys->tenants, InfoTenant, key->tenant).keys += keys->scale;
  if (keys->names)
    key->text = name_key (fields);
  return key;
}

guint64
info_keys_get_scale (const InfoKeys *keys)
{
  return keys->scale;
}

guint64
info_keys_get_count (const InfoKeys *keys)
{
  return keys->n * keys->scale;
}

void
info_keys_foreach (InfoKeys *keys, void (*func) (InfoKey *key, gpointer data), gpointer data)
{
  for (guint i = 0; i < SLOTS; i++)
    if (keys->slots[i].hash != 0)
      func (&keys->slots[i], data);
}

guint
info_keys_get_n_tenants (const InfoKeys *keys)
{
  return keys->tenants->len;
}

InfoTenant *
info_keys_get_tenant (InfoKeys *keys, guint i)
{
  return &g_array_index (keys->tenants, InfoTenant, i);
}

guint64
info_keys_get_lost_tenants (const InfoKeys *keys)
{
  return keys->lost_tenants;
}
