/* SPDX-License-Identifier: Apache-2.0 */
#include "scenario.h"

#include <stdio.h>
#include <string.h>

#include "storage-codecs.h"

/* ---- members ---- */

const LmtJson *
member_object (const LmtJson *json, const char *name)
{
  const LmtJson *member = lmt_json_get_member (json, name);

  return member == NULL || lmt_json_get_type (member) == LMT_JSON_NULL ? NULL : member;
}

const char *
member_string (const LmtJson *json, const char *name, const char *fallback)
{
  const LmtJson *member = member_object (json, name);

  return member == NULL ? fallback : lmt_json_get_string (member);
}

gint64
member_int (const LmtJson *json, const char *name, gint64 fallback)
{
  const LmtJson *member = member_object (json, name);

  return member == NULL ? fallback : lmt_json_get_int (member);
}

double
member_double (const LmtJson *json, const char *name, double fallback)
{
  const LmtJson *member = member_object (json, name);

  return member == NULL ? fallback : lmt_json_get_double (member);
}

gboolean
member_bool (const LmtJson *json, const char *name)
{
  const LmtJson *member = member_object (json, name);

  return member != NULL && lmt_json_get_bool (member);
}

const LmtJson *
step_member (const LmtJson *step, const char *name)
{
  const LmtJson *ours = member_object (step, "lmtrace");

  if (ours != NULL && lmt_json_get_member (ours, name) != NULL)
    return lmt_json_get_member (ours, name);
  return lmt_json_get_member (step, name);
}

/* ---- keys and layouts ---- */

static guint8 *
decode_hex (const char *text, guint32 *length)
{
  gsize n = strlen (text) / 2;
  guint8 *bytes = g_malloc (MAX (n, 1));

  for (gsize i = 0; i < n; i++)
    bytes[i] = (guint8)(g_ascii_xdigit_value (text[2 * i]) << 4 | g_ascii_xdigit_value (text[2 * i + 1]));
  *length = (guint32)n;
  return bytes;
}

static LmtKey *
intern (Scenario *scenario, const LmtJson *json)
{
  const char *model = member_string (json, "model_name", ""), *salt = member_string (json, "cache_salt", "");
  LmtKeyFields fields = { .struct_size = sizeof fields };
  g_autofree guint8 *hash = decode_hex (member_string (json, "chunk_hash", ""), &fields.hash_len);

  fields.hash = hash;
  fields.model = model;
  fields.model_len = (guint32)strlen (model);
  fields.salt = salt;
  fields.salt_len = (guint32)strlen (salt);
  fields.rank = (guint64)member_int (json, "kv_rank", 0);
  fields.group = (guint32)member_int (json, "object_group_id", 0);
  return lmt_key_table_intern (scenario->table, &fields);
}

void
scenario_load (Scenario *scenario)
{
  const LmtJson *keys = member_object (scenario->json, "keys");

  scenario->table = lmt_key_table_new ();
  scenario->keys = g_hash_table_new (g_str_hash, g_str_equal);
  scenario->names = g_hash_table_new (NULL, NULL);
  for (guint i = 0; keys != NULL && i < lmt_json_get_length (keys); i++)
    {
      const char *name = lmt_json_get_member_name (keys, i);
      LmtKey *key = intern (scenario, lmt_json_get_member_value (keys, i));

      g_hash_table_insert (scenario->keys, (gpointer)name, key);
      g_hash_table_insert (scenario->names, key, (gpointer)name);
    }
}

void
scenario_clear (Scenario *scenario)
{
  GHashTableIter iter;
  gpointer key;

  g_hash_table_iter_init (&iter, scenario->keys);
  while (g_hash_table_iter_next (&iter, NULL, &key))
    lmt_key_unref (scenario->table, key);
  g_hash_table_unref (scenario->keys);
  g_hash_table_unref (scenario->names);
  if (lmt_key_table_size (scenario->table) != 0)
    fail (scenario, "end", "no key referenced", "references left");
  lmt_key_table_free (scenario->table);
}

LmtKey *
scenario_key (const Scenario *scenario, const char *name)
{
  LmtKey *key = g_hash_table_lookup (scenario->keys, name);

  if (key == NULL)
    g_error ("%s: no key \"%s\"", scenario->path, name);
  return key;
}

const char *
scenario_key_name (const Scenario *scenario, const LmtKey *key)
{
  return g_hash_table_lookup (scenario->names, key);
}

GPtrArray *
scenario_keys (const Scenario *scenario, const LmtJson *list)
{
  GPtrArray *keys = g_ptr_array_new ();

  for (guint i = 0; list != NULL && i < lmt_json_get_length (list); i++)
    g_ptr_array_add (keys, scenario_key (scenario, lmt_json_get_string (lmt_json_get_element (list, i))));
  return keys;
}

