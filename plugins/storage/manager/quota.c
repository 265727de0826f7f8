/* SPDX-License-Identifier: Apache-2.0 */
#include "manager-private.h"

/* Quotas by salt (storage-manager.md 10.3), and the bytes each salt has in an adapter (7.1). */

void
sm_quotas_init (SmQuotas *quotas)
{
  quotas->limits = NULL;
  quotas->n_limits = 0;
  quotas->fallback = -1;
  quotas->order = g_array_new (FALSE, FALSE, sizeof (guint32));
}

void
sm_quotas_clear (SmQuotas *quotas)
{
  g_free (quotas->limits);
  g_array_unref (quotas->order);
}

gboolean
sm_quotas_has (const SmQuotas *quotas, guint32 salt)
{
  return salt < quotas->n_limits && quotas->limits[salt] >= 0;
}

gboolean
sm_quotas_set (SmQuotas *quotas, guint32 salt, gint64 limit)
{
  if (limit < 0)
    return FALSE;
  if (salt >= quotas->n_limits)
    {
      guint size = MAX (quotas->n_limits, 8);

      while (size <= salt)
        size *= 2;
      quotas->limits = g_renew (gint64, quotas->limits, size);
      for (guint i = quotas->n_limits; i < size; i++)
        quotas->limits[i] = -1;
      quotas->n_limits = size;
    }
  if (quotas->limits[salt] < 0)
    g_array_append_val (quotas->order, salt);
  quotas->limits[salt] = limit;
  return TRUE;
}

gboolean
sm_quotas_set_default (SmQuotas *quotas, gint64 limit)
{
  if (limit < 0)
    return FALSE;
  quotas->fallback = limit;
  return TRUE;
}

void
sm_quotas_clear_default (SmQuotas *quotas)
{
  quotas->fallback = -1;
}

gboolean
sm_quotas_delete (SmQuotas *quotas, guint32 salt)
{
  if (!sm_quotas_has (quotas, salt))
    return FALSE;
  quotas->limits[salt] = -1;
  for (guint i = 0; i < quotas->order->len; i++)
    if (g_array_index (quotas->order, guint32, i) == salt)
      {
        g_array_remove_index (quotas->order, i);
        break;
      }
  return TRUE;
}

gint64
sm_quotas_get_limit (const SmQuotas *quotas, guint32 salt)
{
  return sm_quotas_has (quotas, salt) ? quotas->limits[salt] : 0;
}

gint64
sm_quotas_get_effective (const SmQuotas *quotas, guint32 salt)
{
  return sm_quotas_has (quotas, salt) ? quotas->limits[salt] : quotas->fallback;
}

gboolean
lmt_sm_set_quota (LmtSm *sm, guint32 salt, gint64 limit_bytes)
{
  return sm_quotas_set (&sm->quotas, salt, limit_bytes);
}

gboolean
lmt_sm_delete_quota (LmtSm *sm, guint32 salt)
{
  return sm_quotas_delete (&sm->quotas, salt);
}

/* ---- usage ---- */

void
sm_usage_init (SmUsage *usage)
{
  *usage = (SmUsage){ .head = SM_NIL, .tail = SM_NIL };
}

void
sm_usage_clear (SmUsage *usage)
{
  g_free (usage->salts);
}

void
sm_usage_add (SmUsage *usage, guint32 salt, guint64 bytes)
{
  SmSaltUsage *entry;

  usage->used += bytes;
  if (salt >= usage->n_salts)
    {
      guint size = MAX (usage->n_salts, 8);

      while (size <= salt)
        size *= 2;
      usage->salts = g_renew (SmSaltUsage, usage->salts, size);
      for (guint i = usage->n_salts; i < size; i++)
        usage->salts[i] = (SmSaltUsage){ 0, SM_NIL, SM_NIL };
      usage->n_salts = size;
    }
  if (bytes == 0)
    return;
  entry = &usage->salts[salt];
  if (entry->bytes == 0)
    {
      entry->prev = usage->tail;
      entry->next = SM_NIL;
      if (usage->tail != SM_NIL)
        usage->salts[usage->tail].next = salt;
      else
        usage->head = salt;
      usage->tail = salt;
    }
  entry->bytes += bytes;
}

void
sm_usage_remove (SmUsage *usage, guint32 salt, guint64 bytes)
{
  SmSaltUsage *entry;

  usage->used -= MIN (bytes, usage->used);
  if (salt >= usage->n_salts || usage->salts[salt].bytes == 0)
    return;
  entry = &usage->salts[salt];
  entry->bytes -= MIN (bytes, entry->bytes);
  if (entry->bytes > 0)
    return;
  if (entry->prev != SM_NIL)
    usage->salts[entry->prev].next = entry->next;
  else
    usage->head = entry->next;
  if (entry->next != SM_NIL)
    usage->salts[entry->next].prev = entry->prev;
  else
    usage->tail = entry->prev;
}
