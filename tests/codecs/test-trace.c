// SPDX-License-Identifier: Apache-2.0
/* Calls -> records: what LMCache wrote, decoded, published at the doors and encoded, is what LMCache wrote. */
#include <glib/gstdio.h>
#include <string.h>

#include "oracle.h"
#include "storage-encode.h"
#include "storage-trace.h"

typedef struct
{
  LmtKeyTable *keys;
  SmDecoder *decoder;
  LmtClock *clock;
  char *path;
  LmtRecorder *recorder;
} Rig;

static void
rig_begin (Rig *rig, guint32 schema)
{
  LmtRecorderParams params = { .struct_size = sizeof params, .flags = LMT_RECORDER_BLOCK, .schema = schema };
  g_autoptr (GError) error = NULL;
  int fd = g_file_open_tmp ("lmt-trace-XXXXXX.lct", &rig->path, &error);

  g_assert_no_error (error);
  g_close (fd, NULL);
  rig->keys = lmt_key_table_new ();
  rig->decoder = sm_decoder_new (rig->keys);
  rig->clock = lmt_clock_virtual_new (0);
  params.path = rig->path;
  params.clock = rig->clock;
  rig->recorder = lmt_recorder_new (&sm_trace_level, &params, &error);
  g_assert_no_error (error);
}

static void
rig_end (Rig *rig)
{
  g_unlink (rig->path);
  g_free (rig->path);
  lmt_clock_virtual_free (rig->clock);
  sm_decoder_free (rig->decoder);
  lmt_key_table_free (rig->keys);
}

/* Closes; the file's reader. */
static LmtReader *
rig_read (Rig *rig)
{
  g_autoptr (GError) error = NULL;
  LmtReader *reader;

  g_assert_true (lmt_recorder_close (rig->recorder, &error));
  g_assert_no_error (error);
  lmt_recorder_free (rig->recorder);
  reader = lmt_reader_open (rig->path, &error);
  g_assert_no_error (error);
  g_assert_true (lmt_reader_read_header (reader, &error));
  return reader;
}

static gboolean
decode (Rig *rig, const LmtRecord *record, SmCall *call)
{
  LmtFault fault = { 0 };
  gboolean missing;
  int op = oracle_op (record->qualname);

  return op >= 0 && sm_decoder_decode (rig->decoder, (guint32)op, record, call, &missing, &fault);
}

static LmtReader *
open_golden (const char *release, const char *name)
{
  g_autofree char *path = g_build_filename (g_getenv ("LMT_TEST_DATA"), "storage", release, name, NULL);
  g_autoptr (GError) error = NULL;
  LmtReader *reader = lmt_reader_open (path, &error);

  g_assert_no_error (error);
  g_assert_true (lmt_reader_read_header (reader, &error));
  return reader;
}

static GPtrArray *
list_goldens (const char *release)
{
  g_autofree char *folder = g_build_filename (g_getenv ("LMT_TEST_DATA"), "storage", release, NULL);
  g_autoptr (GDir) dir = g_dir_open (folder, 0, NULL);
  GPtrArray *names = g_ptr_array_new_with_free_func (g_free);
  const char *name;

  g_assert_nonnull (dir);
  while ((name = g_dir_read_name (dir)) != NULL)
    if (strstr (name, ".lct") != NULL)
      g_ptr_array_add (names, g_strdup (name));
  g_assert_cmpuint (names->len, >=, 4);
  return names;
}

static void
expect_same_records (LmtReader *wanted, LmtReader *found)
{
  LmtRecord a, b;

  while (lmt_reader_next (wanted, &a) == LMT_READ_RECORD)
    {
      g_assert_cmpint (lmt_reader_next (found, &b), ==, LMT_READ_RECORD);
      g_assert_cmpmem (a.qualname.data, a.qualname.len, b.qualname.data, b.qualname.len);
      g_assert_cmpmem (a.args.data, a.args.len, b.args.data, b.args.len);
    }
  g_assert_cmpint (lmt_reader_next (found, &b), ==, LMT_READ_END);
}

