// SPDX-License-Identifier: Apache-2.0
/* How far a run got, for a later --resume (R15). */
#include <errno.h>
#include <lmtrace/lmt-source.h>
#include <stdio.h>
#include <string.h>

#include "replay.h"

#define HEAD_BYTES 65536
#define FILE_MAX (64u * 1024 * 1024)

static void
file_free (gpointer data)
{
  ReplayPositionFile *file = data;
  g_free (file->path);
  g_free (file->sha256);
  g_free (file);
}

void
replay_position_free (ReplayPosition *position)
{
  if (position == NULL)
    return;
  g_ptr_array_unref (position->files);
  g_hash_table_unref (position->cursors);
  g_hash_table_unref (position->registered);
  g_free (position);
}

static ReplayPosition *
position_new (void)
{
  ReplayPosition *position = g_new0 (ReplayPosition, 1);
  position->files = g_ptr_array_new_with_free_func (file_free);
  position->cursors = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, g_free);
  position->registered = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  return position;
}

/* SHA-256 of the first 64 KiB. (transfer full) */
static char *
hash_head (const char *path, GError **error)
{
  g_autofree guint8 *head = g_malloc (HEAD_BYTES);
  FILE *file = fopen (path, "rbe");
  if (file == NULL)
    {
      g_set_error (error, LMT_ERROR, LMT_ERROR_IO, "%s: cannot open: %s", path, g_strerror (errno));
      return NULL;
    }
  gsize n = fread (head, 1, HEAD_BYTES, file);
  fclose (file);
  return g_compute_checksum_for_data (G_CHECKSUM_SHA256, head, n);
}

ReplayPosition *
replay_position_new (EventsMerge *merge, GError **error)
{
  g_autoptr (ReplayPosition) position = position_new ();
  for (guint i = 0; i < events_merge_n_files (merge); i++)
    {
      const EventsMergeFile *file = events_merge_file (merge, i);
      char *sha256 = hash_head (events_merge_data_path (merge, i), error);
      if (sha256 == NULL)
        return NULL;
      ReplayPositionFile *entry = g_new0 (ReplayPositionFile, 1);
      entry->path = g_strdup (file->path);
      entry->size = file->size;
      entry->sha256 = sha256;
      g_ptr_array_add (position->files, entry);
    }
  return g_steal_pointer (&position);
}

/* -------- reading -------- */

static gboolean G_GNUC_PRINTF (3, 4) refuse (const char *path, GError **error, const char *format, ...)
{
  va_list args;
  va_start (args, format);
  g_autofree char *text = g_strdup_vprintf (format, args);
  va_end (args);
  g_set_error (error, LMT_ERROR, LMT_ERROR_OPTION, "--resume: %s: %s", path, text);
  return FALSE;
}

static const LmtJson *
member (const LmtJson *object, const char *name, LmtJsonType type)
{
  const LmtJson *value
      = object != NULL && lmt_json_get_type (object) == LMT_JSON_OBJECT ? lmt_json_get_member (object, name) : NULL;
  return value != NULL && lmt_json_get_type (value) == type ? value : NULL;
}

static gboolean
read_file (ReplayPosition *position, const char *path, const LmtJson *object, ReplayPositionFile *now, GError **error)
{
  const LmtJson *size = member (object, "size", LMT_JSON_INT), *sha256 = member (object, "sha256", LMT_JSON_STRING);
  const LmtJson *done = member (object, "records_done", LMT_JSON_INT);
  if (size == NULL || sha256 == NULL || done == NULL || lmt_json_get_int (done) < 0)
    return refuse (path, error, "files: expected {path, size, sha256, records_done} each");
  if ((guint64)lmt_json_get_int (size) != now->size || strcmp (lmt_json_get_string (sha256), now->sha256) != 0)
    return refuse (path, error,
                   "expected %s as it was then (%" G_GINT64_FORMAT " bytes), found it changed (%" G_GUINT64_FORMAT " bytes)",
                   now->path, lmt_json_get_int (size), now->size);
  now->records_done = (guint64)lmt_json_get_int (done);
  return TRUE;
}

