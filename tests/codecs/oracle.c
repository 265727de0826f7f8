// SPDX-License-Identifier: Apache-2.0
#include "oracle.h"

#include <msgpack.h>
#include <string.h>

typedef const msgpack_object *Object;

static gboolean
text_is (msgpack_object_str str, const char *text)
{
  return str.size == strlen (text) && memcmp (str.ptr, text, str.size) == 0;
}

/* Of equal names the last one. */
static Object
get (Object map, const char *name)
{
  Object found = NULL;
  if (map == NULL || map->type != MSGPACK_OBJECT_MAP)
    return NULL;
  for (guint32 i = 0; i < map->via.map.size; i++)
    if (map->via.map.ptr[i].key.type == MSGPACK_OBJECT_STR && text_is (map->via.map.ptr[i].key.via.str, name))
      found = &map->via.map.ptr[i].val;
  return found;
}

static Object
untag (Object value, const char *tag)
{
  Object word = get (value, "__t__");
  return word != NULL && word->type == MSGPACK_OBJECT_STR && text_is (word->via.str, tag) ? get (value, "v") : NULL;
}

static gboolean
is_int (Object value)
{
  return value != NULL && (value->type == MSGPACK_OBJECT_POSITIVE_INTEGER || value->type == MSGPACK_OBJECT_NEGATIVE_INTEGER);
}

static gboolean
is_str (Object value, const char *text)
{
  return value != NULL && value->type == MSGPACK_OBJECT_STR && text_is (value->via.str, text);
}

static Object
as_array (Object value)
{
  if (value != NULL && value->type == MSGPACK_OBJECT_ARRAY)
    return value;
  Object inner = untag (value, "tuple");
  if (inner == NULL)
    inner = untag (value, "set");
  return inner != NULL && inner->type == MSGPACK_OBJECT_ARRAY ? inner : NULL;
}

/* MODEL|RANK|GROUP|HASH|SALT */
static gboolean
add_key (GString *out, Object value)
{
  Object map = untag (value, "ObjectKey");
  Object hash = get (map, "chunk_hash"), model = get (map, "model_name"), rank = get (map, "kv_rank");
  Object group = get (map, "object_group_id"), salt = get (map, "cache_salt");
  if (hash == NULL || hash->type != MSGPACK_OBJECT_BIN || model == NULL || model->type != MSGPACK_OBJECT_STR || !is_int (rank))
    return FALSE;
  if (group != NULL && (group->type != MSGPACK_OBJECT_POSITIVE_INTEGER || group->via.u64 > G_MAXUINT32))
    return FALSE;
  if (memchr (model->via.str.ptr, '@', model->via.str.size) != NULL)
    return FALSE;
  g_string_append_len (out, model->via.str.ptr, model->via.str.size);
  g_string_append_printf (out, "|%" G_GUINT64_FORMAT "|%u|", rank->via.u64, group != NULL ? (guint)group->via.u64 : 0);
  for (guint32 i = 0; i < hash->via.bin.size; i++)
    g_string_append_printf (out, "%02x", (guint8)hash->via.bin.ptr[i]);
  g_string_append_c (out, '|');
  if (salt != NULL)
    {
      if (salt->type != MSGPACK_OBJECT_STR)
        return FALSE;
      g_string_append_len (out, salt->via.str.ptr, salt->via.str.size);
    }
  g_string_append_c (out, ' ');
  return TRUE;
}

static gint64
layout_bytes (Object value)
{
  Object map = untag (value, "MemoryLayoutDesc");
  Object shapes = as_array (get (map, "shapes")), dtypes = as_array (get (map, "dtypes"));
  gint64 sum = 0;
  if (shapes == NULL || dtypes == NULL || shapes->via.array.size != dtypes->via.array.size)
    return -1;
  for (guint32 i = 0; i < shapes->via.array.size; i++)
    {
      Object shape = as_array (&shapes->via.array.ptr[i]), dtype = &dtypes->via.array.ptr[i];
      if (shape == NULL || dtype->type != MSGPACK_OBJECT_STR)
        return -1;
      gint64 product = sm_dtype_bytes (dtype->via.str.ptr, dtype->via.str.size);
      if (product == 0)
        return -1;
      for (guint32 d = 0; d < shape->via.array.size; d++)
        {
          if (shape->via.array.ptr[d].type != MSGPACK_OBJECT_POSITIVE_INTEGER)
            return -1;
          product *= shape->via.array.ptr[d].via.i64;
        }
      sum += product;
    }
  return sum;
}

