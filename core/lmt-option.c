/* SPDX-License-Identifier: Apache-2.0 */
#include "lmt-option.h"

#include <string.h>

#include "lmt-json.h"
#include "lmt-option-private.h"

/* A number of any kind, to compare with the ends of a range. */
typedef struct
{
  guint32 type;
  gint64 i;
  guint64 u;
  double d;
} OptionNumber;

LmtOptions *
lmt_options_new (void)
{
  LmtOptions *const options = g_new0 (LmtOptions, 1);
  options->slots = g_ptr_array_new ();
  options->by_name = g_hash_table_new (g_str_hash, g_str_equal);
  options->strings = g_ptr_array_new_with_free_func (g_free);
  return options;
}

void
lmt_options_free (LmtOptions *options)
{
  if (options == NULL)
    return;
  for (guint i = 0; i < options->slots->len; i++)
    {
      OptionSlot *const slot = g_ptr_array_index (options->slots, i);
      g_free (slot->text);
      g_clear_pointer (&slot->list, g_ptr_array_unref);
      g_free (slot);
    }
  g_ptr_array_unref (options->slots);
  g_hash_table_unref (options->by_name);
  g_ptr_array_unref (options->strings);
  g_free (options);
}

OptionSlot *
lmt_options_find_slot (const LmtOptions *options, const char *name)
{
  return g_hash_table_lookup (options->by_name, name);
}

static gboolean
option_parse_number (guint32 type, const char *text, OptionNumber *number)
{
  number->type = type;
  switch (type)
    {
    case LMT_OPTION_TYPE_INT:
      return lmt_parse_int (text, &number->i, NULL);
    case LMT_OPTION_TYPE_DURATION:
      return lmt_parse_duration (text, &number->i, NULL);
    case LMT_OPTION_TYPE_UINT:
      return lmt_parse_uint (text, &number->u, NULL);
    case LMT_OPTION_TYPE_SIZE:
      return lmt_parse_size (text, FALSE, &number->u, NULL);
    case LMT_OPTION_TYPE_COUNT:
      return lmt_parse_count (text, &number->u, NULL);
    case LMT_OPTION_TYPE_DOUBLE:
      return lmt_parse_double (text, &number->d, NULL);
    case LMT_OPTION_TYPE_FRACTION:
      return lmt_parse_fraction (text, &number->d, NULL);
    default:
      return FALSE;
    }
}

static int
option_compare_numbers (const OptionNumber *a, const OptionNumber *b)
{
  switch (a->type)
    {
    case LMT_OPTION_TYPE_INT:
    case LMT_OPTION_TYPE_DURATION:
      return (a->i > b->i) - (a->i < b->i);
    case LMT_OPTION_TYPE_UINT:
    case LMT_OPTION_TYPE_SIZE:
    case LMT_OPTION_TYPE_COUNT:
      return (a->u > b->u) - (a->u < b->u);
    default:
      return (a->d > b->d) - (a->d < b->d);
    }
}

/* A range as its two texts ("" = open) and whether each end itself is in it. */
typedef struct
{
  char *low;
  char *high;
  gboolean low_in;
  gboolean high_in;
} OptionRange;

static gboolean
option_split_range (const char *range, OptionRange *out)
{
  const char *const dots = range == NULL ? NULL : strstr (range, "..");
  if (dots == NULL)
    return FALSE;

  const char *low = range;
  const char *high = dots + 2;
  gsize high_len = strlen (high);
  out->low_in = *low != '(';
  if (*low == '(' || *low == '[')
    low++;
  out->high_in = high_len == 0 || high[high_len - 1] != ')';
  if (high_len > 0 && (high[high_len - 1] == ')' || high[high_len - 1] == ']'))
    high_len--;
  out->low = g_strndup (low, (gsize)(dots - low));
  out->high = g_strndup (high, high_len);
  return TRUE;
}

