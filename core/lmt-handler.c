/* SPDX-License-Identifier: Apache-2.0 */
#include "lmt-handler.h"

#include <string.h>

#include "lmt-registry.h"

typedef struct
{
  const char *qualname;
  gsize len;
  LmtHandlerOps ops;
} DispatchRow;

struct _LmtDispatch
{
  DispatchRow *rows;
  guint n;
  guint last;
};

LmtDispatch *
lmt_dispatch_new (LmtRegistry *registry, const char *level)
{
  LmtDispatch *dispatch = g_new0 (LmtDispatch, 1);
  g_autoptr (GPtrArray) handlers = lmt_registry_list_handlers (registry, level);

  dispatch->n = handlers->len;
  dispatch->rows = g_new0 (DispatchRow, handlers->len);
  for (guint i = 0; i < handlers->len; i++)
    {
      DispatchRow *row = &dispatch->rows[i];

      row->ops = *(const LmtHandlerOps *)handlers->pdata[i];
      row->qualname = row->ops.qualname;
      row->len = strlen (row->qualname);
    }
  return dispatch;
}

void
lmt_dispatch_free (LmtDispatch *dispatch)
{
  if (dispatch == NULL)
    return;
  g_free (dispatch->rows);
  g_free (dispatch);
}

static inline gboolean
row_is (const DispatchRow *row, LmtSpan qualname)
{
  return row->len == qualname.len && memcmp (row->qualname, qualname.data, qualname.len) == 0;
}

gint
lmt_dispatch_find (LmtDispatch *dispatch, LmtSpan qualname)
{
  if (dispatch->last < dispatch->n && row_is (&dispatch->rows[dispatch->last], qualname))
    return (gint)dispatch->last;
  for (guint i = 0; i < dispatch->n; i++)
    if (row_is (&dispatch->rows[i], qualname))
      {
        dispatch->last = i;
        return (gint)i;
      }
  return -1;
}

const LmtHandlerOps *
lmt_dispatch_get (LmtDispatch *dispatch, gint index)
{
  g_return_val_if_fail (index >= 0 && (guint)index < dispatch->n, NULL);
  return &dispatch->rows[index].ops;
}

guint
lmt_dispatch_size (LmtDispatch *dispatch)
{
  return dispatch->n;
}
