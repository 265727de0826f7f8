// SPDX-License-Identifier: Apache-2.0
/* Registered servers (events.md 9.4). Events don't refresh them, nothing of them is saved. */
#include "coord.h"

CoordInstance *
coord_instance_new (LmtSpan id)
{
  CoordInstance *instance = g_new0 (CoordInstance, 1);
  instance->id = g_bytes_new (id.data, id.len);
  instance->metadata_json = g_string_new ("{}");
  instance->link.data = instance;
  return instance;
}

void
coord_instance_free (CoordInstance *instance)
{
  g_bytes_unref (instance->id);
  g_clear_pointer (&instance->ip, g_bytes_unref);
  g_clear_pointer (&instance->p2p_url, g_bytes_unref);
  g_string_free (instance->metadata_json, TRUE);
  g_free (instance);
}

CoordInstance *
coord_instances_get (Coord *coord, LmtSpan id)
{
  g_autoptr (GBytes) key = g_bytes_new_static (id.data, id.len);
  return g_hash_table_lookup (coord->instances, key);
}

gboolean
coord_instances_put (Coord *coord, CoordInstance *instance, gboolean *replaced)
{
  CoordInstance *before = g_hash_table_lookup (coord->instances, instance->id);

  *replaced = before != NULL;
  if (before != NULL)
    {
      g_queue_insert_before_link (&coord->order, &before->link, &instance->link);
      g_queue_unlink (&coord->order, &before->link);
      g_hash_table_remove (coord->instances, before->id);
    }
  else
    {
      if (coord->config->max_instances > 0 && g_hash_table_size (coord->instances) >= coord->config->max_instances)
        {
          coord_instance_free (instance);
          return FALSE;
        }
      g_queue_push_tail_link (&coord->order, &instance->link);
    }
  g_hash_table_insert (coord->instances, instance->id, instance);
  return TRUE;
}

gboolean
coord_instances_remove (Coord *coord, LmtSpan id)
{
  CoordInstance *instance = coord_instances_get (coord, id);

  if (instance == NULL)
    return FALSE;
  g_queue_unlink (&coord->order, &instance->link);
  g_hash_table_remove (coord->instances, instance->id);
  return TRUE;
}

void
coord_instances_clear (Coord *coord)
{
  g_queue_init (&coord->order);
  g_hash_table_remove_all (coord->instances);
}

/* 0.5.6 keeps the capacity a silent server declared, later ones forget it (events.md 12, D10). */
void
coord_instances_sweep (Coord *coord)
{
  gint64 now_ns = g_get_monotonic_time () * 1000;
  GList *next;

  for (GList *link = coord->order.head; link != NULL; link = next)
    {
      CoordInstance *instance = link->data;
      g_autofree char *shown = NULL;
      next = link->next;
      if (now_ns - instance->heartbeat_ns <= coord->config->instance_timeout_ns)
        continue;
      shown = coord_span_show (coord_span_of_bytes (instance->id));
      g_message ("Instance %s timed out: no heartbeat for %.1f s, its L1 is void", shown,
                 (double)(now_ns - instance->heartbeat_ns) / 1e9);
      g_autoptr (GBytes) id = g_bytes_ref (instance->id);
      coord_instances_remove (coord, coord_span_of_bytes (id));
      events_views_depart (coord->views, coord_span_of_bytes (id), coord->compat != EVENTS_COMPAT_056);
    }
}
