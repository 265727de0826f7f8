// SPDX-License-Identifier: Apache-2.0
#include "cli-info.h"
#include "cli-progress.h"

#include <string.h>
#include <unistd.h>

enum
{
  CHECK_EVERY = 1024, /* records between looks at the interrupts */
  STREAM_BYTES = 64 * 1024,
};

static const LmtOption info_options[] = {
#define INFO_OPTION(kind, key, member, def, range, arg, help)                                                                    \
  LMT_OPTION_FULL (kind, key, InfoConfig, member, 0, def, range, arg, help, "Info")
  INFO_OPTION (BOOL, "stats", stats, NULL, NULL, NULL, "Add sections: time, objects, reuse, tenants, health"),
  INFO_OPTION (BOOL, "resync", resync, NULL, NULL, NULL, "Go on behind a damaged length, at the next frame that decodes"),
  INFO_OPTION (COUNT, "top", top, "0", "0..1000", "N", "Name the N keys asked for most often"),
  INFO_OPTION (DURATION, "window", window_ns, NULL, NULL, "DUR",
               "Window of the time series, in seconds (default: a 60th of the duration, at least 1 s)"),
  INFO_OPTION (BOOL, "header", header, NULL, NULL, NULL,
               "Print the header alone, all its keys in the file's order; read no further"),
  INFO_OPTION (
      OPT_STRING, "records", records, NULL, NULL, "N",
      "Print records, all, the first N or the range A..B, one line each: number, offset, t_mono, qualname, args as JSON"),
  INFO_OPTION (BOOL, "follow", follow, NULL, NULL, NULL, "Wait for more at the end of a growing file"),
  INFO_OPTION (DURATION, "follow-idle", follow_idle_ns, "10", NULL, "DUR",
               "End --follow when nothing came for so long, in seconds; 0: never"),
#undef INFO_OPTION
  LMT_OPTION_END,
};

static const char *const info_examples[] = {
  "lmtrace info run.lct",
  "lmtrace info --stats --top 10 run.lct.zst",
  "lmtrace info --records=20 --qualname '*reserve_write' run.lct",
  NULL,
};

/* The selection stands in a table of its own; `--records` there is the range that `info --records=A..B` means. */
typedef struct
{
  LmtOption *table;
  LmtSelectConfig select;
} InfoPrepared;

static gboolean
info_prepare (LmtRegistry *registry, LmtOptions *options, const char *const *words, gpointer *prepared, GError **error)
{
  InfoPrepared *own = g_new0 (InfoPrepared, 1);
  GArray *rows = g_array_new (TRUE, TRUE, sizeof (LmtOption));

  for (const LmtOption *row = lmt_select_options; row->name != NULL; row++)
    if (strcmp (row->name, "records") != 0)
      g_array_append_val (rows, *row);
  own->table = (LmtOption *)(gpointer)g_array_free (rows, FALSE);
  lmt_options_add_table (options, own->table, &own->select);
  *prepared = own;
  return TRUE;
}

static void
info_prepared_free (gpointer prepared)
{
  InfoPrepared *own = prepared;

  g_free (own->table);
  g_free (own);
}

/* -------- a run over one or more files -------- */

typedef struct
{
  const LmtCommandContext *context;
  const InfoConfig *config;
  LmtSelectConfig select;
  guint64 print_max; /* records to print; 0: none */
  gboolean printing;
  gboolean streaming; /* records go to stdout as they come */
  gboolean several;
  GString *text;
  GString *csv;
  LmtJsonWriter *json; /* inside `metrics`, or inside the list of files */
  gboolean json_list;
  guint n_shown;
  gboolean damaged;
  gboolean interrupted;
  gboolean broken; /* a file could not be read to its end */
} InfoRun;

/* What a file is read with. */
typedef struct
{
  InfoRun *run;
  LmtReader *reader;
  LmtSelect *select;
  const LmtLevelOps *level; /* (nullable) */
  gpointer info;
  gboolean wants_keys;
  gboolean key_passed;
  double span_s; /* -1: not known */
  CliProgress *progress;
  InfoStats *stats;
  InfoOps ops;
  guint64 records;
  guint64 left_out;
} InfoRead;

