// SPDX-License-Identifier: Apache-2.0
#include <locale.h>
#include <string.h>

#include "storage-context.h"
#include "storage-locks.h"

static LmtKey *
key_of (LmtKeyTable *table, guint8 hash, const char *salt)
{
  LmtKeyFields fields = { .struct_size = sizeof fields };

  fields.hash = &hash;
  fields.hash_len = 1;
  fields.model = "m";
  fields.model_len = 1;
  fields.salt = salt;
  fields.salt_len = (guint32)strlen (salt);
  return lmt_key_table_intern (table, &fields);
}

typedef struct
{
  LmtKeyTable *table;
  LmtKey *keys[4]; /* the last: hash of the first, another salt */
} Fixture;

static void
set_up (Fixture *fixture, gconstpointer data)
{
  fixture->table = lmt_key_table_new ();
  for (guint i = 0; i < 3; i++)
    fixture->keys[i] = key_of (fixture->table, (guint8)i, "");
  fixture->keys[3] = key_of (fixture->table, 0, "tenant");
}

static void
tear_down (Fixture *fixture, gconstpointer data)
{
  for (guint i = 0; i < 4; i++)
    {
      g_assert_cmpuint (fixture->keys[i]->refs, ==, 1);
      lmt_key_unref (fixture->table, fixture->keys[i]);
    }
  lmt_key_table_free (fixture->table);
}

static void
test_first_in_first_out (Fixture *fixture, gconstpointer data)
{
  StorageContexts *contexts = storage_contexts_new (fixture->table);
  const StorageContext *context;

  for (guint64 record = 1; record <= 3; record++)
    storage_contexts_push (contexts, fixture->keys, NULL, 2, record);
  for (guint64 record = 1; record <= 3; record++)
    {
      context = storage_contexts_pop (contexts, fixture->keys, 2);
      g_assert_nonnull (context);
      g_assert_cmpuint (context->record, ==, record);
      g_assert_true (context->good);
    }
  g_assert_null (storage_contexts_pop (contexts, fixture->keys, 2));
  storage_contexts_free (contexts);
}

static void
test_ordered_tuple (Fixture *fixture, gconstpointer data)
{
  StorageContexts *contexts = storage_contexts_new (fixture->table);
  LmtKey *swapped[] = { fixture->keys[1], fixture->keys[0] };
  LmtKey *salted[] = { fixture->keys[3], fixture->keys[1] };

  storage_contexts_push (contexts, fixture->keys, NULL, 2, 1);
  g_assert_null (storage_contexts_pop (contexts, swapped, 2));
  g_assert_null (storage_contexts_pop (contexts, salted, 2));
  g_assert_null (storage_contexts_pop (contexts, fixture->keys, 1));
  g_assert_null (storage_contexts_pop (contexts, fixture->keys, 0));
  storage_contexts_push (contexts, NULL, NULL, 0, 2);
  g_assert_cmpuint (storage_contexts_n_open (contexts), ==, 2);
  g_assert_cmpuint (storage_contexts_pop (contexts, NULL, 0)->record, ==, 2);
  g_assert_cmpuint (storage_contexts_pop (contexts, fixture->keys, 2)->record, ==, 1);
  g_assert_cmpuint (storage_contexts_n_open (contexts), ==, 0);
  storage_contexts_free (contexts);
}

static void
test_bad_keeps_distinct_good (Fixture *fixture, gconstpointer data)
{
  StorageContexts *contexts = storage_contexts_new (fixture->table);
  LmtKey *keys[] = { fixture->keys[0], fixture->keys[1], fixture->keys[0], fixture->keys[2] };
  const guint8 readable[] = { 1, 0, 1, 1 };
  const StorageContext *context;

  storage_contexts_push (contexts, keys, readable, 4, 7);
  context = storage_contexts_pop (contexts, keys, 4);
  g_assert_false (context->good);
  g_assert_cmpuint (context->n_good, ==, 2);
  g_assert_true (context->good_keys[0] == keys[0] && context->good_keys[1] == keys[3]);
  storage_contexts_free (contexts);
}

