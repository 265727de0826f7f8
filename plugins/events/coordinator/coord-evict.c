// SPDX-License-Identifier: Apache-2.0
/* The eviction loop (events.md 9.5): salts above their quota, their least recently used L2 keys, one server that is told. */
#include "coord.h"

enum
{
  KEYS_PER_CALL = 10000, /* servers refuse more */
};

static const double GIB = 1024.0 * 1024.0 * 1024.0;

typedef struct
{
  Coord *coord;
  GPtrArray *over;   /* GBytes: salts above their limit */
  GArray *ratios;    /* double, one a salt */
  GPtrArray *bodies; /* GString: lists of keys */
  guint in_body;
  guint64 n_keys;
} Plan;

static void
look_at_salt (LmtSpan salt, gint64 bytes, gpointer data)
{
  Plan *plan = data;
  double limit_gb, ratio;

  if (bytes <= 0
      || (!events_views_get_quota (plan->coord->views, salt, &limit_gb)
          && !events_views_get_default_quota (plan->coord->views, &limit_gb)))
    return;
  if ((double)bytes < plan->coord->config->trigger_watermark * limit_gb * GIB)
    return;
  ratio = limit_gb > 0 ? plan->coord->config->eviction_ratio : 1.0;
  g_ptr_array_add (plan->over, g_bytes_new (salt.data, salt.len));
  g_array_append_val (plan->ratios, ratio);
}

static void
add_victim (const EventsKeyView *view, gpointer data)
{
  Plan *plan = data;
  GString *body;

  if (plan->bodies->len == 0 || plan->in_body == KEYS_PER_CALL)
    {
      g_ptr_array_add (plan->bodies, g_string_new ("{\"keys\":["));
      plan->in_body = 0;
    }
  body = plan->bodies->pdata[plan->bodies->len - 1];
  if (plan->in_body++ > 0)
    g_string_append_c (body, ',');
  coord_text_key (body, &view->key, FALSE);
  plan->n_keys++;
}

/* Keys leave the order only when their deletion is reported: a call that failed is repeated by the next pass. */
static void
on_evicted (guint status, GBytes *body, const char *error, gpointer data)
{
  Coord *coord = data;

  if (status >= 200 && status <= 299)
    return;
  coord->evict.failed++;
  if (status == 0)
    g_warning ("An eviction could not be sent: %s", error);
  else
    g_warning ("An eviction was answered with %u", status);
}

static void
send_plan (Plan *plan)
{
  Coord *coord = plan->coord;
  guint n = coord->order.length;
  const CoordInstance *server;

  if (n == 0)
    {
      g_warning ("%" G_GUINT64_FORMAT " keys are above their quotas, and no server is registered that could delete them",
                 plan->n_keys);
      return;
    }
  server = g_queue_peek_nth (&coord->order, (guint)g_random_int_range (0, (gint32)n));
  for (guint i = 0; i < plan->bodies->len; i++)
    {
      GString *body = g_steal_pointer (&plan->bodies->pdata[i]);
      g_string_append (body, "]}");
      coord_client_send (coord->client, "DELETE", server, "/cache/objects", body, NULL, on_evicted, coord);
    }
  g_info ("Eviction: %" G_GUINT64_FORMAT " keys of %u salts", plan->n_keys, plan->over->len);
}

static void
body_free (gpointer body)
{
  if (body != NULL)
    g_string_free (body, TRUE);
}

void
coord_evict_pass (Coord *coord)
{
  g_autoptr (GPtrArray) over = g_ptr_array_new_with_free_func ((GDestroyNotify)g_bytes_unref);
  g_autoptr (GPtrArray) bodies = g_ptr_array_new_with_free_func (body_free);
  g_autoptr (GArray) ratios = g_array_new (FALSE, FALSE, sizeof (double));
  Plan plan = { .coord = coord, .over = over, .ratios = ratios, .bodies = bodies };

  events_views_salts (coord->views, EVENTS_L2, look_at_salt, &plan);
  for (guint i = 0; i < over->len; i++)
    events_views_victims (coord->views, coord_span_of_bytes (over->pdata[i]), g_array_index (ratios, double, i), add_victim,
                          &plan);
  if (plan.n_keys > 0)
    send_plan (&plan);
}
