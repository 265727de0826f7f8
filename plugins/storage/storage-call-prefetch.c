// SPDX-License-Identifier: Apache-2.0
/* submit_prefetch_task: rows from 0.5.6 on, one flat list of keys before (trace-format.md 7.1). */
#include "storage-call-private.h"

/* -------- prefetch in rows (0.5.6 and later) -------- */

static gboolean
read_row (SmDecoder *d, LmtCursor *cursor, guint32 index, LmtFault *fault)
{
  LmtSpan tag, payload;
  LmtCursor inner = *cursor;
  SmGroupedKeys grouped;
  SmKeyList list;
  fault->where = "args.spec.key_groups[%u]";
  fault->index = index;
  if (sm_open_plain (&inner, &tag) && LMT_SPAN_IS (tag, "GroupedObjectKeys"))
    {
      if (!sm_read_grouped_keys (&inner, &grouped, &d->reader, fault))
        return FALSE;
      cursor->pos = inner.pos; /* the map was walked to its end */
    }
  else
    {
      if (!sm_expect_tag (cursor, "GroupedObjectKeys", &payload, &d->reader,
                          "key_groups holds something else than GroupedObjectKeys", fault))
        return FALSE;
      inner = sm_cursor (payload);
      if (!sm_read_grouped_keys (&inner, &grouped, &d->reader, fault))
        return FALSE;
    }
  if (!sm_key_reader_read (&d->reader, grouped.keys, "args.spec.key_groups[].keys[%u]", "GroupedObjectKeys.keys is not an array",
                           &list, fault))
    return FALSE;
  if (index > 0 && d->rows[0].n != list.n)
    {
      fault->found_n = list.n;
      fault->has_found_n = TRUE;
      fault->found = "a row of length";
      return sm_fault (fault, "key_groups of unequal length", NULL);
    }
  GROW (d->rows, d->max_rows, d->n_rows + 1);
  GROW (d->row_first, d->max_row_first, d->n_rows + 1);
  d->row_first[d->n_rows] = list.first;
  d->rows[d->n_rows++] = (SmRow){ .n = list.n,
                                  .group = grouped.group,
                                  .window = grouped.window,
                                  .object_bytes = grouped.layout.bytes,
                                  .layout = grouped.layout.value };
  sm_note_keys (d, &list);
  return TRUE;
}

/* Does the filter let our L1 (segment dram, residency local) pass? */
static gboolean
tags_allow_l1 (LmtSpan list)
{
  guint32 n;
  LmtFault ignored = { 0 };
  LmtCursor cursor = sm_cursor (list);
  if (!sm_enter_array (&cursor, &n, NULL, "", &ignored))
    return FALSE;
  for (guint32 i = 0; i < n; i++)
    {
      LmtSpan payload;
      SmTags tags;
      if (!sm_expect_tag (&cursor, "MemoryTags", &payload, NULL, "", &ignored))
        return FALSE;
      LmtCursor inner = sm_cursor (payload);
      if (sm_read_tags (&inner, &tags, &ignored) && tags.segment == 1 && tags.residency == 0)
        return TRUE;
    }
  return FALSE;
}

static gboolean
tags_are_empty (LmtSpan list)
{
  guint32 n = 0;
  LmtFault ignored = { 0 };
  LmtCursor cursor = sm_cursor (list);
  return sm_enter_array (&cursor, &n, NULL, "", &ignored) && n == 0;
}

static gboolean
decode_task_spec (SmDecoder *d, LmtSpan payload, SmCall *call, LmtFault *fault)
{
  SmTaskSpec spec;
  guint32 n;
  LmtCursor cursor = sm_cursor (payload);
  if (!sm_read_task_spec (&cursor, &spec, &d->reader, fault))
    return FALSE;
  cursor = sm_cursor (spec.key_groups);
  fault->where = "args.spec.key_groups";
  if (!sm_enter_array (&cursor, &n, &d->reader, "PrefetchTaskSpec.key_groups has an unexpected type", fault))
    return FALSE;
  if (n == 0)
    return sm_fault (fault, "PrefetchTaskSpec.key_groups is empty", NULL);
  for (guint32 i = 0; i < n; i++)
    if (!read_row (d, &cursor, i, fault))
      return FALSE;
  for (guint i = 0; i < d->n_rows; i++)
    d->rows[i].keys = d->reader.keys + d->row_first[i];
  call->readers = sm_clamp_locks (d, spec.readers);
  call->policy = spec.policy;
  call->lock_mode = spec.lock_mode;
  if (spec.l1_tags.len > 0)
    call->look_l1 = tags_allow_l1 (spec.l1_tags);
  if (spec.l2_tags.len > 0 && tags_are_empty (spec.l2_tags))
    call->allow_l2 = FALSE;
  call->l1_tags = spec.l1_tags;
  call->l2_tags = spec.l2_tags;
  d->notes.tag_filters += spec.l1_tags.len > 0 || spec.l2_tags.len > 0;
  d->shapes |= spec.has_tags ? SM_SHAPE_T2 : SM_SHAPE_T1;
  return TRUE;
}

