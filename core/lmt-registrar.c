/* SPDX-License-Identifier: Apache-2.0 */

/* What load() calls: checks a table, copies it, stages it. Nothing of it is visible before load() said yes. */
#include "lmt-registry-private.h"

#include <string.h>

gboolean
lmt_name_is_valid (const char *name)
{
  if (name == NULL || name[0] < 'a' || name[0] > 'z')
    return FALSE;
  for (const char *p = name; *p != '\0'; p++)
    if (!((*p >= 'a' && *p <= 'z') || (*p >= '0' && *p <= '9') || *p == '_' || *p == '-'))
      return FALSE;
  return TRUE;
}

static gboolean refuse (LmtRegistrar *reg, GError **error, int code, const char *format, ...) G_GNUC_PRINTF (4, 5);

/* Keeps the first refusal of a plugin: load() may ignore what an add function said, the host does not. */
static gboolean
refuse (LmtRegistrar *reg, GError **error, int code, const char *format, ...)
{
  va_list args;
  g_autofree char *text = NULL;

  va_start (args, format);
  text = g_strdup_vprintf (format, args);
  va_end (args);
  if (reg->first_error == NULL)
    reg->first_error = g_error_new_literal (LMT_ERROR, code, text);
  g_set_error_literal (error, LMT_ERROR, code, text);
  return FALSE;
}

static gboolean
stage (LmtRegistrar *reg, LmtEntryKind kind, const char *level, const char *name, gpointer ops, gboolean owns, GError **error)
{
  static const LmtEntryKind spaces[] = { LMT_ENTRY_L2, LMT_ENTRY_ALIAS };
  gboolean is_l2 = kind == LMT_ENTRY_L2 || kind == LMT_ENTRY_ALIAS;
  LmtEntry *taken = NULL;
  LmtEntry *entry;

  for (guint i = 0; i < (is_l2 ? 2u : 1u) && taken == NULL; i++)
    {
      LmtEntryKind space = is_l2 ? spaces[i] : kind;

      taken = lmt_entry_find (reg->registry->entries[space], space, level, name, strlen (name));
      if (taken == NULL)
        taken = lmt_entry_find (reg->staged, space, level, name, strlen (name));
    }
  if (taken != NULL)
    {
      if (owns)
        g_free (ops);
      if (level != NULL)
        return refuse (reg, error, LMT_ERROR_PLUGIN_CLASH, "%s \"%s\" of level \"%s\" is already registered by %s",
                       lmt_entry_kinds[kind].noun, name, level, taken->owner->path);
      return refuse (reg, error, LMT_ERROR_PLUGIN_CLASH, "%s \"%s\" is already registered by %s", lmt_entry_kinds[kind].noun,
                     name, taken->owner->path);
    }
  entry = g_new0 (LmtEntry, 1);
  *entry = (LmtEntry){ kind, owns, name, level, strlen (name), ops, reg->info };
  g_ptr_array_add (reg->staged, entry);
  return TRUE;
}

/* Size, then name: a table that is too short may not hold a name. (transfer full): our copy. */
static gpointer
take_copy (LmtRegistrar *reg, LmtEntryKind kind, gconstpointer ops, guint32 struct_size, const char *name, gboolean free_form,
           GError **error)
{
  guint32 size = MIN (struct_size, lmt_entry_kinds[kind].size);
  gpointer copy;

  if (name == NULL)
    {
      refuse (reg, error, LMT_ERROR_PLUGIN_TABLE, "%s: name: expected a text, found NULL", lmt_entry_kinds[kind].noun);
      return NULL;
    }
  if (free_form ? name[0] == '\0' : !lmt_name_is_valid (name))
    {
      g_autofree char *shown = g_utf8_make_valid (name, -1);

      refuse (reg, error, LMT_ERROR_PLUGIN_TABLE, "%s \"%s\": name: expected %s, found \"%s\"", lmt_entry_kinds[kind].noun, shown,
              free_form ? "a text" : "[a-z][a-z0-9_-]*", shown);
      return NULL;
    }
  if (struct_size < lmt_entry_kinds[kind].least)
    {
      refuse (reg, error, LMT_ERROR_PLUGIN_TABLE, "%s \"%s\": struct_size %u, the smallest accepted is %u",
              lmt_entry_kinds[kind].noun, name, struct_size, lmt_entry_kinds[kind].least);
      return NULL;
    }
  copy = g_malloc0 (lmt_entry_kinds[kind].size);
  memcpy (copy, ops, size);
  *(guint32 *)copy = size;
  return copy;
}

