// SPDX-License-Identifier: Apache-2.0
/* One codec per tag, through the registry as any caller gets them; LMCache's tables of keys and sizes; the byte examples. */
#include <string.h>

#include "oracle.h"
#include "setup.h"

static const char *const tags[] = { "AttnWindowDesc",   "GroupedObjectKeys", "MemoryLayoutDesc",
                                    "MemoryTags",       "ObjectKey",         "PrefetchHandle",
                                    "PrefetchLockMode", "PrefetchMode",      "PrefetchRequestSpec",
                                    "PrefetchTaskSpec", "TrimPolicy",        "set",
                                    "torch.Size",       "torch.dtype",       "tuple" };

static LmtRegistry *
registry_new (void)
{
  g_autoptr (GError) error = NULL;
  LmtRegistry *registry = lmt_registry_new ();
  lmt_registry_set_default_dirs (registry, FALSE);
  lmt_registry_load_builtin (registry, "storage-codecs", sm_codecs_register, &error);
  g_assert_no_error (error);
  return registry;
}

static void
test_registered (void)
{
  g_autoptr (LmtRegistry) registry = registry_new ();
  g_autofree const char **listed = lmt_registry_list_codecs (registry);
  g_assert_cmpuint (g_strv_length ((char **)listed), ==, G_N_ELEMENTS (tags));
  for (guint i = 0; i < G_N_ELEMENTS (tags); i++)
    g_assert_cmpstr (listed[i], ==, tags[i]);
}

/* Payload -> value. FALSE: the reason is in @fault. */
static gboolean
decode_payload (const char *tag, const char *json, SmValue *value, LmtFault *fault)
{
  g_autoptr (LmtRegistry) registry = registry_new ();
  g_autoptr (GByteArray) bytes = oracle_pack (json);
  const LmtCodecOps *ops = lmt_codec_find (registry, (LmtSpan){ (const guint8 *)tag, strlen (tag) });
  LmtCursor cursor;
  g_assert_nonnull (ops);
  g_assert_cmpuint (ops->value_size, <=, sizeof *value);
  memset (value, 0, sizeof *value);
  memset (fault, 0, sizeof *fault);
  lmt_cursor_init (&cursor, (LmtSpan){ bytes->data, bytes->len });
  gboolean ok = ops->decode (&cursor, value, NULL, fault);
  g_assert_true (ok == (fault->reason == NULL));
  /* Cut anywhere: an answer, no read beyond. */
  for (guint len = 0; len < bytes->len; len++)
    {
      g_autofree guint8 *copy = g_memdup2 (bytes->data, len);
      SmValue ignored = { 0 };
      LmtFault cut = { 0 };
      lmt_cursor_init (&cursor, (LmtSpan){ copy, len });
      g_assert_false (ops->decode (&cursor, &ignored, NULL, &cut));
      g_assert_nonnull (cut.reason);
    }
  return ok;
}

#define LAYOUT "{\"$tag\": [\"MemoryLayoutDesc\", {\"shapes\": [[2]], \"dtypes\": [\"torch.int8\"]}]}"

