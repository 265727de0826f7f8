// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <string.h>

#include "cli-info-keys.h"
#include "cli-info.h"

enum
{
  SERIES_MAX = 10000, /* windows kept one by one; all of them count in the sums */
  TOP_MAX = 1000,     /* as the option's range says */
};

typedef struct
{
  guint64 records;
  guint64 keys;
  guint64 bytes;
} Window;

struct _InfoStats
{
  const InfoConfig *config;
  const LmtLevelOps *level; /* NULL: shows no keys */
  gpointer info;
  double now_s; /* of the record at hand; NaN: not known */

  double window_s;
  guint64 window_number; /* of the open one */
  Window window;
  gboolean window_open;
  GArray *series;
  guint64 windows_busy;
  guint64 sum_keys;
  Window most;

  double last_s;
  guint64 records;
  guint64 undecodable;
  LmtStats *gaps;
  LmtStats *distances; /* keys, not ns */
  LmtStats *times;
  InfoKeys *keys;
  guint64 references;
  guint64 finish_without_reserve;
  guint64 exit_without_enter;
};

InfoStats *
info_stats_new (const InfoConfig *config, double window_s, const LmtLevelOps *level, gpointer info)
{
  InfoStats *stats = g_new0 (InfoStats, 1);

  stats->config = config;
  stats->window_s = window_s;
  stats->level = level != NULL && level->info_visit != NULL ? level : NULL;
  stats->info = info;
  stats->last_s = -1.0;
  stats->gaps = lmt_stats_new ();
  stats->distances = lmt_stats_new ();
  stats->times = lmt_stats_new ();
  stats->series = g_array_new (FALSE, TRUE, sizeof (Window));
  stats->keys = info_keys_new (config->top > 0);
  return stats;
}

void
info_stats_free (InfoStats *stats)
{
  if (stats == NULL)
    return;
  lmt_stats_free (stats->gaps);
  lmt_stats_free (stats->distances);
  lmt_stats_free (stats->times);
  g_array_unref (stats->series);
  info_keys_free (stats->keys);
  g_free (stats);
}

/* -------- records -------- */

static void
close_window (InfoStats *stats)
{
  Window *window = &stats->window;

  if (!stats->window_open)
    return;
  stats->windows_busy++;
  stats->sum_keys += window->keys;
  stats->most.records = MAX (stats->most.records, window->records);
  stats->most.keys = MAX (stats->most.keys, window->keys);
  stats->most.bytes = MAX (stats->most.bytes, window->bytes);
  if (stats->window_number < SERIES_MAX)
    {
      if (stats->series->len <= stats->window_number)
        g_array_set_size (stats->series, (guint)stats->window_number + 1);
      g_array_index (stats->series, Window, stats->window_number) = *window;
    }
  memset (window, 0, sizeof *window);
}

/* Windows only go forward: a step back in time stays in the window it happened in. */
static void
see_time (InfoStats *stats, double t)
{
  guint64 number;

  stats->now_s = (double)NAN;
  if (!lmt_time_is_usable (t))
    return;
  t = MAX (t, 0.0);
  stats->now_s = t;
  if (stats->last_s >= 0.0)
    lmt_stats_add (stats->gaps, (gint64)(MAX (t - stats->last_s, 0.0) * 1e9));
  stats->last_s = t;
  number = (guint64)(t / stats->window_s);
  if (!stats->window_open || number > stats->window_number)
    {
      close_window (stats);
      stats->window_number = number;
      stats->window_open = TRUE;
    }
}

static void
see_reference (InfoStats *stats, InfoKey *key)
{
  gint64 distance = info_keys_reference (stats->keys, key);

  stats->references += info_keys_get_scale (stats->keys);
  if (distance >= 0)
    lmt_stats_add (stats->distances, distance);
  if (stats->now_s >= key->last_s) /* FALSE for the first, and where a time isn't known */
    lmt_stats_add (stats->times, (gint64)((stats->now_s - key->last_s) * 1e9));
  key->last_s = stats->now_s;
}

