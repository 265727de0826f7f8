// SPDX-License-Identifier: Apache-2.0
/* libsoup (3.2) forgets about a connection whose peer goes between two requests: nobody asked for the end of a message that never
 * began, so the connection stays open and counted for ever. This stream gives one byte before such an end: a request begins, is
 * broken off, and the connection goes.
 *
 * It also forgets to free the path of a request whose transfer encoding it doesn't know, or whose length is no number: up to
 * 64 KiB each, without an end. Such a line ends the connection here, before libsoup sees it. In a body it could only stand in
 * what is no JSON. */
#include "coord.h"

static const char *const framing_names[] = { "transfer-encoding", "content-length" };
enum
{
  IN_NAME,  /* of a line that begins like it */
  IN_VALUE, /* of that header */
  AT_FOLD,  /* behind it: a blank would go on with the value */
  IN_REST,  /* of another line */
};

typedef struct
{
  GFilterInputStream parent;
  CoordEndIdle is_idle; /* NULL: the stream is gone */
  gpointer data;
  guint which; /* of framing_names */
  guint place; /* IN_NAME … */
  guint n;     /* characters of the name that fit, or of the value */
  gboolean refused;
  char value[16];
} CoordEndInput;
typedef GFilterInputStreamClass CoordEndInputClass;

typedef struct
{
  GIOStream parent;
  GIOStream *base;
  CoordEndInput *input;
} CoordEnd;
typedef GIOStreamClass CoordEndClass;

static void coord_end_input_pollable_init (GPollableInputStreamInterface *interface);
GType coord_end_input_get_type (void);
GType coord_end_get_type (void);
G_DEFINE_TYPE_WITH_CODE (CoordEndInput, coord_end_input, G_TYPE_FILTER_INPUT_STREAM,
                         G_IMPLEMENT_INTERFACE (G_TYPE_POLLABLE_INPUT_STREAM, coord_end_input_pollable_init))
G_DEFINE_TYPE (CoordEnd, coord_end, G_TYPE_IO_STREAM)

static GPollableInputStream *
below (GPollableInputStream *stream)
{
  return G_POLLABLE_INPUT_STREAM (g_filter_input_stream_get_base_stream (G_FILTER_INPUT_STREAM (stream)));
}

static gboolean
input_can_poll (GPollableInputStream *stream)
{
  return g_pollable_input_stream_can_poll (below (stream));
}

static gboolean
input_is_readable (GPollableInputStream *stream)
{
  return g_pollable_input_stream_is_readable (below (stream));
}

static GSource *
input_create_source (GPollableInputStream *stream, GCancellable *cancellable)
{
  /* libsoup makes it a child of a source of its own and doesn't look at which stream it is of */
  return g_pollable_input_stream_create_source (below (stream), cancellable);
}

static gboolean
is_blank (guint8 c)
{
  return c == ' ' || c == '\t' || c == '\r';
}

static gboolean
value_is_known (CoordEndInput *self)
{
  while (self->n > 0 && is_blank ((guint8)self->value[self->n - 1]))
    self->n--;
  if (self->which == 1)
    {
      guint digits = 0;
      while (digits < self->n && g_ascii_isdigit (self->value[digits]))
        digits++;
      return digits > 0 && digits == self->n;
    }
  return self->n == 7 && g_ascii_strncasecmp (self->value, "chunked", 7) == 0;
}

/* libsoup passes over NULs in a head. FALSE: it would not know the encoding. */
static gboolean
take_char (CoordEndInput *self, guint8 c)
{
  if (c == 0)
    return TRUE;
  if (self->place == IN_VALUE && c != '\n')
    {
      if (self->n > 0 || !is_blank (c))
        self->value[self->n++] = (char)c;
      return self->n < sizeof self->value;
    }
  if (self->place == IN_VALUE)
    {
      const gboolean known = value_is_known (self);
      self->place = AT_FOLD;
      self->n = 0;
      return known;
    }
  if (self->place == AT_FOLD)
    {
      if (c == ' ' || c == '\t')
        return FALSE;
      self->place = IN_NAME;
    }
  if (self->n == 0)
    self->which = g_ascii_tolower ((char)c) == framing_names[1][0];
  const char *const name = framing_names[self->which];
  const guint len = (guint)strlen (name);
  if (c == '\n')
    self->n = 0;
  else if (self->n < len && g_ascii_tolower ((char)c) == name[self->n])
    self->n++;
  else if (self->n == len && c == ':')
    {
      self->place = IN_VALUE;
      self->n = 0;
    }
  else if (self->n < len || !is_blank (c))
    self->place = IN_REST;
  return TRUE;
}

