// SPDX-License-Identifier: Apache-2.0
/* Pins and quotas as the reference's metadata document (events.md 11). */
#include "events-views-private.h"

#include <errno.h>
#include <glib/gstdio.h>
#include <lmtrace/lmt-source.h>

#define GIB 1073741824.0

enum
{
  MAX_BYTES = 256 << 20,
};

static void
put_span (LmtJsonWriter *out, const char *name, LmtSpan text)
{
  lmt_json_writer_key (out, name);
  lmt_json_writer_string_len (out, (const char *)text.data, text.len);
}

static void
put_pin (const EventsKeyView *view, gpointer data)
{
  LmtJsonWriter *out = data;
  g_autoptr (GString) hex = g_string_new (NULL);

  for (gsize i = 0; i < view->key.hash.len; i++)
    g_string_append_printf (hex, "%02x", view->key.hash.data[i]);
  lmt_json_writer_begin_object (out);
  lmt_json_writer_key (out, "key");
  lmt_json_writer_begin_object (out);
  lmt_json_writer_key (out, "chunk_hash_hex");
  lmt_json_writer_string (out, hex->str);
  put_span (out, "model_name", view->key.model);
  lmt_json_writer_key (out, "kv_rank");
  lmt_json_writer_int (out, view->key.kv_rank);
  lmt_json_writer_key (out, "object_group_id");
  lmt_json_writer_int (out, view->key.group);
  put_span (out, "cache_salt", view->key.salt);
  lmt_json_writer_end_object (out);
  lmt_json_writer_key (out, "count");
  lmt_json_writer_uint (out, view->pin_count);
  lmt_json_writer_end_object (out);
}

/* Whole bytes; what no 64 bits hold is written as a float. */
static void
put_bytes (LmtJsonWriter *out, double gib)
{
  const double bytes = gib * GIB;

  if (bytes < 18446744073709551616.0)
    lmt_json_writer_uint (out, (guint64)bytes);
  else
    lmt_json_writer_double (out, bytes);
}

static void
put_quota (LmtSpan salt, double limit_gb, gpointer data)
{
  g_autofree char *name = salt.len > 0 ? g_strndup ((const char *)salt.data, salt.len) : g_strdup ("");

  lmt_json_writer_key (data, name);
  put_bytes (data, limit_gb);
}

static void
put_document (EventsViews *views, GString *text)
{
  g_autoptr (LmtJsonWriter) out = lmt_json_writer_new (text, LMT_JSON_STYLE_INDENT);
  double limit_gb;

  lmt_json_writer_begin_object (out);
  lmt_json_writer_key (out, "version");
  lmt_json_writer_int (out, 1);
  lmt_json_writer_key (out, "saved_at");
  lmt_json_writer_double (out, (double)g_get_real_time () / 1e6);
  lmt_json_writer_key (out, "components");
  lmt_json_writer_begin_object (out);
  lmt_json_writer_key (out, "pins");
  lmt_json_writer_begin_object (out);
  lmt_json_writer_key (out, "entries");
  lmt_json_writer_begin_array (out);
  events_views_pins (views, (LmtSpan){ NULL, 0 }, (LmtSpan){ NULL, 0 }, put_pin, out);
  lmt_json_writer_end_array (out);
  lmt_json_writer_end_object (out);
  lmt_json_writer_key (out, "quotas");
  lmt_json_writer_begin_object (out);
  lmt_json_writer_key (out, "limits");
  lmt_json_writer_begin_object (out);
  events_views_foreach_quota (views, put_quota, out);
  lmt_json_writer_end_object (out);
  lmt_json_writer_key (out, "default_limit_bytes");
  if (events_views_get_default_quota (views, &limit_gb))
    put_bytes (out, limit_gb);
  else
    lmt_json_writer_null (out);
  lmt_json_writer_end_object (out);
  lmt_json_writer_end_object (out);
  lmt_json_writer_end_object (out);
}

gboolean
events_metadata_write (EventsViews *views, const char *path, GError **error)
{
  g_autoptr (GString) text = g_string_new (NULL);
  g_autofree char *folder = g_path_get_dirname (path);

  put_document (views, text);
  (void)g_mkdir_with_parents (folder, 0777); /* writing says what is wrong */
  /* Written beside it, synced and renamed. */
  return g_file_set_contents_full (path, text->str, (gssize)text->len,
                                   G_FILE_SET_CONTENTS_CONSISTENT | G_FILE_SET_CONTENTS_DURABLE, 0666, error);
}

/* ---- reading ---- */

static const LmtJson *
member_of_type (const LmtJson *object, const char *name, LmtJsonType type)
{
  const LmtJson *value
      = object != NULL && lmt_json_get_type (object) == LMT_JSON_OBJECT ? lmt_json_get_member (object, name) : NULL;

  return value != NULL && lmt_json_get_type (value) == type ? value : NULL;
}

static gboolean
is_number (const LmtJson *value)
{
  const LmtJsonType type = value != NULL ? lmt_json_get_type (value) : LMT_JSON_NULL;

  return type == LMT_JSON_INT || type == LMT_JSON_UINT || type == LMT_JSON_DOUBLE;
}

static LmtSpan
text_of (const LmtJson *value)
{
  return (LmtSpan){ (const guint8 *)lmt_json_get_string (value), lmt_json_get_string_len (value) };
}

