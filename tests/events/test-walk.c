/* SPDX-License-Identifier: Apache-2.0 */
/* `info` of level events by the level's own look at the args and by the reader's: one outcome. */
#include "events-info.h"
#include "events-walk.h"

#include <lmtrace/lmtrace.h>

typedef struct
{
  guint64 records;
  guint64 batches;
  guint64 walked;
} Seen;

static char *
info_of (const char *path, gboolean walking, Seen *seen)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (LmtReader) reader = lmt_reader_open (path, &error);
  g_autoptr (GString) members = g_string_new (NULL);
  g_autoptr (LmtJsonWriter) json = lmt_json_writer_new (members, LMT_JSON_STYLE_SPACED);
  GString *text = g_string_new (NULL);
  const LmtInfoOut out = { sizeof out, 0, text, json };
  LmtRecord record;
  gpointer info;

  g_assert_no_error (error);
  if (!lmt_reader_read_header (reader, NULL))
    return g_string_free (text, FALSE);
  info = events_info_new (lmt_reader_get_header (reader));
  if (walking)
    lmt_reader_set_args_walk (reader, events_info_walk, info);
  lmt_json_writer_begin_object (json);
  while (lmt_reader_next (reader, &record) == LMT_READ_RECORD)
    {
      seen->records++;
      seen->batches += LMT_SPAN_IS (record.qualname, "events.batch");
      seen->walked += record.walked;
      events_info_record (info, &record);
    }
  g_string_append_printf (text, "malformed %" G_GUINT64_FORMAT "\n", lmt_reader_get_stats (reader)->malformed);
  events_info_finish (info, &out);
  events_info_free (info);
  lmt_json_writer_end_object (json);
  g_string_append (text, members->str);
  return g_string_free (text, FALSE);
}

/* All recorded traces, those of odd batches among them. */
static void
test_traces (void)
{
  g_autofree char *folder = g_test_build_filename (G_TEST_DIST, "data", "events", NULL);
  g_autoptr (GDir) dir = g_dir_open (folder, 0, NULL);
  Seen all = { 0 };
  const char *name;

  g_assert_nonnull (dir);
  while ((name = g_dir_read_name (dir)) != NULL)
    {
      g_autofree char *path = g_build_filename (folder, name, NULL);
      g_autofree char *ours = NULL;
      g_autofree char *cores = NULL;
      Seen seen = { 0 }, plain = { 0 };

      if (!g_str_has_suffix (name, ".lct") && !g_str_has_suffix (name, ".lct.gz"))
        continue;
      ours = info_of (path, TRUE, &seen);
      cores = info_of (path, FALSE, &plain);
      g_assert_cmpstr (ours, ==, cores);
      g_assert_cmpuint (seen.records, ==, plain.records);
      g_assert_cmpuint (plain.walked, ==, 0);
      if (g_str_has_prefix (name, "large"))
        g_assert_cmpuint (seen.walked, ==, seen.batches);
      all.records += seen.records;
      all.walked += seen.walked;
    }
  g_assert_cmpuint (all.walked, >, 20000);
  g_assert_cmpuint (all.walked, <, all.records);
}

/* A batch with one entry, all widths of integers in it; dropped_events is a member of later releases. */
/* clang-format off */
#define HEAD "\xabinstance_id\xa4" "n\xc3\xa9" "x" "\xabincarnation\xcd\x03\xe8\xa3seq\xce\x00\x01\x00\x00"
#define PLAIN_HEAD "\xabinstance_id\xa1n\xabincarnation\xcd\x03\xe8\xa3seq\xce\x00\x01\x00\x00"
#define KIND "\xaa" "event_type\xa5store\xa4tier\xa2l1\xa7" "backend\xa4" "dram"
#define ENTRY "\x84\xa3key\x85\xae" "chunk_hash_hex\xa2" "00\xaamodel_name\xa1m\xa7kv_rank\xcf\x00\x00\x00\x01\x00\x00\x00\x00" \
  "\xafobject_group_id\x00\xaa" "cache_salt\xa0\xaasize_bytes\xcc\x80\xa9token_ids\x93\x01\xcd\x01\x00\xd2\xff\xff\xff\xff" \
  "\xactoken_offset\xff"
#define TAIL "\xa6shared\xc3\xa2ts\xcb\x41\xd9\x00\x00\x00\x00\x00\x00\xae" "capacity_bytes\xd1\x01\x00\xb1" "capacity_revision\x01"
static const char usual[] = "\x8b" PLAIN_HEAD KIND "\xa7" "entries\xdc\x00\x02" ENTRY ENTRY TAIL;
static const char later[] = "\x8c" PLAIN_HEAD KIND "\xa7" "entries\x91" ENTRY TAIL "\xae" "dropped_events\x02";
static const char accents[] = "\x8b" HEAD KIND "\xa7" "entries\x91" ENTRY TAIL;
/* clang-format on */

static const guint8 *
walk (const void *bytes, gsize len, EventsSeen *seen)
{
  return events_walk_batch (bytes, (const guint8 *)bytes + len, seen);
}

static void
test_forms (void)
{
  EventsSeen seen;

  g_assert_true (walk (usual, sizeof usual - 1, &seen) == (const guint8 *)usual + sizeof usual - 1);
  g_assert_true (LMT_SPAN_IS (seen.instance, "\xa1n"));
  g_assert_true (LMT_SPAN_IS (seen.tier, "\xa2l1"));
  g_assert_cmpint (seen.incarnation, ==, 1000);
  g_assert_cmpuint (seen.n_entries, ==, 2);
  g_assert_cmpuint (seen.n_tokens, ==, 2);
  g_assert_true (seen.bytes == 256 && seen.store && seen.shared);
  g_assert_true (walk (later, sizeof later - 1, &seen) == (const guint8 *)later + sizeof later - 1);
  g_assert_cmpuint (seen.n_entries, ==, 1);
  /* Not taken: right all the same, the reader looks at it. */
  g_assert_null (walk (accents, sizeof accents - 1, &seen));
}

/* Whatever one byte is, and wherever the record ends: what the walk takes is what the reader takes, to the same byte. */
static void
test_every_byte (void)
{
  for (gsize at = 0; at < sizeof usual - 1; at++)
    for (guint byte = 0; byte < 256; byte++)
      {
        g_autofree guint8 *copy = g_memdup2 (usual, sizeof usual - 1);
        LmtCursor cursor = { copy, copy + sizeof usual - 1 };
        const guint8 *behind;
        EventsSeen seen;
        LmtFault fault;

        copy[at] = (guint8)byte;
        behind = walk (copy, sizeof usual - 1, &seen);
        if (behind == NULL)
          continue;
        g_assert_true (lmt_cursor_check_next (&cursor, &fault));
        g_assert_true (cursor.pos == behind);
      }
  for (gsize len = 0; len < sizeof usual - 1; len++)
    {
      g_autofree guint8 *copy = g_memdup2 (usual, MAX (len, 1));
      EventsSeen seen;

      g_assert_null (walk (copy, len, &seen));
    }
}

/* Counts far beyond the bytes that are there. */
static void
test_counts (void)
{
  static const char entries[] = "\x8b" PLAIN_HEAD KIND "\xa7"
                                "entries\xdd\xff\xff\xff\xff" ENTRY;
  EventsSeen seen;

  g_assert_null (walk (entries, sizeof entries - 1, &seen));
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/events-walk/traces", test_traces);
  g_test_add_func ("/events-walk/forms", test_forms);
  g_test_add_func ("/events-walk/every-byte", test_every_byte);
  g_test_add_func ("/events-walk/counts", test_counts);
  return g_test_run ();
}
