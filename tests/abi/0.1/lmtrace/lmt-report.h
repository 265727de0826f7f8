/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "lmt-json.h"

G_BEGIN_DECLS

/**
 * LmtReport: title and sections of entries, printed as a table, as JSON or as CSV: one description gives all three. Built once at
 * the end of a run. A command makes one and hands it to lmt_output_report(); a level adds sections to the one it is given.
 *
 * Threads: one. Lifetime: sections are borrowed and live as long as the report. All texts are copied. @key: of the JSON object,
 * `[a-z][a-z0-9_]*` with the unit in it (`used_bytes`, `wait_ms`); @label: of the table, unit in parentheses (`Wait (ms)`); a
 * NULL key is left out of JSON, a NULL label out of the table. Numbers that aren't finite are null in JSON
 * Source: the tables of LMCache's `trace` commands, 64 columns.
 *
 * Since: 0.1
 */
typedef struct _LmtReport LmtReport;
typedef struct _LmtSection LmtSection;

enum
{
  LMT_REPORT_WIDTH = 64
};

LmtReport *lmt_report_new (const char *title, guint width);
void lmt_report_free (LmtReport *report);
const char *lmt_report_get_title (const LmtReport *report);

/* @key NULL: entries stand directly in `metrics`. @label NULL: no line. @text FALSE: in JSON only; LMT_SECTION_TEXT_ONLY: JSON
 * has the same in another form. */
enum
{
  LMT_SECTION_TEXT_ONLY = 2
};
LmtSection *lmt_report_add_section (LmtReport *report, const char *key, const char *label, gboolean text);
/* The section of that key, or a new one at the end: for what core and a level both have rows for ("status"). */
LmtSection *lmt_report_ensure_section (LmtReport *report, const char *key, const char *label);
void lmt_section_add_int (LmtSection *section, const char *key, const char *label, gint64 value);
void lmt_section_add_double (LmtSection *section, const char *key, const char *label, double value); /* text %.2f */
/* Latencies and durations (cli.md 1.2): rounded to three decimals, which is what JSON shows; text rounds that again to two. */
void lmt_section_add_rounded (LmtSection *section, const char *key, const char *label, double value);
void lmt_section_add_string (LmtSection *section, const char *key, const char *label, const char *value); /* NULL: N/A, null */
void lmt_section_add_bool (LmtSection *section, const char *key, const char *label, gboolean value);
/* Bytes: text `113246208 (108.0 MiB)`, JSON the number. */
void lmt_section_add_size (LmtSection *section, const char *key, const char *label, guint64 bytes);
/* In JSON only: @json_text is a JSON value. */
void lmt_section_add_json (LmtSection *section, const char *key, const char *json_text);
/* A table in place of entries: columns by name, rows of texts (NULL: missing). JSON: list of objects; `%` in front of a column's
 * name makes it numeric (right aligned, JSON number). */
LmtSection *lmt_report_add_table (LmtReport *report, const char *key, const char *label, const char *const *columns);
void lmt_section_add_row (LmtSection *table, const char *const *cells);
/* A line under the last section, in text only; a line that stands there already isn't added again. */
void lmt_report_add_foot (LmtReport *report, const char *line);

char *lmt_report_to_text (const LmtReport *report); /* (transfer full) */
/* For commands without a CSV form of their own: `section,row,key,value`, lines end in CR LF. (transfer full) */
char *lmt_report_to_csv (const LmtReport *report);
void lmt_report_write_metrics (const LmtReport *report, LmtJsonWriter *writer); /* the object behind "metrics" */

/* One field of CSV: quoted only if it must be. */
void lmt_csv_append (GString *out, const char *field);

/* Code points of a text, as the renderer counts width. */
guint lmt_text_width (const char *text);
/* `%.3f` -> strtod -> `%.2f` in the C locale. @buffer of 64 bytes. */
const char *lmt_format_rounded (double value, char buffer[64]);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LmtReport, lmt_report_free)

G_END_DECLS
