// SPDX-License-Identifier: Apache-2.0
#include "events-info.h"
#include "events-walk.h"

#include <math.h>
#include <string.h>

/* Wide enough for every integer a trace can hold, and for their sums. */
typedef __int128 Wide;

/* A text of known length as hash key; the counters own copies, a probe lends. */
typedef struct
{
  const char *text;
  gsize len;
} Word;

typedef struct
{
  Word word;
  guint64 count;
  guint64 entries;      /* batches: their entries */
  GArray *incarnations; /* instances: of Wide, sorted, distinct */
  char bytes[];
} Counter;

typedef struct
{
  GHashTable *table; /* Word -> Counter */
  guint64 left_out;  /* words beyond EVENTS_INFO_MAX, as often as they came */
} Counters;

/* Where the counter of some bytes of args is: spares making their word. */
enum
{
  MEMO_SLOTS = 64,
  MEMO_BYTES = 64,
};
typedef struct
{
  Counter *counter;
  guint32 len;
  guint8 bytes[MEMO_BYTES];
} MemoSlot;

typedef struct
{
  Counters instances;
  Counters batches; /* type NUL tier NUL backend NUL 0|1 */
  Counters phases;
  GString *scratch;
  Wide store_bytes;
  guint64 entries_with_tokens;
  guint64 odd_values;
  guint64 n_incarnations; /* of all instances */
  guint64 incarnations_left_out;
  EventsSeen seen; /* of the record that comes next, if it was walked */
  MemoSlot instance_memo[MEMO_SLOTS];
  MemoSlot batch_memo[2][MEMO_SLOTS]; /* by `shared` */
} EventsInfo;

/* ---------------- counters ---------------- */

static guint
word_hash (gconstpointer key)
{
  const Word *word = key;

  return (guint)lmt_hash_bytes (word->text, word->len, lmt_hash_seed ());
}

static gboolean
word_equal (gconstpointer a, gconstpointer b)
{
  const Word *x = a, *y = b;

  return x->len == y->len && memcmp (x->text, y->text, x->len) == 0;
}

static void
counter_free (gpointer data)
{
  Counter *counter = data;

  g_clear_pointer (&counter->incarnations, g_array_unref);
  g_free (counter);
}

static void
counters_init (Counters *counters)
{
  counters->table = g_hash_table_new_full (word_hash, word_equal, NULL, counter_free);
}

/* NULL: one word more than is kept. */
static Counter *
counters_get (Counters *counters, const char *text, gsize len)
{
  Word probe = { text, len };
  Counter *counter = g_hash_table_lookup (counters->table, &probe);

  if (counter != NULL)
    return counter;
  if (g_hash_table_size (counters->table) >= EVENTS_INFO_MAX)
    {
      counters->left_out++;
      return NULL;
    }
  counter = g_malloc0 (sizeof *counter + len + 1);
  memcpy (counter->bytes, text, len);
  counter->word = (Word){ counter->bytes, len };
  g_hash_table_insert (counters->table, &counter->word, counter);
  return counter;
}

/* NUL parts the members of a batch's word, so byte order of the whole is the order of the tuples. */
static gint
compare_counters (gconstpointer a, gconstpointer b)
{
  const Counter *x = *(Counter *const *)a, *y = *(Counter *const *)b;
  gint order = memcmp (x->word.text, y->word.text, MIN (x->word.len, y->word.len));

  return order != 0 ? order : (x->word.len > y->word.len) - (x->word.len < y->word.len);
}

static GPtrArray *
counters_sorted (const Counters *counters)
{
  GPtrArray *list = g_ptr_array_sized_new (g_hash_table_size (counters->table));
  GHashTableIter iter;
  gpointer counter;

  g_hash_table_iter_init (&iter, counters->table);
  while (g_hash_table_iter_next (&iter, NULL, &counter))
    g_ptr_array_add (list, counter);
  g_ptr_array_sort (list, compare_counters);
  return list;
}

static void
counter_add_incarnation (EventsInfo *info, Counter *counter, Wide incarnation)
{
  guint at = 0;

  if (counter->incarnations == NULL)
    counter->incarnations = g_array_new (FALSE, FALSE, sizeof (Wide));
  at = counter->incarnations->len;
  while (at > 0 && g_array_index (counter->incarnations, Wide, at - 1) > incarnation)
    at--;
  if (at > 0 && g_array_index (counter->incarnations, Wide, at - 1) == incarnation)
    return;
  if (info->n_incarnations < EVENTS_INFO_INCARNATIONS_MAX)
    {
      g_array_insert_val (counter->incarnations, at, incarnation);
      info->n_incarnations++;
    }
  else
    info->incarnations_left_out++;
}