static void
see_key (gpointer data, guint32 act, const LmtKeyFields *fields, guint64 bytes)
{
  InfoStats *stats = data;
  InfoKey *key = info_keys_touch (stats->keys, fields);
  guint64 scale = info_keys_get_scale (stats->keys);

  if (key == NULL)
    return;
  if (bytes > 0)
    key->bytes = bytes;
  if (key->window != (guint32)stats->window_number)
    {
      key->window = (guint32)stats->window_number;
      stats->window.keys += scale;
      stats->window.bytes += key->bytes * scale;
    }
  switch (act)
    {
    case LMT_INFO_LOOKUP:
      see_reference (stats, key);
      break;
    case LMT_INFO_RESERVE:
      key->open_writes++;
      break;
    case LMT_INFO_FINISH:
    case LMT_INFO_ABORT:
      if (key->open_writes > 0)
        key->open_writes--;
      else
        stats->finish_without_reserve += scale;
      break;
    case LMT_INFO_ENTER:
      key->open_reads++;
      break;
    case LMT_INFO_EXIT:
      if (key->open_reads > 0)
        key->open_reads--;
      else
        stats->exit_without_enter += scale;
      break;
    default:
      break;
    }
}

void
info_stats_record (InfoStats *stats, const LmtRecord *record)
{
  LmtInfoVisitor visitor = { sizeof visitor, 0, see_key, stats };

  stats->records++;
  see_time (stats, record->t_mono);
  stats->window.records++;
  if (stats->level != NULL && !stats->level->info_visit (stats->info, record, &visitor))
    stats->undecodable++;
}

/* -------- sections -------- */

/* A section in both forms: a figure is a line of text and a member of an object. */
typedef struct
{
  GString *text;
  LmtJsonWriter *json;
} Section;

static void
begin (Section *section, const char *name)
{
  g_string_append_printf (section->text, "  %s:\n", name);
  lmt_json_writer_key (section->json, name);
  lmt_json_writer_begin_object (section->json);
}

static void
end (Section *section)
{
  lmt_json_writer_end_object (section->json);
}

static void
add_count (Section *section, const char *name, guint64 value)
{
  char text[24];

  g_snprintf (text, sizeof text, "%" G_GUINT64_FORMAT, value);
  info_text_field (section->text, 4, name, text);
  lmt_json_writer_key (section->json, name);
  lmt_json_writer_uint (section->json, value);
}

static void
add_size (Section *section, const char *name, guint64 value)
{
  g_autofree char *text = lmt_format_size (value);

  info_text_field (section->text, 4, name, text);
  lmt_json_writer_key (section->json, name);
  lmt_json_writer_uint (section->json, value);
}

static void
add_double (Section *section, const char *name, double value)
{
  char text[G_ASCII_DTOSTR_BUF_SIZE];

  info_text_field (section->text, 4, name, g_ascii_formatd (text, sizeof text, "%.3f", value));
  lmt_json_writer_key (section->json, name);
  lmt_json_writer_double (section->json, value);
}

static void
add_word (Section *section, const char *name, const char *value)
{
  info_text_field (section->text, 4, name, value);
  lmt_json_writer_key (section->json, name);
  lmt_json_writer_string (section->json, value);
}

static void
add_time (InfoStats *stats, const LmtReaderStats *reader, Section *section)
{
  begin (section, "time");
  add_double (section, "records_per_s", reader->duration_s > 0 ? (double)stats->records / reader->duration_s : 0.0);
  add_double (section, "gap_p50_ms", (double)lmt_stats_percentile (stats->gaps, 500, LMT_RANK_NEAREST) / 1e6);
  add_double (section, "gap_p99_ms", (double)lmt_stats_percentile (stats->gaps, 990, LMT_RANK_NEAREST) / 1e6);
  add_double (section, "gap_max_ms", (double)lmt_stats_max (stats->gaps) / 1e6);
  add_double (section, "window_s", stats->window_s);
  add_count (section, "windows", stats->window_open ? stats->window_number + 1 : 0);
  add_count (section, "busy_windows", stats->windows_busy);
  add_count (section, "busiest_window_records", stats->most.records);
  add_count (section, "backward_steps", reader->time_backward);
  lmt_json_writer_key (section->json, "series");
  lmt_json_writer_begin_array (section->json);
  for (guint i = 0; i < stats->series->len; i++)
    {
      const Window *window = &g_array_index (stats->series, Window, i);

      lmt_json_writer_begin_object (section->json);
      lmt_json_writer_key (section->json, "start_s");
      lmt_json_writer_double (section->json, i * stats->window_s);
      lmt_json_writer_key (section->json, "records");
      lmt_json_writer_uint (section->json, window->records);
      lmt_json_writer_key (section->json, "keys");
      lmt_json_writer_uint (section->json, window->keys);
      lmt_json_writer_key (section->json, "bytes");
      lmt_json_writer_uint (section->json, window->bytes);
      lmt_json_writer_end_object (section->json);
    }
  lmt_json_writer_end_array (section->json);
  end (section);
}

