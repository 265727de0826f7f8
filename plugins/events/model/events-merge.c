// SPDX-License-Identifier: Apache-2.0
#include "events-merge.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <glib/gstdio.h>

#define MAX_FRAME (64u * 1024 * 1024)

/**
 * Input: one file. @record: lent by the reader, there while @has_record.
 * @spool: (nullable): path of the copy that is read in its place
 * @fault: (nullable): first thing in it that may not be passed over, as text
 */
typedef struct
{
  EventsMerge *merge;
  EventsMergeFile info;
  char *path;
  char *shown;
  char *spool;
  LmtReader *reader;
  LmtRecord record;
  gboolean has_record;
  gboolean any;
  double clamped;
  char *fault;
  guint64 fault_offset;
} Input;

/* WALL_SORT: a record with its bytes. */
typedef struct
{
  double t_wall;
  guint32 file;
  LmtRecord record;
  guint8 *bytes;
} Held;

struct _EventsMerge
{
  EventsMergeConfig config;
  GPtrArray *inputs; /* Input */
  guint *heap;       /* indices of inputs with a record, smallest first */
  guint n_heap;
  Input *lent;
  gboolean begun;
  gboolean second_pass;
  guint64 next_index;
  GArray *held; /* WALL_SORT: Held, in order */
};

static void
input_free (gpointer data)
{
  Input *input = data;
  lmt_reader_free (input->reader);
  if (input->spool != NULL)
    g_unlink (input->spool);
  g_free (input->spool);
  g_free (input->fault);
  g_free (input->shown);
  g_free (input->path);
  g_free (input);
}

static Input *
input_at (EventsMerge *merge, guint i)
{
  return g_ptr_array_index (merge->inputs, i);
}

static void G_GNUC_PRINTF (3, 4) warn (EventsMerge *merge, const char *kind, const char *format, ...)
{
  va_list args;
  if (merge->second_pass || merge->config.warnings == NULL)
    return;
  va_start (args, format);
  g_autofree char *text = g_strdup_vprintf (format, args);
  va_end (args);
  lmt_warnings_add (merge->config.warnings, kind, text);
}

/* Valid UTF-8 without control characters. */
static char *
show_path (const char *path)
{
  char *shown = g_filename_display_name (strcmp (path, "-") == 0 ? "(stdin)" : path);
  for (char *p = shown; *p != '\0'; p++)
    if ((guchar)*p < 0x20 || *p == 0x7f)
      *p = '?';
  return shown;
}

/* The reader names the file it reads: of a spooled one that is not what people know. */
static void
name_error (const Input *input, GError **error)
{
  if (error == NULL || *error == NULL)
    return;
  if (input->spool != NULL && g_str_has_prefix ((*error)->message, input->spool))
    {
      char *text = g_strconcat (input->shown, (*error)->message + strlen (input->spool), NULL);
      GError *named = g_error_new_literal ((*error)->domain, (*error)->code, text);
      lmt_error_set_place (named, input->path, lmt_error_get_offset (*error));
      g_free (text);
      g_error_free (*error);
      *error = named;
    }
  else
    lmt_error_set_place (*error, input->path, -1);
}

static gboolean G_GNUC_PRINTF (5, 6) refuse (const Input *input, int code, gint64 offset, GError **error, const char *format, ...)
{
  va_list args;
  va_start (args, format);
  g_autofree char *text = g_strdup_vprintf (format, args);
  va_end (args);
  g_set_error (error, LMT_ERROR, code, "%s: %s", input->shown, text);
  if (error != NULL)
    lmt_error_set_place (*error, input->path, offset);
  return FALSE;
}

/* -------- what can't be read twice -------- */

static gboolean
is_interrupted (const EventsMergeConfig *config)
{
  return config->interrupts != NULL && g_atomic_int_get (config->interrupts) > 0;
}

