/* SPDX-License-Identifier: Apache-2.0 */
#include "lmt-report.h"

#include "lmt-option.h"

#include <string.h>

typedef struct
{
  char *key;
  char *label;
  char *text; /* NULL: in JSON only */
  char *json; /* a JSON value */
} ReportEntry;

struct _LmtSection
{
  char *key;
  char *label;
  gboolean text;
  GPtrArray *entries; /* ReportEntry */
  char **columns;     /* NULL: entries; else a table */
  GPtrArray *rows;    /* char ** */
};

struct _LmtReport
{
  char *title;
  guint width;
  GPtrArray *sections;
  GPtrArray *feet;
};

static void
report_entry_free (gpointer data)
{
  ReportEntry *const entry = data;
  g_free (entry->key);
  g_free (entry->label);
  g_free (entry->text);
  g_free (entry->json);
  g_free (entry);
}

/* Not g_strfreev(): a cell may be missing. */
static void
report_row_free (gpointer data)
{
  g_ptr_array_unref (data);
}

static void
report_section_free (gpointer data)
{
  LmtSection *const section = data;
  g_free (section->key);
  g_free (section->label);
  g_ptr_array_unref (section->entries);
  g_strfreev (section->columns);
  g_clear_pointer (&section->rows, g_ptr_array_unref);
  g_free (section);
}

LmtReport *
lmt_report_new (const char *title, guint width)
{
  g_return_val_if_fail (title != NULL, NULL);

  LmtReport *const report = g_new0 (LmtReport, 1);
  report->title = g_strdup (title);
  report->width = width;
  report->sections = g_ptr_array_new_with_free_func (report_section_free);
  report->feet = g_ptr_array_new_with_free_func (g_free);
  return report;
}

void
lmt_report_free (LmtReport *report)
{
  if (report == NULL)
    return;
  g_free (report->title);
  g_ptr_array_unref (report->sections);
  g_ptr_array_unref (report->feet);
  g_free (report);
}

const char *
lmt_report_get_title (const LmtReport *report)
{
  return report->title;
}

LmtSection *
lmt_report_add_section (LmtReport *report, const char *key, const char *label, gboolean text)
{
  g_return_val_if_fail (report != NULL, NULL);

  LmtSection *const section = g_new0 (LmtSection, 1);
  section->key = g_strdup (key);
  section->label = g_strdup (label);
  section->text = text;
  section->entries = g_ptr_array_new_with_free_func (report_entry_free);
  g_ptr_array_add (report->sections, section);
  return section;
}

LmtSection *
lmt_report_ensure_section (LmtReport *report, const char *key, const char *label)
{
  g_return_val_if_fail (report != NULL && key != NULL, NULL);

  for (guint i = 0; i < report->sections->len; i++)
    {
      LmtSection *const section = report->sections->pdata[i];
      if (g_strcmp0 (section->key, key) == 0)
        return section;
    }
  return lmt_report_add_section (report, key, label, TRUE);
}

LmtSection *
lmt_report_add_table (LmtReport *report, const char *key, const char *label, const char *const *columns)
{
  g_return_val_if_fail (report != NULL && columns != NULL && columns[0] != NULL, NULL);

  LmtSection *const section = lmt_report_add_section (report, key, label, TRUE);
  section->columns = g_strdupv ((char **)columns);
  section->rows = g_ptr_array_new_with_free_func (report_row_free);
  return section;
}

void
lmt_section_add_row (LmtSection *table, const char *const *cells)
{
  g_return_if_fail (table != NULL && table->columns != NULL && cells != NULL);

  GPtrArray *const row = g_ptr_array_new_with_free_func (g_free);
  for (guint i = 0; table->columns[i] != NULL; i++)
    g_ptr_array_add (row, g_strdup (cells[i]));
  g_ptr_array_add (table->rows, row);
}

void
lmt_report_add_foot (LmtReport *report, const char *line)
{
  for (guint i = 0; i < report->feet->len; i++)
    if (strcmp (report->feet->pdata[i], line) == 0)
      return;
  g_ptr_array_add (report->feet, g_strdup (line));
}

/* Takes @text and @json. */
static void
report_add_entry (LmtSection *section, const char *key, const char *label, char *text, char *json)
{
  ReportEntry *const entry = g_new0 (ReportEntry, 1);
  entry->key = g_strdup (key);
  entry->label = g_strdup (label == NULL ? key : label);
  entry->text = text;
  entry->json = json;
  g_ptr_array_add (section->entries, entry);
}

