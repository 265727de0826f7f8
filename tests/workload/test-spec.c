// SPDX-License-Identifier: Apache-2.0
/* Workload files: what is read, and what is said about what can't be. */
#include <string.h>

#include <lmtrace/lmt-option.h>

#include "work-source.h"
#include "work-spec.h"

#define MODEL "\"model\": {\"name\": \"m\", \"layers\": 2, \"kv_heads\": 4, \"head_dim\": 8, \"dtype\": \"float16\"}"
#define HEAD "{\"schema\": \"lmtrace/workload/1\", \"requests\": 10, "
#define ARRIVALS "\"arrivals\": {\"poisson\": 1}"
#define CLASSES "\"classes\": [{\"input_tokens\": 300}]"
#define GOOD HEAD MODEL ", " ARRIVALS ", " CLASSES "}"

static WorkSpec *
read_text (const char *text, GError **error)
{
  LmtJson *json = lmt_json_parse (text, -1, error);

  return json != NULL ? work_spec_new ("w.json", json, error) : NULL;
}

static void
test_good (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (WorkSpec) spec = read_text (GOOD, &error);

  g_assert_no_error (error);
  g_assert_cmpuint (spec->requests, ==, 10);
  g_assert_cmpuint (spec->threads, ==, 1);
  g_assert_cmpuint (spec->seed, ==, 0);
  g_assert_false (spec->real_clock);
  g_assert_cmpuint (spec->shape.chunk_tokens, ==, 256);
  g_assert_cmpuint (spec->shape.n_groups, ==, 1);
  g_assert_cmpint (spec->shape.groups[0].window_chunks, ==, -1);
  /* 2 x layers x kv_heads x head_dim x chunk_tokens x dtype size */
  g_assert_cmpuint (spec->shape.groups[0].object_bytes, ==, 2 * 2 * 4 * 8 * 256 * 2);
  g_assert_cmpuint (spec->classes[0].users, ==, 10000);
  g_assert_cmpstr (spec->classes[0].salt, ==, "");
}

static void
test_shape (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (WorkSpec) spec = read_text (
      HEAD "\"model\": {\"name\": \"m\", \"layers\": 6, \"kv_heads\": 4, \"head_dim\": 8, \"dtype\": \"torch.float32\", "
           "\"chunk_tokens\": 100, \"world_size\": 2, \"groups\": [{\"layers\": 2}, {\"window\": 250, \"layers\": 4}]}, " ARRIVALS
           ", " CLASSES "}",
      &error);

  g_assert_no_error (error);
  g_assert_cmpuint (spec->shape.n_groups, ==, 2);
  g_assert_cmpuint (spec->shape.groups[0].object_bytes, ==, 2 * 2 * 2 * 8 * 100 * 4);
  g_assert_cmpuint (spec->shape.groups[1].object_bytes, ==, 2 * 4 * 2 * 8 * 100 * 4);
  g_assert_cmpint (spec->shape.groups[1].window_chunks, ==, 3);
  /* trace-format 4: world << 24 | rank << 16 | world << 8 | rank */
  g_assert_cmphex (work_shape_rank (&spec->shape, 1), ==, 0x02010201);
}

#define X50 "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
typedef struct
{
  const char *text;
  const char *message; /* w.json: ... */
} Bad;

