/* SPDX-License-Identifier: Apache-2.0 */
#include "lmt-l2-private.h"

#include "lmt-json.h"

#include <math.h>
#include <string.h>

struct _LmtL2Config
{
  LmtRegistry *registry;
  const LmtL2Ops *ops;
  LmtOptions *options;
  gpointer config; /* the plugin's struct */
  char *type;
  char *json;
  char *where; /* `--l2-adapter #1`, or `--l2-adapter #1 ('fault'): inner` */
  guint number;
  gboolean is_inner;
  LmtL2Config *inner; /* of the option flagged LMT_OPTION_ADAPTER */
  double io_timeout_s;
  gboolean shared;
  gboolean persist;
  LmtL2Eviction eviction;
};

/* Keys every adapter has (l2-adapters.md 3); the core reads them, the plugin's table has the rest. */
static const char *const common_keys[]
    = { "type", "shared", "persist_enabled", "eviction", "serde", "affinity_tag", "per_op_workers", "io_timeout_s", NULL };
static const char *const eviction_keys[] = { "eviction_policy", "trigger_watermark", "eviction_ratio", NULL };

void
lmt_l2_config_free (LmtL2Config *config)
{
  if (config == NULL)
    return;
  lmt_l2_config_free (config->inner);
  lmt_options_free (config->options);
  g_free (config->config);
  g_free (config->where);
  g_free (config->type);
  g_free (config->json);
  g_clear_object (&config->registry);
  g_free (config);
}

static gboolean
fail (GError **error, const char *prefix, const char *key, const char *expected, const LmtJson *found)
{
  g_autofree char *text = lmt_json_to_text (found, LMT_JSON_STYLE_COMPACT, FALSE);
  if (strlen (text) > 80)
    strcpy (text + 77, "...");
  g_set_error (error, LMT_ERROR, LMT_ERROR_OPTION, "%s: %s: expected %s, found %s", prefix, key, expected, text);
  return FALSE;
}

static gboolean
read_bool (const LmtJson *json, const char *key, const char *prefix, gboolean *value, GError **error)
{
  const LmtJson *member = lmt_json_get_member (json, key);
  if (member == NULL)
    return TRUE;
  if (lmt_json_get_type (member) != LMT_JSON_BOOL)
    return fail (error, prefix, key, "a boolean", member);
  *value = lmt_json_get_bool (member);
  return TRUE;
}

/* Above 0, at most 1; upstream checks no range. */
static gboolean
read_share (const LmtJson *json, const char *key, const char *prefix, double *value, GError **error)
{
  const LmtJson *member = lmt_json_get_member (json, key);
  if (member == NULL)
    return TRUE;
  LmtJsonType type = lmt_json_get_type (member);
  g_autofree char *path = g_strconcat ("eviction.", key, NULL);
  if (type != LMT_JSON_INT && type != LMT_JSON_UINT && type != LMT_JSON_DOUBLE)
    return fail (error, prefix, path, "a number above 0, at most 1", member);
  *value = lmt_json_get_double (member);
  if (!(*value > 0 && *value <= 1))
    return fail (error, prefix, path, "a number above 0, at most 1", member);
  return TRUE;
}

