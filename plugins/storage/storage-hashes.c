// SPDX-License-Identifier: Apache-2.0
#include "storage-hashes.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <glib/gstdio.h>

#define PREFIX "lookup_hashes_"
#define SUFFIX ".jsonl"

struct _StorageHashes
{
  char *dir;
  gint64 interval_s;
  gint64 max_bytes;
  gint64 max_files;
  GQueue *files; /* names, oldest first */
  guint64 count;
  FILE *file;
  gint64 bytes;
  double opened_s;
  GString *line;
  GError *error;
};

static void
failed (StorageHashes *hashes, const char *path)
{
  if (hashes->error == NULL)
    g_set_error (&hashes->error, LMT_ERROR, LMT_ERROR_IO, "--lookup-hash-log-dir: %s: %s", path, g_strerror (errno));
}

typedef struct
{
  char *name;
  gint64 mtime;
} Found;

static gint
compare_found (gconstpointer a, gconstpointer b)
{
  const Found *x = a;
  const Found *y = b;

  return x->mtime != y->mtime ? (x->mtime < y->mtime ? -1 : 1) : strcmp (x->name, y->name);
}

/* Files of earlier runs count for max_files. */
static gboolean
find_files (StorageHashes *hashes, GError **error)
{
  g_autoptr (GDir) dir = g_dir_open (hashes->dir, 0, error);
  g_autoptr (GArray) found = g_array_new (FALSE, FALSE, sizeof (Found));
  const char *name;

  if (dir == NULL)
    return FALSE;
  while ((name = g_dir_read_name (dir)) != NULL)
    {
      g_autofree char *path = g_build_filename (hashes->dir, name, NULL);
      GStatBuf info;
      Found one;

      if (!g_str_has_prefix (name, PREFIX) || !g_str_has_suffix (name, SUFFIX) || g_stat (path, &info) != 0)
        continue;
      one = (Found){ g_strdup (name), (gint64)info.st_mtime };
      g_array_append_val (found, one);
    }
  g_array_sort (found, compare_found);
  for (guint i = 0; i < found->len; i++)
    g_queue_push_tail (hashes->files, g_array_index (found, Found, i).name);
  hashes->count = found->len;
  return TRUE;
}

StorageHashes *
storage_hashes_new (const StorageHashesParams *params, GError **error)
{
  StorageHashes *hashes = g_new0 (StorageHashes, 1);

  hashes->dir = g_strdup (params->dir);
  hashes->interval_s = params->rotation_interval_s;
  hashes->max_bytes = params->rotation_max_bytes;
  hashes->max_files = params->max_files;
  hashes->files = g_queue_new ();
  hashes->line = g_string_new (NULL);
  if (g_mkdir_with_parents (hashes->dir, 0777) != 0)
    failed (hashes, hashes->dir);
  else if (find_files (hashes, &hashes->error))
    return hashes;
  if (hashes->error->domain != LMT_ERROR)
    g_prefix_error (&hashes->error, "--lookup-hash-log-dir: ");
  storage_hashes_free (hashes, error);
  return NULL;
}

gboolean
storage_hashes_free (StorageHashes *hashes, GError **error)
{
  GError *first;

  if (hashes == NULL)
    return TRUE;
  if (hashes->file != NULL && fclose (hashes->file) != 0)
    failed (hashes, hashes->dir);
  first = hashes->error;
  g_queue_free_full (hashes->files, g_free);
  g_string_free (hashes->line, TRUE);
  g_free (hashes->dir);
  g_free (hashes);
  if (first == NULL)
    return TRUE;
  g_propagate_error (error, first);
  return FALSE;
}

static void
rotate (StorageHashes *hashes, double t_wall)
{
  g_autoptr (GDateTime) time = g_date_time_new_from_unix_utc (t_wall > 0 && t_wall < 2.5e11 ? (gint64)t_wall : 0);
  g_autofree char *stamp = g_date_time_format (time, "%Y%m%d_%H%M%S");
  char *name = g_strdup_printf (PREFIX "%s_%06" G_GUINT64_FORMAT SUFFIX, stamp, hashes->count);
  g_autofree char *path = g_build_filename (hashes->dir, name, NULL);

  if (hashes->file != NULL && fclose (hashes->file) != 0)
    failed (hashes, path);
  hashes->file = g_fopen (path, "w");
  if (hashes->file == NULL)
    failed (hashes, path);
  hashes->bytes = 0;
  hashes->opened_s = t_wall;
  hashes->count++;
  g_queue_push_tail (hashes->files, name);
  while ((gint64)hashes->files->length > hashes->max_files)
    {
      g_autofree char *oldest = g_queue_pop_head (hashes->files);
      g_autofree char *old_path = g_build_filename (hashes->dir, oldest, NULL);

      g_unlink (old_path);
    }
}

/* A flat list names one chunk several times in a row: for each rank and group. */
static gboolean
same_hash (const LmtKey *a, const LmtKey *b)
{
  return a->fields.hash_len == b->fields.hash_len
         && (a->fields.hash_len == 0 || memcmp (a->fields.hash, b->fields.hash, a->fields.hash_len) == 0);
}

static guint
append_hashes (GString *line, const SmRow *row)
{
  guint n = 0;

  for (guint i = 0; i < row->n; i++)
    {
      const LmtKeyFields *fields = &row->keys[i]->fields;

      if (i > 0 && same_hash (row->keys[i - 1], row->keys[i]))
        continue;
      g_string_append (line, n++ > 0 ? ", \"0x" : "\"0x");
      for (guint b = 0; b < fields->hash_len; b++)
        g_string_append_printf (line, "%02x", fields->hash[b]);
      g_string_append_c (line, '"');
    }
  return n;
}

void
storage_hashes_add (StorageHashes *hashes, double t_wall, LmtSpan request_id, const SmCall *call)
{
  GString *line = hashes->line;
  g_autoptr (GString) list = g_string_new (NULL);
  const SmRow *row = call->n_rows > 0 ? &call->rows[0] : NULL;
  guint64 bytes = 0;
  guint n_chunks = row != NULL ? append_hashes (list, row) : 0;
  char number[32];

  if (hashes->error != NULL)
    return;
  if (hashes->file == NULL || t_wall - hashes->opened_s >= (double)hashes->interval_s || hashes->bytes >= hashes->max_bytes)
    rotate (hashes, t_wall);
  if (hashes->file == NULL)
    return;
  for (guint r = 0; row != NULL && r < call->n_rows; r++)
    bytes += row[r].object_bytes * (n_chunks > 0 && row[r].n > n_chunks ? row[r].n / n_chunks : 1);
  g_string_printf (line, "{\"timestamp\": %s, \"request_id\": \"", lmt_json_format_double (t_wall, number));
  lmt_json_append_escaped (line, (const char *)request_id.data, request_id.len);
  g_string_append (line, "\", \"model_name\": \"");
  if (row != NULL && row->n > 0)
    lmt_json_append_escaped (line, row->keys[0]->fields.model, row->keys[0]->fields.model_len);
  g_string_append_printf (line,
                          "\", \"chunk_size\": 1, \"seq_len\": %u, \"dtypes\": [\"uint8\"], \"shapes\": [[%" G_GUINT64_FORMAT
                          "]], \"chunk_hashes\": [%s]}\n",
                          n_chunks, bytes, list->str);
  if (fwrite (line->str, 1, line->len, hashes->file) != line->len)
    failed (hashes, hashes->dir);
  hashes->bytes += (gint64)line->len;
}
