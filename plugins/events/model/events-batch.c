// SPDX-License-Identifier: Apache-2.0
/* One batch: conversion and rules (events.md 2), over JSON and msgpack alike. */
#include "events-parse.h"

#include <lmtrace/lmt-json.h>

const char *const events_kind_words[EVENTS_N_KINDS] = { "store", "delete", "access", "config" };
const char *const events_tier_words[EVENTS_N_TIERS] = { "l1", "l2" };
const EventsLimits events_limits_default
    = { .max_entries = 1000000, .max_tokens = 1000000, .max_string = 1024 * 1024, .max_depth = 32 };

enum
{
  TIER_ALL = EVENTS_N_TIERS, /* a word of the enumeration, but no tier of a batch */
  SALT_MAX = 128,            /* characters */
  LIST_FIRST_ROOM = 16,
  FAULT_SHOWN = 200,
};

typedef struct
{
  const char *name;
  guint len;
} FieldName;
#define FIELD(literal)                                                                                                           \
  {                                                                                                                              \
    literal, sizeof (literal) - 1                                                                                                \
  }

/* In the order of the reference's classes: problems stand in this order. */
enum
{
  BATCH_INSTANCE,
  BATCH_INCARNATION,
  BATCH_SEQ,
  BATCH_KIND,
  BATCH_TIER,
  BATCH_BACKEND,
  BATCH_ENTRIES,
  BATCH_SHARED,
  BATCH_TS,
  BATCH_CAPACITY,
  BATCH_REVISION,
  BATCH_DROPPED,
  BATCH_N,
  BATCH_REQUIRED
  = 1 << BATCH_INSTANCE | 1 << BATCH_INCARNATION | 1 << BATCH_SEQ | 1 << BATCH_KIND | 1 << BATCH_TIER | 1 << BATCH_BACKEND,
};
static const FieldName batch_names[BATCH_N]
    = { FIELD ("instance_id"),       FIELD ("incarnation"),   FIELD ("seq"),    FIELD ("event_type"), FIELD ("tier"),
        FIELD ("backend"),           FIELD ("entries"),       FIELD ("shared"), FIELD ("ts"),         FIELD ("capacity_bytes"),
        FIELD ("capacity_revision"), FIELD ("dropped_events") };
enum
{
  ENTRY_KEY,
  ENTRY_SIZE,
  ENTRY_TOKENS,
  ENTRY_OFFSET,
  ENTRY_N,
  ENTRY_REQUIRED = 1 << ENTRY_KEY,
};
static const FieldName entry_names[ENTRY_N]
    = { FIELD ("key"), FIELD ("size_bytes"), FIELD ("token_ids"), FIELD ("token_offset") };
enum
{
  KEY_HASH,
  KEY_MODEL,
  KEY_RANK,
  KEY_GROUP,
  KEY_SALT,
  KEY_N,
  KEY_REQUIRED = 1 << KEY_HASH | 1 << KEY_MODEL | 1 << KEY_RANK,
};
static const FieldName key_names[KEY_N]
    = { FIELD ("chunk_hash_hex"), FIELD ("model_name"), FIELD ("kv_rank"), FIELD ("object_group_id"), FIELD ("cache_salt") };

/* Members mostly come in their order: @guess is tried first. */
static inline guint
field_of (const FieldName *names, guint n, LmtSpan name, guint guess)
{
  if (guess < n && names[guess].len == name.len && memcmp (names[guess].name, name.data, name.len) == 0)
    return guess;
  for (guint i = 0; i < n; i++)
    if (names[i].len == name.len && memcmp (names[i].name, name.data, name.len) == 0)
      return i;
  return n;
}

static void
level_missing (EventsParse *parse, EventsLevel *level, guint32 required, const FieldName *names, guint n, const guint8 *start)
{
  if (G_LIKELY ((required & ~level->seen) == 0))
    return;
  for (guint i = 0; i < n; i++)
    if ((required & ~level->seen) >> i & 1)
      {
        events_level_begin (parse, level, i);
        events_parse_problem (parse, names[i].name, "missing", "Field required", events_parse_since (parse, start), NULL);
        events_level_end (parse, level, i);
      }
}

/* ---- single values; FALSE only for broken text ---- */