static gboolean
copy_bytes (EventsMerge *merge, const Input *input, int from, int to, GError **error)
{
  g_autofree guint8 *buffer = g_malloc (256 * 1024);
  for (;;)
    {
      ssize_t n = read (from, buffer, 256 * 1024);
      if (is_interrupted (&merge->config))
        return refuse (input, LMT_ERROR_INTERRUPTED, -1, error, "interrupted while it was read");
      if (n == 0)
        return TRUE;
      if (n < 0 && errno == EINTR)
        continue;
      if (n < 0)
        return refuse (input, LMT_ERROR_IO, -1, error, "cannot read: %s", g_strerror (errno));
      for (ssize_t done = 0; done < n;)
        {
          ssize_t k = write (to, buffer + done, (size_t)(n - done));
          if (k < 0 && errno == EINTR)
            continue;
          if (k < 0)
            return refuse (input, LMT_ERROR_IO, -1, error, "cannot write the copy in %s: %s", g_get_tmp_dir (),
                           g_strerror (errno));
          done += k;
        }
    }
}

static gboolean
spool (EventsMerge *merge, Input *input, GError **error)
{
  gboolean is_stdin = strcmp (input->path, "-") == 0;
  int from = is_stdin ? STDIN_FILENO : open (input->path, O_RDONLY | O_CLOEXEC);
  if (from < 0)
    return refuse (input, LMT_ERROR_IO, -1, error, "cannot open: %s", g_strerror (errno));
  g_autoptr (GError) local = NULL;
  int to = g_file_open_tmp ("lmtrace-XXXXXX", &input->spool, &local);
  gboolean ok = to >= 0;
  if (!ok)
    refuse (input, LMT_ERROR_IO, -1, error, "%s", local->message);
  ok = ok && copy_bytes (merge, input, from, to, error);
  if (to >= 0)
    close (to);
  if (!is_stdin)
    close (from);
  return ok;
}

/* -------- headers -------- */

/* R2: absent, null and the integer 1 pass; 1.0 and true pass with a word; all else is another schema. */
static gboolean
check_event_schema (EventsMerge *merge, const Input *input, const LmtHeader *header, GError **error)
{
  LmtSpan meta = lmt_header_get_level_meta (header);
  LmtCursor cursor;
  guint32 pairs = 0;
  if (meta.len == 0)
    return TRUE;
  lmt_cursor_init (&cursor, meta);
  if (!lmt_cursor_read_map (&cursor, &pairs))
    return TRUE;
  for (guint32 i = 0; i < pairs; i++)
    {
      LmtToken key, value;
      lmt_cursor_next (&cursor, &key);
      LmtCursor at = cursor;
      if (!lmt_cursor_skip (&cursor))
        return TRUE;
      if (key.type != LMT_TYPE_STR || !LMT_SPAN_IS (key.span, "cache_event_schema_version"))
        continue;
      lmt_cursor_next (&at, &value);
      if (value.type == LMT_TYPE_NIL || (value.type == LMT_TYPE_UINT && value.v.u == 1))
        continue;
      if ((value.type == LMT_TYPE_FLOAT && value.v.f == 1.0) || (value.type == LMT_TYPE_BOOL && value.v.b))
        {
          warn (merge, "schema",
                "%s: frame 0 at offset 0: cache_event_schema_version: expected the integer 1, found %s: taken as 1", input->shown,
                value.type == LMT_TYPE_BOOL ? "true" : "1.0");
          continue;
        }
      g_autofree char *found = value.type == LMT_TYPE_UINT   ? g_strdup_printf ("%" G_GUINT64_FORMAT, value.v.u)
                               : value.type == LMT_TYPE_INT  ? g_strdup_printf ("%" G_GINT64_FORMAT, value.v.i)
                               : value.type == LMT_TYPE_STR  ? g_strdup_printf ("a string of %zu bytes", value.span.len)
                               : value.type == LMT_TYPE_BOOL ? g_strdup ("false")
                                                             : g_strdup ("a value of another type");
      return refuse (input, LMT_ERROR_VERSION, 0, error, "frame 0 at offset 0: cache_event_schema_version: expected 1, found %s",
                     found);
    }
  return TRUE;
}

