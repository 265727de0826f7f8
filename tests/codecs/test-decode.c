// SPDX-License-Identifier: Apache-2.0
/* Records of every release -> calls: against a second decoder, against the goldens of the malformed set, shape by shape. */
#include <string.h>

#include "oracle.h"

#ifndef LMT_TEST_SANITIZED
static gboolean counting;
static guint64 n_allocations;

extern void *__libc_malloc (size_t);
extern void *__libc_calloc (size_t, size_t);
extern void *__libc_realloc (void *, size_t);
void *malloc (size_t n);
void *calloc (size_t n, size_t size);
void *realloc (void *old, size_t n);
void *
malloc (size_t n)
{
  n_allocations += counting;
  return __libc_malloc (n);
}
void *
calloc (size_t n, size_t size)
{
  n_allocations += counting;
  return __libc_calloc (n, size);
}
void *
realloc (void *old, size_t n)
{
  n_allocations += counting;
  return __libc_realloc (old, n);
}
#endif

typedef struct
{
  LmtKeyTable *keys;
  SmDecoder *decoder;
} Fixture;

static void
fixture_init (Fixture *f)
{
  f->keys = lmt_key_table_new ();
  f->decoder = sm_decoder_new (f->keys);
}

static void
fixture_clear (Fixture *f)
{
  sm_decoder_free (f->decoder);
  g_assert_cmpuint (lmt_key_table_size (f->keys), ==, 0); /* every reference was given back */
  lmt_key_table_free (f->keys);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Fixture, fixture_clear)

/* Text of the call, or the fault's reason. */
static char *
decode (Fixture *f, guint32 op, LmtSpan args, LmtFault *fault_out)
{
  LmtRecord record = { .number = 7, .offset = 99, .args = args };
  LmtFault fault;
  SmCall call;
  gboolean missing;
  guint n_flat = 0;
  if (!sm_decoder_decode (f->decoder, op, &record, &call, &missing, &fault))
    {
      g_assert_nonnull (fault.reason);
      g_assert_cmpuint (fault.number, ==, 7);
      g_assert_cmpuint (fault.offset, ==, 99);
      if (fault_out != NULL)
        *fault_out = fault;
      const char *separator = fault.detail[0] != '\0' && g_str_has_prefix (fault.reason, "unknown") ? " " : "";
      return g_strdup_printf ("fault: %s%s%s%s", missing ? "(missing) " : "", fault.reason, separator,
                              *separator ? fault.detail : "");
    }
  const guint32 *flat = op == SM_OP_PREFETCH ? sm_decoder_get_flat (f->decoder, &n_flat) : NULL;
  return call_text (&call, sm_decoder_get_request_id (f->decoder), flat, n_flat);
}

static LmtReader *
open_trace (const char *path)
{
  g_autoptr (GError) error = NULL;
  LmtReader *reader = lmt_reader_open (path, &error);
  g_assert_no_error (error);
  g_assert_true (lmt_reader_read_header (reader, &error));
  g_assert_no_error (error);
  return reader;
}

/* -------- genuine traces -------- */

static void
test_golden (gconstpointer data)
{
  g_auto (Fixture) f = { NULL, NULL };
  g_autoptr (GRand) rand = g_rand_new_with_seed (1);
  g_autoptr (GByteArray) other = g_byte_array_new ();
  g_autoptr (LmtReader) reader = open_trace (data);
  LmtRecord record;
  guint64 n = 0;
  fixture_init (&f);
  while (lmt_reader_next (reader, &record) == LMT_READ_RECORD)
    {
      int op = oracle_op (record.qualname);
      g_assert_cmpint (op, >=, 0);
      g_autofree char *expected = oracle_text ((guint32)op, record.args);
      g_autofree char *found = decode (&f, (guint32)op, record.args, NULL);
      g_assert_cmpstr (found, ==, expected);
      if (n++ > 400)
        continue; /* of the large ones a part will do */
      g_byte_array_set_size (other, 0);
      oracle_encode_otherwise (record.args, rand, other);
      g_autofree char *again = decode (&f, (guint32)op, (LmtSpan){ other->data, other->len }, NULL);
      g_assert_cmpstr (again, ==, expected);
    }
  g_assert_cmpuint (n, >, 0);
  const SmDecodeNotes *notes = sm_decoder_get_notes (f.decoder);
  g_assert_cmpuint (notes->unknown_arguments, ==, 0);
  g_assert_cmpuint (notes->salted_keys, ==, 0);

  /* What release is it? The folder's name must be one of the answer's ends. */
  g_autofree char *folder = g_path_get_dirname (data);
  g_autofree char *release = g_path_get_basename (folder);
  const char *guess = sm_decoder_guess_release (f.decoder, lmt_reader_get_header (reader));
  g_assert_nonnull (guess);
  g_auto (GStrv) ends = g_strsplit (guess, " ", -1);
  gboolean between = g_str_equal (release, "0.4.5") && g_str_equal (guess, "0.4.4 - 0.4.6");
  if (!between && !g_strv_contains ((const char *const *)ends, release))
    g_error ("%s: guessed \"%s\"", (const char *)data, guess);
}

