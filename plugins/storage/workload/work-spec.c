// SPDX-License-Identifier: Apache-2.0
#include "work-spec.h"

#include <lmtrace/lmt-option.h>

#define SCHEMA "lmtrace/workload/1"
#define SECONDS_MAX 1e9

static const char *const spec_keys[] = { "schema", "description", "seed",    "duration", "requests", "clock",
                                         "model",  "arrivals",    "classes", "threads",  "manager",  NULL };
static const char *const class_keys[]
    = { "name",      "weight",       "salt",          "users", "turns", "think_time", "shared_prefix_tokens",
        "documents", "input_tokens", "output_tokens", NULL };

static void
class_clear (WorkClass *one)
{
  WorkDist *const dists[] = { &one->turns,          &one->think_s,      &one->prefix_tokens, &one->document_tokens,
                              &one->document_count, &one->input_tokens, &one->output_tokens };

  for (guint i = 0; i < G_N_ELEMENTS (dists); i++)
    work_dist_clear (dists[i]);
  g_free (one->name);
  g_free (one->salt);
}

void
work_spec_free (WorkSpec *spec)
{
  if (spec == NULL)
    return;
  for (guint i = 0; i < spec->n_classes; i++)
    class_clear (&spec->classes[i]);
  g_free (spec->classes);
  g_free (spec->class_sums);
  work_dist_clear (&spec->arrivals.size);
  work_shape_clear (&spec->shape);
  lmt_json_free (spec->json);
  g_free (spec->shown);
  g_free (spec);
}

/* ---------------- arrivals ---------------- */

static gboolean
need_rate (const WorkPlace *object, const char *name, double *rate, GError **error)
{
  WorkPlace place;

  return work_json_need (object, name, &place, error) && work_json_real (&place, 1e-9, 1e6, rate, error);
}

static double
mean_of (const WorkDist *dist)
{
  double sum = 0.0;

  /* The mean of what is drawn, by drawing: rates need it, and only a few kinds have a formula that ends at a bound as draws do.
   */
  WorkRandom random = work_random_stream (0, WORK_FOR_ARRIVALS, 0, 0);
  for (guint i = 0; i < 4096; i++)
    sum += (double)work_dist_draw_count (dist, &random, WORK_USERS_MAX);
  return sum / 4096.0;
}

static gboolean
read_burst (WorkArrivals *arrivals, const WorkPlace *object, GError **error)
{
  static const char *const known[] = { "rate", "size", NULL };
  WorkPlace place;

  if (!work_json_check_object (object, known, error) || !need_rate (object, "rate", &arrivals->rate, error)
      || !work_json_need (object, "size", &place, error)
      || !work_json_dist (&place, WORK_UNIT_COUNT, WORK_USERS_MAX, &arrivals->size, error))
    return FALSE;
  arrivals->mean_size = mean_of (&arrivals->size);
  return arrivals->mean_size > 0.0 || work_json_refuse (&place, "expected bursts of at least one session", error);
}

static gboolean
read_diurnal (WorkArrivals *arrivals, const WorkPlace *object, GError **error)
{
  static const char *const known[] = { "mean", "peak", "period", NULL };
  WorkPlace place;

  if (!work_json_check_object (object, known, error) || !need_rate (object, "mean", &arrivals->rate, error)
      || !need_rate (object, "peak", &arrivals->peak, error))
    return FALSE;
  if (arrivals->peak < arrivals->rate || arrivals->peak > 2.0 * arrivals->rate)
    {
      work_json_member (object, "peak", &place);
      return work_json_wrong (&place, "from mean to twice the mean: the rate swings as far below as above", error);
    }
  if (!work_json_need (object, "period", &place, error) || !work_json_duration (&place, &arrivals->period_ns, error))
    return FALSE;
  return arrivals->period_ns > 0 || work_json_wrong (&place, "a duration above 0", error);
}

