/* SPDX-License-Identifier: Apache-2.0 */
#include "lmt-key.h"

#include <string.h>

#include "lmt-hash.h"
#include "lmt-pages.h"

/* ---------------------------------------------------------------- rules and texts */

const char *
lmt_key_fields_check (const LmtKeyFields *fields)
{
  gsize characters = 0;

  if (fields->model_len > 0 && memchr (fields->model, '@', fields->model_len) != NULL)
    return "model_name contains @";
  for (guint32 i = 0; i < fields->salt_len; i++)
    {
      switch (fields->salt[i])
        {
        case '@':
          return "cache_salt contains @";
        case '/':
          return "cache_salt contains /";
        case '\\':
          return "cache_salt contains \\";
        case '\0':
          return "cache_salt contains NUL";
        default:
          characters += ((guint8)fields->salt[i] & 0xC0) != 0x80;
        }
    }
  if (characters > 128)
    return "cache_salt is longer than 128 characters";
  return NULL;
}

/* Appends to memory that is known to be large enough. */
typedef struct
{
  char *at;
} Pen;

static void
pen_bytes (Pen *pen, const char *text, gsize len)
{
  if (len == 0) /* an empty field may have no bytes at all */
    return;
  memcpy (pen->at, text, len);
  pen->at += len;
}

static void
pen_hex (Pen *pen, guint64 value, guint min_digits)
{
  static const char digits[] = "0123456789abcdef";
  guint n = 1;

  while (n < 16 && (value >> (4 * n)) != 0)
    n++;
  n = MAX (n, min_digits);
  for (guint i = 0; i < n; i++)
    pen->at[i] = digits[(value >> (4 * (n - 1 - i))) & 15];
  pen->at += n;
}

static void
pen_hash (Pen *pen, const guint8 *hash, gsize len)
{
  static const char digits[] = "0123456789abcdef";

  for (gsize i = 0; i < len; i++)
    {
      *pen->at++ = digits[hash[i] >> 4];
      *pen->at++ = digits[hash[i] & 15];
    }
}

/* Most bytes either text can take, the NUL included. Many keys have a text each: no more than that. */
static gsize
text_bound (const LmtKeyFields *fields)
{
  const gsize others = sizeof "@0x0123456789abcdef@01234567@@.data";
  gsize model = fields->model_len;

  for (guint32 i = 0; i < fields->model_len; i++)
    model += fields->model[i] == '/' ? strlen ("-SEP-") - 1 : 0;
  return model + fields->salt_len + 2 * (gsize)fields->hash_len + others;
}

static guint32
write_text (const LmtKeyFields *fields, gboolean file, char *out)
{
  Pen pen = { out };

  if (!file)
    pen_bytes (&pen, fields->model, fields->model_len);
  else
    for (guint32 i = 0; i < fields->model_len; i++)
      {
        if (fields->model[i] == '/')
          pen_bytes (&pen, "-SEP-", 5);
        else
          *pen.at++ = fields->model[i];
      }
  pen_bytes (&pen, file ? "@0x" : "@", file ? 3 : 1);
  pen_hex (&pen, fields->rank, 8);
  *pen.at++ = '@';
  pen_hex (&pen, fields->group, 1);
  *pen.at++ = '@';
  pen_hash (&pen, fields->hash, fields->hash_len);
  if (fields->salt_len > 0)
    {
      *pen.at++ = '@';
      pen_bytes (&pen, fields->salt, fields->salt_len);
    }
  if (file)
    pen_bytes (&pen, ".data", 5);
  *pen.at = '\0';
  return (guint32)(pen.at - out);
}

static void
fields_text (const LmtKeyFields *fields, gboolean file, GString *out)
{
  g_string_set_size (out, text_bound (fields));
  g_string_set_size (out, write_text (fields, file, out->str));
}

void
lmt_key_fields_wire (const LmtKeyFields *fields, GString *out)
{
  fields_text (fields, FALSE, out);
}

void
lmt_key_fields_file (const LmtKeyFields *fields, GString *out)
{
  fields_text (fields, TRUE, out);
}