static gboolean
look_at (CoordEndInput *self, const guint8 *bytes, gsize len)
{
  const guint8 *const end = bytes + len;

  while (bytes < end)
    {
      if (self->place == IN_REST)
        {
          bytes = memchr (bytes, '\n', (gsize)(end - bytes));
          if (bytes == NULL)
            return TRUE;
          self->place = IN_NAME;
          self->n = 0;
          bytes++;
        }
      else if (!take_char (self, *bytes++))
        return FALSE;
    }
  return TRUE;
}

static gssize
input_read_nonblocking (GPollableInputStream *stream, void *buffer, gsize count, GError **error)
{
  CoordEndInput *self = (CoordEndInput *)stream;
  g_autoptr (GError) local = NULL;
  gssize n = self->refused ? 0 : g_pollable_input_stream_read_nonblocking (below (stream), buffer, count, NULL, &local);

  if (n > 0 && !look_at (self, buffer, (gsize)n))
    {
      self->refused = TRUE;
      n = 0;
    }
  if (n <= 0 && count > 0 && !g_error_matches (local, G_IO_ERROR, G_IO_ERROR_WOULD_BLOCK) && self->is_idle != NULL
      && self->is_idle (self->data))
    {
      self->is_idle = NULL; /* once; then the end itself */
      *(char *)buffer = 'x';
      return 1;
    }
  if (local != NULL)
    g_propagate_error (error, g_steal_pointer (&local));
  return n;
}

static void
coord_end_input_pollable_init (GPollableInputStreamInterface *interface)
{
  interface->can_poll = input_can_poll;
  interface->is_readable = input_is_readable;
  interface->create_source = input_create_source;
  interface->read_nonblocking = input_read_nonblocking;
}

static void
coord_end_input_class_init (CoordEndInputClass *klass)
{
}

static void
coord_end_input_init (CoordEndInput *self)
{
}

static GInputStream *
end_get_input (GIOStream *stream)
{
  return G_INPUT_STREAM (((CoordEnd *)stream)->input);
}

static GOutputStream *
end_get_output (GIOStream *stream)
{
  return g_io_stream_get_output_stream (((CoordEnd *)stream)->base);
}

static gboolean
end_close (GIOStream *stream, GCancellable *cancellable, GError **error)
{
  return g_io_stream_close (((CoordEnd *)stream)->base, cancellable, error);
}

static void
coord_end_dispose (GObject *object)
{
  CoordEnd *self = (CoordEnd *)object;
  self->input->is_idle = NULL;
  G_OBJECT_CLASS (coord_end_parent_class)->dispose (object);
}

static void
coord_end_finalize (GObject *object)
{
  CoordEnd *self = (CoordEnd *)object;
  G_OBJECT_CLASS (coord_end_parent_class)->finalize (object);
  g_object_unref (self->input);
  g_object_unref (self->base);
}

static void
coord_end_class_init (CoordEndClass *klass)
{
  G_OBJECT_CLASS (klass)->dispose = coord_end_dispose;
  G_OBJECT_CLASS (klass)->finalize = coord_end_finalize;
  klass->get_input_stream = end_get_input;
  klass->get_output_stream = end_get_output;
  klass->close_fn = end_close;
}

static void
coord_end_init (CoordEnd *self)
{
}

GIOStream *
coord_end_new (GIOStream *base, CoordEndIdle is_idle, gpointer data)
{
  CoordEnd *self = g_object_new (coord_end_get_type (), NULL);

  self->base = g_object_ref (base);
  self->input = g_object_new (coord_end_input_get_type (), "base-stream", g_io_stream_get_input_stream (base),
                              "close-base-stream", FALSE, NULL);
  self->input->is_idle = is_idle;
  self->input->data = data;
  return G_IO_STREAM (self);
}