static gboolean
read_arrivals (WorkArrivals *arrivals, const WorkPlace *root, GError **error)
{
  static const char *const kinds[] = { "poisson", "burst", "diurnal", NULL };
  WorkPlace place;
  WorkPlace inner;

  if (!work_json_need (root, "arrivals", &place, error) || !work_json_check_object (&place, kinds, error))
    return FALSE;
  if (lmt_json_get_length (place.value) != 1)
    return work_json_refuse (&place, "expected one of poisson, burst, diurnal", error);
  if (work_json_member (&place, "burst", &inner))
    {
      arrivals->kind = WORK_BURST;
      return read_burst (arrivals, &inner, error);
    }
  if (work_json_member (&place, "diurnal", &inner))
    {
      arrivals->kind = WORK_DIURNAL;
      return read_diurnal (arrivals, &inner, error);
    }
  arrivals->kind = WORK_POISSON;
  return need_rate (&place, "poisson", &arrivals->rate, error);
}

/* ---------------- classes ---------------- */

static gboolean
read_dist (const WorkPlace *object, const char *name, WorkUnit unit, double most, double otherwise, WorkDist *dist,
           GError **error)
{
  WorkPlace place;

  if (work_json_member (object, name, &place))
    return work_json_dist (&place, unit, most, dist, error);
  *dist = (WorkDist){ .kind = WORK_FIXED, .a = otherwise };
  return TRUE;
}

/* `{"zipf": [n, s], "tokens": DIST}`, or a distribution alone: one prefix of that length. */
static gboolean
read_prefix (WorkClass *one, const WorkPlace *object, GError **error)
{
  static const char *const known[] = { "zipf", "tokens", NULL };
  WorkPlace place;
  WorkPlace inner;

  if (!work_json_member (object, "shared_prefix_tokens", &place))
    return TRUE;
  one->has_prefix = TRUE;
  work_zipf_init (&one->prefixes, 1, 1.0);
  if (lmt_json_get_type (place.value) != LMT_JSON_OBJECT || !work_json_member (&place, "tokens", &inner))
    {
      /* A zipf alone would be read as a length by some and as a count of prefixes by others. */
      if (lmt_json_get_type (place.value) == LMT_JSON_OBJECT && work_json_member (&place, "zipf", &inner))
        return work_json_refuse (&place, "expected tokens beside zipf: how long the prefixes are", error);
      return work_json_dist (&place, WORK_UNIT_COUNT, WORK_TOKENS_MAX, &one->prefix_tokens, error);
    }
  if (!work_json_check_object (&place, known, error)
      || !work_json_dist (&inner, WORK_UNIT_COUNT, WORK_TOKENS_MAX, &one->prefix_tokens, error))
    return FALSE;
  return !work_json_member (&place, "zipf", &inner) || work_json_zipf (&inner, &one->prefixes, error);
}

static gboolean
read_documents (WorkClass *one, const WorkPlace *object, GError **error)
{
  static const char *const known[] = { "zipf", "tokens", "per_turn", NULL };
  WorkPlace place;
  WorkPlace inner;

  if (!work_json_member (object, "documents", &place))
    return TRUE;
  one->has_documents = TRUE;
  if (!work_json_check_object (&place, known, error) || !work_json_need (&place, "zipf", &inner, error)
      || !work_json_zipf (&inner, &one->documents, error) || !work_json_need (&place, "tokens", &inner, error)
      || !work_json_dist (&inner, WORK_UNIT_COUNT, WORK_TOKENS_MAX, &one->document_tokens, error))
    return FALSE;
  return read_dist (&place, "per_turn", WORK_UNIT_COUNT, 1000.0, 1.0, &one->document_count, error);
}

static gboolean
read_salt (WorkClass *one, const WorkPlace *object, GError **error)
{
  WorkPlace place;
  LmtKeyFields fields = { .struct_size = sizeof fields, .model = "m", .model_len = 1 };
  const char *broken;

  one->salt = g_strdup ("");
  if (!work_json_member (object, "salt", &place))
    return TRUE;
  if (!work_json_string (&place, &one->salt, error))
    return FALSE;
  fields.salt = one->salt;
  fields.salt_len = (guint32)strlen (one->salt);
  broken = lmt_key_fields_check (&fields);
  return broken == NULL || work_json_refuse (&place, broken, error);
}