/* -------- prefetch of a flat list (to 0.5.5) -------- */

/* What a flat request says, whichever arguments said it. */
typedef struct
{
  SmKeyList list;
  SmAttn attn;
  guint32 trim;
  guint32 warm;
  gint64 readers;
  gboolean by_group; /* layouts by the group of the key: d->layouts; else @bytes for all */
  guint64 bytes;
  LmtSpan layout;
} FlatRequest;

static int
compare_layouts (gconstpointer a, gconstpointer b)
{
  const GroupLayout *x = a, *y = b;
  if (x->group != y->group)
    return x->group < y->group ? -1 : 1;
  return x->place < y->place ? -1 : x->place > y->place;
}

static gboolean
read_group_number (LmtCursor *cursor, guint32 *group)
{
  LmtSpan text;
  guint64 n = 0;
  if (lmt_cursor_read_uint (cursor, &n))
    {
      *group = (guint32)n;
      return n <= G_MAXUINT32;
    }
  if (!lmt_cursor_read_str (cursor, &text) || text.len == 0 || text.len > 10)
    return FALSE;
  for (gsize i = 0; i < text.len; i++)
    {
      if (!g_ascii_isdigit (text.data[i]))
        return FALSE;
      n = n * 10 + (text.data[i] - '0');
    }
  *group = (guint32)n;
  return n <= G_MAXUINT32;
}

/* Places first: of equal numbers only the last one is decoded. */
static gboolean
find_group_layouts (SmDecoder *d, LmtSpan value, gboolean *sorted, LmtFault *fault)
{
  guint32 pairs;
  LmtCursor cursor = sm_cursor (value);
  d->n_layouts = 0;
  *sorted = TRUE;
  if (!lmt_cursor_read_map (&cursor, &pairs))
    return sm_fault (fault, "PrefetchRequestSpec.group_layout_descs has an unexpected type", NULL);
  for (guint32 i = 0; i < pairs; i++)
    {
      GroupLayout entry = { .place = i };
      if (!read_group_number (&cursor, &entry.group))
        return sm_fault (fault, "PrefetchRequestSpec.group_layout_descs has a key that is no group number", NULL);
      if (!lmt_cursor_skip_span (&cursor, &entry.value))
        return sm_fault (fault, "invalid msgpack", NULL);
      *sorted = *sorted && (d->n_layouts == 0 || d->layouts[d->n_layouts - 1].group < entry.group);
      GROW (d->layouts, d->max_layouts, d->n_layouts + 1);
      d->layouts[d->n_layouts++] = entry;
    }
  return TRUE;
}

static gboolean
read_group_layouts (SmDecoder *d, LmtSpan value, LmtFault *fault)
{
  gboolean sorted;
  guint n = 0;
  fault->where = "args.spec.group_layout_descs";
  if (!find_group_layouts (d, value, &sorted, fault))
    return FALSE;
  if (!sorted)
    qsort (d->layouts, d->n_layouts, sizeof *d->layouts, compare_layouts);
  for (guint i = 0; i < d->n_layouts; i++)
    {
      GroupLayout entry = d->layouts[i];
      SmLayout layout;
      if (i + 1 < d->n_layouts && d->layouts[i + 1].group == entry.group)
        continue;
      if (!sm_read_tagged_layout (entry.value, &layout, &d->reader,
                                  "group_layout_descs holds something else than MemoryLayoutDesc", fault))
        return FALSE;
      entry.bytes = layout.bytes;
      d->layouts[n++] = entry;
    }
  d->n_layouts = n;
  return TRUE;
}

static const GroupLayout *
find_layout (const SmDecoder *d, guint32 group)
{
  guint low = 0, high = d->layouts != NULL ? d->n_layouts : 0;
  while (low < high)
    {
      guint mid = (low + high) / 2;
      if (d->layouts[mid].group <= group)
        low = mid + 1;
      else
        high = mid;
    }
  return low > 0 && d->layouts[low - 1].group == group ? &d->layouts[low - 1] : NULL;
}

