// SPDX-License-Identifier: Apache-2.0
#include "storage-call.h"

#include "storage-call-private.h"

/* Lock counts of every release are clamped to this. */
enum
{
  MAX_LOCKS = 128
};

#define ARG(name_, what)                                                                                                         \
  {                                                                                                                              \
    name_, sizeof (name_) - 1, "argument " name_ " absent", "argument " name_ " is not " what                                    \
  }
const SmField sm_arguments[N_ARGS] = {
  ARG ("keys", "an array"),          ARG ("layout_desc", "a MemoryLayoutDesc"), ARG ("mode", "a mode"),
  ARG ("extra_count", "an integer"), ARG ("read_locks", "an integer"),          ARG ("external_request_id", "a str"),
  ARG ("policy", "a TrimPolicy"),    ARG ("attn_desc", "an AttnWindowDesc"),    ARG ("skip_l2", "a bool"),
  ARG ("spec", "a prefetch spec"),
};
const char *const sm_argument_places[N_ARGS]
    = { "args.keys",   "args.layout_desc", "args.mode",    "args.extra_count", "args.read_locks", "args.external_request_id",
        "args.policy", "args.attn_desc",   "args.skip_l2", "args.spec" };
#define BIT(arg) (1u << (arg))

/* Which of them a call takes, in whatever release; others count as unknown. */
static guint32
arguments_of (guint32 op)
{
  switch (op)
    {
    case SM_OP_RESERVE_WRITE:
      return BIT (ARG_KEYS) | BIT (ARG_LAYOUT) | BIT (ARG_MODE);
    case SM_OP_PREFETCH:
      return G_MAXUINT32 & ~BIT (ARG_LOCKS);
    case SM_OP_FINISH_READ:
      return BIT (ARG_KEYS) | BIT (ARG_EXTRA) | BIT (ARG_LOCKS);
    default:
      return BIT (ARG_KEYS);
    }
}

SmDecoder *
sm_decoder_new (LmtKeyTable *keys)
{
  SmDecoder *decoder = g_new0 (SmDecoder, 1);
  sm_key_reader_init (&decoder->reader, keys);
  return decoder;
}

void
sm_decoder_set_tenant (SmDecoder *decoder, guint64 number)
{
  sm_key_reader_set_tenant (&decoder->reader, number);
}

void
sm_decoder_free (SmDecoder *decoder)
{
  if (decoder == NULL)
    return;
  sm_key_reader_clear (&decoder->reader);
  g_free (decoder->rows);
  g_free (decoder->row_first);
  g_free (decoder->grid);
  g_free (decoder->cell_bytes);
  g_free (decoder->flat);
  g_free (decoder->layouts);
  g_free (decoder->windows);
  g_free (decoder);
}

gboolean
sm_fault_argument (LmtFault *fault, guint arg, const LmtCursor *cursor, const char *expected)
{
  LmtType type = lmt_cursor_peek (cursor);
  fault->expected = expected;
  fault->found = sm_type_name (type);
  return sm_fault (fault, type == LMT_TYPE_EXT ? "extension type" : sm_arguments[arg].wrong_type, sm_argument_places[arg]);
}

/* Places of the arguments; of equal names the last one. */
static gboolean
find_arguments (SmDecoder *d, guint32 op, LmtSpan args, LmtSpan *found, guint *n_unknown, LmtFault *fault)
{
  guint32 wanted = arguments_of (op), pairs;
  LmtCursor cursor = sm_cursor (args);
  memset (found, 0, N_ARGS * sizeof *found);
  if (!lmt_cursor_read_map (&cursor, &pairs))
    return sm_fault (fault, "args is not a map", "args");
  for (guint32 i = 0; i < pairs; i++)
    {
      LmtSpan name;
      guint arg = 0;
      if (!lmt_cursor_read_str (&cursor, &name))
        return sm_fault (fault, "argument name is not a str", "args");
      while (arg < N_ARGS && !lmt_span_equal_str (name, sm_arguments[arg].name, sm_arguments[arg].len))
        arg++;
      const guint8 *start = cursor.pos;
      if (arg == N_ARGS || (wanted & BIT (arg)) == 0)
        {
          ++*n_unknown;
          if (!sm_check_ignored (&cursor, fault))
            {
              fault->where = "args";
              return FALSE;
            }
          continue;
        }
      if (!sm_key_reader_skip (&d->reader, &cursor))
        return sm_fault (fault, "invalid msgpack", sm_argument_places[arg]);
      found[arg] = (LmtSpan){ start, (gsize)(cursor.pos - start) };
    }
  return TRUE;
}

