/* SPDX-License-Identifier: Apache-2.0 */
#include "dram-copier.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

#include "dram-copy.h"

enum
{
  PIECE = 1 << 20, /* whole steps of the arena */
};

typedef struct
{
  LmtL2Io *io;
  char *to;
  const char *from;
  guint64 bytes;
  guint64 next;     /* first byte nobody has taken; under the mutex */
  atomic_uint left; /* pieces not finished */
} Copy;

struct _DramCopier
{
  pthread_mutex_t mutex;
  pthread_cond_t cond;
  Copy *copies;
  guint32 size;
  guint32 *spare; /* copies by number */
  guint32 n_spare;
  guint32 *ring; /* copies with pieces nobody has taken */
  guint32 head;
  guint32 n;
  guint32 n_idle;
  guint64 n_new; /* pieces since the last flush; one thread */
  gboolean stop;
  LmtL2Queue *done;
  guint32 n_threads;
  pthread_t threads[];
};

/* With the mutex held, which is let go of for the time of the copy. */
static void
copy_piece (DramCopier *copier)
{
  guint32 number = copier->ring[copier->head];
  Copy *copy = &copier->copies[number];
  guint64 at = copy->next, bytes = MIN (copy->bytes - at, PIECE);
  copy->next += bytes;
  if (copy->next == copy->bytes)
    {
      copier->head = (copier->head + 1) % copier->size;
      copier->n--;
    }
  pthread_mutex_unlock (&copier->mutex);
  if (copy->io->kind == LMT_L2_STORE)
    dram_copy_in (copy->to + at, copy->from + at, bytes);
  else
    memcpy (copy->to + at, copy->from + at, bytes);
  gboolean last = atomic_fetch_sub_explicit (&copy->left, 1, memory_order_acq_rel) == 1;
  LmtL2Io *io = copy->io;
  pthread_mutex_lock (&copier->mutex);
  if (!last)
    return;
  copier->spare[copier->n_spare++] = number;
  lmt_l2_queue_push (copier->done, io);
}

static void *
copier_run (void *data)
{
  DramCopier *copier = data;
  pthread_mutex_lock (&copier->mutex);
  while (!copier->stop)
    if (copier->n > 0)
      copy_piece (copier);
    else
      {
        copier->n_idle++;
        pthread_cond_wait (&copier->cond, &copier->mutex);
        copier->n_idle--;
      }
  pthread_mutex_unlock (&copier->mutex);
  return NULL;
}

DramCopier *
dram_copier_new (guint32 n_threads, guint32 depth, GError **error)
{
  DramCopier *copier = g_malloc0 (sizeof *copier + n_threads * sizeof copier->threads[0]);
  sigset_t all, before;
  int failed = 0;
  pthread_mutex_init (&copier->mutex, NULL);
  pthread_cond_init (&copier->cond, NULL);
  copier->size = depth;
  copier->copies = g_new0 (Copy, depth);
  copier->ring = g_new0 (guint32, depth);
  copier->spare = g_new0 (guint32, depth);
  for (; copier->n_spare < depth; copier->n_spare++)
    copier->spare[copier->n_spare] = copier->n_spare;
  copier->done = lmt_l2_queue_new (depth);
  sigfillset (&all); /* they are the program's */
  pthread_sigmask (SIG_SETMASK, &all, &before);
  while (copier->n_threads < n_threads
         && (failed = pthread_create (&copier->threads[copier->n_threads], NULL, copier_run, copier)) == 0)
    copier->n_threads++;
  pthread_sigmask (SIG_SETMASK, &before, NULL);
  if (failed == 0)
    return copier;
  g_set_error (error, LMT_L2_ERROR, LMT_L2_IO, "dram: threads: %u asked, %u can be started: %s", n_threads, copier->n_threads,
               g_strerror (failed));
  dram_copier_free (copier);
  return NULL;
}

void
dram_copier_free (DramCopier *copier)
{
  if (copier == NULL)
    return;
  pthread_mutex_lock (&copier->mutex);
  copier->stop = TRUE;
  pthread_cond_broadcast (&copier->cond);
  pthread_mutex_unlock (&copier->mutex);
  for (guint32 i = 0; i < copier->n_threads; i++)
    pthread_join (copier->threads[i], NULL);
  pthread_mutex_destroy (&copier->mutex);
  pthread_cond_destroy (&copier->cond);
  lmt_l2_queue_free (copier->done);
  g_free (copier->copies);
  g_free (copier->ring);
  g_free (copier->spare);
  g_free (copier);
}

void
dram_copier_add (DramCopier *copier, LmtL2Io *io, void *to, const void *from, guint64 bytes)
{
  guint64 pieces = (bytes + PIECE - 1) / PIECE;
  pthread_mutex_lock (&copier->mutex);
  guint32 number = copier->spare[--copier->n_spare];
  Copy *copy = &copier->copies[number];
  copy->io = io;
  copy->to = to;
  copy->from = from;
  copy->bytes = bytes;
  copy->next = 0;
  atomic_store_explicit (&copy->left, (guint32)pieces, memory_order_relaxed);
  copier->ring[(copier->head + copier->n++) % copier->size] = number;
  pthread_mutex_unlock (&copier->mutex);
  copier->n_new += pieces;
}

/* Wakes as many as there are pieces for, less one: that is copied here, sooner than a thread would have woken up for it. No more
 * of them, or who comes next with a lookup would wait for all. */
void
dram_copier_flush (DramCopier *copier)
{
  if (copier->n_new == 0)
    return;
  pthread_mutex_lock (&copier->mutex);
  for (guint64 wake = MIN (copier->n_new - 1, copier->n_idle); wake > 0; wake--)
    pthread_cond_signal (&copier->cond);
  copier->n_new = 0;
  if (copier->n > 0)
    copy_piece (copier);
  pthread_mutex_unlock (&copier->mutex);
}

int
dram_copier_fd (DramCopier *copier)
{
  return lmt_l2_queue_fd (copier->done);
}

guint32
dram_copier_reap (DramCopier *copier, LmtL2Io **ios, guint32 max)
{
  return lmt_l2_queue_reap (copier->done, ios, max);
}
