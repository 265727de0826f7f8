// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <lmtrace/lmt-plugin.h>

/* A key as scenarios and golden files write it: chunk_hash in hexadecimal, model_name, kv_rank, object_group_id, cache_salt. The
 * members are there and of their types, the fields make a key: that was checked. (transfer full) */
static inline LmtKey *
kit_key_from_json (LmtKeyTable *table, const LmtJson *json)
{
  const char *hex = lmt_json_get_string (lmt_json_get_member (json, "chunk_hash"));
  const LmtJson *rank = lmt_json_get_member (json, "kv_rank"), *group = lmt_json_get_member (json, "object_group_id");
  const char *model = lmt_json_get_string (lmt_json_get_member (json, "model_name"));
  const char *salt = lmt_json_get_string (lmt_json_get_member (json, "cache_salt"));
  gsize n = strlen (hex) / 2;
  g_autofree guint8 *hash = g_malloc0 (n + 1);
  for (gsize i = 0; i < n; i++)
    hash[i] = (guint8)(g_ascii_xdigit_value (hex[2 * i]) * 16 + g_ascii_xdigit_value (hex[2 * i + 1]));
  LmtKeyFields fields
      = { .struct_size = sizeof fields,
          .group = group != NULL && lmt_json_get_type (group) == LMT_JSON_INT ? (guint32)lmt_json_get_int (group) : 0,
          .rank = rank == NULL                                ? 0
                  : lmt_json_get_type (rank) == LMT_JSON_UINT ? lmt_json_get_uint (rank)
                  : lmt_json_get_type (rank) == LMT_JSON_INT  ? (guint64)lmt_json_get_int (rank)
                                                              : 0,
          .hash = hash,
          .hash_len = (guint32)n,
          .model = model,
          .model_len = (guint32)strlen (model),
          .salt = salt,
          .salt_len = (guint32)strlen (salt) };
  return lmt_key_table_intern (table, &fields);
}
