/* SPDX-License-Identifier: Apache-2.0 */
#include "fs-uring.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Low bits of a request's user data: the step, or one of these; above: the slot. */
enum
{
  DATA_SPARE = N_STEPS,
  DATA_SYNC,
  DATA_BITS = 8,
};

enum
{
  SPARE_US = 50000, /* files opened ahead are kept so long after the last store */
};

/* -------- requests -------- */

gboolean
uring_has_room (Uring *uring)
{
  /* It was made for all that all slots can ask for at once: only a kernel that takes less than it is given gets us here. */
  if (G_LIKELY (io_uring_sq_space_left (&uring->ring) >= URING_STEPS))
    return TRUE;
  if (uring->enabled)
    io_uring_submit (&uring->ring);
  return io_uring_sq_space_left (&uring->ring) >= URING_STEPS;
}

/* The prep functions leave user_data alone. */
static struct io_uring_sqe *
take_request (Uring *uring, guint64 data)
{
  struct io_uring_sqe *sqe = io_uring_get_sqe (&uring->ring);
  sqe->user_data = data;
  return sqe;
}

struct io_uring_sqe *
uring_request (Uring *uring, UringSlot *slot, UringStep step)
{
  slot->left++;
  uring->n_requests++;
  return take_request (uring, ((guint64)uring_index (uring, slot) << DATA_BITS) | step);
}

void
uring_list_add (Uring *uring, UringList *list, UringSlot *slot)
{
  guint32 at = uring_index (uring, slot) + 1;
  slot->next = 0;
  if (list->tail != 0)
    uring->slots[list->tail - 1].next = at;
  else
    list->head = at;
  list->tail = at;
  list->n++;
}

UringSlot *
uring_list_take (Uring *uring, UringList *list)
{
  if (list->head == 0)
    return NULL;
  UringSlot *slot = &uring->slots[list->head - 1];
  list->head = slot->next;
  if (list->head == 0)
    list->tail = 0;
  list->n--;
  return slot;
}

/* -------- slots -------- */

static void
free_slot (Uring *uring, UringSlot *slot)
{
  if (slot->io->kind == LMT_L2_STORE && --uring->n_stores == 0)
    uring->last_store_us = g_get_monotonic_time ();
  slot->io = NULL;
  slot->stage = STAGE_FREE;
  slot->next = uring->free_head;
  uring->free_head = uring_index (uring, slot) + 1;
}

static UringSlot *
take_slot (Uring *uring, LmtL2Io *io)
{
  UringSlot *slot = &uring->slots[uring->free_head - 1];
  uring->free_head = slot->next;
  slot->io = io;
  slot->cancelled = FALSE;
  slot->left = 0;
  slot->moved = 0;
  slot->fd = -1;
  uring->n_stores += io->kind == LMT_L2_STORE;
  io->plugin[0] = uring_index (uring, slot) + 1;
  return slot;
}

static void
hand_back (Uring *uring, LmtL2Io *io)
{
  uring->done[(uring->done_head + uring->n_done++) % uring->n_slots] = io;
}

void
uring_finish (Uring *uring, UringSlot *slot)
{
  LmtL2Io *io = slot->io;
  if (io->code != LMT_L2_IO)
    fs_dir_ok (uring->fs);
  free_slot (uring, slot);
  hand_back (uring, io);
}

/* -------- the threads -------- */

static void
give_to_pool (Uring *uring, LmtL2Io *io)
{
  io->plugin[0] = 0;
  uring->n_by_threads++;
  g_autoptr (GError) error = NULL;
  if (uring->pool == NULL)
    uring->pool = fs_engine_threads.open (uring->fs, &error);
  if (uring->pool != NULL && fs_engine_threads.submit (uring->pool, io) == LMT_L2_SUBMIT_QUEUED)
    {
      uring->pool_ios++;
      uring->pool_new = TRUE;
      return;
    }
  fs_say (uring->fs, "threads", "%s", error != NULL ? error->message : "fs: the threads have no room");
  io->code = LMT_L2_BUSY;
  hand_back (uring, io);
}