/* @data: release and schema. @otherwise: from bytes that mean the same. */
static void
same_bytes (gconstpointer data, gboolean otherwise)
{
  const char *release = data;
  g_autoptr (GPtrArray) names = list_goldens (release);
  g_autoptr (GRand) rand = g_rand_new_with_seed (1);
  guint64 n = 0;

  for (guint i = 0; i < names->len; i++)
    {
      g_autoptr (LmtReader) golden = open_golden (release, names->pdata[i]);
      g_autoptr (LmtReader) again = open_golden (release, names->pdata[i]);
      g_autoptr (LmtReader) found = NULL;
      Rig rig;
      LmtRecord record;
      SmCall call;

      rig_begin (&rig, g_str_equal (release, "0.5.7rc3") ? 2 : 1);
      while (lmt_reader_next (golden, &record) == LMT_READ_RECORD && n < 20000)
        {
          g_autoptr (GByteArray) other = g_byte_array_new ();

          if (otherwise)
            {
              oracle_encode_otherwise (record.args, rand, other);
              record.args = (LmtSpan){ other->data, other->len };
            }
          g_assert_true (decode (&rig, &record, &call));
          sm_trace_call (&call);
          n++;
        }
      found = rig_read (&rig);
      expect_same_records (again, found);
      rig_end (&rig);
    }
  g_assert_cmpuint (n, >, 200);
}

static void
test_golden (gconstpointer data)
{
  same_bytes (data, FALSE);
}

static void
test_golden_otherwise (gconstpointer data)
{
  same_bytes (data, TRUE);
}

/* Older releases' calls in the shapes of the newer two: other bytes, the same call. */
static void
test_older (gconstpointer data)
{
  const char *release = data;

  /* What only schema 2 can say: test_unsayable() */
  for (guint32 schema = g_str_equal (release, "0.5.7rc3") ? 2 : 1; schema <= 2; schema++)
    {
      g_autoptr (GPtrArray) names = list_goldens (release);

      for (guint i = 0; i < names->len; i++)
        {
          g_autoptr (LmtReader) golden = open_golden (release, names->pdata[i]);
          g_autoptr (LmtReader) found = NULL;
          g_autoptr (GPtrArray) texts = g_ptr_array_new_with_free_func (g_free);
          Rig rig;
          LmtRecord record;
          SmCall call;

          rig_begin (&rig, schema);
          while (lmt_reader_next (golden, &record) == LMT_READ_RECORD)
            if (decode (&rig, &record, &call))
              {
                g_ptr_array_add (texts, call_text (&call, sm_decoder_get_request_id (rig.decoder), NULL, 0));
                sm_trace_call (&call);
              }
          found = rig_read (&rig);
          for (guint t = 0; t < texts->len; t++)
            {
              g_autofree char *text = NULL;

              g_assert_cmpint (lmt_reader_next (found, &record), ==, LMT_READ_RECORD);
              g_assert_true (decode (&rig, &record, &call));
              text = call_text (&call, sm_decoder_get_request_id (rig.decoder), NULL, 0);
              g_assert_cmpstr (text, ==, texts->pdata[t]);
            }
          g_assert_cmpint (lmt_reader_next (found, &record), ==, LMT_READ_END);
          rig_end (&rig);
        }
    }
}

/* ---------------- calls made by hand ---------------- */

static LmtKey *
make_key (LmtKeyTable *table, guint8 first, const char *salt)
{
  guint8 hash[32] = { first };
  LmtKeyFields fields = { .struct_size = sizeof fields, .rank = 0x01000100, .group = 2, .hash = hash, .model = "m" };

  fields.hash_len = sizeof hash;
  fields.model_len = 1;
  fields.salt = salt;
  fields.salt_len = (guint32)strlen (salt);
  return lmt_key_table_intern (table, &fields);
}

static void
make_layout (LmtPack *out)
{
  static const gint64 shape[] = { 2, 8 };

  lmt_pack_init (out);
  sm_pack_layout (out, &(SmTensor){ shape, 2, "torch.float16" }, 1);
}

static char *
next_json (LmtReader *reader)
{
  LmtRecord record;
  GString *json = g_string_new (NULL);

  g_assert_cmpint (lmt_reader_next (reader, &record), ==, LMT_READ_RECORD);
  lmt_value_to_json (record.args, json);
  return g_string_free (json, FALSE);
}

