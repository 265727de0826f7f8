/* SPDX-License-Identifier: Apache-2.0 */
/* The caller's side of recording: gate, rings, publishing. */
#include <errno.h>
#include <sys/mman.h>
#include <time.h>

#include "lmt-recorder-private.h"

#define NS_PER_S G_GINT64_CONSTANT (1000000000)

enum
{
  MAX_POOL = 16, /* rings of threads that are gone, for those that come */
  WAIT_NS = 1000000,
};

typedef struct
{
  LmtRing *rings[LMT_TRACE_MAX_RECORDERS];
  LmtRing *ring;   /* of the event that was begun */
  guint32 further; /* recorders that get a copy of it */
} Thread;

static LmtTraceHub hub = { .lock = PTHREAD_MUTEX_INITIALIZER };
static pthread_once_t hub_once = PTHREAD_ONCE_INIT;
static pthread_key_t thread_key;
static LmtRing *pool[MAX_POOL]; /* hub's lock */
static guint n_pool;

/* One word: the static TLS that libraries opened late may use has room for it. */
static __thread Thread *self __attribute__ ((tls_model ("initial-exec")));

/* ---------------- the hub ---------------- */

static void
init_slot (LmtTraceSlot *slot)
{
  pthread_condattr_t attributes;

  pthread_condattr_init (&attributes);
  pthread_condattr_setclock (&attributes, CLOCK_MONOTONIC);
  pthread_mutex_init (&slot->lock, NULL);
  pthread_cond_init (&slot->wake, &attributes);
  pthread_cond_init (&slot->done, &attributes);
  pthread_condattr_destroy (&attributes);
}

static void
before_fork (void)
{
  pthread_mutex_lock (&hub.lock);
}

static void
in_parent (void)
{
  pthread_mutex_unlock (&hub.lock);
}

/* The drain threads are the parent's: nothing here may be published, and no lock of theirs is ever given back. */
static void
in_child (void)
{
  hub.forks++;
  for (guint i = 0; i < LMT_TRACE_MAX_RECORDERS; i++)
    {
      LmtTraceSlot *slot = &hub.slots[i];

      if (slot->recorder != NULL)
        __atomic_store_n (&slot->recorder->level->gate, 0, __ATOMIC_RELAXED);
      slot->recorder = NULL;
      atomic_store_explicit (&slot->generation, 0, memory_order_relaxed);
      atomic_store_explicit (&slot->wake_asked, 0, memory_order_relaxed);
      slot->woken = FALSE;
      init_slot (slot);
    }
  pthread_mutex_unlock (&hub.lock);
}

void
lmt_ring_free (LmtRing *ring)
{
  munmap (ring->data, ring->bytes);
  g_aligned_free (ring);
}

/* Under the hub's lock: is a drain still reading it? */
static gboolean
is_read (const LmtRing *ring)
{
  const LmtTraceSlot *slot = &hub.slots[ring->bit];

  return slot->recorder != NULL && slot->recorder->generation == ring->generation;
}

static void
thread_gone (void *data)
{
  Thread *thread = data;

  self = NULL;
  pthread_mutex_lock (&hub.lock);
  for (guint i = 0; i < LMT_TRACE_MAX_RECORDERS; i++)
    {
      LmtRing *ring = thread->rings[i];

      if (ring == NULL)
        continue;
      if (is_read (ring))
        ring->orphan = TRUE;
      else if (n_pool < MAX_POOL)
        pool[n_pool++] = ring;
      else
        lmt_ring_free (ring);
    }
  pthread_mutex_unlock (&hub.lock);
  g_free (thread);
}

static void
init_hub (void)
{
  for (guint i = 0; i < LMT_TRACE_MAX_RECORDERS; i++)
    init_slot (&hub.slots[i]);
  pthread_key_create (&thread_key, thread_gone);
  pthread_atfork (before_fork, in_parent, in_child);
}

LmtTraceHub *
lmt_trace_hub (void)
{
  pthread_once (&hub_once, init_hub);
  return &hub;
}

void
lmt_trace_wake (LmtTraceSlot *slot)
{
  if (atomic_load_explicit (&slot->wake_asked, memory_order_relaxed) != 0
      || atomic_exchange_explicit (&slot->wake_asked, 1, memory_order_relaxed) != 0)
    return;
  pthread_mutex_lock (&slot->lock);
  slot->woken = TRUE;
  pthread_cond_signal (&slot->wake);
  pthread_mutex_unlock (&slot->lock);
}

/* ---------------- a thread's rings: not on the path of a call, but for its first ---------------- */

