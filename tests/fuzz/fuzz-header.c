/* SPDX-License-Identifier: Apache-2.0 */
/* A header's body: what is taken can be written again and says the same. */
#include "fuzz.h"

int
LLVMFuzzerTestOneInput (const guint8 *data, gsize size)
{
  LmtSpan body = { data, size };
  g_autoptr (GError) error = NULL;
  g_autoptr (LmtHeader) header = lmt_header_new_from_body (body, "fuzz.lct", &error);
  g_autoptr (LmtHeader) again = NULL;
  g_autoptr (GByteArray) frame = NULL;
  LmtHeaderFields fields = { 0 };
  LmtFault fault;

  g_assert_true ((header == NULL) == (error != NULL));
  if (header == NULL)
    {
      g_assert_true (g_str_has_prefix (error->message, "fuzz.lct: frame 0 at offset 0: "));
      g_assert_true (g_utf8_validate (error->message, -1, NULL));
      return 0;
    }
  g_assert_true (lmt_cursor_check (body, &fault));
  frame = g_byte_array_new ();
  fields.level = lmt_header_get_level (header);
  lmt_header_get_schema (header, &fields.trace_schema_version);
  lmt_header_get_t_mono_start (header, &fields.t_mono_start);
  lmt_header_get_t_wall_start (header, &fields.t_wall_start);
  fields.sm_config_json = lmt_header_get_config_json (header);
  fields.sm_config_digest = lmt_header_get_config_digest (header);
  fields.level_meta_msgpack = lmt_header_get_level_meta (header);
  lmt_header_encode (&fields, frame);
  again = lmt_header_new_from_body ((LmtSpan){ frame->data + 4, frame->len - 4 }, "fuzz.lct", NULL);
  g_assert_nonnull (again);
  g_assert_cmpstr (lmt_header_get_level (again), ==, lmt_header_get_level (header));
  g_assert_cmpstr (lmt_header_get_config_json (again), ==, lmt_header_get_config_json (header));
  return 0;
}
