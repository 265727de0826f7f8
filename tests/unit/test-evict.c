/* SPDX-License-Identifier: Apache-2.0 */
#include <lmtrace/lmt-evict.h>

#include <string.h>

/* What the recorded policy runs don't show: who holds a key when, sizes, salts, and ARC against a plain model of its text. */

enum
{
  N_KEYS = 40,
};

typedef struct
{
  int held[N_KEYS];
} Holds;

static void
hold (guint32 key, gpointer data)
{
  Holds *holds = data;

  g_assert_cmpint (holds->held[key]++, ==, 0);
}

static void
drop (guint32 key, gpointer data)
{
  Holds *holds = data;

  g_assert_cmpint (holds->held[key]--, ==, 1);
}

static void
test_kinds (void)
{
  LmtEvictKind kind;

  for (guint i = 0; i <= LMT_EVICT_NOOP; i++)
    {
      g_assert_true (lmt_evict_kind_from_text (lmt_evict_kind_to_text (i), &kind));
      g_assert_cmpuint (kind, ==, i);
    }
  g_assert_false (lmt_evict_kind_from_text ("lru", &kind));
  g_assert_false (lmt_evict_kind_from_text ("", &kind));
}

/* ---- a model of ARC on lists, word by word ---- */

typedef struct
{
  GQueue lists[4]; /* T1 T2 B1 B2, oldest first */
  gboolean pa[N_KEYS], pe[N_KEYS];
  double p;
  guint c;
} Model;

static int
find (Model *m, guint key)
{
  for (int i = 0; i < 4; i++)
    if (g_queue_find (&m->lists[i], GUINT_TO_POINTER (key)) != NULL)
      return i;
  return -1;
}

static void
move (Model *m, int to, guint key)
{
  int from = find (m, key);

  if (from >= 0)
    g_queue_remove (&m->lists[from], GUINT_TO_POINTER (key));
  if (to >= 0)
    g_queue_push_tail (&m->lists[to], GUINT_TO_POINTER (key));
}

static void
model_trim (Model *m)
{
  GQueue *l = m->lists;

  if (m->c == 0)
    return;
  while (l[0].length + l[2].length > m->c && l[2].length > 0)
    g_queue_pop_head (&l[2]);
  while (l[0].length + l[1].length + l[2].length + l[3].length > 2 * m->c)
    {
      if (l[3].length > 0)
        g_queue_pop_head (&l[3]);
      else if (l[2].length > 0)
        g_queue_pop_head (&l[2]);
      else
        break;
    }
}

static void
model_adapt (Model *m, int list)
{
  double b1 = m->lists[2].length, b2 = m->lists[3].length;

  if (list == 2)
    m->p = MIN ((double)m->c, m->p + MAX (1.0, b2 / b1));
  else if (list == 3)
    m->p = MAX (0.0, m->p - MAX (1.0, b1 / b2));
}

static void
model_created (Model *m, const LmtEvictKey *keys, guint n)
{
  for (guint i = n; i-- > 0;)
    {
      guint key = keys[i].key;
      int list = find (m, key);

      m->pe[key] = FALSE;
      if (m->pa[key])
        {
          m->pa[key] = FALSE;
          continue;
        }
      model_adapt (m, list);
      move (m, list < 0 ? 0 : 1, key);
      m->c = MAX (m->c, m->lists[0].length + m->lists[1].length);
      model_trim (m);
    }
}

static void
model_reserved (Model *m, const LmtEvictKey *keys, guint n)
{
  for (guint i = n; i-- > 0;)
    {
      guint key = keys[i].key;

      m->pe[key] = FALSE;
      m->pa[key] = TRUE;
      model_adapt (m, find (m, key));
      move (m, 0, key);
      m->c = MAX (m->c, m->lists[0].length + m->lists[1].length);
      model_trim (m);
    }
}

static void
model_touched (Model *m, const LmtEvictKey *keys, guint n)
{
  for (guint i = n; i-- > 0;)
    {
      int list = find (m, keys[i].key);

      if (list == 0 || list == 1)
        move (m, 1, keys[i].key);
    }
}

static void
model_removed (Model *m, const LmtEvictKey *keys, guint n)
{
  if (n == 0)
    return;
  for (guint i = 0; i < n; i++)
    {
      guint key = keys[i].key;
      int list = find (m, key);

      if (!m->pe[key])
        move (m, -1, key);
      else if (list == 0 || list == 1)
        move (m, list + 2, key);
      m->pa[key] = m->pe[key] = FALSE;
    }
  model_trim (m);
}