static void
add_locks (GString *out, gint64 locks)
{
  g_string_append_printf (out, " locks=%d", (int)CLAMP (locks, 1, 128));
}

static gint64
either_count (Object map, const char *count, const char *extra)
{
  if (is_int (get (map, count)))
    return get (map, count)->via.i64;
  return is_int (get (map, extra)) ? get (map, extra)->via.i64 + 1 : 1;
}

static gboolean
add_keys (GString *out, Object list)
{
  if (list == NULL)
    return FALSE;
  for (guint32 i = 0; i < list->via.array.size; i++)
    if (!add_key (out, &list->via.array.ptr[i]))
      return FALSE;
  return TRUE;
}

static guint32
group_of (Object key)
{
  Object group = get (untag (key, "ObjectKey"), "object_group_id");
  return group != NULL ? (guint32)group->via.u64 : 0;
}

/* group_layout_descs[g], or the single layout for group 0, or one for all. */
static gint64
flat_layout (Object spec, Object single, guint32 group)
{
  Object map = get (spec, "group_layout_descs");
  if (spec == NULL)
    return layout_bytes (single);
  if (map == NULL)
    return group == 0 ? layout_bytes (single) : -1;
  g_autofree char *name = g_strdup_printf ("%u", group);
  return layout_bytes (get (map, name));
}

static gboolean
add_one_row (GString *out, Object spec, Object single, Object keys, gboolean sparse)
{
  guint32 n = keys->via.array.size;
  gint64 first = n > 0 ? flat_layout (spec, single, group_of (&keys->via.array.ptr[0])) : flat_layout (spec, single, 0);
  g_autoptr (GString) cells = g_string_new (" cells=");
  gboolean mixed = FALSE;
  if (first < 0)
    return FALSE;
  for (guint32 i = 0; i < n; i++)
    {
      gint64 bytes = flat_layout (spec, single, group_of (&keys->via.array.ptr[i]));
      if (bytes < 0)
        return FALSE;
      mixed |= (spec != NULL || sparse) && group_of (&keys->via.array.ptr[i]) != group_of (&keys->via.array.ptr[0]);
      g_string_append_printf (cells, "%" G_GINT64_FORMAT ",", bytes);
    }
  g_string_append_printf (out, "\nrow group=%u window=-1 bytes=%" G_GINT64_FORMAT "%s keys=",
                          n > 0 ? group_of (&keys->via.array.ptr[0]) : 0, first, mixed ? cells->str : "");
  if (!add_keys (out, keys))
    return FALSE;
  g_string_append (out, "\nflat=");
  for (guint32 i = 0; i < n; i++)
    g_string_append_printf (out, "%u,", i);
  return TRUE;
}

/* trace-format.md 7.1 */
static gboolean
add_flat (GString *out, Object spec, Object single, Object keys, Object attn, gboolean sparse)
{
  Object windows = as_array (get (attn, "num_chunks_in_sw"));
  guint64 world = windows != NULL ? get (attn, "world_size")->via.u64 : 1;
  guint32 n = keys != NULL ? keys->via.array.size : 0, groups = windows != NULL ? windows->via.array.size : 0;
  if (keys == NULL)
    return FALSE;
  if (windows == NULL || sparse || n == 0 || groups == 0 || n % (groups * world) != 0)
    return add_one_row (out, spec, single, keys, sparse);
  guint32 columns = n / (groups * world);
  g_autofree guint32 *flat = g_new (guint32, n);
  for (guint32 g = 0; g < groups; g++)
    for (guint32 r = 0; r < world; r++)
      {
        g_string_append_printf (out, "\nrow group=%u window=%" G_GINT64_FORMAT " bytes=%" G_GINT64_FORMAT " keys=", g,
                                windows->via.array.ptr[g].via.i64, flat_layout (spec, single, g));
        for (guint32 c = 0; c < columns; c++)
          {
            guint32 i = c * groups * world + g * world + r;
            flat[i] = (g * world + r) * columns + c;
            if (!add_key (out, &keys->via.array.ptr[i]))
              return FALSE;
          }
      }
  g_string_append (out, "\nflat=");
  for (guint32 i = 0; i < n; i++)
    g_string_append_printf (out, "%u,", flat[i]);
  return TRUE;
}

