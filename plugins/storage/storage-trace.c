// SPDX-License-Identifier: Apache-2.0
/* A call of the manager -> a copy in a ring -> the arguments of a record (trace-format.md 4, 5, 10). */
#include "storage-trace.h"

#include <string.h>

#include "storage-encode.h"

#define STORAGE_MANAGER "lmcache.v1.distributed.storage_manager.StorageManager."

enum
{
  CALL_RESERVE_WRITE = 0,
  CALL_FINISH_WRITE,
  CALL_PREFETCH,
  CALL_READ_ENTER,
  CALL_READ_EXIT,
  CALL_FINISH_READ,
  N_CALLS,
  /* In front of each key, one byte. */
  KEY_WHOLE = 0, /* a KeyCopy, the hash, the model, the salt */
  KEY_ALIKE,     /* the hash: all else is that of the key before, without a salt */
};

/* A copy is this, then the layout, the request id and the two tag lists, then the keys; of a prefetch then the rows, each with
 * its head, its layout and its keys. Nothing in it points anywhere. Unaligned behind this head. */
typedef struct
{
  guint32 n_keys;
  guint32 n_rows;
  guint32 readers;
  guint32 layout_len;
  guint32 request_id_len;
  guint32 l1_tags_len;
  guint32 l2_tags_len;
  guint8 write_mode;
  guint8 policy;
  guint8 lock_mode;
  guint8 look_l1;
  guint8 allow_l2;
  guint8 reserved[3];
} CallCopy;

typedef struct
{
  gint64 window;
  guint32 n;
  guint32 group;
  guint32 layout_len;
  guint32 reserved;
} RowCopy;

typedef struct
{
  guint64 rank;
  guint32 group;
  guint32 hash_len;
  guint32 model_len;
  guint32 salt_len;
} KeyCopy;

/* ---------------- the caller's side ---------------- */

static inline guint8 *
put (guint8 *at, gconstpointer bytes, gsize len)
{
  if (len > 0)
    memcpy (at, bytes, len);
  return at + len;
}

/* Hashes are 32 bytes nearly always: a copy of known length is two instructions. */
static inline guint8 *
put_hash (guint8 *at, const guint8 *hash, guint32 len)
{
  if (G_LIKELY (len == 32))
    {
      memcpy (at, hash, 32);
      return at + 32;
    }
  return put (at, hash, len);
}

/* Keys of one list differ in their hash, nearly always. */
static inline gboolean
is_alike (const LmtKey *key, const LmtKey *before)
{
  return key->model == before->model && key->salt == before->salt && key->fields.rank == before->fields.rank
         && key->fields.group == before->fields.group && key->fields.hash_len == before->fields.hash_len
         && key->fields.salt_len == 0;
}

static gsize
keys_bytes (LmtKey *const *keys, guint n)
{
  gsize bytes = 0;

  for (guint i = 0; i < n; i++)
    {
      const LmtKeyFields *fields = &keys[i]->fields;

      bytes += 1 + fields->hash_len;
      if (i == 0 || !is_alike (keys[i], keys[i - 1]))
        bytes += sizeof (KeyCopy) + fields->model_len + fields->salt_len;
    }
  return bytes;
}

static guint8 *
put_keys (guint8 *at, LmtKey *const *keys, guint n)
{
  for (guint i = 0; i < n; i++)
    {
      const LmtKeyFields *fields = &keys[i]->fields;
      KeyCopy copy;

      if (i > 0 && is_alike (keys[i], keys[i - 1]))
        {
          *at = KEY_ALIKE;
          at = put_hash (at + 1, fields->hash, fields->hash_len);
          continue;
        }
      copy = (KeyCopy){ fields->rank, fields->group, fields->hash_len, fields->model_len, fields->salt_len };
      *at++ = KEY_WHOLE;
      at = put (at, &copy, sizeof copy);
      at = put_hash (at, fields->hash, fields->hash_len);
      at = put (at, fields->model, fields->model_len);
      at = put (at, fields->salt, fields->salt_len);
    }
  return at;
}

static gsize
call_bytes (const SmCall *call, LmtSpan layout, gboolean is_prefetch)
{
  gsize bytes = sizeof (CallCopy) + layout.len;

  if (!is_prefetch)
    return bytes + keys_bytes (call->keys, call->n_keys);
  bytes += call->request_id.len + call->l1_tags.len + call->l2_tags.len;
  for (guint i = 0; i < call->n_rows; i++)
    bytes += sizeof (RowCopy) + call->rows[i].layout.len + keys_bytes (call->rows[i].keys, call->rows[i].n);
  return bytes;
}