void
lmt_key_owned_clear (LmtKeyOwned *owned)
{
  g_free (owned->hash);
  g_free (owned->model);
  g_free (owned->salt);
  memset (owned, 0, sizeof *owned);
}

/* Lower-case hex up to 64 bits. What encode wouldn't write (leading zeros and the like) is found by encoding again. */
static gboolean
parse_hex (const char *text, gsize len, guint64 *value)
{
  guint64 v = 0;

  if (len == 0 || len > 16)
    return FALSE;
  for (gsize i = 0; i < len; i++)
    {
      if (!g_ascii_isxdigit (text[i]) || g_ascii_isupper (text[i]))
        return FALSE;
      v = v << 4 | (guint64)g_ascii_xdigit_value (text[i]);
    }
  *value = v;
  return TRUE;
}

static gboolean
parse_hash (const char *text, gsize len, guint8 *hash)
{
  if (len % 2 != 0)
    return FALSE;
  for (gsize i = 0; i < len; i += 2)
    {
      guint64 byte;
      if (!parse_hex (text + i, 2, &byte))
        return FALSE;
      hash[i / 2] = (guint8)byte;
    }
  return TRUE;
}

static gboolean
key_from_text (const char *text, gsize len, gboolean file, LmtKeyOwned *owned)
{
  const char *part[5];
  gsize part_len[5];
  guint n = 0;
  gsize body = len;
  guint64 rank, group;
  LmtKeyFields *fields = &owned->fields;

  memset (owned, 0, sizeof *owned);
  if (file)
    {
      if (len < 5 || memcmp (text + len - 5, ".data", 5) != 0)
        return FALSE;
      body = len - 5;
    }
  for (gsize start = 0, i = 0; i <= body; i++)
    if (i == body || text[i] == '@')
      {
        if (n == 5)
          return FALSE;
        part[n] = text + start;
        part_len[n++] = i - start;
        start = i + 1;
      }
  if (n < 4)
    return FALSE;
  if (file)
    {
      if (part_len[1] < 2 || memcmp (part[1], "0x", 2) != 0)
        return FALSE;
      part[1] += 2;
      part_len[1] -= 2;
    }
  if (!parse_hex (part[1], part_len[1], &rank) || !parse_hex (part[2], part_len[2], &group) || group > G_MAXUINT32)
    return FALSE;

  owned->hash = g_malloc (part_len[3] / 2 + 1);
  owned->model = g_strndup (part[0], part_len[0]);
  owned->salt = n == 5 ? g_strndup (part[4], part_len[4]) : g_strdup ("");
  fields->struct_size = sizeof *fields;
  fields->rank = rank;
  fields->group = (guint32)group;
  fields->hash = owned->hash;
  fields->hash_len = (guint32)(part_len[3] / 2);
  fields->salt = owned->salt;
  fields->salt_len = (guint32)strlen (owned->salt);
  fields->model_len = (guint32)part_len[0];
  if (file)
    {
      char *to = owned->model;
      for (const char *from = part[0], *end = part[0] + part_len[0]; from < end;)
        {
          if (end - from >= 5 && memcmp (from, "-SEP-", 5) == 0)
            {
              *to++ = '/';
              from += 5;
            }
          else
            *to++ = *from++;
        }
      *to = '\0';
      fields->model_len = (guint32)(to - owned->model);
    }
  fields->model = owned->model;

  if (parse_hash (part[3], part_len[3], owned->hash) && lmt_key_fields_check (fields) == NULL)
    {
      g_autoptr (GString) again = g_string_new (NULL);
      fields_text (fields, file, again);
      if (again->len == len && memcmp (again->str, text, len) == 0)
        return TRUE;
    }
  lmt_key_owned_clear (owned);
  return FALSE;
}

gboolean
lmt_key_from_wire (const char *wire, gsize len, LmtKeyOwned *owned)
{
  return key_from_text (wire, len == (gsize)-1 ? strlen (wire) : len, FALSE, owned);
}

gboolean
lmt_key_from_file (const char *name, gsize len, LmtKeyOwned *owned)
{
  return key_from_text (name, len == (gsize)-1 ? strlen (name) : len, TRUE, owned);
}