void
uring_by_hand (Uring *uring, UringSlot *slot)
{
  LmtL2Io *io = slot->io;
  free_slot (uring, slot);
  io->code = LMT_L2_IO;
  io->os_error = 0;
  io->done_bytes = io->object_bytes = 0;
  if (uring->closing)
    {
      io->code = LMT_L2_CLOSED;
      hand_back (uring, io);
    }
  else
    give_to_pool (uring, io);
}

static gboolean
pool_waits (const Uring *uring)
{
  return uring->pool_ios > 0 && fs_threads_have_done (uring->pool);
}

static gboolean
reap_pool (Uring *uring)
{
  guint32 before = uring->pool_ios;
  LmtL2Io *ios[32];
  guint32 n;
  do
    {
      n = fs_engine_threads.reap (uring->pool, ios, G_N_ELEMENTS (ios));
      for (guint32 i = 0; i < n; i++)
        hand_back (uring, ios[i]);
      uring->pool_ios -= n;
    }
  while (n == G_N_ELEMENTS (ios));
  return uring->pool_ios < before;
}

static void
wake_pool (Uring *uring)
{
  if (!uring->pool_new)
    return;
  uring->pool_new = FALSE;
  fs_engine_threads.flush (uring->pool);
}

/* -------- files without a name, and the directory's fsync -------- */

/* Enough for the stores that wait, and some ahead: what opens now costs the next store nothing. */
void
uring_top_up (Uring *uring)
{
  Fs *fs = uring->fs;
  if (uring->closing || uring->n_stores == 0 || !atomic_load (&fs->use_tmpfile))
    return;
  guint32 want = MIN (uring->waiting.n + MIN (uring->n_stores, URING_SPARES), uring->n_slots);
  while (uring->n_spares + uring->n_opening < want && uring_has_room (uring))
    {
      gboolean direct = atomic_load (&fs->direct) != 0;
      int flags = O_WRONLY | O_CLOEXEC | O_TMPFILE | (direct ? O_DIRECT : 0);
      io_uring_prep_openat (take_request (uring, ((guint64)direct << DATA_BITS) | DATA_SPARE), fs->tmp_dir, ".", flags,
                            fs_create_mode (fs));
      uring->n_opening++;
      uring->n_requests++;
    }
}

static void
drop_spares (Uring *uring)
{
  while (uring->n_spares > 0)
    close (uring->spares[--uring->n_spares].fd);
}

/* Nobody stores any more: hold nothing open. Between two stores one after the other they stay. */
static void
drop_old_spares (Uring *uring)
{
  if (g_get_monotonic_time () - uring->last_store_us > SPARE_US && uring->n_opening == 0)
    drop_spares (uring);
}

static void
end_waiting (Uring *uring, UringSlot *slot)
{
  slot->io->code = LMT_L2_CLOSED;
  uring_finish (uring, slot);
}

static void
spare_opened (Uring *uring, int fd, gboolean direct)
{
  Fs *fs = uring->fs;
  uring->n_opening--;
  UringSlot *slot = NULL;
  if (fd < 0)
    {
      if (fd == -EOPNOTSUPP || fd == -EISDIR)
        atomic_store (&fs->use_tmpfile, FALSE);
      /* Why not is found out, and said, by doing it again. */
      if ((slot = uring_list_take (uring, &uring->waiting)) != NULL)
        uring_by_hand (uring, slot);
      return;
    }
  if (uring->n_spares == URING_SPARES || uring->closing)
    {
      close (fd);
      return;
    }
  uring->spares[uring->n_spares++] = (UringSpare){ .fd = fd, .direct = direct };
  while (uring->n_spares > 0 && (slot = uring_list_take (uring, &uring->waiting)) != NULL)
    {
      if (!slot->cancelled)
        uring_begin_write (uring, slot);
      else
        end_waiting (uring, slot);
      if (slot->stage == STAGE_WAIT)
        break;
    }
}

static void
dir_synced (Uring *uring, int res)
{
  UringSlot *slot;
  while ((slot = uring_list_take (uring, &uring->syncing)) != NULL)
    {
      slot->io->code = LMT_L2_OK;
      if (res < 0)
        {
          slot->io->done_bytes = 0;
          fs_fail (uring->fs, slot->io, -res, "publish");
        }
      else
        uring->n_plain++;
      uring_finish (uring, slot);
    }
}