static gboolean
read_int (EventsParse *parse, const char *field, gint64 *out, guint32 *huge)
{
  const char *type, *msg;
  gboolean beyond = FALSE;
  EventsScalar value;
  LmtSpan source;

  if (!events_parse_whole (parse, &value, &source))
    return FALSE;
  if (G_LIKELY (value.type == EVENTS_INT))
    *out = value.v.i;
  else if (!events_take_int (&value, out, &beyond, &type, &msg))
    events_parse_problem (parse, field, type, msg, source, NULL);
  if (beyond && huge != NULL)
    *huge = TRUE;
  return TRUE;
}

static gboolean
read_string (EventsParse *parse, const char *field, LmtSpan *out)
{
  const char *type, *msg;
  EventsScalar value;
  LmtSpan source;

  if (!events_parse_whole (parse, &value, &source))
    return FALSE;
  if (!events_take_string (&value, out, &type, &msg))
    events_parse_problem (parse, field, type, msg, source, NULL);
  else if (parse->limits->max_string > 0 && out->len > parse->limits->max_string)
    {
      g_autofree char *text = g_strdup_printf ("String should have at most %u bytes", parse->limits->max_string);
      g_autofree char *ctx = g_strdup_printf ("{\"max_length\":%u}", parse->limits->max_string);
      events_parse_problem (parse, field, "string_too_long", text, source, ctx);
    }
  return TRUE;
}

static gboolean
read_double (EventsParse *parse, const char *field, double *out)
{
  const char *type, *msg;
  EventsScalar value;
  LmtSpan source;

  if (!events_parse_whole (parse, &value, &source))
    return FALSE;
  if (!events_take_float (&value, out, &type, &msg))
    events_parse_problem (parse, field, type, msg, source, NULL);
  return TRUE;
}

static gboolean
read_bool (EventsParse *parse, const char *field, guint32 *out)
{
  const char *type, *msg;
  gboolean taken = FALSE;
  EventsScalar value;
  LmtSpan source;

  if (!events_parse_whole (parse, &value, &source))
    return FALSE;
  if (!events_take_bool (&value, &taken, &type, &msg))
    events_parse_problem (parse, field, type, msg, source, NULL);
  *out = (guint32)taken;
  return TRUE;
}

static gboolean
read_word (EventsParse *parse, const char *field, const char *const *words, guint n, const char *expected, guint32 *out)
{
  EventsScalar value;
  LmtSpan source;

  if (!events_parse_whole (parse, &value, &source))
    return FALSE;
  if (value.type == EVENTS_STRING)
    for (guint i = 0; i < n; i++)
      if (lmt_span_equal_str (value.text, words[i], strlen (words[i])))
        {
          *out = i;
          return TRUE;
        }

  g_autofree char *msg = g_strdup_printf ("Input should be %s", expected);
  g_autofree char *ctx = g_strdup_printf ("{\"expected\":\"%s\"}", expected);
  events_parse_problem (parse, field, "enum", msg, source, ctx);
  return TRUE;
}

/* ---- key ---- */

static const guint8 hex_values[256] = {
  ['0'] = 0x10, ['1'] = 0x11, ['2'] = 0x12, ['3'] = 0x13, ['4'] = 0x14, ['5'] = 0x15, ['6'] = 0x16, ['7'] = 0x17,
  ['8'] = 0x18, ['9'] = 0x19, ['a'] = 0x1A, ['b'] = 0x1B, ['c'] = 0x1C, ['d'] = 0x1D, ['e'] = 0x1E, ['f'] = 0x1F,
  ['A'] = 0x1A, ['B'] = 0x1B, ['C'] = 0x1C, ['D'] = 0x1D, ['E'] = 0x1E, ['F'] = 0x1F,
};

/* Pairs of digits, white space only between pairs. @hash stays without data where the text is none. */
static void
hash_of_text (EventsParse *parse, LmtSpan text, LmtSpan *hash)
{
  guint8 *const bytes = events_parse_alloc (parse, text.len / 2);
  guint8 *out = bytes;
  const guint8 *p = text.data;
  const guint8 *const end = p + text.len;

  if (bytes == NULL)
    return;
  while (p < end)
    {
      if (*p == ' ' || (*p >= '\t' && *p <= '\r'))
        {
          p++;
          continue;
        }
      if (end - p < 2)
        return;
      const guint8 high = hex_values[p[0]], low = hex_values[p[1]];
      if ((high & low) < 0x10)
        return;
      *out++ = (guint8)(high << 4 | (low & 15));
      p += 2;
    }
  *hash = (LmtSpan){ bytes, (gsize)(out - bytes) };
}