/* ---------------------------------------------------------------- interned words: models and salts */

typedef struct
{
  char *text; /* NULL: the number is free */
  guint64 hash;
  guint32 len;
  guint32 refs;
  guint32 is_idle; /* in the ring: kept at no reference */
} Word;

enum
{
  IDLE_WORDS = 16,
};

typedef struct
{
  GArray *words;      /* of Word, by number */
  GArray *free;       /* of guint32 */
  GHashTable *lookup; /* Text -> number */
  guint32 last;
  guint32 idle[IDLE_WORDS]; /* ring of words that lost their last key, G_MAXUINT32: empty */
  guint32 n_idle;
} Words;

/* The hash table's keys are the texts themselves; a probe is a text that needs no terminator. */
typedef struct
{
  const char *text;
  guint32 len;
} Text;

static guint
text_hash (gconstpointer key)
{
  const Text *text = key;
  return (guint)lmt_hash_bytes (text->text, text->len, lmt_hash_seed ());
}

static gboolean
text_equal (gconstpointer a, gconstpointer b)
{
  const Text *x = a, *y = b;
  return x->len == y->len && memcmp (x->text, y->text, x->len) == 0;
}

static void
words_init (Words *words)
{
  words->words = g_array_new (FALSE, TRUE, sizeof (Word));
  words->free = g_array_new (FALSE, FALSE, sizeof (guint32));
  words->lookup = g_hash_table_new_full (text_hash, text_equal, g_free, NULL);
  words->last = 0;
  words->n_idle = 0;
  for (guint i = 0; i < IDLE_WORDS; i++)
    words->idle[i] = G_MAXUINT32;
}

static void
words_clear (Words *words)
{
  for (guint i = 0; i < words->words->len; i++)
    g_free (g_array_index (words->words, Word, i).text);
  g_array_unref (words->words);
  g_array_unref (words->free);
  g_hash_table_unref (words->lookup);
}

#define WORD(table_, i) (&g_array_index ((table_)->words, Word, (i)))

/* Gives the number of a word; takes no reference. */
static guint32
words_find (Words *words, const char *text, guint32 len, gboolean add)
{
  Text probe = { text, len };
  gpointer found;

  if (words->last < words->words->len)
    {
      const Word *word = WORD (words, words->last);
      if (word->text != NULL && word->len == len && memcmp (word->text, text, len) == 0)
        return words->last;
    }
  if (g_hash_table_lookup_extended (words->lookup, &probe, NULL, &found))
    return words->last = GPOINTER_TO_UINT (found);
  if (!add)
    return G_MAXUINT32;

  guint32 number;
  if (words->free->len > 0)
    {
      number = g_array_index (words->free, guint32, words->free->len - 1);
      g_array_set_size (words->free, words->free->len - 1);
    }
  else
    {
      number = words->words->len;
      g_array_set_size (words->words, number + 1);
    }
  Word *word = WORD (words, number);
  word->text = g_malloc ((gsize)len + 1);
  if (len > 0)
    memcpy (word->text, text, len);
  word->text[len] = '\0';
  word->len = len;
  word->refs = 0;
  word->is_idle = FALSE;
  word->hash = lmt_hash_bytes (text, len, lmt_hash_seed ());
  Text *key = g_new (Text, 1);
  key->text = word->text;
  key->len = len;
  g_hash_table_insert (words->lookup, key, GUINT_TO_POINTER (number));
  return words->last = number;
}

static void
words_forget (Words *words, guint32 number)
{
  Word *word = WORD (words, number);
  Text probe = { word->text, word->len };

  g_hash_table_remove (words->lookup, &probe);
  g_clear_pointer (&word->text, g_free);
  g_array_append_val (words->free, number);
}