static gboolean
read_eviction (LmtL2Config *config, const LmtJson *json, const char *prefix, GError **error)
{
  const LmtJson *eviction = lmt_json_get_member (json, "eviction");
  if (eviction == NULL || lmt_json_get_type (eviction) == LMT_JSON_NULL)
    return TRUE;
  if (lmt_json_get_type (eviction) != LMT_JSON_OBJECT)
    return fail (error, prefix, "eviction", "an object", eviction);
  const char *repeated = lmt_json_get_repeated (eviction);
  if (repeated != NULL)
    {
      g_set_error (error, LMT_ERROR, LMT_ERROR_OPTION, "%s: eviction.%s: expected the key once, found it twice", prefix,
                   repeated);
      return FALSE;
    }
  for (guint i = 0; i < lmt_json_get_length (eviction); i++)
    {
      const char *name = lmt_json_get_member_name (eviction, i);
      if (g_strv_contains (eviction_keys, name))
        continue;
      const char *closest = lmt_closest (name, eviction_keys);
      g_set_error (
          error, LMT_ERROR, LMT_ERROR_OPTION,
          "%s: eviction.%s: expected one of the keys eviction_policy, trigger_watermark, eviction_ratio, found an unknown "
          "key%s%s%s",
          prefix, name, closest != NULL ? ": did you mean '" : "", closest != NULL ? closest : "", closest != NULL ? "'?" : "");
      return FALSE;
    }
  const LmtJson *policy = lmt_json_get_member (eviction, "eviction_policy");
  if (policy == NULL)
    {
      g_set_error (error, LMT_ERROR, LMT_ERROR_OPTION,
                   "%s: eviction.eviction_policy: expected LRU, ARC, IsolatedLRU or noop, found nothing: the key is required",
                   prefix);
      return FALSE;
    }
  if (lmt_json_get_type (policy) != LMT_JSON_STRING
      || !lmt_evict_kind_from_text (lmt_json_get_string (policy), &config->eviction.policy))
    return fail (error, prefix, "eviction.eviction_policy", "LRU, ARC, IsolatedLRU or noop", policy);
  config->eviction.set = TRUE;
  return read_share (eviction, "trigger_watermark", prefix, &config->eviction.watermark, error)
         && read_share (eviction, "eviction_ratio", prefix, &config->eviction.ratio, error);
}

/* An inner one would be read and have no effect, as upstream (l2-adapters.md 8, I1). */
static gboolean
refuse_inner (const LmtL2Config *config, const LmtJson *json, const char *prefix, GError **error)
{
  static const char *const keys[] = { "eviction", "serde", "io_timeout_s" };
  for (guint i = 0; config->is_inner && i < G_N_ELEMENTS (keys); i++)
    {
      const LmtJson *member = lmt_json_get_member (json, keys[i]);
      if (member == NULL || lmt_json_get_type (member) == LMT_JSON_NULL)
        continue;
      g_set_error (error, LMT_ERROR, LMT_ERROR_OPTION, "%s: %s: expected none, found one: only the outer adapter's acts", prefix,
                   keys[i]);
      return FALSE;
    }
  return TRUE;
}

/* In seconds; LMCache has no such key and ignores it. */
static gboolean
read_io_timeout (LmtL2Config *config, const LmtJson *json, const char *prefix, GError **error)
{
  const LmtJson *member = lmt_json_get_member (json, "io_timeout_s");
  if (member == NULL)
    return TRUE;
  LmtJsonType type = lmt_json_get_type (member);
  gboolean number = type == LMT_JSON_INT || type == LMT_JSON_UINT || type == LMT_JSON_DOUBLE;
  if (number)
    config->io_timeout_s = lmt_json_get_double (member);
  if (!number || !(config->io_timeout_s == 0 || (config->io_timeout_s >= 1e-6 && config->io_timeout_s <= 1e6)))
    return fail (error, prefix, "io_timeout_s", "0, or seconds from 1e-6 to 1e6", member);
  return TRUE;
}

static gboolean
read_serde (LmtL2Config *config, const LmtJson *json, const char *prefix, GError **error)
{
  const LmtJson *serde = lmt_json_get_member (json, "serde");
  if (serde == NULL || lmt_json_get_type (serde) == LMT_JSON_NULL)
    return TRUE;
  if (lmt_json_get_type (serde) != LMT_JSON_OBJECT)
    return fail (error, prefix, "serde", "an object", serde);
  const LmtJson *type = lmt_json_get_member (serde, "type");
  if (type == NULL || lmt_json_get_type (type) != LMT_JSON_STRING)
    return fail (error, prefix, "serde", "an object with a string \"type\"", serde);
  /* An object written through another serde loads as garbage upstream (S1): never in silence. */
  g_set_error (error, LMT_ERROR, LMT_ERROR_UNSUPPORTED, "%s (%s): serde: expected none, found \"%s\": no plugin offers it",
               config->where, config->type, lmt_json_get_string (type));
  return FALSE;
}

