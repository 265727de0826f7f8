// SPDX-License-Identifier: Apache-2.0
#include <math.h>

#include "storage-config-private.h"

/* Fields of sm_config_json by release: trace-format.md 6. A field a release doesn't write keeps the flag's value. */

typedef struct
{
  const LmtOptions *options;
  GError **error;
} Reader;

/* Is the field the header's business? A flag on the line, in the file or in the environment wins. */
static gboolean
is_free (const Reader *reader, const char *flag)
{
  return reader->options == NULL || !lmt_options_is_set (reader->options, flag);
}

static gboolean
wrong_field (const Reader *reader, const char *name, const char *expected, const LmtJson *value)
{
  g_autofree char *found = lmt_json_to_text (value, LMT_JSON_STYLE_SPACED, FALSE);
  g_set_error (reader->error, LMT_ERROR, LMT_ERROR_OPTION, "--config-from-trace: sm_config_json: %s: expected %s, found %s", name,
               expected, found);
  return FALSE;
}

static const LmtJson *
member (const LmtJson *object, const char *name)
{
  return object != NULL && lmt_json_get_type (object) == LMT_JSON_OBJECT ? lmt_json_get_member (object, name) : NULL;
}

static gboolean
read_uint (const Reader *reader, const LmtJson *object, const char *name, const char *flag, guint64 least, guint64 most,
           guint64 *out)
{
  const LmtJson *value = member (object, name);
  if (value == NULL || !is_free (reader, flag))
    return TRUE;
  if (lmt_json_get_type (value) != LMT_JSON_INT || lmt_json_get_int (value) < 0 || (guint64)lmt_json_get_int (value) < least
      || (guint64)lmt_json_get_int (value) > most)
    {
      g_autofree char *expected = g_strdup_printf ("an integer from %" G_GUINT64_FORMAT " to %" G_GUINT64_FORMAT, least, most);
      return wrong_field (reader, name, expected, value);
    }
  *out = (guint64)lmt_json_get_int (value);
  return TRUE;
}

static gboolean
read_number (const Reader *reader, const LmtJson *object, const char *name, const char *flag, double most, double *out)
{
  const LmtJson *value = member (object, name);
  if (value == NULL || !is_free (reader, flag))
    return TRUE;
  LmtJsonType type = lmt_json_get_type (value);
  if ((type != LMT_JSON_INT && type != LMT_JSON_DOUBLE)
      || !(lmt_json_get_double (value) >= 0 && lmt_json_get_double (value) <= most))
    return wrong_field (reader, name, most == 1 ? "a number from 0 to 1" : "a number of at least 0", value);
  *out = lmt_json_get_double (value);
  return TRUE;
}

static gboolean
read_switch (const Reader *reader, const LmtJson *object, const char *name, const char *flag, gboolean *out)
{
  const LmtJson *value = member (object, name);
  if (value == NULL || !is_free (reader, flag))
    return TRUE;
  if (lmt_json_get_type (value) != LMT_JSON_BOOL)
    return wrong_field (reader, name, "true or false", value);
  *out = lmt_json_get_bool (value);
  return TRUE;
}

static gboolean
read_word (const Reader *reader, const LmtJson *object, const char *name, const char *flag, const char *const *words, guint *out)
{
  const LmtJson *value = member (object, name);
  if (value == NULL || !is_free (reader, flag))
    return TRUE;
  if (lmt_json_get_type (value) == LMT_JSON_STRING)
    for (guint i = 0; words[i] != NULL; i++)
      if (g_str_equal (words[i], lmt_json_get_string (value)))
        {
          *out = i;
          return TRUE;
        }
  g_autofree char *list = g_strjoinv ("|", (char **)words);
  return wrong_field (reader, name, list, value);
}

