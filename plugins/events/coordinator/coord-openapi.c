// SPDX-License-Identifier: Apache-2.0
/* GET /openapi.json: made of the route table, so that it can't name what isn't there; and the same for people at /docs. */
#include "coord.h"

/* One schema: members as `name:type`, `!` in front of required ones. Types: JSON's words, integer, number, a schema's name,
 * [type] for arrays, {type} for maps, type? where null is fine. */
typedef struct
{
  const char *name;
  const char *members;
} Schema;

static const Schema schemas[] = {
  { "Health", "!status:string" },
  { "Key", "!chunk_hash_hex:string !model_name:string !kv_rank:integer object_group_id:integer cache_salt:string" },
  { "Entry", "!key:Key size_bytes:integer token_ids:[integer] token_offset:integer" },
  { "Batch", "!instance_id:string !incarnation:integer !seq:integer !event_type:EventType !tier:Tier !backend:string "
             "entries:[Entry] shared:boolean ts:number capacity_bytes:integer capacity_revision:integer dropped_events:integer" },
  { "EventsRequest", "batches:[Batch]" },
  { "EventsResponse", "!applied:integer !duplicates:integer !stale:integer" },
  { "RegisterRequest", "instance_id:string !ip:string !http_port:integer metadata:{string} p2p_advertised_url:string "
                       "mq_port:integer chunk_size:integer?" },
  { "RegisterResponse", "!instance_id:string !re_registered:boolean" },
  { "Heartbeat", "!instance_id:string" },
  { "Instance", "!instance_id:string !ip:string !http_port:integer !registration_time:number !metadata:{string} "
                "!p2p_advertised_url:string !mq_port:integer" },
  { "InstanceList", "!instances:[Instance]" },
  { "Module", "!tier:Tier !backend:string !shared:boolean !used_bytes:integer !capacity_bytes:integer !usage_ratio:number?" },
  { "InstanceUsage", "!instance_id:string !registered:boolean !declared_capacity:boolean !modules:[Module]" },
  { "FleetUsage", "!instances:[InstanceUsage] !shared_modules:[Module]" },
  { "ChunkSizeRequest", "!chunk_size:integer" },
  { "ChunkSizeResponse", "!chunk_size:integer" },
  { "LookupRequest", "keys:[Key] token_ids:[integer] model_name:string world_size:integer cache_salt:string" },
  { "Placement", "!instance_id:string !incarnation:integer !tier:Tier !backend:string !size_bytes:integer !shared:boolean" },
  { "LookupResult", "!key:Key !placements:[Placement] !token_ids:[integer] !access_count:integer" },
  { "LookupResponse", "!chunks:integer !results:[LookupResult]" },
  { "BlendRequest", "tokens_b64:string model_name:string world_size:integer cache_salt:string" },
  { "BlendMatch", "!chunk_hash:string !old_st:integer !cur_st:integer" },
  { "BlendResponse", "!matches:[BlendMatch]" },
  { "ListedKey", "!key:Key !placements:[Placement] !num_tokens:integer !access_count:integer" },
  { "KeyList", "!total:integer !keys:[ListedKey]" },
  { "BlendStats", "!num_contents:integer !num_chunks:integer !num_claims:integer !num_namespaces:integer !table_size:integer" },
  { "DirectoryStats", "!num_keys:integer !num_placements:integer !l1_keys_by_instance:{integer} !blend:BlendStats "
                      "!l1_count:integer !l1_size_bytes:integer !l2_count:integer !l2_size_bytes:integer" },
  { "QuotaConfig", "default_limit_gb:number?" },
  { "QuotaRequest", "!limit_gb:number tier:Tier" },
  { "QuotaResponse", "!cache_salt:string !limit_gb:number !status:string" },
  { "QuotaRow", "!cache_salt:string !quota_limit_gb:number !quota_exists:boolean !usage_gb:number" },
  { "QuotaList", "!total_gb:number !by_cache_salt:[QuotaRow]" },
  { "PinRequest", "!model_name:string !world_size:integer token_ids:[integer] cache_salt:string" },
  { "PinResponse", "!requested:integer !affected:integer !status:string" },
  { "Pin", "!key:Key !pin_count:integer" },
  { "PinList", "!total:integer !pins:[Pin]" },
  { "PrefetchRequest", "!instance_id:string !model_name:string !world_size:integer token_ids:[integer] cache_salt:string" },
  { "PrefetchResponse", "!instance_id:string !request_id:string !chunks:integer !status:string" },
  { "DeleteRequest", "!instance_id:string !model_name:string !world_size:integer token_ids:[integer] cache_salt:string tier:Tier "
                     "force:boolean" },
  { "DeleteResponse", "!instance_id:string !requested:integer !affected:integer !skipped:integer !status:string" },
  { "Stream", "!instance_id:string !incarnation:integer !last_seq:integer !gap:boolean !missing:integer "
              "!dropped_events:integer !applied:integer !duplicates:integer !stale:integer "
              "!seconds_since_last_event:number? !departed:boolean" },
  { "StreamList", "!streams:[Stream]" },
  { "CheckpointResponse", "!path:string !saved_at:number" },
  { "ResetResponse", "!keys:integer !instances:integer !status:string" },
  { "Problem", "!type:string !loc:[Any] !msg:string input:Any ctx:Any" },
  { "Problems", "!detail:[Problem]" },
  { "Failure", "!detail:string" },
};

