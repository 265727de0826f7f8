/* SPDX-License-Identifier: Apache-2.0 */
#include "lmt-select.h"

#include <math.h>
#include <string.h>

typedef struct
{
  gboolean wall; /* compare with t_wall, else with t_mono */
  gboolean open;
  double seconds;
} SelectBound;

typedef struct
{
  guint64 low;
  guint64 high;
} SelectSpan;

typedef struct
{
  guint8 *bytes;
  guint nibbles;
} SelectPrefix;

struct _LmtSelect
{
  gboolean has_time;
  SelectBound from;
  SelectBound to;
  SelectSpan records;
  char **qualname;
  char **model;
  char **salt;
  char **instance;
  char **backend;
  char **tier;       /* words, not globs */
  char **event_type; /* words */
  GArray *rank;      /* SelectSpan; NULL: not given */
  GArray *group;
  GArray *key; /* SelectPrefix */
  gboolean has_sample;
  guint64 sample_below; /* of 2^64; G_MAXUINT64 keeps all */
  guint64 sample_seed;
  double session_gap_s; /* 0: no sessions */
  guint64 sessions_below;
  guint64 session; /* number of the one the last record was in */
  double session_last_s;
  gboolean empty;
};

const LmtOption lmt_select_options[] = {
#define SELECT_OPTION(kind, name, member, arg, help)                                                                             \
  LMT_OPTION_FULL (kind, name, LmtSelectConfig, member, 0, NULL, NULL, arg, help, "Selection")
  SELECT_OPTION (RANGE, "time", time, "RANGE",
                 "Take records from START to END: seconds or +12s from the start, 50% of the span, @EPOCH, ISO 8601 with zone"),
  SELECT_OPTION (RANGE, "records", records, "RANGE", "Take records number START to END, counted from 1"),
  SELECT_OPTION (STRINGS, "qualname", qualname, "GLOB", "Take records of this name; !GLOB leaves them out"),
  SELECT_OPTION (STRINGS, "model", model, "GLOB", "Take keys of this model; !GLOB leaves them out"),
  SELECT_OPTION (STRINGS, "salt", salt, "GLOB", "Take keys of this cache salt; !GLOB leaves them out"),
  SELECT_OPTION (STRING, "rank", rank, "LIST", "Take keys of these ranks: 0,2 or 0..3, hexadecimal with 0x"),
  SELECT_OPTION (STRING, "group", group, "LIST", "Take keys of these object groups: 0,2 or 0..3"),
  SELECT_OPTION (STRINGS, "instance", instance, "GLOB", "Take events of this instance; !GLOB leaves them out"),
  SELECT_OPTION (STRING, "tier", tier, "LIST", "Take events of these tiers, names parted by commas"),
  SELECT_OPTION (STRINGS, "backend", backend, "GLOB", "Take events of this backend; !GLOB leaves them out"),
  SELECT_OPTION (STRING, "event-type", event_type, "LIST", "Take events of these types, names parted by commas"),
  SELECT_OPTION (STRINGS, "key", key, "HEXPREFIX", "Take keys whose chunk hash begins so"),
  SELECT_OPTION (STRING, "sample", sample, "F[:SEED]",
                 "Take this share of the keys, chosen by their hash, so that reuse is kept"),
  SELECT_OPTION (DURATION, "session-gap", session_gap_ns, "DUR",
                 "Begin a new session after an idle time of this length, in seconds"),
  LMT_OPTION_FULL (FRACTION, "sample-sessions", LmtSelectConfig, sample_sessions, 0, NULL, "(0..1]", "F",
                   "Take this share of the sessions that --session-gap makes", "Selection"),
#undef SELECT_OPTION
  LMT_OPTION_END,
};

static gboolean
select_fail (GError **error, const char *option, const char *expected, const char *found)
{
  g_set_error (error, LMT_ERROR, LMT_ERROR_OPTION, "--%s: expected %s, found \"%s\"", option, expected, found);
  return FALSE;
}

