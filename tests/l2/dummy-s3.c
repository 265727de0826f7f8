// SPDX-License-Identifier: Apache-2.0
/*
 * What an object store's adapter does at the border, without the network: a bounded queue into worker threads, objects sent in
 * parts and fetched in ranges, completions through LmtL2Queue. doc/l2-contract.md describes it; check-adapter runs on it.
 */
#include <lmtrace/lmt-plugin.h>

#include <pthread.h>

typedef struct
{
  guint64 depth;
  guint64 workers;
  guint64 part_bytes;
  guint64 max_bytes;
} S3Config;

static const LmtOption s3_options[] = {
  LMT_OPTION (UINT, "depth", S3Config, depth, "32", "1..1024", "Take at most this many operations at a time"),
  LMT_OPTION (UINT, "workers", S3Config, workers, "4", "1..64", "Serve with this many threads"),
  LMT_OPTION (UINT, "part_bytes", S3Config, part_bytes, "8388608", "1..", "Send and fetch in parts of this many bytes"),
  LMT_OPTION_FULL (UINT, "max_bytes", S3Config, max_bytes, LMT_OPTION_CAPACITY, NULL, NULL, "BYTES",
                   "Hold at most this many bytes", NULL),
  LMT_OPTION_END,
};

typedef struct
{
  const LmtL2Host *host;
  LmtL2Queue *finished;
  guint64 part_bytes;
  pthread_mutex_t mutex;
  pthread_cond_t cond;
  LmtL2Io **waiting; /* ring; under the mutex, as all below */
  guint32 depth, head, n_waiting;
  gboolean closing;
  GHashTable *bucket; /* wire key -> GByteArray */
  guint64 parts, ranges;
  pthread_t *threads;
  guint n_threads;
} S3;

/* -------- the "network": each call is one request -------- */

static void
put_part (S3 *s3, GByteArray *upload, const guint8 *data, guint64 bytes)
{
  g_byte_array_append (upload, data, (guint)bytes);
  pthread_mutex_lock (&s3->mutex);
  s3->parts++;
  pthread_mutex_unlock (&s3->mutex);
}

static void
get_range (S3 *s3, const GByteArray *object, guint64 at, guint8 *into, guint64 bytes)
{
  memcpy (into, object->data + at, bytes);
  pthread_mutex_lock (&s3->mutex);
  s3->ranges++;
  pthread_mutex_unlock (&s3->mutex);
}

/* -------- one operation, on a worker -------- */

static void
do_store (S3 *s3, LmtL2Io *io)
{
  pthread_mutex_lock (&s3->mutex);
  GByteArray *there = g_hash_table_lookup (s3->bucket, io->key->wire);
  gboolean present = there != NULL && there->len == io->buffer_bytes;
  pthread_mutex_unlock (&s3->mutex);
  io->object_bytes = io->buffer_bytes;
  if (present)
    {
      io->code = LMT_L2_PRESENT;
      return;
    }
  GByteArray *upload = g_byte_array_sized_new ((guint)io->buffer_bytes);
  for (guint64 at = 0; at < io->buffer_bytes; at += s3->part_bytes)
    put_part (s3, upload, (const guint8 *)io->buffer + at, MIN (s3->part_bytes, io->buffer_bytes - at));
  /* CompleteMultipartUpload: now, and whole, it is an object. */
  pthread_mutex_lock (&s3->mutex);
  g_hash_table_replace (s3->bucket, g_strdup (io->key->wire), upload);
  pthread_mutex_unlock (&s3->mutex);
  io->done_bytes = io->buffer_bytes;
  io->code = LMT_L2_OK;
}

static void
do_load (S3 *s3, LmtL2Io *io)
{
  pthread_mutex_lock (&s3->mutex);
  GByteArray *there = g_hash_table_lookup (s3->bucket, io->key->wire);
  if (there != NULL)
    g_byte_array_ref (there);
  pthread_mutex_unlock (&s3->mutex);
  if (there == NULL)
    {
      io->code = LMT_L2_NOT_FOUND;
      return;
    }
  io->object_bytes = there->len;
  io->code = there->len == io->buffer_bytes ? LMT_L2_OK : LMT_L2_DATA;
  for (guint64 at = 0; io->code == LMT_L2_OK && at < io->buffer_bytes; at += s3->part_bytes)
    get_range (s3, there, at, (guint8 *)io->buffer + at, MIN (s3->part_bytes, io->buffer_bytes - at));
  io->done_bytes = io->code == LMT_L2_OK ? io->buffer_bytes : 0;
  g_byte_array_unref (there);
}

static void
do_other (S3 *s3, LmtL2Io *io)
{
  pthread_mutex_lock (&s3->mutex);
  GByteArray *there = g_hash_table_lookup (s3->bucket, io->key->wire);
  io->code = there != NULL ? LMT_L2_OK : LMT_L2_NOT_FOUND;
  io->object_bytes = there != NULL ? there->len : 0;
  if (io->kind == LMT_L2_DELETE)
    g_hash_table_remove (s3->bucket, io->key->wire);
  pthread_mutex_unlock (&s3->mutex);
}

