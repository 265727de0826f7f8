// SPDX-License-Identifier: Apache-2.0
#include "storage-keys.h"

#include <lmtrace/lmt-hash.h>

#include "storage-codecs.h"

void
sm_key_reader_init (SmKeyReader *reader, LmtKeyTable *table)
{
  memset (reader, 0, sizeof *reader);
  reader->table = table;
}

static void
release (SmKeyReader *reader, LmtKey **keys, guint from, guint n)
{
  for (guint i = from; i < n; i++)
    if (keys[i] != NULL)
      lmt_key_unref (reader->table, keys[i]);
}

void
sm_key_reader_clear (SmKeyReader *reader)
{
  release (reader, reader->owned, 0, reader->n_owned);
  release (reader, reader->before, 0, reader->n_before);
  sm_known_clear (&reader->known, reader->table);
  g_free (reader->keys);
  g_free (reader->ends);
  g_free (reader->owned);
  g_free (reader->before);
  g_free (reader->lists);
  if (reader->own != NULL)
    g_byte_array_unref (reader->own);
  memset (reader, 0, sizeof *reader);
}

void
sm_key_reader_set_tenant (SmKeyReader *reader, guint64 number)
{
  reader->mask = lmt_mix64 (number);
  if (reader->own == NULL)
    reader->own = g_byte_array_sized_new (64);
}

void
sm_key_reader_begin (SmKeyReader *reader)
{
  LmtKey **owned = reader->before;
  guint max = reader->max_before;
  reader->before = reader->owned;
  reader->max_before = reader->max_owned;
  reader->n_before = reader->n_owned;
  reader->owned = owned;
  reader->max_owned = max;
  reader->n_owned = 0;
  reader->n_keys = 0;
  reader->n_lists = 0;
  reader->hint = 0;
  sm_known_next (&reader->known);
}

void
sm_key_reader_end (SmKeyReader *reader, gboolean keep)
{
  reader->n_pending = 0;
  release (reader, reader->before, 0, reader->n_before);
  reader->n_before = 0;
  if (keep)
    return;
  release (reader, reader->owned, 0, reader->n_owned);
  reader->n_owned = 0;
  reader->n_keys = 0;
  reader->n_lists = 0;
}

/* An integer in any of its forms; NULL: something else, or cut. */
static inline const guint8 *
fast_int (const guint8 *p, const guint8 *end, guint64 *value)
{
  if (G_UNLIKELY (p >= end))
    return NULL;
  guint8 head = *p++;
  if (head < 0x80)
    {
      *value = head;
      return p;
    }
  if (head < 0xcc || head > 0xcf)
    return NULL; /* negative: the general way judges it */
  guint bytes = 1u << (head - 0xcc);
  guint16 u16;
  guint32 u32;
  guint64 u64;
  if (G_UNLIKELY ((gsize)(end - p) < bytes))
    return NULL;
  switch (bytes)
    {
    case 1:
      *value = *p;
      break;
    case 2:
      memcpy (&u16, p, sizeof u16);
      *value = GUINT16_FROM_BE (u16);
      break;
    case 4:
      memcpy (&u32, p, sizeof u32);
      *value = GUINT32_FROM_BE (u32);
      break;
    default:
      memcpy (&u64, p, sizeof u64);
      *value = GUINT64_FROM_BE (u64);
    }
  return p + bytes;
}

#define RUN_HEAD "\x82\xa5__t__\xa9ObjectKey\xa1v"
#define RUN_HASH                                                                                                                 \
  "\xaa"                                                                                                                         \
  "chunk_hash\xc4"
#define RUN_MODEL                                                                                                                \
  "\xaa"                                                                                                                         \
  "model_name"
#define RUN_RANK "\xa7kv_rank"
#define RUN_GROUP                                                                                                                \
  "\xaf"                                                                                                                         \
  "object_group_id"
