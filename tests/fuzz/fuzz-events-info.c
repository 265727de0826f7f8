/* SPDX-License-Identifier: Apache-2.0 */
/* A record's args in `info`: whether the level looks at them itself or the reader does, the outcome is the same. */
#include "fuzz.h"

#include "events-info.h"

static const LmtSpan batch = { (const guint8 *)"events.batch", 12 };

static void
append_broken (GByteArray *trace, LmtSpan args)
{
  static const guint8 behind[] = { 0xc0 };
  const guint at = trace->len;
  guint8 *prefix;
  guint32 len;

  /* The record is none by its last byte: what was seen of its args must not count. */
  lmt_record_encode (1, 1, batch, args, trace);
  g_byte_array_append (trace, behind, sizeof behind);
  len = GUINT32_TO_BE (trace->len - at - 4);
  prefix = trace->data + at;
  memcpy (prefix, &len, sizeof len);
}

static GByteArray *
make_trace (LmtSpan args)
{
  const LmtHeaderFields fields = { .level = "events", .trace_schema_version = 1, .sm_config_json = "", .sm_config_digest = "" };
  static const guint8 others[] = { 0x81, 0xa4, 't', 'i', 'e', 'r', 0xc0 };
  GByteArray *trace = g_byte_array_new ();

  lmt_header_encode (&fields, trace);
  append_broken (trace, args);
  lmt_record_encode (2, 2, batch, (LmtSpan){ others, sizeof others }, trace);
  lmt_record_encode (3, 3, batch, args, trace);
  append_broken (trace, args);
  lmt_record_encode (4, 4, (LmtSpan){ (const guint8 *)"events.lifecycle", 16 }, args, trace);
  lmt_record_encode (5, 5, batch, args, trace);
  return trace;
}

/* @text: (out): the level's block */
static LmtReaderStats
run (const GByteArray *trace, gboolean walking, GString *text, guint *n_walked)
{
  g_autoptr (LmtReader) reader = lmt_reader_new_for_bytes (trace->data, trace->len, "fuzz.lct");
  g_autoptr (GString) members = g_string_new (NULL);
  g_autoptr (LmtJsonWriter) json = lmt_json_writer_new (members, LMT_JSON_STYLE_SPACED);
  const LmtInfoOut out = { sizeof out, 0, text, json };
  LmtRecord record;
  gpointer info;

  g_assert_true (lmt_reader_read_header (reader, NULL));
  info = events_info_new (lmt_reader_get_header (reader));
  if (walking)
    lmt_reader_set_args_walk (reader, events_info_walk, info);
  lmt_json_writer_begin_object (json);
  while (lmt_reader_next (reader, &record) == LMT_READ_RECORD)
    {
      LmtFault fault;

      g_assert_true (lmt_cursor_check (record.args, &fault));
      *n_walked += record.walked;
      events_info_record (info, &record);
    }
  events_info_finish (info, &out);
  events_info_free (info);
  lmt_json_writer_end_object (json);
  return *lmt_reader_get_stats (reader);
}

int
LLVMFuzzerTestOneInput (const guint8 *data, gsize size)
{
  g_autoptr (GByteArray) trace = make_trace ((LmtSpan){ data, size });
  g_autoptr (GString) ours = g_string_new (NULL);
  g_autoptr (GString) cores = g_string_new (NULL);
  guint walked = 0, none = 0;
  const LmtReaderStats a = run (trace, TRUE, ours, &walked);
  const LmtReaderStats b = run (trace, FALSE, cores, &none);

  g_assert_cmpuint (none, ==, 0);
  g_assert_true (memcmp (&a, &b, sizeof a) == 0);
  g_assert_cmpstr (ours->str, ==, cores->str);
  return 0;
}