static gboolean
check_header (EventsMerge *merge, const Input *input, GError **error)
{
  const LmtHeader *header = lmt_reader_get_header (input->reader);
  const char *level = lmt_header_get_level (header);
  gint64 schema;
  if (strcmp (level, "events") != 0)
    return refuse (input, LMT_ERROR_UNSUPPORTED, 0, error,
                   "frame 0 at offset 0: level: expected \"events\", found \"%s\": use `lmtrace replay`", level);
  if (lmt_header_get_schema (header, &schema) && (schema < 1 || schema > LMT_SCHEMA_KNOWN_MAX))
    return refuse (input, LMT_ERROR_VERSION, 0, error,
                   "frame 0 at offset 0: trace_schema_version: expected 1 to %d, found %" G_GINT64_FORMAT, LMT_SCHEMA_KNOWN_MAX,
                   schema);
  return check_event_schema (merge, input, header, error);
}

/* -------- one file -------- */

/* B2, B7: a whole record that was written as it stands, not one that was damaged later. */
static gboolean
is_bad_record (const LmtFault *fault)
{
  return strcmp (fault->reason, "invalid-utf8") == 0
         || (strcmp (fault->detail, "args") == 0
             && (strcmp (fault->reason, "wrong-type") == 0 || strcmp (fault->reason, "bad-key") == 0));
}

static void
on_fault (const LmtFault *fault, gpointer data)
{
  Input *input = data;
  EventsMerge *merge = input->merge;
  gboolean glued = strcmp (fault->reason, "header-frame") == 0, bad = is_bad_record (fault);
  g_autofree char *text = NULL;
  if (strcmp (fault->reason, "truncated") == 0 || strcmp (fault->reason, "zero-fill") == 0
      || strcmp (fault->reason, "compressed stream ends early") == 0)
    return; /* the tail: told when the file is over */
  if (bad && merge->config.skip_bad)
    {
      input->info.bad++;
      text = lmt_fault_to_string (fault);
      warn (merge, "bad", "%s: %s: left out", input->shown, text);
      return;
    }
  *(glued ? &input->info.glued : &input->info.damaged) += 1;
  text = glued ? g_strdup_printf ("frame %" G_GUINT64_FORMAT " at offset %" G_GUINT64_FORMAT
                                  ": a second header: the file is glued of several",
                                  fault->number, fault->offset)
               : lmt_fault_to_string (fault);
  if (glued ? merge->config.allow_glued : merge->config.allow_damaged)
    warn (merge, glued ? "glued" : "damaged", "%s: %s", input->shown, text);
  else if (input->fault == NULL)
    {
      input->fault = g_strdup_printf ("%s (%s goes on all the same)", text,
                                      glued ? "--allow-glued"
                                      : bad ? "--skip-bad"
                                            : "--allow-damaged");
      input->fault_offset = fault->offset;
    }
}

static Input *
input_new (EventsMerge *merge, const char *path, GError **error)
{
  Input *input = g_new0 (Input, 1);
  struct stat st;
  gboolean is_stdin = strcmp (path, "-") == 0;
  input->merge = merge;
  input->path = g_strdup (path);
  input->shown = show_path (path);
  input->info.path = input->path;
  input->info.shown = input->shown;
  /* What can't be opened is named by the reader. */
  gboolean pipe = is_stdin || (stat (path, &st) == 0 && (S_ISFIFO (st.st_mode) || S_ISCHR (st.st_mode) || S_ISSOCK (st.st_mode)));
  if (!pipe || spool (merge, input, error))
    {
      input->reader = lmt_reader_open (input->spool != NULL ? input->spool : path, error);
      if (input->reader != NULL)
        {
          lmt_reader_set_max_frame (input->reader, merge->config.max_frame);
          lmt_reader_set_resync (input->reader, merge->config.allow_damaged);
          lmt_reader_set_fault_func (input->reader, on_fault, input);
        }
      if (input->reader != NULL && lmt_reader_read_header (input->reader, error))
        {
          input->info.size = lmt_reader_get_size (input->reader);
          return input;
        }
      name_error (input, error);
    }
  input_free (input);
  return NULL;
}

