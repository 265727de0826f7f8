/* SPDX-License-Identifier: Apache-2.0 */
#include "fault.h"

#include <math.h>

#define RATE(key, member, help) LMT_OPTION (DOUBLE, key, FaultConfig, member, "0", "0..1", help)

const LmtOption fault_options[] = {
  LMT_OPTION_FULL (JSON, "inner", FaultConfig, inner, LMT_OPTION_REQUIRED | LMT_OPTION_ADAPTER, NULL, NULL, "ADAPTER",
                   "Wrap this adapter, an object with its own type and keys", NULL),
  RATE ("rate", rate, "Share of keys whose loads are reported as failed, LMCache's draw"),
  LMT_OPTION (INT, "seed", FaultConfig, seed, "0", NULL, "Draw by this seed"),
  LMT_OPTION (JSON, "gap_indices", FaultConfig, gap_indices, NULL, NULL,
              "Fail loads at these positions of a batch: [INT, …], from 0"),
  LMT_OPTION (JSON, "gap_tail_ratios", FaultConfig, gap_tail_ratios, NULL, NULL,
              "Fail loads at these places of a batch: [0..1, …], 0 is the last key, 1 the first"),
  RATE ("store_rate", store_rate, "Share of keys that are not stored"),
  RATE ("lookup_rate", lookup_rate, "Share of keys that are not found"),
  RATE ("delete_rate", delete_rate, "Share of keys that are not deleted"),
  LMT_OPTION (CHOICE, "error", FaultConfig, error, "io", "io|not-found|busy|timeout|denied|no-space|unsupported|data|closed",
              "What a failed store, load or delete ends with"),
  LMT_OPTION (STRING, "error_key", FaultConfig, error_key, NULL, "nonempty",
              "Fail everything on keys whose wire key fits this glob (* and ?)"),
  LMT_OPTION (DOUBLE, "delay_ms", FaultConfig, delay_ms, "0", "0..1e9", "Hand completions back this much later, in ms"),
  RATE ("delay_rate", delay_rate, "Share of keys whose completions are late by delay_ms"),
  RATE ("hang_rate", hang_rate, "Share of keys whose completions are lost"),
  RATE ("short_rate", short_rate, "Share of keys whose objects are reported shorter than they are"),
  RATE ("corrupt_rate", corrupt_rate, "Share of keys whose loads have one bit flipped"),
  RATE ("duplicate_rate", duplicate_rate, "Share of keys whose completions are handed back twice"),
  LMT_OPTION (UINT, "reorder", FaultConfig, reorder, "0", "0..65536", "Shuffle completions within this many; 0 means in order"),
  LMT_OPTION_FULL (INT, "no_space_after_bytes", FaultConfig, no_space_after_bytes, LMT_OPTION_NULLABLE, "-1", "-1..", "BYTES",
                   "Be full once this much was written; -1 or null means never", NULL),
  LMT_OPTION (DOUBLE, "stall_after_ms", FaultConfig, stall_after_ms, "0", "0..1e12",
              "Begin the stall this long after open, in ms"),
  LMT_OPTION (DOUBLE, "stall_ms", FaultConfig, stall_ms, "0", "0..1e9", "Hand nothing back for this long, in ms"),
  LMT_OPTION_END,
};

const char *
fault_kind_name (FaultKind kind)
{
  static const char *const names[] = { "load",  "gap",     "store", "lookup", "delete",  "error_key", "no_space",
                                       "short", "corrupt", "delay", "hang",   "reorder", "duplicate", "stall" };
  G_STATIC_ASSERT (G_N_ELEMENTS (names) == N_FAULTS);
  return names[kind];
}

static gboolean
refuse (GError **error, const char *key, const char *expected, const char *found)
{
  g_set_error (error, LMT_ERROR, LMT_ERROR_OPTION, "%s: expected %s, found %.80s", key, expected, found);
  return FALSE;
}

/* @visit: FALSE refuses the element. */
static gboolean
read_list (const char *key, const char *text, const char *expected, gboolean (*visit) (const LmtJson *element, gpointer data),
           gpointer data, GError **error)
{
  if (text == NULL)
    return TRUE;
  g_autoptr (LmtJson) json = lmt_json_parse (text, -1, NULL);
  gboolean good = json != NULL && lmt_json_get_type (json) == LMT_JSON_ARRAY;
  for (guint i = 0; good && i < lmt_json_get_length (json); i++)
    good = visit (lmt_json_get_element (json, i), data);
  return good || refuse (error, key, expected, text);
}

