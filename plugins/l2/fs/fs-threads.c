/* SPDX-License-Identifier: Apache-2.0 */

/* Engines without io_uring: a pool of threads over one bounded queue, and none at all (the driving thread does it inside submit).
 */
#include "fs.h"

#include <errno.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

/* -------- threads -------- */

enum
{
  SPARE_MS = 50, /* a file opened ahead is kept so long after a thread's last operation */
};

typedef struct
{
  Fs *fs;
  pthread_mutex_t mutex;
  pthread_cond_t cond;
  LmtL2Io **ring; /* to do: depth of them at most */
  guint32 size;
  guint32 head;
  guint32 n;
  LmtL2Io **done; /* to be reaped */
  guint32 done_head;
  atomic_uint n_done; /* changes under the mutex */
  int fd;             /* readable while something is to be reaped; fs->wake_fd: whose reader is told only */
  guint32 idle;
  guint32 n_new; /* since the last flush; driving thread */
  gboolean stop;
  sigset_t no_signals;
  guint32 n_threads; /* so many were started; driving thread */
  pthread_t threads[];
} Pool;

/* Under the mutex: or a reap that empties the queue in between would leave the descriptor readable for nothing. */
static void
add_done (Pool *pool, LmtL2Io *io)
{
  const guint64 one = 1;
  guint32 n = atomic_load_explicit (&pool->n_done, memory_order_relaxed);
  pool->done[(pool->done_head + n) % pool->size] = io;
  atomic_store_explicit (&pool->n_done, n + 1, memory_order_release);
  if (n == 0)
    while (write (pool->fd, &one, sizeof one) < 0 && errno == EINTR)
      ;
}

/* With the mutex held. After its last operation a thread opens a file for the next store: who waits for that one doesn't wait for
 * the file too. Nobody asks for long: the file goes. */
static void
wait_for_work (Pool *pool, FsWorker *worker)
{
  if (fs_worker_wants_spare (pool->fs, worker))
    {
      pthread_mutex_unlock (&pool->mutex);
      fs_worker_open_spare (pool->fs, worker);
      pthread_mutex_lock (&pool->mutex);
      if (pool->n > 0 || pool->stop)
        return;
    }
  pool->idle++;
  if (worker->spare == 0)
    pthread_cond_wait (&pool->cond, &pool->mutex);
  else
    {
      struct timespec until;
      clock_gettime (CLOCK_MONOTONIC, &until);
      until.tv_nsec += SPARE_MS * 1000000;
      until.tv_sec += until.tv_nsec / 1000000000;
      until.tv_nsec %= 1000000000;
      if (pthread_cond_timedwait (&pool->cond, &pool->mutex, &until) == ETIMEDOUT && pool->n == 0)
        fs_worker_close_spare (worker);
    }
  pool->idle--;
}

