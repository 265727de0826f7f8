/* SPDX-License-Identifier: Apache-2.0 */
#include "fault.h"

#include <lmtrace/lmt-hash.h>

#include <math.h>
#include <stdio.h>

/* What is appended to the identity; none for LMCache's own fault, so that its verdicts are the same bit for bit. */
static const char *const suffixes[N_FAULTS] = {
  [FAULT_LOAD] = "",          [FAULT_STORE] = ":store", [FAULT_LOOKUP] = ":lookup",
  [FAULT_DELETE] = ":delete", [FAULT_SHORT] = ":short", [FAULT_CORRUPT] = ":corrupt",
  [FAULT_DELAY] = ":delay",   [FAULT_HANG] = ":hang",   [FAULT_DUPLICATE] = ":duplicate",
};

guint64
fault_draw (const FaultPlan *plan, FaultKind kind, const LmtKeyFields *key)
{
  static const char digits[] = "0123456789abcdef";
  char fixed[512];
  gsize need = 2 * (gsize)key->hash_len + key->model_len + key->salt_len + 96;
  g_autofree char *large = need > sizeof fixed ? g_malloc (need) : NULL;
  char *text = large != NULL ? large : fixed;
  guint8 digest[8];
  guint64 value = 0;

  gsize n = (gsize)snprintf (text, 32, "%" G_GINT64_FORMAT ":", plan->seed);
  for (guint32 i = 0; i < key->hash_len; i++)
    {
      guint8 byte = ((const guint8 *)key->hash)[i];
      text[n++] = digits[byte >> 4];
      text[n++] = digits[byte & 15];
    }
  text[n++] = ':';
  if (key->model_len > 0)
    memcpy (text + n, key->model, key->model_len);
  n += key->model_len;
  n += (gsize)snprintf (text + n, 48, ":%" G_GUINT64_FORMAT ":%u:", key->rank, key->group);
  if (key->salt_len > 0)
    memcpy (text + n, key->salt, key->salt_len);
  n += key->salt_len;
  gsize n_suffix = strlen (suffixes[kind]);
  memcpy (text + n, suffixes[kind], n_suffix);
  lmt_blake2b (text, n + n_suffix, digest, sizeof digest);
  for (guint i = 0; i < sizeof digest; i++)
    value = value << 8 | digest[i];
  return value;
}

gboolean
fault_hits (const FaultPlan *plan, FaultKind kind, const LmtKeyFields *key)
{
  return plan->limits[kind] > 0 && fault_draw (plan, kind, key) % 1000000 < plan->limits[kind];
}

gboolean
fault_is_gap (const FaultPlan *plan, guint32 index, guint32 n)
{
  for (guint i = 0; i < plan->n_gap_indices; i++)
    if (plan->gap_indices[i] == index)
      return TRUE;
  /* rint() rounds half to even, as Python's round(). */
  for (guint i = 0; i < plan->n_gap_ratios; i++)
    if (n > 0 && rint ((1.0 - plan->gap_ratios[i]) * (double)(n - 1)) == (double)index)
      return TRUE;
  return FALSE;
}
