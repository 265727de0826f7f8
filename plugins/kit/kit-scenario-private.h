/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What kit-scenario.c (scenarios) and kit-steps.c (their steps) share. */
#include "kit-scenario.h"

enum
{
  POLL_MS = 1000,
  EVENTS_MS = 50,
  CLOSE_MS = 10000,
  FIRST_OPEN_MS = 20000,
  REPEATS = 20,
  PAGE = 4096,
  FILLED = 0xa5,
  SCRIBBLED = 0x5a,
};

typedef struct _KitProgress KitProgress;

struct _KitCheck
{
  LmtRegistry *registry;
  char *json;
  LmtL2Info info;
  guint patience_s;      /* for one result */
  guint n_timeouts;      /* waits in vain so far */
  guint n_objects;       /* found at the last look */
  KitProgress *progress; /* NULL: nobody watches */
};

/* Where the check is, for whoever watches it from outside (kit-child.h): what stands in front of its end if it crashes or hangs.
 */
G_GNUC_PRINTF (2, 3) void kit_progress (KitCheck *check, const char *format, ...);
/* It lives. @extra_ms: beyond the patience, what the next thing may take before it counts as hanging. */
void kit_beat (KitCheck *check, gint64 extra_ms);
void kit_progress_free (KitProgress *progress);

/* How long an operation may take: an adapter that let several waits pass in vain gets less. */
static inline gint64
kit_wait_ms (const KitCheck *check)
{
  return (gint64)check->patience_s * (check->n_timeouts < 3 ? 1000 : 100);
}

/* Memory of one object of one task: whole pages, and one before and behind them that nobody may touch. */
typedef struct
{
  guint8 *at;
  guint64 bytes;
  guint64 map_bytes; /* of the pages that may be touched */
  guint8 *copy;      /* step `stable` */
} Buffer;

typedef struct
{
  char *name;
  LmtL2Task task;
  GPtrArray *keys; /* LmtKey, a reference each */
  Buffer *buffers; /* NULL: lookup, delete */
  void **addresses;
  guint64 *sizes;
  guint8 *codes;
  gboolean refused;
  gboolean done;
  gboolean fetched;
} Task;

/* One run of one scenario. */
typedef struct
{
  KitCheck *check;
  const LmtJson *scenario;
  LmtKeyTable *keys;
  LmtL2Config *config;
  LmtL2 *l2;
  LmtEvict *evict;
  gboolean data;
  GHashTable *key_of_name; /* name -> LmtKey */
  GPtrArray *tasks;
  GString *events; /* JSON elements, each with a comma behind it */
  guint fds_before;
  guint threads_before;
  gboolean hurried; /* something failed: close needn't wait for long */
  char *protocol;   /* first thing the core said of an io that came back wrongly */
  char *why;
} Run;

/* What is wrong with a file that is to be run; NULL: nothing. Its schema is right. (transfer full) */
char *kit_scenario_check_file (const LmtJson *scenario);
const char *kit_scenario_get_text (const LmtJson *json, const char *name);
guint64 kit_scenario_get_number (const LmtJson *json, const char *name);
guint kit_scenario_get_length (const LmtJson *json, const char *name);
const LmtJson *kit_scenario_get_element (const LmtJson *json, const char *name, guint i);
guint kit_scenario_count_entries (const char *path);
/* Threads of the process; more than @expected get a second to end: the kernel's workers of a ring go after it was closed. */
guint kit_scenario_count_threads (guint expected);
/* Without those the kernel made for a ring of ours (io_uring): they leave when they have been idle for some seconds. */
guint kit_scenario_count_tasks (void);
void kit_scenario_make_keys (Run *run);
void kit_scenario_buffer_init (Buffer *buffer, guint64 bytes);
void kit_scenario_buffer_clear (Buffer *buffer);
gboolean kit_scenario_buffer_is_kept (const Buffer *buffer);
void kit_scenario_task_free (gpointer data);
gboolean kit_scenario_wait_task (Run *run, Task *task);
gboolean kit_scenario_open_adapter (Run *run);
gboolean kit_scenario_close_adapter (Run *run);
void kit_scenario_append_bits (Task *task, GString *out);
void kit_scenario_do_step (Run *run, const LmtJson *step, const char *op, GString *found);
Task *kit_scenario_find_task (Run *run, const char *name);
