// SPDX-License-Identifier: Apache-2.0
/* Batches: every probe of golden scalar_leniency.json in both forms, every recorded case, limits, memory, repeated members. */
#include "golden.h"

#include <math.h>

/* ---- the leniency table ---- */

/* A good batch, with @value as @level's @field. */
static char *
batch_text (const char *level, const char *field, const char *value)
{
  static const char *const batch[] = { "instance_id", "\"i\"", "incarnation", "1",       "seq",      "1", "event_type",
                                       "\"store\"",   "tier",  "\"l1\"",      "backend", "\"dram\"", NULL };
  static const char *const key[] = { "chunk_hash_hex", "\"00ff\"", "model_name", "\"m\"", "kv_rank", "1", NULL };
  GString *const out = g_string_new ("{");

  for (guint i = 0; batch[i] != NULL; i += 2)
    if (!(g_str_equal (level, "batch") && g_str_equal (batch[i], field)))
      g_string_append_printf (out, "\"%s\":%s,", batch[i], batch[i + 1]);
  if (g_str_equal (level, "batch"))
    g_string_append_printf (out, "\"%s\":%s,", field, value);
  g_string_append (out, "\"entries\":[{\"key\":{");
  for (guint i = 0; key[i] != NULL; i += 2)
    if (!(g_str_equal (level, "key") && g_str_equal (key[i], field)))
      g_string_append_printf (out, "\"%s\":%s,", key[i], key[i + 1]);
  if (g_str_equal (level, "key"))
    g_string_append_printf (out, "\"%s\":%s,", field, value);
  g_string_truncate (out, out->len - 1);
  g_string_append_c (out, '}');
  if (g_str_equal (level, "entry"))
    g_string_append_printf (out, ",\"%s\":%s", field, value);
  g_string_append (out, "}]}");
  return g_string_free (out, FALSE);
}

static void
assert_int (gint64 found, guint32 huge, const char *taken)
{
  g_autofree char *text = g_strdup_printf ("%" G_GINT64_FORMAT, found);

  if (found == G_MAXINT64 && huge)
    g_assert_true (strlen (taken) > 19 || (strlen (taken) == 19 && strcmp (taken, "9223372036854775807") > 0));
  else
    g_assert_cmpstr (text, ==, taken);
}

static void
assert_text (LmtSpan found, const char *taken)
{
  g_autoptr (LmtJson) json = lmt_json_parse (taken, -1, NULL);

  g_assert_cmpmem (found.data, found.len, lmt_json_get_string (json), lmt_json_get_string_len (json));
}

static void
assert_taken (const EventsBatch *batch, const char *level, const char *field, const char *taken)
{
  const EventsEntry *const entry = batch->entries;
  const struct
  {
    const char *name;
    gint64 value;
  } ints[] = { { "seq", batch->seq },
               { "incarnation", batch->incarnation },
               { "capacity_bytes", batch->capacity_bytes },
               { "capacity_revision", batch->capacity_revision },
               { "size_bytes", entry->size_bytes },
               { "token_offset", entry->token_offset },
               { "kv_rank", entry->key.kv_rank },
               { "object_group_id", entry->key.group } };
  const struct
  {
    const char *name;
    LmtSpan value;
  } texts[] = { { "instance_id", batch->instance },
                { "backend", batch->backend },
                { "model_name", entry->key.model },
                { "cache_salt", entry->key.salt },
                { "chunk_hash_hex", entry->key.hash_text } };

  for (guint i = 0; i < G_N_ELEMENTS (ints); i++)
    if (g_str_equal (field, ints[i].name))
      {
        assert_int (ints[i].value, batch->huge, taken);
        return;
      }
  for (guint i = 0; i < G_N_ELEMENTS (texts); i++)
    if (g_str_equal (field, texts[i].name))
      {
        assert_text (texts[i].value, taken);
        return;
      }
  if (g_str_equal (field, "ts") && g_str_equal (taken, "NaN"))
    g_assert_true (isnan (batch->ts));
  else if (g_str_equal (field, "ts"))
    g_assert_cmpfloat (batch->ts, ==, g_str_equal (taken, "Infinity") ? HUGE_VAL : g_ascii_strtod (taken, NULL));
  else if (g_str_equal (field, "shared"))
    g_assert_cmpstr (batch->shared ? "true" : "false", ==, taken);
  else if (g_str_equal (field, "event_type"))
    assert_text ((LmtSpan){ (const guint8 *)events_kind_words[batch->kind], strlen (events_kind_words[batch->kind]) }, taken);
  else if (g_str_equal (field, "tier"))
    assert_text ((LmtSpan){ (const guint8 *)events_tier_words[batch->tier], strlen (events_tier_words[batch->tier]) }, taken);
  else
    {
      g_autoptr (LmtJson) list = lmt_json_parse (taken, -1, NULL);
      g_assert_cmpstr (level, ==, "entry");
      g_assert_cmpstr (field, ==, "token_ids");
      g_assert_cmpuint (entry->n_tokens, ==, lmt_json_get_length (list));
      for (guint i = 0; i < entry->n_tokens && entry->tokens_valid; i++)
        g_assert_cmpint (entry->token_ids[i], ==, lmt_json_get_int (lmt_json_get_element (list, i)));
      for (guint i = 0; i < entry->n_tokens && !entry->tokens_valid; i++)
        {
          const LmtJson *const id = lmt_json_get_element (list, i);
          g_assert_true (lmt_json_get_double (id) < 0 || lmt_json_get_double (id) > G_MAXUINT32);
        }
    }
}

