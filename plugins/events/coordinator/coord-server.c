// SPDX-License-Identifier: Apache-2.0
/* HTTP by libsoup over connections we accept ourselves: a backlog that holds a fleet's start, a cap beyond which connections are
 * closed at once, and a clock for each connection, none of which soup_server_listen() has. */
#include "coord.h"
#include "coord-stream.h"
#include "events-files.h"
#include "events-patience.h"

#include <errno.h>
#include <gio/gunixsocketaddress.h>
#include <glib/gstdio.h>
#include <libsoup/soup.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum
{
  BACKLOG = 4096,
  ACCEPTS_A_TURN = 64,
  LOOK_EVERY_MS = 250,   /* at the clocks of connections */
  ACCEPT_PAUSE_MS = 100, /* when there is nothing to take a connection with */
  SPARE_FILES = 64,      /* besides connections */
  KEEP_BODY = 1 << 20,   /* a body's memory above it is given back after the request */
  KEEP_ARENA = 4 << 20,  /* body sizes above it renew the arena */
  BODIES_IN_FLIGHT = 8,  /* times the largest body, all connections together */
};

typedef enum
{
  CONN_IDLE,    /* waits for a request, or for its TLS handshake: keep-alive clock */
  CONN_READING, /* a request comes in: request clock */
  CONN_WORKING, /* its reply is being made: no clock */
  CONN_WRITING, /* its reply goes out: request clock, wound up by each piece */
} ConnState;

typedef struct
{
  CoordServer *server;
  GList link;
  GIOStream *stream; /* not owned: a weak reference ends the connection */
  GSocket *socket;
  GSocketAddress *remote; /* how a message finds its connection */
  ConnState state;
  gint64 since_ns;
  gboolean closing; /* shut down by us, libsoup hasn't noticed yet */
  GByteArray *body;
  gsize body_counted; /* of server->bodies */
  gboolean in_request;
  CoordRequest request;
  SoupServerMessage *message; /* owned while a deferred request waits */
  gulong finished_handler;
} Conn;

struct _CoordServer
{
  Coord *coord;
  SoupServer *soup;
  int silent_fd;         /* the other end of what libsoup takes for its listener */
  GSocket *listeners[2]; /* TCP, Unix */
  GSource *sources[2];
  guint pause_timer;
  char *unix_path;
  char *url;
  GTlsCertificate *certificate;
  GQueue conns;
  gsize bodies; /* bytes of request bodies held */
  guint n_busy;
  guint64 n_refused, n_slow;
  gint64 last_activity_ns;
  guint clock;
  gboolean stopping;
  Conn *answered; /* (nullable): who got the last reply, and no request has come since */
  gint64 answered_ns;
  gboolean awake; /* the next one is waited for awake */
  EventsPatience patience;
};

static GQuark
conn_quark (void)
{
  return g_quark_from_static_string ("lmtrace-coord-conn");
}

static gint64
now_ns (void)
{
  return g_get_monotonic_time () * 1000;
}

/* -------- connections -------- */

static void
conn_set_state (Conn *conn, ConnState state)
{
  CoordServer *server = conn->server;
  gboolean was_busy = conn->state != CONN_IDLE, busy = state != CONN_IDLE;

  server->n_busy += (guint)busy - (guint)was_busy;
  conn->state = state;
  conn->since_ns = now_ns ();
  server->last_activity_ns = conn->since_ns;
}

static void
conn_drop_body (Conn *conn)
{
  conn->server->bodies -= conn->body_counted;
  conn->body_counted = 0;
  if (conn->body != NULL && conn->body->len > KEEP_BODY)
    g_clear_pointer (&conn->body, g_byte_array_unref);
  else if (conn->body != NULL)
    g_byte_array_set_size (conn->body, 0);
}

static void
conn_drop_request (Conn *conn)
{
  if (!conn->in_request)
    return;
  conn->in_request = FALSE;
  coord_request_cancel (&conn->request);
  coord_request_clear (&conn->request);
  if (conn->message != NULL)
    {
      g_signal_handler_disconnect (conn->message, conn->finished_handler);
      g_clear_object (&conn->message);
    }
}

