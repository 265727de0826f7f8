/* SPDX-License-Identifier: Apache-2.0 */
/* Every golden trace against what its JSON file says: counts, header, damage, and each byte written back. */
#include <lmtrace/lmt-json.h>
#include <lmtrace/lmt-reader.h>

#include <glib/gstdio.h>
#include <math.h>
#include <string.h>

typedef struct
{
  guint64 frame, offset, length;
  char reason[24];
  char detail[47];
} SeenFault;

typedef struct
{
  GArray *malformed;
  GArray *framing;
} Seen;

static const LmtJson *
member (const LmtJson *json, const char *name)
{
  const LmtJson *value = lmt_json_get_member (json, name);

  if (value == NULL)
    g_error ("the golden file has no member %s", name);
  return value;
}

static gboolean
is_framing (const char *reason)
{
  for (guint i = 0; lmt_malformed_reason (i) != NULL; i++)
    if (strcmp (reason, lmt_malformed_reason (i)) == 0)
      return FALSE;
  return TRUE;
}

static void
on_fault (const LmtFault *fault, gpointer data)
{
  Seen *seen = data;
  SeenFault copy = { fault->number, fault->offset, fault->length, "", "" };

  g_strlcpy (copy.reason, fault->reason, sizeof copy.reason);
  g_strlcpy (copy.detail, fault->detail, sizeof copy.detail);
  g_array_append_val (is_framing (fault->reason) ? seen->framing : seen->malformed, copy);
}

static LmtJson *
load_expectation (const char *path)
{
  g_autofree char *base = g_strndup (path, strlen (path) - strlen (".lct"));
  g_autofree char *name = g_strconcat (base, ".json", NULL);
  g_autofree char *text = NULL;
  g_autoptr (GError) error = NULL;
  LmtJson *json;
  gsize len;

  g_file_get_contents (name, &text, &len, &error);
  g_assert_no_error (error);
  json = lmt_json_parse (text, (gssize)len, &error);
  g_assert_no_error (error);
  return json;
}

static void
count_qualname (GHashTable *counts, LmtSpan qualname)
{
  char *name = g_strndup ((const char *)qualname.data, qualname.len);
  guint n = GPOINTER_TO_UINT (g_hash_table_lookup (counts, name));

  g_hash_table_insert (counts, name, GUINT_TO_POINTER (n + 1));
}

static void
compare_qualnames (GHashTable *counts, const LmtJson *expected)
{
  g_assert_cmpuint (g_hash_table_size (counts), ==, lmt_json_get_length (expected));
  for (guint i = 0; i < lmt_json_get_length (expected); i++)
    g_assert_cmpuint (GPOINTER_TO_UINT (g_hash_table_lookup (counts, lmt_json_get_member_name (expected, i))), ==,
                      lmt_json_get_uint (lmt_json_get_member_value (expected, i)));
}

static void
compare_header (LmtHeader *header, const LmtJson *expected)
{
  gint64 schema;
  double t;

  g_assert_cmpstr (lmt_header_get_level (header), ==, lmt_json_get_string (member (expected, "level")));
  g_assert_cmpint (lmt_header_get_format_version (header), ==, lmt_json_get_int (member (expected, "format_version")));
  g_assert_true (lmt_header_get_schema (header, &schema));
  g_assert_cmpint (schema, ==, lmt_json_get_int (member (expected, "trace_schema_version")));
  g_assert_true (lmt_header_get_t_mono_start (header, &t));
  g_assert_cmpfloat (t, ==, lmt_json_get_double (member (expected, "t_mono_start")));
  g_assert_true (lmt_header_get_t_wall_start (header, &t));
  g_assert_cmpfloat (t, ==, lmt_json_get_double (member (expected, "t_wall_start")));
  g_assert_cmpstr (lmt_header_get_config_json (header), ==, lmt_json_get_string (member (expected, "sm_config_json")));
  g_assert_cmpstr (lmt_header_get_config_digest (header), ==, lmt_json_get_string (member (expected, "sm_config_digest")));
  g_assert_null (lmt_header_get_notes (header)[0]);
}

