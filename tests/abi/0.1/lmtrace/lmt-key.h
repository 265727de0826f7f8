/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "lmt-error.h"

G_BEGIN_DECLS

/**
 * SECTION: object keys: the five fields, their texts, and a table in which each key is one pointer.
 *
 * Threads: the functions over LmtKeyFields and LmtKeyOwned: any, also of a plugin's own. LmtKeyTable and everything it handed
 * out: one at a time. Source: LMCache 0.5.6, ObjectKey: kv_rank is world_size<<24 | rank<<16 | local_world_size<<8 | local_rank
 * by convention and unchecked; hash 32 bytes in practice; model without "@"; salt of at most 128 characters without "@", "/",
 * backslash, NUL; group since 0.4.7.
 *
 * Since: 0.1
 */

/**
 * LmtKeyFields: the five fields of an object key; two keys are the same object only if all are equal. Border struct: append only.
 * @group: object_group_id. @rank: kv_rank. @hash: bytes, any number, also none. @model, @salt: UTF-8, may be empty
 * @struct_size: of this struct as its maker knows it
 *
 * Not NUL-terminated unless said; the bytes belong to whoever made it. lmt_key_fields_equal() (lmt-l2.h) compares.
 *
 * Since: 0.1
 */
typedef struct
{
  guint32 struct_size;
  guint32 group;
  guint64 rank;
  const guint8 *hash;
  const char *model;
  const char *salt;
  guint32 hash_len;
  guint32 model_len;
  guint32 salt_len;
  guint32 reserved;
} LmtKeyFields;

/* (transfer none) (nullable): NULL if the fields make a key, else which rule they break: `model_name contains @`, `cache_salt
 * contains /`, … (static) */
const char *lmt_key_fields_check (const LmtKeyFields *fields);

/**
 * LmtKey: an interned key. One pointer per distinct key of a table while somebody holds a reference, so equality is `==`. What
 * calls on keys look at stands in front, in one cache line.
 * @id: dense number, from 0, given again once the key is gone: index of arrays that hang state on a key
 * @salt: number of the salt in the table, 0 = the empty one; given again once no key has it (lmt_key_table_intern_salt() keeps
 * it)
 * @model: the same for model names
 * @hash64: mixed over all fields with the table's secret: what other tables and the miss history use
 */
typedef struct _LmtKey LmtKey;
struct _LmtKey
{
  guint32 id;
  guint32 refs;
  guint32 salt;
  guint32 model;
  guint64 hash64;
  LmtKeyFields fields;      /* strings NUL-terminated here */
  struct _LmtKeyMore *more; /* the table's own */
};

/**
 * LmtKeyTable: interns keys. Plugins of the L2 border never need it: their keys come ready-made. Not thread-safe; one per replay,
 * shared by manager and L2 layer. Entries come from slabs that are reused, the table grows by doubling: a warm working set
 * allocates nothing.
 */
typedef struct _LmtKeyTable LmtKeyTable;
LmtKeyTable *lmt_key_table_new (void);
void lmt_key_table_free (LmtKeyTable *table);
/* (transfer full): a reference on the one entry of these fields. Copies what it needs. The fields must pass
 * lmt_key_fields_check(). */
LmtKey *lmt_key_table_intern (LmtKeyTable *table, const LmtKeyFields *fields);
/* As lmt_key_table_intern() on each of the list in turn, but memory is asked for ahead: several times faster where the table is
 * larger than the processor's caches. Equal pointers in `model` count as equal names without a look. @keys: (out) n of them
 * (transfer full) */
void lmt_key_table_intern_many (LmtKeyTable *table, const LmtKeyFields *fields, guint n, LmtKey **keys);
/* (transfer none) (nullable) */
LmtKey *lmt_key_table_lookup (LmtKeyTable *table, const LmtKeyFields *fields);
LmtKey *lmt_key_table_get (LmtKeyTable *table, guint32 id);
guint lmt_key_table_size (const LmtKeyTable *table);     /* live keys */
guint lmt_key_table_capacity (const LmtKeyTable *table); /* ids are below this */
guint lmt_key_table_n_salts (const LmtKeyTable *table);
const char *lmt_key_table_salt (const LmtKeyTable *table, guint32 salt);
guint32 lmt_key_table_intern_salt (LmtKeyTable *table, const char *salt, gsize len);
/* Table and users go now: from here on users that are freed need not give their references back one by one, the table forgets all
 * at once. Nothing else may be asked of it but lmt_key_unref() and lmt_key_table_free(). */
void lmt_key_table_retire (LmtKeyTable *table);
gboolean lmt_key_table_is_retired (const LmtKeyTable *table);

static inline LmtKey *
lmt_key_ref (LmtKey *key)
{
  key->refs++;
  return key;
}
void lmt_key_release (LmtKeyTable *table, LmtKey *key); /* refs is 0: only lmt_key_unref() calls it */
static inline void
lmt_key_unref (LmtKeyTable *table, LmtKey *key)
{
  if (--key->refs == 0)
    lmt_key_release (table, key);
}

/* MODEL@RANK@GROUP@HASH[@SALT]: rank and group in lower-case hexadecimal, rank filled with 0 to 8 digits, hash in lower-case
 * hexadecimal; UTF-8, nothing escaped, one-to-one with the key. Made at the first call, NUL-terminated, lives as long as the
 * key. Source: LMCache's wire keys (resp, valkey, s3). */
const char *lmt_key_wire (LmtKey *key);
guint32 lmt_key_wire_len (LmtKey *key);
/* The fs name: '/' of the model as -SEP-, 0x in front of RANK, `.data` behind. Not one-to-one: `a/b` and `a-SEP-b` share it. The
 * same lifetime. Source: LMCache's fs adapter, 0.4.7 and later. */
const char *lmt_key_file (LmtKey *key);
guint32 lmt_key_file_len (LmtKey *key);

/* The same texts without a table (into @out, replaced). */
void lmt_key_fields_wire (const LmtKeyFields *fields, GString *out);
void lmt_key_fields_file (const LmtKeyFields *fields, GString *out);
/**
 * LmtKeyOwned: fields with storage of their own, as decoded from a text. @fields points into the other members: don't copy the
 * struct and clear the first. Uninitialised memory is fine as an (out) argument.
 *
 * Since: 0.1
 */
typedef struct
{
  LmtKeyFields fields;
  guint8 *hash;
  char *model;
  char *salt;
} LmtKeyOwned;
void lmt_key_owned_clear (LmtKeyOwned *owned); /* after a TRUE only, or on zeroed memory */
/**
 * lmt_key_from_wire:
 * @len: bytes of @wire; (gsize)-1: it ends with a NUL
 * @owned: (out): set on TRUE, then to be cleared; on FALSE nothing is to be freed
 *
 * The key of a text that lmt_key_fields_wire() would give: decodes, encodes again, compares. For `scan` of adapters that name
 * their objects so. Returns: FALSE: a foreign name (upper-case digits, missing zeros, fields too many); no error, leave it alone.
 * Any thread.
 *
 * Since: 0.1
 */
gboolean lmt_key_from_wire (const char *wire, gsize len, LmtKeyOwned *owned);
/* The same of file names; -SEP- becomes "/". Since: 0.1 */
gboolean lmt_key_from_file (const char *name, gsize len, LmtKeyOwned *owned);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LmtKeyTable, lmt_key_table_free)

G_END_DECLS
