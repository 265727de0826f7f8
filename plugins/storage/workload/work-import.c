// SPDX-License-Identifier: Apache-2.0
/* Requests out of public request traces. One line is in memory at a time, beside the requests under way. */
#include "work-import.h"

#include <string.h>

#include <lmtrace/lmt-source.h>

enum
{
  LINE_MAX_BYTES = 16 * 1024 * 1024,
  READ_BYTES = 64 * 1024,
};

static const WorkFormat formats[] = {
  { "mooncake", 512, 1000000, WORK_ROW_IDS },
  { "qwen-bailian", 16, 1000000000, WORK_ROW_CHATS },
  { "lookup-hashes", 0, 1000000000, WORK_ROW_HASHES },
};

const WorkFormat *
work_format_find (const char *name)
{
  for (guint i = 0; i < G_N_ELEMENTS (formats); i++)
    if (g_str_equal (formats[i].name, name))
      return &formats[i];
  return NULL;
}

const char *
work_format_names (void)
{
  return "mooncake, qwen-bailian, lookup-hashes";
}

typedef struct
{
  WorkSource source;
  const WorkFormat *format;
  LmtWarnings *warnings; /* (nullable) */
  char *shown;
  LmtSource *bytes;
  GByteArray *line;
  guint8 *buffer;
  gsize at;
  gsize len;
  gboolean end;
  char *error;
  guint64 chunk_tokens;
  guint32 most_chunks;
  guint64 line_number;
  /* the row that comes next */
  gboolean ready;
  WorkRequest next;
  gboolean with_first;
  double first_time;
  gint64 last_ns;
  GByteArray *chunks; /* hashes of that row */
  GByteArray *sorted; /* the same, for finding repeats */
  GHashTable *hashes; /* of requests under way */
  WorkImportFigures figures;
} Import;

/* ---------------- lines ---------------- */

static gboolean
fill (Import *import)
{
  gssize n;

  if (import->at < import->len)
    return TRUE;
  if (import->end)
    return FALSE;
  n = lmt_source_read (import->bytes, import->buffer, READ_BYTES);
  import->at = 0;
  import->len = n > 0 ? (gsize)n : 0;
  if (n > 0)
    return TRUE;
  import->end = TRUE;
  if (n < 0)
    import->error = g_strdup_printf ("%s: %s", import->shown, lmt_source_get_error (import->bytes));
  else if (lmt_source_ends_early (import->bytes))
    import->error = g_strdup_printf ("%s: compressed stream ends early", import->shown);
  return FALSE;
}

/* Without its end of line; a line that is too long is read to its end and kept up to the limit. FALSE: no more. */
static gboolean
next_line (Import *import)
{
  gboolean any = FALSE;

  g_byte_array_set_size (import->line, 0);
  while (fill (import))
    {
      const guint8 *start = import->buffer + import->at;
      const guint8 *newline = memchr (start, '\n', import->len - import->at);
      gsize n = newline != NULL ? (gsize)(newline - start) : import->len - import->at;

      any = TRUE;
      if (import->line->len <= LINE_MAX_BYTES)
        g_byte_array_append (import->line, start, (guint)n);
      import->at += n + (newline != NULL);
      if (newline != NULL)
        break;
    }
  if (any)
    import->line_number++;
  while (import->line->len > 0 && strchr (" \t\r", import->line->data[import->line->len - 1]) != NULL
         && import->line->data[import->line->len - 1] != '\0')
    g_byte_array_set_size (import->line, import->line->len - 1);
  return any;
}

/* ---------------- rows ---------------- */

static gboolean
drop (Import *import, const char *reason, const char *detail)
{
  WorkImportFigures *figures = &import->figures;
  g_autofree char *text = g_strdup_printf ("%s: line %" G_GUINT64_FORMAT ": %s%s%s", import->shown, import->line_number, reason,
                                           detail != NULL ? ": " : "", detail != NULL ? detail : "");
  guint i = 0;

  while (i < figures->n_drops && figures->drops[i].reason != reason)
    i++;
  if (i == figures->n_drops)
    figures->drops[figures->n_drops++] = (WorkDrop){ reason, 0, import->line_number };
  figures->drops[i].count++;
  figures->dropped++;
  if (import->warnings != NULL)
    lmt_warnings_add (import->warnings, reason, text);
  return FALSE;
}

