// SPDX-License-Identifier: Apache-2.0
#include "replay.h"

#include <math.h>
#include <string.h>

/* Key of the instance table: a span, or an instance's own id. */
typedef struct
{
  const char *text;
  gsize len;
} IdKey;

struct _ReplayFeed
{
  EventsMerge *merge;
  const ReplayConfig *config;
  LmtWarnings *warnings;
  LmtSelect *select; /* (nullable): nothing is selected */
  gboolean select_keys;
  EventsLimits limits;
  EventsArena *arena;
  GPtrArray *instances;     /* ReplayInstance */
  GHashTable *table;        /* IdKey -> ReplayInstance */
  ReplayInstance **of_file; /* the last one seen in each file */
  GHashTable *renames;      /* id -> name */
  guint64 rounds;
  guint64 round;
  guint64 next_n;
  guint64 round_n;
  guint64 left_out;
  double first_wall;
  gboolean any;
  gint64 incarnation_span;
  ReplayRoundFunc round_func; /* (nullable) */
  gpointer round_data;
  char bad[256];
};

/* -------- instances -------- */

static guint
id_hash (gconstpointer key)
{
  const IdKey *id = key;
  return (guint)lmt_hash_bytes (id->text, id->len, lmt_hash_seed ());
}

static gboolean
id_equal (gconstpointer a, gconstpointer b)
{
  const IdKey *x = a, *y = b;
  return x->len == y->len && memcmp (x->text, y->text, x->len) == 0;
}

static void
instance_free (gpointer data)
{
  ReplayInstance *instance = data;
  g_free (instance->id);
  g_free (instance->name);
  g_free (instance->path);
  g_free (instance->shown);
  g_free (instance->ip);
  g_free (instance);
}

char *
replay_encode_segment (const char *text, gsize len, gsize max)
{
  static const char digits[] = "0123456789ABCDEF";
  gboolean dots = (len == 1 && text[0] == '.') || (len == 2 && text[0] == '.' && text[1] == '.');
  if (len > max)
    return NULL;
  GString *out = g_string_sized_new (len + 16);
  for (gsize i = 0; i < len; i++)
    {
      guchar c = (guchar)text[i];
      if (g_ascii_isalnum (c) || c == '-' || c == '_' || c == '~' || (c == '.' && !dots))
        g_string_append_c (out, (char)c);
      else
        {
          g_string_append_c (out, '%');
          g_string_append_c (out, digits[c >> 4]);
          g_string_append_c (out, digits[c & 15]);
        }
    }
  return g_string_free (out, FALSE);
}

/* The segment by which a coordinator knows the id: it trims what it registers (R13). NULL: an id with a slash, or of white space
 * alone, never reaches a route. (transfer full) */
static char *
make_path (ReplayFeed *feed, ReplayInstance *instance)
{
  const char *start = instance->name, *end = instance->name + instance->name_len;
  if (memchr (start, '/', instance->name_len) != NULL || memchr (start, '\0', instance->name_len) != NULL)
    return NULL;
  while (start < end && g_unichar_isspace (g_utf8_get_char (start)))
    start = g_utf8_next_char (start);
  while (end > start && g_unichar_isspace (g_utf8_get_char (g_utf8_prev_char (end))))
    end = g_utf8_prev_char (end);
  if ((gsize)(end - start) != instance->name_len && !instance->warned_trim)
    {
      g_autofree char *text
          = g_strdup_printf ("\"%s\": a coordinator registers this id without the white space around it, and takes "
                             "its events as those of another instance",
                             instance->shown);
      instance->warned_trim = TRUE;
      lmt_warnings_add (feed->warnings, "id", text);
    }
  return end > start ? replay_encode_segment (start, (gsize)(end - start), feed->config->max_path) : NULL;
}

/* Name and path of this round. */
static void
name_instance (ReplayFeed *feed, ReplayInstance *instance)
{
  const ReplayConfig *config = feed->config;
  /* An id with a NUL inside is none that a command line can name. */
  const char *renamed = feed->renames != NULL && strlen (instance->id) == instance->id_len
                            ? g_hash_table_lookup (feed->renames, instance->id)
                            : NULL;
  GString *name = g_string_new (NULL);
  if (renamed != NULL)
    g_string_append (name, renamed);
  else
    {
      if (config->rename_prefix != NULL)
        g_string_append (name, config->rename_prefix);
      g_string_append_len (name, instance->id, (gssize)instance->id_len);
    }
  if (config->rename_per_loop && feed->round > 0)
    g_string_append_printf (name, "-loop%" G_GUINT64_FORMAT, feed->round + 1);
  g_free (instance->name);
  g_free (instance->path);
  g_free (instance->shown);
  instance->name_len = name->len;
  instance->shown = replay_clean (name->str, name->len, 256);
  instance->name = g_string_free (name, FALSE);
  instance->path = make_path (feed, instance);
}

