/* SPDX-License-Identifier: Apache-2.0 */
/* A record's args: what goes out as JSON is JSON, and comes in again as the same batch, or with the same problems. */
#include "fuzz.h"

#include "events-batch.h"

#include <string.h>

static void
assert_same_span (LmtSpan a, LmtSpan b)
{
  g_assert_cmpmem (a.data, a.len, b.data, b.len);
}

static void
assert_same_entry (const EventsEntry *a, const EventsEntry *b)
{
  assert_same_span (a->key.hash, b->key.hash);
  assert_same_span (a->key.hash_text, b->key.hash_text);
  assert_same_span (a->key.model, b->key.model);
  assert_same_span (a->key.salt, b->key.salt);
  g_assert_cmpint (a->key.kv_rank, ==, b->key.kv_rank);
  g_assert_cmpint (a->key.group, ==, b->key.group);
  g_assert_cmpint (a->size_bytes, ==, b->size_bytes);
  g_assert_cmpint (a->token_offset, ==, b->token_offset);
  g_assert_cmpuint (a->n_tokens, ==, b->n_tokens);
  g_assert_cmpuint (a->tokens_valid, ==, b->tokens_valid);
  if (a->token_ids != NULL)
    g_assert_cmpmem (a->token_ids, a->n_tokens * sizeof (guint32), b->token_ids, b->n_tokens * sizeof (guint32));
}

static void
assert_same (const EventsBatch *a, const EventsBatch *b)
{
  assert_same_span (a->instance, b->instance);
  assert_same_span (a->backend, b->backend);
  g_assert_cmpint (a->incarnation, ==, b->incarnation);
  g_assert_cmpint (a->seq, ==, b->seq);
  g_assert_cmpuint (a->kind, ==, b->kind);
  g_assert_cmpuint (a->tier, ==, b->tier);
  g_assert_cmpuint (a->shared, ==, b->shared);
  g_assert_true (a->ts == b->ts);
  g_assert_cmpint (a->capacity_bytes, ==, b->capacity_bytes);
  g_assert_cmpint (a->capacity_revision, ==, b->capacity_revision);
  g_assert_cmpint (a->dropped_events, ==, b->dropped_events);
  g_assert_cmpuint (a->n_entries, ==, b->n_entries);
  for (guint32 i = 0; i < a->n_entries; i++)
    assert_same_entry (&a->entries[i], &b->entries[i]);
}

static void
assert_same_problems (const EventsProblems *a, const EventsProblems *b)
{
  g_assert_cmpuint (a->total, ==, b->total);
  for (guint i = 0; i < a->items->len; i++)
    g_assert_cmpstr (g_array_index (a->items, EventsProblem, i).type, ==, g_array_index (b->items, EventsProblem, i).type);
}

int
LLVMFuzzerTestOneInput (const guint8 *data, gsize size)
{
  const LmtSpan args = { data, size };
  EventsArena *const arena = events_arena_new (64 * 1024 * 1024);
  EventsArena *const again = events_arena_new (64 * 1024 * 1024);
  g_autoptr (GString) body = g_string_new ("{\"batches\":[");
  const gsize before = body->len;
  EventsProblems problems, other;
  EventsBatch batch, *batches;
  const char *reason = NULL;
  LmtFault fault;
  gboolean good;
  guint32 n;

  events_problems_init (&problems, 20);
  events_problems_init (&other, 20);
  good = events_batch_from_args (args, NULL, arena, &batch, &problems);
  g_assert_true (good == (problems.total == 0));
  if (!events_json_from_msgpack (args, body, &reason))
    {
      g_assert_true (reason != NULL && body->len == before);
      goto out;
    }
  /* The record reader takes nothing else. */
  if (!lmt_cursor_check (args, &fault))
    goto out;
  g_string_append (body, "]}");
  switch (events_batches_from_body (body->str, body->len, NULL, again, &batches, &n, &other))
    {
    case EVENTS_BODY_OK:
      g_assert_true (good && n == 1);
      assert_same (&batch, batches);
      break;
    case EVENTS_BODY_INVALID:
      g_assert_false (good);
      if (!g_str_equal (g_array_index (problems.items, EventsProblem, 0).type, "recursion_loop"))
        assert_same_problems (&problems, &other);
      break;
    default: /* nested deeper than a body may be */
      break;
    }
out:
  events_problems_clear (&problems);
  events_problems_clear (&other);
  events_arena_free (arena);
  events_arena_free (again);
  return 0;
}
