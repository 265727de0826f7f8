// SPDX-License-Identifier: Apache-2.0
#pragma once

/* An open adapter and tasks on numbered objects: what the trials share. */
#include "kit-scenario-private.h"
#include "kit-trial.h"

enum
{
  KIT_JOB_KEYS = 8,
};

typedef struct
{
  KitCheck *check;
  LmtKeyTable *keys;
  LmtL2Config *config;
  LmtL2 *l2;
  guint n_in_flight; /* jobs */
  char *protocol;
  char *why; /* first thing that went wrong */
} KitRig;

typedef struct _KitJob KitJob;
typedef void (*KitJobDone) (KitRig *rig, KitJob *job, gpointer data);
struct _KitJob
{
  LmtL2Task task;
  guint64 numbers[KIT_JOB_KEYS];
  LmtKey *keys[KIT_JOB_KEYS];
  Buffer buffers[KIT_JOB_KEYS];
  void *addresses[KIT_JOB_KEYS];
  guint64 sizes[KIT_JOB_KEYS];
  guint8 codes[KIT_JOB_KEYS];
  KitJobDone done;
  gpointer data;
};

gboolean kit_rig_open (KitRig *rig, KitCheck *check);
/* Closes; complains of slow closes, lost operations, protocol errors. Sets `why` if it isn't set. */
void kit_rig_close (KitRig *rig);
G_GNUC_PRINTF (2, 3) void kit_rig_fail (KitRig *rig, const char *format, ...);
guint64 kit_object_bytes (guint64 number);
LmtKey *kit_object_key (KitRig *rig, guint64 number);
/* Submits; @done is called from kit_rig_collect(), the job is freed behind it. FALSE: refused, and told. */
gboolean kit_rig_submit (KitRig *rig, guint32 kind, const guint64 *numbers, guint n, KitJobDone done, gpointer data);
/* Hands out what is back, until at most @leave jobs are in flight. FALSE: nothing came back for too long, and told. */
gboolean kit_rig_collect (KitRig *rig, guint leave);
/* Did every load fill its buffer with its object, and touch nothing else? */
gboolean kit_job_is_whole (KitRig *rig, const KitJob *job);
/* Deletes every object the adapter knows. */
void kit_rig_wipe (KitRig *rig);
