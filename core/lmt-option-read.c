/* SPDX-License-Identifier: Apache-2.0 */
/* Where values come from: the command line, a key file, a JSON object. */
#include "lmt-option.h"

#include <string.h>

#include "lmt-json.h"
#include "lmt-option-private.h"

typedef struct
{
  LmtOptions *options;
  const char *const *argv;
  guint at;
  gboolean strict;
  GPtrArray *operands;
} ArgvReader;

static OptionSlot *
option_find_short (const LmtOptions *options, char letter)
{
  for (guint i = 0; i < options->slots->len; i++)
    {
      OptionSlot *const slot = g_ptr_array_index (options->slots, i);
      if (slot->row->short_name != 0 && slot->row->short_name == (guint32)(guchar)letter)
        return slot;
    }
  return NULL;
}

/* `no-x` of a switch that has both forms. */
static OptionSlot *
option_find_negated (const LmtOptions *options, const char *name)
{
  if (!g_str_has_prefix (name, "no-"))
    return NULL;
  OptionSlot *const slot = lmt_options_find_slot (options, name + 3);
  return slot != NULL && (slot->row->flags & LMT_OPTION_NEGATABLE) != 0 ? slot : NULL;
}

/* All names a user may write, `no-` forms too. (transfer full) */
static GPtrArray *
option_list_names (const LmtOptions *options)
{
  GPtrArray *const names = g_ptr_array_new_with_free_func (g_free);
  for (guint i = 0; i < options->slots->len; i++)
    {
      const OptionSlot *const slot = g_ptr_array_index (options->slots, i);
      if ((slot->row->flags & LMT_OPTION_HIDDEN) != 0)
        continue;
      g_ptr_array_add (names, g_strdup (slot->row->name));
      if ((slot->row->flags & LMT_OPTION_NEGATABLE) != 0)
        g_ptr_array_add (names, g_strconcat ("no-", slot->row->name, NULL));
    }
  return names;
}

static gboolean
option_fail_unknown (const LmtOptions *options, const char *name, GError **error)
{
  g_autoptr (GPtrArray) names = option_list_names (options);
  g_autoptr (GString) meant = g_string_new (NULL);
  guint n_meant = 0;

  for (guint i = 0; i < names->len && *name != '\0'; i++)
    if (g_str_has_prefix (g_ptr_array_index (names, i), name))
      {
        g_string_append_printf (meant, "%s--%s", n_meant++ == 0 ? "" : ", ", (const char *)g_ptr_array_index (names, i));
        if (n_meant == 5)
          break;
      }
  if (n_meant > 0)
    {
      g_set_error (error, LMT_ERROR, LMT_ERROR_OPTION, "--%s: unknown option: abbreviations are not taken: write %s%s", name,
                   n_meant == 1 ? "" : "one of ", meant->str);
      return FALSE;
    }

  g_ptr_array_add (names, NULL);
  const char *const closest = lmt_closest (name, (const char *const *)names->pdata);
  if (closest != NULL)
    g_set_error (error, LMT_ERROR, LMT_ERROR_OPTION, "--%s: unknown option: did you mean --%s?", name, closest);
  else
    g_set_error (error, LMT_ERROR, LMT_ERROR_OPTION, "--%s: unknown option: --help lists the known ones", name);
  return FALSE;
}

static gboolean
option_set_from_line (ArgvReader *reader, OptionSlot *slot, const char *text, GError **error)
{
  if (!lmt_options_set (reader->options, slot->row->name, text, LMT_ORIGIN_COMMAND_LINE, error))
    return FALSE;
  slot->provisional = !reader->strict;
  return TRUE;
}

/* The value behind an option that needs one: the rest of the word or the next word. */
static gboolean
option_take_value (ArgvReader *reader, OptionSlot *slot, const char *attached, GError **error)
{
  if (attached != NULL)
    return option_set_from_line (reader, slot, attached, error);

  const char *const next = reader->argv[reader->at];
  /* `--output --json`: a forgotten value is more likely than a file of that name, which `--output=--json` still gives. */
  if (next == NULL || g_str_has_prefix (next, "--"))
    {
      g_autofree char *expected = lmt_option_expected (slot->row);
      g_set_error (error, LMT_ERROR, LMT_ERROR_OPTION, "--%s: expected %s, found %s%s", slot->row->name, expected,
                   next == NULL ? "the end of the line" : "the option ", next == NULL ? "" : next);
      return FALSE;
    }
  reader->at++;
  return option_set_from_line (reader, slot, next, error);
}