static void
note_tail (Input *input)
{
  const LmtReaderStats *stats = lmt_reader_get_stats (input->reader);
  EventsMergeFile *info = &input->info;
  info->tail = stats->tail;
  if (stats->tail == LMT_TAIL_CLEAN || stats->tail == LMT_TAIL_CORRUPT)
    return;
  info->tail_offset = stats->tail_offset;
  info->tail_bytes = info->size > stats->tail_offset && stats->tail != LMT_TAIL_STREAM_SHORT ? info->size - stats->tail_offset
                                                                                             : stats->tail_available;
  warn (input->merge, "tail", "%s: tail: torn at offset %" G_GUINT64_FORMAT " (%" G_GUINT64_FORMAT " bytes)", input->shown,
        info->tail_offset, info->tail_bytes);
}

/* A whole frame that is longer than what is taken is no torn tail (B6). The reader takes what its buffer holds anyway. */
static gboolean
check_frame_limit (Input *input, GError **error)
{
  const LmtReaderStats *stats = lmt_reader_get_stats (input->reader);
  guint64 limit = input->merge->config.max_frame, found = input->record.body.len, offset = input->record.offset;
  if (!input->has_record)
    {
      gboolean whole = (stats->tail == LMT_TAIL_SHORT_BODY || stats->tail == LMT_TAIL_CORRUPT)
                       && input->info.size >= stats->tail_offset + LMT_FRAME_PREFIX_BYTES + stats->tail_promised;
      found = whole ? stats->tail_promised : 0;
      offset = stats->tail_offset;
    }
  if (found <= limit)
    return TRUE;
  return refuse (input, LMT_ERROR_CORRUPT, (gint64)offset, error,
                 "frame at offset %" G_GUINT64_FORMAT ": expected at most %" G_GUINT64_FORMAT
                 " bytes (--max-frame), found %" G_GUINT64_FORMAT,
                 offset, limit, found);
}

/* The next record of a file. -1: @error. */
static int
input_step (Input *input, GError **error)
{
  EventsMergeFile *info = &input->info;
  LmtReadResult result = lmt_reader_next (input->reader, &input->record);
  input->has_record = result == LMT_READ_RECORD;
  if (input->fault != NULL)
    {
      refuse (input, LMT_ERROR_CORRUPT, (gint64)input->fault_offset, error, "%s", input->fault);
      return -1;
    }
  if (!check_frame_limit (input, error))
    return -1;
  if (!input->has_record)
    {
      if (!lmt_reader_finish (input->reader, error))
        {
          name_error (input, error);
          return -1;
        }
      note_tail (input);
      if (info->clamped > 0 && input->merge->config.mode == EVENTS_MERGE_CLAMP)
        warn (input->merge, "clock",
              "%s: the clock steps back at %" G_GUINT64_FORMAT " records, by %.*g s at most: the file's order is kept",
              input->shown, info->clamped, info->largest_step_back_s < 1e6 ? 9 : 3, info->largest_step_back_s);
      return 0;
    }
  double wall = input->record.t_wall;
  info->records++;
  if (!isfinite (wall))
    return 1;
  if (input->any && wall < input->clamped)
    {
      info->clamped++;
      info->largest_step_back_s = MAX (info->largest_step_back_s, input->clamped - wall);
    }
  else
    input->clamped = wall;
  input->any = TRUE;
  return 1;
}

