// SPDX-License-Identifier: Apache-2.0
/* What goes out to servers: prefetches, deletions. Asynchronous, one session, bounded replies, no proxy, no redirects. */
#include "coord.h"

#include <libsoup/soup.h>

enum
{
  TIMEOUT_S = 30, /* of each step, and of the whole */
  MAX_REPLY = 1024 * 1024,
  MAX_CONNECTIONS = 32,
};

struct _CoordClient
{
  SoupSession *session;
  GCancellable *all;
  guint n_open;
};

typedef struct
{
  CoordClient *client;
  SoupMessage *message;
  GCancellable *cancel;
  gulong cancel_all, cancel_one;
  GCancellable *caller;
  guint timer;
  gboolean is_late;
  GByteArray *reply;
  GInputStream *stream;
  guint8 *buffer;
  CoordClientDone done;
  gpointer user_data;
} Call;

enum
{
  BUFFER = 64 * 1024
};

CoordClient *
coord_client_new (void)
{
  CoordClient *client = g_new0 (CoordClient, 1);
  client->session = soup_session_new_with_options ("timeout", TIMEOUT_S, "max-conns", MAX_CONNECTIONS, "max-conns-per-host", 4,
                                                   "proxy-resolver", NULL, "user-agent", "lmtrace/" LMT_VERSION, NULL);
  soup_session_remove_feature_by_type (client->session, SOUP_TYPE_CONTENT_DECODER);
  soup_session_remove_feature_by_type (client->session, SOUP_TYPE_AUTH_MANAGER);
  soup_session_remove_feature_by_type (client->session, SOUP_TYPE_CONTENT_SNIFFER);
  client->all = g_cancellable_new ();
  return client;
}

guint
coord_client_n_open (CoordClient *client)
{
  return client->n_open;
}

void
coord_client_free (CoordClient *client)
{
  if (client == NULL)
    return;
  g_cancellable_cancel (client->all);
  while (client->n_open > 0)
    g_main_context_iteration (NULL, TRUE);
  g_object_unref (client->session);
  g_object_unref (client->all);
  g_free (client);
}

static void
call_finish (Call *call, guint status, const char *error)
{
  g_autoptr (GBytes) body = g_byte_array_free_to_bytes (call->reply);

  call->client->n_open--;
  g_clear_handle_id (&call->timer, g_source_remove);
  g_cancellable_disconnect (call->client->all, call->cancel_all);
  if (call->caller != NULL)
    {
      g_cancellable_disconnect (call->caller, call->cancel_one);
      g_object_unref (call->caller);
    }
  call->done (status, body, call->is_late ? "no whole reply in time" : error, call->user_data);
  g_clear_object (&call->stream);
  g_clear_object (&call->message);
  g_object_unref (call->cancel);
  g_free (call->buffer);
  g_free (call);
}

static void
on_read (GObject *source, GAsyncResult *result, gpointer data)
{
  Call *call = data;
  g_autoptr (GError) error = NULL;
  gssize n = g_input_stream_read_finish (G_INPUT_STREAM (source), result, &error);

  if (n < 0)
    {
      call_finish (call, 0, error->message);
      return;
    }
  if (n == 0)
    {
      call_finish (call, soup_message_get_status (call->message), NULL);
      return;
    }
  if (call->reply->len + (gsize)n > MAX_REPLY)
    {
      call_finish (call, 0, "the reply is larger than 1 MiB");
      return;
    }
  g_byte_array_append (call->reply, call->buffer, (guint)n);
  g_input_stream_read_async (call->stream, call->buffer, BUFFER, G_PRIORITY_DEFAULT, call->cancel, on_read, call);
}

static void
on_sent (GObject *source, GAsyncResult *result, gpointer data)
{
  Call *call = data;
  g_autoptr (GError) error = NULL;

  call->stream = soup_session_send_finish (SOUP_SESSION (source), result, &error);
  if (call->stream == NULL)
    {
      call_finish (call, 0, error->message);
      return;
    }
  call->buffer = g_malloc (BUFFER);
  g_input_stream_read_async (call->stream, call->buffer, BUFFER, G_PRIORITY_DEFAULT, call->cancel, on_read, call);
}

static void
on_cancelled (GCancellable *outer, gpointer data)
{
  g_cancellable_cancel (data);
}

/* A server that gives a byte now and then keeps within each step's time, for ever. */
static gboolean
on_late (gpointer data)
{
  Call *call = data;
  call->timer = 0;
  call->is_late = TRUE;
  g_cancellable_cancel (call->cancel);
  return G_SOURCE_REMOVE;
}

static gboolean
fail_later (gpointer data)
{
  call_finish (data, 0, "the address makes no URL");
  return G_SOURCE_REMOVE;
}

/* No address: such bytes end up in another part of a URL, or cut it short. */
static gboolean
is_odd_byte (guint8 byte)
{
  return byte <= ' ' || byte == 0x7f || strchr ("/?#@\\", byte) != NULL;
}

/* The address as the server registered it; a literal IPv6 address gets its brackets. */
static GUri *
call_uri (const CoordInstance *instance, const char *path)
{
  const LmtSpan ip = coord_span_of_bytes (instance->ip);
  g_autofree char *host = g_strndup ((const char *)ip.data, ip.len);
  g_autofree char *url = NULL;
  gboolean v6 = strchr (host, ':') != NULL && host[0] != '[';

  for (gsize i = 0; i < ip.len; i++)
    if (is_odd_byte (ip.data[i]))
      return NULL;
  url = g_strdup_printf (v6 ? "http://[%s]:%" G_GINT64_FORMAT "%s" : "http://%s:%" G_GINT64_FORMAT "%s", host,
                         instance->http_port, path);
  return g_uri_parse (url, SOUP_HTTP_URI_FLAGS, NULL);
}

void
coord_client_send (CoordClient *client, const char *method, const CoordInstance *instance, const char *path, GString *body,
                   GCancellable *cancel, CoordClientDone done, gpointer user_data)
{
  Call *call = g_new0 (Call, 1);
  g_autoptr (GUri) uri = call_uri (instance, path);
  g_autoptr (GBytes) bytes = body != NULL ? g_string_free_to_bytes (body) : NULL;

  call->client = client;
  call->cancel = g_cancellable_new ();
  call->reply = g_byte_array_new ();
  call->done = done;
  call->user_data = user_data;
  client->n_open++;
  call->cancel_all = g_cancellable_connect (client->all, G_CALLBACK (on_cancelled), call->cancel, NULL);
  if (cancel != NULL)
    {
      call->caller = g_object_ref (cancel);
      call->cancel_one = g_cancellable_connect (cancel, G_CALLBACK (on_cancelled), call->cancel, NULL);
    }
  if (uri != NULL)
    call->message = soup_message_new_from_uri (method, uri);
  if (call->message == NULL)
    {
      g_idle_add (fail_later, call);
      /* cppcheck-suppress memleak */
      return;
    }
  call->timer = g_timeout_add_seconds (TIMEOUT_S, on_late, call);
  soup_message_add_flags (call->message, SOUP_MESSAGE_NO_REDIRECT);
  if (bytes != NULL)
    soup_message_set_request_body_from_bytes (call->message, "application/json", bytes);
  soup_session_send_async (client->session, call->message, G_PRIORITY_DEFAULT, call->cancel, on_sent, call);
}
