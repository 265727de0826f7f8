/* SPDX-License-Identifier: Apache-2.0 */
#include "lmt-evict.h"

#include <string.h>

#include "lmt-pages.h"

/*
 * All state of a key is one 16-byte node of an array indexed by its number; a list is two ends and a length. Orders, ghosts and
 * pending sets follow the specification (section 9, eviction) to the letter, since victims must come out the same.
 */
enum
{
  LIST_NONE = 0,
  LIST_T1, /* also the one order of LRU and the buckets of IsolatedLRU */
  LIST_T2,
  LIST_B1,
  LIST_B2,
  N_LISTS,
};
enum
{
  PENDING_ADMISSION = 1 << 0,
  PENDING_EVICTION = 1 << 1,
};

#define NIL G_MAXUINT32

typedef struct
{
  guint32 prev;
  guint32 next;
  guint32 salt;
  guint8 list;
  guint8 pending;
  guint16 unused;
} Node;

typedef struct
{
  guint32 head;
  guint32 tail;
  guint32 length;
} List;

struct _LmtEvict
{
  LmtEvictKind kind;
  LmtEvictHost host;
  Node *nodes;
  guint n_nodes;
  List lists[N_LISTS];
  List *buckets; /* IsolatedLRU: by salt number */
  guint n_buckets;
  double p;
  guint capacity;
};

static const List empty_list = { NIL, NIL, 0 };

gboolean
lmt_evict_kind_from_text (const char *text, LmtEvictKind *kind)
{
  for (guint i = LMT_EVICT_LRU; i <= LMT_EVICT_NOOP; i++)
    if (strcmp (text, lmt_evict_kind_to_text (i)) == 0)
      {
        *kind = i;
        return TRUE;
      }
  return FALSE;
}

const char *
lmt_evict_kind_to_text (LmtEvictKind kind)
{
  switch (kind)
    {
    case LMT_EVICT_LRU:
      return "LRU";
    case LMT_EVICT_ARC:
      return "ARC";
    case LMT_EVICT_ISOLATED_LRU:
      return "IsolatedLRU";
    case LMT_EVICT_NOOP:
      return "noop";
    }
  return "?";
}

LmtEvict *
lmt_evict_new (LmtEvictKind kind, const LmtEvictHost *host)
{
  LmtEvict *evict = g_new0 (LmtEvict, 1);

  evict->kind = kind;
  if (host != NULL)
    evict->host = *host;
  for (guint i = 0; i < N_LISTS; i++)
    evict->lists[i] = empty_list;
  return evict;
}

void
lmt_evict_free (LmtEvict *evict)
{
  if (evict == NULL)
    return;
  if (evict->host.drop != NULL)
    for (guint i = 0; i < evict->n_nodes; i++)
      if (evict->nodes[i].list != LIST_NONE || evict->nodes[i].pending != 0)
        evict->host.drop (i, evict->host.data);
  lmt_pages_free (evict->nodes, evict->n_nodes * sizeof (Node));
  g_free (evict->buckets);
  g_free (evict);
}

void
lmt_evict_set_host (LmtEvict *evict, const LmtEvictHost *host)
{
  if (host != NULL)
    evict->host = *host;
  else
    memset (&evict->host, 0, sizeof evict->host);
}

LmtEvictKind
lmt_evict_get_kind (const LmtEvict *evict)
{
  return evict->kind;
}

static void
grow_nodes (LmtEvict *evict, guint32 key)
{
  guint wanted = MAX (evict->n_nodes, 64);

  while (wanted <= key)
    wanted = wanted > G_MAXUINT32 / 2 ? G_MAXUINT32 : wanted * 2;
  evict->nodes = lmt_pages_renew (Node, evict->nodes, evict->n_nodes, wanted);
  evict->n_nodes = wanted;
}

static inline Node *
node_of (LmtEvict *evict, guint32 key)
{
  if (G_UNLIKELY (key >= evict->n_nodes))
    grow_nodes (evict, key);
  return &evict->nodes[key];
}

static List *
bucket_of (LmtEvict *evict, guint32 salt)
{
  if (salt >= evict->n_buckets)
    {
      guint wanted = MAX (evict->n_buckets, 8);

      while (wanted <= salt)
        wanted *= 2;
      evict->buckets = g_renew (List, evict->buckets, wanted);
      for (guint i = evict->n_buckets; i < wanted; i++)
        evict->buckets[i] = empty_list;
      evict->n_buckets = wanted;
    }
  return &evict->buckets[salt];
}

static inline List *
list_of (LmtEvict *evict, const Node *node)
{
  if (evict->kind == LMT_EVICT_ISOLATED_LRU)
    return &evict->buckets[node->salt];
  return &evict->lists[node->list];
}

