// SPDX-License-Identifier: Apache-2.0
#include "replay-post.h"
#include "replay-wire.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include <gio/gunixsocketaddress.h>
#include <libsoup/soup.h>

#include "events-files.h"

#define WATCH_PERIOD_NS 50000000
#define SHOWN_MAX 2048

struct _ReplayTarget
{
  GUri *base;
  char *base_path; /* without a slash at the end */
  char *shown;
  char *authorization; /* (nullable): the header's value */
  char *socket_path;   /* (nullable): unix:/PATH */
  GTlsDatabase *database;
  GProxyResolver *proxies;
  gint64 connect_timeout_ns;
  gint64 timeout_ns;
  guint64 max_reply;
  const volatile gint *interrupts;
  /* the watch */
  pthread_t thread;
  pthread_mutex_t lock;
  pthread_cond_t wake;
  gboolean ended;
  gboolean cancelled;
  GPtrArray *conns; /* ReplayConn, under the lock */
};

/* Why a call was cut short. */
typedef enum
{
  CUT_NOT,
  CUT_CONNECT,
  CUT_REPLY,
  CUT_SIGNAL,
} Cut;

struct _ReplayConn
{
  ReplayTarget *target;
  SoupSession *session;
  GCancellable *cancellable;
  GHashTable *uris; /* path -> GUri, of the few that are asked for again and again */
  ReplayWire wire;
  /* of the call under way; under the target's lock, but for `connected` */
  gint64 begun_ns; /* 0: none */
  Cut cut;
  atomic_int connected;
};

/* -------- text -------- */

char *
replay_clean (const char *text, gsize len, gsize max)
{
  gboolean cut = len > max;
  g_autofree char *valid = g_utf8_make_valid (text != NULL ? text : "", text != NULL ? (gssize)MIN (len, max) : 0);
  GString *out = g_string_sized_new (64);
  for (const char *p = valid; *p != '\0'; p = g_utf8_next_char (p))
    {
      gunichar c = g_utf8_get_char (p);
      if (g_unichar_iscntrl (c) || c == 0x2028 || c == 0x2029)
        g_string_append_printf (out, "\\x%02x", c);
      else
        g_string_append_unichar (out, c);
    }
  if (cut)
    g_string_append (out, "…");
  return g_string_free (out, FALSE);
}

void
replay_reply_init (ReplayReply *reply)
{
  *reply = (ReplayReply){ .body = g_string_sized_new (256), .retry_after_ns = -1 };
}

void
replay_reply_clear (ReplayReply *reply)
{
  g_free (reply->reason);
  if (reply->body != NULL)
    g_string_free (reply->body, TRUE);
  *reply = (ReplayReply){ 0 };
}

gboolean
replay_reply_is_success (const ReplayReply *reply)
{
  return reply->status >= 200 && reply->status < 300 && !reply->too_large;
}

char *
replay_reply_describe (const ReplayReply *reply)
{
  if (reply->status == 0)
    return g_strdup_printf ("no reply: %s", reply->reason);
  if (reply->too_large)
    return g_strdup_printf ("%u %s with a body of more than %zu bytes (--max-reply)", reply->status, reply->reason,
                            reply->body->len);
  g_autofree char *text = replay_clean (reply->body->str, reply->body->len, SHOWN_MAX);
  return g_strdup_printf ("%u%s%s%s%s", reply->status, reply->reason[0] != '\0' ? " " : "", reply->reason,
                          text[0] != '\0' ? ": " : "", text);
}

/* -------- the watch: libsoup's own time-out is one of each read, not of a reply -------- */

static gint64
now_ns (void)
{
  return lmt_clock_now (lmt_clock_real ());
}

static void
watch_one (ReplayTarget *target, ReplayConn *conn, gint64 now, gboolean hurry)
{
  if (conn->begun_ns == 0 || conn->cut != CUT_NOT)
    return;
  if (hurry || target->cancelled)
    conn->cut = CUT_SIGNAL;
  else if (now - conn->begun_ns > target->timeout_ns)
    conn->cut = CUT_REPLY;
  else if (now - conn->begun_ns > target->connect_timeout_ns && atomic_load (&conn->connected) == 0)
    conn->cut = CUT_CONNECT;
  if (conn->cut != CUT_NOT)
    g_cancellable_cancel (conn->cancellable);
}

