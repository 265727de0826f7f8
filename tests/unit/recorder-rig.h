/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* What the tests of the recorder share: a level of their own, a folder for each test, and what a file holds. */
#include <lmtrace/lmtrace.h>

#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum
{
  CALL_PUT = 0, /* copy: guint64 number, then bytes */
  CALL_RAW,
  CALL_VALUES,
};

static const char *const value_names[] = { "nil", "flag", "int", "uint", "float", "text", "bytes", "list", NULL };
static guint n_encoded;

G_GNUC_UNUSED static gboolean
encode_put (gconstpointer copy, gsize len, guint32 schema, LmtPack *out)
{
  guint64 number;

  __atomic_fetch_add (&n_encoded, 1, __ATOMIC_RELAXED);
  memcpy (&number, copy, sizeof number);
  if (number == 13) /* what this level can't say */
    return FALSE;
  lmt_pack_map (out, 3);
  LMT_PACK_LITERAL (out, "number");
  lmt_pack_uint (out, number);
  LMT_PACK_LITERAL (out, "rest");
  lmt_pack_bin (out, (const guint8 *)copy + sizeof number, len - sizeof number);
  LMT_PACK_LITERAL (out, "schema");
  lmt_pack_uint (out, schema);
  return TRUE;
}

static const LmtTraceCall calls[] = {
  { "test.put", NULL, encode_put, { NULL } },
  { "test.raw", NULL, NULL, { NULL } },
  { "test.values", value_names, NULL, { NULL } },
};
static LmtTraceLevel level = LMT_TRACE_LEVEL_INIT ("demo", calls, G_N_ELEMENTS (calls));
G_GNUC_UNUSED static LmtTraceLevel other = LMT_TRACE_LEVEL_INIT ("other", calls, G_N_ELEMENTS (calls));

/* ---------------- helpers ---------------- */

typedef struct
{
  char *dir;
  char *path;
} Folder;

G_GNUC_UNUSED static void
set_up (Folder *folder, gconstpointer data)
{
  folder->dir = g_dir_make_tmp ("lmt-recorder-XXXXXX", NULL);
  folder->path = g_build_filename (folder->dir, data != NULL ? data : "t.lct", NULL);
}

G_GNUC_UNUSED static void
tear_down (Folder *folder, gconstpointer data)
{
  g_autoptr (GDir) dir = g_dir_open (folder->dir, 0, NULL);
  const char *name;

  while ((name = g_dir_read_name (dir)) != NULL)
    {
      g_autofree char *path = g_build_filename (folder->dir, name, NULL);

      g_unlink (path);
    }
  g_rmdir (folder->dir);
  g_free (folder->path);
  g_free (folder->dir);
}

G_GNUC_UNUSED static LmtRecorder *
record_with (LmtTraceLevel *of, const LmtRecorderParams *params)
{
  g_autoptr (GError) error = NULL;
  LmtRecorder *recorder = lmt_recorder_new (of, params, &error);

  g_assert_no_error (error);
  g_assert_nonnull (recorder);
  return recorder;
}

G_GNUC_UNUSED static LmtRecorder *
record (const char *path)
{
  return record_with (&level, &(LmtRecorderParams){ .struct_size = sizeof (LmtRecorderParams), .path = path });
}

G_GNUC_UNUSED static void
put_of (LmtTraceLevel *of, guint64 number, gsize more)
{
  guint8 *room = lmt_recorder_begin (of, CALL_PUT, sizeof number + more);

  if (room == NULL)
    return;
  memcpy (room, &number, sizeof number);
  memset (room + sizeof number, 0x55, more);
  lmt_recorder_commit (of, sizeof number + more);
}

G_GNUC_UNUSED static void
put (guint64 number)
{
  put_of (&level, number, 0);
}

G_GNUC_UNUSED static void
close_well (LmtRecorder *recorder)
{
  g_autoptr (GError) error = NULL;

  g_assert_true (lmt_recorder_close (recorder, &error));
  g_assert_no_error (error);
  lmt_recorder_free (recorder);
}

G_GNUC_UNUSED static LmtRecorderStats
stats_of (LmtRecorder *recorder)
{
  LmtRecorderStats stats = { .struct_size = sizeof stats };

  lmt_recorder_get_stats (recorder, &stats);
  return stats;
}

/* What a file holds: the members of test.put in order. */
typedef struct
{
  GArray *numbers; /* of guint64 */
  GArray *times;   /* of double */
  guint n_others;
  guint32 tail;
  char *config;
  char *digest;
} Content;

G_GNUC_UNUSED static void
content_clear (Content *content)
{
  g_array_unref (content->numbers);
  g_array_unref (content->times);
  g_free (content->config);
  g_free (content->digest);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Content, content_clear)

G_GNUC_UNUSED static guint64
number_of (const LmtRecord *record)
{
  LmtCursor cursor;
  LmtSpan name;
  guint32 pairs;
  guint64 number = G_MAXUINT64;

  lmt_cursor_init (&cursor, record->args);
  g_assert_true (lmt_cursor_read_map (&cursor, &pairs));
  g_assert_cmpuint (pairs, ==, 3);
  g_assert_true (lmt_cursor_read_str (&cursor, &name));
  g_assert_true (LMT_SPAN_IS (name, "number"));
  g_assert_true (lmt_cursor_read_uint (&cursor, &number));
  return number;
}

G_GNUC_UNUSED static Content
read_file (const char *path)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (LmtReader) reader = lmt_reader_open (path, &error);
  Content content
      = { g_array_new (FALSE, FALSE, sizeof (guint64)), g_array_new (FALSE, FALSE, sizeof (double)), 0, 0, NULL, NULL };
  LmtRecord record;

  g_assert_no_error (error);
  g_assert_true (lmt_reader_read_header (reader, &error));
  g_assert_no_error (error);
  content.config = g_strdup (lmt_header_get_config_json (lmt_reader_get_header (reader)));
  content.digest = g_strdup (lmt_header_get_config_digest (lmt_reader_get_header (reader)));
  while (lmt_reader_next (reader, &record) == LMT_READ_RECORD)
    {
      guint64 number;

      g_array_append_val (content.times, record.t_mono);
      if (!LMT_SPAN_IS (record.qualname, "test.put"))
        {
          content.n_others++;
          continue;
        }
      number = number_of (&record);
      g_array_append_val (content.numbers, number);
    }
  g_assert_cmpuint (lmt_reader_get_stats (reader)->malformed, ==, 0);
  content.tail = lmt_reader_get_stats (reader)->tail;
  return content;
}

G_GNUC_UNUSED static void
expect_numbers (const char *path, guint64 first, guint64 n)
{
  g_auto (Content) content = read_file (path);

  g_assert_cmpuint (content.tail, ==, LMT_TAIL_CLEAN);
  g_assert_cmpuint (content.numbers->len, ==, n);
  for (guint i = 0; i < content.numbers->len; i++)
    g_assert_cmpuint (g_array_index (content.numbers, guint64, i), ==, first + i);
}
