/* SPDX-License-Identifier: Apache-2.0 */
#include "cli-replay.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CSV_NAME "trace_replay_ops.csv"
#define SUMMARY_NAME "trace_replay_summary.json"

static gboolean
fail (GError **error, const char *flag, const char *path, const char *what, int code)
{
  g_set_error (error, LMT_ERROR, LMT_ERROR_IO, "%s: %s: %s: %s", flag, path, what, g_strerror (code));
  if (error != NULL)
    lmt_error_set_place (*error, path, -1);
  return FALSE;
}

static void
remember (ReplayPlaces *places, const char *path)
{
  g_ptr_array_add (places->made, g_strdup (path));
}

/* As `mkdir -p`, but what is made is remembered. */
static gboolean
make_folder (ReplayPlaces *places, const char *flag, const char *path, GError **error)
{
  struct stat info;
  if (stat (path, &info) == 0)
    return S_ISDIR (info.st_mode) ? TRUE : fail (error, flag, path, "cannot make the folder", ENOTDIR);
  if (errno != ENOENT)
    return fail (error, flag, path, "cannot make the folder", errno);
  g_autofree char *parent = g_path_get_dirname (path);
  if (strcmp (parent, path) != 0 && !make_folder (places, flag, parent, error))
    return FALSE;
  if (mkdir (path, 0777) == 0)
    {
      remember (places, path);
      return TRUE;
    }
  /* `a/.` and `a/b/..` exist by now */
  if (errno == EEXIST && stat (path, &info) == 0 && S_ISDIR (info.st_mode))
    return TRUE;
  return fail (error, flag, path, "cannot make the folder", errno);
}

/* Only a try tells: permission bits say nothing to root, and nothing about a read-only mount. */
static gboolean
check_writable (const char *flag, const char *dir, GError **error)
{
  g_autofree char *probe = g_build_filename (dir, ".lmtrace-XXXXXX", NULL);
  int fd = g_mkstemp (probe);
  if (fd < 0)
    return fail (error, flag, dir, "cannot write there", errno);
  close (fd);
  unlink (probe);
  return TRUE;
}

static gboolean
check_target (const char *flag, const char *path, GError **error)
{
  struct stat info;
  if (stat (path, &info) == 0 && S_ISDIR (info.st_mode))
    return fail (error, flag, path, "cannot write", EISDIR);
  return TRUE;
}

/* A file that is written at the end: its folder is made, and taken if the file can be put there. */
static gboolean
check_file (ReplayPlaces *places, const char *flag, const char *path, GError **error)
{
  g_autofree char *parent = g_path_get_dirname (path);
  return check_target (flag, path, error) && make_folder (places, flag, parent, error) && check_writable (flag, parent, error);
}

/* A file that is written as the run goes. What stands in it stays until the run is sure to begin: only the descriptor is taken.
 */