enum
{
  HEAD_BYTES = sizeof (RUN_HEAD) - 1,
  HASH_BYTES = sizeof (RUN_HASH) - 1,
  MODEL_BYTES = sizeof (RUN_MODEL) - 1,
  RANK_BYTES = sizeof (RUN_RANK) - 1,
  GROUP_BYTES = sizeof (RUN_GROUP) - 1,
};

gboolean
sm_object_key_fast (LmtCursor *cursor, LmtKeyFields *fields, gboolean *has_group)
{
  const guint8 *p = cursor->pos;
  const guint8 *end = cursor->end;
  if (end - p < HEAD_BYTES + 1 + HASH_BYTES + 1 || memcmp (p, RUN_HEAD, HEAD_BYTES) != 0)
    return FALSE;
  p += HEAD_BYTES;
  guint8 members = *p++;
  if ((members != 0x84 && members != 0x83) || memcmp (p, RUN_HASH, HASH_BYTES) != 0)
    return FALSE;
  p += HASH_BYTES;
  guint32 hash_len = *p++;
  if (end - p < (gssize)hash_len + MODEL_BYTES + 1)
    return FALSE;
  fields->hash = p;
  fields->hash_len = hash_len;
  p += hash_len;
  if (memcmp (p, RUN_MODEL, MODEL_BYTES) != 0)
    return FALSE;
  p += MODEL_BYTES;
  guint32 model_len;
  if ((*p & 0xe0) == 0xa0)
    model_len = *p++ & 0x1f;
  else if (*p == 0xd9 && end - p >= 2)
    {
      model_len = p[1];
      p += 2;
    }
  else
    return FALSE;
  if (end - p < (gssize)model_len + RANK_BYTES)
    return FALSE;
  fields->model = (const char *)p;
  fields->model_len = model_len;
  p += model_len;
  if (memcmp (p, RUN_RANK, RANK_BYTES) != 0)
    return FALSE;
  p = fast_int (p + RANK_BYTES, end, &fields->rank);
  if (p == NULL)
    return FALSE;
  guint64 group = 0;
  if (members == 0x84)
    {
      if (end - p < GROUP_BYTES || memcmp (p, RUN_GROUP, GROUP_BYTES) != 0)
        return FALSE;
      p = fast_int (p + GROUP_BYTES, end, &group);
      if (p == NULL || group > G_MAXUINT32)
        return FALSE;
    }
  fields->group = (guint32)group;
  *has_group = members == 0x84;
  cursor->pos = p;
  return TRUE;
}

/* Looks up what waits. */
static void
flush (SmKeyReader *reader)
{
  LmtKey *found[SM_KEYS_AHEAD];
  lmt_key_table_intern_many (reader->table, reader->pending, reader->n_pending, found);
  for (guint i = 0; i < reader->n_pending; i++)
    reader->keys[reader->pending_at[i]] = found[i];
  reader->n_pending = 0;
}

static void
grow_keys (SmKeyReader *reader, guint wanted)
{
  reader->max_keys = MAX (MAX (64, wanted), reader->max_keys * 2);
  reader->keys = g_renew (LmtKey *, reader->keys, reader->max_keys);
  reader->ends = g_renew (guint32, reader->ends, reader->max_keys);
}

/* The tenant's hash: of the same length (8 bytes at least), first 8 bytes exclusive-or the tenant's mask. Two tenants' masks
 * differ, so one recorded key never gives equal keys. */
static LmtKeyFields
make_own (SmKeyReader *reader, const LmtKeyFields *fields)
{
  LmtKeyFields own = *fields;
  guint64 head = 0;

  own.hash_len = (guint32)MAX (fields->hash_len, sizeof head);
  g_byte_array_set_size (reader->own, own.hash_len);
  memset (reader->own->data, 0, sizeof head);
  memcpy (reader->own->data, fields->hash, fields->hash_len);
  memcpy (&head, reader->own->data, sizeof head);
  head ^= GUINT64_TO_LE (reader->mask);
  memcpy (reader->own->data, &head, sizeof head);
  own.hash = reader->own->data;
  return own;
}

