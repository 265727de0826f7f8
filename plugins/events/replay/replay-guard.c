// SPDX-License-Identifier: Apache-2.0
/* What is asked before the first POST (R9, R10, R15). */
#include <string.h>

#include "replay.h"

#define LISTED_MAX 10

/* 0: go on. @error is set otherwise. */
static int G_GNUC_PRINTF (4, 5) stop (int code, GError **error, int error_code, const char *format, ...)
{
  va_list args;
  va_start (args, format);
  g_autofree char *text = g_strdup_vprintf (format, args);
  va_end (args);
  g_set_error_literal (error, LMT_ERROR, error_code, text);
  return code;
}

static void G_GNUC_PRINTF (3, 4) warn (LmtWarnings *warnings, const char *kind, const char *format, ...)
{
  va_list args;
  va_start (args, format);
  g_autofree char *text = g_strdup_vprintf (format, args);
  va_end (args);
  lmt_warnings_add (warnings, kind, text);
}

static int
fail (ReplayTarget *target, const char *what, const char *expected, const ReplayReply *reply, GError **error)
{
  g_autofree char *found = replay_reply_describe (reply);
  if (reply->cancelled)
    return stop (130, error, LMT_ERROR_INTERRUPTED, "coordinator at %s: %s: %s", replay_target_get_shown (target), what, found);
  return stop (1, error, LMT_ERROR_IO, "coordinator at %s: %s: expected %s, found %s", replay_target_get_shown (target), what,
               expected, found);
}

/* -------- who is there -------- */

static const char *
text_member (const LmtJson *object, const char *name)
{
  const LmtJson *value = lmt_json_get_type (object) == LMT_JSON_OBJECT ? lmt_json_get_member (object, name) : NULL;
  return value != NULL && lmt_json_get_type (value) == LMT_JSON_STRING ? lmt_json_get_string (value) : NULL;
}

static double
number_member (const LmtJson *object, const char *name)
{
  const LmtJson *value = lmt_json_get_member (object, name);
  LmtJsonType type = value != NULL ? lmt_json_get_type (value) : LMT_JSON_NULL;
  return type == LMT_JSON_INT || type == LMT_JSON_UINT || type == LMT_JSON_DOUBLE ? lmt_json_get_double (value) : 0;
}

/* `node-a (10.0.0.5:8000, registered 12 s ago)` */
static void
append_entry (GString *out, const LmtJson *entry, const char *id)
{
  const char *ip = text_member (entry, "ip");
  double since = number_member (entry, "registration_time");
  double age = (double)g_get_real_time () / 1e6 - since;
  g_autofree char *shown = replay_clean (id, strlen (id), 128);
  g_autofree char *address = replay_clean (ip != NULL ? ip : "?", ip != NULL ? strlen (ip) : 1, 128);
  g_string_append_printf (out, "%s%s (%s:%.0f", out->len > 0 ? ", " : "", shown, address, number_member (entry, "http_port"));
  if (since > 0 && age >= 0 && age < 1e9)
    g_string_append_printf (out, ", registered %.0f s ago", age);
  g_string_append_c (out, ')');
}

/* All names this run will use, as a coordinator keeps them: it trims what it registers. */
static GHashTable *
make_names (ReplayFeed *feed, const ReplayConfig *config)
{
  GHashTable *names = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  guint64 rounds = config->rename_per_loop ? MIN (config->loops, 1000) : 1;
  for (guint i = 0; i < replay_feed_get_n_instances (feed); i++)
    for (guint64 round = 1; round <= rounds; round++)
      {
        const char *name = replay_feed_get_instance (feed, i)->name;
        char *text = round == 1 ? g_strdup (name) : g_strdup_printf ("%s-loop%" G_GUINT64_FORMAT, name, round);
        g_hash_table_add (names, g_strstrip (text));
      }
  return names;
}

static int
look_at (ReplayTarget *target, ReplayFeed *feed, const ReplayConfig *config, const ReplayPosition *resume, LmtWarnings *warnings,
         const LmtJson *list, GError **error)
{
  g_autoptr (GHashTable) names = make_names (feed, config);
  g_autoptr (GString) ours = g_string_new (NULL);
  g_autoptr (GString) others = g_string_new (NULL);
  guint n_ours = 0, n_others = 0;
  for (guint i = 0; i < lmt_json_get_length (list); i++)
    {
      const LmtJson *entry = lmt_json_get_element (list, i);
      const char *id = text_member (entry, "instance_id");
      if (id == NULL || (resume != NULL && replay_position_is_registered (resume, id)))
        continue;
      gboolean is_ours = g_hash_table_contains (names, id);
      if ((is_ours ? n_ours++ : n_others++) < LISTED_MAX)
        append_entry (is_ours ? ours : others, entry, id);
    }
  if (n_ours > 0)
    return stop (
        2, error, LMT_ERROR_OPTION,
        "coordinator at %s: expected none of the trace's instances, found %u registered: %s; --rename-prefix P replays "
        "under other names, --force all the same, --reset empties an lmtrace coordinator first (a stream cut without stop "
        "stays registered for up to 40 s)",
        replay_target_get_shown (target), n_ours, ours->str);
  if (n_others > 0)
    warn (warnings, "fleet", "%u other instances are registered at %s (%s%s): evictions may reach real servers", n_others,
          replay_target_get_shown (target), others->str, n_others > LISTED_MAX ? ", …" : "");
  return 0;
}