static gboolean
is_even (guint32 key, gpointer data)
{
  return key % 2 == 0;
}

static GList *
next_from (GList **cursor, gboolean even_only)
{
  while (*cursor != NULL)
    {
      GList *at = *cursor;

      *cursor = at->next;
      if (!even_only || GPOINTER_TO_UINT (at->data) % 2 == 0)
        return at;
    }
  return NULL;
}

static void
model_victims (Model *m, double ratio, gboolean even_only, GArray *victims)
{
  guint n = m->lists[0].length + m->lists[1].length, target;
  GList *c1, *c2;
  gint64 v;

  if (n == 0)
    return;
  m->c = MAX (m->c, n);
  m->p = MIN (m->p, (double)m->c);
  model_trim (m);
  ratio = CLAMP (ratio, 0.0, 1.0);
  target = (guint)(n * ratio);
  if (ratio > 0 && target == 0)
    target = 1;
  v = m->lists[0].length;
  c1 = m->lists[0].head;
  c2 = m->lists[1].head;
  while (victims->len < target)
    {
      GList *found = NULL;
      guint32 key;

      if (v >= (gint64)m->p && (found = next_from (&c1, even_only)) != NULL)
        v--;
      if (found == NULL)
        found = next_from (&c2, even_only);
      if (found == NULL && (found = next_from (&c1, even_only)) != NULL)
        v--;
      if (found == NULL)
        break;
      key = GPOINTER_TO_UINT (found->data);
      g_array_append_val (victims, key);
    }
  for (guint i = 0; i < victims->len; i++)
    m->pe[g_array_index (victims, guint32, i)] = TRUE;
}

static void
append (guint32 key, gpointer data)
{
  g_array_append_val ((GArray *)data, key);
}

static void
compare (Model *m, const LmtEvict *evict, const Holds *holds)
{
  static const char *const names[] = { "t1", "t2", "b1", "b2" };
  int held = 0, known = 0;

  for (guint i = 0; i < 4; i++)
    {
      g_autoptr (GArray) list = g_array_new (FALSE, FALSE, sizeof (guint32));
      guint k = 0;

      lmt_evict_foreach (evict, names[i], -1, append, list);
      g_assert_cmpuint (list->len, ==, m->lists[i].length);
      for (GList *l = m->lists[i].head; l != NULL; l = l->next)
        g_assert_cmpuint (g_array_index (list, guint32, k++), ==, GPOINTER_TO_UINT (l->data));
    }
  g_assert_cmpfloat (m->p, ==, lmt_evict_arc_p (evict));
  g_assert_cmpuint (m->c, ==, lmt_evict_arc_capacity (evict));
  for (guint i = 0; i < N_KEYS; i++)
    {
      held += holds->held[i];
      known += find (m, i) >= 0 || m->pa[i] || m->pe[i];
    }
  g_assert_cmpint (held, ==, known);
}