static void
warn (InfoRun *run, const char *kind, const char *shown, const char *text)
{
  g_autofree char *line = g_strdup_printf ("%s: %s", shown, text);

  lmt_warnings_add (run->context->warnings, kind, line);
}

static void
on_fault (const LmtFault *fault, gpointer data)
{
  InfoRead *read = data;
  const char *kind = "malformed";
  g_autofree char *text = NULL;

  read->run->damaged = TRUE;
  if (strcmp (fault->reason, "truncated") == 0 || strcmp (fault->reason, "corrupt") == 0
      || strcmp (fault->reason, "zero-fill") == 0)
    kind = fault->reason;
  else if (strcmp (fault->reason, "compressed stream ends early") == 0)
    kind = "truncated";
  else if (strcmp (fault->reason, "header-frame") == 0)
    kind = "second-header";
  text = lmt_fault_to_string (fault);
  warn (read->run, kind, lmt_reader_get_shown_name (read->reader), text);
}

static void
note_header (InfoRun *run, LmtReader *reader)
{
  const char *const *notes = lmt_header_get_notes (lmt_reader_get_header (reader));

  for (guint i = 0; notes[i] != NULL; i++)
    warn (run, "header", lmt_reader_get_shown_name (reader), notes[i]);
}

static void
flush_stream (InfoRun *run, gsize keep)
{
  if (!run->streaming || run->text->len <= keep)
    return;
  lmt_output_stdout (run->text->str, (gssize)run->text->len, NULL); /* a closed stdout is asked for by the caller */
  g_string_truncate (run->text, 0);
}

/* -------- selection -------- */

static void
pass_key (gpointer data, guint32 act, const LmtKeyFields *key, guint64 bytes)
{
  InfoRead *read = data;

  read->key_passed = read->key_passed || lmt_select_key (read->select, key);
}

static gboolean
is_selected (InfoRead *read, const LmtRecord *record)
{
  LmtInfoVisitor visitor = { sizeof visitor, 0, pass_key, read };

  if (!lmt_select_record (read->select, record))
    return FALSE;
  if (!read->wants_keys)
    return TRUE;
  if (read->level->info_select != NULL)
    return read->level->info_select (read->info, record, read->select);
  read->key_passed = FALSE;
  read->level->info_visit (read->info, record, &visitor);
  return read->key_passed;
}

/*
 * A percentage of the span needs the span first, and so does a window that is a part of it: the file is read twice. A pipe can't
 * be; there a percentage is refused, and windows are a second wide.
 */
static gboolean
find_span (InfoRead *read, double *span_s, GError **error)
{
  InfoRun *run = read->run;
  gboolean for_windows = run->config->stats && run->config->window_ns == 0;
  LmtRecord record;

  *span_s = -1.0;
  if (!lmt_select_wants_span (&run->select) && !for_windows)
    return TRUE;
  if (!lmt_reader_is_seekable (read->reader) || run->config->follow)
    return TRUE;
  lmt_reader_set_fault_func (read->reader, NULL, NULL);
  while (lmt_reader_next (read->reader, &record) == LMT_READ_RECORD)
    if (record.number % CHECK_EVERY == 0 && *run->context->interrupts != 0)
      break;
  *span_s = lmt_reader_get_stats (read->reader)->duration_s;
  if (!lmt_reader_rewind (read->reader, error))
    return FALSE;
  lmt_reader_set_fault_func (read->reader, on_fault, read);
  return TRUE;
}

static gboolean
make_select (InfoRead *read, GError **error)
{
  if (!find_span (read, &read->span_s, error))
    return FALSE;
  read->select = lmt_select_new (&read->run->select, lmt_reader_get_header (read->reader), read->span_s, error);
  if (read->select == NULL)
    return FALSE;
  read->wants_keys = lmt_select_wants_keys (read->select);
  if (read->wants_keys && (read->level == NULL || (read->level->info_select == NULL && read->level->info_visit == NULL)))
    {
      g_set_error (error, LMT_ERROR, LMT_ERROR_UNSUPPORTED, "%s: level \"%s\": its records can't be selected by what is in them",
                   lmt_reader_get_shown_name (read->reader), lmt_header_get_level (lmt_reader_get_header (read->reader)));
      if (error != NULL)
        lmt_error_set_place (*error, lmt_reader_get_name (read->reader), -1);
      return FALSE;
    }
  return TRUE;
}