void
uring_sync_dir (Uring *uring)
{
  if (uring->syncing.n > 0 || uring->to_sync.n == 0)
    return;
  uring->syncing = uring->to_sync;
  uring->to_sync = (UringList){ 0 };
  if (uring_has_room (uring))
    {
      io_uring_prep_fsync (take_request (uring, DATA_SYNC), uring->fs->dir, 0);
      uring->n_requests++;
    }
  else
    dir_synced (uring, fsync (uring->fs->dir) == 0 ? 0 : -errno);
}

/* -------- completions -------- */

static void
complete (Uring *uring, guint64 data, gint32 res)
{
  guint step = data & ((1U << DATA_BITS) - 1);
  guint64 what = data >> DATA_BITS;
  uring->n_requests--;
  if (step == DATA_SPARE)
    spare_opened (uring, res, what != 0);
  else if (step == DATA_SYNC)
    {
      dir_synced (uring, res);
      uring_sync_dir (uring);
    }
  else if (step < N_STEPS && what < uring->n_slots)
    {
      UringSlot *slot = &uring->slots[what];
      slot->res[step] = res;
      if (--slot->left == 0)
        uring_stage_done (uring, slot);
    }
}

static gboolean
take_completions (Uring *uring)
{
  struct io_uring_cqe *cqes[64];
  gboolean any = FALSE;
  unsigned n;
  while ((n = io_uring_peek_batch_cqe (&uring->ring, cqes, G_N_ELEMENTS (cqes))) > 0)
    {
      for (unsigned i = 0; i < n; i++)
        complete (uring, cqes[i]->user_data, cqes[i]->res);
      io_uring_cq_advance (&uring->ring, n);
      any = TRUE;
    }
  return any;
}

static void
enter (Uring *uring)
{
  if (G_UNLIKELY (!uring->enabled))
    {
      /* From here on this is the thread that submits. By hand: liburing 2.3 forgot to export its call. */
      if (syscall (__NR_io_uring_register, uring->ring.ring_fd, IORING_REGISTER_ENABLE_RINGS, NULL, 0) < 0)
        fs_say (uring->fs, "io_uring", "fs: io_uring: %s", g_strerror (errno));
      io_uring_register_ring_fd (&uring->ring);
      uring->enabled = TRUE;
    }
  while (io_uring_sq_ready (&uring->ring) > 0)
    {
      int n = io_uring_submit_and_get_events (&uring->ring);
      if (n == -EINTR)
        continue;
      if (G_UNLIKELY (n < 0 && n != -EAGAIN && n != -EBUSY))
        fs_say (uring->fs, "io_uring", "fs: io_uring: %s", g_strerror (-n));
      if (n <= 0)
        break;
    }
}

/* -------- FsEngine -------- */

static guint32
submit_to_pool (Uring *uring, LmtL2Io *io)
{
  uring->n_ios++;
  give_to_pool (uring, io);
  return LMT_L2_SUBMIT_QUEUED;
}

static guint32
engine_submit (gpointer engine, LmtL2Io *io)
{
  Uring *uring = engine;
  int fd = -1;
  if (uring->n_ios == uring->n_slots)
    return LMT_L2_SUBMIT_BUSY;
  uring->n_idle_looks = 0;
  if (!uring_is_plain (uring, io) || !uring_has_room (uring))
    return submit_to_pool (uring, io);
  if (!fs_admit (uring->fs, io))
    return LMT_L2_SUBMIT_DONE;
  UringNow now = uring_try_now (uring, io, &fd);
  if (now == NOW_DONE)
    {
      uring->n_at_once++;
      if (io->code != LMT_L2_IO)
        fs_dir_ok (uring->fs);
      return LMT_L2_SUBMIT_DONE;
    }
  if (now == NOW_THREAD)
    return submit_to_pool (uring, io);
  uring->n_ios++;
  UringSlot *slot = take_slot (uring, io);
  if (now == NOW_OPEN)
    uring_begin_fill (uring, slot, fd);
  else
    uring_begin (uring, slot);
  if (io->kind == LMT_L2_STORE)
    uring_top_up (uring);
  return LMT_L2_SUBMIT_QUEUED;
}

