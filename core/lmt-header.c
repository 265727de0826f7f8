/* SPDX-License-Identifier: Apache-2.0 */
#include "lmt-header.h"

#include "lmt-cursor-private.h"
#include "lmt-encode-private.h"

static const char magic_bytes[] = "LMCT";
enum
{
  MAGIC_BYTES = 4
};

struct _LmtHeader
{
  LmtSpan body;
  LmtSpan level_meta;
  char *level;
  char *config_json;
  char *config_digest;
  gint64 schema;
  double t_mono_start;
  double t_wall_start;
  guint8 have_schema;
  guint8 have_t_mono;
  guint8 have_t_wall;
  char **notes;
};

/* What was found while reading; becomes a header or an error. */
typedef struct
{
  LmtHeader *header;
  GPtrArray *notes;
  GString *unknown;
  const char *name;
  guint have;
} Parse;

enum
{
  HAVE_TYPE = 1 << 0,
  HAVE_MAGIC = 1 << 1,
  HAVE_VERSION = 1 << 2,
  HAVE_LEVEL = 1 << 3,
  HAVE_SCHEMA = 1 << 4,
  HAVE_T_MONO = 1 << 5,
  HAVE_T_WALL = 1 << 6,
  HAVE_CONFIG = 1 << 7,
  HAVE_DIGEST = 1 << 8,
};

static const char *
type_name (guint32 type)
{
  static const char *const names[] = { "nothing", "nil", "a bool",   "an integer", "an integer",   "a float",
                                       "a str",   "bin", "an array", "a map",      "an extension", "no msgpack" };

  return type < G_N_ELEMENTS (names) ? names[type] : "?";
}

static gboolean G_GNUC_PRINTF (4, 5) refuse (GError **error, gint code, const char *name, const char *format, ...)
{
  va_list args;
  g_autofree char *text = NULL;

  va_start (args, format);
  text = g_strdup_vprintf (format, args);
  va_end (args);
  g_set_error (error, LMT_ERROR, code, "%s: frame 0 at offset 0: %s", name, text);
  return FALSE;
}

/* A str of the file as a C string for messages: cut, controls and broken bytes replaced. */
static const char *
shown (LmtSpan span, LmtFault *scratch)
{
  lmt_fault_set_detail (scratch, (const char *)span.data, span.len);
  return scratch->detail;
}

static char *
dup_span (LmtSpan span)
{
  return g_strndup ((const char *)span.data, span.len);
}

static gboolean
read_magic (Parse *parse, const LmtToken *token, GError **error)
{
  LmtFault scratch;

  parse->have |= HAVE_MAGIC;
  if (token->type == LMT_TYPE_STR)
    return refuse (error, LMT_ERROR_CORRUPT, parse->name, "magic: expected bin b'LMCT', found str '%s'",
                   shown (token->span, &scratch));
  if (token->type != LMT_TYPE_BIN)
    return refuse (error, LMT_ERROR_CORRUPT, parse->name, "magic: expected bin b'LMCT', found %s", type_name (token->type));
  if (!lmt_span_equal_str (token->span, magic_bytes, MAGIC_BYTES))
    return refuse (error, LMT_ERROR_CORRUPT, parse->name, "magic: expected b'LMCT', found b'%s'", shown (token->span, &scratch));
  return TRUE;
}

static gboolean
read_version (Parse *parse, const LmtToken *token, GError **error)
{
  parse->have |= HAVE_VERSION;
  if (token->type == LMT_TYPE_INT)
    return refuse (error, LMT_ERROR_VERSION, parse->name, "format_version: expected %d, found %" G_GINT64_FORMAT,
                   LMT_FORMAT_VERSION, token->v.i);
  if (token->type != LMT_TYPE_UINT)
    return refuse (error, LMT_ERROR_CORRUPT, parse->name, "format_version: expected an integer, found %s",
                   type_name (token->type));
  if (token->v.u != LMT_FORMAT_VERSION)
    return refuse (error, LMT_ERROR_VERSION, parse->name, "format_version: expected %d, found %" G_GUINT64_FORMAT,
                   LMT_FORMAT_VERSION, token->v.u);
  return TRUE;
}