/* -------- reading -------- */

/* Between records, now and then: how far it is, and whether to go on. */
static gboolean
stop_reading (InfoRead *read)
{
  InfoRun *run = read->run;

  if (cli_progress_is_due (read->progress))
    {
      CliProgressState state = { .done = lmt_reader_get_stats (read->reader)->records,
                                 .position = lmt_reader_get_position (read->reader),
                                 .size = lmt_reader_get_size (read->reader),
                                 .lag_ns = -1,
                                 .lag_p99_ns = -1,
                                 .eta_s = -1.0 };

      cli_progress_draw (read->progress, &state);
    }

  if (*run->context->interrupts != 0)
    run->interrupted = TRUE;
  return run->interrupted || (run->streaming && lmt_output_stdout_closed ());
}

static void
read_records (InfoRead *read)
{
  InfoRun *run = read->run;
  gboolean selecting = !lmt_select_is_empty (read->select);
  void (*see) (gpointer, const LmtRecord *) = read->info != NULL ? read->level->info_record : NULL;
  LmtRecord record;

  while (lmt_reader_next (read->reader, &record) == LMT_READ_RECORD)
    {
      if (record.number % CHECK_EVERY == 0 && stop_reading (read))
        break;
      if (selecting && !is_selected (read, &record))
        {
          read->left_out++;
          continue;
        }
      read->records++;
      if (run->printing)
        {
          if (run->json != NULL)
            info_json_record (run->json, &record);
          else
            info_text_record (run->text, &record);
          flush_stream (run, STREAM_BYTES);
          if (read->records == run->print_max)
            break;
          continue;
        }
      info_ops_count (&read->ops, record.qualname);
      if (see != NULL)
        see (read->info, &record);
      if (read->stats != NULL)
        info_stats_record (read->stats, &record);
    }
  if (*run->context->interrupts != 0)
    run->interrupted = TRUE;
}

/* What the level and --stats add: as text, and as the text of a JSON object. */
typedef struct
{
  GString *text;
  GString *object;
  LmtJsonWriter *json;
} Addition;

static void
addition_begin (Addition *addition)
{
  addition->text = g_string_new (NULL);
  addition->object = g_string_new (NULL);
  addition->json = lmt_json_writer_new (addition->object, LMT_JSON_STYLE_COMPACT);
  lmt_json_writer_begin_object (addition->json);
}

static void
addition_end (Addition *addition)
{
  lmt_json_writer_end_object (addition->json);
  g_clear_pointer (&addition->json, lmt_json_writer_free);
}

static void
addition_clear (Addition *addition)
{
  g_string_free (addition->text, TRUE);
  g_string_free (addition->object, TRUE);
}

static void
show_file (InfoRead *read)
{
  InfoRun *run = read->run;
  Addition level, stats;
  InfoFile file = { .path = lmt_reader_get_name (read->reader),
                    .shown = lmt_reader_get_shown_name (read->reader),
                    .header = lmt_reader_get_header (read->reader),
                    .stats = lmt_reader_get_stats (read->reader),
                    .reader = read->reader,
                    .ops = &read->ops,
                    .records = read->records,
                    .left_out = read->left_out,
                    .selected = !lmt_select_is_empty (read->select) };

  info_ops_sort (&read->ops);
  addition_begin (&level);
  if (read->info != NULL && read->level->info_finish != NULL)
    {
      LmtInfoOut out = { sizeof out, 0, level.text, level.json };

      read->level->info_finish (read->info, &out);
    }
  addition_end (&level);
  addition_begin (&stats);
  if (read->stats != NULL)
    info_stats_finish (read->stats, file.stats, stats.text, stats.json);
  addition_end (&stats);
  file.level_text = level.text->str;
  file.level_json = level.object->str;
  file.stats_text = stats.text->str;
  file.stats_json = stats.object->str;
  info_text_block (run->text, &file);
  info_csv_file (run->csv, &file);
  if (run->json != NULL)
    info_json_file (run->json, &file);
  addition_clear (&level);
  addition_clear (&stats);
}

