// SPDX-License-Identifier: Apache-2.0
/* `lmtrace info`: the keys of a record, for --stats and for the selection by key. The block itself needs nothing of this level.
 */
#include "storage-session.h"

#include <string.h>

#include "storage-codecs.h"

typedef struct
{
  LmtKeyTable *keys; /* made when the first record is looked into */
  SmDecoder *decoder;
  LmtHeader *header;
  gboolean visited; /* --stats: the shapes of the records were seen */
} StorageInfo;

static const struct
{
  const char *name; /* behind the class */
  guint32 op;
  guint32 act;
} calls[] = {
  { "reserve_write", SM_OP_RESERVE_WRITE, LMT_INFO_RESERVE },
  { "finish_write", SM_OP_FINISH_WRITE, LMT_INFO_FINISH },
  { "submit_prefetch_task", SM_OP_PREFETCH, LMT_INFO_LOOKUP },
  { "read_prefetched_results.__enter__", SM_OP_READ_ENTER, LMT_INFO_ENTER },
  { "read_prefetched_results.__exit__", SM_OP_READ_EXIT, LMT_INFO_EXIT },
  { "finish_read_prefetched", SM_OP_FINISH_READ, LMT_INFO_RELEASE },
};

/* Index in calls[], or -1. */
static gint
find_call (LmtSpan qualname)
{
  static const char class_name[] = "lmcache.v1.distributed.storage_manager.StorageManager.";
  gsize skip = sizeof class_name - 1;

  if (qualname.len <= skip || memcmp (qualname.data, class_name, skip) != 0)
    return -1;
  for (guint i = 0; i < G_N_ELEMENTS (calls); i++)
    if (lmt_span_equal_str ((LmtSpan){ qualname.data + skip, qualname.len - skip }, calls[i].name, strlen (calls[i].name)))
      return (gint)i;
  return -1;
}

gboolean
storage_find_op (LmtSpan qualname, guint32 *op)
{
  gint at = find_call (qualname);

  if (at >= 0)
    *op = calls[at].op;
  return at >= 0;
}

gpointer
storage_info_new (const LmtHeader *header)
{
  StorageInfo *info = g_new0 (StorageInfo, 1);

  info->header = lmt_header_ref ((LmtHeader *)header);
  return info;
}

void
storage_info_free (gpointer user_data)
{
  StorageInfo *info = user_data;

  g_clear_pointer (&info->decoder, sm_decoder_free);
  g_clear_pointer (&info->keys, lmt_key_table_free);
  lmt_header_unref (info->header);
  g_free (info);
}

static void
make_decoder (StorageInfo *info)
{
  if (info->decoder != NULL)
    return;
  info->keys = lmt_key_table_new ();
  info->decoder = sm_decoder_new (info->keys);
}

static void
visit_rows (const SmCall *call, guint32 act, const LmtInfoVisitor *visitor)
{
  for (guint32 r = 0; r < call->n_rows; r++)
    for (guint32 i = 0; i < call->rows[r].n; i++)
      {
        const SmRow *row = &call->rows[r];

        visitor->key (visitor->user_data, act, &row->keys[i]->fields,
                      row->cell_bytes != NULL ? row->cell_bytes[i] : row->object_bytes);
      }
}

gboolean
storage_info_visit (gpointer user_data, const LmtRecord *record, const LmtInfoVisitor *visitor)
{
  StorageInfo *info = user_data;
  gint at = find_call (record->qualname);
  gboolean missing = FALSE;
  LmtFault fault = { 0 };
  SmCall call = { 0 };

  if (at < 0)
    return TRUE; /* not this level's call: nothing to show, nothing wrong */
  make_decoder (info);
  info->visited = TRUE;
  if (!sm_decoder_decode (info->decoder, calls[at].op, record, &call, &missing, &fault))
    return FALSE;
  if (calls[at].op == SM_OP_PREFETCH)
    visit_rows (&call, calls[at].act, visitor);
  for (guint32 i = 0; calls[at].op != SM_OP_PREFETCH && i < call.n_keys; i++)
    visitor->key (visitor->user_data, calls[at].act, &call.keys[i]->fields,
                  calls[at].op == SM_OP_RESERVE_WRITE ? call.object_bytes : 0);
  return TRUE;
}

/* Who wrote it can be told only where the arguments were looked at (trace-format.md 7.4). */
void
storage_info_finish (gpointer user_data, const LmtInfoOut *out)
{
  StorageInfo *info = user_data;
  const char *release = info->visited ? sm_decoder_guess_release (info->decoder, info->header) : NULL;

  if (release == NULL)
    return;
  g_string_append_printf (out->text, "  %-28sLMCache %s (from content)\n", "written_by:", release);
  lmt_json_writer_key (out->json, "written_by");
  lmt_json_writer_string (out->json, release);
}

gboolean
storage_info_select (gpointer user_data, const LmtRecord *record, const LmtSelect *select)
{
  StorageInfo *info = user_data;

  make_decoder (info);
  return sm_decoder_select (info->decoder, record, select);
}