static gboolean
read_memory (const Reader *reader, const LmtJson *l1, StorageConfig *config, gboolean *size_known)
{
  const LmtJson *memory = member (l1, "memory_config");
  const LmtJson *size = member (memory, "size_in_bytes");
  guint64 read_ttl = config->sm.read_ttl_s, write_ttl = config->sm.write_ttl_s;
  if (size != NULL && is_free (reader, "l1-size-gb") && is_free (reader, "l1-size"))
    {
      if (!read_uint (reader, memory, "size_in_bytes", "l1-size-gb", 1, STORAGE_MAX_BYTES, &config->sm.size_bytes))
        return FALSE;
      *size_known = TRUE;
    }
  if (!read_uint (reader, memory, "init_size_in_bytes", "l1-init-size-gb", 0, STORAGE_MAX_BYTES, &config->init_size_bytes)
      || !read_uint (reader, memory, "align_bytes", "l1-align-bytes", 1, STORAGE_MAX_BYTES, &config->sm.align_bytes)
      || !read_switch (reader, memory, "use_lazy", "l1-use-lazy", &config->use_lazy)
      || !read_switch (reader, memory, "use_hugepages", "l1-use-hugepages", &config->use_hugepages)
      || !read_switch (reader, memory, "mlock", "l1-mlock", &config->mlock)
      || !read_uint (reader, l1, "read_ttl_seconds", "l1-read-ttl-seconds", 1, G_MAXUINT32, &read_ttl)
      || !read_uint (reader, l1, "write_ttl_seconds", "l1-write-ttl-seconds", 1, G_MAXUINT32, &write_ttl))
    return FALSE;
  config->sm.read_ttl_s = (guint32)read_ttl;
  config->sm.write_ttl_s = (guint32)write_ttl;
  return TRUE;
}

static gboolean
read_eviction (const Reader *reader, const LmtJson *eviction, StorageConfig *config, gboolean *policy_known)
{
  const LmtJson *policy = member (eviction, "eviction_policy");
  if (policy != NULL && is_free (reader, "eviction-policy"))
    {
      if (lmt_json_get_type (policy) != LMT_JSON_STRING
          || !lmt_evict_kind_from_text (lmt_json_get_string (policy), &config->sm.eviction.policy))
        return wrong_field (reader, "eviction_policy", "LRU, ARC or noop", policy);
      if (!storage_config_check_policy (config->sm.eviction.policy, "--config-from-trace", reader->error))
        return FALSE;
      *policy_known = TRUE;
    }
  return read_number (reader, eviction, "trigger_watermark", "eviction-trigger-watermark", 1, &config->sm.eviction.watermark)
         && read_number (reader, eviction, "eviction_ratio", "eviction-ratio", 1, &config->sm.eviction.ratio)
         && read_switch (reader, eviction, "extra_logging_enabled", "enable-extra-logging", &config->extra_logging)
         && read_number (reader, eviction, "extra_logging_interval", "extra-logging-interval", G_MAXDOUBLE,
                         &config->extra_logging_interval_s);
}

static gboolean
read_policies (const Reader *reader, const LmtJson *json, StorageConfig *config)
{
  static const char *const stores[] = { "default", "skip_l1", NULL };
  static const char *const prefetches[] = { "default", "retain", NULL };
  guint store = config->sm.store_policy, prefetch = config->sm.prefetch_policy;
  guint64 in_flight = config->sm.prefetch_max_in_flight;
  double watermark = 0;
  if (!read_word (reader, json, "store_policy", "l2-store-policy", stores, &store)
      || !read_word (reader, json, "prefetch_policy", "l2-prefetch-policy", prefetches, &prefetch)
      || !read_uint (reader, json, "prefetch_max_in_flight", "l2-prefetch-max-in-flight", 1, G_MAXUINT32, &in_flight)
      || !read_number (reader, json, "prefetch_inflight_watermark", "l2-prefetch-inflight-watermark", 1, &watermark))
    return FALSE;
  if (watermark > 0)
    config->sm.prefetch_inflight_watermark = config->inflight_watermark = watermark;
  config->sm.store_policy = store;
  config->sm.prefetch_policy = prefetch;
  config->sm.prefetch_max_in_flight = (guint)in_flight;
  return TRUE;
}