static gboolean
read_common (LmtL2Config *config, const LmtJson *json, const char *prefix, GError **error)
{
  if (!refuse_inner (config, json, prefix, error) || !read_io_timeout (config, json, prefix, error)
      || !read_bool (json, "shared", prefix, &config->shared, error)
      || !read_bool (json, "persist_enabled", prefix, &config->persist, error) || !read_eviction (config, json, prefix, error)
      || !read_serde (config, json, prefix, error))
    return FALSE;
  const LmtJson *workers = lmt_json_get_member (json, "per_op_workers");
  if (workers != NULL)
    {
      g_set_error (
          error, LMT_ERROR, LMT_ERROR_UNSUPPORTED,
          "%s: per_op_workers: expected the key absent, found it: only LMCache's native connectors have workers per operation",
          prefix);
      return FALSE;
    }
  const LmtJson *tag = lmt_json_get_member (json, "affinity_tag");
  if (tag == NULL)
    return TRUE;
  if (lmt_json_get_type (tag) != LMT_JSON_STRING || lmt_json_get_string_len (tag) == 0)
    return fail (error, prefix, "affinity_tag", "a non-empty string", tag);
  g_warning ("%s: affinity_tag: accepted, has no effect: LMCache removed it after 0.5.6", prefix);
  return TRUE;
}

static const LmtOption *
capacity_option (const LmtL2Config *config)
{
  for (const LmtOption *option = config->ops->options; option != NULL && option->type != LMT_OPTION_END_MARK; option++)
    if ((option->flags & LMT_OPTION_CAPACITY) != 0)
      return option;
  return NULL;
}

guint64
lmt_l2_config_get_capacity (const LmtL2Config *config)
{
  const LmtOption *option = capacity_option (config);
  if (option == NULL)
    return config->inner != NULL ? lmt_l2_config_get_capacity (config->inner) : 0;
  gconstpointer at = (const char *)config->config + option->offset;
  if (option->type != LMT_OPTION_TYPE_DOUBLE)
    return *(const guint64 *)at;
  double value = *(const double *)at;
  if (g_str_has_suffix (option->name, "_gb"))
    value *= 1073741824.0;
  return value >= 18446744073709551615.0 ? G_MAXUINT64 : (guint64)value;
}

/* A capacity below one byte would silently be none. */
static gboolean
check_capacity (const LmtL2Config *config, const char *prefix, GError **error)
{
  const LmtOption *option = capacity_option (config);
  if (option == NULL || option->type != LMT_OPTION_TYPE_DOUBLE)
    return TRUE;
  gconstpointer at = (const char *)config->config + option->offset;
  double value = *(const double *)at;
  if (value == 0 || lmt_l2_config_get_capacity (config) > 0)
    return TRUE;
  g_set_error (error, LMT_ERROR, LMT_ERROR_OPTION, "%s: %s: expected at least one byte, found %g", prefix, option->name, value);
  return FALSE;
}

static gboolean
refuse_python (const char *type, const char *where, GError **error)
{
  if (strcmp (type, "plugin") != 0 && strcmp (type, "native_plugin") != 0)
    return TRUE;
  g_set_error (error, LMT_ERROR, LMT_ERROR_UNSUPPORTED, "%s: plugin: needs LMCache; lmtrace loads .so files, see --plugin",
               where);
  return FALSE;
}