/* START..END; the first `..` parts them. */
static gboolean
select_split_range (const char *text, char **low, char **high)
{
  const char *const dots = strstr (text, "..");
  if (dots == NULL)
    return FALSE;
  *low = g_strndup (text, (gsize)(dots - text));
  *high = g_strdup (dots + 2);
  return TRUE;
}

static gboolean
select_parse_bound (const char *text, double span_s, SelectBound *bound, GError **error)
{
  LmtTimeValue value;

  bound->open = *text == '\0';
  if (bound->open)
    return TRUE;
  if (!lmt_parse_time (text, &value, error))
    {
      g_prefix_error (error, "--time: ");
      return FALSE;
    }
  bound->wall = value.kind == LMT_TIME_EPOCH_S;
  switch (value.kind)
    {
    case LMT_TIME_EPOCH_S:
      bound->seconds = value.epoch_s;
      return TRUE;
    case LMT_TIME_FRACTION:
      if (span_s < 0)
        return select_fail (error, "time", "a time that needs no look at the end of the input", text);
      bound->seconds = value.fraction * span_s;
      return TRUE;
    case LMT_TIME_FROM_START_NS:
    default:
      bound->seconds = (double)value.ns / 1e9;
      return TRUE;
    }
}

static gboolean
select_parse_time (LmtSelect *select, const char *text, double span_s, GError **error)
{
  g_autofree char *low = NULL;
  g_autofree char *high = NULL;

  if (!select_split_range (text, &low, &high))
    return select_fail (error, "time", "a range (START..END, either may be empty)", text);
  if (!select_parse_bound (low, span_s, &select->from, error) || !select_parse_bound (high, span_s, &select->to, error))
    return FALSE;
  if (!select->from.open && !select->to.open && select->from.wall == select->to.wall && select->from.seconds > select->to.seconds)
    return select_fail (error, "time", "a range that does not end before it starts", text);
  select->has_time = TRUE;
  return TRUE;
}

static gboolean
select_parse_number (const char *text, guint64 *value)
{
  if (g_str_has_prefix (text, "0x"))
    return g_ascii_string_to_unsigned (text + 2, 16, 0, G_MAXUINT64, value, NULL);
  return lmt_parse_uint (text, value, NULL);
}

static gboolean
select_parse_span (const char *text, SelectSpan *span)
{
  g_autofree char *low = NULL;
  g_autofree char *high = NULL;

  if (!select_split_range (text, &low, &high))
    {
      if (!select_parse_number (text, &span->low))
        return FALSE;
      span->high = span->low;
      return TRUE;
    }
  span->low = 0;
  span->high = G_MAXUINT64;
  return (*low == '\0' || select_parse_number (low, &span->low)) && (*high == '\0' || select_parse_number (high, &span->high))
         && span->low <= span->high;
}

static gboolean
select_parse_records (LmtSelect *select, const char *text, GError **error)
{
  if (strstr (text, "..") == NULL || !select_parse_span (text, &select->records))
    return select_fail (error, "records", "a range of record numbers (START..END, either may be empty)", text);
  return TRUE;
}

static gboolean
select_parse_list (const char *option, const char *text, GArray **list, GError **error)
{
  if (text == NULL)
    return TRUE;
  g_auto (GStrv) words = g_strsplit (text, ",", -1);
  *list = g_array_new (FALSE, FALSE, sizeof (SelectSpan));
  for (guint i = 0; words[i] != NULL; i++)
    {
      SelectSpan span = { 0 };
      if (!select_parse_span (words[i], &span))
        return select_fail (error, option, "a list of numbers (0,2 or 0..3)", text);
      g_array_append_val (*list, span);
    }
  return (*list)->len > 0 || select_fail (error, option, "a list of numbers (0,2 or 0..3)", text);
}

static gboolean
select_parse_words (const char *option, const char *text, char ***list, GError **error)
{
  if (text == NULL)
    return TRUE;
  *list = g_strsplit (text, ",", -1);
  for (guint i = 0; (*list)[i] != NULL; i++)
    if (*(*list)[i] == '\0')
      return select_fail (error, option, "names parted by commas", text);
  return **list != NULL || select_fail (error, option, "names parted by commas", text);
}

