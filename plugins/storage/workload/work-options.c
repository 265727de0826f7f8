// SPDX-License-Identifier: Apache-2.0
#include "work-command.h"

#include <string.h>

/* Of replay's rows: those that say what manager there is and how it is recorded. */
static gboolean
is_ours (const LmtOption *row)
{
  static const char *const groups[]
      = { "L1 Memory Manager", "L1 Manager TTL", "Eviction Policy", "L2 Policies", "L2 Adapters", "Trace Recording", NULL };
  static const char *const more[] = { "l2-quota", "payload", "verify-data", NULL };
  static const char *const not [] = { "config-from-trace", "trace-output", NULL };

  /* Words of LMCache's server that mean nothing here are taken where its command lines are pasted: by replay. */
  return (row->flags & LMT_OPTION_NO_EFFECT) == 0
         && (g_strv_contains (more, row->name) || (row->group != NULL && g_strv_contains (groups, row->group)))
         && !g_strv_contains (not, row->name);
}

/* Where replay's words don't fit. */
static const struct
{
  const char *name;
  const char *help;
} other_words[] = {
  { "l1-size-gb", "Set the size of L1 in GiB" },
  { "eviction-policy", "Choose what L1 evicts" },
  { "trace-level", "Record the manager's calls (default: storage), or what it would tell a coordinator" },
  { "trace-buffer", "Buffer of the recorder (default: 16MiB; level events 64MiB)" },
};

LmtOption *
work_options_table (const LmtOption *own, gsize first_flags)
{
  GArray *table = g_array_new (TRUE, TRUE, sizeof (LmtOption));

  for (const LmtOption *row = own; row->name != NULL; row++)
    g_array_append_vals (table, row, 1);
  for (const LmtOption *row = storage_options; row->name != NULL; row++)
    if (is_ours (row))
      {
        LmtOption copy = *row;

        copy.offset += (guint32)first_flags;
        if (g_strcmp0 (copy.group, "Storage replay") == 0)
          copy.group = NULL;
        for (guint i = 0; i < G_N_ELEMENTS (other_words); i++)
          if (g_str_equal (copy.name, other_words[i].name))
            copy.help = other_words[i].help;
        g_array_append_val (table, copy);
      }
  return (LmtOption *)(gpointer)g_array_free (table, FALSE);
}

void
work_line_init (WorkLine *line, const LmtOptions *given, const StorageFlags *flags)
{
  memset (line, 0, sizeof *line);
  line->options = lmt_options_new ();
  lmt_options_add_table (line->options, storage_options, &line->flags);
  for (const LmtOption *row = storage_options; row->name != NULL; row++)
    {
      LmtOrigin origin
          = lmt_options_find (given, row->name) != NULL ? lmt_options_get_origin (given, row->name) : LMT_ORIGIN_DEFAULT;

      if (origin == LMT_ORIGIN_DEFAULT)
        continue;
      if (row->type == LMT_OPTION_TYPE_STRINGS)
        {
          char *const *list = *(char *const *const *)(gconstpointer)((const char *)flags + row->offset);

          for (guint i = 0; list != NULL && list[i] != NULL; i++)
            lmt_options_set (line->options, row->name, list[i], origin, NULL);
          continue;
        }
      g_autofree char *text = lmt_options_get_text (given, row->name);
      if (text != NULL)
        lmt_options_set (line->options, row->name, text, origin, NULL);
    }
}

void
work_line_set_defaults (WorkLine *line)
{
  static const char *const sizes[] = { "l1-manager", "l1-size", "l1-size-gb" };
  gboolean size_known = FALSE;

  for (guint i = 0; i < G_N_ELEMENTS (sizes); i++)
    size_known |= lmt_options_is_set (line->options, sizes[i]);
  if (!size_known)
    lmt_options_set (line->options, "l1-size", "64GiB", LMT_ORIGIN_FILE, NULL);
  if (!lmt_options_is_set (line->options, "trace-level"))
    lmt_options_set (line->options, "trace-level", "storage", LMT_ORIGIN_FILE, NULL);
  /* The largest request there may be fits into half of it. */
  if (!lmt_options_is_set (line->options, "trace-buffer") && g_str_equal (line->flags.trace_level, "storage"))
    lmt_options_set (line->options, "trace-buffer", "16MiB", LMT_ORIGIN_FILE, NULL);
  if (!lmt_options_is_set (line->options, "l1-manager") && !lmt_options_is_set (line->options, "eviction-policy"))
    lmt_options_set (line->options, "eviction-policy", "LRU", LMT_ORIGIN_FILE, NULL);
}

void
work_line_clear (WorkLine *line)
{
  g_clear_pointer (&line->options, lmt_options_free);
}