static gboolean
allows_dram (Object tags)
{
  Object list = as_array (tags);
  if (list == NULL)
    return TRUE;
  for (guint32 i = 0; i < list->via.array.size; i++)
    {
      Object map = untag (&list->via.array.ptr[i], "MemoryTags");
      if (is_str (get (map, "segment"), "dram") && is_str (get (map, "residency"), "local"))
        return TRUE;
    }
  return FALSE;
}

static gboolean
add_task (GString *out, Object spec, gboolean skip_l2)
{
  Object groups = as_array (get (spec, "key_groups")), l2 = as_array (get (spec, "allowed_l2_memory_tags"));
  if (groups == NULL || groups->via.array.size == 0 || !is_int (get (spec, "num_kv_readers")))
    return FALSE;
  add_locks (out, get (spec, "num_kv_readers")->via.i64);
  g_string_append_printf (out, " policy=%d lock=%d look_l1=%d allow_l2=%d", is_str (get (spec, "fetching_policy"), "full"),
                          is_str (untag (get (spec, "lock_mode"), "PrefetchLockMode"), "NO_LOCK"),
                          allows_dram (get (spec, "allowed_l1_memory_tags")), !skip_l2 && (l2 == NULL || l2->via.array.size > 0));
  for (guint32 i = 0; i < groups->via.array.size; i++)
    {
      Object map = untag (&groups->via.array.ptr[i], "GroupedObjectKeys");
      gint64 bytes = layout_bytes (get (map, "layout_desc"));
      if (bytes < 0 || !is_int (get (map, "object_group_id")) || !is_int (get (map, "sliding_window_size")))
        return FALSE;
      g_string_append_printf (out, "\nrow group=%u window=%" G_GINT64_FORMAT " bytes=%" G_GINT64_FORMAT " keys=",
                              (guint)get (map, "object_group_id")->via.u64, get (map, "sliding_window_size")->via.i64, bytes);
      if (!add_keys (out, as_array (get (map, "keys"))))
        return FALSE;
    }
  return TRUE;
}

static gboolean
add_prefetch (GString *out, Object args)
{
  Object id = get (args, "external_request_id"), skip = get (args, "skip_l2");
  Object task = untag (get (args, "spec"), "PrefetchTaskSpec"), spec = untag (get (args, "spec"), "PrefetchRequestSpec");
  gboolean skip_l2 = skip != NULL && skip->via.boolean;
  g_string_append_printf (out, " id=%.*s", id != NULL ? (int)id->via.str.size : 0, id != NULL ? id->via.str.ptr : "");
  if (task != NULL)
    return add_task (out, task, skip_l2);
  Object from = spec != NULL ? spec : args;
  Object trim = untag (get (from, "policy"), "TrimPolicy");
  gboolean warm = is_str (untag (get (from, "mode"), "PrefetchMode"), "WARM"), sparse = is_str (trim, "SPARSE");
  add_locks (out, either_count (from, "num_kv_readers", "extra_count"));
  g_string_append_printf (out, " policy=%d lock=%d look_l1=%d allow_l2=%d", sparse, warm, !warm, !skip_l2);
  return add_flat (out, spec, get (from, "layout_desc"), as_array (get (from, "keys")),
                   untag (get (from, "attn_desc"), "AttnWindowDesc"), sparse);
}

char *
oracle_text (guint32 op, LmtSpan args)
{
  g_autoptr (GString) out = g_string_new (NULL);
  msgpack_unpacked tree;
  msgpack_unpacked_init (&tree);
  gboolean ok = msgpack_unpack_next (&tree, (const char *)args.data, args.len, NULL) == MSGPACK_UNPACK_SUCCESS;
  Object map = &tree.data;
  g_string_append_printf (out, "op=%u", op);
  if (ok && op == SM_OP_PREFETCH)
    ok = add_prefetch (out, map);
  else if (ok)
    {
      if (op == SM_OP_RESERVE_WRITE)
        {
          Object mode = get (map, "mode");
          gint64 bytes = layout_bytes (get (map, "layout_desc"));
          ok = bytes >= 0;
          g_string_append_printf (out, " bytes=%" G_GINT64_FORMAT " mode=%d", bytes,
                                  is_str (mode, "update") ? 1
                                  : is_str (mode, "all")  ? 2
                                                          : 0);
        }
      if (op == SM_OP_FINISH_READ)
        add_locks (out, either_count (map, "read_locks", "extra_count"));
      g_string_append (out, " keys=");
      ok = ok && add_keys (out, as_array (get (map, "keys")));
    }
  msgpack_unpacked_destroy (&tree);
  return ok ? g_string_free (g_steal_pointer (&out), FALSE) : NULL;
}