static void
engine_flush (gpointer engine)
{
  Uring *uring = engine;
  wake_pool (uring);
  enter (uring);
}

static int
engine_get_fd (gpointer engine)
{
  return ((Uring *)engine)->event_fd;
}

static gboolean
something_waits (Uring *uring)
{
  return io_uring_cq_ready (&uring->ring) > 0
         || (IO_URING_READ_ONCE (*uring->ring.sq.kflags) & (IORING_SQ_CQ_OVERFLOW | IORING_SQ_TASKRUN)) != 0;
}

/* FALSE: it wasn't readable. */
static gboolean
read_event (Uring *uring)
{
  guint64 count;
  if (read (uring->event_fd, &count, sizeof count) > 0)
    return TRUE;
  if (errno != EAGAIN && errno != EINTR)
    fs_say (uring->fs, "io_uring", "fs: io_uring: eventfd: %s", g_strerror (errno));
  return FALSE;
}

static void
write_event (Uring *uring)
{
  const guint64 one = 1;
  if (write (uring->event_fd, &one, sizeof one) < 0)
    fs_say (uring->fs, "io_uring", "fs: io_uring: eventfd: %s", g_strerror (errno));
}

/* What is there at once, as after inline completions, is taken at once; not for ever. What the ring tells of while we look is
 * seen without its descriptor, so it is told to be silent. */
static gboolean
take_all (Uring *uring)
{
  gboolean any = FALSE;
  /* Before anything is taken: what comes later makes it readable again. */
  if (something_waits (uring) || pool_waits (uring))
    read_event (uring);
  for (guint i = 0; i < 4 && something_waits (uring); i++)
    {
      io_uring_cq_eventfd_toggle (&uring->ring, false);
      any |= take_completions (uring);
      uring_top_up (uring);
      wake_pool (uring);
      enter (uring);
      io_uring_cq_eventfd_toggle (&uring->ring, true);
      /* The kernel marks work, then looks whether to tell; we allow it to tell, then look for the mark. One of the two must see
       * the other: without a full fence between our store and our load neither may, and the wake-up is lost for good. */
      atomic_thread_fence (memory_order_seq_cst);
    }
  if (io_uring_sq_ready (&uring->ring) > 0)
    enter (uring);
  if (pool_waits (uring))
    any |= reap_pool (uring);
  return any;
}

static guint32
engine_reap (gpointer engine, LmtL2Io **ios, guint32 max)
{
  Uring *uring = engine;
  if (uring->enabled)
    {
      /* Nothing, and yet it may be readable: of ends that were seen before they were told. With nothing in flight the first look
       * is the one that ends a round, and who looks again was woken. */
      if (!take_all (uring) && (uring->n_ios > 0 || uring->n_idle_looks++ > 0) && read_event (uring))
        take_all (uring);
      if (uring->n_spares > 0 && uring->n_stores == 0 && uring->n_done == 0)
        drop_old_spares (uring);
    }
  guint32 n = MIN (uring->n_done, max);
  for (guint32 i = 0; i < n; i++)
    ios[i] = uring->done[(uring->done_head + i) % uring->n_slots];
  uring->done_head = (uring->done_head + n) % uring->n_slots;
  uring->n_done -= n;
  uring->n_ios -= n;
  if (G_UNLIKELY (
          uring->n_done > 0
          || (uring->enabled && (something_waits (uring) || pool_waits (uring))))) /* the descriptor has to stay readable */
    write_event (uring);
  return n;
}

static void
engine_cancel (gpointer engine, LmtL2Io *io)
{
  Uring *uring = engine;
  if (io->plugin[0] != 0)
    uring->slots[io->plugin[0] - 1].cancelled = TRUE;
  else if (uring->pool != NULL)
    fs_engine_threads.cancel (uring->pool, io);
}

