// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <lmtrace/lmt-plugin.h>

G_BEGIN_DECLS

/**
 * SECTION: the HTTP client of replay-events (events.md R18), on libsoup: synchronous calls, one session and so one connection a
 * ReplayConn, each used by one thread. No redirect, no decoding of bodies, no authentication but a bearer token, a proxy only
 * from the environment.
 */

/**
 * ReplayTarget: where calls go, and the thread that ends those that take too long. Shared by connections; immutable but for
 * that.
 */
typedef struct _ReplayTarget ReplayTarget;

/**
 * ReplayTargetConfig: @url: http(s)://HOST[:PORT][/BASE] or unix:/PATH; trailing slashes don't count
 * @token_file, @ca_file: (nullable)
 * @interrupts: signals so far; from the second on, calls under way are cut short
 */
typedef struct
{
  const char *url;
  const char *token_file;
  const char *ca_file;
  gint64 connect_timeout_ns;
  gint64 timeout_ns;
  guint64 max_reply;
  const volatile gint *interrupts;
} ReplayTargetConfig;

/* LMT_ERROR_OPTION: what is wrong with which flag. Starts a thread. */
ReplayTarget *replay_target_new (const ReplayTargetConfig *config, GError **error);
/* After the last connection. */
void replay_target_free (ReplayTarget *target);
/* Fit to print. */
const char *replay_target_get_shown (const ReplayTarget *target);
/* Ends every call under way, now and later: the run was broken off. */
void replay_target_cancel (ReplayTarget *target);

typedef struct _ReplayConn ReplayConn;
/* On the thread that will use it. */
ReplayConn *replay_conn_new (ReplayTarget *target);
void replay_conn_free (ReplayConn *conn);
/* @alone: the one connection of a run: its thread waits for each answer, awake if they come quickly. Not said: asleep. */
void replay_conn_set_alone (ReplayConn *conn, gboolean alone);

/**
 * ReplayReply: one answer, reused from call to call.
 * @status: 0: none came
 * @reason: the server's word for it, cleaned; or, with status 0, what happened
 * @body: at most max_reply bytes, as sent
 * @too_large: it was longer
 * @sent: with status 0: the request may have been received
 * @retry_after_ns: of Retry-After; -1: none
 * @elapsed_ns: from the call to its end
 */
typedef struct
{
  guint status;
  char *reason;
  GString *body;
  gboolean too_large;
  gboolean sent;
  gboolean cancelled; /* by a signal or replay_target_cancel() */
  gint64 retry_after_ns;
  gint64 elapsed_ns;
} ReplayReply;

void replay_reply_init (ReplayReply *reply);
void replay_reply_clear (ReplayReply *reply);
/* Status 200 to 299 and whole. */
gboolean replay_reply_is_success (const ReplayReply *reply);
/* `500 Internal Server Error: TEXT`, `no reply: Connection refused`: server text cut at 2 KiB and cleaned (B8). (transfer full)
 */
char *replay_reply_describe (const ReplayReply *reply);

/**
 * replay_conn_call: one request and its whole answer. @path: behind the URL's base path, percent-encoded, begins with `/`.
 * @body: JSON, or NULL: none. It must live until the return. Threads: the connection's.
 */
void replay_conn_call (ReplayConn *conn, const char *method, const char *path, const char *body, gsize len, ReplayReply *reply);

/* Text of others, fit for a terminal and a log: valid UTF-8, controls as \xNN, at most @max bytes and `…`. (transfer full) */
char *replay_clean (const char *text, gsize len, gsize max);

G_END_DECLS