static LmtRing *
ring_new (guint64 bytes)
{
  LmtRing *ring;
  void *data;

  for (guint i = 0; i < n_pool; i++)
    if (pool[i]->bytes == bytes)
      {
        ring = pool[i];
        pool[i] = pool[--n_pool];
        return ring;
      }
  data = mmap (NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED)
    return NULL;
  ring = g_aligned_alloc0 (1, sizeof *ring, LMT_CACHE_LINE);
  ring->data = data;
  ring->bytes = bytes;
  return ring;
}

/* This thread's ring for the recorder that has the bit now; NULL: it records another level, or is gone, or there is no memory. */
static LmtRing *
renew (Thread *thread, guint bit, const LmtTraceLevel *level)
{
  LmtTraceSlot *slot = &hub.slots[bit];
  LmtRing *ring = thread->rings[bit];
  LmtRecorder *recorder;

  pthread_mutex_lock (&hub.lock);
  recorder = slot->recorder;
  if (recorder == NULL || recorder->level != level || (__atomic_load_n (&level->gate, __ATOMIC_RELAXED) >> bit & 1) == 0)
    {
      pthread_mutex_unlock (&hub.lock);
      return NULL;
    }
  if (ring != NULL && ring->bytes != recorder->ring_bytes)
    g_clear_pointer (&ring, lmt_ring_free); /* of an older generation: nobody reads it */
  if (ring == NULL)
    ring = ring_new (recorder->ring_bytes);
  thread->rings[bit] = ring;
  if (ring != NULL)
    {
      atomic_store_explicit (&ring->head, 0, memory_order_relaxed);
      atomic_store_explicit (&ring->tail, 0, memory_order_relaxed);
      atomic_store_explicit (&ring->dropped, 0, memory_order_relaxed);
      atomic_store_explicit (&ring->waits, 0, memory_order_relaxed);
      ring->begun = ring->known_tail = 0;
      ring->generation = recorder->generation;
      ring->number = recorder->n_rings++;
      ring->bit = bit;
      ring->max_event = MIN (ring->bytes / 2, (guint64)LMT_RING_MAX_EVENT) - sizeof (LmtRingEvent);
      ring->block = recorder->block;
      ring->level = level;
      ring->clock = recorder->clock;
      ring->wall_follows = recorder->wall_follows;
      ring->wall_offset_ns = recorder->wall_offset_ns;
      ring->orphan = FALSE;
      g_ptr_array_add (recorder->rings, ring);
    }
  else
    recorder->gone_dropped++;
  pthread_mutex_unlock (&hub.lock);
  return ring;
}

static Thread *
make_thread (void)
{
  lmt_trace_hub ();
  self = g_new0 (Thread, 1);
  pthread_setspecific (thread_key, self);
  return self;
}

static inline LmtRing *
get_ring (Thread *thread, guint bit, const LmtTraceLevel *level)
{
  LmtRing *ring = thread->rings[bit];

  if (G_LIKELY (ring != NULL && ring->level == level
                && ring->generation == atomic_load_explicit (&hub.slots[bit].generation, memory_order_relaxed)))
    return ring;
  return renew (thread, bit, level);
}

/* ---------------- the path of a call ---------------- */

static inline gint64
clock_ns (clockid_t clock)
{
  struct timespec ts;

  clock_gettime (clock, &ts);
  return (gint64)ts.tv_sec * NS_PER_S + ts.tv_nsec;
}

static inline void
read_clocks (const LmtRing *ring, LmtTraceTime *time)
{
  time->mono_ns = ring->clock == NULL ? clock_ns (CLOCK_MONOTONIC) : lmt_clock_now (ring->clock);
  time->wall_ns = ring->wall_follows ? time->mono_ns + ring->wall_offset_ns : clock_ns (CLOCK_REALTIME);
}

static inline void
count (atomic_uint_fast64_t *counter)
{
  atomic_store_explicit (counter, atomic_load_explicit (counter, memory_order_relaxed) + 1, memory_order_relaxed);
}

static gboolean
has_room (LmtRing *ring, guint64 end)
{
  if (end - ring->known_tail <= ring->bytes)
    return TRUE;
  ring->known_tail = atomic_load_explicit (&ring->tail, memory_order_acquire);
  return end - ring->known_tail <= ring->bytes;
}

/* LMT_RECORDER_BLOCK: until the drain has made room, or the recorder is gone. */
static gboolean
wait_for_room (LmtRing *ring, guint64 end)
{
  LmtTraceSlot *slot = &hub.slots[ring->bit];

  count (&ring->waits);
  while (!has_room (ring, end))
    {
      struct timespec until;

      if ((__atomic_load_n (&ring->level->gate, __ATOMIC_RELAXED) >> ring->bit & 1) == 0
          || atomic_load_explicit (&slot->generation, memory_order_relaxed) != ring->generation)
        return FALSE;
      pthread_mutex_lock (&slot->lock);
      slot->woken = TRUE;
      pthread_cond_signal (&slot->wake);
      clock_gettime (CLOCK_MONOTONIC, &until);
      until.tv_nsec += WAIT_NS;
      if (until.tv_nsec >= NS_PER_S)
        {
          until.tv_sec++;
          until.tv_nsec -= NS_PER_S;
        }
      pthread_cond_timedwait (&slot->done, &slot->lock, &until);
      pthread_mutex_unlock (&slot->lock);
    }
  return TRUE;
}

