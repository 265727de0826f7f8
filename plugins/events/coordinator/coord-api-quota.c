// SPDX-License-Identifier: Apache-2.0
/* Quotas and pins: what the eviction loop goes by. */
#include "coord.h"

#include <math.h>

static const double GIB = 1024.0 * 1024.0 * 1024.0;

static LmtSpan
salt_of (const CoordRequest *request)
{
  LmtSpan salt = request->params[0];
  if (LMT_SPAN_IS (salt, "_default"))
    salt.len = 0;
  return salt;
}

/* FALSE: answered already. */
static gboolean
query_tier (CoordRequest *request, const char **tier)
{
  EventsProblems problems;

  events_problems_init (&problems, 4);
  *tier = coord_query_tier (request, "l2", &problems);
  if (problems.total > 0)
    {
      coord_reply_problems (request, &problems);
      return FALSE;
    }
  events_problems_clear (&problems);
  return TRUE;
}

static gboolean
is_quota_tier (CoordRequest *request, const char *tier)
{
  if (strcmp (tier, "l2") == 0)
    return TRUE;
  coord_reply_detail (request, 400, "quotas apply to tier 'l2' only, not '%s'", tier);
  return FALSE;
}

static gboolean
is_accounted_tier (CoordRequest *request, const char *tier)
{
  if (strcmp (tier, "all") != 0)
    return TRUE;
  coord_reply_detail (request, 400, "tier 'all' has no usage accounting; only 'l1', 'l2'");
  return FALSE;
}

/* -------- rows -------- */

typedef struct
{
  GBytes *salt;
  double limit_gb;
  gint64 used;
  gboolean exists;
} Row;

static void
row_clear (gpointer data)
{
  g_bytes_unref (((Row *)data)->salt);
}

static void
write_row (GString *out, LmtSpan salt, gboolean exists, double limit_gb, gint64 used)
{
  g_string_append (out, "{\"cache_salt\":");
  coord_text_string (out, salt);
  g_string_append (out, ",\"quota_limit_gb\":");
  coord_text_double (out, exists ? limit_gb : 0.0);
  g_string_append (out, exists ? ",\"quota_exists\":true,\"usage_gb\":" : ",\"quota_exists\":false,\"usage_gb\":");
  coord_text_double (out, (double)used / GIB);
  g_string_append_c (out, '}');
}

static void
collect_usage (LmtSpan salt, gint64 bytes, gpointer data)
{
  Row row = { g_bytes_new (salt.data, salt.len), 0, bytes, FALSE };
  g_array_append_val ((GArray *)data, row);
}

static void
collect_quota (LmtSpan salt, double limit_gb, gpointer data)
{
  Row row = { g_bytes_new (salt.data, salt.len), limit_gb, 0, TRUE };
  g_array_append_val ((GArray *)data, row);
}

static int
compare_rows (gconstpointer a, gconstpointer b)
{
  return g_bytes_compare (((const Row *)a)->salt, ((const Row *)b)->salt);
}

void
coord_api_quota_list (Coord *coord, CoordRequest *request)
{
  g_autoptr (GArray) rows = g_array_new (FALSE, FALSE, sizeof (Row));
  GString *out = request->out;
  gboolean first = TRUE;
  const char *tier;
  gint64 total;

  if (!query_tier (request, &tier) || !is_accounted_tier (request, tier))
    return;
  g_array_set_clear_func (rows, row_clear);
  total = events_views_salts (coord->views, strcmp (tier, "l1") == 0 ? EVENTS_L1 : EVENTS_L2, collect_usage, rows);
  if (strcmp (tier, "l2") == 0)
    events_views_foreach_quota (coord->views, collect_quota, rows);
  g_array_sort (rows, compare_rows);
  g_string_append (out, "{\"total_gb\":");
  coord_text_double (out, (double)total / GIB);
  g_string_append (out, ",\"by_cache_salt\":[");
  for (guint i = 0; i < rows->len; i++)
    {
      Row row = g_array_index (rows, Row, i);
      if (i + 1 < rows->len && g_bytes_equal (row.salt, g_array_index (rows, Row, i + 1).salt))
        {
          const Row *other = &g_array_index (rows, Row, ++i);
          row.used += other->used;
          row.exists |= other->exists;
          row.limit_gb += other->limit_gb;
        }
      if (!first)
        g_string_append_c (out, ',');
      first = FALSE;
      write_row (out, coord_span_of_bytes (row.salt), row.exists, row.limit_gb, row.used);
    }
  g_string_append (out, "]}");
  coord_reply (request, 200);
}

