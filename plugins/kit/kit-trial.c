// SPDX-License-Identifier: Apache-2.0
#include "kit-trial.h"

#include "kit-rig.h"

enum
{
  OBJECTS = 192,
  IN_FLIGHT = 12,
  SHARED_KEYS = 12,
  MIXED_TASKS = 1500,
  REOPENS = 16,
};

static KitVerdict
verdict_of (KitRig *rig, char **why)
{
  *why = g_steal_pointer (&rig->why);
  return *why != NULL ? KIT_FAILED : KIT_PASSED;
}

static gboolean
can (const KitCheck *check, guint32 capability)
{
  return (check->info.capabilities & capability) != 0;
}

/* How many of the objects fit. */
static guint
fitting (KitRig *rig, guint wanted)
{
  guint64 capacity = lmt_l2_get_capacity (rig->l2), sum = 0;
  for (guint n = 0; n < wanted; n++)
    {
      sum += MAX (kit_object_bytes (n), rig->check->info.charge_bytes);
      if (capacity > 0 && sum > capacity / 2)
        return n;
    }
  return wanted;
}

/* -------- load -------- */

/* Every bit of every task is to be as the adapter promised. */
static void
expect_success (KitRig *rig, KitJob *job, gpointer data)
{
  gboolean finds = can (rig->check, LMT_L2_CAP_KEEP);
  for (guint i = 0; i < job->task.n; i++)
    {
      guint code = job->codes[i];
      gboolean good = job->task.kind == LMT_L2_STORE ? code == LMT_L2_OK || code == LMT_L2_PRESENT : code == LMT_L2_OK;
      if (!good && !(code == LMT_L2_NOT_FOUND && !finds))
        kit_rig_fail (rig, "%s of object %" G_GUINT64_FORMAT " (%" G_GUINT64_FORMAT " bytes): expected ok, found %s",
                      lmt_l2_kind_name (job->task.kind), job->numbers[i], kit_object_bytes (job->numbers[i]),
                      lmt_l2_code_name (code));
    }
}

/* Objects [first, first + n) in tasks of one to eight keys, several in flight. */
static void
run_range (KitRig *rig, guint32 kind, guint64 first, guint n)
{
  for (guint done = 0; done < n && rig->why == NULL;)
    {
      guint64 numbers[KIT_JOB_KEYS];
      guint keys = MIN (n - done, 1 + (guint)(lmt_mix64 (first + done) % KIT_JOB_KEYS));
      for (guint i = 0; i < keys; i++)
        numbers[i] = first + done + i;
      done += keys;
      if (!kit_rig_submit (rig, kind, numbers, keys, expect_success, NULL) || !kit_rig_collect (rig, IN_FLIGHT))
        return;
    }
  if (rig->why == NULL)
    kit_rig_collect (rig, 0);
}

static KitVerdict
load_mixed_sizes (KitCheck *check, guint rounds, char **why)
{
  KitRig rig;
  if (kit_rig_open (&rig, check))
    {
      guint n = fitting (&rig, OBJECTS);
      guint64 before = lmt_l2_get_used (rig.l2), sum = before;
      for (guint i = 0; i < n; i++)
        sum += check->info.charge_bytes != 0 ? check->info.charge_bytes : kit_object_bytes (i);
      run_range (&rig, LMT_L2_STORE, 0, n);
      if (can (check, LMT_L2_CAP_KEEP) && lmt_l2_usage_is_exact (rig.l2) && lmt_l2_get_used (rig.l2) != sum)
        kit_rig_fail (&rig, "usage: expected %" G_GUINT64_FORMAT " bytes, found %" G_GUINT64_FORMAT, sum,
                      lmt_l2_get_used (rig.l2));
      run_range (&rig, LMT_L2_LOOKUP, 0, n);
      run_range (&rig, LMT_L2_LOAD, 0, n);
      run_range (&rig, LMT_L2_STORE, 0, n); /* present */
      if (can (check, LMT_L2_CAP_DELETE))
        {
          run_range (&rig, LMT_L2_DELETE, 0, n);
          if (lmt_l2_get_used (rig.l2) != before)
            kit_rig_fail (&rig, "usage after delete: expected %" G_GUINT64_FORMAT " bytes, found %" G_GUINT64_FORMAT, before,
                          lmt_l2_get_used (rig.l2));
        }
    }
  kit_rig_close (&rig);
  return verdict_of (&rig, why);
}

/* Far more at once than the adapter takes: the core holds the rest, nothing is refused. */
static KitVerdict
load_beyond_depth (KitCheck *check, guint rounds, char **why)
{
  KitRig rig;
  if (kit_rig_open (&rig, check))
    {
      guint n = fitting (&rig, MIN (check->info.depth * 4 + 16, 512));
      for (guint32 kind = LMT_L2_STORE; kind <= LMT_L2_LOAD && rig.why == NULL; kind++)
        {
          for (guint64 i = 0; i < n && kit_rig_submit (&rig, kind, &i, 1, expect_success, NULL); i++)
            if (lmt_l2_in_flight (rig.l2) > MAX (check->info.depth, 1))
              kit_rig_fail (&rig, "expected at most %u in flight, found %u", check->info.depth, lmt_l2_in_flight (rig.l2));
          kit_rig_collect (&rig, 0);
        }
    }
  kit_rig_close (&rig);
  return verdict_of (&rig, why);
}

/* -------- concurrency -------- */