/* Numbers beyond 64 bits are in no trace. */
static gboolean
fits_msgpack (const char *sent)
{
  const char *digits = sent;
  gsize longest = 0, run = 0;

  for (; *digits != '\0'; digits++)
    {
      run = g_ascii_isdigit (*digits) ? run + 1 : 0;
      longest = MAX (longest, run);
    }
  return sent[0] == '"' || longest < 20;
}

static void
check_probe (const LmtJson *probe, EventsArena *arena, EventsProblems *problems, guint *n_packed)
{
  const char *const level = text_of (probe, "level"), *const field = text_of (probe, "field");
  const char *const sent = text_of (probe, "sent_json"), *const taken = text_of (probe, "taken_as_json");
  const char *const refused = text_of (probe, "refused");
  g_autofree char *batch_json = batch_text (level, field, sent);
  g_autofree char *body = g_strdup_printf ("{\"batches\":[%s]}", batch_json);
  EventsBatch *batches, batch;
  guint32 n;

  g_test_message ("%s %s %.60s", level, field, sent);
  events_arena_reset (arena);
  const EventsBodyResult result = events_batches_from_body (body, strlen (body), NULL, arena, &batches, &n, problems);
  g_assert_cmpint (result, ==, refused != NULL ? EVENTS_BODY_INVALID : EVENTS_BODY_OK);
  if (refused != NULL)
    g_assert_cmpstr (first_problem (problems)->type, ==, refused);
  else
    {
      g_assert_cmpuint (n, ==, 1);
      assert_taken (batches, level, field, taken);
    }

  if (!fits_msgpack (sent))
    return;
  g_autoptr (LmtJson) json = lmt_json_parse (batch_json, -1, NULL);
  g_autoptr (GByteArray) packed = g_byte_array_new ();
  g_assert_nonnull (json);
  g_assert_true (pack_json (packed, json));
  events_arena_reset (arena);
  const gboolean good = events_batch_from_args ((LmtSpan){ packed->data, packed->len }, NULL, arena, &batch, problems);
  g_assert_cmpint (good, ==, refused == NULL);
  if (refused != NULL)
    g_assert_cmpstr (first_problem (problems)->type, ==, refused);
  else
    assert_taken (&batch, level, field, taken);
  ++*n_packed;
}

static void
test_leniency (void)
{
  g_autoptr (LmtJson) golden = load_json ("scalar_leniency.json");
  const LmtJson *const probes = lmt_json_get_member (golden, "request_fields");
  EventsArena *const arena = events_arena_new (0);
  EventsProblems problems;
  guint n_packed = 0;

  events_problems_init (&problems, 100);
  g_assert_cmpuint (lmt_json_get_length (probes), ==, 377);
  for (guint i = 0; i < lmt_json_get_length (probes); i++)
    check_probe (lmt_json_get_element (probes, i), arena, &problems, &n_packed);
  g_assert_cmpuint (n_packed, >, 340);
  events_problems_clear (&problems);
  events_arena_free (arena);
}