static gboolean
register_pieces (Uring *uring, void *base, guint64 bytes)
{
  guint n = (guint)((bytes + URING_LARGEST - 1) >> URING_REGION);
  g_autofree struct iovec *pieces = g_new0 (struct iovec, n);
  for (guint i = 0; i < n; i++)
    {
      guint64 at = (guint64)i << URING_REGION;
      pieces[i] = (struct iovec){ (guint8 *)base + at, (gsize)MIN (bytes - at, URING_LARGEST) };
    }
  int failed = io_uring_register_buffers (&uring->ring, pieces, n);
  errno = -failed;
  return failed == 0;
}

static gboolean
engine_register_memory (gpointer engine, void *base, guint64 bytes, GError **error)
{
  Uring *uring = engine;
  /* Copies into and out of the page cache pin nothing: there is nothing to save. */
  if (!atomic_load (&uring->fs->direct) || bytes == 0)
    return TRUE;
  /* What is registered is in memory at once and stays there. */
  guint64 here = (guint64)sysconf (_SC_PHYS_PAGES) * (guint64)sysconf (_SC_PAGESIZE);
  if (bytes > here / 2)
    {
      g_set_error (error, LMT_L2_ERROR, LMT_L2_NO_SPACE, "%" G_GUINT64_FORMAT " bytes are more than half of the machine's memory",
                   bytes);
      return FALSE;
    }
  if (register_pieces (uring, base, bytes))
    {
      uring->memory = base;
      uring->memory_bytes = bytes;
      return TRUE;
    }
  g_set_error (error, LMT_L2_ERROR, LMT_L2_NO_SPACE, "%s%s", g_strerror (errno),
               errno == ENOMEM ? " (RLIMIT_MEMLOCK, ulimit -l)" : "");
  return FALSE;
}

static void
engine_status (gpointer engine, LmtL2AddStatus add, gpointer data)
{
  const Uring *uring = engine;
  const struct
  {
    const char *key;
    guint64 value;
  } values[] = {
    { "ring_ops", uring->n_plain },        { "at_once_ops", uring->n_at_once },         { "continued_moves", uring->n_continued },
    { "thread_ops", uring->n_by_threads }, { "registered_bytes", uring->memory_bytes }, { "registered_ops", uring->n_fixed },
  };
  for (guint i = 0; i < G_N_ELEMENTS (values); i++)
    {
      char text[32];
      g_snprintf (text, sizeof text, "%" G_GUINT64_FORMAT, values[i].value);
      add (data, values[i].key, text);
    }
}

/* -------- open, close -------- */

static int
set_up_ring (Uring *uring)
{
  /* Six requests an operation at most, an open ahead, and what the engine itself asks for. */
  unsigned entries = 64;
  while (entries < uring->n_slots * 8 + 32)
    entries *= 2;
  struct io_uring_params best = { .flags = IORING_SETUP_R_DISABLED | IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN
                                           | IORING_SETUP_TASKRUN_FLAG | IORING_SETUP_CLAMP };
  int failed = io_uring_queue_init_params (entries, &uring->ring, &best);
  if (failed != -EINVAL)
    return failed;
  /* Before 6.1 */
  struct io_uring_params plain = { .flags = IORING_SETUP_R_DISABLED | IORING_SETUP_CLAMP };
  return io_uring_queue_init_params (entries, &uring->ring, &plain);
}

static gboolean
knows_all (Uring *uring)
{
  static const int needed[]
      = { IORING_OP_OPENAT,     IORING_OP_CLOSE,   IORING_OP_STATX,    IORING_OP_READ,        IORING_OP_WRITE,
          IORING_OP_READ_FIXED, IORING_OP_FSYNC,   IORING_OP_LINKAT,   IORING_OP_WRITE_FIXED, IORING_OP_RENAMEAT,
          IORING_OP_FALLOCATE,  IORING_OP_FADVISE, IORING_OP_UNLINKAT, IORING_OP_POLL_ADD };
  struct io_uring_probe *probe = io_uring_get_probe_ring (&uring->ring);
  gboolean all = probe != NULL;
  for (guint i = 0; i < G_N_ELEMENTS (needed) && all; i++)
    all = io_uring_opcode_supported (probe, needed[i]);
  if (probe != NULL)
    io_uring_free_probe (probe);
  return all;
}