static ReplayInstance *
intern (ReplayFeed *feed, guint32 file, LmtSpan id)
{
  ReplayInstance *last = feed->of_file[file];
  if (last != NULL && last->id_len == id.len && memcmp (last->id, id.data, id.len) == 0)
    return last;
  IdKey probe = { (const char *)id.data, id.len };
  ReplayInstance *instance = g_hash_table_lookup (feed->table, &probe);
  if (instance == NULL)
    {
      IdKey *key = g_new (IdKey, 1);
      instance = g_new0 (ReplayInstance, 1);
      instance->number = feed->instances->len;
      instance->last_n = G_MAXUINT64;
      instance->id = g_strndup ((const char *)id.data, id.len);
      if (strlen (instance->id) != id.len)
        {
          /* g_strndup stops at a NUL inside: ids may hold one */
          g_free (instance->id);
          instance->id = g_malloc (id.len + 1);
          memcpy (instance->id, id.data, id.len);
          instance->id[id.len] = '\0';
        }
      instance->id_len = id.len;
      name_instance (feed, instance);
      key->text = instance->id;
      key->len = instance->id_len;
      g_hash_table_insert (feed->table, key, instance);
      g_ptr_array_add (feed->instances, instance);
    }
  feed->of_file[file] = instance;
  return instance;
}

/* -------- reading a record -------- */

static const char *G_GNUC_PRINTF (2, 3) say_bad (ReplayFeed *feed, const char *format, ...)
{
  va_list args;
  va_start (args, format);
  g_vsnprintf (feed->bad, sizeof feed->bad, format, args);
  va_end (args);
  return feed->bad;
}

static EventsScalar
scalar_of (const LmtToken *token)
{
  EventsScalar scalar = { .type = EVENTS_NULL };
  switch (token->type)
    {
    case LMT_TYPE_BOOL:
      scalar.type = EVENTS_BOOL;
      scalar.v.b = token->v.b;
      break;
    case LMT_TYPE_UINT:
      scalar.type = token->v.u > G_MAXINT64 ? EVENTS_UINT : EVENTS_INT;
      scalar.v.u = token->v.u;
      break;
    case LMT_TYPE_INT:
      scalar.type = EVENTS_INT;
      scalar.v.i = token->v.i;
      break;
    case LMT_TYPE_FLOAT:
      scalar.type = EVENTS_FLOAT;
      scalar.v.f = token->v.f;
      break;
    case LMT_TYPE_STR:
      scalar.type = EVENTS_STRING;
      scalar.text = token->span;
      break;
    default:
      break;
    }
  return scalar;
}

/* What the gate makes of a number; anything it can't is the survey's to find. */
static gint64
take_int (const LmtToken *token)
{
  gint64 value = 0;
  gboolean huge = FALSE;
  const char *type, *msg;
  if (G_LIKELY (token->type == LMT_TYPE_UINT && token->v.u <= G_MAXINT64))
    return (gint64)token->v.u;
  EventsScalar scalar = scalar_of (token);
  return events_take_int (&scalar, &value, &huge, &type, &msg) ? value : 0;
}

static gboolean
is_space (guchar c)
{
  return c == ' ' || (c >= '\t' && c <= '\r');
}

/* int() of the reference for text: blanks around, a sign, digits with single underscores between. */
static gboolean
int_of_text (LmtSpan text, gint64 *value)
{
  const guint8 *p = text.data, *end = text.data + text.len;
  gboolean negative = FALSE, digit = FALSE;
  gint64 sum = 0;
  while (p < end && is_space (*p))
    p++;
  while (end > p && is_space (end[-1]))
    end--;
  if (p < end && (*p == '-' || *p == '+'))
    negative = *p++ == '-';
  for (; p < end; p++)
    {
      if (*p == '_' && digit && p + 1 < end)
        {
          digit = FALSE;
          continue;
        }
      if (*p < '0' || *p > '9')
        return FALSE;
      digit = TRUE;
      sum = MIN (sum, G_MAXINT64 / 10 - 1) * 10 + (*p - '0');
    }
  *value = negative ? -sum : sum;
  return digit;
}

