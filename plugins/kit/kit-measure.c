// SPDX-License-Identifier: Apache-2.0
#include "kit-measure.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

enum
{
  PAGE = 4096,
  HUGE_PAGE = 2 << 20,
  STALL_S = 30,
};

/* One task in flight: one key, one buffer. */
typedef struct
{
  LmtL2Task task;
  LmtKey *key;
  void *buffer;
  guint64 bytes;
  guint64 number; /* of the object */
  guint8 code;
  gboolean busy;
} Slot;

struct _KitBench
{
  LmtRegistry *registry;
  KitBenchParams params;
  LmtL2Config *config;
  LmtKeyTable *keys;
  const LmtClock *clock;
  LmtL2 *l2;
  void *map; /* whole huge pages, and what was needed to align them */
  guint64 map_bytes;
  guint8 *memory;
  guint64 memory_bytes;
  guint64 slot_bytes;
  Slot *slots;
  guint *free_slots;
  guint n_free;
  guint32 depth_max;
  guint64 head, tail;
  guint64 next_load; /* KIT_ORDER_SEQUENTIAL */
  GArray *sizes;     /* by number: an object is loaded with the size it was stored with */
  guint64 random_n;
  KitPhase *phase;
  gboolean verify;
};

/* -------- open, close -------- */

