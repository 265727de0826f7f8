// SPDX-License-Identifier: Apache-2.0
/* SmKnown: what is found again, what isn't, what stays while a record uses it, and whose references are whose. */
#include "storage-known.h"

#include <lmtrace/lmt-hash.h>

#include <string.h>

enum
{
  ELEMENT = 100, /* bytes of one made-up element */
  MOST = 64,
};

typedef struct
{
  SmKnown known;
  LmtKeyTable *table;
} Fixture;

/* A list of @n elements, number @first and on. */
typedef struct
{
  guint8 bytes[MOST * ELEMENT];
  LmtKey *keys[MOST];
  guint32 ends[MOST];
  guint32 n;
  guint32 len;
} List;

static LmtKey *
intern (Fixture *fixture, guint number)
{
  guint8 hash[32] = { (guint8)number, (guint8)(number >> 8), 0x5e };
  LmtKeyFields fields
      = { .struct_size = sizeof fields, .hash = hash, .hash_len = sizeof hash, .model = "m", .model_len = 1, .salt = "" };
  return lmt_key_table_intern (fixture->table, &fields);
}

static void
make (Fixture *fixture, List *list, guint first, guint32 n)
{
  memset (list, 0, sizeof *list);
  list->n = n;
  for (guint32 i = 0; i < n; i++)
    {
      lmt_fill (first + i, list->bytes + i * ELEMENT, ELEMENT);
      list->keys[i] = intern (fixture, first + i);
      list->ends[i] = (i + 1) * ELEMENT;
    }
  list->len = n * ELEMENT;
}

static void
unref_all (Fixture *fixture, List *list)
{
  for (guint32 i = 0; i < list->n; i++)
    lmt_key_unref (fixture->table, list->keys[i]);
}

static gboolean
add (Fixture *fixture, const List *list, guint64 tenant)
{
  return sm_known_add (&fixture->known, fixture->table, tenant, list->bytes, list->keys, list->ends, list->n, list->n, 0);
}

static const SmKnownList *
find (Fixture *fixture, const List *list, guint64 tenant, const SmKnownList **begins)
{
  const SmKnownList *some;
  return sm_known_find (&fixture->known, tenant, list->bytes, sizeof list->bytes, list->n, begins != NULL ? begins : &some);
}

static void
set_up (Fixture *fixture, gconstpointer data)
{
  memset (&fixture->known, 0, sizeof fixture->known);
  fixture->table = lmt_key_table_new ();
}

/* Whatever a test did, nobody holds a key afterwards. */
static void
tear_down (Fixture *fixture, gconstpointer data)
{
  sm_known_clear (&fixture->known, fixture->table);
  g_assert_cmpuint (lmt_key_table_size (fixture->table), ==, 0);
  sm_known_clear (&fixture->known, fixture->table); /* twice is harmless */
  lmt_key_table_free (fixture->table);
}

static void
test_found_again (Fixture *fixture, gconstpointer data)
{
  List list;
  const SmKnownList *begins;
  make (fixture, &list, 0, 5);
  g_assert_null (find (fixture, &list, 7, &begins));
  g_assert_null (begins);
  g_assert_true (sm_known_add (&fixture->known, fixture->table, 7, list.bytes, list.keys, list.ends, 5, 4, 3));
  const SmKnownList *known = find (fixture, &list, 7, &begins);
  g_assert_nonnull (known);
  g_assert_null (begins);
  g_assert_cmpuint (known->n, ==, 5);
  g_assert_cmpuint (known->len, ==, 5 * ELEMENT);
  g_assert_cmpuint (known->n_grouped, ==, 4);
  g_assert_cmpuint (known->n_salted, ==, 3);
  for (guint i = 0; i < 5; i++)
    {
      g_assert_true (known->keys[i] == list.keys[i]);
      g_assert_cmpuint (known->ends[i], ==, (i + 1) * ELEMENT);
    }
  g_assert_false (known->bytes == list.bytes); /* a copy: the frame goes */
}

/* Equal bytes are other keys for another tenant. */
static void
test_tenants (Fixture *fixture, gconstpointer data)
{
  List list;
  const SmKnownList *begins;
  make (fixture, &list, 0, 2);
  g_assert_true (add (fixture, &list, 1));
  g_assert_null (find (fixture, &list, 2, &begins));
  g_assert_null (begins);
  g_assert_nonnull (find (fixture, &list, 1, NULL));
}

/* A longer or shorter list that begins alike isn't it, but is named; one byte elsewhere is another list. */
static void
test_begins_alike (Fixture *fixture, gconstpointer data)
{
  List five, three;
  const SmKnownList *begins;
  make (fixture, &five, 0, 5);
  g_assert_true (add (fixture, &five, 0));
  make (fixture, &three, 0, 3);
  g_assert_null (find (fixture, &three, 0, &begins));
  g_assert_true (begins == &fixture->known.lists[fixture->known.newest]);
  unref_all (fixture, &three);
  five.bytes[3 * ELEMENT] ^= 1; /* behind the print */
  g_assert_null (find (fixture, &five, 0, &begins));
  g_assert_nonnull (begins);
  five.bytes[3 * ELEMENT] ^= 1;
  five.bytes[60] ^= 1; /* in it */
  g_assert_null (find (fixture, &five, 0, &begins));
  g_assert_null (begins);
  five.bytes[60] ^= 1;
  g_assert_nonnull (find (fixture, &five, 0, NULL));
}