static gboolean
select_parse_keys (LmtSelect *select, char **texts, GError **error)
{
  if (texts == NULL)
    return TRUE;
  select->key = g_array_new (FALSE, FALSE, sizeof (SelectPrefix));
  for (guint i = 0; texts[i] != NULL; i++)
    {
      const char *const digits = g_str_has_prefix (texts[i], "0x") ? texts[i] + 2 : texts[i];
      const gsize n = strlen (digits);
      if (n == 0 || n > 1024 || strspn (digits, "0123456789abcdefABCDEF") != n)
        return select_fail (error, "key", "the first hexadecimal digits of a chunk hash", texts[i]);
      SelectPrefix prefix = { .bytes = g_malloc0 ((n + 1) / 2), .nibbles = (guint)n };
      for (gsize k = 0; k < n; k++)
        prefix.bytes[k / 2] |= (guint8)(g_ascii_xdigit_value (digits[k]) << (k % 2 == 0 ? 4 : 0));
      g_array_append_val (select->key, prefix);
    }
  return TRUE;
}

/* Of 2^64 hashes so many are kept. */
static guint64
select_threshold (double fraction)
{
  return fraction >= 1 ? G_MAXUINT64 : (guint64)ldexp (fraction, 64);
}

static gboolean
select_parse_sample (LmtSelect *select, const char *text, GError **error)
{
  static const char form[] = "a share above 0 and at most 1, with a seed if wanted (0.1, 5%, 0.1:7)";
  double fraction = 0;

  if (text == NULL)
    return TRUE;
  g_auto (GStrv) parts = g_strsplit (text, ":", 2);
  if (parts[0] == NULL || !lmt_parse_fraction (parts[0], &fraction, NULL) || fraction <= 0 || fraction > 1
      || (parts[1] != NULL && !lmt_parse_uint (parts[1], &select->sample_seed, NULL)))
    return select_fail (error, "sample", form, text);
  select->has_sample = TRUE;
  select->sample_below = select_threshold (fraction);
  return TRUE;
}

static gboolean
select_parse_sessions (LmtSelect *select, const LmtSelectConfig *config, GError **error)
{
  if (config->session_gap_ns == 0 && config->sample_sessions == 0)
    return TRUE;
  if (config->session_gap_ns == 0 || config->sample_sessions == 0)
    {
      g_set_error (error, LMT_ERROR, LMT_ERROR_OPTION, "--%s: expected together with --%s",
                   config->session_gap_ns == 0 ? "sample-sessions" : "session-gap",
                   config->session_gap_ns == 0 ? "session-gap" : "sample-sessions");
      return FALSE;
    }
  select->session_gap_s = (double)config->session_gap_ns / 1e9;
  select->sessions_below = select_threshold (config->sample_sessions);
  select->session_last_s = NAN;
  return TRUE;
}

LmtSelect *
lmt_select_new (const LmtSelectConfig *config, const LmtHeader *header, double span_s, GError **error)
{
  g_return_val_if_fail (config != NULL, NULL);

  g_autoptr (LmtSelect) select = g_new0 (LmtSelect, 1);
  select->records.high = G_MAXUINT64;
  select->qualname = g_strdupv (config->qualname);
  select->model = g_strdupv (config->model);
  select->salt = g_strdupv (config->salt);
  select->instance = g_strdupv (config->instance);
  select->backend = g_strdupv (config->backend);
  if ((config->time != NULL && !select_parse_time (select, config->time, span_s, error))
      || (config->records != NULL && !select_parse_records (select, config->records, error))
      || !select_parse_list ("rank", config->rank, &select->rank, error)
      || !select_parse_list ("group", config->group, &select->group, error)
      || !select_parse_words ("tier", config->tier, &select->tier, error)
      || !select_parse_words ("event-type", config->event_type, &select->event_type, error)
      || !select_parse_keys (select, config->key, error) || !select_parse_sample (select, config->sample, error)
      || !select_parse_sessions (select, config, error))
    return NULL;
  select->empty = config->time == NULL && config->records == NULL && select->qualname == NULL && select->session_gap_s == 0
                  && !lmt_select_wants_keys (select);
  return g_steal_pointer (&select);
}