static gboolean
option_read_long (ArgvReader *reader, const char *word, GError **error)
{
  const char *const equals = strchr (word, '=');
  g_autofree char *name = equals == NULL ? g_strdup (word + 2) : g_strndup (word + 2, (gsize)(equals - word - 2));
  const char *const value = equals == NULL ? NULL : equals + 1;

  OptionSlot *slot = lmt_options_find_slot (reader->options, name);
  OptionSlot *const negated = slot != NULL ? NULL : option_find_negated (reader->options, name);
  if (slot == NULL && negated == NULL)
    return reader->strict ? option_fail_unknown (reader->options, name, error) : TRUE;
  if (slot == NULL)
    slot = negated;

  if (slot->row->type == LMT_OPTION_TYPE_BOOL)
    {
      if (value != NULL)
        {
          g_set_error (error, LMT_ERROR, LMT_ERROR_OPTION, "--%s: expected no value, found \"%s\"", name, value);
          return FALSE;
        }
      return option_set_from_line (reader, slot, negated != NULL ? "false" : "true", error);
    }
  if (slot->row->type == LMT_OPTION_TYPE_OPT_STRING)
    return option_set_from_line (reader, slot, value == NULL ? "" : value, error);
  return option_take_value (reader, slot, value, error);
}

static gboolean
option_read_short (ArgvReader *reader, const char *word, GError **error)
{
  for (const char *p = word + 1; *p != '\0'; p++)
    {
      OptionSlot *const slot = option_find_short (reader->options, *p);
      if (slot == NULL)
        {
          if (!reader->strict)
            return TRUE;
          g_set_error (error, LMT_ERROR, LMT_ERROR_OPTION, "%s: unknown option%s", word,
                       g_ascii_isalpha (*p) ? "" : ": a name that begins with '-' stands behind --");
          return FALSE;
        }
      if (slot->row->type == LMT_OPTION_TYPE_BOOL || slot->row->type == LMT_OPTION_TYPE_OPT_STRING)
        {
          if (!option_set_from_line (reader, slot, slot->row->type == LMT_OPTION_TYPE_BOOL ? "true" : "", error))
            return FALSE;
          continue;
        }
      return option_take_value (reader, slot, p[1] == '\0' ? NULL : p + 1, error);
    }
  return TRUE;
}

gboolean
lmt_options_parse_argv (LmtOptions *options, const char *const *argv, gboolean strict, char ***operands, GError **error)
{
  g_return_val_if_fail (options != NULL && argv != NULL, FALSE);

  g_autoptr (GPtrArray) rest = g_ptr_array_new_with_free_func (g_free);
  ArgvReader reader = { .options = options, .argv = argv, .strict = strict, .operands = rest };
  gboolean only_operands = FALSE;

  if (strict)
    lmt_options_forget_first_pass (options);
  while (argv[reader.at] != NULL)
    {
      const char *const word = argv[reader.at++];
      if (only_operands || word[0] != '-' || word[1] == '\0')
        g_ptr_array_add (rest, g_strdup (word));
      else if (strcmp (word, "--") == 0)
        only_operands = TRUE;
      else if (!(word[1] == '-' ? option_read_long (&reader, word, error) : option_read_short (&reader, word, error)))
        return FALSE;
    }
  if (operands != NULL)
    {
      g_ptr_array_add (rest, NULL);
      *operands = (char **)g_ptr_array_free (g_steal_pointer (&rest), FALSE);
    }
  return TRUE;
}

static gboolean
option_set_from_file (LmtOptions *options, GKeyFile *file, const char *section, const char *key, GError **error)
{
  const OptionSlot *const slot = lmt_options_find_slot (options, key);
  if (slot == NULL)
    {
      option_fail_unknown (options, key, error);
      return FALSE;
    }
  if (slot->row->type == LMT_OPTION_TYPE_STRINGS)
    {
      g_auto (GStrv) words = g_key_file_get_string_list (file, section, key, NULL, error);
      for (guint i = 0; words != NULL && words[i] != NULL; i++)
        if (!lmt_options_set (options, key, words[i], LMT_ORIGIN_FILE, error))
          return FALSE;
      return words != NULL;
    }
  g_autofree char *text = g_key_file_get_string (file, section, key, error);
  return text != NULL && lmt_options_set (options, key, text, LMT_ORIGIN_FILE, error);
}

