// SPDX-License-Identifier: Apache-2.0
/*
 * The crash trial: a child stores and tells each object that was reported stored; it is killed in mid-store. The adapter is
 * opened again: what was told must be there, whole; what was not told may be there, but whole, too.
 */
#include "kit-trial.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kit-rig.h"

#define CHILD_VARIABLE "LMTRACE_CHECK_CRASH_CHILD" /* descriptor that stored numbers are written to */

enum
{
  CHILD_IN_FLIGHT = 16,
  CHILD_OBJECTS = 4096,
  MOST_BEFORE_KILL = 160,
};

gboolean
kit_crash_is_child (void)
{
  return g_getenv (CHILD_VARIABLE) != NULL;
}

static void
tell (KitRig *rig, KitJob *job, gpointer data)
{
  int fd = GPOINTER_TO_INT (data);
  if (job->codes[0] == LMT_L2_OK && write (fd, job->numbers, sizeof job->numbers[0]) < 0)
    kit_rig_fail (rig, "pipe: %s", g_strerror (errno));
}

int
kit_crash_child (LmtRegistry *registry, const char *json, guint patience_s)
{
  KitCheck check = { .registry = registry, .json = (char *)json, .patience_s = patience_s };
  KitRig rig;
  int fd = atoi (g_getenv (CHILD_VARIABLE));
  if (kit_rig_open (&rig, &check))
    for (guint64 i = 0; i < CHILD_OBJECTS && rig.why == NULL; i++)
      if (!kit_rig_submit (&rig, LMT_L2_STORE, &i, 1, tell, GINT_TO_POINTER (fd)) || !kit_rig_collect (&rig, CHILD_IN_FLIGHT - 1))
        break;
  if (rig.why == NULL)
    kit_rig_collect (&rig, 0);
  /* Not killed in time: the parent sees the end of the pipe. */
  kit_rig_close (&rig);
  g_free (rig.why);
  return 0;
}

/* This very command line once more: no state of an adapter's libraries is shared, as it would be by fork alone. */
static GPid
start_child (int fd, char **why)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *line = NULL;
  gsize n;
  if (!g_file_get_contents ("/proc/self/cmdline", &line, &n, &error))
    {
      *why = g_strdup (error->message);
      return -1;
    }
  g_autoptr (GPtrArray) words = g_ptr_array_new ();
  for (gsize at = 0; at < n; at += strlen (line + at) + 1)
    g_ptr_array_add (words, line + at);
  g_ptr_array_add (words, NULL);
  g_autofree char *number = g_strdup_printf ("%d", fd);
  g_auto (GStrv) environment = g_environ_setenv (g_get_environ (), CHILD_VARIABLE, number, TRUE);
  pid_t child = fork ();
  if (child == 0)
    {
      prctl (PR_SET_PDEATHSIG, SIGKILL); /* kept by exec */
      dup2 (STDERR_FILENO, STDOUT_FILENO);
      execve ("/proc/self/exe", (char *const *)words->pdata, environment);
      _exit (127);
    }
  if (child < 0)
    *why = g_strdup_printf ("fork: %s", g_strerror (errno));
  return child;
}

static gboolean
read_number (int fd, guint64 *number)
{
  ssize_t got;
  do
    got = read (fd, number, sizeof *number);
  while (got < 0 && errno == EINTR);
  return got == sizeof *number;
}