void
lmt_section_add_int (LmtSection *section, const char *key, const char *label, gint64 value)
{
  g_return_if_fail (section != NULL && key != NULL);
  report_add_entry (section, key, label, g_strdup_printf ("%" G_GINT64_FORMAT, value),
                    g_strdup_printf ("%" G_GINT64_FORMAT, value));
}

void
lmt_section_add_double (LmtSection *section, const char *key, const char *label, double value)
{
  char text[400];
  char json[32];

  g_return_if_fail (section != NULL && key != NULL);
  g_ascii_formatd (text, sizeof text, "%.2f", value);
  report_add_entry (section, key, label, g_strdup (text), g_strdup (lmt_json_format_double (value, json)));
}

void
lmt_section_add_rounded (LmtSection *section, const char *key, const char *label, double value)
{
  char text[400];
  char json[32];

  g_return_if_fail (section != NULL && key != NULL);
  g_ascii_formatd (text, sizeof text, "%.3f", value);
  const double thousandths = g_ascii_strtod (text, NULL);
  g_ascii_formatd (text, sizeof text, "%.2f", thousandths);
  report_add_entry (section, key, label, g_strdup (text), g_strdup (lmt_json_format_double (thousandths, json)));
}

static char *
report_quote (const char *value)
{
  GString *const out = g_string_new ("\"");
  lmt_json_append_escaped (out, value, strlen (value));
  g_string_append_c (out, '"');
  return g_string_free (out, FALSE);
}

void
lmt_section_add_string (LmtSection *section, const char *key, const char *label, const char *value)
{
  g_return_if_fail (section != NULL && key != NULL);
  if (value == NULL)
    report_add_entry (section, key, label, g_strdup ("N/A"), g_strdup ("null"));
  else
    report_add_entry (section, key, label, g_utf8_make_valid (value, -1), report_quote (value));
}

void
lmt_section_add_bool (LmtSection *section, const char *key, const char *label, gboolean value)
{
  g_return_if_fail (section != NULL && key != NULL);
  report_add_entry (section, key, label, g_strdup (value ? "True" : "False"), g_strdup (value ? "true" : "false"));
}

void
lmt_section_add_size (LmtSection *section, const char *key, const char *label, guint64 bytes)
{
  g_return_if_fail (section != NULL && key != NULL);
  report_add_entry (section, key, label, lmt_format_size (bytes), g_strdup_printf ("%" G_GUINT64_FORMAT, bytes));
}

void
lmt_section_add_json (LmtSection *section, const char *key, const char *json_text)
{
  g_return_if_fail (section != NULL && key != NULL && json_text != NULL);
  report_add_entry (section, key, NULL, NULL, g_strdup (json_text));
}

guint
lmt_text_width (const char *text)
{
  return (guint)g_utf8_strlen (text, -1);
}

const char *
lmt_format_rounded (double value, char buffer[64])
{
  char text[400];

  g_ascii_formatd (text, sizeof text, "%.3f", value);
  g_ascii_formatd (text, sizeof text, "%.2f", g_ascii_strtod (text, NULL));
  g_strlcpy (buffer, text, 64);
  return buffer;
}

static void
report_append_fill (GString *out, guint n, char fill)
{
  while (n-- > 0)
    g_string_append_c (out, fill);
}

/* LMCache pads with str.center(): the odd fill character goes left only if the width is odd too. */
static void
report_append_centred (GString *out, const char *text, guint width, char fill)
{
  const guint len = lmt_text_width (text) + 2;
  const guint pad = len >= width ? 0 : width - len;
  const guint left = pad / 2 + (pad & width & 1);

  report_append_fill (out, left, fill);
  g_string_append_printf (out, " %s ", text);
  report_append_fill (out, pad - left, fill);
  g_string_append_c (out, '\n');
}

static void
report_append_entry (GString *out, const ReportEntry *entry, guint width)
{
  const guint used = lmt_text_width (entry->label) + 1 + lmt_text_width (entry->text);

  g_string_append_printf (out, "%s:", entry->label);
  report_append_fill (out, used + 1 < width ? width - used : 1, ' ');
  g_string_append_printf (out, "%s\n", entry->text);
}

static const char *
report_column_name (const char *column)
{
  return *column == '%' ? column + 1 : column;
}