static const struct
{
  const char *tag;
  const char *json;
  const char *reason; /* NULL: decodes */
} payloads[] = {
  { "tuple", "[1, \"a\", null]", NULL },
  { "tuple", "5", "payload is not an array" },
  { "set", "[]", NULL },
  { "set", "{\"$ext\": 1}", "extension type" },
  { "torch.Size", "[1, 2]", NULL },
  { "torch.Size", "[1, \"2\"]", "torch.Size has an unexpected type" },
  { "torch.dtype", "\"torch.bfloat16\"", NULL },
  { "torch.dtype", "\"bfloat16\"", "unknown dtype" },
  { "torch.dtype", "2", "torch.dtype has an unexpected type" },
  { "TrimPolicy", "\"PREFIX\"", NULL },
  { "TrimPolicy", "\"prefix\"", "unknown TrimPolicy" },
  { "PrefetchMode", "\"WARM\"", NULL },
  { "PrefetchMode", "1", "unknown PrefetchMode" },
  { "PrefetchLockMode", "\"NO_LOCK\"", NULL },
  { "PrefetchLockMode", "\"\"", "unknown PrefetchLockMode" },
  { "MemoryTags", "{\"segment\": \"cxl\", \"residency\": \"dummy\"}", NULL },
  { "MemoryTags", "{\"segment\": \"cxl\"}", "MemoryTags without residency" },
  { "AttnWindowDesc", "[-1, 5]", NULL },
  { "AttnWindowDesc", "{\"num_chunks_in_sw\": [-1, 5], \"world_size\": 2}", NULL },
  { "AttnWindowDesc", "{\"num_chunks_in_sw\": [-1, 5]}", "AttnWindowDesc without world_size" },
  { "AttnWindowDesc", "[-2]", "window is neither -1 nor >= 1" },
  { "AttnWindowDesc", "\"x\"", "AttnWindowDesc has an unexpected type" },
  { "PrefetchHandle",
    "{\"prefetch_request_id\": 1, \"external_request_id\": \"r\", \"l1_prefix_hit_count\": 1, \"total_requested_keys\": 2, "
    "\"submit_time\": 1.5}",
    NULL },
  { "PrefetchHandle",
    "{\"prefetch_request_id\": 1, \"external_request_id\": \"r\", \"l1_found_indices\": [0], \"total_requested_keys\": 2, "
    "\"submit_time\": 1.5, "
    "\"l2_orig_indices\": []}",
    NULL },
  { "PrefetchHandle",
    "{\"prefetch_request_id\": 1, \"external_request_id\": \"r\", \"l1_found_indices\": [0], \"total_requested_keys\": 2, "
    "\"submit_time\": 1.5, "
    "\"l1_hit_chunks\": 1}",
    NULL },
  { "PrefetchHandle",
    "{\"prefetch_request_id\": 1, \"external_request_id\": \"r\", \"total_requested_keys\": 2, \"submit_time\": 1.5, "
    "\"sliding_windows\": [-1]}",
    NULL },
  { "PrefetchHandle", "{\"prefetch_request_id\": 1, \"external_request_id\": \"r\", \"total_requested_keys\": 2}",
    "PrefetchHandle without submit_time" },
  { "PrefetchHandle",
    "{\"prefetch_request_id\": 1, \"external_request_id\": \"r\", \"total_requested_keys\": 2, \"submit_time\": 1}",
    "PrefetchHandle without l1_found_indices" },
  { "GroupedObjectKeys", "{\"keys\": [], \"object_group_id\": 3, \"layout_desc\": " LAYOUT ", \"sliding_window_size\": 4}",
    NULL },
  { "GroupedObjectKeys", "{\"keys\": [], \"object_group_id\": -3, \"layout_desc\": " LAYOUT ", \"sliding_window_size\": 4}",
    "GroupedObjectKeys.object_group_id below 0" },
  { "GroupedObjectKeys", "{\"keys\": [], \"object_group_id\": 3, \"layout_desc\": {}, \"sliding_window_size\": 4}",
    "GroupedObjectKeys.layout_desc has an unexpected type" },
  { "PrefetchTaskSpec",
    "{\"key_groups\": [], \"num_kv_readers\": 1, \"fetching_policy\": \"full\", \"lock_mode\": {\"$tag\": [\"PrefetchLockMode\", "
    "\"LOCK\"]}}",
    NULL },
  { "PrefetchTaskSpec", "[]", "PrefetchTaskSpec is not a map" },
  { "PrefetchRequestSpec", "{\"keys\": [], \"layout_desc\": " LAYOUT "}", NULL },
  { "PrefetchRequestSpec", "{\"keys\": []}", "PrefetchRequestSpec without group_layout_descs" },
  { "PrefetchRequestSpec", "{\"layout_desc\": " LAYOUT "}", "PrefetchRequestSpec without keys" },
  { "MemoryLayoutDesc", "{\"shapes\": [[-1]], \"dtypes\": [\"torch.int8\"]}", "MemoryLayoutDesc.shapes has a dimension below 0" },
  { "MemoryLayoutDesc", "{\"shapes\": [[1.5]], \"dtypes\": [\"torch.int8\"]}", "MemoryLayoutDesc.shapes has an unexpected type" },
  { "MemoryLayoutDesc", "{\"shapes\": [[{\"$ext\": 3}]], \"dtypes\": [\"torch.int8\"]}", "extension type" },
  { "ObjectKey", "{\"chunk_hash\": {\"$bin\": \"00\"}, \"model_name\": \"m\", \"kv_rank\": 1.0}",
    "ObjectKey.kv_rank has an unexpected type" },
  { "ObjectKey",
    "{\"chunk_hash\": {\"$bin\": \"00\"}, \"model_name\": \"m\", \"kv_rank\": 18446744073709551615, \"object_group_id\": "
    "4294967296}",
    "ObjectKey.object_group_id has an unexpected type" },
  { "ObjectKey", "null", "ObjectKey is not a map" },
};