static void
test_no_allocation (void)
{
#ifdef LMT_TEST_SANITIZED
  g_test_skip ("the sanitizer owns malloc");
#else
  g_autofree char *path = g_build_filename (g_getenv ("LMT_TEST_DATA"), "storage", "0.5.6", "large.lct", NULL);
  g_auto (Fixture) f = { NULL, NULL };
  fixture_init (&f);
  g_autoptr (GPtrArray) args = g_ptr_array_new_with_free_func ((GDestroyNotify)g_bytes_unref);
  g_autoptr (GArray) ops = g_array_new (FALSE, FALSE, sizeof (guint32));
  g_autoptr (LmtReader) reader = open_trace (path);
  LmtRecord record;
  while (lmt_reader_next (reader, &record) == LMT_READ_RECORD && args->len < 10000)
    {
      guint32 op = (guint32)oracle_op (record.qualname);
      g_ptr_array_add (args, g_bytes_new (record.args.data, record.args.len));
      g_array_append_val (ops, op);
    }
  g_assert_cmpuint (args->len, ==, 10000);
  for (guint pass = 0; pass < 2; pass++)
    {
      counting = pass == 1;
      for (guint i = 0; i < args->len; i++)
        {
          LmtRecord one = { .number = i };
          SmCall call;
          LmtFault fault;
          gboolean missing;
          one.args.data = g_bytes_get_data (args->pdata[i], &one.args.len);
          g_assert_true (sm_decoder_decode (f.decoder, g_array_index (ops, guint32, i), &one, &call, &missing, &fault));
        }
      counting = FALSE;
    }
  g_assert_cmpuint (n_allocations, ==, 0);
#endif
}

/* -------- the malformed set -------- */

static void
count (GHashTable *reasons, const char *reason)
{
  guint n = GPOINTER_TO_UINT (g_hash_table_lookup (reasons, reason));
  g_hash_table_insert (reasons, g_strdup (reason), GUINT_TO_POINTER (n + 1));
}

static void
test_malformed (gconstpointer data)
{
  g_autofree char *json_path = g_strconcat (data, ".json", NULL);
  g_autofree char *lct_path = g_strconcat (data, ".lct", NULL);
  g_autofree char *text = NULL;
  g_autoptr (GError) error = NULL;
  g_assert_true (g_file_get_contents (json_path, &text, NULL, &error));
  g_autoptr (LmtJson) json = lmt_json_parse (text, -1, &error);
  g_assert_no_error (error);
  const LmtJson *verdict = lmt_json_get_member (json, "lmtrace"), *expected = lmt_json_get_member (verdict, "replay");
  g_autoptr (LmtReader) reader = lmt_reader_open (lct_path, &error);
  g_assert_no_error (error);
  if (g_str_equal (lmt_json_get_string (lmt_json_get_member (verdict, "header")), "refused"))
    {
      g_assert_false (lmt_reader_read_header (reader, &error));
      return;
    }
  if (lmt_json_get_type (expected) == LMT_JSON_STRING) /* a level or a schema that nobody replays unasked; its records are read */
    {
      g_assert_cmpstr (lmt_json_get_string (expected), ==, "refused");
      g_assert_true (lmt_reader_read_header (reader, &error));
      return;
    }
  g_auto (Fixture) f = { NULL, NULL };
  g_autoptr (GHashTable) reasons = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  g_assert_true (lmt_reader_read_header (reader, &error));
  LmtRecord record;
  gint64 ok = 0, skipped = 0, undecodable = 0;
  fixture_init (&f);
  while (lmt_reader_next (reader, &record) == LMT_READ_RECORD)
    {
      int op = oracle_op (record.qualname);
      if (op < 0)
        {
          skipped++;
          continue;
        }
      g_autofree char *found = decode (&f, (guint32)op, record.args, NULL);
      if (!g_str_has_prefix (found, "fault: "))
        {
          ok++;
          continue;
        }
      undecodable++;
      const char *reason = found + strlen ("fault: ");
      if (g_str_has_prefix (reason, "(missing) "))
        reason += strlen ("(missing) ");
      g_autofree char *word = g_strconcat ("undecodable: ", reason, NULL);
      g_test_message ("%s", word);
      count (reasons, word);
    }
  g_assert_cmpint (ok, ==, lmt_json_get_int (lmt_json_get_member (expected, "ok")));
  g_assert_cmpint (skipped, ==, lmt_json_get_int (lmt_json_get_member (expected, "skipped")));
  g_assert_cmpint (undecodable, ==, lmt_json_get_int (lmt_json_get_member (expected, "undecodable")));
  const LmtJson *list = lmt_json_get_member (expected, "reasons");
  for (guint i = 0; list != NULL && i < lmt_json_get_length (list); i++)
    {
      const char *reason = lmt_json_get_member_name (list, i);
      if (g_str_has_prefix (reason, "undecodable: "))
        g_assert_cmpuint (GPOINTER_TO_UINT (g_hash_table_lookup (reasons, reason)), ==,
                          lmt_json_get_int (lmt_json_get_member_value (list, i)));
    }
}

/* -------- shape by shape -------- */

#define KEY(hash, group)                                                                                                         \
  "{\"$tag\": [\"ObjectKey\", {\"chunk_hash\": {\"$bin\": \"" hash                                                               \
  "\"}, \"model_name\": \"m\", \"kv_rank\": 1, \"object_group_id\": " #group "}]}"
#define OLD_KEY(hash)                                                                                                            \
  "{\"$tag\": [\"ObjectKey\", {\"chunk_hash\": {\"$bin\": \"" hash "\"}, \"model_name\": \"m\", \"kv_rank\": 1}]}"