static gboolean
read_all (ReplayPosition *position, const char *path, const LmtJson *json, GError **error)
{
  const LmtJson *version = member (json, "version", LMT_JSON_INT), *files = member (json, "files", LMT_JSON_ARRAY);
  const LmtJson *cursors = member (json, "per_instance", LMT_JSON_OBJECT);
  const LmtJson *registered = member (json, "registered", LMT_JSON_ARRAY);
  if (version == NULL || files == NULL || cursors == NULL || registered == NULL)
    return refuse (path, error, "expected a position file, found other members");
  if (lmt_json_get_int (version) != 1)
    return refuse (path, error, "version: expected 1, found %" G_GINT64_FORMAT, lmt_json_get_int (version));
  if (lmt_json_get_length (files) != position->files->len)
    return refuse (path, error, "expected the %u files it is about, found %u", lmt_json_get_length (files), position->files->len);
  for (guint i = 0; i < position->files->len; i++)
    if (!read_file (position, path, lmt_json_get_element (files, i), position->files->pdata[i], error))
      return FALSE;
  for (guint i = 0; i < lmt_json_get_length (cursors); i++)
    {
      const LmtJson *value = lmt_json_get_member_value (cursors, i);
      const LmtJson *incarnation = member (value, "incarnation", LMT_JSON_INT), *seq = member (value, "seq", LMT_JSON_INT);
      if (incarnation == NULL || seq == NULL)
        return refuse (path, error, "per_instance: expected {incarnation, seq} each");
      ReplayCursor *cursor = g_new0 (ReplayCursor, 1);
      cursor->incarnation = lmt_json_get_int (incarnation);
      cursor->seq = lmt_json_get_int (seq);
      cursor->known = TRUE;
      g_hash_table_insert (position->cursors, g_strdup (lmt_json_get_member_name (cursors, i)), cursor);
    }
  for (guint i = 0; i < lmt_json_get_length (registered); i++)
    {
      const LmtJson *name = lmt_json_get_element (registered, i);
      if (lmt_json_get_type (name) != LMT_JSON_STRING)
        return refuse (path, error, "registered: expected names");
      g_hash_table_add (position->registered, g_strdup (lmt_json_get_string (name)));
    }
  return TRUE;
}

ReplayPosition *
replay_position_read (const char *path, EventsMerge *merge, GError **error)
{
  g_autoptr (ReplayPosition) position = replay_position_new (merge, error);
  g_autofree char *text = NULL;
  g_autoptr (GError) local = NULL;
  gsize len;
  if (position == NULL)
    return NULL;
  if (g_file_test (path, G_FILE_TEST_EXISTS) && !g_file_test (path, G_FILE_TEST_IS_REGULAR))
    {
      refuse (path, error, "expected a regular file");
      return NULL;
    }
  text = lmt_source_read_whole (path, FILE_MAX, &len, error);
  if (text == NULL)
    {
      g_prefix_error (error, "--resume: ");
      return NULL;
    }
  g_autoptr (LmtJson) json = lmt_json_parse (text, (gssize)len, &local);
  if (json == NULL)
    {
      g_set_error (error, LMT_ERROR, LMT_ERROR_OPTION, "--resume: %s: %s", path, local->message);
      return NULL;
    }
  return read_all (position, path, json, error) ? g_steal_pointer (&position) : NULL;
}

gboolean
replay_position_is_registered (const ReplayPosition *position, const char *name)
{
  return g_hash_table_contains (position->registered, name);
}

/* -------- writing -------- */

static void
write_cursors (LmtJsonWriter *json, ReplayFeed *feed)
{
  lmt_json_writer_key (json, "per_instance");
  lmt_json_writer_begin_object (json);
  for (guint i = 0; i < replay_feed_get_n_instances (feed); i++)
    {
      const ReplayInstance *instance = replay_feed_get_instance (feed, i);
      if (!instance->acked.known)
        continue;
      lmt_json_writer_key (json, instance->name);
      lmt_json_writer_begin_object (json);
      lmt_json_writer_key (json, "incarnation");
      lmt_json_writer_int (json, instance->acked.incarnation);
      lmt_json_writer_key (json, "seq");
      lmt_json_writer_int (json, instance->acked.seq);
      lmt_json_writer_end_object (json);
    }
  lmt_json_writer_end_object (json);
}

gboolean
replay_position_write (ReplayPosition *position, const char *path, ReplayFeed *feed, ReplayBeat *beat, const guint64 *done,
                       GError **error)
{
  g_autoptr (GString) text = g_string_new (NULL);
  LmtJsonWriter *json = lmt_json_writer_new (text, LMT_JSON_STYLE_INDENT);
  lmt_json_writer_begin_object (json);
  lmt_json_writer_key (json, "version");
  lmt_json_writer_int (json, 1);
  lmt_json_writer_key (json, "files");
  lmt_json_writer_begin_array (json);
  for (guint i = 0; i < position->files->len; i++)
    {
      const ReplayPositionFile *file = position->files->pdata[i];
      lmt_json_writer_begin_object (json);
      lmt_json_writer_path (json, "path", file->path);
      lmt_json_writer_key (json, "size");
      lmt_json_writer_uint (json, file->size);
      lmt_json_writer_key (json, "sha256");
      lmt_json_writer_string (json, file->sha256);
      lmt_json_writer_key (json, "records_done");
      lmt_json_writer_uint (json, done[i]);
      lmt_json_writer_end_object (json);
    }
  lmt_json_writer_end_array (json);
  write_cursors (json, feed);
  lmt_json_writer_key (json, "registered");
  lmt_json_writer_begin_array (json);
  for (guint i = 0; i < replay_feed_get_n_instances (feed); i++)
    {
      ReplayInstance *instance = replay_feed_get_instance (feed, i);
      if (beat != NULL && replay_beat_is_registered (beat, instance))
        lmt_json_writer_string_len (json, instance->name, instance->name_len);
    }
  lmt_json_writer_end_array (json);
  lmt_json_writer_end_object (json);
  lmt_json_writer_free (json);
  return lmt_output_write_file (path, text->str, (gssize)text->len, error);
}