static gboolean
read_class (WorkClass *one, const WorkPlace *object, GError **error)
{
  WorkPlace place;

  one->weight = 1.0;
  one->users = 10000;
  if (!work_json_check_object (object, class_keys, error)
      || (work_json_member (object, "name", &place) && !work_json_string (&place, &one->name, error))
      || (work_json_member (object, "weight", &place) && !work_json_real (&place, 0.0, 1e9, &one->weight, error))
      || !read_salt (one, object, error)
      || (work_json_member (object, "users", &place) && !work_json_count (&place, 1, WORK_USERS_MAX, &one->users, error)))
    return FALSE;
  return read_dist (object, "turns", WORK_UNIT_COUNT, 1e6, 1.0, &one->turns, error)
         && read_dist (object, "think_time", WORK_UNIT_SECONDS, SECONDS_MAX, 0.0, &one->think_s, error)
         && read_prefix (one, object, error) && read_documents (one, object, error)
         && work_json_need (object, "input_tokens", &place, error)
         && work_json_dist (&place, WORK_UNIT_COUNT, WORK_TOKENS_MAX, &one->input_tokens, error)
         && read_dist (object, "output_tokens", WORK_UNIT_COUNT, WORK_TOKENS_MAX, 0.0, &one->output_tokens, error);
}

static gboolean
read_classes (WorkSpec *spec, const WorkPlace *root, GError **error)
{
  WorkPlace place;
  WorkPlace element;
  double sum = 0.0;

  if (!work_json_need (root, "classes", &place, error))
    return FALSE;
  if (lmt_json_get_type (place.value) != LMT_JSON_ARRAY || lmt_json_get_length (place.value) == 0
      || lmt_json_get_length (place.value) > WORK_CLASSES_MAX)
    return work_json_wrong (&place, "an array of 1 to 256 classes", error);
  spec->n_classes = lmt_json_get_length (place.value);
  spec->classes = g_new0 (WorkClass, spec->n_classes);
  spec->class_sums = g_new0 (double, spec->n_classes);
  for (guint i = 0; i < spec->n_classes; i++)
    {
      work_json_element (&place, i, &element);
      if (!read_class (&spec->classes[i], &element, error))
        return FALSE;
      sum += spec->classes[i].weight;
      spec->class_sums[i] = sum;
    }
  return sum > 0.0 || work_json_refuse (&place, "expected a weight above 0, found none", error);
}

/* ---------------- the file ---------------- */

static gboolean
read_schema (const WorkPlace *root, GError **error)
{
  WorkPlace place;
  g_autofree char *text = NULL;

  if (!work_json_need (root, "schema", &place, error) || !work_json_string (&place, &text, error))
    return FALSE;
  return g_str_equal (text, SCHEMA) || work_json_wrong (&place, "\"" SCHEMA "\"", error);
}

static gboolean
read_end (WorkSpec *spec, const WorkPlace *root, GError **error)
{
  WorkPlace place;

  if (work_json_member (root, "duration", &place))
    {
      if (!work_json_duration (&place, &spec->duration_ns, error))
        return FALSE;
      if (spec->duration_ns <= 0)
        return work_json_wrong (&place, "a duration above 0", error);
    }
  if (work_json_member (root, "requests", &place)
      && !work_json_count (&place, 1, G_GUINT64_CONSTANT (1000000000000), &spec->requests, error))
    return FALSE;
  return TRUE;
}

static gboolean
read_spec (WorkSpec *spec, GError **error)
{
  static const char *const clocks[] = { "virtual", "real", NULL };
  const WorkPlace root = { spec->shown, spec->json, "" };
  WorkPlace place;
  g_autofree char *description = NULL;
  guint clock = 0;

  spec->threads = 1;
  if (!work_json_check_object (&root, spec_keys, error) || !read_schema (&root, error)
      || (work_json_member (&root, "description", &place) && !work_json_string (&place, &description, error))
      || (work_json_member (&root, "seed", &place) && !work_json_count (&place, 0, G_MAXINT64, &spec->seed, error))
      || !read_end (spec, &root, error)
      || (work_json_member (&root, "clock", &place) && !work_json_word (&place, clocks, &clock, error))
      || (work_json_member (&root, "threads", &place) && !work_json_count (&place, 1, WORK_THREADS_MAX, &spec->threads, error)))
    return FALSE;
  spec->real_clock = clock == 1;
  if (!work_json_need (&root, "model", &place, error) || !work_shape_read (&spec->shape, &place, error))
    return FALSE;
  if (!work_shape_finish (&spec->shape, 256, FALSE, error))
    {
      g_prefix_error (error, "%s: model: ", spec->shown);
      return FALSE;
    }
  if (!read_arrivals (&spec->arrivals, &root, error) || !read_classes (spec, &root, error))
    return FALSE;
  if (!work_json_member (&root, "manager", &place))
    return TRUE;
  if (lmt_json_get_type (place.value) != LMT_JSON_OBJECT)
    return work_json_wrong (&place, "an object", error);
  spec->manager = place.value;
  return TRUE;
}