static gboolean
find_type (LmtL2Config *config, const LmtJson *json, GError **error)
{
  const LmtJson *type = lmt_json_get_member (json, "type");
  if (type == NULL)
    {
      g_set_error (error, LMT_ERROR, LMT_ERROR_OPTION, "%s: missing 'type' field", config->where);
      return FALSE;
    }
  if (lmt_json_get_type (type) != LMT_JSON_STRING || strlen (lmt_json_get_string (type)) != lmt_json_get_string_len (type))
    return fail (error, config->where, "type", "a string", type);
  config->type = g_strdup (lmt_json_get_string (type));
  g_autofree char *prefix = g_strdup_printf ("%s ('%s')", config->where, config->type);
  if (!refuse_python (config->type, prefix, error))
    return FALSE;
  config->ops = lmt_registry_get_l2 (config->registry, config->type, error);
  if (config->ops != NULL)
    return TRUE;
  g_prefix_error (error, "%s: ", config->where);
  return FALSE;
}

static LmtL2Config *parse (LmtRegistry *registry, const char *json_text, guint number, const char *where, gboolean is_inner,
                           GError **error);

static const LmtOption *
inner_option (const LmtL2Config *config)
{
  for (const LmtOption *option = config->ops->options; option != NULL && option->type != LMT_OPTION_END_MARK; option++)
    if ((option->flags & LMT_OPTION_ADAPTER) != 0)
      return option;
  return NULL;
}

/* A wrapper's adapter is read with it: what is wrong there is said before anything is opened. */
static gboolean
read_inner (LmtL2Config *config, const LmtJson *json, const char *prefix, GError **error)
{
  const LmtOption *option = inner_option (config);
  const LmtJson *member = option != NULL ? lmt_json_get_member (json, option->name) : NULL;
  if (member == NULL)
    return TRUE;
  g_autofree char *text = lmt_json_to_text (member, LMT_JSON_STYLE_COMPACT, FALSE);
  g_autofree char *where = g_strdup_printf ("%s: %s", prefix, option->name);
  config->inner = parse (config->registry, text, config->number, where, TRUE, error);
  if (config->inner == NULL)
    return FALSE;
  config->shared |= config->inner->shared;
  return TRUE;
}

static gboolean
read_object (LmtL2Config *config, const LmtJson *json, GError **error)
{
  const char *repeated = lmt_json_get_repeated (json);
  if (repeated != NULL)
    {
      g_set_error (error, LMT_ERROR, LMT_ERROR_OPTION, "%s: %s: expected the key once, found it twice", config->where, repeated);
      return FALSE;
    }
  if (!find_type (config, json, error))
    return FALSE;
  g_autofree char *prefix = g_strdup_printf ("%s ('%s')", config->where, config->type);
  config->config = g_malloc0 (MAX (config->ops->config_size, 1));
  config->options = lmt_options_new ();
  if (config->ops->options != NULL)
    lmt_options_add_table (config->options, config->ops->options, config->config);
  if (!lmt_options_parse_json (config->options, config->json, common_keys, prefix, error)
      || !read_common (config, json, prefix, error) || !check_capacity (config, prefix, error)
      || !read_inner (config, json, prefix, error))
    return FALSE;
  if (config->ops->check != NULL && !config->ops->check (config->config, config->type, error))
    {
      if (error != NULL && *error == NULL)
        g_set_error (error, LMT_ERROR, LMT_ERROR_OPTION, "refused, and the adapter gave no reason");
      g_prefix_error (error, "%s: ", prefix);
      return FALSE;
    }
  return TRUE;
}

static LmtL2Config *
parse (LmtRegistry *registry, const char *json_text, guint number, const char *where, gboolean is_inner, GError **error)
{
  g_autoptr (GError) why = NULL;
  g_autoptr (LmtJson) json = lmt_json_parse (json_text, -1, &why);
  if (json == NULL)
    {
      g_set_error (error, LMT_ERROR, LMT_ERROR_JSON, "Invalid JSON for %s: %s", where, why->message);
      return NULL;
    }
  if (lmt_json_get_type (json) != LMT_JSON_OBJECT)
    {
      g_set_error (error, LMT_ERROR, LMT_ERROR_OPTION, "%s: expected a JSON object, got %s", where, lmt_json_type_name (json));
      return NULL;
    }
  g_autoptr (LmtL2Config) config = g_new0 (LmtL2Config, 1);
  config->registry = g_object_ref (registry);
  config->json = g_strdup (json_text);
  config->where = g_strdup (where);
  config->number = number;
  config->is_inner = is_inner;
  config->persist = TRUE;
  config->eviction.watermark = 0.8;
  config->eviction.ratio = 0.2;
  return read_object (config, json, error) ? g_steal_pointer (&config) : NULL;
}

