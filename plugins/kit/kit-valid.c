// SPDX-License-Identifier: Apache-2.0
/* Is a scenario file one that can be run? A mistake in it must not look like one of the adapter's. */
#include "kit-scenario-private.h"

#define OBJECT_MAX_BYTES (G_GUINT64_CONSTANT (1) << 30)

typedef enum
{
  NEEDS_TASK = 1 << 0, /* names one of its own */
  NEEDS_EARLIER = 1 << 1,
  NEEDS_KEYS = 1 << 2,
  NEEDS_BUFFERS = 1 << 3,
  NEEDS_SIZES = 1 << 4,
  NEEDS_TASKS = 1 << 5,
  NEEDS_KEY = 1 << 6,
  NEEDS_POLICY = 1 << 7,
  NEEDS_KIND = 1 << 8,
} Needs;

static const struct
{
  const char *op;
  guint needs;
} ops[] = {
  { "store", NEEDS_TASK | NEEDS_KEYS | NEEDS_BUFFERS },
  { "lookup", NEEDS_TASK | NEEDS_KEYS },
  { "load", NEEDS_TASK | NEEDS_KEYS | NEEDS_SIZES },
  { "wait", NEEDS_EARLIER },
  { "again", NEEDS_EARLIER },
  { "unknown", NEEDS_KIND },
  { "ids", NEEDS_TASKS },
  { "fds", 0 },
  { "poll", NEEDS_KIND },
  { "unlock", NEEDS_KEYS },
  { "delete", NEEDS_KEYS },
  { "usage", 0 },
  { "events", 0 },
  { "evict", NEEDS_POLICY },
  { "reopen", 0 },
  { "close", 0 },
  { "sleep", 0 },
  { "scribble", NEEDS_EARLIER },
  { "stable", NEEDS_EARLIER },
  { "debris", 0 },
  { "tamper", NEEDS_KEY },
};

static gboolean
is_of (const LmtJson *json, LmtJsonType type)
{
  return json != NULL && lmt_json_get_type (json) == type;
}

static char *
found_text (const LmtJson *json)
{
  return json != NULL ? lmt_json_to_text (json, LMT_JSON_STYLE_SPACED, FALSE) : g_strdup ("none");
}

/* (transfer full) (nullable) */
static char *
complaint (const char *name, const char *expected, const LmtJson *found)
{
  g_autofree char *text = found_text (found);
  return g_strdup_printf ("%s: expected %s, found %s", name, expected, text);
}

static gboolean
is_key (const LmtJson *scenario, const LmtJson *name)
{
  return is_of (name, LMT_JSON_STRING)
         && lmt_json_get_member (lmt_json_get_member (scenario, "keys"), lmt_json_get_string (name)) != NULL;
}

static gboolean
is_buffer (const LmtJson *scenario, const LmtJson *name)
{
  const LmtJson *buffers = lmt_json_get_member (scenario, "buffers");
  return is_of (name, LMT_JSON_STRING) && is_of (buffers, LMT_JSON_OBJECT)
         && lmt_json_get_member (buffers, lmt_json_get_string (name)) != NULL;
}

static gboolean
is_size (const LmtJson *scenario, const LmtJson *size)
{
  return is_of (size, LMT_JSON_INT) && lmt_json_get_int (size) >= 0 && (guint64)lmt_json_get_int (size) <= OBJECT_MAX_BYTES;
}

static gboolean
is_earlier_task (const LmtJson *scenario, guint before, const LmtJson *name)
{
  const LmtJson *steps = lmt_json_get_member (scenario, "steps");
  for (guint i = 0; i < before && is_of (name, LMT_JSON_STRING); i++)
    {
      const LmtJson *step = lmt_json_get_element (steps, i);
      const char *op = kit_scenario_get_text (step, "op");
      if (g_strcmp0 (kit_scenario_get_text (step, "task"), lmt_json_get_string (name)) == 0
          && (g_strcmp0 (op, "store") == 0 || g_strcmp0 (op, "load") == 0 || g_strcmp0 (op, "lookup") == 0))
        return TRUE;
    }
  return FALSE;
}

