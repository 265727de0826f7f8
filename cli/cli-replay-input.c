/* SPDX-License-Identifier: Apache-2.0 */
#include "cli-replay.h"

#include <string.h>
#include <sys/stat.h>

/* Counting first is for the `N` of lines and progress: above this it would only cost time. */
#define COUNT_MAX_BYTES (1024 * 1024 * 1024ull)
#define INTERRUPT_STRIDE 4096

void
replay_file_free (ReplayFile *file)
{
  if (file == NULL)
    return;
  lmt_reader_free (file->reader);
  g_free (file->path);
  g_free (file->shown);
  g_free (file);
}

void
replay_prepared_free (gpointer data)
{
  ReplayPrepared *prepared = data;
  if (prepared == NULL)
    return;
  lmt_reader_free (prepared->first);
  g_free (prepared->first_path);
  g_free (prepared->level_config);
  g_ptr_array_unref (prepared->spare);
  g_free (prepared);
}

/* Valid UTF-8 without control characters: a name must not move the cursor of who reads about it. */
static char *
show_path (const char *path)
{
  char *shown = g_filename_display_name (path);
  for (char *p = shown; *p != '\0'; p++)
    if ((guchar)*p < 0x20 || *p == 0x7f)
      *p = '?';
  return shown;
}

/* -------- the first reading of the line -------- */

/* The words no table of core's knows: FILEs, and flags of levels with their values. A bad value of a known flag is left to the
 * second reading, which names it. */
static char **
unknown_words (const char *const *words)
{
  g_autofree LmtOption *globals = cli_global_options_for (&cmd_replay_ops);
  g_autofree gpointer global_config = g_malloc0 (sizeof (CliGlobals));
  g_autofree gpointer config = g_malloc0 (sizeof (ReplayConfig));
  g_autofree gpointer select = g_malloc0 (sizeof (LmtSelectConfig));
  g_autoptr (LmtOptions) options = lmt_options_new ();
  char **operands = NULL;

  lmt_options_add_table (options, globals, global_config);
  lmt_options_add_table (options, replay_options, config);
  lmt_options_add_table (options, lmt_select_options, select);
  if (lmt_options_parse_argv (options, words, FALSE, &operands, NULL))
    return operands;
  g_strfreev (operands);
  return g_strdupv ((char **)words);
}

static gboolean
may_be_a_file (const char *word)
{
  struct stat info;
  if (strcmp (word, "-") == 0)
    return TRUE;
  return *word != '\0' && stat (word, &info) == 0 && !S_ISDIR (info.st_mode) && !S_ISBLK (info.st_mode)
         && !S_ISSOCK (info.st_mode);
}

/* With its header read. A wait for a pipe ends with an interrupt. */
static LmtReader *
open_reader (const char *path, GError **error)
{
  g_autoptr (LmtReader) reader = lmt_reader_open (path, error);
  if (reader == NULL)
    return NULL;
  if (!lmt_reader_is_seekable (reader))
    lmt_reader_set_interrupts (reader, &cli_signals_interrupts);
  if (lmt_reader_read_header (reader, error))
    return g_steal_pointer (&reader);
  if (g_atomic_int_get (&cli_signals_interrupts) > 0)
    {
      g_clear_error (error);
      g_set_error (error, LMT_ERROR, LMT_ERROR_INTERRUPTED, "%s: interrupted before the header was there", path);
    }
  return NULL;
}

/* Looks for the first word that is `-` or begins with a trace header. What a pipe gave stays in the reader. FALSE: `-` is no
 * trace. */
static gboolean
find_file (ReplayPrepared *prepared, char **words, GError **error)
{
  for (guint i = 0; words[i] != NULL; i++)
    {
      if (!may_be_a_file (words[i]))
        continue;
      gboolean is_stdin = strcmp (words[i], "-") == 0;
      g_autoptr (GError) local = NULL;
      g_autoptr (LmtReader) reader = open_reader (words[i], &local);
      if (reader == NULL)
        {
          /* stdin can't be read twice, and an interrupt means stop: say so now. The rest is said when the FILEs are opened. */
          if (is_stdin || g_error_matches (local, LMT_ERROR, LMT_ERROR_INTERRUPTED))
            {
              g_propagate_error (error, g_steal_pointer (&local));
              return FALSE;
            }
          continue;
        }
      prepared->first = g_steal_pointer (&reader);
      prepared->first_path = g_strdup (words[i]);
      return TRUE;
    }
  return TRUE;
}