/* What a coordinator answers, read as LMCache's client reads it. */
static void
test_replies (void)
{
  typedef struct
  {
    gint64 applied, duplicates, stale;
  } Reply;
  static const EventsField fields[] = {
    { .name = "applied", .want = EVENTS_WANT_INT, .offset = offsetof (Reply, applied), .seen_offset = G_MAXUINT32 },
    { .name = "duplicates", .want = EVENTS_WANT_INT, .offset = offsetof (Reply, duplicates), .seen_offset = G_MAXUINT32 },
    { .name = "stale", .want = EVENTS_WANT_INT, .offset = offsetof (Reply, stale), .seen_offset = G_MAXUINT32 },
  };
  g_autoptr (LmtJson) golden = load_json ("scalar_leniency.json");
  const LmtJson *const replies = lmt_json_get_member (golden, "events_replies");
  EventsArena *const arena = events_arena_new (0);
  EventsProblems problems;

  events_problems_init (&problems, 100);
  for (guint i = 0; i < lmt_json_get_length (replies); i++)
    {
      const LmtJson *const probe = lmt_json_get_element (replies, i);
      const char *const text = text_of (probe, "reply_json"), *const refused = text_of (probe, "refused");
      Reply reply = { 0 };

      g_test_message ("%s", text);
      const EventsBodyResult result
          = events_object_from_body (text, strlen (text), fields, G_N_ELEMENTS (fields), &reply, arena, &problems);
      g_assert_cmpint (result, ==, refused != NULL ? EVENTS_BODY_INVALID : EVENTS_BODY_OK);
      if (refused != NULL)
        {
          /* A client's model says `model_type` where a body's says `model_attributes_type`. */
          if (!g_str_equal (refused, "model_type"))
            g_assert_cmpstr (first_problem (&problems)->type, ==, refused);
          continue;
        }
      const LmtJson *const read_as = lmt_json_get_member (probe, "read_as");
      g_assert_cmpint (reply.applied, ==, lmt_json_get_int (lmt_json_get_member (read_as, "applied")));
      g_assert_cmpint (reply.duplicates, ==, lmt_json_get_int (lmt_json_get_member (read_as, "duplicates")));
      g_assert_cmpint (reply.stale, ==, lmt_json_get_int (lmt_json_get_member (read_as, "stale")));
    }
  events_problems_clear (&problems);
  events_arena_free (arena);
}

/* ---- what no golden file holds ---- */

typedef struct
{
  EventsArena *arena;
  EventsProblems problems;
  EventsBatch *batches;
  guint32 n;
} Body;

static void
body_begin (Body *body, gsize memory)
{
  body->arena = events_arena_new (memory);
  events_problems_init (&body->problems, 100);
}

static void
body_end (Body *body)
{
  events_problems_clear (&body->problems);
  events_arena_free (body->arena);
}

static EventsBodyResult
read_body (Body *body, const char *text, const EventsLimits *limits)
{
  events_arena_reset (body->arena);
  return events_batches_from_body (text, strlen (text), limits, body->arena, &body->batches, &body->n, &body->problems);
}

#define BATCH_HEAD                                                                                                               \
  "\"instance_id\":\"i\",\"incarnation\":1,\"seq\":1,\"event_type\":\"store\",\"tier\":\"l1\",\"backend\":\"dram\""
#define BATCH_KEY "\"key\":{\"chunk_hash_hex\":\"00\",\"model_name\":\"m\",\"kv_rank\":1}"

static char *
repeat (const char *before, const char *text, guint times, const char *behind)
{
  GString *const out = g_string_new (before);

  for (guint i = 0; i < times; i++)
    g_string_append_printf (out, "%s%s", i > 0 ? "," : "", text);
  g_string_append (out, behind);
  return g_string_free (out, FALSE);
}