/* int() of a start mark's number (events.md 3). */
static const char *
take_python_int (ReplayFeed *feed, const char *name, const LmtToken *token, gint64 *value)
{
  switch (token->type)
    {
    case LMT_TYPE_UINT:
      *value = token->v.u > G_MAXINT64 ? G_MAXINT64 : (gint64)token->v.u;
      return NULL;
    case LMT_TYPE_INT:
      *value = token->v.i;
      return NULL;
    case LMT_TYPE_BOOL:
      *value = token->v.b;
      return NULL;
    case LMT_TYPE_FLOAT:
      if (!isfinite (token->v.f))
        return say_bad (feed, "%s: expected an integer, found a number that is not finite", name);
      *value = (gint64)CLAMP (token->v.f, -9e18, 9e18);
      return NULL;
    case LMT_TYPE_STR:
      if (int_of_text (token->span, value))
        return NULL;
      {
        g_autofree char *shown = replay_clean ((const char *)token->span.data, token->span.len, 40);
        return say_bad (feed, "%s: expected an integer, found \"%s\"", name, shown);
      }
    default:
      return say_bad (feed, "%s: expected an integer, found a value of another type", name);
    }
}

static guint32
word_index (LmtSpan word, const char *const *words, guint32 n)
{
  for (guint32 i = 0; i < n; i++)
    if (lmt_span_equal_str (word, words[i], strlen (words[i])))
      return i;
  return 0;
}

static void
take_batch_member (ReplayItem *item, LmtSpan key, const LmtToken *value)
{
  if (LMT_SPAN_IS (key, "incarnation"))
    item->incarnation = take_int (value);
  else if (LMT_SPAN_IS (key, "seq"))
    item->seq = take_int (value);
  else if (LMT_SPAN_IS (key, "dropped_events"))
    item->dropped = take_int (value);
  else if (LMT_SPAN_IS (key, "event_type") && value->type == LMT_TYPE_STR)
    item->event = word_index (value->span, events_kind_words, EVENTS_N_KINDS);
  else if (LMT_SPAN_IS (key, "tier") && value->type == LMT_TYPE_STR)
    item->tier = word_index (value->span, events_tier_words, EVENTS_N_TIERS);
  else if (LMT_SPAN_IS (key, "shared"))
    {
      const char *type, *msg;
      EventsScalar scalar = scalar_of (value);
      events_take_bool (&scalar, &item->shared, &type, &msg);
    }
}

/* What a mark holds; numbers are looked at once its phase is known. */
typedef struct
{
  LmtToken ip, http_port, mq_port, incarnation;
} MarkMembers;

static void
take_mark_member (ReplayItem *item, LmtSpan key, const LmtToken *value, MarkMembers *mark)
{
  if (LMT_SPAN_IS (key, "phase") && value->type == LMT_TYPE_STR)
    item->phase = value->span;
  else if (LMT_SPAN_IS (key, "ip"))
    mark->ip = *value;
  else if (LMT_SPAN_IS (key, "http_port"))
    mark->http_port = *value;
  else if (LMT_SPAN_IS (key, "mq_port"))
    mark->mq_port = *value;
  else if (LMT_SPAN_IS (key, "incarnation"))
    mark->incarnation = *value;
}

/* Not empty: that stands for 127.0.0.1. */
static gboolean
is_blank (LmtSpan text)
{
  const char *p = (const char *)text.data, *end = p + text.len;
  while (p < end && g_unichar_isspace (g_utf8_get_char_validated (p, end - p)))
    p = g_utf8_next_char (p);
  return text.len > 0 && p >= end;
}

