// SPDX-License-Identifier: Apache-2.0
#include "storage-config.h"

#include <unistd.h>

/* Shapes by release: trace-format.md 6. 0.5.4 differs from 0.5.2 with GDS only, which is refused here. */
enum
{
  SHAPE_044 = 44,
  SHAPE_047 = 47,
  SHAPE_050 = 50,
  SHAPE_052 = 52,
  SHAPE_056 = 56,
  SHAPE_057 = 57
};

/* -------- writing -------- */

typedef struct
{
  const StorageConfig *config;
  const char *shm_name;
  LmtJsonWriter *json;
  guint shape;
  gboolean use_lazy;
} Text;

static void
put_number (LmtJsonWriter *json, const char *key, double value, gboolean is_integer)
{
  lmt_json_writer_key (json, key);
  if (is_integer)
    lmt_json_writer_int (json, (gint64)value);
  else
    lmt_json_writer_double (json, value);
}

static void
put_uint (LmtJsonWriter *json, const char *key, guint64 value)
{
  lmt_json_writer_key (json, key);
  lmt_json_writer_uint (json, value);
}

static void
put_string (LmtJsonWriter *json, const char *key, const char *value)
{
  lmt_json_writer_key (json, key);
  lmt_json_writer_string (json, value);
}

static void
put_bool (LmtJsonWriter *json, const char *key, gboolean value)
{
  lmt_json_writer_key (json, key);
  lmt_json_writer_bool (json, value);
}

/* Keys of every object in the order of their code points. */
static void
put_eviction (const Text *text, const char *key)
{
  LmtJsonWriter *json = text->json;
  const StorageConfig *config = text->config;
  lmt_json_writer_key (json, key);
  lmt_json_writer_begin_object (json);
  put_string (json, "eviction_policy", lmt_evict_kind_to_text (config->sm.eviction.policy));
  put_number (json, "eviction_ratio", config->sm.eviction.ratio, config->ratio_is_integer);
  if (text->shape >= SHAPE_052)
    {
      put_bool (json, "extra_logging_enabled", config->extra_logging);
      put_number (json, "extra_logging_interval", config->extra_logging_interval_s, FALSE);
    }
  put_number (json, "trigger_watermark", config->sm.eviction.watermark, config->watermark_is_integer);
  lmt_json_writer_end_object (json);
}

static void
put_memory (const Text *text)
{
  LmtJsonWriter *json = text->json;
  const StorageConfig *config = text->config;
  lmt_json_writer_key (json, "memory_config");
  lmt_json_writer_begin_object (json);
  put_uint (json, "align_bytes", config->sm.align_bytes);
  if (text->shape >= SHAPE_057)
    put_uint (json, "devdax_offset_in_bytes", config->devdax_offset_bytes);
  if (text->shape >= SHAPE_050)
    {
      put_string (json, "devdax_path", NULL);
      put_uint (json, "devdax_size_in_bytes", 0);
    }
  put_uint (json, "init_size_in_bytes", config->init_size_bytes);
  if (text->shape >= SHAPE_057)
    put_bool (json, "mlock", config->mlock);
  if (text->shape >= SHAPE_047)
    put_string (json, "shm_name", text->shm_name);
  put_uint (json, "size_in_bytes", config->sm.size_bytes);
  if (text->shape >= SHAPE_056)
    put_bool (json, "use_hugepages", config->use_hugepages);
  put_bool (json, "use_lazy", text->use_lazy);
  lmt_json_writer_end_object (json);
}

static void
put_l1 (const Text *text)
{
  LmtJsonWriter *json = text->json;
  lmt_json_writer_begin_object (json);
  if (text->shape >= SHAPE_056)
    put_eviction (text, "eviction");
  if (text->shape >= SHAPE_047)
    put_string (json, "gds_l1_config", NULL);
  put_memory (text);
  put_uint (json, "read_ttl_seconds", text->config->sm.read_ttl_s);
  if (text->shape >= SHAPE_056)
    put_string (json, "tag", text->config->l1_tag);
  put_uint (json, "write_ttl_seconds", text->config->sm.write_ttl_s);
  lmt_json_writer_end_object (json);
}

