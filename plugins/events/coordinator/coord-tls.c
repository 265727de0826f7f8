// SPDX-License-Identifier: Apache-2.0
/* Certificate and key of --tls-cert and --tls-key. GIO reads them and doesn't look whether they belong together: clients would
 * find out, one by one. So both have to shake hands with a client of our own, over a pair of sockets, before anything listens. */
#include "coord.h"

#include <errno.h>
#include <lmtrace/lmt-source.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum
{
  MAX_PEM = 1 << 20,       /* bytes of either file */
  HANDSHAKE_MS = 10 * 1000 /* a machine under load needs some */
};

static gboolean
refuse (GError **error, const char *option, const char *path, const char *expected, const char *found)
{
  g_set_error (error, LMT_ERROR, LMT_ERROR_OPTION, "%s %s: expected %s, found %s", option, path, expected, found);
  return FALSE;
}

/* (transfer full) */
static char *
read_pem (const char *option, const char *path, GError **error)
{
  gsize len = 0;
  char *text = lmt_source_read_whole (path, MAX_PEM, &len, error);

  if (text == NULL)
    g_prefix_error (error, "%s ", option);
  else if (memchr (text, 0, len) != NULL)
    {
      refuse (error, option, path, "a PEM file", "one with NUL bytes");
      explicit_bzero (text, len);
      g_clear_pointer (&text, g_free);
    }
  return text;
}

static void
forget (char *text)
{
  if (text != NULL)
    explicit_bzero (text, strlen (text));
  g_free (text);
}

/* PKCS#8 says it in its first line, the older form in a header. */
static gboolean
check_key (const char *path, const char *text, GError **error)
{
  if (strstr (text, "PRIVATE KEY-----") == NULL)
    return refuse (error, "--tls-key", path, "a private key in PEM form", "none");
  if (strstr (text, "BEGIN ENCRYPTED PRIVATE KEY-----") != NULL || strstr (text, "Proc-Type: 4,ENCRYPTED") != NULL)
    return refuse (error, "--tls-key", path, "a key without a passphrase (openssl pkey -in KEY -out PLAIN makes one)",
                   "an encrypted one");
  return TRUE;
}

/* -------- do they fit? -------- */

typedef struct
{
  GTlsConnection *ends[2]; /* server, client */
  GError *error;           /* of the one that failed first: the other only sees it go */
  guint open;
} Trial;

static void
on_shaken (GObject *source, GAsyncResult *result, gpointer data)
{
  Trial *trial = data;

  trial->open--;
  if (g_tls_connection_handshake_finish (G_TLS_CONNECTION (source), result, trial->error == NULL ? &trial->error : NULL))
    return;
  if (trial->open > 0)
    g_io_stream_close (G_IO_STREAM (source), NULL, NULL); /* the other one need not wait */
}

static gboolean
accept_any (GTlsConnection *connection, GTlsCertificate *certificate, GTlsCertificateFlags flags, gpointer data)
{
  return TRUE;
}

static gboolean
on_late (gpointer data)
{
  g_cancellable_cancel (data);
  return G_SOURCE_REMOVE;
}

static GIOStream *
pair_end (int fd, GError **error)
{
  g_autoptr (GSocket) socket = g_socket_new_from_fd (fd, error);

  if (socket == NULL)
    {
      close (fd);
      return NULL;
    }
  return G_IO_STREAM (g_socket_connection_factory_create_connection (socket));
}