/* No byte beyond what is there is looked at: here the rest of the frame is shorter than the known list. */
static void
test_room (Fixture *fixture, gconstpointer data)
{
  List list;
  const SmKnownList *begins;
  make (fixture, &list, 0, 4);
  g_assert_true (add (fixture, &list, 0));
  for (gsize room = 0; room < list.len; room++)
    {
      g_autofree guint8 *exact = g_memdup2 (list.bytes, room); /* the sanitizers guard its end */
      g_assert_null (sm_known_find (&fixture->known, 0, exact, room, 4, &begins));
    }
  g_autofree guint8 *whole = g_memdup2 (list.bytes, list.len);
  g_assert_nonnull (sm_known_find (&fixture->known, 0, whole, list.len, 4, &begins));
}

/* The oldest goes for a new one, with its references. */
static void
test_oldest_goes (Fixture *fixture, gconstpointer data)
{
  List list;
  for (guint i = 0; i < SM_KNOWN_LISTS + 3; i++)
    {
      sm_known_next (&fixture->known);
      make (fixture, &list, i * 10, 1 + i % 5);
      g_assert_true (add (fixture, &list, 0));
    }
  for (guint i = 0; i < SM_KNOWN_LISTS + 3; i++)
    {
      make (fixture, &list, i * 10, 1 + i % 5);
      guint before = lmt_key_table_size (fixture->table);
      g_assert_true ((find (fixture, &list, 0, NULL) != NULL) == (i >= 3));
      unref_all (fixture, &list);
      g_assert_cmpuint (before - lmt_key_table_size (fixture->table), ==, i >= 3 ? 0 : list.n);
    }
}

/* What a record has used or added stays until the next one, though there is no room for more. */
static void
test_used_stays (Fixture *fixture, gconstpointer data)
{
  List list, first;
  for (guint i = 0; i < SM_KNOWN_LISTS; i++)
    {
      sm_known_next (&fixture->known);
      make (fixture, &list, i, 1);
      g_assert_true (add (fixture, &list, 0));
    }
  sm_known_next (&fixture->known);
  make (fixture, &first, 0, 1); /* the oldest: its place would be the next */
  unref_all (fixture, &first);
  g_assert_nonnull (find (fixture, &first, 0, NULL));
  make (fixture, &list, 100, 2);
  g_assert_false (add (fixture, &list, 0));
  unref_all (fixture, &list); /* nothing was taken */
  g_assert_nonnull (find (fixture, &first, 0, NULL));
  sm_known_next (&fixture->known);
  make (fixture, &list, 100, 2);
  g_assert_true (add (fixture, &list, 0));
  g_assert_null (find (fixture, &first, 0, NULL));
}

static void
test_not_kept (Fixture *fixture, gconstpointer data)
{
  List list;
  make (fixture, &list, 0, 1);
  g_assert_false (sm_known_add (&fixture->known, fixture->table, 0, list.bytes, list.keys, list.ends, 0, 0, 0));
  g_autofree guint8 *large = g_malloc0 (SM_KNOWN_BYTES + 1);
  guint32 end = SM_KNOWN_BYTES + 1;
  g_assert_false (sm_known_add (&fixture->known, fixture->table, 0, large, list.keys, &end, 1, 0, 0));
  end = SM_KNOWN_BYTES;
  g_assert_true (sm_known_add (&fixture->known, fixture->table, 0, large, list.keys, &end, 1, 0, 0));
}

/* Places grow together: what was known before keeps its bytes, and equal sizes ask for no memory again. */
static void
test_growth (Fixture *fixture, gconstpointer data)
{
  List small, large;
  make (fixture, &small, 0, 2);
  g_assert_true (add (fixture, &small, 0));
  sm_known_next (&fixture->known);
  make (fixture, &large, 50, MOST);
  g_assert_true (add (fixture, &large, 0));
  const SmKnownList *known = find (fixture, &small, 0, NULL);
  g_assert_nonnull (known);
  g_assert_true (known->keys[1] == small.keys[1]);
  g_assert_nonnull (find (fixture, &large, 0, NULL));
  guint8 *places[SM_KNOWN_LISTS];
  for (guint i = 0; i < SM_KNOWN_LISTS; i++)
    places[i] = fixture->known.lists[i].bytes;
  for (guint i = 0; i < SM_KNOWN_LISTS; i++)
    {
      sm_known_next (&fixture->known);
      make (fixture, &large, 1000 + i * MOST, MOST);
      g_assert_true (add (fixture, &large, 0));
    }
  for (guint i = 0; i < SM_KNOWN_LISTS; i++)
    g_assert_true (places[i] == fixture->known.lists[i].bytes);
}

int
main (int argc, char **argv)
{
  static const struct
  {
    const char *path;
    void (*func) (Fixture *fixture, gconstpointer data);
  } tests[] = { { "/known/found-again", test_found_again },   { "/known/tenants", test_tenants },
                { "/known/begins-alike", test_begins_alike }, { "/known/room", test_room },
                { "/known/oldest-goes", test_oldest_goes },   { "/known/used-stays", test_used_stays },
                { "/known/not-kept", test_not_kept },         { "/known/growth", test_growth } };
  g_test_init (&argc, &argv, NULL);
  for (guint i = 0; i < G_N_ELEMENTS (tests); i++)
    g_test_add (tests[i].path, Fixture, NULL, set_up, tests[i].func, tear_down);
  return g_test_run ();
}