/* Names of the classes whose type doesn't spell them; others are the type with a capital. */
static const struct
{
  const char *type;
  const char *class_name;
} classes[] = {
  { "fs", "FS" },
  { "fs_native", "FSNative" },
  { "fault_inject", "FaultInject" },
  { "raw_block", "RawBlock" },
  { "resp", "RESP" },
  { "sagemaker-hyperpod", "SageMakerHyperPod" },
  { "mooncake_store", "MooncakeStore" },
  { "p2p", "P2P" },
};

/* As str() of an adapter's configuration reads there: type and an address, no parameters. */
static char *
adapter_text (const LmtL2Config *adapter)
{
  const char *type = lmt_l2_config_get_type_name (adapter);
  g_autofree char *class_name = g_strdup (type);
  g_autofree char *module = g_strdelimit (g_strdup (type), "-", '_');
  class_name[0] = g_ascii_toupper (class_name[0]);
  for (guint i = 0; i < G_N_ELEMENTS (classes); i++)
    if (g_str_equal (type, classes[i].type))
      {
        g_free (class_name);
        class_name = g_strdup (classes[i].class_name);
      }
  /* An address stands there, another each time; ours counts, so that what is recorded on the virtual clock comes out the same. */
  return g_strdup_printf ("<lmcache.v1.distributed.l2_adapters.%s_l2_adapter.%sL2AdapterConfig object at 0x%" G_GINT64_MODIFIER
                          "x>",
                          module, class_name, G_GUINT64_CONSTANT (0x7f0000000000) + 16 * lmt_l2_config_get_number (adapter));
}

static void
put_adapters (const Text *text)
{
  LmtJsonWriter *json = text->json;
  lmt_json_writer_key (json, "l2_adapter_config");
  lmt_json_writer_begin_object (json);
  lmt_json_writer_key (json, "adapters");
  lmt_json_writer_begin_array (json);
  for (guint i = 0; text->config->l2 != NULL && i < text->config->sm.n_l2; i++)
    {
      g_autofree char *adapter = adapter_text (text->config->l2[i]);
      lmt_json_writer_string (json, adapter);
    }
  lmt_json_writer_end_array (json);
  lmt_json_writer_end_object (json);
}

static char *
write_text (const StorageConfig *config, const char *shm_name, guint shape, gboolean use_lazy)
{
  GString *out = g_string_new (NULL);
  g_autoptr (LmtJsonWriter) json = lmt_json_writer_new (out, LMT_JSON_STYLE_SPACED);
  const SmConfig *sm = &config->sm;
  const Text text = { config, shm_name != NULL ? shm_name : config->shm_name, json, shape, use_lazy };
  lmt_json_writer_begin_object (json);
  put_eviction (&text, "eviction_config");
  lmt_json_writer_key (json, "l1_manager_config");
  put_l1 (&text);
  if (shape >= SHAPE_056)
    {
      lmt_json_writer_key (json, "l1_manager_configs");
      lmt_json_writer_begin_array (json);
      put_l1 (&text);
      lmt_json_writer_end_array (json);
    }
  put_adapters (&text);
  if (shape >= SHAPE_047)
    {
      lmt_json_writer_key (json, "periodic_notifier_interval_ms");
      lmt_json_writer_int (json, config->notifier_interval_ms);
    }
  if (shape >= SHAPE_057)
    put_number (json, "prefetch_inflight_watermark", config->inflight_watermark, FALSE);
  else
    put_uint (json, "prefetch_max_in_flight", sm->prefetch_max_in_flight);
  put_string (json, "prefetch_policy", sm->prefetch_policy == SM_PREFETCH_RETAIN ? "retain" : "default");
  put_string (json, "store_policy", sm->store_policy == SM_STORE_SKIP_L1 ? "skip_l1" : "default");
  lmt_json_writer_end_object (json);
  g_clear_pointer (&json, lmt_json_writer_free);
  return g_string_free (out, FALSE);
}

char *
storage_config_to_json (const StorageConfig *config, const char *shm_name, guint compat)
{
  /* Nothing is pinned here, and where memory can't be pinned the reference turns lazy off. */
  return write_text (config, shm_name, compat == 0 ? SHAPE_056 : compat, FALSE);
}

char *
storage_config_digest (const char *json)
{
  return g_compute_checksum_for_string (G_CHECKSUM_SHA256, json, -1);
}

/* -------- comparing -------- */

static const LmtJson *
member (const LmtJson *object, const char *name)
{
  return object != NULL && lmt_json_get_type (object) == LMT_JSON_OBJECT ? lmt_json_get_member (object, name) : NULL;
}