LmtL2Config *
lmt_l2_config_parse (LmtRegistry *registry, const char *json_text, guint number, GError **error)
{
  g_return_val_if_fail (LMT_IS_REGISTRY (registry) && json_text != NULL, NULL);
  g_autofree char *where = g_strdup_printf ("--l2-adapter #%u", number);
  return parse (registry, json_text, number, where, FALSE, error);
}

/* What a wrapper opens as its inner adapter. */
LmtL2Config *
lmt_l2_config_parse_inner (const LmtL2Config *outer, const char *json_text, GError **error)
{
  g_autofree char *where = g_strdup_printf ("%s ('%s'): inner", outer->where, outer->type);
  return parse (outer->registry, json_text, outer->number, where, TRUE, error);
}

/* -------- asked -------- */

const char *
lmt_l2_config_get_type_name (const LmtL2Config *config)
{
  return config->type;
}

const char *
lmt_l2_config_get_json (const LmtL2Config *config)
{
  return config->json;
}

const LmtL2Eviction *
lmt_l2_config_get_eviction (const LmtL2Config *config)
{
  return &config->eviction;
}

gboolean
lmt_l2_config_get_shared (const LmtL2Config *config)
{
  return config->shared;
}

gboolean
lmt_l2_config_get_persist (const LmtL2Config *config)
{
  return config->persist;
}

guint
lmt_l2_config_get_number (const LmtL2Config *config)
{
  return config->number;
}

const LmtL2Ops *
lmt_l2_config_get_ops (const LmtL2Config *config)
{
  return config->ops;
}

gint64
lmt_l2_config_get_io_timeout_ns (const LmtL2Config *config)
{
  return (gint64)(config->io_timeout_s * 1e9);
}

gconstpointer
lmt_l2_config_get_struct (const LmtL2Config *config)
{
  return config->config;
}

LmtRegistry *
lmt_l2_config_get_registry (const LmtL2Config *config)
{
  return config->registry;
}

static void
write_json_text (LmtJsonWriter *writer, const char *text)
{
  g_autoptr (LmtJson) json = lmt_json_parse (text, -1, NULL);
  if (json != NULL)
    lmt_json_writer_value (writer, json);
  else
    lmt_json_writer_string (writer, text);
}

char *
lmt_l2_config_with_capacity (const LmtL2Config *config, guint64 bytes)
{
  const LmtOption *option = capacity_option (config);
  g_autofree char *inner = NULL;
  if (option == NULL && config->inner != NULL)
    {
      option = inner_option (config);
      inner = lmt_l2_config_with_capacity (config->inner, bytes);
    }
  if (option == NULL || (inner == NULL && option == inner_option (config)))
    return NULL;
  g_autoptr (LmtJson) json = lmt_json_parse (config->json, -1, NULL);
  GString *out = g_string_new (NULL);
  LmtJsonWriter *writer = lmt_json_writer_new (out, LMT_JSON_STYLE_COMPACT);
  lmt_json_writer_begin_object (writer);
  for (guint i = 0; i < lmt_json_get_length (json); i++)
    if (strcmp (lmt_json_get_member_name (json, i), option->name) != 0)
      {
        lmt_json_writer_key (writer, lmt_json_get_member_name (json, i));
        lmt_json_writer_value (writer, lmt_json_get_member_value (json, i));
      }
  lmt_json_writer_key (writer, option->name);
  if (inner != NULL)
    write_json_text (writer, inner);
  else if (g_str_has_suffix (option->name, "_gb"))
    lmt_json_writer_double (writer, (double)bytes / 1073741824.0);
  else
    lmt_json_writer_uint (writer, bytes);
  lmt_json_writer_end_object (writer);
  lmt_json_writer_free (writer);
  return g_string_free (out, FALSE);
}