static const Bad bad[] = {
  { "[]", "expected an object, found an array" },
  { "{}", "schema: expected a value, found nothing" },
  { "{\"schema\": \"lmtrace/workload/2\"}", "schema: expected \"lmtrace/workload/1\", found \"lmtrace/workload/2\"" },
  { HEAD "\"request\": 3}",
    "unknown key \"request\": expected one of schema, description, seed, duration, requests, clock, model, arrivals, classes, "
    "threads, manager" },
  { "{\"schema\": \"lmtrace/workload/1\", \"seed\": 1, \"seed\": 2}", "seed: stands twice" },
  { "{\"a\\nb\\u00e4\": 1}",
    "unknown key \"a\\nb\\u00e4\": expected one of schema, description, seed, duration, requests, clock, model, "
    "arrivals, classes, threads, manager" },
  { "{\"" X50 X50 "\": 1}",
    "unknown key \"" X50 "xxxxxxx...\": expected one of schema, description, seed, duration, requests, clock, "
    "model, arrivals, classes, threads, manager" },
  { "{\"schema\": \"lmtrace/workload/1\", \"seed\": -1}",
    "seed: expected a whole number from 0 to 9223372036854775807, as in 1000 or \"10k\", found -1" },
  { "{\"schema\": \"lmtrace/workload/1\", \"duration\": \"ten\"}",
    "duration: expected a duration from 0 to 1e9 s, as in 1.5 (seconds) or \"250ms\", found \"ten\"" },
  { "{\"schema\": \"lmtrace/workload/1\", \"duration\": 0}", "duration: expected a duration above 0, found 0" },
  { "{\"schema\": \"lmtrace/workload/1\", \"clock\": \"wall\"}", "clock: expected one of virtual, real, found \"wall\"" },
  { "{\"schema\": \"lmtrace/workload/1\", \"threads\": 0}",
    "threads: expected a whole number from 1 to 1024, as in 1000 or \"10k\", found 0" },
  { HEAD ARRIVALS ", " CLASSES "}", "model: expected a value, found nothing" },
  { HEAD "\"model\": {\"name\": \"a@b\"}}", "model.name: model_name contains @" },
  { HEAD "\"model\": {\"name\": \"\"}}", "model.name: expected a name, found an empty one" },
  { HEAD "\"model\": {\"name\": \"m\", \"layers\": 2, \"kv_heads\": 4, \"head_dim\": 8, \"dtype\": \"float17\"}}",
    "model.dtype: expected a dtype of torch, as in \"bfloat16\", found \"float17\"" },
  { HEAD
    "\"model\": {\"name\": \"m\", \"layers\": 2, \"kv_heads\": 4, \"head_dim\": 8, \"dtype\": \"float16\", \"world_size\": 3}}",
    "model.world_size: expected a divisor of kv_heads (4), found 3" },
  { HEAD "\"model\": {\"name\": \"m\", \"layers\": 2, \"kv_heads\": 4, \"head_dim\": 8, \"dtype\": \"float16\", \"groups\": "
         "[{\"layers\": 1}]}}",
    "model.groups: expected groups of 2 layers together, found 1" },
  { HEAD "\"model\": {\"name\": \"m\", \"layers\": 2, \"kv_heads\": 4, \"head_dim\": 8, \"dtype\": \"float16\", \"groups\": "
         "[{\"layers\": 2, \"window\": 0}]}}",
    "model.groups[0].window: expected tokens, at least 1, or -1 for full attention, found 0" },
  { HEAD "\"model\": {\"name\": \"m\", \"layers\": 2, \"kv_heads\": 4, \"head_dim\": 8, \"dtype\": \"float16\", \"heads\": 2}}",
    "model: unknown key \"heads\": expected one of name, layers, kv_heads, head_dim, dtype, chunk_tokens, world_size, groups" },
  { HEAD MODEL ", " CLASSES "}", "arrivals: expected a value, found nothing" },
  { HEAD MODEL ", \"arrivals\": {\"poisson\": 0}}", "arrivals.poisson: expected a number from 1e-09 to 1000000.0, found 0" },
  { HEAD MODEL ", \"arrivals\": {}}", "arrivals: expected one of poisson, burst, diurnal" },
  { HEAD MODEL ", \"arrivals\": {\"poisson\": 1, \"burst\": {}}}", "arrivals: expected one of poisson, burst, diurnal" },
  { HEAD MODEL ", \"arrivals\": {\"burst\": {\"rate\": 1, \"size\": 0}}}",
    "arrivals.burst.size: expected bursts of at least one session" },
  { HEAD MODEL ", \"arrivals\": {\"diurnal\": {\"mean\": 1, \"peak\": 3, \"period\": \"1d\"}}}",
    "arrivals.diurnal.peak: expected from mean to twice the mean: the rate swings as far below as above, found 3" },
  { HEAD MODEL ", " ARRIVALS "}", "classes: expected a value, found nothing" },
  { HEAD MODEL ", " ARRIVALS ", \"classes\": []}", "classes: expected an array of 1 to 256 classes, found an array" },
  { HEAD MODEL ", " ARRIVALS ", \"classes\": [{}]}", "classes[0].input_tokens: expected a value, found nothing" },
  { HEAD MODEL ", " ARRIVALS ", \"classes\": [{\"input_tokens\": 1}, {\"input\": 1}]}",
    "classes[1]: unknown key \"input\": expected one of name, weight, salt, users, turns, think_time, shared_prefix_tokens, "
    "documents, input_tokens, output_tokens" },
  { HEAD MODEL ", " ARRIVALS ", \"classes\": [{\"weight\": 0, \"input_tokens\": 1}]}",
    "classes: expected a weight above 0, found none" },
  { HEAD MODEL ", " ARRIVALS ", \"classes\": [{\"salt\": \"a/b\", \"input_tokens\": 1}]}",
    "classes[0].salt: cache_salt contains /" },
  { HEAD MODEL ", " ARRIVALS ", \"classes\": [{\"turns\": {\"uniform\": [3, 2]}, \"input_tokens\": 1}]}",
    "classes[0].turns.uniform: expected two whole numbers, the lower bound first" },
  { HEAD MODEL ", " ARRIVALS ", \"classes\": [{\"turns\": {\"uniform\": [3]}, \"input_tokens\": 1}]}",
    "classes[0].turns.uniform: expected [a, b]: the bounds, found an array" },
  { HEAD MODEL ", " ARRIVALS ", \"classes\": [{\"turns\": {\"normal\": [3, 2]}, \"input_tokens\": 1}]}",
    "classes[0].turns: unknown key \"normal\": expected one of fixed, uniform, lognormal, zipf, values" },
  { HEAD MODEL ", " ARRIVALS ", \"classes\": [{\"turns\": {\"fixed\": 3, \"zipf\": [2, 1]}, \"input_tokens\": 1}]}",
    "classes[0].turns: expected one of fixed, uniform, lognormal, zipf, values" },
  { HEAD MODEL ", " ARRIVALS ", \"classes\": [{\"turns\": {\"values\": [[1, 0]]}, \"input_tokens\": 1}]}",
    "classes[0].turns.values: expected a weight above 0, found none" },
  { HEAD MODEL ", " ARRIVALS ", \"classes\": [{\"turns\": {\"values\": [[1, 1], 2]}, \"input_tokens\": 1}]}",
    "classes[0].turns.values[1]: expected [value, weight], found 2" },
  { HEAD MODEL ", " ARRIVALS ", \"classes\": [{\"think_time\": {\"zipf\": [10, 1]}, \"input_tokens\": 1}]}",
    "classes[0].think_time.zipf: expected fixed, uniform, lognormal or values: a rank is no time" },
  { HEAD MODEL ", " ARRIVALS ", \"classes\": [{\"input_tokens\": {\"lognormal\": [100, -1]}}]}",
    "classes[0].input_tokens.lognormal[1]: expected a number from 0.0 to 10.0, found -1" },
  { HEAD MODEL ", " ARRIVALS ", \"classes\": [{\"input_tokens\": 1, \"documents\": {\"zipf\": [0, 1], \"tokens\": 2}}]}",
    "classes[0].documents.zipf[0]: expected a whole number from 1 to 1000000000000, as in 1000 or \"10k\", found 0" },
  { HEAD MODEL ", " ARRIVALS ", \"classes\": [{\"input_tokens\": 1, \"documents\": 3}]}",
    "classes[0].documents: expected an object, found 3" },
  { HEAD MODEL ", " ARRIVALS ", \"classes\": [{\"input_tokens\": 1, \"shared_prefix_tokens\": {\"zipf\": [3, 1]}}]}",
    "classes[0].shared_prefix_tokens: expected tokens beside zipf: how long the prefixes are" },
  { HEAD MODEL ", " ARRIVALS ", " CLASSES ", \"manager\": []}", "manager: expected an object, found an array" },
  { HEAD MODEL ", " ARRIVALS ", " CLASSES ", \"manager\": {\"l1-size\": \"1GiB\", \"l1-size\": 3}}", "l1-size: stands twice" },
};

