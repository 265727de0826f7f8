/* SPDX-License-Identifier: Apache-2.0 */

/* Engines without io_uring: a pool of threads over one bounded queue, and none at all (the driving thread does it inside submit).
 */
#include "fs.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

/* -------- threads -------- */

enum
{
  KEPT = 16,     /* files opened ahead, and files to be closed, at most */
  MANY = 8,      /* of them are worth a thread's waking up */
  TIDY_MS = 10,  /* what is less waits so long for more */
  SPARE_MS = 50, /* files opened ahead are kept so long after the last operation */
  PLENTY = 256,  /* descriptors a process may have: with less, none is kept that isn't needed */
};

typedef struct
{
  int fd;
  gboolean direct;
} Spare;

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
  guint32 idle;       /* threads that wait */
  guint32 busy;       /* threads that run an operation */
  guint32 coming;     /* threads that are done with theirs and will look for another at once */
  Spare spares[KEPT]; /* files without a name for the next stores */
  guint32 n_spares;
  guint32 kept;     /* KEPT, or 0 */
  guint32 n_wanted; /* that many were used up */
  int to_close[KEPT];
  guint32 n_to_close;
  gboolean tidying; /* by one thread at a time */
  guint32 watch_ms; /* so long a thread waits before it looks whether there is something to tidy up; 0: none does */
  guint32 n_new;    /* since the last flush; driving thread */
  gboolean stop;
  sigset_t no_signals;
  guint32 n_threads; /* so many were started; driving thread */
  pthread_t threads[];
} Pool;

static void
tell (Pool *pool)
{
  const guint64 one = 1;
  while (write (pool->fd, &one, sizeof one) < 0 && errno == EINTR)
    ;
}

/* With the mutex held. TRUE: tell() is to follow when it isn't any more: who is told may run at once, and wants it. */
static gboolean
add_done (Pool *pool, LmtL2Io *io)
{
  guint32 n = atomic_load_explicit (&pool->n_done, memory_order_relaxed);
  pool->done[(pool->done_head + n) % pool->size] = io;
  atomic_store_explicit (&pool->n_done, n + 1, memory_order_release);
  if (n > 0)
    return FALSE;
  if (pool->fd == pool->fs->wake_fd)
    return TRUE;
  /* Nobody else reads it: a reap that empties the queue in between would leave it readable for nothing. */
  tell (pool);
  return FALSE;
}

/* -------- what a store leaves behind -------- */

/* With the mutex held. The file that was opened ahead goes to the thread that does the store. */
static void
take_spare (Pool *pool, FsWorker *worker)
{
  if (pool->n_spares > 0)
    {
      Spare spare = pool->spares[--pool->n_spares];
      worker->spare = spare.fd + 1;
      worker->spare_direct = spare.direct;
    }
  else
    pool->n_wanted++; /* there should be more of them */
}

/* With the mutex held. FALSE: there was no room for all of it, the thread does its own. */
static gboolean
leave_behind (Pool *pool, FsWorker *worker)
{
  if (worker->spare > 0 && pool->n_spares < pool->kept)
    {
      pool->spares[pool->n_spares++] = (Spare){ .fd = worker->spare - 1, .direct = worker->spare_direct };
      worker->spare = 0;
    }
  else if (worker->stored)
    pool->n_wanted++;
  worker->stored = FALSE;
  if (worker->to_close > 0 && pool->n_to_close < pool->kept)
    {
      pool->to_close[pool->n_to_close++] = worker->to_close - 1;
      worker->to_close = 0;
    }
  return worker->spare == 0 && worker->to_close == 0;
}

/* With the mutex held. */
static guint32
count_wanted (const Pool *pool)
{
  return atomic_load (&pool->fs->use_tmpfile) ? MIN (pool->n_wanted, pool->kept - pool->n_spares) : 0;
}

/* With the mutex held. There are so many things to tidy up. */
static gboolean
is_untidy (const Pool *pool, guint32 things)
{
  return !pool->tidying && (pool->n_to_close >= things || count_wanted (pool) >= things);
}

/* With the mutex held, and without in between: closes what was stored, opens files for stores to come, until a thread is needed
 * for something better. */
static void
tidy_up (Pool *pool)
{
  pool->tidying = TRUE;
  while (!pool->stop && pool->n <= pool->idle && (pool->n_to_close > 0 || count_wanted (pool) > 0))
    {
      gboolean wanted = count_wanted (pool) > 0;
      int to_close = pool->n_to_close > 0 ? pool->to_close[--pool->n_to_close] : -1;
      Spare spare = { .fd = -1, .direct = atomic_load (&pool->fs->direct) != 0 };
      pthread_mutex_unlock (&pool->mutex);
      if (wanted)
        spare.fd = fs_open_unnamed (pool->fs, spare.direct);
      if (to_close >= 0)
        close (to_close);
      pthread_mutex_lock (&pool->mutex);
      pool->n_wanted = !wanted ? pool->n_wanted : spare.fd >= 0 ? pool->n_wanted - 1 : 0; /* the next store finds out why */
      if (spare.fd >= 0 && pool->n_spares < pool->kept)
        pool->spares[pool->n_spares++] = spare;
      else if (spare.fd >= 0)
        close (spare.fd);
    }
  pool->n_wanted = count_wanted (pool);
  pool->tidying = FALSE;
}

