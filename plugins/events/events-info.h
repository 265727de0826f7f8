// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <lmtrace/lmt-plugin.h>

G_BEGIN_DECLS

/**
 * What an events trace holds, on one screen (events.md 7). Batches aren't validated: what can be counted is, values of a wrong
 * kind are counted apart. Memory grows with distinct instances, incarnations, kinds of batches and phases only, each up to
 * EVENTS_INFO_MAX, incarnations of all instances up to EVENTS_INFO_INCARNATIONS_MAX; how often more came is told. Threads: one.
 * No allocation per record once its words were seen. Batches in the form LMCache writes are looked at and counted in one walk;
 * others are looked at by the reader and read again.
 */
enum
{
  EVENTS_INFO_MAX = 65536,
  EVENTS_INFO_INCARNATIONS_MAX = 4 * EVENTS_INFO_MAX,
};

gpointer events_info_new (const LmtHeader *header);
void events_info_record (gpointer info, const LmtRecord *record);
const guint8 *events_info_walk (gpointer info, LmtSpan qualname, const guint8 *args, const guint8 *end);
void events_info_finish (gpointer info, const LmtInfoOut *out);
gboolean events_info_select (gpointer info, const LmtRecord *record, const LmtSelect *select);
void events_info_free (gpointer info);

G_END_DECLS