static void
option_range_clear (OptionRange *range)
{
  g_free (range->low);
  g_free (range->high);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (OptionRange, option_range_clear)

static gboolean
option_number_in_range (const LmtOption *row, const OptionNumber *number)
{
  g_auto (OptionRange) range = { 0 };
  OptionNumber end = { 0 };

  if (!option_split_range (row->range, &range))
    return TRUE;
  if (*range.low != '\0')
    {
      g_return_val_if_fail (option_parse_number (row->type, range.low, &end), FALSE);
      const int order = option_compare_numbers (number, &end);
      if (order < 0 || (order == 0 && !range.low_in))
        return FALSE;
    }
  if (*range.high != '\0')
    {
      g_return_val_if_fail (option_parse_number (row->type, range.high, &end), FALSE);
      const int order = option_compare_numbers (number, &end);
      if (order > 0 || (order == 0 && !range.high_in))
        return FALSE;
    }
  return TRUE;
}

char *
lmt_option_range_words (const LmtOption *row)
{
  g_auto (OptionRange) range = { 0 };

  if (row->type == LMT_OPTION_TYPE_CHOICE || !option_split_range (row->range, &range))
    return g_strdup ("");
  const gboolean low = *range.low != '\0';
  const gboolean high = *range.high != '\0';
  if (low && high && range.low_in && range.high_in)
    return g_strdup_printf ("from %s to %s", range.low, range.high);
  GString *const out = g_string_new (NULL);
  if (low)
    g_string_append_printf (out, "%s %s", range.low_in ? "of at least" : "above", range.low);
  if (low && high)
    g_string_append (out, " and ");
  if (high)
    g_string_append_printf (out, "%s%s %s", low || !range.high_in ? "" : "of ", range.high_in ? "at most" : "below", range.high);
  return g_string_free (out, FALSE);
}

char *
lmt_option_expected (const LmtOption *row)
{
  if (row->type == LMT_OPTION_TYPE_CHOICE)
    {
      g_auto (GStrv) words = g_strsplit (row->range, "|", -1);
      g_autofree char *list = g_strjoinv (", ", words);
      return g_strdup_printf ("one of %s", list);
    }
  if (row->type == LMT_OPTION_TYPE_STRING || row->type == LMT_OPTION_TYPE_STRINGS || row->type == LMT_OPTION_TYPE_OPT_STRING)
    return g_strdup (g_strcmp0 (row->range, "nonempty") == 0 ? "a text that is not empty" : "a text");
  g_autofree char *range = lmt_option_range_words (row);
  const char *const form = lmt_option_form (row->type);
  return *range == '\0' ? g_strdup (form) : g_strdup_printf ("%s %s", form, range);
}

static gpointer
option_member (const OptionSlot *slot)
{
  return (char *)slot->config + slot->row->offset;
}

static void
option_store_number (const OptionSlot *slot, const OptionNumber *number)
{
  switch (slot->row->type)
    {
    case LMT_OPTION_TYPE_INT:
    case LMT_OPTION_TYPE_DURATION:
      *(gint64 *)option_member (slot) = number->i;
      return;
    case LMT_OPTION_TYPE_UINT:
    case LMT_OPTION_TYPE_SIZE:
    case LMT_OPTION_TYPE_COUNT:
      *(guint64 *)option_member (slot) = number->u;
      return;
    default:
      *(double *)option_member (slot) = number->d;
    }
}

static gboolean
option_word_in_list (const char *word, const char *list)
{
  const gsize len = strlen (word);
  for (const char *p = list; p != NULL;)
    {
      const char *const bar = strchr (p, '|');
      const gsize n = bar == NULL ? strlen (p) : (gsize)(bar - p);
      if (n == len && memcmp (p, word, n) == 0)
        return TRUE;
      p = bar == NULL ? NULL : bar + 1;
    }
  return FALSE;
}

static gboolean
option_text_fits (const LmtOption *row, const char *text)
{
  switch (row->type)
    {
    case LMT_OPTION_TYPE_CHOICE:
      return *text != '\0' && option_word_in_list (text, row->range);
    case LMT_OPTION_TYPE_RANGE:
      return strstr (text, "..") != NULL;
    case LMT_OPTION_TYPE_JSON:
      {
        g_autoptr (LmtJson) json = lmt_json_parse (text, -1, NULL);
        return json != NULL;
      }
    default:
      return *text != '\0' || g_strcmp0 (row->range, "nonempty") != 0;
    }
}

static void
option_slot_clear (OptionSlot *slot)
{
  const LmtOption *const row = slot->row;
  const OptionNumber zero = { 0 };

  switch (row->type)
    {
    case LMT_OPTION_TYPE_BOOL:
      *(guint32 *)option_member (slot) = 0;
      break;
    case LMT_OPTION_TYPE_STRINGS:
      g_clear_pointer (&slot->list, g_ptr_array_unref);
      *(char ***)option_member (slot) = NULL;
      break;
    case LMT_OPTION_TYPE_STRING:
    case LMT_OPTION_TYPE_CHOICE:
    case LMT_OPTION_TYPE_RANGE:
    case LMT_OPTION_TYPE_JSON:
    case LMT_OPTION_TYPE_OPT_STRING:
      *(char **)option_member (slot) = NULL;
      break;
    default:
      option_store_number (slot, &zero);
    }
  g_clear_pointer (&slot->text, g_free);
  slot->origin = LMT_ORIGIN_DEFAULT;
  slot->provisional = FALSE;
}

static char *
option_keep (LmtOptions *options, const char *text)
{
  char *const copy = g_strdup (text);
  g_ptr_array_add (options->strings, copy);
  return copy;
}

static void
option_append (LmtOptions *options, OptionSlot *slot, const char *text)
{
  if (slot->list == NULL)
    slot->list = g_ptr_array_new ();
  else
    g_ptr_array_set_size (slot->list, (gint)slot->list->len - 1); /* the NULL */
  g_ptr_array_add (slot->list, option_keep (options, text));
  g_ptr_array_add (slot->list, NULL);
  *(char ***)option_member (slot) = (char **)slot->list->pdata;

  g_free (slot->text);
  slot->text = g_strjoinv (";", (char **)slot->list->pdata);
}

static gboolean
option_set_bool (OptionSlot *slot, const char *text)
{
  guint32 *const member = option_member (slot);
  guint64 count = 0;

  if (strcmp (text, "true") == 0)
    *member = (slot->row->flags & LMT_OPTION_COUNTED) != 0 ? *member + 1 : 1;
  else if (strcmp (text, "false") == 0)
    *member = 0;
  else if ((slot->row->flags & LMT_OPTION_COUNTED) != 0 && lmt_parse_uint (text, &count, NULL) && count <= 100)
    *member = (guint32)count;
  else
    return FALSE;
  return TRUE;
}

gboolean
lmt_option_slot_set (LmtOptions *options, OptionSlot *slot, const char *text, LmtOrigin origin)
{
  const LmtOption *const row = slot->row;
  const gboolean lower = slot->origin > origin;
  OptionNumber number = { 0 };

  switch (row->type)
    {
    case LMT_OPTION_TYPE_BOOL:
      {
        const guint32 before = *(guint32 *)option_member (slot);
        if (slot->origin < origin)
          *(guint32 *)option_member (slot) = 0;
        if (!option_set_bool (slot, text))
          {
            *(guint32 *)option_member (slot) = before;
            return FALSE;
          }
        if (lower)
          *(guint32 *)option_member (slot) = before;
        break;
      }
    case LMT_OPTION_TYPE_STRINGS:
      if (!option_text_fits (row, text))
        return FALSE;
      if (lower)
        return TRUE;
      if (slot->origin != origin)
        option_slot_clear (slot);
      option_append (options, slot, text);
      slot->origin = origin;
      return TRUE;
    case LMT_OPTION_TYPE_STRING:
    case LMT_OPTION_TYPE_CHOICE:
    case LMT_OPTION_TYPE_RANGE:
    case LMT_OPTION_TYPE_JSON:
    case LMT_OPTION_TYPE_OPT_STRING:
      if (!option_text_fits (row, text))
        return FALSE;
      if (!lower)
        *(char **)option_member (slot) = option_keep (options, text);
      break;
    default:
      if (!option_parse_number (row->type, text, &number) || !option_number_in_range (row, &number))
        return FALSE;
      if (!lower)
        option_store_number (slot, &number);
    }
  if (lower)
    return TRUE;
  slot->origin = origin;
  g_free (slot->text);
  slot->text
      = (row->flags & LMT_OPTION_COUNTED) != 0 ? g_strdup_printf ("%u", *(guint32 *)option_member (slot)) : g_strdup (text);
  return TRUE;
}

static void
option_slot_reset (LmtOptions *options, OptionSlot *slot)
{
  const LmtOption *const row = slot->row;

  option_slot_clear (slot);
  if (row->default_text == NULL)
    return;
  if (row->type == LMT_OPTION_TYPE_STRINGS)
    {
      g_auto (GStrv) words = g_strsplit (row->default_text, ";", -1);
      for (guint i = 0; words[i] != NULL; i++)
        option_append (options, slot, words[i]);
      return;
    }
  if (!lmt_option_slot_set (options, slot, row->default_text, LMT_ORIGIN_DEFAULT))
    {
      /* A default outside the range the user may give (0 = none) is fine as long as it is a value of the type. */
      OptionNumber number = { 0 };
      if (option_parse_number (row->type, row->default_text, &number))
        option_store_number (slot, &number);
      else if (row->type != LMT_OPTION_TYPE_BOOL)
        *(char **)option_member (slot) = option_keep (options, row->default_text);
      slot->text = g_strdup (row->default_text);
    }
}

void
lmt_options_add_table (LmtOptions *options, const LmtOption *table, gpointer config)
{
  g_return_if_fail (options != NULL);

  for (const LmtOption *row = table; row != NULL && row->name != NULL; row++)
    {
      if (lmt_options_find_slot (options, row->name) != NULL)
        {
          g_critical ("Option in two tables: name=\"%s\"", row->name);
          continue;
        }
      OptionSlot *const slot = g_new0 (OptionSlot, 1);
      slot->row = row;
      slot->config = config;
      g_ptr_array_add (options->slots, slot);
      g_hash_table_insert (options->by_name, (gpointer)row->name, slot);
      option_slot_reset (options, slot);
    }
}

gboolean
lmt_options_set (LmtOptions *options, const char *name, const char *text, LmtOrigin origin, GError **error)
{
  g_return_val_if_fail (options != NULL && name != NULL && text != NULL, FALSE);

  OptionSlot *const slot = lmt_options_find_slot (options, name);
  if (slot == NULL)
    {
      g_set_error (error, LMT_ERROR, LMT_ERROR_OPTION, "--%s: unknown option", name);
      return FALSE;
    }
  if (lmt_option_slot_set (options, slot, text, origin))
    return TRUE;
  g_autofree char *expected = lmt_option_expected (slot->row);
  g_set_error (error, LMT_ERROR, LMT_ERROR_OPTION, "--%s: expected %s, found \"%s\"", name, expected, text);
  return FALSE;
}

LmtOrigin
lmt_options_get_origin (const LmtOptions *options, const char *name)
{
  const OptionSlot *const slot = lmt_options_find_slot (options, name);
  return slot == NULL ? LMT_ORIGIN_DEFAULT : slot->origin;
}

gboolean
lmt_options_is_set (const LmtOptions *options, const char *name)
{
  return lmt_options_get_origin (options, name) != LMT_ORIGIN_DEFAULT;
}

const LmtOption *
lmt_options_find (const LmtOptions *options, const char *name)
{
  const OptionSlot *const slot = lmt_options_find_slot (options, name);
  return slot == NULL ? NULL : slot->row;
}

char *
lmt_options_get_text (const LmtOptions *options, const char *name)
{
  const OptionSlot *const slot = lmt_options_find_slot (options, name);
  if (slot == NULL || slot->text == NULL)
    return NULL;
  if ((slot->row->flags & LMT_OPTION_SECRET) != 0)
    return g_strdup ("(not shown)");
  return g_strdup (slot->text);
}

void
lmt_options_foreach (const LmtOptions *options, void (*func) (const LmtOption *option, gpointer data), gpointer data)
{
  for (guint i = 0; i < options->slots->len; i++)
    func (((const OptionSlot *)g_ptr_array_index (options->slots, i))->row, data);
}

static gboolean
option_has_default_value (const OptionSlot *slot)
{
  const LmtOption *const row = slot->row;
  OptionNumber given = { 0 };
  OptionNumber usual = { 0 };

  if (slot->origin == LMT_ORIGIN_DEFAULT)
    return TRUE;
  if (row->type == LMT_OPTION_TYPE_BOOL)
    return (*(guint32 *)option_member (slot) != 0) == (g_strcmp0 (row->default_text, "true") == 0);
  if (row->type != LMT_OPTION_TYPE_STRINGS && row->default_text != NULL && option_parse_number (row->type, slot->text, &given)
      && option_parse_number (row->type, row->default_text, &usual))
    return option_compare_numbers (&given, &usual) == 0;
  return g_strcmp0 (slot->text, row->default_text == NULL ? "" : row->default_text) == 0;
}

void
lmt_options_warn_no_effect (const LmtOptions *options, LmtWarnings *warnings)
{
  for (guint i = 0; i < options->slots->len; i++)
    {
      const OptionSlot *const slot = g_ptr_array_index (options->slots, i);
      const guint32 flags = slot->row->flags;
      if ((flags & LMT_OPTION_NO_EFFECT) == 0 || (flags & LMT_OPTION_SILENT) != 0 || option_has_default_value (slot))
        continue;
      g_autofree char *line = g_strdup_printf ("--%s: accepted for LMCache's sake, has no effect here", slot->row->name);
      lmt_warnings_add (warnings, "no-effect", line);
    }
}

gboolean
lmt_options_check_required (const LmtOptions *options, GError **error)
{
  for (guint i = 0; i < options->slots->len; i++)
    {
      const OptionSlot *const slot = g_ptr_array_index (options->slots, i);
      if ((slot->row->flags & LMT_OPTION_REQUIRED) == 0 || slot->origin != LMT_ORIGIN_DEFAULT)
        continue;
      g_autofree char *expected = lmt_option_expected (slot->row);
      g_set_error (error, LMT_ERROR, LMT_ERROR_OPTION, "--%s: expected %s, found nothing: the option is required",
                   slot->row->name, expected);
      return FALSE;
    }
  return TRUE;
}

void
lmt_options_forget_first_pass (LmtOptions *options)
{
  for (guint i = 0; i < options->slots->len; i++)
    {
      OptionSlot *const slot = g_ptr_array_index (options->slots, i);
      if (slot->provisional)
        option_slot_reset (options, slot);
    }
}