static void
test_limits (void)
{
  static const EventsLimits limits = { .max_entries = 5, .max_tokens = 7, .max_string = 10, .max_depth = 8 };
  Body body;

  body_begin (&body, 0);
  for (guint n = 4; n <= 6; n++)
    {
      g_autofree char *text = repeat ("{\"batches\":[{" BATCH_HEAD ",\"entries\":[", "{" BATCH_KEY "}", n, "]}]}");
      g_assert_cmpint (read_body (&body, text, &limits), ==, n <= 5 ? EVENTS_BODY_OK : EVENTS_BODY_INVALID);
      if (n > 5)
        {
          g_assert_cmpstr (first_problem (&body.problems)->type, ==, "too_long");
          g_assert_cmpstr (first_problem (&body.problems)->loc, ==, "[\"body\",\"batches\",0,\"entries\"]");
        }
      else
        g_assert_cmpuint (body.batches[0].n_entries, ==, n);
    }
  for (guint n = 6; n <= 8; n++)
    {
      g_autofree char *text
          = repeat ("{\"batches\":[{" BATCH_HEAD ",\"entries\":[{" BATCH_KEY ",\"token_ids\":[", "1", n, "]}]}]}");
      g_assert_cmpint (read_body (&body, text, &limits), ==, n <= 7 ? EVENTS_BODY_OK : EVENTS_BODY_INVALID);
      if (n > 7)
        g_assert_cmpstr (first_problem (&body.problems)->loc, ==, "[\"body\",\"batches\",0,\"entries\",0,\"token_ids\"]");
    }
  g_assert_cmpint (read_body (&body, "{\"batches\":[{\"instance_id\":\"0123456789\"," BATCH_HEAD "}]}", &limits), ==,
                   EVENTS_BODY_OK);
  g_assert_cmpint (read_body (&body, "{\"batches\":[{" BATCH_HEAD ",\"instance_id\":\"0123456789a\"}]}", &limits), ==,
                   EVENTS_BODY_INVALID);
  g_assert_cmpstr (first_problem (&body.problems)->type, ==, "string_too_long");
  /* In what is passed over, too. */
  g_assert_cmpint (read_body (&body, "{\"x\":[[[[[[[1]]]]]]]}", &limits), ==, EVENTS_BODY_OK);
  g_assert_cmpint (read_body (&body, "{\"x\":[[[[[[[[1]]]]]]]]}", &limits), ==, EVENTS_BODY_BROKEN);
  g_assert_cmpint (read_body (&body, "{\"batches\":[{\"seq\":[[[[[[1]]]]]]}]}", &limits), ==, EVENTS_BODY_BROKEN);
  body_end (&body);
}

/* The arena's limit is the memory of a request: no body makes it more. */
static void
test_memory (void)
{
  g_autofree char *tokens
      = repeat ("{\"batches\":[{" BATCH_HEAD ",\"entries\":[{" BATCH_KEY ",\"token_ids\":[", "1", 900000, "]}]}]}");
  g_autofree char *entries = repeat ("{\"batches\":[{" BATCH_HEAD ",\"entries\":[", "{" BATCH_KEY "}", 30000, "]}]}");
  g_autofree char *batches = repeat ("{\"batches\":[", "{" BATCH_HEAD "}", 30000, "]}");
  g_autofree char *escapes = repeat ("{\"batches\":[{\"instance_id\":\"", "\\n", 300000, "\"}]}");
  const char *const texts[] = { tokens, entries, batches, escapes };
  Body body;

  for (guint i = 0; i < G_N_ELEMENTS (texts); i++)
    {
      body_begin (&body, 256 * 1024);
      g_assert_cmpint (read_body (&body, texts[i], NULL), ==, EVENTS_BODY_TOO_BIG);
      g_assert_cmpint (read_body (&body, "{\"batches\":[{" BATCH_HEAD "}]}", NULL), ==, EVENTS_BODY_OK);
      body_end (&body);
    }
  body_begin (&body, 0);
  g_assert_cmpint (read_body (&body, tokens, NULL), ==, EVENTS_BODY_OK);
  g_assert_cmpuint (body.batches[0].entries[0].n_tokens, ==, 900000);
  g_assert_cmpint (read_body (&body, entries, NULL), ==, EVENTS_BODY_OK);
  g_assert_cmpuint (body.batches[0].n_entries, ==, 30000);
  g_assert_cmpint (read_body (&body, batches, NULL), ==, EVENTS_BODY_OK);
  g_assert_cmpuint (body.n, ==, 30000);
  body_end (&body);
}