/* Numbers told before the child was killed, in a set. NULL: it could not be started. */
static GHashTable *
run_child (guint round, char **why)
{
  int ends[2];
  if (pipe (ends) != 0)
    {
      *why = g_strdup_printf ("pipe: %s", g_strerror (errno));
      return NULL;
    }
  pid_t child = start_child (ends[1], why);
  close (ends[1]);
  if (child < 0)
    {
      close (ends[0]);
      return NULL;
    }
  GHashTable *told = g_hash_table_new_full (g_int64_hash, g_int64_equal, g_free, NULL);
  guint wanted = 1 + (guint)(lmt_mix64 (round + 31) % MOST_BEFORE_KILL);
  guint64 number;
  while (g_hash_table_size (told) < wanted && read_number (ends[0], &number))
    g_hash_table_add (told, g_memdup2 (&number, sizeof number));
  if (lmt_mix64 (round + 99) % 2 == 0)
    g_usleep ((gulong)(lmt_mix64 (round + 7) % 3000));
  kill (child, SIGKILL);
  int status;
  while (waitpid (child, &status, 0) < 0 && errno == EINTR)
    ;
  while (read_number (ends[0], &number))
    g_hash_table_add (told, g_memdup2 (&number, sizeof number));
  close (ends[0]);
  if (WIFSIGNALED (status) && WTERMSIG (status) != SIGKILL)
    *why = g_strdup_printf ("expected a child that stores, found one that crashed by signal %d (%s)", WTERMSIG (status),
                            g_strsignal (WTERMSIG (status)));
  else if (g_hash_table_size (told) == 0)
    *why = WIFEXITED (status)
               ? g_strdup_printf ("expected a child that stores, found one that ended with %d", WEXITSTATUS (status))
               : g_strdup ("expected a child that stores, found none stored");
  return told;
}

typedef struct
{
  GHashTable *told;
  guint64 found;
} Round;

static void
judge (KitRig *rig, KitJob *job, gpointer data)
{
  Round *round = data;
  guint64 number = job->numbers[0];
  gboolean told = g_hash_table_contains (round->told, &number);
  guint code = job->codes[0];
  if (code == LMT_L2_OK)
    round->found++;
  else if (told || code != LMT_L2_NOT_FOUND)
    kit_rig_fail (rig,
                  "after kill -9, %s of object %" G_GUINT64_FORMAT " (%" G_GUINT64_FORMAT " bytes, %s): expected %s, found %s",
                  lmt_l2_kind_name (job->task.kind), number, kit_object_bytes (number),
                  told ? "reported stored" : "not reported stored", told ? "ok" : "ok or not-found", lmt_l2_code_name (code));
}

static void
one_round (KitCheck *check, guint number, char **why)
{
  g_autoptr (GHashTable) told = run_child (number, why);
  KitRig rig;
  if (told == NULL || *why != NULL)
    return;
  if (kit_rig_open (&rig, check))
    {
      Round round = { told, 0 };
      /* Everything the child can have begun. */
      guint64 last = 0, *key;
      GHashTableIter iter;
      g_hash_table_iter_init (&iter, told);
      while (g_hash_table_iter_next (&iter, (gpointer *)&key, NULL))
        last = MAX (last, *key);
      for (guint64 i = 0; i <= last + 2 * CHILD_IN_FLIGHT && rig.why == NULL; i++)
        if (!kit_rig_submit (&rig, LMT_L2_LOOKUP, &i, 1, judge, &round)
            || !kit_rig_submit (&rig, LMT_L2_LOAD, &i, 1, judge, &round) || !kit_rig_collect (&rig, CHILD_IN_FLIGHT))
          break;
      if (rig.why == NULL)
        kit_rig_collect (&rig, 0);
      const LmtL2Ops *ops = lmt_l2_get_ops (rig.l2);
      const LmtL2Key none = { 0 };
      gint64 debris = ops->tamper != NULL ? ops->tamper (lmt_l2_get_handle (rig.l2), &none, "debris", 0) : -1;
      if (debris > 0)
        kit_rig_fail (&rig, "after kill -9 and open: expected no debris, found %" G_GINT64_FORMAT " entries that are no objects",
                      debris);
      kit_rig_wipe (&rig);
    }
  kit_rig_close (&rig);
  *why = g_steal_pointer (&rig.why);
}

KitVerdict
kit_crash_trial (KitCheck *check, guint rounds, char **why)
{
  if ((check->info.capabilities & LMT_L2_CAP_PERSIST) == 0)
    {
      *why = g_strdup ("persist");
      return KIT_SKIPPED;
    }
  for (guint i = 0; i < rounds && *why == NULL; i++)
    one_round (check, i, why);
  return *why != NULL ? KIT_FAILED : KIT_PASSED;
}