gboolean
lmt_options_parse_key_file (LmtOptions *options, GKeyFile *file, const char *section, const char *path, GError **error)
{
  g_return_val_if_fail (options != NULL && file != NULL && section != NULL, FALSE);

  g_auto (GStrv) keys = g_key_file_get_keys (file, section, NULL, NULL);
  for (guint i = 0; keys != NULL && keys[i] != NULL; i++)
    {
      GError *inner = NULL;
      if (option_set_from_file (options, file, section, keys[i], &inner))
        continue;
      /* GLib's own words (a bad escape) come in its own domain. */
      g_set_error (error, LMT_ERROR, LMT_ERROR_OPTION, "%s: [%s]: %s", path == NULL ? "configuration" : path, section,
                   inner->message);
      g_error_free (inner);
      return FALSE;
    }
  return TRUE;
}

/* Text of a JSON value that lmt_option_slot_set() reads, or NULL if its type is another than the row's. */
static char *
option_text_of_json (const LmtOption *row, const LmtJson *json)
{
  const LmtJsonType type = lmt_json_get_type (json);
  const gboolean integer = type == LMT_JSON_INT || type == LMT_JSON_UINT;

  switch (row->type)
    {
    case LMT_OPTION_TYPE_BOOL:
      return type == LMT_JSON_BOOL ? g_strdup (lmt_json_get_bool (json) ? "true" : "false") : NULL;
    case LMT_OPTION_TYPE_INT:
    case LMT_OPTION_TYPE_UINT:
    case LMT_OPTION_TYPE_SIZE:
    case LMT_OPTION_TYPE_COUNT:
      return integer ? lmt_json_to_text (json, LMT_JSON_STYLE_COMPACT, FALSE) : NULL;
    case LMT_OPTION_TYPE_DOUBLE:
    case LMT_OPTION_TYPE_FRACTION:
      return integer || type == LMT_JSON_DOUBLE ? lmt_json_to_text (json, LMT_JSON_STYLE_COMPACT, FALSE) : NULL;
    case LMT_OPTION_TYPE_DURATION:
      {
        /* Seconds; positional, because a duration knows no exponent. */
        char text[400];
        if (!integer && type != LMT_JSON_DOUBLE)
          return NULL;
        return g_strdup (g_ascii_formatd (text, sizeof text, "%.9f", lmt_json_get_double (json)));
      }
    case LMT_OPTION_TYPE_JSON:
      return lmt_json_to_text (json, LMT_JSON_STYLE_SPACED, FALSE);
    default:
      if (type != LMT_JSON_STRING || strlen (lmt_json_get_string (json)) != lmt_json_get_string_len (json))
        return NULL;
      return g_strdup (lmt_json_get_string (json));
    }
}

static char *
option_found_in_json (const LmtJson *json)
{
  const LmtJsonType type = lmt_json_get_type (json);
  if (type == LMT_JSON_OBJECT || type == LMT_JSON_ARRAY)
    return g_strdup (lmt_json_type_name (json));
  char *const text = lmt_json_to_text (json, LMT_JSON_STYLE_COMPACT, FALSE);
  /* Escaped, so that cutting anywhere leaves good text. */
  if (strlen (text) > 80)
    strcpy (text + 77, "...");
  return text;
}

static char *
option_expected_in_json (const LmtOption *row)
{
  g_autofree char *range = lmt_option_range_words (row);
  const char *form = NULL;

  switch (row->type)
    {
    case LMT_OPTION_TYPE_BOOL:
      form = "a boolean";
      break;
    case LMT_OPTION_TYPE_INT:
    case LMT_OPTION_TYPE_UINT:
    case LMT_OPTION_TYPE_COUNT:
      form = "an integer";
      break;
    case LMT_OPTION_TYPE_SIZE:
      form = "an integer (bytes)";
      break;
    case LMT_OPTION_TYPE_DOUBLE:
    case LMT_OPTION_TYPE_FRACTION:
      form = "a number";
      break;
    case LMT_OPTION_TYPE_DURATION:
      form = "a number (seconds)";
      break;
    case LMT_OPTION_TYPE_STRINGS:
      form = "an array of strings";
      break;
    case LMT_OPTION_TYPE_CHOICE:
    case LMT_OPTION_TYPE_JSON:
      return lmt_option_expected (row);
    default:
      form = g_strcmp0 (row->range, "nonempty") == 0 ? "a non-empty string" : "a string";
    }
  return *range == '\0' ? g_strdup (form) : g_strdup_printf ("%s %s", form, range);
}

static gboolean
option_set_list_from_json (LmtOptions *options, OptionSlot *slot, const LmtJson *json)
{
  if (lmt_json_get_type (json) != LMT_JSON_ARRAY)
    return FALSE;
  for (guint i = 0; i < lmt_json_get_length (json); i++)
    {
      g_autofree char *text = option_text_of_json (slot->row, lmt_json_get_element (json, i));
      if (text == NULL || !lmt_option_slot_set (options, slot, text, LMT_ORIGIN_COMMAND_LINE))
        return FALSE;
    }
  return TRUE;
}

