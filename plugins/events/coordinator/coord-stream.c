// SPDX-License-Identifier: Apache-2.0
#include "coord-stream.h"

#include <errno.h>
#include <glib-unix.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum
{
  HOLD = 2048, /* a reply's head has about 110 bytes */
};

/* The one source of a connection. It outlives the stream if a wait still holds it. */
typedef struct
{
  GSource source;
  gpointer tag;     /* NULL: not polled */
  guint events;     /* what is polled now */
  guint n_waits[2]; /* for reading, for writing */
  int fd;           /* -1: closed */
  gboolean failed;  /* held bytes could not be sent: the next write says so */
  int fault;        /* errno of that */
  guint held;
  guint8 hold[HOLD];
} Watch;

/* An end of the connection is reported whatever is polled for: with nothing to poll for the descriptor leaves the loop. */
static void
watch_poll (Watch *watch, guint events)
{
  if (watch->events == events || watch->fd < 0)
    return;
  watch->events = events;
  if (watch->tag != NULL && events != 0)
    g_source_modify_unix_fd (&watch->source, watch->tag, (GIOCondition)events);
  else if (events != 0)
    watch->tag = g_source_add_unix_fd (&watch->source, watch->fd, (GIOCondition)events);
  else
    g_source_remove_unix_fd (&watch->source, g_steal_pointer (&watch->tag));
}

static guint
watch_ready (Watch *watch)
{
  return watch->tag != NULL ? g_source_query_unix_fd (&watch->source, watch->tag) : 0;
}

static guint
watch_wanted (const Watch *watch)
{
  return (watch->n_waits[0] > 0 ? (guint)G_IO_IN : 0) | (watch->n_waits[1] > 0 ? (guint)G_IO_OUT : 0);
}