/* The stream is gone, whoever closed it. */
static void
on_stream_gone (gpointer data, GObject *stream)
{
  Conn *conn = data;
  CoordServer *server = conn->server;

  conn_drop_request (conn);
  conn_drop_body (conn);
  conn_set_state (conn, CONN_IDLE);
  if (server->answered == conn)
    server->answered = NULL;
  g_clear_pointer (&conn->body, g_byte_array_unref);
  g_object_set_qdata (G_OBJECT (conn->remote), conn_quark (), NULL);
  g_object_unref (conn->remote);
  g_object_unref (conn->socket);
  g_queue_unlink (&server->conns, &conn->link);
  g_free (conn);
}

/* libsoup sees the end of the stream and tidies up by itself. */
static void
conn_shut (Conn *conn)
{
  if (conn->closing)
    return;
  conn->closing = TRUE;
  g_socket_shutdown (conn->socket, TRUE, TRUE, NULL);
}

static gboolean
on_clock (gpointer data)
{
  CoordServer *server = data;
  const CoordConfig *config = server->coord->config;
  gint64 now = now_ns ();

  for (GList *link = server->conns.head; link != NULL; link = link->next)
    {
      Conn *conn = link->data;
      gint64 limit = conn->state == CONN_IDLE ? config->timeout_keep_alive_ns : config->request_timeout_ns;
      if (conn->closing || conn->state == CONN_WORKING || limit <= 0 || now - conn->since_ns <= limit)
        continue;
      if (conn->state != CONN_IDLE)
        server->n_slow++;
      conn_shut (conn);
    }
  return G_SOURCE_CONTINUE;
}

static GSocketAddress *
some_address (void)
{
  g_autoptr (GInetAddress) loopback = g_inet_address_new_loopback (G_SOCKET_FAMILY_IPV4);
  return g_inet_socket_address_new (loopback, 0);
}

static gboolean
is_idle (gpointer data)
{
  return ((const Conn *)data)->state == CONN_IDLE;
}

static void
take_connection (CoordServer *server, GSocket *socket, gboolean is_unix)
{
  g_autoptr (GSocketAddress) local = NULL;
  g_autoptr (GSocketAddress) remote = NULL;
  g_autoptr (GIOStream) stream = NULL;
  Conn *conn;

  if (is_unix)
    {
      /* libsoup makes URLs of local addresses and takes them for internet ones */
      local = some_address ();
      remote = some_address ();
      stream = coord_stream_new (socket, NULL);
    }
  else
    {
      g_socket_set_option (socket, IPPROTO_TCP, TCP_NODELAY, 1, NULL);
      local = g_socket_get_local_address (socket, NULL);
      remote = g_socket_get_remote_address (socket, NULL);
      if (local == NULL || remote == NULL)
        return;
      if (server->certificate != NULL)
        {
          g_autoptr (GSocketConnection) tcp = g_socket_connection_factory_create_connection (socket);
          stream = g_tls_server_connection_new (G_IO_STREAM (tcp), server->certificate, NULL);
          if (stream == NULL)
            return;
          g_tls_connection_set_require_close_notify (G_TLS_CONNECTION (stream), FALSE);
        }
      else
        stream = coord_stream_new (socket, NULL);
    }
  conn = g_new0 (Conn, 1);
  g_autoptr (GIOStream) ending = coord_end_new (stream, is_idle, conn);
  conn->server = server;
  conn->link.data = conn;
  conn->stream = ending;
  conn->socket = g_object_ref (socket);
  conn->remote = g_object_ref (remote);
  conn->since_ns = now_ns ();
  g_object_set_qdata (G_OBJECT (remote), conn_quark (), conn);
  g_queue_push_tail_link (&server->conns, &conn->link);
  g_object_weak_ref (G_OBJECT (ending), on_stream_gone, conn);
  server->last_activity_ns = conn->since_ns;
  soup_server_accept_iostream (server->soup, ending, local, remote, NULL);
}

static void watch_listener (CoordServer *server, guint which);

static gboolean
on_pause_over (gpointer data)
{
  CoordServer *server = data;
  server->pause_timer = 0;
  for (guint i = 0; i < 2; i++)
    if (server->listeners[i] != NULL && server->sources[i] == NULL)
      watch_listener (server, i);
  return G_SOURCE_REMOVE;
}