static gboolean
add_level (ReplayPrepared *prepared, LmtRegistry *registry, LmtOptions *options, GError **error)
{
  const char *name = lmt_header_get_level (lmt_reader_get_header (prepared->first));
  const LmtLevelOps *level = lmt_registry_get_level (registry, name, error);
  g_autofree char *shown = show_path (prepared->first_path);
  if (level == NULL)
    {
      g_prefix_error (error, "%s: ", shown);
      if (error != NULL)
        lmt_error_set_place (*error, prepared->first_path, -1);
      return FALSE;
    }
  if (level->configure == NULL)
    {
      if (level->replay_command != NULL)
        g_set_error (error, LMT_ERROR, LMT_ERROR_UNSUPPORTED, "%s: level \"%s\" is replayed by `lmtrace %s`",
                     prepared->first_path, name, level->replay_command);
      else
        g_set_error (error, LMT_ERROR, LMT_ERROR_UNSUPPORTED, "%s: level \"%s\" has no replay", shown, name);
      return FALSE;
    }
  prepared->level = level;
  prepared->level_config = g_malloc0 (MAX (level->config_size, 8));
  if (level->options != NULL)
    lmt_options_add_table (options, level->options, prepared->level_config);
  return TRUE;
}

/* No FILE: every level's table is taken, so that a misspelt file or flag is named as what it is. Names taken already are left
 * out. */
static void
add_all_levels (ReplayPrepared *prepared, LmtRegistry *registry, LmtOptions *options)
{
  lmt_registry_load_all (registry);
  g_autofree const char **names = lmt_registry_list_levels (registry);
  for (guint i = 0; names[i] != NULL; i++)
    {
      const LmtLevelOps *level = lmt_registry_get_level (registry, names[i], NULL);
      if (level == NULL || level->configure == NULL || level->options == NULL)
        continue;
      g_autoptr (GArray) rows = g_array_new (TRUE, TRUE, sizeof (LmtOption));
      for (const LmtOption *row = level->options; row->type != LMT_OPTION_END_MARK; row++)
        if (lmt_options_find (options, row->name) == NULL)
          g_array_append_vals (rows, row, 1);
      gpointer config = g_malloc0 (MAX (level->config_size, 8));
      LmtOption *table = (LmtOption *)(gpointer)g_array_free (g_steal_pointer (&rows), FALSE);
      g_ptr_array_add (prepared->spare, config);
      g_ptr_array_add (prepared->spare, table);
      lmt_options_add_table (options, table, config);
    }
}

gboolean
replay_prepare (LmtRegistry *registry, LmtOptions *options, const char *const *words, gpointer *out, GError **error)
{
  ReplayPrepared *prepared = g_new0 (ReplayPrepared, 1);
  g_auto (GStrv) left = unknown_words (words);

  *out = prepared;
  prepared->options = options;
  prepared->spare = g_ptr_array_new_with_free_func (g_free);
  lmt_options_add_table (options, lmt_select_options, &prepared->select);
  if (!find_file (prepared, left, error))
    return FALSE;
  if (prepared->first != NULL)
    return add_level (prepared, registry, options, error);
  add_all_levels (prepared, registry, options);
  return TRUE;
}

/* -------- opening the FILEs -------- */

static gboolean
check_schema (ReplayFile *file, const ReplayConfig *config, GError **error)
{
  gint64 schema;
  if (!lmt_header_get_schema (lmt_reader_get_header (file->reader), &schema))
    return TRUE; /* written before there was a number; shapes decide */
  if ((schema >= 1 && schema <= LMT_SCHEMA_KNOWN_MAX) || config->allow_unknown_schema)
    return TRUE;
  g_set_error (error, LMT_ERROR, LMT_ERROR_VERSION,
               "%s: frame 0 at offset 0: trace_schema_version: expected 1 to %d, found %" G_GINT64_FORMAT
               " (--allow-unknown-schema replays it all the same)",
               file->shown, LMT_SCHEMA_KNOWN_MAX, schema);
  if (error != NULL)
    lmt_error_set_place (*error, file->path, 0);
  return FALSE;
}