static void
report_append_cells (GString *out, const LmtSection *table, const char *const *cells, const guint *widths)
{
  for (guint i = 0; table->columns[i] != NULL; i++)
    {
      const char *const cell = cells[i] == NULL ? "" : cells[i];
      const guint pad = widths[i] - lmt_text_width (cell);
      if (i > 0)
        g_string_append (out, "  ");
      if (*table->columns[i] == '%')
        report_append_fill (out, pad, ' ');
      g_string_append (out, cell);
      if (*table->columns[i] != '%')
        report_append_fill (out, pad, ' ');
    }
  while (out->len > 0 && out->str[out->len - 1] == ' ')
    g_string_truncate (out, out->len - 1);
  g_string_append_c (out, '\n');
}

static void
report_append_table (GString *out, const LmtSection *table)
{
  const guint n = g_strv_length (table->columns);
  g_autofree guint *widths = g_new0 (guint, n);
  g_autofree const char **names = g_new0 (const char *, n);
  guint total = 2 * (n - 1);

  for (guint i = 0; i < n; i++)
    {
      names[i] = report_column_name (table->columns[i]);
      widths[i] = lmt_text_width (names[i]);
      for (guint r = 0; r < table->rows->len; r++)
        {
          const GPtrArray *const row = g_ptr_array_index (table->rows, r);
          const char *const cell = row->pdata[i];
          if (cell != NULL)
            widths[i] = MAX (widths[i], lmt_text_width (cell));
        }
      total += widths[i];
    }
  report_append_cells (out, table, names, widths);
  report_append_fill (out, total, '-');
  g_string_append_c (out, '\n');
  for (guint r = 0; r < table->rows->len; r++)
    {
      const GPtrArray *const row = g_ptr_array_index (table->rows, r);
      report_append_cells (out, table, (const char *const *)row->pdata, widths);
    }
  if (table->rows->len == 0)
    g_string_append (out, "(none)\n");
}

char *
lmt_report_to_text (const LmtReport *report)
{
  g_return_val_if_fail (report != NULL, NULL);

  GString *const out = g_string_new (NULL);
  report_append_centred (out, report->title, report->width, '=');
  for (guint i = 0; i < report->sections->len; i++)
    {
      const LmtSection *const section = g_ptr_array_index (report->sections, i);
      if (!section->text)
        continue;
      if (section->label != NULL)
        report_append_centred (out, section->label, report->width, '-');
      if (section->columns != NULL)
        report_append_table (out, section);
      for (guint k = 0; k < section->entries->len; k++)
        {
          const ReportEntry *const entry = g_ptr_array_index (section->entries, k);
          if (entry->text != NULL)
            report_append_entry (out, entry, report->width);
        }
    }
  for (guint i = 0; i < report->feet->len; i++)
    g_string_append_printf (out, "%s\n", (const char *)g_ptr_array_index (report->feet, i));
  report_append_fill (out, report->width, '=');
  g_string_append_c (out, '\n');
  return g_string_free (out, FALSE);
}

static void
report_write_fragment (LmtJsonWriter *writer, const char *json_text)
{
  g_autoptr (LmtJson) json = lmt_json_parse (json_text, -1, NULL);
  g_warn_if_fail (json != NULL);
  lmt_json_writer_value (writer, json);
}

/* Equal keys: the place of the first, the value of the last (two qualnames with one short name). */
static void
report_write_entries (LmtJsonWriter *writer, const LmtSection *section)
{
  g_autoptr (GHashTable) last = g_hash_table_new (g_str_hash, g_str_equal);
  g_autoptr (GHashTable) written = g_hash_table_new (g_str_hash, g_str_equal);

  for (guint i = 0; i < section->entries->len; i++)
    {
      ReportEntry *const entry = g_ptr_array_index (section->entries, i);
      g_hash_table_insert (last, entry->key, entry);
    }
  for (guint i = 0; i < section->entries->len; i++)
    {
      const ReportEntry *const entry = g_ptr_array_index (section->entries, i);
      if (!g_hash_table_add (written, entry->key))
        continue;
      lmt_json_writer_key (writer, entry->key);
      report_write_fragment (writer, ((const ReportEntry *)g_hash_table_lookup (last, entry->key))->json);
    }
}