static gboolean
on_connections (GSocket *listener, GIOCondition condition, gpointer data)
{
  CoordServer *server = data;
  guint which = listener == server->listeners[1];

  for (guint i = 0; i < ACCEPTS_A_TURN; i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (GSocket) socket = g_socket_accept (listener, NULL, &error);
      if (socket != NULL && server->conns.length < server->coord->config->max_connections)
        {
          g_socket_set_blocking (socket, FALSE);
          take_connection (server, socket, which == 1);
          continue;
        }
      if (socket != NULL)
        {
          server->n_refused++;
          g_socket_close (socket, NULL);
          continue;
        }
      if (g_error_matches (error, G_IO_ERROR, G_IO_ERROR_WOULD_BLOCK))
        break;
      /* No descriptor (EMFILE, ENFILE) or no memory (ENOMEM, ENOBUFS): the connection waits on, and its listener stays readable.
       * The other listener may have begun the pause. */
      if (server->pause_timer == 0)
        server->pause_timer = g_timeout_add (ACCEPT_PAUSE_MS, on_pause_over, server);
      g_clear_pointer (&server->sources[which], g_source_unref);
      return G_SOURCE_REMOVE;
    }
  return G_SOURCE_CONTINUE;
}

static void
watch_listener (CoordServer *server, guint which)
{
  server->sources[which] = g_socket_create_source (server->listeners[which], G_IO_IN, NULL);
  g_source_set_callback (server->sources[which], G_SOURCE_FUNC (on_connections), server, NULL);
  g_source_attach (server->sources[which], NULL);
}

/* -------- requests -------- */

static Conn *
conn_of (SoupServerMessage *message)
{
  GSocketAddress *remote = soup_server_message_get_remote_address (message);
  return remote != NULL ? g_object_get_qdata (G_OBJECT (remote), conn_quark ()) : NULL;
}

/* A request of @conn begins. */
static void
server_learn (CoordServer *server, const Conn *conn)
{
  if (server->answered == conn)
    events_patience_learn (&server->patience, conn->since_ns - server->answered_ns, server->awake);
  else
    events_patience_lose (&server->patience);
  server->answered = NULL;
}

static void
on_request_started (SoupServer *soup, SoupServerMessage *message, gpointer data)
{
  Conn *conn = conn_of (message);
  if (conn == NULL)
    return;
  conn_set_state (conn, CONN_READING);
  server_learn (conn->server, conn);
}

static void
on_request_over (SoupServer *soup, SoupServerMessage *message, gpointer data)
{
  Conn *conn = conn_of (message);
  if (conn == NULL)
    return;
  conn_drop_request (conn);
  conn_drop_body (conn);
  conn_set_state (conn, CONN_IDLE);
  conn->server->answered = conn;
  conn->server->answered_ns = conn->since_ns;
  conn->server->awake = events_patience_is_awake (&conn->server->patience);
  if (conn->server->stopping)
    conn_shut (conn);
}

static void
refuse (SoupServerMessage *message, guint status, const char *detail)
{
  g_autoptr (GString) text = g_string_new ("{\"detail\":");

  coord_text_cstring (text, detail);
  g_string_append_c (text, '}');
  soup_server_message_set_status (message, status, NULL);
  soup_server_message_set_response (message, "application/json", SOUP_MEMORY_COPY, text->str, text->len);
}

static void
on_chunk (SoupServerMessage *message, GBytes *chunk, gpointer data)
{
  Conn *conn = conn_of (message);
  gsize len, max;
  const guint8 *bytes = g_bytes_get_data (chunk, &len);

  if (conn == NULL || soup_server_message_get_status (message) != 0)
    return;
  max = conn->server->coord->config->max_body_bytes;
  if (conn->body->len + len > max)
    {
      conn_drop_body (conn);
      refuse (message, 413, "Request Entity Too Large");
      return;
    }
  if (conn->server->bodies + len > max * BODIES_IN_FLIGHT)
    {
      conn_drop_body (conn);
      refuse (message, 503, "too many request bodies at once");
      return;
    }
  g_byte_array_append (conn->body, bytes, (guint)len);
  conn->body_counted += len;
  conn->server->bodies += len;
}

/* Equal in constant time; the length may show. */
static gboolean
token_fits (const Coord *coord, const char *header)
{
  guint8 difference = 0;

  if (header == NULL || g_ascii_strncasecmp (header, "Bearer ", 7) != 0)
    return FALSE;
  header += 7;
  if (strlen (header) != coord->token_len)
    return FALSE;
  for (gsize i = 0; i < coord->token_len; i++)
    difference |= (guint8)(header[i] ^ coord->token[i]);
  return difference == 0;
}