static void
test_bad (void)
{
  for (guint i = 0; i < G_N_ELEMENTS (bad); i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (WorkSpec) spec = read_text (bad[i].text, &error);
      g_autofree char *message = g_strdup_printf ("w.json: %s", bad[i].message);

      g_test_message ("%s", bad[i].text);
      g_assert_null (spec);
      g_assert_error (error, LMT_ERROR, LMT_ERROR_OPTION);
      g_assert_cmpstr (error->message, ==, message);
    }
}

/* The hashes of LMCache: H0 = blake3 (int64be (0) || u32be (0)), Hn = blake3 (Hn-1 || tokens, u32be). */
static void
test_chain (void)
{
  WorkChain whole;
  WorkChain pieces;
  WorkRandom stream = work_random_stream (1, WORK_FOR_INPUT, 0, 0);
  WorkRandom copy = stream;
  guint8 expected[32];
  guint8 input[32 + 4 * 4];

  work_chain_init (&whole, 4, 100);
  work_chain_init (&pieces, 4, 100);
  memset (input, 0, 12);
  lmt_blake3 (input, 12, expected);
  work_chain_add (&whole, stream, 11);
  work_chain_add (&pieces, stream, 11);
  g_assert_cmpuint (whole.hashes->len, ==, 2 * 32);
  for (guint chunk = 0; chunk < 2; chunk++)
    {
      memcpy (input, expected, 32);
      for (guint i = 0; i < 4; i++)
        {
          guint32 token = GUINT32_TO_BE ((guint32)(work_random_next (&copy) >> 47));

          memcpy (input + 32 + 4 * i, &token, 4);
        }
      lmt_blake3 (input, sizeof input, expected);
      g_assert_cmpmem (whole.hashes->data + 32 * chunk, 32, expected, 32);
    }
  /* What comes later goes on in the chunk that is not full. */
  work_chain_add (&whole, work_random_stream (1, WORK_FOR_OUTPUT, 0, 0), 2);
  work_chain_add (&pieces, work_random_stream (1, WORK_FOR_OUTPUT, 0, 0), 1);
  g_assert_cmpuint (whole.hashes->len, ==, 3 * 32);
  g_assert_cmpuint (pieces.hashes->len, ==, 3 * 32);
  g_assert_cmpmem (whole.hashes->data, 96, pieces.hashes->data, 96);
  g_assert_false (whole.full);
  work_chain_add (&whole, stream, 400);
  g_assert_true (whole.full);
  g_assert_cmpuint (whole.hashes->len, ==, 3 * 32);
  work_chain_clear (&whole);
  work_chain_clear (&pieces);
}

