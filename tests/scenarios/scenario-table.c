/* SPDX-License-Identifier: Apache-2.0 */
#include "scenario.h"

#include <stdio.h>
#include <string.h>

#include "storage-codecs.h"

/* kind table: single functions. */

typedef void (*RowFunc) (Scenario *scenario, const LmtJson *row, const char *where, gpointer data);

static void
foreach_row (Scenario *scenario, RowFunc func, gpointer data)
{
  const LmtJson *cases = lmt_json_get_member (scenario->json, "cases");

  for (guint i = 0; i < lmt_json_get_length (cases); i++)
    {
      const LmtJson *row = lmt_json_get_element (cases, i);
      g_autofree char *where = g_strdup_printf ("case %u %s", i, member_string (row, "op", ""));

      func (scenario, row, where, data);
    }
}

static void
check_uint (Scenario *scenario, const char *where, const char *what, gint64 expected, gint64 found)
{
  g_autofree char *want = NULL, *have = NULL;

  if (expected == found)
    return;
  want = g_strdup_printf ("%s %" G_GINT64_FORMAT, what, expected);
  have = g_strdup_printf ("%" G_GINT64_FORMAT, found);
  fail (scenario, where, want, have);
}

/* ---- fold ---- */

static void
check_bits (Scenario *scenario, const char *where, const char *what, const char *expected, const guint8 *cells, guint32 n)
{
  g_autofree char *found = g_malloc0 (n + 1), *place = g_strdup_printf ("%s: %s", where, what);

  for (guint32 i = 0; i < n; i++)
    found[i] = cells[i] ? '1' : '0';
  if (strcmp (expected, found) != 0)
    fail (scenario, place, expected, found);
}

static void
fold_row (Scenario *scenario, const LmtJson *row, const char *where, gpointer data)
{
  const LmtJson *rows = lmt_json_get_member (row, "rows"), *windows = lmt_json_get_member (row, "windows");
  guint32 n_rows = lmt_json_get_length (rows), n;
  guint32 columns = n_rows > 0 ? (guint32)lmt_json_get_string_len (lmt_json_get_element (rows, 0)) : 0, length;
  gsize size = (gsize)n_rows * columns + columns + 1;
  g_autofree guint8 *cells = g_malloc0 (size), *servable = g_malloc0 (size), *full = g_malloc0 (size);
  g_autofree guint8 *retain = g_malloc0 (size), *hit = g_malloc0 (size);
  g_autofree gint64 *w = g_new0 (gint64, n_rows + 1);

  for (guint32 r = 0; r < n_rows; r++)
    {
      const char *bits = lmt_json_get_string (lmt_json_get_element (rows, r));

      w[r] = lmt_json_get_int (lmt_json_get_element (windows, r));
      for (guint32 c = 0; c < columns; c++)
        cells[r * columns + c] = bits[c] == '1';
    }
  length = sm_fold_servable (cells, w, n_rows, columns, servable);
  check_bits (scenario, where, "servable", member_string (row, "servable", ""), servable, columns);
  check_uint (scenario, where, "hit_length", member_int (row, "hit_length", -1), length);
  check_uint (scenario, where, "hit_length", length, sm_fold_hit_length (cells, w, n_rows, columns, servable));
  sm_fold_full (cells, n_rows, columns, full);
  for (guint32 r = 0; r < n_rows; r++)
    {
      memset (retain, 0, columns);
      for (n = sm_fold_retain_start (w[r], length); n < length; n++)
        retain[n] = 1;
      for (n = 0; n < columns; n++)
        hit[n] = retain[n] & cells[r * columns + n];
      check_bits (scenario, where, "retain", lmt_json_get_string (lmt_json_get_element (lmt_json_get_member (row, "retain"), r)),
                  retain, columns);
      check_bits (scenario, where, "hit_cells",
                  lmt_json_get_string (lmt_json_get_element (lmt_json_get_member (row, "hit_cells"), r)), hit, columns);
      check_bits (scenario, where, "full_cells",
                  lmt_json_get_string (lmt_json_get_element (lmt_json_get_member (row, "full_cells"), r)), full, columns);
    }
}

/* ---- allocator ---- */

typedef struct
{
  SmArena *arena;
  guint64 align;
  guint64 heap;
} Allocator;

static void
write_free (guint64 address, guint64 bytes, gpointer data)
{
  LmtJsonWriter *writer = data;

  lmt_json_writer_begin_array (writer);
  lmt_json_writer_uint (writer, address);
  lmt_json_writer_uint (writer, bytes);
  lmt_json_writer_end_array (writer);
}

