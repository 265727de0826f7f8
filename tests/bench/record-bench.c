// SPDX-License-Identifier: Apache-2.0
/* Figures of recording (trace-format.md 10): a call off and on, 1 and 64 keys, two threads, and what the drain makes of it. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <lmtrace/lmt-key.h>
#include <lmtrace/lmtrace.h>

#include "storage-trace.h"

static double
now_s (void)
{
  struct timespec ts;

  clock_gettime (CLOCK_MONOTONIC, &ts);
  return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static __attribute__ ((noinline)) void
door (const SmCall *call)
{
  sm_trace_call (call);
  __asm__ volatile("" ::: "memory");
}

static __attribute__ ((noinline)) void
no_door (const SmCall *call)
{
  __asm__ volatile("" ::"r"(call) : "memory");
}

enum
{
  KEYS = 64,
  THREAD_ROUNDS = 61,
  ROUNDS = 7
};

static int
compare (const void *a, const void *b)
{
  double x = *(const double *)a, y = *(const double *)b;

  return (x > y) - (x < y);
}

/* Median of several rounds, ns a call. @burst calls in a row, then a pause that lets the drain catch up: what the caller pays,
 * not what it pays for a ring that is full. */
static double
measure (void (*func) (const SmCall *), const SmCall *call, guint burst, guint bursts, LmtRecorder *recorder)
{
  double found[ROUNDS];

  for (guint round = 0; round < ROUNDS; round++)
    {
      double sum = 0.0;

      for (guint b = 0; b < bursts; b++)
        {
          double start = now_s ();

          for (guint i = 0; i < burst; i++)
            func (call);
          sum += now_s () - start;
          if (recorder != NULL)
            lmt_recorder_flush (recorder, NULL);
        }
      found[round] = sum * 1e9 / burst / bursts;
    }
  qsort (found, ROUNDS, sizeof found[0], compare);
  return found[ROUNDS / 2];
}

typedef struct
{
  const SmCall *call;
  guint burst;
  pthread_barrier_t *barrier;
  double rates[THREAD_ROUNDS];
} Worker;

static void *
work (void *data)
{
  Worker *worker = data;

  door (worker->call);
  for (guint round = 0; round < THREAD_ROUNDS; round++)
    {
      double start;

      pthread_barrier_wait (worker->barrier);
      start = now_s ();
      for (guint i = 0; i < worker->burst; i++)
        door (worker->call);
      worker->rates[round] = worker->burst / (now_s () - start);
      pthread_barrier_wait (worker->barrier);
      pthread_barrier_wait (worker->barrier);
    }
  return NULL;
}

/* Calls per second of @n threads together, median of the rounds. */
static double
many (guint n, const SmCall *call, guint burst, LmtRecorder *recorder)
{
  pthread_barrier_t barrier;
  pthread_t threads[8];
  Worker workers[8];
  double rates[THREAD_ROUNDS] = { 0.0 };

  pthread_barrier_init (&barrier, NULL, n + 1);
  for (guint i = 0; i < n; i++)
    {
      workers[i] = (Worker){ .call = call, .burst = burst, .barrier = &barrier };
      pthread_create (&threads[i], NULL, work, &workers[i]);
    }
  for (guint round = 0; round < THREAD_ROUNDS; round++)
    {
      pthread_barrier_wait (&barrier);
      pthread_barrier_wait (&barrier);
      lmt_recorder_flush (recorder, NULL);
      pthread_barrier_wait (&barrier);
    }
  for (guint i = 0; i < n; i++)
    {
      pthread_join (threads[i], NULL);
      for (guint round = 0; round < THREAD_ROUNDS; round++)
        rates[round] += workers[i].rates[round];
    }
  pthread_barrier_destroy (&barrier);
  qsort (rates, THREAD_ROUNDS, sizeof rates[0], compare);
  return rates[THREAD_ROUNDS / 2];
}

/* Records per second the drain takes when it never waits: rings are filled, then the clock runs until they are written. */
static double
drain (const char *path, const SmCall *call, guint calls, guint rounds)
{
  LmtRecorderParams params = { .struct_size = sizeof params, .path = path, .buffer_bytes = 64 << 20 };
  LmtRecorder *recorder = lmt_recorder_new (&sm_trace_level, &params, NULL);
  LmtRecorderStats stats = { .struct_size = sizeof stats };
  double start, seconds;

  lmt_recorder_attach (recorder, "{}", NULL, NULL);
  start = now_s ();
  for (guint round = 0; round < rounds; round++)
    {
      for (guint i = 0; i < calls; i++)
        door (call);
      lmt_recorder_flush (recorder, NULL);
    }
  seconds = now_s () - start;
  lmt_recorder_get_stats (recorder, &stats);
  lmt_recorder_free (recorder);
  return (double)stats.records / seconds;
}

int
main (int argc, char **argv)
{
  const char *path = argc > 1 ? argv[1] : "/dev/null";
  LmtKeyTable *table = lmt_key_table_new ();
  LmtKey *keys[KEYS];
  SmCall one = { .op = SM_OP_FINISH_WRITE, .n_keys = 1, .keys = keys };
  SmCall all = { .op = SM_OP_FINISH_WRITE, .n_keys = KEYS, .keys = keys };
  LmtRecorderParams params = { .struct_size = sizeof params, .path = path };
  LmtRecorder *recorder;
  double empty, off, on, on64, rate1, rate2, drained, drained64;

  for (guint i = 0; i < KEYS; i++)
    {
      guint8 hash[32];
      LmtKeyFields fields
          = { .struct_size = sizeof fields, .rank = 0x01000100, .model = "meta-llama/Llama-3.1-8B-Instruct", .salt = "" };

      memset (hash, (int)i, sizeof hash);
      fields.hash = hash;
      fields.hash_len = sizeof hash;
      fields.model_len = (guint32)strlen (fields.model);
      keys[i] = lmt_key_table_intern (table, &fields);
    }
  empty = measure (no_door, &one, 1000000, 10, NULL);
  off = measure (door, &one, 1000000, 10, NULL);
  recorder = lmt_recorder_new (&sm_trace_level, &params, NULL);
  if (recorder == NULL)
    return 1;
  lmt_recorder_attach (recorder, "{}", NULL, NULL);
  on = measure (door, &one, 4000, 200, recorder);
  on64 = measure (door, &all, 100, 200, recorder);
  rate1 = many (1, &one, 4000, recorder);
  rate2 = many (2, &one, 4000, recorder);
  lmt_recorder_free (recorder);
  drained = drain (path, &one, 400000, 5);
  drained64 = drain (path, &all, 12000, 5);
  printf (
      "{\"empty_ns\": %.2f, \"off_ns\": %.2f, \"on_ns\": %.1f, \"on64_ns\": %.1f, \"rate1_per_s\": %.0f, \"rate2_per_s\": %.0f, "
      "\"drain_per_s\": %.0f, \"drain64_per_s\": %.0f}\n",
      empty, off, on, on64, rate1, rate2, drained, drained64);
  for (guint i = 0; i < KEYS; i++)
    lmt_key_unref (table, keys[i]);
  lmt_key_table_free (table);
  return 0;
}