static gpointer
watch (gpointer data)
{
  ReplayTarget *target = data;
  pthread_mutex_lock (&target->lock);
  while (!target->ended)
    {
      struct timespec until;
      clock_gettime (CLOCK_MONOTONIC, &until);
      until.tv_nsec += WATCH_PERIOD_NS;
      until.tv_sec += until.tv_nsec / 1000000000;
      until.tv_nsec %= 1000000000;
      pthread_cond_timedwait (&target->wake, &target->lock, &until);
      gint64 now = now_ns ();
      gboolean hurry = target->interrupts != NULL && g_atomic_int_get (target->interrupts) > 1;
      for (guint i = 0; i < target->conns->len; i++)
        watch_one (target, target->conns->pdata[i], now, hurry);
    }
  pthread_mutex_unlock (&target->lock);
  return NULL;
}

void
replay_target_cancel (ReplayTarget *target)
{
  pthread_mutex_lock (&target->lock);
  target->cancelled = TRUE;
  pthread_cond_signal (&target->wake);
  pthread_mutex_unlock (&target->lock);
}

/* -------- the target -------- */

static gboolean G_GNUC_PRINTF (3, 4) refuse (const char *flag, GError **error, const char *format, ...)
{
  va_list args;
  va_start (args, format);
  g_autofree char *text = g_strdup_vprintf (format, args);
  va_end (args);
  g_set_error (error, LMT_ERROR, LMT_ERROR_OPTION, "%s: %s", flag, text);
  return FALSE;
}

static gboolean
read_url (ReplayTarget *target, const char *url, GError **error)
{
  static const char form[] = "expected http://HOST[:PORT][/BASE], https://HOST[:PORT][/BASE] or unix:/PATH";
  g_autofree char *shown = replay_clean (url, strlen (url), 512);
  g_autofree char *text = g_strdup (url);
  gsize len = strlen (text);
  if (g_str_has_prefix (url, "unix:"))
    {
      if (url[5] != '/')
        return refuse ("--coordinator-url", error, "%s, found \"%s\"", form, shown);
      target->socket_path = g_strdup (url + 5);
      target->base = g_uri_parse ("http://localhost", SOUP_HTTP_URI_FLAGS, NULL);
      target->base_path = g_strdup ("");
      target->shown = g_steal_pointer (&shown);
      return TRUE;
    }
  while (len > 0 && text[len - 1] == '/')
    text[--len] = '\0';
  target->base = g_uri_parse (text, SOUP_HTTP_URI_FLAGS, NULL);
  const char *scheme = target->base != NULL ? g_uri_get_scheme (target->base) : NULL;
  const char *host = target->base != NULL ? g_uri_get_host (target->base) : NULL;
  if (scheme == NULL || (strcmp (scheme, "http") != 0 && strcmp (scheme, "https") != 0) || host == NULL || host[0] == '\0')
    return refuse ("--coordinator-url", error, "%s, found \"%s\"", form, shown);
  if (g_uri_get_userinfo (target->base) != NULL || g_uri_get_query (target->base) != NULL
      || g_uri_get_fragment (target->base) != NULL)
    return refuse ("--coordinator-url", error, "expected no user name, query or fragment in it");
  target->base_path = g_strdup (g_uri_get_path (target->base));
  len = strlen (target->base_path);
  while (len > 0 && target->base_path[len - 1] == '/')
    target->base_path[--len] = '\0';
  target->shown = replay_clean (text, strlen (text), 512);
  return TRUE;
}

static gboolean
read_token (ReplayTarget *target, const char *path, GError **error)
{
  g_autofree char *token = NULL;
  if (path == NULL)
    return TRUE;
  token = events_files_read_token (path, error);
  if (token == NULL)
    {
      g_prefix_error (error, "--token-file: ");
      return FALSE;
    }
  target->authorization = g_strconcat ("Bearer ", token, NULL);
  return TRUE;
}

static gboolean
read_ca (ReplayTarget *target, const char *path, GError **error)
{
  g_autoptr (GError) local = NULL;
  g_autofree char *full = path != NULL ? g_canonicalize_filename (path, NULL) : NULL;
  if (path == NULL)
    return TRUE;
  if (!g_tls_backend_supports_tls (g_tls_backend_get_default ()))
    return refuse ("--ca-file", error, "expected TLS support in GIO (package glib-networking), found none");
  target->database = g_tls_file_database_new (full, &local);
  return target->database != NULL || refuse ("--ca-file", error, "%s: %s", path, local->message);
}