static void
words_drop (Words *words, guint32 number)
{
  Word *word = WORD (words, number);

  if (--word->refs > 0 || word->is_idle)
    return;
  /* A name whose last key went nearly always comes back with the next key: the last few stay. */
  guint32 *slot = &words->idle[words->n_idle++ % IDLE_WORDS];
  if (*slot != G_MAXUINT32)
    {
      Word *old = WORD (words, *slot);
      old->is_idle = FALSE;
      if (old->refs == 0)
        words_forget (words, *slot);
    }
  *slot = number;
  word->is_idle = TRUE;
}

/* ---------------------------------------------------------------- the table */

enum
{
  CHUNK_BITS = 10,
  CHUNK = 1 << CHUNK_BITS,
  SLAB_CHUNKS = 16, /* a slab of a large table is one huge page */
  INLINE_HASH = 32, /* the usual length: known to the compiler, its comparison needs no call */
};

/* What few keys have. Stays with the entry when the key goes, so a warm working set allocates nothing. */
typedef struct _LmtKeyMore
{
  guint8 *long_hash;
  char *wire_buffer;
  char *file_buffer;
  guint32 long_hash_size;
  guint32 wire_size;
  guint32 file_size;
  guint32 wire_len; /* 0: not made */
  guint32 file_len;
} More;

/* One entry of a slab: two cache lines. */
typedef struct
{
  LmtKey key;
  guint8 inline_hash[INLINE_HASH];
  guint32 next_free; /* id + 1 */
  guint32 has_more;  /* first of a chunk: some entry of the chunk has a More */
} Entry;
G_STATIC_ASSERT (sizeof (Entry) == 128);

/* The tag is enough to find the place of an entry in a table of any size: growing and removing look at no entry. */
typedef struct
{
  guint32 tag;  /* upper half of hash64 */
  guint32 slot; /* id + 1; 0 = empty */
} Bucket;

struct _LmtKeyTable
{
  Bucket *buckets;
  guint32 mask;
  guint32 n;
  Entry **chunks;
  guint32 n_chunks; /* with memory */
  guint32 n_ids;
  guint32 free_head; /* id + 1 */
  gboolean retired;
  Words models;
  Words salts;
};

static inline Entry *
entry_get (const LmtKeyTable *table, guint32 id)
{
  return &table->chunks[id >> CHUNK_BITS][id & (CHUNK - 1)];
}

static inline guint32
tag_of (guint64 hash)
{
  return (guint32)(hash >> 32);
}

LmtKeyTable *
lmt_key_table_new (void)
{
  LmtKeyTable *table = g_new0 (LmtKeyTable, 1);

  table->mask = 1023;
  table->buckets = lmt_pages_renew (Bucket, NULL, 0, table->mask + 1);
  words_init (&table->models);
  words_init (&table->salts);
  guint32 empty = words_find (&table->salts, "", 0, TRUE); /* number 0, for good */
  WORD (&table->salts, empty)->refs = 1;
  return table;
}

/* Chunks that come with chunk @c: small tables grow one by one, large ones by slabs. */
static inline guint32
chunks_at (guint32 c)
{
  return c < SLAB_CHUNKS ? 1 : SLAB_CHUNKS;
}

static void
more_free (More *more)
{
  if (more == NULL)
    return;
  g_free (more->long_hash);
  g_free (more->wire_buffer);
  g_free (more->file_buffer);
  g_free (more);
}

void
lmt_key_table_free (LmtKeyTable *table)
{
  if (table == NULL)
    return;
  for (guint32 c = 0; c < table->n_chunks; c++)
    for (guint i = 0; table->chunks[c]->has_more && i < CHUNK; i++)
      more_free (table->chunks[c][i].key.more);
  for (guint32 c = 0; c < table->n_chunks; c += chunks_at (c))
    lmt_pages_free (table->chunks[c], chunks_at (c) * CHUNK * sizeof (Entry));
  g_free (table->chunks);
  lmt_pages_free (table->buckets, ((gsize)table->mask + 1) * sizeof (Bucket));
  words_clear (&table->models);
  words_clear (&table->salts);
  g_free (table);
}