static gboolean
make_memory (KitBench *bench, GError **error)
{
  guint64 slot = (MAX (bench->params.largest_bytes, 1) + PAGE - 1) / PAGE * PAGE;
  guint64 bytes;
  if (!g_uint64_checked_mul (&bytes, slot, bench->depth_max) || bytes > G_MAXINT64 - 2 * HUGE_PAGE)
    {
      g_set_error (error, LMT_ERROR, LMT_ERROR_OPTION,
                   "expected buffers that fit into memory, found %u of %" G_GUINT64_FORMAT " bytes", bench->depth_max, slot);
      return FALSE;
    }
  guint64 whole = (bytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
  void *at = mmap (NULL, whole + HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED)
    {
      g_set_error (error, LMT_ERROR, LMT_ERROR_IO, "cannot get memory for %u buffers of %" G_GUINT64_FORMAT " bytes: %s",
                   bench->depth_max, slot, g_strerror (errno));
      return FALSE;
    }
  bench->map = at;
  bench->map_bytes = whole + HUGE_PAGE;
  bench->memory = (guint8 *)(((guintptr)at + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE);
  bench->memory_bytes = bytes;
  /* As the L1 pool has it: what lies in one piece in memory goes to a device as one piece. */
  madvise (bench->memory, whole, MADV_HUGEPAGE);
  bench->slot_bytes = slot;
  /* Contents that no medium packs; also the first touch of each page, outside of what is measured. */
  for (guint i = 0; i < bench->depth_max; i++)
    lmt_fill (bench->params.seed + i, bench->memory + i * slot, slot);
  return TRUE;
}

KitBench *
kit_bench_new (LmtRegistry *registry, const char *json, const KitBenchParams *params, GError **error)
{
  g_autoptr (KitBench) bench = g_new0 (KitBench, 1);
  bench->registry = g_object_ref (registry);
  bench->params = *params;
  bench->depth_max = MAX (params->depth_max, 1);
  bench->clock = lmt_clock_real ();
  bench->keys = lmt_key_table_new ();
  bench->sizes = g_array_new (FALSE, TRUE, sizeof (guint64));
  if (bench->params.stall_ns <= 0)
    bench->params.stall_ns = (gint64)STALL_S * 1000000000;
  bench->config = lmt_l2_config_parse (registry, json, 1, error);
  if (bench->config == NULL || !make_memory (bench, error))
    return NULL;
  LmtL2Params l2_params = { .struct_size = sizeof l2_params,
                            .clock = bench->clock,
                            .keys = bench->keys,
                            .memory = bench->memory,
                            .memory_bytes = bench->memory_bytes,
                            .data_wanted = TRUE,
                            .message = params->message,
                            .more = params->more,
                            .message_data = params->message_data,
                            .largest_object_bytes = params->largest_bytes };
  bench->l2 = lmt_l2_open (bench->config, &l2_params, error);
  if (bench->l2 == NULL)
    return NULL;
  bench->slots = g_new0 (Slot, bench->depth_max);
  bench->free_slots = g_new (guint, bench->depth_max);
  for (guint i = 0; i < bench->depth_max; i++)
    {
      bench->slots[i].buffer = bench->memory + i * bench->slot_bytes;
      bench->free_slots[bench->n_free++] = bench->depth_max - 1 - i;
    }
  return g_steal_pointer (&bench);
}

guint
kit_bench_close (KitBench *bench, gint64 timeout_ns)
{
  guint lost = lmt_l2_close (bench->l2, timeout_ns);
  while (lmt_l2_reap (bench->l2) != NULL)
    ;
  return lost;
}

void
kit_bench_free (KitBench *bench)
{
  if (bench == NULL)
    return;
  if (bench->l2 != NULL)
    kit_bench_close (bench, -1);
  g_clear_pointer (&bench->l2, lmt_l2_free);
  for (guint i = 0; bench->slots != NULL && i < bench->depth_max; i++)
    if (bench->slots[i].key != NULL)
      lmt_key_unref (bench->keys, bench->slots[i].key);
  g_clear_pointer (&bench->config, lmt_l2_config_free);
  g_clear_pointer (&bench->keys, lmt_key_table_free);
  if (bench->map != NULL)
    munmap (bench->map, bench->map_bytes);
  g_free (bench->slots);
  g_free (bench->free_slots);
  g_array_unref (bench->sizes);
  g_object_unref (bench->registry);
  g_free (bench);
}

LmtL2 *
kit_bench_get_l2 (KitBench *bench)
{
  return bench->l2;
}

guint64
kit_bench_get_memory (const KitBench *bench)
{
  return bench->memory_bytes;
}

guint64
kit_bench_get_window (const KitBench *bench)
{
  return bench->head - bench->tail;
}

/* -------- objects -------- */

static guint64
draw (KitBench *bench)
{
  return lmt_mix64 (bench->params.seed + ++bench->random_n * G_GUINT64_CONSTANT (0x9E3779B97F4A7C15));
}

static gboolean
draw_below (KitBench *bench, double share)
{
  return share > 0 && (share >= 1 || (double)(draw (bench) >> 11) * 0x1p-53 < share);
}

static LmtKey *
key_of (KitBench *bench, guint64 number)
{
  static const char model[] = "lmtrace/bench";
  guint64 hash[4] = { lmt_mix64 (number + 1), number, bench->params.seed, 0x6b6974 };
  for (guint i = 0; i < 4; i++)
    hash[i] = GUINT64_TO_LE (hash[i]);
  LmtKeyFields fields = { .struct_size = sizeof fields,
                          .rank = 0x01000100,
                          .hash = (const guint8 *)hash,
                          .hash_len = sizeof hash,
                          .model = model,
                          .model_len = sizeof model - 1,
                          .salt = "",
                          .salt_len = 0 };
  return lmt_key_table_intern (bench->keys, &fields);
}

/* The object's number at the head of each page: no two pages on the medium are equal, and a load can be told from another's. */
static void
stamp (guint8 *at, guint64 bytes, guint64 number)
{
  for (guint64 page = 0; page + sizeof number <= bytes; page += PAGE)
    {
      guint64 word = GUINT64_TO_LE (lmt_mix64 (number + 1) + page);
      memcpy (at + page, &word, sizeof word);
    }
}

static gboolean
is_stamped (const guint8 *at, guint64 bytes, guint64 number, guint64 page)
{
  guint64 word;
  if (page + sizeof word > bytes)
    return TRUE;
  memcpy (&word, at + page, sizeof word);
  return GUINT64_FROM_LE (word) == lmt_mix64 (number + 1) + page;
}

/* -------- the loop -------- */

static void
on_io (gpointer data, const LmtL2Io *io, gint64 submit_ns, gint64 done_ns)
{
  KitBench *bench = data;
  KitFigures *figures = &bench->phase->kind[io->kind];
  gint64 start = CLAMP (io->service_start_ns, submit_ns, MAX (done_ns, submit_ns));
  gint64 asked = submit_ns;
  if (io->buffer != NULL)
    asked = bench->slots[((guint8 *)io->buffer - bench->memory) / bench->slot_bytes].task.submit_ns;
  lmt_stats_add (figures->service, done_ns - start);
  lmt_stats_add (figures->queue, start - MIN (asked, start));
}

/* FALSE: there is nothing of that kind to do now. */
static gboolean
submit_one (KitBench *bench, guint32 kind, guint64 number, guint64 bytes)
{
  Slot *slot = &bench->slots[bench->free_slots[bench->n_free - 1]];
  LmtL2Code refused = LMT_L2_OK;
  slot->key = key_of (bench, number);
  slot->number = number;
  slot->bytes = bytes;
  slot->task = (LmtL2Task){ .kind = kind,
                            .n = 1,
                            .keys = &slot->key,
                            .buffers = &slot->buffer,
                            .sizes = kind == LMT_L2_DELETE ? NULL : &slot->bytes,
                            .codes = &slot->code,
                            .user_data = slot };
  if (kind == LMT_L2_STORE)
    stamp (slot->buffer, bytes, number);
  else if (kind == LMT_L2_LOAD && bench->verify)
    memset (slot->buffer, 0, MIN (bytes, sizeof (guint64)));
  if (!lmt_l2_submit (bench->l2, &slot->task, &refused))
    {
      bench->phase->kind[kind].ops++;
      bench->phase->kind[kind].codes[refused]++;
      lmt_key_unref (bench->keys, slot->key);
      slot->key = NULL;
      return FALSE;
    }
  slot->busy = TRUE;
  bench->n_free--;
  bench->phase->depth_max = MAX (bench->phase->depth_max, MAX (lmt_l2_in_flight (bench->l2), 1));
  return TRUE;
}

static void
take_back (KitBench *bench, LmtL2Task *task)
{
  Slot *slot = task->user_data;
  KitFigures *figures = &bench->phase->kind[task->kind];
  figures->ops++;
  figures->bytes += task->bytes;
  figures->codes[slot->code]++;
  lmt_stats_add (figures->completion, task->done_ns - task->submit_ns);
  if (task->kind == LMT_L2_LOAD && bench->verify && slot->code == LMT_L2_OK
      && (!is_stamped (slot->buffer, slot->bytes, slot->number, 0)
          || (slot->bytes > 0 && !is_stamped (slot->buffer, slot->bytes, slot->number, (slot->bytes - 1) / PAGE * PAGE))))
    figures->wrong++;
  if (task->kind == LMT_L2_LOOKUP)
    lmt_l2_unlock (bench->l2, &slot->key, 1);
  lmt_key_unref (bench->keys, slot->key);
  slot->key = NULL;
  slot->busy = FALSE;
  bench->free_slots[bench->n_free++] = (guint)(slot - bench->slots);
}

/* Smallest number a store is in flight for, or head: what lies before it can be loaded without waiting for a store. */
static guint64
first_unfinished (const KitBench *bench)
{
  guint64 first = bench->head;
  for (guint i = 0; i < bench->depth_max; i++)
    if (bench->slots[i].busy && bench->slots[i].task.kind == LMT_L2_STORE)
      first = MIN (first, bench->slots[i].number);
  return first;
}

static gboolean
submit_read (KitBench *bench, const KitPhaseSpec *spec)
{
  guint64 end = spec->read_share >= 1 ? bench->head : first_unfinished (bench);
  if (end <= bench->tail)
    return FALSE;
  guint64 number;
  if (spec->order == KIT_ORDER_SEQUENTIAL)
    {
      if (bench->next_load < bench->tail || bench->next_load >= end)
        bench->next_load = bench->tail;
      number = bench->next_load++;
    }
  else
    number = bench->tail + draw (bench) % (end - bench->tail);
  guint32 kind = draw_below (bench, spec->lookup_share) ? LMT_L2_LOOKUP : LMT_L2_LOAD;
  return submit_one (bench, kind, number, g_array_index (bench->sizes, guint64, number));
}

static gboolean
submit_store (KitBench *bench, const KitPhaseSpec *spec)
{
  guint64 bytes = MIN (spec->object_bytes, bench->slot_bytes);
  if (!submit_one (bench, LMT_L2_STORE, bench->head, bytes))
    return FALSE;
  g_array_append_val (bench->sizes, bytes);
  bench->head++;
  return TRUE;
}

static gboolean
may_delete (const KitBench *bench)
{
  return (lmt_l2_get_info (bench->l2)->capabilities & LMT_L2_CAP_DELETE) != 0;
}

/* One operation more in flight. */
static gboolean
submit_next (KitBench *bench, const KitPhaseSpec *spec, guint64 *left)
{
  if (spec->window > 0 && bench->head - bench->tail > spec->window && may_delete (bench))
    {
      if (!submit_one (bench, LMT_L2_DELETE, bench->tail, 0))
        return FALSE;
      bench->tail++;
      return TRUE;
    }
  if (*left == 0)
    return FALSE;
  gboolean done = draw_below (bench, spec->read_share) ? submit_read (bench, spec) : FALSE;
  if (!done && spec->read_share < 1)
    done = submit_store (bench, spec);
  if (done)
    (*left)--;
  return done;
}

static gboolean
wait_for_some (KitBench *bench, gint64 *last)
{
  int fd = lmt_l2_get_fd (bench->l2);
  gint64 due = lmt_l2_next_due_ns (bench->l2), now = lmt_clock_now (bench->clock);
  if (now - *last >= bench->params.stall_ns)
    return FALSE;
  gint64 until = *last + bench->params.stall_ns;
  if (due >= 0)
    until = MIN (until, due);
  else if (fd < 0)
    until = MIN (until, now + 20000);
  bench->clock->sleep_until_ns (bench->clock->data, until, &fd, fd >= 0 ? 1 : 0);
  return TRUE;
}

static double
cpu_seconds (void)
{
  struct rusage usage;
  getrusage (RUSAGE_SELF, &usage);
  return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec)
         + (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6;
}

static void
phase_init (KitPhase *phase)
{
  memset (phase, 0, sizeof *phase);
  for (guint kind = 0; kind < LMT_L2_N_KINDS; kind++)
    {
      KitFigures *figures = &phase->kind[kind];
      figures->completion = lmt_stats_new ();
      figures->service = lmt_stats_new ();
      figures->queue = lmt_stats_new ();
      lmt_stats_reserve (figures->completion);
      lmt_stats_reserve (figures->service);
      lmt_stats_reserve (figures->queue);
    }
}

void
kit_phase_clear (KitPhase *phase)
{
  for (guint kind = 0; kind < LMT_L2_N_KINDS; kind++)
    {
      g_clear_pointer (&phase->kind[kind].completion, lmt_stats_free);
      g_clear_pointer (&phase->kind[kind].service, lmt_stats_free);
      g_clear_pointer (&phase->kind[kind].queue, lmt_stats_free);
    }
}

void
kit_bench_run (KitBench *bench, const KitPhaseSpec *spec, KitPhase *phase)
{
  guint depth = CLAMP (spec->depth, 1, bench->depth_max), in_flight;
  guint64 left = spec->count > 0 ? spec->count : G_MAXUINT64;
  phase_init (phase);
  bench->phase = phase;
  bench->verify = spec->verify && (lmt_l2_get_info (bench->l2)->capabilities & LMT_L2_CAP_DATA) != 0;
  lmt_l2_set_observer (bench->l2, on_io, bench);
  const LmtL2Figures *figures = lmt_l2_get_figures (bench->l2);
  gint64 busy = figures->busy_ns;
  double area = figures->depth_mean * (double)busy, cpu = cpu_seconds ();
  gint64 start = lmt_clock_now (bench->clock), last = start;
  gint64 end = spec->time_ns > 0 ? start + spec->time_ns : G_MAXINT64;
  for (;;)
    {
      gboolean any = FALSE;
      if (bench->params.interrupts != NULL && *bench->params.interrupts > 0)
        {
          phase->interrupted = TRUE;
          left = 0;
        }
      in_flight = bench->depth_max - bench->n_free;
      while (in_flight < depth && !phase->interrupted && submit_next (bench, spec, &left))
        in_flight++;
      lmt_l2_flush (bench->l2);
      for (LmtL2Task *task; (task = lmt_l2_reap (bench->l2)) != NULL; any = TRUE)
        take_back (bench, task);
      gint64 now = lmt_clock_now (bench->clock);
      if (any)
        last = now;
      if (now >= end)
        left = 0;
      in_flight = bench->depth_max - bench->n_free;
      if (in_flight == 0 && (left == 0 || !any))
        break;
      if (!any && !wait_for_some (bench, &last))
        {
          phase->stalled = TRUE;
          break;
        }
    }
  phase->elapsed_ns = last - start;
  phase->cpu_s = cpu_seconds () - cpu;
  figures = lmt_l2_get_figures (bench->l2);
  phase->depth_mean
      = figures->busy_ns > busy ? (figures->depth_mean * (double)figures->busy_ns - area) / (double)(figures->busy_ns - busy) : 0;
  lmt_l2_set_observer (bench->l2, NULL, NULL);
}

gboolean
kit_bench_remove_all (KitBench *bench, guint depth, KitPhase *phase)
{
  KitPhase own = { 0 };
  const KitPhaseSpec spec = { .object_bytes = 1, .depth = depth, .read_share = 1, .count = 0 };
  KitPhase *out = phase != NULL ? phase : &own;
  if (!may_delete (bench))
    return bench->head == bench->tail;
  phase_init (out);
  bench->phase = out;
  lmt_l2_set_observer (bench->l2, on_io, bench);
  gint64 start = lmt_clock_now (bench->clock), last = start;
  while (bench->head > bench->tail || bench->n_free < bench->depth_max)
    {
      gboolean any = FALSE;
      while (bench->head > bench->tail && bench->depth_max - bench->n_free < CLAMP (spec.depth, 1, bench->depth_max)
             && submit_one (bench, LMT_L2_DELETE, bench->tail, 0))
        bench->tail++;
      lmt_l2_flush (bench->l2);
      for (LmtL2Task *task; (task = lmt_l2_reap (bench->l2)) != NULL; any = TRUE)
        take_back (bench, task);
      if (any)
        last = lmt_clock_now (bench->clock);
      else if (!wait_for_some (bench, &last))
        {
          out->stalled = TRUE;
          break;
        }
    }
  out->elapsed_ns = last - start;
  lmt_l2_set_observer (bench->l2, NULL, NULL);
  gboolean good = !out->stalled && kit_phase_errors (bench, out, LMT_L2_DELETE) == 0;
  if (phase == NULL)
    kit_phase_clear (&own);
  return good;
}

/* -------- figures -------- */

double
kit_phase_mib_per_s (const KitPhase *phase, guint kind)
{
  return phase->elapsed_ns > 0 ? (double)phase->kind[kind].bytes / 1048576.0 / ((double)phase->elapsed_ns / 1e9) : 0;
}

double
kit_phase_iops (const KitPhase *phase, guint kind)
{
  return phase->elapsed_ns > 0 ? (double)phase->kind[kind].ops / ((double)phase->elapsed_ns / 1e9) : 0;
}

double
kit_phase_cpu_per_gib (const KitPhase *phase)
{
  double gib = (double)(phase->kind[LMT_L2_STORE].bytes + phase->kind[LMT_L2_LOAD].bytes) / 1073741824.0;
  return gib > 0 ? phase->cpu_s / gib : 0;
}

guint64
kit_phase_errors (const KitBench *bench, const KitPhase *phase, guint kind)
{
  const KitFigures *figures = &phase->kind[kind];
  gboolean keeps = (lmt_l2_get_info (bench->l2)->capabilities & LMT_L2_CAP_KEEP) != 0;
  guint64 n = figures->wrong;
  for (guint code = 0; code < LMT_L2_N_CODES; code++)
    if (code != LMT_L2_OK && code != LMT_L2_PRESENT && (code != LMT_L2_NOT_FOUND || keeps))
      n += figures->codes[code];
  return n;
}