static gboolean
make_room (LmtRing *ring, guint64 end)
{
  /* A recorder that closes while a call waits has lost nothing it was open for. */
  if (ring->block)
    return wait_for_room (ring, end);
  count (&ring->dropped);
  lmt_trace_wake (&hub.slots[ring->bit]);
  return FALSE;
}

/* Room for a copy of @bytes in one piece, or NULL: dropped and counted. */
static LmtRingEvent *
reserve (LmtRing *ring, gsize bytes)
{
  guint64 head = atomic_load_explicit (&ring->head, memory_order_relaxed);
  guint64 place = head & (ring->bytes - 1);
  guint64 rest = ring->bytes - place;
  guint64 need;

  if (G_UNLIKELY (bytes > ring->max_event))
    {
      count (&ring->dropped);
      return NULL;
    }
  need = sizeof (LmtRingEvent) + ((bytes + LMT_RING_ALIGN - 1) & ~(guint64)(LMT_RING_ALIGN - 1));
  ring->begun = need <= rest ? head : head + rest;
  if (G_UNLIKELY (!has_room (ring, ring->begun + need)) && !make_room (ring, ring->begun + need))
    return NULL;
  if (G_UNLIKELY (need > rest))
    {
      LmtRingEvent *skip = (LmtRingEvent *)(void *)(ring->data + place);

      skip->size = (guint32)rest;
      skip->call = LMT_RING_SKIP;
    }
  return (LmtRingEvent *)(void *)(ring->data + (ring->begun & (ring->bytes - 1)));
}

static inline void
publish (LmtRing *ring, LmtRingEvent *event, gsize used)
{
  guint64 size = sizeof (LmtRingEvent) + ((used + LMT_RING_ALIGN - 1) & ~(guint64)(LMT_RING_ALIGN - 1));
  guint64 head = ring->begun + size;

  event->size = (guint32)size;
  event->len = used;
  atomic_store_explicit (&ring->head, head, memory_order_release);
  if (G_LIKELY (head - ring->known_tail <= ring->bytes / 2))
    return;
  ring->known_tail = atomic_load_explicit (&ring->tail, memory_order_acquire);
  if (head - ring->known_tail > ring->bytes / 2)
    lmt_trace_wake (&hub.slots[ring->bit]);
}

static inline gpointer
begin (const LmtTraceLevel *level, guint32 call, gsize bytes, const LmtTraceTime *at)
{
  guint32 mask = __atomic_load_n (&level->gate, __ATOMIC_RELAXED);
  Thread *thread = self;

  if (mask == 0)
    return NULL;
  if (G_UNLIKELY (thread == NULL))
    thread = make_thread ();
  while (mask != 0)
    {
      guint bit = (guint)__builtin_ctz (mask);
      LmtRing *ring = get_ring (thread, bit, level);
      LmtRingEvent *event;
      LmtTraceTime time;

      mask &= mask - 1;
      if (G_UNLIKELY (ring == NULL))
        continue;
      if (at != NULL)
        time = *at;
      else
        read_clocks (ring, &time);
      event = reserve (ring, bytes);
      if (G_UNLIKELY (event == NULL))
        continue;
      event->call = call;
      event->mono_ns = time.mono_ns;
      event->wall_ns = time.wall_ns;
      event->len = bytes;
      thread->ring = ring;
      thread->further = mask;
      return event + 1;
    }
  return NULL;
}

/* The recorders behind the first: what was filled is copied from there. */
static void
publish_further (Thread *thread, const LmtTraceLevel *level, const LmtRingEvent *first, gboolean same_time, gsize used)
{
  const LmtRing *source = thread->ring;

  for (guint32 mask = thread->further; mask != 0; mask &= mask - 1)
    {
      LmtRing *ring = get_ring (thread, (guint)__builtin_ctz (mask), level);
      LmtTraceTime time = { first->mono_ns, first->wall_ns };
      LmtRingEvent *event;

      if (ring == NULL)
        continue;
      if (!same_time && (ring->clock != source->clock || ring->wall_follows || source->wall_follows))
        read_clocks (ring, &time);
      event = reserve (ring, used);
      if (event == NULL)
        continue;
      event->call = first->call;
      event->mono_ns = time.mono_ns;
      event->wall_ns = time.wall_ns;
      if (used > 0)
        memcpy (event + 1, first + 1, used);
      publish (ring, event, used);
    }
}