static void
test_payloads (void)
{
  for (guint i = 0; i < G_N_ELEMENTS (payloads); i++)
    {
      SmValue value;
      LmtFault fault;
      g_test_message ("%s %s", payloads[i].tag, payloads[i].json);
      g_assert_cmpint (decode_payload (payloads[i].tag, payloads[i].json, &value, &fault), ==, payloads[i].reason == NULL);
      g_assert_cmpstr (fault.reason, ==, payloads[i].reason);
    }
}

static void
test_values (void)
{
  SmValue value;
  LmtFault fault;
  g_assert_true (decode_payload ("MemoryTags", "{\"residency\": \"dummy\", \"segment\": \"storage\"}", &value, &fault));
  g_assert_cmpuint (value.tags.segment, ==, 4);
  g_assert_cmpuint (value.tags.residency, ==, 2);
  g_assert_true (decode_payload ("TrimPolicy", "\"SPARSE\"", &value, &fault));
  g_assert_cmpuint (value.word.value, ==, SM_TRIM_SPARSE);
  g_assert_true (decode_payload ("AttnWindowDesc", "{\"num_chunks_in_sw\": [-1, 5], \"world_size\": 2}", &value, &fault));
  g_assert_cmpuint (value.attn.n_windows, ==, 2);
  g_assert_cmpuint (value.attn.world_size, ==, 2);
  g_assert_true (value.attn.is_map);
  g_assert_true (decode_payload (
      "GroupedObjectKeys", "{\"keys\": [], \"object_group_id\": 3, \"layout_desc\": " LAYOUT ", \"sliding_window_size\": 4}",
      &value, &fault));
  g_assert_cmpuint (value.grouped.layout.bytes, ==, 2);
  g_assert_cmpint (value.grouped.window, ==, 4);
  for (guint form = 1; form <= 4; form++)
    {
      static const char *const member[] = { "l1_prefix_hit_count", "l1_found_indices", "l1_hit_chunks", "sliding_windows" };
      g_autofree char *json = g_strdup_printf ("{\"prefetch_request_id\": 1, \"external_request_id\": \"r\", "
                                               "\"total_requested_keys\": 9, \"submit_time\": 1, \"%s\": 1}",
                                               member[form - 1]);
      g_assert_true (decode_payload ("PrefetchHandle", json, &value, &fault));
      g_assert_cmpuint (value.handle.form, ==, form);
      g_assert_cmpuint (value.handle.total_requested_keys, ==, 9);
    }
}

/* LMCache's own verdict on keys; core's check of the same fields must agree. */
static void
test_object_keys (void)
{
  g_autoptr (LmtJson) json = load_json ("config", "object-key.json");
  const LmtJson *cases = lmt_json_get_member (json, "cases");
  guint n = 0;
  for (guint i = 0; i < lmt_json_get_length (cases); i++)
    {
      const LmtJson *row = lmt_json_get_element (cases, i), *key = lmt_json_get_member (row, "key");
      SmValue value;
      LmtFault fault;
      if (key == NULL)
        continue;
      gboolean valid = lmt_json_get_member (lmt_json_get_member (row, "expect"), "valid") != NULL;
      g_autofree char *text = lmt_json_to_text (key, LMT_JSON_STYLE_SPACED, FALSE);
      g_auto (GStrv) parts = g_strsplit (text, "\"chunk_hash\": ", 2);
      const char *end = strchr (parts[1] + 1, '"') + 1;
      g_autofree char *hash = g_strndup (parts[1], (gsize)(end - parts[1]));
      g_autofree char *payload = g_strdup_printf ("%s\"chunk_hash\": {\"$bin\": %s}%s", parts[0], hash, end);
      g_assert_cmpint (decode_payload ("ObjectKey", payload, &value, &fault), ==, valid);
      n++;
    }
  g_assert_cmpuint (n, >=, 14);
}

