/* SPDX-License-Identifier: Apache-2.0 */
#include "lmt-output-private.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lmt-error.h"

struct _LmtOutput
{
  char *command;
  LmtFormat format;
  char *path; /* NULL: stdout only */
  gboolean quiet;
  gboolean stdout_taken;
  gboolean answered;     /* a report or a failure was begun on stdout: nothing more goes there */
  LmtWarnings *warnings; /* borrowed */
};

/* SIGPIPE is ignored; the first EPIPE is the reader's way to say "enough". */
static gint output_stdout_closed = FALSE;

LmtOutput *
lmt_output_new (const char *command, LmtFormat format, const char *path, gboolean quiet, LmtWarnings *warnings)
{
  g_return_val_if_fail (command != NULL, NULL);

  LmtOutput *const output = g_new0 (LmtOutput, 1);
  output->command = g_strdup (command);
  output->format = format;
  output->path = g_strdup (path);
  output->quiet = quiet;
  output->warnings = warnings;
  return output;
}

void
lmt_output_free (LmtOutput *output)
{
  if (output == NULL)
    return;
  g_free (output->command);
  g_free (output->path);
  g_free (output);
}

LmtFormat
lmt_output_get_format (const LmtOutput *output)
{
  return output->format;
}

const char *
lmt_output_get_path (const LmtOutput *output)
{
  return output->path;
}

gboolean
lmt_output_is_quiet (const LmtOutput *output)
{
  return output->quiet;
}

void
lmt_output_set_stdout_taken (LmtOutput *output)
{
  output->stdout_taken = TRUE;
}

static gboolean
output_fail (const char *path, const char *what, GError **error)
{
  const int code = errno;
  g_autofree char *name = g_filename_display_name (path);
  g_set_error (error, LMT_ERROR, LMT_ERROR_IO, "%s: %s: %s", name, what, g_strerror (code));
  if (error != NULL)
    lmt_error_set_place (*error, path, -1);
  return FALSE;
}

gboolean
lmt_output_check_path (const char *path, GError **error)
{
  struct stat st;

  g_return_val_if_fail (path != NULL, FALSE);
  if (strcmp (path, "-") == 0)
    return TRUE;
  if (stat (path, &st) == 0)
    {
      if (S_ISDIR (st.st_mode))
        {
          errno = EISDIR;
          return output_fail (path, "cannot write", error);
        }
      if (!S_ISREG (st.st_mode))
        return access (path, W_OK) == 0 || output_fail (path, "cannot write", error);
    }
  g_autofree char *folder = g_path_get_dirname (path);
  if (stat (folder, &st) != 0)
    return output_fail (path, "cannot write", error);
  if (!S_ISDIR (st.st_mode))
    {
      errno = ENOTDIR;
      return output_fail (path, "cannot write", error);
    }
  return access (folder, W_OK | X_OK) == 0 || output_fail (path, "cannot write", error);
}

gboolean
lmt_output_check_inputs (const char *flag, const char *path, const char *const *inputs, GError **error)
{
  struct stat output;
  struct stat input;

  if (path == NULL || inputs == NULL || strcmp (path, "-") == 0 || stat (path, &output) != 0 || !S_ISREG (output.st_mode))
    return TRUE;
  for (guint i = 0; inputs[i] != NULL; i++)
    {
      /* stdin may be that very file, by a redirection */
      const int failed = strcmp (inputs[i], "-") == 0 ? fstat (STDIN_FILENO, &input) : stat (inputs[i], &input);

      if (failed != 0 || input.st_dev != output.st_dev || input.st_ino != output.st_ino)
        continue;
      g_autofree char *shown = g_filename_display_name (path);
      g_autofree char *name = g_filename_display_name (inputs[i]);
      g_set_error (error, LMT_ERROR, LMT_ERROR_OPTION, "%s: %s: expected a file of its own, found the trace %s", flag, shown,
                   name);
      if (error != NULL)
        lmt_error_set_place (*error, path, -1);
      return FALSE;
    }
  return TRUE;
}