static void
sum_free (guint64 address, guint64 bytes, gpointer data)
{
  *(guint64 *)data += bytes;
}

static void
allocator_take (Scenario *scenario, Allocator *a, const LmtJson *row, guint count, gboolean batch)
{
  LmtJsonWriter *writer = scenario->writer;
  g_autofree guint64 *addresses = g_new0 (guint64, count + 1);
  guint64 size = (guint64)member_int (row, "size", 0);

  if (size == 0 || (count > 0 && !sm_arena_take (a->arena, size, count, addresses)))
    {
      lmt_json_writer_key (writer, size == 0 ? "raises" : batch ? "addresses" : "address");
      lmt_json_writer_null (writer);
      return;
    }
  lmt_json_writer_key (writer, batch ? "addresses" : "address");
  if (batch)
    lmt_json_writer_begin_array (writer);
  for (guint i = 0; i < count; i++)
    lmt_json_writer_uint (writer, addresses[i]);
  if (batch)
    lmt_json_writer_end_array (writer);
  lmt_json_writer_key (writer, "size");
  lmt_json_writer_uint (writer, sm_arena_align (a->arena, size));
}

static void
allocator_row (Scenario *scenario, const LmtJson *row, const char *where, gpointer data)
{
  Allocator *a = data;
  const char *op = member_string (row, "op", "");
  const LmtJson *expected = lmt_json_get_member (row, "expect");
  g_autoptr (LmtJson) found = NULL, state = NULL;
  guint64 free_bytes = 0;

  found_begin (scenario);
  if (strcmp (op, "allocate") == 0)
    allocator_take (scenario, a, row, 1, FALSE);
  else if (strcmp (op, "batched_allocate") == 0)
    allocator_take (scenario, a, row, (guint)member_int (row, "count", 0), TRUE);
  else if (strcmp (op, "free") == 0)
    sm_arena_give (a->arena, &(SmBlock){ (guint64)member_int (row, "address", 0), (guint64)member_int (row, "size", 0) }, 1);
  else if (strcmp (op, "sbrk") == 0)
    {
      guint64 more = sm_arena_align (a->arena, (guint64)member_int (row, "size", 0));

      sm_arena_extend (a->arena, a->heap, more);
      a->heap += more;
    }
  else
    fail (scenario, where, "a known op", op);
  found = found_end (scenario);
  if (member_object (expected, "raises") == NULL)
    compare_members (scenario, where, expected, found);
  else if (lmt_json_get_length (found) == 0 || member_object (found, "size") != NULL)
    fail (scenario, where, "a value error", "none");
  found_begin (scenario);
  lmt_json_writer_key (scenario->writer, "free");
  lmt_json_writer_begin_array (scenario->writer);
  sm_arena_foreach_free (a->arena, write_free, scenario->writer);
  lmt_json_writer_end_array (scenario->writer);
  sm_arena_foreach_free (a->arena, sum_free, &free_bytes);
  lmt_json_writer_key (scenario->writer, "free_bytes");
  lmt_json_writer_uint (scenario->writer, free_bytes);
  lmt_json_writer_key (scenario->writer, "heap");
  lmt_json_writer_uint (scenario->writer, a->heap);
  state = found_end (scenario);
  if (member_object (row, "state") != NULL)
    compare_exactly (scenario, where, lmt_json_get_member (row, "state"), state);
  check_uint (scenario, where, "used bytes", (gint64)(a->heap - free_bytes), (gint64)sm_arena_used (a->arena));
}

/* ---- ttl_lock ---- */

typedef struct
{
  LmtSm *sm;
  SmKeyState state;
} LockTable;

static void
lock_row (Scenario *scenario, const LmtJson *row, const char *where, gpointer data)
{
  LockTable *table = data;
  LmtSm *sm = table->sm;
  const char *op = member_string (row, "op", "");
  const LmtJson *expected = lmt_json_get_member (row, "expect");
  SmKeyState *state = &table->state;

  if (strcmp (op, "lock") == 0)
    sm_read_lock (sm, state, 1);
  else if (strcmp (op, "lock2") == 0)
    sm_read_lock (sm, state, 2);
  else if (strcmp (op, "unlock") == 0)
    sm_read_unlock (state, 1);
  else if (g_str_has_prefix (op, "advance "))
    sm->now += g_ascii_strtoll (op + strlen ("advance "), NULL, 10) * SM_NS_PER_S;
  else if (strcmp (op, "check") != 0)
    fail (scenario, where, "a known op", op);
  if (member_bool (expected, "locked") != sm_read_held (sm, state))
    fail (scenario, where, "locked to be as told", "the opposite");
  check_uint (scenario, where, "count", member_int (expected, "count", -1), sm_read_held (sm, state) ? state->read_count : 0);
}