/* A call is what it was when it was made, whatever its caller does to its arguments afterwards. */
static void
test_capture (void)
{
  Rig rig;
  LmtPack layout;
  char request[] = "request";
  g_autofree char *before = NULL;

  rig_begin (&rig, 1);
  make_layout (&layout);
  {
    LmtKey *list[2] = { make_key (rig.keys, 1, ""), make_key (rig.keys, 2, "") };
    LmtKey *const first = list[0], *const second = list[1];
    SmRow row = { .keys = list, .n = 2, .group = 2, .window = -1, .layout = lmt_pack_span (&layout) };
    SmCall call = { .op = SM_OP_PREFETCH, .rows = &row, .n_rows = 1, .readers = 1, .look_l1 = TRUE, .allow_l2 = TRUE };
    g_autoptr (LmtReader) found = NULL;

    call.request_id = (LmtSpan){ (const guint8 *)request, strlen (request) };
    sm_trace_call (&call);
    list[0] = second;
    list[1] = first;
    row.window = 7;
    memset (request, '#', strlen (request));
    memset (layout.data, 0xc1, layout.len);
    lmt_key_unref (rig.keys, first);
    lmt_key_unref (rig.keys, second);
    found = rig_read (&rig);
    before = next_json (found);
  }
  g_assert_nonnull (strstr (before, "\"external_request_id\":\"request\""));
  g_assert_nonnull (strstr (before, "\"sliding_window_size\":-1"));
  g_assert_nonnull (strstr (before, "\"shapes\":[[2,8]]"));
  g_assert_true (strstr (before, "0x01000000") < strstr (before, "0x02000000"));
  lmt_pack_clear (&layout);
  rig_end (&rig);
}

static void
test_arguments (void)
{
  static const struct
  {
    guint32 op;
    const char *wanted; /* names of the arguments, in order */
  } cases[] = {
    { SM_OP_RESERVE_WRITE, "keys layout_desc " },
    { SM_OP_FINISH_WRITE, "keys " },
    { SM_OP_READ_ENTER, "keys " },
    { SM_OP_READ_EXIT, "keys " },
    { SM_OP_FINISH_READ, "keys read_locks " },
    { SM_OP_PREFETCH, "spec external_request_id skip_l2 " },
  };
  static const guint32 never[] = { SM_OP_ABORT_WRITE, SM_OP_TOUCH, SM_OP_DELETE, SM_OP_CLEAR, SM_OP_UNSAFE_READ };
  Rig rig;
  LmtPack layout;
  LmtKey *key;
  LmtRecord record;
  g_autoptr (LmtReader) found = NULL;

  rig_begin (&rig, 1);
  make_layout (&layout);
  key = make_key (rig.keys, 1, "");
  /* Everything is set; only what LMCache records gets in (trace-format.md 5). */
  for (guint i = 0; i < G_N_ELEMENTS (cases) + G_N_ELEMENTS (never); i++)
    {
      SmRow row = { .keys = &key, .n = 1, .window = -1, .layout = lmt_pack_span (&layout) };
      SmCall call = { .op = i < G_N_ELEMENTS (cases) ? cases[i].op : never[i - G_N_ELEMENTS (cases)] };

      call.keys = call.bad_keys = &key;
      call.n_keys = call.n_bad_keys = 1;
      call.rows = &row;
      call.n_rows = 1;
      call.readers = 3;
      call.layout = lmt_pack_span (&layout);
      call.look_l1 = call.allow_l2 = call.force = call.caller_failed = call.enter_bad = TRUE;
      sm_trace_call (&call);
    }
  lmt_key_unref (rig.keys, key);
  found = rig_read (&rig);
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autoptr (GString) names = g_string_new (NULL);
      LmtCursor cursor;
      guint32 n;

      g_assert_cmpint (lmt_reader_next (found, &record), ==, LMT_READ_RECORD);
      g_assert_cmpint (oracle_op (record.qualname), ==, (int)cases[i].op);
      lmt_cursor_init (&cursor, record.args);
      g_assert_true (lmt_cursor_read_map (&cursor, &n));
      for (guint32 k = 0; k < n; k++)
        {
          LmtSpan name;

          g_assert_true (lmt_cursor_read_str (&cursor, &name));
          g_string_append_printf (names, "%.*s ", LMT_SPAN_STR (name));
          g_assert_true (lmt_cursor_skip (&cursor));
        }
      g_assert_cmpstr (names->str, ==, cases[i].wanted);
    }
  g_assert_cmpint (lmt_reader_next (found, &record), ==, LMT_READ_END);
  lmt_pack_clear (&layout);
  rig_end (&rig);
}

