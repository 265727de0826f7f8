/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <sys/stat.h>

#include "fs.h"

#include <liburing.h>

/*
 * Shared by fs-uring.c (ring, slots, hand-over) and fs-chain.c (requests of an operation, and what their ends mean). All of it is
 * the driving thread's. A lookup or a load whose name is in the kernel's memory is answered, or its file opened, at once: that
 * costs two microseconds, where each step of a chain costs a turn of the ring. Everything else goes in stages: an operation has a
 * slot while the ring works for it, and each stage is a chain of requests, whose completions
 * are all awaited; an end that isn't the plain one is never judged here: what the chain took is given back, and the operation is
 * done over by the threads (fs_perform), so that every error has one meaning and one message, whatever the engine.
 */
enum
{
  URING_STEPS = 8,    /* requests of a chain */
  URING_SPARES = 8,   /* files without a name opened ahead */
  URING_REGION = 30,  /* registered memory is cut into pieces of 2^30 bytes, the kernel's limit */
  URING_SINK = 65536, /* one block, whatever the alignment */
};
#define URING_LARGEST (G_GUINT64_CONSTANT (1) << 30)
/* Without data: that much of nothing is written from, and read into, one place. */
#define URING_NOTHING (G_GUINT64_CONSTANT (64) << 20)

typedef enum
{
  STAGE_FREE,
  STAGE_LOOK,   /* statx */
  STAGE_WAIT,   /* store: for a file without a name */
  STAGE_WRITE,  /* store: the chain that ends with the name */
  STAGE_SYNC,   /* store: for the directory's fsync */
  STAGE_READ,   /* load: the chain */
  STAGE_FILL,   /* load: the read alone, of a file that could be opened at once */
  STAGE_UNLINK, /* delete */
} UringStage;

typedef enum
{
  STEP_LOOK,
  STEP_OPEN,
  STEP_SPACE,
  STEP_MOVE, /* read or write */
  STEP_MORE, /* load: does the file go on? */
  STEP_SYNC,
  STEP_ADVICE,
  STEP_NAME,
  STEP_CLOSE,
  STEP_UNLINK,
  N_STEPS,
} UringStep;

typedef struct
{
  LmtL2Io *io;
  guint8 stage;
  guint8 left; /* completions to come */
  guint8 cancelled;
  guint8 direct;
  int fd;        /* file without a name; file to load from */
  guint32 moved; /* of the object, before the move that runs */
  guint32 next;  /* in a list: index + 1 */
  gint32 res[N_STEPS];
  char name[64]; /* temporary name, or the file without one under /proc */
  struct statx st;
} UringSlot;

typedef struct
{
  int fd;
  gboolean direct;
} UringSpare;

typedef struct
{
  guint32 head; /* index + 1 */
  guint32 tail;
  guint32 n;
} UringList;

typedef struct
{
  Fs *fs;
  struct io_uring ring;
  int event_fd; /* told of completions by ring and threads: a ring whose work waits for its thread doesn't wake who polls it */
  gboolean enabled;   /* on the driving thread, which is the only one to submit from then on */
  gboolean closing;   /* no new stage */
  guint32 n_requests; /* whose completion is to come */
  guint32 n_slots;
  guint32 n_ios;        /* taken and not handed back */
  guint32 n_idle_looks; /* reaps that found nothing, with nothing in flight */
  guint32 free_head;    /* index + 1 */
  UringSlot *slots;
  UringList waiting; /* stores without a file */
  UringList to_sync; /* stores whose name isn't durable yet */
  UringList syncing; /* of them, those the running fsync covers */
  guint32 n_stores;
  UringSpare spares[URING_SPARES];
  guint32 n_spares;
  guint32 n_opening;
  gint64 last_store_us;
  LmtL2Io **done; /* ring of n_slots */
  guint32 done_head;
  guint32 n_done;
  void *sink;     /* what lies behind an object, if anything */
  void *zeros;    /* without data: read-only, never touched: costs no memory */
  void *nowhere;  /* without data: what is loaded */
  guint8 *memory; /* registered */
  guint64 memory_bytes;
  gboolean no_flag;   /* renames can't refuse to replace here */
  gboolean no_cached; /* the kernel can't open without waiting */
  /* the threads */
  gpointer pool;
  guint32 pool_ios;
  gboolean pool_new; /* since the last flush */
  /* what happened */
  guint64 n_plain;
  guint64 n_at_once;
  guint64 n_continued;
  guint64 n_by_threads;
  guint64 n_fixed;
} Uring;

/* fs-uring.c */
/* FALSE: the queue has no room for another chain. */
gboolean uring_has_room (Uring *uring);
/* Only after uring_has_room(), which is asked once a chain. */
struct io_uring_sqe *uring_request (Uring *uring, UringSlot *slot, UringStep step);
void uring_finish (Uring *uring, UringSlot *slot);  /* io is filled */
void uring_by_hand (Uring *uring, UringSlot *slot); /* the threads do it over */
void uring_top_up (Uring *uring);
void uring_sync_dir (Uring *uring);
static inline guint32
uring_index (const Uring *uring, const UringSlot *slot)
{
  return (guint32)(slot - uring->slots);
}
void uring_list_add (Uring *uring, UringList *list, UringSlot *slot);
UringSlot *uring_list_take (Uring *uring, UringList *list); /* (nullable) */

/* fs-chain.c */
gboolean uring_is_plain (Uring *uring, const LmtL2Io *io); /* FALSE: for the threads */
typedef enum
{
  NOW_DONE,   /* io is filled */
  NOW_OPEN,   /* *fd is open, of a file of the right size */
  NOW_QUEUE,  /* through the ring */
  NOW_THREAD, /* by the threads */
} UringNow;

/* What can be had without waiting for a disk: names the kernel has in memory. */
UringNow uring_try_now (Uring *uring, LmtL2Io *io, int *fd);
void uring_begin (Uring *uring, UringSlot *slot);
void uring_begin_fill (Uring *uring, UringSlot *slot, int fd);
void uring_begin_write (Uring *uring, UringSlot *slot);
void uring_stage_done (Uring *uring, UringSlot *slot);