static void
test_arc_model (void)
{
  GRand *rand = g_rand_new_with_seed (3);
  Holds holds = { { 0 } };
  LmtEvictHost host = { hold, drop, &holds };
  LmtEvict *evict = lmt_evict_new (LMT_EVICT_ARC, &host);
  Model model = { .p = 0 };
  g_autoptr (GArray) ours = g_array_new (FALSE, FALSE, sizeof (guint32)), theirs = g_array_new (FALSE, FALSE, sizeof (guint32));

  for (guint i = 0; i < 4; i++)
    g_queue_init (&model.lists[i]);
  for (guint step = 0; step < 20000; step++)
    {
      LmtEvictKey keys[8];
      guint n = (guint)g_rand_int_range (rand, 0, 8), op = (guint)g_rand_int_range (rand, 0, 6);

      for (guint i = 0; i < n; i++)
        keys[i] = (LmtEvictKey){ (guint32)g_rand_int_range (rand, 0, N_KEYS), 0 };
      if (op == 0)
        {
          lmt_evict_created (evict, keys, n);
          model_created (&model, keys, n);
        }
      else if (op == 1)
        {
          lmt_evict_reserved (evict, keys, n);
          model_reserved (&model, keys, n);
        }
      else if (op == 2)
        {
          lmt_evict_touched (evict, keys, n);
          model_touched (&model, keys, n);
        }
      else if (op == 3)
        {
          lmt_evict_removed (evict, keys, n);
          model_removed (&model, keys, n);
        }
      else
        {
          double ratio = g_rand_double_range (rand, -0.1, 0.6);
          gboolean even_only = op == 4;

          g_array_set_size (theirs, 0);
          g_assert_true (lmt_evict_victims (evict, ratio, -1, even_only ? is_even : NULL, NULL, ours));
          model_victims (&model, ratio, even_only, theirs);
          g_assert_cmpmem (ours->data, ours->len * 4, theirs->data, theirs->len * 4);
          /* Most are deleted. */
          n = MIN (ours->len, 7);
          for (guint i = 0; i < n; i++)
            keys[i] = (LmtEvictKey){ g_array_index (ours, guint32, i), 0 };
          lmt_evict_removed (evict, keys, n);
          model_removed (&model, keys, n);
        }
      compare (&model, evict, &holds);
    }
  lmt_evict_free (evict);
  for (guint i = 0; i < N_KEYS; i++)
    g_assert_cmpint (holds.held[i], ==, 0);
  for (guint i = 0; i < 4; i++)
    g_queue_clear (&model.lists[i]);
  g_rand_free (rand);
}

static void
test_isolated (void)
{
  Holds holds = { { 0 } };
  LmtEvictHost host = { hold, drop, &holds };
  LmtEvict *evict = lmt_evict_new (LMT_EVICT_ISOLATED_LRU, &host);
  LmtEvictKey keys[] = { { 0, 0 }, { 1, 1000 }, { 2, 1000 } };
  g_autoptr (GArray) victims = g_array_new (FALSE, FALSE, sizeof (guint32));

  lmt_evict_created (evict, keys, 3);
  lmt_evict_reserved (evict, keys, 3); /* the same as created */
  g_assert_cmpint (holds.held[1], ==, 1);
  g_assert_false (lmt_evict_victims (evict, 1.0, -1, NULL, NULL, victims));
  g_assert_true (lmt_evict_victims (evict, 1.0, 1000, NULL, NULL, victims));
  g_assert_cmpuint (victims->len, ==, 2);
  g_assert_cmpuint (g_array_index (victims, guint32, 0), ==, 2); /* lists are read from the back */
  g_assert_true (lmt_evict_victims (evict, 1.0, 5, NULL, NULL, victims));
  g_assert_cmpuint (victims->len, ==, 0);
  g_assert_true (lmt_evict_victims (evict, 1.0, 123456, NULL, NULL, victims));
  g_assert_cmpuint (victims->len, ==, 0);
  lmt_evict_removed (evict, keys + 1, 2);
  g_assert_cmpint (holds.held[1] + holds.held[2], ==, 0);
  lmt_evict_free (evict);
  g_assert_cmpint (holds.held[0], ==, 0);
}

static void
test_ratios (void)
{
  static const struct
  {
    double ratio;
    guint expected;
  } rows[] = { { 0.0, 0 },  { -3.0, 0 }, { 0.001, 1 }, { 0.19999, 1 },     { 0.2, 2 },
               { 0.29, 2 }, { 1.0, 10 }, { 7.0, 10 },  { G_MAXDOUBLE, 10 } };
  LmtEvict *evict = lmt_evict_new (LMT_EVICT_LRU, NULL);
  g_autoptr (GArray) victims = g_array_new (FALSE, FALSE, sizeof (guint32));
  LmtEvictKey keys[10];

  g_assert_true (lmt_evict_victims (evict, 1.0, -1, NULL, NULL, victims));
  g_assert_cmpuint (victims->len, ==, 0);
  for (guint i = 0; i < 10; i++)
    keys[i] = (LmtEvictKey){ i * 1000, 0 };
  lmt_evict_created (evict, keys, 10);
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_assert_true (lmt_evict_victims (evict, rows[i].ratio, -1, NULL, NULL, victims));
      g_assert_cmpuint (victims->len, ==, rows[i].expected);
    }
  lmt_evict_free (evict);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/evict/kinds", test_kinds);
  g_test_add_func ("/evict/ratios", test_ratios);
  g_test_add_func ("/evict/isolated", test_isolated);
  g_test_add_func ("/evict/arc-model", test_arc_model);
  return g_test_run ();
}