/* A salt is part of a key: it is there where there is one; a reader of a release that has no such member passes it over. */
static void
test_salt (void)
{
  Rig rig;
  LmtKey *keys[2];
  SmCall call = { .op = SM_OP_FINISH_WRITE, .n_keys = 2, .keys = keys };
  g_autoptr (LmtReader) found = NULL;
  g_autofree char *json = NULL;

  rig_begin (&rig, 1);
  keys[0] = make_key (rig.keys, 1, "");
  keys[1] = make_key (rig.keys, 1, "tenant");
  sm_trace_call (&call);
  lmt_key_unref (rig.keys, keys[0]);
  lmt_key_unref (rig.keys, keys[1]);
  found = rig_read (&rig);
  json = next_json (found);
  g_assert_nonnull (strstr (json, "\"object_group_id\":2}},{"));
  g_assert_nonnull (strstr (json, "\"object_group_id\":2,\"cache_salt\":\"tenant\"}}]"));
  rig_end (&rig);
}

/* What a schema can't say is refused and counted, not written some other way. */
static void
test_unsayable (void)
{
  static const char tags_json[] = "[{\"$tag\": [\"MemoryTags\", {\"segment\": \"storage\", \"residency\": \"local\"}]}]";
  g_autoptr (GByteArray) tags = oracle_pack (tags_json);

  for (guint32 schema = 1; schema <= 2; schema++)
    {
      LmtRecorderStats stats = { .struct_size = sizeof stats };
      LmtPack layout;
      LmtKey *key;
      Rig rig;

      rig_begin (&rig, schema);
      make_layout (&layout);
      key = make_key (rig.keys, 1, "");
      {
        SmRow row = { .keys = &key, .n = 1, .window = -1, .layout = lmt_pack_span (&layout) };
        SmCall call = { .op = SM_OP_PREFETCH, .rows = &row, .n_rows = 1, .readers = 1, .look_l1 = TRUE, .allow_l2 = TRUE };

        call.l2_tags = (LmtSpan){ tags->data, tags->len };
        sm_trace_call (&call);
        call.l2_tags.len = 0;
        row.layout.len = 0; /* no layout */
        sm_trace_call (&call);
        call = (SmCall){ .op = SM_OP_RESERVE_WRITE, .keys = &key, .n_keys = 1 };
        sm_trace_call (&call);
      }
      lmt_key_unref (rig.keys, key);
      g_assert_true (lmt_recorder_flush (rig.recorder, NULL));
      lmt_recorder_get_stats (rig.recorder, &stats);
      g_assert_cmpuint (stats.encode_errors, ==, schema == 1 ? 3 : 2);
      g_assert_cmpuint (stats.records, ==, schema == 1 ? 0 : 1);
      g_test_expect_message ("lmtrace", G_LOG_LEVEL_WARNING, "Recording is incomplete*");
      lmt_recorder_free (rig.recorder);
      g_test_assert_expected_messages ();
      lmt_pack_clear (&layout);
      rig_end (&rig);
    }
}

/* ---------------- values ---------------- */

#define LAYOUT "{\"$tag\": [\"MemoryLayoutDesc\", {\"shapes\": [[2]], \"dtypes\": [\"torch.int8\"]}]}"
#define KEY(more)                                                                                                                \
  "{\"$tag\": [\"ObjectKey\", {\"chunk_hash\": {\"$bin\": \"aa\"}, \"model_name\": \"m\", \"kv_rank\": 1" more "}]}"
#define GROUPED                                                                                                                  \
  "{\"$tag\": [\"GroupedObjectKeys\", {\"keys\": [" KEY (                                                                        \
      ", \"object_group_id\": 0") "], \"object_group_id\": 0, \"layout_desc\": " LAYOUT ", \"sliding_window_size\": -1}]}"
#define LOCK "{\"$tag\": [\"PrefetchLockMode\", \"LOCK\"]}"
#define TAGS "{\"$tag\": [\"MemoryTags\", {\"segment\": \"dram\", \"residency\": \"local\"}]}"
#define TASK(more)                                                                                                               \
  "{\"$tag\": [\"PrefetchTaskSpec\", {\"key_groups\": [" GROUPED                                                                 \
  "], \"num_kv_readers\": 1, \"fetching_policy\": \"full\", \"lock_mode\": " LOCK more "}]}"
