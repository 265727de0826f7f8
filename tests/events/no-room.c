// SPDX-License-Identifier: Apache-2.0
/* To be preloaded: the first NO_ROOM_TIMES calls of accept() find no descriptor or no memory, each in another way. The monotonic
 * time of each, in milliseconds, is appended to the file NO_ROOM_LOG as a line. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* 0: there is room. */
static int
no_room (void)
{
  static const int reasons[] = { EMFILE, ENFILE, ENOBUFS, ENOMEM };
  static int calls;
  const char *times = getenv ("NO_ROOM_TIMES"), *path = getenv ("NO_ROOM_LOG");
  struct timespec now;

  if (times == NULL || path == NULL || calls >= atoi (times))
    return 0;
  const int reason = reasons[calls++ % 4];
  FILE *log = fopen (path, "ae");
  if (log != NULL)
    {
      clock_gettime (CLOCK_MONOTONIC, &now);
      fprintf (log, "%lld\n", (long long)now.tv_sec * 1000 + now.tv_nsec / 1000000);
      fclose (log);
    }
  return reason;
}

int
accept4 (int fd, struct sockaddr *address, socklen_t *length, int flags)
{
  const int reason = no_room ();

  if (reason != 0)
    {
      errno = reason;
      return -1;
    }
  return (int)syscall (SYS_accept4, fd, address, length, flags);
}

int
accept (int fd, struct sockaddr *address, socklen_t *length)
{
  return accept4 (fd, address, length, 0);
}