static gboolean
read_number (const LmtToken *token, double *value)
{
  if (token->type == LMT_TYPE_FLOAT)
    *value = token->v.f;
  else if (token->type == LMT_TYPE_UINT)
    *value = (double)token->v.u;
  else if (token->type == LMT_TYPE_INT)
    *value = (double)token->v.i;
  else
    return FALSE;
  return TRUE;
}

static void
note_type (Parse *parse, const char *member, const char *expected, guint32 found)
{
  g_ptr_array_add (parse->notes, g_strdup_printf ("%s is %s, expected %s", member, type_name (found), expected));
}

static void
read_text (Parse *parse, const char *member, const LmtToken *token, guint have, char **text)
{
  parse->have |= have;
  g_clear_pointer (text, g_free);
  if (token->type == LMT_TYPE_STR)
    *text = dup_span (token->span);
  else
    note_type (parse, member, "a str", token->type);
}

/* The optional members: what can't be used is a note, and counts as unknown. */
static void
read_optional (Parse *parse, LmtSpan key, const LmtToken *token, LmtSpan value)
{
  LmtHeader *header = parse->header;

  if (LMT_SPAN_IS (key, "trace_schema_version"))
    {
      parse->have |= HAVE_SCHEMA;
      header->have_schema = token->type == LMT_TYPE_INT || (token->type == LMT_TYPE_UINT && token->v.u <= G_MAXINT64);
      if (header->have_schema)
        header->schema = token->v.i;
      else
        note_type (parse, "trace_schema_version", "an integer", token->type);
    }
  else if (LMT_SPAN_IS (key, "t_mono_start"))
    {
      parse->have |= HAVE_T_MONO;
      header->have_t_mono = read_number (token, &header->t_mono_start);
      if (!header->have_t_mono)
        note_type (parse, "t_mono_start", "a number", token->type);
    }
  else if (LMT_SPAN_IS (key, "t_wall_start"))
    {
      parse->have |= HAVE_T_WALL;
      header->have_t_wall = read_number (token, &header->t_wall_start);
      if (!header->have_t_wall)
        note_type (parse, "t_wall_start", "a number", token->type);
    }
  else if (LMT_SPAN_IS (key, "sm_config_json"))
    read_text (parse, "sm_config_json", token, HAVE_CONFIG, &header->config_json);
  else if (LMT_SPAN_IS (key, "sm_config_digest"))
    read_text (parse, "sm_config_digest", token, HAVE_DIGEST, &header->config_digest);
  else if (LMT_SPAN_IS (key, "level_meta"))
    {
      header->level_meta.len = 0;
      if (token->type == LMT_TYPE_MAP)
        header->level_meta = value;
      else
        note_type (parse, "level_meta", "a map", token->type);
    }
  else
    {
      LmtFault scratch;

      if (parse->unknown->len > 0)
        g_string_append (parse->unknown, ", ");
      g_string_append (parse->unknown, shown (key, &scratch));
    }
}

static gboolean
read_member (Parse *parse, LmtSpan key, const LmtToken *token, LmtSpan value, GError **error)
{
  LmtFault scratch;

  if (LMT_SPAN_IS (key, "type"))
    {
      parse->have |= HAVE_TYPE;
      if (token->type != LMT_TYPE_STR)
        return refuse (error, LMT_ERROR_CORRUPT, parse->name, "type: expected 'header', found %s", type_name (token->type));
      if (!LMT_SPAN_IS (token->span, "header"))
        return refuse (error, LMT_ERROR_CORRUPT, parse->name, "type: expected 'header', found '%s'",
                       shown (token->span, &scratch));
    }
  else if (LMT_SPAN_IS (key, "magic"))
    return read_magic (parse, token, error);
  else if (LMT_SPAN_IS (key, "format_version"))
    return read_version (parse, token, error);
  else if (LMT_SPAN_IS (key, "level"))
    {
      parse->have |= HAVE_LEVEL;
      if (token->type != LMT_TYPE_STR)
        return refuse (error, LMT_ERROR_CORRUPT, parse->name, "level: expected a str, found %s", type_name (token->type));
      g_free (parse->header->level);
      parse->header->level = dup_span (token->span);
    }
  else
    read_optional (parse, key, token, value);
  return TRUE;
}

