// SPDX-License-Identifier: Apache-2.0
#include <math.h>

#include "storage-config-private.h"

/* One --l1-manager object as it is read. Messages are those of storage-manager.md 12.2, table config-l1-manager. */
typedef struct
{
  char *tag;
  guint64 size_bytes;
  guint64 align_bytes;
  guint64 init_size_bytes;
  guint32 read_ttl_s;
  guint32 write_ttl_s;
  SmEviction eviction;
  char *shm_name;
  gboolean use_lazy;
  gboolean use_hugepages;
  gboolean watermark_is_integer;
  gboolean ratio_is_integer;
} L1Object;

static void
l1_object_clear (L1Object *l1)
{
  g_clear_pointer (&l1->tag, g_free);
  g_clear_pointer (&l1->shm_name, g_free);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (L1Object, l1_object_clear)

static gboolean
wrong (GError **error, const char *message)
{
  g_set_error (error, LMT_ERROR, LMT_ERROR_OPTION, "--l1-manager: %s", message);
  return FALSE;
}

static gboolean
is_number (const LmtJson *value)
{
  LmtJsonType type = lmt_json_get_type (value);
  return type == LMT_JSON_INT || type == LMT_JSON_UINT || type == LMT_JSON_DOUBLE;
}

static gboolean
read_tag (const LmtJson *object, char **tag, GError **error)
{
  const LmtJson *value = lmt_json_get_member (object, "tag");
  if (value == NULL || lmt_json_get_type (value) != LMT_JSON_STRING)
    return wrong (error, "tag must be a non-empty string");
  g_autofree char *text = g_strstrip (g_strdup (lmt_json_get_string (value)));
  if (*text == '\0')
    return wrong (error, "tag must be a non-empty string");
  *tag = g_strdup (lmt_json_get_string (value));
  return TRUE;
}

/* A finite number of GiB above 0. */
static gboolean
read_gib (const LmtJson *object, const char *name, gboolean required, guint64 *bytes, GError **error)
{
  const LmtJson *value = lmt_json_get_member (object, name);
  if (value == NULL && !required)
    return TRUE;
  if (value != NULL && is_number (value) && lmt_json_get_double (value) > 0
      && storage_gib_to_bytes (lmt_json_get_double (value), bytes))
    return TRUE;
  g_autofree char *message = g_strdup_printf ("%s must be a finite positive number", name);
  return wrong (error, message);
}

static gboolean
read_positive (const LmtJson *object, const char *name, gint64 most, gint64 *number, GError **error)
{
  const LmtJson *value = lmt_json_get_member (object, name);
  if (value == NULL)
    return TRUE;
  if (lmt_json_get_type (value) == LMT_JSON_INT && lmt_json_get_int (value) > 0 && lmt_json_get_int (value) <= most)
    {
      *number = lmt_json_get_int (value);
      return TRUE;
    }
  g_autofree char *message = g_strdup_printf ("%s must be a positive integer", name);
  return wrong (error, message);
}

static gboolean
read_bool (const LmtJson *object, const char *name, gboolean *flag, GError **error)
{
  const LmtJson *value = lmt_json_get_member (object, name);
  if (value == NULL)
    return TRUE;
  if (lmt_json_get_type (value) == LMT_JSON_BOOL)
    {
      *flag = lmt_json_get_bool (value);
      return TRUE;
    }
  g_autofree char *message = g_strdup_printf ("%s must be a boolean", name);
  return wrong (error, message);
}

static gboolean
read_fraction (const LmtJson *object, const char *name, double *fraction, gboolean *is_integer, GError **error)
{
  const LmtJson *value = object != NULL ? lmt_json_get_member (object, name) : NULL;
  if (value == NULL)
    return TRUE;
  if (is_number (value) && lmt_json_get_double (value) >= 0 && lmt_json_get_double (value) <= 1)
    {
      *fraction = lmt_json_get_double (value);
      *is_integer = lmt_json_get_type (value) != LMT_JSON_DOUBLE;
      return TRUE;
    }
  g_autofree char *message = g_strdup_printf ("%s must be between zero and one", name);
  return wrong (error, message);
}

/* Names that stand in @object but not in @known, as `['a', 'b']`, sorted; NULL: none. */
static char *
unknown_names (const LmtJson *object, const char *const *known)
{
  g_autoptr (GPtrArray) names = g_ptr_array_new ();
  for (guint i = 0; i < lmt_json_get_length (object); i++)
    if (!g_strv_contains (known, lmt_json_get_member_name (object, i)))
      g_ptr_array_add (names, (gpointer)lmt_json_get_member_name (object, i));
  if (names->len == 0)
    return NULL;
  for (guint i = 1; i < names->len; i++)
    for (guint j = i; j > 0 && strcmp (names->pdata[j - 1], names->pdata[j]) > 0; j--)
      {
        gpointer swap = names->pdata[j];
        names->pdata[j] = names->pdata[j - 1];
        names->pdata[j - 1] = swap;
      }
  GString *text = g_string_new ("[");
  for (guint i = 0; i < names->len; i++)
    g_string_append_printf (text, "%s'%s'", i > 0 ? ", " : "", (const char *)names->pdata[i]);
  g_string_append_c (text, ']');
  return g_string_free (text, FALSE);
}

static gboolean
read_eviction (const LmtJson *object, L1Object *l1, gboolean policy_known, GError **error)
{
  SmEviction *eviction = &l1->eviction;
  static const char *const known[] = { "eviction_policy", "trigger_watermark", "eviction_ratio", NULL };
  const LmtJson *value = lmt_json_get_member (object, "eviction");
  if (value != NULL)
    {
      g_autofree char *unknown = lmt_json_get_type (value) == LMT_JSON_OBJECT ? unknown_names (value, known) : g_strdup ("");
      if (unknown != NULL)
        return wrong (error, "eviction must contain policy, watermark and ratio settings only");
      const LmtJson *policy = lmt_json_get_member (value, "eviction_policy");
      if (policy != NULL)
        policy_known = lmt_json_get_type (policy) == LMT_JSON_STRING
                       && lmt_evict_kind_from_text (lmt_json_get_string (policy), &eviction->policy);
    }
  if (!policy_known)
    return wrong (error, "An eviction policy is required for each L1");
  return storage_config_check_policy (eviction->policy, "--l1-manager", error)
         && read_fraction (value, "trigger_watermark", &eviction->watermark, &l1->watermark_is_integer, error)
         && read_fraction (value, "eviction_ratio", &eviction->ratio, &l1->ratio_is_integer, error);
}

static gboolean
read_memory (const LmtJson *object, L1Object *l1, GError **error)
{
  gint64 align = (gint64)l1->align_bytes, read_ttl = l1->read_ttl_s, write_ttl = l1->write_ttl_s;
  if (!read_positive (object, "align_bytes", G_MAXINT64, &align, error))
    return FALSE;
  if (!storage_is_power_of_two ((guint64)align))
    return wrong (error, "align_bytes must be a power of two");
  l1->align_bytes = (guint64)align;
  if (!read_gib (object, "size_gb", TRUE, &l1->size_bytes, error))
    return FALSE;
  if (l1->size_bytes < l1->align_bytes)
    return wrong (error, "size_gb must provide at least align_bytes bytes");
  if (!read_positive (object, "read_ttl_seconds", G_MAXUINT32, &read_ttl, error)
      || !read_positive (object, "write_ttl_seconds", G_MAXUINT32, &write_ttl, error))
    return FALSE;
  l1->read_ttl_s = (guint32)read_ttl;
  l1->write_ttl_s = (guint32)write_ttl;
  if (!read_bool (object, "use_lazy", &l1->use_lazy, error)
      || !read_gib (object, "init_size_gb", FALSE, &l1->init_size_bytes, error)
      || !read_bool (object, "use_hugepages", &l1->use_hugepages, error))
    return FALSE;
  l1->init_size_bytes = MIN (l1->init_size_bytes, l1->size_bytes);
  const LmtJson *name = lmt_json_get_member (object, "shm_name");
  if (name != NULL && lmt_json_get_type (name) != LMT_JSON_STRING)
    return wrong (error, "shm_name must be a string");
  if (name != NULL && *lmt_json_get_string (name) != '\0' && l1->use_lazy)
    return wrong (error, "shm_name cannot coexist with use_lazy");
  l1->shm_name = g_strdup (name != NULL ? lmt_json_get_string (name) : "");
  return TRUE;
}

static gboolean
read_l1_object (const LmtJson *object, const StorageConfig *flags, gboolean policy_known, L1Object *l1, GError **error)
{
  static const char *const known[]
      = { "type",     "tag",      "size_gb",      "align_bytes", "read_ttl_seconds", "write_ttl_seconds",
          "eviction", "use_lazy", "init_size_gb", "shm_name",    "use_hugepages",    NULL };
  const LmtJson *type = lmt_json_get_type (object) == LMT_JSON_OBJECT ? lmt_json_get_member (object, "type") : NULL;
  const char *word = type != NULL && lmt_json_get_type (type) == LMT_JSON_STRING ? lmt_json_get_string (type) : "";
  if (g_str_equal (word, "DEVDAX") || g_str_equal (word, "GDS"))
    {
      g_set_error (error, LMT_ERROR, LMT_ERROR_OPTION, "--l1-manager: type %s %s: expected DRAM", word,
                   *word == 'G' ? "needs a GPU" : "is not supported");
      return FALSE;
    }
  if (!g_str_equal (word, "DRAM"))
    {
      g_set_error_literal (error, LMT_ERROR, LMT_ERROR_OPTION, "--l1-manager requires type DRAM, DEVDAX or GDS");
      return FALSE;
    }
  if (lmt_json_get_repeated (object) != NULL)
    {
      g_set_error (error, LMT_ERROR, LMT_ERROR_OPTION, "--l1-manager: %s stands twice", lmt_json_get_repeated (object));
      return FALSE;
    }
  g_autofree char *unknown = unknown_names (object, known);
  if (unknown != NULL)
    {
      g_set_error (error, LMT_ERROR, LMT_ERROR_OPTION, "--l1-manager: Unknown L1 fields: %s", unknown);
      return FALSE;
    }
  /* What the object leaves out: flags for lifetimes and eviction, else the type's own defaults. */
  l1->align_bytes = 4096;
  l1->init_size_bytes = 20 * STORAGE_GIB;
  l1->use_lazy = TRUE;
  l1->read_ttl_s = flags->sm.read_ttl_s;
  l1->write_ttl_s = flags->sm.write_ttl_s;
  l1->eviction = flags->sm.eviction;
  return read_tag (object, &l1->tag, error) && read_memory (object, l1, error) && read_eviction (object, l1, policy_known, error);
}

gboolean
storage_config_read_l1_managers (StorageConfig *config, const char *const *arguments, gboolean *policy_known, GError **error)
{
  g_auto (L1Object) first = { NULL };
  guint n = 0;
  for (; arguments[n] != NULL; n++)
    {
      g_autoptr (LmtJson) json = lmt_json_parse (arguments[n], -1, error);
      g_auto (L1Object) l1 = { NULL };
      if (json == NULL)
        {
          g_prefix_error (error, "--l1-manager: invalid JSON: ");
          return FALSE;
        }
      if (!read_l1_object (json, config, *policy_known, &l1, error))
        return FALSE;
      if (n == 0)
        {
          first = l1;
          memset (&l1, 0, sizeof l1);
        }
      else if (g_str_equal (first.tag, l1.tag))
        return wrong (error, "L1 tags must be unique");
    }
  /* Key-only calls of a trace don't say which L1 they mean (storage-manager.md 14, defect 17). */
  if (n > 1)
    {
      g_set_error (error, LMT_ERROR, LMT_ERROR_OPTION, "--l1-manager: expected one L1, found %u: a trace doesn't tell them apart",
                   n);
      return FALSE;
    }
  SmConfig *sm = &config->sm;
  sm->size_bytes = first.size_bytes;
  sm->align_bytes = first.align_bytes;
  sm->read_ttl_s = first.read_ttl_s;
  sm->write_ttl_s = first.write_ttl_s;
  sm->eviction = first.eviction;
  config->init_size_bytes = first.init_size_bytes;
  config->use_lazy = first.use_lazy;
  config->use_hugepages = first.use_hugepages;
  config->watermark_is_integer = first.watermark_is_integer;
  config->ratio_is_integer = first.ratio_is_integer;
  g_free (config->l1_tag);
  config->l1_tag = g_steal_pointer (&first.tag);
  g_free (config->shm_name);
  config->shm_name = g_steal_pointer (&first.shm_name);
  *policy_known = TRUE;
  return TRUE;
}
