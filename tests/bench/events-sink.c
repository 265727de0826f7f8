// SPDX-License-Identifier: Apache-2.0
/*
 * The trivial end of a replay: takes every request, counts the batches of a body by a word of theirs, says they were applied. One
 * thread, poll(). Prints its port, ends when stdin does. Not a coordinator: what it costs is what sockets cost.
 *
 *   events-sink [BODIES]            BODIES: a file that gets the body of every POST /events, behind its length in four bytes
 */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#define MAX_CONNECTIONS 64

typedef struct
{
  char *data;
  size_t len, size;
} Buffer;

static struct pollfd fds[MAX_CONNECTIONS + 2];
static Buffer buffers[MAX_CONNECTIONS + 2];
static int n_fds = 2;
static FILE *bodies;

static void
answer (int fd, const char *request, const char *body, size_t len)
{
  static const char head[] = "HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s";
  static const char word[] = "\"event_type\"";
  char text[128] = "", reply[512];
  const char *status = "200 OK";
  if (strncmp (request, "POST /events ", 13) == 0)
    {
      unsigned n = 0;
      for (const char *at = body; (at = memmem (at, len - (size_t)(at - body), word, sizeof word - 1)) != NULL;
           at += sizeof word - 1)
        n++;
      if (bodies != NULL)
        {
          uint32_t size = (uint32_t)len;
          fwrite (&size, sizeof size, 1, bodies);
          fwrite (body, 1, len, bodies);
        }
      snprintf (text, sizeof text, "{\"applied\":%u,\"duplicates\":0,\"stale\":0}", n);
    }
  else if (strncmp (request, "POST /instances ", 16) == 0)
    strcpy (text, "{\"instance_id\":\"x\",\"re_registered\":false}");
  else if (strncmp (request, "GET /instances ", 15) == 0)
    strcpy (text, "{\"instances\":[]}");
  else if (strncmp (request, "GET ", 4) == 0)
    {
      status = "404 Not Found";
      strcpy (text, "{}");
    }
  else
    strcpy (text, "{}");
  int n = snprintf (reply, sizeof reply, head, status, strlen (text), text);
  if (write (fd, reply, (size_t)n) != n)
    return;
}

/* How many bytes the first request takes; 0: it isn't whole. */
static size_t
take (int fd, Buffer *buffer)
{
  char *end = memmem (buffer->data, buffer->len, "\r\n\r\n", 4);
  size_t length = 0, head;
  if (end == NULL)
    return 0;
  head = (size_t)(end - buffer->data) + 4;
  for (char *line = buffer->data; line != NULL && line < end; line = memchr (line, '\n', (size_t)(end - line)))
    {
      line += *line == '\n';
      if (strncasecmp (line, "content-length:", 15) == 0)
        length = strtoul (line + 15, NULL, 10);
    }
  if (buffer->len < head + length)
    return 0;
  answer (fd, buffer->data, buffer->data + head, length);
  return head + length;
}

static int
serve (int i)
{
  Buffer *buffer = &buffers[i];
  size_t used;
  if (buffer->len == buffer->size)
    {
      buffer->size = buffer->size > 0 ? buffer->size * 2 : 65536;
      buffer->data = realloc (buffer->data, buffer->size + 1);
      if (buffer->data == NULL)
        return 0;
    }
  ssize_t n = read (fds[i].fd, buffer->data + buffer->len, buffer->size - buffer->len);
  if (n <= 0)
    return 0;
  buffer->len += (size_t)n;
  while (buffer->len > 0 && (used = take (fds[i].fd, buffer)) > 0)
    {
      memmove (buffer->data, buffer->data + used, buffer->len - used);
      buffer->len -= used;
    }
  return 1;
}

int
main (int argc, char **argv)
{
  struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl (INADDR_LOOPBACK) };
  socklen_t size = sizeof address;
  int one = 1, listener = socket (AF_INET, SOCK_STREAM, 0);
  if (listener < 0 || bind (listener, (struct sockaddr *)&address, sizeof address) != 0 || listen (listener, 128) != 0
      || getsockname (listener, (struct sockaddr *)&address, &size) != 0)
    return 1;
  if (argc > 1 && (bodies = fopen (argv[1], "w")) == NULL)
    return 1;
  printf ("%d\n", ntohs (address.sin_port));
  fflush (stdout);
  fds[0] = (struct pollfd){ .fd = STDIN_FILENO, .events = POLLIN };
  fds[1] = (struct pollfd){ .fd = listener, .events = POLLIN };
  while (poll (fds, (nfds_t)n_fds, -1) > 0)
    {
      char byte;
      if (fds[0].revents != 0 && read (STDIN_FILENO, &byte, 1) <= 0)
        return bodies != NULL && fclose (bodies) != 0;
      for (int i = n_fds - 1; i > 1; i--)
        if (fds[i].revents != 0 && !serve (i))
          {
            close (fds[i].fd);
            free (buffers[i].data);
            n_fds--;
            fds[i] = fds[n_fds];
            buffers[i] = buffers[n_fds];
          }
      if (fds[1].revents != 0 && n_fds < MAX_CONNECTIONS + 2)
        {
          int fd = accept (listener, NULL, NULL);
          if (fd < 0)
            continue;
          setsockopt (fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
          fds[n_fds] = (struct pollfd){ .fd = fd, .events = POLLIN };
          memset (&buffers[n_fds], 0, sizeof buffers[n_fds]);
          n_fds++;
        }
    }
  return 0;
}