static gboolean
salt_is_good (LmtSpan salt)
{
  gsize characters = 0;

  for (gsize i = 0; i < salt.len; i++)
    {
      const guint8 c = salt.data[i];
      if (c == '@' || c == '/' || c == '\\' || c == '\0')
        return FALSE;
      characters += (c & 0xC0) != 0x80;
    }
  return characters <= SALT_MAX;
}

static inline gboolean
key_is_good (const EventsKey *key)
{
  return key->hash.data != NULL && memchr (key->model.data, '@', key->model.len) == NULL && key->group >= 0
         && salt_is_good (key->salt);
}

static char *
quoted (LmtSpan text)
{
  GString *const out = g_string_new ("'");

  lmt_json_append_escaped (out, (const char *)text.data, MIN (text.len, FAULT_SHOWN));
  g_string_append (out, text.len > FAULT_SHOWN ? "...'" : "'");
  return g_string_free (out, FALSE);
}

char *
events_key_fault (const EventsKey *key)
{
  g_autofree char *hash = quoted (key->hash_text);
  g_autofree char *model = quoted (key->model);
  g_autofree char *salt = quoted (key->salt);

  if (key->hash.data == NULL)
    return g_strdup_printf ("Value error, chunk_hash_hex must be pairs of hexadecimal digits (got %s)", hash);
  if (memchr (key->model.data, '@', key->model.len) != NULL)
    return g_strdup_printf ("Value error, model_name must not contain '@' (got %s)", model);
  if (key->group < 0)
    return g_strdup_printf ("Value error, object_group_id must be >= 0 (got %" G_GINT64_FORMAT ")", key->group);
  for (gsize i = 0; i < key->salt.len; i++)
    if (strchr ("@/\\", key->salt.data[i]) != NULL)
      return g_strdup_printf ("Value error, cache_salt must not contain '@', '/', a backslash or NUL (got %s)", salt);
  if (!salt_is_good (key->salt))
    return g_strdup_printf ("Value error, cache_salt must have at most %d characters (got %s)", SALT_MAX, salt);
  return NULL;
}

void
events_parse_key_problem (EventsParse *parse, const EventsKey *key, LmtSpan source)
{
  g_autofree char *msg = events_key_fault (key);

  events_parse_problem (parse, NULL, "value_error", msg, source, "{\"error\":{}}");
}

gboolean
events_parse_key (EventsParse *parse, const EventsScalar *head, EventsKey *key, guint32 *huge)
{
  const guint8 *const start = head->text.data;
  EventsLevel level;
  EventsScalar name;
  LmtSpan source;
  guint field, guess = 0;
  gboolean good;

  memset (key, 0, sizeof *key);
  key->salt.data = key->model.data = (const guint8 *)"";
  if (head->type != EVENTS_OBJECT)
    {
      if (!events_parse_skip (parse, head, &source))
        return FALSE;
      events_parse_no_object (parse, "EncodedObjectKey", source);
      return TRUE;
    }
  level.seen = level.bad = 0;
  while (events_parse_member (parse, &name))
    {
      field = field_of (key_names, KEY_N, name.text, guess);
      if (field == KEY_N)
        {
          if (!events_parse_whole (parse, &name, NULL))
            return FALSE;
          continue;
        }
      guess = field + 1;
      events_level_begin (parse, &level, field);
      switch (field)
        {
        case KEY_HASH:
          good = read_string (parse, key_names[field].name, &key->hash_text);
          break;
        case KEY_MODEL:
          good = read_string (parse, key_names[field].name, &key->model);
          break;
        case KEY_RANK:
          good = read_int (parse, key_names[field].name, &key->kv_rank, huge);
          break;
        case KEY_GROUP:
          good = read_int (parse, key_names[field].name, &key->group, huge);
          break;
        default:
          good = read_string (parse, key_names[field].name, &key->salt);
          break;
        }
      if (!good)
        return FALSE;
      events_level_end (parse, &level, field);
    }
  if (events_parse_failed (parse))
    return FALSE;
  level_missing (parse, &level, KEY_REQUIRED, key_names, KEY_N, start);
  if (level.bad != 0)
    {
      events_level_sort (parse, &level, KEY_N);
      return TRUE;
    }
  hash_of_text (parse, key->hash_text, &key->hash);
  if (!key_is_good (key))
    parse->bad_keys = TRUE;
  return !parse->no_memory;
}