static inline guint64
combine_hash (const LmtKeyFields *fields, guint64 model_hash, guint64 salt_hash)
{
  guint64 h = lmt_hash_bytes (fields->hash, fields->hash_len, lmt_hash_seed ());

  h ^= model_hash + fields->rank * G_GUINT64_CONSTANT (0x9E3779B97F4A7C15);
  h += salt_hash ^ ((guint64)fields->group * G_GUINT64_CONSTANT (0xD6E8FEB86659FD93));
  return lmt_mix64 (h);
}

static inline gboolean
entry_matches (const Entry *entry, const LmtKeyFields *fields, guint32 model, guint32 salt, guint64 hash)
{
  const LmtKey *key = &entry->key;

  return key->hash64 == hash && key->model == model && key->salt == salt && key->fields.rank == fields->rank
         && key->fields.group == fields->group && key->fields.hash_len == fields->hash_len
         && (fields->hash_len == INLINE_HASH ? memcmp (entry->inline_hash, fields->hash, INLINE_HASH) == 0
                                             : memcmp (key->fields.hash, fields->hash, fields->hash_len) == 0);
}

static Entry *
table_find (const LmtKeyTable *table, const LmtKeyFields *fields, guint32 model, guint32 salt, guint64 hash)
{
  guint32 tag = tag_of (hash);

  for (guint32 i = tag & table->mask; table->buckets[i].slot != 0; i = (i + 1) & table->mask)
    if (table->buckets[i].tag == tag)
      {
        Entry *entry = entry_get (table, table->buckets[i].slot - 1);
        if (entry_matches (entry, fields, model, salt, hash))
          return entry;
      }
  return NULL;
}

static inline void
bucket_insert (Bucket *buckets, guint32 mask, guint32 tag, guint32 slot)
{
  guint32 i = tag & mask;

  while (buckets[i].slot != 0)
    i = (i + 1) & mask;
  buckets[i] = (Bucket){ tag, slot };
}

static void
table_grow (LmtKeyTable *table)
{
  guint32 mask = table->mask * 2 + 1;
  Bucket *buckets = lmt_pages_renew (Bucket, NULL, 0, (gsize)mask + 1);

  for (guint32 i = 0; i <= table->mask; i++)
    if (table->buckets[i].slot != 0)
      bucket_insert (buckets, mask, table->buckets[i].tag, table->buckets[i].slot);
  lmt_pages_free (table->buckets, ((gsize)table->mask + 1) * sizeof (Bucket));
  table->buckets = buckets;
  table->mask = mask;
}

/* Linear probing without tombstones: what stands behind the gap and may move up, moves up. */
static void
bucket_remove (LmtKeyTable *table, const LmtKey *key)
{
  guint32 i = tag_of (key->hash64) & table->mask;

  while (table->buckets[i].slot != key->id + 1)
    i = (i + 1) & table->mask;
  for (guint32 j = i;;)
    {
      j = (j + 1) & table->mask;
      if (table->buckets[j].slot == 0)
        break;
      guint32 home = table->buckets[j].tag & table->mask;
      if (((j - home) & table->mask) >= ((j - i) & table->mask))
        {
          table->buckets[i] = table->buckets[j];
          i = j;
        }
    }
  table->buckets[i].slot = 0;
}

static void
add_chunks (LmtKeyTable *table)
{
  guint32 c = table->n_chunks, more = chunks_at (c);
  Entry *slab = lmt_pages_renew (Entry, NULL, 0, (gsize)more * CHUNK);

  if (more > 1 || (c & (c - 1)) == 0)
    table->chunks = g_renew (Entry *, table->chunks, more > 1 ? (c + more) : MAX (1, c * 2));
  for (guint32 i = 0; i < more; i++)
    table->chunks[table->n_chunks++] = slab + (gsize)i * CHUNK;
}

static Entry *
entry_take (LmtKeyTable *table)
{
  if (table->free_head != 0)
    {
      Entry *entry = entry_get (table, table->free_head - 1);
      table->free_head = entry->next_free;
      return entry;
    }
  if (table->n_ids == table->n_chunks * CHUNK)
    add_chunks (table);
  Entry *entry = entry_get (table, table->n_ids);
  entry->key.id = table->n_ids++;
  return entry;
}

