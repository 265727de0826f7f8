// SPDX-License-Identifier: Apache-2.0
#include "events-files.h"

#include <fcntl.h>
#include <lmtrace/lmt-source.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum
{
  TOKEN_FILE_MAX = 65536,
  TOKEN_MAX = 8192,
};

guint64
events_files_raise (guint64 needed)
{
  struct rlimit limit;

  if (getrlimit (RLIMIT_NOFILE, &limit) != 0)
    return needed;
  if (limit.rlim_cur < needed && limit.rlim_cur < limit.rlim_max)
    {
      const struct rlimit more = { MIN (limit.rlim_max, needed), limit.rlim_max };
      if (setrlimit (RLIMIT_NOFILE, &more) == 0)
        limit = more;
    }
  return limit.rlim_cur;
}

gboolean
events_files_are_free (guint n)
{
  g_autofree int *files = g_new (int, n);
  guint opened = 0;

  while (opened < n && (files[opened] = open ("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0)
    opened++;
  for (guint i = 0; i < opened; i++)
    close (files[i]);
  return opened == n;
}

char *
events_files_read_token (const char *path, GError **error)
{
  g_autofree char *text = lmt_source_read_whole (path, TOKEN_FILE_MAX, NULL, error);
  gsize len;

  if (text == NULL)
    return NULL;
  text[strcspn (text, "\r\n")] = '\0';
  len = strlen (g_strchomp (text));
  for (gsize i = 0; i < len; i++)
    if (text[i] <= ' ' || text[i] > '~')
      {
        g_set_error (error, LMT_ERROR, LMT_ERROR_OPTION,
                     "%s: expected visible ASCII characters in the first line, found byte 0x%02x", path, (guint8)text[i]);
        return NULL;
      }
  if (len == 0 || len > TOKEN_MAX)
    {
      g_set_error (error, LMT_ERROR, LMT_ERROR_OPTION, "%s: expected a token of 1 to %d characters in the first line, found %zu",
                   path, TOKEN_MAX, len);
      return NULL;
    }
  return g_steal_pointer (&text);
}