static void
write_type (GString *out, const char *type, gsize len)
{
  if (len > 1 && type[len - 1] == '?')
    {
      g_string_append (out, "{\"anyOf\":[");
      write_type (out, type, len - 1);
      g_string_append (out, ",{\"type\":\"null\"}]}");
    }
  else if (type[0] == '[')
    {
      g_string_append (out, "{\"type\":\"array\",\"items\":");
      write_type (out, type + 1, len - 2);
      g_string_append_c (out, '}');
    }
  else if (type[0] == '{')
    {
      g_string_append (out, "{\"type\":\"object\",\"additionalProperties\":");
      write_type (out, type + 1, len - 2);
      g_string_append_c (out, '}');
    }
  else if (len == 3 && strncmp (type, "Any", len) == 0)
    g_string_append (out, "{}");
  else if (g_ascii_isupper (type[0]))
    g_string_append_printf (out, "{\"$ref\":\"#/components/schemas/%.*s\"}", (int)len, type);
  else
    g_string_append_printf (out, "{\"type\":\"%.*s\"}", (int)len, type);
}

static void
write_schema (GString *out, const Schema *schema)
{
  g_auto (GStrv) members = g_strsplit (schema->members, " ", 0);
  gboolean first = TRUE;

  g_string_append_printf (out, "\"%s\":{\"type\":\"object\",\"properties\":{", schema->name);
  for (guint i = 0; members[i] != NULL; i++)
    {
      const char *name = members[i] + (members[i][0] == '!');
      const char *colon = strchr (name, ':');
      g_string_append_printf (out, "%s\"%.*s\":", i > 0 ? "," : "", (int)(colon - name), name);
      write_type (out, colon + 1, strlen (colon + 1));
    }
  g_string_append (out, "},\"required\":[");
  for (guint i = 0; members[i] != NULL; i++)
    if (members[i][0] == '!')
      {
        g_string_append_printf (out, "%s\"%.*s\"", first ? "" : ",", (int)strcspn (members[i] + 1, ":"), members[i] + 1);
        first = FALSE;
      }
  g_string_append (out, "]}");
}

/* -------- operations -------- */

static void
write_parameters (GString *out, const CoordRoute *route)
{
  gboolean first = TRUE;

  g_string_append (out, "\"parameters\":[");
  for (const char *p = strchr (route->path, '{'); p != NULL; p = strchr (p + 1, '{'))
    {
      g_string_append_printf (out, "%s{\"name\":\"%.*s\",\"in\":\"path\",\"required\":true,\"schema\":{\"type\":\"string\"}}",
                              first ? "" : ",", (int)strcspn (p + 1, "}"), p + 1);
      first = FALSE;
    }
  if (route->query != NULL)
    {
      g_auto (GStrv) rows = g_strsplit (route->query, " ", 0);
      for (guint i = 0; rows[i] != NULL; i++)
        {
          const char *colon = strchr (rows[i], ':');
          g_string_append_printf (out, "%s{\"name\":\"%.*s\",\"in\":\"query\",\"required\":false,\"schema\":", first ? "" : ",",
                                  (int)(colon - rows[i]), rows[i]);
          write_type (out, colon + 1, strlen (colon + 1));
          g_string_append_c (out, '}');
          first = FALSE;
        }
    }
  g_string_append_c (out, ']');
}

