// SPDX-License-Identifier: Apache-2.0
/* GET /lmtrace/dump. All views in canonical order take seconds where there are many keys: a process of its own writes them, as
 * they were when it was asked for, into a pipe; here they are only collected. */
#include "coord.h"

#include <errno.h>
#include <fcntl.h>
#include <glib-unix.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

enum
{
  FEW_KEYS = 10000, /* so many are written in line: some 40 ms */
  MAX_DUMPS = 2,    /* at a time: each may have hundreds of MB */
  PIECE = 1 << 20,
};

typedef struct
{
  Coord *coord;
  CoordRequest *request;
  GString *text;
  pid_t pid;
  int fd;
  guint watch;
} Dump;

static void
write_views (Coord *coord, GString *out)
{
  LmtJsonWriter *writer = lmt_json_writer_new (out, LMT_JSON_STYLE_COMPACT);
  events_views_dump (coord->views, writer);
  lmt_json_writer_free (writer);
}

static void G_GNUC_NORETURN
be_child (Coord *coord, int fd, pid_t parent)
{
  gsize done = 0;

  events_child_begin (fd, parent);
  GString *out = g_string_new (NULL);
  write_views (coord, out);
  while (done < out->len)
    {
      const gssize n = write (fd, out->str + done, out->len - done);
      if (n < 0 && errno == EINTR)
        continue;
      if (n <= 0)
        _exit (1);
      done += (gsize)n;
    }
  _exit (0);
}

/* Whether it came to its end. */
static gboolean
dump_free (Dump *dump)
{
  int status = 1;

  g_clear_handle_id (&dump->watch, g_source_remove);
  close (dump->fd);
  while (waitpid (dump->pid, &status, 0) < 0 && errno == EINTR)
    continue;
  g_string_free (dump->text, TRUE);
  dump->coord->n_dumps--;
  g_free (dump);
  return WIFEXITED (status) && WEXITSTATUS (status) == 0;
}

static void
dump_cancel (gpointer job)
{
  Dump *dump = job;

  (void)kill (dump->pid, SIGKILL);
  dump_free (dump);
}

static gboolean
on_piece (gint fd, GIOCondition condition, gpointer data)
{
  Dump *dump = data;
  Coord *coord = dump->coord;
  CoordRequest *request = dump->request;
  const gsize before = dump->text->len;
  GString *text;

  g_string_set_size (dump->text, before + PIECE);
  const gssize n = read (fd, dump->text->str + before, PIECE);
  const int number = errno;
  g_string_set_size (dump->text, before + (gsize)MAX (n, 0));
  if (n > 0 || (n < 0 && (number == EINTR || number == EAGAIN)))
    return G_SOURCE_CONTINUE;
  dump->watch = 0;
  request->job = NULL;
  text = g_steal_pointer (&dump->text);
  dump->text = request->out;
  request->out = text;
  if (dump_free (dump) && n == 0)
    coord_reply (request, 200);
  else
    {
      g_string_truncate (request->out, 0);
      coord_reply_detail (request, 500, "the process that was writing the dump ended before it was done");
    }
  coord_request_finish (coord, request);
  return G_SOURCE_REMOVE;
}

static gboolean
start_child (Coord *coord, CoordRequest *request)
{
  const pid_t parent = getpid ();
  sigset_t all, before;
  int fds[2];
  pid_t pid;

  if (pipe2 (fds, O_CLOEXEC) != 0)
    return FALSE;
  (void)fcntl (fds[0], F_SETPIPE_SZ, PIECE);
  sigfillset (&all); /* signals to the group are the parent's affair */
  pthread_sigmask (SIG_SETMASK, &all, &before);
  pid = fork ();
  if (pid == 0)
    be_child (coord, fds[1], parent);
  pthread_sigmask (SIG_SETMASK, &before, NULL);
  close (fds[1]);
  if (pid < 0)
    {
      close (fds[0]);
      return FALSE;
    }
  Dump *dump = g_new0 (Dump, 1);
  *dump = (Dump){ .coord = coord, .request = request, .text = g_string_new (NULL), .pid = pid, .fd = fds[0] };
  dump->watch = g_unix_fd_add (dump->fd, G_IO_IN | G_IO_HUP, on_piece, dump);
  coord->n_dumps++;
  request->deferred = 1;
  request->job = dump;
  request->cancel = dump_cancel;
  return TRUE;
}

void
coord_api_dump (Coord *coord, CoordRequest *request)
{
  EventsStats stats;

  events_views_stats (coord->views, &stats);
  if (stats.num_keys > FEW_KEYS && coord->n_dumps >= MAX_DUMPS)
    {
      coord_reply_detail (request, 503, "%d dumps are being written", MAX_DUMPS);
      return;
    }
  if (stats.num_keys > FEW_KEYS && start_child (coord, request))
    return;
  write_views (coord, request->out);
  coord_reply (request, 200);
}