static const char *
take_start (ReplayFeed *feed, ReplayItem *item, const MarkMembers *mark)
{
  const struct
  {
    const char *name;
    const LmtToken *token;
    gint64 *to;
  } numbers[] = { { "incarnation", &mark->incarnation, &item->incarnation },
                  { "http_port", &mark->http_port, &item->http_port },
                  { "mq_port", &mark->mq_port, &item->mq_port } };
  for (guint i = 0; i < G_N_ELEMENTS (numbers); i++)
    {
      const char *bad = numbers[i].token->type == LMT_TYPE_NONE
                            ? NULL
                            : take_python_int (feed, numbers[i].name, numbers[i].token, numbers[i].to);
      if (bad != NULL)
        return bad;
    }
  if (mark->ip.type == LMT_TYPE_STR)
    item->ip = mark->ip.span;
  else if (mark->ip.type != LMT_TYPE_NONE)
    return say_bad (feed, "ip: expected a string, found a value of another type");
  if (item->http_port > 0 && is_blank (item->ip))
    return say_bad (feed, "ip: expected an address, found white space alone");
  if (item->http_port > 65535)
    return say_bad (feed, "http_port: expected at most 65535, found %" G_GINT64_FORMAT, item->http_port);
  if (item->http_port > 0 && (item->mq_port < 0 || item->mq_port > 65535))
    return say_bad (feed, "mq_port: expected 0 to 65535, found %" G_GINT64_FORMAT, item->mq_port);
  return NULL;
}

static void
read_args (ReplayFeed *feed, ReplayItem *item)
{
  gboolean batch = LMT_SPAN_IS (item->qualname, "events.batch");
  gboolean mark = LMT_SPAN_IS (item->qualname, "events.lifecycle");
  MarkMembers members = { 0 };
  LmtCursor cursor;
  guint32 pairs = 0;
  item->kind = batch ? REPLAY_BATCH : REPLAY_SKIP;
  lmt_cursor_init (&cursor, item->args);
  if (!lmt_cursor_read_map (&cursor, &pairs))
    {
      item->bad = "args: expected a map";
      return;
    }
  for (guint32 i = 0; i < pairs; i++)
    {
      LmtToken key, value;
      lmt_cursor_next (&cursor, &key);
      LmtCursor at = cursor;
      if (!lmt_cursor_skip (&cursor))
        return;
      if (key.type != LMT_TYPE_STR)
        continue; /* JSON can't hold it: the survey says so */
      lmt_cursor_next (&at, &value);
      if (LMT_SPAN_IS (key.span, "instance_id"))
        {
          if (value.type != LMT_TYPE_STR)
            item->bad = "instance_id: expected a string, found a value of another type";
          else
            item->instance = value.span.len > 0 ? intern (feed, item->file, value.span) : NULL;
        }
      else if (batch)
        take_batch_member (item, key.span, &value);
      else if (mark)
        take_mark_member (item, key.span, &value, &members);
    }
  if (!mark || item->instance == NULL || item->bad != NULL)
    return;
  if (LMT_SPAN_IS (item->phase, "stop"))
    item->kind = REPLAY_STOP;
  else if (LMT_SPAN_IS (item->phase, "start"))
    {
      item->kind = REPLAY_START;
      item->bad = take_start (feed, item, &members);
    }
}

/* -------- selection -------- */

static gboolean
any_key_selected (ReplayFeed *feed, const ReplayItem *item)
{
  EventsProblems problems;
  EventsBatch batch;
  gboolean found = FALSE;
  events_arena_reset (feed->arena);
  events_problems_init (&problems, 1);
  if (events_batch_from_args (item->args, &feed->limits, feed->arena, &batch, &problems))
    {
      found = batch.n_entries == 0;
      for (guint32 i = 0; i < batch.n_entries && !found; i++)
        {
          const EventsKey *key = &batch.entries[i].key;
          LmtKeyFields fields = { .hash = key->hash.data,
                                  .hash_len = (guint32)key->hash.len,
                                  .model = (const char *)key->model.data,
                                  .model_len = (guint32)key->model.len,
                                  .rank = (guint64)key->kv_rank,
                                  .group = (guint64)key->group,
                                  .salt = (const char *)key->salt.data,
                                  .salt_len = (guint32)key->salt.len };
          found = lmt_select_key (feed->select, &fields);
        }
    }
  else
    found = TRUE; /* it is refused, not passed over */
  events_problems_clear (&problems);
  return found;
}