/* The shape a recorded text has: fields came release by release. */
static guint
shape_of (const LmtJson *recorded)
{
  const LmtJson *memory = member (member (recorded, "l1_manager_config"), "memory_config");
  if (memory == NULL)
    return SHAPE_056;
  if (member (recorded, "prefetch_inflight_watermark") != NULL)
    return SHAPE_057;
  if (member (memory, "use_hugepages") != NULL)
    return SHAPE_056;
  if (member (member (recorded, "eviction_config"), "extra_logging_enabled") != NULL)
    return SHAPE_052;
  if (member (memory, "devdax_path") != NULL)
    return SHAPE_050;
  return member (recorded, "periodic_notifier_interval_ms") != NULL ? SHAPE_047 : SHAPE_044;
}

static void
diff_free (gpointer data)
{
  StorageDiff *diff = data;
  g_free (diff->path);
  g_free (diff->recorded);
  g_free (diff->replay);
  g_free (diff);
}

static void
add_diff (GPtrArray *diffs, const char *path, const LmtJson *recorded, const LmtJson *replay)
{
  StorageDiff *diff = g_new0 (StorageDiff, 1);
  diff->path = g_strdup (path);
  diff->recorded = recorded != NULL ? lmt_json_to_text (recorded, LMT_JSON_STYLE_SPACED, FALSE) : NULL;
  diff->replay = replay != NULL ? lmt_json_to_text (replay, LMT_JSON_STYLE_SPACED, FALSE) : NULL;
  g_ptr_array_add (diffs, diff);
}

/* `…l2_adapters.TYPE_l2_adapter.` -> TYPE; a text of another form as it is. */
static char *
adapter_type (const LmtJson *adapter)
{
  if (lmt_json_get_type (adapter) != LMT_JSON_STRING)
    return lmt_json_to_text (adapter, LMT_JSON_STYLE_COMPACT, TRUE);
  const char *text = lmt_json_get_string (adapter);
  const char *start = strstr (text, "l2_adapters.");
  const char *end = start != NULL ? strstr (start, "_l2_adapter.") : NULL;
  if (end == NULL)
    return g_strdup (text);
  start += strlen ("l2_adapters.");
  return g_strndup (start, end > start ? (gsize)(end - start) : 0);
}

static gboolean
same_adapters (const LmtJson *a, const LmtJson *b)
{
  if (lmt_json_get_type (a) != LMT_JSON_ARRAY || lmt_json_get_type (b) != LMT_JSON_ARRAY
      || lmt_json_get_length (a) != lmt_json_get_length (b))
    return FALSE;
  for (guint i = 0; i < lmt_json_get_length (a); i++)
    {
      g_autofree char *x = adapter_type (lmt_json_get_element (a, i));
      g_autofree char *y = adapter_type (lmt_json_get_element (b, i));
      if (!g_str_equal (x, y))
        return FALSE;
    }
  return TRUE;
}

static gboolean
is_number (const LmtJson *json)
{
  LmtJsonType type = lmt_json_get_type (json);
  return type == LMT_JSON_INT || type == LMT_JSON_UINT || type == LMT_JSON_DOUBLE;
}

static void compare (const char *path, const LmtJson *recorded, const LmtJson *replay, GPtrArray *diffs);

static char *
join_path (const char *path, const char *name)
{
  return *path != '\0' ? g_strdup_printf ("%s.%s", path, name) : g_strdup (name);
}

static void
compare_objects (const char *path, const LmtJson *recorded, const LmtJson *replay, GPtrArray *diffs)
{
  for (guint i = 0; i < lmt_json_get_length (recorded); i++)
    {
      const char *name = lmt_json_get_member_name (recorded, i);
      const LmtJson *theirs = lmt_json_get_member (recorded, name);
      if (theirs != lmt_json_get_member_value (recorded, i) || g_str_equal (name, "shm_name"))
        continue; /* of repeated names the last one counts */
      g_autofree char *inner = join_path (path, name);
      compare (inner, theirs, lmt_json_get_member (replay, name), diffs);
    }
  for (guint i = 0; i < lmt_json_get_length (replay); i++)
    {
      const char *name = lmt_json_get_member_name (replay, i);
      if (lmt_json_get_member (recorded, name) != NULL || g_str_equal (name, "shm_name"))
        continue;
      g_autofree char *inner = join_path (path, name);
      compare (inner, NULL, lmt_json_get_member_value (replay, i), diffs);
    }
}