/* @end: of its bytes, from the start of the list. */
static inline void
take (SmKeyReader *reader, const LmtKeyFields *fields, gsize end)
{
  guint i = reader->n_keys++;
  if (G_UNLIKELY (i == reader->max_keys))
    grow_keys (reader, i + 1);
  reader->ends[i] = (guint32)MIN (end, G_MAXUINT32);
  if (G_UNLIKELY (reader->mask != 0))
    {
      /* The one buffer of an altered hash can't wait. */
      LmtKeyFields own = make_own (reader, fields);
      reader->keys[i] = lmt_key_table_intern (reader->table, &own);
      return;
    }
  reader->keys[i] = NULL;
  reader->pending_at[reader->n_pending] = i;
  reader->pending[reader->n_pending++] = *fields;
  if (reader->n_pending == SM_KEYS_AHEAD)
    flush (reader);
}

/* Nothing of a list that could not be read stays. */
static void
drop_list (SmKeyReader *reader, const SmKeyList *list)
{
  reader->n_pending = 0; /* all of this list: each one ends with a flush */
  release (reader, reader->keys, list->first, reader->n_keys);
  reader->n_keys = list->first;
}

/* The list was read, from @data on: it is known from now on, or its keys are held for this record. */
static void
own_list (SmKeyReader *reader, const guint8 *data, const SmKeyList *list)
{
  LmtKey **keys = reader->keys + list->first;
  if (list->n == 0
      || sm_known_add (&reader->known, reader->table, reader->mask, data, keys, reader->ends + list->first, list->n,
                       list->n_grouped, list->n_salted))
    return;
  if (reader->max_owned - reader->n_owned < list->n)
    {
      reader->max_owned = MAX (reader->n_owned + list->n, 2 * reader->max_owned);
      reader->owned = g_renew (LmtKey *, reader->owned, reader->max_owned);
    }
  memcpy (reader->owned + reader->n_owned, keys, list->n * sizeof *keys);
  reader->n_owned += list->n;
}

/* Elements from @cursor on that are a list met before: no look at a key. Else FALSE, and as many as begin a known list are taken.
 */
static gboolean
read_known (SmKeyReader *reader, LmtCursor *cursor, guint32 n, SmKeyList *list)
{
  const SmKnownList *begins;
  gsize room = (gsize)(cursor->end - cursor->pos);
  const SmKnownList *known = sm_known_find (&reader->known, reader->mask, cursor->pos, room, n, &begins);
  list->first = reader->n_keys;
  list->n = n;
  list->n_grouped = list->n_salted = 0;
  if (known == NULL && begins == NULL)
    return FALSE;
  guint32 most = MIN (n, known != NULL ? known->n : begins->n), i = 0;
  if (reader->max_keys - reader->n_keys < most)
    grow_keys (reader, reader->n_keys + most);
  if (known != NULL)
    {
      memcpy (reader->keys + reader->n_keys, known->keys, n * sizeof (LmtKey *));
      reader->n_keys += n;
      list->n_grouped = known->n_grouped;
      list->n_salted = known->n_salted;
      cursor->pos += known->len;
      return TRUE;
    }
  if ((begins->n_grouped != 0 && begins->n_grouped != begins->n) || (begins->n_salted != 0 && begins->n_salted != begins->n))
    return FALSE; /* which of the keys have them isn't known */
  for (guint32 at = 0; i < most && begins->ends[i] <= room; at = begins->ends[i++])
    {
      if (memcmp (begins->bytes + at, cursor->pos + at, begins->ends[i] - at) != 0)
        break;
      reader->ends[reader->n_keys] = begins->ends[i];
      reader->keys[reader->n_keys++] = lmt_key_ref (begins->keys[i]);
    }
  if (i > 0)
    cursor->pos += begins->ends[i - 1];
  list->n_grouped = begins->n_grouped != 0 ? i : 0;
  list->n_salted = begins->n_salted != 0 ? i : 0;
  return FALSE;
}