static gboolean
need (LmtRegistrar *reg, LmtEntryKind kind, const char *name, const char *member, gboolean is_there, GError **error)
{
  if (is_there)
    return TRUE;
  return refuse (reg, error, LMT_ERROR_PLUGIN_TABLE, "%s \"%s\": %s: expected a function, found NULL", lmt_entry_kinds[kind].noun,
                 name, member);
}

static guint32
option_width (guint32 type)
{
  switch (type)
    {
    case LMT_OPTION_TYPE_BOOL:
      return 4;
    default:
      return 8;
    }
}

/* Rows whose value would be written outside the struct, or under a name that stands twice. */
static gboolean
check_options (LmtRegistrar *reg, LmtEntryKind kind, const char *name, const LmtOption *options, guint32 config_size,
               GError **error)
{
  for (const LmtOption *row = options; row != NULL && row->name != NULL; row++)
    {
      if (row->offset > config_size || config_size - row->offset < option_width (row->type))
        return refuse (reg, error, LMT_ERROR_PLUGIN_TABLE,
                       "%s \"%s\": option \"%s\": expected a place inside config_size %u, found offset %u",
                       lmt_entry_kinds[kind].noun, name, row->name, config_size, row->offset);
      for (const LmtOption *before = options; before < row; before++)
        if (strcmp (before->name, row->name) == 0)
          return refuse (reg, error, LMT_ERROR_PLUGIN_TABLE, "%s \"%s\": option \"%s\": expected once, found twice",
                         lmt_entry_kinds[kind].noun, name, row->name);
    }
  return TRUE;
}

gboolean
lmt_registrar_add_level (LmtRegistrar *reg, const LmtLevelOps *ops, GError **error)
{
  g_autofree LmtLevelOps *copy = NULL;
  LmtLevelOps *ours;

  g_return_val_if_fail (reg != NULL && ops != NULL, FALSE);
  copy = take_copy (reg, LMT_ENTRY_LEVEL, ops, ops->struct_size, ops->name, FALSE, error);
  if (copy == NULL || !check_options (reg, LMT_ENTRY_LEVEL, copy->name, copy->options, copy->config_size, error))
    return FALSE;
  /* A session that can be made but not freed, or an info likewise, is a table with a hole. */
  if (!need (reg, LMT_ENTRY_LEVEL, copy->name, "free", copy->configure == NULL || copy->free != NULL, error)
      || !need (reg, LMT_ENTRY_LEVEL, copy->name, "info_free", copy->info_new == NULL || copy->info_free != NULL, error))
    return FALSE;
  ours = g_steal_pointer (&copy);
  return stage (reg, LMT_ENTRY_LEVEL, NULL, ours->name, ours, TRUE, error);
}

gboolean
lmt_registrar_add_handler (LmtRegistrar *reg, const LmtHandlerOps *ops, GError **error)
{
  g_autofree LmtHandlerOps *copy = NULL;
  LmtHandlerOps *ours;

  g_return_val_if_fail (reg != NULL && ops != NULL, FALSE);
  copy = take_copy (reg, LMT_ENTRY_HANDLER, ops, ops->struct_size, ops->qualname, TRUE, error);
  if (copy == NULL)
    return FALSE;
  if (!lmt_name_is_valid (copy->level))
    return refuse (reg, error, LMT_ERROR_PLUGIN_TABLE, "qualname \"%s\": level: expected [a-z][a-z0-9_-]*, found \"%s\"",
                   copy->qualname, copy->level != NULL ? copy->level : "");
  if (!need (reg, LMT_ENTRY_HANDLER, copy->qualname, "call", copy->call != NULL, error))
    return FALSE;
  ours = g_steal_pointer (&copy);
  return stage (reg, LMT_ENTRY_HANDLER, ours->level, ours->qualname, ours, TRUE, error);
}

