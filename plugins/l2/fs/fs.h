/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include <lmtrace/lmt-plugin.h>

/*
 * Objects as files: one flat directory, one file an object, named and filled as LMCache 0.4.7 and later do it (l2-adapters.md 5).
 *   fs-l2.c       the table only
 *   fs-config.c   keys and their checks
 *   fs-open.c     open, close, probes of what the file system can do
 *   fs-scan.c     what lies in the directory
 *   fs-object.c   one operation on one object, start to end, on whatever thread
 *   fs-file.c     bytes in and out of a descriptor: whole, direct or buffered
 *   fs-threads.c  engine: a pool of threads that run fs-object.c
 *   fs-uring.c    engine: one ring; what doesn't go the plain way is left to a pool as above
 *   fs-chain.c    its requests and what their ends mean
 */

typedef struct
{
  char *base_path;
  char *relative_tmp_dir;
  char *engine;
  char *sync;
  char *integrity;
  char *file_mode;
  guint64 read_ahead_size;
  guint64 num_workers;
  guint64 num_read_workers;
  guint64 read_max_bytes_in_flight;
  guint64 depth;
  guint64 padded_align;
  double max_capacity_gb;
  double close_timeout_s;
  guint32 use_odirect;
  guint32 scan;
  guint32 clean_tmp;
  guint32 read_only;
  guint32 preallocate;
  guint32 drop_cache;
} FsConfig;

extern const LmtOption fs_options[];
gboolean fs_check (gconstpointer config, const char *type, GError **error);
/* Octal text; FALSE: it isn't. */
gboolean fs_parse_mode (const char *text, guint32 *mode);

typedef enum
{
  FS_SYNC_NONE,
  FS_SYNC_DATA,
  FS_SYNC_FULL,
} FsSync;

typedef struct _Fs Fs;

/* What a thread that runs operations owns. */
typedef struct
{
  void *bounce; /* FS_BOUNCE bytes, aligned; made on first use */
  int spare;    /* file without a name opened ahead of a store, + 1 */
  gboolean spare_direct;
  gboolean stored; /* its last operation was a store */
  int to_close;    /* descriptor of the last operation, + 1: closed by fs_worker_tidy(), when nobody waits any more */
} FsWorker;

enum
{
  FS_BOUNCE = 1024 * 1024,
  FS_MAX_ERRNO = 256,
};

/**
 * FsEngine: who runs the operations. All calls but the workers' own on the driving thread.
 */
typedef struct
{
  const char *name;
  gpointer (*open) (Fs *fs, GError **error);
  void (*close) (gpointer engine);                  /* joins; what was not begun is dropped */
  guint32 (*submit) (gpointer engine, LmtL2Io *io); /* LmtL2Submit */
  void (*flush) (gpointer engine);
  int (*get_fd) (gpointer engine); /* -1: none */
  guint32 (*reap) (gpointer engine, LmtL2Io **ios, guint32 max);
  void (*cancel) (gpointer engine, LmtL2Io *io);
  gboolean (*register_memory) (gpointer engine, void *base, guint64 bytes, GError **error); /* may be NULL */
  void (*status) (gpointer engine, LmtL2AddStatus add, gpointer data);                      /* may be NULL */
} FsEngine;

extern const FsEngine fs_engine_threads;
gboolean fs_threads_have_done (gconstpointer engine); /* something is to be reaped */
extern const FsEngine fs_engine_sync;
extern const FsEngine fs_engine_uring; /* only if built with liburing */

struct _Fs
{
  const LmtL2Host *host;
  char *path; /* as configured, for messages */
  char *tmp_name;
  int dir;     /* replaced when the directory comes back; under dir_mutex */
  int lock;    /* holds the lock on dir, nothing else */
  int tmp_dir; /* where named temporary files lie; may equal dir */
  guint32 depth;
  guint32 n_workers; /* at most */
  gboolean workers_asked;
  guint32 mode;
  FsSync sync;
  guint32 name_max;
  guint64 padded_align;
  guint64 read_ahead;
  gboolean read_only;
  gboolean shared;
  gboolean preallocate;
  gboolean drop_cache;
  gboolean crc32c;
  gboolean clean_tmp;
  gboolean no_scan;
  gboolean size_limited;  /* RLIMIT_FSIZE is set: writes may raise SIGXFSZ */
  atomic_int need_chmod;  /* files aren't born with `mode`: the umask or a default ACL takes from it */
  atomic_int use_tmpfile; /* O_TMPFILE and linkat of /proc/self/fd work here */
  gboolean link_empty;    /* and linkat of the descriptor itself */
  atomic_int direct;      /* O_DIRECT, until it turns out not to work */
  guint64 direct_memory;  /* alignment of addresses, */
  guint64 direct_offset;  /* of offsets and lengths */
  const FsEngine *engine;
  gpointer engine_data;
  int wake_fd;            /* eventfd of the ring, which the threads use too; -1: none */
  gboolean threads_write; /* stores and deletes are for the threads, also where there is a ring */