static char *
check_list (const LmtJson *scenario, const LmtJson *step, const char *name,
            gboolean (*is_good) (const LmtJson *scenario, const LmtJson *element), const char *expected)
{
  const LmtJson *list = lmt_json_get_member (step, name);
  if (!is_of (list, LMT_JSON_ARRAY))
    return complaint (name, "a list", list);
  for (guint i = 0; i < lmt_json_get_length (list); i++)
    if (!is_good (scenario, lmt_json_get_element (list, i)))
      return complaint (name, expected, lmt_json_get_element (list, i));
  return NULL;
}

static char *
check_tasks (const LmtJson *scenario, guint number, const LmtJson *step)
{
  const LmtJson *tasks = lmt_json_get_member (step, "tasks");
  if (!is_of (tasks, LMT_JSON_ARRAY))
    return complaint ("tasks", "a list", tasks);
  for (guint i = 0; i < lmt_json_get_length (tasks); i++)
    if (!is_earlier_task (scenario, number, lmt_json_get_element (tasks, i)))
      return complaint ("tasks", "the task of an earlier step", lmt_json_get_element (tasks, i));
  return NULL;
}

/* `same_bits_as` at any depth. */
static char *
check_norm (const LmtJson *scenario, guint number, const LmtJson *norm)
{
  char *why = NULL;
  for (guint i = 0; is_of (norm, LMT_JSON_ARRAY) && i < lmt_json_get_length (norm) && why == NULL; i++)
    why = check_norm (scenario, number, lmt_json_get_element (norm, i));
  for (guint i = 0; is_of (norm, LMT_JSON_OBJECT) && i < lmt_json_get_length (norm) && why == NULL; i++)
    {
      const LmtJson *value = lmt_json_get_member_value (norm, i);
      if (strcmp (lmt_json_get_member_name (norm, i), "same_bits_as") != 0)
        why = check_norm (scenario, number, value);
      else if (!is_earlier_task (scenario, number, value))
        why = complaint ("same_bits_as", "the task of an earlier step", value);
    }
  return why;
}

static char *
check_needs (const LmtJson *scenario, guint number, const LmtJson *step, guint needs)
{
  const LmtJson *task = lmt_json_get_member (step, "task"), *kind = lmt_json_get_member (step, "kind");
  const char *kind_text = kit_scenario_get_text (step, "kind"), *policy = kit_scenario_get_text (step, "policy");
  LmtEvictKind evict;
  char *why = NULL;
  if ((needs & NEEDS_TASK) != 0 && !is_of (task, LMT_JSON_STRING))
    return complaint ("task", "a name", task);
  if ((needs & NEEDS_EARLIER) != 0 && !is_earlier_task (scenario, number, task))
    return complaint ("task", "the task of an earlier step", task);
  if ((needs & NEEDS_KEYS) != 0)
    why = check_list (scenario, step, "keys", is_key, "a name of \"keys\"");
  if (why == NULL && (needs & NEEDS_BUFFERS) != 0)
    why = check_list (scenario, step, "buffers", is_buffer, "a name of \"buffers\"");
  if (why == NULL && (needs & NEEDS_SIZES) != 0)
    why = check_list (scenario, step, "sizes", is_size, "bytes, at most 1073741824");
  if (why == NULL && (needs & NEEDS_TASKS) != 0)
    why = check_tasks (scenario, number, step);
  if (why == NULL && (needs & NEEDS_KEY) != 0 && !is_key (scenario, lmt_json_get_member (step, "key")))
    why = complaint ("key", "a name of \"keys\"", lmt_json_get_member (step, "key"));
  if (why == NULL && (needs & NEEDS_KEY) != 0 && !is_of (lmt_json_get_member (step, "action"), LMT_JSON_STRING))
    why = complaint ("action", "truncate, append or remove", lmt_json_get_member (step, "action"));
  if (why == NULL && (needs & NEEDS_POLICY) != 0 && !(policy != NULL && lmt_evict_kind_from_text (policy, &evict)))
    why = complaint ("policy", "an eviction policy", lmt_json_get_member (step, "policy"));
  if (why == NULL && (needs & NEEDS_KIND) != 0 && g_strcmp0 (kind_text, "store") != 0 && g_strcmp0 (kind_text, "load") != 0
      && g_strcmp0 (kind_text, "lookup") != 0)
    why = complaint ("kind", "store, lookup or load", kind);
  return why;
}