/* ---- entry ---- */

static gboolean
grow_tokens (EventsParse *parse, guint32 n)
{
  const guint32 room = MAX (LIST_FIRST_ROOM * 16, parse->room_tokens * 2);
  guint32 *const more = events_parse_alloc (parse, (gsize)room * sizeof *more);

  if (more == NULL)
    return FALSE;
  if (n > 0)
    memcpy (more, parse->tokens, n * sizeof *more);
  parse->tokens = more;
  parse->room_tokens = room;
  return TRUE;
}

static void
list_too_long (EventsParse *parse, guint32 max, LmtSpan source)
{
  g_autofree char *msg = g_strdup_printf ("List should have at most %u items", max);
  g_autofree char *ctx = g_strdup_printf ("{\"field_type\":\"List\",\"max_length\":%u}", max);

  events_parse_problem (parse, NULL, "too_long", msg, source, ctx);
}

static gboolean
read_tokens (EventsParse *parse, EventsEntry *entry)
{
  static const char name[] = "token_ids";
  const guint8 *start;
  EventsScalar value;
  LmtSpan source;
  guint32 n = 0;

  entry->token_ids = NULL;
  entry->n_tokens = 0;
  entry->tokens_valid = TRUE;
  if (events_parse_next (parse, &value) == EVENTS_ERROR)
    return FALSE;
  if (value.type != EVENTS_ARRAY)
    {
      if (!events_parse_skip (parse, &value, &source))
        return FALSE;
      events_parse_problem (parse, name, "list_type", "Input should be a valid list", source, NULL);
      return TRUE;
    }
  start = value.text.data;
  while (events_parse_element (parse))
    {
      const char *type, *msg;
      gboolean huge = FALSE;
      gint64 id = 0;

      if (events_parse_next (parse, &value) == EVENTS_ERROR)
        return FALSE;
      if (G_LIKELY (value.type == EVENTS_INT))
        id = value.v.i;
      else
        {
          if (!events_parse_skip (parse, &value, &source))
            return FALSE;
          if (!events_take_int (&value, &id, &huge, &type, &msg))
            {
              events_parse_push (parse, name, 0);
              events_parse_push (parse, NULL, n);
              events_parse_problem (parse, NULL, type, msg, source, NULL);
              events_parse_pop (parse);
              events_parse_pop (parse);
            }
        }
      if (id < 0 || id > G_MAXUINT32 || huge)
        entry->tokens_valid = FALSE;
      if (n == parse->room_tokens && entry->tokens_valid && (parse->limits->max_tokens == 0 || n < parse->limits->max_tokens)
          && !grow_tokens (parse, n))
        return FALSE;
      if (n < parse->room_tokens)
        parse->tokens[n] = (guint32)id;
      n++;
    }
  if (events_parse_failed (parse))
    return FALSE;
  if (parse->limits->max_tokens > 0 && n > parse->limits->max_tokens)
    {
      events_parse_push (parse, name, 0);
      list_too_long (parse, parse->limits->max_tokens, events_parse_since (parse, start));
      events_parse_pop (parse);
      return TRUE;
    }
  entry->n_tokens = n;
  if (n > 0 && entry->tokens_valid && (parse->problems->total == 0 || parse->keep_all))
    {
      guint32 *const kept = events_parse_alloc (parse, (gsize)n * sizeof *kept);
      if (kept == NULL)
        return FALSE;
      memcpy (kept, parse->tokens, (gsize)n * sizeof *kept);
      entry->token_ids = kept;
    }
  else if (n > 0 && entry->tokens_valid)
    parse->dropped = TRUE;
  return TRUE;
}