/* The last one of equal names counts, and what the first ones had wrong doesn't. */
static void
test_repeated (void)
{
  static const char *const good[] = {
    "{\"batches\":[{\"seq\":\"x\"," BATCH_HEAD "}]}",
    "{\"batches\":[{\"seq\":null,\"seq\":[],\"tier\":5," BATCH_HEAD "}]}",
    "{\"batches\":7,\"batches\":[{" BATCH_HEAD "}]}",
    "{\"batches\":[{},5,[]],\"batches\":[{" BATCH_HEAD "}]}",
    "{\"batches\":[{\"entries\":[5,{}]," BATCH_HEAD ",\"entries\":[{" BATCH_KEY "}]}]}",
    "{\"batches\":[{" BATCH_HEAD ",\"entries\":[{\"key\":{}," BATCH_KEY "}]}]}",
    "{\"batches\":[{" BATCH_HEAD ",\"entries\":[{" BATCH_KEY ",\"token_ids\":[\"x\",2],\"token_ids\":[1,2]}]}]}",
    "{\"batches\":[{" BATCH_HEAD
    ",\"entries\":[{\"key\":{\"chunk_hash_hex\":\"zz\",\"model_name\":\"m\",\"kv_rank\":1}}],\"entries\":[]}]}",
  };
  g_autofree char *many
      = repeat ("{\"batches\":[{\"entries\":[", "{}", 400, "]," BATCH_HEAD ",\"entries\":[{" BATCH_KEY ",\"token_ids\":[3]}]}]}");
  g_autofree char *last = repeat ("{\"batches\":[{" BATCH_HEAD ",\"entries\":[{" BATCH_KEY ",\"token_ids\":[3]}]},{\"entries\":[",
                                  "{}", 400, "]," BATCH_HEAD ",\"entries\":[{" BATCH_KEY "}]}]}");
  Body body;

  body_begin (&body, 0);
  for (guint i = 0; i < G_N_ELEMENTS (good); i++)
    {
      g_test_message ("%s", good[i]);
      g_assert_cmpint (read_body (&body, good[i], NULL), ==, EVENTS_BODY_OK);
      g_assert_cmpuint (body.problems.total, ==, 0);
      g_assert_cmpuint (body.n, ==, 1);
      g_assert_cmpint (body.batches[0].seq, ==, 1);
    }
  g_assert_cmpint (read_body (&body, many, NULL), ==, EVENTS_BODY_OK);
  g_assert_cmpuint (body.batches[0].n_entries, ==, 1);
  g_assert_cmpuint (body.batches[0].entries[0].token_ids[0], ==, 3);
  g_assert_cmpint (read_body (&body, last, NULL), ==, EVENTS_BODY_OK);
  g_assert_cmpuint (body.n, ==, 2);
  g_assert_cmpuint (body.batches[0].entries[0].token_ids[0], ==, 3);
  g_assert_cmpuint (body.batches[1].n_entries, ==, 1);
  g_assert_cmpint (read_body (&body, "{\"batches\":[{" BATCH_HEAD ",\"seq\":\"x\"}]}", NULL), ==, EVENTS_BODY_INVALID);
  g_assert_cmpint (read_body (&body, "{\"batches\":[{" BATCH_HEAD "}],\"batches\":null}", NULL), ==, EVENTS_BODY_INVALID);
  body_end (&body);
}

