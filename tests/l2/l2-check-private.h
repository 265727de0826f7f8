/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What l2-check.c (scenarios) and l2-check-steps.c (their steps) share. */
#include "l2-check.h"

enum
{
  WAIT_MS = 10000,
  POLL_MS = 1000,
  EVENTS_MS = 50,
  CLOSE_MS = 10000,
  REPEATS = 20,
  PAGE = 4096,
  FILLED = 0xa5,
  SCRIBBLED = 0x5a,
};

struct _L2Check
{
  LmtRegistry *registry;
  char *json;
};

/* Memory of one object of one task: whole pages, and one behind them that nobody may touch. */
typedef struct
{
  guint8 *at;
  guint64 bytes;
  guint64 map_bytes;
  guint8 *copy; /* step `stable` */
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
  L2Check *check;
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
  char *why;
} Run;

const char *l2_check_get_text (const LmtJson *json, const char *name);
guint64 l2_check_get_number (const LmtJson *json, const char *name);
guint l2_check_get_length (const LmtJson *json, const char *name);
const LmtJson *l2_check_get_element (const LmtJson *json, const char *name, guint i);
guint l2_check_count_entries (const char *path);
void l2_check_make_keys (Run *run);
gboolean l2_check_buffer_is_kept (const Buffer *buffer);
void l2_check_task_free (gpointer data);
gboolean l2_check_wait_task (Run *run, Task *task);
gboolean l2_check_open_adapter (Run *run);
gboolean l2_check_close_adapter (Run *run);
void l2_check_append_bits (Task *task, GString *out);
void l2_check_do_step (Run *run, const LmtJson *step, const char *op, GString *found);
Task *l2_check_find_task (Run *run, const char *name);
