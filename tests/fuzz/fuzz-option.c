/* SPDX-License-Identifier: Apache-2.0 */
/* A configuration object, a value of each kind, a line of words: refused with a message or taken; what was taken can be said
 * again. */
#include "fuzz.h"

#include <math.h>
#include <string.h>

typedef struct
{
  char *path;
  guint32 direct;
  guint64 depth;
  double ratio;
  guint64 size;
  gint64 close_ns;
  guint64 count;
  double share;
  char *engine;
  char **nodes;
  char *eviction;
  char *time;
  char *json;
} FuzzConfig;

static const LmtOption table[] = {
  LMT_OPTION_FULL (STRING, "path", FuzzConfig, path, 0, NULL, "nonempty", NULL, "Path", NULL),
  LMT_OPTION_FULL (BOOL, "direct", FuzzConfig, direct, LMT_OPTION_NEGATABLE, NULL, NULL, NULL, "Direct", NULL),
  LMT_OPTION (UINT, "depth", FuzzConfig, depth, "64", "1..1024", "Depth"),
  LMT_OPTION (DOUBLE, "ratio", FuzzConfig, ratio, NULL, "(0..1]", "Ratio"),
  LMT_OPTION (SIZE, "size", FuzzConfig, size, NULL, NULL, "Size"),
  LMT_OPTION (DURATION, "close", FuzzConfig, close_ns, "30", "0..1h", "Close"),
  LMT_OPTION (COUNT, "count", FuzzConfig, count, NULL, NULL, "Count"),
  LMT_OPTION (FRACTION, "share", FuzzConfig, share, NULL, NULL, "Share"),
  LMT_OPTION (CHOICE, "engine", FuzzConfig, engine, "auto", "auto|sync", "Engine"),
  LMT_OPTION (STRINGS, "nodes", FuzzConfig, nodes, NULL, NULL, "Nodes"),
  LMT_OPTION_FULL (JSON, "eviction", FuzzConfig, eviction, LMT_OPTION_NULLABLE, NULL, NULL, NULL, "Eviction", NULL),
  LMT_OPTION (RANGE, "time", FuzzConfig, time, NULL, NULL, "Time"),
  LMT_OPTION (OPT_STRING, "json", FuzzConfig, json, NULL, NULL, "JSON"),
  LMT_OPTION_END,
};

/* Within range, whatever the way it came in. */
static void
check_config (const FuzzConfig *config)
{
  g_assert_cmpuint (config->depth, >=, 1);
  g_assert_cmpuint (config->depth, <=, 1024);
  g_assert_true (isfinite (config->ratio) && config->ratio >= 0 && config->ratio <= 1);
  g_assert_true (isfinite (config->share) && config->share >= 0);
  g_assert_true (config->close_ns >= 0 && config->close_ns <= 3600 * G_GINT64_CONSTANT (1000000000));
  g_assert_true (strcmp (config->engine, "auto") == 0 || strcmp (config->engine, "sync") == 0);
  g_assert_true (config->path == NULL || *config->path != '\0');
  g_assert_true (config->direct <= 1);
}

static void
fuzz_object (const char *text)
{
  FuzzConfig config = { 0 };
  g_autoptr (GError) error = NULL;
  g_autoptr (LmtOptions) options = lmt_options_new ();

  lmt_options_add_table (options, table, &config);
  const gboolean taken = lmt_options_parse_json (options, text, NULL, "fuzz", &error);
  g_assert_true (taken == (error == NULL));
  if (!taken)
    g_assert_true (g_str_has_prefix (error->message, "fuzz: "));
  check_config (&config);

  g_autoptr (LmtJson) json = lmt_json_parse (text, -1, NULL);
  if (json == NULL)
    return;
  for (guint style = LMT_JSON_STYLE_INDENT; style <= LMT_JSON_STYLE_COMPACT; style++)
    {
      g_autofree char *again = lmt_json_to_text (json, (LmtJsonStyle)style, FALSE);
      g_autoptr (LmtJson) same = lmt_json_parse (again, -1, NULL);
      g_assert_true (same != NULL && lmt_json_equal (json, same));
    }
}

static void
fuzz_line (const char *text)
{
  for (guint strict = 0; strict < 2; strict++)
    {
      FuzzConfig config = { 0 };
      g_autoptr (GError) error = NULL;
      g_autoptr (LmtOptions) options = lmt_options_new ();
      g_auto (GStrv) words = g_strsplit_set (text, " \n", -1);
      char **operands = NULL;

      lmt_options_add_table (options, table, &config);
      const gboolean taken = lmt_options_parse_argv (options, (const char *const *)words, strict == 1, &operands, &error);
      g_assert_true (taken == (error == NULL) && taken == (operands != NULL));
      check_config (&config);
      g_strfreev (operands);
    }
}

static void
fuzz_values (const char *text)
{
  gint64 i = 0;
  guint64 u = 0;
  double d = 0;
  LmtTimeValue time = { 0 };

  lmt_parse_int (text, &i, NULL);
  lmt_parse_uint (text, &u, NULL);
  lmt_parse_size (text, FALSE, &u, NULL);
  lmt_parse_count (text, &u, NULL);
  if (lmt_parse_duration (text, &i, NULL))
    g_assert_cmpint (i, >=, 0);
  if (lmt_parse_double (text, &d, NULL) || lmt_parse_fraction (text, &d, NULL))
    g_assert_true (isfinite (d));
  if (lmt_parse_time (text, &time, NULL))
    g_assert_true (isfinite (time.epoch_s) && time.fraction >= 0 && time.fraction <= 1);
}

int
LLVMFuzzerTestOneInput (const guint8 *data, gsize size)
{
  g_autofree char *text = g_strndup ((const char *)data, size);

  fuzz_object (text);
  fuzz_line (text);
  fuzz_values (text);
  return 0;
}