/* Head complete: who may not, or brings too much, is told now. Ranges are none of ours: libsoup would cut replies by them. */
static void
on_headers (SoupServer *soup, SoupServerMessage *message, const char *path, GHashTable *query, gpointer data)
{
  CoordServer *server = data;
  Coord *coord = server->coord;
  SoupMessageHeaders *headers = soup_server_message_get_request_headers (message);
  Conn *conn = conn_of (message);

  soup_message_headers_remove (headers, "Range");
  soup_message_body_set_accumulate (soup_server_message_get_request_body (message), FALSE);
  if (conn == NULL)
    return;
  if (conn->body == NULL)
    conn->body = g_byte_array_new ();
  if (coord->token != NULL && strcmp (path, "/healthz") != 0
      && !token_fits (coord, soup_message_headers_get_one (headers, "Authorization")))
    {
      soup_message_headers_replace (soup_server_message_get_response_headers (message), "WWW-Authenticate", "Bearer");
      refuse (message, 401, "Unauthorized");
      return;
    }
  if (soup_message_headers_get_encoding (headers) == SOUP_ENCODING_CONTENT_LENGTH
      && (guint64)soup_message_headers_get_content_length (headers) > coord->config->max_body_bytes)
    {
      refuse (message, 413, "Request Entity Too Large");
      return;
    }
  g_signal_connect (message, "got-chunk", G_CALLBACK (on_chunk), NULL);
}

static void
note_figures (Coord *coord, const CoordRequest *request)
{
  const char *path = request->route != NULL && request->status != 405 ? request->route->path : "unmatched";
  const char *method = request->route != NULL && request->status != 405 ? request->route->method : "any";
  char key[128];
  CoordRequestFigures *figures;

  g_snprintf (key, sizeof key, "%s %s %u", method, path, request->status);
  figures = g_hash_table_lookup (coord->requests, key);
  if (figures == NULL)
    {
      figures = g_new0 (CoordRequestFigures, 1);
      figures->method = g_strdup (method);
      figures->path = path;
      figures->status = request->status;
      g_hash_table_insert (coord->requests, g_strdup (key), figures);
    }
  figures->n++;
  figures->ns += now_ns () - request->start_ns;
  coord->n_requests++;
  coord->body_bytes_in += request->body_len;
  coord->body_bytes_out += request->out->len;
}

/* A 204 has no Content-Length, and libsoup takes that for a body that ends with the connection. */
static void
on_headers_written (SoupServerMessage *message, gpointer data)
{
  soup_message_headers_set_encoding (soup_server_message_get_response_headers (message), SOUP_ENCODING_NONE);
}

static void
give_reply (Conn *conn, SoupServerMessage *message)
{
  CoordRequest *request = &conn->request;
  SoupMessageHeaders *headers = soup_server_message_get_response_headers (message);

  note_figures (conn->server->coord, request);
  soup_server_message_set_status (message, request->status, NULL);
  if (request->allow != NULL)
    soup_message_headers_replace (headers, "Allow", request->allow);
  if (request->location != NULL)
    soup_message_headers_replace (headers, "Location", request->location);
  if (request->type != NULL)
    {
      gsize len = request->out->len;
      if (len < 4096)
        soup_server_message_set_response (message, request->type, SOUP_MEMORY_COPY, request->out->str, len);
      else
        {
          soup_server_message_set_response (message, request->type, SOUP_MEMORY_TAKE, g_string_free (request->out, FALSE), len);
          request->out = g_string_new (NULL);
        }
    }
  else if (request->status == 204)
    g_signal_connect (message, "wrote-headers", G_CALLBACK (on_headers_written), NULL);
  else
    soup_message_headers_set_content_length (headers, 0);
  conn_set_state (conn, CONN_WRITING);
}

static void
on_deferred_done (CoordRequest *request, gpointer data)
{
  Conn *conn = data;
  SoupServerMessage *message = conn->message;

  give_reply (conn, message);
  soup_server_message_unpause (message);
}

static void
on_piece_written (SoupServerMessage *message, guint size, gpointer data)
{
  Conn *conn = conn_of (message);
  if (conn != NULL && conn->state == CONN_WRITING)
    conn->since_ns = now_ns ();
}

/* Gone before its reply was there. */
static void
on_message_finished (SoupServerMessage *message, gpointer data)
{
  conn_drop_request (data);
}

