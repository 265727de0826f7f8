// SPDX-License-Identifier: Apache-2.0
#include "storage-config.h"

#include <math.h>

#include "storage-config-private.h"

gboolean
storage_gib_to_bytes (double gib, guint64 *bytes)
{
  double value = gib * (double)STORAGE_GIB;
  if (!isfinite (value) || value < 0 || value > (double)STORAGE_MAX_BYTES)
    return FALSE;
  *bytes = (guint64)value;
  return TRUE;
}

gboolean
storage_is_power_of_two (guint64 n)
{
  return n != 0 && (n & (n - 1)) == 0;
}

gboolean
storage_config_check_policy (LmtEvictKind policy, const char *where, GError **error)
{
  if (policy != LMT_EVICT_ISOLATED_LRU)
    return TRUE;
  g_set_error (error, LMT_ERROR, LMT_ERROR_OPTION,
               "%s: IsolatedLRU can't serve L1, it evicts per salt and L1's passes name none: expected LRU, ARC or noop", where);
  return FALSE;
}

static gboolean
refuse (GError **error, const char *message)
{
  g_set_error_literal (error, LMT_ERROR, LMT_ERROR_OPTION, message);
  return FALSE;
}

static gboolean
is_given (const LmtOptions *options, const char *name)
{
  return options != NULL && lmt_options_is_set (options, name);
}

static void
quota_clear (gpointer data)
{
  g_free (((StorageQuota *)data)->salt);
}

void
storage_config_free (StorageConfig *config)
{
  if (config == NULL)
    return;
  for (guint i = 0; i < config->sm.n_l2 && config->l2 != NULL; i++)
    lmt_l2_config_free (config->l2[i]);
  g_free (config->l2);
  g_free (config->l2_eviction);
  g_free (config->l1_tag);
  g_free (config->shm_name);
  g_array_unref (config->quotas);
  g_free (config);
}

static SmPrefetchPolicy
prefetch_policy (const StorageFlags *flags)
{
  return g_strcmp0 (flags->l2_prefetch_policy, "retain") == 0 ? SM_PREFETCH_RETAIN : SM_PREFETCH_DEFAULT;
}

static SmStorePolicy
store_policy (const StorageFlags *flags)
{
  return g_strcmp0 (flags->l2_store_policy, "skip_l1") == 0 ? SM_STORE_SKIP_L1 : SM_STORE_DEFAULT;
}

/* Flags that need no other flag, with their defaults. */
static StorageConfig *
config_new_from_flags (const StorageFlags *flags, const LmtOptions *options)
{
  StorageConfig *config = g_new0 (StorageConfig, 1);
  SmConfig *sm = &config->sm;
  config->quotas = g_array_new (FALSE, TRUE, sizeof (StorageQuota));
  g_array_set_clear_func (config->quotas, quota_clear);
  config->plain_flags = TRUE;
  config->l1_tag = g_strdup ("_default");
  config->shm_name = g_strdup ("");
  config->use_lazy = flags->l1_use_lazy != 0;
  config->use_hugepages = flags->l1_use_hugepages != 0;
  config->mlock = flags->l1_mlock != 0;
  config->extra_logging = flags->enable_extra_logging != 0;
  config->extra_logging_interval_s = flags->extra_logging_interval;
  config->notifier_interval_ms = flags->periodic_notifier_interval_ms;
  config->inflight_watermark = flags->l2_prefetch_inflight_watermark;
  if (!storage_gib_to_bytes (flags->l1_devdax_offset_gb, &config->devdax_offset_bytes))
    config->devdax_offset_bytes = 0; /* no effect, so no error either */
  sm->align_bytes = flags->l1_align_bytes;
  sm->write_ttl_s = (guint32)flags->l1_write_ttl_seconds;
  sm->read_ttl_s = (guint32)flags->l1_read_ttl_seconds;
  sm->eviction.set = TRUE;
  sm->eviction.watermark = flags->eviction_trigger_watermark;
  sm->eviction.ratio = flags->eviction_ratio;
  sm->store_policy = store_policy (flags);
  sm->prefetch_policy = prefetch_policy (flags);
  sm->prefetch_max_in_flight = (guint)flags->l2_prefetch_max_in_flight;
  /* Admission by watermark is 0.5.7's: on top of the other, and only if asked for. */
  if (is_given (options, "l2-prefetch-inflight-watermark"))
    sm->prefetch_inflight_watermark = flags->l2_prefetch_inflight_watermark;
  sm->eviction_period_ns = G_GINT64_CONSTANT (1000000000);
  sm->explain_misses = TRUE;
  return config;
}