static char *
check_step (const LmtJson *scenario, guint number, const LmtJson *step)
{
  const char *op = is_of (step, LMT_JSON_OBJECT) ? kit_scenario_get_text (step, "op") : NULL;
  guint k = 0;
  while (k < G_N_ELEMENTS (ops) && g_strcmp0 (ops[k].op, op) != 0)
    k++;
  const LmtJson *norm = is_of (step, LMT_JSON_OBJECT) ? lmt_json_get_member (step, "require") : NULL;
  char *why = k == G_N_ELEMENTS (ops)                          ? complaint ("op", "a known step", step)
              : norm != NULL && !is_of (norm, LMT_JSON_OBJECT) ? complaint ("require", "an object", norm)
                                                               : check_needs (scenario, number, step, ops[k].needs);
  return why != NULL || norm == NULL ? why : check_norm (scenario, number, norm);
}

static char *
check_key (const LmtJson *key)
{
  const char *hex = is_of (key, LMT_JSON_OBJECT) ? kit_scenario_get_text (key, "chunk_hash") : NULL;
  if (hex == NULL || strlen (hex) % 2 != 0 || strspn (hex, "0123456789abcdef") != strlen (hex))
    return complaint ("chunk_hash", "pairs of small hex digits", key);
  if (kit_scenario_get_text (key, "model_name") == NULL || kit_scenario_get_text (key, "cache_salt") == NULL)
    return complaint ("key", "model_name and cache_salt", key);
  const char *model = kit_scenario_get_text (key, "model_name"), *salt = kit_scenario_get_text (key, "cache_salt");
  const LmtKeyFields fields = { .struct_size = sizeof fields,
                                .model = model,
                                .model_len = (guint32)strlen (model),
                                .salt = salt,
                                .salt_len = (guint32)strlen (salt) };
  const char *broken = lmt_key_fields_check (&fields);
  return broken != NULL ? g_strdup_printf ("key: expected fields that make a key, found that %s", broken) : NULL;
}

static char *
check_scenario (const LmtJson *scenario)
{
  static const char *const objects[] = { "keys", "buffers", "options" };
  char *why = NULL;
  if (kit_scenario_get_text (scenario, "name") == NULL)
    return complaint ("name", "a text", lmt_json_get_member (scenario, "name"));
  if (!is_of (lmt_json_get_member (scenario, "steps"), LMT_JSON_ARRAY))
    return complaint ("steps", "a list", lmt_json_get_member (scenario, "steps"));
  for (guint i = 0; i < G_N_ELEMENTS (objects); i++)
    {
      const LmtJson *member = lmt_json_get_member (scenario, objects[i]);
      if (!is_of (member, LMT_JSON_OBJECT) && (member != NULL || i == 0))
        return complaint (objects[i], "an object", member);
    }
  const LmtJson *keys = lmt_json_get_member (scenario, "keys"), *buffers = lmt_json_get_member (scenario, "buffers");
  for (guint i = 0; i < lmt_json_get_length (keys) && why == NULL; i++)
    why = check_key (lmt_json_get_member_value (keys, i));
  for (guint i = 0; buffers != NULL && i < lmt_json_get_length (buffers) && why == NULL; i++)
    {
      const LmtJson *buffer = lmt_json_get_member_value (buffers, i);
      if (!is_of (buffer, LMT_JSON_OBJECT) || !is_size (scenario, lmt_json_get_member (buffer, "size")))
        why = complaint ("buffers", "a size, at most 1073741824", buffer);
    }
  for (guint i = 0; i < kit_scenario_get_length (scenario, "requires") && why == NULL; i++)
    if (!is_of (kit_scenario_get_element (scenario, "requires", i), LMT_JSON_STRING))
      why = complaint ("requires", "names of capabilities", lmt_json_get_member (scenario, "requires"));
  return why;
}

char *
kit_scenario_check_file (const LmtJson *scenario)
{
  char *why = check_scenario (scenario);
  const LmtJson *steps = lmt_json_get_member (scenario, "steps");
  for (guint i = 0; why == NULL && i < lmt_json_get_length (steps); i++)
    {
      g_autofree char *step = check_step (scenario, i, lmt_json_get_element (steps, i));
      if (step != NULL)
        why = g_strdup_printf ("step %u: %s", i, step);
    }
  return why;
}