static void
renew_arena (Coord *coord)
{
  events_arena_free (coord->arena);
  coord->arena = events_arena_new (coord->config->max_body_bytes * 8);
}

static void
on_request (SoupServer *soup, SoupServerMessage *message, const char *path, GHashTable *query, gpointer data)
{
  CoordServer *server = data;
  SoupMessageHeaders *headers = soup_server_message_get_request_headers (message);
  GUri *uri = soup_server_message_get_uri (message);
  Conn *conn = conn_of (message);
  CoordRequest *request;
  g_autofree char *authority = NULL;

  if (conn == NULL)
    return;
  conn_drop_request (conn);
  if (conn->body == NULL)
    conn->body = g_byte_array_new ();
  request = &conn->request;
  coord_request_init (request);
  conn->in_request = TRUE;
  request->method = soup_server_message_get_method (message);
  request->path = g_uri_get_path (uri);
  request->query = g_uri_get_query (uri);
  request->content_type = soup_message_headers_get_one (headers, "Content-Type");
  request->scheme = server->certificate != NULL ? "https" : "http";
  request->authority = soup_message_headers_get_one (headers, "Host");
  if (request->authority == NULL)
    {
      authority = g_strdup_printf ("%s:%d", g_uri_get_host (uri), g_uri_get_port (uri));
      request->authority = authority;
    }
  request->body = (const char *)conn->body->data;
  request->body_len = conn->body->len;
  request->done = on_deferred_done;
  request->done_data = conn;
  conn_set_state (conn, CONN_WORKING);
  coord_handle (server->coord, request);
  if (request->body_len > KEEP_ARENA)
    renew_arena (server->coord);
  if (!request->deferred)
    {
      give_reply (conn, message);
      if (request->out->len == 0)
        g_signal_connect (message, "wrote-body-data", G_CALLBACK (on_piece_written), NULL);
      return;
    }
  conn->message = g_object_ref (message);
  conn->finished_handler = g_signal_connect (message, "finished", G_CALLBACK (on_message_finished), conn);
  g_signal_connect (message, "wrote-body-data", G_CALLBACK (on_piece_written), NULL);
  soup_server_message_pause (message);
}

/* -------- listening -------- */

static GSocketAddress *
resolve_host (const char *host, guint16 port, GError **error)
{
  g_autoptr (GInetAddress) address = g_inet_address_new_from_string (host);

  if (address == NULL)
    {
      g_autolist (GInetAddress) found = g_resolver_lookup_by_name (g_resolver_get_default (), host, NULL, error);
      if (found == NULL)
        return NULL;
      address = g_object_ref (found->data);
    }
  return g_inet_socket_address_new (address, port);
}

static GSocket *
listen_on (GSocketAddress *address, GError **error)
{
  GSocketFamily family = g_socket_address_get_family (address);
  g_autoptr (GSocket) socket = g_socket_new (
      family, G_SOCKET_TYPE_STREAM, family == G_SOCKET_FAMILY_UNIX ? G_SOCKET_PROTOCOL_DEFAULT : G_SOCKET_PROTOCOL_TCP, error);

  if (socket == NULL)
    return NULL;
  g_socket_set_blocking (socket, FALSE);
  g_socket_set_listen_backlog (socket, BACKLOG);
  if (!g_socket_bind (socket, address, TRUE, error) || !g_socket_listen (socket, error))
    return NULL;
  return g_steal_pointer (&socket);
}

static gboolean
is_loopback (GSocketAddress *address)
{
  return g_inet_address_get_is_loopback (g_inet_socket_address_get_address (G_INET_SOCKET_ADDRESS (address)));
}