void
lmt_select_free (LmtSelect *select)
{
  if (select == NULL)
    return;
  g_strfreev (select->qualname);
  g_strfreev (select->model);
  g_strfreev (select->salt);
  g_strfreev (select->instance);
  g_strfreev (select->backend);
  g_strfreev (select->tier);
  g_strfreev (select->event_type);
  g_clear_pointer (&select->rank, g_array_unref);
  g_clear_pointer (&select->group, g_array_unref);
  for (guint i = 0; select->key != NULL && i < select->key->len; i++)
    g_free (g_array_index (select->key, SelectPrefix, i).bytes);
  g_clear_pointer (&select->key, g_array_unref);
  g_free (select);
}

gboolean
lmt_select_is_empty (const LmtSelect *select)
{
  return select->empty;
}

gboolean
lmt_select_wants_keys (const LmtSelect *select)
{
  return select->model != NULL || select->salt != NULL || select->rank != NULL || select->group != NULL || select->key != NULL
         || select->has_sample || select->instance != NULL || select->tier != NULL || select->backend != NULL
         || select->event_type != NULL;
}

gboolean
lmt_select_wants_span (const LmtSelectConfig *config)
{
  return config->time != NULL && strchr (config->time, '%') != NULL;
}

/* `*` any run, `?` one code point; everything else itself. No allocation, no recursion. */
static gboolean
select_glob (const char *glob, const char *text, gsize len)
{
  const char *p = text;
  const char *const end = text + len;
  const char *star = NULL;
  const char *star_text = NULL;

  while (p < end)
    {
      if (*glob == '*')
        {
          star = ++glob;
          star_text = p;
        }
      else if (*glob == '?')
        {
          glob++;
          p++;
          while (p < end && ((guchar)*p & 0xC0) == 0x80)
            p++;
        }
      else if (*glob == *p && *glob != '\0')
        {
          glob++;
          p++;
        }
      else if (star != NULL)
        {
          glob = star;
          p = ++star_text;
        }
      else
        return FALSE;
    }
  while (*glob == '*')
    glob++;
  return *glob == '\0';
}

/* Any of the globs, if there is one without `!`; none of those with it. */
static gboolean
select_globs (char *const *globs, const char *text, gsize len)
{
  gboolean wanted = FALSE;
  gboolean found = FALSE;

  if (globs == NULL)
    return TRUE;
  for (; *globs != NULL; globs++)
    {
      if (**globs == '!')
        {
          if (select_glob (*globs + 1, text, len))
            return FALSE;
          continue;
        }
      wanted = TRUE;
      found = found || select_glob (*globs, text, len);
    }
  return found || !wanted;
}

static gboolean
select_in_list (const GArray *list, guint64 value)
{
  if (list == NULL)
    return TRUE;
  for (guint i = 0; i < list->len; i++)
    {
      const SelectSpan *const span = &g_array_index (list, SelectSpan, i);
      if (value >= span->low && value <= span->high)
        return TRUE;
    }
  return FALSE;
}

static guint64
select_mix (guint64 z)
{
  z ^= z >> 30;
  z *= G_GUINT64_CONSTANT (0xBF58476D1CE4E5B9);
  z ^= z >> 27;
  z *= G_GUINT64_CONSTANT (0x94D049BB133111EB);
  return z ^ z >> 31;
}

void
lmt_select_rewind (LmtSelect *select)
{
  select->session = 0;
  select->session_last_s = NAN;
}