static inline void
list_unlink (LmtEvict *evict, List *list, Node *node)
{
  if (node->prev != NIL)
    evict->nodes[node->prev].next = node->next;
  else
    list->head = node->next;
  if (node->next != NIL)
    evict->nodes[node->next].prev = node->prev;
  else
    list->tail = node->prev;
  list->length--;
  node->list = LIST_NONE;
}

static inline void
list_append (LmtEvict *evict, List *list, guint8 which, guint32 key, Node *node)
{
  node->prev = list->tail;
  node->next = NIL;
  if (list->tail != NIL)
    evict->nodes[list->tail].next = key;
  else
    list->head = key;
  list->tail = key;
  list->length++;
  node->list = which;
}

/* Remembering and forgetting are told to the host once, whatever the number of lists and sets a key stands in. */
static inline gboolean
known (const Node *node)
{
  return node->list != LIST_NONE || node->pending != 0;
}

static inline void
changed (LmtEvict *evict, guint32 key, const Node *node, gboolean was_known)
{
  gboolean is_known = known (node);

  if (is_known == was_known)
    return;
  if (is_known && evict->host.hold != NULL)
    evict->host.hold (key, evict->host.data);
  else if (!is_known && evict->host.drop != NULL)
    evict->host.drop (key, evict->host.data);
}

/* ---- LRU and IsolatedLRU ---- */

static void
lru_created (LmtEvict *evict, const LmtEvictKey *keys, guint n)
{
  for (guint i = n; i-- > 0;)
    {
      Node *node = node_of (evict, keys[i].key);
      List *list;

      if (node->list != LIST_NONE)
        {
          list = list_of (evict, node);
          if (list->tail == keys[i].key)
            continue;
          list_unlink (evict, list, node);
          list_append (evict, list, LIST_T1, keys[i].key, node);
          continue;
        }
      list = evict->kind == LMT_EVICT_ISOLATED_LRU ? bucket_of (evict, keys[i].salt) : &evict->lists[LIST_T1];
      node->salt = keys[i].salt;
      list_append (evict, list, LIST_T1, keys[i].key, node);
      changed (evict, keys[i].key, node, FALSE);
    }
}

static void
lru_touched (LmtEvict *evict, const LmtEvictKey *keys, guint n)
{
  for (guint i = n; i-- > 0;)
    {
      Node *node = node_of (evict, keys[i].key);
      List *list;

      if (node->list == LIST_NONE)
        continue;
      list = list_of (evict, node);
      if (list->tail == keys[i].key)
        continue;
      list_unlink (evict, list, node);
      list_append (evict, list, LIST_T1, keys[i].key, node);
    }
}

static void
lru_removed (LmtEvict *evict, const LmtEvictKey *keys, guint n)
{
  for (guint i = 0; i < n; i++)
    {
      Node *node = node_of (evict, keys[i].key);

      if (node->list == LIST_NONE)
        continue;
      list_unlink (evict, list_of (evict, node), node);
      changed (evict, keys[i].key, node, TRUE);
    }
}

/* ---- ARC ---- */

static void
arc_drop_oldest (LmtEvict *evict, guint8 which)
{
  guint32 key = evict->lists[which].head;
  Node *node = &evict->nodes[key];

  list_unlink (evict, &evict->lists[which], node);
  changed (evict, key, node, TRUE);
}

static void
arc_trim (LmtEvict *evict)
{
  const List *l = evict->lists;
  guint64 capacity = evict->capacity;

  if (capacity == 0)
    return;
  while ((guint64)l[LIST_T1].length + l[LIST_B1].length > capacity && l[LIST_B1].length > 0)
    arc_drop_oldest (evict, LIST_B1);
  while ((guint64)l[LIST_T1].length + l[LIST_T2].length + l[LIST_B1].length + l[LIST_B2].length > 2 * capacity)
    {
      if (l[LIST_B2].length > 0)
        arc_drop_oldest (evict, LIST_B2);
      else if (l[LIST_B1].length > 0)
        arc_drop_oldest (evict, LIST_B1);
      else
        break;
    }
}

static inline double
arc_delta (guint hit, guint other)
{
  return MAX (1.0, (double)other / (double)hit);
}

/* A ghost was asked for again: the wanted size of T1 moves, by sizes before the key leaves its list. */
static void
arc_adapt (LmtEvict *evict, guint8 which)
{
  guint b1 = evict->lists[LIST_B1].length, b2 = evict->lists[LIST_B2].length;

  if (which == LIST_B1)
    evict->p = MIN ((double)evict->capacity, evict->p + arc_delta (b1, b2));
  else if (which == LIST_B2)
    evict->p = MAX (0.0, evict->p - arc_delta (b2, b1));
}