void
coord_api_quota_get (Coord *coord, CoordRequest *request)
{
  LmtSpan salt = salt_of (request);
  EventsTier which;
  const char *tier;
  double limit_gb = 0;
  gboolean exists;

  if (!query_tier (request, &tier) || !is_accounted_tier (request, tier))
    return;
  which = strcmp (tier, "l1") == 0 ? EVENTS_L1 : EVENTS_L2;
  exists = which == EVENTS_L2 && events_views_get_quota (coord->views, salt, &limit_gb);
  write_row (request->out, salt, exists, limit_gb, events_views_salt_bytes (coord->views, which, salt));
  coord_reply (request, 200);
}

/* -------- changes -------- */

typedef struct
{
  double limit_gb;
  LmtSpan tier;
  guint32 seen_limit, seen_tier;
} QuotaBody;

#define AT(member) G_STRUCT_OFFSET (QuotaBody, member)
static const EventsField quota_fields[] = {
  { .name = "limit_gb",
    .want = EVENTS_WANT_FLOAT,
    .required = 1,
    .has_min = 1,
    .offset = AT (limit_gb),
    .seen_offset = AT (seen_limit) },
  { .name = "tier", .want = EVENTS_WANT_RAW, .offset = AT (tier), .seen_offset = AT (seen_tier) },
};
static const EventsField config_fields[] = {
  { .name = "default_limit_gb",
    .want = EVENTS_WANT_FLOAT,
    .nullable = 1,
    .has_min = 1,
    .offset = AT (limit_gb),
    .seen_offset = AT (seen_limit) },
  { .name = "tier", .want = EVENTS_WANT_RAW, .offset = AT (tier), .seen_offset = AT (seen_tier) },
};
#undef AT

/* FALSE: answered already. */
static gboolean
read_quota (Coord *coord, CoordRequest *request, const EventsField *fields, QuotaBody *body)
{
  EventsProblems problems;
  const char *tier = "l2";

  if (!coord_body_fields (coord, request, fields, 2, body, &problems))
    return FALSE;
  if (!isfinite (body->limit_gb))
    {
      g_autofree char *loc = g_strdup_printf ("[\"body\",\"%s\"]", fields[0].name);
      coord_problem (&problems, "finite_number", loc, "null", NULL, "Input should be a finite number");
    }
  if (body->seen_tier != 0)
    coord_take_tier (coord, body->tier, "[\"body\",\"tier\"]", &problems, &tier);
  if (problems.total > 0)
    {
      coord_reply_problems (request, &problems);
      return FALSE;
    }
  events_problems_clear (&problems);
  return is_quota_tier (request, tier);
}

static void
write_change (CoordRequest *request, LmtSpan salt, double limit_gb, const char *status)
{
  g_string_append (request->out, "{\"cache_salt\":");
  coord_text_string (request->out, salt);
  g_string_append (request->out, ",\"limit_gb\":");
  coord_text_double (request->out, limit_gb);
  g_string_append_printf (request->out, ",\"status\":\"%s\"}", status);
  coord_reply (request, 200);
}

void
coord_api_quota_put (Coord *coord, CoordRequest *request)
{
  QuotaBody body = { 0 };
  LmtSpan salt = salt_of (request);

  if (!read_quota (coord, request, quota_fields, &body))
    return;
  events_views_set_quota (coord->views, salt, body.limit_gb);
  coord_state_save_metadata (coord);
  write_change (request, salt, body.limit_gb, "ok");
}

void
coord_api_quota_delete (Coord *coord, CoordRequest *request)
{
  LmtSpan salt = salt_of (request);
  const char *tier;
  gboolean removed;

  if (!query_tier (request, &tier) || !is_quota_tier (request, tier))
    return;
  removed = events_views_remove_quota (coord->views, salt);
  coord_state_save_metadata (coord);
  write_change (request, salt, 0.0, removed ? "removed" : "not_found");
}

static void
write_default (CoordRequest *request, gboolean set, double limit_gb)
{
  g_string_append (request->out, "{\"default_limit_gb\":");
  if (set)
    coord_text_double (request->out, limit_gb);
  else
    g_string_append (request->out, "null");
  g_string_append_c (request->out, '}');
  coord_reply (request, 200);
}

void
coord_api_quota_config_get (Coord *coord, CoordRequest *request)
{
  const char *tier;
  double limit_gb = 0;
  gboolean set;

  if (!query_tier (request, &tier) || !is_quota_tier (request, tier))
    return;
  set = events_views_get_default_quota (coord->views, &limit_gb);
  write_default (request, set, limit_gb);
}

