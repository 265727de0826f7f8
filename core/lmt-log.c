/* SPDX-License-Identifier: Apache-2.0 */
#include "lmt-log.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "lmt-json.h"

enum
{
  WARNINGS_SHOWN = 10
};

static gint log_level = LMT_LOG_MESSAGE;
static gint log_color = LMT_COLOR_AUTO;
static gint log_json = FALSE;
/* pthread, not GMutex: the thread sanitizer sees these. One line at a time, with the hooks around it. */
static pthread_mutex_t log_mutex = PTHREAD_MUTEX_INITIALIZER;
static void (*log_before) (void);
static void (*log_after) (void);

gboolean
lmt_log_level_from_text (const char *text, LmtLogLevel *level)
{
  static const struct
  {
    const char *word;
    LmtLogLevel level;
  } words[] = {
    { "error", LMT_LOG_ERROR },
    { "warning", LMT_LOG_WARNING },
    { "message", LMT_LOG_MESSAGE },
    { "info", LMT_LOG_INFO },
    { "debug", LMT_LOG_DEBUG },
    /* Of LMCACHE_LOG_LEVEL, whatever its case. */
    { "critical", LMT_LOG_ERROR },
    { "warn", LMT_LOG_WARNING },
  };
  for (guint i = 0; text != NULL && i < G_N_ELEMENTS (words); i++)
    if (g_ascii_strcasecmp (text, words[i].word) == 0)
      {
        *level = words[i].level;
        return TRUE;
      }
  return FALSE;
}

void
lmt_log_set_level (LmtLogLevel level)
{
  g_atomic_int_set (&log_level, (gint)level);
}

LmtLogLevel
lmt_log_get_level (void)
{
  return (LmtLogLevel)g_atomic_int_get (&log_level);
}

void
lmt_log_set_color (LmtColor color)
{
  g_atomic_int_set (&log_color, (gint)color);
}

void
lmt_log_set_json (gboolean json)
{
  g_atomic_int_set (&log_json, json);
}

void
lmt_log_set_hooks (void (*before) (void), void (*after) (void))
{
  pthread_mutex_lock (&log_mutex);
  log_before = before;
  log_after = after;
  pthread_mutex_unlock (&log_mutex);
}

gboolean
lmt_log_use_color (int fd)
{
  const LmtColor color = (LmtColor)g_atomic_int_get (&log_color);
  if (color != LMT_COLOR_AUTO)
    return color == LMT_COLOR_ALWAYS;

  const char *const no_color = g_getenv ("NO_COLOR");
  const char *const term = g_getenv ("TERM");
  if (no_color != NULL && *no_color != '\0')
    return FALSE;
  return term != NULL && *term != '\0' && strcmp (term, "dumb") != 0 && isatty (fd);
}

/* Controls and bytes that are no UTF-8 as \xNN: a file's words can't drive the terminal, and a line stays one. */
static void
log_append_visible (GString *out, const char *text)
{
  for (const char *p = text; *p != '\0';)
    {
      const gunichar c = g_utf8_get_char_validated (p, -1);
      if (c == (gunichar)-1 || c == (gunichar)-2 || c < 0x20 || c == 0x7F)
        g_string_append_printf (out, "\\x%02x", (guchar)*p++);
      else if (c < 0xA0 && c >= 0x80)
        {
          g_string_append_printf (out, "\\x%02x\\x%02x", (guchar)p[0], (guchar)p[1]);
          p += 2;
        }
      else
        {
          const char *const next = g_utf8_next_char (p);
          g_string_append_len (out, p, next - p);
          p = next;
        }
    }
}

static void
log_append_word (GString *out, const char *word)
{
  const char *paint = NULL;
  if (strcmp (word, "error") == 0 || strcmp (word, "critical") == 0)
    paint = "\033[1;31m";
  else if (strcmp (word, "warning") == 0)
    paint = "\033[1;35m";
  if (paint != NULL && lmt_log_use_color (STDERR_FILENO))
    g_string_append_printf (out, "%s%s\033[0m", paint, word);
  else
    g_string_append (out, word);
}

static char *
log_time_text (const char *format)
{
  g_autoptr (GDateTime) now = g_date_time_new_now_local ();
  return g_date_time_format (now, format);
}

static void
log_write (const GString *line)
{
  const char *p = line->str;
  gsize left = line->len;

  pthread_mutex_lock (&log_mutex);
  if (log_before != NULL)
    log_before ();
  while (left > 0)
    {
      const gssize n = write (STDERR_FILENO, p, left);
      if (n < 0 && errno == EINTR)
        continue;
      if (n <= 0)
        break; /* nobody to tell */
      p += n;
      left -= (gsize)n;
    }
  if (log_after != NULL)
    log_after ();
  pthread_mutex_unlock (&log_mutex);
}