static void
write_content (GString *out, const char *schema)
{
  g_string_append (out, "\"content\":{\"application/json\":{\"schema\":");
  write_type (out, schema, strlen (schema));
  g_string_append (out, "}}");
}

static void
write_responses (GString *out, const CoordRoute *route)
{
  g_auto (GStrv) codes = g_strsplit (route->status, " ", 0);

  g_string_append (out, "\"responses\":{");
  for (guint i = 0; codes[i] != NULL; i++)
    {
      g_string_append_printf (out, "%s\"%s\":{\"description\":\"%s\"", i > 0 ? "," : "", codes[i], i > 0 ? "Refused" : "Done");
      if (i > 0 || route->reply != NULL)
        {
          g_string_append_c (out, ',');
          write_content (out, i == 0 ? route->reply : strcmp (codes[i], "422") == 0 ? "Problems" : "Failure");
        }
      g_string_append_c (out, '}');
    }
  g_string_append_c (out, '}');
}

static void
write_operation (GString *out, const CoordRoute *route)
{
  g_autofree char *method = g_ascii_strdown (route->method, -1);

  g_string_append_printf (out, "\"%s\":{\"summary\":\"%s\",", method, route->summary);
  write_parameters (out, route);
  if (route->body != NULL)
    {
      g_string_append (out, ",\"requestBody\":{\"required\":true,");
      write_content (out, route->body);
      g_string_append_c (out, '}');
    }
  g_string_append_c (out, ',');
  write_responses (out, route);
  g_string_append_c (out, '}');
}

static gboolean
is_first_of_path (const Coord *coord, const CoordRoute *route)
{
  for (const CoordRoute *other = coord_routes; other < route; other++)
    if (coord_route_is_open (coord, other) && strcmp (other->path, route->path) == 0)
      return FALSE;
  return TRUE;
}

void
coord_openapi_write (Coord *coord, GString *out)
{
  gboolean first_path = TRUE;

  g_string_append (out, "{\"openapi\":\"3.1.0\",\"info\":{\"title\":\"lmtrace coordinator\",\"version\":\"" LMT_VERSION
                        "\"},\"paths\":{");
  for (const CoordRoute *route = coord_routes; route->method != NULL; route++)
    {
      gboolean first = TRUE;
      if (!coord_route_is_open (coord, route) || !is_first_of_path (coord, route))
        continue;
      g_string_append_printf (out, "%s\"%s\":{", first_path ? "" : ",", route->path);
      first_path = FALSE;
      for (const CoordRoute *other = route; other->method != NULL; other++)
        if (coord_route_is_open (coord, other) && strcmp (other->path, route->path) == 0)
          {
            if (!first)
              g_string_append_c (out, ',');
            first = FALSE;
            write_operation (out, other);
          }
      g_string_append_c (out, '}');
    }
  g_string_append (out, "},\"components\":{\"schemas\":{\"Tier\":{\"type\":\"string\",\"enum\":[\"l1\",\"l2\",\"all\"]},"
                        "\"EventType\":{\"type\":\"string\",\"enum\":[\"store\",\"delete\",\"access\",\"config\"]}");
  for (guint i = 0; i < G_N_ELEMENTS (schemas); i++)
    {
      g_string_append_c (out, ',');
      write_schema (out, &schemas[i]);
    }
  g_string_append (out, "}}}");
}

void
coord_docs_write (Coord *coord, GString *out)
{
  g_string_append (
      out, "<!DOCTYPE html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>lmtrace coordinator</title></head><body>"
           "<h1>lmtrace coordinator " LMT_VERSION "</h1><p>For programs: <a href=\"openapi.json\">openapi.json</a></p><table>");
  for (const CoordRoute *route = coord_routes; route->method != NULL; route++)
    if (coord_route_is_open (coord, route))
      g_string_append_printf (out, "<tr><td>%s</td><td><code>%s</code></td><td>%s</td></tr>", route->method, route->path,
                              route->summary);
  g_string_append (out, "</table></body></html>\n");
}