/* What the header names and a replay can't have. */
static void
warn_unsupported (const LmtJson *json, const LmtJson *l1, LmtWarnings *warnings)
{
  const LmtJson *adapters = member (member (json, "l2_adapter_config"), "adapters");
  const LmtJson *devdax = member (member (l1, "memory_config"), "devdax_path");
  const LmtJson *gds = member (l1, "gds_l1_config");
  if (warnings == NULL)
    return;
  if (adapters != NULL && lmt_json_get_type (adapters) == LMT_JSON_ARRAY && lmt_json_get_length (adapters) > 0)
    lmt_warnings_add (warnings, "config",
                      "--config-from-trace: the header names L2 adapters by type only: give them with --l2-adapter");
  if ((devdax != NULL && lmt_json_get_type (devdax) == LMT_JSON_STRING)
      || (gds != NULL && lmt_json_get_type (gds) == LMT_JSON_OBJECT))
    lmt_warnings_add (warnings, "config", "--config-from-trace: L1 was on a device when recorded, it is in memory here");
}

gboolean
storage_config_from_header (StorageConfig *config, const LmtHeader *header, const LmtOptions *options, LmtWarnings *warnings,
                            gboolean *size_known, gboolean *policy_known, GError **error)
{
  Reader reader = { options, error };
  const char *text = header != NULL ? lmt_header_get_config_json (header) : "";
  if (*text == '\0')
    {
      g_set_error_literal (error, LMT_ERROR, LMT_ERROR_OPTION, "--config-from-trace: the trace's header has no configuration");
      return FALSE;
    }
  g_autoptr (LmtJson) json = lmt_json_parse (text, -1, error);
  if (json == NULL)
    {
      g_prefix_error (error, "--config-from-trace: sm_config_json: ");
      return FALSE;
    }
  const LmtJson *l1 = member (json, "l1_manager_config");
  const LmtJson *list = member (json, "l1_manager_configs");
  if (l1 == NULL)
    {
      g_set_error_literal (error, LMT_ERROR, LMT_ERROR_OPTION, "--config-from-trace: sm_config_json: l1_manager_config absent");
      return FALSE;
    }
  if (list != NULL && lmt_json_get_type (list) == LMT_JSON_ARRAY && lmt_json_get_length (list) > 1)
    {
      g_set_error (error, LMT_ERROR, LMT_ERROR_OPTION,
                   "--config-from-trace: l1_manager_configs: expected one L1, found %u: a trace doesn't tell them apart",
                   lmt_json_get_length (list));
      return FALSE;
    }
  const LmtJson *eviction = member (l1, "eviction"); /* 0.5.6 and later; before that only beside L1 */
  if (!read_memory (&reader, l1, config, size_known)
      || !read_eviction (&reader, eviction != NULL ? eviction : member (json, "eviction_config"), config, policy_known)
      || !read_policies (&reader, json, config))
    return FALSE;
  warn_unsupported (json, l1, warnings);
  return TRUE;
}

/* ---- --print-config: fields as texts of options ---- */

typedef enum
{
  IN_MEMORY, /* of L1 */
  IN_L1,
  IN_EVICTION,
  IN_ALL,
  N_PLACES
} Place;