/* @word NULL: the one line of a failure, without a level. */
static void
log_emit (const char *word, const char *domain, const char *message, const GLogField *fields, gsize n_fields)
{
  g_autoptr (GString) line = g_string_new (NULL);

  if (g_atomic_int_get (&log_json))
    {
      g_autofree char *time = log_time_text ("%Y-%m-%dT%H:%M:%S.%f%:z");
      g_autoptr (LmtJsonWriter) json = lmt_json_writer_new (line, LMT_JSON_STYLE_SPACED);
      lmt_json_writer_begin_object (json);
      lmt_json_writer_key (json, "time");
      lmt_json_writer_string (json, time);
      lmt_json_writer_key (json, "level");
      lmt_json_writer_string (json, word == NULL ? "error" : word);
      lmt_json_writer_key (json, "domain");
      lmt_json_writer_string (json, domain);
      lmt_json_writer_key (json, "message");
      lmt_json_writer_string (json, message);
      for (gsize i = 0; i < n_fields; i++)
        {
          const GLogField *const field = &fields[i];
          if (field->length >= 0 || g_str_has_prefix (field->key, "CODE_") || g_str_has_prefix (field->key, "GLIB_")
              || g_str_equal (field->key, "MESSAGE") || g_str_equal (field->key, "PRIORITY"))
            continue;
          g_autofree char *key = g_ascii_strdown (field->key, -1);
          lmt_json_writer_key (json, key);
          lmt_json_writer_string (json, field->value);
        }
      lmt_json_writer_end_object (json);
    }
  else
    {
      g_string_append (line, "lmtrace: ");
      if (word != NULL)
        {
          log_append_word (line, word);
          g_string_append (line, ": ");
          if (lmt_log_get_level () == LMT_LOG_DEBUG)
            {
              g_autofree char *time = log_time_text ("%H:%M:%S.%f");
              g_string_append_printf (line, "[%s %s] ", time, domain);
            }
        }
      log_append_visible (line, message);
    }
  g_string_append_c (line, '\n');
  log_write (line);
}

static GLogWriterOutput
log_writer (GLogLevelFlags flags, const GLogField *fields, gsize n_fields, gpointer user_data)
{
  const char *message = "";
  const char *domain = "";
  g_autofree char *message_copy = NULL;
  LmtLogLevel level = LMT_LOG_DEBUG;
  const char *word = "debug";

  if ((flags & (G_LOG_LEVEL_ERROR | G_LOG_LEVEL_CRITICAL)) != 0)
    {
      level = LMT_LOG_ERROR;
      word = (flags & G_LOG_LEVEL_ERROR) != 0 ? "error" : "critical";
    }
  else if ((flags & G_LOG_LEVEL_WARNING) != 0)
    {
      level = LMT_LOG_WARNING;
      word = "warning";
    }
  else if ((flags & G_LOG_LEVEL_MESSAGE) != 0)
    {
      level = LMT_LOG_MESSAGE;
      word = "message";
    }
  else if ((flags & G_LOG_LEVEL_INFO) != 0)
    {
      level = LMT_LOG_INFO;
      word = "info";
    }
  if (level > lmt_log_get_level ())
    return G_LOG_WRITER_HANDLED;

  for (gsize i = 0; i < n_fields; i++)
    {
      if (g_str_equal (fields[i].key, "MESSAGE") && fields[i].value != NULL)
        {
          message = fields[i].value;
          if (fields[i].length >= 0)
            {
              message_copy = g_strndup (fields[i].value, (gsize)fields[i].length);
              message = message_copy;
            }
        }
      else if (g_str_equal (fields[i].key, "GLIB_DOMAIN") && fields[i].value != NULL)
        domain = fields[i].value;
    }
  log_emit (word, domain, message, fields, n_fields);
  return G_LOG_WRITER_HANDLED;
}

void
lmt_log_install (void)
{
  static gsize installed = 0;

  /* For what is logged by way of GLib's own writer: results alone go to stdout. */
  g_log_writer_default_set_use_stderr (TRUE);
  if (g_once_init_enter (&installed))
    {
      g_log_set_writer_func (log_writer, NULL, NULL);
      g_once_init_leave (&installed, 1);
    }
}

void
lmt_log_failure (const char *text)
{
  g_return_if_fail (text != NULL);
  log_emit (NULL, G_LOG_DOMAIN, text, NULL, 0);
}