/* -------- the short form -------- */

/* Up to the next comma outside brackets and quotes; `\,` is a comma. */
static char *
next_part (const char **at)
{
  GString *part = g_string_new (NULL);
  int depth = 0;
  gboolean quoted = FALSE;
  const char *p = *at;
  for (; *p != '\0'; p++)
    {
      if (*p == '\\' && p[1] != '\0' && (p[1] == ',' || p[1] == '\\') && !quoted)
        p++;
      else if (*p == '"' && depth > 0)
        quoted = !quoted;
      else if (!quoted && (*p == '{' || *p == '['))
        depth++;
      else if (!quoted && (*p == '}' || *p == ']'))
        depth--;
      else if (*p == ',' && depth <= 0)
        break;
      g_string_append_c (part, *p);
    }
  *at = *p == ',' ? p + 1 : p;
  return g_string_free (part, FALSE);
}

static void
write_short_value (LmtJsonWriter *writer, const LmtL2Ops *ops, const char *key, const char *value)
{
  guint32 type = LMT_OPTION_TYPE_STRING;
  for (const LmtOption *option = ops->options; option != NULL && option->type != LMT_OPTION_END_MARK; option++)
    if (strcmp (option->name, key) == 0)
      type = option->type;
  if (g_strv_contains (common_keys, key))
    type = strcmp (key, "affinity_tag") == 0 ? LMT_OPTION_TYPE_STRING : LMT_OPTION_TYPE_JSON;
  gboolean word = type == LMT_OPTION_TYPE_STRING || type == LMT_OPTION_TYPE_CHOICE || type == LMT_OPTION_TYPE_STRINGS
                  || type == LMT_OPTION_TYPE_RANGE || type == LMT_OPTION_TYPE_OPT_STRING;
  if (strcmp (key, "eviction") == 0 && *value != '{')
    {
      lmt_json_writer_begin_object (writer);
      lmt_json_writer_key (writer, "eviction_policy");
      lmt_json_writer_string (writer, value);
      lmt_json_writer_end_object (writer);
    }
  else if (word)
    lmt_json_writer_string (writer, value);
  else
    write_json_text (writer, value); /* what is no JSON becomes a string, which the reader then refuses by name */
}

char *
lmt_l2_short_form_to_json (LmtRegistry *registry, const char *text, GError **error)
{
  g_return_val_if_fail (LMT_IS_REGISTRY (registry) && text != NULL, NULL);
  const char *colon = strchr (text, ':');
  g_autofree char *type = colon != NULL ? g_strndup (text, (gsize)(colon - text)) : g_strdup (text);
  if (!refuse_python (type, "--l2", error))
    return NULL;
  const LmtL2Ops *ops = lmt_registry_get_l2 (registry, type, error);
  if (ops == NULL)
    {
      g_prefix_error (error, "--l2: ");
      return NULL;
    }
  GString *out = g_string_new (NULL);
  LmtJsonWriter *writer = lmt_json_writer_new (out, LMT_JSON_STYLE_COMPACT);
  lmt_json_writer_begin_object (writer);
  lmt_json_writer_key (writer, "type");
  lmt_json_writer_string (writer, type);
  gboolean good = TRUE;
  for (const char *at = colon != NULL ? colon + 1 : ""; *at != '\0' && good;)
    {
      g_autofree char *part = next_part (&at);
      char *equals = strchr (part, '=');
      if (equals == NULL || equals == part)
        {
          g_set_error (error, LMT_ERROR, LMT_ERROR_OPTION, "--l2: expected NAME:key=value,…, found \"%s\"", part);
          good = FALSE;
          break;
        }
      *equals = '\0';
      lmt_json_writer_key (writer, part);
      write_short_value (writer, ops, part, equals + 1);
    }
  lmt_json_writer_end_object (writer);
  lmt_json_writer_free (writer);
  return g_string_free (out, !good);
}