static void *
pool_run (void *data)
{
  Pool *pool = data;
  FsWorker worker = { NULL };
  pthread_mutex_lock (&pool->mutex);
  for (;;)
    {
      while (pool->n == 0 && !pool->stop)
        wait_for_work (pool, &worker);
      if (pool->stop)
        break;
      LmtL2Io *io = pool->ring[pool->head];
      pool->head = (pool->head + 1) % pool->size;
      pool->n--;
      pthread_mutex_unlock (&pool->mutex);
      fs_perform (pool->fs, &worker, io);
      pthread_mutex_lock (&pool->mutex);
      add_done (pool, io);
      if (worker.to_close > 0)
        {
          pthread_mutex_unlock (&pool->mutex);
          fs_worker_tidy (&worker);
          pthread_mutex_lock (&pool->mutex);
        }
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
  if (pool->fd >= 0 && pool->fd != pool->fs->wake_fd)
    close (pool->fd);
  g_free (pool->ring);
  g_free (pool->done);
  g_free (pool);
}

/* 0 or an errno. Signals are the program's; and a write over RLIMIT_FSIZE is then an error instead of the end. */
static int
start_thread (Pool *pool)
{
  sigset_t before;
  pthread_sigmask (SIG_SETMASK, &pool->no_signals, &before);
  int failed = pthread_create (&pool->threads[pool->n_threads], NULL, pool_run, pool);
  pthread_sigmask (SIG_SETMASK, &before, NULL);
  pool->n_threads += failed == 0;
  return failed;
}

static gpointer
pool_open (Fs *fs, GError **error)
{
  Pool *pool = g_malloc0 (sizeof *pool + fs->n_workers * sizeof (pthread_t));
  pthread_condattr_t attributes;
  pool->fs = fs;
  pool->size = fs->depth;
  pool->ring = g_new0 (LmtL2Io *, pool->size);
  pool->done = g_new0 (LmtL2Io *, pool->size);
  pool->fd = fs->wake_fd >= 0 ? fs->wake_fd : eventfd (0, EFD_NONBLOCK | EFD_CLOEXEC);
  pthread_mutex_init (&pool->mutex, NULL);
  pthread_condattr_init (&attributes);
  pthread_condattr_setclock (&attributes, CLOCK_MONOTONIC);
  pthread_cond_init (&pool->cond, &attributes);
  pthread_condattr_destroy (&attributes);
  sigfillset (&pool->no_signals);
  int failed = pool->fd < 0 ? errno : start_thread (pool);
  if (failed == 0)
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

/* Wakes as many as there is new work for, and starts more when all have something to do. */
static void
pool_flush (gpointer engine)
{
  Pool *pool = engine;
  if (pool->n_new == 0)
    return;
  pthread_mutex_lock (&pool->mutex);
  guint32 wake = MIN (pool->n_new, pool->idle), more = pool->n > pool->idle ? pool->n - pool->idle : 0;
  pthread_mutex_unlock (&pool->mutex);
  pool->n_new = 0;
  for (; wake > 0; wake--)
    pthread_cond_signal (&pool->cond);
  for (; more > 0 && pool->n_threads < pool->fs->n_workers && start_thread (pool) == 0; more--)
    ;
}

static int
pool_get_fd (gpointer engine)
{
  return ((Pool *)engine)->fd;
}

gboolean
fs_threads_have_done (gconstpointer engine)
{
  const Pool *pool = engine;
  return atomic_load_explicit (&pool->n_done, memory_order_acquire) > 0;
}

static guint32
pool_reap (gpointer engine, LmtL2Io **ios, guint32 max)
{
  Pool *pool = engine;
  if (max == 0 || !fs_threads_have_done (pool))
    return 0;
  pthread_mutex_lock (&pool->mutex);
  guint32 n = atomic_load_explicit (&pool->n_done, memory_order_relaxed);
  guint32 take = MIN (n, max);
  for (guint32 i = 0; i < take; i++)
    ios[i] = pool->done[(pool->done_head + i) % pool->size];
  pool->done_head = (pool->done_head + take) % pool->size;
  atomic_store_explicit (&pool->n_done, n - take, memory_order_relaxed);
  if (take == n && pool->fd != pool->fs->wake_fd)
    {
      guint64 count;
      while (read (pool->fd, &count, sizeof count) < 0 && errno == EINTR)
        ;
    }
  pthread_mutex_unlock (&pool->mutex);
  return take;
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
  if (found)
    {
      io->code = LMT_L2_CLOSED;
      add_done (pool, io);
    }
  pthread_mutex_unlock (&pool->mutex);
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
      fs_worker_tidy (&sync->worker);
      return LMT_L2_SUBMIT_DONE;
    }
  /* On a thread that isn't ours: the signal of a write over RLIMIT_FSIZE is held and taken away. */
  sigset_t block, before;
  const struct timespec now = { 0, 0 };
  sigemptyset (&block);
  sigaddset (&block, SIGXFSZ);
  pthread_sigmask (SIG_BLOCK, &block, &before);
  fs_perform (sync->fs, &sync->worker, io);
  fs_worker_tidy (&sync->worker);
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