static gboolean
drop_member (Import *import, const char *reason, const LmtJson *value, const char *expected)
{
  g_autofree char *found = NULL;
  g_autofree char *detail = NULL;

  if (value != NULL)
    {
      LmtJsonType type = lmt_json_get_type (value);

      found = type == LMT_JSON_OBJECT || type == LMT_JSON_ARRAY || type == LMT_JSON_STRING
                  ? g_strdup (lmt_json_type_name (value))
                  : lmt_json_to_text (value, LMT_JSON_STYLE_COMPACT, FALSE);
    }
  detail = g_strdup_printf ("expected %s, found %s", expected, found != NULL ? found : "nothing");
  return drop (import, reason, detail);
}

static gboolean
is_number (const LmtJson *json)
{
  LmtJsonType type = lmt_json_get_type (json);

  return type == LMT_JSON_INT || type == LMT_JSON_UINT || type == LMT_JSON_DOUBLE;
}

static gboolean
read_time (Import *import, const LmtJson *row)
{
  const LmtJson *value = lmt_json_get_member (row, "timestamp");
  double most = 1e18 / (double)import->format->tick_ns;
  double since;
  gint64 ns;

  if (value == NULL || !is_number (value) || !(lmt_json_get_double (value) >= 0.0 && lmt_json_get_double (value) < 1e15))
    return drop_member (import, "timestamp", value, "a number from 0 on");
  if (!import->with_first)
    {
      import->with_first = TRUE;
      import->first_time = lmt_json_get_double (value);
    }
  since = lmt_json_get_double (value) - import->first_time;
  if (since >= most)
    return drop_member (import, "timestamp", value, "less than 1e9 s after the first row");
  ns = since > 0.0 ? (gint64)(since * (double)import->format->tick_ns + 0.5) : 0;
  if (ns < import->last_ns || since < 0.0)
    import->figures.backward++;
  import->last_ns = import->next.due_ns = MAX (ns, import->last_ns);
  return TRUE;
}

static gboolean
read_length (Import *import, const LmtJson *row, const char *name, gboolean required, guint64 *length)
{
  const LmtJson *value = lmt_json_get_member (row, name);

  *length = 0;
  if (value == NULL && !required)
    return TRUE;
  if (value == NULL || lmt_json_get_type (value) != LMT_JSON_INT || lmt_json_get_int (value) < 0)
    return drop_member (import, name, value, "a whole number from 0 on");
  *length = (guint64)lmt_json_get_int (value);
  return TRUE;
}

static void
add_chunk (Import *import, const char *text)
{
  guint8 hash[WORK_HASH_BYTES];

  lmt_blake3 (text, strlen (text), hash);
  g_byte_array_append (import->chunks, hash, sizeof hash);
}

/* `printf mooncake:46 | b3sum` gives the same. */
static gboolean
add_id (Import *import, const LmtJson *value)
{
  LmtJsonType type = lmt_json_get_type (value);
  char text[64];
  guint64 id;

  if (type == LMT_JSON_UINT)
    id = lmt_json_get_uint (value);
  else if (type == LMT_JSON_INT && lmt_json_get_int (value) >= 0)
    id = (guint64)lmt_json_get_int (value);
  else
    return FALSE;
  g_snprintf (text, sizeof text, "%s:%" G_GUINT64_FORMAT, import->format->name, id);
  add_chunk (import, text);
  return TRUE;
}

/* `0x` and 64 digits is a hash; what is shorter, or of another form, is named by one. */
static gboolean
add_hash (Import *import, const LmtJson *value)
{
  const char *text = lmt_json_get_type (value) == LMT_JSON_STRING ? lmt_json_get_string (value) : "";
  guint8 hash[WORK_HASH_BYTES];
  guint n = 0;

  if (text[0] == '\0')
    return FALSE;
  if (g_str_has_prefix (text, "0x") && strlen (text) == 2 + 2 * sizeof hash)
    while (n < sizeof hash && g_ascii_isxdigit (text[2 + 2 * n]) && g_ascii_isxdigit (text[3 + 2 * n]))
      {
        hash[n] = (guint8)(g_ascii_xdigit_value (text[2 + 2 * n]) << 4 | g_ascii_xdigit_value (text[3 + 2 * n]));
        n++;
      }
  if (n == sizeof hash)
    g_byte_array_append (import->chunks, hash, sizeof hash);
  else
    {
      g_autofree char *named = g_strdup_printf ("%s:%s", import->format->name, text);

      add_chunk (import, named);
    }
  return TRUE;
}

static guint
n_chunks (const Import *import)
{
  return import->chunks->len / WORK_HASH_BYTES;
}