gboolean
lmt_registrar_add_codec (LmtRegistrar *reg, const LmtCodecOps *ops, GError **error)
{
  g_autofree LmtCodecOps *copy = NULL;
  LmtCodecOps *ours;

  g_return_val_if_fail (reg != NULL && ops != NULL, FALSE);
  copy = take_copy (reg, LMT_ENTRY_CODEC, ops, ops->struct_size, ops->tag, TRUE, error);
  if (copy == NULL || !need (reg, LMT_ENTRY_CODEC, copy->tag, "decode", copy->decode != NULL, error))
    return FALSE;
  ours = g_steal_pointer (&copy);
  return stage (reg, LMT_ENTRY_CODEC, NULL, ours->tag, ours, TRUE, error);
}

gboolean
lmt_registrar_add_l2 (LmtRegistrar *reg, const LmtL2Ops *ops, GError **error)
{
  g_autofree LmtL2Ops *copy = NULL;
  LmtL2Ops *ours;

  g_return_val_if_fail (reg != NULL && ops != NULL, FALSE);
  copy = take_copy (reg, LMT_ENTRY_L2, ops, ops->struct_size, ops->name, FALSE, error);
  if (copy == NULL || !need (reg, LMT_ENTRY_L2, copy->name, "open", copy->open != NULL, error)
      || !need (reg, LMT_ENTRY_L2, copy->name, "close", copy->close != NULL, error)
      || !need (reg, LMT_ENTRY_L2, copy->name, "submit", copy->submit != NULL, error)
      || !need (reg, LMT_ENTRY_L2, copy->name, "reap", copy->reap != NULL, error)
      || !check_options (reg, LMT_ENTRY_L2, copy->name, copy->options, copy->config_size, error))
    return FALSE;
  /* What a newer plugin promises beyond our words is not relied on. */
  if (copy->threads > LMT_THREADS_PARALLEL)
    copy->threads = LMT_THREADS_ONE;
  ours = g_steal_pointer (&copy);
  if (!stage (reg, LMT_ENTRY_L2, NULL, ours->name, ours, TRUE, error))
    return FALSE;
  for (guint i = 0; ours->aliases != NULL && ours->aliases[i] != NULL; i++)
    {
      if (!lmt_name_is_valid (ours->aliases[i]))
        return refuse (reg, error, LMT_ERROR_PLUGIN_TABLE, "adapter \"%s\": aliases: expected [a-z][a-z0-9_-]*, found \"%s\"",
                       ours->name, ours->aliases[i]);
      if (!stage (reg, LMT_ENTRY_ALIAS, NULL, ours->aliases[i], ours, FALSE, error))
        return FALSE;
    }
  return TRUE;
}

gboolean
lmt_registrar_add_command (LmtRegistrar *reg, const LmtCommandOps *ops, GError **error)
{
  g_autofree LmtCommandOps *copy = NULL;
  LmtCommandOps *ours;

  g_return_val_if_fail (reg != NULL && ops != NULL, FALSE);
  copy = take_copy (reg, LMT_ENTRY_COMMAND, ops, ops->struct_size, ops->name, FALSE, error);
  if (copy == NULL || !need (reg, LMT_ENTRY_COMMAND, copy->name, "run", copy->run != NULL, error)
      || !check_options (reg, LMT_ENTRY_COMMAND, copy->name, copy->options, copy->config_size, error))
    return FALSE;
  ours = g_steal_pointer (&copy);
  return stage (reg, LMT_ENTRY_COMMAND, NULL, ours->name, ours, TRUE, error);
}

gboolean
lmt_registry_run_load (LmtRegistry *registry, LmtPluginInfo *info, gboolean (*load) (LmtRegistrar *, GError **), GError **error)
{
  g_autoptr (GPtrArray) staged = g_ptr_array_new_with_free_func (lmt_entry_free);
  g_autoptr (GError) said = NULL;
  LmtRegistrar reg = { registry, info, staged, NULL };
  gboolean ok = load (&reg, &said);

  if (reg.first_error != NULL)
    {
      g_propagate_error (error, reg.first_error);
      return FALSE;
    }
  if (!ok)
    {
      g_set_error (error, LMT_ERROR, LMT_ERROR_PLUGIN_LOAD, "load() failed: %s",
                   said != NULL ? said->message : "it gave no reason");
      return FALSE;
    }
  for (guint i = 0; i < staged->len; i++)
    {
      LmtEntry *entry = staged->pdata[i];

      g_ptr_array_add (registry->entries[entry->kind], entry);
    }
  g_ptr_array_set_free_func (staged, NULL);
  return TRUE;
}