static gboolean
word_selected (ReplayFeed *feed, const ReplayItem *item, const char *kind, const char *member)
{
  LmtCursor cursor;
  guint32 pairs = 0;
  lmt_cursor_init (&cursor, item->args);
  lmt_cursor_read_map (&cursor, &pairs);
  for (guint32 i = 0; i < pairs; i++)
    {
      LmtToken key;
      LmtSpan word;
      lmt_cursor_next (&cursor, &key);
      if (key.type == LMT_TYPE_STR && lmt_span_equal_str (key.span, member, strlen (member))
          && lmt_cursor_read_str (&cursor, &word))
        return lmt_select_word (feed->select, kind, (const char *)word.data, word.len);
      if (!lmt_cursor_skip (&cursor))
        break;
    }
  return lmt_select_word (feed->select, kind, "", 0);
}

/* A mark has no tier: it goes with its instance. */
static gboolean
is_selected (ReplayFeed *feed, const EventsMergeItem *from, const ReplayItem *item)
{
  LmtRecord record = from->record;
  if (feed->select == NULL)
    return TRUE;
  record.number = from->index + 1;
  record.t_mono = MAX (0.0, from->due_wall - feed->first_wall);
  if (!lmt_select_record (feed->select, &record))
    return FALSE;
  const ReplayInstance *instance = item->instance;
  if (!lmt_select_word (feed->select, "instance", instance != NULL ? instance->id : "", instance != NULL ? instance->id_len : 0))
    return FALSE;
  if (item->kind != REPLAY_BATCH)
    return TRUE;
  return word_selected (feed, item, "event-type", "event_type") && word_selected (feed, item, "tier", "tier")
         && word_selected (feed, item, "backend", "backend") && (!feed->select_keys || any_key_selected (feed, item));
}

/* -------- the stream -------- */

static int
begin_round (ReplayFeed *feed, GError **error)
{
  if (feed->round + 1 >= feed->rounds)
    return 0;
  if (feed->round_func != NULL && !feed->round_func (feed->round_data))
    return 0;
  feed->round++;
  if (!events_merge_rewind (feed->merge, error))
    return -1;
  feed->round_n = 0;
  if (feed->select != NULL)
    lmt_select_rewind (feed->select);
  for (guint i = 0; feed->config->rename_per_loop && i < feed->instances->len; i++)
    name_instance (feed, feed->instances->pdata[i]);
  return 1;
}

int
replay_feed_next (ReplayFeed *feed, ReplayItem *item, GError **error)
{
  for (;;)
    {
      EventsMergeItem from;
      int got = events_merge_next (feed->merge, &from, error);
      if (got == 0 && (got = begin_round (feed, error)) > 0)
        continue;
      if (got <= 0)
        return got;
      memset (item, 0, sizeof *item);
      item->file = from.file;
      item->number = from.record.number;
      item->offset = from.record.offset;
      item->qualname = from.record.qualname;
      item->args = from.record.args;
      item->due_wall = from.due_wall;
      item->round = feed->round;
      if (!feed->any)
        feed->first_wall = from.due_wall;
      feed->any = TRUE;
      read_args (feed, item);
      if (!is_selected (feed, &from, item))
        {
          feed->left_out++;
          if (item->instance != NULL && item->kind == REPLAY_BATCH)
            item->instance->left_out = TRUE;
          continue;
        }
      /* What the coordinator takes was looked at in the survey; a batch it refuses may hold any number. */
      if (item->kind == REPLAY_BATCH && feed->config->new_incarnations
          && __builtin_add_overflow (item->incarnation, (gint64)feed->round * feed->incarnation_span, &item->incarnation))
        item->incarnation = G_MAXINT64;
      item->n = feed->next_n++;
      item->round_n = feed->round_n++;
      return 1;
    }
}

void
replay_feed_set_rounds (ReplayFeed *feed, guint64 rounds)
{
  feed->rounds = rounds;
}

guint64
replay_feed_get_rounds (const ReplayFeed *feed)
{
  return feed->rounds;
}

gboolean
replay_feed_rewind (ReplayFeed *feed, GError **error)
{
  feed->round = 0;
  feed->round_n = feed->next_n = 0;
  feed->left_out = 0;
  feed->any = FALSE;
  if (feed->select != NULL)
    lmt_select_rewind (feed->select);
  for (guint i = 0; i < feed->instances->len; i++)
    {
      ReplayInstance *instance = feed->instances->pdata[i];
      instance->left_out = FALSE;
      if (feed->config->rename_per_loop)
        name_instance (feed, instance);
    }
  return events_merge_rewind (feed->merge, error);
}