/* Windows and layouts of the groups 0 … n-1: each needs its layout. */
static gboolean
read_windows (SmDecoder *d, const FlatRequest *request, LmtFault *fault)
{
  LmtCursor cursor = sm_cursor (request->attn.windows);
  for (guint32 g = 0; g < request->attn.n_windows; g++)
    {
      gint64 window = -1;
      if (!lmt_cursor_read_int (&cursor, &window))
        return sm_fault (fault, "AttnWindowDesc has an unexpected type", "args.spec.attn_desc");
      if (request->by_group && find_layout (d, g) == NULL)
        {
          fault->has_found_n = TRUE;
          fault->found_n = g;
          fault->found = "none for group";
          return sm_fault (fault, "group_layout_descs lacks a group", "args.spec.group_layout_descs");
        }
      GROW (d->windows, d->max_windows, g + 1);
      d->windows[g] = window;
    }
  return TRUE;
}

/* What an object of @group takes. FALSE: no layout is given for it. */
static gboolean
find_bytes (const SmDecoder *d, const FlatRequest *request, guint32 group, const GroupLayout **last, guint64 *bytes)
{
  *bytes = request->bytes;
  if (!request->by_group)
    return TRUE;
  if (*last == NULL || (*last)->group != group)
    *last = find_layout (d, group);
  if (*last != NULL)
    *bytes = (*last)->bytes;
  return *last != NULL;
}

/*
 * The list as one row. Its cells may be of several groups, each with its own layout; the reservation is then made per group, also
 * where their layouts are alike (storage-manager.md 17). A plain list with one layout for all of it stays one reservation.
 */
static gboolean
make_one_row (SmDecoder *d, const FlatRequest *request, LmtFault *fault)
{
  guint32 n = request->list.n;
  LmtKey **keys = d->reader.keys + request->list.first;
  guint64 bytes = request->bytes;
  LmtSpan layout_value = request->layout;
  gboolean per_group = request->by_group || request->trim == SM_TRIM_SPARSE, groups_differ = FALSE;
  if (per_group)
    {
      const GroupLayout *layout = d->n_layouts > 0 && request->by_group ? &d->layouts[0] : NULL;
      if (n == 0 && layout != NULL)
        bytes = layout->bytes;
      if (request->by_group && n > 0 && find_layout (d, keys[0]->fields.group) != NULL)
        layout_value = find_layout (d, keys[0]->fields.group)->value;
      else if (layout != NULL)
        layout_value = layout->value;
      GROW (d->cell_bytes, d->max_cell_bytes, n);
      for (guint32 i = 0; i < n; i++)
        {
          if (!find_bytes (d, request, keys[i]->fields.group, &layout, &d->cell_bytes[i]))
            {
              fault->index = i;
              return sm_fault (fault, "group_layout_descs lacks the group of a key", "args.spec.keys[%u]");
            }
          groups_differ |= keys[i]->fields.group != keys[0]->fields.group;
        }
      if (n > 0)
        bytes = d->cell_bytes[0];
    }
  GROW (d->rows, d->max_rows, 1);
  GROW (d->flat, d->max_flat, n);
  d->rows[0] = (SmRow){ .keys = keys,
                        .cell_bytes = groups_differ ? d->cell_bytes : NULL,
                        .object_bytes = bytes,
                        .window = -1,
                        .n = n,
                        .group = n > 0 ? keys[0]->fields.group : 0,
                        .layout = layout_value };
  d->n_rows = 1;
  for (guint32 i = 0; i < n; i++)
    d->flat[i] = i;
  return TRUE;
}

/* Index i of the list: chunk i / (G*W), group (i / W) mod G, rank i mod W (trace-format.md 7.1). */
static void
make_grid (SmDecoder *d, const FlatRequest *request, guint32 n_rows)
{
  guint32 n = request->list.n, columns = n / n_rows, world = (guint32)request->attn.world_size;
  LmtKey **keys = d->reader.keys + request->list.first;
  GROW (d->grid, d->max_grid, n);
  GROW (d->flat, d->max_flat, n);
  GROW (d->rows, d->max_rows, n_rows);
  for (guint32 c = 0, i = 0; c < columns; c++)
    for (guint32 r = 0; r < n_rows; r++, i++)
      {
        d->grid[r * columns + c] = keys[i];
        d->flat[i] = r * columns + c;
      }
  for (guint32 r = 0; r < n_rows; r++)
    {
      guint32 group = r / world;
      d->rows[r] = (SmRow){ .keys = d->grid + (gsize)r * columns,
                            .object_bytes = request->by_group ? find_layout (d, group)->bytes : request->bytes,
                            .window = d->windows[group],
                            .n = columns,
                            .group = group,
                            .layout = request->by_group ? find_layout (d, group)->value : request->layout };
    }
  d->n_rows = n_rows;
}

