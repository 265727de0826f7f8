/* SPDX-License-Identifier: Apache-2.0 */
/* Bodies of requests: whatever they are, an answer that is JSON, and values that lie inside of the body or the arena. */
#include "fuzz.h"

#include "events-batch.h"

#include <string.h>

static gsize seen; /* keeps the reads alive */

static void
touch (LmtSpan span)
{
  for (gsize i = 0; i < span.len; i++)
    seen += span.data[i];
}

static void
touch_batch (const EventsBatch *batch)
{
  g_assert_true (batch->instance.len > 0 && batch->seq >= 1 && batch->incarnation >= 0);
  g_assert_true (batch->kind < EVENTS_N_KINDS && batch->tier < EVENTS_N_TIERS);
  touch (batch->instance);
  touch (batch->backend);
  for (guint32 i = 0; i < batch->n_entries; i++)
    {
      const EventsEntry *const entry = &batch->entries[i];
      g_assert_true (entry->key.hash.data != NULL && entry->key.group >= 0 && entry->size_bytes >= 0);
      touch (entry->key.hash);
      touch (entry->key.hash_text);
      touch (entry->key.model);
      touch (entry->key.salt);
      g_assert_true ((entry->token_ids != NULL) == (entry->n_tokens > 0 && entry->tokens_valid));
      for (guint32 k = 0; entry->token_ids != NULL && k < entry->n_tokens; k++)
        seen += entry->token_ids[k];
    }
}

static void
check_problems (const EventsProblems *problems)
{
  g_autofree char *said = events_problems_describe (problems);

  g_assert_cmpuint (problems->total, >, 0);
  g_assert_cmpuint (problems->items->len, ==, MIN (problems->total, problems->max));
  g_assert_true (g_utf8_validate (said, -1, NULL));
  for (guint i = 0; i < problems->items->len; i++)
    {
      const EventsProblem *const problem = &g_array_index (problems->items, EventsProblem, i);
      g_autoptr (LmtJson) loc = lmt_json_parse (problem->loc, -1, NULL);
      EventsJson json;
      EventsScalar value;

      g_assert_true (loc != NULL && lmt_json_get_type (loc) == LMT_JSON_ARRAY);
      events_json_init (&json, problem->input, strlen (problem->input), NULL, 0);
      events_json_next (&json, &value);
      g_assert_true (events_json_skip (&json, &value, NULL) && events_json_at_end (&json) && !json.words);
    }
}

typedef struct
{
  LmtSpan keys, tokens, metadata, text;
  gint64 number;
  double real;
  gboolean flag;
  guint32 seen;
} Values;

static void
read_object (const char *body, gsize size, EventsArena *arena, EventsProblems *problems)
{
  static const EventsField fields[] = {
    { .name = "keys", .want = EVENTS_WANT_RAW, .offset = offsetof (Values, keys), .seen_offset = G_MAXUINT32 },
    { .name = "token_ids", .want = EVENTS_WANT_RAW, .offset = offsetof (Values, tokens), .seen_offset = G_MAXUINT32 },
    { .name = "metadata", .want = EVENTS_WANT_RAW, .offset = offsetof (Values, metadata), .seen_offset = G_MAXUINT32 },
    { .name = "ip",
      .want = EVENTS_WANT_STRING,
      .trim = 1,
      .min_length = 1,
      .required = 1,
      .offset = offsetof (Values, text),
      .seen_offset = offsetof (Values, seen) },
    { .name = "http_port",
      .want = EVENTS_WANT_INT,
      .has_min = 1,
      .has_max = 1,
      .min = 1,
      .max = 65535,
      .offset = offsetof (Values, number),
      .seen_offset = G_MAXUINT32 },
    { .name = "limit_gb",
      .want = EVENTS_WANT_FLOAT,
      .nullable = 1,
      .has_min = 1,
      .offset = offsetof (Values, real),
      .seen_offset = G_MAXUINT32 },
    { .name = "force", .want = EVENTS_WANT_BOOL, .offset = offsetof (Values, flag), .seen_offset = G_MAXUINT32 },
  };
  Values values = { 0 };
  EventsPair *pairs;
  EventsKey *keys;
  gint64 *ints;
  guint32 n;

  switch (events_object_from_body (body, size, fields, G_N_ELEMENTS (fields), &values, arena, problems))
    {
    case EVENTS_BODY_OK:
      g_assert_true (values.seen == 2 && values.text.len > 0);
      touch (values.text);
      events_keys_from_raw (values.keys, "keys", NULL, arena, &keys, &n, problems);
      for (guint32 i = 0; i < n && problems->total == 0; i++)
        touch (keys[i].hash);
      events_ints_from_raw (values.tokens, "token_ids", NULL, arena, &ints, &n, problems);
      for (guint32 i = 0; i < n; i++)
        seen += (gsize)ints[i];
      events_pairs_from_raw (values.metadata, "metadata", NULL, arena, &pairs, &n, problems);
      for (guint32 i = 0; i < n; i++)
        {
          touch (pairs[i].name);
          touch (pairs[i].value);
        }
      if (problems->total > 0)
        check_problems (problems);
      break;
    case EVENTS_BODY_INVALID:
      check_problems (problems);
      break;
    default:
      break;
    }
}

int
LLVMFuzzerTestOneInput (const guint8 *data, gsize size)
{
  EventsArena *const arena = events_arena_new (64 * 1024 * 1024);
  EventsProblems problems;
  EventsBatch *batches;
  guint32 n;

  events_problems_init (&problems, 20);
  switch (events_batches_from_body ((const char *)data, size, NULL, arena, &batches, &n, &problems))
    {
    case EVENTS_BODY_OK:
      for (guint32 i = 0; i < n; i++)
        touch_batch (&batches[i]);
      break;
    case EVENTS_BODY_INVALID:
      check_problems (&problems);
      break;
    default:
      break;
    }
  events_arena_reset (arena);
  read_object ((const char *)data, size, arena, &problems);
  events_problems_clear (&problems);
  events_arena_free (arena);
  return 0;
}
