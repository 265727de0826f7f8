// SPDX-License-Identifier: Apache-2.0
/* Token sequences -> keys of their complete chunks, with the reference's checks in its order. */
#include "coord.h"

enum
{
  MAX_TOKENS = 1000000,
  MAX_KEYS = 1000000, /* chunks times ranks: the reference has no bound here */
  MAX_SALT = 128,     /* code points */
};

static gboolean
salt_is_fine (CoordRequest *request, LmtSpan salt)
{
  g_autoptr (GString) shown = NULL;
  glong n = g_utf8_strlen ((const char *)salt.data, (gssize)salt.len);

  for (gsize i = 0; i < salt.len; i++)
    if (salt.data[i] == '\0' || strchr ("@/\\", salt.data[i]) != NULL)
      {
        LmtSpan bad = { salt.data + i, 1 };
        shown = g_string_new ("cache_salt must not contain frozenset({");
        coord_text_repr (shown, bad);
        g_string_append (shown, "}) (got ");
        coord_text_repr (shown, salt);
        coord_reply_detail (request, 400, "%s)", shown->str);
        return FALSE;
      }
  if (n <= MAX_SALT)
    return TRUE;
  coord_reply_detail (request, 400, "cache_salt exceeds max length %d (got %ld)", MAX_SALT, n);
  return FALSE;
}

static gboolean
model_is_fine (CoordRequest *request, LmtSpan model)
{
  g_autoptr (GString) shown = NULL;

  if (model.len == 0 || memchr (model.data, '@', model.len) == NULL)
    return TRUE;
  shown = g_string_new (NULL);
  coord_text_repr (shown, model);
  coord_reply_detail (request, 400, "model_name must not contain '@' (got %s)", shown->str);
  return FALSE;
}

/* The reference ends such a request with 500 (D14). */
static gboolean
tokens_are_u32 (CoordRequest *request, const gint64 *ids, guint32 n, guint32 *tokens)
{
  for (guint32 i = 0; i < n; i++)
    {
      EventsProblems problems;
      g_autofree char *loc = NULL;
      g_autofree char *input = NULL;
      tokens[i] = (guint32)ids[i];
      if (ids[i] >= 0 && ids[i] <= (gint64)G_MAXUINT32)
        continue;
      loc = g_strdup_printf ("[\"body\",\"token_ids\",%u]", i);
      input = g_strdup_printf ("%" G_GINT64_FORMAT, ids[i]);
      events_problems_init (&problems, 1);
      if (ids[i] < 0)
        coord_problem (&problems, "greater_than_equal", loc, input, "{\"ge\":0}", "Input should be greater than or equal to 0");
      else
        coord_problem (&problems, "less_than_equal", loc, input, "{\"le\":4294967295}",
                       "Input should be less than or equal to 4294967295");
      coord_reply_problems (request, &problems);
      return FALSE;
    }
  return TRUE;
}

gboolean
coord_chunks_resolve (Coord *coord, CoordRequest *request, const gint64 *ids, guint32 n_ids, LmtSpan model, LmtSpan salt,
                      gint64 world_size, CoordChunks *chunks)
{
  guint32 chunk_size = events_views_get_chunk_size (coord->views);
  guint32 n, *tokens;

  memset (chunks, 0, sizeof *chunks);
  if (n_ids > MAX_TOKENS)
    {
      coord_reply_detail (request, 400, "too many token_ids in a single request (limit=%d, got=%u)", MAX_TOKENS, n_ids);
      return FALSE;
    }
  if (!salt_is_fine (request, salt))
    return FALSE;
  n = n_ids / chunk_size;
  chunks->model = model;
  chunks->salt = salt;
  if (n == 0)
    return TRUE;
  if ((guint64)world_size > MAX_KEYS / n)
    {
      coord_reply_detail (request, 400, "too many keys in a single request (limit=%d, got=%" G_GUINT64_FORMAT ")", MAX_KEYS,
                          (guint64)world_size > G_MAXUINT32 ? G_MAXUINT64 : (guint64)world_size * n);
      return FALSE;
    }
  tokens = events_arena_alloc (coord->arena, (gsize)n * chunk_size * sizeof *tokens);
  chunks->hashes = events_arena_alloc (coord->arena, (gsize)n * 32);
  if (tokens == NULL || chunks->hashes == NULL)
    {
      coord_reply_detail (request, 413, "the request needs more memory than one may have");
      return FALSE;
    }
  if (!tokens_are_u32 (request, ids, n * chunk_size, tokens) || !model_is_fine (request, model))
    return FALSE;
  events_chunk_hashes (tokens, n * chunk_size, chunk_size, chunks->hashes);
  chunks->chunks = n;
  chunks->world_size = (guint32)world_size;
  return TRUE;
}

void
coord_chunks_key (const CoordChunks *chunks, guint32 chunk, guint32 rank, EventsKey *key)
{
  gint64 world = chunks->world_size;

  memset (key, 0, sizeof *key);
  key->hash.data = chunks->hashes + (gsize)chunk * 32;
  key->hash.len = 32;
  key->model = chunks->model;
  key->salt = chunks->salt;
  key->kv_rank = world << 24 | (gint64)rank << 16 | world << 8 | (gint64)rank;
}