/* -------- the heap -------- */

static gboolean
before (EventsMerge *merge, guint a, guint b)
{
  const Input *x = input_at (merge, a), *y = input_at (merge, b);
  return x->clamped < y->clamped || (x->clamped == y->clamped && a < b);
}

static void
swap_entries (EventsMerge *merge, guint i, guint k)
{
  guint was = merge->heap[i];
  merge->heap[i] = merge->heap[k];
  merge->heap[k] = was;
}

static void
sift_down (EventsMerge *merge, guint i)
{
  for (;;)
    {
      guint least = i;
      for (guint child = 2 * i + 1; child <= 2 * i + 2 && child < merge->n_heap; child++)
        if (before (merge, merge->heap[child], merge->heap[least]))
          least = child;
      if (least == i)
        return;
      swap_entries (merge, i, least);
      i = least;
    }
}

static void
heap_push (EventsMerge *merge, guint file)
{
  guint i = merge->n_heap++;
  merge->heap[i] = file;
  for (; i > 0 && before (merge, merge->heap[i], merge->heap[(i - 1) / 2]); i = (i - 1) / 2)
    swap_entries (merge, i, (i - 1) / 2);
}

static gboolean
begin_pass (EventsMerge *merge, GError **error)
{
  merge->begun = TRUE;
  merge->n_heap = 0;
  for (guint i = 0; i < merge->inputs->len; i++)
    {
      int got = input_step (input_at (merge, i), error);
      if (got < 0)
        return FALSE;
      if (got > 0)
        heap_push (merge, i);
    }
  return TRUE;
}

static int
next_clamped (EventsMerge *merge, EventsMergeItem *item, GError **error)
{
  if (!merge->begun && !begin_pass (merge, error))
    return -1;
  if (merge->lent != NULL)
    {
      int got = input_step (merge->lent, error);
      if (got < 0)
        return -1;
      if (got == 0)
        merge->heap[0] = merge->heap[--merge->n_heap];
      sift_down (merge, 0);
      merge->lent = NULL;
    }
  if (merge->n_heap == 0)
    return 0;
  Input *input = input_at (merge, merge->heap[0]);
  item->file = merge->heap[0];
  item->index = merge->next_index++;
  item->due_wall = input->clamped;
  item->record = input->record;
  merge->lent = input;
  return 1;
}

/* -------- the reference's order -------- */

static void
held_clear (gpointer data)
{
  g_free (((Held *)data)->bytes);
}

/* A copy of @span at *@to, which moves behind it. */
static LmtSpan
keep (LmtSpan span, guint8 **to)
{
  LmtSpan kept = { *to, span.len };
  if (span.len > 0)
    memcpy (*to, span.data, span.len);
  *to += span.len;
  return kept;
}

static int
compare_held (gconstpointer a, gconstpointer b)
{
  double x = ((const Held *)a)->t_wall, y = ((const Held *)b)->t_wall;
  return x < y ? -1 : x > y ? 1 : 0;
}

static gboolean
hold_all (EventsMerge *merge, GError **error)
{
  merge->held = g_array_new (FALSE, FALSE, sizeof (Held));
  g_array_set_clear_func (merge->held, held_clear);
  for (guint i = 0; i < merge->inputs->len; i++)
    {
      Input *input = input_at (merge, i);
      int got;
      while ((got = input_step (input, error)) > 0)
        {
          LmtRecord *record = &input->record;
          Held held = { record->t_wall, i, *record, g_malloc (record->qualname.len + record->args.len + 1) };
          guint8 *to = held.bytes;
          held.record.qualname = keep (record->qualname, &to);
          held.record.args = keep (record->args, &to);
          held.record.body = (LmtSpan){ NULL, 0 };
          g_array_append_val (merge->held, held);
        }
      if (got < 0)
        return FALSE;
    }
  g_array_sort (merge->held, compare_held); /* GLib's sort of arrays is stable since 2.32 */
  return TRUE;
}