static void
add_call_key (GString *out, const LmtKey *key)
{
  g_string_append_len (out, key->fields.model, key->fields.model_len);
  g_string_append_printf (out, "|%" G_GUINT64_FORMAT "|%u|", key->fields.rank, key->fields.group);
  for (guint32 i = 0; i < key->fields.hash_len; i++)
    g_string_append_printf (out, "%02x", key->fields.hash[i]);
  g_string_append_printf (out, "|%.*s ", (int)key->fields.salt_len, key->fields.salt);
}

char *
call_text (const SmCall *call, LmtSpan request_id, const guint32 *flat, guint n_flat)
{
  GString *out = g_string_new (NULL);
  g_string_append_printf (out, "op=%u", call->op);
  if (call->op == SM_OP_PREFETCH)
    {
      g_string_append_printf (out, " id=%.*s", (int)request_id.len, (const char *)request_id.data);
      add_locks (out, call->readers);
      g_string_append_printf (out, " policy=%u lock=%u look_l1=%u allow_l2=%u", call->policy, call->lock_mode, call->look_l1,
                              call->allow_l2);
      for (guint32 r = 0; r < call->n_rows; r++)
        {
          const SmRow *row = &call->rows[r];
          g_string_append_printf (out, "\nrow group=%u window=%" G_GINT64_FORMAT " bytes=%" G_GUINT64_FORMAT, row->group,
                                  row->window, row->object_bytes);
          if (row->cell_bytes != NULL)
            {
              g_string_append (out, " cells=");
              for (guint32 i = 0; i < row->n; i++)
                g_string_append_printf (out, "%" G_GUINT64_FORMAT ",", row->cell_bytes[i]);
            }
          g_string_append (out, " keys=");
          for (guint32 i = 0; i < row->n; i++)
            add_call_key (out, row->keys[i]);
        }
      if (flat != NULL)
        {
          g_string_append (out, "\nflat=");
          for (guint i = 0; i < n_flat; i++)
            g_string_append_printf (out, "%u,", flat[i]);
        }
      return g_string_free (out, FALSE);
    }
  if (call->op == SM_OP_RESERVE_WRITE)
    g_string_append_printf (out, " bytes=%" G_GUINT64_FORMAT " mode=%u", call->object_bytes, call->write_mode);
  if (call->op == SM_OP_FINISH_READ)
    add_locks (out, call->readers);
  g_string_append (out, " keys=");
  for (guint32 i = 0; i < call->n_keys; i++)
    add_call_key (out, call->keys[i]);
  return g_string_free (out, FALSE);
}

int
oracle_op (LmtSpan qualname)
{
  static const char prefix[] = "lmcache.v1.distributed.storage_manager.StorageManager.";
  static const struct
  {
    const char *name;
    int op;
  } calls[] = { { "reserve_write", SM_OP_RESERVE_WRITE },
                { "finish_write", SM_OP_FINISH_WRITE },
                { "submit_prefetch_task", SM_OP_PREFETCH },
                { "read_prefetched_results.__enter__", SM_OP_READ_ENTER },
                { "read_prefetched_results.__exit__", SM_OP_READ_EXIT },
                { "finish_read_prefetched", SM_OP_FINISH_READ } };
  g_autofree char *name = g_strndup ((const char *)qualname.data, qualname.len);
  for (guint i = 0; g_str_has_prefix (name, prefix) && i < G_N_ELEMENTS (calls); i++)
    if (g_str_equal (name + sizeof prefix - 1, calls[i].name))
      return calls[i].op;
  return -1;
}

/* -------- other bytes for the same value -------- */

static void
put (GByteArray *out, guint8 head, guint64 value, guint bytes)
{
  g_byte_array_append (out, &head, 1);
  for (guint i = bytes; i > 0; i--)
    {
      guint8 byte = (guint8)(value >> (8 * (i - 1)));
      g_byte_array_append (out, &byte, 1);
    }
}

static void
encode_int (GByteArray *out, Object value, GRand *rand)
{
  gboolean negative = value->type == MSGPACK_OBJECT_NEGATIVE_INTEGER;
  guint64 v = value->via.u64;
  guint least = negative ? 3 : v > G_MAXUINT32 ? 3 : v > 0xffff ? 2 : v > 0xff ? 1 : 0;
  guint size = (guint)g_rand_int_range (rand, (gint32)least, 4);
  if (!negative && v < 0x80 && g_rand_boolean (rand))
    put (out, (guint8)v, 0, 0);
  else if (negative || (v <= G_MAXINT64 && size == 3 && g_rand_boolean (rand)))
    put (out, 0xd3, v, 8);
  else
    put (out, (guint8)(0xcc + size), v, 1u << size);
}

