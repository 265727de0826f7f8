/* SPDX-License-Identifier: Apache-2.0 */
#include "lmt-l2.h"

#include <errno.h>

#include <pthread.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct _LmtL2Queue
{
  pthread_mutex_t mutex;
  atomic_uint n; /* written under the mutex, peeked at without it */
  guint32 size;
  guint32 head;
  int fd;
  LmtL2Io *ios[];
};

LmtL2Queue *
lmt_l2_queue_new (guint32 size)
{
  size = MAX (size, 1);
  LmtL2Queue *queue = g_malloc0 (sizeof *queue + (gsize)size * sizeof queue->ios[0]);
  pthread_mutex_init (&queue->mutex, NULL);
  atomic_init (&queue->n, 0);
  queue->size = size;
  queue->fd = eventfd (0, EFD_NONBLOCK | EFD_CLOEXEC);
  return queue;
}

void
lmt_l2_queue_free (LmtL2Queue *queue)
{
  if (queue == NULL)
    return;
  if (queue->fd >= 0)
    close (queue->fd);
  pthread_mutex_destroy (&queue->mutex);
  g_free (queue);
}

int
lmt_l2_queue_fd (LmtL2Queue *queue)
{
  return queue->fd;
}

void
lmt_l2_queue_push (LmtL2Queue *queue, LmtL2Io *io)
{
  pthread_mutex_lock (&queue->mutex);
  guint32 n = atomic_load_explicit (&queue->n, memory_order_relaxed);
  if (n == queue->size)
    {
      pthread_mutex_unlock (&queue->mutex);
      g_critical ("Completion queue is full: the plugin pushed more than its depth: size=%u", queue->size);
      return;
    }
  queue->ios[(queue->head + n) % queue->size] = io;
  atomic_store_explicit (&queue->n, n + 1, memory_order_release);
  if (n == 0)
    {
      /* Only the step from empty to not empty needs a wake-up; the counter can't overflow. Under the mutex, or a reap that
       * empties the queue in between would leave the descriptor readable for nothing. */
      const guint64 one = 1;
      while (write (queue->fd, &one, sizeof one) < 0 && errno == EINTR)
        ;
    }
  pthread_mutex_unlock (&queue->mutex);
}

guint32
lmt_l2_queue_reap (LmtL2Queue *queue, LmtL2Io **ios, guint32 max)
{
  if (max == 0 || atomic_load_explicit (&queue->n, memory_order_acquire) == 0)
    return 0;
  pthread_mutex_lock (&queue->mutex);
  guint32 n = atomic_load_explicit (&queue->n, memory_order_relaxed);
  guint32 take = MIN (n, max);
  for (guint32 i = 0; i < take; i++)
    ios[i] = queue->ios[(queue->head + i) % queue->size];
  queue->head = (queue->head + take) % queue->size;
  atomic_store_explicit (&queue->n, n - take, memory_order_relaxed);
  if (take == n)
    {
      guint64 count;
      while (read (queue->fd, &count, sizeof count) < 0 && errno == EINTR)
        ;
    }
  pthread_mutex_unlock (&queue->mutex);
  return take;
}