/* The fields of a header that was read, as a writer wants them. */
static LmtHeaderFields
fields_of (LmtHeader *header)
{
  LmtHeaderFields fields = { .level = lmt_header_get_level (header),
                             .sm_config_json = lmt_header_get_config_json (header),
                             .sm_config_digest = lmt_header_get_config_digest (header),
                             .level_meta_msgpack = lmt_header_get_level_meta (header) };

  lmt_header_get_schema (header, &fields.trace_schema_version);
  lmt_header_get_t_mono_start (header, &fields.t_mono_start);
  lmt_header_get_t_wall_start (header, &fields.t_wall_start);
  return fields;
}

/* Reads all of @path and compares with its golden file; each record goes to @writer, too. */
static void
test_genuine (gconstpointer data)
{
  const char *path = data;
  g_autoptr (LmtJson) expected = load_expectation (path);
  g_autoptr (GHashTable) counts = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  g_autoptr (LmtReader) reader = NULL;
  g_autoptr (GError) error = NULL;
  g_autoptr (GByteArray) again = g_byte_array_new ();
  g_autofree char *raw = NULL;
  const LmtReaderStats *stats;
  LmtHeaderFields fields;
  LmtRecord record;
  gsize raw_len;

  g_file_get_contents (path, &raw, &raw_len, &error);
  g_assert_no_error (error);
  reader = lmt_reader_open (path, &error);
  g_assert_no_error (error);
  lmt_reader_read_header (reader, &error);
  g_assert_no_error (error);
  compare_header (lmt_reader_get_header (reader), member (expected, "header"));
  fields = fields_of (lmt_reader_get_header (reader));
  lmt_header_encode (&fields, again);
  while (lmt_reader_next (reader, &record) == LMT_READ_RECORD)
    {
      LmtRecord split;
      LmtFault fault;

      g_assert_cmpuint (record.offset, ==, again->len);
      g_assert_cmpuint (record.number, ==, record.frame);
      count_qualname (counts, record.qualname);
      lmt_record_encode (record.t_mono, record.t_wall, record.qualname, record.args, again);
      /* What the memory of shapes made of it is what a walk makes of it. */
      g_assert_true (lmt_record_split (record.body, &split, &fault));
      g_assert_true (split.qualname.data == record.qualname.data && split.qualname.len == record.qualname.len);
      g_assert_true (split.args.data == record.args.data && split.args.len == record.args.len);
      g_assert_true (memcmp (&split.t_mono, &record.t_mono, 8) == 0 && memcmp (&split.t_wall, &record.t_wall, 8) == 0);
    }
  g_assert_true (lmt_reader_finish (reader, &error));
  stats = lmt_reader_get_stats (reader);
  g_assert_cmpuint (stats->records, ==, lmt_json_get_uint (member (expected, "records")));
  g_assert_cmpuint (stats->malformed, ==, 0);
  g_assert_cmpuint (stats->tail, ==, LMT_TAIL_CLEAN);
  g_assert_cmpuint (stats->bytes, ==, raw_len);
  g_assert_cmpuint (stats->time_backward, ==, lmt_json_get_uint (member (expected, "backward_time_steps")));
  g_assert_cmpfloat (stats->duration_s, ==, lmt_json_get_double (member (expected, "duration_s")));
  compare_qualnames (counts, member (expected, "qualnames"));
  g_assert_cmpmem (again->data, again->len, raw, raw_len);
}

/* -------- damaged and odd files -------- */