static void
encode_text (GByteArray *out, const char *text, guint32 len, gboolean is_bin, GRand *rand)
{
  guint least = len > 0xffff ? 2 : len > 0xff ? 1 : 0;
  guint size = (guint)g_rand_int_range (rand, (gint32)least, 3);
  if (!is_bin && len < 32 && g_rand_boolean (rand))
    put (out, (guint8)(0xa0 | len), 0, 0);
  else
    put (out, (guint8)((is_bin ? 0xc4 : 0xd9) + size), len, 1u << size);
  g_byte_array_append (out, (const guint8 *)text, len);
}

static void encode (GByteArray *out, Object value, GRand *rand);

static void
encode_map (GByteArray *out, Object value, GRand *rand)
{
  static const guint8 rubbish[][4] = { { 0xd4, 5, 1, 0 }, { 0x93, 0xc0, 0xc3, 0x81 }, { 0xc3 }, { 0xa2, 'x', 'y' } };
  static const guint lengths[] = { 3, 4, 1, 3 };
  guint32 n = value->via.map.size, doubled = 0;
  g_autofree guint32 *order = g_new (guint32, n + 1);
  g_autofree gboolean *twice = g_new0 (gboolean, n + 1);
  for (guint32 i = 0; i < n; i++)
    {
      guint32 j = (guint32)g_rand_int_range (rand, 0, (gint32)i + 1);
      order[i] = order[j];
      order[j] = i;
      twice[i] = g_rand_int_range (rand, 0, 8) == 0;
      doubled += twice[i];
    }
  if (n + doubled < 16 && g_rand_boolean (rand))
    put (out, (guint8)(0x80 | (n + doubled)), 0, 0);
  else if (g_rand_boolean (rand))
    put (out, 0xde, n + doubled, 2);
  else
    put (out, 0xdf, n + doubled, 4);
  for (guint32 i = 0; i < n; i++)
    if (twice[i])
      {
        guint which = (guint)g_rand_int_range (rand, 0, 4);
        encode (out, &value->via.map.ptr[i].key, rand);
        g_byte_array_append (out, rubbish[which], lengths[which]);
        if (which == 1) /* the map in it needs its pair */
          g_byte_array_append (out, (const guint8 *)"\x01\xc2", 2);
      }
  for (guint32 i = 0; i < n; i++)
    {
      encode (out, &value->via.map.ptr[order[i]].key, rand);
      encode (out, &value->via.map.ptr[order[i]].val, rand);
    }
}

static void
encode (GByteArray *out, Object value, GRand *rand)
{
  switch (value->type)
    {
    case MSGPACK_OBJECT_NIL:
      put (out, 0xc0, 0, 0);
      break;
    case MSGPACK_OBJECT_BOOLEAN:
      put (out, value->via.boolean ? 0xc3 : 0xc2, 0, 0);
      break;
    case MSGPACK_OBJECT_POSITIVE_INTEGER:
    case MSGPACK_OBJECT_NEGATIVE_INTEGER:
      encode_int (out, value, rand);
      break;
    case MSGPACK_OBJECT_STR:
      encode_text (out, value->via.str.ptr, value->via.str.size, FALSE, rand);
      break;
    case MSGPACK_OBJECT_BIN:
      encode_text (out, value->via.bin.ptr, value->via.bin.size, TRUE, rand);
      break;
    case MSGPACK_OBJECT_ARRAY:
      if (g_rand_int_range (rand, 0, 10) == 0) /* a tuple is an array for us */
        {
          g_byte_array_append (out, (const guint8 *)"\x82\xa5__t__\xa5tuple\xa1v", 15);
        }
      if (g_rand_boolean (rand))
        put (out, 0xdc, value->via.array.size, 2);
      else
        put (out, 0xdd, value->via.array.size, 4);
      for (guint32 i = 0; i < value->via.array.size; i++)
        encode (out, &value->via.array.ptr[i], rand);
      break;
    case MSGPACK_OBJECT_MAP:
      encode_map (out, value, rand);
      break;
    default:
      g_assert_not_reached ();
    }
}