static void
clear_read (InfoRead *read)
{
  info_stats_free (read->stats);
  if (read->info != NULL && read->level->info_free != NULL)
    read->level->info_free (read->info);
  g_clear_pointer (&read->select, lmt_select_free);
  info_ops_clear (&read->ops);
  lmt_reader_free (read->reader);
}

/* A level nobody offers is no obstacle: core's block tells what any trace tells. */
static void
find_level (InfoRead *read)
{
  LmtHeader *header = lmt_reader_get_header (read->reader);
  const char *name = lmt_header_get_level (header);

  read->level = lmt_registry_get_level (read->run->context->registry, name, NULL);
  if (read->level == NULL)
    {
      g_autofree char *text = g_strdup_printf ("level '%s' is not known", name);

      warn (read->run, "level", lmt_reader_get_shown_name (read->reader), text);
    }
  else if (read->level->info_new != NULL)
    {
      read->info = read->level->info_new (header);
      if (read->level->info_walk != NULL)
        lmt_reader_set_args_walk (read->reader, read->level->info_walk, read->info);
    }
}

static double
window_of (const InfoRead *read)
{
  if (read->run->config->window_ns > 0)
    return (double)read->run->config->window_ns / 1e9;
  return MAX (read->span_s / 60.0, 1.0);
}

static gboolean
read_file (InfoRead *read, GError **error)
{
  InfoRun *run = read->run;
  g_autofree char *label = NULL;
  gboolean ok;

  if (run->config->stats || run->config->top > 0)
    read->stats = info_stats_new (run->config, window_of (read), read->level, read->info);
  if (run->printing && run->json != NULL)
    {
      lmt_json_writer_path (run->json, "file", lmt_reader_get_name (read->reader));
      lmt_json_writer_key (run->json, "records");
      lmt_json_writer_begin_array (run->json);
    }
  else if (run->printing && run->several)
    g_string_append_printf (run->text, "Trace file: %s\n", lmt_reader_get_shown_name (read->reader));
  label = g_strdup_printf ("info %s", lmt_reader_get_shown_name (read->reader));
  read->progress = cli_progress_new (label, run->context->progress, run->context->quiet != 0, 0);
  read_records (read);
  g_clear_pointer (&read->progress, cli_progress_free);
  ok = lmt_reader_finish (read->reader, error);
  if (run->printing && run->json != NULL)
    lmt_json_writer_end_array (run->json);
  else if (!run->printing)
    show_file (read);
  return ok;
}

/* -------- files -------- */

static gboolean
open_file (InfoRead *read, const char *path, GError **error)
{
  const InfoConfig *config = read->run->config;

  read->reader = lmt_reader_open (path, error);
  if (read->reader == NULL)
    return FALSE;
  lmt_reader_set_fault_func (read->reader, on_fault, read);
  lmt_reader_set_resync (read->reader, config->resync != 0);
  lmt_reader_set_follow (read->reader, config->follow != 0, config->follow_idle_ns);
  lmt_reader_set_interrupts (read->reader, read->run->context->interrupts);
  if (!lmt_reader_read_header (read->reader, error))
    {
      if (*read->run->context->interrupts != 0)
        {
          g_clear_error (error);
          g_set_error (error, LMT_ERROR, LMT_ERROR_INTERRUPTED, "%s: interrupted before the header was there",
                       lmt_reader_get_shown_name (read->reader));
        }
      return FALSE;
    }
  note_header (read->run, read->reader);
  if (config->header)
    return TRUE;
  find_level (read);
  return make_select (read, error);
}

/* An empty line between blocks, an object of its own in the list of files. */
static void
begin_file (InfoRun *run)
{
  if (run->json != NULL && run->json_list)
    lmt_json_writer_begin_object (run->json);
  if (run->n_shown++ > 0)
    g_string_append_c (run->text, '\n');
}