/* All are counted, some are kept; a long input is cut to one JSON string. */
static void
test_many_problems (void)
{
  g_autofree char *text = repeat ("{\"batches\":[", "{\"seq\":0}", 1000, "]}");
  g_autofree char *wide = g_strnfill (5000, 'w');
  g_autofree char *long_input = g_strdup_printf ("{\"batches\":[{" BATCH_HEAD ",\"seq\":\"%s\"}]}", wide);
  g_autofree char *said = NULL;
  Body body;

  body_begin (&body, 0);
  g_assert_cmpint (read_body (&body, text, NULL), ==, EVENTS_BODY_INVALID);
  g_assert_cmpuint (body.problems.total, ==, 5000);
  g_assert_cmpuint (body.problems.items->len, ==, 100);
  g_assert_cmpstr (first_problem (&body.problems)->loc, ==, "[\"body\",\"batches\",0,\"instance_id\"]");
  g_assert_cmpint (read_body (&body, long_input, NULL), ==, EVENTS_BODY_INVALID);
  g_assert_cmpuint (strlen (first_problem (&body.problems)->input), <, 1100);
  g_autoptr (LmtJson) input = lmt_json_parse (first_problem (&body.problems)->input, -1, NULL);
  g_assert_cmpint (lmt_json_get_type (input), ==, LMT_JSON_STRING);
  said = events_problems_describe (&body.problems);
  g_assert_true (g_str_has_prefix (said, "batches.0.seq: Input should be a valid integer, "));
  g_assert_cmpuint (strlen (said), <, 300);
  g_free (said);
  g_assert_cmpint (read_body (&body, "{\"batches\":[}", NULL), ==, EVENTS_BODY_INVALID);
  said = events_problems_describe (&body.problems);
  g_assert_cmpstr (said, ==, "no JSON: Expecting value at character 12");
  g_assert_cmpint (read_body (&body, "{\"batches\":[{" BATCH_HEAD ",\"ts\":NaN,\"seq\":NaN}]}", NULL), ==, EVENTS_BODY_INVALID);
  g_assert_cmpstr (first_problem (&body.problems)->input, ==, "\"NaN\"");
  body_end (&body);
}

static void
test_encoding (void)
{
  Body body;

  body_begin (&body, 0);
  g_assert_cmpint (read_body (&body, "{\"x\":\"\xFF\"}", NULL), ==, EVENTS_BODY_BROKEN);
  g_assert_cmpint (read_body (&body, "{\"x\":\"\xED\xA0\x80\"}", NULL), ==, EVENTS_BODY_BROKEN);
  g_assert_cmpint (read_body (&body, "\xEF\xBB\xBF{}", NULL), ==, EVENTS_BODY_OK);
  g_assert_cmpint (read_body (&body, "\x1F\x8B\x08", NULL), ==, EVENTS_BODY_BROKEN);
  g_assert_cmpint (read_body (&body, "", NULL), ==, EVENTS_BODY_INVALID);
  g_assert_cmpstr (first_problem (&body.problems)->type, ==, "missing");
  for (const char *const *field = (const char *const[]){ "instance_id", "backend", "event_type", "tier", NULL }; *field != NULL;
       field++)
    {
      g_autofree char *text = g_strdup_printf ("{\"batches\":[{" BATCH_HEAD ",\"%s\":\"\\udfff\"}]}", *field);
      g_assert_cmpint (read_body (&body, text, NULL), ==, EVENTS_BODY_INVALID);
      if (field[0][0] == 'i' || field[0][0] == 'b')
        g_assert_cmpstr (first_problem (&body.problems)->type, ==, "string_unicode");
    }
  body_end (&body);
}

/* LMCache 0.5.6 knows no `dropped_events`. */
static void
test_dropped_events (void)
{
  static const EventsLimits old = { .no_dropped_events = TRUE };
  Body body;

  body_begin (&body, 0);
  g_assert_cmpint (read_body (&body, "{\"batches\":[{" BATCH_HEAD ",\"dropped_events\":\"12\"}]}", NULL), ==, EVENTS_BODY_OK);
  g_assert_cmpint (body.batches[0].dropped_events, ==, 12);
  g_assert_cmpint (read_body (&body, "{\"batches\":[{" BATCH_HEAD ",\"dropped_events\":-1}]}", NULL), ==, EVENTS_BODY_INVALID);
  g_assert_cmpint (read_body (&body, "{\"batches\":[{" BATCH_HEAD ",\"dropped_events\":-1}]}", &old), ==, EVENTS_BODY_OK);
  g_assert_cmpint (body.batches[0].dropped_events, ==, 0);
  body_end (&body);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/events/batch/leniency", test_leniency);
  g_test_add_func ("/events/batch/replies", test_replies);
  g_test_add_func ("/events/batch/limits", test_limits);
  g_test_add_func ("/events/batch/memory", test_memory);
  g_test_add_func ("/events/batch/repeated", test_repeated);
  g_test_add_func ("/events/batch/many-problems", test_many_problems);
  g_test_add_func ("/events/batch/encoding", test_encoding);
  g_test_add_func ("/events/batch/dropped-events", test_dropped_events);
  return g_test_run ();
}