static gboolean
read_hex (const LmtJson *value, GByteArray *out)
{
  const LmtSpan text = text_of (value);

  g_byte_array_set_size (out, 0);
  for (gsize i = 0; i + 1 < text.len; i += 2)
    {
      const gint high = g_ascii_xdigit_value ((char)text.data[i]), low = g_ascii_xdigit_value ((char)text.data[i + 1]);
      const guint8 byte = (guint8)(high << 4 | low);
      if (high < 0 || low < 0)
        return FALSE;
      g_byte_array_append (out, &byte, 1);
    }
  return text.len % 2 == 0;
}

/* @take: FALSE: only looked at. */
static gboolean
read_pin (EventsViews *views, const LmtJson *entry, GByteArray *hash, gboolean take)
{
  const LmtJson *key = member_of_type (entry, "key", LMT_JSON_OBJECT), *count = member_of_type (entry, "count", LMT_JSON_INT);
  const LmtJson *hex = member_of_type (key, "chunk_hash_hex", LMT_JSON_STRING),
                *model = member_of_type (key, "model_name", LMT_JSON_STRING),
                *rank = member_of_type (key, "kv_rank", LMT_JSON_INT),
                *salt = member_of_type (key, "cache_salt", LMT_JSON_STRING);

  if (count == NULL || hex == NULL || model == NULL || rank == NULL || salt == NULL || !read_hex (hex, hash))
    return FALSE;
  const EventsKey pinned = {
    .hash = { hash->data, hash->len }, .model = text_of (model), .kv_rank = lmt_json_get_int (rank), .salt = text_of (salt)
  };
  if (take && lmt_json_get_int (count) > 0)
    events_views_pin (views, &pinned, (int)MIN (lmt_json_get_int (count), G_MAXINT));
  return TRUE;
}

static gboolean
read_pins (EventsViews *views, const LmtJson *section)
{
  const LmtJson *entries = member_of_type (section, "entries", LMT_JSON_ARRAY);
  g_autoptr (GByteArray) hash = g_byte_array_new ();

  if (entries == NULL)
    return FALSE;
  for (guint pass = 0; pass < 2; pass++)
    for (guint i = 0; i < lmt_json_get_length (entries); i++)
      if (!read_pin (views, lmt_json_get_element (entries, i), hash, pass == 1))
        return FALSE;
  return TRUE;
}

static gboolean
read_quotas (EventsViews *views, const LmtJson *section)
{
  const LmtJson *limits = member_of_type (section, "limits", LMT_JSON_OBJECT);
  const LmtJson *fallback = limits != NULL ? lmt_json_get_member (section, "default_limit_bytes") : NULL;

  if (fallback == NULL || (lmt_json_get_type (fallback) != LMT_JSON_NULL && !is_number (fallback)))
    return FALSE;
  for (guint i = 0; i < lmt_json_get_length (limits); i++)
    if (!is_number (lmt_json_get_member_value (limits, i)))
      return FALSE;
  for (guint i = 0; i < lmt_json_get_length (limits); i++)
    {
      const char *salt = lmt_json_get_member_name (limits, i);
      events_views_set_quota (views, (LmtSpan){ (const guint8 *)salt, strlen (salt) },
                              lmt_json_get_double (lmt_json_get_member_value (limits, i)) / GIB);
    }
  events_views_set_default_quota (views, is_number (fallback), is_number (fallback) ? lmt_json_get_double (fallback) / GIB : 0);
  return TRUE;
}

static const char *
check_document (const LmtJson *json)
{
  const LmtJson *version = member_of_type (json, "version", LMT_JSON_INT);

  if (lmt_json_get_type (json) != LMT_JSON_OBJECT)
    return "expected an object";
  if (version == NULL || lmt_json_get_int (version) != 1)
    return "expected version 1";
  if (member_of_type (json, "components", LMT_JSON_OBJECT) == NULL)
    return "expected an object `components`";
  if (!is_number (lmt_json_get_member (json, "saved_at")))
    return "expected a time `saved_at`";
  return NULL;
}

static gboolean
read_document (EventsViews *views, const LmtJson *json, const char *path, char **note)
{
  const LmtJson *components = lmt_json_get_member (json, "components");
  const LmtJson *pins = lmt_json_get_member (components, "pins"), *quotas = lmt_json_get_member (components, "quotas");
  const gboolean got_pins = pins != NULL && read_pins (views, pins), got_quotas = quotas != NULL && read_quotas (views, quotas);
  const gboolean bad_pins = pins != NULL && !got_pins, bad_quotas = quotas != NULL && !got_quotas;

  if (bad_pins || bad_quotas)
    *note = g_strdup_printf ("%s: %s%s%s not as they should be: left out", path, bad_pins ? "pins" : "",
                             bad_pins && bad_quotas ? " and " : "", bad_quotas ? "quotas" : "");
  return got_pins || got_quotas;
}

gboolean
events_metadata_read (EventsViews *views, const char *path, char **note)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (LmtJson) json = NULL;
  g_autofree char *text = NULL;
  GStatBuf st = { 0 };
  gsize len;

  *note = NULL;
  if (g_stat (path, &st) != 0 && errno == ENOENT)
    *note = g_strdup_printf ("%s: none there yet", path);
  else if (!S_ISREG (st.st_mode))
    *note = g_strdup_printf ("%s: expected a regular file", path);
  else if ((text = lmt_source_read_whole (path, MAX_BYTES, &len, &error)) == NULL)
    *note = g_strdup (error->message);
  else if ((json = lmt_json_parse (text, (gssize)len, &error)) == NULL)
    *note = g_strdup_printf ("%s: %s", path, error->message);
  else if (check_document (json) != NULL)
    *note = g_strdup_printf ("%s: %s", path, check_document (json));
  return *note == NULL && read_document (views, json, path, note);
}