static guint8 *
put_rows (guint8 *at, const SmCall *call)
{
  at = put (at, call->request_id.data, call->request_id.len);
  at = put (at, call->l1_tags.data, call->l1_tags.len);
  at = put (at, call->l2_tags.data, call->l2_tags.len);
  for (guint i = 0; i < call->n_rows; i++)
    {
      const SmRow *row = &call->rows[i];
      RowCopy copy = { row->window, row->n, row->group, (guint32)row->layout.len, 0 };

      at = put (at, &copy, sizeof copy);
      at = put (at, row->layout.data, row->layout.len);
      at = put_keys (at, row->keys, row->n);
    }
  return at;
}

/* Calls no release records have no number. */
static gint
number_of (guint32 op)
{
  switch (op)
    {
    case SM_OP_RESERVE_WRITE:
      return CALL_RESERVE_WRITE;
    case SM_OP_FINISH_WRITE:
      return CALL_FINISH_WRITE;
    case SM_OP_PREFETCH:
      return CALL_PREFETCH;
    case SM_OP_READ_ENTER:
      return CALL_READ_ENTER;
    case SM_OP_READ_EXIT:
      return CALL_READ_EXIT;
    case SM_OP_FINISH_READ:
      return CALL_FINISH_READ;
    default:
      return -1;
    }
}

void
sm_trace_publish (const SmCall *call)
{
  gint number = number_of (call->op);
  gboolean is_prefetch = number == CALL_PREFETCH;
  LmtSpan layout = { NULL, 0 };
  guint8 *start, *at;
  CallCopy copy;

  if (number < 0)
    return;
  if (number == CALL_RESERVE_WRITE)
    layout = call->layout;
  start = at = lmt_recorder_begin (&sm_trace_level, (guint32)number, call_bytes (call, layout, is_prefetch));
  if (at == NULL)
    return;
  copy = (CallCopy){ .n_keys = is_prefetch ? 0 : call->n_keys,
                     .n_rows = is_prefetch ? call->n_rows : 0,
                     .readers = call->readers,
                     .layout_len = (guint32)layout.len,
                     .request_id_len = (guint32)call->request_id.len,
                     .l1_tags_len = (guint32)call->l1_tags.len,
                     .l2_tags_len = (guint32)call->l2_tags.len,
                     .write_mode = (guint8)call->write_mode,
                     .policy = (guint8)call->policy,
                     .lock_mode = (guint8)call->lock_mode,
                     .look_l1 = call->look_l1,
                     .allow_l2 = call->allow_l2 };
  memcpy (at, &copy, sizeof copy);
  at = put (at + sizeof copy, layout.data, layout.len);
  at = is_prefetch ? put_rows (at, call) : put_keys (at, call->keys, call->n_keys);
  lmt_recorder_commit (&sm_trace_level, (gsize)(at - start));
}

/* ---------------- the drain's side ---------------- */

/* What was copied, read in the same order. It is our own: no bounds are checked. */
typedef struct
{
  const guint8 *at;
} Copy;

static const guint8 *
take (Copy *copy, gsize len)
{
  const guint8 *at = copy->at;

  copy->at += len;
  return at;
}

/* The head of every tagged key up to the length of the hash: `{"__t__": "ObjectKey", "v": {"chunk_hash": bin` */
static const guint8 key_head[] = "\x82\xa5__t__\xa9ObjectKey\xa1v\x84\xaa"
                                 "chunk_hash";
/* … and of one with a salt. */
static const guint8 salted_head[] = "\x82\xa5__t__\xa9ObjectKey\xa1v\x85\xaa"
                                    "chunk_hash";
static const guint8 model_head[] = "\xaamodel_name";
static const guint8 rank_head[] = "\xa7kv_rank";
static const guint8 group_head[] = "\xafobject_group_id";

#define RAW(out, bytes) lmt_pack_raw ((out), (bytes), sizeof (bytes) - 1)

static void
encode_keys (Copy *copy, guint32 n, LmtPack *out)
{
  const guint8 *model = NULL;
  KeyCopy key = { 0 };

  lmt_pack_array (out, n);
  for (guint32 i = 0; i < n; i++)
    {
      gboolean whole = *take (copy, 1) == KEY_WHOLE;
      const guint8 *hash;

      if (whole)
        memcpy (&key, take (copy, sizeof key), sizeof key);
      hash = take (copy, key.hash_len);
      if (whole)
        model = take (copy, key.model_len);
      else
        key.salt_len = 0;
      if (G_LIKELY (key.salt_len == 0))
        RAW (out, key_head);
      else
        RAW (out, salted_head);
      lmt_pack_bin (out, hash, key.hash_len);
      RAW (out, model_head);
      lmt_pack_str (out, (const char *)model, key.model_len);
      RAW (out, rank_head);
      lmt_pack_uint (out, key.rank);
      RAW (out, group_head);
      lmt_pack_uint (out, key.group);
      if (key.salt_len > 0)
        {
          LMT_PACK_LITERAL (out, "cache_salt");
          lmt_pack_str (out, (const char *)take (copy, key.salt_len), key.salt_len);
        }
    }
}