gint64
scenario_object_bytes (const LmtJson *shapes, const LmtJson *dtypes)
{
  gint64 total = 0;

  if (lmt_json_get_length (shapes) != lmt_json_get_length (dtypes))
    return -1;
  for (guint i = 0; i < lmt_json_get_length (shapes); i++)
    {
      const LmtJson *shape = lmt_json_get_element (shapes, i), *dtype = lmt_json_get_element (dtypes, i);
      guint width = sm_dtype_bytes (lmt_json_get_string (dtype), lmt_json_get_string_len (dtype));
      gint64 product = 1;

      if (width == 0)
        return -1;
      for (guint k = 0; k < lmt_json_get_length (shape); k++)
        product *= lmt_json_get_int (lmt_json_get_element (shape, k));
      total += product * width;
    }
  return total;
}

guint64
scenario_layout_bytes (const Scenario *scenario, const char *name)
{
  const LmtJson *layout = lmt_json_get_member (lmt_json_get_member (scenario->json, "layouts"), name);
  gint64 bytes = scenario_object_bytes (lmt_json_get_member (layout, "shapes"), lmt_json_get_member (layout, "dtypes"));

  g_assert_cmpint (bytes, >=, 0);
  return (guint64)bytes;
}

guint8
pattern_byte (const LmtKey *key)
{
  guint64 sum = 0;

  for (guint i = 0; i < key->fields.hash_len; i++)
    sum += key->fields.hash[i];
  sum += (key->fields.rank & 255) + 31 * (guint64)key->fields.group
         + (guint64)g_utf8_strlen (key->fields.salt, key->fields.salt_len);
  return (guint8)(sum & 255);
}

gboolean
pattern_matches (const guint8 *data, guint64 bytes, const LmtKey *key)
{
  guint8 byte = pattern_byte (key);

  for (guint64 i = 0; i < bytes; i++)
    if (data[i] != byte)
      return FALSE;
  return TRUE;
}

/* ---- what was found ---- */

void
found_begin (Scenario *scenario)
{
  scenario->found = g_string_new (NULL);
  scenario->writer = lmt_json_writer_new (scenario->found, LMT_JSON_STYLE_SPACED);
  lmt_json_writer_begin_object (scenario->writer);
}

LmtJson *
found_end (Scenario *scenario)
{
  g_autoptr (GError) error = NULL;
  LmtJson *json;

  lmt_json_writer_end_object (scenario->writer);
  lmt_json_writer_free (scenario->writer);
  scenario->writer = NULL;
  json = lmt_json_parse (scenario->found->str, (gssize)scenario->found->len, &error);
  g_assert_no_error (error);
  g_string_free (scenario->found, TRUE);
  return json;
}

void
write_key (Scenario *scenario, const LmtKey *key)
{
  lmt_json_writer_string (scenario->writer, scenario_key_name (scenario, key));
}

void
write_keys (Scenario *scenario, const char *member, LmtKey *const *keys, guint n)
{
  lmt_json_writer_key (scenario->writer, member);
  lmt_json_writer_begin_array (scenario->writer);
  for (guint i = 0; i < n; i++)
    write_key (scenario, keys[i]);
  lmt_json_writer_end_array (scenario->writer);
}

void
write_codes (Scenario *scenario, const char *member, LmtKey *const *keys, const guint8 *codes, guint n)
{
  g_autoptr (GHashTable) seen = g_hash_table_new (NULL, NULL);

  lmt_json_writer_key (scenario->writer, member);
  lmt_json_writer_begin_object (scenario->writer);
  for (guint i = 0; i < n; i++)
    {
      if (!g_hash_table_add (seen, keys[i]))
        continue;
      lmt_json_writer_key (scenario->writer, scenario_key_name (scenario, keys[i]));
      lmt_json_writer_string (scenario->writer, sm_code_name (codes[i]));
    }
  lmt_json_writer_end_object (scenario->writer);
}

typedef struct
{
  Scenario *scenario;
  GPtrArray *names;
} NameList;

static void
add_name (guint32 id, gpointer data)
{
  NameList *list = data;

  g_ptr_array_add (list->names, (gpointer)scenario_key_name (list->scenario, lmt_key_table_get (list->scenario->table, id)));
}

static gint
compare_names (gconstpointer a, gconstpointer b)
{
  return strcmp (*(const char *const *)a, *(const char *const *)b);
}

static guint
write_policy_list (Scenario *scenario, const LmtEvict *policy, const char *list, gint64 salt, const char *member, gboolean sorted)
{
  g_autoptr (GPtrArray) names = g_ptr_array_new ();
  NameList into = { scenario, names };

  lmt_evict_foreach (policy, list, salt, add_name, &into);
  if (names->len == 0 && salt >= 0)
    return 0;
  if (sorted)
    g_ptr_array_sort (names, compare_names);
  lmt_json_writer_key (scenario->writer, member);
  lmt_json_writer_begin_array (scenario->writer);
  for (guint i = 0; i < names->len; i++)
    lmt_json_writer_string (scenario->writer, names->pdata[i]);
  lmt_json_writer_end_array (scenario->writer);
  return names->len;
}