gboolean
sm_argument_int (const LmtSpan *found, guint arg, gint64 *value, LmtFault *fault)
{
  LmtCursor cursor = sm_cursor (found[arg]);
  guint64 large;
  if (lmt_cursor_read_int (&cursor, value))
    return TRUE;
  if (!lmt_cursor_read_uint (&cursor, &large))
    return sm_fault_argument (fault, arg, &cursor, "integer");
  *value = G_MAXINT64;
  return TRUE;
}

/* The argument is a wrapper of @tag; its payload is read. */
gboolean
sm_argument_payload (const LmtSpan *found, guint arg, const char *tag, LmtCursor *payload, LmtFault *fault)
{
  return sm_open_tag (found[arg], tag, payload, sm_arguments[arg].wrong_type, fault)
         || sm_fault (fault, fault->reason, sm_argument_places[arg]);
}

guint32
sm_clamp_locks (SmDecoder *d, gint64 locks)
{
  if (locks >= 1 && locks <= MAX_LOCKS)
    return (guint32)locks;
  d->notes.clamped_locks++;
  return locks < 1 ? 1 : MAX_LOCKS;
}

gint64
sm_plus_one (gint64 n)
{
  return n < G_MAXINT64 ? n + 1 : n;
}

void
sm_note_keys (SmDecoder *d, const SmKeyList *list)
{
  d->notes.keys += list->n;
  d->notes.salted_keys += list->n_salted;
  if (list->n_grouped > 0)
    d->shapes |= SM_SHAPE_KEY_GROUP;
  if (list->n_grouped < list->n)
    d->shapes |= SM_SHAPE_KEY_PLAIN;
}

gboolean
sm_argument_layout (SmDecoder *d, const LmtSpan *found, SmLayout *layout, LmtFault *fault)
{
  return sm_read_tagged_layout (found[ARG_LAYOUT], layout, &d->reader, sm_arguments[ARG_LAYOUT].wrong_type, fault)
         || sm_fault (fault, fault->reason, sm_argument_places[ARG_LAYOUT]);
}

/* -------- calls with a plain list of keys -------- */

static gboolean
read_write_mode (const LmtSpan *found, guint32 *mode, LmtFault *fault)
{
  static const char *const words[] = { "new", "update", "all" }; /* order of SmWriteMode */
  LmtSpan word;
  LmtCursor cursor = sm_cursor (found[ARG_MODE]);
  if (!lmt_cursor_read_str (&cursor, &word))
    return sm_fault_argument (fault, ARG_MODE, &cursor, "str");
  for (guint i = 0; i < G_N_ELEMENTS (words); i++)
    if (lmt_span_equal_str (word, words[i], strlen (words[i])))
      {
        *mode = i;
        return TRUE;
      }
  fault->expected = "new, update or all";
  lmt_fault_set_detail (fault, (const char *)word.data, word.len);
  return sm_fault (fault, "unknown write mode", sm_argument_places[ARG_MODE]);
}

static gboolean
read_locks (SmDecoder *d, const LmtSpan *found, SmCall *call, LmtFault *fault)
{
  gint64 locks = 1;
  if (found[ARG_LOCKS].data != NULL)
    {
      d->shapes |= SM_SHAPE_FINISH_LOCKS;
      if (!sm_argument_int (found, ARG_LOCKS, &locks, fault))
        return FALSE;
    }
  else if (found[ARG_EXTRA].data != NULL)
    {
      d->shapes |= SM_SHAPE_FINISH_EXTRA;
      if (!sm_argument_int (found, ARG_EXTRA, &locks, fault))
        return FALSE;
      locks = sm_plus_one (locks);
    }
  call->readers = sm_clamp_locks (d, locks);
  return TRUE;
}