typedef struct
{
  guint64 scale;
  guint64 sized, bytes, least, most;
  guint64 referenced, again;
  guint64 open_writes, open_reads;
  InfoKey **top;
  guint n_top, max_top;
} Sums;

/* The list of the most referenced is short: insertion keeps it in order. Ties go by text, so that it is the same every time. */
static void
put_top (Sums *sums, InfoKey *key)
{
  guint at = sums->n_top;

  if (sums->max_top == 0 || key->references == 0 || key->text == NULL)
    return;
  while (at > 0
         && (sums->top[at - 1]->references < key->references
             || (sums->top[at - 1]->references == key->references && strcmp (sums->top[at - 1]->text, key->text) > 0)))
    at--;
  if (at == sums->max_top)
    return;
  if (sums->n_top < sums->max_top)
    sums->n_top++;
  memmove (sums->top + at + 1, sums->top + at, (sums->n_top - 1 - at) * sizeof *sums->top);
  sums->top[at] = key;
}

static void
sum_key (InfoKey *key, gpointer data)
{
  Sums *sums = data;

  if (key->bytes > 0)
    {
      sums->least = sums->sized == 0 ? key->bytes : MIN (sums->least, key->bytes);
      sums->most = MAX (sums->most, key->bytes);
      sums->sized += sums->scale;
      sums->bytes += key->bytes * sums->scale;
    }
  sums->referenced += key->references > 0 ? sums->scale : 0;
  sums->again += key->references > 1 ? sums->scale : 0;
  sums->open_writes += (guint64)key->open_writes * sums->scale;
  sums->open_reads += (guint64)key->open_reads * sums->scale;
  put_top (sums, key);
}

static void
add_objects (InfoStats *stats, const Sums *sums, Section *section)
{
  begin (section, "objects");
  add_count (section, "distinct_keys", info_keys_get_count (stats->keys));
  if (sums->scale > 1)
    add_count (section, "sampled_1_of", sums->scale);
  add_size (section, "bytes", sums->bytes);
  add_size (section, "smallest_bytes", sums->least);
  add_size (section, "largest_bytes", sums->most);
  add_size (section, "mean_bytes", sums->sized > 0 ? sums->bytes / sums->sized : 0);
  add_count (section, "keys_without_size", info_keys_get_count (stats->keys) - sums->sized);
  add_count (section, "working_set_max_keys", stats->most.keys);
  add_size (section, "working_set_max_bytes", stats->most.bytes);
  add_double (section, "working_set_mean_keys",
              stats->windows_busy > 0 ? (double)stats->sum_keys / (double)stats->windows_busy : 0.0);
  end (section);
}

static void
add_reuse (InfoStats *stats, const Sums *sums, Section *section)
{
  static const guint per_mille[] = { 500, 900, 990 };

  begin (section, "reuse");
  add_count (section, "references", stats->references);
  add_count (section, "referenced_keys", sums->referenced);
  add_count (section, "rereferenced_keys", sums->again);
  add_double (section, "rereferenced_share", sums->referenced > 0 ? (double)sums->again / (double)sums->referenced : 0.0);
  for (guint i = 0; i < G_N_ELEMENTS (per_mille); i++)
    {
      g_autofree char *name = g_strdup_printf ("distance_p%u_keys", per_mille[i] / 10);

      add_count (section, name, (guint64)lmt_stats_percentile (stats->distances, per_mille[i], LMT_RANK_NEAREST));
    }
  for (guint i = 0; i < G_N_ELEMENTS (per_mille); i++)
    {
      g_autofree char *name = g_strdup_printf ("time_p%u_s", per_mille[i] / 10);

      add_double (section, name, (double)lmt_stats_percentile (stats->times, per_mille[i], LMT_RANK_NEAREST) / 1e9);
    }
  end (section);
}