static void
arc_move (LmtEvict *evict, guint8 which, guint32 key, Node *node)
{
  if (node->list != LIST_NONE)
    list_unlink (evict, &evict->lists[node->list], node);
  if (which != LIST_NONE)
    list_append (evict, &evict->lists[which], which, key, node);
}

static inline void
arc_grow_capacity (LmtEvict *evict)
{
  guint resident = evict->lists[LIST_T1].length + evict->lists[LIST_T2].length;

  evict->capacity = MAX (evict->capacity, resident);
}

static void
arc_created (LmtEvict *evict, const LmtEvictKey *keys, guint n)
{
  for (guint i = n; i-- > 0;)
    {
      guint32 key = keys[i].key;
      Node *node = node_of (evict, key);
      gboolean was_known = known (node);

      node->pending &= ~PENDING_EVICTION;
      if ((node->pending & PENDING_ADMISSION) != 0)
        {
          node->pending &= ~PENDING_ADMISSION;
          changed (evict, key, node, was_known);
          continue;
        }
      arc_adapt (evict, node->list);
      arc_move (evict, node->list == LIST_NONE ? LIST_T1 : LIST_T2, key, node);
      changed (evict, key, node, was_known);
      arc_grow_capacity (evict);
      arc_trim (evict);
    }
}

static void
arc_reserved (LmtEvict *evict, const LmtEvictKey *keys, guint n)
{
  for (guint i = n; i-- > 0;)
    {
      guint32 key = keys[i].key;
      Node *node = node_of (evict, key);
      gboolean was_known = known (node);

      node->pending = PENDING_ADMISSION;
      arc_adapt (evict, node->list);
      arc_move (evict, LIST_T1, key, node);
      changed (evict, key, node, was_known);
      arc_grow_capacity (evict);
      arc_trim (evict);
    }
}

static void
arc_touched (LmtEvict *evict, const LmtEvictKey *keys, guint n)
{
  for (guint i = n; i-- > 0;)
    {
      Node *node = node_of (evict, keys[i].key);

      if (node->list == LIST_T1 || node->list == LIST_T2)
        arc_move (evict, LIST_T2, keys[i].key, node);
    }
}

static void
arc_removed (LmtEvict *evict, const LmtEvictKey *keys, guint n)
{
  for (guint i = 0; i < n; i++)
    {
      Node *node = node_of (evict, keys[i].key);
      gboolean was_known = known (node);

      if ((node->pending & PENDING_EVICTION) == 0)
        arc_move (evict, LIST_NONE, keys[i].key, node);
      else if (node->list == LIST_T1)
        arc_move (evict, LIST_B1, keys[i].key, node);
      else if (node->list == LIST_T2)
        arc_move (evict, LIST_B2, keys[i].key, node);
      node->pending = 0;
      changed (evict, keys[i].key, node, was_known);
    }
  arc_trim (evict);
}

/* ---- the doors ---- */

void
lmt_evict_reserved (LmtEvict *evict, const LmtEvictKey *keys, guint n)
{
  if (evict->kind == LMT_EVICT_ARC)
    {
      if (n > 0)
        arc_reserved (evict, keys, n);
    }
  else
    lmt_evict_created (evict, keys, n);
}

void
lmt_evict_created (LmtEvict *evict, const LmtEvictKey *keys, guint n)
{
  if (evict->kind == LMT_EVICT_ARC)
    arc_created (evict, keys, n);
  else if (evict->kind != LMT_EVICT_NOOP)
    lru_created (evict, keys, n);
}

void
lmt_evict_touched (LmtEvict *evict, const LmtEvictKey *keys, guint n)
{
  if (evict->kind == LMT_EVICT_ARC)
    arc_touched (evict, keys, n);
  else if (evict->kind != LMT_EVICT_NOOP)
    lru_touched (evict, keys, n);
}

void
lmt_evict_removed (LmtEvict *evict, const LmtEvictKey *keys, guint n)
{
  if (n == 0)
    return;
  if (evict->kind == LMT_EVICT_ARC)
    arc_removed (evict, keys, n);
  else if (evict->kind != LMT_EVICT_NOOP)
    lru_removed (evict, keys, n);
}

static guint
target_count (guint pool, double ratio)
{
  guint target;

  if (!(ratio > 0.0) || pool == 0)
    return 0;
  target = (guint)((double)pool * MIN (ratio, 1.0));
  return MAX (target, 1);
}