static gboolean
decode_listed (SmDecoder *d, const LmtSpan *found, SmCall *call, gboolean *missing, LmtFault *fault)
{
  SmKeyList list;
  if (found[ARG_KEYS].data == NULL)
    {
      *missing = TRUE;
      return sm_fault (fault, sm_arguments[ARG_KEYS].absent, "args");
    }
  fault->where = sm_argument_places[ARG_KEYS];
  if (!sm_key_reader_read (&d->reader, found[ARG_KEYS], "args.keys[%u]", sm_arguments[ARG_KEYS].wrong_type, &list, fault))
    return FALSE;
  if (call->op == SM_OP_RESERVE_WRITE)
    {
      SmLayout layout;
      if (found[ARG_LAYOUT].data == NULL)
        {
          *missing = TRUE;
          return sm_fault (fault, sm_arguments[ARG_LAYOUT].absent, "args");
        }
      if (!sm_argument_layout (d, found, &layout, fault))
        return FALSE;
      if (found[ARG_MODE].data != NULL && !read_write_mode (found, &call->write_mode, fault))
        return FALSE;
      call->object_bytes = layout.bytes;
      call->layout = layout.value;
      d->shapes |= found[ARG_MODE].data != NULL ? SM_SHAPE_RESERVE_MODE : SM_SHAPE_RESERVE_BARE;
    }
  else if (call->op == SM_OP_FINISH_READ && !read_locks (d, found, call, fault))
    return FALSE;
  call->keys = d->reader.keys + list.first;
  call->n_keys = list.n;
  sm_note_keys (d, &list);
  return TRUE;
}

/* -------- the doors -------- */

gboolean
sm_decoder_decode (SmDecoder *d, guint32 op, const LmtRecord *record, SmCall *call, gboolean *missing, LmtFault *fault)
{
  LmtSpan found[N_ARGS];
  guint n_unknown = 0;
  /* In two pieces: compilers clear one as large as this by an instruction that takes its time to start. */
  memset (call, 0, G_STRUCT_OFFSET (SmCall, layout));
  call->layout = call->request_id = call->l1_tags = call->l2_tags = (LmtSpan){ NULL, 0 };
  memset (fault, 0, sizeof *fault);
  *missing = FALSE;
  call->op = op;
  sm_key_reader_begin (&d->reader);
  gboolean ok = find_arguments (d, op, record->args, found, &n_unknown, fault);
  if (ok)
    ok = op == SM_OP_PREFETCH ? sm_decode_prefetch (d, found, call, missing, fault)
                              : decode_listed (d, found, call, missing, fault);
  sm_key_reader_end (&d->reader, ok);
  if (ok)
    {
      d->notes.unknown_arguments += n_unknown;
      return TRUE;
    }
  fault->offset = record->offset;
  fault->number = record->number;
  return FALSE;
}

const SmDecodeNotes *
sm_decoder_get_notes (const SmDecoder *decoder)
{
  return &decoder->notes;
}

const guint32 *
sm_decoder_get_flat (const SmDecoder *decoder, guint *n)
{
  *n = decoder->n_flat;
  if (!decoder->has_flat)
    return NULL;
  return decoder->flat != NULL ? decoder->flat : (const guint32 *)"\0\0\0"; /* an empty list is a list */
}

LmtSpan
sm_decoder_get_request_id (const SmDecoder *decoder)
{
  return decoder->request_id;
}

const char *
sm_decoder_guess_release (SmDecoder *decoder, const LmtHeader *header)
{
  return sm_release_guess (decoder->shapes, header, decoder->release) ? decoder->release : NULL;
}

gboolean
sm_decoder_select (SmDecoder *decoder, const LmtRecord *record, const LmtSelect *select)
{
  LmtCursor cursor = sm_cursor (record->args);
  LmtToken token;
  for (guint64 left = 1; left > 0; left--)
    {
      LmtKeyFields fields = { .struct_size = sizeof fields, .salt = "" };
      gboolean has_group;
      if (sm_object_key_fast (&cursor, &fields, &has_group))
        {
          if (lmt_select_key (select, &fields))
            return TRUE;
          continue;
        }
      if (lmt_cursor_peek (&cursor) == LMT_TYPE_MAP)
        {
          LmtCursor ahead = cursor;
          LmtSpan tag, payload;
          SmObjectKey key;
          LmtFault ignored = { 0 };
          if (sm_unwrap (&ahead, &tag, &payload, NULL, &ignored) > 0 && LMT_SPAN_IS (tag, "ObjectKey"))
            {
              LmtCursor inner = sm_cursor (payload);
              if (sm_read_object_key (&inner, &key, &ignored) && lmt_select_key (select, &key.fields))
                return TRUE;
              cursor.pos = ahead.pos;
              continue;
            }
        }
      switch (lmt_cursor_next (&cursor, &token))
        {
        case LMT_TYPE_NONE:
        case LMT_TYPE_ERROR:
          return FALSE;
        case LMT_TYPE_MAP:
          left += (guint64)token.count * 2;
          break;
        case LMT_TYPE_ARRAY:
          left += token.count;
          break;
        default:
          break;
        }
    }
  return FALSE;
}