static More *
more_of (LmtKey *key)
{
  if (G_UNLIKELY (key->more == NULL))
    {
      ((Entry *)key - (key->id & (CHUNK - 1)))->has_more = TRUE;
      key->more = g_new0 (More, 1);
    }
  return key->more;
}

static guint8 *
long_hash (LmtKey *key, guint32 len)
{
  More *more = more_of (key);

  if (more->long_hash_size < len)
    {
      g_free (more->long_hash);
      more->long_hash = g_malloc (len);
      more->long_hash_size = len;
    }
  return more->long_hash;
}

static void
entry_fill (LmtKeyTable *table, Entry *entry, const LmtKeyFields *fields, guint32 model, guint32 salt, guint64 hash)
{
  LmtKey *key = &entry->key;
  guint8 *to = entry->inline_hash;

  if (G_LIKELY (fields->hash_len == INLINE_HASH))
    memcpy (to, fields->hash, INLINE_HASH);
  else
    {
      if (fields->hash_len > INLINE_HASH)
        to = long_hash (key, fields->hash_len);
      if (fields->hash_len > 0)
        memcpy (to, fields->hash, fields->hash_len);
    }

  Word *m = WORD (&table->models, model), *s = WORD (&table->salts, salt);
  m->refs++;
  s->refs++;
  key->refs = 1;
  key->model = model;
  key->salt = salt;
  key->hash64 = hash;
  if (key->more != NULL)
    key->more->wire_len = key->more->file_len = 0;
  key->fields = (LmtKeyFields){ .struct_size = sizeof key->fields,
                                .group = fields->group,
                                .rank = fields->rank,
                                .hash = to,
                                .hash_len = fields->hash_len,
                                .model = m->text,
                                .model_len = m->len,
                                .salt = s->text,
                                .salt_len = s->len };
}

/* The entry of these fields with one reference more; model and salt are their numbers, hash is over all. */
static LmtKey *
table_intern (LmtKeyTable *table, const LmtKeyFields *fields, guint32 model, guint32 salt, guint64 hash)
{
  Entry *entry = table_find (table, fields, model, salt, hash);

  if (entry != NULL)
    {
      entry->key.refs++;
      return &entry->key;
    }
  if (table->n >= (table->mask + 1) / 2)
    table_grow (table);
  entry = entry_take (table);
  entry_fill (table, entry, fields, model, salt, hash);
  bucket_insert (table->buckets, table->mask, tag_of (hash), entry->key.id + 1);
  table->n++;
  return &entry->key;
}

LmtKey *
lmt_key_table_intern (LmtKeyTable *table, const LmtKeyFields *fields)
{
  guint32 model = words_find (&table->models, fields->model, fields->model_len, TRUE);
  guint32 salt = fields->salt_len == 0 ? 0 : words_find (&table->salts, fields->salt, fields->salt_len, TRUE);
  guint64 hash = combine_hash (fields, WORD (&table->models, model)->hash, WORD (&table->salts, salt)->hash);

  return table_intern (table, fields, model, salt, hash);
}

enum
{
  AHEAD = 16,
  CACHE_LINE = 64,
};

static inline void
prefetch_entry (const LmtKeyTable *table, guint64 hash)
{
  const Bucket *bucket = &table->buckets[tag_of (hash) & table->mask];

  if (bucket->slot == 0 || bucket->tag != tag_of (hash))
    return;
  const char *entry = (const char *)entry_get (table, bucket->slot - 1);
  __builtin_prefetch (entry, 1);
  __builtin_prefetch (entry + CACHE_LINE);
}

