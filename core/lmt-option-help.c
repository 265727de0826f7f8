/* SPDX-License-Identifier: Apache-2.0 */
/* `--help` of option tables: 80 columns, grouped, with unit, default and range. */
#include "lmt-option.h"

#include <string.h>

#include "lmt-option-private.h"

enum
{
  HELP_WIDTH = 80,
  HELP_COLUMN = 26, /* where explanations begin */
};

/* Word for the value; NULL: the option takes none. */
static const char *
help_arg_word (const LmtOption *row)
{
  if (row->type == LMT_OPTION_TYPE_BOOL)
    return NULL;
  if (row->arg != NULL)
    return row->arg;
  switch (row->type)
    {
    case LMT_OPTION_TYPE_INT:
    case LMT_OPTION_TYPE_UINT:
      return "N";
    case LMT_OPTION_TYPE_DOUBLE:
    case LMT_OPTION_TYPE_FRACTION:
      return "F";
    case LMT_OPTION_TYPE_SIZE:
      return "SIZE";
    case LMT_OPTION_TYPE_DURATION:
      return "DUR";
    case LMT_OPTION_TYPE_COUNT:
      return "COUNT";
    case LMT_OPTION_TYPE_CHOICE:
      return "WORD";
    case LMT_OPTION_TYPE_RANGE:
      return "RANGE";
    case LMT_OPTION_TYPE_JSON:
      return "JSON";
    default:
      return "TEXT";
    }
}

char *
lmt_option_spelling (const LmtOption *row)
{
  GString *const out = g_string_new (NULL);
  const char *const arg = help_arg_word (row);

  if (row->short_name != 0)
    g_string_append_printf (out, "-%c, ", (char)row->short_name);
  g_string_append_printf (out, "--%s%s", (row->flags & LMT_OPTION_NEGATABLE) != 0 ? "[no-]" : "", row->name);
  if (row->type == LMT_OPTION_TYPE_OPT_STRING)
    g_string_append_printf (out, "[=%s]", arg);
  else if (arg != NULL)
    g_string_append_printf (out, " %s", arg);
  return g_string_free (out, FALSE);
}

char *
lmt_option_explanation (const LmtOption *row)
{
  GString *const out = g_string_new (row->help == NULL ? "" : row->help);
  g_autofree char *range = lmt_option_range_words (row);
  g_autoptr (GPtrArray) notes = g_ptr_array_new_with_free_func (g_free);
  const char *const list_mark = row->type == LMT_OPTION_TYPE_STRINGS ? "repeatable" : NULL;

  if (row->type == LMT_OPTION_TYPE_CHOICE)
    {
      g_auto (GStrv) words = g_strsplit (row->range, "|", -1);
      g_ptr_array_add (notes, g_strjoinv (", ", words));
    }
  else if (*range != '\0')
    g_ptr_array_add (notes, g_strdup (g_str_has_prefix (range, "of ") ? range + 3 : range));
  if (list_mark != NULL)
    g_ptr_array_add (notes, g_strdup (list_mark));
  if ((row->flags & LMT_OPTION_REQUIRED) != 0)
    g_ptr_array_add (notes, g_strdup ("required"));
  if (row->type == LMT_OPTION_TYPE_BOOL)
    {
      if (g_strcmp0 (row->default_text, "true") == 0)
        g_ptr_array_add (notes, g_strdup ("default on"));
    }
  else if (row->default_text != NULL && *row->default_text != '\0')
    g_ptr_array_add (notes, g_strdup_printf ("default %s", row->default_text));
  if ((row->flags & LMT_OPTION_NO_EFFECT) != 0)
    g_ptr_array_add (notes, g_strdup ("no effect here"));

  for (guint i = 0; i < notes->len; i++)
    g_string_append_printf (out, "%s%s%s", i == 0 ? " (" : "; ", (const char *)g_ptr_array_index (notes, i),
                            i + 1 == notes->len ? ")" : "");
  return g_string_free (out, FALSE);
}

void
lmt_help_append_wrapped (GString *out, const char *text, guint indent, guint column)
{
  g_auto (GStrv) words = g_strsplit (text, " ", -1);
  gboolean first = TRUE;

  for (guint i = 0; words[i] != NULL; i++)
    {
      const guint width = (guint)g_utf8_strlen (words[i], -1);
      if (!first && column + 1 + width > HELP_WIDTH)
        {
          g_string_append_printf (out, "\n%*s", (int)indent, "");
          column = indent;
          first = TRUE;
        }
      if (!first)
        {
          g_string_append_c (out, ' ');
          column++;
        }
      g_string_append (out, words[i]);
      column += width;
      first = FALSE;
    }
  g_string_append_c (out, '\n');
}

static void
help_append_row (GString *out, const LmtOption *row)
{
  g_autofree char *spelling = lmt_option_spelling (row);
  g_autofree char *explanation = lmt_option_explanation (row);
  /* Long names stand in line whether or not there is a short one. */
  const guint indent = row->short_name != 0 ? 2 : 6;
  const guint width = indent + (guint)g_utf8_strlen (spelling, -1);

  g_string_append_printf (out, "%*s%s", (int)indent, "", spelling);
  if (width + 2 > HELP_COLUMN)
    g_string_append_printf (out, "\n%*s", HELP_COLUMN, "");
  else
    g_string_append_printf (out, "%*s", (int)(HELP_COLUMN - width), "");
  lmt_help_append_wrapped (out, explanation, HELP_COLUMN, HELP_COLUMN);
}

const char *
lmt_option_group (const LmtOption *row)
{
  if (row->group != NULL)
    return row->group;
  return (row->flags & LMT_OPTION_GLOBAL) != 0 ? "Global options" : "Options";
}

char *
lmt_options_help (const LmtOptions *options)
{
  g_return_val_if_fail (options != NULL, NULL);

  GString *const out = g_string_new (NULL);
  g_autoptr (GPtrArray) groups = g_ptr_array_new ();
  for (guint pass = 0; pass < 2; pass++) /* what every command has comes last */
    for (guint i = 0; i < options->slots->len; i++)
      {
        const LmtOption *const row = ((const OptionSlot *)g_ptr_array_index (options->slots, i))->row;
        const char *const group = lmt_option_group (row);
        const gboolean global = (row->flags & LMT_OPTION_GLOBAL) != 0;
        if ((row->flags & LMT_OPTION_HIDDEN) == 0 && global == (pass == 1)
            && !g_ptr_array_find_with_equal_func (groups, group, g_str_equal, NULL))
          g_ptr_array_add (groups, (gpointer)group);
      }

  for (guint g = 0; g < groups->len; g++)
    {
      const char *const group = g_ptr_array_index (groups, g);
      g_string_append_printf (out, "%s%s:\n", g == 0 ? "" : "\n", group);
      for (guint i = 0; i < options->slots->len; i++)
        {
          const LmtOption *const row = ((const OptionSlot *)g_ptr_array_index (options->slots, i))->row;
          if ((row->flags & LMT_OPTION_HIDDEN) == 0 && g_str_equal (lmt_option_group (row), group))
            help_append_row (out, row);
        }
    }
  return g_string_free (out, FALSE);
}
