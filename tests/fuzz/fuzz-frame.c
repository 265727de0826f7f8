/* SPDX-License-Identifier: Apache-2.0 */
/* A whole file through the reader: plain, repairing, and once more after going back. */
#include "fuzz.h"

static void
read_all (LmtReader *reader, gsize size)
{
  const LmtReaderStats *stats = lmt_reader_get_stats (reader);
  LmtRecord record;
  guint64 last = 0;
  guint64 malformed = 0;

  while (lmt_reader_next (reader, &record) == LMT_READ_RECORD)
    {
      g_assert_true (record.offset >= last);
      g_assert_true (record.args.len > 0 && record.args.data >= record.body.data);
      g_assert_true (record.args.data + record.args.len <= record.body.data + record.body.len);
      g_assert_true (record.qualname.data + record.qualname.len <= record.body.data + record.body.len);
      last = record.offset + 4 + record.body.len;
    }
  for (guint i = 0; lmt_malformed_reason (i) != NULL; i++)
    malformed += lmt_reader_get_malformed (reader, i);
  g_assert_true (malformed == stats->malformed);
  g_assert_true (stats->duration_s >= 0);
  /* Of plain bytes each is in a frame, lost, or behind the place where reading stopped. */
  if (stats->tail == LMT_TAIL_CLEAN && last > 0 && stats->lost_bytes == 0 && stats->malformed == 0)
    g_assert_true (stats->bytes == last);
  if (size > 0 && stats->tail == LMT_TAIL_CLEAN)
    g_assert_true (stats->bytes + stats->lost_bytes == size);
}

int
LLVMFuzzerTestOneInput (const guint8 *data, gsize size)
{
  gboolean packed = size >= 2 && ((data[0] == 0x1f && data[1] == 0x8b) || data[0] == 0x28 || (data[0] & 0xf0) == 0x50);

  for (guint resync = 0; resync < 2; resync++)
    {
      g_autoptr (LmtReader) reader = lmt_reader_new_for_bytes (data, size, "fuzz.lct");
      LmtReaderStats first;

      lmt_reader_set_resync (reader, resync != 0);
      if (!lmt_reader_read_header (reader, NULL))
        continue;
      read_all (reader, packed ? 0 : size);
      lmt_reader_finish (reader, NULL);
      first = *lmt_reader_get_stats (reader);
      g_assert_true (lmt_reader_rewind (reader, NULL));
      read_all (reader, packed ? 0 : size);
      g_assert_true (memcmp (&first, lmt_reader_get_stats (reader), sizeof first) == 0);
    }
  return 0;
}