/* ---------------- the source ---------------- */

typedef struct
{
  guint64 n;
  gint64 last_ns;
  GHashTable *first; /* first chunks that were seen */
} Seen;

/* Takes @n requests, each done @took_ns after it was due. */
static Seen
take_many (WorkSource *source, guint n, gint64 took_ns)
{
  Seen seen = { 0, 0, g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL) };

  while (seen.n < n)
    {
      gint64 due_ns = source->peek (source);
      WorkRequest request;

      g_assert_cmpint (due_ns, !=, G_MAXINT64);
      if (!source->take (source, &request))
        continue;
      g_assert_cmpint (request.due_ns, ==, due_ns);
      g_assert_cmpint (request.due_ns, >=, took_ns == 0 ? seen.last_ns : 0);
      g_assert_cmpuint (request.n_prompt, <=, request.n_all);
      seen.last_ns = request.due_ns;
      if (request.n_all > 0)
        g_hash_table_add (seen.first,
                          g_strdup_printf ("%016" G_GINT64_MODIFIER "x", *(const guint64 *)(gconstpointer)request.hashes));
      seen.n++;
      source->done (source, &request, request.due_ns + took_ns);
    }
  return seen;
}

static Seen
take_from (const char *arrivals, const char *classes, guint n)
{
  g_autofree char *text = g_strdup_printf (HEAD MODEL ", \"arrivals\": %s, \"classes\": [%s]}", arrivals, classes);
  g_autoptr (GError) error = NULL;
  g_autoptr (WorkSpec) spec = read_text (text, &error);
  WorkSource *source;
  Seen seen;

  g_assert_no_error (error);
  source = work_synth_new (spec);
  seen = take_many (source, n, 0);
  work_source_free (source);
  return seen;
}

/* The mean rate is the one asked for, whatever the process. */
static void
test_rates (void)
{
  static const char *const arrivals[] = { "{\"poisson\": 5}", "{\"burst\": {\"rate\": 5, \"size\": {\"uniform\": [1, 9]}}}",
                                          "{\"diurnal\": {\"mean\": 5, \"peak\": 9, \"period\": \"10s\"}}" };

  for (guint i = 0; i < G_N_ELEMENTS (arrivals); i++)
    {
      Seen seen = take_from (arrivals[i], "{\"input_tokens\": 10}", 20000);

      g_assert_cmpfloat (20000.0 / ((double)seen.last_ns / 1e9), >, 4.75);
      g_assert_cmpfloat (20000.0 / ((double)seen.last_ns / 1e9), <, 5.25);
      g_hash_table_unref (seen.first);
    }
}

/* Prefixes are few, and shared; without them no two sessions begin alike. */
static void
test_prefixes (void)
{
  Seen shared = take_from (
      "{\"poisson\": 5}",
      "{\"shared_prefix_tokens\": {\"zipf\": [4, 0.5], \"tokens\": {\"uniform\": [256, 600]}}, \"input_tokens\": 10}", 500);
  Seen alone = take_from ("{\"poisson\": 5}", "{\"input_tokens\": 256}", 500);
  Seen documents
      = take_from ("{\"poisson\": 5}", "{\"documents\": {\"zipf\": [7, 0], \"tokens\": 300}, \"input_tokens\": 10}", 500);

  g_assert_cmpuint (g_hash_table_size (shared.first), ==, 4);
  g_assert_cmpuint (g_hash_table_size (alone.first), ==, 500);
  g_assert_cmpuint (g_hash_table_size (documents.first), ==, 7);
  g_hash_table_unref (shared.first);
  g_hash_table_unref (alone.first);
  g_hash_table_unref (documents.first);
}