typedef struct
{
  const char *kind;
  char *first_message;
  guint64 count;
} WarningKind;

struct _LmtWarnings
{
  pthread_mutex_t mutex; /* adapters warn from their own threads */
  GPtrArray *kinds;      /* few: in order of first appearance */
  gboolean flushed;
};

static void
warning_kind_free (gpointer data)
{
  WarningKind *const kind = data;
  g_free (kind->first_message);
  g_free (kind);
}

LmtWarnings *
lmt_warnings_new (void)
{
  LmtWarnings *const warnings = g_new0 (LmtWarnings, 1);
  pthread_mutex_init (&warnings->mutex, NULL);
  warnings->kinds = g_ptr_array_new_with_free_func (warning_kind_free);
  return warnings;
}

void
lmt_warnings_free (LmtWarnings *warnings)
{
  if (warnings == NULL)
    return;
  g_ptr_array_free (warnings->kinds, TRUE);
  pthread_mutex_destroy (&warnings->mutex);
  g_free (warnings);
}

static WarningKind *
warnings_find (const LmtWarnings *warnings, const char *kind)
{
  for (guint i = 0; i < warnings->kinds->len; i++)
    {
      WarningKind *const known = g_ptr_array_index (warnings->kinds, i);
      if (known->kind == kind || strcmp (known->kind, kind) == 0)
        return known;
    }
  return NULL;
}

/* Straight to the writer: GLib makes warnings fatal in test programs, and these are results of the input, not of the code. */
static void
warnings_show (const char *message)
{
  if (lmt_log_get_level () >= LMT_LOG_WARNING)
    log_emit ("warning", G_LOG_DOMAIN, message, NULL, 0);
}

void
lmt_warnings_add (LmtWarnings *warnings, const char *kind, const char *message)
{
  g_return_if_fail (kind != NULL && message != NULL);

  if (warnings == NULL)
    {
      warnings_show (message);
      return;
    }
  pthread_mutex_lock (&warnings->mutex);
  WarningKind *known = warnings_find (warnings, kind);
  if (known == NULL)
    {
      known = g_new0 (WarningKind, 1);
      known->kind = g_intern_string (kind);
      known->first_message = g_strdup (message);
      g_ptr_array_add (warnings->kinds, known);
    }
  const gboolean show = ++known->count <= WARNINGS_SHOWN;
  pthread_mutex_unlock (&warnings->mutex);
  if (show)
    warnings_show (message);
}

void
lmt_warnings_add_count (LmtWarnings *warnings, const char *kind, guint64 n)
{
  g_return_if_fail (kind != NULL);

  if (warnings == NULL)
    return;
  pthread_mutex_lock (&warnings->mutex);
  WarningKind *known = warnings_find (warnings, kind);
  if (known != NULL)
    known->count += n;
  pthread_mutex_unlock (&warnings->mutex);
}

guint64
lmt_warnings_count (const LmtWarnings *warnings, const char *kind)
{
  guint64 count = 0;

  if (warnings == NULL)
    return 0;
  pthread_mutex_t *const mutex = (pthread_mutex_t *)&warnings->mutex;
  pthread_mutex_lock (mutex);
  for (guint i = 0; i < warnings->kinds->len; i++)
    {
      const WarningKind *const known = g_ptr_array_index (warnings->kinds, i);
      if (kind == NULL || strcmp (known->kind, kind) == 0)
        count += known->count;
    }
  pthread_mutex_unlock (mutex);
  return count;
}

void
lmt_warnings_flush (LmtWarnings *warnings)
{
  if (warnings == NULL)
    return;
  pthread_mutex_lock (&warnings->mutex);
  const gboolean again = warnings->flushed;
  warnings->flushed = TRUE;
  pthread_mutex_unlock (&warnings->mutex);
  if (again)
    return;
  for (guint i = 0; i < warnings->kinds->len; i++)
    {
      const WarningKind *const known = g_ptr_array_index (warnings->kinds, i);
      if (known->count <= WARNINGS_SHOWN)
        continue;
      g_autofree char *line = g_strdup_printf ("%s: %" G_GUINT64_FORMAT " more", known->kind, known->count - WARNINGS_SHOWN);
      warnings_show (line);
    }
}

void
lmt_warnings_foreach (const LmtWarnings *warnings,
                      void (*func) (const char *kind, const char *first_message, guint64 count, gpointer data), gpointer data)
{
  if (warnings == NULL)
    return;
  for (guint i = 0; i < warnings->kinds->len; i++)
    {
      const WarningKind *const known = g_ptr_array_index (warnings->kinds, i);
      func (known->kind, known->first_message, known->count, data);
    }
}