static const char *
environment (const char *lower, const char *upper)
{
  const char *value = g_getenv (lower);
  if (value == NULL || value[0] == '\0')
    value = upper != NULL ? g_getenv (upper) : NULL;
  return value != NULL && value[0] != '\0' ? value : NULL;
}

/* Never the desktop's resolver: what a run does must not hang on who is logged in. HTTP_PROXY in capitals is not looked at, as
 * by httpx's and curl's habit for plain http. */
static void
read_proxies (ReplayTarget *target)
{
  const char *all = environment ("all_proxy", "ALL_PROXY");
  const char *http = environment ("http_proxy", NULL);
  const char *https = environment ("https_proxy", "HTTPS_PROXY");
  const char *none = environment ("no_proxy", "NO_PROXY");
  if (target->socket_path != NULL || (all == NULL && http == NULL && https == NULL))
    return;
  g_auto (GStrv) ignored = g_strsplit_set (none != NULL ? none : "", ", ", -1);
  GPtrArray *hosts = g_ptr_array_new ();
  for (guint i = 0; ignored[i] != NULL; i++)
    if (strcmp (ignored[i], "*") == 0)
      {
        g_ptr_array_free (hosts, TRUE);
        return;
      }
    else if (ignored[i][0] != '\0')
      g_ptr_array_add (hosts, ignored[i]);
  g_ptr_array_add (hosts, NULL);
  target->proxies = g_simple_proxy_resolver_new (all, (char **)hosts->pdata);
  g_ptr_array_free (hosts, TRUE);
  if (http != NULL)
    g_simple_proxy_resolver_set_uri_proxy (G_SIMPLE_PROXY_RESOLVER (target->proxies), "http", http);
  if (https != NULL)
    g_simple_proxy_resolver_set_uri_proxy (G_SIMPLE_PROXY_RESOLVER (target->proxies), "https", https);
}

ReplayTarget *
replay_target_new (const ReplayTargetConfig *config, GError **error)
{
  ReplayTarget *target = g_new0 (ReplayTarget, 1);
  pthread_condattr_t attr;
  pthread_mutex_init (&target->lock, NULL);
  pthread_condattr_init (&attr);
  pthread_condattr_setclock (&attr, CLOCK_MONOTONIC);
  pthread_cond_init (&target->wake, &attr);
  pthread_condattr_destroy (&attr);
  target->conns = g_ptr_array_new ();
  target->connect_timeout_ns = config->connect_timeout_ns;
  target->timeout_ns = config->timeout_ns;
  target->max_reply = config->max_reply;
  target->interrupts = config->interrupts;
  target->ended = TRUE;
  if (!read_url (target, config->url, error) || !read_token (target, config->token_file, error)
      || !read_ca (target, config->ca_file, error))
    {
      replay_target_free (target);
      return NULL;
    }
  read_proxies (target);
  target->ended = FALSE;
  if (pthread_create (&target->thread, NULL, watch, target) != 0)
    {
      target->ended = TRUE;
      replay_target_free (target);
      g_set_error_literal (error, LMT_ERROR, LMT_ERROR_IO, "cannot start a thread");
      return NULL;
    }
  return target;
}

void
replay_target_free (ReplayTarget *target)
{
  if (target == NULL)
    return;
  pthread_mutex_lock (&target->lock);
  gboolean runs = !target->ended;
  target->ended = TRUE;
  pthread_cond_signal (&target->wake);
  pthread_mutex_unlock (&target->lock);
  if (runs)
    pthread_join (target->thread, NULL);
  pthread_cond_destroy (&target->wake);
  pthread_mutex_destroy (&target->lock);
  g_ptr_array_unref (target->conns);
  g_clear_pointer (&target->base, g_uri_unref);
  g_clear_object (&target->database);
  g_clear_object (&target->proxies);
  g_free (target->authorization);
  g_free (target->socket_path);
  g_free (target->base_path);
  g_free (target->shown);
  g_free (target);
}

const char *
replay_target_get_shown (const ReplayTarget *target)
{
  return target->shown;
}

/* -------- a connection -------- */