static void
report_write_cell (LmtJsonWriter *writer, const char *column, const char *cell)
{
  lmt_json_writer_key (writer, report_column_name (column));
  if (cell == NULL)
    {
      lmt_json_writer_null (writer);
      return;
    }
  g_autoptr (LmtJson) number = *column == '%' ? lmt_json_parse (cell, -1, NULL) : NULL;
  const LmtJsonType type = number == NULL ? LMT_JSON_NULL : lmt_json_get_type (number);
  if (type == LMT_JSON_INT || type == LMT_JSON_UINT || type == LMT_JSON_DOUBLE)
    lmt_json_writer_value (writer, number);
  else
    lmt_json_writer_string (writer, cell);
}

static void
report_write_rows (LmtJsonWriter *writer, const LmtSection *table)
{
  lmt_json_writer_begin_array (writer);
  for (guint r = 0; r < table->rows->len; r++)
    {
      const GPtrArray *const row = g_ptr_array_index (table->rows, r);
      lmt_json_writer_begin_object (writer);
      for (guint i = 0; table->columns[i] != NULL; i++)
        report_write_cell (writer, table->columns[i], row->pdata[i]);
      lmt_json_writer_end_object (writer);
    }
  lmt_json_writer_end_array (writer);
}

void
lmt_report_write_metrics (const LmtReport *report, LmtJsonWriter *writer)
{
  g_return_if_fail (report != NULL && writer != NULL);

  lmt_json_writer_begin_object (writer);
  for (guint i = 0; i < report->sections->len; i++)
    {
      const LmtSection *const section = g_ptr_array_index (report->sections, i);
      if (section->text == LMT_SECTION_TEXT_ONLY)
        continue;
      if (section->columns != NULL)
        {
          g_return_if_fail (section->key != NULL);
          lmt_json_writer_key (writer, section->key);
          report_write_rows (writer, section);
        }
      else if (section->key == NULL)
        report_write_entries (writer, section);
      else
        {
          lmt_json_writer_key (writer, section->key);
          lmt_json_writer_begin_object (writer);
          report_write_entries (writer, section);
          lmt_json_writer_end_object (writer);
        }
    }
  lmt_json_writer_end_object (writer);
}

void
lmt_csv_append (GString *out, const char *field)
{
  if (strpbrk (field, ",\"\r\n") == NULL)
    {
      g_string_append (out, field);
      return;
    }
  g_string_append_c (out, '"');
  for (const char *p = field; *p != '\0'; p++)
    {
      if (*p == '"')
        g_string_append_c (out, '"');
      g_string_append_c (out, *p);
    }
  g_string_append_c (out, '"');
}

static void
report_csv_line (GString *out, const char *section, const char *row, const char *key, const char *value)
{
  lmt_csv_append (out, section == NULL ? "" : section);
  g_string_append_c (out, ',');
  lmt_csv_append (out, row);
  g_string_append_c (out, ',');
  lmt_csv_append (out, key);
  g_string_append_c (out, ',');
  lmt_csv_append (out, value == NULL ? "" : value);
  g_string_append (out, "\r\n");
}

char *
lmt_report_to_csv (const LmtReport *report)
{
  g_return_val_if_fail (report != NULL, NULL);

  GString *const out = g_string_new ("section,row,key,value\r\n");
  for (guint i = 0; i < report->sections->len; i++)
    {
      const LmtSection *const section = g_ptr_array_index (report->sections, i);
      for (guint k = 0; k < section->entries->len; k++)
        {
          const ReportEntry *const entry = g_ptr_array_index (section->entries, k);
          g_autoptr (LmtJson) json = lmt_json_parse (entry->json, -1, NULL);
          const gboolean string = json != NULL && lmt_json_get_type (json) == LMT_JSON_STRING;
          const gboolean null = json != NULL && lmt_json_get_type (json) == LMT_JSON_NULL;
          report_csv_line (out, section->key, "", entry->key, null ? NULL : string ? lmt_json_get_string (json) : entry->json);
        }
      for (guint r = 0; section->rows != NULL && r < section->rows->len; r++)
        {
          const GPtrArray *const row = g_ptr_array_index (section->rows, r);
          g_autofree char *number = g_strdup_printf ("%u", r + 1);
          for (guint c = 0; section->columns[c] != NULL; c++)
            report_csv_line (out, section->key, number, report_column_name (section->columns[c]), row->pdata[c]);
        }
    }
  return g_string_free (out, FALSE);
}
