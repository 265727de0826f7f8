// SPDX-License-Identifier: Apache-2.0
/*
 * What libsoup costs alone (events.md S2): posts every body of a file that events-sink wrote to URL, one after the other, over
 * one kept connection, and looks at nothing but the status.
 *
 *   events-soup URL BODIES
 */
#include <libsoup/soup.h>
#include <stdio.h>
#include <string.h>

static gboolean
post (SoupSession *session, GUri *uri, const char *body, gsize len)
{
  g_autoptr (SoupMessage) message = soup_message_new_from_uri ("POST", uri);
  g_autoptr (GBytes) bytes = g_bytes_new_static (body, len);
  g_autoptr (GBytes) reply = NULL;
  g_autoptr (GError) error = NULL;

  soup_message_set_flags (message, SOUP_MESSAGE_NO_REDIRECT | SOUP_MESSAGE_IDEMPOTENT);
  soup_message_set_request_body_from_bytes (message, "application/json", bytes);
  reply = soup_session_send_and_read (session, message, NULL, &error);
  if (reply != NULL && soup_message_get_status (message) == 200)
    return TRUE;
  fprintf (stderr, "events-soup: %s\n", error != NULL ? error->message : "not 200");
  return FALSE;
}

int
main (int argc, char **argv)
{
  g_autoptr (GUri) base = argc == 3 ? g_uri_parse (argv[1], SOUP_HTTP_URI_FLAGS, NULL) : NULL;
  g_autoptr (GUri) uri = base != NULL ? g_uri_parse_relative (base, "/events", SOUP_HTTP_URI_FLAGS, NULL) : NULL;
  g_autoptr (SoupSession) session = soup_session_new ();
  g_autofree char *bodies = NULL;
  gsize size = 0, n = 0;

  if (uri == NULL || !g_file_get_contents (argv[2], &bodies, &size, NULL))
    return 2;
  soup_session_remove_feature_by_type (session, SOUP_TYPE_CONTENT_DECODER);
  soup_session_remove_feature_by_type (session, SOUP_TYPE_AUTH_MANAGER);
  soup_session_remove_feature_by_type (session, SOUP_TYPE_CONTENT_SNIFFER);
  soup_session_set_proxy_resolver (session, NULL);
  for (gsize at = 0; at + sizeof (guint32) <= size; n++)
    {
      guint32 len;
      memcpy (&len, bodies + at, sizeof len);
      at += sizeof len;
      if (len > size - at || !post (session, uri, bodies + at, len))
        return 1;
      at += len;
    }
  printf ("%zu\n", n);
  return 0;
}
