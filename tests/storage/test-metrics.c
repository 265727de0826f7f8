// SPDX-License-Identifier: Apache-2.0
#include <arpa/inet.h>
#include <locale.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <lmtrace/lmt-error.h>

#include "storage-metrics.h"

static char *
ask (guint16 port, const char *request)
{
  struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons (port) };
  GString *response = g_string_new (NULL);
  char buffer[512];
  ssize_t n;
  int fd = socket (AF_INET, SOCK_STREAM, 0);

  address.sin_addr.s_addr = htonl (INADDR_LOOPBACK);
  g_assert_cmpint (connect (fd, (const struct sockaddr *)&address, sizeof address), ==, 0);
  g_assert_cmpint (send (fd, request, strlen (request), 0), ==, (gssize)strlen (request));
  while ((n = recv (fd, buffer, sizeof buffer, 0)) > 0)
    g_string_append_len (response, buffer, n);
  close (fd);
  return g_string_free (response, FALSE);
}

static void
test_answers (void)
{
  g_autoptr (GError) error = NULL;
  StorageMetrics *metrics = storage_metrics_new (0, &error);
  g_autofree char *good = NULL;
  g_autofree char *bad = NULL;

  g_assert_no_error (error);
  g_autofree char *early = ask (storage_metrics_get_port (metrics), "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
  g_assert_true (g_str_has_prefix (early, "HTTP/1.1 503 "));
  storage_metrics_set (metrics, "lmtrace_x 1\n", 12);
  good = ask (storage_metrics_get_port (metrics), "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
  g_assert_true (g_str_has_prefix (good, "HTTP/1.1 200 OK\r\n"));
  g_assert_nonnull (strstr (good, "Content-Length: 12\r\n"));
  g_assert_true (g_str_has_suffix (good, "\r\n\r\nlmtrace_x 1\n"));
  bad = ask (storage_metrics_get_port (metrics), "GET / HTTP/1.1\r\n\r\n");
  g_assert_true (g_str_has_prefix (bad, "HTTP/1.1 404 "));
  storage_metrics_free (metrics);
}

static void
test_port_taken (void)
{
  g_autoptr (GError) error = NULL;
  StorageMetrics *metrics = storage_metrics_new (0, NULL);

  g_assert_nonnull (metrics);
  g_assert_null (storage_metrics_new (storage_metrics_get_port (metrics), &error));
  g_assert_error (error, LMT_ERROR, LMT_ERROR_IO);
  g_assert_true (g_str_has_prefix (error->message, "--prometheus-port: 127.0.0.1:"));
  storage_metrics_free (metrics);
}

int
main (int argc, char **argv)
{
  setlocale (LC_ALL, "");
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/metrics/answers", test_answers);
  g_test_add_func ("/metrics/port-taken", test_port_taken);
  return g_test_run ();
}