static void
end_file (InfoRun *run)
{
  if (run->json != NULL && run->json_list)
    lmt_json_writer_end_object (run->json);
  flush_stream (run, 0);
}

/* Of several files each refusal is a line of its own, and the others are still handled. */
static int
refuse_file (InfoRun *run, const char *path, GError *failure, GError **error)
{
  if (!run->several)
    {
      g_propagate_error (error, failure);
      return 2;
    }
  lmt_log_failure (failure->message);
  if (run->json != NULL)
    {
      lmt_json_writer_begin_object (run->json);
      lmt_json_writer_path (run->json, "file", path);
      lmt_json_writer_key (run->json, "error");
      lmt_json_writer_string (run->json, failure->message);
      lmt_json_writer_end_object (run->json);
    }
  g_error_free (failure);
  return 2;
}

static int
info_file (InfoRun *run, const char *path, GError **error)
{
  InfoRead read = { .run = run };
  GError *failure = NULL;
  int code = 0;

  info_ops_init (&read.ops);
  if (!open_file (&read, path, &failure))
    code = refuse_file (run, path, failure, error);
  else
    {
      begin_file (run);
      if (run->config->header)
        {
          info_text_header (run->text, lmt_reader_get_shown_name (read.reader), lmt_reader_get_header (read.reader));
          if (run->json != NULL)
            info_json_header (run->json, lmt_reader_get_name (read.reader), lmt_reader_get_header (read.reader));
        }
      else if (!read_file (&read, &failure))
        {
          /* The block of what could be read stands; the line says why it isn't all. */
          lmt_log_failure (failure->message);
          g_error_free (failure);
          run->broken = TRUE;
          code = 2;
        }
      end_file (run);
    }
  clear_read (&read);
  return code;
}

/* -------- the command -------- */

/* `--records 20 FILE`: the number stands as a word of its own, so it is among the operands unless a file bears that name. */
static const char *
take_records_word (const InfoConfig *config, GPtrArray *paths)
{
  guint64 n;

  if (config->records == NULL || config->records[0] != '\0')
    return config->records;
  for (guint i = 0; i < paths->len && paths->len > 1; i++)
    if (lmt_parse_count (paths->pdata[i], &n, NULL) && access (paths->pdata[i], F_OK) != 0)
      {
        const char *word = paths->pdata[i];

        g_ptr_array_remove_index (paths, i);
        return word;
      }
  return config->records;
}

static gboolean
set_printing (InfoRun *run, const char *records, GError **error)
{
  LmtFormat format = lmt_output_get_format (run->context->output);

  if (records == NULL)
    return TRUE;
  run->printing = TRUE;
  run->print_max = G_MAXUINT64;
  if (strstr (records, "..") != NULL)
    run->select.records = (char *)records; /* borrowed: the selection has its own table, and no say over this text */
  else if (records[0] != '\0' && !lmt_parse_count (records, &run->print_max, error))
    {
      g_prefix_error (error, "--records: ");
      return FALSE;
    }
  if (run->print_max == 0)
    {
      g_set_error_literal (error, LMT_ERROR, LMT_ERROR_OPTION, "--records: expected at least 1 or a range, found 0");
      return FALSE;
    }
  if (format == LMT_FORMAT_CSV || (format == LMT_FORMAT_JSON && records[0] == '\0'))
    {
      g_set_error_literal (error, LMT_ERROR, LMT_ERROR_OPTION,
                           format == LMT_FORMAT_CSV ? "--records: expected --format text or json, found csv"
                                                    : "--records: expected a number or a range with --format json, found none");
      return FALSE;
    }
  run->streaming = format == LMT_FORMAT_TEXT && !lmt_options_is_set (run->context->options, "output") && run->context->quiet == 0;
  return TRUE;
}

static gboolean
check_config (const InfoConfig *config, GError **error)
{
  if (config->header && (config->records != NULL || config->stats || config->top > 0))
    g_set_error (error, LMT_ERROR, LMT_ERROR_OPTION, "--header: expected it alone, found %s too",
                 config->records != NULL ? "--records"
                 : config->stats         ? "--stats"
                                         : "--top");
  else if (config->records != NULL && (config->stats || config->top > 0))
    g_set_error (error, LMT_ERROR, LMT_ERROR_OPTION, "--records: expected it without %s", config->stats ? "--stats" : "--top");
  else
    return TRUE;
  return FALSE;
}