static gboolean
select_session (LmtSelect *select, double t)
{
  const double idle = t - select->session_last_s;

  /* Time that goes backwards (a loop's next round) is another session too. */
  if (isnan (select->session_last_s) || idle > select->session_gap_s || idle < 0)
    select->session++;
  select->session_last_s = t;
  return select->sessions_below == G_MAXUINT64
         || select_mix (select->session * G_GUINT64_CONSTANT (0x9E3779B97F4A7C15)) < select->sessions_below;
}

gboolean
lmt_select_record (LmtSelect *select, const LmtRecord *record)
{
  if (select->session_gap_s > 0 && lmt_time_is_usable (record->t_mono) && !select_session (select, record->t_mono))
    return FALSE;
  if (record->number < select->records.low || record->number > select->records.high)
    return FALSE;
  if (select->has_time)
    {
      const double from = select->from.wall ? record->t_wall : record->t_mono;
      const double to = select->to.wall ? record->t_wall : record->t_mono;
      /* A NaN lies in no range. */
      if ((!select->from.open && !(from >= select->from.seconds)) || (!select->to.open && !(to <= select->to.seconds)))
        return FALSE;
    }
  return select_globs (select->qualname, (const char *)record->qualname.data, record->qualname.len);
}

static guint64
select_hash_bytes (guint64 hash, const void *bytes, gsize len)
{
  const guint8 *const p = bytes;
  for (gsize i = 0; i < len; i++)
    hash = (hash ^ p[i]) * G_GUINT64_CONSTANT (0x100000001B3);
  /* The length, so that neighbouring fields don't run together. */
  return (hash ^ len) * G_GUINT64_CONSTANT (0x100000001B3);
}

static gboolean
select_sampled (const LmtSelect *select, const LmtKeyFields *key)
{
  guint64 hash = G_GUINT64_CONSTANT (0xCBF29CE484222325) ^ select_mix (select->sample_seed);
  hash = select_hash_bytes (hash, key->hash, key->hash_len);
  hash = select_hash_bytes (hash, key->model, key->model_len);
  hash = select_hash_bytes (hash, key->salt, key->salt_len);
  hash = select_mix (hash ^ select_mix (key->rank) ^ key->group);
  return select->sample_below == G_MAXUINT64 || hash < select->sample_below;
}

static gboolean
select_has_prefix (const LmtSelect *select, const LmtKeyFields *key)
{
  if (select->key == NULL)
    return TRUE;
  for (guint i = 0; i < select->key->len; i++)
    {
      const SelectPrefix *const prefix = &g_array_index (select->key, SelectPrefix, i);
      const guint whole = prefix->nibbles / 2;
      if (key->hash_len * 2 < prefix->nibbles || (whole > 0 && memcmp (key->hash, prefix->bytes, whole) != 0))
        continue;
      if (prefix->nibbles % 2 == 0 || (key->hash[whole] & 0xF0) == prefix->bytes[whole])
        return TRUE;
    }
  return FALSE;
}

gboolean
lmt_select_key (const LmtSelect *select, const LmtKeyFields *key)
{
  return select_globs (select->model, key->model, key->model_len) && select_globs (select->salt, key->salt, key->salt_len)
         && select_in_list (select->rank, key->rank) && select_in_list (select->group, key->group)
         && select_has_prefix (select, key) && (!select->has_sample || select_sampled (select, key));
}

gboolean
lmt_select_word (const LmtSelect *select, const char *kind, const char *word, gsize len)
{
  char *const *words = NULL;

  if (strcmp (kind, "instance") == 0)
    return select_globs (select->instance, word, len);
  if (strcmp (kind, "backend") == 0)
    return select_globs (select->backend, word, len);
  if (strcmp (kind, "tier") == 0)
    words = select->tier;
  else if (strcmp (kind, "event-type") == 0)
    words = select->event_type;
  else
    g_return_val_if_reached (TRUE);
  if (words == NULL)
    return TRUE;
  for (; *words != NULL; words++)
    if (strlen (*words) == len && memcmp (*words, word, len) == 0)
      return TRUE;
  return FALSE;
}