static gboolean
read_members (Parse *parse, GError **error)
{
  static const char *const required[] = { "magic", "format_version", "level" };
  LmtCursor cursor;
  LmtToken token;
  guint32 pairs;

  lmt_cursor_init (&cursor, parse->header->body);
  if (!lmt_cursor_read_map (&cursor, &pairs))
    {
      lmt_cursor_next (&cursor, &token);
      return refuse (error, LMT_ERROR_CORRUPT, parse->name, "expected a map, found %s", type_name (token.type));
    }
  for (guint32 i = 0; i < pairs; i++)
    {
      LmtSpan key, value;
      LmtCursor at;

      if (!lmt_cursor_read_str (&cursor, &key))
        {
          lmt_cursor_next (&cursor, &token);
          return refuse (error, LMT_ERROR_CORRUPT, parse->name, "key %u: expected a str, found %s", i, type_name (token.type));
        }
      at = cursor;
      lmt_cursor_skip_span (&cursor, &value);
      lmt_cursor_next (&at, &token);
      if (!read_member (parse, key, &token, value, error))
        return FALSE;
    }
  for (guint i = 0; i < G_N_ELEMENTS (required); i++)
    if ((parse->have & (HAVE_MAGIC << i)) == 0)
      return refuse (error, LMT_ERROR_CORRUPT, parse->name, "missing field %s", required[i]);
  return TRUE;
}

static void
add_notes (Parse *parse)
{
  static const struct
  {
    guint have;
    const char *name;
  } optional[] = {
    { HAVE_SCHEMA, "trace_schema_version" }, { HAVE_T_MONO, "t_mono_start" },     { HAVE_T_WALL, "t_wall_start" },
    { HAVE_CONFIG, "sm_config_json" },       { HAVE_DIGEST, "sm_config_digest" },
  };
  LmtHeader *header = parse->header;

  if ((parse->have & HAVE_TYPE) == 0)
    g_ptr_array_add (parse->notes, g_strdup ("no type field"));
  for (guint i = 0; i < G_N_ELEMENTS (optional); i++)
    if ((parse->have & optional[i].have) == 0)
      g_ptr_array_add (parse->notes, g_strdup_printf ("%s absent", optional[i].name));
  if (header->have_schema && (header->schema < 1 || header->schema > LMT_SCHEMA_KNOWN_MAX))
    g_ptr_array_add (parse->notes, g_strdup_printf ("trace_schema_version %" G_GINT64_FORMAT " is not known", header->schema));
  if (parse->unknown->len > 0)
    g_ptr_array_add (parse->notes, g_strdup_printf ("unknown fields %s", parse->unknown->str));
  if (header->config_json != NULL && header->config_json[0] != '\0' && header->config_digest != NULL)
    {
      g_autofree char *digest = g_compute_checksum_for_string (G_CHECKSUM_SHA256, header->config_json, -1);

      if (strcmp (digest, header->config_digest) != 0)
        g_ptr_array_add (parse->notes, g_strdup ("sm_config_digest is not the SHA-256 of sm_config_json"));
    }
}

static void
header_clear (gpointer data)
{
  LmtHeader *header = data;

  g_free ((gpointer)header->body.data);
  g_free (header->level);
  g_free (header->config_json);
  g_free (header->config_digest);
  g_strfreev (header->notes);
}

LmtHeader *
lmt_header_new_from_body (LmtSpan body, const char *name, GError **error)
{
  LmtHeader *header;
  LmtFault fault;
  Parse parse = { 0 };
  gboolean ok;

  g_return_val_if_fail (name != NULL, NULL);
  g_return_val_if_fail (body.data != NULL || body.len == 0, NULL);

  if (!lmt_cursor_check (body, &fault))
    {
      refuse (error, LMT_ERROR_CORRUPT, name, "%s%s%s", fault.reason, fault.detail[0] != '\0' ? ": " : "", fault.detail);
      return NULL;
    }
  header = g_atomic_rc_box_new0 (LmtHeader);
  header->body.data = g_memdup2 (body.data, body.len);
  header->body.len = body.len;
  parse.header = header;
  parse.name = name;
  parse.notes = g_ptr_array_new_with_free_func (g_free);
  parse.unknown = g_string_new (NULL);
  ok = read_members (&parse, error);
  if (ok)
    {
      add_notes (&parse);
      g_ptr_array_add (parse.notes, NULL);
      header->notes = g_strdupv ((char **)parse.notes->pdata);
    }
  g_ptr_array_unref (parse.notes);
  g_string_free (parse.unknown, TRUE);
  if (!ok)
    g_clear_pointer (&header, lmt_header_unref);
  return header;
}