/* Members of a policy's state into the object that is open. */
void
write_policy (Scenario *scenario, const LmtEvict *policy)
{
  static const char *const lists[] = { "t1", "t2", "b1", "b2", "pending_admissions", "pending_evictions" };

  switch (lmt_evict_get_kind (policy))
    {
    case LMT_EVICT_LRU:
      write_policy_list (scenario, policy, "order", -1, "order", FALSE);
      break;
    case LMT_EVICT_ARC:
      for (guint i = 0; i < G_N_ELEMENTS (lists); i++)
        write_policy_list (scenario, policy, lists[i], -1, lists[i], i >= 4);
      lmt_json_writer_key (scenario->writer, "capacity");
      lmt_json_writer_int (scenario->writer, lmt_evict_arc_capacity (policy));
      lmt_json_writer_key (scenario->writer, "p");
      lmt_json_writer_double (scenario->writer, lmt_evict_arc_p (policy));
      break;
    case LMT_EVICT_ISOLATED_LRU:
      lmt_json_writer_key (scenario->writer, "buckets");
      lmt_json_writer_begin_object (scenario->writer);
      for (guint s = 0; s < lmt_key_table_n_salts (scenario->table); s++)
        {
          const char *salt = lmt_key_table_salt (scenario->table, s);

          if (salt != NULL)
            write_policy_list (scenario, policy, "order", s, salt, FALSE);
        }
      lmt_json_writer_end_object (scenario->writer);
      break;
    case LMT_EVICT_NOOP:
      break;
    }
}

typedef struct
{
  Scenario *scenario;
  const LmtSm *sm;
  gint64 now;
  gboolean staging;
  const char *(*tag_name) (const char *tag, gpointer data);
  gpointer data;
} StateWriter;

static void
write_one_state (LmtKey *key, const SmKeyView *view, gpointer data)
{
  StateWriter *w = data;
  LmtJsonWriter *writer = w->scenario->writer;
  SmStageView stage;

  if (!w->staging)
    {
      if (!view->resident)
        return;
      lmt_json_writer_key (writer, scenario_key_name (w->scenario, key));
      lmt_json_writer_begin_array (writer);
      lmt_json_writer_int (writer, view->read_locks);
      lmt_json_writer_bool (writer, view->temporary);
      lmt_json_writer_end_array (writer);
      return;
    }
  if (view->n_staged == 0)
    return;
  lmt_json_writer_key (writer, scenario_key_name (w->scenario, key));
  lmt_json_writer_begin_object (writer);
  for (guint i = 0; lmt_sm_view_stage (w->sm, w->now, key, i, &stage); i++)
    {
      lmt_json_writer_key (writer, w->tag_name != NULL ? w->tag_name (stage.tag, w->data) : stage.tag);
      lmt_json_writer_begin_array (writer);
      lmt_json_writer_bool (writer, stage.write_locked);
      lmt_json_writer_bool (writer, stage.temporary);
      lmt_json_writer_end_array (writer);
    }
  lmt_json_writer_end_object (writer);
}

void
write_state_keys (Scenario *scenario, const LmtSm *sm, gint64 now, const char *(*tag_name) (const char *tag, gpointer data),
                  gpointer data)
{
  StateWriter writer = { scenario, sm, now, FALSE, tag_name, data };

  lmt_json_writer_key (scenario->writer, "used");
  lmt_json_writer_uint (scenario->writer, lmt_sm_used_bytes (sm));
  lmt_json_writer_key (scenario->writer, "staging_bytes");
  lmt_json_writer_uint (scenario->writer, lmt_sm_staging_bytes (sm));
  lmt_json_writer_key (scenario->writer, "resident");
  lmt_json_writer_begin_object (scenario->writer);
  lmt_sm_foreach (sm, now, write_one_state, &writer);
  lmt_json_writer_end_object (scenario->writer);
  writer.staging = TRUE;
  lmt_json_writer_key (scenario->writer, "staging");
  lmt_json_writer_begin_object (scenario->writer);
  lmt_sm_foreach (sm, now, write_one_state, &writer);
  lmt_json_writer_end_object (scenario->writer);
}

/* ---- comparing ---- */

void
fail (Scenario *scenario, const char *where, const char *expected, const char *found)
{
  scenario->failures++;
  printf ("%s: %s: expected %s, found %s\n", scenario->path, where, expected, found);
}

void
compare_exactly (Scenario *scenario, const char *where, const LmtJson *expected, const LmtJson *found)
{
  g_autofree char *want = NULL, *have = NULL;

  if (expected != NULL && found != NULL && lmt_json_equal (expected, found))
    return;
  want = expected != NULL ? lmt_json_to_text (expected, LMT_JSON_STYLE_SPACED, TRUE) : g_strdup ("nothing");
  have = found != NULL ? lmt_json_to_text (found, LMT_JSON_STYLE_SPACED, TRUE) : g_strdup ("nothing");
  fail (scenario, where, want, have);
}

void
compare_members (Scenario *scenario, const char *where, const LmtJson *expected, const LmtJson *found)
{
  for (guint i = 0; i < lmt_json_get_length (expected); i++)
    {
      const char *name = lmt_json_get_member_name (expected, i);
      g_autofree char *place = g_strdup_printf ("%s: %s", where, name);

      compare_exactly (scenario, place, lmt_json_get_member_value (expected, i), lmt_json_get_member (found, name));
    }
}