static ReplayFile *
open_one (const char *path, const ReplayConfig *config, ReplayPrepared *prepared, GError **error)
{
  ReplayFile *file = g_new0 (ReplayFile, 1);
  file->path = g_strdup (path);
  file->shown = show_path (path);
  file->span_s = -1;
  if (prepared->first != NULL && strcmp (path, prepared->first_path) == 0)
    file->reader = g_steal_pointer (&prepared->first);
  else
    {
      file->reader = open_reader (path, error);
      if (file->reader == NULL)
        {
          replay_file_free (file);
          return NULL;
        }
    }
  if (!check_schema (file, config, error))
    {
      replay_file_free (file);
      return NULL;
    }
  lmt_reader_set_resync (file->reader, config->resync != 0);
  if (config->follow)
    {
      file->follow = TRUE;
      lmt_reader_set_follow (file->reader, TRUE, config->follow_idle_ns);
      lmt_reader_set_interrupts (file->reader, &cli_signals_interrupts);
    }
  return file;
}

static gboolean
check_levels (GPtrArray *files, GError **error)
{
  for (guint i = 1; i < files->len; i++)
    {
      ReplayFile *first = g_ptr_array_index (files, 0);
      ReplayFile *file = g_ptr_array_index (files, i);
      const char *expected = lmt_header_get_level (lmt_reader_get_header (first->reader));
      const char *found = lmt_header_get_level (lmt_reader_get_header (file->reader));
      if (strcmp (expected, found) == 0)
        continue;
      g_set_error (error, LMT_ERROR, LMT_ERROR_OPTION, "%s: level: expected \"%s\" as in %s, found \"%s\"", file->shown, expected,
                   first->shown, found);
      if (error != NULL)
        lmt_error_set_place (*error, file->path, -1);
      return FALSE;
    }
  return TRUE;
}

static gboolean
check_stdin_once (const char *const *operands, GError **error)
{
  guint n = 0;
  for (guint i = 0; operands[i] != NULL; i++)
    n += strcmp (operands[i], "-") == 0;
  if (n <= 1)
    return TRUE;
  g_set_error (error, LMT_ERROR, LMT_ERROR_OPTION, "-: expected stdin once among the FILEs, found it %u times", n);
  return FALSE;
}

GPtrArray *
replay_open_files (const LmtCommandContext *context, const ReplayConfig *config, ReplayPrepared *prepared, int *exit_code,
                   GError **error)
{
  g_autoptr (GPtrArray) files = g_ptr_array_new_with_free_func ((GDestroyNotify)replay_file_free);
  g_autoptr (GError) last = NULL;

  if (!check_stdin_once (context->operands, error))
    return NULL;
  for (guint i = 0; context->operands[i] != NULL; i++)
    {
      g_autoptr (GError) local = NULL;
      ReplayFile *file = open_one (context->operands[i], config, prepared, &local);
      if (file != NULL)
        {
          g_ptr_array_add (files, file);
          continue;
        }
      if (g_error_matches (local, LMT_ERROR, LMT_ERROR_INTERRUPTED))
        {
          g_propagate_error (error, g_steal_pointer (&local));
          return NULL;
        }
      /* The last one goes to the caller as long as it may be the only one. */
      if (last != NULL)
        lmt_log_failure (last->message);
      g_clear_error (&last);
      last = g_steal_pointer (&local);
      *exit_code = 2;
    }
  if (files->len == 0)
    {
      g_propagate_error (error, g_steal_pointer (&last));
      return NULL;
    }
  if (last != NULL)
    lmt_log_failure (last->message);
  if (!check_levels (files, error))
    return NULL;
  return g_steal_pointer (&files);
}

gboolean
replay_file_count (ReplayFile *file, const volatile gint *interrupts, GError **error)
{
  LmtRecord record;
  guint64 n = 0;

  if (!lmt_reader_is_seekable (file->reader) || file->follow || lmt_reader_get_size (file->reader) > COUNT_MAX_BYTES)
    return TRUE;
  while (lmt_reader_next (file->reader, &record) == LMT_READ_RECORD)
    if (++n % INTERRUPT_STRIDE == 0 && g_atomic_int_get (interrupts) > 0)
      break;
  file->n_records = n;
  file->span_s = lmt_reader_get_stats (file->reader)->duration_s;
  file->counted = g_atomic_int_get (interrupts) == 0;
  return lmt_reader_rewind (file->reader, error);
}