static const struct
{
  Place place;
  const char *field;
  const char *option;
  gboolean gib; /* bytes there, GiB here */
} shown[] = {
  { IN_MEMORY, "size_in_bytes", "l1-size-gb", TRUE },
  { IN_MEMORY, "init_size_in_bytes", "l1-init-size-gb", TRUE },
  { IN_MEMORY, "align_bytes", "l1-align-bytes", FALSE },
  { IN_MEMORY, "use_lazy", "l1-use-lazy", FALSE },
  { IN_MEMORY, "use_hugepages", "l1-use-hugepages", FALSE },
  { IN_MEMORY, "mlock", "l1-mlock", FALSE },
  { IN_L1, "read_ttl_seconds", "l1-read-ttl-seconds", FALSE },
  { IN_L1, "write_ttl_seconds", "l1-write-ttl-seconds", FALSE },
  { IN_EVICTION, "eviction_policy", "eviction-policy", FALSE },
  { IN_EVICTION, "trigger_watermark", "eviction-trigger-watermark", FALSE },
  { IN_EVICTION, "eviction_ratio", "eviction-ratio", FALSE },
  { IN_EVICTION, "extra_logging_enabled", "enable-extra-logging", FALSE },
  { IN_EVICTION, "extra_logging_interval", "extra-logging-interval", FALSE },
  { IN_ALL, "store_policy", "l2-store-policy", FALSE },
  { IN_ALL, "prefetch_policy", "l2-prefetch-policy", FALSE },
  { IN_ALL, "prefetch_max_in_flight", "l2-prefetch-max-in-flight", FALSE },
  { IN_ALL, "prefetch_inflight_watermark", "l2-prefetch-inflight-watermark", FALSE },
};

static char *
field_text (const LmtJson *value, gboolean gib)
{
  char number[32];
  guint64 bytes;
  switch (lmt_json_get_type (value))
    {
    case LMT_JSON_STRING:
      return g_strdup (lmt_json_get_string (value));
    case LMT_JSON_BOOL:
      return g_strdup (lmt_json_get_bool (value) ? "true" : "false");
    case LMT_JSON_INT:
      bytes = (guint64)lmt_json_get_int (value);
      if (!gib)
        return g_strdup_printf ("%" G_GUINT64_FORMAT, bytes);
      if (bytes % STORAGE_GIB == 0)
        return g_strdup_printf ("%" G_GUINT64_FORMAT, bytes / STORAGE_GIB);
      return g_strdup (lmt_json_format_double ((double)bytes / (double)STORAGE_GIB, number));
    case LMT_JSON_DOUBLE:
      return g_strdup (lmt_json_format_double (lmt_json_get_double (value), number));
    default:
      return NULL;
    }
}

gboolean
storage_config_header_options (const LmtHeader *header, LmtOptions *options, GError **error)
{
  StorageConfig checked = { .sm = { .prefetch_max_in_flight = 8 } };
  g_autofree char *asked = lmt_options_get_text (options, "config-from-trace");
  gboolean size_known = FALSE, policy_known = FALSE;
  if (g_strcmp0 (asked, "true") != 0)
    return TRUE;
  /* The same refusals as when it is used. */
  if (!storage_config_from_header (&checked, header, options, NULL, &size_known, &policy_known, error))
    return FALSE;
  g_autoptr (LmtJson) json = lmt_json_parse (lmt_header_get_config_json (header), -1, error);
  if (json == NULL)
    return FALSE;
  const LmtJson *l1 = member (json, "l1_manager_config"), *eviction = member (l1, "eviction");
  const LmtJson *const places[N_PLACES] = { [IN_MEMORY] = member (l1, "memory_config"),
                                            [IN_L1] = l1,
                                            [IN_EVICTION] = eviction != NULL ? eviction : member (json, "eviction_config"),
                                            [IN_ALL] = json };
  for (guint i = 0; i < G_N_ELEMENTS (shown); i++)
    {
      const LmtJson *value = member (places[shown[i].place], shown[i].field);
      g_autofree char *text = value != NULL ? field_text (value, shown[i].gib) : NULL;
      if (text == NULL || (g_str_equal (shown[i].option, "l1-size-gb") && lmt_options_is_set (options, "l1-size")))
        continue;
      /* What the option can't say (a first part of L1 that is no whole GiB) keeps its row as it was. */
      lmt_options_set (options, shown[i].option, text, LMT_ORIGIN_HEADER, NULL);
    }
  return TRUE;
}