/* A session's turns: each prompt begins with the whole of what came before, after the time to think. */
static void
test_turns (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (WorkSpec) spec
      = read_text (HEAD MODEL ", \"arrivals\": {\"poisson\": 0.000001}, \"classes\": [{\"turns\": 5, \"think_time\": \"2s\", "
                              "\"input_tokens\": 512, \"output_tokens\": 256}]}",
                   &error);
  WorkSource *source = work_synth_new (spec);
  guint8 before[32] = { 0 };
  gint64 start_ns = 0;

  g_assert_no_error (error);
  for (guint turn = 0; turn < 5; turn++)
    {
      WorkRequest request;
      g_autofree char *id = g_strdup_printf ("s0.%u", turn);

      source->peek (source);
      g_assert_true (source->take (source, &request));
      g_assert_cmpstr (request.id, ==, id);
      g_assert_cmpuint (request.n_prompt, ==, 3 * turn + 2);
      g_assert_cmpuint (request.n_all, ==, 3 * turn + 3);
      if (turn == 0)
        start_ns = request.due_ns;
      else
        g_assert_cmpmem (request.hashes + 32 * (3 * turn - 1), 32, before, 32);
      g_assert_cmpint (request.due_ns, ==, start_ns + turn * G_GINT64_CONSTANT (3000000000));
      memcpy (before, request.hashes + 32 * (request.n_all - 1), 32);
      source->done (source, &request, request.due_ns + G_GINT64_CONSTANT (1000000000));
    }
  g_assert_cmpuint (work_synth_get_figures (source)->sessions, ==, 1);
  work_source_free (source);
}

/* All users busy: who comes is turned away, and counted. */
static void
test_users (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (WorkSpec) spec
      = read_text (HEAD MODEL ", \"arrivals\": {\"poisson\": 10}, \"classes\": [{\"users\": 3, \"input_tokens\": 10}]}", &error);
  WorkSource *source = work_synth_new (spec);
  WorkRequest requests[3];
  guint n = 0;

  g_assert_no_error (error);
  for (guint i = 0; i < 50; i++)
    {
      WorkRequest request;

      source->peek (source);
      if (source->take (source, &request))
        {
          g_assert_cmpuint (n, <, 3);
          requests[n++] = request;
        }
    }
  g_assert_cmpuint (n, ==, 3);
  g_assert_cmpuint (work_synth_get_figures (source)->turned_away, ==, 47);
  source->done (source, &requests[1], 0);
  g_assert_true (source->take (source, &requests[1]));
  work_source_free (source);
}

/* A context that grows beyond what one request may name ends its session. */
static void
test_cut (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (WorkSpec) spec = read_text (
      HEAD "\"model\": {\"name\": \"m\", \"layers\": 1, \"kv_heads\": 1, \"head_dim\": 1, \"dtype\": \"int8\", "
           "\"chunk_tokens\": 1}, \"arrivals\": {\"poisson\": 0.000001}, \"classes\": [{\"turns\": 9, \"input_tokens\": 30000}]}",
      &error);
  WorkSource *source = work_synth_new (spec);
  WorkRequest request;

  g_assert_no_error (error);
  for (guint i = 0; i < 2; i++)
    {
      g_assert_true (source->take (source, &request));
      source->done (source, &request, request.due_ns);
    }
  g_assert_false (source->take (source, &request));
  g_assert_cmpuint (work_synth_get_figures (source)->cut, ==, 1);
  work_source_free (source);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/workload/spec/good", test_good);
  g_test_add_func ("/workload/spec/shape", test_shape);
  g_test_add_func ("/workload/spec/bad", test_bad);
  g_test_add_func ("/workload/source/chain", test_chain);
  g_test_add_func ("/workload/source/rates", test_rates);
  g_test_add_func ("/workload/source/prefixes", test_prefixes);
  g_test_add_func ("/workload/source/turns", test_turns);
  g_test_add_func ("/workload/source/users", test_users);
  g_test_add_func ("/workload/source/cut", test_cut);
  return g_test_run ();
}