#define HANDLE(more)                                                                                                             \
  "{\"$tag\": [\"PrefetchHandle\", {\"prefetch_request_id\": 1, \"external_request_id\": \"r\", \"total_requested_keys\": 2, "   \
  "\"submit_time\": 1.5, " more "}]}"

static const struct
{
  const char *in;
  const char *out;    /* NULL: as it came */
  guint32 schemas;    /* bits */
  const char *reason; /* in the schemas that are not there */
} values[] = {
  { "{\"$tag\": [\"tuple\", [1, [2], null, true, -1, 0.5, \"x\", {\"$bin\": \"00ff\"}]]}", NULL, 6, NULL },
  { "{\"$tag\": [\"set\", [1, 2]]}", NULL, 6, NULL },
  { "[1, 2]", NULL, 6, NULL }, /* neither tuple nor set */
  { "{\"$tag\": [\"tuple\", [{\"$tag\": [\"set\", []]}, {\"$tag\": [\"tuple\", []]}, []]]}", NULL, 6, NULL },
  { "{\"a\": {\"b\": {\"$tag\": [\"torch.Size\", [1, 2]]}}}", NULL, 6, NULL },
  { "{\"$tag\": [\"torch.dtype\", \"torch.bfloat16\"]}", NULL, 6, NULL },
  { LAYOUT, NULL, 6, NULL },
  { LOCK, NULL, 6, NULL },
  { KEY (", \"object_group_id\": 3"), NULL, 6, NULL },
  { KEY (""), KEY (", \"object_group_id\": 0"), 6, NULL },
  { KEY (", \"object_group_id\": 3, \"cache_salt\": \"\""), KEY (", \"object_group_id\": 3"), 6, NULL },
  { KEY (", \"object_group_id\": 3, \"cache_salt\": \"s\", \"other\": 1"),
    KEY (", \"object_group_id\": 3, \"cache_salt\": \"s\""), 6, NULL },
  { GROUPED, NULL, 6, NULL },
  { TASK (""), NULL, 2, NULL },
  { TASK (", \"allowed_l1_memory_tags\": null, \"allowed_l2_memory_tags\": null"), NULL, 4, NULL },
  { TASK (", \"allowed_l1_memory_tags\": [" TAGS "], \"allowed_l2_memory_tags\": []"), NULL, 4, "no such tag in this schema" },
  { TAGS, NULL, 4, "no such tag in this schema" },
  { "{\"$tag\": [\"AttnWindowDesc\", {\"num_chunks_in_sw\": [-1, 5], \"world_size\": 2}]}", NULL, 6, NULL },
  { "{\"$tag\": [\"AttnWindowDesc\", [-1, 5]]}",
    "{\"$tag\": [\"AttnWindowDesc\", {\"num_chunks_in_sw\": [-1, 5], \"world_size\": 1}]}", 6, NULL },
  { HANDLE ("\"sliding_windows\": [-1]"), NULL, 6, NULL },
  { HANDLE ("\"l1_prefix_hit_count\": 1"), NULL, 0, "sliding_windows absent" },
  { "{\"$tag\": [\"TrimPolicy\", \"PREFIX\"]}", NULL, 0, "no such tag in this schema" },
  { "{\"$tag\": [\"PrefetchMode\", \"WARM\"]}", NULL, 0, "no such tag in this schema" },
  { "{\"$tag\": [\"frozenset\", [1]]}", NULL, 0, "unknown tag" },
  { "{\"a\": [{\"$ext\": 5}]}", NULL, 0, "extension type" },
  { "{\"$tag\": [\"torch.dtype\", \"bfloat16\"]}", NULL, 0, "unknown dtype" },
};