static gboolean
option_set_from_json (LmtOptions *options, OptionSlot *slot, const LmtJson *json)
{
  if (slot->row->type == LMT_OPTION_TYPE_STRINGS)
    return option_set_list_from_json (options, slot, json);
  g_autofree char *text = option_text_of_json (slot->row, json);
  return text != NULL && lmt_option_slot_set (options, slot, text, LMT_ORIGIN_COMMAND_LINE);
}

static gboolean
option_fail_unknown_key (const LmtOptions *options, const char *const *skip, const char *prefix, const char *key, GError **error)
{
  g_autoptr (GPtrArray) names = g_ptr_array_new ();
  for (guint i = 0; i < options->slots->len; i++)
    {
      const OptionSlot *const slot = g_ptr_array_index (options->slots, i);
      if ((slot->row->flags & LMT_OPTION_HIDDEN) == 0)
        g_ptr_array_add (names, (gpointer)slot->row->name);
    }
  for (guint i = 0; skip != NULL && skip[i] != NULL; i++)
    g_ptr_array_add (names, (gpointer)skip[i]);
  g_ptr_array_add (names, NULL);

  g_autofree char *known = g_strjoinv (", ", (char **)names->pdata);
  const char *const closest = lmt_closest (key, (const char *const *)names->pdata);
  g_set_error (error, LMT_ERROR, LMT_ERROR_OPTION, "%s%s: expected one of the keys %s, found an unknown key%s%s%s", prefix, key,
               known, closest == NULL ? "" : ": did you mean '", closest == NULL ? "" : closest, closest == NULL ? "" : "'?");
  return FALSE;
}

static gboolean
option_check_required_keys (const LmtOptions *options, const char *prefix, GError **error)
{
  for (guint i = 0; i < options->slots->len; i++)
    {
      const OptionSlot *const slot = g_ptr_array_index (options->slots, i);
      if ((slot->row->flags & LMT_OPTION_REQUIRED) == 0 || slot->origin != LMT_ORIGIN_DEFAULT)
        continue;
      g_autofree char *expected = option_expected_in_json (slot->row);
      g_set_error (error, LMT_ERROR, LMT_ERROR_OPTION, "%s%s: expected %s, found nothing: the key is required", prefix,
                   slot->row->name, expected);
      return FALSE;
    }
  return TRUE;
}

gboolean
lmt_options_parse_json (LmtOptions *options, const char *object_text, const char *const *skip, const char *prefix, GError **error)
{
  g_return_val_if_fail (options != NULL && object_text != NULL, FALSE);

  g_autofree char *front = prefix == NULL || *prefix == '\0' ? g_strdup ("")
                           : g_str_has_suffix (prefix, " ")  ? g_strdup (prefix)
                                                             : g_strconcat (prefix, ": ", NULL);
  g_autoptr (LmtJson) json = lmt_json_parse (object_text, -1, error);
  if (json == NULL)
    {
      g_prefix_error (error, "%s", front);
      return FALSE;
    }
  if (lmt_json_get_type (json) != LMT_JSON_OBJECT)
    {
      g_set_error (error, LMT_ERROR, LMT_ERROR_OPTION, "%sexpected an object, found %s", front, lmt_json_type_name (json));
      return FALSE;
    }
  const char *const repeated = lmt_json_get_repeated (json);
  if (repeated != NULL)
    {
      g_set_error (error, LMT_ERROR, LMT_ERROR_OPTION, "%s%s: expected the key once, found it twice", front, repeated);
      return FALSE;
    }

  for (guint i = 0; i < lmt_json_get_length (json); i++)
    {
      const char *const key = lmt_json_get_member_name (json, i);
      const LmtJson *const value = lmt_json_get_member_value (json, i);
      if (skip != NULL && g_strv_contains (skip, key))
        continue;
      OptionSlot *const slot = lmt_options_find_slot (options, key);
      if (slot == NULL)
        return option_fail_unknown_key (options, skip, front, key, error);
      if (lmt_json_get_type (value) == LMT_JSON_NULL && (slot->row->flags & LMT_OPTION_NULLABLE) != 0)
        continue;
      if (option_set_from_json (options, slot, value))
        continue;
      g_autofree char *expected = option_expected_in_json (slot->row);
      g_autofree char *found = option_found_in_json (value);
      g_set_error (error, LMT_ERROR, LMT_ERROR_OPTION, "%s%s: expected %s, found %s", front, key, expected, found);
      return FALSE;
    }
  return option_check_required_keys (options, front, error);
}