static void
lock_table (Scenario *scenario)
{
  SmConfig config = { .align_bytes = 4096, .eviction = { .policy = LMT_EVICT_NOOP } };
  LockTable table = { 0 };

  config.read_ttl_s = (guint32)member_int (lmt_json_get_member (scenario->json, "config"), "ttl_s", 0);
  table.sm = lmt_sm_new (&config, scenario->table, NULL);
  foreach_row (scenario, lock_row, &table);
  lmt_sm_free (table.sm);
}

/* ---- dtypes, sizes, keys ---- */

static void
dtype_row (Scenario *scenario, const LmtJson *row, const char *where, gpointer data)
{
  const LmtJson *names = lmt_json_get_member (row, "names");
  const char *name = member_string (row, "dtype", "");

  check_uint (scenario, name, "bytes", member_int (row, "bytes", 0), sm_dtype_bytes (name, strlen (name)));
  for (guint i = 0; names != NULL && i < lmt_json_get_length (names); i++)
    {
      name = lmt_json_get_string (lmt_json_get_element (names, i));
      check_uint (scenario, name, "bytes", member_int (row, "bytes", 0), sm_dtype_bytes (name, strlen (name)));
    }
}

static void
size_row (Scenario *scenario, const LmtJson *row, const char *where, gpointer data)
{
  gint64 bytes = scenario_object_bytes (lmt_json_get_member (row, "shapes"), lmt_json_get_member (row, "dtypes"));
  const LmtJson *expected = member_object (row, "expect");

  if (member_object (row, "raises") != NULL || (expected != NULL && member_object (expected, "raises") != NULL))
    {
      if (bytes > 0)
        fail (scenario, where, "a value error", "a size");
      return;
    }
  check_uint (scenario, where, "size", member_int (row, "size", -1), bytes);
  if (lmt_json_get_member (row, "allocated") != NULL)
    {
      SmArena *arena = sm_arena_new (0, (guint64)member_int (row, "align", 4096));

      check_uint (scenario, where, "allocated", member_int (row, "allocated", -1),
                  (gint64)sm_arena_align (arena, (guint64)bytes));
      sm_arena_free (arena);
    }
}

static void
key_row (Scenario *scenario, const LmtJson *row, const char *where, gpointer data)
{
  const LmtJson *json = lmt_json_get_member (row, "key"), *rank = member_object (row, "rank"),
                *expected = lmt_json_get_member (row, "expect");
  const LmtJson *model, *salt;
  LmtKeyFields fields = { .struct_size = sizeof fields };
  gint64 group;
  gboolean valid;

  if (rank != NULL) /* world size, global rank, local world size, local rank, packed */
    {
      gint64 packed = 0;

      for (guint i = 0; i < lmt_json_get_length (rank); i++)
        packed = packed << 8 | lmt_json_get_int (lmt_json_get_element (rank, i));
      check_uint (scenario, where, "kv_rank", member_int (row, "kv_rank", -1), packed);
      check_uint (scenario, where, "world_size", member_int (row, "world_size", -1), packed >> 24 & 255);
      return;
    }
  model = lmt_json_get_member (json, "model_name");
  salt = lmt_json_get_member (json, "cache_salt");
  group = member_int (json, "object_group_id", 0);
  fields.model = lmt_json_get_string (model);
  fields.model_len = (guint32)lmt_json_get_string_len (model);
  fields.salt = salt != NULL ? lmt_json_get_string (salt) : "";
  fields.salt_len = salt != NULL ? (guint32)lmt_json_get_string_len (salt) : 0;
  fields.rank = (guint64)member_int (json, "kv_rank", 0);
  fields.group = (guint32)group;
  /* The group of a key is no signed number here: who reads one refuses it below 0. */
  valid = group >= 0 && lmt_key_fields_check (&fields) == NULL;
  if (valid != (member_object (expected, "raises") == NULL))
    fail (scenario, where, valid ? "a value error" : "a valid key", valid ? "a valid key" : "a value error");
}