/* Name without @? The last good one is remembered: a trace has few. Its bytes then stand for the name, so that keys that wait
 * can be told to have the same one by their pointers. */
static inline gboolean
model_is_good (SmKeyReader *reader, LmtKeyFields *fields)
{
  if (fields->model_len != reader->model_len || memcmp (fields->model, reader->model, reader->model_len) != 0)
    {
      if (memchr (fields->model, '@', fields->model_len) != NULL)
        return FALSE;
      if (fields->model_len > sizeof reader->model)
        return TRUE;
      flush (reader);
      memcpy (reader->model, fields->model, fields->model_len);
      reader->model_len = fields->model_len;
    }
  fields->model = reader->model;
  return TRUE;
}

/* Elements of a list from @cursor on, all in their usual bytes. Nothing stays if one isn't. */
static gboolean
read_fast (SmKeyReader *reader, LmtCursor *cursor, guint32 n, SmKeyList *list)
{
  LmtKeyFields fields = { .struct_size = sizeof fields, .salt = "" };
  const guint8 *data = cursor->pos;
  if (read_known (reader, cursor, n, list))
    return TRUE;
  for (guint32 i = reader->n_keys - list->first; i < n; i++)
    {
      gboolean has_group = FALSE;
      if (!sm_object_key_fast (cursor, &fields, &has_group) || !model_is_good (reader, &fields))
        {
          drop_list (reader, list);
          return FALSE;
        }
      list->n_grouped += has_group;
      take (reader, &fields, (gsize)(cursor->pos - data));
    }
  flush (reader);
  own_list (reader, data, list);
  return TRUE;
}

static void
remember (SmKeyReader *reader, const SmKeyList *list)
{
  if (reader->n_lists == reader->max_lists)
    {
      reader->max_lists = MAX (16, reader->max_lists * 2);
      reader->lists = g_renew (SmKeyList, reader->lists, reader->max_lists);
    }
  reader->lists[reader->n_lists++] = *list;
}

/* Lists are remembered in the order of their bytes and asked for in the same: the hint nearly always hits. */
static const SmKeyList *
recall (SmKeyReader *reader, const guint8 *start)
{
  if (reader->hint < reader->n_lists && reader->lists[reader->hint].start == start)
    return &reader->lists[reader->hint++];
  guint low = 0, high = reader->n_lists;
  while (low < high)
    {
      guint mid = (low + high) / 2;
      if (reader->lists[mid].start < start)
        low = mid + 1;
      else
        high = mid;
    }
  if (low == reader->n_lists || reader->lists[low].start != start)
    return NULL;
  reader->hint = low + 1;
  return &reader->lists[low];
}

/* May a list be remembered here? Only behind the last one, so that the array stays sorted. */
static gboolean
is_behind_last (const SmKeyReader *reader, const guint8 *start)
{
  return reader->n_lists == 0 || reader->lists[reader->n_lists - 1].start < start;
}

/* The short forms, which are nearly all of a record: -1: another form, or cut; else how many values follow in its place. */
static inline gint
skip_short (LmtCursor *cursor)
{
  const guint8 *p = cursor->pos;
  gsize room = (gsize)(cursor->end - p), size = 1;
  if (room == 0)
    return -1;
  guint8 head = *p;
  if (head < 0x80 || head >= 0xe0 || head == 0xc0 || head == 0xc2 || head == 0xc3) /* small integers, nil, bool */
    size = 1;
  else if (head < 0x90) /* map */
    {
      cursor->pos++;
      return 2 * (head & 0x0f);
    }
  else if (head < 0xa0) /* array: maybe one of keys */
    return -1;
  else if (head < 0xc0) /* str */
    size = 1 + (gsize)(head & 0x1f);
  else if (head >= 0xcc && head <= 0xcf) /* unsigned */
    size = 1 + ((gsize)1 << (head - 0xcc));
  else
    return -1;
  if (size > room)
    return -1;
  cursor->pos += size;
  return 0;
}