ReplayConn *
replay_conn_new (ReplayTarget *target)
{
  ReplayConn *conn = g_new0 (ReplayConn, 1);
  replay_wire_init (&conn->wire);
  conn->target = target;
  conn->cancellable = g_cancellable_new ();
  conn->uris = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, (GDestroyNotify)g_uri_unref);
  if (target->socket_path != NULL)
    {
      g_autoptr (GSocketAddress) address = g_unix_socket_address_new (target->socket_path);
      conn->session = soup_session_new_with_options ("remote-connectable", address, NULL);
    }
  else
    conn->session = soup_session_new ();
  soup_session_remove_feature_by_type (conn->session, SOUP_TYPE_CONTENT_DECODER);
  soup_session_remove_feature_by_type (conn->session, SOUP_TYPE_AUTH_MANAGER);
  soup_session_remove_feature_by_type (conn->session, SOUP_TYPE_CONTENT_SNIFFER);
  soup_session_set_proxy_resolver (conn->session, target->proxies);
  if (target->database != NULL)
    soup_session_set_tls_database (conn->session, target->database);
  soup_session_set_user_agent (conn->session, "lmtrace/" LMT_VERSION);
  soup_session_set_idle_timeout (conn->session, 0);
  soup_session_set_timeout (conn->session, (guint)(target->timeout_ns / 1000000000) + 1);
  pthread_mutex_lock (&target->lock);
  g_ptr_array_add (target->conns, conn);
  pthread_mutex_unlock (&target->lock);
  return conn;
}

void
replay_conn_set_alone (ReplayConn *conn, gboolean alone)
{
  conn->wire.alone = alone;
}

void
replay_conn_free (ReplayConn *conn)
{
  if (conn == NULL)
    return;
  pthread_mutex_lock (&conn->target->lock);
  g_ptr_array_remove_fast (conn->target->conns, conn);
  pthread_mutex_unlock (&conn->target->lock);
  soup_session_abort (conn->session);
  g_object_unref (conn->session);
  replay_wire_clear (&conn->wire);
  g_object_unref (conn->cancellable);
  g_hash_table_unref (conn->uris);
  g_free (conn);
}

static GUri *
make_uri (ReplayConn *conn, const char *path)
{
  const ReplayTarget *target = conn->target;
  GUri *uri = g_hash_table_lookup (conn->uris, path);
  if (uri != NULL)
    return g_uri_ref (uri);
  g_autofree char *full = g_strconcat (target->base_path, path, NULL);
  uri = g_uri_build (SOUP_HTTP_URI_FLAGS, g_uri_get_scheme (target->base), NULL, g_uri_get_host (target->base),
                     g_uri_get_port (target->base), full, NULL, NULL);
  if (g_hash_table_size (conn->uris) < 64)
    g_hash_table_insert (conn->uris, g_strdup (path), g_uri_ref (uri));
  return uri;
}

/* The connection stands: from here on the time for the whole reply counts. */
static void
on_starting (SoupMessage *message, gpointer data)
{
  ReplayConn *conn = data;
  atomic_store (&conn->connected, 1);
  replay_wire_begin (&conn->wire);
}

static void
on_network_event (SoupMessage *message, GSocketClientEvent event, GIOStream *stream, gpointer data)
{
  ReplayConn *conn = data;
  if (event == G_SOCKET_CLIENT_CONNECTED)
    replay_wire_take (&conn->wire, stream);
}

static void
on_sent (SoupMessage *message, gpointer data)
{
  ReplayConn *conn = data;
  replay_wire_sent (&conn->wire);
}

/* A 204 has no Content-Length, and libsoup takes that for a body that ends with the connection, which it closes then. */
static void
on_headers (SoupMessage *message, gpointer data)
{
  ReplayConn *conn = data;
  replay_wire_answered (&conn->wire);
  if (soup_message_get_status (message) == 204)
    soup_message_headers_set_encoding (soup_message_get_response_headers (message), SOUP_ENCODING_NONE);
}

static gint64
read_retry_after (SoupMessage *message)
{
  const char *text = soup_message_headers_get_one (soup_message_get_response_headers (message), "Retry-After");
  guint64 seconds;
  if (text == NULL)
    return -1;
  if (g_ascii_string_to_unsigned (text, 10, 0, 86400, &seconds, NULL))
    return (gint64)seconds * 1000000000;
  g_autoptr (GDateTime) until = soup_date_time_new_from_http_string (text);
  g_autoptr (GDateTime) now = g_date_time_new_now_utc ();
  if (until == NULL)
    return -1;
  return CLAMP (g_date_time_difference (until, now), 0, G_GINT64_CONSTANT (86400) * G_USEC_PER_SEC) * 1000;
}

