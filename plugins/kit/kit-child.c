// SPDX-License-Identifier: Apache-2.0
#include "kit-child.h"

#include <errno.h>
#include <glib-unix.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum
{
  LOOK_EVERY_MS = 50,
  STEP_BYTES = 200,
};

/* A page both processes see: it outlives the child. */
struct _KitProgress
{
  atomic_uint beats;
  atomic_uint allowed_ms; /* from the last beat on */
  atomic_uint touched;    /* the child touched memory where nobody may */
  char step[STEP_BYTES];
};

/* What comes back through the pipe, with @why_len bytes of text behind it. */
typedef struct
{
  guint32 verdict;
  guint32 n_timeouts;
  guint32 n_objects;
  guint32 has_why;
  guint64 why_len;
  LmtL2Info info;
} Result;

/* -------- told by the child -------- */

static KitProgress *current; /* for the signal handler of the child */

static gint64
allowed_ms (const KitCheck *check, gint64 extra_ms)
{
  return MIN ((gint64)check->patience_s * 1000 + extra_ms, G_MAXINT32);
}

void
kit_beat (KitCheck *check, gint64 extra_ms)
{
  if (check->progress == NULL)
    return;
  atomic_store (&check->progress->allowed_ms, (guint)allowed_ms (check, extra_ms));
  atomic_fetch_add (&check->progress->beats, 1);
}

void
kit_progress (KitCheck *check, const char *format, ...)
{
  va_list args;
  if (check->progress == NULL)
    return;
  va_start (args, format);
  g_vsnprintf (check->progress->step, STEP_BYTES, format, args);
  va_end (args);
  kit_beat (check, 0);
}

/* Buffers lie between pages that nobody may touch: the parent is to know, then the process ends as it would have ended. */
static void
on_fault (int number, siginfo_t *info, void *context)
{
  if (info->si_code == SEGV_ACCERR)
    atomic_store (&current->touched, 1);
  signal (number, SIG_DFL);
  raise (number);
}

static gboolean
write_all (int fd, const void *bytes, gsize n)
{
  for (gsize done = 0; done < n;)
    {
      ssize_t m = write (fd, (const char *)bytes + done, n - done);
      if (m < 0 && errno != EINTR)
        return FALSE;
      done += m > 0 ? (gsize)m : 0;
    }
  return TRUE;
}

G_GNUC_NORETURN static void
be_child (KitCheck *check, KitChildFunc func, gpointer data, int fd, pid_t parent)
{
  struct sigaction act = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO };
  char *why = NULL;
  prctl (PR_SET_PDEATHSIG, SIGKILL);
  if (getppid () != parent)
    _exit (0);
  current = check->progress;
  sigaction (SIGSEGV, &act, NULL);
  sigaction (SIGBUS, &act, NULL);
  Result result = { .verdict = func (check, data, &why) };
  result.n_timeouts = check->n_timeouts;
  result.n_objects = check->n_objects;
  result.info = check->info;
  result.has_why = why != NULL;
  result.why_len = why != NULL ? strlen (why) : 0;
  kit_progress (check, "exit");
  gboolean told = write_all (fd, &result, sizeof result) && write_all (fd, why, result.why_len);
  close (fd);
  g_free (why);
  exit (told ? 0 : 1); /* with all its handlers: leak checkers speak there */
}

/* -------- seen by the parent -------- */

typedef struct
{
  KitCheck *check;
  pid_t pid;
  int fd;
  guint beats;
  gint64 since_us; /* of the last beat */
  gboolean hung;
} Child;

/* TRUE: nothing was heard for too long; then it is dead. */
static gboolean
is_hung (Child *child)
{
  KitProgress *progress = child->check->progress;
  guint beats = atomic_load (&progress->beats);
  gint64 now = g_get_monotonic_time ();
  if (beats != child->beats)
    {
      child->beats = beats;
      child->since_us = now;
    }
  if (now - child->since_us < (gint64)atomic_load (&progress->allowed_ms) * 1000)
    return FALSE;
  child->hung = TRUE;
  kill (child->pid, SIGKILL);
  return TRUE;
}