/* A trace has few layouts: one that comes again is as it was. */
typedef struct
{
  guint32 schema;
  guint32 in_len, out_len;
  guint8 in[240], out[240];
} KnownLayout;

static gboolean
encode_layout (LmtSpan layout, guint32 schema, LmtPack *out)
{
  static _Thread_local KnownLayout known;
  LmtFault fault = { 0 };
  gsize start = out->len;

  if (layout.len == 0)
    return FALSE;
  if (known.schema == schema && known.in_len == layout.len && memcmp (known.in, layout.data, layout.len) == 0)
    {
      lmt_pack_raw (out, known.out, known.out_len);
      return TRUE;
    }
  if (!sm_encode_span (layout, schema, out, &fault))
    return FALSE;
  if (layout.len <= sizeof known.in && out->len - start <= sizeof known.out)
    {
      known.schema = schema;
      known.in_len = (guint32)layout.len;
      known.out_len = (guint32)(out->len - start);
      memcpy (known.in, layout.data, layout.len);
      memcpy (known.out, out->data + start, known.out_len);
    }
  return TRUE;
}

static gboolean
encode_listed (gconstpointer data, gsize len, guint32 schema, LmtPack *out)
{
  static const char *const modes[] = { "new", "update", "all" };
  CallCopy call;
  Copy copy = { .at = data };
  LmtSpan layout;

  memcpy (&call, take (&copy, sizeof call), sizeof call);
  layout = (LmtSpan){ copy.at, call.layout_len };
  take (&copy, call.layout_len);
  lmt_pack_map (out, call.layout_len == 0 ? 1 : call.write_mode == SM_WRITE_NEW ? 2 : 3);
  LMT_PACK_LITERAL (out, "keys");
  encode_keys (&copy, call.n_keys, out);
  if (call.layout_len == 0)
    return TRUE;
  LMT_PACK_LITERAL (out, "layout_desc");
  if (!encode_layout (layout, schema, out))
    return FALSE;
  /* 0.5.6 knows new writes only and leaves the word out. A call it can't make keeps the word: its replay refuses the call, ours
   * makes it. */
  if (call.write_mode != SM_WRITE_NEW)
    {
      LMT_PACK_LITERAL (out, "mode");
      lmt_pack_str (out, modes[call.write_mode], strlen (modes[call.write_mode]));
    }
  return TRUE;
}

static gboolean
encode_reserve (gconstpointer data, gsize len, guint32 schema, LmtPack *out)
{
  CallCopy call;

  memcpy (&call, data, sizeof call);
  return call.layout_len > 0 && encode_listed (data, len, schema, out);
}

static gboolean
encode_finish_read (gconstpointer data, gsize len, guint32 schema, LmtPack *out)
{
  CallCopy call;
  Copy copy = { .at = data };

  memcpy (&call, take (&copy, sizeof call), sizeof call);
  take (&copy, call.layout_len);
  lmt_pack_map (out, 2);
  LMT_PACK_LITERAL (out, "keys");
  encode_keys (&copy, call.n_keys, out);
  LMT_PACK_LITERAL (out, "read_locks");
  lmt_pack_uint (out, call.readers);
  return TRUE;
}

static gboolean
encode_row (Copy *copy, guint32 schema, LmtPack *out)
{
  RowCopy row;
  LmtSpan layout;

  memcpy (&row, take (copy, sizeof row), sizeof row);
  layout = (LmtSpan){ take (copy, row.layout_len), row.layout_len };
  lmt_pack_tag (out, "GroupedObjectKeys");
  lmt_pack_map (out, 4);
  LMT_PACK_LITERAL (out, "keys");
  encode_keys (copy, row.n, out);
  LMT_PACK_LITERAL (out, "object_group_id");
  lmt_pack_uint (out, row.group);
  LMT_PACK_LITERAL (out, "layout_desc");
  if (!encode_layout (layout, schema, out))
    return FALSE;
  LMT_PACK_LITERAL (out, "sliding_window_size");
  lmt_pack_int (out, row.window);
  return TRUE;
}

/* @none: the list allows none; else an empty @tags allows all. */
static gboolean
encode_tags (LmtSpan tags, gboolean none, guint32 schema, LmtPack *out)
{
  LmtFault fault = { 0 };

  if (tags.len > 0)
    return sm_encode_span (tags, schema, out, &fault);
  if (none)
    lmt_pack_array (out, 0);
  else
    lmt_pack_nil (out);
  return TRUE;
}

static gboolean
is_empty_list (LmtSpan tags)
{
  return tags.len == 1 && tags.data[0] == 0x90;
}