guint64
replay_feed_get_left_out (const ReplayFeed *feed)
{
  return feed->left_out;
}

EventsMerge *
replay_feed_get_merge (ReplayFeed *feed)
{
  return feed->merge;
}

void
replay_feed_set_round_func (ReplayFeed *feed, ReplayRoundFunc func, gpointer data)
{
  feed->round_func = func;
  feed->round_data = data;
}

gboolean
replay_feed_set_incarnations (ReplayFeed *feed, gint64 lowest, gint64 highest, GError **error)
{
  guint64 loops = feed->config->loops;
  gint64 last;
  if (lowest > highest || !feed->config->new_incarnations)
    return TRUE;
  /* Neither is below 0: such a batch is refused. */
  if (highest - lowest == G_MAXINT64 || loops > G_MAXINT64
      || __builtin_mul_overflow (highest - lowest + 1, (gint64)loops - 1, &last) || __builtin_add_overflow (last, highest, &last))
    {
      g_set_error (error, LMT_ERROR, LMT_ERROR_OPTION,
                   "--new-incarnations: expected incarnations below 2^63 in all %" G_GUINT64_FORMAT
                   " rounds, found %" G_GINT64_FORMAT "..%" G_GINT64_FORMAT " in the first",
                   loops, lowest, highest);
      return FALSE;
    }
  feed->incarnation_span = highest - lowest + 1;
  return TRUE;
}

guint
replay_feed_get_n_instances (const ReplayFeed *feed)
{
  return feed->instances->len;
}

ReplayInstance *
replay_feed_get_instance (ReplayFeed *feed, guint i)
{
  return g_ptr_array_index (feed->instances, i);
}

guint64
replay_feed_count_servers (ReplayFeed *feed)
{
  guint64 n = 0;
  for (guint i = 0; i < feed->instances->len; i++)
    n += ((ReplayInstance *)feed->instances->pdata[i])->last_n != G_MAXUINT64;
  return n * (feed->config->rename_per_loop ? feed->rounds : 1);
}

const EventsLimits *
replay_feed_get_limits (const ReplayFeed *feed)
{
  return &feed->limits;
}

gboolean
replay_feed_is_last (const ReplayFeed *feed, const ReplayItem *item)
{
  return item->instance != NULL && item->instance->last_n == item->round_n
         && (feed->config->rename_per_loop || item->round + 1 == feed->rounds);
}

/* -------- what is sent -------- */

gboolean
replay_feed_append_json (ReplayFeed *feed, const ReplayItem *item, GString *out, const char **reason)
{
  gboolean renamed = item->instance != NULL
                     && (feed->config->rename != NULL || feed->config->rename_prefix != NULL
                         || (feed->config->rename_per_loop && item->round > 0));
  gboolean shifted = feed->config->new_incarnations && item->round > 0;
  gsize was = out->len;
  LmtCursor cursor;
  guint32 pairs = 0;
  if (!renamed && !shifted)
    return events_json_from_msgpack (item->args, out, reason);
  lmt_cursor_init (&cursor, item->args);
  lmt_cursor_read_map (&cursor, &pairs);
  g_string_append_c (out, '{');
  for (guint32 i = 0; i < pairs; i++)
    {
      LmtCursor at = cursor;
      LmtSpan key, name, value;
      gboolean is_text = lmt_cursor_read_str (&at, &name);
      lmt_cursor_skip_span (&cursor, &key);
      lmt_cursor_skip_span (&cursor, &value);
      if (i > 0)
        g_string_append_c (out, ',');
      if (!is_text || !events_json_from_msgpack (key, out, reason))
        {
          if (!is_text)
            *reason = "a key that is no string";
          g_string_truncate (out, was);
          return FALSE;
        }
      g_string_append_c (out, ':');
      if (renamed && LMT_SPAN_IS (name, "instance_id"))
        {
          g_string_append_c (out, '"');
          lmt_json_append_escaped (out, item->instance->name, item->instance->name_len);
          g_string_append_c (out, '"');
        }
      else if (shifted && LMT_SPAN_IS (name, "incarnation"))
        g_string_append_printf (out, "%" G_GINT64_FORMAT, item->incarnation);
      else if (!events_json_from_msgpack (value, out, reason))
        {
          g_string_truncate (out, was);
          return FALSE;
        }
    }
  g_string_append_c (out, '}');
  return TRUE;
}