/* The one line of each refusal; the golden file says which reason. */
static const struct
{
  const char *name;
  const char *reason;
  gint code;
  const char *line;
} refusals[] = {
  { "bad-magic", "bad-magic", LMT_ERROR_CORRUPT, "magic: expected b'LMCT', found b'LMCX'" },
  { "empty", "empty-file", LMT_ERROR_TRUNCATED, "expected a trace header, found an empty file" },
  { "foreign-file", "short-body", LMT_ERROR_TRUNCATED, "expected 2303741511 body bytes, found 212" },
  { "format-version-2", "unsupported-format-version", LMT_ERROR_VERSION, "format_version: expected 1, found 2" },
  { "format-version-float", "wrong-type", LMT_ERROR_CORRUPT, "format_version: expected an integer, found a float" },
  { "header-cut", "short-body", LMT_ERROR_TRUNCATED, "expected 1492 body bytes, found 36" },
  { "header-not-map", "not-a-map", LMT_ERROR_CORRUPT, "expected a map, found an array" },
  { "header-tag-record", "wrong-tag", LMT_ERROR_CORRUPT, "type: expected 'header', found 'record'" },
  { "header-trailing", "trailing-bytes", LMT_ERROR_CORRUPT, "trailing-bytes: 2 bytes after the value" },
  { "header-zero-length", "empty-frame", LMT_ERROR_CORRUPT, "empty-frame" },
  { "magic-absent", "missing-field", LMT_ERROR_CORRUPT, "missing field magic" },
  { "magic-is-str", "bad-magic", LMT_ERROR_CORRUPT, "magic: expected bin b'LMCT', found str 'LMCT'" },
  { "one-byte", "short-prefix", LMT_ERROR_TRUNCATED, "expected a length of 4 bytes, found 1" },
  { "prefix-only", "short-body", LMT_ERROR_TRUNCATED, "expected 1492 body bytes, found 0" },
  { "three-bytes", "short-prefix", LMT_ERROR_TRUNCATED, "expected a length of 4 bytes, found 3" },
};

static void
check_refusal (const char *path, const LmtJson *lmtrace, LmtReader *reader)
{
  g_autofree char *base = g_path_get_basename (path);
  const LmtJson *golden = member (lmtrace, "header_error");
  g_autoptr (GError) error = NULL;
  g_autofree char *line = NULL;
  LmtRecord record;

  g_assert_false (lmt_reader_read_header (reader, &error));
  g_assert_cmpint ((gint)lmt_reader_next (reader, &record), ==, LMT_READ_END);
  g_assert_cmpuint (lmt_json_get_uint (member (golden, "offset")), ==, 0);
  for (guint i = 0; i < G_N_ELEMENTS (refusals); i++)
    {
      if (strncmp (base, refusals[i].name, strlen (base) - 4) != 0 || strlen (refusals[i].name) != strlen (base) - 4)
        continue;
      g_assert_cmpstr (refusals[i].reason, ==, lmt_json_get_string (member (golden, "reason")));
      line = g_strdup_printf ("%s: frame 0 at offset 0: %s", path, refusals[i].line);
      g_assert_error (error, LMT_ERROR, refusals[i].code);
      g_assert_cmpstr (error->message, ==, line);
      return;
    }
  g_error ("%s: no line is known for this refusal", path);
}

static void
check_notes (LmtReader *reader, const LmtJson *lmtrace)
{
  const char *const *notes = lmt_header_get_notes (lmt_reader_get_header (reader));
  const LmtJson *expected = lmt_json_get_member (lmtrace, "header_notes");

  for (guint i = 0; expected != NULL && i < lmt_json_get_length (expected); i++)
    {
      const char *note = lmt_json_get_string (lmt_json_get_element (expected, i));

      /* Which levels there are only the registry knows: the note is the command's. */
      if (!g_str_has_prefix (note, "level "))
        g_assert_true (g_strv_contains (notes, note));
    }
}