/* FALSE: the child ended, or was ended, before so much came. */
static gboolean
read_all (Child *child, void *bytes, gsize n)
{
  for (gsize done = 0; done < n;)
    {
      struct pollfd wait = { .fd = child->fd, .events = POLLIN };
      int ready = poll (&wait, 1, LOOK_EVERY_MS);
      if (ready > 0)
        {
          ssize_t m = read (child->fd, (char *)bytes + done, n - done);
          if (m == 0 || (m < 0 && errno != EINTR))
            return FALSE;
          done += m > 0 ? (gsize)m : 0;
        }
      else if (is_hung (child))
        return FALSE;
      /* A process the adapter started may hold the pipe open behind the child's back. */
      else if (ready == 0)
        {
          siginfo_t info = { 0 };
          if (waitid (P_PID, (id_t)child->pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == child->pid
              && poll (&wait, 1, 0) == 0)
            return FALSE;
        }
    }
  return TRUE;
}

static int
wait_end (Child *child)
{
  int status = 0;
  for (;;)
    {
      pid_t ended = waitpid (child->pid, &status, WNOHANG);
      if (ended == child->pid || (ended < 0 && errno != EINTR))
        return status;
      if (!child->hung)
        is_hung (child);
      g_usleep (2000);
    }
}

static char *
end_text (const Child *child, int status)
{
  const KitProgress *progress = child->check->progress;
  if (child->hung)
    return g_strdup_printf ("expected an end within %.0f s, found it hanging: killed",
                            (double)atomic_load (&progress->allowed_ms) / 1000);
  if (WIFSIGNALED (status))
    return g_strdup_printf ("expected a result, found it crashed by signal %d (%s)%s", WTERMSIG (status),
                            g_strsignal (WTERMSIG (status)),
                            atomic_load (&progress->touched) != 0 ? ": it touched memory that isn't its own" : "");
  return g_strdup_printf ("expected a result, found its process ended with status %d", WEXITSTATUS (status));
}

static KitVerdict
collect (Child *child, char **why)
{
  Result result = { 0 };
  g_autoptr (GString) text = g_string_new (NULL);
  gboolean told = read_all (child, &result, sizeof result) && result.why_len < G_MAXINT32;
  if (told)
    {
      g_string_set_size (text, result.why_len);
      told = read_all (child, text->str, result.why_len);
    }
  int status = wait_end (child);
  if (told)
    {
      child->check->n_timeouts = result.n_timeouts;
      child->check->n_objects = result.n_objects;
      child->check->info = result.info;
    }
  if (!told || ((child->hung || status != 0) && result.verdict != KIT_FAILED))
    {
      g_autofree char *end = end_text (child, status);
      child->check->n_timeouts += child->hung;
      *why = g_strdup_printf ("%s: %s", child->check->progress->step, end);
      return KIT_FAILED;
    }
  if (result.has_why)
    *why = g_strdup (text->str);
  return result.verdict;
}

KitVerdict
kit_child_run (KitCheck *check, KitChildFunc func, gpointer data, char **why)
{
  int ends[2];
  Child child = { .check = check };
  *why = NULL;
  if (check->progress == NULL)
    {
      void *page = mmap (NULL, sizeof (KitProgress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
      if (page == MAP_FAILED)
        {
          *why = g_strdup_printf ("start: expected a page of memory, found %s", g_strerror (errno));
          return KIT_FAILED;
        }
      check->progress = page;
    }
  if (!g_unix_open_pipe (ends, FD_CLOEXEC, NULL))
    {
      *why = g_strdup_printf ("start: expected a pipe, found %s", g_strerror (errno));
      return KIT_FAILED;
    }
  atomic_store (&check->progress->touched, 0);
  kit_progress (check, "start");
  fflush (NULL);
  pid_t parent = getpid ();
  child.pid = fork ();
  if (child.pid == 0)
    {
      close (ends[0]);
      be_child (check, func, data, ends[1], parent);
    }
  close (ends[1]);
  if (child.pid < 0)
    {
      *why = g_strdup_printf ("start: expected a process, found %s", g_strerror (errno));
      close (ends[0]);
      return KIT_FAILED;
    }
  child.fd = ends[0];
  child.since_us = g_get_monotonic_time ();
  KitVerdict verdict = collect (&child, why);
  close (ends[0]);
  return verdict;
}

void
kit_progress_free (KitProgress *progress)
{
  if (progress != NULL)
    munmap (progress, sizeof *progress);
}