static gboolean
finish_flat (SmDecoder *d, FlatRequest *request, SmCall *call, LmtFault *fault)
{
  const SmAttn *attn = &request->attn;
  guint32 n = request->list.n;
  if (attn->is_map && !read_windows (d, request, fault))
    return FALSE;
  gboolean grid = attn->is_map && request->trim != SM_TRIM_SPARSE && n > 0 && attn->n_windows > 0;
  if (grid)
    {
      guint64 n_rows = attn->world_size <= n && attn->n_windows <= n ? attn->n_windows * attn->world_size : G_MAXUINT64;
      grid = n_rows <= n && n % n_rows == 0;
      if (grid)
        make_grid (d, request, (guint32)n_rows);
      else
        d->notes.undivided_rows++;
    }
  if (!grid && !make_one_row (d, request, fault))
    return FALSE;
  d->n_flat = n;
  d->has_flat = TRUE;
  d->notes.flat_requests++;
  d->notes.segmented_prefix += request->trim == SM_TRIM_SEGMENTED_PREFIX;
  call->policy = request->trim == SM_TRIM_SPARSE ? SM_POLICY_FULL : SM_POLICY_PREFIX;
  call->lock_mode = request->warm ? SM_NO_LOCK : SM_LOCK;
  call->look_l1 = !request->warm;
  call->readers = sm_clamp_locks (d, request->readers);
  sm_note_keys (d, &request->list);
  return TRUE;
}

static gboolean
decode_request_spec (SmDecoder *d, LmtSpan payload, SmCall *call, LmtFault *fault)
{
  SmRequestSpec spec;
  FlatRequest request = { .by_group = FALSE };
  LmtCursor cursor = sm_cursor (payload);
  if (!sm_read_request_spec (&cursor, &spec, &d->reader, fault))
    return FALSE;
  fault->where = "args.spec.keys";
  if (!sm_key_reader_read (&d->reader, spec.keys, "args.spec.keys[%u]", "PrefetchRequestSpec.keys is not an array", &request.list,
                           fault))
    return FALSE;
  if (spec.group_layouts.data != NULL)
    {
      if (!read_group_layouts (d, spec.group_layouts, fault))
        return FALSE;
    }
  else
    {
      GROW (d->layouts, d->max_layouts, 1);
      d->layouts[0] = (GroupLayout){ .group = 0, .bytes = spec.layout.bytes, .value = spec.layout.value };
      d->n_layouts = 1;
    }
  request.by_group = TRUE;
  request.attn = spec.attn;
  request.trim = spec.trim;
  request.warm = spec.warm;
  request.readers = spec.readers;
  if (spec.has_num_kv_readers)
    d->shapes |= SM_SHAPE_R2;
  else if (spec.has_extra_count)
    d->shapes |= SM_SHAPE_R1;
  return finish_flat (d, &request, call, fault);
}

static gboolean
decode_flat_arguments (SmDecoder *d, const LmtSpan *found, SmCall *call, gboolean *missing, LmtFault *fault)
{
  FlatRequest request = { .readers = 1, .attn = { .n_windows = 1, .world_size = 1 } };
  SmLayout layout;
  SmWord word;
  LmtCursor payload;
  if (found[ARG_KEYS].data == NULL || found[ARG_LAYOUT].data == NULL)
    {
      *missing = TRUE;
      return sm_fault (fault, sm_arguments[found[ARG_KEYS].data == NULL ? ARG_SPEC : ARG_LAYOUT].absent, "args");
    }
  fault->where = sm_argument_places[ARG_KEYS];
  if (!sm_key_reader_read (&d->reader, found[ARG_KEYS], "args.keys[%u]", sm_arguments[ARG_KEYS].wrong_type, &request.list, fault)
      || !sm_argument_layout (d, found, &layout, fault))
    return FALSE;
  request.bytes = layout.bytes;
  request.layout = layout.value;
  if (found[ARG_EXTRA].data != NULL)
    {
      if (!sm_argument_int (found, ARG_EXTRA, &request.readers, fault))
        return FALSE;
      request.readers = sm_plus_one (request.readers);
    }
  if (found[ARG_POLICY].data != NULL)
    {
      if (!sm_argument_payload (found, ARG_POLICY, "TrimPolicy", &payload, fault))
        return FALSE;
      fault->where = sm_argument_places[ARG_POLICY];
      if (!sm_read_trim (&payload, &word, fault))
        return FALSE;
      request.trim = word.value;
    }
  if (found[ARG_MODE].data != NULL)
    {
      if (!sm_argument_payload (found, ARG_MODE, "PrefetchMode", &payload, fault))
        return FALSE;
      fault->where = sm_argument_places[ARG_MODE];
      if (!sm_read_prefetch_mode (&payload, &word, fault))
        return FALSE;
      request.warm = word.value;
    }
  if (found[ARG_ATTN].data != NULL)
    {
      if (!sm_argument_payload (found, ARG_ATTN, "AttnWindowDesc", &payload, fault))
        return FALSE;
      fault->where = sm_argument_places[ARG_ATTN];
      if (!sm_read_attn (&payload, &request.attn, fault))
        return FALSE;
      d->shapes |= SM_SHAPE_FLAT_ATTN;
    }
  else if (found[ARG_SKIP_L2].data != NULL)
    d->shapes |= SM_SHAPE_FLAT_SKIP_L2;
  else
    d->shapes |= found[ARG_POLICY].data != NULL ? SM_SHAPE_FLAT_POLICY : SM_SHAPE_FLAT;
  return finish_flat (d, &request, call, fault);
}