/* Nesting is bounded by the parser. */
static void
compare (const char *path, const LmtJson *recorded, const LmtJson *replay, GPtrArray *diffs)
{
  if (recorded == NULL || replay == NULL)
    {
      add_diff (diffs, path, recorded, replay);
      return;
    }
  LmtJsonType type = lmt_json_get_type (recorded);
  if (g_str_equal (path, "l2_adapter_config.adapters"))
    {
      if (!same_adapters (recorded, replay))
        add_diff (diffs, path, recorded, replay);
    }
  else if (type == LMT_JSON_OBJECT && lmt_json_get_type (replay) == LMT_JSON_OBJECT)
    compare_objects (path, recorded, replay, diffs);
  else if (type == LMT_JSON_ARRAY && lmt_json_get_type (replay) == LMT_JSON_ARRAY
           && lmt_json_get_length (recorded) == lmt_json_get_length (replay))
    for (guint i = 0; i < lmt_json_get_length (recorded); i++)
      {
        g_autofree char *inner = g_strdup_printf ("%s[%u]", path, i);
        compare (inner, lmt_json_get_element (recorded, i), lmt_json_get_element (replay, i), diffs);
      }
  else if (is_number (recorded) && is_number (replay) ? lmt_json_get_double (recorded) != lmt_json_get_double (replay)
                                                      : !lmt_json_equal (recorded, replay))
    add_diff (diffs, path, recorded, replay);
}

/* The replay's text: as the reference's own arithmetic has it, or as near to the recorded one as the flags allow. */
static char *
replay_text (const StorageConfig *config, const LmtJson *recorded, guint compat)
{
  const LmtJson *memory = member (member (recorded, "l1_manager_config"), "memory_config");
  if (compat != 0)
    {
      g_autofree char *segment = g_strdup_printf ("lmcache_l1_pool_%ld", (long)getpid ());
      return write_text (config, config->plain_flags ? segment : NULL, compat, FALSE);
    }
  const LmtJson *name = member (memory, "shm_name");
  const LmtJson *lazy = member (memory, "use_lazy");
  gboolean was_lazy = lazy != NULL && lmt_json_get_type (lazy) == LMT_JSON_BOOL && lmt_json_get_bool (lazy);
  gboolean take_name = config->plain_flags && name != NULL && lmt_json_get_type (name) == LMT_JSON_STRING;
  /* Lazy on the command line, not in the text: the recording host couldn't pin memory. */
  return write_text (config, take_name ? lmt_json_get_string (name) : NULL, shape_of (recorded), config->use_lazy && was_lazy);
}

StorageDigest *
storage_digest_new (const StorageConfig *config, const LmtHeader *header, guint compat)
{
  StorageDigest *digest = g_new0 (StorageDigest, 1);
  const char *text = header != NULL ? lmt_header_get_config_json (header) : "";
  const char *recorded_digest = header != NULL ? lmt_header_get_config_digest (header) : "";
  digest->diff = g_ptr_array_new_with_free_func (diff_free);
  if (*recorded_digest == '\0')
    return digest;
  g_autoptr (LmtJson) recorded = *text != '\0' ? lmt_json_parse (text, -1, NULL) : NULL;
  g_autofree char *ours = replay_text (config, recorded, compat);
  g_autofree char *our_digest = storage_config_digest (ours);
  g_autofree char *shown = g_utf8_substring (recorded_digest, 0, MIN (8, g_utf8_strlen (recorded_digest, -1)));
  if (g_str_equal (recorded_digest, our_digest))
    {
      digest->row = g_strdup_printf ("match (%s)", shown);
      return digest;
    }
  if (compat == 0)
    {
      g_autoptr (LmtJson) replay = lmt_json_parse (ours, -1, NULL);
      compare ("", recorded, replay, digest->diff);
      if (digest->diff->len == 0)
        {
          digest->row = g_strdup_printf ("equal but for names (%s)", shown);
          return digest;
        }
    }
  digest->mismatch = TRUE;
  digest->row = g_strdup_printf ("MISMATCH (rec=%s, run=%.8s)", shown, our_digest);
  return digest;
}

void
storage_digest_free (StorageDigest *digest)
{
  if (digest == NULL)
    return;
  g_free (digest->row);
  g_ptr_array_unref (digest->diff);
  g_free (digest);
}