static void
check_entry (EventsParse *parse, const EventsEntry *entry, const guint8 *start)
{
  g_autofree char *msg = NULL;

  if (G_LIKELY (entry->size_bytes >= 0 && entry->token_offset >= -1))
    return;
  if (entry->size_bytes < 0)
    msg = g_strdup_printf ("Value error, size_bytes must be >= 0 (got %" G_GINT64_FORMAT ")", entry->size_bytes);
  else
    msg = g_strdup_printf ("Value error, token_offset must be >= 0, or -1 for unknown (got %" G_GINT64_FORMAT ")",
                           entry->token_offset);
  events_parse_problem (parse, NULL, "value_error", msg, events_parse_since (parse, start), "{\"error\":{}}");
}

static gboolean
read_key (EventsParse *parse, EventsKey *key, guint32 *huge)
{
  EventsScalar value;
  gboolean good;

  if (events_parse_next (parse, &value) == EVENTS_ERROR)
    return FALSE;
  events_parse_push (parse, "key", 0);
  good = events_parse_key (parse, &value, key, huge);
  events_parse_pop (parse);
  return good;
}

static gboolean
read_entry (EventsParse *parse, EventsEntry *entry, guint32 *huge)
{
  const guint8 *start;
  EventsLevel level;
  EventsScalar name, head;
  LmtSpan source;
  guint field, guess = 0;
  gboolean good;

  memset (entry, 0, sizeof *entry);
  entry->token_offset = -1;
  entry->tokens_valid = TRUE;
  if (events_parse_next (parse, &head) == EVENTS_ERROR)
    return FALSE;
  if (head.type != EVENTS_OBJECT)
    {
      if (!events_parse_skip (parse, &head, &source))
        return FALSE;
      events_parse_no_object (parse, "CacheEventEntry", source);
      return TRUE;
    }
  start = head.text.data;
  level.seen = level.bad = 0;
  while (events_parse_member (parse, &name))
    {
      field = field_of (entry_names, ENTRY_N, name.text, guess);
      if (field == ENTRY_N)
        {
          if (!events_parse_whole (parse, &name, NULL))
            return FALSE;
          continue;
        }
      guess = field + 1;
      events_level_begin (parse, &level, field);
      switch (field)
        {
        case ENTRY_KEY:
          good = read_key (parse, &entry->key, huge);
          break;
        case ENTRY_SIZE:
          good = read_int (parse, entry_names[field].name, &entry->size_bytes, huge);
          break;
        case ENTRY_TOKENS:
          good = read_tokens (parse, entry);
          break;
        default:
          good = read_int (parse, entry_names[field].name, &entry->token_offset, huge);
          break;
        }
      if (!good)
        return FALSE;
      events_level_end (parse, &level, field);
    }
  if (events_parse_failed (parse))
    return FALSE;
  level_missing (parse, &level, ENTRY_REQUIRED, entry_names, ENTRY_N, start);
  if (level.bad == 0)
    check_entry (parse, entry, start);
  else
    events_level_sort (parse, &level, ENTRY_N);
  return TRUE;
}

/* ---- batch ---- */

static gboolean
grow_entries (EventsParse *parse, guint32 n)
{
  const guint32 room = MAX (LIST_FIRST_ROOM, parse->room_entries * 2);
  EventsEntry *const more = events_parse_alloc (parse, (gsize)room * sizeof *more);

  if (more == NULL)
    return FALSE;
  if (n > 0)
    memcpy (more, parse->entries, n * sizeof *more);
  parse->entries = more;
  parse->room_entries = room;
  return TRUE;
}

