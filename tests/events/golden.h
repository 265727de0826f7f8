/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What several programs need of the recorded cases. */
#include "events-batch.h"

#include <lmtrace/lmtrace.h>
#include <string.h>

/* ---- JSON and msgpack of the same value ---- */

static inline void
pack_uint (GByteArray *out, guint8 head, guint64 value, guint bytes)
{
  g_byte_array_append (out, &head, 1);
  for (guint i = bytes; i-- > 0;)
    g_byte_array_append (out, &(guint8){ (guint8)(value >> (8 * i)) }, 1);
}

static inline void
pack_text (GByteArray *out, const char *text, gsize len)
{
  pack_uint (out, 0xDB, len, 4);
  g_byte_array_append (out, (const guint8 *)text, (guint)len);
}

/* FALSE: msgpack can't hold it. */
static inline gboolean
pack_json (GByteArray *out, const LmtJson *json)
{
  double real;
  guint64 bits;

  switch (lmt_json_get_type (json))
    {
    case LMT_JSON_NULL:
      pack_uint (out, 0xC0, 0, 0);
      return TRUE;
    case LMT_JSON_BOOL:
      pack_uint (out, lmt_json_get_bool (json) ? 0xC3 : 0xC2, 0, 0);
      return TRUE;
    case LMT_JSON_INT:
      pack_uint (out, 0xD3, (guint64)lmt_json_get_int (json), 8);
      return TRUE;
    case LMT_JSON_UINT:
      pack_uint (out, 0xCF, lmt_json_get_uint (json), 8);
      return TRUE;
    case LMT_JSON_DOUBLE:
      real = lmt_json_get_double (json);
      memcpy (&bits, &real, sizeof bits);
      pack_uint (out, 0xCB, bits, 8);
      return TRUE;
    case LMT_JSON_STRING:
      pack_text (out, lmt_json_get_string (json), lmt_json_get_string_len (json));
      return TRUE;
    case LMT_JSON_ARRAY:
      pack_uint (out, 0xDD, lmt_json_get_length (json), 4);
      for (guint i = 0; i < lmt_json_get_length (json); i++)
        if (!pack_json (out, lmt_json_get_element (json, i)))
          return FALSE;
      return TRUE;
    default:
      pack_uint (out, 0xDF, lmt_json_get_length (json), 4);
      for (guint i = 0; i < lmt_json_get_length (json); i++)
        {
          const char *const name = lmt_json_get_member_name (json, i);
          pack_text (out, name, strlen (name));
          if (!pack_json (out, lmt_json_get_member_value (json, i)))
            return FALSE;
        }
      return TRUE;
    }
}

static inline LmtJson *
load_json (const char *name)
{
  g_autofree char *path = g_build_filename (g_getenv ("LMT_TEST_DATA"), "events", name, NULL);
  g_autofree char *text = NULL;
  g_autoptr (GError) error = NULL;
  LmtJson *json;
  gsize len;

  g_file_get_contents (path, &text, &len, &error);
  g_assert_no_error (error);
  json = lmt_json_parse (text, (gssize)len, &error);
  g_assert_no_error (error);
  return json;
}

static inline const char *
text_of (const LmtJson *object, const char *name)
{
  const LmtJson *const member = lmt_json_get_member (object, name);

  return member != NULL ? lmt_json_get_string (member) : NULL;
}

static inline const EventsProblem *
first_problem (const EventsProblems *problems)
{
  g_assert_cmpuint (problems->items->len, >, 0);
  return &g_array_index (problems->items, EventsProblem, 0);
}

static inline char *
data_path (const char *name)
{
  return g_build_filename (g_getenv ("LMT_TEST_DATA"), "events", name, NULL);
}