static gboolean
read_body (ReplayConn *conn, GInputStream *stream, ReplayReply *reply, GError **error)
{
  char chunk[4096];
  for (;;)
    {
      gssize n = g_input_stream_read (stream, chunk, sizeof chunk, conn->cancellable, error);
      if (n <= 0)
        return n == 0;
      gsize take = (gsize)MIN ((guint64)n, conn->target->max_reply - reply->body->len);
      g_string_append_len (reply->body, chunk, (gssize)take);
      if (take < (gsize)n)
        {
          /* The rest is not read: the connection goes. */
          reply->too_large = TRUE;
          g_cancellable_cancel (conn->cancellable);
          return TRUE;
        }
    }
}

static void
tell_failure (ReplayConn *conn, Cut cut, const GError *error, ReplayReply *reply)
{
  const ReplayTarget *target = conn->target;
  reply->status = 0;
  reply->sent = atomic_load (&conn->connected) != 0;
  g_free (reply->reason);
  if (cut == CUT_CONNECT)
    reply->reason = g_strdup_printf ("no connection within %g s (--connect-timeout)", (double)target->connect_timeout_ns / 1e9);
  else if (cut == CUT_REPLY)
    reply->reason = g_strdup_printf ("nothing whole within %g s (--timeout)", (double)target->timeout_ns / 1e9);
  else if (cut == CUT_SIGNAL)
    reply->reason = g_strdup ("broken off by a signal");
  else if (g_error_matches (error, G_TLS_ERROR, G_TLS_ERROR_BAD_CERTIFICATE))
    reply->reason = g_strdup_printf ("a certificate that is not trusted, or is another host's (--ca-file): %s", error->message);
  else
    reply->reason = replay_clean (error->message, strlen (error->message), SHOWN_MAX);
  reply->cancelled = cut == CUT_SIGNAL;
}

void
replay_conn_call (ReplayConn *conn, const char *method, const char *path, const char *body, gsize len, ReplayReply *reply)
{
  ReplayTarget *target = conn->target;
  g_autoptr (GUri) uri = make_uri (conn, path);
  g_autoptr (SoupMessage) message = soup_message_new_from_uri (method, uri);
  g_autoptr (GInputStream) stream = NULL;
  g_autoptr (GError) error = NULL;
  gint64 begun = now_ns ();
  Cut cut;

  g_clear_pointer (&reply->reason, g_free);
  g_string_truncate (reply->body, 0);
  reply->too_large = reply->sent = reply->cancelled = FALSE;
  reply->retry_after_ns = -1;
  /* Marked idempotent so that a kept connection is used for POSTs, too; libsoup doesn't repeat one whose connection dies. */
  soup_message_set_flags (message, SOUP_MESSAGE_NO_REDIRECT | SOUP_MESSAGE_IDEMPOTENT);
  if (target->authorization != NULL)
    soup_message_headers_replace (soup_message_get_request_headers (message), "Authorization", target->authorization);
  if (body != NULL)
    {
      g_autoptr (GBytes) bytes = g_bytes_new_static (body, len);
      soup_message_set_request_body_from_bytes (message, "application/json", bytes);
    }
  g_signal_connect (message, "starting", G_CALLBACK (on_starting), conn);
  g_signal_connect (message, "got-headers", G_CALLBACK (on_headers), conn);
  g_signal_connect (message, "network-event", G_CALLBACK (on_network_event), conn);
  g_signal_connect (message, "wrote-body", G_CALLBACK (on_sent), conn);
  atomic_store (&conn->connected, 0);
  pthread_mutex_lock (&target->lock);
  conn->cut = CUT_NOT;
  conn->begun_ns = begun;
  pthread_mutex_unlock (&target->lock);
  stream = soup_session_send (conn->session, message, conn->cancellable, &error);
  gboolean ok = stream != NULL && read_body (conn, stream, reply, &error);
  if (stream != NULL)
    g_input_stream_close (stream, NULL, NULL);
  pthread_mutex_lock (&target->lock);
  cut = conn->cut;
  conn->begun_ns = 0;
  pthread_mutex_unlock (&target->lock);
  g_cancellable_reset (conn->cancellable);
  reply->elapsed_ns = now_ns () - begun;
  if (!ok)
    {
      tell_failure (conn, cut, error, reply);
      return;
    }
  const char *reason = soup_message_get_reason_phrase (message);
  reply->status = soup_message_get_status (message);
  reply->reason = replay_clean (reason != NULL ? reason : "", reason != NULL ? strlen (reason) : 0, 256);
  reply->retry_after_ns = read_retry_after (message);
}