static gboolean
listen_tcp (CoordServer *server, GError **error)
{
  const CoordConfig *config = server->coord->config;
  g_autoptr (GSocketAddress) address = resolve_host (config->host, (guint16)config->port, error);
  g_autoptr (GSocketAddress) bound = NULL;
  gboolean v6;
  g_autofree char *shown = NULL;

  if (address == NULL)
    {
      g_prefix_error (error, "--host %s: ", config->host);
      return FALSE;
    }
  if (!is_loopback (address) && server->coord->token == NULL && server->certificate == NULL && !config->insecure)
    {
      g_set_error (error, LMT_ERROR, LMT_ERROR_OPTION,
                   "--host %s: expected --token-file, --tls-cert or --insecure with an address that others can reach, found none",
                   config->host);
      return FALSE;
    }
  server->listeners[0] = listen_on (address, error);
  if (server->listeners[0] == NULL)
    {
      g_prefix_error (error, "%s:%" G_GUINT64_FORMAT ": ", config->host, config->port);
      return FALSE;
    }
  bound = g_socket_get_local_address (server->listeners[0], error);
  if (bound == NULL)
    return FALSE;
  v6 = g_socket_address_get_family (bound) == G_SOCKET_FAMILY_IPV6;
  shown = g_inet_address_to_string (g_inet_socket_address_get_address (G_INET_SOCKET_ADDRESS (bound)));
  server->url = g_strdup_printf (v6 ? "%s://[%s]:%u" : "%s://%s:%u", server->certificate != NULL ? "https" : "http", shown,
                                 g_inet_socket_address_get_port (G_INET_SOCKET_ADDRESS (bound)));
  return TRUE;
}

/* A socket nobody answers on is left over and goes; one that is answered is somebody's. */
static gboolean
clear_stale_socket (const char *path, GSocketAddress *address, GError **error)
{
  struct stat info;
  g_autoptr (GSocket) probe = NULL;
  g_autoptr (GError) why = NULL;

  if (lstat (path, &info) != 0)
    return TRUE;
  if (!S_ISSOCK (info.st_mode))
    {
      g_set_error (error, LMT_ERROR, LMT_ERROR_IO, "--unix %s: expected a free name or a socket, found another file", path);
      return FALSE;
    }
  probe = g_socket_new (G_SOCKET_FAMILY_UNIX, G_SOCKET_TYPE_STREAM, G_SOCKET_PROTOCOL_DEFAULT, error);
  if (probe == NULL)
    return FALSE;
  g_socket_set_blocking (probe, FALSE);
  if (g_socket_connect (probe, address, NULL, &why) || !g_error_matches (why, G_IO_ERROR, G_IO_ERROR_CONNECTION_REFUSED))
    {
      g_set_error (error, LMT_ERROR, LMT_ERROR_IO, "--unix %s: expected a free name, found a socket in use", path);
      return FALSE;
    }
  g_unlink (path);
  return TRUE;
}

static gboolean
listen_unix (CoordServer *server, const char *path, GError **error)
{
  g_autoptr (GSocketAddress) address = NULL;
  mode_t mask;

  if (strlen (path) >= sizeof ((struct sockaddr_un *)NULL)->sun_path)
    {
      g_set_error (error, LMT_ERROR, LMT_ERROR_OPTION, "--unix: expected a path of at most %d bytes, found %d",
                   (int)sizeof ((struct sockaddr_un *)NULL)->sun_path - 1, (int)strlen (path));
      return FALSE;
    }
  address = g_unix_socket_address_new (path);
  if (!clear_stale_socket (path, address, error))
    return FALSE;
  mask = umask (0177);
  server->listeners[1] = listen_on (address, error);
  umask (mask);
  if (server->listeners[1] == NULL)
    {
      g_prefix_error (error, "--unix %s: ", path);
      return FALSE;
    }
  server->unix_path = g_strdup (path);
  if (server->url == NULL)
    server->url = g_strconcat ("unix:", path, NULL);
  return TRUE;
}

/* One descriptor a connection, and what else is open. */
static void
raise_file_limit (guint64 connections)
{
  guint64 limit = events_files_raise (connections + SPARE_FILES);

  if (limit < connections + SPARE_FILES)
    g_warning ("Only %" G_GUINT64_FORMAT " files may be open: fewer connections than --max-connections are possible", limit);
}