WorkSpec *
work_spec_new (const char *shown, LmtJson *json, GError **error)
{
  g_autoptr (WorkSpec) spec = g_new0 (WorkSpec, 1);

  spec->shown = g_strdup (shown);
  spec->json = json;
  return read_spec (spec, error) ? g_steal_pointer (&spec) : NULL;
}

WorkSpec *
work_spec_load (const char *name_or_file, GError **error)
{
  g_autofree char *shown = NULL;
  LmtJson *json = work_load_json (name_or_file, "workloads", "workload", &shown, error);

  return json != NULL ? work_spec_new (shown, json, error) : NULL;
}

/* ---------------- manager: the flags of replay ---------------- */

/* Flags that are given by names of their own in the file, or decide over files. */
static gboolean
is_manager_option (const LmtOption *row)
{
  static const char *const groups[]
      = { "L1 Memory Manager", "L1 Manager TTL", "Eviction Policy", "L2 Policies", "L2 Adapters", NULL };

  return row->group != NULL && (g_strv_contains (groups, row->group) || g_str_equal (row->name, "l2-quota"));
}

static char *
option_text (const LmtJson *json)
{
  switch (lmt_json_get_type (json))
    {
    case LMT_JSON_STRING:
      return g_strdup (lmt_json_get_string (json));
    case LMT_JSON_NULL:
    case LMT_JSON_ARRAY:
      return NULL;
    default:
      return lmt_json_to_text (json, LMT_JSON_STYLE_COMPACT, FALSE);
    }
}

static gboolean
set_one (const WorkPlace *place, const char *name, LmtOptions *options, GError **error)
{
  g_autofree char *text = option_text (place->value);
  g_autoptr (GError) wrong = NULL;

  if (text == NULL)
    return work_json_wrong (place, "what the flag of that name takes", error);
  if (lmt_options_set (options, name, text, LMT_ORIGIN_FILE, &wrong))
    return TRUE;
  return work_json_refuse (place, wrong->message, error);
}

/* Did the line say it already, in this way or another? */
static gboolean
is_on_line (const LmtOptions *line, const char *name)
{
  static const char *const sizes[] = { "l1-size", "l1-size-gb", "l1-manager", NULL };

  if (lmt_options_is_set (line, name))
    return TRUE;
  if (g_strv_contains (sizes, name))
    for (guint i = 0; sizes[i] != NULL; i++)
      if (lmt_options_is_set (line, sizes[i]))
        return TRUE;
  return FALSE;
}

gboolean
work_spec_set_options (const WorkSpec *spec, const LmtOptions *line, LmtOptions *options, GError **error)
{
  guint n = spec->manager != NULL ? lmt_json_get_length (spec->manager) : 0;

  for (guint i = 0; i < n; i++)
    {
      const char *name = lmt_json_get_member_name (spec->manager, i);
      const LmtOption *row = lmt_options_find (options, name);
      g_autofree char *clean = work_json_shown_name (name);
      WorkPlace place = { spec->shown, lmt_json_get_member_value (spec->manager, i), "" };

      g_snprintf (place.path, sizeof place.path, "manager.%s", clean);
      if (row == NULL || !is_manager_option (row))
        return work_json_refuse (
            &place, "unknown key: expected a flag of L1, L2 or eviction, as `lmtrace record --help` lists them", error);
      if (is_on_line (line, name))
        continue;
      if (lmt_json_get_type (place.value) != LMT_JSON_ARRAY)
        {
          if (!set_one (&place, name, options, error))
            return FALSE;
          continue;
        }
      for (guint k = 0; k < lmt_json_get_length (place.value); k++)
        {
          WorkPlace element;

          work_json_element (&place, k, &element);
          if (!set_one (&element, name, options, error))
            return FALSE;
        }
    }
  return TRUE;
}