static gboolean
read_plain_size (StorageConfig *config, const StorageFlags *flags, const LmtOptions *options, gboolean *size_known,
                 GError **error)
{
  gboolean in_gb = is_given (options, "l1-size-gb"), with_unit = is_given (options, "l1-size");
  if (in_gb && with_unit)
    return refuse (error, "--l1-size: give either this or --l1-size-gb");
  if (with_unit)
    {
      GError *wrong = NULL;
      if (!lmt_parse_size (flags->l1_size, TRUE, &config->sm.size_bytes, &wrong))
        {
          g_set_error (error, LMT_ERROR, LMT_ERROR_OPTION, "--l1-size: %s (GiB without a unit: --l1-size-gb)", wrong->message);
          g_error_free (wrong);
          return FALSE;
        }
    }
  else if (in_gb && !storage_gib_to_bytes (flags->l1_size_gb, &config->sm.size_bytes))
    return refuse (error, "--l1-size-gb: expected at most 1073741824 GiB");
  if ((in_gb || with_unit) && (config->sm.size_bytes == 0 || config->sm.size_bytes > STORAGE_MAX_BYTES))
    {
      g_set_error (error, LMT_ERROR, LMT_ERROR_OPTION,
                   "--%s: expected a size from 1 byte to 1 EiB, found %" G_GUINT64_FORMAT " bytes",
                   in_gb ? "l1-size-gb" : "l1-size", config->sm.size_bytes);
      return FALSE;
    }
  *size_known |= in_gb || with_unit;
  return TRUE;
}

/* L1: an object, or plain flags, or the header with flags over it. */
static gboolean
read_l1 (StorageConfig *config, const StorageFlags *flags, const LmtOptions *options, const LmtHeader *header,
         LmtWarnings *warnings, GError **error)
{
  gboolean size_known = FALSE, policy_known = FALSE;
  gboolean objects = flags->l1_manager != NULL && flags->l1_manager[0] != NULL;
  if (objects && (is_given (options, "l1-size-gb") || is_given (options, "l1-size")))
    return refuse (error, "--l1-manager: Use either --l1-manager or legacy L1 flags");
  if (flags->config_from_trace
      && !storage_config_from_header (config, header, options, warnings, &size_known, &policy_known, error))
    return FALSE;
  if (is_given (options, "eviction-policy"))
    {
      LmtEvictKind policy = LMT_EVICT_NOOP;
      if (!lmt_evict_kind_from_text (flags->eviction_policy, &policy))
        return refuse (error, "--eviction-policy: expected LRU, ARC, IsolatedLRU or noop");
      config->sm.eviction.policy = policy;
      policy_known = TRUE;
      if (!objects && !storage_config_check_policy (policy, "--eviction-policy", error))
        return FALSE;
    }
  if (objects)
    {
      config->plain_flags = FALSE;
      return storage_config_read_l1_managers (config, (const char *const *)flags->l1_manager, &policy_known, error);
    }
  if (!read_plain_size (config, flags, options, &size_known, error))
    return FALSE;
  if (!size_known || !policy_known)
    return refuse (error, "Legacy L1 configuration requires --l1-size-gb and --eviction-policy");
  if (!storage_is_power_of_two (config->sm.align_bytes))
    {
      g_set_error (error, LMT_ERROR, LMT_ERROR_OPTION, "--l1-align-bytes: expected a power of two, found %" G_GUINT64_FORMAT,
                   config->sm.align_bytes);
      return FALSE;
    }
  if (!flags->config_from_trace || is_given (options, "l1-init-size-gb") || config->init_size_bytes == 0)
    {
      guint64 gib = (guint64)flags->l1_init_size_gb;
      config->init_size_bytes = gib < STORAGE_MAX_BYTES / STORAGE_GIB ? gib * STORAGE_GIB : STORAGE_MAX_BYTES;
    }
  config->init_size_bytes = MIN (config->init_size_bytes, config->sm.size_bytes);
  return TRUE;
}