static gboolean
read_entries (EventsParse *parse, EventsBatch *batch)
{
  static const char name[] = "entries";
  const guint32 max = parse->limits->max_entries;
  const guint8 *start;
  EventsScalar value;
  LmtSpan source;
  guint32 n = 0;

  batch->entries = NULL;
  batch->n_entries = 0;
  if (events_parse_next (parse, &value) == EVENTS_ERROR)
    return FALSE;
  if (value.type != EVENTS_ARRAY)
    {
      if (!events_parse_skip (parse, &value, &source))
        return FALSE;
      events_parse_problem (parse, name, "list_type", "Input should be a valid list", source, NULL);
      return TRUE;
    }
  start = value.text.data;
  events_parse_push (parse, name, 0);
  while (events_parse_element (parse))
    {
      EventsEntry unkept;
      gboolean keep = max == 0 || n < max;

      /* With problems the body is refused anyway: no memory for more of it. */
      if (keep && parse->problems->total > parse->problems->max && !parse->keep_all)
        {
          parse->dropped = TRUE;
          keep = FALSE;
        }
      if (keep && n >= parse->room_entries && !grow_entries (parse, n))
        return FALSE;
      events_parse_push (parse, NULL, n);
      if (!read_entry (parse, keep ? &parse->entries[n] : &unkept, &batch->huge))
        return FALSE;
      events_parse_pop (parse);
      n++;
    }
  if (events_parse_failed (parse))
    return FALSE;
  if (max > 0 && n > max)
    list_too_long (parse, max, events_parse_since (parse, start));
  else if (n > 0 && !parse->dropped)
    {
      EventsEntry *const kept = events_parse_alloc (parse, (gsize)n * sizeof *kept);
      if (kept == NULL)
        return FALSE;
      memcpy (kept, parse->entries, (gsize)n * sizeof *kept);
      batch->entries = kept;
    }
  batch->n_entries = n;
  events_parse_pop (parse);
  return TRUE;
}

static gboolean
read_batch_field (EventsParse *parse, guint field, EventsBatch *batch)
{
  static const char *const tier_words[] = { "l1", "l2", "all" };
  const char *const name = batch_names[field].name;

  switch (field)
    {
    case BATCH_INSTANCE:
      return read_string (parse, name, &batch->instance);
    case BATCH_INCARNATION:
      return read_int (parse, name, &batch->incarnation, &batch->huge);
    case BATCH_SEQ:
      return read_int (parse, name, &batch->seq, &batch->huge);
    case BATCH_KIND:
      return read_word (parse, name, events_kind_words, EVENTS_N_KINDS, "'store', 'delete', 'access' or 'config'", &batch->kind);
    case BATCH_TIER:
      return read_word (parse, name, tier_words, G_N_ELEMENTS (tier_words), "'l1', 'l2' or 'all'", &batch->tier);
    case BATCH_BACKEND:
      return read_string (parse, name, &batch->backend);
    case BATCH_ENTRIES:
      return read_entries (parse, batch);
    case BATCH_SHARED:
      return read_bool (parse, name, &batch->shared);
    case BATCH_TS:
      return read_double (parse, name, &batch->ts);
    case BATCH_CAPACITY:
      return read_int (parse, name, &batch->capacity_bytes, &batch->huge);
    case BATCH_REVISION:
      return read_int (parse, name, &batch->capacity_revision, &batch->huge);
    default:
      return read_int (parse, name, &batch->dropped_events, &batch->huge);
    }
}

/* The first rule the batch breaks, in the order the reference tries them. (nullable) */
static char *
batch_fault (const EventsBatch *batch)
{
  char number[32];

  if (batch->instance.len == 0)
    return g_strdup ("Value error, instance_id must be non-empty");
  if (batch->backend.len == 0 && batch->kind != EVENTS_ACCESS)
    return g_strdup_printf ("Value error, backend must be non-empty for %s batches", events_kind_words[batch->kind]);
  if (batch->kind == EVENTS_CONFIG && batch->n_entries > 0)
    return g_strdup ("Value error, config batches must carry no entries");
  if (batch->capacity_bytes < 0)
    return g_strdup_printf ("Value error, capacity_bytes must be >= 0 (got %" G_GINT64_FORMAT ")", batch->capacity_bytes);
  if (batch->capacity_revision < 0)
    return g_strdup_printf ("Value error, capacity_revision must be >= 0 (got %" G_GINT64_FORMAT ")", batch->capacity_revision);
  if (batch->incarnation < 0)
    return g_strdup_printf ("Value error, incarnation must be >= 0 (got %" G_GINT64_FORMAT ")", batch->incarnation);
  if (batch->seq < 1)
    return g_strdup_printf ("Value error, seq must be >= 1 (got %" G_GINT64_FORMAT ")", batch->seq);
  if (batch->tier >= EVENTS_N_TIERS)
    return g_strdup ("Value error, tier must be 'l1' or 'l2' (got 'all')");
  if (batch->ts < 0) /* a NaN isn't */
    return g_strdup_printf ("Value error, ts must be >= 0 (got %s)", lmt_json_format_double (batch->ts, number));
  if (batch->dropped_events < 0)
    return g_strdup_printf ("Value error, dropped_events must be >= 0 (got %" G_GINT64_FORMAT ")", batch->dropped_events);
  return NULL;
}