gboolean
lmt_output_check (LmtOutput *output, GError **error)
{
  g_return_val_if_fail (output != NULL, FALSE);
  return output->path == NULL || lmt_output_check_path (output->path, error);
}

static gboolean
output_write_all (int fd, const char *data, gsize len)
{
  while (len > 0)
    {
      const gssize n = write (fd, data, len);
      if (n < 0 && errno == EINTR)
        continue;
      if (n < 0)
        return FALSE;
      data += n;
      len -= (gsize)n;
    }
  return TRUE;
}

gboolean
lmt_output_stdout_closed (void)
{
  return g_atomic_int_get (&output_stdout_closed);
}

void
lmt_output_note_stdout_closed (void)
{
  g_atomic_int_set (&output_stdout_closed, TRUE);
}

gboolean
lmt_output_stdout (const char *data, gssize len, GError **error)
{
  const gsize size = len < 0 ? strlen (data) : (gsize)len;

  if (lmt_output_stdout_closed ())
    return TRUE;
  /* Whoever used stdio before wrote first. */
  if (fflush (stdout) == 0 && output_write_all (STDOUT_FILENO, data, size))
    return TRUE;
  if (errno == EPIPE)
    {
      lmt_output_note_stdout_closed ();
      return TRUE;
    }
  return output_fail ("stdout", "cannot write", error);
}

