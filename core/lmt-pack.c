/* SPDX-License-Identifier: Apache-2.0 */
#include "lmt-pack.h"

static gboolean
grow (LmtPack *pack, gsize need)
{
  gsize max;

  if (need > G_MAXSIZE / 4 || pack->len > G_MAXSIZE / 4)
    return FALSE;
  max = MAX (MAX (pack->max * 2, pack->len + need), 256);
  pack->data = g_realloc (pack->data, max);
  pack->max = max;
  return TRUE;
}

void
lmt_pack_init (LmtPack *pack)
{
  g_return_if_fail (pack != NULL);

  memset (pack, 0, sizeof *pack);
  pack->grow = grow;
}

void
lmt_pack_clear (LmtPack *pack)
{
  g_return_if_fail (pack != NULL);

  if (pack->grow == grow)
    g_free (pack->data);
  memset (pack, 0, sizeof *pack);
}