static gboolean
read_list (Import *import, const LmtJson *row, const char *name, const char *expected,
           gboolean (*add) (Import *import, const LmtJson *value))
{
  const LmtJson *list = lmt_json_get_member (row, name);
  guint n = list != NULL && lmt_json_get_type (list) == LMT_JSON_ARRAY ? lmt_json_get_length (list) : 0;

  if (list == NULL || lmt_json_get_type (list) != LMT_JSON_ARRAY)
    return drop_member (import, name, list, expected);
  g_byte_array_set_size (import->chunks, 0);
  for (guint i = 0; i < n; i++)
    if (!add (import, lmt_json_get_element (list, i)))
      return drop_member (import, name, lmt_json_get_element (list, i), expected);
  return TRUE;
}

static int
compare_hashes (gconstpointer a, gconstpointer b)
{
  return memcmp (a, b, WORK_HASH_BYTES);
}

/* A name stands for tokens and all before them, so it can't come twice in a row. */
static gboolean
check_repeats (Import *import, const char *reason)
{
  guint n = n_chunks (import);

  g_byte_array_set_size (import->sorted, 0);
  g_byte_array_append (import->sorted, import->chunks->data, import->chunks->len);
  qsort (import->sorted->data, n, WORK_HASH_BYTES, compare_hashes);
  for (guint i = 1; i < n; i++)
    if (compare_hashes (import->sorted->data + (gsize)i * WORK_HASH_BYTES,
                        import->sorted->data + (gsize)(i - 1) * WORK_HASH_BYTES)
        == 0)
      return drop (import, reason, "expected each once in a row, found one twice");
  return TRUE;
}

static gboolean
take_chunks (Import *import, guint64 n)
{
  if (n > import->most_chunks)
    {
      g_autofree char *detail = g_strdup_printf ("expected at most %u, found %" G_GUINT64_FORMAT, import->most_chunks, n);

      return drop (import, "too many blocks", detail);
    }
  import->next.n_prompt = import->next.n_all = (guint32)n;
  return TRUE;
}

/* Whole blocks alone are chunks: the last id of a row often stands for a block that isn't full. */
static gboolean
count_blocks (Import *import, guint64 input)
{
  guint64 block = import->format->block_tokens;
  guint64 whole = input / block;
  guint64 n = n_chunks (import);

  import->figures.short_ids += n < whole;
  import->figures.surplus_ids += n > whole + (input % block != 0);
  return take_chunks (import, MIN (n, whole));
}

static gboolean
read_id_row (Import *import, const LmtJson *row)
{
  guint64 input;
  guint64 output;

  return read_length (import, row, "input_length", TRUE, &input) && read_length (import, row, "output_length", FALSE, &output)
         && read_list (import, row, "hash_ids", "an array of whole numbers", add_id) && check_repeats (import, "hash_ids repeat")
         && count_blocks (import, input);
}

/* LMCache writes the tokens of its chunks; 1 stands where the writer didn't know them. */
static gboolean
check_chunk_size (Import *import, const LmtJson *row)
{
  guint64 size;

  if (!read_length (import, row, "chunk_size", FALSE, &size))
    return FALSE;
  if (size <= 1 || size == import->chunk_tokens)
    return TRUE;
  g_autofree char *detail = g_strdup_printf (
      "expected %" G_GUINT64_FORMAT " tokens, as the model's shape has, found %" G_GUINT64_FORMAT, import->chunk_tokens, size);
  return drop (import, "chunk_size", detail);
}

static gboolean
read_hash_row (Import *import, const LmtJson *row)
{
  const LmtJson *id = lmt_json_get_member (row, "request_id");

  if (id != NULL && lmt_json_get_type (id) != LMT_JSON_STRING)
    return drop_member (import, "request_id", id, "a string");
  if (id != NULL && lmt_json_get_string (id)[0] != '\0' && strlen (lmt_json_get_string (id)) < sizeof import->next.id)
    g_strlcpy (import->next.id, lmt_json_get_string (id), sizeof import->next.id);
  return check_chunk_size (import, row) && read_list (import, row, "chunk_hashes", "an array of hashes as texts", add_hash)
         && check_repeats (import, "chunk_hashes repeat") && take_chunks (import, n_chunks (import));
}

static gboolean
read_chat (Import *import, const LmtJson *row)
{
  static const char *const whole[] = { "chat_id", "parent_chat_id", "turn" };
  const LmtJson *type = lmt_json_get_member (row, "type");
  const LmtJson *chat = lmt_json_get_member (row, "chat_id");

  if (chat == NULL)
    return drop_member (import, "chat_id", NULL, "a whole number");
  for (guint i = 0; i < G_N_ELEMENTS (whole); i++)
    {
      const LmtJson *value = lmt_json_get_member (row, whole[i]);

      if (value != NULL && lmt_json_get_type (value) != LMT_JSON_INT)
        return drop_member (import, whole[i], value, "a whole number");
    }
  if (type != NULL && lmt_json_get_type (type) != LMT_JSON_STRING)
    return drop_member (import, "type", type, "a string");
  g_snprintf (import->next.id, sizeof import->next.id, "chat-%" G_GINT64_FORMAT, lmt_json_get_int (chat));
  return TRUE;
}