/* Anything but a damaged object may come out of a race. */
static void
expect_no_damage (KitRig *rig, KitJob *job, gpointer data)
{
  for (guint i = 0; i < job->task.n; i++)
    {
      guint code = job->codes[i];
      if (code != LMT_L2_OK && code != LMT_L2_PRESENT && code != LMT_L2_NOT_FOUND && code != LMT_L2_LOCKED
          && code != LMT_L2_NO_SPACE)
        kit_rig_fail (rig, "%s of object %" G_GUINT64_FORMAT " beside others: expected ok or not-found, found %s",
                      lmt_l2_kind_name (job->task.kind), job->numbers[i], lmt_l2_code_name (code));
    }
}

static KitVerdict
concurrency_same_keys (KitCheck *check, guint rounds, char **why)
{
  KitRig rig;
  if (kit_rig_open (&rig, check))
    {
      gboolean deletes = can (check, LMT_L2_CAP_DELETE);
      for (guint i = 0; i < MIXED_TASKS && rig.why == NULL; i++)
        {
          guint64 drawn = lmt_mix64 (i + 4711), numbers[KIT_JOB_KEYS];
          guint n = 1 + (guint)(drawn >> 40) % 4, dice = (guint)(drawn >> 8) % 100;
          guint32 kind = dice < 30               ? LMT_L2_STORE
                         : dice < 75             ? LMT_L2_LOAD
                         : dice < 88 || !deletes ? LMT_L2_LOOKUP
                                                 : LMT_L2_DELETE;
          for (guint k = 0; k < n; k++)
            numbers[k] = (drawn >> (16 + k * 4)) % SHARED_KEYS;
          if (!kit_rig_submit (&rig, kind, numbers, n, expect_no_damage, NULL) || !kit_rig_collect (&rig, IN_FLIGHT * 3))
            break;
        }
      if (rig.why == NULL && kit_rig_collect (&rig, 0))
        {
          run_range (&rig, LMT_L2_STORE, 0, SHARED_KEYS);
          run_range (&rig, LMT_L2_LOAD, 0, SHARED_KEYS);
        }
    }
  kit_rig_close (&rig);
  return verdict_of (&rig, why);
}

/* Two of a kind may be open; a medium for one alone refuses the second, and says so. */
static KitVerdict
concurrency_two_handles (KitCheck *check, guint rounds, char **why)
{
  KitRig a, b;
  KitVerdict verdict;
  if (!kit_rig_open (&a, check))
    {
      kit_rig_close (&a);
      return verdict_of (&a, why);
    }
  if (!kit_rig_open (&b, check))
    {
      kit_rig_close (&b);
      kit_rig_close (&a);
      g_free (b.why);
      g_free (a.why);
      *why = g_strdup ("a medium that may be opened twice");
      return KIT_SKIPPED;
    }
  guint n = MIN (fitting (&a, OBJECTS / 2), OBJECTS / 2);
  for (guint64 i = 0; i < n && a.why == NULL && b.why == NULL; i++)
    {
      guint64 other = i + OBJECTS;
      if (!kit_rig_submit (&a, LMT_L2_STORE, &i, 1, expect_success, NULL)
          || !kit_rig_submit (&b, LMT_L2_STORE, &other, 1, expect_success, NULL) || !kit_rig_collect (&a, IN_FLIGHT)
          || !kit_rig_collect (&b, IN_FLIGHT))
        break;
    }
  if (a.why == NULL && b.why == NULL && kit_rig_collect (&a, 0) && kit_rig_collect (&b, 0))
    {
      run_range (&a, LMT_L2_LOAD, 0, n);
      run_range (&b, LMT_L2_LOAD, OBJECTS, n);
    }
  kit_rig_close (&a);
  kit_rig_close (&b);
  verdict = verdict_of (&a, why);
  if (verdict == KIT_PASSED)
    return verdict_of (&b, why);
  g_free (b.why);
  return verdict;
}

/* -------- leaks -------- */

static KitVerdict
leak_reopen (KitCheck *check, guint rounds, char **why)
{
  guint fds = 0, threads = 0;
  for (guint i = 0; i <= REOPENS; i++)
    {
      KitRig rig;
      if (i == 1) /* the first may fill caches of libraries */
        {
          fds = kit_scenario_count_entries ("/proc/self/fd");
          threads = kit_scenario_count_tasks ();
        }
      if (kit_rig_open (&rig, check))
        {
          run_range (&rig, LMT_L2_STORE, i * 4, 4);
          run_range (&rig, LMT_L2_LOAD, i * 4, 4);
          if (can (check, LMT_L2_CAP_DELETE))
            run_range (&rig, LMT_L2_DELETE, i * 4, 4);
        }
      kit_rig_close (&rig);
      if (rig.why != NULL)
        return verdict_of (&rig, why);
    }
  guint fds_now = kit_scenario_count_entries ("/proc/self/fd"), threads_now = kit_scenario_count_threads (threads);
  if (fds_now != fds)
    *why = g_strdup_printf ("expected %u descriptors after %d opens and closes, found %u", fds, REOPENS, fds_now);
  else if (threads_now > threads)
    *why = g_strdup_printf ("expected %u threads after %d opens and closes, found %u", threads, REOPENS, threads_now);
  return *why != NULL ? KIT_FAILED : KIT_PASSED;
}

const KitTrial kit_trials[] = {
  { "load-mixed-sizes", load_mixed_sizes },
  { "load-beyond-depth", load_beyond_depth },
  { "concurrency-same-keys", concurrency_same_keys },
  { "concurrency-two-handles", concurrency_two_handles },
  { "crash-in-store", kit_crash_trial },
  { "leak-reopen", leak_reopen },
  { NULL, NULL },
};