static gboolean
encode_prefetch (gconstpointer data, gsize len, guint32 schema, LmtPack *out)
{
  CallCopy call;
  Copy copy = { .at = data };
  LmtSpan request_id, l1_tags, l2_tags;
  gboolean filters;

  memcpy (&call, take (&copy, sizeof call), sizeof call);
  take (&copy, call.layout_len);
  request_id = (LmtSpan){ take (&copy, call.request_id_len), call.request_id_len };
  l1_tags = (LmtSpan){ take (&copy, call.l1_tags_len), call.l1_tags_len };
  l2_tags = (LmtSpan){ take (&copy, call.l2_tags_len), call.l2_tags_len };
  if (schema < 2 && is_empty_list (l2_tags)) /* what skip_l2 says there */
    l2_tags.len = 0;
  /* 0.5.6 has no filters. A request that doesn't look into L1 (WARM of older releases) is said by one all the same: its reader
   * passes unknown members over, and ours gets the request back. */
  filters = schema >= 2 || l1_tags.len > 0 || l2_tags.len > 0 || !call.look_l1;

  lmt_pack_map (out, schema >= 2 ? 2 : 3);
  LMT_PACK_LITERAL (out, "spec");
  lmt_pack_tag (out, "PrefetchTaskSpec");
  lmt_pack_map (out, filters ? 6 : 4);
  LMT_PACK_LITERAL (out, "key_groups");
  lmt_pack_array (out, call.n_rows);
  for (guint32 i = 0; i < call.n_rows; i++)
    if (!encode_row (&copy, schema, out))
      return FALSE;
  LMT_PACK_LITERAL (out, "num_kv_readers");
  lmt_pack_uint (out, call.readers);
  LMT_PACK_LITERAL (out, "fetching_policy");
  if (call.policy == SM_POLICY_FULL)
    LMT_PACK_LITERAL (out, "full");
  else
    LMT_PACK_LITERAL (out, "prefix");
  LMT_PACK_LITERAL (out, "lock_mode");
  lmt_pack_tag (out, "PrefetchLockMode");
  if (call.lock_mode == SM_NO_LOCK)
    LMT_PACK_LITERAL (out, "NO_LOCK");
  else
    LMT_PACK_LITERAL (out, "LOCK");
  if (filters)
    {
      LMT_PACK_LITERAL (out, "allowed_l1_memory_tags");
      if (!encode_tags (l1_tags, !call.look_l1, schema, out))
        return FALSE;
      LMT_PACK_LITERAL (out, "allowed_l2_memory_tags");
      if (!encode_tags (l2_tags, schema >= 2 && !call.allow_l2, schema, out))
        return FALSE;
    }
  LMT_PACK_LITERAL (out, "external_request_id");
  lmt_pack_str (out, (const char *)request_id.data, request_id.len);
  if (schema < 2)
    {
      LMT_PACK_LITERAL (out, "skip_l2");
      lmt_pack_bool (out, !call.allow_l2);
    }
  return TRUE;
}

static const LmtTraceCall calls[N_CALLS] = {
  [CALL_RESERVE_WRITE] = { STORAGE_MANAGER "reserve_write", NULL, encode_reserve, { NULL } },
  [CALL_FINISH_WRITE] = { STORAGE_MANAGER "finish_write", NULL, encode_listed, { NULL } },
  [CALL_PREFETCH] = { STORAGE_MANAGER "submit_prefetch_task", NULL, encode_prefetch, { NULL } },
  [CALL_READ_ENTER] = { STORAGE_MANAGER "read_prefetched_results.__enter__", NULL, encode_listed, { NULL } },
  [CALL_READ_EXIT] = { STORAGE_MANAGER "read_prefetched_results.__exit__", NULL, encode_listed, { NULL } },
  [CALL_FINISH_READ] = { STORAGE_MANAGER "finish_read_prefetched", NULL, encode_finish_read, { NULL } },
};

LmtTraceLevel sm_trace_level = LMT_TRACE_LEVEL_INIT ("storage", calls, N_CALLS);

/* ---------------- for callers that make their own calls ---------------- */

void
sm_pack_layout (LmtPack *out, const SmTensor *tensors, guint n)
{
  lmt_pack_tag (out, "MemoryLayoutDesc");
  lmt_pack_map (out, 2);
  LMT_PACK_LITERAL (out, "shapes");
  lmt_pack_array (out, n);
  for (guint i = 0; i < n; i++)
    {
      lmt_pack_array (out, tensors[i].n_dims);
      for (guint d = 0; d < tensors[i].n_dims; d++)
        lmt_pack_int (out, tensors[i].shape[d]);
    }
  LMT_PACK_LITERAL (out, "dtypes");
  lmt_pack_array (out, n);
  for (guint i = 0; i < n; i++)
    lmt_pack_str (out, tensors[i].dtype, strlen (tensors[i].dtype));
}