/* A new file beside @path, with the mode a plain open() would give. */
static int
output_open_temporary (const char *path, char **temporary)
{
  g_autofree char *folder = g_path_get_dirname (path);
  g_autofree char *base = g_path_get_basename (path);

  for (guint i = 0; i < 100; i++)
    {
      g_autofree char *name = g_strdup_printf (".%.200s.%08x.tmp", base, g_random_int ());
      g_autofree char *candidate = g_build_filename (folder, name, NULL);
      const int fd = open (candidate, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
      if (fd >= 0)
        *temporary = g_steal_pointer (&candidate);
      if (fd >= 0 || errno != EEXIST)
        return fd;
    }
  return -1;
}

/* Devices and pipes can't be renamed over: /dev/stdout, a FIFO. */
static gboolean
output_write_special (const char *path, const char *data, gsize len, GError **error)
{
  const int fd = open (path, O_WRONLY | O_CLOEXEC);
  if (fd < 0)
    return output_fail (path, "cannot write", error);
  const gboolean good = output_write_all (fd, data, len);
  const int code = errno;
  if (close (fd) == 0 && good)
    return TRUE;
  if (!good)
    errno = code;
  return output_fail (path, "cannot write", error);
}

/* Closes @fd in any case. */
static gboolean
output_write_and_close (int fd, const char *path, const char *data, gsize size)
{
  FILE *stream = lmt_output_is_packed (path) ? lmt_output_open_stream (fd, path) : NULL;
  gboolean good;
  int code;

  if (stream != NULL)
    {
      good = fwrite (data, 1, size, stream) == size;
      code = errno;
      if (fclose (stream) != 0 && good)
        return FALSE;
      errno = code;
      return good;
    }
  good = !lmt_output_is_packed (path) && output_write_all (fd, data, size);
  code = errno;
  if (close (fd) != 0 && good)
    return FALSE;
  errno = code;
  return good;
}

gboolean
lmt_output_write_file (const char *path, const char *data, gssize len, GError **error)
{
  g_return_val_if_fail (path != NULL && data != NULL, FALSE);

  const gsize size = len < 0 ? strlen (data) : (gsize)len;
  struct stat st;
  if (strcmp (path, "-") == 0)
    return lmt_output_stdout (data, len, error);
  if (!lmt_output_check_path (path, error))
    return FALSE;
  const gboolean exists = stat (path, &st) == 0;
  if (exists && !S_ISREG (st.st_mode))
    return output_write_special (path, data, size, error);

  /* A link stays one; what it leads to is replaced. */
  char *const resolved = exists ? realpath (path, NULL) : NULL;
  const char *const target = resolved == NULL ? path : resolved;
  g_autofree char *temporary = NULL;
  gboolean good = FALSE;
  const int fd = output_open_temporary (target, &temporary);
  if (fd >= 0)
    {
      good = output_write_and_close (fd, path, data, size);
      if (good && rename (temporary, target) != 0)
        good = FALSE;
    }
  if (!good)
    {
      const int code = errno;
      if (temporary != NULL)
        unlink (temporary);
      errno = code;
      output_fail (path, "cannot write", error);
    }
  free (resolved);
  return good;
}

static void
output_write_warning (const char *kind, const char *first_message, guint64 count, gpointer data)
{
  LmtJsonWriter *const json = data;
  lmt_json_writer_begin_object (json);
  lmt_json_writer_key (json, "code");
  lmt_json_writer_string (json, kind);
  lmt_json_writer_key (json, "message");
  lmt_json_writer_string (json, first_message);
  lmt_json_writer_key (json, "count");
  lmt_json_writer_uint (json, count);
  lmt_json_writer_end_object (json);
}

static void
output_begin_envelope (const LmtOutput *output, LmtJsonWriter *json)
{
  g_autofree char *schema = g_strdup_printf ("lmtrace/%s/1", output->command);
  lmt_json_writer_begin_object (json);
  lmt_json_writer_key (json, "schema");
  lmt_json_writer_string (json, schema);
}

static void
output_end_envelope (const LmtOutput *output, LmtJsonWriter *json, gboolean partial, int exit_code)
{
  lmt_json_writer_key (json, "warnings");
  lmt_json_writer_begin_array (json);
  lmt_warnings_foreach (output->warnings, output_write_warning, json);
  lmt_json_writer_end_array (json);
  lmt_json_writer_key (json, "partial");
  lmt_json_writer_bool (json, partial);
  lmt_json_writer_key (json, "exit");
  lmt_json_writer_int (json, exit_code);
  lmt_json_writer_end_object (json);
}

/* @report or @metrics_json. (transfer full) */
static char *
output_envelope (const LmtOutput *output, const LmtReport *report, const char *title, const char *metrics_json, gboolean partial,
                 int exit_code, GError **error)
{
  GString *const out = g_string_new (NULL);
  LmtJsonWriter *const json = lmt_json_writer_new (out, LMT_JSON_STYLE_INDENT);
  g_autoptr (LmtJson) metrics = NULL;

  output_begin_envelope (output, json);
  lmt_json_writer_key (json, "title");
  lmt_json_writer_string (json, report != NULL ? lmt_report_get_title (report) : title);
  lmt_json_writer_key (json, "metrics");
  if (report != NULL)
    lmt_report_write_metrics (report, json);
  else
    {
      metrics = lmt_json_parse (metrics_json, -1, error);
      if (metrics == NULL)
        {
          lmt_json_writer_free (json);
          g_string_free (out, TRUE);
          return NULL;
        }
      lmt_json_writer_value (json, metrics);
    }
  output_end_envelope (output, json, partial, exit_code);
  lmt_json_writer_free (json);
  return g_string_free (out, FALSE);
}

/* By whatever name: written once, and nothing is renamed over what stdout is. */
static gboolean
output_path_is_stdout (const LmtOutput *output)
{
  struct stat path;
  struct stat out;

  if (output->path == NULL || strcmp (output->path, "-") == 0)
    return output->path != NULL;
  return stat (output->path, &path) == 0 && fstat (STDOUT_FILENO, &out) == 0 && path.st_dev == out.st_dev
         && path.st_ino == out.st_ino;
}

/* Or to stderr, if a stream took stdout. */
static gboolean
output_answer (LmtOutput *output, const char *data, GError **error)
{
  output->answered = TRUE;
  if (!output->stdout_taken)
    return lmt_output_stdout (data, -1, error);
  return output_write_all (STDERR_FILENO, data, strlen (data)) || output_fail ("stderr", "cannot write", error);
}

/* To stdout unless -q, and to --output. A reader of JSON gets one document: the report if it is in PATH, or else the failure. */
static gboolean
output_deliver (LmtOutput *output, const char *data, GError **error)
{
  const gboolean path_is_stdout = output_path_is_stdout (output);
  const gboolean shows = !output->quiet || path_is_stdout;
  const gboolean writes = output->path != NULL && !path_is_stdout;
  const gboolean writes_first = output->format == LMT_FORMAT_JSON;

  if (writes && writes_first && !lmt_output_write_file (output->path, data, -1, error))
    return FALSE;
  if (shows && !output_answer (output, data, error))
    return FALSE;
  return !writes || writes_first || lmt_output_write_file (output->path, data, -1, error);
}

static gboolean
output_any (LmtOutput *output, const LmtReport *report, const char *title, const char *text, const char *metrics_json,
            const char *csv, gboolean partial, int exit_code, GError **error)
{
  g_autofree char *made = NULL;

  switch (output->format)
    {
    case LMT_FORMAT_JSON:
      made = output_envelope (output, report, title, metrics_json, partial, exit_code, error);
      if (made == NULL)
        return FALSE;
      return output_deliver (output, made, error);
    case LMT_FORMAT_CSV:
      if (csv != NULL)
        return output_deliver (output, csv, error);
      if (report == NULL)
        {
          g_set_error (error, LMT_ERROR, LMT_ERROR_UNSUPPORTED, "--format csv: expected text or json, %s has no CSV form",
                       output->command);
          return FALSE;
        }
      made = lmt_report_to_csv (report);
      return output_deliver (output, made, error);
    case LMT_FORMAT_TEXT:
    default:
      if (report != NULL)
        {
          made = lmt_report_to_text (report);
          return output_deliver (output, made, error);
        }
      return output_deliver (output, text, error);
    }
}

gboolean
lmt_output_report (LmtOutput *output, const LmtReport *report, const char *csv, gboolean partial, int exit_code, GError **error)
{
  g_return_val_if_fail (output != NULL && report != NULL, FALSE);
  return output_any (output, report, NULL, NULL, NULL, csv, partial, exit_code, error);
}

gboolean
lmt_output_raw (LmtOutput *output, const char *title, const char *text, const char *metrics_json, const char *csv,
                gboolean partial, int exit_code, GError **error)
{
  g_return_val_if_fail (output != NULL && text != NULL && metrics_json != NULL, FALSE);
  return output_any (output, NULL, title, text, metrics_json, csv, partial, exit_code, error);
}

static const char *
output_error_word (const GError *error)
{
  static const char *const words[] = {
    "failed",       "io",           "truncated",   "corrupt", "version",     "no-level",
    "no-codec",     "no-adapter",   "no-command",  "option",  "plugin-open", "plugin-abi",
    "plugin-table", "plugin-clash", "plugin-load", "json",    "unsupported", "interrupted",
  };
  if (error->domain == LMT_L2_ERROR)
    return "l2";
  if (error->domain != LMT_ERROR || error->code < 0 || error->code >= (int)G_N_ELEMENTS (words))
    return words[0];
  return words[error->code];
}

void
lmt_output_failure (LmtOutput *output, const GError *error, int exit_code)
{
  g_return_if_fail (output != NULL && error != NULL);

  if (output->format != LMT_FORMAT_JSON || output->quiet || output->answered)
    return;
  const char *const file = lmt_error_get_file (error);
  const gint64 offset = lmt_error_get_offset (error);
  GString *const out = g_string_new (NULL);
  LmtJsonWriter *const json = lmt_json_writer_new (out, LMT_JSON_STYLE_INDENT);
  output_begin_envelope (output, json);
  lmt_json_writer_key (json, "error");
  lmt_json_writer_begin_object (json);
  lmt_json_writer_key (json, "code");
  lmt_json_writer_string (json, output_error_word (error));
  lmt_json_writer_key (json, "message");
  lmt_json_writer_string (json, error->message);
  lmt_json_writer_path (json, "file", file);
  lmt_json_writer_key (json, "offset");
  if (offset < 0)
    lmt_json_writer_null (json);
  else
    lmt_json_writer_int (json, offset);
  lmt_json_writer_end_object (json);
  output_end_envelope (output, json, exit_code == 130, exit_code); /* interrupted */
  lmt_json_writer_free (json);
  output_answer (output, out->str, NULL);
  g_string_free (out, TRUE);
}