static void
close_spares (Pool *pool)
{
  while (pool->n_spares > 0)
    close (pool->spares[--pool->n_spares].fd);
}

/* -------- the threads -------- */

/* TRUE: nothing came for so long. */
static gboolean
wait_ms (Pool *pool, guint32 ms)
{
  struct timespec until;
  clock_gettime (CLOCK_MONOTONIC, &until);
  until.tv_nsec += (long)ms * 1000000;
  until.tv_sec += until.tv_nsec / 1000000000;
  until.tv_nsec %= 1000000000;
  return pthread_cond_timedwait (&pool->cond, &pool->mutex, &until) == ETIMEDOUT;
}

/* With the mutex held. Whoever waits for a store waits neither for its file to be closed nor for the next one's to be opened:
 * both are done, several at a time, while another store's bytes are on their way to the device. A thread that is the last to come
 * back leaves them, since the driving thread may wait for its processor. Nobody stores any more: one looks after them a little
 * later. */
static void
wait_for_work (Pool *pool)
{
  if (is_untidy (pool, MANY) && (pool->busy > 0 || pool->fs->n_workers == 1))
    {
      tidy_up (pool);
      return;
    }
  guint32 ms = is_untidy (pool, 1) ? TIDY_MS : pool->n_spares > 0 ? SPARE_MS : 0;
  gboolean watches = ms != 0 && (pool->watch_ms == 0 || pool->watch_ms > ms), in_vain = FALSE;
  pool->idle++;
  if (!watches)
    pthread_cond_wait (&pool->cond, &pool->mutex);
  else
    {
      pool->watch_ms = ms;
      in_vain = wait_ms (pool, ms);
      if (pool->watch_ms == ms)
        pool->watch_ms = 0;
    }
  pool->idle--;
  if (!in_vain || pool->n > 0)
    return;
  if (is_untidy (pool, 1))
    tidy_up (pool);
  else if (ms == SPARE_MS && pool->busy == 0)
    close_spares (pool);
}

static void
run_one (Pool *pool, FsWorker *worker)
{
  LmtL2Io *io = pool->ring[pool->head];
  pool->head = (pool->head + 1) % pool->size;
  pool->n--;
  pool->busy++;
  if (io->kind == LMT_L2_STORE)
    take_spare (pool, worker);
  pthread_mutex_unlock (&pool->mutex);
  fs_perform (pool->fs, worker, io);
  pthread_mutex_lock (&pool->mutex);
  pool->busy--;
  gboolean left = leave_behind (pool, worker), must_tell = add_done (pool, io);
  if (left && !must_tell)
    return;
  pool->coming++;
  pthread_mutex_unlock (&pool->mutex);
  if (must_tell)
    tell (pool);
  if (!left)
    {
      fs_worker_tidy (worker);
      fs_worker_close_spare (worker);
    }
  pthread_mutex_lock (&pool->mutex);
  pool->coming--;
}

static void *
pool_run (void *data)
{
  Pool *pool = data;
  FsWorker worker = { NULL };
  pthread_mutex_lock (&pool->mutex);
  while (!pool->stop)
    if (pool->n > 0)
      run_one (pool, &worker);
    else
      wait_for_work (pool);
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
  while (pool->n_to_close > 0)
    close (pool->to_close[--pool->n_to_close]);
  close_spares (pool);
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
  struct rlimit files;
  pool->fs = fs;
  pool->kept = getrlimit (RLIMIT_NOFILE, &files) == 0 && files.rlim_cur >= PLENTY ? KEPT : 0;
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

/* Wakes as many as there is new work for, and starts more when all have something to do. If the last operation is over, one more,
 * which tidies up after it while the new one's bytes are on their way. */
static void
pool_flush (gpointer engine)
{
  Pool *pool = engine;
  if (pool->n_new == 0)
    return;
  pthread_mutex_lock (&pool->mutex);
  guint32 need = pool->n > pool->coming ? pool->n - pool->coming : 0, tidy = pool->busy == 0 && is_untidy (pool, MANY);
  guint32 wake = MIN (MIN (pool->n_new, need) + tidy, pool->idle), more = need + tidy > pool->idle ? need + tidy - pool->idle : 0;
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
      found = add_done (pool, io);
    }
  pthread_mutex_unlock (&pool->mutex);
  if (found)
    tell (pool);
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