static void *
worker (void *data)
{
  S3 *s3 = data;
  pthread_mutex_lock (&s3->mutex);
  for (;;)
    {
      while (s3->n_waiting == 0 && !s3->closing)
        pthread_cond_wait (&s3->cond, &s3->mutex);
      if (s3->n_waiting == 0)
        break;
      LmtL2Io *io = s3->waiting[s3->head];
      s3->head = (s3->head + 1) % s3->depth;
      s3->n_waiting--;
      pthread_mutex_unlock (&s3->mutex);
      io->service_start_ns = s3->host->now_ns (s3->host->data);
      if (io->kind == LMT_L2_STORE)
        do_store (s3, io);
      else if (io->kind == LMT_L2_LOAD)
        do_load (s3, io);
      else
        do_other (s3, io);
      lmt_l2_queue_push (s3->finished, io); /* the core's again once it is reaped: not touched any more */
      pthread_mutex_lock (&s3->mutex);
    }
  pthread_mutex_unlock (&s3->mutex);
  return NULL;
}

/* -------- the table -------- */

static void
s3_close (gpointer handle)
{
  S3 *s3 = handle;
  pthread_mutex_lock (&s3->mutex);
  s3->closing = TRUE;
  pthread_cond_broadcast (&s3->cond);
  pthread_mutex_unlock (&s3->mutex);
  for (guint i = 0; i < s3->n_threads; i++)
    pthread_join (s3->threads[i], NULL);
  lmt_l2_queue_free (s3->finished);
  g_hash_table_unref (s3->bucket);
  pthread_mutex_destroy (&s3->mutex);
  pthread_cond_destroy (&s3->cond);
  g_free (s3->waiting);
  g_free (s3->threads);
  g_free (s3);
}

static gpointer
s3_open (gconstpointer config, const char *type, const LmtL2Host *host, LmtL2Info *info, GError **error)
{
  const S3Config *wanted = config;
  S3 *s3 = g_new0 (S3, 1);
  s3->host = host;
  s3->part_bytes = wanted->part_bytes;
  s3->depth = (guint32)wanted->depth;
  s3->waiting = g_new0 (LmtL2Io *, s3->depth);
  s3->finished = lmt_l2_queue_new (s3->depth);
  s3->bucket = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, (GDestroyNotify)g_byte_array_unref);
  pthread_mutex_init (&s3->mutex, NULL);
  pthread_cond_init (&s3->cond, NULL);
  s3->threads = g_new0 (pthread_t, wanted->workers);
  for (; s3->n_threads < wanted->workers; s3->n_threads++)
    if (pthread_create (&s3->threads[s3->n_threads], NULL, worker, s3) != 0)
      {
        g_set_error (error, LMT_L2_ERROR, LMT_L2_IO, "dummy-s3: cannot start a thread");
        s3_close (s3);
        return NULL;
      }
  info->depth = s3->depth;
  info->capabilities = LMT_L2_CAP_KEEP | LMT_L2_CAP_DATA | LMT_L2_CAP_DELETE | LMT_L2_CAP_CAPACITY;
  info->flags = LMT_L2_INFO_NO_FILE;
  return s3;
}

static guint32
s3_submit (gpointer handle, LmtL2Io *io)
{
  S3 *s3 = handle;
  guint32 result = LMT_L2_SUBMIT_BUSY;
  pthread_mutex_lock (&s3->mutex);
  if (s3->n_waiting < s3->depth)
    {
      s3->waiting[(s3->head + s3->n_waiting++) % s3->depth] = io;
      result = LMT_L2_SUBMIT_QUEUED;
    }
  pthread_mutex_unlock (&s3->mutex);
  return result;
}

/* One wake-up for a burst. */
static void
s3_flush (gpointer handle)
{
  S3 *s3 = handle;
  pthread_cond_broadcast (&s3->cond);
}

static guint32
s3_reap (gpointer handle, LmtL2Io **ios, guint32 max)
{
  return lmt_l2_queue_reap (((S3 *)handle)->finished, ios, max);
}

static int
s3_get_fd (gpointer handle)
{
  return lmt_l2_queue_fd (((S3 *)handle)->finished);
}

static void
s3_status (gpointer handle, LmtL2AddStatus add, gpointer data)
{
  S3 *s3 = handle;
  char text[32];
  pthread_mutex_lock (&s3->mutex);
  g_snprintf (text, sizeof text, "%" G_GUINT64_FORMAT, s3->parts);
  add (data, "parts", text);
  g_snprintf (text, sizeof text, "%" G_GUINT64_FORMAT, s3->ranges);
  add (data, "ranges", text);
  pthread_mutex_unlock (&s3->mutex);
}

static const LmtL2Ops s3_ops = {
  .struct_size = sizeof (LmtL2Ops),
  .threads = LMT_THREADS_PER_HANDLE,
  .name = "dummy-s3",
  .summary = "Object store without a network, for tests",
  .options = s3_options,
  .config_size = sizeof (S3Config),
  .open = s3_open,
  .close = s3_close,
  .submit = s3_submit,
  .flush = s3_flush,
  .reap = s3_reap,
  .get_fd = s3_get_fd,
  .status = s3_status,
};

static gboolean
s3_load (LmtRegistrar *registrar, GError **error)
{
  return lmt_registrar_add_l2 (registrar, &s3_ops, error);
}

LMT_PLUGIN_DEFINE ("l2-dummy-s3", "0.1.0", "Apache-2.0", "Test adapter: worker threads and parts", s3_load, NULL)