gboolean
replay_feed_convert (ReplayFeed *feed, const ReplayItem *item, EventsArena *arena, EventsBatch *batch, EventsProblems *problems)
{
  if (!events_batch_from_args (item->args, &feed->limits, arena, batch, problems))
    return FALSE;
  if (item->instance != NULL)
    batch->instance = (LmtSpan){ (const guint8 *)item->instance->name, item->instance->name_len };
  batch->incarnation = item->incarnation;
  return TRUE;
}

void
replay_append_registration (GString *out, const ReplayInstance *instance, const char *mode)
{
  const gboolean recorded = instance->ip_len > 0 && strcmp (mode, "loopback") != 0;
  const char *ip = recorded ? instance->ip : "127.0.0.1";
  const char *end = ip + (recorded ? instance->ip_len : strlen (ip));
  /* LMCache's client trims the address before it sends it. */
  while (ip < end && g_unichar_isspace (g_utf8_get_char (ip)))
    ip = g_utf8_next_char (ip);
  while (end > ip && g_unichar_isspace (g_utf8_get_char (g_utf8_prev_char (end))))
    end = g_utf8_prev_char (end);
  g_string_append (out, "{\"instance_id\":\"");
  lmt_json_append_escaped (out, instance->name, instance->name_len);
  g_string_append (out, "\",\"ip\":\"");
  lmt_json_append_escaped (out, ip, (gsize)(end - ip));
  g_string_append_printf (
      out, "\",\"http_port\":%" G_GINT64_FORMAT ",\"metadata\":{},\"p2p_advertised_url\":\"\",\"mq_port\":%" G_GINT64_FORMAT "}",
      instance->http_port, instance->mq_port);
}

char *
replay_item_describe (ReplayFeed *feed, const ReplayItem *item)
{
  const EventsMergeFile *file = events_merge_file (feed->merge, item->file);
  GString *out = g_string_new (file->shown);
  g_string_append_printf (out, ": record %" G_GUINT64_FORMAT " at offset %" G_GUINT64_FORMAT, item->number, item->offset);
  if (item->instance != NULL && item->kind == REPLAY_BATCH)
    g_string_append_printf (out, " (%s, seq %" G_GINT64_FORMAT ")", item->instance->shown, item->seq);
  else if (item->instance != NULL)
    g_string_append_printf (out, " (%s)", item->instance->shown);
  return g_string_free (out, FALSE);
}

/* -------- making one -------- */

static gboolean
read_renames (ReplayFeed *feed, GError **error)
{
  char **texts = feed->config->rename;
  if (texts == NULL)
    return TRUE;
  feed->renames = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, g_free);
  for (guint i = 0; texts[i] != NULL; i++)
    {
      const char *equals = strchr (texts[i], '=');
      if (equals == NULL || equals == texts[i] || equals[1] == '\0')
        {
          g_set_error (error, LMT_ERROR, LMT_ERROR_OPTION, "--rename: expected OLD=NEW, found \"%s\"", texts[i]);
          return FALSE;
        }
      g_autofree char *old = g_strndup (texts[i], (gsize)(equals - texts[i]));
      if (g_hash_table_contains (feed->renames, old))
        {
          g_autofree char *shown = replay_clean (old, strlen (old), 256);
          g_set_error (error, LMT_ERROR, LMT_ERROR_OPTION, "--rename: expected each OLD once, found %s twice", shown);
          return FALSE;
        }
      g_hash_table_insert (feed->renames, g_steal_pointer (&old), g_strdup (equals + 1));
    }
  return TRUE;
}

