/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <lmtrace/lmt-json.h>

#include "manager/manager-private.h"

/**
 * SECTION: the runner of the conformance scenarios (storage-manager.md 15). It builds what it found as JSON text, member by
 * member, and compares it with what the file says.
 */
typedef struct
{
  const LmtJson *json;
  const char *path;
  const char *name;
  LmtKeyTable *table;
  GHashTable *keys;  /* name -> LmtKey, one reference each */
  GHashTable *names; /* LmtKey -> name */
  guint failures;
  GString *found; /* of the running step: members of `expect` */
  LmtJsonWriter *writer;
  char *skip; /* why the rest is left out */
} Scenario;

void scenario_load (Scenario *scenario);
void scenario_clear (Scenario *scenario);
LmtKey *scenario_key (const Scenario *scenario, const char *name);
const char *scenario_key_name (const Scenario *scenario, const LmtKey *key);
/* (transfer container) (element-type LmtKey*): of a JSON list of names */
GPtrArray *scenario_keys (const Scenario *scenario, const LmtJson *list);
guint64 scenario_layout_bytes (const Scenario *scenario, const char *name);
/* -1: the shapes and dtypes make no size */
gint64 scenario_object_bytes (const LmtJson *shapes, const LmtJson *dtypes);

/* Members; defaults if absent or null. */
const char *member_string (const LmtJson *json, const char *name, const char *fallback);
gint64 member_int (const LmtJson *json, const char *name, gint64 fallback);
double member_double (const LmtJson *json, const char *name, double fallback);
gboolean member_bool (const LmtJson *json, const char *name);
const LmtJson *member_object (const LmtJson *json, const char *name); /* NULL also for null */

/* The found document. */
void found_begin (Scenario *scenario);
LmtJson *found_end (Scenario *scenario);
void write_key (Scenario *scenario, const LmtKey *key);
void write_keys (Scenario *scenario, const char *member, LmtKey *const *keys, guint n);
void write_codes (Scenario *scenario, const char *member, LmtKey *const *keys, const guint8 *codes, guint n);
void write_policy (Scenario *scenario, const LmtEvict *policy);
void write_state_keys (Scenario *scenario, const LmtSm *sm, gint64 now, const char *(*tag_name) (const char *tag, gpointer data),
                       gpointer data);

/* Every member of @expected stands in @found with the same value; prints what doesn't. */
void compare_members (Scenario *scenario, const char *where, const LmtJson *expected, const LmtJson *found);
/* The same value altogether. */
void compare_exactly (Scenario *scenario, const char *where, const LmtJson *expected, const LmtJson *found);
void fail (Scenario *scenario, const char *where, const char *expected, const char *found);

/* What a step says, with the member `lmtrace` in the place of LMCache's. */
const LmtJson *step_member (const LmtJson *step, const char *name);

/* ---- kinds ---- */
void run_policy (Scenario *scenario);
void run_l1 (Scenario *scenario);
void run_table (Scenario *scenario);
void run_config_table (Scenario *scenario);
void run_manager (Scenario *scenario);

/* ---- events ---- */
typedef struct
{
  Scenario *scenario;
  GPtrArray *texts; /* one JSON object each, members sorted */
  const char *(*tag_name) (const char *tag, gpointer data);
  gpointer data;
} EventLog;
EventLog *event_log_new (Scenario *scenario);
void event_log_free (EventLog *log);
void event_log_listen (const SmEvent *event, gpointer data);
/* Compares with `events` or `events_unordered` of the step, if it has one, and empties the log. */
void event_log_check (EventLog *log, const char *where, const LmtJson *step);

/* ---- the scripted adapter (15) ---- */
typedef struct _Scripted Scripted;
typedef struct _World World;
typedef struct
{
  guint32 id;
  guint32 adapter;
  guint8 *codes;
  guint64 bytes;
  int event; /* -1: none */
  GPtrArray *keys;
  GArray *sizes;
} Done;
struct _World
{
  Scenario *scenario;
  LmtSm *sm;
  gint64 now;
  guint8 *memory;
  Scripted **adapters;
  guint n_adapters;
  GArray *done; /* Done: executed tasks, in order, not handed over yet */
  EventLog *log;
  GHashTable *handles;  /* name -> request number + 1 */
  GHashTable *results;  /* request number -> JSON text of the result */
  GHashTable *contexts; /* name -> Context */
  gboolean closed;
};
Scripted *scripted_new (World *world, guint number, guint64 capacity);
void scripted_free (Scripted *adapter);
/* Takes an I/O, executes it unless its kind is held. FALSE: refused. */
gboolean scripted_submit (Scripted *adapter, const SmIo *io);
void scripted_unlock (Scripted *adapter, const SmIo *io);
void scripted_put (Scripted *adapter, LmtKey *const *keys, guint n, guint64 bytes);
void scripted_delete (Scripted *adapter, LmtKey *const *keys, guint n);
void scripted_hold (Scripted *adapter, guint kind);
void scripted_release (Scripted *adapter, guint kind, gint64 count);
guint scripted_held (const Scripted *adapter, guint kind);
void scripted_fail_store (Scripted *adapter, gboolean on);
void scripted_fail_load (Scripted *adapter, const GPtrArray *keys);
void scripted_fail_submit (Scripted *adapter, guint kind, gboolean on);
void scripted_write_state (Scripted *adapter);
void scripted_hand_over (World *world);
guint io_kind_from_text (const char *text);

guint8 pattern_byte (const LmtKey *key);
gboolean pattern_matches (const guint8 *data, guint64 bytes, const LmtKey *key);