/* A SoupServer without a listener closes every connection after one reply. This one listens to a socket that never speaks. */
static gboolean
keep_alive (CoordServer *server, GError **error)
{
  int ends[2];
  g_autoptr (GSocket) socket = NULL;

  if (socketpair (AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    {
      g_set_error (error, LMT_ERROR, LMT_ERROR_IO, "cannot make a pair of sockets: %s", g_strerror (errno));
      return FALSE;
    }
  server->silent_fd = ends[1];
  socket = g_socket_new_from_fd (ends[0], error);
  if (socket == NULL)
    {
      close (ends[0]);
      return FALSE;
    }
  return soup_server_listen_socket (server->soup, socket, 0, error);
}

CoordServer *
coord_server_new (Coord *coord, GError **error)
{
  const CoordConfig *config = coord->config;
  CoordServer *server = g_new0 (CoordServer, 1);

  server->coord = coord;
  server->silent_fd = -1;
  server->last_activity_ns = now_ns ();
  events_patience_init (&server->patience);
  if (!coord_tls_load (coord, &server->certificate, error)
      || ((config->unix_path == NULL || config->host != NULL) && !listen_tcp (server, error))
      || (config->unix_path != NULL && !listen_unix (server, config->unix_path, error)))
    {
      coord_server_free (server);
      return NULL;
    }
  raise_file_limit (config->max_connections);
  server->soup = soup_server_new ("raw-paths", TRUE, "server-header", NULL, NULL);
  if (!keep_alive (server, error))
    {
      coord_server_free (server);
      return NULL;
    }
  soup_server_add_early_handler (server->soup, NULL, on_headers, server, NULL);
  soup_server_add_handler (server->soup, NULL, on_request, server, NULL);
  g_signal_connect (server->soup, "request-started", G_CALLBACK (on_request_started), server);
  g_signal_connect (server->soup, "request-finished", G_CALLBACK (on_request_over), server);
  g_signal_connect (server->soup, "request-aborted", G_CALLBACK (on_request_over), server);
  for (guint i = 0; i < 2; i++)
    if (server->listeners[i] != NULL)
      watch_listener (server, i);
  server->clock = g_timeout_add (LOOK_EVERY_MS, on_clock, server);
  return server;
}

void
coord_server_turn (CoordServer *server)
{
  if (server->answered == NULL || !server->awake)
    g_main_context_iteration (NULL, TRUE);
  else if (!g_main_context_iteration (NULL, FALSE) && server->answered != NULL
           && !events_patience_wait (g_socket_get_fd (server->answered->socket), server->answered_ns))
    {
      events_patience_learn (&server->patience, G_MAXINT64, TRUE);
      server->awake = FALSE;
    }
}

void
coord_server_stop_listening (CoordServer *server)
{
  server->stopping = TRUE;
  g_clear_handle_id (&server->pause_timer, g_source_remove);
  for (guint i = 0; i < 2; i++)
    {
      if (server->sources[i] != NULL)
        g_source_destroy (server->sources[i]);
      g_clear_pointer (&server->sources[i], g_source_unref);
      if (server->listeners[i] != NULL)
        g_socket_close (server->listeners[i], NULL);
      g_clear_object (&server->listeners[i]);
    }
  if (server->unix_path != NULL)
    g_unlink (server->unix_path);
  g_clear_pointer (&server->unix_path, g_free);
  for (GList *link = server->conns.head; link != NULL; link = link->next)
    if (((Conn *)link->data)->state == CONN_IDLE)
      conn_shut (link->data);
}

void
coord_server_free (CoordServer *server)
{
  if (server == NULL)
    return;
  coord_server_stop_listening (server);
  g_clear_handle_id (&server->clock, g_source_remove);
  for (GList *link = server->conns.head; link != NULL; link = link->next)
    {
      conn_drop_request (link->data); /* who waits for a server's answer waits in vain, and its message holds the stream */
      conn_shut (link->data);
    }
  if (server->soup != NULL)
    soup_server_disconnect (server->soup);
  /* Streams end when libsoup has seen their end; each takes its connection with it. */
  for (guint turns = 0; server->conns.length > 0 && turns < 10000; turns++)
    g_main_context_iteration (NULL, turns % 16 == 15);
  g_clear_object (&server->soup);
  if (server->silent_fd >= 0)
    close (server->silent_fd);
  g_clear_object (&server->certificate);
  g_free (server->url);
  g_free (server);
}

const char *
coord_server_url (CoordServer *server)
{
  return server->url;
}

guint
coord_server_n_connections (CoordServer *server)
{
  return server->conns.length;
}

guint
coord_server_n_busy (CoordServer *server)
{
  return server->n_busy;
}

guint64
coord_server_n_refused (CoordServer *server)
{
  return server->n_refused;
}

guint64
coord_server_n_slow (CoordServer *server)
{
  return server->n_slow;
}

void
coord_server_note_activity (CoordServer *server)
{
  server->last_activity_ns = now_ns ();
}

gint64
coord_server_last_activity_ns (CoordServer *server)
{
  return server->last_activity_ns;
}