static int
ask_instances (ReplayConn *conn, ReplayTarget *target, ReplayFeed *feed, const ReplayConfig *config, const ReplayPosition *resume,
               LmtWarnings *warnings, ReplayReply *reply, GError **error)
{
  replay_conn_call (conn, "GET", "/instances", NULL, 0, reply);
  if (reply->status == 404 || reply->status == 405)
    {
      warn (warnings, "fleet",
            "coordinator at %s: GET /instances: %u: whether the trace's instances are alive there is not known",
            replay_target_get_shown (target), reply->status);
      return 0;
    }
  if (!replay_reply_is_success (reply))
    return fail (target, "GET /instances", "the list of instances (--force doesn't ask)", reply, error);
  g_autoptr (LmtJson) json = lmt_json_parse (reply->body->str, (gssize)reply->body->len, NULL);
  const LmtJson *list
      = json != NULL && lmt_json_get_type (json) == LMT_JSON_OBJECT ? lmt_json_get_member (json, "instances") : NULL;
  if (list == NULL || lmt_json_get_type (list) != LMT_JSON_ARRAY)
    return fail (target, "GET /instances", "{\"instances\": [...]} (--force doesn't ask)", reply, error);
  return look_at (target, feed, config, resume, warnings, list, error);
}

/* 0.5.7 has PUT there, so a GET is the wrong method; 0.5.6 has nothing. */
static int
ask_version (ReplayConn *conn, ReplayTarget *target, ReplayGuard *guard, ReplayReply *reply, GError **error)
{
  replay_conn_call (conn, "GET", "/config/chunk-size", NULL, 0, reply);
  if (reply->status == 0)
    return fail (target, "GET /config/chunk-size", "an answer", reply, error);
  guard->has_compat = reply->status == 405 || reply->status == 404 || reply->status == 200;
  guard->compat = reply->status == 404 ? EVENTS_COMPAT_056 : EVENTS_COMPAT_057;
  return 0;
}

int
replay_guard_check (ReplayConn *conn, ReplayTarget *target, ReplayFeed *feed, const ReplayConfig *config,
                    const ReplayPosition *resume, LmtWarnings *warnings, ReplayGuard *guard, GError **error)
{
  ReplayReply reply;
  int code = 0;
  replay_reply_init (&reply);
  if (config->reset)
    {
      replay_conn_call (conn, "POST", "/lmtrace/reset", "{}", 2, &reply);
      if (!replay_reply_is_success (&reply))
        code = fail (target, "POST /lmtrace/reset", "a 2xx reply (only an lmtrace coordinator can be reset)", &reply, error);
    }
  if (code == 0 && !config->force)
    code = ask_instances (conn, target, feed, config, resume, warnings, &reply, error);
  if (code == 0 && !config->force && strcmp (config->version, "auto") == 0)
    code = ask_version (conn, target, guard, &reply, error);
  replay_reply_clear (&reply);
  return code;
}

/* -------- how far it got -------- */

static gboolean
read_stream (ReplayPosition *resume, const LmtJson *entry)
{
  const char *id = text_member (entry, "instance_id");
  const LmtJson *incarnation = id != NULL ? lmt_json_get_member (entry, "incarnation") : NULL;
  const LmtJson *seq = id != NULL ? lmt_json_get_member (entry, "last_seq") : NULL;
  const LmtJson *departed = id != NULL ? lmt_json_get_member (entry, "departed") : NULL;
  if (incarnation == NULL || lmt_json_get_type (incarnation) != LMT_JSON_INT)
    return FALSE;
  ReplayCursor *cursor = g_new0 (ReplayCursor, 1);
  cursor->incarnation = lmt_json_get_int (incarnation);
  cursor->known = seq != NULL && lmt_json_get_type (seq) == LMT_JSON_INT;
  cursor->seq = cursor->known ? lmt_json_get_int (seq) : 0;
  cursor->departed = departed != NULL && lmt_json_get_type (departed) == LMT_JSON_BOOL && lmt_json_get_bool (departed);
  g_hash_table_insert (resume->cursors, g_strdup (id), cursor);
  return TRUE;
}

int
replay_guard_streams (ReplayConn *conn, ReplayTarget *target, ReplayPosition *resume, LmtWarnings *warnings, GError **error)
{
  ReplayReply reply;
  int code = 0;
  replay_reply_init (&reply);
  replay_conn_call (conn, "GET", "/lmtrace/streams", NULL, 0, &reply);
  if (replay_reply_is_success (&reply))
    {
      g_autoptr (LmtJson) json = lmt_json_parse (reply.body->str, (gssize)reply.body->len, NULL);
      const LmtJson *list
          = json != NULL && lmt_json_get_type (json) == LMT_JSON_OBJECT ? lmt_json_get_member (json, "streams") : NULL;
      gboolean ok = list != NULL && lmt_json_get_type (list) == LMT_JSON_ARRAY;
      if (ok)
        {
          g_hash_table_remove_all (resume->cursors);
          resume->from_streams = TRUE;
        }
      for (guint i = 0; ok && i < lmt_json_get_length (list); i++)
        ok = read_stream (resume, lmt_json_get_element (list, i));
      if (!ok)
        code = fail (target, "GET /lmtrace/streams", "{\"streams\": [{instance_id, incarnation, last_seq, departed}]}", &reply,
                     error);
    }
  else if (reply.status == 0)
    code = fail (target, "GET /lmtrace/streams", "an answer", &reply, error);
  else
    warn (
        warnings, "resume",
        "--resume: the coordinator at %s can't say how far it got (GET /lmtrace/streams: %u): going on after the position; what "
        "it lost since then is not sent again",
        replay_target_get_shown (target), reply.status);
  replay_reply_clear (&reply);
  return code;
}