static void
check_malformed (const Seen *seen, const LmtReaderStats *stats, const LmtJson *lmtrace)
{
  const LmtJson *list = member (lmtrace, "malformed");
  guint64 first = seen->malformed->len;

  g_assert_cmpuint (stats->malformed, ==, lmt_json_get_uint (member (lmtrace, "malformed_count")));
  g_assert_cmpuint (first + stats->zero_fill_frames, ==, stats->malformed);
  for (guint i = 0; i < lmt_json_get_length (list); i++)
    {
      const LmtJson *golden = lmt_json_get_element (list, i);
      SeenFault fault = { 0 };

      if (i < first)
        fault = g_array_index (seen->malformed, SeenFault, i);
      else
        {
          /* Zero fill is one finding that stands for all its frames. */
          SeenFault fill = g_array_index (seen->framing, SeenFault, 0);

          g_assert_cmpstr (fill.reason, ==, "zero-fill");
          fault.frame = fill.frame + (i - first);
          fault.offset = fill.offset + 4 * (i - first);
          g_strlcpy (fault.reason, "empty-frame", sizeof fault.reason);
        }
      g_assert_cmpuint (fault.frame, ==, lmt_json_get_uint (member (golden, "frame")));
      g_assert_cmpuint (fault.offset, ==, lmt_json_get_uint (member (golden, "offset")));
      g_assert_cmpuint (fault.length, ==, lmt_json_get_uint (member (golden, "length")));
      g_assert_cmpstr (fault.reason, ==, lmt_json_get_string (member (golden, "reason")));
      g_assert_cmpstr (fault.detail, ==, lmt_json_get_string (member (golden, "detail")));
    }
}

static void
check_tail (const Seen *seen, const LmtReaderStats *stats, const LmtJson *lmtrace)
{
  const LmtJson *tail = member (lmtrace, "tail");
  const LmtJson *resync = lmt_json_get_member (lmtrace, "resync");
  gboolean prefix;

  if (lmt_json_get_type (tail) == LMT_JSON_NULL)
    {
      g_assert_true (stats->tail == LMT_TAIL_CLEAN || stats->tail == LMT_TAIL_ZERO_FILL);
      g_assert_null (resync);
      return;
    }
  g_assert_cmpuint (seen->framing->len, ==, 1);
  g_assert_cmpuint (stats->tail_offset, ==, lmt_json_get_uint (member (tail, "offset")));
  g_assert_cmpuint (g_array_index (seen->framing, SeenFault, 0).offset, ==, stats->tail_offset);
  g_assert_cmpuint (stats->tail_available, ==, lmt_json_get_uint (member (tail, "available")));
  prefix = strcmp (lmt_json_get_string (member (tail, "kind")), "short-prefix") == 0;
  if (!prefix)
    g_assert_cmpuint (stats->tail_promised, ==, lmt_json_get_uint (member (tail, "promised")));
  if (resync == NULL)
    {
      g_assert_cmpuint (stats->tail, ==, prefix ? LMT_TAIL_SHORT_PREFIX : LMT_TAIL_SHORT_BODY);
      g_assert_cmpuint (stats->resync_offset, ==, 0);
      return;
    }
  g_assert_cmpuint (stats->tail, ==, LMT_TAIL_CORRUPT);
  g_assert_cmpuint (stats->resync_offset, ==, lmt_json_get_uint (member (resync, "offset")));
  g_assert_cmpuint (stats->resync_records, ==, lmt_json_get_uint (member (resync, "records")));
}

static void
check_time (const LmtReaderStats *stats, const LmtJson *lmtrace)
{
  const LmtJson *anomalies = lmt_json_get_member (lmtrace, "time_anomalies");

  g_assert_cmpfloat_with_epsilon (stats->duration_s, lmt_json_get_double (member (lmtrace, "duration_s")), 5.1e-7);
  if (anomalies == NULL)
    {
      g_assert_cmpuint (stats->time_non_finite + stats->time_negative + stats->time_backward, ==, 0);
      return;
    }
  g_assert_cmpuint (stats->time_non_finite, ==, lmt_json_get_uint (member (anomalies, "non_finite")));
  g_assert_cmpuint (stats->time_negative, ==, lmt_json_get_uint (member (anomalies, "negative")));
  g_assert_cmpuint (stats->time_backward, ==, lmt_json_get_uint (member (anomalies, "backward_steps")));
}