/* What the report misses; nothing, with any trace of a fleet. */
static guint64
left_out (const EventsInfo *info)
{
  return info->instances.left_out + info->batches.left_out + info->phases.left_out + info->incarnations_left_out;
}

/* ---------------- values, as LMCache takes them: str() and int() of whatever stands there ---------------- */

static void
append_wide (GString *out, Wide value)
{
  char digits[48];
  guint at = sizeof digits;
  gboolean negative = value < 0;

  do
    {
      gint digit = (gint)(value % 10);
      digits[--at] = (char)('0' + (digit < 0 ? -digit : digit));
      value /= 10;
    }
  while (value != 0);
  if (negative)
    digits[--at] = '-';
  g_string_append_len (out, digits + at, (gssize)(sizeof digits - at));
}

/* Words go to a terminal: controls are shown, not sent (which also keeps NUL out of a batch's word). */
static void
append_shown (GString *out, LmtSpan text)
{
  for (gsize i = 0; i < text.len; i++)
    if (text.data[i] < 0x20 || text.data[i] == 0x7f)
      g_string_append_printf (out, "\\x%02x", text.data[i]);
    else
      g_string_append_c (out, (char)text.data[i]);
}

static void
append_text (GString *out, LmtSpan value)
{
  LmtCursor cursor;
  LmtToken token;
  char buffer[32];

  lmt_cursor_init (&cursor, value);
  switch (lmt_cursor_next (&cursor, &token))
    {
    case LMT_TYPE_STR:
      append_shown (out, token.span);
      break;
    case LMT_TYPE_BIN:
      g_string_append (out, "b'");
      for (gsize i = 0; i < token.span.len; i++)
        {
          guint8 c = token.span.data[i];
          g_string_append_printf (out, c == '\\' || c == '\'' ? "\\%c" : c < 0x20 || c >= 0x7f ? "\\x%02x" : "%c", c);
        }
      g_string_append_c (out, '\'');
      break;
    case LMT_TYPE_NIL:
      g_string_append (out, "None");
      break;
    case LMT_TYPE_BOOL:
      g_string_append (out, token.v.b ? "True" : "False");
      break;
    case LMT_TYPE_UINT:
      append_wide (out, token.v.u);
      break;
    case LMT_TYPE_INT:
      append_wide (out, token.v.i);
      break;
    case LMT_TYPE_FLOAT:
      g_string_append (out, isfinite (token.v.f) ? lmt_json_format_double (token.v.f, buffer)
                            : isnan (token.v.f)  ? "nan"
                            : token.v.f > 0      ? "inf"
                                                 : "-inf");
      break;
    default:
      lmt_value_to_json (value, out);
      break;
    }
}

static gboolean
to_wide (LmtSpan value, Wide *out)
{
  LmtCursor cursor;
  LmtToken token;

  lmt_cursor_init (&cursor, value);
  switch (lmt_cursor_next (&cursor, &token))
    {
    case LMT_TYPE_UINT:
      *out = token.v.u;
      return TRUE;
    case LMT_TYPE_INT:
      *out = token.v.i;
      return TRUE;
    case LMT_TYPE_BOOL:
      *out = token.v.b;
      return TRUE;
    case LMT_TYPE_FLOAT:
      if (!(fabs (token.v.f) < 1e18))
        return FALSE;
      *out = (Wide)token.v.f;
      return TRUE;
    case LMT_TYPE_STR:
      {
        g_autofree char *text = g_strndup ((const char *)token.span.data, token.span.len);
        gint64 number;
        if (strlen (text) != token.span.len || !lmt_parse_int (g_strstrip (text), &number, NULL))
          return FALSE;
        *out = number;
        return TRUE;
      }
    default:
      return FALSE;
    }
}