static int
show_all (InfoRun *run, GString *object, int code, GError **error)
{
  if (run->streaming || run->n_shown == 0)
    return code;
  if (!lmt_output_raw (run->context->output, "Trace Info", run->text->str, object->str, run->csv->str,
                       run->interrupted || run->broken, code, error))
    return lmt_output_stdout_closed () ? code : 1;
  return code;
}

static int
run_files (InfoRun *run, GPtrArray *paths, GError **error)
{
  g_autoptr (GString) object = g_string_new (NULL);
  guint n_stdin = 0;
  int code = 0;

  for (guint i = 0; i < paths->len; i++)
    n_stdin += strcmp (paths->pdata[i], "-") == 0 ? 1 : 0;
  if (n_stdin > 1)
    {
      g_set_error_literal (error, LMT_ERROR, LMT_ERROR_OPTION, "-: expected stdin once, found it twice");
      return 2;
    }
  if (!lmt_output_check_inputs ("--output", lmt_output_get_path (run->context->output), run->context->operands, error))
    return 2;
  if (lmt_output_get_format (run->context->output) == LMT_FORMAT_JSON)
    {
      run->json = lmt_json_writer_new (object, LMT_JSON_STYLE_COMPACT);
      lmt_json_writer_begin_object (run->json);
      run->json_list = run->several;
      if (run->json_list)
        {
          lmt_json_writer_key (run->json, "files");
          lmt_json_writer_begin_array (run->json);
        }
    }
  for (guint i = 0; i < paths->len && !run->interrupted; i++)
    {
      int own = info_file (run, paths->pdata[i], error);

      code = MAX (code, own);
    }
  if (run->json != NULL)
    {
      if (run->json_list)
        lmt_json_writer_end_array (run->json);
      lmt_json_writer_end_object (run->json);
      g_clear_pointer (&run->json, lmt_json_writer_free);
    }
  if (code == 0 && run->damaged && run->context->strict)
    code = 1;
  if (run->interrupted)
    code = 130;
  return show_all (run, object, code, error);
}

static int
info_run (const LmtCommandContext *context, GError **error)
{
  const InfoPrepared *prepared = lmt_command_context_get_prepared (context);
  const InfoConfig *config = context->config;
  g_autoptr (GPtrArray) paths = g_ptr_array_new ();
  InfoRun run = { .context = context, .config = config, .select = prepared->select };
  int code = 2;

  for (guint i = 0; context->operands[i] != NULL; i++)
    g_ptr_array_add (paths, (gpointer)context->operands[i]);
  run.text = g_string_new (NULL);
  run.csv = g_string_new ("file,qualname,count\r\n");
  if (check_config (config, error) && set_printing (&run, take_records_word (config, paths), error))
    {
      run.several = paths->len > 1;
      code = run_files (&run, paths, error);
    }
  g_string_free (run.text, TRUE);
  g_string_free (run.csv, TRUE);
  return code;
}

const LmtCommandOps cmd_info_ops = {
  .struct_size = sizeof (LmtCommandOps),
  .config_size = sizeof (InfoConfig),
  .name = "info",
  .summary = "Show what is in a trace file",
  .synopsis = "[OPTIONS] FILE…",
  .examples = info_examples,
  .options = info_options,
  .run = info_run,
  .prepare = info_prepare,
  .prepared_free = info_prepared_free,
  .min_operands = 1,
  .max_operands = G_MAXUINT32,
  .more_text
  = "FILE is a trace, packed with gzip or zstd or not, or - for stdin. The default text is the one of LMCache 0.5.6, byte for "
    "byte. With --format json the metrics of one FILE stand in `metrics`, those of several in its list `files`. A damaged "
    "frame is a line on stderr; the exit code stays 0 unless --strict is given. An unusable file is exit 2; the others are "
    "still shown.",
};
