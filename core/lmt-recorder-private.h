/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "lmt-recorder.h"

G_BEGIN_DECLS

/*
 * Who owns what. A ring belongs to its thread: it is written there, and given back by the destructor of the thread's key. The
 * drain of the recorder whose generation it bears reads it. A recorder that closes leaves the rings with their threads, so a call
 * that runs while it closes still writes into memory that is there; a thread that meets another generation makes its ring anew.
 * Hence no counting of users and no fence on the caller's side.
 */
enum
{
  LMT_TRACE_MAX_RECORDERS = 32,
  LMT_RING_MIN_BYTES = 64 * 1024,
  LMT_RING_DEFAULT_BYTES = 1024 * 1024,
  LMT_RING_ALIGN = 8,
  LMT_RING_MAX_EVENT = 0x7fffff00, /* sizes in a ring have 32 bits, and so has a frame's length */
  LMT_RING_SKIP = 0xffffffff,      /* LmtRingEvent.call: the rest of the ring is unused */
  LMT_CACHE_LINE = 64,
};

/* In front of each copy. Of a skip only the first two members are there. */
typedef struct
{
  guint32 size; /* with this head, a multiple of LMT_RING_ALIGN */
  guint32 call;
  gint64 mono_ns;
  gint64 wall_ns;
  guint64 len;
} LmtRingEvent;

typedef struct
{
  /* the thread's */
  _Alignas(LMT_CACHE_LINE) atomic_uint_fast64_t head;
  guint64 begun; /* where the event that is being filled starts: behind a skip, if there is one */
  guint64 known_tail;
  atomic_uint_fast64_t dropped;
  atomic_uint_fast64_t waits;
  /* the drain's */
  _Alignas(LMT_CACHE_LINE) atomic_uint_fast64_t tail;
  /* constant while the generation is; written by the thread under the hub's lock */
  _Alignas(LMT_CACHE_LINE) guint8 *data;
  guint64 bytes; /* power of two */
  guint64 max_event;
  guint32 generation;
  guint32 number;
  guint32 bit;
  guint32 block;
  const LmtTraceLevel *level;
  const LmtClock *clock; /* NULL: the system's two */
  gboolean wall_follows; /* wall = mono + wall_offset_ns */
  gint64 wall_offset_ns;
  gboolean orphan; /* hub's lock: the thread is gone */
} LmtRing;

/* One per bit of the gate; never freed. */
typedef struct
{
  atomic_uint generation; /* of the recorder; 0: free */
  atomic_uint wake_asked; /* so that only the first who sees a ring half full takes the lock */
  LmtRecorder *recorder;  /* hub's lock */

  pthread_mutex_t lock;
  pthread_cond_t wake; /* the drain waits for it */
  pthread_cond_t done; /* who waits for the drain */
  gboolean woken;
} LmtTraceSlot;

typedef struct
{
  pthread_mutex_t lock;
  guint32 last_generation;
  guint forks; /* how many forks this process is away from the one that loaded the library */
  LmtTraceSlot slots[LMT_TRACE_MAX_RECORDERS];
} LmtTraceHub;

LmtTraceHub *lmt_trace_hub (void);
void lmt_trace_wake (LmtTraceSlot *slot);
void lmt_ring_free (LmtRing *ring);

/* What stands between t_wall and the arguments of a call's records. */
typedef struct
{
  guint8 *bytes;
  gsize len;
} LmtTraceHead;

/* ---- the file: lmt-recorder-file.c. Used by the drain thread alone, once made. ---- */

typedef struct _LmtTraceFile LmtTraceFile;

/* What became of frames handed over: whole frames are never split over two files, nor left cut at the end of one. */
typedef struct
{
  guint64 records; /* written, as far as the system is concerned */
  guint64 bytes;
  guint64 file_bytes;
  guint files;
} LmtTraceFileFigures;

LmtTraceFile *lmt_trace_file_new (const LmtRecorderParams *params, GError **error);
void lmt_trace_file_free (LmtTraceFile *file); /* closes the descriptor, writes nothing */
/* The header frame, kept for the files that rotation begins. */
gboolean lmt_trace_file_header (LmtTraceFile *file, const LmtHeaderFields *fields, GError **error);
/* @frames: whole frames, @n of them. */
gboolean lmt_trace_file_write (LmtTraceFile *file, const LmtPack *frames, guint64 n, GError **error);
/* How many bytes of frames this file still takes: with none left the next write goes to the next one. */
gsize lmt_trace_file_room (const LmtTraceFile *file);
/* Compressed: ends the frame (member) if it is old or @now. */
gboolean lmt_trace_file_settle (LmtTraceFile *file, gboolean now, GError **error);
gboolean lmt_trace_file_close (LmtTraceFile *file, GError **error); /* settles, fsyncs, closes; free follows */
const LmtTraceFileFigures *lmt_trace_file_get_figures (const LmtTraceFile *file);
/* Records that were handed over and didn't get written. */
guint64 lmt_trace_file_get_lost (const LmtTraceFile *file);

/* ---- the recorder: lmt-recorder.c and lmt-recorder-drain.c ---- */

struct _LmtRecorder
{
  LmtTraceLevel *level;
  LmtTraceSlot *slot;
  guint bit;
  guint32 generation;
  pid_t pid;
  guint forks; /* of the hub when it was made: a pid comes again */
  char *path;
  guint32 schema;
  gboolean block;
  guint64 ring_bytes;
  const LmtClock *clock;
  gboolean wall_follows;
  gint64 wall_offset_ns;
  gint64 start_ns;
  double t_mono_start;
  double t_wall_start;
  guint8 *level_meta;
  gsize level_meta_len;

  pthread_mutex_t close_lock;
  pthread_t thread;
  gboolean closed;

  /* slot->lock */
  char *config_json;
  char *digest;
  gboolean header_asked;
  gboolean header_done;
  gboolean closing;
  guint64 flush_asked;
  guint64 flush_done;
  gboolean ended; /* the drain looks at nothing any more: nobody may wait for it */
  GError *error;  /* the first; it sticks */

  /* hub's lock */
  GPtrArray *rings; /* (element-type LmtRing): by number */
  guint32 n_rings;
  guint64 gone_dropped; /* of rings that are no longer there */
  guint64 gone_waits;

  /* the drain's; figures are for everybody */
  LmtTraceFile *file;
  LmtPack out;
  guint64 n_out;
  GArray *cursors;
  gboolean stopped; /* a write failed */
  atomic_uint_fast64_t records, bytes, file_bytes, encode_errors, write_errors;
  atomic_uint files;
};

void *lmt_recorder_drain (void *recorder);

static inline const LmtTraceHead *
lmt_trace_level_heads (const LmtTraceLevel *level)
{
  return (const LmtTraceHead *)level->own;
}

G_END_DECLS