static int
next_sorted (EventsMerge *merge, EventsMergeItem *item, GError **error)
{
  if (merge->held == NULL && !hold_all (merge, error))
    return -1;
  if (merge->next_index >= merge->held->len)
    return 0;
  const Held *held = &g_array_index (merge->held, Held, merge->next_index);
  item->file = held->file;
  item->index = merge->next_index++;
  item->due_wall = held->t_wall;
  item->record = held->record;
  return 1;
}

/* -------- doors -------- */

EventsMerge *
events_merge_new (const char *const *paths, const EventsMergeConfig *config, GError **error)
{
  g_autoptr (EventsMerge) merge = g_new0 (EventsMerge, 1);
  guint n_stdin = 0;
  merge->config = *config;
  if (merge->config.max_frame == 0)
    merge->config.max_frame = MAX_FRAME;
  merge->inputs = g_ptr_array_new_with_free_func (input_free);
  for (guint i = 0; paths[i] != NULL; i++)
    {
      if (strcmp (paths[i], "-") == 0 && ++n_stdin > 1)
        {
          g_set_error_literal (error, LMT_ERROR, LMT_ERROR_OPTION, "-: expected stdin once among the FILEs, found it twice");
          return NULL;
        }
      Input *input = input_new (merge, paths[i], error);
      if (input == NULL)
        return NULL;
      g_ptr_array_add (merge->inputs, input);
      if (!check_header (merge, input, error))
        return NULL;
    }
  merge->heap = g_new0 (guint, merge->inputs->len + 1);
  return g_steal_pointer (&merge);
}

void
events_merge_free (EventsMerge *merge)
{
  if (merge == NULL)
    return;
  if (merge->held != NULL)
    g_array_unref (merge->held);
  g_ptr_array_unref (merge->inputs);
  g_free (merge->heap);
  g_free (merge);
}

guint
events_merge_n_files (EventsMerge *merge)
{
  return merge->inputs->len;
}

const LmtHeader *
events_merge_header (EventsMerge *merge, guint file)
{
  return lmt_reader_get_header (input_at (merge, file)->reader);
}

const char *
events_merge_data_path (EventsMerge *merge, guint file)
{
  const Input *input = input_at (merge, file);
  return input->spool != NULL ? input->spool : input->path;
}

int
events_merge_next (EventsMerge *merge, EventsMergeItem *item, GError **error)
{
  return merge->config.mode == EVENTS_MERGE_WALL_SORT ? next_sorted (merge, item, error) : next_clamped (merge, item, error);
}

gboolean
events_merge_rewind (EventsMerge *merge, GError **error)
{
  merge->next_index = 0;
  merge->second_pass = TRUE;
  if (merge->config.mode == EVENTS_MERGE_WALL_SORT)
    return TRUE;
  merge->begun = FALSE;
  merge->lent = NULL;
  for (guint i = 0; i < merge->inputs->len; i++)
    {
      Input *input = input_at (merge, i);
      if (!lmt_reader_rewind (input->reader, error))
        {
          name_error (input, error);
          return FALSE;
        }
      EventsMergeFile clean = { .path = input->path, .shown = input->shown, .size = input->info.size };
      input->info = clean;
      input->has_record = FALSE;
      input->any = FALSE;
      input->clamped = 0;
    }
  return TRUE;
}

const EventsMergeFile *
events_merge_file (EventsMerge *merge, guint file)
{
  return &input_at (merge, file)->info;
}

void
events_merge_progress (EventsMerge *merge, guint64 *position, guint64 *size)
{
  *position = *size = 0;
  for (guint i = 0; i < merge->inputs->len; i++)
    {
      *position += lmt_reader_get_position (input_at (merge, i)->reader);
      *size += lmt_reader_get_size (input_at (merge, i)->reader);
    }
}