static inline void
commit (const LmtTraceLevel *level, gsize used, gboolean same_time)
{
  Thread *thread = self;
  LmtRing *ring = thread->ring;
  LmtRingEvent *event = (LmtRingEvent *)(void *)(ring->data + (ring->begun & (ring->bytes - 1)));

  /* The copies first: once published, the drain may let the first one be overwritten. */
  if (G_UNLIKELY (thread->further != 0))
    publish_further (thread, level, event, same_time, used);
  publish (ring, event, used);
  thread->ring = NULL;
}

/* Is that what was begun, and does it fit? A program's mistake must not reach what is published already. */
static gboolean
is_begun (const LmtTraceLevel *level, gsize used)
{
  const LmtRing *ring = self != NULL ? self->ring : NULL;

  return ring != NULL && ring->level == level
         && used <= ((const LmtRingEvent *)(const void *)(ring->data + (ring->begun & (ring->bytes - 1))))->len;
}

gboolean
lmt_trace_level_is_on (const LmtTraceLevel *level)
{
  return lmt_trace_is_on (level);
}

gpointer
lmt_recorder_begin (LmtTraceLevel *level, guint32 call, gsize bytes)
{
  g_return_val_if_fail (level != NULL && call < level->n_calls, NULL);

  return begin (level, call, bytes, NULL);
}

void
lmt_recorder_commit (LmtTraceLevel *level, gsize used)
{
  g_return_if_fail (is_begun (level, used));

  commit (level, used, FALSE);
}

void
lmt_recorder_publish_at (LmtTraceLevel *level, guint32 call, const LmtTraceTime *time, gconstpointer copy, gsize len)
{
  gpointer room;

  g_return_if_fail (level != NULL && call < level->n_calls && (copy != NULL || len == 0));

  room = begin (level, call, len, time);
  if (room == NULL)
    return;
  if (len > 0)
    memcpy (room, copy, len);
  commit (level, len, time != NULL);
}

void
lmt_recorder_publish (LmtTraceLevel *level, guint32 call, gconstpointer copy, gsize len)
{
  lmt_recorder_publish_at (level, call, NULL, copy, len);
}

/* -------- arguments by value -------- */

static gsize
bound (const LmtTraceCall *call, const LmtTraceValue *values, guint32 n)
{
  gsize bytes = 16;

  for (guint32 i = 0; i < n; i++)
    {
      bytes += strlen (call->arguments[i]) + 24;
      if (values[i].kind >= LMT_TRACE_STR)
        bytes += values[i].len;
    }
  return bytes;
}

static void
pack_value (LmtPack *pack, const LmtTraceValue *value)
{
  switch (value->kind)
    {
    case LMT_TRACE_BOOL:
      lmt_pack_bool (pack, value->v.u != 0);
      break;
    case LMT_TRACE_INT:
      lmt_pack_int (pack, value->v.i);
      break;
    case LMT_TRACE_UINT:
      lmt_pack_uint (pack, value->v.u);
      break;
    case LMT_TRACE_DOUBLE:
      lmt_pack_double (pack, value->v.d);
      break;
    case LMT_TRACE_STR:
      lmt_pack_str (pack, value->v.data, value->len);
      break;
    case LMT_TRACE_BIN:
      lmt_pack_bin (pack, value->v.data, value->len);
      break;
    case LMT_TRACE_RAW:
      lmt_pack_raw (pack, value->v.data, value->len);
      break;
    default:
      lmt_pack_nil (pack);
      break;
    }
}

void
lmt_recorder_publish_values (LmtTraceLevel *level, guint32 call, const LmtTraceValue *values, guint32 n)
{
  const LmtTraceCall *what;
  guint32 n_names = 0;
  LmtPack pack;
  gpointer room;
  gsize bytes;

  g_return_if_fail (level != NULL && call < level->n_calls && (values != NULL || n == 0));
  if (!lmt_trace_is_on (level))
    return;
  what = &level->calls[call];
  while (what->arguments != NULL && what->arguments[n_names] != NULL)
    n_names++;
  g_return_if_fail (n_names == n && what->encode == NULL);

  bytes = bound (what, values, n);
  room = begin (level, call, bytes, NULL);
  if (room == NULL)
    return;
  lmt_pack_init_fixed (&pack, room, bytes);
  lmt_pack_map (&pack, n);
  for (guint32 i = 0; i < n; i++)
    {
      lmt_pack_str (&pack, what->arguments[i], strlen (what->arguments[i]));
      pack_value (&pack, &values[i]);
    }
  commit (level, pack.len, FALSE);
}