static void
test_object_sizes (void)
{
  g_autoptr (LmtJson) json = load_json ("config", "object-size.json");
  const LmtJson *cases = lmt_json_get_member (json, "cases");
  g_assert_cmpuint (lmt_json_get_length (cases), >=, 10);
  for (guint i = 0; i < lmt_json_get_length (cases); i++)
    {
      SmValue value;
      LmtFault fault;
      const LmtJson *row = lmt_json_get_element (cases, i);
      g_autofree char *payload = lmt_json_to_text (row, LMT_JSON_STYLE_SPACED, FALSE); /* members it doesn't know are ignored */
      g_assert_true (decode_payload ("MemoryLayoutDesc", payload, &value, &fault));
      g_assert_cmpint ((gint64)value.layout.bytes, ==, lmt_json_get_int (lmt_json_get_member (row, "size")));
    }
}

/* trace-format.md 9: the bytes as printed there, found again in the goldens and decoded. */
static void
test_examples (void)
{
  g_autoptr (LmtJson) list = load_json ("config", "examples.json");
  g_autoptr (LmtKeyTable) keys = lmt_key_table_new ();
  SmDecoder *decoder = sm_decoder_new (keys);
  g_assert_cmpuint (lmt_json_get_length (list), ==, 16);
  for (guint i = 0; i < lmt_json_get_length (list); i++)
    {
      const LmtJson *row = lmt_json_get_element (list, i);
      const char *hex = lmt_json_get_string (lmt_json_get_member (row, "hex"));
      gsize n = strlen (hex) / 2, offset = (gsize)lmt_json_get_int (lmt_json_get_member (row, "offset")), len;
      g_autofree guint8 *frame = g_malloc (n);
      for (gsize k = 0; k < n; k++)
        frame[k] = (guint8)(g_ascii_xdigit_value (hex[2 * k]) * 16 + g_ascii_xdigit_value (hex[2 * k + 1]));
      g_autofree char *path = g_build_filename (g_getenv ("LMT_TEST_DATA"), "storage",
                                                lmt_json_get_string (lmt_json_get_member (row, "file")), NULL);
      g_autofree char *file = NULL;
      g_assert_true (g_file_get_contents (path, &file, &len, NULL));
      g_assert_cmpuint (offset + n, <=, len);
      g_assert_cmpmem (file + offset, n, frame, n);

      LmtRecord record = { 0 };
      LmtFault fault = { 0 };
      SmCall call;
      gboolean missing;
      guint n_flat = 0;
      g_assert_true (lmt_record_split ((LmtSpan){ frame + 4, n - 4 }, &record, &fault));
      int op = oracle_op (record.qualname);
      g_assert_cmpint (op, >=, 0);
      g_assert_true (sm_decoder_decode (decoder, (guint32)op, &record, &call, &missing, &fault));
      const guint32 *flat = op == SM_OP_PREFETCH ? sm_decoder_get_flat (decoder, &n_flat) : NULL;
      g_autofree char *found = call_text (&call, sm_decoder_get_request_id (decoder), flat, n_flat);
      g_autofree char *expected = oracle_text ((guint32)op, record.args);
      g_assert_cmpstr (found, ==, expected);
      g_assert_nonnull (strstr (found, "m|16777472|0|aa01| m|16777472|0|aa02| "));
    }
  sm_decoder_free (decoder);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/codecs/registered", test_registered);
  g_test_add_func ("/codecs/payloads", test_payloads);
  g_test_add_func ("/codecs/values", test_values);
  g_test_add_func ("/codecs/object-keys", test_object_keys);
  g_test_add_func ("/codecs/object-sizes", test_object_sizes);
  g_test_add_func ("/codecs/examples", test_examples);
  return g_test_run ();
}