  /* driving thread: bounds of loads in flight */
  guint64 load_bytes;
  guint64 load_bytes_max;
  guint32 loads;
  guint32 loads_max;

  /* health */
  pthread_mutex_t dir_mutex;
  atomic_uint vanished; /* in a row */
  atomic_int unhealthy;
  atomic_int few_descriptors; /* said once */
  gint64 retry_at;

  /* sync: full: one fsync of the directory serves all that wait */
  pthread_mutex_t sync_mutex;
  pthread_cond_t sync_cond;
  guint64 sync_asked;
  guint64 sync_done;
  gboolean sync_running;

  /* persist_enabled: false */
  GHashTable *own; /* names written by this run; NULL: kept */
  pthread_mutex_t own_mutex;

  atomic_ullong temp_number;
  guint32 temp_random;
  atomic_ullong n_repaired;
  atomic_ullong n_damaged;
  guint64 n_foreign;
  guint64 n_old_layout;
  guint64 n_leftovers;
  guint64 leftover_bytes;
  guint64 n_debris_removed;
  guint64 n_shadowed;
  atomic_ullong errors[FS_MAX_ERRNO];
};

/* fs-open.c */
gpointer fs_open (gconstpointer config, const char *type, const LmtL2Host *host, LmtL2Info *info, GError **error);
void fs_close (gpointer handle);
/* The directory is gone (its descriptor has no links): counts, says so once, looks for it again each second. */
gboolean fs_dir_vanished (Fs *fs);
/* FALSE: known to be gone, don't try now. */
gboolean fs_dir_usable (Fs *fs);
void fs_dir_ok (Fs *fs);
int fs_temp_name (Fs *fs, char *name, gsize size);
G_GNUC_PRINTF (3, 4) void fs_say (Fs *fs, const char *kind, const char *format, ...);

/* fs-scan.c */
gboolean fs_scan (gpointer handle, LmtL2Visit visit, gpointer data, GError **error);
gboolean fs_holds_objects (Fs *fs);
gint64 fs_count_debris (Fs *fs);

/* fs-object.c */
void fs_perform (Fs *fs, FsWorker *worker, LmtL2Io *io);
/* First step of each operation: FALSE: its name or the directory is of no use, io says so. */
gboolean fs_admit (Fs *fs, LmtL2Io *io);
/* @what: the step that failed. Sets code and os_error, counts, says so. */
void fs_fail (Fs *fs, LmtL2Io *io, int error, const char *what);
/* ENOENT is an absent object, unless the whole directory is gone. */
void fs_fail_missing (Fs *fs, LmtL2Io *io);
void fs_lookup_found (Fs *fs, LmtL2Io *io, guint32 mode, guint64 bytes);
void fs_remember_own (Fs *fs, const char *name);
static inline guint32
fs_create_mode (Fs *fs)
{
  return atomic_load (&fs->need_chmod) ? 0600 : fs->mode;
}
void fs_worker_clear (FsWorker *worker);
void fs_worker_tidy (FsWorker *worker); /* after each fs_perform() */
void fs_worker_close_spare (FsWorker *worker);
/* A file without a name; -1 and errno. */
int fs_open_unnamed (Fs *fs, gboolean direct);
gboolean fs_size_fits (const Fs *fs, guint64 found, guint64 wanted);

/* fs-file.c. 0 or an errno; FS_SHORT: the file ended early. @buffer NULL: zeros are written, what is read is dropped. */
enum
{
  FS_SHORT = -1,
};
int fs_write_all (Fs *fs, FsWorker *worker, int fd, const void *buffer, guint64 bytes, gboolean direct);
int fs_read_all (Fs *fs, FsWorker *worker, int fd, void *buffer, guint64 bytes, gboolean direct);
guint32 fs_crc32c (guint32 crc, const void *data, gsize bytes);

/* fs-dio.c: alignments O_DIRECT wants for this file; FALSE: no direct I/O here. */
gboolean fs_dio_align (int fd, guint64 *memory, guint64 *offset);