static void
test_oldest_first (Fixture *fixture, gconstpointer data)
{
  StorageContexts *contexts = storage_contexts_new (fixture->table);

  /* More than there are buckets at first, so that growing has to keep their order. */
  for (guint64 record = 1; record <= 1000; record++)
    storage_contexts_push (contexts, fixture->keys + record % 3, NULL, 1, record);
  for (guint64 record = 2; record <= 500; record += 3)
    g_assert_cmpuint (storage_contexts_pop (contexts, fixture->keys + 2, 1)->record, ==, record);
  for (guint64 record = 1; record <= 1000; record++)
    if (record % 3 != 2 || record > 500)
      g_assert_cmpuint (storage_contexts_pop_oldest (contexts)->record, ==, record);
  g_assert_null (storage_contexts_pop_oldest (contexts));
  storage_contexts_free (contexts);
}

static void
test_free_with_open (Fixture *fixture, gconstpointer data)
{
  StorageContexts *contexts = storage_contexts_new (fixture->table);

  storage_contexts_push (contexts, fixture->keys, NULL, 4, 1);
  storage_contexts_push (contexts, fixture->keys, NULL, 3, 2);
  g_assert_nonnull (storage_contexts_pop_oldest (contexts));
  storage_contexts_free (contexts);
}

static void
test_locks_returned (Fixture *fixture, gconstpointer data)
{
  StorageLocks *locks = storage_locks_new (fixture->table, 100);
  StorageLockFigures figures;

  storage_locks_add (locks, fixture->keys[0], 2, 5, 0);
  storage_locks_add (locks, fixture->keys[0], 1, 6, 0);
  g_assert_cmpuint (storage_locks_return (locks, fixture->keys[0], 1, 1), ==, 0);
  g_assert_cmpuint (storage_locks_return (locks, fixture->keys[1], 3, 1), ==, 3);
  storage_locks_get_figures (locks, 1, &figures);
  g_assert_cmpuint (figures.owed, ==, 2);
  g_assert_cmpuint (figures.requests, ==, 2);
  g_assert_cmpuint (figures.oldest_record, ==, 5);
  g_assert_cmpuint (storage_locks_return (locks, fixture->keys[0], 4, 1), ==, 2);
  storage_locks_get_figures (locks, 1, &figures);
  g_assert_cmpuint (figures.owed, ==, 0);
  g_assert_cmpuint (figures.expired, ==, 0);
  storage_locks_free (locks);
}

static void
test_locks_expire (Fixture *fixture, gconstpointer data)
{
  StorageLocks *locks = storage_locks_new (fixture->table, 100);
  StorageLockFigures figures;

  storage_locks_add (locks, fixture->keys[0], 2, 1, 0);
  storage_locks_add (locks, fixture->keys[1], 1, 2, 50);
  /* A new lock moves the end of all on the key. */
  storage_locks_add (locks, fixture->keys[0], 1, 3, 60);
  g_assert_cmpuint (storage_locks_return (locks, fixture->keys[0], 1, 140), ==, 0);
  /* The other's ended at 150: nobody owes it any more. */
  g_assert_cmpuint (storage_locks_return (locks, fixture->keys[1], 1, 150), ==, 1);
  storage_locks_get_figures (locks, 155, &figures);
  g_assert_cmpuint (figures.expired, ==, 1);
  g_assert_cmpuint (figures.owed, ==, 2);
  /* Swept by the next lock taken, of whatever key. */
  storage_locks_add (locks, fixture->keys[2], 1, 4, 160);
  storage_locks_get_figures (locks, 160, &figures);
  g_assert_cmpuint (figures.expired, ==, 3);
  g_assert_cmpuint (figures.oldest_record, ==, 4);
  storage_locks_void (locks, fixture->keys[2]);
  storage_locks_get_figures (locks, 160, &figures);
  g_assert_cmpuint (figures.expired, ==, 4);
  g_assert_cmpuint (figures.owed, ==, 0);
  storage_locks_free (locks);
}

#define ADD(path_, function_) g_test_add (path_, Fixture, NULL, set_up, function_, tear_down)

int
main (int argc, char **argv)
{
  setlocale (LC_ALL, "");
  g_test_init (&argc, &argv, NULL);
  ADD ("/context/first-in-first-out", test_first_in_first_out);
  ADD ("/context/ordered-tuple", test_ordered_tuple);
  ADD ("/context/bad-keeps-distinct-good", test_bad_keeps_distinct_good);
  ADD ("/context/oldest-first", test_oldest_first);
  ADD ("/context/free-with-open", test_free_with_open);
  ADD ("/locks/returned", test_locks_returned);
  ADD ("/locks/expire", test_locks_expire);
  return g_test_run ();
}