#define LAYOUT(n) "{\"$tag\": [\"MemoryLayoutDesc\", {\"shapes\": [[" #n "]], \"dtypes\": [\"torch.float16\"]}]}"
#define TAG(tag, value) "{\"$tag\": [\"" tag "\", " value "]}"
#define GROUPED(keys, group, window)                                                                                             \
  TAG ("GroupedObjectKeys", "{\"keys\": [" keys "], \"object_group_id\": " #group                                                \
                            ", \"layout_desc\": " LAYOUT (4) ", \"sliding_window_size\": " #window "}")
#define TASK(groups, rest) "{\"spec\": " TAG ("PrefetchTaskSpec", "{\"key_groups\": [" groups "], " rest "}") "}"
#define T1 "\"num_kv_readers\": 2, \"fetching_policy\": \"prefix\", \"lock_mode\": " TAG ("PrefetchLockMode", "\"LOCK\"")
#define REQUEST(rest) "{\"spec\": " TAG ("PrefetchRequestSpec", "{" rest "}") "}"
#define ROW(group, window, bytes, keys) "\nrow group=" #group " window=" #window " bytes=" #bytes " keys=" keys
#define K(hash, group) "m|1|" #group "|" hash "| "
#define HEAD(locks, policy, lock, l1, l2)                                                                                        \
  "op=3 id= locks=" #locks " policy=" #policy " lock=" #lock " look_l1=" #l1 " allow_l2=" #l2

static const struct
{
  const char *name;
  guint32 op;
  const char *args;
  const char *expected;
} shapes[] = {
  { "finish-write/0.4.4", SM_OP_FINISH_WRITE, "{\"keys\": [" OLD_KEY ("aa01") "]}", "op=1 keys=" K ("aa01", 0) },
  { "finish-write/0.5.6", SM_OP_FINISH_WRITE, "{\"keys\": [" KEY ("aa01", 3) "]}", "op=1 keys=" K ("aa01", 3) },
  { "finish-write/empty", SM_OP_FINISH_WRITE, "{\"keys\": []}", "op=1 keys=" },
  { "finish-write/tuple", SM_OP_FINISH_WRITE, "{\"keys\": " TAG ("tuple", "[" KEY ("aa01", 0) "]") "}",
    "op=1 keys=" K ("aa01", 0) },
  { "finish-write/set", SM_OP_FINISH_WRITE, "{\"keys\": " TAG ("set", "[" KEY ("aa01", 0) "]") "}", "op=1 keys=" K ("aa01", 0) },
  { "finish-write/unknown-argument", SM_OP_FINISH_WRITE, "{\"keys\": [], \"mode\": 3, \"l1_owners\": {\"a\": [1.5, null]}}",
    "op=1 keys=" },
  { "finish-write/unknown-argument-tag", SM_OP_FINISH_WRITE, "{\"keys\": [], \"x\": [{\"a\": " TAG ("Newer", "1") "}]}",
    "fault: unknown tag Newer" },
  { "finish-write/unknown-argument-no-v", SM_OP_FINISH_WRITE, "{\"keys\": [], \"x\": {\"__t__\": \"set\"}}",
    "fault: tagged value without v" },
  { "finish-write/nil-tag", SM_OP_FINISH_WRITE, "{\"keys\": [], \"x\": {\"__t__\": null}}", "op=1 keys=" },
  { "finish-write/int-tag", SM_OP_FINISH_WRITE, "{\"keys\": [{\"__t__\": 5, \"v\": 1}]}", "fault: unknown tag" },
  { "finish-write/salt", SM_OP_FINISH_WRITE,
    "{\"keys\": [" TAG (
        "ObjectKey", "{\"chunk_hash\": {\"$bin\": \"01\"}, \"model_name\": \"m\", \"kv_rank\": 1, \"cache_salt\": \"t\"}") "]}",
    "op=1 keys=m|1|0|01|t " },
  { "finish-write/salt-at", SM_OP_FINISH_WRITE,
    "{\"keys\": [" TAG (
        "ObjectKey", "{\"chunk_hash\": {\"$bin\": \"01\"}, \"model_name\": \"m\", \"kv_rank\": 1, \"cache_salt\": \"a@b\"}") "]}",
    "fault: ObjectKey.cache_salt contains @" },
  { "finish-write/negative-rank", SM_OP_FINISH_WRITE,
    "{\"keys\": [" TAG ("ObjectKey", "{\"chunk_hash\": {\"$bin\": \"\"}, \"model_name\": \"\", \"kv_rank\": -1}") "]}",
    "op=1 keys=|18446744073709551615|0|| " },
  { "finish-write/other-tag", SM_OP_FINISH_WRITE, "{\"keys\": [" LAYOUT (1) "]}",
    "fault: keys holds something else than ObjectKey" },
  { "finish-write/no-keys", SM_OP_FINISH_WRITE, "{}", "fault: (missing) argument keys absent" },
  { "finish-write/keys-nil", SM_OP_FINISH_WRITE, "{\"keys\": null}", "fault: argument keys is not an array" },
  { "finish-write/keys-ext", SM_OP_FINISH_WRITE, "{\"keys\": {\"$ext\": 5}}", "fault: extension type" },
  { "finish-write/key-ext", SM_OP_FINISH_WRITE, "{\"keys\": [" KEY ("aa", 0) ", {\"$ext\": 5}]}", "fault: extension type" },
  { "finish-write/keys-twice", SM_OP_FINISH_WRITE, "{\"$pairs\": [\"keys\", [" KEY ("aa", 0) "], \"keys\", [" KEY ("bb", 0) "]]}",
    "op=1 keys=" K ("bb", 0) },
  { "finish-write/v-first", SM_OP_FINISH_WRITE,
    "{\"keys\": [{\"v\": {\"kv_rank\": 1, \"model_name\": \"m\", \"new\": [], \"chunk_hash\": {\"$bin\": \"aa\"}}, \"__t__\": "
    "\"ObjectKey\"}]}",
    "op=1 keys=" K ("aa", 0) },

  { "reserve/new", SM_OP_RESERVE_WRITE, "{\"keys\": [], \"layout_desc\": " LAYOUT (8) ", \"mode\": \"new\"}",
    "op=0 bytes=16 mode=0 keys=" },
  { "reserve/update", SM_OP_RESERVE_WRITE, "{\"keys\": [], \"layout_desc\": " LAYOUT (8) ", \"mode\": \"update\"}",
    "op=0 bytes=16 mode=1 keys=" },
  { "reserve/all", SM_OP_RESERVE_WRITE, "{\"keys\": [], \"layout_desc\": " LAYOUT (8) ", \"mode\": \"all\"}",
    "op=0 bytes=16 mode=2 keys=" },
  { "reserve/0.5.6", SM_OP_RESERVE_WRITE, "{\"keys\": [], \"layout_desc\": " LAYOUT (8) "}", "op=0 bytes=16 mode=0 keys=" },
  { "reserve/other-mode", SM_OP_RESERVE_WRITE, "{\"keys\": [], \"layout_desc\": " LAYOUT (8) ", \"mode\": \"none\"}",
    "fault: unknown write mode none" },
  { "reserve/no-layout", SM_OP_RESERVE_WRITE, "{\"keys\": []}", "fault: (missing) argument layout_desc absent" },
  { "reserve/lengths", SM_OP_RESERVE_WRITE,
    "{\"keys\": [], \"layout_desc\": " TAG ("MemoryLayoutDesc", "{\"shapes\": [[1]], \"dtypes\": []}") "}",
    "fault: MemoryLayoutDesc has not as many shapes as dtypes" },
  { "reserve/dtype", SM_OP_RESERVE_WRITE,
    "{\"keys\": [], \"layout_desc\": " TAG ("MemoryLayoutDesc", "{\"shapes\": [[1]], \"dtypes\": [\"torch.float17\"]}") "}",
    "fault: unknown dtype torch.float17" },
  { "reserve/huge", SM_OP_RESERVE_WRITE,
    "{\"keys\": [], \"layout_desc\": " TAG ("MemoryLayoutDesc",
                                            "{\"shapes\": [[4294967296, 4294967296]], \"dtypes\": [\"torch.int8\"]}") "}",
    "fault: MemoryLayoutDesc describes more bytes than 64 bits count" },
  { "reserve/zero", SM_OP_RESERVE_WRITE,
    "{\"keys\": [], \"layout_desc\": " TAG ("MemoryLayoutDesc",
                                            "{\"shapes\": [[4294967296, 4294967296, 0]], \"dtypes\": [\"torch.int8\"]}") "}",
    "op=0 bytes=0 mode=0 keys=" },

  { "finish-read/extra", SM_OP_FINISH_READ, "{\"keys\": [], \"extra_count\": 2}", "op=6 locks=3 keys=" },
  { "finish-read/locks", SM_OP_FINISH_READ, "{\"keys\": [], \"read_locks\": 2}", "op=6 locks=2 keys=" },
  { "finish-read/both", SM_OP_FINISH_READ, "{\"keys\": [], \"extra_count\": 9, \"read_locks\": 2}", "op=6 locks=2 keys=" },
  { "finish-read/neither", SM_OP_FINISH_READ, "{\"keys\": []}", "op=6 locks=1 keys=" },
  { "finish-read/many", SM_OP_FINISH_READ, "{\"keys\": [], \"read_locks\": 500}", "op=6 locks=128 keys=" },
  { "finish-read/few", SM_OP_FINISH_READ, "{\"keys\": [], \"read_locks\": -3}", "op=6 locks=1 keys=" },
  { "finish-read/text", SM_OP_FINISH_READ, "{\"keys\": [], \"read_locks\": \"2\"}",
    "fault: argument read_locks is not an integer" },

  { "prefetch/0.4.4", SM_OP_PREFETCH,
    "{\"keys\": [" OLD_KEY ("a1") ", " OLD_KEY ("a2") "], \"layout_desc\": " LAYOUT (
        4) ", \"extra_count\": 1, \"external_request_id\": \"r\"}",
    "op=3 id=r locks=2 policy=0 lock=0 look_l1=1 allow_l2=1" ROW (0, -1, 8, K ("a1", 0) K ("a2", 0)) "\nflat=0,1," },
  { "prefetch/0.4.7-segmented", SM_OP_PREFETCH,
    "{\"keys\": [" KEY ("a1", 1) "], \"layout_desc\": " LAYOUT (4) ", \"policy\": " TAG ("TrimPolicy",
                                                                                         "\"SEGMENTED_PREFIX\"") "}",
    HEAD (1, 0, 0, 1, 1) ROW (1, -1, 8, K ("a1", 1)) "\nflat=0," },
  { "prefetch/0.5.0-sparse-skip", SM_OP_PREFETCH,
    "{\"keys\": [" KEY ("a1", 0) "], \"layout_desc\": " LAYOUT (4) ", \"policy\": " TAG ("TrimPolicy",
                                                                                         "\"SPARSE\"") ", \"skip_l2\": true}",
    HEAD (1, 1, 0, 1, 0) ROW (0, -1, 8, K ("a1", 0)) "\nflat=0," },
  { "prefetch/0.5.1-warm", SM_OP_PREFETCH,
    "{\"keys\": [" KEY ("a1", 0) ", " KEY ("a2", 1) "], \"layout_desc\": " LAYOUT (4) ", \"attn_desc\": " TAG (
        "AttnWindowDesc", "[-1, 2]") ", \"mode\": " TAG ("PrefetchMode", "\"WARM\"") "}",
    HEAD (1, 0, 1, 0, 1) ROW (0, -1, 8, K ("a1", 0) K ("a2", 1)) "\nflat=0,1," },
  { "prefetch/no-arguments", SM_OP_PREFETCH, "{}", "fault: (missing) argument spec absent" },
  { "prefetch/keys-without-layout", SM_OP_PREFETCH, "{\"keys\": []}", "fault: (missing) argument layout_desc absent" },
  { "prefetch/R1-grid", SM_OP_PREFETCH,
    REQUEST ("\"keys\": [" KEY ("00", 0) ", " KEY ("01", 0) ", " KEY ("10", 1) ", " KEY ("11", 1) ", " KEY ("02", 0) ", " KEY (
        "03", 0) ", " KEY ("12",
                           1) ", " KEY ("13",
                                        1) "], \"extra_count\": 0, \"attn_desc\": " TAG ("AttnWindowDesc",
                                                                                         "{\"num_chunks_in_sw\": [-1, 2], "
                                                                                         "\"world_size\": "
                                                                                         "2}") ", \"group_layout_descs\": "
                                                                                               "{\"1\": " LAYOUT (
                                                                                                   5) ", \"0\": " LAYOUT (4) "}"),
    HEAD (1, 0, 0, 1, 1) ROW (0, -1, 8, K ("00", 0) K ("02", 0)) ROW (0, -1, 8, K ("01", 0) K ("03", 0))
        ROW (1, 2, 10, K ("10", 1) K ("12", 1)) ROW (1, 2, 10, K ("11", 1) K ("13", 1)) "\nflat=0,2,4,6,1,3,5,7," },
  { "prefetch/R2-sparse-mixed", SM_OP_PREFETCH,
    REQUEST ("\"keys\": [" KEY ("00", 0) ", " KEY ("10", 1) "], \"num_kv_readers\": 3, \"policy\": " TAG (
        "TrimPolicy",
        "\"SPARSE\"") ", \"attn_desc\": " TAG ("AttnWindowDesc",
                                               "{\"num_chunks_in_sw\": [-1, 2], \"world_size\": 1}") ", \"group_layout_descs\": "
                                                                                                     "{\"0\": " LAYOUT (
                                                                                                         4) ", "
                                                                                                            "\"1\""
                                                                                                            ":"
                                                                                                            " " LAYOUT (5) "}"),
    HEAD (3, 1, 0, 1, 1) "\nrow group=0 window=-1 bytes=8 cells=8,10, keys=" K ("00", 0) K ("10", 1) "\nflat=0,1," },
  { "prefetch/R2-sparse-like-layouts", SM_OP_PREFETCH,
    REQUEST ("\"keys\": [" KEY ("10", 1) ", " KEY ("00", 0) "], \"num_kv_readers\": 1, \"policy\": " TAG (
        "TrimPolicy", "\"SPARSE\"") ", \"attn_desc\": " TAG ("AttnWindowDesc", "{\"num_chunks_in_sw\": [-1, 2], \"world_size\": "
                                                                               "1}") ", "
                                                                                     "\"group_layout_descs\": {\"0\": " LAYOUT (
                                                                                         4) ", \"1\": " LAYOUT (4) "}"),
    HEAD (1, 1, 0, 1, 1) "\nrow group=1 window=-1 bytes=8 cells=8,8, keys=" K ("10", 1) K ("00", 0) "\nflat=0,1," },
  { "prefetch/0.5.1-sparse-groups", SM_OP_PREFETCH,
    "{\"keys\": [" KEY ("a1", 0) ", " KEY ("a2", 1) "], \"layout_desc\": " LAYOUT (4) ", \"policy\": " TAG ("TrimPolicy",
                                                                                                            "\"SPARSE\"") "}",
    HEAD (1, 1, 0, 1, 1) "\nrow group=0 window=-1 bytes=8 cells=8,8, keys=" K ("a1", 0) K ("a2", 1) "\nflat=0,1," },
  { "prefetch/R2-undivided", SM_OP_PREFETCH,
    REQUEST ("\"keys\": [" KEY ("00", 0) ", " KEY ("01", 0) ", " KEY ("02", 0) "], \"num_kv_readers\": 1, \"attn_desc\": " TAG (
        "AttnWindowDesc", "{\"num_chunks_in_sw\": [4], \"world_size\": 2}") ", \"group_layout_descs\": {\"0\": " LAYOUT (4) "}"),
    HEAD (1, 0, 0, 1, 1) ROW (0, -1, 8, K ("00", 0) K ("01", 0) K ("02", 0)) "\nflat=0,1,2," },
  { "prefetch/R1-single-layout", SM_OP_PREFETCH,
    REQUEST ("\"keys\": [" KEY ("00", 0) "], \"extra_count\": 1, \"layout_desc\": " LAYOUT (4)),
    HEAD (2, 0, 0, 1, 1) ROW (0, -1, 8, K ("00", 0)) "\nflat=0," },
  { "prefetch/R-neither-count", SM_OP_PREFETCH, REQUEST ("\"keys\": [" KEY ("00", 0) "], \"layout_desc\": " LAYOUT (4)),
    HEAD (1, 0, 0, 1, 1) ROW (0, -1, 8, K ("00", 0)) "\nflat=0," },
  { "prefetch/R-both-counts", SM_OP_PREFETCH,
    REQUEST ("\"keys\": [" KEY ("00", 0) "], \"extra_count\": 8, \"num_kv_readers\": 2, \"layout_desc\": " LAYOUT (4)),
    HEAD (2, 0, 0, 1, 1) ROW (0, -1, 8, K ("00", 0)) "\nflat=0," },
  { "prefetch/R-world-from-the-file", SM_OP_PREFETCH,
    REQUEST ("\"keys\": [], \"extra_count\": 0, \"attn_desc\": " TAG (
        "AttnWindowDesc", "{\"num_chunks_in_sw\": [-1], \"world_size\": 9000000000000000000}") ", \"layout_desc\": " LAYOUT (4)),
    HEAD (1, 0, 0, 1, 1) ROW (0, -1, 8, "") "\nflat=" },
  { "prefetch/R-layout-lacks-group", SM_OP_PREFETCH,
    REQUEST ("\"keys\": [], \"extra_count\": 0, \"attn_desc\": " TAG (
        "AttnWindowDesc",
        "{\"num_chunks_in_sw\": [-1, -1], \"world_size\": 1}") ", \"group_layout_descs\": {\"0\": " LAYOUT (4) "}"),
    "fault: group_layout_descs lacks a group" },
  { "prefetch/R-window-zero", SM_OP_PREFETCH,
    REQUEST ("\"keys\": [], \"attn_desc\": " TAG (
        "AttnWindowDesc", "{\"num_chunks_in_sw\": [0], \"world_size\": 1}") ", \"layout_desc\": " LAYOUT (4)),
    "fault: window is neither -1 nor >= 1" },
  { "prefetch/R-world-zero", SM_OP_PREFETCH,
    REQUEST ("\"keys\": [], \"attn_desc\": " TAG (
        "AttnWindowDesc", "{\"num_chunks_in_sw\": [1], \"world_size\": 0}") ", \"layout_desc\": " LAYOUT (4)),
    "fault: AttnWindowDesc.world_size below 1" },
  { "prefetch/R2-no-readers", SM_OP_PREFETCH, REQUEST ("\"keys\": [], \"num_kv_readers\": 0, \"layout_desc\": " LAYOUT (4)),
    "fault: PrefetchRequestSpec.num_kv_readers below 1" },
  { "prefetch/R-policy", SM_OP_PREFETCH,
    REQUEST ("\"keys\": [], \"policy\": " TAG ("TrimPolicy", "\"ALL\"") ", \"layout_desc\": " LAYOUT (4)),
    "fault: unknown TrimPolicy ALL" },
  { "prefetch/spec-over-keys", SM_OP_PREFETCH,
    "{\"keys\": [" KEY ("ff", 0) "], \"spec\": " TAG ("PrefetchRequestSpec",
                                                      "{\"keys\": [" KEY ("00", 0) "], \"layout_desc\": " LAYOUT (4) "}") "}",
    HEAD (1, 0, 0, 1, 1) ROW (0, -1, 8, K ("00", 0)) "\nflat=0," },
  { "prefetch/T1", SM_OP_PREFETCH, TASK (GROUPED (KEY ("00", 0), 0, -1) ", " GROUPED (KEY ("10", 1), 1, 2), T1),
    HEAD (2, 0, 0, 1, 1) ROW (0, -1, 8, K ("00", 0)) ROW (1, 2, 8, K ("10", 1)) },
  { "prefetch/T1-full-nolock", SM_OP_PREFETCH,
    TASK (GROUPED ("", 0, -1),
          "\"num_kv_readers\": 200, \"fetching_policy\": \"full\", \"lock_mode\": " TAG ("PrefetchLockMode", "\"NO_LOCK\"")),
    HEAD (128, 1, 1, 1, 1) ROW (0, -1, 8, "") },
  { "prefetch/T1-unequal", SM_OP_PREFETCH, TASK (GROUPED (KEY ("00", 0), 0, -1) ", " GROUPED ("", 1, 2), T1),
    "fault: key_groups of unequal length" },
  { "prefetch/T1-no-rows", SM_OP_PREFETCH, TASK ("", T1), "fault: PrefetchTaskSpec.key_groups is empty" },
  { "prefetch/T1-window", SM_OP_PREFETCH, TASK (GROUPED ("", 0, 0), T1),
    "fault: GroupedObjectKeys.sliding_window_size is neither -1 nor >= 1" },
  { "prefetch/T1-readers", SM_OP_PREFETCH,
    TASK (GROUPED ("", 0, 1),
          "\"num_kv_readers\": 0, \"fetching_policy\": \"full\", \"lock_mode\": " TAG ("PrefetchLockMode", "\"LOCK\"")),
    "fault: PrefetchTaskSpec.num_kv_readers below 1" },
  { "prefetch/T1-policy", SM_OP_PREFETCH,
    TASK (GROUPED ("", 0, 1),
          "\"num_kv_readers\": 1, \"fetching_policy\": \"some\", \"lock_mode\": " TAG ("PrefetchLockMode", "\"LOCK\"")),
    "fault: unknown PrefetchTaskSpec.fetching_policy some" },
  { "prefetch/T1-member-absent", SM_OP_PREFETCH,
    TASK (GROUPED ("", 0, 1), "\"num_kv_readers\": 1, \"fetching_policy\": \"full\""),
    "fault: PrefetchTaskSpec without lock_mode" },
  { "prefetch/T2-nil", SM_OP_PREFETCH,
    TASK (GROUPED ("", 0, -1), T1 ", \"allowed_l1_memory_tags\": null, \"allowed_l2_memory_tags\": null"),
    HEAD (2, 0, 0, 1, 1) ROW (0, -1, 8, "") },
  { "prefetch/T2-none", SM_OP_PREFETCH,
    TASK (GROUPED ("", 0, -1), T1 ", \"allowed_l1_memory_tags\": [], \"allowed_l2_memory_tags\": []"),
    HEAD (2, 0, 0, 0, 0) ROW (0, -1, 8, "") },
  { "prefetch/T2-some", SM_OP_PREFETCH,
    TASK (GROUPED ("", 0, -1),
          T1 ", \"allowed_l1_memory_tags\": [" TAG (
              "MemoryTags",
              "{\"segment\": \"dram\", \"residency\": \"local\"}") "], \"allowed_l2_memory_tags\": [" TAG ("MemoryTags",
                                                                                                           "{\"segment\": "
                                                                                                           "\"storage\", "
                                                                                                           "\"residency\": "
                                                                                                           "\"remote\"}") "]"),
    HEAD (2, 0, 0, 1, 1) ROW (0, -1, 8, "") },
  { "prefetch/T2-tag", SM_OP_PREFETCH,
    TASK (GROUPED ("", 0, -1),
          T1 ", \"allowed_l1_memory_tags\": [" TAG ("MemoryTags", "{\"segment\": \"tape\", \"residency\": \"local\"}") "]"),
    "fault: unknown MemoryTags.segment tape" },
  { "prefetch/unknown-spec", SM_OP_PREFETCH, "{\"spec\": " TAG ("PrefetchSpecV3", "{}") "}",
    "fault: unknown tag PrefetchSpecV3" },
  { "prefetch/other-spec", SM_OP_PREFETCH, "{\"spec\": " LAYOUT (1) "}", "fault: argument spec is not a prefetch spec" },
  { "prefetch/spec-ext", SM_OP_PREFETCH, "{\"spec\": {\"$ext\": 1}}", "fault: extension type" },
  { "prefetch/skip-int", SM_OP_PREFETCH, "{\"keys\": [], \"layout_desc\": " LAYOUT (1) ", \"skip_l2\": 1}",
    "fault: argument skip_l2 is not a bool" },
};

static void
test_shape (gconstpointer data)
{
  guint i = GPOINTER_TO_UINT (data);
  g_auto (Fixture) f = { NULL, NULL };
  g_autoptr (GByteArray) args = oracle_pack (shapes[i].args);
  fixture_init (&f);
  /* Twice: the second time everything is remembered from the first. */
  for (guint pass = 0; pass < 2; pass++)
    {
      g_autofree char *found = decode (&f, shapes[i].op, (LmtSpan){ args->data, args->len }, NULL);
      g_assert_cmpstr (found, ==, shapes[i].expected);
    }
  /* Cut anywhere, it is refused or decoded, never read beyond. */
  for (guint len = 0; len < args->len; len++)
    {
      g_autofree guint8 *copy = g_memdup2 (args->data, len);
      g_autofree char *cut = decode (&f, shapes[i].op, (LmtSpan){ copy, len }, NULL);
      g_assert_true (g_str_has_prefix (cut, "fault: "));
    }
}

static void
test_place (void)
{
  g_auto (Fixture) f = { NULL, NULL };
  g_autoptr (GByteArray) args = oracle_pack ("{\"keys\": [" KEY ("aa", 0) ", " KEY ("ab", 0) ", [1, 2]]}");
  LmtFault fault;
  fixture_init (&f);
  g_autofree char *found = decode (&f, SM_OP_FINISH_WRITE, (LmtSpan){ args->data, args->len }, &fault);
  g_autofree char *text = lmt_fault_to_string (&fault);
  g_assert_cmpstr (
      text, ==, "record 7 at offset 99: args.keys[2]: keys holds something else than ObjectKey: expected ObjectKey, found array");
  g_assert_cmpstr (found, ==, "fault: keys holds something else than ObjectKey");
}

static void
test_notes (void)
{
  static const char *const args[] = {
    "{\"keys\": [" KEY ("a1", 0) "], \"layout_desc\": " LAYOUT (4) ", \"policy\": " TAG (
        "TrimPolicy", "\"SEGMENTED_PREFIX\"") ", \"extra_count\": 400}",
    REQUEST ("\"keys\": [" KEY ("00", 0) ", " KEY ("01", 0) ", " KEY ("02", 0) "], \"attn_desc\": " TAG (
        "AttnWindowDesc", "{\"num_chunks_in_sw\": [4], \"world_size\": 2}") ", \"layout_desc\": " LAYOUT (4)),
    TASK (GROUPED ("", 0, -1), T1 ", \"allowed_l1_memory_tags\": []"),
    "{\"keys\": [" TAG ("ObjectKey", "{\"chunk_hash\": {\"$bin\": \"01\"}, \"model_name\": \"m\", \"kv_rank\": 1, "
                                     "\"cache_salt\": \"t\"}") "], \"layout_desc\": " LAYOUT (4) ", \"nobody_knows\": 1}",
  };
  g_auto (Fixture) f = { NULL, NULL };
  fixture_init (&f);
  for (guint i = 0; i < G_N_ELEMENTS (args); i++)
    {
      g_autoptr (GByteArray) bytes = oracle_pack (args[i]);
      g_autofree char *found = decode (&f, SM_OP_PREFETCH, (LmtSpan){ bytes->data, bytes->len }, NULL);
      g_assert_false (g_str_has_prefix (found, "fault"));
    }
  const SmDecodeNotes *notes = sm_decoder_get_notes (f.decoder);
  g_assert_cmpuint (notes->keys, ==, 5);
  g_assert_cmpuint (notes->salted_keys, ==, 1);
  g_assert_cmpuint (notes->clamped_locks, ==, 1);
  g_assert_cmpuint (notes->segmented_prefix, ==, 1);
  g_assert_cmpuint (notes->undivided_rows, ==, 1);
  g_assert_cmpuint (notes->flat_requests, ==, 3);
  g_assert_cmpuint (notes->tag_filters, ==, 1);
  g_assert_cmpuint (notes->unknown_arguments, ==, 1);
}

/* A count in the file reserves nothing: four bytes promise 2^32 - 1 keys. */
static void
test_promises (void)
{
  static const guint8 bytes[] = { 0x81, 0xa4, 'k', 'e', 'y', 's', 0xdd, 0xff, 0xff, 0xff, 0xff };
  g_auto (Fixture) f = { NULL, NULL };
  fixture_init (&f);
  g_autofree char *found = decode (&f, SM_OP_FINISH_WRITE, (LmtSpan){ bytes, sizeof bytes }, NULL);
  g_assert_true (g_str_has_prefix (found, "fault: "));
}

/* Thousands of levels of nested lists and wrappers, as the cursor's check lets pass at most: no deep recursion, no long walk. */
static void
test_deep (void)
{
  g_auto (Fixture) f = { NULL, NULL };
  g_autoptr (GByteArray) args = g_byte_array_new ();
  fixture_init (&f);
  g_byte_array_append (args, (const guint8 *)"\x82\xa4keys\x90\xa1x", 9);
  for (guint i = 0; i < 500; i++)
    g_byte_array_append (args,
                         (const guint8 *)"\x81\xa1"
                                         "a",
                         3);
  g_byte_array_append (args, (const guint8 *)"\xc0", 1);
  g_autofree char *found = decode (&f, SM_OP_FINISH_WRITE, (LmtSpan){ args->data, args->len }, NULL);
  g_assert_cmpstr (found, ==, "op=1 keys=");
}

static void
test_select (void)
{
  g_auto (Fixture) f = { NULL, NULL };
  char *models[] = { (char *)"other", NULL }, *mine[] = { (char *)"m", NULL };
  LmtSelectConfig no = { .model = models }, yes = { .model = mine };
  g_autoptr (GError) error = NULL;
  g_autoptr (LmtSelect) select_no = lmt_select_new (&no, NULL, -1, &error);
  g_autoptr (LmtSelect) select_yes = lmt_select_new (&yes, NULL, -1, &error);
  g_assert_no_error (error);
  fixture_init (&f);
  static const char *const args[] = {
    TASK (GROUPED (KEY ("00", 0), 0, -1), T1), "{\"keys\": [" OLD_KEY ("01") "]}",
    "{\"keys\": [{\"v\": {\"kv_rank\": 1, \"model_name\": \"m\", \"chunk_hash\": {\"$bin\": \"aa\"}}, \"__t__\": \"ObjectKey\"}]}"
  };
  for (guint i = 0; i < G_N_ELEMENTS (args); i++)
    {
      g_autoptr (GByteArray) bytes = oracle_pack (args[i]);
      LmtRecord record = { .args = { bytes->data, bytes->len } };
      g_assert_true (sm_decoder_select (f.decoder, &record, select_yes));
      g_assert_false (sm_decoder_select (f.decoder, &record, select_no));
    }
  g_autoptr (GByteArray) none = oracle_pack ("{\"keys\": []}");
  LmtRecord record = { .args = { none->data, none->len } };
  g_assert_false (sm_decoder_select (f.decoder, &record, select_yes));
}

/* Bytes changed, inserted, left out: an answer, no read beyond (the sanitizer looks on), every reference given back. */
static void
test_mutations (void)
{
  static const char *const files[] = { "0.4.4/basic.lct", "0.5.2/groups.lct", "0.5.4/groups.lct", "0.5.7rc3/groups.lct" };
  g_autoptr (GRand) rand = g_rand_new_with_seed (4711);
  guint64 n_ok = 0, n_bad = 0;
  for (guint i = 0; i < G_N_ELEMENTS (files); i++)
    {
      g_auto (Fixture) f = { NULL, NULL };
      g_autofree char *path = g_build_filename (g_getenv ("LMT_TEST_DATA"), "storage", files[i], NULL);
      g_autoptr (LmtReader) reader = open_trace (path);
      LmtRecord record;
      fixture_init (&f);
      while (lmt_reader_next (reader, &record) == LMT_READ_RECORD)
        for (guint pass = 0; pass < 40; pass++)
          {
            gsize len = record.args.len - (gsize)g_rand_int_range (rand, 0, 2);
            g_autofree guint8 *copy = g_memdup2 (record.args.data, len);
            for (gint32 change = g_rand_int_range (rand, 0, 3); change >= 0; change--)
              {
                gsize at = (gsize)g_rand_int_range (rand, 0, (gint32)len);
                copy[at] = g_rand_boolean (rand) ? (guint8)g_rand_int (rand) : copy[(at + 1) % len];
              }
            g_autofree char *found = decode (&f, (guint32)oracle_op (record.qualname), (LmtSpan){ copy, len }, NULL);
            *(g_str_has_prefix (found, "fault: ") ? &n_bad : &n_ok) += 1;
          }
    }
  g_assert_cmpuint (n_ok, >, 100);
  g_assert_cmpuint (n_bad, >, 1000);
}

static guint
add_folder (const char *root, const char *release)
{
  g_autofree char *folder = g_build_filename (root, release, NULL);
  g_autoptr (GDir) dir = g_dir_open (folder, 0, NULL);
  const char *name;
  guint n = 0;
  while (dir != NULL && (name = g_dir_read_name (dir)) != NULL)
    {
      if (!g_str_has_suffix (name, ".lct"))
        continue;
      gboolean malformed = g_str_equal (release, "malformed");
      g_autofree char *title = g_strdup_printf ("/decode/golden/%s/%s", release, name);
      char *path = g_build_filename (folder, name, NULL);
      if (malformed)
        path[strlen (path) - strlen (".lct")] = '\0';
      g_test_add_data_func_full (title, path, malformed ? test_malformed : test_golden, g_free);
      n++;
    }
  return n;
}

int
main (int argc, char **argv)
{
  g_autofree char *root = g_build_filename (g_getenv ("LMT_TEST_DATA"), "storage", NULL);
  const char *name;
  guint n = 0;
  g_test_init (&argc, &argv, NULL);
  g_autoptr (GDir) dir = g_dir_open (root, 0, NULL);
  while (dir != NULL && (name = g_dir_read_name (dir)) != NULL)
    n += add_folder (root, name);
  g_assert_cmpuint (n, >=, 120); /* a folder that isn't found must not pass */
  for (guint i = 0; i < G_N_ELEMENTS (shapes); i++)
    {
      g_autofree char *title = g_strdup_printf ("/decode/shape/%s", shapes[i].name);
      g_test_add_data_func (title, GUINT_TO_POINTER (i), test_shape);
    }
  g_test_add_func ("/decode/place", test_place);
  g_test_add_func ("/decode/notes", test_notes);
  g_test_add_func ("/decode/promises", test_promises);
  g_test_add_func ("/decode/deep", test_deep);
  g_test_add_func ("/decode/mutations", test_mutations);
  g_test_add_func ("/decode/select", test_select);
  g_test_add_func ("/decode/no-allocation", test_no_allocation);
  return g_test_run ();
}