static gboolean
visit_index (const LmtJson *element, gpointer data)
{
  GArray *indices = data;
  LmtJsonType type = lmt_json_get_type (element);
  if (!(type == LMT_JSON_INT && lmt_json_get_int (element) >= 0) && type != LMT_JSON_UINT)
    return FALSE;
  guint64 index = type == LMT_JSON_UINT ? lmt_json_get_uint (element) : (guint64)lmt_json_get_int (element);
  g_array_append_val (indices, index);
  return TRUE;
}

static gboolean
visit_ratio (const LmtJson *element, gpointer data)
{
  GArray *ratios = data;
  LmtJsonType type = lmt_json_get_type (element);
  if (type != LMT_JSON_INT && type != LMT_JSON_UINT && type != LMT_JSON_DOUBLE)
    return FALSE;
  double ratio = lmt_json_get_double (element);
  g_array_append_val (ratios, ratio);
  return ratio >= 0 && ratio <= 1;
}

static gboolean
read_lists (const FaultConfig *config, GArray *indices, GArray *ratios, GError **error)
{
  return read_list ("gap_indices", config->gap_indices, "a list of integers, 0 or more", visit_index, indices, error)
         && read_list ("gap_tail_ratios", config->gap_tail_ratios, "a list of numbers from 0 to 1", visit_ratio, ratios, error);
}

gboolean
fault_check (gconstpointer config_, const char *type, GError **error)
{
  const FaultConfig *config = config_;
  g_autoptr (GArray) indices = g_array_new (FALSE, FALSE, sizeof (guint64));
  g_autoptr (GArray) ratios = g_array_new (FALSE, FALSE, sizeof (double));
  if (!read_lists (config, indices, ratios, error))
    return FALSE;
  if (config->delay_ms > 0 && config->delay_rate == 0)
    return refuse (error, "delay_rate", "a number above 0 with delay_ms", "0");
  if (config->delay_rate > 0 && config->delay_ms == 0)
    return refuse (error, "delay_ms", "a number above 0 with delay_rate", "0");
  if (config->stall_after_ms > 0 && config->stall_ms == 0)
    return refuse (error, "stall_ms", "a number above 0 with stall_after_ms", "0");
  if (config->reorder == 1)
    return refuse (error, "reorder", "0, or 2 and more", "1");
  return TRUE;
}

static guint32
code_of_name (const char *name)
{
  for (guint32 code = 0; code < LMT_L2_N_CODES; code++)
    if (strcmp (lmt_l2_code_name (code), name) == 0)
      return code;
  return LMT_L2_IO;
}

void
fault_plan_init (FaultPlan *plan, const FaultConfig *config)
{
  GArray *indices = g_array_new (FALSE, FALSE, sizeof (guint64));
  GArray *ratios = g_array_new (FALSE, FALSE, sizeof (double));
  const struct
  {
    FaultKind kind;
    double rate;
  } rates[] = {
    { FAULT_LOAD, config->rate },          { FAULT_STORE, config->store_rate }, { FAULT_LOOKUP, config->lookup_rate },
    { FAULT_DELETE, config->delete_rate }, { FAULT_SHORT, config->short_rate }, { FAULT_CORRUPT, config->corrupt_rate },
    { FAULT_DELAY, config->delay_rate },   { FAULT_HANG, config->hang_rate },   { FAULT_DUPLICATE, config->duplicate_rate }
  };

  read_lists (config, indices, ratios, NULL);
  *plan = (FaultPlan){ .seed = config->seed,
                       .error = code_of_name (config->error),
                       .error_key = g_strdup (config->error_key),
                       .delay_ns = (gint64)(config->delay_ms * 1e6),
                       .reorder = (guint32)config->reorder,
                       .no_space_after = config->no_space_after_bytes < 0 ? G_MAXUINT64 : (guint64)config->no_space_after_bytes,
                       .stall_after_ns = (gint64)(config->stall_after_ms * 1e6),
                       .stall_ns = (gint64)(config->stall_ms * 1e6) };
  plan->n_gap_indices = indices->len;
  plan->gap_indices = (guint64 *)(gpointer)g_array_free (indices, FALSE);
  plan->n_gap_ratios = ratios->len;
  plan->gap_ratios = (double *)(gpointer)g_array_free (ratios, FALSE);
  for (guint i = 0; i < G_N_ELEMENTS (rates); i++)
    {
      plan->limits[rates[i].kind] = (guint32)floor (rates[i].rate * 1000000);
      plan->any |= rates[i].rate > 0;
    }
  plan->any |= plan->n_gap_indices > 0 || plan->n_gap_ratios > 0 || plan->error_key != NULL || plan->reorder > 0
               || plan->no_space_after != G_MAXUINT64 || plan->stall_ns > 0;
}

void
fault_plan_clear (FaultPlan *plan)
{
  g_free (plan->gap_indices);
  g_free (plan->gap_ratios);
  g_free (plan->error_key);
}