static gboolean
add_adapter (StorageConfig *config, LmtRegistry *registry, const char *json, GError **error)
{
  guint n = config->sm.n_l2;
  LmtL2Config *l2 = lmt_l2_config_parse (registry, json, n + 1, error);
  if (l2 == NULL)
    return FALSE;
  const LmtL2Eviction *eviction = lmt_l2_config_get_eviction (l2);
  config->l2 = g_renew (LmtL2Config *, config->l2, n + 1);
  config->l2_eviction = g_renew (SmEviction, config->l2_eviction, n + 1);
  config->l2[n] = l2;
  config->l2_eviction[n] = (SmEviction){ eviction->set, eviction->policy, eviction->watermark, eviction->ratio };
  config->sm.n_l2 = n + 1;
  config->sm.l2_eviction = config->l2_eviction;
  return TRUE;
}

static gboolean
read_adapters (StorageConfig *config, const StorageFlags *flags, LmtRegistry *registry, GError **error)
{
  for (guint i = 0; flags->l2_adapter != NULL && flags->l2_adapter[i] != NULL; i++)
    if (!add_adapter (config, registry, flags->l2_adapter[i], error))
      return FALSE;
  for (guint i = 0; flags->l2 != NULL && flags->l2[i] != NULL; i++)
    {
      g_autofree char *json = lmt_l2_short_form_to_json (registry, flags->l2[i], error);
      if (json == NULL || !add_adapter (config, registry, json, error))
        return FALSE;
    }
  return TRUE;
}

/* SALT=SIZE. A salt may hold '=', a size can't: the last one parts them. */
static gboolean
read_quota (StorageConfig *config, const char *text, GError **error)
{
  const char *equals = strrchr (text, '=');
  StorageQuota quota = { NULL, 0 };
  if (equals == NULL)
    {
      g_set_error (error, LMT_ERROR, LMT_ERROR_OPTION, "--l2-quota: expected SALT=SIZE, found \"%s\"", text);
      return FALSE;
    }
  LmtKeyFields fields = { .struct_size = sizeof fields, .model = "", .salt = text, .salt_len = (guint32)(equals - text) };
  const char *broken = lmt_key_fields_check (&fields);
  if (broken != NULL || !g_utf8_validate (text, equals - text, NULL))
    {
      g_set_error (error, LMT_ERROR, LMT_ERROR_OPTION, "--l2-quota: %s: \"%s\"", broken != NULL ? broken : "salt is not UTF-8",
                   text);
      return FALSE;
    }
  if (!lmt_parse_size (equals + 1, FALSE, &quota.bytes, error))
    {
      g_prefix_error (error, "--l2-quota: ");
      return FALSE;
    }
  quota.salt = g_strndup (text, (gsize)(equals - text));
  g_array_append_val (config->quotas, quota);
  return TRUE;
}

static gboolean
check_flags (const StorageFlags *flags, const LmtOptions *options, LmtWarnings *warnings, GError **error)
{
  if (flags->l1_devdax_path != NULL && *flags->l1_devdax_path != '\0')
    return refuse (error, "--l1-devdax-path: L1 on a device-DAX node is not supported");
  if (flags->gds_l1_path != NULL && *flags->gds_l1_path != '\0')
    return refuse (error, "--gds-l1-path: L1 through GPU direct storage needs a GPU");
  if (flags->enable_tracing && (flags->otlp_endpoint == NULL || *flags->otlp_endpoint == '\0'))
    return refuse (error, "--enable-tracing: needs --otlp-endpoint");
  if (flags->settle && flags->no_settle)
    return refuse (error, "--settle: can't be had together with --no-settle");
  if (flags->verify_data && g_strcmp0 (flags->payload, "zero") == 0)
    return refuse (error, "--verify-data: needs --payload pattern: objects of zeros can't be told apart");
  if (is_given (options, "trace-output") && flags->trace_level == NULL && warnings != NULL)
    lmt_warnings_add (warnings, "no-effect", "--trace-output: has no effect without --trace-level");
  return TRUE;
}

StorageConfig *
storage_config_new (const StorageFlags *flags, const LmtOptions *options, LmtRegistry *registry, const LmtHeader *header,
                    LmtWarnings *warnings, GError **error)
{
  g_return_val_if_fail (flags != NULL, NULL);
  if (!check_flags (flags, options, warnings, error))
    return NULL;
  g_autoptr (StorageConfig) config = config_new_from_flags (flags, options);
  if (!read_l1 (config, flags, options, header, warnings, error) || !read_adapters (config, flags, registry, error))
    return NULL;
  for (guint i = 0; flags->l2_quota != NULL && flags->l2_quota[i] != NULL; i++)
    if (!read_quota (config, flags->l2_quota[i], error))
      return NULL;
  return g_steal_pointer (&config);
}