/* Python's truth of a value. */
static gboolean
is_true (LmtSpan value)
{
  LmtCursor cursor;
  LmtToken token;

  lmt_cursor_init (&cursor, value);
  switch (lmt_cursor_next (&cursor, &token))
    {
    case LMT_TYPE_NIL:
      return FALSE;
    case LMT_TYPE_BOOL:
      return token.v.b;
    case LMT_TYPE_UINT:
      return token.v.u != 0;
    case LMT_TYPE_FLOAT:
      return token.v.f != 0;
    case LMT_TYPE_STR:
    case LMT_TYPE_BIN:
      return token.span.len > 0;
    case LMT_TYPE_ARRAY:
    case LMT_TYPE_MAP:
      return token.count > 0;
    default:
      return TRUE;
    }
}

/* ---------------- records ---------------- */

typedef struct
{
  LmtSpan instance_id, incarnation, event_type, tier, backend, shared, entries, phase;
} Members;

/* What isn't there stays empty. The last of equal keys counts. */
static void
read_members (LmtSpan args, Members *members)
{
  LmtCursor cursor;
  LmtSpan key, value;
  guint32 pairs;

  memset (members, 0, sizeof *members);
  lmt_cursor_init (&cursor, args);
  if (!lmt_cursor_read_map (&cursor, &pairs))
    return;
  for (guint32 i = 0; i < pairs; i++)
    {
      if (!lmt_cursor_read_str (&cursor, &key) || !lmt_cursor_skip_span (&cursor, &value))
        return;
      if (LMT_SPAN_IS (key, "instance_id"))
        members->instance_id = value;
      else if (LMT_SPAN_IS (key, "incarnation"))
        members->incarnation = value;
      else if (LMT_SPAN_IS (key, "event_type"))
        members->event_type = value;
      else if (LMT_SPAN_IS (key, "tier"))
        members->tier = value;
      else if (LMT_SPAN_IS (key, "backend"))
        members->backend = value;
      else if (LMT_SPAN_IS (key, "shared"))
        members->shared = value;
      else if (LMT_SPAN_IS (key, "entries"))
        members->entries = value;
      else if (LMT_SPAN_IS (key, "phase"))
        members->phase = value;
    }
}

static void
append_member (GString *out, LmtSpan value, const char *absent)
{
  if (value.len == 0)
    g_string_append (out, absent);
  else
    append_text (out, value);
}

static void
add_entry (EventsInfo *info, LmtCursor *cursor)
{
  LmtSpan entry, key, value;
  LmtCursor inside;
  guint32 pairs;
  Wide size = 0;
  gboolean tokens = FALSE;

  if (!lmt_cursor_skip_span (cursor, &entry))
    return;
  lmt_cursor_init (&inside, entry);
  if (!lmt_cursor_read_map (&inside, &pairs))
    {
      info->odd_values++;
      return;
    }
  for (guint32 i = 0; i < pairs; i++)
    {
      /* inside an entry a key may be anything */
      if (lmt_cursor_read_str (&inside, &key))
        {
          if (!lmt_cursor_skip_span (&inside, &value))
            return;
          if (LMT_SPAN_IS (key, "size_bytes"))
            {
              if (!to_wide (value, &size))
                info->odd_values++;
            }
          else if (LMT_SPAN_IS (key, "token_ids"))
            tokens = is_true (value);
        }
      else if (!lmt_cursor_skip (&inside) || !lmt_cursor_skip (&inside))
        return;
    }
  info->store_bytes += size;
  info->entries_with_tokens += tokens;
}

/* Number of entries; those of a store are looked into. */
static guint64
add_entries (EventsInfo *info, LmtSpan entries, gboolean store)
{
  LmtCursor cursor;
  guint32 n = 0;

  if (entries.len == 0 || !is_true (entries))
    return 0;
  lmt_cursor_init (&cursor, entries);
  if (!lmt_cursor_read_array (&cursor, &n))
    {
      info->odd_values++;
      return 0;
    }
  for (guint32 i = 0; store && i < n; i++)
    add_entry (info, &cursor);
  return n;
}

static Counter *
instance_counter (EventsInfo *info, LmtSpan instance)
{
  g_string_truncate (info->scratch, 0);
  append_member (info->scratch, instance, "?");
  return counters_get (&info->instances, info->scratch->str, info->scratch->len);
}

static Counter *
batch_counter (EventsInfo *info, const Members *members, gboolean *store)
{
  GString *scratch = info->scratch;

  g_string_truncate (scratch, 0);
  append_member (scratch, members->event_type, "?");
  *store = strcmp (scratch->str, "store") == 0;
  g_string_append_c (scratch, '\0');
  append_member (scratch, members->tier, "?");
  g_string_append_c (scratch, '\0');
  append_member (scratch, members->backend, "");
  g_string_append_c (scratch, '\0');
  g_string_append_c (scratch, members->shared.len > 0 && is_true (members->shared) ? '1' : '0');
  return counters_get (&info->batches, scratch->str, scratch->len);
}

