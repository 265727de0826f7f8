/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <lmtrace/lmt-cursor.h>
#include <lmtrace/lmt-key.h>

#include "storage-known.h"

G_BEGIN_DECLS

/**
 * SmKeyReader: lists of tagged ObjectKeys -> interned keys. The hot path of a replay: an ObjectKey as LMCache writes it is
 * recognised by comparing fixed runs of bytes; anything else goes the general way, with the same result.
 *
 * A list is read where a walk first meets it and remembered by its place, so that the walk over the members of a map and the
 * reading of one of them are one pass. Lists met again are told by their bytes (SmKnown). Keys of a record are held until the
 * next sm_key_reader_begin(); those of the record before are given back by sm_key_reader_end() at the earliest, after the new
 * ones were taken: keys that stay in use never leave the table.
 */
typedef struct _SmKeyReader SmKeyReader;

typedef struct
{
  const guint8 *start;
  const guint8 *end;
  guint32 first;
  guint32 n;
  guint32 n_grouped;
  guint32 n_salted;
} SmKeyList;

enum
{
  SM_KEYS_AHEAD = 16,
  SM_LAYOUT_BYTES = 240,
};

struct _SmKeyReader
{
  LmtKeyTable *table;
  LmtKey **keys;   /* of this record */
  guint32 *ends;   /* where each one's bytes end, from the start of its list */
  LmtKey **owned;  /* those of them that no known list holds */
  LmtKey **before; /* owned ones of the record before */
  SmKeyList *lists;
  guint n_keys, max_keys;
  guint n_owned, max_owned;
  guint n_before, max_before;
  guint n_lists, max_lists;
  guint hint;
  guint model_len; /* of the last name found free of @ */
  char model[256];
  guint n_pending;
  guint pending_at[SM_KEYS_AHEAD];
  LmtKeyFields pending[SM_KEYS_AHEAD]; /* keys not looked up yet: `keys` holds NULL there */
  guint layout_len;                    /* the last MemoryLayoutDesc as it stood, wrapper and all: a trace has few */
  guint8 layout[SM_LAYOUT_BYTES];
  guint64 layout_bytes;
  guint32 layout_tensors;
  guint64 mask;    /* of the tenant whose keys are made: 0: keys as recorded */
  GByteArray *own; /* (nullable): the hash of the tenant's key */
  SmKnown known;
};

void sm_key_reader_init (SmKeyReader *reader, LmtKeyTable *table);
void sm_key_reader_clear (SmKeyReader *reader);
void sm_key_reader_begin (SmKeyReader *reader);
void sm_key_reader_end (SmKeyReader *reader, gboolean keep);

/* Keys of tenant @number from here on; 0: as recorded. See sm_decoder_set_tenant(). */
void sm_key_reader_set_tenant (SmKeyReader *reader, guint64 number);

/* Steps over one value; key lists in it are read on the way. @reader: (nullable): just steps. FALSE: broken bytes. */
gboolean sm_key_reader_skip (SmKeyReader *reader, LmtCursor *cursor);
/* The value at @value is a list of ObjectKeys. @where: place with one %u. @not_array: the reason if it is no list. */
gboolean sm_key_reader_read (SmKeyReader *reader, LmtSpan value, const char *where, const char *not_array, SmKeyList *list,
                             LmtFault *fault);
/* One ObjectKey in its usual bytes. FALSE: unusual, cursor unmoved. */
gboolean sm_object_key_fast (LmtCursor *cursor, LmtKeyFields *fields, gboolean *has_group);

G_END_DECLS