static gboolean
open_place (ReplayPlaces *places, ReplayStream *stream, const char *flag, const char *path, GError **error)
{
  stream->flag = flag;
  stream->path = path;
  if (path == NULL)
    return TRUE;
  if (strcmp (path, "-") == 0)
    {
      stream->file = stdout;
      return TRUE;
    }
  g_autofree char *parent = g_path_get_dirname (path);
  if (!check_target (flag, path, error) || !make_folder (places, flag, parent, error))
    return FALSE;
  stream->fd = open (path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (stream->fd >= 0)
    remember (places, path);
  else if (errno == EEXIST)
    stream->fd = open (path, O_WRONLY | O_CLOEXEC);
  return stream->fd >= 0 ? TRUE : fail (error, flag, path, "cannot write", errno);
}

char *
replay_places_numbered (const char *path, guint index)
{
  const char *dot = strrchr (path, '.');
  const char *slash = strrchr (path, '/');
  if (index == 0 || strcmp (path, "-") == 0)
    return g_strdup (path);
  if (dot == NULL || (slash != NULL && dot < slash))
    return g_strdup_printf ("%s.%u", path, index + 1);
  return g_strdup_printf ("%.*s.%u%s", (int)(dot - path), path, index + 1, dot);
}

/* An output that is an input would destroy the trace: compared by device and inode, so that no other name hides it. */
static gboolean
check_inputs (GPtrArray *files, const char *flag, const char *path, GError **error)
{
  struct stat output;
  struct stat input;
  if (path == NULL || strcmp (path, "-") == 0 || stat (path, &output) != 0 || !S_ISREG (output.st_mode))
    return TRUE;
  for (guint i = 0; i < files->len; i++)
    {
      const ReplayFile *file = g_ptr_array_index (files, i);
      const int failed = strcmp (file->path, "-") == 0 ? fstat (STDIN_FILENO, &input) : stat (file->path, &input);
      if (failed != 0 || input.st_dev != output.st_dev || input.st_ino != output.st_ino)
        continue;
      g_set_error (error, LMT_ERROR, LMT_ERROR_OPTION, "%s: %s: expected a file of its own, found the trace %s", flag, path,
                   file->path);
      return FALSE;
    }
  return TRUE;
}

static gboolean
check_all_inputs (const LmtCommandContext *context, const ReplayConfig *config, GPtrArray *files, GError **error)
{
  g_autofree char *output
      = lmt_options_find (context->options, "output") != NULL ? lmt_options_get_text (context->options, "output") : NULL;
  return check_inputs (files, "--jsonl-out", config->jsonl_out, error)
         && check_inputs (files, "--stats-out", config->stats_out, error) && check_inputs (files, "--json", config->json, error)
         && check_inputs (files, "--output", output, error);
}

/* Two outputs in one file would be neither; /dev/null takes any number. By name: most of them aren't there yet. */
static gboolean
check_each_its_own (const LmtCommandContext *context, GError **error)
{
  static const char *const flags[] = { "trace-output", "state-out", "jsonl-out", "stats-out", "json", "output" };
  g_auto (GStrv) names = g_new0 (char *, G_N_ELEMENTS (flags) + 1);

  for (guint i = 0; i < G_N_ELEMENTS (flags); i++)
    {
      g_autofree char *text
          = lmt_options_find (context->options, flags[i]) != NULL ? lmt_options_get_text (context->options, flags[i]) : NULL;
      struct stat st;
      const gboolean is_file
          = text != NULL && text[0] != '\0' && strcmp (text, "-") != 0 && (stat (text, &st) != 0 || S_ISREG (st.st_mode));

      names[i] = is_file ? g_canonicalize_filename (text, NULL) : g_strdup ("");
      for (guint k = 0; is_file && k < i; k++)
        if (strcmp (names[k], names[i]) == 0)
          {
            g_autofree char *shown = g_filename_display_name (text);
            g_set_error (error, LMT_ERROR, LMT_ERROR_OPTION, "--%s: %s: expected a file of its own, found that of --%s", flags[i],
                         shown, flags[k]);
            return FALSE;
          }
    }
  return TRUE;
}

static gboolean
open_all (ReplayPlaces *places, const LmtCommandContext *context, const ReplayConfig *config, GError **error)
{
  places->dir = g_strdup (config->output_dir != NULL ? config->output_dir : ".");
  /* a dry run touches nothing nobody asked for */
  gboolean csv = !config->no_csv && !config->dry_run;
  gboolean in_dir = csv || (config->json != NULL && *config->json == '\0');
  if ((in_dir || !config->dry_run) && !make_folder (places, "--output-dir", places->dir, error))
    return FALSE;
  if (in_dir && !check_writable ("--output-dir", places->dir, error))
    return FALSE;
  if (csv)
    places->csv_path = g_build_filename (places->dir, CSV_NAME, NULL);
  if (config->json != NULL)
    places->summary_path = *config->json == '\0' ? g_build_filename (places->dir, SUMMARY_NAME, NULL) : g_strdup (config->json);
  if (places->csv_path != NULL && !check_target ("--output-dir", places->csv_path, error))
    return FALSE;
  if (places->summary_path != NULL && strcmp (places->summary_path, "-") != 0
      && !check_file (places, "--json", places->summary_path, error))
    return FALSE;
  if (!lmt_output_check (context->output, error))
    return FALSE;
  return open_place (places, &places->jsonl, "--jsonl-out", config->jsonl_out, error)
         && open_place (places, &places->stats, "--stats-out", config->stats_out, error);
}

ReplayPlaces *
replay_places_open (const LmtCommandContext *context, const ReplayConfig *config, GPtrArray *files, GError **error)
{
  if (!check_all_inputs (context, config, files, error) || !check_each_its_own (context, error))
    return NULL;
  ReplayPlaces *places = g_new0 (ReplayPlaces, 1);
  places->made = g_ptr_array_new_with_free_func (g_free);
  places->jsonl.fd = places->stats.fd = -1;
  if (open_all (places, context, config, error))
    return places;
  replay_places_undo (places);
  replay_places_free (places);
  return NULL;
}

static gboolean
begin_stream (ReplayStream *stream, GError **error)
{
  struct stat info;
  if (stream->fd < 0)
    return TRUE;
  if (fstat (stream->fd, &info) == 0 && S_ISREG (info.st_mode) && ftruncate (stream->fd, 0) != 0)
    return fail (error, stream->flag, stream->path, "cannot be emptied", errno);
  stream->file = lmt_output_open_stream (stream->fd, stream->path);
  if (stream->file == NULL)
    return fail (error, stream->flag, stream->path, "cannot write", errno);
  stream->fd = -1;
  return TRUE;
}

gboolean
replay_places_commit (ReplayPlaces *places, GError **error)
{
  return begin_stream (&places->jsonl, error) && begin_stream (&places->stats, error);
}

void
replay_places_undo (ReplayPlaces *places)
{
  for (guint i = places->made->len; i > 0; i--)
    {
      const char *path = g_ptr_array_index (places->made, i - 1);
      if (unlink (path) != 0)
        rmdir (path); /* not empty: somebody else put something there */
    }
  g_ptr_array_set_size (places->made, 0);
}

void
replay_stream_write (ReplayStream *stream, const char *data, gsize len)
{
  if (stream->code == 0 && fwrite (data, 1, len, stream->file) != len)
    stream->code = errno != 0 ? errno : EIO;
}

void
replay_stream_flush (ReplayStream *stream)
{
  if (stream->file != NULL && stream->code == 0 && fflush (stream->file) != 0)
    stream->code = errno != 0 ? errno : EIO;
}

static gboolean
close_stream (ReplayStream *stream, GError **error)
{
  FILE *file = stream->file;
  stream->file = NULL;
  if (stream->fd >= 0)
    close (stream->fd); /* never begun */
  stream->fd = -1;
  if (file == NULL)
    return TRUE;
  stream->file = file;
  replay_stream_flush (stream);
  stream->file = NULL;
  if (file != stdout && fclose (file) != 0 && stream->code == 0)
    stream->code = errno;
  /* a closed stdout ends quietly */
  if (stream->code == 0 || (file == stdout && stream->code == EPIPE))
    return TRUE;
  return fail (error, stream->flag, stream->path, "cannot write", stream->code);
}

gboolean
replay_places_close (ReplayPlaces *places, GError **error)
{
  gboolean good = close_stream (&places->jsonl, error);
  return close_stream (&places->stats, good ? error : NULL) && good;
}

void
replay_places_free (ReplayPlaces *places)
{
  if (places == NULL)
    return;
  replay_places_close (places, NULL);
  g_ptr_array_unref (places->made);
  g_free (places->dir);
  g_free (places->csv_path);
  g_free (places->summary_path);
  g_free (places);
}