void
coord_api_quota_config_put (Coord *coord, CoordRequest *request)
{
  QuotaBody body = { 0 };

  if (!read_quota (coord, request, config_fields, &body))
    return;
  events_views_set_default_quota (coord->views, body.seen_limit == 2, body.limit_gb);
  coord_state_save_metadata (coord);
  write_default (request, body.seen_limit == 2, body.limit_gb);
}

/* -------- pins -------- */

typedef struct
{
  LmtSpan model, token_ids, salt;
  gint64 world_size;
  guint32 seen_tokens;
} PinBody;

#define AT(member) G_STRUCT_OFFSET (PinBody, member)
static const EventsField pin_fields[] = {
  { .name = "model_name", .want = EVENTS_WANT_STRING, .required = 1, .offset = AT (model), .seen_offset = G_MAXUINT32 },
  { .name = "world_size",
    .want = EVENTS_WANT_INT,
    .required = 1,
    .has_min = 1,
    .min = 1,
    .offset = AT (world_size),
    .seen_offset = G_MAXUINT32 },
  { .name = "token_ids", .want = EVENTS_WANT_RAW, .offset = AT (token_ids), .seen_offset = AT (seen_tokens) },
  { .name = "cache_salt", .want = EVENTS_WANT_STRING, .offset = AT (salt), .seen_offset = G_MAXUINT32 },
};
#undef AT

static void
change_pins (Coord *coord, CoordRequest *request, int delta)
{
  PinBody body = { .world_size = 1 };
  EventsProblems problems;
  EventsLimits limits = coord->limits;
  gint64 *ids = NULL;
  guint32 n_ids = 0;
  CoordChunks chunks;

  limits.max_tokens = 0;
  if (!coord_body_fields (coord, request, pin_fields, G_N_ELEMENTS (pin_fields), &body, &problems))
    return;
  if (body.seen_tokens != 0)
    events_ints_from_raw (body.token_ids, "token_ids", &limits, coord->arena, &ids, &n_ids, &problems);
  if (problems.total > 0)
    {
      coord_reply_problems (request, &problems);
      return;
    }
  events_problems_clear (&problems);
  if (!coord_chunks_resolve (coord, request, ids, n_ids, body.model, body.salt, body.world_size, &chunks))
    return;
  for (guint32 chunk = 0; chunk < chunks.chunks; chunk++)
    for (guint32 rank = 0; rank < chunks.world_size; rank++)
      {
        EventsKey key;
        coord_chunks_key (&chunks, chunk, rank, &key);
        events_views_pin (coord->views, &key, delta);
      }
  coord_state_save_metadata (coord);
  g_string_append_printf (request->out, "{\"requested\":%u,\"affected\":%" G_GUINT64_FORMAT ",\"status\":\"%s\"}", chunks.chunks,
                          (guint64)chunks.chunks * chunks.world_size, delta > 0 ? "pinned" : "unpinned");
  coord_reply (request, 200);
}

void
coord_api_pins_post (Coord *coord, CoordRequest *request)
{
  change_pins (coord, request, 1);
}

void
coord_api_pins_delete (Coord *coord, CoordRequest *request)
{
  change_pins (coord, request, -1);
}

typedef struct
{
  GString *out;
  gint64 seen, offset, limit, shown;
} PinPage;

static void
write_pin (const EventsKeyView *view, gpointer data)
{
  PinPage *page = data;

  if (page->seen++ < page->offset || page->shown >= page->limit)
    return;
  g_string_append (page->out, page->shown++ > 0 ? ",{\"key\":" : "{\"key\":");
  coord_text_key (page->out, &view->key, FALSE);
  g_string_append_printf (page->out, ",\"pin_count\":%" G_GUINT64_FORMAT "}", view->pin_count);
}

void
coord_api_pins_get (Coord *coord, CoordRequest *request)
{
  EventsProblems problems;
  g_autoptr (GString) rows = g_string_new (NULL);
  PinPage page = { .out = rows };

  events_problems_init (&problems, 8);
  page.offset = coord_query_int (request, "offset", 0, 0, G_MAXINT64, &problems);
  page.limit = coord_query_int (request, "limit", 1000, 1, 10000, &problems);
  if (problems.total > 0)
    {
      coord_reply_problems (request, &problems);
      return;
    }
  events_problems_clear (&problems);
  events_views_pins (coord->views, coord_query_span (request, "model_name"), coord_query_span (request, "cache_salt"), write_pin,
                     &page);
  g_string_append_printf (request->out, "{\"total\":%" G_GINT64_FORMAT ",\"pins\":[%s]}", page.seen, rows->str);
  coord_reply (request, 200);
}
