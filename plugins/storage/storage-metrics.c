// SPDX-License-Identifier: Apache-2.0
#include "storage-metrics.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <lmtrace/lmt-error.h>

#define REQUEST_BYTES 4096
/* A client that says nothing doesn't keep the next one waiting longer. */
#define PATIENCE_S 2

struct _StorageMetrics
{
  int listener;
  int stop;
  guint16 port;
  pthread_t thread;
  pthread_mutex_t lock; /* of text */
  GString *text;
};

/* The request's head, or what came of it. */
static gsize
read_request (int fd, char *request)
{
  gsize n = 0;

  while (n < REQUEST_BYTES - 1)
    {
      ssize_t got = recv (fd, request + n, REQUEST_BYTES - 1 - n, 0);

      if (got <= 0)
        break;
      n += (gsize)got;
      request[n] = '\0';
      if (strstr (request, "\r\n\r\n") != NULL)
        break;
    }
  request[n] = '\0';
  return n;
}

static void
send_all (int fd, const char *data, gsize len)
{
  while (len > 0)
    {
      ssize_t sent = send (fd, data, len, MSG_NOSIGNAL);

      if (sent <= 0)
        return;
      data += sent;
      len -= (gsize)sent;
    }
}

static void
answer (StorageMetrics *metrics, int fd)
{
  const struct timeval patience = { PATIENCE_S, 0 };
  char request[REQUEST_BYTES];
  g_autofree char *response = NULL;
  const char *status = "404 Not Found";
  const char *body = "not here: see /metrics\n";
  g_autofree char *text = NULL;

  setsockopt (fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  setsockopt (fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  if (read_request (fd, request) == 0)
    return;
  if (g_str_has_prefix (request, "GET /metrics ") || g_str_has_prefix (request, "GET /metrics?"))
    {
      pthread_mutex_lock (&metrics->lock);
      text = g_strdup (metrics->text->str);
      pthread_mutex_unlock (&metrics->lock);
      /* The port is open before the first figures are there: an empty page would look like a program without any. */
      body = *text != '\0' ? text : "no figures yet\n";
      status = *text != '\0' ? "200 OK" : "503 Service Unavailable";
    }
  response = g_strdup_printf ("HTTP/1.1 %s\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: %zu\r\n"
                              "Connection: close\r\n\r\n%s",
                              status, strlen (body), body);
  send_all (fd, response, strlen (response));
}

static void *
serve (void *data)
{
  StorageMetrics *metrics = data;
  struct pollfd fds[] = { { metrics->listener, POLLIN, 0 }, { metrics->stop, POLLIN, 0 } };

  for (;;)
    {
      int fd;

      if (poll (fds, 2, -1) < 0 && errno != EINTR)
        return NULL;
      if (fds[1].revents != 0)
        return NULL;
      if ((fds[0].revents & POLLIN) == 0)
        continue;
      fd = accept4 (metrics->listener, NULL, NULL, SOCK_CLOEXEC);
      if (fd < 0)
        continue;
      answer (metrics, fd);
      close (fd);
    }
}

static void
close_descriptors (StorageMetrics *metrics)
{
  if (metrics->listener >= 0)
    close (metrics->listener);
  if (metrics->stop >= 0)
    close (metrics->stop);
}

static gboolean
listen_on (StorageMetrics *metrics, guint16 port)
{
  struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons (port) };
  socklen_t len = sizeof address;
  const int yes = 1;

  address.sin_addr.s_addr = htonl (INADDR_LOOPBACK);
  metrics->listener = socket (AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (metrics->listener < 0)
    return FALSE;
  setsockopt (metrics->listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (bind (metrics->listener, (const struct sockaddr *)&address, sizeof address) != 0 || listen (metrics->listener, 8) != 0
      || getsockname (metrics->listener, (struct sockaddr *)&address, &len) != 0)
    return FALSE;
  metrics->port = ntohs (address.sin_port);
  metrics->stop = eventfd (0, EFD_CLOEXEC);
  return metrics->stop >= 0;
}

StorageMetrics *
storage_metrics_new (guint16 port, GError **error)
{
  StorageMetrics *metrics = g_new0 (StorageMetrics, 1);
  int number = 0;

  metrics->listener = metrics->stop = -1;
  metrics->text = g_string_new (NULL);
  pthread_mutex_init (&metrics->lock, NULL);
  if (!listen_on (metrics, port))
    number = errno;
  else
    number = pthread_create (&metrics->thread, NULL, serve, metrics);
  if (number == 0)
    return metrics;
  g_set_error (error, LMT_ERROR, LMT_ERROR_IO, "--prometheus-port: 127.0.0.1:%u: %s", port, g_strerror (number));
  close_descriptors (metrics);
  pthread_mutex_destroy (&metrics->lock);
  g_string_free (metrics->text, TRUE);
  g_free (metrics);
  return NULL;
}

void
storage_metrics_free (StorageMetrics *metrics)
{
  const guint64 one = 1;

  if (metrics == NULL)
    return;
  while (write (metrics->stop, &one, sizeof one) < 0 && errno == EINTR)
    ;
  pthread_join (metrics->thread, NULL);
  close_descriptors (metrics);
  pthread_mutex_destroy (&metrics->lock);
  g_string_free (metrics->text, TRUE);
  g_free (metrics);
}

guint16
storage_metrics_get_port (const StorageMetrics *metrics)
{
  return metrics->port;
}

void
storage_metrics_set (StorageMetrics *metrics, const char *text, gsize len)
{
  pthread_mutex_lock (&metrics->lock);
  g_string_truncate (metrics->text, 0);
  g_string_append_len (metrics->text, text, (gssize)len);
  pthread_mutex_unlock (&metrics->lock);
}