static void
add_batch (EventsInfo *info, const Members *members)
{
  Counter *counter = instance_counter (info, members->instance_id);
  gboolean store;
  Wide incarnation = 0;

  if (members->incarnation.len > 0 && !to_wide (members->incarnation, &incarnation))
    info->odd_values++;
  else if (counter != NULL)
    counter_add_incarnation (info, counter, incarnation);

  counter = batch_counter (info, members, &store);
  guint64 n = add_entries (info, members->entries, store);
  if (counter == NULL)
    return;
  counter->count++;
  counter->entries += n;
}

/* ---------------- records that were walked ---------------- */

/* The slot for these bytes; its counter is NULL if they are new there. NULL: too long for one. */
static MemoSlot *
memo_slot (MemoSlot *slots, const guint8 *bytes, gsize len)
{
  MemoSlot *slot;

  if (len > MEMO_BYTES)
    return NULL;
  slot = &slots[lmt_hash_bytes (bytes, len, 0) % MEMO_SLOTS];
  if (slot->len != len || memcmp (slot->bytes, bytes, len) != 0)
    {
      slot->counter = NULL;
      slot->len = (guint32)len;
      memcpy (slot->bytes, bytes, len);
    }
  return slot;
}

/* add_batch() of what the walk saw. */
static void
add_seen (EventsInfo *info, const EventsSeen *seen)
{
  const guint8 *kind = seen->event_type.data; /* event_type, tier and backend stand one behind the other */
  MemoSlot *slot = memo_slot (info->instance_memo, seen->instance.data, seen->instance.len);
  Counter *counter = slot != NULL ? slot->counter : NULL;

  if (counter == NULL)
    counter = instance_counter (info, seen->instance);
  if (slot != NULL)
    slot->counter = counter;
  if (counter != NULL)
    counter_add_incarnation (info, counter, seen->incarnation);

  slot = memo_slot (info->batch_memo[seen->shared], kind, (gsize)(seen->backend.data + seen->backend.len - kind));
  counter = slot != NULL ? slot->counter : NULL;
  if (counter == NULL)
    {
      const Members members = { .event_type = seen->event_type,
                                .tier = seen->tier,
                                .backend = seen->backend,
                                .shared = { (const guint8 *)(seen->shared ? "\xc3" : "\xc2"), 1 } };
      gboolean store;

      counter = batch_counter (info, &members, &store);
    }
  if (slot != NULL)
    slot->counter = counter;
  if (seen->store)
    {
      info->store_bytes += seen->bytes;
      info->entries_with_tokens += seen->n_tokens;
    }
  if (counter == NULL)
    return;
  counter->count++;
  counter->entries += seen->n_entries;
}

const guint8 *
events_info_walk (gpointer data, LmtSpan qualname, const guint8 *args, const guint8 *end)
{
  EventsInfo *info = data;

  return LMT_SPAN_IS (qualname, "events.batch") ? events_walk_batch (args, end, &info->seen) : NULL;
}

gpointer
events_info_new (const LmtHeader *header)
{
  EventsInfo *info = g_new0 (EventsInfo, 1);

  counters_init (&info->instances);
  counters_init (&info->batches);
  counters_init (&info->phases);
  info->scratch = g_string_sized_new (512);
  return info;
}

void
events_info_free (gpointer data)
{
  EventsInfo *info = data;

  g_hash_table_unref (info->instances.table);
  g_hash_table_unref (info->batches.table);
  g_hash_table_unref (info->phases.table);
  g_string_free (info->scratch, TRUE);
  g_free (info);
}

void
events_info_record (gpointer data, const LmtRecord *record)
{
  EventsInfo *info = data;
  Members members;

  if (record->walked)
    add_seen (info, &info->seen);
  else if (LMT_SPAN_IS (record->qualname, "events.batch"))
    {
      read_members (record->args, &members);
      add_batch (info, &members);
    }
  else if (LMT_SPAN_IS (record->qualname, "events.lifecycle"))
    {
      read_members (record->args, &members);
      g_string_truncate (info->scratch, 0);
      append_member (info->scratch, members.phase, "?");
      Counter *counter = counters_get (&info->phases, info->scratch->str, info->scratch->len);
      if (counter != NULL)
        counter->count++;
    }
}