/* Sends what is held. TRUE: nothing is held any more. */
static gboolean
watch_flush (Watch *watch)
{
  while (watch->held > 0 && watch->fd >= 0)
    {
      gssize n = send (watch->fd, watch->hold, watch->held, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (n < 0 && errno == EINTR)
        continue;
      if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        return FALSE;
      if (n < 0)
        {
          watch->failed = TRUE;
          watch->fault = errno;
          watch->held = 0;
          break;
        }
      watch->held -= (guint)n;
      memmove (watch->hold, watch->hold + n, watch->held);
    }
  return watch->held == 0;
}

/* Before the loop sleeps: nothing may be kept back. */
static gboolean
watch_prepare (GSource *source, int *timeout)
{
  Watch *watch = (Watch *)source;

  *timeout = -1;
  if (watch->held > 0 && !watch_flush (watch))
    watch_poll (watch, watch->events | G_IO_OUT);
  return FALSE;
}

static gboolean
watch_check (GSource *source)
{
  return watch_ready ((Watch *)source) != 0;
}

/* Ready, and perhaps nobody waits for it: then it isn't polled any more until somebody does, or the loop would spin. */
static gboolean
watch_dispatch (GSource *source, GSourceFunc func, gpointer data)
{
  Watch *watch = (Watch *)source;
  guint keep = watch_wanted (watch);

  if (watch->held > 0 && !watch_flush (watch))
    keep |= G_IO_OUT;
  if ((watch_ready (watch) & ~keep) != 0)
    watch_poll (watch, keep);
  return G_SOURCE_CONTINUE;
}

static GSourceFuncs watch_funcs = { watch_prepare, watch_check, watch_dispatch, NULL, NULL, NULL };

/* -------- waits: what libsoup asks for, a source that is ready when the connection's is -------- */

typedef struct
{
  GSource source;
  Watch *watch;
  guint condition;
  GObject *stream; /* given to the callback */
} Wait;

static gboolean
wait_ready (Wait *wait)
{

  /* closed: the read or write that follows says so */
  return wait->watch->fd < 0 || (watch_ready (wait->watch) & (wait->condition | (guint)G_IO_ERR | (guint)G_IO_HUP)) != 0;
}

static gboolean
wait_prepare (GSource *source, int *timeout)
{
  *timeout = -1;
  return ((Wait *)source)->watch->fd < 0;
}

static gboolean
wait_check (GSource *source)
{
  return wait_ready ((Wait *)source);
}

static gboolean
wait_dispatch (GSource *source, GSourceFunc func, gpointer data)
{
  Wait *wait = (Wait *)source;
  GPollableSourceFunc call = (GPollableSourceFunc)(void (*) (void))func;
  return call != NULL ? call (wait->stream, data) : G_SOURCE_REMOVE;
}

static void
wait_finalize (GSource *source)
{
  Wait *wait = (Wait *)source;
  Watch *watch = wait->watch;
  GObject *stream = wait->stream;

  watch->n_waits[wait->condition == G_IO_OUT]--;
  g_source_unref (&watch->source);
  g_object_unref (stream);
}

/* GIO's filter streams wrap a source by giving it a closure. */
static gboolean
wait_call_closure (GObject *stream, gpointer data)
{
  GValue again = G_VALUE_INIT, param = G_VALUE_INIT;
  gboolean result;

  g_value_init (&again, G_TYPE_BOOLEAN);
  g_value_init (&param, G_TYPE_OBJECT);
  g_value_set_object (&param, stream);
  g_closure_invoke (data, &again, 1, &param, NULL);
  result = g_value_get_boolean (&again);
  g_value_unset (&param);
  g_value_unset (&again);
  return result;
}

static GSourceFuncs wait_funcs
    = { wait_prepare, wait_check, wait_dispatch, wait_finalize, (GSourceFunc)(void (*) (void))wait_call_closure, NULL };

static GSource *
wait_new (Watch *watch, GObject *stream, guint condition, GCancellable *cancellable)
{
  GSource *source = g_source_new (&wait_funcs, sizeof (Wait));
  Wait *wait = (Wait *)source;

  g_source_set_static_name (source, "lmtrace coordinator wait");
  wait->watch = watch;
  wait->condition = condition;
  wait->stream = g_object_ref (stream);
  g_source_ref (&watch->source);
  watch->n_waits[condition == G_IO_OUT]++;
  watch_poll (watch, watch->events | condition);
  if (cancellable != NULL)
    {
      g_autoptr (GSource) child = g_cancellable_source_new (cancellable);
      g_source_set_dummy_callback (child);
      g_source_add_child_source (source, child);
    }
  return source;
}

static gboolean
fail (GError **error, int number)
{
  g_set_error_literal (error, G_IO_ERROR, (gint)g_io_error_from_errno (number), g_strerror (number));
  return FALSE;
}

static gboolean
now_ready (Watch *watch, GIOCondition condition)
{
  GPollFD poll_fd = { watch->fd, (gushort)condition, 0 };
  return watch->fd < 0 || g_poll (&poll_fd, 1, 0) > 0;
}

/* -------- the two halves -------- */

#define COORD_TYPE_INPUT (coord_input_get_type ())
G_DECLARE_FINAL_TYPE (CoordInput, coord_input, COORD, INPUT, GInputStream)
struct _CoordInput
{
  GInputStream parent;
  Watch *watch;
};

static gssize
input_receive (CoordInput *self, void *buffer, gsize count, gboolean wait, GError **error)
{
  Watch *watch = self->watch;

  while (watch->fd >= 0)
    {
      gssize n = recv (watch->fd, buffer, count, MSG_DONTWAIT);
      if (n >= 0)
        return n;
      if (errno == EINTR)
        continue;
      if ((errno == EAGAIN || errno == EWOULDBLOCK) && wait)
        {
          GPollFD poll_fd = { watch->fd, G_IO_IN, 0 };
          g_poll (&poll_fd, 1, -1);
          continue;
        }
      fail (error, errno);
      return -1;
    }
  g_set_error_literal (error, G_IO_ERROR, G_IO_ERROR_CLOSED, "the connection is closed");
  return -1;
}

static gssize
input_read (GInputStream *stream, void *buffer, gsize count, GCancellable *cancellable, GError **error)
{
  return input_receive ((CoordInput *)stream, buffer, count, TRUE, error);
}

static gssize
input_read_nonblocking (GPollableInputStream *stream, void *buffer, gsize count, GError **error)
{
  return input_receive ((CoordInput *)stream, buffer, count, FALSE, error);
}

static gboolean
input_is_readable (GPollableInputStream *stream)
{
  return now_ready (((CoordInput *)stream)->watch, G_IO_IN);
}

static GSource *
input_create_source (GPollableInputStream *stream, GCancellable *cancellable)
{
  return wait_new (((CoordInput *)stream)->watch, G_OBJECT (stream), G_IO_IN, cancellable);
}

static void
input_pollable (GPollableInputStreamInterface *iface)
{
  iface->is_readable = input_is_readable;
  iface->create_source = input_create_source;
  iface->read_nonblocking = input_read_nonblocking;
}

G_DEFINE_TYPE_WITH_CODE (CoordInput, coord_input, G_TYPE_INPUT_STREAM,
                         G_IMPLEMENT_INTERFACE (G_TYPE_POLLABLE_INPUT_STREAM, input_pollable))

static void
input_finalize (GObject *object)
{
  g_source_unref (&((CoordInput *)object)->watch->source);
  G_OBJECT_CLASS (coord_input_parent_class)->finalize (object);
}

static void
coord_input_class_init (CoordInputClass *klass)
{
  G_OBJECT_CLASS (klass)->finalize = input_finalize;
  G_INPUT_STREAM_CLASS (klass)->read_fn = input_read;
}

static void
coord_input_init (CoordInput *self)
{
}

#define COORD_TYPE_OUTPUT (coord_output_get_type ())
G_DECLARE_FINAL_TYPE (CoordOutput, coord_output, COORD, OUTPUT, GOutputStream)
struct _CoordOutput
{
  GOutputStream parent;
  Watch *watch;
};

/* A head that says that a body follows. */
static gboolean
is_head (const guint8 *bytes, gsize count)
{
  return count > 16 && count <= HOLD && memcmp (bytes, "HTTP/1.", 7) == 0 && memcmp (bytes + count - 4, "\r\n\r\n", 4) == 0;
}

static gssize
output_send (CoordOutput *self, const void *buffer, gsize count, gboolean wait, GError **error)
{
  Watch *watch = self->watch;

  while (watch->fd >= 0)
    {
      struct iovec parts[2] = { { watch->hold, watch->held }, { (void *)buffer, count } };
      struct msghdr message = { .msg_iov = watch->held > 0 ? parts : parts + 1, .msg_iovlen = watch->held > 0 ? 2 : 1 };
      gssize n;
      int number;

      if (watch->failed)
        {
          fail (error, watch->fault);
          return -1;
        }
      if (watch->held == 0 && is_head (buffer, count))
        {
          memcpy (watch->hold, buffer, count);
          watch->held = (guint)count;
          return (gssize)count;
        }
      n = sendmsg (watch->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
      number = errno;
      if (n > 0)
        {
          guint of_held = (guint)MIN ((gsize)n, (gsize)watch->held);
          watch->held -= of_held;
          memmove (watch->hold, watch->hold + of_held, watch->held);
          if (n - (gssize)of_held > 0 || count == 0)
            return n - (gssize)of_held;
          continue; /* only of what was held: the rest of it, or the bytes themselves, come now */
        }
      if (n == 0 || number == EINTR)
        continue;
      if ((number == EAGAIN || number == EWOULDBLOCK) && wait)
        {
          GPollFD poll_fd = { watch->fd, G_IO_OUT, 0 };
          g_poll (&poll_fd, 1, -1);
          continue;
        }
      fail (error, number);
      return -1;
    }
  g_set_error_literal (error, G_IO_ERROR, G_IO_ERROR_CLOSED, "the connection is closed");
  return -1;
}

static gssize
output_write (GOutputStream *stream, const void *buffer, gsize count, GCancellable *cancellable, GError **error)
{
  return output_send ((CoordOutput *)stream, buffer, count, TRUE, error);
}

static gssize
output_write_nonblocking (GPollableOutputStream *stream, const void *buffer, gsize count, GError **error)
{
  return output_send ((CoordOutput *)stream, buffer, count, FALSE, error);
}

static gboolean
output_is_writable (GPollableOutputStream *stream)
{
  return now_ready (((CoordOutput *)stream)->watch, G_IO_OUT);
}

static GSource *
output_create_source (GPollableOutputStream *stream, GCancellable *cancellable)
{
  return wait_new (((CoordOutput *)stream)->watch, G_OBJECT (stream), G_IO_OUT, cancellable);
}

static void
output_pollable (GPollableOutputStreamInterface *iface)
{
  iface->is_writable = output_is_writable;
  iface->create_source = output_create_source;
  iface->write_nonblocking = output_write_nonblocking;
}

G_DEFINE_TYPE_WITH_CODE (CoordOutput, coord_output, G_TYPE_OUTPUT_STREAM,
                         G_IMPLEMENT_INTERFACE (G_TYPE_POLLABLE_OUTPUT_STREAM, output_pollable))

static void
output_finalize (GObject *object)
{
  g_source_unref (&((CoordOutput *)object)->watch->source);
  G_OBJECT_CLASS (coord_output_parent_class)->finalize (object);
}

static void
coord_output_class_init (CoordOutputClass *klass)
{
  G_OBJECT_CLASS (klass)->finalize = output_finalize;
  G_OUTPUT_STREAM_CLASS (klass)->write_fn = output_write;
}

static void
coord_output_init (CoordOutput *self)
{
}

/* -------- both together -------- */

#define COORD_TYPE_STREAM (coord_stream_get_type ())
G_DECLARE_FINAL_TYPE (CoordStream, coord_stream, COORD, STREAM, GIOStream)
struct _CoordStream
{
  GIOStream parent;
  GSocket *socket;
  Watch *watch;
  GInputStream *input;
  GOutputStream *output;
};

G_DEFINE_TYPE (CoordStream, coord_stream, G_TYPE_IO_STREAM)

static GInputStream *
stream_get_input (GIOStream *stream)
{
  return ((CoordStream *)stream)->input;
}

static GOutputStream *
stream_get_output (GIOStream *stream)
{
  return ((CoordStream *)stream)->output;
}

static gboolean
stream_close (GIOStream *stream, GCancellable *cancellable, GError **error)
{
  CoordStream *self = (CoordStream *)stream;

  if (self->watch->fd < 0)
    return TRUE;
  watch_flush (self->watch);
  watch_poll (self->watch, 0);
  self->watch->fd = -1;
  g_source_destroy (&self->watch->source);
  return g_socket_close (self->socket, error);
}

static void
stream_finalize (GObject *object)
{
  CoordStream *self = (CoordStream *)object;

  stream_close (G_IO_STREAM (self), NULL, NULL);
  g_object_unref (self->input);
  g_object_unref (self->output);
  g_object_unref (self->socket);
  g_source_unref (&self->watch->source);
  G_OBJECT_CLASS (coord_stream_parent_class)->finalize (object);
}

static void
coord_stream_class_init (CoordStreamClass *klass)
{
  G_OBJECT_CLASS (klass)->finalize = stream_finalize;
  G_IO_STREAM_CLASS (klass)->get_input_stream = stream_get_input;
  G_IO_STREAM_CLASS (klass)->get_output_stream = stream_get_output;
  G_IO_STREAM_CLASS (klass)->close_fn = stream_close;
}

static void
coord_stream_init (CoordStream *self)
{
}

GIOStream *
coord_stream_new (GSocket *socket, GMainContext *context)
{
  CoordStream *self = g_object_new (COORD_TYPE_STREAM, NULL);
  GSource *source = g_source_new (&watch_funcs, sizeof (Watch));
  Watch *watch = (Watch *)source;
  CoordInput *input = g_object_new (COORD_TYPE_INPUT, NULL);
  CoordOutput *output = g_object_new (COORD_TYPE_OUTPUT, NULL);

  g_source_set_static_name (source, "lmtrace coordinator connection");
  watch->fd = g_socket_get_fd (socket);
  watch->events = G_IO_IN;
  watch->tag = g_source_add_unix_fd (source, watch->fd, G_IO_IN);
  input->watch = watch;
  g_source_ref (source);
  output->watch = watch;
  g_source_ref (source);
  self->socket = g_object_ref (socket);
  self->watch = watch;
  self->input = G_INPUT_STREAM (input);
  self->output = G_OUTPUT_STREAM (output);
  g_source_attach (source, context);
  return G_IO_STREAM (self);
}