void
oracle_encode_otherwise (LmtSpan value, GRand *rand, GByteArray *out)
{
  msgpack_unpacked tree;
  msgpack_unpacked_init (&tree);
  g_assert_cmpint (msgpack_unpack_next (&tree, (const char *)value.data, value.len, NULL), ==, MSGPACK_UNPACK_SUCCESS);
  encode_map (out, &tree.data, rand);
  msgpack_unpacked_destroy (&tree);
}

/* -------- JSON to msgpack -------- */

static void
pack_text (msgpack_packer *pk, const char *text, gsize len)
{
  msgpack_pack_str (pk, len);
  msgpack_pack_str_body (pk, text, len);
}

static void pack (msgpack_packer *pk, const LmtJson *json);

static void
pack_object (msgpack_packer *pk, const LmtJson *json)
{
  const LmtJson *bin = lmt_json_get_member (json, "$bin"), *tag = lmt_json_get_member (json, "$tag");
  const LmtJson *ext = lmt_json_get_member (json, "$ext"), *pairs = lmt_json_get_member (json, "$pairs");
  if (bin != NULL)
    {
      const char *hex = lmt_json_get_string (bin);
      gsize n = strlen (hex) / 2;
      msgpack_pack_bin (pk, n);
      for (gsize i = 0; i < n; i++)
        {
          guint8 byte = (guint8)(g_ascii_xdigit_value (hex[2 * i]) * 16 + g_ascii_xdigit_value (hex[2 * i + 1]));
          msgpack_pack_bin_body (pk, &byte, 1);
        }
    }
  else if (tag != NULL)
    {
      msgpack_pack_map (pk, 2);
      pack_text (pk, "__t__", 5);
      pack (pk, lmt_json_get_element (tag, 0));
      pack_text (pk, "v", 1);
      pack (pk, lmt_json_get_element (tag, 1));
    }
  else if (ext != NULL)
    {
      msgpack_pack_ext (pk, 1, (int8_t)lmt_json_get_int (ext));
      msgpack_pack_ext_body (pk, "x", 1);
    }
  else if (pairs != NULL)
    {
      msgpack_pack_map (pk, lmt_json_get_length (pairs) / 2);
      for (guint i = 0; i < lmt_json_get_length (pairs); i++)
        pack (pk, lmt_json_get_element (pairs, i));
    }
  else
    {
      msgpack_pack_map (pk, lmt_json_get_length (json));
      for (guint i = 0; i < lmt_json_get_length (json); i++)
        {
          const char *name = lmt_json_get_member_name (json, i);
          pack_text (pk, name, strlen (name));
          pack (pk, lmt_json_get_member_value (json, i));
        }
    }
}

static void
pack (msgpack_packer *pk, const LmtJson *json)
{
  switch (lmt_json_get_type (json))
    {
    case LMT_JSON_NULL:
      msgpack_pack_nil (pk);
      break;
    case LMT_JSON_BOOL:
      lmt_json_get_bool (json) ? msgpack_pack_true (pk) : msgpack_pack_false (pk);
      break;
    case LMT_JSON_INT:
      msgpack_pack_int64 (pk, lmt_json_get_int (json));
      break;
    case LMT_JSON_UINT:
      msgpack_pack_uint64 (pk, lmt_json_get_uint (json));
      break;
    case LMT_JSON_DOUBLE:
      msgpack_pack_double (pk, lmt_json_get_double (json));
      break;
    case LMT_JSON_STRING:
      pack_text (pk, lmt_json_get_string (json), lmt_json_get_string_len (json));
      break;
    case LMT_JSON_ARRAY:
      msgpack_pack_array (pk, lmt_json_get_length (json));
      for (guint i = 0; i < lmt_json_get_length (json); i++)
        pack (pk, lmt_json_get_element (json, i));
      break;
    default:
      pack_object (pk, json);
    }
}

GByteArray *
oracle_pack (const char *text)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (LmtJson) json = lmt_json_parse (text, -1, &error);
  g_assert_no_error (error);
  msgpack_sbuffer buffer;
  msgpack_sbuffer_init (&buffer);
  msgpack_packer packer;
  msgpack_packer_init (&packer, &buffer, msgpack_sbuffer_write);
  pack (&packer, json);
  GByteArray *out = g_byte_array_new ();
  g_byte_array_append (out, (const guint8 *)buffer.data, (guint)buffer.size);
  msgpack_sbuffer_destroy (&buffer);
  return out;
}