/* A repairing read gets the records before the damage and those behind it. */
static void
check_resync (const char *path, const LmtJson *lmtrace)
{
  g_autoptr (LmtReader) reader = lmt_reader_open (path, NULL);
  const LmtJson *resync = lmt_json_get_member (lmtrace, "resync");
  const LmtReaderStats *stats = lmt_reader_get_stats (reader);
  LmtRecord record;
  guint64 behind = 0;

  if (resync == NULL)
    return;
  g_assert_true (lmt_reader_read_header (reader, NULL));
  lmt_reader_set_resync (reader, TRUE);
  while (lmt_reader_next (reader, &record) == LMT_READ_RECORD)
    behind += record.offset >= lmt_json_get_uint (member (resync, "offset")) ? 1 : 0;
  g_assert_cmpuint (behind, ==, lmt_json_get_uint (member (resync, "records")));
  g_assert_cmpuint (stats->records, ==, behind + lmt_json_get_uint (member (lmtrace, "records")));
  g_assert_cmpuint (stats->lost_ranges, ==, 1);
  g_assert_cmpuint (stats->lost_bytes, ==,
                    lmt_json_get_uint (member (resync, "offset"))
                        - lmt_json_get_uint (member (member (lmtrace, "tail"), "offset")));
}

static void
test_malformed (gconstpointer data)
{
  const char *path = data;
  g_autoptr (LmtJson) expected = load_expectation (path);
  const LmtJson *lmtrace = member (expected, "lmtrace");
  g_autoptr (GHashTable) counts = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  g_autoptr (GArray) malformed = g_array_new (FALSE, FALSE, sizeof (SeenFault));
  g_autoptr (GArray) framing = g_array_new (FALSE, FALSE, sizeof (SeenFault));
  g_autoptr (LmtReader) reader = NULL;
  g_autoptr (GError) error = NULL;
  Seen seen = { malformed, framing };
  const LmtReaderStats *stats;
  LmtRecord record;

  reader = lmt_reader_open (path, &error);
  g_assert_no_error (error);
  lmt_reader_set_fault_func (reader, on_fault, &seen);
  if (strcmp (lmt_json_get_string (member (lmtrace, "header")), "refused") == 0)
    {
      check_refusal (path, lmtrace, reader);
      return;
    }
  lmt_reader_read_header (reader, &error);
  g_assert_no_error (error);
  check_notes (reader, lmtrace);
  while (lmt_reader_next (reader, &record) == LMT_READ_RECORD)
    count_qualname (counts, record.qualname);
  g_assert_true (lmt_reader_finish (reader, &error));
  stats = lmt_reader_get_stats (reader);
  g_assert_cmpuint (stats->records, ==, lmt_json_get_uint (member (lmtrace, "records")));
  compare_qualnames (counts, member (lmtrace, "qualnames"));
  check_malformed (&seen, stats, lmtrace);
  check_tail (&seen, stats, lmtrace);
  check_time (stats, lmtrace);
  check_resync (path, lmtrace);
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
      g_autofree char *title = NULL;

      if (!g_str_has_suffix (name, ".lct"))
        continue;
      title = g_strdup_printf ("/reader/golden/%s/%s", release, name);
      g_test_add_data_func_full (title, g_build_filename (folder, name, NULL),
                                 strcmp (release, "malformed") == 0 ? test_malformed : test_genuine, g_free);
      n++;
    }
  return n;
}

int
main (int argc, char **argv)
{
  g_autofree char *root = g_build_filename (g_getenv ("LMT_TEST_DATA"), "storage", NULL);
  g_autoptr (GDir) dir = NULL;
  const char *name;
  guint n = 0;

  g_test_init (&argc, &argv, NULL);
  dir = g_dir_open (root, 0, NULL);
  while (dir != NULL && (name = g_dir_read_name (dir)) != NULL)
    n += add_folder (root, name);
  g_assert_cmpuint (n, >=, 120); /* a folder that isn't found must not pass */
  return g_test_run ();
}