LmtHeader *
lmt_header_ref (LmtHeader *header)
{
  g_return_val_if_fail (header != NULL, NULL);
  return g_atomic_rc_box_acquire (header);
}

void
lmt_header_unref (LmtHeader *header)
{
  g_return_if_fail (header != NULL);
  g_atomic_rc_box_release_full (header, header_clear);
}

const char *
lmt_header_get_level (const LmtHeader *header)
{
  return header->level;
}

gint64
lmt_header_get_format_version (const LmtHeader *header)
{
  return LMT_FORMAT_VERSION; /* another one makes no header */
}

gboolean
lmt_header_get_schema (const LmtHeader *header, gint64 *schema)
{
  *schema = header->schema;
  return header->have_schema;
}

gboolean
lmt_header_get_t_mono_start (const LmtHeader *header, double *t)
{
  *t = header->t_mono_start;
  return header->have_t_mono;
}

gboolean
lmt_header_get_t_wall_start (const LmtHeader *header, double *t)
{
  *t = header->t_wall_start;
  return header->have_t_wall;
}

const char *
lmt_header_get_config_json (const LmtHeader *header)
{
  return header->config_json != NULL ? header->config_json : "";
}

const char *
lmt_header_get_config_digest (const LmtHeader *header)
{
  return header->config_digest != NULL ? header->config_digest : "";
}

LmtSpan
lmt_header_get_level_meta (const LmtHeader *header)
{
  return header->level_meta;
}

LmtSpan
lmt_header_get_body (const LmtHeader *header)
{
  return header->body;
}

const char *const *
lmt_header_get_notes (const LmtHeader *header)
{
  return (const char *const *)header->notes;
}

void
lmt_header_encode (const LmtHeaderFields *fields, GByteArray *out)
{
  /* Omitted when empty, as the reference's encoder drops a member that has its default (trace-format.md 2). */
  gboolean meta = fields->level_meta_msgpack.len > 1;
  guint start;

  g_return_if_fail (fields->level != NULL && fields->sm_config_json != NULL && fields->sm_config_digest != NULL);

  start = lmt_encode_begin_frame (out);
  lmt_encode_map (out, meta ? 10 : 9);
  lmt_encode_str (out, "type", 4);
  lmt_encode_str (out, "header", 6);
  lmt_encode_str (out, "magic", 5);
  lmt_encode_be (out, 0xc4, MAGIC_BYTES, 1);
  g_byte_array_append (out, (const guint8 *)magic_bytes, MAGIC_BYTES);
  lmt_encode_str (out, "format_version", 14);
  lmt_encode_int (out, LMT_FORMAT_VERSION);
  lmt_encode_str (out, "level", 5);
  lmt_encode_str (out, fields->level, strlen (fields->level));
  lmt_encode_str (out, "trace_schema_version", 20);
  lmt_encode_int (out, fields->trace_schema_version);
  lmt_encode_str (out, "t_mono_start", 12);
  lmt_encode_double (out, fields->t_mono_start);
  lmt_encode_str (out, "t_wall_start", 12);
  lmt_encode_double (out, fields->t_wall_start);
  lmt_encode_str (out, "sm_config_json", 14);
  lmt_encode_str (out, fields->sm_config_json, strlen (fields->sm_config_json));
  lmt_encode_str (out, "sm_config_digest", 16);
  lmt_encode_str (out, fields->sm_config_digest, strlen (fields->sm_config_digest));
  if (meta)
    {
      lmt_encode_str (out, "level_meta", 10);
      g_byte_array_append (out, fields->level_meta_msgpack.data, (guint)fields->level_meta_msgpack.len);
    }
  lmt_encode_end_frame (out, start);
}
