// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "events-views.h"

/* The reference's replies out of the views, as far as the golden states hold them. @registered: ids in order of registration. */
void view_json_usage (EventsViews *views, GPtrArray *registered, LmtJsonWriter *out);
void view_json_stats (EventsViews *views, LmtJsonWriter *out);
void view_json_keys (EventsViews *views, guint64 budget, LmtJsonWriter *out);
void view_json_quota (EventsViews *views, EventsTier tier, LmtJsonWriter *out);
void view_json_key (const EventsKey *key, LmtJsonWriter *out);
/* Placements sorted by (instance, tier, backend). */
void view_json_lookup (const EventsKeyView *view, gpointer out);