/* A list of keys just behind its head at @start: read at once, or known already. FALSE: an ordinary array. */
static gboolean
skip_keys (SmKeyReader *reader, LmtCursor *cursor, const guint8 *start, guint32 n)
{
  if (cursor->end - cursor->pos <= HEAD_BYTES || memcmp (cursor->pos, RUN_HEAD, HEAD_BYTES) != 0)
    return FALSE;
  const SmKeyList *known = recall (reader, start);
  SmKeyList list = { .start = start };
  LmtCursor ahead = *cursor;
  if (known != NULL)
    {
      cursor->pos = known->end;
      reader->hint = (guint)(known - reader->lists); /* this was no use of the list */
      return TRUE;
    }
  if (!is_behind_last (reader, start) || !read_fast (reader, &ahead, n, &list))
    return FALSE;
  list.end = cursor->pos = ahead.pos;
  remember (reader, &list);
  return TRUE;
}

gboolean
sm_key_reader_skip (SmKeyReader *reader, LmtCursor *cursor)
{
  LmtToken token;
  for (guint64 left = 1; left > 0; left--)
    {
      const guint8 *start = cursor->pos;
      gint more = skip_short (cursor);
      if (more >= 0)
        {
          left += (guint)more;
          continue;
        }
      switch (lmt_cursor_next (cursor, &token))
        {
        case LMT_TYPE_NONE:
        case LMT_TYPE_ERROR:
          return FALSE;
        case LMT_TYPE_MAP:
          left += (guint64)token.count * 2;
          break;
        case LMT_TYPE_ARRAY:
          if (reader == NULL || !skip_keys (reader, cursor, start, token.count))
            left += token.count;
          break;
        default:
          break;
        }
    }
  return TRUE;
}

/* One element in whatever bytes. */
static gboolean
read_element (SmKeyReader *reader, LmtCursor *cursor, const guint8 *data, SmKeyList *list, LmtFault *fault)
{
  LmtKeyFields fields = { .struct_size = sizeof fields, .salt = "" };
  gboolean has_group = FALSE;
  LmtCursor ahead = *cursor;
  LmtSpan payload;
  SmObjectKey key;
  if (sm_object_key_fast (&ahead, &fields, &has_group) && model_is_good (reader, &fields))
    {
      *cursor = ahead;
      list->n_grouped += has_group;
      take (reader, &fields, (gsize)(cursor->pos - data));
      return TRUE;
    }
  if (!sm_expect_tag (cursor, "ObjectKey", &payload, NULL, "keys holds something else than ObjectKey", fault))
    return FALSE;
  LmtCursor inner = sm_cursor (payload);
  if (!sm_read_object_key (&inner, &key, fault))
    return FALSE;
  list->n_grouped += key.has_group;
  list->n_salted += key.has_salt;
  take (reader, &key.fields, (gsize)(cursor->pos - data));
  return TRUE;
}

static gboolean
read_slow (SmKeyReader *reader, LmtCursor *cursor, guint32 n, const char *where, SmKeyList *list, LmtFault *fault)
{
  const guint8 *data = cursor->pos;
  if (read_known (reader, cursor, n, list))
    return TRUE;
  for (guint32 i = reader->n_keys - list->first; i < n; i++)
    if (!read_element (reader, cursor, data, list, fault))
      {
        fault->where = where;
        fault->index = i;
        drop_list (reader, list);
        return FALSE;
      }
  flush (reader);
  own_list (reader, data, list);
  return TRUE;
}

gboolean
sm_key_reader_read (SmKeyReader *reader, LmtSpan value, const char *where, const char *not_array, SmKeyList *list,
                    LmtFault *fault)
{
  const SmKeyList *known = recall (reader, value.data);
  if (known != NULL)
    {
      *list = *known;
      return TRUE;
    }
  LmtCursor cursor = sm_cursor (value);
  guint32 n;
  if (!sm_enter_array (&cursor, &n, NULL, not_array, fault))
    return FALSE;
  return read_slow (reader, &cursor, n, where, list, fault);
}