static void
test_values (void)
{
  for (guint i = 0; i < G_N_ELEMENTS (values); i++)
    for (guint32 schema = 1; schema <= 2; schema++)
      {
        g_autoptr (GByteArray) in = oracle_pack (values[i].in);
        g_autoptr (GByteArray) wanted = oracle_pack (values[i].out != NULL ? values[i].out : values[i].in);
        LmtFault fault = { 0 };
        LmtPack out;
        gboolean ok;

        lmt_pack_init (&out);
        ok = sm_encode_span ((LmtSpan){ in->data, in->len }, schema, &out, &fault);
        if ((values[i].schemas >> schema & 1) != 0)
          {
            if (!ok)
              g_error ("%s: %s", values[i].in, fault.reason);
            g_assert_cmpmem (out.data, out.len, wanted->data, wanted->len);
          }
        else if (values[i].reason != NULL)
          {
            g_assert_false (ok);
            g_assert_cmpstr (fault.reason, ==, values[i].reason);
          }
        lmt_pack_clear (&out);
      }
}

/* Both ways through the border: LmtCodecOps.encode of what LmtCodecOps.decode takes. */
static void
test_border (void)
{
  static const char *const tags[]
      = { "ObjectKey", "MemoryLayoutDesc", "torch.Size",       "torch.dtype",       "PrefetchHandle",   "set",
          "tuple",     "AttnWindowDesc",   "PrefetchLockMode", "GroupedObjectKeys", "PrefetchTaskSpec", "MemoryTags" };

  for (guint i = 0; i < G_N_ELEMENTS (tags); i++)
    {
      const LmtCodecOps *codec = sm_find_codec ((LmtSpan){ (const guint8 *)tags[i], strlen (tags[i]) });

      g_assert_nonnull (codec);
      g_assert_nonnull (codec->encode);
    }
  {
    g_autoptr (GByteArray) in = oracle_pack ("\"torch.half\"");
    g_autoptr (GByteArray) wanted = oracle_pack ("{\"$tag\": [\"torch.dtype\", \"torch.half\"]}");
    LmtCursor cursor;
    LmtFault fault = { 0 };
    LmtPack out;

    lmt_pack_init (&out);
    lmt_cursor_init (&cursor, (LmtSpan){ in->data, in->len });
    g_assert_true (
        sm_find_codec ((LmtSpan){ (const guint8 *)"torch.dtype", 11 })->encode ("torch.dtype", &cursor, 1, &out, &fault));
    g_assert_cmpmem (out.data, out.len, wanted->data, wanted->len);
    lmt_pack_clear (&out);
  }
}

static void
test_deep (void)
{
  g_autoptr (GByteArray) in = g_byte_array_new ();
  LmtFault fault = { 0 };
  LmtPack out;
  guint8 one = 0x91, nil = 0xc0;

  for (guint i = 0; i < 100000; i++)
    g_byte_array_append (in, &one, 1);
  g_byte_array_append (in, &nil, 1);
  lmt_pack_init (&out);
  g_assert_false (sm_encode_span ((LmtSpan){ in->data, in->len }, 1, &out, &fault));
  g_assert_cmpstr (fault.reason, ==, "too-deep");
  lmt_pack_clear (&out);
}

int
main (int argc, char **argv)
{
  static const char *const newer[] = { "0.5.6", "0.5.7.dev0", "0.5.7rc3" };
  static const char *const older[]
      = { "0.4.4", "0.4.5", "0.4.6", "0.4.7", "0.5.0", "0.5.1", "0.5.2", "0.5.3", "0.5.4", "0.5.5", "0.5.6", "0.5.7rc3" };

  g_test_init (&argc, &argv, NULL);
  for (guint i = 0; i < G_N_ELEMENTS (newer); i++)
    {
      g_autofree char *path = g_strdup_printf ("/trace/golden/%s", newer[i]);
      g_autofree char *otherwise = g_strdup_printf ("/trace/otherwise/%s", newer[i]);

      g_test_add_data_func (path, newer[i], test_golden);
      g_test_add_data_func (otherwise, newer[i], test_golden_otherwise);
    }
  for (guint i = 0; i < G_N_ELEMENTS (older); i++)
    {
      g_autofree char *path = g_strdup_printf ("/trace/older/%s", older[i]);

      g_test_add_data_func (path, older[i], test_older);
    }
  g_test_add_func ("/trace/capture", test_capture);
  g_test_add_func ("/trace/arguments", test_arguments);
  g_test_add_func ("/trace/salt", test_salt);
  g_test_add_func ("/trace/unsayable", test_unsayable);
  g_test_add_func ("/encode/values", test_values);
  g_test_add_func ("/encode/border", test_border);
  g_test_add_func ("/encode/deep", test_deep);
  return g_test_run ();
}