static inline gboolean
batch_is_good (const EventsBatch *batch)
{
  return batch->instance.len > 0 && (batch->backend.len > 0 || batch->kind == EVENTS_ACCESS)
         && !(batch->kind == EVENTS_CONFIG && batch->n_entries > 0) && batch->capacity_bytes >= 0 && batch->capacity_revision >= 0
         && batch->incarnation >= 0 && batch->seq >= 1 && batch->tier < EVENTS_N_TIERS && !(batch->ts < 0)
         && batch->dropped_events >= 0;
}

gboolean
events_parse_batch (EventsParse *parse, EventsBatch *batch)
{
  const guint n_fields = parse->limits->no_dropped_events ? BATCH_DROPPED : BATCH_N;
  const guint8 *start;
  EventsLevel level;
  EventsScalar name, head;
  LmtSpan source;
  guint field, guess = 0;

  memset (batch, 0, sizeof *batch);
  if (events_parse_next (parse, &head) == EVENTS_ERROR)
    return FALSE;
  if (head.type != EVENTS_OBJECT)
    {
      if (!events_parse_skip (parse, &head, &source))
        return FALSE;
      events_parse_no_object (parse, "CacheEventBatch", source);
      return TRUE;
    }
  start = head.text.data;
  level.seen = level.bad = 0;
  while (events_parse_member (parse, &name))
    {
      field = field_of (batch_names, n_fields, name.text, guess);
      if (field == n_fields)
        {
          if (!events_parse_whole (parse, &name, NULL))
            return FALSE;
          continue;
        }
      guess = field + 1;
      events_level_begin (parse, &level, field);
      if (!read_batch_field (parse, field, batch))
        return FALSE;
      events_level_end (parse, &level, field);
    }
  if (events_parse_failed (parse))
    return FALSE;
  level_missing (parse, &level, BATCH_REQUIRED, batch_names, n_fields, start);
  if (level.bad != 0)
    events_level_sort (parse, &level, n_fields);
  else if (!batch_is_good (batch))
    {
      g_autofree char *msg = batch_fault (batch);
      events_parse_problem (parse, NULL, "value_error", msg, events_parse_since (parse, start), "{\"error\":{}}");
    }
  return TRUE;
}

const EventsKey *
events_batch_bad_key (const EventsBatch *batch)
{
  for (guint32 i = 0; i < batch->n_entries; i++)
    if (!key_is_good (&batch->entries[i].key))
      return &batch->entries[i].key;
  return NULL;
}

gboolean
events_batch_from_args (LmtSpan args, const EventsLimits *limits, EventsArena *arena, EventsBatch *batch,
                        EventsProblems *problems)
{
  EventsParse parse;
  const EventsKey *key;
  gboolean whole;

  events_problems_reset (problems);
  events_parse_init_msgpack (&parse, args, limits, arena, problems);
  whole = events_parse_batch (&parse, batch);
  if (whole && problems->total == 0 && parse.dropped)
    {
      /* A repeated member took its problems back: once more, and everything is kept. */
      events_parse_init_msgpack (&parse, args, limits, arena, problems);
      parse.keep_all = TRUE;
      whole = events_parse_batch (&parse, batch);
    }
  if (!whole)
    {
      events_problems_reset (problems);
      parse.n_path = 0;
      if (parse.no_memory)
        events_parse_problem (&parse, NULL, "too_long", "Batch is larger than the memory for one", args, NULL);
      else if (parse.too_deep)
        {
          g_autofree char *msg = g_strdup_printf ("Nested deeper than %u", parse.limits->max_depth);
          events_parse_problem (&parse, NULL, "recursion_loop", msg, args, NULL);
        }
      else
        events_parse_problem (&parse, NULL, "msgpack_invalid", "Broken msgpack", args, NULL);
      return FALSE;
    }
  if (problems->total == 0 && parse.bad_keys && (key = events_batch_bad_key (batch)) != NULL)
    {
      events_parse_push (&parse, "entries", 0);
      events_parse_key_problem (&parse, key, args);
    }
  return problems->total == 0;
}