static void
add_tenants (InfoStats *stats, Section *section)
{
  gboolean salted = FALSE;

  for (guint i = 0; i < info_keys_get_n_tenants (stats->keys); i++)
    salted = salted || info_keys_get_tenant (stats->keys, i)->salt[0] != '\0';
  /* No release records the salt: two tenants' equal prefixes are one key then (trace-format.md 4). */
  lmt_json_writer_key (section->json, "tenants_told_apart");
  lmt_json_writer_bool (section->json, salted);
  g_string_append (section->text, "  tenants:\n");
  info_text_field (section->text, 4, "told_apart", salted ? "yes" : "no (no key carries a salt)");
  lmt_json_writer_key (section->json, "tenants");
  lmt_json_writer_begin_array (section->json);
  for (guint i = 0; i < info_keys_get_n_tenants (stats->keys); i++)
    {
      const InfoTenant *tenant = info_keys_get_tenant (stats->keys, i);

      g_string_append_printf (
          section->text,
          "    %s rank=%" G_GUINT64_FORMAT " salt=%s: keys=%" G_GUINT64_FORMAT " references=%" G_GUINT64_FORMAT "\n",
          tenant->model, tenant->rank, tenant->salt[0] != '\0' ? tenant->salt : "-", tenant->keys, tenant->references);
      lmt_json_writer_begin_object (section->json);
      lmt_json_writer_key (section->json, "model");
      lmt_json_writer_string (section->json, tenant->model);
      lmt_json_writer_key (section->json, "rank");
      lmt_json_writer_uint (section->json, tenant->rank);
      lmt_json_writer_key (section->json, "salt");
      lmt_json_writer_string (section->json, tenant->salt);
      lmt_json_writer_key (section->json, "keys");
      lmt_json_writer_uint (section->json, tenant->keys);
      lmt_json_writer_key (section->json, "references");
      lmt_json_writer_uint (section->json, tenant->references);
      lmt_json_writer_end_object (section->json);
    }
  lmt_json_writer_end_array (section->json);
  if (info_keys_get_lost_tenants (stats->keys) > 0)
    g_string_append_printf (section->text, "    (further tenants): keys=%" G_GUINT64_FORMAT "\n",
                            info_keys_get_lost_tenants (stats->keys));
}

static void
add_top (const Sums *sums, Section *section)
{
  g_string_append (section->text, "  top:\n");
  lmt_json_writer_key (section->json, "top");
  lmt_json_writer_begin_array (section->json);
  for (guint i = 0; i < sums->n_top; i++)
    {
      g_string_append_printf (section->text, "    %s: %u\n", sums->top[i]->text, sums->top[i]->references);
      lmt_json_writer_begin_object (section->json);
      lmt_json_writer_key (section->json, "key");
      lmt_json_writer_string (section->json, sums->top[i]->text);
      lmt_json_writer_key (section->json, "references");
      lmt_json_writer_uint (section->json, sums->top[i]->references);
      lmt_json_writer_end_object (section->json);
    }
  lmt_json_writer_end_array (section->json);
}

/* A trace doesn't say what its recorder dropped. Half a pair does: "yes"; else nobody can know (trace-format.md 5.4). */
static void
add_health (InfoStats *stats, const Sums *sums, const LmtReaderStats *reader, Section *section)
{
  guint64 unmatched = stats->finish_without_reserve + stats->exit_without_enter + sums->open_writes + sums->open_reads;
  gboolean damaged = reader->malformed > 0 || reader->tail != LMT_TAIL_CLEAN || reader->lost_ranges > 0;

  begin (section, "health");
  add_word (section, "incomplete", unmatched > 0 || damaged ? "yes" : "unknown");
  add_count (section, "finish_without_reserve", stats->finish_without_reserve);
  add_count (section, "reserve_without_finish", sums->open_writes);
  add_count (section, "exit_without_enter", stats->exit_without_enter);
  add_count (section, "enter_without_exit", sums->open_reads);
  add_count (section, "undecodable", stats->undecodable);
  add_count (section, "malformed", reader->malformed);
  add_count (section, "lost_bytes", reader->lost_bytes);
  end (section);
}

void
info_stats_finish (InfoStats *stats, const LmtReaderStats *reader, GString *text, LmtJsonWriter *json)
{
  Section section = { text, json };
  Sums sums = { .scale = info_keys_get_scale (stats->keys), .max_top = (guint)MIN (stats->config->top, TOP_MAX) };

  close_window (stats);
  sums.top = g_new0 (InfoKey *, sums.max_top + 1);
  info_keys_foreach (stats->keys, sum_key, &sums);
  if (stats->config->stats)
    {
      add_time (stats, reader, &section);
      if (stats->level != NULL)
        {
          add_objects (stats, &sums, &section);
          add_reuse (stats, &sums, &section);
          add_tenants (stats, &section);
        }
      add_health (stats, &sums, reader, &section);
    }
  if (sums.max_top > 0)
    add_top (&sums, &section);
  g_free (sums.top);
}