static void *
map_nothing (guint64 bytes, int protection)
{
  void *at = mmap (NULL, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return at != MAP_FAILED ? at : NULL;
}

static gboolean
need_memory (Uring *uring)
{
  uring->sink = map_nothing (URING_SINK, PROT_READ | PROT_WRITE);
  if (uring->fs->host->data_wanted)
    return uring->sink != NULL;
  uring->zeros = map_nothing (URING_NOTHING, PROT_READ);
  uring->nowhere = map_nothing (URING_NOTHING, PROT_READ | PROT_WRITE);
  return uring->sink != NULL && uring->zeros != NULL && uring->nowhere != NULL;
}

static void
unmap (void *at, guint64 bytes)
{
  if (at != NULL)
    munmap (at, bytes);
}

static void
free_uring (Uring *uring)
{
  if (uring->event_fd >= 0)
    close (uring->event_fd);
  uring->fs->wake_fd = -1;
  unmap (uring->sink, URING_SINK);
  unmap (uring->zeros, URING_NOTHING);
  unmap (uring->nowhere, URING_NOTHING);
  g_free (uring->slots);
  g_free (uring->done);
  g_free (uring);
}

static gpointer
refuse_open (Uring *uring, gboolean has_ring, const char *why, GError **error)
{
  if (has_ring)
    io_uring_queue_exit (&uring->ring);
  free_uring (uring);
  g_set_error_literal (error, LMT_L2_ERROR, LMT_L2_UNSUPPORTED, why);
  return NULL;
}

static gpointer
engine_open (Fs *fs, GError **error)
{
  Uring *uring = g_new0 (Uring, 1);
  uring->fs = fs;
  uring->n_slots = fs->depth;
  uring->event_fd = fs->wake_fd = eventfd (0, EFD_NONBLOCK | EFD_CLOEXEC);
  int failed = set_up_ring (uring);
  if (failed < 0)
    {
      g_autofree char *why = g_ascii_strdown (g_strerror (-failed), -1);
      return refuse_open (uring, FALSE, why, error);
    }
  if (!knows_all (uring))
    return refuse_open (uring, TRUE, "the kernel is too old: it can't link, rename or unlink through a ring", error);
  if ((failed = io_uring_register_files_sparse (&uring->ring, uring->n_slots)) < 0)
    {
      g_autofree char *why = g_strdup_printf ("no table of %u files: %s", uring->n_slots, g_strerror (-failed));
      return refuse_open (uring, TRUE, why, error);
    }
  if (uring->event_fd < 0 || io_uring_register_eventfd (&uring->ring, uring->event_fd) < 0)
    return refuse_open (uring, TRUE, "no eventfd", error);
  if (!need_memory (uring))
    return refuse_open (uring, TRUE, "no memory", error);
  uring->slots = g_new0 (UringSlot, uring->n_slots);
  uring->done = g_new0 (LmtL2Io *, uring->n_slots);
  for (guint32 i = uring->n_slots; i > 0; i--)
    {
      uring->slots[i - 1].next = uring->free_head;
      uring->free_head = i;
    }
  return uring;
}

/* Stages that run are finished, none is begun: afterwards nobody touches a buffer. */
static void
engine_close (gpointer engine)
{
  Uring *uring = engine;
  uring->closing = TRUE;
  for (guint32 i = 0; i < uring->n_slots; i++)
    uring->slots[i].cancelled = TRUE;
  if (uring->enabled)
    while (uring->n_requests > 0)
      {
        enter (uring);
        if (!take_completions (uring))
          io_uring_submit_and_wait (&uring->ring, 1);
      }
  drop_spares (uring);
  if (uring->pool != NULL)
    fs_engine_threads.close (uring->pool);
  io_uring_queue_exit (&uring->ring);
  free_uring (uring);
}

const FsEngine fs_engine_uring = {
  .name = "io_uring",
  .open = engine_open,
  .close = engine_close,
  .submit = engine_submit,
  .flush = engine_flush,
  .get_fd = engine_get_fd,
  .reap = engine_reap,
  .cancel = engine_cancel,
  .register_memory = engine_register_memory,
  .status = engine_status,
};