gboolean
replay_feed_check_names (ReplayFeed *feed, GError **error)
{
  g_autoptr (GHashTable) seen = g_hash_table_new_full (g_bytes_hash, g_bytes_equal, (GDestroyNotify)g_bytes_unref, NULL);
  guint64 rounds = feed->config->rename_per_loop ? MIN (feed->config->loops, 1000) : 1;
  for (guint64 round = 0; round < rounds; round++)
    for (guint i = 0; i < feed->instances->len; i++)
      {
        ReplayInstance *instance = feed->instances->pdata[i];
        GString *name = g_string_new_len (instance->name, (gssize)instance->name_len);
        if (round > 0)
          g_string_append_printf (name, "-loop%" G_GUINT64_FORMAT, round + 1);
        g_autoptr (GBytes) key = g_string_free_to_bytes (name);
        ReplayInstance *other = g_hash_table_lookup (seen, key);
        if (other != NULL)
          {
            g_autofree char *a = replay_clean (other->id, other->id_len, 128);
            g_autofree char *b = replay_clean (instance->id, instance->id_len, 128);
            g_set_error (error, LMT_ERROR, LMT_ERROR_OPTION, "--rename: expected two names, found %s for both %s and %s",
                         instance->shown, a, b);
            return FALSE;
          }
        g_hash_table_insert (seen, g_steal_pointer (&key), instance);
      }
  GHashTableIter iter;
  gpointer old;
  if (feed->renames == NULL)
    return TRUE;
  g_hash_table_iter_init (&iter, feed->renames);
  while (g_hash_table_iter_next (&iter, &old, NULL))
    {
      IdKey probe = { old, strlen (old) };
      if (!g_hash_table_contains (feed->table, &probe))
        {
          g_autofree char *text = g_strdup_printf ("--rename: no record names %s", (const char *)old);
          lmt_warnings_add (feed->warnings, "rename", text);
        }
    }
  return TRUE;
}

/* A percent in --time: the time between the first record and the last. It takes a pass of its own. */
static gboolean
measure_span (EventsMerge *merge, const volatile gint *interrupts, double *span_s, GError **error)
{
  EventsMergeItem item;
  double first = 0, last = 0;
  gboolean any = FALSE;
  int got;
  while ((got = events_merge_next (merge, &item, error)) > 0)
    {
      if (!isfinite (item.due_wall))
        continue;
      first = any ? first : item.due_wall;
      last = any ? MAX (last, item.due_wall) : item.due_wall;
      any = TRUE;
      if (interrupts != NULL && g_atomic_int_get (interrupts) > 0)
        {
          g_set_error_literal (error, LMT_ERROR, LMT_ERROR_INTERRUPTED, "interrupted before anything was sent");
          return FALSE;
        }
    }
  *span_s = last - first;
  return got == 0 && events_merge_rewind (merge, error);
}

ReplayFeed *
replay_feed_new (EventsMerge *merge, const ReplayFeedConfig *config, GError **error)
{
  g_autoptr (ReplayFeed) feed = g_new0 (ReplayFeed, 1);
  const LmtSelectConfig *select = config->select;
  const ReplayConfig *options = config->config;
  feed->merge = merge;
  feed->config = options;
  feed->warnings = config->warnings;
  feed->rounds = 1;
  feed->incarnation_span = 1;
  feed->limits = (EventsLimits){ .max_entries = (guint32)MIN (options->max_entries, G_MAXUINT32),
                                 .max_tokens = (guint32)MIN (options->max_tokens, G_MAXUINT32),
                                 .max_string = (guint32)MIN (options->max_string, G_MAXUINT32),
                                 .max_depth = (guint32)MIN (options->max_depth, G_MAXUINT32) };
  feed->arena = events_arena_new (0);
  feed->instances = g_ptr_array_new_with_free_func (instance_free);
  feed->table = g_hash_table_new_full (id_hash, id_equal, g_free, NULL);
  feed->of_file = g_new0 (ReplayInstance *, events_merge_n_files (merge) + 1);
  if (!read_renames (feed, error))
    return NULL;
  double span_s = -1;
  if (lmt_select_wants_span (select) && !measure_span (merge, config->interrupts, &span_s, error))
    return NULL;
  feed->select = lmt_select_new (select, events_merge_n_files (merge) > 0 ? events_merge_header (merge, 0) : NULL, span_s, error);
  if (feed->select == NULL)
    return NULL;
  if (lmt_select_is_empty (feed->select))
    g_clear_pointer (&feed->select, lmt_select_free);
  feed->select_keys = select->model != NULL || select->salt != NULL || select->rank != NULL || select->group != NULL
                      || select->key != NULL || select->sample != NULL;
  return g_steal_pointer (&feed);
}

void
replay_feed_free (ReplayFeed *feed)
{
  if (feed == NULL)
    return;
  lmt_select_free (feed->select);
  events_arena_free (feed->arena);
  g_hash_table_unref (feed->table);
  g_ptr_array_unref (feed->instances);
  g_clear_pointer (&feed->renames, g_hash_table_unref);
  g_free (feed->of_file);
  g_free (feed);
}
