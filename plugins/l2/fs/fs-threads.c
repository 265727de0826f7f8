/* SPDX-License-Identifier: Apache-2.0 */

/* Engines without io_uring: a pool of threads over one bounded queue, and none at all (the driving thread does it inside submit).
 */
#include "fs.h"

#include <errno.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

/* -------- threads -------- */

typedef struct
{
  Fs *fs;
  LmtL2Queue *done;
  pthread_mutex_t mutex;
  pthread_cond_t cond;
  LmtL2Io **ring; /* depth of them */
  guint32 size;
  guint32 head;
  guint32 n;
  guint32 n_new; /* since the last flush; driving thread */
  gboolean stop;
  guint32 n_threads;
  pthread_t threads[];
} Pool;

static void *
pool_run (void *data)
{
  Pool *pool = data;
  FsWorker worker = { NULL };
  pthread_mutex_lock (&pool->mutex);
  for (;;)
    {
      while (pool->n == 0 && !pool->stop)
        pthread_cond_wait (&pool->cond, &pool->mutex);
      if (pool->stop)
        break;
      LmtL2Io *io = pool->ring[pool->head];
      pool->head = (pool->head + 1) % pool->size;
      pool->n--;
      pthread_mutex_unlock (&pool->mutex);
      fs_perform (pool->fs, &worker, io);
      lmt_l2_queue_push (pool->done, io);
      if (pool->fs->wake_fd >= 0)
        {
          const guint64 one = 1;
          while (write (pool->fs->wake_fd, &one, sizeof one) < 0 && errno == EINTR)
            ;
        }
      pthread_mutex_lock (&pool->mutex);
    }
  pthread_mutex_unlock (&pool->mutex);
  fs_worker_clear (&worker);
  return NULL;
}

static void
pool_close (gpointer engine)
{
  Pool *pool = engine;
  pthread_mutex_lock (&pool->mutex);
  pool->stop = TRUE;
  pthread_cond_broadcast (&pool->cond);
  pthread_mutex_unlock (&pool->mutex);
  for (guint32 i = 0; i < pool->n_threads; i++)
    pthread_join (pool->threads[i], NULL);
  pthread_mutex_destroy (&pool->mutex);
  pthread_cond_destroy (&pool->cond);
  lmt_l2_queue_free (pool->done);
  g_free (pool->ring);
  g_free (pool);
}

static gpointer
pool_open (Fs *fs, GError **error)
{
  Pool *pool = g_malloc0 (sizeof *pool + fs->n_workers * sizeof (pthread_t));
  pool->fs = fs;
  pool->size = fs->depth;
  pool->ring = g_new0 (LmtL2Io *, pool->size);
  pool->done = lmt_l2_queue_new (fs->depth);
  pthread_mutex_init (&pool->mutex, NULL);
  pthread_cond_init (&pool->cond, NULL);
  /* Signals are the program's; and a write over RLIMIT_FSIZE is then an error instead of the end. */
  sigset_t all, before;
  sigfillset (&all);
  pthread_sigmask (SIG_SETMASK, &all, &before);
  int failed = 0;
  while (pool->n_threads < fs->n_workers && failed == 0)
    {
      failed = pthread_create (&pool->threads[pool->n_threads], NULL, pool_run, pool);
      pool->n_threads += failed == 0;
    }
  pthread_sigmask (SIG_SETMASK, &before, NULL);
  if (pool->n_threads > 0)
    return pool;
  g_set_error (error, LMT_L2_ERROR, LMT_L2_IO, "fs: num_workers: no thread can be started: %s", g_strerror (failed));
  pool_close (pool);
  return NULL;
}

static guint32
pool_submit (gpointer engine, LmtL2Io *io)
{
  Pool *pool = engine;
  guint32 answer = LMT_L2_SUBMIT_BUSY;
  pthread_mutex_lock (&pool->mutex);
  if (pool->n < pool->size)
    {
      pool->ring[(pool->head + pool->n++) % pool->size] = io;
      pool->n_new++;
      answer = LMT_L2_SUBMIT_QUEUED;
    }
  pthread_mutex_unlock (&pool->mutex);
  return answer;
}

static void
pool_flush (gpointer engine)
{
  Pool *pool = engine;
  if (pool->n_new == 1)
    pthread_cond_signal (&pool->cond);
  else if (pool->n_new > 1)
    pthread_cond_broadcast (&pool->cond);
  pool->n_new = 0;
}

static int
pool_get_fd (gpointer engine)
{
  return lmt_l2_queue_fd (((Pool *)engine)->done);
}

static guint32
pool_reap (gpointer engine, LmtL2Io **ios, guint32 max)
{
  return lmt_l2_queue_reap (((Pool *)engine)->done, ios, max);
}

/* What no thread has begun comes back at once; what runs is finished. */
static void
pool_cancel (gpointer engine, LmtL2Io *io)
{
  Pool *pool = engine;
  gboolean found = FALSE;
  pthread_mutex_lock (&pool->mutex);
  for (guint32 i = 0; i < pool->n; i++)
    {
      LmtL2Io **at = &pool->ring[(pool->head + i) % pool->size];
      if (found)
        pool->ring[(pool->head + i - 1) % pool->size] = *at;
      found |= *at == io;
    }
  pool->n -= found;
  pthread_mutex_unlock (&pool->mutex);
  if (!found)
    return;
  io->code = LMT_L2_CLOSED;
  lmt_l2_queue_push (pool->done, io);
}

const FsEngine fs_engine_threads = {
  .name = "threads",
  .open = pool_open,
  .close = pool_close,
  .submit = pool_submit,
  .flush = pool_flush,
  .get_fd = pool_get_fd,
  .reap = pool_reap,
  .cancel = pool_cancel,
};

/* -------- sync -------- */

typedef struct
{
  Fs *fs;
  FsWorker worker;
} Sync;

static gpointer
sync_open (Fs *fs, GError **error)
{
  Sync *sync = g_new0 (Sync, 1);
  sync->fs = fs;
  return sync;
}

static void
sync_close (gpointer engine)
{
  Sync *sync = engine;
  fs_worker_clear (&sync->worker);
  g_free (sync);
}

static guint32
sync_submit (gpointer engine, LmtL2Io *io)
{
  Sync *sync = engine;
  if (!sync->fs->size_limited)
    {
      fs_perform (sync->fs, &sync->worker, io);
      return LMT_L2_SUBMIT_DONE;
    }
  /* On a thread that isn't ours: the signal of a write over RLIMIT_FSIZE is held and taken away. */
  sigset_t block, before;
  const struct timespec now = { 0, 0 };
  sigemptyset (&block);
  sigaddset (&block, SIGXFSZ);
  pthread_sigmask (SIG_BLOCK, &block, &before);
  fs_perform (sync->fs, &sync->worker, io);
  if (!sigismember (&before, SIGXFSZ))
    while (sigtimedwait (&block, NULL, &now) > 0)
      ;
  pthread_sigmask (SIG_SETMASK, &before, NULL);
  return LMT_L2_SUBMIT_DONE;
}

static void
sync_flush (gpointer engine)
{
}

static int
sync_get_fd (gpointer engine)
{
  return -1;
}

static guint32
sync_reap (gpointer engine, LmtL2Io **ios, guint32 max)
{
  return 0;
}

static void
sync_cancel (gpointer engine, LmtL2Io *io)
{
}

const FsEngine fs_engine_sync = {
  .name = "sync",
  .open = sync_open,
  .close = sync_close,
  .submit = sync_submit,
  .flush = sync_flush,
  .get_fd = sync_get_fd,
  .reap = sync_reap,
  .cancel = sync_cancel,
};