static gboolean
member_passes (EventsInfo *info, const LmtSelect *select, const char *kind, LmtSpan value, const char *absent)
{
  g_string_truncate (info->scratch, 0);
  append_member (info->scratch, value, absent);
  return lmt_select_word (select, kind, info->scratch->str, info->scratch->len);
}

gboolean
events_info_select (gpointer data, const LmtRecord *record, const LmtSelect *select)
{
  EventsInfo *info = data;
  Members members;

  read_members (record->args, &members);
  if (!member_passes (info, select, "instance", members.instance_id, "?"))
    return FALSE;
  if (!LMT_SPAN_IS (record->qualname, "events.batch")) /* a mark has no tier: it goes with its instance */
    return TRUE;
  return member_passes (info, select, "event-type", members.event_type, "?")
         && member_passes (info, select, "tier", members.tier, "?")
         && member_passes (info, select, "backend", members.backend, "");
}

/* ---------------- the block ---------------- */

static void
append_line (GString *out, const char *label, Wide value)
{
  g_string_append_printf (out, "    %-28s", label);
  append_wide (out, value);
  g_string_append_c (out, '\n');
}

static void
append_instances (GString *out, GPtrArray *instances)
{
  for (guint i = 0; i < instances->len; i++)
    {
      const Counter *counter = instances->pdata[i];
      guint n = counter->incarnations != NULL ? counter->incarnations->len : 0;

      g_string_append_printf (out, "      %.*s: incarnations=[", (int)counter->word.len, counter->word.text);
      for (guint k = 0; k < n; k++)
        {
          g_string_append (out, k > 0 ? ", " : "");
          append_wide (out, g_array_index (counter->incarnations, Wide, k));
        }
      g_string_append_printf (out, "] restarts=%u\n", MAX (n, 1) - 1);
    }
}

/* The four members of a batch's word. */
static void
split_batch (const Counter *counter, const char *part[4])
{
  part[0] = counter->word.text;
  for (guint i = 1; i < 4; i++)
    part[i] = part[i - 1] + strlen (part[i - 1]) + 1;
}

/* Entries per event type, in the order of the sorted batches: equal types stand together. */
static void
foreach_type (GPtrArray *batches, void (*func) (const char *type, guint64 entries, gpointer data), gpointer data)
{
  for (guint i = 0; i < batches->len;)
    {
      const Counter *first = batches->pdata[i];
      guint64 sum = 0;

      for (; i < batches->len && strcmp (((Counter *)batches->pdata[i])->word.text, first->word.text) == 0; i++)
        sum += ((Counter *)batches->pdata[i])->entries;
      func (first->word.text, sum, data);
    }
}

static void
append_type (const char *type, guint64 entries, gpointer data)
{
  g_string_append_printf (data, "      %s: %" G_GUINT64_FORMAT "\n", type, entries);
}

static void
write_type (const char *type, guint64 entries, gpointer data)
{
  lmt_json_writer_key (data, type);
  lmt_json_writer_uint (data, entries);
}

static void
append_text_block (const EventsInfo *info, GPtrArray *instances, GPtrArray *batches, GPtrArray *phases, GString *out)
{
  const char *part[4];

  g_string_append (out, "  events:\n");
  append_line (out, "instances:", instances->len);
  append_instances (out, instances);
  g_string_append (out, "    batches (type/tier/backend/shared):\n");
  for (guint i = 0; i < batches->len; i++)
    {
      const Counter *counter = batches->pdata[i];
      split_batch (counter, part);
      g_string_append_printf (out, "      %s/%s/%s/%s: %" G_GUINT64_FORMAT "\n", part[0], part[1],
                              *part[2] != '\0' ? part[2] : "-", *part[3] == '1' ? "shared" : "local", counter->count);
    }
  g_string_append (out, "    entries:\n");
  foreach_type (batches, append_type, out);
  append_line (out, "store_bytes:", info->store_bytes);
  append_line (out, "entries_with_tokens:", info->entries_with_tokens);
  if (phases->len > 0)
    {
      g_string_append_printf (out, "    %-28s", "lifecycle:");
      for (guint i = 0; i < phases->len; i++)
        {
          const Counter *counter = phases->pdata[i];
          g_string_append_printf (out, "%s%.*s=%" G_GUINT64_FORMAT, i > 0 ? ", " : "", (int)counter->word.len, counter->word.text,
                                  counter->count);
        }
      g_string_append_c (out, '\n');
    }
  if (info->odd_values > 0)
    append_line (out, "values_not_counted:", info->odd_values);
  if (left_out (info) > 0)
    append_line (out, "names_left_out:", left_out (info));
}