/* `spec` wins over the flat arguments; what they hold must still be decodable. */
static gboolean
check_unused (const LmtSpan *found, LmtFault *fault)
{
  for (guint arg = 0; arg < N_ARGS; arg++)
    {
      if (found[arg].data == NULL || arg == ARG_SPEC || arg == ARG_REQUEST_ID || arg == ARG_SKIP_L2)
        continue;
      LmtCursor cursor = sm_cursor (found[arg]);
      if (!sm_check_ignored (&cursor, fault))
        return sm_fault (fault, fault->reason, sm_argument_places[arg]);
    }
  return TRUE;
}

gboolean
sm_decode_prefetch (SmDecoder *d, const LmtSpan *found, SmCall *call, gboolean *missing, LmtFault *fault)
{
  gboolean skip_l2 = FALSE, ok;
  d->n_rows = 0;
  d->n_flat = 0;
  d->has_flat = FALSE;
  d->request_id = (LmtSpan){ (const guint8 *)"", 0 };
  call->look_l1 = TRUE;
  call->allow_l2 = TRUE;
  if (found[ARG_REQUEST_ID].data != NULL)
    {
      LmtCursor cursor = sm_cursor (found[ARG_REQUEST_ID]);
      if (!lmt_cursor_read_str (&cursor, &d->request_id))
        return sm_fault_argument (fault, ARG_REQUEST_ID, &cursor, "str");
    }
  if (found[ARG_SKIP_L2].data != NULL)
    {
      LmtCursor cursor = sm_cursor (found[ARG_SKIP_L2]);
      if (!lmt_cursor_read_bool (&cursor, &skip_l2))
        return sm_fault_argument (fault, ARG_SKIP_L2, &cursor, "bool");
    }
  if (found[ARG_SPEC].data != NULL)
    {
      LmtSpan tag, payload;
      LmtCursor cursor = sm_cursor (found[ARG_SPEC]), inner = cursor;
      if (!check_unused (found, fault))
        return FALSE;
      fault->where = sm_argument_places[ARG_SPEC];
      gint wrapped = 1;
      if (sm_open_plain (&inner, &tag) && sm_tag_is_known (tag))
        payload = (LmtSpan){ inner.pos, (gsize)(inner.end - inner.pos) };
      else
        wrapped = sm_unwrap (&cursor, &tag, &payload, &d->reader, fault);
      if (wrapped < 0)
        return FALSE;
      if (wrapped > 0 && LMT_SPAN_IS (tag, "PrefetchTaskSpec"))
        ok = decode_task_spec (d, payload, call, fault);
      else if (wrapped > 0 && LMT_SPAN_IS (tag, "PrefetchRequestSpec"))
        ok = decode_request_spec (d, payload, call, fault);
      else
        return sm_fault_argument (fault, ARG_SPEC, &cursor, "PrefetchTaskSpec or PrefetchRequestSpec");
    }
  else
    ok = decode_flat_arguments (d, found, call, missing, fault);
  if (!ok)
    return FALSE;
  if (skip_l2)
    call->allow_l2 = FALSE;
  call->request_id = d->request_id;
  call->rows = d->rows;
  call->n_rows = d->n_rows;
  return TRUE;
}