/* Next eligible key from @cursor on, which moves past it and never comes back. */
static guint32
next_eligible (LmtEvict *evict, guint32 *cursor, LmtEvictEligible eligible, gpointer data)
{
  while (*cursor != NIL)
    {
      guint32 key = *cursor;

      *cursor = evict->nodes[key].next;
      if (eligible == NULL || eligible (key, data))
        return key;
    }
  return NIL;
}

static void
lru_victims (LmtEvict *evict, const List *list, double ratio, LmtEvictEligible eligible, gpointer data, GArray *victims)
{
  guint target = target_count (list->length, ratio);
  guint32 cursor = list->head;

  while (victims->len < target)
    {
      guint32 key = next_eligible (evict, &cursor, eligible, data);

      if (key == NIL)
        break;
      g_array_append_val (victims, key);
    }
}

static void
arc_victims (LmtEvict *evict, double ratio, LmtEvictEligible eligible, gpointer data, GArray *victims)
{
  guint resident = evict->lists[LIST_T1].length + evict->lists[LIST_T2].length;
  guint32 cursor1, cursor2;
  gint64 v;
  guint target;

  if (resident == 0)
    return;
  arc_grow_capacity (evict);
  evict->p = MIN (evict->p, (double)evict->capacity);
  arc_trim (evict);
  target = target_count (resident, ratio);
  v = evict->lists[LIST_T1].length;
  cursor1 = evict->lists[LIST_T1].head;
  cursor2 = evict->lists[LIST_T2].head;
  while (victims->len < target)
    {
      guint32 key = NIL;

      if (v >= (gint64)evict->p && (key = next_eligible (evict, &cursor1, eligible, data)) != NIL)
        v--;
      if (key == NIL)
        key = next_eligible (evict, &cursor2, eligible, data);
      if (key == NIL && (key = next_eligible (evict, &cursor1, eligible, data)) != NIL)
        v--;
      if (key == NIL)
        break;
      g_array_append_val (victims, key);
    }
  for (guint i = 0; i < victims->len; i++)
    evict->nodes[g_array_index (victims, guint32, i)].pending |= PENDING_EVICTION;
}

gboolean
lmt_evict_victims (LmtEvict *evict, double ratio, gint64 salt, LmtEvictEligible eligible, gpointer data, GArray *victims)
{
  g_array_set_size (victims, 0);
  switch (evict->kind)
    {
    case LMT_EVICT_LRU:
      lru_victims (evict, &evict->lists[LIST_T1], ratio, eligible, data, victims);
      break;
    case LMT_EVICT_ARC:
      arc_victims (evict, ratio, eligible, data, victims);
      break;
    case LMT_EVICT_ISOLATED_LRU:
      if (salt < 0)
        return FALSE;
      if (salt < evict->n_buckets)
        lru_victims (evict, &evict->buckets[salt], ratio, eligible, data, victims);
      break;
    case LMT_EVICT_NOOP:
      break;
    }
  return TRUE;
}

static void
foreach_pending (const LmtEvict *evict, guint8 which, void (*func) (guint32 key, gpointer data), gpointer data)
{
  for (guint i = 0; i < evict->n_nodes; i++)
    if ((evict->nodes[i].pending & which) != 0)
      func (i, data);
}

void
lmt_evict_foreach (const LmtEvict *evict, const char *list, gint64 salt, void (*func) (guint32 key, gpointer data), gpointer data)
{
  static const struct
  {
    const char *name;
    guint8 list;
  } names[] = { { "order", LIST_T1 }, { "t1", LIST_T1 }, { "t2", LIST_T2 }, { "b1", LIST_B1 }, { "b2", LIST_B2 } };
  const List *found = NULL;

  if (strcmp (list, "pending_admissions") == 0)
    foreach_pending (evict, PENDING_ADMISSION, func, data);
  else if (strcmp (list, "pending_evictions") == 0)
    foreach_pending (evict, PENDING_EVICTION, func, data);
  if (evict->kind == LMT_EVICT_ISOLATED_LRU)
    found = salt >= 0 && salt < evict->n_buckets ? &evict->buckets[salt] : NULL;
  else
    for (guint i = 0; i < G_N_ELEMENTS (names); i++)
      if (strcmp (list, names[i].name) == 0)
        found = &evict->lists[names[i].list];
  if (found == NULL)
    return;
  for (guint32 key = found->head; key != NIL; key = evict->nodes[key].next)
    func (key, data);
}

double
lmt_evict_arc_p (const LmtEvict *evict)
{
  return evict->p;
}

guint
lmt_evict_arc_capacity (const LmtEvict *evict)
{
  return evict->capacity;
}