static gboolean
read_row (Import *import)
{
  g_autoptr (GError) wrong = NULL;
  g_autoptr (LmtJson) row = NULL;

  import->figures.in++;
  if (import->line->len > LINE_MAX_BYTES)
    return drop (import, "line too long", "expected at most 16 MiB");
  row = lmt_json_parse ((const char *)import->line->data, import->line->len, &wrong);
  if (row == NULL)
    return drop (import, "not JSON", wrong->message);
  if (lmt_json_get_type (row) != LMT_JSON_OBJECT)
    return drop (import, "not an object", lmt_json_type_name (row));
  memset (&import->next, 0, sizeof import->next);
  g_snprintf (import->next.id, sizeof import->next.id, "line-%" G_GUINT64_FORMAT, import->line_number);
  if (import->format->kind == WORK_ROW_HASHES
          ? !read_hash_row (import, row)
          : (import->format->kind == WORK_ROW_CHATS && !read_chat (import, row)) || !read_id_row (import, row))
    return FALSE;
  return read_time (import, row);
}

/* ---------------- the source ---------------- */

static gint64
import_peek (WorkSource *source)
{
  Import *import = (Import *)source;

  while (!import->ready && next_line (import))
    if (import->line->len > 0)
      import->ready = read_row (import);
  return import->ready ? import->next.due_ns : G_MAXINT64;
}

static gboolean
import_take (WorkSource *source, WorkRequest *request)
{
  Import *import = (Import *)source;
  gsize bytes = (gsize)import->next.n_all * WORK_HASH_BYTES;
  guint8 *hashes = g_malloc (MAX (bytes, 1));

  if (bytes > 0)
    memcpy (hashes, import->chunks->data, bytes);
  import->ready = FALSE;
  import->figures.out++;
  g_hash_table_add (import->hashes, hashes);
  *request = import->next;
  request->hashes = hashes;
  request->salt = "";
  request->token = (guint64)(gsize)hashes;
  return TRUE;
}

static void
import_done (WorkSource *source, const WorkRequest *request, gint64 now_ns)
{
  Import *import = (Import *)source;

  g_hash_table_remove (import->hashes, (gpointer)(gsize)request->token);
}

static void
import_free (WorkSource *source)
{
  Import *import = (Import *)source;

  lmt_source_free (import->bytes);
  g_byte_array_unref (import->line);
  g_byte_array_unref (import->chunks);
  g_byte_array_unref (import->sorted);
  g_hash_table_unref (import->hashes);
  g_free (import->buffer);
  g_free (import->error);
  g_free (import->shown);
  g_free (import);
}

/* @bytes becomes the source's. */
static WorkSource *
import_new (const WorkFormat *format, LmtSource *bytes, const char *shown, guint64 chunk_tokens, guint32 most_chunks,
            LmtWarnings *warnings)
{
  Import *import = g_new0 (Import, 1);

  import->source = (WorkSource){ import_peek, import_take, import_done, import_free };
  import->format = format;
  import->warnings = warnings;
  import->shown = g_strdup (shown);
  import->bytes = bytes;
  import->chunk_tokens = chunk_tokens;
  import->most_chunks = most_chunks;
  import->line = g_byte_array_new ();
  import->buffer = g_malloc (READ_BYTES);
  import->chunks = g_byte_array_new ();
  import->sorted = g_byte_array_new ();
  import->hashes = g_hash_table_new_full (NULL, NULL, g_free, NULL);
  return &import->source;
}

WorkSource *
work_import_new (const WorkFormat *format, const char *path, guint64 chunk_tokens, guint32 most_chunks, LmtWarnings *warnings,
                 GError **error)
{
  g_autofree char *shown = g_filename_display_name (path);
  LmtSource *bytes = lmt_source_open (path, shown, error);

  return bytes != NULL ? import_new (format, bytes, shown, chunk_tokens, most_chunks, warnings) : NULL;
}

WorkSource *
work_import_new_for_bytes (const WorkFormat *format, gconstpointer data, gsize len, guint64 chunk_tokens, guint32 most_chunks,
                           LmtWarnings *warnings)
{
  return import_new (format, lmt_source_new_for_bytes (data, len, "rows"), "rows", chunk_tokens, most_chunks, warnings);
}

const WorkImportFigures *
work_import_get_figures (WorkSource *source)
{
  return &((Import *)source)->figures;
}

const char *
work_import_get_error (WorkSource *source)
{
  return ((Import *)source)->error;
}