/* A sum beyond 64 bits can't be a JSON integer everybody reads: it goes as text. */
static void
write_wide (LmtJsonWriter *json, Wide value)
{
  if (value >= 0 && value <= (Wide)G_MAXUINT64)
    lmt_json_writer_uint (json, (guint64)value);
  else if (value < 0 && value >= G_MININT64)
    lmt_json_writer_int (json, (gint64)value);
  else
    {
      g_autoptr (GString) text = g_string_new (NULL);
      append_wide (text, value);
      lmt_json_writer_string (json, text->str);
    }
}

static void
write_json (const EventsInfo *info, GPtrArray *instances, GPtrArray *batches, GPtrArray *phases, LmtJsonWriter *json)
{
  const char *part[4];

  lmt_json_writer_key (json, "events");
  lmt_json_writer_begin_object (json);
  lmt_json_writer_key (json, "instances");
  lmt_json_writer_begin_array (json);
  for (guint i = 0; i < instances->len; i++)
    {
      const Counter *counter = instances->pdata[i];
      lmt_json_writer_begin_object (json);
      lmt_json_writer_key (json, "instance_id");
      lmt_json_writer_string_len (json, counter->word.text, counter->word.len);
      lmt_json_writer_key (json, "incarnations");
      lmt_json_writer_begin_array (json);
      for (guint k = 0; counter->incarnations != NULL && k < counter->incarnations->len; k++)
        write_wide (json, g_array_index (counter->incarnations, Wide, k));
      lmt_json_writer_end_array (json);
      lmt_json_writer_end_object (json);
    }
  lmt_json_writer_end_array (json);
  lmt_json_writer_key (json, "batches");
  lmt_json_writer_begin_array (json);
  for (guint i = 0; i < batches->len; i++)
    {
      const Counter *counter = batches->pdata[i];
      split_batch (counter, part);
      lmt_json_writer_begin_object (json);
      for (guint k = 0; k < 3; k++)
        {
          static const char *const names[] = { "event_type", "tier", "backend" };
          lmt_json_writer_key (json, names[k]);
          lmt_json_writer_string (json, part[k]);
        }
      lmt_json_writer_key (json, "shared");
      lmt_json_writer_bool (json, *part[3] == '1');
      lmt_json_writer_key (json, "count");
      lmt_json_writer_uint (json, counter->count);
      lmt_json_writer_key (json, "entries");
      lmt_json_writer_uint (json, counter->entries);
      lmt_json_writer_end_object (json);
    }
  lmt_json_writer_end_array (json);
  lmt_json_writer_key (json, "entries");
  lmt_json_writer_begin_object (json);
  foreach_type (batches, write_type, json);
  lmt_json_writer_end_object (json);
  lmt_json_writer_key (json, "store_bytes");
  write_wide (json, info->store_bytes);
  lmt_json_writer_key (json, "entries_with_tokens");
  lmt_json_writer_uint (json, info->entries_with_tokens);
  lmt_json_writer_key (json, "lifecycle");
  lmt_json_writer_begin_object (json);
  for (guint i = 0; i < phases->len; i++)
    {
      const Counter *counter = phases->pdata[i];
      lmt_json_writer_key (json, counter->word.text);
      lmt_json_writer_uint (json, counter->count);
    }
  lmt_json_writer_end_object (json);
  lmt_json_writer_key (json, "values_not_counted");
  lmt_json_writer_uint (json, info->odd_values);
  lmt_json_writer_key (json, "names_left_out");
  lmt_json_writer_uint (json, left_out (info));
  lmt_json_writer_end_object (json);
}

void
events_info_finish (gpointer data, const LmtInfoOut *out)
{
  EventsInfo *info = data;
  g_autoptr (GPtrArray) instances = counters_sorted (&info->instances);
  g_autoptr (GPtrArray) batches = counters_sorted (&info->batches);
  g_autoptr (GPtrArray) phases = counters_sorted (&info->phases);

  if (out->text != NULL)
    append_text_block (info, instances, batches, phases, out->text);
  if (out->json != NULL)
    write_json (info, instances, batches, phases, out->json);
}