static gboolean
make_ends (Trial *trial, GTlsCertificate *certificate, GError **error)
{
  int fds[2];

  if (socketpair (AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0)
    {
      g_set_error (error, LMT_ERROR, LMT_ERROR_IO, "cannot make a pair of sockets: %s", g_strerror (errno));
      return FALSE;
    }
  g_autoptr (GIOStream) here = pair_end (fds[0], error);
  g_autoptr (GIOStream) there = pair_end (fds[1], here != NULL ? error : NULL);
  if (here == NULL || there == NULL)
    return FALSE;
  trial->ends[0] = G_TLS_CONNECTION (g_tls_server_connection_new (here, certificate, error));
  if (trial->ends[0] == NULL)
    return FALSE;
  trial->ends[1] = G_TLS_CONNECTION (g_tls_client_connection_new (there, NULL, error));
  if (trial->ends[1] == NULL)
    return FALSE;
  g_signal_connect (trial->ends[1], "accept-certificate", G_CALLBACK (accept_any), NULL);
  return TRUE;
}

static gboolean
shake_hands (GTlsCertificate *certificate, GError **error)
{
  g_autoptr (GMainContext) context = g_main_context_new ();
  g_autoptr (GCancellable) cancel = g_cancellable_new ();
  g_autoptr (GSource) timer = g_timeout_source_new (HANDSHAKE_MS);
  Trial trial = { .open = 0 };
  gboolean fine;

  g_main_context_push_thread_default (context);
  fine = make_ends (&trial, certificate, error);
  if (fine)
    {
      g_source_set_callback (timer, on_late, cancel, NULL);
      g_source_attach (timer, context);
      trial.open = 2;
      for (guint i = 0; i < 2; i++)
        g_tls_connection_handshake_async (trial.ends[i], G_PRIORITY_DEFAULT, cancel, on_shaken, &trial);
      while (trial.open > 0)
        g_main_context_iteration (context, TRUE);
      g_source_destroy (timer);
      fine = trial.error == NULL;
      if (!fine)
        g_propagate_error (error, trial.error);
    }
  g_clear_object (&trial.ends[0]);
  g_clear_object (&trial.ends[1]);
  g_main_context_pop_thread_default (context);
  return fine;
}

/* -------- doors -------- */

static void
tell_dates (Coord *coord, GTlsCertificate *certificate)
{
  g_autoptr (GDateTime) now = g_date_time_new_now_utc ();
  g_autoptr (GDateTime) from = g_tls_certificate_get_not_valid_before (certificate);
  g_autoptr (GDateTime) to = g_tls_certificate_get_not_valid_after (certificate);
  const gboolean early = from != NULL && g_date_time_compare (now, from) < 0;
  const gboolean late = to != NULL && g_date_time_compare (now, to) > 0;

  if (!early && !late)
    return;
  g_autofree char *when = g_date_time_format_iso8601 (late ? to : from);
  g_autofree char *text = g_strdup_printf ("--tls-cert %s: %s %s: clients that check it refuse it", coord->config->tls_cert,
                                           late ? "expired at" : "not valid before", when);
  lmt_warnings_add (coord->warnings, "tls", text);
}

gboolean
coord_tls_load (Coord *coord, GTlsCertificate **certificate, GError **error)
{
  const CoordConfig *config = coord->config;
  const char *cert = config->tls_cert, *key = config->tls_key;
  g_autoptr (GTlsCertificate) read = NULL;
  char *text = NULL, *chain = NULL, *both = NULL;
  g_autoptr (GError) why = NULL;

  *certificate = NULL;
  if (cert == NULL && key == NULL)
    return TRUE;
  if (cert == NULL || key == NULL)
    {
      g_set_error (error, LMT_ERROR, LMT_ERROR_OPTION, "%s: expected --tls-cert and --tls-key together, found one of them",
                   cert != NULL ? "--tls-cert" : "--tls-key");
      return FALSE;
    }
  if (!g_tls_backend_supports_tls (g_tls_backend_get_default ()))
    return refuse (error, "--tls-cert", cert, "GLib's TLS (package glib-networking)", "none");
  if ((text = read_pem ("--tls-key", key, error)) != NULL && check_key (key, text, error)
      && (chain = read_pem ("--tls-cert", cert, error)) != NULL)
    {
      /* the key first: of several it is the first that counts */
      both = g_strconcat (text, "\n", chain, NULL);
      read = g_tls_certificate_new_from_pem (both, -1, &why);
      if (read == NULL)
        g_set_error (error, LMT_ERROR, LMT_ERROR_OPTION, "--tls-cert %s, --tls-key %s: %s", cert, key, why->message);
      else if (!shake_hands (read, &why))
        {
          g_clear_object (&read);
          g_set_error (
              error, LMT_ERROR, LMT_ERROR_OPTION,
              "--tls-cert %s, --tls-key %s: expected a certificate and its own key, found two that no TLS connection can be "
              "made with: %s",
              cert, key, why->message);
        }
    }
  forget (text);
  forget (chain);
  forget (both);
  if (read == NULL)
    return FALSE;
  tell_dates (coord, read);
  *certificate = g_steal_pointer (&read);
  return TRUE;
}