/* ---- quota ---- */

static void
write_limit (LmtJsonWriter *writer, gint64 limit)
{
  if (limit < 0)
    lmt_json_writer_null (writer);
  else
    lmt_json_writer_int (writer, limit);
}

static void
write_quota_list (Scenario *scenario, const SmQuotas *quotas)
{
  LmtJsonWriter *writer = scenario->writer;

  lmt_json_writer_begin_array (writer);
  for (guint i = 0; i < quotas->order->len; i++)
    {
      guint32 salt = g_array_index (quotas->order, guint32, i);

      lmt_json_writer_begin_array (writer);
      lmt_json_writer_string (writer, lmt_key_table_salt (scenario->table, salt));
      lmt_json_writer_int (writer, sm_quotas_get_limit (quotas, salt));
      lmt_json_writer_end_array (writer);
    }
  lmt_json_writer_end_array (writer);
}

static void
quota_row (Scenario *scenario, const LmtJson *row, const char *where, gpointer data)
{
  SmQuotas *quotas = data;
  LmtJsonWriter *writer;
  const char *op = member_string (row, "op", ""), *name = member_string (row, "salt", "");
  guint32 salt = lmt_key_table_intern_salt (scenario->table, name, strlen (name));
  const LmtJson *expected = lmt_json_get_member (row, "expect");
  g_autoptr (LmtJson) found = NULL;
  gboolean good = TRUE;

  found_begin (scenario);
  writer = scenario->writer;
  lmt_json_writer_key (writer, "result");
  if (strcmp (op, "get_limit") == 0)
    lmt_json_writer_int (writer, sm_quotas_get_limit (quotas, salt));
  else if (strcmp (op, "effective") == 0)
    write_limit (writer, sm_quotas_get_effective (quotas, salt));
  else if (strcmp (op, "has") == 0)
    lmt_json_writer_bool (writer, sm_quotas_has (quotas, salt));
  else if (strcmp (op, "delete") == 0)
    lmt_json_writer_bool (writer, sm_quotas_delete (quotas, salt));
  else if (strcmp (op, "list") == 0)
    write_quota_list (scenario, quotas);
  else if (strcmp (op, "set_default") == 0 && member_object (row, "limit") == NULL)
    {
      sm_quotas_clear_default (quotas);
      lmt_json_writer_null (writer);
    }
  else
    {
      good = strcmp (op, "set") == 0 ? sm_quotas_set (quotas, salt, member_int (row, "limit", 0))
                                     : sm_quotas_set_default (quotas, member_int (row, "limit", 0));
      lmt_json_writer_null (writer);
    }
  found = found_end (scenario);
  if (good != (member_object (expected, "raises") == NULL))
    fail (scenario, where, good ? "a value error" : "no error", good ? "none" : "one");
  else if (good)
    compare_members (scenario, where, expected, found);
}

/* ---- which ---- */

static void
allocator_table (Scenario *scenario)
{
  const LmtJson *config = lmt_json_get_member (scenario->json, "config");
  Allocator a = { NULL, (guint64)member_int (config, "align", 4096), (guint64)member_int (config, "heap", 0) };

  a.arena = sm_arena_new (a.heap, a.align);
  foreach_row (scenario, allocator_row, &a);
  sm_arena_free (a.arena);
}

static void
quota_table (Scenario *scenario)
{
  SmQuotas quotas;

  sm_quotas_init (&quotas);
  foreach_row (scenario, quota_row, &quotas);
  sm_quotas_clear (&quotas);
}

void
run_table (Scenario *scenario)
{
  const char *table = member_string (scenario->json, "table", "");

  if (strcmp (table, "fold") == 0)
    foreach_row (scenario, fold_row, NULL);
  else if (strcmp (table, "allocator") == 0)
    allocator_table (scenario);
  else if (strcmp (table, "ttl_lock") == 0)
    lock_table (scenario);
  else if (strcmp (table, "dtypes") == 0)
    foreach_row (scenario, dtype_row, NULL);
  else if (strcmp (table, "object_size") == 0)
    foreach_row (scenario, size_row, NULL);
  else if (strcmp (table, "object_key") == 0)
    foreach_row (scenario, key_row, NULL);
  else if (strcmp (table, "quota") == 0)
    quota_table (scenario);
  else if (strcmp (table, "config") == 0)
    run_config_table (scenario);
  else
    fail (scenario, "table", "a known one", table);
}
