/* SPDX-License-Identifier: Apache-2.0 */
#include <poll.h>
#include <pthread.h>

#include <lmtrace/lmt-plugin.h>

enum
{
  N_THREADS = 4,
  N_EACH = 5000,
  SIZE = N_THREADS,
};

static gboolean
is_readable (LmtL2Queue *queue)
{
  struct pollfd wait = { .fd = lmt_l2_queue_fd (queue), .events = POLLIN };
  return poll (&wait, 1, 0) == 1;
}

static void
test_order (void)
{
  LmtL2Io ios[5];
  LmtL2Io *out[5];
  LmtL2Queue *queue = lmt_l2_queue_new (5);
  g_assert_cmpuint (lmt_l2_queue_reap (queue, out, 5), ==, 0);
  g_assert_false (is_readable (queue));
  for (guint round = 0; round < 3; round++)
    {
      for (guint i = 0; i < 5; i++)
        lmt_l2_queue_push (queue, &ios[i]);
      g_assert_true (is_readable (queue));
      g_assert_cmpuint (lmt_l2_queue_reap (queue, out, 3), ==, 3);
      g_assert_true (is_readable (queue)); /* as long as something waits */
      g_assert_cmpuint (lmt_l2_queue_reap (queue, out + 3, 0), ==, 0);
      g_assert_cmpuint (lmt_l2_queue_reap (queue, out + 3, 2), ==, 2);
      g_assert_false (is_readable (queue));
      for (guint i = 0; i < 5; i++)
        g_assert_true (out[i] == &ios[i]);
    }
  lmt_l2_queue_free (queue);
}

typedef struct
{
  LmtL2Queue *queue;
  LmtL2Io io;
  pthread_mutex_t mutex; /* held while the io is on its way */
  pthread_cond_t cond;
  gboolean away;
  guint number;
} Producer;

static void *
produce (void *data)
{
  Producer *producer = data;
  for (guint i = 0; i < N_EACH; i++)
    {
      pthread_mutex_lock (&producer->mutex);
      while (producer->away)
        pthread_cond_wait (&producer->cond, &producer->mutex);
      producer->away = TRUE;
      pthread_mutex_unlock (&producer->mutex);
      producer->io.done_bytes = i;
      lmt_l2_queue_push (producer->queue, &producer->io);
    }
  return NULL;
}

/* Each io comes once, in its producer's order, with what was written before the push; nobody sleeps through one. */
static void
test_threads (void)
{
  LmtL2Queue *queue = lmt_l2_queue_new (SIZE);
  Producer producers[N_THREADS];
  pthread_t threads[N_THREADS];
  guint seen[N_THREADS] = { 0 };
  for (guint i = 0; i < N_THREADS; i++)
    {
      producers[i] = (Producer){ .queue = queue, .io = { .index = i } };
      pthread_mutex_init (&producers[i].mutex, NULL);
      pthread_cond_init (&producers[i].cond, NULL);
      g_assert_cmpint (pthread_create (&threads[i], NULL, produce, &producers[i]), ==, 0);
    }
  for (guint total = 0; total < N_THREADS * N_EACH;)
    {
      struct pollfd wait = { .fd = lmt_l2_queue_fd (queue), .events = POLLIN };
      LmtL2Io *ios[2];
      g_assert_cmpint (poll (&wait, 1, 60000), ==, 1);
      guint32 n = lmt_l2_queue_reap (queue, ios, G_N_ELEMENTS (ios));
      for (guint32 i = 0; i < n; i++)
        {
          Producer *producer = &producers[ios[i]->index];
          g_assert_cmpuint (ios[i]->done_bytes, ==, seen[ios[i]->index]++);
          pthread_mutex_lock (&producer->mutex);
          producer->away = FALSE;
          pthread_cond_signal (&producer->cond);
          pthread_mutex_unlock (&producer->mutex);
        }
      total += n;
    }
  for (guint i = 0; i < N_THREADS; i++)
    {
      pthread_join (threads[i], NULL);
      pthread_mutex_destroy (&producers[i].mutex);
      pthread_cond_destroy (&producers[i].cond);
    }
  lmt_l2_queue_free (queue);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/l2-queue/order", test_order);
  g_test_add_func ("/l2-queue/threads", test_threads);
  return g_test_run ();
}
