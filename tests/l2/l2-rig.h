/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <lmtrace/lmt-plugin.h>

/* An open adapter, and single operations on it that wait for their end. For tests of plugins. */
typedef struct
{
  LmtL2Config *config;
  LmtKeyTable *keys;
  const LmtClock *clock;
  LmtL2 *l2;
  GString *messages; /* a line each */
} Rig;

LmtRegistry *rig_registry (void);
/* FALSE: @error says why. @yes_destroy: (nullable). @clock: (nullable): the real one */
gboolean rig_try_open (Rig *rig, const char *json, const char *yes_destroy, const LmtClock *clock, GError **error);
/* printf style; anything but success fails the test. */
void rig_open (Rig *rig, const char *json_format, ...) G_GNUC_PRINTF (2, 3);
void rig_close (Rig *rig);
gboolean rig_said (Rig *rig, const char *text);

LmtKey *rig_key (Rig *rig, const char *model, guint number, const char *salt);
LmtKey *rig_key_of_json (Rig *rig, const LmtJson *key);
LmtL2Code rig_store (Rig *rig, LmtKey *key, const void *data, guint64 bytes);
LmtL2Code rig_load (Rig *rig, LmtKey *key, void *data, guint64 bytes);
LmtL2Code rig_lookup (Rig *rig, LmtKey *key, guint64 expected); /* and unlocks */
LmtL2Code rig_delete (Rig *rig, LmtKey *key);
/* Stores and loads fill (seed, bytes); a load that succeeds with other bytes fails the test. */
LmtL2Code rig_store_fill (Rig *rig, LmtKey *key, guint64 seed, guint64 bytes);
LmtL2Code rig_load_fill (Rig *rig, LmtKey *key, guint64 seed, guint64 bytes);
/* Value of the plugin's status, or NULL. (transfer full) */
char *rig_status (Rig *rig, const char *name);
/* The fs adapter's ring can be had here: built in, and allowed. */
gboolean rig_has_uring (void);
/* For LmtL2Params.message; @rig: a Rig, whose messages grow. */
void rig_on_message (gpointer rig, const char *kind, const char *text);

/* A fresh folder, and its end with all that is in it. (transfer full) */
char *make_temp_dir (void);
void remove_tree (const char *path);
guint count_files (const char *path);
LmtJson *read_json (const char *first, ...) G_GNUC_NULL_TERMINATED; /* path below LMT_TEST_DATA */
const char *get_text (const LmtJson *json, const char *name);
guint64 get_number (const LmtJson *json, const char *name);