void
lmt_key_table_intern_many (LmtKeyTable *table, const LmtKeyFields *fields, guint n, LmtKey **keys)
{
  guint64 hash[AHEAD];
  guint32 model[AHEAD], salt[AHEAD];

  while (n > 0)
    {
      guint count = MIN (n, (guint)AHEAD);

      for (guint i = 0; i < count; i++)
        {
          const LmtKeyFields *f = &fields[i];
          gboolean same = i > 0 && f->model == f[-1].model && f->model_len == f[-1].model_len;

          model[i] = same ? model[i - 1] : words_find (&table->models, f->model, f->model_len, TRUE);
          salt[i] = f->salt_len == 0 ? 0 : words_find (&table->salts, f->salt, f->salt_len, TRUE);
          hash[i] = combine_hash (f, WORD (&table->models, model[i])->hash, WORD (&table->salts, salt[i])->hash);
          __builtin_prefetch (&table->buckets[tag_of (hash[i]) & table->mask], 1);
        }
      for (guint i = 0; i < count; i++)
        prefetch_entry (table, hash[i]);
      for (guint i = 0; i < count; i++)
        keys[i] = table_intern (table, &fields[i], model[i], salt[i], hash[i]);
      fields += count;
      keys += count;
      n -= count;
    }
}

LmtKey *
lmt_key_table_lookup (LmtKeyTable *table, const LmtKeyFields *fields)
{
  guint32 model = words_find (&table->models, fields->model, fields->model_len, FALSE);
  guint32 salt = fields->salt_len == 0 ? 0 : words_find (&table->salts, fields->salt, fields->salt_len, FALSE);

  if (model == G_MAXUINT32 || salt == G_MAXUINT32)
    return NULL;
  Entry *entry = table_find (table, fields, model, salt,
                             combine_hash (fields, WORD (&table->models, model)->hash, WORD (&table->salts, salt)->hash));
  return entry == NULL ? NULL : &entry->key;
}

void
lmt_key_release (LmtKeyTable *table, LmtKey *key)
{
  Entry *entry = (Entry *)key; /* the key is the entry's first member */

  if (table->retired)
    return;
  bucket_remove (table, key);
  words_drop (&table->models, key->model);
  words_drop (&table->salts, key->salt);
  entry->next_free = table->free_head;
  table->free_head = key->id + 1;
  table->n--;
}

LmtKey *
lmt_key_table_get (LmtKeyTable *table, guint32 id)
{
  return &entry_get (table, id)->key;
}

guint
lmt_key_table_size (const LmtKeyTable *table)
{
  return table->n;
}

guint
lmt_key_table_capacity (const LmtKeyTable *table)
{
  return table->n_ids;
}

guint
lmt_key_table_n_salts (const LmtKeyTable *table)
{
  return table->salts.words->len;
}

const char *
lmt_key_table_salt (const LmtKeyTable *table, guint32 salt)
{
  const char *text = salt < table->salts.words->len ? WORD (&table->salts, salt)->text : NULL;
  return text != NULL ? text : "";
}

guint32
lmt_key_table_intern_salt (LmtKeyTable *table, const char *salt, gsize len)
{
  guint32 number = words_find (&table->salts, salt, (guint32)len, TRUE);

  WORD (&table->salts, number)->refs++;
  return number;
}

void
lmt_key_table_retire (LmtKeyTable *table)
{
  table->retired = TRUE;
}

gboolean
lmt_key_table_is_retired (const LmtKeyTable *table)
{
  return table->retired;
}

static void
make_text (const LmtKeyFields *fields, gboolean file, char **buffer, guint32 *size, guint32 *len)
{
  gsize bound = text_bound (fields);

  if (*buffer == NULL || *size < bound)
    {
      g_free (*buffer);
      *buffer = g_malloc (bound);
      *size = (guint32)bound;
    }
  *len = write_text (fields, file, *buffer);
}

const char *
lmt_key_wire (LmtKey *key)
{
  More *more = more_of (key);

  if (more->wire_len == 0)
    make_text (&key->fields, FALSE, &more->wire_buffer, &more->wire_size, &more->wire_len);
  return more->wire_buffer;
}

guint32
lmt_key_wire_len (LmtKey *key)
{
  lmt_key_wire (key);
  return key->more->wire_len;
}

const char *
lmt_key_file (LmtKey *key)
{
  More *more = more_of (key);

  if (more->file_len == 0)
    make_text (&key->fields, TRUE, &more->file_buffer, &more->file_size, &more->file_len);
  return more->file_buffer;
}

guint32
lmt_key_file_len (LmtKey *key)
{
  lmt_key_file (key);
  return key->more->file_len;
}
