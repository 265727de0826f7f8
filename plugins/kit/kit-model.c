// SPDX-License-Identifier: Apache-2.0
#include "kit-model.h"

enum
{
  N_SIZES = 3,
  SMALLEST = 512,
  FEW = 16, /* operations a cell has at least, however short the time */
};

typedef struct
{
  guint64 bytes;
  guint depth;
  gboolean largest; /* the row serves whatever is beyond it, too */
  gboolean deepest;
  KitPhase phases[LMT_L2_N_KINDS];
} Cell;

/* Quantiles of the table: p0, p10, p50, p90, p99, p99.9, p100. */
static void
write_row (LmtJsonWriter *json, const Cell *cell, LmtStats *stats)
{
  static const guint per_mille[] = { 100, 500, 900, 990, 999 };
  if (lmt_stats_count (stats) == 0)
    return;
  gint64 min = lmt_stats_min (stats), max = lmt_stats_max (stats), last = min;
  lmt_json_writer_begin_object (json);
  lmt_json_writer_key (json, "max_bytes");
  if (cell->largest)
    lmt_json_writer_null (json);
  else
    lmt_json_writer_uint (json, cell->bytes);
  lmt_json_writer_key (json, "max_depth");
  if (cell->deepest)
    lmt_json_writer_null (json);
  else
    lmt_json_writer_uint (json, cell->depth);
  lmt_json_writer_key (json, "us");
  lmt_json_writer_begin_array (json);
  lmt_json_writer_double (json, (double)min / 1e3);
  for (guint i = 0; i < G_N_ELEMENTS (per_mille); i++)
    {
      last = CLAMP (lmt_stats_percentile (stats, per_mille[i], LMT_RANK_NEAREST), last, max);
      lmt_json_writer_double (json, (double)last / 1e3);
    }
  lmt_json_writer_double (json, (double)max / 1e3);
  lmt_json_writer_end_array (json);
  lmt_json_writer_end_object (json);
}

static gboolean
phase_good (const KitBench *bench, const KitPhase *phase, guint64 *errors)
{
  for (guint kind = 0; kind < LMT_L2_N_KINDS; kind++)
    *errors += kit_phase_errors (bench, phase, kind);
  return !phase->stalled && !phase->interrupted;
}

static gboolean
measure_cell (KitBench *bench, const KitModelSpec *spec, gint64 time_ns, Cell *cell, guint64 *errors)
{
  guint64 window = MAX (spec->working_set_bytes / cell->bytes, (guint64)cell->depth * 2);
  KitPhaseSpec phase = { .object_bytes = cell->bytes, .depth = cell->depth, .window = window, .count = spec->count };
  phase.time_ns = spec->count > 0 ? 0 : time_ns;
  /* Objects to load, however short the time. */
  if (spec->count == 0)
    {
      KitPhase first;
      const KitPhaseSpec few = { .object_bytes = cell->bytes, .depth = cell->depth, .count = MAX (FEW, cell->depth * 2) };
      kit_bench_run (bench, &few, &first);
      gboolean good = phase_good (bench, &first, errors);
      kit_phase_clear (&first);
      if (!good)
        return FALSE;
    }
  kit_bench_run (bench, &phase, &cell->phases[LMT_L2_STORE]);
  phase.read_share = 1;
  phase.verify = TRUE;
  kit_bench_run (bench, &phase, &cell->phases[LMT_L2_LOAD]);
  phase.lookup_share = 1;
  phase.time_ns /= 4;
  kit_bench_run (bench, &phase, &cell->phases[LMT_L2_LOOKUP]);
  kit_bench_remove_all (bench, cell->depth, &cell->phases[LMT_L2_DELETE]);
  gboolean good = TRUE;
  for (guint kind = 0; kind < LMT_L2_N_KINDS; kind++)
    good &= phase_good (bench, &cell->phases[kind], errors);
  return good;
}

static char *
write_table (GArray *cells)
{
  static const guint kinds[] = { LMT_L2_LOAD, LMT_L2_STORE, LMT_L2_LOOKUP, LMT_L2_DELETE };
  GString *text = g_string_new (NULL);
  LmtJsonWriter *json = lmt_json_writer_new (text, LMT_JSON_STYLE_INDENT);
  lmt_json_writer_begin_object (json);
  lmt_json_writer_key (json, "schema");
  lmt_json_writer_string (json, "lmtrace/l2-model/1");
  for (guint i = 0; i < G_N_ELEMENTS (kinds); i++)
    {
      lmt_json_writer_key (json, lmt_l2_kind_name (kinds[i]));
      lmt_json_writer_begin_array (json);
      for (guint k = 0; k < cells->len; k++)
        {
          const Cell *cell = &g_array_index (cells, Cell, k);
          write_row (json, cell, cell->phases[kinds[i]].kind[kinds[i]].completion);
        }
      lmt_json_writer_end_array (json);
    }
  lmt_json_writer_end_object (json);
  lmt_json_writer_free (json);
  return g_string_free (text, FALSE);
}

char *
kit_model_measure (KitBench *bench, const KitModelSpec *spec, KitModelDone *done, guint64 *errors, GError **error)
{
  g_autoptr (GArray) cells = g_array_new (FALSE, TRUE, sizeof (Cell));
  guint n_depths = 1;
  char *text = NULL;
  gboolean good = TRUE;
  memset (done, 0, sizeof *done);
  while ((1u << n_depths) < spec->depth * 2 && n_depths < 13)
    n_depths++;
  done->depths = n_depths;
  for (guint s = 0; s < N_SIZES && good; s++)
    {
      guint64 bytes = spec->largest_bytes >> (2 * (N_SIZES - 1 - s));
      if (bytes < SMALLEST && s < N_SIZES - 1)
        continue;
      done->sizes++;
      for (guint d = 0; d < n_depths && good; d++)
        {
          Cell cell = {
            .bytes = bytes, .depth = MIN (1u << d, spec->depth), .largest = s + 1 == N_SIZES, .deepest = d + 1 == n_depths
          };
          good = measure_cell (bench, spec, spec->time_ns / (N_SIZES * n_depths * 2), &cell, errors);
          g_array_append_val (cells, cell);
          for (guint kind = 0; kind < LMT_L2_N_KINDS; kind++)
            {
              done->ops[kind] += cell.phases[kind].kind[kind].ops;
              done->elapsed_ns += cell.phases[kind].elapsed_ns;
            }
        }
    }
  if (good)
    text = write_table (cells);
  else
    g_set_error (error, LMT_L2_ERROR, LMT_L2_TIMEOUT, "%s: the table needs every cell, and one didn't come to its end",
                 lmt_l2_get_type_name (kit_bench_get_l2 (bench)));
  for (guint i = 0; i < cells->len; i++)
    for (guint kind = 0; kind < LMT_L2_N_KINDS; kind++)
      kit_phase_clear (&g_array_index (cells, Cell, i).phases[kind]);
  return text;
}
